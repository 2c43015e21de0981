//! Reads texts twice, layer by layer, to score their rows (KVzip).

use std::ops::Range;
use std::sync::Arc;

use ggml::InterruptFlag;

use super::{CACHE_TYPES, second_reading};
use crate::compute::layered_text::{LayeredText, Purpose};
use crate::compute::scratch::first_text_chunks;
use crate::devices::workspace::Workspace;
use crate::kv::{AttentionRecorder, LayerRows, Layout, StoreOptions};
use crate::{Engine, EngineError};

/// A text that is read twice.
pub(super) struct Reading {
    text: LayeredText,
    layout: Layout,
    /// Tokens of the text.
    len: usize,
}

/// What a layer's rows of a text are, and what they get in the second reading.
pub(super) struct ScoredRows {
    /// `[kv_heads][rows]`: the largest attention.
    pub scores: Vec<Vec<f32>>,
    /// Keys before RoPE and values of the tokens computed at once, `[head_dim, kv_heads, n]` twice; none if not asked for.
    pub rows: Vec<Vec<f32>>,
    /// The parts in which the text was repeated.
    pub parts: Vec<Range<usize>>,
}

impl Reading {
    /// A text of which no layer is read, `chunk` tokens at a time.
    pub fn new(
        engine: &Arc<Engine>,
        tokens: &[u32],
        chunk: usize,
        workspace: &mut Workspace,
        interrupt: &InterruptFlag,
    ) -> Result<Reading, EngineError> {
        let len = tokens.len();
        let options = StoreOptions { context: len + 1, types: CACHE_TYPES, reserve: None };
        let layout = Layout::new(engine.spec(), &second_reading(len + 1)?, None, options)?;
        let (forward, chunks) = (engine.forward.for_context(len + 1), first_text_chunks(len, chunk, true));
        let mut text =
            LayeredText::new(engine, forward, tokens, chunks, Purpose::Rows, &[&layout], &|_| true)?;
        while text.embed_next(workspace, interrupt)? {}
        Ok(Reading { text, layout, len })
    }

    /// How much is read, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.text.share()
    }

    /// Reads the next layer; `None` after the last one. The rows themselves are part of the result if `with_rows`.
    pub fn read_layer(
        &mut self,
        with_rows: bool,
        workspace: &mut Workspace,
        interrupt: &InterruptFlag,
    ) -> Result<Option<ScoredRows>, EngineError> {
        let Some(layer) = self.text.begin_layer()? else { return Ok(None) };
        let complete = self.text.complete_rows();
        let (mut rows, mut parts) = (Vec::new(), Vec::new());
        while let Some(scored) = self.text.next_chunk().map(|chunk| chunk.scored) {
            let Some(part) = scored else {
                if with_rows {
                    rows.push(self.text.new_rows(workspace, interrupt)?);
                }
                self.text.read_chunk(&complete, workspace, interrupt)?;
                continue;
            };
            parts.push(part.from..part.to);
            let lanes = self.text.scratch.lanes(layer).iter();
            let recorders =
                lanes.map(|lane| AttentionRecorder::of_reconstruction(&self.layout.layers[layer], lane));
            let repeated =
                LayerRows { recorders: recorders.collect(), ..complete.clone() }.scored(part, None);
            self.text.read_chunk(&repeated, workspace, interrupt)?;
        }
        let accumulated = self.text.scratch.accumulated(layer)?.into_iter().flatten().collect::<Vec<f32>>();
        let of_head = accumulated.len() / self.layout.heads[layer].n_kv_heads.max(1);
        let scores = accumulated.chunks(of_head.max(1)).map(|head| head[..self.len].to_vec()).collect();
        self.text.end_layer();
        Ok(Some(ScoredRows { scores, rows, parts }))
    }
}
