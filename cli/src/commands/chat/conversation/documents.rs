//! Documents in a conversation: they are read while the user types, and `/read` and `/files` add and list them.

use std::fs;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use documents::Options;
use longhand::{ChatFormat, EngineError};
use terminal::format;

use crate::commands::chat::background;
use crate::commands::chat::conversation::{Conversation, Outcome, TurnStats, context_full, larger_context};
use crate::commands::chat::inbox::Next;
use crate::commands::chat::line::complete::document_path;
use crate::commands::chat::line::dropped::{self, Dropped};
use crate::commands::chat::start::reread;
use crate::failure::{self, Failure};
use crate::session::documents::Documents;
use crate::session::{speeds, turn};

impl Conversation<'_, '_> {
    /// Waits for the next message, and reads documents meanwhile.
    pub(super) fn next(&mut self) -> Result<Next> {
        let status = match self.front_end.status() {
            Some(status) if !self.is_paused && self.chat.has_unread_documents()? => status,
            _ => return self.front_end.next_message(),
        };
        let (interrupt, flag) = (&self.app.interrupt, self.app.interrupt.flag());
        let (chat, front_end, cache) = (&mut *self.chat, &mut *self.front_end, self.keeper.documents());
        // The last chunk may go on for a while behind the message: Ctrl-C is a key as long.
        let long = (!self.is_wanted).then_some(turn::LONG);
        let (next, read) = interrupt.prompting(|| {
            background::read_during(chat, cache, &status, &flag, long, || front_end.next_message())
        });
        match read {
            Ok(None) => self.is_paused = true,
            Ok(Some(reading)) => {
                if self.keeper.documents().is_some() {
                    speeds::remember(self.chat.session(), &reading);
                }
                self.count(TurnStats { reading: turn::cost(&reading), ..TurnStats::default() });
                self.keeper.keep(self.app, self.chat, reading.elapsed);
            }
            Err(error) if error.is_interrupt() => {}
            // It was shown above the prompt. Another attempt would show it again.
            Err(_) => self.is_paused = true,
        }
        next
    }

    /// Says how long the next documents take, where that is known. If it is long, they wait for `/read` or a question.
    pub(super) fn announce_reading(&mut self) -> Result<()> {
        let time = turn::announce_reading(self.app, self.chat, self.keeper.documents())?;
        let is_long = time.is_some_and(|time| time >= turn::LONG);
        self.is_wanted = self.given.yes;
        self.is_paused = is_long && !self.is_wanted && self.front_end.status().is_some();
        if self.is_paused {
            self.front_end.note(background::WAITS);
        }
        Ok(())
    }

    /// Reading stops until the user wants it to go on.
    pub(super) fn stop_reading(&mut self) {
        self.is_paused = true;
        let percent = format::whole_percent(self.chat.read_share());
        self.front_end.note(&format!(
            "reading stopped at {percent}. /read goes on, and so does a question. /files drop gives the documents up"
        ));
    }

    /// `/read` goes on reading, `/read PATH` adds a document.
    pub(super) fn read(&mut self, path: &str) -> Result<Outcome> {
        match path {
            "" => (self.is_paused, self.is_wanted) = (false, true),
            path if !self.add_typed_document(path) => return Ok(Outcome::Nothing),
            _ => {}
        }
        self.begin_reading()
    }

    /// Reads the documents that were added, unless they wait for the user.
    fn begin_reading(&mut self) -> Result<Outcome> {
        if self.is_paused || self.front_end.status().is_some() {
            return Ok(Outcome::Nothing);
        }
        // Without a prompt that shows how far it is, it is read now.
        match turn::read_documents(self.app, self.chat, self.keeper.documents()) {
            Ok(reading) => {
                self.keeper.keep(self.app, self.chat, reading.elapsed);
                Ok(Outcome::Turn(TurnStats { reading, ..TurnStats::default() }))
            }
            Err(error) if error.is_interrupt() => {
                self.stop_reading();
                Ok(Outcome::Nothing)
            }
            Err(error) => self.documents_failed(error),
        }
    }

    /// Whether a line that was typed is the path of a document, or mentions one.
    pub(super) fn names_documents(&self, line: &str) -> bool {
        // What is piped in is meant as it is.
        self.front_end.is_typed() && dropped::documents(line).is_some()
    }

    /// Reads the documents that a line is or mentions, and asks the question that it has.
    pub(super) fn read_dropped(&mut self, line: &str) -> Result<Outcome> {
        let Some(Dropped { paths, question }) = dropped::documents(line) else { return Ok(Outcome::Nothing) };
        for path in &paths {
            if !self.add_typed_document(path) {
                if !question.is_empty() {
                    self.front_end.note("the question was not asked");
                    self.front_end.put_back(line);
                }
                return Ok(Outcome::Nothing);
            }
        }
        if question.is_empty() {
            self.front_end.note("/files drop gives it up");
            return self.begin_reading();
        }
        self.ask(&question)
    }

    /// Asks a question, about the documents that it mentions.
    pub(super) fn ask_about(&mut self, question: &str) -> Result<Outcome> {
        if self.names_documents(question) {
            return self.read_dropped(question);
        }
        if let Some(file) = dropped::maybe_meant(question).filter(|_| self.front_end.is_typed()) {
            self.front_end.note(&format!("note: {file} is there, but is not read; /read {file} reads it"));
        }
        self.ask(question)
    }

    /// Says why documents could not be read, unless that ends the chat.
    pub(super) fn documents_failed(&mut self, error: EngineError) -> Result<Outcome> {
        if background::ends_chat(&error) {
            return Err(error.into());
        }
        // Another attempt would say it again.
        self.is_paused = true;
        match error {
            EngineError::ContextFull { needed, context } => {
                self.front_end.note(&context_full(needed, context));
            }
            error => {
                self.front_end.note(&reread::report(error.into()));
                self.front_end.note("/files drop gives the documents up");
            }
        }
        Ok(Outcome::Nothing)
    }

    /// Adds the documents at a path, or says why that is not possible. Returns whether it has.
    fn add_typed_document(&mut self, path: &str) -> bool {
        match self.add_document(path) {
            Ok(true) => return true,
            Ok(false) => self.front_end.note(&format!("interrupted: {path} was not read")),
            Err(error) => self.front_end.note(failure::report(&error).text.trim_end()),
        }
        false
    }

    /// Adds the documents at a path, which the next question is about. False after Ctrl-C.
    fn add_document(&mut self, path: &str) -> Result<bool> {
        if path == "-" {
            return Err(Failure::new("messages come from standard input", "give a file").into());
        }
        let (typed, model) = (path.to_owned(), self.chat.session().engine().model().clone());
        let options = self.given.documents.clone();
        let reading = self
            .app
            .interrupt
            .until_pressed(move |stop| read_and_count(&typed, &options, model.chat_format()?, stop));
        let Some(read) = reading.context("cannot start a thread")? else { return Ok(false) };
        let (documents, tokens) = read?;
        let held = self.chat.tokens().max(self.chat.tokens_with_documents()?);
        let context = self.chat.session().options().context;
        if held + tokens >= context {
            let larger = larger_context(held + tokens);
            let message = format!(
                "{path} has {} tokens, but {} of the context's {} are left",
                format::count(tokens),
                format::count(context.saturating_sub(held)),
                format::count(context)
            );
            return Err(Failure::new(message, format!("type /ctx {larger}, and then /read again")).into());
        }
        let (names, outline) = (documents.names().join(", "), documents.outline().clone());
        self.chat.attach_with_outline(&names, documents.text(), outline)?;
        documents.announce(self.app, self.chat.session().engine().model().chat_format()?, tokens)?;
        let policy = &self.chat.session().options().policy;
        if policy.reads_twice() && self.chat.has_questions() {
            self.front_end.note(&format!(
                "note: {} knows which rows are needed of the documents before the first question only. Of later ones the \
                 last rows stay, up to a quarter of what a head keeps. Begin again with all documents to ask about each",
                policy.name()
            ));
        }
        self.adapt_sampling()?;
        self.announce_reading()?;
        Ok(true)
    }

    /// Whether the conversation is about documents, or its next question is.
    pub(super) fn has_documents(&self) -> bool {
        !self.chat.read_document_names().is_empty() || !self.chat.next_documents().is_empty()
    }

    /// Answers about documents are sampled otherwise by default: says so when that changes.
    fn adapt_sampling(&mut self) -> Result<()> {
        let before = self.sampling.temperature();
        let has_documents = self.has_documents();
        self.sampling.set_documents(has_documents);
        self.sampling.apply(self.chat)?;
        let now = self.sampling.temperature();
        if now != before {
            self.front_end.note(&format!(
                "note: answers are sampled with {now} now, not with {before}; /set changes it"
            ));
        }
        Ok(())
    }

    /// `/files` lists the documents, `/files drop` removes those of the next question.
    pub(super) fn files(&mut self, argument: &str) -> Result<()> {
        match argument {
            "" => {}
            "drop" => {
                let names = self.chat.detach()?;
                self.adapt_sampling()?;
                self.is_paused = false;
                self.front_end.note(&match names.is_empty() {
                    true => "the next question has no documents".to_owned(),
                    false => format!("gave up {}", names.join(", ")),
                });
                return Ok(());
            }
            other => {
                self.front_end.note(&format!("error: /files takes nothing or drop, but {other} was given"));
                return Ok(());
            }
        }
        let (read, next) = (self.chat.read_document_names(), self.chat.next_documents());
        let state = match self.chat.has_unread_documents()? {
            true => format!("{} read, for the next question", format::whole_percent(self.chat.read_share())),
            false => "for the next question".to_owned(),
        };
        let lines = read
            .iter()
            .map(|name| format!("{name}\n"))
            .chain(next.iter().map(|name| format!("{name} ({state})\n")));
        let text: String = lines.collect();
        self.front_end.print_list(if text.is_empty() {
            "no documents; /read FILE reads one\n"
        } else {
            &text
        })?;
        Ok(())
    }
}

/// The documents at a path that was typed, and their tokens. `stop`: as for [`Documents::read_until`].
fn read_and_count(
    typed: &str,
    options: &Options,
    format: &ChatFormat,
    stop: &AtomicBool,
) -> Result<(Documents, usize)> {
    let path = document_path(typed);
    // A pipe may give nothing for ever, and a terminal gives the user's keys.
    if fs::metadata(&path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        let error = format!("{} is neither a file nor a folder", path.display());
        return Err(Failure::new(error, "give a file, a folder or a pattern").into());
    }
    let documents = Documents::read_until(&[path], options, stop)?;
    let tokens = format.count(documents.text().trim_end())?;
    Ok((documents, tokens))
}
