//! Where a command meets its user: the console, Ctrl-C, the line that is typed, progress, tables, answers in Markdown, errors
//! with a hint, and what the values of flags mean.
//!
//! Data goes to stdout, all else to stderr. Text of models, documents and files is foreign: on a terminal its control
//! characters are shown and never obeyed. Writing never panics, and the terminal is given back however the program ends.
//! An error says what was wrong and where ([`Failure`](failure::Failure)); its hint says what to do.
//!
//! The crate knows the library, whose progress and notices it shows, and the names of flags, which notes and hints mention.
//! It runs no command, and knows no setting and no file of the program.

#![forbid(unsafe_code)]

pub mod answer;
pub mod console;
pub mod failure;
pub mod format;
pub mod interrupt;
pub mod json_stream;
pub mod line;
pub mod password;
pub mod prefill;
pub mod progress;
pub mod reporter;
pub mod stdin;
pub mod suggest;
pub mod table;
pub mod tty;
pub mod values;
