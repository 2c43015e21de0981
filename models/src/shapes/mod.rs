//! The sizes of well-known models, without their weights: for planning before a download (`plan --shape`) and
//! for benchmarks without one (`bench --shape`). A shape gives the specification, the list of tensors, and a
//! model file with synthetic weights.
//!
//! The sizes are as published by the models' authors. The output of a synthetic model is noise, but it needs
//! the time and memory of the real model.

mod file_type;
mod synthetic;

use std::fmt;
use std::io::{self, Write};

pub use file_type::FileType;

use crate::arch::Arch;
use crate::gguf::write::{GgufWriter, MetaValue, TensorDecl};
use crate::spec::{Experts, LocalLayers, ModelSpec, ModelTensors, Norms, PositionEncoding, TensorKind};
use crate::types::TensorType;

/// The sizes of a well-known model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelShape {
    /// Name, such as `llama-3.2-1b`.
    pub name: &'static str,
    /// Architecture.
    pub arch: Arch,
    /// Number of layers.
    pub n_layers: usize,
    /// Width of the residual stream, elements.
    pub n_embd: usize,
    /// Query heads per layer.
    pub n_heads: usize,
    /// KV heads per layer.
    pub n_kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Width of the feed-forward network, elements.
    pub n_ff: usize,
    /// Tokens in the vocabulary.
    pub n_vocab: usize,
    /// Context length, tokens.
    pub n_ctx: usize,
    /// Epsilon of every norm.
    pub norm_eps: f32,
    /// Base of RoPE's frequencies.
    pub rope_base: f32,
    /// The largest of the factors by which a tensor divides RoPE's frequencies, in Llama 3.1 and later.
    pub rope_factor: Option<f32>,
    /// Whether the output matrix is the token embedding.
    pub tied: bool,
    /// The sliding window of local layers, tokens.
    pub window: Option<usize>,
    /// The experts.
    pub experts: Option<ExpertShape>,
}

/// The sizes of a model's experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertShape {
    /// Experts of a layer.
    pub count: usize,
    /// Experts that are chosen for a token.
    pub used: usize,
    /// Width of an expert, elements.
    pub n_ff: usize,
}

/// A shape or file type is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// There is no shape of this name.
    #[error("no shape is called {found:?}")]
    UnknownShape {
        /// The name given.
        found: String,
        /// The known names, separated by commas.
        known: String,
    },
    /// There is no file type of this name.
    #[error("no file type is called {found:?}")]
    UnknownFileType {
        /// The name given.
        found: String,
        /// The known names, separated by commas.
        known: String,
    },
    /// A shape cannot be cut to this number of layers.
    #[error("{shape} cannot be cut to {found:?} layers")]
    Layers {
        /// The name of the shape.
        shape: &'static str,
        /// The number given.
        found: String,
        /// The layers that it has.
        layers: usize,
    },
}

impl ShapeError {
    /// What the user can do about the error.
    pub fn hint(&self) -> String {
        match self {
            ShapeError::UnknownShape { known, .. } => format!("use one of the shapes {known}"),
            ShapeError::UnknownFileType { known, .. } => format!("after the colon, use one of {known}"),
            ShapeError::Layers { layers, .. } => format!("after the @, use 1 to {layers}"),
        }
    }
}

impl ModelShape {
    /// The shape of this name. Only letters and digits count, in upper or lower case.
    pub fn find(name: &str) -> Option<&'static ModelShape> {
        SHAPES.iter().find(|shape| letters_and_digits(shape.name).eq(letters_and_digits(name)))
    }

    /// All shapes, by family and size.
    pub fn all() -> &'static [ModelShape] {
        SHAPES
    }

    /// Parses `NAME@LAYERS:FILE_TYPE`, such as `llama-3.2-1b:q4_k_m` or `qwen3-30b-a3b@4`. With a number of layers,
    /// the model has only the first of them. The file type is q4_k_m if it is omitted.
    ///
    /// # Errors
    /// The shape or the file type is unknown, and the error lists the known ones; or the shape has fewer layers.
    pub fn parse(text: &str) -> Result<(ModelShape, FileType), ShapeError> {
        let (name, file_type) = text.split_once(':').unwrap_or((text, "q4_k_m"));
        let (name, layers) = name.split_once('@').map_or((name, None), |(name, layers)| (name, Some(layers)));
        let shape = ModelShape::find(name).ok_or_else(|| ShapeError::UnknownShape {
            found: name.to_owned(),
            known: list(SHAPES.iter().map(|shape| shape.name)),
        })?;
        let shape = layers.map_or(Ok(*shape), |layers| shape.cut(layers))?;
        let file_type = FileType::from_name(file_type).ok_or_else(|| ShapeError::UnknownFileType {
            found: file_type.to_owned(),
            known: list(FileType::ALL.iter().map(|file_type| file_type.name())),
        })?;
        Ok((shape, file_type))
    }

    /// The same with the first `layers` layers only.
    fn cut(&self, layers: &str) -> Result<ModelShape, ShapeError> {
        let n_layers = layers.parse().ok().filter(|n| (1..=self.n_layers).contains(n)).ok_or_else(|| {
            ShapeError::Layers { shape: self.name, found: layers.to_owned(), layers: self.n_layers }
        })?;
        Ok(ModelShape { n_layers, ..*self })
    }

    /// The specification of a model of this shape, equal to the one that is read from its file.
    pub fn spec(&self) -> ModelSpec {
        let base = ModelSpec::base(self.arch, self.n_layers, self.head_dim);
        let mut spec = ModelSpec {
            name: self.to_string(),
            n_embd: self.n_embd,
            n_heads: self.n_heads,
            n_kv_heads: self.n_kv_heads,
            n_ff: self.n_ff,
            n_vocab: self.n_vocab,
            n_ctx_train: self.n_ctx,
            norms: Norms { epsilon: self.norm_eps, ..base.norms },
            tied_output: self.tied,
            ..base
        }
        .with_default_factors();
        if let PositionEncoding::Rope(rope) = &mut spec.position_encoding {
            rope.base = self.rope_base;
            rope.has_factors |= self.rope_factor.is_some();
        }
        if let (Some(shape), Some(experts)) = (self.experts, &mut spec.experts) {
            *experts = Experts { count: shape.count, used: shape.used, n_ff: Some(shape.n_ff), ..*experts };
        }
        if let (Some(window), Some(local)) = (self.window, self.arch.decl().sliding_window.local()) {
            let rope = spec.position_encoding.rope();
            spec.local_layers = Some(LocalLayers::declared(local, window, self.n_layers, rope));
        }
        spec
    }

    /// The tensors of a file of this type, in the order in which they are written.
    pub fn tensors(&self, file_type: FileType) -> Vec<TensorDecl> {
        let mut tensors = Vec::new();
        for tensor in ModelTensors::in_file(&self.spec()) {
            let ty = match tensor.kind {
                TensorKind::Matrix => file_type.tensor_type(self, &tensor.name, tensor.dims[0]),
                TensorKind::Vector | TensorKind::RopeFactors => TensorType::F32,
            };
            tensors.push(TensorDecl { name: tensor.name, dims: tensor.dims, ty });
        }
        tensors
    }

    /// Size of all weights in a file of this type, in bytes.
    pub fn weight_bytes(&self, file_type: FileType) -> u64 {
        self.tensors(file_type).iter().filter_map(TensorDecl::bytes).sum()
    }

    /// The metadata of a file of this type, without a vocabulary. llama.cpp can read such files too; their
    /// tokens have no text.
    pub fn metadata(&self, file_type: FileType) -> Vec<(String, MetaValue)> {
        let mut metadata = self.spec().metadata();
        metadata.extend([
            ("general.description".to_owned(), "Synthetic weights: for measuring time and memory".into()),
            ("general.file_type".to_owned(), file_type.id().into()),
            ("general.quantization_version".to_owned(), 2u32.into()),
            ("tokenizer.ggml.model".to_owned(), "no_vocab".into()),
        ]);
        metadata
    }

    /// A file of this type without its weights.
    pub fn header(&self, file_type: FileType) -> GgufWriter {
        let mut file = GgufWriter::new();
        for (key, value) in self.metadata(file_type) {
            file.set(key, value);
        }
        file.tensors_mut().extend(self.tensors(file_type));
        file
    }

    /// Writes a model file with synthetic weights, always the same ones, and returns its size in bytes.
    ///
    /// Norms are 1, biases 0, and matrices random with variance 1 / n_in; matrices that write to the residual
    /// stream have a smaller variance that depends on the number of layers. Activations and logits then stay
    /// near unit scale. `progress` is called with the bytes of weights written so far and in total.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write_synthetic(
        &self,
        file_type: FileType,
        out: &mut dyn Write,
        progress: &mut dyn FnMut(u64, u64),
    ) -> io::Result<u64> {
        let total = self.weight_bytes(file_type);
        let mut done = 0;
        self.header(file_type).write(out, |tensor, out| {
            synthetic::write_tensor(self, tensor, out, &mut |bytes| {
                done += bytes;
                progress(done, total);
            })
        })
    }
}

impl fmt::Display for ModelShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        match ModelShape::find(self.name) {
            Some(whole) if whole.n_layers != self.n_layers => write!(f, "@{}", self.n_layers),
            _ => Ok(()),
        }
    }
}

/// What counts of a shape's name, in lower case.
fn letters_and_digits(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase())
}

fn list(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// The first Llama by Meta. The shapes below change some fields.
const LLAMA: ModelShape = ModelShape {
    name: "",
    arch: Arch::Llama,
    n_layers: 0,
    n_embd: 0,
    n_heads: 0,
    n_kv_heads: 0,
    head_dim: 128,
    n_ff: 0,
    n_vocab: 32_000,
    n_ctx: 2048,
    norm_eps: 1e-5,
    rope_base: 10_000.0,
    rope_factor: None,
    tied: false,
    window: None,
    experts: None,
};

const LLAMA_3: ModelShape =
    ModelShape { n_vocab: 128_256, n_ctx: 131_072, rope_base: 500_000.0, rope_factor: Some(8.0), ..LLAMA };

const QWEN_2_5: ModelShape = ModelShape {
    arch: Arch::Qwen2,
    n_vocab: 152_064,
    n_ctx: 32_768,
    norm_eps: 1e-6,
    rope_base: 1_000_000.0,
    ..LLAMA
};

const QWEN_3: ModelShape =
    ModelShape { arch: Arch::Qwen3, n_vocab: 151_936, n_ctx: 40_960, n_kv_heads: 8, ..QWEN_2_5 };

const GEMMA_3: ModelShape = ModelShape {
    arch: Arch::Gemma3,
    n_vocab: 262_144,
    n_ctx: 131_072,
    head_dim: 256,
    norm_eps: 1e-6,
    tied: true,
    window: Some(1024),
    ..QWEN_2_5
};

const SHAPES: &[ModelShape] = &[
    // A small model with multi-head attention, for measurements with long contexts. It was trained with a
    // context of 2048.
    ModelShape {
        name: "tinyllama-160m",
        n_layers: 12,
        n_embd: 768,
        n_heads: 12,
        n_kv_heads: 12,
        head_dim: 64,
        n_ff: 3072,
        n_ctx: 131_072,
        ..LLAMA
    },
    ModelShape {
        name: "tinyllama-1.1b",
        n_layers: 22,
        n_embd: 2048,
        n_heads: 32,
        n_kv_heads: 4,
        head_dim: 64,
        n_ff: 5632,
        ..LLAMA
    },
    // Version 0.2, the first without a sliding window.
    ModelShape {
        name: "mistral-7b",
        n_layers: 32,
        n_embd: 4096,
        n_heads: 32,
        n_kv_heads: 8,
        n_ff: 14_336,
        n_ctx: 32_768,
        rope_base: 1_000_000.0,
        ..LLAMA
    },
    ModelShape {
        name: "llama-3.2-1b",
        n_layers: 16,
        n_embd: 2048,
        n_heads: 32,
        n_kv_heads: 8,
        head_dim: 64,
        n_ff: 8192,
        rope_factor: Some(32.0),
        tied: true,
        ..LLAMA_3
    },
    ModelShape {
        name: "llama-3.2-3b",
        n_layers: 28,
        n_embd: 3072,
        n_heads: 24,
        n_kv_heads: 8,
        n_ff: 8192,
        rope_factor: Some(32.0),
        tied: true,
        ..LLAMA_3
    },
    ModelShape {
        name: "llama-3.1-8b",
        n_layers: 32,
        n_embd: 4096,
        n_heads: 32,
        n_kv_heads: 8,
        n_ff: 14_336,
        ..LLAMA_3
    },
    ModelShape {
        name: "llama-3.1-70b",
        n_layers: 80,
        n_embd: 8192,
        n_heads: 64,
        n_kv_heads: 8,
        n_ff: 28_672,
        ..LLAMA_3
    },
    ModelShape {
        name: "qwen2.5-0.5b",
        n_layers: 24,
        n_embd: 896,
        n_heads: 14,
        n_kv_heads: 2,
        head_dim: 64,
        n_ff: 4864,
        n_vocab: 151_936,
        tied: true,
        ..QWEN_2_5
    },
    ModelShape {
        name: "qwen2.5-1.5b",
        n_layers: 28,
        n_embd: 1536,
        n_heads: 12,
        n_kv_heads: 2,
        n_ff: 8960,
        n_vocab: 151_936,
        tied: true,
        ..QWEN_2_5
    },
    ModelShape {
        name: "qwen2.5-7b",
        n_layers: 28,
        n_embd: 3584,
        n_heads: 28,
        n_kv_heads: 4,
        n_ff: 18_944,
        ..QWEN_2_5
    },
    ModelShape {
        name: "qwen2.5-14b",
        n_layers: 48,
        n_embd: 5120,
        n_heads: 40,
        n_kv_heads: 8,
        n_ff: 13_824,
        ..QWEN_2_5
    },
    ModelShape {
        name: "qwen2.5-32b",
        n_layers: 64,
        n_embd: 5120,
        n_heads: 40,
        n_kv_heads: 8,
        n_ff: 27_648,
        ..QWEN_2_5
    },
    ModelShape {
        name: "qwen3-0.6b",
        n_layers: 28,
        n_embd: 1024,
        n_heads: 16,
        n_ff: 3072,
        tied: true,
        ..QWEN_3
    },
    ModelShape {
        name: "qwen3-4b",
        n_layers: 36,
        n_embd: 2560,
        n_heads: 32,
        n_ff: 9728,
        tied: true,
        ..QWEN_3
    },
    ModelShape { name: "qwen3-8b", n_layers: 36, n_embd: 4096, n_heads: 32, n_ff: 12_288, ..QWEN_3 },
    ModelShape { name: "qwen3-14b", n_layers: 40, n_embd: 5120, n_heads: 40, n_ff: 17_408, ..QWEN_3 },
    ModelShape { name: "qwen3-32b", n_layers: 64, n_embd: 5120, n_heads: 64, n_ff: 25_600, ..QWEN_3 },
    ModelShape {
        name: "qwen3-30b-a3b",
        arch: Arch::Qwen3Moe,
        n_layers: 48,
        n_embd: 2048,
        n_heads: 32,
        n_kv_heads: 4,
        n_ff: 6144,
        experts: Some(ExpertShape { count: 128, used: 8, n_ff: 768 }),
        ..QWEN_3
    },
    // Without its RoPE scaling.
    ModelShape {
        name: "gpt-oss-20b",
        arch: Arch::GptOss,
        n_layers: 24,
        n_embd: 2880,
        n_heads: 64,
        n_kv_heads: 8,
        head_dim: 64,
        n_ff: 2880,
        n_vocab: 201_088,
        n_ctx: 131_072,
        rope_base: 150_000.0,
        window: Some(128),
        experts: Some(ExpertShape { count: 32, used: 4, n_ff: 2880 }),
        ..LLAMA
    },
    // Without its RoPE scaling, and with a rotation of whole heads.
    ModelShape {
        name: "phi-4-mini",
        arch: Arch::Phi3,
        n_layers: 32,
        n_embd: 3072,
        n_heads: 24,
        n_kv_heads: 8,
        n_ff: 8192,
        n_vocab: 200_064,
        n_ctx: 131_072,
        tied: true,
        ..LLAMA
    },
    ModelShape {
        name: "gemma-3-1b",
        n_layers: 26,
        n_embd: 1152,
        n_heads: 4,
        n_kv_heads: 1,
        n_ff: 6912,
        n_ctx: 32_768,
        window: Some(512),
        ..GEMMA_3
    },
    ModelShape {
        name: "gemma-3-4b",
        n_layers: 34,
        n_embd: 2560,
        n_heads: 8,
        n_kv_heads: 4,
        n_ff: 10_240,
        ..GEMMA_3
    },
    ModelShape {
        name: "gemma-3-12b",
        n_layers: 48,
        n_embd: 3840,
        n_heads: 16,
        n_kv_heads: 8,
        n_ff: 15_360,
        ..GEMMA_3
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::GgufFile;

    #[test]
    fn known_names_are_parsed_and_unknown_names_are_errors_with_a_list() {
        let (shape, file_type) = ModelShape::parse("Llama-3.2-1B:Q4_K_M").unwrap();
        assert_eq!((shape.name, file_type), ("llama-3.2-1b", FileType::Q4KM));
        assert_eq!(ModelShape::parse("qwen3-8b").unwrap().1, FileType::Q4KM);
        for spelling in ["gemma3-1b", "gemma-3-1b", "Gemma3 1B", "gemma_3_1b"] {
            assert_eq!(ModelShape::find(spelling).map(|shape| shape.name), Some("gemma-3-1b"));
        }
        assert_eq!(ModelShape::find(""), None);
        let error = ModelShape::parse("llama-4:q8_0").unwrap_err();
        assert!(error.to_string().contains("\"llama-4\"") && error.hint().contains("qwen3-32b"));
        let error = ModelShape::parse("qwen3-8b:q9").unwrap_err();
        assert!(error.to_string().contains("\"q9\"") && error.hint().contains("q6_k"));
        for (at, shape) in SHAPES.iter().enumerate() {
            assert_eq!(ModelShape::find(shape.name), Some(&SHAPES[at]));
        }
    }

    #[test]
    fn a_shape_is_cut_to_its_first_layers() {
        let (shape, file_type) = ModelShape::parse("qwen3-30b-a3b@4:q8_0").unwrap();
        assert_eq!((shape.n_layers, file_type), (4, FileType::Q8_0));
        assert_eq!(shape.to_string(), "qwen3-30b-a3b@4");
        assert_eq!(shape.spec().name, "qwen3-30b-a3b@4");
        assert_eq!(ModelShape::parse("qwen3-30b-a3b@48").unwrap().0.to_string(), "qwen3-30b-a3b");
        for wrong in ["0", "49", "", "x", "4@4"] {
            let error = ModelShape::parse(&format!("qwen3-30b-a3b@{wrong}")).unwrap_err();
            assert!(error.to_string().contains(&format!("{wrong:?} layers")), "{error}");
            assert_eq!(error.hint(), "after the @, use 1 to 48");
        }
    }

    /// Parameters and sizes as llama.cpp prints them for the published files (`model params`, `model size`).
    /// This checks the shapes and the tensor types of each file type.
    #[test]
    fn sizes_equal_those_of_published_files() {
        const MIB: f64 = 1024.0 * 1024.0;
        const GIB: f64 = 1024.0 * MIB;
        for (name, params_m, unit, size, bits) in [
            ("tinyllama-1.1b:q4_k_m", 1100.05, MIB, 636.18, 4.85),
            ("tinyllama-1.1b:q8_0", 1100.05, GIB, 1.09, 8.50),
            ("mistral-7b:q4_k_m", 7241.73, GIB, 4.07, 4.83),
            ("mistral-7b:q6_k", 7241.73, GIB, 5.53, 6.56),
            ("llama-3.2-1b:q4_k_m", 1235.81, MIB, 762.81, 5.18),
            ("llama-3.2-3b:q4_k_m", 3212.75, GIB, 1.87, 5.01),
            ("llama-3.1-8b:q4_k_m", 8030.26, GIB, 4.58, 4.89),
            ("llama-3.1-8b:q4_0", 8030.26, GIB, 4.33, 4.64),
            ("llama-3.1-8b:q8_0", 8030.26, GIB, 7.95, 8.50),
            ("llama-3.1-8b:f16", 8030.26, GIB, 14.96, 16.00),
            ("llama-3.1-70b:q4_k_m", 70553.71, GIB, 39.59, 4.82),
            ("qwen2.5-0.5b:q4_k_m", 494.03, MIB, 373.71, 6.35),
            ("qwen2.5-7b:q4_k_m", 7615.62, GIB, 4.36, 4.91),
            ("qwen3-30b-a3b:q4_k_m", 30532.12, GIB, 17.28, 4.86),
            ("gpt-oss-20b:mxfp4_moe", 20914.76, GIB, 11.27, 4.63),
        ] {
            let (shape, file_type) = ModelShape::parse(name).unwrap();
            let bytes = shape.weight_bytes(file_type) as f64;
            let params = shape.spec().parameters() as f64;
            assert!((params / 1e6 - params_m).abs() < 0.01, "{name}: {params}");
            assert!((bytes / unit - size).abs() < 0.006, "{name}: {bytes} bytes");
            assert!((bytes * 8.0 / params - bits).abs() < 0.006, "{name}: bits");
        }
    }

    /// A shape small enough to write in a test, with every kind of tensor. Rows of 96 elements are not whole
    /// blocks of 256, so the types with smaller blocks are used too.
    fn tiny(arch: Arch) -> ModelShape {
        ModelShape {
            name: "tiny",
            arch,
            n_layers: if arch == Arch::Baichuan { 40 } else { 3 },
            n_embd: 96,
            n_heads: 4,
            n_kv_heads: if arch.decl().latent { 1 } else { 2 },
            head_dim: 64,
            n_ff: 512,
            n_vocab: 70,
            rope_factor: (arch == Arch::Llama).then_some(8.0),
            tied: arch == Arch::Qwen3,
            window: None,
            ..LLAMA
        }
    }

    #[test]
    fn a_written_file_has_the_specification_of_its_shape_and_is_reproducible() {
        for &arch in Arch::ALL {
            for &file_type in FileType::ALL {
                let shape = tiny(arch);
                let mut bytes = Vec::new();
                let mut reported = Vec::new();
                let size = shape
                    .write_synthetic(file_type, &mut bytes, &mut |done, total| {
                        reported.push((done, total));
                    })
                    .unwrap();
                assert_eq!(size, bytes.len() as u64);
                let total = shape.weight_bytes(file_type);
                assert_eq!(reported.last(), Some(&(total, total)));
                let mut again = Vec::new();
                shape.write_synthetic(file_type, &mut again, &mut |_, _| ()).unwrap();
                assert!(bytes == again, "two files differ");

                let file = GgufFile::from_bytes(bytes).unwrap();
                let spec = ModelSpec::from_gguf(&file).unwrap();
                assert_eq!(spec, shape.spec());
                ModelTensors::from_gguf(&file, &spec).unwrap();
            }
        }
    }

    #[test]
    fn every_tensor_of_every_shape_has_a_valid_size() {
        for shape in SHAPES {
            assert!(shape.n_heads.is_multiple_of(shape.n_kv_heads), "{shape}");
            for &file_type in FileType::ALL {
                for tensor in shape.tensors(file_type) {
                    assert!(tensor.bytes().is_some(), "{shape} {}", tensor.name);
                }
            }
        }
    }
}
