//! A text that is computed layer by layer: each layer reads the whole text before the next one begins. Exact prefill,
//! calibration and the search for numbers that are not finite read texts in this way.
//!
//! What they have in common is here: the residual stream and the place where it is, complete rows and states, layers
//! that attend to the rows of others, which outputs are needed, and releasing weights. What becomes of a layer's rows
//! is the caller's business.

use std::ops::Range;
use std::sync::Arc;

use ggml::{InterruptFlag, Type};
use kernels::graph::GraphLane;

use crate::compute::forward::{BuiltGraph, Forward, NextTokens, OutputTokens, TextChunk};
use crate::compute::pass::Pass;
use crate::compute::reading_work::{NeededOutputs, ReadingWork, Work};
use crate::compute::row_groups::GroupMeans;
use crate::compute::scratch::{Chunk, Residual, Scratch, chunks};
use crate::devices::placement::Place;
use crate::devices::workspace::Workspace;
use crate::files::codec::{Input, Output};
use crate::kv::{
    LaneValues, LayerRows, Layout, PolicyChoice, StateTensors, StoreOptions, reach, read_rows,
    write_positions_in_order, write_rows,
};
use crate::{Engine, EngineError};

/// Tokens whose embeddings are looked up in one piece of work: a table lookup, much faster than a layer.
const EMBEDDED_AT_ONCE: usize = 4096;

/// What a text is computed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The rows of all layers, and the logits of what follows the text. If it `is_sparse`, old rows are read in groups.
    Logits {
        /// Whether they are.
        is_sparse: bool,
    },
    /// The rows of all layers.
    Rows,
    /// All intermediates of all tokens. The last layer gives the logits of the last token of each chunk.
    Intermediates,
}

/// A text that is computed layer by layer, and how far it is. After an interrupt it can be read on, behind the last
/// chunk of a layer that was complete.
pub(crate) struct LayeredText {
    tokens: Vec<u32>,
    /// The tokens computed at a time. Those behind the text read it a second time.
    chunks: Vec<Chunk>,
    /// How many of the chunks read it the first time.
    text_chunks: usize,
    purpose: Purpose,
    residual: Residual,
    /// Complete rows of the layers that have them here, and states.
    pub scratch: Scratch,
    /// The layer whose Gram matrices were computed last.
    grams_of: Option<usize>,
    /// Of the layers that read old rows in groups.
    means: GroupMeans,
    /// The layer that is read.
    layer: usize,
    /// Chunks that this layer has read.
    chunks_read: usize,
    /// Chunks whose embeddings are in the residual stream.
    embedded: usize,
    /// The first chunks, of which the residual stream is not there: layers that need no more of it had read them before the text
    /// was restored.
    without_stream: usize,
    work: ReadingWork,
    forward: Forward,
    // Last: the engine must outlive what it has allocated.
    engine: Arc<Engine>,
}

impl LayeredText {
    /// A text, in these chunks, of which nothing is read, not even its embeddings ([`LayeredText::embed_next`]). There is
    /// a layout for each store that takes rows of it. The complete rows of the layers `in_scratch` are held here.
    pub fn new(
        engine: &Arc<Engine>,
        forward: Forward,
        tokens: &[u32],
        chunks: Vec<Chunk>,
        purpose: Purpose,
        layouts: &[&Layout],
        in_scratch: &dyn Fn(usize) -> bool,
    ) -> Result<LayeredText, EngineError> {
        let backends = &engine.backends;
        let residual = Residual::new(&forward, &chunks, backends)?;
        let rows = chunks.iter().map(Chunk::end).max().unwrap_or(0);
        let scratch = Scratch::new(engine.spec(), layouts, rows, backends, in_scratch)?;
        let means = match (purpose, layouts.first()) {
            (Purpose::Logits { is_sparse: true }, Some(layout)) => {
                GroupMeans::new(engine.spec(), layout, rows, backends)?
            }
            _ => GroupMeans::default(),
        };
        let work = ReadingWork::new(engine.spec()).with_groups(|layer| means.of_layer(layer).is_some());
        Ok(LayeredText {
            tokens: tokens.to_vec(),
            text_chunks: chunks.iter().filter(|chunk| chunk.scored.is_none()).count(),
            chunks,
            purpose,
            residual,
            scratch,
            grams_of: None,
            means,
            layer: 0,
            chunks_read: 0,
            embedded: 0,
            without_stream: 0,
            work,
            forward,
            engine: engine.clone(),
        })
    }

    /// A text in chunks of `chunk` tokens whose rows no store takes. Keys and values have these `types`.
    pub fn without_store(
        engine: &Arc<Engine>,
        forward: Forward,
        tokens: &[u32],
        chunk: usize,
        purpose: Purpose,
        types: (Type, Type),
    ) -> Result<LayeredText, EngineError> {
        let options = StoreOptions { context: tokens.len(), types, reserve: None };
        let everything = Layout::new(engine.spec(), &PolicyChoice::default(), None, options)?;
        let chunks = chunks(tokens.len(), chunk);
        LayeredText::new(engine, forward, tokens, chunks, purpose, &[&everything], &|_| true)
    }

    /// Looks up the embeddings of the next chunks, of [`EMBEDDED_AT_ONCE`] tokens or a little more. Returns whether that
    /// changed anything: before the first layer begins, all chunks must have them. After an interrupt this goes on.
    ///
    /// # Errors
    /// Where an embedding is not finite, or the computation fails or is interrupted.
    pub fn embed_next(
        &mut self,
        workspace: &mut Workspace,
        interrupt: &InterruptFlag,
    ) -> Result<bool, EngineError> {
        let before = self.embedded;
        let mut tokens = 0;
        while let Some(chunk) = self.chunks.get(self.embedded).filter(|_| tokens < EMBEDDED_AT_ONCE) {
            let (forward, backends) = (&self.forward, &self.engine.backends);
            let (of_chunk, tokens_of_chunk) = ((self.embedded, chunk), &self.tokens[chunk.tokens.clone()]);
            self.residual.embed(forward, of_chunk, tokens_of_chunk, backends, workspace, interrupt)?;
            tokens += chunk.tokens.len();
            self.embedded += 1;
        }
        Ok(self.embedded > before)
    }

    /// Whether all layers have read the text.
    pub fn is_read(&self) -> bool {
        self.layer == self.engine.spec().n_layers
    }

    /// Whether all embeddings were looked up.
    pub fn is_embedded(&self) -> bool {
        self.embedded == self.chunks.len()
    }

    /// The tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The work that is done, and that of the whole text.
    pub fn work(&self) -> (Work, Work) {
        let outputs = match self.purpose {
            Purpose::Intermediates => NeededOutputs::All,
            Purpose::Logits { .. } | Purpose::Rows => NeededOutputs::ByLayer,
        };
        let of_layer = |layer: usize, chunks: &[Chunk]| -> Work {
            chunks.iter().map(|chunk| self.work.of_layer(layer, outputs, chunk.at, chunk.tokens.len())).sum()
        };
        let of_layers = |layers: Range<usize>| -> Work {
            layers.map(|layer| of_layer(layer, self.chunks_of(layer))).sum()
        };
        let begun = match self.is_read() {
            true => Work::default(),
            false => of_layer(self.layer, &self.chunks_of(self.layer)[..self.chunks_read]),
        };
        (of_layers(0..self.layer) + begun, of_layers(0..self.engine.spec().n_layers))
    }

    /// How much of the work of the whole text is done, from 0 to 1.
    pub fn share(&self) -> f64 {
        let (done, all) = self.work();
        done.share_of(all)
    }

    /// Bytes that [`LayeredText::write_to`] writes, but for the rows of earlier layers.
    pub fn unfinished_bytes(&self) -> usize {
        let tokens: usize = self.chunks_of(self.layer).iter().map(|chunk| chunk.tokens.len()).sum();
        let lane = self.scratch.lanes(self.layer).first();
        let row = |tensor: &ggml::Tensor| tensor.strides()[1] * tensor.dim(2);
        let rows: usize = lane.into_iter().flat_map(GraphLane::tensors).map(row).sum();
        self.residual.bytes(tokens) + rows * self.rows()
    }

    /// The layer that is read, and how many chunks it has read. Behind the last layer the text is read.
    pub fn reached(&self) -> (usize, usize) {
        (self.layer, self.chunks_read)
    }

    /// Rows that the present layer has of the text: those of the chunks that it has read.
    pub fn rows(&self) -> usize {
        let read = self.chunks_read.min(self.text_chunks);
        self.chunks[..read].last().map_or(0, Chunk::end)
    }

    /// Writes what is needed to read on: the residual stream, the present layer's state and rows, and the complete rows
    /// of the layers `attended`, to which it and later ones attend. Rows are written of layers that have them here.
    pub fn write_to(&self, attended: &[usize], to: &mut Output) -> Result<(), EngineError> {
        let (layer, read) = self.reached();
        for (number, chunk) in self.chunks_of(layer).iter().enumerate() {
            if self.needs_stream(number, chunk) {
                to.bytes(&self.residual.chunk_bytes(layer, read, number, chunk.tokens.len())?)?;
            }
        }
        if let Some(state) = self.state() {
            state
                .all()
                .into_iter()
                .try_for_each(|tensor| to.bytes(&tensor.to_vec()?).map_err(EngineError::from))?;
        }
        for accumulated in self.scratch.accumulated(layer)? {
            to.numbers(accumulated.iter().map(|weight| weight.to_bits()))?;
        }
        if let Some(lane) = self.scratch.lanes(layer).first() {
            write_rows(lane, self.rows(), to)?;
        }
        let lanes = attended.iter().filter_map(|layer| self.scratch.lanes(*layer).first());
        lanes.into_iter().try_for_each(|lane| write_rows(lane, self.tokens.len(), to))
    }

    /// Whether the present layer or a later one reads the residual stream of a chunk.
    fn needs_stream(&self, number: usize, chunk: &Chunk) -> bool {
        number >= self.chunks_read || self.needed_outputs(chunk) == OutputTokens::All
    }

    /// Has the text go on where `layer` has read so many chunks. The residual stream is what
    /// [`LayeredText::read_from`] reads.
    pub fn set_reached(&mut self, layer: usize, chunks: usize) {
        (self.layer, self.chunks_read, self.embedded) = (layer, chunks, self.chunks.len());
        let chunks = self.chunks_of(layer).iter().enumerate();
        self.without_stream = chunks.filter(|(number, chunk)| !self.needs_stream(*number, chunk)).count();
    }

    /// Reads what [`LayeredText::write_to`] wrote at the same place of the same text. After an error the text cannot be
    /// read on.
    pub fn read_from(&self, attended: &[usize], from: &mut Input) -> Result<(), EngineError> {
        let (layer, read) = self.reached();
        for (number, chunk) in self.chunks_of(layer).iter().enumerate() {
            if self.needs_stream(number, chunk) {
                let bytes = from.bytes(self.residual.bytes(chunk.tokens.len()))?;
                self.residual.set_chunk_bytes(layer, read, number, bytes)?;
            }
        }
        if let Some(state) = self.state() {
            for tensor in state.all() {
                tensor.write(0, from.bytes(tensor.bytes())?)?;
            }
        }
        let accumulated = self.scratch.lanes(layer).iter().filter_map(|lane| lane.accumulated.as_ref());
        for tensor in accumulated {
            tensor.write(0, from.bytes(tensor.bytes())?)?;
        }
        let read_lane = |layer: usize, rows: usize, from: &mut Input| {
            let Some(lane) = self.scratch.lanes(layer).first() else { return Ok(()) };
            read_rows(lane, rows, from)?;
            write_positions_in_order(lane, rows)
        };
        read_lane(layer, self.rows(), from)?;
        attended.iter().try_for_each(|layer| read_lane(*layer, self.tokens.len(), from))
    }

    /// The most tokens, `most` or fewer, to which the text can be [`cut`](Self::cut); 0 if to none.
    pub fn most_after_cut(&self, most: usize) -> usize {
        // The last chunk that stays is read once more.
        let ends = self.chunks.iter().map(Chunk::end).skip(self.without_stream);
        ends.take_while(|end| *end <= most).last().unwrap_or(0)
    }

    /// Leaves out what is behind the first `n` tokens, which [`most_after_cut`](Self::most_after_cut) has given. What was computed of the others stays: no token
    /// sees those behind it. The rows are the caller's business. A text that is read twice cannot be cut, nor one of a model
    /// whose layers share rows: some of its layers compute the end only.
    pub fn cut(&mut self, n: usize) {
        self.tokens.truncate(n);
        self.chunks.retain(|chunk| chunk.end() <= n);
        self.text_chunks = self.chunks.len();
        // The last layer gives the logits with the text's last chunk, whatever was the last one before.
        let is_last = self.layer + 1 == self.engine.spec().n_layers;
        self.chunks_read = self.chunks_read.min(self.chunks.len().saturating_sub(usize::from(is_last)));
        self.embedded = self.embedded.min(self.chunks.len());
    }

    /// How many chunks a layer reads.
    pub fn chunk_count(&self, layer: usize) -> usize {
        self.chunks_of(layer).len()
    }

    /// The state of the present layer behind the chunks that it has read, if it is recurrent.
    fn state(&self) -> Option<&StateTensors> {
        self.engine.spec().recurrent_layer(self.layer)?;
        self.scratch.state(self.place(), self.chunks_read.min(self.text_chunks))
    }

    /// Begins the next layer, or goes on with the one that was interrupted; `None` after the last one.
    pub fn begin_layer(&self) -> Result<Option<usize>, EngineError> {
        if self.layer == self.engine.spec().n_layers {
            return Ok(None);
        }
        if self.chunks_read == 0 {
            self.residual.move_to(self.layer)?;
            self.scratch.clear_accumulated(self.layer)?;
            self.scratch.clear_state(self.place())?;
        }
        Ok(Some(self.layer))
    }

    /// The complete rows of the present layer, or those of the earlier one to which it attends. They must be held here.
    pub fn complete_rows(&self) -> LayerRows {
        let spec = self.engine.spec();
        LayerRows::of_layer(spec, self.layer, |layer| self.scratch.complete_rows(spec, layer))
    }

    /// The next chunk of the present layer; `None` if it has read all of them.
    pub fn next_chunk(&self) -> Option<&Chunk> {
        self.chunks_of(self.layer).get(self.chunks_read)
    }

    /// The queries of the next chunk after RoPE, `[head_dim, heads, n]`.
    pub fn queries(
        &self,
        workspace: &mut Workspace,
        interrupt: &InterruptFlag,
    ) -> Result<Vec<f32>, EngineError> {
        self.compute_of_chunk(Forward::query_graph, workspace, interrupt)
    }

    /// The keys before RoPE and the values of the next chunk, `[head_dim, kv_heads, n]` twice.
    pub fn new_rows(
        &self,
        workspace: &mut Workspace,
        interrupt: &InterruptFlag,
    ) -> Result<Vec<f32>, EngineError> {
        self.compute_of_chunk(Forward::row_graph, workspace, interrupt)
    }

    /// The result of a graph for the next chunk in the present layer.
    fn compute_of_chunk(
        &self,
        graph: fn(&Forward, usize, TextChunk) -> BuiltGraph,
        workspace: &mut Workspace,
        interrupt: &InterruptFlag,
    ) -> Result<Vec<f32>, EngineError> {
        let Some(chunk) = self.next_chunk() else { return Ok(Vec::new()) };
        let built = graph(&self.forward, self.layer, self.load_chunk(chunk)?);
        let graph = workspace.prepare(self.place(), built.graph()?)?;
        let (tokens, lanes) = (&self.tokens[chunk.tokens.clone()], self.lane_values(chunk));
        built.inputs.fill(&[NextTokens { tokens, first: chunk.at, lanes: &lanes }])?;
        self.engine.backends.compute(self.place(), &graph, Some(interrupt))?;
        Ok(built.result.to_vec()?)
    }

    /// Computes the Gram matrices of the present layer, if contributions count and it has not been done.
    pub fn compute_grams(
        &mut self,
        workspace: &mut Workspace,
        interrupt: &InterruptFlag,
    ) -> Result<(), EngineError> {
        let (layer, spec) = (self.layer, self.engine.spec());
        let Some(grams) = self.scratch.grams(layer).filter(|_| self.grams_of != Some(layer)) else {
            return Ok(());
        };
        for head in 0..spec.n_heads {
            let built = self.forward.gram_graph(layer, head, grams, self.scratch.lanes(layer));
            let graph = workspace.prepare(self.place(), built.graph()?)?;
            self.engine.backends.compute(self.place(), &graph, Some(interrupt))?;
        }
        self.grams_of = Some(layer);
        Ok(())
    }

    /// Computes the next chunk, if anything of it is needed. `rows` are those of [`LayerRows::of_layer`]; a recurrent
    /// layer has its states instead. After an error the chunk can be computed again.
    pub fn read_chunk(
        &mut self,
        rows: &LayerRows,
        workspace: &mut Workspace,
        interrupt: &InterruptFlag,
    ) -> Result<Option<Pass>, EngineError> {
        let Some(chunk) = self.next_chunk() else { return Ok(None) };
        let (spec, layer) = (self.engine.spec(), self.layer);
        let needed = self.needed_outputs(chunk);
        // Without outputs a layer only writes rows, if it has any.
        let pass = if needed == OutputTokens::None && spec.shares_kv(layer) {
            None
        } else {
            // The chunks that read the text a second time all begin with the state at its end.
            let before = self.chunks_read.min(self.text_chunks);
            let states = self.scratch.state_rows(self.place(), spec, layer, before);
            let rows = LayerRows {
                means: self.means.of_layer(layer).cloned(),
                ..states.unwrap_or_else(|| rows.clone())
            };
            let text = self.load_chunk(chunk)?;
            let graphs =
                |end| self.forward.layer_graphs(layer, text, &rows.clone().reaching(reach(end)), needed);
            // The first chunk asks for the memory of the others, so that none lacks it hours later.
            let is_first = self.chunks_read == 0 && self.forward.form(layer).reads_whole_lanes();
            let last = self.chunks_of(layer).iter().map(Chunk::end).max();
            if let Some(last) = last.filter(|last| is_first && reach(*last) > reach(chunk.end())) {
                Pass::new(graphs(last), workspace)?;
            }
            let pass = Pass::new(graphs(chunk.end()), workspace)?;
            let tokens = &self.tokens[chunk.tokens.clone()];
            let lanes = self.lane_values(chunk);
            let text = NextTokens { tokens, first: chunk.at, lanes: &lanes };
            pass.start(&self.engine.backends, &[text], Some(interrupt))?;
            if needed == OutputTokens::All {
                self.residual.store(layer, self.chunks_read, chunk.tokens.len())?;
            }
            Some(pass)
        };
        self.chunks_read += 1;
        Ok(pass)
    }

    /// The state of the present layer at the end of the text, if it is recurrent.
    pub fn end_state(&self) -> Option<&StateTensors> {
        self.engine.spec().recurrent_layer(self.layer)?;
        self.scratch.state(self.place(), self.text_chunks)
    }

    /// Ends the present layer.
    pub fn end_layer(&mut self) {
        self.release();
        (self.layer, self.chunks_read) = (self.layer + 1, 0);
    }

    /// Gives the pages of the present layer's weights back to the system, until the text is read on.
    pub fn release(&self) {
        if self.layer < self.engine.spec().n_layers {
            self.engine.release(self.layer);
        }
    }

    fn place(&self) -> Place {
        self.engine.placement().of(self.layer)
    }

    /// The chunks that a layer reads. Only layers with rows of their own read the text a second time, and layers before
    /// them.
    fn chunks_of(&self, layer: usize) -> &[Chunk] {
        match self.engine.spec().shares_kv(layer) {
            true => &self.chunks[..self.text_chunks],
            false => &self.chunks,
        }
    }

    /// The next chunk's part of the residual stream, in the place of the present layer.
    fn load_chunk(&self, chunk: &Chunk) -> Result<TextChunk<'_>, EngineError> {
        self.residual.load(self.layer, self.chunks_read, chunk.tokens.len())
    }

    /// Complete rows lie in the order of their positions.
    fn lane_values(&self, chunk: &Chunk) -> LaneValues {
        LaneValues::uniform(self.engine.spec().n_layers, chunk.at)
    }

    /// The tokens of a chunk whose outputs are needed of the present layer. All are, where a later layer has rows.
    fn needed_outputs(&self, chunk: &Chunk) -> OutputTokens {
        let spec = self.engine.spec();
        let is_last = self.layer + 1 == spec.n_layers;
        let is_end = chunk.end() == self.tokens.len();
        match self.purpose {
            _ if !is_last && !spec.shares_kv(self.layer + 1) => OutputTokens::All,
            Purpose::Rows => OutputTokens::None,
            Purpose::Logits { .. } if !is_end => OutputTokens::None,
            Purpose::Logits { .. } | Purpose::Intermediates if is_last => OutputTokens::Last,
            Purpose::Logits { .. } | Purpose::Intermediates => OutputTokens::All,
        }
    }
}

impl Drop for LayeredText {
    /// A reading may end within a layer: by an error, an interrupt, or because enough is known.
    fn drop(&mut self) {
        self.release();
    }
}
