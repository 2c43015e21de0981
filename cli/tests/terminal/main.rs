//! The program in a terminal: what its user types and sees. The tests run at the same time: each has files and folders of its own name.
#![cfg(unix)]

mod answers;
#[path = "../common/mod.rs"]
mod common;
mod keys;
mod passwords;
mod pictures;
mod pty;
mod svg;
