//! What queries see of a lane's rows, as masks that are made where the graph is computed, of the number of live rows.
//! Row numbers and positions are f32, which has whole numbers up to 2^24.

use std::ops::Range;

use ggml::{Context, Tensor, Type};

use crate::graph::{GraphLane, LaneInputs, MAX_LANES, RowPositions};

/// Element `number` of the inputs' layer in one of their tensors `[MAX_LANES, layers]`: `[1]`.
fn of_lane(ctx: &Context, column: &Tensor, inputs: &LaneInputs, number: usize) -> Tensor {
    ctx.view(column, [1], [4; 3], 4 * (inputs.layer * MAX_LANES + number))
}

/// The live rows of a lane before the new ones: `[1]` i32.
pub(super) fn live_rows(ctx: &Context, inputs: &LaneInputs, number: usize) -> Tensor {
    of_lane(ctx, &inputs.rows, inputs, number)
}

/// The log-weight of a lane's compensation entry `[1]`, in lanes that have one.
pub(super) fn log_weight(
    ctx: &Context,
    lane: &GraphLane,
    inputs: &LaneInputs,
    number: usize,
) -> Option<Tensor> {
    lane.compensated.then(|| of_lane(ctx, &inputs.log_weights, inputs, number))
}

/// 0 where `seen` is 1, `-inf` where it is 0.
fn hide(ctx: &Context, seen: &Tensor) -> Tensor {
    ctx.log(seen) // ln 1 and ln 0
}

/// The whole numbers `first`, `first` + 1, ... plus the i32 `start` `[1]`: `[n]` f32.
pub(super) fn numbers_from(ctx: &Context, start: &Tensor, first: i32, n: usize) -> Tensor {
    ctx.add(&ctx.arange(first, n), &ctx.cast(start, Type::F32))
}

/// The tokens of a lane's queries: some of the last `n_q` tokens, whose rows are the last.
#[derive(Clone)]
pub(super) struct Queries<'a> {
    /// Live rows before the new ones, `[1]` i32.
    pub live: &'a Tensor,
    /// Rows that were appended.
    pub added: usize,
    /// Queries of each head.
    pub n_q: usize,
    /// Those that count here.
    pub tokens: Range<usize>,
}

impl Queries<'_> {
    /// The number of the last row that each query sees: `[n]` f32.
    pub fn last_rows(&self, ctx: &Context) -> Tensor {
        let first = self.added as i32 - self.n_q as i32 + self.tokens.start as i32;
        numbers_from(ctx, self.live, first, self.tokens.len())
    }

    /// `[capacity, n]`: 0 where a query sees a row, `-inf` where it does not. With a window of rows in order, it sees the
    /// last ones.
    pub fn hidden(&self, ctx: &Context, capacity: usize, window: Option<usize>) -> Tensor {
        let n = self.tokens.len();
        let rows = ctx.scale_add(&ctx.arange(0, capacity), -1.0, 0.5);
        // How far a row is before the last one that is seen, and a half: above 0 where it is seen.
        let rows = ctx.repeat(&ctx.reshape(&rows, [capacity, 1]), n);
        let distance = ctx.add(&rows, &ctx.reshape(&self.last_rows(ctx), [1, n]));
        let seen = ctx.step(&distance);
        let seen = match window {
            // Not so far that the window does not reach it.
            Some(tokens) => ctx.mul(&seen, &ctx.step(&ctx.scale_add(&distance, -1.0, tokens as f32))),
            None => seen,
        };
        hide(ctx, &seen)
    }
}

/// The first `first`, `from..to` and those from `last` on of `capacity` rows: `[capacity]`, 0 where a row is one of these,
/// `-inf` elsewhere.
pub(super) fn hidden_but(
    ctx: &Context,
    capacity: usize,
    first: usize,
    part: Range<usize>,
    last: usize,
) -> Tensor {
    let rows = ctx.arange(0, capacity);
    let below = |end: usize| ctx.step(&ctx.scale_add(&rows, -1.0, end as f32 - 0.5));
    let from = |start: usize| ctx.step(&ctx.scale_add(&rows, 1.0, 0.5 - start as f32));
    let of_part = ctx.mul(&from(part.start), &below(part.end));
    hide(ctx, &ctx.add(&ctx.add(&below(first), &from(last)), &of_part))
}

/// A number `[1]` for row 0 of `capacity` rows, and 0 for the others.
pub(super) fn of_first_row(ctx: &Context, number: &Tensor, capacity: usize) -> Tensor {
    ctx.pad(number, capacity - 1)
}

/// The distance of rows from queries, `[capacity, n, heads]`: position of the row - position of the query.
pub(super) fn distances(ctx: &Context, rows: &Tensor, queries: &Tensor) -> Tensor {
    let ([capacity, heads, ..], n) = (rows.shape().0, queries.shape().elements());
    let rows = ctx.repeat(&ctx.reshape(rows, [capacity, 1, heads]), n);
    ctx.sub(&rows, &ctx.reshape(queries, [1, n]))
}

/// The positions of neighbouring heads' rows `[capacity, heads]` f32, after `node`.
pub(super) fn row_positions(
    ctx: &Context,
    positions: &RowPositions,
    capacity: usize,
    heads: Range<usize>,
    node: &Tensor,
) -> Tensor {
    let all = ctx.after(&positions.all, &[node]);
    let (column, first) = (4 * capacity, positions.first + heads.start * capacity);
    let view = ctx.view(
        &all,
        [capacity, heads.len()],
        [column, column * heads.len(), column * heads.len()],
        4 * first,
    );
    ctx.cast(&view, Type::F32)
}

/// Distances `[capacity, n, heads]` as biases of ALiBi for the query heads of these KV heads, `[capacity, n, query heads]`,
/// times the `gains` of the queries. There are `slopes` for all query heads of the layer.
pub(super) fn alibi(
    ctx: &Context,
    distances: &Tensor,
    slopes: &[f32],
    query_heads: &[u32],
    gains: Option<&Tensor>,
) -> Tensor {
    let heads = distances.dim(2);
    let group = query_heads.len() / heads;
    let slopes: Vec<f32> = query_heads.iter().map(|head| slopes[*head as usize]).collect();
    let slopes = ctx.reshape(&ctx.constant_f32(&slopes), [1, group, heads]);
    let [capacity, n, ..] = distances.shape().0;
    let of_queries = ctx.repeat(&ctx.reshape(distances, [capacity * n, 1, heads]), group);
    let biases = ctx.reshape(&ctx.mul(&of_queries, &slopes), [capacity, n, group * heads]);
    gains.map_or(biases.clone(), |gains| ctx.mul(&biases, gains))
}

/// A mask of KV heads `[capacity, n, heads]` for each of the `group` query heads of each: `[capacity, n, query heads]`.
pub(super) fn of_query_heads(ctx: &Context, mask: &Tensor, group: usize) -> Tensor {
    let [capacity, n, heads, _] = mask.shape().0;
    let each = ctx.repeat(&ctx.reshape(mask, [capacity * n, 1, heads]), group);
    ctx.reshape(&each, [capacity, n, group * heads])
}

/// `[capacity, n, heads]`: 0 where a row is not further from a query than the window's tokens, `-inf` elsewhere.
pub(super) fn outside_window(ctx: &Context, distances: &Tensor, tokens: usize) -> Tensor {
    hide(ctx, &ctx.step(&ctx.scale_add(distances, 1.0, tokens as f32 - 0.5)))
}

/// `[rows, n, heads]`: 0 where a row is no later than a query, `-inf` elsewhere.
pub(super) fn later(ctx: &Context, distances: &Tensor) -> Tensor {
    hide(ctx, &ctx.step(&ctx.scale_add(distances, -1.0, 0.5)))
}
