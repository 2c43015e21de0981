//! What a chart consists of: lines, polygons, circles and texts. Both writers draw this list, so that they
//! show the same.
//!
//! Lengths are in units of the picture, which are CSS pixels of the SVG. Later shapes cover earlier ones.

use kurbo::{Point, Rect};

use crate::font::Font;

/// A picture, to be written as SVG or PNG.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// Width and height.
    pub(crate) size: (f64, f64),
    /// What the picture is called where it cannot be seen.
    pub(crate) title: String,
    /// What is to be seen, in a sentence or two.
    pub(crate) description: String,
    pub(crate) shapes: Vec<Shape>,
}

/// Red, green and blue, from 0 to 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Color(pub u8, pub u8, pub u8);

impl Color {
    pub(crate) const WHITE: Color = Color(255, 255, 255);
    /// Titles and names.
    pub(crate) const TEXT: Color = Color(0x1f, 0x23, 0x28);
    /// Numbers at axes and labels of axes.
    pub(crate) const DIM: Color = Color(0x57, 0x60, 0x6a);
    pub(crate) const GRID: Color = Color(0xd8, 0xdb, 0xdf);
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stroke {
    pub color: Color,
    pub width: f64,
    /// Lengths of dashes and gaps in turn; empty for a solid line.
    pub dashes: &'static [f64],
}

impl Stroke {
    pub(crate) fn solid(color: Color, width: f64) -> Stroke {
        Stroke { color, width, dashes: &[] }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// Connected points.
    Line {
        points: Vec<Point>,
        stroke: Stroke,
    },
    /// An area, whose outline is closed.
    Polygon {
        points: Vec<Point>,
        fill: Option<Color>,
        stroke: Option<Stroke>,
    },
    Circle {
        center: Point,
        radius: f64,
        fill: Option<Color>,
        stroke: Option<Stroke>,
    },
    Text(Text),
}

/// A text in one line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Text {
    /// Left end of the baseline.
    pub at: Point,
    pub text: String,
    /// Height of an em.
    pub size: f64,
    pub bold: bool,
    pub color: Color,
}

impl Text {
    pub(crate) fn width(&self) -> f64 {
        Font::get(self.bold).width(&self.text, self.size)
    }
}

/// Which point of a text is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Align {
    Left,
    Center,
    Right,
}

/// Size and weight of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Face {
    pub size: f64,
    pub bold: bool,
    pub color: Color,
}

impl Face {
    pub(crate) const TITLE: Face = Face { size: 16.0, bold: true, color: Color::TEXT };
    /// Names of series, rows, columns and groups.
    pub(crate) const NAME: Face = Face { size: 12.5, bold: false, color: Color::TEXT };
    /// Numbers at axes, labels of axes and notes.
    pub(crate) const DIM: Face = Face { size: 12.0, bold: false, color: Color::DIM };

    pub(crate) fn width(self, text: &str) -> f64 {
        Font::get(self.bold).width(text, self.size)
    }

    /// How far the baseline is below the middle of the digits.
    pub(crate) fn middle(self) -> f64 {
        0.36 * self.size
    }
}

impl Drawing {
    pub(crate) fn new(title: &str, description: String) -> Drawing {
        Drawing { size: (0.0, 0.0), title: title.to_owned(), description, shapes: Vec::new() }
    }

    /// Width and height in units of the picture: CSS pixels of the SVG, pixels of a PNG of scale 1.
    pub fn size(&self) -> (f64, f64) {
        self.size
    }

    /// A thin line at whole pixels, which is sharp also where a unit is a pixel.
    pub(crate) fn thin_line(&mut self, ends: [(f64, f64); 2], color: Color) {
        self.line(ends.map(|(x, y)| (x.floor() + 0.5, y.floor() + 0.5)), Stroke::solid(color, 1.0));
    }

    pub(crate) fn line(&mut self, points: impl IntoIterator<Item = (f64, f64)>, stroke: Stroke) {
        let points = points.into_iter().map(Point::from).collect();
        self.shapes.push(Shape::Line { points, stroke });
    }

    pub(crate) fn rect(&mut self, rect: Rect, fill: Option<Color>, stroke: Option<Stroke>) {
        let Rect { x0, y0, x1, y1 } = rect;
        let points = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)].map(Point::from).to_vec();
        self.shapes.push(Shape::Polygon { points, fill, stroke });
    }

    /// A text with its baseline at `y`. An empty one draws nothing.
    pub(crate) fn text(&mut self, face: Face, align: Align, (x, y): (f64, f64), text: &str) {
        if text.is_empty() {
            return;
        }
        let x = match align {
            Align::Left => x,
            Align::Center => x - face.width(text) / 2.0,
            Align::Right => x - face.width(text),
        };
        let Face { size, bold, color } = face;
        self.shapes.push(Shape::Text(Text {
            at: Point::new(x, y),
            text: text.to_owned(),
            size,
            bold,
            color,
        }));
    }
}
