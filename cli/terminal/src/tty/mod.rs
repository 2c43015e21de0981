//! The modes of the terminal on stdin. While a chat runs, keys are not echoed and arrive one by one, so that nothing
//! that is typed mixes with the output. Output keeps its usual mode: a newline still begins a new line.
//!
//! [`restore`] may be called from anywhere and at any time: by a panic, a signal or a fatal error.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use self::unix::*;
#[cfg(windows)]
pub use self::windows::*;
