//! SentencePiece vocabularies with scores (`tokenizer.ggml.model = "llama"`).
//!
//! Starting from single characters, the neighbours whose concatenation is the token with the best score are
//! merged, until no merge is left. Characters that are not tokens are then encoded as bytes.
//!
//! The `tokenizers` crate has no such model. Its BPE needs a total order of pairs. Merges derived from scores
//! would break ties by pair and not by position, and ▁▁▁… and user-defined tokens have equal scores. Token
//! ids have to be identical to llama.cpp's, so the merging is implemented here.

use std::collections::BinaryHeap;

use tokenizers::models::bpe::Vocab as TokenIds;

use super::blocks::{self, Merger};
use super::{TokenKind, TokenizerError, Vocabulary};

/// SentencePiece's character for a space: U+2581.
pub(super) const SPACE: char = '\u{2581}';

#[derive(Debug)]
pub(super) struct Spm {
    /// Token ids by text.
    ids: TokenIds,
    /// Score of each token, by id.
    scores: Vec<f32>,
    /// The token of each byte, for characters that are not tokens.
    byte_tokens: Box<[Option<u32>; 256]>,
    unknown: Option<u32>,
    /// Length of the longest token in bytes. Longer candidates are not looked up.
    max_token_bytes: usize,
    /// Whether no token has a space after another character. Then no merge crosses a word boundary, and words
    /// are encoded one by one.
    splits_at_space: bool,
}

/// A run of characters that are merged into one piece. The symbols of a text form a linked list.
#[derive(Clone, Copy)]
struct Symbol {
    start: usize,
    /// Length in bytes; 0 after a merge into the left neighbour.
    len: usize,
    prev: usize,
    next: usize,
}

const NONE: usize = usize::MAX;

/// A possible merge of two neighbours. Ordered by score, then by position (leftmost first).
struct Merge {
    score: f32,
    left: usize,
    right: usize,
    /// Length of both in bytes when this was queued. If it differs later, one of the two was merged in
    /// between.
    len: usize,
}

impl Ord for Merge {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // Not total_cmp, because -0.0 and 0.0 are equal scores. NaN is refused when the vocabulary is loaded.
        self.score
            .partial_cmp(&other.score)
            .unwrap_or(std::cmp::Ordering::Equal)
            .then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Merge {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Merge {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Merge {}

impl Spm {
    pub(super) fn new(
        vocabulary: &Vocabulary,
        scores: Vec<f32>,
        unknown: Option<u32>,
    ) -> Result<Spm, TokenizerError> {
        if let Some(id) = scores.iter().position(|s| s.is_nan()) {
            return Err(TokenizerError::BadToken { id, why: "its score is not a number".into() });
        }
        let ids = vocabulary.index()?;
        let mut byte_tokens = Box::new([None; 256]);
        for (byte, slot) in byte_tokens.iter_mut().enumerate() {
            let as_text = char::from(byte as u8).to_string();
            *slot = ids
                .get(format!("<0x{byte:02X}>").as_str())
                .or_else(|| ids.get(&as_text).filter(|_| byte < 128))
                .copied();
        }
        Ok(Spm {
            max_token_bytes: ids.keys().map(String::len).max().unwrap_or(0),
            splits_at_space: !vocabulary
                .iter()
                .any(|(text, kind)| kind != TokenKind::Byte && space_after_other(text)),
            ids,
            scores,
            byte_tokens,
            unknown,
        })
    }

    pub(super) fn id(&self, piece: &str) -> Option<u32> {
        self.ids.get(piece).copied()
    }

    /// Appends the tokens of `text`, with a space in front if `space_prefix`. A word that is longer than
    /// `block_bytes` is merged in blocks.
    pub(super) fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        space_prefix: bool,
        block_bytes: usize,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let merger = SpmMerger { spm: self, vocabulary };
        // The part of the current word that is not merged yet, and the pieces of the part before.
        let (mut word, mut pieces) = (String::new(), Vec::new());
        let mut previous = SPACE;
        for c in space_prefix.then_some(SPACE).into_iter().chain(text.chars()) {
            let c = if c == ' ' { SPACE } else { c };
            let word_ends = c == SPACE && previous != SPACE && self.splits_at_space;
            if word_ends || word.len() >= block_bytes {
                blocks::append_block(&merger, 0, &word, &mut pieces)?;
                word.clear();
            }
            if word_ends {
                self.push_tokens(&mut pieces, out)?;
            }
            word.push(c);
            previous = c;
        }
        if !word.is_empty() {
            blocks::append_block(&merger, 0, &word, &mut pieces)?;
        }
        self.push_tokens(&mut pieces, out)
    }

    /// Moves the tokens of `pieces` to `out`.
    fn push_tokens(&self, pieces: &mut Vec<u32>, out: &mut Vec<u32>) -> Result<(), TokenizerError> {
        for piece in pieces.drain(..) {
            match char_of(piece) {
                None => out.push(piece),
                Some(c) => self.push_bytes(c.encode_utf8(&mut [0; 4]), out)?,
            }
        }
        Ok(())
    }
}

/// A piece is a token id or, if it is at least this, a character that is not a token: this plus its number.
const CHARACTERS: u32 = u32::MAX - char::MAX as u32;

/// The character of a piece that is not a token.
fn char_of(piece: u32) -> Option<char> {
    char::from_u32(piece.checked_sub(CHARACTERS)?)
}

struct SpmMerger<'a> {
    spm: &'a Spm,
    vocabulary: &'a Vocabulary,
}

impl Merger for SpmMerger<'_> {
    fn merge(&self, text: &str, pieces: &mut Vec<u32>) -> Result<(), TokenizerError> {
        let spm = self.spm;
        let mut symbols: Vec<Symbol> = text
            .char_indices()
            .enumerate()
            .map(|(i, (start, c))| Symbol {
                start,
                len: c.len_utf8(),
                prev: i.checked_sub(1).unwrap_or(NONE),
                next: i + 1,
            })
            .collect();
        let Some(last) = symbols.last_mut() else {
            return Ok(());
        };
        last.next = NONE;

        let candidate = |symbols: &[Symbol], left: usize, right: usize| -> Option<Merge> {
            let (l, r) = (symbols.get(left)?, symbols.get(right)?);
            let len = l.len + r.len;
            if len > spm.max_token_bytes {
                return None;
            }
            let id = *spm.ids.get(&text[l.start..l.start + len])?;
            let score = *spm.scores.get(id as usize)?;
            Some(Merge { score, left, right, len })
        };
        let mut queue: BinaryHeap<Merge> =
            (1..symbols.len()).filter_map(|i| candidate(&symbols, i - 1, i)).collect();
        while let Some(merge) = queue.pop() {
            let (left, right) = (symbols[merge.left], symbols[merge.right]);
            if left.len == 0 || right.len == 0 || left.len + right.len != merge.len {
                continue;
            }
            symbols[merge.left].len = merge.len;
            symbols[merge.left].next = right.next;
            symbols[merge.right].len = 0;
            if let Some(after) = symbols.get_mut(right.next) {
                after.prev = merge.left;
            }
            queue.extend(candidate(&symbols, left.prev, merge.left));
            queue.extend(candidate(&symbols, merge.left, right.next));
        }
        for symbol in symbols.iter().filter(|s| s.len > 0) {
            let piece = &text[symbol.start..symbol.start + symbol.len];
            // Only tokens have more than one character.
            let character = || Some(CHARACTERS + u32::from(piece.chars().next()?));
            pieces.extend(spm.ids.get(piece).copied().or_else(character));
        }
        Ok(())
    }

    fn push_text(&self, piece: u32, out: &mut String) {
        match char_of(piece) {
            None => out.extend(self.vocabulary.text(piece)),
            Some(c) => out.push(c),
        }
    }
}

impl Spm {
    fn push_bytes(&self, piece: &str, out: &mut Vec<u32>) -> Result<(), TokenizerError> {
        for byte in piece.bytes() {
            match self.byte_tokens[usize::from(byte)].or(self.unknown) {
                Some(id) => out.push(id),
                None => return Err(TokenizerError::Unencodable { byte }),
            }
        }
        Ok(())
    }
}

fn space_after_other(piece: &str) -> bool {
    piece.trim_start_matches(SPACE).contains(SPACE)
}
