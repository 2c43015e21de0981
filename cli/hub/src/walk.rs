//! A search for files in folders of other programs. What is in them is foreign: the number of entries and the depth are bounded,
//! and no folder is looked at twice.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use models::invisible::escape_name;

/// Most entries that are looked at below one folder, so that a home folder as `model-folders` takes no
/// minutes.
pub const MAX_ENTRIES: usize = 20_000;
/// Levels of folders below one folder.
const MAX_DEPTH: usize = 6;

/// A search in folders, with an end.
pub struct Walk {
    /// Entries that may still be looked at.
    left: usize,
    /// Folders that were looked at, without links: a link leads to one of them again.
    seen: HashSet<PathBuf>,
    /// Folders that cannot be read, and why.
    pub unreadable: Vec<String>,
}

impl Default for Walk {
    /// Nothing is looked at yet.
    fn default() -> Walk {
        Walk { left: MAX_ENTRIES, seen: HashSet::new(), unreadable: Vec::new() }
    }
}

impl Walk {
    /// Whether there were more entries than are looked at.
    pub fn is_cut_off(&self) -> bool {
        self.left == 0
    }

    /// Calls `file` for every regular file below a folder. Links are followed, each folder once. Pipes, devices and
    /// links to what is gone are left out.
    pub fn files(&mut self, folder: &Path, file: &mut dyn FnMut(&Path)) {
        self.levels(folder, MAX_DEPTH, file);
    }

    fn levels(&mut self, folder: &Path, depth: usize, file: &mut dyn FnMut(&Path)) {
        if !fs::canonicalize(folder).is_ok_and(|real| self.seen.insert(real)) {
            return;
        }
        for (_, path) in self.entries(folder) {
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_file() => file(&path),
                Ok(metadata) if metadata.is_dir() && depth > 1 => self.levels(&path, depth - 1, file),
                _ => {}
            }
        }
    }

    /// Names and paths in a folder, by name; empty if there is none.
    pub fn entries(&mut self, folder: &Path) -> Vec<(String, PathBuf)> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                // Most people have not all of the programs.
                if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
                    self.unreadable.push(format!("{}: {error}", escape_name(&folder.to_string_lossy())));
                }
                return Vec::new();
            }
        };
        let mut entries: Vec<_> = entries
            .flatten()
            .take(self.left)
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
            .collect();
        self.left -= entries.len();
        entries.sort_unstable();
        entries
    }
}

/// The path below `folder`, with `/` on every system.
pub fn relative_name(folder: &Path, path: &Path) -> Option<String> {
    let parts = path.strip_prefix(folder).ok()?.iter();
    Some(parts.map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/"))
}

/// Paths of the files below a folder, with `/` on every system.
pub fn paths_below(folder: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    Walk::default().files(folder, &mut |path| paths.extend(relative_name(folder, path)));
    paths
}
