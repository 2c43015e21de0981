//! A session: one timeline of tokens, and the store that holds their rows.
//!
//! [`Session::advance`] is what happens between two tokens, for decode steps and for chunks of a text: [`Session::compute`], as
//! far as it can be taken back, then [`Session::complete`]. Only a first text may be read in another way, layer by layer (`reading/first_text.rs`): each layer
//! reads the whole text before its rows are evicted.
//!
//! The caller hands over the whole text so far as tokens. The session keeps what it has of it and reads the rest, at once
//! ([`Session::sync`]) or piece by piece ([`Session::read`]).
//!
//! Undo: the store keeps checkpoints from before the last text was read and from after it. Handing over a
//! beginning of the same text restores the checkpoint exactly, unless more than 1024 rows of a head were
//! evicted since.
//!
//! Errors and interrupts: a chunk, a reading layer by layer or a step counts when all of it is done. What
//! stops before is taken back, so that a session always is as if only [`Session::tokens`] had been read.

pub(crate) mod attention;
pub(crate) mod generate;
mod kv_map;
mod kv_usage;
pub(crate) mod not_finite;
mod options;
mod random;
mod reading;
pub mod snapshot;
pub mod text;
mod verify;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use attention::AttentionRecord;
use generate::batch::{Batch, Computed, SubmittedTokens};
use ggml::InterruptFlag;
pub use kv_map::{KvHeadRows, KvMap};
pub use kv_usage::KvUsage;
pub use options::{Prefill, SessionOptions};
pub(crate) use reading::{FirstText, Reached};
pub use reading::{TextReading, sync_all};

use crate::compute::forward::{Forward, NextTokens, OutputTokens, needs_products};
use crate::compute::pace::PieceTimes;
use crate::compute::pass::Pass;
use crate::compute::reading_work::ReadingWork;
use crate::compute::row_groups::has_groups;
use crate::devices::ledger::Reservation;
use crate::devices::workspace::Workspace;
use crate::files::codec::Input;
use crate::kv::policy::Event;
use crate::kv::{Evictions, LayerRows, Layout, REACH_STEP, Store, StoreOptions};
use crate::{Engine, EngineError, Hint, Progress};

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
    /// `[n_vocab]`, or empty where they are not known.
    logits: Vec<f32>,
    /// Memory for the logits of the pass that is computed.
    next_logits: Vec<f32>,
    /// Tokens that were verified and do not count yet. Their logits are in `next_logits`.
    verified: Vec<u32>,
    last_text: LastText,
    /// For everything but decode steps.
    workspace: Workspace,
    /// For how many tokens the workspace has memory, wherever lanes are read to: for none where that makes no difference.
    reserved: usize,
    /// The graphs of a decode step and their memory. They are built again after a step that failed, and where they do not read
    /// as far as they must.
    decode: Option<(Pass, DecodeMemory)>,
    compressing: Duration,
    work: ReadingWork,
    /// Of the text that was read last.
    pieces: PieceTimes,
    /// The memory that it was promised, where a setup planned it.
    pub(crate) reservations: Vec<Reservation>,
    /// The queries of the last tokens, where they are recorded.
    attention: Option<Box<AttentionRecord>>,
    /// The sessions with which it computes its answers.
    batch: Option<Arc<Batch>>,
    /// The same while it writes an answer.
    answering: Option<Arc<Batch>>,
    /// What a batch knows it by: another number where its graphs are others.
    number: u64,
    /// Builds graphs for the session's context.
    forward: Forward,
    interrupt: InterruptFlag,
    // Last: the engine must outlive what it has allocated.
    engine: Arc<Engine>,
}

/// How much of its last text a session has read.
#[derive(Default)]
pub(crate) enum LastText {
    /// All of it, or there was none.
    #[default]
    Whole,
    /// Some chunks of it. What is read next belongs to its turn.
    SomeChunks,
    /// Some layers have read the first text. The session has no tokens yet.
    SomeLayers(Box<FirstText>),
}

/// How tokens are computed against the store as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Advance {
    /// One token, by graphs that are built once. Once begun it is not interrupted. After an error the session goes back
    /// to its latest checkpoint.
    Step,
    /// Several steps, by graphs of their own. Nothing but rows behind the live ones is written, so it can be interrupted.
    Draft,
    /// Up to a chunk of tokens, as many as there is room for. It can be interrupted, and is taken back after an error.
    /// If it begins a turn, earlier turns cannot be undone any more.
    Chunk { begins_turn: bool },
}

/// How a session goes back to a beginning of its text.
#[derive(Clone, Copy, Debug)]
enum WayBack {
    /// It has nothing else.
    None,
    /// To the checkpoint at so many tokens; 0 is the empty session.
    Rewind(usize),
    /// By taking off all tokens but so many.
    Truncate(usize),
}

impl Session {
    /// What happens between two tokens, as far as it can be taken back: the store makes room, the model computes (`run`), new
    /// rows count, policies say which rows are evicted next. Returns how many of the tokens were computed, what was read of
    /// the results, and the rows.
    fn compute<T>(
        &mut self,
        wanted: &[u32],
        how: Advance,
        outputs: impl FnOnce(usize) -> Result<OutputTokens, EngineError>,
        run: impl FnOnce(&mut Session, &[u32], OutputTokens) -> Result<T, EngineError>,
    ) -> Result<(usize, T, Evictions), EngineError> {
        let tokens = &wanted[..self.make_room(wanted.len())?];
        let outputs = outputs(tokens.len())?;
        let result = run(self, tokens, outputs)?;
        let rows = self.count(tokens.len(), how, outputs)?;
        Ok((tokens.len(), result, rows))
    }

    /// The model computes tokens, by graphs that are there or are built, and `read` reads results. Rows are written behind the
    /// live ones, and do not count yet.
    fn run<T>(
        &mut self,
        tokens: &[u32],
        how: Advance,
        outputs: OutputTokens,
        read: impl FnOnce(&Pass, &mut Vec<f32>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let (pass, memory) = self.pass(how, tokens.len(), outputs)?;
        let (backends, interrupt) = (&self.engine.backends, how.interrupt(&self.interrupt));
        let text = NextTokens { tokens, first: self.store.seen(), lanes: &self.store.state() };
        match how {
            // A GPU reads it while the host prepares the next one.
            Advance::Chunk { .. } => pass.start(backends, &[text], interrupt)?,
            Advance::Step | Advance::Draft => pass.compute(backends, &[text], interrupt)?,
        }
        let result = read(&pass, &mut self.next_logits)?;
        self.decode = memory.map(|memory| (pass, memory)).or(self.decode.take());
        Ok(result)
    }

    /// The same for one token or a draft, whose logits are read: with those of other sessions, where it answers in a batch.
    fn run_answer(&mut self, tokens: &[u32], how: Advance, outputs: OutputTokens) -> Result<(), EngineError> {
        let run_alone = |session: &mut Session| session.run(tokens, how, outputs, Pass::read_logits_into);
        let Some(batch) = self.answering.clone() else { return run_alone(self) };
        let reach = self.store.reach(tokens.len());
        let submitted = || SubmittedTokens {
            session: self.number,
            reach,
            tokens: tokens.to_vec(),
            first: self.store.seen(),
            lanes: self.store.state(),
            rows: self.forward.rows_of_layers(|layer| self.rows(layer, reach, how, outputs)),
        };
        match batch.submit(submitted) {
            Computed::Together(logits) => self.next_logits = logits?,
            Computed::Alone(mut alone) => match alone.compute(|| run_alone(self)) {
                Some(computed) => computed?,
                None => return Err(ggml::Error::Interrupted.into()),
            },
        }
        Ok(())
    }

    /// The rows of so many tokens count, and policies say which rows are evicted next.
    fn count(&mut self, n: usize, how: Advance, outputs: OutputTokens) -> Result<Evictions, EngineError> {
        let seen = self.store.seen();
        self.store.advance(n);
        if let Some(attention) = &mut self.attention {
            attention.computed(seen..seen + n, how.is_answer(), outputs)?;
        }
        self.store.plan_evictions(how.event(), false, &self.engine.backends, &mut self.workspace)
    }

    /// Computes the next of the tokens `rest`, one or up to a chunk, by `run`, which leaves the logits of what follows, or
    /// none, and what it gives. `outputs` tells for which tokens of so many logits are computed. All that a session computes
    /// against its store goes through here, but for drafts.
    fn advance<T>(
        &mut self,
        rest: &[u32],
        how: Advance,
        outputs: impl FnOnce(usize) -> Result<OutputTokens, EngineError>,
        run: impl FnOnce(&mut Session, &[u32], OutputTokens) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.verified.clear();
        let wanted = rest.len().min(self.options.chunk.max(1));
        if let Advance::Chunk { begins_turn } = how {
            let turn = begins_turn.then_some(self.logits.as_slice());
            self.store.begin_attempt(turn, self.store.free_rows() < wanted)?;
        }
        match self.compute(&rest[..wanted], how, outputs, run) {
            Ok((count, result, evictions)) => self.complete(&rest[..count], evictions).map(|()| result),
            Err(error) => Err(self.take_back(error, rest, how)),
        }
    }

    /// What tokens that are computed in this way read and write of a layer.
    fn rows(&self, layer: usize, reach: usize, how: Advance, outputs: OutputTokens) -> LayerRows {
        let mut rows = self.store.rows(layer).reaching(reach);
        if let Some(attention) = &self.attention {
            attention.record(layer, how.is_answer(), outputs, &mut rows);
        }
        rows
    }

    /// What computes texts: attention may be in integers of 8 bits there, unlike in answers.
    fn reading_forward(&self) -> Forward {
        self.forward.with_int8(self.options.int8)
    }

    /// The graphs that compute so many tokens. Those of a decode step, which serve many, come with their memory.
    fn pass(
        &mut self,
        how: Advance,
        n: usize,
        outputs: OutputTokens,
    ) -> Result<(Pass, Option<DecodeMemory>), EngineError> {
        let (decode, reach) = (self.decode.take(), self.store.reach(n));
        let of_texts = (!how.is_answer()).then(|| self.reading_forward());
        let forward = of_texts.as_ref().unwrap_or(&self.forward);
        let graphs = |reach| forward.model_graphs(n, outputs, |layer| self.rows(layer, reach, how, outputs));
        // Memory for whole lanes comes first: none is asked for in the middle of an answer.
        let to_the_end = (reach < usize::MAX).then_some(usize::MAX);
        match (how, decode) {
            (Advance::Step, Some((pass, memory))) if memory.serves(reach) => Ok((pass, Some(memory))),
            (Advance::Step, before) => {
                let mut workspace = match before {
                    Some((_, memory)) => memory.workspace,
                    None => {
                        let mut workspace = Workspace::new(&self.engine.backends);
                        to_the_end.map(|end| Pass::new(graphs(end), &mut workspace)).transpose()?;
                        workspace
                    }
                };
                let pass = Pass::new(graphs(reach), &mut workspace)?;
                Ok((pass, Some(DecodeMemory { workspace, reach })))
            }
            (Advance::Draft | Advance::Chunk { .. }, decode) => {
                let whole = to_the_end.filter(|_| n > self.reserved).map(&graphs);
                let graphs = graphs(reach);
                self.decode = decode;
                if let Some(whole) = whole {
                    Pass::new(whole, &mut self.workspace)?;
                    self.reserved = n;
                }
                Ok((Pass::new(graphs, &mut self.workspace)?, None))
            }
        }
    }
}

/// The memory of a decode step's graphs.
struct DecodeMemory {
    workspace: Workspace,
    /// As [`Store::reach`] said when they were built.
    reach: usize,
}

impl DecodeMemory {
    /// Whether its graphs read lanes that far, and not much further. Evictions bring rows back and forth across a bound.
    fn serves(&self, reach: usize) -> bool {
        (reach..=reach.saturating_add(REACH_STEP)).contains(&self.reach)
    }
}

impl Session {
    /// Its answer begins: a batch waits for its tokens.
    fn begin_answer(&mut self) {
        self.answering.clone_from(&self.batch);
        self.answering.iter().for_each(|batch| batch.begin());
    }

    /// Its answer has ended.
    fn end_answer(&mut self) {
        self.answering.take().iter().for_each(|batch| batch.end(self.number));
    }
}

impl Session {
    /// An empty session; allocates the store. Nothing else shares its interrupt flag.
    pub fn new(engine: &Arc<Engine>, options: SessionOptions) -> Result<Session, EngineError> {
        let spec = engine.spec();
        options.check_context(spec)?;
        if let Some(profile) = &options.profile {
            profile.check(engine.head_shape()?, Some(engine.fingerprint()))?;
        }
        let store_options = StoreOptions { context: options.context, types: options.types, reserve: None };
        let layout = Layout::new(spec, &options.policy, options.profile.as_ref(), store_options)?;
        if needs_products(&layout) {
            for place in engine.placement().places() {
                engine.backends.at(place).check_products(ggml::Type::F32)?;
            }
        }
        let mut store = Store::new(layout, &engine.backends)?;
        store.set_sink_logits(|layer| engine.forward.sink_logits(layer));
        store.set_key_offsets(|layer, ty| engine.forward.stored_key_offset(layer, ty));
        if options.policy.predicts_scores() {
            let profile = options.profile.as_ref().filter(|profile| profile.predicts_rows());
            let profile = profile.ok_or_else(|| EngineError::Policy {
                given: options.policy.to_string(),
                reason: "the head profile has no row predictors, by which it scores rows".into(),
                hint: Hint::MakeRowPredictors,
            })?;
            store.set_row_predictors(|layer| profile.row_predictors(layer))?;
        }
        let workspace = Workspace::new(&engine.backends);
        let reading_work = ReadingWork::new(spec).with_groups(|layer| {
            options.prefill == Prefill::Sparse && has_groups(spec, engine.placement(), layer)
        });
        let forward = engine.forward.for_context(options.context);
        let attention = if options.record_attention { Some(AttentionRecord::boxed(engine)?) } else { None };
        Ok(Session {
            options,
            store,
            tokens: Vec::new(),
            logits: Vec::new(),
            next_logits: Vec::new(),
            verified: Vec::new(),
            last_text: LastText::Whole,
            workspace,
            reserved: 0,
            decode: None,
            compressing: Duration::ZERO,
            work: reading_work,
            pieces: PieceTimes::default(),
            reservations: Vec::new(),
            attention,
            batch: None,
            answering: None,
            number: next_number(),
            forward,
            interrupt: InterruptFlag::new(),
            engine: engine.clone(),
        })
    }

    /// Another session takes the place of this one, as [`Session::take_over`] says.
    pub(crate) fn make_way_for(&mut self, other: Session) {
        let old = std::mem::replace(self, other);
        self.take_over(old);
    }

    /// Takes what a session was promised whose place this one has taken, unless it was promised its own, and what is not saved:
    /// how it drafts and with whom it computes, and whether it records attention.
    pub(crate) fn take_over(&mut self, mut old: Session) {
        (self.options.draft, self.options.sessions) = (old.options.draft, old.options.sessions);
        self.batch = self.batch.take().or(old.batch.take().filter(|batch| batch.fits(self)));
        if self.reservations.is_empty() {
            self.reservations = std::mem::take(&mut old.reservations);
        }
        if old.records_attention() {
            // Where there is no memory for it, nothing is recorded. Answers are the same.
            let _ = self.record_attention(true);
        }
    }

    /// The same session with this interrupt flag.
    pub fn with_interrupt(mut self, interrupt: &InterruptFlag) -> Session {
        self.set_interrupt(interrupt);
        self
    }

    /// Has this flag stop the session's calls from now on. Other sessions of the engine go on. A call that is to be
    /// stopped alone gets a new flag before it begins.
    ///
    /// ```
    /// use longhand::{Engine, EngineOptions, InterruptFlag, ModelSource, Session, SessionOptions};
    ///
    /// let engine = Engine::open(&ModelSource::Embedded, &EngineOptions::default())?;
    /// let [mut one, mut other] =
    ///     [Session::new(&engine, SessionOptions::default())?, Session::new(&engine, SessionOptions::default())?];
    /// one.interrupt().set();
    /// assert!(one.sync(&[1, 2, 3], &mut |_| ()).is_err_and(|error| error.is_interrupt()));
    /// other.sync(&[1, 2, 3], &mut |_| ())?;
    /// one.set_interrupt(&InterruptFlag::new());
    /// one.sync(&[1, 2, 3], &mut |_| ())?;
    /// # Ok::<(), longhand::EngineError>(())
    /// ```
    pub fn set_interrupt(&mut self, interrupt: &InterruptFlag) {
        self.interrupt = interrupt.clone();
    }

    /// The flag that stops the session's calls: a reading at its next operation, with an error for which
    /// [`EngineError::is_interrupt`] holds. A decode step that has begun is completed.
    pub fn interrupt(&self) -> &InterruptFlag {
        &self.interrupt
    }

    /// The tokens so far.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The loaded model that computes its text.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
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

    /// The store.
    #[doc(hidden)]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Makes `tokens` the session's text: keeps the common beginning where it can, computes the rest, and
    /// leaves the logits of what follows. Returns how many tokens were computed.
    ///
    /// After an error or an interrupt the session holds a beginning of `tokens`, as [`Session::tokens`] says.
    /// It is what the session had of them before, and the chunks that were complete. Of a text whose logits are not
    /// finite, nothing is left. The session is exactly as if it had read that beginning only, in the same chunks; but
    /// its logits may be unknown. Calling `sync` again goes on from there, in the same turn.
    ///
    /// Of a first text that is read layer by layer ([`Prefill::is_by_layer`]) there are no tokens until all layers have read
    /// it. Calling `sync` with the same text after an interrupt goes on in the layer where it stopped
    /// ([`Session::first_text_share`]), and so may a text that begins in the same way ([`Session::begun_of`]). Everything else
    /// begins anew.
    ///
    /// # Errors
    /// Where a token is outside the vocabulary, or the text is longer than the context. Where a computation
    /// fails or is interrupted, or its numbers are not finite ([`EngineError::NotFinite`]).
    pub fn sync(&mut self, tokens: &[u32], progress: &mut dyn FnMut(Progress)) -> Result<usize, EngineError> {
        self.sync_with(tokens, &mut |_, now| progress(now))
    }

    /// As [`Session::sync`]. `after_piece` also sees the session as it is after each piece, so that it can write it down.
    pub(crate) fn sync_with(
        &mut self,
        tokens: &[u32],
        after_piece: &mut dyn FnMut(&Session, Progress),
    ) -> Result<usize, EngineError> {
        let mut reading = self.read(tokens)?;
        let missing = reading.missing();
        while let Some(progress) = reading.step()? {
            after_piece(reading.session(), progress);
        }
        Ok(missing)
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
        self.interrupt.check()?;
        not_finite::check_weights(&self.engine, token, self.options.types, &self.interrupt)?;
        let (pass, memory) = self.pass(Advance::Step, 1, OutputTokens::Last)?;
        self.decode = memory.map(|memory| (pass, memory));
        Ok(())
    }

    /// A decode step, after [`Session::prepare_step`].
    fn step(&mut self, token: u32) -> Result<(), EngineError> {
        let how = Advance::Step;
        let run = |session: &mut Session, tokens: &[u32], outputs| session.run_answer(tokens, how, outputs);
        self.advance(&[token], how, |_| Ok(OutputTokens::Last), run)
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

    /// Counts tokens that were computed, and evicts rows. After an error the session is empty.
    fn complete(&mut self, tokens: &[u32], evictions: Evictions) -> Result<(), EngineError> {
        self.store.commit();
        self.tokens.extend_from_slice(tokens);
        std::mem::swap(&mut self.logits, &mut self.next_logits);
        let evicted = self.store.evict(evictions, &self.engine.backends, &mut self.workspace);
        self.keep_what_is_stored();
        evicted
    }

    /// Takes back what was computed of the tokens `rest` before this error. Returns the error, with where numbers stop
    /// being finite if it is that one.
    fn take_back(&mut self, error: EngineError, rest: &[u32], how: Advance) -> EngineError {
        // Nobody is to wait while it is looked for what is wrong.
        self.end_answer();
        let is_not_finite = matches!(error, EngineError::NotFinite { .. });
        let text = if is_not_finite { [&self.tokens[..], rest].concat() } else { Vec::new() };
        if how.is_answer() {
            self.rewind_to_latest();
        } else {
            // If this fails too, the store is empty, and the first error is the one to report.
            let _ = self.store.roll_back();
            self.keep_what_is_stored();
            if is_not_finite && matches!(self.last_text, LastText::SomeChunks) {
                // The chunks before may be to blame.
                self.rewind_to_latest();
            }
        }
        self.with_origin(error, &text)
    }

    /// Forgets the text where the store was emptied after an error.
    fn keep_what_is_stored(&mut self) {
        if self.store.seen() < self.tokens.len() {
            self.tokens.clear();
            self.logits.clear();
            self.last_text = LastText::Whole;
        }
        self.forget_attention();
    }

    /// The error of computing `tokens`, with where numbers stop being finite, if it is that error.
    fn with_origin(&self, error: EngineError, tokens: &[u32]) -> EngineError {
        not_finite::with_origin(error, &self.engine, tokens, self.options.types, &self.interrupt)
    }

    /// Goes back to the longest prefix of `tokens` that can be restored and whose logits are known or
    /// computed next.
    fn go_back(&mut self, tokens: &[u32]) -> Result<(), EngineError> {
        self.verified.clear();
        let way = self.way_back(tokens);
        if !matches!(way, WayBack::None) {
            self.forget_chunks();
        }
        match way {
            WayBack::None => Ok(()),
            WayBack::Rewind(0) => self.clear(),
            WayBack::Rewind(mark) => self.rewind(mark),
            WayBack::Truncate(cut) => {
                self.store.truncate(cut);
                self.tokens.truncate(cut);
                self.logits.clear();
                self.forget_attention();
                Ok(())
            }
        }
    }

    /// How the session goes back to what it shares with `tokens`.
    fn way_back(&self, tokens: &[u32]) -> WayBack {
        let common = common_prefix(&self.tokens, tokens);
        if common == self.tokens.len() && (common < tokens.len() || !self.logits.is_empty()) {
            return WayBack::None;
        }
        // The last token is computed again where its logits are not known.
        let cut = common.min(tokens.len().saturating_sub(1));
        let cut = if cut > 0 && self.store.can_truncate(cut) { cut } else { 0 };
        let usable = |seen, known| seen <= common && (known || seen < tokens.len());
        match self.store.latest_checkpoint(usable) {
            Some(mark) if mark >= cut => WayBack::Rewind(mark),
            _ if cut > 0 => WayBack::Truncate(cut),
            _ => WayBack::Rewind(0),
        }
    }

    /// How many tokens of the text `tokens` need not be read again: what [`Session::sync`] with it keeps. Layers of a first
    /// text that is not read to its end do not count.
    pub fn kept_of(&self, tokens: &[u32]) -> usize {
        match self.way_back(tokens) {
            WayBack::None => self.tokens.len(),
            WayBack::Rewind(kept) | WayBack::Truncate(kept) => kept,
        }
    }

    /// What is read next begins a turn of its own.
    fn forget_chunks(&mut self) {
        if matches!(self.last_text, LastText::SomeChunks) {
            self.last_text = LastText::Whole;
        }
    }

    /// Goes back to the checkpoint at which `seen` tokens had been seen. The session is empty where there is
    /// none, and after an error.
    fn rewind(&mut self, seen: usize) -> Result<(), EngineError> {
        let result = self.store.rewind(seen);
        self.forget_chunks();
        self.tokens.truncate(self.store.seen());
        self.forget_attention();
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
        self.last_text = LastText::Whole;
        self.verified.clear();
        self.tokens.clear();
        self.logits.clear();
        self.forget_attention();
        self.store.clear()
    }

    /// The first text that some layers have read.
    fn first_text(&self) -> Option<&FirstText> {
        match &self.last_text {
            LastText::SomeLayers(text) => Some(text),
            LastText::Whole | LastText::SomeChunks => None,
        }
    }

    /// Empties the store if it holds layers of a first text whose reading was interrupted.
    pub(crate) fn forget_first_text(&mut self) -> Result<(), EngineError> {
        if self.first_text().is_some() { self.clear() } else { Ok(()) }
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

    /// Whether [`Session::sync`] can go back to the first `tokens` tokens without reading them again, but for
    /// the last one.
    pub fn can_return_to(&self, tokens: usize) -> bool {
        self.store.can_truncate(tokens.saturating_sub(1))
            || self.store.latest_checkpoint(|seen, known| seen == tokens && known).is_some()
    }

    /// Whether the rows of a text's beginning are those that they would be if nothing had followed, whatever was read.
    pub fn keeps_beginnings(&self) -> bool {
        // In sparse prefill the queries of a few tokens choose together what they see.
        self.store.layout().keeps_everything() && self.options.prefill != Prefill::Sparse
    }

    /// Whether all tokens after the first `tokens` can be taken off the end.
    pub fn can_truncate_to(&self, tokens: usize) -> bool {
        self.store.can_truncate(tokens)
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
        self.tokens = tokens;
        self.go_on_after(logits)
    }

    /// Takes over the text, the logits and the rows of another session of the same model and policy. After an error the
    /// session is empty.
    pub(crate) fn copy_from(&mut self, other: &Session) -> Result<(), EngineError> {
        self.clear()?;
        self.store.copy_from(&other.store)?;
        self.tokens.clone_from(&other.tokens);
        self.go_on_after(other.logits.clone())
    }

    /// Logits `[n_vocab]` after every token of a text, `[n, n_vocab]` in one vector: for checking a model.
    /// What the session held is removed. Afterwards it holds the text, or after an error a beginning of it.
    pub fn all_logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>, EngineError> {
        let mut all = Vec::new();
        self.each_logits(tokens, usize::MAX, &mut |_, logits| all.extend_from_slice(logits))?;
        Ok(all)
    }

    /// Reads a text anew and hands over the logits `[tokens, n_vocab]` after each piece of it, with the index of its first
    /// token. A piece is a chunk, of at most this many tokens.
    pub(in crate::session) fn each_logits(
        &mut self,
        tokens: &[u32],
        most: usize,
        on_logits: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<(), EngineError> {
        self.check(tokens)?;
        self.clear()?;
        if let Some(last) = tokens.last() {
            not_finite::check_weights(&self.engine, *last, self.options.types, &self.interrupt)?;
        }
        while self.tokens.len() < tokens.len() {
            let read = self.tokens.len();
            let rest = &tokens[read..];
            let piece = &rest[..rest.len().min(most)];
            on_logits(read, &self.diagnose(piece, |_| Ok(OutputTokens::All), Pass::read_logits)?);
        }
        Ok(())
    }

    /// Makes the logits after the session's text known, where its rows did not come from reading it as usual.
    pub(in crate::session) fn go_on_after(&mut self, logits: Vec<f32>) -> Result<(), EngineError> {
        self.logits = logits;
        self.store.begin_turn(&self.logits)
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
        self.diagnose(tokens, whole, |pass| pass.intermediates(n_layers))
    }

    /// Computes a chunk of which `read` reads something. Afterwards the logits of what follows are not known.
    fn diagnose<T>(
        &mut self,
        rest: &[u32],
        outputs: impl FnOnce(usize) -> Result<OutputTokens, EngineError>,
        read: impl FnOnce(&Pass) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let how = Advance::Chunk { begins_turn: false };
        self.advance(rest, how, outputs, |session, tokens, outputs| {
            session.run(tokens, how, outputs, |pass, logits| {
                logits.clear();
                read(pass)
            })
        })
    }

    /// Time spent on selecting and moving rows after the last exact prefill, or after
    /// [`Session::fill_random`]. The attention that policies ask for is not included.
    pub fn compressing(&self) -> Duration {
        self.compressing
    }

    /// Bytes of compute buffers held now.
    pub fn compute_bytes(&self) -> usize {
        let workspaces = self.decode.iter().map(|(_, memory)| &memory.workspace).chain([&self.workspace]);
        workspaces.map(Workspace::bytes).sum()
    }
}

impl Advance {
    /// What policies are told.
    fn event(self) -> Event {
        match self {
            Advance::Step | Advance::Draft => Event::Step,
            Advance::Chunk { .. } => Event::Chunk,
        }
    }

    /// What may stop the computation.
    fn interrupt(self, flag: &InterruptFlag) -> Option<&InterruptFlag> {
        (self != Advance::Step).then_some(flag)
    }

    /// Whether the tokens are those of an answer: a policy sees steps, and their queries are recorded.
    fn is_answer(self) -> bool {
        !matches!(self, Advance::Chunk { .. })
    }
}

/// A number that no session has had.
fn next_number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// How many tokens two texts begin with alike.
pub(crate) fn common_prefix(one: &[u32], other: &[u32]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}
