//! `longhand chat`: a line in, an answer out, about documents if some are given. Later turns run against the store as the first
//! one left it.

use std::io::{self, BufRead};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use longhand::{
    Chat, ChatOptions, Context, EngineError, Model, ModelSource, Observer, Preamble, Reading, SavedChat,
    Setup, SetupOptions,
};
use longhand::{Generated, Stop};

use crate::app::App;
use crate::args::model::{ModelArg, ModelArgs};
use crate::args::sampling::{Sampling, SamplingArgs};
use crate::args::session::SessionArgs;
use crate::failure::{self, Failure};
use crate::{console, crash_save, documents, format, resume_check};

/// Most tokens of an answer where -n does not say otherwise.
const ANSWER: usize = 1024;

const HELP: &str = "\
/help   this list
/stats  tokens, KV bytes and speed of the last turn
/regen  take the last answer back and give another
/undo   take the last question and its answer back
/clear  start the conversation anew, documents included
/save   keep the conversation in the file of --session
/exit   quit (so does Ctrl-D; Ctrl-C twice quits too, and keeps nothing)
Ctrl-C ends an answer, or the reading of a text.
";

/// Chat with a model, about documents if any are given.
#[derive(Debug, Args)]
pub struct ChatArgs {
    #[command(flatten)]
    model_arg: ModelArg,
    /// UTF-8 text file to talk about, read with the first question; repeat for several files
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Save the conversation and its cache to this file at the end; if the file exists, continue the conversation in it
    /// without reading anything again. Flags that ask for another cache than the saved one are refused
    #[arg(long = "session", value_name = "FILE")]
    session_file: Option<PathBuf>,
    /// System message
    #[arg(short = 'p', long = "prompt", visible_alias = "system-prompt", value_name = "TEXT")]
    system: Option<String>,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// What the last turn took.
#[derive(Default)]
struct LastTurn {
    read: Reading,
    steps: usize,
    generating: Duration,
}

/// Runs the command.
pub fn run(app: &App, args: &ChatArgs) -> Result<()> {
    let source = args.model.source(args.model_arg.path.as_deref())?;
    let asked = args.session.apply(args.model.setup(app))?;
    // The small model knows one right answer to a question, and chance would only spoil it.
    let temperature = if matches!(source, ModelSource::Embedded) { 0.0 } else { 0.8 };
    let sampling = args.sampling.validate(temperature, ANSWER)?;
    let documents = documents::read_all(&args.files)?;
    let model = Model::open(source)?;
    let saved = match args.session_file.as_deref().filter(|path| path.exists()) {
        Some(path) => Some(open_saved(path, args, &asked, &model, &documents)?),
        None => None,
    };
    check_folder(args.session_file.as_deref())?;
    let mut chat = match saved {
        Some(saved) => resume(app, &model, &asked, sampling, saved)?,
        None => begin(app, args, &model, asked, sampling, &documents)?,
    };
    let done = talk(app, args, &mut chat);
    if let (Ok(()), Some(path)) = (&done, &args.session_file) {
        save(app, &chat, path)?;
    }
    done
}

/// A file that holds a conversation. Refuses flags that ask for another one; how many tokens are computed at a time can still be
/// chosen.
fn open_saved(
    path: &Path,
    args: &ChatArgs,
    asked: &SetupOptions,
    model: &Arc<Model>,
    documents: &str,
) -> Result<SavedChat> {
    let mut saved = SavedChat::open(path)?;
    saved.check(model)?;
    let mut differences = resume_check::differences(saved.options(), asked, model)?;
    if args.system.is_some() && args.system.as_deref() != saved.system() {
        let which = if saved.system().is_some() { "another" } else { "no" };
        differences.push(format!("{which} system message (-p)"));
    }
    if !args.files.is_empty() && documents.trim_end() != saved.documents().trim_end() {
        let which = if saved.documents().is_empty() { "no" } else { "other" };
        differences.push(format!("{which} documents (-f)"));
    }
    if !differences.is_empty() {
        return Err(Failure::usage(
            format!("{}: the conversation in it has {}", path.display(), differences.join(", ")),
            "leave these flags out to continue it as it is, or name a new file to start another",
        )
        .into());
    }
    if let Some(chunk) = asked.chunk {
        saved.set_chunk(chunk);
    }
    Ok(saved)
}

/// Refuses a file that could not be written when the conversation is over.
fn check_folder(session_file: Option<&Path>) -> Result<(), Failure> {
    let folder = session_file.and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => Err(Failure::new(
            format!("--session: there is no folder {}", folder.display()),
            "create the folder, or give another file",
        )),
        _ => Ok(()),
    }
}

/// An empty conversation, about the documents if there are some.
fn begin(
    app: &App,
    args: &ChatArgs,
    model: &Arc<Model>,
    asked: SetupOptions,
    sampling: Sampling,
    documents: &str,
) -> Result<Chat> {
    let preamble = Preamble::new(model.chat_format()?, args.system.as_deref(), documents)?;
    let prompt = preamble.min_tokens();
    let trained = model.spec().n_ctx_train;
    let context = asked.context.tokens(prompt, trained);
    if context <= prompt {
        let what = match documents.is_empty() {
            true => "the chat template alone is",
            false => "the documents (with the chat template) are",
        };
        let enough = Context::AsNeeded.tokens(prompt, usize::MAX);
        return Err(Failure::new(
            format!("{what} {prompt} tokens, but the context is {context}"),
            format!("give a larger context, -c {enough}, or leave -c out"),
        )
        .into());
    }
    let setup = app.resolve(model, &asked, prompt)?;
    let session = app.interrupt.reading(|| setup.start(&mut app.reporter()))?;
    app.console.note(&format!(
        "{}, policy {}, context {}{}; /help lists commands",
        model.name(),
        session.options().policy,
        format::count(context),
        match documents.is_empty() {
            true => String::new(),
            false => format!(", documents of {} tokens", format::count(prompt)),
        }
    ));
    Ok(Chat::new(session, options(sampling, preamble))?)
}

/// The conversation of a file.
fn resume(
    app: &App,
    model: &Arc<Model>,
    asked: &SetupOptions,
    sampling: Sampling,
    saved: SavedChat,
) -> Result<Chat> {
    let path = saved.path().display().to_string();
    let options_of_file = saved.options().clone();
    let setup = app
        .interrupt
        .reading(|| Setup::resume(model, asked, options_of_file.clone(), &mut app.reporter()))
        .map_err(|error| anyhow::Error::from(error).context(path.clone()))?;
    let engine = app.load(&setup)?;
    let chat =
        saved.restore(&engine, options(sampling, Preamble::default())).map_err(|error| match error {
            EngineError::Memory { .. } => anyhow::Error::from(error).context(path),
            error => error.into(),
        })?;
    crash_save::remember(chat.messages());
    app.console.note(&format!(
        "{}, policy {}, context {}, {} tokens kept; /help lists commands",
        model.name(),
        options_of_file.policy,
        format::count(options_of_file.context),
        format::count(chat.tokens()),
    ));
    Ok(chat)
}

fn options(sampling: Sampling, preamble: Preamble) -> ChatOptions {
    ChatOptions { preamble, sampling: sampling.options, answer_limit: sampling.limit }
}

/// Saves the conversation to a file.
fn save(app: &App, chat: &Chat, path: &Path) -> Result<()> {
    chat.save(path)?;
    app.console.note(&format!("the conversation is kept in {}", path.display()));
    Ok(())
}

/// Questions and answers until the user leaves.
fn talk(app: &App, args: &ChatArgs, chat: &mut Chat) -> Result<()> {
    let mut last = LastTurn::default();
    loop {
        let Some(line) = prompt_line(app)? else { return Ok(()) };
        match line.trim() {
            "" => continue,
            "/exit" | "/quit" => return Ok(()),
            "/help" => app.console.print(HELP)?,
            "/save" => match &args.session_file {
                Some(path) => {
                    if let Err(error) = save(app, chat, path) {
                        app.console.note(failure::report(&error).0.trim_end());
                    }
                }
                None => {
                    app.console.note("error: there is no file to save it to\nhint: start with --session FILE")
                }
            },
            "/stats" => app.console.print(&stats(chat, &last))?,
            "/clear" => {
                chat.clear();
                last = LastTurn::default();
                app.console.note("the conversation starts anew");
            }
            "/regen" => match regenerate(app, chat) {
                Ok(Some(turn)) => last = turn,
                Ok(None) => app.console.note("error: there is no answer to take back\nhint: ask something"),
                Err(error) if is_interrupt(&error) => take_back(app, chat),
                Err(error) => return Err(error),
            },
            "/undo" => {
                take_back(app, chat);
                last = LastTurn::default();
            }
            command if command.starts_with('/') => {
                let word = command.split_whitespace().next().unwrap_or(command);
                app.console
                    .note(&format!("error: there is no command {word}\nhint: /help lists the commands"));
            }
            question => match turn(app, chat, question) {
                Ok(turn) => last = turn,
                Err(error) if is_interrupt(&error) => {
                    app.console.note("interrupted: the question was not read");
                }
                Err(error) => match error.downcast_ref() {
                    Some(EngineError::ContextFull { needed, context }) => {
                        app.console.note(&full(*needed, *context, chat.has_answers()));
                    }
                    _ => return Err(error),
                },
            },
        }
    }
}

/// A question and its answer.
fn turn(app: &App, chat: &mut Chat, question: &str) -> Result<LastTurn> {
    let read = read(app, chat, question)?;
    answer(app, chat, read)
}

/// Another answer to the last question; `None` where there is no answer yet.
fn regenerate(app: &App, chat: &mut Chat) -> Result<Option<LastTurn>> {
    let mut reporter = app.reporter();
    let read = app.interrupt.reading(|| chat.retract_answer(&mut |progress| reporter.progress(progress)))?;
    drop(reporter);
    read.map(|read| answer(app, chat, read)).transpose()
}

/// Takes the last question and its answer back.
fn take_back(app: &App, chat: &mut Chat) {
    app.console.note(match chat.undo() {
        true => "the last question and its answer are taken back",
        false => "error: there is no question to take back\nhint: ask something",
    });
}

/// Lets the model read a question, with a progress bar. Ctrl-C stops it.
pub fn read(app: &App, chat: &mut Chat, question: &str) -> Result<Reading, EngineError> {
    let mut reporter = app.reporter();
    // A GPU that is lost meanwhile must not take the question with it.
    crash_save::remember(chat.messages());
    crash_save::append(&format!("[user]\n{}\n\n", question.trim_end()));
    let read = app.interrupt.reading(|| chat.read(question, &mut |progress| reporter.progress(progress)));
    crash_save::remember(chat.messages());
    read
}

/// Lets the model answer what it has read; `on_text` gets the answer piece by piece. Ctrl-C stops it.
pub fn generate(
    app: &App,
    chat: &mut Chat,
    on_text: &mut dyn FnMut(&str) -> io::Result<()>,
) -> Result<Generated> {
    let mut failed = None;
    let mut on_piece = |piece: &str| {
        crash_save::append(piece);
        if !piece.is_empty()
            && let Err(error) = on_text(piece)
        {
            failed = Some(error);
            return ControlFlow::Break(());
        }
        if app.interrupt.is_pressed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let generated = app.interrupt.generating(|| chat.answer(&mut on_piece))?;
    crash_save::remember(chat.messages());
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(generated),
    }
}

/// The answer to what was read, on stdout.
fn answer(app: &App, chat: &mut Chat, read: Reading) -> Result<LastTurn> {
    let answer = generate(app, chat, &mut |piece| app.console.print_foreign(piece))?;
    app.console.print("\n")?;
    match answer.stop {
        Stop::Interrupted => app.console.note("(interrupted)"),
        Stop::Length => app.console.note("(cut off: -n allows longer answers)"),
        Stop::Context => {
            app.console.note("(cut off: the context is full; /clear starts anew, -c gives a larger one)");
        }
        Stop::EndToken(_) | Stop::Text(_) => {}
    }
    Ok(LastTurn { read, steps: answer.steps, generating: answer.elapsed })
}

/// The next line; `None` at the end of the input. Lines that are not UTF-8 are refused and asked for again.
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

fn stats(chat: &Chat, last: &LastTurn) -> String {
    let usage = chat.session().kv_usage();
    format!(
        "tokens    {} of {}\nKV cache  {} of {} ({})\nread      {} tokens, {} t/s\nanswered  {} tokens, {} t/s\n",
        format::count(chat.tokens()),
        format::count(chat.session().options().context),
        format::bytes(usage.bytes),
        format::bytes(usage.full_bytes),
        format::percent(usage.share()),
        format::count(last.read.tokens),
        format::speed(format::rate(last.read.tokens, last.read.elapsed)),
        format::count(last.steps),
        format::speed(format::rate(last.steps, last.generating)),
    )
}

fn is_interrupt(error: &anyhow::Error) -> bool {
    error.downcast_ref::<EngineError>().is_some_and(EngineError::is_interrupt)
}

/// Why a question was not read, and what makes room for it.
fn full(needed: usize, context: usize, has_answers: bool) -> String {
    let (needed, context) = (format::count(needed), format::count(context));
    let way = if has_answers { "start a new conversation with /clear" } else { "ask a shorter question" };
    format!(
        "error: the context is full: with this question the conversation has {needed} tokens, but the context is {context}\n\
         hint: {way}, or restart the program with a larger context, -c"
    )
}
