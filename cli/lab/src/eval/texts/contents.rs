//! The texts of the tasks as tokens of a model, with what is asked about them.

use std::collections::BTreeSet;
use std::rc::Rc;

use anyhow::Result;
use longhand::{ChatFormat, Message};
use tasks::{Data, LongBenchSample, LongBenchTask, Sample, SampleOptions, TaskError, alike, needle, passkey};
use terminal::failure::Failure;
use terminal::format;
use terminal::progress::ProgressBar;

use crate::Lab;
use crate::eval::EvalArgs;
use crate::eval::compare::agreement;
use crate::eval::compare::sources::Told;
use crate::eval::texts::exercise::{Content, Exercise, Question, SourceTask, Task};
use crate::eval::texts::{books, facts};
use crate::examine::Text;

/// Tokens of a book that follow the text: one that is read, and 128 that are predicted.
const FOLLOWING: usize = 129;

/// What texts are made from.
pub struct Source<'a> {
    pub lab: &'a Lab,
    pub args: &'a EvalArgs,
    pub format: &'a ChatFormat,
    pub data: Data,
}

impl Source<'_> {
    /// The texts of a task by their numbers, those that are wanted, or why there are none.
    pub fn contents(
        &self,
        task: Task,
        length: usize,
        is_wanted: &dyn Fn(usize) -> bool,
    ) -> Result<Result<Vec<(usize, Content)>, String>> {
        let Source { args, data, .. } = self;
        let options =
            SampleOptions { tokens: length, samples: args.samples as usize, seed: args.seed.into() };
        let count = |text: &str| self.format.count(text).unwrap_or(0);
        match task {
            Task::Ruler(task) => {
                let samples = task.samples(&options, data, &count);
                self.questions(samples, is_wanted, task.answer_tokens(), move |answer, right| {
                    task.score(answer, right)
                })
            }
            Task::Sources(task) => self.sources(task, &options, is_wanted),
            Task::LongBench(task) => self.long_bench(task, &options, is_wanted),
            Task::Needle => {
                let samples = self.needles(&options, &count);
                self.questions(samples, is_wanted, needle::ANSWER_TOKENS, needle::score)
            }
            Task::Passkey(digits) => {
                let samples = passkey::samples(digits, &options, data, &count);
                self.questions(samples, is_wanted, passkey::answer_tokens(digits), passkey::score)
            }
            Task::Perplexity => self.books(&options, is_wanted, |mut text| {
                let rest = text.split_off(text.len() - FOLLOWING.min(text.len() / 2));
                Ok(Content::Prediction(text, rest))
            }),
            Task::Agreement => self.agreement(&options, is_wanted),
            Task::Retention => self.books(&options, is_wanted, |text| Ok(Content::Retention(text))),
            Task::AttentionLoss => {
                // The token whose attention is measured is one more.
                let options = SampleOptions { tokens: length.saturating_add(1), ..options };
                self.books(&options, is_wanted, |mut text| {
                    let next = text.pop().unwrap_or_default();
                    Ok(Content::AttentionLoss(text, [next]))
                })
            }
        }
    }

    /// Texts with a number at different depths.
    fn needles(
        &self,
        options: &SampleOptions,
        count: &dyn Fn(&str) -> usize,
    ) -> Result<Vec<Sample>, TaskError> {
        let depths = (0..options.samples).filter_map(|sample| Task::Needle.depth(sample, self.args.samples));
        let grid =
            needle::Grid { lengths: vec![options.tokens], depths: depths.collect(), seed: options.seed };
        let cells = needle::samples(&grid, &self.data, count)?;
        Ok(cells.into_iter().map(|cell| cell.sample).collect())
    }

    /// Texts that tell where the answer to their question stands, or why there are none.
    fn sources(
        &self,
        task: SourceTask,
        options: &SampleOptions,
        is_wanted: &dyn Fn(usize) -> bool,
    ) -> Result<Result<Vec<(usize, Content)>, String>> {
        let count = |text: &str| self.format.count(text).unwrap_or(0);
        type Score = Box<dyn Fn(&str, &[String]) -> f64>;
        let (samples, limit, score): (_, _, Score) = match task {
            SourceTask::Ruler(task) => (
                task.samples(options, &self.data, &count),
                task.answer_tokens(),
                Box::new(move |answer, right| task.score(answer, right)),
            ),
            SourceTask::Needle => {
                (self.needles(options, &count), needle::ANSWER_TOKENS, Box::new(needle::score))
            }
            SourceTask::Passkey(digits) => (
                passkey::samples(digits, options, &self.data, &count),
                passkey::answer_tokens(digits),
                Box::new(passkey::score),
            ),
            SourceTask::Facts => {
                (Ok(facts::samples(options, &count)), facts::ANSWER_TOKENS, Box::new(facts::score))
            }
            SourceTask::FactsAlike => {
                (Ok(facts::samples_alike(options, &count)), facts::ANSWER_TOKENS, Box::new(facts::score))
            }
            SourceTask::Alike(task) => (
                alike::samples(task, options, &self.data, &count),
                alike::answer_tokens(task),
                Box::new(move |answer, right| alike::score(task, answer, right)),
            ),
        };
        let samples = match possible(samples)? {
            Ok(samples) => samples,
            Err(reason) => return Ok(Err(reason)),
        };
        let score = Rc::new(score);
        wanted(samples, is_wanted, |sample| {
            // As in the program, the whole answer is the model's own.
            let sample = Sample { answer_prefix: String::new(), ..sample };
            let text = self.text(&sample, limit)?;
            let Some(told) = Told::new(self.format, &text.document, &sample) else {
                return Err(not_as_it_is().into());
            };
            let score = score.clone();
            let score = Box::new(move |answer: &str| score(answer, &sample.references));
            Ok(Content::Question(Question { text, score, told: Some(told) }))
        })
    }

    /// Parts of books, or why there are none.
    fn books(
        &self,
        options: &SampleOptions,
        is_wanted: &dyn Fn(usize) -> bool,
        content: impl Fn(Vec<u32>) -> Result<Content>,
    ) -> Result<Result<Vec<(usize, Content)>, String>> {
        let texts = match books::texts(self.lab, self.args.data.as_deref(), options, self.format.tokenizer())?
        {
            Ok(texts) => texts,
            Err(reason) => return Ok(Err(reason)),
        };
        wanted(texts, is_wanted, content)
    }

    /// Parts of books to be summarised.
    fn agreement(
        &self,
        options: &SampleOptions,
        is_wanted: &dyn Fn(usize) -> bool,
    ) -> Result<Result<Vec<(usize, Content)>, String>> {
        let answer_limit = self.args.answer_tokens;
        let around = self.format.count(agreement::QUESTION)? + answer_limit;
        let tokens = match options.tokens.checked_sub(around) {
            Some(tokens) if tokens > 0 => tokens,
            _ => return Ok(Err(format!("the question and the answer alone have {around}"))),
        };
        self.books(&SampleOptions { tokens, ..*options }, is_wanted, |text| {
            // A part may begin and end within a character.
            let text = String::from_utf8_lossy(&self.format.tokenizer().decode(&text, false)).into_owned();
            let sample = Sample {
                context: text
                    .trim_matches(|c: char| c.is_whitespace() || c == char::REPLACEMENT_CHARACTER)
                    .to_owned(),
                question: agreement::QUESTION.to_owned(),
                answer_prefix: String::new(),
                references: Vec::new(),
                needles: Vec::new(),
                tokens: options.tokens,
            };
            Ok(Content::Agreement(self.text(&sample, answer_limit)?))
        })
    }

    fn questions(
        &self,
        samples: Result<Vec<Sample>, TaskError>,
        is_wanted: &dyn Fn(usize) -> bool,
        answer_limit: usize,
        score: impl Fn(&str, &[String]) -> f64 + Copy + 'static,
    ) -> Result<Result<Vec<(usize, Content)>, String>> {
        let samples = match possible(samples)? {
            Ok(samples) => samples,
            Err(reason) => return Ok(Err(reason)),
        };
        wanted(samples, is_wanted, |sample| {
            let text = self.text(&sample, answer_limit)?;
            let score = Box::new(move |answer: &str| score(answer, &sample.references));
            Ok(Content::Question(Question { text, score, told: None }))
        })
    }

    fn long_bench(
        &self,
        task: LongBenchTask,
        options: &SampleOptions,
        is_wanted: &dyn Fn(usize) -> bool,
    ) -> Result<Result<Vec<(usize, Content)>, String>> {
        let samples =
            match possible(task.samples(options, &self.data, &|text, most| self.shorten(text, most)))? {
                Ok(samples) => samples,
                Err(reason) => return Ok(Err(reason)),
            };
        wanted(samples, is_wanted, |LongBenchSample { sample, classes }| {
            let text = match task.is_chat() {
                true => self.text(&sample, task.answer_tokens())?,
                false => self.plain_text(&sample, task.answer_tokens())?,
            };
            let score = Box::new(move |answer: &str| task.score(answer, &sample.references, &classes));
            Ok(Content::Question(Question { text, score, told: None }))
        })
    }

    /// A text without its middle if it has more than `most` tokens, and how many are left.
    fn shorten(&self, text: &str, most: usize) -> (String, usize) {
        let tokens = self.format.encode_text(text).unwrap_or_default();
        if tokens.len() <= most {
            return (text.to_owned(), tokens.len());
        }
        let half = most / 2;
        let ends = [&tokens[..half], &tokens[tokens.len() - half..]];
        let text =
            ends.map(|end| String::from_utf8_lossy(&self.format.tokenizer().decode(end, false)).into_owned());
        (text.concat(), 2 * half)
    }

    /// A prompt without a chat template, split where the question begins.
    fn plain_text(&self, sample: &Sample, answer_limit: usize) -> Result<Text> {
        let tokenizer = self.format.tokenizer();
        let document = tokenizer.encode(&sample.context, true, false)?;
        Ok(self.split(document, self.format.encode_text(&sample.question)?, answer_limit))
    }

    /// A prompt as tokens. With --query-aware the question is a part of what is read first.
    fn split(&self, mut document: Vec<u32>, mut question: Vec<u32>, answer_limit: usize) -> Text {
        if self.args.query_aware {
            document.append(&mut question);
        }
        Text { document, questions: vec![question], answer_limit }
    }

    /// The prompt of a sample, split where the question begins; at its end if the question is read with the text.
    fn text(&self, sample: &Sample, answer_limit: usize) -> Result<Text> {
        let Sample { context, question, answer_prefix, .. } = sample;
        let mut prompt = self.format.prompt(&[Message::user(format!("{context}{question}"))])?;
        let tail = prompt.message_ranges().last().cloned().and_then(|range| {
            // Many templates remove white space around messages.
            let written = &prompt.text[range.clone()];
            let context = if written.starts_with(context) { context } else { context.trim_start() };
            let question = written.strip_prefix(context)?;
            question.starts_with(sample.question.trim_end()).then_some(())?;
            prompt.split_off(range.start + context.len())
        });
        let Some(tail) = tail else {
            return Err(not_as_it_is().into());
        };
        let document = self.format.encode(&prompt)?;
        let mut question = self.format.encode(&tail)?;
        question.extend(self.format.encode_text(answer_prefix)?);
        Ok(self.split(document, question, answer_limit))
    }
}

/// The error of a chat template that changes what it is given.
fn not_as_it_is() -> Failure {
    Failure::new(
        "the model's chat template does not write messages as they are",
        "use a model file with another chat template",
    )
}

/// The error of a task, with flags in its hint.
fn failed(error: TaskError) -> Failure {
    let hint = match error {
        TaskError::TooShort { minimum, .. } => format!("give at least {minimum} tokens with -c"),
        TaskError::TooFewQuestions { questions, .. } => format!("give at most --samples {questions}"),
        TaskError::Option { .. } => "give another value".to_owned(),
        _ => "check the folder that is given with --data".to_owned(),
    };
    Failure::new(error.to_string(), hint)
}

/// The contents of those samples that are wanted, by their numbers.
fn wanted<T>(
    samples: Vec<T>,
    is_wanted: &dyn Fn(usize) -> bool,
    content: impl Fn(T) -> Result<Content>,
) -> Result<Result<Vec<(usize, Content)>, String>> {
    let wanted = samples.into_iter().enumerate().filter(|(number, _)| is_wanted(*number));
    wanted.map(|(number, sample)| Ok((number, content(sample)?))).collect::<Result<_>>().map(Ok)
}

/// Samples, or why there are none.
fn possible<T>(samples: Result<Vec<T>, TaskError>) -> Result<Result<Vec<T>, String>> {
    match samples {
        Err(TaskError::MissingData { file, .. }) => {
            Ok(Err(format!("it needs {file}; give a folder that has it with --data")))
        }
        Err(error @ (TaskError::TooShort { .. } | TaskError::TooFewQuestions { .. })) => {
            Ok(Err(error.to_string()))
        }
        samples => Ok(Ok(samples.map_err(failed)?)),
    }
}

/// All texts, or those of the part of the work that is asked for: by length, then by number, so that all tasks have
/// about as many results when the evaluation is stopped. Tasks that have no such texts are left out, with a note.
pub fn exercises(lab: &Lab, args: &EvalArgs, format: &ChatFormat) -> Result<Vec<Exercise>> {
    let source = Source { lab, args, format, data: Data::open(args.data.as_deref()).map_err(failed)? };
    let mut tasks: Vec<Task> = Vec::new();
    for task in args.tasks.iter().flatten() {
        if !tasks.contains(task) {
            tasks.push(*task);
        }
    }
    let lengths: BTreeSet<usize> = args.lengths.iter().copied().collect();
    let mut bar = ProgressBar::new(&lab.console, "making texts");
    let mut exercises = Vec::new();
    let all = lengths.len() * tasks.len();
    for (place, &task) in tasks.iter().enumerate() {
        for (round, &length) in lengths.iter().enumerate() {
            bar.show_share((place * lengths.len() + round) as f64 / all as f64, &task.to_string());
            let is_mine = |sample: usize| match args.shard {
                None => true,
                Some(shard) => (sample * all + place * lengths.len() + round) % shard.of + 1 == shard.number,
            };
            let contents = match source.contents(task, length, &is_mine)? {
                Ok(contents) => contents,
                Err(reason) => {
                    lab.console.note(&format!(
                        "note: {task} is left out at {} tokens: {reason}",
                        format::count(length)
                    ));
                    continue;
                }
            };
            for (sample, content) in contents {
                let depth = task.depth(sample, args.samples);
                exercises.push((place, Exercise { task, length, sample, depth, content }));
            }
        }
    }
    exercises.sort_by_key(|(place, exercise)| (exercise.length, exercise.sample, *place));
    Ok(exercises.into_iter().map(|(_, exercise)| exercise).collect())
}
