//! The rules of style of a page: those of its `<style>` elements, and of the style sheets that it names, where they are
//! in the document.

use std::collections::HashMap;

use super::Tag;
use super::counters::{Counting, makes_numbers};
use super::selector::{Selector, Subject};
use super::style::{Declarations, Declared};

/// Rules of each kind that are used. A page with more is generated, and its other rules decide little.
const MAX_RULES: usize = 20_000;
/// Rules of one class, name or element.
const MAX_RULES_OF_KEY: usize = 32;
/// Style sheets of a page.
const MAX_SHEETS: usize = 64;

/// Finds a style sheet: what its reference is relative to, where an empty name is the page, and the reference. Returns its
/// name and its text.
pub(crate) type Linked<'a> = dyn FnMut(&str, &str) -> Option<(String, String)> + 'a;

/// A rule, and what it says.
#[derive(Debug)]
struct Rule<T> {
    selector: Selector,
    /// How many are before it.
    order: usize,
    said: T,
}

/// The rules of one kind.
#[derive(Debug, Default)]
struct Rules<T> {
    by_key: HashMap<String, Vec<Rule<T>>>,
    count: usize,
}

impl<T> Rules<T> {
    fn add(&mut self, selector: Selector, said: T) {
        if self.count < MAX_RULES {
            let rules = self.by_key.entry(selector.key()).or_default();
            if rules.len() < MAX_RULES_OF_KEY {
                rules.push(Rule { selector, order: self.count, said });
                self.count += 1;
            }
        }
    }

    /// What the rules for an element say; the last one counts most.
    fn matching(&self, subject: &Subject, around: &[Subject]) -> impl Iterator<Item = &T> {
        let mut matching: Vec<&Rule<T>> = subject
            .keys()
            .filter_map(|key| self.by_key.get(&key))
            .flatten()
            .filter(|rule| rule.selector.matches(subject, around))
            .collect();
        matching.sort_by_key(|rule| (rule.selector.specificity(), rule.order));
        matching.into_iter().map(|rule| &rule.said)
    }
}

/// The rules of a page.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    declared: Rules<Declarations>,
    counting: Rules<Counting>,
    /// Those for what stands before an element.
    before: Rules<Counting>,
    sheets: usize,
    /// Whether a rule looks at the elements around.
    pub(super) looks_around: bool,
    /// Whether something else may give elements a background.
    pub(super) hides_background: bool,
    /// Whether rules make numbers, and how many that do so are not known.
    pub(super) has_numbers: bool,
    pub(super) unknown_numbers: usize,
}

impl Sheet {
    /// Reads a style sheet that the page or a style sheet of this name refers to.
    pub(super) fn link(&mut self, base: &str, reference: &str, linked: &mut Linked) {
        self.sheets += 1;
        let found = if self.sheets <= MAX_SHEETS { linked(base, reference) } else { None };
        match found {
            Some((name, text)) => self.read(&name, &text, linked),
            None => self.hides_background = true,
        }
    }

    /// Reads a style sheet of this name, or what is in a `<style>` element.
    pub(super) fn read(&mut self, base: &str, text: &str, linked: &mut Linked) {
        let mut rest = &*without_comments(text);
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '}' || c == ';');
            let Some(at) = rest.find(['{', ';']) else { return };
            let (prelude, after) = (rest[..at].trim(), &rest[at + 1..]);
            if rest[at..].starts_with(';') {
                if let Some(reference) = prelude.strip_prefix("@import").and_then(imported) {
                    self.link(base, reference, linked);
                }
                rest = after;
            } else if let Some(rule) = prelude.strip_prefix('@') {
                let rule = rule.to_ascii_lowercase();
                let condition = rule.strip_prefix("media").map(str::trim);
                // What holds on each screen: its rules follow. Others are passed over.
                rest = match condition {
                    Some("screen" | "all" | "only screen") => after,
                    condition => {
                        let (block, behind) = after.split_at(block_length(after));
                        let is_seen = !condition.is_some_and(|condition| condition.contains("print"));
                        self.unknown_numbers += usize::from(is_seen && makes_numbers(block));
                        behind
                    }
                };
            } else {
                let length = after.find('}').unwrap_or(after.len());
                self.add(prelude, &after[..length]);
                rest = &after[length..];
            }
        }
    }

    fn add(&mut self, selectors: &str, body: &str) {
        let (declared, counting) = (Declarations::parse(body), Counting::parse(body));
        if declared == Declarations::default() && counting.is_empty() {
            return;
        }
        let mut unknown = 0;
        for text in selectors.split(',') {
            let before =
                ["::before", ":before", "::marker"].iter().find_map(|part| text.trim().strip_suffix(part));
            if let Some(text) = before {
                self.add_before(text, &counting);
                continue;
            }
            let Some(selector) = Selector::parse(text) else {
                self.hides_background |= declared.together().background.is_some();
                unknown += 1;
                continue;
            };
            self.looks_around |= selector.looks_around();
            if !counting.is_empty() {
                self.counting.add(selector.clone(), counting.clone());
            }
            if declared != Declarations::default() {
                self.declared.add(selector, declared);
            }
        }
        if unknown > 0 && makes_numbers(body) {
            self.unknown_numbers += unknown;
        }
    }

    /// Adds a rule for what stands before an element; an empty selector is for each.
    fn add_before(&mut self, selector: &str, counting: &Counting) {
        if counting.is_empty() {
            return;
        }
        let selector = if selector.trim().is_empty() { "*" } else { selector };
        let Some(selector) = Selector::parse(selector) else {
            self.unknown_numbers += usize::from(counting.has_number());
            return;
        };
        self.has_numbers |= counting.has_number();
        self.looks_around |= selector.looks_around();
        self.before.add(selector, counting.clone());
    }

    /// An element as the rules see it. None if no rule changes how elements look or makes numbers.
    pub(super) fn subject(&self, tag: &Tag) -> Option<Subject> {
        (self.declared.count > 0 || self.has_numbers).then(|| Subject::new(tag))
    }

    /// What rules and attributes say of an element within others, the outermost of which is the first. Its subject is
    /// that of [`Sheet::subject`].
    pub(super) fn of(&self, tag: &Tag, subject: Option<&Subject>, around: &[Subject]) -> Declared {
        let own = tag.attribute("style").map(|style| Declarations::parse(&style)).unwrap_or_default();
        let Some(subject) = subject else { return own.together() };
        let matching: Vec<Declarations> = self.declared.matching(subject, around).copied().collect();
        let all = || matching.iter().copied().chain([own]);
        let usual = all().map(|declared| declared.usual);
        usual.chain(all().map(|declared| declared.important)).fold(Declared::default(), Declared::replaced_by)
    }

    /// What rules and attributes say of the counters of an element, and of what stands before it.
    pub(super) fn counting(&self, tag: &Tag, subject: &Subject, around: &[Subject]) -> (Counting, Counting) {
        let of = |rules: &Rules<Counting>| {
            rules.matching(subject, around).fold(Counting::default(), Counting::replaced_by)
        };
        let own = tag.attribute("style").map(|style| Counting::parse(&style)).unwrap_or_default();
        (of(&self.counting).replaced_by(&own), of(&self.before))
    }
}

/// The reference of `@import url("a.css") screen`, unless it is for printing.
fn imported(text: &str) -> Option<&str> {
    let text = text.trim();
    let inner = text.strip_prefix("url(").and_then(|inner| inner.split_once(')'));
    let (reference, condition) = match inner {
        Some((reference, condition)) => (reference.trim().trim_matches(['"', '\'']), condition),
        None => {
            let mark = text.chars().next().filter(|mark| matches!(mark, '"' | '\''))?;
            text[1..].split_once(mark)?
        }
    };
    (!condition.contains("print")).then_some(reference)
}

fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        kept.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    kept + rest
}

/// Bytes up to the end of the block that begins before this text.
fn block_length(text: &str) -> usize {
    let mut depth = 1;
    for (at, c) in text.bytes().enumerate() {
        match c {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sheet: &str, element: &str, class: &str, style: &str) -> Declared {
        let mut rules = Sheet::default();
        rules.read("", sheet, &mut |_, _| None);
        let attribute = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        let attributes = vec![attribute("class", class), attribute("style", style), attribute("id", "i")];
        let tag = Tag { name: element.as_bytes().to_vec(), attributes, is_closed: false };
        rules.of(&tag, rules.subject(&tag).as_ref(), &[])
    }

    #[test]
    fn simple_rules_are_found() {
        for sheet in [
            ".a{display:none}",
            "p { display : none ! important }",
            "/* p{} */ b, p.a { color: red; display: none }",
            "#i{display:none} p{display:block}",
            "@media print{ p{display:block} } @media screen { .a { display:none } }",
            "@charset 'x'; @font-face { src: x } .b.a { display: none }",
        ] {
            assert_eq!(of(sheet, "p", "a b", "").is_absent, Some(true), "{sheet}");
        }
        for sheet in [
            ".c{display:none}",
            "div p{display:none}",
            ".a:hover{display:none}",
            "@media print{.a{display:none}}",
            ".a{display:none} .a.b{display:block}",
            "@media print{.a{color:red}.a{display:none}} .b{color:red}",
        ] {
            assert_ne!(of(sheet, "p", "a b", "").is_absent, Some(true), "{sheet}");
        }
        assert_eq!(of(".a{display:none}", "p", "a", "display:inline").is_absent, Some(false));
    }
}
