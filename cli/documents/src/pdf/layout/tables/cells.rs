//! Rows whose cells are drawn one after the other, each with all of its lines. Where cells are aligned in the middle or at the
//! bottom, their lines are no lines of the row: `A1`, then higher and right of it `a description that`, `wraps`, then `100`.
//!
//! Such cells are put together if no cell has numbers below each other, and a row above or below has cells in the same
//! places. Blocks of text are left as they are.

use super::super::hyphens;
use super::super::words::{Cell, Row};
use super::{MUCH_NEARER, PITCH_OF_NAMES, headers};

/// Distances in sizes of the font.
/// Lines of a cell are not farther apart than this.
const LINE_PITCH: f64 = 1.7;
/// Baselines of a row differ by less than this.
const SAME_LINE: f64 = 0.3;
/// Between cells there is so much room.
const GAP: f64 = 0.3;
/// Cells of a column begin or end within this of each other.
const SAME_PLACE: f64 = 0.2;
/// Lines of a cell begin, end or have their middle within this of each other. A list in a cell is indented by less.
const SAME_EDGE: f64 = 1.5;
/// The row above or below is not farther away than this.
const NEAR: f64 = 4.0;
/// So many rows above are looked at.
const ROWS_ABOVE: usize = 4;
/// Lines of a cell are so much nearer than rows are, where only that tells.
const NEARER: f64 = 0.93;
/// A cell has fewer lines.
const MAX_LINES: usize = 16;
/// A line of a cell with the next word is as wide as this share of the cell, and as this share of the room up to the next cell.
const NEARLY: f64 = 0.95;
const FULL: f64 = 0.6;
/// Cells of so many lines with so many characters on average are text, if two of a row are.
const LINES_OF_TEXT: usize = 3;
const CHARACTERS_OF_TEXT: usize = 20;

/// A cell and its lines.
struct Block {
    left: f64,
    right: f64,
    lines: Vec<TextLine>,
}

struct TextLine {
    left: f64,
    right: f64,
    y: f64,
    text: String,
    is_number: bool,
}

/// Puts the cells of rows together that are drawn one after the other.
pub(in super::super) fn join(rows: Vec<Row>) -> Vec<Row> {
    let mut joined = Vec::with_capacity(rows.len());
    let mut rest = rows.into_iter();
    while !rest.as_slice().is_empty() {
        match joined_row(rest.as_slice(), &joined) {
            Some((row, length)) => {
                joined.push(row);
                rest.by_ref().take(length).for_each(drop);
            }
            None => joined.extend(rest.next()),
        }
    }
    with_late_numbers(joined)
}

/// Puts numbers that are drawn behind all lines of a label on the first of these, where they stand: `3` and `Delivery to the`,
/// then below it `third floor`, then `50.00` beside the first line.
fn with_late_numbers(rows: Vec<Row>) -> Vec<Row> {
    let mut kept: Vec<Row> = Vec::with_capacity(rows.len());
    let mut rest = rows.into_iter();
    while let Some(mut row) = rest.next() {
        let next = rest.as_slice().first();
        let is_below = |line: &&Row| line.cells.len() == 1 && line.y < row.y - SAME_LINE * row.size;
        let lines = kept.iter().rev().take(MAX_LINES).take_while(is_below).count();
        let label = kept.len().checked_sub(lines + 1).filter(|_| lines > 0).filter(|label| {
            let (first, lines) = (&kept[*label], &kept[*label + 1..]);
            let last = &first.cells[first.cells.len() - 1];
            let is_line = |line: &Row| {
                line.turn == first.turn
                    && line.table.is_none()
                    && (line.cells[0].left - last.left).abs() < SAME_PLACE * row.size
            };
            // What is drawn next beside the label's other lines is a block of its own.
            let bottom = lines[lines.len() - 1].y - SAME_LINE * row.size;
            let is_block = |next: &Row| {
                next.turn == row.turn && (bottom..row.y - SAME_LINE * row.size).contains(&next.y)
            };
            first.turn == row.turn
                && first.table.is_none()
                && row.table.is_none()
                && !next.is_some_and(is_block)
                && first.cells.len() > 1
                && (first.y - row.y).abs() < SAME_LINE * row.size
                && row.cells.iter().all(|cell| headers::is_number(&cell.text))
                && lines.iter().all(is_line)
                && lines
                    .iter()
                    .chain([first])
                    .all(|line| line.cells[line.cells.len() - 1].right + GAP * row.size <= row.cells[0].left)
        });
        match label {
            Some(label) => {
                row.cells[0].is_apart = true;
                kept[label].cells.append(&mut row.cells);
            }
            None => kept.push(row),
        }
    }
    kept
}

/// The row that begins here, and how many lines it is made of; none if it is a single line, or none of a table.
fn joined_row(rows: &[Row], before: &[Row]) -> Option<(Row, usize)> {
    let (first, above) = (&rows[0], before.last());
    let mut blocks: Vec<Block> = Vec::new();
    let (mut length, mut goes_up, mut bottom) = (0, false, f64::MAX);
    for (i, row) in rows.iter().enumerate() {
        if row.turn != first.turn || row.table.is_some() {
            break;
        }
        let around = || above.into_iter().chain(rows[..i].iter().chain(&rows[i + 1..]).take(MAX_LINES));
        let cells = row.cells.chunk_by(|_, next| !next.is_apart && !begins_column(next, row.size, around()));
        let Some(up) = add(&mut blocks, &mut bottom, row, cells) else { break };
        goes_up |= up;
        length += 1;
    }
    let has_lines = blocks.len() > 1 && blocks.iter().any(|block| block.lines.len() > 1);
    let next = rows.get(length);
    let has_same_turn = |row: &&Row| row.turn == first.turn;
    let is_row = has_lines
        && (goes_up
            || stand_at_bottom(&blocks, first.size, above.filter(has_same_turn), next.filter(has_same_turn)));
    let is_after_joined = above.is_some_and(|above| above.table.is_none() && above.bottom < above.y);
    if !is_row || !are_cells(&blocks, is_after_joined) {
        return None;
    }
    let lines = blocks.iter().flat_map(|block| &block.lines);
    let y = lines.map(|line| line.y).fold(f64::MIN, f64::max);
    // What is drawn next beside the cells is of the same columns: each line is a row.
    let is_among = |row: &Row| (bottom - SAME_LINE * first.size..=y).contains(&row.y);
    if next.filter(has_same_turn).is_some_and(is_among) {
        return None;
    }
    let is_beside = |below: &Row| {
        below.turn == first.turn
            && (0.0..NEAR * first.size).contains(&(bottom - below.y))
            && has_cells_in(below, &blocks)
    };
    let row_below = next.and_then(|next| {
        // The next row may begin with its first cell alone.
        let same = rows[length..]
            .iter()
            .take(MAX_LINES)
            .filter(|row| (row.y - next.y).abs() < LINE_PITCH * next.size);
        same.clone().find(|row| row.cells.len() > 1).or_else(|| same.clone().next_back())
    });
    let is_near_above = above.is_some_and(|above| (0.0..NEAR * first.size).contains(&(above.bottom - y)));
    let mut rows_above = before.iter().rev().take(ROWS_ABOVE).filter(has_same_turn);
    let is_below_cells = is_near_above && rows_above.any(|row| has_cells_in(row, &blocks));
    if !is_below_cells && !row_below.is_some_and(is_beside) {
        return None;
    }
    let cells = blocks.iter().map(|block| {
        let text = hyphens::on_one_line(block.lines.iter().map(|line| line.text.as_str()));
        Cell { text, left: block.left, right: block.right, y, is_apart: true, words: Vec::new() }
    });
    let row = Row { cells: cells.collect(), y, bottom, pitch: None, indent: 0, ..first.clone() };
    Some((row, length))
}

/// Whether cells stand beside the last line of the first one, whose lines are nearer to each other than to the rows around.
fn stand_at_bottom(blocks: &[Block], size: f64, above: Option<&Row>, below: Option<&Row>) -> bool {
    let (lines, others) = (&blocks[0].lines, &blocks[1..]);
    let (top, bottom) = (lines[0].y, lines[lines.len() - 1].y);
    let pitch = lines.windows(2).map(|two| two[0].y - two[1].y).fold(0.0, f64::max);
    let to_above = above.map(|above| above.bottom - top);
    let to_below = below.map(|below| bottom - below.y);
    let distance = to_above.into_iter().chain(to_below).filter(|down| *down > 0.0).reduce(f64::min);
    lines.len() > 1
        && others
            .iter()
            .all(|other| other.lines.len() == 1 && (other.lines[0].y - bottom).abs() < SAME_LINE * pitch)
        && distance.is_some_and(|distance| {
            pitch < NEARER * distance && (pitch < PITCH_OF_NAMES * size || pitch < MUCH_NEARER * distance)
        })
}

/// Whether a cell that is near the one before it stands where other rows have one.
fn begins_column<'a>(cell: &Cell, size: f64, mut rows: impl Iterator<Item = &'a Row>) -> bool {
    let is_near = |a: f64, b: f64| (a - b).abs() < SAME_PLACE * size;
    let is_like = |other: &Cell| {
        other.is_apart
            && (is_near(other.left, cell.left)
                || is_near(other.right, cell.right)
                || is_near(other.left + other.right, cell.left + cell.right))
    };
    rows.any(|row| row.cells[1..].iter().any(is_like))
}

/// Adds the cells of a line to those of a row, whose lowest baseline is `bottom`. None if they are not of the row; whether one
/// is higher than the last line.
fn add<'a>(
    blocks: &mut Vec<Block>,
    bottom: &mut f64,
    row: &Row,
    cells: impl Iterator<Item = &'a [Cell]>,
) -> Option<bool> {
    let size = row.size;
    let mut goes_up = false;
    for (i, cells) in cells.enumerate() {
        let (left, right) = (cells[0].left, cells[cells.len() - 1].right);
        let text = cells.iter().map(|cell| cell.text.as_str()).collect::<Vec<_>>().join(" ");
        let is_number = headers::is_number(&text);
        let line = TextLine { left, right, y: cells[0].y, text, is_number };
        let Some(last) = blocks.last_mut() else {
            blocks.push(Block { left, right, lines: vec![line] });
            *bottom = cells[0].y;
            continue;
        };
        let line_above = &last.lines[last.lines.len() - 1];
        let down = (line_above.y - cells[0].y) / size;
        let is_over = left < last.right && last.left < right && are_aligned(line_above, &line, size);
        if i == 0 && is_over && (0.5..LINE_PITCH).contains(&down) && last.lines.len() < MAX_LINES {
            last.left = last.left.min(left);
            last.right = last.right.max(right);
            last.lines.push(line);
        } else if left >= last.right + GAP * size && (i > 0 || cells[0].y > *bottom - SAME_LINE * size) {
            goes_up |= down < -SAME_LINE;
            blocks.push(Block { left, right, lines: vec![line] });
        } else {
            return None;
        }
        *bottom = bottom.min(cells[0].y);
    }
    Some(goes_up)
}

/// Whether two lines may be of one cell, by where they stand.
fn are_aligned(a: &TextLine, b: &TextLine, size: f64) -> bool {
    let is_near = |a: f64, b: f64| (a - b).abs() < SAME_EDGE * size;
    is_near(a.left, b.left)
        || is_near(a.right, b.right)
        || is_near((a.left + a.right) / 2.0, (b.left + b.right) / 2.0)
}

/// Whether these are cells of a row, rather than columns of a table or blocks of text. `is_after_joined` says whether the row
/// above is made of such cells.
fn are_cells(blocks: &[Block], is_after_joined: bool) -> bool {
    let has_stacked_numbers =
        |block: &Block| block.lines.windows(2).any(|two| two[0].is_number && two[1].is_number);
    let is_text = |block: &&Block| {
        let characters: usize = block.lines.iter().map(|line| line.text.chars().count()).sum();
        block.lines.len() >= LINES_OF_TEXT && characters >= CHARACTERS_OF_TEXT * block.lines.len()
    };
    let are_alike = |a: &Block, b: &Block| {
        let is_same = |(a, b): (&TextLine, &TextLine)| (a.y - b.y).abs() < 2.0;
        a.lines.len() != b.lines.len() || a.lines.iter().zip(&b.lines).all(is_same)
    };
    let lines = blocks[0].lines.len();
    let has_number = blocks.iter().flat_map(|block| &block.lines).any(|line| line.is_number);
    !blocks.iter().any(has_stacked_numbers)
        && blocks.iter().filter(is_text).count() < 2
        && blocks.windows(2).all(|two| are_alike(&two[0], &two[1]))
        && (is_after_joined || blocks.iter().any(|block| block.lines.len() != lines))
        && (0..blocks.len())
            .all(|at| is_wrapped(&blocks[at], blocks.get(at + 1), has_number || is_after_joined))
}

/// Whether the lines of a cell are ended because the next word does not fit. In a header they may be ended anywhere.
fn is_wrapped(block: &Block, next: Option<&Block>, is_below_header: bool) -> bool {
    let room = next.map_or(0.0, |next| FULL * (next.left - block.left));
    let least = room.max(NEARLY * (block.right - block.left));
    !is_below_header && block.lines.len() < LINES_OF_TEXT
        || block.lines.windows(2).all(|two| {
            let (line, next) = (&two[0], &two[1]);
            let width = (next.right - next.left) / next.text.chars().count().max(1) as f64;
            let word = next.text.split(' ').next().unwrap_or_default().chars().count() + 1;
            line.right - line.left + width * word as f64 >= least
        })
}

/// Whether the cells of a row are each above or below one of these, and at least two of them.
fn has_cells_in(row: &Row, blocks: &[Block]) -> bool {
    let over = |cell: &Cell| {
        blocks.iter().filter(|block| cell.left < block.right && block.left < cell.right).count()
    };
    row.cells.len() > 1
        && row.cells.iter().all(|cell| over(cell) <= 1)
        && row.cells.iter().filter(|cell| over(cell) == 1).count() > 1
}
