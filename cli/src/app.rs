//! What every command receives: the console and Ctrl-C, with the steps towards a loaded model.

use std::sync::Arc;

use longhand::policy::KvBudget;
use longhand::setup::free_memory;
use longhand::{
    ChatFormat, Engine, EngineError, Model, ModelSource, Observer as _, Session, Setup, SetupOptions, folders,
};
use models::chat::TemplateOrigin;
use terminal::console::Console;
use terminal::format;
use terminal::interrupt::Interrupt;
use terminal::reporter::{self, HeldReporter, Reporter};

use crate::failure::{self, IntoFailure as _};
use crate::session::offers::{self, Budgeted};

/// What a model is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Ask,
    Chat,
    Read,
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

    /// As [`App::resolve`], for a cache that fits the memory beside the weights, and with a GPU leaves all layers there.
    /// Where that of the default policy does not, the closest one that does is used, with a note. Where a policy was
    /// given, the error says what fits instead.
    fn resolve_within_memory(
        &self,
        model: &Arc<Model>,
        options: &SetupOptions,
        prompt: usize,
    ) -> anyhow::Result<Setup> {
        if let (None, Some(budget)) = (&options.policy, options.budget) {
            return self.resolve_for_budget(model, options, budget, prompt);
        }
        let mut reporter = HeldReporter::new(self.reporter());
        let resolved = self.interrupt.computing(|| Setup::resolve(model, options, prompt, &mut reporter));
        let is_auto = options.policy.is_none();
        let (why, context) = match &resolved {
            Ok(setup) if is_auto && !setup.fits() => {
                let session = setup.session_options();
                let types = format::types(session.types);
                let why = match setup.is_for_gpu() {
                    true => format!("with a full cache in {types} not all layers fit the GPU"),
                    false => {
                        let bound = free_memory().map_or(String::new(), |free| free.bound.to_string());
                        format!(
                            "the weights and a full cache in {types} do not fit the memory together{bound}"
                        )
                    }
                };
                (why, session.context)
            }
            Err(error @ EngineError::Memory { context, .. }) => (failure::message(error), *context),
            _ => {
                reporter.release();
                return Ok(resolved?);
            }
        };
        let offers = self.interrupt.computing(|| offers::find(model, options, prompt, context))?;
        let better = offers.offers.first().filter(|offer| is_auto && (resolved.is_err() || !offer.is_none()));
        let Some((offer, changed)) = better.and_then(|offer| Some((offer, offer.apply(options)?))) else {
            reporter.release();
            return resolved.map_err(|error| failure::or_offer(error.into_failure(), &offers).into());
        };
        if !offer.is_none() {
            self.console.note(&format!(
                "note: {why}. Using {} instead ({}): {}. To allow only a full cache, give --policy full",
                offer.flags(),
                format::bytes(offer.bytes),
                offer.known_cost()
            ));
        }
        Ok(self.resolve(model, &changed, prompt)?)
    }

    /// As [`App::resolve`], with the policy that suits a budget, and a note which one that is.
    fn resolve_for_budget(
        &self,
        model: &Arc<Model>,
        options: &SetupOptions,
        budget: KvBudget,
        prompt: usize,
    ) -> anyhow::Result<Setup> {
        let Budgeted { offer, setup, is_advised } =
            self.interrupt.computing(|| offers::for_budget(model, options, budget, prompt))?;
        let flags = offer.flags();
        self.console.note(&match (offer.policy, is_advised) {
            (None, _) if flags.is_empty() => "note: the KV budget holds a full cache: nothing is evicted".to_owned(),
            (None, _) => format!("note: the KV budget holds a full cache with {flags}: nothing is evicted"),
            (Some(_), true) => format!("note: using {flags} for the KV budget: {}", offer.known_cost()),
            (Some(_), false) => format!(
                "note: using {flags} for the KV budget. It is smaller than any that was measured: answers may be lost. \
                 The text is read twice"
            ),
        });
        // Once more with its notices.
        let budget = options.budget.filter(|_| offer.policy.is_some());
        match offer.apply(options) {
            Some(changed) => Ok(self.resolve(model, &SetupOptions { budget, ..changed }, prompt)?),
            None => Ok(setup),
        }
    }

    /// Makes a session of [`App::resolve_within_memory`]. Calibration may find more retrieval heads than were assumed, so
    /// that the memory or the budget is too small. The cache is then chosen once more, with these heads.
    pub fn start_within_memory(
        &self,
        model: &Arc<Model>,
        options: &SetupOptions,
        prompt: usize,
    ) -> anyhow::Result<Session> {
        match self.start(&self.resolve_within_memory(model, options, prompt)?) {
            Err(EngineError::Memory { .. } | EngineError::Policy { .. }) if options.policy.is_none() => {
                Ok(self.start(&self.resolve_within_memory(model, options, prompt)?)?)
            }
            started => Ok(started?),
        }
    }

    /// Says so if the model file has no chat template: the model was probably not trained to answer.
    pub fn note_missing_template(&self, format: &ChatFormat) {
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
