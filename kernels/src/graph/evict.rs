//! Nodes that take rows out of a lane, and that fill an empty lane from complete rows.

use std::ptr::null_mut;

use ggml::{Context, CustomTask, Operand, RawTensor, Tensor, Type};

use super::checks::{Check, check_lane, check_rows, ensure, is, is_rows};
use super::launch::{device_lanes, device_type};
use super::lists::{self, Lists};
use super::{GraphLane, LaneHeads, column, row_type};
use crate::device::{self, INVALID_VALUE};
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

/// Evicts rows from a lane. In a compensated lane the evicted rows are added to `sums` `[head_dim, heads, 2]`
/// f32 (K, then V), and their mean becomes row 0. With `return_rows` the result is the bytes of the evicted
/// rows: first K, then V where it is apart, head after head. Otherwise the result has no data.
pub fn evict_rows(ctx: &Context, lane: &GraphLane, sums: Option<&Tensor>, eviction: Eviction) -> Tensor {
    if let Err(problem) = check_eviction(lane, sums, &eviction) {
        return ctx.refuse("evict_rows", problem);
    }
    let Eviction { evicted, moves, total_evicted, return_rows } = eviction;
    let (heads, count) = (evicted.len(), evicted[0].len());
    let k_bytes = heads * count * lane.k.strides()[1];
    let bytes = lane.tensors().map(|tensor| heads * count * tensor.strides()[1]).sum::<usize>();
    let moves: Vec<Vec<u32>> =
        moves.iter().map(|moves| moves.iter().flat_map(|(to, from)| [*to, *from]).collect()).collect();
    let lists = lists::pack(ctx, evicted.iter().chain(&moves).map(Vec::as_slice));
    let mut operands = lane.written(&lists).to_vec();
    operands.push(Operand::Read(&lists));
    operands.extend(sums.map(Operand::Write));
    let accumulated = lane.accumulated.is_some().then_some(operands.len());
    operands.extend(lane.accumulated.as_ref().map(Operand::Write));
    let lane_heads = LaneHeads::of(std::slice::from_ref(lane));
    let (compensated, tensors) = (lane.compensated, lane.tensors().count());
    let evict = move |task: &CustomTask| {
        // SAFETY: packed above.
        let lists = unsafe { Lists::of(task.operand(2), 2 * heads) };
        for item in (task.thread..tensors * heads).step_by(task.threads) {
            let (which, head) = (item / heads, item % heads);
            let tensor = task.operand(which);
            let (ty, row_bytes) = (row_type(tensor.ty).expect("lanes have row types"), tensor.strides[1]);
            // SAFETY: each (tensor, head) is used by one thread; heads are contiguous.
            let rows = unsafe { head_rows(tensor, head) };
            if return_rows {
                // SAFETY: the result has `bytes` bytes; this head's part of this tensor is written by this
                // thread only.
                let out = unsafe {
                    let at = task.result().data.add(which * k_bytes + head * count * row_bytes);
                    std::slice::from_raw_parts_mut(at, count * row_bytes)
                };
                for (row, out) in lists.get(head).zip(out.chunks_exact_mut(row_bytes)) {
                    out.copy_from_slice(&rows[row as usize * row_bytes..][..row_bytes]);
                }
            }
            if compensated {
                // SAFETY: as above, [head_dim, heads, 2] f32.
                let sum = unsafe { head_sum(task.operand(3), head, which) };
                add_rows(rows, ty, lists.get(head), sum);
                write_mean(rows, ty, sum, total_evicted);
            }
            let pairs = lists.get(heads + head);
            let moves: Moves = pairs.clone().step_by(2).zip(pairs.skip(1).step_by(2)).collect();
            move_rows(rows, row_bytes, &moves);
            if let (Some(operand), 0) = (accumulated, which) {
                // SAFETY: each head's column is used by one thread.
                let column = unsafe { column(task.operand(operand), head) };
                for (to, from) in moves {
                    column[to as usize] = column[from as usize];
                }
            }
        }
    };
    let (ty, shape) = if return_rows { (Type::I8, [bytes]) } else { (Type::F32, [1]) };
    let node = ctx.custom_on(ty, shape, &operands, evict, move |task| {
        let lanes = device_lanes(task, &lane_heads, 0)?;
        let address = |operand: usize| task.operand(operand).data;
        let call = device::EvictCall {
            lane: lanes.lanes[0],
            lists: address(2).cast(),
            sums: if compensated { address(3).cast() } else { null_mut() },
            accumulated: accumulated.map_or(null_mut(), |operand| address(operand).cast()),
            evicted: if return_rows { task.result().data } else { null_mut() },
            head_dim: lanes.head_dim,
            k_type: lanes.k_type,
            v_type: lanes.v_type,
            total_evicted: total_evicted as i32,
        };
        // SAFETY: the addresses are those of the operands, whose shapes are those of the call.
        unsafe { device::evict(task, &call) }
    });
    if return_rows { node.output() } else { node }
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

/// Fills an empty lane from complete K and V `[head_dim, rows, n_kv_heads]` of the same types. The result has
/// no data.
pub fn select_rows(
    ctx: &Context,
    (k, v): (&Tensor, &Tensor),
    lane: &GraphLane,
    sums: Option<&Tensor>,
    selection: RowSelection,
) -> Tensor {
    if let Err(problem) = check_selection((k, v), lane, sums, &selection) {
        return ctx.refuse("select_rows", problem);
    }
    let lists = lists::pack(ctx, selection.kept.iter().chain(&selection.evicted).map(Vec::as_slice));
    let max_kept = selection.kept.iter().map(Vec::len).max().unwrap_or(0);
    let mut operands = vec![Operand::Read(k), Operand::Read(v)];
    operands.extend(lane.written(&lists));
    operands.push(Operand::Read(&lists));
    operands.extend(sums.map(Operand::Write));
    let lane_heads = LaneHeads::of(std::slice::from_ref(lane));
    let (compensated, kv_heads, tensors) = (lane.compensated, lane.kv_heads.clone(), lane.tensors().count());
    let fill = move |task: &CustomTask| {
        let heads = kv_heads.len();
        // SAFETY: packed above.
        let lists = unsafe { Lists::of(task.operand(4), 2 * heads) };
        for item in (task.thread..tensors * heads).step_by(task.threads) {
            let (which, head) = (item / heads, item % heads);
            let (from, to) = (task.operand(which), task.operand(2 + which));
            let ty = row_type(to.ty).expect("lanes have row types");
            let bytes = to.strides[1];
            // SAFETY: each (tensor, head) of the lane is used by one thread; the source is only read.
            let (from, to) = unsafe { (&*head_rows(from, kv_heads[head] as usize), head_rows(to, head)) };
            let first = usize::from(compensated);
            for (row, at) in lists.get(head).zip(first..) {
                to[at * bytes..][..bytes].copy_from_slice(&from[row as usize * bytes..][..bytes]);
            }
            if compensated {
                // SAFETY: as above, [head_dim, heads, 2] f32.
                let sum = unsafe { head_sum(task.operand(5), head, which) };
                sum.fill(0.0);
                let evicted = lists.get(heads + head);
                let count = evicted.len();
                add_rows(from, ty, evicted, sum);
                write_mean(to, ty, sum, count);
            }
        }
    };
    ctx.custom_on(Type::F32, [1], &operands, fill, move |task| {
        let lanes = device_lanes(task, &lane_heads, 2)?;
        let [k, v] = [task.operand(0), task.operand(1)];
        if (device_type(k)?, device_type(v)?) != (lanes.k_type, lanes.v_type) {
            return Err(INVALID_VALUE);
        }
        let call = device::SelectCall {
            lane: lanes.lanes[0],
            k: k.data,
            v: v.data,
            k_head_stride: k.strides[2] as u64,
            v_head_stride: v.strides[2] as u64,
            lists: task.operand(4).data.cast(),
            sums: if compensated { task.operand(5).data.cast() } else { null_mut() },
            head_dim: lanes.head_dim,
            k_type: lanes.k_type,
            v_type: lanes.v_type,
            max_kept: max_kept as i32,
            kv_heads: lanes.kv_heads,
        };
        // SAFETY: the addresses are those of the operands, whose shapes are those of the call.
        unsafe { device::select(task, &call) }
    })
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

/// All rows of one head.
///
/// # Safety
/// No other reference to the head's rows is in use.
unsafe fn head_rows<'a>(tensor: RawTensor, head: usize) -> &'a mut [u8] {
    assert!(head < tensor.shape[2]);
    // SAFETY: inside the tensor; exclusive by the caller's promise.
    unsafe {
        std::slice::from_raw_parts_mut(
            tensor.data.add(head * tensor.strides[2]),
            tensor.strides[1] * tensor.shape[1],
        )
    }
}

/// The sum of one head in `[head_dim, heads, 2]`; `which` is 0 for K, 1 for V.
///
/// # Safety
/// No other reference to the sum is in use.
unsafe fn head_sum<'a>(sums: RawTensor, head: usize, which: usize) -> &'a mut [f32] {
    assert!(head < sums.shape[1] && which < sums.shape[2]);
    // SAFETY: inside the tensor; exclusive by the caller's promise.
    unsafe {
        let at = sums.data.add(head * sums.strides[1] + which * sums.strides[2]);
        std::slice::from_raw_parts_mut(at.cast::<f32>(), sums.shape[0])
    }
}
