//! Exact prefill: a first text is read layer by layer with full attention.
//!
//! Each layer reads the whole text before its rows are evicted. Only one layer's complete rows are held at a
//! time, and those to which later layers attend. Several sessions can read a text together: it is computed once, and
//! each keeps of it what its policy keeps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kernels::graph::GraphLane;

use crate::backends::Backends;
use crate::forward::OutputTokens;
use crate::kv::{AttentionRecorder, LaneValues, LayerRows, Layout, Store};
use crate::pass::Pass;
use crate::scratch::{Chunk, Residual, Scratch, first_text_chunks};
use crate::workspace::Workspace;
use crate::{Engine, EngineError, Hint, Prefill, Progress, Session, Task, not_finite};

impl Session {
    /// Reads the first text layer by layer, or goes on where that was interrupted. After an error the session is empty.
    /// After an interrupt it holds no tokens, but what is needed to go on.
    pub(super) fn read_exact(
        &mut self,
        tokens: &[u32],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), EngineError> {
        let engine = self.engine.clone();
        // Another text leaves its memory before this one takes any.
        let mut text = match self.first_text.take().filter(|text| text.tokens == tokens) {
            Some(text) => text,
            None => {
                self.clear()?;
                Box::new(FirstText::new(&engine, tokens, &mut [self])?)
            }
        };
        match text.read(&engine, &mut [self], progress) {
            Ok(()) => {
                self.finish_exact(tokens, std::mem::take(&mut text.logits));
                Ok(())
            }
            Err(error) if error.is_interrupt() => {
                engine.release_all();
                self.first_text = Some(text);
                Err(error)
            }
            Err(error) => {
                give_up(&engine, [self]);
                Err(error)
            }
        }
    }

    /// How much of a first text is read, from 0 to 1, where its reading layer by layer was interrupted.
    pub fn first_text_share(&self) -> Option<f64> {
        self.first_text.as_ref().map(|text| text.share(self.engine.spec().n_layers))
    }

    /// Whether the reading of this first text was interrupted.
    pub(crate) fn is_reading(&self, tokens: &[u32]) -> bool {
        self.first_text.as_ref().is_some_and(|text| text.tokens == tokens)
    }

    fn finish_exact(&mut self, tokens: &[u32], logits: Vec<f32>) {
        self.logits = logits;
        self.tokens = tokens.to_vec();
        self.store.finish_exact(tokens.len());
    }
}

/// Reads the same first text into several sessions of one engine, as [`Session::sync`] would into each of
/// them. It is computed only once: with full attention a text is the same whatever is kept of it. For
/// comparing policies. What the sessions held before is removed, and after an error in the computation all of
/// them are empty.
///
/// # Errors
/// Where the sessions differ in more than their policy, and as [`Session::sync`].
pub fn sync_all(
    sessions: &mut [Session],
    tokens: &[u32],
    progress: &mut dyn FnMut(Progress),
) -> Result<(), EngineError> {
    let Some(first) = sessions.first() else { return Ok(()) };
    let (engine, types) = (first.engine.clone(), first.options.types);
    for session in sessions.iter() {
        session.check(tokens)?;
        let alike = Arc::ptr_eq(&session.engine, &engine) && session.options.types == types;
        if !alike || session.options.prefill != Prefill::Exact {
            return Err(EngineError::Setting {
                what: "sessions that read a text together".into(),
                reason: "they must share the engine and the cache types, and use exact prefill".into(),
                hint: Hint::advice("make sessions that differ in their policy only"),
            });
        }
    }
    sessions.iter_mut().try_for_each(Session::clear)?;
    let read = read_together(&engine, sessions, tokens, progress);
    if read.is_err() {
        give_up(&engine, sessions);
    }
    read.map_err(|error| not_finite::with_origin(error, &engine, tokens, types))
}

fn read_together(
    engine: &Engine,
    sessions: &mut [Session],
    tokens: &[u32],
    progress: &mut dyn FnMut(Progress),
) -> Result<(), EngineError> {
    let Some(first) = sessions.first().filter(|_| !tokens.is_empty()) else { return Ok(()) };
    not_finite::check_text(engine, tokens, first.options.types)?;
    let mut all: Vec<&mut Session> = sessions.iter_mut().collect();
    let mut text = FirstText::new(engine, tokens, &mut all)?;
    text.read(engine, &mut all, progress)?;
    sessions.iter_mut().try_for_each(|session| {
        session.finish_exact(tokens, text.logits.clone());
        session.store.add_checkpoint(&text.logits)
    })
}

/// Empties sessions whose text could not be read.
fn give_up<'a>(engine: &Engine, sessions: impl IntoIterator<Item = &'a mut Session>) {
    engine.release_all();
    for session in sessions {
        // If this fails too, the session is empty, and the first error is the one to report.
        let _ = session.clear();
    }
}

/// A first text that is being read layer by layer. After an interrupt the reading goes on behind the last chunk of a
/// layer that was complete.
pub(super) struct FirstText {
    tokens: Vec<u32>,
    /// The tokens computed at a time. Those behind the text read it a second time, for the policies of its sessions.
    chunks: Vec<Chunk>,
    residual: Residual,
    scratch: Scratch,
    /// The layer that is read.
    layer: usize,
    /// Chunks that this layer has read.
    chunks_read: usize,
    /// The logits of what follows, at the end.
    logits: Vec<f32>,
    /// Time so far.
    elapsed: Duration,
}

impl FirstText {
    /// A text of which nothing is read into the empty stores of `sessions`.
    fn new(engine: &Engine, tokens: &[u32], sessions: &mut [&mut Session]) -> Result<FirstText, EngineError> {
        let backends = &engine.backends;
        let chunk = sessions.first().map_or(1, |first| first.options.chunk.max(1));
        let mut workspace = Workspace::new(backends);
        let forward = sessions.first().map_or(&engine.forward, |first| &first.forward);
        let layouts: Vec<&Layout> = sessions.iter().map(|session| session.store.layout()).collect();
        let is_read_twice = layouts.iter().any(|layout| layout.reconstructs());
        let chunks = first_text_chunks(tokens.len(), chunk, is_read_twice);
        let residual = Residual::embed(forward, tokens, &chunks, backends, &mut workspace)?;
        let rows = chunks.iter().map(Chunk::end).max().unwrap_or(0);
        let scratch =
            Scratch::new(engine.spec(), &layouts, rows, backends, |layer| !in_store(sessions, layer))?;
        sessions.iter_mut().for_each(|session| session.compressing = Duration::ZERO);
        Ok(FirstText {
            tokens: tokens.to_vec(),
            chunks,
            residual,
            scratch,
            layer: 0,
            chunks_read: 0,
            logits: Vec::new(),
            elapsed: Duration::ZERO,
        })
    }

    /// How much of the text is read, from 0 to 1.
    fn share(&self, n_layers: usize) -> f64 {
        let read = self.layer * self.chunks.len() + self.chunks_read;
        read as f64 / (n_layers * self.chunks.len()).max(1) as f64
    }

    /// Reads what is left of the text into the stores of `sessions`, one layer after the other.
    fn read(
        &mut self,
        engine: &Engine,
        sessions: &mut [&mut Session],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), EngineError> {
        let (started, before, n_layers) = (Instant::now(), self.elapsed, engine.spec().n_layers);
        while self.layer < n_layers {
            if self.chunks_read == 0 {
                self.residual.move_to(self.layer, &engine.backends)?;
                self.scratch.clear_accumulated(self.layer)?;
                self.scratch.clear_state(engine.backends.placement().of(self.layer))?;
            }
            let rows = self.layer_rows(engine, sessions);
            let second_rows =
                complete_rows(engine, sessions, &self.scratch, self.layer, Store::reconstruction_recorder);
            // Only layers with rows of their own are read a second time, and layers before them.
            let is_read_twice = !engine.spec().shares_kv(self.layer);
            let chunks = if is_read_twice { self.chunks.len() } else { self.text_chunks() };
            while self.chunks_read < chunks {
                self.read_chunk(engine, sessions, [&rows, &second_rows])?;
                self.chunks_read += 1;
                self.elapsed = before + started.elapsed();
                let (share, size) = (self.share(n_layers), self.tokens.len());
                progress(Progress { task: Task::Prefill, share, size, elapsed: self.elapsed });
            }
            self.finish_layer(engine, sessions)?;
            (self.layer, self.chunks_read) = (self.layer + 1, 0);
        }
        Ok(())
    }

    /// The complete rows of the present layer, or those of an earlier one to which it attends.
    fn layer_rows(&self, engine: &Engine, sessions: &[&mut Session]) -> LayerRows {
        let of_layer = engine.spec().kv_layer(self.layer);
        let rows = match in_store(sessions, of_layer) {
            true => sessions[0].store.rows(of_layer),
            false => complete_rows(engine, sessions, &self.scratch, of_layer, Store::prefill_recorder),
        };
        if of_layer == self.layer { rows } else { rows.read_only() }
    }

    /// Chunks of the first reading.
    fn text_chunks(&self) -> usize {
        self.chunks.iter().filter(|chunk| chunk.scored.is_none()).count()
    }

    /// Whether the present layer is recurrent.
    fn is_recurrent(&self, engine: &Engine) -> bool {
        engine.spec().recurrent_layer(self.layer).is_some()
    }

    /// Computes the next chunk of the present layer. After an error it can be computed again.
    fn read_chunk(
        &mut self,
        engine: &Engine,
        sessions: &mut [&mut Session],
        [first_rows, second_rows]: [&LayerRows; 2],
    ) -> Result<(), EngineError> {
        let (spec, backends, layer) = (engine.spec(), &engine.backends, self.layer);
        let place = backends.placement().of(layer);
        let Chunk { at, tokens: range, scored } = self.chunks[self.chunks_read].clone();
        let tokens = &self.tokens[range];
        let part_rows = scored.map(|part| second_rows.scored(part));
        let rows = part_rows.as_ref().unwrap_or(first_rows);
        // The chunks that read the text a second time all begin with the state at its end.
        let before = self.chunks_read.min(self.text_chunks());
        let states = self.scratch.state_rows(place, spec, layer, before);
        let rows = states.as_ref().unwrap_or(rows);
        // Where no later layer has rows of its own, only the logits need the output, and only at the end of the text.
        let is_last = layer + 1 == spec.n_layers;
        let is_end = at + tokens.len() == self.tokens.len();
        let needed = match is_last || spec.shares_kv(layer + 1) {
            false => OutputTokens::All,
            true if !is_end => OutputTokens::None,
            true if is_last => OutputTokens::Last,
            true => OutputTokens::All,
        };
        if needed == OutputTokens::None && spec.shares_kv(layer) {
            return Ok(()); // it gives nothing, and writes no rows
        }
        let chunk = self.residual.chunk(place, layer, self.chunks_read, tokens.len())?;
        let graphs = sessions[0].forward.layer_graphs(layer, chunk, rows, needed);
        let pass = Pass::new(graphs, &mut sessions[0].workspace)?;
        let lanes = LaneValues::uniform(spec.n_layers, at);
        // Several sessions do not go on after an interrupt, and complete layers accumulate nothing in the scratch
        // buffer.
        let is_resumed = sessions.len() == 1 && !in_store(sessions, layer) && !self.is_recurrent(engine);
        let accumulated = is_resumed.then(|| self.scratch.accumulated(layer)).transpose()?;
        if let Err(error) = pass.compute(Backends::compute, backends, tokens, at, &lanes) {
            if let Some(accumulated) = accumulated {
                self.scratch.set_accumulated(layer, &accumulated)?;
            }
            return Err(error);
        }
        if needed == OutputTokens::Last {
            self.logits = pass.read_logits()?;
        }
        Ok(())
    }

    /// The present layer has read all: the stores keep of its rows what their policies keep.
    fn finish_layer(&self, engine: &Engine, sessions: &mut [&mut Session]) -> Result<(), EngineError> {
        let (layer, backends, n) = (self.layer, &engine.backends, self.tokens.len());
        if self.is_recurrent(engine) {
            let state = self.scratch.state(backends.placement().of(layer), self.text_chunks());
            for (session, state) in sessions.iter_mut().zip(state.into_iter().cycle()) {
                session.store.set_state(layer, state)?;
            }
        } else if in_store(sessions, layer) {
            sessions[0].store.grow_layer(layer, n);
        } else {
            let lanes = self.scratch.lanes(layer);
            for (session, lane) in sessions.iter_mut().zip(lanes) {
                let started = Instant::now();
                session.store.fill_layer(layer, lane, n, backends, &mut session.workspace)?;
                session.compressing += started.elapsed();
            }
        }
        engine.release(layer);
        Ok(())
    }
}

/// Whether a layer is computed in the store itself: with a single store, where the layer keeps everything and the
/// text is read once.
fn in_store(sessions: &[&mut Session], layer: usize) -> bool {
    let [session] = sessions else { return false };
    session.store.is_dense(layer) && !session.store.layout().reconstructs()
}

/// A layer's complete rows. The scratch buffer has a lane for each session, and all share keys and values.
fn complete_rows(
    engine: &Engine,
    sessions: &[&mut Session],
    scratch: &Scratch,
    layer: usize,
    recorder: fn(&Store, usize, &GraphLane) -> AttentionRecorder,
) -> LayerRows {
    let recorder = |(session, lane): (&&mut Session, _)| recorder(&session.store, layer, lane);
    LayerRows {
        lanes: scratch.complete_lane(engine.spec(), layer),
        recorders: sessions.iter().zip(scratch.lanes(layer)).map(recorder).collect(),
        states: None,
    }
}
