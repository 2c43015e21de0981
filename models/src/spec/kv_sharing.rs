//! Layers that attend to the keys and values of earlier layers.

use super::ModelSpec;

/// The last layers have no keys and values. Each attends to those of the last layer before them that is local, or
/// global, as it is itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvSharing {
    /// The first of these layers, counted from 0.
    pub first_layer: usize,
    /// Width of their feed-forward networks, elements.
    pub n_ff: usize,
}

impl ModelSpec {
    /// The layer whose keys and values a layer attends to: itself, or an earlier one.
    pub fn kv_layer(&self, layer: usize) -> usize {
        let Some(sharing) = self.kv_sharing.filter(|sharing| layer >= sharing.first_layer) else {
            return layer;
        };
        let is_local = |layer: usize| self.window(layer).is_some();
        let is_alike = |earlier: &usize| is_local(*earlier) == is_local(layer);
        (0..sharing.first_layer).rev().find(is_alike).unwrap_or(layer)
    }

    /// Whether a layer attends to the keys and values of an earlier one, and has none of its own.
    pub fn shares_kv(&self, layer: usize) -> bool {
        self.kv_sharing.is_some_and(|sharing| layer >= sharing.first_layer)
    }

    /// The last layer that attends to the keys and values of a layer: itself, or a later one.
    pub fn last_kv_reader(&self, layer: usize) -> usize {
        (layer..self.n_layers).rev().find(|later| self.kv_layer(*later) == layer).unwrap_or(layer)
    }
}
