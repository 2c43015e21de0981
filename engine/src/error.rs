//! What can go wrong while a model is opened, planned or run.

use crate::heads::HeadsError;
use models::LoadError;

/// A failure of the engine, with what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The model file cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The head profile cannot be used.
    #[error(transparent)]
    Heads(#[from] HeadsError),
    /// A computation failed.
    #[error(transparent)]
    Compute(#[from] ggml::Error),
    /// More tokens than the session has room for.
    #[error(
        "{needed} tokens do not fit a context of {context}\n\
         hint: give a larger context with -c {needed} (see `longhand plan` for what it costs), or a shorter text"
    )]
    ContextFull {
        /// Tokens that were to be held.
        needed: usize,
        /// Tokens the session was made for.
        context: usize,
    },
    /// A token outside the vocabulary.
    #[error(
        "token {token} is outside the vocabulary of {vocabulary}\nhint: tokens are numbers below {vocabulary}"
    )]
    Token {
        /// The token.
        token: u32,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
    /// A file with a session cannot be used or written.
    #[error("{}: {what}\nhint: {hint}", path.display())]
    Snapshot {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong.
        what: String,
        /// What to do.
        hint: String,
    },
    /// A policy that does not exist or makes no sense.
    #[error("policy `{given}`: {reason}\nhint: {hint}")]
    Policy {
        /// What was asked for.
        given: String,
        /// What is wrong with it.
        reason: String,
        /// What would be right.
        hint: String,
    },
    /// A setting that makes no sense.
    #[error("{what}: {reason}\nhint: {hint}")]
    Setting {
        /// The setting.
        what: String,
        /// What is wrong with it.
        reason: String,
        /// What would be right.
        hint: String,
    },
}

impl EngineError {
    /// Whether the failure is the user's wish to stop.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, EngineError::Compute(ggml::Error::Interrupted))
    }
}
