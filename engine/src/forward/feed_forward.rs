//! The feed-forward network of a layer.

use ggml::{Context, Tensor};
use models::arch::FeedForward;
use models::spec::LayerTensors;

use super::Forward;
use crate::placement::Place;

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
        let on_device = self.placement.of(layer) == Place::Device;
        let hidden = match (self.spec.feed_forward(), gate) {
            (FeedForward::SwiGlu, Some(gate)) => ctx.swiglu(&gate, &up),
            (FeedForward::GeGlu, Some(gate)) if on_device => ctx.geglu(&gate, &up),
            (FeedForward::GeGlu, Some(gate)) => {
                let slope = gelu_slope(ctx, &gate);
                ctx.swiglu(&ctx.mul(&gate, &slope), &ctx.div(&up, &slope))
            }
            (FeedForward::GeluErf, _) => ctx.gelu_erf(&up),
            (FeedForward::Relu2, _) => ctx.square(&ctx.relu(&up)),
            // The networks with a gate always have one: the tensors are declared so.
            (FeedForward::Gelu | FeedForward::SwiGlu | FeedForward::GeGlu, _) if on_device => ctx.gelu(&up),
            (FeedForward::Gelu | FeedForward::SwiGlu | FeedForward::GeGlu, _) => {
                let slope = gelu_slope(ctx, &up);
                ctx.div(&ctx.silu(&ctx.mul(&up, &slope)), &slope)
            }
        };
        let hidden = self.intermediate("ffn_act", layer, hidden);
        let out = self.with_bias(ctx, ctx.mul_mat(&w.ffn_down, &hidden), w.ffn_down_bias.as_ref());
        self.intermediate("ffn_out", layer, out)
    }
}

/// The factor t for which GELU, in its approximation by tanh, is silu(x t) / t: twice sqrt(2 / pi) (1 + 0.044715 x^2).
/// On the CPU, ggml looks GELU up in a table of f16, which moves logits by 1e-3.
fn gelu_slope(ctx: &Context, x: &Tensor) -> Tensor {
    const AT_ZERO: f32 = 1.595_769;
    ctx.scale_add(&ctx.square(x), 0.044715 * AT_ZERO, AT_ZERO)
}
