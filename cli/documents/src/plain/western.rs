//! Texts in a western language whose bytes beyond ASCII are from Windows, DOS or an old Macintosh. No byte says which. A
//! wrong choice puts signs and capital letters inside words ("caf‚", "ni¤o"), the right one the letters that these
//! languages have. The detector of other encodings does not know those of DOS.

use encoding_rs::{Encoding, MACINTOSH, WINDOWS_1252};

/// A set of characters with one byte each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Charset {
    /// One that the web knows.
    Web(&'static Encoding),
    /// One of DOS: its name, and the characters from 128 on.
    Dos(&'static str, &'static str),
}

/// DOS in the United States, and the default elsewhere.
const CP437: Charset = Charset::Dos(
    "cp437",
    "\
    ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐\
    └┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}",
);
/// DOS in western Europe.
const CP850: Charset = Charset::Dos(
    "cp850",
    "\
    ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜø£Ø×ƒáíóúñÑªº¿®¬½¼¡«»░▒▓│┤ÁÂÀ©╣║╗╝¢¥┐\
    └┴┬├─┼ãÃ╚╔╩╦╠═╬¤ðÐÊËÈıÍÎÏ┘┌█▄¦Ì▀ÓßÔÒõÕµþÞÚÛÙýÝ¯´\u{ad}±‗¾¶§÷¸°¨·¹³²■\u{a0}",
);

/// Letters beyond ASCII that western languages use most, and others that they use.
const FREQUENT: &str = "éèàçüöäñóíáßã";
const OTHER: &str = "êâôîûåøæùúõëïìòýœ";

impl Charset {
    /// The name that iconv knows it by.
    pub(crate) fn name(self) -> String {
        match self {
            Charset::Web(encoding) => encoding.name().to_ascii_lowercase(),
            Charset::Dos(name, _) => name.to_owned(),
        }
    }

    /// The text of these bytes.
    pub(crate) fn decode(self, bytes: &[u8]) -> String {
        match self {
            Charset::Web(encoding) => encoding.decode_without_bom_handling(bytes).0.into_owned(),
            Charset::Dos(_, table) => {
                let table: Vec<char> = table.chars().collect();
                let char_of =
                    |byte: u8| byte.checked_sub(128).map_or(char::from(byte), |n| table[usize::from(n)]);
                bytes.iter().map(|byte| char_of(*byte)).collect()
            }
        }
    }
}

/// Which one a text is in. Without evidence against it, it is that of Windows.
pub(crate) fn guess(sample: &[u8]) -> Charset {
    let windows = Charset::Web(WINDOWS_1252);
    if plausibility(&windows.decode(sample)) >= 0 {
        return windows;
    }
    let scored = [CP437, CP850, Charset::Web(MACINTOSH)].map(|set| (plausibility(&set.decode(sample)), set));
    let best = scored.into_iter().reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.filter(|(score, _)| *score > 0).map_or(windows, |(_, set)| set)
}

/// How much a text looks like one of a western language: more than 0 for letters of these languages within words, less
/// for what is not found there.
fn plausibility(text: &str) -> i64 {
    let mut score = 0;
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let after = chars.peek().copied().unwrap_or(' ');
        if !c.is_ascii() {
            score += plausibility_of(before, c, after);
        }
        before = c;
    }
    score
}

fn plausibility_of(before: char, c: char, after: char) -> i64 {
    let is_letter = |c: char| c.is_lowercase() || c.is_uppercase();
    let is_in_word = is_letter(before) || is_letter(after);
    let weight = match c.to_lowercase().next() {
        Some(lower) if FREQUENT.contains(lower) => 3,
        Some(lower) if OTHER.contains(lower) => 2,
        _ => 0,
    };
    match c {
        '\u{80}'..='\u{9f}' => -4,
        // A capital letter within a word.
        _ if c.is_uppercase() && (before.is_lowercase() || is_letter(before) && after.is_lowercase()) => -2,
        _ if c.is_uppercase() => i64::from(weight > 0 && is_in_word),
        'à' | 'é' | 'è' | 'ó' => 3,
        _ if c.is_lowercase() && is_in_word => weight,
        _ if is_letter(c) => 0,
        // Apostrophes, dashes and the like stand between letters, and so do quotes where a space is missing.
        '’' | '‘' | '“' | '”' | '–' | '—' | '…' | '·' | '\u{ad}' | '\u{a0}' | 'ª' | 'º' => 0,
        // They open a quotation.
        '‚' | '„' if is_letter(before) => -2,
        _ if is_letter(before) && is_letter(after) => -2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_windows_dos_and_the_macintosh_are_told_apart() {
        let german = "Die Größe der Tür für das Büro wäre schön; die Äpfel sind süß.";
        let french = "Le garçon était à l'école, près de la forêt où l'été dure longtemps.";
        let spanish = "El niño comió después con su tía en la montaña.";
        let short = ["Übergröße: 5 Stück für 12 £", "café", "Müller"];
        for text in short.iter().copied().chain([german, french, spanish]) {
            for set in [CP437, CP850, Charset::Web(WINDOWS_1252), Charset::Web(MACINTOSH)] {
                let bytes = encode(set, text);
                assert_eq!(guess(&bytes).decode(&bytes), text, "{}", set.name());
            }
        }
        let danish = "Det københavnske smørrebrød på øen er født i går.";
        assert_eq!(guess(&encode(CP850, danish)), CP850);
        for text in [
            "It’s “quoted” – and costs 5 €…",
            "„Ein Zitat“",
            "Łódź",
            "l’été d’“Ö”",
            "the word“yes”and",
            "a×b",
            "don´t",
            "1ª, 2º, 20 °C",
        ] {
            let (windows, ..) = WINDOWS_1252.encode(text);
            assert_eq!(guess(&windows), Charset::Web(WINDOWS_1252), "{text}");
        }
    }

    fn encode(set: Charset, text: &str) -> Vec<u8> {
        let all: Vec<u8> = (0..=255).collect();
        let chars: Vec<char> = set.decode(&all).chars().collect();
        let byte = |c| chars.iter().position(|of| *of == c).expect("a character of the set") as u8;
        text.chars().map(byte).collect()
    }

    #[test]
    fn the_tables_are_those_of_dos() {
        let text = |set: Charset, bytes: &[u8]| set.decode(bytes);
        assert_eq!(text(CP437, b"A\x80\xc9\xcd\xbb\xe1\xe3\xfe\xff"), "AÇ╔═╗ßπ■\u{a0}");
        assert_eq!(text(CP850, b"A\x80\xc9\xcd\xbb\xe1\xe3\xfe\xff"), "AÇ╔═╗ßÒ■\u{a0}");
        for set in [CP437, CP850] {
            let Charset::Dos(_, table) = set else { panic!("a set of DOS") };
            assert_eq!(table.chars().count(), 128);
        }
    }
}
