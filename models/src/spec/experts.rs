//! The experts of a model: which layers have them, and how a router chooses and weighs them.

use super::keys::{KeyReader, KeyWriter, keys, limit};
use super::{ModelSpec, SpecPart};
use crate::arch::{ArchDecl, ExpertsDecl, Gating, Presence};
use crate::error::LoadError;

keys! {
    /// Keys that are read where models may have experts.
    KEYS;
    COUNT = "expert_count";
    USED = "expert_used_count";
    GROUPS = "expert_group_count";
    USED_GROUPS = "expert_group_used_count";
    /// The width of an expert.
    pub(super) WIDTH = "expert_feed_forward_length";
    SHARED_COUNT = "expert_shared_count";
    SHARED_WIDTH = "expert_shared_feed_forward_length";
    GATING = "expert_gating_func";
    NORMALIZED = "expert_weights_norm";
    SCALE = "expert_weights_scale";
    LEADING = "leading_dense_block_count";
    EVERY = "interleave_moe_layer_step";
}

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
}

impl SpecPart for Option<Experts> {
    fn reads(decl: &ArchDecl, key: &str) -> bool {
        decl.experts.presence != Presence::Never && KEYS.contains(&key)
    }

    fn read(keys: &KeyReader<'_>, spec: &ModelSpec) -> Result<Option<Experts>, LoadError> {
        let n_layers = spec.n_layers;
        let decl = &keys.arch.decl().experts;
        let stated = keys.file.u64(&keys.full(COUNT))?;
        if !decl.presence.resolve(stated.is_some_and(|count| count > 0)) {
            return Ok(None);
        }
        let count = stated.ok_or_else(|| keys.missing(COUNT))?;
        if !(2..=limit::EXPERTS).contains(&count) {
            return Err(keys.bad(COUNT, count, format!("it has to be 2 to {}", limit::EXPERTS)));
        }
        let first_layer = keys.file.u64(&keys.full(LEADING))?.unwrap_or(0);
        if first_layer > n_layers as u64 {
            return Err(keys.bad(LEADING, first_layer, format!("there are {n_layers} layers")));
        }
        let used = keys.size(USED, count.min(limit::USED_EXPERTS))?;
        let count = count as usize; // at most `limit::EXPERTS`
        let (groups, used_groups) = keys.groups_of_experts(count, used)?;
        let n_ff = keys.optional_size(WIDTH, limit::WIDTH)?;
        let selection_bias = decl.selection_bias.resolve(keys.a_layer_has(n_layers, "exp_probs_b.bias"));
        // Old files of these models do not name the function. Those with a bias have the sigmoid.
        let default_gating = match keys.arch.decl().latent && selection_bias {
            true => Gating::Sigmoid,
            false => decl.gating,
        };
        Ok(Some(Experts {
            count,
            used,
            groups,
            used_groups,
            n_ff,
            shared_ff: keys.shared_ff(n_ff.unwrap_or(spec.n_ff), spec.n_ff)?,
            shared_gate: decl.shared_gate,
            beside_dense: decl.beside_dense,
            fused_gate_up: decl.fused_gate_up.resolve(keys.a_layer_has(n_layers, "ffn_gate_up_exps.weight")),
            first_layer: first_layer as usize,
            every: keys.optional_size(EVERY, limit::LAYERS)?.unwrap_or(1),
            gating: keys.gating(default_gating)?,
            normalized: keys.file.bool(&keys.full(NORMALIZED))?.unwrap_or(decl.normalized),
            scale: keys.factor_or_zero(SCALE, 1.0)?,
            bias: decl.bias.resolve(keys.a_layer_has(n_layers, "ffn_gate_inp.bias")),
            selection_bias,
        }))
    }

    fn write(&self, _: &ModelSpec, to: &mut KeyWriter) {
        let Some(experts) = self else { return };
        to.size(COUNT, experts.count);
        to.size(USED, experts.used);
        to.size(GROUPS, experts.groups);
        to.size(USED_GROUPS, experts.used_groups);
        to.optional_size(WIDTH, experts.n_ff);
        to.optional_size(SHARED_WIDTH, experts.shared_ff);
        to.put(GATING, experts.gating.id());
        to.put(NORMALIZED, experts.normalized);
        to.put(SCALE, experts.scale);
        to.size(LEADING, experts.first_layer);
        to.size(EVERY, experts.every);
    }
}

impl KeyReader<'_> {
    /// The groups of `count` experts, and how many of them a token's `used` experts come from. 0 means 1.
    fn groups_of_experts(&self, count: usize, used: usize) -> Result<(usize, usize), LoadError> {
        let stated = |key| Ok::<u64, LoadError>(self.file.u64(&self.full(key))?.unwrap_or(1).max(1));
        let groups = self.checked(GROUPS, stated(GROUPS)?, count as u64)?;
        if !count.is_multiple_of(groups) {
            return Err(self.bad(GROUPS, groups, format!("it has to divide the {count} experts")));
        }
        let used_groups = self.checked(USED_GROUPS, stated(USED_GROUPS)?, groups as u64)?;
        match used_groups * (count / groups) {
            too_few if too_few < used => {
                let expected = format!("these groups have {too_few} experts, and a token uses {used}");
                Err(self.bad(USED_GROUPS, used_groups, expected))
            }
            _ => Ok((groups, used_groups)),
        }
    }

    /// The width of the expert that every token uses, where the others have the width `n_ff_of_experts`.
    fn shared_ff(&self, n_ff_of_experts: usize, n_ff: usize) -> Result<Option<usize>, LoadError> {
        let optional = |key| Ok(self.file.u64(&self.full(key))?.filter(|n| *n > 0));
        if let Some(width) = optional(SHARED_WIDTH)? {
            return self.checked(SHARED_WIDTH, width, limit::WIDTH).map(Some);
        }
        if let Some(count) = optional(SHARED_COUNT)? {
            return Ok(Some(self.checked(SHARED_COUNT, count, limit::EXPERTS)? * n_ff_of_experts));
        }
        Ok(self.arch.decl().experts.shared.resolve(false).then_some(n_ff))
    }

    fn gating(&self, default: Gating) -> Result<Gating, LoadError> {
        match self.file.u64(&self.full(GATING))? {
            None | Some(0) => Ok(default),
            Some(id) => {
                Gating::from_id(id).ok_or_else(|| self.unsupported(GATING, id, "known are 1, 2 and 3"))
            }
        }
    }
}
