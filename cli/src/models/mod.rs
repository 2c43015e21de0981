//! Model files: those that this computer has under their names, and downloads from Hugging Face.

pub mod hub;
pub mod local_models;
