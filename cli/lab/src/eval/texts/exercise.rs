//! The tasks, and what is read and asked in them.

use std::fmt;

use tasks::alike::AlikeTask;
use tasks::{LongBenchTask, RulerTask, passkey};
use terminal::failure::Failure;
use terminal::suggest::did_you_mean;
use twox_hash::XxHash3_64;

use crate::eval::compare::sources::Told;
use crate::examine::Text;

/// A task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// One of RULER's.
    Ruler(RulerTask),
    /// One of LongBench's.
    LongBench(LongBenchTask),
    /// A number at different depths of a text.
    Needle,
    /// A pass key of so many digits in repeated sentences.
    Passkey(usize),
    /// The next tokens of a book.
    Perplexity,
    /// The summary of a part of a book, compared with that of a full cache.
    Agreement,
    /// The positions that are kept of a part of a book.
    Retention,
    /// The attention of a book's next token that is lost.
    AttentionLoss,
    /// Which sentence the answer to a question comes from.
    Sources(SourceTask),
}

/// What is asked where the sources of answers are measured: tasks whose texts tell where the answer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceTask {
    /// One of RULER's with needles, or of its questions.
    Ruler(RulerTask),
    /// As [`Task::Needle`].
    Needle,
    /// As [`Task::Passkey`].
    Passkey(usize),
    /// Facts of the kinds that the embedded model was trained on.
    Facts,
    /// The same where other sentences have the value and the words of the question, too.
    FactsAlike,
    /// About one of many places that are alike.
    Alike(AlikeTask),
}

impl SourceTask {
    fn all() -> impl Iterator<Item = SourceTask> {
        let of_ruler = RulerTask::ALL.into_iter().filter(|task| task.tells_needles()).map(SourceTask::Ruler);
        [SourceTask::Facts, SourceTask::FactsAlike, SourceTask::Needle, SourceTask::Passkey(passkey::SHORT)]
            .into_iter()
            .chain(AlikeTask::ALL.map(SourceTask::Alike))
            .chain(of_ruler)
    }
}

impl fmt::Display for SourceTask {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("sources_")?;
        match self {
            SourceTask::Ruler(task) => Task::Ruler(*task).fmt(f),
            SourceTask::Needle => Task::Needle.fmt(f),
            SourceTask::Passkey(digits) => Task::Passkey(*digits).fmt(f),
            SourceTask::Facts => f.write_str("facts"),
            SourceTask::FactsAlike => f.write_str("facts_alike"),
            SourceTask::Alike(task) => task.fmt(f),
        }
    }
}

impl Task {
    fn all() -> Vec<Task> {
        let mut all: Vec<Task> = RulerTask::ALL.into_iter().map(Task::Ruler).collect();
        all.push(Task::Needle);
        all.extend([passkey::SHORT, passkey::LONG].map(Task::Passkey));
        all.extend([Task::Perplexity, Task::Agreement, Task::Retention, Task::AttentionLoss]);
        all.extend(LongBenchTask::ALL.map(Task::LongBench));
        all.extend(SourceTask::all().map(Task::Sources));
        all
    }

    /// How deep in the text the answer is, from 0 to 1, where that is the task.
    pub fn depth(self, sample: usize, samples: u32) -> Option<f64> {
        let is_deep = matches!(
            self,
            Task::Needle | Task::Passkey(_) | Task::Sources(SourceTask::Needle | SourceTask::Passkey(_))
        );
        let depth = if samples == 1 { 0.5 } else { sample as f64 / f64::from(samples - 1) };
        is_deep.then_some(depth)
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Task::Ruler(task) => task.fmt(f),
            Task::LongBench(task) => task.fmt(f),
            Task::Needle => f.write_str("needle"),
            Task::Passkey(digits) => write!(f, "passkey_{digits}"),
            Task::Perplexity => f.write_str("perplexity"),
            Task::Agreement => f.write_str("agreement"),
            Task::Retention => f.write_str("retention"),
            Task::AttentionLoss => f.write_str("attention-loss"),
            Task::Sources(task) => task.fmt(f),
        }
    }
}

/// Parses the name of a task, or of several.
pub fn parse(text: &str) -> Result<Vec<Task>, Failure> {
    let is_meant = |task: &Task| match text {
        "ruler" => matches!(task, Task::Ruler(_)),
        "longbench" => matches!(task, Task::LongBench(_)),
        "passkey" => matches!(task, Task::Passkey(_)),
        "sources" => matches!(task, Task::Sources(_)),
        name => task.to_string() == name,
    };
    let tasks: Vec<Task> = Task::all().into_iter().filter(is_meant).collect();
    if !tasks.is_empty() {
        return Ok(tasks);
    }
    if LongBenchTask::CHINESE.contains(&text) {
        return Err(Failure::usage(
            "scores of LongBench's Chinese tasks need a dictionary of Chinese words, which longhand does not have",
            "choose other tasks; longbench is all that are not in Chinese",
        ));
    }
    let mut names = ["ruler", "passkey", "longbench", "sources"].map(str::to_owned).to_vec();
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

/// A text with one question.
pub struct Question {
    /// The text and the question.
    pub text: Text,
    /// The score of an answer, from 0 to 1.
    pub score: Box<dyn Fn(&str) -> f64>,
    /// Where in the text the answer stands, if it is measured where answers come from.
    pub told: Option<Told>,
}

/// What is read, and what comes then.
pub enum Content {
    /// A text with one question.
    Question(Question),
    /// A text, and the tokens that are to be predicted.
    Prediction(Vec<u32>, Vec<u32>),
    /// A text with one question, whose answer is compared with that of a full cache.
    Agreement(Text),
    /// A text, and nothing more.
    Retention(Vec<u32>),
    /// A text, and the token whose attention to it is measured.
    AttentionLoss(Vec<u32>, [u32; 1]),
}

impl Exercise {
    /// Tokens that are read at once.
    pub fn document(&self) -> &[u32] {
        match &self.content {
            Content::Question(Question { text, .. }) | Content::Agreement(text) => &text.document,
            Content::Prediction(text, _) | Content::Retention(text) | Content::AttentionLoss(text, _) => text,
        }
    }

    /// Whether something is asked about the text.
    pub fn has_question(&self) -> bool {
        matches!(self.content, Content::Question(_) | Content::Agreement(_))
    }

    /// A checksum of the whole prompt.
    pub fn checksum(&self) -> String {
        let rest = match &self.content {
            Content::Question(Question { text, .. }) | Content::Agreement(text) => {
                text.questions[0].as_slice()
            }
            Content::Prediction(_, rest) => rest,
            Content::AttentionLoss(_, next) => next,
            Content::Retention(_) => &[],
        };
        let tokens = self.document().iter().chain(rest);
        let bytes: Vec<u8> = tokens.flat_map(|token| token.to_le_bytes()).collect();
        format!("{:016x}", XxHash3_64::oneshot(&bytes))
    }

    /// Tokens of a session for all of it.
    pub fn context(&self) -> usize {
        match &self.content {
            Content::Question(Question { text, .. }) | Content::Agreement(text) => text.context(),
            Content::Prediction(text, rest) => text.len() + rest.len(),
            Content::Retention(text) | Content::AttentionLoss(text, _) => text.len(),
        }
    }
}
