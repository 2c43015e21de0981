//! Text that is drawn twice, for bold letters or a shadow. A glyph is dropped if the same glyph is at nearly the same
//! place. If it is farther away, as for a shadow, the glyphs after both must be the same as well.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use hayro_interpret::hayro_cmap::BfString;

use super::PlacedText;

/// Distances in sizes of the font.
/// Nearer than this, the same glyph is drawn twice; but only if it is nearer than half of its own width.
const SAME_PLACE: f64 = 0.12;
/// Nearer than this, it may be the shadow of the same text.
const SHADOW: f64 = 0.3;
/// All glyphs of a shadow have the same distance, with this difference.
const SAME_DISTANCE: f64 = 0.03;
/// So many glyphs of a shadow and its text must agree.
const GLYPHS_OF_A_SHADOW: usize = 4;
/// So many glyphs at about the same place are compared.
const MAX_COMPARED: usize = 32;

/// The last glyph with a character in a square of its own size. Few bits of each are the key, for speed: a glyph that
/// is elsewhere and has the same key is told apart later.
type Places = HashMap<u64, usize, BuildHasherDefault<PlaceHasher>>;

/// Hashes keys of places: one multiplication.
#[derive(Default)]
struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, key: u64) {
        let product = (self.0 ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

fn key(c: char, (x, y): (i32, i32)) -> u64 {
    u64::from(u32::from(c)) << 42 ^ u64::from(x as u32) << 21 ^ u64::from(y as u32)
}

/// Removes the second drawing.
pub(super) fn remove(glyphs: &mut Vec<PlacedText>) {
    if !overlap(glyphs) {
        return;
    }
    // The last glyph of each place, and for each glyph the one before it at its place.
    let mut last = Places::with_capacity_and_hasher(glyphs.len(), BuildHasherDefault::default());
    let mut before: Vec<Option<usize>> = vec![None; glyphs.len()];
    let mut is_double = vec![false; glyphs.len()];
    // The first drawing of the glyph before, if that was a double.
    let mut first: Option<usize> = None;
    for i in 0..glyphs.len() {
        let continued =
            first.map(|first| first + 1).filter(|&next| next < i && is_same_step(glyphs, next, i));
        let double = continued.or_else(|| {
            let BfString::Char(c) = glyphs[i].text else { return None };
            if c.is_whitespace() {
                return None;
            }
            squares(&glyphs[i]).find_map(|square| {
                let mut candidate = last.get(&key(c, square)).copied();
                for _ in 0..MAX_COMPARED {
                    let first = candidate?;
                    if is_drawn_twice(glyphs, first, i) {
                        return Some(first);
                    }
                    candidate = before[first];
                }
                None
            })
        });
        first = double;
        is_double[i] = double.is_some();
        if double.is_none()
            && let BfString::Char(c) = glyphs[i].text
        {
            before[i] = last.insert(key(c, square(&glyphs[i], 0.0, 0.0)), i);
        }
    }
    let mut is_double = is_double.iter();
    glyphs.retain(|_| is_double.next() != Some(&true));
}

/// Glyphs that follow each other on a line.
struct Run {
    y: f64,
    x: f64,
    end: f64,
    size: f64,
}

/// Whether any text is drawn over other text. Mostly none is, and that is found out without a look at each glyph.
fn overlap(glyphs: &[PlacedText]) -> bool {
    let follows = |last: &PlacedText, glyph: &PlacedText| {
        last.turn == glyph.turn
            && last.y == glyph.y
            && last.size == glyph.size
            && glyph.x >= last.x + (last.end - last.x) / 2.0
    };
    let run = |glyphs: &[PlacedText]| {
        let (first, last) = (&glyphs[0], &glyphs[glyphs.len() - 1]);
        Run { y: first.y, x: first.x, end: last.end, size: first.size }
    };
    let mut runs: Vec<Run> = glyphs.chunk_by(follows).map(run).collect();
    runs.sort_by(|a, b| a.y.total_cmp(&b.y));
    runs.iter().enumerate().any(|(i, run)| {
        let near = runs[i + 1..].iter().take_while(|other| other.y - run.y < SHADOW * run.size);
        near.enumerate().any(|(n, other)| {
            n >= MAX_COMPARED
                || (other.x < run.end - SAME_PLACE * run.size && run.x < other.end - SAME_PLACE * run.size)
        })
    })
}

fn square(glyph: &PlacedText, dx: f64, dy: f64) -> (i32, i32) {
    ((glyph.x / glyph.size + dx).floor() as i32, (glyph.y / glyph.size + dy).floor() as i32)
}

/// The squares in which the same glyph can be: mostly one.
fn squares(glyph: &PlacedText) -> impl Iterator<Item = (i32, i32)> {
    let (x0, y0) = square(glyph, -SHADOW, -SHADOW);
    let (x1, y1) = square(glyph, SHADOW, SHADOW);
    (x0..=x1).flat_map(move |x| (y0..=y1).map(move |y| (x, y)))
}

/// How far a glyph is from the same one, in sizes of the font; none if it is another.
fn distance(glyphs: &[PlacedText], first: usize, second: usize) -> Option<(f64, f64)> {
    let (first, second) = (&glyphs[first], &glyphs.get(second)?);
    let is_same = first.text == second.text
        && first.turn == second.turn
        && (first.size - second.size).abs() < SAME_DISTANCE * first.size;
    is_same.then(|| ((second.x - first.x) / first.size, (second.y - first.y) / first.size))
}

fn is_drawn_twice(glyphs: &[PlacedText], first: usize, second: usize) -> bool {
    let Some((dx, dy)) = distance(glyphs, first, second) else { return false };
    let width = (glyphs[first].end - glyphs[first].x) / glyphs[first].size;
    if dx.abs() < SAME_PLACE.min(width / 2.0) && dy.abs() < SAME_PLACE {
        return true;
    }
    let is_shadow = |(other_dx, other_dy): (f64, f64)| {
        (other_dx - dx).abs() < SAME_DISTANCE && (other_dy - dy).abs() < SAME_DISTANCE
    };
    dx.abs() < SHADOW
        && dy.abs() < SHADOW
        && second - first >= GLYPHS_OF_A_SHADOW
        && (1..GLYPHS_OF_A_SHADOW).all(|i| distance(glyphs, first + i, second + i).is_some_and(is_shadow))
}

/// Whether two glyphs have the same distance as those before them.
fn is_same_step(glyphs: &[PlacedText], first: usize, second: usize) -> bool {
    let (Some(now), Some(before)) =
        (distance(glyphs, first, second), distance(glyphs, first - 1, second - 1))
    else {
        return false;
    };
    (now.0 - before.0).abs() < SAME_DISTANCE && (now.1 - before.1).abs() < SAME_DISTANCE
}
