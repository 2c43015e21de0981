//! The rows that `kvzip`, `kvzip-plus` and `kvzap` keep: the first ones, the last ones, and the best of those between them.

use crate::kv::policy::{LaneStatus, Parameter, ParameterValues, Region};

/// First rows that stay whatever their scores are.
const SINKS: usize = 4;

/// How many rows stay.
#[derive(Debug)]
pub(super) struct BestAndRecent {
    /// All of them.
    pub capacity: usize,
    /// The last ones.
    recent: usize,
    /// Rows beyond the capacity before some are evicted.
    pub slack: usize,
}

impl BestAndRecent {
    pub(super) const CAPACITY: Parameter =
        Parameter::rows("capacity", "rows kept, the recent ones included", 1024.0, 2.0);
    pub(super) const RECENT: Parameter = Parameter::rows("recent", "last rows kept", 64.0, 1.0);
    pub(super) const SLACK: Parameter = Parameter::slack(64.0, 0.0);

    /// As the parameters say; an error if they leave no rows between the first and the last ones.
    pub(super) fn from_values(values: &ParameterValues) -> Result<BestAndRecent, String> {
        let [capacity, recent, slack] = ["capacity", "recent", "slack"].map(|name| values.count(name));
        match capacity > recent + SINKS {
            true => Ok(BestAndRecent { capacity, recent, slack }),
            false => Err(format!(
                "a capacity of {capacity} rows leaves none beside the {recent} recent and {SINKS} first ones"
            )),
        }
    }

    /// Sets the parameters to the largest with which a head keeps at most `rows` rows.
    pub(super) fn fit(values: &mut ParameterValues, rows: usize, _context: usize) {
        values.set("capacity", rows);
        values.set("recent", values.count("recent").min(rows / 2));
        values.set("slack", values.count("slack").min(rows / 8));
    }

    /// Whether there are too many rows.
    pub(super) fn is_exceeded(&self, status: &LaneStatus) -> bool {
        status.live > self.capacity + status.allowed_slack(self.slack)
    }

    /// The regions of a plan after `seen` tokens.
    pub(super) fn regions(&self, seen: usize) -> Vec<Region> {
        let first_recent = seen.saturating_sub(self.recent);
        vec![
            Region {
                positions: SINKS.min(first_recent)..first_recent,
                keep: self.capacity - self.recent - SINKS,
            },
            Region { positions: first_recent..seen, keep: self.recent },
        ]
    }
}
