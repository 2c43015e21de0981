//! A pass of tokens through a layer or all layers. Host and devices take turns, as
//! [`Forward::model_graphs`](crate::compute::forward::Forward::model_graphs) says.

use ggml::{InterruptFlag, ReadyGraph, Tensor};

use crate::EngineError;
use crate::compute::finite;
use crate::compute::forward::{
    BuiltGraph, BuiltPass, INTERMEDIATES, Inputs, NextTokens, RESULT_NORM, Transfer, Turn,
};
use crate::devices::backends::Backends;
use crate::devices::placement::Place;
use crate::devices::workspace::Workspace;

/// The allocated graphs of a pass. They are valid until their workspace prepares other graphs.
pub(crate) struct Pass {
    /// The stages of all graphs in the order in which they are computed.
    stages: Vec<Stage>,
    /// What is copied after the first stage.
    transfers: Vec<Transfer>,
    /// What the last stage gives.
    result: Option<Tensor>,
    /// The output matrix's input, where there are logits.
    result_norm: Option<Tensor>,
    /// Of the embeddings that are looked up: see [`finite::probe`].
    probes: Vec<Tensor>,
}

/// A stage of a graph.
struct Stage {
    place: Place,
    graph: ReadyGraph,
    /// What is filled before the first stage of a graph.
    inputs: Option<Inputs>,
    /// What the stage before it gives is written here, if it computes with that ([`Turn::receives`]).
    input: Option<Tensor>,
    /// What it gives.
    output: Tensor,
}

/// How a stage is computed: [`Backends::compute`] or [`Backends::start`].
type RunStage = fn(&Backends, Place, &ReadyGraph, Option<&InterruptFlag>) -> Result<(), EngineError>;

impl Pass {
    /// A pass through graphs that the model's `Forward` built.
    pub(crate) fn new(pass: BuiltPass, workspace: &mut Workspace) -> Result<Pass, EngineError> {
        let BuiltPass { graphs, turns, transfers } = pass;
        let (mut of_places, mut probes) = (Vec::new(), Vec::new());
        for (place, built) in graphs {
            let graph = workspace.prepare(place, built.graph()?)?;
            let BuiltGraph { inputs: of_graph, result, exchanges, probes: of_embeddings, .. } = built;
            probes.extend(of_embeddings);
            let given = [of_graph.residual.clone()].into_iter().chain(exchanges.clone());
            let gives = exchanges.into_iter().chain([result]);
            let stages = graph.into_stages().into_iter().zip(given.zip(gives));
            let mut inputs = Some(of_graph);
            let stages = stages.map(move |(graph, (input, output))| Stage {
                place,
                graph,
                inputs: inputs.take(),
                input: Some(input),
                output,
            });
            of_places.push((place, stages));
        }
        let next_of = |turn: &Turn| {
            let (_, stages) = of_places.iter_mut().find(|(place, _)| *place == turn.place)?;
            let stage = stages.next()?;
            Some(Stage { input: stage.input.filter(|_| turn.receives), ..stage })
        };
        let stages: Vec<Stage> = turns.iter().filter_map(next_of).collect();
        let last = stages.last();
        let result = last.map(|stage| stage.output.clone());
        let result_norm = last.and_then(|stage| stage.graph.find(RESULT_NORM));
        Ok(Pass { stages, transfers, result, result_norm, probes })
    }

    /// Computes the pass for the next tokens of its texts: to its end, or until `interrupt` is set.
    ///
    /// # Errors
    /// Where the computation fails or is interrupted, or an embedding is not finite. That of a single token with logits
    /// shows in what [`Pass::read_logits`] checks.
    pub(crate) fn compute(
        &self,
        backends: &Backends,
        texts: &[NextTokens],
        interrupt: Option<&InterruptFlag>,
    ) -> Result<(), EngineError> {
        self.run(backends, texts, interrupt, Backends::compute)
    }

    /// As [`Pass::compute`], but a GPU may compute the last stage when this returns ([`Backends::start`]). Whoever reads its
    /// results waits for them.
    pub(crate) fn start(
        &self,
        backends: &Backends,
        texts: &[NextTokens],
        interrupt: Option<&InterruptFlag>,
    ) -> Result<(), EngineError> {
        self.run(backends, texts, interrupt, Backends::start)
    }

    /// Computes all stages, the last one by `run_last`. Each but the first gets what the one before it gives. The inputs of a graph
    /// are filled as late as possible: who writes to a GPU may wait for the pass before, and the host can compute meanwhile.
    fn run(
        &self,
        backends: &Backends,
        texts: &[NextTokens],
        interrupt: Option<&InterruptFlag>,
        run_last: RunStage,
    ) -> Result<(), EngineError> {
        let fill = |stage: &Stage| stage.inputs.iter().try_for_each(|inputs| inputs.fill(texts));
        let mut transfers = self.transfers.iter();
        for (stage, next) in self.stages.iter().zip(self.stages.iter().skip(1)) {
            fill(stage)?;
            backends.compute(stage.place, &stage.graph, interrupt)?;
            for Transfer { from, to } in transfers.by_ref() {
                to.copy_from(0, from, 0, from.bytes())?;
            }
            if let Some(input) = &next.input {
                input.copy_from(0, &stage.output, 0, stage.output.bytes())?;
            }
        }
        if let Some(last) = self.stages.last() {
            fill(last)?;
            run_last(backends, last.place, &last.graph, interrupt)?;
        }
        self.probes.iter().try_for_each(|probe| finite::check(&probe.to_vec()?))
    }

    /// The nodes of all graphs with their names, in the order of computation.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Tensor> {
        self.stages.iter().flat_map(|stage| stage.graph.nodes())
    }

    /// The intermediates of a model with `n_layers` layers by name, in the order of computation; empty unless
    /// [`Forward::trace`] was called.
    pub(crate) fn intermediates(&self, n_layers: usize) -> Result<Vec<(String, Vec<f32>)>, EngineError> {
        let of_layers = (0..n_layers).flat_map(|layer| INTERMEDIATES.map(|name| format!("{name}-{layer}")));
        let mut found = Vec::new();
        for name in ["embd".to_owned()].into_iter().chain(of_layers).chain([RESULT_NORM.to_owned()]) {
            if let Some(tensor) = self.stages.iter().find_map(|stage| stage.graph.find(&name)) {
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
        let normed = self.read_unchecked(logits)?;
        // Logits may hide numbers of the residual stream that are not finite.
        finite::check(logits)?;
        finite::check(&normed)
    }

    /// The logits `[tokens, n_vocab]` of each text, of which there are so many tokens. Those of a text that are not finite are
    /// an error of that text alone.
    pub(crate) fn read_logits_of(
        &self,
        tokens: &[usize],
    ) -> Result<Vec<Result<Vec<f32>, EngineError>>, EngineError> {
        let mut logits = Vec::new();
        let normed = self.read_unchecked(&mut logits)?;
        let all = tokens.iter().sum::<usize>().max(1);
        let [of_logits, of_normed] = [logits.len() / all, normed.len() / all];
        let (mut logits, mut normed) = (logits.as_slice(), normed.as_slice());
        let of_text = |n: &usize| {
            let (own, own_normed);
            (own, logits) = logits.split_at(n * of_logits);
            (own_normed, normed) = normed.split_at(n * of_normed);
            finite::check(own).and_then(|()| finite::check(own_normed)).map(|()| own.to_vec())
        };
        Ok(tokens.iter().map(of_text).collect())
    }

    /// Reads the logits `[tokens, n_vocab]`, and returns what they were computed from, `[tokens, n_embd]`. Nothing where there
    /// are no logits.
    fn read_unchecked(&self, logits: &mut Vec<f32>) -> Result<Vec<f32>, EngineError> {
        let (Some(result), Some(normed)) = (&self.result, &self.result_norm) else {
            logits.clear();
            return Ok(Vec::new());
        };
        logits.resize(result.shape().elements(), 0.0);
        result.read(0, logits)?;
        Ok(normed.to_vec()?)
    }
}
