//! Drafted tokens: several decode steps in one computation, of which only as many count as the caller accepts.
//!
//! A computation writes rows behind the live ones, and nothing else where [`Store::steps_at_once`](crate::kv::Store::steps_at_once)
//! allows it. So rows of tokens that are not accepted need not be removed: they do not count, and are written again.

use super::attention::AttentionRecord;
use super::{Advance, Session};
use crate::compute::forward::OutputTokens;
use crate::kv::policy::Event;
use crate::{EngineError, Hint};

/// Tokens whose logits are known and that do not count yet.
#[derive(Default)]
pub(super) struct Verified {
    tokens: Vec<u32>,
    /// `[tokens, n_vocab]`
    logits: Vec<f32>,
}

impl Verified {
    pub(super) fn forget(&mut self) {
        self.tokens.clear();
    }
}

impl Session {
    /// How many tokens [`Session::verify`] can compute now, up to `most`. It is one where a policy records attention or would
    /// evict rows after the next token, and where a layer is recurrent.
    ///
    /// ```
    /// use longhand::{Engine, EngineOptions, ModelSource, Session, SessionOptions};
    ///
    /// let engine = Engine::open(&ModelSource::Embedded, &EngineOptions::default())?;
    /// let mut session = Session::new(&engine, SessionOptions::default())?;
    /// session.sync(&[11, 12, 13], &mut |_| ())?;
    /// assert_eq!(session.steps_at_once(16), 16);
    /// # Ok::<(), longhand::EngineError>(())
    /// ```
    pub fn steps_at_once(&self, most: usize) -> usize {
        let left = self.options.context - self.tokens.len();
        let recorded = if self.attention.is_some() { AttentionRecord::STEPS_AT_ONCE } else { usize::MAX };
        self.store.steps_at_once(most.min(left).min(recorded).min(self.options.chunk.max(1)))
    }

    /// Computes the logits `[tokens, n_vocab]` after each of these tokens, as if they came next. That is not slower than a
    /// step for each, and mostly much faster. They do not count until [`Session::accept`] says how many of them do: the
    /// session is as before.
    ///
    /// # Errors
    /// Where there are no tokens, or more than [`Session::steps_at_once`] allows. Where one is outside the vocabulary, the
    /// computation fails or is interrupted, or its numbers are not finite.
    ///
    /// ```
    /// use longhand::{Engine, EngineOptions, ModelSource, Session, SessionOptions};
    ///
    /// let engine = Engine::open(&ModelSource::Embedded, &EngineOptions::default())?;
    /// let mut session = Session::new(&engine, SessionOptions::default())?;
    /// session.sync(&[11, 12, 13], &mut |_| ())?;
    /// let logits = session.verify(&[14, 15, 16])?;
    /// assert_eq!(logits.len(), 3 * engine.spec().n_vocab);
    /// session.accept(2)?;
    /// assert_eq!(session.tokens(), [11, 12, 13, 14, 15]);
    /// # Ok::<(), longhand::EngineError>(())
    /// ```
    pub fn verify(&mut self, tokens: &[u32]) -> Result<&[f32], EngineError> {
        let mut verified = std::mem::take(&mut self.verified);
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
        let (pass, _) = self.pass(Advance::Draft, tokens.len(), OutputTokens::All)?;
        let (backends, interrupt) = (&self.engine.backends, Advance::Draft.interrupt(&self.interrupt));
        let computed = pass
            .compute(backends, tokens, self.store.seen(), &self.store.state(), interrupt)
            .and_then(|()| pass.read_logits_into(&mut verified.logits));
        if let Err(error) = computed {
            // Nothing counts that was written.
            self.store.clear_behind_rows()?;
            return Err(error);
        }
        verified.tokens.clear();
        verified.tokens.extend_from_slice(tokens);
        self.verified = verified;
        Ok(&self.verified.logits)
    }

    /// Makes the first `count` of the tokens that were verified last a part of the session's text. Does nothing where
    /// something else was computed since.
    ///
    /// # Errors
    /// Where rows cannot be evicted. The session is then as it was when the last text had been read, or empty where that
    /// cannot be restored.
    pub fn accept(&mut self, count: usize) -> Result<(), EngineError> {
        let mut verified = std::mem::take(&mut self.verified);
        let tokens = &verified.tokens[..count.min(verified.tokens.len())];
        if tokens.is_empty() {
            return Ok(());
        }
        let result = self.count_verified(tokens, &verified.logits);
        verified.forget();
        self.verified = verified;
        result
    }

    fn count_verified(&mut self, tokens: &[u32], logits: &[f32]) -> Result<(), EngineError> {
        let seen = self.store.seen();
        self.store.advance(tokens.len());
        let recorded = self.attention.iter_mut().try_for_each(|attention| {
            (seen..seen + tokens.len()).try_for_each(|at| attention.computed(at, true, OutputTokens::Last))
        });
        let planned = recorded.and_then(|()| {
            let backends = &self.engine.backends;
            self.store.plan_evictions(Event::Step, false, backends, &mut self.workspace)
        });
        match planned {
            Ok(evictions) => {
                let n_vocab = self.engine.spec().n_vocab;
                self.next_logits.clear();
                self.next_logits.extend_from_slice(&logits[(tokens.len() - 1) * n_vocab..][..n_vocab]);
                self.complete(tokens, evictions)
            }
            Err(error) => Err(self.take_back(error, tokens, Advance::Draft)),
        }
    }

    /// The logits `[n_vocab]` after the token with this index of those that were verified last and do not count yet.
    pub(super) fn verified_logits(&self, index: usize) -> &[f32] {
        let n_vocab = self.engine.spec().n_vocab;
        &self.verified.logits[index * n_vocab..][..n_vocab]
    }
}
