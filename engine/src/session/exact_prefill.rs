//! Exact prefill: a first text is read layer by layer with full attention.
//!
//! Each layer reads the whole text before its rows are evicted. Only one layer's complete rows are held at a
//! time. Several sessions can read a text together: it is computed once, and each keeps of it what its policy
//! keeps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kernels::graph::GraphLane;

use crate::forward::{OutputTokens, RESULT_NORM, TextChunk};
use crate::kv::{LaneValues, LayerRows, Layout};
use crate::scratch::{Residual, Scratch};
use crate::{Engine, EngineError, Hint, Prefill, Progress, Session, Task, not_finite};

impl Session {
    /// Reads the first text layer by layer. After an error or an interrupt the session is empty.
    pub(super) fn read_exact(
        &mut self,
        tokens: &[u32],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), EngineError> {
        let engine = self.engine.clone();
        let read = layer_by_layer(&engine, tokens, &mut [self], progress);
        if read.is_err() {
            give_up(&engine, [&mut *self]);
        }
        self.finish_exact(tokens, read?);
        Ok(())
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
    let logits = layer_by_layer(engine, tokens, &mut sessions.iter_mut().collect::<Vec<_>>(), progress)?;
    sessions.iter_mut().try_for_each(|session| {
        session.finish_exact(tokens, logits.clone());
        session.store.add_checkpoint(&logits)
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

/// Reads a text into the empty stores of `sessions`, one layer after the other, and gives the logits of what
/// follows.
fn layer_by_layer(
    engine: &Engine,
    tokens: &[u32],
    sessions: &mut [&mut Session],
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<f32>, EngineError> {
    let started = Instant::now();
    let (spec, backends, n) = (engine.spec(), &engine.backends, tokens.len());
    let Some(first) = sessions.first_mut() else { return Ok(Vec::new()) };
    let chunk = first.options.chunk.max(1);
    // With a single store, layers that keep everything are computed in the store itself.
    let in_store =
        |sessions: &[&mut Session], layer| sessions.len() == 1 && sessions[0].store.is_dense(layer);
    let residual = Residual::embed(&engine.forward, tokens, chunk, backends, &mut first.workspace)?;
    let layouts: Vec<&Layout> = sessions.iter().map(|session| session.store.layout()).collect();
    let scratch = Scratch::new(spec, &layouts, n, backends, |layer| !in_store(sessions, layer))?;

    let chunks: Vec<(usize, usize)> = (0..n).step_by(chunk).map(|at| (at, chunk.min(n - at))).collect();
    let mut logits = Vec::new();
    sessions.iter_mut().for_each(|session| session.compressing = Duration::ZERO);
    for layer in 0..spec.n_layers {
        let place = backends.placement().of(layer);
        residual.move_to(layer, backends)?;
        let is_last = layer + 1 == spec.n_layers;
        let in_store = in_store(sessions, layer);
        let layer_rows = match in_store {
            true => sessions[0].store.rows(layer),
            false => complete_rows(sessions, scratch.lanes(place), layer),
        };
        for (number, (at, len)) in chunks.iter().copied().enumerate() {
            let needed = match is_last {
                true if at + len == n => OutputTokens::Last,
                true => OutputTokens::None,
                false => OutputTokens::All,
            };
            let text_chunk = TextChunk { residual: residual.at(place)?, first: at, len };
            let built = engine.forward.layer_graph(layer, text_chunk, &layer_rows, needed);
            let graph = sessions[0].workspace.prepare(place, built.graph()?)?;
            built.inputs.fill(&tokens[at..at + len], at, &LaneValues::uniform(spec.n_layers, at))?;
            backends.compute(place, &graph)?;
            if let Some(normed) = graph.find(RESULT_NORM) {
                logits = built.result.to_vec()?;
                not_finite::check(&logits, &normed)?;
            }
            let share = (layer * chunks.len() + number + 1) as f64 / (spec.n_layers * chunks.len()) as f64;
            progress(Progress { task: Task::Prefill, share, size: n, elapsed: started.elapsed() });
        }
        if in_store {
            sessions[0].store.grow_layer(layer, n);
        } else {
            for (session, lane) in sessions.iter_mut().zip(scratch.lanes(place)) {
                let started = Instant::now();
                session.store.fill_layer(layer, lane, n, backends, &mut session.workspace)?;
                session.compressing += started.elapsed();
            }
        }
        engine.release(layer);
    }
    Ok(logits)
}

/// A layer's complete rows: `lanes` has a lane for each session, and all share keys and values.
fn complete_rows(sessions: &[&mut Session], lanes: &[GraphLane], layer: usize) -> LayerRows {
    let recorder = |(session, lane): (&&mut Session, _)| session.store.prefill_recorder(layer, lane);
    LayerRows {
        lanes: lanes.iter().take(1).cloned().collect(),
        recorders: sessions.iter().zip(lanes).map(recorder).collect(),
    }
}
