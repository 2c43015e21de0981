//! What can be wrong with a vocabulary, or with a text for it.

use thiserror::Error;

/// Why a tokenizer could not be made, or a text not be encoded.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The file has no such metadata.
    #[error("the file has no {key}")]
    Missing {
        /// Metadata key.
        key: &'static str,
    },
    /// The metadata is of another type.
    #[error("{key} is {found}, not {wanted}")]
    WrongType {
        /// Metadata key.
        key: &'static str,
        /// What was expected, in words.
        wanted: &'static str,
        /// What the file holds, in words.
        found: String,
    },
    /// A list about tokens is not as long as the list of tokens.
    #[error("{key} has {found} entries for {tokens} tokens")]
    Length {
        /// Metadata key.
        key: &'static str,
        /// Entries found.
        found: usize,
        /// Tokens in the vocabulary.
        tokens: usize,
    },
    /// A kind of vocabulary that is not supported.
    #[error(
        "tokenizer.ggml.model is {name:?}; supported are \"llama\" (SentencePiece with scores) and \"gpt2\" (byte-level BPE)"
    )]
    UnknownModel {
        /// The file's value.
        name: String,
    },
    /// A pre-tokenizer that is not supported.
    #[error("tokenizer.ggml.pre is {name:?}; supported are {supported}")]
    UnknownPreTokenizer {
        /// The file's value.
        name: String,
        /// Names that are, joined by commas.
        supported: String,
    },
    /// A token that cannot be one.
    #[error("token {id}: {why}")]
    BadToken {
        /// Its id.
        id: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A merge that cannot be one.
    #[error("merge {index}: {why}")]
    BadMerge {
        /// Its place in tokenizer.ggml.merges.
        index: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A special token that is none of the vocabulary's.
    #[error("{key} is {id}, but there are only {tokens} tokens")]
    IdOutOfRange {
        /// Metadata key.
        key: &'static str,
        /// The file's value.
        id: i128,
        /// Tokens in the vocabulary.
        tokens: usize,
    },
    /// The text has a byte that no token stands for.
    #[error("no token of this vocabulary stands for the byte {byte:#04x}")]
    Unencodable {
        /// The byte.
        byte: u8,
    },
    /// The libraries underneath refused the vocabulary.
    #[error("the vocabulary cannot be used: {0}")]
    Build(String),
}

impl TokenizerError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            TokenizerError::Missing { .. } => {
                "the file holds no complete vocabulary; use the model's own GGUF file"
            }
            TokenizerError::UnknownModel { .. } | TokenizerError::UnknownPreTokenizer { .. } => {
                "convert the model anew with a current converter, or use a model of a supported family"
            }
            TokenizerError::Unencodable { .. } => {
                "the model cannot read this text; remove the character, or use a model with a complete byte vocabulary"
            }
            _ => "the file's vocabulary is damaged; download or convert it again",
        }
    }
}
