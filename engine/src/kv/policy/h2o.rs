//! H2O (Zhang et al. 2023, arXiv 2306.14048): attention that each row has received from all queries so far decides, and the most
//! recent rows stay. Reading a text needs a second pass over all pairs of tokens.
//!
//! Decisions: a plain sum, not divided by how many queries could see the row; the mean over the group.

use super::registry::{Entry, Make, Parameter, rows, slack};
use super::{Counted, Cut, Gathered, Moment, Needs, Policy};
use kernels::graph::Gain;
use std::rc::Rc;

#[derive(Debug)]
struct H2o {
    heavy: usize,
    recent: usize,
    slack: usize,
}

impl Policy for H2o {
    fn budget(&self, _context: usize) -> usize {
        self.heavy + self.recent
    }

    fn slack(&self, _context: usize) -> usize {
        self.slack
    }

    fn needs(&self) -> Needs {
        let gathered = Gathered { chunk: Some(Counted::All), steps_add: true, gain: Gain::One };
        Needs { queries: 0, gathered: Some(gathered) }
    }

    fn cut(&self, moment: &Moment) -> Option<Cut> {
        (moment.live > self.heavy + self.recent + moment.slack(self.slack))
            .then(|| Cut::by_gathered(0..moment.seen - self.recent, self.heavy))
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "h2o",
    summary: "rows that have received most attention from all queries, and the recent ones (H2O)",
    parameters: &[
        rows("heavy", "rows kept for their attention", 512.0, 1.0),
        rows("recent", "last rows kept", 512.0, 1.0),
        Parameter { least: 0.0, ..slack(0.0) },
    ],
    profile: false,
    compensation: false,
    make: Some(Make {
        policy: |values| {
            Ok(Rc::new(H2o {
                heavy: values.count("heavy"),
                recent: values.count("recent"),
                slack: values.count("slack"),
            }))
        },
        fit: |values, rows, _| {
            values.set("heavy", rows - rows / 2);
            values.set("recent", (rows / 2).max(1));
        },
    }),
};
