//! The tensors of a store's layers, and what graphs read and write of them. The store allocates these
//! tensors; a plan measures graphs over the same tensors without memory.

use std::sync::Arc;

use ggml::{Context, Shape, Tensor, Type};
use kernels::graph::{AccumulatingLane, AttentionShape, GraphLane, RowPositions, SeenPart};
use models::spec::{ModelSpec, StateShape};

use super::layout::{LaneLayout, Layout};
use super::policy::{AccumulationRule, CountedQueries};

/// The tensors of one layer.
pub(crate) struct LayerTensors {
    /// In the order of the layout's lanes.
    pub lanes: Vec<LaneTensors>,
    /// What policies need beside the lanes.
    pub recorded: RecordedTensors,
    /// The state of a recurrent layer.
    pub state: Option<StateTensors>,
}

/// What a recurrent layer keeps in place of keys and values.
#[derive(Clone)]
pub struct StateTensors {
    /// `[conv_kernel - 1, channels]` f32: what the convolution gets of the last tokens, the oldest first.
    pub conv: Tensor,
    /// `[head_dim, head_dim, value_heads]` f32: the matrices of the gated delta rule.
    pub memory: Tensor,
}

impl StateTensors {
    /// Tensors without memory yet.
    pub(crate) fn new(ctx: &Context, shape: &StateShape) -> StateTensors {
        StateTensors { conv: ctx.tensor(Type::F32, shape.conv), memory: ctx.tensor(Type::F32, shape.memory) }
    }

    /// Both tensors.
    pub(crate) fn all(&self) -> [&Tensor; 2] {
        [&self.conv, &self.memory]
    }

    /// The state before the first token.
    pub(crate) fn clear(&self) -> Result<(), ggml::Error> {
        self.all().into_iter().try_for_each(Tensor::clear)
    }

    /// The state as numbers.
    pub(crate) fn to_vecs(&self) -> Result<[Vec<f32>; 2], ggml::Error> {
        Ok([self.conv.to_vec()?, self.memory.to_vec()?])
    }

    /// Restores what [`StateTensors::to_vecs`] gave.
    pub(crate) fn write(&self, [conv, memory]: &[Vec<f32>; 2]) -> Result<(), ggml::Error> {
        self.conv.write(0, conv)?;
        self.memory.write(0, memory)
    }
}

/// The tensors of one lane.
pub(crate) struct LaneTensors {
    /// What graphs read and write.
    pub graph: GraphLane,
    /// Running sums of the evicted rows, `[head_dim, heads, 2]` f32, K then V, where the lane is compensated.
    pub sums: Option<Tensor>,
}

impl LayerTensors {
    /// Maximum number of tensors in a layer of this many lanes.
    pub fn max_count(lanes: usize) -> usize {
        4 * lanes + 5
    }

    /// The tensors of a layer, without memory yet. `created` is called with each of them.
    pub fn new(ctx: &Context, layout: &Layout, layer: usize, created: impl Fn(&Tensor)) -> LayerTensors {
        let tensor = |ty: Type, dims: [usize; 3]| {
            let tensor = ctx.tensor(ty, dims);
            created(&tensor);
            tensor
        };
        let (shape, lanes) = (layout.heads[layer], &layout.layers[layer]);
        let rows = lanes.iter().map(LaneLayout::rows).sum();
        let has_positions = layout.alibi || layout.window(layer).is_some();
        let all = has_positions.then(|| tensor(Type::I32, [rows, 1, 1]));
        let mut first = 0;
        let new_lane = |lane: &LaneLayout| {
            let (heads, positions) =
                (lane.kv_heads.len(), all.clone().map(|all| RowPositions { all, first }));
            first += lane.rows();
            let k = tensor(layout.k_types[layer], [shape.head_dim, lane.capacity, heads]);
            let v = match layout.values_in_keys {
                true => k.clone(),
                false => tensor(layout.v_type, [shape.head_dim, lane.capacity, heads]),
            };
            let graph = GraphLane {
                compensated: lane.compensated,
                accumulated: lane.accumulates().then(|| tensor(Type::F32, [lane.capacity, heads, 1])),
                positions,
                window: lane.window,
                ..GraphLane::new(k, v, lane.kv_heads.as_slice())
            };
            LaneTensors {
                graph,
                sums: lane.compensated.then(|| tensor(Type::F32, [shape.head_dim, heads, 2])),
            }
        };
        let lanes = lanes.iter().map(new_lane).collect();
        let queries = layout.stored_queries(layer);
        let n_heads = shape.n_kv_heads * shape.group;
        let queries = (queries > 0).then(|| tensor(Type::F32, [shape.head_dim, n_heads, queries]));
        let predictors = layout
            .predicts(layer)
            .then(|| tensor(Type::F32, [layout.predictor_len(layer), shape.n_kv_heads, 1]));
        let state = layout.state(layer).map(|shape| StateTensors::new(ctx, shape));
        state.iter().flat_map(StateTensors::all).for_each(created);
        LayerTensors { lanes, recorded: RecordedTensors { queries, predictors }, state }
    }
}

/// What a layer's part of a graph reads and writes.
#[derive(Clone)]
pub struct LayerRows {
    /// The lanes.
    pub lanes: Vec<GraphLane>,
    /// What is recorded of the layer's attention: one recorder for each store that takes rows from the layer.
    pub recorders: Vec<AttentionRecorder>,
    /// The states of a recurrent layer before and after the computation. Both may be the same.
    pub states: Option<[StateTensors; 2]>,
    /// For the means of groups of rows, where old rows are read in groups: `[2 * head_dim, groups, kv_heads]` f32.
    pub means: Option<Tensor>,
}

/// The tensors of a layer that policies need beside its lanes.
pub(crate) struct RecordedTensors {
    /// Queries of the last tokens, `[head_dim, n_heads, tokens]` f32, where a policy needs them.
    pub queries: Option<Tensor>,
    /// What predicts the scores of rows, `[numbers, n_kv_heads]` f32, where a policy needs it.
    pub predictors: Option<Tensor>,
}

/// What the policies of one store need of a layer's attention and rows.
#[derive(Clone, Default)]
pub struct AttentionRecorder {
    /// Where queries are stored, `[head_dim, n_heads, tokens]` f32.
    pub queries: Option<Tensor>,
    /// Where attention is accumulated: for each lane with such a policy.
    pub accumulators: Vec<AttentionAccumulator>,
    /// Where scores are predicted: for each lane with such a policy.
    pub scorers: Vec<RowScorer>,
}

/// A lane of which something is recorded.
#[derive(Clone)]
pub struct RecordedLane {
    /// The lane, with a tensor for accumulated attention or scores.
    pub lane: GraphLane,
    /// Its index in the layer.
    pub index: usize,
    /// The heads of the lane that are recorded.
    pub heads: Arc<[u32]>,
}

/// A lane whose rows accumulate attention.
#[derive(Clone)]
pub struct AttentionAccumulator {
    /// Which.
    pub to: RecordedLane,
    /// From which queries, and how.
    pub accumulation: AccumulationRule,
    /// The rows that accumulate, if not all.
    pub part: Option<SeenPart>,
    /// Whether contributions count, and not weights.
    pub counts_contributions: bool,
    /// The layer's Gram matrices ([`gram_shape`]), where contributions count.
    pub grams: Option<Tensor>,
}

/// The shape of a layer's Gram matrices: `[head_dim, head_dim, group + 1, n_kv_heads]`. Those of a KV head are one for each
/// of its query heads, of that head's part of the output matrix: with it, `vᵀ G v` is the squared norm of what a value v adds
/// to the residual stream. The last one is the unit matrix, which gives the
/// values themselves as floats: not every backend casts every type.
pub fn gram_shape(heads: AttentionShape) -> Shape {
    let AttentionShape { head_dim, group, n_kv_heads, .. } = heads;
    Shape([head_dim, head_dim, group + 1, n_kv_heads])
}

/// A lane whose new rows get the scores that are predicted of them.
#[derive(Clone)]
pub struct RowScorer {
    /// Which.
    pub to: RecordedLane,
    /// `[numbers, n_kv_heads]` f32: what predicts them.
    pub predictors: Tensor,
}

/// Of how many rows graphs read multiples, where they read rows that are not live: so few that they cost little, and enough for
/// many decode steps before a graph must be built again.
pub(crate) const REACH_STEP: usize = 1024;

/// How far graphs read lanes in which `rows` rows will be live.
pub(crate) fn reach(rows: usize) -> usize {
    rows.next_multiple_of(REACH_STEP)
}

impl LayerRows {
    /// The rows of a store's layer: its lanes, what is recorded of it, and its state.
    pub(crate) fn new<'a>(
        lanes: impl Iterator<Item = (&'a GraphLane, &'a LaneLayout)> + Clone,
        recorded: &RecordedTensors,
        state: Option<&StateTensors>,
    ) -> LayerRows {
        let recorder = AttentionRecorder::of_lanes(recorded, &RecordedLane::of_lanes(lanes.clone()));
        LayerRows {
            lanes: lanes.map(|(lane, _)| lane.clone()).collect(),
            recorders: vec![recorder],
            states: state.map(|state| [state.clone(), state.clone()]),
            means: None,
        }
    }

    /// The same rows, where they are read no further than [`reach`] says. Lanes with positions are read to their ends in any case.
    pub(crate) fn reaching(mut self, reach: usize) -> LayerRows {
        for lane in self.lanes.iter_mut().filter(|lane| lane.positions.is_none()) {
            lane.reach = lane.k.dim(1).min(reach);
        }
        self
    }

    /// The same rows, with what is recorded while a text is read a second time.
    pub(crate) fn with_reconstruction(mut self, lanes: &[LaneLayout]) -> LayerRows {
        let recorder =
            AttentionRecorder::of_repetition(&RecordedLane::of_lanes(self.lanes.iter().zip(lanes)));
        if !recorder.accumulators.is_empty() {
            self.recorders.push(recorder);
        }
        self
    }

    /// The same rows, of which those of a part accumulate attention. `grams` are there where contributions count.
    pub fn scored(&self, part: SeenPart, grams: Option<&Tensor>) -> LayerRows {
        let mut rows = self.clone();
        for accumulator in rows.recorders.iter_mut().flat_map(|recorder| &mut recorder.accumulators) {
            accumulator.part = Some(part);
            accumulator.grams = grams.filter(|_| accumulator.counts_contributions).cloned();
        }
        rows
    }

    /// What `rows` gives for a layer. A layer that attends to the rows of an earlier one only reads those.
    pub(crate) fn of_layer(
        spec: &ModelSpec,
        layer: usize,
        rows: impl FnOnce(usize) -> LayerRows,
    ) -> LayerRows {
        let of_layer = spec.kv_layer(layer);
        let rows = rows(of_layer);
        if of_layer == layer { rows } else { LayerRows { recorders: Vec::new(), states: None, ..rows } }
    }

    /// A recurrent layer's states, which the computation reads and writes.
    pub(crate) fn of_states(from: &StateTensors, to: &StateTensors) -> LayerRows {
        let states = Some([from.clone(), to.clone()]);
        LayerRows { lanes: Vec::new(), recorders: Vec::new(), states, means: None }
    }

    /// How many of the last tokens' queries are recorded in a computation of `n` tokens.
    pub fn recorded_queries(&self, n: usize) -> usize {
        self.recorders.iter().map(|recorder| recorder.recorded_queries(n)).max().unwrap_or(0)
    }
}

impl AttentionRecorder {
    /// What is recorded in exact prefill for a store's lanes of a layer, whose complete rows are one lane.
    pub(crate) fn of_complete(
        recorded: &RecordedTensors,
        lanes: &[LaneLayout],
        complete: &GraphLane,
    ) -> AttentionRecorder {
        AttentionRecorder::of_lanes(recorded, &RecordedLane::of_complete(lanes, complete))
    }

    /// The same while the text is read a second time.
    pub(crate) fn of_reconstruction(lanes: &[LaneLayout], complete: &GraphLane) -> AttentionRecorder {
        AttentionRecorder::of_repetition(&RecordedLane::of_complete(lanes, complete))
    }

    fn of_lanes(recorded: &RecordedTensors, lanes: &[(RecordedLane, &LaneLayout)]) -> AttentionRecorder {
        let RecordedTensors { queries, predictors } = recorded;
        let scorer = |(to, layout): &(RecordedLane, &LaneLayout)| {
            let predictors = predictors.as_ref().filter(|_| layout.is_predicted())?;
            Some(RowScorer { to: to.clone(), predictors: predictors.clone() })
        };
        AttentionRecorder {
            queries: queries.clone(),
            accumulators: AttentionAccumulator::of_lanes(lanes, LaneLayout::accumulation),
            scorers: lanes.iter().filter_map(scorer).collect(),
        }
    }

    fn of_repetition(lanes: &[(RecordedLane, &LaneLayout)]) -> AttentionRecorder {
        let accumulators = AttentionAccumulator::of_lanes(lanes, LaneLayout::reconstruction);
        AttentionRecorder { accumulators, ..AttentionRecorder::default() }
    }

    fn recorded_queries(&self, n: usize) -> usize {
        let stored = self.queries.as_ref().map_or(0, |queries| queries.dim(2).min(n));
        let accumulated = |accumulator: &AttentionAccumulator| match accumulator.accumulation.chunk {
            _ if n == 1 => 1,
            Some(CountedQueries::All) => n,
            Some(CountedQueries::Last) => 1,
            None => 0,
        };
        self.accumulators.iter().map(accumulated).max().unwrap_or(0).max(stored)
    }
}

impl AttentionAccumulator {
    /// How many of `n` tokens count where the rule counts all. Of those that repeat a part of the text only the last
    /// ones look for its rows: one for each row.
    pub fn counted_queries(&self, n: usize) -> usize {
        self.part.map_or(n, |part| n.min(part.to - part.from))
    }

    /// The lanes that accumulate attention by a rule.
    fn of_lanes(
        lanes: &[(RecordedLane, &LaneLayout)],
        rule: fn(&LaneLayout) -> Option<AccumulationRule>,
    ) -> Vec<AttentionAccumulator> {
        let accumulator = |(to, layout): &(RecordedLane, &LaneLayout)| {
            Some(AttentionAccumulator {
                to: to.clone(),
                accumulation: rule(layout)?,
                part: None,
                counts_contributions: layout.counts_contributions(),
                grams: None,
            })
        };
        lanes.iter().filter_map(accumulator).collect()
    }
}

impl RecordedLane {
    /// Where the numbers of its rows are written; `None` where it has no memory for them.
    pub fn target(&self) -> Option<AccumulatingLane<'_>> {
        let RecordedLane { lane, index, heads } = self;
        let accumulated = lane.accumulated.as_ref()?;
        Some(AccumulatingLane { lane, accumulated, number: *index, heads: heads.clone() })
    }

    /// The heads of a layer's lanes, in the layer's complete rows.
    fn of_complete<'a>(lanes: &'a [LaneLayout], complete: &GraphLane) -> Vec<(RecordedLane, &'a LaneLayout)> {
        let lane = |layout: &'a LaneLayout| {
            let heads = layout.kv_heads.as_slice().into();
            (RecordedLane { lane: complete.clone(), index: 0, heads }, layout)
        };
        lanes.iter().map(lane).collect()
    }

    /// All heads of the lanes.
    fn of_lanes<'a>(
        lanes: impl Iterator<Item = (&'a GraphLane, &'a LaneLayout)>,
    ) -> Vec<(RecordedLane, &'a LaneLayout)> {
        let lane = |(index, (lane, layout)): (usize, (&'a GraphLane, &'a LaneLayout))| {
            let heads = (0..layout.kv_heads.len() as u32).collect();
            (RecordedLane { lane: lane.clone(), index, heads }, layout)
        };
        lanes.enumerate().map(lane).collect()
    }
}

#[cfg(test)]
mod tests {
    use kernels::graph::AttentionShape;

    use super::*;
    use crate::kv::StoreOptions;

    #[test]
    fn lanes_are_read_to_a_reach_and_those_with_positions_to_their_ends() {
        let ctx = Context::new(5);
        let [k, v] = [(); 2].map(|()| ctx.tensor(Type::F32, [8, 3000, 1]));
        let positions = RowPositions { all: ctx.tensor(Type::I32, [3000]), first: 0 };
        let plain = GraphLane::new(k, v, [0]);
        let positioned = GraphLane { positions: Some(positions), ..plain.clone() };
        let lanes = vec![plain, positioned];
        let rows = LayerRows { lanes, recorders: Vec::new(), states: None, means: None };
        for (live, wanted) in [(1, 1024), (1024, 1024), (1025, 2048), (2049, 3000)] {
            let rows = rows.clone().reaching(reach(live));
            assert_eq!([rows.lanes[0].reach, rows.lanes[1].reach], [wanted, 3000], "{live}");
        }
    }

    #[test]
    fn as_many_queries_are_recorded_as_a_policy_needs() {
        let recorded = |policy: &str, n| {
            let heads = AttentionShape::plain(2, 2, 8);
            let options = StoreOptions { context: 100, types: (Type::F32, Type::F32), reserve: None };
            let choice = policy.parse().expect(policy);
            let layout = Layout::from_flags(1, heads, &choice, |_, _| false, options).expect("a layout");
            let ctx = Context::new(LayerTensors::max_count(1));
            let tensors = LayerTensors::new(&ctx, &layout, 0, |_| ());
            let lanes = tensors.lanes.iter().map(|lane| &lane.graph).zip(&layout.layers[0]);
            LayerRows::new(lanes, &tensors.recorded, None).recorded_queries(n)
        };
        for (policy, of_chunk, of_step) in [
            ("streaming:window=8", 0, 0),
            ("snapkv:window=8,capacity=16", 8, 1),
            ("ahakv:budget=16,recent=8", 8, 1),
            ("h2o:heavy=8,recent=8", 20, 1),
            ("tova:capacity=16", 1, 1),
        ] {
            assert_eq!((recorded(policy, 20), recorded(policy, 1)), (of_chunk, of_step), "{policy}");
        }
    }
}
