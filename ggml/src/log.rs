//! ggml's log messages. Without a callback ggml would print them to standard error. The callback here stores
//! the last few warnings and errors, of all threads, until an error takes them into its text.

use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_void};
#[cfg(feature = "cuda")]
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};

use ggml_sys as sys;

const MAX_MESSAGES: usize = 8;

/// How often a GPU had no memory left for an operation, so that ggml freed what it keeps for operations.
#[cfg(feature = "cuda")]
static FREES: AtomicU64 = AtomicU64::new(0);

static MESSAGES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Installs the callback.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the callback has the required signature, needs no user data and is never unloaded.
        unsafe { sys::ggml_log_set(Some(receive), std::ptr::null_mut()) };
    });
}

/// Takes the stored messages, oldest first.
pub fn take() -> Vec<String> {
    MESSAGES.lock().map(|mut messages| messages.drain(..).collect()).unwrap_or_default()
}

/// How often ggml has freed memory that it keeps for operations on GPUs. ggml says so in its log only.
#[cfg(feature = "cuda")]
pub(crate) fn frees() -> u64 {
    FREES.load(Ordering::Relaxed)
}

unsafe extern "C" fn receive(level: sys::ggml_log_level, text: *const c_char, _: *mut c_void) {
    if text.is_null() {
        return;
    }
    // SAFETY: ggml passes a NUL-terminated string that lives for the duration of the call.
    let text = unsafe { CStr::from_ptr(text) };
    #[cfg(feature = "cuda")]
    if level == sys::GGML_LOG_LEVEL_DEBUG && text.to_bytes().windows(8).any(|part| part == b"flushing") {
        FREES.fetch_add(1, Ordering::Relaxed);
    }
    if level == sys::GGML_LOG_LEVEL_WARN || level == sys::GGML_LOG_LEVEL_ERROR {
        store(&text.to_string_lossy());
    }
}

/// Stores a message; the oldest is dropped when there are too many.
pub(crate) fn store(text: &str) {
    if let Ok(mut messages) = MESSAGES.lock() {
        if messages.len() == MAX_MESSAGES {
            messages.pop_front();
        }
        messages.push_back(text.trim().to_owned());
    }
}
