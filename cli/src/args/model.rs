//! Which model, and on how many threads.

use std::path::{Path, PathBuf};

use clap::Args;
use engine::{EngineOptions, ModelSource};

use super::device::DeviceArgs;
use super::llama::UnusedArgs;
use super::{App, values};
use crate::failure::Failure;

/// Flags of commands that open a model.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// GGUF file (any part of a split one); without it the small model inside the program
    #[arg(short = 'm', long = "model", value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Threads that compute; all processors unless given
    #[arg(short = 't', long, value_parser = values::threads)]
    threads: Option<usize>,
    /// Leave matrices as they lie in the file instead of copying them into a faster layout: less memory, slower
    #[arg(long)]
    no_repack: bool,
    #[command(flatten)]
    pub device: DeviceArgs,
    #[command(flatten)]
    unused: UnusedArgs,
}

/// A model named by its place among the arguments.
#[derive(Clone, Debug, Args)]
pub struct ModelPlace {
    /// GGUF file, the same as -m
    #[arg(value_name = "MODEL")]
    pub place: Option<PathBuf>,
}

impl ModelArgs {
    /// The source, where the file may also be given by place.
    pub fn source(&self, place: Option<&Path>) -> Result<ModelSource, Failure> {
        match (&self.model, place) {
            (Some(flag), Some(place)) => Err(Failure::usage(
                format!("two models are given: {} and {}", flag.display(), place.display()),
                "give the model once, with -m or as the first argument",
            )),
            (Some(path), None) => Ok(ModelSource::File(path.clone())),
            (None, Some(path)) => Ok(ModelSource::File(path.to_owned())),
            (None, None) => Ok(ModelSource::Embedded),
        }
    }

    /// How to open it on the CPU, with a note for each flag that is not used.
    pub fn options(&self, app: &App) -> EngineOptions {
        self.unused.notes().iter().for_each(|note| app.console.note(&format!("note: {note}")));
        EngineOptions { threads: self.threads, repack: !self.no_repack, ..EngineOptions::default() }
    }
}

/// Whether an argument that could be a model or a question is a model: something that exists, or a name ending in `.gguf`.
pub fn looks_like_model(text: &str) -> bool {
    let path = Path::new(text);
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf")) || path.exists()
}
