//! The feed-forward network of a layer.

use ggml::{Context, Tensor};
use models::arch::FeedForward;
use models::spec::{DenseTensors, NetworkTensors};

use super::{Forward, PassDraft, multiplied};
use crate::devices::placement::Place;

impl Forward {
    /// What the feed-forward network of a layer, or its experts, with weights `w` give, `[n_embd, n]`, for its normed
    /// input `x` `[n_embd, n]`. `sum` `[n_embd, n]` is the same without the norm. The graph is that of the layer's
    /// place in `pass`.
    pub(super) fn feed_forward(
        &self,
        pass: &mut PassDraft,
        layer: usize,
        w: &NetworkTensors<Tensor>,
        x: &Tensor,
        sum: &Tensor,
    ) -> Tensor {
        let out = match w {
            NetworkTensors::Dense(dense) => {
                self.dense(&pass.graphs[self.placement.of(layer)].ctx, layer, dense, x)
            }
            NetworkTensors::Experts(experts) => self.experts(pass, layer, experts, x, sum),
        };
        self.intermediate("ffn_out", layer, out)
    }

    /// A network that every token uses: `[n_embd, n]`.
    pub(super) fn dense(&self, ctx: &Context, layer: usize, w: &DenseTensors<Tensor>, x: &Tensor) -> Tensor {
        // `[n_ff, n]`.
        let project = |matrix, bias| self.with_bias(ctx, self.product(ctx, layer, matrix, x), bias);
        let gate = w.gate.as_ref().map(|gate| project(gate, w.gate_bias.as_ref()));
        let up = project(&w.up, w.up_bias.as_ref());
        let activation = self.activation(ctx, self.placement.of(layer), gate, up);
        let hidden = self.intermediate("ffn_act", layer, activation);
        let down = multiplied(ctx, self.placement.of(layer), &w.down, &hidden);
        self.with_bias(ctx, down, w.down_bias.as_ref())
    }

    /// The activation function of a network in a place, for the products with `gate`, if it has one, and with `up`.
    pub(super) fn activation(&self, ctx: &Context, place: Place, gate: Option<Tensor>, up: Tensor) -> Tensor {
        /// The bound of [`FeedForward::SwiGluOai`].
        const LIMIT: f32 = 7.0;
        let on_device = place.is_device();
        match (self.spec.feed_forward(), gate) {
            (FeedForward::SwiGlu, Some(gate)) => ctx.swiglu(&gate, &up),
            (FeedForward::SwiGluOai, Some(gate)) => ctx.swiglu_oai(&gate, &up, LIMIT),
            (FeedForward::GeGlu, Some(gate)) if on_device => ctx.geglu(&gate, &up),
            (FeedForward::GeGlu, Some(gate)) => {
                let slope = gelu_slope(ctx, &gate);
                ctx.swiglu(&ctx.mul(&gate, &slope), &ctx.div(&up, &slope))
            }
            (FeedForward::GeluErf, _) => ctx.gelu_erf(&up),
            (FeedForward::Relu2, _) => ctx.square(&ctx.relu(&up)),
            // GELU. The networks with a gate always have one: the tensors are declared so.
            _ if on_device => ctx.gelu(&up),
            _ => {
                let slope = gelu_slope(ctx, &up);
                ctx.div(&ctx.silu(&ctx.mul(&up, &slope)), &slope)
            }
        }
    }
}

/// The factor t for which GELU, in its approximation by tanh, is silu(x t) / t: twice sqrt(2 / pi) (1 + 0.044715 x^2).
/// On the CPU, ggml looks GELU up in a table of f16, which moves logits by 1e-3.
fn gelu_slope(ctx: &Context, x: &Tensor) -> Tensor {
    const AT_ZERO: f32 = 1.595_769;
    ctx.scale_add(&ctx.square(x), 0.044715 * AT_ZERO, AT_ZERO)
}
