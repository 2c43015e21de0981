//! Measures of keys and values: norms, maxima and spreads.

use std::ptr::null;

use ggml::{Context, CustomTask, DeviceTask, Tensor, Type};

use super::{RowLists, check_lists};
use crate::form::Operation;
use crate::graph::Split;
use crate::graph::checks::{Check, is, is_rows};
use crate::graph::launch::device_type;
use crate::graph::lists;
use crate::graph::operands::{ListsAt, Node, Operands, TensorAt, column};
use crate::measure::{Measure, measure};
use crate::{device, portable};

/// Measures rows of a K or V tensor. Returns `[rows, lists]` f32.
pub struct MeasureRows<'a> {
    /// `[head_dim, capacity, heads]`: keys or values.
    pub tensor: &'a Tensor,
    /// `[head_dim, lists]` f32: what is added to the rows of each list.
    pub offset: Option<&'a Tensor>,
    /// The rows.
    pub lists: RowLists,
    /// What is measured.
    pub what: Measure,
}

impl<'a> MeasureRows<'a> {
    /// What is added to the rows, where that makes a difference: a spread is the same with an offset.
    pub(crate) fn used_offset(&self) -> Option<&'a Tensor> {
        self.offset.filter(|_| !matches!(self.what, Measure::Spread { .. }))
    }
}

impl Operation for MeasureRows<'_> {
    const NAME: &'static str = "measure_rows";

    fn check(&self) -> Check {
        let MeasureRows { tensor, ref lists, .. } = *self;
        is_rows("keys or values", tensor)?;
        check_lists(lists, tensor.dim(2), tensor.dim(1))?;
        let shape = [tensor.dim(0), lists.heads.len(), 1, 1];
        self.used_offset().map_or(Ok(()), |offset| is("offsets", offset, Type::F32, shape))
    }

    fn own(self, ctx: &Context, _: Split) -> Tensor {
        let offset = self.used_offset();
        let MeasureRows { tensor, lists: RowLists { heads, rows: lists }, what, .. } = self;
        let shape = [lists.first().map_or(0, |rows| rows.len()), heads.len()];
        let lists = lists::pack(ctx, lists.iter().map(|rows| rows.as_slice()));
        let mut operands = Operands::default();
        let node = MeasureRowsNode {
            rows: operands.read(tensor),
            lists: operands.lists(&lists, heads.len()),
            offsets: offset.map(|offset| operands.read(offset)),
            count: shape[0],
            heads,
            what,
        };
        operands.node(ctx, Type::F32, shape, node).output()
    }

    fn portable(self, ctx: &Context) -> Tensor {
        portable::measure_rows(ctx, self)
    }
}

/// The node of [`MeasureRows`].
struct MeasureRowsNode {
    /// `[head_dim, capacity, heads of the tensor]`: keys or values.
    rows: TensorAt,
    /// The rows of each measured head.
    lists: ListsAt,
    /// `[head_dim, measured heads]`: what is added to the rows.
    offsets: Option<TensorAt>,
    /// Rows of a measured head.
    count: usize,
    /// The measured heads, by their numbers in the tensor.
    heads: Vec<u32>,
    what: Measure,
}

impl Node for MeasureRowsNode {
    fn on_cpu(&self, task: &CustomTask) {
        let (rows, lists) = (self.rows.rows(task), self.lists.read(task));
        let head_dim = self.rows.of(task).shape[0];
        for at in (task.thread..self.heads.len()).step_by(task.threads) {
            // SAFETY: each head's column is written by one thread.
            let out = unsafe { column(task.result(), at) };
            let list: Vec<u32> = lists.get(at).collect();
            // SAFETY: `[head_dim, heads]` f32, which no one writes.
            let offset = self.offsets.map(|offsets| &*unsafe { offsets.column(task, at) });
            let head = self.heads[at] as usize;
            if let Err(error) = measure(&rows, head_dim, head, &list, offset, self.what, out) {
                task.fail(format!("measure_rows: {error}"));
            }
        }
    }

    fn on_device(&self, task: &DeviceTask) -> Result<(), i32> {
        let tensor = self.rows.of(task);
        let (number, lag) = match self.what {
            Measure::Norm => (0, 1),
            Measure::SquaredNorm => (1, 1),
            Measure::MaxAbs => (2, 1),
            // A partition of more rows than there are is as good as any larger one.
            Measure::Spread { lag, own } => (if own { 4 } else { 3 }, lag.clamp(1, self.count + 1)),
        };
        let call = device::MeasureCall {
            rows: tensor.data,
            head_stride: tensor.strides[2] as u64,
            lists: self.lists.address(task),
            offsets: self.offsets.map_or(null(), |offsets| offsets.of(task).data.cast()),
            out: task.result().data.cast(),
            row_type: device_type(tensor)?,
            head_dim: tensor.shape[0] as i32,
            heads: self.heads.len() as i32,
            count: self.count as i32,
            measure: number,
            lag: lag as i32,
            tensor_heads: device::head_numbers(&self.heads)?,
        };
        // SAFETY: the addresses are those of the operands and of the result, whose shapes are those of the
        // call.
        unsafe { device::measure(task, &call) }
    }
}
