//! Charts of OpenDocument: each has the numbers that it shows as a table of its own.

use super::CONTENT;
use crate::office::chart::write_rows;
use crate::package::xml::{self, Piece};
use crate::writer::Writer;

/// Rows and columns of a chart that are read, and bytes of its title.
const MAX_ROWS: usize = 10_000;
const MAX_COLUMNS: usize = 200;
const MAX_TITLE: usize = 1000;

/// What a chart shows.
#[derive(Debug, Default)]
pub(super) struct Chart {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Chart {
    /// Reads a chart, if it is one and has numbers: other objects have tables, too. What comes before damage counts.
    pub(super) fn read(text: &str) -> Option<Chart> {
        let (mut chart, mut row, mut cell) = (Chart::default(), Vec::new(), None::<String>);
        // Axes have titles, too. Cells have descriptions beside their text.
        let (mut in_title, mut in_axis, mut in_table, mut in_text) = (false, false, false, false);
        let mut is_chart = false;
        let _ = xml::read(CONTENT, text, |piece| {
            match piece {
                Piece::Start(element) => match element.name.as_str() {
                    "chart" => is_chart = true,
                    "title" => in_title = !in_axis,
                    "axis" => in_axis = true,
                    "table" => in_table = true,
                    "table-cell" => cell = Some(String::new()),
                    "p" => {
                        in_text = true;
                        cell.iter_mut().for_each(|cell| cell.push(' '));
                    }
                    _ => {}
                },
                Piece::End(name) => match name.as_str() {
                    "p" => in_text = false,
                    "title" => in_title = false,
                    "axis" => in_axis = false,
                    "table" => in_table = false,
                    "table-cell" if row.len() < MAX_COLUMNS => {
                        // A point without a value is no number.
                        let text = cell.take().map(|text| text.trim().to_owned());
                        row.extend(text.map(|text| if text == "NaN" { String::new() } else { text }));
                    }
                    "table-row" if in_table && chart.rows.len() < MAX_ROWS => {
                        chart.rows.push(std::mem::take(&mut row));
                    }
                    _ => {}
                },
                Piece::Text(text) if in_text => match &mut cell {
                    Some(cell) => cell.push_str(&text),
                    None if in_title && chart.title.len() < MAX_TITLE => chart.title.push_str(&text),
                    None => {}
                },
                Piece::Text(_) => {}
            }
            Ok(())
        });
        let has_numbers = chart.rows.iter().any(|row| row.iter().skip(1).any(|text| !text.is_empty()));
        (is_chart && has_numbers).then_some(chart)
    }

    pub(super) fn write(self, writer: &mut Writer) {
        write_rows(&self.title, self.rows, writer);
    }
}
