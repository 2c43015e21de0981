//! Tables. Hidden rows are left out; cells of several rows that begin in one begin in the next row that is shown.

use std::collections::HashMap;
use std::rc::Rc;

use super::Body;
use crate::color::Color;
use crate::marks;
use crate::office::docx::styles::{Style, shading};
use crate::office::docx::table_styles::{CellLook, ShownParts};
use crate::package::xml::Element;
use crate::writer::{Rows, Span, Writer};

/// A table that is open.
#[derive(Debug)]
pub(super) struct Table {
    /// The colour of the cell, and that of text in it which says nothing itself.
    pub(super) ground: Color,
    pub(super) color: Option<Color>,
    /// Its style, which parts of it the table has, and its own colour.
    style: Rc<Style>,
    parts: ShownParts,
    own_ground: Option<Color>,
    /// The number of rows that have begun.
    rows: usize,
    row: TableRow,
    /// Texts of cells that reach below hidden rows, by their columns.
    carried: HashMap<usize, String>,
}

/// A row of a table.
#[derive(Debug, Default)]
pub(super) struct TableRow {
    pub(super) is_hidden: bool,
    pub(super) has_header: bool,
    /// Whether the file says that it looks as the first one.
    pub(super) is_as_first: bool,
    /// Columns before its first cell.
    pub(super) before: usize,
    /// Whether it looks otherwise than the table says.
    is_special: bool,
    has_begun: bool,
    /// The column of the next cell.
    column: usize,
    /// Of a hidden row: where text goes behind it, whether text of it is lost, and the column of a cell that reaches below.
    outer: Option<Writer>,
    is_lost: bool,
    reaches_below: Option<usize>,
}

impl Body {
    pub(super) fn begin_table(&mut self) {
        self.begin_cell();
        self.tables.push(Table {
            ground: Color::Unknown,
            color: None,
            style: self.styles.table(None),
            parts: ShownParts::default(),
            own_ground: None,
            rows: 0,
            row: TableRow::default(),
            carried: HashMap::new(),
        });
        self.out().begin_table();
    }

    pub(super) fn table_property(&mut self, element: &Element) {
        let Some(table) = self.tables.last_mut() else { return };
        match element.name.as_str() {
            "tblStyle" => table.style = self.styles.table(element.attribute("val").as_deref()),
            "tblLook" => table.parts = ShownParts::of(element),
            "shd" => table.own_ground = Some(shading(element)),
            _ => {}
        }
    }

    /// Notes that the row has a look of its own.
    pub(super) fn set_row_look(&mut self) {
        self.tables.iter_mut().last().into_iter().for_each(|table| table.row.is_special = true);
    }

    /// Sets how the cell looks that begins, unless it says otherwise.
    pub(super) fn set_cell_look(&mut self) {
        let behind = match (self.tables.as_slice(), self.text_boxes) {
            ([_], 0) => self.page,
            ([.., outer, _], 0) => outer.ground,
            _ => Color::Unknown,
        };
        let Some(table) = self.tables.last_mut() else { return };
        let whole =
            CellLook { color: table.style.run.color, ground: table.own_ground.or(table.style.ground) };
        let row = &table.row;
        // Word draws all rows of a header alike, and the first cell behind columns that a row leaves out.
        let may_be_first = row.has_header || row.is_as_first;
        let is_first_row = if table.rows > 1 && may_be_first { None } else { Some(table.rows <= 1) };
        let is_behind_gap = row.before > 0 && row.column == row.before;
        let is_first_column = if is_behind_gap { None } else { Some(row.column == 0) };
        let look = table.style.parts.cell(whole, table.parts, [is_first_row, is_first_column]);
        let ground = look.ground.filter(|ground| *ground != Color::Transparent).unwrap_or(behind);
        table.color = look.color;
        table.ground = if table.row.is_special { Color::Unknown } else { ground };
    }

    pub(super) fn end_table(&mut self) {
        if let Some(table) = self.tables.pop() {
            self.counts.hidden += table.carried.values().filter(|text| !text.is_empty()).count();
        }
        self.out().end_table();
    }

    /// The row whose properties are read.
    pub(super) fn row_properties(&mut self) -> Option<&mut TableRow> {
        self.tables.last_mut().map(|table| &mut table.row).filter(|_| self.in_row_properties)
    }

    pub(super) fn start_row(&mut self) {
        // A damaged table may have a row within a row.
        self.end_hidden_row();
        if let Some(table) = self.tables.last_mut() {
            table.row = TableRow::default();
            table.rows = table.rows.saturating_add(1);
        }
    }

    /// Begins the row whose properties are known.
    pub(super) fn begin_row(&mut self) {
        let Some(row) = self.tables.last_mut().map(|table| &mut table.row) else { return };
        if std::mem::replace(&mut row.has_begun, true) {
            return;
        }
        row.column = row.before;
        let (is_hidden, has_header, before) = (row.is_hidden, row.has_header, row.before);
        let out = self.out();
        if is_hidden {
            let outer = std::mem::take(out);
            if let Some(table) = self.tables.last_mut() {
                table.row.outer = Some(outer);
            }
            return;
        }
        out.row();
        if has_header {
            out.has_header();
        }
        if before > 0 {
            out.skip_to_column(before);
        }
    }

    pub(super) fn end_row(&mut self) {
        self.begin_row();
        self.end_hidden_row();
    }

    /// Counts what is left out of the hidden row, if there is one. Text goes behind it again.
    fn end_hidden_row(&mut self) {
        let Some(row) = self.tables.last_mut().map(|table| &mut table.row) else { return };
        let is_lost = std::mem::take(&mut row.is_lost);
        if let Some(outer) = row.outer.take() {
            let left = std::mem::replace(self.out(), outer).finish();
            self.counts.hidden += usize::from(is_lost || !left.trim().is_empty());
        }
    }

    /// Begins the cell whose properties are known.
    pub(super) fn begin_cell(&mut self) {
        let Some(cell) = self.cell.take() else { return };
        self.is_below = self.continues_cell;
        let Some(table) = self.tables.last_mut() else { return };
        let column = table.row.column;
        table.row.column = column.saturating_add(cell.columns);
        if table.row.outer.is_some() {
            table.row.reaches_below = (cell.rows == Rows::Open).then_some(column);
            return;
        }
        let carried = table.carried.remove(&column);
        match (self.continues_cell, carried) {
            (true, Some(text)) => {
                self.out().cell(Span { rows: Rows::Open, ..cell });
                self.out().text(&text);
            }
            (true, None) => self.out().cell_below(cell.columns),
            (false, carried) => {
                self.counts.hidden += usize::from(carried.is_some_and(|text| !text.is_empty()));
                self.out().cell(cell);
            }
        }
    }

    pub(super) fn end_cell(&mut self) {
        self.begin_cell();
        self.is_below = false;
        let Some(table) = self.tables.last_mut().filter(|table| table.row.outer.is_some()) else { return };
        let below = table.row.reaches_below.take();
        // It is a part of a cell now, and no heading.
        let text = marks::without_headings(&std::mem::take(self.out()).finish());
        let Some(table) = self.tables.last_mut().filter(|_| !text.trim().is_empty()) else { return };
        let is_lost = below.is_none_or(|column| table.carried.insert(column, text).is_some());
        table.row.is_lost |= is_lost;
    }

    /// Ends the tables that a damaged part leaves open.
    pub(super) fn end_tables(&mut self) {
        while !self.tables.is_empty() {
            self.end_hidden_row();
            self.tables.pop();
        }
        self.writer.end_tables();
    }
}
