//! Pseudo-random numbers for synthetic tokens, weights, rows and documents. The same seed gives the same
//! numbers on every machine.

/// SplitMix64 (Steele, Lea and Flood 2014) with its state, at first the seed.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An integer from 0 to n - 1; `n` is at least 1.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// A number of the interval [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Approximately normally distributed with mean 0 and variance 1: the centred sum of twelve uniform
    /// numbers.
    pub fn normal(&mut self) -> f32 {
        let sum: f64 = (0..12).map(|_| self.unit()).sum();
        (sum - 6.0) as f32
    }

    /// Puts the items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the authors' program with the seed 1234567.
    #[test]
    fn the_numbers_are_those_of_the_published_generator() {
        let mut random = Random(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(expected, std::array::from_fn::<u64, 3, _>(|_| random.bits()));
    }
}
