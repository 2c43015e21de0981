//! Finds out whether threads can be started before ggml starts them: where it cannot, it aborts the process.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_can_be_started() {
        for threads in [0, 1, 2, 20] {
            check(threads).expect("starts");
        }
    }
}
