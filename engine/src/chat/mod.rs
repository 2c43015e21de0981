//! A conversation: documents, questions and answers over one [`Session`].
//!
//! The timeline of tokens only grows while the chat template allows it: answers are never tokenised again,
//! and what was read stays in the (possibly compressed) store. Documents and questions never become control
//! tokens (see [`models::chat::Prompt`]).

mod cached_documents;
mod changes;
mod document_cache;
mod documents;
mod file;
mod preamble;
mod reading_file;
mod saved;
pub mod sources;
mod unanswered;

use std::collections::BTreeMap;
use std::ops::{Add, ControlFlow};
use std::time::{Duration, Instant};

pub use cached_documents::{CachedContents, CachedDocuments};
pub use document_cache::DocumentCache;
pub use documents::DocumentReading;
use documents::{Ahead, Attachment};
pub use file::ChatFile;
use ggml::InterruptFlag;
use models::chat::Message;
pub use preamble::Preamble;
pub use saved::SavedChat;
use serde::{Deserialize, Serialize};
use sources::Sources;

use crate::model::ChatFormat;
use crate::session::generate::constraint::Constraint;
use crate::session::generate::sampler::{Sampler, SamplerOptions};
use crate::session::generate::{Begun, GenerateOptions, Generated, Piece, Stop, go_on};
use crate::session::text::begun_thinking;
use crate::session::{common_prefix, snapshot};
use crate::{EngineError, Hint, Progress, Session, SessionOptions, setup};

/// How a conversation begins and how it is answered.
///
/// ```
/// use longhand::ChatOptions;
/// use longhand::generation::SamplerOptions;
///
/// let sampling = SamplerOptions { temperature: 0.7, seed: 1, ..SamplerOptions::default() };
/// let options = ChatOptions { sampling, answer_limit: Some(200), ..ChatOptions::default() };
/// assert!(options.preamble.documents().is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct ChatOptions {
    /// System message, and the documents that the first question is about; they are read together with that
    /// question.
    pub preamble: Preamble,
    /// How tokens are sampled.
    pub sampling: SamplerOptions,
    /// Most tokens of an answer; `None` for no limit but the context.
    pub answer_limit: Option<usize>,
    /// Whether the model thinks before it answers; `None` where its chat template decides.
    pub thinking: Option<bool>,
}

impl Default for ChatOptions {
    fn default() -> Self {
        ChatOptions {
            preamble: Preamble::default(),
            sampling: SamplerOptions::greedy(),
            answer_limit: Some(1024),
            thinking: None,
        }
    }
}

/// The cost of reading a question.
///
/// ```
/// let reading = longhand::reading::Reading::default();
/// assert_eq!((reading.tokens, reading.elapsed.as_secs()), (0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Tokens that were computed.
    pub tokens: usize,
    /// Time for them.
    pub elapsed: Duration,
}

impl Reading {
    /// Brings a session to these tokens, as [`Session::sync`].
    fn of(
        session: &mut Session,
        tokens: &[u32],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Reading, EngineError> {
        let started = Instant::now();
        let tokens = session.sync(tokens, progress)?;
        Ok(Reading { tokens, elapsed: started.elapsed() })
    }
}

impl Reading {
    /// The cost of reading documents; what was found in a cache was not computed.
    fn of_documents(reading: &DocumentReading) -> Reading {
        Reading { tokens: if reading.found { 0 } else { reading.tokens }, elapsed: reading.elapsed }
    }
}

impl Add for Reading {
    type Output = Reading;

    fn add(self, other: Reading) -> Reading {
        Reading { tokens: self.tokens + other.tokens, elapsed: self.elapsed + other.elapsed }
    }
}

/// A conversation with a model.
///
/// ```
/// use longhand::{Chat, ChatOptions, Model, ModelSource, Preamble, Setup, SetupOptions};
///
/// let model = Model::open(ModelSource::Embedded)?;
/// let preamble = Preamble::new(model.chat_format()?, None, "Mary's favorite number is 34251.")?;
/// let setup = Setup::resolve(&model, &SetupOptions::default(), preamble.min_tokens(), &mut ())?;
/// let mut chat = Chat::new(setup.start(&mut ())?, ChatOptions { preamble, ..ChatOptions::default() })?;
/// let answer = chat.ask("What is Mary's favorite number?", &mut |_| ())?;
/// assert_eq!(answer.text.trim(), "Mary's favorite number is 34251.");
/// # Ok::<(), longhand::EngineError>(())
/// ```
pub struct Chat {
    session: Session,
    format: ChatFormat,
    sampler: Sampler,
    answer_limit: Option<usize>,
    /// The shape of the next answers.
    constraint: Option<Constraint>,
    preamble: Preamble,
    messages: Vec<Message>,
    /// Everything the model has read and written so far.
    timeline: Vec<u32>,
    turns: Vec<Turn>,
    /// Documents that were added after the first question.
    attachments: Vec<Attachment>,
    ahead: Option<Ahead>,
    /// What [`Chat::set_settings`] was told.
    settings: BTreeMap<String, String>,
    /// Whether the model is told to think; `None` where its chat template decides.
    thinking: Option<bool>,
    /// The conversation that a summary has replaced.
    compacted: Option<Box<changes::Compacted>>,
}

/// Where a question and its answer begin in the timeline, in tokens.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    /// Where the timeline changes with the question.
    question: usize,
    /// Start of its answer.
    answer: usize,
    /// What was in the timeline before the question, from there on. Chat templates drop the thinking of earlier
    /// answers, for example.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    replaced: Vec<u32>,
    /// Whether the answer was cut off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_cut_off: bool,
    /// The model that answered, where it is not the session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Where the answer comes from, where that was found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sources: Option<Sources>,
}

impl Chat {
    /// An empty conversation over an empty session.
    ///
    /// # Errors
    /// Where the model's file has no usable tokenizer or chat template, the template cannot switch thinking and
    /// is told to, or a sampling option makes no sense.
    pub fn new(session: Session, options: ChatOptions) -> Result<Chat, EngineError> {
        let format = session.engine().model().chat_format()?;
        let format =
            options.thinking.map_or_else(|| Ok(format.clone()), |thinks| format.with_thinking(thinks))?;
        let sampler = Sampler::for_model(options.sampling, session.engine().spec().n_vocab)?;
        Ok(Chat {
            session,
            format,
            sampler,
            answer_limit: options.answer_limit,
            constraint: None,
            messages: options.preamble.system().map(Message::system).into_iter().collect(),
            preamble: options.preamble,
            timeline: Vec::new(),
            turns: Vec::new(),
            attachments: Vec::new(),
            ahead: None,
            settings: BTreeMap::new(),
            thinking: options.thinking,
            compacted: None,
        })
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Gives back what the session was promised and has not taken: another one is to take its place.
    pub fn release_reservations(&mut self) {
        self.session.reservations.clear();
    }

    /// The session, when the conversation is over.
    pub fn into_session(self) -> Session {
        self.session
    }

    /// Roles and texts so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Tokens of the conversation so far.
    pub fn tokens(&self) -> usize {
        self.timeline.len()
    }

    /// Tokens of the context that the conversation takes. The last token of an answer is computed together with what
    /// follows: where the context is full, it has no room and is not among them.
    pub fn context_used(&self) -> usize {
        self.timeline.len().min(self.session.options().context)
    }

    /// Whether a question was read and not undone.
    pub fn has_questions(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Whether the most likely token is always chosen: another answer to the same question is then the same.
    pub fn is_greedy(&self) -> bool {
        self.sampler.options().temperature == 0.0
    }

    /// Whether the last question has no answer.
    pub fn awaits_answer(&self) -> bool {
        self.has_questions() && self.messages.last().is_some_and(|last| last.role == "user")
    }

    /// Whether the model has answered.
    pub fn has_answers(&self) -> bool {
        self.messages.iter().any(|message| message.role == "assistant")
    }

    /// Whether the last answer was cut off, so that [`Chat::continue_answer`] can go on with it.
    pub fn can_continue(&self) -> bool {
        self.turns.last().is_some_and(|turn| turn.is_cut_off) && !self.awaits_answer()
    }

    /// The questions, without the documents, and their answers. The last question may have none.
    pub fn conversation(&self) -> Vec<(&str, Option<&str>)> {
        let messages = self.messages.iter().map(|message| (message.role.as_str(), message.content.as_str()));
        saved::turns(messages, self.preamble.documents(), &self.attachments)
    }

    /// What the conversation begins with.
    pub fn preamble(&self) -> &Preamble {
        &self.preamble
    }

    /// Lets the model think before its next answers, or not.
    ///
    /// # Errors
    /// Where its chat template knows no switch for it.
    pub fn set_thinking(&mut self, thinks: bool) -> Result<(), EngineError> {
        (self.format, self.ahead) = (self.format.with_thinking(thinks)?, None);
        self.thinking = Some(thinks);
        Ok(())
    }

    /// Has this flag stop reading and answering from now on: see [`Session::set_interrupt`].
    pub fn set_interrupt(&mut self, interrupt: &InterruptFlag) {
        self.session.set_interrupt(interrupt);
    }

    /// Gives the conversation room for `context` tokens. What was read is kept, except layers of a first text whose
    /// reading was interrupted. Where heads keep shares of the context, the whole conversation is read again.
    ///
    /// # Errors
    /// Where the conversation is longer, there is no memory for the old and the new KV store at once, or reading fails
    /// or is interrupted. The conversation is as it was.
    pub fn set_context(
        &mut self,
        context: usize,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Reading, EngineError> {
        let needed = self.timeline.len().max(self.session.tokens().len());
        if needed > context {
            return Err(EngineError::ContextFull { needed, context });
        }
        let options = SessionOptions { context, ..self.session.options().clone() };
        if self.rereads_in(context) {
            setup::fit_instead_of(&self.session, options.clone(), None, self.timeline.len())?;
            let session =
                Session::new(self.session.engine(), options)?.with_interrupt(self.session.interrupt());
            return self.move_to(session, progress);
        }
        setup::fit_instead_of(&self.session, options, None, 0)?;
        self.session.make_way_for(snapshot::in_context(&self.session, context)?);
        self.ahead = None;
        Ok(Reading::default())
    }

    /// Whether [`Chat::set_context`] reads the conversation again.
    pub fn rereads_in(&self, context: usize) -> bool {
        let options = self.session.options();
        context != options.context && options.policy.uses_shares() && !self.session.tokens().is_empty()
    }

    /// Reads a question and answers it. `on_text` gets the answer piece by piece.
    pub fn ask(&mut self, question: &str, on_text: &mut dyn FnMut(&str)) -> Result<Generated, EngineError> {
        self.read(question, &mut |_| ())?;
        self.answer(&mut |piece| {
            on_text(piece);
            ControlFlow::Continue(())
        })
    }

    /// Lets the model read a question, up to where its answer begins, together with documents that are not read yet. If
    /// that fails or is interrupted, the conversation is as it was before; the session keeps the chunks that were
    /// complete, so that asking again goes on from there.
    ///
    /// Questions before it that have no answer stay as they are. The chat template gets them and this one as one message,
    /// as it may demand that roles alternate.
    pub fn read(
        &mut self,
        question: &str,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Reading, EngineError> {
        self.messages.push(Message::user(self.next_text(question)));
        let read = self.next_tokens().and_then(|tokens| self.read_tokens(tokens, progress));
        if read.is_err() {
            self.messages.pop();
        }
        read
    }

    fn read_tokens(
        &mut self,
        tokens: Vec<u32>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Reading, EngineError> {
        let reading = Reading::of(&mut self.session, &tokens, progress)?;
        let known = common_prefix(&tokens, &self.timeline);
        tokens[known..].iter().for_each(|token| self.sampler.accept(*token));
        let replaced = self.timeline.split_off(known);
        let was_rewritten = !replaced.is_empty();
        let (question, answer) = (known, tokens.len());
        self.turns.push(Turn { question, answer, replaced, ..Turn::default() });
        self.timeline = tokens;
        if was_rewritten {
            // What was replaced no longer counts for penalties.
            self.go_back(usize::MAX);
        }
        Ok(reading)
    }

    /// Generates the answer to what was read last. `on_text` gets it piece by piece, without white space at
    /// its beginning, and stops it by returning [`ControlFlow::Break`].
    ///
    /// # Errors
    /// If there is no question that waits for an answer, or the computation fails.
    pub fn answer(
        &mut self,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generated, EngineError> {
        if !self.awaits_answer() {
            return Err(EngineError::Setting {
                what: "an answer".into(),
                reason: "no question waits for one".into(),
                hint: Hint::advice("read a question first"),
            });
        }
        // Computes nothing, unless going back to the question was interrupted.
        self.session.sync(&self.timeline, &mut |_| ())?;
        let generated = self.generate(None, on_text)?;
        self.messages.push(Message::assistant(generated.text.as_str()));
        Ok(generated)
    }

    /// Goes on with the last answer, which was cut off: by its limit, by the context, or by the caller. The limit
    /// counts anew. The answer becomes what it would have been without the cut. `on_text` gets what is new as
    /// [`Chat::answer`] gives it; the result has the whole answer, but only the steps and the time of this part.
    ///
    /// # Errors
    /// If the last answer was not cut off, or the computation fails.
    pub fn continue_answer(
        &mut self,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generated, EngineError> {
        if !self.can_continue() {
            return Err(EngineError::Setting {
                what: "the continuation of an answer".into(),
                reason: "no answer was cut off".into(),
                hint: Hint::advice("ask a question"),
            });
        }
        self.return_to_answer(&mut |_| ())?;
        let unread = self.unread();
        let generated = self.generate(unread, on_text)?;
        if let Some(answer) = self.messages.last_mut() {
            answer.content.clone_from(&generated.text);
        }
        Ok(generated)
    }

    /// Brings the session to where the last answer stands. It is there already, unless a later turn was undone.
    pub fn return_to_answer(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Reading, EngineError> {
        match self.unread() {
            Some(_) => Ok(Reading::default()),
            None => Reading::of(&mut self.session, &self.timeline, progress),
        }
    }

    /// The last token of the timeline, if the session lacks it and nothing else: the last token of an answer is
    /// computed together with what follows.
    fn unread(&self) -> Option<u32> {
        let (last, before) = self.timeline.split_last()?;
        (self.session.tokens() == before).then_some(*last)
    }

    /// Generates the last answer from where it stands, and appends it to the timeline. `unread`: its last token, if
    /// the session lacks it.
    fn generate(
        &mut self,
        unread: Option<u32>,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generated, EngineError> {
        let start = self.turns.last().map_or(self.timeline.len(), |turn| turn.answer);
        let (prompt, tokens) = self.timeline.split_at(start);
        let stops = self.format.template().stop_strings().iter().map(|stop| (*stop).to_owned()).collect();
        let opening = begun_thinking(prompt, self.format.tokenizer()).opening;
        let mut is_begun = !tokens.is_empty();
        if !is_begun && !opening.is_empty() {
            // Whether the caller wants more is asked with the next piece.
            let _ = on_text(&opening);
        }
        let mut on_piece = |piece: Piece| {
            let text = if is_begun { piece.text } else { piece.text.trim_start() };
            is_begun |= !text.is_empty();
            on_text(text)
        };
        let limit = self.answer_limit.map_or(usize::MAX, |limit| limit.saturating_add(tokens.len()));
        let constraint = self.constraint.clone();
        let options = GenerateOptions { stops, limit, constraint, ..GenerateOptions::default() };
        let begun = Begun { tokens, unread };
        let (tokenizer, sampler) = (self.format.tokenizer(), &mut self.sampler);
        let mut generated = go_on(&mut self.session, tokenizer, sampler, &options, begun, &mut on_piece)?;
        generated.text.insert_str(0, &opening);
        // The tokens of a stop sequence are not part of the answer; where rows were evicted they cannot be
        // taken back.
        let end = start + generated.kept;
        let stopped = matches!(generated.stop, Stop::Text(_)) && self.session.can_truncate_to(end);
        let kept = if stopped { generated.kept } else { generated.tokens.len() };
        self.timeline.truncate(start);
        self.timeline.extend_from_slice(&generated.tokens[..kept]);
        if let Some(turn) = self.turns.last_mut() {
            turn.is_cut_off = matches!(generated.stop, Stop::Length | Stop::Context | Stop::Interrupted);
            (turn.model, turn.sources) = (None, None);
        }
        Ok(generated)
    }

    /// Takes the last answer back and brings the session to where another can be generated with
    /// [`Chat::answer`]: to exactly the state it was in, unless too many rows were evicted since. `None`
    /// where there is no answer to take back.
    ///
    /// # Errors
    /// Where reading fails or is interrupted. The conversation is as it was; what the session has lost of it is read
    /// again with what comes next.
    pub fn retract_answer(
        &mut self,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<Reading>, EngineError> {
        let before = (self.messages.clone(), self.timeline.clone());
        if !self.drop_answer() {
            return Ok(None);
        }
        let read = Reading::of(&mut self.session, &self.timeline, progress);
        if read.is_err() {
            (self.messages, self.timeline) = before;
            self.go_back(usize::MAX);
        } else if let Some(turn) = self.turns.last_mut() {
            turn.sources = None;
        }
        read.map(Some)
    }

    /// Takes the last question and its answer back. Its documents stay, for the next question. Where they are a summary of
    /// [`Chat::compact`], the conversation before it comes back. False where there is no question.
    pub fn undo(&mut self) -> bool {
        if self.bring_back_compacted() {
            return true;
        }
        let was_undone = self.take_back();
        self.keep_documents();
        was_undone
    }

    /// As [`Chat::undo`], but leaves documents at their turns.
    fn take_back(&mut self) -> bool {
        self.drop_answer();
        self.ahead = None;
        match self.turns.pop() {
            Some(turn) => {
                self.messages.pop();
                self.timeline.truncate(turn.question);
                self.timeline.extend(turn.replaced);
                self.go_back(usize::MAX);
                true
            }
            None => false,
        }
    }

    /// Starts a new conversation about the same documents. The session keeps its rows: where the next text
    /// begins as this one did, they are used again.
    pub fn clear(&mut self) {
        self.begin_with_all_documents();
        self.compacted = None;
        self.messages.retain(|message| message.role == "system");
        self.timeline.clear();
        self.turns.clear();
        self.sampler.reset();
    }

    fn drop_answer(&mut self) -> bool {
        match self.turns.last() {
            Some(turn) if self.messages.last().is_some_and(|last| last.role == "assistant") => {
                let answer = turn.answer;
                self.ahead = None;
                self.messages.pop();
                self.go_back(answer);
                true
            }
            _ => false,
        }
    }

    fn go_back(&mut self, tokens: usize) {
        self.timeline.truncate(tokens);
        self.sampler.clear_recent();
        self.timeline.iter().for_each(|token| self.sampler.accept(*token));
    }
}

/// Whether what follows the first `tokens` tokens can be read anew without reading them again.
fn can_go_back_to(session: &Session, tokens: usize) -> bool {
    session.can_truncate_to(tokens) || session.can_return_to(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, EngineOptions, ModelSource, SessionOptions};

    #[test]
    fn answers_need_a_question_and_survive_an_interrupted_retraction() {
        let engine = Engine::open(&ModelSource::Embedded, &EngineOptions::default()).expect("embedded model");
        let session = Session::new(&engine, SessionOptions::default()).expect("a session");
        let mut chat = Chat::new(session, ChatOptions::default()).expect("a chat");
        let ignore = &mut |_: &str| ControlFlow::Continue(());
        chat.answer(ignore).expect_err("nothing was asked");
        let question = "Mary's favorite number is 34251. What is Mary's favorite number?";
        let first = chat.ask(question, &mut |_| ()).expect("an answer").text;
        chat.answer(ignore).expect_err("the question is answered");
        // The session lost its place, so that retracting reads the text again, which is interrupted.
        chat.session.clear().expect("an empty session");
        chat.session.interrupt().set();
        let before = (chat.messages().to_vec(), chat.timeline.clone());
        assert!(chat.retract_answer(&mut |_| ()).expect_err("an interrupt").is_interrupt());
        assert!(before == (chat.messages().to_vec(), chat.timeline.clone()), "the answer is still there");
        chat.session.interrupt().clear();
        chat.retract_answer(&mut |_| ()).expect("the question").expect("an answer");
        assert_eq!(chat.answer(ignore).expect("an answer").text, first);
    }
}
