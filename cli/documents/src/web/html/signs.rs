//! Signs that are no letters: what stands in symbol fonts.

use encoding_rs::WINDOWS_1252;

use crate::writer::symbols;

/// A word has so many letters at least.
const MIN_WORD: usize = 3;

/// A text in a symbol font, and how many of its characters are not known.
pub(super) fn in_font(font: &str, text: &str) -> (String, usize) {
    // A page may name such a font for words that a reader sees as they are.
    let is_word = |word: &str| word.len() >= MIN_WORD && word.bytes().all(|c| c.is_ascii_alphabetic());
    if font != "symbol" && text.split_whitespace().any(is_word) {
        return (text.to_owned(), 0);
    }
    let mut unknown = 0;
    let of = |c: char| {
        sign(font, c).unwrap_or_else(|| {
            unknown += 1;
            char::REPLACEMENT_CHARACTER
        })
    };
    (text.chars().map(of).collect(), unknown)
}

fn sign(font: &str, c: char) -> Option<char> {
    match c {
        c if c.is_whitespace() => Some(c),
        c if c <= '\u{ff}' || symbols::is_private(c) => symbols::sign(font, c.into()),
        // The characters of Windows have numbers of one byte, which the font means.
        c => match *WINDOWS_1252.encode(c.encode_utf8(&mut [0; 4])).0 {
            [byte] => symbols::sign(font, byte.into()).or(Some(c)),
            _ => Some(c),
        },
    }
}
