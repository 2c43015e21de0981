//! Bar charts.

use kurbo::Rect;

use crate::axis::{Axis, Ruler, Scale, number};
use crate::drawing::{Align, Color, Drawing, Face};
use crate::frame::{Frame, LINE_HEIGHT, Legend, Sample, left_out, shown_references};
use crate::style::{BarStyle, MAX_BARS};
use crate::text::{clean, wrapped};
use crate::{Chart, Reference};

/// Maximum number of groups.
const MAX_GROUPS: usize = 24;
/// Width of the data if bars need neither more nor less.
const PLOT_WIDTH: f64 = 500.0;
/// Between the bars of a group.
const BAR_GAP: f64 = 2.0;
/// Lines of a group's name.
const NAME_LINES: usize = 3;
const VALUE: Face = Face { size: 10.5, ..Face::DIM };

/// A chart of bars in groups, such as a group for each task with a bar for each policy.
///
/// At most 24 groups, 8 series and 4 references are drawn. Bars begin at 0. Each has its value at its end where there is room.
///
/// ```
/// use charts::{Axis, BarChart, BarSeries, Chart};
///
/// let chart = BarChart {
///     title: "Score by task".into(),
///     y: Axis { label: "score".into(), range: Some((0.0, 1.0)), ..Axis::default() },
///     groups: vec!["single needle".into(), "several needles".into()],
///     series: vec![
///         BarSeries { name: "razor".into(), values: vec![Some(0.98), Some(0.91)] },
///         BarSeries { name: "h2o".into(), values: vec![Some(0.64), None] },
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
}

impl BarChart {
    /// The value of a bar if it is drawn.
    fn value(&self, series: usize, group: usize) -> Option<f64> {
        self.series[series].values.get(group).copied().flatten().filter(|value| self.axis().shows(*value))
    }

    /// The vertical axis, which is linear and has 0.
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
        let (groups, count) = (all_groups.min(MAX_GROUPS), self.series.len().min(MAX_BARS));
        let mut drawing = Drawing::new(&clean(&self.title), self.description(groups));
        let axis = self.axis();
        let values: Vec<f64> = (0..count)
            .flat_map(|series| (0..groups).filter_map(move |group| self.value(series, group)))
            .collect();
        let references = shown_references(&axis, &self.references).map(|reference| reference.value);
        let y = Ruler::new(&axis, values.iter().copied().chain(references).chain([0.0]), 5);
        let bars = Bars::new(groups, count);
        let mut frame = Frame::new(&mut drawing, y.clone(), &axis, bars.width(), 8.0);
        let plot = frame.plot;
        frame.draw_y_axis(&mut drawing);
        let mut legend = Legend { entries: Vec::new() };
        let step = value_step(&y);
        let text = |value: f64| number(value, step, axis.numbers).trim_end_matches('%').to_owned();
        let widest = values.iter().map(|value| VALUE.width(&text(*value))).fold(0.0, f64::max);
        let mut labels = Vec::new();
        for series in 0..count {
            let style = BarStyle::of(series);
            legend.push(&self.series[series].name, Sample::Bar(style), plot.y0 + series as f64);
            for group in 0..groups {
                let Some(value) = self.value(series, group) else { continue };
                let (left, right) = bars.place(group, series);
                let (end, zero) = (frame.y(value), frame.y(0.0));
                let bar = Rect::new(plot.x0 + left, end.min(zero), plot.x0 + right, end.max(zero));
                style.draw(&mut drawing, bar);
                let y = if value < 0.0 { bar.y1 + VALUE.size } else { bar.y0 - 4.0 };
                labels.push((bar.center().x, y, text(value)));
            }
        }
        drawing.thin_line([(plot.x0, frame.y(0.0)), (plot.x1, frame.y(0.0))], Color::DIM);
        frame.draw_references(&mut drawing, &axis, &self.references);
        if widest <= bars.bar + BAR_GAP - 1.0 {
            for (x, y, label) in labels {
                // White behind a number hides lines that it would be on.
                let half = VALUE.width(&label) / 2.0;
                let area = Rect::new(x - half - 0.5, y - 8.5, x + half + 0.5, y + 1.0);
                drawing.rect(area, Some(Color::WHITE), None);
                drawing.text(VALUE, Align::Center, (x, y), &label);
            }
        }
        // Values of bars that point down are below the data.
        let below = if values.iter().any(|value| *value < 0.0) { 14.0 } else { 0.0 };
        let mut lines = 0;
        for (group, name) in self.groups.iter().take(groups).enumerate() {
            let center = plot.x0 + (group as f64 + 0.5) * bars.group;
            let names = wrapped(&clean(name), Face::NAME, bars.group - 8.0, NAME_LINES);
            lines = lines.max(names.len());
            for (line, name) in names.iter().enumerate() {
                let y = plot.y1 + below + 8.0 + Face::NAME.size + line as f64 * LINE_HEIGHT;
                drawing.text(Face::NAME, Align::Center, (center, y), name);
            }
        }
        if values.is_empty() {
            frame.draw_no_data(&mut drawing);
        }
        let bottom = plot.y1 + below + 8.0 + lines as f64 * LINE_HEIGHT;
        let note = left_out(&[(all_groups, MAX_GROUPS, "groups"), (self.series.len(), MAX_BARS, "series")]);
        frame.finish(&mut drawing, legend, bottom, &note);
        drawing
    }
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

    /// Left and right side of a bar.
    fn place(&self, group: usize, bar: usize) -> (f64, f64) {
        let bars = self.count as f64 * (self.bar + BAR_GAP) - BAR_GAP;
        let left = (group as f64 + 0.5) * self.group - bars / 2.0 + bar as f64 * (self.bar + BAR_GAP);
        (left, left + self.bar)
    }
}

/// How exact the values at bars are: at least ten times as exact as the ticks.
fn value_step(y: &Ruler) -> f64 {
    let step = y.ticks[1].value - y.ticks[0].value;
    10f64.powf((step / 10.0).log10().floor())
}
