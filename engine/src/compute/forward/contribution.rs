//! What the rows of a text add to the residual stream ([`SecondReadingScore::Contribution`]), as factors on attention
//! weights. A query head's part of the output matrix is large, so the norm of what a value becomes behind it is computed from
//! a Gram matrix of the size of a head. On CPUs ggml rounds that to f16 or q8_0 where values have these types.
//!
//! [`SecondReadingScore::Contribution`]: crate::kv::policy::SecondReadingScore::Contribution

use ggml::{Context, Tensor};
use kernels::graph::{AttentionShape, GraphLane, SeenPart};

use super::{BuiltGraph, Forward, GraphDraft, LAYER_TENSORS};

/// The smallest squared norm of attention's input that is told from 0.
const MIN_SQUARE: f32 = 1e-20;

impl Forward {
    /// The graph that writes the Gram matrix of query head `head` to `grams`, the layer's [`gram_shape`]. `lanes` hold the
    /// values, which may be stored rotated. A gate or a norm behind attention is not part of it.
    ///
    /// [`gram_shape`]: crate::kv::gram_shape
    pub fn gram_graph(&self, layer: usize, head: usize, grams: &Tensor, lanes: &[GraphLane]) -> BuiltGraph {
        let AttentionShape { head_dim, group, .. } = self.heads[layer];
        let n = head_dim;
        let draft = self.draft(LAYER_TENSORS, n);
        let GraphDraft { ctx, inputs, .. } = &draft;
        // What all heads attended to, where this one's is a column of the unit matrix, and that of others nothing.
        let row = head_dim * self.spec.n_heads;
        let mut units = vec![0.0; row * n];
        (0..n).for_each(|i| units[row * i + head_dim * head + i] = 1.0);
        let units = ctx.reshape(&ctx.constant_f32(&units), [row, n]);
        let rotation = inputs.rotations.of_lanes(ctx, lanes, head_dim);
        let Some(added) = self.attention_output(ctx, layer, &rotation, units, None) else {
            let refused = ctx.refuse("gram_graph", format!("layer {layer} is recurrent"));
            return draft.finish(refused);
        };
        let [_, of_column, of_head, of_kv_head] = grams.strides();
        let at = of_head * (head % group) + of_kv_head * (head / group);
        let to = ctx.view(grams, [n, n], [of_column, of_head, of_head], at);
        let result = ctx.copy(&ctx.mul_mat_precise(&added, &added), &to);
        draft.finish(result)
    }
}

/// Maximum number of tensors that [`of_rows`] and [`of_tokens`] make.
pub(super) const TENSORS: usize = 24;

/// The norms of what the rows of a part add to the residual stream, for each query head: `[rows of the part, group,
/// n_kv_heads]`.
pub(super) fn of_rows(ctx: &Context, lane: &GraphLane, part: SeenPart, grams: &Tensor) -> Tensor {
    let ([head_dim, _, matrices, n_kv_heads], [_, row, head, _]) = (grams.shape().0, lane.v.strides());
    let (rows, group) = (part.to - part.from, matrices - 1);
    let values = ctx.view(&lane.v, [head_dim, rows, 1, n_kv_heads], [row, head, head], row * part.from);
    // [rows, head_dim, group + 1, n_kv_heads], the last of them the values themselves.
    let products = ctx.mul_mat_precise(&values, grams);
    let [_, column, matrix, kv_head] = products.strides();
    let of = |first: usize, n: usize| {
        let shape = [rows, head_dim, n, n_kv_heads];
        ctx.cont(&ctx.view(&products, shape, [column, matrix, kv_head], matrix * first))
    };
    let products = ctx.transposed(&ctx.mul(&of(0, group), &of(group, 1)));
    // Rounding may leave less than 0.
    let squares = ctx.at_least(&ctx.sum_rows(&products), 0.0);
    ctx.reshape(&ctx.sqrt(&squares), [rows, group, n_kv_heads])
}

/// What divides by the norms of attention's input `[n_embd, n]`: `[n]`.
pub(super) fn of_tokens(ctx: &Context, input: &Tensor) -> Tensor {
    let norms = ctx.sqrt(&ctx.at_least(&ctx.sum_rows(&ctx.square(input)), MIN_SQUARE));
    let ones = ctx.scale_add(&norms, 0.0, 1.0);
    ctx.reshape(&ctx.div(&ones, &norms), [input.dim(1)])
}
