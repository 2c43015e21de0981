//! RazorAttention (Tang et al. 2024, arXiv 2407.15891): retrieval heads keep everything. The others keep
//! sinks, a buffer of L_h = max(S0, N / C) recent tokens, and one compensation entry: the means of the
//! evicted keys and values, weighted by their number (algorithm 1, equations 4 and 5, table 2).
//!
//! Decisions where the paper is silent: N counts all tokens seen; L_h is rounded down; sinks come on top of
//! L_h.
//!
//! On models with ALiBi (section 3.1) there are no retrieval heads. Each head keeps its attention scope, L_h
//! tokens that follow from its weights ([`crate::kv::alibi`]), without sinks and compensation. Heads whose scope
//! reaches the context keep everything.

use std::sync::Arc;

use super::recent::{Recent, SLACK};
use crate::kv::policy::{HeadMode, Parameter, PolicyEntry, PolicyFactory};

const fn share(name: &'static str, description: &'static str, default: f64) -> Parameter {
    Parameter::number(name, description, default, 0.0..=1.0).hidden()
}

pub(in crate::kv::policy) const ENTRY: PolicyEntry = PolicyEntry {
    name: "razor",
    summary: "retrieval heads keep everything; the others keep the first rows (sinks), a window, and one entry for all \
              evicted rows (RazorAttention)",
    parameters: &[
        Parameter::rows("buffer", "smallest window in rows (4000 in the paper)", 4000.0, 1.0),
        Parameter::number(
            "ratio",
            "after N tokens the window has N / ratio rows, if that is more than buffer (5 in the paper)",
            5.0,
            1.0..=1e9,
        ),
        Parameter::rows("sinks", "first rows kept (4 in the paper)", 4.0, 0.0),
        share(
            "induction",
            "share of query heads that keep everything, those with the highest induction scores of the head profile (0.14 in the paper)",
            0.14,
        ),
        share(
            "echo",
            "share of query heads that keep everything, those with the highest echo scores of the head profile (0.01 in the paper)",
            0.01,
        ),
        Parameter::number(
            "eps",
            "for models with ALiBi: a head ignores tokens with less attention than this (0.001 in the paper)",
            1e-3,
            1e-9..=1.0,
        )
        .hidden(),
        Parameter::switch(
            "rigorous",
            "for models with ALiBi: whether eps holds for any text, which makes windows longer",
        ),
        Parameter::slack(-1.0, -1.0).described(SLACK),
    ],
    default_heads: HeadMode::On,
    default_compensation: true,
    factory: Some(PolicyFactory {
        build: |values| {
            Ok(Arc::new(Recent {
                sinks: values.count("sinks"),
                window: values.count("buffer"),
                share: 1.0 / values.get("ratio"),
                slack: values.optional_count("slack"),
            }))
        },
        fit: |values, rows, _| {
            let sinks = values.count("sinks").min(rows / 2);
            values.set("sinks", sinks);
            values.set("buffer", rows - sinks);
            values.set("ratio", 1e9); // a window that does not grow
        },
    }),
};
