//! Errors of model files. Every message says what is wrong and where; [`LoadError::hint`] says what to do.
//! Text from the file is escaped, so that a hostile file cannot control the terminal.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::gguf::OtherFormat;
use crate::invisible::escape_name;

/// A model file cannot be read or run.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The operating system cannot open, examine or map the file.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// The path names a folder.
    #[error("{path}: a folder, not a regular file", path = .path.display())]
    Folder {
        /// The path as given.
        path: PathBuf,
    },

    /// The path names a pipe or device.
    #[error("{path}: not a regular file", path = .path.display())]
    NotAFile {
        /// The path as given.
        path: PathBuf,
    },

    /// The file became shorter, or a part of it could not be read, after it was opened.
    #[error("the model file {} {}", .path.display(), lost(*.opened_bytes, *.bytes))]
    Lost {
        /// The file.
        path: PathBuf,
        /// Its size when it was opened.
        opened_bytes: u64,
        /// Its size now.
        bytes: u64,
    },

    /// The file was changed after it was opened.
    #[error("the model file {path} was changed while it was in use", path = .path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },

    /// One of the other variants, found in this file.
    #[error("{path}: {error}", path = .path.display())]
    In {
        /// The file.
        path: PathBuf,
        /// The error in it.
        error: Box<LoadError>,
    },

    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: {found}")]
    OtherFormat {
        /// What the file is instead.
        found: OtherFormat,
    },

    /// A version of the format that is not supported.
    #[error("GGUF version {found}, but only versions 2 and 3 are supported")]
    Version {
        /// The version the file states.
        found: u32,
    },

    /// The file is for big-endian machines.
    #[error("the GGUF file is for big-endian machines")]
    BigEndian,

    /// The file ends too early.
    #[error("at byte {offset}: {what} needs {needs} bytes, but {left} are left")]
    Truncated {
        /// What was being read.
        what: String,
        /// Where in the file, in bytes from its start.
        offset: u64,
        /// Bytes it needs, at least.
        needs: u64,
        /// Bytes left in the file.
        left: u64,
    },

    /// A number that no valid file contains: a count, a length, an id, a nesting depth.
    #[error("at byte {offset}: {what} is {found}, but {expected}")]
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

    /// Text in the file is not UTF-8.
    #[error("{what} is not UTF-8: {}", Text(.found))]
    NotUtf8 {
        /// Which text.
        what: String,
        /// The bytes, at most the first 40.
        found: Vec<u8>,
    },

    /// A metadata key or tensor name occurs twice.
    #[error("{what} {} occurs twice", Text(.name.as_bytes()))]
    Duplicate {
        /// `metadata key` or `tensor`.
        what: &'static str,
        /// The name.
        name: String,
    },

    /// A tensor has invalid dimensions, an invalid type or an invalid offset.
    #[error("tensor {}: {problem}", Text(.name.as_bytes()))]
    BadTensor {
        /// The tensor.
        name: String,
        /// What is wrong with it.
        problem: String,
    },

    /// The parts of a split model do not belong together, or some are missing.
    #[error("split model: {problem}")]
    Split {
        /// What is wrong.
        problem: String,
    },

    /// A required metadata key is missing.
    #[error("metadata key {key} is missing")]
    MissingKey {
        /// The key.
        key: String,
    },

    /// A metadata value has the wrong type.
    #[error("metadata key {key}: expected {expected}, found {found}")]
    WrongType {
        /// The key.
        key: String,
        /// The allowed type or types.
        expected: &'static str,
        /// The type in the file.
        found: String,
    },

    /// A metadata value has the right type, but is outside its range.
    #[error("metadata key {key} is {found}, but {expected}")]
    BadValue {
        /// The key.
        key: String,
        /// The value in the file.
        found: String,
        /// What it should be.
        expected: String,
    },

    /// The model's architecture is not supported.
    #[error(
        "model architecture {} is not supported; {relatives}supported are {supported}",
        Text(.found.as_bytes())
    )]
    UnknownArch {
        /// The architecture in the file.
        found: String,
        /// The supported architectures of its family, as a part of the sentence; may be empty.
        relatives: String,
        /// The supported architectures, separated by commas.
        supported: String,
    },

    /// The model needs a computation that is not supported.
    #[error("setting {key} = {value} is not supported: {why}")]
    Unsupported {
        /// The metadata key.
        key: String,
        /// Its value.
        value: String,
        /// What the value means, or that it is unknown.
        why: String,
    },

    /// The file has a vocabulary but no weights, and a model is needed.
    #[error("the file has a vocabulary but no tensors")]
    VocabularyOnly,

    /// A tensor of the architecture is missing.
    #[error("tensor {name} {shape} is missing")]
    MissingTensor {
        /// Its name.
        name: String,
        /// Its shape in ggml order.
        shape: String,
    },

    /// A tensor's shape does not match the metadata.
    #[error("tensor {name} has shape {found}, but the metadata ask for {expected}")]
    WrongShape {
        /// Its name.
        name: String,
        /// Shape by the metadata, ggml order.
        expected: String,
        /// Shape in the file, ggml order.
        found: String,
    },

    /// A tensor has a type that cannot be used for it.
    #[error("tensor {name} is of type {found}, but {expected}")]
    WrongTensorType {
        /// Its name.
        name: String,
        /// Type in the file.
        found: &'static str,
        /// The allowed types, in words.
        expected: &'static str,
    },

    /// A tensor that the architecture does not have. Without it the results would be wrong.
    #[error("tensor {} is not part of the {arch} architecture", Text(.name.as_bytes()))]
    UnknownTensor {
        /// Its name.
        name: String,
        /// The architecture.
        arch: &'static str,
    },
}

impl LoadError {
    /// What the user can do about the error.
    pub fn hint(&self) -> &'static str {
        match self {
            LoadError::In { error, .. } => error.hint(),
            LoadError::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => "check the path; model files end in .gguf",
                io::ErrorKind::PermissionDenied => "make the file readable for your user",
                _ => "check that the file is on a file system that supports reading and memory-mapping",
            },
            LoadError::Lost { .. } => {
                "make sure that the file is complete and its disk works, then start again; to update a model file, write a new one and rename it"
            }
            LoadError::Changed { .. } => "start again; to update a model file, write a new one and rename it",
            LoadError::Folder { .. } => {
                "give the path of a .gguf file in it; a folder of safetensors files must be converted to GGUF first"
            }
            LoadError::NotAFile { .. } => "give the path of the .gguf file itself; a pipe cannot be mapped",
            LoadError::OtherFormat { found } => found.hint(),
            LoadError::Version { found: 0 | 1 } => {
                "the file is from before August 2023; download or convert the model again"
            }
            LoadError::Version { .. } => {
                "the file is damaged, or newer than this program; download it again, or update the program"
            }
            LoadError::BigEndian => "use the little-endian file of this model",
            LoadError::Truncated { .. } => {
                "the download is probably incomplete; compare the file's size, or download it again"
            }
            LoadError::Implausible { .. }
            | LoadError::NotUtf8 { .. }
            | LoadError::Duplicate { .. }
            | LoadError::BadTensor { .. } => {
                "the file is damaged or was written by a faulty program; download or convert it again"
            }
            LoadError::Split { .. } => {
                "put all parts into one folder under their published names, NAME-00001-of-0000N.gguf, and give the path of any of them"
            }
            LoadError::MissingKey { .. } | LoadError::WrongType { .. } | LoadError::BadValue { .. } => {
                "the metadata are incomplete or damaged; convert the model again with a current converter"
            }
            LoadError::UnknownArch { .. } => {
                "use a model of a supported architecture (metadata key general.architecture)"
            }
            LoadError::Unsupported { .. } => "use a variant of the model without this setting",
            LoadError::VocabularyOnly => "the file can only tokenize; to run the model, use its full file",
            LoadError::MissingTensor { .. } => {
                "the file is incomplete; use the whole model, not an adapter, a projector or a part"
            }
            LoadError::WrongShape { .. } => {
                "metadata and weights are not from the same model; convert it again"
            }
            LoadError::WrongTensorType { .. } => "quantize the model again with a current program",
            LoadError::UnknownTensor { .. } => {
                "the model was changed in a way that is not supported; use the original one"
            }
        }
    }

    /// The same error with the name of the file it was found in.
    pub(crate) fn in_file(self, path: &Path) -> LoadError {
        match self {
            named @ (LoadError::Io { .. }
            | LoadError::Lost { .. }
            | LoadError::Changed { .. }
            | LoadError::Folder { .. }
            | LoadError::NotAFile { .. }
            | LoadError::In { .. }) => named,
            error => LoadError::In { path: path.to_owned(), error: Box::new(error) },
        }
    }

    /// Whether the file may be damaged: another copy of it may be whole. `false` where the file is as it was written,
    /// and cannot be used.
    pub fn is_damage(&self) -> bool {
        match self.kind() {
            LoadError::Lost { .. }
            | LoadError::OtherFormat { .. }
            | LoadError::Truncated { .. }
            | LoadError::Implausible { .. }
            | LoadError::NotUtf8 { .. }
            | LoadError::Duplicate { .. }
            | LoadError::BadTensor { .. }
            | LoadError::MissingKey { .. }
            | LoadError::WrongType { .. }
            | LoadError::BadValue { .. }
            | LoadError::MissingTensor { .. }
            | LoadError::WrongShape { .. }
            | LoadError::UnknownTensor { .. } => true,
            LoadError::Version { found } => *found > 3,
            _ => false,
        }
    }

    /// The file that the error is about, if it is on disk.
    pub fn path(&self) -> Option<&Path> {
        match self {
            LoadError::Io { path, .. }
            | LoadError::Folder { path }
            | LoadError::NotAFile { path }
            | LoadError::Lost { path, .. }
            | LoadError::Changed { path }
            | LoadError::In { path, .. } => Some(path),
            _ => None,
        }
    }

    /// The error without the file it was found in.
    pub fn kind(&self) -> &LoadError {
        match self {
            LoadError::In { error, .. } => error.kind(),
            other => other,
        }
    }
}

/// What happened to a file after it was opened, by its size then and now.
fn lost(opened_bytes: u64, bytes: u64) -> String {
    match bytes < opened_bytes {
        true => {
            format!("became shorter while it was in use: it had {opened_bytes} bytes and now has {bytes}")
        }
        false => "could not be read while it was in use".to_owned(),
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
            f.write_str(&escape_name(chunk.valid()))?;
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
    fn text_from_the_file_is_escaped() {
        assert_eq!(Text(b"a\x1b[2J\xff\"").to_string(), r#""a\u{1b}[2J\xff\"""#);
        assert_eq!(Text("a\u{fe0f}\u{200b}".as_bytes()).to_string(), r#""a\u{fe0f}\u{200b}""#);
        assert!(Text(&[b'a'; 1000]).to_string().len() < 100);
    }

    /// Every variant once.
    fn all() -> Vec<LoadError> {
        let text = || "text".to_owned();
        let path = || PathBuf::from("m.gguf");
        let io = |kind: io::ErrorKind| LoadError::Io { path: path(), source: kind.into() };
        vec![
            io(io::ErrorKind::NotFound),
            io(io::ErrorKind::PermissionDenied),
            io(io::ErrorKind::Other),
            LoadError::Lost { path: path(), opened_bytes: 2, bytes: 1 },
            LoadError::Lost { path: path(), opened_bytes: 2, bytes: 2 },
            LoadError::Changed { path: path() },
            LoadError::NotAFile { path: path() },
            LoadError::In { path: path(), error: Box::new(LoadError::BigEndian) },
            LoadError::Folder { path: path() },
            LoadError::OtherFormat { found: OtherFormat::Empty },
            LoadError::Version { found: 1 },
            LoadError::Version { found: 9 },
            LoadError::BigEndian,
            LoadError::Truncated { what: text(), offset: 0, needs: 2, left: 1 },
            LoadError::Implausible { what: text(), offset: 0, found: 1, expected: text() },
            LoadError::NotUtf8 { what: text(), found: b"\xff".into() },
            LoadError::Duplicate { what: "tensor", name: text() },
            LoadError::BadTensor { name: text(), problem: text() },
            LoadError::Split { problem: text() },
            LoadError::MissingKey { key: text() },
            LoadError::WrongType { key: text(), expected: "a number", found: text() },
            LoadError::BadValue { key: text(), found: text(), expected: text() },
            LoadError::UnknownArch { found: text(), relatives: text(), supported: text() },
            LoadError::Unsupported { key: text(), value: text(), why: text() },
            LoadError::VocabularyOnly,
            LoadError::MissingTensor { name: text(), shape: text() },
            LoadError::WrongShape { name: text(), expected: text(), found: text() },
            LoadError::WrongTensorType { name: text(), found: "f16", expected: "f32" },
            LoadError::UnknownTensor { name: text(), arch: "llama" },
        ]
    }

    #[test]
    fn errors_and_hints_have_no_flags() {
        for error in all() {
            let (text, hint) = (error.to_string(), error.hint());
            assert!(!text.contains("hint") && !hint.is_empty(), "{text}");
            assert!(
                [&text, hint].iter().all(|text| !text.contains(" -") && !text.contains("--")),
                "{text}: {hint}"
            );
        }
    }

    #[test]
    fn an_error_in_a_file_names_the_file() {
        let e = LoadError::MissingKey { key: "llama.block_count".into() }.in_file(Path::new("m.gguf"));
        assert_eq!(e.to_string(), "m.gguf: metadata key llama.block_count is missing");
        assert_eq!(e.hint(), e.kind().hint());
    }
}
