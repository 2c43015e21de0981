//! The streams with graphs that GPUs compute while the host goes on, and what waits for them: see [`crate::running`].

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::stream::{Event, Stream};
use crate::{BufferType, Error, fatal};

/// The streams with graphs that nobody has waited for.
static STREAMS: Mutex<Vec<RunningStream>> = Mutex::new(Vec::new());

/// How many they are, so that memory without such graphs is accessed without the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A stream with graphs that nobody has waited for.
struct RunningStream {
    stream: Stream,
    /// The address of ggml's type of the memory that the graphs use.
    memory: usize,
    /// Behind the graph that was started last.
    last: Option<Event>,
    /// What was written since that graph was started, and before: it must stay until it is copied.
    written: [Written; 2],
}

/// What was written, in parts.
type Written = Vec<Box<[u8]>>;

fn streams() -> MutexGuard<'static, Vec<RunningStream>> {
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn address(memory: &BufferType) -> usize {
    memory.raw().addr()
}

/// Whether graphs may be running that use memory of this type. That of the host is used by none.
fn may_use(memory: &BufferType) -> bool {
    COUNT.load(Ordering::Acquire) > 0 && !memory.is_host()
}

/// Whether graphs that use this memory may be running.
pub(crate) fn uses(memory: &BufferType) -> bool {
    may_use(memory) && streams().iter().any(|running| running.memory == address(memory))
}

/// Waits for all graphs that use this memory.
///
/// # Errors
/// Where the GPU failed.
pub(crate) fn wait_for(memory: &BufferType) -> Result<(), Error> {
    wait_where(memory, |_| true)
}

/// Copies `bytes` to memory of this type at `to`, behind the graphs that use it. Returns false, and does nothing, where none
/// is running, where they are on several streams, or where these are too many bytes.
///
/// # Safety
/// `to` is memory of this type with room for the bytes, and whoever frees it calls [`wait_for`] before.
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
/// behind the one that the GPU computes. After an error, some of it may be running.
pub(crate) fn start(
    memory: &BufferType,
    stream: Stream,
    launch: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    wait_for_others(memory, stream)?;
    match note(memory, stream, launch())? {
        // What was written before that graph is kept until now.
        Some((event, _written)) => event.wait(),
        None => Ok(()),
    }
}

/// Notes that a graph is on a stream, with an event at its end. Returns the event of the graph before it, if nobody has waited
/// for it, with what was written before that graph. Writes take the lock too: what is written later lies behind the event.
fn note(
    memory: &BufferType,
    stream: Stream,
    launched: Result<(), Error>,
) -> Result<Option<(Event, Written)>, Error> {
    let mut streams = streams();
    let found = streams.iter().position(|running| running.stream == stream);
    let place = found.unwrap_or_else(|| {
        let (memory, last) = (address(memory), None);
        streams.push(RunningStream { stream, memory, last, written: Default::default() });
        COUNT.store(streams.len(), Ordering::Release);
        streams.len() - 1
    });
    let RunningStream { last, written: [now, before], .. } = &mut streams[place];
    let last = last.replace(launched.and_then(|()| stream.event())?);
    let written = std::mem::replace(before, std::mem::take(now));
    Ok(last.map(|last| (last, written)))
}

/// Waits for the graphs that use this memory on other streams than the one on which a graph is to be started. It may read
/// their results, or what was written behind them.
fn wait_for_others(memory: &BufferType, stream: Stream) -> Result<(), Error> {
    wait_where(memory, |running| running.stream != stream)
}

/// Waits for the graphs that use this memory on some streams. A failure of the GPU ends the process where something is to be
/// done before ([`fatal::on_fatal`]).
fn wait_where(memory: &BufferType, is_meant: impl Fn(&RunningStream) -> bool) -> Result<(), Error> {
    if !may_use(memory) {
        return Ok(());
    }
    let is_waited_for = |running: &RunningStream| running.memory == address(memory) && is_meant(running);
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
