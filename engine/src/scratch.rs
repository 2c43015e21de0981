//! What a text needs while it is read layer by layer: the residual stream of all its tokens, and the complete keys and values of one
//! layer. Both are where the layers are; a model split between two places has them in both.

use crate::EngineError;
use crate::devices::{Devices, Place, Workspace};
use crate::forward::Forward;
use crate::kv::Layout;
use ggml::{Context, Tensor, Type};
use kernels::graph::{GraphLane, RowPositions};
use models::spec::ModelSpec;

/// The complete rows of one layer, as a lane of all KV heads for every store that will take rows from it.
pub(crate) struct Scratch {
    places: [Vec<GraphLane>; 2],
}

impl Scratch {
    /// Room for `n` tokens in the places of the layers that `used` names.
    pub(crate) fn new(
        spec: &ModelSpec,
        layouts: &[&Layout],
        n: usize,
        devices: &Devices,
        used: impl Fn(usize) -> bool,
    ) -> Result<Scratch, EngineError> {
        let mut places = [Vec::new(), Vec::new()];
        for place in Place::ALL {
            let Some(first) = layouts.first() else { continue };
            if !devices.placement().layers(place).any(&used) {
                continue;
            }
            let ctx = Context::new(3 + layouts.len());
            let [k, v] =
                [first.k_type, first.v_type].map(|ty| ctx.tensor(ty, [spec.head_dim, n, spec.n_kv_heads]));
            let positions = (first.alibi)
                .then(|| RowPositions { all: ctx.tensor(Type::I32, [n * spec.n_kv_heads]), first: 0 });
            let lane = |layout: &&Layout| GraphLane {
                k: k.clone(),
                v: v.clone(),
                kv_heads: (0..spec.n_kv_heads as u32).collect(),
                compensated: false,
                received: layout.accumulates_attention().then(|| ctx.tensor(Type::F32, [n, spec.n_kv_heads])),
                positions: positions.clone(),
            };
            places[place as usize] = layouts.iter().map(lane).collect();
            ctx.allocate(&devices.at(place).buffer_type())?;
        }
        Ok(Scratch { places })
    }

    /// The lanes in a place, one for each layout; none where none are used.
    pub(crate) fn at(&self, place: Place) -> &[GraphLane] {
        &self.places[place as usize]
    }
}

/// The residual stream `[n_embd, n]` f32 of a text.
pub(crate) struct Residual {
    places: [Option<Tensor>; 2],
}

impl Residual {
    /// That of `tokens` before the first layer, looked up `chunk` at a time.
    pub(crate) fn embed(
        forward: &Forward,
        (tokens, chunk): (&[u32], usize),
        devices: &Devices,
        workspace: &mut Workspace,
    ) -> Result<Residual, EngineError> {
        let n_embd = forward.weights().narrow.token_embd.dim(0);
        let mut places = [None, None];
        for place in Place::ALL.into_iter().filter(|place| !devices.placement().layers(*place).is_empty()) {
            let ctx = Context::new(1);
            places[place as usize] = Some(ctx.tensor(Type::F32, [n_embd, tokens.len()]));
            ctx.allocate(&devices.at(place).buffer_type())?;
        }
        let residual = Residual { places };
        let first = residual.at(devices.placement().of(0))?;
        for (number, chunk_of) in tokens.chunks(chunk.max(1)).enumerate() {
            let formula = forward.embedding(chunk_of.len());
            let graph = workspace.prepare(Place::Host, formula.graph()?)?;
            formula.inputs.fill(chunk_of, 0, &(Vec::new(), Vec::new()))?;
            devices.at(Place::Host).compute(&graph)?;
            first.write(4 * n_embd * chunk.max(1) * number, &formula.result.to_vec::<f32>()?)?;
        }
        Ok(residual)
    }

    /// The stream in a place with layers.
    pub(crate) fn at(&self, place: Place) -> Result<&Tensor, EngineError> {
        let stream = self.places[place as usize].as_ref();
        Ok(stream.ok_or_else(|| ggml::Error::NotAllocated("the residual stream".into()))?)
    }

    /// Brings the stream to where `layer` is, if the layer before is elsewhere.
    pub(crate) fn enter(&self, layer: usize, devices: &Devices) -> Result<(), EngineError> {
        /// Bytes on their way at a time.
        const PIECE: usize = 16 << 20;
        let placement = devices.placement();
        if layer == 0 || placement.of(layer - 1) == placement.of(layer) {
            return Ok(());
        }
        let (from, to) = (self.at(placement.of(layer - 1))?, self.at(placement.of(layer))?);
        let mut piece = vec![0u8; PIECE.min(from.bytes())];
        for at in (0..from.bytes()).step_by(PIECE) {
            let piece = &mut piece[..PIECE.min(from.bytes() - at)];
            from.read(at, piece)?;
            to.write(at, piece)?;
        }
        Ok(())
    }
}
