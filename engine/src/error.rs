//! What can go wrong while a model is opened, planned or run.

use std::path::PathBuf;

use models::LoadError;
use models::chat::ChatError;
use models::tokenizer::TokenizerError;

use crate::heads::HeadsError;
use crate::sampler::SamplerError;

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
    /// The file has no usable vocabulary.
    #[error("{}{error}", in_file(path))]
    Tokenizer {
        /// The model's file, where it is one on disk.
        path: Option<PathBuf>,
        /// What is wrong.
        error: TokenizerError,
    },
    /// The vocabulary has more tokens than the model has embeddings.
    #[error("{}the vocabulary has {tokens} tokens, but the model only {rows}", in_file(path))]
    Vocabulary {
        /// The model's file, where it is one on disk.
        path: Option<PathBuf>,
        /// Tokens of the vocabulary.
        tokens: usize,
        /// Tokens the model has embeddings for.
        rows: usize,
    },
    /// The chat template cannot be used, or refuses the conversation.
    #[error("{}{error}", in_file(path))]
    Chat {
        /// The model's file, where it is one on disk.
        path: Option<PathBuf>,
        /// What is wrong.
        error: ChatError,
    },
    /// A session file holds no conversation that can go on.
    #[error("{}: no conversation that can be continued: {reason}", path.display())]
    SavedChat {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A sampling option makes no sense.
    #[error(transparent)]
    Sampling(#[from] SamplerError),
    /// A head profile was given that is not used.
    #[error("a head profile is given, but the policy {policy} does not use it: {reason}")]
    UnusedProfile {
        /// The policy.
        policy: String,
        /// Why.
        reason: String,
    },
    /// A head profile has no scores from which a policy could select heads.
    #[error("{}: it has no induction and echo scores to select heads by", path.display())]
    NoHeadScores {
        /// The file.
        path: PathBuf,
    },
    /// A session does not fit the memory that is free.
    #[error(
        "a context of {context} tokens needs {needed} bytes besides the weights{}, but {free} are free",
        if *on_device { " on the GPU" } else { "" }
    )]
    Memory {
        /// Tokens of the session.
        context: usize,
        /// Bytes that it needs.
        needed: usize,
        /// Bytes that are free.
        free: usize,
        /// Whether it is the device's memory, not the host's.
        on_device: bool,
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

/// The beginning of a message about a file.
fn in_file(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or(String::new(), |path| format!("{}: ", path.display()))
}
