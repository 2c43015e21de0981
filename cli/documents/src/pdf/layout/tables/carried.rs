//! Tables that go on over a page: where the columns are, so that values of the next page stay in theirs.

use super::super::words::{Cell, Row};
use super::{Column, Places, over};

/// Cells of a column begin or end within this of each other, in sizes of the font.
const SAME_PLACE: f64 = 0.15;
/// Sizes of the same table differ by less than this share.
const SAME_SIZE: f64 = 0.03;
/// Ends of cells that are kept for a column.
const MAX_ENDS: usize = 1_000;

/// The columns of a table at the end of a page.
#[derive(Clone, Debug)]
pub(in super::super::super) struct Carried {
    pub(super) columns: Vec<Column>,
    /// Where cells of each column begin and end.
    ends: Vec<Vec<(f64, f64)>>,
    size: f64,
    turn: i16,
}

impl Carried {
    /// The table of these rows, if its last row is the last of them.
    pub(super) fn of(rows: &[Row], places: &[Option<Places>], columns: &[Column]) -> Option<Carried> {
        let last = rows.last()?;
        let places_of_last = places.last()?.as_ref()?;
        // Where the table has not all columns of its group, they are counted in another way.
        if places_of_last.first != 0 || places_of_last.columns != columns.len() {
            return None;
        }
        let mut ends = vec![Vec::new(); columns.len()];
        for (row, places) in rows.iter().zip(places) {
            let Some(places) = places else { continue };
            for (cell, place) in row.cells.iter().zip(&places.cells) {
                let ends: &mut Vec<(f64, f64)> = ends.get_mut(place + places.first)?;
                if ends.len() < MAX_ENDS {
                    ends.push((cell.left, cell.right));
                }
            }
        }
        Some(Carried { columns: columns.to_vec(), ends, size: last.size, turn: last.turn })
    }

    /// Whether these rows go on with the table: each of their cells begins or ends where cells of a column do.
    pub(super) fn is_continued(&self, rows: &[Row]) -> bool {
        let is_near = |a: f64, b: f64| (a - b).abs() < SAME_PLACE * self.size;
        let is_in_column = |cell: &Cell, row: &Row| match over(&self.columns, cell, row.size) {
            (Some(column), None) => self.ends[column]
                .iter()
                .any(|(left, right)| is_near(*left, cell.left) || is_near(*right, cell.right)),
            _ => false,
        };
        let divided = rows.iter().filter(|row| row.cells.len() > 1);
        let is_alike =
            |row: &Row| row.turn == self.turn && (row.size - self.size).abs() < SAME_SIZE * self.size;
        let numbers = |row: &Row| {
            row.cells[1..].iter().filter(|cell| cell.text.contains(|c: char| c.is_ascii_digit())).count()
        };
        let count = divided.clone().count();
        let are_rows = count > 1 || divided.clone().any(|row| numbers(row) > 1);
        are_rows
            && divided
                .clone()
                .all(|row| is_alike(row) && row.cells.iter().all(|cell| is_in_column(cell, row)))
    }
}
