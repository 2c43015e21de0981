//! `/model`: another model goes on with the conversation.

use super::{Conversation, Outcome, TurnStats};
use crate::chat::{another_model, reread};
use crate::turn;

impl Conversation<'_, '_> {
    /// Goes on with the model of this name.
    pub(super) fn change_model(&mut self, name: &str) -> Outcome {
        let (given, cache) = (self.given, self.keeper.documents());
        match another_model::change(self.app, self.chat, cache, &given.setup, given.model, name) {
            Ok(reading) => {
                let name = self.chat.session().engine().model().name();
                let again = if self.chat.has_questions() { "; /regen asks it the last question" } else { "" };
                self.front_end.note(&format!("the model is {name} now{again}"));
                self.is_paused = false;
                match self.chat.has_questions() {
                    true => self.keeper.keep(self.app, self.chat, reading.elapsed),
                    // Where the time is not known, the reading says what is wrong.
                    false => _ = turn::announce_reading(self.app, self.chat, self.keeper.documents()),
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
}
