//! Policies: what the heads that may forget keep. A policy says which positions compete, for how many places and by which
//! numbers; the store ([`super::Store`]) measures, picks, moves and sums, the same for all. The names, parameters and help
//! that users see are in [`registry`].

mod ahakv;
mod full;
mod h2o;
pub mod l2;
pub mod lagkv;
pub mod pool;
mod razor;
pub mod recent;
pub mod registry;
mod slimkv;
mod snapkv;
mod streaming;
mod tova;

pub use registry::{PolicyChoice, REGISTRY};

use kernels::graph::Gain;
use kernels::measure::Measure;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Decides what bounded heads keep.
pub trait Policy: fmt::Debug {
    /// Rows that a head holds at most when a compression is over, in a session of `context` tokens.
    fn budget(&self, context: usize) -> usize;

    /// Rows that may gather beyond the budget before the next compression.
    fn slack(&self, _context: usize) -> usize {
        0
    }

    /// Why the policy makes no sense in a session of `context` tokens, if it does not.
    fn check(&self, _context: usize) -> Result<(), String> {
        Ok(())
    }

    /// Whether the heads of a layer keep everything all the same.
    fn spares(&self, _layer: usize) -> bool {
        false
    }

    /// What has to be kept of the attention while the model runs.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// What competes for which places now; `None` where nothing has to leave and nothing has to be scored.
    fn cut(&self, moment: &Moment) -> Option<Cut>;

    /// Scores rows from the numbers that the cut asked for: per head one a row, the higher the more worth keeping. The first of
    /// the numbers, unless the policy has more to say. Not called for cuts without numbers.
    fn score(&self, rows: ScoredRows) -> Vec<Vec<f32>> {
        rows.as_they_are()
    }
}

/// What a policy needs of the attention.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Needs {
    /// Queries of the last so many tokens, for [`Basis::Window`].
    pub queries: usize,
    /// Attention gathered row by row while the model runs, for [`Basis::Gathered`].
    pub gathered: Option<Gathered>,
}

/// Attention that rows gather.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gathered {
    /// From which queries of a text or a chunk of it.
    pub chunk: Option<Counted>,
    /// Whether a decode step adds to what was gathered; otherwise it replaces it.
    pub steps_add: bool,
    /// Sharpness of the rows.
    pub gain: Gain,
}

/// Which queries of a chunk count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// All of them, on top of what was gathered.
    All,
    /// Only the last, instead of what was gathered.
    Last,
}

/// What has just happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first text was read with full attention; nothing has left yet.
    Text,
    /// Several tokens were computed against the rows kept.
    Chunk,
    /// One token was.
    Step,
}

/// The state of a lane when a policy is asked.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// What has happened.
    pub event: Event,
    /// Whether rows must leave, as far as the policy allows, because there is no room for the next.
    pub forced: bool,
    /// Tokens seen, those that left included.
    pub seen: usize,
    /// Rows held by each head, the compensation entry excluded.
    pub live: usize,
    /// End of the positions that were cut so far.
    pub done: usize,
    /// Rows that were kept of the text read with full attention.
    pub of_text: usize,
    /// Tokens the session has room for.
    pub context: usize,
}

impl Moment {
    /// How many of `slack` rows may gather now: decode steps let them, unless there is no room.
    fn slack(&self, slack: usize) -> usize {
        if self.event == Event::Step && !self.forced { slack } else { 0 }
    }
}

/// Positions that compete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The positions; rows whose positions are in none stay.
    pub positions: Range<usize>,
    /// How many of their rows stay: those of the highest scores, of equal ones those of the smaller positions.
    pub keep: usize,
}

/// Who competes, and by what.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    /// The regions, ascending, without overlap.
    pub regions: Vec<Region>,
    /// What is scored; nothing where regions keep no rows.
    pub scored: Option<Scored>,
}

impl Cut {
    /// A cut of one region.
    pub fn one(positions: Range<usize>, keep: usize, scored: Option<Scored>) -> Cut {
        Cut { regions: vec![Region { positions, keep }], scored }
    }

    /// A cut of one region by what its rows have gathered.
    fn by_gathered(positions: Range<usize>, keep: usize) -> Cut {
        let scored = Scored { ordered: None, by: vec![Basis::Gathered], remembered: false };
        Cut::one(positions, keep, Some(scored))
    }
}

/// Rows that are scored.
#[derive(Clone, Debug)]
pub struct Scored {
    /// Where neighbours matter: the rows of these positions, in their order. Otherwise all rows of a head, as they lie.
    pub ordered: Option<Range<usize>>,
    /// The numbers that are asked for.
    pub by: Vec<Basis>,
    /// Whether the scores become what the rows have gathered.
    pub remembered: bool,
}

/// A number of every row.
#[derive(Clone, Debug, PartialEq)]
pub enum Basis {
    /// A measure of its key.
    Key(Measure),
    /// A measure of its value.
    Value(Measure),
    /// What it has gathered, see [`Needs::gathered`].
    Gathered,
    /// What it receives from each query head of its group, added up over the last `queries` tokens: `[rows, group]`.
    Window {
        /// How many tokens.
        queries: usize,
        /// Sharpness of their rows.
        gain: Gain,
    },
}

/// The rows of a lane that are scored, and their numbers.
#[derive(Clone, Debug)]
pub struct ScoredRows {
    /// The moment of the cut.
    pub moment: Moment,
    /// Query heads of a KV head.
    pub group: usize,
    /// The lane's heads.
    pub heads: Vec<HeadRows>,
}

impl ScoredRows {
    /// Scores head by head.
    pub fn each(&self, score: impl FnMut(&HeadRows) -> Vec<f32>) -> Vec<Vec<f32>> {
        self.heads.iter().map(score).collect()
    }

    /// The first number of every row as its score.
    pub fn as_they_are(self) -> Vec<Vec<f32>> {
        self.heads.into_iter().map(|mut head| head.numbers.swap_remove(0)).collect()
    }
}

/// Scored rows of one head.
#[derive(Clone, Debug)]
pub struct HeadRows {
    /// `[rows]`
    pub positions: Arc<Vec<u32>>,
    /// Per [`Basis`] of the cut its numbers, `[rows]` or `[rows, group]`.
    pub numbers: Vec<Vec<f32>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows that a head holds after a policy had its say about `live` rows of as many tokens.
    fn left(policy: &dyn Policy, event: Event, forced: bool, live: usize) -> usize {
        let moment = Moment { event, forced, seen: live, live, done: 0, of_text: 0, context: 1000 };
        let cut = policy.cut(&moment).unwrap_or_default();
        let leaving = |region: &Region| region.positions.len().saturating_sub(region.keep);
        live - cut.regions.iter().map(leaving).sum::<usize>()
    }

    fn policy(text: &str) -> std::rc::Rc<dyn Policy> {
        text.parse::<PolicyChoice>().expect(text).policy().expect("bounded")
    }

    /// In decode steps rows gather up to the slack and then leave together; a text, a chunk and a store without room wait for nothing.
    #[test]
    fn slack_is_for_steps() {
        for text in [
            "h2o:heavy=20,recent=10,slack=7",
            "tova:capacity=30,slack=7",
            "tova:capacity=30,protect_last=on,slack=7",
            "ahakv:budget=30,recent=10,slack=7",
            "snapkv:window=8,capacity=30,slack=7",
            "slimkv:window=8,capacity=30,slack=7",
            "l2:rows=30,sinks=2,recent=3,slack=7",
        ] {
            let policy = policy(text);
            assert_eq!((policy.budget(1000), policy.slack(1000)), (30, 7), "{text}");
            for live in [12, 30, 31, 37] {
                assert_eq!(left(&*policy, Event::Step, false, live), live, "{text} {live}");
                assert_eq!(left(&*policy, Event::Step, true, live), live.min(30), "{text} {live} forced");
            }
            assert_eq!(left(&*policy, Event::Step, false, 38), 30, "{text}");
            assert_eq!(left(&*policy, Event::Text, false, 31), 30, "{text}");
            if !text.starts_with("l2") {
                assert_eq!(left(&*policy, Event::Chunk, false, 31), 30, "{text}");
            }
        }
    }

    /// Windows let rows gather in chunks too.
    #[test]
    fn windows_have_slack_everywhere_but_after_a_text() {
        for text in ["streaming:sinks=4,window=26,slack=7", "razor:sinks=4,buffer=26,ratio=100,slack=7"] {
            let policy = policy(text);
            assert_eq!((policy.budget(1000), policy.slack(1000)), (30, 7), "{text}");
            for event in [Event::Step, Event::Chunk] {
                assert_eq!(left(&*policy, event, false, 37), 37, "{text}");
                assert_eq!(left(&*policy, event, false, 38), 30, "{text}");
                assert_eq!(left(&*policy, event, true, 31), 30, "{text}");
            }
            assert_eq!(left(&*policy, Event::Text, false, 31), 30, "{text}");
        }
    }

    /// Slack that is left to the policy is an eighth of what it keeps, from 1 to 512.
    #[test]
    fn slack_of_its_own() {
        for (text, slack) in [
            ("streaming:window=4", 1),
            ("streaming:window=800", 100),
            ("streaming:window=80000", 512),
            ("l2:rows=4", 1),
            ("l2:rows=800", 100),
            ("l2:rows=80000", 512),
            ("l2", 0),
            ("h2o", 0),
        ] {
            assert_eq!(policy(text).slack(1000), slack, "{text}");
        }
    }

    /// LagKV's length is what equation 10 says, and never more than its budget.
    #[test]
    fn partitions_leave_their_share() {
        let lag = policy("lagkv:sinks=4,lag=16,ratio=0.25");
        for seen in [10, 35, 36, 51, 52, 200] {
            assert_eq!(left(&*lag, Event::Text, false, seen), lagkv::length(seen, 4, 16, 0.25), "{seen}");
        }
        // After 1000 tokens: sinks, 61 partitions of 4 rows, and up to two whole ones.
        assert_eq!(lag.budget(1000), 4 + 4 * 61 + 2 * 16);
        assert!(policy("lag-l2").spares(1) && !policy("lag-l2").spares(2) && !policy("lagkv").spares(0));
        assert!(policy("l2").spares(1) && !policy("l2").spares(2) && !policy("l2:skip=0").spares(0));
        assert!(lag.check(16).is_ok() && lag.check(15).is_err());
    }
}
