//! `longhand chat`: a conversation in the terminal, about documents if any are given. The documents are read
//! with the first question; later turns read only their question.

mod commands;
mod complete;
mod conversation;
mod draft;
#[cfg(unix)]
mod editing;
mod editor;
mod front_end;
mod history;
mod inbox;
#[cfg(unix)]
mod keyboard;
mod keys;
mod outside;
mod resume_check;
mod screen;
mod start;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use longhand::{Chat, Model, ModelSource};

use self::front_end::FrontEnd;
use self::inbox::End;
use crate::app::App;
use crate::args::model::{ModelArg, ModelArgs};
use crate::args::sampling::SamplingArgs;
use crate::args::session::SessionArgs;
use crate::failure::Failure;
use crate::{crash_save, documents, failure, interrupt};

/// Maximum tokens of an answer without -n.
const ANSWER_LIMIT: usize = 1024;

/// Chat with a model, about documents if any are given.
#[derive(Debug, Args)]
pub struct ChatArgs {
    #[command(flatten)]
    model_arg: ModelArg,
    /// UTF-8 text file to talk about, read with the first question; repeat for several files
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Save the conversation and its cache here when the chat ends. If the file exists, the chat continues
    /// from it without reading anything again, and flags that contradict it are an error
    #[arg(long = "session", value_name = "FILE")]
    session_file: Option<PathBuf>,
    /// System message, also -sys
    #[arg(long = "system-prompt", short_alias = 'p', alias = "prompt", value_name = "TEXT")]
    system: Option<String>,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// Runs the command.
pub fn run(app: &App, args: &ChatArgs) -> Result<()> {
    let result = chat(app, args);
    match app.interrupt.ending() {
        // What went wrong after the signal was reported, if it matters.
        Some(signal) => Err(Failure::silent(u8::try_from(128 + signal).unwrap_or(1)).into()),
        None => result,
    }
}

/// Opens or starts a conversation, and has it.
fn chat(app: &App, args: &ChatArgs) -> Result<()> {
    let source = args.model.source(args.model_arg.path.as_deref())?;
    let options = args.session.apply(args.model.setup_options(app))?;
    // Each question has one correct answer for the built-in model, so sampling could only make answers worse.
    let temperature = if matches!(source, ModelSource::Embedded) { 0.0 } else { 0.8 };
    let sampling = args.sampling.validate(temperature, ANSWER_LIMIT)?;
    let model = Model::open(source)?;
    // Before the documents are read: the process that this starts would keep a copy of them.
    model.chat_format()?;
    let documents = documents::read_all(&args.files)?;
    // After documents that come from the terminal. What is typed while the model is loaded is the first message.
    let mut front_end = FrontEnd::open(app)?;
    let mut chat = match args.session_file.as_deref() {
        Some(path) if path.exists() => {
            let saved = start::open_saved(path, args, &options, &model, &documents)?;
            start::resume(app, &model, &options, sampling, saved)?
        }
        path => {
            path.map_or(Ok(()), start::check_folder)?;
            start::start(app, args.system.as_deref(), &model, &options, sampling, &documents)?
        }
    };
    let ended = conversation::run(app, &mut front_end, &mut chat, args.session_file.as_deref());
    drop(front_end);
    finish(app, args.session_file.as_deref(), &chat, ended)
}

/// The chat has ended, whatever the reason: saves what must not be lost.
fn finish(app: &App, session_file: Option<&Path>, chat: &Chat, ended: Result<End>) -> Result<()> {
    let ended = match ended {
        Ok(End::Abandon) => return Err(Failure::silent(interrupt::EXIT_CODE).into()),
        Ok(End::Exit | End::Signal(_)) => Ok(()),
        // The signal that says so may come later.
        Err(_) if terminal_is_gone() => {
            app.interrupt.end(interrupt::HANG_UP);
            Ok(())
        }
        Err(error) => Err(error),
    };
    let Some(path) = session_file else {
        if ended.as_ref().is_err_and(|error| !failure::is_closed_pipe(error)) {
            crash_save::save_and_report();
        }
        return ended;
    };
    let saved = save(app, chat, path);
    if let Err(error) = &saved {
        crash_save::save_and_report();
        if ended.is_err() || app.interrupt.ending().is_some() {
            app.console.note(failure::report(error).text.trim_end());
        }
    }
    ended.and(saved)
}

fn terminal_is_gone() -> bool {
    #[cfg(unix)]
    return crate::terminal::is_gone();
    #[cfg(not(unix))]
    false
}

/// Saves the conversation to a file.
fn save(app: &App, chat: &Chat, path: &Path) -> Result<()> {
    chat.save(path)?;
    app.console.note(&format!("saved the conversation to {}", path.display()));
    Ok(())
}
