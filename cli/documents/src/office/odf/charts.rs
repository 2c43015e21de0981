//! Charts of OpenDocument: each has the numbers that it shows as a table of its own. Its axes and series say what they are.

use std::collections::{HashMap, HashSet};

use super::CONTENT;
use super::body::values;
use crate::office::chart::write_rows;
use crate::office::xlsx::show;
use crate::package::xml::{self, Element, Piece};
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

/// What numbers are, by the style of their data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Number,
    Percent,
    Date,
    DateWithTime,
}

/// A cell of the table of a chart.
#[derive(Debug, Default)]
struct Cell {
    text: String,
    is_number: bool,
}

/// A chart while it is read.
#[derive(Debug, Default)]
struct Reader {
    is_chart: bool,
    title: String,
    /// Titles that are open: of the chart and of axes. Whether the next text begins one.
    in_title: bool,
    begins_title: bool,
    /// The kinds of data by their styles, the styles of data by those of the chart, and the style that is read.
    kinds: HashMap<String, Kind>,
    data_styles: HashMap<String, String>,
    style: String,
    /// Styles of charts whose axis shows shares of a sum: its numbers are not those of the series.
    shares: HashSet<String>,
    is_of_shares: bool,
    /// The kinds of the axes by their names, and of the columns of the table.
    axes: HashMap<String, Kind>,
    columns: Vec<Kind>,
    /// The series that is read, and how many numbers its points stand for.
    series: Kind,
    domains: usize,
    in_table: bool,
    in_text: bool,
    /// Groups of labels stand in a list beside their text.
    in_list: bool,
    rows: Vec<Vec<Cell>>,
    row: Vec<Cell>,
    cell: Option<Cell>,
}

impl Chart {
    /// Reads a chart, if it is one and has numbers: other objects have tables, too. What comes before damage counts.
    pub(super) fn read(text: &str) -> Option<Chart> {
        let mut reader = Reader::default();
        let _ = xml::read(CONTENT, text, |piece| {
            match piece {
                Piece::Start(element) => reader.start(&element),
                Piece::End(name) => reader.end(&name),
                Piece::Text(text) => reader.text(&text),
            }
            Ok(())
        });
        let Reader { is_chart, title, columns, rows, .. } = reader;
        // Where rows have more columns than the chart names, such as errors, none is known.
        let is_known = rows.iter().all(|row| row.len() == columns.len());
        let shown = |(column, cell): (usize, Cell)| match columns.get(column).filter(|_| is_known) {
            Some(kind) if cell.is_number => kind.show(cell.text),
            _ => cell.text,
        };
        let rows: Vec<Vec<String>> =
            rows.into_iter().map(|row| row.into_iter().enumerate().map(shown).collect()).collect();
        let has_numbers = rows.iter().any(|row| row.iter().skip(1).any(|text| !text.is_empty()));
        (is_chart && has_numbers).then_some(Chart { title, rows })
    }

    pub(super) fn write(self, writer: &mut Writer) {
        write_rows(&self.title, self.rows, writer);
    }
}

impl Kind {
    fn show(self, text: String) -> String {
        let code = match (self, text.parse::<f64>()) {
            (Kind::Percent, Ok(_)) => return values::percent(&text),
            (Kind::Date, Ok(number)) => ("yyyy-mm-dd", number),
            (Kind::DateWithTime, Ok(number)) => ("yyyy-mm-dd hh:mm", number),
            _ => return text,
        };
        show(code.0, code.1, false)
    }
}

impl Reader {
    fn start(&mut self, element: &Element) {
        let value = |name: &str| element.attribute(name);
        let style_name = || element.attribute_of("style:name").unwrap_or_default();
        match element.name.as_str() {
            "percentage-style" => _ = self.kinds.insert(style_name(), Kind::Percent),
            "date-style" => {
                self.style = style_name();
                self.kinds.insert(self.style.clone(), Kind::Date);
            }
            "time-style" => self.style.clear(),
            "hours" => {
                let kind = self.kinds.get_mut(&self.style);
                kind.into_iter().for_each(|kind| *kind = Kind::DateWithTime);
            }
            "style" => {
                self.style = style_name();
                self.data_styles.extend(value("data-style-name").map(|data| (self.style.clone(), data)));
            }
            "chart-properties" if value("percentage").is_some_and(|value| value == "true") => {
                self.shares.insert(self.style.clone());
            }
            "chart" => self.is_chart = true,
            "plot-area" => {
                self.is_of_shares = value("style-name").is_some_and(|style| self.shares.contains(&style));
            }
            "axis" => {
                let kind = self.kind(element);
                let name = element.attribute_of("chart:name").unwrap_or_default();
                if name == "primary-x" {
                    self.columns = vec![kind];
                }
                self.axes.insert(name, kind);
            }
            "series" => {
                let axis = value("attached-axis").unwrap_or_else(|| "primary-y".to_owned());
                let of_axis = self.axes.get(&axis).copied().filter(|_| !self.is_of_shares);
                let own = self.kind(element);
                self.series = if own == Kind::Number { of_axis.unwrap_or_default() } else { own };
                self.domains = 0;
            }
            "domain" => self.domains += 1,
            "title" | "subtitle" => (self.in_title, self.begins_title) = (true, true),
            "table" => self.in_table = true,
            "table-cell" => {
                let is_number = element.attribute_of("office:value-type").is_some_and(|kind| kind == "float");
                self.cell = Some(Cell { text: String::new(), is_number });
            }
            "list" => self.in_list = true,
            "p" => {
                self.in_text = !self.in_list;
                self.cell.iter_mut().filter(|_| !self.in_list).for_each(|cell| cell.text.push(' '));
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "p" => self.in_text = false,
            "list" => self.in_list = false,
            "title" | "subtitle" => self.in_title = false,
            "table" => self.in_table = false,
            // The column of the numbers that points stand for is before that of the points.
            "series" if self.columns.len() < MAX_COLUMNS => {
                let of_axis = self.columns.first().copied().filter(|_| self.domains == 1);
                self.columns.extend(vec![of_axis.unwrap_or_default(); self.domains.min(MAX_COLUMNS)]);
                self.columns.push(self.series);
            }
            "table-cell" if self.row.len() < MAX_COLUMNS => {
                let Some(Cell { text, is_number }) = self.cell.take() else { return };
                // A point without a value is no number.
                let text = if text.trim() == "NaN" { "" } else { text.trim() };
                self.row.push(Cell { text: text.to_owned(), is_number });
            }
            "table-row" if self.in_table && self.rows.len() < MAX_ROWS => {
                self.rows.push(std::mem::take(&mut self.row));
            }
            _ => {}
        }
    }

    /// Cells have descriptions beside their text.
    fn text(&mut self, text: &str) {
        match &mut self.cell {
            _ if !self.in_text => {}
            Some(cell) => cell.text.push_str(text),
            None if self.in_title && self.title.len() < MAX_TITLE => {
                let begins = std::mem::take(&mut self.begins_title) && !self.title.is_empty();
                self.title.extend([if begins { "; " } else { "" }, text]);
            }
            None => {}
        }
    }

    /// The kind of the data of an axis or a series.
    fn kind(&self, element: &Element) -> Kind {
        let style = element.attribute_of("chart:style-name");
        let data = style.and_then(|style| self.data_styles.get(&style));
        data.and_then(|data| self.kinds.get(data)).copied().unwrap_or_default()
    }
}
