//! Words, numbers and signs of a text.

use std::ops::Range;

use crate::fold;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Letters.
    Word,
    /// Digits, with the signs between them that group them or begin decimals: `1,234.50`, `05.03.2024`.
    Number,
    /// Another character that is not white space.
    Sign(char),
}

/// A word, a number or a sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Its bytes.
    pub range: Range<usize>,
    /// A word or a number as it is compared: see [`fold::word`]. Empty for signs.
    pub folded: String,
    /// Whether white space, or the beginning of the text, is before it.
    pub is_spaced: bool,
}

/// The value of a digit of any script that has ten in a row.
pub fn digit(c: char) -> Option<u32> {
    let zero = match c {
        '0'..='9' => '0',
        '\u{660}'..='\u{669}' => '\u{660}',
        '\u{6f0}'..='\u{6f9}' => '\u{6f0}',
        '\u{966}'..='\u{96f}' => '\u{966}',
        '\u{9e6}'..='\u{9ef}' => '\u{9e6}',
        '\u{e50}'..='\u{e59}' => '\u{e50}',
        '\u{ff10}'..='\u{ff19}' => '\u{ff10}',
        _ => return None,
    };
    Some(c as u32 - zero as u32)
}

/// Whether a sign may stand between the digits of one number.
fn groups(c: char) -> bool {
    matches!(c, '.' | ',' | '\'' | '\u{2019}' | '\u{66b}' | '\u{66c}' | '\u{202f}' | '\u{2009}')
}

/// The tokens of a text.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut is_spaced = true;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let start = at;
        at += c.len_utf8();
        if c.is_whitespace() {
            is_spaced = true;
            continue;
        }
        let kind = if digit(c).is_some() {
            let mut chars = text[at..].chars();
            while let Some(next) = chars.next() {
                let is_digit = |c| digit(c).is_some();
                let goes_on = is_digit(next) || groups(next) && chars.clone().next().is_some_and(is_digit);
                if !goes_on {
                    break;
                }
                at += next.len_utf8();
            }
            Kind::Number
        } else if c.is_alphabetic() {
            let is_wide = is_ideograph(c);
            for next in text[at..].chars() {
                let goes_on = next.is_alphabetic() || unicode_normalization::char::is_combining_mark(next);
                if !goes_on || is_ideograph(next) != is_wide {
                    break;
                }
                at += next.len_utf8();
            }
            Kind::Word
        } else if unicode_normalization::char::is_combining_mark(c) {
            continue;
        } else {
            Kind::Sign(c)
        };
        let folded = match kind {
            Kind::Sign(_) => String::new(),
            _ => fold::word(&text[start..at]),
        };
        tokens.push(Token { kind, range: start..at, folded, is_spaced });
        is_spaced = false;
    }
    tokens
}

/// Whether a character is of a script without spaces between words.
pub fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}
