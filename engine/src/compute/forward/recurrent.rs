//! Recurrent layers: a convolution over the last tokens gives queries, keys and values, and the gated delta rule
//! (Yang et al. 2024, arXiv 2412.06464) updates a matrix for each value head.

use ggml::{Context, Tensor};
use models::arch::ValueHeads;
use models::spec::{MixerTensors, RecurrentLayers, RecurrentTensors};

use super::{Forward, LayerCall, joined};
use crate::kv::StateTensors;

impl Forward {
    /// What a recurrent layer with weights `w` adds for the tokens with outputs, `[n_embd, n or 1]`, and a tensor that
    /// depends on the new states. Each text has a state of its own, so one is computed after the other.
    pub(super) fn recurrent(
        &self,
        call: LayerCall,
        w: &RecurrentTensors<Tensor>,
    ) -> (Option<Tensor>, Tensor) {
        let LayerCall { ctx, normed, inputs, texts, outputs, effects, layer } = call;
        let (mut outs, mut stored) = (Vec::new(), None);
        for text in texts {
            let normed = match texts {
                [_] => normed.clone(),
                _ => ctx.rows(normed, text.first, text.len),
            };
            let call = LayerCall {
                ctx,
                layer,
                normed: &normed,
                inputs,
                texts: std::slice::from_ref(text),
                outputs,
                effects: &mut *effects,
            };
            let (out, state) = self.recurrence(call, text.rows.states.as_ref(), w);
            outs.extend(out);
            stored = Some(state);
        }
        let stored = stored.unwrap_or_else(|| ctx.refuse("recurrent", format!("layer {layer} has no text")));
        (joined(ctx, outs), stored)
    }

    /// The same for one text, with its states before and after. The nodes that write the state are effects.
    fn recurrence(
        &self,
        call: LayerCall,
        states: Option<&[StateTensors; 2]>,
        w: &RecurrentTensors<Tensor>,
    ) -> (Option<Tensor>, Tensor) {
        let LayerCall { ctx, layer, normed, outputs, effects, .. } = call;
        let (Some(sizes), Some([from, to])) = (self.spec.recurrent_layer(layer), states) else {
            return (None, ctx.refuse("recurrent", format!("layer {layer} has no state")));
        };
        let (n, d, heads) = (normed.dim(1), sizes.head_dim, sizes.value_heads);
        let qkv = self.product(ctx, layer, &w.qkv, normed);
        // Each channel's last inputs, and those of these tokens: `[conv_kernel - 1 + n, channels]`.
        let columns = ctx.concat(&from.conv, &ctx.permute(&qkv, [1, 0, 2, 3]));
        let [_, channel, end, _] = columns.strides();
        let last = ctx.view(&columns, [sizes.conv_kernel - 1, sizes.channels()], [channel, end, end], 4 * n);
        effects.nodes.push(ctx.copy(&last, &to.conv));

        let mixed = ctx.silu(&self.result_of(&w.conv, ctx.ssm_conv(&columns, &w.conv)));
        let token = 4 * sizes.channels();
        let part = |heads: usize, first: usize| {
            ctx.view(&mixed, [d, heads, n], [4 * d, token, token * n], 4 * d * first)
        };
        let key = |first: usize| self.key_heads(ctx, sizes, &part(sizes.key_heads, first));
        let (q, k) = (key(0), key(sizes.key_heads));
        let v = part(heads, 2 * sizes.key_heads);
        let (beta, log_decay) = self.update_strengths(ctx, layer, w, sizes, normed);
        let result = ctx.gated_delta_net([&q, &k, &v], &log_decay, &beta, &from.memory);
        let matrix = 4 * d * d;
        let memory = ctx.view(&result, [d, d, heads], [4 * d, matrix, matrix * heads], 4 * d * heads * n);
        let stored = ctx.copy(&memory, &to.memory);
        effects.nodes.push(stored.clone());

        let wanted = outputs.count(n);
        if wanted == 0 {
            return (None, stored);
        }
        let token = 4 * d * heads;
        let out = ctx.view(&result, [d, heads, wanted], [4 * d, token, token * wanted], token * (n - wanted));
        let x = if wanted == n { normed.clone() } else { ctx.rows(normed, n - wanted, wanted) };
        let MixerTensors::Recurrent(w) = &self.matrices(layer, wanted).mixer else { return (None, stored) };
        let gate = ctx.reshape(&self.product(ctx, layer, &w.gate, &x), [d, heads, wanted]);
        let out = self.result_of(&w.norm, self.norm(ctx, &out, &w.norm, None));
        let out = ctx.reshape(&ctx.swiglu(&gate, &out), [d * heads, wanted]);
        (Some(self.product(ctx, layer, &w.output, &self.intermediate("kqv_out", layer, out))), stored)
    }

    /// Queries or keys `x` `[head_dim, key_heads, n]` with vectors of length 1. Where value heads are grouped, each is
    /// repeated for the value heads of its group.
    fn key_heads(&self, ctx: &Context, sizes: &RecurrentLayers, x: &Tensor) -> Tensor {
        let (d, n) = (sizes.head_dim as f32, x.dim(2));
        // 1 / sqrt(sum + epsilon), by way of the mean.
        let x = ctx.scale(&ctx.rms_norm(x, self.spec.norms.epsilon / d), 1.0 / d.sqrt());
        let group = sizes.value_heads / sizes.key_heads;
        if sizes.order == ValueHeads::Tiled || group == 1 {
            return x;
        }
        let alone = ctx.reshape(&x, [sizes.head_dim, 1, sizes.key_heads, n]);
        ctx.reshape(&ctx.repeat(&alone, group), [sizes.head_dim, sizes.value_heads, n])
    }

    /// How strong each update is, from 0 to 1, and the logarithm of what stays of the state before it: `[1,
    /// value_heads, n]` each.
    fn update_strengths(
        &self,
        ctx: &Context,
        layer: usize,
        w: &RecurrentTensors<Tensor>,
        sizes: &RecurrentLayers,
        x: &Tensor,
    ) -> (Tensor, Tensor) {
        let (heads, n) = (sizes.value_heads, x.dim(1));
        let beta = self.product(ctx, layer, &w.beta, x);
        let (beta, alpha) = match &w.alpha {
            Some(alpha) => (beta, self.product(ctx, layer, alpha, x)),
            None => {
                let group = heads / sizes.key_heads;
                let (row, token) = (4 * 2 * group, 4 * 2 * heads);
                let part = |first: usize| {
                    let shape = [group, sizes.key_heads, n];
                    let part = ctx.view(&beta, shape, [row, token, token * n], 4 * first);
                    ctx.reshape(&ctx.cont(&part), [heads, n])
                };
                (part(0), part(group))
            }
        };
        let speed = ctx.softplus(&self.with_bias(ctx, alpha, Some(&w.alpha_bias)));
        let log_decay = self.result_of(&w.decay, ctx.mul(&speed, &w.decay));
        let of_heads = |x: &Tensor| ctx.reshape(x, [1, heads, n]);
        (of_heads(&ctx.sigmoid(&beta)), of_heads(&log_decay))
    }
}
