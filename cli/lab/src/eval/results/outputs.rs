//! The files that an evaluation writes into its folder, besides the results. One that is there already is replaced only
//! if an evaluation made it, which its content tells. Links are never followed or replaced.

use std::fs;
use std::io::Write;
use std::path::Path;

use longhand::files::atomic_file::{self, Access};
use models::regular_file;
use serde_json::Value;
use terminal::failure::Failure;

use crate::eval::results::tables;

/// The table of all results.
pub const TABLE: &str = "table.md";
/// The same for programs.
pub const SUMMARY: &str = "summary.json";
/// No file of an evaluation is larger, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// Finds out whether the files whose names are known before hours of work can be written.
///
/// # Errors
/// As for [`write`].
pub fn check(folder: &Path) -> Result<(), Failure> {
    [TABLE, SUMMARY].into_iter().try_for_each(|name| check_replaceable(&folder.join(name)))
}

/// Writes a file, in place of the one that an earlier evaluation made.
///
/// # Errors
/// Where another file or a link has the name, or the file cannot be written.
pub fn write(folder: &Path, name: &str, content: &[u8]) -> Result<(), Failure> {
    let path = folder.join(name);
    check_replaceable(&path)?;
    atomic_file::write_own(&path, Access::Everyone, |file| file.write_all(content))
        .map_err(|error| Failure::new(format!("{}: {error}", path.display()), "give another folder with -o"))
}

/// Refuses a link.
pub fn check_no_link(path: &Path) -> Result<(), Failure> {
    match fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        true => Err(Failure::new(
            format!("{} is a link, which is not written through", path.display()),
            "remove the link, or give another folder with -o",
        )),
        false => Ok(()),
    }
}

fn check_replaceable(path: &Path) -> Result<(), Failure> {
    check_no_link(path)?;
    if fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    match regular_file::read(path, MAX_BYTES).is_ok_and(|old| is_made_here(&extension, &old)) {
        true => Ok(()),
        false => Err(Failure::new(
            format!("{} was not made by an evaluation, so it is not replaced", path.display()),
            "move it away, or give another folder with -o",
        )),
    }
}

/// Whether a file with this extension has what all such files of evaluations have.
fn is_made_here(extension: &str, content: &[u8]) -> bool {
    match extension {
        "md" => content.starts_with(tables::BEGINS.as_bytes()),
        "json" => serde_json::from_slice::<Vec<Value>>(content).is_ok_and(|all| {
            let keys = ["task", "model", "fingerprint", "policy", "kv_bytes", "kv_share", "samples"];
            all.iter().all(|summary| keys.iter().all(|key| summary.get(key).is_some()))
        }),
        "svg" => {
            let (begins, font) =
                (b"<svg xmlns=", b" role=\"img\" font-family=\"Helvetica, Arial, 'Liberation Sans'");
            let first = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
            first.starts_with(begins) && first.windows(font.len()).any(|part| part == font)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::HeatMap;

    #[test]
    fn files_of_evaluations_are_recognised() {
        assert!(is_made_here("svg", HeatMap::default().svg().as_bytes()));
        assert!(is_made_here("md", tables::markdown(&[]).as_bytes()));
        assert!(is_made_here("json", b"[]\n"));
        for (extension, content) in [
            ("svg", &b"<svg xmlns=\"http://www.w3.org/2000/svg\">\n"[..]),
            ("svg", b""),
            ("md", b"# My table\n"),
            ("json", b"{}"),
            ("json", b"[{\"task\": \"mine\"}]"),
            ("json", b"[1, 2]"),
            ("txt", b""),
        ] {
            assert!(!is_made_here(extension, content), "{extension}");
        }
    }
}
