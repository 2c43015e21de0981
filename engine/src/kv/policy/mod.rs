//! Policies: which rows bounded heads keep, and how to add a policy of your own.
//!
//! A policy decides; the store measures, selects and moves rows, the same way for every
//! policy. After an exact prefill, a chunk and a decode step the store asks each lane's policy for an
//! [`EvictionPlan`]: regions of positions, how many rows of each region stay, and by which [`ScoreInput`]s
//! they are scored. The inputs are computed where the rows are. Then [`Policy::score`] turns them into one
//! score a row, and the rows with the lowest scores are evicted. A policy never sees keys, values or heads
//! that it does not bound.
//!
//! # Writing a policy
//!
//! Implement [`Policy`], describe it in a static [`PolicyEntry`] and [`register`] the entry. Its name and its
//! parameters then work wherever those of the built-in policies do: [`PolicyChoice`] parses and prints them,
//! budgets set its parameters, saved sessions restore it. Every policy also has the parameters `heads` and
//! `compensation` ([`COMMON_PARAMETERS`]).
//!
//! ```
//! use longhand::policy::{self, EvictionPlan, HeadMode, LaneStatus, Measure, Parameter, Policy, PolicyChoice, PolicyEntry};
//! use longhand::policy::{PolicyFactory, ScoreInput, Scoring};
//! use std::sync::Arc;
//!
//! /// Keeps the rows whose values have the largest norms.
//! #[derive(Debug)]
//! struct LargeValues {
//!     rows: usize,
//! }
//!
//! impl Policy for LargeValues {
//!     fn budget(&self, _context: usize) -> usize {
//!         self.rows
//!     }
//!
//!     fn plan_eviction(&self, status: &LaneStatus) -> Option<EvictionPlan> {
//!         (status.live > self.rows).then(|| {
//!             let scoring = Scoring::of_all_rows(vec![ScoreInput::Value(Measure::Norm)]);
//!             EvictionPlan::single(0..status.seen, self.rows, Some(scoring))
//!         })
//!     }
//! }
//!
//! static LARGE_VALUES: PolicyEntry = PolicyEntry {
//!     name: "large-values",
//!     summary: "the values of largest norm",
//!     parameters: &[Parameter::rows("rows", "rows kept", 1024.0, 1.0)],
//!     default_heads: HeadMode::Off,
//!     default_compensation: false,
//!     factory: Some(PolicyFactory {
//!         build: |values| Ok(Arc::new(LargeValues { rows: values.count("rows") })),
//!         fit: |values, rows, _context| values.set("rows", rows),
//!     }),
//! };
//!
//! policy::register(&LARGE_VALUES)?;
//! let choice: PolicyChoice = "large-values:rows=500,heads=on".parse()?;
//! assert_eq!(choice.to_string(), "large-values:rows=500,heads=on");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod builtin;
mod by_attention;
pub(super) mod by_content;
mod by_position;
mod choice;
mod entry;
mod parameter;
mod registry;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use kernels::graph::{Combine, Gain};
pub use kernels::measure::Measure;

pub use self::by_attention::pool::Pool;
pub use self::by_position::recent::Recent;
pub use self::choice::PolicyChoice;
pub use self::entry::{
    COMMON_PARAMETERS, HeadMode, MIN_ROWS, ParameterValue, ParameterValues, PolicyEntry, PolicyFactory,
};
pub use self::parameter::Parameter;
pub use self::registry::{RegisterError, policies, register};
pub use super::KvBudget;

/// Formulas of the papers that the engine itself does not need: golden cases and tests compare with them.
#[doc(hidden)]
pub mod paper_formulas {
    pub use super::by_content::l2::attention_loss;
    pub use super::by_content::lagkv::length as lagkv_length;
}

/// Decides which rows bounded heads keep.
pub trait Policy: fmt::Debug + Send + Sync {
    /// Maximum rows that a head holds after an eviction, in a session of `context` tokens.
    fn budget(&self, context: usize) -> usize;

    /// Rows beyond the budget that a head may hold before the next eviction.
    fn slack(&self, _context: usize) -> usize {
        0
    }

    /// Refuses a session of `context` tokens for which the parameters make no sense, with the reason.
    fn check(&self, _context: usize) -> Result<(), String> {
        Ok(())
    }

    /// Whether no head of this layer is bounded.
    fn skips_layer(&self, _layer: usize) -> bool {
        false
    }

    /// What has to be recorded of the attention while the model runs. What is not declared here is not
    /// computed.
    fn needs(&self) -> AttentionNeeds {
        AttentionNeeds::default()
    }

    /// Which rows compete now; `None` where nothing has to be evicted or scored.
    fn plan_eviction(&self, status: &LaneStatus) -> Option<EvictionPlan>;

    /// Scores the candidates: for each head one score a row, higher for rows more worth keeping. By default
    /// the first input is the score. Not called for plans without scoring.
    fn score(&self, candidates: Candidates) -> Vec<Vec<f32>> {
        candidates.first_inputs()
    }
}

/// What a policy needs of the attention.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AttentionNeeds {
    /// How many of the last tokens' queries are stored, for [`ScoreInput::WindowAttention`].
    pub queries: usize,
    /// What is accumulated for every row, for [`ScoreInput::Accumulated`].
    pub accumulated: Option<AccumulatedAttention>,
}

impl AttentionNeeds {
    /// Whether something is recorded of decode steps.
    pub(crate) fn records_steps(&self) -> bool {
        self.queries > 0 || matches!(self.accumulated, Some(AccumulatedAttention::WhileRunning(_)))
    }
}

/// The attention that a row accumulates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AccumulatedAttention {
    /// What it gets while the model runs.
    WhileRunning(AccumulationRule),
    /// The largest that it gets while a first text is read a second time and its part of the text is repeated (KVzip's
    /// context reconstruction). Rows of later tokens, and those of a text that is not read layer by layer, have none.
    SecondReading(SecondReadingScore),
    /// A score that is predicted from the row itself when it is appended, by the row predictors of the head profile: the
    /// logarithm of [`AccumulatedAttention::SecondReading`] times the norm of its value (KVzap).
    Predicted,
}

/// By what a row is scored in a second reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondReadingScore {
    /// Its attention weight.
    Attention,
    /// The weight, times the norm of the row's value behind the query head's part of the output matrix. It is divided by the
    /// norm of attention's input, which is behind the layer's norm (KVzip+).
    Contribution,
}

/// How a row's attention is accumulated. A sum has the mean over the query heads of the KV head, a maximum the largest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccumulationRule {
    /// Which queries of a prompt or chunk count; `None` for none.
    pub chunk: Option<CountedQueries>,
    /// Whether a decode step adds to the accumulated attention; otherwise it replaces it.
    pub steps_add: bool,
    /// How the queries' attention becomes one number.
    pub combine: Combine,
    /// Sharpness of the attention.
    pub gain: Gain,
}

impl AccumulationRule {
    /// The largest attention while a part is repeated ([`AccumulatedAttention::SecondReading`]).
    pub(crate) const RECONSTRUCTION: AccumulationRule = AccumulationRule {
        chunk: Some(CountedQueries::All),
        steps_add: true,
        combine: Combine::Max,
        gain: Gain::One,
    };
}

/// Which queries of a chunk count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedQueries {
    /// All of them; they add to the accumulated attention.
    All,
    /// The last one; it replaces the accumulated attention.
    Last,
}

/// What has just been computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first prompt, with full attention. No row has been evicted yet.
    ExactPrefill,
    /// Several tokens, which attended to the rows kept.
    Chunk,
    /// One token.
    Step,
}

/// The state of a lane when its policy is asked.
#[derive(Clone, Copy, Debug)]
pub struct LaneStatus {
    /// What has just been computed.
    pub event: Event,
    /// Whether as many rows as the policy allows must be evicted now, because the lane has no room for the
    /// next tokens.
    pub forced: bool,
    /// Tokens seen, evicted ones included.
    pub seen: usize,
    /// Rows that each head holds, without the compensation entry.
    pub live: usize,
    /// End of the positions that earlier plans have covered.
    pub scanned_until: usize,
    /// Rows that were kept of the prompt after exact prefill.
    pub prompt_rows_kept: usize,
    /// Maximum tokens of the session.
    pub context: usize,
}

impl LaneStatus {
    /// How many rows beyond the budget may stay now: `slack` in decode steps unless eviction is forced,
    /// otherwise 0.
    pub fn allowed_slack(&self, slack: usize) -> usize {
        if self.event == Event::Step && !self.forced { slack } else { 0 }
    }
}

/// Positions whose rows compete with each other. A region must hold equally many rows in every head, as it
/// does unless it divides positions of an earlier region that kept rows: heads of a lane always keep equally
/// many rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The positions. Rows at positions in no region stay.
    pub positions: Range<usize>,
    /// How many of their rows stay: those with the highest scores; of equal scores the smaller position
    /// stays.
    pub keep: usize,
}

/// Which rows compete, and by which scores.
#[derive(Clone, Debug, Default)]
pub struct EvictionPlan {
    /// The regions, ascending, without overlap.
    pub regions: Vec<Region>,
    /// How rows are scored; `None` where the regions keep no rows.
    pub scoring: Option<Scoring>,
}

impl EvictionPlan {
    /// A plan with one region.
    pub fn single(positions: Range<usize>, keep: usize, scoring: Option<Scoring>) -> EvictionPlan {
        EvictionPlan { regions: vec![Region { positions, keep }], scoring }
    }

    /// A plan with one region whose rows are scored by their accumulated attention.
    pub fn by_accumulated(positions: Range<usize>, keep: usize) -> EvictionPlan {
        EvictionPlan::single(positions, keep, Some(Scoring::of_all_rows(vec![ScoreInput::Accumulated])))
    }

    /// End of the positions that the plan covers.
    pub(super) fn end(&self) -> usize {
        self.regions.last().map_or(0, |region| region.positions.end)
    }
}

/// How rows are scored.
#[derive(Clone, Debug)]
pub struct Scoring {
    /// Which rows are scored: those of these positions, ordered by position, for scores that depend on
    /// neighbours. `None` for all rows of a head in the order in which they lie.
    pub ordered_positions: Option<Range<usize>>,
    /// The inputs that are computed.
    pub inputs: Vec<ScoreInput>,
    /// Whether the scores replace the rows' accumulated attention.
    pub store_scores: bool,
}

impl Scoring {
    /// Scores all rows of a head, in the order in which they lie.
    pub fn of_all_rows(inputs: Vec<ScoreInput>) -> Scoring {
        Scoring { ordered_positions: None, inputs, store_scores: false }
    }

    /// Scores the rows of some positions, ordered by position.
    pub fn ordered(positions: Range<usize>, inputs: Vec<ScoreInput>) -> Scoring {
        Scoring { ordered_positions: Some(positions), inputs, store_scores: false }
    }
}

/// A number for every row that is scored.
#[derive(Clone, Debug, PartialEq)]
pub enum ScoreInput {
    /// A measure of its key, `[rows]`.
    Key(Measure),
    /// A measure of its value, `[rows]`.
    Value(Measure),
    /// Its accumulated attention, `[rows]`; see [`AttentionNeeds::accumulated`].
    Accumulated,
    /// The attention that it receives from each query head of its KV head, summed over the last `queries`
    /// tokens: `[rows, group]`, rows innermost. See [`AttentionNeeds::queries`].
    WindowAttention {
        /// How many tokens.
        queries: usize,
        /// Sharpness of the attention.
        gain: Gain,
    },
}

/// The rows of a lane that are scored, with their inputs.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// The status for which the plan was made.
    pub status: LaneStatus,
    /// Query heads per KV head.
    pub group: usize,
    /// The lane's heads.
    pub heads: Vec<HeadCandidates>,
}

impl Candidates {
    /// Scores head by head.
    pub fn map_heads(&self, score: impl FnMut(&HeadCandidates) -> Vec<f32>) -> Vec<Vec<f32>> {
        self.heads.iter().map(score).collect()
    }

    /// The first input of every row as its score.
    pub fn first_inputs(self) -> Vec<Vec<f32>> {
        self.heads.into_iter().map(|head| head.inputs.into_iter().next().unwrap_or_default()).collect()
    }
}

/// The rows of one head that are scored.
#[derive(Clone, Debug)]
pub struct HeadCandidates {
    /// The rows' positions, `[rows]`.
    pub positions: Arc<Vec<u32>>,
    /// For each [`ScoreInput`] of the plan its numbers, `[rows]` or `[rows, group]`.
    pub inputs: Vec<Vec<f32>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows that a head holds after the policy has been applied to `live` rows of as many tokens.
    fn rows_left(policy: &dyn Policy, event: Event, forced: bool, live: usize) -> usize {
        let status = LaneStatus {
            event,
            forced,
            seen: live,
            live,
            scanned_until: 0,
            prompt_rows_kept: 0,
            context: 1000,
        };
        let plan = policy.plan_eviction(&status).unwrap_or_default();
        let evicted = |region: &Region| region.positions.len().saturating_sub(region.keep);
        live - plan.regions.iter().map(evicted).sum::<usize>()
    }

    fn policy(text: &str) -> Arc<dyn Policy> {
        text.parse::<PolicyChoice>().expect(text).policy().expect("bounded")
    }

    /// In decode steps rows accumulate up to the slack and are then evicted together. After a prompt, after a
    /// chunk and without room they are evicted at once.
    #[test]
    fn slack_applies_to_decode_steps_only() {
        for text in [
            "h2o:heavy=20,recent=10,slack=7",
            "tova:capacity=30,slack=7",
            "tova:capacity=30,protect_last=on,slack=7",
            "kvzip:capacity=30,recent=5,slack=7",
            "kvzip-plus:capacity=30,recent=5,slack=7",
            "kvzap:capacity=30,recent=5,slack=7",
            "ahakv:budget=30,recent=10,slack=7",
            "snapkv:window=8,capacity=30,slack=7",
            "slimkv:window=8,capacity=30,slack=7",
            "l2:rows=30,sinks=2,recent=3,slack=7",
        ] {
            let policy = policy(text);
            assert_eq!((policy.budget(1000), policy.slack(1000)), (30, 7), "{text}");
            for live in [12, 30, 31, 37] {
                assert_eq!(rows_left(&*policy, Event::Step, false, live), live, "{text} {live}");
                assert_eq!(
                    rows_left(&*policy, Event::Step, true, live),
                    live.min(30),
                    "{text} {live} forced"
                );
            }
            assert_eq!(rows_left(&*policy, Event::Step, false, 38), 30, "{text}");
            assert_eq!(rows_left(&*policy, Event::ExactPrefill, false, 31), 30, "{text}");
            if !text.starts_with("l2") {
                assert_eq!(rows_left(&*policy, Event::Chunk, false, 31), 30, "{text}");
            }
        }
    }

    #[test]
    fn slack_of_windows_applies_to_chunks_too() {
        for text in ["streaming:sinks=4,window=26,slack=7", "razor:sinks=4,buffer=26,ratio=100,slack=7"] {
            let policy = policy(text);
            assert_eq!((policy.budget(1000), policy.slack(1000)), (30, 7), "{text}");
            for event in [Event::Step, Event::Chunk] {
                assert_eq!(rows_left(&*policy, event, false, 37), 37, "{text}");
                assert_eq!(rows_left(&*policy, event, false, 38), 30, "{text}");
                assert_eq!(rows_left(&*policy, event, true, 31), 30, "{text}");
            }
            assert_eq!(rows_left(&*policy, Event::ExactPrefill, false, 31), 30, "{text}");
        }
    }

    #[test]
    fn default_slack_is_an_eighth_of_the_rows_kept_from_1_to_512() {
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

    #[test]
    fn lagkv_keeps_the_rows_of_equation_10_and_at_most_its_budget() {
        let lag = policy("lagkv:sinks=4,lag=16,ratio=0.25");
        for seen in [10, 35, 36, 51, 52, 200] {
            let left = rows_left(&*lag, Event::ExactPrefill, false, seen);
            assert_eq!(left, by_content::lagkv::length(seen, 4, 16, 0.25), "{seen}");
        }
        // Partitions of one row: of the older one of two, no row stays.
        assert_eq!(by_content::lagkv::length(6, 4, 1, 0.5), 5);
        // After 1000 tokens: sinks, 61 partitions of 4 rows, and up to two whole ones.
        assert_eq!(lag.budget(1000), 4 + 4 * 61 + 2 * 16);
        let skips = |text, layer| policy(text).skips_layer(layer);
        assert!(skips("lag-l2", 1) && !skips("lag-l2", 2) && !skips("lagkv", 0));
        assert!(skips("l2", 1) && !skips("l2", 2) && !skips("l2:skip=0", 0));
        assert!(lag.check(16).is_ok() && lag.check(15).is_err());
    }
}
