//! The flag that stops a computation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Error;

/// Stops what it was given to: a call, or all calls of a session. Clones share the flag, and any thread may set it.
/// Work that has another flag goes on.
///
/// ```
/// let flag = ggml::InterruptFlag::new();
/// let given = flag.clone();
/// flag.set();
/// assert!(given.is_set() && given.check().is_err());
/// ```
#[derive(Clone, Debug, Default)]
pub struct InterruptFlag(Arc<AtomicBool>);

impl InterruptFlag {
    /// A flag that is not set, and that nothing else shares.
    pub fn new() -> InterruptFlag {
        InterruptFlag::default()
    }

    /// Stops the work at its next operation, and what begins later, until the flag is cleared.
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Allows work again, where the same flag is used once more.
    pub fn clear(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// [`Error::Interrupted`] if it is set.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_set() { Err(Error::Interrupted) } else { Ok(()) }
    }
}
