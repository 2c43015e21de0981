//! Heads that are taken out of tensors, and results of heads that are put in the model's order.

use std::ops::Range;

use ggml::{Context, Tensor};

use super::{constant, in_a_row};

/// The query heads of KV heads, each with `group` of them.
pub(super) fn query_heads(kv_heads: &[u32], group: usize) -> Vec<u32> {
    kv_heads
        .iter()
        .flat_map(|head| (0..group).map(move |member| head * group as u32 + member as u32))
        .collect()
}

/// The runs of neighbours among these numbers of heads, none longer than `most`: places in the list.
pub(super) fn runs(heads: &[u32], most: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (at, head) in heads.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if run.len() < most && heads[run.end - 1] + 1 == *head => run.end += 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

/// The vectors of these heads of `x` `[d, heads, n]`, token after token: `[d, n, heads]`, whose rows are without gaps.
pub(super) fn take_heads(ctx: &Context, x: &Tensor, heads: &[u32]) -> Tensor {
    let [d, all, n, _] = x.shape().0;
    if let [run] = &runs(heads, all)[..] {
        let [_, of_head, of_token, _] = x.strides();
        let first = heads[run.start] as usize * of_head;
        let view = ctx.view(x, [d, heads.len(), n], [of_head, of_token, of_token * n], first);
        return ctx.permute(&view, [0, 2, 1, 3]);
    }
    let by_head = ctx.cont(&ctx.permute(x, [0, 2, 1, 3]));
    let numbers = constant(ctx, heads.iter().map(|head| *head as usize));
    let taken = ctx.get_rows(&ctx.reshape(&by_head, [d * n, all]), &numbers);
    ctx.reshape(&taken, [d, n, heads.len()])
}

/// The same of some tokens: `[d, tokens, heads]`.
pub(super) fn take_heads_of(ctx: &Context, x: &Tensor, heads: &[u32], tokens: &Range<usize>) -> Tensor {
    let ([d, all, ..], [_, of_head, of_token, _]) = (x.shape().0, x.strides());
    let strides = [of_head, of_token, of_token * tokens.len()];
    take_heads(ctx, &ctx.view(x, [d, all, tokens.len()], strides, tokens.start * of_token), heads)
}

/// The numbers of these heads of `x` `[heads]`.
pub(super) fn take_numbers(ctx: &Context, x: &Tensor, heads: &[u32]) -> Tensor {
    let numbers = constant(ctx, heads.iter().map(|head| *head as usize));
    ctx.reshape(&ctx.get_rows(&ctx.reshape(x, [1, x.dim(0)]), &numbers), [heads.len()])
}

/// Neighbouring heads of rows `[d, capacity, heads]`.
pub(super) fn head_rows(ctx: &Context, rows: &Tensor, heads: Range<usize>) -> Tensor {
    let ([d, capacity, _, _], [_, of_row, of_head, _]) = (rows.shape().0, rows.strides());
    let strides = [of_row, of_head, of_head * heads.len()];
    ctx.view(rows, [d, capacity, heads.len()], strides, heads.start * of_head)
}

/// Results `[d, heads, n]` of some heads each, as one `[d * heads, n]` in the order of the heads' numbers, all of which
/// are there.
pub(super) fn in_order(ctx: &Context, results: &[(Tensor, Vec<u32>)]) -> Tensor {
    let heads: Vec<u32> = results.iter().flat_map(|(_, heads)| heads.iter().copied()).collect();
    let (d, n, all) = (results[0].0.dim(0), results[0].0.dim(2), heads.len());
    if let ([(result, _)], true) = (results, heads.iter().copied().eq(0..all as u32)) {
        return ctx.reshape(result, [d * all, n]);
    }
    let by_head: Vec<Tensor> =
        results.iter().map(|(result, _)| ctx.cont(&ctx.permute(result, [0, 2, 1, 3]))).collect();
    let by_head = ctx.reshape(&in_a_row(ctx, &by_head), [d * n, all]);
    let mut places: Vec<usize> = (0..all).collect();
    places.sort_unstable_by_key(|place| heads[*place]);
    let sorted = ctx.get_rows(&by_head, &constant(ctx, places));
    let by_token = ctx.cont(&ctx.permute(&ctx.reshape(&sorted, [d, n, all]), [0, 2, 1, 3]));
    ctx.reshape(&by_token, [d * all, n])
}
