//! Changes of a conversation that has begun: another question in place of the last one, another system message,
//! another session, another model, a summary in place of all turns, and another way of sampling.

use std::collections::BTreeMap;
use std::path::Path;

use models::chat::{Message, NextTurn};

use super::documents::{encode, question_in};
use super::{
    Attachment, Chat, ChatOptions, DocumentCache, Preamble, Reading, Turn, can_go_back_to, unanswered,
};
use crate::model::ChatFormat;
use crate::session::common_prefix;
use crate::session::generate::constraint::Constraint;
use crate::session::generate::sampler::{Sampler, SamplerOptions};
use crate::session::text::begun_thinking;
use crate::{EngineError, Hint, Model, Progress, Session, setup};

/// A conversation as its chat template writes it.
struct Rendered {
    messages: Vec<Message>,
    timeline: Vec<u32>,
    turns: Vec<Turn>,
}

/// A conversation that a summary has replaced.
pub(super) struct Compacted {
    preamble: Preamble,
    messages: Vec<Message>,
    timeline: Vec<u32>,
    turns: Vec<Turn>,
    attachments: Vec<Attachment>,
    /// What an earlier summary has replaced.
    compacted: Option<Box<Compacted>>,
}

/// What a model is called that another one replaces: by its name, or by its file where both have the same name.
fn label(old: &Model, new: &Model) -> String {
    match (old.name() == new.name(), file_name(old.file())) {
        (false, _) => old.name().to_owned(),
        (true, Some(file)) => file,
        (true, None) => "another model of this name".to_owned(),
    }
}

/// The model that answered in a turn, where it is not the one with this name and this file.
pub(super) fn other_model<'a>(turn: &'a Turn, name: &str, file: Option<&Path>) -> Option<&'a str> {
    let is_other = |model: &&str| *model != name && file_name(file).as_deref() != Some(*model);
    turn.model.as_deref().filter(is_other)
}

fn file_name(path: Option<&Path>) -> Option<String> {
    Some(path?.file_name()?.to_string_lossy().into_owned())
}

impl Chat {
    /// The system message.
    pub fn system(&self) -> Option<&str> {
        self.preamble.system()
    }

    /// The last question, without the documents.
    pub fn last_question(&self) -> Option<&str> {
        self.conversation().last().map(|(question, _)| *question)
    }

    /// How tokens are sampled.
    pub fn sampling(&self) -> &SamplerOptions {
        self.sampler.options()
    }

    /// Samples otherwise from now on. The random numbers begin again at the seed.
    ///
    /// # Errors
    /// Where an option makes no sense, or biases a token that the model does not have. Nothing has changed then.
    pub fn set_sampling(&mut self, options: SamplerOptions) -> Result<(), EngineError> {
        self.sampler = Sampler::for_model(options, self.session.engine().spec().n_vocab)?;
        self.go_back(usize::MAX);
        Ok(())
    }

    /// Most tokens of an answer; `None` for no limit but the context.
    pub fn answer_limit(&self) -> Option<usize> {
        self.answer_limit
    }

    /// Sets how many tokens an answer may have.
    pub fn set_answer_limit(&mut self, tokens: Option<usize>) {
        self.answer_limit = tokens;
    }

    /// Gives the next answers a shape, behind thinking where the model thinks; `None` for any text.
    pub fn set_constraint(&mut self, constraint: Option<Constraint>) {
        self.constraint = constraint;
    }

    /// What [`Chat::set_settings`] was told.
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }

    /// Names and values that are saved with the conversation, for the program that holds it. They change nothing here:
    /// [`ChatOptions`](super::ChatOptions) and [`Chat::set_sampling`] do.
    pub fn set_settings(&mut self, settings: BTreeMap<String, String>) {
        self.settings = settings;
    }

    /// Takes the last question and its answer back, and reads another question in their place, as [`Chat::read`].
    ///
    /// # Errors
    /// Where there is no question, or reading fails or is interrupted. The conversation is as it was; what the session
    /// has lost of it is read again with the next question.
    pub fn revise(
        &mut self,
        question: &str,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Reading, EngineError> {
        let before = (self.messages.clone(), self.timeline.clone(), self.turns.clone());
        if !self.take_back() {
            return Err(EngineError::Setting {
                what: "another question".into(),
                reason: "there is none that it could replace".into(),
                hint: Hint::advice("ask a question first"),
            });
        }
        let read = self.read(question, progress);
        if read.is_err() {
            (self.messages, self.timeline, self.turns) = before;
            self.go_back(usize::MAX);
        }
        read
    }

    /// Goes on in another session, which may have another policy, other types or another context: reads the whole
    /// conversation there as one text. Afterwards, going back before its end reads it again where rows were evicted.
    ///
    /// # Errors
    /// Where the session is of another model, the conversation does not fit its context, or reading fails or is
    /// interrupted. The conversation is as it was, in its old session.
    pub fn move_to(
        &mut self,
        mut session: Session,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Reading, EngineError> {
        let (old, new) = (self.session.engine(), session.engine());
        if old.fingerprint() != new.fingerprint() {
            return Err(EngineError::Setting {
                what: format!("a session of the model {}", new.model().name()),
                reason: format!("the conversation is held with {}", old.model().name()),
                hint: Hint::advice("make the session with the same model"),
            });
        }
        // The conversation's flag stops it, whoever made the session.
        session.set_interrupt(self.session.interrupt());
        let reading = Reading::of(&mut session, &self.timeline, progress)?;
        self.session.make_way_for(session);
        self.ahead = None;
        Ok(reading)
    }

    /// Replaces the system message. After the first question, the whole conversation is read again with it as one text,
    /// in a new session with the options of the old one.
    ///
    /// # Errors
    /// Where the chat template refuses a system message, the conversation no longer fits the context, there is no
    /// memory for both sessions at once, or reading fails or is interrupted. The conversation is as it was.
    pub fn set_system(
        &mut self,
        system: Option<&str>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Reading, EngineError> {
        let engine = self.session.engine().clone();
        let preamble = Preamble::new(&self.format, system, self.preamble.documents())?;
        let preamble = preamble.described_as(&self.preamble);
        let Rendered { messages, timeline, turns } = self.rendered(&self.format, &preamble, true)?;
        let mut reading = Reading::default();
        if self.has_questions() {
            let options = self.session.options().clone();
            setup::fit_instead_of(&self.session, options.clone(), None, timeline.len())?;
            let mut session = Session::new(&engine, options)?.with_interrupt(self.session.interrupt());
            reading = Reading::of(&mut session, &timeline, progress)?;
            self.session.make_way_for(session);
        }
        (self.preamble, self.messages, self.ahead) = (preamble, messages, None);
        (self.timeline, self.turns) = (timeline, turns);
        self.compacted = None;
        self.go_back(usize::MAX);
        Ok(reading)
    }

    /// Encodes the conversation as the session's model does, which may not be the one that it was held with.
    ///
    /// # Errors
    /// Where the chat template refuses it, or a text cannot be encoded.
    pub(super) fn encode_again(&mut self) -> Result<(), EngineError> {
        let Rendered { messages, timeline, turns } = self.rendered(&self.format, &self.preamble, false)?;
        (self.messages, self.timeline, self.turns) = (messages, timeline, turns);
        Ok(())
    }

    /// Tokens that the conversation has with another model, with the documents of the next question where it is the
    /// first.
    ///
    /// # Errors
    /// Where the model's file has no usable tokenizer or chat template, or the template refuses the conversation.
    pub fn tokens_with(&self, model: &Model) -> Result<usize, EngineError> {
        let format = model.chat_format()?;
        let preamble = Preamble::new(format, self.system(), self.preamble.documents())?;
        let conversation = self.rendered(format, &preamble, false)?;
        Ok(preamble.min_tokens().max(conversation.timeline.len()))
    }

    /// Goes on with another model, in its session: reads the documents and the whole conversation there. Documents may be
    /// found in a cache. Before the first question nothing is read yet. Answers keep the name of the model that gave them
    /// ([`Chat::answered_by`]). If the chat template of the other model has no switch for thinking, it decides.
    ///
    /// # Errors
    /// Where the model's file has no usable tokenizer or chat template, the template refuses the conversation, it does not
    /// fit the session's context, or reading fails or is interrupted. The conversation is as it was, with its old model.
    pub fn change_model(
        &mut self,
        session: Session,
        cache: Option<&DocumentCache>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Reading, EngineError> {
        let session = session.with_interrupt(self.session.interrupt());
        let old = label(self.session.engine().model(), session.engine().model());
        let format = session.engine().model().chat_format()?.clone();
        let thinking = self.thinking.filter(|thinks| format.with_thinking(*thinks).is_ok());
        let format = thinking.map_or_else(|| Ok(format.clone()), |thinks| format.with_thinking(thinks))?;
        let preamble = Preamble::new(&format, self.system(), self.preamble.documents())?;
        let preamble = preamble.described_as(&self.preamble);
        let Rendered { messages, timeline, mut turns } = self.rendered(&format, &preamble, false)?;
        for (turn, before) in turns.iter_mut().zip(&self.turns) {
            turn.model = before.model.clone().or_else(|| Some(old.clone()));
        }
        let (sampling, answer_limit) = (self.sampler.options().clone(), self.answer_limit);
        let mut new = Chat::new(session, ChatOptions { preamble, sampling, answer_limit, thinking })?;
        let mut reading = Reading::default();
        if !turns.is_empty() {
            reading = Reading::of_documents(&new.read_documents(cache, progress)?);
            reading = reading + Reading::of(&mut new.session, &timeline, progress)?;
        }
        (new.messages, new.timeline, new.turns) = (messages, timeline, turns);
        new.attachments.clone_from(&self.attachments);
        new.settings.clone_from(&self.settings);
        new.go_back(usize::MAX);
        *self = new;
        Ok(reading)
    }

    /// For each answer the model that gave it, where it is not the session's: its name, or its file's.
    pub fn answered_by(&self) -> Vec<Option<&str>> {
        let model = self.session.engine().model();
        self.turns.iter().map(|turn| other_model(turn, model.name(), model.file())).collect()
    }

    /// Replaces all questions and answers by one question and a summary as its answer, so that there is room for more.
    /// The documents stay: those that the conversation began with are not read again, or are found in a cache. Documents
    /// that were added later are read again. [`Chat::undo`] brings the conversation back, as long as this chat lives,
    /// until [`Chat::change_model`] or [`Chat::set_system`].
    ///
    /// # Errors
    /// Where the chat template refuses the new conversation, or reading fails or is interrupted. Where the documents must
    /// be read again, and there is no memory for two KV stores at once. The conversation is as it was; what the session has
    /// lost of it is read again with the next question.
    pub fn compact(
        &mut self,
        question: &str,
        summary: &str,
        cache: Option<&DocumentCache>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Reading, EngineError> {
        let before = Compacted {
            preamble: self.preamble.clone(),
            messages: self.messages.clone(),
            timeline: self.timeline.clone(),
            turns: self.turns.clone(),
            attachments: self.attachments.clone(),
            compacted: self.compacted.take(),
        };
        self.clear();
        let compacted = self.begin_with(question, summary, cache, progress);
        match compacted {
            Ok(_) => self.compacted = Some(Box::new(before)),
            Err(_) => self.bring_back(before),
        }
        compacted
    }

    /// Makes a question and its answer the first turn.
    fn begin_with(
        &mut self,
        question: &str,
        answer: &str,
        cache: Option<&DocumentCache>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Reading, EngineError> {
        let mut timeline = self.preamble.prompt(&self.format, question)?;
        let answer_begins = timeline.len();
        // Where the prompt begins the thinking, the answer must end it.
        let thinking = begun_thinking(&timeline, self.format.tokenizer());
        let text =
            thinking.marks.map_or_else(|| answer.to_owned(), |marks| format!("{}\n\n{answer}", marks.ends));
        timeline.extend(self.format.encode_text(&text)?);
        let options = self.session.options().clone();
        if timeline.len() >= options.context {
            return Err(EngineError::ContextFull { needed: timeline.len(), context: options.context });
        }
        let documents = self.preamble.first_tokens().map_or(0, <[u32]>::len);
        let held = common_prefix(self.session.tokens(), &timeline);
        let is_held = held >= documents && can_go_back_to(&self.session, held);
        let old = match is_held || self.session.tokens().is_empty() {
            true => None,
            // Rows were evicted. The old session stays until all is read.
            false => {
                let engine = self.session.engine().clone();
                setup::fit_instead_of(&self.session, options.clone(), None, timeline.len())?;
                let new = Session::new(&engine, options)?.with_interrupt(self.session.interrupt());
                Some(std::mem::replace(&mut self.session, new))
            }
        };
        let read = self.read_documents(cache, progress).and_then(|documents| {
            let reading = Reading::of(&mut self.session, &timeline, progress)?;
            Ok(Reading::of_documents(&documents) + reading)
        });
        let reading = match (read, old) {
            (Ok(reading), old) => {
                old.into_iter().for_each(|old| self.session.take_over(old));
                reading
            }
            (Err(error), old) => {
                old.into_iter().for_each(|old| self.session = old);
                return Err(error);
            }
        };
        self.messages.push(Message::user(self.preamble.first_text(question)));
        self.messages.push(Message::assistant(thinking.opening + &text));
        self.turns.push(Turn { question: 0, answer: answer_begins, ..Turn::default() });
        (self.timeline, self.ahead) = (timeline, None);
        self.go_back(usize::MAX);
        Ok(reading)
    }

    /// Brings back the conversation that a summary has replaced, if the last turn is that summary.
    pub(super) fn bring_back_compacted(&mut self) -> bool {
        let compacted = self.compacted.take_if(|_| self.turns.len() == 1);
        compacted.map(|before| self.bring_back(*before)).is_some()
    }

    fn bring_back(&mut self, before: Compacted) {
        let Compacted { preamble, messages, timeline, turns, mut attachments, compacted } = before;
        // What was added since is for the next question.
        for attachment in self.attachments.drain(..) {
            attachments.push(Attachment { turn: turns.len(), ..attachment });
        }
        (self.preamble, self.messages, self.timeline, self.turns) = (preamble, messages, timeline, turns);
        (self.attachments, self.compacted, self.ahead) = (attachments, compacted, None);
        self.go_back(usize::MAX);
    }

    /// The conversation with another preamble. `keeps_tokens`: answers are the tokens that were generated. With another
    /// model's format they are encoded again.
    fn rendered(
        &self,
        format: &ChatFormat,
        preamble: &Preamble,
        keeps_tokens: bool,
    ) -> Result<Rendered, EngineError> {
        let mut messages: Vec<Message> = preamble.system().map(Message::system).into_iter().collect();
        let (mut timeline, mut turns) = (Vec::new(), Vec::<Turn>::new());
        for message in self.messages.iter().filter(|message| message.role != "system") {
            messages.push(message.clone());
            if message.role == "assistant" {
                timeline.extend(match keeps_tokens {
                    true => self.answer_tokens(format, turns.len(), &message.content)?,
                    false => {
                        let opening = begun_thinking(&timeline, format.tokenizer()).opening;
                        format
                            .encode_text(message.content.strip_prefix(&opening).unwrap_or(&message.content))?
                    }
                });
                continue;
            }
            let (alternating, turn) = (unanswered::alternating(&messages), unanswered::first_turn(&messages));
            let text = alternating.last().map_or("", |last| last.content.as_str());
            let question = question_in(text, turn, self.preamble.documents(), &self.attachments);
            let encoded = |prompt| encode(format, prompt, &self.added_in(turn), question);
            let prompt = match turn {
                0 => preamble.prompt(format, question)?,
                _ => match format.next_turn(&alternating)? {
                    NextTurn::Extends(suffix) => {
                        [unanswered::timeline_before(&timeline, &turns, turn), encoded(suffix)?].concat()
                    }
                    NextTurn::Rewrites { prompt, .. } => encoded(prompt)?,
                },
            };
            let question = common_prefix(&prompt, &timeline);
            let before = self.turns.get(turns.len());
            let is_cut_off = before.is_some_and(|turn| turn.is_cut_off);
            let model = before.and_then(|turn| turn.model.clone());
            let sources = before.and_then(|turn| turn.sources.clone());
            let replaced = timeline.split_off(question);
            turns.push(Turn { question, answer: prompt.len(), replaced, is_cut_off, model, sources });
            timeline = prompt;
        }
        Ok(Rendered { messages, timeline, turns })
    }

    /// The tokens of the answer in the turn of this number, counted from 1: those that were generated, where the
    /// timeline still has them.
    fn answer_tokens(&self, format: &ChatFormat, number: usize, text: &str) -> Result<Vec<u32>, EngineError> {
        let start = number.checked_sub(1).and_then(|index| self.turns.get(index)).map(|turn| turn.answer);
        // As the timeline was before the next question.
        let timeline = match self.turns.get(number) {
            None => self.timeline.clone(),
            Some(next) => [&self.timeline[..next.question.min(self.timeline.len())], &next.replaced].concat(),
        };
        let generated = start.and_then(|start| timeline.get(start..)).unwrap_or_default();
        // Where the prompt begins the thinking, the tokens of the answer do not.
        let prompt = start.and_then(|start| timeline.get(..start)).unwrap_or_default();
        let opening = begun_thinking(prompt, format.tokenizer()).opening;
        let text = text.strip_prefix(&opening).unwrap_or(text);
        let decoded = format.tokenizer().decode(generated, false);
        match String::from_utf8_lossy(&decoded).trim_start().starts_with(text.trim()) {
            true => Ok(generated.to_vec()),
            false => format.encode_text(text),
        }
    }
}
