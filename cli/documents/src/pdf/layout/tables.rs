//! Rows as text. Cells are separated by tabs. Where cells of rows that follow each other stand in the same columns, they
//! are a table: a cell that is empty there is written as a dash, so that each value stays in its column.
//!
//! The rows with most cells tell where the columns are. A cell that is over two columns belongs to none, and its row to
//! no table. If rows of a table are the exception among the others, there is none.

use super::words::{Cell, Row};

/// Rows of a table are not farther apart than this, in sizes of the font.
const PITCH: f64 = 3.2;
/// Cells that overlap by less than this, in sizes of the font, are in different columns.
const OVERLAP: f64 = 0.2;
/// Rows with more cells are no rows of a table.
const MAX_CELLS: usize = 200;
/// Rows of a table, after which another one begins.
const MAX_ROWS: usize = 1_000;
/// Text with so many words on a line is no cell.
const WORDS_OF_PROSE: usize = 10;
/// A table has so many rows; if no gap in it is wide, so many.
const ROWS: usize = 2;
const ROWS_WITHOUT_GAPS: usize = 3;
/// So many of ten rows are those of the table.
const MOST: usize = 6;
const EMPTY: &str = "–";

/// Where a column is.
#[derive(Clone, Copy, Debug)]
struct Column {
    left: f64,
    right: f64,
}

/// Writes rows, with empty lines between paragraphs.
pub(super) fn write(rows: &[Row], is_rtl: bool) -> String {
    let mut text = String::new();
    let mut rest = rows;
    while !rest.is_empty() {
        let length = rest.windows(2).take(MAX_ROWS).take_while(|two| is_next(&two[0], &two[1])).count() + 1;
        let (group, after) = rest.split_at(length);
        write_group(group, is_rtl, &mut text);
        rest = after;
    }
    text
}

/// Whether two rows may be of the same table.
fn is_next(row: &Row, next: &Row) -> bool {
    let down = row.y - next.y;
    let is_near = row.turn == next.turn && down > 0.0 && down < PITCH * row.size.max(next.size);
    is_near && !is_prose(row) && !is_prose(next)
}

fn is_prose(row: &Row) -> bool {
    let words = |cell: &Cell| cell.text.bytes().filter(|byte| *byte == b' ').count() + 1;
    row.cells[1..].iter().all(|cell| !cell.is_apart)
        && row.cells.iter().map(words).sum::<usize>() >= WORDS_OF_PROSE
}

/// Writes rows that may be a table.
fn write_group(rows: &[Row], is_rtl: bool, text: &mut String) {
    let places = places_in_table(rows);
    for (row, places) in rows.iter().zip(places) {
        if row.begins_paragraph && !text.is_empty() {
            text.push('\n');
        }
        if let ([cell], None) = (&row.cells[..], &places) {
            text.push_str(&cell.text);
            text.push('\n');
            continue;
        }
        // What is in the same column, or in the same cell where there is no table.
        let mut number = 0;
        let mut cells: Vec<(usize, String)> = Vec::new();
        for (i, cell) in row.cells.iter().enumerate() {
            number = match &places {
                Some(places) => places[i],
                None => number + usize::from(cell.is_apart && i > 0),
            };
            match cells.last_mut() {
                Some((last, text)) if *last == number => {
                    text.push(' ');
                    text.push_str(&cell.text);
                }
                _ => cells.push((number, cell.text.clone())),
            }
        }
        let mut line: Vec<&str> = Vec::new();
        let empty = std::iter::repeat(EMPTY);
        if is_rtl {
            cells.reverse();
            for (number, cell) in &cells {
                let before = places.as_ref().map_or(0, |places| places.columns - 1 - number);
                line.extend(empty.clone().take(before.saturating_sub(line.len())));
                line.push(cell);
            }
        } else {
            for (number, cell) in &cells {
                line.extend(empty.clone().take(number.saturating_sub(line.len())));
                line.push(cell);
            }
        }
        text.push_str(&line.join("\t"));
        text.push('\n');
    }
}

/// The columns of the cells of a row.
#[derive(Clone, Debug)]
struct Places {
    cells: Vec<usize>,
    /// The number of columns of the table.
    columns: usize,
}

impl std::ops::Index<usize> for Places {
    type Output = usize;

    fn index(&self, cell: usize) -> &usize {
        &self.cells[cell]
    }
}

/// The places of the cells of each row; none for a row that is not one of a table.
fn places_in_table(rows: &[Row]) -> Vec<Option<Places>> {
    let none = || vec![None; rows.len()];
    let columns = columns(rows);
    if columns.len() < 2 {
        return none();
    }
    let mut places: Vec<Option<Places>> = rows.iter().map(|row| places(row, &columns)).collect();
    let is_of_table =
        |places: &Option<Places>| places.as_ref().is_some_and(|row| row.cells.first() != row.cells.last());
    let (Some(first), Some(last)) =
        (places.iter().position(is_of_table), places.iter().rposition(is_of_table))
    else {
        return none();
    };
    let count = places.iter().filter(|row| is_of_table(row)).count();
    let has_gaps = rows
        .iter()
        .zip(&places)
        .any(|(row, places)| is_of_table(places) && row.cells[1..].iter().any(|cell| cell.is_apart));
    if count < if has_gaps { ROWS } else { ROWS_WITHOUT_GAPS } || 10 * count < MOST * (last - first + 1) {
        return none();
    }
    // Numbers of their own may follow.
    let numbers = places[last + 1..].iter().take_while(|places| places.is_some()).count();
    places[..first].fill(None);
    places[last + 1 + numbers..].fill(None);
    // Columns before those that rows which follow each other have are of another table.
    for rows in places.chunk_by_mut(|a, b| a.is_some() == b.is_some()) {
        let unused =
            |places: &Places| (places.cells[0], places.columns - 1 - places.cells[places.cells.len() - 1]);
        let (left, right) =
            rows.iter().flatten().map(unused).reduce(|a, b| (a.0.min(b.0), a.1.min(b.1))).unwrap_or_default();
        for places in rows.iter_mut().flatten() {
            places.cells.iter_mut().for_each(|place| *place -= left);
            places.columns -= left + right;
        }
    }
    places
}

/// Where the columns of these rows are.
fn columns(rows: &[Row]) -> Vec<Column> {
    let mut rows: Vec<&Row> = rows.iter().filter(|row| (2..=MAX_CELLS).contains(&row.cells.len())).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.cells.len()));
    let mut columns: Vec<Column> = Vec::new();
    for row in rows {
        for cell in &row.cells {
            match over(&columns, cell, row.size) {
                (None, _) if columns.len() < MAX_CELLS => {
                    let at = columns.partition_point(|column| column.left < cell.left);
                    columns.insert(at, Column { left: cell.left, right: cell.right });
                }
                (Some(i), None) => {
                    // A column does not grow over its neighbours.
                    let left =
                        i.checked_sub(1).map_or(cell.left, |before| cell.left.max(columns[before].right));
                    let right = columns.get(i + 1).map_or(cell.right, |after| cell.right.min(after.left));
                    columns[i].left = columns[i].left.min(left);
                    columns[i].right = columns[i].right.max(right);
                }
                // A cell over several columns tells nothing about them.
                _ => {}
            }
        }
    }
    columns
}

/// The first two columns that a cell is over.
fn over(columns: &[Column], cell: &Cell, size: f64) -> (Option<usize>, Option<usize>) {
    let slack = (OVERLAP * size).min((cell.right - cell.left) / 4.0);
    let (left, right) = (cell.left + slack, cell.right - slack);
    let first = columns.partition_point(|column| column.right <= left);
    let is_over = |i: &usize| columns.get(*i).is_some_and(|column| column.left < right);
    (Some(first).filter(is_over), Some(first + 1).filter(is_over))
}

/// The columns of a row's cells; none if a cell is over two columns, or a wide gap is within one. Words of their own
/// continue the cell above them, wherever they are.
fn places(row: &Row, columns: &[Column]) -> Option<Places> {
    let mut cells: Vec<usize> = Vec::with_capacity(row.cells.len());
    for cell in &row.cells {
        let (Some(place), None) = over(columns, cell, row.size) else { return None };
        if cells.last() == Some(&place) && cell.is_apart {
            return None;
        }
        cells.push(place);
    }
    let is_continued = cells.first() == cells.last() && !row.is_number();
    (!is_continued).then_some(Places { cells, columns: columns.len() })
}
