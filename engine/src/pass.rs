//! A pass of tokens through all layers, place after place.

use crate::EngineError;
use crate::devices::{Devices, Place, Workspace};
use crate::forward::{Formula, Forward, INTERMEDIATES, Needed};
use crate::kv::LayerRows;
use ggml::{ReadyGraph, Tensor};

/// The graphs of a pass, ready to be computed; they go stale when their workspace serves others.
pub(crate) struct Pass {
    /// At least one: the embedding is looked up on the host.
    parts: Vec<Part>,
}

struct Part {
    place: Place,
    formula: Formula,
    graph: ReadyGraph,
}

impl Pass {
    /// A pass of `n` tokens.
    pub(crate) fn new(
        forward: &Forward,
        (n, needed): (usize, Needed),
        rows: impl Fn(usize) -> LayerRows,
        workspace: &mut Workspace,
    ) -> Result<Pass, EngineError> {
        let parts = (forward.model(n, needed, rows).into_iter())
            .map(|(place, formula)| {
                let graph = workspace.prepare(place, formula.graph()?)?;
                Ok(Part { place, formula, graph })
            })
            .collect::<Result<_, EngineError>>()?;
        Ok(Pass { parts })
    }

    /// Computes it for `tokens` at positions from `first` on, with the lanes in `state`.
    pub(crate) fn compute(
        &self,
        devices: &Devices,
        tokens: &[u32],
        first: usize,
        state: &(Vec<i32>, Vec<f32>),
    ) -> Result<(), EngineError> {
        let mut stream: Option<Vec<f32>> = None;
        for (number, part) in self.parts.iter().enumerate() {
            part.formula.inputs.fill(tokens, first, state)?;
            if let Some(stream) = stream.take() {
                part.formula.inputs.stream.write(0, &stream)?;
            }
            devices.at(part.place).compute(&part.graph)?;
            if number + 1 < self.parts.len() {
                stream = Some(part.formula.result.to_vec()?);
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
        self.parts.last().map(|part| &part.formula.result)
    }
}
