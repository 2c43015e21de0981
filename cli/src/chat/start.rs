//! Starts a conversation, or resumes a saved one.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use longhand::{Chat, ChatOptions, Context, EngineError, Model, Preamble, SavedChat, Setup, SetupOptions};

use super::{ChatArgs, resume_check};
use crate::app::App;
use crate::args::sampling::Sampling;
use crate::failure::Failure;
use crate::{crash_save, format, offers};

/// Opens a saved conversation. `options` may change its batch size (-ub).
///
/// # Errors
/// Where another flag contradicts the saved conversation.
pub fn open_saved(
    path: &Path,
    args: &ChatArgs,
    options: &SetupOptions,
    model: &Arc<Model>,
    documents: &str,
) -> Result<SavedChat> {
    let mut saved = SavedChat::open(path)?;
    saved.check(model)?;
    let mut differences = resume_check::differences(saved.options(), options, model)?;
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
            format!("{}: the saved conversation has {}", path.display(), differences.join(", ")),
            "leave out these flags to continue it, or give a new file to start another conversation",
        )
        .into());
    }
    if let Some(chunk) = options.chunk {
        saved.set_chunk(chunk);
    }
    Ok(saved)
}

/// Checks that the folder of a session file exists, because the file is written only at the end.
pub fn check_folder(session_file: &Path) -> Result<(), Failure> {
    match session_file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) if !folder.is_dir() => Err(Failure::new(
            format!("--session: there is no folder {}", folder.display()),
            "create the folder, or give another file",
        )),
        _ => Ok(()),
    }
}

/// Starts a conversation.
pub fn start(
    app: &App,
    system: Option<&str>,
    model: &Arc<Model>,
    setup_options: &SetupOptions,
    sampling: Sampling,
    documents: &str,
) -> Result<Chat> {
    let preamble = Preamble::new(model.chat_format()?, system, documents)?;
    let prompt = preamble.min_tokens();
    let context = setup_options.context.tokens(prompt, model.spec().n_ctx_train);
    if context <= prompt {
        let what = match documents.is_empty() {
            true => "the chat template alone is",
            false => "the documents (with the chat template) are",
        };
        let needed = Context::AsNeeded.tokens(prompt, usize::MAX);
        let offers = app.interrupt.computing(|| offers::find(model, setup_options, prompt, needed));
        let message = format!("{what} {prompt} tokens, but the context is {context}");
        return Err(Failure::context_too_small(message, &offers).into());
    }
    let session = app.start(&app.resolve_or_offer(model, setup_options, prompt)?)?;
    app.console.note(&format!(
        "{}, policy {}, context {}{}; type /help for the commands",
        model.name(),
        session.options().policy,
        format::count(context),
        match documents.is_empty() {
            true => String::new(),
            false => format!(", documents of {} tokens", format::count(prompt)),
        }
    ));
    Ok(Chat::new(session, chat_options(sampling, preamble))?)
}

/// Resumes a saved conversation.
pub fn resume(
    app: &App,
    model: &Arc<Model>,
    setup_options: &SetupOptions,
    sampling: Sampling,
    saved: SavedChat,
) -> Result<Chat> {
    let path = saved.path().display().to_string();
    let saved_options = saved.options().clone();
    let setup = app
        .interrupt
        .computing(|| Setup::resume(model, setup_options, saved_options.clone(), &mut app.reporter()))
        .map_err(|error| anyhow::Error::from(error).context(path.clone()))?;
    let engine = app.load(&setup)?;
    let restored = saved.restore(&engine, chat_options(sampling, Preamble::default()));
    let chat = restored.map_err(|error| match error {
        EngineError::Memory { .. } => anyhow::Error::from(error).context(path),
        error => error.into(),
    })?;
    crash_save::set_messages(chat.messages());
    app.console.note(&format!(
        "{}, policy {}, context {}, resumed after {} tokens; type /help for the commands",
        model.name(),
        saved_options.policy,
        format::count(saved_options.context),
        format::count(chat.tokens()),
    ));
    Ok(chat)
}

fn chat_options(sampling: Sampling, preamble: Preamble) -> ChatOptions {
    ChatOptions { preamble, sampling: sampling.options, answer_limit: sampling.answer_limit }
}
