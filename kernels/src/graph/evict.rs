//! Nodes that take rows out of a lane, and that fill an empty lane from complete rows.

use std::ptr::null_mut;
use std::slice::{from_raw_parts_mut, from_ref};

use ggml::{Context, CustomTask, DeviceTask, Tensor, Type};

use super::checks::{Check, check_lane, check_rows, ensure, is, is_rows};
use super::launch::device_type;
use super::lists::{self, Lists};
use super::operands::{LaneAt, ListsAt, Node, Operands, TensorAt, Which, device_lanes};
use super::{GraphLane, LaneHeads, Split, row_type};
use crate::device::{self, INVALID_VALUE};
use crate::form::Operation;
use crate::portable;
use crate::rows::{Moves, add_rows, move_rows, write_mean};

/// Rows to evict from a lane: the same number from every head.
#[derive(Clone, Debug)]
pub struct Eviction {
    /// Per head: the evicted rows, ascending.
    pub evicted: Vec<Vec<u32>>,
    /// Per head: how the holes are filled (see [`fill_holes`](crate::rows::fill_holes)).
    pub moves: Vec<Moves>,
    /// How many rows the compensation entry stands for afterwards.
    pub total_evicted: usize,
    /// Whether the node returns the bytes of the evicted rows.
    pub return_rows: bool,
}

/// Evicts rows from a lane. In a compensated lane the evicted rows are added to the sums, and their mean becomes row 0.
/// With [`Eviction::return_rows`] the result is the bytes of the evicted rows: first K, then V where it is apart, head after
/// head. Otherwise the result has no data.
pub struct EvictRows<'a> {
    /// The lane.
    pub lane: &'a GraphLane,
    /// `[head_dim, heads, 2]` f32: the sums of the rows that were evicted, K, then V. A compensated lane has them.
    pub sums: Option<&'a Tensor>,
    /// The rows to evict.
    pub eviction: Eviction,
}

impl Operation for EvictRows<'_> {
    const NAME: &'static str = "evict_rows";

    fn check(&self) -> Check {
        check_eviction(self.lane, self.sums, &self.eviction)
    }

    fn own(self, ctx: &Context, _: Split) -> Tensor {
        evict_rows(ctx, self)
    }

    fn portable(self, ctx: &Context) -> Tensor {
        portable::evict_rows(ctx, self)
    }
}

/// The node of own kernels.
fn evict_rows(ctx: &Context, EvictRows { lane, sums, eviction }: EvictRows) -> Tensor {
    let Eviction { evicted, moves, total_evicted, return_rows } = eviction;
    let (heads, count) = (evicted.len(), evicted[0].len());
    let k_bytes = heads * count * lane.k.strides()[1];
    let bytes = lane.tensors().map(|tensor| heads * count * tensor.strides()[1]).sum::<usize>();
    let moves: Vec<Vec<u32>> =
        moves.iter().map(|moves| moves.iter().flat_map(|(to, from)| [*to, *from]).collect()).collect();
    let lists = lists::pack(ctx, evicted.iter().chain(&moves).map(Vec::as_slice));
    let mut operands = Operands::default();
    let node = EvictRowsNode {
        lane: operands.write_lane(lane),
        lists: operands.lists(&lists, 2 * heads),
        sums: sums.map(|sums| operands.write(sums)),
        accumulated: lane.accumulated.as_ref().map(|accumulated| operands.write(accumulated)),
        count,
        k_bytes,
        total_evicted,
        return_rows,
    };
    if return_rows {
        operands.node(ctx, Type::I8, [bytes], node).output()
    } else {
        operands.node(ctx, Type::F32, [1], node)
    }
}

/// The node of [`EvictRows`].
struct EvictRowsNode {
    lane: LaneAt,
    /// Per head the evicted rows, then per head the moves: pairs (to, from).
    lists: ListsAt,
    /// `[head_dim, heads, 2]`
    sums: Option<TensorAt>,
    /// `[capacity, heads]`
    accumulated: Option<TensorAt>,
    /// Rows that each head loses.
    count: usize,
    /// Bytes of the evicted keys of all heads.
    k_bytes: usize,
    /// Rows that the compensation entry stands for afterwards.
    total_evicted: usize,
    /// Whether the result is the bytes of the evicted rows.
    return_rows: bool,
}

impl Node for EvictRowsNode {
    fn on_cpu(&self, task: &CustomTask) {
        let heads = self.lane.heads.kv_heads.len();
        let lists = self.lists.read(task);
        let tensors = self.lane.tensors();
        for item in (task.thread..tensors.len() * heads).step_by(task.threads) {
            self.evict_head(task, &lists, tensors[item / heads], item % heads);
        }
    }

    fn on_device(&self, task: &DeviceTask) -> Result<(), i32> {
        let lanes = device_lanes(task, from_ref(&self.lane))?;
        let address = |operand: Option<TensorAt>| operand.map_or(null_mut(), |at| at.of(task).data.cast());
        let call = device::EvictCall {
            lane: lanes.lanes[0],
            lists: self.lists.address(task),
            sums: if self.lane.heads.compensated { address(self.sums) } else { null_mut() },
            accumulated: address(self.accumulated),
            evicted: if self.return_rows { task.result().data } else { null_mut() },
            head_dim: lanes.head_dim,
            k_type: lanes.k_type,
            v_type: lanes.v_type,
            total_evicted: self.total_evicted as i32,
        };
        // SAFETY: the addresses are those of the operands, whose shapes are those of the call.
        unsafe { device::evict(task, &call) }
    }
}

impl EvictRowsNode {
    /// Evicts the keys or the values of one head. With the keys go the numbers of accumulated attention.
    fn evict_head(&self, task: &CustomTask, lists: &Lists, which: Which, head: usize) {
        let (heads, at) = (self.lane.heads.kv_heads.len(), self.lane.get(which));
        let tensor = at.of(task);
        let (ty, row_bytes) = (row_type(tensor.ty).expect("lanes have row types"), tensor.strides[1]);
        // SAFETY: each (tensor, head) is used by one thread; heads are contiguous.
        let rows = unsafe { at.head_rows(task, head) };
        if self.return_rows {
            let first = if which == Which::K { 0 } else { self.k_bytes };
            // SAFETY: the result has the bytes of all evicted rows; this head's part of this tensor is written by
            // this thread only.
            let out = unsafe {
                let at = task.result().data.add(first + head * self.count * row_bytes);
                from_raw_parts_mut(at, self.count * row_bytes)
            };
            for (row, out) in lists.get(head).zip(out.chunks_exact_mut(row_bytes)) {
                out.copy_from_slice(&rows[row as usize * row_bytes..][..row_bytes]);
            }
        }
        if let Some(sums) = self.sums.filter(|_| self.lane.heads.compensated) {
            // SAFETY: as above, [head_dim, heads, 2] f32.
            let sum = unsafe { sums.head_sum(task, head, which as usize) };
            add_rows(rows, ty, lists.get(head), sum);
            write_mean(rows, ty, sum, self.total_evicted);
        }
        let pairs = lists.get(heads + head);
        let moves: Moves = pairs.clone().step_by(2).zip(pairs.skip(1).step_by(2)).collect();
        move_rows(rows, row_bytes, &moves);
        if let (Some(accumulated), Which::K) = (self.accumulated, which) {
            // SAFETY: each head's column is used by one thread.
            let column = unsafe { accumulated.column(task, head) };
            for (to, from) in moves {
                column[to as usize] = column[from as usize];
            }
        }
    }
}

fn check_eviction(lane: &GraphLane, sums: Option<&Tensor>, eviction: &Eviction) -> Check {
    check_lane(lane, usize::MAX)?;
    let [_, capacity, heads, _] = lane.k.shape().0;
    let Eviction { evicted, moves, .. } = eviction;
    let fits = evicted.len() == heads && moves.len() == heads;
    ensure(fits, || format!("rows of {} and moves in {} heads of {heads}", evicted.len(), moves.len()))?;
    let count = evicted[0].len();
    let alike = evicted.iter().all(|rows| rows.len() == count);
    ensure(alike, || "not every head loses as many rows".into())?;
    check_rows(evicted.iter().flatten(), 0..capacity)?;
    check_rows(moves.iter().flatten().flat_map(|(to, from)| [to, from]), 0..capacity)?;
    check_sums(lane, sums)
}

/// The sums are those of a lane's heads. A compensated lane has them.
fn check_sums(lane: &GraphLane, sums: Option<&Tensor>) -> Check {
    let [head_dim, _, heads, _] = lane.k.shape().0;
    match sums {
        Some(sums) => is("sums of evicted rows", sums, Type::F32, [head_dim, heads, 2, 1]),
        None => ensure(!lane.compensated, || "a compensated lane has no sums of evicted rows".into()),
    }
}

/// The rows that a lane takes from a layer's complete rows.
#[derive(Clone, Debug)]
pub struct RowSelection {
    /// Per head of the lane: the rows to keep, in the order in which they are stored.
    pub kept: Vec<Vec<u32>>,
    /// Per head: the other rows, which the compensation entry stands for.
    pub evicted: Vec<Vec<u32>>,
}

/// Fills an empty lane from complete rows. The result has no data.
pub struct SelectRows<'a> {
    /// `[head_dim, rows, n_kv_heads]`: complete keys, of the lane's type.
    pub k: &'a Tensor,
    /// `[head_dim, rows, n_kv_heads]`: complete values, of the lane's type.
    pub v: &'a Tensor,
    /// The lane.
    pub lane: &'a GraphLane,
    /// `[head_dim, heads, 2]` f32: where the sums of the other rows are written, K, then V. A compensated lane has them.
    pub sums: Option<&'a Tensor>,
    /// The rows to keep.
    pub selection: RowSelection,
}

impl Operation for SelectRows<'_> {
    const NAME: &'static str = "select_rows";

    fn check(&self) -> Check {
        check_selection((self.k, self.v), self.lane, self.sums, &self.selection)
    }

    fn own(self, ctx: &Context, _: Split) -> Tensor {
        select_rows(ctx, self)
    }

    fn portable(self, ctx: &Context) -> Tensor {
        portable::select_rows(ctx, self)
    }
}

/// The node of own kernels.
fn select_rows(ctx: &Context, SelectRows { k, v, lane, sums, selection }: SelectRows) -> Tensor {
    let lists = lists::pack(ctx, selection.kept.iter().chain(&selection.evicted).map(Vec::as_slice));
    let max_kept = selection.kept.iter().map(Vec::len).max().unwrap_or(0);
    let mut operands = Operands::default();
    let node = SelectRowsNode {
        k: operands.read(k),
        v: operands.read(v),
        lane: operands.write_lane(lane),
        lists: operands.lists(&lists, 2 * lane.kv_heads.len()),
        sums: sums.map(|sums| operands.write(sums)),
        max_kept,
    };
    operands.node(ctx, Type::F32, [1], node)
}

/// The node of [`SelectRows`].
struct SelectRowsNode {
    /// `[head_dim, rows, n_kv_heads]`: the complete keys.
    k: TensorAt,
    /// `[head_dim, rows, n_kv_heads]`: the complete values.
    v: TensorAt,
    lane: LaneAt,
    /// Per head the rows to keep, then per head the others.
    lists: ListsAt,
    /// `[head_dim, heads, 2]`
    sums: Option<TensorAt>,
    /// Maximum number of rows that a head keeps.
    max_kept: usize,
}

impl Node for SelectRowsNode {
    fn on_cpu(&self, task: &CustomTask) {
        let heads = self.lane.heads.kv_heads.len();
        let lists = self.lists.read(task);
        let tensors = self.lane.tensors();
        for item in (task.thread..tensors.len() * heads).step_by(task.threads) {
            self.fill_head(task, &lists, tensors[item / heads], item % heads);
        }
    }

    fn on_device(&self, task: &DeviceTask) -> Result<(), i32> {
        let lanes = device_lanes(task, from_ref(&self.lane))?;
        let (k, v) = (self.k.of(task), self.v.of(task));
        if (device_type(k)?, device_type(v)?) != (lanes.k_type, lanes.v_type) {
            return Err(INVALID_VALUE);
        }
        let sums = self.sums.filter(|_| self.lane.heads.compensated);
        let call = device::SelectCall {
            lane: lanes.lanes[0],
            k: k.data,
            v: v.data,
            k_head_stride: k.strides[2] as u64,
            v_head_stride: v.strides[2] as u64,
            lists: self.lists.address(task),
            sums: sums.map_or(null_mut(), |sums| sums.of(task).data.cast()),
            head_dim: lanes.head_dim,
            k_type: lanes.k_type,
            v_type: lanes.v_type,
            max_kept: self.max_kept as i32,
            kv_heads: lanes.kv_heads,
        };
        // SAFETY: the addresses are those of the operands, whose shapes are those of the call.
        unsafe { device::select(task, &call) }
    }
}

impl SelectRowsNode {
    /// Fills the keys or the values of one head.
    fn fill_head(&self, task: &CustomTask, lists: &Lists, which: Which, head: usize) {
        let LaneHeads { kv_heads, compensated, .. } = &self.lane.heads;
        let (from, to) = (if which == Which::K { self.k } else { self.v }, self.lane.get(which));
        let tensor = to.of(task);
        let ty = row_type(tensor.ty).expect("lanes have row types");
        let bytes = tensor.strides[1];
        // SAFETY: each (tensor, head) of the lane is used by one thread; the source is only read.
        let (from, to) =
            unsafe { (&*from.head_rows(task, kv_heads[head] as usize), to.head_rows(task, head)) };
        let first = usize::from(*compensated);
        for (row, at) in lists.get(head).zip(first..) {
            to[at * bytes..][..bytes].copy_from_slice(&from[row as usize * bytes..][..bytes]);
        }
        if let Some(sums) = self.sums.filter(|_| *compensated) {
            // SAFETY: as above, [head_dim, heads, 2] f32.
            let sum = unsafe { sums.head_sum(task, head, which as usize) };
            sum.fill(0.0);
            let evicted = lists.get(kv_heads.len() + head);
            let count = evicted.len();
            add_rows(from, ty, evicted, sum);
            write_mean(to, ty, sum, count);
        }
    }
}

fn check_selection(
    (k, v): (&Tensor, &Tensor),
    lane: &GraphLane,
    sums: Option<&Tensor>,
    selection: &RowSelection,
) -> Check {
    is_rows("complete keys", k)?;
    is_rows("complete values", v)?;
    let [head_dim, rows, n_kv_heads, _] = k.shape().0;
    ensure(v.shape() == k.shape(), || format!("the complete values are {v:?}, the keys {k:?}"))?;
    check_lane(lane, n_kv_heads)?;
    let alike = lane.k.dim(0) == head_dim && (lane.k.ty(), lane.v.ty()) == (k.ty(), v.ty());
    ensure(alike, || {
        format!("the keys and values are {:?} and {:?}, the complete {k:?} and {v:?}", lane.k, lane.v)
    })?;
    let RowSelection { kept, evicted } = selection;
    let heads = lane.kv_heads.len();
    let fits = kept.len() == heads && evicted.len() == heads;
    ensure(fits, || format!("rows of {} and {} heads of {heads}", kept.len(), evicted.len()))?;
    let room = lane.k.dim(1) - usize::from(lane.compensated);
    let most = kept.iter().map(Vec::len).max().unwrap_or(0);
    ensure(most <= room, || format!("{most} rows do not fit a lane with room for {room}"))?;
    check_rows(kept.iter().chain(evicted).flatten(), 0..rows)?;
    check_sums(lane, sums)
}
