//! Graphs that a server keeps. A server keeps the graph of its last computation, and computes it again where the client sends
//! the same number: some bytes instead of about 300 for each tensor.

use std::sync::atomic::{AtomicU64, Ordering};

static NEXT_UID: AtomicU64 = AtomicU64::new(1);

/// A graph's number for servers.
#[derive(Default)]
pub(crate) struct RepeatedGraph(AtomicU64);

impl RepeatedGraph {
    /// The number, and whether this is the first time that it is asked for. The caller holds the lock of the connection.
    pub(crate) fn uid(&self) -> (u64, bool) {
        match self.0.load(Ordering::Relaxed) {
            0 => {
                let uid = NEXT_UID.fetch_add(1, Ordering::Relaxed);
                self.0.store(uid, Ordering::Relaxed);
                (uid, true)
            }
            uid => (uid, false),
        }
    }

    /// Forgets the number: nobody knows what the server has.
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
