//! Formulas with drawn lines: fractions, whose parts stand above and below one, and roots. Each becomes one glyph on the
//! line of writing: `1/2`, `(a+b)/c`, `√(x+1)`.
//!
//! A line is that of a fraction if a part is directly above it, another below it, and text beside it: its baseline is
//! lower than the line by the height at which formulas have it. This tells it from lines of tables, and from lines under
//! words. A fraction within another may have that text beside the longer line. One in an exponent is smaller than the
//! letter before it. A formula that stands alone has no text beside it.
//!
//! The line of a root begins at the end of its sign.

use std::collections::HashSet;
use std::ops::Range;

use hayro_interpret::hayro_cmap::BfString;

use super::PlacedText;
use super::scripts::SMALL;
use super::tables::rules::{Rule, Rules};
use super::{turns, words};
use crate::writer::formula::{Formula, Shape};

/// Distances in sizes of the font.
/// The baseline of the part above is so much higher than the line, and that of the part below so much lower.
const ABOVE: Range<f64> = 0.0..0.85;
const BELOW: Range<f64> = 0.45..1.3;
/// The part below is not farther from the line than the part above, but for its own height.
const BELOW_ABOVE: f64 = 0.9;
/// The same for what is under the line of a root. It may be a fraction, or have exponents.
const UNDER_ROOT: Range<f64> = 0.45..2.0;
/// So much lower is the baseline of the text beside it.
const BESIDE: Range<f64> = 0.08..0.45;
/// The text beside it is not farther away, and not smaller than the parts by this factor.
const NEAR: f64 = 2.0;
const SAME_SIZE: f64 = 0.95;
/// Exponents and indices of a part are not farther from its baseline than this. Roots and brackets may be.
const SCRIPTS: f64 = 0.6;
/// A limit of an integral is not farther from the baseline of its sign than this.
const AS_HIGH: f64 = 2.3;
/// The line is longer than the longer part by this at each end, or shorter by this.
const LONGER: f64 = 0.5;
const SHORTER: f64 = 0.3;
/// The middles of the parts differ by less than this.
const SAME_MIDDLE: f64 = 0.35;
/// Words of a part are not farther apart than this.
const WORDS: f64 = 1.5;
/// Fractions that contain each other have lines that are nearer to each other than this.
const NESTED: f64 = 1.8;
/// The degree of a root is smaller than this.
const DEGREE: f64 = 0.75;
/// A word has so many letters. Formulas have fewer without a sign between them.
const LETTERS_OF_A_WORD: usize = 3;
/// Text beside a fraction on an unknown baseline is so much lower than the line.
const AXIS: f64 = 0.25;
/// Numbers end at the same place that differ by less than this.
const SAME_END: f64 = 0.1;
/// A gap that is written as a space.
const GAP: f64 = 1.2 * words::SPACE;
/// Heights differ by less than this, in points.
const SAME_HEIGHT: f64 = 0.3;
/// Pairs of lines, of lines and glyphs, and of formulas and glyphs, that are compared on a page.
const MAX_COMPARED: usize = 5_000_000;

/// Writes each fraction and each root as one glyph, at the place of its first one in the order of drawing.
pub(super) fn join(glyphs: &mut Vec<PlacedText>, rules: &Rules) {
    if rules.is_empty() || glyphs.iter().any(|glyph| glyph.is_layer) {
        return;
    }
    let mut is_joined = vec![false; glyphs.len()];
    let mut compared = 0;
    for turn in turns(glyphs) {
        let is_text = |i: &usize| glyphs[*i].turn == turn && !glyphs[*i].is_space();
        let mut by_height: Vec<usize> = (0..glyphs.len()).filter(is_text).collect();
        by_height.sort_by(|a, b| glyphs[*a].y.total_cmp(&glyphs[*b].y));
        let largest = by_height.iter().map(|i| glyphs[*i].size).fold(0.0, f64::max);
        let across = rules.across(turn);
        let mut page = Page { glyphs, by_height, largest, across, compared };
        let mut lines = rules.apart(turn);
        // Fractions within others come first. One may be the text beside another, so there may be more afterwards.
        lines.sort_by(|a, b| a.length().total_cmp(&b.length()));
        let mut is_new = true;
        while is_new {
            let all = lines.clone();
            lines.retain(|line| match page.fraction(line, &all).or_else(|| page.root(line, &all)) {
                Some(formula) => {
                    page.replace(formula, &mut is_joined);
                    false
                }
                None => true,
            });
            is_new = lines.len() < all.len();
        }
        compared = page.compared;
    }
    let mut is_joined = is_joined.into_iter();
    glyphs.retain(|_| !is_joined.next().unwrap_or_default());
}

/// The glyphs of a page that are turned alike.
struct Page<'a> {
    glyphs: &'a mut [PlacedText],
    /// Those that are no spaces and not yet in a fraction, from the lowest.
    by_height: Vec<usize>,
    largest: f64,
    /// Lines across the text.
    across: Vec<Rule>,
    compared: usize,
}

/// What is above or below a line.
struct Part {
    glyphs: Vec<usize>,
    left: f64,
    right: f64,
    size: f64,
    /// From the line to the baseline.
    distance: f64,
    /// Whether all glyphs are on the baseline, and none is a formula.
    is_flat: bool,
}

/// A fraction or root as one glyph, and the glyphs it is made of.
struct DrawnFormula {
    glyph: PlacedText,
    parts: Vec<usize>,
}

impl Page<'_> {
    /// The fraction of a line; none if it is another line.
    fn fraction(&mut self, line: &Rule, lines: &[Rule]) -> Option<DrawnFormula> {
        let above = self.part(line, &ABOVE, 1.0, lines)?;
        let below = self.part(line, &BELOW, -1.0, lines)?;
        self.compared += self.across.len();
        let size = above.size.max(below.size);
        let (left, right) = (above.left.min(below.left), above.right.max(below.right));
        let is_end = |outwards: f64| (-SHORTER * size..LONGER * size).contains(&outwards);
        let between_middles = (above.left + above.right - below.left - below.right) / 2.0;
        let is_fraction = is_end(left - line.from)
            && is_end(line.to - right)
            && between_middles.abs() < SAME_MIDDLE * size
            && (!below.is_flat || below.distance < above.distance + BELOW_ABOVE)
            && !self.across.iter().any(|across| line.touches(across));
        if !is_fraction {
            return None;
        }
        let is_outer = |other: &&Rule| {
            other.length() > line.length()
                && (other.at - line.at).abs() < NESTED * size
                && (other.from..other.to).contains(&((line.from + line.to) / 2.0))
        };
        let (size, y) = match self.beside(line, size) {
            Some(beside) => (self.glyphs[beside].size, self.glyphs[beside].y),
            None if self.is_formula_alone(&above, &below)
                || self.is_script(line, size)
                || lines.iter().filter(is_outer).any(|outer| self.beside(outer, size).is_some()) =>
            {
                (size, line.at - AXIS * size)
            }
            None => return None,
        };
        self.compared += self.by_height.len();
        let mut text = Formula::default();
        text.open(Shape::Fraction);
        text.line(&self.text(&above.glyphs));
        text.line(&self.text(&below.glyphs));
        let parts: Vec<usize> = above.glyphs.into_iter().chain(below.glyphs).collect();
        let glyph = self.glyphs[*parts.iter().min()?].clone();
        let place = PlacedText { x: line.from, end: line.to, y, size, height: size, ..glyph };
        let glyph = self.with_gaps(PlacedText { text: BfString::String(text.finish()), ..place });
        Some(DrawnFormula { glyph, parts })
    }

    /// The root whose line this is: its sign is at the left end.
    fn root(&mut self, line: &Rule, lines: &[Rule]) -> Option<DrawnFormula> {
        let reach = UNDER_ROOT.end * self.largest;
        let near = self.between(line.at - reach, line.at + reach).to_vec();
        let is_sign = |i: &usize| {
            let glyph = &self.glyphs[*i];
            let gap = (line.from - glyph.end) / glyph.size;
            is_root(glyph) && (-SHORTER..SHORTER).contains(&gap)
        };
        let sign = near.into_iter().find(is_sign)?;
        let under = self.part(line, &UNDER_ROOT, -1.0, lines)?;
        let base = self.glyphs[*under.glyphs.iter().find(|i| self.glyphs[**i].size == under.size)?].clone();
        let mut degree = self.between(base.y, line.at).to_vec();
        let sign_place = (self.glyphs[sign].x, self.glyphs[sign].middle());
        degree.retain(|i| {
            let glyph = &self.glyphs[*i];
            *i != sign
                && glyph.size <= DEGREE * base.size
                && glyph.end > sign_place.0 - SHORTER * base.size
                && glyph.middle() < sign_place.1
        });
        degree.sort_by(|a, b| self.glyphs[*a].x.total_cmp(&self.glyphs[*b].x));
        self.compared += self.by_height.len();
        let mut text = Formula::default();
        text.open(if degree.is_empty() { Shape::SquareRoot } else { Shape::RootOf });
        text.line(&self.text(&degree));
        text.line(&self.text(&under.glyphs));
        let x = degree.iter().map(|i| self.glyphs[*i].x).fold(sign_place.0, f64::min);
        let glyph = PlacedText { text: BfString::String(text.finish()), x, end: line.to, ..base };
        let parts = under.glyphs.into_iter().filter(|i| *i != sign).chain(degree).chain([sign]).collect();
        Some(DrawnFormula { glyph: self.with_gaps(glyph), parts })
    }

    /// The glyphs on baselines that are higher than the first and lower than the second.
    fn between(&mut self, low: f64, high: f64) -> &[usize] {
        let start = self.by_height.partition_point(|i| self.glyphs[*i].y <= low);
        let end = start + self.by_height[start..].partition_point(|i| self.glyphs[*i].y < high);
        self.compared += end - start;
        if self.compared > MAX_COMPARED { &[] } else { &self.by_height[start..end] }
    }

    /// The part above or below a line: its baseline is so far from it, upwards or downwards. No other line is between them.
    fn part(&mut self, line: &Rule, distance: &Range<f64>, up: f64, lines: &[Rule]) -> Option<Part> {
        self.compared += lines.len();
        let farthest = line.at + up * (distance.end + SCRIPTS) * self.largest;
        let near = self.between(farthest.min(line.at), farthest.max(line.at)).to_vec();
        let glyphs = &*self.glyphs;
        let is_over = |place: f64| (line.from..line.to).contains(&place);
        let near: Vec<usize> = near.into_iter().filter(|i| is_over(glyphs[*i].middle())).collect();
        let from_line = |y: f64| up * (y - line.at);
        let is_near = |i: &&usize| {
            let glyph = &glyphs[**i];
            is_text(glyph) && distance.contains(&(from_line(glyph.y) / glyph.size))
        };
        let base = near.iter().filter(is_near).map(|i| &glyphs[*i]).max_by(|a, b| {
            let is_larger = a.size.total_cmp(&b.size);
            is_larger.then(from_line(b.y).total_cmp(&from_line(a.y)))
        })?;
        let is_through =
            |glyph: &PlacedText| is_text(glyph) && from_line(glyph.y) < distance.start * glyph.size;
        let is_between = |other: &Rule| {
            let is_beyond =
                is_over((other.from + other.to) / 2.0) || (other.from..other.to).contains(&base.middle());
            is_beyond && (SAME_HEIGHT..from_line(base.y)).contains(&from_line(other.at))
        };
        if near.iter().any(|i| is_through(&glyphs[*i])) || lines.iter().any(is_between) {
            return None;
        }
        // A root sign that is lower is that of another line.
        let is_part = |glyph: &PlacedText| {
            let is_near = (glyph.y - base.y).abs() < SCRIPTS * base.size;
            is_near && !is_root(glyph) || !is_text(glyph) && from_line(glyph.y) < from_line(base.y)
        };
        let mut part: Vec<usize> = near.into_iter().filter(|i| is_part(&glyphs[*i])).collect();
        part.sort_by(|a, b| glyphs[*a].x.total_cmp(&glyphs[*b].x));
        let left = glyphs[*part.first()?].x;
        let mut right = left;
        for glyph in part.iter().map(|i| &glyphs[*i]) {
            if glyph.x - right > WORDS * base.size {
                return None;
            }
            right = right.max(glyph.end);
        }
        let is_flat = |i: &usize| {
            let glyph = &glyphs[*i];
            (glyph.y - base.y).abs() < SAME_HEIGHT && matches!(glyph.text, BfString::Char(_))
        };
        Some(Part {
            is_flat: part.iter().all(is_flat),
            glyphs: part,
            left,
            right,
            size: base.size,
            distance: from_line(base.y) / base.size,
        })
    }

    /// The nearest text beside a fraction whose parts have this size.
    fn beside(&mut self, line: &Rule, size: f64) -> Option<usize> {
        let low = line.at - BESIDE.end * self.largest;
        let near = self.between(low, line.at).to_vec();
        let glyphs = &*self.glyphs;
        let gap = |i: &usize| (line.from - glyphs[*i].end).max(glyphs[*i].x - line.to) / glyphs[*i].size;
        let is_beside = |i: &usize| {
            let glyph = &glyphs[*i];
            glyph.size >= SAME_SIZE * size
                && BESIDE.contains(&((line.at - glyph.y) / glyph.size))
                && (-SHORTER..NEAR).contains(&gap(i))
        };
        near.into_iter().filter(is_beside).min_by(|a, b| gap(a).total_cmp(&gap(b)))
    }

    /// Whether a fraction whose parts have this size is an exponent, an index or a limit of the glyph before it.
    fn is_script(&mut self, line: &Rule, size: f64) -> bool {
        let reach = AS_HIGH * self.largest;
        let near = self.between(line.at - reach, line.at + reach).to_vec();
        near.iter().map(|i| &self.glyphs[*i]).any(|glyph| {
            size <= SMALL * glyph.size
                && (glyph.y - line.at).abs() < AS_HIGH * glyph.size
                && (-LONGER..LONGER).contains(&((line.from - glyph.end) / glyph.size))
        })
    }

    /// Whether nothing is left or right of a fraction, and it has no words, as a title with a line under it has.
    fn is_formula_alone(&mut self, above: &Part, below: &Part) -> bool {
        let y = |part: &Part| part.glyphs.iter().map(|i| self.glyphs[*i].y).fold(f64::MAX, f64::min);
        let (low, high) = (y(below) - SCRIPTS * below.size, y(above) + SCRIPTS * above.size);
        let parts: HashSet<usize> = above.glyphs.iter().chain(&below.glyphs).copied().collect();
        if !self.between(low, high).iter().all(|i| parts.contains(i)) {
            return false;
        }
        let texts = [above, below].map(|part| self.text(&part.glyphs));
        let has_word = |text: &String| {
            text.split(|c: char| !c.is_alphabetic()).any(|word| word.chars().count() >= LETTERS_OF_A_WORD)
        };
        // Numbers that end at the same place are added up.
        let is_number = |text: &String| text.chars().all(|c| c.is_numeric() || matches!(c, '.' | ',' | ' '));
        let ends = (above.right - below.right).abs() / below.size;
        let is_sum = ends < SAME_END && texts.iter().all(is_number) && texts[0].len() != texts[1].len();
        !is_sum && !texts.iter().any(has_word)
    }

    /// What glyphs say that are in the order of their places.
    fn text(&self, part: &[usize]) -> String {
        let glyphs: Vec<PlacedText> = part.iter().map(|i| self.glyphs[*i].clone()).collect();
        words::on_one_line(&glyphs)
    }

    /// A fraction as wide that there is a gap before and behind it if letters or brackets are: `2 1/2`, `1/2 x`.
    fn with_gaps(&self, fraction: PlacedText) -> PlacedText {
        let gap = GAP * fraction.size;
        let (x, end) = (fraction.x, fraction.end);
        let is_near = |glyph: &&PlacedText| glyph.is_beside(&fraction);
        let beside = || self.by_height.iter().map(|i| &self.glyphs[*i]).filter(is_near);
        let leads = |glyph: &PlacedText| {
            (x - gap..x + gap).contains(&glyph.end)
                && glyph.last().is_some_and(|c| c.is_alphanumeric() || matches!(c, ')' | ']' | '}'))
        };
        let goes_on = |glyph: &PlacedText| {
            (end - gap..end + gap).contains(&glyph.x)
                && glyph.first().is_some_and(|c| c.is_alphanumeric() || matches!(c, '(' | '[' | '{'))
        };
        let left = beside().filter(|glyph| leads(glyph)).map(|glyph| glyph.end + gap).fold(x, f64::max);
        let right = beside().filter(|glyph| goes_on(glyph)).map(|glyph| glyph.x - gap).fold(end, f64::min);
        PlacedText { x: left, end: right, ..fraction }
    }

    /// Puts a formula in the place of its parts.
    fn replace(&mut self, formula: DrawnFormula, is_joined: &mut [bool]) {
        let DrawnFormula { glyph, parts } = formula;
        let Some(first) = parts.iter().min().copied() else { return };
        parts.iter().for_each(|i| is_joined[*i] = true);
        self.by_height.retain(|i| !is_joined[*i]);
        let place = self.by_height.partition_point(|i| self.glyphs[*i].y < glyph.y);
        self.by_height.insert(place, first);
        self.glyphs[first] = glyph;
        is_joined[first] = false;
    }
}

fn is_root(glyph: &PlacedText) -> bool {
    matches!(glyph.text, BfString::Char('√'))
}

/// Whether a glyph may be a part of a fraction alone, as letters may.
fn is_text(glyph: &PlacedText) -> bool {
    let is_symbol = |c: char| c.is_alphanumeric() || matches!(c, '∂' | '∇' | '∞');
    match &glyph.text {
        BfString::Char(c) => is_symbol(*c),
        BfString::String(text) => text.contains(is_symbol),
    }
}
