//! The forward pass: one loop for all architectures. What differs between them is which tensors exist (biases, norms of Q
//! and K) and how positions enter (RoPE, or ALiBi in the lanes); where keys and values lie is the caller's choice of lanes.

use crate::devices::{Place, Placement};
use crate::kv::policy::CountedQueries;
use crate::kv::{AttentionRecorder, LayerRows};
use crate::weights::Weights;
use ggml::{Context, Graph, RopeMode, RopeParameters, Tensor, Type};
use kernels::graph::{self, Gather, HeadShape, LaneState, MAX_LANES, Split};
use models::arch::RopeStyle;
use models::spec::{LayerTensors, ModelSpec, Rope};

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

/// What changes from one computation to the next.
pub struct Inputs {
    /// `[n]` i32, where tokens are looked up
    pub tokens: Tensor,
    /// `[n_embd, n]` f32: the residual stream, where it comes from another place
    pub stream: Tensor,
    /// `[n]` i32
    pub positions: Tensor,
    /// Live rows and log-weights.
    pub state: LaneState,
}

impl Inputs {
    /// Inputs for `n` tokens of a model of `layers` layers.
    pub fn new(ctx: &Context, (n_embd, n): (usize, usize), layers: usize) -> Inputs {
        let positions = ctx.input("positions", Type::I32, [n]);
        Inputs {
            tokens: ctx.input("tokens", Type::I32, [n]),
            stream: ctx.input("stream", Type::F32, [n_embd, n]),
            positions: positions.clone(),
            state: LaneState {
                rows: ctx.input("rows", Type::I32, [MAX_LANES, layers]),
                log_weights: ctx.input("log_weights", Type::F32, [MAX_LANES, layers]),
                positions,
                layer: 0,
            },
        }
    }

    /// Fills the inputs for `tokens` at positions from `first` on; those that the graph does not use have no memory.
    pub fn fill(
        &self,
        tokens: &[u32],
        first: usize,
        (rows, weights): &(Vec<i32>, Vec<f32>),
    ) -> Result<(), ggml::Error> {
        let tokens: Vec<i32> = tokens.iter().map(|token| *token as i32).collect();
        let positions: Vec<i32> = (first as i32..).take(tokens.len()).collect();
        for (input, values) in
            [(&self.tokens, &tokens), (&self.positions, &positions), (&self.state.rows, rows)]
        {
            if input.is_allocated() {
                input.write(0, values)?;
            }
        }
        if self.state.log_weights.is_allocated() {
            self.state.log_weights.write(0, weights)?;
        }
        Ok(())
    }
}

/// A graph that is ready to be allocated.
pub struct Formula {
    /// What holds it.
    pub ctx: Context,
    /// What must be filled before it is computed.
    pub inputs: Inputs,
    /// The result; where nothing is needed, a tensor without data that stands for "the rows are written".
    pub result: Tensor,
    /// Tensors without data that stand for what policies ask for.
    pub effects: Vec<Tensor>,
}

impl Formula {
    /// The graph that computes the result and all effects.
    pub fn graph(&self) -> Result<Graph, ggml::Error> {
        let results: Vec<&Tensor> = self.effects.iter().chain([&self.result]).collect();
        self.ctx.graph(&results)
    }
}

/// A loaded model as formulas.
pub struct Forward {
    weights: Weights,
    heads: HeadShape,
    /// `None` under ALiBi, where the lanes' positions do its work.
    rope: Option<RopeParameters>,
    epsilon: f32,
    placement: Placement,
    /// What attention is split over in each place.
    splits: [Split; 2],
    /// Whether intermediates are to be looked at.
    trace: bool,
}

/// Names of a layer's intermediates, in the order in which they are computed; `-` and the layer's number follow.
pub const INTERMEDIATES: [&str; 9] =
    ["attn_norm", "Kcur", "Vcur", "Qcur", "kqv_out", "ffn_inp", "ffn_norm", "ffn_out", "l_out"];

/// Marks intermediates to be looked at.
trait Kept {
    fn kept(self, trace: bool) -> Self;
}

impl Kept for Tensor {
    /// With `trace`, the tensor's memory is not used again by what is computed later.
    fn kept(self, trace: bool) -> Tensor {
        if trace { self.output() } else { self }
    }
}

/// From how many tokens on the file's layout of K-quants is the faster one.
const WIDE: usize = 32;

/// How many tensors a layer's graph may consist of, attention included.
pub const LAYER_TENSORS: usize = 64;

impl Forward {
    /// The formulas of `spec` over `weights`, which are where `placement` says, for this many threads of the host and blocks of the
    /// device.
    pub fn new(
        spec: &ModelSpec,
        weights: Weights,
        placement: Placement,
        (threads, blocks): (usize, usize),
    ) -> Forward {
        Forward {
            weights,
            heads: HeadShape {
                head_dim: spec.head_dim,
                n_kv_heads: spec.n_kv_heads,
                group: spec.queries_per_kv_head(),
                scale: spec.attention_scale,
            },
            rope: spec.positions.rope().map(|rope| rope_parameters(rope, spec.n_ctx_train)),
            epsilon: spec.rms_eps,
            placement,
            splits: [Split::Threads(threads), Split::Blocks(blocks)],
            trace: false,
        }
    }

    /// See [`graph::most_partials`]: for the device.
    pub fn most_partials(&self, chunk: usize) -> Option<usize> {
        let [_, device] = self.splits;
        graph::most_partials(self.heads, device, chunk)
    }

    /// Keeps intermediates from now on, at the cost of their memory.
    pub fn trace(&mut self) {
        self.trace = true;
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
    fn embed(&self, ctx: &Context, tokens: &Tensor) -> Tensor {
        ctx.get_rows(&self.weights.narrow.token_embd, tokens).named("embd").kept(self.trace)
    }

    /// A layer's weights in the layout that is faster for `n` tokens at a time.
    fn matrices(&self, layer: usize, n: usize) -> &LayerTensors<Tensor> {
        let weights = if n < WIDE { &self.weights.narrow } else { &self.weights.wide };
        &weights.layers[layer]
    }

    /// The formula that looks up the embeddings of `n` tokens: [n_embd, n].
    pub fn embedding(&self, n: usize) -> Formula {
        let ctx = Context::new(LAYER_TENSORS);
        let inputs = self.inputs(&ctx, n);
        let result = self.embed(&ctx, &inputs.tokens).output();
        Formula { ctx, inputs, result, effects: Vec::new() }
    }

    fn inputs(&self, ctx: &Context, n: usize) -> Inputs {
        let weights = &self.weights.narrow;
        Inputs::new(ctx, (weights.token_embd.dim(0), n), weights.layers.len())
    }

    /// Queries of a layer for normed input `x` [n_embd, n] at `positions` [n], after RoPE: [head_dim, heads, n].
    fn queries(&self, ctx: &Context, layer: usize, x: &Tensor, positions: &Tensor) -> Tensor {
        let w = self.matrices(layer, x.dim(1));
        let q = self.project(ctx, &w.wq, w.bq.as_ref(), self.heads.n_kv_heads * self.heads.group, x);
        self.turn(ctx, layer, q, w.q_norm.as_ref(), positions)
            .named(&format!("Qcur-{layer}"))
            .kept(self.trace)
    }

    /// Keys of a layer: as [`Forward::queries`].
    fn keys(&self, ctx: &Context, layer: usize, x: &Tensor, positions: &Tensor) -> Tensor {
        let w = self.matrices(layer, x.dim(1));
        let k = self.project(ctx, &w.wk, w.bk.as_ref(), self.heads.n_kv_heads, x);
        self.turn(ctx, layer, k, w.k_norm.as_ref(), positions)
            .named(&format!("Kcur-{layer}"))
            .kept(self.trace)
    }

    /// matrix · x + bias, cut into heads: [head_dim, heads, n].
    fn project(
        &self,
        ctx: &Context,
        matrix: &Tensor,
        bias: Option<&Tensor>,
        heads: usize,
        x: &Tensor,
    ) -> Tensor {
        let mut y = ctx.mul_mat(matrix, x); // [heads * head_dim, n]
        if let Some(bias) = bias {
            y = ctx.add(&y, bias);
        }
        // What is kept is the memory, which a reshaped tensor shares.
        ctx.reshape(&y.kept(self.trace), [self.heads.head_dim, heads, x.dim(1)])
    }

    /// The norm of each head where there is one, then RoPE where there is.
    fn turn(
        &self,
        ctx: &Context,
        layer: usize,
        heads: Tensor,
        norm: Option<&Tensor>,
        positions: &Tensor,
    ) -> Tensor {
        let heads = match norm {
            Some(weight) => self.norm(ctx, &heads, weight),
            None => heads,
        };
        match &self.rope {
            Some(rope) => {
                let factors = &self.weights.rope_freqs[self.placement.of(layer) as usize];
                ctx.rope(&heads, positions, factors.as_ref(), rope)
            }
            None => heads,
        }
    }

    /// One layer: input `x` [n_embd, n] of the tokens at `positions` [n], whose keys and values are written behind the live
    /// rows of `rows`. Gives the needed tokens' output [n_embd, n or 1]; with [`Needed::None`] a tensor without data that
    /// stands for "the rows are written". What policies ask for is added to `effects`.
    #[allow(clippy::too_many_arguments)]
    fn layer(
        &self,
        ctx: &Context,
        layer: usize,
        x: &Tensor,
        inputs: &Inputs,
        rows: &LayerRows,
        needed: Needed,
        effects: &mut Vec<Tensor>,
    ) -> Tensor {
        let n = x.dim(1);
        let w = self.matrices(layer, n);
        let positions = &inputs.positions;
        let state = LaneState { layer, ..inputs.state.clone() };
        let normed = self.norm(ctx, x, &w.attn_norm).named(&format!("attn_norm-{layer}")).kept(self.trace);
        let k = self.keys(ctx, layer, &normed, positions);
        let v = self
            .project(ctx, &w.wv, w.bv.as_ref(), self.heads.n_kv_heads, &normed)
            .named(&format!("Vcur-{layer}"))
            .kept(self.trace);
        let stored = graph::append(ctx, (&k, &v), &rows.lanes, &state);

        // Queries of the last tokens only, as far back as somebody looks at them.
        let attending = match needed {
            Needed::All => n,
            Needed::Last => 1,
            Needed::None => 0,
        };
        let queries = attending.max(rows.recorded_queries(n));
        if queries == 0 {
            return stored;
        }
        let q = if queries == n {
            self.queries(ctx, layer, &normed, positions)
        } else {
            let last = ctx.view(positions, [queries], [4 * queries; 3], 4 * (n - queries));
            self.queries(ctx, layer, &ctx.rows(&normed, n - queries, queries), &last)
        };
        for recorder in &rows.recorders {
            observe(ctx, self.heads, (&q, positions), &stored, recorder, &state, effects);
        }
        if attending == 0 {
            return stored;
        }
        let q = match queries {
            _ if queries == attending => q,
            _ => {
                let [_, head, token, last] = q.strides();
                let shape = [q.dim(0), q.dim(1), attending];
                ctx.view(&q, shape, [head, token, last], (queries - attending) * token)
            }
        };
        let attended = graph::attend(
            ctx,
            self.heads,
            &q,
            (&stored, n),
            &rows.lanes,
            &state,
            self.splits[self.placement.of(layer) as usize],
        )
        .named(&format!("kqv_out-{layer}"))
        .kept(self.trace); // [heads * head_dim, n or 1]
        let w = self.matrices(layer, attended.dim(1));
        let mut out = ctx.mul_mat(&w.wo, &attended);
        if let Some(bias) = &w.bo {
            out = ctx.add(&out, bias);
        }
        let x = match needed {
            Needed::Last => &ctx.rows(x, n - 1, 1),
            _ => x,
        };
        let x = ctx.add(&out, x).named(&format!("ffn_inp-{layer}")).kept(self.trace);

        let normed = self.norm(ctx, &x, &w.ffn_norm).named(&format!("ffn_norm-{layer}")).kept(self.trace);
        let gate = ctx.mul_mat(&w.ffn_gate, &normed); // [n_ff, n]
        let up = ctx.mul_mat(&w.ffn_up, &normed); // [n_ff, n]
        let hidden = ctx.swiglu(&gate, &up);
        let out = ctx.mul_mat(&w.ffn_down, &hidden).named(&format!("ffn_out-{layer}")).kept(self.trace);
        ctx.add(&out, &x).named(&format!("l_out-{layer}")).kept(self.trace)
    }

    /// The whole model for `n` tokens against the rows of every layer: the logits of the needed tokens. One formula for each place
    /// with something to do; a formula's result is the next one's [`Inputs::stream`].
    pub fn model(
        &self,
        n: usize,
        needed: Needed,
        rows: impl Fn(usize) -> LayerRows,
    ) -> Vec<(Place, Formula)> {
        let all = self.weights.narrow.layers.len();
        let on_device = !self.placement.layers(Place::Device).is_empty();
        let places = Place::ALL.into_iter().filter(|place| on_device || *place == Place::Host);
        let formula_of = |place: Place| {
            let layers = self.placement.layers(place);
            let ctx = Context::new(LAYER_TENSORS * (layers.len() + 1));
            let inputs = self.inputs(&ctx, n);
            let mut effects = Vec::new();
            let mut x = match place {
                Place::Host => self.embed(&ctx, &inputs.tokens),
                Place::Device => inputs.stream.clone(),
            };
            for layer in layers.clone() {
                let needed = if layer + 1 == all { needed } else { Needed::All };
                x = self.layer(&ctx, layer, &x, &inputs, &rows(layer), needed, &mut effects);
            }
            let result = match (layers.end == all && place == self.placement.of_output(), needed) {
                (true, Needed::None) => x,
                (true, _) => self.logits(&ctx, &x),
                (false, _) => x.output(),
            };
            (place, Formula { ctx, inputs, result, effects })
        };
        places.map(formula_of).collect()
    }

    /// One layer for the tokens `at..at + len` of a text whose residual stream `[n_embd, n]` lies in `residual`: as
    /// [`Forward::model`]. With [`Needed::All`] the stream is updated, with [`Needed::Last`] the result is the logits of the last
    /// token.
    pub fn layer_of_text(
        &self,
        layer: usize,
        (residual, at, len): (&Tensor, usize, usize),
        rows: &LayerRows,
        needed: Needed,
    ) -> Formula {
        let ctx = Context::new(LAYER_TENSORS);
        let inputs = self.inputs(&ctx, len);
        let n_embd = residual.dim(0);
        let mine = ctx.view(residual, [n_embd, len], [4 * n_embd; 3], 4 * n_embd * at);
        let mut effects = Vec::new();
        let x = self.layer(&ctx, layer, &mine, &inputs, rows, needed, &mut effects);
        let result = match needed {
            Needed::All => ctx.copy(&x, &mine),
            Needed::Last => self.logits(&ctx, &x),
            Needed::None => x,
        };
        Formula { ctx, inputs, result, effects }
    }

    /// Queries `[head_dim, heads, n]` of a layer after RoPE, for the tokens `at..at + len` of a text: as
    /// [`Forward::layer_of_text`].
    pub fn queries_of_text(&self, layer: usize, (residual, at, len): (&Tensor, usize, usize)) -> Formula {
        let ctx = Context::new(LAYER_TENSORS);
        let inputs = self.inputs(&ctx, len);
        let n_embd = residual.dim(0);
        let x = ctx.view(residual, [n_embd, len], [4 * n_embd; 3], 4 * n_embd * at);
        let x = self.norm(&ctx, &x, &self.weights.narrow.layers[layer].attn_norm);
        let result = self.queries(&ctx, layer, &x, &inputs.positions).output();
        Formula { ctx, inputs, result, effects: Vec::new() }
    }

    /// Logits [n_vocab, n] of the last layer's output `x` [n_embd, n].
    pub fn logits(&self, ctx: &Context, x: &Tensor) -> Tensor {
        let x = self.norm(ctx, x, &self.weights.narrow.output_norm).named("result_norm").kept(self.trace);
        ctx.mul_mat(&self.weights.output, &x).named("result_output").output()
    }

    fn norm(&self, ctx: &Context, x: &Tensor, weight: &Tensor) -> Tensor {
        ctx.mul(&ctx.rms_norm(x, self.epsilon), weight)
    }
}

/// RoPE as ggml takes it.
fn rope_parameters(rope: &Rope, n_ctx_train: usize) -> RopeParameters {
    let numbers = rope.scaling.numbers(n_ctx_train);
    RopeParameters {
        dims: rope.n_dims,
        mode: match rope.style {
            RopeStyle::Norm => RopeMode::Norm,
            RopeStyle::Neox => RopeMode::Neox,
        },
        base: rope.base,
        frequency_scale: numbers.freq_scale,
        original_context: numbers.original_ctx,
        ext_factor: numbers.ext_factor,
        attention_factor: numbers.attn_factor,
        beta_fast: numbers.beta_fast,
        beta_slow: numbers.beta_slow,
    }
}

/// What policies ask for of the queries `q` [head_dim, heads, n_q] of the last tokens of `positions` [n], whose rows were
/// written before `stored` was computed: nodes that stand for it are added to `effects`.
pub fn observe(
    ctx: &Context,
    shape: HeadShape,
    (q, positions): (&Tensor, &Tensor),
    stored: &Tensor,
    recorder: &AttentionRecorder,
    state: &LaneState,
    effects: &mut Vec<Tensor>,
) {
    if let Some(ring) = &recorder.queries {
        effects.push(graph::remember(ctx, (q, positions), ring));
    }
    let Some(accumulator) = &recorder.accumulator else { return };
    let (n, gathered) = (positions.dim(0), accumulator.accumulation);
    let (queries, replace) = match gathered.chunk {
        _ if n == 1 => (1, !gathered.steps_add),
        Some(CountedQueries::All) => (n, false),
        Some(CountedQueries::Last) => (1, true),
        None => return,
    };
    effects.extend(graph::gather(
        ctx,
        shape,
        (q, positions),
        (stored, n),
        (&accumulator.lane, accumulator.lane_index),
        accumulator.heads.clone(),
        state,
        Gather { queries, replace, gain: gathered.gain },
    ));
}
