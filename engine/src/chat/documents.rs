//! The documents of a conversation: those it begins with, and those that are added before a later question.
//!
//! Documents are read before the question that follows them is known, so that one can read them while the user types.
//! No token reaches from the documents into the question.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use models::chat::{Message, NextTurn, Prompt};
use outline::Outline;
use serde::{Deserialize, Serialize};

use super::document_cache::time_to_write;
use super::preamble::{QUESTION, SEPARATOR, end_of_documents, with_documents};
use super::reading_file::ReadingFile;
use super::{Chat, DocumentCache, Preamble, can_go_back_to, unanswered};
use crate::model::ChatFormat;
use crate::session::common_prefix;
use crate::session::snapshot::unfinished::UnfinishedText;
use crate::{EngineError, Progress, Session};

/// What is said where a reading is too large to be kept before its end.
const NO_ROOM: &str = "how far the reading was could not be kept: it is larger than the limit of the cache";

/// How documents came into a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DocumentReading {
    /// Tokens of the documents, and of what the chat template writes before them.
    pub tokens: usize,
    /// Time for them.
    pub elapsed: Duration,
    /// Whether they were found in the cache, and not read.
    pub found: bool,
    /// How much of them had been read in an earlier process, from 0 to 1, where the reading went on from there.
    pub resumed: Option<f64>,
    /// The file of the cache that has them now.
    pub kept: Option<PathBuf>,
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
    #[serde(default, skip_serializing_if = "Outline::is_empty")]
    pub outline: Outline,
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
    /// Where a reading that is not finished is kept.
    file: Option<ReadingFile>,
}

impl Ahead {
    /// How much of the work is done in a session, from 0 to 1; 0 where nothing is begun.
    fn share(&self, session: &Session) -> f64 {
        let Some((before, _)) = self.begun else { return 0.0 };
        let of_layers =
            session.first_text_share().filter(|_| session.is_reading(&self.tokens)).unwrap_or(0.0);
        let held = common_prefix(session.tokens(), &self.tokens).saturating_sub(before);
        of_layers.max(session.reading_share(before, held, self.tokens.len().saturating_sub(before)))
    }
}

impl Chat {
    /// Adds a document, which the next question is about. It is read by [`Chat::read_documents`], or with that
    /// question.
    ///
    /// # Errors
    /// Where the chat template refuses it, or the text cannot be encoded. The conversation is as it was.
    pub fn attach(&mut self, name: &str, document: &str) -> Result<(), EngineError> {
        self.attach_with_outline(name, document, Outline::default())
    }

    /// The same with what begins where in the text. An outline that is not of this text is left out.
    ///
    /// # Errors
    /// As for [`Chat::attach`].
    pub fn attach_with_outline(
        &mut self,
        name: &str,
        document: &str,
        outline: Outline,
    ) -> Result<(), EngineError> {
        let text = document.trim_end().to_owned();
        let outline = outline.fitted_to(&text);
        if self.has_questions() {
            let turn = self.turns.len();
            self.attachments.push(Attachment { turn, name: name.to_owned(), text, outline });
            self.ahead = None;
            return self.ahead().map(|_| ()).inspect_err(|_| _ = self.attachments.pop());
        }
        let more = self.preamble.with_more(&self.format, &text)?;
        self.preamble = more.with_last(name, &text, &outline);
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

    /// What begins where in each of [`Chat::document_texts`], as far as that is known.
    pub fn document_outlines(&self) -> Vec<&Outline> {
        let attached = self.attachments.iter().map(|attachment| &attachment.outline);
        [self.preamble.outline()].into_iter().chain(attached).collect()
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
    /// them; 0 where there are none. Where documents that were added later can only be read with their question, without
    /// what the template writes.
    ///
    /// # Errors
    /// As for [`Chat::has_unread_documents`].
    pub fn tokens_with_documents(&mut self) -> Result<usize, EngineError> {
        let (tokens, documents) = (self.ahead()?.tokens.len(), self.pending_text());
        match tokens == 0 && !documents.is_empty() {
            true => Ok(self.timeline.len() + self.format.count(&documents)?),
            false => Ok(tokens),
        }
    }

    /// How much of the next question's documents is read, from 0 to 1; 0 where there are none.
    pub fn read_share(&self) -> f64 {
        self.ahead.as_ref().map_or(0.0, |ahead| ahead.share(&self.session))
    }

    /// Reads the documents before the next question is known, or finds them in a cache. Afterwards only the question
    /// itself is left to read. What was begun in an earlier process goes on from there, and is kept in the cache while it
    /// goes on. Policies that choose rows by the attention of the last tokens choose by the documents' own. Nothing happens
    /// where there are no documents, they are read already, or the chat template writes a question before them.
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
        let mut held = self.held_of(tokens);
        if held == 0 && !self.session.tokens().is_empty() {
            self.session.clear()?;
        }
        if !self.session.is_reading(tokens) {
            // What is left of another text could not be kept on the disk while the rest is read.
            self.session.forget_first_text()?;
        }
        let note = |reading: &mut DocumentReading, error: EngineError| {
            reading.problem.get_or_insert(error.to_string());
        };
        let names = self.preamble.names();
        let is_fresh = self.session.tokens().is_empty() && !self.session.is_reading(tokens);
        let (mut before, mut earlier) = *ahead.begun.get_or_insert((held, Duration::ZERO));
        // A session that had read other documents before is not what reading these alone would give.
        let cache = cache.filter(|_| before == 0 && self.turns.is_empty());
        let mut kept_in = cache.map(|cache| {
            let new = || ReadingFile::new(cache.unfinished_path(&self.session, tokens));
            (cache, ahead.file.get_or_insert_with(new))
        });
        if let Some((cache, file)) = kept_in.as_mut().filter(|_| is_fresh) {
            match cache.find(&mut self.session, tokens) {
                Ok(found) => (reading.found, reading.kept) = (found.is_some(), found),
                Err(error) => note(reading, error),
            }
            let resumed = if reading.found { Ok(None) } else { cache.resume(&mut self.session, tokens) };
            match resumed {
                Ok(Some((share, elapsed))) => {
                    file.goes_on(share, elapsed);
                    reading.resumed = Some(share);
                    (before, earlier, held) = (0, elapsed, self.session.tokens().len());
                    ahead.begun = Some((before, earlier));
                }
                Ok(None) => {}
                Err(error) => note(reading, error),
            }
        }
        reading.tokens = tokens.len().saturating_sub(before);
        if !reading.found {
            // What was read chunk by chunk before an interrupt counts, too.
            let (size, mut latest) = (tokens.len() - before, Duration::ZERO);
            let begun = self.session.reading_share(before, held - before.min(held), size);
            let synced = self.session.sync_with(tokens, &mut |session, now: Progress| {
                let share = begun + now.share * (1.0 - begun);
                let elapsed = if begun > 0.0 { earlier + now.elapsed } else { now.elapsed };
                latest = elapsed;
                progress(Progress { share, size, elapsed, ..now });
                if let Some((cache, file)) = &mut kept_in
                    && session.reached(tokens).is_some()
                    && file.is_due(elapsed, session.unfinished_bytes())
                {
                    let text = UnfinishedText { tokens, share, elapsed };
                    match cache.add_unfinished(file, session, &text, names) {
                        Ok(true) => {}
                        Ok(false) => _ = reading.problem.get_or_insert(NO_ROOM.to_owned()),
                        Err(error) => note(reading, error),
                    }
                }
            });
            // An exact prefill knows its own time, also from before `begun`.
            reading.elapsed = latest.max(earlier + started.elapsed());
            ahead.begun = Some((before, reading.elapsed));
            if let (Err(EngineError::NotFinite { .. }), Some((_, file))) = (&synced, &mut kept_in) {
                // It would fail again.
                file.remove();
            }
            synced?;
        }
        reading.elapsed = reading.elapsed.max(started.elapsed());
        let Some((cache, file)) = kept_in else { return Ok(()) };
        if !reading.found {
            match cache.keep(&self.session, names, reading.elapsed) {
                Ok(kept) => reading.kept = kept,
                Err(error) => _ = reading.problem.get_or_insert(format!("it was not saved: {error}")),
            }
        }
        // Also where the whole is too large to be kept: the part would never be read on.
        file.remove();
        Ok(())
    }

    /// Keeps how far the documents of the next question are read, so that another process can read on. For when the
    /// conversation ends: until then [`Chat::read_documents`] does so from time to time. Returns how much is kept, from 0 to
    /// 1; `None` if nothing is. Where reading again takes less time than writing, or there is no room, nothing is written.
    ///
    /// # Errors
    /// Where the file cannot be written. An earlier one stays as it was.
    pub fn keep_reading(&mut self, cache: &DocumentCache) -> Result<Option<f64>, EngineError> {
        let Some(mut ahead) = self.ahead.take() else { return Ok(None) };
        let kept = self.keep_ahead(&mut ahead, cache);
        self.ahead = Some(ahead);
        kept
    }

    fn keep_ahead(&self, ahead: &mut Ahead, cache: &DocumentCache) -> Result<Option<f64>, EngineError> {
        let share = ahead.share(&self.session);
        let Ahead { tokens, begun: Some((0, elapsed)), file: Some(file), .. } = ahead else {
            return Ok(None);
        };
        if self.session.reached(tokens).is_none() || self.has_questions() {
            return Ok(None);
        }
        if file.is_worth_writing(*elapsed, self.session.unfinished_bytes()) {
            let text = UnfinishedText { tokens, share, elapsed: *elapsed };
            cache.add_unfinished(file, &self.session, &text, self.preamble.names())?;
        }
        Ok(file.share())
    }

    /// How much of the next question's documents need not be read, because a cache has it, by what its file says, from 0
    /// to 1.
    ///
    /// # Errors
    /// As for [`Chat::has_unread_documents`].
    pub fn known_share(&mut self, cache: &DocumentCache) -> Result<f64, EngineError> {
        let is_fresh =
            self.has_unread_documents()? && self.session.tokens().is_empty() && !self.has_questions();
        let Some(Ahead { tokens, .. }) = self.ahead.as_ref().filter(|_| is_fresh) else { return Ok(0.0) };
        Ok(if self.session.is_reading(tokens) { 0.0 } else { cache.known_share(&self.session, tokens) })
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
        match is_more && options.prefill.is_by_layer() && options.policy.reads_twice() {
            true => 0,
            false => common_prefix(held, tokens),
        }
    }

    /// How long a slow disk takes to write the KV cache.
    pub fn time_to_write(&self) -> Duration {
        time_to_write(&self.session)
    }

    /// What is read before the next question is known.
    fn ahead(&mut self) -> Result<&Ahead, EngineError> {
        let at = (self.turns.len(), self.timeline.len());
        let ahead = match self.ahead.take() {
            Some(ahead) if ahead.at == at => ahead,
            _ => Ahead { at, tokens: self.tokens_ahead()?, begun: None, file: None },
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
            let preamble = Preamble::new(&self.format, self.preamble.system(), self.preamble.documents());
            if let Ok(preamble) = preamble {
                self.preamble = preamble.described_as(&self.preamble);
            }
        }
        for Attachment { name, text, outline, .. } in std::mem::take(&mut self.attachments) {
            let more = self.preamble.with_more(&self.format, &text);
            // The first question meets the error again.
            let all = || {
                let all = self.preamble.first_text(&text);
                Preamble::unencoded(self.preamble.system(), &all).described_as(&self.preamble)
            };
            self.preamble = more.unwrap_or_else(|_| all()).with_last(&name, &text, &outline);
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
