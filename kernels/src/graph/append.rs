//! Nodes that write the rows of new tokens, and their positions for models with ALiBi.

use std::slice::{from_raw_parts, from_raw_parts_mut};

use ggml::{Context, CustomTask, DeviceTask, Tensor, Type};

use super::checks::{Check, check_inputs, check_lanes, is_heads, is_vector};
use super::launch::device_heads;
use super::operands::{
    HeadsAt, LaneAt, LaneColumnAt, Node, NumbersAt, Operands, TensorAt, Which, device_lanes,
};
use super::{GraphLane, LaneHeads, LaneInputs, Split, row_positions, row_type, rows_after};
use crate::form::Operation;
use crate::{device, portable};

/// Writes the rows of new tokens behind the live rows of the lanes. The result has no data; nodes that read the rows
/// take it as an operand ([`Appended`](super::Appended)).
pub struct Append<'a> {
    /// `[head_dim, n_kv_heads, n]` f32: keys.
    pub k: &'a Tensor,
    /// `[head_dim, n_kv_heads, n]` f32: values. Lanes whose values are in the rows of keys ignore them.
    pub v: &'a Tensor,
    /// All lanes of the layer.
    pub lanes: &'a [GraphLane],
    /// Their state.
    pub inputs: &'a LaneInputs,
}

impl Operation for Append<'_> {
    const NAME: &'static str = "append";

    fn check(&self) -> Check {
        let Append { k, v, lanes, inputs } = *self;
        let [head_dim, kv_heads, new, _] = k.shape().0;
        is_heads("new keys", k, [head_dim, kv_heads, new])?;
        is_heads("new values", v, [head_dim, kv_heads, new])?;
        check_lanes(lanes, head_dim, kv_heads)?;
        check_inputs(inputs)?;
        if row_positions(lanes).is_some() { is_vector("positions", &inputs.positions, new) } else { Ok(()) }
    }

    fn own(self, ctx: &Context, _: Split) -> Tensor {
        let Append { k, v, lanes, inputs } = self;
        let mut operands = Operands::default();
        let node = AppendRows {
            k: operands.heads(k),
            v: operands.heads(v),
            live: operands.live_rows(inputs),
            lanes: lanes.iter().map(|lane| operands.write_lane(lane)).collect(),
        };
        let rows = operands.node(ctx, Type::F32, [1], node);
        let Some(all) = row_positions(lanes) else { return rows };
        let mut operands = Operands::default();
        operands.after(&rows);
        let node = AppendPositions {
            of_rows: operands.write(all),
            live: operands.live_rows(inputs),
            of_tokens: operands.numbers(&inputs.positions),
            lanes: lanes.iter().map(LaneHeads::of).collect(),
        };
        operands.node(ctx, Type::F32, [1], node)
    }

    fn portable(self, ctx: &Context) -> Tensor {
        portable::append(ctx, self)
    }
}

/// Writes new keys and values behind the live rows.
struct AppendRows {
    /// `[head_dim, n_kv_heads, n]`
    k: HeadsAt,
    /// `[head_dim, n_kv_heads, n]`
    v: HeadsAt,
    live: LaneColumnAt,
    lanes: Vec<LaneAt>,
}

impl Node for AppendRows {
    fn on_cpu(&self, task: &CustomTask) {
        let live = self.live.read(task);
        let new = self.k.of(task).shape[2];
        let mut item = 0;
        for (lane, live) in self.lanes.iter().zip(live) {
            if let Err(problem) = rows_after(live, new, lane.heads.capacity) {
                return task.fail(format!("append: {problem}"));
            }
            for which in lane.tensors() {
                let from = if *which == Which::K { self.k } else { self.v }.of(task);
                let to = lane.get(*which).of(task);
                let ty = row_type(to.ty).expect("lanes have row types");
                for (head, kv_head) in lane.heads.kv_heads.iter().enumerate() {
                    for token in 0..new {
                        item += 1;
                        if item % task.threads != task.thread {
                            continue;
                        }
                        let row = live as usize + token;
                        // SAFETY: the source is [head_dim, kv_heads, n] f32 with contiguous heads, and the
                        // lane's are among these (`check`); the row is below the lane's capacity; every
                        // (head, row) is written by one thread.
                        unsafe {
                            let from =
                                from.data.add(*kv_head as usize * from.strides[1] + token * from.strides[2]);
                            let values = from_raw_parts(from.cast::<f32>(), to.shape[0]);
                            let to = to.data.add(head * to.strides[2] + row * to.strides[1]);
                            ty.encode(values, from_raw_parts_mut(to, ty.row_bytes(values.len())));
                        }
                    }
                }
            }
        }
    }

    fn on_device(&self, task: &DeviceTask) -> Result<(), i32> {
        let (k, v) = (self.k.on_device(task), self.v.on_device(task));
        let call = device::AppendCall {
            lanes: device_lanes(task, &self.lanes)?,
            k: k.data,
            v: v.data,
            k_head_stride: k.head_stride,
            k_token_stride: k.token_stride,
            v_head_stride: v.head_stride,
            v_token_stride: v.token_stride,
            live: self.live.address(task)?.cast(),
            tokens: k.tokens,
            unused: 0,
        };
        // SAFETY: the addresses are those of the operands, whose shapes are those of the call.
        unsafe { device::append(task, &call) }
    }
}

/// Writes the positions of the new tokens behind those of the live rows.
struct AppendPositions {
    /// The positions of all rows of the layer, i32.
    of_rows: TensorAt,
    live: LaneColumnAt,
    of_tokens: NumbersAt,
    lanes: Vec<LaneHeads>,
}

impl Node for AppendPositions {
    fn on_cpu(&self, task: &CustomTask) {
        if task.thread != 0 {
            return;
        }
        let (all, new) = (self.of_rows.of(task), self.of_tokens.read(task));
        // SAFETY: a contiguous i32 tensor (`check`), which only this thread uses.
        let all = unsafe { from_raw_parts_mut(all.data.cast::<i32>(), all.shape[0]) };
        for (lane, live) in self.lanes.iter().zip(self.live.read(task)) {
            if let Err(problem) = rows_after(live, new.len(), lane.capacity) {
                return task.fail(format!("append: {problem}"));
            }
            for head in 0..lane.kv_heads.len() {
                let row = lane.first_position + head * lane.capacity + live as usize;
                all[row..row + new.len()].copy_from_slice(new);
            }
        }
    }

    fn on_device(&self, task: &DeviceTask) -> Result<(), i32> {
        let lanes: Vec<&LaneHeads> = self.lanes.iter().collect();
        let call = device::PositionsCall {
            lanes: device_heads(&lanes)?,
            row_positions: self.of_rows.of(task).data.cast(),
            token_positions: self.of_tokens.address(task),
            live: self.live.address(task)?.cast(),
            count: self.of_tokens.count(task) as i32,
            unused: 0,
        };
        // SAFETY: as for the rows.
        unsafe { device::append_positions(task, &call) }
    }
}
