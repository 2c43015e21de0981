//! Columns of text that are drawn line by line, across all columns: as those of a newspaper they are read one after the
//! other. Their cells are lines of words that fill the column; those of a table are not. But where all columns begin anew
//! beside each other, again and again, they are a table with long text in its cells.

use super::super::hyphens;
use super::super::words::{Cell, Row};

/// Distances in sizes of the font.
/// Between columns there is so much room.
const GUTTER: f64 = 1.0;
/// A line begins within this of the left end of its column.
const INDENT: f64 = 3.0;
/// So many lines have text in each column.
const LINES: usize = 3;
/// Lines have so many words and characters on average.
const WORDS: usize = 4;
const CHARACTERS: usize = 20;
/// A line fills its column if it has this share of its width. So many of ten lines do so.
const FULL: f64 = 0.85;
const MOST: usize = 6;
/// Columns of a page of text.
const MAX_COLUMNS: usize = 4;
/// Lines are not nearer to each other: what is so is a raised or lowered piece of one line.
const MIN_PITCH: f64 = 0.8;
/// From one row of a table to the next it is so many times as far as from one line of a cell to the next.
const APART: f64 = 1.25;
/// A row of a table has at most so many lines.
const MAX_LINES: usize = 16;
/// So many rows, with the header, begin beside each other by no accident. Two do, if a column ends before another one.
const ROWS: usize = 4;

/// Where columns of text are.
#[derive(Debug)]
pub(super) struct Columns {
    /// Their first row.
    pub(super) start: usize,
    columns: Vec<(f64, f64)>,
}

/// The cells of a row between wide gaps: `(left, right, cells)`.
type Pieces<'a> = Vec<(f64, f64, &'a [Cell])>;

fn pieces(row: &Row) -> Pieces<'_> {
    let pieces = row.cells.chunk_by(|_, next| !next.is_apart);
    pieces.map(|cells| (cells[0].left, cells[cells.len() - 1].right, cells)).collect()
}

fn text(cells: &[Cell]) -> String {
    cells.iter().map(|cell| cell.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// The first columns of text among rows that follow each other, and the number of the row after them.
pub(super) fn columns(rows: &[Row]) -> Option<(Columns, usize)> {
    let mut start = 0;
    while start + LINES <= rows.len() {
        if let Some((columns, end)) = columns_from(rows, start) {
            return Some((columns, end));
        }
        start += 1;
    }
    None
}

fn columns_from(rows: &[Row], start: usize) -> Option<(Columns, usize)> {
    let size = rows[start].size;
    let mut columns: Vec<(f64, f64)> =
        pieces(&rows[start]).iter().map(|(left, right, _)| (*left, *right)).collect();
    if !(2..=MAX_COLUMNS).contains(&columns.len()) {
        return None;
    }
    let mut end = start + 1;
    'rows: while let Some(row) = rows.get(end) {
        let mut wider = columns.clone();
        for (left, right, _) in pieces(row) {
            let Some(at) = columns.iter().position(|column| (left - column.0).abs() < INDENT * size) else {
                break 'rows;
            };
            wider[at] = (wider[at].0.min(left), wider[at].1.max(right));
        }
        if wider.windows(2).any(|two| two[1].0 - two[0].1 < GUTTER * size) {
            break;
        }
        columns = wider;
        end += 1;
    }
    let found = Columns { start, columns };
    found.are_text(&rows[start..end]).then_some((found, end))
}

impl Columns {
    fn column(&self, left: f64) -> usize {
        let distance = |at: &usize| (self.columns[*at].0 - left).abs();
        (0..self.columns.len()).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or_default()
    }

    /// The rows of a table, if these lines are one. `above` is the row before them.
    pub(super) fn table(&self, rows: &[Row], above: Option<&Row>) -> Option<Vec<Row>> {
        let down = |from: &Row, to: &Row| from.bottom - to.y;
        let distances = rows.windows(2).map(|two| down(&two[0], &two[1]));
        let pitch =
            distances.filter(|distance| *distance >= MIN_PITCH * rows[0].size).fold(f64::MAX, f64::min);
        let parts: Vec<&[Row]> = rows.chunk_by(|from, to| down(from, to) < APART * pitch).collect();
        let has_all =
            |row: &Row| (0..self.columns.len()).all(|column| self.cells(row, column).next().is_some());
        let are_rows = parts.iter().all(|part| part.len() <= MAX_LINES && has_all(&part[0]));
        let is_uneven = |part: &&[Row]| !has_all(&part[part.len() - 1]);
        let is_sure = match parts[..parts.len() - 1].iter().any(is_uneven) {
            true => parts.len() > 1,
            false => parts.len() + usize::from(above.is_some_and(has_all)) >= ROWS,
        };
        (are_rows && is_sure).then(|| parts.into_iter().map(|part| self.row(part)).collect())
    }

    /// A row of a table with these lines.
    fn row(&self, lines: &[Row]) -> Row {
        let (first, last) = (&lines[0], &lines[lines.len() - 1]);
        let cell = |column: usize| {
            let texts: Vec<String> =
                lines.iter().flat_map(|line| self.cells(line, column)).map(text).collect();
            let (left, right) = self.columns[column];
            let text = hyphens::on_one_line(texts.iter().map(String::as_str));
            Cell { text, left, right, y: first.y, is_apart: true, words: Vec::new() }
        };
        let cells = (0..self.columns.len()).map(cell).collect();
        Row { cells, bottom: last.bottom, pitch: None, indent: 0, ..first.clone() }
    }

    /// What a row has in a column.
    fn cells<'a>(&self, row: &'a Row, column: usize) -> impl Iterator<Item = &'a [Cell]> {
        pieces(row)
            .into_iter()
            .filter(move |(left, ..)| self.column(*left) == column)
            .map(|(_, _, cells)| cells)
    }

    /// Whether each column has lines of text.
    fn are_text(&self, rows: &[Row]) -> bool {
        (0..self.columns.len()).all(|column| {
            let (left, right) = self.columns[column];
            let (mut lines, mut full, mut words, mut characters) = (0, 0, 0, 0);
            for (start, end, cells) in rows.iter().flat_map(pieces) {
                if self.column(start) == column {
                    let text = text(cells);
                    lines += 1;
                    full += usize::from(end - left >= FULL * (right - left));
                    words += text.split(' ').filter(|word| word.contains(char::is_alphabetic)).count();
                    characters += text.chars().count();
                }
            }
            lines >= LINES
                && 10 * full >= MOST * lines
                && words >= WORDS * lines
                && characters >= CHARACTERS * lines
        })
    }
}

/// Writes columns of text one after the other.
pub(super) fn write(rows: &[Row], columns: &Columns, out: &mut String) {
    for column in 0..columns.columns.len() {
        let mut is_first = true;
        for row in rows {
            for cells in columns.cells(row, column) {
                if !out.is_empty() && (row.begins_paragraph || (is_first && column > 0)) {
                    out.push('\n');
                }
                is_first = false;
                out.push_str(&text(cells));
                out.push('\n');
            }
        }
    }
}
