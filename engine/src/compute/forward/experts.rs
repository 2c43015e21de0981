//! Mixtures of experts. A router gives each token a weight for each expert. The experts with the largest weights
//! compute, and their results are added, each times its weight. Router and experts may be in another place than the
//! rest of their layer. Then only their input and their sum pass between the places.
//!
//! The numbers of the chosen experts come from sorting the weights. So they are in range and different, whatever the
//! weights are: `Context::top_k` gives them, and the products take no others.

use ggml::{Context, Tensor};
use models::arch::Gating;
use models::spec::{ExpertTensors, Experts};

use super::{Forward, PassDraft, scaled};

/// The experts of each token.
struct Chosen {
    /// `[used, n]` i32: their numbers.
    ids: Tensor,
    /// `[1, used, n]`: their weights.
    weights: Tensor,
}

impl Forward {
    /// What the experts of a layer give, the shared one included: `[n_embd, n]`, for the normed input `x`
    /// `[n_embd, n]`. Experts beside a network norm the layer's `sum` `[n_embd, n]` themselves. The graph is that of
    /// the layer's place in `pass`.
    pub(super) fn experts(
        &self,
        pass: &mut PassDraft,
        layer: usize,
        w: &ExpertTensors<Tensor>,
        x: &Tensor,
        sum: &Tensor,
    ) -> Tensor {
        let [place, at] = [self.placement.of(layer), self.placement.of_experts(layer)];
        let input = if w.separate.is_some() { sum } else { x };
        let input = pass.hand_over(input.clone(), at);
        let sum = self.sum_of_experts(&pass.graphs[at].ctx, layer, w, &input);
        let sum = pass.hand_over(sum, place);
        let Some(shared) = &w.shared else { return sum };
        let ctx = &pass.graphs[place].ctx;
        let out = self.dense(ctx, layer, shared, x);
        let out = match (&w.shared_gate, &w.separate) {
            (Some(gate), _) => ctx.mul(&out, &ctx.sigmoid(&ctx.mul_mat(gate, x))),
            (None, Some(separate)) => self.weighted_norm(ctx, &separate.network_post_norm, &out),
            (None, None) => out,
        };
        ctx.add(&sum, &out)
    }

    /// The norm of `x` times `weight`, under the weight's name.
    fn weighted_norm(&self, ctx: &Context, weight: &Tensor, x: &Tensor) -> Tensor {
        self.result_of(weight, self.norm(ctx, x, weight, None))
    }

    /// The input of the router of experts beside a network, `[n_embd, n]`: the normed `sum` `[n_embd, n]` times `scale`
    /// `[n_embd]` / sqrt(n_embd).
    fn separate_router_input(&self, ctx: &Context, scale: &Tensor, sum: &Tensor) -> Tensor {
        let factor = 1.0 / (sum.dim(0) as f32).sqrt();
        self.result_of(scale, ctx.mul(&ctx.scale(&ctx.rms_norm(sum, self.spec.norms.epsilon), factor), scale))
    }

    /// The weighted sum of what the chosen experts of each token give: `[n_embd, n]`, for the normed input `x`
    /// `[n_embd, n]`. Experts beside a network norm `x` themselves, and their sum.
    fn sum_of_experts(&self, ctx: &Context, layer: usize, w: &ExpertTensors<Tensor>, x: &Tensor) -> Tensor {
        let Some(experts) = self.spec.experts_of(layer) else {
            return ctx.refuse("experts", format!("layer {layer} has none"));
        };
        let [n_embd, n] = [x.dim(0), x.dim(1)];
        let (of_router, input) = match &w.separate {
            Some(separate) => (
                self.separate_router_input(ctx, &separate.router_scale, x),
                self.weighted_norm(ctx, &separate.norm, x),
            ),
            None => (x.clone(), x.clone()),
        };
        let mut chosen = self.choose(ctx, experts, w, &of_router);
        if let Some(separate) = &w.separate {
            // `[count, n]`, to take those of the chosen experts.
            let scales = ctx.repeat(&separate.expert_scale, n);
            let of_chosen = ctx.reshape(&ctx.get_ranked(&scales, &chosen.ids), chosen.weights.shape());
            chosen.weights = ctx.mul(&chosen.weights, &of_chosen);
        }
        let input = ctx.reshape(&input, [n_embd, 1, n]);
        // `[n_ff, used, n]`.
        let project = |matrix, bias| self.product_of_chosen(ctx, (matrix, bias), &input, &chosen);
        let gate = w.gate.as_ref().map(|gate| project(gate, w.gate_bias.as_ref()));
        let up = project(&w.up, w.up_bias.as_ref());
        let (gate, up) = match experts.fused_gate_up {
            true => {
                let [gate, up] = halves(ctx, &up);
                (Some(gate), up)
            }
            false => (gate, up),
        };
        let activation = self.activation(ctx, self.placement.of_experts(layer), gate, up);
        let hidden = self.intermediate("ffn_act", layer, activation);
        let out = self.product_of_chosen(ctx, (&w.down, w.down_bias.as_ref()), &hidden, &chosen);
        let sum = sum_of_chosen(ctx, &ctx.mul(&out, &chosen.weights));
        match &w.separate {
            Some(separate) => self.weighted_norm(ctx, &separate.post_norm, &sum),
            None => sum,
        }
    }

    /// The experts of each token.
    fn choose(&self, ctx: &Context, experts: &Experts, w: &ExpertTensors<Tensor>, x: &Tensor) -> Chosen {
        let logits = self.result_of(&w.router, ctx.mul_mat(&w.router, x));
        let logits = self.with_bias(ctx, logits, w.router_bias.as_ref());
        // `[count, n]`.
        let weights = match experts.gating {
            Gating::Softmax => ctx.soft_max(&logits, None, 1.0),
            Gating::Sigmoid => ctx.sigmoid(&logits),
            Gating::SoftmaxOfChosen => logits,
        };
        let scores = self.with_bias(ctx, weights.clone(), w.selection_bias.as_ref());
        let ids = ctx.top_k(&in_best_groups(ctx, scores, experts), experts.used);
        let [used, n] = [experts.used, x.dim(1)];
        let of_chosen = ctx.reshape(&ctx.get_ranked(&weights, &ids), [used, n]);
        let of_chosen = match experts.gating {
            Gating::SoftmaxOfChosen => ctx.soft_max(&of_chosen, None, 1.0),
            _ if experts.normalized => normalized(ctx, &of_chosen),
            _ => of_chosen,
        };
        let weights = scaled(ctx, of_chosen, experts.scale);
        Chosen { ids, weights: ctx.reshape(&weights, [1, used, n]) }
    }

    /// The products of the chosen experts' matrices, plus their biases: `[n_out, used, n]`, for `x` `[n_in, used or 1,
    /// n]`.
    fn product_of_chosen(
        &self,
        ctx: &Context,
        (matrices, biases): (&Tensor, Option<&Tensor>),
        x: &Tensor,
        chosen: &Chosen,
    ) -> Tensor {
        let product = self.result_of(matrices, ctx.mul_mat_id(matrices, x, &chosen.ids));
        match biases {
            Some(biases) => self.result_of(biases, ctx.add_id(&product, biases, &chosen.ids)),
            None => product,
        }
    }
}

/// The scores `[count, n]` of the experts, where all but those in a token's best groups are very low.
///
/// The score of a group is its largest score. With the sigmoid it is the sum of the two largest (DeepSeek-V3).
fn in_best_groups(ctx: &Context, scores: Tensor, experts: &Experts) -> Tensor {
    /// Takes any difference of scores below all scores.
    const FAR: f32 = 1e30;
    let Experts { count, groups, used_groups, .. } = *experts;
    if used_groups == groups {
        return scores;
    }
    let (size, n) = (count / groups, scores.dim(1));
    let summed = if experts.gating == Gating::Sigmoid { size.min(2) } else { 1 };
    let of_groups = ctx.reshape(&scores, [size, groups * n]);
    let best = ctx.get_ranked(&of_groups, &ctx.top_k(&of_groups, summed));
    let of_groups = ctx.sum_rows(&ctx.reshape(&best, [summed, groups * n]));
    let of_groups = ctx.reshape(&of_groups, [groups, n]);
    let ranked = ctx.get_ranked(&of_groups, &ctx.top_k(&of_groups, used_groups));
    // `[1, n]`: the score of the last group that is used, negative.
    let row = 4 * used_groups;
    let bound = ctx.view(&ctx.scale(&ranked, -1.0), [1, n], [row, row * n, row * n], row - 4);
    // `[groups, n]`: 0 for the groups that are used, and very low for the others.
    let too_low = ctx.at_least(&ctx.scale(&ctx.add(&of_groups, &bound), -FAR), 0.0);
    let low = ctx.reshape(&ctx.scale(&too_low, -1.0), [1, groups, n]);
    let masked = ctx.add(&ctx.reshape(&scores, [size, groups, n]), &low);
    ctx.reshape(&masked, [count, n])
}

/// The two halves of the rows of `x` `[2 * n_ff, used, n]`: `[n_ff, used, n]` each.
fn halves(ctx: &Context, x: &Tensor) -> [Tensor; 2] {
    let ([n, used, tokens, _], [_, row, token, last]) = (x.shape().0, x.strides());
    [0, 1].map(|half| {
        ctx.cont(&ctx.view(x, [n / 2, used, tokens], [row, token, last], half * n / 2 * size_of::<f32>()))
    })
}

/// `weights` `[used, n]` divided by their sums.
fn normalized(ctx: &Context, weights: &Tensor) -> Tensor {
    /// The smallest sum: the smallest normal f16, as in llama.cpp.
    const MIN_SUM: f32 = 6.103_515_6e-5;
    let sum = ctx.sum_rows(weights);
    ctx.div(weights, &ctx.at_least(&sum, MIN_SUM))
}

/// The sum of `x` `[n_embd, used, n]` over the experts: `[n_embd, n]`.
fn sum_of_chosen(ctx: &Context, x: &Tensor) -> Tensor {
    let [n_embd, used, n, _] = x.shape().0;
    let stride = x.strides()[2];
    let of =
        |expert: usize| ctx.view(x, [n_embd, n], [stride, stride * n, stride * n], expert * x.strides()[1]);
    match used {
        1 => ctx.reshape(x, [n_embd, n]),
        _ => (2..used).fold(ctx.add(&of(0), &of(1)), |sum, expert| ctx.add(&sum, &of(expert))),
    }
}
