//! An opened model with everything a conversation needs of it.

use std::path::Path;

use anyhow::Result;
use engine::{Engine, EngineOptions, ModelSource};
use models::chat::{ChatError, ChatTemplate, Message, NextTurn, Prompt};
use models::embedded::EMBEDDED_NAME;
use models::gguf::GgufFile;
use models::tokenizer::Tokenizer;

use crate::args::App;
use crate::failure::Failure;
use crate::progress::ProgressBar;

/// Engine, tokenizer and chat template of one file.
pub struct Model {
    /// The engine.
    pub engine: Engine,
    /// Text to tokens and back.
    pub tokenizer: Tokenizer,
    /// How conversations are written.
    pub template: ChatTemplate,
    /// What to call it.
    pub name: String,
}

impl Model {
    /// Opens a model for conversations. Ctrl-C stops its computations from now on.
    pub fn open(app: &App, source: &ModelSource, options: &EngineOptions) -> Result<Model> {
        let engine = open_engine(app, source, options)?;
        let tokenizer = open_tokenizer(engine.file())?;
        if tokenizer.n_vocab() > engine.spec().n_vocab {
            return Err(Failure::new(
                format!(
                    "the vocabulary has {} tokens, but the model only {}",
                    tokenizer.n_vocab(),
                    engine.spec().n_vocab
                ),
                "the file is damaged or put together from two models; convert it again",
            )
            .found_in(engine.file())
            .into());
        }
        let template = ChatTemplate::from_gguf(engine.file(), &tokenizer)
            .map_err(|error| Failure::from(error).found_in(engine.file()))?;
        let name = name(source, &engine.spec().name);
        Ok(Model { engine, tokenizer, template, name })
    }

    /// The tokens of a conversation up to where the next answer begins.
    pub fn prompt(&self, messages: &[Message]) -> Result<Vec<u32>, Failure> {
        let prompt = self.template.prompt(messages, true).map_err(|error| self.failure(error))?;
        self.encode(&prompt)
    }

    /// What the model reads before its next answer, having read and said what comes before it.
    pub fn next_turn(&self, messages: &[Message]) -> Result<NextTurn, Failure> {
        self.template.next_turn(messages).map_err(|error| self.failure(error))
    }

    /// The tokens of a prompt.
    pub fn encode(&self, prompt: &Prompt) -> Result<Vec<u32>, Failure> {
        prompt.encode(&self.tokenizer).map_err(|error| self.failure(error))
    }

    /// What the template or the vocabulary of this model's file refused.
    fn failure(&self, error: ChatError) -> Failure {
        Failure::from(error).found_in(self.engine.file())
    }
}

/// The tokenizer of a file.
pub fn open_tokenizer(file: &GgufFile) -> Result<Tokenizer, Failure> {
    Tokenizer::from_gguf(file).map_err(|error| Failure::from(error).found_in(file))
}

/// Opens only the engine, for commands that need no text.
pub fn open_engine(app: &App, source: &ModelSource, options: &EngineOptions) -> Result<Engine> {
    let mut bar = ProgressBar::new(&app.console, "loading");
    let engine = app.interrupt.reading(|| {
        Engine::open_with(source, options, &mut |done, all| {
            bar.bytes(done as u64, all as u64);
            match app.interrupt.is_pressed() {
                true => Err(ggml::Error::Interrupted.into()),
                false => Ok(()),
            }
        })
    })?;
    drop(bar);
    app.interrupt.watch(&engine);
    if let Some(window) = engine.spec().ignored_sliding_window {
        app.console.note(&format!(
            "note: the file states a sliding window of {window} tokens, which is not applied: attention is full"
        ));
    }
    Ok(engine)
}

/// The name the author gave, else that of the file.
pub fn name(source: &ModelSource, given: &str) -> String {
    match source {
        ModelSource::Embedded => EMBEDDED_NAME.to_owned(),
        _ if !given.is_empty() => given.to_owned(),
        ModelSource::File(path) => stem(path),
        ModelSource::Bytes(_) => "model".to_owned(),
    }
}

/// The file as it was named, for JSON.
pub fn file_name(source: &ModelSource) -> String {
    match source {
        ModelSource::File(path) => path.display().to_string(),
        _ => EMBEDDED_NAME.to_owned(),
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| "model".to_owned(), |stem| stem.to_string_lossy().into_owned())
}
