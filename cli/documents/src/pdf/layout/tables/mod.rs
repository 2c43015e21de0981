//! Rows as text. Cells are separated by tabs. Where cells of rows that follow each other stand in the same columns, they
//! are a table: a cell that is empty there is written as a dash, so that each value stays in its column.
//!
//! The rows with most cells tell where the columns are. A cell that is over two columns belongs to none, and its row to
//! no table. If rows of a table are the exception among the others, there is none.
//!
//! A header in the middle above several columns stands in the first of them. Text that continues a cell of the row above
//! is written there.
//!
//! `columns.rs` joins the columns of tables that are drawn one after the other, `cells.rs` cells that are drawn with all of
//! their lines. `headers.rs` is for the names of columns, `carried.rs` for tables that go on over a page. `prose.rs` is for
//! columns of text. Where lines divide the columns, `ruled.rs` has found the table before; `rules.rs` has the lines.

pub(in super::super) mod carried;
pub(super) mod cells;
pub(super) mod columns;
mod headers;
mod prose;
pub(super) mod ruled;
pub(in super::super) mod rules;

use std::borrow::Cow;

use self::carried::Carried;
use self::ruled::Ruled;
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
/// A table that goes on over a page has so many rows below it and above it, such as numbers of pages.
const ROWS_AROUND: usize = 3;
/// Text that continues a cell is not farther below it than this, in sizes of the font.
const CONTINUED: f64 = 1.7;
/// It is so much nearer than the next row, where only that tells.
const NEARER: f64 = 0.93;
/// Lines of a name in the first column are not farther apart than this, unless they are so much nearer than rows: text above or
/// below a table is. Below, a small letter tells more.
const PITCH_OF_NAMES: f64 = 1.35;
const MUCH_NEARER: f64 = 0.75;
/// It begins at most so far before the column, or ends or has its middle so near to that of the line above.
const BEFORE: f64 = 0.5;
const SAME_PLACE: f64 = 0.1;
/// It is not smaller than this share of the size above, which is that of a heading.
const SMALLER: f64 = 0.85;
/// So many rows below a header are looked at.
const MAX_HEADER_DISTANCE: usize = 20;
/// Below a header over several columns, so many rows have cells in each of them.
const ROWS_BELOW_HEADER: usize = 2;
/// The middle of such a header is nearer to that of its columns than this share of their width.
const CENTERED: f64 = 0.3;

/// Where a column is.
#[derive(Clone, Copy, Debug)]
struct Column {
    left: f64,
    right: f64,
}

/// Writes rows, with empty lines between paragraphs. `carried` is the table at the end of the page before, and becomes that of
/// this page.
pub(super) fn write(rows: &[Row], is_rtl: bool, carried: &mut Option<Carried>) -> String {
    let mut text = String::new();
    let mut before = carried.take();
    let mut above: Option<Carried> = None;
    let mut rest = rows;
    while !rest.is_empty() {
        let is_at_top = rows.len() - rest.len() <= ROWS_AROUND;
        let length = rest.windows(2).take(MAX_ROWS).take_while(|two| is_next(&two[0], &two[1])).count() + 1;
        let (group, after) = rest.split_at(length);
        match &group[0].table {
            Some(table) => {
                above = None;
                write_ruled(table, is_rtl, &mut text);
            }
            None => {
                let of_page_before = before.take_if(|before| is_at_top && before.is_continued(group));
                let continued =
                    of_page_before.as_ref().or(above.as_ref().filter(|above| above.goes_on(group)));
                let written = write_group(group, is_rtl, continued, &mut text);
                *carried = written.clone().filter(|_| after.len() <= ROWS_AROUND).or(carried.take());
                above = written.or(above);
            }
        }
        rest = after;
    }
    text
}

/// Whether two rows may be of the same table.
fn is_next(row: &Row, next: &Row) -> bool {
    let down = row.bottom - next.y;
    let is_near = row.turn == next.turn && down > 0.0 && down < PITCH * row.size.max(next.size);
    let are_ruled = row.table.is_some() || next.table.is_some();
    is_near && !are_ruled && !is_prose(row) && !is_prose(next)
}

fn is_prose(row: &Row) -> bool {
    let words = |cell: &Cell| cell.text.bytes().filter(|byte| *byte == b' ').count() + 1;
    row.cells[1..].iter().all(|cell| !cell.is_apart)
        && row.cells.iter().map(words).sum::<usize>() >= WORDS_OF_PROSE
}

/// Writes a table whose columns are known.
fn write_ruled(table: &Ruled, is_rtl: bool, text: &mut String) {
    for (i, cells) in table.rows.iter().enumerate() {
        let row = Written {
            begins_paragraph: i == 0,
            indent: 0,
            columns: Some(table.columns),
            first: 0,
            size: 0.0,
            cells: cells.clone(),
        };
        row.write(is_rtl, text);
    }
}

/// Writes rows that may be a table, or go on with one. Returns where the columns are that the next page may go on with.
fn write_group(rows: &[Row], is_rtl: bool, before: Option<&Carried>, text: &mut String) -> Option<Carried> {
    if !is_rtl && let Some((columns, end)) = prose::columns(rows) {
        let (above, lines) = (&rows[..columns.start], &rows[columns.start..end]);
        match columns.table(lines, above.last()) {
            Some(table) => {
                write_table(&[above, &table].concat(), is_rtl, None, text);
            }
            None => {
                write_table(above, is_rtl, None, text);
                prose::write(lines, &columns, text);
            }
        }
        return if end < rows.len() { write_group(&rows[end..], is_rtl, None, text) } else { None };
    }
    match headers::next_table(rows) {
        Some(next) => {
            write_table(&rows[..next], is_rtl, before, text);
            write_group(&rows[next..], is_rtl, None, text)
        }
        None => write_table(rows, is_rtl, before, text),
    }
}

/// A row of a table, or another one, with the cells of each column.
struct Written {
    begins_paragraph: bool,
    indent: usize,
    /// The number of columns; none for a row that is in no table.
    columns: Option<usize>,
    /// The number of columns before those of the table.
    first: usize,
    size: f64,
    cells: Vec<(usize, String)>,
}

fn write_table(rows: &[Row], is_rtl: bool, before: Option<&Carried>, text: &mut String) -> Option<Carried> {
    let rows = &*headers::join(rows);
    let rows = &*if is_rtl { Cow::Borrowed(rows) } else { headers::divide(rows) };
    let Table { places, columns } = Table::of(rows, before);
    let carried = Carried::of(rows, &places, &columns, before);
    let pitch = row_pitch(rows, &places);
    let mut table: Vec<Written> = Vec::with_capacity(rows.len());
    for (i, (row, places)) in rows.iter().zip(places).enumerate() {
        if let Some(above) = table.last_mut()
            && !is_rtl
            && places.is_none()
            && let Some(cells) = continued(row, &rows[i - 1], above, &columns, pitch_at(rows, i, pitch))
        {
            for (cell, at) in row.cells.iter().zip(cells) {
                let above = &mut above.cells[at].1;
                above.push(' ');
                above.push_str(&cell.text);
            }
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
        let indent = if places.is_none() { row.indent } else { 0 };
        let (columns, first) = places.map_or((None, 0), |places| (Some(places.columns), places.first));
        let (begins_paragraph, size) = (row.begins_paragraph, row.size);
        table.push(Written { begins_paragraph, indent, columns, first, size, cells });
    }
    for row in table {
        row.write(is_rtl, text);
    }
    carried
}

impl Written {
    fn write(mut self, is_rtl: bool, text: &mut String) {
        if self.begins_paragraph && !text.is_empty() {
            text.push('\n');
        }
        text.extend(std::iter::repeat_n(' ', self.indent));
        let mut line: Vec<&str> = Vec::new();
        if is_rtl {
            self.cells.reverse();
        }
        for (number, cell) in &self.cells {
            let before = match self.columns {
                Some(columns) if is_rtl => columns - 1 - number,
                None if is_rtl => 0,
                _ => *number,
            };
            line.extend(std::iter::repeat_n(EMPTY, before.saturating_sub(line.len())));
            line.push(cell);
        }
        text.push_str(&line.join("\t"));
        text.push('\n');
    }
}

/// The usual distance between rows of a table, of those that begin in its first column.
fn row_pitch(rows: &[Row], places: &[Option<Places>]) -> f64 {
    let firsts = rows.iter().zip(places);
    let firsts =
        firsts.filter(|(_, places)| places.as_ref().is_some_and(|places| places.cells.first() == Some(&0)));
    let y: Vec<f64> = firsts.map(|(row, _)| row.y).collect();
    let mut pitches: Vec<f64> = y.windows(2).map(|two| two[0] - two[1]).collect();
    pitches.sort_by(f64::total_cmp);
    pitches.get(pitches.len() / 2).copied().unwrap_or_default()
}

/// The usual distance between rows, or the one to the next row with several cells if that is smaller.
fn pitch_at(rows: &[Row], at: usize, pitch: f64) -> f64 {
    match rows.get(at + 1) {
        Some(next) if next.cells.len() > 1 => pitch.min(rows[at].bottom - next.y),
        _ => pitch,
    }
}

/// The cells of the row above that a row continues, if each of its cells is text under text of that row. `line` is the line
/// before this one, and `pitch` the usual distance of rows.
fn continued(row: &Row, line: &Row, above: &Written, columns: &[Column], pitch: f64) -> Option<Vec<usize>> {
    let distance = line.bottom - row.y;
    above.columns.filter(|_| above.cells.len() > 1)?;
    let is_near =
        distance < CONTINUED * row.size && !row.begins_paragraph && row.size >= SMALLER * above.size;
    let mut cells = Vec::with_capacity(row.cells.len());
    for cell in &row.cells {
        let (Some(column), None) = over(columns, cell, row.size) else { return None };
        let at = above.cells.iter().position(|(number, _)| number + above.first == column)?;
        let is_text = |text: &str| text.chars().filter(|c| c.is_alphabetic()).count() > text.len() / 3;
        let before = line.cells.iter().find(|before| over(columns, before, row.size) == (Some(column), None));
        let is_in_place = cell.left > columns[column].left - BEFORE * row.size
            || before.is_some_and(|before| is_aligned(cell, before, SAME_PLACE * row.size));
        if !is_near || !is_in_place || !is_text(&cell.text) || !is_text(&above.cells[at].1) {
            return None;
        }
        // A label without values may be a row, or text below the table. It is neither if it goes on with a small letter, or is
        // nearer than rows are and as near as lines of a cell.
        let may_be_row = distance > NEARER * pitch
            || distance > PITCH_OF_NAMES * row.size && distance > MUCH_NEARER * pitch;
        if column == 0 && may_be_row && !cell.text.starts_with(char::is_lowercase) {
            return None;
        }
        cells.push(at);
    }
    Some(cells)
}

/// Whether two lines of a cell end at the same place or have the same middle.
fn is_aligned(a: &Cell, b: &Cell, slack: f64) -> bool {
    let middle = (a.left + a.right - b.left - b.right) / 2.0;
    (a.right - b.right).abs() < slack || middle.abs() < slack
}

/// The columns of the cells of a row.
#[derive(Clone, Debug)]
struct Places {
    cells: Vec<usize>,
    /// The number of columns before those of the table.
    first: usize,
    /// The number of columns of the table.
    columns: usize,
}

impl std::ops::Index<usize> for Places {
    type Output = usize;

    fn index(&self, cell: usize) -> &usize {
        &self.cells[cell]
    }
}

/// Where the columns of rows are, and the places of the cells of each row; none for a row that is not one of a table.
struct Table {
    columns: Vec<Column>,
    places: Vec<Option<Places>>,
}

impl Table {
    /// The table of these rows, or what they are of the one that they continue.
    fn of(rows: &[Row], before: Option<&Carried>) -> Table {
        if let Some(before) = before {
            let columns = before.columns.clone();
            let places = rows.iter().map(|row| places(row, &columns)).collect();
            return Table { columns, places };
        }
        let mut columns = columns(rows);
        headers::pair(rows, &mut columns);
        let places = places_in_table(rows, &columns);
        Table { columns, places }
    }
}

/// The places of the cells of each row.
fn places_in_table(rows: &[Row], columns: &[Column]) -> Vec<Option<Places>> {
    let none = || vec![None; rows.len()];
    if columns.len() < 2 {
        return none();
    }
    let place = |(i, row): (usize, &Row)| places(row, columns).or_else(|| places_of_header(rows, i, columns));
    let mut places: Vec<Option<Places>> = rows.iter().enumerate().map(place).collect();
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
    // Columns before those that rows which follow each other have are of another table. Text that continues cells is
    // between rows of the same.
    let is_inner =
        |row: &Row| row.cells.iter().all(|cell| matches!(over(columns, cell, row.size), (Some(_), None)));
    let mut rest = &mut places[..];
    while !rest.is_empty() {
        let start = rows.len() - rest.len();
        let is_in = |i: usize, places: &[Option<Places>]| places[i].is_some() || is_inner(&rows[start + i]);
        let length = (1..rest.len()).find(|i| is_in(*i, rest) != is_in(0, rest)).unwrap_or(rest.len());
        let rows;
        (rows, rest) = rest.split_at_mut(length);
        let unused =
            |places: &Places| (places.cells[0], places.columns - 1 - places.cells[places.cells.len() - 1]);
        let (left, right) =
            rows.iter().flatten().map(unused).reduce(|a, b| (a.0.min(b.0), a.1.min(b.1))).unwrap_or_default();
        for places in rows.iter_mut().flatten() {
            places.cells.iter_mut().for_each(|place| *place -= left);
            places.columns -= left + right;
            places.first = left;
        }
    }
    places
}

/// Where the columns of these rows are.
fn columns(rows: &[Row]) -> Vec<Column> {
    let has_cells = |(_, row): &(usize, &Row)| (2..=MAX_CELLS).contains(&row.cells.len());
    let mut by_cells: Vec<(usize, &Row)> = rows.iter().enumerate().filter(has_cells).collect();
    by_cells.sort_by_key(|(_, row)| std::cmp::Reverse(row.cells.len()));
    let mut columns: Vec<Column> = Vec::new();
    for (i, row) in by_cells {
        for cell in &row.cells {
            match over(&columns, cell, row.size) {
                (None, _) if columns_below(rows, i, cell, &columns).is_some() => {}
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
    (!is_continued).then_some(Places { cells, first: 0, columns: columns.len() })
}

/// The columns of the cells of a header, some of which are over several columns.
fn places_of_header(rows: &[Row], at: usize, columns: &[Column]) -> Option<Places> {
    let row = &rows[at];
    let place = |cell: &Cell| match over(columns, cell, row.size) {
        (Some(place), None) => Some(place),
        _ => columns_below(rows, at, cell, columns).map(|(first, _)| first),
    };
    let cells: Vec<usize> = row.cells.iter().map(place).collect::<Option<_>>()?;
    let are_apart = cells.len() > 1 && cells.windows(2).all(|two| two[0] < two[1]);
    are_apart.then_some(Places { cells, first: 0, columns: columns.len() })
}

/// The columns that a cell is the header of: those that it is over, or those on both sides if it is between two. No other
/// cell of its row is over them, and the rows below it have cells in each of them.
fn columns_below(rows: &[Row], at: usize, cell: &Cell, columns: &[Column]) -> Option<(usize, usize)> {
    let row = &rows[at];
    let before = columns.partition_point(|column| column.right <= cell.left + OVERLAP * row.size);
    let after = columns.partition_point(|column| column.left < cell.right - OVERLAP * row.size);
    // From the first to the last column.
    let (first, last) = match after.checked_sub(before)? {
        0 => (before.checked_sub(1)?, before),
        1 => return None,
        _ => (before, after - 1),
    };
    let (left, right) = (columns.get(first)?.left, columns.get(last)?.right);
    let middle = (cell.left + cell.right - left - right).abs() / 2.0;
    let is_over = |cell: &Cell, row: &Row, column: usize| matches!(over(columns, cell, row.size), (Some(a), b) if a == column || b == Some(column));
    let is_alone = row
        .cells
        .iter()
        .filter(|other| other.left != cell.left)
        .all(|other| (first..=last).all(|column| !is_over(other, row, column)));
    let has =
        |row: &&Row| (first..=last).all(|column| row.cells.iter().any(|cell| is_over(cell, row, column)));
    let below = rows[at + 1..].iter().take(MAX_HEADER_DISTANCE);
    (middle < CENTERED * (right - left) && is_alone && below.filter(has).count() >= ROWS_BELOW_HEADER)
        .then_some((first, last))
}
