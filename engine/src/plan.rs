//! What a session will take, in bytes, before anything is allocated.
//!
//! Store, scratch and residual stream follow from the layout. Compute buffers are measured: the same graphs are built over
//! tensors without memory and ggml's allocator says what their intermediates need. A device need not be there to be planned for.

use crate::forward::{BuiltGraph, Forward, OutputTokens, TextChunk, Workers};
use crate::kv::{LayerRows, Layout, Observer, Watched};
use crate::placement::{Place, Placement};
use crate::{EngineError, WeightBytes, Weights};
use ggml::{Buffer, BufferType, Context, GraphAllocator, Tensor, Type};
use kernels::graph::GraphLane;
use models::gguf::GgufFile;
use models::spec::ModelSpec;
use models::types::TensorType;

/// A tensor of a model as far as memory is concerned.
#[derive(Clone, Debug)]
pub struct TensorOutline {
    /// Name in the file.
    pub name: String,
    /// Extents in ggml's order.
    pub dims: Vec<u64>,
    /// Element type.
    pub ty: TensorType,
}

/// The tensors of a file.
pub fn outline(file: &GgufFile) -> Vec<TensorOutline> {
    let tensors = file.tensors().iter();
    tensors.map(|t| TensorOutline { name: t.name.clone(), dims: t.dims.clone(), ty: t.ty }).collect()
}

/// How a session will be run.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions {
    /// Whether matrices are copied into a faster layout.
    pub repack: bool,
    /// Tokens of the longest text that is read at once.
    pub prompt: usize,
    /// Tokens computed at once.
    pub chunk: usize,
    /// Whether the first text is read layer by layer.
    pub exact: bool,
    /// Threads.
    pub threads: usize,
    /// How many of the last layers are on a device.
    pub on_device: usize,
    /// What attention is split into on the device: its [`Backend::blocks`](ggml::Backend::blocks), or [`BLOCKS`] for one that is not there.
    pub blocks: usize,
}

/// Bytes that a session takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Weights, by place.
    pub weights: WeightBytes,
    /// Pages of the file with matrices that are there in another layout too, while a text is read: one layer's if it is read
    /// layer by layer, else all of them (as in a later turn of many tokens). They go back to the system afterwards.
    pub file_pages: usize,
    /// What is kept aside on the host so that a turn can be taken back.
    pub aside: usize,
    /// The host's memory beside these.
    pub host: PlaceBytes,
    /// The device's memory beside its weights.
    pub device: PlaceBytes,
    /// What is taken on the device besides, but for the driver's part: see [`device_overhead`].
    pub device_overhead: usize,
}

/// Bytes that a session takes in one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceBytes {
    /// The KV store.
    pub store: usize,
    /// One layer's complete keys and values, while the first text is read.
    pub scratch: usize,
    /// The residual stream of the first text, while it is read.
    pub residual: usize,
    /// Compute buffers.
    pub compute: usize,
}

impl PlaceBytes {
    /// What is there while the first text is read only.
    fn passing(&self) -> usize {
        self.scratch + self.residual
    }
}

/// Bytes that the driver takes on a device when a program begins to use it: an estimate, not measured yet. No plan contains them,
/// because what is free according to [`ggml::free_memory`] is so beside them; a bound on everything has to hold them too.
pub const DRIVER: usize = 448 << 20;

/// Bytes of the kernels' code, of which the driver loads each part when it is first needed: an estimate, not measured yet.
pub const CODE: usize = 64 << 20;

/// At least [`Backend::blocks`](ggml::Backend::blocks) of any GPU, for plans without one.
pub const BLOCKS: usize = 4 * 192;

/// Bytes that are taken on a device that computes `chunk` tokens at a time although nobody here allocates them: the kernels' code,
/// and ggml's transient buffers, into which it copies the activations of a matrix product in 8-bit blocks first, of 36 bytes for 32
/// elements.
pub fn device_overhead(spec: &ModelSpec, chunk: usize) -> usize {
    CODE + spec.n_ff.max(spec.n_embd) / 32 * 36 * chunk
}

impl Plan {
    /// The plan for a model of the given tensors and a store of the given layout.
    pub fn new(
        spec: &ModelSpec,
        tensors: &[TensorOutline],
        layout: &Layout,
        options: &PlanOptions,
    ) -> Result<Plan, EngineError> {
        let placement = Placement::new(spec.n_layers, options.on_device);
        let weights = Weights::unallocated(spec, tensors, options.repack, placement)?;
        let bytes = weights.bytes;
        let dual_layout = weights.dual_layout_bytes.iter();
        let file_pages =
            if options.exact { dual_layout.max().copied().unwrap_or(0) } else { dual_layout.sum() };
        let workers = Workers { threads: options.threads, blocks: options.blocks };
        let forward = Forward::new(spec, weights, placement, workers);
        let lanes = Lanes::new(layout)?;
        let allocator = GraphAllocator::new(&BufferType::cpu());
        let measure =
            |built: &BuiltGraph| -> Result<usize, EngineError> { Ok(allocator.measure(&built.graph()?)) };

        let chunk = options.chunk.clamp(1, layout.context);
        let prompt = options.prompt.min(layout.context).max(1);
        let mut most = [[0; 2]; 2];
        // Fewer tokens may take more memory: for their partial results of attention.
        let lengths = |chunk| [Some(chunk), forward.max_partials_tokens(chunk).filter(|n| *n < chunk)];
        for (what, n) in [(0, 1)].into_iter().chain(lengths(chunk).into_iter().flatten().map(|n| (1, n))) {
            for (place, built) in forward.model_graphs(n, OutputTokens::Last, |layer| lanes.of(layer)) {
                let most: &mut usize = &mut most[what][place as usize];
                *most = measure(&built)?.max(*most);
            }
        }
        let [decode, mut reading] = most;
        let mut places = [PlaceBytes::default(); 2];
        for place in Place::ALL {
            let layers = placement.layers(place);
            let part = layout.part(layers.clone());
            let mut bytes = PlaceBytes { store: part.bytes(), ..PlaceBytes::default() };
            if place == Place::Device {
                // The host has come before.
                bytes.store -= part.host_bytes();
                places[Place::Host as usize].store += part.host_bytes();
            }
            if options.exact && !layers.is_empty() {
                let ctx = Context::new(2);
                let stream = ctx.tensor(Type::F32, [spec.n_embd, prompt]);
                lanes.nowhere.mark_unallocated(&stream);
                for (layer, needed) in
                    [(layers.start, OutputTokens::All), (layers.end - 1, OutputTokens::Last)]
                {
                    for len in lengths(chunk.min(prompt)).into_iter().flatten() {
                        let chunk = TextChunk { residual: &stream, first: 0, len };
                        let built = forward.layer_graph(layer, chunk, &lanes.of(layer), needed);
                        reading[place as usize] = reading[place as usize].max(measure(&built)?);
                    }
                }
                bytes.scratch = part.scratch_bytes(prompt);
                bytes.residual = 4 * spec.n_embd * prompt;
            }
            // Rows that leave a device are handed over through compute buffers; the host has room for them beside those.
            let leaving = if place == Place::Device { part.aside_bytes() } else { 0 };
            bytes.compute = decode[place as usize] + reading[place as usize].max(leaving);
            places[place as usize] = bytes;
        }
        let [host, device] = places;
        let overhead = if placement.on_device() > 0 { device_overhead(spec, chunk) } else { 0 };
        Ok(Plan {
            weights: bytes,
            file_pages,
            aside: layout.aside_bytes(),
            host,
            device,
            device_overhead: overhead,
        })
    }

    /// All on the host together: the peak.
    pub fn total(&self) -> usize {
        // Nothing is kept aside while the first text is read.
        let passing = self.aside.max(self.host.passing());
        self.weights.on_host() + self.file_pages + self.host.store + self.host.compute + passing
    }

    /// All that is allocated on the device: the peak, without [`Plan::device_overhead`].
    pub fn device_allocated(&self) -> usize {
        self.weights.device + self.device.store + self.device.compute + self.device.passing()
    }

    /// The peak of the device's memory, beside what the driver takes ([`DRIVER`]).
    pub fn device_total(&self) -> usize {
        self.device_allocated() + self.device_overhead
    }
}

/// Lanes without memory.
struct Lanes {
    layers: Vec<LayerRows>,
    nowhere: Buffer,
}

impl Lanes {
    fn new(layout: &Layout) -> Result<Lanes, EngineError> {
        let nowhere = Buffer::no_memory().ok_or(ggml::Error::Backend("CPU"))?;
        let ctx = Context::new(layout.layers.iter().map(|lanes| 4 * lanes.len() + 1).sum::<usize>() + 1);
        let heads = layout.heads;
        let pretend = |tensor: Tensor| {
            nowhere.mark_unallocated(&tensor);
            tensor
        };
        let layers = layout.layers.iter().enumerate().map(|(layer, lanes)| {
            let places = layout.row_positions(&ctx, lanes);
            let graph: Vec<GraphLane> = (lanes.iter().zip(places))
                .map(|(lane, positions)| {
                    if let Some(positions) = &positions {
                        nowhere.mark_unallocated(&positions.all);
                    }
                    let n = lane.kv_heads.len();
                    let rows = |ty| pretend(ctx.tensor(ty, [heads.head_dim, lane.capacity, n]));
                    let gathers = lane.needs().gathered.is_some();
                    GraphLane {
                        k: rows(layout.k_type),
                        v: rows(layout.v_type),
                        kv_heads: lane.kv_heads.as_slice().into(),
                        compensated: lane.compensated,
                        accumulated: gathers.then(|| pretend(ctx.tensor(Type::F32, [lane.capacity, n]))),
                        positions,
                    }
                })
                .collect();
            let queries = layout.queries(layer);
            let n_heads = heads.n_kv_heads * heads.group;
            let watched = lanes.iter().zip(&graph).enumerate().find_map(|(number, (layout, rows))| {
                let heads = (0..layout.kv_heads.len() as u32).collect();
                Some(Watched { rows: rows.clone(), number, heads, gathered: layout.needs().gathered? })
            });
            let observer = Observer {
                queries: (queries > 0)
                    .then(|| pretend(ctx.tensor(Type::F32, [heads.head_dim, n_heads, queries]))),
                watched,
            };
            LayerRows { lanes: graph, observers: vec![observer] }
        });
        Ok(Lanes { layers: layers.collect(), nowhere })
    }

    fn of(&self, layer: usize) -> LayerRows {
        self.layers[layer].clone()
    }
}
