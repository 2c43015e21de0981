//! Headers of tables: those of several lines, and those that do not stand above the values of their column, as a name on the
//! left above numbers on the right.

use std::borrow::Cow;

use super::super::words::{Cell, Row};
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

/// Whether a text may name a column: words or a year.
fn is_name(text: &str) -> bool {
    let is_year = text.len() == 4
        && (text.starts_with("19") || text.starts_with("20"))
        && text.bytes().all(|byte| byte.is_ascii_digit());
    is_year || text.contains(char::is_alphabetic)
}

/// Whether a text is a number with its unit, rather than words.
pub(super) fn is_number(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_digit()) && text.chars().filter(|c| c.is_alphabetic()).count() <= 3
}

/// Whether most cells of rows, but those at the left, are numbers.
fn are_numbers(rows: &[Row]) -> bool {
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
