//! `longhand`: the command line of the engine. Arguments become validated settings, one module a command does the work, data go
//! to stdout and everything else to stderr.

mod app;
mod args;
mod ask;
mod bench;
mod chat;
mod console;
mod crash_save;
mod demo;
mod devices;
mod documents;
mod failure;
mod format;
mod heads;
mod inspect;
mod interrupt;
mod logits;
mod observer;
mod plan;
mod progress;
mod recall;
mod resume_check;
mod table;
mod tokenize;

use std::process::ExitCode;

fn main() -> ExitCode {
    args::run(std::env::args_os().collect())
}
