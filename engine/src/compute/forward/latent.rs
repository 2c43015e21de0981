//! Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434), with its matrices absorbed. A token's row in the
//! store is its latent vector and, behind it, the key that is rotated. Queries are taken to the latent vectors, and
//! what they attend to becomes values afterwards. So all heads attend to one KV head, and no key of a head is ever
//! computed.

use ggml::{Context, Tensor};
use models::spec::{Latent, LatentTensors};

use super::Forward;

impl Forward {
    /// The queries `[head_dim, heads, n]` of attention's input `x` `[n_embd, n]` at `positions` `[n]`.
    pub(super) fn latent_queries(
        &self,
        ctx: &Context,
        layer: usize,
        (wq, w): (&Tensor, &LatentTensors<Tensor>),
        x: &Tensor,
        positions: &Tensor,
    ) -> Tensor {
        let n = x.dim(1);
        let q = match (&w.query_down, &w.query_norm) {
            (Some(down), Some(norm)) => {
                let down = self.product(ctx, layer, down, x);
                self.result_of(norm, self.norm(ctx, &down, norm, None))
            }
            _ => x.clone(),
        };
        let q = self.product(ctx, layer, wq, &q);
        // A head's query has a plain part and a rotated one.
        let (heads, plain) = (self.spec.n_heads, w.key_up.dim(0));
        let query = q.dim(0) / heads;
        let strides = [4 * query, 4 * query * heads, 4 * query * heads * n];
        let rotated = ctx.view(&q, [query - plain, heads, n], strides, 4 * plain);
        let plain = ctx.permute(&ctx.view(&q, [plain, heads, n], strides, 0), [0, 2, 1, 3]);
        let absorbed = self.result_of(&w.key_up, ctx.mul_mat(&w.key_up, &plain)); // [rank, n, heads]
        let absorbed = ctx.permute(&absorbed, [0, 2, 1, 3]);
        ctx.concat(&absorbed, &self.rotated(ctx, layer, rotated, positions))
    }

    /// The rows `[head_dim, 1, n]` that are stored for `x` `[head_dim, n]`, a product of attention's input.
    pub(super) fn latent_rows(
        &self,
        ctx: &Context,
        layer: usize,
        w: &LatentTensors<Tensor>,
        x: &Tensor,
        positions: &Tensor,
    ) -> Tensor {
        let ([head_dim, n, ..], rank) = (x.shape().0, w.norm.dim(0));
        let row = 4 * head_dim;
        let part = |size: usize, first: usize| ctx.view(x, [size, 1, n], [row, row, row * n], 4 * first);
        let latent = self.result_of(&w.norm, self.norm(ctx, &part(rank, 0), &w.norm, None));
        ctx.concat(&latent, &self.rotated(ctx, layer, part(head_dim - rank, rank), positions))
    }

    /// The values `[heads * value, n]` of what the heads attended to, `[heads * head_dim, n]`, where `values` `[rank,
    /// value, heads]` makes a head's values.
    pub(super) fn latent_values(
        &self,
        ctx: &Context,
        layer: usize,
        latent: &Latent,
        values: &Tensor,
        attended: &Tensor,
    ) -> Tensor {
        let (heads, n) = (self.spec.n_heads, attended.dim(1));
        let head = 4 * self.heads[layer].head_dim;
        let strides = [head, head * heads, head * heads * n];
        let latents = ctx.view(attended, [latent.rank, heads, n], strides, 0);
        let of_heads = self.result_of(values, ctx.mul_mat(values, &ctx.permute(&latents, [0, 2, 1, 3])));
        let of_tokens = ctx.cont(&ctx.permute(&of_heads, [0, 2, 1, 3])); // [value, heads, n]
        ctx.reshape(&of_tokens, [latent.value * heads, n])
    }
}
