//! StreamingLLM (Xiao et al. 2023, arXiv 2309.17453): every head keeps the first few tokens, which collect
//! surplus attention, and the most recent ones.
//!
//! Deviation: keys keep the RoPE positions they were made with; the original applies RoPE again by their
//! index in the cache.

use std::sync::Arc;

use super::recent::{Recent, SLACK};
use crate::kv::policy::{HeadMode, Parameter, PolicyEntry, PolicyFactory};

pub(in crate::kv::policy) const ENTRY: PolicyEntry = PolicyEntry {
    name: "streaming",
    summary: "the first rows (sinks) and a window of recent rows (StreamingLLM)",
    parameters: &[
        Parameter::rows("sinks", "first rows kept (4 in the paper)", 4.0, 0.0),
        Parameter::rows("window", "recent rows kept", 1024.0, 1.0),
        Parameter::slack(-1.0, -1.0).described(SLACK),
    ],
    default_heads: HeadMode::Off,
    default_compensation: false,
    factory: Some(PolicyFactory {
        build: |values| {
            Ok(Arc::new(Recent {
                sinks: values.count("sinks"),
                window: values.count("window"),
                share: 0.0,
                slack: values.optional_count("slack"),
            }))
        },
        fit: |values, rows, _| {
            let sinks = values.count("sinks").min(rows / 2);
            values.set("sinks", sinks);
            values.set("window", rows - sinks);
        },
    }),
};
