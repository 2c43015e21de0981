//! The device that computes graphs. Today: the CPU with ggml's own thread pool.

use crate::{BufferType, Error, ReadyGraph, log, sys};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A running backend.
pub struct Backend {
    raw: NonNull<sys::ggml_backend>,
    pool: NonNull<sys::ggml_threadpool>,
    threads: usize,
    interrupt: Arc<AtomicBool>,
}

impl Drop for Backend {
    fn drop(&mut self) {
        // SAFETY: both are owned and freed once, the backend that uses the pool first.
        unsafe {
            sys::ggml_backend_free(self.raw.as_ptr());
            sys::ggml_threadpool_free(self.pool.as_ptr());
        }
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
            let pool = sys::ggml_threadpool_new(&mut params);
            let Some(pool) = NonNull::new(pool) else {
                sys::ggml_backend_free(raw.as_ptr());
                return Err(Error::Backend("CPU"));
            };
            sys::ggml_backend_cpu_set_n_threads(raw.as_ptr(), threads as i32);
            sys::ggml_backend_cpu_set_threadpool(raw.as_ptr(), pool.as_ptr());
            let backend = Backend { raw, pool, threads, interrupt };
            backend.watch_interrupt();
            Ok(backend)
        }
    }

    /// Memory this backend computes in.
    pub fn buffer_type(&self) -> BufferType {
        // SAFETY: live backend; the type is static.
        BufferType::from_raw(unsafe { sys::ggml_backend_get_default_buffer_type(self.raw.as_ptr()) })
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Computes the graph; returns when its results are ready.
    pub fn compute(&self, graph: &ReadyGraph) -> Result<(), Error> {
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        self.run(graph)
    }

    /// Computes the graph whatever the interrupt flag says: for changes that must not stop half way.
    pub fn compute_to_end(&self, graph: &ReadyGraph) -> Result<(), Error> {
        // SAFETY: live backend; no callback means no interruption. The callback is put back before anything else runs.
        unsafe { sys::ggml_backend_cpu_set_abort_callback(self.raw.as_ptr(), None, std::ptr::null_mut()) };
        let result = self.run(graph);
        self.watch_interrupt();
        result
    }

    fn watch_interrupt(&self) {
        let flag = Arc::as_ptr(&self.interrupt).cast_mut().cast();
        // SAFETY: the flag is owned by `self`, which frees the backend before the flag is dropped.
        unsafe { sys::ggml_backend_cpu_set_abort_callback(self.raw.as_ptr(), Some(interrupted), flag) };
    }

    fn run(&self, graph: &ReadyGraph) -> Result<(), Error> {
        let raw = graph.raw()?;
        // SAFETY: the graph's nodes have memory, or it would not be a ReadyGraph, and all memory
        // they refer to is kept by the graph's context.
        let status = unsafe { sys::ggml_backend_graph_compute(self.raw.as_ptr(), raw) };
        match status {
            sys::GGML_STATUS_SUCCESS => Ok(()),
            sys::GGML_STATUS_ABORTED => Err(Error::Interrupted),
            status => {
                let details: String = log::take().iter().map(|line| format!("\n{line}")).collect();
                Err(Error::Compute(status, details))
            }
        }
    }
}

unsafe extern "C" fn interrupted(flag: *mut c_void) -> bool {
    // SAFETY: points to the AtomicBool owned by the backend that is computing.
    unsafe { (*flag.cast::<AtomicBool>()).load(Ordering::Relaxed) }
}
