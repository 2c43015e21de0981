//! Drafted tokens: several decode steps in one computation, of which only as many count as the caller accepts.
//!
//! A computation writes rows behind the live ones, and nothing else where
//! [`Store::steps_at_once`](crate::kv::Store::steps_at_once) allows it. So rows of tokens that are not accepted need not be
//! removed: they do not count, and are written again.

use super::attention::AttentionRecord;
use super::{Advance, Session};
use crate::compute::forward::OutputTokens;
use crate::{EngineError, Hint};

impl Session {
    /// How many tokens [`Session::verify`] can compute now, up to `most`. It is one where a policy records attention or would
    /// evict rows after the next token, and where a layer is recurrent.
    pub fn steps_at_once(&self, most: usize) -> usize {
        let left = self.options.context - self.tokens.len();
        let recorded = if self.attention.is_some() { AttentionRecord::STEPS_AT_ONCE } else { usize::MAX };
        self.store.steps_at_once(most.min(left).min(recorded).min(self.options.chunk.max(1)))
    }

    /// Computes the logits `[tokens, n_vocab]` after each of these tokens, as if they came next. They do not count until
    /// [`Session::accept`] says how many of them do: the session is as before.
    ///
    /// # Errors
    /// Where there are no tokens, or more than [`Session::steps_at_once`] allows. Where one is outside the vocabulary, the
    /// computation fails or is interrupted, or its numbers are not finite.
    ///
    /// ```
    /// # use longhand::{Engine, EngineOptions, ModelSource, Session, SessionOptions};
    /// # let engine = Engine::open(&ModelSource::Embedded, &EngineOptions::default())?;
    /// # let mut session = Session::new(&engine, SessionOptions::default())?;
    /// session.sync(&[11, 12, 13], &mut |_| ())?;
    /// assert_eq!(session.steps_at_once(16), 16);
    /// assert_eq!(session.verify(&[14, 15, 16])?.len(), 3 * engine.spec().n_vocab);
    /// session.accept(2)?;
    /// assert_eq!(session.tokens(), [11, 12, 13, 14, 15]);
    /// # Ok::<(), longhand::EngineError>(())
    /// ```
    pub fn verify(&mut self, tokens: &[u32]) -> Result<&[f32], EngineError> {
        self.verified.clear();
        self.check(tokens)?;
        let most = self.steps_at_once(tokens.len());
        if tokens.is_empty() || most < tokens.len() {
            return Err(EngineError::Setting {
                what: format!("{} tokens to verify", tokens.len()),
                reason: format!("the session can compute {most} of them at once"),
                hint: Hint::advice(
                    "verify one token or more, at most as many as Session::steps_at_once says",
                ),
            });
        }
        self.interrupt.check()?;
        self.forget_first_text()?;
        if let Some(attention) = &mut self.attention {
            attention.make_room(tokens.len())?;
        }
        if let Err(error) = self.run_answer(tokens, Advance::Draft, OutputTokens::All) {
            // Nothing counts that was written.
            self.store.clear_behind_rows()?;
            return Err(error);
        }
        self.verified.extend_from_slice(tokens);
        Ok(&self.next_logits)
    }

    /// Makes the first `count` of the tokens that were verified last a part of the session's text. Does nothing where
    /// something else was computed since.
    ///
    /// # Errors
    /// Where rows cannot be evicted. The session is then as it was when the last text had been read, or empty where that
    /// cannot be restored.
    pub fn accept(&mut self, count: usize) -> Result<(), EngineError> {
        let mut tokens = std::mem::take(&mut self.verified);
        tokens.truncate(count);
        if tokens.is_empty() {
            return Ok(());
        }
        match self.count(tokens.len(), Advance::Draft, OutputTokens::All) {
            Ok(evictions) => {
                let n_vocab = self.engine.spec().n_vocab;
                let last = (tokens.len() - 1) * n_vocab;
                self.next_logits.copy_within(last..last + n_vocab, 0);
                self.next_logits.truncate(n_vocab);
                self.complete(&tokens, evictions)
            }
            Err(error) => Err(self.take_back(error, &tokens, Advance::Draft)),
        }
    }

    /// The tokens that were verified last and do not count yet.
    pub(super) fn verified(&self) -> &[u32] {
        &self.verified
    }

    /// The logits `[n_vocab]` after the token with this index of [`Session::verified`].
    pub(super) fn verified_logits(&self, index: usize) -> &[f32] {
        let n_vocab = self.engine.spec().n_vocab;
        &self.next_logits[index * n_vocab..][..n_vocab]
    }

    /// Whether several steps can ever be computed at once.
    pub(super) fn allows_steps_at_once(&self) -> bool {
        self.store.layout().allows_steps_at_once()
    }
}
