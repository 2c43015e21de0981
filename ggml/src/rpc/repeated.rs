//! Graphs that a server keeps. A server keeps the graph of its last computation, and computes it again where the client sends
//! the same number: some bytes instead of about 300 for each tensor.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Client;

static NEXT_UID: AtomicU64 = AtomicU64::new(1);

/// What servers were sent of a graph.
#[derive(Default)]
pub(crate) struct RepeatedGraph(Mutex<Sent>);

#[derive(Default)]
struct Sent {
    /// ggml's number of the graph; 0 before it was computed.
    uid: u64,
    /// The connection it was sent by, and how often the server's memory had been freed: the server forgets its graphs then.
    place: (u64, u64),
}

/// The number that a graph is sent with.
pub(crate) struct GraphUid {
    pub(crate) uid: u64,
    /// Whether the graph is computed for the first time.
    pub(crate) is_first: bool,
}

impl RepeatedGraph {
    /// The number for the next computation. It is another one where the server does not keep the graph any more.
    pub(crate) fn uid(&self, client: &Client) -> GraphUid {
        let place = (client.number, client.connection.frees());
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = sent.uid == 0;
        if is_first || sent.place != place {
            *sent = Sent { uid: NEXT_UID.fetch_add(1, Ordering::Relaxed), place };
        }
        GraphUid { uid: sent.uid, is_first }
    }
}
