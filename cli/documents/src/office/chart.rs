//! Charts of Office: the numbers that they show, as a table.

use std::collections::BTreeMap;

use super::xlsx::show;
use crate::package::xml::{self, Element, Piece};
use crate::writer::{Span, Writer};

/// Points of a series that are read, and series of a chart.
const MAX_POINTS: usize = 10_000;
const MAX_SERIES: usize = 200;

/// What a chart shows.
#[derive(Debug, Default)]
pub(super) struct Chart {
    /// Its title, and those of its axes.
    title: String,
    series: Vec<Series>,
}

/// A line, or bars of one colour: its name, and what its points stand for with their values.
#[derive(Debug, Default)]
struct Series {
    name: String,
    labels: BTreeMap<usize, String>,
    values: BTreeMap<usize, String>,
    /// The formats of those that are numbers.
    label_code: String,
    value_code: String,
}

/// What the text of a chart belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Field {
    #[default]
    None,
    Name,
    Label,
    Value,
}

#[derive(Default)]
struct Reader {
    chart: Chart,
    field: Field,
    point: usize,
    in_value: bool,
    in_code: bool,
    in_title: bool,
    begins_title: bool,
    begins_line: bool,
    in_text: bool,
    in_series: bool,
}

impl Chart {
    /// Reads a chart, if it has numbers.
    pub(super) fn read(text: &str, part: &str) -> Option<Chart> {
        let mut reader = Reader::default();
        // What comes before damage counts.
        let _ = xml::read(part, text, |piece| {
            match piece {
                Piece::Start(element) => reader.start(&element),
                Piece::End(name) => reader.end(&name),
                Piece::Text(text) => reader.text(&text),
            }
            Ok(())
        });
        let chart = reader.chart;
        chart.series.iter().any(|series| !series.values.is_empty()).then_some(chart)
    }

    /// Writes the chart: a row for each label, a column for each series.
    pub(super) fn write(&self, writer: &mut Writer) {
        let mut rows = vec![
            std::iter::once(String::new())
                .chain(self.series.iter().map(|series| series.name.clone()))
                .collect::<Vec<_>>(),
        ];
        let mut points: Vec<usize> =
            self.series.iter().flat_map(|series| series.values.keys().copied()).collect();
        points.sort_unstable();
        points.dedup();
        for point in points {
            let label =
                self.series.iter().find_map(|series| shown(series.labels.get(&point)?, &series.label_code));
            let values =
                self.series.iter().map(|series| shown(series.values.get(&point)?, &series.value_code));
            rows.push(std::iter::once(label).chain(values).map(Option::unwrap_or_default).collect());
        }
        write_rows(&self.title, rows, writer);
    }
}

/// Writes a chart with a title as a table of these rows.
pub(super) fn write_rows(title: &str, rows: Vec<Vec<String>>, writer: &mut Writer) {
    writer.paragraph();
    let title = title.trim();
    writer.text(&if title.is_empty() { "[chart]".to_owned() } else { format!("[chart: {title}]") });
    writer.begin_table();
    for row in rows {
        writer.row();
        for text in row {
            writer.cell(Span::ONE);
            writer.text(&text);
        }
    }
    writer.end_table();
}

/// A number in its format. Without a format it is a text.
fn shown(text: &str, code: &str) -> Option<String> {
    let number = text.trim().parse::<f64>().ok().filter(|_| !code.is_empty());
    Some(number.map_or_else(|| text.to_owned(), |number| show(code, number, false)))
}

impl Reader {
    fn start(&mut self, element: &Element) {
        match element.name.as_str() {
            "ser" if self.chart.series.len() < MAX_SERIES => {
                self.chart.series.push(Series::default());
                self.in_series = true;
            }
            // Axes have titles of their own.
            "title" => (self.in_title, self.begins_title) = (true, true),
            "p" => self.begins_line = true,
            "t" => self.in_text = self.in_title && !self.in_series,
            "tx" if self.in_series => self.field = Field::Name,
            "cat" | "xVal" => self.field = Field::Label,
            "val" | "yVal" => self.field = Field::Value,
            "pt" => self.point = element.attribute("idx").and_then(|at| at.parse().ok()).unwrap_or(0),
            "v" => self.in_value = self.in_series,
            "formatCode" => self.in_code = self.in_series,
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "ser" => self.in_series = false,
            "title" => self.in_title = false,
            "t" => self.in_text = false,
            "v" => self.in_value = false,
            "formatCode" => self.in_code = false,
            "tx" | "cat" | "xVal" | "val" | "yVal" => self.field = Field::None,
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.in_text && self.chart.title.len() < 1000 {
            let gap = match (std::mem::take(&mut self.begins_title), std::mem::take(&mut self.begins_line)) {
                _ if self.chart.title.is_empty() => "",
                (true, _) => "; ",
                (false, true) => " ",
                (false, false) => "",
            };
            self.chart.title.extend([gap, text]);
        }
        let Some(series) = self.chart.series.last_mut().filter(|_| self.in_value || self.in_code) else {
            return;
        };
        if self.in_code {
            match self.field {
                Field::Label => series.label_code.push_str(text),
                Field::Value => series.value_code.push_str(text),
                Field::None | Field::Name => {}
            }
            return;
        }
        let points = match self.field {
            Field::None => return,
            Field::Name => return series.name.push_str(text),
            Field::Label => &mut series.labels,
            Field::Value => &mut series.values,
        };
        if points.len() < MAX_POINTS {
            points.entry(self.point).or_default().push_str(text);
        }
    }
}
