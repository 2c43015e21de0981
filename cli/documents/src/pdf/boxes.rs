//! Small boxes and circles beside text, as forms have them, that are drawn and are no fields. Whether one is ticked is not
//! read: they are counted.

use kurbo::{BezPath, PathEl, Point, Rect};

/// Their sides, in points. Their width and height differ by less than this share.
const SIDES: std::ops::RangeInclusive<f64> = 6.0..=20.0;
const SAME_SIDE: f64 = 0.15;
/// Text is not farther away, in sides.
const NEAR: f64 = 2.5;
/// Boxes that are nearer to each other are cells, in points.
const TOUCHING: f64 = 1.0;
/// A path of a box or a circle has fewer elements.
const MAX_ELEMENTS: usize = 16;
/// A page with more boxes has a drawing of them.
const MAX_BOXES: usize = 500;

/// Boxes that are drawn on a page.
#[derive(Debug, Default)]
pub(super) struct Boxes(Vec<Rect>);

impl Boxes {
    /// Adds a frame, if it is as small as a box. One that is drawn in another is a part of it.
    pub(super) fn add(&mut self, place: Rect) {
        let (width, height) = (place.width(), place.height());
        let is_box =
            SIDES.contains(&width) && SIDES.contains(&height) && (width - height).abs() < SAME_SIDE * width;
        let is_known = || self.0.iter().any(|other| other.contains(place.center()));
        if is_box && self.0.len() <= MAX_BOXES && !is_known() {
            self.0.push(place);
        }
    }

    /// Adds a path that is closed, as a circle is, with this place.
    pub(super) fn add_path(&mut self, path: &BezPath, place: Rect) {
        let elements = path.elements();
        let ends = [elements.first(), elements.last()].map(|end| end.and_then(PathEl::end_point));
        let is_closed = matches!(elements.last(), Some(PathEl::ClosePath)) || ends[0] == ends[1];
        if elements.len() < MAX_ELEMENTS && is_closed {
            self.add(place);
        }
    }

    /// Removes the boxes around fields, whose values are read.
    pub(super) fn remove_fields(&mut self, fields: &[Rect]) {
        let is_at =
            |place: &Rect, field: &Rect| field.contains(place.center()) || place.contains(field.center());
        self.0.retain(|place| !fields.iter().any(|field| is_at(place, field)));
    }

    /// How many are beside text, of whose glyphs these are the middles, and have none in them.
    pub(super) fn beside(&self, glyphs: impl Iterator<Item = Point> + Clone) -> usize {
        let is_alone = |place: &Rect| {
            let around = place.inflate(TOUCHING, TOUCHING);
            self.0.iter().filter(|other| around.overlaps(**other)).count() == 1
        };
        let is_beside = |place: &&Rect| {
            let around = place.inflate(NEAR * place.width(), 0.0);
            let is_empty = !glyphs.clone().any(|middle| place.contains(middle));
            is_empty && is_alone(place) && glyphs.clone().any(|middle| around.contains(middle))
        };
        if self.0.len() > MAX_BOXES { 0 } else { self.0.iter().filter(is_beside).count() }
    }
}
