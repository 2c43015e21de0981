//! Tables that go on over a page, or below a gap: where the columns are, so that later values stay in theirs.

use super::super::words::{Cell, Row};
use super::{Column, Places, headers, over};

/// Cells of a column begin or end within this of each other, in sizes of the font.
const SAME_PLACE: f64 = 0.15;
/// Sizes of the same table differ by less than this share.
const SAME_SIZE: f64 = 0.03;
/// What goes on with a table is not farther below it than this, in sizes of the font.
const GAP: f64 = 8.0;
/// It has so many columns, and numbers in them. Where there are fewer, each value has its place.
const COLUMNS: usize = 3;
/// Ends of cells that are kept for a column.
const MAX_ENDS: usize = 1_000;

/// The columns of a table at the end of a page.
#[derive(Clone, Debug)]
pub(in super::super::super) struct Carried {
    pub(super) columns: Vec<Column>,
    /// What is in each column.
    contents: Vec<Contents>,
    size: f64,
    turn: i16,
    bottom: f64,
    /// Whether its columns have names, and numbers below.
    has_header: bool,
}

/// What is in a column.
#[derive(Clone, Debug, Default)]
struct Contents {
    /// Where its cells begin and end.
    ends: Vec<(f64, f64)>,
    /// How many of them are amounts, and how many are not.
    amounts: usize,
    others: usize,
}

impl Carried {
    /// The table of these rows, if its last row is the last of them. It may go on with another one.
    pub(super) fn of(
        rows: &[Row],
        places: &[Option<Places>],
        columns: &[Column],
        before: Option<&Carried>,
    ) -> Option<Carried> {
        let last = rows.last()?;
        let places_of_last = places.last()?.as_ref()?;
        // Where the table has not all columns of its group, they are counted in another way.
        if places_of_last.first != 0 || places_of_last.columns != columns.len() {
            return None;
        }
        let mut contents =
            before.map_or_else(|| vec![Contents::default(); columns.len()], |before| before.contents.clone());
        for (row, places) in rows.iter().zip(places) {
            let Some(places) = places else { continue };
            for (cell, place) in row.cells.iter().zip(&places.cells) {
                let Contents { ends, amounts, others } = contents.get_mut(place + places.first)?;
                if ends.len() < MAX_ENDS {
                    ends.push((cell.left, cell.right));
                    *(if is_amount(&cell.text) { amounts } else { others }) += 1;
                }
            }
        }
        let first = places.iter().position(Option::is_some).unwrap_or_default();
        let is_header = rows[first].cells.len() >= COLUMNS && headers::is_header(&rows[first]);
        let has_header = is_header && headers::are_numbers(&rows[first + 1..])
            || before.is_some_and(|before| before.has_header);
        let (size, turn, bottom) = (last.size, last.turn, last.bottom);
        Some(Carried { columns: columns.to_vec(), contents, size, turn, bottom, has_header })
    }

    /// Whether these rows go on with the table above them on the page, which has names of its columns. Behind the first cell of
    /// each there are amounts in columns of amounts, and other text in others; there is an amount in one of them at least.
    pub(super) fn goes_on(&self, rows: &[Row]) -> bool {
        let has_amounts = |column: usize| self.contents[column].amounts >= self.contents[column].others;
        let is_like_column = |cell: &Cell, row: &Row| {
            let (column, _) = over(&self.columns, cell, row.size);
            column.is_some_and(|column| has_amounts(column) == is_amount(&cell.text))
        };
        let divided = || rows.iter().filter(|row| row.cells.len() > 1);
        let is_near = (0.0..GAP * self.size).contains(&(self.bottom - rows[0].y));
        self.has_header
            && is_near
            && self.are_in_columns(rows)
            && divided().all(|row| row.cells[1..].iter().all(|cell| is_like_column(cell, row)))
            && divided().any(|row| row.cells[1..].iter().any(|cell| is_amount(&cell.text)))
    }

    /// Whether these rows go on with the table: each of their cells begins or ends where cells of a column do.
    pub(super) fn is_continued(&self, rows: &[Row]) -> bool {
        let divided = || rows.iter().filter(|row| row.cells.len() > 1);
        let numbers = |row: &Row| {
            row.cells[1..].iter().filter(|cell| cell.text.contains(|c: char| c.is_ascii_digit())).count()
        };
        (divided().count() > 1 || divided().any(|row| numbers(row) > 1)) && self.are_in_columns(rows)
    }

    fn are_in_columns(&self, rows: &[Row]) -> bool {
        let is_near = |a: f64, b: f64| (a - b).abs() < SAME_PLACE * self.size;
        let is_in_column = |cell: &Cell, row: &Row| match over(&self.columns, cell, row.size) {
            (Some(column), None) => self.contents[column]
                .ends
                .iter()
                .any(|(left, right)| is_near(*left, cell.left) || is_near(*right, cell.right)),
            _ => false,
        };
        let mut divided = rows.iter().filter(|row| row.cells.len() > 1).peekable();
        let is_alike =
            |row: &Row| row.turn == self.turn && (row.size - self.size).abs() < SAME_SIZE * self.size;
        divided.peek().is_some()
            && divided.all(|row| is_alike(row) && row.cells.iter().all(|cell| is_in_column(cell, row)))
    }
}

/// Whether a text is an amount: digits and signs, but no date.
fn is_amount(text: &str) -> bool {
    let is_date = text.matches(['.', '/', '-']).count() > 1 && !text.contains([',', ' ']) && text.len() >= 8;
    text.contains(|c: char| c.is_ascii_digit()) && !text.contains(char::is_alphabetic) && !is_date
}
