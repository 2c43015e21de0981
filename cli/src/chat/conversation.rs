//! The loop of a chat: answers questions and runs commands until the chat ends.

use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use longhand::{Chat, EngineError, Generated, Observer, Reading, Stop};

use super::commands::{self, Message};
use super::complete::expand_home;
use super::copy::copy;
use super::export::export;
use super::front_end::{FrontEnd, Next};
use super::inbox::End;
use super::keeper::Keeper;
use super::replay::replay;
use super::status::status;
use super::thinking::think;
use crate::app::App;
use crate::args::values;
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
pub fn run(app: &App, front_end: &mut FrontEnd, chat: &mut Chat, keeper: &mut Keeper) -> Result<End> {
    let mut conversation =
        Conversation { app, front_end, chat, keeper, last: TurnStats::default(), save_failed: false };
    loop {
        let message = match conversation.front_end.next_message()? {
            Next::Message(message) => message,
            Next::End(end) => return Ok(end),
        };
        match app.interrupt.in_steps(|| conversation.respond(message))? {
            Outcome::Turn(stats) => conversation.last = stats,
            Outcome::Nothing => {}
            Outcome::Quit if conversation.may_quit() => return Ok(End::Done),
            Outcome::Quit => {}
        }
    }
}

struct Conversation<'a, 'b> {
    app: &'a App,
    front_end: &'a mut FrontEnd<'b>,
    chat: &'a mut Chat,
    keeper: &'a mut Keeper,
    last: TurnStats,
    /// Whether the user knows that the conversation cannot be saved.
    save_failed: bool,
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

    fn obey(&mut self, command: &str) -> Result<Outcome> {
        let (name, argument) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        match (name, argument.trim()) {
            ("/exit" | "/quit", "") => return Ok(Outcome::Quit),
            ("/help", "") => self.front_end.print(&commands::help())?,
            ("/stats", "") => self.front_end.print(&self.stats())?,
            ("/save", file) => self.save(file),
            ("/clear", "") => {
                self.chat.clear();
                self.keeper.begin_another();
                self.front_end.note("started a new conversation");
                return Ok(Outcome::Turn(TurnStats::default()));
            }
            ("/continue", "") => return self.go_on(),
            ("/history", "") => {
                self.report(replay(self.app, self.front_end, self.chat).map(|()| String::new()))?;
            }
            ("/copy", what) => self.report(copy(self.app, self.chat, what))?,
            ("/export", file) => self.report(export(self.chat, file))?,
            ("/think", what) => {
                let done = think(self.front_end, self.chat, what);
                self.report(done)?;
            }
            ("/regen", "") => return self.regenerate(),
            ("/undo", "") => return Ok(self.undo()),
            ("/ctx", tokens) => self.set_context(tokens),
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
        let reading = turn::read_documents(self.app, self.chat, self.keeper.documents())
            .and_then(|documents| Ok(documents + turn::read(self.app, self.chat, question)?));
        let reading = match reading {
            Err(error) if error.is_interrupt() => {
                self.front_end.note("interrupted: the question was not read");
                return Ok(Outcome::Nothing);
            }
            Err(EngineError::ContextFull { needed, context }) => {
                self.front_end.note(&context_full(needed, context));
                return Ok(Outcome::Nothing);
            }
            reading => reading?,
        };
        self.keeper.keep(self.app, self.chat, reading.elapsed);
        self.answer(reading)
    }

    /// Generates the answer to what was read, and prints it.
    fn answer(&mut self, reading: Reading) -> Result<Outcome> {
        let mut view = self.front_end.answer_view();
        let answer = turn::generate(self.app, self.chat, &mut |piece| view.push(piece))?;
        view.finish()?;
        Ok(self.finish_answer(reading, &answer))
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
        let mut view = self.front_end.resumed_view(&shown);
        let answer = turn::go_on(self.app, self.chat, &mut |piece| view.push(piece))?;
        view.finish()?;
        Ok(self.finish_answer(reading, &answer))
    }

    /// Keeps an answer, and says why it has ended.
    fn finish_answer(&mut self, reading: Reading, answer: &Generated) -> Outcome {
        let front_end = &self.front_end;
        self.app.console.status(&status(self.chat, answer));
        self.keeper.keep(self.app, self.chat, answer.elapsed);
        match answer.stop {
            Stop::Interrupted => front_end.note("(interrupted)"),
            Stop::Length => {
                let tokens = format::count(answer.tokens.len());
                front_end.note(&format!("(cut off after {tokens} tokens; /continue goes on)"));
            }
            Stop::Context => front_end.note(
                "(cut off because the context is full; /ctx enlarges it, then /continue goes on; /clear starts a new conversation)",
            ),
            Stop::EndToken(_) | Stop::Text(_) => {}
        }
        Outcome::Turn(TurnStats { reading, steps: answer.steps, decoding: answer.elapsed })
    }

    /// Generates another answer to the last question, or its first one.
    fn regenerate(&mut self) -> Result<Outcome> {
        if self.chat.awaits_answer() {
            return self.answer(Reading::default());
        }
        let mut reporter = self.app.reporter();
        let chat = &mut *self.chat;
        let reading =
            self.app.interrupt.computing(|| chat.retract_answer(&mut |progress| reporter.progress(progress)));
        drop(reporter);
        match reading {
            Ok(Some(reading)) => {
                if self.chat.is_greedy() {
                    self.front_end
                        .note("(the temperature is 0, so the answer will be the same; --temp 0.8 varies it)");
                }
                self.answer(reading)
            }
            Ok(None) => {
                self.front_end.note("error: there is no question to answer\nhint: ask a question first");
                Ok(Outcome::Nothing)
            }
            Err(error) if error.is_interrupt() => Ok(self.undo()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the last question and its answer.
    fn undo(&mut self) -> Outcome {
        let was_removed = self.chat.undo();
        self.keeper.keep(self.app, self.chat, Duration::ZERO);
        self.front_end.note(match was_removed {
            true => "removed the last question and its answer",
            false => "error: there is no question to remove\nhint: ask a question first",
        });
        Outcome::Turn(TurnStats::default())
    }

    /// Saves the conversation now, or a copy of it to this file.
    fn save(&mut self, file: &str) {
        let saved = match file {
            "" if !self.keeper.has_place() => {
                Err(Failure::new("this conversation is kept nowhere", "name a file: /save FILE").into())
            }
            "" => self.keeper.finish(self.app, self.chat),
            file => self.save_copy(&expand_home(file)),
        };
        if let Err(error) = saved {
            self.front_end.note(failure::report(&error).text.trim_end());
        }
    }

    /// Saves a copy of the conversation to a file, which must not exist.
    fn save_copy(&self, file: &Path) -> Result<()> {
        if file.exists() {
            let error = format!("{} exists already", file.display());
            return Err(Failure::new(error, "give the name of a new file").into());
        }
        self.chat.save(file)?;
        self.front_end.note(&format!("saved the conversation to {}", file.display()));
        Ok(())
    }

    /// Gives the conversation room for so many tokens.
    fn set_context(&mut self, tokens: &str) {
        let changed = match tokens {
            "" => Err(Failure::usage("no number of tokens is given", "for example: /ctx 32k").into()),
            tokens => values::tokens(tokens)
                .map_err(anyhow::Error::from)
                .and_then(|tokens| Ok(self.chat.set_context(tokens)?)),
        };
        self.front_end.note(&match changed {
            Ok(()) => {
                let context = self.chat.session().options().context;
                format!("the context is {} tokens now", format::count(context))
            }
            Err(error) => failure::report(&error).text.trim_end().to_owned(),
        });
    }

    /// Prints what a command has done, or why it could not.
    ///
    /// # Errors
    /// Where stdout cannot be written: that ends the chat.
    fn report(&self, done: Result<String>) -> Result<()> {
        match done {
            Ok(text) if text.is_empty() => {}
            Ok(text) => self.front_end.note(&text),
            Err(error) if error.is::<io::Error>() => return Err(error),
            Err(error) => self.front_end.note(failure::report(&error).text.trim_end()),
        }
        Ok(())
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
fn context_full(needed: usize, context: usize) -> String {
    /// What `/ctx` is advised to leave for the answer and more questions.
    const ROOM: usize = 4000;
    let larger = (needed + ROOM).next_multiple_of(1000);
    let (needed, context) = (format::count(needed), format::count(context));
    format!(
        "error: the context is full: the conversation with this question has {needed} tokens, but the context is \
         {context}\n\
         hint: enlarge it with /ctx {larger}, or start a new conversation with /clear"
    )
}
