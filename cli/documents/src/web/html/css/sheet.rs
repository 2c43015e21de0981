//! The rules of style of a page: those of its `<style>` elements, and of the style sheets that it names, where they are
//! in the document.

use std::cell::Cell;
use std::collections::HashMap;

use super::counter_styles::CounterStyles;
use super::counters::{Counting, makes_numbers};
use super::media;
use super::selector::{Selector, Subject};
use super::style::{Declarations, Declared, important};
use super::values::{block_length, declarations, find, split, words};
use crate::color::Color;
use crate::web::html::Tag;

/// Rules of each kind that are used. A page with more is generated, and its other rules decide little.
const MAX_RULES: usize = 20_000;
/// Rules of one class, name or element.
const MAX_RULES_OF_KEY: usize = 1_000;
/// Style sheets of a page, and layers of them.
const MAX_SHEETS: usize = 64;
const MAX_LAYERS: usize = 1_000;
/// The layer of rules that are in none: they count more than those of layers.
const UNLAYERED: usize = usize::MAX;
/// Rules within each other, and selectors of one; the longest selector, in bytes.
const MAX_DEPTH: usize = 16;
const MAX_SELECTORS: usize = 256;
const MAX_SELECTOR: usize = 2_000;
/// Comparisons of elements with selectors for a page. A page with more is made to take long.
const MAX_COMPARISONS: usize = 1 << 29;

/// Classes that style sheets mostly hide.
const HIDING: [&str; 11] = [
    "hidden",
    "hide",
    "is-hidden",
    "d-none",
    "display-none",
    "invisible",
    "sr-only",
    "visually-hidden",
    "visuallyhidden",
    "screen-reader-text",
    "offscreen",
];

/// Finds a style sheet: what its reference is relative to, where an empty name is the page, and the reference. Returns its
/// name and its text.
pub(crate) type Linked<'a> = dyn FnMut(&str, &str) -> Option<(String, String)> + 'a;

/// A rule, and what it says.
#[derive(Debug)]
struct Rule<T> {
    selector: Selector,
    /// Its layer, of which the last counts most, and how many rules are before it.
    layer: usize,
    order: usize,
    said: T,
}

/// The rules of one kind.
#[derive(Debug)]
struct Rules<T> {
    by_key: HashMap<String, Vec<Rule<T>>>,
    count: usize,
}

impl<T> Default for Rules<T> {
    fn default() -> Rules<T> {
        Rules { by_key: HashMap::new(), count: 0 }
    }
}

impl<T> Rules<T> {
    /// Adds a rule; false if there are too many.
    #[must_use]
    fn add(&mut self, selector: Selector, layer: usize, said: T) -> bool {
        let rules = self.by_key.entry(selector.key()).or_default();
        let has_room = self.count < MAX_RULES && rules.len() < MAX_RULES_OF_KEY;
        if has_room {
            rules.push(Rule { selector, layer, order: self.count, said });
            self.count += 1;
        }
        has_room
    }

    /// What the rules for an element say; the last one counts most.
    fn matching(
        &self,
        subject: &Subject,
        around: &[Subject],
        compared: &Cell<usize>,
    ) -> impl Iterator<Item = &T> {
        let mut matching: Vec<&Rule<T>> = subject
            .keys()
            .filter_map(|key| self.by_key.get(&key))
            .flatten()
            .take_while(|_| compared.get() < MAX_COMPARISONS)
            .filter(|rule| rule.selector.matches(subject, around, compared))
            .collect();
        matching.sort_by_key(|rule| (rule.layer, rule.selector.specificity(), rule.order));
        matching.into_iter().map(|rule| &rule.said)
    }
}

/// Where in a style sheet a rule is.
#[derive(Clone, Copy)]
struct RulePlace<'a> {
    /// The name of the style sheet; none for one in the page.
    sheet: &'a str,
    layer: usize,
    /// Whether its conditions hold, as far as they are known.
    is_known: bool,
    /// How many blocks are around it.
    depth: usize,
}

impl RulePlace<'_> {
    fn within(self) -> Self {
        RulePlace { depth: self.depth + 1, ..self }
    }
}

/// What is counted of an element.
#[derive(Debug, Default)]
pub(crate) struct Numbering {
    /// Its counters.
    pub(crate) own: Counting,
    /// What stands before and behind it.
    pub(crate) before: Counting,
    pub(crate) after: Counting,
    /// Its mark, if it is an item of a list.
    pub(crate) marker: Counting,
}

/// The rules of a page.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    declared: Rules<Declarations>,
    counting: Rules<Counting>,
    /// Those for what stands before and behind an element.
    before: Rules<Counting>,
    after: Rules<Counting>,
    /// Those for the marks of items.
    markers: Rules<Counting>,
    /// Those that hide elements, if they are for them, which is not known.
    doubtful: Rules<()>,
    pub(crate) counter_styles: CounterStyles,
    layers: Vec<String>,
    sheets: usize,
    /// Selectors of rules within others.
    nested: usize,
    /// What names stand for in values; `None` if that depends on the element.
    variables: HashMap<String, Option<String>>,
    /// Comparisons of elements with selectors so far.
    compared: Cell<usize>,
    /// Whether a rule looks at the elements around.
    pub(crate) looks_around: bool,
    /// Whether a style sheet or a rule is not read.
    is_partial: bool,
    /// Whether something else may give elements a background.
    pub(crate) hides_background: bool,
    /// Whether rules make numbers or texts, and how many that do so are not known.
    pub(crate) has_numbers: bool,
    unknown_numbers: usize,
}

impl Sheet {
    /// Reads a style sheet that the page refers to. `is_known` is whether its conditions hold for sure.
    pub(crate) fn link(&mut self, reference: &str, is_known: bool, linked: &mut Linked) {
        self.link_from(RulePlace { sheet: "", layer: UNLAYERED, is_known, depth: 0 }, reference, linked);
    }

    /// Reads what is in a `<style>` element. `is_known` is whether its conditions hold for sure.
    pub(crate) fn read(&mut self, text: &str, is_known: bool, linked: &mut Linked) {
        let place = RulePlace { sheet: "", layer: UNLAYERED, is_known, depth: 0 };
        self.read_block(place, &without_comments(text), linked);
    }

    fn link_from(&mut self, place: RulePlace, reference: &str, linked: &mut Linked) {
        self.sheets += 1;
        let found = if self.sheets <= MAX_SHEETS { linked(place.sheet, reference) } else { None };
        match found {
            Some((name, text)) => {
                let place = RulePlace { sheet: &name, ..place }.within();
                self.read_block(place, &without_comments(&text), linked);
            }
            None => self.lose(true),
        }
    }

    /// A style sheet or a rule may not be read.
    fn lose(&mut self, is_lost: bool) {
        self.is_partial |= is_lost;
        self.hides_background |= is_lost;
    }

    /// Reads rules.
    fn read_block(&mut self, place: RulePlace, text: &str, linked: &mut Linked) {
        let mut rest = text;
        while let Some((prelude, block)) = next_rule(&mut rest) {
            match (prelude.strip_prefix('@'), block) {
                (None, Some(block)) => self.rule(place, &[prelude], block),
                (None, None) => {}
                (Some(rule), None) => self.statement(place, rule, linked),
                (Some(rule), Some(block)) => {
                    if let Some(place) = self.enter(place, rule, block) {
                        self.read_block(place, block, linked);
                    }
                }
            }
        }
    }

    /// A rule without a block: of another style sheet, or the order of layers.
    fn statement(&mut self, place: RulePlace, rule: &str, linked: &mut Linked) {
        if let Some(names) = rule.strip_prefix("layer") {
            names.split(',').for_each(|name| _ = self.layer(place, name));
        } else if let Some((reference, condition)) = rule.strip_prefix("import").and_then(imported) {
            let place = match condition.strip_prefix("layer") {
                Some(name) => {
                    let name = name.split_once(')').map_or("", |(name, _)| name.trim_start_matches('('));
                    RulePlace { layer: self.layer(place, name), ..place }
                }
                None => place,
            };
            let is_query = |word: &&str| !word.starts_with("layer") && !word.starts_with("supports(");
            let queries = words(condition).filter(is_query).collect::<Vec<_>>().join(" ");
            let supports = |word: &str| word.strip_prefix("supports(").map(media::supports);
            let supported = words(condition).find_map(supports).unwrap_or(Some(true));
            match media::all(&[media::holds(&queries), supported]) {
                Some(false) => {}
                holds => self.link_from(
                    RulePlace { is_known: place.is_known && holds.is_some(), ..place },
                    reference,
                    linked,
                ),
            }
        }
    }

    /// Where the rules in the block of another rule are; `None` if they are for nothing that is read.
    fn enter<'a>(&mut self, place: RulePlace<'a>, rule: &str, block: &str) -> Option<RulePlace<'a>> {
        if place.depth >= MAX_DEPTH {
            return None;
        }
        let (name, condition) =
            rule.split_at(rule.find(|c: char| !c.is_ascii_alphabetic() && c != '-').unwrap_or(rule.len()));
        let holds = match name.to_ascii_lowercase().as_str() {
            "media" => media::holds(condition),
            "supports" => media::supports(condition),
            "layer" => {
                return Some(RulePlace { layer: self.layer(place, condition), ..place }.within());
            }
            "counter-style" => {
                self.counter_styles.define(condition, block);
                Some(false)
            }
            "container" | "scope" | "document" | "-moz-document" => None,
            _ => Some(false),
        };
        match holds {
            Some(false) => None,
            holds => Some(RulePlace { is_known: place.is_known && holds.is_some(), ..place }.within()),
        }
    }

    /// The number of a layer. Layers within one count as that one.
    fn layer(&mut self, place: RulePlace, name: &str) -> usize {
        if place.layer != UNLAYERED {
            return place.layer;
        }
        let name = name.trim();
        let known = self.layers.iter().position(|known| known == name).filter(|_| !name.is_empty());
        known.unwrap_or_else(|| {
            if self.layers.len() < MAX_LAYERS {
                self.layers.push(name.to_owned());
            }
            self.layers.len() - 1
        })
    }

    /// A rule for elements, and those within it.
    fn rule(&mut self, place: RulePlace, selectors: &[&str], block: &str) {
        let is_short = |selector: &&str| selector.len() <= MAX_SELECTOR;
        let mut parts = selectors.iter().flat_map(|list| split(list, |c| c == ','));
        let all: Vec<&str> = parts.by_ref().take(MAX_SELECTORS).collect();
        let selectors: Vec<&str> = all.iter().copied().filter(is_short).collect();
        self.lose(selectors.len() < all.len() || parts.next().is_some());
        let (mut rest, mut own) = (block, String::new());
        while let Some((prelude, inner)) = next_rule(&mut rest) {
            match (prelude.strip_prefix('@'), inner) {
                (None, None) => own.extend([prelude, ";"]),
                (None, Some(inner)) if place.depth < MAX_DEPTH && self.nested < MAX_RULES => {
                    let parts = split(prelude, |c| c == ',').into_iter();
                    let each = parts
                        .flat_map(|part| selectors.iter().filter_map(move |around| nested(around, part)));
                    let nested: Vec<String> = each.take(MAX_SELECTORS).collect();
                    self.nested += nested.len();
                    let nested: Vec<&str> = nested.iter().map(String::as_str).collect();
                    self.rule(place.within(), &nested, inner);
                }
                (Some(rule), Some(inner)) if self.nested < MAX_RULES => {
                    if let Some(place) = self.enter(place, rule, inner) {
                        self.nested += selectors.len();
                        self.rule(place, &selectors, inner);
                    }
                }
                (_, Some(_)) => self.lose(true),
                (Some(_), None) => {}
            }
        }
        self.add(place, &selectors, &own);
    }

    fn add(&mut self, place: RulePlace, selectors: &[&str], body: &str) {
        let with_values = body.contains("--").then(|| self.with_values(body));
        let body = with_values.as_deref().unwrap_or(body);
        let said: Vec<_> = declarations(body).collect();
        let may_hide = said.iter().any(|(name, value)| is_open(name, value));
        self.define(&said);
        let (declared, counting) = (Declarations::of(&said), Counting::of(&said));
        let has_declared = declared != Declarations::default();
        if !has_declared && counting.is_empty() && !may_hide {
            return;
        }
        let together = declared.together();
        let mut unknown = 0;
        for text in selectors {
            let (text, part) = without_part(text.trim());
            let Some((selector, is_known)) = Selector::parse(text) else { continue };
            if selector.is_never() {
                continue;
            }
            if !(is_known && place.is_known) {
                self.hides_background |= together.background.is_some();
                unknown += 1;
                if part == RulePart::Element && together.is_seen() == Some(false) {
                    self.looks_around |= selector.looks_around();
                    let is_kept = self.doubtful.add(selector, place.layer, ());
                    self.lose(!is_kept);
                }
                continue;
            }
            self.looks_around |= selector.looks_around();
            if part == RulePart::Element {
                if may_hide {
                    let is_kept = self.doubtful.add(selector.clone(), place.layer, ());
                    self.lose(!is_kept);
                }
                if has_declared {
                    let is_kept = self.declared.add(selector.clone(), place.layer, declared.clone());
                    self.lose(!is_kept);
                }
                if counting.counts() {
                    let is_kept = self.counting.add(selector, place.layer, counting.clone());
                    self.unknown_numbers += usize::from(!is_kept);
                }
                continue;
            }
            let mut counting = counting.clone();
            counting.is_hidden = together.is_seen().map(|is_seen| !is_seen);
            let is_mark = part == RulePart::Marker && counting.is_ornament();
            self.has_numbers |= counting.has_text() || is_mark;
            let rules = match part {
                RulePart::Marker => &mut self.markers,
                RulePart::After => &mut self.after,
                RulePart::Before | RulePart::Element => &mut self.before,
            };
            if !counting.is_empty() && !rules.add(selector, place.layer, counting) {
                self.unknown_numbers += 1;
            }
        }
        if unknown > 0 && makes_numbers(body) {
            self.unknown_numbers += unknown;
        }
    }

    /// Remembers the variables of a rule.
    fn define(&mut self, said: &[(String, &str)]) {
        for (name, value) in said.iter().filter(|(name, _)| name.starts_with("--")) {
            if let Some(known) = self.variables.get_mut(name) {
                *known = known.take().filter(|known| known == value);
            } else if self.variables.len() < MAX_RULES {
                self.variables.insert(name.clone(), Some((*value).to_owned()));
            }
        }
    }

    /// Declarations with the values of the variables that decide what is seen, where they are known.
    fn with_values(&self, body: &str) -> String {
        let written = declarations(body).map(|(name, value)| {
            let own = important(value).unwrap_or(value);
            let variable = variable(own).filter(|_| is_open(&name, value));
            // One that is declared later, or nowhere, leaves it open.
            let known = variable.and_then(|variable| self.variables.get(&variable)?.as_deref());
            format!("{name}:{}{};", known.unwrap_or(own), &value[own.len()..])
        });
        written.collect()
    }

    /// An element as the rules see it. None if no rule changes how elements look or makes numbers.
    pub(crate) fn subject(&self, tag: &Tag) -> Option<Subject> {
        (self.declared.count + self.doubtful.count > 0 || self.has_numbers).then(|| Subject::new(tag))
    }

    /// What rules and attributes say of an element within others, the outermost of which is the first. Its subject is
    /// that of [`Sheet::subject`].
    pub(crate) fn of(&self, tag: &Tag, subject: Option<&Subject>, around: &[Subject]) -> Declared {
        let own = self.own_style(tag).map(|style| Declarations::parse(&style)).unwrap_or_default();
        let Some(subject) = subject else { return own.together() };
        let matching: Vec<&Declarations> = self.declared.matching(subject, around, &self.compared).collect();
        let all = || matching.iter().copied().chain([&own]);
        let usual = all().map(|declared| &declared.usual);
        usual
            .chain(all().filter_map(|declared| declared.important.as_ref()))
            .fold(self.without_rules(), |before, declared| before.replaced_by(declared.clone()))
    }

    fn own_style(&self, tag: &Tag) -> Option<String> {
        let style = tag.attribute("style")?;
        Some(if style.contains("var(") { self.with_values(&style) } else { style })
    }

    /// Whether rules are not used any more.
    fn is_exhausted(&self) -> bool {
        self.compared.get() >= MAX_COMPARISONS
    }

    /// What is known of an element without the rules for it.
    fn without_rules(&self) -> Declared {
        Declared { background: self.is_exhausted().then_some(Color::Unknown), ..Declared::default() }
    }

    /// Rules that make numbers or texts and are not known.
    pub(crate) fn unknown_numbers(&self) -> usize {
        self.unknown_numbers + usize::from(self.has_numbers && self.is_exhausted())
    }

    /// Whether an element may be hidden by a rule that is not known whole, or by a style sheet that is not read.
    pub(crate) fn may_hide(&self, tag: &Tag, subject: Option<&Subject>, around: &[Subject]) -> bool {
        let is_doubtful = |subject| self.doubtful.matching(subject, around, &self.compared).next().is_some();
        let class = || tag.attribute("class").unwrap_or_default();
        let style = self.own_style(tag).unwrap_or_default();
        (self.doubtful.count > 0 && subject.is_some_and(is_doubtful))
            || style.contains("var(") && declarations(&style).any(|(name, value)| is_open(&name, value))
            || ((self.is_partial || self.is_exhausted())
                && class().split_ascii_whitespace().any(|name| HIDING.contains(&name)))
    }

    /// What rules and attributes say of the counters of an element, and of what stands before and behind it.
    pub(crate) fn numbering(&self, tag: &Tag, subject: &Subject, around: &[Subject]) -> Numbering {
        let of = |rules: &Rules<Counting>| {
            rules.matching(subject, around, &self.compared).fold(Counting::default(), Counting::replaced_by)
        };
        let own = tag.attribute("style").map(|style| Counting::parse(&style)).unwrap_or_default();
        Numbering {
            own: of(&self.counting).replaced_by(&own),
            before: of(&self.before).with_attributes(tag),
            after: of(&self.after).with_attributes(tag),
            marker: of(&self.markers).with_attributes(tag),
        }
    }
}

/// Whether a declaration may hide an element: its value is not known.
fn is_open(name: &str, value: &str) -> bool {
    matches!(name, "display" | "visibility") && value.contains("var(")
}

/// The name of the variable that a value is, as declarations have it.
fn variable(value: &str) -> Option<String> {
    let inner = value.trim().strip_prefix("var(")?.strip_suffix(')')?;
    Some(inner.split(',').next().unwrap_or_default().trim().to_lowercase())
}

/// What a rule is for: an element, its mark in a list, or what stands before or behind it.
#[derive(Clone, Copy, PartialEq)]
enum RulePart {
    Element,
    Before,
    After,
    Marker,
}

/// A selector without the part of an element that it is for. An empty one is for each.
fn without_part(selector: &str) -> (&str, RulePart) {
    const PARTS: [(&str, RulePart); 5] = [
        ("::before", RulePart::Before),
        (":before", RulePart::Before),
        ("::marker", RulePart::Marker),
        ("::after", RulePart::After),
        (":after", RulePart::After),
    ];
    for (name, part) in PARTS {
        if let Some(selector) = selector.strip_suffix(name) {
            return (if selector.is_empty() { "*" } else { selector }, part);
        }
    }
    (selector, RulePart::Element)
}

/// A selector within the block of another one, unless it is too long.
fn nested(around: &str, selector: &str) -> Option<String> {
    let (around, selector) = (around.trim(), selector.trim());
    let signs = selector.matches('&').count().max(1);
    if signs.saturating_mul(around.len()) + selector.len() > MAX_SELECTOR {
        return None;
    }
    Some(match selector.contains('&') {
        true => selector.replace('&', around),
        false => format!("{around} {selector}"),
    })
}

/// What stands before the next block or sign of an end, and the block. Moves on behind it.
fn next_rule<'a>(rest: &mut &'a str) -> Option<(&'a str, Option<&'a str>)> {
    let trimmed =
        |text: &'a str| text.trim_start_matches(|c: char| c.is_whitespace() || c == '}' || c == ';');
    let mut text = trimmed(rest);
    // Old pages hide their rules from browsers that know none.
    while let Some(after) = ["<!--", "-->"].iter().find_map(|sign| text.strip_prefix(sign)) {
        text = trimmed(after);
    }
    if text.is_empty() {
        return None;
    }
    let at = find(text, |c| matches!(c, '{' | ';')).unwrap_or(text.len());
    let prelude = text[..at].trim();
    if !text[at..].starts_with('{') {
        *rest = &text[at..];
        return Some((prelude, None));
    }
    let block = &text[at + 1..];
    let length = block_length(block);
    *rest = &block[length..];
    Some((prelude, Some(block[..length].strip_suffix('}').unwrap_or(&block[..length]))))
}

/// The reference of `@import url("a.css") screen`, and what stands behind it.
fn imported(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    if let Some((reference, condition)) = text.strip_prefix("url(").and_then(|inner| inner.split_once(')')) {
        return Some((reference.trim().trim_matches(['"', '\'']), condition.trim()));
    }
    let mark = text.chars().next().filter(|mark| matches!(mark, '"' | '\''))?;
    let (reference, condition) = text[1..].split_once(mark)?;
    Some((reference, condition.trim()))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sheet: &str, element: &str, class: &str, style: &str) -> Declared {
        let mut rules = Sheet::default();
        rules.read(sheet, true, &mut |_, _| None);
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
