//! Accumulated attention: what each row has received from the queries so far.

use std::ops::Range;
use std::ptr::null;
use std::slice::from_raw_parts;
use std::sync::Arc;

use ggml::{Context, CustomTask, DeviceTask, Tensor, Type};

use super::{
    Gain, ScoredHeads, accumulate_call, add_alibi_bias, last_address, last_position, splits, with_scratch,
};
use crate::accumulate::{Combine, Keys, ScoringQuery, add_weights};
use crate::attention::ShapeError;
use crate::device;
use crate::form::Operation;
use crate::graph::checks::{
    Check, check_accumulated, check_distances, check_heads, check_inputs, check_lane, check_queries, ensure,
    is, is_vector,
};
use crate::graph::operands::{
    FloatsAt, HeadVectors, HeadsAt, LaneColumnAt, Node, NumbersAt, Operands, TensorAt, address_or_null,
};
use crate::graph::{
    Appended, AttentionShape, GraphLane, LaneInputs, MAX_LANES, QueryHeads, Split, rows_after,
};
use crate::portable;

/// Which queries of a computation [`AccumulateAttention`] combines, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accumulation {
    /// Tokens whose queries count: the last of the computation.
    pub queries: usize,
    /// Whether the earlier numbers are overwritten.
    pub replace: bool,
    /// How the weights of the queries, and the earlier numbers, become one number for each row.
    pub combine: Combine,
    /// Factor on the logits.
    pub gain: Gain,
    /// The earlier rows that the queries see, where they do not see all.
    pub part: Option<SeenPart>,
}

/// Earlier rows that queries see: the first ones, those of a part, and the last ones. Only the part's rows get numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeenPart {
    /// How many of the first rows are seen, at most `from`.
    pub first: usize,
    /// The first row of the part.
    pub from: usize,
    /// The row behind its last one.
    pub to: usize,
    /// The first of the last rows that are seen, which are next to the appended ones. At least `to`.
    pub last: usize,
}

impl SeenPart {
    fn check(self, rows: usize) -> Check {
        let SeenPart { first, from, to, last } = self;
        let is_inside = first <= from && from < to && to <= last && last <= rows;
        ensure(is_inside, || {
            format!("the rows before {first}, from {from} to {to} and from {last} on of {rows}")
        })
    }
}

/// Factors on the attention weights of rows of a part (KVzip+).
#[derive(Clone, Copy)]
pub struct WeightFactors<'a> {
    /// `[rows of the part, group, heads of the lane]` f32: of each row, for each query head of its KV head. At least 0.
    pub rows: &'a Tensor,
    /// `[tokens whose queries count]` f32: of each token's queries. At least 0.
    pub tokens: &'a Tensor,
}

/// The lane whose rows accumulate attention, or get predicted scores.
pub struct AccumulatingLane<'a> {
    /// The lane.
    pub lane: &'a GraphLane,
    /// `[capacity, heads]` f32: what each row has received so far, or its predicted score.
    pub accumulated: &'a Tensor,
    /// The lane's number in its layer: its row of the [`LaneInputs`].
    pub number: usize,
    /// The heads that accumulate, by their numbers in the lane.
    pub heads: Arc<[u32]>,
}

impl WeightFactors<'_> {
    /// The factors are those of the rows of a part, and of the tokens among `n` whose queries count.
    fn check(self, shape: AttentionShape, to: &AccumulatingLane, how: Accumulation, n: usize) -> Check {
        let WeightFactors { rows, tokens } = self;
        let Some(part) = how.part.filter(|_| how.combine == Combine::Max) else {
            return Err("factors on weights that do not count as the largest for rows of a part".into());
        };
        let heads = to.lane.kv_heads.len();
        is("factors of rows", rows, Type::F32, [part.to - part.from, shape.group, heads, 1])?;
        is("factors of tokens", tokens, Type::F32, [how.queries.min(n), 1, 1, 1])
    }
}

impl AccumulatingLane<'_> {
    /// The lane has heads of a model with `n_kv_heads` KV heads, a number for each row, and the heads that accumulate.
    pub(super) fn check(&self, n_kv_heads: usize) -> Check {
        let AccumulatingLane { lane, accumulated, number, heads } = self;
        check_lane(lane, n_kv_heads)?;
        check_accumulated(lane, accumulated)?;
        ensure(*number < MAX_LANES, || format!("lane {number} of {MAX_LANES}"))?;
        // A head that is given twice would be written by two threads.
        check_heads("head", heads, lane.kv_heads.len())?;
        ensure(!heads.is_empty(), || "no heads accumulate".into())
    }
}

/// Combines the attention weights of queries with the accumulated attention of a lane without a window. For a sum each
/// row gets the mean over the query heads of its KV head, for a maximum that of the query heads. The queries belong to
/// the last tokens of `inputs.positions`. Without a part the numbers of the appended rows begin at 0. The result has no
/// data.
pub struct AccumulateAttention<'a> {
    /// The heads of the layer.
    pub shape: AttentionShape,
    /// The queries.
    pub queries: QueryHeads<'a>,
    /// The rows that were appended.
    pub appended: Appended<'a>,
    /// Where attention is accumulated.
    pub to: AccumulatingLane<'a>,
    /// The state of the layer's lanes.
    pub inputs: &'a LaneInputs,
    /// Which queries, and how.
    pub how: Accumulation,
    /// Factors on the weights, where the largest of them counts for the rows of a part. There is no room for them beside
    /// both sink logits and ALiBi.
    pub factors: Option<WeightFactors<'a>>,
}

impl Operation for AccumulateAttention<'_> {
    const NAME: &'static str = "accumulate_attention";

    fn check(&self) -> Check {
        let AccumulateAttention { shape, queries, ref to, inputs, how, factors, .. } = *self;
        check(shape, queries, to, inputs, how)?;
        factors.map_or(Ok(()), |factors| factors.check(shape, to, how, queries.q.dim(2)))
    }

    fn own(self, ctx: &Context, _: Split) -> Tensor {
        accumulate_attention(ctx, self)
    }

    fn portable(self, ctx: &Context) -> Tensor {
        portable::accumulate_attention(ctx, self)
    }
}

/// The node of own kernels.
fn accumulate_attention(ctx: &Context, operands: AccumulateAttention) -> Tensor {
    let AccumulateAttention { shape, queries, appended, to, inputs, how, factors } = operands;
    let (QueryHeads { q, sink_logits }, new) = (queries, appended.rows);
    let AccumulatingLane { lane, accumulated, number, heads } = to;
    let tokens = how.queries.min(q.dim(2));
    let splits = splits(tokens * shape.group, heads.len(), lane.k.dim(1));
    let stats = [2, splits, tokens * shape.group, heads.len()];
    let mut operands = Operands::default();
    let queries = operands.heads(q);
    operands.after(appended.node);
    let node = AccumulateAttentionNode {
        queries,
        live: operands.live_rows(inputs),
        log_weights: operands.log_weights(inputs),
        positions: operands.numbers(&inputs.positions),
        keys: operands.read(&lane.k),
        accumulated: operands.write(accumulated),
        row_positions: (lane.positions.as_ref())
            .map(|positions| (operands.numbers(&positions.all), positions.first)),
        sink_logits: sink_logits.map(|sink_logits| operands.floats(sink_logits)),
        factors: factors.map(|WeightFactors { rows, tokens }| FactorsAt {
            rows: operands.read(rows),
            tokens: operands.floats(tokens),
        }),
        shape,
        slopes: shape.alibi_slopes(),
        number,
        compensated: lane.compensated,
        kv_heads: heads.iter().map(|head| lane.kv_heads[*head as usize]).collect(),
        heads,
        new,
        tokens,
        how,
        splits,
    };
    // On devices the result has the statistics that the first pass writes and the second reads.
    operands.node(ctx, Type::F32, stats, node)
}

fn check(
    shape: AttentionShape,
    queries: QueryHeads,
    to: &AccumulatingLane,
    inputs: &LaneInputs,
    how: Accumulation,
) -> Check {
    let (lane, q) = (to.lane, queries.q);
    check_queries(shape, "queries", queries)?;
    ensure(lane.window.is_none(), || "a lane with a window accumulates no attention".into())?;
    ensure(how.queries > 0, || "no queries count".into())?;
    to.check(shape.n_kv_heads)?;
    check_distances(lane, shape)?;
    ensure(lane.k.dim(0) == shape.head_dim, || format!("the keys are {:?}, the queries {q:?}", lane.k))?;
    if let Some(part) = how.part {
        ensure(!lane.compensated, || "a part of a compensated lane".into())?;
        part.check(lane.k.dim(1))?;
    }
    check_inputs(inputs)?;
    is_vector("positions", &inputs.positions, 1)
}

/// The node of [`AccumulateAttention`].
struct AccumulateAttentionNode {
    /// `[head_dim, n_heads, n_q]`
    queries: HeadsAt,
    live: LaneColumnAt,
    log_weights: LaneColumnAt,
    /// Positions of the tokens.
    positions: NumbersAt,
    /// `[head_dim, capacity, heads of the lane]`
    keys: TensorAt,
    /// `[capacity, heads of the lane]`
    accumulated: TensorAt,
    /// Positions of the layer's rows, and the index of the lane's first, where it has positions.
    row_positions: Option<(NumbersAt, usize)>,
    /// `[n_heads]`
    sink_logits: Option<FloatsAt>,
    factors: Option<FactorsAt>,
    shape: AttentionShape,
    /// `[n_heads]`: the ALiBi slopes, in layers that have them.
    slopes: Option<Arc<[f32]>>,
    /// The lane's number in its layer.
    number: usize,
    compensated: bool,
    /// The heads that accumulate, by their numbers in the lane.
    heads: Arc<[u32]>,
    /// The KV heads of the model that these are.
    kv_heads: Vec<u32>,
    /// Rows that were appended.
    new: usize,
    /// Tokens whose queries count.
    tokens: usize,
    how: Accumulation,
    splits: usize,
}

/// The handles of [`WeightFactors`].
#[derive(Clone, Copy)]
struct FactorsAt {
    /// `[rows of the part, group, heads of the lane]`
    rows: TensorAt,
    /// `[tokens]`
    tokens: FloatsAt,
}

impl FactorsAt {
    /// The factors of the rows of a head of the lane, `[rows of the part, group]`, on the CPU.
    fn of_head<'a>(self, task: &CustomTask, head: usize) -> &'a [f32] {
        let tensor = self.rows.of(task);
        let [rows, group, heads, _] = tensor.shape;
        // SAFETY: a contiguous f32 tensor (`WeightFactors::check`), which nothing writes to while the node runs.
        let all = unsafe { from_raw_parts(tensor.data.cast::<f32>(), rows * group * heads) };
        &all[head * rows * group..][..rows * group]
    }
}

/// What the queries of a computation see.
struct Seen<'a> {
    queries: HeadVectors,
    /// The first token whose queries count.
    first: usize,
    /// Position of the last token.
    last: usize,
    /// Rows before those of this computation.
    live: usize,
    /// All rows.
    all: usize,
    /// The rows that are seen, ascending.
    rows: [Range<usize>; 3],
    /// Log-weight of row 0 in a compensated lane.
    log_weight: f32,
    sink_logits: Option<&'a [f32]>,
}

impl Node for AccumulateAttentionNode {
    fn on_cpu(&self, task: &CustomTask) {
        let seen = match self.seen(task) {
            Ok(seen) => seen,
            Err(problem) => return task.fail(format!("accumulate_attention: {problem}")),
        };
        for at in (task.thread..self.heads.len()).step_by(task.threads) {
            // SAFETY: each head's column is used by one thread; [capacity, heads] f32.
            let column = unsafe { self.accumulated.column(task, self.heads[at] as usize) };
            self.clear(&seen, column);
            if let Err(error) = self.accumulate_head(task, &seen, at, column) {
                task.fail(format!("accumulate_attention: {error}"));
            }
        }
    }

    fn on_device(&self, task: &DeviceTask) -> Result<(), i32> {
        let AccumulateAttentionNode { shape, how, number, .. } = *self;
        let of_lane = |column: LaneColumnAt| column.address(task).map(|lanes| lanes.wrapping_add(4 * number));
        let k = self.keys.of(task);
        let part = how.part.unwrap_or(SeenPart { first: 0, from: 0, to: 0, last: 0 });
        let heads = ScoredHeads { tensor_heads: &self.heads, kv_heads: &self.kv_heads };
        let call = device::AccumulateCall {
            live: of_lane(self.live)?.cast(),
            log_weight: if self.compensated { of_lane(self.log_weights)?.cast() } else { null() },
            last: last_address(self.positions, task),
            positions: match self.row_positions {
                Some((positions, first)) => positions.address(task).wrapping_add(first),
                None => null(),
            },
            sink_logits: address_or_null(self.sink_logits, task),
            stats: task.result().data.cast(),
            out: self.accumulated.of(task).data.cast(),
            capacity: k.shape[1] as i32,
            added: self.new as i32,
            tokens: self.tokens as i32,
            replace: how.replace.into(),
            maximum: (how.combine == Combine::Max).into(),
            part_first: part.first as i32,
            part_from: part.from as i32,
            part_to: part.to as i32,
            part_last: part.last as i32,
            row_factors: match self.factors {
                Some(factors) => factors.rows.of(task).data.cast(),
                None => null(),
            },
            token_factors: address_or_null(self.factors.map(|factors| factors.tokens), task),
            ..accumulate_call(shape, self.queries.on_device(task), k, how.gain, self.splits, heads)?
        };
        // SAFETY: the addresses are those of the operands and of the result, whose shapes are those of the
        // call.
        unsafe { device::accumulate(task, &call) }
    }
}

impl AccumulateAttentionNode {
    /// What the queries see; an error where the inputs do not fit the lane.
    fn seen<'a>(&self, task: &CustomTask) -> Result<Seen<'a>, String> {
        let AccumulateAttentionNode { number, new, tokens, how, .. } = *self;
        let live = self.live.read(task)[number];
        let all = rows_after(live, new, self.keys.of(task).shape[1])?;
        ensure(all >= tokens, || format!("{all} rows are fewer than the {tokens} tokens that score"))?;
        how.part.map_or(Ok(()), |part| part.check(all - new))?;
        let queries = self.queries.read(task);
        Ok(Seen {
            first: queries.tokens - tokens,
            queries,
            last: last_position(self.positions, task, tokens)?,
            live: live as usize,
            all,
            rows: match how.part {
                Some(part) => [0..part.first, part.from..part.to, part.last..all],
                None => [0..all, all..all, all..all],
            },
            log_weight: f32::from_bits(self.log_weights.read(task)[number] as u32),
            sink_logits: self.sink_logits.map(|sink_logits| sink_logits.read(task)),
        })
    }

    /// Sets the numbers of a head `[capacity]` to 0 that do not go on: those of new rows, and all that are replaced.
    fn clear(&self, seen: &Seen, column: &mut [f32]) {
        let cleared = match (self.how.part, self.how.replace) {
            (Some(part), true) => part.from..part.to,
            (Some(_), false) => 0..0,
            (None, true) => 0..seen.all,
            (None, false) => seen.live..seen.all,
        };
        column[cleared].fill(0.0);
    }

    /// Combines the weights of the queries of head number `at` with its numbers `column` `[capacity]`.
    fn accumulate_head(
        &self,
        task: &CustomTask,
        seen: &Seen,
        at: usize,
        column: &mut [f32],
    ) -> Result<(), ShapeError> {
        let (shape, how) = (self.shape, self.how);
        let keys = Keys {
            rows: self.keys.rows(task),
            head: self.heads[at] as usize,
            seen: &seen.rows,
            log_weight: if self.compensated { seen.log_weight } else { 0.0 },
            head_dim: shape.head_dim,
            softcap: shape.softcap,
        };
        let queries = self.scoring_queries(task, seen, at);
        let adjust = |query: usize, logits: &mut [f32]| self.adjust(task, seen, at, query, logits);
        let add = |out: &mut [f32]| {
            with_scratch(|scratch| add_weights(&keys, &queries, how.combine, adjust, out, scratch))
        };
        let Some(SeenPart { first, from, to, .. }) = how.part else { return add(&mut column[..seen.all]) };
        // Only the part's rows get numbers.
        let rows = first..first + to - from;
        let Some(factors) = self.factors else {
            let mut of_seen: Vec<f32> =
                seen.rows.iter().flat_map(|range| &column[range.clone()]).copied().collect();
            let added = add(&mut of_seen);
            column[from..to].copy_from_slice(&of_seen[rows]);
            return added;
        };
        let live: usize = seen.rows.iter().map(Range::len).sum();
        let mut of_members = vec![0.0; live * shape.group];
        add(&mut of_members)?;
        let factors = factors.of_head(task, self.heads[at] as usize);
        for (weights, factors) in of_members.chunks_exact(live).zip(factors.chunks_exact(to - from)) {
            for ((number, weight), factor) in
                column[from..to].iter_mut().zip(&weights[rows.clone()]).zip(factors)
            {
                *number = number.max(weight * factor);
            }
        }
        Ok(())
    }

    /// The queries of head number `at` that count: token after token, each with all query heads of the group. Where rows
    /// have factors, each query head has numbers of its own.
    fn scoring_queries<'a>(&self, task: &CustomTask, seen: &Seen<'a>, at: usize) -> Vec<ScoringQuery<'a>> {
        let AttentionShape { head_dim, group, scale, .. } = self.shape;
        let first_query_head = self.kv_heads[at] as usize * group;
        let tokens = seen.first..seen.queries.tokens;
        let factors = self.factors.map(|factors| factors.tokens.read(task));
        let queries = tokens.flat_map(|t| (0..group).map(move |member| (t, member)));
        let query = |(t, member): (usize, usize)| {
            let tokens_seen = seen.last + 2 - (seen.queries.tokens - t);
            let head = first_query_head + member;
            let factor = match (self.how.combine, factors) {
                (Combine::Sum, _) => 1.0 / group as f32,
                (Combine::Max, Some(factors)) => factors[t - seen.first],
                (Combine::Max, None) => 1.0,
            };
            ScoringQuery {
                data: seen.queries.get(head, t),
                scale,
                gain: self.how.gain.at(tokens_seen, head_dim) as f32,
                sink: seen.sink_logits.map_or(f32::NEG_INFINITY, |sink_logits| sink_logits[head]),
                factor,
                target: if factors.is_some() { member } else { 0 },
            }
        };
        queries.map(query).collect()
    }

    /// Hides the rows of later tokens from query number `query` of head number `at`, and adds the biases of ALiBi to the
    /// logits of the rows that are seen.
    fn adjust(&self, task: &CustomTask, seen: &Seen, at: usize, query: usize, logits: &mut [f32]) {
        let AttentionShape { head_dim, group, .. } = self.shape;
        let later = seen.queries.tokens - 1 - (seen.first + query / group);
        let visible = logits.len() - later;
        logits[visible..].fill(f32::NEG_INFINITY);
        if let (Some(slopes), Some((positions, first))) = (&self.slopes, self.row_positions) {
            let first = first + self.heads[at] as usize * self.keys.of(task).shape[1];
            let positions = &positions.read(task)[first..first + seen.all];
            let positions = seen.rows.iter().flat_map(|range| &positions[range.clone()]);
            let gain = self.how.gain.at(seen.last + 1 - later, head_dim) as f32;
            let slope = slopes[self.kv_heads[at] as usize * group + query % group] * gain;
            let positions = positions.map(|position| *position as f32);
            add_alibi_bias(logits, positions, seen.last - later, slope);
        }
    }
}
