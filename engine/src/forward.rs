//! The forward pass: one loop for all architectures. What differs between them is which tensors exist (biases, norms of Q
//! and K) and how RoPE turns; where keys and values lie is the caller's choice of lanes.

use crate::weights::Weights;
use ggml::{Context, RopeMode, RopeParameters, Tensor};
use kernels::graph::{self, GraphLane, HeadShape, LaneState};
use models::arch::RopeStyle;
use models::spec::ModelSpec;

/// Which tokens' results are needed behind a layer's attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// Those of every token.
    All,
    /// That of the last one: the model's output continues a text at its end only.
    Last,
    /// None: the layer's keys and values are wanted, nothing else.
    None,
}

/// A loaded model as formulas.
pub struct Forward {
    weights: Weights,
    heads: HeadShape,
    rope: RopeParameters,
    epsilon: f32,
    threads: usize,
}

/// How many tensors a layer's graph may consist of, attention included.
pub const LAYER_TENSORS: usize = 64;

impl Forward {
    /// The formulas of `spec` over `weights`, for `threads` threads.
    pub fn new(spec: &ModelSpec, weights: Weights, threads: usize) -> Forward {
        let numbers = spec.rope.scaling.numbers(spec.n_ctx_train);
        Forward {
            weights,
            heads: HeadShape {
                head_dim: spec.head_dim,
                n_kv_heads: spec.n_kv_heads,
                group: spec.queries_per_kv_head(),
                scale: spec.attention_scale,
            },
            rope: RopeParameters {
                dims: spec.rope.n_dims,
                mode: match spec.rope.style {
                    RopeStyle::Norm => RopeMode::Norm,
                    RopeStyle::Neox => RopeMode::Neox,
                },
                base: spec.rope.base,
                frequency_scale: numbers.freq_scale,
                original_context: numbers.original_ctx,
                ext_factor: numbers.ext_factor,
                attention_factor: numbers.attn_factor,
                beta_fast: numbers.beta_fast,
                beta_slow: numbers.beta_slow,
            },
            epsilon: spec.rms_eps,
            threads,
        }
    }

    /// The weights.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Shapes of the attention.
    pub fn heads(&self) -> HeadShape {
        self.heads
    }

    /// Embeddings of `tokens` [n] (i32): [n_embd, n].
    pub fn embed(&self, ctx: &Context, tokens: &Tensor) -> Tensor {
        ctx.get_rows(&self.weights.tensors.token_embd, tokens).named("embd")
    }

    /// Queries, keys and values of a layer for normed input `x` [n_embd, n] at `positions` [n] (i32), after RoPE:
    /// [head_dim, heads, n] each. Queries only of the needed tokens.
    fn qkv(
        &self,
        ctx: &Context,
        layer: usize,
        x: &Tensor,
        positions: &Tensor,
        needed: Needed,
    ) -> (Option<Tensor>, Tensor, Tensor) {
        let w = &self.weights.tensors.layers[layer];
        let HeadShape { head_dim, n_kv_heads, group, .. } = self.heads;
        let project = |matrix: &Tensor, bias: &Option<Tensor>, heads: usize, x: &Tensor| {
            let y = ctx.mul_mat(matrix, x); // [heads * head_dim, n]
            let y = match bias {
                Some(bias) => ctx.add(&y, bias),
                None => y,
            };
            ctx.reshape(&y, [head_dim, heads, x.dim(1)])
        };
        let normed = |y: Tensor, weight: &Option<Tensor>| match weight {
            Some(weight) => ctx.mul(&ctx.rms_norm(&y, self.epsilon), weight),
            None => y,
        };
        let turned = |y: &Tensor, positions: &Tensor| {
            ctx.rope(y, positions, self.weights.tensors.rope_freqs.as_ref(), &self.rope)
        };
        let k = normed(project(&w.wk, &w.bk, n_kv_heads, x), &w.k_norm);
        let k = turned(&k, positions).named(&format!("Kcur-{layer}"));
        let v = project(&w.wv, &w.bv, n_kv_heads, x).named(&format!("Vcur-{layer}"));
        let n = x.dim(1);
        let (x, positions) = match needed {
            Needed::None => return (None, k, v),
            Needed::All => (x.clone(), positions.clone()),
            Needed::Last => (ctx.rows(x, n - 1, 1), ctx.view(positions, [1], [4; 3], 4 * (n - 1))),
        };
        let q = normed(project(&w.wq, &w.bq, n_kv_heads * group, &x), &w.q_norm);
        let q = turned(&q, &positions).named(&format!("Qcur-{layer}"));
        (Some(q), k, v)
    }

    /// Queries and keys of a layer for its input `x` [n_embd, n], after RoPE: [head_dim, heads, n].
    pub fn queries_and_keys(
        &self,
        ctx: &Context,
        layer: usize,
        x: &Tensor,
        positions: &Tensor,
    ) -> (Tensor, Tensor) {
        let x = self.norm(ctx, x, &self.weights.tensors.layers[layer].attn_norm);
        match self.qkv(ctx, layer, &x, positions, Needed::All) {
            (Some(q), k, _) => (q, k),
            (None, k, _) => (k.clone(), k),
        }
    }

    /// One layer: input `x` [n_embd, n] of the tokens at `positions` [n], whose keys and values are written behind the live
    /// rows of `lanes`. Gives the needed tokens' output [n_embd, n or 1]; with [`Needed::None`] a tensor without data that
    /// stands for "the rows are written".
    #[allow(clippy::too_many_arguments)]
    pub fn layer(
        &self,
        ctx: &Context,
        layer: usize,
        x: &Tensor,
        positions: &Tensor,
        lanes: &[GraphLane],
        state: &LaneState,
        needed: Needed,
    ) -> Tensor {
        let w = &self.weights.tensors.layers[layer];
        let state = LaneState { layer, ..state.clone() };
        let normed = self.norm(ctx, x, &w.attn_norm).named(&format!("attn_norm-{layer}"));
        let (q, k, v) = self.qkv(ctx, layer, &normed, positions, needed);
        let Some(q) = q else { return graph::append(ctx, (&k, &v), lanes, &state) };

        let attended = graph::attention(ctx, self.heads, (&q, &k, &v), lanes, &state, self.threads)
            .named(&format!("kqv_out-{layer}")); // [heads * head_dim, n or 1]
        let mut out = ctx.mul_mat(&w.wo, &attended);
        if let Some(bias) = &w.bo {
            out = ctx.add(&out, bias);
        }
        let x = match needed {
            Needed::Last => &ctx.rows(x, x.dim(1) - 1, 1),
            _ => x,
        };
        let x = ctx.add(&out, x).named(&format!("ffn_inp-{layer}"));

        let normed = self.norm(ctx, &x, &w.ffn_norm).named(&format!("ffn_norm-{layer}"));
        let gate = ctx.mul_mat(&w.ffn_gate, &normed); // [n_ff, n]
        let up = ctx.mul_mat(&w.ffn_up, &normed); // [n_ff, n]
        let hidden = ctx.swiglu(&gate, &up);
        let out = ctx.mul_mat(&w.ffn_down, &hidden).named(&format!("ffn_out-{layer}"));
        ctx.add(&out, &x).named(&format!("l_out-{layer}"))
    }

    /// Logits [n_vocab, n] of the last layer's output `x` [n_embd, n].
    pub fn logits(&self, ctx: &Context, x: &Tensor) -> Tensor {
        let x = self.norm(ctx, x, &self.weights.tensors.output_norm).named("result_norm");
        ctx.mul_mat(&self.weights.output, &x).named("result_output").output()
    }

    fn norm(&self, ctx: &Context, x: &Tensor, weight: &Tensor) -> Tensor {
        ctx.mul(&ctx.rms_norm(x, self.epsilon), weight)
    }
}
