//! StreamingLLM (Xiao et al. 2023, arXiv 2309.17453): every head keeps the first few tokens, which collect surplus
//! attention, and the most recent ones.
//!
//! Deviation: keys keep the RoPE positions they were made with; the original turns them again by their place in the cache.

use super::recent::{Recent, SLACK};
use super::registry::{Entry, Make, Parameter, rows, slack};
use std::rc::Rc;

pub(super) const ENTRY: Entry = Entry {
    name: "streaming",
    summary: "sinks and a recent window (StreamingLLM)",
    parameters: &[
        rows("sinks", "first rows kept (4 in the paper)", 4.0, 0.0),
        rows("window", "recent rows kept", 1024.0, 1.0),
        Parameter { meaning: SLACK, ..slack(-1.0) },
    ],
    profile: false,
    compensation: false,
    make: Some(Make {
        policy: |values| {
            Ok(Rc::new(Recent {
                sinks: values.count("sinks"),
                window: values.count("window"),
                share: 0.0,
                slack: values.slack(),
            }))
        },
        fit: |values, rows, _| {
            let sinks = values.count("sinks").min(rows / 2);
            values.set("sinks", sinks);
            values.set("window", rows - sinks);
        },
    }),
};
