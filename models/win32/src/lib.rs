//! What this program needs of Windows and the standard library does not have, as safe functions. On other systems the crate
//! is empty. It calls the system and nothing else.
#![cfg(windows)]

mod console;
mod disk;
mod files;
mod job;
mod memory;

pub use console::{ConsoleEvent, on_console_event};
pub use disk::free_bytes;
pub use files::{
    FileIdentity, InputKind, identity, input_kind, lock, pipe_has_input, try_lock, use_as_stdin,
};
pub use job::Job;
pub use memory::{available_bytes, private_bytes};

use std::io;

/// The result of a call that returns 0 where it fails.
fn checked(result: i32) -> io::Result<()> {
    if result == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
