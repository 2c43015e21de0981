//! Finds and reads files with data.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::{DataFile, damaged};
use crate::TaskError;

/// Levels of folders below the one that is named.
const MAX_LEVELS: usize = 4;
/// Files and folders that are looked at.
const MAX_ENTRIES: usize = 20_000;
/// HotpotQA, the largest known file, has 46 MB.
const MAX_BYTES: u64 = 512 << 20;

/// The files with data in a folder and below it, level by level.
pub(super) fn find(folder: &Path) -> Result<BTreeMap<DataFile, PathBuf>, TaskError> {
    let mut found = BTreeMap::new();
    let mut folders = VecDeque::from([(folder.to_owned(), 0)]);
    let mut entries = 0;
    while let Some((folder, level)) = folders.pop_front() {
        let paths = match list(&folder, MAX_ENTRIES - entries) {
            Ok(paths) => paths,
            // A folder below that may not be read is left out.
            Err(_) if level > 0 => continue,
            Err(source) => return Err(TaskError::Read { path: folder, source }),
        };
        entries += paths.len();
        if entries == MAX_ENTRIES {
            return Err(damaged(&folder, format!("more than {MAX_ENTRIES} files; choose a smaller folder")));
        }
        for path in paths {
            let name = path.file_name().and_then(|name| name.to_str());
            let file = DataFile::all().find(|file| Some(file.name()) == name);
            if let Some(file) = file.filter(|_| path.is_file()) {
                found.entry(file).or_insert(path);
            } else if level < MAX_LEVELS && path.is_dir() && !path.is_symlink() {
                folders.push_back((path, level + 1));
            }
        }
    }
    Ok(found)
}

/// What is in a folder, sorted, at most `limit` entries.
fn list(folder: &Path, limit: usize) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.take(limit);
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// A JSON file.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, TaskError> {
    let text = read_text(path)?;
    serde_json::from_str(&text).map_err(|error| damaged(path, format!("not the expected JSON: {error}")))
}

/// A file in UTF-8.
pub(super) fn read_text(path: &Path) -> Result<String, TaskError> {
    let read = || {
        let mut bytes = Vec::new();
        File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|source| TaskError::Read { path: path.to_owned(), source })?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(damaged(path, format!("more than {} MiB", MAX_BYTES >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| damaged(path, "not UTF-8"))
}
