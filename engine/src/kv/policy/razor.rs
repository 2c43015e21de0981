//! RazorAttention (Tang et al. 2024, arXiv 2407.15891): retrieval heads keep everything, the others sinks, a buffer of
//! L_h = max(S0, N / C) recent tokens, and one compensation entry, the means of the keys and values that left with the
//! weight of their number (algorithm 1, equations 4 and 5, table 2).
//!
//! Decisions where the paper is silent: N counts all tokens seen, L_h is rounded down, sinks come on top of L_h.
//!
//! On models with ALiBi (section 3.1) no head retrieves: each keeps what it can see, L_h tokens that follow from its weights
//! ([`crate::alibi`]), without sinks and compensation. Windows that reach the context keep everything.

use super::recent::{Recent, SLACK};
use super::registry::{Entry, Make, Parameter, SWITCH, choice, number, rows, slack};
use std::rc::Rc;

const fn share(name: &'static str, meaning: &'static str, default: f64) -> Parameter {
    Parameter { always_shown: false, ..number(name, meaning, default, (0.0, 1.0)) }
}

pub(super) const ENTRY: Entry = Entry {
    name: "razor",
    summary: "retrieval heads keep everything, the others sinks, a window and one compensation entry (RazorAttention)",
    parameters: &[
        rows("buffer", "S0: recent rows kept at least (4000 in table 2)", 4000.0, 1.0),
        number(
            "ratio",
            "C: of N tokens seen at least N / C recent rows are kept (5 in table 2)",
            5.0,
            (1.0, 1e9),
        ),
        rows("sinks", "N0: first rows kept (4 in table 2)", 4.0, 0.0),
        share("induction", "share of query heads protected by induction score (0.14 in table 2)", 0.14),
        share("echo", "share of query heads protected by echo score (0.01 in table 2)", 0.01),
        Parameter {
            always_shown: false,
            ..number(
                "eps",
                "ALiBi: attention below which a token is out of sight (0.001 in equation 2)",
                1e-3,
                (1e-9, 1.0),
            )
        },
        choice("rigorous", "ALiBi: whether windows follow from a strict bound, and are longer", SWITCH, 0.0),
        Parameter { meaning: SLACK, ..slack(-1.0) },
    ],
    profile: true,
    compensation: true,
    make: Some(Make {
        policy: |values| {
            Ok(Rc::new(Recent {
                sinks: values.count("sinks"),
                window: values.count("buffer"),
                share: 1.0 / values.get("ratio"),
                slack: values.slack(),
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
