//! The bytes that follow from a layout: of the store, of what undo saves, and of the memory that exact prefill needs
//! beside the store. The plan says these numbers. The store allocates the
//! tensors that they count, and tests compare the two.

use std::ops::Range;

use kernels::graph::AttentionShape;
use kernels::predict::predictor_len;
use models::spec::StateShape;

use super::{LaneLayout, Layout, UNDO_ROWS_PER_HEAD};
use crate::kv::gram_shape;
use crate::kv::policy::{Event, LaneStatus, ScoreInput};

impl Layout {
    /// Bytes of the store: rows, running sums, accumulated attention, row predictors, stored queries, the host's record of
    /// positions, and the states of recurrent layers.
    pub fn bytes(&self) -> usize {
        self.state_bytes()
            + self.query_bytes()
            + self.predictor_bytes()
            + self.sum_of_lanes(|layer, lane| self.lane_bytes(layer, lane))
    }

    /// The part of [`Layout::bytes`] that is on the host wherever the rows are: its record of positions.
    pub fn host_bytes(&self) -> usize {
        self.lanes().map(LaneLayout::position_bytes).sum()
    }

    /// Maximum bytes that a turn takes beside the store so that it, or a chunk that fails, can be undone:
    /// [`Layout::undo_row_bytes`], and the accumulated attention, stored queries and states of three
    /// checkpoints, one of them before a chunk.
    pub fn undo_bytes(&self) -> usize {
        const CHECKPOINTS: usize = 3;
        let accumulated: usize =
            self.lanes().filter(|lane| lane.accumulates()).map(|lane| 4 * lane.rows()).sum();
        self.undo_row_bytes() + CHECKPOINTS * (accumulated + self.query_bytes() + self.state_bytes())
    }

    /// Maximum bytes of the evicted rows that are saved: at most [`UNDO_ROWS_PER_HEAD`] a head, or a slack
    /// that is evicted at once.
    pub fn undo_row_bytes(&self) -> usize {
        self.sum_of_lanes(|layer, lane| {
            let Some(policy) = &lane.policy else { return 0 };
            let slack = policy.slack(self.context).saturating_add(1);
            lane.kv_heads.len() * UNDO_ROWS_PER_HEAD.max(slack).min(self.context) * self.row_bytes(layer)
        })
    }

    /// Bytes of a cache that keeps all that is ever seen of `tokens` tokens: in layers with a sliding window, the
    /// window; in recurrent layers, the state.
    pub fn full_bytes(&self, tokens: usize) -> usize {
        let states = if tokens > 0 { self.state_bytes() } else { 0 };
        let rows = |layer: &usize| self.window(*layer).map_or(tokens, |window| tokens.min(window));
        let with_rows = (0..self.layers.len()).filter(|layer| self.has_rows(*layer));
        let bytes =
            with_rows.map(|layer| rows(&layer) * self.heads[layer].n_kv_heads * self.row_bytes(layer));
        bytes.sum::<usize>() + states
    }

    /// Bytes of what is kept of `tokens` tokens, at most: of all rows of heads that keep everything, and of as many as the
    /// others have room for.
    pub fn kept_bytes(&self, tokens: usize) -> usize {
        self.state_bytes()
            + self.sum_of_lanes(|layer, lane| {
                let rows = lane.window.unwrap_or(lane.capacity).min(tokens + usize::from(lane.compensated));
                lane.kv_heads.len() * rows.min(lane.capacity) * self.row_bytes(layer)
            })
    }

    /// Bytes of the layers with a sliding window or a state, the same whatever the policy is.
    pub fn fixed_bytes(&self) -> usize {
        let of_window =
            |layer, lane: &LaneLayout| if lane.window.is_some() { self.lane_bytes(layer, lane) } else { 0 };
        self.sum_of_lanes(of_window) + self.state_bytes()
    }

    /// Bytes that exact prefill of `tokens` tokens needs for one layer with bounded heads: its complete K and
    /// V, their accumulated attention, its Gram matrices, the inputs of their scores, and the lists of rows that stay and are
    /// evicted.
    pub fn scratch_bytes(&self, tokens: usize) -> usize {
        self.scratch_bytes_of(0..self.layers.len(), tokens)
    }

    /// The same for some of the layers, which are in one place. The others say whether the text is read twice, and
    /// whether attention is accumulated.
    pub fn scratch_bytes_of(&self, layers: Range<usize>, tokens: usize) -> usize {
        let part = self.of_layers(layers);
        // Two states: a chunk reads one and writes the other.
        let states =
            if part.state_bytes() > 0 { 2 * self.states.map_or(0, |shape| shape.bytes()) } else { 0 };
        let reconstructs = self.reconstructs();
        let is_used = |layer: &usize| reconstructs || part.uses_scratch(*layer);
        let groups = part.scratch_groups((0..part.layers.len()).filter(is_used));
        if groups.is_empty() {
            return states;
        }
        let accumulated = if self.accumulates_attention() { 4 } else { 0 };
        let of_group = |layers: &Vec<usize>| {
            let (heads, row) =
                (part.heads[layers[0]], part.row_bytes(layers[0]) + accumulated + size_of::<i32>());
            let has_grams = layers.iter().any(|layer| part.counts_contributions(*layer));
            let grams = if has_grams { size_of::<f32>() * gram_shape(heads).elements() } else { 0 };
            heads.n_kv_heads * tokens * row + grams
        };
        states + groups.iter().map(of_group).sum::<usize>() + part.scoring_bytes(tokens)
    }

    /// Whether exact prefill computes a layer in scratch memory. Layers that keep everything are computed in the store.
    pub(crate) fn uses_scratch(&self, layer: usize) -> bool {
        let lanes = &self.layers[layer];
        !lanes.is_empty() && (self.reconstructs() || lanes.iter().any(|lane| lane.policy.is_some()))
    }

    /// `layers` in groups that use the same scratch memory, one after the other: layers with heads and types alike. A layer
    /// cannot use it while later layers still attend to the rows there. Layers without rows are left out.
    pub fn scratch_groups(&self, layers: impl Iterator<Item = usize>) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for layer in layers.filter(|layer| self.has_rows(*layer)) {
            let is_free = |group: &&mut Vec<usize>| {
                let is_read = |other: &usize| self.last_readers[*other] >= layer;
                let is_alike = |other| {
                    self.heads[other] == self.heads[layer] && self.k_types[other] == self.k_types[layer]
                };
                is_alike(group[0]) && !group.iter().any(is_read)
            };
            match groups.iter_mut().find(is_free) {
                Some(group) => group.push(layer),
                None => groups.push(vec![layer]),
            }
        }
        groups
    }

    /// Bytes of one head's row of K and V together in a layer, with its position where positions are stored.
    pub fn row_bytes(&self, layer: usize) -> usize {
        let (head_dim, position) =
            (self.heads[layer].head_dim, if self.alibi { size_of::<i32>() } else { 0 });
        let values = if self.values_in_keys { 0 } else { self.v_type.row_bytes(head_dim) };
        self.k_types[layer].row_bytes(head_dim) + values + position
    }

    /// Bytes of the states of all recurrent layers.
    pub fn state_bytes(&self) -> usize {
        (0..self.layers.len()).filter_map(|layer| self.state(layer)).map(StateShape::bytes).sum()
    }

    fn lane_bytes(&self, layer: usize, lane: &LaneLayout) -> usize {
        let sums =
            if lane.compensated { 2 * 4 * self.heads[layer].head_dim * lane.kv_heads.len() } else { 0 };
        let accumulated = if lane.accumulates() { 4 * lane.rows() } else { 0 };
        let positions = if lane.window.is_some() { size_of::<i32>() } else { 0 };
        lane.rows() * (self.row_bytes(layer) + positions) + sums + accumulated + lane.position_bytes()
    }

    /// Bytes of the stored queries.
    fn query_bytes(&self) -> usize {
        let query = |heads: &AttentionShape| 4 * heads.head_dim * heads.n_kv_heads * heads.group;
        self.heads.iter().enumerate().map(|(layer, heads)| self.stored_queries(layer) * query(heads)).sum()
    }

    /// Bytes of what predicts the scores of rows.
    fn predictor_bytes(&self) -> usize {
        let layers = (0..self.layers.len()).filter(|layer| self.predicts(*layer));
        layers.map(|layer| 4 * self.heads[layer].n_kv_heads * self.predictor_len(layer)).sum()
    }

    /// Numbers that predict the scores of one KV head's rows.
    pub fn predictor_len(&self, layer: usize) -> usize {
        let head_dim = self.heads[layer].head_dim;
        predictor_len(head_dim, head_dim)
    }

    /// Bytes of the inputs by which the rows of `tokens` tokens are scored, in the layer with the most.
    fn scoring_bytes(&self, tokens: usize) -> usize {
        let status = LaneStatus {
            event: Event::ExactPrefill,
            forced: false,
            seen: tokens,
            live: tokens,
            scanned_until: 0,
            prompt_rows_kept: 0,
            context: self.context,
        };
        let numbers = |input: &ScoreInput, group: usize| match input {
            ScoreInput::Key(_) | ScoreInput::Value(_) => 1,
            ScoreInput::Accumulated => 0,
            ScoreInput::WindowAttention { .. } => group,
        };
        let lane_bytes = |lane: &LaneLayout, group: usize| {
            let plan = lane.policy.as_ref().and_then(|policy| policy.plan_eviction(&status));
            let scoring = plan.and_then(|plan| plan.scoring);
            let inputs = scoring.iter().flat_map(|scoring| &scoring.inputs);
            4 * tokens * inputs.map(|input| numbers(input, group)).sum::<usize>() * lane.kv_heads.len()
        };
        let layers = self.layers.iter().zip(&self.heads);
        let bytes = layers.map(|(lanes, heads)| lanes.iter().map(|lane| lane_bytes(lane, heads.group)).sum());
        bytes.max().unwrap_or(0)
    }

    /// The sum of what `of_lane` gives for a layer and each of its lanes.
    fn sum_of_lanes(&self, of_lane: impl Fn(usize, &LaneLayout) -> usize) -> usize {
        let of_layer = |(layer, lanes): (usize, &Vec<LaneLayout>)| {
            lanes.iter().map(|lane| of_lane(layer, lane)).sum::<usize>()
        };
        self.layers.iter().enumerate().map(of_layer).sum()
    }
}
