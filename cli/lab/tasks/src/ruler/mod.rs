//! The thirteen tasks of RULER (Hsieh et al. 2024, <https://arxiv.org/abs/2404.06654>, `NVIDIA/RULER`).
//!
//! Prompts are those of the official scripts, byte for byte, for the same data, word lists, seed and token counter,
//! with the template `base`. Only sentences are split differently (see `sentences.rs`), which moves the needles in
//! essays a little. `tests/golden/make.py` runs the official scripts and writes what the tests expect.

mod common_words;
mod frequent_words;
mod growing;
mod needles;
mod questions;
mod score;
mod variables;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use self::needles::{Haystack, NeedleTask, Value};
use self::questions::QuestionTask;
use crate::{Data, DataFile, Sample, SampleOptions, TaskError};

/// A task of RULER, as its `synthetic.yaml` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RulerTask {
    /// A number in sentences that say nothing: passkey retrieval.
    NiahSingle1,
    /// A number in essays: the usual needle in a haystack.
    NiahSingle2,
    /// A UUID in essays.
    NiahSingle3,
    /// One of four numbers in essays, each with its key.
    NiahMultiKey1,
    /// A number among sentences of the same kind only.
    NiahMultiKey2,
    /// As before, with UUIDs as keys and values.
    NiahMultiKey3,
    /// Four numbers of one key in essays.
    NiahMultiValue,
    /// Numbers of four keys in essays.
    NiahMultiQuery,
    /// Variable tracking: all variables of a chain of assignments.
    VariableTracking,
    /// Common words extraction: the ten words of a list that are there ten times as often as the others.
    CommonWords,
    /// Frequent words extraction: the three most frequent words of a text of made-up words.
    FrequentWords,
    /// A question of SQuAD among documents.
    Qa1,
    /// A question of HotpotQA among documents.
    Qa2,
}

/// No task of RULER has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("RULER has no task {0}")]
pub struct UnknownTask(pub String);

impl RulerTask {
    /// All tasks, in RULER's order.
    pub const ALL: [RulerTask; 13] = [
        RulerTask::NiahSingle1,
        RulerTask::NiahSingle2,
        RulerTask::NiahSingle3,
        RulerTask::NiahMultiKey1,
        RulerTask::NiahMultiKey2,
        RulerTask::NiahMultiKey3,
        RulerTask::NiahMultiValue,
        RulerTask::NiahMultiQuery,
        RulerTask::VariableTracking,
        RulerTask::CommonWords,
        RulerTask::FrequentWords,
        RulerTask::Qa1,
        RulerTask::Qa2,
    ];

    /// RULER's name: `niah_single_1`.
    pub fn name(self) -> &'static str {
        match self {
            RulerTask::NiahSingle1 => "niah_single_1",
            RulerTask::NiahSingle2 => "niah_single_2",
            RulerTask::NiahSingle3 => "niah_single_3",
            RulerTask::NiahMultiKey1 => "niah_multikey_1",
            RulerTask::NiahMultiKey2 => "niah_multikey_2",
            RulerTask::NiahMultiKey3 => "niah_multikey_3",
            RulerTask::NiahMultiValue => "niah_multivalue",
            RulerTask::NiahMultiQuery => "niah_multiquery",
            RulerTask::VariableTracking => "vt",
            RulerTask::CommonWords => "cwe",
            RulerTask::FrequentWords => "fwe",
            RulerTask::Qa1 => "qa_1",
            RulerTask::Qa2 => "qa_2",
        }
    }

    /// Tokens that a model may answer with.
    pub fn answer_tokens(self) -> usize {
        match self {
            RulerTask::VariableTracking => variables::ANSWER_TOKENS,
            RulerTask::CommonWords => common_words::ANSWER_TOKENS,
            RulerTask::FrequentWords => frequent_words::ANSWER_TOKENS,
            RulerTask::Qa1 | RulerTask::Qa2 => questions::ANSWER_TOKENS,
            _ => needles::ANSWER_TOKENS,
        }
    }

    /// The file that the task cannot do without. Tasks with English words also use wonderwords' lists where they are.
    pub fn data(self) -> Option<DataFile> {
        match self {
            RulerTask::Qa1 => Some(DataFile::Squad),
            RulerTask::Qa2 => Some(DataFile::HotpotQa),
            _ => (self.needles()?.haystack == Haystack::Essay).then_some(DataFile::Essays),
        }
    }

    /// Whether samples tell where right answers stand: [`Sample::needles`].
    pub fn tells_needles(self) -> bool {
        self.needles().is_some() || matches!(self, RulerTask::Qa1 | RulerTask::Qa2)
    }

    /// What kind of needles a task hides, if it hides any.
    fn needles(self) -> Option<NeedleTask> {
        let one = NeedleTask {
            haystack: Haystack::Essay,
            key: Value::Word,
            value: Value::Number,
            keys: 1,
            values: 1,
            queries: 1,
        };
        match self {
            RulerTask::NiahSingle1 => Some(NeedleTask { haystack: Haystack::Filler, ..one }),
            RulerTask::NiahSingle2 => Some(one),
            RulerTask::NiahSingle3 => Some(NeedleTask { value: Value::Uuid, ..one }),
            RulerTask::NiahMultiKey1 => Some(NeedleTask { keys: 4, ..one }),
            RulerTask::NiahMultiKey2 => Some(NeedleTask { haystack: Haystack::Needles, ..one }),
            RulerTask::NiahMultiKey3 => {
                let (key, value) = (Value::Uuid, Value::Uuid);
                Some(NeedleTask { haystack: Haystack::Needles, key, value, ..one })
            }
            RulerTask::NiahMultiValue => Some(NeedleTask { values: 4, ..one }),
            RulerTask::NiahMultiQuery => Some(NeedleTask { keys: 4, queries: 4, ..one }),
            _ => None,
        }
    }

    /// Generates samples. `count` returns the number of tokens of a text, without special tokens.
    ///
    /// A prompt with its answer has at most `options.tokens` tokens. As in RULER, this does not hold for the answer
    /// of `fwe`: the prompt alone has up to `options.tokens`. Prompts are shorter than asked for when the essays,
    /// the documents or the words are used up; [`Sample::tokens`] tells.
    ///
    /// The scripts count every length they try. This does not count texts that are far too short: those that would
    /// fit even if what was added to the last one counted had twice as many tokens a byte. The prompts would differ
    /// only if a text were even denser.
    ///
    /// # Errors
    /// The length or the seed is out of range, data are missing or damaged, there are fewer questions than samples,
    /// or the length is too small for the task. In the last case the official scripts never end.
    pub fn samples(
        self,
        options: &SampleOptions,
        data: &Data,
        count: &dyn Fn(&str) -> usize,
    ) -> Result<Vec<Sample>, TaskError> {
        options.check()?;
        let seed = u32::try_from(options.seed).map_err(|_| TaskError::Option {
            option: "seed",
            value: options.seed.to_string(),
            range: format!("at most {} for tasks of RULER", u32::MAX),
        })?;
        if let Some(task) = self.needles() {
            return needles::samples(task, options, data, count);
        }
        match self {
            RulerTask::VariableTracking => variables::samples(options, seed, count),
            RulerTask::CommonWords => common_words::samples(options, data, count),
            RulerTask::FrequentWords => frequent_words::samples(options, count),
            RulerTask::Qa1 => questions::samples(QuestionTask::Squad, options, data, count),
            _ => questions::samples(QuestionTask::HotpotQa, options, data, count),
        }
    }

    /// Scores one answer, from 0 to 1: the share of `references` that are in it, and for `qa_1` and `qa_2` whether
    /// any of them is. Case does not count. `answer` is what the model generated, without [`Sample::answer_prefix`].
    ///
    /// This is `string_match_all` and `string_match_part` of RULER's `eval/synthetic/constants.py` for one sample.
    /// RULER reports the mean of all samples in percent.
    pub fn score(self, answer: &str, references: &[String]) -> f64 {
        match self {
            RulerTask::Qa1 | RulerTask::Qa2 => score::any(answer, references),
            _ => score::share(answer, references),
        }
    }
}

impl fmt::Display for RulerTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for RulerTask {
    type Err = UnknownTask;

    fn from_str(name: &str) -> Result<RulerTask, UnknownTask> {
        let task = RulerTask::ALL.into_iter().find(|task| task.name() == name);
        task.ok_or_else(|| UnknownTask(name.to_owned()))
    }
}
