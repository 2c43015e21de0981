//! Log-probabilities of an answer's tokens: what the model itself says of them. They are the logarithm of the softmax of its
//! logits, before biases, penalties, constraints, filters and temperature.

/// A token and how likely the model finds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogProb {
    /// The token. [`Tokenizer::written_bytes`](models::tokenizer::Tokenizer::written_bytes) has its bytes.
    pub token: u32,
    /// The natural logarithm of its probability, 0 or less.
    pub logprob: f32,
}

/// How likely the model found a token of an answer, and what it found most likely there.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogProbs {
    /// The token that was sampled.
    pub token: LogProb,
    /// The most likely tokens, the most likely first; of equals the smaller id first. The sampled one may be among them.
    pub top: Vec<LogProb>,
}

impl TokenLogProbs {
    /// Of the token that was sampled after these logits `[n_vocab]`, with the `top` most likely ones.
    pub(super) fn new(logits: &[f32], sampled: u32, top: usize) -> TokenLogProbs {
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
        TokenLogProbs { token: logprob(sampled), top: tokens.into_iter().map(logprob).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
