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

use super::best_and_recent::BestAndRecent;
use crate::kv::policy::{
    AccumulatedAttention, AttentionNeeds, EvictionPlan, HeadMode, LaneStatus, Policy, PolicyEntry,
    PolicyFactory, ScoreInput, Scoring,
};

#[derive(Debug)]
struct KvZap(BestAndRecent);

impl Policy for KvZap {
    fn budget(&self, _context: usize) -> usize {
        self.0.capacity
    }

    fn slack(&self, _context: usize) -> usize {
        self.0.slack
    }

    fn needs(&self) -> AttentionNeeds {
        AttentionNeeds { queries: 0, accumulated: Some(AccumulatedAttention::Predicted) }
    }

    fn plan_eviction(&self, status: &LaneStatus) -> Option<EvictionPlan> {
        self.0.is_exceeded(status).then(|| EvictionPlan {
            regions: self.0.regions(status.seen),
            scoring: Some(Scoring::of_all_rows(vec![ScoreInput::Accumulated])),
        })
    }
}

pub(in crate::kv::policy) const ENTRY: PolicyEntry = PolicyEntry {
    name: "kvzap",
    summary: "the rows that are expected to be needed to repeat the text, and the recent ones; reads a text once (KVzap)",
    parameters: &[BestAndRecent::CAPACITY, BestAndRecent::RECENT, BestAndRecent::SLACK],
    default_heads: HeadMode::Shares,
    default_compensation: false,
    factory: Some(PolicyFactory {
        build: |values| Ok(Arc::new(KvZap(BestAndRecent::from_values(values)?))),
        fit: BestAndRecent::fit,
    }),
};
