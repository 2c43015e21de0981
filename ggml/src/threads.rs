//! Finds out whether threads can be started before ggml starts them: where it cannot, it aborts the process.

use std::cell::Cell;
use std::sync::Mutex;
use std::thread::Builder;

use crate::Error;

/// Stack of a thread that ggml starts, on most systems, in bytes.
const STACK_BYTES: usize = 8 << 20;

/// Starts as many threads as a pool of `threads` has beside the caller's, all at the same time, and ends them.
/// Another process may still take the last threads that the system allows before ggml starts its own.
pub(crate) fn check(threads: usize) -> Result<(), Error> {
    let gate = Mutex::new(());
    std::thread::scope(|scope| {
        // Open when this function returns, before the threads are waited for.
        let _closed = gate.lock();
        for started in 1..threads {
            let thread = Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, || drop(gate.lock()));
            if let Err(error) = thread {
                return Err(Error::Threads { threads, started, reason: error.to_string() });
            }
        }
        Ok(())
    })
}

thread_local! {
    /// Threads of the pool that this thread has ggml start just now.
    static STARTING: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Has ggml start a pool of `threads`. Where the system refuses them after all, because other threads are there now or
/// those of [`check`] are still counted, ggml aborts: [`refused`] is the error then.
pub(crate) fn starting<T>(threads: usize, start: impl FnOnce() -> T) -> T {
    STARTING.set(Some(threads));
    let started = start();
    STARTING.set(None);
    started
}

/// The error where ggml aborts while this thread has it start a pool.
pub(crate) fn refused() -> Option<Error> {
    let reason = "the system refused one of them".to_owned();
    STARTING.get().map(|threads| Error::Threads { threads, started: 0, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_can_be_started() {
        for threads in [0, 1, 2, 20] {
            check(threads).expect("starts");
        }
    }

    #[test]
    fn a_pool_that_cannot_be_started_is_an_error_of_threads() {
        assert!(refused().is_none());
        let error = starting(4, || {
            std::thread::scope(|scope| {
                assert!(
                    scope.spawn(|| refused().is_none()).join().expect("another thread"),
                    "only of this thread"
                );
                refused().expect("an error")
            })
        });
        assert_eq!(error.to_string(), "cannot start 4 threads: the system refused one of them");
        assert!(refused().is_none());
    }
}
