//! Accumulated attention: weights are computed, then added up, or their maximum taken, along the queries.

use std::ops::Range;

use ggml::{Context, Tensor};

use super::heads::{head_rows, query_heads, runs, take_heads_of, take_numbers};
use super::seen::{
    Queries, alibi, distances, hidden_but, live_rows, log_weight, numbers_from, of_first_row, row_positions,
};
use super::weights::{Beside, logits, softmax};
use super::{after_all, parts};
use crate::graph::{
    AccumulateAttention, AccumulatingLane, Accumulation, Appended, AttentionShape, Combine, Gain, GraphLane,
    QueryHeads, SeenPart, WeightFactors,
};

/// The nodes of [`AccumulateAttention`].
pub(crate) fn accumulate_attention(ctx: &Context, operands: AccumulateAttention) -> Tensor {
    let AccumulateAttention { shape, queries, appended, to, inputs, how, factors } = operands;
    let AccumulatingLane { lane, accumulated, number, heads } = to;
    let live = live_rows(ctx, inputs, number);
    let call = Call {
        ctx,
        shape,
        queries,
        appended,
        lane,
        live: &live,
        log_weight: log_weight(ctx, lane, inputs, number),
        last: ctx.view(&inputs.positions, [1], [4; 3], 4 * (inputs.positions.dim(0) - 1)),
        slopes: shape.alibi_slopes(),
        how,
        factors,
    };
    let all = heads.len();
    let written: Vec<Tensor> = (runs(&heads, all).into_iter())
        .map(|run| {
            let first = heads[run.start] as usize;
            let run = first..first + run.len();
            call.write(accumulated, run.clone(), &call.of_heads(run))
        })
        .collect();
    // Inputs that have memory, as in the other form, also where nothing depends on them.
    ctx.after(&after_all(ctx, &written), &[&inputs.log_weights, &inputs.positions])
}

/// What is computed for each run of the lane's heads.
struct Call<'a> {
    ctx: &'a Context,
    shape: AttentionShape,
    queries: QueryHeads<'a>,
    appended: Appended<'a>,
    lane: &'a GraphLane,
    /// `[1]` i32
    live: &'a Tensor,
    /// `[1]`, in lanes with a compensation entry.
    log_weight: Option<Tensor>,
    /// `[1]` i32: the position of the last token.
    last: Tensor,
    /// `[n_heads]`, in layers with ALiBi.
    slopes: Option<std::sync::Arc<[f32]>>,
    how: Accumulation,
    factors: Option<WeightFactors<'a>>,
}

impl Call<'_> {
    /// What the rows of some of the lane's heads get from the queries: `[capacity, heads]`, or `[rows of the part, heads]`.
    fn of_heads(&self, run: Range<usize>) -> Tensor {
        let (ctx, shape, capacity, n_q) = (self.ctx, self.shape, self.lane.k.dim(1), self.queries.q.dim(2));
        let count = self.how.queries.min(n_q);
        let heads = query_heads(&self.lane.kv_heads[run.clone()], shape.group);
        let k = ctx.after(&self.lane.k, &[self.appended.node]);
        let k = head_rows(ctx, &k, run.clone());
        let sink_logits = self.queries.sink_logits.map(|sink_logits| take_numbers(ctx, sink_logits, &heads));
        let mut total: Option<Tensor> = None;
        for part in parts(count, capacity * heads.len()) {
            let tokens = n_q - count + part.start..n_q - count + part.end;
            let queries = Queries { live: self.live, added: self.appended.rows, n_q, tokens };
            let n = part.len();
            let gains = self.gains(&queries);
            let logits = logits(ctx, shape, &k, &take_heads_of(ctx, self.queries.q, &heads, &queries.tokens));
            let mask = self.mask(&heads, run.clone(), &queries, gains.as_ref());
            let beside = Beside { mask: &mask, sink_logits: sink_logits.as_ref(), gains: gains.as_ref() };
            let weights = self.counted(softmax(ctx, &logits, beside), &run, &part);
            let rows = weights.dim(0);
            let weights = ctx.reshape(&weights, [rows, n * shape.group, run.len()]);
            let of_rows = ctx.transposed(&weights);
            let of_part = match self.how.combine {
                Combine::Sum => ctx.scale(&ctx.sum_rows(&of_rows), 1.0 / shape.group as f32),
                Combine::Max => ctx.max_of(&of_rows, n * shape.group),
            };
            let of_part = ctx.reshape(&of_part, [rows, run.len()]);
            total = Some(total.map_or(of_part.clone(), |total| self.combine(&total, &of_part)));
        }
        total.expect("queries count (checked)")
    }

    /// The weights of the rows that get numbers, `[rows, n, query heads]`, times their factors. `weights` `[capacity, n, query
    /// heads]` are those of the heads `run`. `tokens` are the n tokens' numbers among those that count.
    fn counted(&self, weights: Tensor, run: &Range<usize>, tokens: &Range<usize>) -> Tensor {
        let (ctx, Some(part)) = (self.ctx, self.how.part) else { return weights };
        let (rows, [_, n, heads, _], [_, of_token, of_head, _]) =
            (part.to - part.from, weights.shape().0, weights.strides());
        let strides = [of_token, of_head, of_head * heads];
        let of_part = ctx.cont(&ctx.view(&weights, [rows, n, heads], strides, 4 * part.from));
        let Some(WeightFactors { rows: of_rows, tokens: of_tokens }) = self.factors else { return of_part };
        let column = 4 * rows;
        let first = column * self.shape.group * run.start;
        let of_rows = ctx.view(of_rows, [rows, 1, heads], [column, column, column * heads], first);
        let row = 4 * tokens.len();
        let of_tokens = ctx.view(of_tokens, [1, tokens.len()], [4, row, row], 4 * tokens.start);
        ctx.mul(&ctx.mul(&of_part, &of_rows), &of_tokens)
    }

    /// Two numbers of each row as one.
    fn combine(&self, a: &Tensor, b: &Tensor) -> Tensor {
        match self.how.combine {
            Combine::Sum => self.ctx.add(a, b),
            Combine::Max => self.ctx.add(a, &self.ctx.relu(&self.ctx.sub(b, a))),
        }
    }

    /// The positions of tokens, and `more`: `[n]` f32.
    fn positions(&self, queries: &Queries, more: i32) -> Tensor {
        let first = queries.tokens.start as i32 - queries.n_q as i32 + 1;
        numbers_from(self.ctx, &self.last, first + more, queries.tokens.len())
    }

    /// The factors on the queries' logits, `[1, n]`, where they are not 1.
    fn gains(&self, queries: &Queries) -> Option<Tensor> {
        let (ctx, head_dim) = (self.ctx, self.shape.head_dim as f32);
        let (budget, factor) = match self.how.gain {
            Gain::One => return None,
            Gain::Entropy { budget } => (budget.max(1) as f32, 1.0),
            Gain::Literal { budget } => (budget.max(1) as f32, head_dim.sqrt().recip()),
        };
        let seen = self.positions(queries, 1);
        let logarithm = ctx.at_least(&ctx.log(&ctx.scale(&seen, budget.recip())), 0.0);
        let gain = ctx.scale(&ctx.sqrt(&ctx.scale(&logarithm, 2.0)), factor);
        // 1 up to the budget.
        let above = ctx.step(&ctx.scale_add(&seen, 1.0, -(budget + 0.5)));
        let gain = ctx.scale_add(&ctx.mul(&ctx.scale_add(&gain, 1.0, -1.0), &above), 1.0, 1.0);
        Some(ctx.reshape(&gain, [1, queries.tokens.len()]))
    }

    /// `[capacity, n]`, or that for each query head.
    fn mask(&self, heads: &[u32], run: Range<usize>, queries: &Queries, gains: Option<&Tensor>) -> Tensor {
        let (ctx, lane, capacity) = (self.ctx, self.lane, self.lane.k.dim(1));
        let mut mask = queries.hidden(ctx, capacity, None);
        if let Some(SeenPart { first, from, to, last }) = self.how.part {
            mask = ctx.add(&mask, &hidden_but(ctx, capacity, first, from..to, last));
        }
        if let Some(log_weight) = &self.log_weight {
            mask = ctx.add(&mask, &of_first_row(ctx, log_weight, capacity));
        }
        let (Some(slopes), Some(positions)) = (&self.slopes, &lane.positions) else { return mask };
        let of_rows = row_positions(ctx, positions, capacity, run, self.appended.node);
        let distances = distances(ctx, &of_rows, &self.positions(queries, 0));
        ctx.add(&alibi(ctx, &distances, slopes, heads, gains), &mask)
    }

    /// Combines the accumulated attention of some heads with `weights`, `[capacity, heads]` or `[rows of the part, heads]`.
    fn write(&self, accumulated: &Tensor, run: Range<usize>, weights: &Tensor) -> Tensor {
        let (ctx, capacity, new, how) = (self.ctx, self.lane.k.dim(1), self.appended.rows, self.how);
        let column = 4 * capacity;
        let strides = [column, column * run.len(), column * run.len()];
        let mut numbers = ctx.view(accumulated, [capacity, run.len()], strides, column * run.start);
        if how.part.is_none() && !how.replace && new > 0 {
            // Rows that were somebody else's before.
            let rows = ctx.row_numbers(self.live, new, capacity);
            let zeros = ctx.repeat(&ctx.reshape(&ctx.arange(0, 1), [1, 1]), new * run.len());
            let zeros = ctx.reshape(&zeros, [1, new, run.len()]);
            let cleared = ctx.set_rows(&ctx.reshape(&numbers, [1, capacity, run.len()]), &zeros, &rows);
            numbers = ctx.reshape(&cleared, [capacity, run.len()]);
        }
        if let Some(SeenPart { from, to, .. }) = how.part {
            numbers = ctx.view(&numbers, [to - from, run.len()], strides, 4 * from);
        }
        let weights = if how.replace { weights.clone() } else { self.combine(&numbers, weights) };
        ctx.copy(&weights, &numbers)
    }
}
