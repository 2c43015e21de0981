//! The operations of [`graph`](crate::graph) as plain ggml nodes, so that every backend of ggml computes them.
//! [`Form`](crate::Form) says which of the two a place has.
//!
//! *What differs.* Attention reads lanes as far as [`GraphLane::reach`] says, other operations read whole lanes, and a mask
//! hides what a query does not see. So rows behind the live ones, and compensation entries that are not used yet, must decode
//! to finite numbers, as those of memory that was cleared do. Each query sees a row at least: its own. Rows are moved as they
//! are, in words of 4 bytes, so that each row must have a whole number of them ([`moves_rows`]). Accumulated attention that is
//! replaced is 0 behind the live rows. Errors are found when the graph is built or, for live rows that leave no room for new
//! ones, before it is computed.
//!
//! *What it does not use.* Row numbers are inputs or computed from them, rows are written by `set_rows` alone, and masks
//! are made of the live rows by arithmetic: of what ggml has for these, some backends lack one or the other, and the CPU
//! aborts at a copy into a part of quantised rows.
//!
//! - `append`, `attend`, `accumulate`, `window`, `measure`, `predict`, `evict`: the nodes of each [`Operation`](crate::Operation).
//! - `seen`: what queries see, as masks; `weights`: logits and their softmax; `heads`: heads that are taken and put back.

mod accumulate;
mod append;
mod attend;
mod evict;
mod heads;
mod measure;
mod predict;
mod seen;
mod weights;
mod window;

use ggml::{Context, Tensor};

use crate::graph::GraphLane;

pub(crate) use self::accumulate::accumulate_attention;
pub(crate) use self::append::append;
pub(crate) use self::attend::attend;
pub use self::evict::moves_rows;
pub(crate) use self::evict::{evict_rows, select_rows};
pub(crate) use self::measure::measure_rows;
pub(crate) use self::predict::predict_scores;
pub(crate) use self::window::{store_queries, window_attention};

/// The most elements of an intermediate tensor, where work can be done in parts: 64 MB.
const MAX_ELEMENTS: usize = 1 << 24;

/// Maximum number of tensors of any one operation on a lane: a number for the operation, one for each of its heads, which may
/// be computed one by one, and one for each part of the work. A part is at least half as large as it may be.
pub(crate) fn max_tensors(lane: &GraphLane, group: usize, n: usize) -> usize {
    /// More than any operation makes for one head and one part.
    const OF_PART: usize = 128;
    let [head_dim, capacity, heads, _] = lane.k.shape().0;
    let elements = capacity.saturating_mul(heads).saturating_mul((group * n).max(head_dim));
    // Keys and values are worked on one after the other.
    OF_PART.saturating_mul(1 + 2 * heads + 2 * elements.div_ceil(MAX_ELEMENTS))
}

/// The parts of `n` things, of each of which an intermediate tensor has `elements`.
fn parts(n: usize, elements: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let most = (MAX_ELEMENTS / elements.max(1)).max(1);
    (0..n).step_by(most).map(move |first| first..(first + most).min(n))
}

/// A node that is computed after all of `nodes`, of which there is at least one.
fn after_all(ctx: &Context, nodes: &[Tensor]) -> Tensor {
    let (first, others) = nodes.split_first().expect("there are nodes");
    others.chunks(9).fold(first.clone(), |node, others| {
        let others: Vec<&Tensor> = others.iter().collect();
        ctx.after(&node, &others)
    })
}

/// The elements of all tensors, one after the other: `[n]`. There is at least one tensor.
fn in_a_row(ctx: &Context, tensors: &[Tensor]) -> Tensor {
    if let [tensor] = tensors {
        let flat = if tensor.is_contiguous() { tensor.clone() } else { ctx.cont(tensor) };
        return ctx.reshape(&flat, [tensor.shape().elements()]);
    }
    let (left, right) = tensors.split_at(tensors.len() / 2);
    ctx.concat(&in_a_row(ctx, left), &in_a_row(ctx, right))
}

/// Numbers of rows as a constant of the graph.
fn constant(ctx: &Context, numbers: impl IntoIterator<Item = usize>) -> Tensor {
    // A number that is no i32 has no row either.
    let numbers: Vec<i32> = numbers.into_iter().map(|n| i32::try_from(n).unwrap_or(-1)).collect();
    ctx.constant(&numbers)
}
