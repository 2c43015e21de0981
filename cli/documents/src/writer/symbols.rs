//! Symbol fonts: their characters are numbers that mean other signs than elsewhere. Boxes are of two kinds here, because
//! a reader tells only these apart: with a mark in it (☒) and empty (☐).

/// A box with a mark in it, and an empty one.
pub(crate) const TICKED: &str = "☒";
pub(crate) const EMPTY: &str = "☐";
/// Buttons of forms, of which one is chosen.
pub(crate) const CHOSEN: &str = "◉";
pub(crate) const NOT_CHOSEN: &str = "○";

/// The first character of the tables.
const FIRST: u32 = 0x20;
/// Stands for characters that a font does not have.
const NONE: char = '\0';

/// The characters of Symbol from 32 on (Adobe's Symbol encoding).
const SYMBOL: &str = "\
    \x20!∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_\
    ‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼\0\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    €ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓\
    ◊⟨®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪\0⟩∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭";
/// The characters of Wingdings from 32 on.
const WINGDINGS: &str = "\
    \x20🖉✂✁👓🕭🕮🕯🕿✆🖂🖃📪📫📬📭📁📂📄🗏🗐🗄⌛🖮🖰🖲🖳🖴🖫🖬✇✍\
    🖎✌👌👍👎☜☞☝☟🖐☺😐☹💣☠🏳🏱✈☼💧❄🕆✞🕈✠✡☪☯ॐ☸♈♉\
    ♊♋♌♍♎♏♐♑♒♓🙰🙵●○■☐☐☐☐⬧◆◆❖⬥⌧⍓⌘🏵🏶“”\0\
    ⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿🙢🙠🙡🙣🙞🙜🙝🙟·•\
    ▪○○○◉◎○▪☐✦✦★✶✴✹✵⯐⌖⟡⌑⯑✪✰🕐🕑🕒🕓🕔🕕🕖🕗🕘\
    🕙🕚🕛⮰⮱⮲⮳⮴⮵⮶⮷🙪🙫🙕🙔🙗🙖🙐🙑🙒🙓⌫⌦←→↑↓←→↑↓←\
    →↑↓↖↗↙↘←→↑↓↖↗↙↘⇦⇨⇧⇩⇔⇕⬀⬁⬃⬂▫▫✗✓☒☒⊞";
/// The characters of Wingdings 2, Wingdings 3 and Webdings that forms and lists have.
const WINGDINGS_2: &[(u32, char)] = &[
    (0x4f, '✗'),
    (0x50, '✓'),
    (0x51, '☒'),
    (0x52, '☒'),
    (0x53, '☒'),
    (0x54, '☒'),
    (0x95, '·'),
    (0x96, '•'),
    (0x97, '●'),
    (0x98, '●'),
    (0xa0, '■'),
    (0xa1, '■'),
    (0xa2, '■'),
    (0xa3, '☐'),
    (0xa4, '☐'),
    (0xa5, '☐'),
    (0x99, '◎'),
    (0x9a, '◎'),
];
const WINGDINGS_3: &[(u32, char)] = &[
    (0x66, '←'),
    (0x67, '→'),
    (0x68, '↑'),
    (0x69, '↓'),
    (0x6a, '↖'),
    (0x6b, '↗'),
    (0x6c, '↙'),
    (0x6d, '↘'),
    (0x70, '▲'),
    (0x71, '▼'),
    (0x74, '◀'),
    (0x75, '▶'),
    (0x7d, '▶'),
    (0x7c, '◀'),
];
const WEBDINGS: &[(u32, char)] = &[
    (0x33, '◀'),
    (0x34, '▶'),
    (0x35, '▲'),
    (0x36, '▼'),
    (0x61, '✓'),
    (0x63, '☐'),
    (0x67, '■'),
    (0x72, '✗'),
    (0x3d, '■'),
    (0x69, 'ℹ'),
    (0x6e, '●'),
    (0x59, '♥'),
];

/// The fonts whose characters are symbols.
const FONTS: &[&str] = &[
    "symbol",
    "wingdings",
    "wingdings 2",
    "wingdings 3",
    "webdings",
    "opensymbol",
    "starsymbol",
    "symbol ps",
    "symbolps",
    "standard symbols l",
    "zapfdingbats",
    "zapf dingbats",
    "itc zapf dingbats",
];

/// The name in small letters of a font whose characters are symbols.
pub(crate) fn symbol_font(font: &str) -> Option<&'static str> {
    FONTS.iter().copied().find(|known| known.eq_ignore_ascii_case(font.trim()))
}

/// Whether the characters of a font are symbols.
pub(crate) fn is_symbol_font(font: &str) -> bool {
    symbol_font(font).is_some()
}

fn is_dingbats(font: &str) -> bool {
    matches!(font, "zapfdingbats" | "zapf dingbats" | "itc zapf dingbats")
}

/// The sign of Zapf Dingbats with a number. Unicode has taken most of them over in their order.
fn dingbat(code: u32) -> Option<char> {
    Some(match code {
        0x20 => ' ',
        0x25 => '☎',
        0x2a => '☛',
        0x2b => '☞',
        0x48 => '★',
        0x6c => '●',
        0x6e => '■',
        0x6f..=0x72 => '☐',
        0x73 => '▲',
        0x74 => '▼',
        0x75 => '◆',
        0x77 => '◗',
        0xa8..=0xab => ['♣', '♦', '♥', '♠'][code as usize - 0xa8],
        0xac..=0xb5 => char::from_u32(0x2460 + code - 0xac)?,
        0xd5..=0xd7 => ['→', '↔', '↕'][code as usize - 0xd5],
        0x21..=0x7e => char::from_u32(0x2700 + code - 0x20)?,
        0xa1..=0xef | 0xf1..=0xfe => char::from_u32(0x2761 + code - 0xa1)?,
        _ => return None,
    })
}

/// The sign that a number means in a font. In symbol fonts, numbers from 0xF000 on are the same as those from 0 on.
pub(crate) fn sign(font: &str, number: u32) -> Option<char> {
    let font = font.trim().to_ascii_lowercase();
    let code = if (0xf000..=0xf0ff).contains(&number) { number - 0xf000 } else { number };
    let of_table = |table: &str| {
        let found = code.checked_sub(FIRST).and_then(|at| table.chars().nth(at as usize));
        found.filter(|sign| *sign != NONE)
    };
    let of_pairs = |pairs: &[(u32, char)]| pairs.iter().find(|pair| pair.0 == code).map(|pair| pair.1);
    let own = match font.as_str() {
        _ if code > 0xff => None,
        "symbol" | "symbol ps" | "symbolps" | "standard symbols l" => of_table(SYMBOL),
        "wingdings" => of_table(WINGDINGS),
        "wingdings 2" => of_pairs(WINGDINGS_2),
        "wingdings 3" => of_pairs(WINGDINGS_3),
        "webdings" => of_pairs(WEBDINGS),
        font if is_dingbats(font) => dingbat(code),
        _ if code == number => return plain(number),
        // Office programs write bullets so, whatever the font is.
        _ => of_table(SYMBOL).filter(|sign| *sign == '•'),
    };
    own.or_else(|| plain(number).filter(|_| code > 0xff))
}

/// A character that is none of a private use.
fn plain(number: u32) -> Option<char> {
    char::from_u32(number).filter(|c| !is_private(*c) && !c.is_control())
}

/// Whether only the font says what a character is.
pub(crate) fn is_private(c: char) -> bool {
    matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}')
}

/// A text in a symbol font, and how many of its characters are not known.
pub(crate) fn text(font: &str, text: &str) -> (String, usize) {
    let mut unknown = 0;
    let of = |c: char| match c {
        c if c.is_whitespace() => c,
        c => sign(font, c as u32).unwrap_or_else(|| {
            unknown += 1;
            char::REPLACEMENT_CHARACTER
        }),
    };
    (text.chars().map(of).collect(), unknown)
}

/// A text as its font shows it, and how many of its characters are not known.
pub(crate) fn shown(font: Option<&str>, text: &str) -> (String, usize) {
    match font.filter(|font| is_symbol_font(font)) {
        Some(font) => self::text(font, text),
        None => (text.to_owned(), text.chars().filter(|c| is_private(*c)).count()),
    }
}

/// The mark of a list whose bullet is this text: boxes and ticks say something, other bullets do not.
pub(crate) fn bullet(font: &str, text: &str) -> &'static str {
    let first = text.trim().chars().next();
    match first.and_then(|c| sign(font, c as u32)) {
        Some('☐' | '□' | '❑' | '❒') => EMPTY,
        Some('☒' | '☑') => TICKED,
        Some('✓' | '✔') => "✓",
        Some('✗' | '✘') => "✗",
        _ => "-",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_complete() {
        assert_eq!(SYMBOL.chars().count(), 0xff - 0x20);
        assert_eq!(WINGDINGS.chars().count(), 0x100 - 0x20);
    }

    #[test]
    fn numbers_are_the_signs_of_their_font() {
        for (font, number, wanted) in [
            ("Symbol", 0xf061, Some('α')),
            ("Symbol", 0xf0a3, Some('≤')),
            ("Symbol", 0xb3, Some('≥')),
            ("Symbol", 0xf0b7, Some('•')),
            ("Symbol", 0xf06d, Some('μ')),
            ("Symbol", 0xf0de, Some('⇒')),
            ("Wingdings", 0xf0fe, Some('☒')),
            ("Wingdings", 0xf0fd, Some('☒')),
            ("Wingdings", 0xf0a8, Some('☐')),
            ("Wingdings", 0xf06f, Some('☐')),
            ("wingdings ", 0xfc, Some('✓')),
            ("Wingdings", 0xf0e0, Some('→')),
            ("Wingdings", 0xf04a, Some('☺')),
            ("Wingdings", 0x8c, Some('❶')),
            ("Wingdings 2", 0xf052, Some('☒')),
            ("Wingdings 2", 0x50, Some('✓')),
            ("ZapfDingbats", 0x33, Some('✓')),
            ("ZapfDingbats", 0x38, Some('✘')),
            ("ZapfDingbats", 0x6f, Some('☐')),
            ("ZapfDingbats", 0xa1, Some('❡')),
            ("ZapfDingbats", 0xb6, Some('❶')),
            ("ZapfDingbats", 0xd4, Some('➔')),
            ("ZapfDingbats", 0xfe, Some('➾')),
            ("ZapfDingbats", 0xf0, None),
            ("MS Gothic", 0x2612, Some('☒')),
            ("Arial", 0xe012, None),
            ("Symbol", 0xf080, None),
        ] {
            assert_eq!(sign(font, number), wanted, "{font} {number:x}");
        }
        assert_eq!(text("Symbol", "a b\u{f080}"), ("α β\u{fffd}".to_owned(), 1));
    }
}
