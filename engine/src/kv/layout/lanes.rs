//! The lanes of a layer: which KV heads keep equally many rows, and how many rows are allocated for them. Knows nothing
//! of other layers.
//!
//! Usually these are heads that keep everything, and bounded heads. Under `razor` a model with ALiBi has a lane for each
//! class of windows, and with `heads=shares` there is one for heads with similar shares.

use std::sync::Arc;

use kernels::graph::MAX_LANES;

use super::StoreOptions;
use crate::EngineError;
use crate::kv::alibi;
use crate::kv::policy::{
    AccumulatedAttention, AccumulationRule, AttentionNeeds, MIN_ROWS, Policy, PolicyChoice, Recent,
    SecondReadingScore,
};

/// Some KV heads of a layer that keep equally many rows.
#[derive(Clone, Debug)]
pub struct LaneLayout {
    /// KV heads, ascending.
    pub kv_heads: Vec<u32>,
    /// Rows allocated for each, the compensation entry included.
    pub capacity: usize,
    /// Which rows they keep; `None` for all.
    pub policy: Option<Arc<dyn Policy>>,
    /// Whether row 0 is a compensation entry.
    pub compensated: bool,
    /// Tokens that a query sees, its own included, in a layer with a sliding window. Such a layer has one lane, which
    /// keeps these rows whatever the session's policy is.
    pub window: Option<usize>,
}

/// The fewest rows of a head that keeps a share of its rows: enough for the last tokens.
const MIN_ROWS_OF_SHARE: usize = 96;

/// Rows allocated for a layer with a sliding window beyond those it keeps, so that a chunk can be computed at once.
const WINDOW_RESERVE: usize = 512;

impl LaneLayout {
    /// Heads that keep every row.
    pub(super) fn full(kv_heads: Vec<u32>, context: usize) -> LaneLayout {
        LaneLayout { kv_heads, capacity: context, policy: None, compensated: false, window: None }
    }

    /// Heads that keep the rows a policy chooses.
    pub(super) fn bounded(
        kv_heads: Vec<u32>,
        policy: Arc<dyn Policy>,
        compensated: bool,
        options: StoreOptions,
    ) -> LaneLayout {
        let context = options.context;
        let budget = policy.budget(context).min(context);
        let reserve = options.reserve.unwrap_or((budget / 8).clamp(32, 512));
        let rows = budget.saturating_add(reserve.max(policy.slack(context).saturating_add(1)));
        let capacity = rows.min(context) + usize::from(compensated);
        LaneLayout { kv_heads, capacity, policy: Some(policy), compensated, window: None }
    }

    /// The heads of a layer in which a query sees `window` tokens.
    pub(super) fn windowed(kv_heads: Vec<u32>, window: usize, options: StoreOptions) -> LaneLayout {
        let context = options.context;
        if window >= context {
            return LaneLayout::full(kv_heads, context);
        }
        let policy = Recent { sinks: 0, window, share: 0.0, slack: None };
        let reserve = options.reserve.unwrap_or(WINDOW_RESERVE).max(1);
        let capacity = window.saturating_add(policy.slack(context)).saturating_add(reserve).min(context);
        let policy: Arc<dyn Policy> = Arc::new(policy);
        LaneLayout { kv_heads, capacity, policy: Some(policy), compensated: false, window: Some(window) }
    }

    /// What the lane's policy needs of the attention.
    pub fn needs(&self) -> AttentionNeeds {
        self.policy.as_ref().map_or_else(AttentionNeeds::default, |policy| policy.needs())
    }

    /// How attention is accumulated while the model runs.
    pub(in crate::kv) fn accumulation(&self) -> Option<AccumulationRule> {
        match self.needs().accumulated? {
            AccumulatedAttention::WhileRunning(rule) => Some(rule),
            AccumulatedAttention::SecondReading(_) | AccumulatedAttention::Predicted => None,
        }
    }

    /// How attention is accumulated while a first text is read a second time.
    pub(in crate::kv) fn reconstruction(&self) -> Option<AccumulationRule> {
        match self.needs().accumulated? {
            AccumulatedAttention::WhileRunning(_) | AccumulatedAttention::Predicted => None,
            AccumulatedAttention::SecondReading(_) => Some(AccumulationRule::RECONSTRUCTION),
        }
    }

    /// Whether contributions count while a first text is read a second time.
    pub(in crate::kv) fn counts_contributions(&self) -> bool {
        self.needs().accumulated
            == Some(AccumulatedAttention::SecondReading(SecondReadingScore::Contribution))
    }

    /// Whether the scores of the lane's rows are predicted when they are appended.
    pub(in crate::kv) fn is_predicted(&self) -> bool {
        self.needs().accumulated == Some(AccumulatedAttention::Predicted)
    }

    /// Whether the lane's rows accumulate attention, or what is predicted of it.
    pub(in crate::kv) fn accumulates(&self) -> bool {
        self.needs().accumulated.is_some()
    }

    /// Rows allocated for all heads together.
    pub(in crate::kv) fn rows(&self) -> usize {
        self.capacity * self.kv_heads.len()
    }

    /// Bytes of the host's record of which position each row holds; none for lanes that keep every row.
    pub(super) fn position_bytes(&self) -> usize {
        if self.policy.is_some() { 4 * self.rows() } else { 0 }
    }
}

/// The lanes of a layer whose KV heads have these attention scopes, in tokens: one lane for each class of
/// windows, the longest first. They may hold `slack` rows more, or as many as [`Recent`] chooses.
pub(super) fn lanes_of_windows(
    scopes: &[f32],
    slack: Option<usize>,
    options: StoreOptions,
) -> Vec<LaneLayout> {
    let scopes: Vec<f64> = scopes.iter().map(|scope| f64::from(*scope)).collect();
    let windows = alibi::window_classes(&scopes, options.context, MAX_LANES);
    let mut classes = windows.clone();
    classes.sort_unstable_by(|a, b| b.cmp(a));
    classes.dedup();
    let lane = |window: usize| {
        let kv_heads = (0..).zip(&windows).filter(|(_, of_head)| **of_head == window).map(|(head, _)| head);
        let policy = Recent { sinks: 0, window, share: 0.0, slack };
        match window < options.context {
            true => LaneLayout::bounded(kv_heads.collect(), Arc::new(policy), false, options),
            false => LaneLayout::full(kv_heads.collect(), options.context),
        }
    };
    classes.into_iter().map(lane).collect()
}

/// The lanes of a layer whose KV heads keep these shares of the context's rows. Heads with similar shares are a lane
/// and keep their mean. Those that keep the most come first. In another context the lanes are others: rows cannot be
/// carried over, and the text is read again.
pub(super) fn lanes_of_shares(
    shares: &[f64],
    max_lanes: usize,
    choice: &PolicyChoice,
    options: StoreOptions,
) -> Result<Vec<LaneLayout>, EngineError> {
    /// From here on a head keeps everything.
    const ALL: f64 = 0.97;
    let mut heads: Vec<u32> = (0..shares.len() as u32).collect();
    heads.sort_by(|a, b| shares[*b as usize].total_cmp(&shares[*a as usize]));
    let budget = choice.policy().map_or(0, |policy| policy.budget(options.context));
    let min_rows = MIN_ROWS_OF_SHARE.min(budget).max(MIN_ROWS);
    let lane = |mut kv_heads: Vec<u32>| {
        let mean = kv_heads.iter().map(|head| shares[*head as usize]).sum::<f64>() / kv_heads.len() as f64;
        kv_heads.sort_unstable();
        let rows = ((mean * options.context as f64) as usize).max(min_rows);
        if mean >= ALL || rows >= options.context {
            return Ok(LaneLayout::full(kv_heads, options.context));
        }
        let choice = choice.with_rows(rows, options.context)?;
        let policy = choice.policy().expect("a policy that bounds heads");
        Ok(LaneLayout::bounded(kv_heads, policy, choice.is_compensated(), options))
    };
    similar(&heads, shares, max_lanes).into_iter().map(lane).collect()
}

/// Heads, ordered by their shares, in at most `max_classes` classes. The classes are divided where the shares differ
/// most.
fn similar(heads: &[u32], shares: &[f64], max_classes: usize) -> Vec<Vec<u32>> {
    let gap = |at: &usize| shares[heads[*at - 1] as usize] - shares[heads[*at] as usize];
    let mut gaps: Vec<usize> = (1..heads.len()).filter(|at| gap(at) > 0.0).collect();
    gaps.sort_by(|a, b| gap(b).total_cmp(&gap(a)));
    gaps.truncate(max_classes - 1);
    gaps.sort_unstable();
    let ends = gaps.iter().copied().chain([heads.len()]);
    let begins = [0].into_iter().chain(gaps.iter().copied());
    begins.zip(ends).map(|(from, to)| heads[from..to].to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use ggml::Type;

    use super::*;

    #[test]
    fn heads_with_similar_shares_are_a_lane() {
        let options = StoreOptions { context: 1000, types: (Type::F16, Type::F16), reserve: None };
        let choice = "kvzip:capacity=400".parse().expect("a policy");
        let lanes_of = |shares: &[f64], max_lanes: usize| -> Vec<(Vec<u32>, usize)> {
            let lanes = lanes_of_shares(shares, max_lanes, &choice, options).expect("lanes");
            let rows = |lane: &LaneLayout| lane.policy.as_ref().map_or(1000, |policy| policy.budget(1000));
            lanes.iter().map(|lane| (lane.kv_heads.clone(), rows(lane))).collect()
        };
        let lanes = |shares: &[f64]| lanes_of(shares, MAX_LANES);
        assert_eq!(lanes(&[0.2, 0.99]), [(vec![1], 1000), (vec![0], 200)]);
        assert_eq!(lanes(&[0.5, 0.5]), [(vec![0, 1], 500)]);
        // A layer has three lanes at most. Each keeps the mean of its heads, and enough for the last tokens.
        assert_eq!(MAX_LANES, 3);
        assert_eq!(
            lanes(&[0.0, 0.5, 0.98, 0.01, 0.4, 1.0]),
            [(vec![2, 5], 1000), (vec![1, 4], 450), (vec![0, 3], MIN_ROWS_OF_SHARE)]
        );
        // Sink logits leave room for two. The widest gap divides them.
        assert_eq!(lanes_of(&[0.0, 0.5, 0.9, 0.9], 2), [(vec![1, 2, 3], 766), (vec![0], MIN_ROWS_OF_SHARE)]);
    }
}
