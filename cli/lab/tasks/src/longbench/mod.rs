//! LongBench (Bai et al. 2023, <https://arxiv.org/abs/2308.14508>, `THUDM/LongBench`): questions, summaries and code
//! from real documents. The sixteen tasks in English and in code are here. The five in Chinese are not: their scores
//! need jieba's dictionary of Chinese words.
//!
//! `longbench/prompts.json` has LongBench's own prompts, from its `config/dataset2prompt.json` (MIT, see
//! `longbench/LICENSE`). Prompts that are too long are shortened in the middle, as its `pred.py` does. Scores are those
//! of its `metrics.py` and `eval.py`, with the packages rouge 1.0.1 and fuzzywuzzy 0.18.0 without python-Levenshtein.
//! `tests/golden/longbench.py` runs them and writes what the tests expect. One thing differs: where `rouge` exceeds
//! Python's limit of recursion, in sentences of nearly a thousand words, LongBench gives 0. Here such sentences have a
//! score.

mod data;
mod rouge;
mod score;
mod similar;

use std::collections::BTreeMap;
use std::fmt;

use self::data::Line;
use crate::{Data, DataFile, Sample, SampleOptions, TaskError};

const PROMPTS: &str = include_str!("prompts.json");

/// A task of LongBench, under its name there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LongBenchTask(usize);

/// How an answer is scored.
#[derive(Clone, Copy)]
enum Metric {
    /// F1 of the words.
    Words,
    /// ROUGE-L.
    Rouge,
    /// Which one of several classes it is.
    Class,
    /// The number of a paragraph.
    Paragraph,
    /// A number.
    Count,
    /// Similarity of a line of code.
    Code,
}

/// Name, file, tokens of an answer and metric of each task, in the order of LongBench.
const TASKS: [(&str, &str, usize, Metric); 16] = [
    ("narrativeqa", "narrativeqa.jsonl", 128, Metric::Words),
    ("qasper", "qasper.jsonl", 128, Metric::Words),
    ("multifieldqa_en", "multifieldqa_en.jsonl", 64, Metric::Words),
    ("hotpotqa", "hotpotqa.jsonl", 32, Metric::Words),
    ("2wikimqa", "2wikimqa.jsonl", 32, Metric::Words),
    ("musique", "musique.jsonl", 32, Metric::Words),
    ("gov_report", "gov_report.jsonl", 512, Metric::Rouge),
    ("qmsum", "qmsum.jsonl", 512, Metric::Rouge),
    ("multi_news", "multi_news.jsonl", 512, Metric::Rouge),
    ("trec", "trec.jsonl", 64, Metric::Class),
    ("triviaqa", "triviaqa.jsonl", 32, Metric::Words),
    ("samsum", "samsum.jsonl", 128, Metric::Rouge),
    ("passage_count", "passage_count.jsonl", 32, Metric::Count),
    ("passage_retrieval_en", "passage_retrieval_en.jsonl", 32, Metric::Paragraph),
    ("lcc", "lcc.jsonl", 64, Metric::Code),
    ("repobench-p", "repobench-p.jsonl", 64, Metric::Code),
];

/// A question of LongBench.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongBenchSample {
    /// Prompt and right answers.
    pub sample: Sample,
    /// The classes that an answer may be, where that is the task.
    pub classes: Vec<String>,
}

/// Shortens a text to at most so many tokens by leaving out its middle, and counts what is left.
pub type Shorten<'a> = &'a dyn Fn(&str, usize) -> (String, usize);

impl LongBenchTask {
    /// Number of tasks.
    pub const COUNT: usize = TASKS.len();
    /// Names of tasks that are not here.
    pub const CHINESE: [&'static str; 5] =
        ["multifieldqa_zh", "dureader", "vcsum", "lsht", "passage_retrieval_zh"];

    /// All tasks, in LongBench's order.
    pub const ALL: [LongBenchTask; Self::COUNT] = {
        let mut all = [LongBenchTask(0); Self::COUNT];
        let mut index = 0;
        while index < Self::COUNT {
            all[index] = LongBenchTask(index);
            index += 1;
        }
        all
    };

    /// LongBench's name: `2wikimqa`.
    pub fn name(self) -> &'static str {
        TASKS[self.0].0
    }

    /// The file with its questions: `2wikimqa.jsonl`.
    pub(crate) fn file(self) -> &'static str {
        TASKS[self.0].1
    }

    /// Tokens that a model may answer with.
    pub fn answer_tokens(self) -> usize {
        TASKS[self.0].2
    }

    /// Whether the prompt is a message of a chat. The others are continued as they are: examples, or code.
    pub fn is_chat(self) -> bool {
        !matches!(self.name(), "trec" | "triviaqa" | "samsum" | "lcc" | "repobench-p")
    }

    /// The first samples of the task's file. They are the same for every seed. The middle of a prompt that has more
    /// than `options.tokens` with its answer is left out.
    ///
    /// # Errors
    /// The file is missing or damaged, it has fewer questions than samples, or no token is left for a prompt.
    pub fn samples(
        self,
        options: &SampleOptions,
        data: &Data,
        shorten: Shorten,
    ) -> Result<Vec<LongBenchSample>, TaskError> {
        options.check()?;
        let too_short = TaskError::TooShort { tokens: options.tokens, minimum: self.answer_tokens() + 2 };
        let most =
            options.tokens.checked_sub(self.answer_tokens()).filter(|most| *most > 1).ok_or(too_short)?;
        let path = data.path(DataFile::LongBench(self))?;
        let lines = data::read(path, options.samples, self)?;
        if lines.len() < options.samples {
            return Err(TaskError::TooFewQuestions {
                samples: options.samples,
                questions: lines.len(),
                path: path.to_owned(),
            });
        }
        Ok(lines.into_iter().map(|line| self.sample(line, most, shorten)).collect())
    }

    /// A question with at most `most` tokens before the answer.
    fn sample(self, line: Line, most: usize, shorten: Shorten) -> LongBenchSample {
        let [before, after] = self.prompt();
        let after = after.replace("{input}", &line.input);
        let (text, tokens) = shorten(&format!("{before}{}{after}", line.context), most);
        // Of a question that is longer than half of the prompt, the beginning may be missing: it is read with the text.
        let (context, question) = match text.strip_suffix(&after) {
            Some(context) => (context.to_owned(), after),
            None => (text, String::new()),
        };
        let sample = Sample {
            context,
            question,
            answer_prefix: String::new(),
            references: line.answers,
            needles: Vec::new(),
            tokens: tokens + self.answer_tokens(),
        };
        LongBenchSample { sample, classes: line.all_classes.unwrap_or_default() }
    }

    /// The prompt before and after the context.
    fn prompt(self) -> [String; 2] {
        let prompts: BTreeMap<&str, String> = serde_json::from_str(PROMPTS).unwrap_or_default();
        let prompt = prompts.get(self.name()).map_or("{context}", String::as_str);
        let (before, after) = prompt.split_once("{context}").unwrap_or((prompt, ""));
        [before.to_owned(), after.to_owned()]
    }

    /// Scores one answer, from 0 to 1: the best of all right answers. LongBench reports the mean of all samples in
    /// percent.
    pub fn score(self, answer: &str, references: &[String], classes: &[String]) -> f64 {
        let answer = match self.name() {
            // Models go on with further examples.
            "trec" | "triviaqa" | "samsum" => score::first_line(answer),
            _ => answer,
        };
        let score = |reference: &String| match TASKS[self.0].3 {
            Metric::Words => score::word_f1(answer, reference),
            Metric::Rouge => rouge::score(answer, reference),
            Metric::Class => score::class(answer, reference, classes),
            Metric::Paragraph => score::paragraph(answer, reference),
            Metric::Count => score::count(answer, reference),
            Metric::Code => score::code(answer, reference),
        };
        references.iter().map(score).fold(0.0, f64::max)
    }
}

impl fmt::Display for LongBenchTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_has_a_prompt_with_its_context() {
        for task in LongBenchTask::ALL {
            let [before, after] = task.prompt();
            assert!(before.len() > 20 && !after.contains("{context}"), "{task}: {before}");
            assert!(!before.contains("{input}"), "the context is read first");
            assert_eq!(task.file(), format!("{task}.jsonl"));
        }
    }
}
