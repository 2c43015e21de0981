//! What graphs are made of while they are built, and what is known of a graph that is built: its inputs, its result and
//! what it computes beside. Knows no layers and no weights.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::Range;

use ggml::{Context, Graph, Tensor, Type};
use kernels::graph::{LaneInputs, MAX_LANES};
use models::spec::{AttentionTemperature, ModelSpec};

use super::rotation::Rotations;
use crate::compute::finite;
use crate::devices::placement::{PerPlace, Place};
use crate::kv::LaneValues;

/// The tokens whose outputs a graph computes. Keys and values are always computed for all tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputTokens {
    /// All tokens.
    All,
    /// The last token: enough to continue a text.
    Last,
    /// No token: the graph only writes keys and values.
    None,
}

impl OutputTokens {
    /// How many of `n` tokens they are.
    pub(super) fn count(self, n: usize) -> usize {
        match self {
            OutputTokens::All => n,
            OutputTokens::Last => 1,
            OutputTokens::None => 0,
        }
    }
}

/// A part of a text whose residual stream is kept between layers.
#[derive(Clone, Copy)]
pub struct TextChunk<'a> {
    /// `[n_embd, columns]` f32: the residual stream, as `scratch::Residual` has it in the place of the layer.
    pub residual: &'a Tensor,
    /// The first column of what the layer gets.
    pub from: usize,
    /// The first column of what it gives. Other columns than those before: a layer can be computed again.
    pub to: usize,
    /// Tokens of the chunk.
    pub len: usize,
}

impl TextChunk<'_> {
    /// What the layer gets: `[n_embd, len]`.
    pub(super) fn input(&self, ctx: &Context) -> Tensor {
        self.view(ctx, self.from)
    }

    /// Where what it gives is written: `[n_embd, len]`.
    pub(super) fn output(&self, ctx: &Context) -> Tensor {
        self.view(ctx, self.to)
    }

    fn view(&self, ctx: &Context, first: usize) -> Tensor {
        let n_embd = self.residual.dim(0);
        ctx.view(self.residual, [n_embd, self.len], [4 * n_embd; 3], 4 * n_embd * first)
    }
}

/// The next tokens of a text, which a graph computes alone or beside those of other texts.
#[derive(Clone, Copy)]
pub struct NextTokens<'a> {
    /// The tokens.
    pub tokens: &'a [u32],
    /// The position of the first; the others follow it.
    pub first: usize,
    /// What the text's lanes hold before them.
    pub lanes: &'a LaneValues,
}

/// The inputs of a graph: tensors that are filled before each computation. Where it computes tokens of several texts, those
/// of one come after those of another.
pub struct Inputs {
    /// `[n]` i32: token ids. Used where the graph looks up embeddings.
    pub tokens: Tensor,
    /// `[n_embd, n]` f32: the residual stream. Used where an earlier graph, in another place, computed it.
    pub residual: Tensor,
    /// `[n]` i32: positions of the tokens.
    pub positions: Tensor,
    /// `[n]` f32: factors of the queries, where the model scales them by position.
    pub query_factors: Option<(Tensor, AttentionTemperature)>,
    /// For each text live rows and log-weights of all its lanes, and the positions of its tokens.
    pub(super) states: Vec<LaneInputs>,
    /// Fixed matrices.
    pub(super) rotations: Rotations,
    /// `[n_embd, n]`: embeddings of the tokens, once they are looked up.
    pub(super) embeddings: OnceCell<Tensor>,
}

impl Inputs {
    /// Inputs for so many tokens of each text.
    pub(super) fn new(ctx: &Context, spec: &ModelSpec, tokens: &[usize]) -> Inputs {
        let n = tokens.iter().sum();
        let positions = ctx.input("positions", Type::I32, [n]);
        let state = |tokens: &usize| LaneInputs {
            rows: ctx.input("rows", Type::I32, [MAX_LANES, spec.n_layers]),
            log_weights: ctx.input("log_weights", Type::F32, [MAX_LANES, spec.n_layers]),
            positions: match *tokens == n {
                true => positions.clone(),
                false => ctx.input("positions", Type::I32, [*tokens]),
            },
            layer: 0,
        };
        Inputs {
            tokens: ctx.input("tokens", Type::I32, [n]),
            residual: ctx.input("residual", Type::F32, [spec.n_embd, n]),
            states: tokens.iter().map(state).collect(),
            positions,
            query_factors: (spec.attention.temperature)
                .map(|temperature| (ctx.input("query_factors", Type::F32, [n]), temperature)),
            rotations: Rotations::default(),
            embeddings: OnceCell::new(),
        }
    }

    /// Fills the inputs for the next tokens of each text. Inputs that the graph does not use have no memory and are skipped.
    /// The residual stream is left to the caller.
    pub fn fill(&self, texts: &[NextTokens]) -> Result<(), ggml::Error> {
        if self.tokens.is_allocated() {
            let tokens = texts.iter().flat_map(|text| text.tokens).map(|token| *token as i32);
            self.tokens.write(0, &tokens.collect::<Vec<_>>())?;
        }
        if self.positions.is_allocated() {
            let positions = texts.iter().flat_map(NextTokens::positions).map(|position| position as i32);
            self.positions.write(0, &positions.collect::<Vec<_>>())?;
        }
        if let Some((factors, temperature)) = &self.query_factors
            && factors.is_allocated()
        {
            let positions = texts.iter().flat_map(NextTokens::positions);
            factors
                .write(0, &positions.map(|position| temperature.factor(position)).collect::<Vec<f32>>())?;
        }
        for (state, text) in self.states.iter().zip(texts) {
            if !state.positions.is_same(&self.positions) && state.positions.is_allocated() {
                let positions = text.positions().map(|position| position as i32);
                state.positions.write(0, &positions.collect::<Vec<_>>())?;
            }
            text.lanes.write(state)?;
        }
        Ok(())
    }
}

impl NextTokens<'_> {
    fn positions(&self) -> Range<usize> {
        self.first..self.first + self.tokens.len()
    }
}

/// A graph whose tensors are built but not yet allocated.
pub struct BuiltGraph {
    /// Owns the tensors.
    pub ctx: Context,
    /// What must be filled before each computation.
    pub inputs: Inputs,
    /// The output; with [`OutputTokens::None`] a tensor without data that depends on the writing of keys and
    /// values.
    pub result: Tensor,
    /// Tensors without data. Computing them stores queries and accumulates attention for the policies.
    pub effects: Vec<Tensor>,
    /// `[n_embd, n]` f32: where the stages of the graph end but for the last one. What such a tensor holds then is for
    /// the graph of another place, and one of these gives what it must hold before the next stage here.
    pub exchanges: Vec<Tensor>,
    /// `[n]` f32: whether the embeddings of the tokens are finite, see `compute/finite.rs`. None for a single token
    /// with logits.
    pub probes: Vec<Tensor>,
}

impl BuiltGraph {
    /// The graph that computes the result and all effects.
    pub fn graph(&self) -> Result<Graph, ggml::Error> {
        let results: Vec<&Tensor> = self.probes.iter().chain(&self.effects).chain([&self.result]).collect();
        self.ctx.graph(&results)
    }
}

/// The graphs of all places of a pass.
pub struct BuiltPass {
    /// The graphs, one for each place that computes, in the order of their first turns.
    pub graphs: Vec<(Place, BuiltGraph)>,
    /// The places in the order in which they compute. A place has as many turns as its graph has stages.
    pub turns: Vec<Turn>,
    /// What the first stage, which is then the host's, computes for devices beside the residual stream: at most one for each.
    pub transfers: Vec<Transfer>,
}

/// When a place computes a stage of its graph.
#[derive(Clone, Copy)]
pub struct Turn {
    /// The place.
    pub place: Place,
    /// Whether it computes with what the place before it gives. The first one does not. Neither does the second one of a pass
    /// through one layer of a device, if the first one is the host's, which then computes transfers only.
    pub receives: bool,
}

/// Numbers that one place computes and another one reads.
pub struct Transfer {
    /// `[m, n, layers]` f32: what is computed.
    pub from: Tensor,
    /// The same shape: where it is read.
    pub to: Tensor,
}

/// The graphs of a pass while it is built.
pub(super) struct PassDraft {
    pub(super) graphs: PerPlace<GraphDraft>,
    /// The layers that give activations: all layers of the pass, but for the last one where it only writes keys and values.
    layers: Range<usize>,
    /// As [`BuiltPass::turns`], up to the place that computes now.
    turns: Vec<Turn>,
    /// As [`BuiltPass::transfers`].
    transfers: Vec<TransferDraft>,
}

/// A transfer while its parts are built.
struct TransferDraft {
    /// The device.
    to: Place,
    transfer: Transfer,
    /// How many of its parts nothing computes yet.
    missing: usize,
}

impl PassDraft {
    /// A pass through these graphs, of which nothing is built, that begins in a place. `layers` are those that give activations.
    pub(super) fn new(graphs: PerPlace<GraphDraft>, layers: Range<usize>, first: Place) -> PassDraft {
        let turns = vec![Turn { place: first, receives: false }];
        PassDraft { graphs, layers, turns, transfers: Vec::new() }
    }

    /// The place that computes now.
    fn place(&self) -> Place {
        self.turns.last().map_or(Place::Host, |turn| turn.place)
    }

    /// Has a place compute with `x`, `[n_embd, n]`, which the place before it gives. Nothing changes where that is the
    /// same.
    pub(super) fn hand_over(&mut self, x: Tensor, to: Place) -> Tensor {
        let from = self.place();
        if from == to {
            return x;
        }
        let n = x.dim(1);
        self.graphs[from].sent = Some(x);
        self.turns.push(Turn { place: to, receives: true });
        self.graphs[to].receive(n)
    }

    /// Hands `x` `[m, n]`, which the host's first stage computes for a layer, to the device with these layers. The device gets what
    /// is for its layers of this pass together. Returns `x` in the device's graph.
    pub(super) fn transfer(
        &mut self,
        x: &Tensor,
        to: Place,
        layer: usize,
        of_device: Range<usize>,
    ) -> Tensor {
        let layers = of_device.start.max(self.layers.start)..of_device.end.min(self.layers.end);
        let [m, n, ..] = x.shape().0;
        let shape = [m, n, layers.len()];
        let in_place = |place: Place| self.graphs[place].ctx.input("transfer", Type::F32, shape);
        if self.transfers.iter().all(|draft| draft.to != to) {
            let transfer = Transfer { from: in_place(Place::Host).output(), to: in_place(to) };
            self.transfers.push(TransferDraft { to, transfer, missing: layers.len() });
        }
        let host = &mut self.graphs[Place::Host];
        let draft = self.transfers.iter_mut().find(|draft| draft.to == to);
        let Some((draft, part)) = draft.zip(layer.checked_sub(layers.start)) else {
            return host.ctx.refuse("transfer", format!("layer {layer} is none of {layers:?}"));
        };
        draft.missing -= 1;
        let part_of = |ctx: &Context, all: &Tensor| {
            ctx.view(all, [m, n], [4 * m, 4 * m * n, 4 * m * n], 4 * m * n * part)
        };
        let copied = host.ctx.copy(x, &part_of(&host.ctx, &draft.transfer.from));
        host.effects.nodes.push(copied);
        part_of(&self.graphs[to].ctx, &draft.transfer.to)
    }

    /// The graphs that compute `result`, which belongs to that of the place that computes now. A pass that begins on a device
    /// begins on the host instead, if that computes anything for it.
    pub(super) fn finish(self, result: Tensor) -> BuiltPass {
        let last = self.place();
        let PassDraft { mut graphs, mut turns, transfers, .. } = self;
        if transfers.iter().any(|draft| draft.missing > 0) {
            // Otherwise memory that nothing has written would pass to the device.
            graphs[Place::Host].ctx.refuse("transfer", "no layer computes a part of it".into());
        }
        let begins_on_host = turns.first().is_some_and(|turn| turn.place == Place::Host);
        if let Some(draft) = transfers.first().filter(|_| !begins_on_host) {
            turns.insert(0, Turn { place: Place::Host, receives: false });
            graphs[Place::Host].sent = Some(draft.transfer.from.clone());
        }
        let mut drafts = graphs.map(Some);
        let mut built = Vec::new();
        for Turn { place, .. } in &turns {
            let Some(mut draft) = drafts[*place].take() else { continue };
            let given =
                if *place == last { Some(result.clone()) } else { draft.sent.take().map(Tensor::output) };
            built.extend(given.map(|given| (*place, draft.finish(given))));
        }
        let transfers = transfers.into_iter().map(|draft| draft.transfer).collect();
        BuiltPass { graphs: built, turns, transfers }
    }
}

/// A graph that is being built.
pub(super) struct GraphDraft {
    pub(super) ctx: Context,
    pub(super) inputs: Inputs,
    pub(super) effects: Effects,
    pub(super) exchanges: Vec<Tensor>,
    /// What was computed for another place since one last handed something over.
    pub(super) sent: Option<Tensor>,
    /// Whether what is handed over stays readable.
    pub(super) trace: bool,
}

impl GraphDraft {
    /// What another place hands over for `n` tokens, `[n_embd, n]`. A stage ends with what was computed for others.
    fn receive(&mut self, n: usize) -> Tensor {
        let received = match self.sent.take() {
            Some(sent) => {
                let exchange = self.ctx.exchange(&sent);
                let exchange = if self.trace { exchange.output() } else { exchange };
                self.exchanges.push(exchange.clone());
                exchange
            }
            None => self.inputs.residual.clone(),
        };
        self.ctx.rows(&received, 0, n)
    }

    /// The graph that computes `result`.
    pub(super) fn finish(self, result: Tensor) -> BuiltGraph {
        let GraphDraft { ctx, inputs, effects, exchanges, .. } = self;
        BuiltGraph { ctx, inputs, result, effects: effects.nodes, exchanges, probes: effects.probes }
    }
}

/// What a graph computes beside its result.
#[derive(Default)]
pub(super) struct Effects {
    /// As [`BuiltGraph::effects`].
    pub(super) nodes: Vec<Tensor>,
    /// For each layer that has appended rows, and each text by its number, the node that did.
    pub(super) appended: BTreeMap<(usize, usize), Tensor>,
    /// As [`BuiltGraph::probes`].
    pub(super) probes: Vec<Tensor>,
    /// Whether the same pass gives logits. Then the embeddings of a single token are not checked: they show in the
    /// residual stream before its logits.
    pub(super) has_logits: bool,
    /// How many texts there are. Those of several are checked one by one, by their logits.
    pub(super) texts: usize,
}

impl Effects {
    /// Has it checked that embeddings `[m, n]` are finite.
    pub(super) fn check_embeddings(&mut self, ctx: &Context, embeddings: &Tensor) {
        if self.texts <= 1 && (embeddings.dim(1) > 1 || !self.has_logits) {
            self.probes.push(finite::probe(ctx, embeddings));
        }
    }
}
