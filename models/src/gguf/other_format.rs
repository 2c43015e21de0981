//! What a file is that was taken for a model and is none, from its first bytes: what programs that download leave
//! behind, and models in other formats.

use std::fmt;

use crate::error::Text;

/// Bytes of the file that are looked at.
const LOOKED_AT: usize = 4096;
/// Length of what is quoted of a text, in characters.
const QUOTED: usize = 80;

/// The content of a file that does not begin with `GGUF`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OtherFormat {
    /// Nothing.
    Empty,
    /// Zeros: space that a download has reserved and not filled yet.
    Zeros,
    /// A text that stands in a Git repository for a large file.
    LfsPointer {
        /// The size of that file in bytes, if the pointer has it.
        bytes: Option<u64>,
    },
    /// HTML.
    WebPage {
        /// Its title; may be empty.
        title: String,
    },
    /// An error of a server, in JSON, XML or plain text.
    Message {
        /// Its beginning.
        text: String,
    },
    /// Another text.
    Text {
        /// Its beginning.
        text: String,
    },
    /// A model, or a part of one, in another format.
    Model {
        /// The format.
        format: &'static str,
    },
    /// A model of ggml from before GGUF.
    OldGgml,
    /// Compressed, or put into an archive.
    Packed {
        /// The format.
        format: &'static str,
    },
    /// None of these.
    Unknown {
        /// The first bytes, at most four.
        begin: Vec<u8>,
    },
}

impl OtherFormat {
    /// Recognises a file by its bytes.
    pub(super) fn of(bytes: &[u8]) -> OtherFormat {
        let begin = &bytes[..bytes.len().min(LOOKED_AT)];
        let starts = |magic: &[u8]| begin.starts_with(magic);
        if begin.is_empty() {
            return OtherFormat::Empty;
        }
        if begin.len() >= 4 && begin.iter().all(|byte| *byte == 0) {
            return OtherFormat::Zeros;
        }
        // Magic numbers of 32 bits, written on little-endian machines.
        if [b"lmgg", b"fmgg", b"tjgg", b"algg"].iter().any(|magic| starts(*magic)) {
            return OtherFormat::OldGgml;
        }
        if let Some(format) = packed(begin) {
            return match is_pytorch(begin) {
                true => OtherFormat::Model { format: "PyTorch" },
                false => OtherFormat::Packed { format },
            };
        }
        let format = match begin {
            // The length of a header in JSON, and its beginning.
            [_, _, _, _, _, 0, 0, 0, b'{', ..] => Some("safetensors"),
            [0x80, 2..=5, ..] => Some("PyTorch"),
            _ if starts(b"\x89HDF\r\n\x1a\n") => Some("HDF5"),
            _ if begin.get(4..8) == Some(b"TFL3") => Some("TensorFlow Lite"),
            _ => None,
        };
        match (format, text(begin)) {
            (Some(format), _) => OtherFormat::Model { format },
            (None, Some(text)) => of_text(&text, bytes.len()),
            (None, None) => OtherFormat::Unknown { begin: begin[..begin.len().min(4)].to_vec() },
        }
    }

    /// What the user can do.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            OtherFormat::Empty | OtherFormat::Zeros => {
                "the download did not finish: continue it, or download the file again"
            }
            OtherFormat::LfsPointer { .. } => {
                "the repository was cloned without its large files: run `git lfs install` and `git lfs pull` in it, or download \
                 the file by itself"
            }
            OtherFormat::WebPage { .. } => {
                "a page was saved instead of the model: download the file itself (on Hugging Face the link has /resolve/ in \
                 place of /blob/); if the page asks for it, log in and accept the licence first"
            }
            OtherFormat::Message { .. } => {
                "a server's error was saved instead of the model: if it asks for it, log in and accept the licence, then \
                 download the file again"
            }
            OtherFormat::Text { .. } | OtherFormat::Unknown { .. } => {
                "give a file in GGUF format; its name ends in .gguf, but a name alone makes no model"
            }
            OtherFormat::Model { .. } => {
                "look for a GGUF file of this model (on Hugging Face: repositories whose name ends in GGUF), or convert it with \
                 llama.cpp's convert_hf_to_gguf.py"
            }
            OtherFormat::OldGgml => {
                "the file is from before August 2023: download a GGUF file of the model, or convert the original again"
            }
            OtherFormat::Packed { .. } => "unpack the file first, and give the .gguf file that was in it",
        }
    }
}

impl fmt::Display for OtherFormat {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            OtherFormat::Empty => f.write_str("the file is empty"),
            OtherFormat::Zeros => f.write_str("it begins with zeros"),
            OtherFormat::LfsPointer { bytes: None } => f.write_str("it is a Git LFS pointer, not the model"),
            OtherFormat::LfsPointer { bytes: Some(bytes) } => {
                write!(f, "it is a Git LFS pointer to a file of {bytes} bytes, not the model")
            }
            OtherFormat::WebPage { title } if title.is_empty() => f.write_str("it is a web page"),
            OtherFormat::WebPage { title } => write!(f, "it is a web page, {}", Text(title.as_bytes())),
            OtherFormat::Message { text } => {
                write!(f, "it is a message of a server, {}", Text(text.as_bytes()))
            }
            OtherFormat::Text { text } => {
                write!(f, "it is a text that begins with {}", Text(text.as_bytes()))
            }
            OtherFormat::Model { format } => write!(f, "it is a {format} file"),
            OtherFormat::OldGgml => f.write_str("it is a file of ggml from before GGUF"),
            OtherFormat::Packed { format } => write!(f, "it is packed with {format}"),
            OtherFormat::Unknown { begin } => write!(f, "it begins with {} instead of \"GGUF\"", Text(begin)),
        }
    }
}

/// The format of an archive or of a compressed file.
fn packed(begin: &[u8]) -> Option<&'static str> {
    const MAGICS: [(&[u8], &str); 8] = [
        (b"PK\x03\x04", "ZIP"),
        (b"PK\x05\x06", "ZIP"),
        (b"\x1f\x8b", "gzip"),
        (b"BZh", "bzip2"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x28\xb5\x2f\xfd", "Zstandard"),
        (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
        (b"Rar!\x1a\x07", "RAR"),
    ];
    let found = MAGICS.iter().find(|(magic, _)| begin.starts_with(magic)).map(|(_, format)| *format);
    found.or_else(|| (begin.get(257..262) == Some(b"ustar")).then_some("tar"))
}

/// Whether a ZIP archive is one of PyTorch: its first file is `NAME/data.pkl`.
fn is_pytorch(begin: &[u8]) -> bool {
    let Some(header) = begin.get(..30).filter(|_| begin.starts_with(b"PK\x03\x04")) else { return false };
    let length = usize::from(u16::from_le_bytes([header[26], header[27]]));
    begin.get(30..30 + length).is_some_and(|name| name.ends_with(b"/data.pkl"))
}

/// The bytes as text without a mark of its encoding, if they are text.
fn text(begin: &[u8]) -> Option<String> {
    let utf_16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        String::from_utf16_lossy(&units)
    };
    let text = match begin {
        // What Windows' shell writes.
        [0xff, 0xfe, rest @ ..] => utf_16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf_16(rest, u16::from_be_bytes),
        bytes => {
            let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
            let valid = match std::str::from_utf8(bytes) {
                Ok(text) => text,
                // A character that is cut off at the end.
                Err(error) if error.error_len().is_none() => {
                    std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
                }
                // Latin-1 in a web page.
                Err(_) if bytes.trim_ascii_start().starts_with(b"<") => &String::from_utf8_lossy(bytes),
                Err(_) => return None,
            };
            valid.to_owned()
        }
    };
    let is_binary = |c: char| c.is_control() && !c.is_whitespace() && c != '\x1b';
    let is_text = !text.trim().is_empty() && !text.chars().any(is_binary);
    is_text.then(|| text.trim_start().to_owned())
}

/// What a text is, of a file of this many bytes.
fn of_text(text: &str, bytes: usize) -> OtherFormat {
    let lower = text.to_ascii_lowercase();
    if lower.starts_with("version https://git-lfs") || lower.starts_with("version https://hawser") {
        let bytes = text.lines().find_map(|line| line.strip_prefix("size ")?.trim().parse().ok());
        return OtherFormat::LfsPointer { bytes };
    }
    let quoted: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(QUOTED).collect();
    let is_html = ["<!doctype html", "<html", "<head", "<body", "<script", "<title", "<!--"]
        .iter()
        .any(|tag| lower.starts_with(tag))
        || lower.starts_with("<?xml") && lower.contains("<html");
    if is_html {
        let title = lower.find("<title").and_then(|at| {
            let begin = at + text[at..].find('>')? + 1;
            Some(text[begin..].split('<').next().unwrap_or_default())
        });
        let words: Vec<&str> = title.unwrap_or_default().split_whitespace().collect();
        return OtherFormat::WebPage { title: words.join(" ").chars().take(QUOTED).collect() };
    }
    // Answers of servers are short. What is longer is a document of its own.
    let is_error =
        ["error", "not found", "denied", "restricted", "unauthorized", "forbidden", "invalid", "log in"]
            .iter()
            .any(|word| lower.contains(word));
    match is_error && bytes < LOOKED_AT {
        true => OtherFormat::Message { text: quoted },
        false => OtherFormat::Text { text: quoted },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file is described with these words.
    #[track_caller]
    fn check(bytes: &[u8], expected: &str) {
        let found = OtherFormat::of(bytes);
        assert!(found.to_string().contains(expected), "{expected:?} is not in: {found}");
        assert!(!found.hint().is_empty());
    }

    #[test]
    fn what_downloads_leave_behind_is_recognised() {
        check(b"", "the file is empty");
        check(&[0; 10_000], "begins with zeros");
        check(
            b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 4920739232\n",
            "Git LFS pointer to a file of 4920739232 bytes",
        );
        check(b"version https://git-lfs.github.com/spec/v1\r\n", "Git LFS pointer, not the model");
        for page in [
            "<!DOCTYPE html><html><head><title>Log\n in</title>",
            "\u{feff}\n  <!doctype HTML>\n<title id=\"x\">Log in</title>",
            "<html><TITLE>Log in</TITLE>",
            "<?xml version=\"1.0\"?><!DOCTYPE html><html><title>Log in</title>",
            "<!-- a --><title>Log in</title>",
        ] {
            check(page.as_bytes(), "a web page, \"Log in\"");
        }
        let utf_16: Vec<u8> =
            "\u{feff}<html><title>Log in</title>".encode_utf16().flat_map(u16::to_le_bytes).collect();
        check(&utf_16, "a web page, \"Log in\"");
        check(b"<html>caf\xe9", "it is a web page");
        // A multi-byte character lies at the end of what is looked at.
        check(format!("<html>{}", "\u{20ac}".repeat(2000)).as_bytes(), "it is a web page");
        for message in [
            "Invalid username or password.",
            "Entry not found",
            "{\"error\":\"Repository not found\"}",
            "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>",
            "Access to model acme/x is restricted. Please log in.",
        ] {
            check(message.as_bytes(), "a message of a server, \"");
        }
    }

    #[test]
    fn other_formats_are_recognised() {
        check(b"\x40\x1f\0\0\0\0\0\0{\"__metadata__\":{}}", "a safetensors file");
        check(b"\x80\x02\x8a\nl\xfc", "a PyTorch file");
        let mut zip = b"PK\x03\x04".to_vec();
        zip.resize(30, 0);
        zip[26] = 16;
        zip.extend(b"archive/data.pkl");
        check(&zip, "a PyTorch file");
        check(b"PK\x03\x04 and more", "packed with ZIP");
        check(b"\x1f\x8b\x08", "packed with gzip");
        for old in [b"lmgg", b"fmgg", b"tjgg", b"algg"] {
            check(old, "ggml from before GGUF");
        }
        check(b"# Model card", "a text that begins with \"# Model card\"");
        check(b"{\"architectures\": []}", "a text that begins with");
        check(b"\xff\x01", "it begins with \"\\xff\\u{1}\"");
        check(b"GG", "a text that begins with \"GG\"");
        // Nothing of the file reaches a terminal.
        check(b"<title>a\x1b[2J</title>", "\\u{1b}");
    }
}
