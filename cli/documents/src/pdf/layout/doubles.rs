//! Text that is drawn twice, for bold letters or a shadow. A glyph is dropped if the same glyph is at nearly the same
//! place. If it is farther away, as for a shadow, the glyphs after both must be the same as well.

use std::collections::HashMap;

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

/// A glyph by its character, direction, and the square of its own size in which it is.
type Place = (char, i16, i32, i32);

/// Removes the second drawing.
pub(super) fn remove(glyphs: &mut Vec<PlacedText>) {
    // The last glyph of each place, and for each glyph the one before it at its place.
    let mut last: HashMap<Place, usize> = HashMap::with_capacity(glyphs.len());
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
            squares(&glyphs[i]).find_map(|(x, y)| {
                let mut candidate = last.get(&(c, glyphs[i].turn, x, y)).copied();
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
            let (x, y) = square(&glyphs[i], 0.0, 0.0);
            before[i] = last.insert((c, glyphs[i].turn, x, y), i);
        }
    }
    let mut is_double = is_double.iter();
    glyphs.retain(|_| is_double.next() != Some(&true));
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
