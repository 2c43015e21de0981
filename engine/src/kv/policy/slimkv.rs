//! SlimKV: SnapKV's window of queries, but a row's score is the attention it receives (summed over window and group, equation 3)
//! times the largest absolute element of its value (equation 4), pooled once per KV head.
//!
//! Decisions: the product of equation 5; `combine=sum` is the paper's listing. Window, kernel and pooling are not given in the
//! paper: SnapKV's.

use super::registry::{Entry, Make, Parameter, choice};
use super::snapkv::{CAPACITY, KERNEL, POOL, SLACK, Snapshot, WINDOW};
use super::{Basis, Cut, Moment, Needs, Policy, ScoredRows};
use kernels::measure::Measure;
use std::rc::Rc;

#[derive(Debug)]
struct SlimKv {
    frame: Snapshot,
    sum: bool,
}

impl Policy for SlimKv {
    fn budget(&self, _context: usize) -> usize {
        self.frame.capacity
    }

    fn slack(&self, _context: usize) -> usize {
        self.frame.slack
    }

    fn needs(&self) -> Needs {
        self.frame.needs()
    }

    fn cut(&self, moment: &Moment) -> Option<Cut> {
        self.frame.cut(moment, Some(Basis::Value(Measure::MaxAbs)))
    }

    fn score(&self, rows: ScoredRows) -> Vec<Vec<f32>> {
        rows.each(|head| {
            let n = head.positions.len();
            let mut score = vec![0f32; n];
            for received in head.numbers[0].chunks_exact(n.max(1)) {
                score.iter_mut().zip(received).for_each(|(score, x)| *score += x);
            }
            for (score, largest) in score.iter_mut().zip(&head.numbers[1]) {
                *score = if self.sum { *score + largest } else { *score * largest };
            }
            self.frame.pool.over(&score, self.frame.kernel)
        })
    }
}

const COMBINE: Parameter =
    choice("combine", "how attention and value are combined", &["product", "sum"], 0.0);

pub(super) const ENTRY: Entry = Entry {
    name: "slimkv",
    summary: "as snapkv, attention times the size of the value (SlimKV)",
    parameters: &[WINDOW, CAPACITY, KERNEL, POOL, COMBINE, SLACK],
    profile: false,
    compensation: false,
    make: Some(Make {
        policy: |values| {
            Ok(Rc::new(SlimKv { frame: Snapshot::new(values)?, sum: values.count("combine") == 1 }))
        },
        fit: |values, rows, _| Snapshot::fit(values, rows),
    }),
};
