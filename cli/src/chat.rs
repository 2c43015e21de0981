//! `longhand chat`: a line in, an answer out, about documents if some are given. Later turns run against the store as the first
//! one left it.

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use engine::generate::Stop;
use engine::snapshot::{self, Snapshot};
use engine::{EngineError, ModelSource, Session};
use models::chat::Message;
use serde::{Deserialize, Serialize};

use crate::args::App;
use crate::args::model::{ModelArgs, ModelPlace};
use crate::args::sampling::{Sampling, SamplingArgs};
use crate::args::session::{SessionArgs, SessionSettings};
use crate::conversation::{Conversation, Reading, Record};
use crate::failure::{self, Failure};
use crate::model::Model;
use crate::{console, device, documents, format, going_on, opening};

/// Most tokens of an answer where -n does not say otherwise.
const ANSWER: usize = 1024;
/// Tokens there is room for beyond documents where -c does not say otherwise.
const TALK: usize = 8192;

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

/// Talks with a model, about documents if some are given.
#[derive(Debug, Args)]
pub struct ChatArgs {
    #[command(flatten)]
    place: ModelPlace,
    /// Document in UTF-8, read with the first question; give it again for more documents
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Keeps the conversation in this file when it ends, and goes on with it where the file is there already; its cache is kept too,
    /// so that nothing is read again, and flags for another cache are refused
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

/// What is kept beside the session.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    conversation: Record,
    /// For questions after /clear, and after an /undo of the first.
    documents: String,
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
    let settings = args.session.validate()?;
    let source = args.model.source(args.place.place.as_deref())?;
    // The small model knows one right answer to a question, and chance would only spoil it.
    let temperature = if matches!(source, ModelSource::Embedded) { 0.0 } else { 0.8 };
    let sampling = args.sampling.validate(temperature, ANSWER)?;
    let documents = documents::read_all(&args.files)?;
    let kept = match args.session_file.as_deref().filter(|path| path.exists()) {
        Some(path) => Some(open_kept(path, args, (&settings, &source), &documents)?),
        None => None,
    };
    check_folder(args.session_file.as_deref())?;
    let expected = match &kept {
        Some((file, _)) => file.options().clone(),
        None => settings.options(device::expected_context(&settings, documents.len())),
    };
    let options = device::engine_options(app, &args.model, &source, Some(&expected))?;
    let model = Model::open(app, &source, &options)?;

    let (mut conversation, documents) = match kept {
        Some((file, kept)) => go_on(app, &model, sampling, (file, kept))?,
        None => (begin(app, args, (&model, &settings), sampling, &documents)?, documents),
    };
    let done = talk(app, args, &mut conversation, &documents);
    if let (Ok(()), Some(path)) = (&done, &args.session_file) {
        keep(app, &conversation, &documents, path)?;
    }
    done
}

/// A file that holds a conversation, and what it says of it. Refuses what was asked for where the conversation is another; how many
/// tokens are computed at once can still be chosen.
fn open_kept(
    path: &Path,
    args: &ChatArgs,
    (settings, source): (&SessionSettings, &ModelSource),
    documents: &str,
) -> Result<(Snapshot, Kept)> {
    let mut file = Snapshot::open(path)?;
    let kept: Kept =
        serde_json::from_str(file.caller()).map_err(|error| damaged(path, &error.to_string()))?;
    let model = engine::open_file(source)?;
    file.check(&model)?;
    let mut others = going_on::differences(file.options(), settings, &model)?;
    if args.system.is_some() && args.system.as_deref() != kept.conversation.system() {
        let which = if kept.conversation.system().is_some() { "another" } else { "no" };
        others.push(format!("{which} system message (-p)"));
    }
    if !args.files.is_empty() && documents != kept.documents {
        let which = if kept.documents.is_empty() { "no" } else { "other" };
        others.push(format!("{which} documents (-f)"));
    }
    if !others.is_empty() {
        return Err(Failure::usage(
            format!("{}: the conversation in it has {}", path.display(), others.join(", ")),
            "leave these flags out to continue it as it is, or give a new file to start a new conversation",
        )
        .into());
    }
    if let Some(chunk) = settings.chunk {
        file.set_chunk(chunk);
    }
    Ok((file, kept))
}

fn damaged(path: &Path, what: &str) -> Failure {
    Failure::new(
        format!("{}: it holds no conversation that can be continued: {what:.1000}", path.display()),
        "the file is damaged or was made by another program; start a new conversation with another file",
    )
}

/// Refuses a file that could not be written when the conversation is over.
fn check_folder(keep: Option<&Path>) -> Result<(), Failure> {
    let folder = keep.and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => Err(Failure::new(
            format!("--session: there is no folder {}", folder.display()),
            "create the folder, or give another file",
        )),
        _ => Ok(()),
    }
}

/// An empty conversation about the documents, if there are some.
fn begin<'m>(
    app: &App,
    args: &ChatArgs,
    (model, settings): (&'m Model, &SessionSettings),
    sampling: Sampling,
    documents: &str,
) -> Result<Conversation<'m>> {
    let trained = model.engine.spec().n_ctx_train;
    // The template's own tokens have to fit too; a question of one word stands for those to come.
    let first = Message::user(if documents.is_empty() { "?" } else { documents });
    let first: Vec<Message> = args.system.iter().map(Message::system).chain([first]).collect();
    let prompt = model.prompt(&first)?.len();
    let context = match settings.context {
        Some(0) => trained,
        Some(context) => context,
        None => (prompt + TALK).min(trained.max(prompt + ANSWER)),
    };
    if context <= prompt {
        let what = match documents.is_empty() {
            true => "the chat template alone is",
            false => "the documents (with the chat template) are",
        };
        return Err(Failure::new(
            format!("{what} {prompt} tokens, but the context is {context}"),
            format!("give a larger context with -c {}, or leave -c out", prompt + TALK),
        )
        .into());
    }
    let options = opening::options(app, &model.engine, settings, context, prompt)?;
    let policy = options.policy.clone();
    let session = Session::new(&model.engine, options)?;
    let conversation = Conversation::new(model, session, sampling, args.system.as_deref());
    app.console.note(&format!(
        "{}, policy {}, context {}{}; /help lists commands",
        model.name,
        policy,
        format::count(context),
        match documents.is_empty() {
            true => String::new(),
            false => format!(", documents of {} tokens", format::count(prompt)),
        }
    ));
    Ok(conversation)
}

/// The conversation that was kept in a file, and the documents it began with.
fn go_on<'m>(
    app: &App,
    model: &'m Model,
    sampling: Sampling,
    (file, kept): (Snapshot, Kept),
) -> Result<(Conversation<'m>, String)> {
    let path = file.path().to_owned();
    opening::check_memory(&model.engine, file.options(), 0).with_context(|| path.display().to_string())?;
    let options = file.options().clone();
    let session = file.restore(&model.engine)?;
    let conversation =
        Conversation::resume(model, session, sampling, kept.conversation).ok_or_else(|| {
            damaged(&path, "its turns or tokens are not those of a conversation with this model")
        })?;
    app.console.note(&format!(
        "{}, policy {}, context {}, {} tokens kept; /help lists commands",
        model.name,
        options.policy,
        format::count(options.context),
        format::count(conversation.tokens()),
    ));
    Ok((conversation, kept.documents))
}

/// Keeps the conversation in a file.
fn keep(app: &App, conversation: &Conversation<'_>, documents: &str, path: &Path) -> Result<()> {
    let kept = Kept { conversation: conversation.record(), documents: documents.to_owned() };
    snapshot::save(conversation.session(), &serde_json::to_string(&kept)?, path)?;
    app.console.note(&format!("the conversation is kept in {}", path.display()));
    Ok(())
}

/// Questions and answers until the user leaves.
fn talk(app: &App, args: &ChatArgs, conversation: &mut Conversation<'_>, documents: &str) -> Result<()> {
    let mut unread = if conversation.has_questions() { "" } else { documents };
    let mut last = LastTurn::default();
    loop {
        let Some(line) = prompt_line(app)? else { return Ok(()) };
        match line.trim() {
            "" => continue,
            "/exit" | "/quit" => return Ok(()),
            "/help" => app.console.print(HELP)?,
            "/save" => match &args.session_file {
                Some(path) => {
                    if let Err(error) = keep(app, conversation, documents, path) {
                        app.console.note(failure::report(&error).0.trim_end());
                    }
                }
                None => app.console.note("error: there is no session file\nhint: start with --session FILE"),
            },
            "/stats" => app.console.print(&stats(conversation, &last))?,
            "/clear" => {
                conversation.clear();
                (last, unread) = (LastTurn::default(), documents);
                app.console.note("the conversation starts anew");
            }
            "/regen" => match conversation.take_answer_back() {
                true => match conversation.read_again(app).and_then(|read| answer(app, conversation, read)) {
                    Ok(turn) => last = turn,
                    Err(error) if is_interrupt(&error) => {
                        take_back(app, conversation);
                        unread = if conversation.has_questions() { "" } else { documents };
                    }
                    Err(error) => return Err(error),
                },
                false => app.console.note("error: there is no answer to take back\nhint: ask something"),
            },
            "/undo" => {
                take_back(app, conversation);
                last = LastTurn::default();
                unread = if conversation.has_questions() { "" } else { documents };
            }
            command if command.starts_with('/') => {
                let word = command.split_whitespace().next().unwrap_or(command);
                app.console
                    .note(&format!("error: there is no command {word}\nhint: /help lists the commands"));
            }
            question => {
                let user = match unread.is_empty() {
                    true => question.to_owned(),
                    false => format!("{}\n\n{question}", unread.trim_end()),
                };
                match turn(app, conversation, user) {
                    Ok(turn) => {
                        last = turn;
                        unread = "";
                    }
                    Err(error) if is_interrupt(&error) => {
                        app.console.note("interrupted: the question was not read");
                    }
                    Err(error) => match error.downcast_ref() {
                        Some(EngineError::ContextFull { needed, context }) => {
                            app.console.note(&full(*needed, *context, conversation.has_answers()));
                        }
                        _ => return Err(error),
                    },
                }
            }
        }
    }
}

fn turn(app: &App, conversation: &mut Conversation<'_>, user: String) -> Result<LastTurn> {
    let read = conversation.read(app, user)?;
    answer(app, conversation, read)
}

/// Takes the last question back, and its answer.
fn take_back(app: &App, conversation: &mut Conversation<'_>) {
    app.console.note(match conversation.take_turn_back() {
        true => "the last question and its answer are taken back",
        false => "error: there is no question to take back\nhint: ask something",
    });
}

/// The answer to what was read.
fn answer(app: &App, conversation: &mut Conversation<'_>, read: Reading) -> Result<LastTurn> {
    let answer = conversation.answer(app, &mut |piece| app.console.print_foreign(piece))?;
    app.console.print("\n")?;
    match answer.stop {
        Stop::Asked => app.console.note("(interrupted)"),
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

fn stats(conversation: &Conversation<'_>, last: &LastTurn) -> String {
    let session = conversation.session();
    let store = session.store();
    let full = store.layout().full_bytes(store.seen());
    format!(
        "tokens    {} of {}\nKV cache  {} of {} ({})\nread      {} tokens, {} t/s\nanswered  {} tokens, {} t/s\n",
        format::count(conversation.tokens()),
        format::count(session.options().context),
        format::bytes(store.live_bytes()),
        format::bytes(full),
        format::percent(format::share(store.live_bytes(), full)),
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
