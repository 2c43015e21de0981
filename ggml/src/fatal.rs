//! What a program does before it ends on a failure that cannot be returned. There are three:
//!
//! - ggml aborts the process where one of its assertions fails.
//! - After a GPU is lost, every call that touches it fails, also those that free memory.
//! - Rust code that is refused memory cannot go on (see [`FatalAllocator`](crate::FatalAllocator)).

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, Once};

use ggml_sys as sys;

use crate::Error;

/// Called with the error before the process ends; its result is the exit code. It must not call this crate.
pub type Hook = fn(&Error) -> i32;

/// The hook, and the process that set it.
static HOOK: Mutex<Option<(Hook, u32)>> = Mutex::new(None);

/// Memory that is freed when the system refuses more, so that the hook can work: an error message, the text of a
/// conversation.
const RESERVE: Layout = Layout::new::<[u8; 1 << 20]>();

static RESERVED: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

unsafe extern "C" {
    /// Of the C library: ends the process at once, without destructors, which would wait for a GPU.
    fn _exit(code: i32) -> !;
}

/// Sets the hook. On a fatal failure it is called once, and the process exits with the code that it returns.
/// Without a hook a lost GPU is an ordinary error, and a failed assertion in ggml aborts the process. A fork of the
/// process has no hook: what the hook saves is its parent's.
pub fn on_fatal(hook: Hook) {
    reserve();
    if let Ok(mut slot) = HOOK.lock() {
        *slot = Some((hook, std::process::id()));
    }
}

/// Calls the hook and ends the process. Returns if there is no hook.
pub(crate) fn raise(error: &Error) {
    raise_with(|| error.clone());
}

/// The same with an error that is made only if there is a hook.
fn raise_with(error: impl FnOnce() -> Error) {
    let hook = HOOK.lock().ok().and_then(|mut slot| slot.take());
    if let Some((hook, process)) = hook
        && process == std::process::id()
    {
        let code = hook(&error());
        // SAFETY: takes no pointers and does not return.
        unsafe { _exit(code) }
    }
}

/// Raises that Rust code was refused `bytes` of memory.
#[cold]
pub(crate) fn raise_refused(bytes: usize) {
    raise_with(|| {
        let reserved = RESERVED.swap(ptr::null_mut(), Ordering::AcqRel);
        if !reserved.is_null() {
            // SAFETY: allocated with this layout by the system allocator, and taken out of the static once.
            unsafe { System.dealloc(reserved, RESERVE) };
        }
        Error::OutOfMemory { what: "the program's own data".into(), bytes, device: "CPU".into() }
    });
}

/// Reserves memory for the hook.
fn reserve() {
    if RESERVED.load(Ordering::Acquire).is_null() {
        // SAFETY: the layout has a size. Null is checked where the memory is freed.
        let reserved = unsafe { System.alloc(RESERVE) };
        let before = RESERVED.swap(reserved, Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: as in `raise_refused`; another thread was faster.
            unsafe { System.dealloc(before, RESERVE) };
        }
    }
}

/// Makes ggml call the hook before it aborts.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the callback has the required signature and is never unloaded.
        unsafe { sys::ggml_set_abort_callback(Some(aborting)) };
    });
}

unsafe extern "C" fn aborting(text: *const c_char) {
    // SAFETY: null or a NUL-terminated string that lives for the duration of the call.
    let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy());
    let before: String = crate::log::take().iter().map(|line| format!("\n{line}")).collect();
    if let Some(bytes) = refused_bytes(&before) {
        raise(&Error::OutOfMemory {
            what: "the descriptions of tensors".into(),
            bytes,
            device: "CPU".into(),
        });
    }
    if let Some(error) = crate::threads::refused() {
        raise(&error);
    }
    let message = format!("{}{before}", without_folder(text.as_deref().unwrap_or("ggml gave up")));
    // ggml has no error codes here: its message is all that tells a refused allocation.
    let out_of_memory = message.contains("out of memory");
    raise(&Error::Aborted { message, out_of_memory });
}

/// Bytes of host memory that ggml was refused, from its log: it asserts that it has the memory.
fn refused_bytes(log: &str) -> Option<usize> {
    let (_, after) = log.split_once("(attempted to allocate")?;
    let mebibytes: f64 = after.split_whitespace().next()?.parse().ok()?;
    Some((mebibytes * 1024.0 * 1024.0) as usize)
}

/// ggml's message, which begins with the path of a file on the machine that compiled it, without the folder.
fn without_folder(message: &str) -> &str {
    let end = message.find(": ").unwrap_or(0);
    message[..end].rfind(['/', '\\']).map_or(message, |slash| &message[slash + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_ggml_are_read() {
        let log = "\nggml_aligned_malloc: insufficient memory (attempted to allocate   0.50 MB)";
        assert_eq!(refused_bytes(log), Some(1 << 19));
        assert_eq!(refused_bytes("\nanother line"), None);
        assert_eq!(
            without_folder("/a/b/ggml.c:12: GGML_ASSERT(x / y) failed"),
            "ggml.c:12: GGML_ASSERT(x / y) failed"
        );
        assert_eq!(without_folder("CUDA error: a/b"), "CUDA error: a/b");
    }
}
