//! `/model`: goes on with another model, which reads the documents and the conversation.

use anyhow::Result;
use longhand::reading::Reading;
use longhand::saved::DocumentCache;
use longhand::setup::{Context, HeadSource};
use longhand::{Chat, EngineError, Observer, SetupOptions};
use terminal::format;

use crate::app::{App, Purpose};
use crate::commands::chat::line::complete::document_path;
use crate::failure::{self, Failure};
use crate::models::args::ModelArgs;
use crate::session::{crash_save, speeds};

/// Tokens that must be left for questions in a context that was asked for.
const ROOM: usize = 1024;

/// What `/model` alone prints.
pub fn shown(chat: &Chat) -> String {
    let engine = chat.session().engine();
    let model = engine.model();
    let file = model.file().map_or_else(|| "built in".to_owned(), |file| file.display().to_string());
    let spec = model.spec();
    format!(
        "model     {}\nfile      {file}\nlayers    {} of {} on a GPU\ntrained   for {} tokens\n\
         /model NAME goes on with another one: a GGUF file, a name of `longhand models`, or -hf OWNER/REPOSITORY\n",
        model.name(),
        engine.layers_on_devices(),
        spec.n_layers,
        format::count(spec.n_ctx_train),
    )
}

/// Goes on with the model of this name. `given` is what the flags say. Both models are in memory until the new one has
/// read the conversation.
///
/// # Errors
/// Where there is no such model, it cannot be used or does not fit the memory beside the old one, or reading fails or is
/// interrupted. The conversation goes on with the old model then.
pub fn change(
    app: &App,
    chat: &mut Chat,
    cache: Option<&DocumentCache>,
    given: &SetupOptions,
    args: &ModelArgs,
    name: &str,
) -> Result<Reading> {
    // A path may be quoted, or begin with `~/`.
    let path = document_path(name);
    let source = args.named(app, path.to_str().filter(|_| path.exists()).unwrap_or(name))?;
    app.introduce(&source, Purpose::Chat);
    let model = app.open(source)?;
    let current = chat.session().engine().model();
    if app.identify(&model, given)? == current.fingerprint()? {
        return Err(
            Failure::usage(format!("the model is {} already", model.name()), "/regen asks it again").into()
        );
    }
    let tokens = chat.tokens_with(&model)?;
    let context = match given.context {
        Context::Tokens(context) if context < tokens + ROOM => Context::AsNeeded,
        context => context,
    };
    let heads = match &given.heads {
        // It is of the model that the program was started with.
        HeadSource::File(_) | HeadSource::Profile(_) => HeadSource::Auto,
        heads => heads.clone(),
    };
    let options = SetupOptions { context, heads, ..given.clone() };
    // Until the other model has the conversation, both are there. This one's cache takes no more.
    chat.release_reservations();
    let session = app.start_within_memory(&model, &options, tokens).map_err(|error| beside(error, name))?;
    app.console.note(&format!(
        "{}, policy {}, context {}, {} allocated for the KV cache",
        model.name(),
        session.options().policy,
        format::count(session.options().context),
        format::bytes(session.kv_usage().allocated),
    ));
    if chat.has_questions() {
        let time = speeds::estimate(&session, 0, tokens)
            .map_or_else(String::new, |time| format!(", about {}", format::duration(time)));
        let tokens = format::count(tokens);
        app.console.note(&format!(
            "reading the conversation with this model: {tokens} tokens{time}; Ctrl-C goes back to the old one"
        ));
    }
    let mut reporter = app.reporter();
    let mut on_progress = |progress| reporter.progress(progress);
    let reading = app.interrupt.computing(|| chat.change_model(session, cache, &mut on_progress))?;
    crash_save::set_messages(chat.messages());
    Ok(reading)
}

/// The same error; where the memory is not enough, with a hint that helps here.
fn beside(error: anyhow::Error, name: &str) -> anyhow::Error {
    // Only what does not fit the memory has advice about flags.
    let is_memory = error.is::<Failure>() || matches!(error.downcast_ref(), Some(EngineError::Memory { .. }));
    match is_memory {
        true => Failure::new(
            failure::message(error.as_ref()),
            format!(
                "both models must fit the memory together; /exit, and `longhand chat {}` starts with this one alone",
                format::shell_word(name)
            ),
        )
        .into(),
        false => error,
    }
}
