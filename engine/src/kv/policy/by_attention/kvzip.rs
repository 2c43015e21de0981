//! KVzip (Kim et al. 2025, arXiv 2505.23416): keeps the rows that the model needs to repeat the text. The text is
//! read a second time behind itself, and each row is scored by the largest attention that it gets there.
//!
//! Decisions: one number for each KV head, the maximum over its query heads. The heads' numbers of rows come from
//! calibration and not from this text, because its rows are evicted layer by layer. A part of the text is repeated
//! behind the tokens before it, without words that ask for it, so that no language is assumed. While it is repeated
//! its rows are scored, and no others: queries see the part, each other, and a few rows for the attention of heads
//! that look for nothing (`crate::compute::scratch::first_text_chunks`). The last `recent` rows stay. Rows of later tokens, and of
//! a text that is read chunk by chunk, have no score. The paper evicts none of them; here the last `later` ones stay, so
//! that a conversation about a text is remembered. Older ones are evicted before rows with a score, the oldest first.

use std::sync::Arc;

use super::best_and_recent::BestAndRecent;
use crate::kv::policy::{
    AccumulatedAttention, AttentionNeeds, Candidates, Event, EvictionPlan, HeadMode, LaneStatus, Parameter,
    ParameterValues, Policy, PolicyEntry, PolicyFactory, ScoreInput, Scoring, SecondReadingScore,
};

/// Above all scores of attention.
const ABOVE_SCORES: f32 = 2.0;

#[derive(Debug)]
struct KvZip {
    rows: BestAndRecent,
    later: usize,
    scored_by: SecondReadingScore,
}

impl Policy for KvZip {
    fn budget(&self, _context: usize) -> usize {
        self.rows.capacity
    }

    fn slack(&self, _context: usize) -> usize {
        self.rows.slack
    }

    fn needs(&self) -> AttentionNeeds {
        AttentionNeeds { queries: 0, accumulated: Some(AccumulatedAttention::SecondReading(self.scored_by)) }
    }

    fn plan_eviction(&self, status: &LaneStatus) -> Option<EvictionPlan> {
        // After exact prefill there always is a plan: positions that it covers have scores.
        let is_scored = status.event == Event::ExactPrefill;
        (is_scored || self.rows.is_exceeded(status)).then(|| {
            let scoring = Scoring::of_all_rows(vec![ScoreInput::Accumulated]);
            let regions = self.rows.regions(status.seen);
            EvictionPlan { regions, scoring: Some(Scoring { store_scores: true, ..scoring }) }
        })
    }

    fn score(&self, candidates: Candidates) -> Vec<Vec<f32>> {
        let LaneStatus { event, scanned_until, seen, .. } = candidates.status;
        let score = |(position, stored): (&u32, &f32)| {
            let score = match (event, self.scored_by) {
                // In the same order, and below 1 as attention is.
                (Event::ExactPrefill, SecondReadingScore::Contribution) => stored / (1.0 + stored),
                _ => *stored,
            };
            let is_covered = event == Event::ExactPrefill || (*position as usize) < scanned_until;
            if is_covered && (0.0..ABOVE_SCORES).contains(&score) {
                return score;
            }
            // A later token: the newer, the higher, and below all scores of attention if it is too old.
            match *position as usize + self.later >= seen {
                true => ABOVE_SCORES + *position as f32,
                false => -1.0 / (*position + 1) as f32,
            }
        };
        candidates.map_heads(|head| head.positions.iter().zip(&head.inputs[0]).map(score).collect())
    }
}

pub(in crate::kv::policy) const ENTRY: PolicyEntry = PolicyEntry {
    name: "kvzip",
    summary: "the rows that the model needs to repeat the text, and the recent ones; reads a text twice (KVzip)",
    parameters: &PARAMETERS,
    default_heads: HeadMode::Shares,
    default_compensation: false,
    factory: Some(PolicyFactory {
        build: |values| build(values, SecondReadingScore::Attention),
        fit: BestAndRecent::fit,
    }),
};

/// The parameters of `kvzip` and `kvzip-plus`.
pub(super) const PARAMETERS: [Parameter; 4] = [
    BestAndRecent::CAPACITY,
    BestAndRecent::RECENT,
    Parameter::rows(
        "later",
        "last rows kept of the tokens that follow the text; -1 is a quarter of the capacity",
        -1.0,
        -1.0,
    )
    .hidden(),
    BestAndRecent::SLACK,
];

/// The policy that scores rows by this.
pub(super) fn build(
    values: &ParameterValues,
    scored_by: SecondReadingScore,
) -> Result<Arc<dyn Policy>, String> {
    let rows = BestAndRecent::from_values(values)?;
    let later = values.optional_count("later").unwrap_or(rows.capacity / 4);
    Ok(Arc::new(KvZip { rows, later, scored_by }))
}
