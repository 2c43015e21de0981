//! Output to a terminal or a pipe, and Ctrl-C: the console, progress, tables, answers in Markdown.

pub mod answer;
pub mod console;
pub mod format;
pub mod interrupt;
pub mod json_stream;
pub mod progress;
pub mod reporter;
pub mod stdin;
pub mod table;
#[cfg(unix)]
pub mod tty;
