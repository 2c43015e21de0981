//! The operations on a layer's lanes, and the kernels as nodes of a ggml graph. An [`Operation`](crate::Operation) is a
//! description of its operands. A [`Form`](crate::Form) builds its nodes. Those here have two implementations: one for the
//! CPU and one that launches device kernels. [`portable`](crate::portable) has nodes of ggml's own.
//!
//! The tensors of a lane are operands of the nodes. What changes from step to step comes in two small input
//! tensors ([`LaneInputs`]): the number of live rows and the log-weight of the compensation entry. So a graph
//! that is built once serves every step. Only this module turns the memory of tensors into slices.
//!
//! Tensors that do not fit are mistakes, which [`Context::graph`](ggml::Context::graph) returns. Inputs that
//! do not fit, such as more live rows than a lane has room for, fail the computation on the CPU; devices
//! ignore rows that are not there.

mod append;
mod attend;
mod checks;
mod evict;
mod launch;
mod lists;
mod operands;
mod product;
mod progress;
mod scores;

use std::sync::Arc;

pub use append::Append;
pub use attend::{Attend, RowGroups, Split, max_partials_tokens};
pub use evict::{EvictRows, Eviction, RowSelection, SelectRows};
use ggml::{Tensor, Type};
pub use product::{multiplies, multiplies_columns, multiplies_few, multiplies_many, multiply, multiply_by};
pub use scores::{
    AccumulateAttention, AccumulatingLane, Accumulation, Combine, Gain, MeasureRows, PredictScores, RowLists,
    SeenPart, StoreQueries, WeightFactors, WindowAttention, WindowQueries, predictor_len,
};

use crate::attention::alibi_slopes;
use crate::{RowType, device};

/// Maximum number of lanes of an attention call: a node has ten operands.
pub const MAX_LANES: usize = device::MAX_LANES;
/// Maximum number of KV heads of a layer on devices.
pub const MAX_DEVICE_HEADS: usize = device::MAX_KV_HEADS;
/// Maximum number of elements of a head on devices.
pub const MAX_DEVICE_HEAD_DIM: usize = device::MAX_HEAD_DIM;

/// The K and V tensors of some KV heads of one layer.
#[derive(Clone)]
pub struct GraphLane {
    /// Keys after RoPE `[head_dim, capacity, heads]`.
    pub k: Tensor,
    /// Values `[head_dim, capacity, heads]`. The tensor of the keys, where values are the first elements of keys
    /// (latent attention).
    pub v: Tensor,
    /// `[heads]`: the KV head of the model of each head.
    pub kv_heads: Arc<[u32]>,
    /// Whether row 0 is the compensation entry.
    pub compensated: bool,
    /// Accumulated attention of each row, `[capacity, heads]` f32, where a policy needs it (see
    /// [`AccumulateAttention`]); or predicted scores (see [`PredictScores`]).
    pub accumulated: Option<Tensor>,
    /// Positions of the rows, for models with ALiBi and for windows. Either all lanes of a layer have them or none.
    /// Lanes with positions are not compensated. Layers with ALiBi need them.
    pub positions: Option<RowPositions>,
    /// Tokens that a query sees, its own included, in a layer with a sliding window; the same for all lanes of the
    /// layer. Without positions the rows must lie in order. Layers with ALiBi have no windows.
    pub window: Option<usize>,
    /// From 1 to the capacity: rows that the portable form reads, which reads rows that are not live, too. There may be no more
    /// live rows then, new ones included. All are read where they have positions. Own kernels know how many are live.
    pub reach: usize,
}

impl GraphLane {
    /// A lane of a layer without a window: not compensated, without accumulated attention and positions. All rows are read.
    pub fn new(k: Tensor, v: Tensor, kv_heads: impl Into<Arc<[u32]>>) -> GraphLane {
        let (kv_heads, reach) = (kv_heads.into(), k.dim(1));
        GraphLane {
            k,
            v,
            kv_heads,
            compensated: false,
            accumulated: None,
            positions: None,
            window: None,
            reach,
        }
    }

    /// Whether values are in the rows of keys.
    pub fn has_values_in_keys(&self) -> bool {
        self.k.is_same(&self.v)
    }

    /// Keys and values; the keys only, where values are in their rows.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        [Some(&self.k), (!self.has_values_in_keys()).then_some(&self.v)].into_iter().flatten()
    }
}

/// Positions of the rows of a lane.
#[derive(Clone)]
pub struct RowPositions {
    /// Positions of all lanes of the layer, i32. They are in one tensor because a node has ten operands.
    pub all: Tensor,
    /// Index of the first position of this lane, whose positions are `[capacity, heads]`.
    pub first: usize,
}

/// Shapes and scale of a layer's attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionShape {
    /// Elements of a head.
    pub head_dim: usize,
    /// KV heads.
    pub n_kv_heads: usize,
    /// Query heads per KV head.
    pub group: usize,
    /// Factor of q·k.
    pub scale: f32,
    /// The soft cap of logits, above 0: a logit x becomes cap * tanh(x / cap).
    pub softcap: Option<f32>,
    /// The maximum bias of ALiBi, above 0, in layers that have it.
    pub max_alibi_bias: Option<f32>,
}

/// The queries of a layer, and what its query heads have beside.
#[derive(Clone, Copy)]
pub struct QueryHeads<'a> {
    /// `[head_dim, heads, n_q]` f32.
    pub q: &'a Tensor,
    /// `[heads]` f32: a learned logit without a row, which each query adds to its softmax (gpt-oss).
    pub sink_logits: Option<&'a Tensor>,
}

impl<'a> From<&'a Tensor> for QueryHeads<'a> {
    fn from(q: &'a Tensor) -> Self {
        QueryHeads { q, sink_logits: None }
    }
}

impl AttentionShape {
    /// The shape of most models: logits are q·k / sqrt(head_dim), without a soft cap or ALiBi.
    pub fn plain(n_heads: usize, n_kv_heads: usize, head_dim: usize) -> AttentionShape {
        AttentionShape {
            head_dim,
            n_kv_heads,
            group: n_heads / n_kv_heads.max(1),
            scale: 1.0 / (head_dim as f32).sqrt(),
            softcap: None,
            max_alibi_bias: None,
        }
    }

    /// Query heads.
    fn n_heads(&self) -> usize {
        self.n_kv_heads * self.group
    }

    /// `[n_heads]`: the ALiBi slopes, in layers that have them.
    pub(crate) fn alibi_slopes(&self) -> Option<Arc<[f32]>> {
        let slopes = alibi_slopes(self.n_heads(), self.max_alibi_bias?);
        Some(slopes.iter().map(|slope| *slope as f32).collect())
    }
}

/// The state of a layer's lanes: input tensors that are filled before each computation.
#[derive(Clone)]
pub struct LaneInputs {
    /// Live rows before this step's rows are written, `[MAX_LANES, layers]` i32.
    pub rows: Tensor,
    /// Log-weights of the compensation entries, `[MAX_LANES, layers]` f32; `-inf` where there is no entry
    /// yet.
    pub log_weights: Tensor,
    /// Positions of the tokens whose rows are written, `[n]` i32. Only read where something depends on
    /// positions.
    pub positions: Tensor,
    /// The layer's column of `rows` and `log_weights`.
    pub layer: usize,
}

/// The rows that [`Append`] has written in this graph.
#[derive(Clone, Copy)]
pub struct Appended<'a> {
    /// The node that [`Append`] returned. Nodes that read the new rows have it as an operand, so that they
    /// run after it.
    pub node: &'a Tensor,
    /// Rows written to every KV head: one per token.
    pub rows: usize,
}

/// The row type of a tensor type, if the kernels support it.
pub fn row_type(ty: Type) -> Option<RowType> {
    RowType::from_name(ty.name())
}

/// The tensor type of a row type.
pub fn tensor_type(ty: RowType) -> Type {
    let mut types = (0..u32::from(u8::MAX)).filter_map(Type::from_id);
    types.find(|candidate| candidate.name() == ty.name()).expect("ggml has all row types")
}

/// What the implementations know of a lane beside its tensors.
#[derive(Clone)]
struct LaneHeads {
    kv_heads: Arc<[u32]>,
    compensated: bool,
    capacity: usize,
    /// Index of the lane's first position, where lanes have positions.
    first_position: usize,
    values_in_keys: bool,
}

impl LaneHeads {
    fn of(lane: &GraphLane) -> LaneHeads {
        LaneHeads {
            kv_heads: lane.kv_heads.clone(),
            compensated: lane.compensated,
            capacity: lane.k.dim(1),
            first_position: lane.positions.as_ref().map_or(0, |positions| positions.first),
            values_in_keys: lane.has_values_in_keys(),
        }
    }
}

/// The tensor with the positions of all lanes of a layer, where they have any.
fn row_positions(lanes: &[GraphLane]) -> Option<&Tensor> {
    Some(&lanes.first()?.positions.as_ref()?.all)
}

/// Rows of a lane after `added` rows are written behind the `live` ones; an error if there is no room for
/// them.
fn rows_after(live: i32, added: usize, capacity: usize) -> Result<usize, String> {
    let rows = usize::try_from(live).ok().map(|live| live.saturating_add(added));
    rows.filter(|rows| *rows <= capacity)
        .ok_or_else(|| format!("{live} live and {added} new rows do not fit a lane of {capacity} rows"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_types_and_tensor_types_map_to_each_other() {
        for ty in RowType::ALL {
            assert_eq!(row_type(tensor_type(ty)), Some(ty));
            assert_eq!(tensor_type(ty).block_elements().max(8), ty.granule());
            assert_eq!(tensor_type(ty).row_bytes(96), ty.row_bytes(96));
        }
        assert_eq!(row_type(Type::I32), None);
    }

    #[test]
    fn ggml_reads_the_same_numbers_of_a_row() {
        let x: Vec<f32> = (0..96).map(|i| (i as f32 * 0.7).sin() * (i % 13) as f32).collect();
        for ty in RowType::ALL {
            let mut row = vec![0; ty.row_bytes(x.len())];
            ty.encode(&x, &mut row);
            let (mut ours, mut ggmls) = (vec![0.0; x.len()], vec![0.0; x.len()]);
            ty.decode(&row, &mut ours);
            assert!(tensor_type(ty).dequantize(&row, &mut ggmls));
            assert_eq!(ours, ggmls, "{}", ty.name());
        }
    }
}
