//! The folder of kept conversations. Each is a session file with a short name.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use longhand::files::atomic_file;
use longhand::files::folders::{self, Occupant};
use longhand::saved::ChatFile;
use longhand::{Chat, EngineError};
use terminal::console;

use crate::failure::{Failure, Hinted};

/// The extension of their files.
const EXTENSION: &str = "session";
/// Letters of the longest name that is made from a document's.
const MAX_STEM: usize = 24;
/// Letters that are taken of the first question.
const MAX_QUESTION: usize = 40;
/// Letters, and bytes, of a name that a user may give.
const MAX_NAME: usize = 60;
const MAX_NAME_BYTES: usize = 180;

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

    /// Refuses a folder in which others may have put files. One that does not exist is fine.
    ///
    /// # Errors
    /// Why the folder is not used.
    pub fn check(&self) -> Result<(), Failure> {
        folders::check_trusted(&self.folder).map_err(|error| self.unusable(&error))
    }

    /// Makes the folder and removes what killed processes left in it.
    ///
    /// # Errors
    /// Where the folder cannot be made or written, or others may write to it.
    pub fn prepare(&self) -> Result<(), Failure> {
        let made = folders::make_private(&self.folder)
            .and_then(|()| atomic_file::check_writable(&self.folder.join(format!("new.{EXTENSION}"))));
        made.map_err(|error| self.unusable(&error))?;
        ChatFile::remove_leftovers(&self.folder);
        Ok(())
    }

    fn unusable(&self, error: &io::Error) -> Failure {
        Failure::new(
            format!("conversations cannot be kept in {}: {error}", self.folder.display()),
            "make this folder writable for you and nobody else, or name another one with the environment variable \
             XDG_STATE_HOME",
        )
    }

    /// Keeps a conversation under a new name: that of its document, or words of its first question where there is no
    /// document or its name is taken.
    pub fn add(&self, document: &str, question: &str, chat: &Chat) -> Result<ChatFile, EngineError> {
        loop {
            // The file is written once, under a name that is free.
            let path = names(document, question).map(|name| self.path(&name)).find(|path| is_free(path));
            let path = path.unwrap_or_else(|| self.path("chat"));
            match ChatFile::create(&path, chat) {
                // Another program was faster.
                Err(_) if !is_free(&path) => {}
                created => return created,
            }
        }
    }

    /// Gives a kept conversation another name.
    ///
    /// # Errors
    /// Where it is none of the kept ones, is open, or the name is taken or cannot be one.
    pub fn rename(&self, path: &Path, name: &str) -> Result<(), Failure> {
        if self.name(path).is_none() {
            return Err(Failure::new(
                format!("{} is not among the kept conversations", path.display()),
                "rename the file",
            ));
        }
        let to = self.new_path(name)?;
        let renamed = ChatFile::open(path).and_then(|(file, _)| file.rename(&to));
        renamed.map_err(Hinted::into_failure)
    }

    /// Copies a conversation to a new one, which goes on separately. Without a name it is called as the first one, with a
    /// number. Returns its name.
    ///
    /// # Errors
    /// Where the conversation cannot be read, or the name is taken or cannot be one.
    pub fn fork(&self, path: &Path, name: Option<&str>) -> Result<String, Failure> {
        self.prepare()?;
        let to = match name {
            Some(name) => self.new_path(name)?,
            None => {
                let stem = match self.name(path) {
                    Some(name) => name.to_owned(),
                    None => stem(&path.file_stem().unwrap_or_default().to_string_lossy()),
                };
                let path = numbered(stem).map(|name| self.path(&name)).find(|path| is_free(path));
                path.unwrap_or_else(|| self.path("chat"))
            }
        };
        ChatFile::fork(path, &to).map_err(Hinted::into_failure)?;
        Ok(self.name(&to).unwrap_or_default().to_owned())
    }

    /// The file of a new conversation with a name that a user has given.
    fn new_path(&self, name: &str) -> Result<PathBuf, Failure> {
        let is_plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        let begins = name.starts_with(char::is_alphanumeric);
        let is_short = name.chars().count() <= MAX_NAME && name.len() <= MAX_NAME_BYTES;
        if !begins || !name.chars().all(is_plain) || !is_short || is_device(name) {
            return Err(Failure::usage(
                format!("{name:?} cannot be the name of a conversation"),
                format!(
                    "use up to {MAX_NAME} letters, digits, hyphens, dots and underscores, such as {}",
                    stem(name)
                ),
            ));
        }
        let path = self.path(name);
        match is_free(&path) {
            true => Ok(path),
            false => Err(Failure::new(
                format!("a conversation named {name} is kept already"),
                "give another name; `longhand sessions list` shows those that are taken",
            )),
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
        // A name with invisible characters is shown with escapes, and may be given so.
        let exact = paths(&|found| found == name || console::visible(found) == name);
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
            let _ = ChatFile::open(path).and_then(|(mut file, saved)| {
                // Windows refuses to replace a file that is open.
                drop(saved);
                file.remove_cache()
            });
            before.saturating_sub(occupied(path))
        })
    }

    /// The name of a kept conversation by its file; `None` for other files.
    pub fn name<'a>(&self, path: &'a Path) -> Option<&'a str> {
        let folder = dunce::canonicalize(&self.folder).unwrap_or_else(|_| self.folder.clone());
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
    bytes(path) + ChatFile::cache_paths(path).iter().map(|path| bytes(path)).sum::<u64>()
}

/// Whether a path leads to nothing, not even to a link.
fn is_free(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err()
}

/// The names of a new conversation, the best one first.
fn names(document: &str, question: &str) -> impl Iterator<Item = String> + use<> {
    let (document, question) = (words(document, MAX_STEM, false), words(question, MAX_QUESTION, true));
    let joined = [document.as_str(), &question].into_iter().filter(|part| !part.is_empty());
    let joined = joined.collect::<Vec<_>>().join("-");
    let joined = if joined.is_empty() { "chat".to_owned() } else { joined };
    let alone = Some(document).filter(|document| !document.is_empty());
    alone.into_iter().chain(numbered(joined)).map(no_device)
}

/// `name`, `name-2`, `name-3`, ….
fn numbered(name: String) -> impl Iterator<Item = String> {
    (1..=u64::MAX).map(move |number| if number == 1 { name.clone() } else { format!("{name}-{number}") })
}

/// The beginning of a title as a name that can be typed: `My Book (2nd).txt` gives `my-book-2nd-txt`.
pub fn stem(title: &str) -> String {
    let stem = words(title, MAX_STEM, false);
    if stem.is_empty() { "chat".to_owned() } else { no_device(stem) }
}

/// A name as it is, unless Windows has a device of that name.
fn no_device(name: String) -> String {
    if is_device(&name) { name + "-chat" } else { name }
}

/// Whether Windows has a device of this name, whatever its extension is.
fn is_device(name: &str) -> bool {
    let name = name.split('.').next().unwrap_or_default().to_lowercase();
    let numbered = name.strip_prefix("com").or_else(|| name.strip_prefix("lpt"));
    ["con", "prn", "aux", "nul"].contains(&name.as_str())
        || numbered.is_some_and(|number| matches!(number.as_bytes(), [b'0'..=b'9']))
}

/// Words of a text as a name of up to `letters`: letters and digits, with hyphens between them. `whole`: no word is cut,
/// unless it is the only one.
fn words(text: &str, letters: usize, whole: bool) -> String {
    let mut name = String::new();
    // Names in a question: Mary's.
    let text: String = text.chars().filter(|c| !whole || !"'’".contains(*c)).collect();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let (before, hyphen) = (name.chars().count(), usize::from(!name.is_empty()));
        let word = word.to_lowercase();
        let left = letters.saturating_sub(before + hyphen);
        if left == 0 || whole && hyphen > 0 && word.chars().count() > left {
            break;
        }
        if hyphen > 0 {
            name.push('-');
        }
        name.extend(word.chars().take(left));
    }
    name
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
            ("CON", "con-chat"),
            ("com1", "com1-chat"),
            ("Contract", "contract"),
            ("", "chat"),
        ] {
            assert_eq!(stem(title), name);
        }
    }

    #[test]
    fn names_say_what_a_conversation_is_about() {
        fn first(document: &str, question: &str, count: usize) -> Vec<String> {
            names(document, question).take(count).collect()
        }
        let question = "What is Mary's favorite number, and why does nobody know it?";
        assert_eq!(first("aux", "", 2), ["aux-chat", "aux-chat"]);
        assert_eq!(
            first("Facts", question, 4),
            [
                "facts",
                "facts-what-is-marys-favorite-number-and-why",
                "facts-what-is-marys-favorite-number-and-why-2",
                "facts-what-is-marys-favorite-number-and-why-3",
            ]
        );
        assert_eq!(
            first("", question, 2),
            ["what-is-marys-favorite-number-and-why", "what-is-marys-favorite-number-and-why-2"]
        );
        assert_eq!(first("", "?! \u{e0041}\u{1b}", 2), ["chat", "chat-2"]);
        assert_eq!(first("Facts", "…", 3), ["facts", "facts", "facts-2"]);
        assert_eq!(first("", &"書".repeat(100), 1), ["書".repeat(MAX_QUESTION)]);
        assert_eq!(first("", "../../etc/passwd\n", 1), ["etc-passwd"]);
    }
}
