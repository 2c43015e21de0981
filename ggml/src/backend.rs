//! What computes graphs: the CPU with ggml's own thread pool, or a device. ggml's backend of a device knows nothing of our own
//! operations, so a device's graph is computed in stretches: ggml's nodes by ggml, the operations between them by their device
//! twins, all on one stream.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ggml_sys as sys;

use crate::budget::Budget;
#[cfg(feature = "cuda")]
use crate::cuda::stream::{Recording, Stream, multiprocessors, use_gpu};
use crate::{BufferType, DeviceTask, Error, ReadyGraph, Type, fatal, log};

/// A running backend.
pub struct Backend {
    raw: NonNull<sys::ggml_backend>,
    /// ggml's threads, where the CPU computes.
    pool: Option<Pool>,
    /// `None` is the CPU.
    device: Option<Device>,
    interrupt: Arc<AtomicBool>,
    budget: Option<Rc<Budget>>,
    /// After how many operations of our own an emulated device is lost.
    loss: Cell<Option<usize>>,
}

/// What computes our own operations by their device twins.
enum Device {
    /// The CPU pretending.
    Emulated,
    /// A GPU.
    #[cfg(feature = "cuda")]
    Cuda(Stream),
}

/// How far a graph that a GPU computes again and again has come.
#[cfg(feature = "cuda")]
#[derive(Default)]
pub(crate) enum Repeated {
    /// It was never computed.
    #[default]
    Never,
    /// It was computed once.
    Once,
    /// It was recorded. What ggml allocates for the length of an operation is recorded by its address: ggml keeps such memory for the
    /// next operation, and gives it up only where the GPU has none left, which a budget below what was free prevents.
    Recorded(Recording),
    /// It cannot be recorded.
    Unrecorded,
}

struct Pool {
    raw: NonNull<sys::ggml_threadpool>,
    threads: usize,
}

impl Drop for Backend {
    fn drop(&mut self) {
        // SAFETY: owned and freed once, before the pool that it uses (a field).
        unsafe { sys::ggml_backend_free(self.raw.as_ptr()) };
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: owned and freed once.
        unsafe { sys::ggml_threadpool_free(self.raw.as_ptr()) };
    }
}

impl Backend {
    /// The CPU with `threads` threads (at least one). Setting `interrupt` stops a computation at
    /// the next operation with [`Error::Interrupted`].
    pub fn cpu(threads: usize, interrupt: Arc<AtomicBool>) -> Result<Backend, Error> {
        log::install();
        let threads = threads.clamp(1, sys::GGML_MAX_N_THREADS as usize);
        // SAFETY: no preconditions; null is checked.
        unsafe {
            let raw = NonNull::new(sys::ggml_backend_cpu_init()).ok_or(Error::Backend("CPU"))?;
            let mut params = sys::ggml_threadpool_params_default(threads as i32);
            let Some(pool) = NonNull::new(sys::ggml_threadpool_new(&mut params)) else {
                sys::ggml_backend_free(raw.as_ptr());
                return Err(Error::Backend("CPU"));
            };
            sys::ggml_backend_cpu_set_n_threads(raw.as_ptr(), threads as i32);
            sys::ggml_backend_cpu_set_threadpool(raw.as_ptr(), pool.as_ptr());
            let pool = Some(Pool { raw: pool, threads });
            let backend = Backend { raw, pool, device: None, interrupt, budget: None, loss: Cell::new(None) };
            backend.watch_interrupt(true);
            Ok(backend)
        }
    }

    /// A device that the host emulates: ggml's operations are the CPU's, our own are the device twins, compiled for the host. For
    /// tests of everything that a device does, where there is none. At most `memory` bytes are allocated on it.
    pub fn emulated(interrupt: Arc<AtomicBool>, memory: Option<usize>) -> Result<Backend, Error> {
        let mut backend = Backend::cpu(1, interrupt)?;
        backend.device = Some(Device::Emulated);
        backend.budget = memory.map(Budget::new);
        Ok(backend)
    }

    /// GPU number `index` of CUDA's, of whose memory at most `memory` bytes are allocated. Setting `interrupt` stops a computation
    /// between two operations of our own.
    #[cfg(feature = "cuda")]
    pub fn cuda(index: usize, interrupt: Arc<AtomicBool>, memory: Option<usize>) -> Result<Backend, Error> {
        log::install();
        let gpus = crate::devices()?;
        let gpu = gpus.get(index).ok_or(Error::NoSuchGpu { index, gpus: gpus.len() })?;
        if let Some(problem) = &gpu.problem {
            return Err(problem.clone().into());
        }
        // SAFETY: a number of a GPU that can compute; null is checked.
        let raw = unsafe { sys::ggml_backend_cuda_init(index as i32) };
        let raw = NonNull::new(raw).ok_or(Error::Backend("CUDA"))?;
        let mut backend = Backend {
            raw,
            pool: None,
            device: None,
            interrupt,
            budget: memory.map(Budget::new),
            loss: Cell::new(None),
        };
        // SAFETY: a live CUDA backend, which frees the stream when it is dropped.
        let stream = unsafe { Stream::of(raw.as_ptr()) }.ok_or(Error::Backend("CUDA"))?;
        backend.device = Some(Device::Cuda(stream));
        Ok(backend)
    }

    /// As with the feature `cuda`, without which there is no GPU.
    #[cfg(not(feature = "cuda"))]
    pub fn cuda(_: usize, _: Arc<AtomicBool>, _: Option<usize>) -> Result<Backend, Error> {
        Err(crate::NoCuda::NotBuilt.into())
    }

    /// Has an emulated device be lost after so many operations of our own, for tests of what happens then.
    pub fn lose_after(&self, operations: usize) {
        self.loss.set(Some(operations));
    }

    /// Refuses matrices of type `ty` that this backend could multiply with many vectors only with a library that is not there. To be
    /// asked before any work: ggml would end the process.
    pub fn check_products(&self, ty: Type) -> Result<(), Error> {
        match &self.device {
            #[cfg(feature = "cuda")]
            Some(Device::Cuda(_)) => crate::cuda::check_products(ty),
            _ => {
                let _ = ty;
                Ok(())
            }
        }
    }

    /// Memory this backend computes in.
    pub fn buffer_type(&self) -> BufferType {
        // SAFETY: live backend; the type is static.
        let raw = unsafe { sys::ggml_backend_get_default_buffer_type(self.raw.as_ptr()) };
        BufferType::from_raw(raw).within(self.budget.clone())
    }

    /// Bytes of its memory taken now and the most there were, where a bound is set.
    pub fn memory_used(&self) -> Option<(usize, usize)> {
        self.budget.as_ref().map(|budget| budget.used())
    }

    /// How many parts work on a device is split into at most: four blocks a multiprocessor. A launcher that finds room for fewer
    /// starts fewer.
    pub fn blocks(&self) -> usize {
        match &self.device {
            #[cfg(feature = "cuda")]
            // SAFETY: a live CUDA backend.
            Some(Device::Cuda(_)) => 4 * unsafe { multiprocessors(self.raw.as_ptr()) },
            _ => 6,
        }
    }

    /// Bytes of its memory that may still be taken, where a bound is set.
    pub fn memory_left(&self) -> Option<usize> {
        self.budget.as_ref().map(|budget| budget.left())
    }

    /// Number of threads on the host that compute.
    pub fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, |pool| pool.threads)
    }

    /// Computes the graph; returns when its results are ready.
    pub fn compute(&self, graph: &ReadyGraph) -> Result<(), Error> {
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        self.run(graph, true)
    }

    /// Computes the graph whatever the interrupt flag says: for changes that must not stop half way.
    pub fn compute_to_end(&self, graph: &ReadyGraph) -> Result<(), Error> {
        self.watch_interrupt(false);
        let result = self.run(graph, false);
        self.watch_interrupt(true);
        result
    }

    fn watch_interrupt(&self, watch: bool) {
        let flag = Arc::as_ptr(&self.interrupt).cast_mut().cast();
        let (callback, data): (sys::ggml_abort_callback, _) =
            if watch { (Some(interrupted), flag) } else { (None, std::ptr::null_mut()) };
        if self.pool.is_some() {
            // SAFETY: a live CPU backend; the flag is owned by `self`, which frees the backend before the flag is dropped.
            unsafe { sys::ggml_backend_cpu_set_abort_callback(self.raw.as_ptr(), callback, data) };
        }
    }

    fn run(&self, graph: &ReadyGraph, interruptible: bool) -> Result<(), Error> {
        let done = self.run_graph(graph, interruptible);
        if let Err(error @ Error::Device(_)) = &done {
            fatal::raise(&error.to_string());
        }
        done
    }

    fn run_graph(&self, graph: &ReadyGraph, interruptible: bool) -> Result<(), Error> {
        let raw = graph.raw()?;
        match &self.device {
            // SAFETY: the graph's nodes have memory, or it would not be a ReadyGraph, and all memory
            // they refer to is kept by the graph's context.
            None => check(unsafe { sys::ggml_backend_graph_compute(self.raw.as_ptr(), raw) }),
            Some(Device::Emulated) => self.launch(graph, raw, std::ptr::null_mut(), interruptible),
            #[cfg(feature = "cuda")]
            Some(Device::Cuda(stream)) => {
                // SAFETY: a live CUDA backend.
                unsafe { use_gpu(self.raw.as_ptr()) }?;
                let started = self.start(*stream, graph, raw, interruptible);
                stream.wait()?;
                started
            }
        }
    }

    /// Starts a graph on a GPU. One that is computed again is recorded the second time (the first time, ggml may allocate) and
    /// repeated from then on; one that cannot be recorded is launched anew every time.
    #[cfg(feature = "cuda")]
    fn start(
        &self,
        stream: Stream,
        graph: &ReadyGraph,
        raw: *mut sys::ggml_cgraph,
        interruptible: bool,
    ) -> Result<(), Error> {
        let launch = |interruptible| self.launch(graph, raw, stream.raw(), interruptible);
        let mut repeated = graph.repeated.borrow_mut();
        if let Repeated::Once = &*repeated {
            *repeated = stream.record(|| launch(false)).map_or_else(
                |error| {
                    log::keep(&format!("a graph is launched operation by operation: {error}"));
                    Repeated::Unrecorded
                },
                Repeated::Recorded,
            );
        }
        match &*repeated {
            Repeated::Never => {
                *repeated = Repeated::Once;
                launch(interruptible)
            }
            // SAFETY: the graph is not stale (`run` asked), so its memory is there; its context keeps everything else.
            Repeated::Recorded(recording) => unsafe { recording.start(stream) },
            Repeated::Once | Repeated::Unrecorded => launch(interruptible),
        }
    }

    /// Starts everything that the graph consists of, in order. Waits for nothing: it may be recorded.
    fn launch(
        &self,
        graph: &ReadyGraph,
        raw: *mut sys::ggml_cgraph,
        stream: *mut c_void,
        interruptible: bool,
    ) -> Result<(), Error> {
        let launches = graph.context().launches.borrow();
        // SAFETY: a live graph.
        let nodes = unsafe { sys::ggml_graph_n_nodes(raw) };
        let mut first = 0;
        for number in 0..=nodes {
            let own = (number < nodes)
                // SAFETY: a node of the live graph.
                .then(|| unsafe { sys::ggml_graph_node(raw, number) })
                // SAFETY: as above.
                .filter(|node| unsafe { (**node).op } == sys::GGML_OP_CUSTOM);
            if own.is_none() && number < nodes {
                continue;
            }
            if first < number {
                // SAFETY: live backend and graph, nodes of that graph; as in `run`.
                check(unsafe { sys::longhand_compute_segment(self.raw.as_ptr(), raw, first, number) })?;
            }
            first = number + 1;
            let Some(node) = own else { break };
            if interruptible && self.interrupt.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            match self.loss.get() {
                Some(0) => return Err(Error::Device("it was lost".into())),
                left => self.loss.set(left.map(|left| left - 1)),
            }
            let launch = NonNull::new(node).and_then(|node| launches.get(&node));
            let task =
                DeviceTask { raw: node, stream, emulated: matches!(self.device, Some(Device::Emulated)) };
            match launch.map(|launch| launch(&task)) {
                Some(Ok(())) => {}
                Some(Err(code)) => {
                    return Err(Error::Device(refusal(code)));
                }
                None => return Err(Error::Device("an operation has no device twin".into())),
            }
        }
        Ok(())
    }
}

fn refusal(code: i32) -> String {
    #[cfg(feature = "cuda")]
    let text = format!(" ({})", crate::cuda::error_text(code));
    #[cfg(not(feature = "cuda"))]
    let text = "";
    format!("an operation was refused with error {code}{text}")
}

fn check(status: sys::ggml_status) -> Result<(), Error> {
    match status {
        sys::GGML_STATUS_SUCCESS => Ok(()),
        sys::GGML_STATUS_ABORTED => Err(Error::Interrupted),
        status => {
            let details: String = log::take().iter().map(|line| format!("\n{line}")).collect();
            Err(Error::Compute(status, details))
        }
    }
}

unsafe extern "C" fn interrupted(flag: *mut c_void) -> bool {
    // SAFETY: points to the AtomicBool owned by the backend that is computing.
    unsafe { (*flag.cast::<AtomicBool>()).load(Ordering::Relaxed) }
}
