//! A model's specification. Sizes and settings are read from the metadata and checked (`read`). The tensors
//! are found in the file and checked against those sizes (`tensors`). Computation uses only this; it does not
//! look up metadata or tensor names.

use crate::arch::{
    Arch, AttentionScale, Block, FeedForward, NormKind, PositionScheme, Positions, QkNorm, RopeSections,
    RopeStyle, Scales,
};
use crate::gguf::ValueType;
use crate::gguf::write::MetaValue;

mod experts;
mod kv_sharing;
mod latent;
mod local;
mod read;
mod recurrent;
mod temperature;
mod tensors;

pub use experts::Experts;
pub use kv_sharing::KvSharing;
pub use latent::Latent;
pub use local::{KvHeads, LocalLayers};
pub use recurrent::{RecurrentLayers, StateShape};
pub use temperature::AttentionTemperature;
pub use tensors::{
    AttentionTensors, DenseTensors, ExpertTensors, InputTensors, LatentTensors, LayerTensors, MixerTensors,
    ModelTensors, NetworkTensors, OutputTensors, Part, PerLayerTensors, RecurrentTensors, SeparateNorms,
    TensorKind, TensorSpec,
};

/// The maximum bias of ALiBi in architectures without a setting for it.
const MAX_ALIBI_BIAS: f32 = 8.0;

/// The sections of RoPE in files of models that also see images: every pair of elements is in one of the first three,
/// whose positions are equal in texts.
const ROPE_SECTIONS: [i32; 4] = [11, 11, 10, 0];

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
    /// KV heads per layer; divides `n_heads`. Local layers may have others: see [`ModelSpec::kv_heads`].
    pub n_kv_heads: usize,
    /// Elements of a head, for Q, K and V. With latent attention those of a stored row. Local layers may have others.
    pub head_dim: usize,
    /// The sizes of latent attention. There is one KV head then.
    pub latent: Option<Latent>,
    /// Width of the feed-forward network, elements. See [`ModelSpec::network_width`].
    pub n_ff: usize,
    /// Tokens in the vocabulary; also the rows of the embedding.
    pub n_vocab: usize,
    /// Context length of the training, tokens.
    pub n_ctx_train: usize,
    /// Epsilon of every norm, added to the mean square or to the variance.
    pub norm_eps: f32,
    /// Factor of q·k before the softmax.
    pub attention_scale: f32,
    /// How queries are scaled by position, after RoPE.
    pub attention_temperature: Option<AttentionTemperature>,
    /// How the positions of tokens are taken into account.
    pub position_encoding: PositionEncoding,
    /// How a layer's parts are connected, and which norms it has.
    pub block: Block,
    /// Whether norms have biases; not those of Q and K, nor those after attention and feed-forward network.
    pub norm_bias: bool,
    /// Whether embeddings are normalised.
    pub embedding_norm: bool,
    /// Whether the output matrix is the token embedding.
    pub tied_output: bool,
    /// Whether Q, K and V are one tensor in the file.
    pub fused_qkv: bool,
    /// Whether Q, K and V have biases.
    pub qkv_bias: bool,
    /// Whether the attention's output has a bias.
    pub attn_output_bias: bool,
    /// What the norms of Q and K are over.
    pub qk_norm: Option<QkNorm>,
    /// Whether the values of global layers come from the projection of the keys.
    pub values_from_keys: bool,
    /// The last layers, where they attend to the keys and values of earlier ones.
    pub kv_sharing: Option<KvSharing>,
    /// Width of the embeddings that each layer has of its own, elements.
    pub per_layer_width: Option<usize>,
    /// Whether a factor scales the residual stream after each layer.
    pub layer_scale: bool,
    /// Whether the gate and what it gates are one tensor in the file.
    pub fused_gate_up: bool,
    /// Whether the feed-forward network has biases.
    pub ffn_bias: bool,
    /// The experts, where some layers have them.
    pub experts: Option<Experts>,
    /// Whether each query head has a learned logit that takes its share of attention.
    pub sink_logits: bool,
    /// The layers that keep a state in place of keys and values.
    pub recurrent: Option<RecurrentLayers>,
    /// Whether there is a tensor of factors that divide RoPE's frequencies.
    pub rope_freqs: bool,
    /// Bound on the absolute values of Q, K and V before RoPE.
    pub clamp_qkv: Option<f32>,
    /// Factor of the embeddings.
    pub embedding_scale: f32,
    /// Factor of what attention and feed-forward network add to the residual stream.
    pub residual_scale: f32,
    /// Multiplies or divides the logits, as the architecture declares.
    pub logit_scale: f32,
    /// Logits l become c · tanh(l / c) for this c.
    pub final_softcap: Option<f32>,
    /// Logits of attention l become c · tanh(l / c) for this c, before the softmax.
    pub attention_softcap: Option<f32>,
    /// The layers with a sliding window.
    pub local_layers: Option<LocalLayers>,
    /// A sliding window, in tokens, that the file gives and that is not applied.
    pub ignored_sliding_window: Option<usize>,
    /// Layers at the end of the file that are not used: they predict several tokens.
    pub ignored_layers: usize,
}

/// How the positions of tokens are taken into account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PositionEncoding {
    /// Queries and keys are rotated.
    Rope(Rope),
    /// Attention with linear biases (Press et al. 2022, arXiv 2108.12409): the distance in tokens times the
    /// query head's slope is subtracted from each logit. The slopes follow from the number of heads and this
    /// number.
    Alibi {
        /// B: the last of 2^n heads has the slope 2^-B, the first 2^(-B / 2^n).
        max_bias: f32,
    },
    /// A learned vector for each of the `n_ctx_train` positions is added to the embedding.
    Learned,
}

impl PositionEncoding {
    /// The parameters of RoPE, if it is used.
    pub fn rope(&self) -> Option<&Rope> {
        match self {
            PositionEncoding::Rope(rope) => Some(rope),
            PositionEncoding::Alibi { .. } | PositionEncoding::Learned => None,
        }
    }

    /// Whether it is ALiBi.
    pub fn is_alibi(&self) -> bool {
        self.max_alibi_bias().is_some()
    }

    /// The maximum bias of ALiBi, if it is used.
    pub fn max_alibi_bias(&self) -> Option<f32> {
        match self {
            PositionEncoding::Alibi { max_bias } => Some(*max_bias),
            PositionEncoding::Rope(_) | PositionEncoding::Learned => None,
        }
    }
}

/// Rotary position embedding. Frequency i of n_dims / 2 is base^(-2i / n_dims), scaled by `scaling`. If the
/// model has the tensor `rope_freqs`, its element i divides the frequency. With latent attention the last elements of
/// a head are rotated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Which elements are rotated as a pair.
    pub style: RopeStyle,
    /// Number of elements of a head that are rotated, from the first on.
    pub n_dims: usize,
    /// Base of the frequencies.
    pub base: f32,
    /// Scaling to longer contexts.
    pub scaling: RopeScaling,
    /// Every how many layers one has no RoPE: the last of each group.
    pub skipped_every: Option<usize>,
}

impl Rope {
    /// Whether a layer, counted from 0, rotates queries and keys.
    pub fn is_in_layer(&self, layer: usize) -> bool {
        self.skipped_every.is_none_or(|every| !(layer + 1).is_multiple_of(every))
    }

    /// What divides the frequencies of YaRN whose ramp is not rounded, `[n_dims / 2]`; `None` for other scalings. ggml
    /// rounds it, so [`RopeScaling::params`] leaves all of it to these divisors.
    pub fn divisors(&self) -> Option<Vec<f32>> {
        let RopeScaling::Yarn {
            factor, original_ctx, ext_factor, beta_fast, beta_slow, truncate: false, ..
        } = self.scaling
        else {
            return None;
        };
        let dims = self.n_dims as f64;
        // The pair of elements that rotates `beta` times in the original context.
        let pair = |beta: f32| {
            let rotations = original_ctx as f64 / (f64::from(beta) * std::f64::consts::TAU);
            dims * rotations.ln() / (2.0 * f64::from(self.base).ln())
        };
        let (first, last) = (pair(beta_fast).max(0.0), pair(beta_slow).min(dims - 1.0));
        let length = if first == last { 0.001 } else { last - first };
        let divisor = |number: usize| {
            let along = (number as f64 - first) / length;
            // Not a number where the base is 1, so that all pairs rotate alike.
            let ramp = if along.is_nan() { 0.0 } else { along.clamp(0.0, 1.0) };
            let unchanged = (1.0 - ramp) * f64::from(ext_factor);
            1.0 / ((1.0 - unchanged) / f64::from(factor) + unchanged)
        };
        Some((0..self.n_dims / 2).map(|number| divisor(number) as f32).collect())
    }
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
        /// Whether the ramp begins and ends at whole pairs of elements, as in ggml. Otherwise [`Rope::divisors`] has it.
        truncate: bool,
    },
    /// LongRoPE (Ding et al. 2024, arXiv 2402.13753): two tensors have a divisor for each frequency. One is for
    /// contexts up to `original_ctx`, the other for longer contexts.
    Long {
        /// Context length of the original training, tokens.
        original_ctx: usize,
        /// Factor of the magnitude of Q and K.
        attn_factor: f32,
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
    /// Whether it is [`RopeScaling::Long`].
    pub fn is_long_rope(self) -> bool {
        matches!(self, RopeScaling::Long { .. })
    }

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
            RopeScaling::Long { attn_factor, .. } => RopeParams { attn_factor, ..plain },
            RopeScaling::Yarn { factor, ext_factor, attn_factor, truncate: false, .. } => {
                let magnitude = if ext_factor == 0.0 { 1.0 } else { 1.0 + 0.1 * factor.ln() };
                RopeParams { attn_factor: attn_factor * magnitude, ..plain }
            }
            RopeScaling::Yarn {
                factor, original_ctx, ext_factor, attn_factor, beta_fast, beta_slow, ..
            } => RopeParams {
                original_ctx,
                freq_scale: 1.0 / factor,
                ext_factor,
                attn_factor,
                beta_fast,
                beta_slow,
            },
        }
    }
}

impl ModelSpec {
    /// What all models of an architecture have in common, for `n_layers` layers and heads of `head_dim`
    /// elements. The other sizes are 1: the caller gives them.
    pub fn base(arch: Arch, n_layers: usize, head_dim: usize) -> ModelSpec {
        let decl = arch.decl();
        let scheme = match decl.positions {
            Positions::All(scheme) => scheme,
            Positions::ByLayers(known) => known
                .iter()
                .find(|(layers, _)| *layers == n_layers)
                .map_or(PositionScheme::Rope, |(_, scheme)| *scheme),
        };
        let always = |presence: crate::arch::Presence| presence.resolve(false);
        let position_encoding = match scheme {
            PositionScheme::Rope => PositionEncoding::Rope(Rope {
                style: decl.rope_style,
                n_dims: if decl.latent { head_dim / 2 } else { head_dim },
                base: 10_000.0,
                scaling: RopeScaling::None,
                skipped_every: decl.no_rope_every,
            }),
            PositionScheme::Alibi => PositionEncoding::Alibi { max_bias: MAX_ALIBI_BIAS },
            PositionScheme::Learned => PositionEncoding::Learned,
        };
        let local = decl.sliding_window.local();
        let latent = decl.latent.then(|| Latent::declared(head_dim));
        ModelSpec {
            arch,
            name: String::new(),
            n_layers,
            n_embd: 1,
            n_heads: 1,
            n_kv_heads: 1,
            head_dim,
            latent,
            n_ff: 1,
            n_vocab: 1,
            n_ctx_train: 1,
            norm_eps: 1e-5,
            attention_scale: match decl.attention_scale {
                AttentionScale::OfHead | AttentionScale::OfWidth(_) => attention_scale(head_dim),
                AttentionScale::One => 1.0,
            },
            attention_temperature: None,
            position_encoding,
            block: decl.blocks[0],
            norm_bias: always(decl.norm_bias),
            embedding_norm: always(decl.embedding_norm),
            tied_output: false,
            fused_qkv: always(decl.fused_qkv),
            qkv_bias: always(decl.qkv_bias),
            attn_output_bias: always(decl.attn_output_bias),
            qk_norm: always(decl.qk_norm).then_some(decl.qk_norm_kind),
            values_from_keys: false,
            kv_sharing: None,
            per_layer_width: None,
            layer_scale: always(decl.layer_scale),
            fused_gate_up: always(decl.fused_gate_up),
            ffn_bias: always(decl.ffn_bias),
            experts: Experts::declared(&decl.experts),
            sink_logits: always(decl.sink_logits),
            recurrent: decl.recurrent.as_ref().map(|decl| RecurrentLayers::declared(decl, n_layers)),
            rope_freqs: always(decl.rope_freqs),
            clamp_qkv: None,
            embedding_scale: 1.0,
            residual_scale: 1.0,
            logit_scale: 1.0,
            final_softcap: decl.final_softcap,
            attention_softcap: decl.attention_softcap,
            local_layers: local.and_then(|local| {
                let window = local.default_window(n_layers)?;
                Some(LocalLayers::declared(local, window, n_layers, position_encoding.rope()))
            }),
            ignored_sliding_window: None,
            ignored_layers: 0,
        }
        .with_default_scales()
    }

    /// Sets the factors that the architecture's models have if the file gives none.
    pub fn with_default_scales(self) -> ModelSpec {
        match self.arch.decl().scales {
            Scales::One => self,
            Scales::SqrtWidth => ModelSpec { embedding_scale: (self.n_embd as f32).sqrt(), ..self },
            Scales::MiniCpm => ModelSpec {
                embedding_scale: 12.0,
                residual_scale: 1.4 / (self.n_layers as f32).sqrt(),
                logit_scale: self.n_embd as f32 / 256.0,
                ..self
            },
        }
    }

    /// The kind of all norms.
    pub fn norm(&self) -> NormKind {
        self.arch.decl().norm
    }

    /// The kind of the feed-forward network.
    pub fn feed_forward(&self) -> FeedForward {
        self.arch.decl().feed_forward
    }

    /// Whether the query projection also gives a gate for each head.
    pub fn attention_gate(&self) -> bool {
        self.arch.decl().attention_gate
    }

    /// The experts of a layer, counted from 0. `None`: it has one feed-forward network.
    pub fn experts_of(&self, layer: usize) -> Option<&Experts> {
        self.experts.as_ref().filter(|experts| experts.are_in_layer(layer))
    }

    /// Query heads per KV head.
    pub fn queries_per_kv_head(&self) -> usize {
        self.n_heads / self.n_kv_heads
    }

    /// Width of the feed-forward network of a layer, counted from 0.
    pub fn network_width(&self, layer: usize) -> usize {
        self.kv_sharing
            .filter(|sharing| layer >= sharing.first_layer)
            .map_or(self.n_ff, |sharing| sharing.n_ff)
    }

    /// Rows that a KV head stores of a token: its key and its value, or one for both (latent attention).
    pub fn rows_of_token(&self) -> usize {
        if self.latent.is_some() { 1 } else { 2 }
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

    /// The settings of the architecture with their values.
    fn settings(&self) -> impl Iterator<Item = (&'static str, MetaValue)> {
        self.arch.decl().settings.iter().filter_map(|key| {
            let value: MetaValue = match *key {
                "attention.clamp_kqv" => self.clamp_qkv?.into(),
                "attention.shared_kv_layers" => {
                    MetaValue::U32((self.n_layers - self.kv_sharing?.first_layer) as u32)
                }
                "attention.max_alibi_bias" => self.position_encoding.max_alibi_bias()?.into(),
                "attn_logit_softcapping" => self.attention_softcap?.into(),
                "attention.scale" => self.attention_scale.into(),
                "embedding_length_per_layer_input" => MetaValue::U32(self.per_layer_width? as u32),
                "embedding_scale" => self.embedding_scale.into(),
                "final_logit_softcapping" => self.final_softcap?.into(),
                "logit_scale" => self.logit_scale.into(),
                "nextn_predict_layers" => MetaValue::U32(self.ignored_layers as u32),
                "residual_scale" => self.residual_scale.into(),
                "use_parallel_residual" => MetaValue::Bool(self.block.parallel),
                _ => return None,
            };
            Some((*key, value))
        })
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
        put("block_count", size(self.n_layers + self.ignored_layers));
        put("context_length", size(self.n_ctx_train));
        put("embedding_length", size(self.n_embd));
        // Once, or for each layer.
        let sizes = |of_layer: &dyn Fn(usize) -> usize, differ: bool| match differ {
            true => MetaValue::Array(ValueType::U32, (0..self.n_layers).map(|i| size(of_layer(i))).collect()),
            false => size(of_layer(0)),
        };
        put("feed_forward_length", sizes(&|layer| self.network_width(layer), self.kv_sharing.is_some()));
        put("attention.head_count", size(self.n_heads));
        put("attention.head_count_kv", sizes(&|layer| self.kv_heads(layer).count, self.has_local_heads()));
        put("attention.key_length", size(self.head_dim));
        put("attention.value_length", size(self.latent.map_or(self.head_dim, |latent| latent.rank)));
        put(norm_eps_key(self.norm()), self.norm_eps.into());
        put("vocab_size", size(self.n_vocab));
        if let PositionEncoding::Rope(rope) = self.position_encoding {
            put("rope.dimension_count", size(rope.n_dims));
            put("rope.freq_base", rope.base.into());
            let has_sections = match self.arch.decl().rope_sections {
                RopeSections::Interleaved => true,
                RopeSections::Consecutive => rope.style != self.arch.decl().rope_style,
                RopeSections::Refused | RopeSections::Ignored => false,
            };
            if has_sections {
                put("rope.dimension_sections", MetaValue::i32s(ROPE_SECTIONS));
            }
            match rope.scaling {
                RopeScaling::None => {}
                RopeScaling::Linear { factor } => {
                    put("rope.scaling.type", "linear".into());
                    put("rope.scaling.factor", factor.into());
                }
                RopeScaling::Yarn {
                    factor,
                    original_ctx,
                    ext_factor,
                    attn_factor,
                    beta_fast,
                    beta_slow,
                    ..
                } => {
                    put("rope.scaling.type", "yarn".into());
                    put("rope.scaling.factor", factor.into());
                    put("rope.scaling.original_context_length", size(original_ctx));
                    put("rope.scaling.yarn_ext_factor", ext_factor.into());
                    put("rope.scaling.attn_factor", attn_factor.into());
                    put("rope.scaling.yarn_beta_fast", beta_fast.into());
                    put("rope.scaling.yarn_beta_slow", beta_slow.into());
                }
                RopeScaling::Long { original_ctx, attn_factor } => {
                    put("rope.scaling.type", "longrope".into());
                    put("rope.scaling.original_context_length", size(original_ctx));
                    put("rope.scaling.attn_factor", attn_factor.into());
                }
            }
        }
        if let Some(temperature) = self.attention_temperature {
            put("attention.temperature_scale", temperature.scale.into());
            put("attention.temperature_length", size(temperature.length));
        }
        if let Some(window) = self.ignored_sliding_window {
            put("attention.sliding_window", size(window));
        }
        if let Some(local) = &self.local_layers {
            let flags = local.is_local.iter().copied().map(MetaValue::Bool);
            put("attention.sliding_window", size(local.window));
            put("attention.sliding_window_pattern", MetaValue::Array(ValueType::Bool, flags.collect()));
            if let Some(rope) = local.rope {
                put("rope.freq_base_swa", rope.base.into());
            }
            if let Some(heads) = local.heads {
                put("attention.key_length_swa", size(heads.dim));
                put("attention.value_length_swa", size(heads.dim));
                put("rope.dimension_count_swa", size(local.rope.map_or(heads.dim, |rope| rope.n_dims)));
            }
        }
        if let (Some(latent), Some(rope)) = (self.latent, self.position_encoding.rope()) {
            latent.metadata(rope.n_dims).into_iter().for_each(|(key, value)| put(key, value));
        }
        for (key, value) in self.recurrent.iter().flat_map(RecurrentLayers::metadata) {
            put(key, value);
        }
        for (key, value) in self.experts.iter().flat_map(Experts::metadata) {
            put(key, value);
        }
        for (key, value) in self.settings() {
            put(key, value);
        }
        all
    }
}

/// The key of the epsilon of norms of this kind.
fn norm_eps_key(kind: NormKind) -> &'static str {
    match kind {
        NormKind::Rms => "attention.layer_norm_rms_epsilon",
        NormKind::Layer => "attention.layer_norm_epsilon",
    }
}

/// 1 / sqrt(head_dim): the attention scale unless a file gives another.
pub fn attention_scale(head_dim: usize) -> f32 {
    1.0 / (head_dim as f32).sqrt()
}
