//! What a reader does not see: hidden, tiny, and white on white.

use super::Reader;
use crate::writer::Level;

/// Text of so many half points cannot be read.
const TINY: i32 = 2;
/// Colours that differ less from white, summed over red, green and blue, look white.
const NEARLY_WHITE: i32 = 24;

/// How text looks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    pub(super) level: Level,
    pub(super) is_struck: bool,
    is_hidden: bool,
    is_white: bool,
    is_tiny: bool,
    /// Whether something is drawn behind it.
    has_ground: bool,
}

/// The list of colours. The first one mostly is none: that of the program.
#[derive(Debug, Default)]
pub(super) struct Colors {
    known: Vec<Option<[i32; 3]>>,
    /// The colour that is defined.
    color: Option<[i32; 3]>,
}

impl Colors {
    /// A word in the list.
    pub(super) fn word(&mut self, word: &str, number: Option<i32>) {
        if let Some(part) = ["red", "green", "blue"].iter().position(|name| *name == word) {
            self.color.get_or_insert_default()[part] = number.unwrap_or(0).clamp(0, 255);
        }
    }

    /// Text in the list: a sign ends each colour.
    pub(super) fn text(&mut self, text: &str) {
        text.matches(';').for_each(|_| self.known.push(self.color.take()));
    }

    fn is_white(&self, number: i32) -> bool {
        let color = usize::try_from(number).ok().and_then(|number| self.known.get(number).copied().flatten());
        color.is_some_and(|color| 3 * 255 - color.iter().sum::<i32>() < NEARLY_WHITE)
    }
}

impl Reader {
    /// Takes a word that says whether text is seen: how it looks, or what is drawn behind it. Returns whether it is one.
    pub(super) fn look(&mut self, word: &str, number: Option<i32>) -> bool {
        let is_on = number != Some(0);
        // A colour by its number, of which 0 is that of the program, or a share of black.
        let is_ground = || number.is_some_and(|number| number > 0 && !self.colors.is_white(number));
        let is_shaded = number.is_some_and(|share| share > 0);
        match word {
            "v" => self.group.look.is_hidden = is_on,
            "cf" => self.group.look.is_white = number.is_some_and(|number| self.colors.is_white(number)),
            "fs" => self.group.look.is_tiny = number.is_some_and(|size| (1..=TINY).contains(&size)),
            "cb" | "chcbpat" | "highlight" => self.group.look.has_ground = is_ground(),
            "chshdng" => self.group.look.has_ground |= is_shaded,
            "cbpat" => self.group.paragraph.has_ground |= is_ground(),
            "shading" => self.group.paragraph.has_ground |= is_shaded,
            "clcbpat" | "trcbpat" if is_ground() => self.table.shade(),
            "clshdng" | "trshdng" if is_shaded => self.table.shade(),
            _ => return false,
        }
        true
    }

    /// Whether a reader does not see text here.
    pub(super) fn is_unseen(&self) -> bool {
        let (look, paragraph) = (self.group.look, self.group.paragraph);
        let may_have_ground = || {
            let in_cell = paragraph.in_table && (paragraph.is_inner || self.table.may_be_shaded());
            look.has_ground || paragraph.has_ground || in_cell || self.group.in_shape || self.has_background
        };
        look.is_hidden || look.is_tiny || (look.is_white && !may_have_ground())
    }
}
