//! `longhand chat`: a conversation in the terminal, about documents if any are given. The documents are read
//! while the user types; later turns read only their question.

mod background;
mod commands;
mod complete;
mod conversation;
mod copy;
mod draft;
#[cfg(unix)]
mod editing;
mod editor;
mod export;
mod front_end;
mod history;
mod inbox;
mod keeper;
#[cfg(unix)]
mod keyboard;
mod keys;
mod kv_head;
mod kv_map;
mod outside;
mod replay;
mod reread;
mod resume_check;
mod screen;
mod settings;
mod start;
mod status;
mod summary;
mod thinking;

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use longhand::Chat;

pub use self::background::names;
use self::conversation::Ended;
use self::front_end::FrontEnd;
use self::inbox::End;
use self::keeper::Keeper;
use self::start::Opening;
use crate::app::App;
use crate::args::answer::AnswerArgs;
use crate::args::disk::DiskArgs;
use crate::args::model::{ModelArg, ModelArgs};
use crate::args::sampling::SamplingArgs;
use crate::args::session::SessionArgs;
use crate::failure::Failure;
use crate::{crash_save, failure, interrupt, turn};

/// Maximum tokens of an answer without -n.
const ANSWER_LIMIT: usize = 1024;

/// Chat with a model, about documents if any are given.
#[derive(Debug, Args)]
pub struct ChatArgs {
    #[command(flatten)]
    model_arg: ModelArg,
    /// Document to talk about: a file (text, HTML, PDF, DOCX, EPUB), a folder, or a pattern such as 'src/**/*.rs'. - is
    /// stdin. It is read while you type. Repeat for several
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Store the conversation in this file instead of the folder of kept conversations. If the file exists, the chat
    /// continues from it; what its saved cache holds is not read again. Flags that contradict it are an error
    #[arg(long = "session", value_name = "FILE", conflicts_with_all = ["resume", "private"])]
    session_file: Option<PathBuf>,
    /// Continue a kept conversation: the last one, or the one with this name in `longhand sessions list`
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    resume: Option<String>,
    /// Keep nothing of this conversation on the disk
    #[arg(long, conflicts_with = "resume")]
    private: bool,
    #[command(flatten)]
    disk: DiskArgs,
    /// System message, also -sys
    #[arg(long = "system-prompt", short_alias = 'p', alias = "prompt", value_name = "TEXT")]
    system: Option<String>,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    answer: AnswerArgs,
}

/// Runs the command.
pub fn run(app: &App, args: &ChatArgs) -> Result<()> {
    let app = &app.with_plain(args.answer.plain);
    let result = chat(app, args);
    match app.interrupt.ending() {
        // What went wrong after the signal was reported, if it matters.
        Some(signal) => Err(Failure::silent(u8::try_from(128 + signal).unwrap_or(1)).into()),
        None => result,
    }
}

/// Opens or starts a conversation, and has it.
fn chat(app: &App, args: &ChatArgs) -> Result<()> {
    if args.private {
        crash_save::save_nothing();
    }
    let opening = Opening::new(app, args)?;
    // After documents that come from the terminal. What is typed while the model is loaded is the first message.
    let mut front_end = FrontEnd::open(app, args.private)?;
    let setup = opening.setup().clone();
    front_end.hide_thinking(args.answer.hides_thinking());
    let (mut chat, mut keeper) = opening.begin(app)?;
    let ended = conversation::run(app, &mut front_end, &mut chat, &mut keeper, &setup);
    drop(front_end);
    turn::keep_reading(app, &mut chat, keeper.documents());
    finish(app, &chat, &mut keeper, ended)
}

/// The chat has ended, whatever the reason: saves what must not be lost.
fn finish(app: &App, chat: &Chat, keeper: &mut Keeper, ended: Result<Ended>) -> Result<()> {
    let is_saved = ended.as_ref().is_ok_and(|ended| ended.is_saved);
    // Who pipes questions in may look at nothing but the exit code.
    let answered = match &ended {
        Ok(Ended { why: End::Exit, is_unanswered: true, .. }) if !io::stdin().is_terminal() => {
            Err(Failure::silent(1))
        }
        _ => Ok(()),
    };
    let ended = match ended {
        Ok(Ended { why: End::Exit | End::Signal(_), .. }) => Ok(()),
        Ok(Ended { why: End::Interrupt, .. }) => Err(Failure::silent(interrupt::EXIT_CODE).into()),
        // The signal that says so may come later.
        Err(_) if terminal_is_gone() => {
            app.interrupt.end(interrupt::HANG_UP);
            Ok(())
        }
        Err(error) => Err(error),
    };
    let kept = if is_saved { Ok(()) } else { keeper.finish(app, chat) };
    let is_lost = ended.as_ref().is_err_and(|error| !failure::is_closed_pipe(error)) && keeper.is_missing();
    if is_lost || kept.is_err() {
        crash_save::save_and_report();
    }
    if let Err(error) = &kept
        && (ended.is_err() || app.interrupt.ending().is_some())
    {
        app.console.note(failure::report(error).text.trim_end());
    }
    ended.and(kept).and(answered.map_err(Into::into))
}

fn terminal_is_gone() -> bool {
    #[cfg(unix)]
    return crate::terminal::is_gone();
    #[cfg(not(unix))]
    false
}
