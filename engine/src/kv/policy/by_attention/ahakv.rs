//! AhaKV (Gu et al. 2025, arXiv 2506.03762): attention accumulated over queries favours old tokens and
//! flattens as texts grow. So attention rows are sharpened by sqrt(2 ln(i / B)) (equation 12), only the last
//! B_r queries count, and the sum is weighted by a prior from the values: their pooled squared norms relative
//! to the largest (equations 13 to 15). Each decode step adds its attention row to the accumulated attention
//! (algorithm 1).
//!
//! Decisions: lambda acts on the raw product, which meets the design target (`lambda=literal` is the
//! algorithm as printed). Up to B tokens, rows are not sharpened. B is the total budget. There are B_r recent
//! rows, not B_r + 1. Scores are means over the group. Pooling has width 5 and zeros beyond the ends, which
//! the paper leaves open. The prior is 1 where all values are zero.

use std::sync::Arc;

use crate::kv::policy::{
    AccumulatedAttention, AccumulationRule, AttentionNeeds, Candidates, Combine, Event, EvictionPlan, Gain,
    HeadMode, LaneStatus, Measure, Parameter, Policy, PolicyEntry, PolicyFactory, Pool, ScoreInput, Scoring,
};

#[derive(Debug)]
struct AhaKv {
    budget: usize,
    recent: usize,
    kernel: usize,
    gain: Gain,
    slack: usize,
}

impl Policy for AhaKv {
    fn budget(&self, _context: usize) -> usize {
        self.budget
    }

    fn slack(&self, _context: usize) -> usize {
        self.slack
    }

    fn needs(&self) -> AttentionNeeds {
        let rule = AccumulationRule { chunk: None, steps_add: true, combine: Combine::Sum, gain: self.gain };
        AttentionNeeds { queries: self.recent, accumulated: Some(AccumulatedAttention::WhileRunning(rule)) }
    }

    fn plan_eviction(&self, status: &LaneStatus) -> Option<EvictionPlan> {
        let competing = 0..status.seen.saturating_sub(self.recent);
        let keep = self.budget - self.recent;
        if status.event == Event::Step {
            let over = status.live > self.budget + status.allowed_slack(self.slack);
            return over.then(|| EvictionPlan::by_accumulated(competing, keep));
        }
        // All rows are scored, also where none has to be evicted: later attention adds to the scores.
        let window = ScoreInput::WindowAttention { queries: self.recent, gain: self.gain };
        let inputs = vec![window, ScoreInput::Value(Measure::SquaredNorm)];
        let scoring = Scoring { store_scores: true, ..Scoring::ordered(0..status.seen, inputs) };
        let keep = if status.live > self.budget { keep } else { usize::MAX };
        Some(EvictionPlan::single(competing, keep, Some(scoring)))
    }

    fn score(&self, candidates: Candidates) -> Vec<Vec<f32>> {
        if candidates.status.event == Event::Step {
            return candidates.first_inputs(); // the accumulated attention
        }
        candidates.map_heads(|head| {
            let n = head.positions.len();
            let mut score = vec![0f32; n];
            for attention in head.inputs[0].chunks_exact(n.max(1)) {
                score.iter_mut().zip(attention).for_each(|(score, x)| *score += x / candidates.group as f32);
            }
            let prior = Pool::Average.over(&head.inputs[1], self.kernel);
            let largest = prior.iter().copied().fold(0f32, f32::max);
            if largest > 0.0 {
                score.iter_mut().zip(prior).for_each(|(score, prior)| *score *= prior / largest);
            }
            score
        })
    }
}

pub(in crate::kv::policy) const ENTRY: PolicyEntry = PolicyEntry {
    name: "ahakv",
    summary: "the rows with the largest product of the last tokens' attention and the size of the row's value; updated while an answer is written (AhaKV)",
    parameters: &[
        Parameter::rows("budget", "rows kept (1000 in the paper)", 1000.0, 2.0),
        Parameter::rows(
            "recent",
            "number of last tokens whose attention decides; their rows are always kept (32 in the paper)",
            32.0,
            1.0,
        ),
        Parameter::rows("kernel", "neighbouring values that are pooled, an odd number", 5.0, 1.0).hidden(),
        Parameter::choice(
            "lambda",
            "how attention is sharpened: so that its entropy stays, as the paper intends, or by its formula as printed",
            &["entropy", "literal"],
        ),
        Parameter::slack(0.0, 0.0),
    ],
    default_heads: HeadMode::Off,
    default_compensation: false,
    factory: Some(PolicyFactory {
        build: |values| {
            let (budget, recent, kernel) =
                (values.count("budget"), values.count("recent"), values.count("kernel"));
            if budget <= recent {
                return Err(format!("a budget of {budget} rows leaves none beside the {recent} recent ones"));
            }
            if kernel % 2 == 0 {
                return Err(format!("pooling needs an odd number of rows, not {kernel}"));
            }
            let gain = match values.count("lambda") {
                0 => Gain::Entropy { budget },
                _ => Gain::Literal { budget },
            };
            Ok(Arc::new(AhaKv { budget, recent, kernel, gain, slack: values.count("slack") }))
        },
        fit: |values, rows, _| {
            let recent = values.count("recent").min((rows / 2).max(1));
            values.set("recent", recent);
            values.set("budget", rows);
        },
    }),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::policy::{HeadCandidates, PolicyChoice};

    #[test]
    fn attention_alone_decides_where_all_values_are_zero() {
        let choice: PolicyChoice = "ahakv:budget=3,recent=1".parse().expect("a policy");
        let status = LaneStatus {
            event: Event::ExactPrefill,
            forced: false,
            seen: 4,
            live: 4,
            scanned_until: 0,
            prompt_rows_kept: 0,
            context: 100,
        };
        let attention = vec![0.5, 0.25, 0.125, 0.125];
        let inputs = vec![attention.clone(), vec![0.0; 4]];
        let heads = vec![HeadCandidates { positions: Arc::new(vec![0, 1, 2, 3]), inputs }];
        let scores = choice.policy().expect("bounded").score(Candidates { status, group: 1, heads });
        assert_eq!(scores, [attention]);
    }
}
