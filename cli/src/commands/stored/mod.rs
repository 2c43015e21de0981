//! Commands for what is kept on disk: conversations, and documents that were read.

pub mod documents;
pub mod sessions;
