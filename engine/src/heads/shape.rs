//! How many heads a model has.

use std::fmt;

use super::error::HeadsError;
use super::scores::ScoresPer;

/// Maximum query heads of a model, all layers together. No known model has 20,000.
pub(super) const MAX_QUERY_HEADS: usize = 1 << 20;

/// How many heads a model has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadShape {
    layers: usize,
    heads: usize,
    kv_heads: usize,
}

impl HeadShape {
    /// A model of `layers` layers with `heads` query heads each that share `kv_heads` KV heads.
    ///
    /// # Errors
    /// [`HeadsError::NoModel`] if a count is 0, the model has more than `MAX_QUERY_HEADS`, or the query heads
    /// are not a multiple of the KV heads.
    pub fn new(layers: usize, heads: usize, kv_heads: usize) -> Result<Self, HeadsError> {
        let all = layers.saturating_mul(heads);
        // A small file must not cause large allocations.
        if all == 0 || all > MAX_QUERY_HEADS || kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            return Err(HeadsError::NoModel { layers, heads, kv_heads });
        }
        Ok(Self { layers, heads, kv_heads })
    }

    /// Layers of the model.
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// Query heads of a layer.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// KV heads of a layer.
    pub fn kv_heads(&self) -> usize {
        self.kv_heads
    }

    /// Query heads that share a KV head; query head h reads KV head h / group.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Query heads of the whole model.
    pub(crate) fn all_heads(&self) -> usize {
        self.layers * self.heads
    }

    /// KV heads of the whole model.
    pub fn all_kv_heads(&self) -> usize {
        self.layers * self.kv_heads
    }

    /// Columns of a map per query head or per KV head.
    pub fn columns(&self, per: ScoresPer) -> usize {
        match per {
            ScoresPer::QueryHead => self.heads,
            ScoresPer::KvHead => self.kv_heads,
        }
    }
}

impl fmt::Display for HeadShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} layers of {} query and {} KV heads", self.layers, self.heads, self.kv_heads)
    }
}
