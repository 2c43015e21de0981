//! Raised and lowered text in one line: `10^6`, `log_10`, `1/2`, and `[12]` for the mark of a note. Without it, 10⁶
//! would be 106.

use super::prices;

/// Where text stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Level {
    /// On the line.
    #[default]
    Normal,
    /// Above the line.
    Raised,
    /// Below the line.
    Lowered,
    /// The mark of a note, which a link leads to.
    Mark,
}

/// What follows a number that it makes an ordinal: 1st, 2nd, nᵒ, XXᵉ.
const ORDINALS: &[&str] =
    &["st", "nd", "rd", "th", "er", "ère", "re", "e", "ème", "eme", "nde", "o", "a", "º", "ª", "os", "as"];
/// Ends of abbreviated words: Mᵐᵉ, Cⁱᵉ, Sᵗᵉ.
const ABBREVIATIONS: &[&str] = &["me", "mes", "lle", "lles", "gr", "ie", "te", "ve"];
/// Signs that are raised by custom.
const SIGNS: &[&str] = &["TM", "SM", "™", "℠", "®", "©", "°", "º", "ª", "'", "′", "″"];
/// Signs that mark notes.
const NOTE_SIGNS: &[char] = &['*', '†', '‡', '§', '¶', '‖', '#'];
/// Units that are words, and the ends of others.
const UNITS: &[&str] = &["meter", "metre", "mile", "foot", "feet", "inch", "yard", "second"];
/// A word with at least so many letters is not a unit or a variable: a number above it marks a note.
const MIN_WORD: usize = 4;
/// Text that is raised or lowered within so many others of its kind has no sign of its own.
const MAX_INNER: usize = 8;
/// Longest number of a note.
const MAX_NOTE: usize = 12;

/// Raised and lowered text whose meaning depends on what follows.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    parts: Vec<(Level, String)>,
    /// A raised text and the stroke of a fraction.
    numerator: Option<char>,
    /// Open texts within a part that are raised or lowered again.
    inner: Vec<Inner>,
    /// How many texts that are not empty were appended so far, also to parts that are written.
    texts: usize,
}

/// A text within a part that is raised or lowered again.
#[derive(Debug)]
struct Inner {
    /// None if it is too deep for one.
    sign: Option<char>,
    /// How many parts there are with its own, and where it begins in that.
    parts: usize,
    start: usize,
}

impl Scripts {
    pub(crate) fn texts(&self) -> usize {
        self.texts
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The text, if it is raised as a whole.
    pub(crate) fn only_raised(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [(Level::Raised, text)] if self.numerator.is_none() => Some(text.trim()),
            _ => None,
        }
    }

    /// Appends raised or lowered text.
    pub(crate) fn add(&mut self, level: Level, text: &str) {
        self.texts += usize::from(!text.trim().is_empty());
        match self.parts.last_mut() {
            Some((last, before)) if *last == level && self.numerator.is_none() => before.push_str(text),
            _ => self.parts.push((level, text.to_owned())),
        }
    }

    /// Begins text that is raised or lowered within the last part, if a text came behind the first `texts`.
    pub(crate) fn begin_inner(&mut self, level: Level, texts: usize) -> bool {
        let Some((_, text)) = self.parts.last().filter(|_| self.texts > texts) else { return false };
        let sign = if level == Level::Lowered { '_' } else { '^' };
        let sign = (self.inner.len() < MAX_INNER).then_some(sign);
        self.inner.push(Inner { sign, parts: self.parts.len(), start: text.len() });
        true
    }

    /// Ends it.
    pub(crate) fn end_inner(&mut self) {
        let Some(Inner { sign: Some(sign), parts, start }) = self.inner.pop() else { return };
        // A link may have begun another part meanwhile.
        let Some((_, text)) = self.parts.get_mut(parts - 1) else { return };
        let Some(inner) = text.get(start..).filter(|inner| !inner.trim().is_empty()) else { return };
        let inner = grouped(inner.trim(), None);
        text.truncate(start);
        text.push(sign);
        text.push_str(&inner);
    }

    /// Whether text on the line is the stroke of a fraction between raised and lowered text.
    pub(crate) fn takes(&mut self, text: &str) -> bool {
        let stroke = match text {
            "/" | "⁄" | "∕" => text.chars().next(),
            _ => None,
        };
        if self.numerator.is_none() && matches!(self.parts[..], [(Level::Raised, _)]) {
            self.numerator = stroke;
            return stroke.is_some();
        }
        false
    }

    /// Ends the text: how it is written after `before`, the text that it touches, and before `next`.
    pub(crate) fn take(&mut self, before: &str, next: Option<char>) -> String {
        while !self.inner.is_empty() {
            self.end_inner();
        }
        let parts = std::mem::take(&mut self.parts);
        let stroke = self.numerator.take();
        if let (Some(_), [(Level::Raised, above), (Level::Lowered, below)]) = (stroke, &parts[..]) {
            // 3 1/2 is not 31/2.
            let gap = if before.ends_with(|c: char| c.is_alphanumeric()) { " " } else { "" };
            let after = if next.is_some_and(char::is_alphanumeric) { " " } else { "" };
            return format!("{gap}{}/{}{after}", above.trim(), below.trim());
        }
        let (mut whole, mut is_first) = (String::new(), true);
        let count = parts.len();
        let levels: Vec<Level> = parts.iter().map(|(level, _)| *level).collect();
        for (i, (level, text)) in parts.into_iter().enumerate() {
            if i == 1 {
                whole.extend(stroke);
            }
            let next = if i + 1 < count { None } else { next.filter(|_| stroke.is_none() || count > 1) };
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let before = if is_first { before } else { &whole };
            // The mass of an isotope stands above its number.
            let may_be_note = is_first && levels.get(i + 1) != Some(&Level::Lowered);
            let written = match level {
                _ if text.is_empty() => String::new(),
                Level::Normal => text,
                Level::Mark if is_mark(&text) => mark(&text),
                Level::Raised | Level::Mark => raised(before, &text, next, may_be_note),
                Level::Lowered => lowered(before, &text, next),
            };
            is_first &= written.is_empty();
            whole.push_str(&written);
        }
        if count == 1 {
            whole.extend(stroke);
        }
        whole
    }
}

/// Whether a text that leads to a note is its number, its letter or its sign.
fn is_mark(text: &str) -> bool {
    let is_number = |c: char| c.is_numeric() || matches!(c, ',' | '–' | '-' | ' ' | '.');
    text.starts_with(['[', '(', '{'])
        || text.chars().count() <= 1
        || text.chars().all(is_number)
        || is_sign(text)
}

fn is_sign(text: &str) -> bool {
    text.chars().all(|c| NOTE_SIGNS.contains(&c))
}

fn mark(text: &str) -> String {
    if text.starts_with(['[', '(', '{']) || is_sign(text) { text.to_owned() } else { format!("[{text}]") }
}

fn raised(before: &str, text: &str, next: Option<char>, may_be_note: bool) -> String {
    let last = before.chars().next_back();
    let follows_letter = next.is_some_and(char::is_alphanumeric);
    let lower = text.to_lowercase();
    let is_joined = SIGNS.contains(&text)
        || (last.is_some_and(|c| c.is_numeric() || "IVXLCM".contains(c)) && ORDINALS.contains(&&*lower))
        || (last.is_some_and(char::is_alphabetic) && lower == "th")
        || (before.chars().count() == 1 && "MCDSV".contains(before) && ABBREVIATIONS.contains(&text))
        || (last.is_some_and(|c| "nN".contains(c)) && ["o", "os", "º"].contains(&&*lower));
    if is_joined {
        // Raised behind a number, a letter is an ordinal or marks a note: it stays apart from the number.
        return match text {
            "a" => "ª".to_owned(),
            "o" => "º".to_owned(),
            _ => text.to_owned(),
        };
    }
    if text.starts_with('[') && text.ends_with(']') || is_sign(text) {
        return text.to_owned();
    }
    let number = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    if let Some(number) = number
        && (1..=3).contains(&number.len())
        && number.bytes().all(|c| c.is_ascii_digit())
        && last.is_some_and(|c| c.is_numeric() || before.chars().count() > 1 && c.is_alphabetic())
    {
        return format!("[{number}]");
    }
    let gap = if follows_letter { " " } else { "" };
    // A word that is small, not a power, or the letter of a note.
    if last.is_none() && !text.chars().any(char::is_numeric) {
        let is_letter = follows_letter && text.chars().count() == 1;
        return if is_letter { format!("[{text}]{gap}") } else { format!("{text}{gap}") };
    }
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, ',' | '–' | '-' | ' ');
    let may_be_note = may_be_note
        && text.len() <= MAX_NOTE
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(is_number);
    let is_note = may_be_note
        && match last {
            // Isotopes have a letter there.
            None => !next.is_some_and(char::is_alphabetic),
            Some(c) if ".,;:!?%…”\"’'»。".contains(c) => !follows_letter,
            Some(_) => is_word(before) || is_year(before) || prices::ends_with_price(before),
        };
    match is_note {
        true if last.is_none() => format!("[{text}]{gap}"),
        true => format!("[{text}]"),
        // Nothing before it: isotopes are written so.
        false => format!("^{}", grouped(text, next.filter(|_| last.is_some()))),
    }
}

fn lowered(before: &str, text: &str, next: Option<char>) -> String {
    // Numbers to the base of 16 have two digits or more.
    let is_number = text == "16" && hexadecimal_digits(before) > 1;
    if text.chars().all(|c| c.is_ascii_digit()) && is_formula(before) && !is_number {
        return text.to_owned();
    }
    format!("_{}", grouped(text, next))
}

/// Whether a text ends with a year of these times: nobody takes it to a power.
fn is_year(before: &str) -> bool {
    let rest = before.trim_end_matches(|c: char| c.is_ascii_digit());
    let year = before[rest.len()..].parse::<u32>();
    year.is_ok_and(|year| (1900..2100).contains(&year)) && !rest.ends_with(['.', ',', '^'])
}

/// Whether a text ends with a word that is neither a unit nor a variable.
fn is_word(before: &str) -> bool {
    let start = before
        .rfind(|c: char| !c.is_alphabetic())
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let word = &before[start..];
    let is_variable = before[..start].ends_with(['_', '^', '\\']);
    let lower = word.to_lowercase();
    let singular = lower.strip_suffix("es").filter(|word| word.ends_with("ch")).unwrap_or(&lower);
    let is_unit = UNITS.iter().any(|unit| singular.trim_end_matches('s').ends_with(unit));
    !is_variable && !is_unit && word.chars().count() >= MIN_WORD
}

/// How many hexadecimal digits a word is that ends a text; 0 if it has others.
fn hexadecimal_digits(before: &str) -> usize {
    let word = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    if word.bytes().all(|c| c.is_ascii_hexdigit()) { word.len() } else { 0 }
}

/// Whether a text ends as chemical formulas do: `H`, `Na`, `C6H`, `(SO4)`.
fn is_formula(before: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '(' | ')' | '[' | ']' | '·');
    let start = before
        .rfind(|c: char| !is_part(c))
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let (mut letters, mut run) = (0, 0);
    for c in before[start..].chars() {
        match c {
            'A'..='Z' => (letters, run) = (letters + 1, 1),
            // A small letter is the second one of an element.
            'a'..='z' if run == 1 => run = 2,
            'a'..='z' => return false,
            _ => run = 0,
        }
    }
    letters > 0 && before.ends_with(|c: char| c.is_ascii_alphabetic() || matches!(c, ')' | ']'))
}

/// A text as the operand of `^` or `_`, with a gap before text that would seem to belong to it.
fn grouped(text: &str, next: Option<char>) -> String {
    const SIGNS: [char; 5] = ['-', '+', '−', '–', '±'];
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | ',' | '∞' | '\'' | '′');
    let unsigned = text.trim_matches(SIGNS);
    let gap = if next.is_some_and(char::is_alphanumeric) { " " } else { "" };
    match unsigned.chars().all(is_plain) && !unsigned.ends_with(['.', ',']) {
        true => format!("{text}{gap}"),
        false => format!("({text}){gap}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a^{b}` and `a_{b}` stand for raised and lowered text here.
    #[track_caller]
    fn check(source: &str, wanted: &str) {
        let mut writer = super::super::Writer::default();
        let mut rest = source;
        while let Some(at) = rest.find(['^', '_']) {
            writer.text(&rest[..at]);
            let level = if rest[at..].starts_with('^') { Level::Raised } else { Level::Lowered };
            let (inner, after) = rest[at + 2..].split_once('}').expect("a brace");
            writer.text_at(level, inner);
            rest = after;
        }
        writer.text(rest);
        assert_eq!(writer.finish().trim_end(), wanted, "{source}");
    }

    #[test]
    fn powers_indices_and_fractions_stay_what_they_are() {
        check("3 × 10^{6} cells", "3 × 10^6 cells");
        check("10^{-6}m", "10^-6 m");
        check("5 m^{2}.", "5 m^2.");
        check("20 metres^{3}", "20 metres^3");
        check("x^{n+1}y", "x^(n+1) y");
        check("e^{x}", "e^x");
        check("(a + b)^{2}", "(a + b)^2");
        check("log_{10} 5", "log_10 5");
        check("log_{10}5", "log_10 5");
        check("x_{i}^{2}", "x_i^2");
        check("x_{total}^{2}", "x_total^2");
        check("H_{2}O and C_{6}H_{12}O_{6}", "H2O and C6H12O6");
        check("Fe_{2}(SO_{4})_{3}", "Fe2(SO4)3");
        check("Ca^{2+} ions", "Ca^2+ ions");
        check("^{14}C", "^14C");
        check("^{235}_{92}U", "^235_92 U");
        check("FF_{16}, CO_{2}, CH_{3}COOC_{2}H_{5}", "FF_16, CO2, CH3COOC2H5");
        check("^{1}/_{2} tablet", "1/2 tablet");
        check("3^{1}⁄_{2}", "3 1/2");
        check("a^{1}/b", "a^1/b");
        check("10^{1}^{2}", "10^12");
    }

    #[test]
    fn marks_of_notes_are_not_powers() {
        check("Footnote mark^{12} here", "Footnote mark[12] here");
        check("It ended in 1990.^{3} Then", "It ended in 1990.[3] Then");
        check("word^{1,2}", "word[1,2]");
        check("word^{[7]}", "word[7]");
        check("word^{*}", "word*");
        check(
            "In 2019^{4} it was 12%^{1}, $5^{7}, Q4^{(1)}, 88^{(2)}",
            "In 2019[4] it was 12%[1], $5[7], Q4[1], 88[2]",
        );
        check("f^{(2)}(x), 2^{10}, 12019^{4}", "f^((2))(x), 2^10, 12019^4");
        check("see ^{3} below", "see [3] below");
        check("^{Lexer} rules", "Lexer rules");
        check("^{1}2019 figures, ^{a}2019", "[1] 2019 figures, [a] 2019");
        check("^{a}Adjusted for age, ^{NEW}Boat", "[a] Adjusted for age, NEW Boat");
        check("0.05^{a}, 7^{b}", "0.05ª, 7^b");
    }

    #[test]
    fn ordinals_and_signs_are_joined() {
        check("the 1^{st} and n^{th} of the XX^{e}", "the 1st and nth of the XXe");
        check("$5^{99} and €12,^{50}", "$5.99 and €12,50");
        check("12^{90}€ and 3^{2}", "12.90€ and 3^2");
        check("only 12^{99} €, was $ 15^{50}, or 900^{00} EUR", "only 12.99 €, was $ 15.50, or 900.00 EUR");
        check("Fr. 7^{50}; 12,^{50} euros; 8.^{20} kr", "Fr. 7.50; 12,50 euros; 8.20 kr");
        check("5 × 10^{12} €, 10^{99} m, 12^{99} krill", "5 × 10^12 €, 10^99 m, 12^99 krill");
        check("Boat^{TM} n^{o} 5", "BoatTM nº 5");
    }
}
