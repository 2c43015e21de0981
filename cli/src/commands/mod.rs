//! The commands of the program. Each is a module with its arguments and a function `run`.

pub mod ask;
pub mod bench;
pub mod chat;
pub mod completions;
pub mod demo;
pub mod eval;
pub mod examine;
pub mod heads;
pub mod inspect;
pub mod plan;
pub mod read;
pub mod recall;
pub mod stored;
