//! MT19937 (Matsumoto and Nishimura 1998), which Python and numpy seed differently.

const WORDS: usize = 624;
const OFFSET: usize = 397;

/// The generator's state.
#[derive(Clone)]
pub(super) struct MersenneTwister {
    words: [u32; WORDS],
    next: usize,
}

impl MersenneTwister {
    /// Seeded with one number (the authors' `init_genrand`), as numpy does.
    pub(super) fn from_number(seed: u32) -> Self {
        let mut words = [seed; WORDS];
        for i in 1..WORDS {
            let before = words[i - 1] ^ (words[i - 1] >> 30);
            words[i] = before.wrapping_mul(1_812_433_253).wrapping_add(i as u32);
        }
        Self { words, next: WORDS }
    }

    /// Seeded with one or more numbers (the authors' `init_by_array`), as Python does.
    pub(super) fn from_key(key: &[u32]) -> Self {
        let mut twister = Self::from_number(19_650_218);
        let mut i = 1;
        for step in 0..WORDS.max(key.len()) {
            let j = step % key.len();
            let mixed = twister.mix(i, 1_664_525);
            twister.words[i] = mixed.wrapping_add(key[j]).wrapping_add(j as u32);
            i = twister.after(i);
        }
        for _ in 1..WORDS {
            twister.words[i] = twister.mix(i, 1_566_083_941).wrapping_sub(i as u32);
            i = twister.after(i);
        }
        twister.words[0] = 1 << 31;
        twister
    }

    fn mix(&self, i: usize, factor: u32) -> u32 {
        let before = self.words[i - 1] ^ (self.words[i - 1] >> 30);
        self.words[i] ^ before.wrapping_mul(factor)
    }

    /// The word after `i`. Word 0 is a copy of the last one when its turn comes.
    fn after(&mut self, i: usize) -> usize {
        if i + 1 < WORDS {
            return i + 1;
        }
        self.words[0] = self.words[WORDS - 1];
        1
    }

    /// The next 32 bits.
    pub(super) fn bits(&mut self) -> u32 {
        if self.next == WORDS {
            self.refill();
        }
        let mut y = self.words[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    fn refill(&mut self) {
        for i in 0..WORDS {
            let y = (self.words[i] & 0x8000_0000) | (self.words[(i + 1) % WORDS] & 0x7fff_ffff);
            let twist = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            self.words[i] = self.words[(i + OFFSET) % WORDS] ^ (y >> 1) ^ twist;
        }
        self.next = 0;
    }
}
