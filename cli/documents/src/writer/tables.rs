//! Tables: a row is a line, with `|` between its cells.

use super::grid::{Grid, Span};
use super::{Gap, Writer};

/// Bytes of signs between empty cells, and of texts that rows repeat: so many, and so many for each byte of text. A
/// few bytes of a hostile table could ask for any number of them.
const MIN_FILLING: usize = 1 << 20;
const FILLING_PER_TEXT: usize = 8;
/// Tables within each other in a cell, and empty columns of one.
const MAX_INNER: usize = 32;
const MAX_INNER_COLUMNS: usize = 100;

/// A table that is open.
#[derive(Debug, Default)]
pub(super) struct Table {
    grid: Grid,
    /// Whether the row has text, and the separators of columns in it.
    row_begun: bool,
    separators: usize,
    /// The column of the current cell, and where its text begins once it has text.
    cell: Option<(usize, Option<usize>)>,
    /// Whether a table within the row ended its line.
    is_broken: bool,
    /// Whether it has a header, so that its columns mean something.
    has_header: bool,
}

/// A table within a cell of a table with a header. Its rows stand in the line of that cell: `S, 8; L, 9`.
#[derive(Debug, Default)]
pub(super) struct Inner {
    grid: Grid,
    /// Whether it has text, and the row has.
    has_text: bool,
    row_begun: bool,
    /// The column of the current cell, and the signs before columns of the row so far.
    column: usize,
    signs: usize,
}

impl Inner {
    fn row(&mut self) {
        self.grid.row();
        (self.row_begun, self.column, self.signs) = (false, 0, 0);
    }

    /// What goes before the next text.
    fn signs(&mut self) -> String {
        let begins_row = !std::mem::replace(&mut self.row_begun, true);
        let ends_row = std::mem::replace(&mut self.has_text, true) && begins_row;
        let missing = self.column.saturating_sub(std::mem::replace(&mut self.signs, self.column));
        format!("{}{}", if ends_row { "; " } else { "" }, ", ".repeat(missing.min(MAX_INNER_COLUMNS)))
    }
}

impl Writer {
    /// Whether the current cell has no text yet.
    pub(super) fn begins_a_cell(&self) -> bool {
        self.in_cell && matches!(self.tables.last(), Some(Table { cell: Some((_, None)), .. }))
    }

    /// Begins a table.
    pub(crate) fn begin_table(&mut self) {
        let keeps_columns = self.tables.last().is_some_and(|outer| outer.has_header && outer.cell.is_some());
        if self.in_cell && keeps_columns {
            self.end_scripts(None);
            self.gap = self.gap.max(Gap::Space);
            match self.inner.len() < MAX_INNER {
                true => self.inner.push(Inner::default()),
                // Its rows are those of the table around it.
                false => self.too_deep += 1,
            }
            return;
        }
        if let Some(outer) = self.tables.last_mut() {
            outer.is_broken = true;
        }
        self.leave_cell();
        self.reach_places(self.gap);
        self.tables.push(Table::default());
    }

    /// Ends a table.
    pub(crate) fn end_table(&mut self) {
        let was_too_deep = self.too_deep > 0;
        self.too_deep = self.too_deep.saturating_sub(1);
        if was_too_deep || self.inner.pop().is_some() {
            self.end_scripts(None);
            self.gap = self.gap.max(Gap::Space);
            return;
        }
        self.end_row();
        self.tables.pop();
        self.leave_cell();
    }

    /// Text is not in a table any more, whatever is open.
    pub(crate) fn end_tables(&mut self) {
        self.inner.clear();
        self.too_deep = 0;
        while !self.tables.is_empty() {
            self.end_table();
        }
        self.leave_cell();
    }

    fn leave_cell(&mut self) {
        self.end_cell();
        self.in_cell = false;
        self.end_item();
        self.paragraph();
    }

    /// The table has a header: its columns mean something.
    pub(crate) fn has_header(&mut self) {
        if let (Some(table), true) = (self.tables.last_mut(), self.inner.is_empty()) {
            table.has_header = true;
        }
    }

    /// Signs between the cells of tables within a cell.
    pub(super) fn inner_signs(&mut self) -> String {
        self.inner.iter_mut().map(Inner::signs).collect()
    }

    /// Begins a row of a table.
    pub(crate) fn row(&mut self) {
        if let Some(inner) = self.inner.last_mut() {
            inner.row();
            return self.end(Gap::Space);
        }
        self.end_row();
        if let Some(table) = self.tables.last_mut() {
            table.grid.row();
            (table.row_begun, table.separators, table.is_broken) = (false, 0, false);
        }
        self.line();
    }

    /// Ends the row of a table: cells above may stand in its last columns.
    fn end_row(&mut self) {
        self.end_cell();
        self.in_cell = false;
        let Some(table) = self.tables.last_mut() else { return };
        table.grid.end_row();
        if table.row_begun && !table.is_broken {
            self.fill(usize::MAX);
        }
    }

    /// Ends a group of rows: cells do not reach beyond it.
    pub(crate) fn row_group(&mut self) {
        if let Some(inner) = self.inner.last_mut() {
            return inner.grid.end_group();
        }
        self.end_row();
        if let Some(table) = self.tables.last_mut() {
            table.grid.end_group();
        }
    }

    /// Passes rows that are in the table, but not in the text. Cells above reach over them.
    pub(crate) fn pass_rows(&mut self, count: usize) {
        self.end_row();
        if let Some(table) = self.tables.last_mut() {
            table.grid.pass_rows(count);
        }
    }

    /// Begins a cell of a table.
    pub(crate) fn cell(&mut self, span: Span) {
        if let Some(inner) = self.inner.last_mut() {
            inner.column = inner.grid.place(span);
            return self.end(Gap::Space);
        }
        self.end_cell();
        let Some(table) = self.tables.last_mut() else { return };
        let column = table.grid.place(span);
        self.in_cell = !table.is_broken;
        match self.in_cell {
            true => table.cell = Some((column, None)),
            false => self.end_item(),
        }
    }

    /// Continues a cell of the row above, of so many columns.
    pub(crate) fn cell_below(&mut self, columns: usize) {
        if let Some(inner) = self.inner.last_mut() {
            return inner.grid.place_below(columns);
        }
        self.end_cell();
        let Some(table) = self.tables.last_mut() else { return };
        table.grid.place_below(columns);
        self.in_cell = !table.is_broken;
    }

    /// Leaves the columns of the row before this one empty.
    pub(crate) fn skip_to_column(&mut self, column: usize) {
        if let Some(inner) = self.inner.last_mut() {
            return inner.grid.skip_to(column);
        }
        self.end_cell();
        if let Some(table) = self.tables.last_mut() {
            table.grid.skip_to(column);
        }
    }

    /// Begins the text of the current cell.
    pub(super) fn begin_cell(&mut self) {
        let Some(Table { cell: Some((column, None)), row_begun, .. }) = self.tables.last_mut() else {
            return;
        };
        let column = *column;
        if !std::mem::replace(row_begun, true) && !self.text.is_empty() {
            self.text.push_str(if self.gap == Gap::Paragraph { "\n\n" } else { "\n" });
        }
        self.gap = Gap::None;
        self.fill(column);
        if let Some(table) = self.tables.last_mut() {
            table.cell = Some((column, Some(self.text.len())));
        }
    }

    /// Writes separators up to a column of the row, with the texts of cells above.
    fn fill(&mut self, column: usize) {
        let Some(table) = self.tables.last_mut() else { return };
        let begin = self.text.len();
        let own = begin.saturating_sub(self.filling);
        let left = (MIN_FILLING + FILLING_PER_TEXT * own).saturating_sub(self.filling);
        let mut is_lost = column == usize::MAX && table.grid.is_lost();
        for (at, repeated) in table.grid.take_repeated(column) {
            if self.text.len() - begin + repeated.len() > left {
                is_lost = true;
                break;
            }
            is_lost |= separate(&mut self.text, &mut table.separators, at, left);
            self.text.push_str(&repeated);
        }
        if column < usize::MAX {
            is_lost |= separate(&mut self.text, &mut table.separators, column, left);
        }
        self.filling += self.text.len() - begin;
        self.unfilled_rows += usize::from(is_lost);
    }

    /// Ends the current cell.
    fn end_cell(&mut self) {
        self.end_scripts(None);
        self.close_struck();
        let Some(table) = self.tables.last_mut() else { return };
        if let Some((_, Some(start))) = table.cell.take()
            && table.grid.keeps_text()
        {
            table.grid.set_text(&self.text[start..]);
        }
        if self.in_cell {
            self.marker.clear();
        }
    }
}

/// Writes the separators before a column. Returns whether one stands for all of them, because they are more than
/// `most`.
pub(super) fn separate(text: &mut String, written: &mut usize, column: usize, most: usize) -> bool {
    let missing = column.saturating_sub(*written);
    let is_lost = missing > most;
    for _ in 0..if is_lost { 1 } else { missing } {
        let is_after_text = !text.is_empty() && !text.ends_with([' ', '\n']);
        text.push_str(if is_after_text { " | " } else { "| " });
    }
    *written = column.max(*written);
    is_lost
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of cells with their columns and rows.
    fn table(rows: &[&[(&str, usize, usize)]]) -> String {
        let mut writer = Writer::default();
        writer.begin_table();
        for row in rows {
            writer.row();
            for (text, columns, rows) in *row {
                writer.cell(Span::new(*columns, *rows));
                writer.text(text);
            }
        }
        writer.end_table();
        writer.finish()
    }

    #[test]
    fn a_row_of_a_table_is_a_line() {
        let mut writer = Writer::default();
        writer.begin_table();
        for row in [["a", "b"], ["", "c"], ["", ""], ["d|e", ""]] {
            writer.row();
            for cell in row {
                writer.cell(Span::ONE);
                writer.paragraph();
                writer.text(cell);
                writer.paragraph();
            }
        }
        writer.end_table();
        writer.text("after");
        assert_eq!(writer.finish(), "a | b\n| c\nd\\|e\n\nafter\n");
    }

    #[test]
    fn cells_stay_in_their_column() {
        assert_eq!(
            table(&[
                &[("North", 1, 2), ("Cable", 1, 1), ("12", 1, 1), ("all", 1, 3)],
                &[("Hub", 1, 1), ("7", 1, 1)],
                &[("Total", 2, 1), ("19", 1, 1)],
                &[("", 1, 1), ("", 1, 1), ("", 1, 1), ("x", 1, 1)],
            ]),
            "North | Cable | 12 | all\nNorth | Hub | 7 | all\nTotal | | 19 | all\n| | | x\n"
        );
    }

    #[test]
    fn of_long_texts_the_beginning_is_repeated() {
        let long = "long ".repeat(40);
        let written = table(&[&[(&long, 1, 3), ("a", 1, 1)], &[("b", 1, 1)]]);
        let beginning = "long ".repeat(16);
        assert!(written.ends_with(&format!("long | a\n{beginning}… | b\n")), "{written}");
    }

    #[test]
    fn a_table_in_a_cell_is_lines() {
        let mut writer = Writer::default();
        writer.begin_table();
        writer.row();
        writer.cell(Span::ONE);
        writer.text("before");
        writer.begin_table();
        writer.row();
        for text in ["a", "b"] {
            writer.cell(Span::ONE);
            writer.text(text);
        }
        writer.end_table();
        writer.cell(Span::ONE);
        writer.text("beside");
        writer.row();
        for text in ["c", "d"] {
            writer.cell(Span::ONE);
            writer.text(text);
        }
        writer.end_table();
        assert_eq!(writer.finish(), "before\n\na | b\n\nbeside\nc | d\n");
    }

    #[test]
    fn filling_is_bounded() {
        let wide = [("a", 1, usize::MAX), ("", usize::MAX - 1, usize::MAX)];
        let rows: Vec<&[(&str, usize, usize)]> =
            std::iter::once(&wide[..]).chain(std::iter::repeat_n(&[("x", 1, 1)][..], 10_000)).collect();
        assert!(table(&rows).len() < 2 << 20);
        let many = vec![("x", 1, usize::MAX); 2000];
        let rows: Vec<&[(&str, usize, usize)]> =
            std::iter::once(&many[..]).chain(std::iter::repeat_n(&[("y", 1, 1)][..], 5_000)).collect();
        assert!(table(&rows).len() < 3 << 20);
        let far: Vec<&[(&str, usize, usize)]> =
            std::iter::repeat_n(&[("", 16_000, 1), ("x", 1, 1)][..], 10_000).collect();
        assert!(table(&far).len() < 4 << 20);
    }
}
