//! H2O (Zhang et al. 2023, arXiv 2306.14048): keeps the rows with the most attention accumulated over all
//! queries so far, and the most recent rows. Prefill needs a second pass over all pairs of tokens.
//!
//! Decisions: a plain sum, not divided by how many queries could see the row; the mean over the group.

use std::sync::Arc;

use crate::kv::policy::{
    AccumulatedAttention, AccumulationRule, AttentionNeeds, Combine, CountedQueries, EvictionPlan, Gain,
    HeadMode, LaneStatus, Parameter, Policy, PolicyEntry, PolicyFactory,
};

#[derive(Debug)]
struct H2o {
    heavy: usize,
    recent: usize,
    slack: usize,
}

impl Policy for H2o {
    fn budget(&self, _context: usize) -> usize {
        self.heavy + self.recent
    }

    fn slack(&self, _context: usize) -> usize {
        self.slack
    }

    fn needs(&self) -> AttentionNeeds {
        let rule = AccumulationRule {
            chunk: Some(CountedQueries::All),
            steps_add: true,
            combine: Combine::Sum,
            gain: Gain::One,
        };
        AttentionNeeds { queries: 0, accumulated: Some(AccumulatedAttention::WhileRunning(rule)) }
    }

    fn plan_eviction(&self, status: &LaneStatus) -> Option<EvictionPlan> {
        (status.live > self.heavy + self.recent + status.allowed_slack(self.slack))
            .then(|| EvictionPlan::by_accumulated(0..status.seen - self.recent, self.heavy))
    }
}

pub(in crate::kv::policy) const ENTRY: PolicyEntry = PolicyEntry {
    name: "h2o",
    summary: "the rows that all tokens together attended to most, and the recent ones (H2O)",
    parameters: &[
        Parameter::rows("heavy", "rows kept for their attention", 512.0, 1.0),
        Parameter::rows("recent", "last rows kept", 512.0, 1.0),
        Parameter::slack(0.0, 0.0),
    ],
    default_heads: HeadMode::Off,
    default_compensation: false,
    factory: Some(PolicyFactory {
        build: |values| {
            Ok(Arc::new(H2o {
                heavy: values.count("heavy"),
                recent: values.count("recent"),
                slack: values.count("slack"),
            }))
        },
        fit: |values, rows, _| {
            values.set("heavy", rows - rows / 2);
            values.set("recent", (rows / 2).max(1));
        },
    }),
};
