//! Text as it looks: its spaces and tabs, and whether a reader sees it.

use super::{Body, MAX_SPACES, OpenCell};
use crate::color::Color;
use crate::office::odf::styles::Look;
use crate::office::sight::{self, Sight};
use crate::writer::{Level, symbols};

impl Body<'_> {
    pub(super) fn space(&mut self, count: usize) {
        if self.paragraph_depth == 0 || count == 0 {
            return;
        }
        match self.looks.last().is_some_and(Look::keeps_spaces) {
            true => self.text(&" ".repeat(count.min(MAX_SPACES))),
            false => self.writer.text(" "),
        }
    }

    /// The cell that text is in, unless it is in a shape within the cell.
    pub(super) fn cell(&self) -> Option<&OpenCell> {
        self.tables.last()?.open.as_ref().filter(|cell| cell.shapes == self.shapes.len())
    }

    /// Whether a reader sees text that looks so.
    pub(super) fn sight(&self, look: &Look) -> Sight {
        if look.is_hidden == Some(true) || look.is_tiny == Some(true) {
            return Sight::Hidden;
        }
        let page = match (self.cell(), self.shapes.is_empty(), self.slides) {
            (Some(_), ..) if self.is_spreadsheet => Color::WHITE,
            (None, true, 0) => self.styles.page,
            (None, _, 1..) => self.slide,
            // Tables have colours of their own, and something may be behind shapes.
            _ => Color::Unknown,
        };
        let on = |page| sight::of_color(look.color, &[look.ground], page);
        let is_drawn = if self.slides > 0 { self.is_drawn } else { self.styles.has_behind };
        sight::on_page(page, is_drawn, on)
    }

    /// A tab is a space in a cell, and in hidden text it is nothing.
    pub(super) fn tab(&mut self) {
        let Some(look) = self.looks.last().filter(|_| self.paragraph_depth > 0) else { return };
        let is_in_cell = self.tables.last().is_some_and(|table| table.open.is_some());
        match is_in_cell {
            true => self.space(1),
            false if self.sight(look) != Sight::Hidden => {
                let distance = look.tab_distance.or(self.styles.tab_distance);
                self.writer.tab(&look.tabs.clone().unwrap_or_default(), distance);
            }
            false => {}
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        let look = self.looks.last().cloned().unwrap_or_default();
        let sight = self.sight(&look);
        if sight == Sight::Hidden {
            if !text.trim().is_empty() {
                self.counts.hidden += usize::from(!std::mem::replace(&mut self.is_counted, true));
            }
            return;
        }
        self.is_counted &= text.trim().is_empty();
        if sight == Sight::Uncertain && !text.trim().is_empty() {
            self.counts.white += usize::from(!std::mem::replace(&mut self.has_white, true));
        }
        let (text, unknown) = symbols::shown(look.font.as_deref(), text);
        self.counts.unknown_characters += unknown;
        self.writer.struck(look.is_struck == Some(true), |out| match look.level.unwrap_or(Level::Normal) {
            Level::Normal if look.keeps_spaces() => out.preformatted(&text),
            level => out.text_at(level, &text),
        });
    }
}

/// A text of the file, in which several spaces and ends of lines are one space: others are elements.
pub(super) fn with_single_spaces(text: &str) -> String {
    let mut after_space = false;
    let is_kept = |c: &char| !(std::mem::replace(&mut after_space, c.is_ascii_whitespace()) && after_space);
    text.chars().map(|c| if c.is_ascii_whitespace() { ' ' } else { c }).filter(is_kept).collect()
}
