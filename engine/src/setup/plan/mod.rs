//! What a session will allocate, in bytes, before anything is allocated.
//!
//! Store, scratch and residual stream follow from the layout. Compute buffers are measured: the same graphs
//! are built over tensors without memory, and ggml's allocator says what their intermediates need. A device
//! need not be present to be planned for.

use ggml::{Buffer, BufferType, Context, GraphAllocator, Type};
use models::spec::ModelSpec;
use models::types::TensorType;

use crate::EngineError;
use crate::compute::forward::{BuiltGraph, Forward, OutputTokens, TextChunk, Workers};
use crate::compute::scratch::{ChunkSizes, Residual};
pub use crate::compute::weights::WeightBytes;
use crate::compute::weights::Weights;
use crate::devices::placement::Place;
pub use crate::devices::placement::Placement;
use crate::kv::{LayerRows, LayerTensors, Layout};
use crate::model::outline::TensorOutline;

/// How a session will be run.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions {
    /// Whether matrices are copied into a faster layout.
    pub repack: bool,
    /// Tokens of the longest text that is read at once.
    pub prompt: usize,
    /// Tokens computed at once.
    pub chunk: usize,
    /// Whether the first prompt is read with exact prefill, layer by layer.
    pub exact: bool,
    /// Threads.
    pub threads: usize,
    /// Which layers are on a device.
    pub placement: Placement,
    /// Blocks into which the device splits attention: its [`Backend::blocks`](ggml::Backend::blocks), or
    /// [`ASSUMED_DEVICE_BLOCKS`] for a device that is not present.
    pub blocks: usize,
}

/// Bytes that a session allocates.
///
/// ```
/// use longhand::{Model, ModelSource, Setup, SetupOptions};
///
/// let options = SetupOptions { context: longhand::Context::Tokens(1000), ..SetupOptions::default() };
/// let setup = Setup::resolve(&Model::open(ModelSource::Embedded)?, &options, 1000, &mut ())?;
/// let plan = setup.plan();
/// assert_eq!(plan.host.store, 4 * 4 * 1000 * 2 * 64 * 2); // layers, KV heads, tokens, K and V, head_dim, bytes
/// assert!(plan.total() > plan.host.store + plan.weights.total());
/// # Ok::<(), longhand::EngineError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Weights, by place.
    pub weights: WeightBytes,
    /// During prefill, pages of the file with matrices that are also there in another layout. In exact
    /// prefill these are the pages of one layer, otherwise those of all layers (as in a later turn of many
    /// tokens). They go back to the system afterwards.
    pub file_pages: usize,
    /// What is saved on the host so that a turn can be undone.
    pub undo: usize,
    /// The host's other memory.
    pub host: PlaceBytes,
    /// The device's memory beside its weights.
    pub device: PlaceBytes,
    /// What is allocated on the device by others than the engine, without the driver's part: see
    /// [`device_overhead`].
    pub device_overhead: usize,
}

/// Bytes that a session allocates in one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceBytes {
    /// The KV store.
    pub store: usize,
    /// One layer's complete keys and values, during exact prefill.
    pub scratch: usize,
    /// The residual stream of the first prompt, during exact prefill; on a device only two chunks of it where
    /// [`DeviceOptions::host_residual`](crate::DeviceOptions::host_residual) is set.
    pub residual: usize,
    /// Compute buffers.
    pub compute: usize,
}

impl PlaceBytes {
    /// What is allocated during exact prefill only.
    fn prefill_only(&self) -> usize {
        self.scratch + self.residual
    }
}

/// Bytes that the driver takes on a device when a program begins to use it: an estimate, not measured yet. No
/// plan contains them, because [`ggml::free_memory`] does not count them as free. A bound on all memory must
/// include them.
pub const DRIVER_BYTES: usize = 448 << 20;

/// Bytes of the kernels' code, which the driver loads part by part when it is first needed: an estimate, not
/// measured yet.
pub const KERNEL_CODE_BYTES: usize = 64 << 20;

/// At least [`Backend::blocks`](ggml::Backend::blocks) of any GPU, for plans without one.
pub const ASSUMED_DEVICE_BLOCKS: usize = 4 * 192;

/// Bytes that cuBLAS takes where it multiplies: 32 MiB that ggml gives it to work in, the rest for its code. An
/// estimate, not measured yet.
pub const CUBLAS_BYTES: usize = 96 << 20;

/// Bytes allocated by others than the engine on a device that computes `chunk` tokens at a time. They are the
/// kernels' code and ggml's transient buffers. ggml first copies the activations of a matrix product into
/// these, in 8-bit blocks, 36 bytes for 32 elements. Each chosen expert has a copy of its own. Matrices that are not
/// quantised, or in IQ1_M, are multiplied by cuBLAS, with activations and results in f16; those in IQ1_M are first copied
/// in f16.
pub fn device_overhead(
    spec: &ModelSpec,
    tensors: &[TensorOutline],
    placement: Placement,
    chunk: usize,
) -> usize {
    if placement.on_device() == 0 {
        return 0;
    }
    let of_experts = spec.experts.map_or(0, |experts| {
        let n_ff = experts.width(spec.n_ff);
        (experts.used * n_ff.max(spec.n_embd)).max(experts.shared_ff.unwrap_or(0))
    });
    let of_states = spec.recurrent.as_ref().map_or(0, |layers| layers.value_dim());
    let widest = spec.n_ff.max(spec.n_embd).max(of_experts).max(of_states);
    let needs_cublas = |tensor: &TensorOutline| {
        use TensorType::{BF16, F16, F32, IQ1_M};
        tensor.dims.len() > 1
            && matches!(tensor.ty, F32 | F16 | BF16 | IQ1_M)
            && placement.of_products(&tensor.name, spec.tied_output) == Place::Device
    };
    let in_f16 = |tensor: &TensorOutline| match tensor.ty {
        TensorType::IQ1_M => tensor.dims.iter().product::<u64>() as usize * size_of::<u16>(),
        _ => 0,
    };
    let largest_copy = tensors.iter().filter(|tensor| needs_cublas(tensor)).map(in_f16).max();
    let of_products = match largest_copy {
        Some(copy) => CUBLAS_BYTES + copy + 2 * widest * size_of::<u16>() * chunk,
        None => widest / 32 * 36 * chunk,
    };
    KERNEL_CODE_BYTES + of_products
}

impl Plan {
    /// The plan for a model of the given tensors and a store of the given layout.
    pub fn new(
        spec: &ModelSpec,
        tensors: &[TensorOutline],
        layout: &Layout,
        options: &PlanOptions,
    ) -> Result<Plan, EngineError> {
        let placement = options.placement;
        let weights = Weights::unallocated(spec, tensors, options.repack, placement)?;
        let weight_bytes = weights.bytes;
        let dual_layout = weights.dual_layout_bytes.iter();
        let file_pages =
            if options.exact { dual_layout.max().copied().unwrap_or(0) } else { dual_layout.sum() };
        let forward = Forward::new(
            spec,
            weights,
            placement,
            Workers { threads: options.threads, blocks: options.blocks },
        );
        let no_memory = Buffer::no_memory().ok_or(ggml::Error::Backend("CPU"))?;
        let store = rows_without_memory(layout, &no_memory);
        let rows = |layer: usize| store[layer].clone();
        let allocator = GraphAllocator::new(&BufferType::cpu());
        let measure =
            |built: &BuiltGraph| -> Result<usize, EngineError> { Ok(allocator.measure(&built.graph()?)) };

        let chunk = options.chunk.clamp(1, layout.context);
        let prompt = options.prompt.min(layout.context).max(1);
        // Fewer tokens may take more memory: for their partial results of attention.
        let lengths = |chunk: usize| {
            let shorter = forward.max_partials_tokens(chunk).into_iter().filter(move |n| *n < chunk);
            [chunk].into_iter().chain(shorter)
        };
        // Compute buffers of each place, by decode steps and by chunks.
        let (mut decode, mut prefill) = ([0; 2], [0; 2]);
        for (place, built) in forward.model_graphs(1, OutputTokens::Last, rows) {
            decode[place as usize] = measure(&built)?;
        }
        for n in lengths(chunk) {
            for (place, built) in forward.model_graphs(n, OutputTokens::Last, rows) {
                prefill[place as usize] = measure(&built)?.max(prefill[place as usize]);
            }
        }
        let read = ChunkSizes::of_first_text(prompt, chunk, layout.reconstructs());
        let mut places = [PlaceBytes::default(); 2];
        for place in Place::ALL {
            let layers = placement.layers(place);
            let part = layout.of_layers(layers.clone());
            places[place as usize].store += part.bytes();
            if place == Place::Device {
                // The host's record of the device's rows.
                places[Place::Device as usize].store -= part.host_bytes();
                places[Place::Host as usize].store += part.host_bytes();
            }
            let columns = if options.exact { Residual::columns(read, placement, place) } else { 0 };
            places[place as usize].residual = size_of::<f32>() * spec.n_embd * columns;
            if options.exact && !layers.is_empty() {
                let ctx = Context::new(2);
                let residual = ctx.tensor(Type::F32, [spec.n_embd, columns]);
                no_memory.mark_unallocated(&residual);
                // One layer of each kind, and the last one.
                let kind = |layer: usize| {
                    let (heads, width) = (spec.kv_heads(layer), spec.network_width(layer));
                    let experts = spec.experts_of(layer).map(|_| placement.of_experts(layer));
                    (layout.state(layer).is_some(), layout.has_rows(layer), heads, width, experts)
                };
                let is_first =
                    |layer: &usize| (layers.start..*layer).all(|other| kind(other) != kind(*layer));
                let of_each_kind = layers.clone().filter(is_first);
                let last = (layers.end - 1, OutputTokens::Last);
                for (layer, needed) in of_each_kind.map(|layer| (layer, OutputTokens::All)).chain([last]) {
                    for len in lengths(chunk.min(prompt)) {
                        let rows = LayerRows::of_layer(spec, layer, |layer| {
                            rows(layer).with_reconstruction(&layout.layers[layer])
                        });
                        let graphs = forward.layer_graphs(
                            layer,
                            TextChunk { residual: &residual, from: len, to: 0, len },
                            &rows,
                            needed,
                        );
                        for (place, built) in graphs {
                            prefill[place as usize] = measure(&built)?.max(prefill[place as usize]);
                        }
                    }
                }
                places[place as usize].scratch = layout.scratch_bytes_of(layers.clone(), read.end);
            }
            if place == Place::Device {
                // Rows evicted on a device come to the host through compute buffers.
                prefill[place as usize] = prefill[place as usize].max(part.undo_row_bytes());
            }
        }
        for place in Place::ALL {
            places[place as usize].compute = decode[place as usize] + prefill[place as usize];
        }
        let [host, device] = places;
        Ok(Plan {
            weights: weight_bytes,
            file_pages,
            undo: layout.undo_bytes(),
            host,
            device,
            device_overhead: device_overhead(spec, tensors, placement, chunk),
        })
    }

    /// The peak of the host's memory.
    pub fn total(&self) -> usize {
        // Nothing is saved for undo during exact prefill.
        let temporary = self.undo.max(self.host.prefill_only());
        self.weights.on_host() + self.file_pages + self.host.store + self.host.compute + temporary
    }

    /// The peak of what the engine allocates on the device, without [`Plan::device_overhead`].
    pub fn device_allocated(&self) -> usize {
        self.weights.device + self.device.store + self.device.compute + self.device.prefill_only()
    }

    /// The peak of the device's memory, without what the driver takes ([`DRIVER_BYTES`]).
    pub(crate) fn device_total(&self) -> usize {
        self.device_allocated() + self.device_overhead
    }
}

/// The rows of a store's layers, over tensors marked as having no memory.
fn rows_without_memory(layout: &Layout, no_memory: &Buffer) -> Vec<LayerRows> {
    let tensors = layout.layers.iter().map(|lanes| LayerTensors::max_count(lanes.len())).sum();
    let ctx = Context::new(tensors);
    let of_layer = |(layer, lanes)| {
        let tensors = LayerTensors::new(&ctx, layout, layer, |tensor| no_memory.mark_unallocated(tensor));
        let rows = tensors.lanes.iter().map(|lane| &lane.graph).zip(lanes);
        LayerRows::new(rows, tensors.queries.as_ref(), tensors.state.as_ref())
    };
    layout.layers.iter().enumerate().map(of_layer).collect()
}

#[cfg(test)]
mod tests {
    use models::shapes::ModelShape;

    use super::*;

    #[test]
    fn a_copy_in_f16_is_counted_where_cublas_needs_one() {
        let spec = ModelShape::find("llama-3.2-1b").expect("a shape").spec();
        let placement = Placement::new(spec.n_layers, spec.n_layers);
        let overhead = |ty| {
            let matrix = TensorOutline { name: "blk.0.ffn_up.weight".into(), dims: vec![2048, 8192], ty };
            device_overhead(&spec, &[matrix], placement, 512)
        };
        let of_f16 = overhead(TensorType::F16);
        assert_eq!(overhead(TensorType::IQ1_M), of_f16 + 2 * 2048 * 8192);
        assert!(overhead(TensorType::Q4_0) + CUBLAS_BYTES < of_f16);
    }
}
