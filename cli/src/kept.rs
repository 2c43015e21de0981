//! The folder of kept conversations. Each is a session file with a short name.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use longhand::folders::{self, Occupant};
use longhand::{Chat, ChatFile, EngineError, atomic_file};

use crate::failure::Failure;

/// The extension of their files.
const EXTENSION: &str = "session";
/// Letters of the longest name that is made from a document's.
const MAX_STEM: usize = 24;

/// The folder.
#[derive(Clone, Debug)]
pub struct KeptChats {
    folder: PathBuf,
}

/// A kept conversation that was not opened yet.
#[derive(Clone, Debug)]
pub struct KeptChat {
    /// Its name.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// Bytes of the file and of the cache beside it.
    pub bytes: u64,
    /// When it was written last.
    pub modified: SystemTime,
}

impl KeptChats {
    /// The user's folder, which need not exist; `None` if the system names none.
    pub fn find() -> Option<KeptChats> {
        Some(KeptChats { folder: folders::state()?.join("sessions") })
    }

    /// Makes the folder and removes what killed processes left in it.
    ///
    /// # Errors
    /// Where the folder cannot be made or written.
    pub fn prepare(&self) -> Result<(), Failure> {
        let made = folders::make_private(&self.folder)
            .and_then(|()| atomic_file::check_writable(&self.folder.join(format!("new.{EXTENSION}"))));
        atomic_file::remove_leftovers(&self.folder, None);
        made.map_err(|error| {
            Failure::new(
                format!("conversations cannot be kept in {}: {error}", self.folder.display()),
                "make this folder writable, or name another one with the environment variable XDG_STATE_HOME",
            )
        })
    }

    /// Keeps a conversation under a new name, which begins with `title`.
    pub fn add(&self, title: &str, chat: &Chat) -> Result<ChatFile, EngineError> {
        let stem = stem(title);
        let mut number = 1;
        loop {
            let name = if number == 1 { stem.clone() } else { format!("{stem}-{number}") };
            let path = self.path(&name);
            match ChatFile::create(&path, chat) {
                Err(_) if path.exists() => number += 1,
                created => return created,
            }
        }
    }

    /// All, the one that was written last first.
    pub fn list(&self) -> Vec<KeptChat> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut list: Vec<KeptChat> = entries
            .filter_map(|entry| {
                let path = entry.path();
                let name = path.file_stem()?.to_str()?.to_owned();
                let metadata = entry.metadata().ok().filter(|metadata| metadata.is_file())?;
                let is_session = path.extension().is_some_and(|extension| extension == EXTENSION);
                is_session.then_some(KeptChat {
                    name,
                    bytes: occupied(&path),
                    modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                    path,
                })
            })
            .collect();
        list.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.name.cmp(&b.name)));
        list
    }

    /// The file of a conversation: by its name, a unique beginning of it, or the path of a session file. Without a
    /// name, the one that was written last.
    pub fn file(&self, name: Option<&str>) -> Result<PathBuf, Failure> {
        const SHOW: &str = "`longhand sessions list` shows them";
        let list = self.list();
        let Some(name) = name else {
            let newest = list.into_iter().next().map(|kept| kept.path);
            return newest.ok_or_else(|| {
                Failure::new("no conversation is kept yet", "start one with: longhand chat MODEL -f FILE")
            });
        };
        let paths = |fits: &dyn Fn(&str) -> bool| -> Vec<&KeptChat> {
            list.iter().filter(|kept| fits(&kept.name)).collect()
        };
        let exact = paths(&|found| found == name);
        if exact.is_empty() && Path::new(name).is_file() {
            return Ok(name.into());
        }
        let found = if exact.is_empty() { paths(&|found| found.starts_with(name)) } else { exact };
        match found[..] {
            [kept] => Ok(kept.path.clone()),
            [] => Err(Failure::new(format!("no conversation named {name} is kept"), SHOW)),
            _ => {
                let names: Vec<&str> = found.iter().map(|kept| kept.name.as_str()).collect();
                let message = format!("several kept conversations begin with {name}: {}", names.join(", "));
                Err(Failure::new(message, "give the whole name of one"))
            }
        }
    }

    /// Makes room for a KV cache of so many bytes in the conversation `own`, where all may take `limit` bytes: the
    /// caches of conversations that were not used for longest are removed. Returns whether there is room.
    pub fn make_room(&self, bytes: u64, own: &Path, limit: u64) -> bool {
        // Not by their paths, which may lead through links.
        let own = self.name(own);
        let others = self.list().into_iter().filter(|kept| own != Some(kept.name.as_str()));
        let others = others.map(|kept| Occupant { path: kept.path, bytes: kept.bytes, used: kept.modified });
        folders::make_room(others.collect(), bytes, limit, |path| {
            let before = occupied(path);
            // One that is open elsewhere, or damaged, is left alone.
            let _ = ChatFile::open(path).and_then(|(mut file, _)| file.remove_cache());
            before.saturating_sub(occupied(path))
        })
    }

    /// The name of a kept conversation by its file; `None` for other files.
    pub fn name<'a>(&self, path: &'a Path) -> Option<&'a str> {
        let folder = fs::canonicalize(&self.folder).unwrap_or_else(|_| self.folder.clone());
        let is_kept = path.parent() == Some(&self.folder) || path.parent() == Some(&folder);
        path.file_stem().filter(|_| is_kept)?.to_str()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.{EXTENSION}"))
    }
}

/// Bytes of a session file and of the cache beside it.
fn occupied(path: &Path) -> u64 {
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    bytes(path) + bytes(&ChatFile::cache_path(path))
}

/// The beginning of a title as a name that can be typed: `My Book (2nd).txt` gives `my-book-2nd-txt`.
pub fn stem(title: &str) -> String {
    let words: Vec<String> = title
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let stem: String = words.join("-").chars().take(MAX_STEM).collect();
    let stem = stem.trim_matches('-');
    if stem.is_empty() { "chat".to_owned() } else { stem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_be_typed() {
        for (title, name) in [
            ("My Book (2nd)", "my-book-2nd"),
            ("../../etc/passwd", "etc-passwd"),
            ("\u{202e}a\u{1b}[31m", "a-31m"),
            ("Überweg – Geschichte der Philosophie", "überweg-geschichte-der-p"),
            ("书", "书"),
            ("--", "chat"),
            ("", "chat"),
        ] {
            assert_eq!(stem(title), name);
        }
    }
}
