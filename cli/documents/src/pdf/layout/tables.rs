//! Rows as text. Cells are separated by tabs. Where cells of rows that follow each other stand in the same columns, they
//! are a table: a cell that is empty there is written as a dash, so that each value stays in its column.

use super::words::Row;

/// Rows of a table are not farther apart than this, in sizes of the font.
const PITCH: f64 = 3.2;
/// Cells that overlap by less than this, in sizes of the font, are in different columns.
const OVERLAP: f64 = 0.2;
/// Rows with more cells are no rows of a table.
const MAX_CELLS: usize = 200;
/// Rows of a table, after which another one begins.
const MAX_ROWS: usize = 2_000;
/// So many rows have cells in a column.
const ROWS_OF_A_COLUMN: usize = 2;
const EMPTY: &str = "–";

/// Where a column is.
#[derive(Clone, Copy, Debug)]
struct Column {
    left: f64,
    right: f64,
    rows: usize,
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

/// Whether a row is below another, near enough for a table.
fn is_next(row: &Row, next: &Row) -> bool {
    let down = row.y - next.y;
    row.turn == next.turn && down > 0.0 && down < PITCH * row.size.max(next.size)
}

/// Rows that may have a table among them.
fn write_group(rows: &[Row], is_rtl: bool, text: &mut String) {
    let columns = columns(rows);
    let is_wide = |row: &Row| row.cells.len() > 1;
    let first = rows.iter().position(is_wide).unwrap_or(rows.len());
    let last = rows.iter().rposition(is_wide).unwrap_or(0);
    for (i, row) in rows.iter().enumerate() {
        if row.begins_paragraph && !text.is_empty() {
            text.push('\n');
        }
        let is_within = (first..=last).contains(&i);
        let places = columns.as_ref().filter(|_| is_within).and_then(|columns| places(row, columns, is_rtl));
        let mut next = 0;
        let mut order: Vec<usize> = (0..row.cells.len()).collect();
        if is_rtl {
            order.reverse();
        }
        for (n, &cell) in order.iter().enumerate() {
            if n > 0 {
                text.push('\t');
            }
            if let Some(places) = &places {
                for _ in next..places[cell] {
                    text.push_str(EMPTY);
                    text.push('\t');
                }
                next = places[cell] + 1;
            }
            text.push_str(&row.cells[cell].text);
        }
        text.push('\n');
    }
}

/// The columns of a table; none if the rows are none. The rows with most cells tell most about them.
fn columns(rows: &[Row]) -> Option<Vec<Column>> {
    let mut wide: Vec<&Row> = rows.iter().filter(|row| (2..=MAX_CELLS).contains(&row.cells.len())).collect();
    if wide.len() < ROWS_OF_A_COLUMN {
        return None;
    }
    wide.sort_by_key(|row| std::cmp::Reverse(row.cells.len()));
    let mut columns: Vec<Column> = Vec::new();
    for row in wide {
        for cell in &row.cells {
            let slack = OVERLAP * row.size;
            let over: Vec<usize> = over(&columns, cell.left + slack, cell.right - slack).take(2).collect();
            match (over.first(), over.get(1)) {
                (None, _) => {
                    let at = columns.partition_point(|column| column.left < cell.left);
                    if columns.len() < MAX_CELLS {
                        columns.insert(at, Column { left: cell.left, right: cell.right, rows: 1 });
                    }
                }
                (Some(&i), None) => {
                    let (left, right) = (
                        i.checked_sub(1).map(|i| columns[i].right),
                        columns.get(i + 1).map(|next| next.left),
                    );
                    let column = &mut columns[i];
                    column.rows += 1;
                    column.left = column.left.min(left.map_or(cell.left, |left| cell.left.max(left)));
                    column.right = column.right.max(right.map_or(cell.right, |right| cell.right.min(right)));
                }
                // A cell over several columns tells nothing about them.
                _ => {}
            }
        }
    }
    let shared = columns.iter().filter(|column| column.rows >= ROWS_OF_A_COLUMN).count();
    (shared >= 2).then_some(columns)
}

/// The columns that a cell is over.
fn over(columns: &[Column], left: f64, right: f64) -> impl Iterator<Item = usize> {
    let is_over = move |column: &Column| left < column.right && column.left < right.max(left);
    columns.iter().enumerate().filter(move |(_, column)| is_over(column)).map(|(i, _)| i)
}

/// The numbers of the columns of a row's cells in the order of reading; none if two cells are in the same column.
fn places(row: &Row, columns: &[Column], is_rtl: bool) -> Option<Vec<usize>> {
    let slack = OVERLAP * row.size;
    let mut places = Vec::with_capacity(row.cells.len());
    for cell in &row.cells {
        let place = over(columns, cell.left + slack, cell.right - slack).next()?;
        if places.last().is_some_and(|last| *last >= place) {
            return None;
        }
        places.push(place);
    }
    if is_rtl {
        places.iter_mut().for_each(|place| *place = columns.len() - 1 - *place);
    }
    Some(places)
}
