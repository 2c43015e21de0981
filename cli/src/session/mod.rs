//! What the commands that read documents and answer have in common: what arguments without a flag are, documents, kept
//! conversations, saved prompts, sampling, and one question with its answer. Also where answers come from, what of them
//! stands in no document, and what is saved after a crash.

pub mod bare_arguments;
pub mod checked;
pub mod crash_save;
pub mod documents;
pub mod kept;
pub mod prompts;
pub mod sampling;
pub mod sources;
pub mod speeds;
pub mod transcript;
pub mod turn;
