//! The byte alphabet of byte-level BPE (GPT-2, Radford et al. 2019): each of the 256 bytes is written as one
//! printable character, so that a vocabulary of texts can hold any byte string. GGUF files store tokens in
//! this alphabet.

use std::sync::OnceLock;

/// The character of each byte. Printable Latin-1 bytes are their own character; the other 68 are U+0100,
/// U+0101, … in byte order.
fn table() -> &'static [char; 256] {
    static TABLE: OnceLock<[char; 256]> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = ['\0'; 256];
        let mut next = 0x100u32;
        for (byte, slot) in table.iter_mut().enumerate() {
            let byte = byte as u8;
            *slot = if prints_as_itself(byte) {
                char::from(byte)
            } else {
                let shifted = char::from_u32(next).unwrap_or(char::REPLACEMENT_CHARACTER);
                next += 1;
                shifted
            };
        }
        table
    })
}

fn prints_as_itself(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// The character of one byte.
pub(super) fn char_of(byte: u8) -> char {
    table()[usize::from(byte)]
}

/// The byte of a character; `None` if it is not in the alphabet.
fn byte_of(c: char) -> Option<u8> {
    let code = u32::from(c);
    match code {
        0x100..0x144 => table().iter().position(|&t| t == c).map(|b| b as u8),
        _ => u8::try_from(code).ok().filter(|&b| prints_as_itself(b)),
    }
}

/// Writes `bytes` in the byte alphabet to `out`, replacing its content.
pub(super) fn encode_into(bytes: &[u8], out: &mut String) {
    out.clear();
    out.extend(bytes.iter().map(|&byte| char_of(byte)));
}

/// The bytes of a token. A character outside the alphabet, in a token added by hand, becomes its own UTF-8
/// bytes.
pub(super) fn decode(piece: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(piece.len());
    for c in piece.chars() {
        match byte_of(c) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_unique_character() {
        let mut seen = std::collections::HashSet::new();
        for byte in 0..=255u8 {
            assert!(seen.insert(char_of(byte)), "{byte:#x} shares a character");
            assert_eq!(byte_of(char_of(byte)), Some(byte));
        }
        assert_eq!(char_of(b' '), 'Ġ');
        assert_eq!(char_of(b'\n'), 'Ċ');
        assert_eq!(char_of(0xAD), 'Ń');
    }

    #[test]
    fn decoding_inverts_encoding_and_keeps_characters_outside_the_alphabet() {
        let mut coded = String::new();
        encode_into("a b\né\u{1F600}".as_bytes(), &mut coded);
        assert_eq!(coded.chars().count(), "a b\né\u{1F600}".len());
        assert_eq!(decode(&coded), "a b\né\u{1F600}".as_bytes());
        assert_eq!(decode("▁x"), "▁x".as_bytes());
    }
}
