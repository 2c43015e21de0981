//! Headers of tables: those of several lines, and those that do not stand above the values of their column, as a name on the
//! left above numbers on the right.

use std::borrow::Cow;
use std::ops::Range;

use super::super::words::{Cell, NARROW_CELL, Row};
use super::{Column, over};

/// Distances in sizes of the font.
/// Lines of a header are not farther apart than this.
const LINE_PITCH: f64 = 1.45;
/// They are so much nearer than rows are, where only that tells.
const NEARER: f64 = 0.93;
/// A header has so many lines.
const MAX_LINES: usize = 4;
/// So many rows below a header are looked at, and so many of ten cells there are numbers.
const ROWS_BELOW: usize = 12;
const NUMBERS: usize = 5;
/// Words of a column begin or end within this of each other. So many rows show that they do.
const SAME_PLACE: f64 = 0.15;
const ROWS_ALIKE: usize = 2;
/// A name between two columns belongs to the one that is nearer by this factor.
const CLEARLY_NEARER: f64 = 0.5;

/// Rows with a header of several lines as one row.
pub(super) fn join(rows: &[Row]) -> Cow<'_, [Row]> {
    let Some(first) = rows.iter().position(|row| row.cells.len() > 1) else { return Cow::Borrowed(rows) };
    let is_line = |two: &&[Row]| {
        let down = two[0].bottom - two[1].y;
        is_names(&two[1]) && (0.0..LINE_PITCH * two[0].size.max(two[1].size)).contains(&down)
    };
    let more = rows[first..].windows(2).take(MAX_LINES - 1).take_while(is_line).count();
    let end = first + more + 1;
    if !is_names(&rows[first]) || more == 0 || rows.len() < end + 2 || !are_numbers(&rows[end..]) {
        return Cow::Borrowed(rows);
    }
    let lines = &rows[first..end];
    let pitch = lines.windows(2).map(|two| two[0].bottom - two[1].y).fold(0.0, f64::max);
    let below = rows[end - 1..].windows(2).take(ROWS_BELOW).map(|two| two[0].bottom - two[1].y);
    let is_near = pitch < NEARER * below.fold(f64::MAX, f64::min);
    let Some(cells) = joined(lines, is_near) else { return Cow::Borrowed(rows) };
    let header = Row { cells, bottom: rows[end - 1].bottom, ..rows[first].clone() };
    let mut joined = rows[..first].to_vec();
    joined.push(header);
    joined.extend_from_slice(&rows[end..]);
    Cow::Owned(joined)
}

/// The tables among rows, each a header with numbers below it.
fn tables(rows: &[Row]) -> Vec<Range<usize>> {
    let headers: Vec<usize> = (0..rows.len()).filter(|at| is_header(&rows[*at])).collect();
    let ends = headers.iter().skip(1).copied().chain([rows.len()]);
    let tables = headers.iter().zip(ends).map(|(at, end)| *at..end);
    tables
        .filter(|table| table.len() > ROWS_ALIKE && are_numbers(&rows[table.start + 1..table.end]))
        .collect()
}

/// Where the next table with a header of its own begins: below the numbers of another one, and with numbers below it.
pub(super) fn next_table(rows: &[Row]) -> Option<usize> {
    let begins = tables(rows).into_iter().map(|table| table.start);
    begins.skip(1).find(|at| !is_header(&rows[at - 1]))
}

/// Rows of tables whose columns are near to each other, as those of a sheet. Names are divided at gaps that are wider than a space,
/// if numbers below end where a word does. Numbers are divided from the text beside them where a name begins or ends. Where all
/// letters have one width, spaces are wide, and rows stay.
pub(super) fn divide(rows: &[Row]) -> Cow<'_, [Row]> {
    let mut divided = Cow::Borrowed(rows);
    for table in tables(rows) {
        if let [header, below @ ..] = &mut divided.to_mut()[table]
            && header.pitch.is_none()
        {
            divide_table(header, below);
        }
    }
    divided
}

fn divide_table(header: &mut Row, below: &mut [Row]) {
    let size = header.size;
    let near = |a: f64, b: f64| (a - b).abs() < SAME_PLACE * size;
    let is_wide = |word: &(f64, f64), next: &(f64, f64)| next.0 - word.1 >= NARROW_CELL * size;
    let numbers = below.iter().take(ROWS_BELOW).flat_map(|row| &row.cells);
    let numbers: Vec<f64> = numbers.filter(|cell| is_number(&cell.text)).map(|cell| cell.right).collect();
    let ends_column =
        |word: &(f64, f64)| numbers.iter().filter(|end| near(**end, word.1)).count() >= ROWS_ALIKE;
    let names = |cell: &Cell| match cell.words.iter().any(ends_column) {
        true => cell.divided(|(word, _), (next, _)| is_wide(&word, &next)),
        false => vec![cell.clone()],
    };
    header.cells = header.cells.iter().flat_map(names).collect();
    let is_divided = |(word, text): Word<'_>, (next, next_text): Word<'_>| {
        let is_between = |name: &Cell| near(name.left, next.0) || near(name.right, word.1);
        is_wide(&word, &next)
            && (is_number(text) || is_number(next_text))
            && header.cells.iter().any(is_between)
    };
    for row in below.iter_mut().filter(|row| row.pitch.is_none()) {
        row.cells = row.cells.iter().flat_map(|cell| cell.divided(is_divided)).collect();
    }
}

/// Where a word begins and ends, and the word.
type Word<'a> = ((f64, f64), &'a str);

impl Cell {
    /// Its parts, divided between words where `is_divided` says so. They may be parts of a cell.
    fn divided(&self, is_divided: impl Fn(Word<'_>, Word<'_>) -> bool) -> Vec<Cell> {
        let mut parts: Vec<Cell> = Vec::new();
        let mut last: Option<Word<'_>> = None;
        for (&word, text) in self.words.iter().zip(self.text.split(' ')) {
            let is_next = last.replace((word, text)).is_some_and(|last| is_divided(last, (word, text)));
            match parts.last_mut() {
                Some(part) if !is_next => {
                    part.text.push(' ');
                    part.text.push_str(text);
                    part.right = part.right.max(word.1);
                    part.words.push(word);
                }
                before => {
                    let is_apart = before.is_none() && self.is_apart;
                    let (text, words) = (text.to_owned(), vec![word]);
                    parts.push(Cell { text, left: word.0, right: word.1, y: self.y, is_apart, words });
                }
            }
        }
        if parts.is_empty() { vec![self.clone()] } else { parts }
    }
}

/// The cells of a header of these lines; none if a cell is over two others. Where lines are as far apart as rows, what is below
/// a cell must go on as a name does: with a small letter or a bracket.
fn joined(lines: &[Row], is_near: bool) -> Option<Vec<Cell>> {
    let mut cells = lines[0].cells.clone();
    for row in &lines[1..] {
        let mut is_over_any = false;
        for cell in &row.cells {
            let mut above =
                cells.iter_mut().filter(|above| above.left < cell.right && cell.left < above.right);
            match (above.next(), above.next()) {
                (None, _) => {
                    let at = cells.partition_point(|other| other.left < cell.left);
                    cells.insert(at, Cell { is_apart: true, ..cell.clone() });
                }
                (Some(above), None) => {
                    let goes_on = cell.text.starts_with(|c: char| c.is_lowercase() || matches!(c, '(' | '['));
                    if !is_near && !goes_on {
                        return None;
                    }
                    is_over_any = true;
                    above.text = format!("{} {}", above.text, cell.text);
                    above.words.clear();
                    above.left = above.left.min(cell.left);
                    above.right = above.right.max(cell.right);
                }
                _ => return None,
            }
        }
        if !is_over_any {
            return None;
        }
    }
    let are_apart = cells.windows(2).all(|two| two[0].right <= two[1].left);
    are_apart.then_some(cells)
}

/// Whether the cells of a row are names: words without digits.
fn is_names(row: &Row) -> bool {
    row.cells.iter().all(|cell| is_name(&cell.text) && !cell.text.contains(|c: char| c.is_ascii_digit()))
}

/// Whether a row has the names of several columns, which may be years, and nothing else.
pub(super) fn is_header(row: &Row) -> bool {
    let has_digits = |text: &str| text.contains(|c: char| c.is_ascii_digit());
    row.cells.len() > 1
        && row.cells.iter().all(|cell| is_year(&cell.text) || is_name(&cell.text) && !has_digits(&cell.text))
}

/// Whether a text may name a column: words or a year.
fn is_name(text: &str) -> bool {
    is_year(text) || text.contains(char::is_alphabetic)
}

fn is_year(text: &str) -> bool {
    text.len() == 4
        && (text.starts_with("19") || text.starts_with("20"))
        && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a text is a number with its unit, rather than words.
pub(super) fn is_number(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_digit()) && text.chars().filter(|c| c.is_alphabetic()).count() <= 3
}

/// Whether most cells of rows, but those at the left, are numbers.
pub(super) fn are_numbers(rows: &[Row]) -> bool {
    let cells = || rows.iter().take(ROWS_BELOW).flat_map(|row| row.cells.iter().skip(1));
    let numbers = cells().filter(|cell| is_number(&cell.text)).count();
    numbers > 0 && 10 * numbers >= NUMBERS * cells().count()
}

/// What is in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Name,
    Values,
    Both,
}

/// Makes one column of a name and of the values beside it, where neither has anything above or below.
pub(super) fn pair(rows: &[Row], columns: &mut Vec<Column>) {
    let Some(header) = rows.iter().position(|row| row.cells.len() > 1) else { return };
    let row = &rows[header];
    if !row.cells.iter().all(|cell| is_name(&cell.text)) || rows.len() < header + 2 {
        return;
    }
    let mut has_name = vec![false; columns.len()];
    let mut has_values = vec![false; columns.len()];
    let mut has_text = vec![false; columns.len()];
    for (i, row) in rows.iter().enumerate().skip(header) {
        for cell in &row.cells {
            match over(columns, cell, row.size) {
                (Some(column), None) if i == header => has_name[column] = true,
                (Some(column), None) => {
                    has_values[column] = true;
                    has_text[column] |= !is_number(&cell.text);
                }
                _ => {}
            }
        }
    }
    let content = |column: usize| match (has_name[column], has_values[column]) {
        (true, false) => Content::Name,
        (false, true) => Content::Values,
        _ => Content::Both,
    };
    let contents: Vec<Content> = (0..columns.len()).map(content).collect();
    // The labels of rows often have no name.
    let first = usize::from(contents.first() == Some(&Content::Values) && has_text[0]);
    let mut pairs: Vec<usize> = Vec::new();
    let mut start = first;
    while start < columns.len() {
        let length = contents[start..].iter().take_while(|content| **content != Content::Both).count();
        let alternates = contents[start..start + length].windows(2).all(|two| two[0] != two[1]);
        match length {
            _ if !alternates => {}
            3 if contents[start + 1] == Content::Values => {
                // A column may be empty: the values belong to the name that is nearer.
                let before = columns[start + 1].left - columns[start].right;
                let after = columns[start + 2].left - columns[start + 1].right;
                if before < CLEARLY_NEARER * after {
                    pairs.push(start);
                } else if after < CLEARLY_NEARER * before {
                    pairs.push(start + 1);
                }
            }
            _ if length % 2 == 0 => pairs.extend((start..start + length).step_by(2)),
            _ => {}
        }
        start += length.max(1);
    }
    for at in pairs.into_iter().rev() {
        let second = columns.remove(at + 1);
        columns[at].right = columns[at].right.max(second.right);
    }
}
