//! SentencePiece-style vocabularies with scores (`tokenizer.ggml.model = "llama"`): starting from characters, the
//! neighbours whose concatenation is the token with the best score are joined until none is left; what is then no token
//! is written as bytes.
//!
//! The `tokenizers` crate has no such model: its BPE wants a total order of pairs, and merges derived from scores break
//! the ties between equal scores (▁▁▁… and user-defined pieces have them) by pair instead of by position. Ids have to
//! be identical, so the joining is done here.

use std::collections::BinaryHeap;

use tokenizers::models::bpe::Vocab as Pieces;

use super::{TokenKind, TokenizerError, Vocabulary};

/// The space of SentencePiece: U+2581.
pub(super) const SPACE: char = '\u{2581}';

#[derive(Debug)]
pub(super) struct Spm {
    /// Id of each piece.
    ids: Pieces,
    /// Score of each token, by id.
    scores: Vec<f32>,
    /// Token of each byte, for characters that are no token.
    bytes: Box<[Option<u32>; 256]>,
    unknown: Option<u32>,
    /// Length of the longest piece in bytes: no longer candidate needs looking up.
    longest: usize,
    /// Whether no piece holds a space after anything else than spaces. Then no join ever crosses the place where a
    /// space follows something else, and words can be treated one by one (and remembered).
    splits_at_space: bool,
}

/// A run of characters that became one piece; a linked list over the text.
#[derive(Clone, Copy)]
struct Symbol {
    start: usize,
    /// 0 once joined to its left neighbour.
    len: usize,
    prev: usize,
    next: usize,
}

const NONE: usize = usize::MAX;

/// Two neighbours that may be joined. Ordered by score, then by position (leftmost first).
struct Join {
    score: f32,
    left: usize,
    right: usize,
    /// Bytes of both when this was queued; another length means that one of them changed since.
    len: usize,
}

impl Ord for Join {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // not total_cmp: -0.0 and 0.0 are equal scores (NaN is refused at load)
        self.score
            .partial_cmp(&other.score)
            .unwrap_or(std::cmp::Ordering::Equal)
            .then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Join {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Join {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Join {}

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
        let mut bytes = Box::new([None; 256]);
        for (byte, slot) in bytes.iter_mut().enumerate() {
            let as_text = char::from(byte as u8).to_string();
            *slot = ids
                .get(format!("<0x{byte:02X}>").as_str())
                .or_else(|| ids.get(&as_text).filter(|_| byte < 128))
                .copied();
        }
        Ok(Spm {
            longest: ids.keys().map(String::len).max().unwrap_or(0),
            splits_at_space: !vocabulary
                .iter()
                .any(|(text, kind)| kind != TokenKind::Byte && space_after_other(text)),
            ids,
            scores,
            bytes,
            unknown,
        })
    }

    pub(super) fn id(&self, piece: &str) -> Option<u32> {
        self.ids.get(piece).copied()
    }

    /// Appends the tokens of `text`, whose spaces are already [`SPACE`].
    pub(super) fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizerError> {
        if !self.splits_at_space {
            return self.encode_word(text, out);
        }
        let mut start = 0;
        let mut previous = SPACE;
        for (at, c) in text.char_indices() {
            if c == SPACE && previous != SPACE {
                self.encode_word(&text[start..at], out)?;
                start = at;
            }
            previous = c;
        }
        self.encode_word(&text[start..], out)
    }

    fn encode_word(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizerError> {
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

        let candidate = |symbols: &[Symbol], left: usize, right: usize| -> Option<Join> {
            let (l, r) = (symbols.get(left)?, symbols.get(right)?);
            let len = l.len + r.len;
            if len > self.longest {
                return None;
            }
            let id = *self.ids.get(&text[l.start..l.start + len])?;
            let score = *self.scores.get(id as usize)?;
            Some(Join { score, left, right, len })
        };
        let mut queue: BinaryHeap<Join> =
            (1..symbols.len()).filter_map(|i| candidate(&symbols, i - 1, i)).collect();
        while let Some(join) = queue.pop() {
            let (left, right) = (symbols[join.left], symbols[join.right]);
            if left.len == 0 || right.len == 0 || left.len + right.len != join.len {
                continue;
            }
            symbols[join.left].len = join.len;
            symbols[join.left].next = right.next;
            symbols[join.right].len = 0;
            if let Some(after) = symbols.get_mut(right.next) {
                after.prev = join.left;
            }
            queue.extend(candidate(&symbols, left.prev, join.left));
            queue.extend(candidate(&symbols, join.left, right.next));
        }
        for symbol in symbols.iter().filter(|s| s.len > 0) {
            let piece = &text[symbol.start..symbol.start + symbol.len];
            match self.ids.get(piece) {
                Some(&id) => out.push(id),
                None => self.push_bytes(piece, out)?,
            }
        }
        Ok(())
    }

    fn push_bytes(&self, piece: &str, out: &mut Vec<u32>) -> Result<(), TokenizerError> {
        for byte in piece.bytes() {
            match self.bytes[usize::from(byte)].or(self.unknown) {
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
