//! TOVA (Oren et al. 2024, arXiv 2401.06104): evicts the rows to which the last query attends least. All
//! heads of a layer keep the same rows, by the mean over all its query heads.
//!
//! Decisions: the newest token is not protected (`protect_last=on` protects it). Where some heads of the
//! layer keep everything, the mean is over the others.

use std::sync::Arc;

use crate::kv::policy::{
    AccumulatedAttention, AccumulationRule, AttentionNeeds, Candidates, Combine, CountedQueries,
    EvictionPlan, Gain, HeadMode, LaneStatus, Parameter, Policy, PolicyEntry, PolicyFactory,
};

#[derive(Debug)]
struct Tova {
    capacity: usize,
    protected: usize,
    slack: usize,
}

impl Policy for Tova {
    fn budget(&self, _context: usize) -> usize {
        self.capacity
    }

    fn slack(&self, _context: usize) -> usize {
        self.slack
    }

    fn needs(&self) -> AttentionNeeds {
        let rule = AccumulationRule {
            chunk: Some(CountedQueries::Last),
            steps_add: false,
            combine: Combine::Sum,
            gain: Gain::One,
        };
        AttentionNeeds { queries: 0, accumulated: Some(AccumulatedAttention::WhileRunning(rule)) }
    }

    fn plan_eviction(&self, status: &LaneStatus) -> Option<EvictionPlan> {
        (status.live > self.capacity + status.allowed_slack(self.slack)).then(|| {
            EvictionPlan::by_accumulated(0..status.seen - self.protected, self.capacity - self.protected)
        })
    }

    fn score(&self, candidates: Candidates) -> Vec<Vec<f32>> {
        // All heads hold the same positions in the same order, and sums are ordered as means are.
        let mut sum = vec![0f32; candidates.heads.first().map_or(0, |head| head.positions.len())];
        for head in &candidates.heads {
            sum.iter_mut().zip(&head.inputs[0]).for_each(|(sum, x)| *sum += x);
        }
        vec![sum; candidates.heads.len()]
    }
}

pub(in crate::kv::policy) const ENTRY: PolicyEntry = PolicyEntry {
    name: "tova",
    summary: "the rows that the last token attends to most, the same for all heads of a layer (TOVA)",
    parameters: &[
        Parameter::rows("capacity", "rows kept", 1024.0, 1.0),
        Parameter::switch("protect_last", "whether the newest row is always kept"),
        Parameter::slack(0.0, 0.0),
    ],
    default_heads: HeadMode::Off,
    default_compensation: false,
    factory: Some(PolicyFactory {
        build: |values| {
            let (capacity, protected) = (values.count("capacity"), values.count("protect_last"));
            Ok(Arc::new(Tova { capacity, protected, slack: values.count("slack") }))
        },
        fit: |values, rows, _| values.set("capacity", rows),
    }),
};
