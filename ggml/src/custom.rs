//! Operations of our own inside a graph. Each has a CPU implementation, a closure that all threads of the
//! backend call, and may have a device implementation, which [`Backend::compute`](crate::Backend::compute)
//! calls where a device computes the graph.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use ggml_sys as sys;

use crate::{Context, Operand, Shape, Tensor, Type};

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
pub struct CustomTask<'a> {
    raw: *mut sys::ggml_tensor,
    failure: &'a Failure,
    /// This thread's number.
    pub thread: usize,
    /// How many threads share the operation.
    pub threads: usize,
}

impl CustomTask<'_> {
    /// Where the result goes.
    pub fn result(&self) -> RawTensor {
        // SAFETY: ggml passes the live tensor that is being computed.
        view(unsafe { &*self.raw })
    }

    /// Operand `i`, in the order they were given. Panics if there are not so many.
    pub fn operand(&self, i: usize) -> RawTensor {
        // SAFETY: as above.
        unsafe { operand(self.raw, i) }
    }

    /// Reports that the operation cannot be computed. The computation goes on, and then returns
    /// [`Error::Failed`](crate::Error::Failed) with the first problem that was reported.
    pub fn fail(&self, problem: String) {
        self.failure.report(problem);
    }
}

/// The first problem that the custom operations of a computation reported.
#[derive(Default)]
pub(crate) struct Failure(Mutex<Option<String>>);

impl Failure {
    fn report(&self, problem: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(problem);
    }

    /// Takes the problem, if there is one.
    pub(crate) fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
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
        // SAFETY: a live tensor of the graph that is being computed.
        view(unsafe { &*self.raw })
    }

    /// Operand `i`, in the order they were given. Panics if there are not so many.
    pub fn operand(&self, i: usize) -> RawTensor {
        // SAFETY: as above.
        unsafe { operand(self.raw, i) }
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

/// # Safety
/// `node` is a live custom operation.
unsafe fn operand(node: *mut sys::ggml_tensor, i: usize) -> RawTensor {
    // SAFETY: the caller's promise; operands that are not set are null.
    let source = unsafe { (*node).src }.get(i).copied().filter(|source| !source.is_null());
    let source = source.unwrap_or_else(|| panic!("a custom operation has no operand {i}"));
    // SAFETY: operands live as long as the graph.
    view(unsafe { &*source })
}

fn view(tensor: &sys::ggml_tensor) -> RawTensor {
    RawTensor {
        data: tensor.data.cast(),
        ty: Type::from_raw(tensor.type_),
        shape: tensor.ne.map(|n| n as usize),
        strides: tensor.nb,
    }
}

/// The CPU implementation of a custom operation.
struct Work {
    run: Box<dyn Fn(&CustomTask) + Send + Sync>,
    failure: Arc<Failure>,
}

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
        operands: &[Operand],
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
    /// `work` may write to the result and to operands that are given as [`Operand::Write`]. It must not access
    /// tensors of the graph by other ways than its task: they are locked while the graph is computed. If it
    /// panics, the computation fails as if it had called [`CustomTask::fail`].
    pub fn custom(
        &self,
        ty: Type,
        shape: impl Into<Shape>,
        operands: &[Operand],
        work: impl Fn(&CustomTask) + Send + Sync + 'static,
    ) -> Tensor {
        let shape = shape.into();
        let fits = operands.len() <= sys::GGML_MAX_SRC as usize && shape.bytes(ty).is_some();
        let work = Arc::new(Work { run: Box::new(work), failure: self.inner.failure.clone() });
        let data = Arc::as_ptr(&work).cast_mut().cast::<c_void>();
        self.inner.write().keep(work);
        self.op_using("custom", operands, fits, |raw| {
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
                    *source = operand.tensor().raw.as_ptr();
                }
                node
            }
        })
    }
}

unsafe extern "C" fn trampoline(raw: *mut sys::ggml_tensor, thread: i32, threads: i32, data: *mut c_void) {
    // SAFETY: `data` was made by `custom`; it is alive as long as the graph and is Sync.
    let work = unsafe { &*data.cast::<Work>() };
    let task = CustomTask { raw, failure: &work.failure, thread: thread as usize, threads: threads as usize };
    // A panic must not unwind into C. What the closure leaves half done is only data of the failed graph.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (work.run)(&task))) {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
        task.fail(text.to_owned());
    }
}
