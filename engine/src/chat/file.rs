//! A session file that one process owns and writes again and again.
//!
//! The file is locked while it is owned, replaced as a whole, and never written over when another program has
//! changed it. The KV cache is large and the conversation small, so the conversation can be saved alone. A
//! cache that the file had is then beside it, in `FILE.cache`, until the next whole save. What is newer than
//! that cache is read again when the conversation goes on. A process that is killed leaves a whole file.
//!
//! A file beside it is this conversation's only if it is an earlier state of it ([`Origin`]). Any other file of such a
//! name is somebody else's and stays as it is; the cache then has the other name ([`ChatFile::cache_paths`]).

use std::ffi::OsString;
use std::fs::{self, Metadata, TryLockError};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use models::file_lock::LockFile;
use models::regular_file;
use serde::{Deserialize, Serialize};

use super::{Chat, SavedChat};
use crate::files::atomic_file::{self, Access, DraftFile, Links};
use crate::session::snapshot::{self, SaveError, error_in, io_error};
use crate::{EngineError, Hint};

/// A session file that this process owns.
///
/// ```
/// use longhand::saved::ChatFile;
/// use longhand::{Chat, ChatOptions, Model, ModelSource, Setup, SetupOptions};
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
    file: LockFile,
    /// What this was like then.
    state: FileState,
    /// What tells this conversation's files from others.
    origin: Origin,
    /// Whether it has a KV cache.
    has_cache: bool,
    /// The file beside it with an older KV cache, if there is one.
    older: Option<Older>,
}

/// A file with the KV cache of some turns ago.
struct Older {
    path: PathBuf,
    /// What it was like when it was made or found.
    state: FileState,
}

/// Which session file a conversation was written to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Origin {
    /// A random number, which the file keeps as long as it exists.
    id: String,
    /// The name of the file.
    file: String,
}

impl Origin {
    /// That of a new file.
    pub(super) fn new(path: &Path) -> Origin {
        // The keys of each state are random.
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        Origin { id: format!("{:016x}", hasher.finish()), file: file_name(path) }
    }

    /// The same in the file of this path.
    fn at(self, path: &Path) -> Origin {
        Origin { file: file_name(path), ..self }
    }

    /// Whether both are of one file.
    pub(super) fn is_same(&self, other: &Origin) -> bool {
        self.id == other.id
    }
}

/// What tells whether another program has changed a file.
#[derive(Debug, PartialEq, Eq)]
struct FileState {
    bytes: u64,
    modified: Option<SystemTime>,
    #[cfg(unix)]
    inode: (u64, u64),
}

impl FileState {
    fn new(metadata: &Metadata) -> FileState {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt as _;
        FileState {
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
            let origin = Origin::new(path);
            let draft = DraftFile::new(path, Access::Owner, Links::Follow)?;
            draft.write(|to| chat.write_to(false, &origin, to).map_err(SaveError))?;
            let state = FileState::new(&draft.metadata()?);
            let file = draft.create_new()?;
            Ok(ChatFile { path: path.to_owned(), file, state, origin, has_cache: false, older: None })
        })();
        created.map_err(error_in(path))
    }

    /// Whether there is a conversation for [`ChatFile::open`]: a file, or what a process has left that was killed while
    /// it replaced the file. True where that cannot be found out, so that opening it gives the error.
    pub fn exists(path: &Path) -> bool {
        path.try_exists().unwrap_or(true) || left_behind(path).is_some()
    }

    /// Opens a file for this process alone, with the conversation in it.
    ///
    /// # Errors
    /// Where another process has it open, it cannot be read or written, or it is no saved conversation.
    pub fn open(path: &Path) -> Result<(ChatFile, SavedChat), EngineError> {
        ChatFile::open_locked(path).map_err(error_in(path))
    }

    fn open_locked(path: &Path) -> Result<(ChatFile, SavedChat), SaveError> {
        let path = dunce::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if !path.try_exists()?
            && let Some(left) = left_behind(&path)
        {
            fs::rename(left, &path)?;
        }
        let (file, state) = lock(&path)?;
        atomic_file::remove_leftovers(atomic_file::folder(&path), path.file_name(), snapshot::BEGINS);
        let mut saved = SavedChat::open(&path)?;
        let has_cache = saved.has_cache();
        let origin = saved.origin().clone().at(&path);
        let older = older_state(&saved);
        let mut file = ChatFile { path, file, state, origin, has_cache, older: None };
        if let Some((found, cache)) = older {
            file.older = Some(found);
            match has_cache {
                // A process ended before it had removed it.
                true => _ = file.remove_older(),
                false => saved.add_cache(cache),
            }
        }
        // A folder that cannot be written is found out now and not after hours of work.
        atomic_file::check_writable(&file.path)?;
        Ok((file, saved))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files beside a session file that may have an older KV cache. The second one is used where the first one is
    /// somebody else's.
    pub fn cache_paths(path: &Path) -> [PathBuf; 2] {
        [".cache", ".longhand-cache"].map(|extension| {
            let mut name = OsString::from(path);
            name.push(extension);
            name.into()
        })
    }

    /// Whether an older KV cache of a conversation, which has none itself, is beside its file and can be used.
    pub fn has_older_cache(saved: &SavedChat) -> bool {
        older_cache(saved).is_some()
    }

    /// Saves the conversation with its KV cache.
    ///
    /// # Errors
    /// Where another program has changed the file since, or it cannot be written. It is then as it was.
    pub fn save(&mut self, chat: &Chat) -> Result<(), EngineError> {
        let model = chat.session().engine().model();
        if chat.session().first_text_share().is_some() || model.check_unchanged().is_err() {
            // Layers of a text that is not read yet are no cache, and rows of a file that was changed are none of use.
            return self.save_conversation(chat);
        }
        let origin = self.origin.clone();
        self.replace(|to| chat.write_to(true, &origin, to), false).map_err(error_in(&self.path))?;
        let _ = self.remove_older();
        self.has_cache = true;
        Ok(())
    }

    /// Saves the conversation without its KV cache, which takes little time and space. The cache that was
    /// saved last is kept.
    ///
    /// # Errors
    /// As for [`ChatFile::save`].
    pub fn save_conversation(&mut self, chat: &Chat) -> Result<(), EngineError> {
        let origin = self.origin.clone();
        self.replace(|to| chat.write_to(false, &origin, to), self.has_cache).map_err(error_in(&self.path))?;
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
            // Windows refuses to replace what is open: this closes it before.
            let content = move |to: &mut dyn Write| saved.write_without_cache(to);
            self.replace(content, false).map_err(error_in(&self.path))?;
            self.has_cache = false;
            if let Some(modified) = modified {
                // Not every file system can do this, and nothing depends on it but an order.
                let _ = self.file.set_modified(modified);
                let metadata = self.file.metadata().map_err(|error| io_error(&self.path, error))?;
                self.state = FileState::new(&metadata);
            }
        }
        self.remove_older().map_err(error_in(&self.path))
    }

    /// Removes the file and the cache beside it.
    ///
    /// # Errors
    /// Where another program has changed the file since, or it cannot be removed.
    pub fn remove(mut self) -> Result<(), EngineError> {
        let removed = self.check_unchanged().and_then(|()| remove(&self.path));
        removed.and_then(|()| self.remove_older()).map_err(error_in(&self.path))
    }

    /// Gives the file and the cache beside it another name.
    ///
    /// # Errors
    /// Where another program has changed the file since, there is a file of that name, or it cannot be renamed.
    pub fn rename(mut self, to: &Path) -> Result<(), EngineError> {
        let renamed = self.check_unchanged().and_then(|()| Ok(rename_new(&self.path, to)?));
        renamed.map_err(error_in(to))?;
        if let Some(Older { path, state }) = self.older.take()
            && is_at(&path, &state)
        {
            // The conversation is whole without it.
            let _ = ChatFile::cache_paths(to).iter().any(|to| rename_new(&path, to).is_ok());
        }
        Ok(())
    }

    /// Copies the conversation in a session file to a new one, with its KV cache. Both then go on separately.
    ///
    /// # Errors
    /// Where the file cannot be read or is damaged, or the new one exists or cannot be written.
    pub fn fork(path: &Path, to: &Path) -> Result<(), EngineError> {
        let (saved, origin) = (SavedChat::open(path)?, Origin::new(to));
        snapshot::save_new_with(to, |file| saved.write_copy(&origin, file))?;
        if let Some(older) = older_cache(&saved) {
            // The conversation is whole without it.
            let _ = ChatFile::cache_paths(to)
                .iter()
                .any(|to| snapshot::save_new_with(to, |file| older.write_copy(&origin, file)).is_ok());
        }
        Ok(())
    }

    /// Removes what killed processes have left of session files in a folder of the program. Errors are ignored.
    pub fn remove_leftovers(folder: &Path) {
        atomic_file::remove_leftovers(folder, None, snapshot::BEGINS);
    }

    /// Removes the cache beside the file, unless another program has changed it.
    fn remove_older(&mut self) -> Result<(), SaveError> {
        match self.older.take() {
            Some(Older { path, state }) if is_at(&path, &state) => remove(&path),
            _ => Ok(()),
        }
    }

    /// Makes the file the older cache beside itself: as a second name, so that there is a file at the path at any moment,
    /// or where the file system knows no links as its only name. `None` where both names are taken.
    fn keep_as_older(&mut self) -> Result<Option<PathBuf>, SaveError> {
        self.remove_older()?;
        for path in ChatFile::cache_paths(&self.path) {
            match fs::hard_link(&self.path, &path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(_) if fs::symlink_metadata(&path).is_ok() => {}
                Err(_) => {
                    fs::rename(&self.path, &path)?;
                    return Ok(Some(path));
                }
                Ok(()) => return Ok(Some(path)),
            }
        }
        Ok(None)
    }

    /// Replaces the file. With `keep_cache` the old one is then the cache beside it.
    fn replace(
        &mut self,
        content: impl FnOnce(&mut dyn Write) -> Result<(), EngineError>,
        keep_cache: bool,
    ) -> Result<(), SaveError> {
        let draft = DraftFile::new(&self.path, Access::Owner, Links::Follow)?;
        draft.write(|to| content(to).map_err(SaveError))?;
        // Before the file has its name: after that nothing may fail.
        let state = FileState::new(&draft.metadata()?);
        self.check_unchanged()?;
        let older = match keep_cache && self.path.try_exists()? {
            true => self.keep_as_older()?,
            false => None,
        };
        if cfg!(windows) {
            // Which refuses to replace a file that is open, here or elsewhere.
            self.file = draft.try_clone()?;
        }
        let replaced = draft.replace().inspect_err(|_| {
            let Some(older) = &older else { return };
            let _ = match self.path.try_exists() {
                Ok(true) => fs::remove_file(older),
                _ => fs::rename(older, &self.path),
            };
        });
        let file = replaced?;
        let before = std::mem::replace(&mut self.state, state);
        if let Some(path) = older {
            self.older = Some(Older { path, state: before });
        }
        // Closing the old file ends its lock; the new one has been locked since it was made.
        self.file = file;
        Ok(())
    }

    /// An error if the file is another one than this process has opened or written.
    fn check_unchanged(&self) -> Result<(), SaveError> {
        match fs::metadata(&self.path) {
            Ok(metadata) if FileState::new(&metadata) != self.state => {
                Err(SaveError(EngineError::Snapshot {
                    path: self.path.clone(),
                    what: "another program has changed it".into(),
                    hint: Hint::advice("save to another file"),
                }))
            }
            // What is gone cannot be overwritten.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Opens and locks a file. Where the file system knows no locks it is only opened.
fn lock(path: &Path) -> Result<(LockFile, FileState), SaveError> {
    loop {
        let file = LockFile::new(crate::session::snapshot::open(path).map_err(EngineError::from)?);
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let what = "another longhand has this conversation open".into();
                let hint = Hint::advice("end it there, or give another file");
                return Err(SaveError(EngineError::Snapshot { path: path.to_owned(), what, hint }));
            }
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        // Until it was locked, its owner may have replaced it.
        let state = FileState::new(&file.metadata()?);
        if FileState::new(&fs::metadata(path)?) == state {
            return Ok((file, state));
        }
    }
}

/// The file beside a conversation that is an earlier state of it, with its KV cache.
fn older_state(saved: &SavedChat) -> Option<(Older, SavedChat)> {
    ChatFile::cache_paths(saved.path()).into_iter().find_map(|path| {
        let metadata = fs::symlink_metadata(&path).ok().filter(Metadata::is_file)?;
        let older = SavedChat::open(&path).ok().filter(|older| older.is_earlier_state_of(saved))?;
        Some((Older { path, state: FileState::new(&metadata) }, older))
    })
}

/// The same, where the conversation has no KV cache itself and can use the older one.
fn older_cache(saved: &SavedChat) -> Option<SavedChat> {
    let (_, older) = older_state(saved).filter(|_| !saved.has_cache())?;
    older.has_cache_for(saved).then_some(older)
}

/// The conversation of a process that was killed while it replaced the file of this path, where the file system knows no
/// links.
fn left_behind(path: &Path) -> Option<PathBuf> {
    if fs::symlink_metadata(path).is_ok() {
        return None;
    }
    let expected = file_name(path);
    ChatFile::cache_paths(path).into_iter().find(|older| {
        let is_of_file = |saved: SavedChat| saved.origin().file == expected;
        regular_file::is_own(older) && SavedChat::open(older).is_ok_and(is_of_file)
    })
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Whether a path still leads to the file that was like this.
fn is_at(path: &Path, state: &FileState) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| FileState::new(&metadata) == *state)
}

/// Renames a file to a name that no file has.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        // Not every file system knows links.
        Err(_) if fs::symlink_metadata(to).is_err() => fs::rename(from, to),
        Err(_) => Err(io::ErrorKind::AlreadyExists.into()),
    }
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> Result<(), SaveError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
