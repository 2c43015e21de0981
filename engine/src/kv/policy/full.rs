//! Keep everything: dense attention, what every other policy is compared with.

use super::registry::Entry;

pub(super) const ENTRY: Entry = Entry {
    name: "full",
    summary: "keep every row of every head",
    parameters: &[],
    profile: false,
    compensation: false,
    make: None,
};
