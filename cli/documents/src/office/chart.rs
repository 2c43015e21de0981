//! Charts of Office: the numbers that they show, as a table.

use std::collections::{BTreeMap, BTreeSet};

use super::xlsx::show;
use crate::package::xml::{self, Element, Piece};
use crate::writer::{Span, Writer};

/// Points of a series that are read, and series of a chart.
const MAX_POINTS: usize = 10_000;
const MAX_SERIES: usize = 200;
/// Levels of groups of points, and characters of their names, which each point of a group has.
const MAX_LEVELS: usize = 8;
const MAX_GROUP: usize = 200;
/// Characters of the name of a series where each of its points has it.
const MAX_NAME: usize = 200;

/// What a chart shows.
#[derive(Debug, Default)]
pub(super) struct Chart {
    /// Its title, and those of its axes.
    title: String,
    series: Vec<Series>,
    /// Whether its points stand for numbers that each series has for itself.
    is_scatter: bool,
}

/// A line, or bars of one colour: its name, and what its points stand for with their values.
#[derive(Debug, Default)]
struct Series {
    name: String,
    /// The labels of the points, and of groups of points by their first ones, the innermost first.
    labels: Vec<BTreeMap<usize, String>>,
    values: BTreeMap<usize, String>,
    /// Sizes of bubbles.
    sizes: BTreeMap<usize, String>,
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
    Size,
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

    /// Whether points of a scatter chart stand for something else in another series.
    fn has_own_labels(&self) -> bool {
        let Some((first, others)) = self.series.split_first().filter(|_| self.is_scatter) else {
            return false;
        };
        others.iter().any(|series| {
            let is_other = |point: &usize| {
                let labels = series.label(*point).zip(first.label(*point));
                labels.is_some_and(|(own, of_first)| own != of_first)
            };
            series.values.keys().any(is_other)
        })
    }

    /// Writes the chart: a row for each label, a column for each series. Where series have labels of their own, as in
    /// scatter charts, each point has a row: its series, its label and its value.
    pub(super) fn write(&self, writer: &mut Writer) {
        let mut rows = Vec::new();
        if self.has_own_labels() {
            rows.push(["", "x", "y"].map(str::to_owned).to_vec());
            for series in &self.series {
                let row = |point: &usize| {
                    let [label, value] =
                        [series.label(*point), series.value(*point)].map(Option::unwrap_or_default);
                    vec![series.name.chars().take(MAX_NAME).collect(), label, value]
                };
                rows.extend(series.values.keys().map(row));
            }
        } else {
            let names = self.series.iter().map(|series| series.name.clone());
            rows.push(std::iter::once(String::new()).chain(names).collect());
            let points: BTreeSet<usize> =
                self.series.iter().flat_map(|series| series.values.keys().copied()).collect();
            for point in points {
                let label = self.series.iter().find_map(|series| series.label(point));
                let values = self.series.iter().map(|series| series.value(point));
                rows.push(std::iter::once(label).chain(values).map(Option::unwrap_or_default).collect());
            }
        }
        write_rows(&self.title, rows, writer);
    }
}

impl Series {
    /// What a point stands for: the groups it is in, and its own label.
    fn label(&self, point: usize) -> Option<String> {
        let (own, groups) = self.labels.split_first()?;
        let own = own.get(&point).and_then(|label| shown(label, &self.label_code));
        let group = |labels: &BTreeMap<usize, String>| {
            labels.range(..=point).next_back().map(|(_, label)| label.chars().take(MAX_GROUP).collect())
        };
        let parts: Vec<String> = groups.iter().rev().map(group).chain([own]).flatten().collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    }

    fn value(&self, point: usize) -> Option<String> {
        let value = shown(self.values.get(&point)?, &self.value_code)?;
        let size = self.sizes.get(&point).map(|size| format!(" (size {size})"));
        Some(value + &size.unwrap_or_default())
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
    /// Begins the labels of points, or those of the groups around them.
    fn begin_labels(&mut self, is_first: bool) {
        let Some(series) = self.chart.series.last_mut() else { return };
        if is_first {
            series.labels.clear();
        }
        if series.labels.len() < MAX_LEVELS && series.labels.last().is_none_or(|labels| !labels.is_empty()) {
            series.labels.push(BTreeMap::new());
        }
    }

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
            "cat" | "xVal" => {
                self.field = Field::Label;
                self.chart.is_scatter |= element.name == "xVal";
                self.begin_labels(true);
            }
            "lvl" if self.field == Field::Label => self.begin_labels(false),
            "val" | "yVal" => self.field = Field::Value,
            "bubbleSize" => self.field = Field::Size,
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
            "tx" | "cat" | "xVal" | "val" | "yVal" | "bubbleSize" => self.field = Field::None,
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
                Field::None | Field::Name | Field::Size => {}
            }
            return;
        }
        let points = match self.field {
            Field::None => return,
            Field::Name => return series.name.push_str(text),
            Field::Label => match series.labels.last_mut() {
                Some(labels) => labels,
                None => return,
            },
            Field::Value => &mut series.values,
            Field::Size => &mut series.sizes,
        };
        if points.len() < MAX_POINTS {
            points.entry(self.point).or_default().push_str(text);
        }
    }
}
