//! `longhand`: the command line of the library. Each command is a module with its arguments and a function
//! `run`. Results go to stdout and everything else to stderr.

mod app;
mod args;
mod commands;
mod config;
mod failure;
mod models;
mod session;

use std::process::ExitCode;

/// Where memory is refused, the program ends as after other fatal failures: see `crash_save`.
#[global_allocator]
static ALLOCATOR: ggml::FatalAllocator = ggml::FatalAllocator;

fn main() -> ExitCode {
    commands::run(std::env::args_os().collect())
}
