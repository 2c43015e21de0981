//! Error bars: vertical lines with a cap at both ends.

use crate::axis::Axis;
use crate::drawing::{Color, Drawing, Stroke};

/// From the middle of a cap to its end.
const CAP: f64 = 3.5;

/// Both ends of an error bar, the lower one first. `None` where there is no error. The bar of a value within the range
/// of its axis ends there: a score has no more than all points.
pub(crate) fn ends(axis: &Axis, value: f64, error: f64) -> Option<[f64; 2]> {
    if error <= 0.0 || !axis.shows(error) {
        return None;
    }
    let range = axis.range.filter(|(low, high)| low <= high);
    let (low, high) = range.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
    Some([(value - error).max(low.min(value)), (value + error).min(high.max(value))])
}

/// Draws an error bar at `x` between two heights. White around it makes it visible on lines and dark bars.
pub(crate) fn draw(drawing: &mut Drawing, x: f64, heights: [f64; 2], color: Color) {
    for stroke in [Stroke::solid(Color::WHITE, 3.6), Stroke::solid(color, 1.2)] {
        drawing.line(heights.map(|y| (x, y)), stroke);
        for y in heights {
            drawing.line([(x - CAP, y), (x + CAP, y)], stroke);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_stay_within_the_range_and_errors_are_positive() {
        let axis = |range| Axis { range, ..Axis::default() };
        let scores = axis(Some((0.0, 100.0)));
        assert_eq!(ends(&scores, 50.0, 5.0), Some([45.0, 55.0]));
        assert_eq!(ends(&scores, 98.0, 5.0), Some([93.0, 100.0]));
        assert_eq!(ends(&scores, 120.0, 5.0), Some([115.0, 120.0]));
        assert_eq!(ends(&axis(None), 98.0, 5.0), Some([93.0, 103.0]));
        assert_eq!(ends(&axis(Some((f64::NAN, 100.0))), 98.0, 5.0), Some([93.0, 103.0]));
        for none in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(ends(&scores, 50.0, none), None, "{none}");
        }
    }
}
