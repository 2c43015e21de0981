//! Tables whose columns are divided by lines. The lines tell which text is in which cell: where it stands in its cell, on
//! how many lines, and in which order it is drawn does not matter.
//!
//! Rows that have no line between them are told by their text. A band between two lines whose cells are texts of one or
//! more lines is a row. Where several cells have the same number of lines, or numbers below each other, each line is a
//! row. What is framed in another way (boxes of a form, columns of a newspaper, drawings) is no table.

use super::super::PlacedText;
use super::super::first_of;
use super::super::hyphens;
use super::super::lines;
use super::super::words;
use super::headers;
use super::rules::{Rule, Rules};
use crate::writer::beginning;

/// Lines of a grid are nearer to each other than this, in points, or have a cell between them.
const SLACK: f64 = 2.5;
/// More pairs of lines are not looked at.
const MAX_PAIRS: usize = 4_000_000;
const MAX_CELLS: usize = 50_000;
const MAX_GRIDS: usize = 200;
/// Columns are wider than this, in points.
const NARROW: f64 = 8.0;
/// A line between two columns is beside so many of ten rows.
const BESIDE: usize = 5;
/// A side of a cell is drawn if so much of it is.
const DRAWN: f64 = 0.7;
/// Baselines of a row differ by less than this, in sizes of the font; those of cells of one line each, by less than this.
/// Lines of a cell are not farther apart than this.
const SAME_LINE: f64 = 0.3;
const SAME_ROW: f64 = 0.9;
const LINE_PITCH: f64 = 2.2;
/// Where no more bands than these are divided, a line of text goes on with a cell only if the line above is filled by this
/// share.
const FEW_BANDS: usize = 3;
const FULL: f64 = 0.6;
/// A header has so many lines.
const HEADER_LINES: usize = 3;
/// Cells have fewer lines on average, and lines that are rows fewer characters.
const MAX_LINES: usize = 6;
const MAX_CHARACTERS: usize = 40;

/// A table: for each row its cells and their columns.
#[derive(Clone, Debug)]
pub(in super::super) struct Ruled {
    pub(super) columns: usize,
    pub(super) rows: Vec<Vec<(usize, String)>>,
    /// From top to bottom and from left to right.
    pub(in super::super) top: f64,
    pub(in super::super) bottom: f64,
    pub(in super::super) left: f64,
    pub(in super::super) right: f64,
}

/// Cells that are framed together.
struct Region {
    columns: std::ops::Range<usize>,
    bands: std::ops::Range<usize>,
    glyphs: Vec<PlacedText>,
    lines: Vec<TextLine>,
    /// All lines as one.
    text: String,
}

struct TextLine {
    y: f64,
    size: f64,
    width: f64,
    text: String,
    is_number: bool,
}

/// Lines that divide a part of the page into columns and bands.
pub(in super::super) struct Grid {
    /// From left to right, and from top to bottom.
    xs: Vec<f64>,
    ys: Vec<f64>,
    regions: Vec<Region>,
    /// The region of each cell.
    region_of: Vec<usize>,
}

/// The grids of a page with text that is turned by so many degrees.
pub(in super::super) fn grids(rules: &Rules, turn: i16) -> Vec<Grid> {
    let (along, across) = rules.of_tables(turn);
    if along.len() < 2 || across.is_empty() || along.len() * across.len() > MAX_PAIRS {
        return Vec::new();
    }
    let mut group: Vec<usize> = (0..along.len() + across.len()).collect();
    for (i, rule) in along.iter().enumerate() {
        for (j, other) in across.iter().enumerate() {
            if rule.meets(other) {
                let (a, b) = (first_of(&mut group, i), first_of(&mut group, along.len() + j));
                group[a.max(b)] = a.min(b);
            }
        }
    }
    let mut members: Vec<(Vec<Rule>, Vec<Rule>)> = vec![Default::default(); group.len()];
    for (i, rule) in along.iter().chain(&across).enumerate() {
        let (along, across) = &mut members[first_of(&mut group, i)];
        if rule.is_horizontal { along.push(*rule) } else { across.push(*rule) }
    }
    let mut grids: Vec<Grid> =
        members.iter().filter_map(|(along, across)| Grid::new(along, across)).take(MAX_GRIDS).collect();
    // What is in a grid within a cell of another is of the inner one.
    grids.sort_by(|a, b| a.area().total_cmp(&b.area()));
    grids
}

/// Places of lines, each once, with the ends of the others that reach beyond.
fn places(lines: &[Rule], others: &[Rule]) -> Vec<f64> {
    let mut places: Vec<f64> = lines.iter().map(|rule| rule.at).collect();
    places.sort_by(f64::total_cmp);
    places.dedup_by(|a, b| *a - *b <= SLACK);
    let (Some(first), Some(last)) = (places.first().copied(), places.last().copied()) else { return places };
    let from = others.iter().map(|rule| rule.from).fold(f64::MAX, f64::min);
    let to = others.iter().map(|rule| rule.to).fold(f64::MIN, f64::max);
    if from < first - 2.0 * SLACK {
        places.insert(0, from);
    }
    if to > last + 2.0 * SLACK {
        places.push(to);
    }
    places
}

/// Whether a side from one place to another is drawn, or no line is there that could be. The lines are in the order of their
/// places.
fn is_drawn(rules: &[Rule], at: f64, from: f64, to: f64) -> bool {
    let start = rules.partition_point(|rule| rule.at - at < -SLACK);
    let mut here = rules[start..].iter().take_while(|rule| rule.at - at <= SLACK).peekable();
    here.peek().is_none()
        || here.map(|rule| (rule.to.min(to) - rule.from.max(from)).max(0.0)).sum::<f64>()
            >= DRAWN * (to - from)
}

impl Grid {
    fn new(along: &[Rule], across: &[Rule]) -> Option<Grid> {
        let (xs, mut ys) = (places(across, along), places(along, across));
        ys.reverse();
        if xs.len() < 3 || ys.len() < 3 || (xs.len() - 1) * (ys.len() - 1) > MAX_CELLS {
            return None;
        }
        let (columns, bands) = (xs.len() - 1, ys.len() - 1);
        let has_left: Vec<Vec<bool>> = (0..=columns)
            .map(|x| (0..bands).map(|band| is_drawn(across, xs[x], ys[band + 1], ys[band])).collect())
            .collect();
        let is_column = |x: usize| 10 * has_left[x].iter().filter(|drawn| **drawn).count() >= BESIDE * bands;
        if !(1..columns).all(is_column) {
            return None;
        }
        let has_top = |band: usize, column: usize| is_drawn(along, ys[band], xs[column], xs[column + 1]);
        let mut region_of = vec![usize::MAX; columns * bands];
        let mut regions = Vec::new();
        for band in 0..bands {
            for column in 0..columns {
                if region_of[band * columns + column] != usize::MAX {
                    continue;
                }
                let right = (column + 1..columns).find(|x| has_left[*x][band]).unwrap_or(columns);
                let below = (band + 1..bands).find(|y| has_top(*y, column)).unwrap_or(bands);
                for y in band..below {
                    for x in column..right {
                        // What is no rectangle is no cell.
                        let is_open = (x == column || !has_left[x][y]) && (y == band || !has_top(y, x));
                        if !is_open
                            || std::mem::replace(&mut region_of[y * columns + x], regions.len()) != usize::MAX
                        {
                            return None;
                        }
                    }
                }
                regions.push(Region {
                    columns: column..right,
                    bands: band..below,
                    glyphs: Vec::new(),
                    lines: Vec::new(),
                    text: String::new(),
                });
            }
        }
        Some(Grid { xs, ys, regions, region_of })
    }

    fn area(&self) -> f64 {
        (self.xs[self.xs.len() - 1] - self.xs[0]) * (self.ys[0] - self.ys[self.ys.len() - 1])
    }

    /// The region of a glyph.
    fn region(&self, glyph: &PlacedText) -> Option<usize> {
        let (x, y) = ((glyph.x + glyph.end) / 2.0, glyph.y + SAME_LINE * glyph.size);
        let column = self.xs.partition_point(|left| *left <= x).checked_sub(1)?;
        let band = self.ys.partition_point(|top| *top > y).checked_sub(1)?;
        let columns = self.xs.len() - 1;
        (column < columns && band + 1 < self.ys.len()).then(|| self.region_of[band * columns + column])
    }

    /// Whether a glyph is in the grid.
    pub(in super::super) fn contains(&self, glyph: &PlacedText) -> bool {
        self.region(glyph).is_some()
    }

    /// The table of these glyphs, which are in the grid, in the order in which they are drawn; none if they are no table.
    pub(in super::super) fn table(mut self, glyphs: Vec<PlacedText>, is_rtl: bool) -> Option<Ruled> {
        for glyph in glyphs {
            if let Some(region) = self.region(&glyph) {
                self.regions[region].glyphs.push(glyph);
            }
        }
        let regions = std::mem::take(&mut self.regions);
        self.regions = regions.into_iter().flat_map(|region| region.divided(&self.xs, is_rtl)).collect();
        if !self.regions.iter_mut().all(|region| region.read(is_rtl)) {
            return None;
        }
        let (rows, columns) = (self.rows()?, self.xs.len() - 1);
        let (top, bottom) = (self.ys[0], self.ys[self.ys.len() - 1]);
        let (left, right) = (self.xs[0], self.xs[columns]);
        Some(Ruled { columns, rows, top, bottom, left, right }.without_narrow_columns(&self.xs))
    }

    fn rows(&self) -> Option<Vec<Vec<(usize, String)>>> {
        let bands = self.ys.len() - 1;
        let filled: Vec<&Region> = self.regions.iter().filter(|region| !region.lines.is_empty()).collect();
        let lines: usize = filled.iter().map(|region| region.lines.len()).sum();
        let mut by_band: Vec<Vec<&Region>> = vec![Vec::new(); bands];
        for region in &filled {
            for band in region.bands.clone() {
                by_band[band].push(region);
            }
        }
        let mut rows = Vec::new();
        let mut bands_with_cells = 0;
        for (band, here) in by_band.iter().enumerate() {
            let own: Vec<&Region> = here.iter().copied().filter(|region| region.bands.len() == 1).collect();
            if own.is_empty() && here.iter().all(|region| region.bands.start != band) {
                continue;
            }
            bands_with_cells += usize::from(here.len() > 1);
            let spanning = here.iter().filter(|region| region.bands.len() > 1);
            let spanning: Vec<(usize, String)> = spanning
                .map(|region| {
                    let is_first = region.bands.start == band;
                    let text = if is_first { region.text.clone() } else { beginning(&region.text) };
                    (region.columns.start, text)
                })
                .collect();
            // Where many rows are told by lines, all are.
            let has_rows = bands > FEW_BANDS || own.iter().all(|region| region.is_wrapped(&self.xs));
            if is_row(&own, rows.is_empty(), has_rows) {
                let mut row = spanning;
                row.extend(own.iter().map(|region| (region.columns.start, region.text.clone())));
                row.sort_by_key(|(column, _)| *column);
                rows.push(row);
                continue;
            }
            rows.extend(rows_of_lines(&own, spanning)?);
        }
        let is_table = bands_with_cells >= 2 && lines < MAX_LINES * filled.len();
        is_table.then_some(rows)
    }
}

impl Region {
    /// A region of one line over several columns, whose values stand in some of these, as that of a sum whose line has no lines
    /// between its columns: the parts of it. Others stay whole.
    fn divided(self, xs: &[f64], is_rtl: bool) -> Vec<Region> {
        if self.columns.len() < 2 || self.bands.len() > 1 || self.glyphs.is_empty() {
            return vec![self];
        }
        let rows = words::rows(lines::lines(self.glyphs.clone()), is_rtl);
        let [row] = &rows[..] else { return vec![self] };
        // Text may reach beyond the last line.
        let column = |x: f64| xs.partition_point(|left| *left <= x).saturating_sub(1).min(xs.len() - 2);
        let mut parts: Vec<(usize, usize)> = Vec::new();
        let mut are_numbers = true;
        for cell in &row.cells {
            let (first, last) = (column(cell.left + SLACK), column(cell.right - SLACK));
            match parts.last_mut() {
                Some(before) if first <= before.1 => before.1 = before.1.max(last),
                before => {
                    are_numbers &= before.is_none() || headers::is_number(&cell.text);
                    parts.push((first, last));
                }
            }
        }
        if parts.len() < 2 || !are_numbers || !row.cells[1..].iter().any(|cell| cell.is_apart) {
            return vec![self];
        }
        let part = |(first, last): &(usize, usize)| {
            let is_in = |glyph: &&PlacedText| (*first..=*last).contains(&column((glyph.x + glyph.end) / 2.0));
            let glyphs = self.glyphs.iter().filter(is_in).cloned().collect();
            let (columns, bands) = (*first..last + 1, self.bands.clone());
            Region { columns, bands, glyphs, lines: Vec::new(), text: String::new() }
        };
        parts.iter().map(part).collect()
    }

    /// Reads its text. False if it has columns of its own.
    fn read(&mut self, page_is_rtl: bool) -> bool {
        if self.glyphs.is_empty() {
            return true;
        }
        let lines = lines::lines(std::mem::take(&mut self.glyphs));
        let mut rows = words::rows(lines, page_is_rtl);
        let divided = rows.iter().filter(|row| row.cells[1..].iter().any(|cell| cell.is_apart)).count();
        rows.sort_by(|a, b| b.y.total_cmp(&a.y));
        self.lines = rows
            .iter()
            .map(|row| {
                let cells = row.cells.iter().map(|cell| cell.text.as_str());
                let width = row.cells[row.cells.len() - 1].right - row.cells[0].left;
                let text = cells.collect::<Vec<_>>().join(" ");
                TextLine { y: row.y, size: row.size, width, text, is_number: row.is_number() }
            })
            .collect();
        self.text = hyphens::on_one_line(self.lines.iter().map(|line| line.text.as_str()));
        divided < 2
    }

    /// Whether its lines are ended because the next word does not fit.
    fn is_wrapped(&self, xs: &[f64]) -> bool {
        let width = xs[self.columns.end] - xs[self.columns.start];
        self.lines.windows(2).all(|two| {
            let (characters, word) = (two[1].text.chars().count().max(1), two[1].text.split(' ').next());
            let word = word.map_or(0, |word| word.chars().count() + 1);
            two[0].width + two[1].width * word as f64 / characters as f64 >= FULL * width
        })
    }
}

/// Whether the cells between two lines are one row. `has_rows` says whether lines of text in a cell go on with it.
fn is_row(cells: &[&Region], is_header: bool, has_rows: bool) -> bool {
    let most = cells.iter().map(|cell| cell.lines.len()).max().unwrap_or_default();
    if most <= 1 {
        let lines = || cells.iter().filter_map(|cell| cell.lines.first());
        let is_beside = |a: &TextLine, b: &TextLine| (a.y - b.y).abs() < SAME_ROW * a.size.max(b.size);
        return lines().all(|a| lines().next().is_none_or(|b| is_beside(a, b)));
    }
    let is_near = |two: &[TextLine]| (0.0..LINE_PITCH * two[0].size).contains(&(two[0].y - two[1].y));
    if !cells.iter().all(|cell| cell.lines.windows(2).all(is_near)) {
        return false;
    }
    let has_stacked_numbers =
        |cell: &&&Region| cell.lines.windows(2).any(|two| two[0].is_number && two[1].is_number);
    let are_alike = |a: &Region, b: &Region| {
        a.lines.len() != b.lines.len() || a.lines.iter().zip(&b.lines).all(|(a, b)| is_same_line(a, b))
    };
    let has_number = cells.iter().any(|cell| cell.lines.iter().any(|line| line.is_number));
    if has_number && !has_rows
        || cells.iter().any(|cell| has_stacked_numbers(&cell))
        || !cells.iter().all(|a| cells.iter().all(|b| are_alike(a, b)))
    {
        return false;
    }
    let have_all = cells.len() > 1 && cells.iter().all(|cell| cell.lines.len() == most);
    !have_all || is_header && most <= HEADER_LINES
}

fn is_same_line(a: &TextLine, b: &TextLine) -> bool {
    (a.y - b.y).abs() < SAME_LINE * a.size.max(b.size)
}

/// Whether the first cell is a label of one line in the middle of several rows, which the lines of all others are: they stand
/// beside each other, and there are numbers in them.
fn is_label_of_rows(label: &Region, others: &[&Region]) -> bool {
    let ([line], [first, more @ ..]) = (label.lines.as_slice(), others) else { return false };
    let are_beside = |other: &&Region| {
        other.lines.len() == first.lines.len()
            && other.lines.iter().zip(&first.lines).all(|(a, b)| is_same_line(a, b))
    };
    let middle = (first.lines[0].y + first.lines[first.lines.len() - 1].y) / 2.0;
    first.lines.len() > 1
        && (line.y - middle).abs() < SAME_LINE * line.size
        && !first.lines.iter().any(|other| is_same_line(line, other))
        && !more.is_empty()
        && more.iter().all(are_beside)
        && others.iter().any(|other| other.lines.iter().all(|line| line.is_number))
}

/// Each line of these cells as a row; none if they are columns of text. A label in the middle of the rows is in each of them.
fn rows_of_lines(cells: &[&Region], spanning: Vec<(usize, String)>) -> Option<Vec<Vec<(usize, String)>>> {
    let labels = (0..cells.len())
        .find(|at| cells[*at].lines.len() > 1)
        .filter(|at| cells[..*at].iter().all(|label| is_label_of_rows(label, &cells[*at..])))
        .unwrap_or_default();
    let (labels, cells) = cells.split_at(labels);
    let is_long = |cell: &&Region| {
        let characters: usize = cell.lines.iter().map(|line| line.text.chars().count()).sum();
        cell.lines.len() > 2 && characters > MAX_CHARACTERS * cell.lines.len()
    };
    if cells.iter().any(is_long) {
        return None;
    }
    let mut lines: Vec<(usize, &TextLine)> =
        cells.iter().flat_map(|cell| cell.lines.iter().map(|line| (cell.columns.start, line))).collect();
    lines.sort_by(|(_, a), (_, b)| b.y.total_cmp(&a.y));
    let mut rows: Vec<Vec<(usize, String)>> = Vec::new();
    let mut last: Option<&TextLine> = None;
    for (column, line) in lines {
        match rows.last_mut() {
            Some(row) if last.is_some_and(|last| is_same_line(last, line)) => {
                row.push((column, line.text.clone()))
            }
            _ => {
                rows.push(vec![(column, line.text.clone())]);
                last = Some(line);
            }
        }
    }
    match rows.first_mut() {
        Some(row) => row.extend(spanning),
        None => rows.push(spanning),
    }
    for (i, row) in rows.iter_mut().enumerate() {
        let text = |text: &str| if i == 0 { text.to_owned() } else { beginning(text) };
        row.extend(labels.iter().map(|label| (label.columns.start, text(&label.text))));
        row.sort_by_key(|(column, _)| *column);
    }
    Some(rows)
}

impl Ruled {
    /// Leaves out columns that are too narrow for text and have none, as between double lines.
    fn without_narrow_columns(mut self, xs: &[f64]) -> Ruled {
        let mut is_used: Vec<bool> = xs.windows(2).map(|two| two[1] - two[0] > NARROW).collect();
        self.rows.iter().flatten().for_each(|(column, _)| is_used[*column] = true);
        let number: Vec<usize> = is_used
            .iter()
            .scan(0, |next, is_used| {
                let number = *next;
                *next += usize::from(*is_used);
                Some(number)
            })
            .collect();
        self.rows.iter_mut().flatten().for_each(|(column, _)| *column = number[*column]);
        self.columns = is_used.iter().filter(|is_used| **is_used).count();
        self
    }
}
