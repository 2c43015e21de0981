//! A model's weights as tensors: over the mapped file where they can be used as they lie there, copied and rearranged
//! (*repacked*) where the CPU has a faster layout for their type.
//!
//! For K-quants neither layout is best for everything: ggml multiplies single tokens faster with repacked matrices and many
//! tokens faster with those of the file (measured on Zen 4, llama-3.2-1b q4_k_m, 2 threads: tg32 41.7 and 35.7 t/s, pp512
//! 139 and 219 t/s). So both are used; the file's pages are given back to the system when a text has been read.
//!
//! Weights of layers on a device are copied there from the mapped file, whose pages are given back as it goes.

use crate::EngineError;
use crate::devices::{Devices, Place, Placement};
use crate::outline::TensorOutline;
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
    /// Copied to the device.
    pub device: usize,
}

impl WeightBytes {
    /// All that are on the host.
    pub fn on_host(&self) -> usize {
        self.mapped + self.repacked + self.copied
    }

    /// All together.
    pub fn total(&self) -> usize {
        self.on_host() + self.device
    }
}

/// Told how many bytes of weights have been copied, and how many there are to copy.
pub type Loading<'a> = &'a mut dyn FnMut(usize, usize) -> Result<(), EngineError>;

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
    /// `[rope.n_dims / 2]`: what RoPE's frequencies are divided by, in each place with layers.
    pub rope_freqs: [Option<Tensor>; 2],
    /// Where the bytes are.
    pub bytes: WeightBytes,
}

impl Weights {
    /// Makes the tensors of `file` where the devices' placement says. With `repack`, matrices that the CPU multiplies faster in
    /// another layout are copied.
    pub fn load(
        file: &GgufFile,
        spec: &ModelSpec,
        repack: bool,
        devices: &Devices,
        loading: Loading,
    ) -> Result<Weights, EngineError> {
        let found = ModelTensors::from_gguf(file, spec)?;
        let placement = devices.placement();
        let mut loader = Loader::new(file, repack.then(BufferType::cpu_repacked).flatten());
        let embedding = found.token_embd;
        let mut first = true;
        let narrow = found.clone().try_map(|index| {
            // The embedding is looked up in, not multiplied with: it stays as it lies in the file.
            let lookup = std::mem::take(&mut first) && index == embedding;
            let info = &file.tensors()[index];
            match placement.of_tensor(&info.name) {
                Place::Device => loader.on_device(info),
                Place::Host => loader.tensor(info, !lookup),
            }
        })?;
        let output = match (&narrow.output, placement.of_output()) {
            (Some(output), _) => output.clone(),
            (None, Place::Device) => loader.on_device(&file.tensors()[embedding])?,
            (None, Place::Host) if loader.repacked(&file.tensors()[embedding])? => {
                loader.tensor(&file.tensors()[embedding], true)?
            }
            (None, Place::Host) => narrow.token_embd.clone(),
        };
        let mut rope_freqs = [narrow.rope_freqs.clone(), narrow.rope_freqs.clone()];
        if let (Some(index), Place::Host, Place::Device) =
            (found.rope_freqs, placement.of(0), placement.of_output())
        {
            rope_freqs[Place::Device as usize] = Some(loader.on_device(&file.tensors()[index])?);
        }
        let mut twice = vec![Vec::new(); spec.n_layers];
        for layer in placement.layers(Place::Host) {
            let tensors = &found.layers[layer];
            for index in tensors.matrices() {
                if loader.is_twice(&file.tensors()[*index])? {
                    twice[layer].push(*index);
                }
            }
        }
        let bytes_of = |layer: &Vec<usize>| layer.iter().map(|i| file.tensors()[*i].bytes as usize).sum();
        let twice_bytes = twice.iter().map(bytes_of).collect();
        let mut wide = narrow.clone();
        for (layer, found) in
            wide.layers.iter_mut().zip(&found.layers).take(placement.layers(Place::Host).len())
        {
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
        let bytes = loader.finish(devices, loading)?;
        Ok(Weights { narrow, wide, twice, twice_bytes, output, rope_freqs, bytes })
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
        placement: Placement,
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
            match (multiplied, placement.of_tensor(&need.name)) {
                (true, Place::Device) => bytes.device += on_device(&tensor),
                // The embedding a second time, as the output matrix.
                (true, Place::Host)
                    if need.name == "token_embd.weight" && placement.of_output() == Place::Device =>
                {
                    bytes.device += on_device(&tensor);
                }
                _ if repacked => bytes.repacked += tensor.bytes(),
                _ => bytes.mapped += tensor.bytes(),
            }
            Ok(tensor)
        };
        let declared = ModelTensors::declare(spec);
        let embedding = declared.token_embd.clone();
        let tensors = declared.try_map(|need| make(&need, need.name != embedding.name))?;
        let output = match &tensors.output {
            Some(output) => output.clone(),
            None if placement.of_output() == Place::Device
                || is_repacked(repack.as_ref(), tensors.token_embd.ty(), &embedding.dims) =>
            {
                make(&embedding, true)?
            }
            None => tensors.token_embd.clone(),
        };
        let bytes_twice = |matrix: &&Tensor| {
            let dims = [matrix.dim(0) as u64, matrix.dim(1) as u64];
            if is_twice(repack.as_ref(), matrix.ty(), &dims) { matrix.bytes() } else { 0 }
        };
        let twice_bytes = (tensors.layers.iter().enumerate())
            .map(|(number, layer)| match placement.of(number) {
                Place::Host => layer.matrices().iter().map(bytes_twice).sum(),
                Place::Device => 0,
            })
            .collect();
        let twice = vec![Vec::new(); spec.n_layers];
        let rope_freqs = [tensors.rope_freqs.clone(), tensors.rope_freqs.clone()];
        Ok(Weights { wide: tensors.clone(), narrow: tensors, twice, twice_bytes, output, rope_freqs, bytes })
    }
}

fn element_type(name: &str, ty: TensorType) -> Result<Type, EngineError> {
    Type::from_id(ty.id()).ok_or_else(|| EngineError::Setting {
        what: format!("tensor `{name}`"),
        reason: format!("ggml {} cannot compute with type {}", ggml::version(), ty.name()),
        hint: "use a file quantised to another type".into(),
    })
}

/// Bytes that a tensor takes on a device. Rows of block types end at a multiple of 512 elements there, because the kernels read that
/// far, and tensors begin at multiples of 128 bytes.
fn on_device(tensor: &Tensor) -> usize {
    const ROW: usize = 512;
    const ALIGNMENT: usize = 128;
    let ty = tensor.ty();
    let beyond = match ty.block_elements() {
        1 => 0,
        block => tensor.dim(0).next_multiple_of(ROW).abs_diff(tensor.dim(0)) / block * ty.block_bytes(),
    };
    (tensor.bytes() + beyond).next_multiple_of(ALIGNMENT)
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
    device: Context,
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
            device: Context::new(capacity),
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

    /// A tensor on the device.
    fn on_device(&mut self, info: &TensorInfo) -> Result<Tensor, EngineError> {
        let (ty, shape) = (element_type(&info.name, info.ty)?, extents(&info.dims));
        let tensor = self.device.tensor(ty, shape).named(&info.name);
        self.bytes.device += on_device(&tensor);
        self.pending.push((tensor.clone(), info.clone()));
        Ok(tensor)
    }

    fn finish(self, devices: &Devices, loading: Loading) -> Result<WeightBytes, EngineError> {
        /// Bytes copied between two words about it.
        const PIECE: usize = 64 << 20;
        self.copied.allocate(&BufferType::cpu())?;
        if let Some(kind) = &self.repack {
            self.repacked.allocate(kind)?;
        }
        if devices.placement().on_device() > 0 {
            self.device.allocate(&devices.at(Place::Device).buffer_type())?;
        }
        let (mut done, all) = (0, self.pending.iter().map(|(tensor, _)| tensor.bytes()).sum());
        for (tensor, info) in &self.pending {
            let data = self.file.data(info);
            // Other layouts are made from whole tensors; to the device go pieces.
            let piece =
                if devices.placement().of_tensor(&info.name) == Place::Device { PIECE } else { data.len() };
            for (number, piece) in data.chunks(piece.max(1)).enumerate() {
                tensor.write(number * PIECE, piece)?;
                done += piece.len();
                loading(done, all)?;
            }
            self.file.forget(info);
        }
        Ok(self.bytes)
    }
}
