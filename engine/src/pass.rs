//! A pass of tokens through all layers, on the host and then on the device.

use ggml::{ReadyGraph, Tensor};

use crate::EngineError;
use crate::backends::Backends;
use crate::forward::{BuiltGraph, Forward, INTERMEDIATES, OutputTokens};
use crate::kv::{LaneValues, LayerRows};
use crate::placement::Place;
use crate::workspace::Workspace;

/// The allocated graphs of a pass. They are valid until their workspace prepares other graphs.
pub(crate) struct Pass {
    /// One for each place with layers, and always one for the host, which looks up the embeddings.
    parts: Vec<Part>,
    outputs: OutputTokens,
}

struct Part {
    place: Place,
    built: BuiltGraph,
    graph: ReadyGraph,
}

impl Pass {
    /// A pass of `n` tokens that computes the logits of the tokens `outputs`.
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
        Ok(Pass { parts, outputs })
    }

    /// Computes the pass for `tokens`, whose positions are consecutive and begin at `first`.
    pub(crate) fn compute(
        &self,
        backends: &Backends,
        tokens: &[u32],
        first: usize,
        lanes: &LaneValues,
    ) -> Result<(), EngineError> {
        self.compute_by(Backends::compute, backends, tokens, first, lanes)
    }

    /// As [`Pass::compute`], whatever the interrupt flag says.
    pub(crate) fn compute_to_end(
        &self,
        backends: &Backends,
        tokens: &[u32],
        first: usize,
        lanes: &LaneValues,
    ) -> Result<(), EngineError> {
        self.compute_by(Backends::compute_to_end, backends, tokens, first, lanes)
    }

    fn compute_by(
        &self,
        compute: impl Fn(&Backends, Place, &ReadyGraph) -> Result<(), EngineError>,
        backends: &Backends,
        tokens: &[u32],
        first: usize,
        lanes: &LaneValues,
    ) -> Result<(), EngineError> {
        let mut residual: Option<Vec<f32>> = None;
        for (number, part) in self.parts.iter().enumerate() {
            part.built.inputs.fill(tokens, first, lanes)?;
            if let Some(residual) = residual.take() {
                part.built.inputs.residual.write(0, &residual)?;
            }
            compute(backends, part.place, &part.graph)?;
            if number + 1 < self.parts.len() {
                residual = Some(part.built.result.to_vec()?);
            }
        }
        Ok(())
    }

    /// The intermediates of a model with `n_layers` layers by name, in the order of computation; empty unless
    /// [`Forward::trace`] was called.
    pub(crate) fn intermediates(&self, n_layers: usize) -> Result<Vec<(String, Vec<f32>)>, EngineError> {
        let of_layers = (0..n_layers).flat_map(|layer| INTERMEDIATES.map(|name| format!("{name}-{layer}")));
        let mut found = Vec::new();
        for name in ["embd".to_owned()].into_iter().chain(of_layers).chain(["result_norm".to_owned()]) {
            if let Some(tensor) = self.parts.iter().find_map(|part| part.graph.find(&name)) {
                found.push((name, tensor.to_vec()?));
            }
        }
        Ok(found)
    }

    /// The logits of the tokens with outputs, `[tokens, n_vocab]`.
    pub(crate) fn read_result(&self) -> Result<Vec<f32>, EngineError> {
        match self.result() {
            Some(result) if self.outputs != OutputTokens::None => Ok(result.to_vec()?),
            _ => Ok(Vec::new()),
        }
    }

    /// The result of the last graph: the logits, if any tokens have outputs.
    pub(crate) fn result(&self) -> Option<&Tensor> {
        self.parts.last().map(|part| &part.built.result)
    }
}
