//! A session: one timeline of tokens, and the store that holds their rows.
//!
//! The caller hands over the whole text so far as tokens ([`Session::sync`]); the session keeps what it has
//! of it and computes the rest. An empty session reads layer by layer ([`Prefill::Exact`]). Each layer reads
//! the whole text before its rows are evicted, and only one layer's complete rows are held at a time. Later
//! texts run chunk by chunk through all layers against the store as it is.
//!
//! Undo: the store keeps checkpoints from before the last text was read and from after it. Handing over a
//! beginning of the same text restores the checkpoint exactly, unless more than 1024 rows of a head were
//! evicted since.
//!
//! Errors and interrupts: a chunk, a reading layer by layer or a step counts when all of it is done. What
//! stops before is taken back, so that a session always is as if only [`Session::tokens`] had been read.

mod exact_prefill;
pub(crate) mod generate;
mod kv_map;
pub(crate) mod not_finite;
mod random;
pub(crate) mod reading_work;
pub(crate) mod sampler;
pub(crate) mod snapshot;
pub mod text;
mod unfinished;

use std::sync::Arc;
use std::time::{Duration, Instant};

use exact_prefill::FirstText;
pub use exact_prefill::sync_all;
use ggml::Type;
pub use kv_map::{KvHeadRows, KvMap};
use models::spec::{ModelSpec, PositionEncoding};
pub(crate) use unfinished::Reached;

use crate::compute::engine::check_interrupt;
use crate::compute::forward::{Forward, OutputTokens};
use crate::compute::pass::Pass;
use crate::devices::backends::Backends;
use crate::devices::ledger::Reservation;
use crate::devices::placement::Place;
use crate::devices::workspace::Workspace;
use crate::kv::policy::Event;
use crate::kv::{Evictions, KvBudget, Layout, PolicyChoice, Store, StoreOptions};
use crate::session::reading_work::ReadingWork;
use crate::session::snapshot::Input;
use crate::{Engine, EngineError, Hint, Progress, Task, heads::HeadProfile};

/// How the first text of a session is read.
///
/// ```
/// assert_eq!(longhand::Prefill::default(), longhand::Prefill::Exact);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefill {
    /// Layer by layer with full attention; rows are evicted after each layer.
    #[default]
    Exact,
    /// Chunk by chunk; bounded heads see only what they keep, from the beginning. Cheaper for long texts.
    Streaming,
}

/// What a session is made with.
///
/// ```
/// use longhand::policy::KvBudget;
/// use longhand::{Model, ModelSource, SessionOptions};
///
/// let options = SessionOptions { context: 10_000, policy: "snapkv".parse()?, ..SessionOptions::default() };
/// let options = options.within(KvBudget::Rows(500), Model::open(ModelSource::Embedded)?.spec())?;
/// assert_eq!(options.policy.value("capacity"), Some(500.0));
/// # Ok::<(), longhand::EngineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Tokens it has room for.
    pub context: usize,
    /// What bounded heads keep.
    pub policy: PolicyChoice,
    /// Which heads keep everything, for policies that use a profile.
    pub profile: Option<HeadProfile>,
    /// Element types of keys and values.
    pub types: (Type, Type),
    /// How the first text is read.
    pub prefill: Prefill,
    /// Tokens computed at once while a text is read.
    pub chunk: usize,
}

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions {
            context: 4096,
            policy: PolicyChoice::default(),
            profile: None,
            types: (Type::F16, Type::F16),
            prefill: Prefill::Exact,
            chunk: 512,
        }
    }
}

impl SessionOptions {
    /// Refuses a context that no session can have, before anything is computed from it.
    pub(crate) fn check_context(&self, spec: &ModelSpec) -> Result<(), EngineError> {
        let (most, why) = match spec.position_encoding {
            PositionEncoding::Learned => (spec.n_ctx_train, ": the model has no more positions"),
            _ => (i32::MAX as usize, ""),
        };
        if (1..=most).contains(&self.context) {
            return Ok(());
        }
        Err(EngineError::Setting {
            what: format!("context of {} tokens", self.context),
            reason: format!("a session holds 1 to {most} tokens{why}"),
            hint: Hint::advice(format!("the model was trained for {} tokens", spec.n_ctx_train)),
        })
    }

    /// The same options, with the policy's parameters set to the largest that `budget` allows. Policies that
    /// use a head profile need it in `self`.
    ///
    /// # Errors
    /// Where the policy keeps everything, its windows follow from the weights (ALiBi), or the budget is too
    /// small.
    pub fn within(&self, budget: KvBudget, spec: &ModelSpec) -> Result<SessionOptions, EngineError> {
        let store = StoreOptions { context: self.context, types: self.types, reserve: None };
        let policy = budget.apply(&self.policy, spec, self.profile.as_ref(), store)?;
        Ok(SessionOptions { policy, ..self.clone() })
    }
}

/// What a KV store holds.
///
/// ```
/// use longhand::{Model, ModelSource, Setup, SetupOptions};
///
/// let options = SetupOptions { policy: Some("streaming:sinks=4,window=28,slack=0".parse()?), ..SetupOptions::default() };
/// // The policy keeps half of what is read.
/// let setup = Setup::resolve(&Model::open(ModelSource::Embedded)?, &options, 0, &mut ())?;
/// let mut session = setup.start(&mut ())?;
/// // Reads 64 tokens.
/// session.sync(&[7; 64], &mut |_| ())?;
/// assert_eq!((session.kv_usage().tokens, session.kv_usage().share()), (64, 0.5));
/// # Ok::<(), longhand::EngineError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvUsage {
    /// Tokens seen, evicted ones included.
    pub tokens: usize,
    /// Bytes of the rows that are kept.
    pub bytes: usize,
    /// Bytes that all rows of these tokens would take.
    pub full_bytes: usize,
    /// Bytes allocated.
    pub allocated: usize,
    /// KV heads that keep everything, of all layers.
    pub full_heads: usize,
}

impl KvUsage {
    /// The bytes kept as a share of those of all rows; 0 of nothing.
    pub fn share(&self) -> f64 {
        if self.full_bytes == 0 { 0.0 } else { self.bytes as f64 / self.full_bytes as f64 }
    }
}

/// One timeline of tokens with a model, and the KV store that holds their rows.
///
/// ```
/// use longhand::{Model, ModelSource, Setup, SetupOptions};
///
/// let model = Model::open(ModelSource::Embedded)?;
/// let mut session = Setup::resolve(&model, &SetupOptions::default(), 0, &mut ())?.start(&mut ())?;
/// session.sync(&[1, 2, 3, 4], &mut |_| ())?; // reads four tokens
/// assert_eq!(session.sync(&[1, 2, 3, 4, 5], &mut |_| ())?, 1); // computes the fifth only
/// assert_eq!(session.logits().len(), model.spec().n_vocab);
/// # Ok::<(), longhand::EngineError>(())
/// ```
pub struct Session {
    options: SessionOptions,
    pub(crate) store: Store,
    tokens: Vec<u32>,
    logits: Vec<f32>,
    /// A first text whose reading layer by layer was interrupted. `tokens` is empty then.
    first_text: Option<Box<FirstText>>,
    /// Whether chunks of the last text were read, but not all of it. What is read next belongs to its turn.
    is_mid_text: bool,
    /// For everything but decode steps.
    workspace: Workspace,
    /// The graphs of a decode step, built once, and their memory.
    decode: Option<(Pass, Workspace)>,
    compressing: Duration,
    pub(crate) work: ReadingWork,
    /// The memory that it was promised, where a setup planned it.
    pub(crate) reservations: Vec<Reservation>,
    /// Builds graphs for the session's context.
    forward: Forward,
    // Last: the engine must outlive what it has allocated.
    engine: Arc<Engine>,
}

impl Session {
    /// An empty session; allocates the store.
    pub fn new(engine: &Arc<Engine>, options: SessionOptions) -> Result<Session, EngineError> {
        let spec = engine.spec();
        options.check_context(spec)?;
        if let Some(profile) = &options.profile {
            profile.check(engine.head_shape()?, Some(engine.fingerprint()))?;
        }
        let store_options = StoreOptions { context: options.context, types: options.types, reserve: None };
        let layout = Layout::new(spec, &options.policy, options.profile.as_ref(), store_options)?;
        let mut store = Store::new(layout, &engine.backends)?;
        store.set_sink_logits(|layer| engine.forward.sink_logits(layer));
        store.set_key_offsets(|layer, ty| engine.forward.stored_key_offset(layer, ty));
        let workspace = Workspace::new(&engine.backends);
        let forward = engine.forward.for_context(options.context);
        Ok(Session {
            options,
            store,
            tokens: Vec::new(),
            logits: Vec::new(),
            first_text: None,
            is_mid_text: false,
            workspace,
            decode: None,
            compressing: Duration::ZERO,
            work: ReadingWork::new(spec),
            reservations: Vec::new(),
            forward,
            engine: engine.clone(),
        })
    }

    /// The tokens so far.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The loaded model that computes its text.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Replaces the session's text, logits and store by saved ones. After an error the session is empty.
    pub(crate) fn read_from(
        &mut self,
        from: &mut Input,
        tokens: Vec<u32>,
        logits: Vec<f32>,
    ) -> Result<(), EngineError> {
        self.clear()?;
        self.store.read_from(from, tokens.len())?;
        (self.tokens, self.logits) = (tokens, logits);
        self.store.begin_turn(&self.logits)
    }

    /// Takes over the text, the logits and the rows of another session of the same model and policy. After an error the
    /// session is empty.
    pub(crate) fn copy_from(&mut self, other: &Session) -> Result<(), EngineError> {
        self.clear()?;
        self.store.copy_from(&other.store)?;
        (self.tokens, self.logits) = (other.tokens.clone(), other.logits.clone());
        self.store.begin_turn(&self.logits)
    }

    /// What the KV store holds now.
    pub fn kv_usage(&self) -> KvUsage {
        let layout = self.store.layout();
        KvUsage {
            tokens: self.store.seen(),
            // Layers of a text that is not read yet do not count.
            bytes: if self.first_text.is_some() { 0 } else { self.store.live_bytes() },
            full_bytes: layout.full_bytes(self.store.seen()),
            allocated: self.store.bytes(),
            full_heads: (layout.layers.iter().flatten())
                .filter(|lane| lane.policy.is_none())
                .map(|lane| lane.kv_heads.len())
                .sum(),
        }
    }

    /// Whether [`Session::sync`] can go back to the first `tokens` tokens without reading them again, but for
    /// the last one.
    pub fn can_return_to(&self, tokens: usize) -> bool {
        self.store.can_truncate(tokens.saturating_sub(1))
            || self.store.latest_checkpoint(|seen, known| seen == tokens && known).is_some()
    }

    /// Whether all tokens after the first `tokens` can be taken off the end.
    pub fn can_truncate_to(&self, tokens: usize) -> bool {
        self.store.can_truncate(tokens)
    }

    /// The store.
    #[cfg(feature = "testing")]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What it was made with.
    pub fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// Logits `[n_vocab]` of the token that follows [`Session::tokens`]; empty before the first, and where
    /// they are unknown because the reading of a text was interrupted there.
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// Makes `tokens` the session's text: keeps the common beginning where it can, computes the rest, and
    /// leaves the logits of what follows. Returns how many tokens were computed.
    ///
    /// After an error or an interrupt the session holds a beginning of `tokens`, as [`Session::tokens`] says.
    /// It is what the session had of them before, and the chunks that were complete. Of a text whose logits are not
    /// finite, nothing is left. The session is exactly as if it had read that beginning only, in the same chunks; but
    /// its logits may be unknown. Calling `sync` again goes on from there, in the same turn.
    ///
    /// Of a first text that is read layer by layer ([`Prefill::Exact`]) there are no tokens until all layers have read
    /// it. Calling `sync` with the same text after an interrupt goes on in the layer where it stopped
    /// ([`Session::first_text_share`]). Everything else begins anew.
    ///
    /// # Errors
    /// Where a token is outside the vocabulary, or the text is longer than the context. Where a computation
    /// fails or is interrupted, or its numbers are not finite ([`EngineError::NotFinite`]).
    pub fn sync(&mut self, tokens: &[u32], progress: &mut dyn FnMut(Progress)) -> Result<usize, EngineError> {
        self.sync_with(tokens, &mut |_, now| progress(now))
    }

    /// As [`Session::sync`]. `after_chunk` also sees the session as it is after each chunk, so that it can write it down.
    pub(crate) fn sync_with(
        &mut self,
        tokens: &[u32],
        after_chunk: &mut dyn FnMut(&Session, Progress),
    ) -> Result<usize, EngineError> {
        self.check(tokens)?;
        self.go_back(tokens)?;
        let rest = &tokens[self.tokens.len()..];
        if rest.is_empty() {
            return Ok(0);
        }
        check_interrupt(&self.engine.interrupt())?;
        match rest {
            [token] if !self.tokens.is_empty() => {
                self.prepare_step(*token)?;
                // Only now: an interrupt before this must leave what undoes the turn before.
                if !self.is_mid_text {
                    self.store.begin_turn(&self.logits)?;
                }
                self.step(*token)?;
            }
            _ => {
                not_finite::check_text(&self.engine, rest, self.options.types)?;
                self.read(rest, after_chunk).map_err(|error| self.with_origin(error, tokens))?;
            }
        }
        self.is_mid_text = false;
        self.store.add_checkpoint(&self.logits)?;
        Ok(rest.len())
    }

    fn read(
        &mut self,
        tokens: &[u32],
        after_chunk: &mut dyn FnMut(&Session, Progress),
    ) -> Result<(), EngineError> {
        if self.tokens.is_empty() && self.options.prefill == Prefill::Exact {
            return self.read_exact(tokens, after_chunk);
        }
        let read = self.read_chunks(tokens, after_chunk);
        self.engine.release_all();
        read
    }

    /// The error of computing `tokens`, with where numbers stop being finite, if it is that error.
    fn with_origin(&self, error: EngineError, tokens: &[u32]) -> EngineError {
        not_finite::with_origin(error, &self.engine, tokens, self.options.types)
    }

    /// Goes back to the longest prefix of `tokens` that can be restored and whose logits are known or
    /// computed next.
    fn go_back(&mut self, tokens: &[u32]) -> Result<(), EngineError> {
        let common = common_prefix(&self.tokens, tokens);
        if common == self.tokens.len() && (common < tokens.len() || !self.logits.is_empty()) {
            return Ok(());
        }
        self.is_mid_text = false;
        // The last token is computed again where its logits are not known.
        let cut = common.min(tokens.len().saturating_sub(1));
        let cut = if cut > 0 && self.store.can_truncate(cut) { cut } else { 0 };
        let usable = |seen, known| seen <= common && (known || seen < tokens.len());
        match self.store.latest_checkpoint(usable) {
            Some(mark) if mark >= cut && mark > 0 => self.rewind(mark),
            _ if cut > 0 => {
                self.store.truncate(cut);
                self.tokens.truncate(cut);
                self.logits.clear();
                Ok(())
            }
            _ => self.clear(),
        }
    }

    /// Goes back to the checkpoint at which `seen` tokens had been seen. The session is empty where there is
    /// none, and after an error.
    fn rewind(&mut self, seen: usize) -> Result<(), EngineError> {
        let result = self.store.rewind(seen);
        self.is_mid_text = false;
        self.tokens.truncate(self.store.seen());
        self.logits.clear();
        self.logits = result?;
        Ok(())
    }

    /// Goes back to the latest checkpoint after an error. The session is empty where there is none.
    fn rewind_to_latest(&mut self) {
        let latest = self.store.latest_checkpoint(|_, _| true);
        // If this fails too, the session is empty, and the first error is the one to report.
        let _ = self.rewind(latest.unwrap_or(0));
    }

    /// Removes all tokens.
    pub fn clear(&mut self) -> Result<(), EngineError> {
        self.first_text = None;
        self.is_mid_text = false;
        self.tokens.clear();
        self.logits.clear();
        self.store.clear()
    }

    /// Empties the store if it holds layers of a first text whose reading was interrupted.
    pub(crate) fn forget_first_text(&mut self) -> Result<(), EngineError> {
        if self.first_text.is_some() { self.clear() } else { Ok(()) }
    }

    fn check(&self, tokens: &[u32]) -> Result<(), EngineError> {
        let vocabulary = self.engine.spec().n_vocab;
        if let Some(token) = tokens.iter().find(|token| **token as usize >= vocabulary) {
            return Err(EngineError::Token { token: *token, vocabulary });
        }
        if tokens.len() > self.options.context {
            return Err(EngineError::ContextFull { needed: tokens.len(), context: self.options.context });
        }
        Ok(())
    }

    /// Logits `[n_vocab]` after every token of a text, `[n, n_vocab]` in one vector: for checking a model.
    /// What the session held is removed. Afterwards it holds the text, or after an error a beginning of it.
    pub fn all_logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>, EngineError> {
        self.check(tokens)?;
        self.clear()?;
        not_finite::check_text(&self.engine, tokens, self.options.types)?;
        let mut all = Vec::new();
        while self.tokens.len() < tokens.len() {
            let rest = &tokens[self.tokens.len()..];
            let logits = self.chunk(rest, false, |_| Ok(OutputTokens::All), Pass::read_logits);
            all.extend(logits.map_err(|error| self.with_origin(error, tokens))?);
        }
        Ok(all)
    }

    /// Computes a chunk of tokens behind what the session holds. Gives every named intermediate of it, in the
    /// order of the computation, for finding out where two computations differ first. The engine must have
    /// been opened with [`EngineOptions::trace`](crate::EngineOptions::trace). After an error the session is
    /// as before.
    pub fn intermediates(&mut self, tokens: &[u32]) -> Result<Vec<(String, Vec<f32>)>, EngineError> {
        self.check(tokens)?;
        let (needed, context) = (self.tokens.len() + tokens.len(), self.options.context);
        let whole = |n| match n == tokens.len() && needed <= context {
            true => Ok(OutputTokens::All),
            false => Err(EngineError::ContextFull { needed, context }),
        };
        if tokens.is_empty() {
            return Ok(Vec::new());
        }
        self.forget_first_text()?;
        let n_layers = self.engine.spec().n_layers;
        self.chunk(tokens, false, whole, |pass| pass.intermediates(n_layers))
    }

    /// Appends one token and computes the logits of what follows. A step that has begun is not interrupted.
    ///
    /// After an interrupt the session is as before. After another error it is as it was when the last text
    /// had been read, or empty where that cannot be restored, as [`Session::tokens`] says.
    pub fn push(&mut self, token: u32) -> Result<(), EngineError> {
        self.prepare_step(token)?;
        self.forget_first_text()?;
        self.step(token)
    }

    /// What comes before a decode step and can be interrupted. It does not change the session.
    fn prepare_step(&mut self, token: u32) -> Result<(), EngineError> {
        self.check(&[token])?;
        if self.tokens.len() == self.options.context {
            let context = self.options.context;
            return Err(EngineError::ContextFull { needed: context + 1, context });
        }
        check_interrupt(&self.engine.interrupt())?;
        not_finite::check_weights(&self.engine, token, self.options.types)?;
        if self.decode.is_none() {
            let mut workspace = Workspace::new(&self.engine.backends);
            let rows = |layer| self.store.rows(layer);
            let pass = Pass::new(self.forward.model_graphs(1, OutputTokens::Last, rows), &mut workspace)?;
            self.decode = Some((pass, workspace));
        }
        Ok(())
    }

    /// A decode step, after [`Session::prepare_step`].
    fn step(&mut self, token: u32) -> Result<(), EngineError> {
        self.compute_step(token).map_err(|error| {
            let text = [&self.tokens[..], &[token]].concat();
            self.rewind_to_latest();
            self.with_origin(error, &text)
        })
    }

    fn compute_step(&mut self, token: u32) -> Result<(), EngineError> {
        self.make_room(1)?;
        let Some((pass, _)) = &self.decode else { return Ok(()) };
        let backends = &self.engine.backends;
        pass.compute(Backends::compute_to_end, backends, &[token], self.store.seen(), &self.store.state())?;
        pass.read_logits_into(&mut self.logits)?;
        self.tokens.push(token);
        self.store.advance(1);
        self.store.compress(Event::Step, false, backends, &mut self.workspace)
    }

    /// Makes room for up to `wanted` tokens. Returns for how many there is room, at least 1.
    fn make_room(&mut self, wanted: usize) -> Result<usize, EngineError> {
        if self.store.free_rows() < wanted {
            self.store.compress(Event::Chunk, true, &self.engine.backends, &mut self.workspace)?;
        }
        match self.store.free_rows().min(wanted) {
            0 => {
                let context = self.options.context;
                Err(EngineError::ContextFull { needed: self.tokens.len() + 1, context })
            }
            room => Ok(room),
        }
    }

    /// Computes a chunk, as many of the tokens `rest` as there is room for, and gives what `read` reads of
    /// the results. `outputs` tells for which tokens a chunk of so many needs logits. Afterwards the logits
    /// of what follows are not known. If the chunk fails or is interrupted, it is taken back.
    fn chunk<T>(
        &mut self,
        rest: &[u32],
        begins_turn: bool,
        outputs: impl FnOnce(usize) -> Result<OutputTokens, EngineError>,
        read: impl FnOnce(&Pass) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let wanted = rest.len().min(self.options.chunk.max(1));
        let turn = begins_turn.then_some(self.logits.as_slice());
        self.store.begin_attempt(turn, self.store.free_rows() < wanted)?;
        match self.compute_chunk(rest, wanted, outputs, read) {
            Ok((tokens, result, evictions)) => {
                self.store.commit();
                self.tokens.extend_from_slice(tokens);
                self.logits.clear();
                let evicted = self.store.evict(evictions, &self.engine.backends, &mut self.workspace);
                self.tokens.truncate(self.store.seen());
                evicted.map(|()| result)
            }
            Err(error) => {
                // If this fails too, the store is empty, and the first error is the one to report.
                let _ = self.store.roll_back();
                if self.store.seen() < self.tokens.len() {
                    self.tokens.clear();
                    self.logits.clear();
                }
                Err(error)
            }
        }
    }

    /// The part of [`Session::chunk`] that can be taken back. Returns the chunk's tokens, what was read, and
    /// which rows are evicted next.
    fn compute_chunk<'t, T>(
        &mut self,
        rest: &'t [u32],
        wanted: usize,
        outputs: impl FnOnce(usize) -> Result<OutputTokens, EngineError>,
        read: impl FnOnce(&Pass) -> Result<T, EngineError>,
    ) -> Result<(&'t [u32], T, Evictions), EngineError> {
        let tokens = &rest[..self.make_room(wanted)?];
        let (backends, rows) = (&self.engine.backends, |layer| self.store.rows(layer));
        let outputs = outputs(tokens.len())?;
        let graphs = self.forward.model_graphs(tokens.len(), outputs, rows);
        let pass = Pass::new(graphs, &mut self.workspace)?;
        pass.compute(Backends::compute, backends, tokens, self.store.seen(), &self.store.state())?;
        let result = read(&pass)?;
        self.store.advance(tokens.len());
        let evictions = self.store.plan_evictions(Event::Chunk, false, backends, &mut self.workspace)?;
        Ok((tokens, result, evictions))
    }

    fn read_chunks(
        &mut self,
        tokens: &[u32],
        after_chunk: &mut dyn FnMut(&Session, Progress),
    ) -> Result<(), EngineError> {
        let (before, mut elapsed) = (self.tokens.len(), Duration::ZERO);
        loop {
            let started = Instant::now();
            let at = self.tokens.len() - before;
            if at == tokens.len() {
                return Ok(());
            }
            let rest = &tokens[at..];
            let outputs = |n| Ok(if n == rest.len() { OutputTokens::Last } else { OutputTokens::None });
            let begins_turn = before > 0 && !self.is_mid_text;
            let logits = self.chunk(rest, begins_turn, outputs, Pass::read_logits);
            if let Err(EngineError::NotFinite { .. }) = &logits
                && self.is_mid_text
            {
                // The chunks before may be to blame.
                self.rewind_to_latest();
            }
            self.logits = logits?;
            self.is_mid_text = true;
            let done = self.reading_work(before, self.tokens.len() - before);
            let share = done / self.reading_work(before, tokens.len());
            elapsed += started.elapsed();
            after_chunk(self, Progress { task: Task::Prefill, share, size: tokens.len(), elapsed });
        }
    }

    /// Time spent on selecting and moving rows after the last exact prefill, or after
    /// [`Session::fill_random`]. The attention that policies ask for is not included.
    pub fn compressing(&self) -> Duration {
        self.compressing
    }

    /// Bytes of compute buffers held now.
    pub fn compute_bytes(&self) -> usize {
        let workspaces = self.decode.iter().map(|(_, workspace)| workspace).chain([&self.workspace]);
        workspaces.map(|workspace| Place::ALL.map(|place| workspace.bytes(place)).iter().sum::<usize>()).sum()
    }
}

/// How many tokens two texts begin with alike.
pub(crate) fn common_prefix(one: &[u32], other: &[u32]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}
