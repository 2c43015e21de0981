//! A pass of tokens through all layers, place after place.

use crate::EngineError;
use crate::backends::Backends;
use crate::forward::{BuiltGraph, Forward, INTERMEDIATES, OutputTokens};
use crate::kv::{LaneValues, LayerRows};
use crate::placement::Place;
use crate::workspace::Workspace;
use ggml::{ReadyGraph, Tensor};

/// The graphs of a pass, ready to be computed; they go stale when their workspace serves others.
pub(crate) struct Pass {
    /// At least one: the embedding is looked up on the host.
    parts: Vec<Part>,
}

struct Part {
    place: Place,
    built: BuiltGraph,
    graph: ReadyGraph,
}

impl Pass {
    /// A pass of `n` tokens.
    pub(crate) fn new(
        forward: &Forward,
        n: usize,
        outputs: OutputTokens,
        rows: impl Fn(usize) -> LayerRows,
        workspace: &mut Workspace,
    ) -> Result<Pass, EngineError> {
        let parts = (forward.model_graphs(n, outputs, rows).into_iter())
            .map(|(place, built)| {
                let graph = workspace.prepare(place, built.graph()?)?;
                Ok(Part { place, built, graph })
            })
            .collect::<Result<_, EngineError>>()?;
        Ok(Pass { parts })
    }

    /// Computes it for `tokens` at positions from `first` on, with the lanes in `state`.
    pub(crate) fn compute(
        &self,
        backends: &Backends,
        tokens: &[u32],
        first: usize,
        state: &LaneValues,
    ) -> Result<(), EngineError> {
        let mut stream: Option<Vec<f32>> = None;
        for (number, part) in self.parts.iter().enumerate() {
            part.built.inputs.fill(tokens, first, state)?;
            if let Some(stream) = stream.take() {
                part.built.inputs.residual.write(0, &stream)?;
            }
            backends.at(part.place).compute(&part.graph)?;
            if number + 1 < self.parts.len() {
                stream = Some(part.built.result.to_vec()?);
            }
        }
        Ok(())
    }

    /// The intermediates of a model of `layers` layers that were kept, by name; see [`Forward::trace`].
    pub(crate) fn intermediates(&self, layers: usize) -> Result<Vec<(String, Vec<f32>)>, EngineError> {
        let of_layers = (0..layers).flat_map(|layer| INTERMEDIATES.map(|name| format!("{name}-{layer}")));
        let mut found = Vec::new();
        for name in ["embd".to_owned()].into_iter().chain(of_layers).chain(["result_norm".to_owned()]) {
            if let Some(tensor) = self.parts.iter().find_map(|part| part.graph.find(&name)) {
                found.push((name, tensor.to_vec()?));
            }
        }
        Ok(found)
    }

    /// What the last part computes.
    pub(crate) fn result(&self) -> Option<&Tensor> {
        self.parts.last().map(|part| &part.built.result)
    }
}
