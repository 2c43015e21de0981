//! Counters of CSS: the numbers of headings, clauses and items that a style sheet makes (`counter-increment`, and
//! `content` before an element).

use crate::writer::ordinal::Format;

/// Counters of a rule, parts of a content, and counters that are open at a time: all, and those of one name in a text.
const MAX_NAMES: usize = 16;
const MAX_PIECES: usize = 32;
const MAX_OPEN: usize = 500;
const MAX_NESTED: usize = 100;
/// Text before an element is not longer than this, in bytes.
const MAX_TEXT: usize = 1_000;

/// What declarations say of counters, and of the text before an element. `None` is for nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counting {
    reset: Option<Vec<(String, i64)>>,
    set: Option<Vec<(String, i64)>>,
    increment: Option<Vec<(String, i64)>>,
    content: Option<Content>,
}

/// What stands before an element.
#[derive(Clone, Debug, PartialEq)]
enum Content {
    /// Nothing, or no number.
    None,
    Text(Vec<Piece>),
    /// It has a number in a way that is not known.
    Unknown,
}

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    Counter(String, Format),
    /// Those of all elements around, with a text between them.
    Counters(String, String, Format),
}

impl Counting {
    pub(super) fn parse(declarations: &str) -> Counting {
        let mut counting = Counting::default();
        for declaration in split(declarations, ';') {
            let Some((name, value)) = declaration.split_once(':') else { continue };
            let value = value.trim().trim_end_matches("!important").trim_end();
            match name.trim().to_ascii_lowercase().as_str() {
                "counter-reset" => counting.reset = Some(names(value, 0)),
                "counter-set" => counting.set = Some(names(value, 0)),
                "counter-increment" => counting.increment = Some(names(value, 1)),
                "content" => counting.content = Some(content(value)),
                _ => {}
            }
        }
        counting
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Counting::default()
    }

    /// Whether it says something of the text before an element that has a number.
    pub(super) fn has_number(&self) -> bool {
        matches!(&self.content, Some(Content::Text(_) | Content::Unknown))
    }

    /// These declarations, and others that replace them.
    pub(super) fn replaced_by(self, other: &Counting) -> Counting {
        Counting {
            reset: other.reset.clone().or(self.reset),
            set: other.set.clone().or(self.set),
            increment: other.increment.clone().or(self.increment),
            content: other.content.clone().or(self.content),
        }
    }
}

/// Whether declarations make a number.
pub(super) fn makes_numbers(declarations: &str) -> bool {
    declarations.contains("counter(") || declarations.contains("counters(")
}

/// Parts of a text between which a sign stands that is in no quotation marks and no brackets.
fn split(text: &str, sign: char) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    let (mut quote, mut is_escaped) = (None, false);
    for (at, c) in text.char_indices() {
        if std::mem::take(&mut is_escaped) {
            continue;
        }
        match c {
            '\\' => is_escaped = true,
            '"' | '\'' if quote == Some(c) => quote = None,
            '"' | '\'' if quote.is_none() => quote = Some(c),
            _ if quote.is_some() => {}
            c if c == sign && depth == 0 => {
                parts.push(&text[start..at]);
                start = at + c.len_utf8();
            }
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Names of counters, each with a number or the usual one.
fn names(value: &str, usual: i64) -> Vec<(String, i64)> {
    let mut names: Vec<(String, i64)> = Vec::new();
    for word in value.split_ascii_whitespace().filter(|word| *word != "none") {
        match word.parse() {
            Ok(number) => names.iter_mut().last().into_iter().for_each(|last| last.1 = number),
            Err(_) if names.len() < MAX_NAMES => names.push((word.to_owned(), usual)),
            Err(_) => {}
        }
    }
    names
}

/// A text without a number is left out: it is mostly an ornament.
fn content(value: &str) -> Content {
    if !makes_numbers(value) {
        return Content::None;
    }
    pieces(value).map_or(Content::Unknown, Content::Text)
}

fn pieces(value: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    // What is behind a slash is for those who hear the page.
    let mut rest = split(value, '/')[0].trim();
    while !rest.is_empty() && pieces.len() < MAX_PIECES {
        if let Some((text, after)) = quoted(rest) {
            pieces.push(Piece::Text(text));
            rest = after.trim_start();
            continue;
        }
        let (name, after) = rest.split_once('(')?;
        let (inner, after) = after.split_at(closing(after)?);
        let arguments = split(inner, ',');
        let arguments: Vec<&str> = arguments.into_iter().map(str::trim).collect();
        let format = |at: usize| match arguments.get(at) {
            None => Some(Format::Decimal),
            Some(name) => Format::of_css(&name.to_ascii_lowercase()),
        };
        let counter = (*arguments.first()?).to_owned();
        pieces.push(match name.trim().to_ascii_lowercase().as_str() {
            "counter" => Piece::Counter(counter, format(1)?),
            "counters" => {
                let (between, _) = quoted(arguments.get(1)?)?;
                Piece::Counters(counter, between, format(2)?)
            }
            _ => return None,
        });
        rest = after[1..].trim_start();
    }
    Some(pieces)
}

/// Where the bracket closes that is open before a text.
fn closing(text: &str) -> Option<usize> {
    Some(split(text, ')')[0].len()).filter(|at| *at < text.len())
}

/// What a text begins with in quotation marks, and what is behind it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let (mut out, mut rest) = (String::new(), &text[1..]);
    loop {
        let c = rest.chars().next()?;
        rest = &rest[c.len_utf8()..];
        match c {
            c if c == quote => return Some((out, rest)),
            '\\' => {
                let digits = rest.bytes().take(6).take_while(u8::is_ascii_hexdigit).count();
                if digits == 0 {
                    let escaped = rest.chars().next()?;
                    out.push(escaped);
                    rest = &rest[escaped.len_utf8()..];
                    continue;
                }
                out.extend(u32::from_str_radix(&rest[..digits], 16).ok().and_then(char::from_u32));
                rest = &rest[digits..];
                rest = rest.strip_prefix(' ').unwrap_or(rest);
            }
            c => out.push(c),
        }
    }
}

/// A counter of an element, which its siblings and what is within them share.
#[derive(Debug)]
struct Counter {
    name: String,
    value: i64,
    /// How many elements are around the element.
    depth: usize,
}

/// The counters at a place of the page.
#[derive(Debug, Default)]
pub(super) struct Counters {
    open: Vec<Counter>,
    /// Whether there were more, so that no number is known any more.
    is_lost: bool,
}

impl Counters {
    /// Ends the counters of elements within others than the first `depth` ones.
    pub(super) fn leave(&mut self, depth: usize) {
        while self.open.pop_if(|counter| counter.depth > depth).is_some() {}
    }

    /// Counts an element that has so many elements around it.
    pub(super) fn count(&mut self, counting: &Counting, depth: usize) {
        for (name, value) in counting.reset.iter().flatten() {
            match self.open.iter_mut().rev().find(|counter| counter.name == *name && counter.depth == depth) {
                Some(counter) => counter.value = *value,
                None => self.push(name, *value, depth),
            }
        }
        for (name, by) in counting.increment.iter().flatten() {
            self.change(name, depth, |value| value.saturating_add(*by));
        }
        for (name, value) in counting.set.iter().flatten() {
            self.change(name, depth, |_| *value);
        }
    }

    fn change(&mut self, name: &str, depth: usize, change: impl Fn(i64) -> i64) {
        match self.open.iter_mut().rev().find(|counter| counter.name == name) {
            Some(counter) => counter.value = change(counter.value),
            None => self.push(name, change(0), depth),
        }
    }

    fn push(&mut self, name: &str, value: i64, depth: usize) {
        match self.open.len() < MAX_OPEN {
            true => self.open.push(Counter { name: name.to_owned(), value, depth }),
            false => self.is_lost = true,
        }
    }

    /// The text before an element that has so many elements around it, with a space behind it. None if it has no number;
    /// an error if it is not known.
    pub(super) fn text_before(&mut self, counting: &Counting, depth: usize) -> Result<Option<String>, ()> {
        // What stands before an element is within it.
        self.count(counting, depth + 1);
        let pieces = match &counting.content {
            None | Some(Content::None) => return Ok(None),
            Some(Content::Unknown) => return Err(()),
            Some(Content::Text(_)) if self.is_lost => return Err(()),
            Some(Content::Text(pieces)) => pieces,
        };
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(part) => text.push_str(part),
                Piece::Counter(name, format) => {
                    let value = self.open.iter().rev().find(|counter| counter.name == *name);
                    text.push_str(&format.write(value.map_or(0, |counter| counter.value)));
                }
                Piece::Counters(name, between, format) => {
                    let open = self.open.iter().filter(|counter| counter.name == *name);
                    let values = open.map(|counter| format.write(counter.value)).take(MAX_NESTED + 1);
                    let values: Vec<String> = values.collect();
                    if values.len() > MAX_NESTED {
                        return Err(());
                    }
                    text.push_str(&if values.is_empty() { format.write(0) } else { values.join(between) });
                }
            }
            if text.len() > MAX_TEXT {
                return Err(());
            }
        }
        if !text.ends_with(char::is_whitespace) {
            text.push(' ');
        }
        Ok(Some(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_read() {
        let text = |declarations: &str| {
            let counting = Counting::parse(declarations);
            let mut counters = Counters::default();
            counters.count(&Counting::parse("counter-reset: a 3 b"), 0);
            counters.text_before(&counting, 0)
        };
        for (declarations, expected) in [
            ("content: counter(a) '. '", "3. "),
            ("content: \"\\00a7 \" counter(a, upper-roman) ';'; color: red", "§III; "),
            ("counter-increment: a 2; content: counter(a) \"/\" counter(b) / \"spoken\"", "5/0 "),
            ("content: counters(a, '.', lower-alpha) \"\\\")\"", "c\") "),
            ("content: counter(c)", "0 "),
        ] {
            assert_eq!(text(declarations), Ok(Some(expected.to_owned())), "{declarations}");
        }
        for declarations in ["content: '•'", "content: none", "counter-increment: a"] {
            assert_eq!(text(declarations), Ok(None), "{declarations}");
        }
        for declarations in
            ["content: counter(a, made-up)", "content: counter(a", "content: counter(a) attr(x)"]
        {
            assert_eq!(text(declarations), Err(()), "{declarations}");
        }
    }

    #[test]
    fn no_number_is_known_where_counters_are_too_many() {
        let (reset, shown) = (Counting::parse("counter-reset: a 3"), Counting::parse("content: counter(b)"));
        let mut counters = Counters::default();
        for depth in 0..MAX_OPEN {
            counters.count(&reset, depth);
        }
        assert_eq!(counters.text_before(&shown, MAX_OPEN), Ok(Some("0 ".to_owned())));
        counters.count(&Counting::parse("counter-reset: b 7"), MAX_OPEN);
        assert_eq!(counters.text_before(&shown, MAX_OPEN), Err(()));
        let nested = Counting::parse("content: counters(a, '.')");
        let mut counters = Counters::default();
        for depth in 0..=MAX_NESTED {
            counters.count(&reset, depth);
        }
        assert_eq!(counters.text_before(&nested, MAX_NESTED), Err(()));
    }
}
