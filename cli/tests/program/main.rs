//! The program on command lines and in pipes. The tests run at the same time: each has files and folders of its own name.

mod answering;
mod arguments;
mod ask_and_chat;
mod bad_input;
mod chat_changes;
mod chat_commands;
#[path = "../common/mod.rs"]
mod common;
mod completions;
mod config;
mod containers;
mod documents;
mod eval;
mod file_faults;
mod first_minute;
mod hub;
mod invisible;
mod io_errors;
mod kept;
mod limits;
mod local_models;
mod lost_model;
mod mock_gpu;
mod needle;
mod own_files;
mod reading;
mod recall;
#[cfg(feature = "rpc")]
mod rpc;
#[cfg(feature = "serve")]
mod serve;
mod sessions;
mod shapes;
mod sources;
mod speeds;
mod streams;
mod tools;
mod unanswered;
mod web;
