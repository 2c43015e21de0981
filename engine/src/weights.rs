//! A model's weights as tensors. Tensors lie in the mapped file where they can be used as they are; they are
//! copied and rearranged (*repacked*) where the CPU has a faster layout for their type.
//!
//! For most types no layout is best for everything. ggml multiplies single tokens faster with repacked
//! matrices. Many tokens are faster with those of the file: with `kernels::product`, which needs AVX2, and for K-quants
//! also with ggml. Measured with llama-3.2-1b q4_k_m on Zen 4 with 2 threads, ggml alone: tg32
//! 41.7 and 35.7 t/s, pp512 139 and 219 t/s. Such matrices have a *dual layout*: decoding uses the repacked matrix,
//! prefill the file's. After prefill the file's pages are released to the system.
//!
//! Weights that are used on a device are copied there from the mapped file. The file's pages are released during
//! the copy.

use std::sync::Arc;

use ggml::{Buffer, BufferType, Context, HostMemory, Tensor, Type};
use kernels::graph;
use models::gguf::{Blob, GgufFile, TensorInfo};
use models::spec::{InputTensors, ModelSpec, ModelTensors, TensorSpec};
use models::types::TensorType;

use crate::backends::Backends;
use crate::outline::TensorOutline;
use crate::placement::{Place, Placement};
use crate::{EngineError, Hint, key_offset};

/// Bytes of the weights, by location.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeightBytes {
    /// Used where they are in the mapped (or embedded) file.
    pub mapped: usize,
    /// Copied into a layout that the CPU multiplies faster.
    pub repacked: usize,
    /// Copied because they are not aligned in the file.
    pub copied: usize,
    /// Copied to the device.
    pub device: usize,
}

impl WeightBytes {
    /// Bytes on the host.
    pub fn on_host(&self) -> usize {
        self.mapped + self.repacked + self.copied
    }

    /// All bytes.
    pub fn total(&self) -> usize {
        self.on_host() + self.device
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
    /// Divisors of RoPE's frequencies, by [`Place`].
    pub rope_factors: [RopeFactors; 2],
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

impl RopeFactors {
    fn of(input: &InputTensors<Tensor>) -> RopeFactors {
        let (all, short, long) = (&input.rope_freqs, &input.rope_short, &input.rope_long);
        RopeFactors { all: all.clone(), short: short.clone(), long: long.clone() }
    }
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
        let placement = backends.placement();
        let mut loader = Loader::new(file, repack.then(BufferType::cpu_repacked).flatten());
        let embedding = found.input.token_embd.clone();
        let decode_layout = found.clone().try_map(|info| match placement.of_tensor(&info.name) {
            Place::Device => loader.on_device(&info),
            Place::Host => loader.on_host(&info, !is_looked_up(&info.name) && !is_of_heads(&info.name)),
        })?;
        let output = match (&decode_layout.output.matrix, placement.of_output()) {
            (Some(output), _) => output.clone(),
            (None, Place::Device) => loader.on_device(&embedding)?,
            (None, Place::Host) if loader.is_repacked(&embedding)? => loader.on_host(&embedding, true)?,
            (None, Place::Host) => decode_layout.input.token_embd.clone(),
        };
        let of_first = RopeFactors::of(&decode_layout.input);
        let mut rope_factors = [of_first.clone(), of_first];
        if (placement.of(0), placement.of_output()) == (Place::Host, Place::Device) {
            let mut copy =
                |info: &Option<TensorInfo>| info.as_ref().map(|info| loader.on_device(info)).transpose();
            let InputTensors { rope_freqs, rope_short, rope_long, .. } = &found.input;
            rope_factors[Place::Device as usize] =
                RopeFactors { all: copy(rope_freqs)?, short: copy(rope_short)?, long: copy(rope_long)? };
        }
        let mut prefill_layout = decode_layout.clone();
        let mut dual_layout = vec![Vec::new(); spec.n_layers];
        let mut dual_layout_bytes = vec![0; spec.n_layers];
        for (number, (layer, found)) in prefill_layout.layers.iter_mut().zip(&found.layers).enumerate() {
            for (tensor, info) in layer.matrices_mut().zip(found.matrices()) {
                if placement.of_tensor(&info.name) == Place::Host && loader.has_dual_layout(info)? {
                    dual_layout[number].push(info.clone());
                    dual_layout_bytes[number] += info.bytes as usize;
                    *tensor = loader.in_file(info)?.unwrap_or_else(|| tensor.clone());
                }
            }
        }
        let bytes = loader.finish(backends, progress)?;
        let key_offsets = key_offset::of_layers(spec, &decode_layout.layers, Tensor::to_vec)?;
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
    /// types; tensors that it does not name are f32. Bytes are what [`Weights::load`] would take.
    pub fn unallocated(
        spec: &ModelSpec,
        tensors: &[TensorOutline],
        repack: bool,
        placement: Placement,
    ) -> Result<Weights, EngineError> {
        let repack = repack.then(BufferType::cpu_repacked).flatten();
        let no_memory = Buffer::no_memory().ok_or(ggml::Error::Backend("CPU"))?;
        let declared = ModelTensors::declare(spec);
        let mut count = 0;
        declared.for_each(|_| count += 1);
        let context = Context::new(count + 1); // and the output matrix, if it is the embedding
        let mut bytes = WeightBytes::default();
        let mut make = |need: &TensorSpec, multiplied: bool| -> Result<Tensor, EngineError> {
            let ty = tensors.iter().find(|t| t.name == need.name).map_or(TensorType::F32, |t| t.ty);
            let (ty, shape) = (element_type(&need.name, ty)?, ggml_shape(&need.dims));
            let tensor = context.tensor(ty, shape);
            no_memory.mark_unallocated(&tensor);
            let repacked =
                multiplied && !is_of_heads(&need.name) && is_repacked(repack.as_ref(), ty, &need.dims);
            match (multiplied, placement.of_tensor(&need.name)) {
                (true, Place::Device) => bytes.device += device_bytes(&tensor),
                // The embedding is on the host; this is its copy that serves as the output matrix.
                (true, Place::Host)
                    if need.name == "token_embd.weight" && placement.of_output() == Place::Device =>
                {
                    bytes.device += device_bytes(&tensor);
                }
                _ if repacked => bytes.repacked += tensor.bytes(),
                _ => bytes.mapped += tensor.bytes(),
            }
            Ok(tensor)
        };
        let embedding = declared.input.token_embd.clone();
        let tensors = declared.clone().try_map(|need| make(&need, !is_looked_up(&need.name)))?;
        let output = match &tensors.output.matrix {
            Some(output) => output.clone(),
            None if placement.of_output() == Place::Device
                || is_repacked(repack.as_ref(), tensors.input.token_embd.ty(), &embedding.dims) =>
            {
                make(&embedding, true)?
            }
            None => tensors.input.token_embd.clone(),
        };
        let dual_bytes = |(matrix, need): (&Tensor, &TensorSpec)| {
            let dims = matrix.shape().0.map(|n| n as u64);
            let is_dual = placement.of_tensor(&need.name) == Place::Host
                && has_dual_layout(repack.as_ref(), matrix.ty(), &dims);
            if is_dual { matrix.bytes() } else { 0 }
        };
        let dual_layout_bytes = (tensors.layers.iter().zip(&declared.layers))
            .map(|(layer, needs)| layer.matrices().zip(needs.matrices()).map(dual_bytes).sum())
            .collect();
        let factors = RopeFactors::of(&tensors.input);
        let of_size = |bias: &Tensor| Ok::<_, EngineError>(vec![0.0; bias.shape().elements()]);
        let key_offsets = key_offset::of_layers(spec, &tensors.layers, of_size)?;
        Ok(Weights {
            prefill_layout: tensors.clone(),
            decode_layout: tensors,
            dual_layout: vec![Vec::new(); spec.n_layers],
            dual_layout_bytes,
            output,
            rope_factors: [factors.clone(), factors],
            key_offsets,
            bytes,
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
    outer == 1 && repack.is_some_and(|kind| kind.accepts_matrices(ty, [n_in, n_out, count]))
}

/// Whether a matrix is used in the repacked layout and in the file's layout.
fn has_dual_layout(repack: Option<&BufferType>, ty: Type, dims: &[u64]) -> bool {
    let one = dims.get(2).is_none_or(|count| *count == 1); // not one for each expert
    // ggml's own product of K-quants with many columns is faster with the file's layout, on x86-64.
    let from_file = ty.name().ends_with("_K") || one && graph::multiplies_type(ty);
    cfg!(target_arch = "x86_64") && from_file && is_repacked(repack, ty, dims)
}

/// A tensor whose bytes are still to be copied.
struct Pending {
    tensor: Tensor,
    info: TensorInfo,
    /// Whether all bytes must be written at once, because they are repacked.
    at_once: bool,
}

/// Makes tensors and collects what must be copied.
struct Loader<'a> {
    file: &'a GgufFile,
    /// A buffer over the memory of each part of the file; `None` where ggml cannot use it.
    shards: Vec<Option<Buffer>>,
    mapped: Context,
    copied: Context,
    repacked: Context,
    device: Context,
    repack: Option<BufferType>,
    /// Tensors whose bytes are copied when all tensors are known.
    pending: Vec<Pending>,
    bytes: WeightBytes,
}

impl<'a> Loader<'a> {
    fn new(file: &'a GgufFile, repack: Option<BufferType>) -> Loader<'a> {
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
            device: Context::new(capacity),
            repack,
            pending: Vec::new(),
            bytes: WeightBytes::default(),
        }
    }

    /// As the function [`is_repacked`].
    fn is_repacked(&self, info: &TensorInfo) -> Result<bool, EngineError> {
        Ok(is_repacked(self.repack.as_ref(), element_type(&info.name, info.ty)?, &info.dims))
    }

    /// As the function [`has_dual_layout`].
    fn has_dual_layout(&self, info: &TensorInfo) -> Result<bool, EngineError> {
        Ok(has_dual_layout(self.repack.as_ref(), element_type(&info.name, info.ty)?, &info.dims))
    }

    /// A tensor in the file's memory; `None` where it is not aligned there.
    fn in_file(&mut self, info: &TensorInfo) -> Result<Option<Tensor>, EngineError> {
        let Some(Some(buffer)) = self.shards.get(info.shard) else { return Ok(None) };
        let (ty, shape) = (element_type(&info.name, info.ty)?, ggml_shape(&info.dims));
        let tensor = self.mapped.tensor(ty, shape).named(&info.name);
        Ok(buffer.place(&tensor, info.offset as usize).is_ok().then_some(tensor))
    }

    /// A tensor on the host; `multiplied` tensors may be repacked.
    fn on_host(&mut self, info: &TensorInfo, multiplied: bool) -> Result<Tensor, EngineError> {
        let (ty, shape) = (element_type(&info.name, info.ty)?, ggml_shape(&info.dims));
        if multiplied && self.is_repacked(info)? {
            let tensor = self.repacked.tensor(ty, shape).named(&info.name);
            self.bytes.repacked += info.bytes as usize;
            self.pending.push(Pending { tensor: tensor.clone(), info: info.clone(), at_once: true });
            return Ok(tensor);
        }
        if let Some(tensor) = self.in_file(info)? {
            self.bytes.mapped += info.bytes as usize;
            return Ok(tensor);
        }
        let tensor = self.copied.tensor(ty, shape).named(&info.name);
        self.bytes.copied += info.bytes as usize;
        self.pending.push(Pending { tensor: tensor.clone(), info: info.clone(), at_once: false });
        Ok(tensor)
    }

    /// A tensor on the device.
    fn on_device(&mut self, info: &TensorInfo) -> Result<Tensor, EngineError> {
        let (ty, shape) = (element_type(&info.name, info.ty)?, ggml_shape(&info.dims));
        let tensor = self.device.tensor(ty, shape).named(&info.name);
        self.bytes.device += device_bytes(&tensor);
        self.pending.push(Pending { tensor: tensor.clone(), info: info.clone(), at_once: false });
        Ok(tensor)
    }

    /// Allocates the tensors that are copied, and copies them.
    fn finish(self, backends: &Backends, progress: LoadProgress) -> Result<WeightBytes, EngineError> {
        /// Bytes copied between two reports of progress.
        const COPY_CHUNK_BYTES: usize = 64 << 20;
        self.copied.allocate(&BufferType::cpu())?;
        if let Some(kind) = &self.repack {
            self.repacked.allocate(kind)?;
        }
        if backends.placement().on_device() > 0 {
            self.device.allocate(&backends.at(Place::Device).buffer_type())?;
        }
        let (mut copied, all) = (0, self.pending.iter().map(|pending| pending.tensor.bytes()).sum());
        for Pending { tensor, info, at_once } in &self.pending {
            let data = self.file.data(info);
            let chunk_bytes = if *at_once { data.len().max(1) } else { COPY_CHUNK_BYTES };
            for (number, chunk) in data.chunks(chunk_bytes).enumerate() {
                tensor.write(number * chunk_bytes, chunk)?;
                copied += chunk.len();
                progress(copied, all)?;
            }
            self.file.release_pages(info);
        }
        Ok(self.bytes)
    }
}
