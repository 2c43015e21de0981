//! The attention of a layer: queries, keys and values with their norms and RoPE, the rows that are appended, what is
//! recorded for the policies, and the output. The other parts of a layer are in `forward`.

use ggml::{Context, Tensor};
use kernels::Form;
use kernels::graph::{
    AccumulateAttention, Accumulation, Append, Appended, Attend, GraphLane, LaneInputs, PredictScores,
    QueryHeads, RowGroups, StoreQueries, WeightFactors,
};
use models::arch::QkNorm;
use models::spec::AttentionTensors;

use super::rotation::LayerRotation;
use super::{Forward, Inputs, LayerCall, TextRows, contribution, joined};
use crate::compute::row_groups::READ_SHARE;
use crate::kv::policy::CountedQueries;
use crate::kv::{AttentionRecorder, RowScorer};

impl Forward {
    /// What attention adds for the tokens with outputs, `[n_embd, n or 1]`, and a tensor that depends on the appended
    /// rows: see [`Forward::layer`]. A layer that attends to the rows of another one appends none.
    pub(super) fn attention(&self, call: LayerCall) -> (Option<Tensor>, Tensor) {
        let LayerCall { ctx, layer, normed, inputs, texts, outputs, effects } = call;
        let Some(TextRows { rows, .. }) = texts.first() else {
            return (None, ctx.refuse("attention", format!("layer {layer} has no text")));
        };
        let (n, heads, of_layer) = (normed.dim(1), self.heads[layer], self.spec.kv_layer(layer));
        let form = self.form(layer);
        // Rows of all texts have the same types.
        let rotation = inputs.rotations.of_lanes(ctx, &rows.lanes, heads.head_dim);
        let computed = (of_layer == layer).then(|| self.new_rows(ctx, layer, normed, &inputs.positions));
        let new_rows = computed.as_ref().map(|NewRows { k, v, .. }| {
            let of_values = if v.is_same(k) { None } else { Some(rotation.of_values(ctx, v.clone())) };
            let k = rotation.of_keys(ctx, self.without_offset(ctx, layer, k.clone(), &rows.lanes));
            let v = of_values.unwrap_or_else(|| k.clone());
            [k, v]
        });
        let states: Vec<LaneInputs> =
            inputs.states.iter().map(|state| LaneInputs { layer: of_layer, ..state.clone() }).collect();
        let append = |(text, inputs): (&TextRows, &LaneInputs)| {
            let stored = match (&new_rows, effects.appended.get(&(of_layer, text.number))) {
                (Some(rows), _) => {
                    let [k, v] = rows.each_ref().map(|rows| text.columns(ctx, form, rows, texts.len()));
                    form.nodes(ctx, Append { k: &k, v: &v, lanes: &text.rows.lanes, inputs })
                }
                (None, Some(stored)) => stored.clone(),
                // An earlier graph has appended them.
                (None, None) => inputs.rows.clone(),
            };
            effects.appended.insert((of_layer, text.number), stored.clone());
            stored
        };
        let stored: Vec<Tensor> = texts.iter().zip(&states).map(append).collect();

        if let Some(NewRows { k_before_rope, v, .. }) = &computed {
            for (text, inputs) in texts.iter().zip(&states) {
                let scorers = || text.rows.recorders.iter().flat_map(|recorder| &recorder.scorers);
                if scorers().next().is_some() {
                    let [k, v] = [k_before_rope, v].map(|rows| text.columns(ctx, form, rows, texts.len()));
                    effects.nodes.extend(predict_scores(ctx, form, [&k, &v], scorers(), inputs));
                }
            }
        }

        // Queries are computed for the last tokens only: those that attend, and those that a policy asks for.
        let attending = outputs.count(n);
        let queries = attending.max(rows.recorded_queries(n));
        let sink_logits = self.sink_logits(layer);
        if queries == 0 {
            // The rows that this layer attends to may have been appended before those of others.
            return (None, if of_layer == layer { stored[0].clone() } else { normed.clone() });
        }
        let (q, gate) = match queries == n {
            true => self.queries(ctx, layer, normed, inputs),
            false => self.queries(ctx, layer, &ctx.rows(normed, n - queries, queries), inputs),
        };
        let q = rotation.of_keys(ctx, q);
        let attend = |((text, inputs), stored): ((&TextRows, &LaneInputs), &Tensor)| {
            let q = text.columns(ctx, form, &q, texts.len());
            let of_queries = Attend {
                shape: heads,
                queries: QueryHeads { q: &q, sink_logits: sink_logits.as_ref() },
                appended: Appended { node: stored, rows: text.len },
                lanes: &text.rows.lanes,
                inputs,
                groups: None,
                int8: self.int8,
            };
            for recorder in &text.rows.recorders {
                record_attention(ctx, form, of_queries, recorder, Some(normed), &mut effects.nodes);
            }
            if attending == 0 {
                return None;
            }
            let attending_q = last_queries(ctx, &q, attending);
            let of_attending = QueryHeads { q: &attending_q, ..of_queries.queries };
            let groups = text.rows.means.as_ref().map(|means| RowGroups { means, share: READ_SHARE });
            Some(form.nodes(ctx, Attend { queries: of_attending, groups, ..of_queries }))
        };
        let attended = texts.iter().zip(&states).zip(&stored).filter_map(attend).collect();
        let Some(attended) = joined(ctx, attended) else { return (None, stored[0].clone()) };
        let gate = gate.map(|gate| ctx.rows(&gate, queries - attending, attending));
        let out = self.attention_output(ctx, layer, &rotation, attended, gate);
        let bias = self.attention_weights(layer, attending).and_then(|w| w.bo.as_ref());
        (out.map(|out| self.with_bias(ctx, out, bias)), stored[0].clone())
    }

    /// What attention adds, without the bias, for what the heads attended to, `[heads * stored elements, n]`: `[n_embd, n]`.
    /// `gate` `[heads * head_dim, n]` is there where the model has one.
    pub(super) fn attention_output(
        &self,
        ctx: &Context,
        layer: usize,
        rotation: &LayerRotation,
        attended: Tensor,
        gate: Option<Tensor>,
    ) -> Option<Tensor> {
        let attended = self.without_padding(ctx, layer, rotation.of_values(ctx, attended));
        // [heads * head_dim, n]
        let w = self.attention_weights(layer, attended.dim(1))?;
        let attended = match (&self.spec.latent, &w.wv, gate) {
            (Some(latent), Some(values), _) => self.latent_values(ctx, layer, latent, values, &attended),
            (_, _, Some(gate)) => ctx.mul(&attended, &ctx.sigmoid(&gate)),
            _ => attended,
        };
        let attended = self.intermediate("kqv_out", layer, attended);
        Some(self.product(ctx, layer, &w.wo, &attended))
    }

    /// The weights of a layer that attends, in the layout that is faster for `n` tokens.
    fn attention_weights(&self, layer: usize, n: usize) -> Option<&AttentionTensors<Tensor>> {
        self.matrices(layer, n).mixer.attention()
    }

    /// Queries of a layer after RoPE, `[head_dim, heads, n]`, padded as stored keys are, for attention's input `x`
    /// `[n_embd, n]`, which belongs to the last n of the tokens of `inputs`. Where the model has a gate, it is the second,
    /// `[heads * head_dim, n]`.
    pub(super) fn queries(
        &self,
        ctx: &Context,
        layer: usize,
        x: &Tensor,
        inputs: &Inputs,
    ) -> (Tensor, Option<Tensor>) {
        let n = x.dim(1);
        let Some(w) = self.attention_weights(layer, n) else { return (refuse_recurrent(ctx, layer), None) };
        let positions = copy_of_last(ctx, &inputs.positions, n);
        let (q, gate) = match &w.latent {
            Some(latent) => (self.latent_queries(ctx, layer, (&w.wq, latent), x, &positions), None),
            None => {
                let q = self.project(ctx, layer, &w.wq, w.bq.as_ref(), x);
                let (q, gate) = self.split_gate(ctx, layer, q);
                let q = self.normed_heads(ctx, layer, q, w.q_norm.as_ref());
                (self.rope_and_norm(ctx, layer, q, w.q_norm.as_ref(), &positions), gate)
            }
        };
        let q = match &inputs.query_factors {
            Some((factors, _)) => ctx.mul(&q, &ctx.reshape(&last_of(ctx, factors, n), [1, 1, n])),
            None => q,
        };
        let q = self.intermediate("Qcur", layer, q);
        (self.padded(ctx, layer, q), gate)
    }

    /// The queries and gates `[heads * head_dim, n]` in a projection `y`, where the model has gates.
    fn split_gate(&self, ctx: &Context, layer: usize, y: Tensor) -> (Tensor, Option<Tensor>) {
        if !self.spec.attention_gate() {
            return (y, None);
        }
        let (d, heads, n) = (self.spec.kv_heads(layer).dim, self.spec.n_heads, y.dim(1));
        let row = 4 * 2 * d;
        let part = |first: usize| {
            let part = ctx.view(&y, [d, heads, n], [row, row * heads, row * heads * n], 4 * first);
            ctx.reshape(&ctx.cont(&part), [d * heads, n])
        };
        (part(0), Some(part(d)))
    }

    /// The rows of new tokens in a layer. `x` `[n_embd, n]` is attention's input, at `positions` `[n]`.
    pub(super) fn new_rows(&self, ctx: &Context, layer: usize, x: &Tensor, positions: &Tensor) -> NewRows {
        let Some(w) = self.attention_weights(layer, x.dim(1)) else {
            return NewRows::all_the_same(refuse_recurrent(ctx, layer));
        };
        let Some(wk) = &w.wk else {
            return NewRows::all_the_same(ctx.refuse("attention", format!("layer {layer} has no keys")));
        };
        let projected = self.project(ctx, layer, wk, w.bk.as_ref(), x);
        if let Some(latent) = &w.latent {
            let rows = self.latent_rows(ctx, layer, latent, &projected, positions);
            return NewRows::all_the_same(self.intermediate("Kcur", layer, rows));
        }
        let k_before_rope = self.normed_heads(ctx, layer, projected.clone(), w.k_norm.as_ref());
        let k = self.rope_and_norm(ctx, layer, k_before_rope.clone(), w.k_norm.as_ref(), positions);
        let k = self.intermediate("Kcur", layer, k);
        let v = match &w.wv {
            Some(wv) => self.project(ctx, layer, wv, w.bv.as_ref(), x),
            None => projected,
        };
        let v = self.split_heads(ctx, layer, &v);
        let v = if self.spec.arch.decl().value_norm { ctx.rms_norm(&v, self.spec.norms.epsilon) } else { v };
        let v = self.intermediate("Vcur", layer, v);
        let [k, v, k_before_rope] = [k, v, k_before_rope].map(|rows| self.padded(ctx, layer, rows));
        NewRows { k, v, k_before_rope }
    }

    /// `[head_dim, heads, n]` with zeros behind each row, as many as stored rows have.
    fn padded(&self, ctx: &Context, layer: usize, rows: Tensor) -> Tensor {
        match self.heads[layer].head_dim.saturating_sub(rows.dim(0)) {
            0 => rows,
            more => ctx.pad(&rows, more),
        }
    }

    /// What attention gives, `[heads * stored elements, n]`, without the zeros of stored rows: `[heads * head_dim, n]`.
    fn without_padding(&self, ctx: &Context, layer: usize, attended: Tensor) -> Tensor {
        let (d, stored) = (self.spec.kv_heads(layer).dim, self.heads[layer].head_dim);
        if d == stored {
            return attended;
        }
        let (heads, n, row) = (self.spec.n_heads, attended.dim(1), 4 * stored);
        let part = ctx.view(&attended, [d, heads, n], [row, row * heads, row * heads * n], 0);
        ctx.reshape(&ctx.cont(&part), [d * heads, n])
    }

    /// Keys `[head_dim, kv_heads, n]` of a layer as its lanes store them, but for their rotation.
    fn without_offset(&self, ctx: &Context, layer: usize, keys: Tensor, lanes: &[GraphLane]) -> Tensor {
        let Some(offset) = lanes.first().and_then(|lane| self.key_offset(layer, lane.k.ty())) else {
            return keys;
        };
        let offset = ctx.reshape(&ctx.constant_f32(offset), [keys.dim(0), keys.dim(1), 1]);
        ctx.sub(&keys, &offset)
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
        match self.spec.attention.clamp_qkv {
            Some(bound) => ctx.clamp(&y, bound),
            None => y,
        }
    }

    /// `[heads * head_dim, n]` as `[head_dim, heads, n]`.
    fn split_heads(&self, ctx: &Context, layer: usize, y: &Tensor) -> Tensor {
        let head_dim = self.spec.kv_heads(layer).dim;
        ctx.reshape(y, [head_dim, y.dim(0) / head_dim, y.dim(1)])
    }

    /// Splits `[heads * head_dim, n]` into heads `[head_dim, heads, n]`, with the norm that the model has before RoPE.
    fn normed_heads(&self, ctx: &Context, layer: usize, y: Tensor, norm: Option<&Tensor>) -> Tensor {
        let y = self.normed_if(ctx, y, norm, &[QkNorm::Whole]);
        let heads = self.split_heads(ctx, layer, &y);
        self.normed_if(ctx, heads, norm, &[QkNorm::Head, QkNorm::EachHead])
    }

    /// Heads `[head_dim, heads, n]` with the RoPE that the model has, and the norm behind it.
    fn rope_and_norm(
        &self,
        ctx: &Context,
        layer: usize,
        heads: Tensor,
        norm: Option<&Tensor>,
        positions: &Tensor,
    ) -> Tensor {
        let rotated = self.rotated(ctx, layer, heads, positions);
        self.normed_if(ctx, rotated, norm, &[QkNorm::HeadAfterRope])
    }

    /// `x` with the norm of queries or keys, if the model's is one of these.
    fn normed_if(&self, ctx: &Context, x: Tensor, norm: Option<&Tensor>, kinds: &[QkNorm]) -> Tensor {
        match (norm, self.spec.attention.qk_norm) {
            (Some(weight), Some(kind)) if kinds.contains(&kind) => {
                self.result_of(weight, self.norm(ctx, &x, weight, None))
            }
            _ => x,
        }
    }

    /// `heads` `[.., heads, n]` with the layer's RoPE at `positions` `[n]`.
    pub(super) fn rotated(&self, ctx: &Context, layer: usize, heads: Tensor, positions: &Tensor) -> Tensor {
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
        let factors = &self.weights.rope_factors[self.placement.of(layer)];
        let by_context = if self.long_context { &factors.long } else { &factors.short };
        factors.all.as_ref().or(by_context.as_ref())
    }
}

/// The rows of new tokens, `[head_dim, kv_heads, n]` each, padded as they are stored. With latent attention all are the
/// same, after RoPE: keys are also the values, of which the first elements count.
pub(super) struct NewRows {
    /// Keys after RoPE.
    k: Tensor,
    /// Values.
    pub(super) v: Tensor,
    /// Keys before RoPE.
    pub(super) k_before_rope: Tensor,
}

impl NewRows {
    fn all_the_same(rows: Tensor) -> NewRows {
        NewRows { k: rows.clone(), v: rows.clone(), k_before_rope: rows }
    }
}

impl TextRows<'_> {
    /// Of `x` `[head_dim, heads, n of all texts]`, of which there are so many, the columns of this text.
    fn columns(&self, ctx: &Context, form: Form, x: &Tensor, texts: usize) -> Tensor {
        if texts == 1 {
            return x.clone();
        }
        let [_, head, token, _] = x.strides();
        let shape = [x.dim(0), x.dim(1), self.len];
        let columns = ctx.view(x, shape, [head, token, token * self.len], token * self.first);
        // Some GPUs read only what begins at a multiple of many bytes.
        if matches!(form, Form::Portable) { ctx.cont(&columns) } else { columns }
    }
}

/// The last `n` of the queries `q` `[head_dim, heads, tokens]`, or all.
fn last_queries(ctx: &Context, q: &Tensor, n: usize) -> Tensor {
    match q.dim(2).saturating_sub(n) {
        0 => q.clone(),
        before => {
            let [_, head, token, last] = q.strides();
            ctx.view(q, [q.dim(0), q.dim(1), n], [head, token, last], before * token)
        }
    }
}

/// The last `n` of an input's numbers, each of 4 bytes.
pub(super) fn last_of(ctx: &Context, input: &Tensor, n: usize) -> Tensor {
    match input.dim(0) - n {
        0 => input.clone(),
        before => ctx.view(input, [n], [4 * n; 3], 4 * before),
    }
}

/// The same as a copy, where they are not all: some GPUs take positions of RoPE only where memory begins at a multiple of many
/// bytes.
fn copy_of_last(ctx: &Context, input: &Tensor, n: usize) -> Tensor {
    let last = last_of(ctx, input, n);
    if input.dim(0) == n { last } else { ctx.cont(&last) }
}

/// The error of attention in a recurrent layer.
fn refuse_recurrent(ctx: &Context, layer: usize) -> Tensor {
    ctx.refuse("attention", format!("layer {layer} is recurrent"))
}

/// The nodes that predict the scores of new rows from their keys before RoPE and their values `[head_dim, kv_heads, n]`.
pub fn predict_scores<'a>(
    ctx: &Context,
    form: Form,
    [k, v]: [&Tensor; 2],
    scorers: impl Iterator<Item = &'a RowScorer>,
    inputs: &LaneInputs,
) -> Vec<Tensor> {
    let node = |scorer: &RowScorer| {
        let to = scorer.to.target()?;
        Some(form.nodes(ctx, PredictScores { k, v, maps: &scorer.predictors, to, inputs }))
    };
    scorers.filter_map(node).collect()
}

/// Adds to `effects` the nodes that store the queries of `attend` and accumulate attention for a policy. The rows of all
/// tokens of the computation are appended. `input` `[n_embd, n]`, attention's input, is needed where contributions count.
pub fn record_attention(
    ctx: &Context,
    form: Form,
    attend: Attend,
    recorder: &AttentionRecorder,
    input: Option<&Tensor>,
    effects: &mut Vec<Tensor>,
) {
    let Attend { shape, queries: heads, appended, inputs, .. } = attend;
    if let Some(ring) = &recorder.queries {
        effects.push(form.nodes(ctx, StoreQueries { q: heads.q, positions: &inputs.positions, ring }));
    }
    // Those of all lanes are the same: the part of the one lane with the complete rows.
    let factors = recorder.accumulators.iter().find_map(|accumulator| {
        let (grams, part) = (accumulator.grams.as_ref()?, accumulator.part?);
        let rows = contribution::of_rows(ctx, &accumulator.to.lane, part, grams);
        let queries = accumulator.counted_queries(appended.rows);
        let tokens = match input {
            Some(x) => contribution::of_tokens(ctx, &ctx.rows(x, x.dim(1) - queries, queries)),
            None => ctx.refuse("record_attention", "contributions without attention's input".into()),
        };
        Some((rows, tokens))
    });
    for accumulator in &recorder.accumulators {
        let Some(to) = accumulator.to.target() else { continue };
        let (n, rule) = (appended.rows, accumulator.accumulation);
        let (queries, replace) = match rule.chunk {
            _ if n == 1 => (1, !rule.steps_add),
            Some(CountedQueries::All) => (accumulator.counted_queries(n), false),
            Some(CountedQueries::Last) => (1, true),
            None => continue,
        };
        let factors = factors.as_ref().filter(|_| accumulator.grams.is_some());
        let accumulate = AccumulateAttention {
            shape,
            queries: heads,
            appended,
            to,
            inputs,
            how: Accumulation {
                queries,
                replace,
                combine: rule.combine,
                gain: rule.gain,
                part: accumulator.part,
            },
            factors: factors.map(|(rows, tokens)| WeightFactors { rows, tokens }),
        };
        effects.push(form.nodes(ctx, accumulate));
    }
}
