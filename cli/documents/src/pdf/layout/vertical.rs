//! Vertical text of Chinese and Japanese: signs below each other, columns from the right. It is laid down: downwards
//! becomes along the line, and the next column becomes the next line, as for text that is turned by 90 degrees.

use super::PlacedText;
use super::letters;

/// Distances in sizes of the font.
/// Signs of a column stand below each other within this.
const SAME_COLUMN: f64 = 0.3;
/// From one sign to the next, in fonts for vertical text, and in others.
const STEP: std::ops::Range<f64> = 0.3..1.6;
const STEP_OF_SIGNS: std::ops::Range<f64> = 0.85..1.35;
/// In fonts for horizontal text, so many signs make a column.
const SIGNS: usize = 3;
/// From the baseline to the upper end of a sign.
const HEIGHT: f64 = 0.88;

/// Turns the vertical text among the glyphs.
pub(super) fn lay_down(glyphs: &mut [PlacedText]) {
    let mut start = 0;
    let mut is_after_column = false;
    while start < glyphs.len() {
        let is_vertical_font = is_vertical(&glyphs[start]);
        let mut end = start + 1;
        while end < glyphs.len() && is_below(&glyphs[end - 1], &glyphs[end], is_vertical_font) {
            end += 1;
        }
        let signs = glyphs[start..end].iter().filter(|glyph| glyph.first().is_some_and(is_sign)).count();
        let is_sign = glyphs[start].turn == 0 && signs > 0;
        let is_column = match (is_vertical_font, end - start) {
            (true, 1) => is_sign,
            (true, _) => true,
            (false, _) => {
                is_sign && (signs >= SIGNS || (is_after_column && is_next_column(glyphs, start, end)))
            }
        };
        if is_column {
            glyphs[start..end].iter_mut().for_each(turn);
            align(&mut glyphs[start..end]);
        }
        is_after_column = is_column;
        start = end;
    }
}

/// Whether a glyph is of a font for vertical text: it does not lead to the right.
fn is_vertical(glyph: &PlacedText) -> bool {
    glyph.turn == 0 && glyph.end == glyph.x && !glyph.is_space() && !letters::is_mark(glyph)
}

fn is_below(above: &PlacedText, glyph: &PlacedText, is_vertical_font: bool) -> bool {
    let size = above.size;
    let step = (above.y - glyph.y) / size;
    let is_step = match is_vertical_font {
        true => STEP.contains(&step) && is_vertical(glyph),
        false => {
            STEP_OF_SIGNS.contains(&step)
                && [above, glyph].iter().all(|glyph| glyph.first().is_some_and(is_sign_or_digit))
        }
    };
    let middle = |glyph: &PlacedText| match is_vertical_font || glyph.first().is_some_and(is_sign) {
        true => glyph.x + glyph.size / 2.0,
        false => glyph.middle(),
    };
    is_step
        && above.turn == 0
        && glyph.turn == 0
        && (middle(above) - middle(glyph)).abs() < SAME_COLUMN * size
}

/// Whether few signs stand left of the column before, at its upper end.
fn is_next_column(glyphs: &[PlacedText], start: usize, end: usize) -> bool {
    let size = glyphs[start].size;
    let before = &glyphs[..start];
    let column = before.iter().rev().take_while(|glyph| glyph.turn == -90).last();
    let is_alone =
        glyphs.get(end).is_none_or(|next| next.y > glyphs[start].y || !next.is_beside(&glyphs[start]));
    column.is_some_and(|first| (first.x + glyphs[start].y + HEIGHT * size).abs() < size) && is_alone
}

fn turn(glyph: &mut PlacedText) {
    let (top, middle) = (glyph.y + HEIGHT * glyph.size, glyph.x + glyph.size / 2.0);
    (glyph.x, glyph.y, glyph.turn) = (-top, middle, -90);
    glyph.end = glyph.x + glyph.size;
}

/// Puts narrow characters on the line of the signs: a font for vertical text places each by its own width.
fn align(column: &mut [PlacedText]) {
    let Some(sign) = column.iter().find(|glyph| glyph.first().is_some_and(is_sign)) else { return };
    let (y, size) = (sign.y, sign.size);
    for glyph in column.iter_mut().filter(|glyph| glyph.size == size) {
        glyph.y = y;
    }
}

/// What stands upright in a column of signs.
fn is_sign_or_digit(c: char) -> bool {
    is_sign(c) || c.is_ascii_digit()
}

/// Whether a character is a sign of Chinese, Japanese or Korean text.
fn is_sign(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{fe10}'..='\u{fe4f}' | '\u{ff00}'..='\u{ff60}' | '\u{20000}'..='\u{3ffff}')
}
