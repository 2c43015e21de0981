//! What a session will allocate, in bytes, before anything is allocated.
//!
//! Store, scratch and residual stream follow from the layout, by arithmetic. Compute buffers are measured (`compute`).
//! Devices need not be present to be planned for.

mod compute;

pub(super) use compute::Measurements;
use compute::{ComputeBytes, WeightSizes};
pub use kernels::Kernels;
use kernels::prefill::groups_of;
use models::spec::ModelSpec;
use models::types::TensorType;

use crate::EngineError;
use crate::compute::forward::needs_products;
use crate::compute::row_groups;
use crate::compute::scratch::{ChunkSizes, Residual};
pub use crate::compute::weights::WeightBytes;
pub use crate::devices::placement::{PerPlace, Place, Placement};
use crate::kv::Layout;
use crate::model::outline::TensorOutline;
use crate::session::Prefill;
use crate::session::attention::ring_bytes;

/// How a session will be run.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// Whether matrices are copied into a faster layout.
    pub repack: bool,
    /// Tokens of the longest text that is read at once.
    pub prompt: usize,
    /// Tokens computed at once.
    pub chunk: usize,
    /// How the first prompt is read.
    pub prefill: Prefill,
    /// Whether it is recorded what answers attend to.
    pub record_attention: bool,
    /// How many tokens of answers are drafted at once.
    pub draft: usize,
    /// How many sessions compute their answers together.
    pub sessions: usize,
    /// Which layers are on which device.
    pub placement: Placement,
    /// The kernels of each place. A device that is not here has at most [`ASSUMED_DEVICE_BLOCKS`].
    pub kernels: PerPlace<Kernels>,
}

/// Bytes that a session allocates.
///
/// ```
/// use longhand::{Model, ModelSource, Setup, SetupOptions};
///
/// let options = SetupOptions { context: longhand::setup::Context::Tokens(1000), ..SetupOptions::default() };
/// let setup = Setup::resolve(&Model::open(ModelSource::Embedded)?, &options, 1000, &mut ())?;
/// let plan = setup.plan();
/// assert_eq!(plan.host.store, 4 * 4 * 1000 * 2 * 64 * 2); // layers, KV heads, tokens, K and V, head_dim, bytes
/// assert!(plan.total() > plan.host.store + plan.weights.total());
/// # Ok::<(), longhand::EngineError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// The memory of each device beside its weights, in the order of the layers.
    pub devices: Vec<PlaceBytes>,
}

/// Bytes that a session allocates in one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceBytes {
    /// The KV store.
    pub store: usize,
    /// One layer's complete keys and values, during exact prefill, and the means of groups of rows in sparse prefill.
    pub scratch: usize,
    /// The residual stream of the first prompt, during exact prefill; on a device only two chunks of it where
    /// [`EngineOptions::host_residual`](crate::EngineOptions::host_residual) is set.
    pub residual: usize,
    /// Compute buffers, with a share of those in which several sessions compute their answers together.
    pub compute: usize,
    /// Queries of decode steps, where it is recorded what answers attend to. They are read back every 32 steps; what is kept
    /// of an answer then takes 64 MiB of the host at most, and is not planned.
    pub recording: usize,
    /// What is allocated on a device by others than the engine, without the driver's part: see [`device_overhead`]. 0 on
    /// the host.
    pub overhead: usize,
}

impl PlaceBytes {
    /// What is allocated during exact prefill only.
    fn prefill_only(&self) -> usize {
        self.scratch + self.residual
    }

    /// What is allocated as long as the session lasts.
    pub(super) fn lasting(&self) -> usize {
        self.store + self.compute + self.recording
    }
}

/// Bytes that the driver takes on a device when a program begins to use it, as measured on an H200 with driver 580. No
/// plan contains them, because [`ggml::free_memory`] does not count them as free. A bound on all memory must
/// include them.
pub const DRIVER_BYTES: usize = 544 << 20;

/// Bytes of the kernels' code, which the driver loads part by part when it is first needed. Measured there too: 60 to 64 MiB,
/// and up to 73 with rows of four bits.
pub const KERNEL_CODE_BYTES: usize = 76 << 20;

/// At least [`Backend::blocks`](ggml::Backend::blocks) of any GPU, for plans without one.
pub const ASSUMED_DEVICE_BLOCKS: usize = 4 * 192;

/// Bytes that cuBLAS takes where it multiplies: 32 MiB that ggml gives it to work in, the rest for its code. An
/// estimate: caches that it rotated took 93 to 99 MiB more than others on an H200.
pub const CUBLAS_BYTES: usize = 96 << 20;

/// Bytes allocated by others than the engine in a place that computes `chunk` tokens at a time; 0 on the host, and without
/// layers. They are the kernels' code and ggml's transient buffers. ggml first copies the activations of a matrix product
/// into these, in 8-bit blocks, 36 bytes for 32 elements. Each chosen expert has a copy of its own. Matrices that are not
/// quantised, or in IQ1_M, are multiplied by cuBLAS, with activations and results in f16; those in IQ1_M are first copied
/// in f16. cuBLAS also rotates rows where that takes products (`rotates`).
pub fn device_overhead(
    spec: &ModelSpec,
    tensors: &[TensorOutline],
    placement: Placement,
    place: Place,
    chunk: usize,
    rotates: bool,
) -> usize {
    if !place.is_device() || placement.layers(place).is_empty() {
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
            && placement.of_products(&tensor.name, spec.tied_output) == place
    };
    let in_f16 = |tensor: &TensorOutline| match tensor.ty {
        TensorType::IQ1_M => tensor.dims.iter().product::<u64>() as usize * size_of::<u16>(),
        _ => 0,
    };
    let largest_copy = tensors.iter().filter(|tensor| needs_cublas(tensor)).map(in_f16).max();
    let of_products = match largest_copy {
        Some(copy) => CUBLAS_BYTES + copy + 2 * widest * size_of::<u16>() * chunk,
        None => widest / 32 * 36 * chunk + if rotates { CUBLAS_BYTES } else { 0 },
    };
    KERNEL_CODE_BYTES + of_products
}

impl PlanOptions {
    /// Tokens computed at once.
    fn chunk_in(&self, layout: &Layout) -> usize {
        self.chunk.clamp(1, layout.context)
    }

    /// Decode steps that are computed at once, where answers are drafted.
    fn steps_in(&self, layout: &Layout) -> usize {
        if layout.allows_steps_at_once() { self.chunk_in(layout).min(1 + self.draft) } else { 1 }
    }

    /// Whether the longest text is read with old rows in groups, where layers can.
    fn has_groups(&self, layout: &Layout) -> bool {
        self.prefill == Prefill::Sparse && groups_of(self.read_in(layout).end) > 0
    }

    /// The chunks in which the longest text is read.
    fn read_in(&self, layout: &Layout) -> ChunkSizes {
        ChunkSizes::of_first_text(self.prompt_in(layout), self.chunk_in(layout), layout.reconstructs())
    }

    /// Tokens of the longest text that is read at once.
    fn prompt_in(&self, layout: &Layout) -> usize {
        self.prompt.min(layout.context).max(1)
    }
}

impl Plan {
    /// The plan for a model of the given tensors and a store of the given layout.
    pub fn new(
        spec: &ModelSpec,
        tensors: &[TensorOutline],
        layout: &Layout,
        options: &PlanOptions,
    ) -> Result<Plan, EngineError> {
        Plan::measured(spec, tensors, layout, options, &Measurements::default())
    }

    /// The same, with what is known of graphs.
    pub(super) fn measured(
        spec: &ModelSpec,
        tensors: &[TensorOutline],
        layout: &Layout,
        options: &PlanOptions,
        known: &Measurements,
    ) -> Result<Plan, EngineError> {
        let compute = known.measured(spec, tensors, layout, options)?;
        Ok(Plan::by_arithmetic(
            spec,
            tensors,
            layout,
            options,
            &known.weights(spec, tensors, options)?,
            compute,
        ))
    }

    /// The same without graphs: compute buffers are estimated. With it comes the share by which they may differ.
    pub(super) fn estimated(
        spec: &ModelSpec,
        tensors: &[TensorOutline],
        layout: &Layout,
        options: &PlanOptions,
        known: &Measurements,
    ) -> Result<(Plan, f64), EngineError> {
        let (compute, margin) = known.estimate(spec, layout, options);
        let weights = known.weights(spec, tensors, options)?;
        Ok((Plan::by_arithmetic(spec, tensors, layout, options, &weights, compute), margin))
    }

    /// All that follows from the layout, with compute buffers of `compute` bytes.
    fn by_arithmetic(
        spec: &ModelSpec,
        tensors: &[TensorOutline],
        layout: &Layout,
        options: &PlanOptions,
        weights: &WeightSizes,
        compute: ComputeBytes,
    ) -> Plan {
        let placement = options.placement;
        let dual_layout = weights.dual_layout.iter();
        // Drafts and answers that are computed together may read the file's layout of all layers. These pages are not counted: the
        // system takes them back where memory is short.
        let file_pages = if options.prefill.is_by_layer() {
            dual_layout.max().copied().unwrap_or(0)
        } else {
            dual_layout.sum()
        };
        let (chunk, read) = (options.chunk_in(layout), options.read_in(layout));
        let rotates = needs_products(layout);
        let mut places = placement.per_place(|_| PlaceBytes::default());
        for place in placement.places() {
            let layers = placement.layers(place);
            let part = layout.of_layers(layers.clone());
            places[place].store += part.bytes();
            let mut prefill = compute.chunk[place].max(compute.layer[place]);
            if place.is_device() {
                // The host's record of the device's rows.
                places[place].store -= part.host_bytes();
                places[Place::Host].store += part.host_bytes();
                // Rows evicted on a device come to the host through compute buffers.
                prefill = prefill.max(part.undo_row_bytes());
            }
            let columns =
                if options.prefill.is_by_layer() { Residual::columns(read, placement, place) } else { 0 };
            places[place].residual = size_of::<f32>() * spec.n_embd * columns;
            if options.record_attention {
                places[place].recording = ring_bytes(spec, layers.clone());
            }
            if options.prefill.is_by_layer() && !layers.is_empty() {
                places[place].scratch = layout.scratch_bytes_of(layers, read.end);
            }
            let shared = compute.batch[place].div_ceil(options.sessions.max(1));
            places[place].compute = compute.decode[place] + prefill + shared;
            places[place].overhead = device_overhead(spec, tensors, placement, place, chunk, rotates);
        }
        if options.prefill == Prefill::Sparse {
            places[Place::Host].scratch += row_groups::bytes(spec, layout, read.end, placement);
        }
        let (devices, host) = places.into_parts();
        Plan { weights: weights.bytes.clone(), file_pages, undo: layout.undo_bytes(), host, devices }
    }

    /// The peak of the host's memory.
    pub fn total(&self) -> usize {
        // Nothing is saved for undo during exact prefill.
        let temporary = self.undo.max(self.host.prefill_only());
        self.weights.on_host() + self.file_pages + self.host.lasting() + temporary
    }

    /// Bytes of the host's memory besides the weights that a session needs when its first text is read.
    pub(super) fn lasting(&self) -> usize {
        self.host.lasting() + self.undo
    }

    /// What a session allocates beside the weights on each device, in the order of the layers, and on the host.
    pub fn places(&self) -> impl Iterator<Item = &PlaceBytes> {
        self.devices.iter().chain([&self.host])
    }

    /// The peak of what the engine allocates on a device, by its number, without [`PlaceBytes::overhead`]; 0 for one that
    /// is not planned for.
    pub fn device_allocated(&self, device: usize) -> usize {
        self.weights.devices.get(device).copied().unwrap_or(0) + self.device_session(device)
    }

    /// The same without the weights.
    pub(super) fn device_session(&self, device: usize) -> usize {
        self.devices.get(device).map_or(0, |bytes| bytes.lasting() + bytes.prefill_only())
    }

    /// The peak of a device's memory, without what the driver takes ([`DRIVER_BYTES`]).
    pub fn device_total(&self, device: usize) -> usize {
        self.device_allocated(device) + self.devices.get(device).map_or(0, |bytes| bytes.overhead)
    }
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
            device_overhead(&spec, &[matrix], placement, Place::Device(0), 512, false)
        };
        let of_f16 = overhead(TensorType::F16);
        assert_eq!(overhead(TensorType::IQ1_M), of_f16 + 2 * 2048 * 8192);
        assert!(overhead(TensorType::Q4_0) + CUBLAS_BYTES < of_f16);
    }
}
