//! Lanes and operands in the form of the launchers of device kernels. Shapes that the kernels do not support
//! are CUDA's "invalid value".

use ggml::{DeviceTask, RawTensor};

use super::{LaneHeads, MAX_LANES, row_type};
use crate::device::{self, INVALID_VALUE};

/// The heads of lanes, without their rows.
pub(super) fn device_heads(lanes: &[LaneHeads]) -> Result<device::Lanes, i32> {
    let mut heads = device::Lanes::NONE;
    for (to, lane) in heads.lanes.iter_mut().zip(lanes) {
        to.heads = lane.kv_heads.len() as i32;
        to.capacity = lane.capacity as i32;
        to.first_position = lane.first_position as i32;
        to.compensated = lane.compensated.into();
    }
    let kv_heads: Vec<u32> = lanes.iter().flat_map(|lane| lane.kv_heads.iter().copied()).collect();
    heads.kv_heads = device::head_numbers(&kv_heads)?;
    heads.count = lanes.len() as i32;
    Ok(heads)
}

/// The lanes. Their K and V are the task's operands from `first` on.
pub(super) fn device_lanes(
    task: &DeviceTask,
    lanes: &[LaneHeads],
    first: usize,
) -> Result<device::Lanes, i32> {
    let mut all = device_heads(lanes)?;
    for (number, to) in all.lanes.iter_mut().take(lanes.len()).enumerate() {
        let k = task.operand(first + 2 * number);
        let v = if lanes[number].values_in_keys { k } else { task.operand(first + 2 * number + 1) };
        let types = (device_type(k)?, device_type(v)?);
        if number > 0 && types != (all.k_type, all.v_type) {
            return Err(INVALID_VALUE);
        }
        (all.k_type, all.v_type) = types;
        all.head_dim = k.shape[0] as i32;
        (to.k, to.k_head_stride) = (k.data, k.strides[2] as u64);
        (to.v, to.v_head_stride) = (v.data, v.strides[2] as u64);
    }
    Ok(all)
}

/// The number of the row type of a K or V tensor, if the device kernels support the tensor.
pub(super) fn device_type(tensor: RawTensor) -> Result<i32, i32> {
    let ty = row_type(tensor.ty).ok_or(INVALID_VALUE)?;
    let head_dim = tensor.shape[0];
    let fits = head_dim <= device::MAX_HEAD_DIM
        && head_dim.is_multiple_of(ty.granule())
        && tensor.strides[1] == ty.row_bytes(head_dim);
    if fits { Ok(ty as i32) } else { Err(INVALID_VALUE) }
}

/// The device address of column `layer` of a `[MAX_LANES, layers]` tensor of 4-byte numbers.
pub(super) fn device_column(input: RawTensor, layer: usize) -> Result<*mut u8, i32> {
    let fits = input.shape[0] == MAX_LANES && layer < input.shape[1];
    // Inside the tensor (checked).
    if fits { Ok(input.data.wrapping_add(layer * input.strides[1])) } else { Err(INVALID_VALUE) }
}
