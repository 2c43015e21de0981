//! Documents that were read once are found again. The session as it was behind them is kept in a file. Its name
//! follows from the tokens, the model and all settings of the session but the context.
//!
//! These files are a cache. Each can be removed at any time. One that is damaged or does not fit is none.

use std::fs;
use std::hash::Hasher as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use twox_hash::XxHash3_64;

use super::Chat;
use crate::folders::{self, Occupant};
use crate::snapshot::{self, Snapshot};
use crate::{EngineError, Progress, Session, atomic_file};

/// The extension of the files.
const EXTENSION: &str = "read";
/// Bytes that a slow disk writes in a second.
const DISK_SPEED: f64 = 4e8;

/// A folder of documents that were read.
///
/// ```
/// use longhand::{Chat, ChatOptions, DocumentCache, Model, ModelSource, Preamble, Setup, SetupOptions};
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

/// How documents came into a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentReading {
    /// Tokens of the documents, and of what the chat template writes before them.
    pub tokens: usize,
    /// Time for them.
    pub elapsed: Duration,
    /// Whether they were found in the cache, and not read.
    pub found: bool,
    /// Why a file of the cache was of no use, or why there is none now.
    pub problem: Option<String>,
}

impl DocumentCache {
    /// A cache in a folder, whose files take at most `limit` bytes. It keeps what can be written in a tenth of the
    /// time in which it was read.
    pub fn new(folder: &Path, limit: u64) -> DocumentCache {
        DocumentCache { folder: folder.to_owned(), limit, max_share: 0.1 }
    }

    /// Brings an empty session to where it has read `tokens`. False if they are not there.
    ///
    /// # Errors
    /// Where there is a file for them that is of no use. The session is empty.
    fn find(&self, session: &mut Session, tokens: &[u32]) -> Result<bool, EngineError> {
        let path = self.path(session, tokens);
        if !path.exists() {
            return Ok(false);
        }
        Snapshot::open(&path)?.restore_into(session, tokens)?;
        // The file was used now.
        let _ = fs::File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Ok(true)
    }

    /// Keeps a session that has read documents, if there is room.
    fn add(&self, session: &Session) -> Result<(), EngineError> {
        let bytes = session.kv_usage().bytes as u64;
        let remove = |path: &Path| {
            let bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
            fs::remove_file(path).map_or(0, |()| bytes)
        };
        if !folders::make_room(self.files(), bytes, self.limit, remove) {
            return Ok(());
        }
        let made = fs::create_dir_all(&self.folder);
        atomic_file::remove_leftovers(&self.folder, None);
        let path = self.path(session, session.tokens());
        made.map_err(|error| snapshot::io_error(&path, error))?;
        snapshot::save_with(&path, |to| snapshot::write(session, "", true, to))
    }

    /// All files.
    fn files(&self) -> Vec<Occupant> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| {
                let (path, metadata) = (entry.path(), entry.metadata().ok()?);
                let is_ours = path.extension().is_some_and(|extension| extension == EXTENSION);
                let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                (is_ours && metadata.is_file()).then_some(Occupant { path, bytes: metadata.len(), used })
            })
            .collect()
    }

    /// The file of these tokens in a session like this one.
    fn path(&self, session: &Session, tokens: &[u32]) -> PathBuf {
        let mut hash = XxHash3_64::new();
        hash.write(snapshot::settings(session).as_bytes());
        tokens.iter().for_each(|token| hash.write(&token.to_le_bytes()));
        self.folder.join(format!("{:016x}.{EXTENSION}", hash.finish()))
    }
}

impl Chat {
    /// Reads the documents before the first question is known, or finds them in a cache. Questions then read only
    /// themselves. Policies that choose rows by the attention of the last tokens choose by the documents' own.
    /// Nothing happens where there are no documents, they are read already, or the chat template writes a
    /// question before them.
    ///
    /// # Errors
    /// As [`Session::sync`]. What goes wrong with the cache is no error but [`DocumentReading::problem`].
    pub fn read_documents(
        &mut self,
        cache: Option<&DocumentCache>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<DocumentReading, EngineError> {
        let mut reading = DocumentReading::default();
        let Some(tokens) = self.preamble.first_tokens() else { return Ok(reading) };
        if self.has_questions() || self.session.tokens().starts_with(tokens) {
            return Ok(reading);
        }
        let started = Instant::now();
        reading.tokens = tokens.len();
        let note = |reading: &mut DocumentReading, error: EngineError| {
            reading.problem.get_or_insert(error.to_string());
        };
        if let Some(cache) = cache.filter(|_| self.session.tokens().is_empty()) {
            match cache.find(&mut self.session, tokens) {
                Ok(found) => reading.found = found,
                Err(error) => note(&mut reading, error),
            }
        }
        if !reading.found {
            self.session.sync(tokens, progress)?;
        }
        reading.elapsed = started.elapsed();
        if let (Some(cache), false) = (cache, reading.found)
            && self.time_to_write().as_secs_f64() <= cache.max_share * reading.elapsed.as_secs_f64()
            && let Err(error) = cache.add(&self.session)
        {
            note(&mut reading, error);
        }
        Ok(reading)
    }

    /// How long a slow disk takes to write the KV cache.
    pub fn time_to_write(&self) -> Duration {
        Duration::from_secs_f64(self.session.kv_usage().bytes as f64 / DISK_SPEED)
    }
}
