//! Writes a file that appears complete or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;

/// The extension of temporary files.
pub const EXTENSION: &str = "tmp";

/// Writes a temporary file in the same folder with `content`, then renames it to `path`.
///
/// # Errors
/// Where `path` exists and is not a regular file, or writing fails. The temporary file is then removed.
pub fn write(path: &Path, content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(io::Error::other("it exists and is not a regular file"));
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.{EXTENSION}", std::process::id()));
    let written = File::create(&temporary).and_then(|file| {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        content(&mut out)?;
        out.into_inner()?.sync_all()?;
        fs::rename(&temporary, path)
    });
    written.inspect_err(|_| {
        // The error of the write matters more than this one.
        let _ = fs::remove_file(&temporary);
    })
}
