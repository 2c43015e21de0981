//! What a model is: its sizes and settings, read from the metadata and judged (`read`), and the tensors it consists of, found in
//! the file and compared with those sizes (`tensors`). After this, nothing that computes looks at metadata or names again.

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
    /// Name the author gave, without control characters; may be empty.
    pub name: String,
    /// Layers.
    pub n_layers: usize,
    /// Width of the residual stream, elements.
    pub n_embd: usize,
    /// Query heads per layer.
    pub n_heads: usize,
    /// KV heads per layer; divides `n_heads`.
    pub n_kv_heads: usize,
    /// Elements of a head of Q, K and V.
    pub head_dim: usize,
    /// Width of the feed-forward network, elements.
    pub n_ff: usize,
    /// Tokens in the vocabulary, rows of the embedding.
    pub n_vocab: usize,
    /// Context the model was trained for, tokens.
    pub n_ctx_train: usize,
    /// Added to the mean square under the root of every RMS norm.
    pub rms_eps: f32,
    /// Factor of q·k before the softmax: 1 / sqrt(head_dim).
    pub attention_scale: f32,
    /// How positions enter attention.
    pub position_encoding: PositionEncoding,
    /// Whether the output matrix is the token embedding.
    pub tied_output: bool,
    /// Whether Q, K and V have biases.
    pub qkv_bias: bool,
    /// Whether the attention's output has a bias.
    pub attn_output_bias: bool,
    /// Whether each head of Q and K has an RMS norm before RoPE.
    pub qk_norm: bool,
    /// Whether a tensor divides RoPE's frequencies.
    pub rope_freqs: bool,
    /// A sliding window that the file states and that is not applied, tokens.
    pub ignored_sliding_window: Option<usize>,
}

/// How the positions of tokens enter attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PositionEncoding {
    /// Queries and keys are turned.
    Rope(Rope),
    /// Attention with linear biases (Press et al. 2022, arXiv 2108.12409): a logit falls by the distance in tokens times the
    /// query head's slope. The slopes follow from the number of heads, with a largest bias of 8.
    Alibi,
}

impl PositionEncoding {
    /// The rotary embedding, where there is one.
    pub fn rope(&self) -> Option<&Rope> {
        match self {
            PositionEncoding::Rope(rope) => Some(rope),
            PositionEncoding::Alibi => None,
        }
    }
}

/// Rotary position embedding. Frequency i of n_dims / 2 is base^(-2i / n_dims), divided by element i of the tensor `rope_freqs`
/// where there is one, and scaled as `scaling` says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Which elements make a pair.
    pub style: RopeStyle,
    /// Elements of a head that are turned; equals head_dim in the architectures known here.
    pub n_dims: usize,
    /// Base of the frequencies.
    pub base: f32,
    /// Stretching to longer contexts.
    pub scaling: RopeScaling,
}

/// How positions are stretched beyond the context of the first training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// All positions divided by `factor`.
    Linear {
        /// 1 or more stretches.
        factor: f32,
    },
    /// YaRN (Peng et al. 2023, arXiv 2309.00071): slow frequencies divided by `factor`, fast ones left alone, a ramp between.
    Yarn {
        /// Stretching of the context, 1 or more.
        factor: f32,
        /// Context of the first training, tokens.
        original_ctx: usize,
        /// Weight of the ramp, 1 unless the file says otherwise.
        ext_factor: f32,
        /// Further factor of the magnitude of Q and K, *without* YaRN's own 1 + 0.1 ln(factor), which ggml applies by itself.
        attn_factor: f32,
        /// Turns within `original_ctx` above which a frequency is left alone.
        beta_fast: f32,
        /// Turns within `original_ctx` below which a frequency is divided fully.
        beta_slow: f32,
    },
}

/// [`RopeScaling`] as the six numbers that ggml's rope operation takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeParams {
    /// Context of the first training, tokens; only used with `ext_factor`.
    pub original_ctx: usize,
    /// Factor of positions: 1 / `factor`.
    pub freq_scale: f32,
    /// Weight of YaRN's ramp; 0 switches it off.
    pub ext_factor: f32,
    /// Factor of the result.
    pub attn_factor: f32,
    /// See [`RopeScaling::Yarn`].
    pub beta_fast: f32,
    /// See [`RopeScaling::Yarn`].
    pub beta_slow: f32,
}

impl RopeScaling {
    /// The numbers of ggml's rope operation; `n_ctx_train` where there is no original context.
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

    /// Number of parameters: elements of all tensors, without the fixed factors of RoPE.
    pub fn parameters(&self) -> u64 {
        let mut sum = 0u64;
        ModelTensors::declare(self).for_each(|need| {
            if need.kind != TensorKind::RopeFactors {
                sum = sum.saturating_add(need.dims.iter().fold(1, |n: u64, &d| n.saturating_mul(d)));
            }
        });
        sum
    }

    /// The metadata that [`ModelSpec::from_gguf`] reads this specification back from, for writing a file. Vocabulary not included.
    pub fn metadata(&self) -> Vec<(String, MetaValue)> {
        let arch = self.arch.name();
        let mut all: Vec<(String, MetaValue)> = vec![
            ("general.architecture".into(), arch.into()),
            ("general.type".into(), "model".into()),
            ("general.name".into(), self.name.as_str().into()),
        ];
        let mut put = |key: &str, value: MetaValue| all.push((format!("{arch}.{key}"), value));
        let size = |n: usize| MetaValue::U32(u32::try_from(n).unwrap_or(u32::MAX)); // a size beyond it would be refused on reading
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

/// 1 / sqrt(head_dim), the attention scale of every architecture known here.
pub fn attention_scale(head_dim: usize) -> f32 {
    1.0 / (head_dim as f32).sqrt()
}
