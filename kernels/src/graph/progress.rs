//! A counter from which the threads of a node take their work.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How far the threads of a node are.
#[derive(Default)]
pub(super) struct Progress {
    /// Pieces of work that were taken.
    next: AtomicUsize,
    /// Threads that are done.
    done: AtomicUsize,
}

impl Progress {
    /// One of `threads` threads' part in it.
    pub(super) fn share(&self, threads: usize) -> Share<'_> {
        Share { progress: self, threads }
    }
}

/// One thread's part in it. The last thread that is done, whether it failed or not, resets the progress for
/// the next computation.
pub(super) struct Share<'a> {
    progress: &'a Progress,
    threads: usize,
}

impl Share<'_> {
    /// The counter, 0 at the start.
    pub(super) fn next(&self) -> &AtomicUsize {
        &self.progress.next
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let Progress { next, done } = self.progress;
        if done.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            done.store(0, Ordering::Relaxed);
            next.store(0, Ordering::Release);
        }
    }
}
