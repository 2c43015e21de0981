//! Heat maps.

use kurbo::Rect;

use crate::Chart;
use crate::axis::{Axis, Numbers, Ruler, number};
use crate::drawing::{Align, Color, Drawing, Face, Stroke};
use crate::frame::{LINE_HEIGHT, MARGIN, MAX_NAME_WIDTH, draw_title, left_out};
use crate::style::contrast;
use crate::text::{clean, fitted, shortened, wrapped};

/// Maximum number of rows and of columns.
const MAX_CELLS: usize = 64;
const CELL_HEIGHT: f64 = 30.0;
/// Between two cells.
const CELL_GAP: f64 = 1.5;
/// Lines of a column's name.
const NAME_LINES: usize = 3;
/// Of the scale at the right.
const SCALE_WIDTH: f64 = 12.0;
const SCALE_STEPS: usize = 48;

/// A table of numbers with a background that is the darker, the larger the number is: such as recall by depth and length of the text.
///
/// At most 64 rows and 64 columns are drawn.
///
/// ```
/// use charts::{Chart, HeatMap, Numbers};
///
/// let map = HeatMap {
///     title: "Needles found".into(),
///     x_label: "tokens".into(),
///     y_label: "policy".into(),
///     columns: vec!["8k".into(), "32k".into()],
///     rows: vec!["razor".into(), "h2o".into()],
///     cells: vec![vec![Some(1.0), Some(0.97)], vec![Some(0.7), None]],
///     range: Some((0.0, 1.0)),
///     numbers: Numbers::Percent,
/// };
/// assert!(map.svg().contains(">97%</text>"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMap {
    /// What is shown, in at most two lines.
    pub title: String,
    /// What the columns are.
    pub x_label: String,
    /// What the rows are.
    pub y_label: String,
    /// Names of the columns, from left to right.
    pub columns: Vec<String>,
    /// Names of the rows, from top to bottom.
    pub rows: Vec<String>,
    /// Shape `(rows, columns)`. A cell without a value has a dash.
    pub cells: Vec<Vec<Option<f64>>>,
    /// Smallest and largest value that the scale has at least.
    pub range: Option<(f64, f64)>,
    /// How numbers are written.
    pub numbers: Numbers,
}

impl HeatMap {
    fn axis(&self) -> Axis {
        Axis { range: self.range, numbers: self.numbers, ..Axis::default() }
    }

    fn value(&self, row: usize, column: usize) -> Option<f64> {
        let value = self.cells.get(row)?.get(column).copied().flatten();
        value.filter(|value| self.axis().shows(*value))
    }

    fn description(&self) -> String {
        format!("Heat map: {} in rows, {} in columns.", clean(&self.y_label), clean(&self.x_label))
    }
}

impl Chart for HeatMap {
    fn drawing(&self) -> Drawing {
        let mut drawing = Drawing::new(&clean(&self.title), self.description());
        let longest = self.cells.iter().map(Vec::len).max().unwrap_or(0);
        let all = (self.rows.len().max(self.cells.len()), self.columns.len().max(longest));
        let (rows, columns) = (all.0.min(MAX_CELLS), all.1.min(MAX_CELLS));
        let values: Vec<f64> = (0..rows)
            .flat_map(|row| (0..columns).filter_map(move |column| self.value(row, column)))
            .collect();
        let ruler = Ruler::new(&self.axis(), values.iter().copied(), 4);
        let step = cell_step(&ruler);
        let text = |value: f64| number(value, step, self.numbers);

        let row_names: Vec<String> = self
            .rows
            .iter()
            .take(rows)
            .map(|name| shortened(&clean(name), Face::NAME, MAX_NAME_WIDTH))
            .collect();
        let names = row_names.iter().map(|name| Face::NAME.width(name)).fold(0.0, f64::max);
        let numbers = values.iter().map(|value| Face::NAME.width(&text(*value))).fold(0.0, f64::max);
        let width = self.cell_width(columns, numbers);
        let left = MARGIN + if names > 0.0 { names + 10.0 } else { 0.0 };
        let right = left + columns as f64 * width;
        let scale_left = right + 22.0;
        // A small map is as wide as a title of some words.
        let title = Face::TITLE.width(&drawing.title).clamp(80.0, 400.0);
        let total = (scale_left + SCALE_WIDTH + 6.0 + ruler.width(Face::DIM)).max(MARGIN + title);

        let mut top = draw_title(&mut drawing, total);
        let y_label = fitted(&clean(&self.y_label), Face::DIM, right - MARGIN);
        if !y_label.is_empty() {
            drawing.text(Face::DIM, Align::Left, (MARGIN, top + Face::DIM.size), &y_label);
            top += LINE_HEIGHT + 6.0;
        }
        let matrix = Rect::new(left, top, right, top + rows as f64 * CELL_HEIGHT);
        for row in 0..rows {
            let middle = top + (row as f64 + 0.5) * CELL_HEIGHT;
            let baseline = middle + Face::NAME.middle();
            if let Some(name) = row_names.get(row) {
                drawing.text(Face::NAME, Align::Right, (left - 10.0, baseline), name);
            }
            for column in 0..columns {
                let center = left + (column as f64 + 0.5) * width;
                let half = ((width - CELL_GAP) / 2.0, (CELL_HEIGHT - CELL_GAP) / 2.0);
                let cell = Rect::new(center - half.0, middle - half.1, center + half.0, middle + half.1);
                match self.value(row, column) {
                    Some(value) => {
                        let fill = shade(ruler.share(value));
                        drawing.rect(cell, Some(fill), None);
                        let face = Face { color: text_color(fill), ..Face::NAME };
                        drawing.text(face, Align::Center, (center, baseline), &text(value));
                    }
                    None => {
                        drawing.rect(cell.inset(-0.5), None, Some(Stroke::solid(Color::GRID, 1.0)));
                        drawing.text(Face::DIM, Align::Center, (center, baseline), "–");
                    }
                }
            }
        }
        let mut lines = 0;
        for (column, name) in self.columns.iter().take(columns).enumerate() {
            let center = left + (column as f64 + 0.5) * width;
            let names = wrapped(&clean(name), Face::NAME, width - 6.0, NAME_LINES);
            lines = lines.max(names.len());
            for (line, name) in names.iter().enumerate() {
                let y = matrix.y1 + 6.0 + Face::NAME.size + line as f64 * LINE_HEIGHT;
                drawing.text(Face::NAME, Align::Center, (center, y), name);
            }
        }
        let mut bottom = matrix.y1 + 6.0 + lines as f64 * LINE_HEIGHT;
        // In the middle, or from the left margin on if it is longer than the matrix.
        let x_label = fitted(&clean(&self.x_label), Face::DIM, right - MARGIN);
        if !x_label.is_empty() {
            bottom += LINE_HEIGHT + 2.0;
            let length = Face::DIM.width(&x_label);
            let x = (matrix.center().x - length / 2.0).min(right - length).max(MARGIN);
            drawing.text(Face::DIM, Align::Left, (x, bottom), &x_label);
        }
        let scale_height = matrix.height().clamp(90.0, 220.0);
        let scale = Rect::new(scale_left, top, scale_left + SCALE_WIDTH, top + scale_height);
        draw_scale(&mut drawing, scale, &ruler);
        bottom = bottom.max(scale.y1);
        let note = left_out(&[(all.0, MAX_CELLS, "rows"), (all.1, MAX_CELLS, "columns")]);
        let note = if values.is_empty() { "no data".to_owned() } else { note };
        if !note.is_empty() {
            bottom += LINE_HEIGHT;
            drawing.text(Face::DIM, Align::Left, (MARGIN, bottom), &note);
        }
        drawing.size = ((total + MARGIN).ceil(), (bottom + MARGIN).ceil());
        drawing
    }
}

impl HeatMap {
    /// Wide enough for numbers, and for names in several lines.
    fn cell_width(&self, columns: usize, numbers: f64) -> f64 {
        let names = self.columns.iter().take(columns).map(|name| Face::NAME.width(&clean(name)));
        let longest = names.fold(0.0, f64::max);
        // Few columns have room for long names.
        let room = if columns <= 8 { 90.0 } else { 60.0 };
        (numbers + 14.0).max(longest.min(room) + 8.0).clamp(44.0, 130.0)
    }
}

/// A scale with ticks, from light at its lower end to dark.
fn draw_scale(drawing: &mut Drawing, scale: Rect, ruler: &Ruler) {
    let step = scale.height() / SCALE_STEPS as f64;
    for index in 0..SCALE_STEPS {
        let y = scale.y1 - (index + 1) as f64 * step;
        let color = shade((index as f64 + 0.5) / SCALE_STEPS as f64);
        // Each step reaches below the one above it, so that no line is between them.
        let bottom = (y + 2.0 * step).min(scale.y1);
        drawing.rect(Rect::new(scale.x0, y, scale.x1, bottom), Some(color), None);
    }
    for tick in &ruler.ticks {
        let y = scale.y1 - ruler.share(tick.value) * scale.height();
        drawing.thin_line([(scale.x1, y), (scale.x1 + 3.0, y)], Color::DIM);
        let at = (scale.x1 + 6.0, y + Face::DIM.middle());
        drawing.text(Face::DIM, Align::Left, at, &tick.label);
    }
}

/// The colour of a share of the scale: from nearly white to dark blue, always darker.
fn shade(share: f64) -> Color {
    const STOPS: [(f64, f64, f64); 4] =
        [(245.0, 248.0, 252.0), (178.0, 206.0, 230.0), (78.0, 132.0, 180.0), (13.0, 48.0, 88.0)];
    let place = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let index = (place as usize).min(STOPS.len() - 2);
    let (from, to, part) = (STOPS[index], STOPS[index + 1], place - index as f64);
    let mix = |from: f64, to: f64| (from + part * (to - from)).round() as u8;
    Color(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

/// Black on light cells, and white on dark ones: whichever is read better, which is always well.
fn text_color(background: Color) -> Color {
    const BLACK: Color = Color(0, 0, 0);
    if contrast(BLACK, background) >= contrast(Color::WHITE, background) { BLACK } else { Color::WHITE }
}

/// How exact the numbers in cells are: about a hundredth of the range.
fn cell_step(ruler: &Ruler) -> f64 {
    let ticks = &ruler.ticks;
    let range = ticks[ticks.len() - 1].value - ticks[0].value;
    10f64.powf((range / 100.0).log10().round())
}
