//! Selectors of CSS: which elements a rule is for. Those that look at states or at neighbours are not known.

use super::Tag;

/// Elements around another one that are looked at, from the innermost on, and parts of a selector.
const MAX_AROUND: usize = 100;
const MAX_PARTS: usize = 16;
/// Classes of an element, and the longest value of an attribute that is looked at, in bytes.
const MAX_CLASSES: usize = 32;
const MAX_VALUE: usize = 1000;

/// An element as selectors see it.
#[derive(Debug, Default)]
pub(super) struct Subject {
    name: String,
    id: Option<String>,
    pub(super) classes: Vec<String>,
    attributes: Vec<(String, String)>,
}

impl Subject {
    pub(super) fn new(tag: &Tag) -> Subject {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let class = tag.attribute("class").unwrap_or_default();
        // Scripts run where people read pages, and take this class away.
        let is_shown = |class: &&str| !(*class == "no-js" && matches!(&*tag.name, b"html" | b"body"));
        Subject {
            name: text(&tag.name),
            id: tag.attribute("id"),
            classes: class
                .split_ascii_whitespace()
                .filter(is_shown)
                .take(MAX_CLASSES)
                .map(str::to_owned)
                .collect(),
            attributes: tag
                .attributes
                .iter()
                .filter(|(_, value)| value.len() <= MAX_VALUE)
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
        }
    }

    /// What selectors for it are found by: its name, its id, its classes, and that it is an element.
    pub(super) fn keys(&self) -> impl Iterator<Item = String> {
        let id = self.id.iter().map(|id| format!("#{id}"));
        let classes = self.classes.iter().map(|class| format!(".{class}"));
        [self.name.clone(), "*".to_owned()].into_iter().chain(id).chain(classes)
    }
}

/// A selector: what an element must be, and what must be around it.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
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
    /// `None` for one that is not known.
    pub(super) fn parse(text: &str) -> Option<Selector> {
        let mut selector = Selector::default();
        let mut rest = text.trim();
        loop {
            let (compound, after) = Compound::parse(rest)?;
            let behind = after.trim_start();
            if behind.is_empty() {
                selector.own = compound;
                return Some(selector);
            }
            let nearness = if behind.starts_with('>') { Nearness::Child } else { Nearness::Descendant };
            // Every page has a body, whether it is written or not.
            if nearness == Nearness::Child || !compound.is_of_every_page() {
                selector.around.push((compound, nearness));
            }
            if selector.around.len() > MAX_PARTS || (nearness == Nearness::Descendant && behind == after) {
                return None;
            }
            rest = behind.strip_prefix('>').unwrap_or(behind).trim_start();
        }
    }

    /// Whether it looks at the elements around.
    pub(super) fn looks_around(&self) -> bool {
        !self.around.is_empty()
    }

    /// Which of two rules for an element counts: that with the larger number.
    pub(super) fn specificity(&self) -> usize {
        self.around.iter().map(|(compound, _)| compound.specificity()).sum::<usize>() + self.own.specificity()
    }

    /// What an element must have; there may be more.
    pub(super) fn key(&self) -> String {
        let Compound { id, classes, element, .. } = &self.own;
        match (id, classes.first(), element) {
            (Some(id), _, _) => format!("#{id}"),
            (_, Some(class), _) => format!(".{class}"),
            (_, _, element) => element.clone().unwrap_or_else(|| "*".to_owned()),
        }
    }

    /// Whether it is for an element within others, the outermost of which is the first.
    pub(super) fn matches(&self, subject: &Subject, around: &[Subject]) -> bool {
        if !self.own.matches(subject) {
            return false;
        }
        let around = &around[around.len().saturating_sub(MAX_AROUND)..];
        // A bit for each element around: whether the next part may be it. The bit behind them is for the element itself.
        let mut possible = u128::MAX;
        for (compound, nearness) in &self.around {
            let matching = around.iter().enumerate().filter(|(_, element)| compound.matches(element));
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
    excluded: Vec<Compound>,
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
    fn parse(text: &str) -> Option<(Compound, &str)> {
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
            match (sign, own) {
                ('.' | '#', "") => return None,
                ('.', class) => compound.classes.push(class.to_owned()),
                ('#', id) => compound.id = Some(id.to_owned()),
                ('[', attribute) => {
                    let (test, after) = after.split_once(']')?;
                    compound.attributes.push((attribute.to_ascii_lowercase(), Compound::test(test)?));
                    rest = after;
                }
                (_, "root") => compound.element = Some("html".to_owned()),
                (_, "not") => {
                    let (excluded, after) = after.strip_prefix('(')?.split_once(')')?;
                    let (excluded, behind) = Compound::parse(excluded.trim())?;
                    compound.excluded.push(excluded);
                    if !behind.is_empty() {
                        return None;
                    }
                    rest = after;
                }
                _ => return None,
            }
        }
    }

    /// What stands behind the name of an attribute: `~="word"`.
    fn test(text: &str) -> Option<Test> {
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

    fn is_of_every_page(&self) -> bool {
        matches!(self.element.as_deref(), Some("html" | "body")) && self.specificity() == 1
    }

    fn specificity(&self) -> usize {
        let of_classes = (self.classes.len() + self.attributes.len()).min(99) * 100;
        usize::from(self.id.is_some()) * 10_000
            + of_classes
            + usize::from(self.element.is_some())
            + self.excluded.iter().map(Compound::specificity).sum::<usize>()
    }

    fn matches(&self, subject: &Subject) -> bool {
        let has = |(name, test): &(String, Test)| {
            subject.attributes.iter().any(|(known, value)| known == name && test.accepts(value))
        };
        self.element.as_deref().is_none_or(|element| element == subject.name)
            && self.id.as_ref().is_none_or(|id| Some(id) == subject.id.as_ref())
            && self.classes.iter().all(|class| subject.classes.contains(class))
            && self.attributes.iter().all(has)
            && !self.excluded.iter().any(|excluded| excluded.matches(subject))
    }
}

/// The name that a text begins with, and what is behind it.
fn name(text: &str) -> (&str, &str) {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_') || !c.is_ascii();
    text.split_at(text.find(|c| !is_of_name(c)).unwrap_or(text.len()))
}
