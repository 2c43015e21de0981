//! Layers that attend to the keys and values of earlier layers.

use super::keys::{KeyReader, KeyWriter};
use super::{ModelSpec, SpecPart};
use crate::arch::ArchDecl;
use crate::error::LoadError;

/// How many of the last layers attend to the keys and values of earlier ones. A setting of the architecture.
const SHARED_LAYERS: &str = "attention.shared_kv_layers";

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

impl KvSharing {
    /// Whether models of the architecture may have such layers.
    pub(super) fn is_possible(decl: &ArchDecl) -> bool {
        decl.settings.contains(&SHARED_LAYERS)
    }
}

impl SpecPart for Option<KvSharing> {
    fn read(keys: &KeyReader<'_>, spec: &ModelSpec) -> Result<Option<KvSharing>, LoadError> {
        let is_local: Vec<bool> = (0..spec.n_layers).map(|layer| spec.window(layer).is_some()).collect();
        let first_layer = keys.first_kv_sharing(&is_local)?;
        let [_, n_ff] = keys.network_widths(spec.n_layers, first_layer)?;
        let last = |local: bool| is_local[..first_layer].iter().rposition(|is_local| *is_local == local);
        Ok((first_layer < spec.n_layers).then(|| KvSharing {
            first_layer,
            last_local: last(true),
            last_global: last(false),
            n_ff: n_ff.unwrap_or(spec.n_ff),
        }))
    }

    fn write(&self, spec: &ModelSpec, to: &mut KeyWriter) {
        to.optional_size(SHARED_LAYERS, self.map(|sharing| spec.n_layers - sharing.first_layer));
    }
}

impl KeyReader<'_> {
    /// The first of the layers that attend to the keys and values of earlier ones; the number of layers where none
    /// does. `is_local` says which layers are local.
    pub(super) fn first_kv_sharing(&self, is_local: &[bool]) -> Result<usize, LoadError> {
        let n_layers = is_local.len();
        if !self.is_setting(SHARED_LAYERS) {
            return Ok(n_layers);
        }
        let count = self.file.u64(&self.full(SHARED_LAYERS))?.unwrap_or(0);
        let first =
            usize::try_from(count).ok().filter(|count| *count < n_layers).map(|count| n_layers - count);
        let first = first.ok_or_else(|| {
            self.bad(SHARED_LAYERS, count, format!("it has to be less than the {n_layers} layers"))
        })?;
        let has_earlier = |layer: usize| is_local[..first].contains(&is_local[layer]);
        match (first..n_layers).find(|layer| !has_earlier(*layer)) {
            None => Ok(first),
            Some(layer) => Err(self.bad(
                SHARED_LAYERS,
                count,
                format!(
                    "layer {layer} is {}, and no such layer has keys and values",
                    if is_local[layer] { "local" } else { "global" }
                ),
            )),
        }
    }
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

    /// How many of the last layers have to be in one place: from the first one whose rows others attend to. 0 where none are
    /// shared.
    pub fn joint_layers(&self) -> usize {
        let shared = (0..self.n_layers).filter(|layer| self.shares_kv(*layer));
        shared.map(|layer| self.n_layers - self.kv_layer(layer)).max().unwrap_or(0)
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
