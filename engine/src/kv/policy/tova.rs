//! TOVA (Oren et al. 2024, arXiv 2401.06104): the rows that the last query attends to least leave; one choice for all heads of a
//! layer, by the mean over all its query heads.
//!
//! Decisions: the newest token is not protected (`protect_last=on` does). Where some heads of the layer keep everything, only
//! the others vote.

use super::registry::{Entry, Make, Parameter, choice, rows, slack};
use super::{Counted, Cut, Gathered, Moment, Needs, Policy, ScoredRows};
use kernels::graph::Gain;
use std::rc::Rc;

#[derive(Debug)]
struct Tova {
    capacity: usize,
    protected: usize,
    slack: usize,
}

impl Policy for Tova {
    fn budget(&self, _context: usize) -> usize {
        self.capacity
    }

    fn slack(&self, _context: usize) -> usize {
        self.slack
    }

    fn needs(&self) -> Needs {
        let gathered = Gathered { chunk: Some(Counted::Last), steps_add: false, gain: Gain::One };
        Needs { queries: 0, gathered: Some(gathered) }
    }

    fn cut(&self, moment: &Moment) -> Option<Cut> {
        (moment.live > self.capacity + moment.slack(self.slack))
            .then(|| Cut::by_gathered(0..moment.seen - self.protected, self.capacity - self.protected))
    }

    fn score(&self, rows: ScoredRows) -> Vec<Vec<f32>> {
        // All heads hold the same positions in the same order; of a sum the same are the largest as of a mean.
        let mut sum = vec![0f32; rows.heads.first().map_or(0, |head| head.positions.len())];
        for head in &rows.heads {
            sum.iter_mut().zip(&head.numbers[0]).for_each(|(sum, x)| *sum += x);
        }
        vec![sum; rows.heads.len()]
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "tova",
    summary: "the rows that the last query attends to most, the same for all heads of a layer (TOVA)",
    parameters: &[
        rows("capacity", "rows kept", 1024.0, 1.0),
        choice("protect_last", "whether the newest row stays in any case", &["off", "on"], 0.0),
        Parameter { least: 0.0, ..slack(0.0) },
    ],
    profile: false,
    compensation: false,
    make: Some(Make {
        policy: |values| {
            let (capacity, protected) = (values.count("capacity"), values.count("protect_last"));
            Ok(Rc::new(Tova { capacity, protected, slack: values.count("slack") }))
        },
        fit: |values, rows, _| values.set("capacity", rows),
    }),
};
