//! SnapKV (Li et al. 2024, arXiv 2404.14469): of the rows before the last `window` tokens those stay to which
//! the queries of these tokens attend most, pooled over neighbours. The rows of the window stay too.
//!
//! Decisions: one choice per KV head, by the mean over the group after pooling. The cache grows during
//! decoding, as in the authors' code; after `slack` tokens the rule is applied again with the queries of the
//! last ones, so that memory is bounded.

use std::sync::Arc;

use super::pool::{self, Pool};
use crate::kv::policy::{
    AttentionNeeds, Candidates, EvictionPlan, Gain, HeadMode, LaneStatus, Parameter, ParameterValues, Policy,
    PolicyEntry, PolicyFactory, ScoreInput, Scoring,
};

/// A window of queries that decides which rows before it stay; SlimKV uses it too.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueryWindow {
    pub window: usize,
    pub capacity: usize,
    pub kernel: usize,
    pub pool: Pool,
    pub slack: usize,
}

impl QueryWindow {
    pub(super) fn new(values: &ParameterValues) -> Result<QueryWindow, String> {
        let [window, capacity, kernel] = ["window", "capacity", "kernel"].map(|name| values.count(name));
        if capacity < window {
            return Err(format!("a capacity of {capacity} rows does not hold the window of {window}"));
        }
        if kernel % 2 == 0 {
            return Err(format!("pooling needs an odd number of rows, not {kernel}"));
        }
        let (pool, slack) = (Pool::from_index(values.count("pool")), values.count("slack"));
        Ok(QueryWindow { window, capacity, kernel, pool, slack })
    }

    pub(super) fn fit(values: &mut ParameterValues, rows: usize) {
        let window = values.count("window").min((rows / 2).max(1));
        values.set("window", window);
        values.set("capacity", rows);
        // Rows of generated tokens take memory too. Where few rows are kept they would be most of the store.
        values.set("slack", values.count("slack").min(rows / 8));
    }

    pub(super) fn needs(&self) -> AttentionNeeds {
        AttentionNeeds { queries: self.window, ..AttentionNeeds::default() }
    }

    /// If there are too many rows, those before the window compete by the window's attention and `more`.
    pub(super) fn plan_eviction(
        &self,
        status: &LaneStatus,
        more: Option<ScoreInput>,
    ) -> Option<EvictionPlan> {
        let QueryWindow { window, capacity, .. } = *self;
        (status.live > capacity + status.allowed_slack(self.slack)).then(|| {
            let positions = 0..status.seen - window;
            let attention = ScoreInput::WindowAttention { queries: window, gain: Gain::One };
            let inputs = [attention].into_iter().chain(more).collect();
            let scoring = Scoring::ordered(positions.clone(), inputs);
            EvictionPlan::single(positions, capacity - window, Some(scoring))
        })
    }
}

#[derive(Debug)]
struct SnapKv(QueryWindow);

impl Policy for SnapKv {
    fn budget(&self, _context: usize) -> usize {
        self.0.capacity
    }

    fn slack(&self, _context: usize) -> usize {
        self.0.slack
    }

    fn needs(&self) -> AttentionNeeds {
        self.0.needs()
    }

    fn plan_eviction(&self, status: &LaneStatus) -> Option<EvictionPlan> {
        self.0.plan_eviction(status, None)
    }

    fn score(&self, candidates: Candidates) -> Vec<Vec<f32>> {
        candidates.map_heads(|head| {
            let n = head.positions.len();
            let mut mean = vec![0f32; n];
            for attention in head.inputs[0].chunks_exact(n.max(1)) {
                for (mean, x) in mean.iter_mut().zip(self.0.pool.over(attention, self.0.kernel)) {
                    *mean += x / candidates.group as f32;
                }
            }
            mean
        })
    }
}

pub(super) const WINDOW: Parameter = Parameter::rows(
    "window",
    "number of last tokens whose attention decides; their rows are always kept",
    32.0,
    1.0,
);
pub(super) const CAPACITY: Parameter =
    Parameter::rows("capacity", "rows kept, the window included", 1024.0, 2.0);
pub(super) const KERNEL: Parameter =
    Parameter::rows("kernel", "neighbouring rows that are pooled, an odd number", 5.0, 1.0).hidden();
pub(super) const POOL: Parameter = Parameter::choice("pool", "how neighbours are combined", pool::NAMES);
pub(super) const SLACK: Parameter = Parameter::slack(512.0, 0.0)
    .described("rows that generated tokens may add before the rule is applied again");

pub(in crate::kv::policy) const ENTRY: PolicyEntry = PolicyEntry {
    name: "snapkv",
    summary: "the rows that the last tokens attend to most, with their neighbours, and the last tokens themselves (SnapKV)",
    parameters: &[WINDOW, CAPACITY, KERNEL, POOL, SLACK],
    default_heads: HeadMode::Off,
    default_compensation: false,
    factory: Some(PolicyFactory {
        build: |values| Ok(Arc::new(SnapKv(QueryWindow::new(values)?))),
        fit: |values, rows, _| QueryWindow::fit(values, rows),
    }),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::policy::{Event, HeadCandidates, PolicyChoice};

    #[test]
    fn scores_are_means_over_the_group() {
        let choice: PolicyChoice = "snapkv:window=1,capacity=2,kernel=1".parse().expect("a policy");
        let status = LaneStatus {
            event: Event::ExactPrefill,
            forced: false,
            seen: 3,
            live: 3,
            scanned_until: 0,
            prompt_rows_kept: 0,
            context: 100,
        };
        // Attention of the first query head, then of the second.
        let head = HeadCandidates { positions: Arc::new(vec![0, 1]), inputs: vec![vec![1.0, 5.0, 3.0, 6.0]] };
        let candidates = Candidates { status, group: 2, heads: vec![head] };
        assert_eq!(choice.policy().expect("bounded").score(candidates), [[2.0, 5.5]]);
    }
}
