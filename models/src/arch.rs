//! The supported architectures, declared as data. They differ in a few flags, which `spec` reads and the
//! engine's one forward loop follows. A new architecture that only combines these flags is a new file in
//! arch/ and a line in the list below.
//!
//! Common to all: token embedding; per layer RMS norm, grouped-query attention with RoPE or ALiBi, residual,
//! RMS norm, SwiGLU, residual; final RMS norm; output matrix, or the token embedding in its place.

use crate::gguf::Value;

/// Makes the enum [`Arch`] from one line for each architecture: its file and its name here.
macro_rules! architectures {
    ($($(#[$doc:meta])* $file:ident: $name:ident,)*) => {
        $(mod $file;)*

        /// A supported architecture, as `general.architecture` names it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Arch {
            $($(#[$doc])* $name,)*
        }

        impl Arch {
            /// Every supported architecture.
            pub const ALL: &'static [Arch] = &[$(Arch::$name),*];

            /// Its declaration.
            pub fn decl(self) -> &'static ArchDecl {
                match self {
                    $(Arch::$name => &$file::DECL,)*
                }
            }
        }
    };
}

// rustfmt does not look into macros: `.ci/run formatting` names the files of arch/ itself.
architectures! {
    /// Llama 1 to 3.x, Mistral, Yi, TinyLlama and others of the same structure.
    llama: Llama,
    /// Qwen1.5, Qwen2, Qwen2.5.
    qwen2: Qwen2,
    /// Qwen3, dense.
    qwen3: Qwen3,
    /// Baichuan and Baichuan 2.
    baichuan: Baichuan,
}

impl Arch {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        self.decl().name
    }

    /// The architecture of this name.
    pub fn from_name(name: &str) -> Option<Arch> {
        Self::ALL.iter().copied().find(|a| a.name() == name)
    }

    /// The names of all supported architectures, separated by commas.
    pub fn supported() -> String {
        Self::ALL.iter().map(|a| a.name()).collect::<Vec<_>>().join(", ")
    }
}

/// The declaration of an architecture: everything in which it may differ from the others.
#[derive(Debug)]
pub struct ArchDecl {
    /// Name in files, also the prefix of its metadata keys.
    pub name: &'static str,
    /// Which elements of a head RoPE rotates as a pair.
    pub rope_style: RopeStyle,
    /// For architectures whose files do not name the position encoding: the encoding for each known number of
    /// layers. Empty if all models use RoPE.
    pub encoding_by_layers: &'static [(usize, PositionScheme)],
    /// Biases on Q, K and V.
    pub qkv_bias: Presence,
    /// A bias on the attention's output.
    pub attn_output_bias: Presence,
    /// An RMS norm over each head of Q and of K, before RoPE.
    pub qk_norm: Presence,
    /// A tensor of factors that divide RoPE's frequencies.
    pub rope_freqs: Presence,
    /// How a sliding window that is shorter than the context is treated.
    pub sliding_window: SlidingWindow,
}

/// Whether the models of an architecture have an optional part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// No model has it. A file with its tensors is refused.
    Never,
    /// A model has it if its tensors are in the file.
    IfInFile,
    /// Every model has it. A file without its tensors is refused.
    Always,
}

impl Presence {
    /// Whether a model has the part, given whether its tensors are in the file.
    pub(crate) fn resolve(self, in_file: bool) -> bool {
        match self {
            Presence::Never => false,
            Presence::IfInFile => in_file,
            Presence::Always => true,
        }
    }
}

/// A kind of position encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionScheme {
    /// Rotary position embedding: rotates queries and keys.
    Rope,
    /// Attention with linear biases: subtracts the distance times the head's slope from attention logits.
    Alibi,
}

/// Which elements of a head RoPE rotates as a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// 2i and 2i + 1 (`GGML_ROPE_TYPE_NORMAL`).
    Norm,
    /// i and i + n_dims / 2 (`GGML_ROPE_TYPE_NEOX`).
    Neox,
}

/// How a sliding window that is shorter than the context is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlidingWindow {
    /// The model is run with full attention.
    Ignored,
    /// The model is not loaded.
    Refused,
}

/// Keys under the architecture's prefix that are read.
pub(crate) const READ_KEYS: &[&str] = &[
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_ext_factor",
    "vocab_size",
];

/// Keys without influence on the computation: the row order of the source, and whether scaling was part of
/// training.
pub(crate) const IGNORED_KEYS: &[&str] = &["tensor_data_layout", "rope.scaling.finetuned"];

/// Keys of features that are not supported, each with the values that switch the feature off and the
/// feature's name.
pub(crate) const NEUTRAL_KEYS: &[(&str, Neutral, &str)] = &[
    ("attention.causal", Neutral::Bool(true), "an encoder that also looks ahead"),
    ("attention.clamp_kqv", Neutral::Number(&[0.0]), "clamped queries, keys and values"),
    ("attention.max_alibi_bias", Neutral::Number(&[0.0]), "ALiBi position encoding"),
    ("attention.scale", Neutral::Number(&[0.0]), "a custom attention scale"),
    ("attn_logit_softcapping", Neutral::Number(&[0.0]), "soft-capped attention logits"),
    ("embedding_scale", Neutral::Number(&[0.0, 1.0]), "scaled embeddings"),
    ("expert_count", Neutral::Number(&[0.0]), "a mixture of experts"),
    ("expert_shared_count", Neutral::Number(&[0.0]), "a mixture of experts"),
    ("expert_used_count", Neutral::Number(&[0.0]), "a mixture of experts"),
    ("final_logit_softcapping", Neutral::Number(&[0.0]), "soft-capped output logits"),
    ("logit_scale", Neutral::Number(&[0.0, 1.0]), "scaled output logits"),
    ("nextn_predict_layers", Neutral::Number(&[0.0]), "layers that predict several tokens"),
    ("pooling_type", Neutral::Number(&[0.0]), "an embedding or ranking model"),
    ("residual_scale", Neutral::Number(&[0.0, 1.0]), "scaled residuals"),
    ("rope.scaling.alpha", Neutral::Number(&[0.0]), "RoPE scaling by an NTK alpha"),
    ("rope.scaling.yarn_attn_factor", Neutral::Number(&[1.0]), "a custom YaRN attention factor"),
    ("rope.scaling.yarn_log_multiplier", Neutral::Number(&[0.0]), "a YaRN log multiplier"),
    ("use_parallel_residual", Neutral::Bool(false), "parallel residuals"),
];

/// The values that switch a feature off.
#[derive(Debug)]
pub(crate) enum Neutral {
    Bool(bool),
    /// One of these numbers, in any integer or float type.
    Number(&'static [f64]),
}

impl Neutral {
    pub(crate) fn matches(&self, value: &Value) -> bool {
        match (self, value) {
            (Neutral::Bool(wanted), Value::Bool(found)) => wanted == found,
            (Neutral::Number(wanted), value) => {
                let number = value.as_float().or_else(|| value.as_int().map(|i| i as f64));
                number.is_some_and(|n| wanted.contains(&n))
            }
            _ => false,
        }
    }
}
