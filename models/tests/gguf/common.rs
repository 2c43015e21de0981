//! A tiny complete model, and [`Raw`] for invalid files that the writer would refuse to write.

use models::arch::Arch;
use models::gguf::TensorType;
use models::gguf::write::{GgufWriter, MetaValue};
use models::spec::{ModelSpec, ModelTensors};

/// 2 layers (Baichuan: 40, which selects ALiBi), n_embd 16, 4 query heads and 2 KV heads with head_dim 8, 10
/// tokens.
pub fn tiny_spec(arch: Arch) -> ModelSpec {
    tiny_spec_of(arch, if arch == Arch::Baichuan { 40 } else { 2 })
}

/// The same with this number of layers.
pub fn tiny_spec_of(arch: Arch, n_layers: usize) -> ModelSpec {
    let base = ModelSpec::base(arch, n_layers, 8);
    ModelSpec {
        name: "tiny".into(),
        n_embd: 16,
        n_heads: 4,
        n_kv_heads: if base.latent.is_some() { 1 } else { 2 },
        n_ff: 24,
        n_vocab: 10,
        n_ctx_train: 64,
        tied_output: true,
        ..base
    }
    .with_default_factors()
}

/// A file of [`tiny_spec`] with a vocabulary.
pub fn tiny_model(arch: Arch) -> GgufWriter {
    file_of(&tiny_spec(arch))
}

/// A file with this specification and a vocabulary.
pub fn file_of(spec: &ModelSpec) -> GgufWriter {
    let mut writer = GgufWriter::new();
    for (key, value) in spec.metadata() {
        writer.set(key, value);
    }
    writer.set("tokenizer.ggml.model", "llama");
    writer.set(
        "tokenizer.ggml.tokens",
        MetaValue::strings(["<unk>", "<s>", "</s>", "a", "b", "c", "d", "e", "f", "g"]),
    );
    writer.set("tokenizer.ggml.token_type", MetaValue::i32s([2, 3, 3, 1, 1, 1, 1, 1, 1, 1]));
    writer.set("tokenizer.ggml.scores", MetaValue::f32s((0..10).map(|i| -i as f32)));
    for need in ModelTensors::in_file(spec) {
        writer.tensor(&need.name, &need.dims, TensorType::F32);
    }
    writer
}

/// The file of a writer. The bytes of a tensor are all equal and differ from those of the next tensor.
pub fn bytes(writer: &GgufWriter) -> Vec<u8> {
    let mut out = Vec::new();
    let mut n = 0u8;
    writer
        .write(&mut out, |tensor, out| {
            n = n.wrapping_add(37);
            out.write_all(&vec![n; tensor.bytes().unwrap() as usize])
        })
        .unwrap();
    out
}

/// A file written field by field. Nothing is checked, and counts need not be true.
pub struct Raw(pub Vec<u8>);

impl Raw {
    pub fn new(n_tensors: u64, n_keys: u64) -> Raw {
        Raw::with_version(3, n_tensors, n_keys)
    }

    pub fn with_version(version: u32, n_tensors: u64, n_keys: u64) -> Raw {
        Raw(Vec::new()).put(b"GGUF").u32(version).u64(n_tensors).u64(n_keys)
    }

    pub fn put(mut self, bytes: &[u8]) -> Raw {
        self.0.extend(bytes);
        self
    }

    pub fn u32(self, v: u32) -> Raw {
        self.put(&v.to_le_bytes())
    }

    pub fn u64(self, v: u64) -> Raw {
        self.put(&v.to_le_bytes())
    }

    /// The length, then the bytes.
    pub fn string(self, s: &[u8]) -> Raw {
        self.u64(s.len() as u64).put(s)
    }

    /// A key, the id of its type, and the bytes of its value.
    pub fn key(self, name: &str, ty: u32, value: &[u8]) -> Raw {
        self.string(name.as_bytes()).u32(ty).put(value)
    }

    /// A tensor's description.
    pub fn tensor(self, name: &str, dims: &[u64], ty: u32, offset: u64) -> Raw {
        let with_rank = self.string(name.as_bytes()).u32(dims.len() as u32);
        dims.iter().fold(with_rank, |raw, &d| raw.u64(d)).u32(ty).u64(offset)
    }

    /// Pads to a multiple of 32 bytes and appends `n` bytes of data.
    pub fn data(mut self, n: usize) -> Vec<u8> {
        self.0.resize(self.0.len().next_multiple_of(32) + n, 7);
        self.0
    }
}
