//! SlimKV: SnapKV's window of queries, but a row's score is the attention it receives (summed over window and
//! group, equation 3) times the largest absolute element of its value (equation 4), pooled once per KV head.
//!
//! Decisions: the product of equation 5; `combine=sum` is the paper's listing. The paper does not give
//! window, kernel and pooling: SnapKV's are used.

use std::sync::Arc;

use super::snapkv::{CAPACITY, KERNEL, POOL, QueryWindow, SLACK, WINDOW};
use crate::kv::policy::{AttentionNeeds, Candidates, EvictionPlan, LaneStatus, Measure, Policy, ScoreInput};
use crate::kv::policy::{HeadMode, Parameter, PolicyEntry, PolicyFactory};

#[derive(Debug)]
struct SlimKv {
    window: QueryWindow,
    sum: bool,
}

impl Policy for SlimKv {
    fn budget(&self, _context: usize) -> usize {
        self.window.capacity
    }

    fn slack(&self, _context: usize) -> usize {
        self.window.slack
    }

    fn needs(&self) -> AttentionNeeds {
        self.window.needs()
    }

    fn plan_eviction(&self, status: &LaneStatus) -> Option<EvictionPlan> {
        self.window.plan_eviction(status, Some(ScoreInput::Value(Measure::MaxAbs)))
    }

    fn score(&self, candidates: Candidates) -> Vec<Vec<f32>> {
        candidates.map_heads(|head| {
            let n = head.positions.len();
            let mut score = vec![0f32; n];
            for attention in head.inputs[0].chunks_exact(n.max(1)) {
                score.iter_mut().zip(attention).for_each(|(score, x)| *score += x);
            }
            for (score, largest) in score.iter_mut().zip(&head.inputs[1]) {
                *score = if self.sum { *score + largest } else { *score * largest };
            }
            self.window.pool.over(&score, self.window.kernel)
        })
    }
}

const COMBINE: Parameter =
    Parameter::choice("combine", "how attention and value are combined", &["product", "sum"]);

pub(in crate::kv::policy) const ENTRY: PolicyEntry = PolicyEntry {
    name: "slimkv",
    summary: "as snapkv, but attention counts times the size of the value (SlimKV)",
    parameters: &[WINDOW, CAPACITY, KERNEL, POOL, COMBINE, SLACK],
    default_heads: HeadMode::Off,
    default_compensation: false,
    factory: Some(PolicyFactory {
        build: |values| {
            Ok(Arc::new(SlimKv { window: QueryWindow::new(values)?, sum: values.count("combine") == 1 }))
        },
        fit: |values, rows, _| QueryWindow::fit(values, rows),
    }),
};
