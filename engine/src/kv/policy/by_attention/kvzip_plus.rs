//! KVzip+ (Jégou and Jeblick 2026, arXiv 2601.07891; kvpress, `kvzip_plus_normalization`): as `kvzip`, but a row is scored
//! by what it adds to the residual stream, and not by its attention alone.
//!
//! A query head's attention to the row is multiplied by the norm of the row's value behind that head's part of the output
//! matrix. It is divided by the norm of attention's input at the query. As in kvpress, that is behind the norm that the layer
//! begins with, so it changes little from query to query.
//!
//! Decisions are those of [`super::kvzip`]. A gate, or a norm behind attention, is not part of what a row adds.

use super::best_and_recent::BestAndRecent;
use super::kvzip::{PARAMETERS, build};
use crate::kv::policy::{HeadMode, PolicyEntry, PolicyFactory, SecondReadingScore};

pub(in crate::kv::policy) const ENTRY: PolicyEntry = PolicyEntry {
    name: "kvzip-plus",
    summary: "as kvzip, by what a row adds to the residual stream; reads a text twice (KVzip+)",
    parameters: &PARAMETERS,
    default_heads: HeadMode::Shares,
    default_compensation: false,
    factory: Some(PolicyFactory {
        build: |values| build(values, SecondReadingScore::Contribution),
        fit: BestAndRecent::fit,
    }),
};
