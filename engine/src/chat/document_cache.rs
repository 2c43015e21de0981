//! Documents that were read once are found again. The session as it was behind them is kept in a file. Its name
//! follows from the tokens, the model and all settings of the session but the context.
//!
//! These files are a cache. Each can be removed at any time. One that is damaged or does not fit is none.

use std::fs;
use std::hash::Hasher as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use models::regular_file;
use twox_hash::XxHash3_64;

use crate::folders::{self, Occupant};
use crate::snapshot::{self, Snapshot};
use crate::{EngineError, Session, atomic_file};

/// The extension of the files.
const EXTENSION: &str = "read";

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
    pub(super) fn find(&self, session: &mut Session, tokens: &[u32]) -> Result<bool, EngineError> {
        let path = self.path(session, tokens);
        folders::check_trusted(&self.folder).map_err(|error| snapshot::io_error(&path, error))?;
        if !regular_file::is_own(&path) {
            return Ok(false);
        }
        Snapshot::open(&path)?.restore_into(session, tokens)?;
        // The file was used now.
        let _ = regular_file::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Ok(true)
    }

    /// Keeps a session that has read documents, if there is room.
    ///
    /// # Errors
    /// Where the model's file was changed since it was loaded, or the file cannot be written.
    pub(super) fn add(&self, session: &Session) -> Result<(), EngineError> {
        session.engine().model().check_unchanged()?;
        let path = self.path(session, session.tokens());
        folders::make_private(&self.folder).map_err(|error| snapshot::io_error(&path, error))?;
        let bytes = session.kv_usage().bytes as u64;
        let remove = |path: &Path| {
            let bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
            fs::remove_file(path).map_or(0, |()| bytes)
        };
        if !folders::make_room(self.files(), bytes, self.limit, remove) {
            return Ok(());
        }
        atomic_file::remove_leftovers(&self.folder, None, snapshot::BEGINS);
        snapshot::save_own_with(&path, |to| snapshot::write(session, "", true, to))
    }

    /// Whether there is a file for these tokens in a session like this one.
    pub(super) fn has(&self, session: &Session, tokens: &[u32]) -> bool {
        folders::check_trusted(&self.folder).is_ok() && regular_file::is_own(&self.path(session, tokens))
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
