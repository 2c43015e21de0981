//! Where the answers of a chat come from, and what of them stands in no document.

use anyhow::Result;
use longhand::generation::Generated;
use longhand::text::split_thinking;
use lookup::absent::Known;

use crate::commands::chat::background::ends_chat;
use crate::commands::chat::conversation::Conversation;
use crate::failure;
use crate::session::checked;
use crate::session::sources::AnswerSources;

impl Conversation<'_, '_> {
    /// Finds out where an answer that was just written comes from, and says so in lines below it.
    pub(super) fn compare_answer(&mut self, answer: &Generated, known: Option<&Known>) {
        let Some(known) = known else { return };
        if let Some(line) = checked::line(known, &answer.text) {
            self.app.console.status(&line);
        }
        if !self.chat.records_sources() || split_thinking(&answer.text).1.trim().is_empty() {
            return;
        }
        match AnswerSources::of_last_answer(self.app, self.chat) {
            Ok(sources) => {
                if let Some(line) = sources.line() {
                    self.app.console.status(&line);
                }
            }
            // What ends the chat is said when the next question is read.
            Err(error) if error.is_interrupt() || ends_chat(&error) => {}
            Err(error) => self.front_end.note(failure::report(&error.into()).text.trim_end()),
        }
    }

    /// `/sources`: the sentences that the last answer comes from.
    pub(super) fn show_sources(&self) -> Result<()> {
        let why_not = || match (self.chat.has_answers(), self.has_documents(), self.given.sources) {
            (false, ..) => "error: there is no answer yet\nhint: ask a question about a document",
            (_, false, _) => {
                "error: there are no documents that the answer could come from\nhint: /read FILE reads one"
            }
            (.., false) => {
                "error: sources are off\nhint: start the chat without --sources=off, and without this setting"
            }
            _ => {
                "error: where the last answer comes from is not known: it was written before this chat began\n\
                 hint: /regen answers again"
            }
        };
        match AnswerSources::kept_of_last_answer(self.chat) {
            Some(sources) => self.front_end.print_list(&sources.list())?,
            None => self.front_end.note(why_not()),
        }
        Ok(())
    }
}
