//! Sessions as files, so that a text that was read once need not be read again. A file has the options of its
//! session, the tokens, the logits and the store. It can be restored on the host and on a device, whichever
//! wrote it.
//!
//! Format: `LHSTATE1`, length of the description (u32), description (JSON), tokens (u32), logits (f32), store
//! (see [`crate::kv::Store`]), checksum of all before it (FNV-1a, u64). Numbers are little-endian.
//!
//! A file is untrusted: everything in it is compared with the model and the layout before it is used, and
//! only the store that it asks for ([`Snapshot::options`]) is allocated before its size is proven. The
//! checksum finds damage. A file that was forged can make a session that generates nonsense, but does no
//! other harm.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kernels::RowType;
use kernels::graph::tensor_type;
use serde::{Deserialize, Serialize};

use crate::atomic_file::{self, Access};
use crate::heads::HeadProfile;
use crate::{Engine, EngineError, Hint, Model, Prefill, Session, SessionOptions};

const MAGIC: &[u8; 8] = b"LHSTATE1";
/// Bytes of the longest description.
const MAX_DESCRIPTION_BYTES: usize = 64 << 20;
/// Bytes of the longest policy: no policy with all its parameters is longer.
const MAX_POLICY_BYTES: usize = 1024;
/// Numbers, or bytes of the description, read at once: a file that states more than it holds costs little
/// memory.
const READ_AT_ONCE: usize = 1 << 16;

/// What a file says about its session.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    /// The model's fingerprint.
    model: String,
    tokens: usize,
    logits: usize,
    context: usize,
    policy: String,
    type_k: String,
    type_v: String,
    streaming: bool,
    chunk: usize,
    /// The head profile, in its own form.
    profile: Option<String>,
    /// What the caller wanted to be kept.
    caller: String,
}

/// What is wrong with a session file, and what to do about it. It becomes an [`EngineError::Snapshot`] with
/// the file's path.
#[derive(Debug)]
pub(crate) struct SnapshotError {
    what: String,
    hint: Hint,
}

impl SnapshotError {
    /// The file is damaged, or another version of the program wrote it.
    pub(crate) fn new(what: impl Into<String>) -> SnapshotError {
        SnapshotError {
            what: what.into(),
            hint: Hint::advice(
                "the file is damaged or was written by another version of the program; read the text again",
            ),
        }
    }
}

impl From<SnapshotError> for EngineError {
    fn from(SnapshotError { what, hint }: SnapshotError) -> EngineError {
        EngineError::Snapshot { path: PathBuf::new(), what, hint }
    }
}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> SnapshotError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => SnapshotError::new("the file ends too early"),
            _ => SnapshotError { what: error.to_string(), hint: Hint::for_io(&error) },
        }
    }
}

/// Bytes on their way into a file, added up.
pub(crate) struct Output<'a> {
    to: &'a mut dyn Write,
    sum: u64,
}

/// Bytes on their way out of a file, added up.
pub(crate) struct Input<'a> {
    from: &'a mut dyn Read,
    sum: u64,
}

const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

fn add(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl<'a> Output<'a> {
    pub(crate) fn new(to: &'a mut dyn Write) -> Output<'a> {
        Output { to, sum: EMPTY }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        self.sum = add(self.sum, bytes);
        Ok(self.to.write_all(bytes)?)
    }

    pub(crate) fn numbers(&mut self, numbers: impl Iterator<Item = u32>) -> Result<(), SnapshotError> {
        let bytes: Vec<u8> = numbers.flat_map(u32::to_le_bytes).collect();
        self.bytes(&bytes)
    }
}

impl Input<'_> {
    pub(crate) fn bytes(&mut self, bytes: &mut [u8]) -> Result<(), SnapshotError> {
        self.from.read_exact(bytes)?;
        self.sum = add(self.sum, bytes);
        Ok(())
    }

    /// Reads `count` numbers. Allocates little more than the file has bytes, whatever `count` is.
    pub(crate) fn numbers(&mut self, count: usize) -> Result<Vec<u32>, SnapshotError> {
        let mut numbers = Vec::new();
        let mut piece = vec![0u8; 4 * READ_AT_ONCE.min(count)];
        while numbers.len() < count {
            let piece = &mut piece[..4 * READ_AT_ONCE.min(count - numbers.len())];
            self.bytes(piece)?;
            numbers.extend(piece.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])));
        }
        Ok(numbers)
    }
}

/// A file that holds a session, opened and described but not read yet.
pub struct Snapshot {
    path: PathBuf,
    file: BufReader<File>,
    sum: u64,
    description: Description,
    options: SessionOptions,
}

impl Snapshot {
    /// Opens a file and reads how its session was made.
    pub fn open(path: &Path) -> Result<Snapshot, EngineError> {
        let opened = (|| -> Result<Snapshot, EngineError> {
            let mut file = BufReader::new(open(path)?);
            let (description, sum) = describe(&mut file)?;
            let options = options(&description)?;
            Ok(Snapshot { path: path.to_owned(), file, sum, description, options })
        })();
        opened.map_err(|error| with_path(error, path))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How its session was made.
    pub fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// Tokens of its text.
    #[cfg(feature = "testing")]
    pub fn tokens(&self) -> usize {
        self.description.tokens
    }

    /// What was kept with it for the caller.
    pub fn caller(&self) -> &str {
        &self.description.caller
    }

    /// Has its session compute `chunk` tokens at once, and not as many as before it was kept.
    pub fn set_chunk(&mut self, chunk: usize) {
        self.options.chunk = chunk.clamp(1, self.options.context.max(1));
    }

    /// Refuses a model with which its session was not made.
    pub fn check(&self, model: &Model) -> Result<(), EngineError> {
        let fingerprint = model.fingerprint();
        if self.description.model == fingerprint {
            return Ok(());
        }
        let made_with: String = self.description.model.chars().take(2 * fingerprint.len()).collect();
        Err(EngineError::Snapshot {
            path: self.path.clone(),
            what: format!("it was made with another model (fingerprint {made_with})"),
            hint: Hint::advice(format!(
                "open the model it was made with; this model's fingerprint is {fingerprint}"
            )),
        })
    }

    /// Makes its session again. This allocates a store for as many tokens as the file says
    /// ([`Snapshot::options`]).
    pub fn restore(mut self, engine: &Arc<Engine>) -> Result<Session, EngineError> {
        self.check(engine.model())?;
        let session = self.read(engine);
        session.map_err(|error| with_path(error, &self.path))
    }

    fn read(&mut self, engine: &Arc<Engine>) -> Result<Session, EngineError> {
        let vocabulary = engine.spec().n_vocab;
        let mut session = Session::new(engine, self.options.clone())?;
        if ![0, vocabulary].contains(&self.description.logits) {
            return Err(SnapshotError::new("it holds logits of another vocabulary").into());
        }
        let mut from = Input { from: &mut self.file, sum: self.sum };
        let tokens = from.numbers(self.description.tokens)?;
        if tokens.iter().any(|token| *token as usize >= vocabulary) {
            return Err(SnapshotError::new("a token is outside the model's vocabulary").into());
        }
        let logits = from.numbers(self.description.logits)?.into_iter().map(f32::from_bits).collect();
        session.read_from(&mut from, tokens, logits)?;
        let sum = from.sum;
        let mut stored = [0u8; 8];
        from.bytes(&mut stored)?;
        if sum != u64::from_le_bytes(stored) {
            return Err(SnapshotError::new("its checksum is wrong").into());
        }
        if from.from.read(&mut [0]).map_err(SnapshotError::from)? > 0 {
            return Err(SnapshotError::new("it has more bytes than it should").into());
        }
        Ok(session)
    }
}

/// Writes a session to a file, with something of the caller's. The file is there when it is complete, and not
/// before.
pub fn save(session: &Session, caller: &str, path: &Path) -> Result<(), EngineError> {
    atomic_file::write(path, Access::Owner, |file| Ok(write(session, caller, file)?))
        .map_err(|SaveError(error)| with_path(error, path))
}

/// An error of the file or of the store that is saved.
struct SaveError(EngineError);

impl From<io::Error> for SaveError {
    fn from(error: io::Error) -> SaveError {
        SaveError(SnapshotError::from(error).into())
    }
}

impl From<EngineError> for SaveError {
    fn from(error: EngineError) -> SaveError {
        SaveError(error)
    }
}

fn write(session: &Session, caller: &str, to: &mut dyn Write) -> Result<(), EngineError> {
    let options = session.options();
    let description = Description {
        model: session.engine().model().fingerprint().to_owned(),
        tokens: session.tokens().len(),
        logits: session.logits().len(),
        context: options.context,
        policy: options.policy.to_string(),
        type_k: options.types.0.name().into(),
        type_v: options.types.1.name().into(),
        streaming: options.prefill == Prefill::Streaming,
        chunk: options.chunk,
        profile: options.profile.as_ref().map(HeadProfile::to_json),
        caller: caller.into(),
    };
    let description =
        serde_json::to_vec(&description).map_err(|error| SnapshotError::new(error.to_string()))?;
    if description.len() > MAX_DESCRIPTION_BYTES {
        let what =
            format!("the data saved beside the KV cache are larger than {MAX_DESCRIPTION_BYTES} bytes");
        return Err(
            SnapshotError { what, hint: Hint::advice("start a new session with a shorter text") }.into()
        );
    }
    let mut to = Output::new(to);
    to.bytes(MAGIC)?;
    to.numbers([description.len() as u32].into_iter())?;
    to.bytes(&description)?;
    to.numbers(session.tokens().iter().copied())?;
    to.numbers(session.logits().iter().map(|logit| logit.to_bits()))?;
    session.store.write_to(&mut to)?;
    let sum = to.sum;
    Ok(to.bytes(&sum.to_le_bytes())?)
}

/// An ordinary file, opened. Named pipes are not: opening one would wait for a writer.
fn open(path: &Path) -> Result<File, SnapshotError> {
    if !fs::metadata(path)?.is_file() {
        return Err(SnapshotError {
            what: "not a regular file".into(),
            hint: Hint::advice("give the path of a file; it may be a new one"),
        });
    }
    Ok(File::open(path)?)
}

/// The description at the beginning of a file, and the sum up to its end.
fn describe(file: &mut dyn Read) -> Result<(Description, u64), SnapshotError> {
    let mut from = Input { from: file, sum: EMPTY };
    let mut magic = [0u8; MAGIC.len()];
    from.bytes(&mut magic)?;
    if magic != *MAGIC {
        let same_kind = magic[..MAGIC.len() - 1] == MAGIC[..MAGIC.len() - 1];
        return Err(match same_kind {
            true => SnapshotError::new("it was made by another version of the program"),
            false => SnapshotError {
                what: "not a saved session".into(),
                hint: Hint::advice("give another file, or a new one"),
            },
        });
    }
    let length = from.numbers(1)?.first().map_or(0, |length| *length as usize);
    if length > MAX_DESCRIPTION_BYTES {
        return Err(SnapshotError::new("its description is too long"));
    }
    let mut text = Vec::new();
    while text.len() < length {
        let start = text.len();
        text.resize(length.min(start + READ_AT_ONCE), 0);
        from.bytes(&mut text[start..])?;
    }
    let description = serde_json::from_slice(&text)
        .map_err(|error| SnapshotError::new(format!("its description cannot be read: {error}")))?;
    Ok((description, from.sum))
}

fn options(description: &Description) -> Result<SessionOptions, EngineError> {
    let ty = |name: &str| {
        RowType::from_name(name)
            .map(tensor_type)
            .ok_or_else(|| SnapshotError::new("its cache type is unknown"))
    };
    let Description { tokens, context, chunk, .. } = *description;
    if tokens > context || context > i32::MAX as usize {
        return Err(SnapshotError::new("it states more tokens than its context").into());
    }
    if description.policy.len() > MAX_POLICY_BYTES {
        return Err(SnapshotError::new("its policy is too long").into());
    }
    Ok(SessionOptions {
        context,
        policy: description.policy.parse()?,
        profile: description.profile.as_deref().map(HeadProfile::from_json).transpose()?,
        types: (ty(&description.type_k)?, ty(&description.type_v)?),
        prefill: if description.streaming { Prefill::Streaming } else { Prefill::Exact },
        chunk: chunk.clamp(1, context.max(1)),
    })
}

/// The error with the file's path in it, where the file is the cause.
fn with_path(error: EngineError, path: &Path) -> EngineError {
    let path = path.to_owned();
    match error {
        EngineError::Snapshot { what, hint, .. } => {
            // Text quoted from the file may have any length.
            EngineError::Snapshot { path, what: format!("{what:.1000}"), hint }
        }
        EngineError::Policy { .. } | EngineError::Setting { .. } | EngineError::Heads(_) => {
            // These settings are the file's, not the user's: their own hint would not help.
            with_path(SnapshotError::new(format!("its settings cannot be used: {error}")).into(), &path)
        }
        other => other,
    }
}
