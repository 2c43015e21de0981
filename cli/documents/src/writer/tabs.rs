//! Tables that are made with tabs: lines with tabs that follow each other, and have three columns or more. What follows a tab
//! stands where the tab leads to, so that an empty cell keeps its place. Elsewhere a tab is a space.
//!
//! Where all lines have as many tabs, the first tab of each leads to the same column, and so on. Else the places of the tab
//! stops tell the columns. These follow from the stops of the paragraph and from the width of the text, which is a guess.

use std::cmp::Reverse;
use std::ops::{Range, RangeInclusive};
use std::rc::Rc;

use super::tables::separate;

/// All distances are twentieths of a point.
/// Stops of a paragraph. Word has as many.
const MAX_STOPS: usize = 64;
/// Stops are not farther to the right than this. No page is wider.
const MAX_PLACE: u32 = 100_000;
/// Where nothing else is said, stops are so far apart.
const DISTANCE: u32 = 720;
/// Places that are nearer to each other are of one column.
const SAME_COLUMN: u32 = 360;
/// A table has so many rows and columns.
const ROWS: usize = 2;
const COLUMNS: RangeInclusive<usize> = 3..=100;

/// What of a text stands at a tab stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Align {
    #[default]
    Left,
    Center,
    /// Its end, or the point of a number.
    Right,
}

/// A place to which a tab leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stop {
    /// In twentieths of a point.
    pub(crate) place: u32,
    pub(crate) align: Align,
    /// Whether dots or lines lead to it, as to the number of a page.
    pub(crate) has_leader: bool,
}

/// The tab stops of a paragraph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TabStops {
    /// In the order of their places.
    stops: Vec<Stop>,
    /// Places of a style that are none in this paragraph.
    cleared: Vec<u32>,
    /// How far those behind them are apart, if it is said.
    pub(crate) distance: Option<u32>,
}

impl TabStops {
    /// Adds a stop, in place of one that is there.
    pub(crate) fn set(&mut self, stop: Stop) {
        self.stops.retain(|other| other.place != stop.place);
        if self.stops.len() < MAX_STOPS && stop.place < MAX_PLACE {
            let at = self.stops.partition_point(|other| other.place < stop.place);
            self.stops.insert(at, stop);
        }
    }

    /// Takes a stop away.
    pub(crate) fn clear(&mut self, place: u32) {
        self.stops.retain(|stop| stop.place != place);
        if self.cleared.len() < MAX_STOPS {
            self.cleared.push(place);
        }
    }

    /// These stops, and others that are added.
    pub(crate) fn replaced_by(self: &Rc<TabStops>, other: &Rc<TabStops>) -> Rc<TabStops> {
        if **other == TabStops::default() {
            return self.clone();
        }
        let is_kept = |stop: &&Stop| {
            !other.cleared.contains(&stop.place) && !other.stops.iter().any(|new| new.place == stop.place)
        };
        let mut stops: Vec<Stop> = self.stops.iter().filter(is_kept).chain(&other.stops).copied().collect();
        stops.sort_by_key(|stop| stop.place);
        stops.truncate(MAX_STOPS);
        let distance = other.distance.or(self.distance);
        Rc::new(TabStops { stops, cleared: Vec::new(), distance })
    }

    /// The first stop behind a place.
    fn next(&self, place: u32) -> Stop {
        let distance = self.distance.filter(|distance| *distance > 0).unwrap_or(DISTANCE);
        let stop = self.stops.iter().find(|stop| stop.place > place).copied();
        let usual = (place / distance).saturating_add(1).saturating_mul(distance);
        stop.unwrap_or(Stop { place: usual, ..Stop::default() })
    }
}

/// The lines of a text that have tabs.
#[derive(Debug, Default)]
pub(super) struct Tabs {
    lines: Vec<Line>,
    /// The line that is written, and the tabs that begin the next one.
    line: Line,
    next: Line,
}

/// A line: where it is in the text, and its cells that follow a tab.
#[derive(Debug, Default)]
struct Line {
    range: Range<usize>,
    cells: Vec<Cell>,
    tabs: usize,
    /// Where the last tab leads to, and whether no text follows it yet.
    stop: Stop,
    is_at_tab: bool,
    is_heading: bool,
}

#[derive(Debug)]
struct Cell {
    /// Where its text begins.
    start: usize,
    /// The place of its tab stop, and the number of tabs before it.
    place: u32,
    tabs: usize,
}

impl Tabs {
    /// A tab behind this text, or before the text of the next line.
    pub(super) fn tab(&mut self, stops: &TabStops, text: &str, begins_line: bool) {
        let line = if begins_line { &mut self.next } else { &mut self.line };
        let start = line.cells.last().map_or(line.range.start, |cell| cell.start);
        let own = if line.is_at_tab || begins_line { "" } else { text.get(start..).unwrap_or_default() };
        let width: u32 = own.chars().map(width).fold(0, u32::saturating_add);
        let width = match line.stop.align {
            Align::Left => width,
            Align::Center => width / 2,
            Align::Right => 0,
        };
        let next = stops.next(line.stop.place.saturating_add(width));
        // What dots lead to belongs to the text before them.
        if !next.has_leader {
            (line.stop, line.is_at_tab) = (next, true);
            line.tabs += 1;
        }
    }

    /// Text begins here, in a new line or behind what is written.
    pub(super) fn begin_text(&mut self, at: usize, begins_line: bool, is_heading: bool) {
        if begins_line {
            self.line = Line { range: at..at, is_heading, ..std::mem::take(&mut self.next) };
        }
        if std::mem::take(&mut self.line.is_at_tab) {
            let Line { stop, tabs, .. } = self.line;
            self.line.cells.push(Cell { start: at, place: stop.place, tabs });
        }
    }

    /// Whether the line has text behind a tab.
    pub(super) fn has_cells(&self) -> bool {
        !self.line.cells.is_empty()
    }

    /// The line ends here.
    pub(super) fn end_line(&mut self, end: usize, text: &str) {
        let mut line = std::mem::take(&mut self.line);
        let Some(first) = line.cells.first().filter(|_| !line.is_heading) else { return };
        let is_indented = first.start == line.range.start && line.cells.len() == 1;
        // A tab before a text indents it, unless it is a value.
        if !is_indented || is_value(&text[first.start..end]) {
            line.range.end = end;
            self.lines.push(line);
        }
    }

    /// The text with the tables.
    pub(super) fn write(self, text: String) -> String {
        if self.lines.len() < ROWS {
            return text;
        }
        let (mut written, mut done) = (String::with_capacity(text.len()), 0);
        let is_next = |a: &Line, b: &Line| text[a.range.end..b.range.start].trim().is_empty();
        for lines in self.lines.chunk_by(is_next) {
            if let Some(table) = table(lines, &text) {
                written.push_str(&text[done..lines[0].range.start]);
                written.push_str(&table);
                done = lines[lines.len() - 1].range.end;
            }
        }
        written.push_str(&text[done..]);
        written
    }
}

/// The table of these lines, if they are one.
fn table(lines: &[Line], text: &str) -> Option<String> {
    let rows: Vec<Vec<(u32, usize, &str)>> = lines.iter().map(|line| line.texts(text)).collect();
    let has_same_tabs = lines.iter().all(|line| line.tabs == lines[0].tabs);
    let by_place = if has_same_tabs { None } else { by_place(&rows) };
    let by_number = || rows.iter().map(|row| row.iter().map(|cell| cell.1).collect()).collect();
    let places: Vec<Vec<usize>> = by_place.unwrap_or_else(by_number);
    let mut used: Vec<usize> = places.iter().flatten().copied().collect();
    used.sort_unstable();
    used.dedup();
    if lines.len() < ROWS || !COLUMNS.contains(&used.len()) {
        return None;
    }
    let mut table = String::new();
    for (row, places) in rows.iter().zip(&places) {
        if !table.is_empty() {
            table.push('\n');
        }
        let mut written = 0;
        for ((_, _, cell), place) in row.iter().zip(places) {
            let column = used.partition_point(|used| used < place);
            separate(&mut table, &mut written, column, used.len());
            table.push_str(&cell.replace('|', "\\|"));
        }
    }
    Some(table)
}

/// The columns of the cells of each row by the places of their tab stops; none if two cells of a row have the same.
fn by_place(rows: &[Vec<(u32, usize, &str)>]) -> Option<Vec<Vec<usize>>> {
    let mut widest: Vec<_> = rows.iter().collect();
    widest.sort_by_key(|row| Reverse(row.len()));
    let mut columns: Vec<u32> = Vec::new();
    for (place, ..) in widest.into_iter().flatten() {
        let at = columns.partition_point(|column| column < place);
        let is_near = |column: &u32| column.abs_diff(*place) < SAME_COLUMN;
        if !columns[at.saturating_sub(1)..].iter().take(2).any(is_near) {
            columns.insert(at, *place);
        }
        if columns.len() > *COLUMNS.end() {
            return None;
        }
    }
    let nearest = |place: u32| {
        let at = columns.partition_point(|column| *column < place);
        let around = at.saturating_sub(1)..columns.len().min(at + 1);
        around.min_by_key(|at| columns[*at].abs_diff(place)).unwrap_or_default()
    };
    let places: Vec<Vec<usize>> =
        rows.iter().map(|row| row.iter().map(|(place, ..)| nearest(*place)).collect()).collect();
    let are_apart = |row: &Vec<usize>| row.windows(2).all(|two| two[0] < two[1]);
    places.iter().all(are_apart).then_some(places)
}

impl Line {
    /// The texts of its cells, each with the place of its tab stop and the number of tabs before it.
    fn texts<'a>(&self, text: &'a str) -> Vec<(u32, usize, &'a str)> {
        let ends = self.cells.iter().map(|cell| cell.start).chain([self.range.end]);
        let starts = self.cells.iter().map(|cell| (cell.place, cell.tabs, cell.start));
        let cells = [(0, 0, self.range.start)].into_iter().chain(starts).zip(ends);
        let cells = cells.map(|((place, tabs, start), end)| (place, tabs, text[start..end].trim()));
        cells.filter(|(_, _, cell)| !cell.is_empty()).collect()
    }
}

/// Whether a text is a number with its unit, rather than words.
pub(crate) fn is_value(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_digit()) && text.chars().filter(|c| c.is_alphabetic()).count() <= 3
}

/// The width of a letter, about that of usual fonts at 11 points.
fn width(c: char) -> u32 {
    match c {
        c if "fijlrtI !'(),-.:;|".contains(c) => 65,
        'm' | 'w' | 'M' | 'W' | '%' | '—' => 180,
        '\u{2e80}'.. => 220,
        c if c.is_uppercase() => 140,
        _ => 112,
    }
}
