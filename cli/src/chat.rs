//! `longhand chat`: a conversation in the terminal, about documents if any are given. The documents are read
//! with the first question; later turns read only their question.

mod keeper;
mod resume_check;
mod start;

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use keeper::Keeper;
use longhand::{Chat, EngineError, Observer, Reading, Stop};

use crate::app::App;
use crate::args::disk::DiskArgs;
use crate::args::model::{ModelArg, ModelArgs};
use crate::args::sampling::SamplingArgs;
use crate::args::session::SessionArgs;
use crate::failure::Failure;
use crate::{console, crash_save, failure, format, turn};

/// Maximum tokens of an answer without -n.
const ANSWER_LIMIT: usize = 1024;

const HELP: &str = "\
/help   show this list
/stats  show tokens and KV cache size, and the speed of the last turn
/regen  replace the last answer by a new one
/undo   remove the last question and its answer
/clear  start a new conversation about the same documents
/save   save the conversation now; /save FILE saves a copy to a new file
/exit   quit; Ctrl-D does the same
Ctrl-C  stop reading or answering; at the prompt, press it twice to quit without saving
";

/// Chat with a model, about documents if any are given.
#[derive(Debug, Args)]
pub struct ChatArgs {
    #[command(flatten)]
    model_arg: ModelArg,
    /// UTF-8 text file to talk about, read with the first question; repeat for several files
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Keep the conversation in this file, and not among the kept ones. If the file exists, the chat continues from
    /// it without reading anything again. Flags that contradict it are an error
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
}

/// Tokens and times of a turn.
#[derive(Default)]
struct TurnStats {
    reading: Reading,
    /// Decode steps of the answer.
    steps: usize,
    /// Time for these steps.
    decoding: Duration,
}

/// Runs the command.
pub fn run(app: &App, args: &ChatArgs) -> Result<()> {
    let (mut chat, mut keeper) = start::begin(app, args)?;
    let mut warned = false;
    loop {
        let ended = run_loop(app, &mut chat, &mut keeper);
        let kept = keeper.finish(app, &chat);
        match (ended, kept) {
            // The user may save it elsewhere. The next time the program ends.
            (Ok(End::Exit), Err(error)) if !warned => {
                app.console.note(failure::report(&error).text.trim_end());
                app.console
                    .note("/save FILE saves the conversation elsewhere; /exit again quits without saving");
                warned = true;
            }
            (Ok(End::Exit), Err(_)) => return Ok(()),
            (Ok(End::Input), Ok(())) | (Ok(End::Exit), Ok(())) => return Ok(()),
            (Ok(End::Input), Err(error)) => {
                crash_save::save_and_report();
                return Err(error);
            }
            (Err(error), kept) => {
                if let Err(lost) = kept {
                    crash_save::save_and_report();
                    app.console.note(failure::report(&lost).text.trim_end());
                }
                return Err(error);
            }
        }
    }
}

/// Why a conversation ended.
enum End {
    /// By a command.
    Exit,
    /// There is no more input.
    Input,
}

/// Answers questions and runs commands until the user quits.
fn run_loop(app: &App, chat: &mut Chat, keeper: &mut Keeper) -> Result<End> {
    let mut last = TurnStats::default();
    loop {
        let Some(line) = prompt_line(app)? else { return Ok(End::Input) };
        match line.trim() {
            "" => continue,
            "/exit" | "/quit" => return Ok(End::Exit),
            "/help" => app.console.print(HELP)?,
            "/save" => report_failure(app, keeper.finish(app, chat)),
            "/stats" => app.console.print(&stats(chat, &last))?,
            "/clear" => {
                chat.clear();
                keeper.begin_another();
                last = TurnStats::default();
                app.console.note("started a new conversation");
            }
            "/regen" => match regenerate(app, chat, keeper) {
                Ok(Some(stats)) => last = stats,
                Ok(None) => {
                    app.console.note("error: there is no question to answer\nhint: ask a question first")
                }
                Err(error) if is_interrupt(&error) => undo(app, chat),
                Err(error) => return Err(error),
            },
            "/undo" => {
                undo(app, chat);
                keeper.keep(app, chat, Duration::ZERO);
                last = TurnStats::default();
            }
            command if command.starts_with("/save ") => {
                report_failure(app, save_copy(app, chat, Path::new(command["/save".len()..].trim())));
            }
            command if command.starts_with('/') => {
                let name = command.split_whitespace().next().unwrap_or(command);
                app.console
                    .note(&format!("error: there is no command {name}\nhint: type /help for the commands"));
            }
            question => match ask(app, chat, keeper, question) {
                Ok(stats) => last = stats,
                Err(error) if is_interrupt(&error) => {
                    app.console.note("interrupted: the question was not read");
                }
                Err(error) => match error.downcast_ref() {
                    Some(EngineError::ContextFull { needed, context }) => {
                        app.console.note(&context_full(*needed, *context, chat.has_answers()));
                    }
                    _ => return Err(error),
                },
            },
        }
    }
}

/// Reads a question and answers it.
fn ask(app: &App, chat: &mut Chat, keeper: &mut Keeper, question: &str) -> Result<TurnStats> {
    let documents = turn::read_documents(app, chat, keeper.documents())?;
    let reading = documents + turn::read(app, chat, question)?;
    keeper.keep(app, chat, reading.elapsed);
    answer(app, chat, keeper, reading)
}

/// Generates another answer to the last question, or its first one. Returns `None` if there is no question.
fn regenerate(app: &App, chat: &mut Chat, keeper: &mut Keeper) -> Result<Option<TurnStats>> {
    if chat.awaits_answer() {
        return answer(app, chat, keeper, Reading::default()).map(Some);
    }
    let mut reporter = app.reporter();
    let reading =
        app.interrupt.computing(|| chat.retract_answer(&mut |progress| reporter.progress(progress)))?;
    drop(reporter);
    reading.map(|reading| answer(app, chat, keeper, reading)).transpose()
}

/// Removes the last question and its answer.
fn undo(app: &App, chat: &mut Chat) {
    app.console.note(match chat.undo() {
        true => "removed the last question and its answer",
        false => "error: there is no question to remove\nhint: ask a question first",
    });
}

/// Generates the answer to what was read, and prints it to stdout.
fn answer(app: &App, chat: &mut Chat, keeper: &mut Keeper, reading: Reading) -> Result<TurnStats> {
    let answer = turn::generate(app, chat, &mut |piece| app.console.print_answer(piece))?;
    app.console.print("\n")?;
    keeper.keep(app, chat, answer.elapsed);
    match answer.stop {
        Stop::Interrupted => app.console.note("(interrupted)"),
        Stop::Length => app.console.note("(cut off at the limit of tokens; -n sets the limit)"),
        Stop::Context => app.console.note(
            "(cut off because the context is full; /clear starts a new conversation, -c sets the context)",
        ),
        Stop::EndToken(_) | Stop::Text(_) => {}
    }
    Ok(TurnStats { reading, steps: answer.steps, decoding: answer.elapsed })
}

/// Reads the next line. Returns `None` at the end of the input. Lines that are not UTF-8 are skipped with an
/// error.
fn prompt_line(app: &App) -> Result<Option<String>> {
    loop {
        if app.console.stdout_terminal() {
            app.console.print(&app.console.paint(36, "> "))?;
        }
        let mut line = Vec::new();
        let read = app.interrupt.prompting(|| io::stdin().lock().read_until(b'\n', &mut line))?;
        console::line_ended();
        if read == 0 {
            if app.console.stdout_terminal() {
                app.console.print("\n")?;
            }
            return Ok(None);
        }
        match String::from_utf8(line) {
            Ok(line) => return Ok(Some(line)),
            Err(_) => app.console.note("error: the line is not UTF-8\nhint: check the terminal's encoding"),
        }
    }
}

/// Saves a copy of the conversation to a new file.
fn save_copy(app: &App, chat: &Chat, path: &Path) -> Result<()> {
    if path.exists() {
        return Err(Failure::new(
            format!("{}: there is a file already", path.display()),
            "give the name of a new file",
        )
        .into());
    }
    chat.save(path)?;
    app.console.note(&format!("saved the conversation to {}", path.display()));
    Ok(())
}

fn report_failure(app: &App, result: Result<()>) {
    if let Err(error) = result {
        app.console.note(failure::report(&error).text.trim_end());
    }
}

fn stats(chat: &Chat, last: &TurnStats) -> String {
    let usage = chat.session().kv_usage();
    format!(
        "tokens    {} of {}\nKV cache  {} of {} ({})\nread      {} tokens, {} t/s\nanswered  {} tokens, {} t/s\n",
        format::count(chat.tokens()),
        format::count(chat.session().options().context),
        format::bytes(usage.bytes),
        format::bytes(usage.full_bytes),
        format::percent(usage.share()),
        format::count(last.reading.tokens),
        format::speed(format::rate(last.reading.tokens, last.reading.elapsed)),
        format::count(last.steps),
        format::speed(format::rate(last.steps, last.decoding)),
    )
}

fn is_interrupt(error: &anyhow::Error) -> bool {
    error.downcast_ref::<EngineError>().is_some_and(EngineError::is_interrupt)
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
