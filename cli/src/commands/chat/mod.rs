//! `longhand chat`: a conversation in the terminal, about documents if any are given. The documents are read
//! while the user types; later turns read only their question.
//!
//! What is typed is read in a thread of its own (`line` on a terminal, `front_end.rs` otherwise) and handed over in `inbox`.
//! `conversation` takes it from there and answers. `commands` knows the words of commands and does what needs more than a few lines;
//! `conversation/actions.rs` does the rest.

mod background;
mod commands;
mod conversation;
mod front_end;
mod inbox;
mod keeper;
mod line;
mod outside;
mod start;
mod status;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use longhand::Chat;
use terminal::interrupt;

use self::commands::Message;
use self::conversation::{Ended, Given};
use self::front_end::FrontEnd;
use self::inbox::End;
use self::keeper::Keeper;
use self::start::Opening;
use crate::app::App;
use crate::args::answer::AnswerArgs;
use crate::args::disk::DiskArgs;
use crate::args::documents::DocumentArgs;
use crate::args::session::SessionArgs;
use crate::args::sources::SourcesArgs;
use crate::failure::{self, Failure};
use crate::models::args::ModelArgs;
use crate::session::sampling::args::SamplingArgs;
use crate::session::{bare_arguments, crash_save, prompts, turn};

/// Chat with a model, about documents if any are given.
#[derive(Debug, Args)]
#[command(override_usage = "longhand chat [OPTIONS] [MODEL] [FILE]...")]
pub struct ChatArgs {
    /// A model and documents. What exists as a file or a folder is a model file or a document. Other words are names in
    /// `longhand models`
    #[arg(value_name = "MODEL] [FILE")]
    arguments: Vec<OsString>,
    /// Document to talk about: a file (text, HTML, PDF, EPUB, office), pages of one (book.pdf:10-40), an https address, a folder,
    /// or a pattern such as 'src/**/*.rs'. - is stdin. It is read while you type. Repeat for several
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
    /// The first question, as if it were typed; can be repeated
    #[arg(short = 'p', long = "prompt", value_name = "QUESTION")]
    prompts: Vec<String>,
    /// A saved prompt as a first question, asked after those of -p: the text of NAME.txt or NAME.md in the folder prompts
    /// beside the config file; can be repeated
    #[arg(long = "prompt-name", value_name = "NAME")]
    prompt_names: Vec<String>,
    /// System message, also -sys
    #[arg(long = "system-prompt", value_name = "TEXT")]
    system: Option<String>,
    #[command(flatten)]
    documents: DocumentArgs,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    answer: AnswerArgs,
    #[command(flatten)]
    sources: SourcesArgs,
}

impl ChatArgs {
    /// Moves the arguments without a flag to where flags would have put them. Returns the first questions.
    fn sort(&mut self) -> Result<Vec<Message>, Failure> {
        let bare = bare_arguments::of_chat(&std::mem::take(&mut self.arguments), &self.model)?;
        self.model.add(bare.models);
        self.files.extend(bare.documents);
        let typed = self.prompts.iter().map(|question| Ok(Message::Question(question.clone())));
        // Nothing in a saved text is a path: nobody has typed it.
        let saved = self.prompt_names.iter().map(|name| prompts::load(name).map(Message::Exact));
        typed.chain(saved).collect()
    }
}

/// Runs the command.
pub fn run(app: &App, mut args: ChatArgs) -> Result<()> {
    let app = &app.with_plain(args.answer.plain);
    let questions = args.sort()?;
    let result = chat(app, &args, questions);
    match app.interrupt.ending() {
        // What went wrong after the signal was reported, if it matters.
        Some(signal) => Err(Failure::silent(u8::try_from(128 + signal).unwrap_or(1)).into()),
        None => result,
    }
}

/// Opens or starts a conversation, and has it.
fn chat(app: &App, args: &ChatArgs, questions: Vec<Message>) -> Result<()> {
    if args.private {
        crash_save::save_nothing();
    }
    let opening = Opening::new(app, args)?;
    // After documents that come from the terminal. What is typed while the model is loaded is the first message.
    let mut front_end = FrontEnd::open(app, args.private)?;
    let setup = opening.setup().clone();
    front_end.hide_thinking(args.answer.hides_thinking());
    let sampling = opening.sampling().clone();
    front_end.begin_with(questions);
    let (mut chat, mut keeper) = opening.begin(app)?;
    let given = Given {
        setup,
        model: &args.model,
        thinking: args.answer.thinking(),
        documents: args.documents.options()?,
        sources: args.sources.unless_off(),
        yes: args.answer.yes,
    };
    let ended = conversation::run(app, &mut front_end, &mut chat, &mut keeper, &given, sampling);
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
        Err(_) if terminal::tty::is_gone() => {
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
        let text = failure::report(error).text;
        // A lost server ends the answer, and what would be kept of it.
        if ended.as_ref().err().is_none_or(|ended| failure::report(ended).text != text) {
            app.console.note(text.trim_end());
        }
    }
    ended.and(kept).and(answered.map_err(Into::into))
}
