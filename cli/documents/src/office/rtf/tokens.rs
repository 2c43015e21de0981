//! The pieces of an RTF file: groups, control words and text.

use crate::plain::decode::hexadecimal;

/// Longest control word.
const MAX_WORD: usize = 32;
/// The sign stands for this word.
const TAB: Token = Token::Word("tab", None);

/// A piece of a file.
#[derive(Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// A group begins.
    Open,
    /// A group ends.
    Close,
    /// A control word with its number.
    Word(&'a str, Option<i32>),
    /// A byte that is written with two digits.
    Byte(u8),
    /// Bytes of text.
    Text(&'a [u8]),
    /// Data that is no text.
    Binary,
}

/// The pieces of a file, one after the other.
#[derive(Debug)]
pub(super) struct Tokens<'a>(&'a [u8]);

impl<'a> Tokens<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Tokens<'a> {
        Tokens(bytes)
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn control(&mut self) -> Option<Token<'a>> {
        let Some(first) = self.0.first().copied() else { return Some(Token::Text(b"")) };
        if !first.is_ascii_alphabetic() {
            let sign = self.take(1);
            return Some(match first {
                b'\'' => match hexadecimal(self.take(2)) {
                    Some(b'\t') => TAB,
                    byte => byte.map_or(Token::Text(b""), Token::Byte),
                },
                b'~' => Token::Word("~", None),
                b'_' => Token::Text(b"-"),
                b'*' => Token::Word("*", None),
                b'\n' | b'\r' => Token::Word("par", None),
                b'\\' | b'{' | b'}' => Token::Text(sign),
                _ => Token::Text(b""),
            });
        }
        let length = self.0.iter().take_while(|c| c.is_ascii_alphabetic()).count();
        let word = self.take(length);
        let digits = usize::from(self.0.first() == Some(&b'-'));
        let digits = digits + self.0[digits..].iter().take_while(|c| c.is_ascii_digit()).take(10).count();
        let number = std::str::from_utf8(self.take(digits)).ok().and_then(|digits| digits.parse().ok());
        if self.0.first() == Some(&b' ') {
            self.take(1);
        }
        let word = std::str::from_utf8(word).ok().filter(|word| word.len() <= MAX_WORD).unwrap_or("unknown");
        if word == "bin" {
            self.take(number.and_then(|count| usize::try_from(count).ok()).unwrap_or(0));
            return Some(Token::Binary);
        }
        Some(Token::Word(word, number))
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            match self.0.first()? {
                b'{' => return Some((self.take(1), Token::Open).1),
                b'}' => return Some((self.take(1), Token::Close).1),
                b'\r' | b'\n' | 0 => _ = self.take(1),
                b'\\' => {
                    self.take(1);
                    return self.control();
                }
                b'\t' => return Some((self.take(1), TAB).1),
                _ => {
                    let end = self.0.iter().position(|c| b"{}\\\t\r\n\0".contains(c)).unwrap_or(self.0.len());
                    return Some(Token::Text(self.take(end)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_divided_into_pieces() {
        let tokens: Vec<Token> = Tokens::new(b"{\\b1 a\\'e4\t\\'09\r\n\\u-5 ?\\~\\{\\bin3 {}}x}").collect();
        assert_eq!(
            tokens,
            [
                Token::Open,
                Token::Word("b", Some(1)),
                Token::Text(b"a"),
                Token::Byte(0xe4),
                Token::Word("tab", None),
                Token::Word("tab", None),
                Token::Word("u", Some(-5)),
                Token::Text(b"?"),
                Token::Word("~", None),
                Token::Text(b"{"),
                Token::Binary,
                Token::Text(b"x"),
                Token::Close,
            ]
        );
    }
}
