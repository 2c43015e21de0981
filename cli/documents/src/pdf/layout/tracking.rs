//! Letters that are spaced: `I N V O I C E`. Their gaps are as wide as those between words of other text, but they are
//! all the same, and those between the spaced words are wider. Numbers that stand apart are not joined.

use super::words::Letter;

/// Gaps in sizes of the font: those between spaced letters have this width.
const WIDTHS: std::ops::RangeInclusive<f64> = 0.12..=0.8;
/// Gaps of the same width differ by less than this.
const SAME: f64 = 0.05;
/// So many equal gaps in a row are spaced letters: without glyphs for spaces, and with them.
const GAPS: usize = 4;
const GAPS_WITH_SPACES: usize = 5;
/// So many of the letters around them are no digits.
const LETTERS: usize = 3;
/// Letters whose gap is smaller are not spaced.
const NONE: f64 = 0.06;
/// Between spaced words, a gap is so many times as wide.
const WIDER: f64 = 1.8;

/// The gaps between spaced letters of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tracking {
    pub(super) width: f64,
    has_spaces: bool,
}

impl Tracking {
    /// Whether the gap before a letter is none between words.
    pub(super) fn is_none(&self, letter: &Letter<'_>) -> bool {
        letter.has_space == self.has_spaces && (letter.gap - self.width).abs() <= SAME
    }
}

/// Finds the gaps between spaced letters.
pub(super) fn find(letters: &[Letter<'_>]) -> Option<Tracking> {
    let is_same = |a: &Letter<'_>, b: &Letter<'_>| (a.gap - b.gap).abs() < SAME && a.has_space == b.has_space;
    // Gaps of that width between words whose letters are not spaced: the letters are words, as in `points A B C D of`.
    let is_of_words = |gap: &Letter<'_>| {
        letters.windows(3).any(|around| {
            is_same(&around[1], gap) && around[0].gap.abs() < NONE && around[2].gap.abs() < NONE
        })
    };
    let is_wider = |width: f64| letters.iter().any(|letter| letter.gap > WIDER * width);
    letters.get(1..)?.chunk_by(is_same).find_map(|gaps| {
        let first = &gaps[0];
        let count = if first.has_space { GAPS_WITH_SPACES } else { GAPS };
        if gaps.len() < count || !WIDTHS.contains(&first.gap) {
            return None;
        }
        let is_letter = |letter: &&Letter<'_>| letter.glyph.first().is_some_and(char::is_alphabetic);
        let width = gaps.iter().map(|letter| letter.gap).sum::<f64>() / gaps.len() as f64;
        let is_spaced =
            gaps.iter().filter(is_letter).count() >= LETTERS && (!first.has_space || is_wider(width));
        let is_spaced = is_spaced && !is_of_words(first);
        is_spaced.then_some(Tracking { width, has_spaces: first.has_space })
    })
}
