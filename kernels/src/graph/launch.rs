//! Heads, types and inputs in the form of the launchers of device kernels. Shapes that the kernels do not support
//! are CUDA's "invalid value".

use ggml::RawTensor;

use super::{LaneHeads, MAX_LANES, row_type};
use crate::device::{self, INVALID_VALUE};

/// The heads of lanes, without their rows.
pub(super) fn device_heads(lanes: &[&LaneHeads]) -> Result<device::Lanes, i32> {
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
