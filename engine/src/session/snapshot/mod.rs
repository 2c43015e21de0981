//! Sessions as files, so that a text that was read once need not be read again. A file has the options of its
//! session, the tokens, the logits and the store. It can be restored on the host and on a device, whichever
//! wrote it.
//!
//! Format: `LHSTATE5`, length of the description (u32), description (JSON), tokens (u32), logits (f32), store
//! (see [`crate::kv::Store`]), checksum of all before it (XXH3, u64). Numbers are little-endian. A file without
//! a cache has no tokens, no logits and no store: its session is an empty one. A text that was not read to its end has a
//! file of the same kind (`snapshot/unfinished.rs`). `MAGIC` changes when any of this does: the description, what a
//! conversation keeps in it (`chat/saved.rs`), the store's part.
//!
//! A file is untrusted: everything in it is compared with the model and the layout before it is used, and
//! only the store that it asks for ([`Snapshot::options`]) is allocated before its size is proven. The
//! checksum finds damage. A file that was forged can make a session that generates nonsense, but does no
//! other harm.

pub(crate) mod unfinished;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kernels::RowType;
use kernels::graph::tensor_type;
use models::{MappedFile, regular_file};
use serde::{Deserialize, Serialize};

use self::unfinished::Unfinished;
pub use self::unfinished::{resume, save_unfinished};
use crate::files::atomic_file::{self, Access};
use crate::files::codec::{CHECKSUM_BYTES, Input, Output, SnapshotError};
use crate::heads::HeadProfile;
use crate::kv::PolicyChoice;
use crate::session::{Prefill, common_prefix};
use crate::{Engine, EngineError, Hint, Model, Session, SessionOptions};

const MAGIC: &[u8; 8] = b"LHSTATE5";
/// How all session files begin, of whichever version.
pub(crate) const BEGINS: &[u8] = b"LHSTATE";
/// Bytes of the longest description.
const MAX_DESCRIPTION_BYTES: usize = 64 << 20;
/// Bytes of the longest policy: no policy with all its parameters is longer.
const MAX_POLICY_BYTES: usize = 1024;
/// Bytes that are compared with the checksum at once.
const VERIFIED_AT_ONCE: usize = 1 << 18;

/// What a file says about its session.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    /// The model's fingerprint.
    model: String,
    /// The model's name.
    model_name: String,
    /// The model's file, if it is one. Nothing opens it but the user's wish to continue.
    model_file: Option<PathBuf>,
    /// Whether the tokens, logits and the store follow.
    cache: bool,
    tokens: usize,
    logits: usize,
    context: usize,
    policy: String,
    type_k: String,
    type_v: String,
    streaming: bool,
    /// Whether old rows were read in groups.
    sparse: bool,
    /// Whether attention was to be computed in f32 everywhere.
    f32: bool,
    chunk: usize,
    /// The head profile, in its own form.
    profile: Option<String>,
    /// What the caller wanted to be kept.
    caller: String,
    /// How far a text was read, if it was not read to its end. It has no cache then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unfinished: Option<Unfinished>,
}

impl Description {
    /// A session, without its cache.
    fn of(session: &Session) -> Description {
        let (options, model) = (session.options(), session.engine().model());
        Description {
            model: session.engine().fingerprint().to_owned(),
            model_name: model.name().to_owned(),
            // Other paths cannot be written as JSON.
            model_file: model.file().filter(|file| file.to_str().is_some()).map(Path::to_owned),
            cache: false,
            tokens: 0,
            logits: 0,
            context: options.context,
            policy: options.policy.to_string(),
            type_k: options.types.0.name().into(),
            type_v: options.types.1.name().into(),
            streaming: options.prefill == Prefill::Streaming,
            sparse: options.prefill == Prefill::Sparse,
            f32: !options.int8,
            chunk: options.chunk,
            profile: options.profile.as_ref().map(HeadProfile::to_json),
            caller: String::new(),
            unfinished: None,
        }
    }

    fn without_cache(&self) -> Description {
        Description { cache: false, tokens: 0, logits: 0, unfinished: None, ..self.clone() }
    }
}

/// A file that holds a session, opened and described but not read yet.
pub struct Snapshot {
    path: PathBuf,
    file: MappedFile,
    /// Bytes up to the end of the description.
    begin: usize,
    description: Description,
    options: SessionOptions,
}

impl Snapshot {
    /// Opens a file and reads how its session was made.
    pub fn open(path: &Path) -> Result<Snapshot, EngineError> {
        let opened = (|| -> Result<Snapshot, EngineError> {
            let file = MappedFile::open(path).map_err(SnapshotError::from)?;
            let mut from = Input::new(file.bytes());
            let description = describe(&mut from)?;
            let begin = file.bytes().len() - from.len();
            let options = options(&description)?;
            Ok(Snapshot { path: path.to_owned(), file, begin, description, options })
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
    #[doc(hidden)]
    pub fn tokens(&self) -> usize {
        self.description.tokens
    }

    /// Whether its session need not read its text again.
    pub fn has_cache(&self) -> bool {
        self.description.cache
    }

    /// The name of the model it was made with.
    pub fn model_name(&self) -> &str {
        &self.description.model_name
    }

    /// The file of the model it was made with, if it was a file.
    pub fn model_file(&self) -> Option<&Path> {
        self.description.model_file.as_deref()
    }

    /// What was kept with it for the caller.
    pub fn caller(&self) -> &str {
        &self.description.caller
    }

    /// Whether the rows of another file's session depend on the same settings.
    pub(crate) fn is_like(&self, other: &Snapshot) -> bool {
        let settings = |of: &Snapshot| settings_of(&of.description, &of.options.policy);
        settings(self) == settings(other)
    }

    /// Has its session compute `chunk` tokens at once, and not as many as before it was kept.
    pub fn set_chunk(&mut self, chunk: usize) {
        self.options.chunk = chunk.clamp(1, self.options.context.max(1));
    }

    /// Gives its session room for another number of tokens than it had. Where heads keep shares of the context, the
    /// cache is of no use then: the session is an empty one.
    pub fn set_context(&mut self, context: usize) {
        if self.options.policy.uses_shares() && context != self.options.context {
            self.description = self.description.without_cache();
        }
        self.options.context = context;
    }

    /// Whether the model's file was replaced since the session was made. If so, the session loses its cache and its head
    /// profile: it is then an empty one, and a head profile has to be given ([`Snapshot::set_profile`]).
    ///
    /// # Errors
    /// Where it was made with another model.
    pub(crate) fn adapt_to(&mut self, model: &Model) -> Result<bool, EngineError> {
        let fingerprint = model.fingerprint()?;
        if self.description.model == fingerprint {
            return Ok(false);
        }
        let is_replaced = match (self.model_file(), model.file()) {
            (Some(before), Some(file)) => before == file,
            (None, None) => self.description.model_name == model.name(),
            _ => false,
        };
        if !is_replaced {
            return Err(self.other_model(model));
        }
        self.description = self.description.without_cache();
        self.description.model = fingerprint.to_owned();
        let shape = model.head_shape()?;
        let is_usable = |profile: &HeadProfile| profile.check(shape, Some(fingerprint)).is_ok();
        if self.options.profile.as_ref().is_some_and(|profile| !is_usable(profile)) {
            self.set_profile(None);
        }
        Ok(true)
    }

    /// Gives its session another head profile.
    pub(crate) fn set_profile(&mut self, profile: Option<HeadProfile>) {
        self.description.profile = profile.as_ref().map(HeadProfile::to_json);
        self.options.profile = profile;
    }

    /// Refuses a model with which its session was not made.
    fn check_model(&self, engine: &Engine) -> Result<(), EngineError> {
        match self.description.model == engine.fingerprint() {
            true => Ok(()),
            false => Err(self.other_model(engine.model())),
        }
    }

    fn other_model(&self, model: &Model) -> EngineError {
        let made_with = format!("{:.200}", self.description.model_name);
        let what = match made_with == model.name() {
            true => format!("it was made with other weights of the model {made_with}"),
            false => format!("it was made with the model {made_with}, not with {}", model.name()),
        };
        let advice = match &self.description.model_file {
            Some(file) => format!("open the model it was made with; its file was {:.500}", file.display()),
            None => "open the model it was made with".to_owned(),
        };
        EngineError::Snapshot { path: self.path.clone(), what, hint: Hint::advice(advice) }
    }

    /// Makes its session again; an empty one if the file has no cache. This allocates a store for as many
    /// tokens as the file says ([`Snapshot::options`]).
    pub fn restore(mut self, engine: &Arc<Engine>) -> Result<Session, EngineError> {
        self.check_model(engine)?;
        if self.description.cache {
            check_rotation(engine, self.description.context, self.options.context)?;
        }
        let session = self.read(engine);
        session.map_err(|error| with_path(error, &self.path))
    }

    /// How many tokens its text and another one have in common at their beginnings; none where the file holds no cache of a
    /// session with these settings ([`settings`]). What the file says is not compared with its checksum.
    pub(crate) fn shared_with(&self, settings: &str, tokens: &[u32]) -> usize {
        if !self.description.cache || settings_of(&self.description, &self.options.policy) != settings {
            return 0;
        }
        let text = self.behind_description().numbers(self.description.tokens);
        text.map_or(0, |text| common_prefix(&text, tokens))
    }

    /// Brings a session of the same settings, whose context may differ, to the state of the one in the file, which
    /// has read `tokens`, if it is said which.
    ///
    /// # Errors
    /// Where the file is damaged, or of another session. The session is then empty.
    pub(crate) fn restore_into(
        mut self,
        session: &mut Session,
        tokens: Option<&[u32]>,
    ) -> Result<(), EngineError> {
        let has_tokens = || {
            self.description.cache
                && settings(session) == settings_of(&self.description, &self.options.policy)
                && check_rotation(session.engine(), self.description.context, session.options().context)
                    .is_ok()
        };
        let read = match has_tokens() {
            true => self.read_into(session),
            false => Err(SnapshotError::new("it is of another model or of other settings").into()),
        };
        let read = read.and_then(|()| match tokens.is_none_or(|tokens| session.tokens() == tokens) {
            true => Ok(()),
            false => Err(SnapshotError::new("it is of another text").into()),
        });
        read.map_err(|error| {
            // A session is cleared without computing anything on the host; on a device the first error counts.
            let _ = session.clear();
            with_path(error, &self.path)
        })
    }

    fn read(&mut self, engine: &Arc<Engine>) -> Result<Session, EngineError> {
        let mut session = Session::new(engine, self.options.clone())?;
        match self.description.cache {
            true => self.read_into(&mut session)?,
            false => self.verify()?,
        }
        Ok(session)
    }

    fn read_into(&mut self, session: &mut Session) -> Result<(), EngineError> {
        let vocabulary = session.engine().spec().n_vocab;
        if ![0, vocabulary].contains(&self.description.logits) {
            return Err(SnapshotError::new("it holds logits of another vocabulary").into());
        }
        let mut from = self.behind_description();
        let tokens = from.numbers(self.description.tokens)?;
        if tokens.iter().any(|token| *token as usize >= vocabulary) {
            return Err(SnapshotError::new("a token is outside the model's vocabulary").into());
        }
        let logits = from.numbers(self.description.logits)?.into_iter().map(f32::from_bits).collect();
        session.read_from(&mut from, tokens, logits)?;
        Ok(from.end()?)
    }

    /// Compares the whole file with its checksum, without a model.
    pub fn verify(&self) -> Result<(), EngineError> {
        let mut from = self.behind_description();
        let verified = loop {
            match from.len().saturating_sub(CHECKSUM_BYTES) {
                0 => break from.end(),
                left => drop(from.bytes(left.min(VERIFIED_AT_ONCE))),
            }
        };
        verified.map_err(|error| with_path(error.into(), &self.path))
    }

    /// What follows the description.
    fn behind_description(&self) -> Input<'_> {
        let mut from = Input::new(self.file.bytes());
        // They were read when the file was opened.
        let _ = from.bytes(self.begin);
        from
    }

    /// Writes the same session to a file, with something else of the caller's.
    pub(crate) fn write_copy(&self, caller: String, to: &mut dyn Write) -> Result<(), EngineError> {
        let description = Description { caller, ..self.description.clone() };
        let mut to = Output::new(to);
        begin(&description, &mut to)?;
        let mut from = self.behind_description();
        loop {
            match from.len().saturating_sub(CHECKSUM_BYTES) {
                0 => break from.end()?,
                left => to.bytes(from.bytes(left.min(VERIFIED_AT_ONCE))?)?,
            }
        }
        Ok(to.end()?)
    }

    /// Writes what it says of its session, and not the cache, to a file.
    pub(crate) fn write_without_cache(&self, to: &mut dyn Write) -> Result<(), EngineError> {
        let description = self.description.without_cache();
        let mut to = Output::new(to);
        begin(&description, &mut to)?;
        Ok(to.end()?)
    }
}

/// Refuses a session of another context if the model rotates keys otherwise there (LongRoPE).
fn check_rotation(engine: &Engine, before: usize, context: usize) -> Result<(), EngineError> {
    match engine.forward.is_long(before) == engine.forward.is_long(context) {
        true => Ok(()),
        false => Err(EngineError::Setting {
            what: format!("a context of {context} tokens for a session that was begun with {before}"),
            reason: "the model encodes positions otherwise in short and in long contexts".into(),
            hint: Hint::advice("start a new session with this context"),
        }),
    }
}

/// The same session with room for `context` tokens. Its rows are copied; earlier turns can no longer be undone without
/// reading.
///
/// # Errors
/// Where there is no memory for both at once, or the rows or the policy do not fit. The caller has checked that the new
/// session fits the memory, and heads must not keep shares of the context.
pub(crate) fn in_context(session: &Session, context: usize) -> Result<Session, EngineError> {
    let options = SessionOptions { context, ..session.options().clone() };
    let new = || Ok(Session::new(session.engine(), options)?.with_interrupt(session.interrupt()));
    if session.first_text_share().is_some() {
        return new();
    }
    let before = session.options().context;
    check_rotation(session.engine(), before, context)?;
    let mut other = new()?;
    match other.copy_from(session) {
        Err(EngineError::Snapshot { .. }) => Err(EngineError::Setting {
            what: format!("a context of {context} tokens for a session that was begun with {before}"),
            reason: "the rows that are kept have no room in it".into(),
            hint: Hint::advice("give a larger context, or start a new session with this one"),
        }),
        copied => copied.map(|()| other),
    }
}

/// Writes a session to a file, with something of the caller's.
pub fn save(session: &Session, caller: &str, path: &Path) -> Result<(), EngineError> {
    save_with(path, |file| write(session, caller, true, file))
}

/// Writes a file that is there when it is complete, and not before.
pub(crate) fn save_with(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    atomic_file::write(path, Access::Owner, |file| content(file).map_err(SaveError)).map_err(error_in(path))
}

/// As [`save_with`], for a file that must not exist.
pub(crate) fn save_new_with(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    atomic_file::write_new(path, Access::Owner, |file| content(file).map_err(SaveError))
        .map_err(error_in(path))
}

/// As [`save_with`], for a file in one of the program's own folders.
pub(crate) fn save_own_with(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    atomic_file::write_own(path, Access::Owner, |file| content(file).map_err(SaveError))
        .map_err(error_in(path))
}

/// An error of the file or of the store that is saved.
pub(crate) struct SaveError(pub(crate) EngineError);

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

/// Writes a session, with its cache or without it, and with something of the caller's.
pub(crate) fn write(
    session: &Session,
    caller: &str,
    cache: bool,
    to: &mut dyn Write,
) -> Result<(), EngineError> {
    // Layers of an unfinished text are of no use without the rest. Rows of changed weights are of no use at all.
    let is_complete = session.first_text_share().is_none();
    let cache = cache && is_complete && session.engine().model().check_unchanged().is_ok();
    let (tokens, logits) = if cache { (session.tokens(), session.logits()) } else { (&[][..], &[][..]) };
    let description = Description {
        cache,
        tokens: tokens.len(),
        logits: logits.len(),
        caller: caller.into(),
        ..Description::of(session)
    };
    let mut to = Output::new(to);
    begin(&description, &mut to)?;
    to.numbers(tokens.iter().copied())?;
    to.numbers(logits.iter().map(|logit| logit.to_bits()))?;
    if cache {
        session.store.write_to(&mut to)?;
    }
    Ok(to.end()?)
}

/// What the rows of a session depend on besides its tokens. Not where the model's file is.
pub(crate) fn settings(session: &Session) -> String {
    settings_of(&Description::of(session), &session.options().policy)
}

fn settings_of(description: &Description, choice: &PolicyChoice) -> String {
    let Description { model, policy, type_k, type_v, streaming, sparse, f32, context, .. } = description;
    // In exact prefill the chunk size has no effect on the rows but for rounding, unless the text is read twice. In sparse prefill it has: the
    // queries of a chunk are computed together.
    let chunk = if *streaming || *sparse || choice.reads_twice() { description.chunk } else { 0 };
    // The context only is room for more, unless heads keep shares of it.
    let context = if choice.uses_shares() { *context } else { 0 };
    let profile = description.profile.as_deref().unwrap_or_default();
    let sparse = if *sparse { " sparse" } else { "" };
    // Elsewhere there is one way only.
    let f32 = if *f32 && kernels::prefill::has_int8() { " f32" } else { "" };
    format!("{model} {policy} {type_k} {type_v} {streaming} {chunk} {context} {profile}{sparse}{f32}")
}

/// The error of a file that cannot be read or written.
pub(crate) fn io_error(path: &Path, error: io::Error) -> EngineError {
    with_path(SnapshotError::from(error).into(), path)
}

/// The error of data that cannot be written as JSON.
pub(crate) fn unwritable(error: &serde_json::Error) -> EngineError {
    SnapshotError::new(error.to_string()).into()
}

/// Writes the beginning of a file, up to the end of its description.
fn begin(description: &Description, to: &mut Output) -> Result<(), SnapshotError> {
    let description =
        serde_json::to_vec(description).map_err(|error| SnapshotError::new(error.to_string()))?;
    if description.len() > MAX_DESCRIPTION_BYTES {
        let what =
            format!("the data saved beside the KV cache are larger than {MAX_DESCRIPTION_BYTES} bytes");
        return Err(SnapshotError { what, hint: Hint::advice("start a new session with a shorter text") });
    }
    to.bytes(MAGIC)?;
    to.numbers([description.len() as u32].into_iter())?;
    to.bytes(&description)
}

/// A regular file, opened. Opening it never waits.
pub(crate) fn open(path: &Path) -> Result<File, SnapshotError> {
    Ok(regular_file::open(path)?)
}

/// The description at the beginning of a file.
fn describe(from: &mut Input) -> Result<Description, SnapshotError> {
    let magic = from.bytes(MAGIC.len())?;
    if magic != MAGIC {
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
    serde_json::from_slice(from.bytes(length)?)
        .map_err(|error| SnapshotError::new(format!("its description cannot be read: {error}")))
}

fn options(description: &Description) -> Result<SessionOptions, EngineError> {
    let ty = |name: &str| {
        RowType::from_name(name)
            .map(tensor_type)
            .ok_or_else(|| SnapshotError::new("its cache type is unknown"))
    };
    let Description { tokens, context, chunk, cache, unfinished, streaming, sparse, .. } = *description;
    if cache && unfinished.is_some() {
        return Err(SnapshotError::new("it states a cache of a text that was not read to its end").into());
    }
    if !cache && (tokens > 0 || description.logits > 0) {
        return Err(SnapshotError::new("it states tokens without a cache").into());
    }
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
        prefill: match (streaming, sparse) {
            (true, _) => Prefill::Streaming,
            (false, true) => Prefill::Sparse,
            (false, false) => Prefill::Exact,
        },
        int8: !description.f32,
        chunk: chunk.clamp(1, context.max(1)),
        record_attention: false,
        draft: SessionOptions::DRAFT,
        sessions: 1,
    })
}

/// The error of a file, with its path in it.
pub(crate) fn error_in(path: &Path) -> impl Fn(SaveError) -> EngineError {
    move |SaveError(error)| with_path(error, path)
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
