//! `longhand chat`: a line in, an answer out, about documents if some are given. Later turns run against the store as the first
//! one left it.

use std::io::{self, BufRead};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use engine::generate::Stop;
use engine::{EngineError, Session};
use models::chat::Message;

use crate::args::App;
use crate::args::model::{ModelArgs, ModelPlace};
use crate::args::sampling::SamplingArgs;
use crate::args::session::SessionArgs;
use crate::conversation::{Conversation, Reading};
use crate::failure::Failure;
use crate::model::Model;
use crate::{device, documents, format, opening};

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
/exit   quit (so do Ctrl-D, and Ctrl-C twice)
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
    let settings = args.session.validate()?;
    let source = args.model.source(args.place.place.as_deref())?;
    // The small model knows one right answer to a question, and chance would only spoil it.
    let temperature = if matches!(source, engine::ModelSource::Embedded) { 0.0 } else { 0.8 };
    let sampling = args.sampling.validate(temperature, ANSWER)?;
    let documents = documents::read_all(&args.files)?;
    let expected = settings.options(device::expected_context(&settings, documents.len()));
    let options = device::engine_options(app, &args.model, &source, Some(&expected))?;
    let model = Model::open(app, &source, &options)?;

    let trained = model.engine.spec().n_ctx_train;
    // The template's own tokens have to fit too; a question of one word stands for those to come.
    let first = Message::user(if documents.is_empty() { "?" } else { documents.as_str() });
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
            format!("give a larger context, -c {}, or leave -c out", prompt + TALK),
        )
        .into());
    }
    let options = opening::options(app, &model.engine, &settings, context, prompt)?;
    let policy = options.policy.clone();
    let session = Session::new(&model.engine, options)?;
    let mut conversation = Conversation::new(&model, session, sampling, args.system.as_deref());
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

    let mut last = LastTurn::default();
    let mut unread = documents.as_str();
    loop {
        let Some(line) = prompt_line(app)? else { return Ok(()) };
        match line.trim() {
            "" => continue,
            "/exit" | "/quit" => return Ok(()),
            "/help" => app.console.print(HELP)?,
            "/stats" => app.console.print(&stats(&conversation, &last))?,
            "/clear" => {
                conversation.clear();
                (last, unread) = (LastTurn::default(), documents.as_str());
                app.console.note("the conversation starts anew");
            }
            "/regen" => match conversation.take_answer_back() {
                true => {
                    match conversation.read_again(app).and_then(|read| answer(app, &mut conversation, read)) {
                        Ok(turn) => last = turn,
                        Err(error) if is_interrupt(&error) => {
                            take_back(app, &mut conversation);
                            unread = if conversation.has_questions() { "" } else { documents.as_str() };
                        }
                        Err(error) => return Err(error),
                    }
                }
                false => app.console.note("error: there is no answer to take back\nhint: ask something"),
            },
            "/undo" => {
                take_back(app, &mut conversation);
                last = LastTurn::default();
                unread = if conversation.has_questions() { "" } else { documents.as_str() };
            }
            command if command.starts_with('/') => {
                let word = command.split_whitespace().next().unwrap_or(command);
                app.console
                    .note(&format!("error: there is no command {word}\nhint: /help lists those there are"));
            }
            question => {
                let user = match unread.is_empty() {
                    true => question.to_owned(),
                    false => format!("{}\n\n{question}", unread.trim_end()),
                };
                match turn(app, &mut conversation, user) {
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
    let way = if has_answers { "/clear starts the conversation anew" } else { "ask a shorter question" };
    format!(
        "error: the context is full: with this question there are {needed} tokens, but room for {context}\n\
         hint: {way}, or start again with a larger context, -c"
    )
}
