//! `/compact`: a summary in place of the conversation.

use anyhow::Result;
use longhand::EngineError;
use longhand::generation::{Generated, Stop};
use longhand::reading::Reading;
use terminal::format;

use crate::commands::chat::commands::compact;
use crate::commands::chat::conversation::{Conversation, Outcome, TurnStats, context_full};
use crate::commands::chat::start::reread;
use crate::session::turn;

impl Conversation<'_, '_> {
    /// Lets the model sum up the conversation, and goes on with the summary in its place.
    pub(super) fn compact(&mut self) -> Result<Outcome> {
        let limit = match compact::limit(self.chat) {
            Ok(limit) => limit,
            Err(error) => {
                self.front_end.note(&reread::report(error));
                return Ok(Outcome::Nothing);
            }
        };
        let questions = format::count(self.chat.conversation().len());
        self.front_end
            .note(&format!("summing up {questions} questions and answers; Ctrl-C leaves them as they are"));
        let before = self.chat.answer_limit();
        self.chat.set_answer_limit(Some(limit));
        let answer = self.ask_for_summary();
        self.chat.set_answer_limit(before);
        let Some((reading, answer)) = answer? else { return Ok(Outcome::Nothing) };
        if answer.stop == Stop::Interrupted {
            self.front_end.note("interrupted: nothing has changed");
            return Ok(Outcome::Nothing);
        }
        let first = compact::first_question(self.chat);
        match compact::replace(self.app, self.chat, self.keeper.documents(), &answer) {
            Ok((more, done)) => {
                let kept = match (self.keeper.name(), self.keeper.own_file()) {
                    (Some(name), _) => {
                        format!(". The conversation with them is kept: longhand chat --resume {name}")
                    }
                    (None, Some(file)) => {
                        format!(", as long as this chat runs: {} has only the summary now", file.display())
                    }
                    (None, None) => String::new(),
                };
                let done = done + &kept;
                self.keeper.begin_summary(first);
                self.keeper.keep(self.app, self.chat, answer.elapsed + more.elapsed);
                self.front_end.note(&done);
                let reading = reading + more;
                Ok(Outcome::Turn(TurnStats { reading, steps: answer.steps, decoding: answer.elapsed }))
            }
            Err(error) => {
                self.front_end.note(&reread::report(error));
                Ok(Outcome::Nothing)
            }
        }
    }

    /// Asks for a summary and shows it. The conversation is as it was before. `None` where there is none; the user was
    /// told why.
    fn ask_for_summary(&mut self) -> Result<Option<(Reading, Generated)>> {
        let cache = self.keeper.documents();
        let reading = turn::read_documents(self.app, self.chat, cache)
            .and_then(|documents| Ok(documents + turn::read(self.app, self.chat, compact::REQUEST)?));
        let reading = match reading {
            Ok(reading) => reading,
            Err(error) if error.is_interrupt() => {
                self.front_end.note("interrupted: nothing has changed");
                return Ok(None);
            }
            Err(EngineError::ContextFull { needed, context }) => {
                self.front_end.note(&context_full(needed, context));
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let mut view = self.front_end.answer_view();
        let answer = turn::generate(self.app, self.chat, &mut |piece| view.push(piece));
        self.chat.undo();
        let answer = answer?;
        view.finish()?;
        Ok(Some((reading, answer)))
    }
}
