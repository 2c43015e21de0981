//! The feed-forward network of a layer.

use ggml::{Context, Tensor};
use models::arch::FeedForward;
use models::spec::LayerTensors;

use super::Forward;

impl Forward {
    /// What the feed-forward network of a layer with weights `w` gives, `[n_embd, n]`, for its normed input `x`
    /// `[n_embd, n]`.
    pub(super) fn feed_forward(
        &self,
        ctx: &Context,
        layer: usize,
        w: &LayerTensors<Tensor>,
        x: &Tensor,
    ) -> Tensor {
        // `[n_ff, n]`.
        let project = |matrix, bias| self.with_bias(ctx, self.product(ctx, matrix, x), bias);
        let gate = w.ffn_gate.as_ref().map(|gate| project(gate, w.ffn_gate_bias.as_ref()));
        let up = project(&w.ffn_up, w.ffn_up_bias.as_ref());
        let hidden = match (self.spec.feed_forward(), gate) {
            (FeedForward::SwiGlu, Some(gate)) => ctx.swiglu(&gate, &up),
            (FeedForward::GeGlu, Some(gate)) => ctx.geglu(&gate, &up),
            (FeedForward::GeluErf, _) => ctx.gelu_erf(&up),
            (FeedForward::Relu2, _) => ctx.square(&ctx.relu(&up)),
            // A gated network has a gate: the tensors are declared so.
            (FeedForward::Gelu | FeedForward::SwiGlu | FeedForward::GeGlu, _) => ctx.gelu(&up),
        };
        let hidden = self.intermediate("ffn_act", layer, hidden);
        let out = self.with_bias(ctx, ctx.mul_mat(&w.ffn_down, &hidden), w.ffn_down_bias.as_ref());
        self.intermediate("ffn_out", layer, out)
    }
}
