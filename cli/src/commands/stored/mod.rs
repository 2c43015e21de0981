//! Commands for what is kept on disk: conversations, documents that were read, and settings.

pub mod config;
pub mod documents;
pub mod sessions;
