//! KVzip+ (Jégou and Jeblick 2026, arXiv 2601.07891, section 3; kvpress, `kvzip_plus_normalization`): as `kvzip`, but a row
//! counts by what it adds to the residual stream relative to what is there, and not by its attention alone.
//!
//! A query head's attention to the row is multiplied with the norm of the row's value behind that head's part of the output
//! matrix. It is divided by the norm of the layer's input at the query, behind the norm that the layer begins with, as
//! kvpress does. Decisions are those of [`super::kvzip`].

use super::best_and_recent::BestAndRecent;
use super::kvzip::{PARAMETERS, build};
use crate::kv::policy::{Counted, HeadMode, PolicyEntry, PolicyFactory};

pub(in crate::kv::policy) const ENTRY: PolicyEntry = PolicyEntry {
    name: "kvzip-plus",
    summary: "as kvzip, by what a row adds to the residual stream; reads a text twice (KVzip+)",
    parameters: &PARAMETERS,
    default_heads: HeadMode::Shares,
    default_compensation: false,
    factory: Some(PolicyFactory {
        build: |values| build(values, Counted::Contribution),
        fit: BestAndRecent::fit,
    }),
};
