//! Keeps every row: dense attention, with which every other policy is compared.

use crate::kv::policy::{HeadMode, PolicyEntry};

pub(in crate::kv::policy) const ENTRY: PolicyEntry = PolicyEntry {
    name: "full",
    summary: "every row of every head",
    parameters: &[],
    default_heads: HeadMode::Off,
    default_compensation: false,
    factory: None,
};
