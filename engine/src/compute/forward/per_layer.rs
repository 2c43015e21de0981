//! Embeddings that each layer has of its own (Gemma 3n and 4). A layer looks up its part of a token's row, adds a
//! projection of the model's embedding, and adds the gated result to the residual stream.
//!
//! Exact prefill computes one layer for the whole text after the other. So a layer computes its part alone, and nothing
//! is kept for later layers.

use ggml::{Context, Tensor};
use models::spec::PerLayerTensors;

use super::attention::last_of;
use super::{Effects, Forward, Inputs};

impl Forward {
    /// What a layer adds from its own embeddings to `x`, the residual stream `[n_embd, n]` of the last n tokens of
    /// `inputs`: `[n_embd, n]`.
    pub(super) fn per_layer(
        &self,
        ctx: &Context,
        layer: usize,
        w: &PerLayerTensors<Tensor>,
        x: &Tensor,
        inputs: &Inputs,
        effects: &mut Effects,
    ) -> Tensor {
        let (input, own) = self.per_layer_input(ctx, layer, w, x.dim(1), inputs);
        effects.check_embeddings(ctx, &own);
        let gate = self.product(ctx, layer, &w.gate, x);
        let gated = self.activation(ctx, self.placement.of(layer), Some(gate), input);
        let out = self.product(ctx, layer, &w.output, &gated);
        self.result_of(&w.post_norm, self.norm(ctx, &out, &w.post_norm, None))
    }

    /// A layer's input from its own embeddings of the last `n` tokens, and these embeddings: `[per_layer_width, n]` each.
    fn per_layer_input(
        &self,
        ctx: &Context,
        layer: usize,
        w: &PerLayerTensors<Tensor>,
        n: usize,
        inputs: &Inputs,
    ) -> (Tensor, Tensor) {
        let of_model = &self.weights.decode_layout.input;
        let (Some(table), Some(norm)) = (&of_model.per_layer_embd, &of_model.per_layer_norm) else {
            let refused = ctx.refuse("embeddings of a layer", format!("layer {layer} has none"));
            return (refused.clone(), refused);
        };
        let width = norm.dim(0);
        let (row, first) = (table.strides()[1], layer * table.ty().row_bytes(width));
        let rows = table.dim(1);
        let of_layer = ctx.view(table, [width, rows], [row, row * rows, row * rows], first);
        let own = ctx.get_rows(&of_layer, &last_of(ctx, &inputs.tokens, n));
        let scaled = ctx.scale(&own, (width as f32).sqrt());
        let embeddings = self.embed(ctx, inputs);
        let embeddings = ctx.rows(&embeddings, embeddings.dim(1) - n, n);
        let projected = self.product(ctx, layer, &w.input, &embeddings);
        let projected = ctx.scale(&projected, 1.0 / (embeddings.dim(0) as f32).sqrt());
        let projected = self.norm(ctx, &projected, norm, None);
        (ctx.scale(&ctx.add(&projected, &scaled), std::f32::consts::FRAC_1_SQRT_2), own)
    }
}
