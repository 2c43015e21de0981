//! StreamingLLM (Xiao et al. 2023, arXiv 2309.17453): every head keeps the first few tokens, which collect surplus
//! attention, and the most recent ones.
//!
//! Deviation: keys keep the RoPE positions they were made with; the original turns them again by their place in the cache.

use super::{Bounds, Entry, Policy, rows};
use std::rc::Rc;

#[derive(Debug)]
struct Streaming(Bounds);

impl Policy for Streaming {
    fn bounds(&self) -> Option<Bounds> {
        Some(self.0.clone())
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "streaming",
    summary: "all heads keep sinks and a recent window (StreamingLLM)",
    parameters: &[
        rows("sinks", "first rows kept (4 in the paper)", 4.0, 0.0),
        rows("window", "recent rows kept", 1024.0, 1.0),
        super::Parameter { always_shown: false, ..rows("slack", SLACK, -1.0, -1.0) },
    ],
    make: |values| {
        Rc::new(Streaming(Bounds {
            sinks: values[0] as usize,
            window: values[1] as usize,
            share: 0.0,
            compensated: false,
            slack: (values[2] >= 0.0).then_some(values[2] as usize),
        }))
    },
};

/// The meaning of `slack`, the same for all policies with a window.
pub(super) const SLACK: &str = "rows that may gather beyond the window before they leave together; -1 is an eighth of the window, at most 512";
