//! Keeps every row: dense attention, with which every other policy is compared.

use super::registry::PolicyEntry;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "full",
    summary: "every row of every head",
    parameters: &[],
    default_heads: false,
    default_compensation: false,
    factory: None,
};
