//! Tables: cells and rows may be there many times, and some are hidden.

use super::values::Value;
use super::{Body, Cell, MAX_REPEATED, OpenCell, Table};
use crate::Unit;
use crate::office::sight::Sight;
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
        // Those of the last rows, if these are hidden, stand nowhere.
        let left = self.tables.pop().map_or(Vec::new(), |table| table.cells);
        self.counts.hidden += usize::from(left.iter().any(|cell| !cell.text.is_empty()));
        match self.tables.is_empty() {
            true => {
                self.writer.end_table();
                std::mem::take(&mut self.drawn).iter().for_each(|drawn| self.writer.block(drawn));
            }
            false => self.writer.paragraph(),
        }
    }

    pub(super) fn begin_cell(&mut self, element: &Element) {
        let number = |name: &str| {
            element.attribute(name).and_then(|value| value.parse::<usize>().ok()).unwrap_or(1).max(1)
        };
        let Some(table) = self.tables.last_mut() else { return };
        let is_covered = element.name == "covered-table-cell";
        // Some files leave out the cells that another one covers.
        if !is_covered {
            table.column = table.column.max(table.covered_until);
        }
        let column = table.column;
        // Columns are defined in their order.
        let of_column = || {
            let at = table.column_styles.partition_point(|(_, last, _)| *last < column);
            let style = table.column_styles.get(at).filter(|(first, ..)| *first <= column);
            style.map(|(.., style)| style.clone())
        };
        let style =
            element.attribute_of("table:style-name").or_else(|| table.row_style.clone()).or_else(of_column);
        table.open = Some(OpenCell {
            outer: std::mem::take(&mut self.writer),
            columns: number("number-columns-spanned"),
            rows: number("number-rows-spanned"),
            repeated: number("number-columns-repeated"),
            look: self.styles.look(style.as_deref()),
            is_covered,
            value: Value::of(element),
            has_paragraph: false,
            notes: self.notes.len(),
            shapes: self.shapes.len(),
        });
    }

    pub(super) fn end_cell(&mut self) {
        let look = self.tables.last().and_then(|table| table.open.as_ref()).map(|cell| cell.look.clone());
        let is_hidden = look.is_some_and(|look| self.sight(&look) == Sight::Hidden);
        let Some(table) = self.tables.last_mut() else { return };
        let Some(cell) = table.open.take() else { return };
        let OpenCell { columns, rows, repeated, is_covered, .. } = cell;
        let text = std::mem::replace(&mut self.writer, cell.outer).finish();
        let text = match cell.value {
            Some(_) if !cell.has_paragraph && is_hidden => {
                self.counts.hidden += 1;
                text.trim().to_owned()
            }
            Some(value) if !cell.has_paragraph => {
                self.counts.no_results += usize::from(matches!(value, Value::Formula(_)));
                value.into_text() + text.trim()
            }
            // Its format shows nothing.
            Some(Value::Known(value)) if text.trim().is_empty() => {
                self.counts.hidden += usize::from(!value.is_empty() && !is_hidden);
                String::new()
            }
            _ => text.trim().to_owned(),
        };
        let first = table.column;
        table.column = first.saturating_add(repeated);
        if is_covered {
            self.counts.hidden += usize::from(!text.is_empty());
            return;
        }
        table.covered_until = first.saturating_add(repeated.max(columns));
        // A cell may be there in shown and in hidden columns.
        let (columns, count) = match repeated {
            1 => (table.shown(first, columns), 1),
            _ => (1, table.shown(first, repeated).min(MAX_REPEATED)),
        };
        if columns == 0 || count == 0 {
            self.counts.hidden += usize::from(!text.is_empty());
        } else if !text.is_empty() || columns.max(rows) > 1 {
            table.cells.push(Cell { column: table.shown(0, first), columns, rows, text, count });
        }
    }

    pub(super) fn end_row(&mut self) {
        let Some(table) = self.tables.last_mut() else { return };
        let mut cells = std::mem::take(&mut table.cells);
        let is_filled = cells.iter().any(|cell| !cell.text.is_empty());
        let repeated = table.repeated.max(1);
        if table.is_hidden_row {
            // What reaches into the rows below stands there.
            let (mut below, hidden): (Vec<_>, Vec<_>) =
                cells.into_iter().partition(|cell| cell.rows > repeated);
            self.counts.hidden += usize::from(hidden.iter().any(|cell| !cell.text.is_empty()));
            below.iter_mut().for_each(|cell| cell.rows -= repeated);
            table.cells = below;
            return self.writer.pass_rows(repeated);
        }
        let times = if is_filled { repeated.min(MAX_REPEATED) } else { 1 };
        if is_filled {
            self.counts.repeated_rows += repeated - times;
        }
        // Those of hidden rows came first.
        cells.sort_by_key(|cell| cell.column);
        if self.tables.len() > 1 {
            return self.write_within_cell(&cells);
        }
        for _ in 0..times {
            self.writer.row();
            for cell in &cells {
                self.writer.skip_to_column(cell.column);
                for _ in 0..cell.count {
                    self.writer.cell(Span::new(cell.columns, cell.rows));
                    self.writer.text(&cell.text);
                }
            }
            if self.writer.len() as u64 > self.max_bytes {
                return;
            }
        }
        self.writer.pass_rows(repeated - times);
    }

    /// Writes the row of a table that is within a cell, as part of its text. A split cell is such a table.
    fn write_within_cell(&mut self, cells: &[Cell]) {
        let (mut row, mut column) = (String::new(), 0);
        for cell in cells.iter().filter(|cell| !cell.text.is_empty()) {
            row.push_str(&", ".repeat(cell.column.saturating_sub(column).min(MAX_REPEATED)));
            // More would be too long a text.
            let most = (self.max_bytes as usize).saturating_sub(row.len()) / cell.text.len() + 1;
            row.push_str(&vec![cell.text.as_str(); cell.count.min(most)].join(", "));
            column = cell.column + cell.count - 1;
        }
        if let Some(table) = self.tables.last_mut().filter(|_| !row.is_empty()) {
            let before = if std::mem::replace(&mut table.has_row, true) { "; " } else { "" };
            self.writer.text(&format!("{before}{row}"));
        }
    }
}
