//! Counters of CSS: the numbers of headings, clauses and items that a style sheet makes (`counter-increment`, and
//! `content` before and behind an element), and the texts that stand there.

use super::counter_styles::{CounterStyles, ListStyle};
use super::font::is_icon_font;
use super::style::important;
use super::values::{closing, declarations, quoted, split};
use crate::web::html::Tag;
use crate::writer::ordinal::Format;

/// Counters of a rule, parts of a content, and counters that are open at a time: all, and those of one name in a text.
const MAX_NAMES: usize = 16;
const MAX_PIECES: usize = 32;
const MAX_OPEN: usize = 500;
const MAX_NESTED: usize = 100;
/// Text before an element is not longer than this, in bytes: with a number, and without one.
const MAX_TEXT: usize = 1_000;
const MAX_LABEL: usize = 180;
/// The counter that counts the items of lists by itself.
const LIST_ITEM: &str = "list-item";

/// What declarations say of counters, and of the text before an element. `None` is for nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counting {
    reset: Option<Vec<(String, i64)>>,
    set: Option<Vec<(String, i64)>>,
    increment: Option<Vec<(String, i64)>>,
    content: Option<Content>,
    /// Whether what stands before or behind an element is hidden, or drawn by a font of icons.
    pub(crate) is_hidden: Option<bool>,
    pub(crate) is_icon: Option<bool>,
    /// Whether it is laid over other text.
    is_overlay: Option<bool>,
}

/// What stands before or behind an element.
#[derive(Clone, Debug, PartialEq)]
enum Content {
    /// Nothing, or an ornament.
    None,
    Text(Vec<Piece>),
    /// It has a number in a way that is not known.
    Unknown,
}

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    Attribute(String),
    Counter(String, ListStyle),
    /// Those of all elements around, with a text between them.
    Counters(String, String, ListStyle),
}

impl Counting {
    pub(crate) fn parse(text: &str) -> Counting {
        Counting::of(&declarations(text).collect::<Vec<_>>())
    }

    /// What declarations of these names and values say.
    pub(crate) fn of(body: &[(String, &str)]) -> Counting {
        let mut counting = Counting::default();
        for (name, value) in body.iter().map(|(name, value)| (name, *value)) {
            let value = important(value).unwrap_or(value).trim();
            match name.as_str() {
                "counter-reset" => counting.reset = Some(names(value, 0)),
                "counter-set" => counting.set = Some(names(value, 0)),
                "counter-increment" => counting.increment = Some(names(value, 1)),
                "content" => counting.content = Some(content(value)),
                "position" => counting.is_overlay = Some(matches!(value, "absolute" | "fixed")),
                "font-family" => counting.is_icon = Some(is_icon_font(&value.to_ascii_lowercase())),
                _ => {}
            }
        }
        counting
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Counting::default()
    }

    /// Whether it says something of counters.
    pub(crate) fn counts(&self) -> bool {
        self.reset.is_some() || self.set.is_some() || self.increment.is_some()
    }

    /// Whether it says something of a text before or behind an element.
    pub(crate) fn has_text(&self) -> bool {
        matches!(&self.content, Some(Content::Text(_) | Content::Unknown))
    }

    /// Whether it says that nothing stands there, or an ornament.
    pub(crate) fn is_ornament(&self) -> bool {
        self.content == Some(Content::None)
    }

    /// These declarations, and others that replace them.
    pub(crate) fn replaced_by(self, other: &Counting) -> Counting {
        Counting {
            reset: other.reset.clone().or(self.reset),
            set: other.set.clone().or(self.set),
            increment: other.increment.clone().or(self.increment),
            content: other.content.clone().or(self.content),
            is_hidden: other.is_hidden.or(self.is_hidden),
            is_icon: other.is_icon.or(self.is_icon),
            is_overlay: other.is_overlay.or(self.is_overlay),
        }
    }

    /// The same with the values of the attributes of an element. Laid over it, they are its shadow, or a hint of the mouse.
    pub(crate) fn with_attributes(mut self, tag: &Tag) -> Counting {
        let is_overlay = self.is_overlay == Some(true);
        if let Some(Content::Text(pieces)) = &mut self.content {
            for piece in pieces {
                if let Piece::Attribute(name) = piece {
                    let value = tag.attribute(name).filter(|_| !is_overlay);
                    *piece = Piece::Text(value.unwrap_or_default());
                }
            }
        }
        self
    }
}

/// Whether a sign says yes or no.
fn is_tick(c: char) -> bool {
    matches!(c, '☐' | '☑' | '☒' | '✓' | '✔' | '✗' | '✘' | '✅' | '❌' | '❎')
}

fn is_currency(c: char) -> bool {
    matches!(c, '$' | '\u{a2}'..='\u{a5}' | '\u{20a0}'..='\u{20cf}')
}

/// Whether declarations make a number.
pub(crate) fn makes_numbers(declarations: &str) -> bool {
    declarations.contains("counter(") || declarations.contains("counters(")
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

/// A text without words and amounts is left out: it is mostly an ornament.
fn content(value: &str) -> Content {
    match pieces(value) {
        Some(pieces) if pieces.iter().any(Piece::says_something) => Content::Text(pieces),
        None if makes_numbers(value) => Content::Unknown,
        _ => Content::None,
    }
}

fn pieces(value: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    // What is behind a slash is for those who hear the page.
    let mut rest = split(value, |c| c == '/')[0].trim();
    while !rest.is_empty() && pieces.len() < MAX_PIECES {
        if let Some((text, after)) = quoted(rest) {
            pieces.push(Piece::Text(text));
            rest = after.trim_start();
            continue;
        }
        let (name, after) = rest.split_once('(')?;
        let (inner, after) = after.split_at(closing(after)?);
        let arguments = split(inner, |c| c == ',');
        let arguments: Vec<&str> = arguments.into_iter().map(str::trim).collect();
        let style = |at: usize| match arguments.get(at) {
            None => Some(ListStyle::Format(Format::Decimal)),
            Some(name) => ListStyle::parse(name),
        };
        let own = (*arguments.first()?).to_owned();
        pieces.push(match name.trim().to_ascii_lowercase().as_str() {
            "counter" => Piece::Counter(own, style(1)?),
            "counters" => {
                let (between, _) = quoted(arguments.get(1)?)?;
                Piece::Counters(own, between, style(2)?)
            }
            "attr" => Piece::Attribute(own.to_ascii_lowercase()),
            _ => return None,
        });
        rest = after[1..].trim_start();
    }
    Some(pieces)
}

impl Piece {
    /// Whether it is more than an ornament.
    fn says_something(&self) -> bool {
        let says = |c: char| {
            c.is_alphanumeric() || is_currency(c) || is_tick(c) || matches!(c, '%' | '‰' | '°' | '§' | '№')
        };
        match self {
            Piece::Text(text) => text.contains(says),
            _ => true,
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Piece::Counter(..) | Piece::Counters(..))
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
pub(crate) struct Counters {
    open: Vec<Counter>,
    /// Whether there were more, so that no number is known any more.
    is_lost: bool,
}

impl Counters {
    /// Ends the counters of elements within others than the first `depth` ones.
    pub(crate) fn leave(&mut self, depth: usize) {
        while self.open.pop_if(|counter| counter.depth > depth).is_some() {}
    }

    /// Counts an element that has so many elements around it.
    pub(crate) fn count(&mut self, counting: &Counting, depth: usize) {
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

    /// Begins the numbers of the items of a list, which its page need not name.
    pub(crate) fn begin_list(&mut self, depth: usize) {
        self.push(LIST_ITEM, 0, depth);
    }

    /// The number of an item that begins.
    pub(crate) fn item(&mut self, number: i64, depth: usize) {
        self.change(LIST_ITEM, depth, |_| number);
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

    /// The text before or behind an element that has so many elements around it. None if there is none; an error if it has a
    /// number that is not known.
    pub(crate) fn text(
        &mut self,
        counting: &Counting,
        depth: usize,
        styles: &CounterStyles,
        is_before: bool,
    ) -> Result<Option<String>, ()> {
        // What stands there is within the element.
        self.count(counting, depth + 1);
        let pieces = match &counting.content {
            _ if counting.is_hidden == Some(true) => return Ok(None),
            None | Some(Content::None) => return Ok(None),
            Some(Content::Unknown) => return Err(()),
            Some(Content::Text(pieces)) => pieces,
        };
        let has_number = pieces.iter().any(Piece::is_number);
        match has_number {
            true if self.is_lost => return Err(()),
            false if counting.is_icon == Some(true) => return Ok(None),
            _ => {}
        }
        let write = |style: &ListStyle, value: i64| styles.counter(style, value).ok_or(());
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(part) => text.push_str(part),
                Piece::Attribute(_) => {}
                Piece::Counter(name, style) => {
                    let value = self.open.iter().rev().find(|counter| counter.name == *name);
                    text.push_str(&write(style, value.map_or(0, |counter| counter.value))?);
                }
                Piece::Counters(name, between, style) => {
                    let open = self.open.iter().filter(|counter| counter.name == *name);
                    let values = open.map(|counter| write(style, counter.value)).take(MAX_NESTED + 1);
                    let values = values.collect::<Result<Vec<String>, ()>>()?;
                    if values.len() > MAX_NESTED {
                        return Err(());
                    }
                    text.push_str(&if values.is_empty() { write(style, 0)? } else { values.join(between) });
                }
            }
            if text.len() > if has_number { MAX_TEXT } else { MAX_LABEL } {
                return Err(());
            }
        }
        // A gap of its margins: a number or a word does not touch the text behind it.
        let is_apart = has_number || text.ends_with(|c: char| c.is_alphanumeric() || is_tick(c) || c == ':');
        if is_before && is_apart && !text.ends_with(char::is_whitespace) {
            text.push(' ');
        }
        Ok(Some(text).filter(|text| !text.trim().is_empty()))
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
            counters.text(&counting, 0, &CounterStyles::default(), true)
        };
        for (declarations, expected) in [
            ("content: counter(a) '. '", "3. "),
            ("content: \"\\00a7 \" counter(a, upper-roman) ';'; color: red", "§III; "),
            ("counter-increment: a 2; content: counter(a) \"/\" counter(b) / \"spoken\"", "5/0 "),
            ("content: counters(a, '.', lower-alpha) \"\\\")\"", "c\") "),
            ("content: counter(c)", "0 "),
            ("content: counter(a) attr(x)", "3 "),
            ("content: counter(a); font-family: Oswald", "3 "),
            ("content: 'Note'", "Note "),
            ("content: '$'", "$"),
            ("content: '\\2713'", "✓ "),
            ("content: 'No. ' !important; font-family: Arial, sans-serif", "No. "),
        ] {
            assert_eq!(text(declarations), Ok(Some(expected.to_owned())), "{declarations}");
        }
        for declarations in [
            "content: '•'",
            "content: none",
            "content: '\\f101'",
            "counter-increment: a",
            "content: 'search'; font-family: 'Material Icons'",
        ] {
            assert_eq!(text(declarations), Ok(None), "{declarations}");
        }
        for declarations in
            ["content: counter(a, made-up)", "content: counter(a", "content: counter(a) url(x)"]
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
        assert_eq!(
            counters.text(&shown, MAX_OPEN, &CounterStyles::default(), true),
            Ok(Some("0 ".to_owned()))
        );
        counters.count(&Counting::parse("counter-reset: b 7"), MAX_OPEN);
        assert_eq!(counters.text(&shown, MAX_OPEN, &CounterStyles::default(), true), Err(()));
        let nested = Counting::parse("content: counters(a, '.')");
        let mut counters = Counters::default();
        for depth in 0..=MAX_NESTED {
            counters.count(&reset, depth);
        }
        assert_eq!(counters.text(&nested, MAX_NESTED, &CounterStyles::default(), true), Err(()));
    }
}
