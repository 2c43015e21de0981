//! A model's weights as tensors: over the mapped file where they can be used as they lie there, copied and rearranged
//! (*repacked*) where the CPU has a faster layout for their type.

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
    /// In the places the architecture gives them.
    pub tensors: ModelTensors<Tensor>,
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
        let output = found.output;
        let mut first = true;
        let tensors = found.try_map(|index| {
            // The embedding is looked up in, not multiplied with: it stays as it lies in the file.
            let lookup = std::mem::take(&mut first) && index == embedding;
            loader.tensor(&file.tensors()[index], !lookup)
        })?;
        let output = match (&tensors.output, output) {
            (Some(output), Some(_)) => output.clone(),
            _ => match loader.repacked(&file.tensors()[embedding])? {
                true => loader.tensor(&file.tensors()[embedding], true)?,
                false => tensors.token_embd.clone(),
            },
        };
        let bytes = loader.finish()?;
        Ok(Weights { tensors, output, bytes })
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
        Ok(Weights { tensors, output, bytes })
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
        let capacity = file.tensors().len() + 1;
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

    fn tensor(&mut self, info: &TensorInfo, multiplied: bool) -> Result<Tensor, EngineError> {
        let (ty, shape) = (element_type(&info.name, info.ty)?, extents(&info.dims));
        if multiplied && self.repacked(info)? {
            let tensor = self.repacked.tensor(ty, shape).named(&info.name);
            self.bytes.repacked += info.bytes as usize;
            self.pending.push((tensor.clone(), info.clone()));
            return Ok(tensor);
        }
        if let Some(Some(buffer)) = self.shards.get(info.shard) {
            let tensor = self.mapped.tensor(ty, shape).named(&info.name);
            if buffer.place(&tensor, info.offset as usize).is_ok() {
                self.bytes.mapped += info.bytes as usize;
                return Ok(tensor);
            }
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
