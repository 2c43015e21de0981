//! The files below a folder.

use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use ignore::Match;

use super::LeftOut;
use super::ignore_rules::Rules;
use super::pattern::Pattern;
use super::waste::{self, Waste};
use crate::package::natural_path_order;
use crate::{DocumentError, Options, Problem};

/// Files and folders of programs for version control.
const VERSION_CONTROL: &[&str] =
    &[".git", ".gitignore", ".gitattributes", ".gitmodules", ".ignore", ".hg", ".hgignore", ".svn", ".jj"];

/// FILE_ATTRIBUTE_HIDDEN.
#[cfg(windows)]
const HIDDEN: u32 = 2;

/// How folders are walked.
pub(super) struct Walk<'a> {
    /// How many files there may be, and whether all are read.
    pub(super) options: &'a Options,
    /// Stops it.
    pub(super) stop: &'a AtomicBool,
}

/// What was found.
#[derive(Default)]
pub(super) struct Found {
    /// Files, in the natural order of their paths.
    pub(super) files: Vec<PathBuf>,
    /// Folders and links that cannot be read.
    pub(super) unreadable: Vec<DocumentError>,
    /// Files with rules that were not used.
    pub(super) ignore_files: Vec<DocumentError>,
    /// Files and folders that are left out.
    pub(super) left_out: LeftOut,
    /// Links to files that are not in the folder.
    pub(super) links_out: usize,
}

/// A folder that is still to be read.
struct Folder {
    /// Below the folder that is walked.
    path: PathBuf,
    /// The rules for its parent; `None` for the folder that is walked.
    above: Option<Rc<Rules>>,
}

impl Walk<'_> {
    /// The files below a folder that match. Files that rules name, hidden ones and waste are left out unless all files are
    /// wanted, and so is what cannot be read. Version control's own folders and links out of the folder always are.
    ///
    /// # Errors
    /// The folder itself cannot be read, there are too many files, or the walk was stopped.
    pub(super) fn files(&self, root: &Path, pattern: Option<&Pattern>) -> Result<Found, Problem> {
        let mut found = Found::default();
        // Rules of folders above apply, wherever a link to the folder is.
        let absolute = dunce::canonicalize(root).map_err(Problem::Read)?;
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
                if !pattern.is_none_or(may_match) || is_version_control(&path) {
                    continue;
                }
                if !self.options.all_files
                    && let Some(why) =
                        left_out(&rules, &absolute.join(&path), is_hidden(&entry), is_folder, pattern)
                {
                    found.left_out.add(why);
                    continue;
                }
                if is_folder {
                    folders.push(Folder { path, above: Some(rules.clone()) });
                    continue;
                }
                match is_file(&entry, &absolute) {
                    Ok(IsFile::Yes) if found.files.len() == self.options.limits.files => {
                        return Err(Problem::TooManyFiles { limit: self.options.limits.files });
                    }
                    Ok(IsFile::Yes) => found.files.push(named(root, &path)),
                    Ok(IsFile::Outside) => found.links_out += 1,
                    Ok(IsFile::No) => {}
                    Err(error) => found.unreadable.push(unreadable(root, &path, error)),
                }
            }
        }
        found.files.sort_by(|a, b| natural_path_order(a, b));
        Ok(found)
    }
}

/// Why a walk that was stopped gives nothing.
pub(super) fn stopped() -> Problem {
    Problem::Read(io::ErrorKind::Interrupted.into())
}

/// Whether an entry is a file.
enum IsFile {
    Yes,
    No,
    /// A link to a file or a folder that is not in the folder.
    Outside,
}

/// Whether an entry is a file below the folder `root`. A link counts as what it leads to. Devices and pipes are no files.
fn is_file(entry: &DirEntry, root: &Path) -> io::Result<IsFile> {
    let ty = entry.file_type()?;
    let of = |is_file: bool| if is_file { IsFile::Yes } else { IsFile::No };
    if !ty.is_symlink() {
        return Ok(of(ty.is_file()));
    }
    let target = dunce::canonicalize(entry.path())?;
    let found = fs::metadata(&target)?;
    match target.starts_with(root) {
        // What is in a folder of the folder is found there.
        true => Ok(of(found.is_file())),
        false if found.is_file() || found.is_dir() => Ok(IsFile::Outside),
        false => Ok(IsFile::No),
    }
}

/// Why a path is left out: rules name it, or it is hidden or waste and they do not except it. What the pattern spells out
/// is no waste.
fn left_out(
    rules: &Rules,
    path: &Path,
    is_hidden: bool,
    is_folder: bool,
    pattern: Option<&Pattern>,
) -> Option<Waste> {
    match rules.matched(path, is_folder) {
        Match::Ignore(()) => Some(Waste::Ignored),
        Match::Whitelist(()) => None,
        Match::None if is_hidden => Some(Waste::Hidden),
        Match::None if pattern.is_some_and(|pattern| pattern.spells_out(path)) => None,
        Match::None if is_folder => waste::is_tool_folder(path).then_some(Waste::ToolFolder),
        Match::None => waste::of_file(path),
    }
}

/// Whether a path is of a program for version control, which everybody knows to be there.
fn is_version_control(path: &Path) -> bool {
    path.file_name().and_then(OsStr::to_str).is_some_and(|name| VERSION_CONTROL.contains(&name))
}

/// Whether the name begins with a dot, or Windows has marked the entry, as it does with `desktop.ini` and Office with
/// `~$report.docx`.
fn is_hidden(entry: &DirEntry) -> bool {
    #[cfg(windows)]
    let is_marked = entry
        .metadata()
        .is_ok_and(|found| std::os::windows::fs::MetadataExt::file_attributes(&found) & HIDDEN != 0);
    #[cfg(not(windows))]
    let is_marked = false;
    is_marked || entry.file_name().as_encoded_bytes().starts_with(b".")
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

#[cfg(all(test, windows))]
mod tests {
    use std::os::windows::fs::OpenOptionsExt as _;

    use super::*;

    #[test]
    fn what_windows_has_marked_as_hidden_is_left_out() {
        let folder = std::env::temp_dir().join(format!("longhand-hidden-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("note.txt"), "a note").expect("written");
        let marked = folder.join("desktop.ini");
        fs::OpenOptions::new().write(true).create(true).attributes(HIDDEN).open(marked).expect("a file");
        let stop = AtomicBool::new(false);
        for (all_files, names) in [(false, &["note.txt"][..]), (true, &["desktop.ini", "note.txt"])] {
            let options = Options { all_files, ..Options::default() };
            let walk = Walk { options: &options, stop: &stop };
            let found = walk.files(&folder, None).expect("a folder");
            let found_names: Vec<_> = found.files.iter().filter_map(|path| path.file_name()).collect();
            assert_eq!(found_names, names);
            let hidden = found.left_out.reasons().find(|(why, _)| *why == Waste::Hidden);
            assert_eq!(hidden.map(|(_, count)| count), (!all_files).then_some(1));
        }
        fs::remove_dir_all(folder).expect("removed");
    }
}
