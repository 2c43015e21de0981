//! The forward pass: one loop for all architectures. Architectures differ in which tensors exist (biases, norms) and in
//! how a layer's parts are connected. They also differ in the feed-forward network (`feed_forward`) and in how
//! positions enter (RoPE, ALiBi in attention, or learned positions). The caller chooses the lanes that hold keys and
//! values.

mod experts;
mod feed_forward;
mod latent;
mod per_layer;
mod recurrent;
mod rotation;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use ggml::{Context, Graph, RopeMode, RopeParameters, Tensor, Type};
use kernels::graph::{
    self, AccumulatingLane, Accumulation, Appended, AttentionShape, LaneInputs, MAX_LANES, QueryHeads, Split,
};
use models::arch::{NormKind, QkNorm, RopeStyle};
use models::spec::{
    AttentionTemperature, AttentionTensors, LayerTensors, MixerTensors, ModelSpec, Rope, RopeScaling,
};

use self::rotation::Rotations;
use crate::kv::policy::CountedQueries;
use crate::kv::{AttentionRecorder, LaneValues, LayerRows, attention_shape};
use crate::placement::{Place, Placement};
use crate::weights::Weights;

/// The tokens whose outputs a graph computes. Keys and values are always computed for all tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputTokens {
    /// All tokens.
    All,
    /// The last token: enough to continue a text.
    Last,
    /// No token: the graph only writes keys and values.
    None,
}

impl OutputTokens {
    /// How many of `n` tokens they are.
    fn count(self, n: usize) -> usize {
        match self {
            OutputTokens::All => n,
            OutputTokens::Last => 1,
            OutputTokens::None => 0,
        }
    }
}

/// A part of a text whose residual stream is kept between layers.
#[derive(Clone, Copy)]
pub struct TextChunk<'a> {
    /// `[n_embd, columns]` f32: the residual stream of the whole text, in the slots of `scratch::Residual`.
    pub residual: &'a Tensor,
    /// The first column of what the layer gets.
    pub from: usize,
    /// The first column of what it gives. Other columns than those before: a layer can be computed again.
    pub to: usize,
    /// Tokens of the chunk.
    pub len: usize,
}

impl TextChunk<'_> {
    /// What the layer gets: `[n_embd, len]`.
    fn input(&self, ctx: &Context) -> Tensor {
        self.view(ctx, self.from)
    }

    /// Where what it gives is written: `[n_embd, len]`.
    fn output(&self, ctx: &Context) -> Tensor {
        self.view(ctx, self.to)
    }

    fn view(&self, ctx: &Context, first: usize) -> Tensor {
        let n_embd = self.residual.dim(0);
        ctx.view(self.residual, [n_embd, self.len], [4 * n_embd; 3], 4 * n_embd * first)
    }
}

/// The inputs of a graph: tensors that are filled before each computation.
pub struct Inputs {
    /// `[n]` i32: token ids. Used where the graph looks up embeddings.
    pub tokens: Tensor,
    /// `[n_embd, n]` f32: the residual stream. Used where an earlier graph, in another place, computed it.
    pub residual: Tensor,
    /// `[n]` i32: positions of the tokens.
    pub positions: Tensor,
    /// `[n]` f32: factors of the queries, where the model scales them by position.
    pub query_factors: Option<(Tensor, AttentionTemperature)>,
    /// Live rows and log-weights of all lanes.
    pub state: LaneInputs,
    /// Fixed matrices.
    rotations: Rotations,
    /// `[n_embd, n]`: embeddings of the tokens, once they are looked up.
    embeddings: OnceCell<Tensor>,
}

impl Inputs {
    /// Inputs for `n` tokens of a model.
    fn new(ctx: &Context, spec: &ModelSpec, n: usize) -> Inputs {
        let positions = ctx.input("positions", Type::I32, [n]);
        Inputs {
            tokens: ctx.input("tokens", Type::I32, [n]),
            residual: ctx.input("residual", Type::F32, [spec.n_embd, n]),
            positions: positions.clone(),
            query_factors: (spec.attention_temperature)
                .map(|temperature| (ctx.input("query_factors", Type::F32, [n]), temperature)),
            state: LaneInputs {
                rows: ctx.input("rows", Type::I32, [MAX_LANES, spec.n_layers]),
                log_weights: ctx.input("log_weights", Type::F32, [MAX_LANES, spec.n_layers]),
                positions,
                layer: 0,
            },
            rotations: Rotations::default(),
            embeddings: OnceCell::new(),
        }
    }

    /// Fills the inputs for `tokens`, whose positions are consecutive and begin at `first`. Inputs that the
    /// graph does not use have no memory and are skipped. The residual stream is left to the caller.
    pub fn fill(&self, tokens: &[u32], first: usize, lanes: &LaneValues) -> Result<(), ggml::Error> {
        if self.tokens.is_allocated() {
            self.tokens.write(0, &tokens.iter().map(|token| *token as i32).collect::<Vec<_>>())?;
        }
        if self.positions.is_allocated() {
            self.positions.write(0, &(first as i32..).take(tokens.len()).collect::<Vec<_>>())?;
        }
        if let Some((factors, temperature)) = &self.query_factors
            && factors.is_allocated()
        {
            let of_tokens = (first..first + tokens.len()).map(|position| temperature.factor(position));
            factors.write(0, &of_tokens.collect::<Vec<f32>>())?;
        }
        lanes.write(&self.state)
    }
}

/// A graph whose tensors are built but not yet allocated.
pub struct BuiltGraph {
    /// Owns the tensors.
    pub ctx: Context,
    /// What must be filled before each computation.
    pub inputs: Inputs,
    /// The output; with [`OutputTokens::None`] a tensor without data that depends on the writing of keys and
    /// values.
    pub result: Tensor,
    /// Tensors without data. Computing them stores queries and accumulates attention for the policies.
    pub effects: Vec<Tensor>,
    /// `[n_embd, n]` f32: where the stages of the graph end but for the last one. What such a tensor holds then is for
    /// the graph of the other place, whose next stage gives what it must hold before the next stage here.
    pub exchanges: Vec<Tensor>,
}

/// A graph that is being built.
struct Draft {
    ctx: Context,
    inputs: Inputs,
    effects: Effects,
    exchanges: Vec<Tensor>,
    /// What was computed for the other place since it last handed something over.
    sent: Option<Tensor>,
    /// Whether what is handed over stays readable.
    trace: bool,
}

impl Draft {
    /// What the other place hands over for `n` tokens, `[n_embd, n]`. A stage ends with what is computed for it.
    fn receive(&mut self, n: usize) -> Tensor {
        let received = match self.sent.take() {
            Some(sent) => {
                let exchange = self.ctx.exchange(&sent);
                let exchange = if self.trace { exchange.output() } else { exchange };
                self.exchanges.push(exchange.clone());
                exchange
            }
            None => self.inputs.residual.clone(),
        };
        self.ctx.rows(&received, 0, n)
    }

    /// The graph that computes `result`.
    fn finish(self, result: Tensor) -> BuiltGraph {
        let Draft { ctx, inputs, effects, exchanges, .. } = self;
        BuiltGraph { ctx, inputs, result, effects: effects.nodes, exchanges }
    }
}

impl BuiltGraph {
    /// The graph that computes the result and all effects.
    pub fn graph(&self) -> Result<Graph, ggml::Error> {
        let results: Vec<&Tensor> = self.effects.iter().chain([&self.result]).collect();
        self.ctx.graph(&results)
    }
}

/// What a graph computes beside its result.
#[derive(Default)]
struct Effects {
    /// As [`BuiltGraph::effects`].
    nodes: Vec<Tensor>,
    /// For each layer that has appended rows the node that did.
    appended: BTreeMap<usize, Tensor>,
}

/// How many workers an attention operation is split over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    /// Threads on the host.
    pub threads: usize,
    /// Blocks on the device.
    pub blocks: usize,
}

/// Builds the graphs of a loaded model.
#[derive(Clone)]
pub struct Forward {
    spec: ModelSpec,
    weights: Weights,
    /// `[n_layers]`
    heads: Vec<AttentionShape>,
    /// `[n_layers]`: `None` for layers without RoPE, such as those of models with ALiBi, whose attention reads the
    /// lanes' positions instead.
    ropes: Vec<Option<RopeParameters>>,
    /// Whether contexts are longer than that of LongRoPE's original training.
    long_context: bool,
    placement: Placement,
    /// How attention is split, by [`Place`].
    splits: [Split; 2],
    /// Whether intermediates stay readable after the computation.
    trace: bool,
}

/// Names of a layer's intermediates in the order of computation. A tensor's name is one of these, `-` and the
/// layer's number. Graphs that are traced keep some more, most of them under the names of weights.
pub const INTERMEDIATES: [&str; 9] =
    ["attn_norm", "Kcur", "Vcur", "Qcur", "kqv_out", "ffn_inp", "ffn_norm", "ffn_out", "l_out"];

/// Name of the output matrix's input, `[n_embd, n]`, which stays readable after the computation.
pub const RESULT_NORM: &str = "result_norm";

/// From this number of tokens on, products read the file's layout, which is then faster than the repacked one.
const PREFILL_MIN_TOKENS: usize = 32;

/// Maximum number of tensors in a layer's graph, without those of recorders and experts.
const LAYER_TENSORS: usize = 128;

/// Maximum number of tensors that experts add to a layer's graph, without those of adding up what they give.
const EXPERT_TENSORS: usize = 96;

/// Maximum number of tensors that [`record_attention`] makes: stored queries, and an accumulation for each lane.
const RECORDER_TENSORS: usize = 1 + MAX_LANES;

impl Forward {
    /// Builds graphs for the model `spec` with `weights`, which must be where `placement` says.
    pub fn new(spec: &ModelSpec, weights: Weights, placement: Placement, workers: Workers) -> Forward {
        Forward {
            spec: spec.clone(),
            weights,
            heads: (0..spec.n_layers).map(|layer| attention_shape(spec, layer)).collect(),
            ropes: (0..spec.n_layers)
                .map(|layer| spec.rope(layer).map(|rope| rope_parameters(rope, spec.n_ctx_train)))
                .collect(),
            long_context: false,
            placement,
            splits: [Split::Threads(workers.threads), Split::Blocks(workers.blocks)],
            trace: false,
        }
    }

    /// The numbers of tokens, at most `chunk`, for which attention on the device has the most partial results in some
    /// layer; none where rows are never split. See [`graph::max_partials_tokens`].
    pub fn max_partials_tokens(&self, chunk: usize) -> BTreeSet<usize> {
        let [_, device] = self.splits;
        self.heads.iter().filter_map(|heads| graph::max_partials_tokens(*heads, device, chunk)).collect()
    }

    /// Makes graphs built from now on keep their intermediates readable. They then take more memory.
    pub fn trace(&mut self) {
        self.trace = true;
    }

    /// The same with [`Forward::trace`].
    pub fn traced(&self) -> Forward {
        Forward { trace: true, ..self.clone() }
    }

    /// The weights.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The heads of a layer and their size.
    pub fn heads(&self, layer: usize) -> AttentionShape {
        self.heads[layer]
    }

    /// The learned logits of a layer's query heads, `[heads]`, where the model has them.
    pub fn attention_sinks(&self, layer: usize) -> Option<Tensor> {
        self.weights.decode_layout.layers[layer].mixer.attention()?.sinks.clone()
    }

    /// The same for sessions of `context` tokens at most.
    pub fn for_context(&self, context: usize) -> Forward {
        Forward { long_context: self.is_long(context), ..self.clone() }
    }

    /// Whether keys are rotated as in contexts longer than that of the original training (LongRoPE).
    pub fn is_long(&self, context: usize) -> bool {
        match self.spec.position_encoding.rope().map(|rope| rope.scaling) {
            Some(RopeScaling::Long { original_ctx, .. }) => context > original_ctx,
            _ => false,
        }
    }

    /// Embeddings of the tokens: `[n_embd, n]`. A graph looks them up once.
    fn embed(&self, ctx: &Context, inputs: &Inputs) -> Tensor {
        inputs.embeddings.get_or_init(|| self.look_up(ctx, inputs)).clone()
    }

    fn look_up(&self, ctx: &Context, inputs: &Inputs) -> Tensor {
        let w = &self.weights.decode_layout.input;
        let mut x = ctx.get_rows(&w.token_embd, &inputs.tokens);
        x = scaled(ctx, x, self.spec.embedding_scale);
        if let Some(positions) = &w.position_embd {
            x = ctx.add(&x, &ctx.get_rows(positions, &inputs.positions));
        }
        if let Some(weight) = &w.norm {
            x = self.norm(ctx, &x, weight, w.norm_bias.as_ref());
        }
        self.keep_if_tracing(x.named("embd"))
    }

    /// A layer's weights in the layout that is faster for `n` tokens.
    fn matrices(&self, layer: usize, n: usize) -> &LayerTensors<Tensor> {
        let prefill = n >= PREFILL_MIN_TOKENS;
        let weights = if prefill { &self.weights.prefill_layout } else { &self.weights.decode_layout };
        &weights.layers[layer]
    }

    /// An empty graph for `n` tokens, with room for so many tensors.
    fn draft(&self, tensors: usize, n: usize) -> Draft {
        let ctx = Context::new(tensors);
        let inputs = Inputs::new(&ctx, &self.spec, n);
        Draft {
            ctx,
            inputs,
            effects: Effects::default(),
            exchanges: Vec::new(),
            sent: None,
            trace: self.trace,
        }
    }

    /// The graph that looks up the embeddings of `n` tokens: `[n_embd, n]`.
    pub fn embedding_graph(&self, n: usize) -> BuiltGraph {
        let draft = self.draft(LAYER_TENSORS, n);
        let result = self.embed(&draft.ctx, &draft.inputs).output();
        draft.finish(result)
    }

    /// The graph that looks up the embeddings that layers have of their own, of `n` tokens:
    /// `[n_layers * per_layer_width, n]`. `None` where the model has none.
    pub fn per_layer_embedding_graph(&self, n: usize) -> Option<BuiltGraph> {
        let table = self.weights.decode_layout.input.per_layer_embd.as_ref()?;
        let draft = self.draft(LAYER_TENSORS, n);
        let result = draft.ctx.get_rows(table, &draft.inputs.tokens).output();
        Some(draft.finish(result))
    }

    /// Maximum number of tensors in a layer's graph, without those of recorders.
    fn layer_tensors(&self) -> usize {
        LAYER_TENSORS + self.spec.experts.map_or(0, |experts| EXPERT_TENSORS + 2 * experts.used)
    }

    /// The input of a layer's attention `[n_embd, n]`, for the layer's input `x` `[n_embd, n]`.
    fn attention_input(&self, ctx: &Context, layer: usize, x: &Tensor) -> Tensor {
        let w = &self.weights.decode_layout.layers[layer];
        match &w.attn_norm {
            Some(weight) => {
                self.intermediate("attn_norm", layer, self.norm(ctx, x, weight, w.attn_norm_bias.as_ref()))
            }
            None => x.clone(),
        }
    }

    /// The weights of a layer that attends, in the layout that is faster for `n` tokens.
    fn attention_weights(&self, layer: usize, n: usize) -> Option<&AttentionTensors<Tensor>> {
        self.matrices(layer, n).mixer.attention()
    }

    /// Queries of a layer after RoPE, `[head_dim, heads, n]`, for attention's input `x` `[n_embd, n]`, which belongs to
    /// the last n of the tokens of `inputs`. Where the model has a gate, it is the second, `[heads * head_dim, n]`.
    fn queries(&self, ctx: &Context, layer: usize, x: &Tensor, inputs: &Inputs) -> (Tensor, Option<Tensor>) {
        let n = x.dim(1);
        let Some(w) = self.attention_weights(layer, n) else { return (refuse_recurrent(ctx, layer), None) };
        let positions = last_of(ctx, &inputs.positions, n);
        let (q, gate) = match &w.latent {
            Some(latent) => (self.latent_queries(ctx, layer, (&w.wq, latent), x, &positions), None),
            None => {
                let q = self.project(ctx, layer, &w.wq, w.bq.as_ref(), x);
                let (q, gate) = self.split_gate(ctx, layer, q);
                (self.norm_and_rope(ctx, layer, q, w.q_norm.as_ref(), &positions), gate)
            }
        };
        let q = match &inputs.query_factors {
            Some((factors, _)) => ctx.mul(&q, &ctx.reshape(&last_of(ctx, factors, n), [1, 1, n])),
            None => q,
        };
        (self.intermediate("Qcur", layer, q), gate)
    }

    /// The queries and gates `[heads * head_dim, n]` in a projection `y`, where the model has gates.
    fn split_gate(&self, ctx: &Context, layer: usize, y: Tensor) -> (Tensor, Option<Tensor>) {
        if !self.spec.attention_gate() {
            return (y, None);
        }
        let (d, heads, n) = (self.heads[layer].head_dim, self.spec.n_heads, y.dim(1));
        let row = 4 * 2 * d;
        let part = |first: usize| {
            let part = ctx.view(&y, [d, heads, n], [row, row * heads, row * heads * n], 4 * first);
            ctx.reshape(&ctx.cont(&part), [d * heads, n])
        };
        (part(0), Some(part(d)))
    }

    /// Keys of a layer after RoPE and its values, `[head_dim, kv_heads, n]` each. `x` `[n_embd, n]` is attention's
    /// input, at `positions` `[n]`. With latent attention the keys are also the values, of which the first elements
    /// count.
    fn keys_and_values(&self, ctx: &Context, layer: usize, x: &Tensor, positions: &Tensor) -> [Tensor; 2] {
        let Some(w) = self.attention_weights(layer, x.dim(1)) else {
            return [(); 2].map(|()| refuse_recurrent(ctx, layer));
        };
        let Some(wk) = &w.wk else {
            return [(); 2].map(|()| ctx.refuse("attention", format!("layer {layer} has no keys")));
        };
        let projected = self.project(ctx, layer, wk, w.bk.as_ref(), x);
        if let Some(latent) = &w.latent {
            let rows =
                self.intermediate("Kcur", layer, self.latent_rows(ctx, layer, latent, &projected, positions));
            return [rows.clone(), rows];
        }
        let k = self.norm_and_rope(ctx, layer, projected.clone(), w.k_norm.as_ref(), positions);
        let k = self.intermediate("Kcur", layer, k);
        let v = match &w.wv {
            Some(wv) => self.project(ctx, layer, wv, w.bv.as_ref(), x),
            None => projected,
        };
        let v = self.split_heads(ctx, layer, &v);
        let v = if self.spec.arch.decl().value_norm { ctx.rms_norm(&v, self.spec.norm_eps) } else { v };
        [k, self.intermediate("Vcur", layer, v)]
    }

    /// matrix · x + bias, clamped where the model does: `[heads * head_dim, n]`.
    fn project(
        &self,
        ctx: &Context,
        layer: usize,
        matrix: &Tensor,
        bias: Option<&Tensor>,
        x: &Tensor,
    ) -> Tensor {
        let y = self.with_bias(ctx, self.product(ctx, layer, matrix, x), bias);
        match self.spec.clamp_qkv {
            Some(bound) => ctx.clamp(&y, bound),
            None => y,
        }
    }

    /// `[heads * head_dim, n]` as `[head_dim, heads, n]`.
    fn split_heads(&self, ctx: &Context, layer: usize, y: &Tensor) -> Tensor {
        let head_dim = self.heads[layer].head_dim;
        ctx.reshape(y, [head_dim, y.dim(0) / head_dim, y.dim(1)])
    }

    /// matrix · x, for a matrix of a layer.
    fn product(&self, ctx: &Context, layer: usize, matrix: &Tensor, x: &Tensor) -> Tensor {
        self.result_of(matrix, self.multiply(ctx, layer, matrix, x))
    }

    /// The same without a name.
    fn multiply(&self, ctx: &Context, layer: usize, matrix: &Tensor, x: &Tensor) -> Tensor {
        let many = x.dim(1) >= PREFILL_MIN_TOKENS && self.placement.of(layer) == Place::Host;
        match many && graph::multiplies(matrix, x.dim(1)) {
            true => graph::multiply(ctx, matrix, x),
            false => ctx.mul_mat(matrix, x),
        }
    }

    fn with_bias(&self, ctx: &Context, x: Tensor, bias: Option<&Tensor>) -> Tensor {
        match bias {
            Some(bias) => self.result_of(bias, ctx.add(&x, bias)),
            None => x,
        }
    }

    /// While tracing, names a result after the weight with which it was computed.
    fn result_of(&self, weight: &Tensor, result: Tensor) -> Tensor {
        if self.trace { self.keep_if_tracing(result.named(&weight.name())) } else { result }
    }

    /// Splits `[heads * head_dim, n]` into heads `[head_dim, heads, n]`, with the norm and the RoPE that the
    /// model has.
    fn norm_and_rope(
        &self,
        ctx: &Context,
        layer: usize,
        y: Tensor,
        norm: Option<&Tensor>,
        positions: &Tensor,
    ) -> Tensor {
        let normed = |x: Tensor, kinds: &[QkNorm]| match (norm, self.spec.qk_norm) {
            (Some(weight), Some(kind)) if kinds.contains(&kind) => {
                self.result_of(weight, self.norm(ctx, &x, weight, None))
            }
            _ => x,
        };
        let y = normed(y, &[QkNorm::Whole]);
        let heads = normed(self.split_heads(ctx, layer, &y), &[QkNorm::Head, QkNorm::EachHead]);
        normed(self.rotated(ctx, layer, heads, positions), &[QkNorm::HeadAfterRope])
    }

    /// `heads` `[.., heads, n]` with the layer's RoPE at `positions` `[n]`.
    fn rotated(&self, ctx: &Context, layer: usize, heads: Tensor, positions: &Tensor) -> Tensor {
        match &self.ropes[layer] {
            Some(rope) => ctx.rope(&heads, positions, self.rope_factors(layer), rope),
            None => heads,
        }
    }

    /// What divides RoPE's frequencies in a layer.
    fn rope_factors(&self, layer: usize) -> Option<&Tensor> {
        if !self.spec.has_rope_factors(layer) {
            return None;
        }
        let factors = &self.weights.rope_factors[self.placement.of(layer) as usize];
        let by_context = if self.long_context { &factors.long } else { &factors.short };
        factors.all.as_ref().or(by_context.as_ref())
    }

    /// What attention adds for the tokens `outputs`, `[n_embd, n or 1]`, and a tensor that depends on the appended
    /// rows: see [`Forward::layer`]. `normed` `[n_embd, n]` is its input. A layer that attends to the rows of another
    /// one appends none.
    #[allow(clippy::too_many_arguments)]
    fn attention(
        &self,
        ctx: &Context,
        layer: usize,
        normed: &Tensor,
        inputs: &Inputs,
        rows: &LayerRows,
        outputs: OutputTokens,
        effects: &mut Effects,
    ) -> (Option<Tensor>, Tensor) {
        let (n, heads, of_layer) = (normed.dim(1), self.heads[layer], self.spec.kv_layer(layer));
        let state = LaneInputs { layer: of_layer, ..inputs.state.clone() };
        let rotation = inputs.rotations.of_lanes(ctx, &rows.lanes, heads.head_dim);
        let stored = match (of_layer == layer, effects.appended.get(&of_layer)) {
            (true, _) => {
                let [k, v] = self.keys_and_values(ctx, layer, normed, &inputs.positions);
                let v = if v.is_same(&k) { None } else { Some(rotation.of_values(ctx, v)) };
                let k = rotation.of_keys(ctx, k);
                let v = v.unwrap_or_else(|| k.clone());
                let stored = graph::append(ctx, (&k, &v), &rows.lanes, &state);
                effects.appended.insert(layer, stored.clone());
                stored
            }
            (false, Some(stored)) => stored.clone(),
            // An earlier graph has appended them.
            (false, None) => state.rows.clone(),
        };

        // Queries are computed for the last tokens only: those that attend, and those that a policy asks for.
        let attending = outputs.count(n);
        let queries = attending.max(rows.recorded_queries(n));
        let sinks = self.attention_sinks(layer);
        if queries == 0 {
            // The rows that this layer attends to may have been appended before those of others.
            return (None, if of_layer == layer { stored } else { normed.clone() });
        }
        let (q, gate) = match queries == n {
            true => self.queries(ctx, layer, normed, inputs),
            false => self.queries(ctx, layer, &ctx.rows(normed, n - queries, queries), inputs),
        };
        let q = rotation.of_keys(ctx, q);
        for recorder in &rows.recorders {
            let queries = QueryHeads { q: &q, sinks: sinks.as_ref() };
            record_attention(ctx, heads, queries, &stored, recorder, &state, &mut effects.nodes);
        }
        if attending == 0 {
            return (None, stored);
        }
        let q = if queries == attending {
            q
        } else {
            let [_, head, token, last] = q.strides();
            let shape = [q.dim(0), q.dim(1), attending];
            ctx.view(&q, shape, [head, token, last], (queries - attending) * token)
        };
        let attended = graph::attend(
            ctx,
            heads,
            QueryHeads { q: &q, sinks: sinks.as_ref() },
            Appended { node: &stored, rows: n },
            &rows.lanes,
            &state,
            self.splits[self.placement.of(layer) as usize],
        );
        let attended = rotation.of_values(ctx, attended);
        // [heads * head_dim, n or 1]
        let Some(w) = self.attention_weights(layer, attending) else { return (None, stored) };
        let attended = match (&self.spec.latent, &w.wv, gate) {
            (Some(latent), Some(values), _) => self.latent_values(ctx, layer, latent, values, &attended),
            (_, _, Some(gate)) => {
                ctx.mul(&attended, &ctx.sigmoid(&ctx.rows(&gate, queries - attending, attending)))
            }
            _ => attended,
        };
        let attended = self.intermediate("kqv_out", layer, attended);
        let out = self.with_bias(ctx, self.product(ctx, layer, &w.wo, &attended), w.bo.as_ref());
        (Some(out), stored)
    }

    /// One layer for input `x` `[n_embd, n]`, in the graph of its place among `drafts`. Keys and values are appended
    /// to the live rows of `rows`. Returns the layer's output `[n_embd, n or 1]` for the tokens `outputs`; with
    /// [`OutputTokens::None`] a tensor that depends on the appended rows, whose data mean nothing. Adds the nodes that
    /// [`record_attention`] gives to the effects, and those that write the states of a recurrent layer.
    fn layer(
        &self,
        drafts: &mut [Draft; 2],
        layer: usize,
        x: &Tensor,
        rows: &LayerRows,
        outputs: OutputTokens,
    ) -> Tensor {
        let n = x.dim(1);
        let Draft { ctx, inputs, effects, .. } = &mut drafts[self.placement.of(layer) as usize];
        let ctx = &ctx.clone();
        let normed = self.attention_input(ctx, layer, x);
        let (out, stored) = match &self.matrices(layer, n).mixer {
            MixerTensors::Attention(_) => self.attention(ctx, layer, &normed, inputs, rows, outputs, effects),
            MixerTensors::Recurrent(w) => {
                self.recurrent(ctx, layer, w, &normed, rows, outputs, &mut effects.nodes)
            }
        };
        let Some(out) = out else { return stored };
        let w = self.matrices(layer, out.dim(1));
        let out = self.branch(ctx, out, w.attn_post_norm.as_ref());
        let of_outputs = |x: &Tensor| match outputs {
            OutputTokens::Last => ctx.rows(x, n - 1, 1),
            _ => x.clone(),
        };
        let x = of_outputs(x);
        let sum = self.intermediate("ffn_inp", layer, ctx.add(&out, &x));

        let input = match (&w.ffn_norm, self.spec.block.parallel) {
            (Some(weight), parallel) => {
                let from = if parallel { &x } else { &sum };
                self.intermediate("ffn_norm", layer, self.norm(ctx, from, weight, w.ffn_norm_bias.as_ref()))
            }
            (None, true) => of_outputs(&normed),
            (None, false) => sum.clone(),
        };
        let out = self.feed_forward(drafts, layer, &w.network, &input, &sum);
        let out = self.branch(ctx, out, w.ffn_post_norm.as_ref());
        let mut x = ctx.add(&out, &sum);
        if let Some(w) = &w.per_layer {
            let inputs = &drafts[self.placement.of(layer) as usize].inputs;
            x = ctx.add(&x, &self.per_layer(ctx, layer, w, &x, inputs));
        }
        if let Some(scale) = &w.output_scale {
            x = ctx.mul(&x, scale);
        }
        self.intermediate("l_out", layer, x)
    }

    /// What attention or the feed-forward network adds to the residual stream: normed and scaled as the model
    /// does.
    fn branch(&self, ctx: &Context, out: Tensor, norm: Option<&Tensor>) -> Tensor {
        let out = match norm {
            Some(weight) => self.result_of(weight, self.norm(ctx, &out, weight, None)),
            None => out,
        };
        scaled(ctx, out, self.spec.residual_scale)
    }

    /// The whole model for `n` tokens with the lanes `rows(layer)`: computes the logits of the tokens
    /// `outputs`. There is one graph for the host and, if layers are on the device, one for the device. Their stages
    /// take turns and hand over activations `[n_embd, n or 1]`: see [`BuiltGraph::exchanges`]. The first stage of a
    /// graph gets them as [`Inputs::residual`], and the last one gives its result.
    pub fn model_graphs(
        &self,
        n: usize,
        outputs: OutputTokens,
        rows: impl Fn(usize) -> LayerRows,
    ) -> Vec<(Place, BuiltGraph)> {
        let n_layers = self.weights.decode_layout.layers.len();
        let rows: Vec<LayerRows> =
            (0..n_layers).map(|layer| LayerRows::of_layer(&self.spec, layer, &rows)).collect();
        let mut drafts = Place::ALL.map(|place| {
            let layers = self.placement.layers(place);
            let recorders: usize = rows[layers.clone()].iter().map(|rows| rows.recorders.len()).sum();
            let split =
                if place == Place::Host { self.placement.split_layers(&self.spec).count() } else { 0 };
            let layers = layers.len() + split;
            let tensors = self.layer_tensors() * (layers + 1) + RECORDER_TENSORS * recorders;
            self.draft(tensors, n)
        });
        let host = &drafts[Place::Host as usize];
        let (mut place, mut x) = (Place::Host, self.embed(&host.ctx, &host.inputs));
        for (layer, rows) in rows.iter().enumerate() {
            if self.placement.of(layer) != place {
                drafts[place as usize].sent = Some(x);
                place = self.placement.of(layer);
                x = drafts[place as usize].receive(n);
            }
            let outputs = if layer + 1 == n_layers { outputs } else { OutputTokens::All };
            x = self.layer(&mut drafts, layer, &x, rows, outputs);
        }
        let result = match outputs {
            OutputTokens::None => x,
            _ => self.logits(&drafts[place as usize].ctx, &x),
        };
        self.finish(drafts, place, result)
    }

    /// One layer for a chunk of a text. `rows` are those that it writes or, where it attends to another layer's, only
    /// reads. With [`OutputTokens::All`] the graph writes what it gives to the residual stream. With
    /// [`OutputTokens::Last`] the result is the logits of the last token, and the layer must be the last one. If the
    /// layer's experts are in another place, a second graph computes them there. Stages are as those of
    /// [`Forward::model_graphs`].
    pub fn layer_graphs(
        &self,
        layer: usize,
        chunk: TextChunk,
        rows: &LayerRows,
        outputs: OutputTokens,
    ) -> Vec<(Place, BuiltGraph)> {
        let place = self.placement.of(layer);
        let recorders = RECORDER_TENSORS * rows.recorders.len();
        let mut drafts = Place::ALL.map(|_| self.draft(self.layer_tensors() + recorders, chunk.len));
        let ctx = drafts[place as usize].ctx.clone();
        let x = self.layer(&mut drafts, layer, &chunk.input(&ctx), rows, outputs);
        let result = match outputs {
            OutputTokens::All => ctx.copy(&x, &chunk.output(&ctx)),
            OutputTokens::Last => self.logits(&ctx, &x),
            OutputTokens::None => x,
        };
        self.finish(drafts, place, result)
    }

    /// The graphs that compute `result`, which belongs to that of `place`, in the order of their first stages.
    fn finish(&self, drafts: [Draft; 2], place: Place, result: Tensor) -> Vec<(Place, BuiltGraph)> {
        let graphs = Place::ALL.into_iter().zip(drafts).filter_map(|(at, mut draft)| match at == place {
            true => Some((at, draft.finish(result.clone()))),
            false => draft.sent.take().map(|sent| (at, draft.finish(sent.output()))),
        });
        let mut graphs: Vec<(Place, BuiltGraph)> = graphs.collect();
        // The graph with the result has the last stage. The other one has as many stages where it is the first, else
        // one less.
        if let [(_, one), (_, other)] = &graphs[..]
            && one.exchanges.len() < other.exchanges.len()
        {
            graphs.reverse();
        }
        graphs
    }

    /// The queries of a layer after RoPE for a chunk of a text: `[head_dim, heads, len]`.
    pub fn query_graph(&self, layer: usize, chunk: TextChunk) -> BuiltGraph {
        let draft = self.draft(LAYER_TENSORS, chunk.len);
        let x = self.attention_input(&draft.ctx, layer, &chunk.input(&draft.ctx));
        let result = self.queries(&draft.ctx, layer, &x, &draft.inputs).0.output();
        draft.finish(result)
    }

    /// Logits `[n_vocab, n]` for the last layer's output `x` `[n_embd, n]`.
    fn logits(&self, ctx: &Context, x: &Tensor) -> Tensor {
        let w = &self.weights.decode_layout.output;
        let x = self.norm(ctx, x, &w.norm, w.norm_bias.as_ref()).named(RESULT_NORM).output();
        let logits = ctx.mul_mat(&self.weights.output, &x);
        let scale = self.spec.logit_scale;
        let mut logits =
            scaled(ctx, logits, if self.spec.arch.decl().divides_logits { 1.0 / scale } else { scale });
        if let Some(cap) = self.spec.final_softcap {
            logits = ctx.scale(&ctx.tanh(&ctx.scale(&logits, 1.0 / cap)), cap);
        }
        logits.named("result_output").output()
    }

    /// Names a tensor as one of a layer's [`INTERMEDIATES`].
    fn intermediate(&self, name: &str, layer: usize, tensor: Tensor) -> Tensor {
        self.keep_if_tracing(tensor.named(&format!("{name}-{layer}")))
    }

    /// While tracing, prevents later operations from reusing the tensor's memory.
    fn keep_if_tracing(&self, tensor: Tensor) -> Tensor {
        if self.trace { tensor.output() } else { tensor }
    }

    /// The model's norm of `x`, times `weight`, plus the bias.
    fn norm(&self, ctx: &Context, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        let normed = match self.spec.norm() {
            NormKind::Rms => ctx.rms_norm(x, self.spec.norm_eps),
            NormKind::Layer => ctx.layer_norm(x, self.spec.norm_eps),
        };
        let weighted = ctx.mul(&normed, weight);
        match bias {
            Some(bias) => ctx.add(&weighted, bias),
            None => weighted,
        }
    }
}

/// The last `n` of an input's numbers, each of 4 bytes.
fn last_of(ctx: &Context, input: &Tensor, n: usize) -> Tensor {
    match input.dim(0) - n {
        0 => input.clone(),
        before => ctx.view(input, [n], [4 * n; 3], 4 * before),
    }
}

/// The error of attention in a recurrent layer.
fn refuse_recurrent(ctx: &Context, layer: usize) -> Tensor {
    ctx.refuse("attention", format!("layer {layer} is recurrent"))
}

/// `x` times `factor`; no operation if that is 1.
fn scaled(ctx: &Context, x: Tensor, factor: f32) -> Tensor {
    if factor == 1.0 { x } else { ctx.scale(&x, factor) }
}

/// The parameters of ggml's RoPE operation.
fn rope_parameters(rope: &Rope, n_ctx_train: usize) -> RopeParameters {
    let numbers = rope.scaling.params(n_ctx_train);
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

/// Adds to `effects` the nodes that store queries and accumulate attention for a policy. `heads.q` `[head_dim,
/// heads, n_q]` are the queries of the last `n_q` of the tokens in `state.positions`. The rows of these
/// tokens are written when `stored` is computed.
pub fn record_attention(
    ctx: &Context,
    shape: AttentionShape,
    heads: QueryHeads,
    stored: &Tensor,
    recorder: &AttentionRecorder,
    state: &LaneInputs,
    effects: &mut Vec<Tensor>,
) {
    if let Some(ring) = &recorder.queries {
        effects.push(graph::store_queries(ctx, heads.q, &state.positions, ring));
    }
    for accumulator in &recorder.accumulators {
        let (n, rule) = (state.positions.dim(0), accumulator.accumulation);
        let (queries, replace) = match rule.chunk {
            _ if n == 1 => (1, !rule.steps_add),
            Some(CountedQueries::All) => (accumulator.counted_queries(n), false),
            Some(CountedQueries::Last) => (1, true),
            None => continue,
        };
        effects.extend(graph::accumulate_attention(
            ctx,
            shape,
            heads,
            Appended { node: stored, rows: n },
            AccumulatingLane {
                lane: &accumulator.lane,
                number: accumulator.lane_index,
                heads: accumulator.heads.clone(),
            },
            state,
            Accumulation { queries, replace, combine: rule.combine, gain: rule.gain, part: accumulator.part },
        ));
    }
}
