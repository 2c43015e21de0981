//! The memory that exact prefill needs besides the store. It holds the residual stream of all tokens of the text, and
//! the complete keys and values of one layer, or the states of a recurrent one. If a model is split between host and
//! devices, each place holds both, unless all of the residual stream is on the host. Layers with other heads have memory
//! of their own. So have layers to whose rows later ones attend, where it is needed for other rows before that.
//!
//! A layer that was interrupted in the middle of a chunk can compute the chunk again: rows are written to the same
//! places, and nothing that a chunk gets is overwritten before the next one begins. Accumulated attention is the
//! exception, and is restored.

use std::ops::Range;

use ggml::{Context, InterruptFlag, Tensor, Type};
use kernels::graph::{AttentionShape, GraphLane, RowPositions, SeenPart};
use models::spec::ModelSpec;

use crate::EngineError;
use crate::compute::finite;
use crate::compute::forward::{Forward, NextTokens, TextChunk};
use crate::devices::backends::Backends;
use crate::devices::placement::{PerPlace, Place, Placement};
use crate::devices::workspace::Workspace;
use crate::kv::{LaneValues, LayerRows, Layout, StateTensors, gram_shape};

/// The complete keys and values of one layer. All stores that are filled from them share them; each store
/// sees them as one lane of all KV heads.
pub(crate) struct Scratch {
    /// `[n_layers][stores]`: a layer's lane for each store. Layers have the same memory where they can.
    lanes: Vec<Vec<GraphLane>>,
    /// `[n_layers]`: a layer's Gram matrices, where a store counts contributions. Layers have the same memory where they
    /// can.
    grams: Vec<Option<Tensor>>,
    /// Two states of a recurrent layer in each place: a chunk reads one and writes the other.
    states: PerPlace<Option<[StateTensors; 2]>>,
}

impl Scratch {
    /// Allocates keys and values of `n` tokens in each place with a layer that attends and for which `used` is true,
    /// and states in each place with a recurrent layer. There is a layout for each store.
    pub(crate) fn new(
        spec: &ModelSpec,
        layouts: &[&Layout],
        n: usize,
        backends: &Backends,
        used: impl Fn(usize) -> bool,
    ) -> Result<Scratch, EngineError> {
        let (mut lanes, mut grams) = (vec![Vec::new(); spec.n_layers], vec![None; spec.n_layers]);
        let has_grams = |layer: &usize| layouts.iter().any(|layout| layout.counts_contributions(*layer));
        let placement = backends.placement();
        let mut states = placement.per_place(|_| None);
        for place in placement.places() {
            let Some(first) = layouts.first() else { continue };
            if let Some(shape) = placement.layers(place).find_map(|layer| first.state(layer)) {
                let ctx = Context::new(4);
                states[place] = Some([(); 2].map(|()| StateTensors::new(&ctx, shape)));
                ctx.allocate(&backends.at(place).buffer_type())?;
            }
            let layers = placement.layers(place).filter(|layer| used(*layer));
            for layers in first.scratch_groups(layers) {
                let ctx = Context::new(4 + layouts.len());
                let heads = first.heads[layers[0]];
                let AttentionShape { head_dim, n_kv_heads, .. } = heads;
                let rows = |ty| ctx.tensor(ty, [head_dim, n, n_kv_heads]);
                let k = rows(first.k_types[layers[0]]);
                let v = if first.values_in_keys { k.clone() } else { rows(first.v_type) };
                let positions = (first.alibi)
                    .then(|| RowPositions { all: ctx.tensor(Type::I32, [n * n_kv_heads]), first: 0 });
                let lane = |layout: &&Layout| GraphLane {
                    accumulated: (layers.iter().any(|layer| layout.accumulates(*layer)))
                        .then(|| ctx.tensor(Type::F32, [n, n_kv_heads])),
                    positions: positions.clone(),
                    ..GraphLane::new(k.clone(), v.clone(), (0..n_kv_heads as u32).collect::<Vec<_>>())
                };
                let of_stores: Vec<GraphLane> = layouts.iter().map(lane).collect();
                layers.iter().for_each(|layer| lanes[*layer].clone_from(&of_stores));
                let of_group = layers.iter().any(has_grams).then(|| ctx.tensor(Type::F32, gram_shape(heads)));
                for layer in layers.iter().filter(|layer| has_grams(layer)) {
                    grams[*layer].clone_from(&of_group);
                }
                ctx.allocate(&backends.at(place).buffer_type())?;
                if let Some(grams) = &of_group {
                    write_unit_matrices(grams)?;
                }
                if backends.form(place, heads).reads_whole_lanes() {
                    let lanes = of_stores.iter().take(1);
                    lanes.flat_map(GraphLane::tensors).try_for_each(Tensor::clear)?;
                }
            }
        }
        Ok(Scratch { lanes, grams, states })
    }

    /// Begins a recurrent layer: its state is that before the first token. Does nothing for another layer.
    pub(crate) fn clear_state(&self, place: Place) -> Result<(), ggml::Error> {
        let Some([first, _]) = &self.states[place] else { return Ok(()) };
        first.clear()
    }

    /// The state of a recurrent layer after `chunks` chunks.
    pub(crate) fn state(&self, place: Place, chunks: usize) -> Option<&StateTensors> {
        self.states[place].as_ref().map(|states| &states[chunks % 2])
    }

    /// What the chunk behind the first `chunks` of them reads and writes of a recurrent layer; `None` for another
    /// layer. A chunk can be computed again.
    pub(crate) fn state_rows(
        &self,
        place: Place,
        spec: &ModelSpec,
        layer: usize,
        chunks: usize,
    ) -> Option<LayerRows> {
        spec.recurrent_layer(layer)?;
        let [from, to] = [chunks, chunks + 1].map(|chunks| self.state(place, chunks));
        Some(LayerRows::of_states(from?, to?))
    }

    /// The lanes of a layer, one for each store; empty where it does not use them.
    pub(crate) fn lanes(&self, layer: usize) -> &[GraphLane] {
        &self.lanes[layer]
    }

    /// The Gram matrices of a layer, where contributions count.
    pub(crate) fn grams(&self, layer: usize) -> Option<&Tensor> {
        self.grams[layer].as_ref()
    }

    /// The complete rows of `layer` as the one lane that attention reads, which has the layer's window.
    pub(crate) fn complete_rows(&self, spec: &ModelSpec, layer: usize) -> LayerRows {
        let lane = self.lanes(layer).first();
        let lane = lane.map(|lane| GraphLane { window: spec.window(layer), ..lane.clone() });
        LayerRows { lanes: lane.into_iter().collect(), recorders: Vec::new(), states: None, means: None }
    }

    /// The attention accumulated so far in a layer, for each store: `[n, kv_heads]`, empty where there is none.
    pub(crate) fn accumulated(&self, layer: usize) -> Result<Vec<Vec<f32>>, ggml::Error> {
        let of_lane =
            |lane: &GraphLane| lane.accumulated.as_ref().map_or_else(|| Ok(Vec::new()), Tensor::to_vec);
        self.lanes(layer).iter().map(of_lane).collect()
    }

    /// Sets the attention accumulated in a layer to 0, before it is read.
    pub(crate) fn clear_accumulated(&self, layer: usize) -> Result<(), ggml::Error> {
        self.lanes(layer).iter().filter_map(|lane| lane.accumulated.as_ref()).try_for_each(Tensor::clear)
    }

    /// Restores what [`Scratch::accumulated`] gave.
    pub(crate) fn set_accumulated(&self, layer: usize, values: &[Vec<f32>]) -> Result<(), ggml::Error> {
        let tensors = self.lanes(layer).iter().map(|lane| &lane.accumulated);
        tensors
            .zip(values)
            .filter_map(|(tensor, values)| Some((tensor.as_ref()?, values)))
            .try_for_each(|(tensor, values)| tensor.write(0, values))
    }
}

/// Writes the unit matrices among Gram matrices.
fn write_unit_matrices(grams: &Tensor) -> Result<(), ggml::Error> {
    let [head_dim, _, matrices, n_kv_heads] = grams.shape().0;
    let unit: Vec<f32> = (0..head_dim * head_dim).map(|at| f32::from(at % (head_dim + 1) == 0)).collect();
    let [.., of_matrix, of_kv_head] = grams.strides();
    (0..n_kv_heads).try_for_each(|head| grams.write(of_kv_head * head + of_matrix * (matrices - 1), &unit))
}

/// Tokens that are computed at a time.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Position of the first of them, and the row that its key and value are written to.
    pub at: usize,
    /// Which tokens of the text.
    pub tokens: Range<usize>,
    /// The rows that it scores, where it repeats a part of the text.
    pub scored: Option<SeenPart>,
}

impl Chunk {
    /// The row behind the last of them.
    pub fn end(&self) -> usize {
        self.at + self.tokens.len()
    }
}

/// A text of `n` tokens in chunks of `len`.
pub(crate) fn chunks(n: usize, len: usize) -> Vec<Chunk> {
    let len = len.max(1);
    (0..n).step_by(len).map(|at| Chunk { at, tokens: at..n.min(at + len), scored: None }).collect()
}

/// The chunks of a first text of `n` tokens. With `twice` those follow in which it is read a second time (KVzip's
/// context reconstruction). Each of these repeats a part of the text as if it followed the whole text. It begins with
/// the tokens before the part, from which the model recognises where it is. Each token looks for the one that
/// followed it, so the last one of the part is not repeated.
///
/// Their keys and values lie behind the text's in the scratch buffer, one chunk over the other, and never reach the
/// store.
///
/// For scoring a chunk sees the part, itself, and the rows that take the attention of heads that look for nothing: the
/// first rows and those right before the chunk.
pub fn first_text_chunks(n: usize, len: usize, twice: bool) -> Vec<Chunk> {
    const OTHER_ROWS: usize = 16;
    let len = len.max(1);
    let (before, part) = second_reading(len);
    let mut all = chunks(n, len);
    if twice {
        all.extend((0..n).step_by(part).map(|from| {
            let to = n.min(from + part);
            let (first, last) = (OTHER_ROWS.min(from), n.saturating_sub(OTHER_ROWS).max(to));
            let scored = Some(SeenPart { first, from, to, last });
            Chunk { at: n, tokens: from.saturating_sub(before)..to - 1, scored }
        }));
        // The first part may be a single token, which follows none.
        all.retain(|chunk| !chunk.tokens.is_empty());
    }
    all
}

/// For chunks of `len` tokens in which a text is read a second time: how many tokens before a part are repeated at most,
/// and how many tokens a part has.
fn second_reading(len: usize) -> (usize, usize) {
    const TOKENS_BEFORE: usize = 16;
    let before = (len / 4).clamp(1, TOKENS_BEFORE);
    (before, len - before + 1)
}

/// What memory depends on in the chunks of a text. A plan for a hundred million tokens does not list them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChunkSizes {
    /// How many chunks there are.
    pub(crate) count: usize,
    /// Tokens of the longest.
    pub(crate) longest: usize,
    /// The row behind all of them.
    pub(crate) end: usize,
}

impl ChunkSizes {
    /// Those of a list.
    pub(crate) fn of(chunks: &[Chunk]) -> ChunkSizes {
        ChunkSizes {
            count: chunks.len(),
            longest: chunks.iter().map(|chunk| chunk.tokens.len()).max().unwrap_or(1),
            end: chunks.iter().map(Chunk::end).max().unwrap_or(0),
        }
    }

    /// Those of [`first_text_chunks`], for at least one token.
    pub(crate) fn of_first_text(n: usize, len: usize, twice: bool) -> ChunkSizes {
        let len = len.max(1);
        let mut sizes = ChunkSizes { count: n.div_ceil(len), longest: len.min(n), end: n };
        if twice {
            let (before, part) = second_reading(len);
            // The first part repeats nothing before it. It is left out if it is a single token, which follows none.
            let first = part.min(n) - 1;
            let second = (n.min(2 * part) + before).saturating_sub(part + 1);
            sizes.count += n.div_ceil(part) - usize::from(first == 0);
            sizes.end += if n > part { first.max(second) } else { first };
        }
        sizes
    }
}

/// The residual stream of a text in chunks, each of which has a slot. There is one more slot than chunks: each layer
/// writes a chunk to the slot before the one that it is read from, whose chunk is done.
///
/// Where the stream of layers on devices is on the host, a device has room for one chunk as a layer gets it, and
/// for the chunk as the layer gives it.
pub(crate) struct Residual {
    /// `[n_embd, columns]` f32; `None` in a place without layers that does not hold the stream either.
    tensors: PerPlace<Option<Tensor>>,
    n_embd: usize,
    /// Where each layer is, and where the stream is between layers.
    placement: Placement,
    /// Tokens of a chunk.
    chunk: usize,
    slots: usize,
}

impl Residual {
    /// Memory for the stream of a text in these chunks.
    pub(crate) fn new(
        forward: &Forward,
        chunks: &[Chunk],
        backends: &Backends,
    ) -> Result<Residual, EngineError> {
        let (placement, sizes) = (backends.placement(), ChunkSizes::of(chunks));
        let n_embd = forward.weights().decode_layout.input.token_embd.dim(0);
        let mut tensors = placement.per_place(|_| None);
        // Devices come first: page-locked memory of the host belongs to the device that the thread used last.
        for place in placement.places() {
            let columns = Residual::columns(sizes, placement, place);
            if columns > 0 {
                let memory = match place {
                    // What all devices that there are can copy from; ordinary memory where there is none.
                    Place::Host => backends.at(placement.of_output()).host_buffer_type(),
                    device => backends.at(device).buffer_type(),
                };
                let ctx = Context::new(1);
                tensors[place] = Some(ctx.tensor(Type::F32, [n_embd, columns]));
                ctx.allocate(&memory)?;
            }
        }
        Ok(Residual { tensors, n_embd, placement, chunk: sizes.longest, slots: sizes.count + 1 })
    }

    /// Looks up the embeddings of chunk `number`, which has these `tokens` of the text: its stream in the place of the first
    /// layer.
    ///
    /// # Errors
    /// Where one is not finite, or the computation fails or is interrupted.
    pub(crate) fn embed(
        &self,
        forward: &Forward,
        (number, chunk): (usize, &Chunk),
        tokens: &[u32],
        backends: &Backends,
        workspace: &mut Workspace,
        interrupt: &InterruptFlag,
    ) -> Result<(), EngineError> {
        let built = forward.embedding_graph(chunk.tokens.len());
        let graph = workspace.prepare(Place::Host, built.graph()?)?;
        let lanes = &LaneValues::default();
        built.inputs.fill(&[NextTokens { tokens, first: chunk.at, lanes }])?;
        backends.compute(Place::Host, &graph, Some(interrupt))?;
        built.probes.iter().try_for_each(|probe| finite::check(&probe.to_vec()?))?;
        let first = self.at(self.placement.of_residual(0))?;
        Ok(first.copy_from(self.bytes(self.chunk * number), &built.result, 0, self.bytes(tokens.len()))?)
    }

    /// Where the stream of chunk `number` is when `layer` has read the first `read` chunks: the tensor, and bytes from
    /// its beginning.
    fn chunk_at(&self, layer: usize, read: usize, number: usize) -> Result<(&Tensor, usize), EngineError> {
        // It is moved when the layer begins.
        let place = self.placement.of_residual(if read == 0 { layer.saturating_sub(1) } else { layer });
        let column = self.column(layer + usize::from(number < read), number);
        Ok((self.at(place)?, self.bytes(column)))
    }

    /// The stream of chunk `number`, of `len` tokens, when `layer` has read the first `read` chunks: `[n_embd, len]` f32.
    pub(crate) fn chunk_bytes(
        &self,
        layer: usize,
        read: usize,
        number: usize,
        len: usize,
    ) -> Result<Vec<u8>, EngineError> {
        let (tensor, at) = self.chunk_at(layer, read, number)?;
        let mut bytes = vec![0u8; self.bytes(len)];
        tensor.read(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Restores what [`Residual::chunk_bytes`] gave.
    pub(crate) fn set_chunk_bytes(
        &self,
        layer: usize,
        read: usize,
        number: usize,
        bytes: &[u8],
    ) -> Result<(), EngineError> {
        let (tensor, at) = self.chunk_at(layer, read, number)?;
        Ok(tensor.write(at, bytes)?)
    }

    /// Columns that these chunks take in a place.
    pub(crate) fn columns(chunks: ChunkSizes, placement: Placement, place: Place) -> usize {
        let has_layers = !placement.layers(place).is_empty();
        let slots = match (place, placement.has_host_residual()) {
            (Place::Host, true) => chunks.count + 1,
            _ if !has_layers => 0,
            (_, true) => 2,
            (_, false) => chunks.count + 1,
        };
        chunks.longest * slots
    }

    /// Chunk `number` of the text, which has `len` tokens, for a layer. Where the stream is in another place, this
    /// copies it to the layer's.
    pub(crate) fn load(&self, layer: usize, number: usize, len: usize) -> Result<TextChunk<'_>, EngineError> {
        let (here, stream) =
            (self.at(self.placement.of(layer))?, self.at(self.placement.of_residual(layer))?);
        let from = self.column(layer, number);
        if self.is_local(layer) {
            return Ok(TextChunk { residual: here, from, to: self.column(layer + 1, number), len });
        }
        here.copy_from(0, stream, self.bytes(from), self.bytes(len))?;
        Ok(TextChunk { residual: here, from: 0, to: self.chunk, len })
    }

    /// Copies what a layer gave for the chunk to the stream, where that is in another place.
    pub(crate) fn store(&self, layer: usize, number: usize, len: usize) -> Result<(), EngineError> {
        if self.is_local(layer) {
            return Ok(());
        }
        let (here, stream) =
            (self.at(self.placement.of(layer))?, self.at(self.placement.of_residual(layer))?);
        let to = self.column(layer + 1, number);
        Ok(stream.copy_from(self.bytes(to), here, self.bytes(self.chunk), self.bytes(len))?)
    }

    /// Copies the stream to its place for `layer` if it was in another place before.
    pub(crate) fn move_to(&self, layer: usize) -> Result<(), EngineError> {
        let place = self.placement.of_residual(layer);
        if layer == 0 || self.placement.of_residual(layer - 1) == place {
            return Ok(());
        }
        let from = self.at(self.placement.of_residual(layer - 1))?;
        Ok(self.at(place)?.copy_from(0, from, 0, from.bytes())?)
    }

    /// Whether a layer finds the stream in its own place.
    fn is_local(&self, layer: usize) -> bool {
        self.placement.of(layer) == self.placement.of_residual(layer)
    }

    /// The first column of a chunk in the stream before a layer.
    fn column(&self, layer: usize, number: usize) -> usize {
        self.chunk * ((number + self.slots - layer % self.slots) % self.slots)
    }

    /// Bytes of so many columns.
    pub(crate) fn bytes(&self, columns: usize) -> usize {
        size_of::<f32>() * self.n_embd * columns
    }

    /// The tensor of a place.
    ///
    /// # Errors
    /// Where nothing was allocated there.
    fn at(&self, place: Place) -> Result<&Tensor, EngineError> {
        let tensor = self.tensors[place].as_ref();
        Ok(tensor.ok_or_else(|| ggml::Error::NotAllocated("the residual stream".into()))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_of_chunks_are_those_of_the_list() {
        for (len, twice) in (1..80).flat_map(|len| [(len, false), (len, true)]) {
            for n in 1..300 {
                let list = ChunkSizes::of(&first_text_chunks(n, len, twice));
                assert_eq!(ChunkSizes::of_first_text(n, len, twice), list, "{n} {len} {twice}");
            }
        }
    }
}
