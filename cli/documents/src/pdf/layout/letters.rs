//! Characters of glyphs: forms of letters become letters, accents that are drawn apart are put on their letters.

use encoding_rs::WINDOWS_1252;
use hayro_interpret::hayro_cmap::BfString;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{compose, is_combining_mark};

use super::PlacedText;

/// An accent may stand out of its letter by so many sizes of the font.
const ACCENT_SLACK: f64 = 0.05;
/// The same for marks, which fonts place freely.
const MARK_SLACK: f64 = 0.3;
/// Accents are not farther above or below their letter, in sizes of the font.
const ACCENT_HEIGHT: f64 = 0.6;

/// Accents as characters of their own, and as marks on letters.
const ACCENTS: [(char, char); 14] = [
    ('`', '\u{300}'),
    ('´', '\u{301}'),
    ('ˆ', '\u{302}'),
    ('˜', '\u{303}'),
    ('¯', '\u{304}'),
    ('˘', '\u{306}'),
    ('˙', '\u{307}'),
    ('¨', '\u{308}'),
    ('˚', '\u{30a}'),
    ('˝', '\u{30b}'),
    ('ˇ', '\u{30c}'),
    ('¸', '\u{327}'),
    ('˛', '\u{328}'),
    ('^', '\u{302}'),
];

/// What the fonts Symbol and Wingdings have as bullets and boxes.
const SYMBOLS: [(char, char); 9] = [
    ('\u{f0b7}', '•'),
    ('\u{f0a7}', '•'),
    ('\u{f06f}', '☐'),
    ('\u{f0a8}', '☐'),
    ('\u{f0fd}', '☒'),
    ('\u{f0fe}', '☑'),
    ('\u{f0fc}', '✓'),
    ('\u{f0d8}', '➢'),
    ('\u{f0e0}', '→'),
];

fn symbol(c: char) -> Option<char> {
    SYMBOLS.iter().find(|(private, _)| *private == c).map(|(_, symbol)| *symbol)
}

/// Whether only the font knows what a character is.
pub(in super::super) fn is_private(c: char) -> bool {
    matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..) && symbol(c).is_none()
}

/// Characters in place of control characters, which some programs write for those that Windows has at their numbers: quotation
/// marks, dashes, bullets.
pub(in super::super) fn of_windows(text: BfString) -> BfString {
    let character = |c: char| match u8::try_from(c) {
        Ok(byte @ 0x80..=0x9f) => {
            WINDOWS_1252.decode_without_bom_handling(&[byte]).0.chars().next().unwrap_or(c)
        }
        _ => c,
    };
    match text {
        BfString::Char(c) => BfString::Char(character(c)),
        BfString::String(text) => BfString::String(text.chars().map(character).collect()),
    }
}

/// A text without characters that ask for a certain shape of the one before them, as tables of Japanese fonts have them.
pub(in super::super) fn without_variation(text: BfString) -> BfString {
    let is_variation = |c: char| matches!(c, '\u{fe00}'..='\u{fe02}' | '\u{e0100}'..='\u{e01ef}');
    match text {
        BfString::String(text) if text.contains(is_variation) => {
            BfString::String(text.replace(is_variation, ""))
        }
        text => text,
    }
}

/// Whether a text is a control character, which says nothing.
pub(in super::super) fn is_control(text: &BfString) -> bool {
    matches!(text, BfString::Char(c) if c.is_control() && !c.is_whitespace())
}

/// Characters besides white space.
pub(in super::super) fn visible(text: &BfString) -> usize {
    let is_visible = |c: &char| !c.is_whitespace() && !c.is_control();
    match text {
        BfString::Char(c) => usize::from(is_visible(c)),
        BfString::String(text) => text.chars().filter(is_visible).count(),
    }
}

/// The digits of a text, whatever they look like.
pub(in super::super) fn digits(text: &str) -> String {
    let plain = |c: char| match c {
        '\u{660}'..='\u{669}' => Some(u32::from(c) - 0x660),
        '\u{6f0}'..='\u{6f9}' => Some(u32::from(c) - 0x6f0),
        c => c.to_digit(10),
    };
    text.nfkc().filter_map(|c| char::from_digit(plain(c)?, 10)).collect()
}

/// Writes the characters of a glyph.
pub(in super::super) fn write(text: &BfString, out: &mut String) {
    match text {
        BfString::Char(c) => write_char(*c, out),
        BfString::String(text) => text.chars().for_each(|c| write_char(c, out)),
    }
}

fn write_char(c: char, out: &mut String) {
    match c {
        c if c.is_ascii_graphic() => out.push(c),
        c if c.is_whitespace() => {
            if !out.ends_with(' ') {
                out.push(' ');
            }
        }
        c if c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{feff}') => {}
        'ﬅ' | 'ﬆ' => out.push_str("st"),
        c if is_form(c) => {
            // A vowel of its own is a space with the vowel.
            out.extend(std::iter::once(c).nfkc().filter(|c| *c != ' '));
        }
        c => out.push(symbol(c).unwrap_or(c)),
    }
}

/// Whether a character is a form of other characters: a ligature, a letter as it looks in a word, a radical of Chinese
/// signs, a sign of vertical text.
fn is_form(c: char) -> bool {
    matches!(
        c,
        '\u{fb00}'..='\u{fb4f}'
            | '\u{fb50}'..='\u{fdfc}'
            | '\u{fe10}'..='\u{fe19}'
            | '\u{fe30}'..='\u{fe4f}'
            | '\u{fe70}'..='\u{fefc}'
            | '\u{2e80}'..='\u{2fdf}'
            | '\u{f900}'..='\u{faff}'
    )
}

/// Whether a glyph is a mark that belongs to a letter.
pub(super) fn is_mark(glyph: &PlacedText) -> bool {
    glyph.first().is_some_and(|c| !c.is_ascii() && is_combining_mark(c))
}

fn accent(glyph: &PlacedText) -> Option<char> {
    let BfString::Char(c) = glyph.text else { return None };
    if c.is_ascii_alphanumeric() {
        return None;
    }
    ACCENTS.iter().find(|(accent, _)| *accent == c).map(|(_, mark)| *mark)
}

/// Puts a glyph on the one that was drawn before, if one of them is a mark or an accent of the other.
pub(super) fn combine(last: &mut PlacedText, glyph: &PlacedText) -> bool {
    let is_on = |mark: &PlacedText, letter: &PlacedText, slack: f64| {
        let slack = slack * letter.size;
        (letter.x - slack..=letter.end + slack).contains(&mark.middle())
            && (mark.y - letter.y).abs() < ACCENT_HEIGHT * letter.size
    };
    // These are drawn before their letter, at its place; other marks after it.
    let is_early =
        matches!(glyph.text, BfString::Char('\u{338}' | '\u{20d7}')) && glyph.middle() > last.middle();
    match (is_mark(last), is_mark(glyph)) {
        (false, true) if !last.is_space() && !is_early && is_on(glyph, last, MARK_SLACK) => {
            last.text = joined(&last.text, &glyph.text);
            return true;
        }
        (true, false) if !glyph.is_space() && is_on(last, glyph, ACCENT_SLACK / 2.0) => {
            *last = PlacedText { text: joined(&glyph.text, &last.text), ..glyph.clone() };
            return true;
        }
        _ => {}
    }
    let (mark, letter) = match (accent(last), accent(glyph)) {
        (Some(mark), None) if is_on(last, glyph, ACCENT_SLACK) => (mark, glyph.clone()),
        (None, Some(mark)) if is_on(glyph, last, ACCENT_SLACK) => (mark, last.clone()),
        _ => return false,
    };
    let BfString::Char(base) = letter.text else { return false };
    let base = match base {
        'ı' => 'i',
        'ȷ' => 'j',
        base => base,
    };
    let Some(composed) = compose(base, mark) else { return false };
    *last = PlacedText { text: BfString::Char(composed), ..letter };
    true
}

/// A letter with a mark: as one character if there is one.
fn joined(letter: &BfString, mark: &BfString) -> BfString {
    if let (BfString::Char(letter), BfString::Char(mark)) = (letter, mark) {
        let composed = match (letter, mark) {
            ('c' | 'C', '\u{20dd}') => Some('©'),
            ('R' | 'r', '\u{20dd}') => Some('®'),
            // Hebrew is written with marks; its composed letters are forms.
            (letter, mark) => compose(*letter, *mark).filter(|c| !is_form(*c)),
        };
        if let Some(composed) = composed {
            return BfString::Char(composed);
        }
    }
    let mut text = String::new();
    for part in [letter, mark] {
        match part {
            BfString::Char(c) => text.push(*c),
            BfString::String(part) => text.push_str(part),
        }
    }
    BfString::String(text)
}
