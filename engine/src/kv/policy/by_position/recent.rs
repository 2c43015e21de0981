//! The first rows and the most recent ones: what `streaming` and `razor` keep of a head.

use crate::kv::policy::{Event, EvictionPlan, LaneStatus, Policy};

/// Keeps the first `sinks` and the last `window` rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Recent {
    /// First rows kept.
    pub sinks: usize,
    /// Minimum recent rows kept.
    pub window: usize,
    /// Share of all tokens seen that the window covers at least: window = max(window, floor(seen · share)); 0
    /// for a fixed window.
    pub share: f64,
    /// Rows beyond the window that a head may hold before they are evicted together; `None` for an eighth of
    /// the window.
    pub slack: Option<usize>,
}

impl Recent {
    /// Recent rows kept after `seen` tokens.
    pub fn window(&self, seen: usize) -> usize {
        self.window.max(floor(seen as f64 * self.share))
    }

    /// After `seen` tokens the positions `[sinks, window_start)` are evicted.
    fn window_start(&self, seen: usize) -> usize {
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

    fn plan_eviction(&self, status: &LaneStatus) -> Option<EvictionPlan> {
        let excess = status.live.saturating_sub(self.sinks.min(status.seen) + self.window(status.seen));
        let at_once = status.event == Event::ExactPrefill || status.forced;
        let slack = if at_once { 0 } else { self.slack(status.context) };
        let positions = self.sinks..self.window_start(status.seen);
        (excess > slack).then(|| EvictionPlan::single(positions, 0, None))
    }
}

/// The largest integer not above x. Tolerates the rounding of ratios: 0.29 · 100 gives 29.
pub(in crate::kv::policy) fn floor(x: f64) -> usize {
    (x + 1e-6).floor() as usize
}

/// The smallest integer not below x, with the same tolerance.
pub(in crate::kv::policy) fn ceil(x: f64) -> usize {
    (x - 1e-6).ceil() as usize
}

/// The description of `slack`, the same for all policies with a window.
pub(super) const SLACK: &str = "rows beyond the window that a head may hold before they are evicted together, which is faster; -1 is an eighth of the window, at most 512";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_the_papers() {
        let razor = Recent { sinks: 4, window: 4000, share: 0.2, slack: None };
        assert_eq!((razor.window(100), razor.window(20_000), razor.window(100_004)), (4000, 4000, 20_000));
        assert_eq!((razor.window_start(4004), razor.window_start(4005)), (4, 5));
    }

    #[test]
    fn floor_and_ceil_tolerate_the_rounding_of_ratios() {
        assert_eq!((floor(0.29 * 100.0), ceil(0.07 * 100.0)), (29, 7));
        assert_eq!((floor(28.9), ceil(7.1)), (28, 8));
    }
}
