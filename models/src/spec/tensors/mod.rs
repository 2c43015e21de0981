//! The tensors of a model. [`ModelTensors`] is generic over what it holds for each tensor. That is its
//! expected name and shape (from a specification), its place in a file, or the engine's tensor.
//!
//! Shapes are in ggml order, row length first: a matrix `[a, b]` maps a vector of `a` elements to one of `b`
//! elements.
//!
//! Some files hold several matrices in one tensor, one after the other. Their rows are apart, so each is a
//! tensor of its own here, and computation knows nothing of it.

use super::keys::limit;
use super::{Experts, KvHeads, ModelSpec, PositionEncoding, RecurrentLayers};
use crate::arch::{QkNorm, ValueHeads};
use crate::error::LoadError;
use crate::gguf::{GgufFile, TensorInfo, dims_text};
use crate::types::TensorType;

/// Gives a structure its maps over all tensors, in the order of computation. A field is a tensor (`one`), an
/// `Option` (`maybe`), a structure of tensors (`part`) or an `Option` of it (`maybe_part`).
macro_rules! maps {
    ($name:ident { $($field:ident: $kind:ident,)* }) => {
        impl<T> $name<T> {
            /// Applies `f` to every tensor, in the order of computation. Returns the first error.
            pub fn try_map<U, E>(self, f: &mut impl FnMut(T) -> Result<U, E>) -> Result<$name<U>, E> {
                Ok($name { $($field: maps!(@map $kind, self.$field, f),)* })
            }

            /// The same structure with references.
            pub fn as_ref(&self) -> $name<&T> {
                $name { $($field: maps!(@ref $kind, self.$field),)* }
            }
        }
    };
    (@map one, $field:expr, $f:ident) => { $f($field)? };
    (@map maybe, $field:expr, $f:ident) => { $field.map(&mut *$f).transpose()? };
    (@map part, $field:expr, $f:ident) => { $field.try_map(&mut *$f)? };
    (@map maybe_part, $field:expr, $f:ident) => { $field.map(|part| part.try_map(&mut *$f)).transpose()? };
    (@ref one, $field:expr) => { &$field };
    (@ref maybe, $field:expr) => { $field.as_ref() };
    (@ref part, $field:expr) => { $field.as_ref() };
    (@ref maybe_part, $field:expr) => { $field.as_ref().map(|part| part.as_ref()) };
}

mod latent;

pub use latent::LatentTensors;

/// All tensors of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelTensors<T> {
    /// Those before the layers.
    pub input: InputTensors<T>,
    /// The layers from first to last.
    pub layers: Vec<LayerTensors<T>>,
    /// Those after the layers.
    pub output: OutputTensors<T>,
}

/// The tensors before the layers.
#[derive(Clone, Debug, PartialEq)]
pub struct InputTensors<T> {
    /// `[n_embd, n_vocab]`: row i is token i.
    pub token_embd: T,
    /// `[n_embd, n_ctx_train]`: row i is added to the embedding of the token at position i.
    pub position_embd: Option<T>,
    /// `[n_embd]`: weights of the norm of the embeddings.
    pub norm: Option<T>,
    /// `[n_embd]`: its bias.
    pub norm_bias: Option<T>,
    /// `[n_layers * per_layer_width, n_vocab]`: row i has the embeddings that the layers have of token i.
    pub per_layer_embd: Option<T>,
    /// `[per_layer_width]`: weights of the norm of what is added to these embeddings.
    pub per_layer_norm: Option<T>,
    /// `[rope.n_dims / 2]`: divide RoPE's frequencies.
    pub rope_freqs: Option<T>,
    /// `[rope.n_dims / 2]`: the same, where the context is at most that of the original training.
    pub rope_short: Option<T>,
    /// `[rope.n_dims / 2]`: the same, for longer contexts.
    pub rope_long: Option<T>,
}

maps! {
    InputTensors {
        token_embd: one,
        position_embd: maybe,
        norm: maybe,
        norm_bias: maybe,
        per_layer_embd: maybe,
        per_layer_norm: maybe,
        rope_freqs: maybe,
        rope_short: maybe,
        rope_long: maybe,
    }
}

/// The tensors after the layers.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputTensors<T> {
    /// `[n_embd]`: weights of the norm before the output matrix.
    pub norm: T,
    /// `[n_embd]`: its bias.
    pub norm_bias: Option<T>,
    /// `[n_embd, n_vocab]`; `None` if the token embedding is used instead.
    pub matrix: Option<T>,
}

maps! {
    OutputTensors {
        norm: one,
        norm_bias: maybe,
        matrix: maybe,
    }
}

/// The tensors of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerTensors<T> {
    /// `[n_embd]`: weights of the norm before attention.
    pub attn_norm: Option<T>,
    /// `[n_embd]`: its bias.
    pub attn_norm_bias: Option<T>,
    /// Attention, or what a recurrent layer has in its place.
    pub mixer: MixerTensors<T>,
    /// `[n_embd]`: weights of the norm after attention.
    pub attn_post_norm: Option<T>,
    /// `[n_embd]`: weights of the norm before the feed-forward network.
    pub ffn_norm: Option<T>,
    /// `[n_embd]`: its bias.
    pub ffn_norm_bias: Option<T>,
    /// The feed-forward network, or the experts.
    pub network: NetworkTensors<T>,
    /// `[n_embd]`: weights of the norm after the feed-forward network.
    pub ffn_post_norm: Option<T>,
    /// What is added from the layer's own embeddings.
    pub per_layer: Option<PerLayerTensors<T>>,
    /// `[1]`: factor of the residual stream after the layer.
    pub output_scale: Option<T>,
}

maps! {
    LayerTensors {
        attn_norm: maybe,
        attn_norm_bias: maybe,
        mixer: part,
        attn_post_norm: maybe,
        ffn_norm: maybe,
        ffn_norm_bias: maybe,
        network: part,
        ffn_post_norm: maybe,
        per_layer: maybe_part,
        output_scale: maybe,
    }
}

/// What a layer has to add its own embeddings of the tokens to the residual stream.
#[derive(Clone, Debug, PartialEq)]
pub struct PerLayerTensors<T> {
    /// `[n_embd, per_layer_width]`: what is added to these embeddings, from the model's embeddings.
    pub input: T,
    /// `[n_embd, per_layer_width]`: the gate, from the residual stream.
    pub gate: T,
    /// `[per_layer_width, n_embd]`.
    pub output: T,
    /// `[n_embd]`: weights of the norm of what is added.
    pub post_norm: T,
}

maps! {
    PerLayerTensors {
        input: one,
        gate: one,
        output: one,
        post_norm: one,
    }
}

/// What a layer has before its feed-forward network.
#[derive(Clone, Debug, PartialEq)]
pub enum MixerTensors<T> {
    /// Attention.
    Attention(Box<AttentionTensors<T>>),
    /// The gated delta rule.
    Recurrent(Box<RecurrentTensors<T>>),
}

impl<T> MixerTensors<T> {
    fn try_map<U, E>(self, f: &mut impl FnMut(T) -> Result<U, E>) -> Result<MixerTensors<U>, E> {
        Ok(match self {
            MixerTensors::Attention(part) => MixerTensors::Attention(Box::new(part.try_map(f)?)),
            MixerTensors::Recurrent(part) => MixerTensors::Recurrent(Box::new(part.try_map(f)?)),
        })
    }

    fn as_ref(&self) -> MixerTensors<&T> {
        match self {
            MixerTensors::Attention(part) => MixerTensors::Attention(Box::new((**part).as_ref())),
            MixerTensors::Recurrent(part) => MixerTensors::Recurrent(Box::new((**part).as_ref())),
        }
    }

    /// The tensors of attention. `None`: the layer is recurrent.
    pub fn attention(&self) -> Option<&AttentionTensors<T>> {
        match self {
            MixerTensors::Attention(part) => Some(part),
            MixerTensors::Recurrent(_) => None,
        }
    }

    /// The last matrix.
    pub fn output(&self) -> &T {
        match self {
            MixerTensors::Attention(part) => &part.wo,
            MixerTensors::Recurrent(part) => &part.output,
        }
    }

    fn matrices(&self) -> Vec<&T> {
        match self {
            MixerTensors::Attention(part) => {
                let AttentionTensors { wq, wk, wv, latent, wo, .. } = &**part;
                let query_down = latent.as_ref().and_then(|latent| latent.query_down.as_ref());
                let wv = wv.as_ref().filter(|_| latent.is_none());
                [query_down, Some(wq), wk.as_ref(), wv, Some(wo)].into_iter().flatten().collect()
            }
            MixerTensors::Recurrent(part) => vec![&part.qkv, &part.gate, &part.output],
        }
    }

    fn matrices_mut(&mut self) -> Vec<&mut T> {
        match self {
            MixerTensors::Attention(part) => {
                let AttentionTensors { wq, wk, wv, latent, wo, .. } = &mut **part;
                let wv = wv.as_mut().filter(|_| latent.is_none());
                let query_down = latent.as_mut().and_then(|latent| latent.query_down.as_mut());
                [query_down, Some(wq), wk.as_mut(), wv, Some(wo)].into_iter().flatten().collect()
            }
            MixerTensors::Recurrent(part) => {
                let RecurrentTensors { qkv, gate, output, .. } = &mut **part;
                vec![qkv, gate, output]
            }
        }
    }
}

/// The tensors of attention.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionTensors<T> {
    /// `[n_embd, n_heads * head_dim]`. With latent attention `[n_embd or query_rank, n_heads * query]`. With a gate
    /// twice as many rows: each head's query, then its gate.
    pub wq: T,
    /// `[n_embd, n_kv_heads * head_dim]`. `None`: the layer attends to the keys and values of an earlier one.
    pub wk: Option<T>,
    /// `[n_embd, n_kv_heads * head_dim]`. With latent attention `[rank, value, n_heads]`: makes the heads' values.
    /// `None`: as `wk`, or values come from the product with `wk`.
    pub wv: Option<T>,
    /// What latent attention has beside these.
    pub latent: Option<LatentTensors<T>>,
    /// `[n_heads * head_dim]`.
    pub bq: Option<T>,
    /// `[n_kv_heads * head_dim]`.
    pub bk: Option<T>,
    /// `[n_kv_heads * head_dim]`.
    pub bv: Option<T>,
    /// `[head_dim]`, `[head_dim, n_heads]` or `[n_heads * head_dim]`: weights of the norm of Q.
    pub q_norm: Option<T>,
    /// `[head_dim]`, `[head_dim, n_kv_heads]` or `[n_kv_heads * head_dim]`: weights of the norm of K.
    pub k_norm: Option<T>,
    /// `[n_heads]`: a logit without a row, which takes its share of a query head's attention.
    pub sink_logits: Option<T>,
    /// `[n_heads * head_dim, n_embd]`, with latent attention `[n_heads * value, n_embd]`.
    pub wo: T,
    /// `[n_embd]`.
    pub bo: Option<T>,
}

maps! {
    AttentionTensors {
        wq: one,
        wk: maybe,
        wv: maybe,
        latent: maybe_part,
        bq: maybe,
        bk: maybe,
        bv: maybe,
        q_norm: maybe,
        k_norm: maybe,
        sink_logits: maybe,
        wo: one,
        bo: maybe,
    }
}

/// The tensors of a recurrent layer: see [`RecurrentLayers`](super::RecurrentLayers) for its sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct RecurrentTensors<T> {
    /// `[n_embd, channels]`: queries, keys and values before the convolution.
    pub qkv: T,
    /// `[n_embd, value_dim]`: its SiLU scales the normed output.
    pub gate: T,
    /// `[conv_kernel, channels]`: weights of the convolution, the oldest token first.
    pub conv: T,
    /// `[n_embd, value_heads]` or, for both in one matrix, `[n_embd, 2 * value_heads]`: the strength of an update.
    pub beta: T,
    /// `[n_embd, value_heads]`: how fast the state decays. `None`: in `beta`.
    pub alpha: Option<T>,
    /// `[value_heads]`: added to what `alpha` gives.
    pub alpha_bias: T,
    /// `[value_heads]`: factor of the decay; negative.
    pub decay: T,
    /// `[head_dim]`: weights of the norm of a head's output.
    pub norm: T,
    /// `[value_dim, n_embd]`.
    pub output: T,
}

maps! {
    RecurrentTensors {
        qkv: one,
        gate: one,
        conv: one,
        beta: one,
        alpha: maybe,
        alpha_bias: one,
        decay: one,
        norm: one,
        output: one,
    }
}

/// What a layer has after attention.
#[derive(Clone, Debug, PartialEq)]
pub enum NetworkTensors<T> {
    /// A feed-forward network.
    Dense(DenseTensors<T>),
    /// Experts and their router.
    Experts(Box<ExpertTensors<T>>),
}

impl<T> NetworkTensors<T> {
    fn try_map<U, E>(self, f: &mut impl FnMut(T) -> Result<U, E>) -> Result<NetworkTensors<U>, E> {
        Ok(match self {
            NetworkTensors::Dense(dense) => NetworkTensors::Dense(dense.try_map(f)?),
            NetworkTensors::Experts(experts) => NetworkTensors::Experts(Box::new(experts.try_map(f)?)),
        })
    }

    fn as_ref(&self) -> NetworkTensors<&T> {
        match self {
            NetworkTensors::Dense(dense) => NetworkTensors::Dense(dense.as_ref()),
            NetworkTensors::Experts(experts) => NetworkTensors::Experts(Box::new((**experts).as_ref())),
        }
    }
}

/// The tensors of a feed-forward network of width n_ff, or of an expert that every token uses.
#[derive(Clone, Debug, PartialEq)]
pub struct DenseTensors<T> {
    /// `[n_embd, n_ff]`: its product, after the activation function, multiplies that of `up`.
    pub gate: Option<T>,
    /// `[n_ff]`.
    pub gate_bias: Option<T>,
    /// `[n_embd, n_ff]`.
    pub up: T,
    /// `[n_ff]`.
    pub up_bias: Option<T>,
    /// `[n_ff, n_embd]`.
    pub down: T,
    /// `[n_embd]`.
    pub down_bias: Option<T>,
}

maps! {
    DenseTensors {
        gate: maybe,
        gate_bias: maybe,
        up: one,
        up_bias: maybe,
        down: one,
        down_bias: maybe,
    }
}

/// The tensors of the experts of a layer, each of width n_ff, and of their router.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpertTensors<T> {
    /// `[n_embd, count]`: its product has a logit for each expert.
    pub router: T,
    /// `[count]`.
    pub router_bias: Option<T>,
    /// `[count]`: added to the weights where experts are chosen, and only there.
    pub selection_bias: Option<T>,
    /// `[n_embd, n_ff, count]`: as in [`DenseTensors`]. `None`: in `up`, or there is none.
    pub gate: Option<T>,
    /// `[n_ff, count]`.
    pub gate_bias: Option<T>,
    /// `[n_embd, n_ff, count]`, with the gates `[n_embd, 2 * n_ff, count]`: those of an expert, then its other rows.
    pub up: T,
    /// `[n_ff, count]`.
    pub up_bias: Option<T>,
    /// `[n_ff, n_embd, count]`.
    pub down: T,
    /// `[n_embd, count]`.
    pub down_bias: Option<T>,
    /// `[n_embd]`: the sigmoid of its product scales what the shared expert gives.
    pub shared_gate: Option<T>,
    /// The expert that every token uses, or the network that the experts are beside.
    pub shared: Option<DenseTensors<T>>,
    /// The norms of experts that are beside a network.
    pub separate: Option<SeparateNorms<T>>,
}

maps! {
    ExpertTensors {
        router: one,
        router_bias: maybe,
        selection_bias: maybe,
        gate: maybe,
        gate_bias: maybe,
        up: one,
        up_bias: maybe,
        down: one,
        down_bias: maybe,
        shared_gate: maybe,
        shared: maybe_part,
        separate: maybe_part,
    }
}

/// The norms and scales of experts that are beside a layer's feed-forward network. They and their router read what the
/// network's norm reads.
#[derive(Clone, Debug, PartialEq)]
pub struct SeparateNorms<T> {
    /// `[n_embd]`: scale of the router's normed input.
    pub router_scale: T,
    /// `[count]`: factors of the experts' weights.
    pub expert_scale: T,
    /// `[n_embd]`: weights of the norm before the experts.
    pub norm: T,
    /// `[n_embd]`: weights of the norm after the experts.
    pub post_norm: T,
    /// `[n_embd]`: weights of the norm after the network.
    pub network_post_norm: T,
}

maps! {
    SeparateNorms {
        router_scale: one,
        expert_scale: one,
        norm: one,
        post_norm: one,
        network_post_norm: one,
    }
}

/// A tensor that a model has, as its specification requires it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name in files.
    pub name: String,
    /// Dimensions in ggml order.
    pub dims: Vec<u64>,
    /// Decides which types are allowed.
    pub kind: TensorKind,
    /// Where it is in the tensor of this name, if that holds others too.
    pub part: Option<Part>,
}

/// A part of a tensor: rows of a matrix, or elements of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first row.
    pub first: u64,
    /// Rows of the whole tensor.
    pub of: u64,
}

/// The use of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorKind {
    /// Used in matrix products or row lookup; any float or block type.
    Matrix,
    /// Weights of a norm, or a bias; f32.
    Vector,
    /// Fixed factors of RoPE, not counted as parameters; f32.
    RopeFactors,
}

/// Makes the declarations of tensors whose names begin with `prefix`.
struct Declare {
    prefix: String,
}

impl Declare {
    fn tensor(&self, name: &str, dims: &[usize], kind: TensorKind) -> TensorSpec {
        TensorSpec {
            name: format!("{}{name}", self.prefix),
            dims: dims.iter().map(|&d| d as u64).collect(),
            kind,
            part: None,
        }
    }

    fn matrix(&self, name: &str, n_in: usize, n_out: usize) -> TensorSpec {
        self.tensor(&format!("{name}.weight"), &[n_in, n_out], TensorKind::Matrix)
    }

    /// Matrices of all experts, or of all heads.
    fn matrices(&self, name: &str, n_in: usize, n_out: usize, count: usize) -> TensorSpec {
        self.tensor(&format!("{name}.weight"), &[n_in, n_out, count], TensorKind::Matrix)
    }

    fn bias(&self, name: &str, len: usize) -> TensorSpec {
        self.tensor(&format!("{name}.bias"), &[len], TensorKind::Vector)
    }

    fn norm(&self, name: &str, len: usize) -> TensorSpec {
        self.tensor(&format!("{name}.weight"), &[len], TensorKind::Vector)
    }

    fn rope_factors(&self, name: &str, len: usize) -> TensorSpec {
        self.tensor(&format!("{name}.weight"), &[len], TensorKind::RopeFactors)
    }
}

impl Declare {
    /// A feed-forward network of width `n_ff`. Its tensors' names end with `suffix`.
    fn dense(&self, spec: &ModelSpec, suffix: &str, n_ff: usize) -> DenseTensors<TensorSpec> {
        let n_embd = spec.n_embd;
        let is_gated = spec.feed_forward().is_gated();
        let [gate, up, down] = ["gate", "up", "down"].map(|part| format!("ffn_{part}{suffix}"));
        let bias = |present: bool, name: &str, len: usize| {
            (present && spec.dense.bias).then(|| self.bias(name, len))
        };
        let [gate_matrix, up_matrix] = match is_gated && spec.dense.fused_gate_up {
            true => split(self.matrix(&up, n_embd, 2 * n_ff), [n_ff, n_ff]),
            false => [&gate, &up].map(|name| self.matrix(name, n_embd, n_ff)),
        };
        DenseTensors {
            gate: is_gated.then_some(gate_matrix),
            gate_bias: bias(is_gated, &gate, n_ff),
            up: up_matrix,
            up_bias: bias(true, &up, n_ff),
            down: self.matrix(&down, n_ff, n_embd),
            down_bias: bias(true, &down, n_embd),
        }
    }

    fn experts(&self, spec: &ModelSpec, experts: &Experts) -> ExpertTensors<TensorSpec> {
        let (n_embd, count) = (spec.n_embd, experts.count);
        let n_ff = experts.width(spec.n_ff);
        let is_gated = spec.feed_forward().is_gated();
        let bias = |present: bool, name: &str, len: usize| {
            let name = format!("{name}.bias");
            (present && experts.bias).then(|| self.tensor(&name, &[len, count], TensorKind::Vector))
        };
        ExpertTensors {
            router: self.matrix("ffn_gate_inp", n_embd, count),
            router_bias: experts.bias.then(|| self.bias("ffn_gate_inp", count)),
            selection_bias: experts.selection_bias.then(|| self.bias("exp_probs_b", count)),
            gate: (is_gated && !experts.fused_gate_up)
                .then(|| self.matrices("ffn_gate_exps", n_embd, n_ff, count)),
            gate_bias: bias(is_gated, "ffn_gate_exps", n_ff),
            up: match experts.fused_gate_up {
                true => self.matrices("ffn_gate_up_exps", n_embd, 2 * n_ff, count),
                false => self.matrices("ffn_up_exps", n_embd, n_ff, count),
            },
            up_bias: bias(true, "ffn_up_exps", n_ff),
            down: self.matrices("ffn_down_exps", n_ff, n_embd, count),
            down_bias: bias(true, "ffn_down_exps", n_embd),
            shared_gate: (experts.shared_gate && experts.shared_ff.is_some())
                .then(|| self.norm("ffn_gate_inp_shexp", n_embd)),
            shared: experts.shared_ff.map(|n_ff| match experts.beside_dense {
                true => self.dense(spec, "", spec.n_ff),
                false => self.dense(spec, "_shexp", n_ff),
            }),
            separate: experts.beside_dense.then(|| SeparateNorms {
                router_scale: self.tensor("ffn_gate_inp.scale", &[n_embd], TensorKind::Vector),
                expert_scale: self.tensor("ffn_down_exps.scale", &[count], TensorKind::Vector),
                norm: self.norm("pre_ffw_norm_2", n_embd),
                post_norm: self.norm("post_ffw_norm_2", n_embd),
                network_post_norm: self.norm("post_ffw_norm_1", n_embd),
            }),
        }
    }

    /// What a layer has to add its own embeddings of width `width`.
    fn per_layer(&self, spec: &ModelSpec, layer: usize, width: usize) -> PerLayerTensors<TensorSpec> {
        let all = Declare { prefix: String::new() };
        let all = all.matrix("per_layer_model_proj", spec.n_embd, spec.n_layers * width);
        let part = Part { first: (layer * width) as u64, of: all.dims[1] };
        PerLayerTensors {
            input: TensorSpec { dims: vec![all.dims[0], width as u64], part: Some(part), ..all },
            gate: self.matrix("inp_gate", spec.n_embd, width),
            output: self.matrix("proj", width, spec.n_embd),
            post_norm: self.norm("post_norm", spec.n_embd),
        }
    }

    fn attention(&self, spec: &ModelSpec, layer: usize) -> AttentionTensors<TensorSpec> {
        let n_embd = spec.n_embd;
        let KvHeads { count: n_kv_heads, dim: head_dim } = spec.kv_heads(layer);
        let (n_q, n_kv) = (spec.n_heads * head_dim, n_kv_heads * head_dim);
        let n_proj = if spec.attention_gate() { 2 * n_q } else { n_q };
        let [wq, wk, wv] = match (&spec.latent, spec.attention.fused_qkv) {
            (Some(latent), _) => self.latent_qkv(spec, latent),
            (None, true) => split(self.matrix("attn_qkv", n_embd, n_proj + 2 * n_kv), [n_proj, n_kv, n_kv]),
            (None, false) => [("attn_q", n_proj), ("attn_k", n_kv), ("attn_v", n_kv)]
                .map(|(name, rows)| self.matrix(name, n_embd, rows)),
        };
        let n_values = spec.latent.map_or(n_q, |latent| spec.n_heads * latent.value);
        let [bq, bk, bv] = match (spec.attention.qkv_bias, spec.attention.fused_qkv) {
            (false, _) => [None, None, None],
            (true, true) => split(self.bias("attn_qkv", n_proj + 2 * n_kv), [n_proj, n_kv, n_kv]).map(Some),
            (true, false) => [("attn_q", n_proj), ("attn_k", n_kv), ("attn_v", n_kv)]
                .map(|(name, rows)| Some(self.bias(name, rows))),
        };
        let qk_norm = |name: &str, heads: usize| {
            let dims: &[usize] = match spec.attention.qk_norm? {
                QkNorm::Head | QkNorm::HeadAfterRope => &[head_dim],
                QkNorm::EachHead => &[head_dim, heads],
                QkNorm::Whole => &[head_dim * heads],
            };
            Some(self.tensor(&format!("{name}.weight"), dims, TensorKind::Vector))
        };
        let has_rows = !spec.shares_kv(layer);
        AttentionTensors {
            wq,
            wk: has_rows.then_some(wk),
            wv: (has_rows && !spec.has_values_from_keys(layer)).then_some(wv),
            latent: spec.latent.map(|latent| self.latent(spec, &latent)),
            bq,
            bk,
            bv,
            q_norm: qk_norm("attn_q_norm", spec.n_heads),
            k_norm: qk_norm("attn_k_norm", n_kv_heads).filter(|_| has_rows),
            sink_logits: spec.attention.sink_logits.then(|| self.norm("attn_sinks", spec.n_heads)),
            wo: self.matrix("attn_output", n_values, n_embd),
            bo: spec.attention.output_bias.then(|| self.bias("attn_output", n_embd)),
        }
    }

    fn recurrent(&self, n_embd: usize, layer: &RecurrentLayers) -> RecurrentTensors<TensorSpec> {
        let RecurrentLayers { conv_kernel, head_dim, value_heads, .. } = *layer;
        let (beta, alpha) = match layer.order {
            ValueHeads::Tiled => (
                self.matrix("ssm_beta", n_embd, value_heads),
                Some(self.matrix("ssm_alpha", n_embd, value_heads)),
            ),
            ValueHeads::Grouped => (self.matrix("ssm_ba", n_embd, 2 * value_heads), None),
        };
        RecurrentTensors {
            qkv: self.matrix("attn_qkv", n_embd, layer.channels()),
            gate: self.matrix("attn_gate", n_embd, layer.value_dim()),
            conv: self.tensor("ssm_conv1d.weight", &[conv_kernel, layer.channels()], TensorKind::Vector),
            beta,
            alpha,
            alpha_bias: self.bias("ssm_dt", value_heads),
            decay: self.tensor("ssm_a", &[value_heads], TensorKind::Vector),
            norm: self.norm("ssm_norm", head_dim),
            output: self.matrix("ssm_out", layer.value_dim(), n_embd),
        }
    }
}

/// `whole`, whose last extent is the sum of `parts`, as that many tensors.
fn split<const N: usize>(whole: TensorSpec, parts: [usize; N]) -> [TensorSpec; N] {
    let of = parts.iter().sum::<usize>() as u64;
    let mut first = 0;
    parts.map(|rows| {
        let mut part = whole.clone();
        let last = part.dims.len() - 1;
        part.dims[last] = rows as u64;
        part.part = Some(Part { first, of });
        first += rows as u64;
        part
    })
}

impl ModelTensors<TensorSpec> {
    /// The tensors that a model of this specification has.
    pub fn declare(spec: &ModelSpec) -> Self {
        let declare = Declare { prefix: String::new() };
        let norm_bias =
            |present: bool, name| (present && spec.norms.bias).then(|| declare.bias(name, spec.n_embd));
        let rope = spec.position_encoding.rope();
        let factors = |present: bool, name| {
            rope.filter(|_| present).map(|rope| declare.rope_factors(name, rope.n_dims / 2))
        };
        let is_long = rope.is_some_and(|rope| rope.scaling.is_long_rope());
        ModelTensors {
            input: InputTensors {
                token_embd: declare.matrix("token_embd", spec.n_embd, spec.n_vocab),
                position_embd: (spec.position_encoding == PositionEncoding::Learned)
                    .then(|| declare.matrix("position_embd", spec.n_embd, spec.n_ctx_train)),
                norm: spec.norms.of_embeddings.then(|| declare.norm("token_embd_norm", spec.n_embd)),
                norm_bias: norm_bias(spec.norms.of_embeddings, "token_embd_norm"),
                per_layer_embd: spec
                    .per_layer_width
                    .map(|width| declare.matrix("per_layer_token_embd", spec.n_layers * width, spec.n_vocab)),
                per_layer_norm: spec.per_layer_width.map(|width| declare.norm("per_layer_proj_norm", width)),
                rope_freqs: factors(rope.is_some_and(|rope| rope.has_factors), "rope_freqs"),
                rope_short: factors(is_long, "rope_factors_short"),
                rope_long: factors(is_long, "rope_factors_long"),
            },
            layers: (0..spec.n_layers).map(|i| LayerTensors::declare(spec, i)).collect(),
            output: OutputTensors {
                norm: declare.norm("output_norm", spec.n_embd),
                norm_bias: norm_bias(true, "output_norm"),
                matrix: (!spec.tied_output).then(|| declare.matrix("output", spec.n_embd, spec.n_vocab)),
            },
        }
    }

    /// The tensors of a file of this specification. Each is whole, and there once.
    pub fn in_file(spec: &ModelSpec) -> Vec<TensorSpec> {
        let mut tensors = Vec::new();
        ModelTensors::declare(spec).for_each(|tensor| match tensor.part {
            Some(Part { first: 1.., .. }) => {}
            _ => tensors.push(TensorSpec { dims: tensor.dims_in_file(), part: None, ..tensor.clone() }),
        });
        tensors
    }
}

impl LayerTensors<TensorSpec> {
    fn declare(spec: &ModelSpec, layer: usize) -> Self {
        let declare = Declare { prefix: format!("blk.{layer}.") };
        let n_embd = spec.n_embd;
        let block = spec.block;
        let norm = |name: Option<&str>| name.map(|name| declare.norm(name, n_embd));
        let norm_bias =
            |name: Option<&str>| name.filter(|_| spec.norms.bias).map(|name| declare.bias(name, n_embd));
        LayerTensors {
            attn_norm: norm(block.attn_norm),
            attn_norm_bias: norm_bias(block.attn_norm),
            mixer: match spec.recurrent_layer(layer) {
                Some(recurrent) => MixerTensors::Recurrent(Box::new(declare.recurrent(n_embd, recurrent))),
                None => MixerTensors::Attention(Box::new(declare.attention(spec, layer))),
            },
            attn_post_norm: norm(block.attn_post_norm),
            ffn_norm: norm(block.ffn_norm),
            ffn_norm_bias: norm_bias(block.ffn_norm),
            network: match spec.experts_of(layer) {
                Some(experts) => NetworkTensors::Experts(Box::new(declare.experts(spec, experts))),
                None => NetworkTensors::Dense(declare.dense(spec, "", spec.network_width(layer))),
            },
            ffn_post_norm: norm(block.ffn_post_norm),
            per_layer: spec.per_layer_width.map(|width| declare.per_layer(spec, layer, width)),
            output_scale: spec.factors.of_layers.then(|| declare.norm("layer_output_scale", 1)),
        }
    }
}

impl ModelTensors<TensorInfo> {
    /// Finds all tensors of the model in the file and checks their shapes and types. The description of a part
    /// of a tensor is that of the part.
    ///
    /// # Errors
    /// A tensor is missing, or has the wrong shape or type; or the file has a tensor that the model does not
    /// use, because results without it would be wrong.
    pub fn from_gguf(file: &GgufFile, spec: &ModelSpec) -> Result<Self, LoadError> {
        ModelTensors::find(file, spec).map_err(|fault| file.with_path(fault))
    }

    fn find(file: &GgufFile, spec: &ModelSpec) -> Result<Self, LoadError> {
        let mut used = vec![false; file.tensors().len()];
        let found = ModelTensors::declare(spec).try_map(|expected| {
            let index = file.tensor_index(&expected.name).ok_or_else(|| LoadError::MissingTensor {
                shape: dims_text(&expected.dims_in_file()),
                name: expected.name.clone(),
            })?;
            let found = &file.tensors()[index];
            expected.check(file, found)?;
            used[index] = true;
            Ok(expected.place_in(found))
        })?;
        for (used, tensor) in used.iter_mut().zip(file.tensors()) {
            *used |= is_ignored(spec, &tensor.name);
        }
        if let (Some(width), Some(table)) = (spec.per_layer_width, &found.input.per_layer_embd) {
            let block = table.ty.block_elems();
            if !(width as u64).is_multiple_of(block) {
                return Err(LoadError::BadTensor {
                    name: table.name.clone(),
                    problem: format!(
                        "a layer has {width} elements of its rows, which are not whole blocks of {block}"
                    ),
                });
            }
        }
        match used.iter().position(|used| !used) {
            None => Ok(found),
            Some(unknown) => Err(LoadError::UnknownTensor {
                name: file.tensors()[unknown].name.clone(),
                arch: spec.arch.name(),
            }),
        }
    }
}

impl TensorSpec {
    /// Dimensions of the whole tensor in the file.
    fn dims_in_file(&self) -> Vec<u64> {
        let mut dims = self.dims.clone();
        if let (Some(part), Some(last)) = (self.part, dims.last_mut()) {
            *last = part.of;
        }
        dims
    }

    /// The description of this tensor, given that of the whole one.
    fn place_in(&self, whole: &TensorInfo) -> TensorInfo {
        let Some(Part { first, of }) = self.part else { return whole.clone() };
        let row = whole.bytes / of; // whole rows: checked with the shape
        let rows = self.dims.last().copied().unwrap_or(0);
        TensorInfo {
            dims: self.dims.clone(),
            offset: whole.offset + first * row,
            bytes: rows * row,
            ..whole.clone()
        }
    }

    fn check(&self, file: &GgufFile, found: &TensorInfo) -> Result<(), LoadError> {
        if !same_shape(&self.dims_in_file(), &found.dims) {
            return Err(LoadError::WrongShape {
                name: self.name.clone(),
                expected: dims_text(&self.dims_in_file()),
                found: dims_text(&found.dims),
            });
        }
        let expected = match self.kind {
            TensorKind::Matrix if found.ty.is_weight() => return Ok(()),
            TensorKind::Matrix => "a matrix is of a float or block type that can be multiplied with",
            TensorKind::Vector if found.ty == TensorType::F32 => return Ok(()),
            TensorKind::RopeFactors if found.ty == TensorType::F32 => return self.check_factors(file, found),
            TensorKind::Vector | TensorKind::RopeFactors => "norms, biases and RoPE factors are f32",
        };
        Err(LoadError::WrongTensorType { name: self.name.clone(), found: found.ty.name(), expected })
    }

    /// An error if a RoPE factor is negative, not finite or nearly zero: frequencies are divided by it. It may be as large
    /// as f32 allows, which stops the rotation (Gemma 4).
    fn check_factors(&self, file: &GgufFile, found: &TensorInfo) -> Result<(), LoadError> {
        let allowed = limit::FACTORS.0..=f32::MAX;
        let (factors, _) = file.data(found).as_chunks::<4>();
        match factors.iter().map(|&f| f32::from_le_bytes(f)).find(|f| !allowed.contains(f)) {
            None => Ok(()),
            Some(bad) => Err(LoadError::BadTensor {
                name: self.name.clone(),
                problem: format!(
                    "it contains {bad:?}, but factors of frequencies are at least {}",
                    allowed.start()
                ),
            }),
        }
    }
}

/// Whether a tensor may be in a file of a model that does not use it: those of layers that predict several tokens, and
/// the keys and values of layers that share those of others.
fn is_ignored(spec: &ModelSpec, name: &str) -> bool {
    let Some((number, part)) = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    let Ok(layer) = number.parse::<usize>() else { return false };
    let is_of_rows = matches!(part, "attn_k.weight" | "attn_v.weight" | "attn_k_norm.weight");
    (spec.n_layers..spec.n_layers + spec.ignored_layers).contains(&layer)
        || is_of_rows && layer < spec.n_layers && spec.shares_kv(layer)
}

/// Whether two shapes are equal except for trailing dimensions of 1, which some writers add.
fn same_shape(a: &[u64], b: &[u64]) -> bool {
    let at = |dims: &[u64], i: usize| dims.get(i).copied().unwrap_or(1);
    (0..a.len().max(b.len())).all(|i| at(a, i) == at(b, i))
}

impl<T> ModelTensors<T> {
    /// Applies `f` to every tensor, in the order of computation. Returns the first error.
    pub fn try_map<U, E>(self, mut f: impl FnMut(T) -> Result<U, E>) -> Result<ModelTensors<U>, E> {
        Ok(ModelTensors {
            input: self.input.try_map(&mut f)?,
            layers: self.layers.into_iter().map(|l| l.try_map(&mut f)).collect::<Result<_, _>>()?,
            output: self.output.try_map(&mut f)?,
        })
    }

    /// Applies `f` to every tensor, in the order of computation.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> ModelTensors<U> {
        let mapped = self.try_map(|t| Ok::<U, std::convert::Infallible>(f(t)));
        match mapped {
            Ok(tensors) => tensors,
        }
    }

    /// Calls `f` with a reference to every tensor, in the order of computation.
    pub fn for_each(&self, f: impl FnMut(&T)) {
        self.as_ref().map(f);
    }

    /// The same structure with references.
    pub fn as_ref(&self) -> ModelTensors<&T> {
        ModelTensors {
            input: self.input.as_ref(),
            layers: self.layers.iter().map(LayerTensors::as_ref).collect(),
            output: self.output.as_ref(),
        }
    }
}

impl<T> LayerTensors<T> {
    /// The matrices, in the order of computation. Those of all experts are one. Those of the heads of latent attention
    /// are left out.
    pub fn matrices(&self) -> impl Iterator<Item = &T> {
        self.mixer.matrices().into_iter().chain(self.network.matrices())
    }

    /// The matrices as places, in the order of [`LayerTensors::matrices`].
    pub fn matrices_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.mixer.matrices_mut().into_iter().chain(self.network.matrices_mut())
    }
}

impl<T> NetworkTensors<T> {
    /// The matrix before the activation function that is not the gate.
    pub fn up(&self) -> &T {
        match self {
            NetworkTensors::Dense(dense) => &dense.up,
            NetworkTensors::Experts(experts) => &experts.up,
        }
    }

    /// The last matrix.
    pub fn down(&self) -> &T {
        match self {
            NetworkTensors::Dense(dense) => &dense.down,
            NetworkTensors::Experts(experts) => &experts.down,
        }
    }

    fn matrices(&self) -> impl Iterator<Item = &T> {
        let (own, shared) = match self {
            NetworkTensors::Dense(dense) => (dense.matrices(), None),
            NetworkTensors::Experts(experts) => {
                let ExpertTensors { gate, up, down, shared, .. } = &**experts;
                ([gate.as_ref(), Some(up), Some(down)], shared.as_ref().map(DenseTensors::matrices))
            }
        };
        own.into_iter().chain(shared.into_iter().flatten()).flatten()
    }

    fn matrices_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let (own, shared) = match self {
            NetworkTensors::Dense(dense) => (dense.matrices_mut(), None),
            NetworkTensors::Experts(experts) => {
                let ExpertTensors { gate, up, down, shared, .. } = &mut **experts;
                ([gate.as_mut(), Some(up), Some(down)], shared.as_mut().map(DenseTensors::matrices_mut))
            }
        };
        own.into_iter().chain(shared.into_iter().flatten()).flatten()
    }
}

impl<T> DenseTensors<T> {
    fn matrices(&self) -> [Option<&T>; 3] {
        [self.gate.as_ref(), Some(&self.up), Some(&self.down)]
    }

    fn matrices_mut(&mut self) -> [Option<&mut T>; 3] {
        [self.gate.as_mut(), Some(&mut self.up), Some(&mut self.down)]
    }
}
