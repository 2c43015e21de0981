//! Line charts.

use kurbo::Point;

use crate::axis::{Axis, Ruler};
use crate::drawing::{Color, Drawing, Face, Shape};
use crate::error_bar;
use crate::frame::{Frame, LINE_HEIGHT, Legend, Sample, left_out, shown_references};
use crate::style::{LineStyle, MAX_LINES};
use crate::text::clean;
use crate::{Chart, MAX_REFERENCES, Reference};

const PLOT_WIDTH: f64 = 500.0;
/// Maximum number of points of a series: one for a pixel. Longer series are thinned out evenly.
const MAX_POINTS: usize = 500;
/// Maximum number of point shapes of a series.
const MAX_MARKS: usize = 40;
/// Between two point shapes, which are 9 wide.
const MARK_DISTANCE: f64 = 12.0;

/// A chart of lines over a common axis, such as scores over the share of the KV cache that is kept.
///
/// At most 12 series and 4 references are drawn, and about 500 points of a longer series. Names are in a
/// legend, each near the end of its line.
///
/// ```
/// use charts::{Axis, Chart, LineChart, Numbers, Scale, Series};
///
/// let depth = Axis { label: "tokens".into(), scale: Scale::Log, numbers: Numbers::Binary, range: None };
/// let speed = Axis { label: "tokens/s".into(), range: Some((0.0, 20.0)), ..Axis::default() };
/// let points = vec![(1024.0, 18.2), (8192.0, 14.1), (32768.0, 7.9)];
/// let series = vec![Series { name: "full cache".into(), points, ..Series::default() }];
/// let chart = LineChart { title: "Decoding".into(), x: depth, y: speed, series, ..LineChart::default() };
/// assert!(chart.svg().contains(">16k</text>"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineChart {
    /// What is shown, in at most two lines.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
    /// Horizontal lines to compare with.
    pub references: Vec<Reference>,
}

/// A line of a [`LineChart`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// Points `(x, y)` in the units of the axes, connected in this order. The line leaves out points that an axis
    /// cannot show.
    pub points: Vec<(f64, f64)>,
    /// Half the length of the error bar at each point, in the unit of the vertical axis. A point without a number, or
    /// with one that is not above 0, has none. They end where [`Axis::range`] does.
    pub errors: Vec<f64>,
}

impl Series {
    /// The points that are drawn, about [`MAX_POINTS`] of them with the last one, and their errors.
    fn thinned(&self) -> impl Iterator<Item = Datum> {
        let count = self.points.len();
        let stride = count.div_ceil(MAX_POINTS).max(1);
        let last = count.checked_sub(1).filter(|last| !last.is_multiple_of(stride));
        (0..count).step_by(stride).chain(last).map(|index| {
            let (x, y) = self.points[index];
            Datum { x, y, error: self.errors.get(index).copied().unwrap_or(0.0) }
        })
    }
}

/// A point of a series.
#[derive(Clone, Copy)]
struct Datum {
    x: f64,
    y: f64,
    error: f64,
}

impl LineChart {
    /// The points of each series that are drawn.
    fn points(&self) -> Vec<Vec<Datum>> {
        let shown = |datum: &Datum| self.x.shows(datum.x) && self.y.shows(datum.y);
        let points = |series: &Series| series.thinned().filter(shown).collect::<Vec<_>>();
        self.series.iter().take(MAX_LINES).map(points).collect()
    }

    /// All points of the series that are drawn, and those that thinning leaves.
    fn point_counts(&self) -> (usize, usize, &'static str) {
        let series = || self.series.iter().take(MAX_LINES);
        let all = series().map(|series| series.points.len()).sum();
        (all, series().map(|series| series.thinned().count()).sum(), "points")
    }

    fn description(&self) -> String {
        let names: Vec<String> =
            self.series.iter().take(MAX_LINES).map(|series| clean(&series.name)).collect();
        format!(
            "Line chart of {} over {}. Lines: {}.",
            clean(&self.y.label),
            clean(&self.x.label),
            names.join("; ")
        )
    }
}

impl Chart for LineChart {
    fn drawing(&self) -> Drawing {
        let mut drawing = Drawing::new(&clean(&self.title), self.description());
        let series = self.points();
        let points = || series.iter().flatten();
        let references = shown_references(&self.y, &self.references).map(|reference| reference.value);
        let errors = points().filter_map(|datum| error_bar::ends(&self.y, datum.y, datum.error)).flatten();
        let heights = points().map(|datum| datum.y).chain(errors).chain(references);
        let y = Ruler::new(&self.y, heights, 5);
        let x = Ruler::new(&self.x, points().map(|datum| datum.x), 6);
        let mut frame = Frame::new(&mut drawing, y, &self.y, PLOT_WIDTH, 0.0);
        let plot = frame.plot;
        frame.draw_x_axis(&mut drawing, &x, &self.x.label);
        frame.draw_y_axis(&mut drawing);
        drawing.thin_line([(plot.x0, plot.y1), (plot.x1, plot.y1)], Color::DIM);
        frame.draw_references(&mut drawing, &self.y, &self.references);
        let mut legend = Legend { entries: Vec::new() };
        let place = |datum: &Datum| Placed {
            at: Point::new(plot.x0 + x.share(datum.x) * plot.width(), frame.y(datum.y)),
            ends: error_bar::ends(&self.y, datum.y, datum.error).map(|ends| ends.map(|end| frame.y(end))),
        };
        let placed: Vec<Vec<Placed>> =
            series.iter().map(|points| points.iter().map(place).collect()).collect();
        // Error bars are below all lines.
        for (index, points) in placed.iter().enumerate() {
            draw_error_bars(&mut drawing, LineStyle::of(index), points);
        }
        for (index, (series, points)) in self.series.iter().zip(&placed).enumerate() {
            let style = LineStyle::of(index);
            let end = points.last().map_or(plot.y1, |point| point.at.y);
            legend.push(&series.name, Sample::Line(style), end);
            draw_series(&mut drawing, style, points);
        }
        if points().next().is_none() {
            frame.draw_no_data(&mut drawing);
        }
        let bottom = plot.y1 + 8.0 + Face::DIM.size + LINE_HEIGHT + 4.0;
        let note = left_out(&[
            (self.series.len(), MAX_LINES, "series"),
            (self.references.len(), MAX_REFERENCES, "references"),
            self.point_counts(),
        ]);
        frame.finish(&mut drawing, legend, bottom, &note);
        drawing
    }
}

/// Where a point is in the picture, and the ends of its error bar.
#[derive(Clone, Copy)]
struct Placed {
    at: Point,
    ends: Option<[f64; 2]>,
}

/// The points that have room for a point shape and an error bar.
fn marked(points: &[Placed]) -> Vec<Placed> {
    let mut marked: Vec<Placed> = Vec::new();
    for point in points.iter().step_by(points.len().div_ceil(MAX_MARKS).max(1)) {
        if marked.last().is_none_or(|last| last.at.distance(point.at) >= MARK_DISTANCE) {
            marked.push(*point);
        }
    }
    marked
}

fn draw_error_bars(drawing: &mut Drawing, style: LineStyle, points: &[Placed]) {
    for Placed { at, ends } in marked(points) {
        if let Some(ends) = ends {
            error_bar::draw(drawing, at.x, ends, style.stroke.color);
        }
    }
}

/// The line, and point shapes.
fn draw_series(drawing: &mut Drawing, style: LineStyle, points: &[Placed]) {
    if points.len() > 1 {
        let points = points.iter().map(|point| point.at).collect();
        drawing.shapes.push(Shape::Line { points, stroke: style.stroke });
    }
    for point in marked(points) {
        style.draw_mark(drawing, point.at);
    }
}
