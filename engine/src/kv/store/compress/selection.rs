//! Which rows of a lane leave: computes the inputs that an eviction plan asks for where the rows are, lets the policy
//! score them, and selects the rows with the lowest scores. Changes no lane.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use ggml::{Context, Graph, Tensor};
use kernels::Form;
use kernels::graph::{AttentionShape, GraphLane, MeasureRows, RowLists, WindowAttention, WindowQueries};

use crate::devices::backends::Backends;
use crate::devices::placement::Place;
use crate::devices::workspace::Workspace;
use crate::kv::layout::LaneLayout;
use crate::kv::policy::{Candidates, EvictionPlan, HeadCandidates, LaneStatus, ScoreInput, Scoring};
use crate::{EngineError, Hint};

/// Rows of a lane's heads from which some may be evicted: in the lane itself, or complete in a scratch
/// tensor.
pub(super) struct Source<'a> {
    pub(super) form: Form,
    pub(super) lane: &'a LaneLayout,
    /// Of the lane's compensation entry.
    pub(super) log_weight: f32,
    pub(super) rows: &'a GraphLane,
    pub(super) queries: Option<&'a Tensor>,
    /// The learned logits of the layer's query heads.
    pub(super) sink_logits: Option<&'a Tensor>,
    /// What the stored keys of all KV heads of the layer lack, `[head_dim * kv_heads]`.
    pub(super) key_offset: Option<&'a [f32]>,
    /// For each head of the lane its index in the tensors.
    pub(super) heads: Vec<u32>,
    /// For each head the positions of its rows, from row `first` on.
    pub(super) positions: Vec<Arc<Vec<u32>>>,
    /// The first row that holds a token.
    pub(super) first: usize,
    pub(super) status: LaneStatus,
}

/// Maximum number of tensors of what stored keys lack.
const OFFSET_TENSORS: usize = 2;

/// Which rows of a lane are evicted.
pub(super) struct Decision {
    /// For each head the rows, ascending, counted from the first that holds a token.
    pub(super) evicted: Vec<Vec<u32>>,
    /// For each head the accumulated attention of its rows from now on, if it changes.
    pub(super) accumulated: Option<Vec<Vec<f32>>>,
}

impl Source<'_> {
    /// Computes the inputs that a plan needs, and selects the rows that are evicted.
    pub(super) fn decide(
        &self,
        shape: AttentionShape,
        plan: &EvictionPlan,
        backends: &Backends,
        place: Place,
        workspace: &mut Workspace,
    ) -> Result<Decision, EngineError> {
        let Some(scoring) = &plan.scoring else {
            let evicted = self.evicted_unscored(plan);
            check_equal_counts(&evicted)?;
            return Ok(Decision { evicted, accumulated: None });
        };
        self.check_inputs(scoring)?;
        let rows = self.rows_to_score(scoring)?;
        let (ctx, nodes) = self.input_nodes(shape, scoring, rows.as_deref());
        let computed: Vec<Tensor> = nodes.iter().flatten().cloned().collect();
        workspace.run(backends, place, &ctx, &computed)?;
        let heads = self.candidates(shape, scoring, rows.as_deref(), &nodes)?;
        self.select(shape, plan, scoring, rows.as_deref(), heads)
    }

    /// The graph that computes the inputs a plan needs; `None` where it needs none. And for each head the rows that it evicts,
    /// as many as it would by scores.
    pub(super) fn forecast(
        &self,
        shape: AttentionShape,
        plan: &EvictionPlan,
    ) -> Result<(Option<Graph>, Vec<Vec<u32>>), EngineError> {
        let evicted = self.evicted_unscored(plan);
        let Some(scoring) = &plan.scoring else { return Ok((None, evicted)) };
        let rows = self.rows_to_score(scoring)?;
        let (ctx, nodes) = self.input_nodes(shape, scoring, rows.as_deref());
        let nodes: Vec<&Tensor> = nodes.iter().flatten().collect();
        Ok(((!nodes.is_empty()).then(|| ctx.graph(&nodes)).transpose()?, evicted))
    }

    /// For each head the rows that a plan evicts where nothing scores them.
    fn evicted_unscored(&self, plan: &EvictionPlan) -> Vec<Vec<u32>> {
        let of_head = |positions: &Arc<Vec<u32>>| rows_to_evict(plan, positions, &vec![0.0; positions.len()]);
        self.positions.iter().map(of_head).collect()
    }

    /// Refuses inputs for which nothing has been recorded, because the policy does not declare them.
    fn check_inputs(&self, scoring: &Scoring) -> Result<(), EngineError> {
        let needs = self.lane.needs();
        let is_declared = |input: &ScoreInput| match input {
            ScoreInput::Key(_) | ScoreInput::Value(_) => true,
            ScoreInput::Accumulated => needs.accumulated.is_some(),
            ScoreInput::WindowAttention { queries, .. } => *queries <= needs.queries,
        };
        match scoring.inputs.iter().find(|input| !is_declared(input)) {
            Some(input) => {
                Err(self.policy_error(format!("it scores by {input:?}, which it does not declare")))
            }
            None => Ok(()),
        }
    }

    /// A fault of the lane's policy.
    fn policy_error(&self, reason: String) -> EngineError {
        EngineError::Policy {
            given: format!("{:?}", self.lane.policy),
            reason,
            hint: Hint::advice("tell the author of the policy"),
        }
    }

    /// For each head the rows that are scored, counted from the first that holds a token; `None` for all, as
    /// they lie.
    fn rows_to_score(&self, scoring: &Scoring) -> Result<Option<Vec<Vec<u32>>>, EngineError> {
        let Some(range) = &scoring.ordered_positions else { return Ok(None) };
        let of_head = |positions: &Arc<Vec<u32>>| {
            let within = |row: &u32| range.contains(&(positions[*row as usize] as usize));
            let mut rows: Vec<u32> = (0..positions.len() as u32).filter(within).collect();
            if !rows.is_sorted_by_key(|row| positions[*row as usize]) {
                rows.sort_unstable_by_key(|row| positions[*row as usize]);
            }
            rows
        };
        let rows: Vec<Vec<u32>> = self.positions.iter().map(of_head).collect();
        check_equal_counts(&rows)?;
        Ok(Some(rows))
    }

    /// What the stored keys of the lane's heads lack, `[head_dim, heads]`.
    fn key_offset_of_heads(&self, ctx: &Context, head_dim: usize) -> Option<Tensor> {
        let of_layer = self.key_offset?;
        let heads = self.lane.kv_heads.iter().map(|head| *head as usize * head_dim);
        let offset: Vec<f32> = heads.flat_map(|first| &of_layer[first..first + head_dim]).copied().collect();
        Some(ctx.reshape(&ctx.constant_f32(&offset), [head_dim, offset.len() / head_dim]))
    }

    /// For each input the node that computes it; `None` for accumulated attention, which is there already.
    fn input_nodes(
        &self,
        shape: AttentionShape,
        scoring: &Scoring,
        rows: Option<&[Vec<u32>]>,
    ) -> (Context, Vec<Option<Tensor>>) {
        let tensors = |input: &ScoreInput| match input {
            ScoreInput::Key(_) | ScoreInput::Value(_) | ScoreInput::Accumulated => {
                self.form.max_tensors(self.rows, 0, 0) + OFFSET_TENSORS
            }
            ScoreInput::WindowAttention { queries, .. } => {
                self.form.max_tensors(self.rows, shape.group, *queries)
            }
        };
        let ctx = &Context::new(scoring.inputs.iter().map(tensors).sum::<usize>() + 1);
        let first = self.first as u32;
        let scored_rows = || RowLists {
            heads: self.heads.clone(),
            rows: match rows {
                Some(rows) => {
                    (rows.iter()).map(|rows| Arc::new(rows.iter().map(|row| row + first).collect())).collect()
                }
                None => {
                    let live = self.positions.first().map_or(0, |head| head.len()) as u32;
                    let all = Arc::new((first..first + live).collect::<Vec<_>>());
                    self.heads.iter().map(|_| all.clone()).collect()
                }
            },
        };
        let seen = self.status.seen;
        let node = |input: &ScoreInput| match input {
            ScoreInput::Key(what) => {
                let offset = self.key_offset_of_heads(ctx, shape.head_dim);
                let (tensor, offset, lists) = (&self.rows.k, offset.as_ref(), scored_rows());
                Some(self.form.nodes(ctx, MeasureRows { tensor, offset, lists, what: *what }))
            }
            ScoreInput::Value(what) => {
                let (tensor, lists) = (&self.rows.v, scored_rows());
                Some(self.form.nodes(ctx, MeasureRows { tensor, offset: None, lists, what: *what }))
            }
            ScoreInput::Accumulated => None,
            ScoreInput::WindowAttention { queries, gain } => {
                let stored = self.queries?;
                let window = WindowQueries {
                    positions: seen - (*queries).min(seen)..seen,
                    gain: *gain,
                    kv_heads: self.lane.kv_heads.clone(),
                    first: self.first,
                    log_weight: self.log_weight,
                    sink_logits: self.sink_logits.cloned(),
                };
                let positions = RowLists { heads: self.heads.clone(), rows: self.positions.clone() };
                let (k, ring) = (&self.rows.k, stored);
                Some(self.form.nodes(ctx, WindowAttention { shape, k, ring, positions, window }))
            }
        };
        let nodes = scoring.inputs.iter().map(node).collect();
        (ctx.clone(), nodes)
    }

    /// The rows that are scored, with their inputs.
    fn candidates(
        &self,
        shape: AttentionShape,
        scoring: &Scoring,
        rows: Option<&[Vec<u32>]>,
        nodes: &[Option<Tensor>],
    ) -> Result<Vec<HeadCandidates>, EngineError> {
        let positions = |number: usize| match rows {
            None => self.positions[number].clone(),
            Some(rows) => {
                let positions = &self.positions[number];
                Arc::new(rows[number].iter().map(|row| positions[*row as usize]).collect())
            }
        };
        // Takes the scored rows' numbers out of those of all rows, as they lie.
        let of_scored = |number: usize, all: &[f32]| -> Vec<f32> {
            let all = &all[self.first..];
            match rows {
                None => all.to_vec(),
                Some(rows) => rows[number].iter().map(|row| all[*row as usize]).collect(),
            }
        };
        let mut heads: Vec<HeadCandidates> = (0..self.heads.len())
            .map(|number| HeadCandidates { positions: positions(number), inputs: Vec::new() })
            .collect();
        for (input, node) in scoring.inputs.iter().zip(nodes) {
            // One read for all heads: from a device every read waits for a transfer.
            let numbers = node.as_ref().or(self.rows.accumulated.as_ref());
            let all: Vec<f32> = numbers.map_or(Ok(Vec::new()), Tensor::to_vec)?;
            let capacity = self.rows.k.dim(1);
            for (number, head) in heads.iter_mut().enumerate() {
                let (n, live) = (head.positions.len(), self.first + self.positions[number].len());
                head.inputs.push(match input {
                    ScoreInput::Key(_) | ScoreInput::Value(_) => all[number * n..][..n].to_vec(),
                    ScoreInput::Accumulated => {
                        let column = self.heads[number] as usize * capacity;
                        of_scored(number, &all[column..][..live])
                    }
                    ScoreInput::WindowAttention { .. } => {
                        let group = &all[number * shape.group * live..][..shape.group * live];
                        group.chunks_exact(live).flat_map(|member| of_scored(number, member)).collect()
                    }
                });
            }
        }
        Ok(heads)
    }

    /// Scores the rows and selects those that are evicted.
    fn select(
        &self,
        shape: AttentionShape,
        plan: &EvictionPlan,
        scoring: &Scoring,
        rows: Option<&[Vec<u32>]>,
        heads: Vec<HeadCandidates>,
    ) -> Result<Decision, EngineError> {
        let Some(policy) = &self.lane.policy else {
            return Ok(Decision { evicted: vec![Vec::new(); self.heads.len()], accumulated: None });
        };
        let positions: Vec<Arc<Vec<u32>>> = heads.iter().map(|head| head.positions.clone()).collect();
        let scores = policy.score(Candidates { status: self.status, group: shape.group, heads });
        if !scores.iter().map(Vec::len).eq(positions.iter().map(|positions| positions.len())) {
            return Err(self.policy_error("it does not give one score a row".into()));
        }
        let evicted = positions.iter().zip(&scores).enumerate().map(|(number, (positions, scores))| {
            let mut evicted = rows_to_evict(plan, positions, scores);
            if let Some(rows) = rows {
                evicted.iter_mut().for_each(|index| *index = rows[number][*index as usize]);
                evicted.sort_unstable();
            }
            evicted
        });
        let evicted: Vec<Vec<u32>> = evicted.collect();
        check_equal_counts(&evicted)?;
        let accumulated = scoring.store_scores.then(|| match rows {
            None => scores,
            Some(rows) => (rows.iter().zip(&scores).zip(&self.positions))
                .map(|((rows, scores), positions)| {
                    let mut column = vec![0f32; positions.len()];
                    rows.iter().zip(scores).for_each(|(row, score)| column[*row as usize] = *score);
                    column
                })
                .collect(),
        });
        Ok(Decision { evicted, accumulated })
    }
}

/// Checks that there are equally many rows of each head. A damaged session file may hold positions that no
/// policy would leave, and a policy may divide positions into regions that hold different numbers of rows in
/// each head.
fn check_equal_counts(rows: &[Vec<u32>]) -> Result<(), EngineError> {
    match rows.windows(2).all(|pair| pair[0].len() == pair[1].len()) {
        true => Ok(()),
        false => Err(EngineError::Setting {
            what: "the rows of a lane".into(),
            reason: "heads that evict the same number of rows hold rows of different positions".into(),
            hint: Hint::advice(
                "if the session was restored, its file is damaged: read the text again; otherwise tell the author of the policy",
            ),
        }),
    }
}

/// Which rows are evicted, ascending: of each region all but the `keep` rows with the highest scores, where
/// of equal scores the smaller position stays.
fn rows_to_evict(plan: &EvictionPlan, positions: &[u32], scores: &[f32]) -> Vec<u32> {
    if let [region] = &plan.regions[..] {
        let end = region.positions.end.min(u32::MAX as usize);
        let range = region.positions.start as u32..end as u32;
        let count = positions.iter().filter(|p| range.contains(p)).count().saturating_sub(region.keep);
        if count <= MAX_LINEAR_SEARCHES {
            return lowest_scores(count, range, positions, scores);
        }
    }
    let mut rows: Vec<Vec<u32>> = vec![Vec::new(); plan.regions.len()];
    for (row, position) in (0..).zip(positions) {
        let position = *position as usize;
        let after = plan.regions.partition_point(|region| region.positions.start <= position);
        if let Some(number) = after.checked_sub(1)
            && plan.regions[number].positions.contains(&position)
        {
            rows[number].push(row);
        }
    }
    let mut evicted = Vec::new();
    for (mut rows, region) in rows.into_iter().zip(&plan.regions) {
        let count = rows.len().saturating_sub(region.keep);
        if count > 0 && region.keep > 0 {
            // The lowest scores first.
            rows.select_nth_unstable_by(count, |a, b| {
                let (a, b) = (*a as usize, *b as usize);
                scores[a].total_cmp(&scores[b]).then(positions[b].cmp(&positions[a]))
            });
        }
        evicted.extend_from_slice(&rows[..count]);
    }
    evicted.sort_unstable();
    evicted
}

/// Up to this number of rows is found by a linear search for each, which is faster than ordering all rows.
/// Decode steps evict one.
const MAX_LINEAR_SEARCHES: usize = 4;

/// The `count` rows with the lowest scores whose positions are in `range`, ascending.
fn lowest_scores(count: usize, range: Range<u32>, positions: &[u32], scores: &[f32]) -> Vec<u32> {
    let mut evicted: Vec<u32> = Vec::with_capacity(count);
    for _ in 0..count {
        let mut found: Option<(u32, f32, u32)> = None;
        for ((row, position), score) in (0..).zip(positions).zip(scores) {
            let lower = match &found {
                None => true,
                Some((_, lowest, latest)) => {
                    score.total_cmp(lowest).then(latest.cmp(position)) == Ordering::Less
                }
            };
            if lower && range.contains(position) && !evicted.contains(&row) {
                found = Some((row, *score, *position));
            }
        }
        evicted.extend(found.map(|(row, ..)| row));
    }
    evicted.sort_unstable();
    evicted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::policy::Region;

    #[test]
    fn the_lowest_scores_are_evicted_and_of_equal_ones_the_later() {
        let positions = [6, 1, 2, 5, 4, 3, 0];
        let scores = [-9.0, 1.0, 3.0, 1.0, 0.0, 1.0, -9.0];
        // Positions 0 and 6 do not compete; rows 4, 3 and 5 hold positions 4, 5 and 3.
        let evicted = |keep| rows_to_evict(&EvictionPlan::single(1..6, keep, None), &positions, &scores);
        assert_eq!(evicted(4), [4]);
        assert_eq!(evicted(2), [3, 4, 5]);
        assert_eq!(evicted(0), [1, 2, 3, 4, 5]);
        assert_eq!(evicted(5), [0; 0]);
    }

    #[test]
    fn linear_search_and_ordering_agree_with_sorting() {
        let n = 64u32;
        let positions: Vec<u32> = (0..n).map(|row| row * 37 % n).collect();
        let scores: Vec<f32> = (0..n).map(|row| (row * 29 % 7) as f32).collect();
        let mut sorted: Vec<u32> = (0..n).collect();
        sorted.sort_by_key(|row| (scores[*row as usize] as u32, u32::MAX - positions[*row as usize]));
        for count in 0..=n as usize {
            let plan = EvictionPlan::single(0..n as usize, n as usize - count, None);
            let mut want = sorted[..count].to_vec();
            want.sort_unstable();
            assert_eq!(rows_to_evict(&plan, &positions, &scores), want, "{count}");
        }
    }

    #[test]
    fn rows_compete_only_within_their_region() {
        let regions = vec![Region { positions: 0..2, keep: 1 }, Region { positions: 3..5, keep: 1 }];
        let plan = EvictionPlan { regions, scoring: None };
        assert_eq!(rows_to_evict(&plan, &[0, 1, 2, 3, 4], &[5.0, 6.0, 0.0, 2.0, 1.0]), [0, 4]);
        assert_eq!(rows_to_evict(&plan, &[0, 1], &[5.0, 6.0]), [0], "a region without rows");
    }

    #[test]
    fn nan_and_infinite_scores_are_ordered_too() {
        let scores = [f32::NAN, f32::INFINITY, -f32::NAN];
        assert_eq!(rows_to_evict(&EvictionPlan::single(0..3, 1, None), &[0, 1, 2], &scores).len(), 2);
    }
}
