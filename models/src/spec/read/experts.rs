//! Reads the experts of a model.

use super::{Keys, limit};
use crate::arch::Gating;
use crate::error::LoadError;
use crate::spec::Experts;

impl Keys<'_> {
    /// The experts of a model with `n_layers` layers, whose feed-forward networks have the width `n_ff`.
    pub(super) fn experts(&self, n_layers: usize, n_ff: usize) -> Result<Option<Experts>, LoadError> {
        const COUNT: &str = "expert_count";
        const USED: &str = "expert_used_count";
        const LEADING: &str = "leading_dense_block_count";
        let decl = &self.arch.decl().experts;
        let stated = self.file.u64(&self.full(COUNT))?;
        if !decl.presence.resolve(stated.is_some_and(|count| count > 0)) {
            return Ok(None);
        }
        let count = stated.ok_or_else(|| self.missing(COUNT))?;
        if !(2..=limit::EXPERTS).contains(&count) {
            return Err(self.bad(COUNT, count, format!("it has to be 2 to {}", limit::EXPERTS)));
        }
        let first_layer = self.file.u64(&self.full(LEADING))?.unwrap_or(0);
        if first_layer > n_layers as u64 {
            return Err(self.bad(LEADING, first_layer, format!("there are {n_layers} layers")));
        }
        let used = self.size(USED, count.min(limit::USED_EXPERTS))?;
        let count = count as usize; // at most `limit::EXPERTS`
        let (groups, used_groups) = self.groups_of_experts(count, used)?;
        let n_ff_of_experts = self.optional_size("expert_feed_forward_length", limit::WIDTH)?;
        let layer_tensor =
            |name: &str| (0..n_layers).any(|i| self.file.tensor(&format!("blk.{i}.{name}")).is_some());
        let selection_bias = decl.selection_bias.resolve(layer_tensor("exp_probs_b.bias"));
        // Old files of these models do not name the function. Those with a bias have the sigmoid.
        let default_gating = match self.arch.decl().latent && selection_bias {
            true => Gating::Sigmoid,
            false => decl.gating,
        };
        Ok(Some(Experts {
            count,
            used,
            groups,
            used_groups,
            n_ff: n_ff_of_experts,
            shared_ff: self.shared_ff(n_ff_of_experts.unwrap_or(n_ff), n_ff)?,
            shared_gate: decl.shared_gate,
            beside_dense: decl.beside_dense,
            fused_gate_up: decl.fused_gate_up.resolve(layer_tensor("ffn_gate_up_exps.weight")),
            first_layer: first_layer as usize,
            every: self.optional_size("interleave_moe_layer_step", limit::LAYERS)?.unwrap_or(1),
            gating: self.gating(default_gating)?,
            normalized: self.file.bool(&self.full("expert_weights_norm"))?.unwrap_or(decl.normalized),
            scale: self.factor_or_zero("expert_weights_scale", 1.0)?,
            bias: decl.bias.resolve(layer_tensor("ffn_gate_inp.bias")),
            selection_bias,
        }))
    }

    /// The groups of `count` experts, and how many of them a token's `used` experts come from. 0 means 1.
    fn groups_of_experts(&self, count: usize, used: usize) -> Result<(usize, usize), LoadError> {
        const GROUPS: &str = "expert_group_count";
        const USED: &str = "expert_group_used_count";
        let stated = |key| Ok::<u64, LoadError>(self.file.u64(&self.full(key))?.unwrap_or(1).max(1));
        let groups = self.checked(GROUPS, stated(GROUPS)?, count as u64)?;
        if !count.is_multiple_of(groups) {
            return Err(self.bad(GROUPS, groups, format!("it has to divide the {count} experts")));
        }
        let used_groups = self.checked(USED, stated(USED)?, groups as u64)?;
        match used_groups * (count / groups) {
            too_few if too_few < used => {
                let expected = format!("these groups have {too_few} experts, and a token uses {used}");
                Err(self.bad(USED, used_groups, expected))
            }
            _ => Ok((groups, used_groups)),
        }
    }

    /// The width of the expert that every token uses, where the others have the width `n_ff_of_experts`.
    fn shared_ff(&self, n_ff_of_experts: usize, n_ff: usize) -> Result<Option<usize>, LoadError> {
        const WIDTH: &str = "expert_shared_feed_forward_length";
        const COUNT: &str = "expert_shared_count";
        let optional = |key| Ok(self.file.u64(&self.full(key))?.filter(|n| *n > 0));
        if let Some(width) = optional(WIDTH)? {
            return self.checked(WIDTH, width, limit::WIDTH).map(Some);
        }
        if let Some(count) = optional(COUNT)? {
            return Ok(Some(self.checked(COUNT, count, limit::EXPERTS)? * n_ff_of_experts));
        }
        Ok(self.arch.decl().experts.shared.resolve(false).then_some(n_ff))
    }

    fn gating(&self, default: Gating) -> Result<Gating, LoadError> {
        const KEY: &str = "expert_gating_func";
        match self.file.u64(&self.full(KEY))? {
            None | Some(0) => Ok(default),
            Some(id) => Gating::from_id(id).ok_or_else(|| self.unsupported(KEY, id, "known are 1, 2 and 3")),
        }
    }
}
