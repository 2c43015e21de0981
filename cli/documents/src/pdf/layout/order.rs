//! The order of lines where it is not that in which they are drawn: a line that is drawn after one below it, in the same
//! column, stands before it. Words of a line that are drawn apart are one line. Columns that are beside each other keep their
//! order.

use std::collections::HashMap;

use super::first_of;
use super::lines::{Line, PARAGRAPH};
use super::words::Row;

/// Distances in sizes of the font.
/// Words of a line are not farther apart than this, and do not overlap by more than this.
const WORDS: std::ops::Range<f64> = -0.05..0.45;
/// Baselines of a line differ by less than this.
const SAME_BASELINE: f64 = 0.05;
/// A line that is so much higher is another one.
const HIGHER: f64 = 1.0;
/// A line with fewer characters is mostly a part of a formula, which is above or below another one.
const CHARACTERS: usize = 8;
/// So many lines before a line may be below it.
const MAX_LINES: usize = 2_000;

/// Joins lines that are parts of one.
pub(super) fn join_torn(lines: Vec<Line>) -> Vec<Line> {
    let mut by_baseline: HashMap<(i16, i64), Vec<usize>> = HashMap::new();
    for (i, line) in lines.iter().enumerate().filter(|(_, line)| line.table.is_none()) {
        let (size, y) = line.main;
        let place = (y / (SAME_BASELINE * size)).round() as i64;
        by_baseline.entry((line.glyphs[0].turn, place)).or_default().push(i);
    }
    let mut into: Vec<usize> = (0..lines.len()).collect();
    for parts in by_baseline.values().filter(|parts| parts.len() > 1) {
        let mut pieces: Vec<Piece> = parts.iter().flat_map(|part| pieces(*part, &lines[*part])).collect();
        pieces.sort_by(|a, b| a.left.total_cmp(&b.left));
        for two in pieces.windows(2) {
            let (a, b) = (first_of(&mut into, two[0].line), first_of(&mut into, two[1].line));
            let size = lines[a].main.0;
            if a != b && size == lines[b].main.0 && WORDS.contains(&((two[1].left - two[0].right) / size)) {
                into[a.max(b)] = a.min(b);
            }
        }
    }
    let mut joined: Vec<Option<Line>> = lines.into_iter().map(Some).collect();
    for i in 0..joined.len() {
        let first = first_of(&mut into, i);
        if first != i
            && let Some(part) = joined[i].take()
            && let Some(line) = &mut joined[first]
        {
            line.join(part);
        }
    }
    joined.into_iter().flatten().collect()
}

/// Words of a line that follow each other.
struct Piece {
    line: usize,
    left: f64,
    right: f64,
}

fn pieces(number: usize, line: &Line) -> Vec<Piece> {
    let mut glyphs: Vec<(f64, f64)> = line.glyphs.iter().map(|glyph| (glyph.x, glyph.end)).collect();
    glyphs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let is_next = |a: &(f64, f64), b: &(f64, f64)| b.0 - a.1 < WORDS.end * line.main.0;
    let piece = |glyphs: &[(f64, f64)]| Piece {
        line: number,
        left: glyphs[0].0,
        right: glyphs.iter().map(|glyph| glyph.1).fold(f64::MIN, f64::max),
    };
    glyphs.chunk_by(is_next).map(piece).collect()
}

/// Puts rows before those that are below them.
pub(super) fn by_place(rows: Vec<Row>) -> Vec<Row> {
    let mut ordered: Vec<(Row, bool)> = Vec::with_capacity(rows.len());
    for row in rows {
        let is_text = row.cells.iter().map(|cell| cell.text.chars().count()).sum::<usize>() >= CHARACTERS;
        let lines = if is_text { MAX_LINES } else { 0 };
        let below = ordered.iter().rev().take(lines).take_while(|(other, _)| is_below(other, &row)).count();
        let at = ordered.len() - below;
        ordered.insert(at, (row, below > 0));
    }
    for i in 0..ordered.len() {
        let is_moved = ordered[i].1 || i.checked_sub(1).is_some_and(|before| ordered[before].1);
        let begins_paragraph = i.checked_sub(1).is_none_or(|before| {
            let (before, row) = (&ordered[before].0, &ordered[i].0);
            before.turn != row.turn || !(0.0..PARAGRAPH * row.size).contains(&(before.bottom - row.y))
        });
        if is_moved {
            ordered[i].0.begins_paragraph = begins_paragraph;
        }
    }
    ordered.into_iter().map(|(row, _)| row).collect()
}

/// Whether the other row is below this one, in the same column.
fn is_below(other: &Row, row: &Row) -> bool {
    let ends = |row: &Row| (row.cells[0].left, row.cells[row.cells.len() - 1].right);
    let ((left, right), (other_left, other_right)) = (ends(row), ends(other));
    other.turn == row.turn
        && row.bottom - other.y > HIGHER * row.size.max(other.size)
        && left < other_right
        && other_left < right
}
