//! The stream of a CUDA backend, events in its work, and launches recorded on it as CUDA graphs.

use std::ffi::c_void;
use std::ptr::NonNull;

use ggml_sys as sys;

use super::check;
use crate::Error;

/// Multiprocessors of a backend's GPU.
///
/// # Safety
/// `backend` is a live CUDA backend of ggml.
pub(crate) unsafe fn multiprocessors(backend: sys::ggml_backend_t) -> usize {
    // SAFETY: the caller's promise.
    unsafe { sys::longhand_cuda_multiprocessors(backend) }.max(1) as usize
}

/// The stream on which a backend computes. Belongs to the backend and must not outlive it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stream {
    raw: NonNull<c_void>,
    backend: sys::ggml_backend_t,
}

// SAFETY: a handle: CUDA's functions take it from any thread.
unsafe impl Send for Stream {}

impl Stream {
    /// # Safety
    /// `backend` is a live CUDA backend of ggml, and lives for as long as the stream is used.
    pub(crate) unsafe fn of(backend: sys::ggml_backend_t) -> Option<Stream> {
        // SAFETY: the caller's promise.
        NonNull::new(unsafe { sys::longhand_cuda_stream(backend) }).map(|raw| Stream { raw, backend })
    }

    /// CUDA's handle.
    pub(crate) fn raw(self) -> *mut c_void {
        self.raw.as_ptr()
    }

    /// Makes its GPU the current one of this thread. Without that, CUDA would begin to use the first one too.
    pub(crate) fn use_gpu(self) -> Result<(), Error> {
        // SAFETY: a live backend, as promised when the stream was made.
        check(unsafe { sys::longhand_cuda_use(self.backend) })
    }

    /// Waits for everything that was started on the stream.
    pub(crate) fn wait(self) -> Result<(), Error> {
        // SAFETY: live stream, as promised when it was made.
        check(unsafe { sys::longhand_cuda_wait(self.raw()) })
    }

    /// Copies bytes to the GPU's memory, behind everything that was started on the stream.
    ///
    /// # Safety
    /// `to` is memory of the stream's GPU with room for the bytes. They stay until the copy is done, and so does the memory.
    pub(crate) unsafe fn write(self, to: *mut c_void, bytes: &[u8]) -> Result<(), Error> {
        self.use_gpu()?;
        // SAFETY: as in `wait`; the rest is the caller's promise.
        check(unsafe { sys::longhand_cuda_write(self.raw(), to, bytes.as_ptr().cast(), bytes.len()) })
    }

    /// An event behind everything that was started on the stream.
    pub(crate) fn event(self) -> Result<Event, Error> {
        self.use_gpu()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is written.
        check(unsafe { sys::longhand_cuda_event_create(&mut raw) })?;
        let event =
            NonNull::new(raw).map(Event).ok_or_else(|| Error::Device("an event that is null".into()))?;
        // SAFETY: a live event and a live stream, of the same GPU.
        check(unsafe { sys::longhand_cuda_event_record(event.0.as_ptr(), self.raw()) })?;
        Ok(event)
    }

    /// Records what `work` launches on the stream; nothing is computed. `work` must not wait for the stream.
    pub(crate) fn record(self, work: impl FnOnce() -> Result<(), Error>) -> Result<Recording, Error> {
        // SAFETY: as above.
        check(unsafe { sys::longhand_cuda_capture_begin(self.raw()) })?;
        // Ends the recording even if `work` panics: the stream would be lost to its backend.
        let mut open = Open { stream: self, ended: false };
        work()?;
        open.ended = true;
        let mut executable = std::ptr::null_mut();
        // SAFETY: a recording was begun on this stream; `executable` is written.
        check(unsafe { sys::longhand_cuda_capture_end(self.raw(), &mut executable) })?;
        NonNull::new(executable).map(Recording).ok_or_else(|| Error::Device("an empty recording".into()))
    }
}

/// A place in the work on a stream.
pub(crate) struct Event(NonNull<c_void>);

// SAFETY: CUDA waits for an event, and frees it, from any thread.
unsafe impl Send for Event {}

impl Event {
    /// Waits for the work before it.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        // SAFETY: a live event that was recorded.
        check(unsafe { sys::longhand_cuda_event_wait(self.0.as_ptr()) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: owned and freed once.
        unsafe { sys::longhand_cuda_event_free(self.0.as_ptr()) };
    }
}

/// A recording that was begun. Dropping it before it has ended discards what was recorded.
struct Open {
    stream: Stream,
    ended: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.ended {
            // SAFETY: a recording was begun on this stream.
            unsafe { sys::longhand_cuda_capture_end(self.stream.raw(), std::ptr::null_mut()) };
        }
    }
}

/// Work that was recorded on a stream: a CUDA graph that can be started any number of times.
pub(crate) struct Recording(NonNull<c_void>);

// SAFETY: CUDA starts and frees a graph from any thread. A recording is not `Sync`, so one thread at a time
// does.
unsafe impl Send for Recording {}

impl Recording {
    /// Starts all of it.
    ///
    /// # Safety
    /// All memory that the recorded work reads and writes is still there.
    pub(crate) unsafe fn start(&self, stream: Stream) -> Result<(), Error> {
        // SAFETY: a live recording and a live stream; the rest is the caller's promise.
        check(unsafe { sys::longhand_cuda_capture_launch(self.0.as_ptr(), stream.raw()) })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // SAFETY: owned and freed once; CUDA keeps what still runs.
        unsafe { sys::longhand_cuda_capture_free(self.0.as_ptr()) };
    }
}
