//! Tokenizers: text to token ids and back, with the vocabulary of a model file. The ids are identical to
//! llama.cpp's on all texts tested (`tests/text/tokenizer_cases.rs`).
//!
//! Two kinds of vocabulary are supported. For BPE (`tokenizer.ggml.model = "gpt2"` or `"gemma4"`), the module
//! `pretokenizer` splits the text into words, which the module `bpe` merges. The module `spm` implements
//! SentencePiece with scores (`"llama"`). In both cases the module `special` first splits the text at the
//! tokens that are matched as a whole, such as `<|im_end|>`. The vocabulary is checked completely when it is
//! loaded.
//!
//! A text passes through these modules word by word, and a long word block by block (`blocks`). So encoding
//! takes little memory besides the ids.

mod blocks;
mod bpe;
mod bytes;
mod error;
mod pretokenizer;
mod special;
mod spm;
mod vocabulary;

use std::ops::Range;

use self::bpe::Bpe;
pub use self::error::TokenizerError;
use self::pretokenizer::Alphabet;
use self::special::{Fragment, Special, SpecialTokens};
use self::spm::Spm;
pub use self::vocabulary::TokenKind;
use self::vocabulary::{SCORES, Vocabulary, VocabularyKind, VocabularyMetadata};
use crate::gguf::GgufFile;

/// Encodes text to token ids and decodes them.
#[derive(Debug)]
pub struct Tokenizer {
    vocabulary: Vocabulary,
    special: SpecialTokens,
    model: Model,
    add_bos: bool,
    add_eos: bool,
    /// Longer words are merged in blocks of this many bytes.
    block_bytes: usize,
}

/// Words of ordinary texts are shorter.
const BLOCK_BYTES: usize = 16 << 10;

#[derive(Debug)]
enum Model {
    Bpe(Bpe),
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
        let (vocabulary, model, adds_bos) = match metadata.model.as_str() {
            "gpt2" | "gemma4" => {
                let pre = bpe::pretokenizer(&metadata)?;
                let kind = match pre.alphabet {
                    Alphabet::Bytes => VocabularyKind::ByteLevel,
                    Alphabet::Characters => VocabularyKind::Characters,
                };
                let vocabulary = Vocabulary::new(&mut metadata, kind)?;
                let bpe = Bpe::new(&mut metadata, &vocabulary, pre)?;
                let adds_bos = bpe.adds_bos(metadata.add_bos);
                (vocabulary, Model::Bpe(bpe), adds_bos)
            }
            "llama" => {
                let vocabulary = Vocabulary::new(&mut metadata, VocabularyKind::SentencePiece)?;
                let scores = metadata.scores.take().ok_or(TokenizerError::Missing { key: SCORES })?;
                let spm = Spm::new(&vocabulary, scores, vocabulary.unknown)?;
                let space_prefix = metadata.add_space_prefix.unwrap_or(true);
                (vocabulary, Model::Spm { spm, space_prefix }, metadata.add_bos.unwrap_or(true))
            }
            _ => return Err(TokenizerError::UnknownModel { name: excerpt(&metadata.model) }),
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
            add_bos: adds_bos && vocabulary.bos.is_some(),
            add_eos: metadata.add_eos.unwrap_or(false) && vocabulary.eos.is_some(),
            vocabulary,
            special,
            model,
            block_bytes: BLOCK_BYTES,
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
        let mut encoder = Encoder::new(self, text, true);
        let allowed = |token: &Special, _: &Range<usize>| parse_special || !token.control;
        self.special.split(text, allowed, &mut |fragment| encoder.append(fragment, &mut ids))?;
        if add_special && self.add_eos {
            ids.extend(self.vocabulary.eos);
        }
        Ok(ids)
    }

    /// Encodes a prompt that contains text of messages, which must not become control tokens.
    /// `message_ranges` are the byte ranges of that text, sorted and without overlap.
    ///
    /// Control tokens are matched except where they overlap a range. User-defined tokens are matched
    /// everywhere. Only those that look like markers of a conversation (`<|User|>`) are not matched in a
    /// range, because some files declare their markers as user-defined. Otherwise the ranges do not split the
    /// text, so words can cross their boundaries.
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
        let mut ids = Vec::with_capacity(text.len() / 4 + 2);
        let mut bos = self.vocabulary.bos.filter(|_| at_start && self.add_bos);
        let mut encoder = Encoder::new(self, text, at_start);
        self.special.split(text, allowed, &mut |fragment| {
            ids.extend(bos.take().filter(|&bos| fragment != Fragment::Token(bos)));
            encoder.append(fragment, &mut ids)
        })?;
        ids.extend(bos); // of an empty text
        Ok(ids)
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

    /// The bytes that a token decodes to, not necessarily whole characters; empty for control tokens, unless
    /// they mark thinking. `None` if the id is not in the vocabulary.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        match self.vocabulary.kind(id)? {
            TokenKind::Control | TokenKind::Unknown if !self.vocabulary.marks.contains(&id) => Some(&[]),
            _ => self.vocabulary.bytes(id),
        }
    }

    /// The control tokens that do not end an answer, with their texts.
    pub fn control_tokens(&self) -> impl Iterator<Item = (u32, &str)> {
        let all = (0u32..).zip(self.vocabulary.iter());
        let is_control = |id, kind| kind == TokenKind::Control && !self.is_eog(id);
        all.filter_map(move |(id, (text, kind))| is_control(id, kind).then_some((id, text)))
    }

    /// As [`Tokenizer::token_bytes`], but of a control token the bytes of its text, such as `<|im_end|>`.
    pub fn written_bytes(&self, id: u32) -> Option<&[u8]> {
        self.vocabulary.bytes(id)
    }

    /// The token's text as stored in the file: `Ġthe`, `▁the`, `<0x0A>`. `None` if the id is not in the
    /// vocabulary.
    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.vocabulary.text(id)
    }

    /// The id of the token with this text, as stored in the file.
    pub fn token_id(&self, text: &str) -> Option<u32> {
        match &self.model {
            Model::Bpe(bpe) => bpe.id(text),
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

    /// Number of tokens in the vocabulary.
    pub fn n_vocab(&self) -> usize {
        self.vocabulary.len()
    }
}

/// Encodes one fragment of a text after the other.
struct Encoder<'a> {
    tokenizer: &'a Tokenizer,
    text: &'a str,
    /// For SentencePiece: a space is added in front of the next fragment.
    prefix: bool,
}

impl<'a> Encoder<'a> {
    /// `at_start`: there is no text before this one.
    fn new(tokenizer: &'a Tokenizer, text: &'a str, at_start: bool) -> Encoder<'a> {
        let prefix = at_start && matches!(tokenizer.model, Model::Spm { space_prefix: true, .. });
        Encoder { tokenizer, text, prefix }
    }

    fn append(&mut self, fragment: Fragment, out: &mut Vec<u32>) -> Result<(), TokenizerError> {
        let text = match fragment {
            Fragment::Token(id) => {
                out.push(id);
                self.prefix = matches!(self.tokenizer.model, Model::Spm { space_prefix: true, .. });
                return Ok(());
            }
            Fragment::Text(range) => &self.text[range],
        };
        let vocabulary = &self.tokenizer.vocabulary;
        match &self.tokenizer.model {
            Model::Spm { spm, .. } => {
                let prefix = std::mem::take(&mut self.prefix);
                spm.encode(vocabulary, text, prefix, self.tokenizer.block_bytes, out)
            }
            Model::Bpe(bpe) => bpe.encode(vocabulary, text, self.tokenizer.block_bytes, out),
        }
    }
}

/// The beginning of a text from the file, for error messages.
fn excerpt(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small generator of random numbers.
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) as usize % n
        }

        fn choose<'t, T>(&mut self, list: &'t [T]) -> &'t T {
            &list[self.below(list.len())]
        }

        /// Characters of `list`, some of them in runs.
        fn text(&mut self, list: &[&str]) -> String {
            let mut text = String::new();
            for _ in 0..self.below(60) {
                let run = if self.below(8) == 0 { self.below(40) } else { 1 + self.below(2) };
                text.push_str(&self.choose(list).repeat(run));
            }
            text
        }
    }

    /// Compares encoding in blocks of a few bytes with encoding words as a whole.
    fn check(mut tokenizer: Tokenizer, characters: &[&str], random: &mut Random) {
        for _ in 0..12 {
            let text = random.text(characters);
            tokenizer.block_bytes = usize::MAX;
            let whole = tokenizer.encode(&text, true, true).expect("encodes");
            for block_bytes in [1, 2, 3, 5, 16] {
                tokenizer.block_bytes = block_bytes;
                let blocks = tokenizer.encode(&text, true, true).expect("encodes");
                assert_eq!(blocks, whole, "{text:?} in blocks of {block_bytes}: {tokenizer:?}");
            }
        }
    }

    fn bpe_alphabet(pre: &str) -> Alphabet {
        let pre = pretokenizer::PreTokenizer::by_name(pre).expect("known").expect("good patterns");
        pre.alphabet
    }

    #[test]
    fn blocks_of_a_word_give_the_tokens_of_the_whole_with_bpe() {
        let mut random = Random(1);
        let characters = ["a", "b", "c", " ", "\n", "1", "!", "é", "中"];
        for pre in pretokenizer::different_names() {
            for _ in 0..6 {
                let of_bytes = bpe_alphabet(pre) == Alphabet::Bytes;
                let mut tokens: Vec<String> = (0..=255u8)
                    .map(|b| if of_bytes { bytes::char_of(b).to_string() } else { format!("<0x{b:02X}>") })
                    .collect();
                // Merges in any order, of the characters above and of what they merge to. One of them has no
                // token where characters need not have one.
                let mut pieces = Vec::new();
                for c in &characters[usize::from(!of_bytes)..] {
                    match of_bytes {
                        true => pieces.extend(c.bytes().map(|b| bytes::char_of(b).to_string())),
                        false => pieces.push(c.replace(' ', "▁")),
                    }
                }
                if !of_bytes {
                    tokens.extend(pieces.iter().cloned());
                }
                let mut merges = Vec::new();
                for _ in 0..60 {
                    let (left, right) = (random.choose(&pieces).clone(), random.choose(&pieces).clone());
                    let whole = format!("{left}{right}");
                    let merge = format!("{left} {right}");
                    if whole.len() > 16 || merges.contains(&merge) {
                        continue;
                    }
                    if !tokens.contains(&whole) {
                        tokens.push(whole.clone());
                        pieces.push(whole);
                    }
                    merges.insert(random.below(merges.len() + 1), merge);
                }
                let metadata = VocabularyMetadata {
                    model: "gpt2".into(),
                    pre: Some(pre.into()),
                    tokens,
                    merges: Some(merges),
                    ..VocabularyMetadata::default()
                };
                check(Tokenizer::from_metadata(metadata).expect("a vocabulary"), &characters, &mut random);
            }
        }
    }

    #[test]
    fn blocks_of_a_word_give_the_tokens_of_the_whole_with_sentencepiece() {
        let mut random = Random(2);
        let characters = ["a", "b", " ", "\n", "é", "中"];
        for round in 0..100 {
            let mut tokens = vec!["<unk>".to_owned()];
            tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
            let kind = |token: &String| match token.as_str() {
                "<unk>" => TokenKind::Unknown,
                token if token.starts_with("<0x") => TokenKind::Byte,
                _ => TokenKind::Normal,
            };
            for _ in 0..60 {
                let characters = ["a", "b", "é", "▁", "\n"];
                let length = 1 + random.below(6);
                let token: String = (0..length).map(|_| *random.choose(&characters)).collect();
                // In half of the vocabularies, tokens have spaces in front only.
                let allowed = round % 2 == 0 || !token.trim_start_matches('▁').contains('▁');
                if allowed && !tokens.contains(&token) {
                    tokens.push(token);
                }
            }
            let metadata = VocabularyMetadata {
                model: "llama".into(),
                kinds: Some(tokens.iter().map(kind).collect()),
                scores: Some(tokens.iter().map(|_| -(random.below(9) as f32)).collect()),
                tokens,
                ..VocabularyMetadata::default()
            };
            check(Tokenizer::from_metadata(metadata).expect("a vocabulary"), &characters, &mut random);
        }
    }
}
