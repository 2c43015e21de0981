//! Samples the next token from the logits: biases, penalties, top-k, top-p, min-p, temperature, in this order
//! (llama.cpp's), then a random draw. The same options, seed and logits give the same tokens on every machine.

use std::cmp::Ordering;
use std::collections::VecDeque;

use models::random::Random;
use thiserror::Error;

use crate::{EngineError, Hint};

/// How tokens are sampled.
///
/// ```
/// use longhand::generation::SamplerOptions;
///
/// assert_eq!(SamplerOptions::greedy().temperature, 0.0);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SamplerOptions {
    /// Divides the logits before the draw; 0 is greedy: the most likely token is always taken.
    pub temperature: f32,
    /// Sample from the k most likely tokens only; 0 for all tokens.
    pub top_k: usize,
    /// Sample from the smallest set of most likely tokens whose probabilities sum to at least this; 1 for all
    /// tokens.
    pub top_p: f32,
    /// Sample from tokens whose probability is at least this fraction of the most likely token's; 0 for all
    /// tokens.
    pub min_p: f32,
    /// Divides positive logits of recent tokens and multiplies negative ones; 1 for no penalty.
    pub repeat_penalty: f32,
    /// Number of recent tokens that all three penalties look at; [`usize::MAX`] for all. Recent are the tokens that
    /// [`Sampler::accept`] was told: in a [`Chat`](crate::Chat) those of the documents and questions too.
    pub repeat_last_n: usize,
    /// Subtracted from the logit of each recent token, however often it came; 0 for no penalty.
    pub presence_penalty: f32,
    /// Subtracted from the logit of a recent token as many times as it came; 0 for no penalty.
    pub frequency_penalty: f32,
    /// Tokens and what is added to their logits before anything else; negative infinity bans a token. Several biases of a
    /// token add up.
    pub logit_bias: Vec<(u32, f32)>,
    /// Random seed.
    pub seed: u64,
}

impl Default for SamplerOptions {
    fn default() -> Self {
        SamplerOptions {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: 0,
        }
    }
}

impl SamplerOptions {
    /// Greedy sampling without a penalty.
    pub fn greedy() -> SamplerOptions {
        SamplerOptions { temperature: 0.0, ..SamplerOptions::default() }
    }
}

/// An option outside its range.
///
/// ```
/// use longhand::generation::{Sampler, SamplerOptions};
///
/// let error = Sampler::new(SamplerOptions { top_p: 1.5, ..SamplerOptions::default() }).expect_err("more than 1");
/// assert_eq!(error.option, "top-p");
/// ```
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{option} is {value}, but must be {range}")]
pub struct SamplerError {
    /// Name of the option.
    pub option: &'static str,
    /// Its value.
    pub value: f32,
    /// Allowed values, in words.
    pub range: &'static str,
}

impl SamplerError {
    /// What the caller can do about the error.
    pub fn hint(&self) -> Hint {
        Hint::advice(format!("set {} to a number that is {}", self.option, self.range))
    }
}

/// Samples tokens. Keeps the recent ones for the penalties.
///
/// ```
/// use longhand::generation::{Sampler, SamplerOptions};
///
/// let mut sampler = Sampler::new(SamplerOptions::greedy())?;
/// assert_eq!(sampler.sample(&mut [0.1, 0.9, 0.3]), 1);
/// # Ok::<(), longhand::error::SamplerError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Sampler {
    options: SamplerOptions,
    /// Accepted tokens, oldest first, at most `repeat_last_n`.
    recent: VecDeque<u32>,
    random: Random,
    /// The recent tokens by their ids. Like `candidates`, kept between calls so that a step allocates nothing.
    sorted: Vec<u32>,
    /// Tokens that may be drawn.
    candidates: Vec<Candidate>,
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    id: u32,
    /// Finite.
    logit: f32,
}

/// Orders by falling logit, then by rising id. The order is total, so the result does not depend on the
/// sorting algorithm.
fn by_falling_logit(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id))
}

impl Sampler {
    /// A sampler with these options.
    ///
    /// # Errors
    /// Where an option is NaN or outside its range.
    pub fn new(options: SamplerOptions) -> Result<Sampler, SamplerError> {
        let check = |option, value: f32, valid: bool, range| {
            if valid { Ok(()) } else { Err(SamplerError { option, value, range }) }
        };
        let SamplerOptions { temperature, top_p, min_p, repeat_penalty, .. } = options;
        let SamplerOptions { presence_penalty, frequency_penalty, .. } = options;
        check("temperature", temperature, temperature.is_finite() && temperature >= 0.0, "0 or more")?;
        check("top-p", top_p, (0.0..=1.0).contains(&top_p), "between 0 and 1")?;
        check("min-p", min_p, (0.0..=1.0).contains(&min_p), "between 0 and 1")?;
        let valid = repeat_penalty.is_finite() && repeat_penalty > 0.0;
        check("repeat-penalty", repeat_penalty, valid, "more than 0")?;
        check("presence-penalty", presence_penalty, presence_penalty.is_finite(), "finite")?;
        check("frequency-penalty", frequency_penalty, frequency_penalty.is_finite(), "finite")?;
        for (_, bias) in &options.logit_bias {
            check("logit-bias", *bias, *bias < f32::INFINITY, "finite, or -inf")?;
        }
        Ok(Sampler {
            random: Random(options.seed),
            recent: VecDeque::new(),
            sorted: Vec::new(),
            candidates: Vec::new(),
            options,
        })
    }

    /// A sampler with these options, for a model with `n_vocab` tokens.
    ///
    /// # Errors
    /// As for [`Sampler::new`]; where a token is biased that the model does not have.
    pub fn for_model(options: SamplerOptions, n_vocab: usize) -> Result<Sampler, EngineError> {
        let sampler = Sampler::new(options)?;
        sampler.check_vocabulary(n_vocab)?;
        Ok(sampler)
    }

    /// Refuses biases of tokens that a model with `n_vocab` tokens does not have.
    pub(crate) fn check_vocabulary(&self, n_vocab: usize) -> Result<(), EngineError> {
        let has = |token: u32| (token as usize) < n_vocab;
        match self.options.logit_bias.iter().find(|(token, _)| !has(*token)) {
            None => Ok(()),
            Some((token, _)) => Err(EngineError::Setting {
                what: format!("logit-bias for token {token}"),
                reason: format!("the model's tokens are 0 to {}", n_vocab.saturating_sub(1)),
                hint: Hint::advice("bias tokens that the model has"),
            }),
        }
    }

    /// The sampler's options.
    pub fn options(&self) -> &SamplerOptions {
        &self.options
    }

    /// Clears the recent tokens, but does not reset the random numbers.
    pub(crate) fn clear_recent(&mut self) {
        self.recent.clear();
    }

    /// Clears the recent tokens and resets the random numbers to the seed.
    pub fn reset(&mut self) {
        self.clear_recent();
        self.random = Random(self.options.seed);
    }

    /// Adds a token, of the prompt or sampled, to the recent tokens of the penalties.
    pub fn accept(&mut self, token: u32) {
        if self.options.repeat_last_n == 0 || !self.has_penalty() {
            return;
        }
        if self.recent.len() == self.options.repeat_last_n {
            self.recent.pop_front();
        }
        self.recent.push_back(token);
    }

    fn has_penalty(&self) -> bool {
        let SamplerOptions { repeat_penalty, presence_penalty, frequency_penalty, .. } = self.options;
        repeat_penalty != 1.0 || presence_penalty != 0.0 || frequency_penalty != 0.0
    }

    /// Samples a token: an index into `logits` `[n_vocab]`. Biases and penalties change `logits`.
    ///
    /// NaN counts as negative infinity, positive infinity as the largest finite number. If no token has a
    /// logit above negative infinity, the result is token 0.
    pub fn sample(&mut self, logits: &mut [f32]) -> u32 {
        self.sample_allowed(logits).unwrap_or(0)
    }

    /// As [`Sampler::sample`]; `None` if no token has a logit above negative infinity.
    pub(super) fn sample_allowed(&mut self, logits: &mut [f32]) -> Option<u32> {
        for (token, bias) in &self.options.logit_bias {
            if let Some(logit) = logits.get_mut(*token as usize) {
                *logit += bias;
            }
        }
        self.penalize(logits);
        if self.options.temperature == 0.0 {
            return argmax(logits);
        }
        self.candidates.clear();
        let usable = (0u32..).zip(logits.iter()).filter(|(_, l)| **l > f32::NEG_INFINITY);
        self.candidates.extend(usable.map(|(id, &l)| Candidate { id, logit: l.clamp(f32::MIN, f32::MAX) }));
        let k = self.options.top_k;
        if k > 0 && k < self.candidates.len() {
            self.candidates.select_nth_unstable_by(k - 1, by_falling_logit);
            self.candidates.truncate(k);
        }
        self.keep_top_p();
        self.keep_min_p();
        self.draw()
    }

    fn penalize(&mut self, logits: &mut [f32]) {
        let SamplerOptions { repeat_penalty, presence_penalty, frequency_penalty, .. } = self.options;
        self.sorted.clear();
        self.sorted.extend(&self.recent);
        self.sorted.sort_unstable();
        for same in self.sorted.chunk_by(|a, b| a == b) {
            if let Some(logit) = logits.get_mut(same[0] as usize) {
                *logit = if *logit > 0.0 { *logit / repeat_penalty } else { *logit * repeat_penalty };
                *logit -= same.len() as f32 * frequency_penalty + presence_penalty;
            }
        }
    }

    /// Keeps the most likely tokens until their probabilities sum to `top_p`, at least one token. Sorts no
    /// more tokens than needed: blocks of the most likely tokens are selected and sorted until the sum is
    /// reached.
    fn keep_top_p(&mut self) {
        let top_p = f64::from(self.options.top_p);
        let Some(max) = self.max_logit() else { return };
        if top_p >= 1.0 {
            return;
        }
        let weight = |c: &Candidate| (f64::from(c.logit) - max).exp();
        let target = top_p * self.candidates.iter().map(weight).sum::<f64>();
        let (mut sorted, mut block, mut sum) = (0, 64, 0.0);
        while sorted < self.candidates.len() {
            let rest = &mut self.candidates[sorted..];
            let taken = block.min(rest.len());
            if taken < rest.len() {
                rest.select_nth_unstable_by(taken - 1, by_falling_logit);
            }
            rest[..taken].sort_unstable_by(by_falling_logit);
            for i in sorted..sorted + taken {
                sum += weight(&self.candidates[i]);
                if sum >= target {
                    self.candidates.truncate(i + 1);
                    return;
                }
            }
            sorted += taken;
            block *= 4;
        }
    }

    /// Keeps the tokens that are at least `min_p` times as likely as the most likely one.
    fn keep_min_p(&mut self) {
        if self.options.min_p > 0.0
            && let Some(max) = self.max_logit()
        {
            let min = max + f64::from(self.options.min_p).ln();
            self.candidates.retain(|c| f64::from(c.logit) >= min);
        }
    }

    /// The largest logit of the candidates.
    fn max_logit(&self) -> Option<f64> {
        self.candidates.iter().map(|c| f64::from(c.logit)).reduce(f64::max)
    }

    /// Draws a candidate by its probability at the temperature.
    fn draw(&mut self) -> Option<u32> {
        let max = self.max_logit()?;
        let temperature = f64::from(self.options.temperature);
        let weight = |c: &Candidate| ((f64::from(c.logit) - max) / temperature).exp();
        let sum: f64 = self.candidates.iter().map(weight).sum();
        let mut remaining = self.random.unit() * sum;
        let mut chosen = None;
        for candidate in &self.candidates {
            let weight = weight(candidate);
            if weight > 0.0 {
                chosen = Some(candidate.id);
                remaining -= weight;
                if remaining < 0.0 {
                    break;
                }
            }
        }
        chosen // if rounding leaves a remainder: the last candidate with a weight
    }
}

/// The token with the largest logit; among equals the smallest id. `None` if all are negative infinity or NaN.
fn argmax(logits: &[f32]) -> Option<u32> {
    let (mut best, mut max) = (None, f32::NEG_INFINITY);
    for (id, &logit) in (0u32..).zip(logits) {
        if logit > max {
            (best, max) = (Some(id), logit);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All options off: plain softmax.
    fn plain() -> SamplerOptions {
        SamplerOptions { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..SamplerOptions::default() }
    }

    fn sampler(options: SamplerOptions) -> Sampler {
        Sampler::new(options).expect("valid options")
    }

    /// The frequency of each token in 20,000 draws.
    fn frequencies(options: SamplerOptions, logits: &[f32]) -> Vec<f64> {
        let mut sampler = sampler(options);
        let mut count = vec![0.0; logits.len()];
        for _ in 0..20_000 {
            count[sampler.sample(&mut logits.to_vec()) as usize] += 1.0 / 20_000.0;
        }
        count
    }

    /// The tokens that are drawn at least once.
    fn drawn(options: SamplerOptions, logits: &[f32]) -> Vec<usize> {
        let frequencies = frequencies(options, logits);
        (0..frequencies.len()).filter(|&i| frequencies[i] > 0.0).collect()
    }

    #[test]
    fn greedy_takes_the_largest_logit_and_the_smaller_id_of_equals() {
        let mut greedy = sampler(SamplerOptions::greedy());
        assert_eq!(greedy.sample(&mut [1.0, 3.0, 3.0, 2.0]), 1);
        assert_eq!(greedy.sample(&mut [-5.0, -1.0]), 1);
        assert_eq!(greedy.sample(&mut [f32::NAN, -1.0, f32::NAN]), 1);
        assert_eq!(greedy.sample(&mut [0.0, f32::INFINITY, f32::INFINITY]), 1);
    }

    #[test]
    fn draws_follow_the_softmax_and_the_temperature() {
        let logits = [0.0, 2f32.ln(), 5f32.ln()]; // 1 : 2 : 5
        for (frequency, want) in frequencies(plain(), &logits).iter().zip([0.125, 0.25, 0.625]) {
            assert!((frequency - want).abs() < 0.015, "{frequency} for {want}");
        }
        let cold = SamplerOptions { temperature: 0.5, ..plain() };
        for (frequency, want) in frequencies(cold, &logits).iter().zip([1.0 / 30.0, 4.0 / 30.0, 25.0 / 30.0])
        {
            assert!((frequency - want).abs() < 0.015, "{frequency} for {want}");
        }
    }

    #[test]
    fn each_filter_keeps_the_expected_tokens() {
        // probabilities 0.4 0.3 0.2 0.1, not in order of id
        let logits = [0.1f32.ln(), 0.4f32.ln(), 0.2f32.ln(), 0.3f32.ln()];
        assert_eq!(drawn(plain(), &logits), [0, 1, 2, 3]);
        assert_eq!(drawn(SamplerOptions { top_k: 2, ..plain() }, &logits), [1, 3]);
        assert_eq!(drawn(SamplerOptions { top_k: 9, ..plain() }, &logits), [0, 1, 2, 3]);
        assert_eq!(drawn(SamplerOptions { top_p: 0.35, ..plain() }, &logits), [1]);
        assert_eq!(drawn(SamplerOptions { top_p: 0.65, ..plain() }, &logits), [1, 3]);
        assert_eq!(drawn(SamplerOptions { top_p: 0.0, ..plain() }, &logits), [1]);
        assert_eq!(drawn(SamplerOptions { min_p: 0.45, ..plain() }, &logits), [1, 2, 3]);
        assert_eq!(drawn(SamplerOptions { min_p: 1.0, ..plain() }, &logits), [1]);
        // top-p applies to what top-k keeps (0.4 and 0.3); neither depends on the temperature
        let both = SamplerOptions { top_k: 2, top_p: 0.56, temperature: 50.0, ..plain() };
        assert_eq!(drawn(both, &logits), [1]);
    }

    #[test]
    fn top_p_over_a_large_vocabulary_equals_a_full_sort() {
        let mut random = Random(7);
        let logits: Vec<f32> = (0..150_000).map(|_| (random.bits() % 4000) as f32 / 1000.0).collect();
        for top_p in [0.001, 0.1, 0.5, 0.999] {
            let mut chosen = sampler(SamplerOptions { top_p, ..plain() });
            chosen.candidates = (0u32..).zip(&logits).map(|(id, &logit)| Candidate { id, logit }).collect();
            let mut sorted = chosen.candidates.clone();
            chosen.keep_top_p();

            sorted.sort_by(by_falling_logit);
            let total: f64 = sorted.iter().map(|c| f64::from(c.logit).exp()).sum();
            let mut sum = 0.0;
            let expected = sorted.iter().take_while(|c| {
                let reached = sum >= f64::from(top_p) * total;
                sum += f64::from(c.logit).exp();
                !reached
            });
            let want: Vec<u32> = expected.map(|c| c.id).collect();
            let got: Vec<u32> = chosen.candidates.iter().map(|c| c.id).collect();
            assert!(got.len().abs_diff(want.len()) <= 1, "{top_p}: {} for {}", got.len(), want.len());
            let common = got.len().min(want.len());
            assert_eq!(got[..common], want[..common]);
        }
    }

    #[test]
    fn the_penalty_applies_once_to_each_recent_token() {
        let options = SamplerOptions { repeat_penalty: 2.0, repeat_last_n: 2, ..SamplerOptions::greedy() };
        let mut sampler = sampler(options);
        let mut logits = [4.0, 3.0, -1.0];
        assert_eq!(sampler.sample(&mut logits), 0);
        for token in [0, 2, 0, 99] {
            sampler.accept(token); // token 2 and the first 0 are not among the last two
        }
        assert_eq!(sampler.sample(&mut logits), 1);
        assert_eq!(logits, [2.0, 3.0, -1.0]);
        sampler.accept(2);
        sampler.accept(2);
        assert_eq!(sampler.sample(&mut logits), 1);
        assert_eq!(logits, [2.0, 3.0, -2.0]);
    }

    #[test]
    fn penalties_count_how_often_a_token_came() {
        let options = SamplerOptions {
            presence_penalty: 0.5,
            frequency_penalty: 0.25,
            repeat_last_n: 4,
            ..SamplerOptions::greedy()
        };
        let mut some = sampler(options.clone());
        // The first one is not among the last four.
        [1, 0, 0, 0, 2].into_iter().for_each(|token| some.accept(token));
        let mut logits = [4.0, 3.0, -1.0];
        assert_eq!(some.sample(&mut logits), 1);
        assert_eq!(logits, [4.0 - 0.5 - 0.75, 3.0, -1.0 - 0.5 - 0.25]);
        // The repetition penalty comes first.
        let mut all = sampler(SamplerOptions { repeat_penalty: 2.0, ..options.clone() });
        [0, 0, 2].into_iter().for_each(|token| all.accept(token));
        let mut logits = [4.0, 3.0, -1.0];
        all.sample(&mut logits);
        assert_eq!(logits, [2.0 - 0.5 - 0.5, 3.0, -2.0 - 0.5 - 0.25]);
        // Negative ones ask for repetition.
        let mut negative = sampler(SamplerOptions { presence_penalty: -3.0, ..options });
        negative.accept(2);
        assert_eq!(negative.sample(&mut [0.0, 1.0, -1.0]), 2);
    }

    #[test]
    fn biases_come_before_penalties_and_ban_tokens() {
        let options = SamplerOptions {
            logit_bias: vec![(0, f32::NEG_INFINITY), (2, 1.5), (2, 1.5), (99, 5.0)],
            repeat_penalty: 2.0,
            ..SamplerOptions::greedy()
        };
        let mut some = sampler(options.clone());
        some.accept(2);
        let mut logits = [9.0, 1.0, -1.0];
        assert_eq!(some.sample(&mut logits), 1);
        assert_eq!(logits, [f32::NEG_INFINITY, 1.0, 1.0]);
        assert_eq!(drawn(SamplerOptions { temperature: 1.0, ..options.clone() }, &[9.0, 1.0, -1.0]), [1, 2]);
        // What is banned is never drawn, not even where nothing else is left.
        let logit_bias = (0..3).map(|token| (token, f32::NEG_INFINITY)).collect::<Vec<_>>();
        for temperature in [0.0, 1.0] {
            let options = SamplerOptions { logit_bias: logit_bias.clone(), temperature, ..options.clone() };
            assert_eq!(sampler(options).sample_allowed(&mut [9.0, 1.0, -1.0]), None);
        }
    }

    #[test]
    fn tokens_depend_on_the_seed_and_reset_repeats_them() {
        let draw = |seed| {
            let mut sampler = sampler(SamplerOptions { seed, ..plain() });
            let first: Vec<u32> = (0..50).map(|_| sampler.sample(&mut [0.0; 1000])).collect();
            sampler.reset();
            let again: Vec<u32> = (0..50).map(|_| sampler.sample(&mut [0.0; 1000])).collect();
            assert_eq!(first, again);
            first
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn nan_and_infinite_logits_are_handled() {
        let all = [plain(), SamplerOptions::default(), SamplerOptions::greedy()];
        for options in all {
            let mut sampler = sampler(options);
            assert_eq!(sampler.sample(&mut []), 0);
            assert_eq!(sampler.sample(&mut [f32::NAN; 4]), 0);
            assert_eq!(sampler.sample(&mut [f32::NEG_INFINITY; 4]), 0);
            assert_eq!(sampler.sample(&mut [f32::NAN, f32::NEG_INFINITY, -3.0, f32::NAN]), 2);
            assert_eq!(sampler.sample(&mut [1.0, f32::INFINITY, f32::NAN, f32::MAX / 2.0]), 1);
            assert_eq!(sampler.sample(&mut [f32::MIN, f32::MAX]), 1);
        }
    }

    #[test]
    fn options_out_of_range_are_rejected_by_name() {
        let rejected = |options| Sampler::new(options).expect_err("out of range").option;
        assert_eq!(rejected(SamplerOptions { temperature: -0.1, ..plain() }), "temperature");
        assert_eq!(rejected(SamplerOptions { temperature: f32::INFINITY, ..plain() }), "temperature");
        assert_eq!(rejected(SamplerOptions { top_p: 1.5, ..plain() }), "top-p");
        assert_eq!(rejected(SamplerOptions { top_p: f32::NAN, ..plain() }), "top-p");
        assert_eq!(rejected(SamplerOptions { min_p: -1.0, ..plain() }), "min-p");
        assert_eq!(rejected(SamplerOptions { repeat_penalty: 0.0, ..plain() }), "repeat-penalty");
        assert_eq!(rejected(SamplerOptions { presence_penalty: f32::NAN, ..plain() }), "presence-penalty");
        assert_eq!(
            rejected(SamplerOptions { frequency_penalty: f32::INFINITY, ..plain() }),
            "frequency-penalty"
        );
        assert_eq!(rejected(SamplerOptions { logit_bias: vec![(1, f32::NAN)], ..plain() }), "logit-bias");
        assert_eq!(
            rejected(SamplerOptions { logit_bias: vec![(1, f32::INFINITY)], ..plain() }),
            "logit-bias"
        );
        let error = Sampler::new(SamplerOptions { top_p: 1.5, ..plain() }).expect_err("out of range");
        assert_eq!(error.to_string(), "top-p is 1.5, but must be between 0 and 1");
        assert_eq!(error.hint().to_string(), "set top-p to a number that is between 0 and 1");
    }
}
