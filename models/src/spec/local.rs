//! Layers with a sliding window, and the RoPE of each layer.

use super::{ModelSpec, Rope, RopeScaling};
use crate::arch::{LocalDecl, LocalRope};

/// Layers with a sliding window, called local. In the others, which are global, a token sees all before it.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalLayers {
    /// Tokens that a token sees, itself included: those at positions above p - window, for its position p.
    pub window: usize,
    /// `[n_layers]`: which layers are local.
    pub is_local: Vec<bool>,
    /// RoPE of the local layers.
    pub rope: Option<Rope>,
    /// KV heads of the local layers. `None`: those of the global ones.
    pub heads: Option<KvHeads>,
}

/// The KV heads of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvHeads {
    /// How many there are; divides the number of query heads.
    pub count: usize,
    /// Elements of a head, also of a query.
    pub dim: usize,
}

impl LocalLayers {
    /// The layers with a window of `window` tokens as the architecture declares them, in a model whose global layers
    /// have the given RoPE.
    pub(crate) fn declared(
        decl: LocalDecl,
        window: usize,
        n_layers: usize,
        rope: Option<&Rope>,
    ) -> LocalLayers {
        let local_rope = |rope: &Rope| match decl.rope {
            LocalRope::Same => *rope,
            LocalRope::Unscaled => Rope { scaling: RopeScaling::None, ..*rope },
            LocalRope::Base(base) => Rope { base, scaling: RopeScaling::None, ..*rope },
        };
        let is_local = all_but_every(decl.global_every, n_layers);
        LocalLayers { window, is_local, rope: rope.map(local_rope), heads: None }
    }
}

/// `[n_layers]`: true, but for the last of each group of `every`.
pub(super) fn all_but_every(every: usize, n_layers: usize) -> Vec<bool> {
    (1..=n_layers).map(|layer| !layer.is_multiple_of(every)).collect()
}

impl ModelSpec {
    /// Tokens that a token sees in a layer, itself included; `None` for all.
    pub fn window(&self, layer: usize) -> Option<usize> {
        let local = self.local_layers.as_ref()?;
        local.is_local.get(layer).copied().unwrap_or(false).then_some(local.window)
    }

    /// KV heads of a layer. A layer that shares those of an earlier one has none of its own; these are then meant.
    pub fn kv_heads(&self, layer: usize) -> KvHeads {
        let own =
            self.local_layers.as_ref().and_then(|local| local.heads).filter(|_| self.window(layer).is_some());
        own.unwrap_or(KvHeads { count: self.n_kv_heads, dim: self.head_dim })
    }

    /// Whether local layers may have other KV heads than global ones.
    pub fn has_local_heads(&self) -> bool {
        self.local_layers.as_ref().is_some_and(|local| local.heads.is_some())
    }

    /// KV heads of all layers that have keys and values.
    pub fn all_kv_heads(&self) -> usize {
        let with_rows = (0..self.n_layers).filter(|layer| self.has_rows(*layer));
        with_rows.map(|layer| self.kv_heads(layer).count).sum()
    }

    /// Whether the values of a layer come from the projection of its keys.
    pub fn has_values_from_keys(&self, layer: usize) -> bool {
        self.values_from_keys && self.window(layer).is_none()
    }

    /// Whether the tensor of factors divides the frequencies of a layer's RoPE.
    pub fn has_rope_factors(&self, layer: usize) -> bool {
        let local = self.arch.decl().sliding_window.local();
        self.window(layer).is_none() || local.is_none_or(|decl| decl.rope == LocalRope::Same)
    }

    /// RoPE of a layer; `None` where it has none.
    pub fn rope(&self, layer: usize) -> Option<&Rope> {
        let rope = match &self.local_layers {
            Some(local) if self.window(layer).is_some() => local.rope.as_ref(),
            Some(_) if self.arch.decl().sliding_window.local().is_some_and(|decl| decl.only_local_rope) => {
                None
            }
            _ => self.position_encoding.rope(),
        };
        rope.filter(|rope| rope.is_in_layer(layer))
    }
}
