//! Text from the right: Hebrew, Arabic. A page shows it in the order of the eye. In that order from left to right, it is
//! turned into the order of reading: words from the right, but numbers and Latin words within them as they stand.

use super::PlacedText;
use super::letters;
use super::scripts::{RAISED, SMALL};
use super::words::Letter;

/// A direction is clear if it has so many times as many letters as the other.
const CLEAR: usize = 2;

/// Where the text of a line begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direction {
    /// Whether any of it is from the right.
    pub(super) has_rtl: bool,
    /// Whether the line as a whole is.
    pub(super) is_rtl: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rtl,
    Ltr,
    Digit,
    Other,
}

fn is_rtl(c: char) -> bool {
    // Separators and signs of numbers, and marks, have no direction of their own.
    const NEUTRAL: &[char] = &['\u{606}', '\u{607}', '\u{60e}', '\u{60f}', '\u{6de}', '\u{6e9}'];
    !matches!(c, '\u{609}'..='\u{60a}' | '\u{60c}' | '\u{66a}'..='\u{66c}')
        && !NEUTRAL.contains(&c)
        && matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefe}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
        && !is_digit(c)
}

/// Whether a letter is Arabic: numbers behind it are written as those in Arabic digits are.
fn is_arabic(c: char) -> bool {
    is_rtl(c)
        && matches!(c, '\u{600}'..='\u{7bf}' | '\u{860}'..='\u{8ff}' | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefe}')
}

/// Arabic has two kinds of digits of its own.
fn is_digit(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '\u{660}'..='\u{669}' | '\u{6f0}'..='\u{6f9}')
}

/// The letters of a line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    rtl: usize,
    ltr: usize,
}

impl Count {
    pub(super) fn of(glyphs: &[PlacedText]) -> Count {
        let mut count = Count::default();
        for c in glyphs.iter().filter_map(PlacedText::first) {
            if c.is_ascii() {
                count.ltr += usize::from(c.is_ascii_alphabetic());
            } else if is_rtl(c) {
                count.rtl += 1;
            } else {
                count.ltr += usize::from(c.is_alphabetic());
            }
        }
        count
    }

    /// Whether most text of a page with these lines is from the right.
    pub(super) fn is_rtl(lines: &[Count]) -> bool {
        let (rtl, ltr) = lines.iter().fold((0, 0), |(rtl, ltr), line| (rtl + line.rtl, ltr + line.ltr));
        rtl > ltr
    }

    /// The direction of the line.
    pub(super) fn direction(self, page_is_rtl: bool) -> Direction {
        let Count { rtl, ltr } = self;
        let is_rtl = match rtl {
            0 => false,
            _ if rtl >= CLEAR * ltr => true,
            _ if ltr >= CLEAR * rtl => false,
            _ => page_is_rtl,
        };
        Direction { has_rtl: rtl > 0, is_rtl }
    }
}

/// Whether a glyph is a letter of text from the right.
pub(super) fn is_from_right(glyph: &PlacedText) -> bool {
    glyph.first().is_some_and(is_rtl)
}

/// A glyph as it is written, and what it is.
struct Item {
    text: String,
    kind: Kind,
}

/// Writes letters, which stand from left to right, in the order of reading.
pub(super) fn write(letters: &[Letter<'_>], is_rtl: bool, out: &mut String) {
    let size = letters.iter().map(|letter| letter.glyph.size).fold(0.0, f64::max);
    let is_raised: Vec<bool> = (0..letters.len()).map(|i| is_raised(letters, i, size)).collect();
    let mut items: Vec<Item> = Vec::new();
    for (i, letter) in letters.iter().enumerate() {
        if letter.is_apart && i > 0 {
            items.push(Item { text: " ".to_owned(), kind: Kind::Other });
        }
        let mut text = String::new();
        letters::write(&letter.glyph.text, &mut text);
        if is_raised[i] {
            let begins = i == 0 || letter.is_apart || !is_raised[i - 1];
            match items.last_mut() {
                // An exponent belongs to what is left of it, the mark of a note to the word right of it.
                Some(last) if begins && !letter.is_apart && matches!(last.kind, Kind::Digit | Kind::Ltr) => {
                    last.text += &format!("^{text}");
                }
                Some(last) if !begins && last.text.ends_with(']') => {
                    last.text.insert_str(last.text.len() - 1, &text)
                }
                Some(last) if !begins => last.text += &text,
                _ => items.push(Item { text: format!("[{text}]"), kind: Kind::Digit }),
            }
            continue;
        }
        let kind = kind(&text);
        items.push(Item { text, kind });
    }
    if is_rtl {
        write_from_right(&items, out);
        return;
    }
    // In a line from the left, what is between words from the right belongs to them.
    let mut rest = &items[..];
    while !rest.is_empty() {
        let length = match rest[0].kind {
            Kind::Rtl => from_right(rest),
            _ => 1,
        };
        let (part, after) = rest.split_at(length);
        match part[0].kind {
            Kind::Rtl => write_from_right(part, out),
            _ => out.push_str(&part[0].text),
        }
        rest = after;
    }
}

/// Whether a letter is a digit that is smaller than the line's text, and higher than the letters of full size beside it.
fn is_raised(letters: &[Letter<'_>], at: usize, size: f64) -> bool {
    let glyph = letters[at].glyph;
    let is_small = |glyph: &PlacedText| glyph.size <= SMALL * size;
    if !is_small(glyph) || glyph.is_layer || !glyph.first().is_some_and(is_digit) {
        return false;
    }
    let is_full = |letter: &&Letter<'_>| !is_small(letter.glyph);
    let (before, after) = (letters[..at].iter().rev().find(is_full), letters[at..].iter().find(is_full));
    before.into_iter().chain(after).all(|letter| glyph.y - letter.glyph.y > RAISED * size)
}

fn kind(text: &str) -> Kind {
    let strong = |c: char| match c {
        c if is_digit(c) => Some(Kind::Digit),
        c if is_rtl(c) => Some(Kind::Rtl),
        c if c.is_alphabetic() => Some(Kind::Ltr),
        _ => None,
    };
    text.chars().find_map(strong).unwrap_or(Kind::Other)
}

/// How many items are words from the right, with what is between them.
fn from_right(items: &[Item]) -> usize {
    let allowed = items.iter().take_while(|item| item.kind != Kind::Ltr);
    allowed.enumerate().filter(|(_, item)| item.kind == Kind::Rtl).last().map_or(1, |(i, _)| i + 1)
}

/// Writes items from the right. Latin words with what is between them, and numbers, are written from the left.
fn write_from_right(items: &[Item], out: &mut String) {
    let behind_arabic = behind_arabic(items);
    let mut parts: Vec<&[Item]> = Vec::new();
    let mut at = 0;
    while at < items.len() {
        let length = match items[at].kind {
            Kind::Ltr => latin(&items[at..]),
            _ => match number(&items[at..], behind_arabic[at]) {
                // `5°C`, `2x3`: Latin letters at a number go on with it. The mark of a note is of the word itself.
                Some(length)
                    if !is_mark(&items[at])
                        && items.get(at + length).is_some_and(|item| item.kind == Kind::Ltr) =>
                {
                    length + latin(&items[at + length..])
                }
                length => length.unwrap_or(1),
            },
        };
        parts.push(&items[at..at + length]);
        at += length;
    }
    parts.reverse();
    let is_plain = |part: &[Item]| part.len() == 1 && part[0].kind == Kind::Other;
    let brackets = || parts.iter().filter(|part| is_plain(part)).flat_map(|part| part[0].text.chars());
    // Some files tell how a bracket looks, others which one it is: the one that opens comes first.
    let is_mirrored = unmatched(brackets().map(mirrored)) < unmatched(brackets());
    let shown = |part: &[Item]| match is_mirrored && is_plain(part) {
        true => part[0].text.chars().map(mirrored).collect(),
        false => part.iter().map(|item| item.text.as_str()).collect::<String>(),
    };
    let mut written: Vec<(String, Kind)> = parts.iter().map(|part| (shown(part), part[0].kind)).collect();
    turn_latin_brackets(&mut written);
    out.extend(written.into_iter().map(|(text, _)| text));
}

/// Parts in brackets that have Latin words and none from the right stand as they are seen. Those with brackets within
/// them stay.
fn turn_latin_brackets(parts: &mut [(String, Kind)]) {
    let mut open = Vec::new();
    for at in 0..parts.len() {
        let Some(c) = parts[at].0.chars().next().filter(|_| parts[at].1 == Kind::Other) else { continue };
        match c {
            c if is_opening(c) => open.push(at),
            c if is_closing(c) => {
                let Some(first) = open.pop() else { continue };
                let inner = &mut parts[first + 1..at];
                let has = |kind: Kind| inner.iter().any(|(_, known)| *known == kind);
                if has(Kind::Ltr)
                    && !has(Kind::Rtl)
                    && !inner.iter().any(|(text, _)| text.starts_with(is_opening))
                {
                    inner.reverse();
                }
            }
            _ => {}
        }
    }
}

/// How many items are Latin words with numbers and signs between them. A bracket that is open before them ends them.
fn latin(items: &[Item]) -> usize {
    let (mut open, mut length) = (0usize, 1);
    for (i, item) in items.iter().enumerate() {
        match item.kind {
            Kind::Rtl => break,
            Kind::Ltr | Kind::Digit if open == 0 => length = i + 1,
            Kind::Ltr | Kind::Digit => {}
            Kind::Other => {
                for c in item.text.chars() {
                    if is_opening(c) {
                        open += 1;
                    } else if is_closing(c) {
                        match open.checked_sub(1) {
                            Some(rest) => open = rest,
                            None => return length,
                        }
                    }
                }
            }
        }
    }
    length
}

/// Whether an item is the mark of a note.
fn is_mark(item: &Item) -> bool {
    item.text.starts_with('[')
}

/// How many items are a number: digits with single signs between them, and with a sign of a unit or currency. Signs beside
/// Arabic numbers belong to the text around them.
fn number(items: &[Item], behind_arabic: bool) -> Option<usize> {
    let is_digit = |i: usize| items.get(i).is_some_and(|item| item.kind == Kind::Digit);
    let is_one_of = |i: usize, signs: &str| {
        items.get(i).is_some_and(|item| signs.contains(&item.text) && item.kind == Kind::Other)
    };
    let is_arabic = |i: usize| is_digit(i) && items[i].text.contains(|c| matches!(c, '\u{660}'..='\u{669}'));
    let (before, joining, behind) = match behind_arabic || is_arabic(0) || is_arabic(1) {
        true => ("", ".,:/،٫٬", ""),
        // A longer dash is none of them: of years with it, the first stands at the right.
        false => ("+%$€£₪°#‰٪", ".,:/+-−،٫٬", "%$€£₪°#‰٪"),
    };
    let start = usize::from(is_one_of(0, before));
    if !is_digit(start) {
        return None;
    }
    let mut end = start;
    while is_digit(end) || (is_one_of(end, joining) && is_digit(end + 1)) {
        end += 1;
    }
    Some(end + usize::from(is_one_of(end, behind)))
}

/// For each item whether the word before it, which stands right of it, is Arabic.
fn behind_arabic(items: &[Item]) -> Vec<bool> {
    let mut is_behind = false;
    let mut known: Vec<bool> = items
        .iter()
        .rev()
        .map(|item| {
            if matches!(item.kind, Kind::Rtl | Kind::Ltr) {
                is_behind = item.text.contains(is_arabic);
            }
            is_behind
        })
        .collect();
    known.reverse();
    known
}

fn is_opening(c: char) -> bool {
    "([{<«".contains(c)
}

fn is_closing(c: char) -> bool {
    is_opening(mirrored(c))
}

fn mirrored(c: char) -> char {
    match c {
        '(' => ')',
        ')' => '(',
        '[' => ']',
        ']' => '[',
        '{' => '}',
        '}' => '{',
        '<' => '>',
        '>' => '<',
        '«' => '»',
        '»' => '«',
        c => c,
    }
}

/// Brackets that close without an opening one, or the other way round.
fn unmatched(text: impl Iterator<Item = char>) -> usize {
    let (mut open, mut wrong) = (0, 0);
    for c in text {
        match c {
            c if is_opening(c) => open += 1,
            c if is_closing(c) && open == 0 => wrong += 1,
            c if is_closing(c) => open -= 1,
            _ => {}
        }
    }
    wrong + open
}
