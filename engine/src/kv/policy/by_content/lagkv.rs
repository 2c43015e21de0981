//! LagKV (Liang et al. 2025, arXiv 2504.04704): tokens come in partitions of `lag`. When two are complete,
//! the older one loses rows. Its keys and values are normalised by the range of the newer one. A row's score is
//! how far they spread then, and `ratio` of the rows stay (equations 5 to 11).
//!
//! Variants: LocalKV is its own reference (equations 12 and 13). Lag-L2 scores by low key norm inside the
//! partitions (equation 14) and does not compress layers 0 and 1.
//!
//! No row is scored twice, and the borders of partitions do not move, so the rows kept do not depend on how
//! the text was cut into chunks. Decisions: compression begins at sinks + 2 · lag tokens; ratio · lag is
//! rounded down; an element that does not vary in the reference counts as 0.

use std::sync::Arc;

use crate::kv::policy::by_position::recent::floor;
use crate::kv::policy::{
    Candidates, EvictionPlan, HeadCandidates, HeadMode, LaneStatus, Measure, Parameter, Policy, PolicyEntry,
    PolicyFactory, Region, ScoreInput, Scoring,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    Lag,
    Local,
    Norm,
}

#[derive(Debug)]
struct LagKv {
    variant: Variant,
    sinks: usize,
    lag: usize,
    /// Rows kept of a partition.
    kept: usize,
    v_weight: f64,
}

/// Rows of a head after `n` tokens (equation 10).
pub fn length(n: usize, sinks: usize, lag: usize, ratio: f64) -> usize {
    if n < sinks + 2 * lag {
        return n;
    }
    sinks + floor(ratio * lag as f64) * ((n - sinks) / lag - 1) + lag + (n - sinks) % lag
}

impl Policy for LagKv {
    fn budget(&self, context: usize) -> usize {
        let partitions = context.saturating_sub(self.sinks) / self.lag;
        self.sinks + self.kept * partitions.saturating_sub(1) + 2 * self.lag
    }

    fn check(&self, context: usize) -> Result<(), String> {
        match self.lag > context {
            true => Err(format!("a lag of {} rows is longer than the session of {context} tokens", self.lag)),
            false => Ok(()),
        }
    }

    fn skips_layer(&self, layer: usize) -> bool {
        self.variant == Variant::Norm && layer < 2
    }

    fn plan_eviction(&self, status: &LaneStatus) -> Option<EvictionPlan> {
        let start = status.scanned_until.max(self.sinks);
        let partitions = status.seen.saturating_sub(start) / self.lag;
        if partitions < 2 {
            return None;
        }
        let border = |partition: usize| start + partition * self.lag;
        let spread = Measure::Spread { lag: self.lag, own: self.variant == Variant::Local };
        let inputs = match self.variant {
            Variant::Norm => vec![ScoreInput::Key(Measure::Norm)],
            _ => vec![ScoreInput::Key(spread), ScoreInput::Value(spread)],
        };
        Some(EvictionPlan {
            regions: (0..partitions - 1)
                .map(|p| Region { positions: border(p)..border(p + 1), keep: self.kept })
                .collect(),
            scoring: Some(Scoring::ordered(start..border(partitions), inputs)),
        })
    }

    fn score(&self, candidates: Candidates) -> Vec<Vec<f32>> {
        candidates.map_heads(|head| match self.variant {
            Variant::Norm => head.inputs[0].iter().map(|norm| -norm).collect(),
            _ => self.spread(head),
        })
    }
}

impl LagKv {
    /// The weighted sum of the keys' and the values' spreads, each after a softmax over its partition
    /// (equation 9).
    fn spread(&self, head: &HeadCandidates) -> Vec<f32> {
        let [keys, values] =
            [0, 1].map(|which| head.inputs[which].chunks(self.lag).flat_map(softmax).collect::<Vec<f64>>());
        keys.into_iter().zip(values).map(|(k, v)| (k + self.v_weight * v) as f32).collect()
    }
}

fn softmax(logits: &[f32]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f32::MIN, f32::max);
    let weights: Vec<f64> = logits.iter().map(|x| f64::from(x - largest).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}

const SINKS: Parameter = Parameter::rows("sinks", "first rows kept (16 in the paper)", 16.0, 0.0);
const LAG: Parameter = Parameter::rows(
    "lag",
    "rows of a partition; the last one or two partitions stay complete (128 to 1024 in the paper)",
    512.0,
    1.0,
);
const RATIO: Parameter = Parameter::number(
    "ratio",
    "share of a partition that is kept (0.125 to 0.5 in the paper)",
    0.25,
    0.0..=1.0,
);
const V_WEIGHT: Parameter = Parameter::number(
    "v_weight",
    "weight of the values' score; that of the keys is 1 (1 in the paper)",
    1.0,
    0.0..=1e3,
)
.hidden();

macro_rules! factory {
    ($variant:expr) => {
        Some(PolicyFactory {
            build: |values| {
                let lag = values.count("lag");
                Ok(Arc::new(LagKv {
                    variant: $variant,
                    sinks: values.count("sinks"),
                    lag,
                    kept: floor(values.get("ratio") * lag as f64),
                    v_weight: if $variant == Variant::Norm { 0.0 } else { values.get("v_weight") },
                }))
            },
            fit: |values, rows, context| {
                // Sinks and two partitions are complete, so small budgets get short partitions. Where the
                // budget has no row for every partition, the complete partitions get all of it.
                let sinks = values.count("sinks").min(rows / 8);
                let mut lag = values.count("lag").min((rows / 8).max(1));
                let partitions = (context.saturating_sub(sinks) / lag).saturating_sub(1).max(1);
                let kept = rows.saturating_sub(sinks + 2 * lag) / partitions;
                if kept == 0 {
                    lag = (rows - sinks) / 2;
                }
                values.set("sinks", sinks);
                values.set("lag", lag);
                values.set("ratio", kept.min(lag) as f64 / lag as f64);
            },
        })
    };
}

pub(in crate::kv::policy) const LAGKV: PolicyEntry = PolicyEntry {
    name: "lagkv",
    summary: "of each partition of the text, the rows that differ most from the next partition (LagKV)",
    parameters: &[SINKS, LAG, RATIO, V_WEIGHT],
    default_heads: HeadMode::Off,
    default_compensation: false,
    factory: factory!(Variant::Lag),
};

pub(in crate::kv::policy) const LOCALLAG: PolicyEntry = PolicyEntry {
    name: "locallag",
    summary: "of each partition, the rows that differ most within it (LocalKV in the LagKV paper)",
    factory: factory!(Variant::Local),
    ..LAGKV
};

pub(in crate::kv::policy) const LAG_L2: PolicyEntry = PolicyEntry {
    name: "lag-l2",
    summary: "of each partition, the rows whose keys have the lowest norms (Lag-L2 in the LagKV paper)",
    parameters: &[SINKS, LAG, RATIO],
    factory: factory!(Variant::Norm),
    ..LAGKV
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_softmax_of_large_numbers_is_finite() {
        assert_eq!(softmax(&[1000.0, 1000.0]), [0.5, 0.5]);
        assert_eq!(softmax(&[-1000.0, 0.0]), [0.0, 1.0]);
    }
}
