//! Drafts of an answer without a second model (prompt lookup): where the last tokens have been in the text before, the text
//! may go on as it did there. An answer that quotes a document is drafted almost entirely.
//!
//! Earlier places are found as compressors of the LZ77 family find them: all places of the same three tokens are in one
//! chain, the latest first. A text of 100,000 tokens takes 0.6 to 2.6 milliseconds and 1.8 MB. Where an answer leaves what it
//! quotes, a single token is enough to find it again: a word was changed, added or left out, and the quotation goes on near there.
//!
//! How long a draft is depends on how many of the last tokens agree with those of the earlier place, and on how right drafts after
//! such places have been. It depends on the kind of processor, too. It does not depend on time: the same answer is computed in the
//! same pieces again.

use kernels::product::Unit;

/// Tokens that a place has in common at least.
const KEY: usize = 3;
/// Places that are compared.
const MAX_PLACES: usize = 64;
/// Beyond this number of tokens in common, more say nothing.
const MAX_AGREEING: usize = 32;
/// A draft must be faster by this factor than no draft, as far as that is expected.
const MIN_GAIN: f64 = 1.1;
/// A draft that fails counts as this share of what is known of its kind.
const LEARNED: f64 = 0.25;
/// The same of a draft that was not tried, in which what is known becomes again what was assumed.
const FORGOTTEN: f64 = 0.01;
/// The share of drafted tokens that is assumed to be right, by kind: where 3, 4 to 7, 8 to 15, and more tokens agree. The last
/// kind goes on near the last draft.
const ASSUMED: [f64; 5] = [0.6, 0.8, 0.9, 0.97, 0.8];
/// The number of that kind.
const NEAR: usize = 4;
/// How far from there its source may have moved, the nearest first.
const MOVED: [isize; 5] = [0, 1, -1, 2, -2];
/// For so many tokens after a draft the answer may come back to its source.
const MAX_APART: usize = 8;

/// What computing several tokens at once takes in decode steps.
#[derive(Clone, Copy, Debug)]
struct Cost {
    fixed: f64,
    each: f64,
    /// Numbers of tokens that are computed at once are multiples of this one.
    multiple: usize,
}

impl Cost {
    /// With VNNI. Whole passes with all logits, 300 tokens before, on two threads of an EPYC of 2024 with AVX-512: for the 0.5B
    /// (q4_k_m) 2 tokens take 1.1 steps, 4 take 1.4, 8 take 2.0 and 16 take 3.0; for the 1.5B 1.4, 1.7, 2.4 and 3.7. Behind 1,700
    /// tokens they take a twelfth more (`cargo run --release -p tests --bin drafts`).
    const VNNI: Cost = Cost { fixed: 1.0, each: 0.16, multiple: 1 };
    /// On two threads of an EPYC with AVX2, with the products of that time: 4 tokens take 1.6 to 2.4 steps, 8 take 2.5 to 3.5, 12
    /// take 3.6 to 4.7 and 16 take 4.8 to 6.3. Today's were not measured there.
    const OTHER: Cost = Cost { fixed: 1.2, each: 0.25, multiple: 4 };

    fn of_this_processor() -> Cost {
        // Measured with VNNI only; ARM's dot products were not.
        if Unit::best().has_vnni() { Cost::VNNI } else { Cost::OTHER }
    }

    /// The length of a draft, of each token of which this share is right, that gives the most tokens in the time; 0 where
    /// none is worth it.
    fn best_length(self, right: f64, most: usize) -> usize {
        let (mut best, mut gain) = (0, MIN_GAIN);
        for length in (1..=most).filter(|length| (length + 1).is_multiple_of(self.multiple)) {
            let at_once = 1 + length;
            // Those that are right, and the one after them.
            let tokens: f64 = (0..at_once).map(|number| right.powi(number as i32)).sum();
            let of_length = tokens / (self.fixed + self.each * at_once as f64);
            if of_length > gain {
                (best, gain) = (length, of_length);
            }
        }
        best
    }
}

/// Drafts what follows a text.
pub(super) struct Drafts {
    /// Tokens of the longest draft.
    most: usize,
    cost: Cost,
    text: Vec<u32>,
    /// `[hashes]`: where the last place of three tokens with this hash ends; 0 where there is none.
    last: Vec<u32>,
    /// `[tokens]`: where the place before ends that has the same hash as the three tokens that end there.
    before: Vec<u32>,
    /// The share of drafted tokens that is right, by kind.
    right: [f64; ASSUMED.len()],
    /// The kind of the last draft.
    kind: usize,
    /// Where the text from which the last draft was copied would go on now; `None` before the first draft.
    source: Option<usize>,
    /// Tokens of the text when that source was left: behind the draft, or what was right of it.
    left_at: usize,
}

impl Drafts {
    /// Drafts of up to `most` tokens of what follows a text; with 0 none is ever made.
    pub(super) fn new(text: &[u32], most: usize) -> Drafts {
        let mut drafts = Drafts {
            most,
            cost: Cost::of_this_processor(),
            text: Vec::new(),
            last: Vec::new(),
            before: Vec::new(),
            right: ASSUMED,
            kind: 0,
            source: None,
            left_at: 0,
        };
        if most > 0 {
            drafts.last = vec![0; (2 * text.len()).next_power_of_two().clamp(1 << 10, 1 << 20)];
            drafts.text.reserve(text.len());
            drafts.before.reserve(text.len());
            text.iter().for_each(|token| drafts.push(*token));
        }
        drafts
    }

    /// The text goes on with this token.
    pub(super) fn push(&mut self, token: u32) {
        if self.most == 0 {
            return;
        }
        self.text.push(token);
        self.source = self.source.map(|source| source + 1);
        let before = match self.hash() {
            Some(hash) => std::mem::replace(&mut self.last[hash], self.text.len() as u32),
            None => 0,
        };
        self.before.push(before);
    }

    /// What may follow the text: at most `room` tokens, none where a draft is not expected to pay.
    pub(super) fn draft(&mut self, room: usize) -> Vec<u32> {
        let room = room.min(self.most);
        let found = self.place().or_else(|| self.near_source().map(|end| (end, NEAR)));
        let Some((end, kind)) = found.filter(|_| room > 0) else { return Vec::new() };
        self.kind = kind;
        let length = self.cost.best_length(self.right[self.kind], room);
        if length == 0 {
            let right = &mut self.right[self.kind];
            *right += FORGOTTEN * (ASSUMED[self.kind] - *right);
            return Vec::new();
        }
        (self.source, self.left_at) = (Some(end), self.text.len());
        let mut draft = Vec::with_capacity(length);
        for at in end..end + length {
            // The text may repeat itself at its very end.
            let token = self.text.get(at).copied().or_else(|| draft.get(at - self.text.len()).copied());
            draft.extend(token);
        }
        draft
    }

    /// Of the last draft, so many tokens were right before one was wrong, if one was.
    pub(super) fn learn(&mut self, drafted: usize, right: usize) {
        let tried = if right < drafted { right + 1 } else { right };
        let share = right as f64 / tried.max(1) as f64;
        self.left_at = self.text.len();
        self.right[self.kind] += LEARNED * (share - self.right[self.kind]);
    }

    /// Where an earlier place ends that agrees with the end of the text, and the kind of a draft from there. Of all places, the
    /// one that agrees longest; of those the last.
    fn place(&self) -> Option<(usize, usize)> {
        let mut best = None;
        let mut end = *self.before.last()? as usize;
        for _ in 0..MAX_PLACES {
            if end == 0 {
                break;
            }
            let pairs = self.text[..end].iter().rev().zip(self.text.iter().rev());
            let agreeing = pairs.take(MAX_AGREEING).take_while(|(a, b)| a == b).count();
            if agreeing >= KEY && best.is_none_or(|(_, longest)| agreeing > longest) {
                best = Some((end, agreeing));
            }
            end = self.before[end - 1] as usize;
        }
        best.map(|(end, agreeing)| {
            let kind = match agreeing {
                ..=3 => 0,
                4..=7 => 1,
                8..=15 => 2,
                _ => 3,
            };
            (end, kind)
        })
    }

    /// Where the last token stands near the place at which the source of the last draft would go on.
    fn near_source(&self) -> Option<usize> {
        let is_near = self.text.len() <= self.left_at + MAX_APART;
        let (source, last) = (self.source.filter(|_| is_near)?, self.text.last()?);
        let ends = MOVED.into_iter().filter_map(|by| source.checked_add_signed(by));
        let mut earlier = ends.filter(|end| (1..self.text.len()).contains(end));
        earlier.find(|end| self.text[end - 1] == *last)
    }

    /// The hash of the last three tokens.
    fn hash(&self) -> Option<usize> {
        let key = self.text.last_chunk::<KEY>()?;
        let mixed = key.iter().fold(0u64, |hash, token| {
            (hash ^ u64::from(*token)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
        });
        Some((mixed >> 20) as usize & (self.last.len() - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On whatever processor the tests run.
    fn with_avx2(text: &[u32], most: usize) -> Drafts {
        Drafts { cost: Cost::OTHER, ..Drafts::new(text, most) }
    }

    fn after(text: &[u32]) -> Vec<u32> {
        with_avx2(text, 15).draft(15)
    }

    #[test]
    fn a_text_goes_on_as_it_did() {
        let text: Vec<u32> = (0..40).chain([7, 8, 9, 10, 11, 12, 13, 14]).collect();
        assert_eq!(after(&text)[..7], [15, 16, 17, 18, 19, 20, 21]);
        assert!(after(&text[..42]).is_empty(), "two tokens are too few");
        assert!(after(&(0..100).collect::<Vec<_>>()).is_empty());
        assert!(after(&[1]).is_empty() && after(&[]).is_empty());
        let mut drafts = with_avx2(&text, 15);
        assert_eq!(drafts.draft(3), [15, 16, 17]);
        assert!(drafts.draft(0).is_empty());
        drafts.push(15);
        assert_eq!(drafts.draft(4), [16, 17, 18]);
        assert!(with_avx2(&text, 0).draft(15).is_empty());
    }

    #[test]
    fn the_place_that_agrees_longest_counts_and_the_last_of_these() {
        assert_eq!(after(&[4, 9, 1, 2, 3, 50, 5, 9, 1, 2, 3, 60, 4, 9, 1, 2, 3])[0], 50);
        assert_eq!(after(&[4, 9, 1, 2, 3, 50, 5, 9, 1, 2, 3, 60, 6, 9, 1, 2, 3])[0], 60);
    }

    #[test]
    fn a_text_that_repeats_itself_is_drafted_beyond_its_end() {
        let text: Vec<u32> = [1, 2, 3].into_iter().cycle().take(40).collect();
        let draft = after(&text);
        assert!(draft.len() > 3, "{draft:?}");
        assert!(draft.iter().eq([2, 3, 1].into_iter().cycle().take(draft.len()).collect::<Vec<_>>().iter()));
    }

    /// Behind a word that differs from the text, one token is enough to go on with it.
    #[test]
    fn a_quotation_goes_on_behind_a_word_that_differs() {
        let next = |answer: &[u32]| {
            let text: Vec<u32> = (0..40).chain(7..15).collect();
            let mut drafts = with_avx2(&text, 15);
            assert_eq!(drafts.draft(15)[0], 15);
            answer.iter().for_each(|token| drafts.push(*token));
            drafts.draft(15).first().copied()
        };
        assert_eq!(next(&[99, 16]), Some(17), "a changed word");
        assert_eq!(next(&[98, 99, 15]), Some(16), "two words more");
        assert_eq!(next(&[17]), Some(18), "two words less");
        assert_eq!(next(&[15, 16, 99, 18]), Some(19), "a changed word in the draft");
        assert_eq!(next(&[99]), None);
        assert_eq!(next(&[30]), None, "too far away");
        let own: Vec<u32> = (100..120).collect();
        assert_eq!(next(&[&own[..6], &[21]].concat()), Some(22));
        assert_eq!(next(&[&own[..], &[35]].concat()), None, "words of its own");
    }

    /// Drafts become shorter where they fail, and are tried again later.
    #[test]
    fn drafts_that_fail_are_not_made_for_a_while() {
        let text: Vec<u32> = (0..40).chain([7, 8, 9, 10, 11, 12]).collect();
        let mut drafts = with_avx2(&text, 15);
        let first = drafts.draft(15).len();
        let mut failed = 0;
        loop {
            let length = drafts.draft(15).len();
            if length == 0 {
                break;
            }
            drafts.learn(length, 0);
            failed += 1;
        }
        assert!((1..10).contains(&failed), "{failed} failed");
        let waited = (0..1000).position(|_| !drafts.draft(15).is_empty()).expect("another try");
        assert!(waited > 3, "{waited}");
        (0..20).for_each(|_| drafts.learn(8, 8));
        assert!(drafts.draft(15).len() > first);
    }

    #[test]
    fn a_draft_is_as_long_as_it_pays() {
        let lengths = |cost: Cost| [1.0, 0.95, 0.8, 0.5, 0.0].map(|right| cost.best_length(right, 15));
        assert_eq!(lengths(Cost::OTHER), [15, 11, 3, 0, 0]);
        assert_eq!(lengths(Cost::VNNI), [15, 13, 5, 2, 0]);
        assert_eq!([14, 7, 2, 0].map(|most| Cost::OTHER.best_length(1.0, most)), [11, 7, 0, 0]);
        assert_eq!([14, 7, 2, 0].map(|most| Cost::VNNI.best_length(1.0, most)), [14, 7, 2, 0]);
    }
}
