//! Flags for the model and its threads.

use std::path::{Path, PathBuf};

use clap::Args;
use longhand::{ModelSource, SetupOptions};
use models::shapes::{FileType, ModelShape};

use super::device::DeviceArgs;
use super::llama::UnusedArgs;
use super::values;
use crate::app::{App, model_source};
use crate::failure::Failure;

/// Flags of commands that open a model.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// GGUF file (any part of a split one) [default: the small built-in model]
    #[arg(short = 'm', long = "model", value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Number of CPU threads [default: one for each logical core]
    #[arg(short = 't', long, value_parser = values::threads)]
    threads: Option<usize>,
    /// Use weights as they are in the file: needs less memory, but is slower
    #[arg(long)]
    no_repack: bool,
    #[command(flatten)]
    pub device: DeviceArgs,
    #[command(flatten)]
    unused: UnusedArgs,
}

/// The model as a positional argument.
#[derive(Clone, Debug, Args)]
pub struct ModelArg {
    /// Model file (GGUF), the same as -m FILE
    #[arg(id = "model_arg", value_name = "MODEL")]
    pub path: Option<PathBuf>,
}

impl ModelArgs {
    /// The model given by -m or by a positional argument, else the embedded model.
    pub fn source(&self, argument: Option<&Path>) -> Result<ModelSource, Failure> {
        match (&self.model, argument) {
            (Some(flag), Some(argument)) => Err(Failure::usage(
                format!("two models are given: {} and {}", flag.display(), argument.display()),
                "name the model once, with -m or as the first argument",
            )),
            (flag, argument) => Ok(model_source(flag.as_deref().or(argument))),
        }
    }

    /// Setup options with these flags. Prints a note for each flag without effect.
    pub fn setup_options(&self, app: &App) -> SetupOptions {
        for note in self.unused.notes() {
            app.console.note(&format!("note: {note}"));
        }
        SetupOptions {
            threads: self.threads,
            repack: !self.no_repack,
            device: self.device.device,
            gpu_layers: self.device.n_gpu_layers,
            gpu_memory: self.device.memory,
            interrupt: app.interrupt.flag(),
            ..SetupOptions::default()
        }
    }
}

/// Help about `--shape`, which begins with `what`.
pub fn shape_help(what: &str) -> String {
    let shapes: Vec<&str> = ModelShape::all().iter().map(|shape| shape.name).collect();
    let types: Vec<&str> = FileType::ALL.iter().map(|file_type| file_type.name()).collect();
    format!("{what}: {}. With a file type after a colon: {}", shapes.join(", "), types.join(", "))
}

/// Whether an argument that may be a model or a question is a model: it ends in `.gguf` or is an existing
/// path.
pub fn looks_like_model(text: &str) -> bool {
    let path = Path::new(text);
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf")) || path.exists()
}
