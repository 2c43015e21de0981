//! Layers with a sliding window, and the RoPE of each layer.

use super::keys::{KeyReader, KeyWriter, limit};
use super::{ModelSpec, Rope, RopeScaling, SpecPart};
use crate::arch::{ArchDecl, LocalDecl, LocalRope, SlidingWindow};
use crate::error::LoadError;

const WINDOW: &str = "attention.sliding_window";
/// A flag for each layer, or every how many layers one is global.
const PATTERN: &str = "attention.sliding_window_pattern";
const ROPE_BASE: &str = "rope.freq_base_swa";

// Settings of architectures whose local layers have heads of their own.
const KEY_LENGTH: &str = "attention.key_length_swa";
const VALUE_LENGTH: &str = "attention.value_length_swa";
const ROPE_DIMS: &str = "rope.dimension_count_swa";

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
            LocalRope::Unscaled => Rope { scaling: RopeScaling::None, has_factors: false, ..*rope },
            LocalRope::Base(base) => Rope { base, scaling: RopeScaling::None, has_factors: false, ..*rope },
        };
        let is_local = all_but_every(decl.global_every, n_layers);
        LocalLayers { window, is_local, rope: rope.map(local_rope), heads: None }
    }
}

/// `[n_layers]`: true, but for the last of each group of `every`.
pub(super) fn all_but_every(every: usize, n_layers: usize) -> Vec<bool> {
    (1..=n_layers).map(|layer| !layer.is_multiple_of(every)).collect()
}

impl SpecPart for Option<LocalLayers> {
    fn reads(decl: &ArchDecl, key: &str) -> bool {
        key == WINDOW || decl.sliding_window.local().is_some() && [PATTERN, ROPE_BASE].contains(&key)
    }

    fn read(keys: &KeyReader<'_>, spec: &ModelSpec) -> Result<Option<LocalLayers>, LoadError> {
        let Some((decl, window)) = keys.local_window(spec.n_layers)? else { return Ok(None) };
        let rope = spec.position_encoding.rope();
        let mut local = LocalLayers::declared(decl, window, spec.n_layers, rope);
        local.is_local = keys.window_pattern(spec.n_layers)?;
        if decl.own_heads {
            let [_, count] = keys.kv_heads(spec.n_heads, &local.is_local)?;
            local.heads = Some(keys.local_heads(count, spec.head_dim)?);
        }
        if let Some(rope) = &mut local.rope {
            let base = keys.float(ROPE_BASE, rope.base, |base| base >= 1.0, "it has to be 1 or more")?;
            if base != rope.base && rope.divisors().is_some() {
                return Err(keys.unsupported(
                    ROPE_BASE,
                    base,
                    "all layers have the same YaRN in this architecture",
                ));
            }
            rope.base = base;
            if let Some(heads) = local.heads {
                rope.n_dims = keys.optional_size(ROPE_DIMS, limit::HEAD_DIM)?.unwrap_or(heads.dim);
                if rope.n_dims > heads.dim || !rope.n_dims.is_multiple_of(2) {
                    let expected =
                        format!("it has to be even, and at most the {} elements of a head", heads.dim);
                    return Err(keys.bad(ROPE_DIMS, rope.n_dims, expected));
                }
            }
        }
        Ok(Some(local))
    }

    fn write(&self, spec: &ModelSpec, to: &mut KeyWriter) {
        let Some(local) = self else { return to.optional_size(WINDOW, spec.ignored_sliding_window) };
        to.size(WINDOW, local.window);
        to.flags(PATTERN, local.is_local.iter().copied());
        if let Some(rope) = local.rope {
            to.put(ROPE_BASE, rope.base);
        }
        if let Some(heads) = local.heads {
            to.size(KEY_LENGTH, heads.dim);
            to.size(VALUE_LENGTH, heads.dim);
            to.size(ROPE_DIMS, local.rope.map_or(heads.dim, |rope| rope.n_dims));
        }
    }
}

impl KeyReader<'_> {
    /// The window of local layers in tokens, and their declaration, in a model of `n_layers` layers; `None` where there
    /// are none.
    fn local_window(&self, n_layers: usize) -> Result<Option<(LocalDecl, usize)>, LoadError> {
        let Some(decl) = self.arch.decl().sliding_window.local() else { return Ok(None) };
        let stated = self.optional_size(WINDOW, limit::TOKENS)?;
        let window = stated.or_else(|| decl.default_window(n_layers));
        Ok(window.map(|window| (decl, window)))
    }

    /// Which layers have a sliding window, `[n_layers]`. Files give a flag for each layer, or every how many layers one
    /// has none.
    pub(super) fn window_pattern(&self, n_layers: usize) -> Result<Vec<bool>, LoadError> {
        let Some((decl, _)) = self.local_window(n_layers)? else { return Ok(vec![false; n_layers]) };
        if let Some(flags) = self.flags(PATTERN, n_layers, "a number, or ")? {
            return Ok(flags);
        }
        let every = self.optional_size(PATTERN, limit::LAYERS)?.unwrap_or(decl.global_every);
        Ok(all_but_every(every, n_layers))
    }

    /// The KV heads of local layers, `count` of them, where global layers have heads of `head_dim` elements.
    fn local_heads(&self, count: usize, head_dim: usize) -> Result<KvHeads, LoadError> {
        let dim = self.optional_size(KEY_LENGTH, limit::HEAD_DIM)?.unwrap_or(head_dim);
        Ok(KvHeads { count, dim: self.check_head_dim(dim, KEY_LENGTH, VALUE_LENGTH)? })
    }

    /// The sliding window in tokens that the file gives and that is not applied; `None` if it would have no
    /// effect.
    pub(super) fn ignored_sliding_window(&self, n_ctx_train: usize) -> Result<Option<usize>, LoadError> {
        // 0 means no window.
        let window = self.file.u64(&self.full(WINDOW))?.filter(|&w| w > 0 && w < n_ctx_train as u64);
        match (window, self.arch.decl().sliding_window) {
            (None, _) => Ok(None),
            (_, SlidingWindow::Local(_)) => Ok(None),
            (Some(window), SlidingWindow::Ignored) => Ok(Some(window as usize)), // below n_ctx_train
            (Some(window), SlidingWindow::Refused) => {
                Err(self.unsupported(WINDOW, window, "attention to a window only is not supported"))
            }
        }
    }
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
        self.attention.values_from_keys && self.window(layer).is_none()
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
