//! A session file that one process owns and writes again and again.
//!
//! The file is locked while it is owned, replaced as a whole, and never written over when another program has
//! changed it. The KV cache is large and the conversation small, so the conversation can be saved alone. A
//! cache that the file had is then beside it, in `FILE.cache`, until the next whole save. What is newer than
//! that cache is read again when the conversation goes on. A process that is killed leaves a whole file.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{Chat, SavedChat};
use crate::atomic_file::{self, Access, Draft};
use crate::snapshot::{SaveError, Snapshot, error_in, io_error};
use crate::{EngineError, Hint};

/// A session file that this process owns.
///
/// ```
/// use longhand::{Chat, ChatFile, ChatOptions, Model, ModelSource, Setup, SetupOptions};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("talk.session");
/// // A chat as usual.
/// let model = Model::open(ModelSource::Embedded)?;
/// let session = Setup::resolve(&model, &SetupOptions::default(), 0, &mut ())?.start(&mut ())?;
/// let mut chat = Chat::new(session, ChatOptions::default())?;
///
/// let mut file = ChatFile::create(&path, &chat)?;
/// chat.ask("Mary's favorite number is 34251. What is Mary's favorite number?", &mut |_| ())?;
/// file.save(&chat)?;
/// // One owner at a time.
/// assert!(ChatFile::open(&path).is_err(), "it is open");
/// drop(file);
/// let (_file, saved) = ChatFile::open(&path)?;
/// assert_eq!(saved.turns()[0].1, Some("Mary's favorite number is 34251."));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ChatFile {
    path: PathBuf,
    /// What the path led to when it was opened or written last. It is locked.
    file: File,
    /// What this was like then.
    state: State,
    /// Whether it has a KV cache.
    has_cache: bool,
}

/// What tells whether another program has changed a file.
#[derive(Debug, PartialEq, Eq)]
struct State {
    bytes: u64,
    modified: Option<SystemTime>,
    #[cfg(unix)]
    inode: (u64, u64),
}

impl State {
    fn new(metadata: &Metadata) -> State {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt as _;
        State {
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
            #[cfg(unix)]
            inode: (metadata.dev(), metadata.ino()),
        }
    }
}

impl ChatFile {
    /// Writes a conversation, without a cache, to a new file.
    ///
    /// # Errors
    /// Where there is a file already, or it cannot be written.
    pub fn create(path: &Path, chat: &Chat) -> Result<ChatFile, EngineError> {
        let created = (|| {
            let draft = Draft::new(path, Access::Owner)?;
            draft.write(|to| chat.write_to(false, to).map_err(SaveError))?;
            let state = State::new(&draft.metadata()?);
            let file = draft.create_new()?;
            Ok(ChatFile { path: path.to_owned(), file, state, has_cache: false })
        })();
        created.map_err(error_in(path))
    }

    /// Opens a file for this process alone, with the conversation in it.
    ///
    /// # Errors
    /// Where another process has it open, it cannot be read or written, or it is no saved conversation.
    pub fn open(path: &Path) -> Result<(ChatFile, SavedChat), EngineError> {
        ChatFile::open_locked(path).map_err(error_in(path))
    }

    fn open_locked(path: &Path) -> Result<(ChatFile, SavedChat), SaveError> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let cache = ChatFile::cache_path(&path);
        if !path.try_exists()? && cache.exists() {
            // A process ended in `replace`, where the file system knows no links.
            fs::rename(&cache, &path)?;
        }
        let (file, state) = lock(&path)?;
        atomic_file::remove_leftovers(atomic_file::folder(&path), path.file_name());
        let mut saved = SavedChat::open(&path)?;
        let has_cache = saved.has_cache();
        if has_cache {
            let _ = fs::remove_file(&cache);
        } else if let Ok(cache) = Snapshot::open(&cache) {
            saved.add_cache(cache);
        }
        // A folder that cannot be written is found out now and not after hours of work.
        atomic_file::check_writable(&path)?;
        Ok((ChatFile { path, file, state, has_cache }, saved))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file beside a session file that may have an older KV cache.
    pub fn cache_path(path: &Path) -> PathBuf {
        let mut name = OsString::from(path);
        name.push(".cache");
        name.into()
    }

    /// Saves the conversation with its KV cache.
    ///
    /// # Errors
    /// Where another program has changed the file since, or it cannot be written. It is then as it was.
    pub fn save(&mut self, chat: &Chat) -> Result<(), EngineError> {
        if chat.session().first_text_share().is_some() {
            // Layers of a text that is not read yet are no cache.
            return self.save_conversation(chat);
        }
        self.replace(|to| chat.write_to(true, to), false).map_err(error_in(&self.path))?;
        let _ = fs::remove_file(ChatFile::cache_path(&self.path));
        self.has_cache = true;
        Ok(())
    }

    /// Saves the conversation without its KV cache, which takes little time and space. The cache that was
    /// saved last is kept.
    ///
    /// # Errors
    /// As for [`ChatFile::save`].
    pub fn save_conversation(&mut self, chat: &Chat) -> Result<(), EngineError> {
        self.replace(|to| chat.write_to(false, to), self.has_cache).map_err(error_in(&self.path))?;
        self.has_cache = false;
        Ok(())
    }

    /// Removes the KV cache from the file, and the one beside it. The file keeps its time of change.
    ///
    /// # Errors
    /// As for [`ChatFile::save`].
    pub fn remove_cache(&mut self) -> Result<(), EngineError> {
        if self.has_cache {
            let (saved, modified) = (SavedChat::open(&self.path)?, self.state.modified);
            self.replace(|to| saved.write_without_cache(to), false).map_err(error_in(&self.path))?;
            self.has_cache = false;
            if let Some(modified) = modified {
                // Not every file system can do this, and nothing depends on it but an order.
                let _ = self.file.set_modified(modified);
                let metadata = self.file.metadata().map_err(|error| io_error(&self.path, error))?;
                self.state = State::new(&metadata);
            }
        }
        remove(&ChatFile::cache_path(&self.path)).map_err(error_in(&self.path))
    }

    /// Removes the file and the cache beside it.
    ///
    /// # Errors
    /// Where another program has changed the file since, or it cannot be removed.
    pub fn remove(self) -> Result<(), EngineError> {
        let removed = self.check_unchanged().and_then(|()| remove(&self.path));
        removed.and_then(|()| remove(&ChatFile::cache_path(&self.path))).map_err(error_in(&self.path))
    }

    /// Replaces the file. With `keep_cache` the old one is then the cache beside it.
    fn replace(
        &mut self,
        content: impl FnOnce(&mut dyn Write) -> Result<(), EngineError>,
        keep_cache: bool,
    ) -> Result<(), SaveError> {
        let draft = Draft::new(&self.path, Access::Owner)?;
        draft.write(|to| content(to).map_err(SaveError))?;
        // Before the file has its name: after that nothing may fail.
        let state = State::new(&draft.metadata()?);
        self.check_unchanged()?;
        let cache = ChatFile::cache_path(&self.path);
        let keep_cache = keep_cache && self.path.try_exists()?;
        if keep_cache {
            remove(&cache)?;
        }
        // With two names for the old file, there is a file at the path at any moment.
        let is_linked = keep_cache && fs::hard_link(&self.path, &cache).is_ok();
        let is_moved = keep_cache && !is_linked;
        if is_moved {
            fs::rename(&self.path, &cache)?;
        }
        let file = draft.replace().inspect_err(|_| {
            if is_linked {
                let _ = fs::remove_file(&cache);
            } else if is_moved {
                let _ = fs::rename(&cache, &self.path);
            }
        })?;
        self.state = state;
        // Closing the old file ends its lock; the new one has been locked since it was made.
        self.file = file;
        Ok(())
    }

    /// An error if the file is another one than this process has opened or written.
    fn check_unchanged(&self) -> Result<(), SaveError> {
        match fs::metadata(&self.path) {
            Ok(metadata) if State::new(&metadata) != self.state => Err(SaveError(EngineError::Snapshot {
                path: self.path.clone(),
                what: "another program has changed it".into(),
                hint: Hint::advice("save to another file"),
            })),
            // What is gone cannot be overwritten.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Opens and locks a file. Where the file system knows no locks it is only opened.
fn lock(path: &Path) -> Result<(File, State), SaveError> {
    loop {
        let file = crate::snapshot::open(path).map_err(EngineError::from)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let what = "another longhand has this conversation open".into();
                let hint = Hint::advice("end it there, or give another file");
                return Err(SaveError(EngineError::Snapshot { path: path.to_owned(), what, hint }));
            }
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        // Until it was locked, its owner may have replaced it.
        let state = State::new(&file.metadata()?);
        if State::new(&fs::metadata(path)?) == state {
            return Ok((file, state));
        }
    }
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> Result<(), SaveError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
