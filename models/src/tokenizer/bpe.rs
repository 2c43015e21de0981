//! Byte-pair encoding: the words of a pre-tokenizer are merged by the BPE model of the `tokenizers` crate.

use tokenizers::Model as _;
use tokenizers::models::bpe::BPE;

use super::blocks::{self, Merger};
use super::pretokenizer::{Alphabet, Bos, PreTokenizer, Unmerged};
use super::vocabulary::{MERGES, Vocabulary, VocabularyMetadata};
use super::{TokenizerError, bytes, excerpt, pretokenizer, spm};

#[derive(Debug)]
pub(super) struct Bpe {
    model: Box<BPE>,
    pre: PreTokenizer,
    /// The token of each byte, if the vocabulary has one.
    byte_tokens: Box<[Option<u32>; 256]>,
    /// Length of the longest token in bytes. Longer words are not looked up.
    max_token_bytes: usize,
}

/// The pre-tokenizer that the metadata name.
pub(super) fn pretokenizer(metadata: &VocabularyMetadata) -> Result<PreTokenizer, TokenizerError> {
    // Vocabularies of the kind `gemma4` have this one, whatever the file says.
    let name = match metadata.model.as_str() {
        "gemma4" => "gemma4",
        _ => metadata.pre.as_deref().unwrap_or("default"),
    };
    match PreTokenizer::by_name(name) {
        Some(pre) => pre.map_err(|e| TokenizerError::Build(e.to_string())),
        None => Err(TokenizerError::UnknownPreTokenizer {
            name: excerpt(name),
            supported: pretokenizer::names().collect::<Vec<_>>().join(", "),
        }),
    }
}

impl Bpe {
    pub(super) fn new(
        metadata: &mut VocabularyMetadata,
        vocabulary: &Vocabulary,
        pre: PreTokenizer,
    ) -> Result<Bpe, TokenizerError> {
        let index = vocabulary.index()?;
        let mut byte_tokens = Box::new([None; 256]);
        for (byte, token) in (0..=u8::MAX).zip(byte_tokens.iter_mut()) {
            *token = match pre.alphabet {
                Alphabet::Bytes => index.get(bytes::char_of(byte).encode_utf8(&mut [0; 4]) as &str).copied(),
                Alphabet::Characters => index.get(format!("<0x{byte:02X}>").as_str()).copied(),
            };
        }
        let lines = match metadata.merges.take() {
            None if !pre.may_lack_merges => return Err(TokenizerError::Missing { key: MERGES }),
            lines => lines.unwrap_or_default(),
        };
        let mut merges = Vec::with_capacity(lines.len());
        for (number, line) in lines.iter().enumerate() {
            let (left, right) = parse_merge(line).ok_or_else(|| TokenizerError::BadMerge {
                index: number,
                why: format!("{:?} is not two pieces with a space between", excerpt(line)),
            })?;
            merges.push((left.to_owned(), right.to_owned()));
        }
        let built = BPE::builder().vocab_and_merges(index, merges).build();
        let model = built.map_err(|e| match bad_merge(&lines, vocabulary) {
            Some(bad) => bad,
            None => TokenizerError::Build(e.to_string()),
        })?;
        let max_token_bytes = vocabulary.iter().map(|(text, _)| text.len()).max().unwrap_or(0);
        Ok(Bpe { model: Box::new(model), pre, byte_tokens, max_token_bytes })
    }

    pub(super) fn id(&self, piece: &str) -> Option<u32> {
        self.model.token_to_id(piece)
    }

    /// Whether a beginning-of-text token is added. `in_file` is what the file says.
    pub(super) fn adds_bos(&self, in_file: Option<bool>) -> bool {
        match self.pre.bos {
            Bos::No => in_file.unwrap_or(false),
            Bos::Yes => in_file.unwrap_or(true),
            Bos::Always => true,
        }
    }

    /// Appends the tokens of `text`. A word that is longer than `block_bytes` is merged in blocks.
    ///
    /// # Errors
    /// The vocabulary has no token for a byte of the text.
    pub(super) fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        block_bytes: usize,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let mut words = Words { bpe: self, vocabulary, block_bytes, letters: String::new(), out };
        match self.pre.alphabet {
            Alphabet::Bytes => {
                if let Some(byte) = text.bytes().find(|&b| self.byte_tokens[usize::from(b)].is_none()) {
                    return Err(TokenizerError::Unencodable { byte });
                }
                self.pre.split(text, &mut |word| words.append_bytes(&text[word]))
            }
            Alphabet::Characters => self.pre.split(text, &mut |word| words.append_characters(&text[word])),
        }
    }
}

/// Appends the tokens of one word after the other.
struct Words<'a> {
    bpe: &'a Bpe,
    vocabulary: &'a Vocabulary,
    block_bytes: usize,
    /// A part of a word, as the vocabulary writes it.
    letters: String,
    out: &'a mut Vec<u32>,
}

impl Words<'_> {
    fn append_bytes(&mut self, word: &str) -> Result<(), TokenizerError> {
        if self.bpe.pre.unmerged == Unmerged::Words && word.len() <= self.bpe.max_token_bytes {
            bytes::encode_into(word.as_bytes(), &mut self.letters);
            if let Some(id) = self.bpe.id(&self.letters) {
                self.out.push(id);
                return Ok(());
            }
        }
        let first = self.out.len();
        for block in word.as_bytes().chunks(self.block_bytes) {
            bytes::encode_into(block, &mut self.letters);
            self.append_block(first)?;
        }
        Ok(())
    }

    fn append_characters(&mut self, word: &str) -> Result<(), TokenizerError> {
        if self.bpe.pre.unmerged == Unmerged::LineEnds
            && word.starts_with('\n')
            && word.len() <= self.bpe.max_token_bytes
            && let Some(id) = self.bpe.id(word)
        {
            self.out.push(id);
            return Ok(());
        }
        self.letters.clear();
        // Where the tokens begin that the next characters may be merged with. Nothing is merged across a
        // character that has no token.
        let mut first = self.out.len();
        for c in word.chars() {
            let c = if c == ' ' { spm::SPACE } else { c };
            let mut buffer = [0; 4];
            let letter: &str = c.encode_utf8(&mut buffer);
            if self.bpe.id(letter).is_some() {
                self.letters.push_str(letter);
                if self.letters.len() >= self.block_bytes {
                    self.append_block(first)?;
                }
            } else {
                self.append_block(first)?;
                for byte in letter.bytes() {
                    let token = self.bpe.byte_tokens[usize::from(byte)];
                    self.out.push(token.ok_or(TokenizerError::Unencodable { byte })?);
                }
                first = self.out.len();
            }
        }
        self.append_block(first)
    }

    /// Appends `letters` to the word that begins at the token `first`.
    fn append_block(&mut self, first: usize) -> Result<(), TokenizerError> {
        if !self.letters.is_empty() {
            let merger = BpeMerger { bpe: self.bpe, vocabulary: self.vocabulary };
            blocks::append_block(&merger, first, &self.letters, self.out)?;
            self.letters.clear();
        }
        Ok(())
    }
}

struct BpeMerger<'a> {
    bpe: &'a Bpe,
    vocabulary: &'a Vocabulary,
}

impl Merger for BpeMerger<'_> {
    fn merge(&self, text: &str, pieces: &mut Vec<u32>) -> Result<(), TokenizerError> {
        let merged = self.bpe.model.tokenize(text).map_err(|e| TokenizerError::Build(e.to_string()))?;
        pieces.extend(merged.into_iter().map(|token| token.id));
        Ok(())
    }

    fn push_text(&self, piece: u32, out: &mut String) {
        out.extend(self.vocabulary.text(piece));
    }
}

/// The two texts of a merge, which are separated by a space. The first is not empty, so a space at the
/// beginning is part of it.
fn parse_merge(line: &str) -> Option<(&str, &str)> {
    let first = line.chars().next()?.len_utf8();
    let space = first + line[first..].find(' ')?;
    Some((&line[..space], &line[space + 1..]))
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
