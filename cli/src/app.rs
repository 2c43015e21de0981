//! What every command is given: where output goes, Ctrl-C, and the ways to a loaded model that all commands share.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use longhand::{Engine, EngineError, Model, ModelSource, Setup, SetupOptions};

use crate::console::Console;
use crate::interrupt::Interrupt;
use crate::observer::Reporter;

/// What every command is given.
pub struct App {
    /// Where output goes.
    pub console: Console,
    /// Ctrl-C.
    pub interrupt: Interrupt,
}

impl App {
    /// The terminal and Ctrl-C of this process.
    pub fn new() -> App {
        App { console: Console::detect(), interrupt: Interrupt::install() }
    }

    /// Shows progress and notices.
    pub fn reporter(&self) -> Reporter<'_> {
        Reporter::new(&self.console)
    }

    /// Decides how a model is run; Ctrl-C stops it.
    pub fn resolve(
        &self,
        model: &Arc<Model>,
        options: &SetupOptions,
        prompt: usize,
    ) -> Result<Setup, EngineError> {
        self.interrupt.reading(|| Setup::resolve(model, options, prompt, &mut self.reporter()))
    }

    /// Loads the weights with a progress bar; Ctrl-C stops it.
    pub fn load(&self, setup: &Setup) -> Result<Arc<Engine>, EngineError> {
        self.interrupt.reading(|| setup.load(&mut self.reporter()))
    }
}

/// A model file, or the embedded model where none is named.
pub fn source(path: Option<&Path>) -> ModelSource {
    path.map_or(ModelSource::Embedded, |path| ModelSource::File(path.to_owned()))
}
