//! Selectors of CSS: which elements a rule is for. At rest nothing is hovered or focused. What depends on elements behind
//! an element is not known, because pages are read from the beginning to the end.

use std::cell::Cell;

use super::values::{closing, escaped, split};
use crate::web::html::Tag;

/// Elements around another one that are looked at, from the innermost on, and parts of a selector.
const MAX_AROUND: usize = 100;
const MAX_PARTS: usize = 16;
/// Selectors within each other.
const MAX_DEPTH: usize = 8;
/// Classes of an element, and the longest value of an attribute that is looked at, in bytes.
const MAX_CLASSES: usize = 32;
const MAX_VALUE: usize = 1000;
/// Selectors of which an element must be one, or must not be any.
const MAX_ALTERNATIVES: usize = 32;
/// So many bytes of the value of an attribute cost as much as a class.
const BYTES_OF_COMPARISON: usize = 16;

/// An element as selectors see it.
#[derive(Debug, Default)]
pub(crate) struct Subject {
    name: String,
    id: Option<String>,
    pub(crate) classes: Vec<String>,
    attributes: Vec<(String, String)>,
    /// What it costs to look for an attribute.
    attribute_cost: usize,
    /// Its number among the elements in the same one, from 1 on, and the element before it.
    index: i64,
    before: Option<Box<Subject>>,
}

/// The elements within another one so far.
#[derive(Debug, Default)]
pub(crate) struct Siblings {
    count: i64,
    last: Option<Subject>,
}

impl Siblings {
    /// An element begins.
    pub(crate) fn begin(&mut self, subject: &mut Subject) {
        self.count += 1;
        subject.index = self.count;
        subject.before = self.last.take().map(Box::new);
    }

    /// An element has ended.
    pub(crate) fn end(&mut self, subject: Subject) {
        self.last = Some(Subject { before: None, ..subject });
    }
}

impl Subject {
    pub(crate) fn new(tag: &Tag) -> Subject {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let class = tag.attribute("class").unwrap_or_default();
        // Scripts run where people read pages, and take this class away.
        let is_shown = |class: &&str| !(*class == "no-js" && matches!(&*tag.name, b"html" | b"body"));
        let values = || tag.attributes.iter().filter(|(_, value)| value.len() <= MAX_VALUE);
        Subject {
            name: text(&tag.name),
            id: tag.attribute("id"),
            classes: class
                .split_ascii_whitespace()
                .filter(is_shown)
                .take(MAX_CLASSES)
                .map(str::to_owned)
                .collect(),
            attributes: values().map(|(name, value)| (text(name), text(value))).collect(),
            attribute_cost: values().map(|(_, value)| 1 + value.len() / BYTES_OF_COMPARISON).sum(),
            index: 0,
            before: None,
        }
    }

    /// What selectors for it are found by: its name, its id, its classes, and that it is an element.
    pub(crate) fn keys(&self) -> impl Iterator<Item = String> {
        let id = self.id.iter().map(|id| format!("#{id}"));
        let classes = self.classes.iter().map(|class| format!(".{class}"));
        [self.name.clone(), "*".to_owned()].into_iter().chain(id).chain(classes)
    }
}

/// A selector: what an element must be, and what must be around it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    /// From the outermost on, each with how near the next one is.
    around: Vec<(Compound, Nearness)>,
    own: Compound,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nearness {
    /// Directly within it.
    Child,
    /// Anywhere within it.
    Descendant,
}

impl Selector {
    /// Reads a selector, and whether it is known. Of one that is not, what is known of it: it may be for fewer elements.
    /// `None` for what is no selector.
    pub(crate) fn parse(text: &str) -> Option<(Selector, bool)> {
        let (mut selector, mut is_known) = (Selector::default(), true);
        let (mut rest, mut before) = (text.trim(), None);
        loop {
            let (mut compound, after) = Compound::parse(rest, 0)?;
            compound.before = std::mem::take(&mut before);
            is_known &= !compound.has_unknown;
            let behind = after.trim_start();
            if behind.is_empty() {
                selector.own = compound;
                return Some((selector, is_known));
            }
            let sign = behind.chars().next().filter(|sign| ">+~".contains(*sign));
            if sign.is_none() && behind == after {
                return None;
            }
            rest = behind[sign.map_or(0, char::len_utf8)..].trim_start();
            match sign {
                // What is around an element is around the one behind it.
                Some('+') => {
                    // What was in the element before is not known.
                    is_known &= compound.before.is_none() && !compound.forget_content();
                    before = Some(Box::new(Compound { before: None, ..compound }));
                }
                Some('~') => is_known = false,
                sign => {
                    let nearness = if sign.is_some() { Nearness::Child } else { Nearness::Descendant };
                    // Every page has a body, whether it is written or not.
                    if nearness == Nearness::Child || !compound.is_of_every_page() {
                        selector.around.push((compound, nearness));
                    }
                }
            }
            if selector.around.len() > MAX_PARTS {
                return None;
            }
        }
    }

    /// Whether it looks at the elements around.
    pub(crate) fn looks_around(&self) -> bool {
        !self.around.is_empty() || self.own.looks_around()
    }

    /// Whether it is for nothing, as a page is read.
    pub(crate) fn is_never(&self) -> bool {
        let is_never = |compound: &Compound| compound.is_never || compound.is_empty;
        is_never(&self.own) || self.around.iter().any(|(compound, _)| is_never(compound))
    }

    /// Which of two rules for an element counts: that with the larger number.
    pub(crate) fn specificity(&self) -> usize {
        self.around.iter().map(|(compound, _)| compound.specificity()).sum::<usize>() + self.own.specificity()
    }

    /// What an element must have; there may be more.
    pub(crate) fn key(&self) -> String {
        let Compound { id, classes, element, .. } = &self.own;
        match (id, classes.first(), element) {
            (Some(id), _, _) => format!("#{id}"),
            (_, Some(class), _) => format!(".{class}"),
            (_, _, element) => element.clone().unwrap_or_else(|| "*".to_owned()),
        }
    }

    /// Whether it is for an element within others, the outermost of which is the first. Adds its comparisons to `compared`.
    pub(crate) fn matches(&self, subject: &Subject, around: &[Subject], compared: &Cell<usize>) -> bool {
        if !self.own.matches(subject, compared) {
            return false;
        }
        let around = &around[around.len().saturating_sub(MAX_AROUND)..];
        // A bit for each element around: whether the next part may be it. The bit behind them is for the element itself.
        let mut possible = u128::MAX;
        for (compound, nearness) in &self.around {
            let matching =
                around.iter().enumerate().filter(|(_, element)| compound.matches(element, compared));
            let found = matching.fold(0u128, |bits, (at, _)| bits | 1 << at) & possible;
            possible = match nearness {
                Nearness::Child => found << 1,
                Nearness::Descendant if found == 0 => 0,
                Nearness::Descendant => u128::MAX << (found.trailing_zeros() + 1),
            };
        }
        possible >> around.len() & 1 == 1
    }
}

/// What one element must be.
#[derive(Clone, Debug, Default)]
struct Compound {
    element: Option<String>,
    id: Option<String>,
    classes: Vec<String>,
    attributes: Vec<(String, Test)>,
    /// Its number among its siblings: `2n+1` is (2, 1).
    numbers: Vec<(i64, i64)>,
    /// Lists of which it must be one, or must not be any, and what each adds to the specificity.
    alternatives: Vec<Alternatives>,
    /// The element before it.
    before: Option<Box<Compound>>,
    /// Whether it is of a state in which nothing is when a page is read, and whether there is more that is not known.
    is_never: bool,
    has_unknown: bool,
    /// Whether nothing is in it. An element with text, or one around another, is never so.
    is_empty: bool,
}

#[derive(Clone, Debug)]
struct Alternatives {
    compounds: Vec<Compound>,
    is_negated: bool,
    specificity: usize,
}

/// What the value of an attribute must be.
#[derive(Clone, Debug)]
enum Test {
    Any,
    Is(String),
    HasWord(String),
    Begins(String),
    Ends(String),
    Contains(String),
    /// This, or this and a hyphen.
    Language(String),
}

impl Test {
    /// What stands behind the name of an attribute: `~="word"`.
    fn parse(text: &str) -> Option<Test> {
        let text = text.trim();
        if text.is_empty() {
            return Some(Test::Any);
        }
        let (sign, value) = text.split_once('=')?;
        let value = value.trim();
        let quoted = ['"', '\''].iter().find_map(|mark| value.strip_prefix(*mark)?.strip_suffix(*mark));
        let value = quoted.unwrap_or(value).to_owned();
        Some(match sign {
            "" => Test::Is(value),
            "~" => Test::HasWord(value),
            "^" => Test::Begins(value),
            "$" => Test::Ends(value),
            "*" => Test::Contains(value),
            "|" => Test::Language(value),
            _ => return None,
        })
    }

    fn accepts(&self, value: &str) -> bool {
        match self {
            Test::Any => true,
            Test::Is(wanted) => value == wanted,
            Test::HasWord(wanted) => value.split_ascii_whitespace().any(|word| word == wanted),
            Test::Begins(wanted) => !wanted.is_empty() && value.starts_with(wanted),
            Test::Ends(wanted) => !wanted.is_empty() && value.ends_with(wanted),
            Test::Contains(wanted) => !wanted.is_empty() && value.contains(wanted),
            Test::Language(wanted) => value
                .strip_prefix(wanted.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-')),
        }
    }
}

impl Compound {
    /// Reads one from the beginning of a text. Returns the text behind it too.
    fn parse(text: &str, depth: usize) -> Option<(Compound, &str)> {
        let mut compound = Compound::default();
        let (element, mut rest) = name(text);
        match element.is_empty() {
            false => compound.element = Some(element.to_ascii_lowercase()),
            true => rest = rest.strip_prefix('*').unwrap_or(rest),
        }
        loop {
            let Some(sign) = rest.chars().next().filter(|sign| ".#[:".contains(*sign)) else {
                return (rest.len() < text.len()).then_some((compound, rest));
            };
            let (own, after) = name(&rest[1..]);
            rest = after;
            match sign {
                '.' | '#' if own.is_empty() => return None,
                '.' => compound.classes.push(own),
                '#' => compound.id = Some(own),
                '[' => {
                    let (test, after) = after.split_once(']')?;
                    compound.attributes.push((own.to_ascii_lowercase(), Test::parse(test)?));
                    rest = after;
                }
                // Another sign stands before a part that is no element: a line, a letter, a scroll bar.
                _ if own.is_empty() => {
                    compound.is_never = true;
                    rest = name(rest.strip_prefix(':')?).1;
                    rest = inner(rest).map_or(rest, |(_, after)| after);
                }
                _ => {
                    let argument = inner(rest);
                    rest = argument.map_or(rest, |(_, after)| after);
                    compound.add_state(&own.to_ascii_lowercase(), argument.map(|(inner, _)| inner), depth);
                }
            }
        }
    }

    /// Adds what stands behind a colon.
    fn add_state(&mut self, state: &str, argument: Option<&str>, depth: usize) {
        match (state, argument) {
            ("root", None) => self.element = Some("html".to_owned()),
            ("first-child", None) => self.numbers.push((0, 1)),
            ("nth-child", Some(text)) => match numbers(text) {
                Some(numbers) => self.numbers.push(numbers),
                None => self.has_unknown = true,
            },
            ("not" | "is" | "where" | "matches" | "-webkit-any" | "-moz-any", Some(list)) => {
                match Compound::list(list, depth) {
                    Some(compounds) => {
                        let specificity = compounds.iter().map(Compound::specificity).max().unwrap_or(0);
                        self.alternatives.push(Alternatives {
                            compounds,
                            is_negated: state == "not",
                            specificity: if state == "where" { 0 } else { specificity },
                        });
                    }
                    None => self.has_unknown = true,
                }
            }
            ("checked" | "disabled" | "required" | "open", None) => {
                self.attributes.push((state.to_owned(), Test::Any));
            }
            ("link" | "any-link" | "enabled" | "defined" | "optional", None) => {}
            ("empty", None) => self.is_empty = true,
            (
                "has" | "lang" | "dir" | "last-child" | "only-child" | "nth-last-child" | "first-of-type"
                | "last-of-type" | "nth-of-type" | "nth-last-of-type" | "only-of-type",
                _,
            ) => self.has_unknown = true,
            // What a reader does with the mouse and the keys, and parts that browsers add.
            _ => self.is_never = true,
        }
    }

    /// A list of what one element may be.
    fn list(text: &str, depth: usize) -> Option<Vec<Compound>> {
        let one = |text: &str| {
            let (compound, behind) = Compound::parse(text.trim(), depth + 1)?;
            (behind.is_empty() && !compound.has_unknown).then_some(compound)
        };
        if depth >= MAX_DEPTH {
            return None;
        }
        let parts = split(text, |c| c == ',');
        (parts.len() <= MAX_ALTERNATIVES).then(|| parts.into_iter().map(one).collect())?
    }

    /// Whether it depends on what is in the element.
    fn asks_for_content(&self) -> bool {
        let mut inner = self.alternatives.iter().flat_map(|alternatives| &alternatives.compounds);
        self.is_empty || inner.any(Compound::asks_for_content)
    }

    /// Leaves out what depends on what is in the element. Returns whether there was any.
    fn forget_content(&mut self) -> bool {
        let count = self.alternatives.len();
        self.alternatives
            .retain(|alternatives| !alternatives.compounds.iter().any(Compound::asks_for_content));
        std::mem::take(&mut self.is_empty) || self.alternatives.len() < count
    }

    fn is_of_every_page(&self) -> bool {
        matches!(self.element.as_deref(), Some("html" | "body")) && self.specificity() == 1
    }

    fn looks_around(&self) -> bool {
        let look_around =
            |alternatives: &Alternatives| alternatives.compounds.iter().any(Compound::looks_around);
        self.before.is_some() || !self.numbers.is_empty() || self.alternatives.iter().any(look_around)
    }

    fn specificity(&self) -> usize {
        let of_classes = (self.classes.len() + self.attributes.len() + self.numbers.len()).min(99) * 100;
        usize::from(self.id.is_some()) * 10_000
            + of_classes
            + usize::from(self.element.is_some())
            + self.alternatives.iter().map(|alternatives| alternatives.specificity).sum::<usize>()
            + self.before.as_ref().map_or(0, |before| before.specificity())
    }

    fn matches(&self, subject: &Subject, compared: &Cell<usize>) -> bool {
        let of_attributes = self.attributes.len() * subject.attribute_cost;
        let cost = 1 + self.classes.len() * subject.classes.len() + of_attributes;
        compared.set(compared.get().saturating_add(cost));
        let has = |(name, test): &(String, Test)| {
            subject.attributes.iter().any(|(known, value)| known == name && test.accepts(value))
        };
        let is_one = |alternatives: &Alternatives| {
            let is_any = alternatives.compounds.iter().any(|compound| compound.matches(subject, compared));
            is_any != alternatives.is_negated
        };
        let is_counted = |(step, first): &(i64, i64)| match (subject.index - first, *step) {
            (behind, 0) => behind == 0,
            (behind, step) => behind % step == 0 && behind / step >= 0,
        };
        !(self.is_never || self.is_empty)
            && self.element.as_deref().is_none_or(|element| element == subject.name)
            && self.id.as_ref().is_none_or(|id| Some(id) == subject.id.as_ref())
            && self.classes.iter().all(|class| subject.classes.contains(class))
            && self.attributes.iter().all(has)
            && self.numbers.iter().all(is_counted)
            && self.alternatives.iter().all(is_one)
            && self.before.as_ref().is_none_or(|before| {
                subject.before.as_ref().is_some_and(|near| before.matches(near, compared))
            })
    }
}

/// The text in the brackets that a text begins with, and what is behind them.
fn inner(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('(')?;
    let end = closing(text)?;
    Some((&text[..end], &text[end + 1..]))
}

/// `odd`, `3`, `2n+1`, `-n + 3`: a step and a first number.
fn numbers(text: &str) -> Option<(i64, i64)> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_lowercase();
    let number = |text: &str| text.strip_prefix('+').unwrap_or(text).parse::<i32>().ok().map(i64::from);
    match text.as_str() {
        "odd" => Some((2, 1)),
        "even" => Some((2, 0)),
        text => match text.split_once('n') {
            None => Some((0, number(text)?)),
            Some((step, first)) => {
                let step = match step {
                    "" | "+" => 1,
                    "-" => -1,
                    step => number(step)?,
                };
                Some((step, if first.is_empty() { 0 } else { number(first)? }))
            }
        },
    }
}

/// The name that a text begins with, and what is behind it.
fn name(text: &str) -> (String, &str) {
    let (mut own, mut rest) = (String::new(), text);
    loop {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_') || !c.is_ascii();
        let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
        own.push_str(&rest[..end]);
        rest = &rest[end..];
        match rest.strip_prefix('\\').and_then(escaped) {
            Some((character, after)) => {
                own.extend(character);
                rest = after;
            }
            None => return (own, rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_children_are_read() {
        for (text, wanted) in [
            ("odd", Some((2, 1))),
            ("2n", Some((2, 0))),
            ("-n + 3", Some((-1, 3))),
            ("+3n-2", Some((3, -2))),
            ("4", Some((0, 4))),
            ("2n+1 of .a", None),
            ("99999999999n", None),
        ] {
            assert_eq!(numbers(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_not_known_of_a_selector_is_told() {
        for (text, wanted) in [
            (".a > .b", Some(true)),
            (".a + .b:is(p, .c)", Some(true)),
            (".md\\:hidden", Some(true)),
            (".a:hover .b", Some(true)),
            (".a ~ .b", Some(false)),
            (".a:last-child", Some(false)),
            (".a:not(.b .c)", Some(false)),
            ("a + b + c", Some(false)),
            ("{", None),
            (".a .", None),
        ] {
            assert_eq!(Selector::parse(text).map(|(_, is_known)| is_known), wanted, "{text}");
        }
        let deep = format!("{}.a{}", ":not(".repeat(100_000), ")".repeat(100_000));
        assert!(Selector::parse(&deep).is_some_and(|(_, is_known)| !is_known));
    }
}
