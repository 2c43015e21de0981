//! The store: the lanes' memory, which rows are live, and when rows are evicted.
//!
//! Live rows of a lane are contiguous: a lane grows at its end, and when rows are evicted, the last rows fill
//! the holes. A compensated lane has its compensation entry in row 0 from the beginning, unused (log-weight
//! -inf) until a row has been evicted. The host knows the position of each row; scores, sums and rows stay
//! where the lanes are. Rows are written by the nodes of passes that append them, by what [`compress`] moves, by
//! [`undo`], [`snapshot`] and `fill_layer`, and count when the session says so. [`compress`] selects and evicts rows, [`undo`] takes a turn back, [`snapshot`] turns
//! the store into bytes.

mod compress;
pub(crate) mod snapshot;
mod undo;

use std::ops::Range;
use std::sync::Arc;

pub use compress::Evictions;
pub(crate) use compress::{LayerForecast, making_room};
use ggml::{Context, Graph, Tensor, Type};
use kernels::Form;
use kernels::graph::{
    Append, Appended, Attend, AttentionShape, EvictRows, Eviction, GraphLane, LaneInputs, MAX_LANES,
    QueryHeads,
};
use undo::Undo;

use super::LaneValues;
use super::layout::{LaneLayout, Layout};
use super::policy::{Event, LaneStatus};
use super::tensors::{
    AttentionRecorder, LaneTensors, LayerRows, LayerTensors, RecordedTensors, StateTensors, reach,
};
use crate::devices::backends::Backends;
use crate::{EngineError, Hint};

/// The rows of one session.
pub struct Store {
    layout: Layout,
    layers: Vec<Layer>,
    /// Tokens seen, evicted ones included: the position of the next one.
    seen: usize,
    bytes: usize,
    undo: Undo,
}

/// Which lane of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LaneId {
    layer: usize,
    /// Its index in the layer.
    lane: usize,
}

struct Layer {
    lanes: Vec<Lane>,
    /// The form in which its operations are computed.
    form: Form,
    /// What policies need beside the lanes.
    recorded: RecordedTensors,
    /// `[n_heads]` f32: learned logits of the query heads, which take their share of attention.
    sink_logits: Option<Tensor>,
    /// What its stored keys lack, `[head_dim * kv_heads]`, which measures of keys take into account.
    key_offset: Option<Vec<f32>>,
    /// What a recurrent layer keeps in place of lanes.
    state: Option<StateTensors>,
}

impl Layer {
    /// A graph of all kinds of operations that a token needs: its rows are appended, its queries attend, and where rows are
    /// evicted, one row of each head is.
    fn step(&self, shape: AttentionShape) -> Result<Graph, ggml::Error> {
        /// Inputs, and results that are needed together.
        const OTHER_TENSORS: usize = 16;
        let lanes: Vec<GraphLane> = self.lanes.iter().map(|lane| lane.graph.clone()).collect();
        let tensors = lanes.iter().map(|lane| 3 * self.form.max_tensors(lane, shape.group, 1));
        let ctx = Context::new(tensors.sum::<usize>() + OTHER_TENSORS);
        let input = |ty, shape: [usize; 2]| ctx.input("input", ty, shape);
        let heads = |count| ctx.input("heads", Type::F32, [shape.head_dim, count]);
        let inputs = LaneInputs {
            rows: input(Type::I32, [MAX_LANES, 1]),
            log_weights: input(Type::F32, [MAX_LANES, 1]),
            positions: input(Type::I32, [1, 1]),
            layer: 0,
        };
        let [k, v] = [(); 2].map(|()| heads(shape.n_kv_heads));
        let appended = self.form.nodes(&ctx, Append { k: &k, v: &v, lanes: &lanes, inputs: &inputs });
        let attend = Attend {
            shape,
            queries: QueryHeads {
                q: &heads(shape.n_kv_heads * shape.group),
                sink_logits: self.sink_logits.as_ref(),
            },
            appended: Appended { node: &appended, rows: 1 },
            lanes: &lanes,
            inputs: &inputs,
            groups: None,
            int8: false,
        };
        let mut results = vec![self.form.nodes(&ctx, attend)];
        for lane in self.lanes.iter().filter(|lane| lane.layout.policy.is_some()) {
            let (row, heads) = (lane.first() as u32, lane.layout.kv_heads.len());
            let eviction = Eviction {
                evicted: vec![vec![row]; heads],
                moves: vec![vec![(row, lane.layout.capacity as u32 - 1)]; heads],
                total_evicted: 1,
                return_rows: true,
            };
            let (lane, sums) = (&lane.graph, lane.sums.as_ref());
            results.push(self.form.nodes(&ctx, EvictRows { lane, sums, eviction }));
        }
        ctx.graph(&results.iter().collect::<Vec<_>>())
    }
}

struct Lane {
    graph: GraphLane,
    /// Running sums of the evicted rows, `[head_dim, heads, 2]` f32, K then V.
    sums: Option<Tensor>,
    layout: LaneLayout,
    state: LaneState,
    /// `[heads][live - first]`: the position of each row; empty for lanes that keep every row.
    positions: Vec<Arc<Vec<u32>>>,
}

/// The state that all heads of a lane share.
#[derive(Clone, Copy, Debug, Default)]
struct LaneState {
    /// Rows in use, the compensation entry's row included.
    live: usize,
    /// Rows the compensation entry stands for.
    evicted: usize,
    /// End of the positions that eviction plans have covered.
    scanned_until: usize,
    /// Rows that were kept of the prompt after exact prefill.
    prompt_rows_kept: usize,
    /// Tokens seen when rows were last evicted: the rows of later tokens lie in order at the end.
    last_eviction_at: usize,
}

/// The keys that a KV head of a layer holds.
pub(crate) struct HeadKeys {
    /// Keys of some heads of the layer, `[head_dim, capacity, heads]`.
    pub(crate) keys: Tensor,
    /// Which of these heads.
    pub(crate) number: usize,
    /// Rows in use, the compensation entry's row included.
    pub(crate) live: usize,
    /// The natural logarithm of the weight of row 0, in a lane with a compensation entry; `-inf` if it is not used.
    pub(crate) log_weight: Option<f32>,
    /// The positions of the rows behind the compensation entry; `None` where these are all, in their order.
    pub(crate) positions: Option<Arc<Vec<u32>>>,
    /// `[n_heads]` f32: learned logits of the layer's query heads.
    pub(crate) sink_logits: Option<Tensor>,
}

/// What the compensation entry of a KV head stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct CompensationSums {
    /// Sum of the evicted keys, `[head_dim]`.
    pub keys: Vec<f32>,
    /// Sum of the evicted values, `[head_dim]`.
    pub values: Vec<f32>,
    /// Number of evicted rows.
    pub rows: usize,
}

impl Lane {
    fn new(layout: &LaneLayout, tensors: LaneTensors) -> Lane {
        // Lanes that keep every row hold the positions 0, 1, 2, …
        let heads = if layout.policy.is_some() { layout.kv_heads.len() } else { 0 };
        Lane {
            graph: tensors.graph,
            sums: tensors.sums,
            layout: layout.clone(),
            state: LaneState::default(),
            positions: (0..heads).map(|_| Arc::new(Vec::with_capacity(layout.capacity))).collect(),
        }
    }

    /// The first row that holds a token.
    fn first(&self) -> usize {
        usize::from(self.layout.compensated)
    }

    /// Rows that hold a token.
    fn tokens(&self) -> usize {
        self.state.live - self.first()
    }

    /// Rows that are kept. Rows before a sliding window only wait for their eviction.
    fn kept(&self) -> usize {
        self.tokens().min(self.layout.window.unwrap_or(usize::MAX))
    }

    fn clear(&mut self) {
        self.state = LaneState { live: self.first(), ..LaneState::default() };
        self.positions.iter_mut().for_each(|head| Arc::make_mut(head).clear());
    }

    /// Records that the tokens at `from..to` were written behind the live rows.
    fn grow(&mut self, from: usize, to: usize) {
        self.state.live += to - from;
        for head in &mut self.positions {
            Arc::make_mut(head).extend(from as u32..to as u32);
        }
    }

    /// Takes the last tokens off the live rows.
    fn shrink(&mut self, removed: usize) {
        self.state.live -= removed;
        for head in &mut self.positions {
            let left = head.len() - removed;
            Arc::make_mut(head).truncate(left);
        }
    }

    fn status(&self, event: Event, forced: bool, seen: usize, context: usize) -> LaneStatus {
        let LaneState { scanned_until, prompt_rows_kept, .. } = self.state;
        LaneStatus { event, forced, seen, live: self.tokens(), scanned_until, prompt_rows_kept, context }
    }

    /// Clears these rows of keys and values in every head.
    fn clear_rows(&self, rows: Range<usize>) -> Result<(), ggml::Error> {
        for tensor in self.graph.tensors() {
            let [_, row, head, _] = tensor.strides();
            for start in (0..tensor.dim(2)).map(|number| number * head) {
                tensor.clear_bytes(start + rows.start * row..start + rows.end * row)?;
            }
        }
        Ok(())
    }

    /// Writes the rows' positions beside them, for attention that depends on distances.
    fn write_positions(&self) -> Result<(), EngineError> {
        let Some(to) = &self.graph.positions else { return Ok(()) };
        for head in 0..self.layout.kv_heads.len() {
            let held: Vec<i32> = match self.positions.get(head) {
                Some(held) => held.iter().map(|position| *position as i32).collect(),
                None => (0..self.state.live as i32).collect(),
            };
            to.all.write(size_of::<i32>() * (to.first + head * self.layout.capacity), &held)?;
        }
        Ok(())
    }

    fn log_weight(&self) -> f32 {
        if self.state.evicted == 0 { f32::NEG_INFINITY } else { (self.state.evicted as f32).ln() }
    }
}

impl Store {
    /// Allocates each layer's lanes where the layer is computed.
    pub fn new(layout: Layout, backends: &Backends) -> Result<Store, EngineError> {
        let tensors = layout.layers.iter().map(|lanes| LayerTensors::max_count(lanes.len())).sum();
        let placement = backends.placement();
        let contexts = placement.per_place(|_| Context::new(tensors));
        let tensors: Vec<LayerTensors> = (0..layout.layers.len())
            .map(|layer| LayerTensors::new(&contexts[placement.of(layer)], &layout, layer, |_| ()))
            .collect();
        let mut bytes = layout.host_bytes();
        for (place, ctx) in contexts.iter() {
            if !placement.layers(place).is_empty() {
                bytes += ctx.allocate(&backends.at(place).buffer_type())?;
            }
        }
        // The host's memory comes last: if there is none for the rows, that is an error; here the process
        // would abort.
        let layers = (layout.layers.iter().zip(tensors).enumerate())
            .map(|(number, (lanes, LayerTensors { lanes: tensors, recorded, state }))| Layer {
                form: backends.form(placement.of(number), layout.heads[number]),
                lanes: lanes.iter().zip(tensors).map(|(lane, tensors)| Lane::new(lane, tensors)).collect(),
                recorded,
                sink_logits: None,
                key_offset: None,
                state,
            })
            .collect();
        let mut store = Store { layout, layers, seen: 0, bytes, undo: Undo::default() };
        store.check_operations(backends)?;
        store.clear()?;
        Ok(store)
    }

    /// Refuses rows that a device cannot work on. A backend of ggml need not have all operations for all types and heads;
    /// where our own kernels compute a layer, they have.
    fn check_operations(&self, backends: &Backends) -> Result<(), EngineError> {
        let mut checked = Vec::new();
        for (number, layer) in self.layers.iter().enumerate() {
            let (shape, k_type) = (self.layout.heads[number], self.layout.k_types[number]);
            let place = backends.placement().of(number);
            let case = (place, shape, k_type, layer.lanes.len());
            let is_known = checked.contains(&case);
            if layer.form != Form::Portable || layer.lanes.is_empty() || is_known {
                continue;
            }
            checked.push(case);
            let backend = backends.at(place);
            let supported = layer.step(shape).and_then(|graph| backend.check_operations(&graph));
            supported.map_err(|error| EngineError::Setting {
                what: format!(
                    "keys of type {k_type} and values of type {} with heads of {} elements",
                    self.layout.v_type, shape.head_dim
                ),
                reason: format!("the device cannot compute layer {number} with them: {error}"),
                hint: Hint::CacheTypes(vec![Type::F16, Type::F32]),
            })?;
        }
        Ok(())
    }

    /// Gives each layer's query heads the learned logits `sink_logits(layer)`, `[heads]`, which policies take into account.
    pub fn set_sink_logits(&mut self, sink_logits: impl Fn(usize) -> Option<Tensor>) {
        for (number, layer) in self.layers.iter_mut().enumerate() {
            layer.sink_logits = sink_logits(number);
        }
    }

    /// Gives each layer what its stored keys lack, `key_offset(layer, type of keys)` `[head_dim * kv_heads]`, so that
    /// policies see the keys of the model.
    pub fn set_key_offsets(&mut self, key_offset: impl Fn(usize, Type) -> Option<Vec<f32>>) {
        for (number, (layer, ty)) in self.layers.iter_mut().zip(&self.layout.k_types).enumerate() {
            layer.key_offset = key_offset(number, *ty);
        }
    }

    /// Gives the layers whose policies need it what predicts the scores of rows, `predictors(layer)`
    /// `[numbers * n_kv_heads]`. Where that is empty, all rows of the layer get the score 0.
    ///
    /// # Errors
    /// Where it has another length.
    pub fn set_row_predictors(&mut self, predictors: impl Fn(usize) -> Vec<f32>) -> Result<(), EngineError> {
        for (number, layer) in self.layers.iter().enumerate() {
            let Some(tensor) = &layer.recorded.predictors else { continue };
            let numbers = predictors(number);
            match numbers.len() {
                0 => tensor.clear()?,
                len if len == tensor.shape().elements() => tensor.write(0, &numbers)?,
                len => {
                    return Err(EngineError::Setting {
                        what: "the head profile".into(),
                        reason: format!(
                            "it predicts the rows of layer {number} with {len} numbers, and {} are needed",
                            tensor.shape().elements()
                        ),
                        hint: Hint::MakeRowPredictors,
                    });
                }
            }
        }
        Ok(())
    }

    /// Removes all rows and states. After an error, which is one of the device, they are removed too.
    pub fn clear(&mut self) -> Result<(), EngineError> {
        self.seen = 0;
        self.undo = Undo::default();
        self.lanes_mut().for_each(Lane::clear);
        for queries in self.layers.iter().filter_map(|layer| layer.recorded.queries.as_ref()) {
            queries.clear()?;
        }
        self.layers.iter().filter_map(|layer| layer.state.as_ref()).try_for_each(StateTensors::clear)?;
        for (layer, lane) in
            self.layers.iter().flat_map(|layer| layer.lanes.iter().map(move |lane| (layer, lane)))
        {
            if let Some(accumulated) = &lane.graph.accumulated {
                accumulated.clear()?;
            }
            if layer.form.reads_whole_lanes() {
                lane.graph.tensors().try_for_each(Tensor::clear)?;
            }
            let Some(sums) = &lane.sums else { continue };
            sums.clear()?;
            // The compensation entry has weight 0 for now, but 0 times NaN is NaN, and fresh memory may hold
            // anything.
            lane.clear_rows(0..1)?;
        }
        Ok(())
    }

    /// The shape.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Tokens seen, evicted ones included.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the rows that are live now, compensation entries in use included, and of the states.
    pub fn live_bytes(&self) -> usize {
        let rows = |lane: &Lane| {
            let entry = usize::from(lane.state.evicted > 0 && lane.layout.compensated);
            (lane.kept() + entry) * lane.layout.kv_heads.len()
        };
        let states = if self.seen > 0 { self.layout.state_bytes() } else { 0 };
        let of_layer = |(number, layer): (usize, &Layer)| {
            layer.lanes.iter().map(rows).sum::<usize>() * self.layout.row_bytes(number)
        };
        self.layers.iter().enumerate().map(of_layer).sum::<usize>() + states
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.layers.iter().flat_map(|layer| &layer.lanes)
    }

    fn lanes_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.layers.iter_mut().flat_map(|layer| &mut layer.lanes)
    }

    fn lane_mut(&mut self, id: LaneId) -> &mut Lane {
        &mut self.layers[id.layer].lanes[id.lane]
    }

    /// What a graph reads and writes of a layer.
    pub fn rows(&self, layer: usize) -> LayerRows {
        let layer = &self.layers[layer];
        let lanes = layer.lanes.iter().map(|lane| (&lane.graph, &lane.layout));
        LayerRows::new(lanes, &layer.recorded, layer.state.as_ref())
    }

    /// How far graphs of the next `n` tokens read lanes, where they read rows that are not live; to their ends where
    /// none do.
    pub fn reach(&self, n: usize) -> usize {
        let portable = self.layers.iter().filter(|layer| layer.form.reads_whole_lanes());
        // Others are read to their ends: LayerRows::reaching.
        let lanes = portable.flat_map(|layer| &layer.lanes).filter(|lane| lane.graph.positions.is_none());
        lanes.map(|lane| lane.state.live).max().map_or(usize::MAX, |live| reach(live + n))
    }

    /// What is recorded of a layer's attention during exact prefill, while its complete rows are in
    /// `scratch`, the only lane, with all KV heads.
    pub fn prefill_recorder(&self, layer: usize, scratch: &GraphLane) -> AttentionRecorder {
        AttentionRecorder::of_complete(&self.layers[layer].recorded, &self.layout.layers[layer], scratch)
    }

    /// What is recorded of a layer's attention while a text is read a second time. The rows in `scratch` get it, if the
    /// layer's policies need it.
    pub fn reconstruction_recorder(&self, layer: usize, scratch: &GraphLane) -> AttentionRecorder {
        AttentionRecorder::of_reconstruction(&self.layout.layers[layer], scratch)
    }

    /// How many tokens can be written before rows must be evicted.
    pub fn free_rows(&self) -> usize {
        self.lanes().map(|lane| lane.layout.capacity - lane.state.live).min().unwrap_or(0)
    }

    /// How many of the next `most` decode steps one computation can do, whatever becomes of it: before the last of them no
    /// policy would act, and they change nothing but the rows behind those that are live.
    pub fn steps_at_once(&self, most: usize) -> usize {
        if !self.layout.allows_steps_at_once() {
            return most.min(1);
        }
        let context = self.layout.context;
        let acts_after = |steps: usize| {
            self.lanes().any(|lane| {
                let Some(policy) = &lane.layout.policy else { return false };
                let now = lane.status(Event::Step, false, self.seen + steps, context);
                policy.plan_eviction(&LaneStatus { live: now.live + steps, ..now }).is_some()
            })
        };
        let most = most.min(self.free_rows());
        (1..most).find(|steps| acts_after(*steps)).unwrap_or(most)
    }

    /// The values of the graphs' lane inputs.
    pub fn state(&self) -> LaneValues {
        let column = |layer: &Layer| {
            let mut rows = [0; MAX_LANES];
            let mut weights = [f32::NEG_INFINITY; MAX_LANES];
            for (number, lane) in layer.lanes.iter().enumerate() {
                rows[number] = lane.state.live as i32;
                weights[number] = lane.log_weight();
            }
            (rows, weights)
        };
        let (rows, log_weights): (Vec<_>, Vec<_>) = self.layers.iter().map(column).unzip();
        LaneValues { rows: rows.concat(), log_weights: log_weights.concat() }
    }

    /// Records that `n` tokens were written behind the live rows of every lane.
    pub fn advance(&mut self, n: usize) {
        let seen = self.seen;
        self.lanes_mut().for_each(|lane| lane.grow(seen, seen + n));
        self.seen += n;
    }

    /// Records that `n` tokens were written to a layer that keeps every row.
    pub fn grow_layer(&mut self, layer: usize, n: usize) {
        let seen = self.seen;
        self.layers[layer].lanes.iter_mut().for_each(|lane| lane.grow(seen, seen + n));
    }

    /// Takes back the last `n` tokens that [`Store::grow_layer`] recorded.
    pub fn shrink_layer(&mut self, layer: usize, n: usize) {
        self.layers[layer].lanes.iter_mut().for_each(|lane| lane.shrink(n));
    }

    /// Sets the state of a recurrent layer. Does nothing for another layer.
    pub fn set_state(&mut self, layer: usize, from: &StateTensors) -> Result<(), EngineError> {
        Ok(self.layers[layer].state.as_ref().map_or(Ok(()), |state| state.write(&from.to_vecs()?))?)
    }

    /// Ends an exact prefill of `n` tokens, in which every layer was filled by [`Store::fill_layer`] or grown
    /// by [`Store::grow_layer`], or got its state by [`Store::set_state`].
    pub fn finish_exact(&mut self, n: usize) {
        self.seen = n;
    }

    /// For each KV head of a layer, none of one without rows: rows that hold a token, rows that its compensation entry
    /// stands for, and whether its rows are bounded.
    pub fn head_rows(&self, layer: usize) -> Vec<(usize, usize, bool)> {
        if !self.layout.has_rows(layer) {
            return Vec::new();
        }
        let mut all = vec![(0, 0, false); self.layout.heads[layer].n_kv_heads];
        for lane in &self.layers[layer].lanes {
            let compensated = if lane.layout.compensated { lane.state.evicted } else { 0 };
            for head in &lane.layout.kv_heads {
                all[*head as usize] = (lane.kept(), compensated, lane.layout.policy.is_some());
            }
        }
        all
    }

    /// The positions that a KV head of a layer keeps, ascending; `None` for a head that it does not have.
    pub fn head_positions(&self, layer: usize, kv_head: usize) -> Option<Vec<u32>> {
        let lanes = self.layers[layer].lanes.iter();
        let place = |lane: &Lane| lane.layout.kv_heads.iter().position(|head| *head as usize == kv_head);
        let (lane, number) = lanes.filter_map(|lane| Some((lane, place(lane)?))).next()?;
        let Some(positions) = lane.positions.get(number) else {
            return Some((0..self.seen as u32).collect());
        };
        let mut held = positions.to_vec();
        held.sort_unstable();
        held.drain(..lane.tokens() - lane.kept());
        Some(held)
    }

    /// The keys of a KV head of a layer; `None` for a head that it does not have.
    pub(crate) fn head_keys(&self, layer: usize, kv_head: usize) -> Option<HeadKeys> {
        let Layer { lanes, sink_logits, .. } = self.layers.get(layer)?;
        lanes.iter().find_map(|lane| {
            let number = lane.layout.kv_heads.iter().position(|head| *head as usize == kv_head)?;
            Some(HeadKeys {
                keys: lane.graph.k.clone(),
                number,
                live: lane.state.live,
                log_weight: lane.layout.compensated.then(|| lane.log_weight()),
                positions: lane.positions.get(number).cloned(),
                sink_logits: sink_logits.clone(),
            })
        })
    }

    /// The positions that each KV head of a layer holds, ascending.
    pub fn positions(&self, layer: usize) -> Vec<Vec<u32>> {
        let heads = 0..self.layout.heads[layer].n_kv_heads;
        heads.filter_map(|kv_head| self.head_positions(layer, kv_head)).collect()
    }

    /// For each KV head of a layer what its compensation entry stands for; `None` where nothing has been
    /// evicted or there is no entry.
    pub fn compensation(&self, layer: usize) -> Result<Vec<Option<CompensationSums>>, EngineError> {
        let mut all = vec![None; self.layout.heads[layer].n_kv_heads];
        for lane in &self.layers[layer].lanes {
            let Some(sums) = lane.sums.as_ref().filter(|_| lane.state.evicted > 0) else { continue };
            let sums: Vec<f32> = sums.to_vec()?;
            let (d, heads) = (self.layout.heads[layer].head_dim, lane.layout.kv_heads.len());
            for (number, head) in lane.layout.kv_heads.iter().enumerate() {
                let [keys, values] = [0, 1].map(|which| sums[(which * heads + number) * d..][..d].to_vec());
                all[*head as usize] = Some(CompensationSums { keys, values, rows: lane.state.evicted });
            }
        }
        Ok(all)
    }

    /// The accumulated attention of the rows of each KV head of a layer, in the order of their positions;
    /// `None` for heads that do not accumulate attention.
    pub fn accumulated_attention(&self, layer: usize) -> Result<Vec<Option<Vec<f32>>>, EngineError> {
        let mut all = vec![None; self.layout.heads[layer].n_kv_heads];
        for lane in &self.layers[layer].lanes {
            let Some(accumulated) = &lane.graph.accumulated else { continue };
            for (number, head) in lane.layout.kv_heads.iter().enumerate() {
                let column = lane.read_accumulated(accumulated, number)?;
                let mut order: Vec<usize> = (0..lane.tokens()).collect();
                order.sort_unstable_by_key(|row| lane.positions[number][*row]);
                all[*head as usize] = Some(order.into_iter().map(|row| column[row]).collect());
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::workspace::Workspace;
    use crate::kv::StoreOptions;

    impl Store {
        /// An empty store of one layer with so many heads of 8 elements, in f32.
        pub(super) fn of_one_layer(
            heads: usize,
            policy: &str,
            context: usize,
            reserve: Option<usize>,
            backends: &Backends,
        ) -> Store {
            let shape = AttentionShape::plain(heads, heads, 8);
            let options = StoreOptions { context, types: (Type::F32, Type::F32), reserve };
            let policy = policy.parse().expect("a policy");
            let layout = Layout::from_flags(1, shape, &policy, |_, _| false, options).expect("a layout");
            Store::new(layout, backends).expect("a store")
        }
    }

    #[test]
    fn rows_and_entries_in_use_are_counted() {
        let backends = Backends::host();
        let policy = "streaming:sinks=1,window=3,slack=0,compensation=on";
        let mut store = Store::of_one_layer(3, policy, 20, Some(3), &backends);
        let row = 2 * 8 * size_of::<f32>();
        assert_eq!((store.live_bytes(), store.free_rows()), (0, 7));
        store.advance(6);
        assert_eq!((store.live_bytes(), store.free_rows()), (3 * 6 * row, 1));
        // Four rows stay, and an entry stands for the others.
        let mut workspace = Workspace::new(&backends);
        store.compress(Event::Step, false, &backends, &mut workspace).expect("evicted");
        assert_eq!((store.live_bytes(), store.free_rows()), (3 * (4 + 1) * row, 3));
        assert_eq!(store.state().log_weights[0], 2f32.ln());
    }
}
