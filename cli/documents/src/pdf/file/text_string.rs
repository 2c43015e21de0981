//! Strings that are text besides that of the pages: in UTF-16, UTF-8, or the encoding that PDF has for them.

/// What PDF's own encoding has from 0x18 on, where it differs from Latin-1.
const FROM_18: [char; 8] = ['˘', 'ˇ', 'ˆ', '˙', '˝', '˛', '˚', '˜'];
/// The same from 0x80 on.
const FROM_80: [char; 33] = [
    '•', '†', '‡', '…', '—', '–', 'ƒ', '⁄', '‹', '›', '−', '‰', '„', '“', '”', '‘', '’', '‚', '™', 'ﬁ', 'ﬂ',
    'Ł', 'Œ', 'Š', 'Ÿ', 'Ž', 'ı', 'ł', 'œ', 'š', 'ž', '\u{fffd}', '€',
];

/// Decodes a string.
pub(in crate::pdf) fn decode(bytes: &[u8]) -> String {
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.chunks_exact(2).map(|two| unit([two[0], two[1]])).collect();
        String::from_utf16_lossy(&units)
    };
    match bytes {
        [0xfe, 0xff, text @ ..] => utf16(text, u16::from_be_bytes),
        [0xff, 0xfe, text @ ..] => utf16(text, u16::from_le_bytes),
        [0xef, 0xbb, 0xbf, text @ ..] => String::from_utf8_lossy(text).into_owned(),
        text => text.iter().map(|&byte| character(byte)).collect(),
    }
}

fn character(byte: u8) -> char {
    match byte {
        0x18..=0x1f => FROM_18[usize::from(byte - 0x18)],
        0x80..=0xa0 => FROM_80[usize::from(byte - 0x80)],
        byte => char::from(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_decoded() {
        for (bytes, text) in [
            (&b"\xfe\xff\x05\xe9\xd8\x3d\xde\x00"[..], "ש😀"),
            (b"\xff\xfea\0", "a"),
            (b"\xef\xbb\xbf\xc3\xa9", "é"),
            (b"caf\xe9 \x84 \xa0\x1a", "café — €ˆ"),
            (b"\xfe\xff\0", ""),
        ] {
            assert_eq!(decode(bytes), text);
        }
    }
}
