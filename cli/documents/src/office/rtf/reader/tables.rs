//! Tables: rows of paragraphs with marks between them, each with the places where its cells end. Cells are in one column
//! where these places are the same, so that a table is written when all of its rows are known.

use std::mem;

use super::Reader;
use super::looks::Ground;
use crate::color::Color;
use crate::writer::{Rows, Span, Writer};

/// Cells of a row whose places are known.
const MAX_CELLS: usize = 1000;
/// Edges that are closer to each other are one, in twentieths of a point: a millimetre.
const SAME_EDGE: i32 = 57;

/// How a cell is defined.
#[derive(Clone, Copy, Debug, Default)]
struct Definition {
    right: i32,
    /// It belongs to the cell before it, or to the one above it.
    is_covered: bool,
    is_below: bool,
    /// Cells below may belong to it.
    is_top: bool,
    ground: Ground,
}

/// A row: where it begins, its cells, and their texts.
#[derive(Debug, Default)]
struct TableRow {
    left: i32,
    cells: Vec<Definition>,
    texts: Vec<String>,
}

/// The table that is open, if one is.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<TableRow>,
    /// Bytes of the texts in its rows.
    bytes: usize,
    /// The definition that rows have from here on, and the cell that is defined.
    left: i32,
    cells: Vec<Definition>,
    cell: Definition,
    /// The texts of the row that is read, and where text goes behind its cell.
    texts: Vec<String>,
    outer: Option<Writer>,
    /// What stands between the cells of a table within the cell, if one has ended.
    separator: Option<&'static str>,
    /// Whether the row that is read is defined already.
    is_defined: bool,
    ground: Ground,
    /// Whether a cell of the row has another colour than white.
    is_shaded: bool,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.bytes + self.outer.as_ref().map_or(0, Writer::len)
    }

    pub(super) fn define_row(&mut self) {
        (self.left, self.cell) = (0, Definition::default());
        (self.is_defined, self.is_shaded, self.ground) = (true, false, Ground::default());
        self.cells.clear();
    }

    /// What is behind the cell that is defined.
    pub(super) fn cell_ground(&mut self) -> &mut Ground {
        &mut self.cell.ground
    }

    /// What is behind the row.
    pub(super) fn row_ground(&mut self) -> &mut Ground {
        &mut self.ground
    }

    /// What is behind the cell that is read. A row may be defined behind its cells, or be like the one before it.
    pub(super) fn ground(&self) -> Color {
        let cell = self.cells.get(self.texts.len()).filter(|_| self.is_defined);
        match cell.map(|cell| cell.ground.color()) {
            Some(known @ Color::Known(..)) => known,
            _ if self.is_shaded || self.ground.is_shaded() || self.cells.is_empty() => Color::Unknown,
            _ => Color::Transparent,
        }
    }

    pub(super) fn set_left(&mut self, left: i32) {
        self.left = left;
    }

    pub(super) fn merge(&mut self, word: &str) {
        match word {
            "clmrg" => self.cell.is_covered = true,
            "clvmgf" => self.cell.is_top = true,
            "clvmrg" => self.cell.is_below = true,
            // The first of several: those that follow say that they are covered.
            _ => {}
        }
    }

    pub(super) fn define_cell(&mut self, right: i32) {
        let cell = mem::take(&mut self.cell);
        self.is_shaded |= cell.ground.is_shaded();
        if self.cells.len() < MAX_CELLS {
            self.cells.push(Definition { right, ..cell });
        }
    }

    /// Writes the rows.
    fn write(&mut self, writer: &mut Writer) {
        self.bytes = 0;
        let rows = mem::take(&mut self.rows);
        if rows.is_empty() {
            return;
        }
        let edges = edges(&rows);
        // The column that begins at an edge.
        let column = |edge: i32| edges.partition_point(|known| *known <= edge).saturating_sub(1);
        writer.begin_table();
        for row in rows {
            writer.row();
            let (mut left, mut free) = (row.left, 0);
            let mut definitions = row.cells.into_iter().peekable();
            let mut texts = row.texts.into_iter();
            while let Some(mut text) = texts.next() {
                // Cells that are not defined stand side by side.
                let Some(definition) = definitions.next() else {
                    writer.cell(Span::ONE);
                    writer.text(&text);
                    continue;
                };
                let mut right = definition.right;
                while let Some(covered) = definitions.next_if(|next| next.is_covered) {
                    right = covered.right;
                    let more = texts.next().unwrap_or_default();
                    text.extend([" ", &more]);
                }
                let first = column(left).max(free);
                let columns = column(right).saturating_sub(first).max(1);
                (left, free) = (right, first + columns);
                writer.skip_to_column(first);
                match definition.is_below {
                    true => writer.cell_below(columns),
                    false => {
                        let rows = if definition.is_top { Rows::Open } else { Rows::Count(1) };
                        writer.cell(Span { columns, rows });
                    }
                }
                writer.text(text.trim());
            }
        }
        writer.end_table();
    }
}

/// The places where cells begin and end, from the left. Of those that are one the first counts.
fn edges(rows: &[TableRow]) -> Vec<i32> {
    let rights = rows.iter().flat_map(|row| &row.cells).map(|cell| cell.right);
    let mut edges: Vec<i32> = rows.iter().map(|row| row.left).chain(rights).collect();
    edges.sort_unstable();
    edges.dedup_by(|edge, first| edge.saturating_sub(*first) <= SAME_EDGE);
    edges
}

impl Reader {
    /// Begins the cell that text is in. Text that is in none ends the table.
    pub(super) fn begin_cell(&mut self) {
        if !self.outer.is_empty() {
            return;
        }
        if !self.group.paragraph.in_table {
            return self.end_table();
        }
        if self.table.outer.is_none() {
            self.table.outer = Some(mem::take(&mut self.writer));
        }
        if let Some(separator) = self.table.separator.take().filter(|_| self.group.paragraph.is_inner) {
            self.writer.text(separator);
        }
    }

    pub(super) fn end_cell(&mut self) {
        (self.has_begun, self.has_white) = (false, false);
        if !self.outer.is_empty() {
            return;
        }
        self.table.separator = None;
        let text = match self.table.outer.take() {
            Some(outer) => mem::replace(&mut self.writer, outer).finish(),
            None => String::new(),
        };
        self.table.bytes += text.len();
        self.table.texts.push(text.trim().to_owned());
    }

    /// Ends a cell or a row of a table within the cell, which is a part of its text.
    pub(super) fn end_inner(&mut self, separator: &'static str) {
        self.has_begun = false;
        if self.table.outer.is_some() {
            self.table.separator = Some(separator);
        }
    }

    pub(super) fn end_row(&mut self) {
        if self.table.outer.is_some() {
            self.end_cell();
        }
        self.has_begun = false;
        let texts = mem::take(&mut self.table.texts);
        self.table.is_defined = false;
        if self.outer.is_empty() && !texts.is_empty() {
            let cells = self.table.cells.iter().take(texts.len()).copied().collect();
            self.table.rows.push(TableRow { left: self.table.left, cells, texts });
        }
    }

    pub(super) fn end_table(&mut self) {
        if self.table.outer.is_some() || !self.table.texts.is_empty() {
            self.end_row();
        }
        self.table.write(&mut self.writer);
    }
}
