//! Errors of vocabularies and of texts to be encoded.

use thiserror::Error;

/// A tokenizer cannot be made, or a text cannot be encoded.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A required metadata key is missing.
    #[error("the file has no {key}")]
    Missing {
        /// Metadata key.
        key: &'static str,
    },
    /// A metadata value has the wrong type.
    #[error("{key} is {found}, not {wanted}")]
    WrongType {
        /// Metadata key.
        key: &'static str,
        /// What was expected, in words.
        wanted: &'static str,
        /// What the file holds, in words.
        found: String,
    },
    /// A list has not one entry per token.
    #[error("{key} has {found} entries for {tokens} tokens")]
    Length {
        /// Metadata key.
        key: &'static str,
        /// Entries found.
        found: usize,
        /// Tokens in the vocabulary.
        tokens: usize,
    },
    /// The kind of vocabulary is not supported.
    #[error(
        "tokenizer.ggml.model is {name:?}; supported are \"llama\" (SentencePiece with scores), \"gpt2\" (BPE) and \"gemma4\""
    )]
    UnknownModel {
        /// The value in the file.
        name: String,
    },
    /// The pre-tokenizer is not supported.
    #[error("tokenizer.ggml.pre is {name:?}; supported are {supported}")]
    UnknownPreTokenizer {
        /// The value in the file.
        name: String,
        /// The supported names, separated by commas.
        supported: String,
    },
    /// A token of the vocabulary is invalid.
    #[error("token {id}: {why}")]
    BadToken {
        /// Its id.
        id: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A merge of the vocabulary is invalid.
    #[error("merge {index}: {why}")]
    BadMerge {
        /// Its index in tokenizer.ggml.merges.
        index: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The id of a special token is outside the vocabulary.
    #[error("{key} is {id}, but there are only {tokens} tokens")]
    IdOutOfRange {
        /// Metadata key.
        key: &'static str,
        /// The value in the file.
        id: i128,
        /// Tokens in the vocabulary.
        tokens: usize,
    },
    /// The text has a byte that the vocabulary has no token for.
    #[error("the vocabulary has no token for the byte {byte:#04x}")]
    Unencodable {
        /// The byte.
        byte: u8,
    },
    /// The tokenizer library refused the vocabulary.
    #[error("the vocabulary cannot be used: {0}")]
    Build(String),
}

impl TokenizerError {
    /// What the user can do about the error.
    pub fn hint(&self) -> &'static str {
        match self {
            TokenizerError::Missing { .. } => {
                "the file has no complete vocabulary; use the model's own GGUF file"
            }
            TokenizerError::UnknownModel { .. } | TokenizerError::UnknownPreTokenizer { .. } => {
                "convert the model again with a current converter, or use a model of a supported family"
            }
            TokenizerError::Unencodable { .. } => {
                "the model cannot read this text; remove the character, or use a model with a complete byte vocabulary"
            }
            _ => "the file's vocabulary is damaged; download or convert the file again",
        }
    }
}
