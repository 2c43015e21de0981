//! Operations of our own inside a graph. Each has a CPU implementation, a closure that all threads of the
//! backend call, and may have a device implementation, which [`Backend::compute`](crate::Backend::compute)
//! calls where a device computes the graph.

use std::ffi::c_void;
use std::sync::Arc;

use ggml_sys as sys;

use crate::context::Use;
use crate::{Context, Shape, Tensor, Type};

/// A tensor as a custom operation sees it: address, shape, strides.
#[derive(Clone, Copy, Debug)]
pub struct RawTensor {
    /// First element.
    pub data: *mut u8,
    /// Element type.
    pub ty: Type,
    /// Extents, fastest first.
    pub shape: [usize; 4],
    /// Bytes between neighbours along each dimension.
    pub strides: [usize; 4],
}

/// One thread's share of a custom operation.
pub struct CustomTask {
    raw: *mut sys::ggml_tensor,
    /// This thread's number.
    pub thread: usize,
    /// How many threads share the operation.
    pub threads: usize,
}

impl CustomTask {
    /// Where the result goes.
    pub fn result(&self) -> RawTensor {
        // SAFETY: ggml passes the live tensor that is being computed.
        view(unsafe { &*self.raw })
    }

    /// Operand `i`, in the order they were given.
    pub fn operand(&self, i: usize) -> RawTensor {
        // SAFETY: custom operations are built with all operands set; a wrong index is caught.
        let source = unsafe { (*self.raw).src[i] };
        assert!(!source.is_null(), "custom operation has no operand {i}");
        // SAFETY: operands live as long as the graph.
        view(unsafe { &*source })
    }
}

/// A custom operation to be launched on a device. All addresses are the device's.
pub struct DeviceTask {
    pub(crate) raw: *mut sys::ggml_tensor,
    pub(crate) stream: *mut c_void,
}

impl DeviceTask {
    /// Where the result goes.
    pub fn result(&self) -> RawTensor {
        CustomTask { raw: self.raw, thread: 0, threads: 1 }.result()
    }

    /// Operand `i`, in the order they were given.
    pub fn operand(&self, i: usize) -> RawTensor {
        CustomTask { raw: self.raw, thread: 0, threads: 1 }.operand(i)
    }

    /// The CUDA stream on which the work is to be launched; null on the emulated device.
    pub fn stream(&self) -> *mut c_void {
        self.stream
    }

    /// Whether the device is emulated by the host.
    pub fn emulated(&self) -> bool {
        self.stream.is_null()
    }
}

fn view(tensor: &sys::ggml_tensor) -> RawTensor {
    RawTensor {
        data: tensor.data.cast(),
        ty: Type::from_raw(tensor.type_),
        shape: tensor.ne.map(|n| n as usize),
        strides: tensor.nb,
    }
}

type Work = Box<dyn Fn(&CustomTask) + Send + Sync>;

/// Launches a custom operation on a device. The error is CUDA's number for it.
pub(crate) type Launch = Box<dyn Fn(&DeviceTask) -> Result<(), i32> + Send + Sync>;

impl Context {
    /// An operation that the CPU computes by `work` (see [`Context::custom`]) and a device by `launch`, which
    /// launches work on the task's stream. `launch` must not wait, allocate or copy from the host: where a
    /// graph is computed again, its launches are recorded once and repeated. The error of `launch` is CUDA's
    /// number.
    pub fn custom_on(
        &self,
        ty: Type,
        shape: impl Into<Shape>,
        operands: &[&Tensor],
        work: impl Fn(&CustomTask) + Send + Sync + 'static,
        launch: impl Fn(&DeviceTask) -> Result<(), i32> + Send + Sync + 'static,
    ) -> Tensor {
        let node = self.custom(ty, shape, operands, work);
        self.inner.write().parts.launches.insert(node.raw, Box::new(launch));
        node
    }

    /// An operation that only the CPU can compute. `work` is called once on each of the backend's threads;
    /// all calls return before the next operation starts. At most 10 operands.
    ///
    /// `work` may write to the operands unless they lie in read-only memory. It must not access tensors of
    /// the graph by other ways than its task: they are locked while the graph is computed.
    pub fn custom(
        &self,
        ty: Type,
        shape: impl Into<Shape>,
        operands: &[&Tensor],
        work: impl Fn(&CustomTask) + Send + Sync + 'static,
    ) -> Tensor {
        let shape = shape.into();
        let fits = operands.len() <= sys::GGML_MAX_SRC as usize
            && shape.0[0].is_multiple_of(ty.block_elements())
            && shape.bytes(ty).is_some();
        let work: Arc<Work> = Arc::new(Box::new(work));
        let data = Arc::as_ptr(&work).cast_mut().cast::<c_void>();
        self.inner.write().keep(work);
        let inputs: Vec<(&Tensor, Use)> = operands.iter().map(|&operand| (operand, Use::Custom)).collect();
        self.op_using("custom", &inputs, fits, |raw| {
            let [n0, n1, n2, n3] = shape.0.map(|n| n as i64);
            // SAFETY: at most GGML_MAX_SRC live operands, for which a tensor has places; ggml itself, which
            // would set them, aborts where all are taken. The closure is kept by this context, which outlives
            // every graph made from it.
            unsafe {
                let node = sys::ggml_custom_4d(
                    raw,
                    ty.raw(),
                    n0,
                    n1,
                    n2,
                    n3,
                    std::ptr::null_mut(),
                    0,
                    Some(trampoline),
                    sys::GGML_N_TASKS_MAX,
                    data,
                );
                for (source, operand) in (*node).src.iter_mut().zip(operands) {
                    *source = operand.raw.as_ptr();
                }
                node
            }
        })
    }
}

unsafe extern "C" fn trampoline(raw: *mut sys::ggml_tensor, thread: i32, threads: i32, data: *mut c_void) {
    // SAFETY: `data` is the closure boxed in `custom`, alive as long as the graph; it is Sync, and
    // a panic in it aborts at this extern "C" function instead of unwinding into C.
    let work = unsafe { &*data.cast::<Work>() };
    work(&CustomTask { raw, thread: thread as usize, threads: threads as usize });
}
