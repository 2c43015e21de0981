//! Compute buffers: what the intermediates of graphs take. They do not follow from the layout. The graphs of a session
//! are built over tensors without memory, and ggml's allocator says what they need.
//!
//! That takes a while, so [`Measurements`] remembers it. Graphs depend on the shape of a layout, not on how many rows it
//! has. Policies with other budgets and other contexts share them, and so do the kinds of prefill, but for groups of rows.
//! Where no such graph was measured yet, that of another session in a like placement is the estimate.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ggml::{Buffer, BufferType, Context, Graph, GraphAllocator, Tensor, Type};
use kernels::graph::{AttentionShape, GraphLane, RowPositions, SeenPart};
use models::spec::ModelSpec;

use super::{Placement, PlanOptions, WeightBytes};
use crate::EngineError;
use crate::compute::forward::{BuiltPass, Forward, OutputTokens, TextChunk};
use crate::compute::row_groups;
use crate::compute::weights::Weights;
use crate::devices::placement::{PerPlace, Place};
use crate::kv::policy::AccumulatedAttention;
use crate::kv::{AttentionRecorder, LayerForecast, LayerRows, LayerTensors, Layout, gram_shape, making_room};
use crate::model::outline::TensorOutline;
use crate::session::generate::batch::Batch;

/// Bytes in each place.
type Bytes = PerPlace<usize>;

/// Bytes of compute buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ComputeBytes {
    /// Of a decode step.
    pub(super) decode: Bytes,
    /// Of the largest chunk through all layers.
    pub(super) chunk: Bytes,
    /// Of the largest chunk through one layer, in exact prefill.
    pub(super) layer: Bytes,
    /// Of the answers of several sessions that are computed together.
    pub(super) batch: Bytes,
}

/// Bytes of graphs through all layers: of a decode step, of chunks, and of the answers of several sessions.
type ModelBytes = [Bytes; 3];

/// What the weights take, as far as a plan asks.
#[derive(Clone, Debug)]
pub(super) struct WeightSizes {
    pub(super) bytes: WeightBytes,
    /// For each layer the bytes in the file of the matrices that have a dual layout.
    pub(super) dual_layout: Vec<usize>,
}

/// The graphs of a session, over tensors without memory.
struct Graphs<'a> {
    spec: &'a ModelSpec,
    layout: &'a Layout,
    placement: Placement,
    forward: Forward,
    no_memory: Buffer,
    tensors: Vec<LayerTensors>,
    store: Vec<LayerRows>,
    allocator: GraphAllocator,
}

impl<'a> Graphs<'a> {
    fn new(
        spec: &'a ModelSpec,
        weights: Weights,
        layout: &'a Layout,
        options: &PlanOptions,
    ) -> Result<Graphs<'a>, EngineError> {
        let no_memory = Buffer::no_memory().ok_or(ggml::Error::Backend("CPU"))?;
        let tensors = tensors_without_memory(layout, &no_memory);
        Ok(Graphs {
            spec,
            layout,
            placement: options.placement,
            forward: Forward::new(spec, weights, options.placement, options.kernels.clone()),
            store: rows(layout, &tensors),
            tensors,
            no_memory,
            allocator: GraphAllocator::new(&BufferType::cpu()),
        })
    }

    /// The lengths of chunks to measure: fewer tokens may take more memory, for their partial results of attention.
    fn lengths(&self, chunk: usize) -> impl Iterator<Item = usize> {
        let shorter = self.forward.max_partials_tokens(chunk).into_iter().filter(move |n| *n < chunk);
        [chunk].into_iter().chain(shorter)
    }

    fn measure(&self, pass: BuiltPass, max: &mut Bytes) -> Result<(), EngineError> {
        for (place, built) in pass.graphs {
            self.measure_graph(place, &built.graph()?, max);
        }
        Ok(())
    }

    fn measure_graph(&self, place: Place, graph: &Graph, max: &mut Bytes) {
        let bytes = &mut max[place];
        *bytes = self.allocator.measure(graph).max(*bytes);
    }

    /// Whether graphs of a layer read whole lanes: what they take depends on how many rows there are, and policies act in
    /// graphs that may be larger than those of the model.
    fn reads_whole_lanes(&self, layer: usize) -> bool {
        self.forward.form(layer).reads_whole_lanes()
    }

    /// The number of rows for which lanes that are read whole have room. Their graphs cannot be built for more.
    fn max_appended(&self) -> Option<usize> {
        let layers = (0..self.layout.layers.len()).filter(|layer| self.reads_whole_lanes(*layer));
        let lanes = layers.flat_map(|layer| &self.layout.layers[layer]);
        lanes.map(|lane| lane.capacity - usize::from(lane.compensated)).min()
    }

    fn forecast(&self, layer: usize) -> LayerForecast<'_> {
        let form = self.forward.form(layer);
        let sink_logits = self.forward.sink_logits(layer);
        LayerForecast::new(form, self.layout, layer, &self.tensors[layer], sink_logits)
    }

    /// The complete rows of a layer in exact prefill, up to row `end`, as one lane.
    fn complete_rows(&self, layer: usize, end: usize) -> GraphLane {
        let ctx = Context::new(4);
        let tensor = |ty, shape: [usize; 3]| {
            let tensor = ctx.tensor(ty, shape);
            self.no_memory.mark_unallocated(&tensor);
            tensor
        };
        let AttentionShape { head_dim, n_kv_heads, .. } = self.layout.heads[layer];
        let k = tensor(self.layout.k_types[layer], [head_dim, end, n_kv_heads]);
        let v = match self.layout.values_in_keys {
            true => k.clone(),
            false => tensor(self.layout.v_type, [head_dim, end, n_kv_heads]),
        };
        let positions = || RowPositions { all: tensor(Type::I32, [end * n_kv_heads, 1, 1]), first: 0 };
        let accumulates = self.layout.accumulates(layer);
        GraphLane {
            accumulated: accumulates.then(|| tensor(Type::F32, [end, n_kv_heads, 1])),
            positions: self.layout.alibi.then(positions),
            window: self.spec.window(layer),
            ..GraphLane::new(k, v, (0..n_kv_heads as u32).collect::<Vec<_>>())
        }
    }

    /// Bytes of a decode step, of chunks of up to `chunk` tokens and of `steps` steps at once through all layers, and of the
    /// same steps of several sessions.
    fn through_model(&self, chunk: usize, steps: usize, sessions: usize) -> Result<ModelBytes, EngineError> {
        let [mut of_step, mut of_chunk, mut of_batch] = [(); 3].map(|()| self.placement.per_place(|_| 0));
        // Exact prefill looks up the embeddings of whole chunks, whatever lanes have room for.
        self.measure_graph(Place::Host, &self.forward.embedding_graph(chunk).graph()?, &mut of_chunk);
        let chunk = self.max_appended().map_or(chunk, |rows| chunk.min(rows).max(1));
        let graphs = |n, outputs| self.forward.model_graphs(n, outputs, |layer| self.store[layer].clone());
        self.measure(graphs(1, OutputTokens::Last), &mut of_step)?;
        for n in self.lengths(chunk) {
            self.measure(graphs(n, OutputTokens::Last), &mut of_chunk)?;
        }
        for n in self.lengths(steps.min(chunk)).filter(|n| *n > 1) {
            self.measure(graphs(n, OutputTokens::All), &mut of_chunk)?;
        }
        for place in self.placement.places() {
            let layers = self.placement.layers(place).filter(|layer| self.reads_whole_lanes(*layer));
            let layers: Vec<LayerForecast> = layers.map(|layer| self.forecast(layer)).collect();
            let graphs = making_room(&layers)?;
            graphs.iter().for_each(|graph| self.measure_graph(place, graph, &mut of_chunk));
        }
        // The shape of an answer may force more tokens than are drafted.
        let most = if self.layout.allows_steps_at_once() { chunk } else { 1 };
        for tokens in Batch::largest(sessions, most) {
            let rows = || self.forward.rows_of_layers(|layer| self.store[layer].clone());
            let texts: Vec<(usize, Vec<LayerRows>)> = tokens.into_iter().map(|n| (n, rows())).collect();
            self.measure(self.forward.batch_graphs(&texts), &mut of_batch)?;
        }
        Ok([of_step, of_chunk, of_batch])
    }

    /// Bytes of chunks of up to `chunk` tokens through one layer. `scratch`: the rows of the text, where whole lanes are read.
    fn through_layer(
        &self,
        chunk: usize,
        scratch: Option<ScratchRows>,
        has_groups: bool,
    ) -> Result<Bytes, EngineError> {
        let whole = |layer: usize| {
            scratch.filter(|_| self.reads_whole_lanes(layer) && self.layout.uses_scratch(layer))
        };
        let means = |layer: usize| self.means(layer).filter(|_| has_groups);
        // How many rows there are makes no difference to the CPU's own kernels.
        let one_lane = |layer: usize| {
            let rows = ScratchRows { text: chunk, end: 2 * chunk };
            (means(layer).is_some() && self.layout.uses_scratch(layer)).then_some(rows)
        };
        let mut max = self.placement.per_place(|_| 0);
        let ctx = Context::new(1);
        // Where a layer reads a chunk, and where it writes it.
        let residual = ctx.tensor(Type::F32, [self.spec.n_embd, 2 * chunk]);
        self.no_memory.mark_unallocated(&residual);
        for layers in self.placement.places().map(|place| self.placement.layers(place)) {
            // One layer of each kind, and the last one.
            let is_first =
                |layer: &usize| (layers.start..*layer).all(|other| self.kind(other) != self.kind(*layer));
            let of_each_kind = layers.clone().filter(is_first).map(|layer| (layer, OutputTokens::All));
            let last = layers.clone().last().map(|layer| (layer, OutputTokens::Last));
            for (layer, outputs) in of_each_kind.chain(last) {
                let rows =
                    LayerRows::of_layer(self.spec, layer, |layer| match whole(layer).or(one_lane(layer)) {
                        Some(rows) => self.rows_of_text(layer, chunk, rows),
                        None => self.store[layer].clone().with_reconstruction(&self.layout.layers[layer]),
                    });
                let rows = LayerRows { means: means(layer), ..rows };
                if let Some(grams) = self.grams(layer) {
                    let graph = self.forward.gram_graph(layer, 0, &grams, &rows.lanes).graph()?;
                    self.measure_graph(self.placement.of(layer), &graph, &mut max);
                }
                for len in self.lengths(chunk) {
                    let text = TextChunk { residual: &residual, from: len, to: 0, len };
                    self.measure(self.forward.layer_graphs(layer, text, &rows, outputs), &mut max)?;
                }
            }
        }
        for place in self.placement.places() {
            for layer in self.placement.layers(place) {
                let Some(rows) = whole(layer) else { continue };
                let complete = self.complete_rows(layer, rows.end);
                let graphs = self.forecast(layer).after_exact_prefill(&complete, rows.text)?;
                graphs.iter().for_each(|graph| self.measure_graph(place, graph, &mut max));
            }
        }
        Ok(max)
    }

    /// For the means of some groups of a layer's rows, if it can read old rows in groups.
    fn means(&self, layer: usize) -> Option<Tensor> {
        row_groups::has_groups(self.spec, self.placement, layer).then(|| {
            let AttentionShape { head_dim, n_kv_heads, .. } = self.layout.heads[layer];
            let means = Context::new(1).tensor(Type::F32, [2 * head_dim, 1, n_kv_heads]);
            self.no_memory.mark_unallocated(&means);
            means
        })
    }

    /// A layer's Gram matrices, where contributions count.
    fn grams(&self, layer: usize) -> Option<Tensor> {
        self.layout.counts_contributions(layer).then(|| {
            let grams = Context::new(1).tensor(Type::F32, gram_shape(self.layout.heads[layer]));
            self.no_memory.mark_unallocated(&grams);
            grams
        })
    }

    /// The complete rows of a layer, with all that is recorded of its attention.
    fn rows_of_text(&self, layer: usize, chunk: usize, rows: ScratchRows) -> LayerRows {
        let complete = self.complete_rows(layer, rows.end);
        let (recorded, lanes) = (&self.tensors[layer].recorded, &self.layout.layers[layer]);
        let mut of_text = LayerRows {
            recorders: vec![AttentionRecorder::of_complete(recorded, lanes, &complete)],
            lanes: vec![complete],
            states: None,
            means: None,
        };
        if self.layout.reconstructs() {
            let part = SeenPart { first: 0, from: 0, to: chunk.min(rows.text), last: rows.text };
            let second = LayerRows {
                recorders: vec![AttentionRecorder::of_reconstruction(lanes, &of_text.lanes[0])],
                ..of_text.clone()
            };
            of_text.recorders.extend(second.scored(part, self.grams(layer).as_ref()).recorders);
        }
        of_text
    }

    /// What a layer's graph depends on.
    fn kind(&self, layer: usize) -> impl PartialEq + use<'a> {
        let (heads, width) = (self.spec.kv_heads(layer), self.spec.network_width(layer));
        let experts = self.spec.experts_of(layer).map(|_| self.placement.of_experts(layer));
        // Where whole lanes are read, each layer may have lanes of other sizes.
        let whole = self.reads_whole_lanes(layer).then_some(layer);
        // Layers with windows have no groups of rows.
        let has_window = self.spec.window(layer).is_some();
        let has_state = self.layout.state(layer).is_some();
        (has_state, self.layout.has_rows(layer), has_window, heads, width, experts, whole)
    }
}

/// The tensors of a store's layers, marked as having no memory.
fn tensors_without_memory(layout: &Layout, no_memory: &Buffer) -> Vec<LayerTensors> {
    let tensors = layout.layers.iter().map(|lanes| LayerTensors::max_count(lanes.len())).sum();
    let ctx = Context::new(tensors);
    let of_layer =
        |layer| LayerTensors::new(&ctx, layout, layer, |tensor| no_memory.mark_unallocated(tensor));
    (0..layout.layers.len()).map(of_layer).collect()
}

/// The rows of a store's layers.
fn rows(layout: &Layout, tensors: &[LayerTensors]) -> Vec<LayerRows> {
    let of_layer = |(tensors, lanes): (&LayerTensors, _)| {
        let rows = tensors.lanes.iter().map(|lane| &lane.graph).zip(lanes);
        LayerRows::new(rows, &tensors.recorded, tensors.state.as_ref())
    };
    tensors.iter().zip(&layout.layers).map(of_layer).collect()
}

/// The rows of a text in exact prefill.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ScratchRows {
    /// Those of its tokens.
    text: usize,
    /// With those of the chunks in which it is read a second time.
    end: usize,
}

/// What is known of the compute buffers of one model, and of its weights.
#[derive(Default)]
pub(in crate::setup) struct Measurements {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    weights: Vec<(Placement, WeightSizes)>,
    /// Graphs through all layers.
    model: Vec<(GraphCase, ModelBytes)>,
    /// Chunks through one layer.
    layer: Vec<(GraphCase, Bytes)>,
}

/// What graphs depend on.
#[derive(Clone, Debug, PartialEq)]
struct GraphCase {
    shape: GraphShape,
    placement: Placement,
    /// Tokens of the longest chunk.
    chunk: usize,
    /// Decode steps that are computed at once, in graphs through all layers.
    steps: usize,
    /// Sessions that compute their answers together, in such graphs.
    sessions: usize,
    /// Those of exact prefill, in graphs through one layer that read whole lanes.
    scratch: Option<ScratchRows>,
    /// Whether old rows are read in groups, in graphs through one layer.
    has_groups: bool,
    /// Whether each device gets the embeddings of all its layers at once, in graphs through all layers.
    has_embeddings: bool,
}

/// What the graphs of a session depend on in its layout.
#[derive(Clone, Debug, PartialEq)]
struct GraphShape {
    v_type: Type,
    layers: Vec<LayerShape>,
}

#[derive(Clone, Debug, PartialEq)]
struct LayerShape {
    k_type: Type,
    stored_queries: usize,
    lanes: Vec<LaneShape>,
}

#[derive(Clone, Debug, PartialEq)]
struct LaneShape {
    heads: usize,
    compensated: bool,
    has_window: bool,
    /// How attention is accumulated, and into how many parts the rows are split for it.
    accumulated: Option<(AccumulatedAttention, usize)>,
    /// Where graphs read whole lanes: how many rows these have, and the policy, which acts in graphs of its own.
    whole: Option<(usize, String)>,
}

impl GraphShape {
    fn of(layout: &Layout, options: &PlanOptions) -> GraphShape {
        /// The rows beyond which a device splits them into no more parts.
        const MAX_SPLIT_ROWS: usize = 32 * 64;
        let reads_whole_lanes = |layer| {
            options.kernels[options.placement.of(layer)].form(layout.heads[layer]).reads_whole_lanes()
        };
        let layer = |(layer, lanes): (usize, &Vec<_>)| LayerShape {
            k_type: layout.k_types[layer],
            stored_queries: layout.stored_queries(layer),
            lanes: lanes.iter().map(|lane| lane_shape(lane, reads_whole_lanes(layer))).collect(),
        };
        fn lane_shape(lane: &crate::kv::LaneLayout, reads_whole: bool) -> LaneShape {
            LaneShape {
                heads: lane.kv_heads.len(),
                compensated: lane.compensated,
                has_window: lane.window.is_some(),
                accumulated: lane.needs().accumulated.map(|how| (how, lane.capacity.min(MAX_SPLIT_ROWS))),
                whole: reads_whole.then(|| (lane.capacity, format!("{:?}", lane.policy))),
            }
        }
        GraphShape { v_type: layout.v_type, layers: layout.layers.iter().enumerate().map(layer).collect() }
    }
}

impl GraphShape {
    /// Whether graphs read whole lanes somewhere.
    fn reads_whole_lanes(&self) -> bool {
        self.layers.iter().flat_map(|layer| &layer.lanes).any(|lane| lane.whole.is_some())
    }

    /// Whether rows have the same types.
    fn has_types_of(&self, other: &GraphShape) -> bool {
        let k_types = |shape: &GraphShape| shape.layers.iter().map(|layer| layer.k_type).collect::<Vec<_>>();
        self.v_type == other.v_type && k_types(self) == k_types(other)
    }
}

/// How near a measured graph is to the one that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Nearness {
    /// Layers are in other places, or chunks have another length.
    Far,
    /// Another session, with layers in the same places; or one whose devices get the embeddings of more or fewer layers.
    Like,
    /// The same with rows of the same types, which are prepared alike.
    LikeRows,
    /// The same but for the number of layers in each place.
    Near,
    /// The same graph.
    Same,
}

impl GraphCase {
    fn nearness(&self, other: &GraphCase) -> Nearness {
        let places = |placement: Placement| {
            let has_layers = placement.places().map(|place| !placement.layers(place).is_empty());
            let on_host = placement.layers(Place::Host).len();
            let has_split = placement.on_devices() > 0 && placement.host_experts() > on_host;
            (has_layers.collect::<Vec<bool>>(), has_split)
        };
        // Where whole lanes are read, other numbers of rows take other memory.
        let has_rows_of =
            !self.shape.reads_whole_lanes() || self.shape == other.shape && self.scratch == other.scratch;
        let is_like =
            has_rows_of && (places(self.placement), self.chunk) == (places(other.placement), other.chunk);
        let has_other_embeddings = self.has_embeddings && self.placement.counts() != other.placement.counts();
        match (self == other, is_like) {
            (true, _) => Nearness::Same,
            (_, true) if has_other_embeddings => Nearness::Like,
            (_, true) if self.shape == other.shape => Nearness::Near,
            (_, true) if self.shape.has_types_of(&other.shape) => Nearness::LikeRows,
            (_, true) => Nearness::Like,
            (_, false) => Nearness::Far,
        }
    }
}

/// The entry of `case`.
fn same<T: Clone>(list: &[(GraphCase, T)], case: &GraphCase) -> Option<T> {
    list.iter().find(|(other, _)| other == case).map(|(_, value)| value.clone())
}

/// The entry nearest to `case`, with as many devices, and the newest of equals.
fn nearest<'a, T>(list: &'a [(GraphCase, T)], case: &GraphCase) -> Option<(Nearness, &'a T)> {
    let entries = list.iter().filter(|(other, _)| other.placement.devices() == case.placement.devices());
    entries.map(|(other, value)| (case.nearness(other), value)).max_by_key(|(nearness, _)| *nearness)
}

impl Measurements {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the weights take.
    pub(super) fn weights(
        &self,
        spec: &ModelSpec,
        tensors: &[TensorOutline],
        options: &PlanOptions,
    ) -> Result<WeightSizes, EngineError> {
        let placement = options.placement.without_residual();
        if let Some((_, sizes)) = self.known().weights.iter().find(|(other, _)| *other == placement) {
            return Ok(sizes.clone());
        }
        let weights = Weights::unallocated(spec, tensors, options.repack, placement)?;
        let sizes = WeightSizes { bytes: weights.bytes, dual_layout: weights.dual_layout_bytes };
        self.known().weights.push((placement, sizes.clone()));
        Ok(sizes)
    }

    /// Builds the graphs of a session, unless they are known.
    pub(super) fn measured(
        &self,
        spec: &ModelSpec,
        tensors: &[TensorOutline],
        layout: &Layout,
        options: &PlanOptions,
    ) -> Result<ComputeBytes, EngineError> {
        let (of_model, of_layer) = cases(spec, layout, options);
        let known_model = same(&self.known().model, &of_model);
        let none = || options.placement.per_place(|_| 0);
        let known_layer =
            of_layer.as_ref().map_or_else(|| Some(none()), |case| same(&self.known().layer, case));
        let (known_model, known_layer) = match (known_model, known_layer) {
            (Some([decode, chunk, batch]), Some(layer)) => {
                return Ok(ComputeBytes { decode, chunk, layer, batch });
            }
            known => known,
        };
        let weights = Weights::unallocated(spec, tensors, options.repack, options.placement)?;
        let graphs = Graphs::new(spec, weights, layout, options)?;
        let [decode, chunk, batch] = match known_model {
            Some(bytes) => bytes,
            None => {
                let bytes = graphs.through_model(of_model.chunk, of_model.steps, of_model.sessions)?;
                self.known().model.push((of_model, bytes.clone()));
                bytes
            }
        };
        let layer = match (known_layer, of_layer) {
            (None, Some(case)) => {
                let bytes = graphs.through_layer(case.chunk, case.scratch, case.has_groups)?;
                self.known().layer.push((case, bytes.clone()));
                bytes
            }
            (known, _) => known.unwrap_or_else(none),
        };
        Ok(ComputeBytes { decode, chunk, layer, batch })
    }

    /// What the graphs of a session take, as far as it is known: those of the nearest session that was measured, and the
    /// share by which they may differ. That is infinite where nothing like it was measured.
    pub(super) fn estimate(
        &self,
        spec: &ModelSpec,
        layout: &Layout,
        options: &PlanOptions,
    ) -> (ComputeBytes, f64) {
        let (of_model, of_layer) = cases(spec, layout, options);
        let known = self.known();
        let model = nearest(&known.model, &of_model);
        let layer = of_layer.map(|case| nearest(&known.layer, &case));
        let none = || options.placement.per_place(|_| 0);
        let [decode, chunk, batch] =
            model.map_or_else(|| [(); 3].map(|()| none()), |(_, bytes)| bytes.clone());
        let nearness = [
            Some(model.map(|(nearness, _)| nearness)),
            layer.map(|layer| layer.map(|(nearness, _)| nearness)),
        ];
        let margin = match nearness.into_iter().flatten().min().flatten() {
            None | Some(Nearness::Far) => f64::INFINITY,
            Some(Nearness::Like) => 0.25,
            Some(Nearness::LikeRows) => 0.125,
            Some(Nearness::Near) => 0.0625,
            Some(Nearness::Same) => 0.0,
        };
        let layer = layer.flatten().map_or_else(none, |(_, bytes)| bytes.clone());
        (ComputeBytes { decode, chunk, layer, batch }, margin)
    }
}

/// The graphs of a session: those through all layers, and those through one, which exact prefill has.
fn cases(spec: &ModelSpec, layout: &Layout, options: &PlanOptions) -> (GraphCase, Option<GraphCase>) {
    let (shape, placement) = (GraphShape::of(layout, options), options.placement.without_residual());
    let chunk = options.chunk_in(layout);
    let of_model = GraphCase {
        shape,
        placement,
        chunk,
        steps: options.steps_in(layout),
        sessions: options.sessions,
        scratch: None,
        has_groups: false,
        has_embeddings: spec.per_layer_width.is_some(),
    };
    let of_layer = options.prefill.is_by_layer().then(|| {
        let text = options.prompt_in(layout);
        let rows = || ScratchRows { text, end: options.read_in(layout).end };
        GraphCase {
            chunk: chunk.min(text),
            steps: 1,
            sessions: 1,
            scratch: of_model.shape.reads_whole_lanes().then(rows),
            has_groups: options.has_groups(layout),
            has_embeddings: false,
            ..of_model.clone()
        }
    });
    (of_model, of_layer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a device gets with each chunk may be a large part of what its graphs take.
    #[test]
    fn graphs_with_embeddings_of_more_layers_are_not_near() {
        let nearness = |has_embeddings: bool| {
            let [one, other] = [20, 41].map(|on_device| {
                let placement = Placement::new(42, on_device);
                GraphCase {
                    shape: GraphShape { v_type: Type::F16, layers: Vec::new() },
                    placement,
                    chunk: 512,
                    steps: 1,
                    sessions: 1,
                    scratch: None,
                    has_groups: false,
                    has_embeddings,
                }
            });
            one.nearness(&other)
        };
        assert_eq!([false, true].map(nearness), [Nearness::Near, Nearness::Like]);
    }
}
