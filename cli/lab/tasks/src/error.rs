//! Errors.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::DataFile;

/// A task cannot be generated.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The text is too short for the task.
    #[error("{tokens} tokens are too few: the text cannot be shorter than {minimum} tokens")]
    TooShort {
        /// The tokens that were asked for, prompt and answer.
        tokens: usize,
        /// Tokens of the shortest text that was tried. A text of this length is possible, or nearly so.
        minimum: usize,
    },
    /// An option is out of its range.
    #[error("{option} is {value}, but must be {range}")]
    Option {
        /// The option: `tokens`, `seed`, `digits` or `depth`.
        option: &'static str,
        /// Its value.
        value: String,
        /// The values that are possible.
        range: String,
    },
    /// There are fewer questions than samples.
    #[error("{samples} samples are too many: {} has {questions} questions", path.display())]
    TooFewQuestions {
        /// The samples that were asked for.
        samples: usize,
        /// The questions that there are.
        questions: usize,
        /// Where they are.
        path: PathBuf,
    },
    /// The task needs a file with data.
    #[error("{file} is needed{}", not_in(folder.as_deref()))]
    MissingData {
        /// The file.
        file: DataFile,
        /// Where it was looked for. `None` if there is no folder with data.
        folder: Option<PathBuf>,
    },
    /// The system refuses to read a file or a folder.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file or folder with data is not what it should be.
    #[error("{}: {problem}", path.display())]
    Data {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

fn not_in(folder: Option<&Path>) -> String {
    folder.map(|folder| format!(", and is not in {}", folder.display())).unwrap_or_default()
}
