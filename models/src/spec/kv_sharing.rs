//! Layers that attend to the keys and values of earlier layers.

use super::ModelSpec;

/// The last layers have no keys and values. Each attends to those of the last layer before them that is local, or
/// global, as it is itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvSharing {
    /// The first of these layers, counted from 0.
    pub first_layer: usize,
    /// The last local layer before them. Local ones attend to its rows.
    pub last_local: Option<usize>,
    /// The last global layer before them. Global ones attend to its rows.
    pub last_global: Option<usize>,
    /// Width of their feed-forward networks, elements.
    pub n_ff: usize,
}

impl ModelSpec {
    /// The layer whose keys and values a layer attends to: itself, or an earlier one.
    pub fn kv_layer(&self, layer: usize) -> usize {
        let Some(sharing) = self.kv_sharing.filter(|sharing| layer >= sharing.first_layer) else {
            return layer;
        };
        let source = if self.window(layer).is_some() { sharing.last_local } else { sharing.last_global };
        source.unwrap_or(layer)
    }

    /// Whether a layer attends to the keys and values of an earlier one, and has none of its own.
    pub fn shares_kv(&self, layer: usize) -> bool {
        self.kv_sharing.is_some_and(|sharing| layer >= sharing.first_layer)
    }

    /// Whether a layer has keys and values of its own: it is not recurrent, and does not attend to those of another one.
    pub fn has_rows(&self, layer: usize) -> bool {
        self.recurrent_layer(layer).is_none() && !self.shares_kv(layer)
    }

    /// The last layer that attends to the keys and values of a layer: itself, or a later one.
    pub fn last_kv_reader(&self, layer: usize) -> usize {
        let is_read = |sharing: KvSharing| [sharing.last_local, sharing.last_global].contains(&Some(layer));
        match self.kv_sharing.is_some_and(is_read) {
            true => {
                (layer..self.n_layers).rev().find(|later| self.kv_layer(*later) == layer).unwrap_or(layer)
            }
            false => layer,
        }
    }
}
