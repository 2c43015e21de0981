//! What the commands that read documents and answer have in common: documents, kept conversations, sampling, one
//! question with its answer.

pub mod crash_save;
pub mod documents;
pub mod kept;
pub mod plain;
pub mod prompts;
pub mod sampling;
pub mod speeds;
pub mod transcript;
pub mod turn;
