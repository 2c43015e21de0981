//! `longhand`: the command line of the library. Each command is a module with its arguments and a function
//! `run`. Results go to stdout and everything else to stderr.

mod app;
mod args;
mod commands;
mod config;
mod failure;
mod models;
mod session;

use std::panic;
use std::process::ExitCode;
use std::thread;

/// Where memory is refused, the program ends as after other fatal failures: see `crash_save`.
#[global_allocator]
static ALLOCATOR: ggml::FatalAllocator = ggml::FatalAllocator;

/// Bytes of the stack on which the program runs, whatever `ulimit -s` and the system say.
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    let run = || commands::run(std::env::args_os().collect());
    match thread::Builder::new().name("main".to_owned()).stack_size(STACK).spawn(run) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic)),
        // Without room for another stack, the system's is what there is.
        Err(_) => run(),
    }
}
