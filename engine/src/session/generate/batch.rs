//! Answers of several sessions, computed together (continuous batching): one pass over the weights computes the next tokens of
//! all that write at the time.
//!
//! Each session is used by a thread of its own, as without a batch. What an answer needs computed is submitted here, and the
//! thread waits. As soon as all that write have submitted something, or have had enough time to, one of the waiting threads
//! computes it all and hands out the logits. Rows, policies and sampling stay with each session, so sessions may have other
//! policies, other lengths and other drafts. Uses rows and the forward pass.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use ggml::Type;

use crate::compute::forward::{Forward, NextTokens};
use crate::compute::pass::Pass;
use crate::devices::workspace::Workspace;
use crate::kv::{LaneValues, LayerRows};
use crate::{Engine, EngineError, Hint, Session};

/// Most tokens of one pass. From 32 on, products are computed as when a text is read.
const MAX_TOKENS: usize = 31;
/// How long one that writes is waited for, at least and at most.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// The logits `[tokens, n_vocab]` of a session's tokens.
type Logits = Result<Vec<f32>, EngineError>;

/// For how long each computes alone where there was no memory to compute together.
const ALONE: Duration = Duration::from_secs(10);

/// What is called with each computation of a [`Batch`], and calls it once. It may wait first, to let other work run.
pub type Gate = Box<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

/// Sessions whose answers are computed together.
///
/// Each session generates in a thread of its own. While several do, their tokens are computed in one pass over the weights,
/// which is what takes most of the time; recurrent layers are computed one session after the other. Rounding aside, each
/// answer is the one that the session gives alone.
///
/// ```
/// use std::ops::ControlFlow;
/// use std::thread;
///
/// # use longhand::generation::{Batch, Generated, Sampler, SamplerOptions, generate};
/// # use longhand::{Engine, EngineError, EngineOptions, ModelSource, Session, SessionOptions};
/// let engine = Engine::open(&ModelSource::Embedded, &EngineOptions::default())?;
/// let session = || Session::new(&engine, SessionOptions::default());
/// let mut sessions = [session()?, session()?];
/// Batch::join(&mut sessions, Box::new(|compute| compute()))?;
///
/// // What each thread does.
/// fn answer(session: &mut Session) -> Result<Generated, EngineError> {
///     let engine = session.engine().clone();
///     let mut sampler = Sampler::new(SamplerOptions::greedy())?;
///     session.sync(&[11, 12, 13], &mut |_| ())?;
///     let tokenizer = engine.model().chat_format()?.tokenizer();
///     generate(session, tokenizer, &mut sampler, &[], 4, &mut |_| ControlFlow::Continue(()))
/// }
///
/// let [one, other] = thread::scope(|scope| {
///     let threads = sessions.each_mut().map(|session| scope.spawn(|| answer(session)));
///     threads.map(|thread| thread.join().expect("no panic"))
/// });
/// assert_eq!(one?.text, other?.text);
/// # Ok::<(), EngineError>(())
/// ```
pub struct Batch {
    gate: Gate,
    forward: Forward,
    /// Of keys and values.
    types: (Type, Type),
    /// Of the first session.
    context: usize,
    state: Mutex<BatchState>,
    changed: Condvar,
    /// Of the last pass. Locked while one is computed.
    graphs: Mutex<Graphs>,
    // Last: the engine must outlive what it has allocated.
    engine: Arc<Engine>,
}

struct BatchState {
    /// How many sessions write an answer now.
    writing: usize,
    /// What is to be computed, in the order in which it came.
    waiting: Vec<Waiting>,
    is_computing: bool,
    /// What was computed and not yet fetched, by its ticket.
    done: Vec<(u64, Logits)>,
    tickets: u64,
    /// What the last pass has taken.
    last: Duration,
    /// Since when nothing is computed, unless something is.
    idle: Instant,
    /// Until when each computes alone, because there was no memory for all.
    alone_until: Option<Instant>,
    /// How long one that writes is waited for, at least and at most.
    patience: (Duration, Duration),
}

struct Waiting {
    ticket: u64,
    since: Instant,
    /// Not with others: that has failed.
    is_alone: bool,
    tokens: SubmittedTokens,
}

/// The next tokens of a session's answer.
pub(in crate::session) struct SubmittedTokens {
    /// The session's number.
    pub(in crate::session) session: u64,
    /// How far its lanes are read.
    pub(in crate::session) reach: usize,
    pub(in crate::session) tokens: Vec<u32>,
    /// The position of the first.
    pub(in crate::session) first: usize,
    pub(in crate::session) lanes: LaneValues,
    /// Of all layers.
    pub(in crate::session) rows: Vec<LayerRows>,
}

impl SubmittedTokens {
    fn next(&self) -> NextTokens<'_> {
        NextTokens { tokens: &self.tokens, first: self.first, lanes: &self.lanes }
    }
}

/// What the graphs of a session's tokens depend on.
#[derive(PartialEq)]
struct GraphKey {
    session: u64,
    tokens: usize,
    /// How far its lanes are read.
    reach: usize,
}

/// The graphs of a pass, and their memory.
struct Graphs {
    /// With what they depend on.
    pass: Option<(Vec<GraphKey>, Pass)>,
    memory: Workspace,
}

/// How a session goes on that has submitted tokens.
pub(in crate::session) enum Computed<'a> {
    /// They were computed.
    Together(Logits),
    /// It computes them itself, with its own graphs.
    Alone(Alone<'a>),
}

/// A place among what waits. Who leaves without having fetched anything waits no more. The state must not be locked then.
struct Ticket<'a> {
    batch: &'a Batch,
    ticket: u64,
}

/// The right of a session to compute its tokens itself; dropping it lets others compute.
pub(in crate::session) struct Alone<'a> {
    batch: &'a Batch,
    /// What its computation has taken.
    elapsed: Duration,
}

impl Batch {
    /// Has these sessions compute their answers together from now on. Each computation goes through `gate`.
    ///
    /// # Errors
    /// Where they are of different engines, or their rows have different types.
    pub fn join(sessions: &mut [Session], gate: Gate) -> Result<Arc<Batch>, EngineError> {
        let unfit = |reason: &str| EngineError::Setting {
            what: "sessions that compute together".into(),
            reason: reason.into(),
            hint: Hint::advice(
                "make them with the same engine, the same types and contexts of about the same length",
            ),
        };
        let [first, ..] = sessions else { return Err(unfit("no session was given")) };
        let (engine, options) = (first.engine.clone(), first.options.clone());
        let batch = Arc::new(Batch {
            gate,
            forward: engine.forward.for_context(options.context),
            types: options.types,
            context: options.context,
            state: Mutex::new(BatchState {
                writing: 0,
                waiting: Vec::new(),
                is_computing: false,
                done: Vec::new(),
                tickets: 0,
                last: Duration::ZERO,
                idle: Instant::now(),
                alone_until: None,
                patience: PATIENCE,
            }),
            changed: Condvar::new(),
            graphs: Mutex::new(Graphs { pass: None, memory: Workspace::new(&engine.backends) }),
            engine,
        });
        if !sessions.iter().all(|session| batch.fits(session)) {
            return Err(unfit("they have different engines, types of rows or RoPE factors"));
        }
        sessions.iter_mut().for_each(|session| session.batch = Some(batch.clone()));
        Ok(batch)
    }

    /// Whether a session computes by the same weights and graphs as the others.
    pub(in crate::session) fn fits(&self, session: &Session) -> bool {
        let is_long = |context| self.engine.forward.is_long(context);
        Arc::ptr_eq(&self.engine, &session.engine)
            && session.options.types == self.types
            && is_long(session.options.context) == is_long(self.context)
    }

    /// The passes of this many sessions that take the most memory, each as the tokens of its sessions: at most `most` of one.
    pub(crate) fn largest(sessions: usize, most: usize) -> Vec<Vec<usize>> {
        if sessions < 2 {
            return Vec::new();
        }
        let each = vec![1; sessions.min(MAX_TOKENS)];
        let mut full = each.clone();
        let mut left = MAX_TOKENS - full.len();
        for tokens in &mut full {
            let more = left.min(most.max(1) - 1);
            (*tokens, left) = (*tokens + more, left - more);
        }
        if full == each { vec![each] } else { vec![each, full] }
    }

    /// Bytes of compute buffers held now.
    #[doc(hidden)]
    pub fn compute_bytes(&self) -> usize {
        self.graphs.lock().unwrap_or_else(PoisonError::into_inner).memory.bytes()
    }

    /// Waits for all that write, however long they take.
    #[doc(hidden)]
    pub fn wait_for_all(&self) {
        self.lock().patience = (Duration::from_secs(3600), Duration::from_secs(3600));
    }

    /// A session begins to write an answer: its next tokens are waited for.
    pub(in crate::session) fn begin(&self) {
        self.lock().writing += 1;
    }

    /// A session's answer has ended.
    pub(in crate::session) fn end(&self, session: u64) {
        let mut state = self.lock();
        state.writing = state.writing.saturating_sub(1);
        drop(state);
        // Graphs hold on to the rows of their sessions. Those that are computed now have others.
        let graphs = match self.graphs.try_lock() {
            Ok(graphs) => Some(graphs),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(mut graphs) = graphs {
            graphs.pass.take_if(|(of, _)| of.iter().any(|key| key.session == session));
        }
        self.changed.notify_all();
    }

    /// Has the next tokens of a session's answer computed. Returns when they are, or when the session is to do it itself.
    pub(in crate::session) fn submit(&self, tokens: impl FnOnce() -> SubmittedTokens) -> Computed<'_> {
        let mut state = self.lock();
        if state.writing <= 1 && state.waiting.is_empty() && !state.is_computing {
            state.is_computing = true;
            return Computed::Alone(Alone::new(self));
        }
        state.tickets += 1;
        let (ticket, since) = (state.tickets, Instant::now());
        let is_alone = state.alone_until.is_some_and(|until| since < until);
        state.waiting.push(Waiting { ticket, since, is_alone, tokens: tokens() });
        let _ticket = Ticket { batch: self, ticket };
        // Another may have waited for this one.
        self.changed.notify_all();
        loop {
            if let Some(at) = state.done.iter().position(|(done, _)| *done == ticket) {
                let (_, logits) = state.done.swap_remove(at);
                drop(state);
                return Computed::Together(logits);
            }
            let due = state.due();
            if due == Some(Duration::ZERO) {
                let next = state.next();
                if next == [ticket] {
                    state.take(&next);
                    drop(state);
                    return Computed::Alone(Alone::new(self));
                }
                if next.len() > 1 {
                    let next = state.take(&next);
                    drop(state);
                    self.compute(next);
                    state = self.lock();
                    continue;
                }
            }
            // What is due now is computed by another thread.
            let due = due.filter(|due| !due.is_zero()).unwrap_or(PATIENCE.1);
            state = self.changed.wait_timeout(state, due).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Computes what was submitted, and hands out the results.
    fn compute(&self, next: Vec<Waiting>) {
        let mut computation =
            Computation { batch: self, next, started: Instant::now(), is_begun: false, results: None };
        (self.gate)(&mut || {
            if !std::mem::replace(&mut computation.is_begun, true) {
                computation.started = Instant::now();
                computation.results = self.logits(&computation.next);
            }
        });
    }

    /// The logits `[tokens, n_vocab]` of each session. `None` where there is no memory to compute them together.
    fn logits(&self, next: &[Waiting]) -> Option<Vec<Logits>> {
        let mut graphs = self.graphs.lock().unwrap_or_else(PoisonError::into_inner);
        // Where it fails, each alone needs less memory, and says better what is wrong.
        let pass = self.pass(&mut graphs, next).ok()?;
        let texts: Vec<NextTokens> = next.iter().map(|waiting| waiting.tokens.next()).collect();
        let counts: Vec<usize> = texts.iter().map(|text| text.tokens.len()).collect();
        let computed = pass.compute(&self.engine.backends, &texts, None);
        let results = computed.and_then(|()| pass.read_logits_of(&counts));
        Some(results.unwrap_or_else(|error| {
            graphs.pass = None;
            next.iter().map(|_| Err(copy(&error))).collect()
        }))
    }

    /// The pass that computes what was submitted: the last one, where it does.
    fn pass<'a>(&self, graphs: &'a mut Graphs, next: &[Waiting]) -> Result<&'a Pass, EngineError> {
        let Graphs { pass, memory } = graphs;
        let key = |Waiting { tokens, .. }: &Waiting| GraphKey {
            session: tokens.session,
            tokens: tokens.tokens.len(),
            reach: tokens.reach,
        };
        let of: Vec<GraphKey> = next.iter().map(key).collect();
        let built = match pass.take_if(|(before, _)| *before == of) {
            Some(same) => same,
            None => {
                *pass = None;
                let rows = |waiting: &Waiting| (waiting.tokens.tokens.len(), waiting.tokens.rows.clone());
                let texts: Vec<(usize, Vec<LayerRows>)> = next.iter().map(rows).collect();
                (of, Pass::new(self.forward.batch_graphs(&texts), memory)?)
            }
        };
        Ok(&pass.insert(built).1)
    }

    fn lock(&self) -> MutexGuard<'_, BatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BatchState {
    /// In how much time something is to be computed; zero for now. `None` where nothing waits, or something is computed.
    fn due(&self) -> Option<Duration> {
        let first = self.waiting.first().filter(|_| !self.is_computing)?;
        if first.is_alone || self.waiting.len() >= self.writing {
            return Some(Duration::ZERO);
        }
        let patience = (self.last / 2).clamp(self.patience.0, self.patience.1);
        // Those whose tokens were computed last need time to submit the next.
        Some(patience.saturating_sub(first.since.max(self.idle).elapsed()))
    }

    /// The tickets of what is to be computed next, in the order of their sessions.
    fn next(&self) -> Vec<u64> {
        let mut tokens = 0;
        let mut next = Vec::new();
        for waiting in &self.waiting {
            tokens += waiting.tokens.tokens.len();
            let is_first = next.is_empty();
            if !is_first && (waiting.is_alone || tokens > MAX_TOKENS) {
                break;
            }
            next.push((waiting.tokens.session, waiting.ticket));
            if waiting.is_alone {
                break;
            }
        }
        next.sort_unstable();
        next.into_iter().map(|(_, ticket)| ticket).collect()
    }

    /// Takes these out of what waits. They are computed now.
    fn take(&mut self, tickets: &[u64]) -> Vec<Waiting> {
        self.is_computing = true;
        let place = |ticket: u64| tickets.iter().position(|other| *other == ticket);
        let mut taken: Vec<Waiting> =
            self.waiting.extract_if(.., |waiting| place(waiting.ticket).is_some()).collect();
        taken.sort_by_key(|waiting| place(waiting.ticket));
        taken
    }
}

/// What is computed now. It ends when this is dropped, whatever has happened.
struct Computation<'a> {
    batch: &'a Batch,
    next: Vec<Waiting>,
    started: Instant,
    is_begun: bool,
    /// Of each; `None` where each computes alone.
    results: Option<Vec<Logits>>,
}

impl Drop for Computation<'_> {
    fn drop(&mut self) {
        let mut state = self.batch.lock();
        (state.is_computing, state.idle) = (false, Instant::now());
        state.last = self.started.elapsed();
        let next = std::mem::take(&mut self.next);
        match self.results.take() {
            Some(results) => {
                state.done.extend(next.into_iter().map(|waiting| waiting.ticket).zip(results));
            }
            // Steps may be done once only.
            None if self.is_begun && thread::panicking() => {
                let reason = "the thread that computed it has panicked";
                let failed = || Err(EngineError::Batch { reason: reason.into(), hint: None });
                state.done.extend(next.into_iter().map(|waiting| (waiting.ticket, failed())));
            }
            None => {
                // Another try would most likely fail as well, and take time.
                state.alone_until = Some(Instant::now() + ALONE);
                let alone = next.into_iter().map(|waiting| Waiting { is_alone: true, ..waiting });
                state.waiting.splice(0..0, alone);
            }
        }
        drop(state);
        self.batch.changed.notify_all();
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut state = self.batch.lock();
        state.waiting.retain(|waiting| waiting.ticket != self.ticket);
        state.done.retain(|(ticket, _)| *ticket != self.ticket);
        drop(state);
        self.batch.changed.notify_all();
    }
}

impl<'a> Alone<'a> {
    fn new(batch: &'a Batch) -> Alone<'a> {
        Alone { batch, elapsed: Duration::ZERO }
    }

    /// Computes, when the gate allows it. `None` where it does not.
    pub(in crate::session) fn compute<T>(&mut self, work: impl FnOnce() -> T) -> Option<T> {
        let (mut work, mut result, mut elapsed) = (Some(work), None, Duration::ZERO);
        (self.batch.gate)(&mut || {
            if let Some(work) = work.take() {
                let started = Instant::now();
                result = Some(work());
                elapsed = started.elapsed();
            }
        });
        self.elapsed = elapsed;
        result
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        let mut state = self.batch.lock();
        (state.is_computing, state.idle, state.last) = (false, Instant::now(), self.elapsed);
        drop(state);
        self.batch.changed.notify_all();
    }
}

/// The error of a computation, for each of those who took part.
fn copy(error: &EngineError) -> EngineError {
    match error {
        EngineError::Compute(error) => EngineError::Compute(error.clone()),
        EngineError::NotFinite { .. } => EngineError::NotFinite { origin: None },
        other => EngineError::Batch { reason: other.to_string(), hint: other.hint() },
    }
}
