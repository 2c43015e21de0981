//! `longhand read`: reads documents ahead, for questions that are asked later.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use longhand::saved::{DocumentCache, DocumentReading};
use longhand::setup::Offers;
use longhand::{Chat, ChatOptions, SetupOptions};
use terminal::prefill::PrefillArg;
use terminal::{format, interrupt};

use crate::app::{App, Purpose};
use crate::args::answer::AnswerArgs;
use crate::args::disk::DiskArgs;
use crate::args::documents::DocumentArgs;
use crate::args::session::SessionArgs;
use crate::failure::{self, Failure};
use crate::models::args::ModelArgs;
use crate::session::documents::{Documents, names};
use crate::session::turn;

/// Read documents ahead, so that `ask` and `chat` find them
///
/// What was read is kept on the disk, however long writing it takes. A reading that is stopped, by Ctrl-C, by SIGTERM or
/// because the machine goes down, goes on with the same command. Give the flags for the model and the cache that the
/// questions will have.
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// Documents: files (text, HTML, PDF, EPUB, office), pages of one (book.pdf:10-40), https addresses, folders, or patterns such
    /// as 'src/**/*.rs'. - is stdin. All of them are read as one text, as with several -f of `ask`
    #[arg(value_name = "FILE", required_unless_present = "more_files")]
    files: Vec<PathBuf>,
    /// A document, the same as FILE; can be repeated
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    more_files: Vec<PathBuf>,
    /// System message, also -sys
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,
    #[command(flatten)]
    documents: DocumentArgs,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    disk: DiskArgs,
    #[command(flatten, next_help_heading = "Answers")]
    answer: AnswerArgs,
}

/// Runs the command.
pub fn run(app: &App, args: &ReadArgs) -> Result<()> {
    let cache = args.disk.documents().ok_or_else(|| {
        Failure::usage(
            "nothing that is read can be kept: --disk-cache is 0, or there is no folder for it",
            "give a size, for example --disk-cache 8GiB; the folder is in HOME or XDG_CACHE_HOME",
        )
    })?;
    cache.check_writable()?;
    // Who asks for it wants it to be kept.
    let cache = DocumentCache { max_share: f64::INFINITY, ..cache };
    let files: Vec<PathBuf> = args.files.iter().chain(&args.more_files).cloned().collect();
    let is_model = |file: &&PathBuf| file.extension().is_some_and(|found| found.eq_ignore_ascii_case("gguf"));
    if let Some(model) = files.iter().find(is_model) {
        let message = format!("{} is a model file, but read takes documents", model.display());
        return Err(Failure::usage(message, "give the model with -m MODEL").into());
    }
    let source = args.model.source(app, None)?;
    let options = args.session.apply(args.model.setup_options(app)?)?;
    app.introduce(&source, Purpose::Read);
    let model = app.open(source)?;
    // Before the documents are read: the process that this starts would keep a copy of them.
    let chat_format = &args.answer.chat_format(&model)?;
    app.note_template(chat_format);
    let documents = Documents::read(&files, &args.documents.options()?)?;
    let preamble = documents.preamble(app, chat_format, args.system_prompt.as_deref())?;
    drop(documents);
    let prompt = preamble.min_tokens();
    let context = options.context.tokens(prompt, model.spec().n_ctx_train);
    if context <= prompt {
        let needed = longhand::setup::Context::AsNeeded.tokens(prompt, usize::MAX);
        let offers = app.interrupt.computing(|| Offers::find(&model, &options, prompt, needed))?;
        let message = format!(
            "the documents (with the chat template) are {prompt} tokens, but the context is {context}"
        );
        return Err(failure::context_too_small(message, &offers).into());
    }
    let session = app.start_within_memory(&model, &options, prompt)?;
    let thinking = args.answer.thinking();
    let mut chat = Chat::new(session, ChatOptions { preamble, thinking, ..ChatOptions::default() })?;
    let command = question_command(args, &options, &chat, &files);
    if !chat.has_unread_documents()? {
        return Err(Failure::new(
            "these documents cannot be read before a question is known: the model's chat template writes the question \
             before them",
            "ask about them with: longhand ask",
        )
        .into());
    }
    check_room(app, &mut chat, &cache)?;
    app.interrupt.end_in_order();
    let what = names(&chat.next_documents());
    let mut read = || -> Result<DocumentReading> {
        match turn::begin_documents(app, &mut chat, Some(&cache), args.answer.yes)? {
            Some(reading) => Ok(reading),
            None => Ok(turn::read_documents_with_notes(app, &mut chat, Some(&cache))?),
        }
    };
    match read() {
        Ok(reading) => report(app, &what, &reading, &command),
        // The user does not want it to be read.
        Err(error) if error.is::<Failure>() => Err(error),
        Err(error) if terminal::failure::is_interrupt(&error) => {
            Err(interrupted(app, &mut chat, &cache, &what).into())
        }
        Err(error) => {
            // A lost GPU, for example: what was read before is good.
            turn::keep_reading(app, &mut chat, Some(&cache));
            Err(error)
        }
    }
}

/// Refuses documents whose KV cache is larger than all caches may be, before they are read.
fn check_room(app: &App, chat: &mut Chat, cache: &DocumentCache) -> Result<()> {
    let tokens = chat.tokens_with_documents()?;
    let (kept, meanwhile) = (chat.session().kv_bytes_of(tokens), chat.session().unfinished_bytes_of(tokens));
    let larger = |bytes: usize| bytes as u64 > cache.limit;
    let limit = format::file_size(cache.limit);
    if larger(kept) {
        return Err(Failure::new(
            format!(
                "what is read could not be kept: the KV cache of {} tokens takes {}, but --disk-cache is {limit}",
                format::count(tokens),
                format::bytes(kept)
            ),
            format!(
                "give --disk-cache {}, or a smaller cache with --policy or -ctk and -ctv (`longhand plan` shows sizes)",
                format::bytes_flag(kept.next_multiple_of(1 << 30))
            ),
        )
        .into());
    }
    if larger(meanwhile) {
        app.console.note(&format!(
            "note: if this reading is stopped, it begins anew: an unfinished reading may take {} on the disk, but --disk-cache is \
             {limit}",
            format::bytes(meanwhile)
        ));
    }
    Ok(())
}

/// Says what was read and where it is.
fn report(app: &App, what: &str, reading: &DocumentReading, command: &str) -> Result<()> {
    let Some(path) = &reading.kept else {
        let why = reading.problem.as_deref().unwrap_or("there is no room for it in --disk-cache");
        return Err(Failure::new(
            format!("{what} was read, but could not be kept: {why}"),
            "free space on the disk, or raise the limit on the size of files (`ulimit -f`)",
        )
        .into());
    };
    let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let tokens = format::count(reading.tokens);
    let read = match reading.found {
        true => format!("{what}: {tokens} tokens, which were read before"),
        false => format!("{what}: {tokens} tokens in {}", format::duration(reading.elapsed)),
    };
    Ok(app.console.print_report(&format!(
        "read  {read}\nkept  {} ({})\nask   {command}\n",
        path.display(),
        format::file_size(bytes),
    ))?)
}

/// Keeps how far the documents are read.
fn interrupted(app: &App, chat: &mut Chat, cache: &DocumentCache, what: &str) -> Failure {
    let read = format::whole_percent(chat.read_share());
    let kept = chat.keep_reading(cache).unwrap_or_else(|error| {
        app.console.note(failure::report(&error.into()).text.trim_end());
        None
    });
    let (message, hint) = match kept {
        Some(kept) => (
            format!("interrupted: {} of {what} is read and kept", format::whole_percent(kept)),
            "the same command goes on from there, and so do ask and chat",
        ),
        None => (
            format!("interrupted: {read} of {what} was read, and nothing is kept of it"),
            "the same command begins anew",
        ),
    };
    let ending = app.interrupt.ending().and_then(|signal| u8::try_from(128 + signal).ok());
    Failure::new(message, hint).with_exit_code(ending.unwrap_or(interrupt::EXIT_CODE))
}

/// The command that asks about the documents: with the settings with which they are read.
fn question_command(args: &ReadArgs, given: &SetupOptions, chat: &Chat, files: &[PathBuf]) -> String {
    let options = chat.session().options();
    let defaults = longhand::SessionOptions::default();
    let mut words = vec!["longhand".to_owned(), "ask".to_owned()];
    let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
    let model = args.model.model_words(None);
    match &model[..] {
        [path] => flag("-m", path.clone()),
        [name, value] => flag(name, value.clone()),
        _ => {}
    }
    files.iter().for_each(|file| flag("-f", file.display().to_string()));
    if let Some(system) = &args.system_prompt {
        flag("-sys", system.clone());
    }
    if options.policy != defaults.policy || given.policy.is_some() {
        flag("--policy", options.policy.to_string());
    }
    if let Some(heads) = args.session.heads.as_ref().filter(|_| options.policy.uses_profile()) {
        flag("--heads", heads.display().to_string());
    }
    if options.types != defaults.types {
        flag("-ctk", options.types.0.name().to_owned());
        flag("-ctv", options.types.1.name().to_owned());
    }
    if options.prefill != defaults.prefill || given.prefill.is_some() {
        flag("--prefill", PrefillArg::from(options.prefill).name().to_owned());
    }
    if options.policy.uses_shares() {
        // Other shares of another context are other rows.
        flag("-c", options.context.to_string());
    }
    words.extend(args.session.chunk.words());
    words.extend(args.documents.words());
    words.extend(args.answer.words());
    // With less room it would be removed for the next documents.
    words.extend(args.disk.words());
    words.push("QUESTION".to_owned());
    words.iter().map(|word| format::shell_word(word)).collect::<Vec<_>>().join(" ")
}
