//! Sessions as files: a text that was read once need not be read again. A file says how its session was made, so that the same can be
//! made again, and holds its tokens, logits and store; it opens on the host and on a device, whichever wrote it.
//!
//! The form: `LHSTATE1`, the length of the description (u32), the description (JSON), the tokens (u32), the logits (f32), the store
//! (see [`crate::kv::Store`]), and the sum of all before it (FNV-1a, u64). Numbers are little-endian. A file is foreign: nothing in it
//! is believed before it is compared with the model and the layout, and nothing but the store it asks for ([`Snapshot::options`]) is
//! allocated by its word alone. The sum finds accidents; who writes a file on purpose can make a session that talks nonsense, but no
//! other harm.

use crate::heads::HeadProfile;
use crate::{Engine, EngineError, Prefill, Session, SessionOptions};
use kernels::RowType;
use kernels::graph::tensor_type;
use models::gguf::GgufFile;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"LHSTATE1";
/// Bytes of the longest description.
const MOST: usize = 64 << 20;
/// Bytes of the longest policy: no policy with all its parameters is longer.
const MOST_OF_POLICY: usize = 1024;
/// Numbers that are read at a time where only the file says how many there are.
const PIECE: usize = 1 << 16;

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

/// What is wrong with a file, and what to do about it.
#[derive(Debug)]
pub(crate) struct Damage {
    what: String,
    hint: &'static str,
}

impl Damage {
    pub(crate) fn new(what: impl Into<String>) -> Damage {
        Damage {
            what: what.into(),
            hint: "the file is damaged or was made by another version; read the text again",
        }
    }
}

impl From<Damage> for EngineError {
    fn from(Damage { what, hint }: Damage) -> EngineError {
        EngineError::Snapshot { path: PathBuf::new(), what, hint: hint.into() }
    }
}

impl From<io::Error> for Damage {
    fn from(error: io::Error) -> Damage {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Damage::new("it ends too early"),
            _ => Damage {
                what: error.to_string(),
                hint: "check the path, the room there, and that this user may read and write there",
            },
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

impl Output<'_> {
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Damage> {
        self.sum = add(self.sum, bytes);
        Ok(self.to.write_all(bytes)?)
    }

    pub(crate) fn numbers(&mut self, numbers: impl Iterator<Item = u32>) -> Result<(), Damage> {
        let bytes: Vec<u8> = numbers.flat_map(u32::to_le_bytes).collect();
        self.bytes(&bytes)
    }
}

impl Input<'_> {
    pub(crate) fn bytes(&mut self, bytes: &mut [u8]) -> Result<(), Damage> {
        self.from.read_exact(bytes)?;
        self.sum = add(self.sum, bytes);
        Ok(())
    }

    /// So many numbers; no more memory is taken than the file has bytes, but for a little.
    pub(crate) fn numbers(&mut self, count: usize) -> Result<Vec<u32>, Damage> {
        let mut numbers = Vec::new();
        let mut piece = vec![0u8; 4 * PIECE.min(count)];
        while numbers.len() < count {
            let piece = &mut piece[..4 * PIECE.min(count - numbers.len())];
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
        opened.map_err(|error| name(error, path))
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
    pub fn check(&self, model: &GgufFile) -> Result<(), EngineError> {
        let fingerprint = model.fingerprint();
        if self.description.model == fingerprint {
            return Ok(());
        }
        let made_with: String = self.description.model.chars().take(2 * fingerprint.len()).collect();
        Err(EngineError::Snapshot {
            path: self.path.clone(),
            what: format!("it was made with another model ({made_with})"),
            hint: format!("open the model it was made with; this one is {fingerprint}"),
        })
    }

    /// Makes its session again. This allocates a store for as many tokens as the file says ([`Snapshot::options`]).
    pub fn restore(mut self, engine: &Engine) -> Result<Session<'_>, EngineError> {
        self.check(engine.file())?;
        let session = self.read(engine);
        session.map_err(|error| name(error, &self.path))
    }

    fn read<'e>(&mut self, engine: &'e Engine) -> Result<Session<'e>, EngineError> {
        let vocabulary = engine.spec().n_vocab;
        let mut session = Session::new(engine, self.options.clone())?;
        if ![0, vocabulary].contains(&self.description.logits) {
            return Err(Damage::new("its logits are not those of this model").into());
        }
        let mut from = Input { from: &mut self.file, sum: self.sum };
        let tokens = from.numbers(self.description.tokens)?;
        if tokens.iter().any(|token| *token as usize >= vocabulary) {
            return Err(Damage::new("a token is outside the model's vocabulary").into());
        }
        let logits = from.numbers(self.description.logits)?.into_iter().map(f32::from_bits).collect();
        session.read_from(&mut from, tokens, logits)?;
        let sum = from.sum;
        let mut stored = [0u8; 8];
        from.bytes(&mut stored)?;
        if sum != u64::from_le_bytes(stored) {
            return Err(Damage::new("its bytes do not add up").into());
        }
        if from.from.read(&mut [0]).map_err(Damage::from)? > 0 {
            return Err(Damage::new("it goes on after its end").into());
        }
        Ok(session)
    }
}

/// Writes a session to a file, with something of the caller's. The file is there when it is complete, and not before.
pub fn save(session: &Session, caller: &str, path: &Path) -> Result<(), EngineError> {
    let named = |error: EngineError| name(error, path);
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    let written = (|| {
        let mut file = BufWriter::new(File::create(&beside).map_err(Damage::from)?);
        write(session, caller, &mut file)?;
        file.flush().map_err(Damage::from)?;
        file.get_ref().sync_all().map_err(Damage::from)?;
        fs::rename(&beside, path).map_err(|error| Damage::from(error).into())
    })();
    written.map_err(|error| {
        // The half-written file is of no use to anybody; that it cannot be removed either is not news.
        let _ = fs::remove_file(&beside);
        named(error)
    })
}

fn write(session: &Session, caller: &str, to: &mut dyn Write) -> Result<(), EngineError> {
    let options = session.options();
    let description = Description {
        model: session.engine().file().fingerprint(),
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
    let description = serde_json::to_vec(&description).map_err(|error| Damage::new(error.to_string()))?;
    if description.len() > MOST {
        let what = format!("what is to be kept beside the cache is larger than {MOST} bytes");
        return Err(Damage { what, hint: "begin anew with a shorter text" }.into());
    }
    let mut to = Output { to, sum: EMPTY };
    to.bytes(MAGIC)?;
    to.numbers([description.len() as u32].into_iter())?;
    to.bytes(&description)?;
    to.numbers(session.tokens().iter().copied())?;
    to.numbers(session.logits().iter().map(|logit| logit.to_bits()))?;
    session.store().write_to(&mut to)?;
    let sum = to.sum;
    Ok(to.bytes(&sum.to_le_bytes())?)
}

/// An ordinary file, opened. Named pipes are not: opening one would wait for a writer.
fn open(path: &Path) -> Result<File, Damage> {
    if !fs::metadata(path)?.is_file() {
        return Err(Damage {
            what: "it is no ordinary file".into(),
            hint: "name a file, which may be a new one",
        });
    }
    Ok(File::open(path)?)
}

/// The description at the beginning of a file, and the sum up to its end.
fn describe(file: &mut dyn Read) -> Result<(Description, u64), Damage> {
    let mut from = Input { from: file, sum: EMPTY };
    let mut magic = [0u8; MAGIC.len()];
    from.bytes(&mut magic)?;
    if magic != *MAGIC {
        let same_kind = magic[..MAGIC.len() - 1] == MAGIC[..MAGIC.len() - 1];
        return Err(match same_kind {
            true => Damage::new("it was made by another version of the program"),
            false => {
                Damage { what: "it is no saved session".into(), hint: "name another file, or a new one" }
            }
        });
    }
    let length = from.numbers(1)?.first().map_or(0, |length| *length as usize);
    if length > MOST {
        return Err(Damage::new("its description is too long"));
    }
    let mut text = Vec::new();
    while text.len() < length {
        let start = text.len();
        text.resize(length.min(start + PIECE), 0);
        from.bytes(&mut text[start..])?;
    }
    let description = serde_json::from_slice(&text)
        .map_err(|error| Damage::new(format!("its description cannot be understood: {error}")))?;
    Ok((description, from.sum))
}

fn options(description: &Description) -> Result<SessionOptions, EngineError> {
    let ty = |name: &str| {
        RowType::from_name(name)
            .map(tensor_type)
            .ok_or_else(|| Damage::new("its rows are of no type known here"))
    };
    let Description { tokens, context, chunk, .. } = *description;
    if tokens > context || context > i32::MAX as usize {
        return Err(Damage::new("it says to hold more tokens than it has room for").into());
    }
    if description.policy.len() > MOST_OF_POLICY {
        return Err(Damage::new("its policy is too long").into());
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

/// The error with the file's name in it, where the file is to blame.
fn name(error: EngineError, path: &Path) -> EngineError {
    let path = path.to_owned();
    match error {
        EngineError::Snapshot { what, hint, .. } => {
            // What is quoted from the file may be as long as it likes.
            EngineError::Snapshot { path, what: format!("{what:.1000}"), hint }
        }
        EngineError::Policy { .. } | EngineError::Setting { .. } | EngineError::Heads(_) => {
            // What the file asks for is nothing that the user could change: only what is wrong is told, not what would be right.
            let text = error.to_string();
            let what = text.split("hint: ").next().unwrap_or_default().trim();
            name(Damage::new(format!("what it asks for cannot be: {what}")).into(), &path)
        }
        other => other,
    }
}
