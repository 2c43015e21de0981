//! The laboratory: what policies cost, measured. `eval` asks models about long texts for many ways of keeping the cache, and
//! `recall` counts the facts of a long document that each policy still finds.
//!
//! It stands beside the program and uses the library as any other caller does: a text is read once into many sessions, and
//! each of them is asked from the state after the text (`examine`). A measurement never changes what the library computes, a
//! result is written down before the next one begins, and what cannot be measured is said, not guessed.
//!
//! The program parses the flags of models, opens these, and lends its console and its Ctrl-C ([`Lab`]). What is asked, and how
//! answers are scored, is in the crate `tasks`, which knows no models; pictures are in `charts`, which knows neither.

#![forbid(unsafe_code)]

mod charts;
pub mod eval;
mod examine;
pub mod recall;

use std::sync::Arc;

use longhand::{Engine, EngineError, Model, Setup, SetupOptions};
use terminal::console::Console;
use terminal::interrupt::Interrupt;
use terminal::reporter::Reporter;

/// What the program lends: where notes and results go, and what stops a computation.
pub struct Lab {
    /// Standard output and standard error.
    pub console: Console,
    /// Ctrl-C.
    pub interrupt: Interrupt,
}

impl Lab {
    /// Shows progress and notices of the library.
    fn reporter(&self) -> Reporter<'_> {
        Reporter::new(&self.console)
    }

    /// Decides how a model is run with a first prompt of `prompt` tokens, and loads its weights. Ctrl-C stops it.
    fn load(
        &self,
        model: &Arc<Model>,
        options: &SetupOptions,
        prompt: usize,
    ) -> Result<Arc<Engine>, EngineError> {
        let setup =
            self.interrupt.computing(|| Setup::resolve(model, options, prompt, &mut self.reporter()))?;
        self.interrupt.computing(|| setup.load(&mut self.reporter()))
    }
}
