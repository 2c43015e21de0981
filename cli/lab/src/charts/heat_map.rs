//! Heat maps.

use crate::charts::axis::{Axis, Numbers, Ruler, number};
use crate::charts::svg::{
    DARK, DIM, GRID, LINE, MARGIN, MAX_NAME, NAME, SMALL, Svg, WHITE, clean, shortened, width,
};

/// Most rows, and most columns.
const MAX_CELLS: usize = 64;
/// Height of a cell, and width of one without a number.
const CELL: f64 = 30.0;
const PLAIN: f64 = 20.0;
/// In how many steps the scale is drawn.
const STEPS: usize = 48;

/// A table of numbers on backgrounds. The larger a number is, the darker is its background. At most 64 rows and 64 columns are
/// drawn.
#[derive(Clone, Debug, Default)]
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
    /// The text of an SVG file.
    pub fn svg(&self) -> String {
        let axis = Axis { range: self.range, numbers: self.numbers, ..Axis::default() };
        let (rows, columns) = (self.rows.len().min(MAX_CELLS), self.columns.len().min(MAX_CELLS));
        let value = |row: usize, column: usize| {
            let value = self.cells.get(row)?.get(column).copied().flatten();
            value.filter(|value| axis.shows(*value))
        };
        let places = || (0..rows).flat_map(move |row| (0..columns).map(move |column| (row, column)));
        let ruler = Ruler::new(&axis, places().filter_map(|(row, column)| value(row, column)), 4);
        let names = self.rows.iter().take(rows).map(|name| shortened(&clean(name), NAME, MAX_NAME));
        let names: Vec<String> = names.collect();
        let widest = |texts: &[String]| texts.iter().map(|text| width(text, NAME)).fold(0.0, f64::max);
        let cell = if self.is_plain { PLAIN } else { (widest(&self.columns).min(90.0) + 8.0).max(60.0) };
        let left = MARGIN + widest(&names) + 10.0;
        let right = left + columns as f64 * cell;
        let mut svg = Svg::default();
        // A small map is as wide as a title of some words.
        let top = svg.title(&self.title, (right - MARGIN).max(400.0));
        let label = |text: &str| shortened(&clean(text), SMALL, (right - MARGIN).max(400.0));
        svg.text(&label(&self.y_label), (MARGIN, top + SMALL), 0.0, SMALL, DIM);
        let top = top + LINE + 6.0;
        for (row, name) in names.iter().enumerate() {
            svg.text(name, (left - 10.0, top + (row as f64 + 0.5) * CELL + 4.5), 1.0, NAME, DARK);
        }
        for (row, column) in places() {
            let (x, y) = (left + column as f64 * cell, top + row as f64 * CELL);
            let (from, to) = ((x + 0.75, y + 0.75), (x + cell - 0.75, y + CELL - 0.75));
            let middle = (x + cell / 2.0, y + CELL / 2.0 + 4.5);
            let share = value(row, column).map(|value| (value, ruler.share(value)));
            match share {
                None => {
                    svg.rect(from, to, "none", GRID);
                    svg.text("–", middle, 0.5, SMALL, DIM);
                }
                Some((value, share)) => {
                    svg.rect(from, to, &shade(share), "none");
                    let text = number(value, ruler.fine_step(), self.numbers);
                    let color = if share > 0.55 { WHITE } else { DARK };
                    svg.text(if self.is_plain { "" } else { &text }, middle, 0.5, NAME, color);
                }
            }
        }
        let bottom = top + rows as f64 * CELL;
        draw_scale(&mut svg, (right + 22.0, top), (bottom - top).clamp(90.0, 220.0), &ruler);
        let names = self.columns.iter().take(columns).enumerate();
        let names = names.map(|(column, name)| (left + (column as f64 + 0.5) * cell, name));
        match self.is_plain {
            false => svg.names(names, cell - 6.0, bottom + 6.0),
            true => {
                let mut free_from = 0.0;
                for (middle, name) in names {
                    let half = width(&clean(name), NAME) / 2.0;
                    if middle - half >= free_from && half > 0.0 {
                        svg.text(&clean(name), (middle, bottom + 6.0 + NAME), 0.5, NAME, DARK);
                        free_from = middle + half + 8.0;
                    }
                }
            }
        }
        svg.text(&label(&self.x_label), (left, svg.bottom + LINE), 0.0, SMALL, DIM);
        let counts = [(self.rows.len(), MAX_CELLS, "rows"), (self.columns.len(), MAX_CELLS, "columns")];
        let description = format!("{} in rows, {} in columns.", clean(&self.y_label), clean(&self.x_label));
        svg.finish(&self.title, &description, &counts)
    }
}

/// A scale with ticks, from light at its lower end to dark.
fn draw_scale(svg: &mut Svg, (x, top): (f64, f64), height: f64, ruler: &Ruler) {
    for index in 0..STEPS {
        // Each step reaches to the lower end, so that no line is between two.
        let y = top + height * (1.0 - (index + 1) as f64 / STEPS as f64);
        svg.rect(
            (x, y),
            (x + 12.0, y + height / STEPS as f64 + 0.5),
            &shade((index as f64 + 0.5) / STEPS as f64),
            "none",
        );
    }
    for (value, text) in &ruler.ticks {
        svg.text(text, (x + 18.0, top + (1.0 - ruler.share(*value)) * height + 4.3), 0.0, SMALL, DIM);
    }
}

/// The colour of a share of the scale: from nearly white to dark blue, always darker.
fn shade(share: f64) -> String {
    const STOPS: [[f64; 3]; 4] =
        [[245.0, 248.0, 252.0], [178.0, 206.0, 230.0], [78.0, 132.0, 180.0], [13.0, 48.0, 88.0]];
    let place = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let index = (place as usize).min(STOPS.len() - 2);
    let mix = |part: usize| {
        let (from, to) = (STOPS[index][part], STOPS[index + 1][part]);
        (from + (place - index as f64) * (to - from)).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}
