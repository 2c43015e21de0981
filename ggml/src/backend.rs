//! What computes graphs: the CPU with ggml's own thread pool, or a device.
//!
//! ggml's backend of a device knows nothing of our own operations. So a device's graph is computed in
//! segments: ggml computes the runs of its own nodes, and the operations between them are launched by their
//! device implementations, all on one stream.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ggml_sys as sys;

use crate::budget::Budget;
use crate::context::GraphParts;
#[cfg(feature = "cuda")]
use crate::cuda::{
    self,
    stream::{Stream, multiprocessors},
};
use crate::faults::Faults;
use crate::graph::GraphNodes;
#[cfg(feature = "cuda")]
use crate::recording::RecordingState;
#[cfg(feature = "rpc")]
use crate::rpc;
use crate::{BufferType, DeviceTask, Error, Graph, InterruptFlag, ReadyGraph, Type, fatal, log, running};

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// A running backend. Threads that share it compute one after the other.
pub struct Backend {
    raw: NonNull<sys::ggml_backend>,
    /// ggml's threads, where the CPU computes.
    pool: Option<Pool>,
    /// `None` is the CPU.
    device: Option<Device>,
    budget: Option<Arc<Budget>>,
    /// Different for every backend of the process, and not 0.
    number: u64,
    /// Held while a graph is computed.
    computing: Mutex<()>,
    faults: Faults,
}

// SAFETY: ggml binds no backend to a thread. Its backend and thread pool are changed only by computing, under the lock
// `computing`; all other calls read what never changes. CUDA's streams take copies and waits from any thread (`running`).
// A GPU is made the calling thread's before each use.
unsafe impl Send for Backend {}
// SAFETY: as above.
unsafe impl Sync for Backend {}

/// What is asked after each operation of a computation whether to stop.
struct Watch<'a> {
    flag: &'a InterruptFlag,
    faults: &'a Faults,
}

impl Watch<'_> {
    fn count_operation(&self) {
        self.faults.count_interruptible(self.flag);
    }
}

/// What computes our own operations by their device implementations.
enum Device {
    /// The host, for tests.
    Emulated,
    /// A backend that computes ggml's operations only. Here it is the CPU, for tests.
    Portable,
    /// A GPU.
    #[cfg(feature = "cuda")]
    Cuda(Stream),
    /// A GPU that ggml's CUDA backend computes on by HIP.
    #[cfg(feature = "hip")]
    Hip,
    /// The GPU that ggml's Metal backend computes on.
    #[cfg(feature = "metal")]
    Metal,
    /// A GPU that ggml's Vulkan backend computes on.
    #[cfg(feature = "vulkan")]
    Vulkan,
    /// A device of another machine.
    #[cfg(feature = "rpc")]
    Rpc(Arc<rpc::Client>),
}

/// When a computation returns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// When its results are ready.
    Computed,
    /// With CUDA when it is started, and the one before it is computed. Elsewhere as `Computed`.
    Started,
}

/// ggml's threads.
struct Pool {
    raw: NonNull<sys::ggml_threadpool>,
    threads: usize,
}

impl Drop for Backend {
    fn drop(&mut self) {
        // A GPU that failed computes nothing any more.
        let _ = self.wait();
        #[cfg(feature = "rpc")]
        if let Some(Device::Rpc(_)) = &self.device {
            // SAFETY: a live backend. Its server is sent what is queued for it.
            unsafe { sys::ggml_backend_synchronize(self.raw.as_ptr()) };
        }
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
    /// The CPU with `threads` threads (at least one).
    ///
    /// # Errors
    /// Where the threads cannot be started.
    pub fn cpu(threads: usize) -> Result<Backend, Error> {
        crate::listen();
        let threads = threads.clamp(1, sys::GGML_MAX_N_THREADS as usize);
        crate::threads::check(threads)?;
        // SAFETY: no preconditions; null is checked.
        unsafe {
            let raw = NonNull::new(sys::ggml_backend_cpu_init()).ok_or(Error::Backend("CPU"))?;
            let mut params = sys::ggml_threadpool_params_default(threads as i32);
            // Steps of waiting for a graph before a thread sleeps until there is one, in units of 131,072: some
            // 50 ms, more than there is between two tokens (ggml/sys/cpu/relax.c).
            params.poll = 1;
            let pool = crate::threads::starting(threads, || sys::ggml_threadpool_new(&mut params));
            let Some(pool) = NonNull::new(pool) else {
                sys::ggml_backend_free(raw.as_ptr());
                return Err(Error::Backend("CPU"));
            };
            sys::ggml_backend_cpu_set_n_threads(raw.as_ptr(), threads as i32);
            sys::ggml_backend_cpu_set_threadpool(raw.as_ptr(), pool.as_ptr());
            Ok(Backend::new(raw, Some(Pool { raw: pool, threads }), None))
        }
    }

    fn new(raw: NonNull<sys::ggml_backend>, pool: Option<Pool>, memory: Option<usize>) -> Backend {
        Backend {
            raw,
            pool,
            device: None,
            budget: memory.map(Budget::new),
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            computing: Mutex::new(()),
            faults: Faults::none(),
        }
    }

    /// A device that the host emulates, for tests: ggml's operations are computed by the CPU, our own by their device
    /// implementations, where the process has them for the host (`emulator::install`). Elsewhere they are refused. At most
    /// `memory` bytes are allocated on it.
    #[doc(hidden)]
    pub fn emulated(memory: Option<usize>) -> Result<Backend, Error> {
        let mut backend = Backend::cpu(1)?;
        backend.device = Some(Device::Emulated);
        backend.budget = memory.map(Budget::new);
        Ok(backend)
    }

    /// A device like those of ggml's other backends, for tests: the CPU computes ggml's operations, and ours are refused. Its
    /// memory holds NaN when it is allocated. At most `memory` bytes are allocated on it.
    #[doc(hidden)]
    pub fn portable(memory: Option<usize>) -> Result<Backend, Error> {
        let mut backend = Backend::cpu(1)?;
        backend.device = Some(Device::Portable);
        backend.budget = memory.map(Budget::new);
        Ok(backend)
    }

    /// An error if this backend cannot compute some operation of a graph, which need not have memory yet.
    pub fn check_operations(&self, graph: &Graph) -> Result<(), Error> {
        graph.check_all_operations(self.raw, self.has_own_operations())
    }

    /// Whether it computes operations of our own, and not ggml's alone. On another machine, an operation of our own would be
    /// a jump to an address of this process.
    pub fn has_own_operations(&self) -> bool {
        match self.device {
            Some(Device::Portable) => false,
            #[cfg(feature = "hip")]
            Some(Device::Hip) => false,
            #[cfg(feature = "metal")]
            Some(Device::Metal) => false,
            #[cfg(feature = "vulkan")]
            Some(Device::Vulkan) => false,
            #[cfg(feature = "rpc")]
            Some(Device::Rpc(_)) => false,
            _ => true,
        }
    }

    /// A device of another machine, by its number among those of [`rpc::add_servers`], of whose memory at most `memory` bytes
    /// are allocated. Connects to its server, unless another backend has a connection.
    ///
    /// # Errors
    /// Where there is no such device, or its server cannot be used.
    #[cfg(feature = "rpc")]
    pub fn rpc(index: usize, memory: Option<usize>) -> Result<Backend, Error> {
        crate::listen();
        let (raw, client) = rpc::start(index)?;
        let mut backend = Backend::new(raw, None, memory);
        backend.device = Some(Device::Rpc(client));
        Ok(backend)
    }

    /// Bytes that were sent to another machine, and received from there; `None` where this one computes. Backends of one
    /// server share a connection.
    #[cfg(feature = "rpc")]
    pub fn traffic(&self) -> Option<(u64, u64)> {
        match &self.device {
            Some(Device::Rpc(client)) => Some(client.traffic()),
            _ => None,
        }
    }

    /// ggml's number of custom operations, for tests of what servers refuse.
    #[cfg(feature = "rpc")]
    #[doc(hidden)]
    pub const CUSTOM_OPERATION: u32 = sys::GGML_OP_CUSTOM;

    /// ggml's backend, for as long as this lives.
    #[cfg(feature = "rpc")]
    pub(crate) fn raw(&self) -> sys::ggml_backend_t {
        self.raw.as_ptr()
    }

    /// GPU number `index` in CUDA's order, of whose memory at most `memory` bytes are allocated.
    #[cfg(feature = "cuda")]
    pub fn cuda(index: usize, memory: Option<usize>) -> Result<Backend, Error> {
        crate::listen();
        let gpus = crate::devices()?;
        let gpu = gpus.get(index).ok_or(Error::NoSuchGpu { index, gpus: gpus.len() })?;
        if let Some(problem) = &gpu.problem {
            return Err(problem.clone().into());
        }
        // SAFETY: a number of a GPU that can compute; null is checked.
        let raw = unsafe { sys::ggml_backend_cuda_init(index as i32) };
        let raw = NonNull::new(raw).ok_or(Error::Backend("CUDA"))?;
        let mut backend = Backend::new(raw, None, memory);
        // SAFETY: a live CUDA backend, which frees the stream when it is dropped.
        let stream = unsafe { Stream::of(raw.as_ptr()) }.ok_or(Error::Backend("CUDA"))?;
        backend.device = Some(Device::Cuda(stream));
        Ok(backend)
    }

    /// Without the feature `cuda` there is no GPU.
    #[cfg(not(feature = "cuda"))]
    pub fn cuda(_: usize, _: Option<usize>) -> Result<Backend, Error> {
        Err(crate::NoCuda::NotBuilt.into())
    }

    /// GPU number `index` of [`hip::devices`](crate::hip::devices), of whose memory at most `memory` bytes are allocated.
    ///
    /// # Errors
    /// Where there is no such GPU, or it cannot be used.
    #[cfg(feature = "hip")]
    pub fn hip(index: usize, memory: Option<usize>) -> Result<Backend, Error> {
        let mut backend = Backend::new(crate::hip::start(index)?, None, memory);
        backend.device = Some(Device::Hip);
        Ok(backend)
    }

    /// Without the feature `hip` there is no GPU.
    #[cfg(not(feature = "hip"))]
    pub fn hip(_: usize, _: Option<usize>) -> Result<Backend, Error> {
        Err(crate::NoHip::NotBuilt.into())
    }

    /// GPU number `index` of [`metal::devices`](crate::metal::devices), of whose memory at most `memory` bytes are allocated.
    ///
    /// # Errors
    /// Where there is no such GPU, or it cannot be used.
    #[cfg(feature = "metal")]
    pub fn metal(index: usize, memory: Option<usize>) -> Result<Backend, Error> {
        let mut backend = Backend::new(crate::metal::start(index)?, None, memory);
        backend.device = Some(Device::Metal);
        Ok(backend)
    }

    /// Without the feature `metal` there is no GPU.
    #[cfg(not(feature = "metal"))]
    pub fn metal(_: usize, _: Option<usize>) -> Result<Backend, Error> {
        Err(crate::NoMetal::NotBuilt.into())
    }

    /// GPU number `index` of [`vulkan::devices`](crate::vulkan::devices), of whose memory at most `memory` bytes are allocated.
    ///
    /// # Errors
    /// Where there is no such GPU, or it cannot be used.
    #[cfg(feature = "vulkan")]
    pub fn vulkan(index: usize, memory: Option<usize>) -> Result<Backend, Error> {
        let mut backend = Backend::new(crate::vulkan::start(index)?, None, memory);
        backend.device = Some(Device::Vulkan);
        Ok(backend)
    }

    /// Without the feature `vulkan` there is no GPU.
    #[cfg(not(feature = "vulkan"))]
    pub fn vulkan(_: usize, _: Option<usize>) -> Result<Backend, Error> {
        Err(crate::NoVulkan::NotBuilt.into())
    }

    /// Makes the GPU of a HIP, Metal or Vulkan backend fail.
    #[cfg(any(feature = "hip", feature = "metal", feature = "vulkan"))]
    #[doc(hidden)]
    pub fn lose(&self) {
        match self.device {
            #[cfg(feature = "hip")]
            // SAFETY: a live HIP backend.
            Some(Device::Hip) => unsafe { ggml_hip_sys::longhand_hip_lose(self.raw.as_ptr()) },
            #[cfg(feature = "metal")]
            // SAFETY: a live Metal backend.
            Some(Device::Metal) => unsafe { ggml_metal_sys::longhand_metal_lose(self.raw.as_ptr()) },
            #[cfg(feature = "vulkan")]
            // SAFETY: a live Vulkan backend.
            Some(Device::Vulkan) => unsafe { ggml_vulkan_sys::longhand_vulkan_lose(self.raw.as_ptr()) },
            _ => {}
        }
    }

    /// Makes a device of a test fail after so many operations: of our own, or of any kind where it has none of ours.
    #[doc(hidden)]
    pub fn lose_after(&self, operations: usize) {
        self.faults.lose_after(operations);
    }

    /// Sets the flag of the computation that runs after so many operations that can be interrupted.
    #[doc(hidden)]
    pub fn interrupt_after(&self, operations: usize) {
        self.faults.interrupt_after(operations);
    }

    /// An error if this backend cannot multiply matrices of type `ty` with many vectors, or only with a
    /// library that is not installed. Call this before any work: ggml would abort the process.
    pub fn check_products(&self, ty: Type) -> Result<(), Error> {
        match &self.device {
            #[cfg(feature = "cuda")]
            Some(Device::Cuda(_)) => crate::cuda::check_products(ty),
            #[cfg(feature = "hip")]
            Some(Device::Hip) => {
                let ctx = crate::Context::new(4);
                let matrix = ctx.input("matrix", ty, [ty.block_elements().max(256), 32]);
                let vectors = ctx.input("vectors", Type::F32, [matrix.dim(0), 2]);
                let graph = ctx.graph(&[&ctx.mul_mat(&matrix, &vectors)])?;
                self.check_operations(&graph).map_err(|_| Error::NoProducts(ty.name()))
            }
            _ => {
                let _ = ty;
                Ok(())
            }
        }
    }

    /// Memory this backend computes in.
    pub fn buffer_type(&self) -> BufferType {
        let ty = BufferType::from_raw(self.raw_buffer_type()).within(self.budget.clone());
        if matches!(self.device, Some(Device::Portable)) { ty.with_nan() } else { ty }
    }

    fn raw_buffer_type(&self) -> sys::ggml_backend_buffer_type_t {
        // SAFETY: a live backend; the type is never freed.
        unsafe { sys::ggml_backend_get_default_buffer_type(self.raw.as_ptr()) }
    }

    /// Host memory that this backend copies from and to the fastest: page-locked memory for a GPU. Where the system
    /// locks no more pages, ggml allocates ordinary memory.
    pub fn host_buffer_type(&self) -> BufferType {
        // ggml would take the first GPU's, for any GPU, and its functions throw.
        match self.device {
            #[cfg(feature = "hip")]
            Some(Device::Hip) => return BufferType::cpu(),
            #[cfg(feature = "vulkan")]
            Some(Device::Vulkan) => return BufferType::cpu(),
            _ => {}
        }
        // SAFETY: live backend; its device and the type are static. The type is null where ordinary memory is as fast.
        let raw = unsafe {
            sys::ggml_backend_dev_host_buffer_type(sys::ggml_backend_get_device(self.raw.as_ptr()))
        };
        if raw.is_null() { BufferType::cpu() } else { BufferType::from_raw(raw) }
    }

    /// Bytes of its memory taken now, and the largest number so far. `None` without a limit.
    pub fn memory_used(&self) -> Option<(usize, usize)> {
        self.budget.as_ref().map(|budget| budget.used())
    }

    /// The largest number of blocks that work on a device is split into: four for each multiprocessor. A
    /// launcher starts fewer where fewer fit.
    pub fn blocks(&self) -> usize {
        match &self.device {
            #[cfg(feature = "cuda")]
            // SAFETY: a live CUDA backend.
            Some(Device::Cuda(_)) => 4 * unsafe { multiprocessors(self.raw.as_ptr()) },
            _ => 6,
        }
    }

    /// Bytes of its memory that may still be taken. `None` without a limit.
    pub fn memory_left(&self) -> Option<usize> {
        self.budget.as_ref().map(|budget| budget.left())
    }

    /// Number of threads on the host that compute.
    pub fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, |pool| pool.threads)
    }

    /// Computes the graph to its end; returns when its results are ready. To another machine the graph is only sent: whoever
    /// reads a result waits for it, and gets the error if the machine is lost.
    ///
    /// # Errors
    /// Where the graph does not fit the backend, or the computation failed, or the server of the backend is lost.
    pub fn compute(&self, graph: &ReadyGraph) -> Result<(), Error> {
        self.watched(None, |watch| self.run(graph, watch, Until::Computed))
    }

    /// The same, unless `interrupt` is set. Setting it later stops the computation at the next operation, on a GPU at
    /// the next one of our own. Other computations of the backend go on.
    ///
    /// On another machine only the first computation of a graph is stopped, some 64 operations later.
    ///
    /// # Errors
    /// [`Error::Interrupted`] where it was stopped. Nothing says then which results were written.
    pub fn compute_until(&self, graph: &ReadyGraph, interrupt: &InterruptFlag) -> Result<(), Error> {
        self.watched(Some(interrupt), |watch| self.run(graph, watch, Until::Computed))
    }

    /// Starts a graph, unless `interrupt` is set, and returns when the graphs that were started before are computed, on a GPU
    /// of CUDA's. It computes this one while the host prepares the next. Whoever reads a result waits for it, and gets the error
    /// if the GPU fails. Other backends compute the graph to its end, as [`Backend::compute_until`] does.
    ///
    /// # Errors
    /// Those of [`Backend::compute_until`], also those of the graph before. After an error nothing is computed any more.
    pub fn start(&self, graph: &ReadyGraph, interrupt: Option<&InterruptFlag>) -> Result<(), Error> {
        let started = self.watched(interrupt, |watch| self.run(graph, watch, Until::Started));
        started.or_else(|error| self.wait().and(Err(error)))
    }

    /// Waits for the graphs that were started.
    ///
    /// # Errors
    /// Where the GPU failed.
    pub fn wait(&self) -> Result<(), Error> {
        running::wait_for(&self.buffer_type())
    }

    /// Calls `work` with what is asked whether to stop, while nothing else is computed.
    fn watched(
        &self,
        interrupt: Option<&InterruptFlag>,
        work: impl FnOnce(Option<&Watch>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let watch = interrupt.map(|flag| Watch { flag, faults: &self.faults });
        let _computing = self.computing.lock().unwrap_or_else(PoisonError::into_inner);
        watch.as_ref().map_or(Ok(()), |watch| watch.flag.check())?;
        self.set_watch(watch.as_ref());
        let result = work(watch.as_ref());
        self.set_watch(None);
        result
    }

    /// What the CPU asks after each operation; the caller holds the lock `computing`.
    fn set_watch(&self, watch: Option<&Watch>) {
        let (callback, data): (sys::ggml_abort_callback, _) = match watch {
            Some(watch) => (Some(interrupted), std::ptr::from_ref(watch).cast_mut().cast()),
            None => (None, std::ptr::null_mut()),
        };
        if self.pool.is_some() {
            // SAFETY: a live CPU backend, which nobody computes with now. The watch outlives the computation, and
            // every computation sets its own before it begins.
            unsafe { sys::ggml_backend_cpu_set_abort_callback(self.raw.as_ptr(), callback, data) };
        }
    }

    /// Computes the graph; the caller holds the lock `computing`.
    fn run(&self, graph: &ReadyGraph, watch: Option<&Watch>, until: Until) -> Result<(), Error> {
        #[cfg(not(feature = "cuda"))]
        let _ = until;
        let result = graph.with_locks(|nodes, parts| {
            graph.check_backend(self.raw, self.number, self.has_own_operations())?;
            match &self.device {
                None => self.compute_segment(nodes, nodes.numbers.clone(), 0),
                Some(Device::Portable) => self.compute_in_segments(nodes, watch, || Ok(())),
                #[cfg(feature = "hip")]
                Some(Device::Hip) => {
                    let memory = self.raw_buffer_type();
                    self.compute_guarded(nodes, watch, || crate::hip::check_memory(memory))
                }
                #[cfg(feature = "metal")]
                Some(Device::Metal) => self.compute_guarded(nodes, watch, || crate::metal::check(self.raw)),
                #[cfg(feature = "vulkan")]
                Some(Device::Vulkan) => {
                    let memory = self.raw_buffer_type();
                    self.compute_guarded(nodes, watch, || crate::vulkan::check_memory(memory))
                }
                Some(Device::Emulated) => self.launch(nodes, parts, std::ptr::null_mut(), watch),
                #[cfg(feature = "cuda")]
                Some(Device::Cuda(stream)) => {
                    stream.use_gpu()?;
                    let launch = |watch: Option<&Watch>| self.launch(nodes, parts, stream.raw(), watch);
                    if until == Until::Started {
                        return cuda::running::start(&self.buffer_type(), *stream, || launch(watch));
                    }
                    // Nobody may wait for the stream while it records.
                    self.wait()?;
                    let mut recording = graph.recording.state();
                    let started = self.start_or_record(*stream, &mut recording, watch, launch);
                    stream.wait()?;
                    started
                }
                #[cfg(feature = "rpc")]
                Some(Device::Rpc(client)) => self.send(client, graph, nodes, watch),
            }
        });
        if let Err(error @ Error::Device(_)) = &result {
            fatal::raise(error);
        }
        result
    }

    /// Starts a graph on a GPU. The first time it is launched, because ggml may allocate then; the second
    /// time the launches are recorded, and from then on the recording is started. A graph that cannot be
    /// recorded is launched every time.
    #[cfg(feature = "cuda")]
    fn start_or_record(
        &self,
        stream: Stream,
        state: &mut RecordingState,
        watch: Option<&Watch>,
        launch: impl Fn(Option<&Watch>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let is_stale = |backend, frees| backend != self.number || frees != log::frees();
        if matches!(state, RecordingState::Recorded { backend, frees, .. } if is_stale(*backend, *frees)) {
            *state = RecordingState::Never;
        }
        if let RecordingState::Once = state {
            *state = match stream.record(|| launch(None)) {
                Ok(recording) => {
                    RecordingState::Recorded { recording, backend: self.number, frees: log::frees() }
                }
                Err(error) => {
                    log::store(&format!("a graph is launched operation by operation: {error}"));
                    RecordingState::Unrecordable
                }
            };
        }
        match state {
            RecordingState::Never => {
                launch(watch)?;
                *state = RecordingState::Once;
                Ok(())
            }
            // SAFETY: the graph is not stale and all that it uses is locked (`with_locks`).
            RecordingState::Recorded { recording, .. } => unsafe { recording.start(stream) },
            RecordingState::Once | RecordingState::Unrecordable => launch(watch),
        }
    }

    /// Starts the computation of ggml's nodes of these numbers. The CPU also ends it. A server may keep the graph as `uid`; 0 is
    /// none.
    fn compute_segment(&self, nodes: &GraphNodes, numbers: Range<i32>, uid: u64) -> Result<(), Error> {
        let Range { start, end } = numbers;
        // SAFETY: a live backend, and nodes of a live graph. They have memory, or the graph would be no ReadyGraph. All
        // memory they refer to is kept by the graph's context and locked, and this backend reaches it.
        check(unsafe {
            sys::longhand_compute_segment(self.raw.as_ptr(), nodes.raw.as_ptr(), start, end, uid)
        })
    }

    /// Sends a graph to its server: whole, and then only its number. The first time it is sent in segments if it may be
    /// interrupted, with a wait after each.
    #[cfg(feature = "rpc")]
    fn send(
        &self,
        client: &rpc::Client,
        graph: &ReadyGraph,
        nodes: &GraphNodes,
        watch: Option<&Watch>,
    ) -> Result<(), Error> {
        client.check()?;
        let _turn = client.lock_graphs();
        let (uid, is_first) = graph.repeated.uid();
        // SAFETY: a live backend of this client.
        let wait = || unsafe { rpc::wait(self.raw) }.and_then(|()| client.check());
        match watch {
            Some(_) if is_first => self.compute_in_segments(nodes, watch, wait),
            _ if nodes.numbers.is_empty() => Ok(()),
            _ => {
                let sent = self.compute_segment(nodes, nodes.numbers.clone(), uid);
                sent.inspect_err(|_| graph.repeated.reset())?;
                client.check()
            }
        }
    }

    /// Computes a graph on a GPU that has a guard, in segments if it may be interrupted. `check` gives the driver's reason where
    /// the GPU has failed: ggml's says less.
    #[cfg(any(feature = "hip", feature = "metal", feature = "vulkan"))]
    fn compute_guarded(
        &self,
        nodes: &GraphNodes,
        watch: Option<&Watch>,
        check: impl Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        check()?;
        let computed = match watch {
            Some(_) => self.compute_in_segments(nodes, watch, || Ok(())),
            None => self.compute_segment(nodes, nodes.numbers.clone(), 0),
        };
        check().and(computed)
    }

    /// Computes a graph of ggml's nodes, some at a time, so that it can be interrupted where ggml's backend cannot.
    /// `wait` returns when a segment is computed.
    fn compute_in_segments(
        &self,
        nodes: &GraphNodes,
        watch: Option<&Watch>,
        wait: impl Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        /// Those of about one layer.
        const NODES: usize = 64;
        let Range { start, end } = nodes.numbers;
        for first in (start..end).step_by(NODES) {
            let segment = first..end.min(first + NODES as i32);
            watch.map_or(Ok(()), |watch| watch.flag.check())?;
            segment.clone().try_for_each(|_| {
                // The CPU counts in its callback, a server has none.
                if let Some(watch) = watch.filter(|_| self.pool.is_none()) {
                    watch.count_operation();
                }
                self.faults.count_operation()
            })?;
            self.compute_segment(nodes, segment, 0)?;
            wait()?;
        }
        Ok(())
    }

    /// Starts everything that the nodes consist of, in order. Waits for nothing: it may be recorded.
    fn launch(
        &self,
        nodes: &GraphNodes,
        parts: &GraphParts,
        stream: *mut c_void,
        watch: Option<&Watch>,
    ) -> Result<(), Error> {
        let Range { start, end } = nodes.numbers;
        // Start of the segment of ggml's nodes.
        let mut first = start;
        for number in start..=end {
            // The CPU counts in its callback, a GPU has none.
            if self.pool.is_none()
                && let Some(watch) = watch
            {
                watch.count_operation();
            }
            let own = (number < end)
                // SAFETY: a node of the live graph.
                .then(|| unsafe { sys::ggml_graph_node(nodes.raw.as_ptr(), number) })
                // SAFETY: as above.
                .filter(|node| unsafe { (**node).op } == sys::GGML_OP_CUSTOM);
            if own.is_none() && number < end {
                continue;
            }
            if first < number {
                self.compute_segment(nodes, first..number, 0)?;
            }
            first = number + 1;
            let Some(node) = own else { break };
            watch.map_or(Ok(()), |watch| watch.flag.check())?;
            self.faults.count_operation()?;
            let launch = NonNull::new(node).and_then(|node| parts.launches.get(&node));
            let launch =
                launch.ok_or_else(|| Error::Device("an operation has no device implementation".into()))?;
            launch(&DeviceTask { raw: node, stream }).map_err(|code| Error::Device(refusal(code)))?;
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

unsafe extern "C" fn interrupted(watch: *mut c_void) -> bool {
    // SAFETY: points to the Watch of the computation that runs (`Backend::set_watch`), which nobody changes but by
    // its atomics.
    let watch = unsafe { &*watch.cast::<Watch>() };
    watch.count_operation();
    watch.flag.is_set()
}
