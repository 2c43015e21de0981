//! Large signs of formulas: sums, integrals, brackets. In fonts of TeX they hang below the place at which they are drawn,
//! each by its own height. What is around them is on a line that is a little below their middle.

use std::collections::HashMap;

use hayro_interpret::font::OutlineGlyph;
use hayro_interpret::hayro_cmap::BfString;
use kurbo::{Rect, Shape};

/// Signs that fonts have in several heights.
const SIGNS: &str = "∑∏∐∫∬∭∮⋂⋃⋀⋁⨀⨁⨂⨄⨆()[]{}⟨⟩⌊⌋⌈⌉|∣∥";
/// Distances in sizes of the font.
/// The middle of such a sign is so much above the line.
const AXIS: f64 = 0.25;
/// A sign that hangs less is on the line.
const HANGING: f64 = 0.3;
/// Outlines are drawn in thousandths of the size.
const UNITS_PER_EM: f64 = 1000.0;

/// By how much the signs of fonts hang, by the keys of their fonts and glyphs.
#[derive(Debug, Default)]
pub(in crate::pdf) struct LargeSigns(HashMap<(u128, u32), f64>);

impl LargeSigns {
    /// By how many sizes of the font the line is below the place at which this glyph is drawn.
    pub(in crate::pdf) fn hanging(&mut self, glyph: &OutlineGlyph, text: &BfString) -> f64 {
        if !matches!(text, BfString::Char(c) if SIGNS.contains(*c)) {
            return 0.0;
        }
        let key = (glyph.font_cache_key(), glyph.glyph_id().to_u32());
        *self.0.entry(key).or_insert_with(|| {
            let outline = glyph.outline();
            if outline.is_empty() { 0.0 } else { hanging(outline.bounding_box()) }
        })
    }
}

/// The same for a sign with these bounds.
fn hanging(bounds: Rect) -> f64 {
    let hanging = AXIS - bounds.center().y / UNITS_PER_EM;
    if hanging < HANGING { 0.0 } else { hanging }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_signs_below_their_line_are_moved() {
        let hanging = |low: f64, high: f64| hanging(Rect::new(0.0, low, 500.0, high));
        // A sum and a bracket of TeX; a bracket and a sum of other fonts.
        assert_eq!(hanging(-1000.0, 0.0), 0.75);
        assert_eq!(hanging(-2000.0, 0.0), 1.25);
        assert_eq!(hanging(-250.0, 750.0), 0.0);
        assert_eq!(hanging(-120.0, 740.0), 0.0);
    }
}
