//! Measures of keys and values: norms, maxima and spreads.

use ggml::{Context, Tensor};

use super::constant;
use crate::graph::MeasureRows;
use crate::measure::Measure;

/// The nodes of [`MeasureRows`].
pub(crate) fn measure_rows(ctx: &Context, operands: MeasureRows) -> Tensor {
    let offset = operands.used_offset();
    let MeasureRows { tensor, lists, what, .. } = operands;
    let ([d, capacity, all, _], heads, n) = (tensor.shape().0, lists.heads.len(), lists.rows[0].len());
    let of_head = |(head, rows): (&u32, &std::sync::Arc<Vec<u32>>)| {
        let first = *head as usize * capacity;
        rows.iter().map(|row| first + *row as usize).collect::<Vec<usize>>()
    };
    let numbers = constant(ctx, lists.heads.iter().zip(&lists.rows).flat_map(of_head));
    let rows = ctx.get_rows(&ctx.reshape(tensor, [d, capacity * all]), &numbers);
    let rows = ctx.reshape(&rows, [d, n, heads]);
    let rows = match offset {
        Some(offset) => ctx.add(&rows, &ctx.reshape(offset, [d, 1, heads])),
        None => rows,
    };
    let measured = match what {
        Measure::Norm => ctx.sqrt(&ctx.sum_rows(&ctx.square(&rows))),
        Measure::SquaredNorm => ctx.sum_rows(&ctx.square(&rows)),
        Measure::MaxAbs => ctx.max_of(&ctx.abs(&rows), d),
        Measure::Spread { lag, own } => spread(ctx, &rows, lag.max(1), own),
    };
    // A node of its own, whose memory is kept.
    ctx.cont(&ctx.reshape(&measured, [n, heads])).output()
}

/// [`Measure::Spread`] of rows `[head_dim, n, heads]`: `[n, heads]`.
fn spread(ctx: &Context, rows: &Tensor, lag: usize, own: bool) -> Tensor {
    let [d, n, heads, _] = rows.shape().0;
    let measured = (n / lag).saturating_sub(1); // partitions, without the last
    if measured == 0 {
        return ctx.constant_f32(&vec![0.0; n * heads]);
    }
    let count = measured * lag;
    let by_element = ctx.transposed(rows); // [n, head_dim, heads]
    // `length` numbers of each element from `first` on, without gaps.
    let part = |first: usize, length: usize| {
        let [_, of_element, of_head, _] = by_element.strides();
        ctx.cont(&ctx.view(
            &by_element,
            [length, d, heads],
            [of_element, of_head, of_head * heads],
            4 * first,
        ))
    };
    let reference = part(if own { 0 } else { lag }, count);
    let [high, low] = [false, true].map(|is_low| {
        let of = |x: &Tensor| if is_low { ctx.neg(x) } else { x.clone() };
        let extremes = of(&ctx.max_of(&of(&reference), lag));
        ctx.reshape(&extremes, [1, measured, d * heads])
    });
    let of = ctx.reshape(&part(0, count), [lag, measured, d * heads]);
    let range = ctx.sub(&high, &low);
    let used = ctx.step(&range);
    // An element that is constant counts as 0: it is divided by 1, and not used.
    let range = ctx.add(&range, &ctx.scale_add(&used, -1.0, 1.0));
    let normalised = ctx.mul(&ctx.div(&ctx.sub(&of, &low), &range), &used);
    let by_row = ctx.transposed(&ctx.reshape(&normalised, [count, d, heads])); // [head_dim, count, heads]
    let from_mean = ctx.sub(&by_row, &ctx.mean(&by_row));
    let squares = ctx.sum_rows(&ctx.square(&from_mean));
    let deviation = ctx.sqrt(&ctx.scale(&squares, 1.0 / (d as f32 - 1.0).max(1.0)));
    ctx.pad(&ctx.reshape(&deviation, [count, heads]), n - count)
}
