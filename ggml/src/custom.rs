//! Operations of our own inside a graph: closures that the CPU's threads share, and beside them *device twins*, which
//! [`Backend::compute`](crate::Backend::compute) calls where a device computes the graph.

use std::ffi::c_void;
use std::rc::Rc;

use ggml_sys as sys;

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

/// A custom operation as a device is asked to compute it. Its addresses are the device's own.
pub struct DeviceTask {
    pub(crate) raw: *mut sys::ggml_tensor,
    pub(crate) stream: *mut c_void,
    pub(crate) emulated: bool,
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

    /// Puts `work` behind what was launched, on the mock of a GPU: it computes there what the launched kernel would have.
    #[cfg(feature = "mock-cuda")]
    pub fn follow(&self, work: impl Fn() + 'static) {
        unsafe extern "C" {
            /// See mock/stretch.cpp.
            fn longhand_mock_check(node: *const sys::ggml_tensor);
            /// See mock/runtime.cpp.
            fn longhand_mock_follow(
                stream: *mut c_void,
                work: unsafe extern "C" fn(*mut c_void),
                data: *mut c_void,
                drop: unsafe extern "C" fn(*mut c_void),
            );
        }
        unsafe extern "C" fn call<F: Fn()>(work: *mut c_void) {
            // SAFETY: the closure boxed below.
            unsafe { (*work.cast::<F>())() }
        }
        unsafe extern "C" fn free<F: Fn()>(work: *mut c_void) {
            // SAFETY: the closure boxed below, given up once.
            drop(unsafe { Box::from_raw(work.cast::<F>()) });
        }
        fn both<F: Fn()>(_: &F) -> [unsafe extern "C" fn(*mut c_void); 2] {
            [call::<F>, free::<F>]
        }
        // SAFETY: the live node.
        unsafe { longhand_mock_check(self.raw) };
        let [call, free] = both(&work);
        // SAFETY: a live stream of the mock; the functions are those of the closure's type.
        unsafe { longhand_mock_follow(self.stream, call, Box::into_raw(Box::new(work)).cast(), free) };
    }

    /// Whether the device is the host pretending: see [`Backend::emulated`](crate::Backend::emulated).
    pub fn emulated(&self) -> bool {
        self.emulated
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

/// What launches a custom operation on a device. The error is CUDA's number for it.
///
/// It may not wait, allocate or copy from the host: the launches of a step are recorded once and repeated.
pub(crate) type Launch = Rc<dyn Fn(&DeviceTask) -> Result<(), i32>>;

impl Context {
    /// An operation that the CPU computes by `work` (see [`Context::custom`]) and a device by `launch`, which is called once and
    /// launches work on the task's stream. It may not wait, allocate, or copy from the host: the launches of a graph that is
    /// computed again and again are recorded and repeated. Its error is CUDA's number.
    pub fn custom_on(
        &self,
        ty: Type,
        shape: impl Into<Shape>,
        operands: &[&Tensor],
        work: impl Fn(&CustomTask) + Send + Sync + 'static,
        launch: impl Fn(&DeviceTask) -> Result<(), i32> + 'static,
    ) -> Tensor {
        let node = self.custom(ty, shape, operands, work);
        self.inner.launches.borrow_mut().insert(node.raw, Rc::new(launch));
        node
    }

    /// An operation computed by `work`, called once per thread with the threads of the backend;
    /// only the CPU backend can compute it. All calls return before the next operation starts.
    /// At most 10 operands.
    pub fn custom(
        &self,
        ty: Type,
        shape: impl Into<Shape>,
        operands: &[&Tensor],
        work: impl Fn(&CustomTask) + Send + Sync + 'static,
    ) -> Tensor {
        let shape = shape.into();
        let fits =
            operands.len() <= sys::GGML_MAX_SRC as usize && shape.0[0].is_multiple_of(ty.block_elements());
        let work: Rc<Work> = Rc::new(Box::new(work));
        let data = Rc::as_ptr(&work).cast_mut().cast::<c_void>();
        self.keep(work);
        self.op("custom", operands, fits, |raw| {
            let [n0, n1, n2, n3] = shape.0.map(|n| n as i64);
            // SAFETY: at most GGML_MAX_SRC live operands, for which a tensor has places; ggml itself, which would set them,
            // aborts where all are taken. The closure is kept by this context, which outlives every graph made from it.
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
                for (place, operand) in (*node).src.iter_mut().zip(operands) {
                    *place = operand.raw.as_ptr();
                }
                node
            }
        })
    }
}

unsafe extern "C" fn trampoline(raw: *mut sys::ggml_tensor, thread: i32, threads: i32, data: *mut c_void) {
    // SAFETY: `data` is the closure boxed in `custom`, alive as long as the graph; it is Sync, and
    // a panic in it aborts at this extern "C" border instead of unwinding into C.
    let work = unsafe { &*data.cast::<Work>() };
    work(&CustomTask { raw, thread: thread as usize, threads: threads as usize });
}
