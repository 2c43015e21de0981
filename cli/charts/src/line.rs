//! Line charts.

use kurbo::Point;

use crate::axis::{Axis, Ruler};
use crate::drawing::{Color, Drawing, Face, Shape};
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
/// let series = vec![Series { name: "full cache".into(), points }];
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
}

impl LineChart {
    /// The points of each series that are drawn.
    fn points(&self) -> Vec<Vec<(f64, f64)>> {
        let shown = |(x, y): &(f64, f64)| self.x.shows(*x) && self.y.shows(*y);
        let points = |series: &Series| thinned(&series.points).filter(shown).collect::<Vec<_>>();
        self.series.iter().take(MAX_LINES).map(points).collect()
    }

    /// All points of the series that are drawn, and those that thinning leaves.
    fn point_counts(&self) -> (usize, usize, &'static str) {
        let series = || self.series.iter().take(MAX_LINES);
        let all = series().map(|series| series.points.len()).sum();
        (all, series().map(|series| thinned(&series.points).count()).sum(), "points")
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
        let y = Ruler::new(&self.y, points().map(|point| point.1).chain(references), 5);
        let x = Ruler::new(&self.x, points().map(|point| point.0), 6);
        let mut frame = Frame::new(&mut drawing, y, &self.y, PLOT_WIDTH, 0.0);
        let plot = frame.plot;
        frame.draw_x_axis(&mut drawing, &x, &self.x.label);
        frame.draw_y_axis(&mut drawing);
        drawing.thin_line([(plot.x0, plot.y1), (plot.x1, plot.y1)], Color::DIM);
        frame.draw_references(&mut drawing, &self.y, &self.references);
        let mut legend = Legend { entries: Vec::new() };
        for (index, (series, points)) in self.series.iter().zip(&series).enumerate() {
            let style = LineStyle::of(index);
            let place = |(a, b): &(f64, f64)| Point::new(plot.x0 + x.share(*a) * plot.width(), frame.y(*b));
            let points: Vec<Point> = points.iter().map(place).collect();
            let end = points.last().map_or(plot.y1, |point| point.y);
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

/// All points, or about [`MAX_POINTS`] of them with the last one.
fn thinned(points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
    let stride = points.len().div_ceil(MAX_POINTS).max(1);
    let last = points.last().filter(|_| !(points.len().saturating_sub(1)).is_multiple_of(stride));
    points.iter().step_by(stride).chain(last).copied()
}

/// The line, and point shapes as far as they have room.
fn draw_series(drawing: &mut Drawing, style: LineStyle, points: Vec<Point>) {
    let mut last: Option<Point> = None;
    let mut marks = Vec::new();
    for point in points.iter().step_by(points.len().div_ceil(MAX_MARKS).max(1)) {
        if last.is_none_or(|last| last.distance(*point) >= MARK_DISTANCE) {
            marks.push(*point);
            last = Some(*point);
        }
    }
    if points.len() > 1 {
        drawing.shapes.push(Shape::Line { points, stroke: style.stroke });
    }
    for mark in marks {
        style.draw_mark(drawing, mark);
    }
}
