//! How many rows every (layer, KV head) gets, and the bytes that follow: plain arithmetic, shared by the plan and the
//! store, so that what is predicted is what is allocated.

use super::policy::recent::Recent;
use super::policy::{Basis, Event, Moment, Needs, Policy, PolicyChoice};
use crate::heads::HeadProfile;
use crate::{EngineError, Hint, alibi};
use ggml::{Context, Type};
use kernels::RowType;
use kernels::graph::{AttentionShape, MAX_LANES, RowPositions, tensor_type};
use models::spec::{ModelSpec, PositionEncoding};
use std::ops::Range;
use std::rc::Rc;

/// Rows of a bounded head that left since the turn began and are kept aside, so that the turn can be taken back.
pub const ASIDE_ROWS: usize = 1024;

/// Some KV heads of a layer that keep equally many rows.
#[derive(Clone, Debug)]
pub struct LaneLayout {
    /// KV heads, ascending.
    pub kv_heads: Vec<u32>,
    /// Rows allocated for each, the compensation entry included.
    pub capacity: usize,
    /// What they keep; `None` for everything.
    pub policy: Option<Rc<dyn Policy>>,
    /// Whether row 0 is a compensation entry.
    pub compensated: bool,
}

impl LaneLayout {
    /// Heads that keep everything.
    fn full(kv_heads: Vec<u32>, context: usize) -> LaneLayout {
        LaneLayout { kv_heads, capacity: context, policy: None, compensated: false }
    }

    /// Heads that keep what a policy says.
    fn bounded(kv_heads: Vec<u32>, policy: Rc<dyn Policy>, compensated: bool, room: Room) -> LaneLayout {
        let context = room.context;
        let budget = policy.budget(context).min(context);
        let reserve = room.reserve.unwrap_or((budget / 8).clamp(32, 512));
        let rows = budget + reserve.max(policy.slack(context) + 1);
        let capacity = rows.min(context) + usize::from(compensated);
        LaneLayout { kv_heads, capacity, policy: Some(policy), compensated }
    }

    /// What the lane's policy needs of the attention.
    pub fn needs(&self) -> Needs {
        self.policy.as_ref().map_or_else(Needs::default, |policy| policy.needs())
    }
}

/// What a store is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Room {
    /// Tokens a session may see.
    pub context: usize,
    /// Element types of keys and values.
    pub types: (Type, Type),
    /// Rows a bounded head has room for beyond its budget, so that several tokens can be computed at once; `None` takes an
    /// eighth of the budget, 32 to 512.
    pub reserve: Option<usize>,
}

/// The shape of a store.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Heads of the model.
    pub heads: AttentionShape,
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
    /// The layout of `spec` under `policy`. `profile` must be given for policies that use one; where windows follow from the
    /// weights ([`PolicyChoice::scopes`]), it must say how far heads see.
    pub fn new(
        spec: &ModelSpec,
        policy: &PolicyChoice,
        profile: Option<&HeadProfile>,
        room: Room,
    ) -> Result<Layout, EngineError> {
        policy.check(spec)?;
        let profile = if policy.uses_profile() {
            Some(profile.ok_or_else(|| EngineError::Policy {
                given: policy.to_string(),
                reason: "it needs a head profile to know the retrieval heads".into(),
                hint: Hint::GiveHeadProfile,
            })?)
        } else {
            None
        };
        let heads = AttentionShape {
            head_dim: spec.head_dim,
            n_kv_heads: spec.n_kv_heads,
            group: spec.queries_per_kv_head(),
            scale: spec.attention_scale,
        };
        let is_full =
            |layer: usize, head: usize| profile.is_some_and(|profile| profile.is_retrieval(layer, head));
        let mut layout = Self::from_flags((spec.n_layers, heads), policy, is_full, room)?;
        layout.alibi = spec.position_encoding == PositionEncoding::Alibi;
        if policy.scopes(spec).is_some() {
            for (layer, lanes) in layout.layers.iter_mut().enumerate() {
                let scopes = profile.and_then(|profile| profile.scopes(layer));
                let scopes = scopes.ok_or_else(|| EngineError::Policy {
                    given: policy.to_string(),
                    reason: "on a model with ALiBi its windows follow from the weights, and the head profile has none"
                        .into(),
                    hint: Hint::OmitHeadProfile,
                })?;
                *lanes = windows(scopes, room);
            }
        }
        // A mean key has no position, so that no entry stands for the rows that left.
        for lane in layout.layers.iter_mut().flatten().filter(|lane| lane.compensated && layout.alibi) {
            lane.compensated = false;
            lane.capacity -= 1;
        }
        Ok(layout)
    }

    /// The layout of so many layers of `heads` where `is_full` names the (layer, KV head) that keep everything.
    pub fn from_flags(
        (layers, heads): (usize, AttentionShape),
        choice: &PolicyChoice,
        is_full: impl Fn(usize, usize) -> bool,
        room: Room,
    ) -> Result<Layout, EngineError> {
        let Room { context, types: (k_type, v_type), .. } = room;
        for (rows, ty) in [("keys", k_type), ("values", v_type)] {
            let Some(row) = kernels::graph::row_type(ty) else {
                return Err(EngineError::Setting {
                    what: format!("{rows} of type {ty}"),
                    reason: "the KV store does not support this type".into(),
                    hint: Hint::CacheTypes(RowType::ALL.map(tensor_type).to_vec()),
                });
            };
            let (granule, head_dim) = (row.granule(), heads.head_dim);
            if !head_dim.is_multiple_of(granule) {
                return Err(EngineError::Setting {
                    what: format!("{rows} of type {ty}"),
                    reason: format!(
                        "the type stores blocks of {granule} elements, but the model's heads have {head_dim}"
                    ),
                    hint: Hint::CacheTypes(vec![Type::F16, Type::F32]),
                });
            }
        }
        let (policy, compensated) = (choice.policy(), choice.is_compensated());
        if let Some(policy) = &policy {
            policy.check(context).map_err(|reason| EngineError::Policy {
                given: choice.to_string(),
                reason,
                hint: Hint::SmallerParameters,
            })?;
        }
        let layers = (0..layers)
            .map(|layer| {
                let policy = policy.as_ref().filter(|policy| !policy.spares(layer));
                let bounded = |head: &u32| policy.is_some() && !is_full(layer, *head as usize);
                let (forgetful, full): (Vec<u32>, Vec<u32>) = (0..heads.n_kv_heads as u32).partition(bounded);
                let mut lanes = Vec::new();
                if !full.is_empty() {
                    lanes.push(LaneLayout::full(full, context));
                }
                if let (Some(policy), false) = (policy, forgetful.is_empty()) {
                    lanes.push(LaneLayout::bounded(forgetful, policy.clone(), compensated, room));
                }
                lanes
            })
            .collect();
        Ok(Layout { heads, context, k_type, v_type, alibi: false, layers })
    }

    /// Bytes of one head's row of K and V together, its position included where it lies beside them.
    pub fn row_bytes(&self) -> usize {
        let position = if self.alibi { size_of::<i32>() } else { 0 };
        self.k_type.row_bytes(self.heads.head_dim) + self.v_type.row_bytes(self.heads.head_dim) + position
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

    /// Queries of how many tokens are kept for a layer's policy.
    pub fn queries(&self, layer: usize) -> usize {
        self.layers[layer].iter().map(|lane| lane.needs().queries).max().unwrap_or(0)
    }

    /// Bytes of the store: rows, running sums, gathered attention, kept queries, and the host's record of positions.
    pub fn bytes(&self) -> usize {
        let query = 4 * self.heads.head_dim * self.heads.n_kv_heads * self.heads.group;
        let queries: usize = (0..self.layers.len()).map(|layer| self.queries(layer) * query).sum();
        queries + self.layers.iter().flatten().map(|lane| self.lane_bytes(lane)).sum::<usize>()
    }

    fn lane_bytes(&self, lane: &LaneLayout) -> usize {
        let heads = lane.kv_heads.len();
        let sums = if lane.compensated { 2 * 4 * self.heads.head_dim * heads } else { 0 };
        let gathered = if lane.needs().gathered.is_some() { 4 * lane.capacity * heads } else { 0 };
        let positions = if lane.policy.is_some() { 4 * lane.capacity * heads } else { 0 };
        heads * lane.capacity * self.row_bytes() + sums + gathered + positions
    }

    /// The same for some of the layers only.
    pub fn part(&self, layers: Range<usize>) -> Layout {
        Layout { layers: self.layers[layers].to_vec(), ..self.clone() }
    }

    /// Of [`Layout::bytes`] those that are on the host wherever the rows are: the positions of the rows.
    pub fn host_bytes(&self) -> usize {
        let lanes = self.layers.iter().flatten().filter(|lane| lane.policy.is_some());
        lanes.map(|lane| 4 * lane.capacity * lane.kv_heads.len()).sum()
    }

    /// Bytes that a turn may take beside the store so that it can be taken back: rows that left in it (at most
    /// [`ASIDE_ROWS`] a head), and what was gathered when it began and when its answer began.
    pub fn aside_bytes(&self) -> usize {
        let lanes = self.layers.iter().flatten().filter(|lane| lane.policy.is_some());
        lanes
            .map(|lane| {
                let gathered = if lane.needs().gathered.is_some() { 2 * 4 * lane.capacity } else { 0 };
                lane.kv_heads.len() * (ASIDE_ROWS.min(self.context) * self.row_bytes() + gathered)
            })
            .sum()
    }

    /// Bytes of a cache that keeps all of `tokens` tokens.
    pub fn full_bytes(&self, tokens: usize) -> usize {
        self.layers.len() * self.heads.n_kv_heads * tokens * self.row_bytes()
    }

    /// Bytes of the numbers by which the rows of a text of `tokens` tokens are scored, in the layer where they are most.
    fn scoring_bytes(&self, tokens: usize) -> usize {
        let lane_bytes = |lane: &LaneLayout| {
            let moment = Moment {
                event: Event::Text,
                forced: false,
                seen: tokens,
                live: tokens,
                done: 0,
                of_text: 0,
                context: self.context,
            };
            let cut = lane.policy.as_ref().and_then(|policy| policy.cut(&moment)).unwrap_or_default();
            let numbers_of = |basis: &Basis| match basis {
                Basis::Key(_) | Basis::Value(_) => 1,
                Basis::Gathered => 0,
                Basis::Window { .. } => self.heads.group,
            };
            let numbers: usize = cut.scored.iter().flat_map(|scored| &scored.by).map(numbers_of).sum();
            4 * tokens * numbers * lane.kv_heads.len()
        };
        self.layers.iter().map(|lanes| lanes.iter().map(lane_bytes).sum()).max().unwrap_or(0)
    }

    /// Whether rows gather attention in some lane.
    pub fn gathers(&self) -> bool {
        self.layers.iter().flatten().any(|lane| lane.needs().gathered.is_some())
    }

    /// Bytes of one layer's complete K and V for `tokens` tokens, of what they gather, of the numbers that policies score them
    /// by, and of the lists of rows that stay and leave, which exact prefill needs for layers with bounded heads.
    pub fn scratch_bytes(&self, tokens: usize) -> usize {
        let gathered = if self.gathers() { 4 } else { 0 } + size_of::<i32>();
        match self.layers.iter().flatten().any(|lane| lane.policy.is_some()) {
            true => {
                self.heads.n_kv_heads * tokens * (self.row_bytes() + gathered) + self.scoring_bytes(tokens)
            }
            false => 0,
        }
    }
}

/// The lanes of a layer whose KV heads see so many tokens: one for each class of windows, the longest first.
fn windows(scopes: &[f32], room: Room) -> Vec<LaneLayout> {
    let scopes: Vec<f64> = scopes.iter().map(|scope| f64::from(*scope)).collect();
    let windows = alibi::classes(&scopes, room.context, MAX_LANES);
    let mut classes = windows.clone();
    classes.sort_unstable_by(|a, b| b.cmp(a));
    classes.dedup();
    let lane = |window: usize| {
        let kv_heads = (0..).zip(&windows).filter(|(_, of_head)| **of_head == window).map(|(head, _)| head);
        let policy = Recent { sinks: 0, window, share: 0.0, slack: None };
        match window < room.context {
            true => LaneLayout::bounded(kv_heads.collect(), Rc::new(policy), false, room),
            false => LaneLayout::full(kv_heads.collect(), room.context),
        }
    };
    classes.into_iter().map(lane).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two layers of two KV heads of 32 elements, each read by two query heads; f16 rows: 128 bytes for K and V.
    fn layout(policy: &str) -> Layout {
        let heads = AttentionShape { head_dim: 32, n_kv_heads: 2, group: 2, scale: 1.0 };
        let room = Room { context: 100, types: (Type::F16, Type::F16), reserve: None };
        let choice = policy.parse().expect(policy);
        Layout::from_flags((2, heads), &choice, |layer, head| layer == 0 && head == 1, room)
            .expect("a layout")
    }

    #[test]
    fn bytes_are_what_can_be_counted_by_hand() {
        let full = layout("full");
        assert_eq!((full.bytes(), full.full_bytes(100)), (4 * 100 * 128, 4 * 100 * 128));
        assert_eq!((full.aside_bytes(), full.scratch_bytes(50)), (0, 0));

        // Room for 10 rows and 32 more; a number and a position for each. One head of four keeps everything.
        let h2o = layout("h2o:heavy=5,recent=5,heads=on");
        assert_eq!(h2o.layers[1][0].capacity, 42);
        assert_eq!(h2o.bytes(), 100 * 128 + 3 * 42 * (128 + 4 + 4));
        assert_eq!(h2o.aside_bytes(), 3 * (100 * 128 + 2 * 4 * 42));
        assert_eq!(h2o.scratch_bytes(50), 2 * 50 * (128 + 4 + 4));

        // Queries of 8 tokens and 4 heads in each layer; while the text is scored, two numbers a row and bounded head.
        let snapkv = layout("snapkv:window=8,capacity=16,slack=4");
        assert_eq!(snapkv.layers[1][0].capacity, 48);
        assert_eq!(snapkv.bytes(), 100 * 128 + 3 * 48 * (128 + 4) + 2 * 4 * 32 * 4 * 8);
        assert_eq!(snapkv.aside_bytes(), 3 * 100 * 128);
        assert_eq!(snapkv.scratch_bytes(50), 2 * 50 * (128 + 4) + 2 * 4 * 50 * 2);

        // A row for the compensation entry, and its two sums.
        let razor = layout("razor:buffer=8,ratio=50,sinks=4");
        assert_eq!(razor.layers[1][0].capacity, 4 + 8 + 32 + 1);
        assert_eq!(razor.bytes(), 100 * 128 + 3 * (45 * (128 + 4) + 2 * 4 * 32));

        // Slack beyond the reserve has room too, and no head more than the session's tokens.
        assert_eq!(layout("streaming:sinks=4,window=20,slack=50").layers[1][0].capacity, 4 + 20 + 51);
        assert_eq!(layout("streaming:sinks=4,window=90").layers[1][0].capacity, 100);
    }
}
