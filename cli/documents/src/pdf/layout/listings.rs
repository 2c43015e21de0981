//! Listings: in fonts whose letters all have the same width, the place where a line begins means something. Lines that
//! begin further right than others of the listing are indented.

use super::words::{Letter, Row};

/// Widths of letters in such fonts, in sizes of the font.
const WIDTHS: std::ops::RangeInclusive<f64> = 0.45..=0.66;
/// Widths that differ by less than this are the same, and a letter follows another within this.
const SAME: f64 = 0.02;
/// Letters that are narrow in other fonts.
const NARROW: &str = "iljftrI.,:;'|!()[]{}-/";
/// Lines of a listing are not farther apart than this, in sizes of the font.
const PITCH: f64 = 3.2;
/// Most spaces before a line.
const MAX_INDENT: f64 = 120.0;

/// The width of all letters of a line, and whether other fonts have it not for all of these.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pitch {
    width: f64,
    is_certain: bool,
}

/// The width of the letters of a line, if all have the same.
pub(super) fn pitch(letters: &[Letter<'_>]) -> Option<Pitch> {
    let first = letters.first()?.glyph;
    let width = first.end - first.x;
    if !WIDTHS.contains(&(width / first.size)) {
        return None;
    }
    let slack = SAME * first.size;
    let mut is_certain = false;
    for (i, letter) in letters.iter().enumerate() {
        let glyph = letter.glyph;
        let follows = i == 0 || letter.is_apart || letter.gap.abs() < SAME;
        if (glyph.end - glyph.x - width).abs() > slack || glyph.size != first.size || !follows {
            return None;
        }
        is_certain |= glyph.first().is_some_and(|c| NARROW.contains(c));
    }
    Some(Pitch { width, is_certain })
}

/// Indents the lines of listings.
pub(super) fn indent(rows: &mut [Row]) {
    let is_next = |row: &Row, next: &Row| {
        let down = row.y - next.y;
        let (Some(pitch), Some(other)) = (row.pitch, next.pitch) else { return false };
        row.turn == next.turn
            && row.size == next.size
            && (pitch.width - other.width).abs() < SAME * row.size
            && down > 0.0
            && down < PITCH * row.size
    };
    for listing in rows.chunk_by_mut(is_next) {
        let certain = listing.iter().filter(|row| row.pitch.is_some_and(|pitch| pitch.is_certain)).count();
        if listing.len() < 2 || 2 * certain < listing.len() {
            continue;
        }
        let left = listing.iter().map(|row| row.cells[0].left).fold(f64::MAX, f64::min);
        for row in listing {
            if let Some(pitch) = row.pitch {
                row.indent = ((row.cells[0].left - left) / pitch.width).round().min(MAX_INDENT) as usize;
            }
        }
    }
}
