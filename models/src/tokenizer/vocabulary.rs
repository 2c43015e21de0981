//! The vocabulary of a file: texts and kinds of tokens, special tokens and flags, all checked when it is
//! loaded.

use std::collections::HashMap;

use tokenizers::models::bpe::Vocab as TokenIds;

use super::{TokenizerError, bytes, excerpt, spm};
use crate::chat::MARK_TOKENS;
use crate::gguf::{Array, GgufFile, Value};

/// The kind of a token (`tokenizer.ggml.token_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Text.
    Normal,
    /// Replaces text that the vocabulary has no token for.
    Unknown,
    /// A control token, such as the end of a turn; stands for no text.
    Control,
    /// Text that is always matched as a whole, before other tokens.
    UserDefined,
    /// Never used.
    Unused,
    /// One byte.
    Byte,
    /// The file gives no valid kind.
    Undefined,
}

impl TokenKind {
    fn from_gguf(n: i128) -> TokenKind {
        match n {
            1 => TokenKind::Normal,
            2 => TokenKind::Unknown,
            3 => TokenKind::Control,
            4 => TokenKind::UserDefined,
            5 => TokenKind::Unused,
            6 => TokenKind::Byte,
            _ => TokenKind::Undefined,
        }
    }
}

/// The metadata of a vocabulary: types and lengths are checked, the content is not.
#[derive(Debug, Default, Clone)]
pub(super) struct VocabularyMetadata {
    pub(super) model: String,
    pub(super) pre: Option<String>,
    /// `general.name`, in lower case.
    pub(super) name: String,
    pub(super) tokens: Vec<String>,
    pub(super) kinds: Option<Vec<TokenKind>>,
    pub(super) scores: Option<Vec<f32>>,
    pub(super) merges: Option<Vec<String>>,
    /// Ids of special tokens, by metadata key.
    pub(super) ids: HashMap<&'static str, u32>,
    pub(super) add_bos: Option<bool>,
    pub(super) add_eos: Option<bool>,
    pub(super) add_space_prefix: Option<bool>,
}

pub(super) const MODEL: &str = "tokenizer.ggml.model";
pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
pub(super) const KINDS: &str = "tokenizer.ggml.token_type";
pub(super) const SCORES: &str = "tokenizer.ggml.scores";
pub(super) const MERGES: &str = "tokenizer.ggml.merges";
pub(super) const BOS: &str = "tokenizer.ggml.bos_token_id";
pub(super) const EOS: &str = "tokenizer.ggml.eos_token_id";
pub(super) const EOT: &str = "tokenizer.ggml.eot_token_id";
pub(super) const EOM: &str = "tokenizer.ggml.eom_token_id";
pub(super) const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";

/// A token for filling in the middle (FIM).
struct FimToken {
    key: &'static str,
    /// Possible texts of the token, for files without the key.
    texts: &'static [&'static str],
    ends_generation: bool,
}

const FIM_TOKENS: &[FimToken] = &[
    FimToken {
        key: "tokenizer.ggml.fim_pre_token_id",
        texts: &[
            "<|fim_prefix|>",
            "<fim-prefix>",
            "<fim_prefix>",
            "<｜fim▁begin｜>",
            "<PRE>",
            "▁<PRE>",
            "<|code_prefix|>",
            "<|prefix|>",
        ],
        ends_generation: false,
    },
    FimToken {
        key: "tokenizer.ggml.fim_suf_token_id",
        texts: &[
            "<|fim_suffix|>",
            "<fim-suffix>",
            "<fim_suffix>",
            "<｜fim▁hole｜>",
            "<SUF>",
            "▁<SUF>",
            "<|code_suffix|>",
            "<|suffix|>",
        ],
        ends_generation: false,
    },
    FimToken {
        key: "tokenizer.ggml.fim_mid_token_id",
        texts: &[
            "<|fim_middle|>",
            "<fim-middle>",
            "<fim_middle>",
            "<｜fim▁end｜>",
            "<MID>",
            "▁<MID>",
            "<|code_middle|>",
            "<|middle|>",
        ],
        ends_generation: false,
    },
    FimToken {
        key: "tokenizer.ggml.fim_pad_token_id",
        texts: &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"],
        ends_generation: true,
    },
    FimToken {
        key: "tokenizer.ggml.fim_rep_token_id",
        texts: &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"],
        ends_generation: true,
    },
    FimToken { key: "tokenizer.ggml.fim_sep_token_id", texts: &["<|file_sep|>"], ends_generation: true },
];

/// Texts of tokens that end generation, independent of the metadata. If the file names no end-of-turn token,
/// it is the first of these, up to [`EOT_TEXTS`], that the vocabulary has.
const EOG_TEXTS: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<｜end▁of▁sentence｜>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "</s>",
    "<|eom_id|>",
    "[EOS]",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
    // llama.cpp does not end at these. The templates of Command R7B, ERNIE 4.5 and dots.llm1 put them behind answers.
    "<|END_RESPONSE|>",
    "<|end_of_sentence|>",
    "<|endofresponse|>",
];
/// How many of [`EOG_TEXTS`] can be the end-of-turn token.
const EOT_TEXTS: usize = 11;

/// Texts of tokens that do not end generation where the vocabulary has others: their text, their kind, and
/// lists of texts. One text of each list is in these vocabularies.
///
/// The answers of gpt-oss and Solar Open have several messages, each of which ends in `<|end|>`. Their
/// markers are shown, because they tell the thinking from the answer. `</s>` is text for Gemma 4 and PLaMo.
const EXCEPTIONS: &[(&str, TokenKind, &[&[&str]])] = &[
    ("<|end|>", TokenKind::UserDefined, &[&["<|return|>", "<|flush|>"], &["<|call|>", "<|calls|>"]]),
    ("</s>", TokenKind::Normal, &[&["<|tool_response>", "<|plamo:eos|>"]]),
    ("<|channel|>", TokenKind::UserDefined, &[]),
    ("<|message|>", TokenKind::UserDefined, &[]),
    ("<|start|>", TokenKind::UserDefined, &[]),
    ("<|constrain|>", TokenKind::UserDefined, &[]),
];

/// How a vocabulary writes normal tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum VocabularyKind {
    /// In the byte alphabet of BPE.
    ByteLevel,
    /// As they are, with ▁ for spaces.
    Characters,
    /// The same, and the first ids have conventional meanings.
    SentencePiece,
}

/// All tokens with their texts, kinds and bytes, and the ids of special tokens.
#[derive(Debug)]
pub(super) struct Vocabulary {
    texts: Vec<String>,
    kinds: Vec<TokenKind>,
    /// The bytes that each token decodes to, concatenated; those of token `id` are
    /// `starts[id]..starts[id + 1]`.
    bytes: Vec<u8>,
    starts: Vec<usize>,
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) eot: Option<u32>,
    pub(super) unknown: Option<u32>,
    /// Tokens that end generation, sorted.
    pub(super) eog: Vec<u32>,
    /// Tokens that mark thinking.
    pub(super) marks: Vec<u32>,
}

impl VocabularyMetadata {
    pub(super) fn read(file: &GgufFile) -> Result<VocabularyMetadata, TokenizerError> {
        let tokens = texts(file, TOKENS)?;
        let tokens = tokens.filter(|t| !t.is_empty()).ok_or(TokenizerError::Missing { key: TOKENS })?;
        let mut ids = HashMap::new();
        let fim_keys = FIM_TOKENS.iter().map(|token| token.key);
        for key in [BOS, EOS, EOT, EOM, UNKNOWN].into_iter().chain(fim_keys) {
            if let Some(id) = id(file, key, tokens.len())? {
                ids.insert(key, id);
            }
        }
        Ok(VocabularyMetadata {
            model: text(file, MODEL)?.ok_or(TokenizerError::Missing { key: MODEL })?,
            pre: text(file, "tokenizer.ggml.pre")?,
            name: text(file, "general.name").unwrap_or_default().unwrap_or_default().to_lowercase(),
            kinds: numbers(file, KINDS, tokens.len(), |v| v.as_int().map(TokenKind::from_gguf))?,
            scores: numbers(file, SCORES, tokens.len(), |v| {
                v.as_float().or_else(|| v.as_int().map(|i| i as f64)).map(|s| s as f32)
            })?,
            merges: texts(file, MERGES)?,
            ids,
            add_bos: flag(file, "tokenizer.ggml.add_bos_token")?,
            add_eos: flag(file, "tokenizer.ggml.add_eos_token")?,
            add_space_prefix: flag(file, "tokenizer.ggml.add_space_prefix")?,
            tokens,
        })
    }
}

fn wrong(key: &'static str, wanted: &'static str, found: &Value) -> TokenizerError {
    TokenizerError::WrongType { key, wanted, found: found.type_name() }
}

fn text(file: &GgufFile, key: &'static str) -> Result<Option<String>, TokenizerError> {
    match file.get(key) {
        None => Ok(None),
        Some(Value::String(s)) => match s.to_str() {
            Some(s) => Ok(Some(s.to_owned())),
            None => {
                Err(TokenizerError::WrongType { key, wanted: "text in UTF-8", found: "other bytes".into() })
            }
        },
        Some(other) => Err(wrong(key, "a string", other)),
    }
}

fn flag(file: &GgufFile, key: &'static str) -> Result<Option<bool>, TokenizerError> {
    match file.get(key) {
        None => Ok(None),
        Some(Value::Bool(b)) => Ok(Some(*b)),
        Some(other) => Err(wrong(key, "a bool", other)),
    }
}

fn texts(file: &GgufFile, key: &'static str) -> Result<Option<Vec<String>>, TokenizerError> {
    match file.get(key) {
        None => Ok(None),
        Some(Value::Array(Array::Strings(list))) => list
            .iter()
            .enumerate()
            .map(|(id, bytes)| match std::str::from_utf8(bytes) {
                Ok(text) => Ok(text.to_owned()),
                Err(_) => {
                    let why = "its text is not UTF-8".to_owned();
                    Err(match key {
                        MERGES => TokenizerError::BadMerge { index: id, why },
                        _ => TokenizerError::BadToken { id, why },
                    })
                }
            })
            .collect::<Result<Vec<String>, _>>()
            .map(Some),
        Some(other) => Err(wrong(key, "an array of strings", other)),
    }
}

/// The first `tokens` elements of a number array with one element per token.
fn numbers<T>(
    file: &GgufFile,
    key: &'static str,
    tokens: usize,
    as_number: impl Fn(&Value) -> Option<T>,
) -> Result<Option<Vec<T>>, TokenizerError> {
    match file.get(key) {
        None => Ok(None),
        Some(Value::Array(Array::Numbers(list))) if list.len() < tokens => {
            Err(TokenizerError::Length { key, found: list.len(), tokens })
        }
        Some(whole @ Value::Array(Array::Numbers(list))) => (0..tokens)
            .map(|i| list.get(i).as_ref().and_then(&as_number))
            .collect::<Option<Vec<T>>>()
            .map(Some)
            .ok_or_else(|| wrong(key, "an array of numbers", whole)),
        Some(other) => Err(wrong(key, "an array of numbers", other)),
    }
}

fn id(file: &GgufFile, key: &'static str, tokens: usize) -> Result<Option<u32>, TokenizerError> {
    let Some(value) = file.get(key) else {
        return Ok(None);
    };
    let id = value.as_int().ok_or_else(|| wrong(key, "an integer", value))?;
    if id == -1 || id == i128::from(u32::MAX) {
        return Ok(None); // converters write -1 for "none"
    }
    match u32::try_from(id) {
        Ok(small) if (small as usize) < tokens => Ok(Some(small)),
        _ => Err(TokenizerError::IdOutOfRange { key, id, tokens }),
    }
}

impl Vocabulary {
    /// Checks the metadata and takes the token texts and kinds from it.
    pub(super) fn new(
        metadata: &mut VocabularyMetadata,
        vocabulary: VocabularyKind,
    ) -> Result<Vocabulary, TokenizerError> {
        let mut texts = std::mem::take(&mut metadata.tokens);
        let tokens = texts.len();
        for (id, text) in texts.iter_mut().enumerate() {
            if text.is_empty() {
                *text = format!("[EMPTY_{id}]"); // padding; no text is encoded as this token
            }
        }
        let mut kinds = metadata.kinds.take().unwrap_or_else(|| vec![TokenKind::Normal; tokens]);

        let mut first: HashMap<&str, usize> = HashMap::new();
        let exceptions = EXCEPTIONS.iter().map(|(text, ..)| text).chain(&["<|plamo:eos|>"]);
        let wanted = FIM_TOKENS.iter().flat_map(|token| token.texts).chain(EOG_TEXTS).chain(exceptions);
        let wanted: std::collections::HashSet<&str> = wanted.copied().collect();
        for (id, text) in texts.iter().enumerate() {
            if wanted.contains(text.as_str()) {
                first.entry(text).or_insert(id);
            }
        }
        let mut eog: Vec<u32> = Vec::new();
        let mut controls: Vec<usize> = Vec::new();
        for FimToken { key, texts, ends_generation } in FIM_TOKENS {
            let found = match metadata.ids.get(key) {
                Some(&id) => Some(id as usize),
                None => {
                    let by_text = texts.iter().find_map(|text| first.get(text)).copied();
                    controls.extend(by_text);
                    by_text
                }
            };
            if *ends_generation {
                eog.extend(found.map(|id| id as u32));
            }
        }
        for text in EOG_TEXTS {
            if let Some(&id) = first.get(text) {
                controls.push(id);
                eog.push(id as u32);
            }
        }
        let eot = metadata.ids.get(EOT).copied().or_else(|| {
            let by_text = EOG_TEXTS[..EOT_TEXTS].iter().find_map(|text| first.get(text));
            by_text.map(|&id| id as u32)
        });
        for id in controls {
            kinds[id] = TokenKind::Control;
        }
        for key in [EOS, EOT, EOM] {
            eog.extend(metadata.ids.get(key));
        }
        for &(text, kind, others) in EXCEPTIONS {
            let is_there = |texts: &[&str]| texts.iter().any(|text| first.contains_key(text));
            if let Some(&id) = first.get(text)
                && others.iter().all(|texts| is_there(texts))
            {
                eog.retain(|&end| end as usize != id);
                kinds[id] = kind;
            }
        }
        eog.sort_unstable();
        eog.dedup();

        let mut bytes = Vec::new();
        let mut starts = Vec::with_capacity(tokens + 1);
        for (id, (text, kind)) in texts.iter().zip(&kinds).enumerate() {
            starts.push(bytes.len());
            match kind {
                TokenKind::Normal if vocabulary == VocabularyKind::ByteLevel => {
                    bytes.extend(bytes::decode(text))
                }
                TokenKind::Normal => bytes.extend(text.replace(spm::SPACE, " ").as_bytes()),
                TokenKind::Control | TokenKind::UserDefined | TokenKind::Unknown => {
                    bytes.extend(text.as_bytes())
                }
                TokenKind::Byte => bytes.push(byte_token(text).ok_or_else(|| TokenizerError::BadToken {
                    id,
                    why: format!("it is a byte token, but {:?} is not of the form <0x0A>", excerpt(text)),
                })?),
                TokenKind::Unused | TokenKind::Undefined => {}
            }
        }
        starts.push(bytes.len());
        let is_mark = |&(_, text): &(u32, &String)| MARK_TOKENS.contains(&text.as_str());
        let marks = (0u32..).zip(&texts).filter(is_mark).map(|(id, _)| id).collect();

        // Without a key, SentencePiece vocabularies have conventional ids. BPE has no such convention.
        let id_or_convention = |key: &str, id: u32| {
            let has_convention = vocabulary == VocabularyKind::SentencePiece && (id as usize) < tokens;
            let convention = has_convention.then_some(id);
            metadata.ids.get(key).copied().or(convention)
        };
        let eos = id_or_convention(EOS, 2);
        if let Some(eos) = eos
            && let Err(at) = eog.binary_search(&eos)
        {
            eog.insert(at, eos);
        }
        Ok(Vocabulary {
            bos: id_or_convention(BOS, 1),
            eos,
            eot,
            unknown: id_or_convention(UNKNOWN, 0),
            texts,
            kinds,
            bytes,
            starts,
            eog,
            marks,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, TokenKind)> {
        self.texts.iter().map(String::as_str).zip(self.kinds.iter().copied())
    }

    pub(super) fn text(&self, id: u32) -> Option<&str> {
        self.texts.get(id as usize).map(String::as_str)
    }

    pub(super) fn kind(&self, id: u32) -> Option<TokenKind> {
        self.kinds.get(id as usize).copied()
    }

    /// The bytes that the token decodes to; for control tokens and the unknown token, their text.
    pub(super) fn bytes(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        self.bytes.get(*self.starts.get(id)?..*self.starts.get(id + 1)?)
    }

    /// The ids by token text. An error if two tokens have the same text.
    pub(super) fn index(&self) -> Result<TokenIds, TokenizerError> {
        let index: TokenIds = self.texts.iter().cloned().zip(0u32..).collect();
        if index.len() == self.texts.len() {
            return Ok(index);
        }
        let mut seen = HashMap::new();
        for (id, text) in self.texts.iter().enumerate() {
            if let Some(first) = seen.insert(text, id) {
                return Err(TokenizerError::BadToken {
                    id,
                    why: format!("{:?} is token {first} already", excerpt(text)),
                });
            }
        }
        Ok(index)
    }
}

fn byte_token(text: &str) -> Option<u8> {
    let hex = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if hex.len() != 2 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(hex, 16).ok()
}
