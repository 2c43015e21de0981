//! Essays, questions and words: files that some tasks are made of.
//!
//! Files are untrusted. They have limits on their size, and each is checked when a task reads it.

mod files;
mod pairs;
mod questions;
mod words;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::Deserialize;

use self::files::{find, read_json, read_text};
pub(crate) use self::questions::{Question, Questions};
pub(crate) use self::words::Words;
use crate::haystack::WordText;
use crate::{LongBenchTask, TaskError};

/// A file with data, under the name that RULER's scripts, wonderwords or LongBench give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DataFile {
    /// Paul Graham's essays, which RULER's `download_paulgraham_essay.py` downloads: an object with `text`.
    Essays,
    /// SQuAD 2.0 (Rajpurkar, Jia and Liang 2018), the development set.
    Squad,
    /// HotpotQA (Yang et al. 2018), the development set with distractors.
    HotpotQa,
    /// Nouns, one a line: a list of the Python package wonderwords. It is used if all three lists are there.
    Nouns,
    /// Adjectives, as the nouns.
    Adjectives,
    /// Verbs, as the nouns.
    Verbs,
    /// The questions of a task of LongBench.
    LongBench(LongBenchTask),
}

impl DataFile {
    /// Every file.
    pub fn all() -> impl Iterator<Item = DataFile> {
        let others = [
            DataFile::Essays,
            DataFile::Squad,
            DataFile::HotpotQa,
            DataFile::Nouns,
            DataFile::Adjectives,
            DataFile::Verbs,
        ];
        others.into_iter().chain(LongBenchTask::ALL.map(DataFile::LongBench))
    }

    /// Its name: `squad.json`.
    pub fn name(self) -> &'static str {
        match self {
            DataFile::Essays => "PaulGrahamEssays.json",
            DataFile::Squad => "squad.json",
            DataFile::HotpotQa => "hotpotqa.json",
            DataFile::Nouns => "nounlist.txt",
            DataFile::Adjectives => "adjectivelist.txt",
            DataFile::Verbs => "verblist.txt",
            DataFile::LongBench(task) => task.file(),
        }
    }
}

impl fmt::Display for DataFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The data that tasks are made of. A file is read when a task first needs it.
#[derive(Debug)]
pub struct Data {
    folder: Option<PathBuf>,
    files: BTreeMap<DataFile, PathBuf>,
    essays: OnceLock<WordText>,
    squad: OnceLock<Questions>,
    hotpotqa: OnceLock<Questions>,
    words: OnceLock<Words>,
}

impl Data {
    /// Looks for the files of [`DataFile`] in a folder and up to four levels below it, so a copy of RULER's
    /// repository will do. Of files with the same name, one that is higher up is taken.
    ///
    /// # Errors
    /// The folder cannot be read, or has more than 20,000 files.
    pub fn open(folder: Option<&Path>) -> Result<Data, TaskError> {
        Ok(Data {
            folder: folder.map(Path::to_owned),
            files: folder.map(find).transpose()?.unwrap_or_default(),
            essays: OnceLock::new(),
            squad: OnceLock::new(),
            hotpotqa: OnceLock::new(),
            words: OnceLock::new(),
        })
    }

    /// Whether there is this file. It may still be unreadable or damaged.
    pub fn has(&self, file: DataFile) -> bool {
        self.files.contains_key(&file)
    }

    pub(crate) fn path(&self, file: DataFile) -> Result<&Path, TaskError> {
        let missing = || TaskError::MissingData { file, folder: self.folder.clone() };
        self.files.get(&file).map(PathBuf::as_path).ok_or_else(missing)
    }

    /// The essays, with single spaces between words.
    pub(crate) fn essays(&self) -> Result<&WordText, TaskError> {
        #[derive(Deserialize)]
        struct Essays {
            text: String,
        }
        read_once(&self.essays, || {
            let path = self.path(DataFile::Essays)?;
            let essays = WordText::new(&read_json::<Essays>(path)?.text);
            if essays.is_blank() {
                return Err(damaged(path, "it has no text"));
            }
            Ok(essays)
        })
    }

    /// The questions of SQuAD.
    pub(crate) fn squad(&self) -> Result<&Questions, TaskError> {
        read_once(&self.squad, || Questions::squad(self.path(DataFile::Squad)?))
    }

    /// The questions of HotpotQA.
    pub(crate) fn hotpotqa(&self) -> Result<&Questions, TaskError> {
        read_once(&self.hotpotqa, || Questions::hotpotqa(self.path(DataFile::HotpotQa)?))
    }

    /// The lists of wonderwords if all three are there, or else our own.
    pub(crate) fn words(&self) -> Result<&Words, TaskError> {
        let lists = [DataFile::Nouns, DataFile::Adjectives, DataFile::Verbs];
        read_once(&self.words, || {
            if !lists.iter().all(|&list| self.has(list)) {
                return Ok(Words::ours());
            }
            let [nouns, adjectives, verbs] = lists.map(|list| self.path(list).and_then(read_list));
            Ok(Words::new(nouns?, adjectives?, verbs?))
        })
    }
}

/// The words of a file, one a line.
fn read_list(path: &Path) -> Result<Vec<String>, TaskError> {
    /// Fewer do not make a prompt with common and with rare words.
    const MIN_WORDS: usize = 40;
    let text = read_text(path)?;
    let words: Vec<&str> = text.lines().map(str::trim_end).filter(|word| !word.is_empty()).collect();
    let different = words.iter().collect::<HashSet<_>>().len();
    if different < MIN_WORDS {
        return Err(damaged(path, format!("it has {different} different words, but {MIN_WORDS} are needed")));
    }
    Ok(words.into_iter().map(str::to_owned).collect())
}

/// The value, which is read the first time. A failure is not remembered.
fn read_once<T>(value: &OnceLock<T>, read: impl FnOnce() -> Result<T, TaskError>) -> Result<&T, TaskError> {
    if let Some(value) = value.get() {
        return Ok(value);
    }
    let new = read()?;
    Ok(value.get_or_init(|| new))
}

fn damaged(path: &Path, problem: impl Into<String>) -> TaskError {
    TaskError::Data { path: path.to_owned(), problem: problem.into() }
}
