//! The experts of a model: which layers have them, and how a router chooses and weighs them.

use crate::arch::{ExpertsDecl, Gating, Presence};
use crate::gguf::write::MetaValue;

/// The experts of a model. Those layers that have them have no other feed-forward network, unless `beside_dense`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experts {
    /// Experts of a layer, 2 or more.
    pub count: usize,
    /// Experts that are chosen for a token, at most `count`.
    pub used: usize,
    /// Groups of equally many experts.
    pub groups: usize,
    /// Groups from which the experts of a token are chosen, at most `groups`.
    pub used_groups: usize,
    /// Width of an expert, elements. `None`: that of the feed-forward network.
    pub n_ff: Option<usize>,
    /// Width of the expert that every token uses, elements.
    pub shared_ff: Option<usize>,
    /// Whether a sigmoid scales what that expert gives.
    pub shared_gate: bool,
    /// Whether that expert is the layer's feed-forward network, and the experts have norms of their own.
    pub beside_dense: bool,
    /// Whether an expert's gate and what it gates are one tensor in the file.
    pub fused_gate_up: bool,
    /// The first layer with experts, counted from 0.
    pub first_layer: usize,
    /// Every how many layers one has experts: the last of each group.
    pub every: usize,
    /// How the router's logits become weights.
    pub gating: Gating,
    /// Whether the weights of the chosen experts are divided by their sum.
    pub normalized: bool,
    /// Factor of the weights.
    pub scale: f32,
    /// Whether the router and the experts have biases.
    pub bias: bool,
    /// Whether there are numbers that are added to the weights where experts are chosen, and only there.
    pub selection_bias: bool,
}

impl Experts {
    /// Width of an expert, elements, where the feed-forward network has the width `n_ff`.
    pub fn width(&self, n_ff: usize) -> usize {
        self.n_ff.unwrap_or(n_ff)
    }

    /// What all models of an architecture have in common. The caller gives the numbers of experts.
    pub(crate) fn declared(decl: &ExpertsDecl) -> Option<Experts> {
        let always = |presence: Presence| presence.resolve(false);
        always(decl.presence).then(|| Experts {
            count: 2,
            used: 1,
            groups: 1,
            used_groups: 1,
            n_ff: None,
            shared_ff: always(decl.shared).then_some(1),
            shared_gate: decl.shared_gate,
            beside_dense: decl.beside_dense,
            fused_gate_up: always(decl.fused_gate_up),
            first_layer: 0,
            every: 1,
            gating: decl.gating,
            normalized: decl.normalized,
            scale: 1.0,
            bias: always(decl.bias),
            selection_bias: always(decl.selection_bias),
        })
    }

    /// Whether a layer, counted from 0, has experts.
    pub(crate) fn are_in_layer(&self, layer: usize) -> bool {
        layer >= self.first_layer && (layer + 1).is_multiple_of(self.every)
    }

    /// The metadata of a file with these experts, without the architecture's prefix.
    pub(super) fn metadata(&self) -> Vec<(&'static str, MetaValue)> {
        // Larger sizes are refused on reading.
        let size = |n: usize| MetaValue::U32(u32::try_from(n).unwrap_or(u32::MAX));
        let mut all = vec![
            ("expert_count", size(self.count)),
            ("expert_used_count", size(self.used)),
            ("expert_group_count", size(self.groups)),
            ("expert_group_used_count", size(self.used_groups)),
            ("expert_gating_func", self.gating.id().into()),
            ("expert_weights_norm", MetaValue::Bool(self.normalized)),
            ("expert_weights_scale", self.scale.into()),
            ("leading_dense_block_count", size(self.first_layer)),
            ("interleave_moe_layer_step", size(self.every)),
        ];
        all.extend(self.n_ff.map(|n| ("expert_feed_forward_length", size(n))));
        all.extend(self.shared_ff.map(|n| ("expert_shared_feed_forward_length", size(n))));
        all
    }
}
