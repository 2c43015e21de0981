//! Numbers of paragraphs in DOCX. The file has only which list a paragraph belongs to, at which level; the numbers follow
//! from counting.

use std::collections::{HashMap, HashSet};

use super::styles::Styles;
use crate::Problem;
use crate::package::Archive;
use crate::package::xml::{self, Element, Piece};
use crate::writer::ordinal::Format;
use crate::writer::symbols;

/// Levels of a list.
const LEVELS: usize = 9;
/// Longest pattern of a number that is used, in bytes.
const MAX_PATTERN: usize = 256;
/// Longest chain of lists that stand for each other. It may be a ring.
const MAX_CHAIN: usize = 8;

/// The place of a paragraph in a list. `None` is for what is not said.
#[derive(Clone, Debug, Default)]
pub(super) struct NumberOf {
    /// The list; `0` is for none.
    pub(super) list: Option<String>,
    /// From 0 on.
    pub(super) level: Option<usize>,
}

impl NumberOf {
    /// Takes a property.
    pub(super) fn set(&mut self, element: &Element) {
        match element.name.as_str() {
            "numId" => self.list = element.attribute("val"),
            "ilvl" => self.level = element.attribute("val").and_then(|level| level.parse().ok()),
            _ => {}
        }
    }

    /// This place, and another one that replaces it.
    pub(super) fn replaced_by(&self, other: &NumberOf) -> NumberOf {
        NumberOf { list: other.list.clone().or_else(|| self.list.clone()), level: other.level.or(self.level) }
    }
}

/// A level of a list.
#[derive(Clone, Debug, Default)]
struct Level {
    start: Option<i64>,
    format: Format,
    /// The number with `%1` for that of the first level, and so on.
    pattern: String,
    /// The style whose paragraphs are of this level.
    style: Option<String>,
    /// The level after which it begins anew, from 1 on; 0 is for never.
    restart: Option<usize>,
    is_decimal: bool,
    /// Whether its format is not known. Its numbers are in digits.
    is_unknown: bool,
    /// The font of a bullet.
    font: String,
}

impl Level {
    fn set(&mut self, element: &Element) {
        let value = || element.attribute("val");
        match element.name.as_str() {
            "start" => self.start = value().and_then(|start| start.parse().ok()),
            "numFmt" => {
                let name = match value() {
                    Some(name) if name == "custom" => element.attribute("format"),
                    name => name,
                };
                let format = name.map(|name| Format::of_word(&name));
                self.is_unknown = format == Some(None);
                self.format = format.flatten().unwrap_or_default();
            }
            "lvlText" => self.pattern = value().filter(|text| text.len() <= MAX_PATTERN).unwrap_or_default(),
            "pStyle" => self.style = value(),
            "lvlRestart" => self.restart = value().and_then(|level| level.parse().ok()),
            "isLgl" => self.is_decimal = element.is_on(),
            "rFonts" => self.font = element.attribute("ascii").unwrap_or_default(),
            _ => {}
        }
    }
}

/// What several lists have in common. They count together.
#[derive(Debug, Default)]
struct Pattern {
    levels: [Level; LEVELS],
    /// The style that has the levels instead.
    link: Option<String>,
}

/// A list: its pattern, and where it differs.
#[derive(Debug, Default)]
struct List {
    pattern: String,
    starts: HashMap<usize, i64>,
    levels: HashMap<usize, Level>,
}

/// The lists of a document, and how far they are counted.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    patterns: HashMap<String, Pattern>,
    lists: HashMap<String, List>,
    counts: HashMap<String, [Option<i64>; LEVELS]>,
    /// Levels of lists whose own start is used already.
    started: HashSet<(String, usize)>,
    /// Numbers with a format that is not known.
    pub(super) unknown: usize,
}

impl Numbering {
    /// Reads the part with the lists.
    ///
    /// # Errors
    /// It is damaged.
    pub(super) fn read(archive: &mut Archive, part: Option<&str>) -> Result<Numbering, Problem> {
        let mut numbering = Numbering::default();
        let Some(part) = part else { return Ok(numbering) };
        let mut reader = Reader::default();
        xml::read(part, &archive.text(part)?, |piece| {
            match piece {
                Piece::Start(element) => reader.start(&element),
                Piece::End(name) => reader.end(&name, &mut numbering),
                Piece::Text(_) => {}
            }
            Ok(())
        })?;
        Ok(numbering)
    }

    /// The name of the pattern of a list, also where a style has it.
    fn pattern(&self, list: &str, styles: &Styles) -> Option<String> {
        let mut name = self.lists.get(list)?.pattern.clone();
        for _ in 0..MAX_CHAIN {
            let Some(link) = self.patterns.get(&name)?.link.as_ref() else { break };
            let Some(list) = styles.list(link).and_then(|list| self.lists.get(&list)) else { break };
            if list.pattern == name {
                break;
            }
            name = list.pattern.clone();
        }
        self.patterns.contains_key(&name).then_some(name)
    }

    /// Counts a paragraph. Returns its level and its mark: a number, or `-`. `None` if it is in no list.
    pub(super) fn count(
        &mut self,
        of: &NumberOf,
        style: Option<&str>,
        styles: &Styles,
    ) -> Option<(usize, String)> {
        let list_id = of.list.as_deref().filter(|list| *list != "0")?;
        let Some(name) = self.pattern(list_id, styles) else {
            // A list that the file does not describe.
            return Some((of.level.unwrap_or(0), "-".to_owned()));
        };
        let (list, pattern) = (&self.lists[list_id], &self.patterns[&name]);
        let of_style = || {
            let style = style?;
            pattern.levels.iter().position(|level| level.style.as_deref() == Some(style))
        };
        let at = of.level.or_else(of_style).unwrap_or(0).min(LEVELS - 1);
        let level_of = |at: usize| list.levels.get(&at).unwrap_or(&pattern.levels[at]);
        let start_of = |at: usize| list.starts.get(&at).copied().or(level_of(at).start).unwrap_or(0);
        let counts = self.counts.entry(name.clone()).or_default();
        let restarts = list.starts.contains_key(&at) && self.started.insert((list_id.to_owned(), at));
        counts[at] = Some(match counts[at] {
            Some(count) if !restarts => count.saturating_add(1),
            _ => start_of(at),
        });
        for (below, count) in counts.iter_mut().enumerate().skip(at + 1) {
            if level_of(below).restart.is_none_or(|restart| restart > at) {
                *count = None;
            }
        }
        let own = level_of(at);
        if own.format == Format::Bullet {
            return Some((at, symbols::bullet(&own.font, &own.pattern).to_owned()));
        }
        let mut is_unknown = false;
        let number = |at: usize| {
            is_unknown |= level_of(at).is_unknown && !own.is_decimal;
            let format = if own.is_decimal { Format::Decimal } else { level_of(at).format };
            format.write(counts[at].unwrap_or_else(|| start_of(at)))
        };
        let mark = fill(&own.pattern, number);
        self.unknown += usize::from(is_unknown);
        Some((at, mark))
    }
}

/// A pattern with its numbers.
fn fill(pattern: &str, mut number: impl FnMut(usize) -> String) -> String {
    let mut filled = String::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek().and_then(|digit| digit.to_digit(10))) {
            ('%', Some(digit @ 1..=9)) => {
                filled.push_str(&number(digit as usize - 1));
                chars.next();
            }
            _ => filled.push(c),
        }
    }
    filled.trim().to_owned()
}

/// The state while the lists are read.
#[derive(Debug, Default)]
struct Reader {
    pattern: Option<(String, Pattern)>,
    list: Option<(String, List)>,
    level: Option<(usize, Level)>,
    /// The level that a list changes.
    changed: usize,
}

impl Reader {
    fn start(&mut self, element: &Element) {
        let value = |name: &str| element.attribute(name);
        let level =
            |name: &str| value(name).and_then(|level| level.parse::<usize>().ok()).filter(|at| *at < LEVELS);
        match element.name.as_str() {
            "abstractNum" => {
                self.pattern = Some((value("abstractNumId").unwrap_or_default(), Pattern::default()))
            }
            "num" => self.list = Some((value("numId").unwrap_or_default(), List::default())),
            "lvl" => self.level = level("ilvl").map(|at| (at, Level::default())),
            "lvlOverride" => self.changed = level("ilvl").unwrap_or(0),
            "abstractNumId" => {
                if let Some((_, list)) = &mut self.list {
                    list.pattern = value("val").unwrap_or_default();
                }
            }
            "startOverride" => {
                if let (Some((_, list)), Some(start)) =
                    (&mut self.list, value("val").and_then(|start| start.parse().ok()))
                {
                    list.starts.insert(self.changed, start);
                }
            }
            "numStyleLink" => {
                if let Some((_, pattern)) = &mut self.pattern {
                    pattern.link = value("val");
                }
            }
            _ => self.level.iter_mut().for_each(|(_, level)| level.set(element)),
        }
    }

    fn end(&mut self, name: &str, numbering: &mut Numbering) {
        match name {
            "lvl" => match (self.level.take(), &mut self.list, &mut self.pattern) {
                (Some((at, level)), Some((_, list)), _) => _ = list.levels.insert(at, level),
                (Some((at, level)), None, Some((_, pattern))) => pattern.levels[at] = level,
                _ => {}
            },
            "abstractNum" => numbering.patterns.extend(self.pattern.take()),
            "num" => numbering.lists.extend(self.list.take()),
            _ => {}
        }
    }
}
