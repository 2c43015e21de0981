//! Where in the documents an answer comes from: the sentences that it attended to while it was written.
//!
//! The session records what tokens of an answer attend to (`session/attention`). Here the tokens of the documents are found
//! in the conversation, and what was paid to them is added up by sentence. Words of question and answer help to order the
//! sentences. `sentences` and `rank` are functions of texts and numbers only.

mod passage;
mod places;
mod rank;
mod sentences;
mod statements;

use std::fmt;
use std::ops::Range;

pub use self::passage::Passage;
pub use self::places::{PromptBytes, TextPlace};
pub use self::rank::{Evidence, Ranked, Ranking, rank};
pub use self::sentences::sentences;
pub use self::statements::Statement;
pub use crate::session::attention::PaidAttention;
use models::tokenizer::Tokenizer;
use serde::{Deserialize, Serialize};

use self::statements::{MAX_STATEMENTS, WrittenAnswer};
use super::documents::Attachment;
use super::{Chat, Preamble};
use crate::session::text::split_thinking;
use crate::{EngineError, Session};

/// Sources of an answer that are kept with the conversation: the best ones.
const MAX_KEPT: usize = 32;

/// A place in the documents that an answer comes from.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Source {
    /// The text: 0 for the documents that the conversation began with ([`Preamble::documents`](crate::Preamble::documents)), n
    /// for the n-th document that was attached to it later. See [`Chat::document_texts`].
    pub part: usize,
    /// Bytes of that text: a sentence, an item of a list, a heading or a line of a table.
    pub range: Range<usize>,
    /// How much speaks for it, as a share of all sources, from 0 to 1.
    pub weight: f32,
    /// Sentences of the answer that come from here, where it has several: bytes of the answer without thoughts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<Range<usize>>,
}

/// Where an answer comes from.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Sources {
    /// The sources, the best first.
    pub found: Vec<Source>,
    /// Why there are none, where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<NoSources>,
}

/// Why nothing can be said about where an answer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NoSources {
    /// Nothing was recorded while the answer was written: it is older than the session or the recording.
    NotRecorded,
    /// The conversation has no documents, or they are not in the prompt as they are.
    NoDocuments,
    /// The model has no heads that see the whole text.
    NoHeads,
    /// The answer attended to nothing in the documents that is still kept.
    NothingAttended,
}

impl fmt::Display for NoSources {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            NoSources::NotRecorded => "what the answer comes from was not recorded while it was written",
            NoSources::NoDocuments => "there are no documents that the answer could come from",
            NoSources::NoHeads => "no head of this model sees the whole text",
            NoSources::NothingAttended => "nothing points anywhere in the documents",
        })
    }
}

impl From<NoSources> for Sources {
    fn from(reason: NoSources) -> Sources {
        Sources { found: Vec::new(), missing: Some(reason) }
    }
}

impl Sources {
    /// Whether these can be sources of an answer about these texts.
    pub(super) fn are_of(&self, texts: &[&str]) -> bool {
        let is_of = |source: &Source| {
            texts.get(source.part).is_some_and(|text| text.get(source.range.clone()).is_some())
                && (0.0..=1.0).contains(&source.weight)
        };
        let statements = self.found.iter().map(|source| source.statements.len()).sum::<usize>();
        self.found.len() <= MAX_KEPT && self.found.iter().all(is_of) && statements <= MAX_STATEMENTS
    }
}

impl Chat {
    /// Records from now on what answers attend to, for [`Chat::sources`], or stops recording. Nothing is recorded, and
    /// nothing computed for it, at first. Answers are the same.
    ///
    /// # Errors
    /// As [`Session::record_attention`](crate::Session::record_attention).
    pub fn record_sources(&mut self, on: bool) -> Result<(), EngineError> {
        self.session.record_attention(on)
    }

    /// Whether [`Chat::record_sources`] is on.
    pub fn records_sources(&self) -> bool {
        self.session.records_attention()
    }

    /// Where in the documents the last answer comes from: the first `limit` sentences, and those that a statement of the answer
    /// comes from, the best first. This is computed when it is asked for, from what was recorded while the answer was written. It is
    /// kept with the conversation: see [`Chat::sources_of`].
    ///
    /// # Errors
    /// Where the computation fails or is interrupted, or there is no memory for it. The conversation is as it was.
    ///
    /// ```
    /// use longhand::{Chat, ChatOptions, Model, ModelSource, Preamble, Setup, SetupOptions};
    ///
    /// let model = Model::open(ModelSource::Embedded)?;
    /// let document = "The old boat crossed the river. Mary's favorite number is 34251. It rained.";
    /// let preamble = Preamble::new(model.chat_format()?, None, document)?;
    /// let setup = Setup::resolve(&model, &SetupOptions::default(), preamble.min_tokens(), &mut ())?;
    /// let mut chat = Chat::new(setup.start(&mut ())?, ChatOptions { preamble, ..ChatOptions::default() })?;
    /// chat.record_sources(true)?;
    /// chat.ask("What is Mary's favorite number?", &mut |_| ())?;
    /// let sources = chat.sources(3)?;
    /// assert_eq!(chat.source_text(&sources.found[0]), "Mary's favorite number is 34251.");
    /// # Ok::<(), longhand::EngineError>(())
    /// ```
    pub fn sources(&mut self, limit: usize) -> Result<Sources, EngineError> {
        let sources = self.find_sources(limit)?;
        if sources.missing != Some(NoSources::NotRecorded)
            && let Some(turn) = self.turns.last_mut()
        {
            let mut kept = sources.clone();
            kept.found.truncate(MAX_KEPT);
            turn.sources = Some(kept);
        }
        Ok(sources)
    }

    /// Where the answer of a turn comes from, counted from 0: what [`Chat::sources`] has found when it was the last one, the
    /// first 32 of it, also before the conversation was saved. `None` where that was not found out.
    pub fn sources_of(&self, turn: usize) -> Option<&Sources> {
        self.turns.get(turn)?.sources.as_ref()
    }

    fn find_sources(&mut self, limit: usize) -> Result<Sources, EngineError> {
        let (Some(turn), true) = (self.turns.last(), self.has_answer()) else {
            return Ok(NoSources::NotRecorded.into());
        };
        let answer = turn.answer..self.timeline.len();
        let conversation = self.conversation();
        let (question, shown) = conversation.last().copied().unwrap_or_default();
        let shown = split_thinking(shown.unwrap_or_default()).1;
        let [question, shown] = [question, shown].map(str::to_owned);
        let Chat { session, format, preamble, attachments, .. } = self;
        let texts = texts_of(preamble, attachments);
        session.sources(format.tokenizer(), &texts, &question, &shown, answer, limit)
    }

    /// The text of a source; empty for a source of another conversation.
    pub fn source_text(&self, source: &Source) -> &str {
        let text = self.document_texts().get(source.part).copied().unwrap_or_default();
        text.get(source.range.clone()).unwrap_or_default()
    }

    /// The texts of the documents: first those that the conversation began with, in one text, then each that was attached
    /// later.
    pub fn document_texts(&self) -> Vec<&str> {
        texts_of(&self.preamble, &self.attachments)
    }

    fn has_answer(&self) -> bool {
        !self.awaits_answer() && self.has_answers()
    }
}

/// The texts of the documents of a chat, by part.
fn texts_of<'a>(preamble: &'a Preamble, attachments: &'a [Attachment]) -> Vec<&'a str> {
    let attached = attachments.iter().map(|attachment| attachment.text.as_str());
    [preamble.documents()].into_iter().chain(attached).collect()
}

impl Session {
    /// Where in `texts` an answer comes from: the first `limit` sentences, and those that a statement of the answer comes from,
    /// the best first. `shown`: the answer to `question` as it is shown. `answer`: its positions, in tokens, with what was written
    /// before it and is not shown. The session may lack the last of them. The texts stand in the session in this order, before
    /// the answer; those that do not are left out. Nothing is found without [`Session::record_attention`]. What was recorded before
    /// the answer is forgotten.
    ///
    /// [`Chat::sources`] does this for conversations.
    ///
    /// # Errors
    /// Where the computation fails or is interrupted, or there is no memory for it.
    pub fn sources(
        &mut self,
        tokenizer: &Tokenizer,
        texts: &[&str],
        question: &str,
        shown: &str,
        answer: Range<usize>,
        limit: usize,
    ) -> Result<Sources, EngineError> {
        if !self.records_attention() {
            return Ok(NoSources::NotRecorded.into());
        }
        let before = answer.start.min(self.tokens().len());
        let mut prompt = PromptBytes::new(tokenizer, &self.tokens()[..before]);
        let places = texts.iter().enumerate();
        let places: Vec<(usize, TextPlace)> =
            places.filter_map(|(part, text)| Some((part, prompt.find(text)?))).collect();
        let (Some((_, first)), Some((_, last))) = (places.first(), places.last()) else {
            return Ok(NoSources::NoDocuments.into());
        };
        let from = first.first_token;
        let to = from..last.first_token + last.token_ends.len();
        let mut statements = match self.statements(tokenizer, question, shown, answer, to)? {
            Some(statements) => statements,
            None if self.has_recorded_layers() => return Ok(NoSources::NotRecorded.into()),
            None => return Ok(NoSources::NoHeads.into()),
        };
        // One text of all parts, so that sentences of different parts are compared with each other.
        let (mut text, mut token_ends, mut starts) = (String::new(), Vec::new(), Vec::new());
        for (part, place) in &places {
            let start = text.len();
            starts.push((start, *part));
            text += texts[*part];
            text += "\n\n";
            token_ends.extend(place.token_ends.iter().map(|end| start + end));
        }
        for Statement { attention, .. } in &mut statements {
            let of_place = |(_, place): &(usize, TextPlace)| {
                attention[place.first_token - from..][..place.token_ends.len()].to_vec()
            };
            *attention = places.iter().flat_map(of_place).collect();
        }
        let evidence = Evidence {
            text: &text,
            token_ends: &token_ends,
            question,
            answer: shown,
            statements: &statements,
        };
        let ranked = rank(&evidence, Ranking::Combined, limit);
        if ranked.is_empty() && limit > 0 {
            return Ok(NoSources::NothingAttended.into());
        }
        let source = |ranked: Ranked| {
            let part = starts.partition_point(|(start, _)| *start <= ranked.range.start) - 1;
            let (start, part) = starts[part];
            Source {
                part,
                range: ranked.range.start - start..ranked.range.end - start,
                weight: ranked.weight,
                statements: ranked.statements.iter().map(|index| statements[*index].range.clone()).collect(),
            }
        };
        Ok(Sources { found: ranked.into_iter().map(source).collect(), missing: None })
    }

    /// The statements of an answer, and what each paid to the tokens at the positions `to`, those of a text, as
    /// [`Session::attention_paid`] tells it. `shown` and `answer` as for [`Session::sources`].
    ///
    /// # Errors
    /// Where the computation fails or is interrupted, or there is no memory for it.
    pub fn statements(
        &mut self,
        tokenizer: &Tokenizer,
        question: &str,
        shown: &str,
        answer: Range<usize>,
        to: Range<usize>,
    ) -> Result<Option<Vec<Statement>>, EngineError> {
        let tokens = self.tokens();
        let written = &tokens[answer.start.min(tokens.len())..answer.end.min(tokens.len())];
        let written = WrittenAnswer::new(tokenizer, written, shown);
        let statements = written.statements();
        // The first token of the answer is chosen with the last one of the question.
        let before = answer.start.saturating_sub(1);
        let begins = statements.iter().map(|(_, first)| before + first);
        let by: Vec<usize> = begins.chain([answer.end]).collect();
        let paid = self.attention_paid(&by, to, &written.token_weights(question))?;
        let statement = |((range, _), paid): (_, PaidAttention)| {
            let PaidAttention { paid: attention, share } = paid;
            Statement { range, attention, share }
        };
        Ok(paid.map(|paid| statements.into_iter().zip(paid).map(statement).collect()))
    }
}
