//! A first text that is not read to its end: how far it is, and the session as bytes from which the reading goes on, as if
//! it had never stopped.
//!
//! Layer by layer these are the store's layers that have read the text, the residual stream, and what the present layer
//! has: rows, accumulated attention, stored queries, its state. So a text can go on behind any chunk of any layer. Chunk
//! by chunk it is the store behind the last complete chunk.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::FirstText;
use crate::files::codec::{Input, Output, SnapshotError};
use crate::session::{LastText, Prefill};
use crate::{EngineError, Session};

/// How far the reading of a first text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum Reached {
    /// So many tokens were read chunk by chunk.
    Tokens(usize),
    /// Layer by layer: this layer has read so many chunks.
    Layer { layer: usize, chunks: usize },
}

impl Session {
    /// How far the session is in the first text `tokens`; `None` if nothing of it, all of it, or another text was read.
    pub(crate) fn reached(&self, tokens: &[u32]) -> Option<Reached> {
        match &self.last_text {
            LastText::SomeLayers(text) => text.is_of(tokens).then(|| text.reached()).flatten(),
            LastText::SomeChunks => {
                let read = self.tokens.len();
                // Where first texts are read layer by layer, only later ones are read chunk by chunk.
                let is_first = self.options.prefill == Prefill::Streaming;
                let is_begun = is_first && read > 0 && read < tokens.len();
                (is_begun && tokens.starts_with(&self.tokens)).then_some(Reached::Tokens(read))
            }
            LastText::Whole => None,
        }
    }

    /// Bytes that [`Session::write_unfinished`] writes, almost.
    pub(crate) fn unfinished_bytes(&self) -> usize {
        self.store.live_bytes() + self.first_text().map_or(0, FirstText::unfinished_bytes)
    }

    /// Bytes of the rows that the session keeps when it has read a first text of so many tokens, at most.
    pub fn kv_bytes_of(&self, tokens: usize) -> usize {
        self.store.layout().kept_bytes(tokens)
    }

    /// Bytes that the unfinished reading of a first text of so many tokens takes in a file, at most.
    pub fn unfinished_bytes_of(&self, tokens: usize) -> usize {
        let spec = self.engine.spec();
        let layer_by_layer = match self.options.prefill {
            Prefill::Streaming => 0,
            Prefill::Exact | Prefill::Sparse => {
                let passes = 1 + usize::from(self.store.layout().reconstructs());
                4 * spec.n_embd * tokens * passes + self.store.layout().scratch_bytes(tokens)
            }
        };
        self.kv_bytes_of(tokens) + layer_by_layer
    }

    /// Writes what reading on needs.
    pub(crate) fn write_unfinished(&self, to: &mut Output) -> Result<(), EngineError> {
        match self.first_text() {
            Some(text) => text.write_to(self, to),
            None => self.store.write_to(to),
        }
    }

    /// Reads what [`Session::write_unfinished`] wrote of the first text `tokens`, of which so much was read in the time
    /// `elapsed`. After an error the session is empty.
    pub(crate) fn read_unfinished(
        &mut self,
        tokens: &[u32],
        reached: Reached,
        elapsed: Duration,
        from: &mut Input,
    ) -> Result<(), EngineError> {
        let read = self.restore_unfinished(tokens, reached, elapsed, from);
        if read.is_err() {
            self.clear()?;
        }
        read
    }

    fn restore_unfinished(
        &mut self,
        tokens: &[u32],
        reached: Reached,
        elapsed: Duration,
        from: &mut Input,
    ) -> Result<(), EngineError> {
        self.check(tokens)?;
        self.clear()?;
        match (reached, self.options.prefill) {
            (Reached::Tokens(read), Prefill::Streaming) if 0 < read && read < tokens.len() => {
                self.store.read_from(from, read)?;
                self.tokens.extend_from_slice(&tokens[..read]);
                self.last_text = LastText::SomeChunks;
            }
            (Reached::Layer { layer, chunks }, prefill) if prefill.is_by_layer() && !tokens.is_empty() => {
                let text = FirstText::read_from(self, tokens, (layer, chunks), elapsed, from)?;
                self.last_text = LastText::SomeLayers(Box::new(text));
            }
            _ => return Err(SnapshotError::new("it states how much was read in a way that cannot be").into()),
        }
        Ok(())
    }
}
