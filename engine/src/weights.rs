//! A model's weights as tensors: over the mapped file where they can be used as they lie there, copied and rearranged
//! (*repacked*) where the CPU has a faster layout for their type.
//!
//! For K-quants neither layout is best for everything: ggml multiplies single tokens faster with repacked matrices and many
//! tokens faster with those of the file (measured on Zen 4, llama-3.2-1b q4_k_m, 2 threads: tg32 41.7 and 35.7 t/s, pp512
//! 139 and 219 t/s). So both are used; the file's pages are given back to the system when a text has been read.

use crate::EngineError;
use crate::plan::TensorOutline;
use ggml::{Buffer, BufferType, Context, HostMemory, Tensor, Type};
use models::gguf::{Blob, GgufFile, TensorInfo};
use models::spec::{ModelSpec, ModelTensors, TensorNeed};
use models::types::TensorType;

/// Where the bytes of the weights are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeightBytes {
    /// Used in the mapped (or embedded) file.
    pub mapped: usize,
    /// Copied into a layout of the CPU's own.
    pub repacked: usize,
    /// Copied because the file does not align them.
    pub copied: usize,
}

impl WeightBytes {
    /// All together.
    pub fn total(&self) -> usize {
        self.mapped + self.repacked + self.copied
    }
}

/// The tensors of a model, with memory.
pub struct Weights {
    /// For few tokens at a time.
    pub narrow: ModelTensors<Tensor>,
    /// For many tokens at a time: the same weights, but for their layout.
    pub wide: ModelTensors<Tensor>,
    /// Per layer the tensors (by number in the file) that are used in two layouts.
    twice: Vec<Vec<usize>>,
    /// Per layer the bytes of these in the file.
    pub twice_bytes: Vec<usize>,
    /// `[n_embd, n_vocab]`: the output matrix, which may share its bytes with the token embedding.
    pub output: Tensor,
    /// Where the bytes are.
    pub bytes: WeightBytes,
}

impl Weights {
    /// Makes the tensors of `file`. With `repack`, matrices that the CPU multiplies faster in another layout are copied.
    pub fn load(file: &GgufFile, spec: &ModelSpec, repack: bool) -> Result<Weights, EngineError> {
        let found = ModelTensors::from_gguf(file, spec)?;
        let mut loader = Loader::new(file, repack.then(BufferType::cpu_repacked).flatten());
        let embedding = found.token_embd;
        let mut first = true;
        let narrow = found.clone().try_map(|index| {
            // The embedding is looked up in, not multiplied with: it stays as it lies in the file.
            let lookup = std::mem::take(&mut first) && index == embedding;
            loader.tensor(&file.tensors()[index], !lookup)
        })?;
        let output = match &narrow.output {
            Some(output) => output.clone(),
            None if loader.repacked(&file.tensors()[embedding])? => {
                loader.tensor(&file.tensors()[embedding], true)?
            }
            None => narrow.token_embd.clone(),
        };
        let mut twice = vec![Vec::new(); spec.n_layers];
        for (layer, tensors) in found.layers.iter().enumerate() {
            for index in tensors.matrices() {
                if loader.is_twice(&file.tensors()[*index])? {
                    twice[layer].push(*index);
                }
            }
        }
        let bytes_of = |layer: &Vec<usize>| layer.iter().map(|i| file.tensors()[*i].bytes as usize).sum();
        let twice_bytes = twice.iter().map(bytes_of).collect();
        let mut wide = narrow.clone();
        for (layer, found) in wide.layers.iter_mut().zip(&found.layers) {
            for (tensor, index) in [
                (&mut layer.wq, found.wq),
                (&mut layer.wk, found.wk),
                (&mut layer.wv, found.wv),
                (&mut layer.wo, found.wo),
                (&mut layer.ffn_gate, found.ffn_gate),
                (&mut layer.ffn_up, found.ffn_up),
                (&mut layer.ffn_down, found.ffn_down),
            ] {
                let info = &file.tensors()[index];
                if loader.is_twice(info)? {
                    *tensor = loader.in_place(info)?.unwrap_or_else(|| tensor.clone());
                }
            }
        }
        let bytes = loader.finish()?;
        Ok(Weights { narrow, wide, twice, twice_bytes, output, bytes })
    }

    /// Lets the system take back the file's pages of a layer whose weights are also there in another layout.
    pub fn release(&self, file: &GgufFile, layer: usize) {
        self.twice[layer].iter().for_each(|index| file.forget(&file.tensors()[*index]));
    }
}

impl Weights {
    /// Tensors of the same types and shapes that have no memory, for measuring graphs.
    pub fn pretend(
        spec: &ModelSpec,
        tensors: &[TensorOutline],
        repack: bool,
    ) -> Result<Weights, EngineError> {
        let repack = repack.then(BufferType::cpu_repacked).flatten();
        let nowhere = Buffer::empty().ok_or(ggml::Error::Backend("CPU"))?;
        let context = Context::new(tensors.len() + 2);
        let mut bytes = WeightBytes::default();
        let mut make = |need: &TensorNeed, multiplied: bool| -> Result<Tensor, EngineError> {
            let ty = tensors.iter().find(|t| t.name == need.name).map_or(TensorType::F32, |t| t.ty);
            let (ty, shape) = (element_type(&need.name, ty)?, extents(&need.dims));
            let tensor = context.tensor(ty, shape);
            nowhere.pretend(&tensor);
            let repacked = multiplied && is_repacked(repack.as_ref(), ty, &need.dims);
            *(if repacked { &mut bytes.repacked } else { &mut bytes.mapped }) += tensor.bytes();
            Ok(tensor)
        };
        let declared = ModelTensors::declare(spec);
        let embedding = declared.token_embd.clone();
        let tensors = declared.try_map(|need| make(&need, need.name != embedding.name))?;
        let output = match &tensors.output {
            Some(output) => output.clone(),
            None if is_repacked(repack.as_ref(), tensors.token_embd.ty(), &embedding.dims) => {
                make(&embedding, true)?
            }
            None => tensors.token_embd.clone(),
        };
        let bytes_twice = |matrix: &&Tensor| {
            let dims = [matrix.dim(0) as u64, matrix.dim(1) as u64];
            if is_twice(repack.as_ref(), matrix.ty(), &dims) { matrix.bytes() } else { 0 }
        };
        let twice_bytes =
            tensors.layers.iter().map(|layer| layer.matrices().iter().map(bytes_twice).sum()).collect();
        let twice = vec![Vec::new(); spec.n_layers];
        Ok(Weights { wide: tensors.clone(), narrow: tensors, twice, twice_bytes, output, bytes })
    }
}

fn element_type(name: &str, ty: TensorType) -> Result<Type, EngineError> {
    Type::from_id(ty.id()).ok_or_else(|| EngineError::Setting {
        what: format!("tensor `{name}`"),
        reason: format!("ggml {} cannot compute with type {}", ggml::version(), ty.name()),
        hint: "use a file quantised to another type".into(),
    })
}

fn extents(dims: &[u64]) -> [usize; 4] {
    let mut shape = [1usize; 4];
    for (to, from) in shape.iter_mut().zip(dims) {
        *to = *from as usize;
    }
    shape
}

/// Whether a matrix is copied into the CPU's own layout.
fn is_repacked(repack: Option<&BufferType>, ty: Type, dims: &[u64]) -> bool {
    let [n_in, n_out] = dims else { return false };
    repack.is_some_and(|kind| kind.accepts_matrix(ty, *n_in as usize, *n_out as usize))
}

/// Whether a matrix is wanted in the file's layout too.
fn is_twice(repack: Option<&BufferType>, ty: Type, dims: &[u64]) -> bool {
    cfg!(target_arch = "x86_64") && ty.name().ends_with("_K") && is_repacked(repack, ty, dims)
}

struct Loader<'a> {
    file: &'a GgufFile,
    shards: Vec<Option<Buffer>>,
    mapped: Context,
    copied: Context,
    repacked: Context,
    repack: Option<BufferType>,
    /// Tensors whose bytes are copied once all are known.
    pending: Vec<(Tensor, TensorInfo)>,
    bytes: WeightBytes,
}

impl<'a> Loader<'a> {
    fn new(file: &'a GgufFile, repack: Option<BufferType>) -> Loader<'a> {
        let capacity = 2 * file.tensors().len() + 2;
        let shards = (0..file.shards())
            .map(|i| {
                let memory = match file.shard(i)? {
                    Blob::Mapped(map) => HostMemory::Mapped(map.clone()),
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
            repack,
            pending: Vec::new(),
            bytes: WeightBytes::default(),
        }
    }

    /// Whether a matrix would be repacked.
    fn repacked(&self, info: &TensorInfo) -> Result<bool, EngineError> {
        Ok(is_repacked(self.repack.as_ref(), element_type(&info.name, info.ty)?, &info.dims))
    }

    /// As [`is_twice`].
    fn is_twice(&self, info: &TensorInfo) -> Result<bool, EngineError> {
        Ok(is_twice(self.repack.as_ref(), element_type(&info.name, info.ty)?, &info.dims))
    }

    /// A tensor over the file, if it is aligned there.
    fn in_place(&mut self, info: &TensorInfo) -> Result<Option<Tensor>, EngineError> {
        let Some(Some(buffer)) = self.shards.get(info.shard) else { return Ok(None) };
        let (ty, shape) = (element_type(&info.name, info.ty)?, extents(&info.dims));
        let tensor = self.mapped.tensor(ty, shape).named(&info.name);
        Ok(buffer.place(&tensor, info.offset as usize).is_ok().then_some(tensor))
    }

    fn tensor(&mut self, info: &TensorInfo, multiplied: bool) -> Result<Tensor, EngineError> {
        let (ty, shape) = (element_type(&info.name, info.ty)?, extents(&info.dims));
        if multiplied && self.repacked(info)? {
            let tensor = self.repacked.tensor(ty, shape).named(&info.name);
            self.bytes.repacked += info.bytes as usize;
            self.pending.push((tensor.clone(), info.clone()));
            return Ok(tensor);
        }
        if let Some(tensor) = self.in_place(info)? {
            self.bytes.mapped += info.bytes as usize;
            return Ok(tensor);
        }
        let tensor = self.copied.tensor(ty, shape).named(&info.name);
        self.bytes.copied += info.bytes as usize;
        self.pending.push((tensor.clone(), info.clone()));
        Ok(tensor)
    }

    fn finish(self) -> Result<WeightBytes, EngineError> {
        self.copied.allocate(&BufferType::cpu())?;
        if let Some(kind) = &self.repack {
            self.repacked.allocate(kind)?;
        }
        for (tensor, info) in &self.pending {
            tensor.write(0, self.file.data(info))?;
            self.file.forget(info);
        }
        Ok(self.bytes)
    }
}
