//! Exact prefill: a first text is read layer by layer with full attention.
//!
//! Each layer reads the whole text before its rows are evicted. Only one layer's complete rows are held at a
//! time, and those to which later layers attend. Several sessions can read a text together: it is computed once, and
//! each keeps of it what its policy keeps.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ggml::InterruptFlag;
use kernels::graph::GraphLane;

use crate::compute::layered_text::{LayeredText, Purpose};
use crate::compute::pace::PieceTimes;
use crate::compute::scratch::first_text_chunks;
use crate::devices::ledger::Reservation;
use crate::files::codec::{Input, Output, SnapshotError};
use crate::kv::{AttentionRecorder, LayerRows, Layout, Store};
use crate::progress::Task;
use crate::session::{LastText, Prefill, Reached, common_prefix, not_finite};
use crate::{Engine, EngineError, Hint, Progress, Session};

impl Session {
    /// Begins to read a first text layer by layer.
    pub(super) fn begin_first_text(&mut self, tokens: &[u32]) -> Result<(), EngineError> {
        // Another text leaves its memory before this one takes any.
        self.clear()?;
        let text = FirstText::new(&self.engine.clone(), tokens, &mut [self])?;
        self.last_text = LastText::SomeLayers(Box::new(text));
        Ok(())
    }

    /// Cuts the first text that was begun to what it shares with `tokens`. Returns whether it goes on with that; if not, it stays.
    pub(super) fn cut_first_text(&mut self, tokens: &[u32]) -> bool {
        let shared = self.goes_on_with(tokens);
        let LastText::SomeLayers(text) = &mut self.last_text else { return false };
        let (all, (layer, _)) = (text.len(), text.layers.reached());
        if shared > 0 && shared < all {
            text.layers.cut(shared);
            (0..layer).for_each(|layer| self.store.shrink_layer(layer, all - shared));
        }
        shared > 0
    }

    /// How many tokens of `tokens` are read where the first text that was begun is read on: all of the same text. Of another
    /// one it is the chunks that are the same, where all rows are kept and enough is done to be worth it.
    fn goes_on_with(&self, tokens: &[u32]) -> usize {
        /// What follows is read chunk by chunk, for each of which all weights are read.
        const WORTH_IT: f64 = 1.0 / 16.0;
        let Some(text) = self.first_text() else { return 0 };
        if text.is_of(tokens) {
            return tokens.len();
        }
        let spec = self.engine.spec();
        let can_be_cut = self.keeps_beginnings() && (0..spec.n_layers).all(|layer| !spec.shares_kv(layer));
        let shared = if can_be_cut { text.shared_with(tokens) } else { 0 };
        let is_worth_it = text.layers.share() * shared as f64 >= WORTH_IT * tokens.len() as f64;
        if is_worth_it { shared } else { 0 }
    }

    /// As many tokens as the work would read that [`Session::sync`] with `tokens` saves, because a first text that begins in the
    /// same way is half read.
    pub fn begun_of(&self, tokens: &[u32]) -> usize {
        self.begun(self.goes_on_with(tokens))
    }

    /// As many tokens as the work would read that is done of a half-read first text.
    pub fn half_read(&self) -> usize {
        self.begun(self.first_text().map_or(0, FirstText::len))
    }

    fn begun(&self, tokens: usize) -> usize {
        (self.first_text_share().unwrap_or(0.0) * tokens as f64) as usize
    }

    /// Reads the next piece of the first text that was begun, and ends the reading with the last one. After an error the
    /// session is empty. After an interrupt it holds no tokens, but what is needed to go on.
    pub(super) fn read_first_text(&mut self, tokens: &[u32]) -> Result<Progress, EngineError> {
        let LastText::SomeLayers(mut text) = std::mem::take(&mut self.last_text) else {
            return Err(ggml::Error::NotAllocated("a first text".into()).into());
        };
        let interrupt = self.interrupt.clone();
        match text.read_next(&mut [self], &interrupt) {
            Ok(progress) if text.is_read() => {
                self.pieces = text.pieces;
                self.finish_exact(text.layers.tokens(), text.logits);
                self.reservations.iter_mut().for_each(Reservation::first_text_is_read);
                if self.tokens.len() < tokens.len() {
                    // It was cut. What follows belongs to the same turn.
                    self.last_text = LastText::SomeChunks;
                }
                Ok(progress)
            }
            Ok(progress) => {
                self.last_text = LastText::SomeLayers(text);
                Ok(progress)
            }
            Err(error) if error.is_interrupt() => {
                self.last_text = LastText::SomeLayers(text);
                Err(error)
            }
            Err(error) => {
                // The text leaves its memory before the cause is looked for.
                drop(text);
                give_up([&mut *self]);
                Err(self.with_origin(error, tokens))
            }
        }
    }

    /// How much of a first text is read, from 0 to 1, where its reading layer by layer was interrupted.
    pub fn first_text_share(&self) -> Option<f64> {
        self.first_text().map(|text| text.layers.share())
    }

    /// Whether the reading of this first text was interrupted, so that [`Session::sync`] with it goes on.
    pub fn is_reading(&self, tokens: &[u32]) -> bool {
        self.first_text().is_some_and(|text| text.is_of(tokens))
    }

    fn finish_exact(&mut self, tokens: &[u32], logits: Vec<f32>) {
        self.logits = logits;
        self.tokens = tokens.to_vec();
        self.store.finish_exact(tokens.len());
    }
}

/// Reads the same first text into several sessions of one engine, as [`Session::sync`] would into each of
/// them. It is computed only once: read layer by layer, a text is the same whatever is kept of it. For
/// comparing policies. The interrupt flag of the first session stops it. What the sessions held before is
/// removed, and after an error in the computation all of them are empty.
///
/// # Errors
/// Where the sessions differ in more than their policy, and as [`Session::sync`].
pub fn sync_all(
    sessions: &mut [Session],
    tokens: &[u32],
    progress: &mut dyn FnMut(Progress),
) -> Result<(), EngineError> {
    let Some(first) = sessions.first() else { return Ok(()) };
    let (engine, types, interrupt) = (first.engine.clone(), first.options.types, first.interrupt.clone());
    let is_long = |session: &Session| engine.forward.is_long(session.options.context);
    for session in sessions.iter() {
        session.check(tokens)?;
        let alike = Arc::ptr_eq(&session.engine, &engine)
            && session.options.types == types
            && is_long(session) == is_long(first)
            && session.options.prefill == first.options.prefill
            && session.options.int8 == first.options.int8
            && (session.options.prefill == Prefill::Exact || session.options.chunk == first.options.chunk);
        if !alike || !first.options.prefill.is_by_layer() {
            return Err(EngineError::Setting {
                what: "sessions that read a text together".into(),
                reason: "they must share the engine, the cache types, the factors of RoPE, the arithmetic and the prefill: exact, or sparse in equal chunks".into(),
                hint: Hint::advice("make sessions that differ in their policy only"),
            });
        }
    }
    sessions.iter_mut().try_for_each(Session::clear)?;
    let read = read_together(&engine, sessions, tokens, &interrupt, progress);
    if read.is_err() {
        give_up(sessions);
    }
    read.map_err(|error| not_finite::with_origin(error, &engine, tokens, types, &interrupt))
}

fn read_together(
    engine: &Arc<Engine>,
    sessions: &mut [Session],
    tokens: &[u32],
    interrupt: &InterruptFlag,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), EngineError> {
    let (Some(first), Some(last)) = (sessions.first(), tokens.last()) else { return Ok(()) };
    not_finite::check_weights(engine, *last, first.options.types, interrupt)?;
    let mut all: Vec<&mut Session> = sessions.iter_mut().collect();
    let mut text = FirstText::new(engine, tokens, &mut all)?;
    while !text.is_read() {
        progress(text.read_next(&mut all, interrupt)?);
    }
    sessions.iter_mut().try_for_each(|session| {
        session.finish_exact(tokens, text.logits.clone());
        session.store.add_checkpoint(&text.logits)
    })
}

/// Empties sessions whose text could not be read.
fn give_up<'a>(sessions: impl IntoIterator<Item = &'a mut Session>) {
    for session in sessions {
        // If this fails too, the session is empty, and the first error is the one to report.
        let _ = session.clear();
    }
}

/// A first text that is being read layer by layer.
pub(crate) struct FirstText {
    layers: LayeredText,
    /// The logits of what follows, at the end.
    logits: Vec<f32>,
    /// Time so far.
    elapsed: Duration,
    /// What its pieces took in this process.
    pub(super) pieces: PieceTimes,
}

impl FirstText {
    /// A text of which nothing is read into the empty stores of `sessions`.
    fn new(
        engine: &Arc<Engine>,
        tokens: &[u32],
        sessions: &mut [&mut Session],
    ) -> Result<FirstText, EngineError> {
        let chunk = sessions.first().map_or(1, |first| first.options.chunk.max(1));
        let forward =
            sessions.first().map_or_else(|| engine.forward.clone(), |first| first.reading_forward());
        let layouts: Vec<&Layout> = sessions.iter().map(|session| session.store.layout()).collect();
        let is_read_twice = layouts.iter().any(|layout| layout.reconstructs());
        let chunks = first_text_chunks(tokens.len(), chunk, is_read_twice);
        let in_scratch = |layer: usize| !in_store(sessions, layer);
        let is_sparse = sessions.first().is_some_and(|first| first.options.prefill == Prefill::Sparse);
        let purpose = Purpose::Logits { is_sparse };
        let layers = LayeredText::new(engine, forward, tokens, chunks, purpose, &layouts, &in_scratch)?;
        sessions.iter_mut().for_each(|session| session.compressing = Duration::ZERO);
        Ok(FirstText { layers, logits: Vec::new(), elapsed: Duration::ZERO, pieces: PieceTimes::default() })
    }

    /// Its tokens.
    pub(super) fn len(&self) -> usize {
        self.layers.tokens().len()
    }

    pub(super) fn is_of(&self, tokens: &[u32]) -> bool {
        self.layers.tokens() == tokens
    }

    /// How many tokens it shares with `tokens`: all of them, or whole chunks, behind which `tokens` goes on, where it can be cut
    /// to these.
    fn shared_with(&self, tokens: &[u32]) -> usize {
        let all = self.layers.tokens();
        let common = common_prefix(all, tokens);
        match common == all.len() && common < tokens.len() {
            true => common,
            false => self.layers.most_after_cut(common.min(tokens.len().saturating_sub(1))),
        }
    }

    /// How far it is; `None` if nothing of it is read.
    pub(super) fn reached(&self) -> Option<Reached> {
        let (layer, chunks) = self.layers.reached();
        self.layers.is_embedded().then_some(Reached::Layer { layer, chunks })
    }

    /// Whether all layers have read it.
    fn is_read(&self) -> bool {
        self.layers.is_read()
    }

    /// Gives the pages of the present layer's weights back to the system.
    pub(super) fn release(&self) {
        self.layers.release();
    }

    /// Bytes that [`FirstText::write_to`] writes beside the rows of the session's store.
    pub(super) fn unfinished_bytes(&self) -> usize {
        self.layers.unfinished_bytes()
    }

    /// Writes how far a session is in this text, which it has not read to its end.
    pub(super) fn write_to(&self, session: &Session, to: &mut Output) -> Result<(), EngineError> {
        let (layer, _) = self.layers.reached();
        session.store.write_layers(0..layer, to)?;
        session.store.write_begun_layer(layer, self.rows_in_store(session), to)?;
        self.layers.write_to(&self.attended(session), to)?;
        // They are there before the last layer reads the text a second time.
        to.numbers([self.logits.len() as u32].into_iter())?;
        Ok(to.numbers(self.logits.iter().map(|logit| logit.to_bits()))?)
    }

    /// Reads what [`FirstText::write_to`] wrote when the text had reached this layer and chunk. The session is empty. After
    /// an error it must be cleared.
    pub(super) fn read_from(
        session: &mut Session,
        tokens: &[u32],
        (layer, chunks): (usize, usize),
        elapsed: Duration,
        from: &mut Input,
    ) -> Result<FirstText, EngineError> {
        let engine = session.engine.clone();
        let mut text = FirstText::new(&engine, tokens, &mut [session])?;
        if layer >= engine.spec().n_layers || chunks > text.layers.chunk_count(layer) {
            return Err(SnapshotError::new("it states more layers or chunks than the text has").into());
        }
        text.elapsed = elapsed;
        text.layers.set_reached(layer, chunks);
        session.store.read_layers(0..layer, from, tokens.len())?;
        let rows = text.rows_in_store(session);
        session.store.read_begun_layer(layer, rows, from)?;
        let attended = text.attended(session);
        text.layers.read_from(&attended, from)?;
        let logits = from.numbers(1)?.first().map_or(0, |logits| *logits as usize);
        if ![0, engine.spec().n_vocab].contains(&logits) {
            return Err(SnapshotError::new("it holds logits of another vocabulary").into());
        }
        text.logits = from.numbers(logits)?.into_iter().map(f32::from_bits).collect();
        Ok(text)
    }

    /// Rows of the present layer that are in the session's store itself.
    fn rows_in_store(&self, session: &Session) -> Option<usize> {
        let (layer, _) = self.layers.reached();
        is_in_store(session, layer).then(|| self.layers.rows())
    }

    /// The earlier layers with complete rows in the scratch buffer to which the present layer or later ones attend.
    fn attended(&self, session: &Session) -> Vec<usize> {
        let (spec, (layer, _)) = (session.engine.spec(), self.layers.reached());
        let attended: BTreeSet<usize> = (layer..spec.n_layers).map(|layer| spec.kv_layer(layer)).collect();
        attended.into_iter().filter(|earlier| *earlier < layer && !is_in_store(session, *earlier)).collect()
    }

    /// Reads the next piece: embeddings and, if all are there, a chunk of a layer into the stores of `sessions`. The last
    /// chunk ends the layer. Returns how far the text is.
    fn read_next(
        &mut self,
        sessions: &mut [&mut Session],
        interrupt: &InterruptFlag,
    ) -> Result<Progress, EngineError> {
        let (started, (before, _)) = (Instant::now(), self.layers.work());
        self.layers.embed_next(&mut sessions[0].workspace, interrupt)?;
        if self.layers.is_embedded() {
            self.read_layer(sessions, interrupt)?;
        }
        let (elapsed, (done, all)) = (started.elapsed(), self.layers.work());
        self.elapsed += elapsed;
        self.pieces.add(done - before, elapsed);
        let left = self.pieces.pace(None).and_then(|pace| pace.time(all - done));
        let (share, size) = (done.share_of(all), self.layers.tokens().len());
        Ok(Progress { task: Task::Prefill, share, size, elapsed: self.elapsed, left })
    }

    fn read_layer(
        &mut self,
        sessions: &mut [&mut Session],
        interrupt: &InterruptFlag,
    ) -> Result<(), EngineError> {
        let Some(layer) = self.layers.begin_layer()? else { return Ok(()) };
        if let Some(scored) = self.layers.next_chunk().map(|chunk| chunk.scored) {
            let spec = sessions[0].engine.spec();
            let rows = match scored {
                Some(part) => {
                    self.layers.compute_grams(&mut sessions[0].workspace, interrupt)?;
                    let rows = self.complete_rows(sessions, layer, Store::reconstruction_recorder);
                    rows.scored(part, self.layers.scratch.grams(layer))
                }
                None => LayerRows::of_layer(spec, layer, |layer| match in_store(sessions, layer) {
                    true => sessions[0].store.rows(layer),
                    false => self.complete_rows(sessions, layer, Store::prefill_recorder),
                }),
            };
            self.read_chunk(sessions, layer, &rows, interrupt)?;
        }
        if self.layers.next_chunk().is_none() {
            self.finish_layer(sessions, layer)?;
        }
        Ok(())
    }

    /// A layer's complete rows. The scratch buffer has a lane for each session, and all share keys and values.
    fn complete_rows(
        &self,
        sessions: &[&mut Session],
        layer: usize,
        recorder: fn(&Store, usize, &GraphLane) -> AttentionRecorder,
    ) -> LayerRows {
        let (scratch, spec) = (&self.layers.scratch, sessions[0].engine.spec());
        let recorder = |(session, lane): (&&mut Session, _)| recorder(&session.store, layer, lane);
        let recorders = sessions.iter().zip(scratch.lanes(layer)).map(recorder).collect();
        LayerRows { recorders, ..scratch.complete_rows(spec, layer) }
    }

    /// Computes the next chunk of a layer. After an error it can be computed again.
    fn read_chunk(
        &mut self,
        sessions: &mut [&mut Session],
        layer: usize,
        rows: &LayerRows,
        interrupt: &InterruptFlag,
    ) -> Result<(), EngineError> {
        // Several sessions do not go on after an interrupt.
        let is_resumed = sessions.len() == 1;
        let accumulated = is_resumed.then(|| self.layers.scratch.accumulated(layer)).transpose()?;
        match self.layers.read_chunk(rows, &mut sessions[0].workspace, interrupt) {
            Ok(None) => Ok(()),
            Ok(Some(pass)) => {
                // Only the end of the text in the last layer has logits.
                let logits = pass.read_logits()?;
                if !logits.is_empty() {
                    self.logits = logits;
                }
                Ok(())
            }
            Err(error) => {
                if let Some(accumulated) = accumulated {
                    self.layers.scratch.set_accumulated(layer, &accumulated)?;
                }
                Err(error)
            }
        }
    }

    /// A layer has read all: the stores keep of its rows what their policies keep.
    fn finish_layer(&mut self, sessions: &mut [&mut Session], layer: usize) -> Result<(), EngineError> {
        let n = self.layers.tokens().len();
        if let Some(state) = self.layers.end_state() {
            for session in sessions.iter_mut() {
                session.store.set_state(layer, state)?;
            }
        } else if in_store(sessions, layer) {
            sessions[0].store.grow_layer(layer, n);
        } else {
            // The time of the last chunk is not that of compressing.
            let backends = &sessions[0].engine.backends;
            backends.wait(backends.placement().of(layer))?;
            for (session, lane) in sessions.iter_mut().zip(self.layers.scratch.lanes(layer)) {
                let (started, backends) = (Instant::now(), &session.engine.backends);
                session.store.fill_layer(layer, lane, n, backends, &mut session.workspace)?;
                session.compressing += started.elapsed();
            }
        }
        self.layers.end_layer();
        Ok(())
    }
}

/// Whether a layer is computed in the store itself: with a single store, where the layer keeps everything and the
/// text is read once.
fn in_store(sessions: &[&mut Session], layer: usize) -> bool {
    matches!(sessions, [session] if is_in_store(session, layer))
}

/// The same for a session that reads alone.
fn is_in_store(session: &Session, layer: usize) -> bool {
    let layout = session.store.layout();
    layout.has_rows(layer) && !layout.uses_scratch(layer)
}
