//! A bound on a device's memory. Everything that is allocated there is charged first, so that the bound holds by construction and
//! running out of memory can be had at any allocation.

use std::cell::Cell;
use std::rc::Rc;

use crate::Error;

/// How much may be taken, and how much is.
pub(crate) struct Budget {
    limit: usize,
    used: Cell<usize>,
    /// The most that was taken at a time.
    peak: Cell<usize>,
}

impl Budget {
    /// A bound of `limit` bytes.
    pub(crate) fn new(limit: usize) -> Rc<Budget> {
        Rc::new(Budget { limit, used: Cell::new(0), peak: Cell::new(0) })
    }

    /// Bytes taken now, and the most there were.
    pub(crate) fn used(&self) -> (usize, usize) {
        (self.used.get(), self.peak.get())
    }

    /// Bytes that may still be taken.
    pub(crate) fn left(&self) -> usize {
        self.limit - self.used.get()
    }

    /// Takes `bytes` until the charge is dropped.
    pub(crate) fn charge(
        self: &Rc<Budget>,
        bytes: usize,
        what: &str,
        device: impl FnOnce() -> String,
    ) -> Result<Charge, Error> {
        let used = self.used.get().saturating_add(bytes);
        if used > self.limit {
            return Err(Error::OverBudget {
                what: what.into(),
                bytes,
                device: device(),
                used: self.used.get(),
                limit: self.limit,
            });
        }
        self.used.set(used);
        self.peak.set(self.peak.get().max(used));
        Ok(Charge { budget: self.clone(), bytes })
    }
}

/// Bytes taken from a budget; dropping it gives them back.
pub(crate) struct Charge {
    budget: Rc<Budget>,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.set(self.budget.used.get() - self.bytes);
    }
}
