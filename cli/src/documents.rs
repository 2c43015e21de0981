//! Reads text files.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::failure::Failure;

/// Maximum size of a file. It is about 200 million tokens.
const MAX_BYTES: u64 = 1 << 30;

/// The texts of these files, separated by empty lines. `-` is stdin.
pub fn read_all(paths: &[PathBuf]) -> Result<String> {
    if paths.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(Failure::usage("-f -: stdin is given twice", "give -f - only once").into());
    }
    let mut whole = String::new();
    for (i, path) in paths.iter().enumerate() {
        let text = read(path)?;
        match i {
            0 => whole = text,
            _ => whole.extend(["\n\n", &text]),
        }
    }
    Ok(whole)
}

/// A document: UTF-8 that is not empty, without the byte order mark that some editors write.
fn read(path: &Path) -> Result<String> {
    let text = read_utf8(path)?;
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    if text.trim().is_empty() {
        return Err(Failure::new(
            format!("{}: the document is empty", name(path)),
            "give a file with text in it, or leave -f out to ask without a document",
        )
        .into());
    }
    Ok(text)
}

/// The whole text of a UTF-8 file, or of stdin for `-`.
pub fn read_utf8(path: &Path) -> Result<String> {
    String::from_utf8(read_bytes(path)?).map_err(|error| {
        let utf16 = [[0xff, 0xfe], [0xfe, 0xff]].iter().any(|mark| error.as_bytes().starts_with(mark));
        let encoding = if utf16 { "utf-16" } else { "latin1" };
        let message =
            format!("{}: not UTF-8 text: byte {} is invalid", name(path), error.utf8_error().valid_up_to());
        let hint = format!("convert it, for example with: iconv -f {encoding} -t utf-8");
        Failure::new(message, hint).into()
    })
}

fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    let failure = |error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => "check the path",
            io::ErrorKind::IsADirectory => "give the files in it, each with -f",
            _ => "check that it is a file that you may read",
        };
        Failure::new(format!("cannot read {}: {error}", name(path)), hint)
    };
    let source: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(fs::File::open(path).map_err(failure)?),
    };
    let mut bytes = Vec::new();
    source.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failure)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::new(
            format!("{}: more than 1 GiB of text", name(path)),
            "check that it is the right file, or give a part of it",
        )
        .into());
    }
    Ok(bytes)
}

/// The name of a file in errors.
fn name(path: &Path) -> String {
    if path.as_os_str() == "-" { "stdin".to_owned() } else { path.display().to_string() }
}
