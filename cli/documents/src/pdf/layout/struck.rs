//! Text that is struck out: a line is drawn through it, from its beginning to its end. It is written as in the other formats.

use std::borrow::Cow;

use hayro_interpret::hayro_cmap::BfString;

use super::tables::rules::Rules;
use super::{PlacedText, turns};
use crate::writer::STRUCK;

/// Distances in sizes of the font.
/// A line through a text is so much above its baseline.
const HEIGHT: std::ops::Range<f64> = 0.12..0.45;
/// It begins and ends within this of the text.
const ENDS: f64 = 0.7;
/// Text that is struck out ends where a gap is so wide.
const GAP: f64 = 0.8;
/// Lines and glyphs that are compared on a page.
const MAX_COMPARED: usize = 5_000_000;

/// Finds the glyphs that are struck out.
pub(super) fn mark(glyphs: &mut [PlacedText], rules: &Rules) {
    let mut compared = 0;
    for turn in turns(glyphs) {
        let lines = rules.along(turn);
        if lines.is_empty() {
            continue;
        }
        let mut by_height: Vec<usize> = (0..glyphs.len()).filter(|i| glyphs[*i].turn == turn).collect();
        by_height.sort_by(|a, b| glyphs[*a].y.total_cmp(&glyphs[*b].y));
        let largest = by_height.iter().map(|i| glyphs[*i].size).fold(0.0, f64::max);
        for line in lines {
            let lowest = by_height.partition_point(|i| glyphs[*i].y < line.at - HEIGHT.end * largest);
            let end = by_height.partition_point(|i| glyphs[*i].y < line.at);
            compared += end - lowest;
            if compared > MAX_COMPARED {
                return;
            }
            let is_through = |glyph: &PlacedText| {
                !glyph.is_space()
                    && !glyph.is_layer
                    && HEIGHT.contains(&((line.at - glyph.y) / glyph.size))
                    && (line.from..line.to).contains(&glyph.middle())
            };
            let through: Vec<usize> =
                by_height[lowest..end].iter().copied().filter(|i| is_through(&glyphs[*i])).collect();
            let Some(first) = through.first() else { continue };
            let slack = ENDS * glyphs[*first].size;
            let left = through.iter().map(|i| glyphs[*i].x).fold(f64::MAX, f64::min);
            let right = through.iter().map(|i| glyphs[*i].end).fold(f64::MIN, f64::max);
            let is_word = through.iter().any(|i| glyphs[*i].first().is_some_and(char::is_alphanumeric));
            if is_word && (line.from - left).abs() < slack && (line.to - right).abs() < slack {
                through.into_iter().for_each(|i| glyphs[i].is_struck = true);
            }
        }
    }
}

/// The glyphs of a line, in the order of their places, with marks around those that are struck out.
pub(super) fn with_marks(glyphs: &[PlacedText]) -> Cow<'_, [PlacedText]> {
    if !glyphs.iter().any(|glyph| glyph.is_struck) {
        return Cow::Borrowed(glyphs);
    }
    let mark = |glyph: &PlacedText, x: f64| PlacedText {
        text: BfString::String(STRUCK.to_owned()),
        x,
        end: x,
        is_struck: false,
        ..glyph.clone()
    };
    let mut marked: Vec<PlacedText> = Vec::with_capacity(glyphs.len() + 2);
    // Where the last glyph is that is struck out, if what is struck out has not ended.
    let mut open: Option<usize> = None;
    for glyph in glyphs {
        if let Some(last) = open {
            let is_gap = glyph.x - marked[last].end > GAP * glyph.size;
            if is_gap || !glyph.is_struck && !glyph.is_space() {
                let end = mark(&marked[last], marked[last].end);
                marked.insert(last + 1, end);
                open = None;
            }
        }
        if glyph.is_struck {
            if open.is_none() {
                marked.push(mark(glyph, glyph.x));
            }
            open = Some(marked.len());
        }
        marked.push(glyph.clone());
    }
    if let Some(last) = open {
        let end = mark(&marked[last], marked[last].end);
        marked.insert(last + 1, end);
    }
    Cow::Owned(marked)
}
