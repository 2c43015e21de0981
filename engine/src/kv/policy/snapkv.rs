//! SnapKV (Li et al. 2024, arXiv 2404.14469): the attention of the last `window` queries, pooled over neighbours, says which
//! rows of the text before them stay; the window itself stays too.
//!
//! Decisions: per KV head, the mean over the group after pooling. While tokens are generated the cache grows, as in the
//! authors' code; after `slack` tokens the rule is applied again with the queries of the last ones, so that memory is bounded.

use super::pool::{self, Pool};
use super::registry::{Entry, Make, Parameter, Values, choice, rows, slack};
use super::{Basis, Cut, Moment, Needs, Policy, Scored, ScoredRows};
use kernels::graph::Gain;
use std::rc::Rc;

/// A window of queries that decides what stays of the rows before it; SlimKV's frame too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshot {
    pub window: usize,
    pub capacity: usize,
    pub kernel: usize,
    pub pool: Pool,
    pub slack: usize,
}

impl Snapshot {
    pub(super) fn new(values: &Values) -> Result<Snapshot, String> {
        let snapshot = Snapshot {
            window: values.count("window"),
            capacity: values.count("capacity"),
            kernel: values.count("kernel"),
            pool: Pool::from_index(values.count("pool")),
            slack: values.count("slack"),
        };
        let Snapshot { window, capacity, kernel, .. } = snapshot;
        if capacity < window {
            return Err(format!("a capacity of {capacity} rows does not hold the window of {window}"));
        }
        if kernel % 2 == 0 {
            return Err(format!("pooling needs an odd number of rows, not {kernel}"));
        }
        Ok(snapshot)
    }

    pub(super) fn fit(values: &mut Values, rows: usize) {
        let window = values.count("window").min((rows / 2).max(1));
        values.set("window", window);
        values.set("capacity", rows);
        // Room for generated tokens is memory too: where little is kept, not much of it, or it would be most of the store.
        values.set("slack", values.count("slack").min(rows / 8));
    }

    pub(super) fn needs(&self) -> Needs {
        Needs { queries: self.window, gathered: None }
    }

    /// The rows before the window compete, if there are too many; `more` is asked for beside the window's attention.
    pub(super) fn cut(&self, moment: &Moment, more: Option<Basis>) -> Option<Cut> {
        let Snapshot { window, capacity, .. } = *self;
        (moment.live > capacity + moment.slack(self.slack)).then(|| {
            let positions = 0..moment.seen - window;
            let by =
                Some(Basis::Window { queries: window, gain: Gain::One }).into_iter().chain(more).collect();
            let scored = Scored { ordered: Some(positions.clone()), by, remembered: false };
            Cut::one(positions, capacity - window, Some(scored))
        })
    }
}

#[derive(Debug)]
struct SnapKv(Snapshot);

impl Policy for SnapKv {
    fn budget(&self, _context: usize) -> usize {
        self.0.capacity
    }

    fn slack(&self, _context: usize) -> usize {
        self.0.slack
    }

    fn needs(&self) -> Needs {
        self.0.needs()
    }

    fn cut(&self, moment: &Moment) -> Option<Cut> {
        self.0.cut(moment, None)
    }

    fn score(&self, rows: ScoredRows) -> Vec<Vec<f32>> {
        rows.each(|head| {
            let n = head.positions.len();
            let mut mean = vec![0f32; n];
            for received in head.numbers[0].chunks_exact(n.max(1)) {
                for (mean, x) in mean.iter_mut().zip(self.0.pool.over(received, self.0.kernel)) {
                    *mean += x / rows.group as f32;
                }
            }
            mean
        })
    }
}

pub(super) const WINDOW: Parameter =
    rows("window", "last queries that decide, and rows that stay", 32.0, 1.0);
pub(super) const CAPACITY: Parameter = rows("capacity", "rows kept, the window included", 1024.0, 2.0);
pub(super) const KERNEL: Parameter = Parameter {
    always_shown: false,
    ..rows("kernel", "neighbouring rows that are pooled, an odd number", 5.0, 1.0)
};
pub(super) const POOL: Parameter = choice("pool", "how neighbours are combined", pool::NAMES, 0.0);
pub(super) const SLACK: Parameter = Parameter {
    meaning: "rows that generated tokens may add before the rule is applied again",
    least: 0.0,
    ..slack(512.0)
};

pub(super) const ENTRY: Entry = Entry {
    name: "snapkv",
    summary: "what the last queries of the text attend to, pooled, and the window (SnapKV)",
    parameters: &[WINDOW, CAPACITY, KERNEL, POOL, SLACK],
    profile: false,
    compensation: false,
    make: Some(Make {
        policy: |values| Ok(Rc::new(SnapKv(Snapshot::new(values)?))),
        fit: |values, rows, _| Snapshot::fit(values, rows),
    }),
};
