//! The loop of a chat: answers questions and runs commands until the chat ends.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use longhand::{Chat, EngineError, Observer, Reading, Stop};

use super::commands::{self, Message};
use super::complete::expand_home;
use super::front_end::{FrontEnd, Next};
use super::inbox::End;
use super::save;
use crate::app::App;
use crate::failure::Failure;
use crate::{failure, format, turn};

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

/// Answers messages until the chat ends. Returns why.
pub fn run(app: &App, front_end: &mut FrontEnd, chat: &mut Chat, session_file: Option<&Path>) -> Result<End> {
    let mut conversation = Conversation { app, front_end, chat, session_file, last: TurnStats::default() };
    loop {
        let message = match conversation.front_end.next_message()? {
            Next::Message(message) => message,
            Next::End(end) => return Ok(end),
        };
        match app.interrupt.in_steps(|| conversation.respond(message))? {
            Outcome::Turn(stats) => conversation.turn_has_ended(stats),
            Outcome::Nothing => {}
            Outcome::Quit => return Ok(End::Exit),
        }
    }
}

struct Conversation<'a, 'b> {
    app: &'a App,
    front_end: &'a mut FrontEnd<'b>,
    chat: &'a mut Chat,
    session_file: Option<&'a Path>,
    last: TurnStats,
}

impl Conversation<'_, '_> {
    fn respond(&mut self, message: Message) -> Result<Outcome> {
        self.front_end.begin_work();
        let outcome = match message {
            Message::Command(command) => self.obey(&command),
            Message::Question(question) => self.ask(&question),
        };
        self.front_end.end_work();
        outcome
    }

    /// An answer is complete, or the conversation was taken back or begun anew.
    fn turn_has_ended(&mut self, stats: TurnStats) {
        self.last = stats;
    }

    fn obey(&mut self, command: &str) -> Result<Outcome> {
        let (name, argument) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        match (name, argument.trim()) {
            ("/exit" | "/quit", "") => return Ok(Outcome::Quit),
            ("/help", "") => self.front_end.print(&commands::help())?,
            ("/stats", "") => self.front_end.print(&self.stats())?,
            ("/save", file) => self.save(file),
            ("/clear", "") => {
                self.chat.clear();
                self.front_end.note("started a new conversation");
                return Ok(Outcome::Turn(TurnStats::default()));
            }
            ("/regen", "") => return self.regenerate(),
            ("/undo", "") => return Ok(self.undo()),
            (name, argument) => {
                let is_known = commands::COMMANDS.iter().any(|known| known.name == name);
                self.front_end.note(&match is_known {
                    true => format!("error: {name} takes no argument, but {argument} was given\nhint: type {name} alone"),
                    false => format!(
                        "error: there is no command {name}\nhint: type /help for the commands, or // to begin a message with /"
                    ),
                });
            }
        }
        Ok(Outcome::Nothing)
    }

    /// Reads a question and answers it.
    fn ask(&mut self, question: &str) -> Result<Outcome> {
        let reading = match turn::read(self.app, self.chat, question) {
            Err(error) if error.is_interrupt() => {
                self.front_end.note("interrupted: the question was not read");
                return Ok(Outcome::Nothing);
            }
            Err(EngineError::ContextFull { needed, context }) => {
                self.front_end.note(&context_full(needed, context, self.chat.has_answers()));
                return Ok(Outcome::Nothing);
            }
            reading => reading?,
        };
        self.answer(reading)
    }

    /// Generates the answer to what was read, and prints it.
    fn answer(&mut self, reading: Reading) -> Result<Outcome> {
        let front_end = &self.front_end;
        let answer = turn::generate(self.app, self.chat, &mut |piece| front_end.print_answer(piece))?;
        front_end.print("\n")?;
        match answer.stop {
            Stop::Interrupted => front_end.note("(interrupted)"),
            Stop::Length => front_end.note("(cut off at the limit of tokens; -n sets the limit)"),
            Stop::Context => front_end.note(
                "(cut off because the context is full; /clear starts a new conversation, -c sets the context)",
            ),
            Stop::EndToken(_) | Stop::Text(_) => {}
        }
        Ok(Outcome::Turn(TurnStats { reading, steps: answer.steps, decoding: answer.elapsed }))
    }

    /// Generates another answer to the last question.
    fn regenerate(&mut self) -> Result<Outcome> {
        let mut reporter = self.app.reporter();
        let chat = &mut *self.chat;
        let reading =
            self.app.interrupt.computing(|| chat.retract_answer(&mut |progress| reporter.progress(progress)));
        drop(reporter);
        match reading {
            Ok(Some(reading)) => self.answer(reading),
            Ok(None) => {
                self.front_end.note("error: there is no answer to replace\nhint: ask a question first");
                Ok(Outcome::Nothing)
            }
            Err(error) if error.is_interrupt() => Ok(self.undo()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the last question and its answer.
    fn undo(&mut self) -> Outcome {
        let was_removed = self.chat.undo();
        self.front_end.note(match was_removed {
            true => "removed the last question and its answer",
            false => "error: there is no question to remove\nhint: ask a question first",
        });
        Outcome::Turn(TurnStats::default())
    }

    /// Saves the conversation to this file, or to the session file if none is named.
    fn save(&self, file: &str) {
        let saved = match (file, self.session_file) {
            ("", None) => Err(Failure::new(
                "there is no session file to save to",
                "name one: /save FILE; or start the program with --session FILE",
            )
            .into()),
            ("", Some(path)) => save(self.app, self.chat, path),
            (file, _) => self.save_elsewhere(&expand_home(file)),
        };
        if let Err(error) = saved {
            self.front_end.note(failure::report(&error).text.trim_end());
        }
    }

    /// Saves the conversation to another file, which must not exist.
    fn save_elsewhere(&self, file: &Path) -> Result<()> {
        if file.exists() && self.session_file != Some(file) {
            let error = format!("{} exists already", file.display());
            return Err(Failure::new(error, "give the name of a new file").into());
        }
        save(self.app, self.chat, file)
    }

    fn stats(&self) -> String {
        let usage = self.chat.session().kv_usage();
        format!(
            "tokens    {} of {}\nKV cache  {} of {} ({})\nread      {} tokens, {} t/s\nanswered  {} tokens, {} t/s\n",
            format::count(self.chat.tokens()),
            format::count(self.chat.session().options().context),
            format::bytes(usage.bytes),
            format::bytes(usage.full_bytes),
            format::percent(usage.share()),
            format::count(self.last.reading.tokens),
            format::speed(format::rate(self.last.reading.tokens, self.last.reading.elapsed)),
            format::count(self.last.steps),
            format::speed(format::rate(self.last.steps, self.last.decoding)),
        )
    }
}

/// The error and the hint for a question that does not fit the context.
fn context_full(needed: usize, context: usize, has_answers: bool) -> String {
    let (needed, context) = (format::count(needed), format::count(context));
    let advice = if has_answers { "start a new conversation with /clear" } else { "ask a shorter question" };
    format!(
        "error: the context is full: the conversation with this question has {needed} tokens, but the context is \
         {context}\n\
         hint: {advice}, or restart the program with a larger context (-c)"
    )
}
