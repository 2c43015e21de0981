//! Text files in UTF-8 and in other encodings.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{
    BIG5, EUC_KR, Encoding, GBK, MACINTOSH, SHIFT_JIS, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252,
};

use super::western::{self, Charset};
use crate::kind::binary;
use crate::marks::{MARK, without_marks};
use crate::writer::tidy;
use crate::{Converted, Kind, Note, Problem};

/// The encoding is guessed from this many bytes.
const SAMPLE_BYTES: usize = 1 << 20;
/// One control character among so many characters makes a file binary.
const TEXT_PER_CONTROL: usize = 100;
/// A text in UTF-16 without a byte order mark whose alphabet is another one than the Latin has so many units.
const MIN_UNITS: usize = 8;
/// One unit of so many of such a text is white space, a digit or punctuation.
const UNITS_PER_SPACE: usize = 40;
/// How texts of DOS may end.
const END_OF_FILE: u8 = 0x1a;

/// The encoding of a code page of Windows.
pub(crate) fn of_code_page(number: u32) -> Option<&'static Encoding> {
    match number {
        932 => Some(SHIFT_JIS),
        936 => Some(GBK),
        949 => Some(EUC_KR),
        950 => Some(BIG5),
        10_000 => Some(MACINTOSH),
        20_127 => Some(WINDOWS_1252),
        65_001 => Some(UTF_8),
        number @ 28_591..=28_606 => Encoding::for_label(format!("iso-8859-{}", number - 28_590).as_bytes()),
        number => Encoding::for_label(format!("windows-{number}").as_bytes()),
    }
}

/// The byte that one or two hexadecimal digits stand for. Rust's parser takes a sign, too.
pub(crate) fn hexadecimal(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u8::from_str_radix(digits, 16).ok()
}

/// Decodes a text. Valid UTF-8 stays as it is, without its byte order mark, and without the sign that marks what begins where.
///
/// # Errors
/// The bytes are not text.
pub(crate) fn text(bytes: &[u8]) -> Result<Converted, Problem> {
    let mut converted = decoded(bytes)?;
    let marks = converted.text.matches(MARK).count();
    let replaced = converted.notes.iter_mut().find_map(|note| match note {
        Note::Replaced { places } => Some(places),
        _ => None,
    });
    match replaced {
        Some(places) => *places += marks,
        None if marks > 0 => converted.notes.push(Note::Replaced { places: marks }),
        None => {}
    }
    Ok(Converted { text: without_marks(converted.text), ..converted })
}

fn decoded(bytes: &[u8]) -> Result<Converted, Problem> {
    if let Some((name, is_big)) = utf32(bytes) {
        return decode_utf32(&bytes[4..], name, is_big);
    }
    let without_mark = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match (utf16(bytes), std::str::from_utf8(without_mark)) {
        (None, Ok(text)) => Ok(Converted { text: text.to_owned(), ..Converted::default() }),
        (Some((utf16, is_guess)), _) => decode(bytes, utf16, is_guess),
        _ => match guess(without_mark) {
            Charset::Web(encoding) => decode(bytes, encoding, true),
            set => {
                let bytes = bytes.strip_suffix(&[END_OF_FILE]).unwrap_or(bytes);
                checked(set.decode(bytes), vec![Note::Decoded { encoding: set.name(), is_guess: true }], 0)
            }
        },
    }
}

/// The text of a file of this name, without what says nothing in a text of paragraphs.
///
/// # Errors
/// It is not text.
pub(crate) fn file(name: &str, kind: Kind, bytes: &[u8]) -> Result<Converted, Problem> {
    let mut converted = text(bytes)?;
    if tidy::is_prose(name) {
        converted.text = tidy::prose(&converted.text, kind == Kind::Markdown);
    }
    Ok(converted)
}

/// Decodes bytes whose encoding is declared somewhere; `None` is for none, or one that does not exist.
pub(crate) fn declared(bytes: &[u8], encoding: Option<&'static Encoding>) -> Result<Converted, Problem> {
    match encoding {
        Some(encoding) if std::str::from_utf8(bytes).is_err() && !is_wide(bytes) => {
            decode(bytes, encoding, false)
        }
        _ => text(bytes),
    }
}

/// Whether bytes are text in UTF-16 or UTF-32.
pub(crate) fn is_wide(bytes: &[u8]) -> bool {
    utf16(bytes).is_some() || utf32(bytes).is_some()
}

/// Whether bytes are not text in any encoding.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    let sample = sample.strip_suffix(&[END_OF_FILE]).unwrap_or(sample);
    if is_wide(bytes) {
        return false;
    }
    let controls = sample.iter().filter(|byte| is_control(char::from(**byte))).count();
    // The sample may end within a character.
    let is_utf8 = std::str::from_utf8(sample).map_or_else(|error| error.error_len().is_none(), |_| true);
    controls * TEXT_PER_CONTROL > sample.len() || (sample.contains(&0) && !is_utf8)
}

/// Control characters that texts do not have. Terminals' logs have backspaces and escapes.
fn is_control(c: char) -> bool {
    c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\x0b' | '\x0c' | '\r' | '\x08' | '\x1b')
}

fn decode(bytes: &[u8], encoding: &'static Encoding, is_guess: bool) -> Result<Converted, Problem> {
    let (text, used, _) = encoding.decode(bytes);
    let mut places = text.matches(char::REPLACEMENT_CHARACTER).count();
    let mut notes = Vec::new();
    if used != UTF_8 {
        notes.push(Note::Decoded { encoding: used.name().to_ascii_lowercase(), is_guess });
    }
    let cut = if used == UTF_8 { Cut::of(bytes) } else { Cut { start: 0, end: odd_byte(bytes, used) } };
    if cut.start + cut.end > 0 {
        notes.push(Note::CutOff);
        // Each byte at the start is replaced, and the beginning of a character at the end.
        places = places.saturating_sub(cut.start + cut.end.min(1));
    }
    checked(text.into_owned(), notes, places)
}

/// A decoded text with its notes, unless it is no text.
fn checked(text: String, mut notes: Vec<Note>, places: usize) -> Result<Converted, Problem> {
    let garbage = places + text.chars().filter(|c| c.is_control() && !is_space(*c)).count();
    if garbage.saturating_mul(TEXT_PER_CONTROL) > text.chars().count() + TEXT_PER_CONTROL {
        return Err(binary("binary data"));
    }
    if places > 0 {
        notes.push(Note::Replaced { places });
    }
    Ok(Converted { text, notes, ..Converted::default() })
}

/// Bytes of characters in UTF-8 that a text begins or ends within.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cut {
    start: usize,
    end: usize,
}

impl Cut {
    /// The text is UTF-8, apart from such bytes.
    fn of(bytes: &[u8]) -> Cut {
        let is_rest = |byte: &&u8| matches!(byte, 0x80..=0xbf);
        let start = bytes.iter().take(3).take_while(is_rest).count();
        // A character has up to four bytes.
        let tail = &bytes[bytes.len().saturating_sub(3).max(start)..];
        let begins = tail.iter().rposition(|byte| *byte >= 0xc0).map_or(&[][..], |at| &tail[at..]);
        let is_incomplete = std::str::from_utf8(begins).is_err_and(|error| error.error_len().is_none());
        Cut { start, end: if is_incomplete { begins.len() } else { 0 } }
    }
}

/// 1 if a text in UTF-16 ends within a unit.
fn odd_byte(bytes: &[u8], encoding: &'static Encoding) -> usize {
    if [UTF_16LE, UTF_16BE].contains(&encoding) { bytes.len() % 2 } else { 0 }
}

fn is_space(c: char) -> bool {
    c.is_ascii_control() && !is_control(c)
}

/// UTF-32 by its byte order mark: its name, and whether the first byte is the upper one.
fn utf32(bytes: &[u8]) -> Option<(&'static str, bool)> {
    match bytes {
        [0xff, 0xfe, 0, 0, ..] => Some(("utf-32le", false)),
        [0, 0, 0xfe, 0xff, ..] => Some(("utf-32be", true)),
        _ => None,
    }
}

fn decode_utf32(bytes: &[u8], name: &str, is_big: bool) -> Result<Converted, Problem> {
    let (units, rest) = bytes.as_chunks::<4>();
    let number = |unit: &[u8; 4]| if is_big { u32::from_be_bytes(*unit) } else { u32::from_le_bytes(*unit) };
    let mut text: String = units
        .iter()
        .map(|unit| char::from_u32(number(unit)).unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect();
    let places = text.matches(char::REPLACEMENT_CHARACTER).count();
    let mut notes = vec![Note::Decoded { encoding: name.to_owned(), is_guess: false }];
    if !rest.is_empty() {
        text.push(char::REPLACEMENT_CHARACTER);
        notes.push(Note::CutOff);
    }
    checked(text, notes, places)
}

/// UTF-16 by its byte order mark, or as a guess because most of its units are below 256 or of one other alphabet.
/// Returns whether it is a guess.
fn utf16(bytes: &[u8]) -> Option<(&'static Encoding, bool)> {
    match bytes {
        _ if utf32(bytes).is_some() => return None,
        [0xff, 0xfe, ..] => return Some((UTF_16LE, false)),
        [0xfe, 0xff, ..] => return Some((UTF_16BE, false)),
        _ => {}
    }
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    let (units, rest) = sample.as_chunks::<2>();
    let zeros = |index: usize| units.iter().filter(|unit| unit[index] == 0).count();
    let (first, second) = (zeros(0), zeros(1));
    let most = |zeros: usize| zeros * 2 > units.len();
    let valid = |encoding: &'static Encoding, upper: usize| {
        // The sample may end within a character.
        let half =
            units.last().filter(|unit| matches!(unit[upper], 0xd8..=0xdb)).map_or(0, |unit| unit.len());
        let whole = &sample[..sample.len() - rest.len() - half];
        let (text, is_damaged) = encoding.decode_without_bom_handling(whole);
        (!text.chars().any(is_control) && !is_damaged).then_some((encoding, true))
    };
    let is_cut = rest.is_empty() || bytes.len() == sample.len();
    match is_cut && units.len() > 1 {
        true if first == 0 && (most(second) || is_alphabet(units, 1)) => valid(UTF_16LE, 1),
        true if second == 0 && (most(first) || is_alphabet(units, 0)) => valid(UTF_16BE, 0),
        _ => None,
    }
}

/// Whether units of UTF-16 are letters with the same upper byte, and what stands between words and in numbers.
fn is_alphabet(units: &[[u8; 2]], upper: usize) -> bool {
    let (mut letters, mut spaces) = ([0; 256], 0);
    for unit in units {
        let (high, low) = (unit[upper], unit[1 - upper]);
        let is_letter =
            char::from_u32(u32::from_be_bytes([0, 0, high, low])).is_some_and(char::is_alphabetic);
        letters[usize::from(high)] += usize::from(is_letter);
        let is_space = low.is_ascii_whitespace() || low.is_ascii_digit() || low.is_ascii_punctuation();
        spaces += usize::from(high == 0 && is_space);
    }
    let letters = letters[1..].iter().max().copied().unwrap_or(0);
    units.len() >= MIN_UNITS
        && letters > 0
        && spaces * UNITS_PER_SPACE >= units.len()
        && (spaces + letters) * 10 >= units.len() * 9
}

/// The encoding of bytes that are not valid UTF-8.
fn guess(bytes: &[u8]) -> Charset {
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    let cut = Cut::of(sample);
    // A few damaged characters do not make UTF-8 another encoding.
    let (mut valid, mut invalid) = (0, 0);
    for chunk in sample[cut.start..sample.len() - cut.end].utf8_chunks() {
        valid += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        invalid += usize::from(!chunk.invalid().is_empty());
    }
    // Two bytes of a character are hardly two letters of another encoding.
    if valid >= invalid * 10 && (valid > 0 || (cut.start == 0 && cut.end > 1)) {
        return Charset::Web(UTF_8);
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(sample, true);
    // Few bytes say little, and a western language is the most common.
    match detector.guess(None, Utf8Detection::Deny) {
        guessed if guessed != WINDOWS_1252 && invalid >= 4 => Charset::Web(guessed),
        _ => western::guess(sample),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], text_wanted: &str, notes: &[&str]) {
        let Converted { text, notes: found, .. } = text(bytes).expect("text");
        assert_eq!(text, text_wanted);
        assert_eq!(found.iter().map(Note::to_string).collect::<Vec<_>>(), notes, "{text_wanted}");
    }

    #[test]
    fn utf8_is_not_changed() {
        for text in ["", "a\r\n\tb\n\n", "caf\u{e9} \u{1f600}", "x\u{feff}y", "log \x1b[31mred\x1b[0m"] {
            check(text.as_bytes(), text, &[]);
            check(format!("\u{feff}{text}").as_bytes(), text, &[]);
        }
    }

    #[test]
    fn other_encodings_are_decoded_with_a_note() {
        let guess = "decoded as windows-1252, which is a guess";
        check(b"caf\xe9 au lait", "café au lait", &[guess]);
        check(b"caf\xe9", "café", &[guess]);
        check(b"It\x92s \x93quoted\x94", "It\u{2019}s \u{201c}quoted\u{201d}", &[guess]);
        check(b"\x93quoted", "\u{201c}quoted", &[guess]);
        let dos = b"\x9abergr\x94\xe1e: 5 St\x81ck f\x81r 12 \x9c";
        check(dos, "Übergröße: 5 Stück für 12 £", &["decoded as cp437, which is a guess"]);
        let ended = [&dos[..], b"\r\n\x1a"].concat();
        assert!(!is_binary(&ended));
        check(&ended, "Übergröße: 5 Stück für 12 £\r\n", &["decoded as cp437, which is a guess"]);
        let russian = "Старая лодка пересекла тихую реку.";
        let (cp1251, ..) = encoding_rs::WINDOWS_1251.encode(russian);
        check(&cp1251, russian, &["decoded as windows-1251, which is a guess"]);
        let text = "The río and the 川.";
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        check(&[b"\xff\xfe", &little[..]].concat(), text, &["decoded as utf-16le"]);
        check(&[b"\xfe\xff", &big[..]].concat(), text, &["decoded as utf-16be"]);
        let little: Vec<u8> = text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
        let big: Vec<u8> = text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect();
        for (mark, bytes, name) in
            [(&b"\xff\xfe\0\0"[..], little, "utf-32le"), (b"\0\0\xfe\xff", big, "utf-32be")]
        {
            let bytes = [mark, &bytes].concat();
            assert!(!is_binary(&bytes));
            check(&bytes, text, &[&format!("decoded as {name}")]);
            let cut = "the file begins or ends within a character: a part of it may be missing";
            check(
                &bytes[..bytes.len() - 1],
                &text.replace('.', "\u{fffd}"),
                &[&format!("decoded as {name}"), cut],
            );
        }
        let plain: Vec<u8> = "plain".encode_utf16().flat_map(u16::to_le_bytes).collect();
        check(&plain, "plain", &["decoded as utf-16le, which is a guess"]);
        for text in [russian, "Η παλιά βάρκα, 12 ευρώ.", "המחיר הוא 120 שקלים"] {
            let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            assert!(!is_binary(&little), "{text}");
            check(&little, text, &["decoded as utf-16le, which is a guess"]);
            let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
            check(&big, text, &["decoded as utf-16be, which is a guess"]);
        }
        // The sample ends within a character.
        let units = SAMPLE_BYTES / 2 - 1;
        let long: String =
            "hello world text ".chars().cycle().take(units).chain("\u{1f600} end".chars()).collect();
        let little: Vec<u8> = long.encode_utf16().flat_map(u16::to_le_bytes).collect();
        check(&little, &long, &["decoded as utf-16le, which is a guess"]);
    }

    #[test]
    fn a_text_that_is_cut_within_a_character_is_still_utf8() {
        let cut = "the file begins or ends within a character: a part of it may be missing";
        check(b"The price is 5 \xe2\x82", "The price is 5 \u{fffd}", &[cut]);
        let text = "Größe: 5 €";
        check(&text.as_bytes()[..text.len() - 1], "Größe: 5 \u{fffd}", &[cut]);
        check(&[b"\x82\xac ", text.as_bytes()].concat(), &format!("\u{fffd}\u{fffd} {text}"), &[cut]);
        let emoji = "\u{1f600} \u{1f600}".as_bytes();
        for end in 1..4 {
            check(&emoji[..5 + end], "\u{1f600} \u{fffd}", &[cut]);
        }
        let odd: Vec<u8> = "plain".encode_utf16().flat_map(u16::to_le_bytes).chain([b'x']).collect();
        assert!(!is_binary(&odd));
        check(&odd, "plain\u{fffd}", &["decoded as utf-16le, which is a guess", cut]);
        // One byte may be a letter of another encoding.
        check(b"5 \xe2", "5 â", &["decoded as windows-1252, which is a guess"]);
    }

    #[test]
    fn a_damaged_character_does_not_change_the_encoding() {
        let mut bytes = "äöü ".repeat(20).into_bytes();
        bytes.push(0xff);
        check(&bytes, &("äöü ".repeat(20) + "\u{fffd}"), &["invalid characters in 1 place"]);
    }

    #[test]
    fn binary_data_is_no_text() {
        let random: Vec<u8> = (0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 21) as u8).collect();
        assert!(is_binary(&random));
        assert!(is_binary(b"\0\0\0\0"));
        // A mark does not make it a text.
        assert!(text(&[b"\xff\xfe\0\0", &random[..]].concat()).is_err());
        let numbers = |first: u16| [first].into_iter().chain((0..400).map(|i| 0x402 + i * 7 % 252));
        let marks = [0x20].into_iter().chain(0x301..0x309);
        for numbers in [numbers(100).collect::<Vec<u16>>(), numbers(0x20).collect(), marks.collect()] {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            assert!(utf16(&bytes).is_none() && is_binary(&bytes), "{numbers:x?}");
        }
        assert!(is_binary(&[b"caf\xe9"[..].repeat(1000), vec![0]].concat()), "a NUL and no UTF-8");
        assert!(!is_binary(b"caf\xe9 au lait"));
        assert!(!is_binary("log \x1b[31mred\x1b[0m\r\n".as_bytes()));
        assert!(!is_binary(&[b"a log of a crash\n".repeat(100), vec![0]].concat()));
    }
}
