//! Embeddings that each layer has of its own (Gemma 3n and 4). A layer looks up its part of a token's row, adds a
//! projection of the model's embedding, and adds the gated result to the residual stream.
//!
//! Exact prefill computes one layer for the whole text after the other. So a layer computes its part alone, and nothing
//! is kept for later layers.
//!
//! The embeddings are on the host, where the parts of all layers are computed. Those of a device's layers pass to it
//! together, beside the residual stream.

use ggml::{Context, Tensor};
use models::spec::PerLayerTensors;

use super::attention::last_of;
use super::{Forward, GraphDraft, Inputs, PassDraft, multiplied};
use crate::devices::placement::Place;

impl Forward {
    /// What a layer adds from its own embeddings to `x`, the residual stream `[n_embd, n]` of the last n tokens of the
    /// pass: `[n_embd, n]`, in the graph of the layer's place.
    pub(super) fn per_layer(
        &self,
        pass: &mut PassDraft,
        layer: usize,
        w: &PerLayerTensors<Tensor>,
        x: &Tensor,
    ) -> Tensor {
        let (place, n) = (self.placement.of(layer), x.dim(1));
        let GraphDraft { ctx, inputs, effects, .. } = &mut pass.graphs[Place::Host];
        // A device gets as many tokens for its last layer as for the others.
        let tokens = if place.is_device() { inputs.tokens.dim(0) } else { n };
        let (input, own) = self.per_layer_input(ctx, layer, w, tokens, inputs);
        effects.check_embeddings(ctx, &own);
        let input = match place {
            Place::Host => input,
            Place::Device(_) => pass.transfer(&input, place, layer, self.placement.layers(place)),
        };
        let ctx = &pass.graphs[place].ctx;
        let input = ctx.rows(&input, tokens - n, n);
        let gate = self.product(ctx, layer, &w.gate, x);
        let gated = self.activation(ctx, place, Some(gate), input);
        let out = self.product(ctx, layer, &w.output, &gated);
        self.result_of(&w.post_norm, self.norm(ctx, &out, &w.post_norm, None))
    }

    /// A layer's input from its own embeddings of the last `n` tokens, and these embeddings: `[per_layer_width, n]` each, in
    /// the host's graph.
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
        let projected = self.result_of(&w.input, multiplied(ctx, Place::Host, &w.input, &embeddings));
        let projected = ctx.scale(&projected, 1.0 / (embeddings.dim(0) as f32).sqrt());
        let projected = self.norm(ctx, &projected, norm, None);
        (ctx.scale(&ctx.add(&projected, &scaled), std::f32::consts::FRAC_1_SQRT_2), own)
    }
}
