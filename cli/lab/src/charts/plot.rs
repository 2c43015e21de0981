//! Lines over an axis, and bars in groups.

use std::iter;

use crate::charts::axis::{Axis, Numbers, Ruler, number};
use crate::charts::svg::{
    DARK, DIM, GRID, LINE, MARGIN, MAX_NAME, NAME, SMALL, Svg, WHITE, clean, shortened, width,
};

/// Width of the data where it needs no more, and height.
const WIDTH: f64 = 500.0;
const HEIGHT: f64 = 290.0;
/// Most groups of bars.
const MAX_GROUPS: usize = 24;
/// Between two bars, and between two marks of a line, which are 9 wide.
const GAP: f64 = 2.0;
const MARK_DISTANCE: f64 = 12.0;
/// Size of the numbers at bars.
const VALUE: f64 = 9.5;
/// Most lines: so many differ in dashes and mark. The colours are dark enough to be read in print, also without colour.
const MAX_LINES: usize = 12;
const COLORS: [&str; 6] = ["#24292f", "#0b5cad", "#b4420e", "#1a7348", "#7a3c9e", "#855f00"];
const DASHES: [&str; 4] = ["", "8 4", "2 3", "9 3 2 3"];
const MARKS: [&[(f64, f64)]; 5] = [
    &[(-3.1, -3.1), (3.1, -3.1), (3.1, 3.1), (-3.1, 3.1)],
    &[(0.0, -4.4), (4.1, 2.9), (-4.1, 2.9)],
    &[(0.0, -4.6), (4.6, 0.0), (0.0, 4.6), (-4.6, 0.0)],
    &[(0.0, 4.4), (4.1, -2.9), (-4.1, -2.9)],
    &[(-4.2, -1.6), (-1.6, -4.2), (1.6, -4.2), (4.2, -1.6), (4.2, 1.6), (1.6, 4.2), (-1.6, 4.2), (-4.2, 1.6)],
];
/// Bars of a group, from dark to light in turn, so that neighbours differ without colour.
const FILLS: [&str; 8] =
    ["#1f3f63", "#cbdae9", "#6f97bf", "#ffffff", "#3f6590", "#a9c3dd", "#8b5a2b", "#ecd9c2"];

/// A chart with two axes. Names are in a legend; those of lines are near their ends. At most 12 lines, or 24 groups of 8 bars,
/// are drawn.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What is shown, in at most two lines.
    pub title: String,
    /// Numbers, or groups of bars.
    pub x: X,
    /// The vertical axis.
    pub y: Axis,
    /// The lines, or the bars of one look.
    pub series: Vec<Series>,
    /// A name and a value to compare with: a horizontal line.
    pub reference: Option<(String, f64)>,
}

/// What is at the horizontal axis.
#[derive(Clone, Debug)]
pub enum X {
    /// Numbers, over which lines are drawn.
    Numbers(Axis),
    /// The names of groups of bars. Bars begin at 0, and have their values at their ends where there is room.
    Groups(Vec<String>),
}

/// A line, or the bars of one look.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// Points `(x, y)` in the units of the axes, connected in this order; `x` of a bar is the number of its group. What an axis
    /// cannot show is left out.
    pub points: Vec<(f64, f64)>,
    /// Half the length of the error bar at each point, in the unit of the vertical axis. A point without a number, or with
    /// one that is not above 0, has none. They end where [`Axis::range`] does.
    pub errors: Vec<f64>,
}

/// A point that is drawn: where it is at the horizontal axis, its value, and the ends of its error bar.
type Datum = (f64, f64, Option<[f64; 2]>);

/// A picture with its axes.
struct Canvas {
    svg: Svg,
    y: Ruler,
    left: f64,
    top: f64,
    width: f64,
    /// Names and where their samples are best, which the number of the series says how to draw.
    legend: Vec<(f64, String, Option<usize>)>,
}

impl Plot {
    /// The text of an SVG file.
    pub fn svg(&self) -> String {
        let (limit, groups) = match &self.x {
            X::Numbers(_) => (MAX_LINES, None),
            X::Groups(names) => (FILLS.len(), Some(names)),
        };
        let series: Vec<&Series> = self.series.iter().take(limit).collect();
        let points: Vec<Vec<Datum>> = series.iter().map(|series| self.points(series)).collect();
        let all = || points.iter().flatten();
        let zero = groups.map(|_| 0.0);
        let heights = all().flat_map(|(_, value, error)| error.iter().flatten().copied().chain([*value]));
        let heights = heights.chain(zero).chain(self.reference.as_ref().map(|(_, value)| *value));
        // The space between groups is as wide as a bar, and at least 16.
        let (count, shown) =
            (series.len().max(1), groups.map_or(1, |names| names.len().clamp(1, MAX_GROUPS)));
        let bar = (WIDTH / shown as f64 / (count + 1) as f64 - GAP).clamp(10.0, 40.0);
        let group = (count as f64 * (bar + GAP) + bar.max(16.0)).max((WIDTH / shown as f64).min(140.0));
        let width = if groups.is_some() { shown as f64 * group } else { WIDTH };
        let mut canvas = Canvas::new(&self.title, &self.y, heights, width);
        let (left, top, bottom) = (canvas.left, canvas.top, canvas.top + HEIGHT);
        match &self.x {
            X::Numbers(axis) => {
                let x = Ruler::new(axis, all().map(|(x, ..)| *x), 6);
                canvas.draw_numbers(&x, &axis.label);
                self.draw_reference(&mut canvas);
                for (index, points) in points.iter().enumerate() {
                    canvas.draw_line(index, points, &x);
                    let end = points.last().map_or(bottom, |(_, value, _)| canvas.height(*value));
                    canvas.legend.push((end, clean(&series[index].name), Some(index)));
                }
            }
            X::Groups(names) => {
                self.draw_reference(&mut canvas);
                // Values stand above all bars or above none.
                let fits = |(_, value, _): &Datum| canvas.fits(*value, self.y.numbers, bar + GAP);
                let numbers = all().all(fits).then_some(self.y.numbers);
                for (index, points) in points.iter().enumerate() {
                    let place = index as f64 - (count - 1) as f64 / 2.0;
                    let middle = |x: f64| left + (x + 0.5) * group + place * (bar + GAP);
                    canvas.draw_bars(FILLS[index], points, middle, bar, numbers);
                    canvas.legend.push((top + index as f64, clean(&series[index].name), Some(index)));
                }
                let names = names.iter().take(MAX_GROUPS).enumerate();
                let names = names.map(|(number, name)| (left + (number as f64 + 0.5) * group, name));
                canvas.svg.names(names, group - 8.0, bottom + 8.0);
            }
        }
        if all().next().is_none() {
            canvas.svg.text("no data", (left + width / 2.0, top + HEIGHT / 2.0), 0.5, NAME, DARK);
        }
        canvas.draw_legend(groups.is_some());
        let names: Vec<String> = series.iter().map(|series| clean(&series.name)).collect();
        let description = format!("{}: {}.", clean(&self.y.label), names.join("; "));
        let groups = groups.map_or(0, Vec::len);
        canvas.svg.finish(
            &self.title,
            &description,
            &[(self.series.len(), limit, "series"), (groups, MAX_GROUPS, "groups")],
        )
    }

    fn points(&self, series: &Series) -> Vec<Datum> {
        let is_shown = |x: f64| match &self.x {
            X::Numbers(axis) => axis.shows(x),
            X::Groups(names) => (0.0..names.len().min(MAX_GROUPS) as f64).contains(&x),
        };
        let points = series.points.iter().zip(series.errors.iter().copied().chain(iter::repeat(0.0)));
        let points = points.filter(|((x, value), _)| is_shown(*x) && self.y.shows(*value));
        points.map(|((x, value), error)| (*x, *value, self.y.error_bar(*value, error))).collect()
    }

    fn draw_reference(&self, canvas: &mut Canvas) {
        if let Some((name, value)) = self.reference.as_ref().filter(|(_, value)| self.y.shows(*value)) {
            let y = canvas.height(*value);
            let line = [(canvas.left, y), (canvas.left + canvas.width, y)];
            // White on both sides makes it visible on dark bars.
            canvas.svg.line(&line, WHITE, 2.6, "");
            canvas.svg.line(&line, DIM, 1.2, "4 3");
            canvas.legend.push((y, clean(name), None));
        }
    }
}

impl Canvas {
    /// Title, vertical axis and grid.
    fn new(title: &str, axis: &Axis, heights: impl Iterator<Item = f64>, width_of_data: f64) -> Canvas {
        let y = Ruler::new(axis, heights, 5);
        let widest = y.ticks.iter().map(|(_, text)| width(text, SMALL)).fold(0.0, f64::max);
        let left = (MARGIN + widest + 8.0).round();
        let right = left + width_of_data;
        let mut svg = Svg::default();
        let top = svg.title(title, (right - MARGIN).max(400.0));
        svg.text(
            &shortened(&clean(&axis.label), SMALL, (right - MARGIN).max(400.0)),
            (MARGIN, top + SMALL),
            0.0,
            SMALL,
            DIM,
        );
        let top = top + LINE + 14.0;
        svg.reach(right, top + HEIGHT);
        let mut canvas = Canvas { svg, y, left, top, width: width_of_data, legend: Vec::new() };
        for (value, text) in canvas.y.ticks.clone() {
            let y = canvas.height(value);
            canvas.svg.line(&[(left, y), (right, y)], GRID, 1.0, "");
            canvas.svg.text(&text, (left - 8.0, y + 4.3), 1.0, SMALL, DIM);
        }
        canvas
    }

    /// Where a value is.
    fn height(&self, value: f64) -> f64 {
        self.top + (1.0 - self.y.share(value)) * HEIGHT
    }

    /// The numbers of the horizontal axis, as far as they fit side by side, and its label.
    fn draw_numbers(&mut self, x: &Ruler, label: &str) {
        let (bottom, mut free_from) = (self.top + HEIGHT, 0.0);
        for (value, text) in &x.ticks {
            let (at, half) = (self.left + x.share(*value) * self.width, width(text, SMALL) / 2.0);
            self.svg.line(&[(at, self.top), (at, bottom)], GRID, 1.0, "");
            if at - half >= free_from {
                self.svg.text(text, (at, bottom + 20.0), 0.5, SMALL, DIM);
                free_from = at + half + 8.0;
            }
        }
        let middle = (self.left + self.width / 2.0, bottom + 40.0);
        self.svg.text(&shortened(&clean(label), SMALL, self.width), middle, 0.5, SMALL, DIM);
    }

    /// A line; marks and error bars are where they have room.
    fn draw_line(&mut self, index: usize, points: &[Datum], x: &Ruler) {
        let place = |(at, value, _): &Datum| (self.left + x.share(*at) * self.width, self.height(*value));
        let places: Vec<(f64, f64)> = points.iter().map(place).collect();
        let mut marked: Vec<usize> = Vec::new();
        for (point, (x, y)) in places.iter().enumerate() {
            let distance = |last: &usize| (x - places[*last].0).hypot(y - places[*last].1);
            if marked.last().is_none_or(|last| distance(last) >= MARK_DISTANCE) {
                marked.push(point);
            }
        }
        let color = COLORS[index % COLORS.len()];
        marked.iter().for_each(|point| self.draw_error(places[*point].0, points[*point].2, color));
        self.svg.line(&places, color, 1.8, DASHES[index % DASHES.len()]);
        marked.iter().for_each(|point| draw_mark(&mut self.svg, index, places[*point]));
    }

    /// Whether the value of a bar is no wider than `room`.
    fn fits(&self, value: f64, numbers: Numbers, room: f64) -> bool {
        width(&self.bar_label(value, numbers), VALUE) < room
    }

    /// The value of a bar as text.
    fn bar_label(&self, value: f64, numbers: Numbers) -> String {
        number(value, self.y.fine_step(), numbers).trim_end_matches('%').to_owned()
    }

    /// Bars, with their values where `numbers` says how they are written.
    fn draw_bars(
        &mut self,
        fill: &str,
        points: &[Datum],
        middle: impl Fn(f64) -> f64,
        bar: f64,
        numbers: Option<Numbers>,
    ) {
        let zero = self.height(0.0);
        for (x, value, error) in points {
            let (x, end) = (middle(*x), self.height(*value));
            let (top, bottom) = (end.min(zero), end.max(zero));
            let (left, right) = (x - bar / 2.0, x + bar / 2.0);
            self.svg.rect((left, top), (right, bottom), fill, COLORS[0]);
            // A bar without height is a line.
            self.svg.line(&[(left, zero), (right, zero)], DIM, 1.0, "");
            self.draw_error(x, *error, DARK);
            if let Some(numbers) = numbers {
                let label = self.bar_label(*value, numbers);
                let [low, high] = error.unwrap_or([*value; 2]).map(|end| self.height(end));
                let y = if *value < 0.0 { low.max(bottom) + VALUE } else { high.min(top) - 4.0 };
                self.svg.text(&label, (x, y), 0.5, VALUE, DIM);
            }
        }
    }

    /// An error bar. White around it makes it visible on lines and dark bars.
    fn draw_error(&mut self, x: f64, ends: Option<[f64; 2]>, color: &str) {
        let Some([low, high]) = ends.map(|ends| ends.map(|end| self.height(end))) else { return };
        let cap = |y: f64| [(x - 3.5, y), (x + 3.5, y), (x, y)];
        let points = [cap(low), cap(high)].concat();
        let points = [points[0], points[1], points[2], points[5], points[3], points[4]];
        self.svg.line(&points, WHITE, 3.6, "");
        self.svg.line(&points, color, 1.2, "");
    }

    /// Each name at its place, or as near to it as there is room: below the one before it, and not below the data.
    fn draw_legend(&mut self, has_bars: bool) {
        let mut legend = std::mem::take(&mut self.legend);
        legend.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut free_from, mut free_to) = (self.top, self.top + HEIGHT);
        for (y, ..) in &mut legend {
            *y = y.max(free_from);
            free_from = *y + MARGIN;
        }
        for (y, ..) in legend.iter_mut().rev() {
            *y = y.min(free_to);
            free_to = *y - MARGIN;
        }
        let x = self.left + self.width + 20.0;
        for (y, name, index) in legend {
            let line = [(x, y), (x + 34.0, y)];
            match index {
                None => self.svg.line(&line, DIM, 1.2, "4 3"),
                Some(index) if has_bars => {
                    self.svg.rect((x + 8.0, y - 6.0), (x + 34.0, y + 6.0), FILLS[index], COLORS[0]);
                }
                Some(index) => {
                    self.svg.line(&line, COLORS[index % COLORS.len()], 1.8, DASHES[index % DASHES.len()]);
                    draw_mark(&mut self.svg, index, (x + 17.0, y));
                }
            }
            self.svg.text(&shortened(&name, NAME, MAX_NAME), (x + 42.0, y + 4.5), 0.0, NAME, DARK);
        }
    }
}

/// The mark of the line with this number. Every second one is open.
fn draw_mark(svg: &mut Svg, index: usize, (x, y): (f64, f64)) {
    let color = COLORS[index % COLORS.len()];
    let corners: Vec<(f64, f64)> =
        MARKS[index % MARKS.len()].iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
    svg.polygon(&corners, if index % 2 == 1 { WHITE } else { color }, color);
}
