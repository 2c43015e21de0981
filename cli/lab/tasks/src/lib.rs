//! Tasks that measure what a model finds in a long text. They are the thirteen tasks of RULER, passkey retrieval, a
//! needle in a haystack, questions about one of many places that are alike, and the sixteen tasks of LongBench that are not
//! in Chinese. A task makes prompts with their
//! right answers, and scores what a model answers. It knows no model: lengths come from a function that counts the
//! tokens of a text.
//!
//! ```
//! use tasks::{Data, RulerTask, SampleOptions};
//!
//! let task: RulerTask = "niah_single_1".parse()?;
//! let options = SampleOptions { tokens: 1000, samples: 2, seed: 42 };
//! // A program counts with the model's tokenizer.
//! let count = |text: &str| text.split_whitespace().count();
//! let samples = task.samples(&options, &Data::open(None)?, &count)?;
//! // The answer is in the text.
//! let right = &samples[0].references;
//! assert!(samples[0].context.contains(&right[0]));
//! assert_eq!(task.score(&format!(" {}.", right[0]), right), 1.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The same options, data and token counter give the same samples on every machine.

#![forbid(unsafe_code)]

use std::ops::Range;

pub mod alike;
mod data;
mod error;
mod haystack;
mod longbench;
pub mod needle;
pub mod passkey;
mod python;
mod random;
mod ruler;
mod sentences;

pub use self::data::{Data, DataFile};
pub use self::error::TaskError;
pub use self::longbench::{LongBenchSample, LongBenchTask, Shorten};
pub use self::ruler::{RulerTask, UnknownTask};

/// A prompt and its right answers. The prompt is `context`, `question` and `answer_prefix`, with nothing between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The part of the prompt that is read before the question is known.
    pub context: String,
    /// The rest of the user's message.
    pub question: String,
    /// How the answer begins. The model continues it. May be empty.
    pub answer_prefix: String,
    /// Right answers.
    pub references: Vec<String>,
    /// Where right answers stand in `context`, in bytes: in each of the sentences that say so, where such sentences are the
    /// task.
    pub needles: Vec<Range<usize>>,
    /// Tokens of the prompt and of the longest answer. May be fewer than asked for where there are no more data.
    pub tokens: usize,
}

/// Where any of the answers stands in a part of a text, in bytes of the text.
fn places(text: &str, part: Range<usize>, answers: &[String]) -> Vec<Range<usize>> {
    let of_answer = |answer: &String| {
        let found = text[part.clone()].match_indices(answer.as_str());
        found.map(|(at, found)| part.start + at..part.start + at + found.len()).collect::<Vec<_>>()
    };
    let mut places: Vec<Range<usize>> =
        answers.iter().filter(|answer| !answer.is_empty()).flat_map(of_answer).collect();
    places.sort_by_key(|place| (place.start, place.end));
    places
}

/// Which samples are generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleOptions {
    /// Maximum number of tokens of the prompt and of the longest answer, at most [`MAX_TOKENS`].
    pub tokens: usize,
    /// Number of samples.
    pub samples: usize,
    /// Random seed. RULER's code uses 42.
    pub seed: u64,
}

/// Maximum of [`SampleOptions::tokens`]: 16,777,216.
pub const MAX_TOKENS: usize = 1 << 24;

impl SampleOptions {
    fn check(&self) -> Result<(), TaskError> {
        if self.tokens <= MAX_TOKENS {
            return Ok(());
        }
        Err(TaskError::Option {
            option: "tokens",
            value: self.tokens.to_string(),
            range: format!("at most {MAX_TOKENS}"),
        })
    }
}
