//! The GGUF reader and writer, and specifications and tensors read from files.

mod common;
mod corrupt;
mod lost;
mod real;
mod spec;
mod split;
mod write;
