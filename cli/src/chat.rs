//! `longhand chat`: a conversation in the terminal, about documents if any are given. The documents are read
//! with the first question; later turns read only their question.

mod resume_check;
mod start;

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use longhand::{Chat, EngineError, Model, ModelSource, Observer, Reading, Stop};

use crate::app::App;
use crate::args::model::{ModelArg, ModelArgs};
use crate::args::sampling::SamplingArgs;
use crate::args::session::SessionArgs;
use crate::{console, crash_save, documents, failure, format, turn};

/// Maximum tokens of an answer without -n.
const ANSWER_LIMIT: usize = 1024;

const HELP: &str = "\
/help   show this list
/stats  show tokens and KV cache size, and the speed of the last turn
/regen  replace the last answer by a new one
/undo   remove the last question and its answer
/clear  start a new conversation about the same documents
/save   save the conversation to the file given with --session
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
    let source = args.model.source(args.model_arg.path.as_deref())?;
    let options = args.session.apply(args.model.setup_options(app))?;
    // Each question has one correct answer for the built-in model, so sampling could only make answers worse.
    let temperature = if matches!(source, ModelSource::Embedded) { 0.0 } else { 0.8 };
    let sampling = args.sampling.validate(temperature, ANSWER_LIMIT)?;
    let model = Model::open(source)?;
    // Before the documents are read: the process that this starts would keep a copy of them.
    model.chat_format()?;
    let documents = documents::read_all(&args.files)?;
    let mut chat = match args.session_file.as_deref() {
        // A file that cannot be looked at is not a new one: opening it gives the error.
        Some(path) if path.try_exists().unwrap_or(true) => {
            let saved = start::open_saved(path, args, &options, &model, &documents)?;
            start::resume(app, &model, &options, sampling, saved)?
        }
        path => {
            path.map_or(Ok(()), start::check_folder)?;
            start::start(app, args.system.as_deref(), &model, &options, sampling, &documents)?
        }
    };
    let ended = run_loop(app, args.session_file.as_deref(), &mut chat);
    let Some(path) = &args.session_file else {
        if ended.as_ref().is_err_and(|error| !failure::is_closed_pipe(error)) {
            crash_save::save_and_report();
        }
        return ended;
    };
    let saved = save(app, &chat, path);
    if let Err(error) = &saved {
        crash_save::save_and_report();
        if ended.is_err() {
            app.console.note(failure::report(error).text.trim_end());
        }
    }
    ended.and(saved)
}

/// Saves the conversation to a file.
fn save(app: &App, chat: &Chat, path: &Path) -> Result<()> {
    chat.save(path)?;
    app.console.note(&format!("saved the conversation to {}", path.display()));
    Ok(())
}

/// Answers questions and runs commands until the user quits.
fn run_loop(app: &App, session_file: Option<&Path>, chat: &mut Chat) -> Result<()> {
    let mut last = TurnStats::default();
    loop {
        let Some(line) = prompt_line(app)? else { return Ok(()) };
        match line.trim() {
            "" => continue,
            "/exit" | "/quit" => return Ok(()),
            "/help" => app.console.print(HELP)?,
            "/save" => match session_file {
                Some(path) => {
                    if let Err(error) = save(app, chat, path) {
                        app.console.note(failure::report(&error).text.trim_end());
                    }
                }
                None => app.console.note(
                    "error: there is no session file to save to\nhint: start the program with --session FILE",
                ),
            },
            "/stats" => app.console.print(&stats(chat, &last))?,
            "/clear" => {
                chat.clear();
                last = TurnStats::default();
                app.console.note("started a new conversation");
            }
            "/regen" => match regenerate(app, chat) {
                Ok(Some(stats)) => last = stats,
                Ok(None) => {
                    app.console.note("error: there is no answer to replace\nhint: ask a question first")
                }
                Err(error) if is_interrupt(&error) => undo(app, chat),
                Err(error) => return Err(error),
            },
            "/undo" => {
                undo(app, chat);
                last = TurnStats::default();
            }
            command if command.starts_with('/') => {
                let name = command.split_whitespace().next().unwrap_or(command);
                app.console
                    .note(&format!("error: there is no command {name}\nhint: type /help for the commands"));
            }
            question => match ask(app, chat, question) {
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
fn ask(app: &App, chat: &mut Chat, question: &str) -> Result<TurnStats> {
    let reading = turn::read(app, chat, question)?;
    answer(app, chat, reading)
}

/// Generates another answer to the last question. Returns `None` if there is no answer yet.
fn regenerate(app: &App, chat: &mut Chat) -> Result<Option<TurnStats>> {
    let mut reporter = app.reporter();
    let reading =
        app.interrupt.computing(|| chat.retract_answer(&mut |progress| reporter.progress(progress)))?;
    drop(reporter);
    reading.map(|reading| answer(app, chat, reading)).transpose()
}

/// Removes the last question and its answer.
fn undo(app: &App, chat: &mut Chat) {
    app.console.note(match chat.undo() {
        true => "removed the last question and its answer",
        false => "error: there is no question to remove\nhint: ask a question first",
    });
}

/// Generates the answer to what was read, and prints it to stdout.
fn answer(app: &App, chat: &mut Chat, reading: Reading) -> Result<TurnStats> {
    let answer = turn::generate(app, chat, &mut |piece| app.console.print_answer(piece))?;
    app.console.print("\n")?;
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
