//! Tabs, and the stops of paragraphs and styles that they lead to.

use std::rc::Rc;

use super::{Destination, Paragraph, Reader};
use crate::writer::{Align, TabStops};

impl Paragraph {
    /// Takes a word about tab stops or the indentation. Returns whether it is one.
    pub(super) fn tab_word(&mut self, word: &str, number: Option<i32>) -> bool {
        match word {
            "tqr" | "tqdec" => self.align = Align::Right,
            "tqc" => self.align = Align::Center,
            "tx" => {
                let align = std::mem::take(&mut self.align);
                let place = number.and_then(|place| u32::try_from(place).ok());
                place.into_iter().for_each(|place| self.own_tabs().set(place, Some(align)));
            }
            // A line that is drawn.
            "tb" => self.align = Align::Left,
            "li" | "fi" => {
                let of_word = if word == "li" { &mut self.left } else { &mut self.first };
                *of_word = number.unwrap_or(0);
                let (left, first) = (self.left.into(), self.first.into());
                self.own_tabs().indent(left, first);
            }
            _ => return false,
        }
        true
    }

    fn own_tabs(&mut self) -> &mut TabStops {
        Rc::make_mut(self.tabs.get_or_insert_default())
    }
}

impl Reader {
    /// A tab is a space in a cell, and in hidden text it is nothing.
    pub(super) fn tab(&mut self) {
        let is_in_cell = self.outer.is_empty() && self.group.paragraph.in_table;
        if is_in_cell || !self.group.destination.is_text() {
            if self.has_begun {
                self.write(" ");
            }
            return;
        }
        if self.is_left_out() {
            return;
        }
        self.begin_text();
        let paragraph = &self.group.paragraph;
        // Programs write the stops of the style again in each paragraph; those that do not mean the style.
        let style = || self.styles.get(&paragraph.style)?.tabs.as_ref();
        let stops = paragraph.tabs.as_ref().or_else(style).cloned().unwrap_or_default();
        self.writer.tab(&stops, self.tab_distance);
    }
}

impl Destination {
    /// Whether its text is one of the document.
    pub(super) fn is_text(self) -> bool {
        use Destination::{Comment, Footer, Header, Note, Text};
        matches!(self, Text | Note | Comment | Header | Footer)
    }
}
