//! Turns of a conversation over one session: what the model has to read next, and its answer.
//!
//! The timeline of tokens only ever grows while the template allows it: answers are never tokenised again, and what was read stays
//! in the (possibly compressed) store. Documents and questions cannot contain control tokens (see [`models::chat::Prompt`]).

use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::Result;
use engine::Session;
use engine::generate::{Generated, Stop, generate};
use models::chat::{Message, NextTurn};
use models::tokenizer::Tokenizer;
use serde::{Deserialize, Serialize};

use crate::args::App;
use crate::args::sampling::Sampling;
use crate::failure::Failure;
use crate::model::Model;
use crate::progress::ProgressBar;
use crate::rescue;

/// A conversation with a model.
pub struct Conversation<'m> {
    model: &'m Model,
    session: Session<'m>,
    sampling: Sampling,
    messages: Vec<Message>,
    /// What the model has read or said so far.
    timeline: Vec<u32>,
    /// How long the timeline was before each question and before its answer.
    turns: Vec<(usize, usize)>,
}

/// A conversation without its session.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Roles and texts.
    messages: Vec<(String, String)>,
    timeline: Vec<u32>,
    turns: Vec<(usize, usize)>,
}

impl Record {
    /// The system message it began with.
    pub fn system(&self) -> Option<&str> {
        let (role, content) = self.messages.first()?;
        (role == "system").then_some(content)
    }
}

/// What reading a turn took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Tokens that were computed.
    pub tokens: usize,
    /// Time for them.
    pub elapsed: Duration,
}

impl<'m> Conversation<'m> {
    /// An empty conversation, or one that begins with a system message.
    pub fn new(model: &'m Model, session: Session<'m>, sampling: Sampling, system: Option<&str>) -> Self {
        let messages = system.map(Message::system).into_iter().collect();
        Conversation { model, session, sampling, messages, timeline: Vec::new(), turns: Vec::new() }
    }

    /// What [`Conversation::resume`] needs beside the session.
    pub fn record(&self) -> Record {
        let messages = self.messages.iter().map(|message| (message.role.clone(), message.content.clone()));
        Record { messages: messages.collect(), timeline: self.timeline.clone(), turns: self.turns.clone() }
    }

    /// The conversation of a kept session and its record; `None` where the record is not one of a conversation with this model.
    pub fn resume(
        model: &'m Model,
        session: Session<'m>,
        sampling: Sampling,
        record: Record,
    ) -> Option<Self> {
        let Record { messages, timeline, turns } = record;
        let vocabulary = model.engine.spec().n_vocab;
        let roles = messages.iter().map(|(role, _)| role.as_str()).skip_while(|role| *role == "system");
        let (said, expected) = (roles.collect::<Vec<_>>(), ["user", "assistant"].repeat(turns.len()));
        // The last answer may have failed. Where turns began needs no check: to go back farther than there is text does nothing.
        if !expected.starts_with(&said)
            || said.len() + 1 < expected.len()
            || timeline.iter().any(|token| *token as usize >= vocabulary)
        {
            return None;
        }
        let messages = messages.into_iter().map(|(role, content)| Message { role, content }).collect();
        let mut conversation = Conversation { model, session, sampling, messages, timeline, turns };
        conversation.go_back(usize::MAX);
        rescue::remember(&conversation.messages);
        Some(conversation)
    }

    /// Tokens of the conversation so far.
    pub fn tokens(&self) -> usize {
        self.timeline.len()
    }

    /// The session.
    pub fn session(&self) -> &Session<'m> {
        &self.session
    }

    /// Whether the model has said anything yet.
    pub fn has_answers(&self) -> bool {
        self.messages.iter().any(|message| message.role == "assistant")
    }

    /// Whether the user has asked anything that is not taken back.
    pub fn has_questions(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Begins anew. The session keeps its rows for now: where the next text begins like this one, they are used again.
    pub fn clear(&mut self) {
        self.messages.retain(|message| message.role == "system");
        self.timeline.clear();
        self.turns.clear();
        self.sampling.sampler.reset();
    }

    /// Takes the last answer back; [`Conversation::read_again`] has to follow before another is given. False where there is
    /// none.
    pub fn take_answer_back(&mut self) -> bool {
        match self.turns.last() {
            Some((_, asked)) if self.messages.last().is_some_and(|last| last.role == "assistant") => {
                self.messages.pop();
                self.go_back(*asked);
                true
            }
            _ => false,
        }
    }

    /// Takes the last question back, and its answer. False where there is none.
    pub fn take_turn_back(&mut self) -> bool {
        self.take_answer_back();
        match self.turns.pop() {
            Some((before, _)) => {
                self.messages.pop();
                self.go_back(before);
                true
            }
            None => false,
        }
    }

    fn go_back(&mut self, tokens: usize) {
        self.timeline.truncate(tokens);
        self.sampling.sampler.clear_recent();
        self.timeline.iter().for_each(|token| self.sampling.sampler.accept(*token));
    }

    /// Brings the session to the end of the timeline, from where another answer can be given: exactly to where it was, unless
    /// too much has left since.
    pub fn read_again(&mut self, app: &App) -> Result<Reading> {
        let started = Instant::now();
        let mut bar = ProgressBar::new(&app.console, "reading");
        let (session, tokens) = (&mut self.session, &self.timeline);
        let computed =
            app.interrupt.reading(|| session.sync(tokens, &mut |progress| bar.reading(progress)))?;
        Ok(Reading { tokens: computed, elapsed: started.elapsed() })
    }

    /// Lets the model read what the user says, up to where its answer begins. If that fails or is interrupted, the
    /// conversation is as it was before.
    pub fn read(&mut self, app: &App, user: String) -> Result<Reading> {
        self.messages.push(Message::user(user));
        rescue::remember(&self.messages);
        let read = self.read_last(app);
        if read.is_err() {
            self.messages.pop();
        }
        read
    }

    fn read_last(&mut self, app: &App) -> Result<Reading> {
        let tokens = self.next_tokens()?;
        let started = Instant::now();
        let mut bar = ProgressBar::new(&app.console, "reading");
        let session = &mut self.session;
        let computed =
            app.interrupt.reading(|| session.sync(&tokens, &mut |progress| bar.reading(progress)))?;
        let told = tokens.iter().zip(&self.timeline).take_while(|(a, b)| a == b).count();
        tokens[told..].iter().for_each(|token| self.sampling.sampler.accept(*token));
        self.turns.push((self.timeline.len(), tokens.len()));
        self.timeline = tokens;
        Ok(Reading { tokens: computed, elapsed: started.elapsed() })
    }

    /// The whole timeline up to where the next answer begins.
    fn next_tokens(&self) -> Result<Vec<u32>> {
        if !self.has_answers() {
            return Ok(self.model.prompt(&self.messages)?);
        }
        let suffix = match self.model.next_turn(&self.messages)? {
            NextTurn::Extends(suffix) => suffix,
            NextTurn::Rewrites { prompt, suffix, .. } => {
                let whole = self.model.encode(&prompt)?;
                let held = self.session.tokens();
                let common = whole.iter().zip(held).take_while(|(a, b)| a == b).count();
                match suffix {
                    // Where rows have left, following the template to the letter would mean to read everything again.
                    Some(suffix) if common < held.len() && !self.session.store().can_truncate(common) => {
                        suffix
                    }
                    _ => return Ok(whole),
                }
            }
        };
        let mut tokens = self.timeline.clone();
        tokens.extend(self.model.encode(&suffix)?);
        Ok(tokens)
    }

    /// The session, when nothing more is said.
    pub fn into_session(self) -> Session<'m> {
        self.session
    }

    /// Generates the answer to what was read last. `on_text` gets it piece by piece, without the white space before it.
    pub fn answer(
        &mut self,
        app: &App,
        on_text: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> Result<Generated> {
        let stops: Vec<String> =
            self.model.template.stop_strings().iter().map(|stop| (*stop).to_owned()).collect();
        let mut failed = None;
        let mut begun = false;
        let mut on_token = |piece: &str| {
            let piece = if begun { piece } else { piece.trim_start() };
            begun |= !piece.is_empty();
            rescue::append(piece);
            if !piece.is_empty()
                && let Err(error) = on_text(piece)
            {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            if app.interrupt.is_pressed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let limit = self.sampling.limit.unwrap_or(usize::MAX);
        let (session, sampler) = (&mut self.session, &mut self.sampling.sampler);
        let generated = app
            .interrupt
            .generating(|| generate(session, &self.model.tokenizer, sampler, &stops, limit, &mut on_token))?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        // The tokens of a stop sequence are not part of the answer; where rows have left they cannot be taken back.
        let end = self.timeline.len() + generated.kept;
        let stopped = matches!(generated.stop, Stop::Text(_)) && self.session.store().can_truncate(end);
        let kept = if stopped { generated.kept } else { generated.tokens.len() };
        self.timeline.extend_from_slice(&generated.tokens[..kept]);
        self.messages.push(Message::assistant(generated.text.as_str()));
        rescue::remember(&self.messages);
        Ok(generated)
    }
}

/// How many tokens a conversation will need: the first prompt, and for every later question its tokens, room for what the
/// template writes around a turn, and the answers.
pub fn needed_context(tokenizer: &Tokenizer, first: usize, later: &[String], answer: usize) -> Result<usize> {
    /// No template known writes more around a turn.
    const AROUND: usize = 64;
    let answer = answer.max(1); // an answer of no tokens still needs a place to begin
    let mut needed = first.saturating_add(answer);
    for question in later {
        let tokens = tokenizer.encode(question, false, false).map_err(Failure::from)?.len();
        needed = needed.saturating_add(tokens + AROUND).saturating_add(answer);
    }
    Ok(needed)
}
