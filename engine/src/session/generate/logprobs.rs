//! Log-probabilities of the tokens of an answer or a text: what the model itself says of them. They are the logarithm of the
//! softmax of its logits, before biases, penalties, constraints, filters and temperature.

use crate::{EngineError, Session};

/// Tokens whose logits are in memory at a time.
const AT_ONCE: usize = 64;

/// A token and how likely the model finds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogProb {
    /// The token. [`Tokenizer::written_bytes`](models::tokenizer::Tokenizer::written_bytes) has its bytes.
    pub token: u32,
    /// The natural logarithm of its probability, 0 or less.
    pub logprob: f32,
}

/// How likely the model found a token of an answer or a text, and what it found most likely there.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogProbs {
    /// The token that is there.
    pub token: LogProb,
    /// The most likely tokens, the most likely first; of equals the smaller id first. The one that is there may be among them.
    pub top: Vec<LogProb>,
}

impl TokenLogProbs {
    /// Of the token that comes after these logits `[n_vocab]`, with the `top` most likely ones.
    pub(super) fn new(logits: &[f32], next: u32, top: usize) -> TokenLogProbs {
        let max = logits.iter().copied().reduce(f32::max).map_or(0.0, f64::from);
        let sum: f64 = logits.iter().map(|logit| (f64::from(*logit) - max).exp()).sum();
        let logprob = |token: u32| {
            let logit = logits.get(token as usize).copied().map_or(f64::NEG_INFINITY, f64::from);
            LogProb { token, logprob: (logit - max - sum.ln()) as f32 }
        };
        let order = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
        let mut tokens: Vec<u32> = if top > 0 { (0..logits.len() as u32).collect() } else { Vec::new() };
        if top < tokens.len() {
            tokens.select_nth_unstable_by(top, order);
            tokens.truncate(top);
        }
        tokens.sort_unstable_by(order);
        TokenLogProbs { token: logprob(next), top: tokens.into_iter().map(logprob).collect() }
    }
}

impl Session {
    /// Reads a text anew, and tells of each of its tokens but the first how likely the model finds it behind those before it,
    /// with the `top` most likely ones. What the session held is removed. Afterwards it holds the text and can go on from there,
    /// or after an error it holds nothing. `on_read` gets how many tokens were read, after every few of them.
    ///
    /// Rows are evicted between pieces of the text where its policy wants that, as in chats.
    ///
    /// # Errors
    /// Where the text is longer than the context, a token is outside the vocabulary, the computation fails or is interrupted, or
    /// its numbers are not finite.
    ///
    /// ```
    /// # use longhand::{Engine, EngineOptions, ModelSource, Session, SessionOptions};
    /// # let engine = Engine::open(&ModelSource::Embedded, &EngineOptions::default())?;
    /// # let mut session = Session::new(&engine, SessionOptions::default())?;
    /// let scores = session.score(&[11, 12, 13], 2, &mut |_| ())?;
    /// assert_eq!(scores.iter().map(|one| one.token.token).collect::<Vec<_>>(), [12, 13]);
    /// assert!(scores[0].token.logprob <= scores[0].top[0].logprob);
    /// # Ok::<(), longhand::EngineError>(())
    /// ```
    pub fn score(
        &mut self,
        tokens: &[u32],
        top: usize,
        on_read: &mut dyn FnMut(usize),
    ) -> Result<Vec<TokenLogProbs>, EngineError> {
        if tokens.is_empty() {
            return self.clear().map(|()| Vec::new());
        }
        let n_vocab = self.engine().spec().n_vocab;
        let (mut scores, mut last) = (Vec::with_capacity(tokens.len()), Vec::new());
        let read = self.each_logits(tokens, AT_ONCE, &mut |first, logits| {
            let next = &tokens[first + 1..];
            let after_each = logits.chunks_exact(n_vocab).zip(next);
            scores.extend(after_each.map(|(logits, next)| TokenLogProbs::new(logits, *next, top)));
            last = logits[logits.len() - n_vocab..].to_vec();
            on_read(first + logits.len() / n_vocab);
        });
        match read.and_then(|()| self.go_on_after(last)) {
            Ok(()) => Ok(scores),
            Err(error) => {
                self.clear()?;
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, EngineOptions, ModelSource, SessionOptions};

    #[test]
    fn they_are_logarithms_of_the_softmax() {
        // 0.1, 0.4, 0.2, 0.3, times any factor.
        let logits = [0.1f32, 0.4, 0.2, 0.3].map(|share| (1e6 * share).ln());
        let all = TokenLogProbs::new(&logits, 2, 3);
        assert_eq!(all.token.token, 2);
        assert!((all.token.logprob - 0.2f32.ln()).abs() < 1e-6, "{all:?}");
        assert_eq!(all.top.iter().map(|one| one.token).collect::<Vec<_>>(), [1, 3, 2]);
        assert_eq!(all.top[2], all.token);
        assert_eq!(TokenLogProbs::new(&logits, 0, 0).top, []);
        assert_eq!(TokenLogProbs::new(&logits, 0, 99).top.len(), 4);
        let equal = TokenLogProbs::new(&[2.0; 50], 7, 2);
        assert_eq!(equal.top.iter().map(|one| one.token).collect::<Vec<_>>(), [0, 1]);
        assert!((equal.token.logprob + 50f32.ln()).abs() < 1e-6);
    }
    /// The reference reads the text token by token.
    #[test]
    fn a_text_is_scored_in_pieces_as_it_is_token_by_token() {
        let engine = Engine::open(&ModelSource::Embedded, &EngineOptions::default()).expect("embedded model");
        let session = || Session::new(&engine, SessionOptions::default()).expect("a session");
        let tokens: Vec<u32> = (0..AT_ONCE as u32 * 2 + 7).map(|n| 20 + n * n % 400).collect();
        let mut read = Vec::new();
        let mut scored = session();
        let scores = scored.score(&tokens, 1, &mut |tokens| read.push(tokens)).expect("scores");
        assert_eq!(read, [AT_ONCE, 2 * AT_ONCE, tokens.len()]);
        assert_eq!(scored.tokens(), tokens);

        let mut stepped = session();
        stepped.sync(&tokens[..1], &mut |_| ()).expect("read");
        assert_eq!(scores.len(), tokens.len() - 1);
        for (score, token) in scores.iter().zip(&tokens[1..]) {
            let one = TokenLogProbs::new(stepped.logits(), *token, 1);
            assert_eq!(score.token.token, *token);
            // One token is multiplied with other roundings than several.
            let (score, one) = (score.token.logprob, one.token.logprob);
            assert!((score - one).abs() < 0.02 * (1.0 - one), "{score} {one}");
            stepped.push(*token).expect("a step");
        }
        // It goes on from there, and nothing is read again.
        assert_eq!(scored.kept_of(&tokens), tokens.len());
        let logits = scored.logits().to_vec();
        scored.sync(&tokens, &mut |_| panic!("nothing is missing")).expect("read");
        assert_eq!((scored.logits(), logits.is_empty()), (&logits[..], false));
    }

    #[test]
    fn a_text_without_a_second_token_has_no_scores() {
        let engine = Engine::open(&ModelSource::Embedded, &EngineOptions::default()).expect("embedded model");
        let mut session = Session::new(&engine, SessionOptions::default()).expect("a session");
        assert_eq!(session.score(&[], 1, &mut |_| ()).expect("none"), []);
        assert_eq!(session.score(&[11], 1, &mut |_| ()).expect("none"), []);
        assert!(session.score(&[11, u32::MAX], 1, &mut |_| ()).is_err());
        assert!(session.tokens().is_empty());
    }
}
