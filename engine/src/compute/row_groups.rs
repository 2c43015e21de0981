//! Sparse prefill of a first text: where the means of groups of rows are, and which layers have them. See `kernels::prefill`.

use std::collections::{BTreeMap, BTreeSet};

use ggml::{Context, Tensor, Type};
use kernels::prefill::groups_of;
use models::spec::ModelSpec;

use crate::EngineError;
use crate::devices::backends::Backends;
use crate::devices::placement::{Place, Placement};
use crate::kv::Layout;

/// A group of rows is read row by row where it has at least this share of the softmax of any query that is computed with it.
pub(crate) const READ_SHARE: f32 = 0.002;

/// Memory for the means of groups of rows. Layers with heads alike use the same, one after the other.
#[derive(Default)]
pub(crate) struct GroupMeans {
    /// By layer: `[2 * head_dim, groups, kv_heads]` f32. Other layers read all rows.
    layers: BTreeMap<usize, Tensor>,
}

impl GroupMeans {
    /// Memory for a text of `n` rows.
    pub(crate) fn new(
        spec: &ModelSpec,
        layout: &Layout,
        n: usize,
        backends: &Backends,
    ) -> Result<GroupMeans, EngineError> {
        let (mut layers, mut known) = (BTreeMap::new(), BTreeMap::<[usize; 3], Tensor>::new());
        for (layer, shape) in shapes(spec, layout, n, backends.placement()) {
            let means = match known.get(&shape) {
                Some(means) => means.clone(),
                None => {
                    let ctx = Context::new(1);
                    let means = ctx.tensor(Type::F32, shape);
                    ctx.allocate(&backends.at(Place::Host).buffer_type())?;
                    known.insert(shape, means.clone());
                    means
                }
            };
            layers.insert(layer, means);
        }
        Ok(GroupMeans { layers })
    }

    /// That of a layer.
    pub(crate) fn of_layer(&self, layer: usize) -> Option<&Tensor> {
        self.layers.get(&layer)
    }
}

/// Bytes that [`GroupMeans::new`] allocates.
pub(crate) fn bytes(spec: &ModelSpec, layout: &Layout, n: usize, placement: Placement) -> usize {
    let shapes: BTreeSet<[usize; 3]> = shapes(spec, layout, n, placement).map(|(_, shape)| shape).collect();
    shapes.iter().map(|shape| size_of::<f32>() * shape.iter().product::<usize>()).sum()
}

/// Whether a layer can read old rows in groups: those on the host can, where they attend without a window and without ALiBi.
pub(crate) fn has_groups(spec: &ModelSpec, placement: Placement, layer: usize) -> bool {
    placement.of(layer) == Place::Host
        && spec.recurrent_layer(layer).is_none()
        && spec.window(layer).is_none()
        && !spec.position_encoding.is_alibi()
}

/// The number of layers that cannot.
pub(crate) fn layers_without_groups(spec: &ModelSpec, placement: Placement) -> usize {
    (0..spec.n_layers).filter(|layer| !has_groups(spec, placement, *layer)).count()
}

/// The layers that read old rows of a text of `n` rows in groups, and what the means of each are.
fn shapes(
    spec: &ModelSpec,
    layout: &Layout,
    n: usize,
    placement: Placement,
) -> impl Iterator<Item = (usize, [usize; 3])> {
    let groups = groups_of(n);
    let layers = (0..spec.n_layers).filter(move |layer| groups > 0 && has_groups(spec, placement, *layer));
    layers
        .map(move |layer| (layer, [2 * layout.heads[layer].head_dim, groups, layout.heads[layer].n_kv_heads]))
}
