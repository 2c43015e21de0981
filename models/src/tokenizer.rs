//! Tokenizers: text to token ids and back, with the vocabulary of a model file. The ids are identical to
//! llama.cpp's on all texts tested (`tests/tokenizer_cases.rs`).
//!
//! Two kinds of vocabulary are supported. For byte-level BPE (`tokenizer.ggml.model = "gpt2"`), the module
//! `pretokenizer` splits the text into words, which the BPE model of the `tokenizers` crate merges. The
//! module `spm` implements SentencePiece with scores (`"llama"`). In both cases the module `special` first
//! splits the text at the tokens that are matched as a whole, such as `<|im_end|>`. The vocabulary is checked
//! completely when it is loaded.

mod bytes;
mod error;
mod pretokenizer;
mod special;
mod spm;
mod vocabulary;

use std::ops::Range;

use tokenizers::Model as _;
use tokenizers::models::bpe::BPE;

pub use self::error::TokenizerError;
use self::pretokenizer::PreTokenizer;
use self::special::{Fragment, Special, SpecialTokens};
use self::spm::Spm;
pub use self::vocabulary::TokenKind;
use self::vocabulary::{MERGES, SCORES, Vocabulary, VocabularyMetadata};
use crate::gguf::GgufFile;

/// Encodes text to token ids and decodes them.
#[derive(Debug)]
pub struct Tokenizer {
    vocabulary: Vocabulary,
    special: SpecialTokens,
    model: Model,
    add_bos: bool,
    add_eos: bool,
}

#[derive(Debug)]
enum Model {
    Bpe {
        bpe: Box<BPE>,
        pre: PreTokenizer,
        /// Whether the vocabulary has a token for each byte.
        known_bytes: Box<[bool; 256]>,
    },
    Spm {
        spm: Spm,
        /// Whether a space is added in front of the text and after special tokens.
        space_prefix: bool,
    },
}

impl Tokenizer {
    /// Reads the vocabulary of a file. Works with vocabulary-only files too.
    ///
    /// # Errors
    /// The metadata are missing, of the wrong type or length, contradict each other, or name an unsupported
    /// kind of tokenizer.
    pub fn from_gguf(file: &GgufFile) -> Result<Tokenizer, TokenizerError> {
        Tokenizer::from_metadata(VocabularyMetadata::read(file)?)
    }

    fn from_metadata(mut metadata: VocabularyMetadata) -> Result<Tokenizer, TokenizerError> {
        let byte_level = match metadata.model.as_str() {
            "gpt2" => true,
            "llama" => false,
            _ => return Err(TokenizerError::UnknownModel { name: excerpt(&metadata.model) }),
        };
        let vocabulary = Vocabulary::new(&mut metadata, byte_level)?;
        let (model, add_bos) = if byte_level {
            bpe(&mut metadata, &vocabulary)?
        } else {
            let scores = metadata.scores.take().ok_or(TokenizerError::Missing { key: SCORES })?;
            let spm = Spm::new(&vocabulary, scores, vocabulary.unknown)?;
            let space_prefix = metadata.add_space_prefix.unwrap_or(true);
            (Model::Spm { spm, space_prefix }, true)
        };

        // Phi-3's special tokens include the line end that its template writes after them. The file does not
        // contain this setting.
        let rstrip = metadata.name.contains("phi-3") || metadata.name.contains("phi3");
        let special = |(id, (text, kind)): (u32, (&str, TokenKind))| {
            let control = match kind {
                TokenKind::Control | TokenKind::Unknown => true,
                TokenKind::UserDefined => false,
                _ => return None,
            };
            Some(Special {
                id,
                is_marker: control || special::looks_like_marker(text),
                text: text.to_owned(),
                control,
                rstrip: rstrip && !matches!(text, "<unk>" | "<s>" | "<|endoftext|>"),
            })
        };
        let special = SpecialTokens::new((0u32..).zip(vocabulary.iter()).filter_map(special).collect())?;
        Ok(Tokenizer {
            add_bos: metadata.add_bos.unwrap_or(add_bos) && vocabulary.bos.is_some(),
            add_eos: metadata.add_eos.unwrap_or(false) && vocabulary.eos.is_some(),
            vocabulary,
            special,
            model,
        })
    }

    /// Encodes `text`.
    ///
    /// `add_special` adds the beginning- and end-of-text tokens if the model uses them. With `parse_special`,
    /// the text of a control token such as `<|im_end|>` becomes that token; without it, it becomes several
    /// normal tokens. User-defined tokens are matched in both cases.
    ///
    /// # Errors
    /// The vocabulary has no token for a byte of the text.
    pub fn encode(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::with_capacity(text.len() / 4 + 2);
        if add_special && self.add_bos {
            ids.extend(self.vocabulary.bos);
        }
        self.encode_fragments(
            text,
            self.special.split(text, |token, _| parse_special || !token.control),
            true,
            &mut ids,
        )?;
        if add_special && self.add_eos {
            ids.extend(self.vocabulary.eos);
        }
        Ok(ids)
    }

    /// Encodes a prompt that contains text of messages, which must not become control tokens.
    /// `message_ranges` are the byte ranges of that text, sorted and without overlap.
    ///
    /// Control tokens are matched except where they overlap a range. User-defined tokens are matched
    /// everywhere, except that those that look like markers of a conversation (`<|User|>`) are not matched in
    /// a range: some files declare their markers as user-defined. Otherwise the ranges do not split the text,
    /// so words can cross their boundaries.
    ///
    /// With `at_start`, the prompt begins a text, and its first token is the beginning-of-text token if the
    /// model uses one; it is not added twice if the prompt contains it. Otherwise the prompt continues a text
    /// and nothing is added.
    ///
    /// # Errors
    /// As for [`Tokenizer::encode`].
    pub fn encode_prompt(
        &self,
        text: &str,
        message_ranges: &[Range<usize>],
        at_start: bool,
    ) -> Result<Vec<u32>, TokenizerError> {
        let allowed = |token: &Special, range: &Range<usize>| {
            let next = message_ranges.partition_point(|message| message.end <= range.start);
            !token.is_marker || message_ranges.get(next).is_none_or(|message| message.start >= range.end)
        };
        let fragments = self.special.split(text, allowed);
        let mut ids = Vec::with_capacity(text.len() / 4 + 2);
        let has_bos = fragments.first() == self.vocabulary.bos.map(Fragment::Token).as_ref();
        if at_start && self.add_bos && !has_bos {
            ids.extend(self.vocabulary.bos);
        }
        self.encode_fragments(text, fragments, at_start, &mut ids)?;
        Ok(ids)
    }

    /// Appends the tokens of the fragments of `text`. `at_start`: there is no text before the fragments.
    fn encode_fragments(
        &self,
        text: &str,
        fragments: Vec<Fragment>,
        at_start: bool,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        match &self.model {
            Model::Bpe { bpe, pre, known_bytes } => {
                let mut in_byte_alphabet = String::new();
                for fragment in fragments {
                    let range = match fragment {
                        Fragment::Token(id) => {
                            out.push(id);
                            continue;
                        }
                        Fragment::Text(range) => range,
                    };
                    let text = &text[range];
                    if let Some(byte) = text.bytes().find(|&b| !known_bytes[usize::from(b)]) {
                        return Err(TokenizerError::Unencodable { byte });
                    }
                    for word in pre.split(text) {
                        bytes::encode_into(&text[word], &mut in_byte_alphabet);
                        let merged = bpe
                            .tokenize(&in_byte_alphabet)
                            .map_err(|e| TokenizerError::Build(e.to_string()))?;
                        out.extend(merged.into_iter().map(|token| token.id));
                    }
                }
            }
            Model::Spm { spm, space_prefix } => {
                let mut prefix = *space_prefix && at_start;
                for fragment in fragments {
                    match fragment {
                        Fragment::Token(id) => {
                            out.push(id);
                            prefix = *space_prefix;
                        }
                        Fragment::Text(range) => {
                            let mut spaced = String::with_capacity(range.len() + range.len() / 2 + 3);
                            if prefix {
                                spaced.push(spm::SPACE);
                            }
                            for c in text[range].chars() {
                                spaced.push(if c == ' ' { spm::SPACE } else { c });
                            }
                            spm.encode(&spaced, out)?;
                            prefix = false;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Decodes `ids` to bytes, the inverse of [`Tokenizer::encode`]: the space that SentencePiece adds in
    /// front is removed. Ids outside the vocabulary are skipped. Control tokens are written as their text if
    /// `with_special`, otherwise they are skipped too. To continue a text, use [`Tokenizer::token_bytes`]
    /// instead.
    pub fn decode(&self, ids: &[u32], with_special: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let prefixes = matches!(self.model, Model::Spm { space_prefix: true, .. });
        let mut strip = prefixes;
        for &id in ids {
            let bytes = match with_special {
                true => self.vocabulary.bytes(id),
                false => self.token_bytes(id),
            };
            let special = self.is_special(id);
            let bytes = bytes.unwrap_or_default();
            match bytes.strip_prefix(b" ") {
                Some(rest) if strip && !special => out.extend_from_slice(rest),
                _ => out.extend_from_slice(bytes),
            }
            strip = special && prefixes;
        }
        out
    }

    /// The bytes that a token decodes to, not necessarily whole characters; empty for control tokens. `None`
    /// if the id is not in the vocabulary.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        match self.vocabulary.kind(id)? {
            TokenKind::Control | TokenKind::Unknown => Some(&[]),
            _ => self.vocabulary.bytes(id),
        }
    }

    /// The token's text as stored in the file: `Ġthe`, `▁the`, `<0x0A>`. `None` if the id is not in the
    /// vocabulary.
    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.vocabulary.text(id)
    }

    /// The id of the token with this text, as stored in the file.
    pub fn token_id(&self, text: &str) -> Option<u32> {
        match &self.model {
            Model::Bpe { bpe, .. } => bpe.token_to_id(text),
            Model::Spm { spm, .. } => spm.id(text),
        }
    }

    /// The kind of a token; `None` if the id is not in the vocabulary.
    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        self.vocabulary.kind(id)
    }

    fn is_special(&self, id: u32) -> bool {
        use TokenKind::{Control, Unknown, UserDefined};
        matches!(self.vocabulary.kind(id), Some(Control | Unknown | UserDefined))
    }

    /// Whether this is a control token.
    pub fn is_control(&self, id: u32) -> bool {
        self.vocabulary.kind(id) == Some(TokenKind::Control)
    }

    /// Whether this token ends generation.
    pub fn is_eog(&self, id: u32) -> bool {
        self.vocabulary.eog.binary_search(&id).is_ok()
    }

    /// The tokens that end generation, sorted: those that the metadata name, and those with well-known texts.
    pub fn eog_tokens(&self) -> &[u32] {
        &self.vocabulary.eog
    }

    /// Whether `text` contains the text of a control token, or of a user-defined token that looks like a
    /// marker of a conversation.
    pub fn has_control_text(&self, text: &str) -> bool {
        self.special.has_marker(text)
    }

    /// The beginning-of-text token.
    pub fn bos(&self) -> Option<u32> {
        self.vocabulary.bos
    }

    /// The end-of-text token.
    pub fn eos(&self) -> Option<u32> {
        self.vocabulary.eos
    }

    /// The token that ends a turn of a conversation.
    pub fn eot(&self) -> Option<u32> {
        self.vocabulary.eot
    }

    /// The token for text that the vocabulary has no token for.
    pub fn unknown(&self) -> Option<u32> {
        self.vocabulary.unknown
    }

    /// Whether the model uses [`Tokenizer::bos`] at the start of a text.
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// Whether the model uses [`Tokenizer::eos`] at the end of a text.
    pub fn add_eos(&self) -> bool {
        self.add_eos
    }

    /// Number of tokens in the vocabulary.
    pub fn n_vocab(&self) -> usize {
        self.vocabulary.len()
    }
}

/// The BPE model, and whether a beginning-of-text token is added if the file does not decide it.
fn bpe(metadata: &mut VocabularyMetadata, vocabulary: &Vocabulary) -> Result<(Model, bool), TokenizerError> {
    let name = metadata.pre.as_deref().unwrap_or("default");
    let pre = match PreTokenizer::by_name(name) {
        Some(pre) => pre.map_err(|e| TokenizerError::Build(e.to_string()))?,
        None => {
            return Err(TokenizerError::UnknownPreTokenizer {
                name: excerpt(name),
                supported: pretokenizer::NAMES.join(", "),
            });
        }
    };
    let index = vocabulary.index()?;
    let mut known_bytes = Box::new([false; 256]);
    for (byte, known) in known_bytes.iter_mut().enumerate() {
        *known = index.contains_key(bytes::char_of(byte as u8).encode_utf8(&mut [0; 4]) as &str);
    }
    let lines = metadata.merges.take().ok_or(TokenizerError::Missing { key: MERGES })?;
    let mut merges = Vec::with_capacity(lines.len());
    for (number, line) in lines.iter().enumerate() {
        let (left, right) = parse_merge(line).ok_or_else(|| TokenizerError::BadMerge {
            index: number,
            why: format!("{:?} is not two pieces with a space between", excerpt(line)),
        })?;
        merges.push((left.to_owned(), right.to_owned()));
    }
    let built = BPE::builder().vocab_and_merges(index, merges).ignore_merges(pre.ignore_merges).build();
    let bpe = built.map_err(|e| match bad_merge(&lines, vocabulary) {
        Some(bad) => bad,
        None => TokenizerError::Build(e.to_string()),
    })?;
    let add_bos = pre.add_bos;
    Ok((Model::Bpe { bpe: Box::new(bpe), pre, known_bytes }, add_bos))
}

/// The two texts of a merge, which are separated by a space. The first is not empty, so a space at the
/// beginning is part of it.
fn parse_merge(line: &str) -> Option<(&str, &str)> {
    let first = line.chars().next()?.len_utf8();
    let space = first + line[first..].find(' ')?;
    Some((&line[..space], &line[space + 1..]))
}

/// The beginning of a text from the file, for error messages.
fn excerpt(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The first merge with a text that is not in the vocabulary, searched for only after building the model has
/// failed.
fn bad_merge(lines: &[String], vocabulary: &Vocabulary) -> Option<TokenizerError> {
    let index = vocabulary.index().ok()?;
    lines.iter().enumerate().find_map(|(number, line)| {
        let (left, right) = parse_merge(line)?;
        let whole = format!("{left}{right}");
        let missing = [left, right, &whole].into_iter().find(|piece| !index.contains_key(*piece))?;
        let why = format!("{:?} is not in the vocabulary", excerpt(missing));
        Some(TokenizerError::BadMerge { index: number, why })
    })
}
