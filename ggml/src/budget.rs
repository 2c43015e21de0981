//! A limit on a device's memory. Every allocation is charged to it first, so that the limit always holds and
//! tests can make any allocation fail.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Error;

/// How many bytes may be taken, and how many are.
pub(crate) struct Budget {
    /// Bytes.
    limit: usize,
    usage: Mutex<Usage>,
}

#[derive(Clone, Copy, Default)]
struct Usage {
    /// Bytes taken now.
    used: usize,
    /// The largest `used` so far.
    peak: usize,
}

impl Budget {
    /// A limit of `limit` bytes.
    pub(crate) fn new(limit: usize) -> Arc<Budget> {
        Arc::new(Budget { limit, usage: Mutex::default() })
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes taken now, and the largest number so far.
    pub(crate) fn used(&self) -> (usize, usize) {
        let usage = self.usage();
        (usage.used, usage.peak)
    }

    /// Bytes that may still be taken.
    pub(crate) fn left(&self) -> usize {
        self.limit - self.usage().used
    }

    /// A charge of 0 bytes, to be resized.
    pub(crate) fn charge(self: &Arc<Budget>) -> Charge {
        Charge { budget: self.clone(), bytes: 0 }
    }
}

/// Bytes taken from a budget; dropping it gives them back.
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Charge {
    /// Takes `bytes` instead of the present number. On an error the charge is unchanged; the error names
    /// `what` the memory is for and the `device`.
    pub(crate) fn resize(
        &mut self,
        bytes: usize,
        what: &str,
        device: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        let mut usage = self.budget.usage();
        let others = usage.used - self.bytes;
        let used = others.saturating_add(bytes);
        let limit = self.budget.limit;
        if used > limit {
            return Err(Error::OverBudget {
                what: what.into(),
                bytes,
                device: device(),
                used: others,
                limit,
            });
        }
        *usage = Usage { used, peak: usage.peak.max(used) };
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.usage().used -= self.bytes;
    }
}
