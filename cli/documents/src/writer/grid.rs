//! The grid of a table: which column a cell stands in when cells above or before it span several rows and columns.
//! Every format's tables go through it.

/// Columns of a table. Spreadsheets have up to so many.
const MAX_COLUMNS: usize = 16_384;
/// Cells that reach into the next row. Of a table with more, the others do not.
const MAX_HELD: usize = 500;
/// What stands in a cell of several rows is repeated in each of them. Of a longer text its beginning is, in bytes.
const MAX_REPEATED: usize = 80;

/// How many columns and rows a cell reaches over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Columns, at least 1.
    pub(crate) columns: usize,
    /// Rows, at least 1.
    pub(crate) rows: Rows,
}

/// The rows of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// So many.
    Count(usize),
    /// The cells below say whether they belong to it.
    Open,
}

impl Span {
    /// A cell of one row and one column.
    pub(crate) const ONE: Span = Span { columns: 1, rows: Rows::Count(1) };

    /// A cell of so many columns and rows. 0 counts as 1.
    pub(crate) fn new(columns: usize, rows: usize) -> Span {
        Span { columns: columns.max(1), rows: Rows::Count(rows.max(1)) }
    }
}

/// Columns that a cell above reaches into.
#[derive(Debug)]
struct Held {
    start: usize,
    end: usize,
    rows: Rows,
    text: String,
}

impl Held {
    /// The same so many rows further down, if the cell reaches as far.
    fn below(self, rows: usize) -> Option<Held> {
        match self.rows {
            Rows::Count(count) if count <= rows => None,
            Rows::Count(count) => Some(Held { rows: Rows::Count(count - rows), ..self }),
            Rows::Open => Some(self),
        }
    }
}

/// The state of a table between its cells. It grows with the cells, not with their spans.
#[derive(Debug, Default)]
pub(crate) struct Grid {
    /// The first column that is free.
    column: usize,
    /// Cells from above that are still ahead in this row, the nearest last.
    held: Vec<Held>,
    /// Cells that reach into the next row, in the order of their columns.
    next: Vec<Held>,
    /// Columns of this row whose text is that of a cell above, until they are written.
    repeated: Vec<(usize, String)>,
    /// Whether the current cell is the last of `next`.
    keeps_text: bool,
    /// Whether a cell does not reach as far as it should, so that those below may be in other columns.
    is_lost: bool,
}

impl Grid {
    /// Begins a row.
    pub(crate) fn row(&mut self) {
        self.end_row();
        self.held = std::mem::take(&mut self.next);
        self.held.reverse();
        self.repeated.clear();
        self.column = 0;
    }

    /// Places a cell in the first free columns, and returns the first of them.
    pub(crate) fn place(&mut self, span: Span) -> usize {
        self.pass_filled();
        let start = self.column;
        let mut end = start.saturating_add(span.columns).min(MAX_COLUMNS);
        while let Some(held) = self.held.pop_if(|held| held.start < end) {
            // A cell that is open below ends where another one begins. The others keep their columns.
            if held.rows != Rows::Open {
                end = held.start;
                self.held.push(held);
                break;
            }
        }
        self.column = end;
        let below = Held { start, end, rows: span.rows, text: String::new() }.below(1);
        // Behind the last column there is nothing to hold.
        let below = below.filter(|held| held.start < held.end);
        let has_room = self.next.len() < MAX_HELD;
        self.is_lost |= below.is_some() && !has_room;
        let below = below.filter(|_| has_room);
        self.keeps_text = below.is_some();
        self.next.extend(below);
        start
    }

    /// Places a cell that belongs to the one above it.
    pub(crate) fn place_below(&mut self, columns: usize) {
        self.pass_filled();
        match self.held.pop_if(|held| held.start == self.column) {
            Some(held) => self.pass(held),
            None => _ = self.place(Span::new(columns, 1)),
        }
    }

    /// Leaves the columns before this one empty. Cells that are open above end there.
    pub(crate) fn skip_to(&mut self, column: usize) {
        let column = column.min(MAX_COLUMNS);
        while let Some(held) = self.held.pop_if(|held| held.start < column) {
            if held.rows != Rows::Open {
                self.pass(held);
            }
        }
        self.column = self.column.max(column);
    }

    /// Passes rows of the document that are not written.
    pub(crate) fn pass_rows(&mut self, count: usize) {
        self.end_row();
        let next = std::mem::take(&mut self.next);
        self.next = next.into_iter().filter_map(|held| held.below(count)).collect();
    }

    /// Whether the rows below repeat the text of the current cell.
    pub(crate) fn keeps_text(&self) -> bool {
        self.keeps_text
    }

    /// The text of the current cell, which is complete.
    pub(crate) fn set_text(&mut self, text: &str) {
        if self.keeps_text
            && let Some(held) = self.next.last_mut()
        {
            held.text = beginning(text);
        }
        self.keeps_text = false;
    }

    /// Ends the row. Cells above may reach into columns behind its last cell.
    pub(crate) fn end_row(&mut self) {
        self.keeps_text = false;
        while let Some(held) = self.held.pop() {
            if held.rows != Rows::Open {
                self.pass(held);
            }
        }
    }

    /// Whether cells of the row may be in other columns.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Ends the cells that reach into the next row.
    pub(crate) fn end_group(&mut self) {
        self.is_lost = false;
        self.held.clear();
        self.next.clear();
    }

    /// The texts of cells above that stand in this row before a column, with their columns. Each is returned once.
    pub(crate) fn take_repeated(&mut self, before: usize) -> Vec<(usize, String)> {
        let count = self.repeated.iter().take_while(|(column, _)| *column < before).count();
        self.repeated.drain(..count).collect()
    }

    /// Passes the cells from above that fill the next columns.
    fn pass_filled(&mut self) {
        while let Some(held) = self
            .held
            .pop_if(|held| held.start < self.column || (held.start == self.column && held.rows != Rows::Open))
        {
            self.pass(held);
        }
    }

    fn pass(&mut self, held: Held) {
        self.column = self.column.max(held.end);
        if !held.text.is_empty() {
            self.repeated.push((held.start, held.text.clone()));
        }
        self.next.extend(held.below(1));
    }
}

/// The words that a text begins with, with a sign that others follow.
pub(crate) fn beginning(text: &str) -> String {
    if text.len() <= MAX_REPEATED {
        return text.to_owned();
    }
    let end = (0..=MAX_REPEATED).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let words = text[..end].rsplit_once(' ').map_or(&text[..end], |(words, _)| words);
    format!("{words} …")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(grid: &mut Grid, spans: &[Span]) -> Vec<usize> {
        grid.row();
        spans.iter().map(|span| grid.place(*span)).collect()
    }

    #[test]
    fn cells_are_placed_beside_those_that_reach_into_their_row() {
        let mut grid = Grid::default();
        let (wide, high) = (Span::new(2, 1), Span::new(1, 3));
        assert_eq!(columns(&mut grid, &[Span::ONE, high, wide, high]), [0, 1, 2, 4]);
        assert_eq!(columns(&mut grid, &[Span::ONE, Span::ONE, Span::ONE, Span::ONE]), [0, 2, 3, 5]);
        // A wide cell does not cover one from above.
        assert_eq!(columns(&mut grid, &[wide, wide, Span::ONE]), [0, 2, 5]);
        assert_eq!(columns(&mut grid, &[wide, wide, Span::ONE]), [0, 2, 4]);
    }

    #[test]
    fn cells_that_are_open_below_go_on_until_another_begins() {
        let mut grid = Grid::default();
        let open = Span { columns: 2, rows: Rows::Open };
        assert_eq!(columns(&mut grid, &[Span::ONE, open]), [0, 1]);
        grid.set_text("both");
        grid.row();
        grid.place(Span::ONE);
        grid.place_below(2);
        assert_eq!(grid.take_repeated(9), [(1, "both".to_owned())]);
        assert_eq!(grid.place(Span::ONE), 3);
        assert_eq!(columns(&mut grid, &[Span::ONE, Span::ONE, Span::ONE]), [0, 1, 2]);
    }

    #[test]
    fn spans_without_end_are_bounded() {
        let mut grid = Grid::default();
        let endless = Span::new(usize::MAX, usize::MAX);
        assert_eq!(columns(&mut grid, &[Span::ONE, endless, endless, Span::ONE]), [0, 1, 16_384, 16_384]);
        assert_eq!(columns(&mut grid, &[Span::ONE, Span::ONE]), [0, 16_384]);
    }
}
