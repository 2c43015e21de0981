//! Policies that choose rows by their position alone: sinks and a window of recent rows.

pub(super) mod full;
pub(super) mod razor;
pub(super) mod recent;
pub(super) mod streaming;
