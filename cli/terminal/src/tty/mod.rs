//! The modes of the terminal on stdin. While a chat runs, keys are not echoed and arrive one by one, so that nothing
//! that is typed mixes with the output. Output keeps its usual mode: a newline still begins a new line.
//!
//! [`restore`] may be called from anywhere and at any time: by a panic, a signal or a fatal error.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::panic;
use std::sync::Once;

#[cfg(unix)]
pub use self::unix::*;
#[cfg(windows)]
pub use self::windows::*;

/// A panic restores the terminal from now on.
fn restore_after_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            restore();
            crate::console::remove_below();
            previous(info);
        }));
    });
}
