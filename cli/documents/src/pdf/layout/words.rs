//! Words and cells of a line: a gap is a space, a wide gap separates cells. Glyphs for spaces are gaps as well. A gap
//! between the two may separate cells, if the lines above or below say so; that is decided in `tables.rs`.

use super::PlacedText;
use super::direction::{self, Count, Direction};
use super::lines::Line;
use super::listings::{self, Pitch};
use super::tables::ruled::Ruled;
use super::{letters, scripts, struck, tracking};

/// All distances are shares of the size of the font.
/// A gap of this width is a space.
pub(super) const SPACE: f64 = 0.15;
/// Where a line is set narrowly, a gap of this width is. Then most gaps are smaller than those of letters, and none is
/// between the two. For each space there are so many of them.
const NARROW_SPACE: f64 = 0.1;
const LETTER: f64 = 0.045;
const LETTERS: usize = 3;
/// A gap of this width may separate cells.
const MAYBE_CELL: f64 = 0.8;
/// The same if it is so many times as wide as the usual one of the line, and as wide as this.
const WIDER: f64 = 1.6;
pub(super) const NARROW_CELL: f64 = 0.5;
/// A gap of this width separates cells.
const CELL: f64 = 2.0;
/// The same where glyphs for spaces fill the gap.
const CELL_OF_SPACES: f64 = 2.3;

/// So many dots alone lead to the next cell.
const DOTS: usize = 5;

/// Cells on a line.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// From left to right; none is empty. Those that are not apart may be parts of a cell.
    pub(super) cells: Vec<Cell>,
    pub(super) y: f64,
    /// The baseline of its last line.
    pub(super) bottom: f64,
    pub(super) size: f64,
    pub(super) turn: i16,
    pub(super) begins_paragraph: bool,
    /// The table that stands here, in place of cells.
    pub(super) table: Option<Ruled>,
    /// The width of its letters if all have the same.
    pub(super) pitch: Option<Pitch>,
    /// Spaces before it in a listing.
    pub(super) indent: usize,
}

impl Row {
    /// Whether it is a number with its unit, or a sign, rather than words.
    pub(super) fn is_number(&self) -> bool {
        let characters = || self.cells.iter().flat_map(|cell| cell.text.chars());
        let has_number = characters().any(char::is_numeric) || characters().count() == 1;
        has_number && characters().filter(|c| c.is_alphabetic()).count() <= 3
    }
}

/// Text between wide gaps.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) left: f64,
    pub(super) right: f64,
    /// The baseline of its first letter.
    pub(super) y: f64,
    /// Whether the gap before it separates cells.
    pub(super) is_apart: bool,
    /// Where its words begin and end; empty where that is not known.
    pub(super) words: Vec<(f64, f64)>,
}

/// A glyph in its line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Letter<'a> {
    pub(super) glyph: &'a PlacedText,
    /// The gap to the glyph before, in sizes of the font.
    pub(super) gap: f64,
    /// Whether the gap has glyphs for spaces.
    pub(super) has_space: bool,
    /// Whether the gap is one of words.
    pub(super) is_apart: bool,
}

/// The rows of these lines that have cells.
pub(super) fn rows(lines: Vec<Line>, page_is_rtl: bool) -> Vec<Row> {
    let rows = lines.into_iter().map(|line| {
        let direction = Count::of(&line.glyphs).direction(page_is_rtl);
        row(line, direction)
    });
    rows.filter(|row| !row.cells.is_empty()).collect()
}

/// The cells of a line that is read in this direction.
fn row(mut line: Line, direction: Direction) -> Row {
    if let Some(table) = line.table {
        let first = &line.glyphs[0];
        return Row {
            cells: vec![Cell {
                text: String::new(),
                left: table.left,
                right: table.right,
                y: table.top,
                is_apart: true,
                words: Vec::new(),
            }],
            y: table.top,
            bottom: table.bottom,
            size: first.size,
            turn: first.turn,
            begins_paragraph: true,
            table: Some(table),
            pitch: None,
            indent: 0,
        };
    }
    if line.is_mixed || direction.has_rtl {
        line.glyphs.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    let glyphs = struck::with_marks(&line.glyphs);
    let (letters, tracked) = letters_of(&glyphs);
    let is_cell =
        |letter: &Letter<'_>| letter.gap >= tracked + if letter.has_space { CELL_OF_SPACES } else { CELL };
    let may_be = may_be_cell(&letters);
    let may_be_cell = |letter: &Letter<'_>| {
        letter.is_apart && if direction.has_rtl { is_cell(letter) } else { letter.gap >= tracked + may_be }
    };
    let (mut cells, mut is_after_leader) = (Vec::new(), false);
    for letters in letters.chunk_by(|_, next| !may_be_cell(next)) {
        let mut text = String::with_capacity(letters.len());
        match direction.has_rtl {
            true => direction::write(letters, direction.is_rtl, &mut text),
            false => scripts::write(letters, &mut text),
        }
        if text.starts_with(' ') || text.ends_with(' ') {
            text = text.trim().to_owned();
        }
        if is_leader(&text) {
            is_after_leader = true;
        } else if !text.is_empty() {
            let right = letters.iter().map(|letter| letter.glyph.end).fold(f64::MIN, f64::max);
            let is_apart = std::mem::take(&mut is_after_leader) || is_cell(&letters[0]);
            let first = letters[0].glyph;
            let words = if direction.has_rtl { Vec::new() } else { words_of(letters, &text) };
            cells.push(Cell { text, left: first.x, right, y: first.y, is_apart, words });
        }
    }
    let first = line.glyphs.iter().find(|glyph| !glyph.is_space()).unwrap_or(&line.glyphs[0]);
    let size = line.glyphs.iter().map(|glyph| glyph.size).fold(first.size, f64::max);
    let pitch = if direction.has_rtl { None } else { listings::pitch(&letters) };
    Row {
        cells,
        y: first.y,
        bottom: first.y,
        size,
        turn: first.turn,
        begins_paragraph: line.begins_paragraph,
        table: None,
        pitch,
        indent: 0,
    }
}

/// Where the words of a cell begin and end. None where they are written in another way.
fn words_of(letters: &[Letter<'_>], text: &str) -> Vec<(f64, f64)> {
    let words = letters.chunk_by(|_, next| !next.is_apart);
    let ends = |word: &[Letter<'_>]| word.iter().map(|letter| letter.glyph.end).fold(f64::MIN, f64::max);
    let words: Vec<(f64, f64)> = words.map(|word| (word[0].glyph.x, ends(word))).collect();
    if words.len() == text.split(' ').count() { words } else { Vec::new() }
}

/// The gap from which on words may be of different cells: less where it is clearly wider than those between other words.
fn may_be_cell(letters: &[Letter<'_>]) -> f64 {
    let mut gaps: Vec<f64> =
        letters.iter().filter(|letter| letter.is_apart).map(|letter| letter.gap).collect();
    gaps.sort_by(f64::total_cmp);
    match gaps.get(gaps.len().saturating_sub(1) / 2) {
        Some(usual) if gaps.len() > 1 => (WIDER * usual).clamp(NARROW_CELL, MAYBE_CELL),
        _ => MAYBE_CELL,
    }
}

/// The gap from which on words are apart.
fn space(letters: &[Letter<'_>]) -> f64 {
    let count =
        |least: f64, end: f64| letters.iter().filter(|letter| (least..end).contains(&letter.gap)).count();
    let narrow = count(NARROW_SPACE, SPACE);
    let is_narrow = narrow > 0
        && count(LETTER, NARROW_SPACE) == 0
        && count(f64::MIN, LETTER) >= LETTERS * (narrow + count(SPACE, CELL));
    if is_narrow { NARROW_SPACE } else { SPACE }
}

/// Whether a cell is only the dots that lead from one cell to another.
fn is_leader(text: &str) -> bool {
    text.len() >= DOTS
        && text.bytes().all(|byte| matches!(byte, b'.' | b' '))
        && text.matches('.').count() >= DOTS
}

/// The text of glyphs on a line, in the order of their places.
pub(super) fn on_one_line(glyphs: &[PlacedText]) -> String {
    let (letters, _) = letters_of(glyphs);
    let mut text = String::new();
    if !letters.is_empty() {
        scripts::write(&letters, &mut text);
    }
    text
}

/// The glyphs that are no spaces, with the gaps between them, and the width of gaps between spaced letters.
fn letters_of(glyphs: &[PlacedText]) -> (Vec<Letter<'_>>, f64) {
    let mut letters = letters_with_gaps(glyphs);
    let tracking = tracking::find(&letters);
    let space = space(&letters);
    for letter in &mut letters {
        letter.is_apart = match tracking {
            Some(tracking) if tracking.is_none(letter) => false,
            _ => letter.has_space || letter.gap >= space,
        };
    }
    (letters, tracking.map_or(0.0, |tracking| tracking.width))
}

fn letters_with_gaps(glyphs: &[PlacedText]) -> Vec<Letter<'_>> {
    let mut letters = Vec::with_capacity(glyphs.len());
    let (mut end, mut has_space) = (None, false);
    for glyph in glyphs {
        if glyph.is_space() {
            has_space = true;
            continue;
        }
        let gap = end.map_or(0.0, |end| (glyph.x - end) / glyph.size);
        let has_space_before = std::mem::take(&mut has_space) && end.is_some();
        letters.push(Letter { glyph, gap, has_space: has_space_before, is_apart: false });
        end =
            Some(end.map_or(glyph.end, |end: f64| if gap < -CELL { glyph.end } else { end.max(glyph.end) }));
    }
    letters
}

/// Writes letters with the spaces between them.
pub(super) fn write(letters: &[Letter<'_>], out: &mut String) {
    for (i, letter) in letters.iter().enumerate() {
        if letter.is_apart && i > 0 {
            out.push(' ');
        }
        letters::write(&letter.glyph.text, out);
    }
}
