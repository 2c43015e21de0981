//! The widths of glyphs that are drawings of their own, in fonts of Type 3: those of old programs of TeX and of charts are. The
//! interpreter does not say where the next glyph begins, only which characters a glyph has. Where this program makes the table
//! of characters (`names.rs`), the width of a glyph stands in it, before its text. Else what the glyph draws is measured.

use std::collections::HashMap;

use hayro_interpret::font::{Glyph, Type3Glyph};
use hayro_interpret::hayro_cmap::BfString;
use hayro_interpret::{
    BlendMode, CacheKey, ClipPath, Device, GlyphDrawMode, Image, Paint, PathDrawMode, SoftMask,
};
use kurbo::{Affine, BezPath, Rect, Shape};

/// Glyphs that are measured. A page with more has no text in them.
const MAX_GLYPHS: usize = 2_000;

/// A width in thousandths of the font's size is a character of the last plane, which is for private use.
const WIDTHS: std::ops::RangeInclusive<u32> = 0x10_0000..=0x10_fffd;

/// The text of a glyph with its width before it, in sizes of the font.
pub(super) fn with_width(text: &str, width: f64) -> String {
    let width = (width * 1000.0).round();
    let is_width = (1.0..=f64::from(WIDTHS.end() - WIDTHS.start())).contains(&width);
    let before =
        Some(width as u32).filter(|_| is_width).and_then(|width| char::from_u32(WIDTHS.start() + width));
    before.into_iter().chain(text.chars()).collect()
}

/// The width of a glyph in thousandths of the font's size, if it stands before its text, and the text.
pub(in crate::pdf) fn width_and_text(text: BfString) -> (Option<f64>, BfString) {
    let BfString::String(all) = &text else { return (None, text) };
    let mut rest = all.chars();
    match rest.next().map(u32::from) {
        Some(first) if WIDTHS.contains(&first) && !rest.as_str().is_empty() => {
            let width = f64::from(first - WIDTHS.start());
            let mut characters = rest.clone();
            let text = match (characters.next(), characters.next()) {
                (Some(one), None) => BfString::Char(one),
                _ => BfString::String(rest.as_str().to_owned()),
            };
            (Some(width), text)
        }
        _ => (None, text),
    }
}

/// The widths of glyphs, by their keys.
#[derive(Debug, Default)]
pub(in crate::pdf) struct Widths(HashMap<u128, Option<f64>>);

impl Widths {
    /// Where what a glyph draws ends, in thousandths of the font's size. `None` if it draws nothing.
    pub(in crate::pdf) fn of<'a>(&mut self, glyph: &Type3Glyph<'a>, paint: &Paint<'a>) -> Option<f64> {
        let key = glyph.cache_key();
        if let Some(width) = self.0.get(&key) {
            return *width;
        }
        let mut ink = Ink::default();
        if self.0.len() < MAX_GLYPHS {
            glyph.interpret(&mut ink, Affine::IDENTITY, Affine::IDENTITY, paint);
            self.0.insert(key, ink.right);
        }
        ink.right
    }
}

/// How far to the right something is drawn.
#[derive(Debug, Default)]
struct Ink {
    right: Option<f64>,
}

impl Ink {
    fn draw(&mut self, area: Rect) {
        if area.x1.is_finite() {
            self.right = Some(self.right.map_or(area.x1, |right| right.max(area.x1)));
        }
    }
}

impl Device<'_> for Ink {
    fn draw_path(&mut self, path: &BezPath, transform: Affine, _: &Paint<'_>, _: &PathDrawMode) {
        self.draw(transform.transform_rect_bbox(path.bounding_box()));
    }

    fn draw_rect(&mut self, rect: &Rect, transform: Affine, _: &Paint<'_>, _: &PathDrawMode) {
        self.draw(transform.transform_rect_bbox(*rect));
    }

    fn draw_image(&mut self, image: Image<'_, '_>, transform: Affine) {
        let size = Rect::new(0.0, 0.0, f64::from(image.width()), f64::from(image.height()));
        self.draw(transform.transform_rect_bbox(size));
    }

    fn draw_glyph(&mut self, _: &Glyph<'_>, _: Affine, _: Affine, _: &Paint<'_>, _: &GlyphDrawMode) {}
    fn set_soft_mask(&mut self, _: Option<SoftMask<'_>>) {}
    fn set_blend_mode(&mut self, _: BlendMode) {}
    fn push_clip_path(&mut self, _: &ClipPath) {}
    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'_>>, _: BlendMode) {}
    fn pop_clip_path(&mut self) {}
    fn pop_transparency_group(&mut self) {}
}
