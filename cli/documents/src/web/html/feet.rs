//! Feet of tables (`<tfoot>`), which a page may write before the rows that they stand below.

use super::{Tag, Token};

/// Feet wait while they have so many tags, attributes and texts together. A larger one is written where it stands.
const MAX_PIECES: usize = 100_000;

/// A piece of a foot, until its table ends.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Start(Tag),
    End(Vec<u8>),
    Text(String),
}

impl Piece {
    pub(super) fn of(token: &Token) -> Piece {
        match token {
            Token::Start(tag) => Piece::Start((*tag).clone()),
            Token::End(name) => Piece::End(name.to_vec()),
            Token::Text(text) => Piece::Text((*text).to_owned()),
        }
    }

    pub(super) fn token(&self) -> Token<'_> {
        match self {
            Piece::Start(tag) => Token::Start(tag),
            Piece::End(name) => Token::End(name),
            Piece::Text(text) => Token::Text(text),
        }
    }

    fn size(&self) -> usize {
        match self {
            Piece::Start(tag) => 1 + tag.attributes.len(),
            Piece::End(_) | Piece::Text(_) => 1,
        }
    }
}

/// The feet that wait for the end of their tables.
#[derive(Debug, Default)]
pub(super) struct Feet {
    /// Each with how many tables are open around it, its own among them.
    waiting: Vec<(usize, Vec<Piece>)>,
    /// Tables that are open within the foot that is being read; none if no foot is.
    within: Option<usize>,
    /// The size of all that wait.
    size: usize,
    /// Whether a foot is written, so that none within it waits.
    pub(super) is_written: bool,
}

impl Feet {
    /// Takes a piece of a foot. Returns whether it is one; `tables` is how many tables are open.
    pub(super) fn takes(&mut self, token: &Token, tables: usize) -> bool {
        if self.is_written {
            return false;
        }
        let Some(within) = &mut self.within else {
            let begins = matches!(token, Token::Start(tag) if tag.name == b"tfoot");
            let is_first = self.waiting.last().is_none_or(|(of, _)| *of < tables);
            if !begins || !is_first || tables == 0 {
                return false;
            }
            self.within = Some(0);
            self.waiting.push((tables, Vec::new()));
            self.push(token);
            return true;
        };
        let ends = match token {
            Token::Start(tag) if tag.name == b"table" => {
                *within += 1;
                false
            }
            Token::End(b"table") if *within > 0 => {
                *within -= 1;
                false
            }
            Token::Start(tag) => {
                *within == 0 && matches!(tag.name.as_slice(), b"tbody" | b"thead" | b"tfoot")
            }
            Token::End(name) => *within == 0 && matches!(*name, b"table" | b"tfoot"),
            Token::Text(_) => false,
        };
        if ends {
            self.within = None;
            // Its own end stands behind it, and that of its table ends it as well.
            return matches!(token, Token::End(b"tfoot"));
        }
        self.push(token);
        true
    }

    fn push(&mut self, token: &Token) {
        if let Some((_, pieces)) = self.waiting.last_mut() {
            let piece = Piece::of(token);
            self.size += piece.size();
            pieces.push(piece);
        }
    }

    /// Whether the foot that is being read is too large to wait.
    pub(super) fn is_full(&self) -> bool {
        self.size > MAX_PIECES && self.within.is_some()
    }

    /// The foot of the innermost of so many tables. It is not read further.
    pub(super) fn of_table(&mut self, tables: usize) -> Option<Vec<Piece>> {
        let (_, pieces) = self.waiting.pop_if(|(of, _)| *of >= tables)?;
        self.within = None;
        self.size -= pieces.iter().map(Piece::size).sum::<usize>();
        Some(pieces)
    }
}
