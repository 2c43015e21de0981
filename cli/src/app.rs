//! What every command receives: the console and Ctrl-C, with the steps towards a loaded model.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use longhand::policy::PolicyChoice;
use longhand::{Engine, EngineError, Model, ModelSource, Prefill, Session, Setup, SetupOptions};

use crate::console::Console;
use crate::failure::{self, Failure};
use crate::format;
use crate::interrupt::Interrupt;
use crate::local_models;
use crate::offers;
use crate::reporter::{HeldReporter, Reporter};

/// What `ask` and `chat` say of the embedded model.
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

    /// Says what the embedded model is and how to use another one, if it is the one. `is_asked`: in `ask`, not in `chat`.
    pub fn introduce(&self, source: &ModelSource, is_asked: bool) {
        let (what, how, command) = match is_asked {
            true => (
                "No model is named, so the small built-in model answers.",
                "ask",
                "ask MODEL FILE \"QUESTION\"",
            ),
            false => ("This is the small built-in model.", "chat with", "chat MODEL"),
        };
        if matches!(source, ModelSource::Embedded) {
            self.console.note(&format!(
                "{what} {EMBEDDED}\nTo {how} a model of your own: longhand {command} (MODEL is a GGUF file, or a name in \
                 `longhand models`)."
            ));
        }
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
                        format!("the weights and a full cache in {types} do not fit the memory together")
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
            return resolved.map_err(|error| Failure::from(error).or_offer(&offers).into());
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

    /// Makes a session of [`App::resolve_within_memory`]. Calibration may find more retrieval heads than were assumed.
    /// The cache is then chosen once more, with these heads.
    pub fn start_within_memory(
        &self,
        model: &Arc<Model>,
        options: &SetupOptions,
        prompt: usize,
    ) -> anyhow::Result<Session> {
        match self.start(&self.resolve_within_memory(model, options, prompt)?) {
            Err(EngineError::Memory { .. }) if options.policy.is_none() => {
                Ok(self.start(&self.resolve_within_memory(model, options, prompt)?)?)
            }
            started => Ok(started?),
        }
    }

    /// Loads the weights. Ctrl-C stops it.
    pub fn load(&self, setup: &Setup) -> Result<Arc<Engine>, EngineError> {
        self.interrupt.computing(|| setup.load(&mut self.reporter()))
    }

    /// Loads the weights and makes a session. Ctrl-C stops it.
    pub fn start(&self, setup: &Setup) -> Result<Session, EngineError> {
        let options = setup.session_options();
        self.note_prefill([(options.prefill, &options.policy)]);
        self.interrupt.computing(|| setup.start(&mut self.reporter()))
    }

    /// Prints a note if a policy reads a text twice, and its prefill cannot.
    pub fn note_prefill<'a>(&self, caches: impl IntoIterator<Item = (Prefill, &'a PolicyChoice)>) {
        let cannot = |(prefill, policy): (Prefill, &PolicyChoice)| {
            prefill == Prefill::Streaming && policy.reads_twice()
        };
        if caches.into_iter().any(cannot) {
            self.console.note(
                "note: with --prefill streaming no text is read twice: kvzip keeps the first and the last rows, and no \
                 others",
            );
        }
    }
}

/// A model file, or the embedded model if there is no path. What is no path may be the name of a model on
/// this machine: `folders` are looked at besides the caches of other programs.
///
/// # Errors
/// A name that several models have, or none.
pub fn model_source(path: Option<&Path>, folders: &[PathBuf]) -> Result<ModelSource, Failure> {
    let Some(path) = path else { return Ok(ModelSource::Embedded) };
    if path.exists() {
        return Ok(ModelSource::File(path.to_owned()));
    }
    if let Some(found) = path.to_str().map(|name| local_models::find(name, folders)).transpose()?.flatten() {
        return Ok(ModelSource::File(found));
    }
    match path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf")) {
        // Opening it says what is wrong with the path.
        true => Ok(ModelSource::File(path.to_owned())),
        false => Err(local_models::unknown(path, folders)),
    }
}
