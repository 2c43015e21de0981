//! What can be wrong with a model file, one variant a kind of fault. Every message says what, where and what to do about it;
//! texts that come out of the file are escaped, so that a hostile file cannot write to the terminal.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a model file was refused. `Display` ends with a line `hint: …`; [`LoadError::hint`] gives that part alone.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The operating system would not open, stat or map the file.
    #[error("{path}: {source}\nhint: {hint}", path = .path.display(), hint = self.hint())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// The path leads to a directory, pipe or device.
    #[error("{path}: not a regular file\nhint: {hint}", path = .path.display(), hint = self.hint())]
    NotAFile {
        /// The path as given.
        path: PathBuf,
    },

    /// One of the other variants, found in this file.
    #[error("{path}: {error}", path = .path.display())]
    In {
        /// The file.
        path: PathBuf,
        /// The fault in it.
        error: Box<LoadError>,
    },

    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: it begins with {} where \"GGUF\" should stand\nhint: {}", Text(.found), self.hint())]
    Magic {
        /// The bytes found, at most four.
        found: Vec<u8>,
    },

    /// A version of the format that is not read.
    #[error("GGUF version {found}, but only versions 2 and 3 are read\nhint: {}", self.hint())]
    Version {
        /// The version the file states.
        found: u32,
    },

    /// The file was written on, or for, a big-endian machine.
    #[error("a big-endian GGUF file\nhint: {}", self.hint())]
    BigEndian,

    /// The bytes end before what was announced.
    #[error("at byte {offset}: {what} needs {needs} bytes, but {left} are left\nhint: {}", self.hint())]
    Truncated {
        /// What was being read.
        what: String,
        /// Where in the file, in bytes from its start.
        offset: u64,
        /// Bytes it needs at least.
        needs: u64,
        /// Bytes the file still has there.
        left: u64,
    },

    /// A number that no sane file contains: a count, a length, an id, a nesting depth.
    #[error("at byte {offset}: {what} is {found}, but {expected}\nhint: {}", self.hint())]
    Implausible {
        /// What was being read.
        what: String,
        /// Where in the file, in bytes from its start.
        offset: u64,
        /// The number found.
        found: u64,
        /// What it should be.
        expected: String,
    },

    /// Bytes that must be text are not UTF-8.
    #[error("{what} is not UTF-8: {}\nhint: {}", Text(.found), self.hint())]
    NotUtf8 {
        /// Which text.
        what: String,
        /// The bytes, at most the first 40.
        found: Vec<u8>,
    },

    /// A metadata key or tensor name occurs twice.
    #[error("{what} {} occurs twice\nhint: {}", Text(.name.as_bytes()), self.hint())]
    Duplicate {
        /// `metadata key` or `tensor`.
        what: &'static str,
        /// The name.
        name: String,
    },

    /// A tensor's dimensions, type or place in the file make no sense.
    #[error("tensor {}: {problem}\nhint: {}", Text(.name.as_bytes()), self.hint())]
    BadTensor {
        /// The tensor.
        name: String,
        /// What is wrong with it.
        problem: String,
    },

    /// The parts of a split model do not belong together or are not all there.
    #[error("split model: {problem}\nhint: {}", self.hint())]
    Split {
        /// What is wrong.
        problem: String,
    },

    /// A metadata key that has to be there is not.
    #[error("metadata key {key} is missing\nhint: {}", self.hint())]
    MissingKey {
        /// The key.
        key: String,
    },

    /// A metadata value is of another type than its meaning needs.
    #[error("metadata key {key}: expected {expected}, found {found}\nhint: {}", self.hint())]
    WrongType {
        /// The key.
        key: String,
        /// The type or types that would do.
        expected: &'static str,
        /// The type in the file.
        found: String,
    },

    /// A metadata value is of the right type and absurd.
    #[error("metadata key {key} is {found}, but {expected}\nhint: {}", self.hint())]
    BadValue {
        /// The key.
        key: String,
        /// The value in the file.
        found: String,
        /// What it should be.
        expected: String,
    },

    /// The file is of an architecture that is not known.
    #[error("model architecture {} is not supported; supported are {supported}\nhint: {}", Text(.found.as_bytes()), self.hint())]
    UnknownArch {
        /// What the file states.
        found: String,
        /// Comma-separated list of the known ones.
        supported: String,
    },

    /// The file asks for something that this program does not compute.
    #[error("setting {key} = {value} is not supported: {why}\nhint: {}", self.hint())]
    Unsupported {
        /// The metadata key.
        key: String,
        /// Its value.
        value: String,
        /// What it would mean, or that it is unknown.
        why: String,
    },

    /// A file with a vocabulary and no weights, where a model is needed.
    #[error("the file has a vocabulary but no tensors\nhint: {}", self.hint())]
    VocabularyOnly,

    /// A tensor that the architecture needs is not in the file.
    #[error("tensor {name} {shape} is missing\nhint: {}", self.hint())]
    MissingTensor {
        /// Its name.
        name: String,
        /// Its shape in ggml order.
        shape: String,
    },

    /// A tensor of other dimensions than the metadata ask for.
    #[error("tensor {name} has shape {found}, but the metadata ask for {expected}\nhint: {}", self.hint())]
    WrongShape {
        /// Its name.
        name: String,
        /// Shape by the metadata, ggml order.
        expected: String,
        /// Shape in the file, ggml order.
        found: String,
    },

    /// A tensor of a type that cannot be used in its place.
    #[error("tensor {name} is of type {found}, but {expected}\nhint: {}", self.hint())]
    WrongTensorType {
        /// Its name.
        name: String,
        /// Type in the file.
        found: &'static str,
        /// What would do.
        expected: &'static str,
    },

    /// A tensor that the architecture does not know, so that the result would silently lack it.
    #[error("tensor {} is not part of the {arch} architecture as known here\nhint: {}", Text(.name.as_bytes()), self.hint())]
    UnknownTensor {
        /// Its name.
        name: String,
        /// The architecture.
        arch: &'static str,
    },
}

impl LoadError {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            LoadError::In { error, .. } => error.hint(),
            LoadError::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => "check the path; a model is a file ending in .gguf",
                io::ErrorKind::PermissionDenied => "make the file readable for this user",
                _ => "check that the file lies on a file system that can be read and mapped",
            },
            LoadError::NotAFile { .. } => "name the .gguf file itself",
            LoadError::Magic { .. } => {
                "a model is a file ending in .gguf; safetensors and PyTorch files have to be converted first"
            }
            LoadError::Version { found: 0 | 1 } => {
                "the file predates August 2023; download or convert the model anew"
            }
            LoadError::Version { .. } => {
                "the file is newer than this program or damaged; update the program or download the file again"
            }
            LoadError::BigEndian => "take the little-endian file of this model",
            LoadError::Truncated { .. } => {
                "the download probably broke off; compare the file's size and download it again"
            }
            LoadError::Implausible { .. }
            | LoadError::NotUtf8 { .. }
            | LoadError::Duplicate { .. }
            | LoadError::BadTensor { .. } => {
                "the file is damaged or was written by a faulty program; download or convert it again"
            }
            LoadError::Split { .. } => {
                "put all parts, named NAME-00001-of-0000N.gguf as they were published, into one folder and name any of them"
            }
            LoadError::MissingKey { .. } | LoadError::WrongType { .. } | LoadError::BadValue { .. } => {
                "the metadata are incomplete or damaged; convert the model again with a current converter"
            }
            LoadError::UnknownArch { .. } => {
                "choose a model of a supported architecture; `general.architecture` names it"
            }
            LoadError::Unsupported { .. } => "choose a variant of the model without this setting",
            LoadError::VocabularyOnly => "it can be used to tokenize; take the model's full file to run it",
            LoadError::MissingTensor { .. } => {
                "the file is incomplete: check that it is a whole model and not an adapter, projector or part"
            }
            LoadError::WrongShape { .. } => {
                "metadata and weights are not of the same model; convert it again"
            }
            LoadError::WrongTensorType { .. } => "quantize the model again with a current program",
            LoadError::UnknownTensor { .. } => {
                "the model was changed in a way that is not supported; take the original one"
            }
        }
    }

    /// The same fault with the name of the file it was found in.
    pub(crate) fn in_file(self, path: &Path) -> LoadError {
        match self {
            named @ (LoadError::Io { .. } | LoadError::NotAFile { .. } | LoadError::In { .. }) => named,
            error => LoadError::In { path: path.to_owned(), error: Box::new(error) },
        }
    }

    /// The fault itself, without the file it was found in.
    pub fn kind(&self) -> &LoadError {
        match self {
            LoadError::In { error, .. } => error.kind(),
            other => other,
        }
    }
}

/// Bytes of a file as quoted, escaped and shortened text.
pub(crate) struct Text<'a>(pub &'a [u8]);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 80;
        let shown = &self.0[..self.0.len().min(SHOWN)];
        f.write_str("\"")?;
        for chunk in shown.utf8_chunks() {
            write!(f, "{}", chunk.valid().escape_debug())?;
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        f.write_str(if self.0.len() > SHOWN { "…\"" } else { "\"" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_file_are_escaped() {
        assert_eq!(Text(b"a\x1b[2J\xff\"").to_string(), r#""a\u{1b}[2J\xff\"""#);
        assert!(Text(&[b'a'; 1000]).to_string().len() < 100);
    }

    #[test]
    fn a_fault_in_a_file_names_file_fault_and_hint() {
        let e = LoadError::MissingKey { key: "llama.block_count".into() }.in_file(Path::new("m.gguf"));
        let text = e.to_string();
        assert!(text.starts_with("m.gguf: metadata key llama.block_count is missing\nhint: "), "{text}");
        assert!(text.ends_with(e.hint()));
    }
}
