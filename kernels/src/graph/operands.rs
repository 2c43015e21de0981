//! The operands of a node by name. [`Operands`] collects them while the node is built, and gives a handle for each.
//! Both implementations of the node keep the handles and ask their task by them, so that nothing counts operands, and
//! one that is inserted moves no other. What a handle is typed by, the checks of the node have made sure of
//! ([`checks`](super::checks)); a handle belongs to the node that it was made for.

use std::ptr::null;
use std::slice::{from_raw_parts, from_raw_parts_mut};
use std::sync::Arc;

use ggml::{Context, CustomTask, DeviceTask, Operand, RawTensor, Shape, Tensor, Type};

use super::launch::{device_column, device_type};
use super::lists::Lists;
use super::{GraphLane, LaneHeads, LaneInputs, MAX_LANES, row_type};
use crate::RowTensor;
use crate::device::{self, INVALID_VALUE};

/// What a node computes.
pub(super) trait Node: Send + Sync + 'static {
    /// One thread's part of it. All threads of the backend call this.
    fn on_cpu(&self, task: &CustomTask);

    /// Launches it on a device. The error is CUDA's number.
    fn on_device(&self, task: &DeviceTask) -> Result<(), i32>;
}

/// What a node computes that no device has.
pub(super) trait CpuNode: Send + Sync + 'static {
    /// One thread's part of it. All threads of the backend call this.
    fn on_cpu(&self, task: &CustomTask);
}

/// The operands of a node, in the order in which they were added.
#[derive(Default)]
pub(super) struct Operands<'a>(Vec<Operand<'a>>);

impl<'a> Operands<'a> {
    fn add(&mut self, operand: Operand<'a>) -> TensorAt {
        self.0.push(operand);
        TensorAt(self.0.len() - 1)
    }

    /// A tensor that is only read.
    pub fn read(&mut self, tensor: &'a Tensor) -> TensorAt {
        self.add(Operand::Read(tensor))
    }

    /// A tensor that is read and written.
    pub fn write(&mut self, tensor: &'a Tensor) -> TensorAt {
        self.add(Operand::Write(tensor))
    }

    /// A node that must run before, whose data is not used.
    pub fn after(&mut self, node: &'a Tensor) {
        self.add(Operand::Read(node));
    }

    /// Vectors `[head_dim, heads, n]` f32.
    pub fn heads(&mut self, tensor: &'a Tensor) -> HeadsAt {
        HeadsAt(self.read(tensor))
    }

    /// Numbers `[n]` i32.
    pub fn numbers(&mut self, tensor: &'a Tensor) -> NumbersAt {
        NumbersAt(self.read(tensor))
    }

    /// Numbers `[n]` f32.
    pub fn floats(&mut self, tensor: &'a Tensor) -> FloatsAt {
        FloatsAt(self.read(tensor))
    }

    /// `count` lists that [`pack`](super::lists::pack) made.
    pub fn lists(&mut self, packed: &'a Tensor, count: usize) -> ListsAt {
        ListsAt { at: self.read(packed), count }
    }

    /// The live rows of the lanes of the inputs' layer.
    pub fn live_rows(&mut self, inputs: &'a LaneInputs) -> LaneColumnAt {
        LaneColumnAt { at: self.read(&inputs.rows), layer: inputs.layer }
    }

    /// The log-weights of the lanes of the inputs' layer.
    pub fn log_weights(&mut self, inputs: &'a LaneInputs) -> LaneColumnAt {
        LaneColumnAt { at: self.read(&inputs.log_weights), layer: inputs.layer }
    }

    /// The rows of a lane, which are only read.
    pub fn read_lane(&mut self, lane: &'a GraphLane) -> LaneAt {
        self.lane(lane, Operand::Read)
    }

    /// The rows of a lane, which are written too.
    pub fn write_lane(&mut self, lane: &'a GraphLane) -> LaneAt {
        self.lane(lane, Operand::Write)
    }

    fn lane(&mut self, lane: &'a GraphLane, operand: fn(&'a Tensor) -> Operand<'a>) -> LaneAt {
        let k = self.add(operand(&lane.k));
        let v = if lane.has_values_in_keys() { k } else { self.add(operand(&lane.v)) };
        LaneAt { heads: LaneHeads::of(lane), k, v }
    }

    /// Adds a node of these operands to the graph.
    pub fn node(&self, ctx: &Context, ty: Type, shape: impl Into<Shape>, node: impl Node) -> Tensor {
        let node = Arc::new(node);
        let on_device = node.clone();
        let work = move |task: &CustomTask| node.on_cpu(task);
        ctx.custom_on(ty, shape, &self.0, work, move |task| on_device.on_device(task))
    }

    /// Adds a node of these operands that only the CPU computes.
    pub fn cpu_node(&self, ctx: &Context, ty: Type, shape: impl Into<Shape>, node: impl CpuNode) -> Tensor {
        ctx.custom(ty, shape, &self.0, move |task| node.on_cpu(task))
    }
}

/// A node's task, on the CPU or on a device.
pub(super) trait Task {
    /// An operand, by its place in the list.
    fn at(&self, place: usize) -> RawTensor;
}

impl Task for CustomTask<'_> {
    fn at(&self, place: usize) -> RawTensor {
        self.operand(place)
    }
}

impl Task for DeviceTask {
    fn at(&self, place: usize) -> RawTensor {
        self.operand(place)
    }
}

/// The handle of an operand of any kind.
#[derive(Clone, Copy)]
pub(super) struct TensorAt(usize);

impl TensorAt {
    /// The operand.
    pub fn of(self, task: &impl Task) -> RawTensor {
        task.at(self.0)
    }

    /// Its K or V rows, on the CPU.
    pub fn rows<'a>(self, task: &CustomTask) -> RowTensor<'a> {
        let tensor = self.of(task);
        let bytes = tensor.strides[2] * tensor.shape[2];
        RowTensor {
            // SAFETY: lanes are [head_dim, capacity, heads] without gaps ([`checks::is_rows`](super::checks::is_rows));
            // nothing writes to them while the node runs.
            data: unsafe { from_raw_parts(tensor.data, bytes) },
            ty: row_type(tensor.ty).expect("lanes have row types"),
            row_stride: tensor.strides[1],
            head_stride: tensor.strides[2],
        }
    }

    /// All K or V rows of one head, on the CPU.
    ///
    /// # Safety
    /// No other reference to the head's rows is in use.
    pub unsafe fn head_rows<'a>(self, task: &CustomTask, head: usize) -> &'a mut [u8] {
        let tensor = self.of(task);
        assert!(head < tensor.shape[2]);
        // SAFETY: inside the tensor; exclusive by the caller's promise.
        unsafe {
            let at = tensor.data.add(head * tensor.strides[2]);
            from_raw_parts_mut(at, tensor.strides[1] * tensor.shape[1])
        }
    }

    /// Column `head` of numbers `[rows, heads]` f32, on the CPU.
    ///
    /// # Safety
    /// No other reference to the column is in use.
    pub unsafe fn column<'a>(self, task: &CustomTask, head: usize) -> &'a mut [f32] {
        // SAFETY: the caller's promise.
        unsafe { column(self.of(task), head) }
    }

    /// The vector of one head in sums `[head_dim, heads, 2]` f32, on the CPU; `which` is 0 for K, 1 for V.
    ///
    /// # Safety
    /// No other reference to the vector is in use.
    pub unsafe fn head_sum<'a>(self, task: &CustomTask, head: usize, which: usize) -> &'a mut [f32] {
        let sums = self.of(task);
        assert!(head < sums.shape[1] && which < sums.shape[2]);
        // SAFETY: inside the tensor; exclusive by the caller's promise.
        unsafe {
            let at = sums.data.add(head * sums.strides[1] + which * sums.strides[2]);
            from_raw_parts_mut(at.cast::<f32>(), sums.shape[0])
        }
    }
}

/// Column `head` of a tensor `[rows, heads]` f32.
///
/// # Safety
/// No other reference to the column is in use.
pub(super) unsafe fn column<'a>(tensor: RawTensor, head: usize) -> &'a mut [f32] {
    assert!(head < tensor.shape[1] && tensor.ty == Type::F32);
    // SAFETY: inside the tensor; exclusive by the caller's promise.
    unsafe { from_raw_parts_mut(tensor.data.add(head * tensor.strides[1]).cast(), tensor.shape[0]) }
}

/// The handle of numbers `[n]` i32.
#[derive(Clone, Copy)]
pub(super) struct NumbersAt(TensorAt);

impl NumbersAt {
    /// The numbers, on the CPU.
    pub fn read<'a>(self, task: &CustomTask) -> &'a [i32] {
        let tensor = self.0.of(task);
        // SAFETY: a contiguous i32 tensor ([`checks::is_vector`](super::checks::is_vector)), which nothing writes to
        // while the node runs.
        unsafe { from_raw_parts(tensor.data.cast(), tensor.shape[0]) }
    }

    /// Their address on a device.
    pub fn address(self, task: &DeviceTask) -> *const i32 {
        self.0.of(task).data.cast()
    }

    /// How many there are.
    pub fn count(self, task: &impl Task) -> usize {
        self.0.of(task).shape[0]
    }
}

/// The handle of numbers `[n]` f32.
#[derive(Clone, Copy)]
pub(super) struct FloatsAt(TensorAt);

impl FloatsAt {
    /// The numbers, on the CPU.
    pub fn read<'a>(self, task: &CustomTask) -> &'a [f32] {
        let tensor = self.0.of(task);
        // SAFETY: a contiguous f32 vector ([`checks::is`](super::checks::is)), which nothing writes to while the node
        // runs.
        unsafe { from_raw_parts(tensor.data.cast(), tensor.shape[0]) }
    }

    /// Their address on a device.
    pub fn address(self, task: &DeviceTask) -> *const f32 {
        self.0.of(task).data.cast()
    }
}

/// The address of an operand that a node may have; null where it has none.
pub(super) fn address_or_null(floats: Option<FloatsAt>, task: &DeviceTask) -> *const f32 {
    floats.map_or(null(), |floats| floats.address(task))
}

/// The handle of packed lists.
#[derive(Clone, Copy)]
pub(super) struct ListsAt {
    at: TensorAt,
    count: usize,
}

impl ListsAt {
    /// The lists, on the CPU.
    pub fn read<'a>(self, task: &CustomTask) -> Lists<'a> {
        Lists::new(NumbersAt(self.at).read(task), self.count)
    }

    /// Their address on a device.
    pub fn address(self, task: &DeviceTask) -> *const i32 {
        self.at.of(task).data.cast()
    }
}

/// The handle of a layer's column of a [`LaneInputs`] tensor `[MAX_LANES, layers]`.
#[derive(Clone, Copy)]
pub(super) struct LaneColumnAt {
    at: TensorAt,
    layer: usize,
}

impl LaneColumnAt {
    /// A number for each lane as bits, on the CPU.
    pub fn read(self, task: &CustomTask) -> [i32; MAX_LANES] {
        let (input, layer) = (self.at.of(task), self.layer);
        assert!(input.shape[0] == MAX_LANES && layer < input.shape[1], "lane inputs have the wrong shape");
        // SAFETY: inside the tensor (checked), 4-byte aligned.
        unsafe { input.data.add(layer * input.strides[1]).cast::<[i32; MAX_LANES]>().read() }
    }

    /// The address of the first lane's number on a device.
    pub fn address(self, task: &DeviceTask) -> Result<*mut u8, i32> {
        device_column(self.at.of(task), self.layer)
    }
}

/// The handle of vectors `[head_dim, heads, n]` f32, such as queries.
#[derive(Clone, Copy)]
pub(super) struct HeadsAt(TensorAt);

impl HeadsAt {
    /// The operand.
    pub fn of(self, task: &impl Task) -> RawTensor {
        self.0.of(task)
    }

    /// The vectors, on the CPU.
    pub fn read(self, task: &CustomTask) -> HeadVectors {
        let raw = self.of(task);
        assert!(
            raw.ty == Type::F32 && raw.strides[0] == 4,
            "vectors of heads are f32, their elements neighbours"
        );
        HeadVectors { raw, tokens: raw.shape[2] }
    }

    /// The vectors for a launcher. Strides are in floats.
    pub fn on_device(self, task: &DeviceTask) -> DeviceHeads {
        let raw = self.of(task);
        DeviceHeads {
            data: raw.data.cast(),
            head_stride: (raw.strides[1] / 4) as u64,
            token_stride: (raw.strides[2] / 4) as u64,
            tokens: raw.shape[2] as i32,
        }
    }
}

/// Vectors `[head_dim, heads, tokens]` f32.
pub(super) struct HeadVectors {
    raw: RawTensor,
    pub tokens: usize,
}

impl HeadVectors {
    /// The vector `[head_dim]` of a head and a token.
    pub fn get<'a>(&self, head: usize, token: usize) -> &'a [f32] {
        assert!(head < self.raw.shape[1] && token < self.tokens);
        // SAFETY: inside the tensor; nothing writes to it while the node runs.
        unsafe {
            let at = self.raw.data.add(head * self.raw.strides[1] + token * self.raw.strides[2]);
            from_raw_parts(at.cast::<f32>(), self.raw.shape[0])
        }
    }
}

/// Vectors `[head_dim, heads, tokens]` f32 on a device.
pub(super) struct DeviceHeads {
    pub data: *const f32,
    /// Floats from one head to the next.
    pub head_stride: u64,
    /// Floats from one token to the next.
    pub token_stride: u64,
    pub tokens: i32,
}

/// The handles of a lane's keys and values, and its heads.
#[derive(Clone)]
pub(super) struct LaneAt {
    pub heads: LaneHeads,
    pub k: TensorAt,
    /// The keys' where values are in the rows of keys.
    pub v: TensorAt,
}

impl LaneAt {
    /// Keys and values; the keys only, where values are in their rows.
    pub fn tensors(&self) -> &'static [Which] {
        if self.heads.values_in_keys { &[Which::K] } else { &[Which::K, Which::V] }
    }

    /// Keys or values.
    pub fn get(&self, which: Which) -> TensorAt {
        match which {
            Which::K => self.k,
            Which::V => self.v,
        }
    }
}

/// Keys or values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    K,
    V,
}

/// The lanes in the form of the launchers.
pub(super) fn device_lanes(task: &DeviceTask, lanes: &[LaneAt]) -> Result<device::Lanes, i32> {
    let heads: Vec<&LaneHeads> = lanes.iter().map(|lane| &lane.heads).collect();
    let mut all = super::launch::device_heads(&heads)?;
    for (number, (to, lane)) in all.lanes.iter_mut().zip(lanes).enumerate() {
        let (k, v) = (lane.k.of(task), lane.v.of(task));
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
