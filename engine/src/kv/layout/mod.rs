//! How many rows every (layer, KV head) gets. The plan and the store share this arithmetic, so that what is predicted is
//! what is allocated. `lanes` decides for one layer, and `bytes` counts what follows.

mod bytes;
mod lanes;

use std::ops::Range;

use ggml::Type;
use kernels::RowType;
use kernels::graph::{AttentionShape, MAX_LANES, tensor_type};
use models::spec::{KvHeads, ModelSpec, RecurrentLayers, StateShape};

pub use self::lanes::LaneLayout;
use self::lanes::{lanes_of_shares, lanes_of_windows};
use super::policy::PolicyChoice;
use crate::heads::{HeadProfile, HeadShape};
use crate::kv::key_offset;
use crate::{EngineError, Hint};

/// Maximum rows of a bounded head that are saved when they are evicted, so that a turn can be undone.
pub const UNDO_ROWS_PER_HEAD: usize = 1024;

/// What a store is made for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoreOptions {
    /// Maximum tokens of the session.
    pub context: usize,
    /// Element types of keys and values.
    pub types: (Type, Type),
    /// Rows allocated for a bounded head beyond its budget, so that several tokens can be computed at once;
    /// `None` for an eighth of the budget, 32 to 512.
    pub reserve: Option<usize>,
}

/// The heads of a layer.
pub fn attention_shape(spec: &ModelSpec, layer: usize) -> AttentionShape {
    shape(spec, spec.kv_heads(layer))
}

/// Elements of a stored row of a head of `dim` elements. Attention reads 8 elements at a time, so zeros follow where
/// that is no multiple: they change neither a product with a query nor, cut off, a sum of values. The rows of latent
/// attention have parts that are told apart by their place, so they have none.
fn stored_dim(spec: &ModelSpec, dim: usize) -> usize {
    if spec.latent.is_some() { dim } else { dim.next_multiple_of(RowType::F16.granule()) }
}

fn shape(spec: &ModelSpec, heads: KvHeads) -> AttentionShape {
    AttentionShape {
        head_dim: stored_dim(spec, heads.dim),
        n_kv_heads: heads.count,
        group: spec.n_heads / heads.count,
        scale: spec.attention.scale,
        softcap: spec.attention.softcap,
        max_alibi_bias: spec.position_encoding.max_alibi_bias(),
    }
}

/// The shape of a store.
#[derive(Clone, Debug)]
pub struct Layout {
    /// `[n_layers]`: the heads of each layer.
    pub heads: Vec<AttentionShape>,
    /// Maximum tokens of the session.
    pub context: usize,
    /// `[n_layers]`: element type of keys.
    pub k_types: Vec<Type>,
    /// Element type of values. Not used where values are in the rows of keys.
    pub v_type: Type,
    /// Whether values are in the rows of keys (latent attention). Policies that measure values measure whole rows then.
    pub values_in_keys: bool,
    /// Whether the position of each row is stored beside it, for attention that depends on distances (ALiBi).
    pub alibi: bool,
    /// For each layer its lanes, those that keep every row first. A recurrent layer has none, nor has one that attends
    /// to the rows of an earlier one.
    pub layers: Vec<Vec<LaneLayout>>,
    /// `[n_layers]`: the last layer that attends to the rows of a layer. It is the layer itself, or a later one.
    pub last_readers: Vec<usize>,
    /// What recurrent layers keep.
    pub states: Option<StateShape>,
}

impl Layout {
    /// The layout of `spec` under `policy`. `profile` must be given for policies that use one. Where windows
    /// follow from the weights ([`PolicyChoice::scope_options`]), it must hold the heads' scopes.
    pub fn new(
        spec: &ModelSpec,
        policy: &PolicyChoice,
        profile: Option<&HeadProfile>,
        options: StoreOptions,
    ) -> Result<Layout, EngineError> {
        policy.check(spec)?;
        let profile = if policy.uses_profile() {
            let profile = profile.ok_or_else(|| EngineError::Policy {
                given: policy.to_string(),
                reason: "it needs a head profile".into(),
                hint: Hint::GiveHeadProfile,
            })?;
            profile.check(HeadShape::new(spec.n_layers, spec.n_heads, spec.n_kv_heads)?, None)?;
            Some(profile)
        } else {
            None
        };
        let heads = shape(spec, KvHeads { count: spec.n_kv_heads, dim: spec.head_dim });
        for layer in 0..spec.n_layers {
            let KvHeads { dim, .. } = spec.kv_heads(layer);
            check_types(options.types, dim, stored_dim(spec, dim))?;
        }
        let keeps_all = |layer: usize, head: usize| {
            policy.uses_retrieval_heads() && profile.is_some_and(|profile| profile.is_retrieval(layer, head))
        };
        let mut layout = Self::from_flags(spec.n_layers, heads, policy, keeps_all, options)?;
        layout.values_in_keys = spec.latent.is_some();
        layout.alibi = spec.position_encoding.is_alibi();
        layout.states = spec.recurrent.as_ref().map(RecurrentLayers::state);
        if policy.scope_options(spec).is_some() {
            let slack = policy.value("slack").filter(|slack| *slack >= 0.0).map(|slack| slack as usize);
            for (layer, lanes) in layout.layers.iter_mut().enumerate() {
                let scopes = profile.and_then(|profile| profile.scopes(layer));
                let scopes = scopes.ok_or_else(|| EngineError::Policy {
                    given: policy.to_string(),
                    reason: "on a model with ALiBi its windows follow from the weights, and the head profile has none"
                        .into(),
                    hint: Hint::OmitHeadProfile,
                })?;
                *lanes = lanes_of_windows(scopes, slack, options);
            }
        }
        // A made-up profile has no shares: all heads then keep equally many rows.
        if let Some((profile, bounded)) = profile.filter(|_| policy.uses_shares()).zip(policy.policy()) {
            let kept = bounded.budget(options.context) as f64 / options.context as f64;
            let shares = profile.row_shares(kept.min(1.0)).unwrap_or_default();
            for (layer, shares) in shares.chunks(spec.n_kv_heads).enumerate() {
                if !bounded.skips_layer(layer) {
                    // Sink logits take the place of a lane (`kernels::graph::attend`).
                    let max_lanes = MAX_LANES - usize::from(spec.attention.sink_logits);
                    layout.layers[layer] = lanes_of_shares(shares, max_lanes, policy, options)?;
                }
            }
        }
        for (layer, lanes) in layout.layers.iter_mut().enumerate() {
            let heads = attention_shape(spec, layer);
            if let Some(window) = spec.window(layer) {
                *lanes = vec![LaneLayout::windowed((0..heads.n_kv_heads as u32).collect(), window, options)];
            }
            if !spec.has_rows(layer) {
                lanes.clear();
            }
            layout.heads[layer] = heads;
            layout.k_types[layer] = key_offset::key_type(spec, layer, options.types.0);
            layout.last_readers[layer] = spec.last_kv_reader(layer);
        }
        // A mean key has no position, so no entry can stand for evicted rows.
        for lane in layout.layers.iter_mut().flatten().filter(|lane| lane.compensated && layout.alibi) {
            lane.compensated = false;
            lane.capacity -= 1;
        }
        Ok(layout)
    }

    /// The layout of `n_layers` layers of `heads`, where `keeps_all(layer, kv_head)` names the heads that
    /// keep every row.
    pub fn from_flags(
        n_layers: usize,
        heads: AttentionShape,
        choice: &PolicyChoice,
        keeps_all: impl Fn(usize, usize) -> bool,
        options: StoreOptions,
    ) -> Result<Layout, EngineError> {
        let context = options.context;
        check_types(options.types, heads.head_dim, heads.head_dim)?;
        let (policy, compensated) = (choice.policy(), choice.is_compensated());
        if let Some(policy) = &policy {
            policy.check(context).map_err(|reason| EngineError::Policy {
                given: choice.to_string(),
                reason,
                hint: Hint::SmallerParameters,
            })?;
        }
        let layers = (0..n_layers)
            .map(|layer| {
                let policy = policy.as_ref().filter(|policy| !policy.skips_layer(layer));
                let is_bounded = |head: &u32| policy.is_some() && !keeps_all(layer, *head as usize);
                let (bounded, full): (Vec<u32>, Vec<u32>) =
                    (0..heads.n_kv_heads as u32).partition(is_bounded);
                let mut lanes = Vec::new();
                if !full.is_empty() {
                    lanes.push(LaneLayout::full(full, context));
                }
                if let (Some(policy), false) = (policy, bounded.is_empty()) {
                    lanes.push(LaneLayout::bounded(bounded, policy.clone(), compensated, options));
                }
                lanes
            })
            .collect();
        Ok(Layout::of_lanes(heads, options, layers))
    }

    /// A layout of lanes whose keys and values have tensors of their own, and whose positions are not stored.
    pub(super) fn of_lanes(
        heads: AttentionShape,
        options: StoreOptions,
        layers: Vec<Vec<LaneLayout>>,
    ) -> Layout {
        let StoreOptions { context, types: (k_type, v_type), .. } = options;
        let (values_in_keys, alibi, states) = (false, false, None);
        let (heads, last_readers) = (vec![heads; layers.len()], (0..layers.len()).collect());
        let k_types = vec![k_type; layers.len()];
        Layout { heads, context, k_types, v_type, values_in_keys, alibi, layers, last_readers, states }
    }

    /// The same layout with some of the layers only.
    pub fn of_layers(&self, layers: Range<usize>) -> Layout {
        Layout {
            heads: self.heads[layers.clone()].to_vec(),
            k_types: self.k_types[layers.clone()].to_vec(),
            last_readers: self.last_readers[layers.clone()].iter().map(|last| last - layers.start).collect(),
            layers: self.layers[layers].to_vec(),
            ..self.clone()
        }
    }

    /// What a layer keeps, if it is recurrent.
    pub fn state(&self, layer: usize) -> Option<&StateShape> {
        self.states.as_ref().filter(|_| self.layers[layer].is_empty())
    }

    fn lanes(&self) -> impl Iterator<Item = &LaneLayout> {
        self.layers.iter().flatten()
    }

    /// Whether a layer has rows of its own: it is not recurrent, and does not attend to those of another layer.
    pub fn has_rows(&self, layer: usize) -> bool {
        !self.layers[layer].is_empty()
    }

    /// How many tokens' queries are stored for a layer's policies.
    pub fn stored_queries(&self, layer: usize) -> usize {
        self.layers[layer].iter().map(|lane| lane.needs().queries).max().unwrap_or(0)
    }

    /// Whether the rows of some lane accumulate attention.
    pub fn accumulates_attention(&self) -> bool {
        self.lanes().any(LaneLayout::accumulates)
    }

    /// Whether the rows of some lane of a layer accumulate attention.
    pub fn accumulates(&self, layer: usize) -> bool {
        self.layers[layer].iter().any(LaneLayout::accumulates)
    }

    /// Whether the scores of a layer's rows are predicted when they are appended, in some lane.
    pub fn predicts(&self, layer: usize) -> bool {
        self.layers[layer].iter().any(LaneLayout::is_predicted)
    }

    /// Whether decode steps change nothing but rows, as long as no policy acts: several can be computed at once.
    pub(crate) fn allows_steps_at_once(&self) -> bool {
        let is_recurrent = (0..self.layers.len()).any(|layer| self.state(layer).is_some());
        !is_recurrent && !self.lanes().any(|lane| lane.needs().records_steps())
    }

    /// Whether all heads keep every row, and no layer is recurrent.
    pub fn keeps_everything(&self) -> bool {
        let has_state = (0..self.layers.len()).any(|layer| self.state(layer).is_some());
        !has_state && self.lanes().all(|lane| lane.policy.is_none())
    }

    /// Whether the policy of some lane needs a first text to be read a second time.
    pub fn reconstructs(&self) -> bool {
        self.lanes().any(|lane| lane.reconstruction().is_some())
    }

    /// Whether rows of a layer are scored by their contributions while a text is read a second time.
    pub fn counts_contributions(&self, layer: usize) -> bool {
        self.layers[layer].iter().any(LaneLayout::counts_contributions)
    }

    /// The sliding window of a layer, in tokens; `None` where queries see the whole context.
    pub fn window(&self, layer: usize) -> Option<usize> {
        self.layers[layer].first().and_then(|lane| lane.window)
    }
}

/// An error for types of keys and values that heads of `head_dim` elements cannot be stored in, as rows of `stored`
/// elements.
fn check_types((k_type, v_type): (Type, Type), head_dim: usize, stored: usize) -> Result<(), EngineError> {
    for (rows, ty) in [("keys", k_type), ("values", v_type)] {
        let Some(row) = kernels::graph::row_type(ty) else {
            return Err(EngineError::Setting {
                what: format!("{rows} of type {ty}"),
                reason: "the KV store does not support this type".into(),
                hint: Hint::CacheTypes(RowType::ALL.map(tensor_type).to_vec()),
            });
        };
        let granule = row.granule();
        // The zeros behind a head's own elements are for types without blocks.
        let elements = if row.block_elements() == 1 { stored } else { head_dim };
        if !elements.is_multiple_of(granule) {
            // Types without blocks store rows that other types cannot.
            let hint = match row.block_elements() {
                1 => Hint::OtherModel,
                _ => Hint::CacheTypes(vec![Type::F16, Type::F32]),
            };
            return Err(EngineError::Setting {
                what: format!("{rows} of type {ty}"),
                reason: format!(
                    "the type stores blocks of {granule} elements, but the model's heads have {head_dim}"
                ),
                hint,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use models::shapes::ModelShape;

    use super::*;

    /// Two layers and 100 tokens.
    fn layout(policy: &str) -> Layout {
        layout_of(2, 100, policy)
    }

    /// Layers of two KV heads of 32 elements, each read by two query heads; f16 rows: 128 bytes for K and V.
    fn layout_of(n_layers: usize, context: usize, policy: &str) -> Layout {
        let heads = AttentionShape::plain(4, 2, 32);
        let options = StoreOptions { context, types: (Type::F16, Type::F16), reserve: None };
        let choice = policy.parse().expect(policy);
        let keeps_all = |layer, head| layer == 0 && head == 1;
        Layout::from_flags(n_layers, heads, &choice, keeps_all, options).expect("a layout")
    }

    #[test]
    fn bytes_are_what_is_counted_by_hand() {
        let full = layout("full");
        assert_eq!((full.bytes(), full.full_bytes(100)), (4 * 100 * 128, 4 * 100 * 128));
        assert_eq!((full.undo_bytes(), full.scratch_bytes(50)), (0, 0));

        // 10 rows and 32 in reserve; attention and a position for each. One head of four keeps every row.
        let h2o = layout("h2o:heavy=5,recent=5,heads=on");
        assert_eq!(h2o.layers[1][0].capacity, 42);
        assert_eq!(h2o.bytes(), 100 * 128 + 3 * 42 * (128 + 4 + 4));
        assert_eq!(h2o.undo_bytes(), 3 * (100 * 128 + 3 * 4 * 42));
        assert_eq!(h2o.scratch_bytes(50), 2 * 50 * (128 + 4 + 4));

        // Queries of 8 tokens and 4 heads in each layer; while a prompt is scored, two numbers for each row
        // and bounded head.
        let snapkv = layout("snapkv:window=8,capacity=16,slack=4");
        assert_eq!(snapkv.layers[1][0].capacity, 48);
        assert_eq!(snapkv.bytes(), 100 * 128 + 3 * 48 * (128 + 4) + 2 * 4 * 32 * 4 * 8);
        assert_eq!(snapkv.undo_bytes(), 3 * 100 * 128 + 3 * (2 * 4 * 32 * 4 * 8));
        assert_eq!(snapkv.scratch_bytes(50), 2 * 50 * (128 + 4) + 2 * 4 * 50 * 2);

        // A row for the compensation entry, and its two sums.
        let razor = layout("razor:buffer=8,ratio=50,sinks=4");
        assert_eq!(razor.layers[1][0].capacity, 4 + 8 + 32 + 1);
        assert_eq!(razor.bytes(), 100 * 128 + 3 * (45 * (128 + 4) + 2 * 4 * 32));

        // Slack beyond the reserve is allocated too, but at most the session's tokens.
        assert_eq!(layout("streaming:sinks=4,window=20,slack=50").layers[1][0].capacity, 4 + 20 + 51);
        assert_eq!(layout("streaming:sinks=4,window=90").layers[1][0].capacity, 100);
    }

    #[test]
    fn only_full_heads_keep_everything() {
        assert!(layout("full").keeps_everything());
        // Also where nothing is evicted of texts as short as the context.
        for policy in ["streaming:sinks=4,window=200", "razor", "h2o:heavy=5,recent=5", "kvzip"] {
            assert!(!layout(policy).keeps_everything(), "{policy}");
        }
    }

    #[test]
    fn layers_use_scratch_memory_whose_rows_are_not_read_any_more() {
        let mut layout = layout_of(6, 100, "streaming");
        assert_eq!(layout.scratch_groups(0..6), [[0, 1, 2, 3, 4, 5]]);
        // The last two layers attend to the rows of the two before them.
        layout.layers[4..].iter_mut().for_each(Vec::clear);
        layout.last_readers[2..4].copy_from_slice(&[4, 5]);
        assert_eq!(layout.scratch_groups(0..6), [vec![0, 1, 2], vec![3]]);
        layout.heads[1].head_dim = 64;
        assert_eq!(layout.scratch_groups(0..6), [vec![0, 2], vec![1], vec![3]]);
        assert_eq!(layout.of_layers(1..6).scratch_groups(0..5), [vec![0], vec![1], vec![2]]);
        layout.k_types[0] = Type::Q8_0;
        assert_eq!(layout.scratch_groups(0..6), [vec![0], vec![1], vec![2], vec![3]]);
    }

    #[test]
    fn the_reserve_is_an_eighth_of_the_budget_from_32_to_512() {
        for (window, reserve) in [(100, 32), (804, 100), (8000, 512)] {
            let layout = layout_of(2, 10_000, &format!("streaming:sinks=0,window={window},slack=0"));
            assert_eq!(layout.layers[1][0].capacity, window + reserve);
        }
    }

    /// 64 tokens and 8 of slack are kept, and there is room for a chunk; a short context is kept completely.
    #[test]
    fn a_layer_with_a_window_keeps_the_window_whatever_the_policy_is() {
        let options = StoreOptions { context: 10_000, types: (Type::F16, Type::F16), reserve: None };
        for policy in ["full", "streaming:sinks=0,window=8,slack=0", "razor:buffer=8,ratio=50,sinks=4"] {
            let mut layout = layout_of(2, 10_000, policy);
            layout.layers[1] = vec![LaneLayout::windowed(vec![0, 1], 64, options)];
            assert_eq!(layout.layers[1][0].capacity, 64 + 8 + 512);
            // A position for each row where the layer is computed, and one on the host.
            assert_eq!(layout.fixed_bytes(), 2 * (64 + 8 + 512) * (128 + 4 + 4));
            assert_eq!(layout.full_bytes(1000), 2 * (1000 + 64) * 128);
            assert_eq!(layout.full_bytes(10), 2 * (10 + 10) * 128);
        }
        let short = LaneLayout::windowed(vec![0], 64, StoreOptions { context: 64, ..options });
        assert_eq!((short.capacity, short.window, short.policy.is_none()), (64, None, true));
    }

    #[test]
    fn a_profile_of_another_shape_is_refused() {
        let spec = ModelShape::find("llama-3.2-1b").expect("a shape").spec();
        let options = StoreOptions { context: 1000, types: (Type::F16, Type::F16), reserve: None };
        let layout = |layers: usize| {
            let shape = HeadShape::new(layers, spec.n_heads, spec.n_kv_heads).expect("a shape");
            let scores = vec![vec![0.5, 0.1]; shape.all_kv_heads()];
            let profile = HeadProfile::uniform(shape, false).with_row_shares(&scores);
            Layout::new(&spec, &"kvzip:capacity=400".parse().expect("a policy"), Some(&profile), options)
        };
        assert_eq!(layout(spec.n_layers).expect("a layout").layers.len(), spec.n_layers);
        for layers in [spec.n_layers - 1, spec.n_layers + 1] {
            assert!(matches!(layout(layers), Err(EngineError::Heads(_))), "{layers}");
        }
    }

    #[test]
    fn a_full_cache_has_every_row_of_every_head() {
        let streaming = layout_of(3, 100, "streaming");
        assert_eq!(streaming.full_bytes(10), 3 * 2 * 10 * 128);
        assert_eq!(streaming.of_layers(1..3).full_bytes(10), 2 * 2 * 10 * 128);
    }
}
