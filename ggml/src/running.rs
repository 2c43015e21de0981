//! Graphs that GPUs compute while the host goes on ([`Backend::start`](crate::Backend::start)). As long as there are such
//! graphs, what the host writes to their GPU's memory is copied on their stream, behind them, and whoever reads that
//! memory or gives it back waits for them first. Without the feature `cuda` there are none.

#[cfg(feature = "cuda")]
use std::ffi::c_void;
#[cfg(feature = "cuda")]
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(feature = "cuda")]
use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(feature = "cuda")]
use crate::cuda::stream::{Mark, Stream};
#[cfg(feature = "cuda")]
use crate::fatal;
use crate::{BufferType, Error};

/// The streams with graphs that nobody has waited for.
#[cfg(feature = "cuda")]
static STREAMS: Mutex<Vec<RunningStream>> = Mutex::new(Vec::new());

/// How many they are, so that memory without such graphs is accessed without the lock.
#[cfg(feature = "cuda")]
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A stream with graphs that nobody has waited for.
#[cfg(feature = "cuda")]
struct RunningStream {
    stream: Stream,
    /// The address of ggml's type of the memory that the graphs use.
    memory: usize,
    /// Behind the graph that was started last.
    last: Option<Mark>,
    /// What was written since that graph was started, and before: it must stay until it is copied.
    written: [Written; 2],
}

/// What was written, in parts.
#[cfg(feature = "cuda")]
type Written = Vec<Box<[u8]>>;

#[cfg(feature = "cuda")]
fn streams() -> MutexGuard<'static, Vec<RunningStream>> {
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(feature = "cuda")]
fn address(memory: &BufferType) -> usize {
    memory.raw().addr()
}

/// Whether graphs may be running that use memory of this type. That of the host is used by none.
#[cfg(feature = "cuda")]
fn may_use(memory: &BufferType) -> bool {
    COUNT.load(Ordering::Acquire) > 0 && !memory.is_host()
}

/// Whether graphs that use this memory may be running.
pub(crate) fn uses(memory: &BufferType) -> bool {
    #[cfg(feature = "cuda")]
    if may_use(memory) {
        return streams().iter().any(|running| running.memory == address(memory));
    }
    let _ = memory;
    false
}

/// Waits for all graphs that use this memory.
///
/// # Errors
/// Where the GPU failed.
pub(crate) fn wait_for(memory: &BufferType) -> Result<(), Error> {
    #[cfg(feature = "cuda")]
    if may_use(memory) {
        return wait_where(|running| running.memory == address(memory));
    }
    let _ = memory;
    Ok(())
}

/// Copies `bytes` to memory of this type at `to`, behind the graphs that use it. Returns false, and does nothing, where none
/// is running, where they are on several streams, or where these are too many bytes.
///
/// # Safety
/// `to` is memory of this type with room for the bytes, and whoever frees it calls [`wait_for`] before.
#[cfg(feature = "cuda")]
pub(crate) unsafe fn write(memory: &BufferType, to: *mut c_void, bytes: &[u8]) -> Result<bool, Error> {
    /// CUDA copies so many bytes without waiting for what was started before.
    const MAX_BYTES: usize = 64 << 10;
    if !may_use(memory) || bytes.len() > MAX_BYTES {
        return Ok(false);
    }
    let mut streams = streams();
    let mut found = streams.iter_mut().filter(|running| running.memory == address(memory));
    let (Some(RunningStream { stream, written: [now, _], .. }), None) = (found.next(), found.next()) else {
        return Ok(false);
    };
    let bytes: Box<[u8]> = bytes.into();
    // SAFETY: the caller's promise; the bytes are kept until the copy is done.
    unsafe { stream.write(to, &bytes) }?;
    now.push(bytes);
    Ok(true)
}

/// Starts a graph that uses this memory by `launch`, and waits for the one that was started before it. So at most one is
/// behind the one that the GPU computes. After an error none is running.
#[cfg(feature = "cuda")]
pub(crate) fn start(
    memory: &BufferType,
    stream: Stream,
    launch: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let result = note(memory, stream, launch()).and_then(|before| match before {
        // What was written before that graph is kept until now.
        Some((mark, _written)) => mark.wait(),
        None => Ok(()),
    });
    match result {
        Ok(()) => Ok(()),
        Err(error) => wait_for_stream(stream).and(Err(error)),
    }
}

/// Notes that a graph is on a stream, and marks its end. Returns the mark of the graph before it, if nobody has waited for it,
/// with what was written before that graph. Writes keep the lock too: what is written later lies behind the mark.
#[cfg(feature = "cuda")]
fn note(
    memory: &BufferType,
    stream: Stream,
    launched: Result<(), Error>,
) -> Result<Option<(Mark, Written)>, Error> {
    let mut streams = streams();
    let found = streams.iter().position(|running| running.stream == stream);
    let place = found.unwrap_or_else(|| {
        let (memory, last) = (address(memory), None);
        streams.push(RunningStream { stream, memory, last, written: Default::default() });
        COUNT.store(streams.len(), Ordering::Release);
        streams.len() - 1
    });
    let RunningStream { last, written: [now, before], .. } = &mut streams[place];
    let last = last.replace(launched.and_then(|()| stream.mark())?);
    let written = std::mem::replace(before, std::mem::take(now));
    Ok(last.map(|last| (last, written)))
}

/// Waits for the graphs of a stream, also of those that were not launched to their end.
#[cfg(feature = "cuda")]
pub(crate) fn wait_for_stream(stream: Stream) -> Result<(), Error> {
    wait_where(|running| running.stream == stream)
}

/// Waits for the graphs that use this memory on other streams than the one on which a graph is to be started: they, or what
/// was written behind them, may be what it reads.
#[cfg(feature = "cuda")]
pub(crate) fn wait_for_others(memory: &BufferType, stream: Stream) -> Result<(), Error> {
    match may_use(memory) {
        true => wait_where(|running| running.memory == address(memory) && running.stream != stream),
        false => Ok(()),
    }
}

/// Waits for the graphs of some streams. A failure of the GPU ends the process where something is to be done before
/// ([`fatal::on_fatal`]).
#[cfg(feature = "cuda")]
fn wait_where(is_waited_for: impl Fn(&RunningStream) -> bool) -> Result<(), Error> {
    // The lock is kept: nothing may be recorded on a stream that somebody waits for.
    let mut streams = streams();
    let waited = streams.iter().filter(|running| is_waited_for(running));
    let wait = |running: &RunningStream| running.stream.use_gpu().and_then(|()| running.stream.wait());
    let results: Vec<Result<(), Error>> = waited.map(wait).collect();
    streams.retain(|running| !is_waited_for(running));
    COUNT.store(streams.len(), Ordering::Release);
    drop(streams);
    let result = results.into_iter().collect();
    if let Err(error) = &result {
        fatal::raise(error);
    }
    result
}
