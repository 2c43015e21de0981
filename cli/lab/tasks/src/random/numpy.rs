//! numpy's legacy generator: `numpy.random.seed` and `numpy.random.randint`.

use super::mersenne_twister::MersenneTwister;

/// What `numpy.random.seed(seed)` sets up.
#[derive(Clone)]
pub(crate) struct NumpyRandom(MersenneTwister);

impl NumpyRandom {
    pub(crate) fn new(seed: u32) -> Self {
        Self(MersenneTwister::from_number(seed))
    }

    /// `numpy.random.randint(low, high)`: an integer from `low` to `high - 1`. Numbers above the range are drawn
    /// again, with as many bits as the range has.
    pub(crate) fn randint(&mut self, low: u32, high: u32) -> u32 {
        let range = high - low - 1;
        let mask = u32::MAX.checked_shr(range.leading_zeros()).unwrap_or(0);
        loop {
            let number = self.0.bits() & mask;
            if number <= range {
                return low + number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed by numpy 2.4.6.
    #[test]
    fn integers_are_those_of_numpy() {
        let expected = [
            (0, [78268, 53567, 52613, 55891, 31243]),
            (42, [25795, 10860, 86820, 64886, 16265]),
            (u32::MAX, [37043, 26674, 54103, 24260, 75088]),
        ];
        for (seed, numbers) in expected {
            let mut random = NumpyRandom::new(seed);
            assert_eq!(numbers, std::array::from_fn(|_| random.randint(10_000, 99_999)), "seed {seed}");
        }
    }
}
