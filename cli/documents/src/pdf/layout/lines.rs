//! Lines from glyphs in the order in which they are drawn: a line ends where the next glyph is higher or lower, or goes
//! back to a place that is taken. A place that is free is filled, as in text from the right, or in a table that is drawn
//! from the right.

use hayro_interpret::hayro_cmap::BfString;

use super::PlacedText;
use super::tables::ruled::Ruled;
use super::{direction, letters};

/// All distances are shares of the size of the font.
/// Going back by this much is a jump.
const BACK: f64 = 0.6;
/// A glyph that is so much higher or lower is in another line. Superscripts are in the same.
const OTHER_LINE: f64 = 0.6;
/// A line that is so much lower begins a paragraph.
pub(super) const PARAGRAPH: f64 = 1.7;
/// Glyphs may overlap by this much.
const OVERLAP: f64 = 0.3;
/// Exponents and indices are smaller than the glyphs of the line by this factor.
const SMALL: f64 = 0.85;
/// An exponent and an index have fewer glyphs. Lines beside a large initial have more.
const MAX_SCRIPT: usize = 32;
/// Baselines that differ by less than this are the same.
const SAME_BASELINE: f64 = 0.05;
/// In a line with more glyphs than this, no free place is looked for.
const MAX_GLYPHS: usize = 2_000;
/// So many glyphs before a mark may be its letter.
const MARK_DISTANCE: usize = 64;

/// Glyphs on a line.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) glyphs: Vec<PlacedText>,
    /// Whether glyphs are not in the order of their places.
    pub(super) is_mixed: bool,
    pub(super) begins_paragraph: bool,
    /// The table that stands here. Its text is not among the glyphs.
    pub(super) table: Option<Ruled>,
    left: f64,
    right: f64,
    /// The size and the baseline of its largest glyph.
    pub(super) main: (f64, f64),
    /// Where the last glyph ends that is about as large as the largest one.
    main_end: f64,
}

impl Line {
    fn new(glyph: PlacedText, begins_paragraph: bool) -> Line {
        let (left, right) = (glyph.x, glyph.end);
        let main = (glyph.size, glyph.y);
        Line {
            glyphs: vec![glyph],
            is_mixed: false,
            begins_paragraph,
            table: None,
            left,
            right,
            main,
            main_end: right,
        }
    }

    /// The place of a table with text like this glyph.
    pub(super) fn of_table(table: Ruled, glyph: &PlacedText) -> Line {
        let text = BfString::Char(' ');
        let place = PlacedText { text, x: table.left, end: table.right, y: table.top, ..glyph.clone() };
        Line { table: Some(table), ..Line::new(place, true) }
    }

    /// Adds the glyphs of another part of the same line.
    pub(super) fn join(&mut self, part: Line) {
        self.is_mixed = true;
        part.glyphs.into_iter().for_each(|glyph| self.push(glyph));
    }

    fn push(&mut self, glyph: PlacedText) {
        self.left = self.left.min(glyph.x);
        self.right = self.right.max(glyph.end);
        if glyph.size > self.main.0 {
            self.main = (glyph.size, glyph.y);
        }
        if glyph.size > SMALL * self.main.0 {
            self.main_end = glyph.end;
        }
        self.glyphs.push(glyph);
    }

    /// Whether a glyph continues the line after an exponent or an index, or is one: with an index, an exponent of the same
    /// letter is farther apart from it than lines are. So their distance is that from the line's own baseline.
    fn is_near_script(&self, last: &PlacedText, glyph: &PlacedText) -> bool {
        let (size, y) = self.main;
        let is_near = |glyph: &PlacedText| (glyph.y - y).abs() < OTHER_LINE * size;
        let is_main = |glyph: &PlacedText| (glyph.y - y).abs() < SAME_BASELINE * size;
        let is_script = |glyph: &PlacedText| glyph.size <= SMALL * size && !is_main(glyph);
        last.turn == glyph.turn
            && is_script(last)
            && is_near(last)
            && is_near(glyph)
            && (is_main(glyph) || is_script(glyph))
            && self.glyphs.iter().rev().take(MAX_SCRIPT).any(is_main)
            && (self.main_end - OVERLAP * size..last.end + size).contains(&glyph.x)
    }

    /// Whether there is room for a glyph that goes back. A value that stands beside the middle of two lines of its label is near
    /// to both lines, but the lower line is none of the upper one.
    fn has_room(&self, glyph: &PlacedText) -> bool {
        let overlap = OVERLAP * glyph.size;
        if !glyph.is_layer && (glyph.y - self.main.1).abs() > OTHER_LINE * self.main.0.max(glyph.size) {
            return false;
        }
        let is_apart = |other: &PlacedText| {
            other.is_space() || glyph.end <= other.x + overlap || glyph.x >= other.end - overlap
        };
        // The lines of a picture's text may overlap, and no words of it are filled in.
        let is_next_line = glyph.is_layer && !direction::is_from_right(glyph);
        !is_next_line && glyph.end <= self.left + overlap
            || (!is_next_line && self.glyphs.len() <= MAX_GLYPHS && self.glyphs.iter().all(is_apart))
    }
}

/// What is between two glyphs.
enum Step {
    Along,
    Back,
    Line,
    Paragraph,
}

/// The lines of these glyphs.
pub(super) fn lines(glyphs: Vec<PlacedText>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for glyph in glyphs {
        let Some(line) = lines.last_mut() else {
            lines.push(Line::new(glyph, false));
            continue;
        };
        if let Some(last) = line.glyphs.last_mut()
            && last.turn == glyph.turn
            && letters::combine(last, &glyph)
        {
            continue;
        }
        let is_mark = letters::is_mark(&glyph);
        if is_mark
            && line.glyphs.iter_mut().rev().take(MARK_DISTANCE).any(|letter| letters::combine(letter, &glyph))
        {
            continue;
        }
        let last = &line.glyphs[line.glyphs.len() - 1];
        match step(last, &glyph) {
            Step::Along => line.push(glyph),
            Step::Back | Step::Line | Step::Paragraph if line.is_near_script(last, &glyph) => {
                line.is_mixed = true;
                line.push(glyph);
            }
            Step::Back if line.has_room(&glyph) => {
                line.is_mixed = true;
                line.push(glyph);
            }
            Step::Back | Step::Line => lines.push(Line::new(glyph, false)),
            Step::Paragraph => lines.push(Line::new(glyph, true)),
        }
    }
    lines
}

fn step(last: &PlacedText, glyph: &PlacedText) -> Step {
    let size = glyph.size;
    if last.turn != glyph.turn {
        return Step::Paragraph;
    }
    // A superscript is small, and the text it belongs to is not.
    let larger = (last.size / size).max(1.0);
    let down = (last.y - glyph.y) / size / larger;
    if down.abs() > OTHER_LINE {
        return if (0.0..PARAGRAPH).contains(&down) { Step::Line } else { Step::Paragraph };
    }
    match (glyph.x - last.end) / size {
        right if right < -BACK * larger => Step::Back,
        _ => Step::Along,
    }
}

/// Adds a value of a form to the line that its field is beside, or as a line of its own below what is above it.
pub(super) fn insert(lines: &mut Vec<Line>, value: PlacedText) {
    let y = |line: &Line| line.glyphs[0].y;
    let is_upright = |line: &Line| line.glyphs[0].turn == 0 && line.table.is_none();
    let gap = |line: &Line| (line.left - value.end).max(value.x - line.right).max(0.0);
    let beside = lines
        .iter_mut()
        .filter(|line| is_upright(line) && (y(line) - value.y).abs() < value.height.max(value.size) / 2.0)
        .min_by(|a, b| gap(a).total_cmp(&gap(b)));
    if let Some(line) = beside {
        line.is_mixed = true;
        line.push(value);
        return;
    }
    let above = lines.iter().enumerate().filter(|(_, line)| is_upright(line) && y(line) > value.y);
    let lowest = above.min_by(|(_, a), (_, b)| y(a).total_cmp(&y(b)));
    let (place, begins_paragraph) = match lowest {
        Some((i, line)) => (i + 1, y(line) - value.y > PARAGRAPH * value.size),
        None => (0, false),
    };
    if let Some(next) = lines.get_mut(place).filter(|_| place == 0) {
        next.begins_paragraph = true;
    }
    lines.insert(place, Line::new(value, begins_paragraph));
}
