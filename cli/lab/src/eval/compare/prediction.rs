//! How well a model predicts a text from the state of its cache: perplexity, and how far its predictions are from those
//! of a full cache in f16.

use anyhow::Result;
use longhand::{EngineError, Session};
use serde::{Deserialize, Serialize};
use terminal::format;

use crate::Lab;

/// Tokens of a part of the predicted text, of which the results have the mean.
pub const PART: usize = 32;

/// Predictions of the tokens that follow a text. Natural logarithms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Mean negative logarithm of a token's probability. Its exponential is the perplexity.
    pub nll: f64,
    /// Mean Kullback-Leibler divergence from the predictions of a full cache in f16.
    pub kl: f64,
    /// Share, from 0 to 1, of tokens for which the most likely one is that of a full cache in f16.
    pub agreement: f64,
    /// `nll` for each 32 tokens.
    pub nll_by_position: Vec<f64>,
    /// `kl` for each 32 tokens.
    pub kl_by_position: Vec<f64>,
}

impl Prediction {
    /// The means of several; `None` of none.
    pub fn mean<'a>(predictions: impl Iterator<Item = &'a Prediction>) -> Option<Prediction> {
        let all: Vec<&Prediction> = predictions.collect();
        let mean = |value: &dyn Fn(&Prediction) -> f64| {
            all.iter().map(|prediction| value(prediction)).sum::<f64>() / all.len() as f64
        };
        let means = |values: fn(&Prediction) -> &[f64]| {
            let parts = all.iter().map(|prediction| values(prediction).len()).min().unwrap_or(0);
            (0..parts).map(|part| mean(&|prediction| values(prediction)[part])).collect()
        };
        (!all.is_empty()).then(|| Prediction {
            nll: mean(&|prediction| prediction.nll),
            kl: mean(&|prediction| prediction.kl),
            agreement: mean(&|prediction| prediction.agreement),
            nll_by_position: means(|prediction| &prediction.nll_by_position),
            kl_by_position: means(|prediction| &prediction.kl_by_position),
        })
    }
}

/// The logarithms of the probabilities of all tokens, `[vocabulary]` for each predicted token.
pub struct Reference(Vec<Vec<f32>>);

impl Reference {
    /// What a session predicts that has read the text.
    ///
    /// # Errors
    /// Where the computation fails, or Ctrl-C was pressed.
    pub fn new(
        lab: &Lab,
        session: &mut Session,
        text: &[u32],
        rest: &[u32],
    ) -> Result<Reference, EngineError> {
        // As the sessions that are compared: the first token behind the text is a step. In a chunk it would be rounded
        // differently.
        lab.interrupt.computing(|| session.sync(text, &mut |_| ()))?;
        let mut all = Vec::with_capacity(rest.len());
        predict(lab, session, text, rest, &mut |_, logits| all.push(log_softmax(logits)))?;
        Ok(Reference(all))
    }

    /// The predictions of a session that has read the text.
    ///
    /// # Errors
    /// As for [`Reference::new`].
    pub fn compare(
        &self,
        lab: &Lab,
        session: &mut Session,
        text: &[u32],
        rest: &[u32],
    ) -> Result<Prediction, EngineError> {
        let (mut nlls, mut kls, mut agreed) = (Vec::new(), Vec::new(), 0);
        predict(lab, session, text, rest, &mut |index, logits| {
            let (own, full) = (log_softmax(logits), &self.0[index - 1]);
            nlls.push(-f64::from(own[rest[index] as usize]));
            kls.push(divergence(full, &own));
            agreed += usize::from(most_likely(full) == most_likely(&own));
        })?;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        Ok(Prediction {
            nll: mean(&nlls),
            kl: mean(&kls),
            agreement: format::share(agreed, nlls.len()),
            nll_by_position: nlls.chunks(PART).map(mean).collect(),
            kl_by_position: kls.chunks(PART).map(mean).collect(),
        })
    }
}

/// Hands over the logits before each token of `rest`, by its index, except the first: those are the ones of a full
/// cache, because the text is read before rows are evicted.
fn predict(
    lab: &Lab,
    session: &mut Session,
    text: &[u32],
    rest: &[u32],
    on_logits: &mut dyn FnMut(usize, &[f32]),
) -> Result<(), EngineError> {
    let Some((first, rest)) = rest.split_first() else { return Ok(()) };
    let text = [text, &[*first]].concat();
    follow(lab, session, &text, rest, &mut |index, logits| on_logits(index + 1, logits))
}

/// Reads `rest` after `text`, and hands over the logits before each token of it, by its index.
pub fn follow(
    lab: &Lab,
    session: &mut Session,
    text: &[u32],
    rest: &[u32],
    on_logits: &mut dyn FnMut(usize, &[f32]),
) -> Result<(), EngineError> {
    let mut tokens = text.to_vec();
    for (index, next) in rest.iter().enumerate() {
        lab.interrupt.computing(|| session.sync(&tokens, &mut |_| ()))?;
        on_logits(index, session.logits());
        tokens.push(*next);
    }
    Ok(())
}

fn log_softmax(logits: &[f32]) -> Vec<f32> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|logit| f64::from(logit - max).exp()).sum();
    let log = f64::from(max) + sum.ln();
    logits.iter().map(|logit| (f64::from(*logit) - log) as f32).collect()
}

/// The Kullback-Leibler divergence of `other` from `full`, both logarithms of probabilities.
fn divergence(full: &[f32], other: &[f32]) -> f64 {
    let terms = full.iter().zip(other).map(|(full, other)| {
        let (full, other) = (f64::from(*full), f64::from(*other));
        full.exp() * (full - other)
    });
    match terms.sum::<f64>() {
        // Rounding.
        sum if sum < 0.0 => 0.0,
        sum => sum,
    }
}

/// The index of the largest number, the last one of several.
pub fn most_likely(values: &[f32]) -> Option<usize> {
    (0..values.len()).max_by(|a, b| values[*a].total_cmp(&values[*b]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divergences_are_those_of_the_definition() {
        let (full, other) = (log_softmax(&[0.0, 2f32.ln(), 0.0]), log_softmax(&[1000.0; 3]));
        assert!((full[1].exp() - 0.5).abs() < 1e-6 && (other[0].exp() - 1.0 / 3.0).abs() < 1e-6);
        // 1/4 ln(3/4) + 1/2 ln(3/2) + 1/4 ln(3/4)
        let expected = 0.5 * 0.75f64.ln() + 0.5 * 1.5f64.ln();
        assert!((divergence(&full, &other) - expected).abs() < 1e-6);
        assert_eq!((divergence(&full, &full), most_likely(&full)), (0.0, Some(1)));
    }

    #[test]
    fn means_by_position_are_those_of_positions_that_all_predictions_have() {
        let of = |kl: &[f64]| Prediction {
            nll: 1.0,
            kl: 0.5,
            agreement: 0.5,
            nll_by_position: vec![1.0; kl.len()],
            kl_by_position: kl.to_vec(),
        };
        let mean = |all: &[Prediction]| Prediction::mean(all.iter());
        assert_eq!(mean(&[of(&[0.0, 1.0]), of(&[0.0, 2.0])]), Some(of(&[0.0, 1.5])));
        assert_eq!(mean(&[of(&[0.0]), of(&[1.0, 1.0])]), Some(of(&[0.5])));
        assert_eq!(mean(&[]), None);
    }
}
