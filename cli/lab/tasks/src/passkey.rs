//! Passkey retrieval: a number of 7 or 64 digits is hidden in a long text.
//!
//! The task is that of Mohtashami and Jaggi (2023), as Yuan et al. (2024, <https://arxiv.org/abs/2407.01527>,
//! `henryzhongsc/longctx_bench`) have it. LagKV (Liang et al. 2025, <https://arxiv.org/abs/2504.04704>) is measured
//! with it. The prompt has their words. The text around the pass key is essays where there are any, or else the
//! sentences of Mohtashami and Jaggi; it starts again when it is used up. Two things differ: lengths are tokens, not
//! words, and essays come in the order of RULER's file.

use crate::haystack::{background, fill};
use crate::random::PythonRandom;
use crate::{Data, Sample, SampleOptions, TaskError, places};

/// Digits of the easy task.
pub const SHORT: usize = 7;
/// Digits of the hard task, which LagKV reports.
pub const LONG: usize = 64;

const MAX_DIGITS: usize = 1000;

const INSTRUCTION: &str = "There is an important info hidden inside a lot of irrelevant text. Find it and memorize \
    it. I will quiz you about the important information there.\n";
const QUESTION: &str = "\nWhat is the pass key?";
const ANSWER_PREFIX: &str = " The pass key is ";

/// Tokens that a model may answer with: one for each digit, and some more.
pub fn answer_tokens(digits: usize) -> usize {
    digits + 32
}

/// Generates samples whose pass keys are at depths from 0 (the beginning) to 1 (the end), at equal distances. A
/// single sample has its pass key in the middle. `digits` is 1 to 1000. `count` returns the number of tokens of a
/// text, without special tokens.
///
/// A prompt with its answer is at most half a percent shorter than `options.tokens`, and never longer.
///
/// # Errors
/// An option is out of range, the length is too small, or the essays are damaged.
pub fn samples(
    digits: usize,
    options: &SampleOptions,
    data: &Data,
    count: &dyn Fn(&str) -> usize,
) -> Result<Vec<Sample>, TaskError> {
    options.check()?;
    if !(1..=MAX_DIGITS).contains(&digits) {
        let range = format!("1 to {MAX_DIGITS}");
        return Err(TaskError::Option { option: "digits", value: digits.to_string(), range });
    }
    let background = background(data)?;
    let mut random = PythonRandom::new(options.seed);
    let reserved = answer_tokens(digits);
    let sample = |index: usize| {
        let pass_key = random.word(b"0123456789", digits);
        let depth = match options.samples {
            1 => 0.5,
            samples => index as f64 / (samples - 1) as f64,
        };
        let build = |text: &str| INSTRUCTION.to_owned() + &hide(&pass_key, text, depth);
        let count = |context: &String| count(&[context, QUESTION, ANSWER_PREFIX].concat());
        let max_tokens = options.tokens.saturating_sub(reserved);
        let filled = fill(&background, max_tokens, &build, &count)
            .map_err(|minimum| TaskError::TooShort { tokens: options.tokens, minimum: minimum + reserved })?;
        let references = vec![pass_key];
        Ok(Sample {
            needles: places(&filled.text, 0..filled.text.len(), &references),
            context: filled.text,
            question: QUESTION.to_owned(),
            answer_prefix: ANSWER_PREFIX.to_owned(),
            references,
            tokens: filled.tokens + reserved,
        })
    };
    (0..options.samples).map(sample).collect()
}

/// Puts the pass key between words. As in the benchmark, a space follows the text.
fn hide(pass_key: &str, text: &str, depth: f64) -> String {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    let (before, after) = words.split_at((words.len() as f64 * depth) as usize);
    format!(
        "{} The pass key is {pass_key}. Remember it. {pass_key} is the pass key. {} ",
        before.join(" "),
        after.join(" ")
    )
}

/// The score that LagKV reports, from 0 to 1: digits of the longest part of the pass key that is in the answer in
/// one piece, divided by all digits. This is `partial_match` of the benchmark.
pub fn score(answer: &str, references: &[String]) -> f64 {
    let scores = references.iter().map(|pass_key| {
        longest_common_part(pass_key.as_bytes(), answer.as_bytes()) as f64 / pass_key.len().max(1) as f64
    });
    scores.fold(0.0, f64::max)
}

/// Whether the whole pass key is in the answer. Punctuation does not count. This is `exact_match` of the benchmark.
pub fn is_exact(answer: &str, references: &[String]) -> bool {
    let answer: String = answer.chars().filter(|c| !c.is_ascii_punctuation()).collect();
    references.iter().any(|pass_key| answer.contains(pass_key.as_str()))
}

/// Length of the longest part that both have.
fn longest_common_part(a: &[u8], b: &[u8]) -> usize {
    let mut longest = 0;
    // Lengths of the common parts that end at the last byte of `b` and at each of `a`.
    let mut lengths = vec![0; a.len()];
    for last in b {
        for end in (0..a.len()).rev() {
            let before = if end == 0 { 0 } else { lengths[end - 1] };
            lengths[end] = if a[end] == *last { before + 1 } else { 0 };
            longest = longest.max(lengths[end]);
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> usize {
        text.split_whitespace().count()
    }

    /// As the benchmark's `partial_match` and `exact_match` have them in Python.
    #[test]
    fn scores_are_those_of_the_benchmark() {
        let references = ["1234567".to_owned()];
        let cases = [
            ("1234567", 1.0, true),
            ("It is 1234567.", 1.0, true),
            ("1,234,567", 3.0 / 7.0, true),
            ("12345", 5.0 / 7.0, false),
            ("34567 or 1234", 5.0 / 7.0, false),
            ("1234 567", 4.0 / 7.0, false),
            ("", 0.0, false),
            ("none", 0.0, false),
        ];
        for (answer, partial, exact) in cases {
            assert_eq!(score(answer, &references), partial, "{answer}");
            assert_eq!(is_exact(answer, &references), exact, "{answer}");
        }
    }

    #[test]
    fn pass_keys_are_at_equal_distances() {
        let options = SampleOptions { tokens: 2000, samples: 5, seed: 1 };
        let samples = samples(LONG, &options, &Data::open(None).unwrap(), &words).unwrap();
        for (index, sample) in samples.iter().enumerate() {
            let pass_key = &sample.references[0];
            assert_eq!(pass_key.len(), LONG);
            assert_eq!(sample.context.matches(pass_key.as_str()).count(), 2);
            assert_eq!(sample.needles.len(), 2);
            let before = words(sample.context.split(pass_key.as_str()).next().unwrap());
            let depth = before as f64 / words(&sample.context) as f64;
            assert!((depth - index as f64 / 4.0).abs() < 0.03, "{depth}");
            let prompt = [sample.context.as_str(), QUESTION, ANSWER_PREFIX].concat();
            assert_eq!(sample.tokens, words(&prompt) + answer_tokens(LONG));
            assert!((1990..=2000).contains(&sample.tokens), "{}", sample.tokens);
        }
        let single = super::samples(
            SHORT,
            &SampleOptions { samples: 1, ..options },
            &Data::open(None).unwrap(),
            &words,
        );
        assert!(single.unwrap()[0].context.find("pass key").unwrap() > 3000);
    }

    #[test]
    fn options_are_checked() {
        let data = Data::open(None).unwrap();
        let error = |digits, tokens| {
            let options = SampleOptions { tokens, samples: 1, seed: 1 };
            samples(digits, &options, &data, &words).unwrap_err().to_string()
        };
        assert_eq!(error(0, 1000), "digits is 0, but must be 1 to 1000");
        assert_eq!(error(7, 50), "50 tokens are too few: the text cannot be shorter than 86 tokens");
        assert_eq!(error(7, 1 << 25), "tokens is 33554432, but must be at most 16777216");
    }
}
