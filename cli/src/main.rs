//! `longhand`: the command line of the library. Each command is a module with its arguments and a function
//! `run`. Results go to stdout and everything else to stderr.
//!
//! The program decides nothing that the library can decide: it turns flags and settings into options, and what the library
//! says into sentences with flags. Arguments are checked before anything long begins. An error names what was wrong, where,
//! and what to do. A conversation is on the disk before the program ends, unless it is private.

#![forbid(unsafe_code)]
// For objects of JSON with as many keys as those of `bench`.
#![recursion_limit = "256"]

mod app;
mod args;
mod commands;
mod config;
mod failure;
mod models;
mod session;

use std::process::ExitCode;
use std::{panic, thread};

/// Where memory is refused, the program ends as after other fatal failures: see `crash_save`.
#[global_allocator]
static ALLOCATOR: ggml::FatalAllocator = ggml::FatalAllocator;

/// Bytes of stack that every command can do with.
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    let code = run();
    // The C++ runtime of MinGW cleans up behind `main`, and may wait there for ever for a thread that is gone.
    #[cfg(windows)]
    std::process::exit(code.into());
    #[cfg(not(windows))]
    code.into()
}

/// Runs the program with enough stack. Returns the exit code.
fn run() -> u8 {
    let run = || commands::run(std::env::args_os().collect());
    if has_enough_stack() {
        return run();
    }
    match thread::Builder::new().name("main".to_owned()).stack_size(STACK).spawn(run) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic)),
        // Without room for another stack, this one is what there is.
        Err(_) => run(),
    }
}

/// Whether the stack on which the program starts (`ulimit -s`) is large enough.
fn has_enough_stack() -> bool {
    #[cfg(unix)]
    return rustix::process::getrlimit(rustix::process::Resource::Stack)
        .current
        .is_none_or(|bytes| bytes >= STACK as u64);
    #[cfg(not(unix))]
    false
}
