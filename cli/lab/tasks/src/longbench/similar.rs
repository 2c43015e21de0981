//! How similar two texts are, as `SequenceMatcher.ratio` of Python's `difflib` has it (Ratcliff and Obershelp 1988).

use std::collections::HashMap;

/// Second texts of so many characters have popular characters, of which no common part begins.
const POPULAR_FROM: usize = 200;

/// Twice the characters of all common parts by the characters of both texts; 1 for two empty texts.
pub(super) fn ratio(a: &str, b: &str) -> f64 {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let all = a.len() + b.len();
    if all == 0 {
        return 1.0;
    }
    2.0 * Matcher::new(&a, &b).common() as f64 / all as f64
}

struct Matcher<'a> {
    a: &'a [char],
    b: &'a [char],
    /// Where each character of `b` is, without the popular ones.
    places: HashMap<char, Vec<usize>>,
}

/// A part of both texts.
#[derive(Clone, Copy, Default)]
struct CommonPart {
    a: usize,
    b: usize,
    len: usize,
}

impl<'a> Matcher<'a> {
    fn new(a: &'a [char], b: &'a [char]) -> Matcher<'a> {
        let mut places: HashMap<char, Vec<usize>> = HashMap::new();
        for (place, c) in b.iter().enumerate() {
            places.entry(*c).or_default().push(place);
        }
        if b.len() >= POPULAR_FROM {
            places.retain(|_, places| places.len() <= b.len() / 100 + 1);
        }
        Matcher { a, b, places }
    }

    /// Characters of all common parts: of the longest one, and of those before it and after it.
    fn common(&self) -> usize {
        let mut common = 0;
        let mut open = vec![([0, self.a.len()], [0, self.b.len()])];
        while let Some((in_a, in_b)) = open.pop() {
            let part = self.longest(in_a, in_b);
            if part.len == 0 {
                continue;
            }
            common += part.len;
            open.push(([in_a[0], part.a], [in_b[0], part.b]));
            open.push(([part.a + part.len, in_a[1]], [part.b + part.len, in_b[1]]));
        }
        common
    }

    /// The longest common part within these ends, the first one of several.
    fn longest(&self, [a_begin, a_end]: [usize; 2], [b_begin, b_end]: [usize; 2]) -> CommonPart {
        let mut best = CommonPart { a: a_begin, b: b_begin, len: 0 };
        // Lengths of the common parts that end at the last character of `a`, by their ends in `b`.
        let mut lengths: HashMap<usize, usize> = HashMap::new();
        for i in a_begin..a_end {
            let mut longer = HashMap::new();
            let places = self.places.get(&self.a[i]).into_iter().flatten();
            for &j in places.filter(|j| (b_begin..b_end).contains(*j)) {
                let before = j.checked_sub(1).and_then(|before| lengths.get(&before));
                let len = before.copied().unwrap_or(0) + 1;
                longer.insert(j, len);
                if len > best.len {
                    best = CommonPart { a: i + 1 - len, b: j + 1 - len, len };
                }
            }
            lengths = longer;
        }
        // Popular characters on both sides belong to it.
        while best.a > a_begin && best.b > b_begin && self.a[best.a - 1] == self.b[best.b - 1] {
            best = CommonPart { a: best.a - 1, b: best.b - 1, len: best.len + 1 };
        }
        let ends = |part: CommonPart| (part.a + part.len, part.b + part.len);
        while ends(best).0 < a_end && ends(best).1 < b_end && self.a[ends(best).0] == self.b[ends(best).1] {
            best.len += 1;
        }
        best
    }
}
