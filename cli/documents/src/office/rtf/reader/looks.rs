//! What a reader does not see: hidden, tiny, and in the colour of its ground.

use super::Reader;
use crate::color::Color;
use crate::office::sight::{self, Sight};
use crate::writer::Level;

/// Text of so many half points cannot be read.
const TINY: i32 = 2;

/// How text looks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    pub(super) level: Level,
    pub(super) is_struck: bool,
    is_hidden: bool,
    is_tiny: bool,
    color: Option<Color>,
    ground: Ground,
}

/// What is drawn behind text, a paragraph, a cell or a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ground {
    color: Option<Color>,
    /// Whether the colour is that of a pattern, with another one before it.
    has_pattern: bool,
}

impl Ground {
    pub(super) fn color(self) -> Color {
        if self.has_pattern { Color::Unknown } else { self.color.unwrap_or(Color::Transparent) }
    }

    /// Whether it is drawn in another colour than white.
    pub(super) fn is_shaded(self) -> bool {
        let color = self.color();
        color != Color::Transparent && !Color::WHITE.is_lost_on(color)
    }
}

/// The list of colours. The first one mostly is none: that of the program.
#[derive(Debug, Default)]
pub(super) struct Colors {
    known: Vec<Option<Color>>,
    /// The colour that is defined.
    color: Option<[u8; 3]>,
}

impl Colors {
    /// A word in the list.
    pub(super) fn word(&mut self, word: &str, number: Option<i32>) {
        if let Some(part) = ["red", "green", "blue"].iter().position(|name| *name == word) {
            self.color.get_or_insert_default()[part] = number.unwrap_or(0).clamp(0, 255) as u8;
        }
    }

    /// Text in the list: a sign ends each colour.
    pub(super) fn text(&mut self, text: &str) {
        for _ in text.matches(';') {
            let color = self.color.take();
            self.known.push(color.map(|[red, green, blue]| Color::Known(red, green, blue)));
        }
    }

    /// A colour by its number.
    fn get(&self, number: Option<i32>) -> Option<Color> {
        let number = number.and_then(|number| usize::try_from(number).ok());
        number.and_then(|number| self.known.get(number).copied().flatten())
    }

    /// The colour of a ground, of which 0 is none.
    fn ground(&self, number: Option<i32>) -> Option<Color> {
        number.filter(|number| *number > 0).map(|_| self.get(number).unwrap_or(Color::Unknown))
    }
}

impl Reader {
    /// Takes a word that says whether text is seen: how it looks, or what is drawn behind it. Returns whether it is one.
    pub(super) fn look(&mut self, word: &str, number: Option<i32>) -> bool {
        let (color, look) = (self.colors.ground(number), &mut self.group.look);
        let has_pattern = number.is_some_and(|share| share > 0);
        match word {
            "v" => look.is_hidden = number != Some(0),
            "cf" => look.color = self.colors.get(number),
            "fs" => look.is_tiny = number.is_some_and(|size| (1..=TINY).contains(&size)),
            // Not all programs draw it.
            "cb" if color.is_some_and(|color| !Color::WHITE.is_lost_on(color)) => {
                look.ground.color = Some(Color::Unknown)
            }
            "cb" | "chcbpat" | "highlight" => look.ground.color = color,
            "chshdng" => look.ground.has_pattern = has_pattern,
            "cbpat" => self.group.paragraph.ground.color = color,
            "shading" => self.group.paragraph.ground.has_pattern = has_pattern,
            "clcbpat" => self.table.cell_ground().color = color,
            "clshdng" => self.table.cell_ground().has_pattern = has_pattern,
            "trcbpat" => self.table.row_ground().color = color,
            "trshdng" => self.table.row_ground().has_pattern = has_pattern,
            _ => return false,
        }
        true
    }

    /// Whether a reader sees text here.
    fn sight(&self) -> Sight {
        let (look, paragraph) = (&self.group.look, &self.group.paragraph);
        if look.is_hidden || look.is_tiny {
            return Sight::Hidden;
        }
        let around = match paragraph.in_table {
            // Shapes have colours of their own, and cells within a cell are defined behind their text.
            _ if self.group.in_shape || paragraph.is_inner => Color::Unknown,
            true => self.table.ground(),
            false => Color::Transparent,
        };
        let page = if self.has_background { Color::Unknown } else { Color::WHITE };
        let grounds = [look.ground.color(), paragraph.ground.color(), around].map(Some);
        sight::of_color(look.color, &grounds, page)
    }

    /// Whether text here is not in the document, or a reader does not see it.
    pub(super) fn is_left_out(&self) -> bool {
        self.group.is_deleted || self.sight() == Sight::Hidden
    }

    /// Whether this text is left out. Counts it once in a paragraph, and white text that a reader may not see. Deletions are
    /// counted where they begin.
    pub(super) fn leaves_out(&mut self, text: &str) -> bool {
        if self.group.is_deleted {
            return true;
        }
        let sight = self.sight();
        let (count, is_counted) = match sight {
            Sight::Hidden => (&mut self.counts.hidden, &mut self.is_counted),
            Sight::Uncertain => (&mut self.counts.white, &mut self.has_white),
            Sight::Seen => return false,
        };
        if !text.trim().is_empty() {
            *count += usize::from(!std::mem::replace(is_counted, true));
        }
        sight == Sight::Hidden
    }
}
