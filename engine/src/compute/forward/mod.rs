//! The forward pass: one loop for all architectures. Architectures differ in which tensors exist (biases, norms) and in
//! how a layer's parts are connected. They also differ in the feed-forward network (`feed_forward`) and in how
//! positions enter (RoPE, ALiBi in attention, or learned positions). The caller chooses the lanes that hold keys and
//! values. The loop is here, with what all parts of a layer use; the files of `forward` are the parts.

mod attention;
mod built_graph;
mod contribution;
mod experts;
mod feed_forward;
mod latent;
mod per_layer;
mod recurrent;
mod rotation;

use std::collections::BTreeSet;

use ggml::{Context, RopeMode, RopeParameters, Tensor, Type};
use kernels::graph::{self, AttentionShape, GraphLane};
use kernels::{Form, Kernels};
use models::arch::{NormKind, RopeStyle};
use models::spec::{LayerTensors, MixerTensors, ModelSpec, Rope, RopeScaling};

pub use self::attention::{predict_scores, record_attention};
pub use self::built_graph::{
    BuiltGraph, BuiltPass, Inputs, NextTokens, OutputTokens, TextChunk, Transfer, Turn,
};
use self::built_graph::{Effects, GraphDraft, PassDraft};
pub(crate) use self::rotation::needs_products;
use crate::compute::weights::Weights;
use crate::devices::placement::{PerPlace, Place, Placement};
use crate::kv::{AttentionRecorder, LayerRows, attention_shape, key_offset};

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
    /// Whether attention may multiply old rows in integers of 8 bits, where texts are read.
    int8: bool,
    placement: Placement,
    kernels: PerPlace<Kernels>,
    /// Whether intermediates stay readable after the computation.
    trace: bool,
}

/// What computes the mixer of a layer, attention or a recurrence: for which tokens, and in which graph.
struct LayerCall<'a> {
    ctx: &'a Context,
    layer: usize,
    /// `[n_embd, n]`: the mixer's input.
    normed: &'a Tensor,
    inputs: &'a Inputs,
    /// The texts that the tokens belong to.
    texts: &'a [TextRows<'a>],
    /// The tokens whose outputs are computed: all, where there are several texts.
    outputs: OutputTokens,
    /// What the graph computes beside: grows.
    effects: &'a mut Effects,
}

/// A text in a layer.
#[derive(Clone, Copy)]
struct TextRows<'a> {
    /// Its number among the texts of the graph.
    number: usize,
    /// The column of its first token.
    first: usize,
    /// How many tokens it has.
    len: usize,
    /// The rows or the states that its tokens read and write.
    rows: &'a LayerRows,
}

/// Names of a layer's intermediates in the order of computation. A tensor's name is one of these, `-` and the
/// layer's number. Graphs that are traced keep some more, most of them under the names of weights.
pub const INTERMEDIATES: [&str; 9] =
    ["attn_norm", "Kcur", "Vcur", "Qcur", "kqv_out", "ffn_inp", "ffn_norm", "ffn_out", "l_out"];

/// Name of the output matrix's input, `[n_embd, n]`, which stays readable after the computation.
pub const RESULT_NORM: &str = "result_norm";

/// From this number of tokens on, products read the file's layout, which is then faster than the repacked one. Where the kernels
/// are faster with fewer, and the model has no experts, which are ggml's, two tokens are enough.
const PREFILL_MIN_TOKENS: usize = 32;

/// Maximum number of tensors in a layer's graph, without those of operations on lanes and of experts.
const LAYER_TENSORS: usize = 128;

/// Maximum number of tensors that take a text's columns out of those of all texts, and put them back.
const COLUMN_TENSORS: usize = 16;

/// Maximum number of tensors that store queries.
const STORE_TENSORS: usize = 64;

/// Maximum number of tensors that experts add to a layer's graph, without those of adding up what they give.
const EXPERT_TENSORS: usize = 96;

impl Forward {
    /// Builds graphs for the model `spec` with `weights`, which must be where `placement` says, for places with these
    /// kernels.
    pub fn new(
        spec: &ModelSpec,
        weights: Weights,
        placement: Placement,
        kernels: PerPlace<Kernels>,
    ) -> Forward {
        Forward {
            spec: spec.clone(),
            weights,
            heads: (0..spec.n_layers).map(|layer| attention_shape(spec, layer)).collect(),
            ropes: (0..spec.n_layers)
                .map(|layer| spec.rope(layer).map(|rope| rope_parameters(rope, spec.n_ctx_train)))
                .collect(),
            long_context: false,
            int8: false,
            placement,
            kernels,
            trace: false,
        }
    }

    /// The numbers of tokens, at most `chunk`, for which attention on some device has the most partial results in some
    /// layer; none where rows are never split. See [`graph::max_partials_tokens`].
    pub fn max_partials_tokens(&self, chunk: usize) -> BTreeSet<usize> {
        let of_heads = |kernels: &Kernels, heads: &AttentionShape| match kernels.form(*heads) {
            Form::Own(split) => graph::max_partials_tokens(*heads, split, chunk),
            Form::Portable => None,
        };
        let devices = self.kernels.iter().filter(|(place, _)| place.is_device());
        devices
            .flat_map(|(_, kernels)| self.heads.iter().filter_map(move |heads| of_heads(kernels, heads)))
            .collect()
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

    /// The form in which a layer's operations are computed.
    pub(crate) fn form(&self, layer: usize) -> Form {
        self.kernels[self.placement.of(layer)].form(self.heads[layer])
    }

    /// The learned logits of a layer's query heads, `[heads]`, where the model has them.
    pub fn sink_logits(&self, layer: usize) -> Option<Tensor> {
        self.weights.decode_layout.layers[layer].mixer.attention()?.sink_logits.clone()
    }

    /// What must be added to a layer's stored keys of type `keys` to have the model's, `[head_dim * kv_heads]`; `None`
    /// for nothing. See `key_offset`.
    pub fn stored_key_offset(&self, layer: usize, keys: Type) -> Option<Vec<f32>> {
        let offset = self.key_offset(layer, keys)?;
        Some(rotation::stored_keys(offset, self.heads[layer].head_dim, keys))
    }

    /// What is taken from a layer's keys before they are rotated and stored as `keys`.
    fn key_offset(&self, layer: usize, keys: Type) -> Option<&[f32]> {
        self.weights.key_offsets[layer].as_deref().filter(|_| key_offset::is_used(keys))
    }

    /// The same for sessions of `context` tokens at most.
    pub fn for_context(&self, context: usize) -> Forward {
        Forward { long_context: self.is_long(context), ..self.clone() }
    }

    /// The same, with attention in integers of 8 bits where texts are read and the processor is fast at that.
    pub fn with_int8(&self, int8: bool) -> Forward {
        Forward { int8, ..self.clone() }
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
        x = scaled(ctx, x, self.spec.factors.embedding);
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
        let has_fast_kernels = n > 1 && self.spec.experts.is_none() && graph::multiplies_columns(n);
        let prefill = n >= PREFILL_MIN_TOKENS || has_fast_kernels;
        let weights = if prefill { &self.weights.prefill_layout } else { &self.weights.decode_layout };
        &weights.layers[layer]
    }

    /// An empty graph for `n` tokens of a text, with room for so many tensors.
    fn draft(&self, tensors: usize, n: usize) -> GraphDraft {
        self.draft_of_texts(tensors, &[n])
    }

    /// The same for so many tokens of each text.
    fn draft_of_texts(&self, tensors: usize, tokens: &[usize]) -> GraphDraft {
        let ctx = Context::new(tensors);
        let inputs = Inputs::new(&ctx, &self.spec, tokens);
        GraphDraft {
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
        let mut draft = self.draft(LAYER_TENSORS, n);
        let GraphDraft { ctx, inputs, effects, .. } = &mut draft;
        let result = self.embed(ctx, inputs).output();
        effects.check_embeddings(ctx, &result);
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

    fn operation_tensors(&self, layer: usize, rows: &LayerRows, n: usize) -> usize {
        operation_tensors(self.form(layer), self.heads[layer].group, rows, n)
    }

    /// Maximum number of tensors in a layer's graph, without those of operations on lanes.
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

    /// matrix · x, for a matrix of a layer.
    fn product(&self, ctx: &Context, layer: usize, matrix: &Tensor, x: &Tensor) -> Tensor {
        self.result_of(matrix, multiplied(ctx, self.placement.of(layer), matrix, x))
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

    /// One layer for input `x` `[n_embd, n]`, in the graph of its place in `pass`. Keys and values are appended
    /// to the live rows of each text. Returns the layer's output `[n_embd, n or 1]` for the tokens `outputs`; with
    /// [`OutputTokens::None`] a tensor that depends on the appended rows, whose data mean nothing. Adds the nodes that
    /// [`record_attention`] gives to the effects, and those that write the states of a recurrent layer.
    fn layer(
        &self,
        pass: &mut PassDraft,
        layer: usize,
        x: &Tensor,
        texts: &[TextRows],
        outputs: OutputTokens,
    ) -> Tensor {
        let n = x.dim(1);
        let GraphDraft { ctx, inputs, effects, .. } = &mut pass.graphs[self.placement.of(layer)];
        let ctx = &ctx.clone();
        let normed = self.attention_input(ctx, layer, x);
        let call = LayerCall { ctx, layer, normed: &normed, inputs, texts, outputs, effects };
        let (out, stored) = match &self.matrices(layer, n).mixer {
            MixerTensors::Attention(_) => self.attention(call),
            MixerTensors::Recurrent(w) => self.recurrent(call, w),
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
        let out = self.feed_forward(pass, layer, &w.network, &input, &sum);
        let out = self.branch(ctx, out, w.ffn_post_norm.as_ref());
        let mut x = ctx.add(&out, &sum);
        if let Some(w) = &w.per_layer {
            x = ctx.add(&x, &self.per_layer(pass, layer, w, &x));
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
        scaled(ctx, out, self.spec.factors.residual)
    }

    /// The whole model for `n` tokens of a text with the lanes `rows(layer)`: computes the logits of the tokens
    /// `outputs`. There is one graph for the host and one for each device with layers. Their stages
    /// take turns and hand over activations `[n_embd, n or 1]`: see [`BuiltGraph::exchanges`]. The first stage of a
    /// graph gets them as [`Inputs::residual`], and the last one gives its result.
    pub fn model_graphs(
        &self,
        n: usize,
        outputs: OutputTokens,
        rows: impl Fn(usize) -> LayerRows,
    ) -> BuiltPass {
        self.graphs_of_texts(&[(n, self.rows_of_layers(rows))], outputs)
    }

    /// The same for tokens of several texts, which have rows of the same types: so many of each, with its rows in all layers
    /// ([`Forward::rows_of_layers`]). Computes the logits of all tokens.
    pub fn batch_graphs(&self, texts: &[(usize, Vec<LayerRows>)]) -> BuiltPass {
        self.graphs_of_texts(texts, OutputTokens::All)
    }

    /// The rows of all layers, where `rows` has those of layers with rows of their own.
    pub fn rows_of_layers(&self, rows: impl Fn(usize) -> LayerRows) -> Vec<LayerRows> {
        (0..self.spec.n_layers).map(|layer| LayerRows::of_layer(&self.spec, layer, &rows)).collect()
    }

    fn graphs_of_texts(&self, texts: &[(usize, Vec<LayerRows>)], outputs: OutputTokens) -> BuiltPass {
        let n_layers = self.weights.decode_layout.layers.len();
        let tokens: Vec<usize> = texts.iter().map(|(n, _)| *n).collect();
        let operations = |layer: usize| -> usize {
            let of_text = |(n, rows): &(usize, Vec<LayerRows>)| self.text_tensors(layer, &rows[layer], *n);
            texts.iter().map(of_text).sum()
        };
        let mut graphs = self.placement.per_place(|place| {
            let layers = self.placement.layers(place);
            let operations: usize = layers.clone().map(operations).sum();
            // What the host computes for layers on devices: their experts, or their embeddings.
            let for_devices = match (place, self.spec.per_layer_width) {
                (Place::Device(_), _) => 0,
                (Place::Host, Some(_)) => self.placement.on_devices(),
                (Place::Host, None) => self.placement.split_layers(&self.spec),
            };
            let layers = layers.len() + for_devices;
            let tensors = self.layer_tensors() * (layers + 1) + operations;
            self.draft_of_texts(tensors, &tokens)
        });
        graphs.iter_mut().for_each(|draft| {
            draft.effects.has_logits = outputs != OutputTokens::None;
            draft.effects.texts = texts.len();
        });
        let giving = n_layers.saturating_sub(usize::from(outputs == OutputTokens::None));
        let mut pass = PassDraft::new(graphs, 0..giving, Place::Host);
        let GraphDraft { ctx, inputs, effects, .. } = &mut pass.graphs[Place::Host];
        let mut x = self.embed(ctx, inputs);
        effects.check_embeddings(ctx, &x);
        for layer in 0..n_layers {
            x = pass.hand_over(x, self.placement.of(layer));
            let outputs = if layer + 1 == n_layers { outputs } else { OutputTokens::All };
            x = self.layer(&mut pass, layer, &x, &TextRows::in_layer(layer, texts), outputs);
        }
        let result = match outputs {
            OutputTokens::None => x,
            _ => self.logits(&pass.graphs[self.placement.of_output()].ctx, &x),
        };
        pass.finish(result)
    }

    /// Maximum number of tensors that `n` tokens of a text add to a layer's graph.
    fn text_tensors(&self, layer: usize, rows: &LayerRows, n: usize) -> usize {
        let of_state = if rows.states.is_some() { self.layer_tensors() } else { 0 };
        self.operation_tensors(layer, rows, n) + COLUMN_TENSORS + of_state
    }

    /// One layer for a chunk of a text. `rows` are those that it writes or, where it attends to another layer's, only
    /// reads. With [`OutputTokens::All`] the graph writes what it gives to the residual stream. With
    /// [`OutputTokens::Last`] the result is the logits of the last token, and the layer must be the last one. If the
    /// layer's experts are in another place, a second graph computes them there. Where a layer of a device has embeddings of its
    /// own, one on the host computes what it gets of them. Stages are as those of [`Forward::model_graphs`].
    pub fn layer_graphs(
        &self,
        layer: usize,
        chunk: TextChunk,
        rows: &LayerRows,
        outputs: OutputTokens,
    ) -> BuiltPass {
        let place = self.placement.of(layer);
        let operations = self.operation_tensors(layer, rows, chunk.len);
        let draft = |_| self.draft(self.layer_tensors() + operations, chunk.len);
        let giving = layer..layer + usize::from(outputs != OutputTokens::None);
        let mut pass = PassDraft::new(self.placement.per_place(draft), giving, place);
        let ctx = pass.graphs[place].ctx.clone();
        let texts = [TextRows { number: 0, first: 0, len: chunk.len, rows }];
        let x = self.layer(&mut pass, layer, &chunk.input(&ctx), &texts, outputs);
        let result = match outputs {
            OutputTokens::All => ctx.copy(&x, &chunk.output(&ctx)),
            OutputTokens::Last => self.logits(&ctx, &x),
            OutputTokens::None => x,
        };
        pass.finish(result)
    }

    /// The queries of a layer after RoPE for a chunk of a text: `[head_dim, heads, len]`.
    pub fn query_graph(&self, layer: usize, chunk: TextChunk) -> BuiltGraph {
        let draft = self.draft(LAYER_TENSORS, chunk.len);
        let x = self.attention_input(&draft.ctx, layer, &chunk.input(&draft.ctx));
        let result = self.queries(&draft.ctx, layer, &x, &draft.inputs).0.output();
        draft.finish(result)
    }

    /// Keys before RoPE and values of a layer for a chunk of a text: `[head_dim, kv_heads, len]` twice, padded as they are
    /// stored.
    pub fn row_graph(&self, layer: usize, chunk: TextChunk) -> BuiltGraph {
        let draft = self.draft(LAYER_TENSORS, chunk.len);
        let x = self.attention_input(&draft.ctx, layer, &chunk.input(&draft.ctx));
        let rows = self.new_rows(&draft.ctx, layer, &x, &draft.inputs.positions);
        let [k, v] = [rows.k_before_rope, rows.v].map(|x| draft.ctx.reshape(&x, [x.shape().elements()]));
        let result = draft.ctx.concat(&k, &v).output();
        draft.finish(result)
    }

    /// Logits `[n_vocab, n]` for the last layer's output `x` `[n_embd, n]`.
    fn logits(&self, ctx: &Context, x: &Tensor) -> Tensor {
        let w = &self.weights.decode_layout.output;
        let x = self.norm(ctx, x, &w.norm, w.norm_bias.as_ref()).named(RESULT_NORM).output();
        let logits = multiplied(ctx, self.placement.of_output(), &self.weights.output, &x);
        let scale = self.spec.factors.logits;
        let mut logits =
            scaled(ctx, logits, if self.spec.arch.decl().divides_logits { 1.0 / scale } else { scale });
        if let Some(cap) = self.spec.factors.final_softcap {
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
            NormKind::Rms => ctx.rms_norm(x, self.spec.norms.epsilon),
            NormKind::Layer => ctx.layer_norm(x, self.spec.norms.epsilon),
        };
        let weighted = ctx.mul(&normed, weight);
        match bias {
            Some(bias) => ctx.add(&weighted, bias),
            None => weighted,
        }
    }
}

impl<'a> TextRows<'a> {
    /// Texts in a layer, given with their rows in all layers.
    fn in_layer(layer: usize, texts: &'a [(usize, Vec<LayerRows>)]) -> Vec<TextRows<'a>> {
        let mut first = 0;
        let text = |(number, (len, rows)): (usize, &'a (usize, Vec<LayerRows>))| {
            let text = TextRows { number, first, len: *len, rows: &rows[layer] };
            first += len;
            text
        };
        texts.iter().enumerate().map(text).collect()
    }
}

/// Tensors `[m, n of each]` beside each other: `[m, n]`. None of none.
fn joined(ctx: &Context, parts: Vec<Tensor>) -> Option<Tensor> {
    let m = parts.first()?.dim(0);
    let join = |a: Tensor, b: Tensor| {
        let flat = |x: &Tensor| ctx.reshape(x, [x.shape().elements()]);
        let joined = ctx.concat(&flat(&a), &flat(&b));
        ctx.reshape(&joined, [m, joined.dim(0) / m])
    };
    parts.into_iter().reduce(join)
}

/// matrix · x in a place.
fn multiplied(ctx: &Context, place: Place, matrix: &Tensor, x: &Tensor) -> Tensor {
    match place == Place::Host && graph::multiplies(matrix, x.dim(1)) {
        true => graph::multiply(ctx, matrix, x),
        false => ctx.mul_mat(matrix, x),
    }
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

/// Maximum number of tensors that a layer's operations on lanes make for `n` tokens, with `group` query heads for each KV head:
/// rows that are appended, attention, stored queries, and for each lane of a recorder an accumulation or predicted scores.
pub fn operation_tensors(form: Form, group: usize, rows: &LayerRows, n: usize) -> usize {
    let of_lane = |lane: &GraphLane| form.max_tensors(lane, group, n);
    let of_recorder = |recorder: &AttentionRecorder| {
        let accumulating = recorder.accumulators.iter().map(|accumulator| &accumulator.to);
        let lanes = accumulating.chain(recorder.scorers.iter().map(|scorer| &scorer.to));
        STORE_TENSORS + contribution::TENSORS + lanes.map(|to| of_lane(&to.lane)).sum::<usize>()
    };
    rows.lanes.iter().map(|lane| 2 * of_lane(lane)).sum::<usize>()
        + rows.recorders.iter().map(of_recorder).sum::<usize>()
}
