//! `fwe`: a text of made-up words whose frequencies follow a zeta distribution. The question is for the three most
//! frequent ones after `...`, which stands for noise.

use std::collections::HashSet;
use std::ops::Range;

use super::growing::{Counter, DraftSample};
use crate::random::PythonRandom;
use crate::{Sample, SampleOptions, TaskError};

pub(super) const ANSWER_TOKENS: usize = 50;

const WORD_LETTERS: usize = 6;
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz";
/// Tokens of the text for each word of the vocabulary.
const TOKENS_PER_WORD: usize = 50;
/// The zeta function at the exponent of the distribution, which is 2.
const ZETA: f64 = 1.6449340668482264;
/// The most frequent words after the noise.
const ANSWERS: Range<usize> = 1..4;
/// With fewer, there are fewer words than answers.
const MIN_TOKENS: usize = ANSWERS.end * TOKENS_PER_WORD;

const INSTRUCTION: &str = "Read the following coded text and track the frequency of each coded word. Find the three \
    most frequently appeared coded words. ";
const QUESTION: &str = "\nQuestion: Do not provide any explanation. Please ignore the dots '....'. What are the three \
    most frequently appeared words in the above coded text?";
const ANSWER_PREFIX: &str =
    " Answer: According to the coded text above, the three most frequently appeared words are:";

pub(super) fn samples(
    options: &SampleOptions,
    count: &dyn Fn(&str) -> usize,
) -> Result<Vec<Sample>, TaskError> {
    let too_short = |minimum| TaskError::TooShort { tokens: options.tokens, minimum };
    if options.tokens < MIN_TOKENS {
        return Err(too_short(MIN_TOKENS));
    }
    let mut random = PythonRandom::new(options.seed);
    let mut counter = Counter::new(count);
    let increment = options.tokens / 32;
    let size = Vocabulary::new(&mut random, options).choose_size(options.tokens, increment, &mut counter);
    let sample = |_| {
        let vocabulary = Vocabulary::new(&mut random, options);
        let mut size = size;
        while let Some(draft) = vocabulary.text(size) {
            let tokens = counter.count(&draft.text);
            if tokens <= options.tokens {
                return Ok(draft.into_sample(tokens + ANSWER_TOKENS));
            }
            size = size.saturating_sub(increment);
        }
        Err(too_short(counter.fewest.max(options.tokens + 1)))
    };
    (0..options.samples).map(sample).collect()
}

struct Vocabulary {
    /// The most frequent one first.
    words: Vec<String>,
    seed: u64,
}

impl Vocabulary {
    fn new(random: &mut PythonRandom, options: &SampleOptions) -> Vocabulary {
        let size = options.tokens / TOKENS_PER_WORD;
        let mut known = HashSet::with_capacity(size);
        while known.len() < size {
            known.insert(random.word(LETTERS, WORD_LETTERS));
        }
        let mut words: Vec<String> = known.into_iter().collect();
        words.sort_unstable();
        PythonRandom::new(options.seed).shuffle(&mut words);
        if let Some(noise) = words.first_mut() {
            *noise = "...".to_owned();
        }
        Vocabulary { words, seed: options.seed }
    }

    /// The size before the first one, by increments, whose text is long enough.
    fn choose_size(&self, tokens: usize, increment: usize, counter: &mut Counter) -> usize {
        let mut size = tokens / WORD_LETTERS;
        while let Some(draft) = self.text(size) {
            if counter.count_if_needed(&draft.text, tokens) >= tokens {
                break;
            }
            size += increment;
        }
        size.saturating_sub(increment)
    }

    /// A text of about `size` words. `None` if not all answers are in it.
    fn text(&self, size: usize) -> Option<DraftSample> {
        let repeats = |rank: usize| (size as f64 * (1.0 / (rank * rank) as f64) / ZETA) as usize;
        if repeats(ANSWERS.end) == 0 {
            return None;
        }
        let ranked = self.words.iter().enumerate();
        let mut text: Vec<&str> =
            ranked.flat_map(|(index, word)| vec![word.as_str(); repeats(index + 1)]).collect();
        PythonRandom::new(self.seed).shuffle(&mut text);
        let context = format!("{INSTRUCTION}{}", text.join(" "));
        Some(DraftSample::new(context, QUESTION, ANSWER_PREFIX, self.words[ANSWERS].to_vec()))
    }
}
