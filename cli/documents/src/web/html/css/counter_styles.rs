//! How the items of lists and the counters of a page are written: in formats that browsers know, with a text, or in styles
//! that the page defines (`@counter-style` of CSS Counter Styles 3).

use std::collections::HashMap;

use super::values::{declarations, escaped, quoted, split, words};
use crate::writer::ordinal::Format;

/// Styles of a page, symbols of one, and how often one may refer to another.
const MAX_STYLES: usize = 1_000;
const MAX_SYMBOLS: usize = 1_000;
const MAX_FALLBACKS: usize = 8;
/// A number is not longer than so many bytes.
const MAX_LENGTH: usize = 300;

/// How numbers are written, or what stands in their place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ListStyle {
    Format(Format),
    /// The same text for each.
    Text(String),
    /// A style that the page may define.
    Named(String),
}

impl ListStyle {
    /// That of `list-style` or `list-style-type`.
    pub(crate) fn parse(value: &str) -> Option<ListStyle> {
        words(value).find_map(ListStyle::of_word)
    }

    fn of_word(word: &str) -> Option<ListStyle> {
        if let Some((text, _)) = quoted(word) {
            return Some(ListStyle::Text(text));
        }
        let name = word.to_ascii_lowercase();
        match name.as_str() {
            "inside" | "outside" | "inherit" | "initial" | "unset" | "revert" | "revert-layer" => None,
            // Pictures, and what is no name. A backslash makes a value one for old browsers (`none\9`).
            name if name.contains(['(', '\\']) || name.starts_with(|c: char| c.is_ascii_digit()) => None,
            name => Some(
                Format::of_css(name).map_or_else(|| ListStyle::Named(name.to_owned()), ListStyle::Format),
            ),
        }
    }
}

/// A system of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum System {
    Cyclic,
    Numeric,
    Alphabetic,
    #[default]
    Symbolic,
    Additive,
    /// The number of the first symbol.
    Fixed(i64),
}

/// A style that a page defines.
#[derive(Clone, Debug, Default)]
struct CounterStyle {
    system: System,
    /// The style that it changes.
    extended: Option<String>,
    symbols: Vec<String>,
    /// Symbols with their values, the largest first.
    additive: Vec<(i64, String)>,
    prefix: Option<String>,
    suffix: Option<String>,
    negative: Option<(String, String)>,
    ranges: Option<Vec<(i64, i64)>>,
    pad: Option<(usize, String)>,
    fallback: Option<String>,
}

/// The styles of a page by their names in small letters.
#[derive(Debug, Default)]
pub(crate) struct CounterStyles(HashMap<String, CounterStyle>);

impl CounterStyles {
    /// Reads the rule of a name.
    pub(crate) fn define(&mut self, name: &str, body: &str) {
        if self.0.len() < MAX_STYLES {
            let name = name.trim().to_ascii_lowercase();
            let style = self.0.entry(name).or_default();
            *style = CounterStyle::parse(body);
        }
    }

    /// What stands before an item of a list: its number with its signs. Bullets and nothing are empty. `None` if the style
    /// is not known.
    pub(crate) fn marker(&self, style: &ListStyle, number: i64) -> Option<String> {
        match style {
            ListStyle::Format(format) => match format.write(number) {
                text if text.is_empty() => Some(text),
                text => Some(text + "."),
            },
            ListStyle::Text(text) => Some(text.trim().to_owned()),
            ListStyle::Named(name) => {
                let own = self.0.get(name)?;
                let base = self.extended(own);
                let prefix = own.prefix.as_ref().or(base.prefix.as_ref()).map_or("", String::as_str);
                let suffix = own.suffix.as_ref().or(base.suffix.as_ref()).map_or(".", String::as_str);
                let text = format!("{prefix}{}{suffix}", self.number(name, number, 0));
                Some(text.trim().to_owned())
            }
        }
    }

    /// A number without other signs. `None` if the style is not known.
    pub(crate) fn counter(&self, style: &ListStyle, number: i64) -> Option<String> {
        match style {
            ListStyle::Format(format) => Some(format.write(number)),
            ListStyle::Text(text) => Some(text.clone()),
            ListStyle::Named(name) => self.0.contains_key(name).then(|| self.number(name, number, 0)),
        }
    }

    /// The style that has the symbols of another one.
    fn extended<'a>(&'a self, style: &'a CounterStyle) -> &'a CounterStyle {
        let mut base = style;
        for _ in 0..MAX_FALLBACKS {
            match base.extended.as_ref().and_then(|name| self.0.get(name)) {
                Some(extended) => base = extended,
                None => break,
            }
        }
        base
    }

    fn number(&self, name: &str, number: i64, depth: usize) -> String {
        let Some(own) = self.0.get(name).filter(|_| depth < MAX_FALLBACKS) else {
            return Format::of_css(name).unwrap_or_default().write(number);
        };
        let base = self.extended(own);
        // What it changes may be a style of the browser.
        let known = base.extended.as_deref().map(|name| Format::of_css(name).unwrap_or_default());
        let is_in_range = match own.ranges.as_ref().or(base.ranges.as_ref()) {
            Some(ranges) => ranges.iter().any(|(first, last)| (*first..=*last).contains(&number)),
            None => known.is_some() || base.is_in_range(number),
        };
        let size = number.unsigned_abs();
        let is_negative = number < 0 && known.is_none() && base.has_negative();
        let written = match known {
            Some(format) => Some(format.write(number)),
            None => base.write(if is_negative { i64::try_from(size).unwrap_or(i64::MAX) } else { number }),
        };
        let Some(mut text) = written.filter(|_| is_in_range) else {
            let fallback = own.fallback.as_ref().or(base.fallback.as_ref());
            return self.number(fallback.map_or("decimal", String::as_str), number, depth + 1);
        };
        let usual = || ("-".to_owned(), String::new());
        let (before, after) = own.negative.as_ref().or(base.negative.as_ref()).cloned().unwrap_or_else(usual);
        if let Some((length, sign)) = own.pad.as_ref().or(base.pad.as_ref()) {
            let signs = if is_negative { before.chars().count() + after.chars().count() } else { 0 };
            let missing = length.saturating_sub(text.chars().count() + signs);
            if missing * sign.len() <= MAX_LENGTH {
                text.insert_str(0, &sign.repeat(missing));
            }
        }
        if is_negative { before + &text + &after } else { text }
    }
}

impl CounterStyle {
    fn parse(body: &str) -> CounterStyle {
        let mut style = CounterStyle::default();
        for (name, value) in declarations(body) {
            match name.as_str() {
                "system" => style.set_system(value),
                "symbols" => style.symbols = words(value).take(MAX_SYMBOLS).filter_map(symbol).collect(),
                "additive-symbols" => {
                    let pairs = split(value, |c| c == ',').into_iter().take(MAX_SYMBOLS).filter_map(pair);
                    style.additive = pairs.filter(|(value, _)| *value >= 0).collect();
                    style.additive.sort_by_key(|(value, _)| -value);
                }
                "prefix" => style.prefix = symbol(value),
                "suffix" => style.suffix = symbol(value),
                "negative" => {
                    let mut signs = words(value).filter_map(symbol);
                    style.negative = signs.next().map(|before| (before, signs.next().unwrap_or_default()));
                }
                "range" if value != "auto" => {
                    style.ranges = Some(split(value, |c| c == ',').into_iter().filter_map(range).collect())
                }
                "pad" => {
                    style.pad = pair(value).and_then(|(length, sign)| Some((length.try_into().ok()?, sign)))
                }
                "fallback" => style.fallback = Some(value.to_ascii_lowercase()),
                _ => {}
            }
        }
        style
    }

    fn set_system(&mut self, value: &str) {
        let value = value.to_ascii_lowercase();
        let mut words = words(&value);
        match words.next() {
            Some("cyclic") => self.system = System::Cyclic,
            Some("numeric") => self.system = System::Numeric,
            Some("alphabetic") => self.system = System::Alphabetic,
            Some("additive") => self.system = System::Additive,
            Some("fixed") => {
                self.system = System::Fixed(words.next().and_then(|first| first.parse().ok()).unwrap_or(1))
            }
            Some("extends") => self.extended = words.next().map(str::to_owned),
            _ => {}
        }
    }

    fn has_negative(&self) -> bool {
        !matches!(self.system, System::Cyclic | System::Fixed(_))
    }

    /// Whether a number is in the range that the system has.
    fn is_in_range(&self, number: i64) -> bool {
        match self.system {
            System::Alphabetic | System::Symbolic => number >= 1,
            System::Additive => number >= 0,
            System::Cyclic | System::Numeric | System::Fixed(_) => true,
        }
    }

    /// A number by the system. `None` if it has none, or too long a one.
    fn write(&self, number: i64) -> Option<String> {
        let count = i64::try_from(self.symbols.len()).ok().filter(|count| *count > 0);
        let symbol = |at: i64| usize::try_from(at).ok().and_then(|at| self.symbols.get(at));
        match self.system {
            System::Cyclic => symbol((number.checked_sub(1)?).rem_euclid(count?)).cloned(),
            System::Fixed(first) => symbol(number.checked_sub(first)?).cloned(),
            System::Symbolic => {
                let at = number.checked_sub(1)?;
                let times = usize::try_from(at / count? + 1).ok()?;
                symbol(at % count?)
                    .filter(|symbol| symbol.len().saturating_mul(times) <= MAX_LENGTH)
                    .map(|symbol| symbol.repeat(times))
            }
            System::Numeric => positional(number, count.filter(|count| *count > 1)?, 0, symbol),
            System::Alphabetic => positional(number, count.filter(|count| *count > 1)?, 1, symbol),
            System::Additive => self.sum(number),
        }
    }

    fn sum(&self, number: i64) -> Option<String> {
        if number == 0 {
            return self.additive.iter().find(|(value, _)| *value == 0).map(|(_, symbol)| symbol.clone());
        }
        let (mut rest, mut text) = (number, String::new());
        for (value, symbol) in self.additive.iter().filter(|(value, _)| *value > 0) {
            let times = usize::try_from(rest / value).ok()?;
            if symbol.len().saturating_mul(times) + text.len() > MAX_LENGTH {
                return None;
            }
            text.push_str(&symbol.repeat(times));
            rest %= value;
        }
        (rest == 0).then_some(text)
    }
}

/// Digits of a number, of which the first is worth `first`: 0 is that of numbers, 1 that of letters.
fn positional<'a>(
    mut number: i64,
    base: i64,
    first: i64,
    symbol: impl Fn(i64) -> Option<&'a String>,
) -> Option<String> {
    let mut digits = Vec::new();
    if number == 0 && first == 0 {
        digits.extend(symbol(0));
    }
    while number > 0 {
        number -= first;
        digits.extend(symbol(number % base));
        number /= base;
    }
    let text: String = digits.into_iter().rev().map(String::as_str).collect();
    (text.len() <= MAX_LENGTH).then_some(text)
}

/// A symbol: a text in quotation marks or a word. Pictures are none.
fn symbol(text: &str) -> Option<String> {
    let text = text.trim();
    if let Some((text, _)) = quoted(text) {
        return Some(text);
    }
    let (mut word, mut rest) = (String::new(), text);
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '(' => return None,
            '\\' => {
                let (character, after) = escaped(rest)?;
                word.extend(character);
                rest = after;
            }
            c => word.push(c),
        }
    }
    Some(word)
}

/// A number and a symbol, in any order.
fn pair(text: &str) -> Option<(i64, String)> {
    let mut words = words(text);
    let (one, two) = (words.next()?, words.next()?);
    match one.parse() {
        Ok(number) => Some((number, symbol(two)?)),
        Err(_) => Some((two.parse().ok()?, symbol(one)?)),
    }
}

fn range(text: &str) -> Option<(i64, i64)> {
    let mut ends = words(text);
    let mut end = |infinite: i64| match ends.next()? {
        "infinite" => Some(infinite),
        number => number.parse().ok(),
    };
    Some((end(i64::MIN)?, end(i64::MAX)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of CSS Counter Styles 3, and what they leave open.
    #[test]
    fn styles_of_a_page_are_written() {
        let mut styles = CounterStyles::default();
        for (name, body) in [
            ("triangle", "system: cyclic; symbols: ‣; suffix: ' '"),
            ("box", "system: fixed; symbols: ◰ ◳ ◲ ◱; suffix: ': '"),
            ("ten", "system: fixed 10; symbols: A B"),
            ("note", "system: symbolic; symbols: '*' ⁑ † ‡; suffix: ' '"),
            ("letters", "system: alphabetic; symbols: a b c"),
            ("trinary", "system: numeric; symbols: '0' '1' '2'; negative: '(' ')'"),
            ("dice", "system: additive; additive-symbols: 6 ⚅, 5 ⚄, 4 ⚃, 3 ⚂, 2 ⚁, 1 ⚀; suffix: ' '"),
            ("thirds", "system: additive; additive-symbols: 3 'a', 2 'b'"),
            ("clause", "system: extends decimal; prefix: '§ '; suffix: ')'"),
            ("padded", "system: numeric; symbols: '0' '1'; pad: 4 '0'"),
            ("some", "system: numeric; symbols: '0' '1'; range: 1 2, 5 infinite; fallback: letters"),
            ("ring", "system: extends ring"),
            ("far", "system: symbolic; symbols: x; range: -5 infinite"),
        ] {
            styles.define(name, body);
        }
        for (name, number, wanted) in [
            ("triangle", 7, "‣"),
            ("triangle", -7, "‣"),
            ("box", 2, "◳:"),
            ("box", 5, "5:"),
            ("ten", 11, "B."),
            ("note", 3, "†"),
            ("note", 6, "⁑⁑"),
            ("letters", 4, "aa."),
            ("letters", 0, "0."),
            ("trinary", 5, "12."),
            ("trinary", -5, "(12)."),
            ("trinary", 0, "0."),
            ("dice", 11, "⚅⚄"),
            ("dice", i64::MAX, "9223372036854775807"),
            ("thirds", 5, "ab."),
            ("thirds", 4, "4."),
            ("clause", 3, "§ 3)"),
            ("padded", 2, "0010."),
            ("padded", -2, "-010."),
            ("some", 2, "10."),
            ("some", 4, "aa."),
            ("ring", 4, "4."),
            ("far", i64::MIN, "-9223372036854775808."),
            ("far", i64::MAX, "9223372036854775807."),
        ] {
            let style = ListStyle::Named(name.to_owned());
            assert_eq!(styles.marker(&style, number).as_deref(), Some(wanted), "{name} {number}");
        }
        assert_eq!(styles.counter(&ListStyle::Named("clause".to_owned()), 3).as_deref(), Some("3"));
        assert_eq!(styles.marker(&ListStyle::Named("other".to_owned()), 3), None);
    }

    #[test]
    fn styles_of_lists_are_found_in_their_values() {
        assert_eq!(ListStyle::parse("inside url(a.png) \"→ \""), Some(ListStyle::Text("→ ".to_owned())));
        assert_eq!(ListStyle::parse("none"), Some(ListStyle::Format(Format::None)));
        assert_eq!(ListStyle::parse("Upper-Roman outside"), Some(ListStyle::Format(Format::UpperRoman)));
        for text in ["inherit", "var(--list)", "0", "url(a.png) inside"] {
            assert_eq!(ListStyle::parse(text), None, "{text}");
        }
        assert_eq!(ListStyle::parse("my-style"), Some(ListStyle::Named("my-style".to_owned())));
    }
}
