//! `longhand`: the command line of the library. Each command is a module with its arguments and a function
//! `run`. Results go to stdout and everything else to stderr.

mod answer;
mod app;
mod args;
mod ask;
mod bench;
mod cached;
mod chat;
mod completions;
mod config;
mod console;
mod crash_save;
mod demo;
mod devices;
mod documents;
mod eval;
mod examine;
mod facts;
mod failure;
mod format;
mod heads;
mod hub;
mod inspect;
mod interrupt;
mod json_stream;
mod kept;
mod local_models;
mod logits;
mod offers;
mod plan;
mod policies;
mod progress;
mod prompts;
mod read;
mod recall;
mod recipes;
mod reporter;
mod sampling;
mod sessions;
mod speeds;
mod stdin;
mod suggest;
mod table;
#[cfg(unix)]
mod terminal;
mod tokenize;
mod transcript;
mod turn;

use std::process::ExitCode;

/// Where memory is refused, the program ends as after other fatal failures: see `crash_save`.
#[global_allocator]
static ALLOCATOR: ggml::FatalAllocator = ggml::FatalAllocator;

fn main() -> ExitCode {
    args::run(std::env::args_os().collect())
}
