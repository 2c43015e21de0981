//! Documents as files of text: read whole, checked to be text and not empty.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::failure::Failure;

/// No document is larger: 200 million tokens or so.
const MAX_BYTES: u64 = 1 << 30;

/// The texts of these files, an empty line between them; `-` is stdin.
pub fn read_all(paths: &[PathBuf]) -> Result<String> {
    if paths.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(Failure::usage("-f -: stdin is given twice", "give -f - only once").into());
    }
    let texts: Vec<String> = paths.iter().map(|path| read(path)).collect::<Result<_>>()?;
    Ok(texts.join("\n\n"))
}

/// One file as text.
pub fn read(path: &Path) -> Result<String> {
    let name = if path.as_os_str() == "-" { "stdin".to_owned() } else { path.display().to_string() };
    let text = text(&name, bytes(path)?)?;
    if text.trim().is_empty() {
        return Err(Failure::new(
            format!("{name}: the document is empty"),
            "give a file with text in it, or leave -f out to ask without a document",
        )
        .into());
    }
    Ok(text)
}

/// The bytes of a file, or of stdin for `-`.
pub fn bytes(path: &Path) -> Result<Vec<u8>> {
    let fails = |error: std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => "check the path",
            std::io::ErrorKind::IsADirectory => "give the files in it, each with -f",
            _ => "check that it is a file that you may read",
        };
        Failure::new(format!("cannot read {}: {error}", path.display()), hint)
    };
    let source: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(std::io::stdin()),
        false => Box::new(fs::File::open(path).map_err(fails)?),
    };
    let mut bytes = Vec::new();
    source.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(fails)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::new(
            format!("{}: more than 1 GiB of text", path.display()),
            "check that it is the right file, or give a part of it",
        )
        .into());
    }
    Ok(bytes)
}

/// UTF-8 without the byte order mark that some editors write.
pub fn text(name: &str, bytes: Vec<u8>) -> Result<String> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)),
        Err(error) => Err(Failure::new(
            format!("{name}: not UTF-8 text: byte {} is invalid", error.utf8_error().valid_up_to()),
            if error.as_bytes().starts_with(&[0xff, 0xfe]) || error.as_bytes().starts_with(&[0xfe, 0xff]) {
                "convert it, for example with: iconv -f utf-16 -t utf-8"
            } else {
                "convert it, for example with: iconv -f latin1 -t utf-8"
            },
        )
        .into()),
    }
}
