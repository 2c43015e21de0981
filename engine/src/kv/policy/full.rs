//! Keeps every row: dense attention, with which every other policy is compared.

use super::registry::{Heads, PolicyEntry};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "full",
    summary: "every row of every head",
    parameters: &[],
    default_heads: Heads::Off,
    default_compensation: false,
    factory: None,
};
