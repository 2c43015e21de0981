//! Text files in UTF-8 and in other encodings.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

use crate::kind::binary;
use crate::{Converted, Note, Problem};

/// The encoding is guessed from this many bytes.
const SAMPLE_BYTES: usize = 1 << 20;
/// One control character among so many characters makes a file binary.
const TEXT_PER_CONTROL: usize = 100;

/// Decodes a text. Valid UTF-8 stays as it is, without its byte order mark.
///
/// # Errors
/// The bytes are not text.
pub(crate) fn text(bytes: &[u8]) -> Result<Converted, Problem> {
    let without_mark = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match (utf16(bytes), std::str::from_utf8(without_mark)) {
        (None, Ok(text)) => Ok(Converted { text: text.to_owned(), ..Converted::default() }),
        (utf16, _) => decode(bytes, utf16.unwrap_or_else(|| guess(without_mark))),
    }
}

/// Decodes bytes whose encoding is declared somewhere; `None` is for none, or one that does not exist.
pub(crate) fn declared(bytes: &[u8], encoding: Option<&'static Encoding>) -> Result<Converted, Problem> {
    match encoding {
        Some(encoding) if std::str::from_utf8(bytes).is_err() && utf16(bytes).is_none() => {
            decode(bytes, encoding)
        }
        _ => text(bytes),
    }
}

/// Whether bytes are not text in any encoding.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    if utf16(bytes).is_some() {
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

fn decode(bytes: &[u8], encoding: &'static Encoding) -> Result<Converted, Problem> {
    let (text, used, _) = encoding.decode(bytes);
    let places = text.matches(char::REPLACEMENT_CHARACTER).count();
    let garbage = places + text.chars().filter(|c| c.is_control() && !is_space(*c)).count();
    if garbage.saturating_mul(TEXT_PER_CONTROL) > text.chars().count() + TEXT_PER_CONTROL {
        return Err(binary("binary data"));
    }
    let mut notes = Vec::new();
    if used != UTF_8 {
        notes.push(Note::Decoded { encoding: used.name().to_ascii_lowercase() });
    }
    if places > 0 {
        notes.push(Note::Replaced { places });
    }
    Ok(Converted { text: text.into_owned(), notes, ..Converted::default() })
}

fn is_space(c: char) -> bool {
    c.is_ascii_control() && !is_control(c)
}

/// UTF-16, by its byte order mark or because most of its units are below 256.
fn utf16(bytes: &[u8]) -> Option<&'static Encoding> {
    match bytes {
        [0xff, 0xfe, 0, 0, ..] => return None, // UTF-32
        [0xff, 0xfe, ..] => return Some(UTF_16LE),
        [0xfe, 0xff, ..] => return Some(UTF_16BE),
        _ => {}
    }
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    let (units, rest) = sample.as_chunks::<2>();
    let zeros = |index: usize| units.iter().filter(|unit| unit[index] == 0).count();
    let (first, second) = (zeros(0), zeros(1));
    let most = |zeros: usize| zeros * 2 > units.len();
    let valid = |encoding: &'static Encoding| {
        let (text, _) = encoding.decode_without_bom_handling(sample);
        (!text.chars().any(is_control)).then_some(encoding)
    };
    match rest.is_empty() && units.len() > 1 {
        true if most(second) && first == 0 => valid(UTF_16LE),
        true if most(first) && second == 0 => valid(UTF_16BE),
        _ => None,
    }
}

/// The encoding of bytes that are not valid UTF-8.
fn guess(bytes: &[u8]) -> &'static Encoding {
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    // A few damaged characters do not make UTF-8 another encoding.
    let (mut valid, mut invalid) = (0, 0);
    for chunk in sample.utf8_chunks() {
        valid += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        invalid += usize::from(!chunk.invalid().is_empty());
    }
    if valid >= invalid * 10 {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(sample, true);
    // Few bytes say little, and Latin-1 is the most common.
    match detector.guess(None, Utf8Detection::Deny) {
        guessed if invalid >= 4 => guessed,
        _ => WINDOWS_1252,
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
        check(b"caf\xe9 au lait", "café au lait", &["decoded as windows-1252"]);
        check(b"It\x92s \x93quoted\x94", "It\u{2019}s \u{201c}quoted\u{201d}", &["decoded as windows-1252"]);
        let russian = "Старая лодка пересекла тихую реку.";
        let (cp1251, ..) = encoding_rs::WINDOWS_1251.encode(russian);
        check(&cp1251, russian, &["decoded as windows-1251"]);
        let text = "The río and the 川.";
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        check(&[b"\xff\xfe", &little[..]].concat(), text, &["decoded as utf-16le"]);
        check(&[b"\xfe\xff", &big[..]].concat(), text, &["decoded as utf-16be"]);
        let plain: Vec<u8> = "plain".encode_utf16().flat_map(u16::to_le_bytes).collect();
        check(&plain, "plain", &["decoded as utf-16le"]);
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
        assert!(is_binary(&[b"caf\xe9"[..].repeat(1000), vec![0]].concat()), "a NUL and no UTF-8");
        assert!(!is_binary(b"caf\xe9 au lait"));
        assert!(!is_binary("log \x1b[31mred\x1b[0m\r\n".as_bytes()));
        assert!(!is_binary(&[b"a log of a crash\n".repeat(100), vec![0]].concat()));
    }
}
