//! What tells series apart: dashes and point shapes of lines, brightness and hatching of bars.
//! Colours only help.

use kurbo::{Point, Rect};

use crate::drawing::{Color, Drawing, Shape, Stroke};

/// Maximum number of lines: so many pairs of dashes and point shapes there are.
pub(crate) const MAX_LINES: usize = 12;
/// Maximum number of bars in a group.
pub(crate) const MAX_BARS: usize = 8;

/// Dark enough to be read in print, also without colour.
const COLORS: [Color; 6] = [
    Color(0x24, 0x29, 0x2f),
    Color(0x0b, 0x5c, 0xad),
    Color(0xb4, 0x42, 0x0e),
    Color(0x1a, 0x73, 0x48),
    Color(0x7a, 0x3c, 0x9e),
    Color(0x85, 0x5f, 0x00),
];
const SOLID: &[f64] = &[];
const DASHED: &[f64] = &[8.0, 4.0];
const DOTTED: &[f64] = &[2.0, 3.0];
const DASH_DOT: &[f64] = &[9.0, 3.0, 2.0, 3.0];

/// How a series looks in a line chart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LineStyle {
    pub stroke: Stroke,
    mark: Mark,
    is_open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Circle,
    Square,
    Triangle,
    Diamond,
    Down,
    Cross,
}

impl LineStyle {
    /// The style of the series with this number.
    pub(crate) fn of(index: usize) -> LineStyle {
        use Mark::{Circle, Cross, Diamond, Down, Square, Triangle};
        const STYLES: [(&[f64], Mark, bool); MAX_LINES] = [
            (SOLID, Circle, false),
            (DASHED, Square, true),
            (DOTTED, Triangle, false),
            (DASH_DOT, Diamond, true),
            (SOLID, Down, true),
            (DASHED, Cross, false),
            (DOTTED, Circle, true),
            (DASH_DOT, Square, false),
            (SOLID, Triangle, true),
            (DASHED, Diamond, false),
            (DOTTED, Down, false),
            (DASH_DOT, Circle, true),
        ];
        let (dashes, mark, is_open) = STYLES[index % STYLES.len()];
        LineStyle {
            stroke: Stroke { color: COLORS[index % COLORS.len()], width: 1.8, dashes },
            mark,
            is_open,
        }
    }

    /// Draws the point shape.
    pub(crate) fn draw_mark(&self, drawing: &mut Drawing, Point { x, y }: Point) {
        let color = self.stroke.color;
        let fill = Some(if self.is_open { Color::WHITE } else { color });
        let stroke = Some(Stroke::solid(color, 1.5));
        let mut polygon = |corners: &[(f64, f64)]| {
            let points = corners.iter().map(|(dx, dy)| Point::new(x + dx, y + dy)).collect();
            drawing.shapes.push(Shape::Polygon { points, fill, stroke });
        };
        match self.mark {
            Mark::Circle => {
                drawing.shapes.push(Shape::Circle { center: Point::new(x, y), radius: 3.4, fill, stroke });
            }
            Mark::Square => polygon(&[(-3.1, -3.1), (3.1, -3.1), (3.1, 3.1), (-3.1, 3.1)]),
            Mark::Triangle => polygon(&[(0.0, -4.4), (4.1, 2.9), (-4.1, 2.9)]),
            Mark::Down => polygon(&[(0.0, 4.4), (4.1, -2.9), (-4.1, -2.9)]),
            Mark::Diamond => polygon(&[(0.0, -4.6), (4.6, 0.0), (0.0, 4.6), (-4.6, 0.0)]),
            Mark::Cross => {
                let stroke = Stroke::solid(color, 1.8);
                drawing.line([(x - 3.4, y - 3.4), (x + 3.4, y + 3.4)], stroke);
                drawing.line([(x - 3.4, y + 3.4), (x + 3.4, y - 3.4)], stroke);
            }
        }
    }
}

/// The line of a reference value: thinner than those of series.
pub(crate) fn reference_stroke(index: usize) -> Stroke {
    const DASHES: [&[f64]; 4] = [&[4.0, 3.0], &[1.5, 2.5], &[10.0, 3.0], &[10.0, 3.0, 1.5, 3.0]];
    Stroke { color: Color::DIM, width: 1.2, dashes: DASHES[index % DASHES.len()] }
}

/// How a series looks in a bar chart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BarStyle {
    fill: Color,
    hatch: Hatch,
}

/// Lines over a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hatch {
    None,
    Rising,
    Falling,
    Crossed,
    Level,
    Upright,
}

const HATCH: Stroke = Stroke { color: Color(0x2b, 0x4a, 0x6b), width: 1.0, dashes: SOLID };
const HATCH_GAP: f64 = 5.0;

impl BarStyle {
    /// The style of the series with this number.
    pub(crate) fn of(index: usize) -> BarStyle {
        const DARK: Color = Color(0x1f, 0x3f, 0x63);
        const MIDDLE: Color = Color(0x6f, 0x97, 0xbf);
        const LIGHT: Color = Color(0xcb, 0xda, 0xe9);
        const STYLES: [(Color, Hatch); MAX_BARS] = [
            (DARK, Hatch::None),
            (LIGHT, Hatch::None),
            (MIDDLE, Hatch::None),
            (Color::WHITE, Hatch::Rising),
            (LIGHT, Hatch::Crossed),
            (Color::WHITE, Hatch::Level),
            (MIDDLE, Hatch::Falling),
            (Color::WHITE, Hatch::Upright),
        ];
        let (fill, hatch) = STYLES[index % STYLES.len()];
        BarStyle { fill, hatch }
    }

    /// Draws a bar.
    pub(crate) fn draw(&self, drawing: &mut Drawing, rect: Rect) {
        drawing.rect(rect, Some(self.fill), None);
        for line in self.hatch.lines(rect) {
            drawing.line(line, HATCH);
        }
        drawing.rect(rect, None, Some(HATCH));
    }
}

impl Hatch {
    /// Lines within a rectangle.
    fn lines(self, rect: Rect) -> Vec<[(f64, f64); 2]> {
        let (width, height) = (rect.width(), rect.height());
        // Multiples of the gap within a length, with the same space at both ends.
        let steps = |length: f64, gap: f64| {
            let count = (length / gap).ceil().max(1.0) as usize;
            (1..count).map(move |index| length * index as f64 / count as f64)
        };
        // x + y is the same on a rising line: from the left or lower side to the upper or right side.
        let rising = || {
            steps(width + height, HATCH_GAP * std::f64::consts::SQRT_2).map(|sum| {
                let (left, right) = ((sum - height).max(0.0), sum.min(width));
                [(rect.x0 + left, rect.y0 + sum - left), (rect.x0 + right, rect.y0 + sum - right)]
            })
        };
        let falling = || rising().map(|line| line.map(|(x, y)| (rect.x0 + rect.x1 - x, y)));
        match self {
            Hatch::None => Vec::new(),
            Hatch::Rising => rising().collect(),
            Hatch::Falling => falling().collect(),
            Hatch::Crossed => rising().chain(falling()).collect(),
            Hatch::Level => {
                steps(height, HATCH_GAP).map(|y| [(rect.x0, rect.y0 + y), (rect.x1, rect.y0 + y)]).collect()
            }
            Hatch::Upright => {
                steps(width, HATCH_GAP).map(|x| [(rect.x0 + x, rect.y0), (rect.x0 + x, rect.y1)]).collect()
            }
        }
    }
}

/// Light of a colour as the eye sees it, from 0 for black to 1 for white (WCAG 2, relative luminance).
pub(crate) fn luminance(Color(red, green, blue): Color) -> f64 {
    let linear = |value: u8| {
        let value = f64::from(value) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
}

/// How well one colour is read on another, from 1 to 21 (WCAG 2, contrast ratio). 4.5 is enough for text.
pub(crate) fn contrast(a: Color, b: Color) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart_without_colour() {
        let styles: Vec<LineStyle> = (0..MAX_LINES).map(LineStyle::of).collect();
        for (index, a) in styles.iter().enumerate() {
            for b in &styles[..index] {
                let same_line = a.stroke.dashes == b.stroke.dashes;
                let same_mark = a.mark == b.mark && a.is_open == b.is_open;
                assert!(!(same_line && same_mark), "{a:?} {b:?}");
            }
        }
        // Neighbours differ in both.
        for pair in styles.windows(2) {
            assert!(pair[0].stroke.dashes != pair[1].stroke.dashes && pair[0].mark != pair[1].mark);
        }
    }

    #[test]
    fn bars_are_told_apart_without_colour() {
        for index in 0..MAX_BARS {
            for other in 0..index {
                let (a, b) = (BarStyle::of(index), BarStyle::of(other));
                assert!(a.hatch != b.hatch || contrast(a.fill, b.fill) > 2.0, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn everything_that_is_read_is_dark() {
        for color in COLORS.into_iter().chain([Color::TEXT, Color::DIM, HATCH.color]) {
            assert!(contrast(color, Color::WHITE) > 4.5, "{color:?}");
        }
        assert!((contrast(Color(0, 0, 0), Color::WHITE) - 21.0).abs() < 1e-9);
    }

    #[test]
    fn hatching_stays_within_its_bar() {
        for rect in [
            Rect::new(10.0, 20.0, 40.0, 130.0),
            Rect::new(0.0, 0.0, 26.0, 3.0),
            Rect::new(0.0, 0.0, 20.0, 0.0),
        ] {
            for hatch in [Hatch::Rising, Hatch::Falling, Hatch::Crossed, Hatch::Level, Hatch::Upright] {
                let outer = rect.inflate(1e-9, 1e-9);
                for (x, y) in hatch.lines(rect).into_iter().flatten() {
                    assert!(outer.contains(Point::new(x, y)), "{hatch:?} {rect:?} {x} {y}");
                }
            }
        }
        assert!(Hatch::Rising.lines(Rect::new(10.0, 20.0, 40.0, 130.0)).len() > 10);
    }
}
