//! Logits of queries over rows, and their softmax.

use ggml::{Context, Tensor};

use crate::graph::AttentionShape;

/// Logits of the queries `q` `[d, n, query heads]` over rows `k` `[d, rows, heads]`, soft cap included: `[rows, n, query
/// heads]`.
pub(super) fn logits(ctx: &Context, shape: AttentionShape, k: &Tensor, q: &Tensor) -> Tensor {
    let products = ctx.mul_mat_precise(k, q);
    match shape.softcap {
        Some(cap) => ctx.scale(&ctx.tanh(&ctx.scale(&products, shape.scale / cap)), cap),
        None => ctx.scale(&products, shape.scale),
    }
}

/// What the softmax of scoring queries has beside their logits.
pub(super) struct Beside<'a> {
    /// `[rows, n]`, or that for each query head: what is added to the logits.
    pub mask: &'a Tensor,
    /// `[query heads]`
    pub sink_logits: Option<&'a Tensor>,
    /// `[1, n]`: factors on the logits and the sink logits, before the mask.
    pub gains: Option<&'a Tensor>,
}

/// The softmax of logits `[rows, n, query heads]`.
pub(super) fn softmax(ctx: &Context, logits: &Tensor, beside: Beside) -> Tensor {
    let Beside { mask, sink_logits, gains } = beside;
    let Some(gains) = gains else {
        return ctx.soft_max_with_sink_logits(logits, mask, 1.0, sink_logits);
    };
    let logits = ctx.mul(logits, gains);
    let Some(sink_logits) = sink_logits else { return ctx.soft_max(&logits, Some(mask), 1.0) };
    // Each query has a sink logit of its own: one more row.
    let [rows, n, heads, _] = logits.shape().0;
    let sinks = ctx.mul(&ctx.repeat(&ctx.reshape(sink_logits, [1, 1, heads]), n), gains);
    let all = ctx.concat(&ctx.add(&logits, mask), &sinks);
    let weights = ctx.soft_max(&all, None, 1.0);
    let [_, of_query, of_head, _] = weights.strides();
    ctx.cont(&ctx.view(&weights, [rows, n, heads], [of_query, of_head, of_head * heads], 0))
}
