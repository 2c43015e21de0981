//! Tables that are made with tabs. A tab is a space, unless lines that follow each other leave a column empty: then they are
//! rows of a table, if it is certain which column each text stands in. Other such lines are counted.
//!
//! The file says how far apart tab stops are, but not how wide texts are. So the first tab of each line leads to the first
//! stop, and so on, only where no text may reach over its stop, or where each line has as many tabs.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use super::tables::separate;
use crate::marks::MARK;

/// Stops of a paragraph that are used. Word has as many.
const MAX_STOPS: usize = 64;
/// Stops are not farther to the right than this. No page is wider.
const MAX_PLACE: u32 = 100_000;
/// Behind the last stop, others are so far apart unless the document says otherwise.
const DISTANCE: u32 = 720;
/// Widths of letters of usual fonts: narrower ones, wide ones, and those of Chinese and Japanese.
const NARROW: u32 = 70;
const WIDE: u32 = 150;
const FULL: u32 = 260;
/// A line of so many texts is a row of a table, and not a label with its text.
const ROW: usize = 3;

/// What of a text stands at a tab stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Align {
    #[default]
    Left,
    Center,
    /// Its end, or the point of a number.
    Right,
}

/// The tab stops of a paragraph. Places are in twentieths of a point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TabStops {
    /// The indentation of the paragraph, and how far its first line is to the right or to the left of it, where that is said.
    pub(crate) left: Option<u32>,
    pub(crate) first_line: Option<u32>,
    pub(crate) hanging: Option<u32>,
    /// `None` is for a stop of the style that is taken away.
    stops: BTreeMap<u32, Option<Align>>,
}

impl TabStops {
    /// Adds a stop, or takes away that of the style.
    pub(crate) fn set(&mut self, place: u32, align: Option<Align>) {
        if self.stops.len() < MAX_STOPS && (1..MAX_PLACE).contains(&place) {
            self.stops.insert(place, align);
        }
    }

    /// Indents the lines, and the first one by so much more or less.
    pub(crate) fn indent(&mut self, left: i64, first: i64) {
        let distance = |distance: i64| Some(distance.clamp(0, MAX_PLACE.into()) as u32);
        (self.left, self.first_line, self.hanging) = (distance(left), distance(first), distance(-first));
    }

    /// These stops, and others that replace them.
    pub(crate) fn replaced_by(self: &Rc<TabStops>, other: &Rc<TabStops>) -> Rc<TabStops> {
        if **other == TabStops::default() {
            return self.clone();
        }
        // One of both moves the first line.
        let moves = other.first_line.is_some() || other.hanging.is_some();
        let moving = if moves { other } else { self };
        let mut stops = TabStops {
            left: other.left.or(self.left),
            first_line: moving.first_line,
            hanging: moving.hanging,
            stops: self.stops.clone(),
        };
        other.stops.iter().for_each(|(place, align)| stops.set(*place, *align));
        Rc::new(stops)
    }

    /// The beginning of the line, and the places that its tabs lead to, one after the other. Behind the last stop, others are
    /// so far apart. A distance that no page has is none.
    fn places(&self, distance: Option<u32>) -> impl Iterator<Item = (u32, Align)> {
        let left = self.left.unwrap_or(0).min(MAX_PLACE);
        // A hanging first line excludes one that is moved to the right.
        let start = match self.hanging {
            Some(hanging) if hanging > 0 => left.saturating_sub(hanging),
            _ => left + self.first_line.unwrap_or(0).min(MAX_PLACE),
        };
        // The other lines begin at a stop of a hanging one.
        let hanging = [(left, Align::Left)].into_iter().filter(|(left, _)| start < *left);
        let own = self.stops.iter().filter_map(|(place, align)| Some((*place, (*align)?)));
        let own: BTreeMap<_, _> = hanging.chain(own.filter(|(place, _)| *place > start)).collect();
        let places: Vec<_> = [(start, Align::Left)].into_iter().chain(own).collect();
        let distance = distance.filter(|distance| (1..MAX_PLACE).contains(distance)).unwrap_or(DISTANCE);
        let first = places.last().map_or(1, |(place, _)| place / distance + 1);
        places.into_iter().chain((first..).map(move |number| (number.saturating_mul(distance), Align::Left)))
    }
}

/// The lines of a text that have tabs.
#[derive(Debug, Default)]
pub(super) struct Tabs {
    lines: Vec<Line>,
    /// The line that is written, and the tabs before the next text.
    line: Line,
    pending: usize,
    stops: Rc<TabStops>,
    distance: Option<u32>,
}

/// A line: where it is in the text, and its texts.
#[derive(Debug, Default)]
struct Line {
    range: Range<usize>,
    /// Where each text behind a tab begins, and the number of tabs before it.
    cells: Vec<(usize, usize)>,
    stops: Rc<TabStops>,
    /// How far apart the stops behind the last one are.
    distance: Option<u32>,
    mark: Mark,
}

/// What stands before the text of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mark {
    #[default]
    None,
    Item,
    Heading,
}

/// What lines are that follow each other.
enum Lines {
    Text,
    /// Texts with their columns.
    Table,
    /// So many rows have columns that are not certain.
    Uncertain(usize),
}

impl Tabs {
    /// A tab before the next text of the line.
    pub(super) fn tab(&mut self, stops: &Rc<TabStops>, distance: Option<u32>) {
        self.pending = self.pending.saturating_add(1);
        // Lines with the same stops share them.
        if self.stops != *stops {
            self.stops = stops.clone();
        }
        self.distance = distance;
    }

    /// Text begins here, behind the mark of a heading or an item.
    pub(super) fn begin_text(&mut self, at: usize, begins_line: bool, mark: &str) {
        if begins_line {
            let mark = match mark {
                "" => Mark::None,
                mark if mark.starts_with(MARK) => Mark::Heading,
                _ => Mark::Item,
            };
            self.line = Line { range: at..at, mark, ..Line::default() };
        }
        let tabs = std::mem::take(&mut self.pending);
        // A tab between a mark and the text leads nowhere else.
        if tabs > 0 && mark.is_empty() {
            let before = self.line.cells.last().map_or(0, |(_, tabs)| *tabs);
            self.line.cells.push((at, before.saturating_add(tabs)));
            (self.line.stops, self.line.distance) = (self.stops.clone(), self.distance);
        }
    }

    /// The line ends here.
    pub(super) fn end_line(&mut self, end: usize, is_code: bool) {
        self.pending = 0;
        let line = std::mem::take(&mut self.line);
        if !is_code && line.mark != Mark::Heading && !line.cells.is_empty() {
            self.lines.push(Line { range: line.range.start..end, ..line });
        }
    }

    /// The text from here on is another one.
    pub(super) fn forget(&mut self, from: usize) {
        while self.lines.pop_if(|line| line.range.end > from).is_some() {}
    }

    /// Rows of tables whose columns are not certain.
    pub(super) fn uncertain(&self, text: &str) -> usize {
        let rows = |lines| match judge(lines, text) {
            Lines::Uncertain(rows) => rows,
            Lines::Text | Lines::Table => 0,
        };
        self.groups(text).map(rows).sum()
    }

    /// The text with the tables.
    pub(super) fn write(&self, text: String) -> String {
        let (mut written, mut done) = (String::new(), 0);
        for lines in self.groups(&text) {
            let (Lines::Table, [first, .., last]) = (judge(lines, &text), lines) else { continue };
            written.push_str(&text[done..first.range.start]);
            let rows: Vec<String> = lines.iter().map(|line| line.row(&text)).collect();
            written.push_str(&rows.join("\n"));
            done = last.range.end;
        }
        if done == 0 {
            return text;
        }
        written.push_str(&text[done..]);
        written
    }

    /// Lines between which nothing else stands.
    fn groups<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a [Line]> {
        self.lines.chunk_by(|a, b| text[a.range.end..b.range.start].trim().is_empty())
    }
}

impl Line {
    /// Its texts, each with its column.
    fn texts<'a>(&self, text: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
        let starts = [(self.range.start, 0)].into_iter().chain(self.cells.iter().copied());
        let ends = self.cells.iter().map(|(start, _)| *start).chain([self.range.end]);
        let texts = starts.zip(ends).map(|((start, column), end)| (column, text[start..end].trim()));
        texts.filter(|(_, text)| !text.is_empty())
    }

    fn tabs(&self) -> usize {
        self.cells.last().map_or(0, |(_, tabs)| *tabs)
    }

    /// Whether each text ends before the next stop, if its letters are as wide as `width` says.
    fn fits(&self, text: &str, width: fn(char) -> u32) -> bool {
        let mut stops = self.stops.places(self.distance).enumerate().peekable();
        // What stands last may be as long as it likes. How wide the mark of an item is, is not known.
        self.mark == Mark::None
            && self.texts(text).filter(|(column, _)| *column < self.tabs()).all(|(column, text)| {
                let Some((_, (place, align))) = stops.find(|(number, _)| *number == column) else {
                    return false;
                };
                let width = text.chars().map(width).fold(0, u32::saturating_add);
                let behind = match align {
                    Align::Left => width,
                    Align::Center => width / 2,
                    Align::Right => 0,
                };
                stops.peek().is_some_and(|(_, (next, _))| place.saturating_add(behind) < *next)
            })
    }

    /// The row of a table.
    fn row(&self, text: &str) -> String {
        let (mut row, mut written) = (String::new(), 0);
        for (column, cell) in self.texts(text) {
            separate(&mut row, &mut written, column, usize::MAX);
            row.push_str(&cell.replace('|', "\\|"));
        }
        row
    }
}

fn judge(lines: &[Line], text: &str) -> Lines {
    let mut used: Vec<usize> =
        lines.iter().flat_map(|line| line.texts(text)).map(|(column, _)| column).collect();
    used.sort_unstable();
    used.dedup();
    // A column that no line uses is none.
    let skips = |from: usize, to: usize| {
        used.partition_point(|column| *column < to) > used.partition_point(|column| *column < from)
    };
    let has_gap = |line: &&Line| {
        // A tab before a single text indents it.
        let is_row = line.texts(text).count() > 1;
        let mut next = 0;
        is_row && line.texts(text).any(|(column, _)| skips(std::mem::replace(&mut next, column + 1), column))
    };
    let gaps = lines.iter().filter(has_gap).count();
    let [first, others @ ..] = lines else { return Lines::Text };
    if gaps == 0 || others.is_empty() {
        return Lines::Text;
    }
    let have_same_stops =
        || others.iter().all(|line| line.stops == first.stops && line.distance == first.distance);
    let have_same_tabs = || others.iter().all(|line| line.tabs() == first.tabs());
    let all_fit = |width: fn(char) -> u32| lines.iter().all(|line| line.fits(text, width));
    let is_certain = have_same_stops() && all_fit(|c| if c < '\u{2e80}' { WIDE } else { FULL })
        || have_same_tabs() && all_fit(|_| NARROW);
    match is_certain {
        true => Lines::Table,
        false if lines.iter().any(|line| line.texts(text).count() >= ROW) => Lines::Uncertain(gaps),
        false => Lines::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_share_their_stops() {
        let mut tabs = Tabs::default();
        for (start, place) in [(0, 100), (10, 100), (20, 200)] {
            let mut stops = TabStops::default();
            stops.set(place, Some(Align::Left));
            tabs.tab(&Rc::new(stops), Some(300));
            tabs.begin_text(start, true, "");
            tabs.end_line(start + 1, false);
        }
        let [first, second, third] = &tabs.lines[..] else { panic!("{tabs:?}") };
        assert!(Rc::ptr_eq(&first.stops, &second.stops));
        assert_eq!((third.stops.places(third.distance).nth(2)), Some((300, Align::Left)));
    }
}
