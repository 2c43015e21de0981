//! KVzap (Jégou and Jeblick 2026, arXiv 2601.07891): KVzip without a second reading. A row's score is predicted when the
//! row is appended, so later texts and answers have scores too.
//!
//! The paper's score is KVzip's attention times what the row's value adds to the residual stream (KVzip+). A linear map, or
//! a small network, predicts its logarithm from a layer's input. It is trained with gradients on a large corpus.
//!
//! Decisions: the map's inputs are the row itself, its key before RoPE and its value, with their squares and the logarithms
//! of their norms. They predict as well as a layer's input, with a third of the numbers. The norm of the value stands for
//! what it adds. Each KV head has a map of its own, which calibration fits (`crate::setup::calibrate`).
//!
//! The paper evicts rows below a threshold. Here the rows with the highest scores stay, as many as the budget allows. The
//! first rows and the last `recent` ones always stay (the paper: the last 128).

use std::sync::Arc;

use super::kvzip::{check_capacity, regions};
use crate::kv::policy::{
    AccumulatedAttention, AttentionNeeds, EvictionPlan, HeadMode, LaneStatus, Parameter, Policy, PolicyEntry,
    PolicyFactory, ScoreInput, Scoring,
};

#[derive(Debug)]
struct KvZap {
    capacity: usize,
    recent: usize,
    slack: usize,
}

impl Policy for KvZap {
    fn budget(&self, _context: usize) -> usize {
        self.capacity
    }

    fn slack(&self, _context: usize) -> usize {
        self.slack
    }

    fn needs(&self) -> AttentionNeeds {
        AttentionNeeds { queries: 0, accumulated: Some(AccumulatedAttention::Predicted) }
    }

    fn plan_eviction(&self, status: &LaneStatus) -> Option<EvictionPlan> {
        (status.live > self.capacity + status.allowed_slack(self.slack)).then(|| EvictionPlan {
            regions: regions(self.capacity, self.recent, status.seen),
            scoring: Some(Scoring::of_all_rows(vec![ScoreInput::Accumulated])),
        })
    }
}

pub(in crate::kv::policy) const ENTRY: PolicyEntry = PolicyEntry {
    name: "kvzap",
    summary: "the rows that are expected to be needed to repeat the text, and the recent ones; reads a text once (KVzap)",
    parameters: &[
        Parameter::rows("capacity", "rows kept, the recent ones included", 1024.0, 2.0),
        Parameter::rows("recent", "last rows kept", 64.0, 1.0),
        Parameter::slack(64.0, 0.0),
    ],
    default_heads: HeadMode::Shares,
    default_compensation: false,
    factory: Some(PolicyFactory {
        build: |values| {
            let [capacity, recent, slack] = ["capacity", "recent", "slack"].map(|name| values.count(name));
            check_capacity(capacity, recent)?;
            Ok(Arc::new(KvZap { capacity, recent, slack }))
        },
        fit: super::kvzip::fit,
    }),
};
