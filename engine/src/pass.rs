//! A pass of tokens through all layers, on the host and then on the device.

use ggml::{ReadyGraph, Tensor};

use crate::backends::Backends;
use crate::forward::{BuiltGraph, Forward, INTERMEDIATES, OutputTokens, RESULT_NORM};
use crate::kv::{LaneValues, LayerRows};
use crate::placement::Place;
use crate::workspace::Workspace;
use crate::{EngineError, not_finite};

/// The allocated graphs of a pass. They are valid until their workspace prepares other graphs.
pub(crate) struct Pass {
    /// One for each place with layers, and always one for the host, which looks up the embeddings.
    parts: Vec<Part>,
    /// The output matrix's input, where there are logits.
    result_norm: Option<Tensor>,
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
            .collect::<Result<Vec<Part>, EngineError>>()?;
        let result_norm = parts.last().and_then(|part| part.graph.find(RESULT_NORM));
        Ok(Pass { parts, result_norm })
    }

    /// Computes the pass for `tokens`, whose positions are consecutive and begin at `first`. `compute` is
    /// [`Backends::compute`] or [`Backends::compute_to_end`].
    pub(crate) fn compute(
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
        for name in ["embd".to_owned()].into_iter().chain(of_layers).chain([RESULT_NORM.to_owned()]) {
            if let Some(tensor) = self.parts.iter().find_map(|part| part.graph.find(&name)) {
                found.push((name, tensor.to_vec()?));
            }
        }
        Ok(found)
    }

    /// The logits of the tokens with outputs, `[tokens, n_vocab]`; an error if they are not finite.
    pub(crate) fn read_logits(&self) -> Result<Vec<f32>, EngineError> {
        let mut logits = Vec::new();
        self.read_logits_into(&mut logits)?;
        Ok(logits)
    }

    /// As [`Pass::read_logits`], into memory that is used again.
    pub(crate) fn read_logits_into(&self, logits: &mut Vec<f32>) -> Result<(), EngineError> {
        let (Some(part), Some(normed)) = (self.parts.last(), &self.result_norm) else {
            logits.clear();
            return Ok(());
        };
        logits.resize(part.built.result.shape().elements(), 0.0);
        part.built.result.read(0, logits)?;
        not_finite::check(logits, normed)
    }
}
