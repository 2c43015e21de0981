//! Texts as they are compared: small letters without accents, one space for any white space, plain quotes and dashes.
//! Words that are hyphenated at the end of a line are whole.

use std::iter::Peekable;
use std::str::CharIndices;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// A text as it is compared, with where its bytes come from.
#[derive(Debug, Default)]
pub struct Folded {
    /// The text.
    pub text: String,
    /// For each of its bytes, where the character that gave it begins in the original.
    pub origins: Vec<usize>,
}

/// Folds a text.
pub fn folded(text: &str) -> Folded {
    let mut folded = Folded::default();
    fold(text, |c, at| {
        folded.text.push(c);
        folded.origins.resize(folded.text.len(), at);
    });
    folded
}

/// The letters and digits of a text, folded, and nothing else. So it does not matter how words are divided and what
/// stands between them.
pub fn compact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    fold(text, |c, _| {
        if c.is_alphanumeric() {
            out.push(c);
        }
    });
    out
}

/// A word as it is compared.
pub fn word(text: &str) -> String {
    compact(text)
}

/// Hands over the characters of the folded text, each with the byte of the original that it comes from.
fn fold(text: &str, mut push: impl FnMut(char, usize)) {
    let mut chars = text.char_indices().peekable();
    // White space at the beginning is one space, too: it separates what follows from nothing.
    let (mut is_space, mut is_letter) = (false, false);
    while let Some((at, c)) = chars.next() {
        if c.is_whitespace() {
            if !is_space {
                push(' ', at);
            }
            (is_space, is_letter) = (true, false);
            continue;
        }
        if c.is_ascii_alphanumeric() {
            push(c.to_ascii_lowercase(), at);
            (is_space, is_letter) = (false, c.is_ascii_alphabetic());
            continue;
        }
        match c {
            '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' => continue,
            '-' | '\u{2010}' | '\u{2011}' if is_letter && joins(&mut chars) => continue,
            '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' => push('-', at),
            '\u{2018}'..='\u{201b}' | '\u{2032}' | '\u{2bc}' | '`' | '\u{b4}' => push('\'', at),
            '\u{201c}'..='\u{201f}' | '\u{ab}' | '\u{bb}' | '\u{2033}' => push('"', at),
            'ß' | 'ẞ' => ['s', 's'].into_iter().for_each(|c| push(c, at)),
            'ł' | 'Ł' => push('l', at),
            'ø' | 'Ø' => push('o', at),
            'đ' | 'Đ' => push('d', at),
            'ı' => push('i', at),
            'æ' | 'Æ' => ['a', 'e'].into_iter().for_each(|c| push(c, at)),
            'œ' | 'Œ' => ['o', 'e'].into_iter().for_each(|c| push(c, at)),
            c => {
                let lower = c.to_lowercase().flat_map(|c| std::iter::once(c).nfkd());
                lower.filter(|c| !is_combining_mark(*c)).for_each(|c| push(c, at));
            }
        }
        (is_space, is_letter) = (false, c.is_alphabetic());
    }
}

/// Whether a hyphen behind a letter joins two parts of a word, also across lines. White space behind it is skipped then.
fn joins(chars: &mut Peekable<CharIndices>) -> bool {
    let mut ahead = chars.clone();
    let (mut skipped, mut has_line) = (0, false);
    for (_, c) in ahead.by_ref() {
        match c {
            '\n' => has_line = true,
            ' ' | '\r' | '\t' => {}
            c if c.is_alphabetic() => {
                // `pre- and postwar` has a space, and is not hyphenated.
                let joins = skipped == 0 || has_line && c.is_lowercase();
                if joins {
                    (0..skipped).for_each(|_| _ = chars.next());
                }
                return joins;
            }
            _ => return false,
        }
        skipped += 1;
        if skipped > 40 {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_compared_without_their_looks() {
        for (text, expected) in [
            ("Über  die\nGröße", "uber die grosse"),
            ("infor-\n  mation", "information"),
            ("e‑mail and pre- and postwar", "email and pre- and postwar"),
            ("“It’s” – −5 °C", "\"it's\" - -5 °c"),
            ("ﬁne Ångström Łódź", "fine angstrom lodz"),
            ("so\u{ad}ft", "soft"),
            ("Ｆｕｌｌ１２", "full12"),
        ] {
            let folded = folded(text);
            assert_eq!(folded.text, expected);
            assert_eq!(folded.text.len(), folded.origins.len());
            assert!(folded.origins.iter().all(|at| text.is_char_boundary(*at)));
        }
        assert_eq!(compact("The co-\nwork, 5%!"), "thecowork5");
    }
}
