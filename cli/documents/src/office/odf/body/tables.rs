//! Tables: cells and rows may be there many times, and some are hidden.

use super::{Body, Cell, MAX_REPEATED, Table};
use crate::Unit;
use crate::package::xml::Element;
use crate::writer::Span;

impl Table {
    /// How many of so many columns, from `first` on, are shown.
    fn shown(&self, first: usize, count: usize) -> usize {
        let last = first.saturating_add(count);
        // Columns are defined in their order, so that none is hidden twice.
        let hidden = self
            .hidden
            .iter()
            .map(|(from, to)| to.saturating_add(1).min(last).saturating_sub(*from.max(&first)));
        count.saturating_sub(hidden.sum())
    }
}

impl Body<'_> {
    pub(super) fn begin_table(&mut self, element: &Element) {
        if self.is_spreadsheet && self.tables.is_empty() && !self.takes_next(Unit::Sheet) {
            self.skipping = 1;
            return;
        }
        let style = element.attribute("style-name");
        if self.tables.is_empty() && self.styles.look(style.as_deref()).is_absent == Some(true) {
            self.counts.hidden_parts += 1;
            self.skipping = 1;
            return;
        }
        if self.is_spreadsheet && self.tables.is_empty() {
            self.writer.heading(2);
            self.writer.text(&element.attribute("name").unwrap_or_default());
            self.writer.end_item();
        }
        match self.tables.is_empty() {
            true => self.writer.begin_table(),
            false => self.writer.paragraph(),
        }
        self.tables.push(Table::default());
    }

    pub(super) fn end_table(&mut self) {
        self.tables.pop();
        match self.tables.is_empty() {
            true => self.writer.end_table(),
            false => self.writer.paragraph(),
        }
    }

    pub(super) fn begin_cell(&mut self, element: &Element) {
        let number =
            |name: &str| element.attribute(name).and_then(|value| value.parse::<usize>().ok()).unwrap_or(1);
        let Some(table) = self.tables.last_mut() else { return };
        let span = Span::new(number("number-columns-spanned"), number("number-rows-spanned"));
        table.span = Some((span, number("number-columns-repeated").max(1)));
        table.outer = Some(std::mem::take(&mut self.writer));
    }

    pub(super) fn end_cell(&mut self) {
        let Some(table) = self.tables.last_mut() else { return };
        let (Some(outer), Some((span, repeated))) = (table.outer.take(), table.span.take()) else { return };
        let text = std::mem::replace(&mut self.writer, outer).finish();
        let first = table.column;
        table.column = table.column.saturating_add(repeated.max(span.columns));
        // A cell may be there in shown and in hidden columns.
        let shown = table.shown(first, repeated);
        match text.trim().is_empty() {
            _ if shown == 0 => self.counts.hidden += usize::from(!text.trim().is_empty()),
            true if span == Span::ONE => table.cells.push(Cell::Empty(shown)),
            _ => table.cells.push(Cell::Text(span, text, shown.min(MAX_REPEATED))),
        }
    }

    pub(super) fn end_row(&mut self) {
        let Some(table) = self.tables.last_mut() else { return };
        let cells = std::mem::take(&mut table.cells);
        let has_text = |cell: &Cell| matches!(cell, Cell::Text(_, text, _) if !text.trim().is_empty());
        let is_filled = cells.iter().any(has_text);
        if table.is_hidden_row {
            self.counts.hidden += usize::from(is_filled);
            return;
        }
        let times = if is_filled { table.repeated.clamp(1, MAX_REPEATED) } else { 1 };
        if is_filled {
            self.counts.repeated_rows += table.repeated.saturating_sub(times);
        }
        if self.tables.len() > 1 {
            return self.write_within_cell(&cells);
        }
        for _ in 0..times {
            self.writer.row();
            for cell in &cells {
                match cell {
                    Cell::Empty(count) => self.writer.skip_columns(*count),
                    Cell::Text(span, text, repeated) => {
                        for _ in 0..*repeated {
                            self.writer.cell(*span);
                            self.writer.text(text.trim());
                        }
                    }
                }
            }
            if self.writer.len() as u64 > self.max_bytes {
                return;
            }
        }
    }

    /// Writes the row of a table that is within a cell, as part of its text. A cell that is split is such a table.
    fn write_within_cell(&mut self, cells: &[Cell]) {
        let text = |cell: &Cell| match cell {
            Cell::Text(_, text, _) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            Cell::Empty(_) => None,
        };
        let texts: Vec<String> = cells.iter().filter_map(text).collect();
        if let Some(table) = self.tables.last_mut().filter(|_| !texts.is_empty()) {
            let before = if std::mem::replace(&mut table.has_row, true) { "; " } else { "" };
            self.writer.text(&format!("{before}{}", texts.join(", ")));
        }
    }
}
