//! How fast a machine reads: two numbers, one for products with the weights and one for attention. They are found from the
//! times of the pieces of a reading, of which the later ones have more attention.

use std::time::Duration;

use super::reading_work::Work;

/// How much longer a multiplication of attention takes than one with the weights, where that was not measured. On CPUs
/// with four models it was 1.6 to 2.4 (`tests/results/2026-11-23-depth.md`, `tests/results/2026-11-25-100k.md`).
const USUAL_RATIO: f64 = 2.0;
/// Ratios beyond these are noise.
const RATIOS: (f64, f64) = (0.1, 50.0);
/// The expected ratio counts as so much of a piece.
const EXPECTED_PIECES: f64 = 0.5;

/// How fast a machine reads with a model and settings, in seconds for each unit of [`Work`].
///
/// ```
/// use longhand::reading::{Pace, Work};
/// use std::time::Duration;
///
/// let pace = Pace { weights: 0.01, attention: 0.03 };
/// assert_eq!(pace.time(Work { weights: 100.0, attention: 300.0 }), Some(Duration::from_secs(10)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Of products with the weights: about the time of a token that sees few others.
    pub weights: f64,
    /// Of attention.
    pub attention: f64,
}

impl Pace {
    /// The time that work takes; `None` beyond what a duration can be.
    pub fn time(self, work: Work) -> Option<Duration> {
        Duration::try_from_secs_f64(self.seconds(work)).ok()
    }

    /// The same in seconds.
    pub(crate) fn seconds(self, work: Work) -> f64 {
        self.weights * work.weights + self.attention * work.attention
    }

    /// If a token takes a second: as long for attention as is `expected`, or usual.
    fn relative(expected: Option<Pace>) -> Pace {
        let ratio = expected.map(|pace| pace.attention / pace.weights).filter(|ratio| ratio.is_finite());
        Pace { weights: 1.0, attention: ratio.unwrap_or(USUAL_RATIO).clamp(RATIOS.0, RATIOS.1) }
    }
}

/// What the pieces of a reading took: the sums that a fit by least squares needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct PieceTimes {
    work: Work,
    seconds: f64,
    /// Sums of products of weights, attention and seconds, all divided by what the piece takes usually: a disturbance is
    /// in proportion to that.
    weights_weights: f64,
    weights_attention: f64,
    attention_attention: f64,
    weights_seconds: f64,
    attention_seconds: f64,
    /// Time of pieces without work, which belongs to the next one with work.
    pending: Duration,
}

impl Work {
    /// How much it is where attention takes as long as is usual.
    pub(crate) fn usual(self) -> f64 {
        Pace::relative(None).seconds(self)
    }

    /// How much of `all` it is, from 0 to 1.
    pub(crate) fn share_of(self, all: Work) -> f64 {
        if self == all { 1.0 } else { self.usual() / all.usual() }
    }
}

impl PieceTimes {
    /// A piece was read.
    pub fn add(&mut self, work: Work, time: Duration) {
        self.pending += time;
        let usual = work.usual();
        if usual <= 0.0 {
            return;
        }
        let seconds = std::mem::take(&mut self.pending).as_secs_f64();
        self.work = self.work + work;
        self.seconds += seconds;
        let (Work { weights, attention }, seconds) = (work * (1.0 / usual), seconds / usual);
        self.weights_weights += weights * weights;
        self.weights_attention += weights * attention;
        self.attention_attention += attention * attention;
        self.weights_seconds += weights * seconds;
        self.attention_seconds += attention * seconds;
    }

    /// The pace of these pieces; `None` where there are none. How much longer attention takes is found by least squares,
    /// where the `expected` ratio counts as some pieces, so that few or like pieces cannot lead far from it. The time of
    /// all pieces is as it was.
    pub fn pace(&self, expected: Option<Pace>) -> Option<Pace> {
        if self.seconds <= 0.0 {
            return None;
        }
        let expected = Pace::relative(expected).attention;
        // The normal equations of the pieces, and of `attention / expected = weights`.
        let of_weights = self.weights_weights + EXPECTED_PIECES;
        let of_both = self.weights_attention - EXPECTED_PIECES / expected;
        let of_attention = self.attention_attention + EXPECTED_PIECES / (expected * expected);
        let determinant = of_weights * of_attention - of_both * of_both;
        let weights = self.weights_seconds * of_attention - self.attention_seconds * of_both;
        let attention = self.attention_seconds * of_weights - self.weights_seconds * of_both;
        let fitted = Pace { weights: weights / determinant, attention: attention / determinant };
        let relative = match fitted.weights > 0.0 && determinant > 0.0 {
            true => Pace::relative(Some(fitted)),
            // All of the time is attention's.
            false => Pace { weights: 1.0, attention: RATIOS.1 },
        };
        let scale = self.seconds / relative.seconds(self.work);
        Some(Pace { weights: scale, attention: scale * relative.attention })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that takes so long for a token and for a unit of attention, and is disturbed: now and then a piece takes up
    /// to three times as long.
    struct Machine {
        pace: Pace,
        noise: u32,
    }

    impl Machine {
        fn new(weights: f64, attention: f64) -> Machine {
            Machine { pace: Pace { weights, attention }, noise: 1 }
        }

        /// Reads pieces of a text in which a row is this much attention.
        fn read(&mut self, tokens: usize, row: f64, disturbed: bool) -> PieceTimes {
            let mut times = PieceTimes::default();
            for piece in pieces(tokens, row) {
                self.noise = self.noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let noise = f64::from(self.noise >> 8) / f64::from(1 << 24);
                let longer = if disturbed { 1.0 + 2.0 * noise.powi(4) } else { 1.0 };
                times.add(piece, Duration::from_secs_f64(self.pace.seconds(piece) * longer));
            }
            times
        }
    }

    /// Chunks of 512 tokens.
    fn pieces(tokens: usize, row: f64) -> impl Iterator<Item = Work> {
        (0..tokens).step_by(512).map(move |at| {
            let n = 512.min(tokens - at) as f64;
            Work { weights: n, attention: row * n * (at as f64 + n / 2.0) }
        })
    }

    fn text(tokens: usize, row: f64) -> Work {
        pieces(tokens, row).sum()
    }

    /// As for a model of 0.5B.
    const ROW: f64 = 1.2e-4;

    #[test]
    fn two_numbers_are_found_from_the_pieces_of_a_text() {
        for (weights, attention) in [(0.01, 0.02), (0.01, 0.005), (0.001, 0.02), (0.02, 0.002)] {
            let times = Machine::new(weights, attention).read(60_000, ROW, false);
            let pace = times.pace(None).expect("a pace");
            // The expected ratio counts a little, also where the pieces tell another.
            for (tokens, error) in [(4000, 0.5), (30_000, 0.1), (60_000, 1e-6), (400_000, 0.35)] {
                let work = text(tokens, ROW);
                let longer = pace.seconds(work) / Pace { weights, attention }.seconds(work);
                assert!((longer - 1.0).abs() < error, "{weights} {attention} {tokens}: {pace:?}");
            }
        }
        assert_eq!(PieceTimes::default().pace(None), None);
    }

    #[test]
    fn a_short_text_tells_of_a_long_one() {
        // A line through the origin would promise a fortieth.
        for (weights, attention) in [(0.01, 0.016), (0.01, 0.02), (0.01, 0.024), (0.01, 0.03)] {
            for tokens in [512, 1500, 8000, 50_000] {
                let mut machine = Machine::new(weights, attention);
                let (long, real) = (text(446_782, ROW), machine.pace.seconds(text(446_782, ROW)));
                for disturbed in [false, true] {
                    let pace = machine.read(tokens, ROW, disturbed).pace(None).expect("a pace");
                    let guess = pace.seconds(long) / real;
                    assert!((0.5..2.0).contains(&guess), "{attention} {tokens} {disturbed}: {guess}");
                }
            }
        }
    }

    #[test]
    fn what_is_expected_counts_where_pieces_are_few_or_alike() {
        let mut machine = Machine::new(0.01, 0.08);
        let known = machine.read(200_000, ROW, true).pace(None).expect("a pace");
        let long = text(200_000, ROW);
        let longer = known.seconds(long) / machine.pace.seconds(long);
        assert!((1.2..1.6).contains(&longer) && known.attention > 5.0 * known.weights, "{known:?}");
        // A short text, on a machine that is half as fast now.
        machine.pace = Pace { weights: 0.02, attention: 0.16 };
        let now = machine.read(1000, ROW, false).pace(Some(known)).expect("a pace");
        assert!(
            (now.weights / 0.02 - 1.0).abs() < 0.1 && (now.attention / 0.16 - 1.0).abs() < 0.4,
            "{now:?}"
        );
        // And a longer one of which the ratio is another.
        machine.pace = Pace { weights: 0.02, attention: 0.02 };
        let now = machine.read(200_000, ROW, false).pace(Some(known)).expect("a pace");
        assert!((now.attention / 0.02 - 1.0).abs() < 0.1, "{now:?}");
    }

    #[test]
    fn the_time_of_what_was_read_is_as_it_was() {
        let mut times = PieceTimes::default();
        // Evictions, embeddings and other pieces have no work of their own.
        times.add(Work::default(), Duration::from_secs(3));
        times.add(Work { weights: 512.0, attention: 10.0 }, Duration::from_secs(2));
        times.add(Work { weights: 512.0, attention: 100.0 }, Duration::from_secs(4));
        let pace = times.pace(None).expect("a pace");
        let all = Work { weights: 1024.0, attention: 110.0 };
        assert!((pace.seconds(all) - 9.0).abs() < 1e-9, "{pace:?}");
    }

    #[test]
    fn numbers_that_cannot_be_are_none() {
        let broken = Pace { weights: 0.0, attention: f64::NAN };
        assert_eq!(Pace::relative(Some(broken)), Pace::relative(None));
        assert_eq!(broken.time(Work { weights: 1.0, attention: 1.0 }), None);
        let mut times = PieceTimes::default();
        times.add(Work { weights: 1.0, attention: 0.0 }, Duration::ZERO);
        assert_eq!(times.pace(None), None);
    }
}
