//! Bar charts.

use kurbo::Rect;

use crate::axis::{Axis, Ruler, Scale, number};
use crate::drawing::{Align, Color, Drawing, Face};
use crate::error_bar;
use crate::frame::{Frame, Legend, Sample, draw_names, left_out, shown_references};
use crate::style::{BarStyle, MAX_BARS};
use crate::text::clean;
use crate::{Chart, MAX_REFERENCES, Reference};

/// Maximum number of groups.
const MAX_GROUPS: usize = 24;
/// Width of the data if bars need neither more nor less.
const PLOT_WIDTH: f64 = 500.0;
/// Between the bars of a group.
const BAR_GAP: f64 = 2.0;
/// Of the values at bars.
const VALUE: Face = Face { size: 10.5, ..Face::DIM };

/// A chart of bars in groups, such as a group for each task with a bar for each policy.
///
/// At most 24 groups, 8 series and 4 references are drawn. Bars begin at 0. Each has its value at its end if
/// there is room.
///
/// ```
/// use charts::{Axis, BarChart, BarSeries, Chart};
///
/// let chart = BarChart {
///     title: "Score by task".into(),
///     y: Axis { label: "score".into(), range: Some((0.0, 1.0)), ..Axis::default() },
///     groups: vec!["single needle".into(), "several needles".into()],
///     series: vec![
///         BarSeries { name: "razor".into(), values: vec![Some(0.98), Some(0.91)], errors: vec![0.01, 0.03] },
///         BarSeries { name: "h2o".into(), values: vec![Some(0.64), None], errors: Vec::new() },
///     ],
///     ..BarChart::default()
/// };
/// assert!(chart.svg().contains(">0.98</text>"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarChart {
    /// What is shown, in at most two lines.
    pub title: String,
    /// The vertical axis. Its scale is always linear.
    pub y: Axis,
    /// The names below the groups.
    pub groups: Vec<String>,
    /// The bars of one look, one in each group.
    pub series: Vec<BarSeries>,
    /// Horizontal lines to compare with.
    pub references: Vec<Reference>,
}

/// The bars of one look in a [`BarChart`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarSeries {
    /// The name in the legend.
    pub name: String,
    /// The value for each group, in the unit of the vertical axis. `None` leaves the place of the bar empty.
    pub values: Vec<Option<f64>>,
    /// Half the length of the error bar of each group, in the unit of the vertical axis. A group without a number, or
    /// with one that is not above 0, has none. They end where [`Axis::range`] does.
    pub errors: Vec<f64>,
}

/// A bar that is drawn.
#[derive(Clone, Copy)]
struct Bar {
    series: usize,
    group: usize,
    value: f64,
    /// The ends of its error bar, the lower one first.
    error: Option<[f64; 2]>,
}

impl BarChart {
    /// The bars that are drawn.
    fn values(&self, bars: &Bars) -> Vec<Bar> {
        let axis = self.axis();
        let series = self.series.iter().take(bars.count).enumerate();
        let all = series.flat_map(|(series, bars_of_series)| {
            let error = |group| bars_of_series.errors.get(group).copied().unwrap_or(0.0);
            let values = bars_of_series.values.iter().take(bars.groups).enumerate();
            let shown = values.filter_map(|(group, value)| Some((group, value.filter(|v| axis.shows(*v))?)));
            let bar = |(group, value)| {
                let error = error_bar::ends(&axis, value, error(group));
                Bar { series, group, value, error }
            };
            shown.map(bar).collect::<Vec<_>>()
        });
        all.collect()
    }

    /// The vertical axis, which is linear.
    fn axis(&self) -> Axis {
        Axis { scale: Scale::Linear, ..self.y.clone() }
    }

    fn description(&self, groups: usize) -> String {
        let list = |names: &mut dyn Iterator<Item = &String>| {
            names.map(|name| clean(name)).collect::<Vec<_>>().join("; ")
        };
        format!(
            "Bar chart of {}. Groups: {}. Bars: {}.",
            clean(&self.y.label),
            list(&mut self.groups.iter().take(groups)),
            list(&mut self.series.iter().take(MAX_BARS).map(|series| &series.name)),
        )
    }
}

impl Chart for BarChart {
    fn drawing(&self) -> Drawing {
        let longest = self.series.iter().map(|series| series.values.len()).max().unwrap_or(0);
        let all_groups = longest.max(self.groups.len());
        let bars = Bars::new(all_groups.min(MAX_GROUPS), self.series.len().min(MAX_BARS));
        let values = self.values(&bars);
        let axis = self.axis();
        let references = shown_references(&axis, &self.references).map(|reference| reference.value);
        let errors = values.iter().filter_map(|bar| bar.error).flatten();
        let heights = values.iter().map(|bar| bar.value).chain(errors).chain(references).chain([0.0]);
        let y = Ruler::new(&axis, heights, 5);
        let step = value_step(&y);

        let mut drawing = Drawing::new(&clean(&self.title), self.description(bars.groups));
        let mut frame = Frame::new(&mut drawing, y, &axis, bars.width(), 8.0);
        let plot = frame.plot;
        frame.draw_y_axis(&mut drawing);
        let mut legend = Legend { entries: Vec::new() };
        for (index, series) in self.series.iter().take(bars.count).enumerate() {
            legend.push(&series.name, Sample::Bar(BarStyle::of(index)), plot.y0 + index as f64);
        }
        let rects: Vec<Rect> = values.iter().map(|bar| bars.rect(&frame, bar)).collect();
        for (bar, rect) in values.iter().zip(&rects) {
            BarStyle::of(bar.series).draw(&mut drawing, *rect);
        }
        drawing.thin_line([(plot.x0, frame.y(0.0)), (plot.x1, frame.y(0.0))], Color::DIM);
        frame.draw_references(&mut drawing, &axis, &self.references);
        for (bar, rect) in values.iter().zip(&rects) {
            if let Some(ends) = bar.error {
                let heights = ends.map(|end| frame.y(end));
                error_bar::draw(&mut drawing, rect.center().x, heights, Color::TEXT);
            }
        }
        let numbers = values.iter().map(|bar| number(bar.value, step, axis.numbers));
        let labels: Vec<String> = numbers.map(|text| text.trim_end_matches('%').to_owned()).collect();
        if labels.iter().all(|label| VALUE.width(label) < bars.bar + BAR_GAP) {
            for ((bar, rect), label) in values.iter().zip(&rects).zip(&labels) {
                let ends = bar.error.map(|ends| ends.map(|end| frame.y(end)));
                let [low, high] = ends.unwrap_or([rect.y1, rect.y0]);
                let whole = Rect { y0: rect.y0.min(high), y1: rect.y1.max(low), ..*rect };
                draw_value(&mut drawing, whole, bar.value, label);
            }
        }
        // Values of bars that point down may be below the data.
        let points_down = values.iter().any(|bar| bar.value < 0.0);
        let top = plot.y1 + if points_down { 22.0 } else { 8.0 };
        let names = self.groups.iter().take(bars.groups).enumerate();
        let names = names.map(|(group, name)| (plot.x0 + (group as f64 + 0.5) * bars.group, name));
        let bottom = draw_names(&mut drawing, names, bars.group - 8.0, top);
        if values.is_empty() {
            frame.draw_no_data(&mut drawing);
        }
        let note = left_out(&[
            (all_groups, MAX_GROUPS, "groups"),
            (self.series.len(), MAX_BARS, "series"),
            (self.references.len(), MAX_REFERENCES, "references"),
        ]);
        frame.finish(&mut drawing, legend, bottom, &note);
        drawing
    }
}

/// Draws a value at the end of its bar with the error bar. White behind it hides the lines that it is on.
fn draw_value(drawing: &mut Drawing, bar: Rect, value: f64, label: &str) {
    let x = bar.center().x;
    let y = if value < 0.0 { bar.y1 + VALUE.size } else { bar.y0 - 4.0 };
    let half = VALUE.width(label) / 2.0;
    drawing.rect(Rect::new(x - half - 0.5, y - 8.5, x + half + 0.5, y + 1.0), Some(Color::WHITE), None);
    drawing.text(VALUE, Align::Center, (x, y), label);
}

/// Where bars are, from the left end of the data.
struct Bars {
    groups: usize,
    /// Width of a group with the space around it.
    group: f64,
    /// Width of a bar.
    bar: f64,
    /// Bars of a group.
    count: usize,
}

impl Bars {
    fn new(groups: usize, count: usize) -> Bars {
        let (groups, count) = (groups.max(1), count.max(1));
        let room = PLOT_WIDTH / groups as f64;
        // The space between groups is as wide as a bar, and at least 16.
        let bar = (room / (count + 1) as f64 - BAR_GAP).clamp(10.0, 40.0);
        let group = (count as f64 * (bar + BAR_GAP) + bar.max(16.0)).max(room.min(140.0));
        Bars { groups, group, bar, count }
    }

    fn width(&self) -> f64 {
        self.groups as f64 * self.group
    }

    /// The place of a bar.
    fn rect(&self, frame: &Frame, bar: &Bar) -> Rect {
        let bars = self.count as f64 * (self.bar + BAR_GAP) - BAR_GAP;
        let first = frame.plot.x0 + (bar.group as f64 + 0.5) * self.group - bars / 2.0;
        let left = first + bar.series as f64 * (self.bar + BAR_GAP);
        let (end, zero) = (frame.y(bar.value), frame.y(0.0));
        Rect::new(left, end.min(zero), left + self.bar, end.max(zero))
    }
}

/// How exact the values at bars are: at least ten times as exact as the ticks.
fn value_step(y: &Ruler) -> f64 {
    let step = y.ticks[1].value - y.ticks[0].value;
    10f64.powf((step / 10.0).log10().floor())
}
