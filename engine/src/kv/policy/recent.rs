//! The first rows and the most recent ones: what streaming and razor keep of a head.

use super::{Cut, Event, Moment, Policy};

/// Keeps the first `sinks` and the last `window` rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Recent {
    /// Rows kept from the beginning.
    pub sinks: usize,
    /// Recent rows kept at least.
    pub window: usize,
    /// Keep at least this share of all tokens seen: window = max(window, floor(seen · share)); 0 for a fixed window.
    pub share: f64,
    /// Rows that may gather beyond the window before they leave together; `None` takes an eighth of the window.
    pub slack: Option<usize>,
}

impl Recent {
    /// Recent rows kept after `seen` tokens.
    pub fn window(&self, seen: usize) -> usize {
        self.window.max(floor(seen as f64 * self.share))
    }

    /// Positions `[sinks, horizon)` have left after `seen` tokens.
    fn horizon(&self, seen: usize) -> usize {
        seen.saturating_sub(self.window(seen)).max(self.sinks)
    }
}

impl Policy for Recent {
    fn budget(&self, context: usize) -> usize {
        self.sinks + self.window(context)
    }

    fn slack(&self, context: usize) -> usize {
        self.slack.unwrap_or_else(|| (self.window(context) / 8).clamp(1, 512))
    }

    fn cut(&self, moment: &Moment) -> Option<Cut> {
        let excess = moment.live.saturating_sub(self.sinks.min(moment.seen) + self.window(moment.seen));
        let due = match moment.event {
            Event::Text => excess > 0,
            Event::Chunk | Event::Step if moment.forced => excess > 0,
            Event::Chunk | Event::Step => excess > self.slack(moment.context),
        };
        due.then(|| Cut::one(self.sinks..self.horizon(moment.seen), 0, None))
    }
}

/// The largest whole number not above x, forgiving the rounding of ratios (0.29 · 100 is 29).
pub fn floor(x: f64) -> usize {
    (x + 1e-6).floor() as usize
}

/// The smallest whole number not below x, as forgiving.
pub fn ceil(x: f64) -> usize {
    (x - 1e-6).ceil() as usize
}

/// The meaning of `slack`, the same for all policies with a window.
pub(super) const SLACK: &str = "rows that may gather beyond the window before they leave together; -1 is an eighth of the window, at most 512";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_window() {
        let razor = Recent { sinks: 4, window: 4000, share: 0.2, slack: None };
        assert_eq!((razor.window(100), razor.window(20_000), razor.window(100_004)), (4000, 4000, 20_000));
        assert_eq!((razor.horizon(4004), razor.horizon(4005)), (4, 5));
    }

    #[test]
    fn ratios_are_forgiven_their_rounding() {
        assert_eq!((floor(0.29 * 100.0), ceil(0.07 * 100.0)), (29, 7));
        assert_eq!((floor(28.9), ceil(7.1)), (28, 8));
    }
}
