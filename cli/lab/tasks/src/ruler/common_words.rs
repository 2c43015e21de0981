//! `cwe`: a numbered list in which ten words are there much more often than the others. An example with its answer
//! comes first.

use std::ops::ControlFlow;

use super::growing::{self, Budget, DraftSample, Growing};
use crate::random::PythonRandom;
use crate::{Data, Sample, SampleOptions, TaskError};

pub(super) const ANSWER_TOKENS: usize = 120;

const COMMON_WORDS: usize = 10;
const INSTRUCTION: &str = "Below is a numbered list of words. In these words, some appear more often than others. \
    Memorize the ones that appear most often.\n";
const QUESTION: &str = "\nQuestion: What are the 10 most common words in the above list?";
const ANSWER_PREFIX: &str = " Answer: The top 10 words that appear most often in the list are:";

/// How often words are in a list.
struct Repeats {
    common: usize,
    others: usize,
}

pub(super) fn samples(
    options: &SampleOptions,
    data: &Data,
    count: &dyn Fn(&str) -> usize,
) -> Result<Vec<Sample>, TaskError> {
    let mut words = data.words()?.all();
    PythonRandom::new(options.seed).shuffle(&mut words);
    let mut lists = Lists {
        words,
        seed: options.seed,
        random: PythonRandom::new(options.seed),
        is_short: options.tokens < 4096,
    };
    let budget = Budget { tokens: options.tokens, reserved: ANSWER_TOKENS };
    growing::samples(&mut lists, options.samples, budget, count)
}

struct Lists<'a> {
    /// Different words in random order, at least 40.
    words: Vec<&'a str>,
    seed: u64,
    random: PythonRandom,
    is_short: bool,
}

impl Growing for Lists<'_> {
    fn increment(&self) -> usize {
        10
    }

    fn grow(&self, size: usize) -> ControlFlow<usize, usize> {
        match size + self.increment() {
            next if next > self.words.len() => ControlFlow::Break(self.words.len()),
            next => ControlFlow::Continue(next),
        }
    }

    fn draft(&mut self, _: usize, size: usize) -> Option<DraftSample> {
        if size == 0 {
            return None;
        }
        let (words, of_example, of_list) = match self.is_short {
            true => (20, Repeats { common: 3, others: 1 }, Repeats { common: 6, others: 1 }),
            false => (40, Repeats { common: 10, others: 3 }, Repeats { common: 30, others: 3 }),
        };
        let (example, example_answer) = self.list(words, of_example);
        let (list, answer) = self.list(size, of_list);
        let context = format!(
            "{INSTRUCTION}{example}{QUESTION}{ANSWER_PREFIX}{}\n{INSTRUCTION}{list}",
            numbered(&example_answer)
        );
        Some(DraftSample::new(
            context,
            QUESTION,
            ANSWER_PREFIX,
            answer.into_iter().map(str::to_owned).collect(),
        ))
    }

    fn answer(&self, references: &[String]) -> String {
        format!(" {}", numbered(references))
    }
}

impl<'a> Lists<'a> {
    /// A list of so many different words, and the common ones.
    fn list(&mut self, words: usize, repeats: Repeats) -> (String, Vec<&'a str>) {
        let chosen: Vec<&str> =
            self.random.sample(self.words.len(), words).into_iter().map(|index| self.words[index]).collect();
        let (common, others) = chosen.split_at(COMMON_WORDS.min(words));
        let mut list = [common.repeat(repeats.common), others.repeat(repeats.others)].concat();
        PythonRandom::new(self.seed).shuffle(&mut list);
        (numbered(&list), common.to_vec())
    }
}

/// `1. first 2. second`.
fn numbered(words: &[impl AsRef<str>]) -> String {
    let items = words.iter().enumerate().map(|(index, word)| format!("{}. {}", index + 1, word.as_ref()));
    items.collect::<Vec<_>>().join(" ")
}
