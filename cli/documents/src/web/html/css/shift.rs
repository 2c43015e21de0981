//! Text that stands above or below its line because of a length: `vertical-align: .4em`, or `top: -.5em` from its place.

use super::style::pixels;
use crate::writer::Level;

/// Raised and lowered text is moved by so many pixels at least, and by a line at most.
const MOVED: f32 = 1.9;
const LINE: f32 = 16.0;
/// Text of full size behind a number is moved by so many at least: less is for its looks.
const MOVED_WHOLE: f32 = 3.9;

/// What declarations say of where text stands. `None` is for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shift {
    aligned: Option<Aligned>,
    /// Whether it is moved from its place, and how far upwards, in pixels.
    is_moved: Option<bool>,
    moved_up: Option<f32>,
    /// The level of its letters, which the font has.
    letters: Option<Level>,
}

/// A `vertical-align`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Aligned {
    Level(Level),
    /// So many pixels above the line.
    Up(f32),
    /// At the top or at the bottom of the line.
    Edge(Level),
}

/// What is known of an element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shifted {
    /// Whether its tag says that it is raised or lowered.
    pub(crate) level: Option<Level>,
    /// Whether it is a part of a line of text.
    pub(crate) is_in_line: bool,
    pub(crate) is_smaller: bool,
    /// Whether it is directly behind a number.
    pub(crate) touches_number: bool,
}

impl Shift {
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        match name {
            "vertical-align" => {
                self.aligned = match value {
                    "super" => Some(Aligned::Level(Level::Raised)),
                    "sub" => Some(Aligned::Level(Level::Lowered)),
                    "baseline" => Some(Aligned::Level(Level::Normal)),
                    "top" | "text-top" => Some(Aligned::Edge(Level::Raised)),
                    "bottom" | "text-bottom" => Some(Aligned::Edge(Level::Lowered)),
                    value => pixels(value).map(Aligned::Up),
                }
            }
            "font-variant-position" => {
                self.letters = match value {
                    "super" => Some(Level::Raised),
                    "sub" => Some(Level::Lowered),
                    _ => None,
                }
            }
            "position" => self.is_moved = Some(value == "relative"),
            "top" => self.moved_up = pixels(value).map(|down| -down),
            "bottom" => self.moved_up = pixels(value),
            _ => {}
        }
    }

    /// These declarations, and others that replace them.
    pub(crate) fn replaced_by(self, other: Shift) -> Shift {
        Shift {
            aligned: other.aligned.or(self.aligned),
            is_moved: other.is_moved.or(self.is_moved),
            moved_up: other.moved_up.or(self.moved_up),
            letters: other.letters.or(self.letters),
        }
    }

    /// Whether a length says where text stands, not a name.
    pub(crate) fn is_by_length(self) -> bool {
        self.letters.is_none() && !matches!(self.aligned, Some(Aligned::Level(_)))
    }

    /// Whether a box in a line is moved up or down in it.
    pub(crate) fn is_aligned(self) -> bool {
        matches!(self.aligned, Some(Aligned::Up(up)) if up != 0.0)
    }

    /// Where the text of an element stands, if its tag or these declarations say so. Small text is moved to be raised or
    /// lowered, and so is what is behind a number; other text is moved for its looks.
    pub(crate) fn level(self, element: Shifted) -> Option<Level> {
        let moved = self.moved_up.filter(|_| self.is_moved == Some(true));
        let aligned = match self.aligned {
            Some(Aligned::Up(up)) if element.is_in_line => Some(up),
            _ => None,
        };
        let on_line = match self.aligned {
            Some(Aligned::Level(level)) => Some(level),
            // A little above the line, raised letters stay raised.
            Some(Aligned::Up(up)) if up <= 0.0 => Some(Level::Normal),
            Some(Aligned::Edge(level))
                if element.is_in_line && element.is_smaller && element.touches_number =>
            {
                element.level.or(Some(level))
            }
            _ => element.level,
        };
        if self.letters.is_some() || !on_line.is_none_or(|level| level == Level::Normal) {
            return self.letters.or(on_line);
        }
        let up = moved.unwrap_or_default() + aligned.unwrap_or_default();
        let least = match element {
            Shifted { level: Some(_), .. } | Shifted { is_smaller: true, .. } => MOVED,
            Shifted { touches_number: true, .. } => MOVED_WHOLE,
            _ => f32::INFINITY,
        };
        match (least..=LINE).contains(&up.abs()) {
            true => Some(if up > 0.0 { Level::Raised } else { Level::Lowered }),
            false => on_line,
        }
    }
}
