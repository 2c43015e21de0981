//! Axes: where values are, which ticks there are, and how numbers are written.

/// Larger values are left out, as infinite ones are.
const MAX_VALUE: f64 = 1e100;
/// Values that are closer to each other than this share of them are equal.
const EQUAL: f64 = 1e-6;

/// An axis of a chart.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// What is measured, and in which unit.
    pub label: String,
    /// Whether equal ratios are equally far apart, not equal differences. Values that are not above 0 are left out then.
    pub is_log: bool,
    /// How numbers are written.
    pub numbers: Numbers,
    /// Smallest and largest value that the axis has at least. It has all values of the data too, and ends at ticks.
    pub range: Option<(f64, f64)>,
}

/// How numbers are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// `0.25`, `1500`, `2e9`
    #[default]
    Plain,
    /// Shares as percentages: 0.25 is `25%`.
    Percent,
}

impl Axis {
    /// Whether the axis can show a value.
    pub fn shows(&self, value: f64) -> bool {
        value.abs() <= MAX_VALUE && (!self.is_log || value >= 1.0 / MAX_VALUE)
    }

    /// Both ends of an error bar, the lower one first; `None` where there is no error. The bar of a value within the range
    /// of the axis ends there: a score has no more than all points.
    pub fn error_bar(&self, value: f64, error: f64) -> Option<[f64; 2]> {
        let (low, high) = self.range.filter(|(low, high)| low <= high).unwrap_or((-MAX_VALUE, MAX_VALUE));
        let ends = [(value - error).max(low.min(value)), (value + error).min(high.max(value))];
        (error > 0.0 && error <= MAX_VALUE).then_some(ends)
    }
}

/// An axis with the range of its values.
pub struct Ruler {
    is_log: bool,
    /// Values and their texts, from the lower end to the upper one; at least two.
    pub ticks: Vec<(f64, String)>,
}

impl Ruler {
    /// The range of these values, with about `count` ticks. Values that the axis cannot show are ignored.
    pub fn new(axis: &Axis, values: impl Iterator<Item = f64>, count: usize) -> Ruler {
        let ends = axis.range.into_iter().flat_map(|(low, high)| [low, high]);
        let shown = ends.chain(values).filter(|value| axis.shows(*value));
        let (low, high) = shown
            .map(|value| if value.abs() < 1.0 / MAX_VALUE { 0.0 } else { value })
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let values = if axis.is_log { log_ticks(low, high, count) } else { linear_ticks(low, high, count) };
        let step = |value: f64| if axis.is_log { value } else { values[1] - values[0] };
        let ticks = values.iter().map(|value| (*value, number(*value, step(*value), axis.numbers))).collect();
        Ruler { is_log: axis.is_log, ticks }
    }

    /// Where a value is between the ends of the axis, from 0 to 1. What is beyond an end is there.
    pub fn share(&self, value: f64) -> f64 {
        let place = |value: f64| if self.is_log { value.log2() } else { value };
        let (low, high) = (self.ticks[0].0, self.ticks[self.ticks.len() - 1].0);
        ((place(value.clamp(low, high)) - place(low)) / (place(high) - place(low))).clamp(0.0, 1.0)
    }

    /// How exact numbers between two ticks are written: a power of ten, at least ten times as exact as the ticks.
    pub fn fine_step(&self) -> f64 {
        10f64.powf(((self.ticks[1].0 - self.ticks[0].0) / 10.0).log10().floor())
    }
}

/// Round numbers from the last one below the range to the first one above it.
fn linear_ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let size = low.abs().max(high.abs());
    let (low, high) = match high - low {
        _ if low > high || size == 0.0 => (0.0, 1.0),
        range if range <= EQUAL * size => (low - 0.1 * size, high + 0.1 * size),
        _ => (low, high),
    };
    let least = (high - low) / count as f64;
    let power = power_of_ten(least.log10().floor() as i32);
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= least * (1.0 - EQUAL));
    let step = factor.unwrap_or(10.0) * power;
    // What is a tick but for rounding is one.
    let (first, last) = ((low / step + EQUAL).floor(), (high / step - EQUAL).ceil());
    (0..=((last - first) as usize).max(1)).map(|index| (first + index as f64) * step).collect()
}

/// 1, 2 and 5 times powers of ten around the range, or every so many powers of ten where these are too many.
fn log_ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let (low, high) = match high {
        _ if low > high => (1.0, 10.0),
        _ if high <= low * (1.0 + EQUAL) => (low / 1.5, high * 1.5),
        _ => (low, high),
    };
    let around = |ticks: Vec<f64>| {
        let first = ticks.iter().rposition(|tick| *tick <= low * (1.0 + EQUAL)).unwrap_or(0);
        let last = ticks.iter().position(|tick| *tick >= high * (1.0 - EQUAL)).unwrap_or(ticks.len() - 1);
        ticks[first..=last].to_vec()
    };
    let (first, last) = ((low * (1.0 + EQUAL)).log10().floor() as i32, high.log10().ceil() as i32);
    let fine = (first..=last).flat_map(|power| [1.0, 2.0, 5.0].map(|factor| factor * power_of_ten(power)));
    let fine = around(fine.collect());
    let stride = ((last - first).max(1) as usize).div_ceil(count);
    let coarse = || (first..=last + stride as i32).step_by(stride).map(power_of_ten).collect();
    if fine.len() <= count + 2 { fine } else { around(coarse()) }
}

/// 10^exponent, with the digits that the decimal number has.
fn power_of_ten(exponent: i32) -> f64 {
    if exponent < 0 { 1.0 / 10f64.powi(-exponent) } else { 10f64.powi(exponent) }
}

/// A number, exact to the size of `step`.
pub fn number(value: f64, step: f64, numbers: Numbers) -> String {
    let (factor, unit) = if numbers == Numbers::Percent { (100.0, "%") } else { (1.0, "") };
    let (value, step) = (factor * value, factor * step.abs());
    let exponent = |value: f64| (value.abs().log10() + EQUAL).floor() as i32;
    let text = match value != 0.0 && (value.abs() >= 1e7 || step < 1e-5) {
        true => format!("{value:.*e}", (exponent(value) - exponent(step)).clamp(0, 9) as usize),
        false => format!("{value:.*}", if step < 1e-5 { 0 } else { (-exponent(step)).max(0) as usize }),
    };
    // A minus sign in place of a hyphen, and none before zero.
    let is_zero = !text.contains(|c: char| ('1'..='9').contains(&c));
    format!("{}{unit}", text.replace('-', if is_zero { "" } else { "−" }))
}
