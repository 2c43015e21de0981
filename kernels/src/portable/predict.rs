//! Predicted scores of new rows.

use ggml::{Context, Tensor};

use super::heads::{head_rows, runs, take_heads};
use super::seen::live_rows;
use super::{after_all, constant};
use crate::graph::{AccumulatingLane, PredictScores};
use crate::predict::MIN_NORM_SQUARED;

/// The nodes of [`PredictScores`].
pub(crate) fn predict_scores(ctx: &Context, operands: PredictScores) -> Tensor {
    let PredictScores { k, v, maps, to, inputs } = operands;
    let AccumulatingLane { lane, accumulated, number, heads } = to;
    let (d_k, d_v, n, capacity) = (k.dim(0), v.dim(0), k.dim(2), accumulated.dim(0));
    let kv_heads: Vec<u32> = heads.iter().map(|head| lane.kv_heads[*head as usize]).collect();
    let numbers = constant(ctx, kv_heads.iter().map(|head| *head as usize));
    let maps = Maps { ctx, maps: &ctx.get_rows(maps, &numbers), elements: d_k + d_v };

    let of_keys = maps.of_part(&take_heads(ctx, k, &kv_heads), 0, 1);
    let of_values = maps.of_part(&take_heads(ctx, v, &kv_heads), d_k, 3);
    let scores = ctx.add(&ctx.add(&of_keys, &of_values), &maps.number(0));

    let rows = ctx.row_numbers(&live_rows(ctx, inputs, number), n, capacity);
    let table = ctx.reshape(accumulated, [1, capacity, accumulated.dim(1)]);
    let written: Vec<Tensor> = (runs(&heads, heads.len()).into_iter())
        .map(|run| {
            let first = heads[run.start] as usize;
            let of_run = head_rows(ctx, &table, first..first + run.len());
            ctx.set_rows(&of_run, &head_rows(ctx, &scores, run), &rows)
        })
        .collect();
    after_all(ctx, &written)
}

/// The maps of the heads that get scores.
struct Maps<'a> {
    ctx: &'a Context,
    /// `[numbers of a map, heads]`
    maps: &'a Tensor,
    /// Elements of a key and a value.
    elements: usize,
}

impl Maps<'_> {
    /// `n` numbers of each map, from number `first` on: `[n, 1, heads]`.
    fn numbers(&self, first: usize, n: usize) -> Tensor {
        let ([_, heads, ..], [_, of_head, ..]) = (self.maps.shape().0, self.maps.strides());
        self.ctx.view(self.maps, [n, 1, heads], [of_head, of_head, of_head * heads], 4 * first)
    }

    /// One of the numbers behind those of the elements: `[1, 1, heads]`.
    fn number(&self, number: usize) -> Tensor {
        self.numbers(3 * self.elements + number, 1)
    }

    /// What keys or values `x` `[d, n, heads]` add to the scores: `[1, n, heads]`. Their elements begin at `first` in the
    /// maps, the weights of their two logarithms at `weight`.
    fn of_part(&self, x: &Tensor, first: usize, weight: usize) -> Tensor {
        let ctx = self.ctx;
        let [means, weights, squares] =
            [0, 1, 2].map(|kind| self.numbers(kind * self.elements + first, x.dim(0)));
        let centred = ctx.sub(x, &means);
        let factors = ctx.add(&ctx.mul(&centred, &squares), &weights);
        let products = ctx.sum_rows(&ctx.mul(&factors, &centred));
        // The squares as products, because the rows of keys and values have gaps between them.
        let logarithms = [ctx.mul(x, x), ctx.square(&centred)].map(|squares| {
            let squared_norms = ctx.sum_rows(&squares);
            ctx.log(&ctx.at_least(&squared_norms, MIN_NORM_SQUARED))
        });
        let [of_all, of_centred] = logarithms;
        let sum = ctx.add(&products, &ctx.mul(&of_all, &self.number(weight)));
        ctx.add(&sum, &ctx.mul(&of_centred, &self.number(weight + 1)))
    }
}
