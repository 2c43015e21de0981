//! What the fonts of a page say: how large text is, and whether its letters are other signs.

use super::style::pixels;
use super::values::{quoted, split};
use crate::writer::symbols;

/// The size of text that nothing says otherwise of, in pixels.
pub(crate) const USUAL: f32 = 16.0;
/// Text of at most so many pixels cannot be read.
const TINY: f32 = 1.5;
/// Smaller text has less than this share of the size around it.
const SMALLER: f32 = 0.9;
/// The sizes of `<font size>` from 1 on, in pixels, and the one that relative ones count from.
const NUMBERED: [f32; 7] = [10.0, 13.0, 16.0, 18.0, 24.0, 32.0, 48.0];
const BASE: i64 = 3;

/// A size of a font.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FontSize {
    Pixels(f32),
    /// Times that of the text around, and times that of the page.
    Around(f32),
    Page(f32),
}

impl FontSize {
    /// That of `font-size`, in small letters.
    pub(super) fn parse(value: &str) -> Option<FontSize> {
        let number =
            |unit| value.strip_suffix(unit).and_then(|number: &str| number.trim().parse::<f32>().ok());
        Some(match value {
            "xx-small" => FontSize::Pixels(9.0),
            "x-small" => FontSize::Pixels(10.0),
            "small" => FontSize::Pixels(13.0),
            "medium" => FontSize::Pixels(USUAL),
            "large" => FontSize::Pixels(18.0),
            "x-large" => FontSize::Pixels(24.0),
            "xx-large" => FontSize::Pixels(32.0),
            "smaller" => FontSize::Around(0.83),
            "larger" => FontSize::Around(1.2),
            _ => match (number("rem"), number("em"), number("%")) {
                (Some(times), ..) => FontSize::Page(times),
                (_, Some(times), _) => FontSize::Around(times),
                (.., Some(share)) => FontSize::Around(share / 100.0),
                _ => FontSize::Pixels(pixels(value).filter(|size| *size == 0.0 || has_unit(value))?),
            },
        })
    }

    /// The size in a value of `font`, and the families behind it.
    pub(super) fn of_font(value: &str) -> Option<(FontSize, &str)> {
        let mut rest = value;
        while !rest.is_empty() {
            let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            if let Some(size) = word.split('/').next().and_then(FontSize::parse) {
                return Some((size, after));
            }
            rest = after;
        }
        None
    }

    /// That of `<font size>`: a number from 1 to 7, or one that is added to the usual one.
    pub(crate) fn numbered(value: &str) -> Option<FontSize> {
        let value = value.trim();
        let number: i64 = value.trim_start_matches('+').parse().ok()?;
        let number = if value.starts_with(['+', '-']) { number.saturating_add(BASE) } else { number };
        Some(FontSize::Pixels(NUMBERED[usize::try_from(number.clamp(1, 7)).ok()? - 1]))
    }

    /// Whether text of this size cannot be read, whatever is around it.
    pub(super) fn is_tiny(self) -> bool {
        self.pixels(USUAL, USUAL) <= TINY
    }

    pub(crate) fn pixels(self, around: f32, page: f32) -> f32 {
        match self {
            FontSize::Pixels(size) => size,
            FontSize::Around(times) => times * around,
            FontSize::Page(times) => times * page,
        }
    }
}

/// Whether text of a size, in pixels, is smaller than the text around it.
pub(crate) fn is_smaller(size: f32, around: f32) -> bool {
    size < around * SMALLER
}

fn has_unit(value: &str) -> bool {
    value.ends_with(|c: char| c.is_ascii_alphabetic())
}

/// The symbol font that is the first of `font-family`; an empty name if that is another font.
pub(crate) fn symbol_font(families: &str) -> &'static str {
    let first = split(families, |c| c == ',')[0].trim();
    let name = quoted(first).map_or_else(|| first.to_owned(), |(name, _)| name);
    symbols::symbol_font(&name).unwrap_or_default()
}

/// Whether the name of a font, in small letters, is one of icons.
pub(crate) fn is_icon_font(value: &str) -> bool {
    const NAMES: [&str; 7] = ["icon", "icomoon", "awesome", "glyph", "symbol", "dingbat", "fontello"];
    NAMES.iter().any(|name| value.contains(name))
}
