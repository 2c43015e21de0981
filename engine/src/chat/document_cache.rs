//! Documents that were read once are found again. The session as it was behind them is kept in a file. Its name
//! follows from the tokens, the model and all settings of the session but the context. Documents that were not read to
//! their end have a file, too (`reading_file.rs`), until they are.
//!
//! These files are a cache. Each can be removed at any time. One that is damaged or does not fit is none.

use std::cmp::Reverse;
use std::fs::{self, File};
use std::hash::Hasher as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use models::regular_file;
use twox_hash::XxHash3_64;

use super::cached_documents::Note;
use super::reading_file::{DISK_SPEED, ReadingFile};
use crate::files::atomic_file;
use crate::files::folders::{self, Occupant};
use crate::session::snapshot::unfinished::{UnfinishedText, chunk_of};
use crate::session::snapshot::{self, Snapshot};
use crate::{EngineError, Session};

/// The extension of the files.
const EXTENSION: &str = "read";
/// The extension of files of documents that were not read to their end.
pub(super) const UNFINISHED_EXTENSION: &str = "part";

/// The beginning of another text is used from this many tokens on.
const WORTH_RESTORING: usize = 256;
/// How many tokens are restored, at least, in the time in which one is read.
const RESTORED_WHILE_READ: usize = 32;

/// A folder of documents that were read.
///
/// ```
/// use longhand::saved::DocumentCache;
/// use longhand::{Chat, ChatOptions, Model, ModelSource, Preamble, Setup, SetupOptions};
///
/// let folder = tempfile::tempdir()?;
/// // Here also where writing takes longer than reading.
/// let cache = DocumentCache { max_share: f64::INFINITY, ..DocumentCache::new(folder.path(), 1 << 30) };
/// let model = Model::open(ModelSource::Embedded)?;
/// // The first chat reads the document. The second finds it.
/// for found in [false, true] {
///     let document = "The old boat crossed the river. Mary's favorite number is 34251.";
///     let preamble = Preamble::new(model.chat_format()?, None, document)?;
///     // Room for the document and a question.
///     let session = Setup::resolve(&model, &SetupOptions::default(), 200, &mut ())?.start(&mut ())?;
///     let mut chat = Chat::new(session, ChatOptions { preamble, ..ChatOptions::default() })?;
///     // Then a question as usual.
///     assert_eq!(chat.read_documents(Some(&cache), &mut |_| ())?.found, found);
///     let answer = chat.ask("What is Mary's favorite number?", &mut |_| ())?;
///     assert_eq!(answer.text, "Mary's favorite number is 34251.");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct DocumentCache {
    /// The folder, which need not exist.
    pub folder: PathBuf,
    /// Most bytes of all files.
    pub limit: u64,
    /// What was read is written where that takes at most this share of the time in which it was read.
    pub max_share: f64,
}

impl DocumentCache {
    /// A cache in a folder, whose files take at most `limit` bytes. It keeps what can be written in a tenth of the
    /// time in which it was read.
    pub fn new(folder: &Path, limit: u64) -> DocumentCache {
        DocumentCache { folder: folder.to_owned(), limit, max_share: 0.1 }
    }

    /// Brings an empty session to where it has read `tokens`. Returns the file that had them; `None` if there is none.
    ///
    /// # Errors
    /// Where the model's file was changed since it was loaded, or there is a file for them that is of no use. The session
    /// is empty.
    pub(super) fn find(&self, session: &mut Session, tokens: &[u32]) -> Result<Option<PathBuf>, EngineError> {
        session.engine().model().check_unchanged()?;
        let path = self.path(session, tokens);
        folders::check_trusted(&self.folder).map_err(|error| snapshot::io_error(&path, error))?;
        if !regular_file::is_own(&path) {
            return Ok(None);
        }
        Snapshot::open(&path)?.restore_into(session, Some(tokens))?;
        note_use(&path);
        Ok(Some(path))
    }

    /// Brings a session to the longest beginning of a text that a session like this one has read before, if that is more
    /// than it has of the text itself ([`Session::kept_of`]). Where sessions keep beginnings
    /// ([`Session::keeps_beginnings`]), the beginning of another text that was read will do, too. Where none of the files is of
    /// use after all, the session may be empty.
    ///
    /// # Errors
    /// Where others may have put files in the folder, or the session cannot be emptied.
    pub fn restore_longest(&self, session: &mut Session, tokens: &[u32]) -> Result<(), EngineError> {
        let kept = session.kept_of(tokens);
        for (_, file) in self.beginnings(session, tokens, kept)? {
            session.clear()?;
            let path = file.path().to_owned();
            if file.restore_into(session, None).is_ok() && session.kept_of(tokens) > kept {
                note_use(&path);
                break;
            }
        }
        Ok(())
    }

    /// How many tokens of a text a session would have after [`DocumentCache::restore_longest`], if its files are not damaged.
    ///
    /// # Errors
    /// Where others may have put files in the folder.
    pub fn longest(&self, session: &Session, tokens: &[u32]) -> Result<usize, EngineError> {
        let kept = session.kept_of(tokens);
        Ok(self.beginnings(session, tokens, kept)?.first().map_or(kept, |(shared, _)| *shared))
    }

    /// The files with more of a text's beginning than `kept` tokens, the best first, and how many tokens each has of it.
    fn beginnings(
        &self,
        session: &Session,
        tokens: &[u32],
        kept: usize,
    ) -> Result<Vec<(usize, Snapshot)>, EngineError> {
        if session.engine().model().check_unchanged().is_err() {
            return Ok(Vec::new());
        }
        let (settings, context) = (snapshot::settings(session), session.options().context);
        let mut found = Vec::new();
        for file in self.trusted_files()?.into_iter().filter(|file| regular_file::is_own(&file.path)) {
            let Ok(file) = Snapshot::open(&file.path) else { continue };
            let (shared, all) = (file.shared_with(&settings, tokens), file.tokens());
            let gain = shared.saturating_sub(kept);
            let is_usable = shared == all || gain >= WORTH_RESTORING && session.keeps_beginnings();
            if is_usable && gain > cost(all) && all <= context {
                found.push((shared, file));
            }
        }
        found.sort_by_key(|(shared, file)| Reverse(shared.saturating_sub(cost(file.tokens()))));
        Ok(found)
    }

    /// Keeps what a session has read, if that took so long that writing takes a small share of it
    /// ([`DocumentCache::max_share`]), and there is room. Returns the file. `names` are those of the documents in it.
    ///
    /// # Errors
    /// Where the model's file was changed since it was loaded, or the file cannot be written.
    pub fn keep(
        &self,
        session: &Session,
        names: &[String],
        elapsed: Duration,
    ) -> Result<Option<PathBuf>, EngineError> {
        if time_to_write(session).as_secs_f64() > self.max_share * elapsed.as_secs_f64() {
            return Ok(None);
        }
        self.add(session, names, &self.unfinished_path(session, session.tokens()))
    }

    /// Brings an empty session to where it can read on `tokens`, if they were begun before. Returns how much of them is
    /// read, from 0 to 1, and how long that took.
    ///
    /// # Errors
    /// As for [`DocumentCache::find`].
    pub(super) fn resume(
        &self,
        session: &mut Session,
        tokens: &[u32],
    ) -> Result<Option<(f64, Duration)>, EngineError> {
        session.engine().model().check_unchanged()?;
        let path = self.unfinished_path(session, tokens);
        folders::check_trusted(&self.folder).map_err(|error| snapshot::io_error(&path, error))?;
        if !regular_file::is_own(&path) {
            return Ok(None);
        }
        let file = Snapshot::open(&path)?;
        let share = file.unfinished_share().unwrap_or_default();
        Ok(Some((share, file.resume_into(session, tokens)?)))
    }

    /// Whether the rows of a session are written in less time than they are read in, at so many tokens a second.
    pub fn is_faster_than_reading(session: &Session, tokens_per_second: f64) -> bool {
        session.store().layout().full_bytes(1) as f64 * tokens_per_second < DISK_SPEED
    }

    /// Whether there is a file for these tokens in a session like this one.
    pub fn has(&self, session: &Session, tokens: &[u32]) -> bool {
        folders::check_trusted(&self.folder).is_ok() && regular_file::is_own(&self.path(session, tokens))
    }

    /// How much of `tokens` a session like this one need not read again, from 0 to 1, by what the file says of itself.
    pub(super) fn known_share(&self, session: &Session, tokens: &[u32]) -> f64 {
        if self.has(session, tokens) {
            return 1.0;
        }
        let path = self.unfinished_path(session, tokens);
        let is_there = folders::check_trusted(&self.folder).is_ok() && regular_file::is_own(&path);
        let file = is_there.then(|| Snapshot::open(&path).ok()).flatten();
        let file = file.filter(|file| file.text_tokens() == tokens.len());
        file.and_then(|file| file.unfinished_share()).unwrap_or(0.0)
    }

    /// Keeps a session that has read documents of these names, if there is room. Returns the file. It takes the place of
    /// `part`, the file of the unfinished reading, which the caller removes afterwards.
    ///
    /// # Errors
    /// Where the model's file was changed since it was loaded, or the file cannot be written.
    pub(super) fn add(
        &self,
        session: &Session,
        names: &[String],
        part: &Path,
    ) -> Result<Option<PathBuf>, EngineError> {
        session.engine().model().check_unchanged()?;
        let path = self.path(session, session.tokens());
        self.prepare(&path)?;
        if !self.make_room(session.kv_usage().bytes, &[path.as_path(), part]) {
            return Ok(None);
        }
        let note = Note { names: names.to_vec() }.to_text();
        snapshot::save_own_with(&path, |to| snapshot::write(session, &note, true, to))
            .map(|()| Some(path.clone()))
    }

    /// Keeps how far a session has read documents of these names, unless another process does. False if there is no room.
    ///
    /// # Errors
    /// As for [`DocumentCache::add`].
    pub(super) fn add_unfinished(
        &self,
        file: &mut ReadingFile,
        session: &Session,
        text: &UnfinishedText,
        names: &[String],
    ) -> Result<bool, EngineError> {
        file.begin_attempt(text.elapsed);
        session.engine().model().check_unchanged()?;
        self.prepare(file.path())?;
        // Before others are removed for it.
        if !file.is_ours().map_err(|error| snapshot::io_error(file.path(), error))? {
            return Ok(true);
        }
        if !self.make_room(session.unfinished_bytes(), &[file.path()]) {
            return Ok(false);
        }
        file.write(session, text, &Note { names: names.to_vec() }.to_text())?;
        Ok(true)
    }

    /// Removes what was not used for longest, until so many bytes have room in a new file that takes the place of
    /// `replaced`.
    fn make_room(&self, bytes: usize, replaced: &[&Path]) -> bool {
        let remove = |path: &Path| {
            let bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
            fs::remove_file(path).map_or(0, |()| bytes)
        };
        let others =
            self.files().into_iter().filter(|file| !replaced.contains(&file.path.as_path())).collect();
        folders::make_room(others, bytes as u64, self.limit, remove)
    }

    /// Finds out whether files can be written, which matters before a reading of hours.
    ///
    /// # Errors
    /// Where the folder cannot be made or written to, or others may write to it.
    pub fn check_writable(&self) -> Result<(), EngineError> {
        let path = self.folder.join("new");
        self.prepare(&path)?;
        atomic_file::check_writable(&path).map_err(|error| snapshot::io_error(&path, error))
    }

    /// Makes the folder for a file, which only the user may write to.
    fn prepare(&self, path: &Path) -> Result<(), EngineError> {
        folders::make_private(&self.folder).map_err(|error| snapshot::io_error(path, error))?;
        atomic_file::remove_leftovers(&self.folder, None, snapshot::BEGINS);
        Ok(())
    }

    /// All files, if nobody else may write to the folder.
    pub(super) fn trusted_files(&self) -> Result<Vec<Occupant>, EngineError> {
        folders::check_trusted(&self.folder).map_err(|error| snapshot::io_error(&self.folder, error))?;
        Ok(self.files())
    }

    /// All files. Others in the folder stay as they are: only files of such a name and such a beginning are this cache's.
    pub(super) fn files(&self) -> Vec<Occupant> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| {
                let (path, metadata) = (entry.path(), entry.metadata().ok()?);
                let is_ours = metadata.is_file() && has_name_of_hash(&path) && begins_as_snapshot(&path);
                let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                is_ours.then_some(Occupant { path, bytes: metadata.len(), used })
            })
            .collect()
    }

    /// The file of these tokens in a session like this one.
    pub(super) fn path(&self, session: &Session, tokens: &[u32]) -> PathBuf {
        self.file(&snapshot::settings(session), tokens, EXTENSION)
    }

    /// The file of these tokens, if they are not read to their end. A reading goes on in the same chunks only.
    pub(super) fn unfinished_path(&self, session: &Session, tokens: &[u32]) -> PathBuf {
        let settings = format!("{} {}", snapshot::settings(session), chunk_of(session, tokens.len()));
        self.file(&settings, tokens, UNFINISHED_EXTENSION)
    }

    fn file(&self, settings: &str, tokens: &[u32], extension: &str) -> PathBuf {
        let mut hash = XxHash3_64::new();
        hash.write(settings.as_bytes());
        tokens.iter().for_each(|token| hash.write(&token.to_le_bytes()));
        self.folder.join(format!("{:016x}.{extension}", hash.finish()))
    }
}

/// How many tokens are read in the time in which so many are restored, at most.
fn cost(restored: usize) -> usize {
    restored / RESTORED_WHILE_READ
}

/// Notes that a file was used now.
fn note_use(path: &Path) {
    // Windows sets the time only of a file that is open for writing.
    let file = regular_file::open_with(path, File::options().read(true).append(true));
    let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
}

/// How long a slow disk takes to write the KV cache of a session.
pub(super) fn time_to_write(session: &Session) -> Duration {
    Duration::from_secs_f64(session.kv_usage().bytes as f64 / DISK_SPEED)
}

/// Whether a file has such a name as [`DocumentCache::file`] gives.
fn has_name_of_hash(path: &Path) -> bool {
    let is_hash = |stem: &str| stem.len() == 16 && stem.bytes().all(|letter| letter.is_ascii_hexdigit());
    path.extension().is_some_and(|found| found == EXTENSION || found == UNFINISHED_EXTENSION)
        && path.file_stem().and_then(|stem| stem.to_str()).is_some_and(is_hash)
}

/// Whether a file begins as all session files do, of whichever version. One that a loss of power has cut off before, or
/// filled with zeros, does, too.
fn begins_as_snapshot(path: &Path) -> bool {
    regular_file::open(path).is_ok_and(|file| atomic_file::is_beginning(&file, snapshot::BEGINS))
}
