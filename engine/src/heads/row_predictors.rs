//! What predicts the worth of a row from the row itself (KVzap, arXiv 2601.07891): a map for each KV head, which
//! calibration fits. [`kernels::predict`] has the formula.

use super::error::HeadsError;
use super::shape::HeadShape;

/// A map for each KV head that gives a row's score, from its key before RoPE and its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowPredictors {
    kv_heads: usize,
    /// `[layers * kv_heads]`: the numbers of each head's map; empty for heads without one, such as those with a sliding
    /// window.
    maps: Vec<Vec<f32>>,
}

impl RowPredictors {
    /// The maps of all KV heads.
    ///
    /// # Errors
    /// Another number of maps than heads, numbers that are not finite, and maps of several lengths in a layer.
    pub(super) fn new(maps: Vec<Vec<f32>>, shape: &HeadShape) -> Result<RowPredictors, HeadsError> {
        let (what, needed) = ("row predictors", shape.all_kv_heads());
        if maps.len() != needed {
            return Err(HeadsError::Length { what: what.to_owned(), found: maps.len(), needed });
        }
        if let Some(at) = maps.iter().position(|map| map.iter().any(|number| !number.is_finite())) {
            let (layer, head) = (at / shape.kv_heads(), at % shape.kv_heads());
            return Err(HeadsError::NotFinite { what: what.to_owned(), layer, head });
        }
        // The maps of a layer are one tensor.
        for layer in maps.chunks(shape.kv_heads()) {
            if let Some(other) = layer.iter().find(|map| map.len() != layer[0].len()) {
                let (found, needed) = (other.len(), layer[0].len());
                return Err(HeadsError::Length { what: "a row predictor".to_owned(), found, needed });
            }
        }
        Ok(RowPredictors { kv_heads: shape.kv_heads(), maps })
    }

    /// All maps, `[layers * kv_heads]`.
    pub(super) fn maps(&self) -> &[Vec<f32>] {
        &self.maps
    }

    /// The maps of a layer, one after the other; empty for a layer without any.
    pub(super) fn of_layer(&self, layer: usize) -> Vec<f32> {
        self.maps.chunks_exact(self.kv_heads).nth(layer).map_or_else(Vec::new, <[Vec<f32>]>::concat)
    }
}
