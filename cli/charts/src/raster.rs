//! Fills areas in pixels, with smooth edges.

use kurbo::{BezPath, PathEl, Point};

use crate::drawing::Color;

/// Rows of samples in a row of pixels. Along a row the covered share is exact.
const SAMPLES: usize = 16;

/// Pixels on white.
pub(crate) struct Canvas {
    pub width: usize,
    pub height: usize,
    /// `(height, width, 3)`: red, green and blue.
    pub pixels: Vec<u8>,
}

/// A straight piece of an outline, from top to bottom.
struct Edge {
    top: Point,
    bottom: Point,
    /// 1 where the outline goes down, -1 where it goes up.
    winding: i32,
}

impl Edge {
    fn new(from: Point, to: Point) -> Option<Edge> {
        if from.y == to.y || !from.is_finite() || !to.is_finite() {
            return None;
        }
        Some(match from.y < to.y {
            true => Edge { top: from, bottom: to, winding: 1 },
            false => Edge { top: to, bottom: from, winding: -1 },
        })
    }

    /// Where the edge crosses this height, if it does.
    fn x_at(&self, y: f64) -> Option<f64> {
        let share = (y - self.top.y) / (self.bottom.y - self.top.y);
        (0.0..1.0).contains(&share).then_some(self.top.x + share * (self.bottom.x - self.top.x))
    }
}

impl Canvas {
    pub(crate) fn new(width: usize, height: usize) -> Canvas {
        Canvas { width, height, pixels: vec![255; 3 * width * height] }
    }

    /// Fills what the path encloses by the nonzero rule. `tolerance` is how far curves may be from their
    /// pieces.
    pub(crate) fn fill(&mut self, path: &BezPath, color: Color, tolerance: f64) {
        let mut edges = edges(path, tolerance);
        edges.sort_by(|a, b| a.top.y.total_cmp(&b.top.y));
        let Some(first) = edges.first() else { return };
        let last = edges.iter().map(|edge| edge.bottom.y).fold(first.top.y, f64::max);
        let rows = first.top.y.max(0.0) as usize..(last.ceil().max(0.0) as usize).min(self.height);
        let mut waiting = edges.iter().peekable();
        let mut active: Vec<&Edge> = Vec::new();
        let mut coverage = vec![0f64; self.width];
        for row in rows {
            active.retain(|edge| edge.bottom.y > row as f64);
            while let Some(edge) = waiting.next_if(|edge| edge.top.y < (row + 1) as f64) {
                active.push(edge);
            }
            cover_row(&active, row, &mut coverage);
            self.blend_row(row, &mut coverage, color);
        }
    }

    /// Mixes the colour into a row, and clears the coverage for the next.
    fn blend_row(&mut self, row: usize, coverage: &mut [f64], Color(red, green, blue): Color) {
        let pixels = &mut self.pixels[3 * row * self.width..][..3 * self.width];
        for (pixel, share) in pixels.chunks_exact_mut(3).zip(coverage) {
            let share = std::mem::take(share).min(1.0);
            if share > 0.0 {
                for (old, new) in pixel.iter_mut().zip([red, green, blue]) {
                    *old = (f64::from(*old) + share * (f64::from(new) - f64::from(*old))).round() as u8;
                }
            }
        }
    }
}

/// Adds the covered share of each pixel of a row.
fn cover_row(edges: &[&Edge], row: usize, coverage: &mut [f64]) {
    let mut crossings: Vec<(f64, i32)> = Vec::new();
    for sample in 0..SAMPLES {
        let y = row as f64 + (sample as f64 + 0.5) / SAMPLES as f64;
        crossings.clear();
        crossings.extend(edges.iter().filter_map(|edge| Some((edge.x_at(y)?, edge.winding))));
        crossings.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut winding = 0;
        for pair in crossings.windows(2) {
            winding += pair[0].1;
            if winding != 0 {
                cover_span(pair[0].0, pair[1].0, coverage);
            }
        }
    }
}

/// Adds a span of a row of samples.
fn cover_span(from: f64, to: f64, coverage: &mut [f64]) {
    let (from, to) = (from.max(0.0), to.min(coverage.len() as f64));
    if from >= to {
        return;
    }
    let pixels = from as usize..(to.ceil() as usize).min(coverage.len());
    for (pixel, share) in pixels.clone().zip(&mut coverage[pixels]) {
        let left = from.max(pixel as f64);
        let right = to.min((pixel + 1) as f64);
        *share += (right - left) / SAMPLES as f64;
    }
}

fn edges(path: &BezPath, tolerance: f64) -> Vec<Edge> {
    let mut edges = Vec::new();
    let (mut start, mut last) = (Point::ZERO, Point::ZERO);
    let mut add = |from, to| edges.extend(Edge::new(from, to));
    kurbo::flatten(path, tolerance, |element| match element {
        PathEl::MoveTo(point) => {
            // An area is closed, whether its path says so or not.
            add(last, start);
            (start, last) = (point, point);
        }
        PathEl::LineTo(point) => {
            add(last, point);
            last = point;
        }
        PathEl::ClosePath => {
            add(last, start);
            last = start;
        }
        // Flattening leaves no curves.
        PathEl::QuadTo(..) | PathEl::CurveTo(..) => {}
    });
    add(last, start);
    edges
}

#[cfg(test)]
mod tests {
    use kurbo::{Circle, Rect, Shape};

    use super::*;

    const BLACK: Color = Color(0, 0, 0);

    fn filled(path: &BezPath) -> Canvas {
        let mut canvas = Canvas::new(20, 20);
        canvas.fill(path, BLACK, 0.01);
        canvas
    }

    fn darkness(canvas: &Canvas) -> f64 {
        canvas.pixels.chunks(3).map(|pixel| f64::from(255 - pixel[0]) / 255.0).sum()
    }

    #[test]
    fn pixels_are_as_dark_as_they_are_covered() {
        let canvas = filled(&Rect::new(2.0, 3.0, 4.5, 4.25).to_path(0.1));
        let pixel = |x: usize, y: usize| canvas.pixels[3 * (y * 20 + x)];
        assert_eq!([pixel(1, 3), pixel(2, 3), pixel(3, 3), pixel(4, 3), pixel(5, 3)], [255, 0, 0, 128, 255]);
        assert_eq!([pixel(2, 2), pixel(2, 4), pixel(4, 4), pixel(2, 5)], [255, 191, 223, 255]);
    }

    #[test]
    fn the_darkness_of_a_circle_is_its_area() {
        let canvas = filled(&Circle::new((10.0, 10.0), 6.0).to_path(0.001));
        assert!((darkness(&canvas) - 36.0 * std::f64::consts::PI).abs() < 0.3, "{}", darkness(&canvas));
    }

    #[test]
    fn an_inner_outline_of_the_other_direction_is_a_hole() {
        let mut path = Rect::new(2.0, 2.0, 12.0, 12.0).to_path(0.1);
        path.extend(Rect::new(4.0, 4.0, 10.0, 10.0).to_path(0.1).reverse_subpaths());
        assert!((darkness(&filled(&path)) - 64.0).abs() < 0.1);
    }

    #[test]
    fn what_is_outside_of_the_canvas_is_left_out() {
        let canvas = filled(&Rect::new(-1e12, -50.0, 1e12, 1.0).to_path(0.1));
        assert!((darkness(&canvas) - 20.0).abs() < 0.1);
        assert_eq!(darkness(&filled(&Rect::new(30.0, 30.0, 40.0, 40.0).to_path(0.1))), 0.0);
    }
}
