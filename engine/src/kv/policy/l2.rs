//! L2 norm (Devoto et al. 2024, arXiv 2406.11430): keys of low norm draw attention, so each head keeps the keys of lowest norm
//! (section 3). Layers 0 and 1 are never compressed.
//!
//! Two forms. *Saw-tooth*, the authors' code: as long as a head holds fewer than `after` rows nothing happens; from there on
//! ceil(keep · rows) stay. *Per step* (`rows`): a fixed number of rows, what is more leaves.
//!
//! Decisions: sinks and recent rows are not protected by default, as in the paper; where they are, they count as kept. After a
//! text read with full attention, ceil(keep · n) of its rows stay and the teeth of the saw go on top of them: the rule taken
//! literally would halve a long text with every token until `after` is reached. `order` gives the paper's ablations (keep the
//! highest norms, keep at random).

use super::recent::ceil;
use super::registry::{Entry, Make, Parameter, choice, number, rows, slack};
use super::{Basis, Cut, Event, Moment, Policy, Scored, ScoredRows};
use kernels::measure::Measure;
use std::rc::Rc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Low,
    High,
    Random,
}

#[derive(Debug)]
struct L2 {
    keep: f64,
    after: usize,
    /// The per-step form.
    rows: Option<usize>,
    sinks: usize,
    recent: usize,
    skip: usize,
    order: Order,
    slack: Option<usize>,
}

impl L2 {
    /// Rows between the low and the high end of the saw.
    fn tooth(&self) -> usize {
        (self.after - ceil(self.keep * self.after as f64).min(self.after)).max(1)
    }

    /// Rows that stay of `live`.
    fn target(&self, moment: &Moment) -> usize {
        let Moment { live, of_text, .. } = *moment;
        if let Some(rows) = self.rows {
            let due = moment.event == Event::Text || moment.forced;
            let slack = if due { 0 } else { self.slack(moment.context) };
            return if live > rows + slack { rows } else { live };
        }
        let trigger = if of_text >= self.after { of_text + self.tooth() } else { self.after };
        if live < trigger && !(moment.forced && live > of_text) {
            return live;
        }
        ceil(self.keep * live as f64).max(if of_text >= self.after { of_text } else { 0 }).min(live)
    }
}

impl Policy for L2 {
    fn budget(&self, context: usize) -> usize {
        match self.rows {
            Some(rows) => rows,
            None => self.after.max(ceil(self.keep * context as f64) + self.tooth()),
        }
    }

    fn slack(&self, _context: usize) -> usize {
        match self.rows {
            // Norms do not change: to let rows leave together comes to the same when they have left, and measures less often.
            Some(rows) => self.slack.unwrap_or((rows / 8).clamp(1, 512)),
            None => 0,
        }
    }

    fn spares(&self, layer: usize) -> bool {
        layer < self.skip
    }

    fn cut(&self, moment: &Moment) -> Option<Cut> {
        let protected = self.sinks + self.recent;
        let target = self.target(moment).max(protected);
        (target < moment.live).then(|| {
            let positions = self.sinks..moment.seen - self.recent;
            let by = vec![Basis::Key(Measure::Norm)];
            let scored = Scored { ordered: None, by, remembered: false };
            Cut::one(positions, target - protected, Some(scored))
        })
    }

    fn score(&self, rows: ScoredRows) -> Vec<Vec<f32>> {
        rows.each(|head| {
            let norms = head.numbers[0].iter();
            match self.order {
                Order::Low => norms.map(|norm| -norm).collect(),
                Order::High => norms.copied().collect(),
                Order::Random => head.positions.iter().map(|position| scatter(*position)).collect(),
            }
        })
    }
}

/// A number below 1 that looks random and is always the same for a position.
fn scatter(position: u32) -> f32 {
    let mixed = (u64::from(position) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as f32 / (1 << 24) as f32
}

/// How much attention keeping by norm loses against keeping by attention itself (equations 5 to 7): the sum over all m of the
/// attention mass in the m keys of highest norm, less that of the m keys with least attention. `attention` is one query's row,
/// `norms` belong to the same keys. 0 for a head whose norms order keys exactly as its attention does.
pub fn attention_loss(attention: &[f32], norms: &[f32]) -> f64 {
    let mut by_norm: Vec<usize> = (0..norms.len().min(attention.len())).collect();
    let mut by_attention = by_norm.clone();
    // Of equal norms the later key goes first, as the later one leaves first where scores are equal.
    by_norm.sort_by(|a, b| norms[*b].total_cmp(&norms[*a]).then(b.cmp(a)));
    by_attention.sort_by(|a, b| attention[*a].total_cmp(&attention[*b]));
    let mut lost = (0.0, 0.0);
    let mut loss = 0.0;
    for (norm, least) in by_norm.into_iter().zip(by_attention) {
        lost.0 += f64::from(attention[norm]);
        lost.1 += f64::from(attention[least]);
        loss += lost.0 - lost.1;
    }
    loss
}

pub(super) const ENTRY: Entry = Entry {
    name: "l2",
    summary: "the keys of lowest norm (L2 norm)",
    parameters: &[
        number("keep", "share of the rows kept when there are too many (0.5 in the paper)", 0.5, (0.0, 1.0)),
        rows("after", "rows from which on a head is compressed (2048 in the authors' code)", 2048.0, 1.0),
        Parameter {
            always_shown: false,
            ..rows("rows", "a fixed number of rows instead of keep and after; 0 is off", 0.0, 0.0)
        },
        Parameter { always_shown: false, ..rows("sinks", "first rows kept whatever their norm", 0.0, 0.0) },
        Parameter { always_shown: false, ..rows("recent", "last rows kept whatever their norm", 0.0, 0.0) },
        Parameter { always_shown: false, ..rows("skip", "first layers never compressed", 2.0, 0.0) },
        choice(
            "order",
            "which norms are kept; high and random are ablations",
            &["low", "high", "random"],
            0.0,
        ),
        Parameter {
            meaning: "in the form with a fixed number of rows: how many may gather before some leave; -1 is an eighth, at most 512",
            ..slack(-1.0)
        },
    ],
    profile: false,
    compensation: false,
    make: Some(Make {
        policy: |values| {
            let rows = values.count("rows");
            let (sinks, recent) = (values.count("sinks"), values.count("recent"));
            let smallest = if rows > 0 { rows } else { values.count("after") };
            if sinks + recent > smallest {
                return Err(format!("{sinks} sinks and {recent} recent rows do not fit {smallest} rows"));
            }
            Ok(Rc::new(L2 {
                keep: values.get("keep"),
                after: values.count("after"),
                rows: (rows > 0).then_some(rows),
                sinks,
                recent,
                skip: values.count("skip"),
                order: [Order::Low, Order::High, Order::Random][values.count("order")],
                slack: values.slack(),
            }))
        },
        fit: |values, rows, _| {
            let (sinks, recent) = (values.count("sinks"), values.count("recent"));
            values.set("sinks", sinks.min(rows / 2));
            values.set("recent", recent.min(rows / 2));
            values.set("rows", rows);
        },
    }),
};

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(event: Event, live: usize, of_text: usize) -> Moment {
        Moment { event, forced: false, seen: live, live, done: 0, of_text, context: 1 << 20 }
    }

    fn l2(text: &str) -> Rc<dyn Policy> {
        text.parse::<super::super::PolicyChoice>().expect("a policy").policy().expect("bounded")
    }

    /// Rows left after the policy had its say.
    fn left(policy: &dyn Policy, moment: Moment) -> usize {
        policy.cut(&moment).map_or(moment.live, |cut| cut.regions[0].keep)
    }

    #[test]
    fn the_saw_falls_to_the_share_and_rises_again() {
        let policy = l2("l2:keep=0.5,after=40");
        assert_eq!(left(&*policy, moment(Event::Step, 39, 0)), 39);
        assert_eq!(left(&*policy, moment(Event::Step, 40, 0)), 20);
        assert_eq!(left(&*policy, moment(Event::Chunk, 101, 0)), 51);
    }

    /// A text keeps its share; later tokens do not halve it again and again.
    #[test]
    fn teeth_go_on_top_of_a_text() {
        let policy = l2("l2:keep=0.5,after=40");
        assert_eq!(left(&*policy, moment(Event::Text, 1000, 0)), 500);
        assert_eq!(left(&*policy, moment(Event::Step, 519, 500)), 519);
        assert_eq!(left(&*policy, moment(Event::Step, 520, 500)), 500);
        assert_eq!((policy.budget(1000), policy.budget(10)), (520, 40));
    }

    #[test]
    fn norms_that_order_as_attention_does_lose_nothing() {
        assert_eq!(attention_loss(&[0.5, 0.3, 0.2], &[1.0, 2.0, 3.0]), 0.0);
        // The two ends swapped: (0.5 - 0.2) + (0.8 - 0.5) + 0.
        assert!((attention_loss(&[0.5, 0.3, 0.2], &[3.0, 2.0, 1.0]) - 0.6).abs() < 1e-6);
    }
}
