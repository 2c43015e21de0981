//! The fingerprints of model files, remembered: a file whose fingerprint is known need not be read for it. A file counts
//! as the same while its device, inode, size, time of change and time of status change (in nanoseconds) are. Of a split
//! model those of all parts count.
//!
//! The file of fingerprints is a cache. It can be removed at any time. One that is damaged is none.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use models::gguf::{Blob, GgufFile, is_fingerprint};
use models::regular_file;
use serde::{Deserialize, Serialize};

use crate::files::atomic_file::{self, Access};
use crate::files::folders;

/// Bytes of the largest file of fingerprints. A larger one is not read.
const MAX_BYTES: usize = 256 << 10;
/// A file system may give two changes in this time the same time.
const GRANULARITY: Duration = Duration::from_secs(2);

/// What tells whether a file has changed.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileState {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Nanoseconds since 1970, as the next one.
    modified: i64,
    changed: i64,
}

/// The states of all parts of a model. `None` where it is in memory, or the system does not tell.
pub(crate) fn states(file: &GgufFile) -> Option<Vec<FileState>> {
    (0..file.shards())
        .map(|shard| match file.shard(shard)? {
            Blob::Mapped(file) => FileState::new(file.file()),
            Blob::Static(_) | Blob::Owned(_) => None,
        })
        .collect()
}

impl FileState {
    #[cfg(unix)]
    fn new(file: &File) -> Option<FileState> {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = file.metadata().ok()?;
        let time = |seconds: i64, nanoseconds| seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds);
        Some(FileState {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: time(metadata.mtime(), metadata.mtime_nsec())?,
            changed: time(metadata.ctime(), metadata.ctime_nsec())?,
        })
    }

    #[cfg(windows)]
    fn new(file: &File) -> Option<FileState> {
        /// From 1601, with which Windows' times begin, to 1970, in their units of 100 ns.
        const BEFORE_1970: i64 = 11_644_473_600 * 10_000_000;
        let metadata = file.metadata().ok()?;
        let win32::FileIdentity { volume, index, changed } = win32::identity(file).ok()?;
        let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(FileState {
            device: volume,
            inode: index,
            bytes: metadata.len(),
            modified: i64::try_from(modified.as_nanos()).ok()?,
            changed: changed.checked_sub(BEFORE_1970)?.checked_mul(100)?,
        })
    }

    /// Whether the file has the same content as when it had the state `before`, as far as its size and time tell. It may
    /// have another name since.
    pub(crate) fn has_content_of(&self, before: &FileState) -> bool {
        (self.bytes, self.modified) == (before.bytes, before.modified)
    }

    /// Whether a change from `now` on will give it another state.
    fn is_settled(&self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as i128);
        let age = |time: i64| now - i128::from(time);
        let granularity = GRANULARITY.as_nanos() as i128;
        age(self.changed) > granularity && age(self.modified).abs() > granularity
    }
}

/// A model's files, and the fingerprint of their content.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    files: Vec<FileState>,
    fingerprint: String,
}

/// The fingerprint of files in these states, if the file at `path` has it.
pub(crate) fn find(path: &Path, files: &[FileState]) -> Option<String> {
    read(path).into_iter().find(|entry| entry.files == files).map(|entry| entry.fingerprint)
}

/// Remembers the fingerprint of files that had these states at `time`, before they were read. Files that have just been
/// changed are not remembered: a further change might not show.
///
/// # Errors
/// Where the file at `path` cannot be written.
pub(crate) fn remember(
    path: &Path,
    files: &[FileState],
    fingerprint: &str,
    time: SystemTime,
) -> io::Result<()> {
    if !files.iter().all(|file| file.is_settled(time)) {
        return Ok(());
    }
    let mut entries = read(path);
    // An older state of the same files is gone.
    let is_same = |a: &FileState, b: &FileState| (a.device, a.inode) == (b.device, b.inode);
    entries.retain(|entry| {
        entry.files.len() != files.len() || !entry.files.iter().zip(files).all(|(a, b)| is_same(a, b))
    });
    entries.insert(0, Entry { files: files.to_vec(), fingerprint: fingerprint.to_owned() });
    let text = loop {
        let text = serde_json::to_string(&entries)?;
        // The oldest ones make room.
        if text.len() <= MAX_BYTES || entries.pop().is_none() {
            break text;
        }
    };
    path.parent().map_or(Ok(()), folders::make_private)?;
    atomic_file::remove_leftovers(atomic_file::folder(path), path.file_name(), b"[");
    atomic_file::write_own(path, Access::Owner, |file| file.write_all(text.as_bytes()))
}

/// The entries of a file; none where it is missing, damaged or too large, or where others may have written it.
fn read(path: &Path) -> Vec<Entry> {
    let read = || {
        path.parent().map_or(Ok(()), folders::check_trusted).ok()?;
        let own = Some(path).filter(|path| regular_file::is_own(path))?;
        serde_json::from_str(&regular_file::read_text(own, MAX_BYTES as u64).ok()?).ok()
    };
    let mut entries: Vec<Entry> = read().unwrap_or_default();
    entries.retain(|entry| is_fingerprint(&entry.fingerprint) && !entry.files.is_empty());
    entries
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const FINGERPRINT: &str = "0123456789abcdef0123456789abcdef-xxh3";

    fn state(inode: u64, modified: i64) -> FileState {
        FileState { device: 1, inode, bytes: 1000, modified, changed: modified }
    }

    fn seconds(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_fingerprint_is_found_for_the_same_files_in_the_same_state() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/fingerprints.json");
        let files = [state(1, 5), state(2, 6)];
        assert_eq!(find(&path, &files), None);
        remember(&path, &files, FINGERPRINT, seconds(100)).expect("remembered");
        assert_eq!(find(&path, &files).as_deref(), Some(FINGERPRINT));
        let changes: [fn(&mut FileState); 5] = [
            |file| file.device += 1,
            |file| file.inode += 1,
            |file| file.bytes += 1,
            |file| file.modified += 1,
            |file| file.changed += 1,
        ];
        for change in changes {
            for part in 0..2 {
                let mut others = files;
                change(&mut others[part]);
                assert_eq!(find(&path, &others), None, "{others:?}");
            }
        }
        assert_eq!(find(&path, &files[..1]), None);
        // The new state of the same files replaces the old one.
        let later = [state(1, 5), state(2, 7)];
        let other = FINGERPRINT.replace('0', "1");
        remember(&path, &later, &other, seconds(100)).expect("remembered");
        assert_eq!((find(&path, &later), find(&path, &files)), (Some(other), None));
    }

    #[test]
    fn files_that_have_just_been_changed_are_not_remembered() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fingerprints.json");
        let time = 100 * 1_000_000_000;
        for (age, kept) in [(0, false), (1_999_999_999, false), (2_000_000_001, true), (-1, false)] {
            let files = [state(9, 5), FileState { modified: 5, ..state(age as u64, time - age) }];
            remember(&path, &files, FINGERPRINT, seconds(100)).expect("no error");
            assert_eq!(find(&path, &files).is_some(), kept, "{age}");
            let files = [FileState { changed: 5, ..state(age as u64, time - age) }];
            remember(&path, &files, FINGERPRINT, seconds(100)).expect("no error");
            assert_eq!(find(&path, &files).is_some(), kept, "{age}");
        }
    }

    #[test]
    fn a_damaged_file_is_none_and_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fingerprints.json");
        let files = [state(1, 5)];
        let entry =
            serde_json::to_string(&[Entry { files: files.to_vec(), fingerprint: FINGERPRINT.into() }]);
        let entry = entry.expect("JSON");
        let large = format!("{entry}{}", " ".repeat(MAX_BYTES));
        for (text, is_found) in [
            (&*entry, true),
            ("", false),
            ("[", false),
            (&entry[..entry.len() - 1], false),
            (&entry.replace("xxh3", "../.."), false),
            (&entry.replace("inode", "node"), false),
            (&large, false),
        ] {
            fs::write(&path, text).expect("a file");
            assert_eq!(find(&path, &files).is_some(), is_found, "{text:.100}");
            remember(&path, &files, FINGERPRINT, seconds(100)).expect("remembered");
            assert_eq!(find(&path, &files).as_deref(), Some(FINGERPRINT), "{text:.100}");
        }
        assert_eq!(find(folder.path(), &files), None);
        assert!(remember(folder.path(), &files, FINGERPRINT, seconds(100)).is_err());
    }

    #[test]
    fn the_file_has_a_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fingerprints.json");
        let files = |number: u64| vec![state(number, 5); 300];
        for number in 0..20 {
            remember(&path, &files(number), FINGERPRINT, seconds(100)).expect("remembered");
        }
        assert!(fs::metadata(&path).expect("a file").len() <= MAX_BYTES as u64);
        let found: Vec<bool> = (0..20).map(|number| find(&path, &files(number)).is_some()).collect();
        assert!(found[19] && !found[0] && found.is_sorted(), "{found:?}");
        remember(&path, &vec![state(7, 5); 10_000], FINGERPRINT, seconds(100)).expect("no error");
        assert!(fs::metadata(&path).expect("a file").len() <= MAX_BYTES as u64);
    }
}
