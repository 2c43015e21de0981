//! The tasks, and their texts as tokens of a model.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::Result;
use longhand::ChatFormat;
use models::chat::Message;
use tasks::{Data, RulerTask, Sample, SampleOptions, TaskError, needle, passkey};
use twox_hash::XxHash3_64;

use super::{EvalArgs, books};
use crate::app::App;
use crate::examine::Text;
use crate::failure::Failure;
use crate::format;
use crate::progress::ProgressBar;
use crate::suggest::did_you_mean;

/// Tokens of a book that follow the text: one that is read, and 128 that are predicted.
pub const FOLLOWING: usize = 129;

/// A task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// One of RULER's.
    Ruler(RulerTask),
    /// A number at different depths of a text.
    Needle,
    /// A pass key of so many digits in repeated sentences.
    Passkey(usize),
    /// The next tokens of a book.
    Perplexity,
}

impl Task {
    fn all() -> Vec<Task> {
        let mut all: Vec<Task> = RulerTask::ALL.into_iter().map(Task::Ruler).collect();
        all.push(Task::Needle);
        all.extend([passkey::SHORT, passkey::LONG].map(Task::Passkey));
        all.push(Task::Perplexity);
        all
    }

    /// How deep in the text the answer is, from 0 to 1, where that is the task.
    fn depth(self, sample: usize, samples: u32) -> Option<f64> {
        let is_deep = matches!(self, Task::Needle | Task::Passkey(_));
        let depth = if samples == 1 { 0.5 } else { sample as f64 / f64::from(samples - 1) };
        is_deep.then_some(depth)
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Task::Ruler(task) => task.fmt(f),
            Task::Needle => f.write_str("needle"),
            Task::Passkey(digits) => write!(f, "passkey_{digits}"),
            Task::Perplexity => f.write_str("perplexity"),
        }
    }
}

/// Parses the name of a task, or of several.
pub fn parse(text: &str) -> Result<Vec<Task>, Failure> {
    let is_meant = |task: &Task| match text {
        "ruler" => matches!(task, Task::Ruler(_)),
        "passkey" => matches!(task, Task::Passkey(_)),
        name => task.to_string() == name,
    };
    let tasks: Vec<Task> = Task::all().into_iter().filter(is_meant).collect();
    if !tasks.is_empty() {
        return Ok(tasks);
    }
    let mut names = vec!["ruler".to_owned(), "passkey".to_owned()];
    names.extend(Task::all().iter().map(Task::to_string));
    let similar = did_you_mean(text, names.iter().map(String::as_str));
    Err(Failure::usage(format!("no such task{similar}"), format!("the tasks are {}", names.join(", "))))
}

/// A text to be read, and what comes then.
pub struct Exercise {
    /// The task.
    pub task: Task,
    /// The length that was asked for, in tokens.
    pub length: usize,
    /// The number of the text, for this task and length.
    pub sample: usize,
    /// How deep in the text the answer is, from 0 to 1, where that is the task.
    pub depth: Option<f64>,
    /// What is read and asked.
    pub content: Content,
}

/// What is read, and what comes then.
pub enum Content {
    /// A text with one question, and the score of an answer, from 0 to 1.
    Question(Text, Box<dyn Fn(&str) -> f64>),
    /// A text, and the tokens that are to be predicted.
    Prediction(Vec<u32>, Vec<u32>),
}

impl Exercise {
    /// Tokens that are read at once.
    pub fn document(&self) -> &[u32] {
        match &self.content {
            Content::Question(text, _) => &text.document,
            Content::Prediction(text, _) => text,
        }
    }

    /// A checksum of the whole prompt.
    pub fn checksum(&self) -> String {
        let rest = match &self.content {
            Content::Question(text, _) => &text.questions[0],
            Content::Prediction(_, rest) => rest,
        };
        let tokens = self.document().iter().chain(rest);
        let bytes: Vec<u8> = tokens.flat_map(|token| token.to_le_bytes()).collect();
        format!("{:016x}", XxHash3_64::oneshot(&bytes))
    }

    /// Tokens of a session for all of it.
    pub fn context(&self) -> usize {
        match &self.content {
            Content::Question(text, _) => text.context(),
            Content::Prediction(text, rest) => text.len() + rest.len(),
        }
    }
}

/// All texts, or those of the part of the work that is asked for: by length, then by number, so that all tasks have about
/// as many results when the evaluation is stopped. Tasks that have no such texts are left out, with a note.
pub fn exercises(app: &App, args: &EvalArgs, format: &ChatFormat) -> Result<Vec<Exercise>> {
    let source = Source { app, args, format, data: Data::open(args.data.as_deref())? };
    let mut tasks: Vec<Task> = Vec::new();
    for task in args.tasks.iter().flatten() {
        if !tasks.contains(task) {
            tasks.push(*task);
        }
    }
    let lengths: BTreeSet<usize> = args.lengths.iter().copied().collect();
    let mut bar = ProgressBar::new(&app.console, "making texts");
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
                    app.console.note(&format!(
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

/// What texts are made from.
struct Source<'a> {
    app: &'a App,
    args: &'a EvalArgs,
    format: &'a ChatFormat,
    data: Data,
}

impl Source<'_> {
    /// The texts of a task by their numbers, those that are wanted, or why there are none.
    fn contents(
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
            Task::Needle => {
                let depths =
                    (0..options.samples).filter_map(|sample| Task::Needle.depth(sample, args.samples));
                let depths = depths.collect();
                let grid = needle::Grid { lengths: vec![length], depths, seed: options.seed };
                let samples = needle::samples(&grid, data, &count);
                let samples = samples.map(|cells| cells.into_iter().map(|cell| cell.sample).collect());
                self.questions(samples, is_wanted, needle::ANSWER_TOKENS, needle::score)
            }
            Task::Passkey(digits) => {
                let samples = passkey::samples(digits, &options, data, &count);
                self.questions(samples, is_wanted, passkey::answer_tokens(digits), passkey::score)
            }
            Task::Perplexity => {
                let texts = books::texts(self.app, args.data.as_deref(), &options, self.format.tokenizer())?;
                let prediction = |(number, mut text): (usize, Vec<u32>)| {
                    let rest = text.split_off(text.len() - FOLLOWING.min(text.len() / 2));
                    (number, Content::Prediction(text, rest))
                };
                let wanted = |texts: Vec<Vec<u32>>| {
                    let texts = texts.into_iter().enumerate().filter(|(number, _)| is_wanted(*number));
                    texts.map(prediction).collect()
                };
                Ok(texts.map(wanted))
            }
        }
    }

    fn questions(
        &self,
        samples: Result<Vec<Sample>, TaskError>,
        is_wanted: &dyn Fn(usize) -> bool,
        answer_limit: usize,
        score: impl Fn(&str, &[String]) -> f64 + Copy + 'static,
    ) -> Result<Result<Vec<(usize, Content)>, String>> {
        let samples = match samples {
            Err(TaskError::MissingData { file, .. }) => {
                return Ok(Err(format!("it needs {file}; give a folder that has it with --data")));
            }
            Err(error @ (TaskError::TooShort { .. } | TaskError::TooFewQuestions { .. })) => {
                return Ok(Err(error.to_string()));
            }
            samples => samples?,
        };
        let content = |(number, sample): (usize, Sample)| {
            let text = self.text(&sample, answer_limit)?;
            let score = Box::new(move |answer: &str| score(answer, &sample.references));
            Ok((number, Content::Question(text, score)))
        };
        let wanted = samples.into_iter().enumerate().filter(|(number, _)| is_wanted(*number));
        wanted.map(content).collect::<Result<_>>().map(Ok)
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
            return Err(Failure::new(
                "the model's chat template does not write messages as they are",
                "use a model file with another chat template",
            )
            .into());
        };
        let mut document = self.format.encode(&prompt)?;
        let mut question = self.format.encode(&tail)?;
        question.extend(self.format.encode_text(answer_prefix)?);
        if self.args.query_aware {
            document.append(&mut question);
        }
        Ok(Text { document, questions: vec![question], answer_limit })
    }
}
