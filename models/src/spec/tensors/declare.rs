//! The names and shapes of the tensors that a model of a specification has.

use super::{
    AttentionTensors, DenseTensors, ExpertTensors, InputTensors, LatentTensors, LayerTensors, MixerTensors,
    ModelTensors, NetworkTensors, OutputTensors, PerLayerTensors, RecurrentTensors, SeparateNorms,
    TensorKind, TensorPart, TensorSpec,
};
use crate::arch::{QkNorm, ValueHeads};
use crate::spec::{Experts, KvHeads, Latent, ModelSpec, PositionEncoding, RecurrentLayers};

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
        let part = TensorPart { first: (layer * width) as u64, of: all.dims[1] };
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

    /// What queries, stored rows and values come from.
    fn latent_qkv(&self, spec: &ModelSpec, latent: &Latent) -> [TensorSpec; 3] {
        let queries = spec.n_heads * latent.query(spec.head_dim - latent.rank);
        let of_queries = match latent.query_rank {
            Some(n) => self.matrix("attn_q_b", n, queries),
            None => self.matrix("attn_q", spec.n_embd, queries),
        };
        [
            of_queries,
            self.matrix("attn_kv_a_mqa", spec.n_embd, spec.head_dim),
            self.matrices("attn_v_b", latent.rank, latent.value, spec.n_heads),
        ]
    }

    fn latent(&self, spec: &ModelSpec, latent: &Latent) -> LatentTensors<TensorSpec> {
        let Latent { rank, plain, query_rank, .. } = *latent;
        LatentTensors {
            query_down: query_rank.map(|n| self.matrix("attn_q_a", spec.n_embd, n)),
            query_norm: query_rank.map(|n| self.norm("attn_q_a_norm", n)),
            norm: self.norm("attn_kv_a_norm", rank),
            key_up: self.matrices("attn_k_b", plain, rank, spec.n_heads),
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
        part.part = Some(TensorPart { first, of });
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
            Some(TensorPart { first: 1.., .. }) => {}
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
                None => NetworkTensors::Dense(Box::new(declare.dense(spec, "", spec.network_width(layer)))),
            },
            ffn_post_norm: norm(block.ffn_post_norm),
            per_layer: spec.per_layer_width.map(|width| declare.per_layer(spec, layer, width)),
            output_scale: spec.factors.of_layers.then(|| declare.norm("layer_output_scale", 1)),
        }
    }
}
