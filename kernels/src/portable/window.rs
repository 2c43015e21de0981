//! Window attention, and the ring of stored queries that it reads.

use std::ops::Range;

use ggml::{Context, Tensor, Type};

use super::heads::{query_heads, runs, take_numbers};
use super::seen::{alibi, distances, later, numbers_from, of_first_row, of_query_heads};
use super::weights::{Beside, logits, softmax};
use super::{constant, in_a_row, parts};
use crate::graph::{AttentionShape, Gain, RowLists, StoreQueries, WindowAttention, WindowQueries};

/// The nodes of [`StoreQueries`].
pub(crate) fn store_queries(ctx: &Context, StoreQueries { q, positions, ring }: StoreQueries) -> Tensor {
    let ([d, heads, n, _], [_, of_head, of_token, _]) = (q.shape().0, q.strides());
    let window = ring.dim(2);
    let stored = window.min(n);
    let last = ctx.view(positions, [1], [4; 3], 4 * (positions.dim(0) - 1));
    let slots = remainders(ctx, &numbers_from(ctx, &last, 1 - stored as i32, stored), window);
    let strides = [of_head, of_token, of_token * stored];
    let q = ctx.cont(&ctx.view(q, [d, heads, stored], strides, (n - stored) * of_token));
    let slots = ctx.bounded_rows(&slots, window);
    ctx.set_rows(&ctx.reshape(ring, [d * heads, window]), &ctx.reshape(&q, [d * heads, stored]), &slots)
}

/// Whole numbers `[n]` (f32, at least 0) modulo `divisor`.
fn remainders(ctx: &Context, numbers: &Tensor, divisor: usize) -> Tensor {
    let divisor = divisor as f32;
    let quotients = ctx.scale_add(numbers, divisor.recip(), 0.5 / divisor);
    let whole = ctx.cast(&ctx.cast(&quotients, Type::I32), Type::F32);
    let rest = ctx.sub(numbers, &ctx.scale(&whole, divisor));
    // A quotient that was rounded may be off by one.
    let below = ctx.step(&ctx.scale_add(&rest, -1.0, -0.5));
    let rest = ctx.add(&rest, &ctx.scale(&below, divisor));
    let above = ctx.step(&ctx.scale_add(&rest, 1.0, 0.5 - divisor));
    ctx.sub(&rest, &ctx.scale(&above, divisor))
}

/// The nodes of [`WindowAttention`].
pub(crate) fn window_attention(ctx: &Context, operands: WindowAttention) -> Tensor {
    let WindowAttention { shape, k, ring, positions, window } = operands;
    let rows = window.first + positions.rows[0].len();
    let all = positions.heads.len();
    let call = Call { ctx, shape, k, ring, positions: &positions, window: &window, rows };
    let of_runs: Vec<Tensor> =
        runs(&positions.heads, all).into_iter().map(|run| call.of_heads(run)).collect();
    let result = ctx.reshape(&in_a_row(ctx, &of_runs), [rows, shape.group, all]);
    ctx.cont(&result).output()
}

/// What is computed for each run of heads.
struct Call<'a> {
    ctx: &'a Context,
    shape: AttentionShape,
    k: &'a Tensor,
    ring: &'a Tensor,
    positions: &'a RowLists,
    window: &'a WindowQueries,
    /// Rows of a head, the compensation entry included.
    rows: usize,
}

impl Call<'_> {
    /// The weights that the rows of some heads, places in the list, get from each query head: `[rows, query heads]`.
    fn of_heads(&self, run: Range<usize>) -> Tensor {
        let Call { ctx, shape, k, window, rows, .. } = *self;
        let heads = query_heads(&window.kv_heads[run.clone()], shape.group);
        let ([d, ..], [_, of_row, of_head, _]) = (k.shape().0, k.strides());
        let first = self.positions.heads[run.start] as usize;
        let strides = [of_row, of_head, of_head * run.len()];
        let k = ctx.view(k, [d, rows, run.len()], strides, first * of_head);
        let sink_logits =
            window.sink_logits.as_ref().map(|sink_logits| take_numbers(ctx, sink_logits, &heads));
        let mut total: Option<Tensor> = None;
        for part in parts(window.positions.len(), rows * heads.len()) {
            let tokens = window.positions.start + part.start..window.positions.start + part.end;
            let gains = self.gains(&tokens);
            let logits = logits(ctx, shape, &k, &self.queries(&heads, &tokens));
            let mask = self.mask(&heads, run.clone(), &tokens, gains.as_ref());
            let beside = Beside { mask: &mask, sink_logits: sink_logits.as_ref(), gains: gains.as_ref() };
            let sums = ctx.sum_rows(&ctx.transposed(&softmax(ctx, &logits, beside)));
            let sums = ctx.reshape(&sums, [rows, heads.len()]);
            total = Some(total.map_or(sums.clone(), |total| ctx.add(&total, &sums)));
        }
        total.expect("the window has tokens (checked)")
    }

    /// The stored queries of these heads: `[head_dim, n, heads]`.
    fn queries(&self, heads: &[u32], tokens: &Range<usize>) -> Tensor {
        let (ctx, [d, all, slots, _]) = (self.ctx, self.ring.shape().0);
        let of_head = |head: u32| tokens.clone().map(move |token| token % slots * all + head as usize);
        let numbers = constant(ctx, heads.iter().copied().flat_map(of_head));
        let taken = ctx.get_rows(&ctx.reshape(self.ring, [d, all * slots]), &numbers);
        ctx.reshape(&taken, [d, tokens.len(), heads.len()])
    }

    /// The factors on the queries' logits, `[1, n]`, where they are not 1.
    fn gains(&self, tokens: &Range<usize>) -> Option<Tensor> {
        let gain = self.window.gain;
        let gains: Vec<f32> =
            tokens.clone().map(|token| gain.at(token + 1, self.shape.head_dim) as f32).collect();
        (gain != Gain::One).then(|| self.ctx.reshape(&self.ctx.constant_f32(&gains), [1, tokens.len()]))
    }

    /// `[rows, n, query heads]`
    fn mask(
        &self,
        heads: &[u32],
        run: Range<usize>,
        tokens: &Range<usize>,
        gains: Option<&Tensor>,
    ) -> Tensor {
        let Call { ctx, shape, window, rows, .. } = *self;
        // Every token sees the compensation entry.
        let of_head = |list: &std::sync::Arc<Vec<u32>>| {
            let entry = (0..window.first).map(|_| -1.0);
            entry.chain(list.iter().map(|position| *position as f32)).collect::<Vec<f32>>()
        };
        let positions: Vec<f32> = self.positions.rows[run.clone()].iter().flat_map(of_head).collect();
        let positions = ctx.reshape(&ctx.constant_f32(&positions), [rows, run.len()]);
        let own: Vec<f32> = tokens.clone().map(|token| token as f32).collect();
        let distances = distances(ctx, &positions, &ctx.constant_f32(&own));
        let mut mask = later(ctx, &distances);
        if window.first > 0 {
            mask = ctx.add(&mask, &of_first_row(ctx, &ctx.constant_f32(&[window.log_weight]), rows));
        }
        let mask = of_query_heads(ctx, &mask, shape.group);
        let Some(slopes) = shape.alibi_slopes() else { return mask };
        ctx.add(&alibi(ctx, &distances, &slopes, heads, gains), &mask)
    }
}
