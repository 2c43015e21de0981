//! Nodes that write the rows of new tokens, and their positions for models with ALiBi.

use ggml::{Context, CustomTask, Operand, RawTensor, Tensor, Type};

use super::checks::{Check, check_inputs, check_lanes, is_heads, is_vector};
use super::launch::{device_column, device_heads, device_lanes};
use super::{GraphLane, LaneHeads, LaneInputs, input_column, numbers, row_positions, row_type, rows_after};
use crate::device;

/// Writes the rows `k` and `v` `[head_dim, n_kv_heads, n]` (f32) behind the live rows of the lanes. Lanes whose
/// values are in the rows of keys ignore `v`. The result has no data; nodes that read the rows take it as an
/// operand ([`Appended`](super::Appended)).
pub fn append(ctx: &Context, (k, v): (&Tensor, &Tensor), lanes: &[GraphLane], inputs: &LaneInputs) -> Tensor {
    if let Err(problem) = check((k, v), lanes, inputs) {
        return ctx.refuse("append", problem);
    }
    let mut operands = vec![Operand::Read(k), Operand::Read(v), Operand::Read(&inputs.rows)];
    operands.extend(lanes.iter().flat_map(|lane| lane.written(&inputs.rows)));
    let (heads, layer) = (LaneHeads::of(lanes), inputs.layer);
    let lane_heads = heads.clone();
    let write = move |task: &CustomTask| {
        let live = input_column(task.operand(2), layer);
        let mut item = 0;
        for (number, lane) in heads.iter().enumerate() {
            let new = task.operand(0).shape[2];
            if let Err(problem) = rows_after(live[number], new, lane.capacity) {
                return task.fail(format!("append: {problem}"));
            }
            for (which, from) in
                [task.operand(0), task.operand(1)].into_iter().take(lane.tensors()).enumerate()
            {
                let to = task.operand(3 + 2 * number + which);
                let ty = row_type(to.ty).expect("lanes have row types");
                for (head, kv_head) in lane.kv_heads.iter().enumerate() {
                    for token in 0..new {
                        item += 1;
                        if item % task.threads != task.thread {
                            continue;
                        }
                        let row = live[number] as usize + token;
                        // SAFETY: the source is [head_dim, kv_heads, n] f32 with contiguous heads, and the
                        // lane's are among these (`check`); the row is below the lane's capacity; every
                        // (head, row) is written by one thread.
                        unsafe {
                            let from =
                                from.data.add(*kv_head as usize * from.strides[1] + token * from.strides[2]);
                            let values = std::slice::from_raw_parts(from.cast::<f32>(), to.shape[0]);
                            let to = to.data.add(head * to.strides[2] + row * to.strides[1]);
                            let bytes = ty.row_bytes(values.len());
                            ty.encode(values, std::slice::from_raw_parts_mut(to, bytes));
                        }
                    }
                }
            }
        }
    };
    let rows = ctx.custom_on(Type::F32, [1], &operands, write, move |task| {
        let [k, v] = [task.operand(0), task.operand(1)];
        let call = device::AppendCall {
            lanes: device_lanes(task, &lane_heads, 3)?,
            k: k.data.cast(),
            v: v.data.cast(),
            k_head_stride: (k.strides[1] / 4) as u64,
            k_token_stride: (k.strides[2] / 4) as u64,
            v_head_stride: (v.strides[1] / 4) as u64,
            v_token_stride: (v.strides[2] / 4) as u64,
            live: device_column(task.operand(2), layer)?.cast(),
            tokens: k.shape[2] as i32,
            unused: 0,
        };
        // SAFETY: the addresses are those of the operands, whose shapes are those of the call.
        unsafe { device::append(task, &call) }
    });
    match row_positions(lanes) {
        Some(all) => append_positions(ctx, &rows, all, lanes, inputs),
        None => rows,
    }
}

fn check((k, v): (&Tensor, &Tensor), lanes: &[GraphLane], inputs: &LaneInputs) -> Check {
    let [head_dim, kv_heads, new, _] = k.shape().0;
    is_heads("new keys", k, [head_dim, kv_heads, new])?;
    is_heads("new values", v, [head_dim, kv_heads, new])?;
    check_lanes(lanes, head_dim, kv_heads)?;
    check_inputs(inputs)?;
    if row_positions(lanes).is_some() { is_vector("positions", &inputs.positions, new) } else { Ok(()) }
}

/// Writes the positions of the new tokens behind those of the live rows, after the node `rows`. The result
/// has no data.
fn append_positions(
    ctx: &Context,
    rows: &Tensor,
    all: &Tensor,
    lanes: &[GraphLane],
    inputs: &LaneInputs,
) -> Tensor {
    let (heads, layer) = (LaneHeads::of(lanes), inputs.layer);
    let lane_heads = heads.clone();
    let write = move |task: &CustomTask| {
        if task.thread != 0 {
            return;
        }
        let live = input_column(task.operand(2), layer);
        // SAFETY: both are contiguous i32 tensors (`check`), and only this thread uses them.
        let (all, new) = unsafe { (numbers_mut(task.operand(1)), numbers(task.operand(3))) };
        for (lane, live) in heads.iter().zip(live) {
            if let Err(problem) = rows_after(live, new.len(), lane.capacity) {
                return task.fail(format!("append: {problem}"));
            }
            for head in 0..lane.kv_heads.len() {
                let row = lane.first_position + head * lane.capacity + live as usize;
                all[row..row + new.len()].copy_from_slice(new);
            }
        }
    };
    let [rows, live, new] = [rows, &inputs.rows, &inputs.positions].map(Operand::Read);
    ctx.custom_on(Type::F32, [1], &[rows, Operand::Write(all), live, new], write, move |task| {
        let positions = task.operand(3);
        let call = device::PositionsCall {
            lanes: device_heads(&lane_heads)?,
            row_positions: task.operand(1).data.cast(),
            token_positions: positions.data.cast(),
            live: device_column(task.operand(2), layer)?.cast(),
            count: positions.shape[0] as i32,
            unused: 0,
        };
        // SAFETY: as for the rows.
        unsafe { device::append_positions(task, &call) }
    })
}

/// A tensor `[n]` of integers, to write to.
///
/// # Safety
/// It is a contiguous i32 tensor, and no other reference to it is in use.
unsafe fn numbers_mut<'a>(tensor: RawTensor) -> &'a mut [i32] {
    // SAFETY: inside the tensor; exclusive by the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(tensor.data.cast::<i32>(), tensor.shape[0]) }
}
