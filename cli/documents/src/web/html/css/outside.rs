//! The ways of CSS to cut all of a text off, or to put it beside the page.

use super::style::pixels;

/// Distances from which on text is beside the page, in pixels.
const FAR: f32 = -900.0;
/// Properties that say how large a box is at most. The first two are about its width.
const SIZES: [&str; 4] = ["width", "max-width", "height", "max-height"];
/// Properties that open a box whose size is nothing: it is as large as they say.
const OPENERS: [&str; 6] = ["min-width", "min-height", "padding-top", "padding-bottom", "flex", "flex-grow"];

/// What the ways say. None takes back what another one says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outside {
    opacity: Option<bool>,
    clip: Option<bool>,
    clip_path: Option<bool>,
    transform: Option<bool>,
    filter: Option<bool>,
    offset: Option<bool>,
    /// In pixels; infinite where that is unknown.
    sizes: [Option<f32>; SIZES.len()],
    openers: [Option<bool>; OPENERS.len()],
    hides_overflow: Option<bool>,
    /// Whether one rule makes the box flat and hides its overflow. Of two rules, one may be for other elements as well.
    is_flat_by_rule: bool,
}

impl Outside {
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        match name {
            "opacity" => {
                self.opacity = Some(value.trim_end_matches('%').parse::<f32>().is_ok_and(|n| n < 0.05));
            }
            "left" | "top" | "right" | "bottom" | "margin-left" | "margin-top" | "text-indent"
                if is_far(value) =>
            {
                self.offset = Some(true);
            }
            "clip" => {
                let inner = value.strip_prefix("rect(").and_then(|inner| inner.strip_suffix(')'));
                let mut sides = inner.into_iter().flat_map(|inner| inner.split([',', ' ']));
                let is_point = sides.all(|side| side.is_empty() || pixels(side).is_some_and(|n| n <= 1.0));
                self.clip = Some(inner.is_some() && is_point);
            }
            "clip-path" => {
                let (shape, inner) = function(value).unwrap_or_default();
                let mut sides = inner.split([' ', ',']);
                self.clip_path = Some(match shape {
                    "inset" => is_all(inner),
                    "circle" | "ellipse" => sides.next().and_then(pixels) == Some(0.0),
                    "polygon" => sides.all(|side| side.is_empty() || pixels(side) == Some(0.0)),
                    _ => false,
                });
            }
            "transform" => {
                let (name, inner) = function(value).unwrap_or_default();
                let mut sides = inner.split(',').map(str::trim);
                self.transform = Some(match name {
                    "scale" | "scalex" | "scaley" | "scale3d" => sides.next().and_then(pixels) == Some(0.0),
                    "translate" | "translatex" | "translatey" | "translate3d" => sides.take(2).any(is_far),
                    _ => false,
                });
            }
            "filter" => {
                let (name, inner) = function(value).unwrap_or_default();
                self.filter = Some(name == "opacity" && pixels(inner.trim()) == Some(0.0));
            }
            "overflow" => self.hides_overflow = Some(value == "hidden" || value == "clip"),
            _ => {
                if let Some(i) = SIZES.iter().position(|known| *known == name) {
                    // A share of something unknown may be large.
                    let size = pixels(value).filter(|size| *size == 0.0 || !value.ends_with('%'));
                    self.sizes[i] = Some(size.unwrap_or(f32::INFINITY));
                } else if let Some(i) = OPENERS.iter().position(|known| *known == name) {
                    self.openers[i] = Some(pixels(value) != Some(0.0));
                }
            }
        }
    }

    /// Ends the declarations of one rule, with all that it says.
    pub(crate) fn end_rule(&mut self, together: &Outside) {
        self.is_flat_by_rule = together.is_cut();
    }

    /// Tables and their cells grow with their text, whatever their size.
    pub(crate) fn grows(&mut self) {
        self.is_flat_by_rule = false;
    }

    /// Whether the text is outside, if one of the ways says so or says the opposite.
    pub(crate) fn is_outside(&self) -> Option<bool> {
        let is_in_flat_box = self.is_flat_by_rule && self.is_cut();
        [self.opacity, self.clip, self.clip_path, self.transform, self.filter, self.offset]
            .into_iter()
            .chain([is_in_flat_box.then_some(true)])
            .flatten()
            .reduce(|one, other| one || other)
    }

    /// Whether the overflow of the box is hidden and no letter has room in it: it is nothing, or a pixel in both directions.
    fn is_cut(&self) -> bool {
        let [width, max_width, height, max_height] = self.sizes.map(|size| size.unwrap_or(f32::INFINITY));
        let (width, height) = (width.min(max_width), height.min(max_height));
        let is_flat = width.min(height) == 0.0 || width.max(height) <= 1.0;
        is_flat && self.hides_overflow == Some(true) && !self.openers.contains(&Some(true))
    }

    /// These ways, and others that replace them.
    pub(crate) fn replaced_by(self, other: Outside) -> Outside {
        Outside {
            opacity: other.opacity.or(self.opacity),
            clip: other.clip.or(self.clip),
            clip_path: other.clip_path.or(self.clip_path),
            transform: other.transform.or(self.transform),
            filter: other.filter.or(self.filter),
            offset: other.offset.or(self.offset),
            sizes: std::array::from_fn(|i| other.sizes[i].or(self.sizes[i])),
            openers: std::array::from_fn(|i| other.openers[i].or(self.openers[i])),
            hides_overflow: other.hides_overflow.or(self.hides_overflow),
            is_flat_by_rule: other.is_flat_by_rule || self.is_flat_by_rule,
        }
    }
}

fn is_far(value: &str) -> bool {
    pixels(value).is_some_and(|distance| distance <= FAR)
}

/// Whether the sides of a box, in the order of CSS, take all of its height or width away.
fn is_all(sides: &str) -> bool {
    let sides = sides.split_once("round").map_or(sides, |(sides, _)| sides);
    let share =
        |side: &str| side.strip_suffix('%').and_then(|share| share.parse::<f32>().ok()).unwrap_or(0.0);
    let shares: Vec<f32> = sides.split_whitespace().map(share).collect();
    let (top, right, bottom, left) = match shares[..] {
        [all] => (all, all, all, all),
        [y, x] => (y, x, y, x),
        [top, x, bottom] => (top, x, bottom, x),
        [top, right, bottom, left] => (top, right, bottom, left),
        _ => return false,
    };
    top + bottom >= 100.0 || left + right >= 100.0
}

/// The name of a function in small letters and what is within its brackets, if a value is one.
fn function(value: &str) -> Option<(&str, &str)> {
    value.strip_suffix(')')?.split_once('(').filter(|(_, inner)| !inner.contains(['(', ')']))
}
