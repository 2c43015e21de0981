//! What charts with two axes share: title, axes, grid and legend.

use kurbo::{Point, Rect};

use crate::axis::{Axis, Ruler};
use crate::drawing::{Align, Color, Drawing, Face, Stroke};
use crate::style::{BarStyle, LineStyle, reference_stroke};
use crate::text::{clean, fitted, shortened, wrapped};
use crate::{MAX_REFERENCES, Reference};

/// White space around the picture.
pub(crate) const MARGIN: f64 = 18.0;
/// Height of the area with the data.
const PLOT_HEIGHT: f64 = 290.0;
/// Between two lines of a text.
pub(crate) const LINE_HEIGHT: f64 = 16.0;
const TITLE_HEIGHT: f64 = 21.0;
/// Between ticks and their labels.
const TICK_GAP: f64 = 8.0;
/// Between the data and the legend.
const LEGEND_GAP: f64 = 20.0;
const SAMPLE_WIDTH: f64 = 34.0;
const SAMPLE_GAP: f64 = 8.0;
pub(crate) const MAX_NAME_WIDTH: f64 = 200.0;
/// Height between two entries of a legend.
const ENTRY_HEIGHT: f64 = 18.0;

/// A line of the legend.
pub(crate) struct Entry {
    pub name: String,
    pub sample: Sample,
    /// Where its middle is best.
    pub y: f64,
}

/// How something looks in the chart.
#[derive(Clone, Copy)]
pub(crate) enum Sample {
    Line(LineStyle),
    Bar(BarStyle),
    Reference(Stroke),
}

/// The names of a legend, and its width.
pub(crate) struct Legend {
    pub entries: Vec<Entry>,
}

impl Legend {
    pub(crate) fn push(&mut self, name: &str, sample: Sample, y: f64) {
        let name = shortened(&clean(name), Face::NAME, MAX_NAME_WIDTH);
        if !name.is_empty() {
            self.entries.push(Entry { name, sample, y });
        }
    }

    /// Width with the gap before it; 0 for a legend without entries.
    fn width(&self) -> f64 {
        let names = self.entries.iter().map(|entry| Face::NAME.width(&entry.name));
        names.reduce(f64::max).map_or(0.0, |width| LEGEND_GAP + SAMPLE_WIDTH + SAMPLE_GAP + width)
    }

    /// Draws the entries at `x`, as near to their places as they fit between `top` and `bottom`.
    fn draw(mut self, drawing: &mut Drawing, x: f64, (top, bottom): (f64, f64)) {
        self.entries.sort_by(|a, b| a.y.total_cmp(&b.y));
        let mut places: Vec<f64> = self.entries.iter().map(|entry| entry.y).collect();
        separate(&mut places, ENTRY_HEIGHT, (top + ENTRY_HEIGHT / 2.0, bottom - ENTRY_HEIGHT / 2.0));
        for (entry, y) in self.entries.iter().zip(places) {
            entry.sample.draw(drawing, (x, y));
            let at = (x + SAMPLE_WIDTH + SAMPLE_GAP, y + Face::NAME.middle());
            drawing.text(Face::NAME, Align::Left, at, &entry.name);
        }
    }
}

impl Sample {
    fn draw(&self, drawing: &mut Drawing, (x, y): (f64, f64)) {
        let line = [(x, y), (x + SAMPLE_WIDTH, y)];
        match self {
            Sample::Line(style) => {
                drawing.line(line, style.stroke);
                style.draw_mark(drawing, Point::new(x + SAMPLE_WIDTH / 2.0, y));
            }
            Sample::Bar(style) => style.draw(drawing, Rect::new(x + 8.0, y - 6.0, x + SAMPLE_WIDTH, y + 6.0)),
            Sample::Reference(stroke) => drawing.line(line, *stroke),
        }
    }
}

/// Moves places, which are in ascending order, apart until neighbours have this distance. All stay between
/// `low` and `high` if there is room.
fn separate(places: &mut [f64], distance: f64, (low, high): (f64, f64)) {
    let mut next = low;
    for place in places.iter_mut() {
        *place = place.max(next);
        next = *place + distance;
    }
    let mut next = high;
    for place in places.iter_mut().rev() {
        *place = place.min(next);
        next = *place - distance;
    }
}

/// Where the data of a chart is.
pub(crate) struct Frame {
    pub plot: Rect,
    y: Ruler,
    references: Vec<(Reference, Stroke)>,
    /// Where the rightmost text ends.
    right: f64,
}

impl Frame {
    /// The place for data of this width. `above` is white space above the data.
    pub(crate) fn new(drawing: &mut Drawing, y: Ruler, axis: &Axis, width: f64, above: f64) -> Frame {
        let left = (MARGIN + y.width(Face::DIM) + TICK_GAP).round();
        let label = fitted(&clean(&axis.label), Face::DIM, left + width - MARGIN);
        let mut top = draw_title(drawing, left + width) + above;
        if !label.is_empty() {
            drawing.text(Face::DIM, Align::Left, (MARGIN, top - above + Face::DIM.size), &label);
            top += LINE_HEIGHT + 8.0;
        }
        let plot = Rect::new(left, top, left + width, top + PLOT_HEIGHT);
        Frame { plot, y, references: Vec::new(), right: plot.x1 }
    }

    /// The height of a value.
    pub(crate) fn y(&self, value: f64) -> f64 {
        self.plot.y1 - self.y.share(value) * self.plot.height()
    }

    /// Lines and numbers of the vertical axis.
    pub(crate) fn draw_y_axis(&self, drawing: &mut Drawing) {
        let Rect { x0, x1, .. } = self.plot;
        for tick in &self.y.ticks {
            let y = self.y(tick.value);
            drawing.thin_line([(x0, y), (x1, y)], Color::GRID);
            let at = (x0 - TICK_GAP, y + Face::DIM.middle());
            drawing.text(Face::DIM, Align::Right, at, &tick.label);
        }
    }

    /// Lines and numbers of the horizontal axis. Numbers that do not fit between others are left out.
    pub(crate) fn draw_x_axis(&mut self, drawing: &mut Drawing, x: &Ruler, label: &str) {
        let plot = self.plot;
        let baseline = plot.y1 + TICK_GAP + Face::DIM.size;
        let mut free_from = 0.0;
        for tick in &x.ticks {
            let at = plot.x0 + x.share(tick.value) * plot.width();
            drawing.thin_line([(at, plot.y0), (at, plot.y1)], Color::GRID);
            let width = Face::DIM.width(&tick.label);
            let left = (at - width / 2.0).max(MARGIN / 2.0);
            if left >= free_from {
                drawing.text(Face::DIM, Align::Left, (left, baseline), &tick.label);
                self.right = self.right.max(left + width);
                free_from = left + width + 8.0;
            }
        }
        let label = fitted(&clean(label), Face::DIM, plot.width());
        let at = (plot.center().x, baseline + LINE_HEIGHT + 4.0);
        drawing.text(Face::DIM, Align::Center, at, &label);
    }

    /// References that the vertical axis can show.
    pub(crate) fn draw_references(&mut self, drawing: &mut Drawing, axis: &Axis, references: &[Reference]) {
        for reference in shown_references(axis, references) {
            let stroke = reference_stroke(self.references.len());
            let y = self.y(reference.value);
            let line = [(self.plot.x0, y), (self.plot.x1, y)];
            // White on both sides makes it visible on dark bars.
            drawing.line(line, Stroke::solid(Color::WHITE, 2.6));
            drawing.line(line, stroke);
            self.references.push((reference.clone(), stroke));
        }
    }

    /// Puts the references into the legend, draws it, and sets the size of the picture. The lowest text so
    /// far ends at `bottom`.
    pub(crate) fn finish(self, drawing: &mut Drawing, mut legend: Legend, mut bottom: f64, note: &str) {
        for (reference, stroke) in &self.references {
            legend.push(&reference.name, Sample::Reference(*stroke), self.y(reference.value));
        }
        let right = self.right.max(self.plot.x1 + legend.width());
        legend.draw(drawing, self.plot.x1 + LEGEND_GAP, (self.plot.y0 - 8.0, self.plot.y1 + 8.0));
        if !note.is_empty() {
            bottom += LINE_HEIGHT;
            drawing.text(Face::DIM, Align::Left, (MARGIN, bottom), note);
        }
        drawing.size = ((right + MARGIN).ceil(), (bottom + MARGIN).ceil());
    }

    /// Says in the middle that there is nothing to draw.
    pub(crate) fn draw_no_data(&self, drawing: &mut Drawing) {
        let center = self.plot.center();
        drawing.text(Face::NAME, Align::Center, (center.x, center.y), "no data");
    }
}

/// The references that an axis can show.
pub(crate) fn shown_references<'a>(
    axis: &'a Axis,
    references: &'a [Reference],
) -> impl Iterator<Item = &'a Reference> {
    references.iter().filter(|reference| axis.shows(reference.value)).take(MAX_REFERENCES)
}

/// Draws the title in at most two lines, and returns where it ends.
pub(crate) fn draw_title(drawing: &mut Drawing, right: f64) -> f64 {
    let mut y = MARGIN;
    for line in wrapped(&drawing.title.clone(), Face::TITLE, right - MARGIN, 2) {
        drawing.text(Face::TITLE, Align::Left, (MARGIN, y + Face::TITLE.size - 3.0), &line);
        y += TITLE_HEIGHT;
    }
    y + 4.0
}

/// Draws names side by side below `top`, each in at most three lines around its middle, and returns where
/// they end.
pub(crate) fn draw_names<'a>(
    drawing: &mut Drawing,
    names: impl Iterator<Item = (f64, &'a String)>,
    width: f64,
    top: f64,
) -> f64 {
    let mut bottom = top;
    for (middle, name) in names {
        let mut baseline = top + Face::NAME.size;
        for line in wrapped(&clean(name), Face::NAME, width, 3) {
            drawing.text(Face::NAME, Align::Center, (middle, baseline), &line);
            bottom = bottom.max(baseline);
            baseline += LINE_HEIGHT;
        }
    }
    bottom
}

/// Says what is left out because there is too much of it: of each kind all, the drawn ones and its name.
pub(crate) fn left_out(counts: &[(usize, usize, &str)]) -> String {
    let parts: Vec<String> = counts
        .iter()
        .filter(|(count, limit, _)| count > limit)
        .map(|(count, limit, what)| format!("{} of {count} {what}", count - limit))
        .collect();
    if parts.is_empty() { String::new() } else { format!("not shown: {}", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn separated(places: &[f64]) -> Vec<f64> {
        let mut places = places.to_vec();
        separate(&mut places, 10.0, (0.0, 100.0));
        places
    }

    #[test]
    fn places_move_apart_and_stay_between_the_ends() {
        assert_eq!(separated(&[20.0, 50.0]), [20.0, 50.0]);
        assert_eq!(separated(&[20.0, 21.0, 22.0]), [20.0, 30.0, 40.0]);
        assert_eq!(separated(&[95.0, 99.0, 100.0]), [80.0, 90.0, 100.0]);
        assert_eq!(separated(&[-50.0, 0.0]), [0.0, 10.0]);
        assert_eq!(separated(&[]), [0.0; 0]);
    }
}
