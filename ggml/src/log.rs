//! ggml's log messages. Without a callback ggml would print them to standard error. The callback here stores
//! the last few warnings and errors, of all threads, until an error takes them into its text.

use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, Once};

use ggml_sys as sys;

const MAX_MESSAGES: usize = 8;

static MESSAGES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Installs the callback; called by everything that uses ggml first.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        crate::fatal::install();
        // SAFETY: the callback has the required signature, needs no user data and is never unloaded.
        unsafe { sys::ggml_log_set(Some(receive), std::ptr::null_mut()) };
    });
}

/// Takes the stored messages, oldest first.
pub fn take() -> Vec<String> {
    MESSAGES.lock().map(|mut messages| messages.drain(..).collect()).unwrap_or_default()
}

unsafe extern "C" fn receive(level: sys::ggml_log_level, text: *const c_char, _: *mut c_void) {
    let serious = level == sys::GGML_LOG_LEVEL_WARN || level == sys::GGML_LOG_LEVEL_ERROR;
    if !serious || text.is_null() {
        return;
    }
    // SAFETY: ggml passes a NUL-terminated string that lives for the duration of the call.
    store(&unsafe { CStr::from_ptr(text) }.to_string_lossy());
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
