//! The documents of a conversation: those it begins with, and those that are added before a later question.
//!
//! Documents are read before the question that follows them is known, so that one can read them while the user types.
//! No token reaches from the documents into the question.

use std::time::{Duration, Instant};

use models::chat::{Message, NextTurn, Prompt};
use serde::{Deserialize, Serialize};

use super::preamble::{QUESTION, SEPARATOR, end_of_documents, with_documents};
use super::{Chat, DocumentCache, Preamble, can_go_back_to, unanswered};
use crate::model::ChatFormat;
use crate::session::common_prefix;
use crate::{EngineError, Prefill, Progress};

/// Bytes that a slow disk writes in a second.
const DISK_SPEED: f64 = 4e8;

/// How documents came into a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentReading {
    /// Tokens of the documents, and of what the chat template writes before them.
    pub tokens: usize,
    /// Time for them.
    pub elapsed: Duration,
    /// Whether they were found in the cache, and not read.
    pub found: bool,
    /// Why a file of the cache was of no use, or why there is none now.
    pub problem: Option<String>,
}

/// A document that was added to a conversation that had begun.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Attachment {
    /// The turn whose question it stands before.
    pub turn: usize,
    pub name: String,
    /// Without white space at its end.
    pub text: String,
}

/// What is read before the next question is known.
#[derive(Default)]
pub(super) struct Ahead {
    /// Turns and tokens of the conversation when this was found out.
    at: (usize, usize),
    /// The conversation and the documents behind it; empty where there are none.
    tokens: Vec<u32>,
    /// Tokens that the session had of these, and the time for what it has read of them since.
    begun: Option<(usize, Duration)>,
}

impl Chat {
    /// Adds a document, which the next question is about. It is read by [`Chat::read_documents`], or with that
    /// question.
    ///
    /// # Errors
    /// Where the chat template refuses it, or the text cannot be encoded. The conversation is as it was.
    pub fn attach(&mut self, name: &str, document: &str) -> Result<(), EngineError> {
        let text = document.trim_end().to_owned();
        if self.has_questions() {
            self.attachments.push(Attachment { turn: self.turns.len(), name: name.to_owned(), text });
            self.ahead = None;
            return self.ahead().map(|_| ()).inspect_err(|_| _ = self.attachments.pop());
        }
        let mut names = self.preamble.names().to_vec();
        names.push(name.to_owned());
        self.preamble = self.preamble.with_more(&self.format, &text)?.with_names(names);
        self.ahead = None;
        Ok(())
    }

    /// Removes the documents of the next question. Returns their names.
    ///
    /// # Errors
    /// Where the chat template refuses the conversation without them. It is as it was.
    pub fn detach(&mut self) -> Result<Vec<String>, EngineError> {
        let names = self.next_documents();
        if !self.has_questions() {
            self.preamble = Preamble::new(&self.format, self.preamble.system(), "")?;
        }
        self.attachments.retain(|attachment| attachment.turn != self.turns.len());
        self.ahead = None;
        self.session.forget_first_text()?;
        Ok(names)
    }

    /// The names of the documents of the next question.
    pub fn next_documents(&self) -> Vec<String> {
        match self.has_questions() {
            true => self.pending().map(|attachment| attachment.name.clone()).collect(),
            false => self.preamble.names().to_vec(),
        }
    }

    /// The names of the documents that questions were asked about.
    pub fn read_document_names(&self) -> Vec<String> {
        let first = if self.has_questions() { self.preamble.names() } else { &[] };
        let later = self.attachments.iter().filter(|attachment| attachment.turn < self.turns.len());
        first.iter().cloned().chain(later.map(|attachment| attachment.name.clone())).collect()
    }

    /// Whether the next question has documents that are not read yet, and can be read before it.
    ///
    /// # Errors
    /// Where the chat template refuses the conversation, or the text cannot be encoded.
    pub fn has_unread_documents(&mut self) -> Result<bool, EngineError> {
        self.ahead()?;
        let tokens = self.ahead.as_ref().map_or(&[][..], |ahead| &ahead.tokens);
        Ok(!tokens.is_empty() && !self.session.tokens().starts_with(tokens))
    }

    /// Tokens of the conversation with the documents of the next question, and what the chat template writes before
    /// them; 0 where there are none.
    ///
    /// # Errors
    /// As for [`Chat::has_unread_documents`].
    pub fn tokens_with_documents(&mut self) -> Result<usize, EngineError> {
        Ok(self.ahead()?.tokens.len())
    }

    /// How much of the next question's documents is read, from 0 to 1; 0 where there are none.
    pub fn read_share(&self) -> f64 {
        let Some(Ahead { tokens, begun: Some((before, _)), .. }) = &self.ahead else { return 0.0 };
        let held = common_prefix(self.session.tokens(), tokens);
        let of_layers =
            self.session.first_text_share().filter(|_| self.session.is_reading(tokens)).unwrap_or(0.0);
        let chunks = held.saturating_sub(*before) as f64 / tokens.len().saturating_sub(*before).max(1) as f64;
        of_layers.max(chunks)
    }

    /// Reads the documents before the next question is known, or finds them in a cache. That question then reads only
    /// itself. Policies that choose rows by the attention of the last tokens choose by the documents' own. Nothing
    /// happens where there are no documents, they are read already, or the chat template writes a question before them.
    ///
    /// # Errors
    /// As [`Session::sync`](crate::Session::sync). After an interrupt, calling this again goes on where it stopped.
    /// What goes wrong with the cache is no error but [`DocumentReading::problem`].
    pub fn read_documents(
        &mut self,
        cache: Option<&DocumentCache>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<DocumentReading, EngineError> {
        let mut reading = DocumentReading::default();
        if !self.has_unread_documents()? {
            return Ok(reading);
        }
        let mut ahead = self.ahead.take().unwrap_or_default();
        let read = self.read_ahead(&mut ahead, cache, &mut reading, progress);
        self.ahead = Some(ahead);
        read.map(|()| reading)
    }

    fn read_ahead(
        &mut self,
        ahead: &mut Ahead,
        cache: Option<&DocumentCache>,
        reading: &mut DocumentReading,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), EngineError> {
        let started = Instant::now();
        let tokens = &ahead.tokens;
        let held = self.held_of(tokens);
        if held == 0 && !self.session.tokens().is_empty() {
            self.session.clear()?;
        }
        let (before, earlier) = *ahead.begun.get_or_insert((held, Duration::ZERO));
        let (read, unread) = (held.saturating_sub(before), tokens.len() - held);
        reading.tokens = tokens.len().saturating_sub(before);
        let note = |reading: &mut DocumentReading, error: EngineError| {
            reading.problem.get_or_insert(error.to_string());
        };
        let is_fresh = self.session.tokens().is_empty();
        if let Some(cache) = cache.filter(|_| is_fresh && !self.session.is_reading(tokens)) {
            match cache.find(&mut self.session, tokens) {
                Ok(found) => reading.found = found,
                Err(error) => note(reading, error),
            }
        }
        if !reading.found {
            // What was read chunk by chunk before an interrupt counts, too.
            let (size, mut latest) = (read + unread, Duration::ZERO);
            let synced = self.session.sync(tokens, &mut |now: Progress| {
                let share = (read as f64 + now.share * unread as f64) / size as f64;
                let elapsed = if read > 0 { earlier + now.elapsed } else { now.elapsed };
                latest = elapsed;
                progress(Progress { share, size, elapsed, ..now });
            });
            // An exact prefill knows its own time, also from before `begun`.
            reading.elapsed = latest.max(earlier + started.elapsed());
            ahead.begun = Some((before, reading.elapsed));
            synced?;
        }
        reading.elapsed = reading.elapsed.max(started.elapsed());
        // A session that had read other documents before is not what reading these alone would give.
        if let (Some(cache), false) = (cache, reading.found)
            && before == 0
            && !self.has_questions()
            && self.time_to_write().as_secs_f64() <= cache.max_share * reading.elapsed.as_secs_f64()
            && let Err(error) = cache.add(&self.session)
        {
            note(reading, error);
        }
        Ok(())
    }

    /// Tokens of documents that [`Chat::read_documents`] would have to read; 0 where a cache has them.
    ///
    /// # Errors
    /// As for [`Chat::has_unread_documents`].
    pub fn tokens_to_read(&mut self, cache: Option<&DocumentCache>) -> Result<usize, EngineError> {
        if !self.has_unread_documents()? {
            return Ok(0);
        }
        let Some(Ahead { tokens, .. }) = &self.ahead else { return Ok(0) };
        let is_known = cache.is_some_and(|cache| cache.has(&self.session, tokens));
        let held = self.held_of(tokens);
        Ok(if is_known && held == 0 { 0 } else { tokens.len() - held })
    }

    /// How many of these tokens need not be read. Documents before the first question are one text: a policy that reads a
    /// first text twice reads all of them again where some are new.
    fn held_of(&self, tokens: &[u32]) -> usize {
        let (held, options) = (self.session.tokens(), self.session.options());
        let is_more = held.len() < tokens.len() && !self.has_questions();
        match is_more && options.prefill == Prefill::Exact && options.policy.reads_twice() {
            true => 0,
            false => common_prefix(held, tokens),
        }
    }

    /// How long a slow disk takes to write the KV cache.
    pub fn time_to_write(&self) -> Duration {
        Duration::from_secs_f64(self.session.kv_usage().bytes as f64 / DISK_SPEED)
    }

    /// What is read before the next question is known.
    fn ahead(&mut self) -> Result<&Ahead, EngineError> {
        let at = (self.turns.len(), self.timeline.len());
        let ahead = match self.ahead.take() {
            Some(ahead) if ahead.at == at => ahead,
            _ => Ahead { at, tokens: self.tokens_ahead()?, begun: None },
        };
        Ok(self.ahead.insert(ahead))
    }

    fn tokens_ahead(&mut self) -> Result<Vec<u32>, EngineError> {
        if !self.has_questions() {
            return Ok(self.preamble.first_tokens().unwrap_or_default().to_vec());
        }
        let documents = self.pending_text();
        if documents.is_empty() {
            return Ok(Vec::new());
        }
        if self.awaits_answer() {
            // They are part of one message with the question that has no answer.
            return Ok(Vec::new());
        }
        self.messages.push(Message::user(with_documents(&documents, QUESTION)));
        let prompt = self.next_prompt(self.turns.len(), &documents, QUESTION);
        self.messages.pop();
        let (mut tokens, mut prompt) = prompt?;
        match end_of_documents(&prompt, &documents, QUESTION).and_then(|end| prompt.split_off(end)) {
            Some(_) => tokens.extend(self.format.encode(&prompt)?),
            None => tokens.clear(),
        }
        Ok(tokens)
    }

    /// The documents that were added for the next question, which is not the first.
    fn pending(&self) -> impl Iterator<Item = &Attachment> {
        self.attachments.iter().filter(|attachment| attachment.turn == self.turns.len())
    }

    fn pending_text(&self) -> String {
        self.added_in(self.turns.len())
    }

    /// The documents that were added for the question of a turn, counted from 0.
    pub(super) fn added_in(&self, turn: usize) -> String {
        let added = self.attachments.iter().filter(|attachment| attachment.turn == turn);
        added.map(|attachment| attachment.text.as_str()).collect::<Vec<_>>().join(SEPARATOR)
    }

    /// Questions were undone: their documents are for the next one.
    pub(super) fn keep_documents(&mut self) {
        let turns = self.turns.len();
        match turns {
            0 => self.begin_with_all_documents(),
            _ => self
                .attachments
                .iter_mut()
                .for_each(|attachment| attachment.turn = attachment.turn.min(turns)),
        }
    }

    /// A new conversation begins with the documents that were added to this one, too.
    pub(super) fn begin_with_all_documents(&mut self) {
        self.ahead = None;
        if self.preamble.first_tokens().is_none() && !self.preamble.documents().is_empty() {
            // It was restored, and its documents are not tokens yet.
            let names = self.preamble.names().to_vec();
            let preamble = Preamble::new(&self.format, self.preamble.system(), self.preamble.documents());
            if let Ok(preamble) = preamble {
                self.preamble = preamble.with_names(names);
            }
        }
        for Attachment { name, text, .. } in std::mem::take(&mut self.attachments) {
            let mut names = self.preamble.names().to_vec();
            names.push(name);
            let more = self.preamble.with_more(&self.format, &text);
            // The first question meets the error again.
            let all = || Preamble::unencoded(self.preamble.system(), &self.preamble.first_text(&text));
            self.preamble = more.unwrap_or_else(|_| all()).with_names(names);
        }
    }

    /// The user's message of the next turn: the documents and the question.
    pub(super) fn next_text(&self, question: &str) -> String {
        match self.has_questions() {
            true => with_documents(&self.pending_text(), question),
            false => self.preamble.first_text(question),
        }
    }

    /// The whole timeline up to where the answer to the last message begins.
    pub(super) fn next_tokens(&self) -> Result<Vec<u32>, EngineError> {
        let messages = unanswered::alternating(&self.messages);
        let turn = unanswered::first_turn(&self.messages);
        let message = messages.last().map_or("", |last| last.content.as_str());
        let question = question_in(message, turn, self.preamble.documents(), &self.attachments);
        let tokens = match turn {
            0 => self.preamble.prompt(&self.format, question)?,
            _ => {
                let documents = self.added_in(turn);
                let (mut tokens, prompt) = self.next_prompt(turn, &documents, question)?;
                tokens.extend(encode(&self.format, prompt, &documents, question)?);
                tokens
            }
        };
        match turn < self.turns.len() && self.loses_rows(&tokens) {
            true => Ok(self.tokens_behind_unanswered()?.unwrap_or(tokens)),
            false => Ok(tokens),
        }
    }

    /// Whether rows were evicted that these tokens need, so that everything would be read again.
    fn loses_rows(&self, tokens: &[u32]) -> bool {
        let held = self.session.tokens();
        let common = common_prefix(tokens, held);
        common < held.len() && !can_go_back_to(&self.session, common)
    }

    /// As [`Chat::next_tokens`], behind the last question as it was read, which gets an answer without text. `None` where
    /// the chat template does not go on from there.
    fn tokens_behind_unanswered(&self) -> Result<Option<Vec<u32>>, EngineError> {
        let messages = unanswered::with_empty_answers(&self.messages);
        let (NextTurn::Extends(suffix) | NextTurn::Rewrites { suffix: Some(suffix), .. }) =
            self.format.next_turn(&messages)?
        else {
            return Ok(None);
        };
        let (turn, message) = (self.turns.len(), messages.last().map_or("", |last| last.content.as_str()));
        let question = question_in(message, turn, self.preamble.documents(), &self.attachments);
        let suffix = encode(&self.format, suffix, &self.added_in(turn), question)?;
        Ok(Some([&self.timeline[..], &suffix].concat()))
    }

    /// What the last message follows, in tokens, and the prompt from there on. The message has these documents and this
    /// question, and the answer to it belongs to this turn and to those behind it.
    fn next_prompt(
        &self,
        turn: usize,
        documents: &str,
        question: &str,
    ) -> Result<(Vec<u32>, Prompt), EngineError> {
        let format = &self.format;
        let before = || unanswered::timeline_before(&self.timeline, &self.turns, turn);
        Ok(match format.next_turn(&unanswered::alternating(&self.messages))? {
            NextTurn::Extends(suffix) => (before(), suffix),
            NextTurn::Rewrites { prompt, suffix, .. } => {
                let whole = encode(format, prompt.clone(), documents, question)?;
                match suffix {
                    // Following the template to the letter would mean to read everything again.
                    Some(suffix) if self.loses_rows(&whole) => (before(), suffix),
                    _ => (Vec::new(), prompt),
                }
            }
        })
    }
}

/// The question in the user's message of a turn, where `first` are the documents of the first one.
pub(super) fn question_in<'a>(
    message: &'a str,
    turn: usize,
    first: &str,
    attachments: &[Attachment],
) -> &'a str {
    let first = Some(first).filter(|first| turn == 0 && !first.is_empty());
    let later = attachments.iter().filter(|attachment| attachment.turn == turn);
    let mut documents = first.into_iter().chain(later.map(|attachment| attachment.text.as_str()));
    documents
        .try_fold(message, |rest, document| rest.strip_prefix(document)?.strip_prefix(SEPARATOR))
        .unwrap_or(message)
}

/// The tokens of a prompt, none of which reaches from the documents into the question.
pub(super) fn encode(
    format: &ChatFormat,
    mut prompt: Prompt,
    documents: &str,
    question: &str,
) -> Result<Vec<u32>, EngineError> {
    let end = end_of_documents(&prompt, documents, question);
    let tail = end.and_then(|end| prompt.split_off(end));
    let mut tokens = format.encode(&prompt)?;
    if let Some(tail) = tail {
        tokens.extend(format.encode(&tail)?);
    }
    Ok(tokens)
}
