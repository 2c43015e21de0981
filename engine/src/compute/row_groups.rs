//! Sparse prefill of a first text: where the means of groups of rows are, and which layers have them. See `kernels::prefill`.

use ggml::{Context, Tensor, Type};
use kernels::Form;
use kernels::graph::AttentionShape;
use kernels::prefill::groups_of;
use models::spec::{ModelSpec, PositionEncoding};

use crate::EngineError;
use crate::devices::backends::Backends;
use crate::devices::placement::Place;
use crate::kv::Layout;

/// A group of rows is read row by row where it has at least this share of the softmax of any query that is computed with it.
pub(crate) const READ_SHARE: f32 = 0.008;

/// Memory for the means of groups of rows. Layers with heads alike use the same, one after the other.
#[derive(Default)]
pub(crate) struct GroupMeans {
    /// `[n_layers]`: `[2 * head_dim, groups, kv_heads]` f32; `None` for layers that read all rows.
    layers: Vec<Option<Tensor>>,
}

impl GroupMeans {
    /// Memory for a text of `n` rows.
    pub(crate) fn new(
        spec: &ModelSpec,
        layout: &Layout,
        n: usize,
        backends: &Backends,
    ) -> Result<GroupMeans, EngineError> {
        let form = |layer| host_form(backends, layout, layer);
        let mut layers: Vec<Option<Tensor>> = vec![None; spec.n_layers];
        for alike in layers_with_groups(spec, layout, n, form) {
            let ctx = Context::new(1);
            let means = ctx.tensor(Type::F32, shape(layout.heads[alike[0]], n));
            ctx.allocate(&backends.at(Place::Host).buffer_type())?;
            alike.iter().for_each(|layer| layers[*layer] = Some(means.clone()));
        }
        Ok(GroupMeans { layers })
    }

    /// That of a layer.
    pub(crate) fn of_layer(&self, layer: usize) -> Option<&Tensor> {
        self.layers.get(layer)?.as_ref()
    }
}

/// The form of a layer that is on the host.
pub(crate) fn host_form(backends: &Backends, layout: &Layout, layer: usize) -> Option<Form> {
    let place = backends.placement().of(layer);
    (place == Place::Host).then(|| backends.form(place, layout.heads[layer]))
}

/// Bytes that [`GroupMeans::new`] allocates. `form`: that of a layer on the host.
pub(crate) fn bytes(
    spec: &ModelSpec,
    layout: &Layout,
    n: usize,
    form: impl Fn(usize) -> Option<Form>,
) -> usize {
    let of_shape = |layers: Vec<usize>| shape(layout.heads[layers[0]], n).iter().product::<usize>();
    size_of::<f32>() * layers_with_groups(spec, layout, n, form).into_iter().map(of_shape).sum::<usize>()
}

/// What the means of a layer's heads are, for `n` rows.
pub(crate) fn shape(heads: AttentionShape, n: usize) -> [usize; 3] {
    [2 * heads.head_dim, groups_of(n), heads.n_kv_heads]
}

/// Whether a layer can read old rows in groups. `form`: its form, if it is on the host.
pub(crate) fn has_groups(spec: &ModelSpec, layer: usize, form: Option<Form>) -> bool {
    form.is_some_and(Form::has_groups)
        && spec.recurrent_layer(layer).is_none()
        && spec.window(layer).is_none()
        && !matches!(spec.position_encoding, PositionEncoding::Alibi { .. })
}

/// The layers that read old rows of a text of `n` rows in groups; those together whose heads are alike.
fn layers_with_groups(
    spec: &ModelSpec,
    layout: &Layout,
    n: usize,
    form: impl Fn(usize) -> Option<Form>,
) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = Vec::new();
    if groups_of(n) == 0 {
        return all;
    }
    for layer in (0..spec.n_layers).filter(|layer| has_groups(spec, *layer, form(*layer))) {
        let heads = |layer: usize| (layout.heads[layer].head_dim, layout.heads[layer].n_kv_heads);
        match all.iter_mut().find(|alike| heads(alike[0]) == heads(layer)) {
            Some(alike) => alike.push(layer),
            None => all.push(vec![layer]),
        }
    }
    all
}
