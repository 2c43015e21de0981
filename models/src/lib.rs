//! What a model file says, as plain data: the GGUF reader and writer, the architectures known here, tokenizer and chat template.
//! Relies on nothing of ggml: types and shapes are numbers and names, and computing with them is the engine's business.

pub mod arch;
pub mod chat;
pub mod embedded;
mod error;
pub mod gguf;
pub mod shapes;
pub mod spec;
pub mod tokenizer;
pub mod types;

pub use error::LoadError;
