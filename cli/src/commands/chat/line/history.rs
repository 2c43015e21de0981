//! What was sent before, kept in a file. Each entry is a line: a JSON array of typed texts and of objects with a paste.
//! Several programs may use the file at the same time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use longhand::files::atomic_file::{self, Access};
use longhand::files::folders;
use models::file_lock::LockFile;
use models::regular_file;
use serde::{Deserialize, Serialize};
use terminal::line::draft::Atom;

/// Entries that are kept.
const MAX_ENTRIES: usize = 10_000;
/// Entries beyond them before the file is shortened.
const SLACK: usize = 1_000;
/// Longer entries are kept until the program ends.
const MAX_ENTRY_BYTES: usize = 16 << 10;
/// A longer file is shortened.
const MAX_FILE_BYTES: usize = 8 << 20;
/// What is read of a file, from its end.
const MAX_READ_BYTES: u64 = 2 * MAX_FILE_BYTES as u64;
/// How often, and how long each time, another program is waited for.
const LOCK_ATTEMPTS: usize = 50;
const LOCK_WAIT: Duration = Duration::from_millis(10);

/// A part of an entry in the file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum MessagePart {
    Typed(String),
    Pasted { paste: String },
}

/// What was sent before, oldest first.
pub struct History {
    entries: Vec<Vec<Atom>>,
    /// `None` if nothing is kept.
    file: Option<PathBuf>,
}

impl History {
    /// The history of this user, with the reason why it is not kept in a file. `private`: nothing is read or kept.
    pub fn open(private: bool) -> (History, Option<String>) {
        if private {
            return (History { entries: Vec::new(), file: None }, None);
        }
        match file().and_then(|file| History::at(&file)) {
            Ok(history) => (history, None),
            Err(error) => (History { entries: Vec::new(), file: None }, Some(error.to_string())),
        }
    }

    /// The history in this file. Shortens the file if it is too long.
    fn at(file: &Path) -> io::Result<History> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", file.display()));
        if let Some(folder) = file.parent() {
            folders::make_private(folder).map_err(named)?;
            atomic_file::remove_leftovers(folder, file.file_name(), b"[");
        }
        // Whether it can be written is known before the first entry.
        let bytes = open_to_append(file).and_then(|file| file.metadata()).map_err(named)?.len();
        let mut lines = read_lines(file).map_err(named)?;
        if bytes > MAX_READ_BYTES || too_long(&lines, MAX_ENTRIES + SLACK) {
            lines = shorten(file).map_err(named)?;
        }
        let entries = lines.iter().filter_map(|line| parse(line)).collect();
        Ok(History { entries, file: Some(file.to_owned()) })
    }

    /// These entries, which are not kept in a file.
    #[cfg(test)]
    pub fn in_memory(entries: Vec<Vec<Atom>>) -> History {
        History { entries, file: None }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// An entry; the oldest is 0.
    pub fn get(&self, index: usize) -> Option<&[Atom]> {
        self.entries.get(index).map(Vec::as_slice)
    }

    /// Adds an entry, unless it repeats the last one.
    ///
    /// # Errors
    /// Where the file cannot be written. Then nothing is written any more.
    pub fn add(&mut self, entry: &[Atom]) -> io::Result<()> {
        if entry.is_empty() || self.entries.last().is_some_and(|last| last == entry) {
            return Ok(());
        }
        self.entries.push(entry.to_vec());
        let Some(file) = &self.file else { return Ok(()) };
        let line = to_line(entry)?;
        if line.len() > MAX_ENTRY_BYTES {
            return Ok(());
        }
        let written = lock(file).and_then(|_lock| open_to_append(file)?.write_all(line.as_bytes()));
        if written.is_err() {
            self.file = None;
        }
        written
    }
}

/// The file of this user's history.
fn file() -> io::Result<PathBuf> {
    let folder = folders::state();
    let folder = folder.ok_or_else(|| io::Error::other("neither XDG_STATE_HOME nor HOME is set"))?;
    Ok(folder.join("history"))
}

/// Opens the file, which only this user may read, to write at its end. A link in its place is replaced.
fn open_to_append(file: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    regular_file::open_own(file, &mut options)
}

/// Keeps other programs from writing until the result is dropped. A program that holds the lock for too long is not
/// waited for.
fn lock(file: &Path) -> io::Result<LockFile> {
    let lock = LockFile::new(open_to_append(&file.with_extension("lock"))?);
    for _ in 0..LOCK_ATTEMPTS {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_WAIT),
            // Not all file systems have locks.
            Ok(()) | Err(TryLockError::Error(_)) => break,
        }
    }
    Ok(lock)
}

/// The lines of the file; none if there is no file. Of a file that is much too long, the last ones. Bytes that are not
/// UTF-8 are replaced.
fn read_lines(file: &Path) -> io::Result<Vec<String>> {
    let mut file = match regular_file::open(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    let before = file.metadata()?.len().saturating_sub(MAX_READ_BYTES);
    file.seek(SeekFrom::Start(before))?;
    // The first line of a part is no whole one.
    let lines = BufReader::new(file.take(MAX_READ_BYTES)).split(b'\n').skip(usize::from(before > 0));
    lines.map(|line| Ok(String::from_utf8_lossy(&line?).into_owned())).collect()
}

fn too_long(lines: &[String], max_entries: usize) -> bool {
    lines.len() > max_entries || lines.iter().map(String::len).sum::<usize>() > MAX_FILE_BYTES
}

/// Removes the oldest lines of the file. Returns the others.
fn shorten(file: &Path) -> io::Result<Vec<String>> {
    let _lock = lock(file)?;
    let mut lines = read_lines(file)?;
    let mut bytes = 0;
    let kept = lines.iter().rev().take(MAX_ENTRIES).take_while(|line| {
        bytes += line.len() + 1;
        bytes <= MAX_FILE_BYTES / 2
    });
    let mut lines = lines.split_off(lines.len() - kept.count());
    lines.retain(|line| !line.is_empty());
    // The new file replaces the old one as a whole.
    atomic_file::write_own(file, Access::Owner, |new| {
        lines.iter().try_for_each(|line| writeln!(new, "{line}"))
    })?;
    Ok(lines)
}

fn to_line(entry: &[Atom]) -> io::Result<String> {
    let mut parts = Vec::new();
    for atom in entry {
        match (atom, parts.last_mut()) {
            (Atom::Char(c), Some(MessagePart::Typed(text))) => text.push(*c),
            (Atom::Char(c), _) => parts.push(MessagePart::Typed(c.to_string())),
            (Atom::Paste(paste), _) => parts.push(MessagePart::Pasted { paste: paste.to_string() }),
        }
    }
    Ok(serde_json::to_string(&parts)? + "\n")
}

/// An entry; `None` for a line that is damaged.
fn parse(line: &str) -> Option<Vec<Atom>> {
    let parts: Vec<MessagePart> = serde_json::from_str(line).ok()?;
    let atoms = parts.into_iter().flat_map(|part| match part {
        MessagePart::Typed(text) => text.chars().map(Atom::Char).collect(),
        MessagePart::Pasted { paste } => vec![Atom::Paste(paste.into())],
    });
    Some(atoms.collect())
}

/// What is said if the history cannot be written.
pub fn not_kept(error: &io::Error) -> String {
    format!("note: messages are no longer kept for the next chat: {error}")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use terminal::line::draft::DraftMessage;

    use super::*;

    fn typed(text: &str) -> Vec<Atom> {
        DraftMessage::typed(text).atoms().to_vec()
    }

    fn texts(history: &History) -> Vec<String> {
        (0..history.len())
            .map(|at| DraftMessage::new(history.get(at).expect("an entry").to_vec()).text())
            .collect()
    }

    #[test]
    fn entries_are_kept_as_they_were_sent() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("new/longhand/history");
        let mut history = History::at(&file).expect("a history");
        let mut draft = DraftMessage::typed("why \"this\"?\n\\ \u{1b}");
        draft.insert_paste(&"line\n".repeat(10));
        for entry in [typed("one"), draft.atoms().to_vec(), typed("two"), typed("two"), Vec::new()] {
            history.add(&entry).expect("written");
        }
        let again = History::at(&file).expect("the history");
        assert_eq!(again.entries, [typed("one"), draft.atoms().to_vec(), typed("two")]);
    }

    #[cfg(unix)]
    #[test]
    fn only_the_user_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("longhand/history");
        History::at(&file).expect("a history").add(&typed("secret")).expect("written");
        let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().expect("a folder"))), (0o600, 0o700));
        assert_eq!(mode(&file.with_extension("lock")), 0o600);
    }

    /// A text elsewhere is neither read nor written through a link. A pipe would wait for ever, and 20 GB have no room.
    #[cfg(unix)]
    #[test]
    fn what_is_no_history_is_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, precious) = (folder.path().join("history"), folder.path().join("precious"));
        fs::write(&precious, "[\"a letter\"]\n").expect("written");
        for name in ["history", "history.lock"] {
            std::os::unix::fs::symlink(&precious, folder.path().join(name)).expect("a link");
        }
        let mut history = History::at(&file).expect("a history");
        history.add(&typed("new")).expect("written");
        assert_eq!(texts(&History::at(&file).expect("a history")), ["new"]);
        assert_eq!(fs::read(&precious).expect("a file"), b"[\"a letter\"]\n");

        File::create(&file).and_then(|file| file.set_len(20 << 30)).expect("a sparse file");
        assert!(texts(&History::at(&file).expect("a history")).is_empty());
        assert!(fs::metadata(&file).expect("a file").len() < 100, "it is shortened");
        for name in ["history", "history.lock"] {
            let path = folder.path().join(name);
            fs::remove_file(&path).expect("removed");
            if !std::process::Command::new("mkfifo").arg(&path).status().is_ok_and(|made| made.success()) {
                return println!("skipped: no mkfifo");
            }
            let added = History::at(&file).and_then(|mut history| history.add(&typed("lost")));
            assert!(added.expect_err("a pipe").to_string().contains("not a regular file"), "{name}");
            fs::remove_file(&path).expect("removed");
            fs::write(&path, "").expect("a file");
        }
    }

    #[test]
    fn several_programs_lose_no_entry() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("history");
        thread::scope(|scope| {
            for program in 0..4 {
                let file = &file;
                scope.spawn(move || {
                    let mut history = History::at(file).expect("a history");
                    for entry in 0..25 {
                        history.add(&typed(&format!("{program} {entry}"))).expect("written");
                        if entry % 10 == 0 {
                            shorten(file).expect("shortened");
                        }
                    }
                });
            }
        });
        let mut entries = texts(&History::at(&file).expect("the history"));
        entries.sort();
        entries.dedup();
        assert_eq!(entries.len(), 100);
    }

    #[test]
    fn the_oldest_entries_are_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("history");
        let lines: String = (0..MAX_ENTRIES + SLACK + 1).map(|at| format!("[\"{at}\"]\n")).collect();
        fs::write(&file, lines).expect("written");
        let entries = texts(&History::at(&file).expect("the history"));
        assert_eq!((entries.len(), entries[0].as_str()), (MAX_ENTRIES, "1001"));
        assert_eq!(read_lines(&file).expect("the file").len(), MAX_ENTRIES);
        // A few long entries are too long as well.
        fs::write(&file, format!("[\"{}\"]\n", "x".repeat(MAX_FILE_BYTES / 20)).repeat(30)).expect("written");
        assert_eq!(History::at(&file).expect("the history").len(), 9);
    }

    #[test]
    fn damaged_lines_are_skipped_and_long_entries_not_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("history");
        fs::write(&file, b"[\"a\"]\n\xff\xfe{]\n\n[\"b\"]\n[\"cut").expect("written");
        let mut history = History::at(&file).expect("a history");
        assert_eq!(texts(&history), ["a", "b"]);
        history.add(&typed(&"x".repeat(MAX_ENTRY_BYTES))).expect("kept");
        assert_eq!((history.len(), History::at(&file).expect("the history").len()), (3, 2));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_with_its_path() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let error = History::at(&file.path().join("longhand/history")).err().expect("no folder");
        assert!(error.to_string().contains("longhand/history: "), "{error}");
    }
}
