//! L2 norm (Devoto et al. 2024, arXiv 2406.11430): keys of low norm receive much attention, so each head
//! keeps the keys of lowest norm (section 3). Layers 0 and 1 are never compressed.
//!
//! There are two forms. *Saw-tooth*, the authors' code: nothing happens while a head holds fewer than `after`
//! rows; then ceil(keep · rows) stay. *Per step* (`rows`): a fixed number of rows stays, all others are
//! evicted.
//!
//! Decisions: sinks and recent rows are not protected by default, as in the paper; protected rows count as
//! kept. After an exact prefill of n tokens ceil(keep · n) rows stay, and the saw-tooth starts above them:
//! the rule taken literally would halve a long prompt with every token until `after` is reached. `order`
//! gives the paper's ablations (keep the highest norms, keep at random).

use std::sync::Arc;

use crate::kv::policy::by_position::recent::ceil;
use crate::kv::policy::{
    Candidates, Event, EvictionPlan, HeadMode, LaneStatus, Measure, Parameter, Policy, PolicyEntry,
    PolicyFactory, ScoreInput, Scoring,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Low,
    High,
    Random,
}

#[derive(Debug)]
struct L2 {
    keep: f64,
    after: usize,
    /// The per-step form.
    rows: Option<usize>,
    sinks: usize,
    recent: usize,
    skip: usize,
    order: Order,
    slack: Option<usize>,
}

impl L2 {
    /// Rows between the low and the high end of the saw-tooth.
    fn tooth(&self) -> usize {
        (self.after - ceil(self.keep * self.after as f64).min(self.after)).max(1)
    }

    /// Rows that stay.
    fn target(&self, status: &LaneStatus) -> usize {
        let LaneStatus { live, prompt_rows_kept, .. } = *status;
        if let Some(rows) = self.rows {
            let at_once = status.event == Event::ExactPrefill || status.forced;
            let slack = if at_once { 0 } else { self.slack(status.context) };
            return if live > rows + slack { rows } else { live };
        }
        let base = if prompt_rows_kept >= self.after { prompt_rows_kept } else { 0 };
        let trigger = if base > 0 { base + self.tooth() } else { self.after };
        if live < trigger && !(status.forced && live > prompt_rows_kept) {
            return live;
        }
        ceil(self.keep * live as f64).max(base).min(live)
    }
}

impl Policy for L2 {
    fn budget(&self, context: usize) -> usize {
        match self.rows {
            Some(rows) => rows,
            None => self.after.max(ceil(self.keep * context as f64) + self.tooth()),
        }
    }

    fn slack(&self, _context: usize) -> usize {
        match self.rows {
            // Norms do not change, so evicting several rows together keeps the same rows in the end and
            // measures less often.
            Some(rows) => self.slack.unwrap_or((rows / 8).clamp(1, 512)),
            None => 0,
        }
    }

    fn skips_layer(&self, layer: usize) -> bool {
        layer < self.skip
    }

    fn plan_eviction(&self, status: &LaneStatus) -> Option<EvictionPlan> {
        let protected = self.sinks + self.recent;
        let target = self.target(status).max(protected);
        (target < status.live).then(|| {
            let positions = self.sinks..status.seen - self.recent;
            let scoring = Scoring::of_all_rows(vec![ScoreInput::Key(Measure::Norm)]);
            EvictionPlan::single(positions, target - protected, Some(scoring))
        })
    }

    fn score(&self, candidates: Candidates) -> Vec<Vec<f32>> {
        candidates.map_heads(|head| {
            let norms = head.inputs[0].iter();
            match self.order {
                Order::Low => norms.map(|norm| -norm).collect(),
                Order::High => norms.copied().collect(),
                Order::Random => head.positions.iter().map(|position| hash_score(*position)).collect(),
            }
        })
    }
}

/// A pseudo-random number from 0 to 1 that depends on the position only.
fn hash_score(position: u32) -> f32 {
    let mixed = (u64::from(position) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as f32 / (1 << 24) as f32
}

/// How much attention is lost by keeping rows by key norm instead of by attention itself (equations 5 to 7):
/// the sum over all m of the attention mass in the m keys of highest norm, less the mass in the m keys with
/// the least attention. `attention` is one query's row, `norms` belong to the same keys. 0 for a head whose
/// norms order keys exactly as its attention does.
pub fn attention_loss(attention: &[f64], norms: &[f64]) -> f64 {
    let mut by_norm: Vec<usize> = (0..norms.len().min(attention.len())).collect();
    let mut by_attention = by_norm.clone();
    // Of equal norms the later key comes first, as of equal scores the later row is evicted first.
    by_norm.sort_by(|a, b| norms[*b].total_cmp(&norms[*a]).then(b.cmp(a)));
    by_attention.sort_by(|a, b| attention[*a].total_cmp(&attention[*b]));
    let (mut lost_by_norm, mut lost_by_attention, mut loss) = (0.0, 0.0, 0.0);
    for (norm, smallest) in by_norm.into_iter().zip(by_attention) {
        lost_by_norm += attention[norm];
        lost_by_attention += attention[smallest];
        loss += lost_by_norm - lost_by_attention;
    }
    loss
}

pub(in crate::kv::policy) const ENTRY: PolicyEntry = PolicyEntry {
    name: "l2",
    summary: "the rows with the shortest keys, by their L2 norm (L2 norm)",
    parameters: &[
        Parameter::number("keep", "share of the rows that a head keeps when it is compressed (0.5 in the paper)", 0.5, 0.0..=1.0),
        Parameter::rows("after", "number of rows at which a head is compressed (2048 in the authors' code)", 2048.0, 1.0),
        Parameter::rows("rows", "a fixed number of rows instead of keep and after; 0 is off", 0.0, 0.0).hidden(),
        Parameter::rows("sinks", "first rows kept whatever their norm", 0.0, 0.0).hidden(),
        Parameter::rows("recent", "last rows kept whatever their norm", 0.0, 0.0).hidden(),
        Parameter::rows("skip", "number of first layers that keep everything", 2.0, 0.0).hidden(),
        Parameter::choice(
            "order",
            "which norms are kept; high and random are for comparison",
            &["low", "high", "random"],
        ),
        Parameter::slack(-1.0, -1.0).described(
            "with a fixed number of rows: rows beyond it that a head may hold before some are evicted; -1 is an eighth of it, at most 512",
        ),
    ],
    default_heads: HeadMode::Off,
    default_compensation: false,
    factory: Some(PolicyFactory {
        build: |values| {
            let rows = values.count("rows");
            let (sinks, recent) = (values.count("sinks"), values.count("recent"));
            let smallest = if rows > 0 { rows } else { values.count("after") };
            if sinks + recent > smallest {
                return Err(format!("{sinks} sinks and {recent} recent rows do not fit {smallest} rows"));
            }
            Ok(Arc::new(L2 {
                keep: values.get("keep"),
                after: values.count("after"),
                rows: (rows > 0).then_some(rows),
                sinks,
                recent,
                skip: values.count("skip"),
                order: [Order::Low, Order::High, Order::Random][values.count("order")],
                slack: values.optional_count("slack"),
            }))
        },
        fit: |values, rows, _| {
            let (sinks, recent) = (values.count("sinks"), values.count("recent"));
            values.set("sinks", sinks.min(rows / 2));
            values.set("recent", recent.min(rows / 2));
            values.set("rows", rows);
        },
    }),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::policy::PolicyChoice;

    fn status(event: Event, live: usize, prompt_rows_kept: usize) -> LaneStatus {
        LaneStatus {
            event,
            forced: false,
            seen: live,
            live,
            scanned_until: 0,
            prompt_rows_kept,
            context: 1 << 20,
        }
    }

    fn l2(text: &str) -> Arc<dyn Policy> {
        text.parse::<PolicyChoice>().expect("a policy").policy().expect("bounded")
    }

    fn rows_left(policy: &dyn Policy, status: LaneStatus) -> usize {
        policy.plan_eviction(&status).map_or(status.live, |plan| plan.regions[0].keep)
    }

    #[test]
    fn the_saw_tooth_falls_to_the_share_and_rises_again() {
        let policy = l2("l2:keep=0.5,after=40");
        assert_eq!(rows_left(&*policy, status(Event::Step, 39, 0)), 39);
        assert_eq!(rows_left(&*policy, status(Event::Step, 40, 0)), 20);
        assert_eq!(rows_left(&*policy, status(Event::Chunk, 101, 0)), 51);
    }

    /// A prompt keeps its share; later tokens do not halve it again and again.
    #[test]
    fn the_saw_tooth_starts_above_the_rows_of_the_prompt() {
        let policy = l2("l2:keep=0.5,after=40");
        assert_eq!(rows_left(&*policy, status(Event::ExactPrefill, 1000, 0)), 500);
        assert_eq!(rows_left(&*policy, status(Event::Step, 519, 500)), 519);
        assert_eq!(rows_left(&*policy, status(Event::Step, 520, 500)), 500);
        assert_eq!((policy.budget(1000), policy.budget(10)), (520, 40));
    }

    #[test]
    fn without_room_a_head_is_compressed_early_but_not_below_its_prompt() {
        let policy = l2("l2:keep=0.5,after=40");
        let forced = |live, prompt| LaneStatus { forced: true, ..status(Event::Step, live, prompt) };
        assert_eq!(rows_left(&*policy, forced(30, 0)), 15);
        assert_eq!(rows_left(&*policy, forced(30, 29)), 15);
        assert_eq!(rows_left(&*policy, forced(30, 30)), 30);
    }

    #[test]
    fn nothing_is_scored_where_all_rows_stay() {
        assert!(l2("l2:keep=0.5,after=40").plan_eviction(&status(Event::Step, 39, 0)).is_none());
        assert!(l2("l2:rows=40").plan_eviction(&status(Event::Step, 40, 0)).is_none());
    }

    /// Computed with integers in Python, in units of 2^-24.
    #[test]
    fn random_scores_are_the_same_everywhere() {
        let units = [0, 1, 2, 1000].map(|position| hash_score(position) * (1 << 24) as f32);
        assert_eq!(units, [13_238_423.0, 7_090_759.0, 15_380_822.0, 4_673_046.0]);
    }

    #[test]
    fn norms_in_the_order_of_attention_lose_nothing() {
        assert_eq!(attention_loss(&[0.5, 0.3, 0.2], &[1.0, 2.0, 3.0]), 0.0);
        // The two ends swapped: (0.5 - 0.2) + (0.8 - 0.5) + 0.
        assert!((attention_loss(&[0.5, 0.3, 0.2], &[3.0, 2.0, 1.0]) - 0.6).abs() < 1e-6);
    }
}
