//! Axes: where values are, which ticks there are and how numbers are written.

use crate::drawing::Face;

/// Larger values are left out, as infinite ones are.
const MAX_VALUE: f64 = 1e100;
/// Smaller values are 0.
const MIN_VALUE: f64 = 1e-100;
/// Values that are closer to each other than this share of them are equal.
const EQUAL: f64 = 1e-6;

/// An axis of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What is measured, and in which unit.
    pub label: String,
    /// How values are spaced.
    pub scale: Scale,
    /// How numbers are written.
    pub numbers: Numbers,
    /// Smallest and largest value that the axis has at least. It has all values of the data too, and ends at
    /// ticks.
    pub range: Option<(f64, f64)>,
}

/// How values are spaced on an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equally far apart.
    #[default]
    Linear,
    /// Equal ratios are equally far apart. Values that are not above 0 are left out.
    Log,
}

/// How numbers are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// `0.25`, `1,500`, `2e9`
    #[default]
    Plain,
    /// Shares as percentages: 0.25 is `25%`.
    Percent,
    /// Counts of tokens, with ticks at powers of two: 32768 is `32k`.
    Binary,
}

impl Axis {
    /// Whether the axis can show a value.
    pub(crate) fn shows(&self, value: f64) -> bool {
        match self.scale {
            Scale::Linear => value.abs() <= MAX_VALUE,
            Scale::Log => (MIN_VALUE..=MAX_VALUE).contains(&value),
        }
    }
}

/// An axis with the range of its values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    pub ticks: Vec<Tick>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub value: f64,
    pub label: String,
}

impl Ruler {
    /// The range of these values, with about `count` ticks. Values that the axis cannot show are ignored.
    pub(crate) fn new(axis: &Axis, values: impl IntoIterator<Item = f64>, count: usize) -> Ruler {
        let ends = axis.range.into_iter().flat_map(|(low, high)| [low, high]);
        let (low, high) = ends
            .chain(values)
            .filter(|value| axis.shows(*value))
            .map(|value| if value.abs() < MIN_VALUE { 0.0 } else { value })
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let values = match axis.scale {
            Scale::Linear => linear_ticks(spread(low, high), axis.numbers, count),
            Scale::Log => log_ticks(spread_log(low, high), axis.numbers, count),
        };
        let step = values[1] - values[0];
        let label = |value: f64| match axis.scale {
            Scale::Linear => number(value, step, axis.numbers),
            Scale::Log => number(value, value, axis.numbers),
        };
        let ticks = values.iter().map(|value| Tick { value: *value, label: label(*value) }).collect();
        Ruler { scale: axis.scale, low: values[0], high: values[values.len() - 1], ticks }
    }

    /// Where a value is between the ends of the axis, from 0 to 1. What is beyond an end is there.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let place = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log => value.log2(),
        };
        let (low, high) = (place(self.low), place(self.high));
        // A logarithm needs the value of an end, not what is beyond it.
        ((place(value.clamp(self.low, self.high)) - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// Width of the widest label.
    pub(crate) fn width(&self, face: Face) -> f64 {
        self.ticks.iter().map(|tick| face.width(&tick.label)).fold(0.0, f64::max)
    }
}

/// A range that is not empty.
fn spread(low: f64, high: f64) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if low > high || size == 0.0 {
        (0.0, 1.0)
    } else if high - low <= EQUAL * size {
        (low - 0.1 * size, high + 0.1 * size)
    } else {
        (low, high)
    }
}

fn spread_log(low: f64, high: f64) -> (f64, f64) {
    if low > high {
        (1.0, 10.0)
    } else if high <= low * (1.0 + EQUAL) {
        (low / 1.5, high * 1.5)
    } else {
        (low, high)
    }
}

/// Round numbers from the last one below the range to the first one above it.
fn linear_ticks((low, high): (f64, f64), numbers: Numbers, count: usize) -> Vec<f64> {
    let step = round_step((high - low) / count as f64, numbers);
    // What is a tick but for rounding is one.
    let first = (low / step + EQUAL).floor();
    let last = (high / step - EQUAL).ceil();
    (0..=(last - first) as usize).map(|index| (first + index as f64) * step).collect()
}

/// The next larger of 1, 2 and 5 times a power of ten; of powers of two for counts of tokens.
fn round_step(step: f64, numbers: Numbers) -> f64 {
    if numbers == Numbers::Binary && step > 1.0 {
        return step.log2().ceil().exp2();
    }
    let power = power_of_ten(step.log10().floor() as i32);
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= step * (1.0 - EQUAL));
    factor.unwrap_or(10.0) * power
}

/// 10^exponent, with the digits that the decimal number has.
fn power_of_ten(exponent: i32) -> f64 {
    if exponent < 0 { 1.0 / 10f64.powi(-exponent) } else { 10f64.powi(exponent) }
}

/// Round numbers of which each is about the same multiple of the one before.
fn log_ticks(range: (f64, f64), numbers: Numbers, count: usize) -> Vec<f64> {
    let (base, factors): (f64, &[f64]) = match numbers {
        Numbers::Binary => (2.0, &[1.0]),
        _ => (10.0, &[1.0, 2.0, 5.0]),
    };
    let power = |exponent: i32| if base == 2.0 { f64::from(exponent).exp2() } else { power_of_ten(exponent) };
    let first = range.0.log(base).floor() as i32 - 1;
    let last = range.1.log(base).ceil() as i32 + 1;
    let fine: Vec<f64> = (first..=last)
        .flat_map(|exponent| factors.iter().map(move |factor| factor * power(exponent)))
        .collect();
    let fine = around(&fine, range);
    if fine.len() <= count + 2 {
        return fine;
    }
    let first = (range.0 * (1.0 + EQUAL)).log(base).floor() as i32;
    let end = (range.1 * (1.0 - EQUAL)).log(base).ceil() as i32;
    let stride = ((end - first).unsigned_abs() as usize).div_ceil(count).max(1);
    let coarse: Vec<f64> = (0..=count as i32 + 1).map(|index| power(first + index * stride as i32)).collect();
    around(&coarse, range)
}

/// The ticks from the last one below the range to the first one above it. The ticks reach beyond the range.
fn around(ticks: &[f64], (low, high): (f64, f64)) -> Vec<f64> {
    let first = ticks.iter().rposition(|tick| *tick <= low * (1.0 + EQUAL)).unwrap_or(0);
    let last = ticks.iter().position(|tick| *tick >= high * (1.0 - EQUAL)).unwrap_or(ticks.len() - 1);
    ticks[first..=last].to_vec()
}

/// A number, exact to the size of `step`.
pub(crate) fn number(value: f64, step: f64, numbers: Numbers) -> String {
    let (value, step, unit) = match numbers {
        Numbers::Percent => (100.0 * value, 100.0 * step, "%"),
        Numbers::Plain | Numbers::Binary => (value, step, ""),
    };
    if numbers == Numbers::Binary && value != 0.0 {
        for (size, unit) in [(1_048_576.0, "M"), (1024.0, "k")] {
            if value % size == 0.0 && value.abs() < 1e5 * size {
                return signed(&format!("{}{unit}", value / size));
            }
        }
    }
    let exponent = |value: f64| (value.abs().log10() + EQUAL).floor() as i32;
    let is_exponential = value != 0.0 && (value.abs() >= 1e7 || step.abs() < 1e-5);
    if is_exponential {
        let digits = (exponent(value) - exponent(step)).clamp(0, 9) as usize;
        return signed(&format!("{value:.digits$e}{unit}"));
    }
    // Zero among exponents is `0`.
    let decimals = if step.abs() < 1e-5 { 0 } else { (-exponent(step)).max(0) as usize };
    signed(&format!("{}{unit}", with_commas(&format!("{value:.decimals$}"))))
}

/// The text of a number with a minus sign in place of a hyphen, and none before zero.
fn signed(number: &str) -> String {
    match number.strip_prefix('-') {
        Some(rest) if rest.contains(|c: char| ('1'..='9').contains(&c)) => {
            format!("−{}", rest.replace('-', "−"))
        }
        Some(rest) => rest.to_owned(),
        None => number.replace('-', "−"),
    }
}

/// `12,345.6`; four digits have no comma.
fn with_commas(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |digits| ("-", digits));
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    if whole.len() < 5 {
        return number.to_owned();
    }
    let groups: Vec<&str> =
        whole.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    format!("{sign}{}{fraction}", groups.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64], count: usize) -> Vec<String> {
        Ruler::new(axis, values.iter().copied(), count).ticks.into_iter().map(|tick| tick.label).collect()
    }

    fn axis(scale: Scale, numbers: Numbers) -> Axis {
        Axis { scale, numbers, ..Axis::default() }
    }

    #[test]
    fn linear_ticks_are_round_and_enclose_the_values() {
        let plain = axis(Scale::Linear, Numbers::Plain);
        assert_eq!(labels(&plain, &[0.0, 1.0], 5), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&plain, &[0.13, 0.87], 5), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&plain, &[-3.0, 12.0], 5), ["−5", "0", "5", "10", "15"]);
        assert_eq!(labels(&plain, &[0.0, 131_072.0], 4), ["0", "50,000", "100,000", "150,000"]);
        assert_eq!(labels(&plain, &[0.0, 3e9], 3), ["0", "1e9", "2e9", "3e9"]);
        assert_eq!(labels(&plain, &[0.0, 4e-7], 4), ["0", "1e−7", "2e−7", "3e−7", "4e−7"]);
        let percent = axis(Scale::Linear, Numbers::Percent);
        assert_eq!(labels(&percent, &[0.0, 1.0], 4), ["0%", "50%", "100%"]);
        assert_eq!(labels(&percent, &[0.981, 0.999], 4), ["98.0%", "98.5%", "99.0%", "99.5%", "100.0%"]);
    }

    #[test]
    fn log_ticks_are_round_and_enclose_the_values() {
        let plain = axis(Scale::Log, Numbers::Plain);
        assert_eq!(labels(&plain, &[3.0, 70.0], 7), ["2", "5", "10", "20", "50", "100"]);
        assert_eq!(
            labels(&plain, &[0.002, 3000.0], 7),
            ["0.001", "0.01", "0.1", "1", "10", "100", "1000", "10,000"]
        );
        assert_eq!(labels(&plain, &[1e-90, 1e90], 4).len(), 5);
        let percent = axis(Scale::Log, Numbers::Percent);
        assert_eq!(labels(&percent, &[0.05, 1.0], 7), ["5%", "10%", "20%", "50%", "100%"]);
        let binary = axis(Scale::Log, Numbers::Binary);
        assert_eq!(
            labels(&binary, &[512.0, 131_072.0], 8),
            ["512", "1k", "2k", "4k", "8k", "16k", "32k", "64k", "128k"]
        );
        assert_eq!(labels(&binary, &[512.0, 131_072.0], 6), ["512", "2k", "8k", "32k", "128k"]);
        assert_eq!(labels(&binary, &[1024.0, 1_048_576.0], 6), ["1k", "4k", "16k", "64k", "256k", "1M"]);
    }

    #[test]
    fn ticks_of_token_counts_are_multiples_of_a_power_of_two() {
        let binary = axis(Scale::Linear, Numbers::Binary);
        assert_eq!(labels(&binary, &[0.0, 100_000.0], 4), ["0", "32k", "64k", "96k", "128k"]);
    }

    #[test]
    fn no_value_and_one_value_have_a_range() {
        let plain = axis(Scale::Linear, Numbers::Plain);
        assert_eq!(labels(&plain, &[], 2), ["0.0", "0.5", "1.0"]);
        assert_eq!(labels(&plain, &[f64::NAN, f64::INFINITY, -1e300], 2), ["0.0", "0.5", "1.0"]);
        assert_eq!(labels(&plain, &[0.0], 2), ["0.0", "0.5", "1.0"]);
        assert_eq!(labels(&plain, &[50.0], 5), ["44", "46", "48", "50", "52", "54", "56"]);
        let log = axis(Scale::Log, Numbers::Plain);
        assert_eq!(labels(&log, &[-5.0, 0.0], 5), ["1", "2", "5", "10"]);
        assert_eq!(labels(&log, &[1.0], 5), ["0.5", "1", "2"]);
    }

    #[test]
    fn a_range_is_a_minimum() {
        let axis = Axis { range: Some((0.0, 1.0)), ..Axis::default() };
        assert_eq!(labels(&axis, &[0.4, 0.5], 2), ["0.0", "0.5", "1.0"]);
        assert_eq!(labels(&axis, &[0.4, 1.6], 2), ["0", "1", "2"]);
    }

    #[test]
    fn values_have_their_place_on_the_axis() {
        let linear = Ruler::new(&axis(Scale::Linear, Numbers::Plain), [0.0, 10.0], 5);
        assert_eq!([linear.share(0.0), linear.share(2.5), linear.share(10.0)], [0.0, 0.25, 1.0]);
        let log = Ruler::new(&axis(Scale::Log, Numbers::Binary), [1024.0, 16384.0], 5);
        assert_eq!([log.share(1024.0), log.share(4096.0), log.share(16384.0)], [0.0, 0.5, 1.0]);
    }

    #[test]
    fn numbers_are_as_exact_as_their_step() {
        let plain = |value, step| number(value, step, Numbers::Plain);
        assert_eq!(plain(0.934, 0.01), "0.93");
        assert_eq!(plain(-0.001, 0.01), "0.00");
        assert_eq!(plain(-1234.5, 1.0), "−1234");
        assert_eq!(plain(-12_345.6, 0.1), "−12,345.6");
        assert_eq!(plain(123_456_789.0, 1e6), "1.23e8");
        assert_eq!(number(0.934, 0.01, Numbers::Percent), "93%");
        assert_eq!(number(1536.0, 512.0, Numbers::Binary), "1536");
    }
}
