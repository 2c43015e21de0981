//! Changes of a conversation that has begun: another question in place of the last one, another system message,
//! another session, and another way of sampling.

use models::chat::{Message, NextTurn};

use super::documents::{encode, question_in};
use super::{Chat, Preamble, Reading, Turn, thinking_begun_by, unanswered};
use crate::model::ChatFormat;
use crate::sampler::{Sampler, SamplerOptions};
use crate::session::common_prefix;
use crate::{EngineError, Hint, Progress, Session, setup};

/// A conversation as its chat template writes it.
struct Rendered {
    messages: Vec<Message>,
    timeline: Vec<u32>,
    turns: Vec<Turn>,
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
    /// Where an option makes no sense. Nothing has changed then.
    pub fn set_sampling(&mut self, options: SamplerOptions) -> Result<(), EngineError> {
        self.sampler = Sampler::new(options)?;
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
        let (old, new) = (self.session.engine().model(), session.engine().model());
        if old.fingerprint() != new.fingerprint() {
            return Err(EngineError::Setting {
                what: format!("a session of the model {}", new.name()),
                reason: format!("the conversation is held with {}", old.name()),
                hint: Hint::advice("make the session with the same model"),
            });
        }
        let reading = Reading::of(&mut session, &self.timeline, progress)?;
        (self.session, self.ahead) = (session, None);
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
        let preamble = preamble.with_names(self.preamble.names().to_vec());
        let Rendered { messages, timeline, turns } = self.rendered(&preamble)?;
        let mut reading = Reading::default();
        if self.has_questions() {
            let options = self.session.options().clone();
            setup::fit_session(&engine, options.clone(), None, timeline.len())?;
            let mut session = Session::new(&engine, options)?;
            reading = Reading::of(&mut session, &timeline, progress)?;
            self.session = session;
        }
        (self.preamble, self.messages, self.ahead) = (preamble, messages, None);
        (self.timeline, self.turns) = (timeline, turns);
        self.go_back(usize::MAX);
        Ok(reading)
    }

    /// The conversation with another preamble.
    fn rendered(&self, preamble: &Preamble) -> Result<Rendered, EngineError> {
        let format = &self.format;
        let mut messages: Vec<Message> = preamble.system().map(Message::system).into_iter().collect();
        let (mut timeline, mut turns) = (Vec::new(), Vec::<Turn>::new());
        for message in self.messages.iter().filter(|message| message.role != "system") {
            messages.push(message.clone());
            if message.role == "assistant" {
                timeline.extend(self.answer_tokens(format, turns.len(), &message.content)?);
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
            let is_cut_off = self.turns.get(turns.len()).is_some_and(|turn| turn.is_cut_off);
            let replaced = timeline.split_off(question);
            turns.push(Turn { question, answer: prompt.len(), replaced, is_cut_off });
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
        let opening = thinking_begun_by(prompt, format);
        let text = text.strip_prefix(&opening).unwrap_or(text);
        let decoded = format.tokenizer().decode(generated, false);
        match String::from_utf8_lossy(&decoded).trim_start().starts_with(text.trim()) {
            true => Ok(generated.to_vec()),
            false => format.encode_text(text),
        }
    }
}
