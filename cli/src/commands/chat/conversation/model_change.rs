//! `/model`: another model goes on with the conversation.

use anyhow::Result;
use terminal::format;

use crate::commands::chat::commands::another_model;
use crate::commands::chat::conversation::{Conversation, Outcome, TurnStats};
use crate::commands::chat::start::{self, reread};

impl Conversation<'_, '_> {
    /// Goes on with the model of this name.
    pub(super) fn change_model(&mut self, name: &str) -> Outcome {
        let (given, cache) = (self.given, self.keeper.documents());
        match another_model::change(self.app, self.chat, cache, &given.setup, given.model, name) {
            Ok(reading) => {
                let name = self.chat.session().engine().model().name();
                let again = if self.chat.has_questions() { "; /regen asks it the last question" } else { "" };
                self.front_end.note(&format!("the model is {name} now{again}"));
                if let Err(error) = self.sample_for_model() {
                    self.front_end.note(&reread::report(error));
                }
                self.is_paused = false;
                match self.chat.has_questions() {
                    true => self.keeper.keep(self.app, self.chat, reading.elapsed),
                    // Where the time is not known, the reading says what is wrong.
                    false => _ = self.announce_reading(),
                }
                // Speeds of the old model say nothing about this one.
                self.read = Default::default();
                Outcome::Turn(TurnStats { reading, ..TurnStats::default() })
            }
            Err(error) => {
                self.front_end.note(&reread::report(error));
                Outcome::Nothing
            }
        }
    }

    /// Samples as is best for the model, except for what was given. Says what changes.
    fn sample_for_model(&mut self) -> Result<()> {
        let (model, given) = (self.chat.session().engine().model(), self.sampling.given.clone());
        let sampling = start::sampling(self.app, model, given, self.given.thinking, self.has_documents())?;
        sampling.apply(self.chat)?;
        let before = std::mem::replace(&mut self.sampling, sampling);
        let now = &self.sampling;
        if now.options().temperature != before.options().temperature {
            let (now, before) = (now.temperature(), before.temperature());
            self.front_end.note(&format!(
                "note: answers are sampled with {now} now, not with {before}; /set changes it"
            ));
        }
        if let (Some(most), Some(before)) = (now.answer_limit(), before.answer_limit())
            && most != before
        {
            let (most, before) = (format::count(most), format::count(before));
            self.front_end.note(&format!(
                "note: answers have at most {most} tokens now, not {before}; /set n changes it"
            ));
        }
        Ok(())
    }
}
