//! ggml's messages, kept away from the user's terminal.
//!
//! ggml prints to standard error unless it is given a callback. Here the callback keeps the last
//! few messages, which become part of an error when an operation fails, and drops the rest.

use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, Once};

use ggml_sys as sys;

const KEPT: usize = 8;

static MESSAGES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Installs the callback; called by everything that starts ggml.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        crate::fatal::install();
        // SAFETY: the callback has the required signature, needs no user data and lives for ever.
        unsafe { sys::ggml_log_set(Some(receive), std::ptr::null_mut()) };
    });
}

/// Takes the warnings and errors that ggml has reported since the last call (at most a few).
pub fn take() -> Vec<String> {
    MESSAGES.lock().map(|mut kept| kept.drain(..).collect()).unwrap_or_default()
}

unsafe extern "C" fn receive(level: sys::ggml_log_level, text: *const c_char, _: *mut c_void) {
    let serious = level == sys::GGML_LOG_LEVEL_WARN || level == sys::GGML_LOG_LEVEL_ERROR;
    if !serious || text.is_null() {
        return;
    }
    // SAFETY: ggml passes a NUL-terminated string that lives for the duration of the call.
    keep(&unsafe { CStr::from_ptr(text) }.to_string_lossy());
}

/// Keeps a message that becomes part of the next error.
pub(crate) fn keep(text: &str) {
    if let Ok(mut kept) = MESSAGES.lock() {
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(text.trim().to_owned());
    }
}
