//! The tokenizer a model file describes: text to ids and back, identical to llama.cpp's on every text tried
//! (`tests/tokenizer_cases.rs`).
//!
//! Byte-level BPE (`tokenizer.ggml.model = "gpt2"`) is cut into words by [`presplit`] and merged by the BPE model of
//! the `tokenizers` crate; SentencePiece with scores (`"llama"`) is [`spm`]. Tokens that are recognised as a whole,
//! such as `<|im_end|>`, are cut out before either ([`special`]). Everything about the vocabulary is checked when it is
//! loaded.

mod bytes;
mod error;
mod presplit;
mod special;
mod spm;
mod vocabulary;

use std::ops::Range;

use tokenizers::Model as _;
use tokenizers::models::bpe::BPE;

use self::presplit::PreTokenizer;
use self::special::{Fragment, Special, SpecialTokens};
use self::spm::Spm;
use self::vocabulary::{MERGES, SCORES, Source, Vocabulary};
use crate::gguf::GgufFile;

pub use self::error::TokenizerError;
pub use self::vocabulary::TokenKind;

/// Turns text into token ids and back. Cheap to share between threads by reference.
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
        /// Which bytes the vocabulary has a token for.
        known: Box<[bool; 256]>,
    },
    Spm {
        spm: Spm,
        /// A text gets a space in front, and so does what follows a special token.
        space_prefix: bool,
    },
}

impl Tokenizer {
    /// Reads the vocabulary of a file. Vocabulary-only files will do.
    ///
    /// # Errors
    /// Where the metadata are missing, of the wrong type or length, contradict each other, or name a kind of tokenizer
    /// that is not supported.
    pub fn from_gguf(file: &GgufFile) -> Result<Tokenizer, TokenizerError> {
        Tokenizer::from_source(Source::read(file)?)
    }

    fn from_source(mut source: Source) -> Result<Tokenizer, TokenizerError> {
        let byte_level = match source.model.as_str() {
            "gpt2" => true,
            "llama" => false,
            _ => return Err(TokenizerError::UnknownModel { name: excerpt(&source.model) }),
        };
        let vocabulary = Vocabulary::new(&mut source, byte_level)?;
        let (model, add_bos) = if byte_level {
            bpe(&mut source, &vocabulary)?
        } else {
            let scores = source.scores.take().ok_or(TokenizerError::Missing { key: SCORES })?;
            let spm = Spm::new(&vocabulary, scores, vocabulary.unknown)?;
            let space_prefix = source.add_space_prefix.unwrap_or(true);
            (Model::Spm { spm, space_prefix }, true)
        };

        // Phi-3's special tokens swallow the line end that its template writes after them; the file does not say so
        let strips = source.name.contains("phi-3") || source.name.contains("phi3");
        let whole = |(id, (text, kind)): (u32, (&str, TokenKind))| {
            let control = match kind {
                TokenKind::Control | TokenKind::Unknown => true,
                TokenKind::UserDefined => false,
                _ => return None,
            };
            Some(Special {
                id,
                steers: control || special::looks_like_markup(text),
                text: text.to_owned(),
                control,
                strips_right: strips && !matches!(text, "<unk>" | "<s>" | "<|endoftext|>"),
            })
        };
        let special = SpecialTokens::new((0u32..).zip(vocabulary.iter()).filter_map(whole).collect())?;
        Ok(Tokenizer {
            add_bos: source.add_bos.unwrap_or(add_bos) && vocabulary.bos.is_some(),
            add_eos: source.add_eos.unwrap_or(false) && vocabulary.eos.is_some(),
            vocabulary,
            special,
            model,
        })
    }

    /// The tokens of `text`.
    ///
    /// `add_special` adds the beginning- and end-of-text tokens where the model wants them. `parse_special` recognises
    /// control tokens written out in the text; without it `<|im_end|>` is seven harmless pieces. User-defined tokens
    /// are recognised either way.
    ///
    /// # Errors
    /// Where the vocabulary has no token for a byte of the text.
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
            self.special.cut(text, |token, _| parse_special || !token.control),
            true,
            &mut ids,
        )?;
        if add_special && self.add_eos {
            ids.extend(self.vocabulary.eos);
        }
        Ok(ids)
    }

    /// The tokens of a prompt that holds foreign text: control tokens are recognised except where they touch `plain`,
    /// byte ranges of `text`, ascending and apart from each other. So are user-defined tokens, of which only those that
    /// look like the marks of a conversation (`<|User|>`) are not recognised in `plain`: some files call those
    /// user-defined. The text is not cut at these ranges otherwise, so words form across their borders.
    ///
    /// Where the prompt `starts` the text, it begins with the beginning-of-text token if the model wants one, also if
    /// the prompt writes it out itself. Otherwise it continues what the model has read already, and nothing is added.
    ///
    /// # Errors
    /// As for [`Tokenizer::encode`].
    pub fn encode_prompt(
        &self,
        text: &str,
        plain: &[Range<usize>],
        starts: bool,
    ) -> Result<Vec<u32>, TokenizerError> {
        let outside = |token: &Special, range: &Range<usize>| {
            let next = plain.partition_point(|p| p.end <= range.start);
            !token.steers || plain.get(next).is_none_or(|p| p.start >= range.end)
        };
        let fragments = self.special.cut(text, outside);
        let mut ids = Vec::with_capacity(text.len() / 4 + 2);
        let written = fragments.first() == self.vocabulary.bos.map(Fragment::Token).as_ref();
        if starts && self.add_bos && !written {
            ids.extend(self.vocabulary.bos);
        }
        self.encode_fragments(text, fragments, starts, &mut ids)?;
        Ok(ids)
    }

    /// `starts`: the fragments follow nothing, or a special token.
    fn encode_fragments(
        &self,
        text: &str,
        fragments: Vec<Fragment>,
        starts: bool,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        match &self.model {
            Model::Bpe { bpe, pre, known } => {
                let mut coded = String::new();
                for fragment in fragments {
                    let range = match fragment {
                        Fragment::Token(id) => {
                            out.push(id);
                            continue;
                        }
                        Fragment::Text(range) => range,
                    };
                    let text = &text[range];
                    if let Some(byte) = text.bytes().find(|&b| !known[usize::from(b)]) {
                        return Err(TokenizerError::Unencodable { byte });
                    }
                    for word in pre.split(text) {
                        bytes::encode_into(&text[word], &mut coded);
                        let merged =
                            bpe.tokenize(&coded).map_err(|e| TokenizerError::Build(e.to_string()))?;
                        out.extend(merged.into_iter().map(|token| token.id));
                    }
                }
            }
            Model::Spm { spm, space_prefix } => {
                let mut prefix = *space_prefix && starts;
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

    /// The bytes that `ids` stand for: the inverse of [`Tokenizer::encode`], so the space that SentencePiece put in
    /// front is taken away again. Ids beyond the vocabulary stand for nothing. Control tokens are written out
    /// `with_special`, else left out. For text that continues another, join [`Tokenizer::token_bytes`] instead.
    pub fn decode(&self, ids: &[u32], with_special: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let prefixes = matches!(self.model, Model::Spm { space_prefix: true, .. });
        let mut strip = prefixes;
        for &id in ids {
            let bytes = match with_special {
                true => self.vocabulary.bytes(id),
                false => self.token_bytes(id),
            };
            let special = self.special_kind(id);
            let bytes = bytes.unwrap_or_default();
            match bytes.strip_prefix(b" ") {
                Some(rest) if strip && !special => out.extend_from_slice(rest),
                _ => out.extend_from_slice(bytes),
            }
            strip = special && prefixes;
        }
        out
    }

    /// The bytes one token stands for, not necessarily whole characters; nothing for control tokens. `None` beyond the
    /// vocabulary.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        match self.vocabulary.kind(id)? {
            TokenKind::Control | TokenKind::Unknown => Some(&[]),
            _ => self.vocabulary.bytes(id),
        }
    }

    /// The piece as the file writes it: `Ġthe`, `▁the`, `<0x0A>`.
    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.vocabulary.text(id)
    }

    /// The token with this text, as the file writes it.
    pub fn token_id(&self, text: &str) -> Option<u32> {
        match &self.model {
            Model::Bpe { bpe, .. } => bpe.token_to_id(text),
            Model::Spm { spm, .. } => spm.id(text),
        }
    }

    /// What kind of token it is.
    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        self.vocabulary.kind(id)
    }

    fn special_kind(&self, id: u32) -> bool {
        use TokenKind::{Control, Unknown, UserDefined};
        matches!(self.vocabulary.kind(id), Some(Control | Unknown | UserDefined))
    }

    /// Whether the token steers the model and stands for no text.
    pub fn is_control(&self, id: u32) -> bool {
        self.vocabulary.kind(id) == Some(TokenKind::Control)
    }

    /// Whether generation ends with this token.
    pub fn is_eog(&self, id: u32) -> bool {
        self.vocabulary.ends.binary_search(&id).is_ok()
    }

    /// The tokens that end generation, ascending: those the metadata names, and those of well-known texts.
    pub fn eog_tokens(&self) -> &[u32] {
        &self.vocabulary.ends
    }

    /// Whether `text` holds the text of a control token, or of one that looks like the mark of a conversation.
    pub fn has_control_text(&self, text: &str) -> bool {
        self.special.has_control(text)
    }

    /// Beginning of text.
    pub fn bos(&self) -> Option<u32> {
        self.vocabulary.bos
    }

    /// End of text.
    pub fn eos(&self) -> Option<u32> {
        self.vocabulary.eos
    }

    /// End of a turn of a conversation.
    pub fn eot(&self) -> Option<u32> {
        self.vocabulary.eot
    }

    /// Stands for what the vocabulary lacks.
    pub fn unknown(&self) -> Option<u32> {
        self.vocabulary.unknown
    }

    /// Whether the model wants [`Tokenizer::bos`] in front of a text.
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// Whether the model wants [`Tokenizer::eos`] after a text.
    pub fn add_eos(&self) -> bool {
        self.add_eos
    }

    /// Number of tokens in the vocabulary.
    pub fn n_vocab(&self) -> usize {
        self.vocabulary.len()
    }
}

/// The BPE model, and whether it adds a beginning of text by custom.
fn bpe(source: &mut Source, vocabulary: &Vocabulary) -> Result<(Model, bool), TokenizerError> {
    let name = source.pre.as_deref().unwrap_or("default");
    let pre = match PreTokenizer::by_name(name) {
        Some(pre) => pre.map_err(|e| TokenizerError::Build(e.to_string()))?,
        None => {
            return Err(TokenizerError::UnknownPreTokenizer {
                name: excerpt(name),
                supported: presplit::NAMES.join(", "),
            });
        }
    };
    let index = vocabulary.index()?;
    let mut known = Box::new([false; 256]);
    for (byte, known) in known.iter_mut().enumerate() {
        *known = index.contains_key(bytes::char_of(byte as u8).encode_utf8(&mut [0; 4]) as &str);
    }
    let lines = source.merges.take().ok_or(TokenizerError::Missing { key: MERGES })?;
    let mut merges = Vec::with_capacity(lines.len());
    for (number, line) in lines.iter().enumerate() {
        let (left, right) = merge(line).ok_or_else(|| TokenizerError::BadMerge {
            index: number,
            why: format!("{:?} is not two pieces with a space between", excerpt(line)),
        })?;
        merges.push((left.to_owned(), right.to_owned()));
    }
    let built = BPE::builder().vocab_and_merges(index, merges).ignore_merges(pre.ignore_merges).build();
    let bpe = built.map_err(|e| match stray_merge(&lines, vocabulary) {
        Some(bad) => bad,
        None => TokenizerError::Build(e.to_string()),
    })?;
    let add_bos = pre.add_bos;
    Ok((Model::Bpe { bpe: Box::new(bpe), pre, known }, add_bos))
}

/// The two pieces of a line of merges. The first has at least one character, so a space in front of everything is its.
fn merge(line: &str) -> Option<(&str, &str)> {
    let first = line.chars().next()?.len_utf8();
    let space = first + line[first..].find(' ')?;
    Some((&line[..space], &line[space + 1..]))
}

/// The beginning of a text out of the file, for error messages.
fn excerpt(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The first merge with a piece that the vocabulary lacks. Looked for only once building has failed.
fn stray_merge(lines: &[String], vocabulary: &Vocabulary) -> Option<TokenizerError> {
    let index = vocabulary.index().ok()?;
    lines.iter().enumerate().find_map(|(number, line)| {
        let (left, right) = merge(line)?;
        let whole = format!("{left}{right}");
        let stray = [left, right, &whole].into_iter().find(|piece| !index.contains_key(*piece))?;
        let why = format!("{:?} is not in the vocabulary", excerpt(stray));
        Some(TokenizerError::BadMerge { index: number, why })
    })
}
