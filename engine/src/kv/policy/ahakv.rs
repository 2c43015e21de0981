//! AhaKV (Gu et al. 2025, arXiv 2506.03762): attention accumulated over queries favours old tokens and flattens as texts grow, so
//! rows are sharpened by sqrt(2 ln(i / B)) (equation 12), only the last B_r queries count, and the sum is weighted by a prior
//! from the values, their pooled squared norms relative to the largest (equations 13 to 15). While tokens are generated each
//! adds its row to what was gathered (algorithm 1).
//!
//! Decisions: lambda acts on the raw product, which meets the design target (`lambda=literal` is the algorithm as printed); up to
//! B tokens rows are not sharpened; B is the total budget; B_r rows, not B_r + 1; the mean over the group; width 5 and zeros at
//! the ends for the pooling, which the paper leaves open; the prior is 1 where all values are zero.

use super::pool::Pool;
use super::registry::{Entry, Make, Parameter, choice, rows, slack};
use super::{Basis, Cut, Event, Gathered, Moment, Needs, Policy, Scored, ScoredRows};
use kernels::graph::Gain;
use kernels::measure::Measure;
use std::rc::Rc;

#[derive(Debug)]
struct AhaKv {
    budget: usize,
    recent: usize,
    kernel: usize,
    gain: Gain,
    slack: usize,
}

impl Policy for AhaKv {
    fn budget(&self, _context: usize) -> usize {
        self.budget
    }

    fn slack(&self, _context: usize) -> usize {
        self.slack
    }

    fn needs(&self) -> Needs {
        let gathered = Gathered { chunk: None, steps_add: true, gain: self.gain };
        Needs { queries: self.recent, gathered: Some(gathered) }
    }

    fn cut(&self, moment: &Moment) -> Option<Cut> {
        let competing = 0..moment.seen.saturating_sub(self.recent);
        let keep = self.budget - self.recent;
        if moment.event == Event::Step {
            let over = moment.live > self.budget + moment.slack(self.slack);
            return over.then(|| Cut::by_gathered(competing, keep));
        }
        // All rows are scored, also where none has to leave: what is gathered later comes on top.
        let window = Basis::Window { queries: self.recent, gain: self.gain };
        let by = vec![window, Basis::Value(Measure::SquaredNorm)];
        let scored = Scored { ordered: Some(0..moment.seen), by, remembered: true };
        let keep = if moment.live > self.budget { keep } else { usize::MAX };
        Some(Cut::one(competing, keep, Some(scored)))
    }

    fn score(&self, rows: ScoredRows) -> Vec<Vec<f32>> {
        if rows.moment.event == Event::Step {
            return rows.as_they_are(); // gathered
        }
        rows.each(|head| {
            let n = head.positions.len();
            let mut score = vec![0f32; n];
            for received in head.numbers[0].chunks_exact(n.max(1)) {
                score.iter_mut().zip(received).for_each(|(score, x)| *score += x / rows.group as f32);
            }
            let prior = Pool::Average.over(&head.numbers[1], self.kernel);
            let largest = prior.iter().copied().fold(0f32, f32::max);
            if largest > 0.0 {
                score.iter_mut().zip(prior).for_each(|(score, prior)| *score *= prior / largest);
            }
            score
        })
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "ahakv",
    summary: "sharpened attention of the last queries times the size of the value, gathered further in decode (AhaKV)",
    parameters: &[
        rows("budget", "B: rows kept (1000 in the paper)", 1000.0, 2.0),
        rows("recent", "B_r: last queries that decide, and rows that stay (32 in the paper)", 32.0, 1.0),
        Parameter {
            always_shown: false,
            ..rows("kernel", "neighbouring values pooled, an odd number", 5.0, 1.0)
        },
        choice("lambda", "on what the sharpening acts", &["entropy", "literal"], 0.0),
        Parameter { least: 0.0, ..slack(0.0) },
    ],
    profile: false,
    compensation: false,
    make: Some(Make {
        policy: |values| {
            let (budget, recent, kernel) =
                (values.count("budget"), values.count("recent"), values.count("kernel"));
            if budget <= recent {
                return Err(format!("a budget of {budget} rows leaves none beside the {recent} recent ones"));
            }
            if kernel % 2 == 0 {
                return Err(format!("pooling needs an odd number of rows, not {kernel}"));
            }
            let gain = match values.count("lambda") {
                0 => Gain::Entropy { budget },
                _ => Gain::Literal { budget },
            };
            Ok(Rc::new(AhaKv { budget, recent, kernel, gain, slack: values.count("slack") }))
        },
        fit: |values, rows, _| {
            let recent = values.count("recent").min((rows / 2).max(1));
            values.set("recent", recent);
            values.set("budget", rows);
        },
    }),
};
