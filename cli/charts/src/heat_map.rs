//! Heat maps.

use kurbo::Rect;

use crate::Chart;
use crate::axis::{Axis, Numbers, Ruler, number};
use crate::drawing::{Align, Color, Drawing, Face, Stroke};
use crate::frame::{LINE_HEIGHT, MARGIN, MAX_NAME_WIDTH, draw_names, draw_title, left_out};
use crate::style::contrast;
use crate::text::{clean, fitted, shortened};

/// Maximum number of rows and of columns.
const MAX_CELLS: usize = 64;
const CELL_HEIGHT: f64 = 30.0;
/// Width of a cell without a number.
const PLAIN_WIDTH: f64 = 20.0;
/// Between two cells.
const CELL_GAP: f64 = 1.5;
/// Between names of rows and cells.
const ROW_NAME_GAP: f64 = 10.0;
/// Between names of narrow columns.
const NAME_GAP: f64 = 8.0;
/// Between the cells and the scale.
const SCALE_GAP: f64 = 22.0;
/// Of the scale at the right.
const SCALE_WIDTH: f64 = 12.0;
const SCALE_STEPS: usize = 48;

/// A table of numbers on backgrounds. The larger a number is, the darker is its background.
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
///     is_plain: false,
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
    /// Cells without numbers, which are narrow: for many columns. The scale has the numbers.
    pub is_plain: bool,
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

    /// All rows and columns, also those that are too many.
    fn shape(&self) -> (usize, usize) {
        let longest = self.cells.iter().map(Vec::len).max().unwrap_or(0);
        (self.rows.len().max(self.cells.len()), self.columns.len().max(longest))
    }

    /// Wide enough for numbers of this width, and for names in several lines.
    fn cell_width(&self, columns: usize, numbers: f64) -> f64 {
        if self.is_plain {
            return PLAIN_WIDTH;
        }
        let names = self.columns.iter().take(columns).map(|name| Face::NAME.width(&clean(name)));
        let longest = names.fold(0.0, f64::max);
        // Few columns have room for long names.
        let room = if columns <= 8 { 90.0 } else { 60.0 };
        (numbers + 14.0).max(longest.min(room) + 8.0).clamp(44.0, 130.0)
    }

    fn draw_cells(
        &self,
        drawing: &mut Drawing,
        matrix: &Matrix,
        ruler: &Ruler,
        numbers: &[Vec<Option<String>>],
    ) {
        for (row, numbers) in numbers.iter().enumerate() {
            for (column, number) in numbers.iter().enumerate() {
                let cell = matrix.cell(row, column);
                let at = (cell.center().x, cell.center().y + Face::NAME.middle());
                match (number, self.value(row, column)) {
                    (Some(number), Some(value)) => {
                        let fill = shade(ruler.share(value));
                        drawing.rect(cell, Some(fill), None);
                        if self.is_plain {
                            continue;
                        }
                        let face = Face { color: text_color(fill), ..Face::NAME };
                        drawing.text(face, Align::Center, at, number);
                    }
                    _ => {
                        drawing.rect(cell.inset(-0.5), None, Some(Stroke::solid(Color::GRID, 1.0)));
                        drawing.text(Face::DIM, Align::Center, at, "–");
                    }
                }
            }
        }
    }
}

impl Chart for HeatMap {
    fn drawing(&self) -> Drawing {
        let all = self.shape();
        let (rows, columns) = (all.0.min(MAX_CELLS), all.1.min(MAX_CELLS));
        let values =
            || (0..rows).flat_map(move |row| (0..columns).map(move |column| self.value(row, column)));
        let ruler = Ruler::new(&self.axis(), values().flatten(), 4);
        let step = cell_step(&ruler);
        let text = |value: Option<f64>| value.map(|value| number(value, step, self.numbers));
        let numbers: Vec<Vec<Option<String>>> =
            (0..rows).map(|row| (0..columns).map(|column| text(self.value(row, column))).collect()).collect();
        let names = self.rows.iter().take(rows);
        let names: Vec<String> =
            names.map(|name| shortened(&clean(name), Face::NAME, MAX_NAME_WIDTH)).collect();

        let mut drawing = Drawing::new(&clean(&self.title), self.description());
        let cell_width = self.cell_width(columns, widest(numbers.iter().flatten().flatten()));
        let left = MARGIN + if names.is_empty() { 0.0 } else { widest(names.iter()) + ROW_NAME_GAP };
        let right = left + columns as f64 * cell_width;
        let scale_left = right + SCALE_GAP;
        // A small map is as wide as a title of some words.
        let title = Face::TITLE.width(&drawing.title).clamp(80.0, 400.0);
        let total = (scale_left + SCALE_WIDTH + 6.0 + ruler.width(Face::DIM)).max(MARGIN + title);

        let mut top = draw_title(&mut drawing, total);
        let y_label = fitted(&clean(&self.y_label), Face::DIM, right - MARGIN);
        if !y_label.is_empty() {
            drawing.text(Face::DIM, Align::Left, (MARGIN, top + Face::DIM.size), &y_label);
            top += LINE_HEIGHT + 6.0;
        }
        let matrix = Matrix { left, top, cell_width };
        for (row, name) in names.iter().enumerate() {
            let baseline = matrix.cell(row, 0).center().y + Face::NAME.middle();
            drawing.text(Face::NAME, Align::Right, (left - ROW_NAME_GAP, baseline), name);
        }
        self.draw_cells(&mut drawing, &matrix, &ruler, &numbers);
        let bottom = top + rows as f64 * CELL_HEIGHT;
        let scale_bottom = top + (bottom - top).clamp(90.0, 220.0);
        draw_scale(&mut drawing, Rect::new(scale_left, top, scale_left + SCALE_WIDTH, scale_bottom), &ruler);

        let names = self.columns.iter().take(columns).enumerate();
        let names = names.map(|(column, name)| (matrix.cell(0, column).center().x, name));
        let mut bottom = match self.is_plain {
            true => draw_names_that_fit(&mut drawing, names, (left, right), bottom + 6.0),
            false => draw_names(&mut drawing, names, cell_width - 6.0, bottom + 6.0),
        };
        let x_label = fitted(&clean(&self.x_label), Face::DIM, right - MARGIN);
        if !x_label.is_empty() {
            bottom += LINE_HEIGHT + 6.0;
            // In the middle, or from the left margin on if it is longer than the matrix.
            let length = Face::DIM.width(&x_label);
            let x = ((left + right - length) / 2.0).min(right - length).max(MARGIN);
            drawing.text(Face::DIM, Align::Left, (x, bottom), &x_label);
        }
        bottom = bottom.max(scale_bottom);
        let note = match values().flatten().next() {
            None => "no data".to_owned(),
            Some(_) => left_out(&[(all.0, MAX_CELLS, "rows"), (all.1, MAX_CELLS, "columns")]),
        };
        if !note.is_empty() {
            bottom += LINE_HEIGHT + 4.0;
            drawing.text(Face::DIM, Align::Left, (MARGIN, bottom), &note);
        }
        drawing.size = ((total + MARGIN).ceil(), (bottom + MARGIN).ceil());
        drawing
    }
}

/// Where cells are.
struct Matrix {
    left: f64,
    top: f64,
    cell_width: f64,
}

impl Matrix {
    fn cell(&self, row: usize, column: usize) -> Rect {
        let (x, y) = (self.left + column as f64 * self.cell_width, self.top + row as f64 * CELL_HEIGHT);
        Rect::new(x, y, x + self.cell_width, y + CELL_HEIGHT).inset(-CELL_GAP / 2.0)
    }
}

/// Draws names side by side in a line below `top`, as far as they have room between the ends, and returns where they
/// end.
fn draw_names_that_fit<'a>(
    drawing: &mut Drawing,
    names: impl Iterator<Item = (f64, &'a String)>,
    (mut free_from, end): (f64, f64),
    top: f64,
) -> f64 {
    let mut bottom = top;
    for (middle, name) in names {
        let name = clean(name);
        let width = Face::NAME.width(&name);
        let left = (middle - width / 2.0).max(free_from);
        let is_beside = left <= middle && left + width <= end;
        if name.is_empty() || !is_beside {
            continue;
        }
        bottom = top + Face::NAME.size;
        drawing.text(Face::NAME, Align::Left, (left, bottom), &name);
        free_from = left + width + NAME_GAP;
    }
    bottom
}

/// Width of the widest name or number.
fn widest<'a>(texts: impl Iterator<Item = &'a String>) -> f64 {
    texts.map(|text| Face::NAME.width(text)).fold(0.0, f64::max)
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
