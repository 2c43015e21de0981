//! Text from glyphs and their places. It knows nothing of PDF: a glyph has characters, a place, a width and a size.
//!
//! The steps, in this order:
//!
//! 1. What is drawn twice is dropped (`doubles.rs`). Text with a line through it is struck out (`struck.rs`).
//! 2. Headers on their side are made upright (`turned.rs`). Vertical text is laid down (`vertical.rs`). Fractions are
//!    written on the line (`fractions.rs`).
//! 3. Tables whose columns are divided by drawn lines are taken out (`tables/ruled.rs`).
//! 4. Glyphs become lines, in the order in which they are drawn (`lines.rs`).
//!    Lines that are not drawn in the order of their places are ordered (`order.rs`).
//! 5. Lines become words and cells (`words.rs`). `tracking.rs` is for spaced letters, `scripts.rs` for exponents,
//!    `direction.rs` for text from the right.
//! 6. Cells find their columns (`tables/`), and lines of listings their indents
//!    (`listings.rs`).
//! 7. Divided words are joined (`hyphens.rs`).

mod direction;
mod doubles;
mod fractions;
mod hyphens;
pub(super) mod letters;
mod lines;
mod listings;
mod order;
mod scripts;
mod struck;
pub(super) mod tables;
mod tracking;
mod turned;
mod vertical;
mod words;

use hayro_interpret::hayro_cmap::BfString;
use kurbo::{Point, Vec2};

use self::direction::Count;
use self::lines::Line;
use self::tables::carried::Carried;
use self::tables::ruled::{self, Ruled};
use self::tables::rules::Rules;

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
    /// Whether a line is drawn through it.
    pub(super) is_struck: bool,
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
            is_struck: false,
        })
    }

    /// Where it begins.
    pub(super) fn start(&self) -> (f64, f64) {
        (self.x, self.y)
    }

    /// Appends a glyph that is drawn next.
    pub(super) fn append(&mut self, next: &PlacedText) {
        let mut text = String::new();
        letters::write(&self.text, &mut text);
        letters::write(&next.text, &mut text);
        (self.text, self.end) = (BfString::String(text), self.end.max(next.end));
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

    /// Its last character.
    fn last(&self) -> Option<char> {
        match &self.text {
            BfString::Char(c) => Some(*c),
            BfString::String(text) => text.chars().next_back(),
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

/// The first member of the group that a member is of. Each names an earlier one of its group; the first names itself.
fn first_of(group: &mut [usize], mut of: usize) -> usize {
    while group[of] != of {
        group[of] = group[group[of]];
        of = group[of];
    }
    of
}

/// The text of a page with these glyphs, in the order in which they are drawn, with the values of its form, and with the
/// lines that are drawn. `carried` is the table at the end of the page before, and becomes that of this page.
pub(super) fn text(
    mut glyphs: Vec<PlacedText>,
    values: Vec<PlacedText>,
    rules: &Rules,
    carried: &mut Option<Carried>,
) -> String {
    doubles::remove(&mut glyphs);
    struck::mark(&mut glyphs, rules);
    turned::make_upright(&mut glyphs);
    vertical::lay_down(&mut glyphs);
    fractions::join(&mut glyphs, rules);
    // Programs that recognise text draw it in the order of reading, at places that are guesses.
    let is_layer = glyphs.iter().any(|glyph| glyph.is_layer);
    let is_rtl = Count::is_rtl(&[Count::of(&glyphs), Count::of(&values)]);
    let lines = lines_and_tables(glyphs, values, rules, is_rtl);
    let lines = if is_layer { lines } else { order::join_torn(lines) };
    let mut rows = words::rows(lines, is_rtl);
    if !is_layer {
        rows = order::by_place(tables::cells::join(rows));
    }
    let mut rows = tables::columns::join(rows);
    listings::indent(&mut rows);
    hyphens::join(&tables::write(&rows, is_rtl, carried))
}

/// The lines of a page. A table whose columns are divided by drawn lines stands where its first glyph is drawn.
fn lines_and_tables(
    glyphs: Vec<PlacedText>,
    values: Vec<PlacedText>,
    rules: &Rules,
    is_rtl: bool,
) -> Vec<Line> {
    let turn = main_turn(&glyphs);
    let grids = ruled::grids(rules, turn);
    let grid_of = |glyph: &PlacedText| match glyph.turn == turn {
        true => grids.iter().position(|grid| grid.contains(glyph)),
        false => None,
    };
    let places: Vec<Option<usize>> = glyphs.iter().map(grid_of).collect();
    let mut inner: Vec<Vec<PlacedText>> = vec![Vec::new(); grids.len()];
    for (glyph, place) in glyphs.iter().zip(&places) {
        if let Some(grid) = place {
            inner[*grid].push(glyph.clone());
        }
    }
    let mut value_places: Vec<Option<usize>> = values.iter().map(grid_of).collect();
    for (value, place) in values.iter().zip(&mut value_places) {
        *place = place.filter(|grid| !inner[*grid].is_empty());
        if let Some(grid) = place {
            inner[*grid].push(value.clone());
        }
    }
    let mut tables: Vec<Option<Ruled>> =
        grids.into_iter().zip(inner).map(|(grid, glyphs)| grid.table(glyphs, is_rtl)).collect();
    let is_table: Vec<bool> = tables.iter().map(Option::is_some).collect();
    let mut lines = Vec::new();
    let mut outer = Vec::new();
    for (glyph, place) in glyphs.into_iter().zip(places) {
        match place {
            Some(grid) if is_table[grid] => {
                if let Some(table) = tables[grid].take() {
                    lines.append(&mut lines::lines(std::mem::take(&mut outer)));
                    lines.push(Line::of_table(table, &glyph));
                }
            }
            _ => outer.push(glyph),
        }
    }
    lines.append(&mut lines::lines(outer));
    for (value, place) in values.into_iter().zip(value_places) {
        if place.is_none_or(|grid| !is_table[grid]) {
            lines::insert(&mut lines, value);
        }
    }
    lines
}

/// By how many degrees the glyphs are turned, each number once.
fn turns(glyphs: &[PlacedText]) -> Vec<i16> {
    let mut turns: Vec<i16> = glyphs.iter().map(|glyph| glyph.turn).collect();
    turns.dedup();
    turns.sort_unstable();
    turns.dedup();
    turns
}

/// How most text is turned.
fn main_turn(glyphs: &[PlacedText]) -> i16 {
    let mut turns: Vec<i16> = glyphs.iter().map(|glyph| glyph.turn).collect();
    turns.sort_unstable();
    turns.chunk_by(|a, b| a == b).max_by_key(|same| same.len()).map_or(0, |same| same[0])
}
