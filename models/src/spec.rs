//! A model's specification. Sizes and settings are read from the metadata and checked (`read`). The tensors
//! are found in the file and checked against those sizes (`tensors`). Computation uses only this; it does not
//! look up metadata or tensor names.

use crate::arch::{Arch, RopeStyle};
use crate::gguf::write::MetaValue;

mod read;
mod tensors;

pub use tensors::{LayerTensors, ModelTensors, TensorKind, TensorSpec};

/// Sizes and settings of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// Architecture.
    pub arch: Arch,
    /// Name from the file, without control characters; may be empty.
    pub name: String,
    /// Number of layers.
    pub n_layers: usize,
    /// Width of the residual stream, elements.
    pub n_embd: usize,
    /// Query heads per layer.
    pub n_heads: usize,
    /// KV heads per layer; divides `n_heads`.
    pub n_kv_heads: usize,
    /// Elements of a head, for Q, K and V.
    pub head_dim: usize,
    /// Width of the feed-forward network, elements.
    pub n_ff: usize,
    /// Tokens in the vocabulary; also the rows of the embedding.
    pub n_vocab: usize,
    /// Context length of the training, tokens.
    pub n_ctx_train: usize,
    /// Epsilon of every RMS norm, added to the mean square.
    pub rms_eps: f32,
    /// Factor of q·k before the softmax: 1 / sqrt(head_dim).
    pub attention_scale: f32,
    /// How attention takes the positions of tokens into account.
    pub position_encoding: PositionEncoding,
    /// Whether the output matrix is the token embedding.
    pub tied_output: bool,
    /// Whether Q, K and V have biases.
    pub qkv_bias: bool,
    /// Whether the attention's output has a bias.
    pub attn_output_bias: bool,
    /// Whether each head of Q and K has an RMS norm before RoPE.
    pub qk_norm: bool,
    /// Whether there is a tensor of factors that divide RoPE's frequencies.
    pub rope_freqs: bool,
    /// Logits of attention l become c · tanh(l / c) for this c, before the softmax.
    pub attention_softcap: Option<f32>,
    /// The layers with a sliding window.
    pub local_layers: Option<LocalLayers>,
    /// A sliding window, in tokens, that the file gives and that is not applied.
    pub ignored_sliding_window: Option<usize>,
}

/// Layers with a sliding window, called local. In the others a token sees all before it.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalLayers {
    /// Tokens that a token sees, itself included: those at positions above p - window, for its position p.
    pub window: usize,
    /// `[n_layers]`: which layers are local.
    pub is_local: Vec<bool>,
    /// The base and scaling of RoPE in local layers.
    pub rope: Option<Rope>,
    /// Whether the other layers have no RoPE.
    pub only_local_rope: bool,
}

impl ModelSpec {
    /// Tokens that a token sees in a layer, itself included; `None` for all.
    pub fn window(&self, layer: usize) -> Option<usize> {
        let local = self.local_layers.as_ref()?;
        local.is_local.get(layer).copied().unwrap_or(false).then_some(local.window)
    }

    /// RoPE of a layer; `None` where it has none.
    pub fn rope(&self, layer: usize) -> Option<&Rope> {
        match &self.local_layers {
            Some(local) if self.window(layer).is_some() => local.rope.as_ref(),
            Some(local) if local.only_local_rope => None,
            _ => self.position_encoding.rope(),
        }
    }
}

/// How attention takes the positions of tokens into account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PositionEncoding {
    /// Queries and keys are rotated.
    Rope(Rope),
    /// Attention with linear biases (Press et al. 2022, arXiv 2108.12409): the distance in tokens times the
    /// query head's slope is subtracted from each logit. The slopes follow from the number of heads, with a
    /// maximum bias of 8.
    Alibi,
}

impl PositionEncoding {
    /// The parameters of RoPE; `None` for ALiBi.
    pub fn rope(&self) -> Option<&Rope> {
        match self {
            PositionEncoding::Rope(rope) => Some(rope),
            PositionEncoding::Alibi => None,
        }
    }
}

/// Rotary position embedding. Frequency i of n_dims / 2 is base^(-2i / n_dims), scaled by `scaling`. If the
/// model has the tensor `rope_freqs`, its element i divides the frequency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Which elements are rotated as a pair.
    pub style: RopeStyle,
    /// Number of elements of a head that are rotated; head_dim in all supported architectures.
    pub n_dims: usize,
    /// Base of the frequencies.
    pub base: f32,
    /// Scaling to longer contexts.
    pub scaling: RopeScaling,
}

/// How RoPE is scaled to contexts longer than that of the original training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// No scaling.
    None,
    /// All positions divided by `factor`.
    Linear {
        /// The context grows by this factor.
        factor: f32,
    },
    /// YaRN (Peng et al. 2023, arXiv 2309.00071): low frequencies are divided by `factor`, high ones are
    /// unchanged, with a linear ramp between.
    Yarn {
        /// The context grows by this factor, 1 or more.
        factor: f32,
        /// Context length of the original training, tokens.
        original_ctx: usize,
        /// Weight of the ramp; 1 by default.
        ext_factor: f32,
        /// Factor of the magnitude of Q and K, *without* YaRN's own 1 + 0.1 ln(factor), which ggml applies.
        attn_factor: f32,
        /// Frequencies with more rotations than this in `original_ctx` tokens are unchanged.
        beta_fast: f32,
        /// Frequencies with fewer rotations than this in `original_ctx` tokens are divided by `factor`.
        beta_slow: f32,
    },
}

/// [`RopeScaling`] as the six parameters of ggml's rope operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeParams {
    /// Context length of the original training, tokens; only used with `ext_factor`.
    pub original_ctx: usize,
    /// Multiplies positions: 1 / `factor`.
    pub freq_scale: f32,
    /// Weight of YaRN's ramp; 0 switches YaRN off.
    pub ext_factor: f32,
    /// Multiplies the rotated Q and K.
    pub attn_factor: f32,
    /// See [`RopeScaling::Yarn`].
    pub beta_fast: f32,
    /// See [`RopeScaling::Yarn`].
    pub beta_slow: f32,
}

impl RopeScaling {
    /// The parameters of ggml's rope operation. `n_ctx_train` (tokens) is the original context of scalings
    /// without one.
    pub fn params(self, n_ctx_train: usize) -> RopeParams {
        let plain = RopeParams {
            original_ctx: n_ctx_train,
            freq_scale: 1.0,
            ext_factor: 0.0,
            attn_factor: 1.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
        };
        match self {
            RopeScaling::None => plain,
            RopeScaling::Linear { factor } => RopeParams { freq_scale: 1.0 / factor, ..plain },
            RopeScaling::Yarn { factor, original_ctx, ext_factor, attn_factor, beta_fast, beta_slow } => {
                RopeParams {
                    original_ctx,
                    freq_scale: 1.0 / factor,
                    ext_factor,
                    attn_factor,
                    beta_fast,
                    beta_slow,
                }
            }
        }
    }
}

impl ModelSpec {
    /// Query heads per KV head.
    pub fn queries_per_kv_head(&self) -> usize {
        self.n_heads / self.n_kv_heads
    }

    /// Number of parameters: the elements of all tensors except RoPE's fixed factors.
    pub fn parameters(&self) -> u64 {
        let mut sum = 0u64;
        ModelTensors::declare(self).for_each(|tensor| {
            if tensor.kind != TensorKind::RopeFactors {
                sum = sum.saturating_add(tensor.dims.iter().fold(1, |n: u64, &d| n.saturating_mul(d)));
            }
        });
        sum
    }

    /// The metadata of a file with this specification, without a vocabulary; [`ModelSpec::from_gguf`] reads
    /// the same specification back from it.
    pub fn metadata(&self) -> Vec<(String, MetaValue)> {
        let arch = self.arch.name();
        let mut all: Vec<(String, MetaValue)> = vec![
            ("general.architecture".into(), arch.into()),
            ("general.type".into(), "model".into()),
            ("general.name".into(), self.name.as_str().into()),
        ];
        let mut put = |key: &str, value: MetaValue| all.push((format!("{arch}.{key}"), value));
        // Larger sizes are refused on reading.
        let size = |n: usize| MetaValue::U32(u32::try_from(n).unwrap_or(u32::MAX));
        put("block_count", size(self.n_layers));
        put("context_length", size(self.n_ctx_train));
        put("embedding_length", size(self.n_embd));
        put("feed_forward_length", size(self.n_ff));
        put("attention.head_count", size(self.n_heads));
        put("attention.head_count_kv", size(self.n_kv_heads));
        put("attention.key_length", size(self.head_dim));
        put("attention.value_length", size(self.head_dim));
        put("attention.layer_norm_rms_epsilon", self.rms_eps.into());
        put("vocab_size", size(self.n_vocab));
        if let PositionEncoding::Rope(rope) = self.position_encoding {
            put("rope.dimension_count", size(rope.n_dims));
            put("rope.freq_base", rope.base.into());
            match rope.scaling {
                RopeScaling::None => {}
                RopeScaling::Linear { factor } => {
                    put("rope.scaling.type", "linear".into());
                    put("rope.scaling.factor", factor.into());
                }
                RopeScaling::Yarn { factor, original_ctx, ext_factor, attn_factor, beta_fast, beta_slow } => {
                    put("rope.scaling.type", "yarn".into());
                    put("rope.scaling.factor", factor.into());
                    put("rope.scaling.original_context_length", size(original_ctx));
                    put("rope.scaling.yarn_ext_factor", ext_factor.into());
                    put("rope.scaling.attn_factor", attn_factor.into());
                    put("rope.scaling.yarn_beta_fast", beta_fast.into());
                    put("rope.scaling.yarn_beta_slow", beta_slow.into());
                }
            }
        }
        if let Some(window) = self.ignored_sliding_window {
            put("attention.sliding_window", size(window));
        }
        all
    }
}

/// 1 / sqrt(head_dim), the attention scale of all supported architectures.
pub fn attention_scale(head_dim: usize) -> f32 {
    1.0 / (head_dim as f32).sqrt()
}
