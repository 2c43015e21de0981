//! How many rows every (layer, KV head) gets, and the bytes that follow: plain arithmetic, shared by the plan and the
//! store, so that what is predicted is what is allocated.

use super::policy::{Bounds, PolicyChoice};
use crate::EngineError;
use crate::heads::HeadProfile;
use ggml::{Context, Type};
use kernels::graph::RowPositions;
use models::spec::{ModelSpec, Positions};

/// Some KV heads of a layer that keep equally many rows.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneLayout {
    /// KV heads, ascending.
    pub kv_heads: Vec<u32>,
    /// Rows allocated for each, the compensation entry included.
    pub capacity: usize,
    /// What they keep; `None` for everything.
    pub bounds: Option<Bounds>,
}

impl LaneLayout {
    /// Whether row 0 is a compensation entry.
    pub fn compensated(&self) -> bool {
        self.bounds.as_ref().is_some_and(|bounds| bounds.compensated)
    }
}

/// The shape of a store.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Elements of a head.
    pub head_dim: usize,
    /// KV heads of a layer.
    pub n_kv_heads: usize,
    /// Tokens a session may see.
    pub context: usize,
    /// Element type of keys.
    pub k_type: Type,
    /// Element type of values.
    pub v_type: Type,
    /// Whether the position of each row lies beside it, for attention that depends on distances (ALiBi).
    pub alibi: bool,
    /// Per layer its lanes, those that keep everything first.
    pub layers: Vec<Vec<LaneLayout>>,
}

impl Layout {
    /// The layout of `spec` under `policy`. `profile` must be given for policies that use one.
    pub fn new(
        spec: &ModelSpec,
        policy: &PolicyChoice,
        profile: Option<&HeadProfile>,
        context: usize,
        (k_type, v_type): (Type, Type),
    ) -> Result<Layout, EngineError> {
        let profile = if policy.policy().uses_profile() {
            Some(profile.ok_or_else(|| EngineError::Policy {
                given: policy.to_string(),
                reason: "it needs to know which heads are retrieval heads".into(),
                hint: "give a head profile (--heads FILE), or let `longhand heads calibrate` make one".into(),
            })?)
        } else {
            None
        };
        let full_heads =
            |layer: usize, head: usize| profile.is_some_and(|profile| profile.is_retrieval(layer, head));
        let alibi = spec.positions == Positions::Alibi;
        // A mean key has no position, so that no entry stands for the rows that left.
        let bounds = policy.policy().bounds().map(|b| Bounds { compensated: b.compensated && !alibi, ..b });
        let layout = Self::from_flags(
            (spec.n_layers, spec.n_kv_heads, spec.head_dim),
            bounds,
            full_heads,
            context,
            (k_type, v_type),
        )?;
        Ok(Layout { alibi, ..layout })
    }

    /// The layout of `(layers, KV heads, head_dim)` where bounded heads keep `bounds` and `is_full` names those that keep
    /// everything.
    pub fn from_flags(
        (layers, n_kv_heads, head_dim): (usize, usize, usize),
        bounds: Option<Bounds>,
        is_full: impl Fn(usize, usize) -> bool,
        context: usize,
        (k_type, v_type): (Type, Type),
    ) -> Result<Layout, EngineError> {
        for (flag, ty) in [("-ctk", k_type), ("-ctv", v_type)] {
            let Some(row) = kernels::graph::row_type(ty) else {
                return Err(EngineError::Setting {
                    what: format!("{flag} {ty}"),
                    reason: "the KV store cannot hold rows of this type".into(),
                    hint: "types are f32, f16, q8_0 and q4_0".into(),
                });
            };
            let granule = row.granule();
            if !head_dim.is_multiple_of(granule) {
                return Err(EngineError::Setting {
                    what: format!("{flag} {ty}"),
                    reason: format!(
                        "it stores blocks of {granule} elements, the model's heads have {head_dim}"
                    ),
                    hint: "use f16 or f32".into(),
                });
            }
        }
        let layers = (0..layers)
            .map(|layer| {
                let bounded = |head: &u32| bounds.is_some() && !is_full(layer, *head as usize);
                let (forgetful, full): (Vec<u32>, Vec<u32>) = (0..n_kv_heads as u32).partition(bounded);
                let mut lanes = Vec::new();
                if !full.is_empty() {
                    lanes.push(LaneLayout { kv_heads: full, capacity: context, bounds: None });
                }
                if let (Some(bounds), false) = (&bounds, forgetful.is_empty()) {
                    let kept = bounds.sinks + bounds.window(context) + bounds.slack(context) + 1;
                    let capacity = kept.min(context) + usize::from(bounds.compensated);
                    lanes.push(LaneLayout { kv_heads: forgetful, capacity, bounds: Some(bounds.clone()) });
                }
                lanes
            })
            .collect();
        Ok(Layout { head_dim, n_kv_heads, context, k_type, v_type, alibi: false, layers })
    }

    /// Bytes of one head's row of K and V together, its position included where it lies beside them.
    pub fn row_bytes(&self) -> usize {
        let position = if self.alibi { size_of::<i32>() } else { 0 };
        self.k_type.row_bytes(self.head_dim) + self.v_type.row_bytes(self.head_dim) + position
    }

    /// Tensors for the positions of the rows of a layer's lanes; `None` where attention asks for none.
    pub fn row_positions(&self, ctx: &Context, lanes: &[LaneLayout]) -> Vec<Option<RowPositions>> {
        let rows = |lane: &LaneLayout| lane.capacity * lane.kv_heads.len();
        let all = self.alibi.then(|| ctx.tensor(Type::I32, [lanes.iter().map(rows).sum()]));
        let place = |first: &mut usize, lane| {
            let at = *first;
            *first += rows(lane);
            Some(all.clone().map(|all| RowPositions { all, first: at }))
        };
        lanes.iter().scan(0, place).collect()
    }

    /// Bytes of the store, running sums and the host's record of positions included.
    pub fn bytes(&self) -> usize {
        self.layers.iter().flatten().map(|lane| self.lane_bytes(lane)).sum()
    }

    fn lane_bytes(&self, lane: &LaneLayout) -> usize {
        let heads = lane.kv_heads.len();
        let sums = if lane.compensated() { 2 * 4 * self.head_dim * heads } else { 0 };
        let positions = if lane.bounds.is_some() { 4 * lane.capacity * heads } else { 0 };
        heads * lane.capacity * self.row_bytes() + sums + positions
    }

    /// Bytes of a cache that keeps all of `tokens` tokens.
    pub fn full_bytes(&self, tokens: usize) -> usize {
        self.layers.len() * self.n_kv_heads * tokens * self.row_bytes()
    }

    /// Bytes of one layer's complete K and V for `tokens` tokens, which exact prefill needs for layers with bounded heads.
    pub fn scratch_bytes(&self, tokens: usize) -> usize {
        match self.layers.iter().flatten().any(|lane| lane.bounds.is_some()) {
            true => self.n_kv_heads * tokens * self.row_bytes(),
            false => 0,
        }
    }
}
