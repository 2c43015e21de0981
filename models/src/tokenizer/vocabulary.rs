//! The vocabulary as the file states it: pieces, kinds, special tokens and flags, all checked once.

use std::collections::HashMap;

use tokenizers::models::bpe::Vocab as Pieces;

use super::{TokenizerError, bytes, excerpt, spm};
use crate::gguf::{Array, GgufFile, Value};

/// Kinds of tokens (`tokenizer.ggml.token_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// A piece of text.
    Normal,
    /// Stands for what the vocabulary lacks.
    Unknown,
    /// Steers the model, stands for no text.
    Control,
    /// A piece of text that is always recognised as a whole.
    UserDefined,
    /// Never used.
    Unused,
    /// One byte.
    Byte,
    /// Of no stated kind.
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

/// The metadata of a vocabulary, read but not yet checked against each other.
#[derive(Debug, Default, Clone)]
pub(super) struct Source {
    pub(super) model: String,
    pub(super) pre: Option<String>,
    /// `general.name`, in lower case.
    pub(super) name: String,
    pub(super) tokens: Vec<String>,
    pub(super) kinds: Option<Vec<TokenKind>>,
    pub(super) scores: Option<Vec<f32>>,
    pub(super) merges: Option<Vec<String>>,
    /// Special tokens by metadata key.
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

/// Tokens for filling in the middle: key, texts where the key is missing, whether generation ends there.
const FILL_IN: &[(&str, &[&str], bool)] = &[
    (
        "tokenizer.ggml.fim_pre_token_id",
        &[
            "<|fim_prefix|>",
            "<fim-prefix>",
            "<fim_prefix>",
            "<｜fim▁begin｜>",
            "<PRE>",
            "▁<PRE>",
            "<|code_prefix|>",
            "<|prefix|>",
        ],
        false,
    ),
    (
        "tokenizer.ggml.fim_suf_token_id",
        &[
            "<|fim_suffix|>",
            "<fim-suffix>",
            "<fim_suffix>",
            "<｜fim▁hole｜>",
            "<SUF>",
            "▁<SUF>",
            "<|code_suffix|>",
            "<|suffix|>",
        ],
        false,
    ),
    (
        "tokenizer.ggml.fim_mid_token_id",
        &[
            "<|fim_middle|>",
            "<fim-middle>",
            "<fim_middle>",
            "<｜fim▁end｜>",
            "<MID>",
            "▁<MID>",
            "<|code_middle|>",
            "<|middle|>",
        ],
        false,
    ),
    ("tokenizer.ggml.fim_pad_token_id", &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"], true),
    (
        "tokenizer.ggml.fim_rep_token_id",
        &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"],
        true,
    ),
    ("tokenizer.ggml.fim_sep_token_id", &["<|file_sep|>"], true),
];

/// Texts that end a turn or a text, whatever the metadata says. The first few also name the end-of-turn token where the
/// file does not.
const ENDS: &[&str] = &[
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
];
/// How many of [`ENDS`] may serve as end-of-turn token.
const TURN_ENDS: usize = 11;

/// Pieces with their kinds, what each stands for, and the special tokens.
#[derive(Debug)]
pub(super) struct Vocabulary {
    texts: Vec<String>,
    kinds: Vec<TokenKind>,
    /// What all tokens stand for, one after another; token `id` is `starts[id]..starts[id + 1]`.
    bytes: Vec<u8>,
    starts: Vec<usize>,
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) eot: Option<u32>,
    pub(super) unknown: Option<u32>,
    /// Tokens that end generation, ascending.
    pub(super) ends: Vec<u32>,
}

impl Source {
    pub(super) fn read(file: &GgufFile) -> Result<Source, TokenizerError> {
        let tokens = texts(file, TOKENS)?;
        let tokens = tokens.filter(|t| !t.is_empty()).ok_or(TokenizerError::Missing { key: TOKENS })?;
        let mut ids = HashMap::new();
        let fill_in = FILL_IN.iter().map(|&(key, _, _)| key);
        for key in [BOS, EOS, EOT, EOM, UNKNOWN].into_iter().chain(fill_in) {
            if let Some(id) = id(file, key, tokens.len())? {
                ids.insert(key, id);
            }
        }
        Ok(Source {
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

/// The first `tokens` of an array of numbers about tokens.
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
        return Ok(None); // converters write -1 for "there is none"
    }
    match u32::try_from(id) {
        Ok(small) if (small as usize) < tokens => Ok(Some(small)),
        _ => Err(TokenizerError::IdOutOfRange { key, id, tokens }),
    }
}

impl Vocabulary {
    /// `byte_level`: normal pieces are written in the byte alphabet of BPE, not with ▁ for spaces.
    pub(super) fn new(source: &mut Source, byte_level: bool) -> Result<Vocabulary, TokenizerError> {
        let mut texts = std::mem::take(&mut source.tokens);
        let tokens = texts.len();
        for (id, text) in texts.iter_mut().enumerate() {
            if text.is_empty() {
                *text = format!("[EMPTY_{id}]"); // padding; no text ever becomes this token
            }
        }
        let mut kinds = source.kinds.take().unwrap_or_else(|| vec![TokenKind::Normal; tokens]);

        let mut first: HashMap<&str, usize> = HashMap::new();
        let wanted = FILL_IN.iter().flat_map(|(_, names, _)| names.iter()).chain(ENDS);
        let wanted: std::collections::HashSet<&str> = wanted.copied().collect();
        for (id, text) in texts.iter().enumerate() {
            if wanted.contains(text.as_str()) {
                first.entry(text).or_insert(id);
            }
        }
        let mut ends: Vec<u32> = Vec::new();
        let mut controls: Vec<usize> = Vec::new();
        for (key, names, ends_text) in FILL_IN {
            let found = match source.ids.get(key) {
                Some(&id) => Some(id as usize),
                None => {
                    let by_name = names.iter().find_map(|n| first.get(n)).copied();
                    controls.extend(by_name);
                    by_name
                }
            };
            if *ends_text {
                ends.extend(found.map(|id| id as u32));
            }
        }
        for name in ENDS {
            if let Some(&id) = first.get(name) {
                controls.push(id);
                ends.push(id as u32);
            }
        }
        let eot = source.ids.get(EOT).copied().or_else(|| {
            let by_name = ENDS[..TURN_ENDS].iter().find_map(|n| first.get(n));
            by_name.map(|&id| id as u32)
        });
        for id in controls {
            kinds[id] = TokenKind::Control;
        }
        for key in [EOS, EOT, EOM] {
            ends.extend(source.ids.get(key));
        }
        ends.sort_unstable();
        ends.dedup();

        let mut bytes = Vec::new();
        let mut starts = Vec::with_capacity(tokens + 1);
        for (id, (text, kind)) in texts.iter().zip(&kinds).enumerate() {
            starts.push(bytes.len());
            match kind {
                TokenKind::Normal if byte_level => bytes.extend(bytes::decode(text)),
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

        // SentencePiece's customary ids hold where the file is silent; BPE has no custom worth following
        let custom = |key: &str, id: u32| {
            let by_custom = (!byte_level && (id as usize) < tokens).then_some(id);
            source.ids.get(key).copied().or(by_custom)
        };
        let eos = custom(EOS, 2);
        if let Some(eos) = eos
            && let Err(at) = ends.binary_search(&eos)
        {
            ends.insert(at, eos);
        }
        Ok(Vocabulary {
            bos: custom(BOS, 1),
            eos,
            eot,
            unknown: custom(UNKNOWN, 0),
            texts,
            kinds,
            bytes,
            starts,
            ends,
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

    /// What the token stands for; for control tokens and the unknown token, their own text.
    pub(super) fn bytes(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        self.bytes.get(*self.starts.get(id)?..*self.starts.get(id + 1)?)
    }

    /// Id of each piece.
    pub(super) fn index(&self) -> Result<Pieces, TokenizerError> {
        let index: Pieces = self.texts.iter().cloned().zip(0u32..).collect();
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
