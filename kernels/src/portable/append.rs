//! Rows of new tokens, and their positions, written behind the live ones.

use ggml::{Context, Tensor};

use super::after_all;
use super::heads::take_heads;
use super::seen::live_rows;
use crate::graph::{Append, GraphLane, LaneInputs};

/// The nodes of [`Append`].
pub(crate) fn append(ctx: &Context, Append { k, v, lanes, inputs }: Append) -> Tensor {
    let n = k.dim(2);
    let mut written = Vec::new();
    for (number, lane) in lanes.iter().enumerate() {
        // Rows that attention does not read are not written.
        let rows = ctx.row_numbers(&live_rows(ctx, inputs, number), n, lane.reach);
        for (to, from) in lane.tensors().zip([k, v]) {
            written.push(ctx.set_rows(to, &take_heads(ctx, from, &lane.kv_heads), &rows));
        }
        if let Some(positions) = &lane.positions {
            written.push(append_positions(ctx, lane, positions.first, &positions.all, inputs, &rows));
        }
    }
    after_all(ctx, &written)
}

/// Writes the positions of the new tokens to `all`, where those of the lane's rows begin at `first`.
fn append_positions(
    ctx: &Context,
    lane: &GraphLane,
    first: usize,
    all: &Tensor,
    inputs: &LaneInputs,
    rows: &Tensor,
) -> Tensor {
    let ([_, capacity, heads, _], n) = (lane.k.shape().0, rows.dim(0));
    let words = ctx.words(all, [1, all.dim(0)]);
    let column = 4 * capacity;
    let of_lane = ctx.view(&words, [1, capacity, heads], [4, column, column * heads], 4 * first);
    let new = ctx.words(&inputs.positions, [inputs.positions.dim(0), 1]);
    let new = ctx.repeat(&ctx.cont(&ctx.view(&new, [n, 1], [4 * n; 3], 0)), heads);
    ctx.set_rows(&of_lane, &ctx.reshape(&new, [1, n, heads]), rows)
}
