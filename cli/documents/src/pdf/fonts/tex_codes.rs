//! Fonts of TeX whose glyphs are pictures, and whose names are nothing but their codes (`a48`): programs that draw the fonts of
//! METAFONT make them (pdfTeX, dvips). Nothing says which encoding the codes are of. The widths of some letters and ligatures
//! tell it in fonts of Latin text. What they do not tell stays unknown, and is counted as such.

use std::collections::BTreeMap;

/// The characters of OT1 from 0 on, and from `OT1_ACCENTS_START` on.
const OT1: &str = "ΓΔΘΛΞΠΣΥΦΨΩ";
const OT1_ACCENTS: &str = "ıȷ`´ˇ˘¯˚¸ßæœøÆŒØ";
const OT1_ACCENTS_START: u8 = 16;
/// The characters of T1 from here on. What is not here is something else in encodings of other scripts, which have the same
/// ligatures: all letters from 128 on, too.
const T1: &str = "“”„«»–—";
const T1_START: u8 = 16;
/// The ligatures of both, and the codes that they begin at.
const LIGATURES: [(&str, &str); 5] =
    [("f_f", "ff"), ("f_i", "fi"), ("f_l", "fl"), ("f_f_i", "ffi"), ("f_f_l", "ffl")];
const OT1_LIGATURES: u8 = 11;
const T1_LIGATURES: u8 = 27;
/// A ligature is as wide as this share of its letters.
const WIDTH_OF_LIGATURE: std::ops::Range<f64> = 0.9..1.02;
/// Some of these letters are as wide as each other in fonts of text, and none in those for mathematics.
const AS_WIDE: &[u8] = b"bdhnpqu";
/// A Latin `l` is narrower than this share of an `o`. Greek and Russian letters with its code are not.
const WIDTH_OF_L: f64 = 0.65;
/// A font of text has so many of these letters.
const LETTERS: &[u8] = b"etaoinsrhl";
const MIN_LETTERS: usize = 4;
/// A font of digits has so many, each of which is so wide, in sizes of the font.
const MIN_DIGITS: usize = 3;
const WIDTH_OF_DIGITS: std::ops::Range<f64> = 0.45..0.62;

/// The widths of a font's glyphs by their codes, in sizes of the font.
#[derive(Debug)]
struct CodedFont(BTreeMap<u8, f64>);

/// Encodings of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Ot1,
    T1,
}

/// The names that glyphs have instead of these, as far as they are certain. None if these are no codes.
pub(super) fn names(
    names: &BTreeMap<u8, String>,
    widths: &BTreeMap<u8, f64>,
) -> Option<BTreeMap<u8, String>> {
    let mut font = BTreeMap::new();
    for (code, name) in names.iter().filter(|(_, name)| *name != ".notdef") {
        let digits = name.strip_prefix(|c: char| c.is_ascii_alphabetic())?;
        if digits.parse() != Ok(*code) {
            return None;
        }
        font.insert(*code, *widths.get(code)?);
    }
    Some(CodedFont(font).names())
}

impl CodedFont {
    fn width(&self, code: u8) -> Option<f64> {
        self.0.get(&code).copied()
    }

    fn has_letters(&self) -> bool {
        LETTERS.iter().filter(|code| self.0.contains_key(code)).count() >= MIN_LETTERS
    }

    /// Whether it is of Latin text with letters of several widths.
    fn is_text(&self) -> bool {
        let mut widths: Vec<f64> = AS_WIDE.iter().filter_map(|code| self.width(*code)).collect();
        widths.sort_by(f64::total_cmp);
        let has_narrow_l = self.width(b'l').zip(self.width(b'o')).is_some_and(|(l, o)| l < WIDTH_OF_L * o);
        self.has_letters() && has_narrow_l && widths.windows(2).any(are_same)
    }

    /// Whether it is of Latin text with glyphs that are all as wide as each other. No Greek letter has the code of `v`.
    fn is_typewriter(&self) -> bool {
        let widths: Vec<f64> = self.0.values().copied().collect();
        self.has_letters() && self.0.contains_key(&b'v') && are_same(&widths)
    }

    fn has_digits(&self) -> bool {
        let widths: Vec<f64> = self.0.range(b'0'..=b'9').map(|(_, width)| *width).collect();
        widths.len() >= MIN_DIGITS && are_same(&widths) && WIDTH_OF_DIGITS.contains(&widths[0])
    }

    /// Whether all glyphs that it has at these five codes are as wide as ligatures are.
    fn has_ligatures(&self, start: u8) -> bool {
        let here = || (start..).zip(LIGATURES).filter(|(code, _)| self.0.contains_key(code));
        here().next().is_some()
            && here().all(|(code, (_, letters))| {
                let widths: Option<Vec<f64>> = letters.bytes().map(|letter| self.width(letter)).collect();
                let width = self.width(code).unwrap_or_default();
                // A small `ø` of a font without serifs is as wide as `fi` nearly is.
                let is_o = self.width(b'o').is_none_or(|o| are_same(&[o, width]));
                !is_o
                    && widths.is_some_and(|widths| {
                        WIDTH_OF_LIGATURE.contains(&(width / widths.iter().sum::<f64>()))
                    })
            })
    }

    /// The encoding, if its ligatures tell it.
    fn encoding(&self) -> Option<Encoding> {
        match (self.has_ligatures(OT1_LIGATURES), self.has_ligatures(T1_LIGATURES)) {
            (true, false) => Some(Encoding::Ot1),
            (false, true) => Some(Encoding::T1),
            _ => None,
        }
    }

    fn names(&self) -> BTreeMap<u8, String> {
        let (is_text, is_typewriter, has_digits) = (self.is_text(), self.is_typewriter(), self.has_digits());
        let encoding = self.encoding().filter(|_| is_text);
        // Italics of OT1 have a pound there, which is wider.
        let is_dollar = self.width(b'$').zip(self.width(b'o')).is_some_and(|(a, b)| are_same(&[a, b]));
        let name = |code: u8| match (encoding, code) {
            (_, b'!'..=b'~') if is_typewriter => Some(uni(char::from(code))),
            (_, b'0'..=b'9' | b',' | b'-' | b'.' | b'/' | b'(' | b')') if has_digits => {
                Some(uni(char::from(code)))
            }
            _ if !is_text => None,
            (_, b'\'') => Some(uni('’')),
            (_, b'`') => Some(uni('‘')),
            (None | Some(Encoding::Ot1), b'$') if !is_dollar => None,
            (None, b'"' | b'<' | b'>' | b'\\' | b'_' | b'{'..=b'~') => None,
            (Some(Encoding::Ot1), _) => ot1(code),
            (_, b'!'..=b'~') => Some(uni(char::from(code))),
            (Some(Encoding::T1), _) => t1(code),
            (None, _) => None,
        };
        self.0.keys().filter_map(|code| Some((*code, name(*code)?))).collect()
    }
}

/// Whether numbers are the same but for rounding.
fn are_same(widths: &[f64]) -> bool {
    widths.iter().all(|width| (width - widths[0]).abs() < 0.002 * widths[0].abs())
}

fn uni(c: char) -> String {
    format!("uni{:04X}", u32::from(c))
}

fn at(characters: &str, start: u8, code: u8) -> Option<String> {
    characters.chars().nth(usize::from(code.checked_sub(start)?)).map(uni)
}

fn ligature(start: u8, code: u8) -> Option<String> {
    LIGATURES.get(usize::from(code.checked_sub(start)?)).map(|(name, _)| (*name).to_owned())
}

fn t1(code: u8) -> Option<String> {
    match code {
        // The hyphen at the end of a line.
        127 => Some(uni('-')),
        _ => ligature(T1_LIGATURES, code).or_else(|| at(T1, T1_START, code)),
    }
}

fn ot1(code: u8) -> Option<String> {
    let other = match code {
        b'"' => '”',
        b'<' => '¡',
        b'>' => '¿',
        b'\\' => '“',
        b'_' => '˙',
        b'{' => '–',
        b'|' => '—',
        b'}' => '˝',
        127 => '¨',
        b'!'..=b'~' => char::from(code),
        _ => {
            let letter = || at(OT1, 0, code).or_else(|| at(OT1_ACCENTS, OT1_ACCENTS_START, code));
            return ligature(OT1_LIGATURES, code).or_else(letter);
        }
    };
    Some(uni(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Letters of a font for text, with their widths in thousandths.
    const ROMAN: [(u8, u32); 9] = [
        (b'a', 500),
        (b'e', 444),
        (b'f', 306),
        (b'h', 556),
        (b'i', 278),
        (b'l', 278),
        (b'n', 556),
        (b'o', 500),
        (b'u', 556),
    ];

    /// What a glyph of a font of these codes and widths in thousandths is.
    fn name(glyphs: &[(u8, u32)], code: u8) -> Option<String> {
        let coded = glyphs.iter().map(|(code, _)| (*code, format!("a{code}"))).collect();
        let widths = glyphs.iter().map(|(code, width)| (*code, f64::from(*width) / 1000.0)).collect();
        names(&coded, &widths).expect("names that are codes").get(&code).cloned()
    }

    #[test]
    fn only_fonts_of_text_are_read() {
        let italic = [
            (b'a', 511),
            (b'e', 460),
            (b'd', 511),
            (b'h', 511),
            (b'l', 256),
            (b'n', 562),
            (b'o', 511),
            (b'$', 769),
        ];
        let maths = [
            (b'a', 529),
            (b'e', 466),
            (b'h', 576),
            (b'l', 298),
            (b'n', 600),
            (b'i', 345),
            (b'o', 485),
            (b'u', 572),
        ];
        let greek = [
            (b'a', 570),
            (b'e', 444),
            (b'h', 556),
            (b'p', 556),
            (b'n', 528),
            (b'k', 528),
            (b'l', 528),
            (b'o', 500),
        ];
        assert_eq!(name(&ROMAN, b'a').as_deref(), Some("uni0061"));
        assert_eq!(name(&italic, b'a').as_deref(), Some("uni0061"));
        assert_eq!((name(&italic, b'$'), name(&maths, b'a'), name(&greek, b'a')), (None, None, None));
        // Pieces of brackets are as wide as each other, too, but no digits.
        let digits = |width: u32| [(b'2', width), (b'3', width), (b'4', width), (b'<', width), (b'a', width)];
        assert_eq!(name(&digits(500), b'2').as_deref(), Some("uni0032"));
        assert_eq!((name(&digits(667), b'2'), name(&digits(500), b'<')), (None, None));
        let typewriter: Vec<(u8, u32)> = b"aenhv\"'<".iter().map(|code| (*code, 525)).collect();
        assert_eq!(name(&typewriter, b'"').as_deref(), Some("uni0022"));
        let names_of_a = BTreeMap::from([(b'a', "a98".to_owned())]);
        assert!(names(&names_of_a, &BTreeMap::from([(b'a', 0.5)])).is_none(), "a name that is no code");
    }

    #[test]
    fn ligatures_tell_the_encoding() {
        let with = |more: &[(u8, u32)], code: u8| name(&[&ROMAN, more].concat(), code);
        for (ligature, name, sixteen) in [(12, "f_i", "uni0131"), (28, "f_i", "uni201C")] {
            let more = [(ligature, 556), (16, 278)];
            assert_eq!(with(&more, ligature).as_deref(), Some(name));
            assert_eq!(with(&more, 16).as_deref(), Some(sixteen));
        }
        // What differs between the encodings is not certain.
        assert_eq!(with(&[(b'"', 500)], b'"'), None);
        assert_eq!(with(&[(12, 556), (28, 556)], 12), None);
        // A French and a Danish letter of OT1 are no ligatures. Beyond ASCII, T1 has letters of other scripts, too.
        assert_eq!(with(&[(12, 556), (27, 722)], 27).as_deref(), Some("uni0153"));
        assert_eq!((with(&[(27, 722)], 27), with(&[(28, 500)], 28)), (None, None));
        let sans = ROMAN.map(|(code, width)| (code, if width == 278 { 239 } else { width }));
        assert_eq!(name(&[&sans[..], &[(28, 500)]].concat(), 28), None);
        assert_eq!((with(&[(0xe9, 444)], 0xe9), with(&[(28, 556), (0xe9, 444)], 0xe9)), (None, None));
    }
}
