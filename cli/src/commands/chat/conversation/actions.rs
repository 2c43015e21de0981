//! What each command of a chat does.

use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use longhand::Chat;
use longhand::reading::Reading;
use terminal::format;
use terminal::suggest::did_you_mean;

use crate::commands::chat::commands::copy::copy;
use crate::commands::chat::commands::export::export;
use crate::commands::chat::commands::habits::{Habit, habit};
use crate::commands::chat::commands::kv_map::{self, View};
use crate::commands::chat::commands::thinking::think;
use crate::commands::chat::commands::{self, another_model, compact, documents, kv_head, settings};
use crate::commands::chat::conversation::{Conversation, Outcome, TurnStats};
use crate::commands::chat::line::complete::new_path;
use crate::commands::chat::start::replay::replay;
use crate::commands::chat::start::reread;
use crate::commands::heads;
use crate::failure::{self, Failure};
use crate::session::prompts;

/// The name of a command and what is behind it.
fn parts(command: &str) -> (&str, &str) {
    let (name, argument) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    (name, argument.trim())
}

impl Conversation<'_, '_> {
    /// Does what a command says.
    pub(super) fn obey(&mut self, command: &str) -> Result<Outcome> {
        let (name, argument) = parts(command);
        match habit(name, argument) {
            Some(Habit::Command(ours)) => self.obey_ours(&ours),
            Some(Habit::Advice(advice)) => {
                let command = command.trim();
                self.front_end.note(&format!("error: there is no command {command}\nhint: {advice}"));
                Ok(Outcome::Nothing)
            }
            None => self.obey_ours(command),
        }
    }

    /// The same for a command of this program.
    fn obey_ours(&mut self, command: &str) -> Result<Outcome> {
        let (name, argument) = parts(command);
        match (name, argument) {
            ("/exit", "") => return Ok(Outcome::Quit),
            ("/help", "") => self.front_end.print(&commands::help(View::new(self.app.console).width))?,
            ("/stats", "") => self.front_end.print_list(&self.stats())?,
            ("/save", file) => self.save(file),
            ("/clear", "") => {
                self.chat.clear();
                self.keeper.begin_another();
                self.front_end.note("started a new conversation");
                return Ok(Outcome::Turn(TurnStats::default()));
            }
            ("/read", path) => return self.read(path),
            ("/files", argument) => self.files(argument)?,
            ("/show", asked) => {
                let shown = documents::show(self.chat, asked);
                self.show_text(shown)?;
            }
            ("/find", words) => {
                let found = documents::find(self.app, self.chat, words);
                // Its parts are free of control sequences, and it has colours.
                match found {
                    Ok(text) => self.app.console.print(&text)?,
                    Err(error) => self.front_end.note(failure::report(&error).text.trim_end()),
                }
            }
            ("/sources", "") => self.show_sources()?,
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
            ("/compact", "") => return self.compact(),
            ("/model", "") => self.front_end.print_list(&another_model::shown(self.chat))?,
            ("/model", name) => return Ok(self.change_model(name)),
            ("/prompt", "") => self.front_end.print_list(&prompts::listed())?,
            ("/prompt", name) => return self.ask_prompt(name),
            ("/regen" | "/continue" | "/edit", _) if compact::ends_with_summary(self.chat) => {
                self.front_end.note(
                    "error: the last answer is a summary\nhint: /undo brings the conversation back if this chat has made \
                     it, until /model or /system; or ask a question",
                );
            }
            ("/regen", "") => return self.regenerate(),
            ("/undo", "") => return Ok(self.undo()),
            ("/ctx", tokens) => return Ok(self.change_context(tokens)),
            ("/kv", "") => self.front_end.print(&kv_map::report(View::new(self.app.console), self.chat))?,
            ("/kv", head) => self.show(kv_head::report(View::new(self.app.console), self.chat, head))?,
            ("/heads", "") => self.show(heads::of_session(self.app.console, self.chat.session()))?,
            ("/policy", "") => {
                let width = View::new(self.app.console).width;
                self.front_end.print(&reread::policy(self.chat.session(), width))?;
            }
            ("/policy", policy) => return Ok(self.change_policy(policy)),
            ("/set", "") => self.front_end.print(&settings::list(&self.sampling))?,
            ("/set", setting) => {
                let changed = settings::change(&mut self.sampling, self.chat, setting);
                self.front_end.note(changed.unwrap_or_else(|error| failure::report(&error).text).trim_end());
            }
            ("/system", "") => self.front_end.print_list(&reread::system(self.chat))?,
            ("/system", text) => return Ok(self.change_system(text)),
            ("/edit", question) => return self.edit(question),
            _ if self.names_documents(command) => return self.read_dropped(command),
            (name, argument) => {
                let known = || commands::all().map(|known| known.name);
                self.front_end.note(&match known().any(|known| known == name) {
                    true => format!(
                        "error: {name} takes no argument, but {argument} was given\nhint: type {name} alone"
                    ),
                    false => format!(
                        "error: there is no command {name}\n\
                         hint: {}type /help for the commands, or // to begin a message with /",
                        did_you_mean(name, known())
                    ),
                });
            }
        }
        Ok(Outcome::Nothing)
    }

    /// Removes the last question and its answer.
    pub(super) fn undo(&mut self) -> Outcome {
        let was_summary = compact::ends_with_summary(self.chat);
        let was_removed = self.chat.undo();
        if was_removed {
            self.keeper.keep(self.app, self.chat, Duration::ZERO);
        }
        self.front_end.note(match was_removed {
            true if was_summary && self.chat.has_questions() => "brought the questions and answers back",
            true => "removed the last question and its answer",
            false => "error: there is no question to remove\nhint: ask a question first",
        });
        Outcome::Turn(TurnStats::default())
    }

    /// Changes the last question: to this one, or as the user edits it.
    fn edit(&mut self, question: &str) -> Result<Outcome> {
        let note = match self.chat.last_question() {
            None => "error: there is no question to change\nhint: ask a question first",
            Some(_) if !question.is_empty() => return self.revise(question),
            Some(last) if self.front_end.revise(last) => {
                "change the question and press Enter; Ctrl-C leaves it as it was"
            }
            Some(_) => {
                "error: the question can be edited at a terminal only\nhint: give the new one: /edit NEW QUESTION"
            }
        };
        self.front_end.note(note);
        Ok(Outcome::Nothing)
    }

    /// Asks a saved prompt.
    fn ask_prompt(&mut self, name: &str) -> Result<Outcome> {
        match prompts::load(name) {
            Ok(prompt) => {
                let shown = self.app.console.paint(36, &format!("> {}", self.app.console.sanitize(&prompt)));
                self.front_end.print(&format!("{shown}\n"))?;
                self.ask(&prompt)
            }
            Err(error) => {
                self.front_end.note(failure::report(&error.into()).text.trim_end());
                Ok(Outcome::Nothing)
            }
        }
    }

    /// Goes on under another policy.
    fn change_policy(&mut self, policy: &str) -> Outcome {
        let reading = reread::change_policy(self.app, self.chat, &self.given.setup, policy);
        self.reread(reading, |chat| {
            let (session, usage) = (chat.session(), chat.session().kv_usage());
            let kept = format::bytes_of(usage.bytes, usage.full_bytes);
            format!("the policy is {} now; the KV cache has {kept}", session.options().policy)
        })
    }

    /// Goes on with another system message.
    fn change_system(&mut self, text: &str) -> Outcome {
        let reading = reread::change_system(self.app, self.chat, text);
        self.reread(reading, |_| "the system message is changed".to_owned())
    }

    /// Gives the conversation room for so many tokens.
    fn change_context(&mut self, tokens: &str) -> Outcome {
        let reading = reread::change_context(self.app, self.chat, tokens);
        // What did not fit may fit now.
        self.is_paused &= reading.is_err();
        self.reread(reading, |chat| {
            format!("the context is {} tokens now", format::count(chat.session().options().context))
        })
    }

    /// The conversation was read again, or an error left it as it was.
    fn reread(&mut self, reading: Result<Reading>, done: impl Fn(&Chat) -> String) -> Outcome {
        match reading {
            Ok(reading) => {
                self.front_end.note(&done(self.chat));
                if self.chat.has_questions() {
                    self.keeper.keep(self.app, self.chat, reading.elapsed);
                }
                Outcome::Turn(TurnStats { reading, ..TurnStats::default() })
            }
            Err(error) => {
                self.front_end.note(&reread::report(error));
                Outcome::Nothing
            }
        }
    }

    /// Prints a text of the program, or notes the error.
    fn show(&self, text: Result<String>) -> Result<()> {
        match text {
            Ok(text) => self.front_end.print(&text)?,
            Err(error) => self.front_end.note(failure::report(&error).text.trim_end()),
        }
        Ok(())
    }

    /// Prints a text that quotes documents, or notes the error.
    fn show_text(&self, text: Result<String>) -> Result<()> {
        match text {
            Ok(text) => self.app.console.print_answer(&text)?,
            Err(error) => self.front_end.note(failure::report(&error).text.trim_end()),
        }
        Ok(())
    }

    /// Saves the conversation now, or a copy of it to this file.
    fn save(&mut self, file: &str) {
        let saved = match file {
            "" if !self.keeper.has_place() => {
                Err(Failure::new("this conversation is kept nowhere", "name a file: /save FILE").into())
            }
            "" => self.keeper.finish(self.app, self.chat),
            file => self.save_copy(&new_path(file)),
        };
        if let Err(error) = saved {
            self.front_end.note(failure::report(&error).text.trim_end());
        }
    }

    /// Saves a copy of the conversation to a file, which must not exist.
    fn save_copy(&self, file: &Path) -> Result<()> {
        if let Ok(found) = file.symlink_metadata() {
            let what = if found.is_symlink() { ": it is a link" } else { "" };
            let error = format!("{} exists already{what}", file.display());
            return Err(Failure::new(error, "give the name of a new file").into());
        }
        self.chat.save_new(file)?;
        self.front_end.note(&format!("saved the conversation to {}", file.display()));
        Ok(())
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
            format::count(self.chat.context_used()),
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
