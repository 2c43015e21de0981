//! `longhand serve`: conversations with a loaded model for other programs, by HTTP, in the forms of OpenAI's, Anthropic's,
//! Ollama's and llama.cpp's interfaces.
//!
//! - `service` has the conversations: sessions, who waits for one, who computes next. It knows nothing of HTTP.
//! - `api` turns requests into work for the service, and its events into answers, one file for each interface.
//! - `http` has connections, what may be asked by whom, and the shape of errors.
//!
//! A caller of the library like any other. It knows nothing of terminals, never prints and never exits.
//!
//! Work for the model has a thread for each conversation that is answered. One of them computes at a time: a piece of its text, or one
//! pass for what all answers need next (`longhand::generation::Batch`). Connections share one other thread, which never waits for the model.

#![forbid(unsafe_code)]

use std::hash::{BuildHasher as _, RandomState};

mod api;
mod http;
mod service;
#[doc(hidden)]
pub mod testing;

pub use http::{Address, Keys, Server, ServerError, ServerOptions};
pub use service::{Documents, Service, ServiceError, ServiceOptions};

/// A number that nobody has chosen, another one each time.
fn random() -> u64 {
    RandomState::new().hash_one(())
}
