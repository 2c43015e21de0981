//! Numbers as a sheet shows them: the codes of number formats, such as `#,##0.00 "€"` and `d mmm yyyy`.

use std::collections::HashMap;

use super::calendar::Moment;
use crate::Problem;
use crate::package::xml::{self, Piece};

/// Longest code that is used, in bytes, and most decimals of it.
const MAX_CODE: usize = 512;
const MAX_DECIMALS: usize = 30;
/// Digits that a number without a format has at most.
const DIGITS: usize = 11;
/// Integers below this keep all digits without a format: numbers of things and people.
const MAX_INTEGER: f64 = 1e15;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The formats of a workbook.
#[derive(Debug, Default)]
pub(super) struct Formats {
    /// Codes by their numbers.
    codes: HashMap<usize, String>,
    /// The number of the code of each style of cells.
    cells: Vec<usize>,
    pub(super) is_1904: bool,
}

impl Formats {
    /// Reads the part with the styles.
    pub(super) fn read(&mut self, text: &str, part: &str) -> Result<(), Problem> {
        let mut in_cells = false;
        xml::read(part, text, |piece| {
            match piece {
                Piece::Start(element) => {
                    let number = |name: &str| element.attribute(name).and_then(|value| value.parse().ok());
                    match element.name.as_str() {
                        "numFmt" => {
                            if let (Some(id), Some(code)) =
                                (number("numFmtId"), element.attribute("formatCode"))
                            {
                                self.codes.insert(id, code);
                            }
                        }
                        "cellXfs" => in_cells = true,
                        "xf" if in_cells => self.cells.push(number("numFmtId").unwrap_or(0)),
                        _ => {}
                    }
                }
                Piece::End(name) => in_cells &= name != "cellXfs",
                Piece::Text(_) => {}
            }
            Ok(())
        })
    }

    /// A number as a cell of a style shows it.
    pub(super) fn show(&self, style: usize, number: f64) -> String {
        let id = self.cells.get(style).copied().unwrap_or(0);
        let code = self.codes.get(&id).map_or_else(|| built_in(id), String::as_str);
        show(code, number, self.is_1904)
    }
}

/// The codes that every workbook has. Dates whose order the system decides are in the order that all understand.
fn built_in(id: usize) -> &'static str {
    match id {
        1 => "0",
        2 => "0.00",
        3 => "#,##0",
        4 => "#,##0.00",
        5 | 6 => "$#,##0;($#,##0)",
        7 | 8 => "$#,##0.00;($#,##0.00)",
        9 => "0%",
        10 => "0.00%",
        11 => "0.00E+00",
        12 => "# ?/?",
        13 => "# ??/??",
        14 | 27..=31 | 36 | 50..=54 | 57 | 58 => "yyyy-mm-dd",
        15 => "d-mmm-yy",
        16 => "d-mmm",
        17 => "mmm-yy",
        18 => "h:mm AM/PM",
        19 => "h:mm:ss AM/PM",
        20 | 32..=35 | 55 | 56 => "h:mm",
        21 => "h:mm:ss",
        22 => "yyyy-mm-dd h:mm",
        37 | 38 => "#,##0;(#,##0)",
        39 | 40 => "#,##0.00;(#,##0.00)",
        41 | 42 => "#,##0;(#,##0);\"-\"",
        43 | 44 => "#,##0.00;(#,##0.00);\"-\"",
        45 => "mm:ss",
        46 => "[h]:mm:ss",
        47 => "mm:ss.0",
        48 => "##0.0E+0",
        49 => "@",
        _ => "General",
    }
}

/// A piece of a code.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    Text(String),
    /// `0`, `#` or `?`.
    Digit(char),
    Point,
    Comma,
    Percent,
    /// `E+` or `E-`.
    Exponent(bool),
    Slash,
    General,
    /// A part of a date or time, with its letters.
    Date(char, usize),
    /// Hours, minutes or seconds in all.
    Elapsed(char, usize),
    /// AM or PM; whether it is short.
    Half(bool),
}

/// A section of a code, for some numbers.
#[derive(Debug, Default)]
struct Section {
    condition: Option<(String, f64)>,
    tokens: Vec<Token>,
}

fn show(code: &str, number: f64, is_1904: bool) -> String {
    if !number.is_finite() || code.len() > MAX_CODE {
        return general(number);
    }
    let sections: Vec<Section> = split(code).iter().map(|section| Section::parse(section)).collect();
    let (section, has_sign) = choose(&sections, number);
    let Some(section) = section else { return general(number) };
    let is_date = section
        .tokens
        .iter()
        .any(|token| matches!(token, Token::Date(..) | Token::Elapsed(..) | Token::Half(_)));
    let shown = match is_date {
        true => date(&section.tokens, number, is_1904).unwrap_or_else(|| general(number)),
        false => decimal(&section.tokens, number.abs()),
    };
    let is_nothing = shown.chars().all(|c| !c.is_ascii_digit() || c == '0');
    let sign = if has_sign && !is_date && !is_nothing { "-" } else { "" };
    format!("{sign}{}", shown.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The sections of a code.
fn split(code: &str) -> Vec<String> {
    let (mut sections, mut quoted, mut escaped, mut in_brackets) = (vec![String::new()], false, false, false);
    for c in code.chars() {
        if c == ';' && !quoted && !escaped && !in_brackets {
            sections.push(String::new());
            continue;
        }
        match c {
            _ if escaped => escaped = false,
            '"' => quoted = !quoted,
            '\\' | '_' | '*' if !quoted => escaped = true,
            '[' if !quoted => in_brackets = true,
            ']' if !quoted => in_brackets = false,
            _ => {}
        }
        if let Some(last) = sections.last_mut() {
            last.push(c);
        }
    }
    sections
}

/// The section for a number, and whether the number keeps its sign.
fn choose(sections: &[Section], number: f64) -> (Option<&Section>, bool) {
    if sections.iter().any(|section| section.condition.is_some()) {
        let holds = |section: &&Section| match &section.condition {
            Some((sign, bound)) => match sign.as_str() {
                "<" => number < *bound,
                "<=" => number <= *bound,
                ">" => number > *bound,
                ">=" => number >= *bound,
                "<>" => number != *bound,
                _ => number == *bound,
            },
            None => true,
        };
        return (sections.iter().take(3).find(holds), number < 0.0);
    }
    match sections {
        [one] => (Some(one), number < 0.0),
        [positive, negative] => (Some(if number < 0.0 { negative } else { positive }), false),
        [positive, negative, zero, ..] => {
            let section = if number < 0.0 {
                negative
            } else if number == 0.0 {
                zero
            } else {
                positive
            };
            (Some(section), false)
        }
        [] => (None, false),
    }
}

impl Section {
    fn parse(code: &str) -> Section {
        let mut section = Section::default();
        let mut rest = code;
        while let Some(c) = rest.chars().next() {
            let mut length = c.len_utf8();
            let after = &rest[length..];
            let next = after.chars().next();
            let lower = rest.to_ascii_lowercase();
            match c {
                '"' => {
                    let end = after.find('"').unwrap_or(after.len());
                    section.text(&after[..end]);
                    length += (end + 1).min(after.len());
                }
                '\\' => {
                    section.text(next.map_or("", |next| &after[..next.len_utf8()]));
                    length += next.map_or(0, char::len_utf8);
                }
                // As wide as a character, and a character that fills the cell.
                '_' | '*' => {
                    section.text(if c == '_' { " " } else { "" });
                    length += next.map_or(0, char::len_utf8);
                }
                '[' => {
                    let end = after.find(']').unwrap_or(after.len());
                    section.bracket(&after[..end]);
                    length += (end + 1).min(after.len());
                }
                '0' | '#' | '?' => section.tokens.push(Token::Digit(c)),
                '.' => section.tokens.push(Token::Point),
                ',' => section.tokens.push(Token::Comma),
                '%' => section.tokens.push(Token::Percent),
                '/' => section.tokens.push(Token::Slash),
                'E' | 'e' if matches!(next, Some('+' | '-')) => {
                    section.tokens.push(Token::Exponent(next == Some('+')));
                    length += 1;
                }
                'G' | 'g' if lower.starts_with("general") => {
                    section.tokens.push(Token::General);
                    length = "general".len();
                }
                '@' => section.tokens.push(Token::General),
                'A' | 'a' if lower.starts_with("am/pm") || lower.starts_with("a/p") => {
                    let is_short = lower.starts_with("a/p");
                    section.tokens.push(Token::Half(is_short));
                    length = if is_short { 3 } else { 5 };
                }
                'y' | 'Y' | 'm' | 'M' | 'd' | 'D' | 'h' | 'H' | 's' | 'S' => {
                    let letter = c.to_ascii_lowercase();
                    length = lower.find(|other| other != letter).unwrap_or(lower.len());
                    section.tokens.push(Token::Date(letter, length));
                }
                c => section.text(c.encode_utf8(&mut [0; 4])),
            }
            rest = &rest[length..];
        }
        section
    }

    fn text(&mut self, text: &str) {
        match self.tokens.last_mut() {
            Some(Token::Text(before)) => before.push_str(text),
            _ => self.tokens.push(Token::Text(text.to_owned())),
        }
    }

    /// What is in brackets: a currency, a condition, elapsed time; colours say nothing.
    fn bracket(&mut self, inner: &str) {
        let lower = inner.to_ascii_lowercase();
        if let Some(currency) = inner.strip_prefix('$') {
            self.text(currency.split('-').next().unwrap_or_default());
        } else if let Some(letter) = lower.chars().next().filter(|c| "hms".contains(*c))
            && lower.chars().all(|c| c == letter)
        {
            self.tokens.push(Token::Elapsed(letter, lower.len()));
        } else if inner.starts_with(['<', '>', '=']) {
            let end = inner.find(|c| !"<>=".contains(c)).unwrap_or(inner.len());
            self.condition = inner[end..].trim().parse().ok().map(|bound| (inner[..end].to_owned(), bound));
        }
    }
}

/// A number without a format.
pub(super) fn general(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && number.fract() == 0.0 && size < MAX_INTEGER {
        return format!("{number}");
    }
    if size != 0.0 && !(1e-9..1e11).contains(&size) && number.is_finite() {
        let text = format!("{number:.5E}");
        let (digits, exponent) = text.split_once('E').unwrap_or((&text, "0"));
        let digits =
            if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
        return format!("{digits}E{sign}{exponent:0>2}");
    }
    let before = if size >= 1.0 { size.log10().floor() as usize + 1 } else { 1 };
    let (whole, part) = rounded(size, DIGITS.saturating_sub(before + 1));
    let part = part.trim_end_matches('0');
    let sign = if number < 0.0 { "-" } else { "" };
    if part.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") }
}

/// The digits of a number before and behind the point. Halves are rounded up, as people see them.
fn rounded(number: f64, decimals: usize) -> (String, String) {
    // The shortest digits that mean the number.
    let text = format!("{number}");
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    if part.len() <= decimals {
        return (whole.to_owned(), format!("{part:0<decimals$}"));
    }
    let mut digits: Vec<u8> = [whole.as_bytes(), &part.as_bytes()[..decimals]].concat();
    if part.as_bytes()[decimals] >= b'5' {
        let nines = digits.iter().rev().take_while(|digit| **digit == b'9').count();
        let at = digits.len() - nines;
        digits[at..].fill(b'0');
        match at.checked_sub(1) {
            Some(at) => digits[at] += 1,
            None => digits.insert(0, b'1'),
        }
    }
    let split = digits.len() - decimals;
    let text = |digits: &[u8]| String::from_utf8_lossy(digits).into_owned();
    (text(&digits[..split]), text(&digits[split..]))
}

/// A number by its digits.
fn decimal(tokens: &[Token], number: f64) -> String {
    if tokens.contains(&Token::Slash) && tokens.iter().any(|token| matches!(token, Token::Digit(_))) {
        return fraction(tokens, number);
    }
    let percents = tokens.iter().filter(|token| **token == Token::Percent).count().min(4) as i32;
    let mut number = number * 100f64.powi(percents);
    let exponent_at =
        tokens.iter().position(|token| matches!(token, Token::Exponent(_))).unwrap_or(tokens.len());
    let point =
        tokens.iter().position(|token| *token == Token::Point).unwrap_or(exponent_at).min(exponent_at);
    let is_digit = |token: &Token| matches!(token, Token::Digit(_));
    let last_digit = tokens[..exponent_at].iter().rposition(is_digit);
    let last_whole = tokens[..point].iter().rposition(is_digit);
    // Commas behind the last digit divide by a thousand each; those between digits separate thousands.
    let commas = |from: usize, to: usize| {
        tokens.get(from..to).unwrap_or_default().iter().take_while(|t| **t == Token::Comma).count()
    };
    let scale = last_digit.map_or(0, |at| commas(at + 1, exponent_at))
        + if point < exponent_at { last_whole.map_or(0, |at| commas(at + 1, point)) } else { 0 };
    number /= 1000f64.powi(scale.min(10) as i32);
    let is_separated = last_whole.is_some_and(|last| tokens[..last].contains(&Token::Comma));
    let decimals: Vec<char> = tokens[point..exponent_at]
        .iter()
        .filter_map(|token| match token {
            Token::Digit(c) => Some(*c),
            _ => None,
        })
        .take(MAX_DECIMALS)
        .collect();
    let wholes: Vec<char> = tokens[..point]
        .iter()
        .filter_map(|token| match token {
            Token::Digit(c) => Some(*c),
            _ => None,
        })
        .collect();
    let mut exponent = 0;
    if exponent_at < tokens.len() && number != 0.0 {
        let step = wholes.len().max(1) as i32;
        exponent = number.log10().floor() as i32;
        exponent = if step > 1 { exponent.div_euclid(step) * step } else { exponent };
        number /= 10f64.powi(exponent);
    }
    let (whole, part) = rounded(number, decimals.len());
    // Digits of `#` are not written when they are zeros at the end.
    let optional = decimals.iter().rev().take_while(|c| **c != '0').count();
    let trimmed = part.trim_end_matches('0').len().max(part.len() - optional);
    let part = &part[..trimmed];
    let zeros = wholes.iter().filter(|c| **c == '0').count();
    let whole = if whole == "0" { "" } else { &whole };
    let whole = format!("{whole:0>zeros$}");
    let mut written = String::new();
    let mut placed = 0;
    let mut has_point = false;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Text(text) => written.push_str(text),
            Token::Percent => written.push('%'),
            Token::General => written.push_str(&general(number)),
            Token::Digit(_) if at < point => {
                // The first place has all digits for which there are no places.
                let left = wholes.len() - placed - 1;
                let until = whole.len().saturating_sub(left);
                let from = if placed == 0 { 0 } else { whole.len().saturating_sub(left + 1) };
                for (i, digit) in whole[..until].char_indices().skip(from) {
                    written.push(digit);
                    let rest = whole.len() - i - 1;
                    if is_separated && rest > 0 && rest % 3 == 0 {
                        written.push(',');
                    }
                }
                placed += 1;
            }
            Token::Point if at == point => {
                has_point = true;
                if !part.is_empty() || decimals.is_empty() {
                    written.push('.');
                }
            }
            Token::Digit(_) if has_point && at < exponent_at => {
                let index = tokens[point..at].iter().filter(|token| is_digit(token)).count();
                written.extend(part.chars().nth(index));
            }
            Token::Exponent(has_plus) => {
                let digits = tokens[at..].iter().filter(|token| is_digit(token)).count().min(8);
                let sign = if exponent < 0 {
                    "-"
                } else if *has_plus {
                    "+"
                } else {
                    ""
                };
                written.push_str(&format!("E{sign}{:0digits$}", exponent.abs()));
            }
            _ => {}
        }
    }
    written
}

/// A number as `1 3/4`.
fn fraction(tokens: &[Token], number: f64) -> String {
    let slash = tokens.iter().position(|token| *token == Token::Slash).unwrap_or(0);
    let is_digit = |token: &&Token| matches!(token, Token::Digit(_));
    let digits = tokens[slash..].iter().filter(is_digit).count().clamp(1, 4);
    // A number before the fraction has a gap behind it.
    let has_whole =
        tokens[..slash].iter().any(|token| matches!(token, Token::Text(text) if text.contains(' ')));
    let (whole, rest) = if has_whole { (number.trunc(), number.fract()) } else { (0.0, number) };
    let fixed = tokens[slash + 1..].iter().find_map(|token| match token {
        Token::Text(text) => text.trim().parse::<u32>().ok().filter(|below| *below > 0),
        _ => None,
    });
    let max = 10u32.pow(digits as u32) - 1;
    let error = |below: u32| ((rest * f64::from(below)).round() / f64::from(below) - rest).abs();
    let below = fixed.unwrap_or_else(|| {
        (1..=max)
            .reduce(|best, next| if error(next) < error(best) - 1e-12 { next } else { best })
            .unwrap_or(1)
    });
    let above = (rest * f64::from(below)).round();
    match (whole, above) {
        (whole, above) if above == f64::from(below) && has_whole => general(whole + 1.0),
        (whole, 0.0) => general(whole),
        (0.0, above) => format!("{above}/{below}"),
        (whole, above) => format!("{} {above}/{below}", general(whole)),
    }
}

/// A number as a date or a time.
fn date(tokens: &[Token], number: f64, is_1904: bool) -> Option<String> {
    let has_half = tokens.iter().any(|token| matches!(token, Token::Half(_)));
    let is_elapsed = tokens.iter().any(|token| matches!(token, Token::Elapsed(..)));
    let mut moment = Moment::of(number, is_1904)?;
    // Fractions of seconds are rounded where they are not shown.
    let fractions = tokens
        .iter()
        .skip_while(|token| !matches!(token, Token::Date('s', _) | Token::Elapsed('s', _)))
        .skip(1);
    let has_fractions = fractions.clone().next() == Some(&Token::Point);
    if !has_fractions {
        moment.milliseconds = (moment.milliseconds + 500) / 1000 * 1000;
    }
    let total = if is_elapsed {
        (number * 86_400.0 + if has_fractions { 0.0 } else { 0.5 }).floor() as i64
    } else {
        moment.milliseconds / 1000
    };
    let seconds = moment.milliseconds / 1000;
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let mut written = String::new();
    let mut fraction_digits = 0;
    for (at, token) in tokens.iter().enumerate() {
        let time_before = || tokens[..at].iter().rev().find_map(letter) == Some('h');
        let time_after = || tokens[at + 1..].iter().find_map(letter) == Some('s');
        match token {
            Token::Text(text) => written.push_str(text),
            Token::Slash => written.push('/'),
            Token::Comma => written.push(','),
            Token::Point => written.push('.'),
            Token::Digit(_) => {
                let digit = moment.milliseconds % 1000
                    / [100, 10, 1].get(fraction_digits).copied().unwrap_or(1000)
                    % 10;
                written.push_str(&digit.to_string());
                fraction_digits += 1;
            }
            Token::Date('y', count) if *count <= 2 => written.push_str(&format!("{:02}", moment.year % 100)),
            Token::Date('y', _) => written.push_str(&moment.year.to_string()),
            Token::Date('m', count @ 1..=2) if time_before() || time_after() => {
                written.push_str(&format!("{minute:0count$}"))
            }
            Token::Date('m', count @ 1..=2) => written.push_str(&format!("{:0count$}", moment.month)),
            Token::Date('m', 3) => written.push_str(&MONTHS[moment.month - 1][..3]),
            Token::Date('m', 5) => written.push_str(&MONTHS[moment.month - 1][..1]),
            Token::Date('m', _) => written.push_str(MONTHS[moment.month - 1]),
            Token::Date('d', count @ 1..=2) => written.push_str(&format!("{:0count$}", moment.day)),
            Token::Date('d', 3) => written.push_str(&WEEKDAYS[moment.weekday][..3]),
            Token::Date('d', _) => written.push_str(WEEKDAYS[moment.weekday]),
            Token::Date('h', count) => {
                let hour = if has_half { (hour + 11) % 12 + 1 } else { hour };
                written.push_str(&format!("{hour:0width$}", width = (*count).min(2)));
            }
            Token::Date(_, count) => written.push_str(&format!("{second:0width$}", width = (*count).min(2))),
            Token::Elapsed(letter, count) => {
                let amount = match letter {
                    'h' => total / 3600,
                    'm' => total / 60,
                    _ => total,
                };
                written.push_str(&format!("{amount:0width$}", width = (*count).min(9)));
            }
            Token::Half(is_short) => {
                let half = if hour < 12 { "AM" } else { "PM" };
                written.push_str(if *is_short { &half[..1] } else { half });
            }
            Token::Percent => written.push('%'),
            Token::General | Token::Exponent(_) => {}
        }
    }
    Some(written)
}

fn letter(token: &Token) -> Option<char> {
    match token {
        Token::Date(letter, _) | Token::Elapsed(letter, _) => Some(*letter),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_by_their_codes() {
        for (code, number, wanted) in [
            ("General", 0.1 + 0.2, "0.3"),
            ("General", 1_234_567.0, "1234567"),
            ("General", 4_006_381_333_931.0, "4006381333931"),
            ("General", 2.0 / 3.0, "0.666666667"),
            ("General", 1e20, "1E+20"),
            ("General", 1.5e-12, "1.5E-12"),
            ("General", -0.5, "-0.5"),
            ("0", 0.5, "1"),
            ("0.00", 1.005, "1.01"),
            ("0.00", -1.5, "-1.50"),
            ("0.00", -0.001, "0.00"),
            ("#,##0", 1_234_567.0, "1,234,567"),
            ("#,##0.00", 0.0, "0.00"),
            ("#,##0.00\\ \"€\"", 1234.5, "1,234.50 €"),
            ("[$€-407]\\ #,##0", 99.0, "€ 99"),
            ("#.##", 0.5, ".5"),
            ("0.0#", 2.5, "2.5"),
            ("00000", 123.0, "00123"),
            ("000-00-0000", 123_456_789.0, "123-45-6789"),
            ("0%", 0.256, "26%"),
            ("0.0%", -0.256, "-25.6%"),
            ("0.00E+00", 12_345.0, "1.23E+04"),
            ("##0.0E+0", 12_345.0, "12.3E+3"),
            ("0,", 12_345.0, "12"),
            ("0.0,,\"M\"", 12_345_678.0, "12.3M"),
            ("# ?/?", 1.75, "1 3/4"),
            ("# ??/??", 0.3125, "5/16"),
            ("0;(0);\"-\"", -5.0, "(5)"),
            ("0;(0);\"-\"", 0.0, "-"),
            ("[Red]0;[Blue]-0", -5.0, "-5"),
            ("[<1]0.00;[>=100]0;0.0", 0.5, "0.50"),
            ("[<1]0.00;[>=100]0;0.0", 50.0, "50.0"),
            ("_-* #,##0.00_-;-* #,##0.00_-", -3.0, "-3.00"),
            (";;;", 5.0, ""),
            ("\"Nr. \"0", 7.0, "Nr. 7"),
            ("@", 5.0, "5"),
        ] {
            assert_eq!(show(code, number, false), wanted, "{code} {number}");
        }
    }

    #[test]
    fn dates_are_shown_by_their_codes() {
        let noon = 45_356.5 + 34.0 / 1440.0 + 56.0 / 86_400.0;
        for (code, number, wanted) in [
            ("yyyy-mm-dd", 45_356.0, "2024-03-05"),
            ("d-mmm-yy", 45_356.0, "5-Mar-24"),
            ("dddd, d. mmmm yyyy", 45_356.0, "Tuesday, 5. March 2024"),
            ("[$-409]m/d/yy h:mm AM/PM;@", noon, "3/5/24 12:34 PM"),
            ("dd/mm/yyyy hh:mm:ss", noon, "05/03/2024 12:34:56"),
            ("h:mm", 0.999_999, "0:00"),
            ("mm:ss.0", 0.000_1, "00:08.6"),
            ("[h]:mm", 1.5, "36:00"),
            ("[mm]:ss", 0.5, "720:00"),
            ("yyyy", -1.0, "-1"),
        ] {
            assert_eq!(show(code, number, false), wanted, "{code} {number}");
        }
        assert_eq!(show("yyyy", 0.0, true), "1904");
    }

    #[test]
    fn codes_of_any_kind_end() {
        for code in [
            "",
            "[",
            "\"",
            "\\",
            "_",
            "E+",
            "/",
            "0/",
            "?/0",
            "....",
            ",,,,",
            "[h",
            "[>]",
            "%%%%%%%%%%",
            "0E+0E+0",
            "yE+0",
            "é_é*é",
        ] {
            for number in [0.0, -1.5, 1e300, 1e-300, 45_000.5, f64::NAN, f64::INFINITY] {
                let _ = show(code, number, false);
            }
        }
        let _ = show(&"0".repeat(500), 1.0, false);
    }
}
