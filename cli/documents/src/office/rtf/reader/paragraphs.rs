//! Paragraphs and tables: a table is a row of paragraphs with marks between them.

use std::mem;

use super::Reader;
use crate::writer::{Rows, Span, symbols};

impl Reader {
    pub(super) fn begin_text(&mut self) {
        if mem::replace(&mut self.has_begun, true) {
            return;
        }
        self.begin_cell();
        let heading = self.heading.or_else(|| self.styles.get(&self.style).copied());
        let mark = mem::take(&mut self.mark);
        let mark = match mark.trim() {
            "" => String::new(),
            mark if mark.chars().any(char::is_alphanumeric) => mark.to_owned(),
            mark => symbols::bullet("", mark).to_owned(),
        };
        self.writer.end_item();
        match heading {
            Some(level) => {
                self.writer.heading(level);
                if !mark.is_empty() && mark != "-" {
                    self.writer.number(&mark);
                }
            }
            None if !mark.is_empty() => self.writer.item(self.depth, &mark),
            None => self.writer.paragraph(),
        }
    }

    pub(super) fn end_paragraph(&mut self) {
        self.begin_cell();
        if !self.in_table && self.outer.is_empty() {
            self.end_table();
        }
        self.writer.end_item();
        self.mark.clear();
        self.has_begun = false;
        self.is_counted = false;
    }

    /// Begins the table, the row and the cell that text is in.
    pub(super) fn begin_cell(&mut self) {
        if !self.in_table || !self.outer.is_empty() {
            if !self.in_table && self.outer.is_empty() {
                self.end_table();
            }
            return;
        }
        if !mem::replace(&mut self.table_is_open, true) {
            self.writer.begin_table();
        }
        if !mem::replace(&mut self.in_row, true) {
            self.writer.row();
            self.cell_at = 0;
            self.next_cell();
        }
    }

    /// Begins the cell that is next in the definition of the row.
    pub(super) fn next_cell(&mut self) {
        let (is_left, is_covered, is_top, is_below) =
            self.cells.get(self.cell_at).copied().unwrap_or_default();
        if is_covered {
            return;
        }
        let following = self.cells.iter().skip(self.cell_at + 1).take_while(|cell| cell.1).count();
        let columns = if is_left { following + 1 } else { 1 };
        match is_below {
            true => self.writer.cell_below(columns),
            false => {
                self.writer.cell(Span { columns, rows: if is_top { Rows::Open } else { Rows::Count(1) } })
            }
        }
    }

    pub(super) fn end_cell(&mut self) {
        self.in_table = true;
        self.begin_cell();
        self.has_begun = false;
        self.cell_at += 1;
        self.next_cell();
    }

    pub(super) fn end_row(&mut self) {
        (self.in_row, self.has_begun) = (false, false);
        self.in_table = true;
    }

    pub(super) fn end_table(&mut self) {
        self.in_row = false;
        if mem::take(&mut self.table_is_open) {
            self.writer.end_table();
        }
    }
}
