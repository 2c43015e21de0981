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
        LocalLayers { window, is_local, rope: rope.map(local_rope) }
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
