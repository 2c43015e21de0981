//! The conversations of a server. There are as many sessions as were planned; each holds the conversation that it has answered
//! last. A request goes to the idle session that keeps most of its text and loses least of its own, and waits where all are
//! at work.
//!
//! `library` has the documents that clients have sent. `prompt` makes tokens of messages, and `work` answers one request in a
//! session; `sources` says where in the documents an answer comes from. `turns` says who computes next,
//! `readings` what is read now, and `counts` what was done so far.

mod counts;
mod library;
mod prompt;
mod readings;
mod sources;
mod turns;
mod work;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use longhand::generation::Batch;
use longhand::saved::DocumentCache;
use longhand::tools::ToolFormat;
use longhand::{ChatFormat, EngineError, InterruptFlag, Message, Model, Preamble, Session};
use thiserror::Error;

pub(crate) use self::counts::Counts;
pub use self::library::Documents;
pub(crate) use self::library::{Library, ReadingState, Stored};
use self::prompt::Preambles;
pub(crate) use self::prompt::Rendered;
use self::readings::Readings;
pub(crate) use self::sources::{AnswerSources, SourceSearch};
use self::turns::Turns;
use self::work::Conversation;
pub(crate) use self::work::{Answer, CallReader, Event, Request, Text, Wanted, Work};

/// What a service is made with.
pub struct ServiceOptions {
    /// The name under which the model answers.
    pub name: String,
    /// Documents that every conversation is about, unless a request says otherwise.
    pub documents: Arc<Documents>,
    /// How many requests may wait for a session.
    pub max_waiting: usize,
    /// Where texts are kept that took long to read.
    pub cache: Option<DocumentCache>,
}

/// Conversations with one model.
pub struct Service {
    model: Arc<Model>,
    format: ChatFormat,
    options: ServiceOptions,
    /// Tokens that a session has room for.
    context: usize,
    sessions: usize,
    /// Whether the sessions record what answers look at.
    records_sources: bool,
    library: Library,
    /// How the model calls functions, and the control tokens that it does so with, once that was asked.
    tool_format: OnceLock<Option<(ToolFormat, Vec<u32>)>>,
    preambles: Preambles,
    desk: Mutex<Desk>,
    /// A request has come, a session has become idle, or the service is closed.
    changed: Condvar,
    turns: Arc<Turns>,
    readings: Readings,
    counts: Counts,
}

/// Who waits, and for what.
struct Desk {
    idle: Vec<Idle>,
    waiting: VecDeque<Work>,
    /// The requests that are answered now, by number, and what stops each.
    at_work: Vec<(u64, InterruptFlag)>,
    /// How many have come.
    requests: u64,
    is_closed: bool,
}

struct Idle {
    conversation: Conversation,
    since: Instant,
}

/// Why there is no service.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// It was given no session.
    #[error("a service needs a session at least")]
    NoSessions,
    /// The system gives no threads.
    #[error("the system gives no thread for a conversation: {0}")]
    Threads(#[source] io::Error),
    /// Of the library.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Why a request is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// So many wait already.
    Busy { waiting: usize },
    /// The server is going down.
    Closing,
}

/// What the sessions do at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub at_work: usize,
    pub waiting: usize,
}

impl Service {
    /// A service over these sessions, of one engine and with the same options. Each has a thread.
    ///
    /// # Errors
    /// Where the model's file has no usable tokenizer or chat template, or the system gives no threads.
    pub fn start(mut sessions: Vec<Session>, options: ServiceOptions) -> Result<Arc<Service>, ServiceError> {
        let first = sessions.first().ok_or(ServiceError::NoSessions)?;
        let (model, context) = (first.engine().model().clone(), first.options().context);
        let format = model.chat_format()?.clone();
        let readings = Readings::new(first.keeps_beginnings());
        let records_sources = sessions.iter().all(Session::records_attention);
        let turns = Arc::new(Turns::default());
        let of_answers = turns.clone();
        Batch::join(&mut sessions, Box::new(move |compute| of_answers.compute_answers(compute)))?;
        let (count, since) = (sessions.len(), Instant::now());
        let idle = |session| Idle {
            conversation: Conversation { session, spent: Duration::ZERO, names: Vec::new() },
            since,
        };
        let idle = sessions.into_iter().map(idle).collect();
        let desk =
            Desk { idle, waiting: VecDeque::new(), at_work: Vec::new(), requests: 0, is_closed: false };
        let service = Arc::new(Service {
            library: Library::default(),
            tool_format: OnceLock::new(),
            preambles: Preambles::default(),
            desk: Mutex::new(desk),
            changed: Condvar::new(),
            turns,
            readings,
            counts: Counts::default(),
            sessions: count,
            records_sources,
            model,
            format,
            options,
            context,
        });
        for _ in 0..count {
            let worker = service.clone();
            let begun = thread::Builder::new().name("conversation".to_owned()).spawn(move || worker.work());
            begun.map_err(ServiceError::Threads).inspect_err(|_| service.close(Duration::ZERO))?;
        }
        Ok(service)
    }

    /// The model.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    pub(crate) fn format(&self) -> &ChatFormat {
        &self.format
    }

    /// The name under which the model answers.
    pub(crate) fn name(&self) -> &str {
        &self.options.name
    }

    /// Tokens that a conversation has room for.
    pub(crate) fn context(&self) -> usize {
        self.context
    }

    /// How many conversations are answered at the same time.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions
    }

    /// Whether it can be told where in the documents answers come from.
    pub(crate) fn records_sources(&self) -> bool {
        self.records_sources
    }

    pub(crate) fn documents(&self) -> &Arc<Documents> {
        &self.options.documents
    }

    /// A conversation as tokens.
    pub(crate) fn render(
        &self,
        format: &ChatFormat,
        documents: &Documents,
        messages: &[Message],
    ) -> Result<Rendered, EngineError> {
        self.preambles.render(format, documents, messages)
    }

    /// What conversations about these documents begin with.
    pub(crate) fn preamble(
        &self,
        documents: &Documents,
        system: Option<&str>,
    ) -> Result<Arc<Preamble>, EngineError> {
        self.preambles.of(&self.format, documents, system)
    }

    /// How the model calls functions, and the control tokens that it does so with; `None` where that is not known.
    pub(crate) fn tool_format(&self) -> Result<Option<&(ToolFormat, Vec<u32>)>, EngineError> {
        if let Some(known) = self.tool_format.get() {
            return Ok(known.as_ref());
        }
        let controls = |format: ToolFormat| {
            let controls = format.control_tokens(self.format.tokenizer());
            (format, controls)
        };
        let found = self.format.tool_format()?.map(controls);
        Ok(self.tool_format.get_or_init(|| found).as_ref())
    }

    pub(crate) fn library(&self) -> &Library {
        &self.library
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) fn load(&self) -> Load {
        let desk = self.lock();
        Load { at_work: desk.at_work.len(), waiting: desk.waiting.len() }
    }

    /// Takes a request. Its events come when a session answers it.
    pub(crate) fn submit(&self, work: Work) -> Result<(), Refused> {
        let mut desk = self.lock();
        if desk.is_closed {
            return Err(Refused::Closing);
        }
        // Those that have left make room.
        desk.waiting.retain(|other| !other.request.stop.is_set());
        let idle = desk.idle.len();
        if desk.waiting.len() >= idle + self.options.max_waiting {
            self.counts.refused();
            return Err(Refused::Busy { waiting: desk.waiting.len() });
        }
        desk.waiting.push_back(work);
        drop(desk);
        self.changed.notify_all();
        Ok(())
    }

    /// Answers requests, one after the other, until the service is closed.
    fn work(&self) {
        while let Some((number, mut conversation, work)) = self.next_work() {
            self.counts.began();
            // A mistake of this program costs an answer, and not the conversation's place.
            let answered = catch_unwind(AssertUnwindSafe(|| work::answer(self, &mut conversation, &work)));
            conversation.session.set_interrupt(&InterruptFlag::new());
            if answered.is_err() {
                let _ = conversation.session.clear();
            }
            let mut desk = self.lock();
            desk.at_work.retain(|(other, _)| *other != number);
            desk.idle.push(Idle { conversation, since: Instant::now() });
            drop(desk);
            if let Ok(last) = answered {
                // Where nobody listens any more, nobody needs it.
                let _ = work.events.send(last);
            }
            self.changed.notify_all();
        }
    }

    /// Waits for a request. `None` when the service is closed.
    fn next_work(&self) -> Option<(u64, Conversation, Work)> {
        let mut desk = self.lock();
        loop {
            if desk.is_closed {
                return None;
            }
            desk.waiting.retain(|work| !work.request.stop.is_set());
            if !desk.idle.is_empty()
                && let Some(work) = desk.waiting.pop_front()
            {
                let conversation = desk.take_idle(&work.request);
                desk.requests += 1;
                let number = desk.requests;
                desk.at_work.push((number, work.request.stop.clone()));
                return Some((number, conversation, work));
            }
            desk = self.changed.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes no requests any more and stops those at work. Returns when they have ended, or after so long. Conversations that
    /// took long to read are kept on the disk.
    pub fn close(&self, patience: Duration) {
        let mut desk = self.lock();
        desk.is_closed = true;
        for work in desk.waiting.drain(..) {
            work.request.stop.set();
            let _ = work.events.send(Event::stopped(&work.request.stop));
        }
        desk.at_work.iter().for_each(|(_, stop)| stop.set());
        self.changed.notify_all();
        let until = Instant::now() + patience;
        while !desk.at_work.is_empty() && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            desk = self.changed.wait_timeout(desk, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let idle = std::mem::take(&mut desk.idle);
        drop(desk);
        idle.iter().for_each(|idle| idle.conversation.keep(self.options.cache.as_ref()));
    }

    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    /// The idle session that keeps most of a request's text and loses least of its own; of equal ones, the one that was
    /// idle for longest.
    fn take_idle(&mut self, request: &Request) -> Conversation {
        let gain = |idle: &Idle| {
            let session = &idle.conversation.session;
            if request.wanted.scores {
                // It is read anew. What is half read is lost, too.
                let is_reading = session.first_text_share().is_some();
                return -(if is_reading { session.options().context } else { session.tokens().len() }
                    as isize);
            }
            // Of the text, and in all. A session has tokens or a half-read text, never both.
            let kept = session.kept_of(&request.text.tokens) + session.begun_of(&request.text.tokens);
            let held = session.tokens().len() + session.half_read();
            match request.ends().find(|end| session.is_reading(&request.text.tokens[..*end])) {
                // A reading that was stopped goes on.
                Some(end) => end as isize,
                // The rest is lost.
                None => 2 * kept as isize - held as isize,
            }
        };
        let best =
            (0..self.idle.len()).max_by_key(|at| (gain(&self.idle[*at]), Reverse(self.idle[*at].since)));
        self.idle.swap_remove(best.unwrap_or(0)).conversation
    }
}
