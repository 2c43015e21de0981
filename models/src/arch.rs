//! The architectures known here, declared as data: what distinguishes one from the next is a handful of flags, which `spec` reads
//! and the engine's one forward loop follows. A new architecture that only combines these flags is a new file of a few lines.
//!
//! Common to all: token embedding; per layer RMS norm, grouped-query attention with RoPE (or ALiBi), residual, RMS norm, SwiGLU,
//! residual; final RMS norm; output matrix, or the token embedding again.

mod baichuan;
mod llama;
mod qwen2;
mod qwen3;

use crate::gguf::Value;

/// A supported architecture, as `general.architecture` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// Llama 1 to 3.x, Mistral, Yi, TinyLlama and others of the same shape.
    Llama,
    /// Qwen1.5, Qwen2, Qwen2.5.
    Qwen2,
    /// Qwen3, dense.
    Qwen3,
    /// Baichuan and Baichuan 2.
    Baichuan,
}

impl Arch {
    /// Every supported architecture.
    pub const ALL: &'static [Arch] = &[Arch::Llama, Arch::Qwen2, Arch::Qwen3, Arch::Baichuan];

    /// What distinguishes it.
    pub fn decl(self) -> &'static ArchDecl {
        match self {
            Arch::Llama => &llama::DECL,
            Arch::Qwen2 => &qwen2::DECL,
            Arch::Qwen3 => &qwen3::DECL,
            Arch::Baichuan => &baichuan::DECL,
        }
    }

    /// Its name in files.
    pub fn name(self) -> &'static str {
        self.decl().name
    }

    /// The architecture of this name.
    pub fn from_name(name: &str) -> Option<Arch> {
        Self::ALL.iter().copied().find(|a| a.name() == name)
    }

    /// Names of all, separated by commas.
    pub fn supported() -> String {
        Self::ALL.iter().map(|a| a.name()).collect::<Vec<_>>().join(", ")
    }
}

/// What distinguishes one architecture from the others.
#[derive(Debug)]
pub struct ArchDecl {
    /// Name in files, which is also the prefix of its metadata keys.
    pub name: &'static str,
    /// Which elements of a head RoPE turns together.
    pub rope_style: RopeStyle,
    /// Where files do not say how positions enter attention and the number of layers has to: the numbers known, each with its
    /// scheme. Empty where every model has RoPE.
    pub schemes: &'static [(usize, Scheme)],
    /// Biases on Q, K and V.
    pub qkv_bias: Presence,
    /// A bias on the attention's output.
    pub attn_output_bias: Presence,
    /// An RMS norm over each head of Q and of K, before RoPE.
    pub qk_norm: Presence,
    /// A tensor of factors by which RoPE's frequencies are divided.
    pub rope_freqs: Presence,
    /// What to do with a sliding window shorter than the context.
    pub sliding_window: SlidingWindow,
}

/// Whether models of an architecture have a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// No model has it; a file that does is refused.
    Never,
    /// A model has it if its tensors are in the file.
    IfPresent,
    /// Every model has it; a file without is refused.
    Always,
}

impl Presence {
    /// Whether a model has the part, given whether its tensors are there.
    pub(crate) fn resolve(self, present: bool) -> bool {
        match self {
            Presence::Never => false,
            Presence::IfPresent => present,
            Presence::Always => true,
        }
    }
}

/// How the positions of tokens enter attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Rotary position embedding: queries and keys are turned.
    Rope,
    /// Attention with linear biases: logits fall with the distance, in each head by a slope of its own.
    Alibi,
}

/// Which elements of a head make a pair that RoPE turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// Neighbours: 2i and 2i + 1 (`GGML_ROPE_TYPE_NORMAL`).
    Norm,
    /// Halves: i and i + n_dims / 2 (`GGML_ROPE_TYPE_NEOX`).
    Neox,
}

/// What to do with a stated sliding window that is shorter than the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlidingWindow {
    /// Attend to everything all the same.
    Ignored,
    /// Do not load the model.
    Refused,
}

/// Keys below the architecture's prefix that are read.
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

/// Keys that say nothing about what is computed: how rows of the source were ordered, and whether scaling was trained or added.
pub(crate) const IGNORED_KEYS: &[&str] = &["tensor_data_layout", "rope.scaling.finetuned"];

/// Keys of things that are not computed here, each with the values that switch it off and what it would mean.
pub(crate) const NEUTRAL_KEYS: &[(&str, Neutral, &str)] = &[
    ("attention.causal", Neutral::Bool(true), "an encoder that also looks ahead"),
    ("attention.clamp_kqv", Neutral::Number(&[0.0]), "clamped queries, keys and values"),
    ("attention.max_alibi_bias", Neutral::Number(&[0.0]), "ALiBi positions"),
    ("attention.scale", Neutral::Number(&[0.0]), "an attention scale of its own"),
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
    ("rope.scaling.yarn_attn_factor", Neutral::Number(&[1.0]), "a YaRN attention factor of its own"),
    ("rope.scaling.yarn_log_multiplier", Neutral::Number(&[0.0]), "a YaRN log multiplier"),
    ("use_parallel_residual", Neutral::Bool(false), "parallel residuals"),
];

/// Values that switch a setting off.
#[derive(Debug)]
pub(crate) enum Neutral {
    Bool(bool),
    /// One of these, in any integer or float type.
    Number(&'static [f64]),
}

impl Neutral {
    pub(crate) fn holds(&self, value: &Value) -> bool {
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
