//! Python's `random.Random`.

use std::collections::HashSet;

use super::mersenne_twister::MersenneTwister;

/// What `random.Random(seed)` is.
#[derive(Clone)]
pub(crate) struct PythonRandom(MersenneTwister);

impl PythonRandom {
    pub(crate) fn new(seed: u64) -> Self {
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        let key = [low, high];
        Self(MersenneTwister::from_key(if high == 0 { &key[..1] } else { &key }))
    }

    /// `getrandbits(bits)`, for 1 to 128 bits.
    pub(crate) fn bits(&mut self, bits: u32) -> u128 {
        let mut number = 0;
        for first in (0..bits).step_by(32) {
            let word = self.0.bits() >> (32 - (bits - first).min(32));
            number |= u128::from(word) << first;
        }
        number
    }

    /// `random()`: a number of the interval [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        let high = f64::from(self.0.bits() >> 5);
        let low = f64::from(self.0.bits() >> 6);
        (high * f64::from(1 << 26) + low) / (1u64 << 53) as f64
    }

    /// `randrange(n)`, and the index of `choice`: an integer from 0 to n - 1. `n` is at least 1.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        let bits = usize::BITS - n.leading_zeros();
        loop {
            let number = self.bits(bits) as usize;
            if number < n {
                return number;
            }
        }
    }

    /// `randint(low, high)`, both included.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// `choice(items)`. There is at least one item.
    pub(crate) fn choice<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// `''.join(choices(letters, k=length))` for ASCII letters.
    pub(crate) fn word(&mut self, letters: &[u8], length: usize) -> String {
        let letter = |unit: f64| char::from(letters[(unit * letters.len() as f64) as usize]);
        (0..length).map(|_| letter(self.unit())).collect()
    }

    /// `sample(range(n), k)`: different integers below n. `k` is at most `n`.
    pub(crate) fn sample(&mut self, n: usize, k: usize) -> Vec<usize> {
        // Python keeps whichever is smaller: a list of all numbers, or a set of the chosen ones. They choose
        // differently.
        let mut set_size = 21;
        if k > 5 {
            let mut table = 1;
            while table < 3 * k {
                table *= 4;
            }
            set_size += table;
        }
        if n <= set_size { self.sample_from_list(n, k) } else { self.sample_with_set(n, k) }
    }

    fn sample_from_list(&mut self, n: usize, k: usize) -> Vec<usize> {
        let mut pool: Vec<usize> = (0..n).collect();
        let choose = |left| {
            let chosen = pool.swap_remove(self.below(left));
            debug_assert_eq!(pool.len(), left - 1);
            chosen
        };
        (n - k + 1..=n).rev().map(choose).collect()
    }

    fn sample_with_set(&mut self, n: usize, k: usize) -> Vec<usize> {
        let mut chosen = HashSet::with_capacity(k);
        let mut numbers = Vec::with_capacity(k);
        while numbers.len() < k {
            let number = self.below(n);
            if chosen.insert(number) {
                numbers.push(number);
            }
        }
        numbers
    }

    /// `shuffle(items)`.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Expected {
        seed: u64,
        words: [u128; 3],
        unit: f64,
        seven_bits: u128,
        many_bits: u128,
        between: usize,
        choice: usize,
        letters: &'static str,
        from_set: [usize; 3],
        from_list: [usize; 8],
        long_from_list: [usize; 30],
        long_from_set: [usize; 30],
        shuffled: [usize; 20],
    }

    /// Printed by Python 3.11.
    #[rustfmt::skip] // one number a line is too long
    const EXPECTED: [Expected; 3] = [
        Expected {
            seed: 0,
            words: [3626764237, 1654615998, 3255389356],
            unit: 0.890243920837131,
            seven_bits: 5,
            many_bits: 165352626148851662851368214428100615738,
            between: 7793667,
            choice: 940,
            letters: "hdefjfch",
            from_set: [633, 818, 256],
            from_list: [8, 2, 4, 0, 5, 6, 9, 1],
            long_from_list: [
                71, 12, 45, 55, 40, 78, 81, 26, 70, 61, 56, 66, 33, 7, 91, 1, 11, 51, 80, 0, 94, 63, 42, 31, 41, 8,
                24, 72, 28, 30,
            ],
            long_from_set: [
                1645, 1981, 291, 1644, 1112, 917, 186, 164, 655, 1792, 1040, 1910, 1002, 223, 617, 1128, 596, 1447,
                255, 1121, 681, 1668, 1888, 1106, 416, 1973, 1637, 1235, 1120, 1203,
            ],
            shuffled: [6, 18, 7, 1, 5, 8, 15, 16, 0, 11, 13, 17, 4, 3, 19, 10, 12, 2, 14, 9],
        },
        Expected {
            seed: 42,
            words: [2746317213, 478163327, 107420369],
            unit: 0.7415504997598329,
            seven_bits: 31,
            many_bits: 34877300042928551415723065784521742046,
            between: 2458591,
            choice: 604,
            letters: "eacfabgf",
            from_set: [225, 459, 603],
            from_list: [4, 0, 2, 5, 3, 7, 9, 8],
            long_from_list: [
                27, 97, 43, 13, 11, 48, 12, 45, 44, 77, 33, 5, 58, 68, 15, 94, 10, 70, 37, 80, 79, 46, 73, 24, 8,
                88, 29, 81, 83, 90,
            ],
            long_from_set: [
                1774, 206, 778, 569, 928, 1301, 1708, 747, 333, 758, 727, 429, 1372, 546, 1437, 1918, 1399, 1327,
                146, 1247, 1300, 350, 1093, 1493, 501, 334, 946, 777, 552, 1895,
            ],
            shuffled: [14, 15, 19, 8, 2, 11, 9, 3, 16, 4, 6, 5, 12, 0, 13, 18, 1, 10, 7, 17],
        },
        Expected {
            seed: (1 << 40) + 7,
            words: [2635837658, 3209733218, 3500038837],
            unit: 0.937932416386988,
            seven_bits: 81,
            many_bits: 85357943281369917891337831484789956596,
            between: 3126524,
            choice: 529,
            letters: "dhdeicih",
            from_set: [184, 140, 754],
            from_list: [8, 2, 0, 9, 7, 6, 1, 5],
            long_from_list: [
                91, 73, 75, 3, 72, 19, 6, 44, 37, 77, 61, 96, 48, 74, 92, 33, 60, 85, 81, 31, 95, 98, 63, 24, 27,
                20, 83, 93, 18, 52,
            ],
            long_from_set: [
                795, 145, 1676, 18, 1516, 715, 1416, 1099, 1279, 1535, 1806, 1387, 913, 994, 1515, 693, 383, 584,
                218, 1679, 403, 79, 1608, 1111, 1412, 1449, 1876, 596, 220, 341,
            ],
            shuffled: [0, 4, 12, 9, 18, 8, 5, 1, 3, 11, 19, 6, 14, 2, 7, 15, 10, 13, 16, 17],
        },
    ];

    #[test]
    fn numbers_are_those_of_python() {
        for expected in EXPECTED {
            let mut random = PythonRandom::new(expected.seed);
            let numbers: Vec<usize> = (0..1000).collect();
            assert_eq!(random.bits(32), expected.words[0]);
            assert_eq!(random.bits(32), expected.words[1]);
            assert_eq!(random.bits(32), expected.words[2]);
            assert_eq!(random.unit(), expected.unit);
            assert_eq!(random.bits(7), expected.seven_bits);
            assert_eq!(random.bits(128), expected.many_bits);
            assert_eq!(random.between(1_000_000, 9_999_999), expected.between);
            assert_eq!(*random.choice(&numbers), expected.choice);
            assert_eq!(random.word(b"abcdefghij", 8), expected.letters);
            assert_eq!(random.sample(1000, 3), expected.from_set);
            assert_eq!(random.sample(10, 8), expected.from_list);
            assert_eq!(random.sample(100, 30), expected.long_from_list);
            assert_eq!(random.sample(2000, 30), expected.long_from_set);
            let mut items: [usize; 20] = std::array::from_fn(|i| i);
            random.shuffle(&mut items);
            assert_eq!(items, expected.shuffled);
        }
    }

    #[test]
    fn a_sample_may_be_empty_or_everything() {
        let mut random = PythonRandom::new(1);
        assert!(random.sample(0, 0).is_empty());
        assert!(random.sample(1000, 0).is_empty());
        let mut all = random.sample(300, 300);
        all.sort_unstable();
        assert!(all.into_iter().eq(0..300));
    }
}
