//! `longhand`: the command line of the engine. Arguments become validated settings, one module a command does the work, data go
//! to stdout and everything else to stderr.

mod args;
mod ask;
mod bench;
mod chat;
mod console;
mod conversation;
mod demo;
mod device;
mod devices;
mod documents;
mod failure;
mod format;
mod going_on;
mod heads;
mod inspect;
mod interrupt;
mod logits;
mod memory;
mod model;
mod opening;
mod plan;
mod profiles;
mod progress;
mod recall;
mod rescue;
mod table;
mod tokenize;

use std::process::ExitCode;

fn main() -> ExitCode {
    args::run(std::env::args_os().collect())
}
