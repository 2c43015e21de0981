//! Pictures: what their descriptions say. Those without one are counted, unless they are ornaments.

use super::Tag;
use super::css::{Declared, declarations, pixels};
use super::math;
use super::page::Page;

/// A picture with a side of so many pixels is a line or keeps a place, and one with two such sides is an icon.
const LINE: f32 = 8.0;
const ICON: f32 = 32.0;

impl Page<'_> {
    /// Writes the description of a picture, or counts it.
    pub(super) fn picture(&mut self, tag: &Tag, declared: &Declared) {
        let described = ["alt", "aria-label", "title"].iter().find_map(|name| text(tag, name));
        let Some(description) = described else {
            let is_seen = declared.is_seen() != Some(false) && !self.is_unseen();
            let is_empty = tag.has("alt") && !self.elements.is_within(b"figure");
            self.counts.pictures += usize::from(is_seen && !is_empty && !is_ornament(tag));
            return;
        };
        let class = tag.attribute("class").unwrap_or_default();
        let is_formula =
            description.trim_start().starts_with("{\\") || class.contains("tex") || class.contains("math");
        match is_formula {
            true => self.text(&math::written(&description)),
            false => self.text(&format!(" [image: {}] ", description.trim())),
        }
    }
}

fn text(tag: &Tag, name: &str) -> Option<String> {
    tag.attribute(name).filter(|text| !text.trim().is_empty())
}

/// Whether a picture without a description says nothing: it keeps a place, counts readers or is an icon.
fn is_ornament(tag: &Tag) -> bool {
    let has_source =
        ["src", "srcset", "data-src", "href", "xlink:href"].iter().any(|name| text(tag, name).is_some());
    let is_marked = tag.is("role", "presentation") || tag.is("role", "none") || tag.is("aria-hidden", "true");
    let is_icon = sides(tag).iter().all(|side| side.is_some_and(|side| side <= ICON));
    let is_spacer = text(tag, "src").is_some_and(|source| source.to_ascii_lowercase().contains("spacer"));
    !has_source || is_marked || is_line(tag) || is_icon || is_spacer
}

/// Whether what an element shows is a line or less.
pub(super) fn is_line(tag: &Tag) -> bool {
    sides(tag).iter().flatten().any(|side| *side <= LINE)
}

fn sides(tag: &Tag) -> [Option<f32>; 2] {
    ["width", "height"].map(|name| side(tag, name))
}

/// The length of a side in pixels, if the element itself says it.
fn side(tag: &Tag, name: &str) -> Option<f32> {
    let style = tag.attribute("style").unwrap_or_default().to_ascii_lowercase();
    let of_style = declarations(&style).filter(|(own, _)| own == name).find_map(|(_, value)| absolute(value));
    of_style.or_else(|| absolute(tag.attribute(name)?.trim()))
}

/// A length that depends on nothing else.
fn absolute(value: &str) -> Option<f32> {
    pixels(value).filter(|_| !value.ends_with('%'))
}
