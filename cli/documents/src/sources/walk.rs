//! The files below a folder.

use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use ignore::Match;

use super::ignore_rules::Rules;
use super::pattern::Pattern;
use crate::{DocumentError, Limits, Problem};

/// How folders are walked.
pub(super) struct Walk<'a> {
    /// How many files there may be.
    pub(super) limits: &'a Limits,
    /// Stops it.
    pub(super) stop: &'a AtomicBool,
}

/// What was found.
#[derive(Default)]
pub(super) struct Found {
    /// Files, sorted by path.
    pub(super) files: Vec<PathBuf>,
    /// Folders and links that cannot be read.
    pub(super) unreadable: Vec<DocumentError>,
    /// Files with rules that were not used.
    pub(super) ignore_files: Vec<DocumentError>,
}

/// A folder that is still to be read.
struct Folder {
    /// Below the folder that is walked.
    path: PathBuf,
    /// The rules for its parent; `None` for the folder that is walked.
    above: Option<Rc<Rules>>,
}

impl Walk<'_> {
    /// The files below a folder that match. Files that rules name and hidden ones are left out, and so is what cannot be
    /// read.
    ///
    /// # Errors
    /// The folder itself cannot be read, there are too many files, or the walk was stopped.
    pub(super) fn files(&self, root: &Path, pattern: Option<&Pattern>) -> Result<Found, Problem> {
        let mut found = Found::default();
        // Rules of folders above apply, wherever a link to the folder is.
        let absolute = fs::canonicalize(root).map_err(Problem::Read)?;
        let mut folders = vec![Folder { path: PathBuf::new(), above: None }];
        while let Some(Folder { path: folder, above }) = folders.pop() {
            let of_folder = absolute.join(&folder);
            let entries = match fs::read_dir(named(root, &folder)) {
                Ok(entries) => entries,
                Err(error) if folder.as_os_str().is_empty() => return Err(Problem::Read(error)),
                Err(error) => {
                    found.unreadable.push(unreadable(root, &folder, error));
                    continue;
                }
            };
            let rules = match above {
                Some(above) => Rules::within(&of_folder, Some(above), &mut found.ignore_files),
                None => Rules::of_folder(&of_folder, &mut found.ignore_files),
            };
            for entry in entries {
                if self.stop.load(Ordering::Relaxed) {
                    return Err(stopped());
                }
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        found.unreadable.push(unreadable(root, &folder, error));
                        break;
                    }
                };
                let path = folder.join(entry.file_name());
                let is_folder = entry.file_type().is_ok_and(|ty| ty.is_dir());
                let may_match = |pattern: &Pattern| match is_folder {
                    true => pattern.may_match_in(&path),
                    false => pattern.matches(&path),
                };
                if !pattern.is_none_or(may_match) || is_left_out(&rules, &absolute.join(&path), is_folder) {
                    continue;
                }
                if is_folder {
                    folders.push(Folder { path, above: Some(rules.clone()) });
                    continue;
                }
                match is_file(&entry) {
                    Ok(true) if found.files.len() == self.limits.files => {
                        return Err(Problem::TooManyFiles { limit: self.limits.files });
                    }
                    Ok(true) => found.files.push(named(root, &path)),
                    Ok(false) => {}
                    Err(error) => found.unreadable.push(unreadable(root, &path, error)),
                }
            }
        }
        found.files.sort();
        Ok(found)
    }
}

/// Why a walk that was stopped gives nothing.
pub(super) fn stopped() -> Problem {
    Problem::Read(io::ErrorKind::Interrupted.into())
}

/// Whether an entry is a file. A link counts as what it leads to. Devices and pipes are no files.
fn is_file(entry: &DirEntry) -> io::Result<bool> {
    match entry.file_type()? {
        ty if ty.is_symlink() => Ok(fs::metadata(entry.path())?.is_file()),
        ty => Ok(ty.is_file()),
    }
}

/// Whether rules name a path, or it is hidden and they do not except it.
fn is_left_out(rules: &Rules, path: &Path, is_folder: bool) -> bool {
    match rules.matched(path, is_folder) {
        Match::Ignore(()) => true,
        Match::Whitelist(()) => false,
        Match::None => path.file_name().is_some_and(is_hidden),
    }
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// A path below `root` as a user would write it.
fn named(root: &Path, path: &Path) -> PathBuf {
    match path.as_os_str().is_empty() {
        true => root.to_owned(),
        false => root.strip_prefix(".").unwrap_or(root).join(path),
    }
}

fn unreadable(root: &Path, path: &Path, error: io::Error) -> DocumentError {
    DocumentError { name: named(root, path).display().to_string(), problem: Problem::Read(error) }
}
