//! Starts a conversation, or resumes a saved one.

pub mod replay;
pub mod reread;
mod resume_check;

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use longhand::saved::{ChatFile, SavedChat};
use longhand::setup::{Context, Offers, Profiles};
use longhand::text::split_thinking;
use longhand::{Chat, ChatOptions, EngineError, Model, ModelSource, Preamble, Setup, SetupOptions};
use terminal::format;

use crate::app::{App, Purpose};
use crate::commands::chat::ChatArgs;
use crate::commands::chat::keeper::Keeper;
use crate::failure::{self, Failure};
use crate::session::documents::Documents;
use crate::session::kept::KeptChats;
use crate::session::sampling::{Exact, Sampling, Values};
use crate::session::{crash_save, turn};

/// What a conversation begins with: the model is open and the documents are tokens; nothing is computed.
pub struct Opening<'a> {
    args: &'a ChatArgs,
    options: SetupOptions,
    model: Arc<Model>,
    sampling: Sampling,
    /// Of a new conversation.
    preamble: Preamble,
    /// The conversation to continue.
    saved: Option<(ChatFile, SavedChat)>,
    kept: Option<KeptChats>,
}

impl Opening<'_> {
    /// Opens what the arguments name.
    pub fn new<'a>(app: &App, args: &'a ChatArgs) -> Result<Opening<'a>> {
        let kept = KeptChats::find();
        let values = args.sampling.values()?;
        let given = args.model.source(app, None)?;
        let options = args.answer.apply(args.session.apply(args.model.setup_options(app)?)?);
        let options = SetupOptions { record_attention: args.sources.unless_off(), ..options };
        let mut saved = open_saved(args, kept.as_ref())?;
        let is_given = args.model.is_named();
        let source = match &saved {
            Some((_, saved)) if !is_given => saved.model_source(),
            _ => given,
        };
        if saved.is_none() {
            app.introduce(&source, Purpose::Chat);
        }
        let model = open_model(app, source).map_err(|error| match &saved {
            Some((_, saved)) => error
                .context(format!("the model {} of this conversation cannot be opened", saved.model_name())),
            None => error,
        })?;
        let documents = Documents::for_chat(&args.files, &args.documents.options()?)?;
        let format = &args.answer.chat_format(&model)?;
        app.note_template(format);
        let has_documents = saved.as_ref().map_or(!documents.text().trim().is_empty(), |(_, saved)| {
            !saved.document_names().is_empty() || !saved.documents().is_empty()
        });
        let values = match &saved {
            Some((_, saved)) => values.or(&Values::of_saved(saved.settings())),
            None => values,
        };
        let sampling = sampling(app, &model, values, args.answer.thinking(), has_documents)?;
        let preamble = match &mut saved {
            Some((_, saved)) => {
                check_saved(app, saved, args, &options, &model, documents.text())?;
                Preamble::default()
            }
            None => documents.preamble(app, format, args.system.as_deref())?,
        };
        Ok(Opening { args, options, model, sampling, preamble, saved, kept })
    }

    /// How the flags want the model to be run.
    pub fn setup(&self) -> &SetupOptions {
        &self.options
    }

    /// How answers are sampled.
    pub fn sampling(&self) -> &Sampling {
        &self.sampling
    }

    /// Starts or resumes the conversation.
    pub fn begin(self, app: &App) -> Result<(Chat, Keeper)> {
        let Opening { args, options, model, sampling, preamble, saved, kept } = self;
        let cache = args.disk.documents().filter(|_| !args.private);
        let limit = args.disk.limit();
        let Some((file, saved)) = saved else {
            let title = title(preamble.names());
            let chat = start(app, args, &model, &options, &sampling, preamble)?;
            let keeper = match (&args.session_file, kept) {
                _ if args.private => Keeper::private(),
                (Some(path), _) => Keeper::named(ChatFile::create(path, &chat)?),
                (None, Some(kept)) => match kept.prepare() {
                    Ok(()) => Keeper::new(kept, title, limit),
                    Err(error) => {
                        app.console.note(failure::report(&error.into()).text.trim_end());
                        Keeper::nothing()
                    }
                },
                (None, None) => {
                    app.console.note(
                        "note: the conversation is not kept: there is no folder for it. Set the environment variable \
                         HOME or XDG_STATE_HOME, or give a file with --session",
                    );
                    Keeper::nothing()
                }
            };
            return Ok((chat, keeper.with_documents(cache)));
        };
        let title = title(&saved.document_names());
        let chat = resume(app, args, &model, &options, &sampling, saved)?;
        let keeper = match kept.filter(|kept| kept.name(file.path()).is_some()) {
            Some(kept) => Keeper::resumed(kept, title, file, limit),
            None => Keeper::named(file),
        };
        Ok((chat, keeper.with_documents(cache)))
    }
}

/// How answers of a model are sampled: as `given`, else as is best for the model and for documents. Says what the model file
/// recommends. `thinking`: what was said about it, which counts where the model has a switch.
///
/// # Errors
/// Those of [`Model::chat_format`].
pub fn sampling(
    app: &App,
    model: &Model,
    given: Values,
    thinking: Option<bool>,
    has_documents: bool,
) -> Result<Sampling> {
    let format = model.chat_format()?;
    let thinking = thinking.filter(|thinks| format.with_thinking(*thinks).is_ok());
    if model.file().is_none() {
        return Ok(Sampling::new(given, Some(Exact::BuiltIn), format, thinking));
    }
    let (recommended, notes) = Values::of_model(model.gguf());
    notes.iter().for_each(|note| app.console.note(note));
    let mut sampling = Sampling::new(given, None, format, thinking).with_model(recommended);
    sampling.set_documents(has_documents);
    let recommended = sampling.recommended();
    if !recommended.is_empty() {
        app.console.note(&format!("sampling as the model file recommends: {recommended}; /set shows all"));
    }
    Ok(sampling)
}

/// The saved conversation to continue; `None` for a new one.
fn open_saved(args: &ChatArgs, kept: Option<&KeptChats>) -> Result<Option<(ChatFile, SavedChat)>> {
    if let Some(path) = &args.session_file {
        return Ok(ChatFile::exists(path).then(|| ChatFile::open(path)).transpose()?);
    }
    let Some(name) = &args.resume else { return Ok(None) };
    let no_folder =
        || Failure::new("there is no folder for kept conversations", "give a file with --session");
    let kept = kept.ok_or_else(no_folder)?;
    kept.check()?;
    let path = kept.file(Some(name.as_str()).filter(|name| !name.is_empty()))?;
    Ok(Some(ChatFile::open(&path)?))
}

/// Opens the model and starts the process of its chat template. That is done before documents are read: the process
/// would keep a copy of them.
fn open_model(app: &App, source: ModelSource) -> Result<Arc<Model>> {
    let model = app.open(source)?;
    model.chat_format()?;
    Ok(model)
}

/// What the name of a kept conversation is made from: the name of its first document.
fn title(documents: &[String]) -> String {
    let stem = documents.first().and_then(|name| Path::new(name).file_stem());
    stem.map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

/// Compares the flags with a saved conversation. They may change its batch size (-ub) and its context (-c).
///
/// # Errors
/// Where another flag contradicts the saved conversation.
fn check_saved(
    app: &App,
    saved: &mut SavedChat,
    args: &ChatArgs,
    options: &SetupOptions,
    model: &Arc<Model>,
    documents: &str,
) -> Result<()> {
    app.identify(model, options)?;
    let before = saved.options().clone();
    if saved.adapt_to(model)? {
        app.console.note(&format!(
            "note: this conversation is read again with the next question: the file of the model {} was replaced since \
             it was saved",
            model.name()
        ));
    }
    let mut differences = resume_check::differences(&before, options, model)?;
    if args.system.is_some() && args.system.as_deref() != saved.system() {
        let which = if saved.system().is_some() { "another" } else { "no" };
        differences.push(format!("{which} system message (-sys)"));
    }
    if !args.files.is_empty() && documents.trim_end() != saved.documents().trim_end() {
        let which = if saved.documents().is_empty() { "no" } else { "other" };
        differences.push(format!("{which} documents (-f)"));
    }
    if !differences.is_empty() {
        return Err(Failure::usage(
            format!("{}: the saved conversation has {}", saved.path().display(), differences.join(", ")),
            "leave out these flags to continue it, or give a new file to start another conversation",
        )
        .into());
    }
    if let Some(chunk) = options.chunk {
        saved.set_chunk(chunk);
    }
    if options.context != Context::AsNeeded {
        let (context, tokens) = (options.context.tokens(0, model.spec().n_ctx_train), saved.tokens());
        if context <= tokens {
            return Err(Failure::usage(
                format!(
                    "{}: the conversation has {tokens} tokens, but -c is {context}",
                    saved.path().display()
                ),
                "give a larger context, or leave out -c",
            )
            .into());
        }
        saved.set_context(context);
    }
    Ok(())
}

/// Starts a conversation.
fn start(
    app: &App,
    args: &ChatArgs,
    model: &Arc<Model>,
    setup_options: &SetupOptions,
    sampling: &Sampling,
    preamble: Preamble,
) -> Result<Chat> {
    let prompt = preamble.min_tokens();
    let context = setup_options.context.tokens(prompt, model.spec().n_ctx_train);
    if context <= prompt {
        let what = match preamble.documents().is_empty() {
            true => "the chat template alone is",
            false => "the documents (with the chat template) are",
        };
        let needed = Context::AsNeeded.tokens(prompt, usize::MAX);
        let offers = app.interrupt.computing(|| Offers::find(model, setup_options, prompt, needed))?;
        let message = format!("{what} {prompt} tokens, but the context is {context}");
        return Err(failure::context_too_small(message, &offers).into());
    }
    let session = app.start_within_memory(model, setup_options, prompt)?;
    app.console.note(&format!(
        "{}, policy {}, context {}, {} allocated for the KV cache; type /help for the commands",
        model.name(),
        session.options().policy,
        format::count(context),
        format::bytes(session.kv_usage().allocated),
    ));
    let mut chat = Chat::new(session, chat_options(args, sampling, preamble))?;
    sampling.apply(&mut chat)?;
    Ok(chat)
}

/// Resumes a saved conversation.
fn resume(
    app: &App,
    args: &ChatArgs,
    model: &Arc<Model>,
    setup_options: &SetupOptions,
    sampling: &Sampling,
    mut saved: SavedChat,
) -> Result<Chat> {
    let path = saved.path().display().to_string();
    let saved_options = saved.options().clone();
    let last_turns = last_turns(&saved);
    let setup = app
        .interrupt
        .computing(|| Setup::resume(model, setup_options, saved_options.clone(), &mut app.reporter()))
        .map_err(|error| anyhow::Error::from(error).context(path.clone()))?;
    let engine = app.load(&setup)?;
    if saved.options().profile.is_none() {
        let profiles = Profiles::new(model, setup_options);
        let mut reporter = app.reporter();
        let find = || profiles.find_or_calibrate(&engine, &saved_options.policy, &mut reporter);
        let profile = app.interrupt.computing(find)?;
        saved.set_profile(profile);
    }
    let restored = saved.restore(&engine, chat_options(args, sampling, Preamble::default()));
    let mut chat = restored.map_err(|error| match error {
        EngineError::Memory { .. } => anyhow::Error::from(error).context(path),
        error => error.into(),
    })?;
    chat.set_interrupt(&app.interrupt.flag());
    sampling.apply(&mut chat)?;
    crash_save::set_messages(chat.messages());
    app.console.note_conversation(&last_turns);
    app.console.note(&format!(
        "{}, policy {}, context {}, resumed after {} tokens; type /help for the commands",
        model.name(),
        saved_options.policy,
        format::count(saved_options.context),
        format::count(chat.tokens()),
    ));
    Ok(chat)
}

/// The last questions and answers, to remind the user.
fn last_turns(saved: &SavedChat) -> String {
    const TURNS: usize = 3;
    let turns = saved.turns();
    let left_out = turns.len().saturating_sub(TURNS);
    let mut lines = Vec::new();
    if left_out > 0 {
        lines.push(format!("({left_out} earlier questions; `longhand sessions show` prints them)"));
    }
    for (at, (question, answer)) in turns.iter().enumerate().skip(left_out) {
        lines.push(format!("> {}", question.trim_end()));
        let answer = answer.unwrap_or(turn::no_answer(at + 1 == turns.len()));
        lines.push(split_thinking(answer).1.trim_end().to_owned());
    }
    lines.join("\n")
}

fn chat_options(args: &ChatArgs, sampling: &Sampling, preamble: Preamble) -> ChatOptions {
    let thinking = args.answer.thinking();
    ChatOptions { preamble, sampling: sampling.options(), answer_limit: sampling.answer_limit(), thinking }
}
