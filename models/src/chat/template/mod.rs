//! Runs chat templates. They are programs from the file, so they are compiled and rendered in a process of their own
//! (`worker`, `wire`), where systems have that; `environment` and `python` are their language, `form` is what they get.
//! Uses messages and errors of `chat`, and knows nothing of prompts and tokens.

mod environment;
mod form;
#[cfg(not(unix))]
mod in_process;
mod python;
#[cfg(unix)]
mod wire;
#[cfg(unix)]
mod worker;

pub(super) use environment::{Variable, json_text};
pub(super) use form::Forms;
#[cfg(not(unix))]
pub(super) use in_process::Template;
#[cfg(unix)]
pub(super) use worker::Template;
