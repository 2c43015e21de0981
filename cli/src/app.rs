//! What every command receives: the console and Ctrl-C, with the steps towards a loaded model.

use std::path::Path;
use std::sync::Arc;

use longhand::{Engine, EngineError, Model, ModelSource, Session, Setup, SetupOptions};

use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::offers;
use crate::reporter::Reporter;

/// What every command receives.
pub struct App {
    /// Standard output and standard error.
    pub console: Console,
    /// Ctrl-C.
    pub interrupt: Interrupt,
}

impl App {
    /// The console and the Ctrl-C handler of this process.
    pub fn new() -> App {
        App { console: Console::detect(), interrupt: Interrupt::install() }
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

    /// As [`App::resolve`]; the error that memory is not enough says what fits instead.
    pub fn resolve_or_offer(
        &self,
        model: &Arc<Model>,
        options: &SetupOptions,
        prompt: usize,
    ) -> anyhow::Result<Setup> {
        self.resolve(model, options, prompt).map_err(|error| match &error {
            EngineError::Memory { context, .. } => {
                let offers = self.interrupt.computing(|| offers::find(model, options, prompt, *context));
                Failure::from(error).or_offer(&offers).into()
            }
            _ => error.into(),
        })
    }

    /// Loads the weights. Ctrl-C stops it.
    pub fn load(&self, setup: &Setup) -> Result<Arc<Engine>, EngineError> {
        self.interrupt.computing(|| setup.load(&mut self.reporter()))
    }

    /// Loads the weights and makes a session. Ctrl-C stops it.
    pub fn start(&self, setup: &Setup) -> Result<Session, EngineError> {
        self.interrupt.computing(|| setup.start(&mut self.reporter()))
    }
}

/// A model file, or the embedded model if there is no path.
pub fn model_source(path: Option<&Path>) -> ModelSource {
    path.map_or(ModelSource::Embedded, |path| ModelSource::File(path.to_owned()))
}
