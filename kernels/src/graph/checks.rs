//! What must be true of the tensors and numbers that a node is built of, because its implementations rely on
//! it. A problem is the text of [`ggml::Error::Unfit`].

use std::ops::Range;

use ggml::{Tensor, Type};

use super::{AttentionShape, GraphLane, LaneInputs, MAX_LANES, QueryHeads, row_type};
use crate::attention::MAX_KV_HEADS;

pub(crate) type Check = Result<(), String>;

/// Fails with `problem` unless `fits`.
pub(super) fn ensure(fits: bool, problem: impl FnOnce() -> String) -> Check {
    if fits { Ok(()) } else { Err(problem()) }
}

/// `tensor` is of this type and shape, without gaps.
pub(super) fn is(name: &str, tensor: &Tensor, ty: Type, shape: [usize; 4]) -> Check {
    ensure(tensor.ty() == ty && tensor.shape().0 == shape && is_packed(tensor), || {
        format!("the {name} are {tensor:?}, not a contiguous {ty} {shape:?}")
    })
}

/// `tensor` is a vector of i32 without gaps, of at least `n`.
pub(super) fn is_vector(name: &str, tensor: &Tensor, n: usize) -> Check {
    is(name, tensor, Type::I32, [tensor.dim(0), 1, 1, 1])?;
    ensure(tensor.dim(0) >= n, || format!("there are {} {name}, not {n}", tensor.dim(0)))
}

/// `tensor` has f32 `[head_dim, heads, n]`. The elements of a head are neighbours.
pub(super) fn is_heads(name: &str, tensor: &Tensor, [head_dim, heads, n]: [usize; 3]) -> Check {
    let fits = tensor.ty() == Type::F32
        && tensor.shape().0 == [head_dim, heads, n, 1]
        && tensor.strides()[0] == size_of::<f32>();
    ensure(fits, || format!("the {name} are {tensor:?}, not f32 [{head_dim}, {heads}, {n}]"))
}

/// `tensor` has K or V rows `[head_dim, capacity, heads]` without gaps, of a type that the kernels know.
pub(super) fn is_rows(name: &str, tensor: &Tensor) -> Check {
    let fits = row_type(tensor.ty()).is_some_and(|ty| tensor.dim(0).is_multiple_of(ty.granule()))
        && tensor.dim(3) == 1
        && is_packed(tensor);
    ensure(fits, || format!("the {name} are {tensor:?}, not contiguous rows of a type for keys and values"))
}

/// Whether the strides of all dimensions, also those of extent 1, are those of a tensor without gaps.
fn is_packed(tensor: &Tensor) -> bool {
    let (ty, shape) = (tensor.ty(), tensor.shape().0);
    let row = shape[0] / ty.block_elements() * ty.block_bytes();
    tensor.strides() == [ty.block_bytes(), row, row * shape[1], row * shape[1] * shape[2]]
}

/// The queries are f32 `[head_dim, query heads, tokens]`, for a model of this shape, and its sink logits f32 `[query heads]`.
pub(super) fn check_queries(
    shape: AttentionShape,
    name: &str,
    QueryHeads { q, sink_logits }: QueryHeads,
) -> Check {
    let AttentionShape { head_dim, n_kv_heads, group, softcap, max_alibi_bias: bias, .. } = shape;
    ensure(softcap.is_none_or(|cap| cap > 0.0), || format!("a soft cap of {softcap:?}"))?;
    ensure(bias.is_none_or(|bias| bias > 0.0), || format!("a maximum ALiBi bias of {bias:?}"))?;
    if let Some(sink_logits) = sink_logits {
        is("sink logits", sink_logits, Type::F32, [n_kv_heads.saturating_mul(group), 1, 1, 1])?;
    }
    ensure(n_kv_heads <= MAX_KV_HEADS, || {
        format!("{n_kv_heads} KV heads, at most {MAX_KV_HEADS} are possible")
    })?;
    is_heads(name, q, [head_dim, n_kv_heads.saturating_mul(group), q.dim(2)])
}

/// A lane of a layer with ALiBi has the positions of its rows, and no window.
pub(super) fn check_distances(lane: &GraphLane, shape: AttentionShape) -> Check {
    let has_distances = lane.positions.is_some() && lane.window.is_none();
    ensure(shape.max_alibi_bias.is_none() || has_distances, || {
        "a lane of a layer with ALiBi has no positions of rows, or a window".into()
    })
}

/// A lane's tensors fit each other, and it has heads of a model with `n_kv_heads` KV heads.
pub(super) fn check_lane(lane: &GraphLane, n_kv_heads: usize) -> Check {
    is_rows("keys", &lane.k)?;
    is_rows("values", &lane.v)?;
    let [head_dim, capacity, heads, _] = lane.k.shape().0;
    let v = lane.v.shape().0;
    ensure(v == [head_dim, capacity, heads, 1], || {
        format!("the values are {:?}, the keys {:?}", lane.v, lane.k)
    })?;
    ensure(lane.kv_heads.len() == heads, || {
        format!("the keys {:?} are those of {} KV heads", lane.k, lane.kv_heads.len())
    })?;
    ensure((1..=capacity).contains(&lane.reach), || format!("{} of {capacity} rows are read", lane.reach))?;
    check_heads("KV head", &lane.kv_heads, n_kv_heads)?;
    lane.accumulated.iter().try_for_each(|accumulated| check_accumulated(lane, accumulated))?;
    ensure(lane.window.is_none_or(|tokens| tokens > 0 && !lane.compensated), || {
        format!("a window of {:?} tokens, compensated: {}", lane.window, lane.compensated)
    })?;
    let Some(positions) = &lane.positions else { return Ok(()) };
    is_vector("positions of rows", &positions.all, positions.first.saturating_add(capacity * heads))?;
    ensure(lane.reach == capacity, || "a lane with positions of rows is not read to its end".into())?;
    ensure(!lane.compensated, || "a lane with positions of rows is compensated".into())
}

/// There is a number of accumulated attention for each of a lane's rows.
pub(super) fn check_accumulated(lane: &GraphLane, accumulated: &Tensor) -> Check {
    let [_, capacity, heads, _] = lane.k.shape().0;
    is("sums of accumulated attention", accumulated, Type::F32, [capacity, heads, 1, 1])
}

/// A layer's lanes fit each other, and each has heads of its own of a model with `n_kv_heads` KV heads.
pub(super) fn check_lanes(lanes: &[GraphLane], head_dim: usize, n_kv_heads: usize) -> Check {
    let count = lanes.len();
    ensure((1..=MAX_LANES).contains(&count), || format!("{count} lanes, not 1 to {MAX_LANES}"))?;
    for lane in lanes {
        check_lane(lane, n_kv_heads)?;
        ensure(lane.k.dim(0) == head_dim, || format!("the keys are {:?}, heads have {head_dim}", lane.k))?;
    }
    let heads: Vec<u32> = lanes.iter().flat_map(|lane| lane.kv_heads.iter().copied()).collect();
    check_heads("KV head", &heads, n_kv_heads)?;
    let first = lanes[0].positions.as_ref().map(|positions| &positions.all);
    let alike = lanes.iter().all(|lane| match (&lane.positions, first) {
        (Some(positions), Some(first)) => positions.all.is_same(first),
        (own, first) => own.is_none() && first.is_none(),
    });
    ensure(alike, || "the lanes do not have positions of rows in one tensor".into())?;
    ensure(lanes.iter().all(|lane| lane.window == lanes[0].window), || "the lanes have unlike windows".into())
}

/// The inputs have a column of numbers for the layer.
pub(super) fn check_inputs(inputs: &LaneInputs) -> Check {
    let layers = inputs.rows.dim(1);
    is("numbers of live rows", &inputs.rows, Type::I32, [MAX_LANES, layers, 1, 1])?;
    is("log-weights", &inputs.log_weights, Type::F32, [MAX_LANES, layers, 1, 1])?;
    ensure(inputs.layer < layers, || format!("layer {} of {layers}", inputs.layer))
}

/// The heads are below `count`, and none is given twice.
pub(super) fn check_heads(name: &str, heads: &[u32], count: usize) -> Check {
    let mut sorted = heads.to_vec();
    sorted.sort_unstable();
    let fits = sorted.last().is_none_or(|last| (*last as usize) < count);
    ensure(fits && sorted.windows(2).all(|pair| pair[0] < pair[1]), || {
        format!("{name}s {heads:?} of {count}, each at most once")
    })
}

/// All rows are in the range.
pub(super) fn check_rows<'a>(rows: impl IntoIterator<Item = &'a u32>, range: Range<usize>) -> Check {
    match rows.into_iter().find(|row| !range.contains(&(**row as usize))) {
        Some(row) => Err(format!("row {row} is not in {range:?}")),
        None => Ok(()),
    }
}
