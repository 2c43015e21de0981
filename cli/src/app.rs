//! What every command receives: the console and Ctrl-C, with the steps towards a loaded model.

use std::sync::Arc;

use longhand::error::Shortage;
use longhand::files::folders;
use longhand::setup::Offers;
use longhand::{
    ChatFormat, Engine, EngineError, Model, ModelSource, Observer as _, Session, Setup, SetupOptions,
};
use models::chat::TemplateOrigin;
use terminal::console::Console;
use terminal::interrupt::Interrupt;
use terminal::reporter::{self, Reporter};

use crate::failure::{self, Hinted as _};

/// What a model is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Ask,
    Chat,
    Read,
    #[cfg(feature = "serve")]
    Serve,
}

/// What `ask`, `chat` and `read` say of the embedded model.
const EMBEDDED: &str = "It finds facts in documents, such as numbers, names and places, and little else.";

/// What every command receives.
pub struct App {
    /// Standard output and standard error.
    pub console: Console,
    /// Ctrl-C.
    pub interrupt: Interrupt,
}

impl App {
    /// The console and the Ctrl-C handler of this process. `quiet`: without notes and progress.
    pub fn new(quiet: bool) -> App {
        App { console: Console::detect().with_quiet(quiet), interrupt: Interrupt::install() }
    }

    /// The same with answers as the model writes them, if `plain`.
    pub fn with_plain(&self, plain: bool) -> App {
        App { console: self.console.with_plain(plain), interrupt: self.interrupt.clone() }
    }

    /// Says what the embedded model is and how to use another one, if it is the one.
    pub fn introduce(&self, source: &ModelSource, purpose: Purpose) {
        let (what, how, command) = match purpose {
            Purpose::Ask => (
                "No model is named, so the small built-in model answers.",
                "ask",
                "ask MODEL FILE \"QUESTION\"",
            ),
            Purpose::Chat => ("This is the small built-in model.", "chat with", "chat MODEL"),
            Purpose::Read => {
                ("No model is named, so the small built-in model reads.", "read with", "read FILE -m MODEL")
            }
            #[cfg(feature = "serve")]
            Purpose::Serve => ("This is the small built-in model.", "serve", "serve MODEL"),
        };
        if matches!(source, ModelSource::Embedded) {
            self.console.note(&format!(
                "{what} {EMBEDDED}\nTo {how} a model of your own: longhand {command} (MODEL is a GGUF file, or a name in \
                 `longhand models`)."
            ));
        }
    }

    /// Opens a model. Its fingerprint is remembered in the cache folder.
    pub fn open(&self, source: ModelSource) -> Result<Arc<Model>, EngineError> {
        Model::open_with(source, folders::cache().map(|folder| folder.join("fingerprints.json")))
    }

    /// The fingerprint of a model. Ctrl-C stops it.
    pub fn identify(&self, model: &Model, options: &SetupOptions) -> Result<String, EngineError> {
        let (threads, mut reporter) = (options.engine().threads(), self.reporter());
        let mut progress = |progress| reporter.progress(progress);
        let identified =
            self.interrupt.computing(|| model.identify(threads, &options.interrupt, &mut progress));
        identified.map(str::to_owned)
    }

    /// Shows progress and notices of the library.
    pub fn reporter(&self) -> Reporter<'_> {
        Reporter::new(&self.console)
    }

    /// Decides how a model is run with a first prompt of `prompt` tokens. Ctrl-C stops it.
    pub fn resolve(
        &self,
        model: &Arc<Model>,
        options: &SetupOptions,
        prompt: usize,
    ) -> Result<Setup, EngineError> {
        self.interrupt.computing(|| Setup::resolve(model, options, prompt, &mut self.reporter()))
    }

    /// Makes a session. Without a policy the library chooses a cache that fits the memory, which the reporter tells. Where
    /// a policy was given and does not fit, the error says what fits instead.
    pub fn start_within_memory(
        &self,
        model: &Arc<Model>,
        options: &SetupOptions,
        prompt: usize,
    ) -> anyhow::Result<Session> {
        match self.resolve(model, options, prompt) {
            Ok(setup) => Ok(self.start(&setup)?),
            Err(error @ EngineError::Memory(Shortage { context, .. })) if options.policy.is_some() => {
                let find = || Offers::find(model, options, prompt, context);
                let offers = self.interrupt.computing(find)?;
                Err(failure::or_offer(error.into_failure(), &offers).into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Says so if the model file has no chat template, since the model was probably not trained to answer; and if the
    /// template runs without the limits of a process of its own.
    pub fn note_template(&self, format: &ChatFormat) {
        if let Some(why) = format.template().unconfined() {
            self.console.note(&format!(
                "note: the model's chat template runs with few limits, because the system refuses a process for it ({why}). \
                 Use only model files that you trust here"
            ));
        }
        let instead = match format.template().origin() {
            TemplateOrigin::File => return,
            TemplateOrigin::ChatMl => "ChatML is used, since the vocabulary has its tokens",
            TemplateOrigin::Plain => "`User:` and `Assistant:` are written before the messages",
        };
        self.console.note(&format!(
            "note: the model file has no chat template. It is probably a base model, which continues texts and was not \
             trained to answer questions. {instead}. Instruct or chat models answer better"
        ));
    }

    /// Loads the weights. Ctrl-C stops it.
    pub fn load(&self, setup: &Setup) -> Result<Arc<Engine>, EngineError> {
        self.interrupt.computing(|| setup.load(&mut self.reporter()))
    }

    /// Loads the weights and makes a session. Ctrl-C stops it.
    pub fn start(&self, setup: &Setup) -> Result<Session, EngineError> {
        let options = setup.session_options();
        reporter::note_prefill(&self.console, [(options.prefill, &options.policy)]);
        self.interrupt.computing(|| setup.start(&mut self.reporter()))
    }
}
