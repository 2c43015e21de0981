//! The loop of a chat: answers questions and runs commands until the chat ends.

mod actions;
mod compacting;
mod documents;
mod model_change;
mod sources;

use std::time::Duration;

use anyhow::Result;
use longhand::generation::{Generated, Stop};
use longhand::reading::Reading;
use longhand::text::split_thinking;
use longhand::{Chat, EngineError, Observer, SetupOptions};
use lookup::absent::Known;
use terminal::format;

use crate::app::App;
use crate::commands::chat::commands::Message;
use crate::commands::chat::commands::summary::summary;
use crate::commands::chat::front_end::FrontEnd;
use crate::commands::chat::inbox::{End, Next};
use crate::commands::chat::keeper::Keeper;
use crate::failure;
use crate::models::args::ModelArgs;
use crate::session::checked::Checker;
use crate::session::sampling::Sampling;
use crate::session::turn;

/// Tokens and times of a turn.
#[derive(Default)]
struct TurnStats {
    reading: Reading,
    /// Decode steps of the answer.
    steps: usize,
    /// Time for these steps.
    decoding: Duration,
}

/// What a message leads to.
enum Outcome {
    /// The conversation has changed.
    Turn(TurnStats),
    /// It has not.
    Nothing,
    /// The user wants to quit.
    Quit,
}

/// How a chat has ended.
pub struct Ended {
    pub why: End,
    /// Whether the conversation is saved.
    pub is_saved: bool,
    /// Whether the last question was not answered. The user was told why.
    pub is_unanswered: bool,
}

/// What the flags say.
pub struct Given<'a> {
    pub setup: SetupOptions,
    pub model: &'a ModelArgs,
    /// Whether the model thinks; `None` where its chat template decides.
    pub thinking: Option<bool>,
    /// How documents are read.
    pub documents: ::documents::Options,
    /// Whether it is found out where answers come from.
    pub sources: bool,
    /// Whether documents are read however long that takes.
    pub yes: bool,
}

/// Answers messages until the chat ends. `sampling` is how `chat` samples.
pub fn run(
    app: &App,
    front_end: &mut FrontEnd,
    chat: &mut Chat,
    keeper: &mut Keeper,
    given: &Given,
    sampling: Sampling,
) -> Result<Ended> {
    let (last, read) = (TurnStats::default(), Reading::default());
    let mut conversation = Conversation {
        app,
        front_end,
        chat,
        keeper,
        given,
        sampling,
        last,
        read,
        is_paused: false,
        is_wanted: given.yes,
        save_failed: false,
        is_unanswered: false,
        checker: Checker::default(),
    };
    conversation.announce_reading()?;
    loop {
        let message = match conversation.next()? {
            Next::Message(message) => message,
            Next::Stop => {
                // It may have ended meanwhile.
                if conversation.chat.has_unread_documents()? {
                    conversation.stop_reading();
                }
                continue;
            }
            Next::End(why) => return Ok(conversation.ended(why, false)),
        };
        match app.interrupt.in_steps(|| conversation.respond(message))? {
            Outcome::Turn(stats) => conversation.count(stats),
            Outcome::Nothing => {}
            Outcome::Quit if conversation.may_quit() => return Ok(conversation.ended(End::Exit, true)),
            Outcome::Quit => {}
        }
    }
}

struct Conversation<'a, 'b> {
    app: &'a App,
    front_end: &'a mut FrontEnd<'b>,
    chat: &'a mut Chat,
    keeper: &'a mut Keeper,
    given: &'a Given<'a>,
    /// How answers are sampled, and why.
    sampling: Sampling,
    last: TurnStats,
    /// All that was read.
    read: Reading,
    /// Whether the user has stopped the reading of documents.
    is_paused: bool,
    /// Whether the next documents are read however long that takes.
    is_wanted: bool,
    /// Whether the user knows that the conversation cannot be saved.
    save_failed: bool,
    /// Whether the last question was not answered.
    is_unanswered: bool,
    /// What stands in the documents.
    checker: Checker,
}

impl Conversation<'_, '_> {
    fn count(&mut self, stats: TurnStats) {
        self.read = self.read + stats.reading;
        self.last = stats;
    }

    fn ended(&self, why: End, is_saved: bool) -> Ended {
        Ended { why, is_saved, is_unanswered: self.is_unanswered }
    }

    fn respond(&mut self, message: Message) -> Result<Outcome> {
        self.front_end.begin_work();
        let outcome = match message {
            Message::Command(command) => self.obey(&command),
            Message::Question(question) | Message::Exact(question) if self.front_end.sent_revision() => {
                self.revise(&question)
            }
            Message::Question(question) => self.ask_about(&question),
            Message::Exact(question) => self.ask(&question),
        };
        self.front_end.end_work();
        outcome
    }

    /// Saves the conversation before the program ends. If that fails for the first time, the chat goes on, so that the
    /// user can save it elsewhere.
    fn may_quit(&mut self) -> bool {
        let Err(error) = self.keeper.finish(self.app, self.chat) else { return true };
        if !self.save_failed {
            self.front_end.note(failure::report(&error).text.trim_end());
            self.front_end
                .note("/save FILE saves the conversation elsewhere; /exit again quits without saving");
        }
        std::mem::replace(&mut self.save_failed, true)
    }

    /// Reads a question and answers it.
    fn ask(&mut self, question: &str) -> Result<Outcome> {
        self.is_unanswered = true;
        self.chat.record_sources(self.given.sources && self.has_documents())?;
        if self.chat.awaits_answer() {
            self.front_end.note(
                "note: the question before this one has no answer; the model reads both as one message",
            );
        }
        let reading = match turn::read_documents(self.app, self.chat, self.keeper.documents()) {
            Err(error) if !error.is_interrupt() => return self.documents_failed(error),
            documents => {
                documents.and_then(|documents| Ok(documents + turn::read(self.app, self.chat, question)?))
            }
        };
        self.answer_question(reading)
    }

    /// Reads a question in place of the last one, and answers it.
    fn revise(&mut self, question: &str) -> Result<Outcome> {
        self.is_unanswered = true;
        self.chat.record_sources(self.given.sources && self.has_documents())?;
        let reading = turn::revise(self.app, self.chat, question);
        self.answer_question(reading)
    }

    /// Answers a question that was read.
    fn answer_question(&mut self, reading: Result<Reading, EngineError>) -> Result<Outcome> {
        let reading = match reading {
            Err(error) if error.is_interrupt() => {
                self.front_end.note("interrupted: the question was not read");
                if self.chat.has_unread_documents()? {
                    self.stop_reading();
                }
                return Ok(Outcome::Nothing);
            }
            Err(EngineError::ContextFull { needed, context }) => {
                self.front_end.note(&context_full(needed, context));
                return Ok(Outcome::Nothing);
            }
            reading => reading?,
        };
        self.is_paused = false;
        self.keeper.keep(self.app, self.chat, reading.elapsed);
        self.answer(reading)
    }

    /// Generates the answer to what was read, and prints it.
    fn answer(&mut self, reading: Reading) -> Result<Outcome> {
        let known = self.checker.known(self.chat);
        let mut view = self.front_end.answer_view().compared_with(known.clone());
        let answer = turn::generate(self.app, self.chat, &mut |piece| view.push(piece))?;
        view.finish()?;
        Ok(self.finish_answer(reading, &answer, known.as_deref()))
    }

    /// Goes on with the last answer.
    fn go_on(&mut self) -> Result<Outcome> {
        if !self.chat.can_continue() {
            self.front_end
                .note("error: no answer was cut off\nhint: ask a question, or /regen gives another answer to the last one");
            return Ok(Outcome::Nothing);
        }
        let mut reporter = self.app.reporter();
        let chat = &mut *self.chat;
        let reading = self
            .app
            .interrupt
            .computing(|| chat.return_to_answer(&mut |progress| reporter.progress(progress)));
        drop(reporter);
        let reading = match reading {
            Err(error) if error.is_interrupt() => {
                self.front_end.note("interrupted: the answer is as it was");
                return Ok(Outcome::Nothing);
            }
            reading => reading?,
        };
        let shown = self.chat.messages().last().map_or_else(String::new, |last| last.content.clone());
        let known = self.checker.known(self.chat);
        let mut view = self.front_end.answer_view().compared_with(known.clone()).resume(&shown);
        let answer = turn::go_on(self.app, self.chat, &mut |piece| view.push(piece))?;
        view.finish()?;
        Ok(self.finish_answer(reading, &answer, known.as_deref()))
    }

    /// Keeps an answer, and says why it has ended. `known` is what stands in the documents.
    fn finish_answer(&mut self, reading: Reading, answer: &Generated, known: Option<&Known>) -> Outcome {
        self.is_unanswered = false;
        self.compare_answer(answer, known);
        let front_end = &self.front_end;
        self.app.console.status(&summary(self.chat, answer, &self.sampling));
        self.keeper.keep(self.app, self.chat, answer.elapsed);
        let (thinking, text) = split_thinking(&answer.text);
        let what = match thinking.is_some() && text.trim().is_empty() {
            true => "no answer yet: the thinking was cut off",
            false => "cut off",
        };
        match answer.stop {
            Stop::Interrupted => front_end.note("(interrupted)"),
            Stop::Length => {
                let tokens = format::count(answer.tokens.len());
                front_end.note(&format!("({what} after {tokens} tokens; /continue goes on)"));
            }
            Stop::Context => front_end.note(&format!(
                "({what} because the context is full; /ctx enlarges it, then /continue goes on; /clear starts a new conversation)",
            )),
            Stop::EndToken(_) | Stop::Complete | Stop::Text(_) => {}
        }
        Outcome::Turn(TurnStats { reading, steps: answer.steps, decoding: answer.elapsed })
    }

    /// Generates another answer to the last question, or its first one.
    fn regenerate(&mut self) -> Result<Outcome> {
        let awaits_answer = self.chat.awaits_answer();
        let is_of_another_model = self.chat.answered_by().last().is_some_and(Option::is_some);
        let mut reporter = self.app.reporter();
        let chat = &mut *self.chat;
        let mut on_progress = |progress| reporter.progress(progress);
        let reading = self.app.interrupt.computing(|| match awaits_answer {
            true => chat.return_to_answer(&mut on_progress).map(Some),
            false => chat.retract_answer(&mut on_progress),
        });
        drop(reporter);
        match reading {
            Ok(Some(reading)) => {
                if !awaits_answer && !is_of_another_model && self.chat.is_greedy() {
                    self.front_end.note(
                        "(the temperature is 0, so the answer will be the same; /set temp 0.8 varies it)",
                    );
                }
                self.answer(reading)
            }
            Ok(None) => {
                self.front_end.note("error: there is no question to answer\nhint: ask a question first");
                Ok(Outcome::Nothing)
            }
            Err(error) if error.is_interrupt() => {
                self.front_end.note("interrupted: nothing has changed");
                Ok(Outcome::Nothing)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The error and the hint for a question that does not fit the context.
pub(super) fn context_full(needed: usize, context: usize) -> String {
    let larger = larger_context(needed);
    let (needed, context) = (format::count(needed), format::count(context));
    format!(
        "error: the context is full: the conversation with this question has {needed} tokens, but the context is \
         {context}\n\
         hint: enlarge it with /ctx {larger}, or start a new conversation with /clear"
    )
}

/// The context to advise where a conversation of `needed` tokens does not fit: with room for answers and more
/// questions.
pub(super) fn larger_context(needed: usize) -> usize {
    const ROOM: usize = 4000;
    (needed + ROOM).next_multiple_of(1000)
}
