//! A model's weights as tensors. Tensors lie in the mapped file where they can be used as they are; they are
//! copied and rearranged (*repacked*) where the CPU has a faster layout for their type.
//!
//! With AVX2 and types such as q4_K nothing is repacked but experts: `kernels::product` multiplies with few columns from the
//! file's layout, and a single token is computed as fast within a few percent. Qwen2.5 1.5B q4_k_m on Zen 3 with 2 threads, each
//! in three runs: 16.8 tokens/s with repacked matrices and 16.5 without. With AVX-512 and VNNI single tokens of q4_K, q4_0 and
//! iq4_nl are faster with repacked matrices: on Zen 5 35.2 tokens/s and 30.7.
//!
//! Elsewhere no layout is best for everything. ggml multiplies single tokens faster with repacked matrices. Many tokens are
//! faster with those of the file: with `kernels::product`, and for K-quants also with ggml. Measured with llama-3.2-1b q4_k_m
//! on Zen 4 with 2 threads, ggml alone: tg32 41.7 and 35.7 t/s, pp512 139 and 219 t/s. Such matrices have a *dual layout*:
//! single tokens use the repacked matrix, prefill the file's, and so do a few tokens at once where the kernels are faster. After
//! prefill the file's pages are released to the system.
//!
//! Weights that are used on devices are copied there from the mapped file. The file's pages are released during
//! the copy.

use std::collections::HashMap;
use std::sync::Arc;

use ggml::{Buffer, BufferType, Context, HostMemory, Tensor, Type};
use kernels::graph;
use models::gguf::{Blob, GgufFile, TensorInfo};
use models::spec::{InputTensors, ModelSpec, ModelTensors, Rope, TensorSpec};
use models::types::TensorType;

use crate::devices::backends::Backends;
use crate::devices::placement::{PerPlace, Place, Placement};
use crate::kv::key_offset;
use crate::model::outline::TensorOutline;
use crate::{EngineError, Hint};

/// Bytes of the weights, by location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WeightBytes {
    /// Used where they are in the mapped (or embedded) file.
    pub mapped: usize,
    /// Copied into a layout that the CPU multiplies faster.
    pub repacked: usize,
    /// Copied because they are not aligned in the file.
    pub copied: usize,
    /// Copied to each device, in the order of the layers.
    pub devices: Vec<usize>,
}

impl WeightBytes {
    /// No bytes, on so many devices.
    fn none(devices: usize) -> WeightBytes {
        WeightBytes { devices: vec![0; devices], ..WeightBytes::default() }
    }

    /// Counts a tensor that no file has.
    fn add_computed(&mut self, tensor: &Tensor, place: Place) {
        match place {
            Place::Device(device) => self.devices[device] += device_bytes(tensor),
            Place::Host => self.copied += tensor.bytes(),
        }
    }

    /// Bytes on the host.
    pub fn on_host(&self) -> usize {
        self.mapped + self.repacked + self.copied
    }

    /// Bytes on all devices.
    pub fn on_devices(&self) -> usize {
        self.devices.iter().sum()
    }

    /// All bytes.
    pub fn total(&self) -> usize {
        self.on_host() + self.on_devices()
    }
}

/// Called with the bytes of weights copied so far and the bytes to copy in all. An error stops the loading.
type LoadProgress<'a> = &'a mut dyn FnMut(usize, usize) -> Result<(), EngineError>;

/// The tensors of a model. Cloning copies handles.
#[derive(Clone)]
pub struct Weights {
    /// The weights in the layout that is faster for few tokens.
    pub decode_layout: ModelTensors<Tensor>,
    /// The same weights in the layout that is faster for many tokens. Equal to `decode_layout` but for
    /// matrices with a dual layout.
    pub prefill_layout: ModelTensors<Tensor>,
    /// For each layer where the matrices with a dual layout are in the file.
    dual_layout: Vec<Vec<TensorInfo>>,
    /// For each layer the bytes of these matrices in the file.
    pub dual_layout_bytes: Vec<usize>,
    /// `[n_embd, n_vocab]`: the output matrix. It may share its bytes with the token embedding.
    pub output: Tensor,
    /// Divisors of RoPE's frequencies, in each place.
    pub rope_factors: PerPlace<RopeFactors>,
    /// What the stored keys of each layer lack, `[head_dim * kv_heads]`: see `key_offset`.
    pub key_offsets: Vec<Option<Arc<[f32]>>>,
    /// Bytes, by location.
    pub bytes: WeightBytes,
}

/// `[rope.n_dims / 2]` f32: divisors of RoPE's frequencies.
#[derive(Clone)]
pub struct RopeFactors {
    /// For all contexts.
    pub all: Option<Tensor>,
    /// For contexts up to that of the original training.
    pub short: Option<Tensor>,
    /// For longer contexts.
    pub long: Option<Tensor>,
}

/// Where a tensor is, and how it lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    /// On the host, as in the file.
    Host,
    /// On the host, in a layout that the CPU multiplies faster.
    Repacked,
    /// On this device.
    Device(usize),
}

impl From<Place> for Home {
    fn from(place: Place) -> Home {
        match place {
            Place::Device(device) => Home::Device(device),
            Place::Host => Home::Host,
        }
    }
}

/// What a tensor is made from.
trait Source: Clone {
    fn name(&self) -> &str;
    fn dims(&self) -> &[u64];
}

impl Source for TensorInfo {
    fn name(&self) -> &str {
        &self.name
    }

    fn dims(&self) -> &[u64] {
        &self.dims
    }
}

impl Source for TensorSpec {
    fn name(&self) -> &str {
        &self.name
    }

    fn dims(&self) -> &[u64] {
        &self.dims
    }
}

/// Makes tensors and counts their bytes: the loader, and its counterpart for plans.
trait Maker {
    type Source: Source;

    fn ty(&self, source: &Self::Source) -> Result<Type, EngineError>;

    /// A tensor of the model.
    fn make(&mut self, source: &Self::Source, home: Home) -> Result<Tensor, EngineError>;

    /// A repacked tensor as it is in the file; `None` where it cannot be used there.
    fn in_file(&mut self, source: &Self::Source) -> Result<Option<Tensor>, EngineError>;

    /// A vector of numbers that no file has.
    fn computed(&mut self, name: &str, numbers: &[f32], place: Place) -> Tensor;
}

/// The tensors of a model before they have content.
struct Assembly<S> {
    decode_layout: ModelTensors<Tensor>,
    prefill_layout: ModelTensors<Tensor>,
    /// For each layer what the matrices with a dual layout are made from.
    dual_layout: Vec<Vec<S>>,
    dual_layout_bytes: Vec<usize>,
    output: Tensor,
    rope_factors: PerPlace<RopeFactors>,
}

/// Decides for every tensor where it goes, and has it made. All that is decided is decided here, so that what is
/// planned is what is loaded.
fn assemble<M: Maker>(
    maker: &mut M,
    spec: &ModelSpec,
    sources: &ModelTensors<M::Source>,
    repack: Option<&BufferType>,
    placement: Placement,
) -> Result<Assembly<M::Source>, EngineError> {
    let home = |maker: &M, source: &M::Source, place: Place, multiplied: bool| {
        Ok::<_, EngineError>(match place {
            Place::Host if multiplied && is_repacked(repack, maker.ty(source)?, source.dims()) => {
                Home::Repacked
            }
            place => place.into(),
        })
    };
    let decode_layout = sources.clone().try_map(|source| {
        let multiplied = !is_looked_up(source.name()) && !is_of_heads(source.name());
        let home = home(maker, &source, placement.of_tensor(source.name()), multiplied)?;
        maker.make(&source, home)
    })?;
    let output = match &decode_layout.output.matrix {
        Some(output) => output.clone(),
        None => match home(maker, &sources.input.token_embd, placement.of_output(), true)? {
            Home::Host => decode_layout.input.token_embd.clone(),
            home => maker.make(&sources.input.token_embd, home)?,
        },
    };
    let rope_factors = rope_factors(maker, spec, &sources.input, &decode_layout.input, placement)?;
    let mut prefill_layout = decode_layout.clone();
    let mut dual_layout = vec![Vec::new(); spec.n_layers];
    let mut dual_layout_bytes = vec![0; spec.n_layers];
    for (number, (layer, sources)) in prefill_layout.layers.iter_mut().zip(&sources.layers).enumerate() {
        for (tensor, source) in layer.matrices_mut().zip(sources.matrices()) {
            let is_on_host = placement.of_tensor(source.name()) == Place::Host;
            if is_on_host && has_dual_layout(repack, maker.ty(source)?, source.dims()) {
                dual_layout[number].push(source.clone());
                dual_layout_bytes[number] += tensor.bytes();
                *tensor = maker.in_file(source)?.unwrap_or_else(|| tensor.clone());
            }
        }
    }
    Ok(Assembly { decode_layout, prefill_layout, dual_layout, dual_layout_bytes, output, rope_factors })
}

/// RoPE's factors in each place that has layers. Those of the file are made already, for the first layer.
fn rope_factors<M: Maker>(
    maker: &mut M,
    spec: &ModelSpec,
    sources: &InputTensors<M::Source>,
    made: &InputTensors<Tensor>,
    placement: Placement,
) -> Result<PerPlace<RopeFactors>, EngineError> {
    let first = placement.of(0);
    let of_first = RopeFactors {
        all: made.rope_freqs.clone(),
        short: made.rope_short.clone(),
        long: made.rope_long.clone(),
    };
    let mut factors = placement.per_place(|_| of_first.clone());
    let divisors = spec.position_encoding.rope().and_then(Rope::divisors);
    for place in placement.places().filter(|place| !placement.layers(*place).is_empty()) {
        if place != first {
            let mut copy = |source: &Option<M::Source>| {
                source.as_ref().map(|source| maker.make(source, place.into())).transpose()
            };
            let InputTensors { rope_freqs, rope_short, rope_long, .. } = sources;
            factors[place] =
                RopeFactors { all: copy(rope_freqs)?, short: copy(rope_short)?, long: copy(rope_long)? };
        }
        if let Some(divisors) = &divisors {
            factors[place].all = Some(maker.computed("rope_divisors", divisors, place));
        }
    }
    Ok(factors)
}

impl Weights {
    /// Loads the tensors of `file` into the places that the backends' placement gives. With `repack`,
    /// matrices that the CPU multiplies faster in another layout are copied.
    ///
    /// # Errors
    /// Where a tensor is missing or has a type that ggml cannot compute with, where memory runs out, and
    /// those of `progress`.
    pub fn load(
        file: &GgufFile,
        spec: &ModelSpec,
        repack: bool,
        backends: &Backends,
        progress: LoadProgress,
    ) -> Result<Weights, EngineError> {
        let found = ModelTensors::from_gguf(file, spec)?;
        let repack = repack.then(BufferType::cpu_repacked).flatten();
        let mut loader = Loader::new(file, backends.placement().devices());
        let assembly = assemble(&mut loader, spec, &found, repack.as_ref(), backends.placement())?;
        let bytes = loader.finish(repack.as_ref(), backends, progress)?;
        let key_offsets = key_offset::of_layers(spec, &assembly.decode_layout.layers, Tensor::to_vec)?;
        let Assembly { decode_layout, prefill_layout, dual_layout, dual_layout_bytes, output, rope_factors } =
            assembly;
        Ok(Weights {
            decode_layout,
            prefill_layout,
            dual_layout,
            dual_layout_bytes,
            output,
            rope_factors,
            key_offsets,
            bytes,
        })
    }

    /// Releases the file's pages of a layer's matrices with a dual layout. The system reads them again when
    /// they are used.
    pub fn release(&self, file: &GgufFile, layer: usize) {
        self.dual_layout[layer].iter().for_each(|info| file.release_pages(info));
    }

    /// Tensors of the model's types and shapes without memory, for measuring graphs. `tensors` gives the
    /// types; tensors that it does not name are f32. Bytes are what [`Weights::load`] would take of an aligned file.
    pub fn unallocated(
        spec: &ModelSpec,
        tensors: &[TensorOutline],
        repack: bool,
        placement: Placement,
    ) -> Result<Weights, EngineError> {
        let repack = repack.then(BufferType::cpu_repacked).flatten();
        let declared = ModelTensors::declare(spec);
        let mut outliner = Outliner::new(&declared, tensors, placement.devices())?;
        let assembly = assemble(&mut outliner, spec, &declared, repack.as_ref(), placement)?;
        let Assembly { decode_layout, prefill_layout, dual_layout_bytes, output, rope_factors, .. } =
            assembly;
        let of_size = |bias: &Tensor| Ok::<_, EngineError>(vec![0.0; bias.shape().elements()]);
        let key_offsets = key_offset::of_layers(spec, &decode_layout.layers, of_size)?;
        Ok(Weights {
            decode_layout,
            prefill_layout,
            dual_layout: vec![Vec::new(); spec.n_layers],
            dual_layout_bytes,
            output,
            rope_factors,
            key_offsets,
            bytes: outliner.bytes,
        })
    }
}

/// Whether rows of a tensor are looked up. Such tensors keep the file's layout.
fn is_looked_up(name: &str) -> bool {
    matches!(name, "token_embd.weight" | "position_embd.weight" | "per_layer_token_embd.weight")
}

/// Whether a tensor has a matrix for each head (latent attention). ggml multiplies these in the file's layout only.
fn is_of_heads(name: &str) -> bool {
    name.ends_with(".attn_k_b.weight") || name.ends_with(".attn_v_b.weight")
}

/// The type of a tensor in ggml; an error where this version of ggml does not have it.
fn element_type(name: &str, ty: TensorType) -> Result<Type, EngineError> {
    Type::from_id(ty.id()).ok_or_else(|| EngineError::Setting {
        what: format!("tensor `{name}`"),
        reason: format!("ggml {} cannot compute with type {}", ggml::version(), ty.name()),
        hint: Hint::OtherTensorType { cpu_can: false },
    })
}

/// Bytes that a tensor takes on a device. The last row of a block type is padded to a multiple of 512
/// elements, because the kernels read that far. Tensors begin at multiples of 128 bytes.
fn device_bytes(tensor: &Tensor) -> usize {
    const ROW_ELEMENTS: usize = 512;
    const ALIGNMENT: usize = 128;
    let ty = tensor.ty();
    let padding = match ty.block_elements() {
        1 => 0,
        block => (tensor.dim(0).next_multiple_of(ROW_ELEMENTS) - tensor.dim(0)) / block * ty.block_bytes(),
    };
    (tensor.bytes() + padding).next_multiple_of(ALIGNMENT)
}

/// A shape as ggml takes it: four dimensions.
fn ggml_shape(dims: &[u64]) -> [usize; 4] {
    let mut shape = [1usize; 4];
    for (to, from) in shape.iter_mut().zip(dims) {
        *to = *from as usize;
    }
    shape
}

/// Whether a matrix, or the matrices of experts, are copied into a layout that the CPU multiplies faster.
fn is_repacked(repack: Option<&BufferType>, ty: Type, dims: &[u64]) -> bool {
    let [_, _, ..] = dims else { return false };
    let [n_in, n_out, count, outer] = ggml_shape(dims);
    // Those of experts are multiplied by ggml.
    let is_ours = count == 1 && graph::multiplies_few(ty);
    outer == 1 && !is_ours && repack.is_some_and(|kind| kind.accepts_matrices(ty, [n_in, n_out, count]))
}

/// Whether a matrix is used in the repacked layout and in the file's layout.
fn has_dual_layout(repack: Option<&BufferType>, ty: Type, dims: &[u64]) -> bool {
    let one = dims.get(2).is_none_or(|count| *count == 1); // not one for each expert
    // ggml's own product of K-quants with many columns is faster with the file's layout, on x86-64.
    let from_file = ty.name().ends_with("_K") || one && graph::multiplies_many(ty);
    cfg!(target_arch = "x86_64") && from_file && is_repacked(repack, ty, dims)
}

/// Makes tensors without memory.
struct Outliner<'a> {
    context: Context,
    no_memory: Buffer,
    types: HashMap<&'a str, TensorType>,
    bytes: WeightBytes,
}

impl<'a> Outliner<'a> {
    fn new(
        declared: &ModelTensors<TensorSpec>,
        tensors: &'a [TensorOutline],
        devices: usize,
    ) -> Result<Outliner<'a>, EngineError> {
        let mut count = 0;
        declared.for_each(|_| count += 1);
        Ok(Outliner {
            // And the output matrix, if it is the embedding, with RoPE's factors in other places.
            context: Context::new(count + 4 * (devices + 1)),
            no_memory: Buffer::no_memory().ok_or(ggml::Error::Backend("CPU"))?,
            types: tensors.iter().map(|tensor| (&*tensor.name, tensor.ty)).collect(),
            bytes: WeightBytes::none(devices),
        })
    }

    fn unallocated(&self, ty: Type, dims: &[u64]) -> Tensor {
        let tensor = self.context.tensor(ty, ggml_shape(dims));
        self.no_memory.mark_unallocated(&tensor);
        tensor
    }
}

impl Maker for Outliner<'_> {
    type Source = TensorSpec;

    fn ty(&self, source: &TensorSpec) -> Result<Type, EngineError> {
        element_type(&source.name, self.types.get(&*source.name).copied().unwrap_or(TensorType::F32))
    }

    fn make(&mut self, source: &TensorSpec, home: Home) -> Result<Tensor, EngineError> {
        let tensor = self.unallocated(self.ty(source)?, &source.dims);
        match home {
            Home::Host => self.bytes.mapped += tensor.bytes(),
            Home::Repacked => self.bytes.repacked += tensor.bytes(),
            Home::Device(device) => self.bytes.devices[device] += device_bytes(&tensor),
        }
        Ok(tensor)
    }

    fn in_file(&mut self, _: &TensorSpec) -> Result<Option<Tensor>, EngineError> {
        Ok(None)
    }

    fn computed(&mut self, _: &str, numbers: &[f32], place: Place) -> Tensor {
        let tensor = self.unallocated(Type::F32, &[numbers.len() as u64]);
        self.bytes.add_computed(&tensor, place);
        tensor
    }
}

/// A tensor whose bytes are still to be copied.
struct Pending {
    tensor: Tensor,
    content: Content,
}

/// The bytes of a tensor.
enum Content {
    /// Those of the file. All must be written at once where they are repacked.
    File {
        info: TensorInfo,
        at_once: bool,
    },
    Computed(Vec<f32>),
}

/// Makes tensors and collects what must be copied.
struct Loader<'a> {
    file: &'a GgufFile,
    /// A buffer over the memory of each part of the file; `None` where ggml cannot use it.
    shards: Vec<Option<Buffer>>,
    mapped: Context,
    copied: Context,
    repacked: Context,
    devices: Vec<Context>,
    /// Tensors whose bytes are copied when all tensors are known.
    pending: Vec<Pending>,
    bytes: WeightBytes,
}

impl<'a> Loader<'a> {
    fn new(file: &'a GgufFile, devices: usize) -> Loader<'a> {
        // Fused tensors are several, and matrices with a dual layout are there twice.
        let capacity = 4 * file.tensors().len() + 8;
        let shards = (0..file.shards())
            .map(|i| {
                let memory = match file.shard(i)? {
                    Blob::Mapped(file) => HostMemory::Owned(file.clone()),
                    Blob::Static(bytes) => HostMemory::Static(bytes),
                    Blob::Owned(bytes) => HostMemory::Owned(bytes.clone()),
                };
                Buffer::over(memory)
            })
            .collect();
        Loader {
            file,
            shards,
            mapped: Context::new(capacity),
            copied: Context::new(capacity),
            repacked: Context::new(capacity),
            devices: (0..devices).map(|_| Context::new(capacity)).collect(),
            pending: Vec::new(),
            bytes: WeightBytes::none(devices),
        }
    }

    /// Allocates the tensors that are copied, and copies them.
    fn finish(
        self,
        repack: Option<&BufferType>,
        backends: &Backends,
        progress: LoadProgress,
    ) -> Result<WeightBytes, EngineError> {
        /// Bytes copied between two reports of progress.
        const COPY_CHUNK_BYTES: usize = 64 << 20;
        self.copied.allocate(&BufferType::cpu())?;
        if let Some(kind) = repack {
            self.repacked.allocate(kind)?;
        }
        for (device, context) in self.devices.iter().enumerate() {
            let place = Place::Device(device);
            if !backends.placement().layers(place).is_empty() {
                context.allocate(&backends.at(place).buffer_type())?;
            }
        }
        let (mut copied, all) = (0, self.pending.iter().map(|pending| pending.tensor.bytes()).sum());
        for Pending { tensor, content } in &self.pending {
            match content {
                Content::Computed(numbers) => {
                    tensor.write(0, numbers)?;
                    copied += tensor.bytes();
                    progress(copied, all)?;
                }
                Content::File { info, at_once } => {
                    let data = self.file.data(info);
                    let chunk_bytes = if *at_once { data.len().max(1) } else { COPY_CHUNK_BYTES };
                    for (number, chunk) in data.chunks(chunk_bytes).enumerate() {
                        tensor.write(number * chunk_bytes, chunk)?;
                        copied += chunk.len();
                        progress(copied, all)?;
                    }
                    self.file.release_pages(info);
                }
            }
        }
        Ok(self.bytes)
    }

    /// Where tensors are described that are copied there.
    fn context(&self, home: Home) -> &Context {
        match home {
            Home::Host => &self.copied,
            Home::Repacked => &self.repacked,
            Home::Device(device) => &self.devices[device],
        }
    }
}

impl Maker for Loader<'_> {
    type Source = TensorInfo;

    fn ty(&self, info: &TensorInfo) -> Result<Type, EngineError> {
        element_type(&info.name, info.ty)
    }

    fn make(&mut self, info: &TensorInfo, home: Home) -> Result<Tensor, EngineError> {
        if home == Home::Host
            && let Some(tensor) = self.in_file(info)?
        {
            self.bytes.mapped += info.bytes as usize;
            return Ok(tensor);
        }
        let tensor = self.context(home).tensor(self.ty(info)?, ggml_shape(&info.dims)).named(&info.name);
        match home {
            Home::Host => self.bytes.copied += info.bytes as usize,
            Home::Repacked => self.bytes.repacked += info.bytes as usize,
            Home::Device(device) => self.bytes.devices[device] += device_bytes(&tensor),
        }
        let content = Content::File { info: info.clone(), at_once: home == Home::Repacked };
        self.pending.push(Pending { tensor: tensor.clone(), content });
        Ok(tensor)
    }

    fn in_file(&mut self, info: &TensorInfo) -> Result<Option<Tensor>, EngineError> {
        let Some(Some(buffer)) = self.shards.get(info.shard) else { return Ok(None) };
        let tensor = self.mapped.tensor(self.ty(info)?, ggml_shape(&info.dims)).named(&info.name);
        Ok(buffer.place(&tensor, info.offset as usize).is_ok().then_some(tensor))
    }

    fn computed(&mut self, name: &str, numbers: &[f32], place: Place) -> Tensor {
        let context = self.context(place.into());
        let tensor = context.tensor(Type::F32, ggml_shape(&[numbers.len() as u64])).named(name);
        self.bytes.add_computed(&tensor, place);
        let content = Content::Computed(numbers.to_vec());
        self.pending.push(Pending { tensor: tensor.clone(), content });
        tensor
    }
}
