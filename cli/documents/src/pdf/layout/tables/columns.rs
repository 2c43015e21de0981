//! Tables and forms that are drawn column by column: first all labels, then all values. Their cells are put beside each
//! other if each stands on the line of a label, is short, and is a number or the value of a label with a colon. Columns
//! of other text are read one after the other, as those of a newspaper.

use super::super::words::Row;

/// Lines of a column are not farther apart than this, in sizes of the font.
const PITCH: f64 = 3.2;
/// Baselines of a line differ by less than this.
const SAME_LINE: f64 = 0.25;
/// Cells have fewer characters than this.
const SHORT: usize = 40;
/// So many of ten cells are numbers, or labels with a colon.
const MOST: usize = 6;
/// Columns of a table.
const MAX_COLUMNS: usize = 100;

/// Joins columns to rows.
pub(in super::super) fn join(rows: Vec<Row>) -> Vec<Row> {
    let mut blocks: Vec<Vec<Row>> = Vec::new();
    for row in rows {
        match blocks.last_mut() {
            Some(block) if continues(&block[block.len() - 1], &row) => block.push(row),
            _ => blocks.push(vec![row]),
        }
    }
    let mut joined: Vec<Vec<Row>> = Vec::new();
    for block in blocks {
        match joined.last_mut() {
            Some(table) if belongs_to(table, &block) => {
                let mut block = block.into_iter().peekable();
                for row in table {
                    if let Some(mut cell) = block.next_if(|cell| is_same_line(row, cell)) {
                        cell.cells[0].is_apart = true;
                        row.cells.extend(cell.cells);
                    }
                }
            }
            _ => joined.push(block),
        }
    }
    joined.into_iter().flatten().collect()
}

/// Whether a row is the next one of a column.
fn continues(last: &Row, row: &Row) -> bool {
    let down = (last.y - row.y) / last.size.max(row.size);
    last.turn == row.turn && last.table.is_none() && row.table.is_none() && (SAME_LINE..PITCH).contains(&down)
}

fn is_same_line(a: &Row, b: &Row) -> bool {
    a.turn == b.turn && (a.y - b.y).abs() < SAME_LINE * a.size.max(b.size)
}

/// Whether a block is a column right of a table.
fn belongs_to(table: &[Row], block: &[Row]) -> bool {
    let is_one = |row: &Row| row.cells[1..].iter().all(|cell| !cell.is_apart) && length(row) < SHORT;
    let is_label = |row: &Row| row.cells.len() < MAX_COLUMNS && row.cells[0].text.len() < SHORT;
    let is_right_of =
        |cell: &Row, row: &Row| row.cells.last().is_some_and(|last| last.right <= cell.cells[0].left);
    let mut lines = table.iter();
    if table.len() < 2
        || block[0].table.is_some()
        || !block.iter().all(is_one)
        || !table.iter().all(is_label)
        || !block.iter().all(|cell| lines.any(|row| is_same_line(row, cell) && is_right_of(cell, row)))
    {
        return false;
    }
    let most = |count: usize, of: usize| of > 0 && 10 * count >= MOST * of;
    // The first cell may be the head of the column.
    let numbers = block.iter().filter(|row| row.is_number()).count();
    let has_head = !block[0].is_number();
    let labels = table.iter().filter(|row| row.cells[0].text.ends_with(':')).count();
    most(numbers, block.len() - usize::from(has_head)) || most(labels, table.len())
}

fn length(row: &Row) -> usize {
    row.cells.iter().map(|cell| cell.text.len()).sum()
}
