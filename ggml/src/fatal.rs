//! The end that cannot be an error: ggml aborts the process where it finds something it does not expect, and a GPU that was lost
//! takes everything down that touches it, freed memory included. A program can say here what is to be done before its process ends.

use std::ffi::{CStr, c_char};
use std::sync::{Mutex, Once};

use ggml_sys as sys;

/// What is called with the last words; its result is the process's exit code. It must not use the library.
pub type Hook = fn(&str) -> i32;

static HOOK: Mutex<Option<Hook>> = Mutex::new(None);

unsafe extern "C" {
    /// The C library's: ends the process at once, without the destructors that would wait for a GPU.
    fn _exit(code: i32) -> !;
}

/// Has `hook` called when the process must end; it then ends at once, with what the hook returns as its exit code. Without one, a
/// lost GPU is an error like any other, and what ggml does not expect an abort.
pub fn on_fatal(hook: Hook) {
    if let Ok(mut slot) = HOOK.lock() {
        *slot = Some(hook);
    }
}

/// Ends the process if there is a hook.
pub(crate) fn raise(last_words: &str) {
    let hook = HOOK.lock().ok().and_then(|mut slot| slot.take());
    if let Some(hook) = hook {
        let code = hook(last_words);
        // SAFETY: nothing of this process runs any more.
        unsafe { _exit(code) }
    }
}

/// Has ggml tell here before it aborts.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the callback has the required signature and lives for ever.
        unsafe { sys::ggml_set_abort_callback(Some(aborting)) };
    });
}

unsafe extern "C" fn aborting(text: *const c_char) {
    // SAFETY: null or a NUL-terminated string that lives for the duration of the call.
    let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy());
    let before: String = crate::log::take().iter().map(|line| format!("\n{line}")).collect();
    raise(&format!("{}{before}", text.as_deref().unwrap_or("ggml gave up")));
}
