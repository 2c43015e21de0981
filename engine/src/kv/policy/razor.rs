//! RazorAttention (Tang et al. 2024, arXiv 2407.15891): retrieval heads keep everything, the others sinks, a buffer of
//! L_h = max(S0, N / C) recent tokens, and one compensation entry, the means of the keys and values that left with the
//! weight of their number (algorithm 1, equations 4 and 5, table 2).
//!
//! Decisions where the paper is silent: N counts all tokens seen, L_h is rounded down, sinks come on top of L_h.

use super::{Bounds, Entry, Parameter, Policy, rows, streaming::SLACK};
use std::rc::Rc;

#[derive(Debug)]
struct Razor(Bounds);

impl Policy for Razor {
    fn bounds(&self) -> Option<Bounds> {
        Some(self.0.clone())
    }

    fn uses_profile(&self) -> bool {
        true
    }
}

const fn share(name: &'static str, meaning: &'static str, default: f64) -> Parameter {
    Parameter { name, meaning, default, least: 0.0, most: 1.0, whole: false, always_shown: false }
}

pub(super) const ENTRY: Entry = Entry {
    name: "razor",
    summary: "retrieval heads keep everything, the others sinks, a window and one compensation entry (RazorAttention)",
    parameters: &[
        rows("buffer", "S0: recent rows kept at least (4000 in table 2)", 4000.0, 1.0),
        Parameter {
            name: "ratio",
            meaning: "C: of N tokens seen at least N / C recent rows are kept (5 in table 2)",
            default: 5.0,
            least: 1.0,
            most: 1e9,
            whole: false,
            always_shown: true,
        },
        rows("sinks", "N0: first rows kept (4 in table 2)", 4.0, 0.0),
        share("induction", "share of query heads protected by induction score (0.14 in table 2)", 0.14),
        share("echo", "share of query heads protected by echo score (0.01 in table 2)", 0.01),
        Parameter {
            name: "compensation",
            meaning: "on or off: whether one entry stands for the rows that left",
            default: 1.0,
            least: 0.0,
            most: 1.0,
            whole: true,
            always_shown: false,
        },
        Parameter { always_shown: false, ..rows("slack", SLACK, -1.0, -1.0) },
    ],
    make: |values| {
        Rc::new(Razor(Bounds {
            window: values[0] as usize,
            share: 1.0 / values[1],
            sinks: values[2] as usize,
            compensated: values[5] != 0.0,
            slack: (values[6] >= 0.0).then_some(values[6] as usize),
        }))
    },
};
