//! What tests ask of a backend: to be lost, or to see an interrupt, after so many operations.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Error, InterruptFlag};

/// How many operations are left until something happens: `usize::MAX` where nothing does.
///
/// The thread that computes counts, under the lock of the backend. So numbers are set while nothing is computed.
pub(crate) struct Faults {
    /// Until the device is lost.
    until_loss: AtomicUsize,
    /// Until the flag of the computation is set, counting operations that can be interrupted.
    until_interrupt: AtomicUsize,
}

impl Faults {
    pub(crate) fn none() -> Faults {
        Faults { until_loss: AtomicUsize::new(usize::MAX), until_interrupt: AtomicUsize::new(usize::MAX) }
    }

    pub(crate) fn lose_after(&self, operations: usize) {
        self.until_loss.store(operations, Ordering::Relaxed);
    }

    pub(crate) fn interrupt_after(&self, operations: usize) {
        self.until_interrupt.store(operations, Ordering::Relaxed);
    }

    /// Counts an operation of a device, which fails when it is lost.
    pub(crate) fn count_operation(&self) -> Result<(), Error> {
        match self.until_loss.load(Ordering::Relaxed) {
            usize::MAX => Ok(()),
            0 => Err(Error::Device("it was lost".into())),
            left => {
                self.until_loss.store(left - 1, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Counts an operation that can be interrupted by `flag`.
    pub(crate) fn count_interruptible(&self, flag: &InterruptFlag) {
        let left = self.until_interrupt.load(Ordering::Relaxed);
        if left == 1 {
            flag.set();
        }
        if left != usize::MAX && left > 0 {
            self.until_interrupt.store(left - 1, Ordering::Relaxed);
        }
    }
}
