//! Text from glyphs and their places. It knows nothing of PDF: a glyph has characters, a place, a width and a size.
//!
//! The steps, in this order:
//!
//! 1. What is drawn twice is dropped (`doubles.rs`).
//! 2. Vertical text is laid down (`vertical.rs`).
//! 3. Glyphs become lines, in the order in which they are drawn (`lines.rs`).
//! 4. Lines become words and cells (`words.rs`). `tracking.rs` is for spaced letters, `scripts.rs` for exponents,
//!    `direction.rs` for text from the right.
//! 5. Cells find their columns (`tables/`), and lines of listings their indents
//!    (`listings.rs`).
//! 6. Divided words are joined (`hyphens.rs`).

mod direction;
mod doubles;
mod hyphens;
pub(super) mod letters;
mod lines;
mod listings;
mod scripts;
mod tables;
mod tracking;
mod vertical;
mod words;

use hayro_interpret::hayro_cmap::BfString;
use kurbo::{Point, Vec2};

use self::direction::Count;

/// Width of a glyph whose width is not known, in sizes of the font.
const UNKNOWN_WIDTH: f64 = 0.5;

/// The text of a glyph and its place. Text that is turned has coordinates that are turned back: x grows in the direction
/// of writing, y upwards.
#[derive(Clone, Debug)]
pub(super) struct PlacedText {
    /// Its characters.
    pub(super) text: BfString,
    /// Where it begins, on the baseline.
    pub(super) x: f64,
    pub(super) y: f64,
    /// Where the next glyph would begin.
    pub(super) end: f64,
    /// The size of the font in the direction of writing.
    pub(super) size: f64,
    /// The size of the font upwards. The height of the field, for a value.
    pub(super) height: f64,
    /// By how many degrees the text is turned, counter-clockwise.
    pub(super) turn: i16,
    /// Whether it is the invisible text of a picture, whose sizes and baselines are guesses.
    pub(super) is_layer: bool,
}

impl PlacedText {
    /// A glyph without text. `em` and `up` are the size of the font in the direction of writing and upwards; `advance` is
    /// the width in thousandths of the size. None if these are no numbers, or the size is zero.
    pub(super) fn new(start: Point, em: Vec2, up: Vec2, advance: Option<f64>) -> Option<PlacedText> {
        // Mostly text is upright; this is called for each glyph.
        let length = |vector: Vec2| match vector {
            Vec2 { x, y: 0.0 } => x.abs(),
            Vec2 { x: 0.0, y } => y.abs(),
            vector => vector.hypot(),
        };
        let (size, height) = (length(em), length(up));
        let turn = if em.y == 0.0 && em.x > 0.0 { 0.0 } else { em.atan2().to_degrees().round() };
        let place = if turn == 0.0 { start.to_vec2() } else { turned(start.to_vec2(), -turn) };
        let end = place.x + size * advance.map_or(UNKNOWN_WIDTH, |advance| advance / 1000.0);
        let is_valid = [place.x, place.y, end, size, height].iter().all(|number| number.is_finite());
        (is_valid && size > 0.0).then_some(PlacedText {
            text: BfString::Char(' '),
            x: place.x,
            y: place.y,
            end,
            size,
            height,
            turn: turn as i16,
            is_layer: false,
        })
    }

    /// Where it begins.
    pub(super) fn start(&self) -> (f64, f64) {
        (self.x, self.y)
    }

    /// Whether it is on the same line as another.
    pub(super) fn is_beside(&self, other: &PlacedText) -> bool {
        self.turn == other.turn && (self.y - other.y).abs() < 0.5 * self.size.max(other.size)
    }

    /// Whether it is white space.
    fn is_space(&self) -> bool {
        match &self.text {
            BfString::Char(c) => c.is_whitespace(),
            BfString::String(text) => text.chars().all(char::is_whitespace),
        }
    }

    /// Its first character.
    fn first(&self) -> Option<char> {
        match &self.text {
            BfString::Char(c) => Some(*c),
            BfString::String(text) => text.chars().next(),
        }
    }

    fn middle(&self) -> f64 {
        (self.x + self.end) / 2.0
    }
}

fn turned(place: Vec2, degrees: f64) -> Vec2 {
    let (sin, cos) = degrees.to_radians().sin_cos();
    Vec2::new(place.x * cos - place.y * sin, place.x * sin + place.y * cos)
}

/// The text of a page with these glyphs, in the order in which they are drawn, and with the values of its form.
pub(super) fn text(mut glyphs: Vec<PlacedText>, values: Vec<PlacedText>) -> String {
    doubles::remove(&mut glyphs);
    vertical::lay_down(&mut glyphs);
    let mut lines = lines::lines(glyphs);
    for value in values {
        lines::insert(&mut lines, value);
    }
    let counts: Vec<Count> = lines.iter().map(|line| Count::of(&line.glyphs)).collect();
    let is_rtl = Count::is_rtl(&counts);
    let rows = lines.into_iter().zip(counts).map(|(line, count)| words::row(line, count.direction(is_rtl)));
    let rows = rows.filter(|row| !row.cells.is_empty()).collect();
    let mut rows = tables::columns::join(rows);
    listings::indent(&mut rows);
    hyphens::join(&tables::write(&rows, is_rtl))
}
