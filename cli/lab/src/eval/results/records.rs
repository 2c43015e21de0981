//! The file of results: a line of JSON for each answer. Lines are appended, so that nothing is lost when an
//! evaluation is stopped; the next run with the same folder leaves out what is there.

use std::collections::HashMap;
use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::eval::caches::Reading;
use models::file_lock::LockFile;
use models::regular_file;
use serde::{Deserialize, Serialize};
use terminal::failure::Failure;

use crate::eval::compare::agreement::Agreement;
use crate::eval::compare::attention_loss::AttentionLoss;
use crate::eval::compare::prediction::Prediction;
use crate::eval::compare::sources::SourceRanks;
use crate::eval::results::outputs;

/// Longest line that is read, in bytes.
const MAX_LINE: usize = 1 << 20;
/// How every line begins.
const BEGIN: &str = "{\"task\":\"";

/// A part of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 1 to `of`.
    pub number: usize,
    /// How many parts there are.
    pub of: usize,
}

/// Parses `2/8`.
pub fn parse_shard(text: &str) -> Result<Shard, Failure> {
    let parse =
        |(number, of): (&str, &str)| Some(Shard { number: number.parse().ok()?, of: of.parse().ok()? });
    let shard = text.split_once('/').and_then(parse).filter(|shard| (1..=shard.of).contains(&shard.number));
    shard.ok_or_else(|| Failure::usage("not a part of the work", "give two numbers, such as 2/8"))
}

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The task's name.
    pub task: String,
    /// The model's name.
    pub model: String,
    /// What identifies the model's file.
    pub fingerprint: String,
    /// The policy as given.
    pub cache: String,
    /// How many KV heads keep everything, and a checksum of which, where the policy uses a head profile.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub heads: String,
    /// The memory as given; empty for a full cache.
    pub budget: String,
    /// The type of keys.
    pub type_k: String,
    /// The type of values.
    pub type_v: String,
    /// How the text was read.
    pub prefill: String,
    /// Length of the text in tokens, as given.
    pub context: usize,
    /// Seed of the texts.
    pub seed: u32,
    /// The number of the text.
    pub sample: usize,
    /// Whether the question was known while the text was read; never where there is no question.
    pub query_aware: bool,
}

/// How a text was read, by [`Key::prefill`], if not exactly.
pub fn inexact(prefill: &str) -> Option<&str> {
    Some(prefill).filter(|name| *name != Reading::Exact.name())
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What was asked.
    #[serde(flatten)]
    pub key: Key,
    /// A checksum of the prompt.
    pub text: String,
    /// The version of the program that computed the answer.
    pub version: String,
    /// How deep in the text the answer is, from 0 to 1, where that is the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<f64>,
    /// The policy with all parameters.
    pub policy: String,
    /// Tokens that were read before the question.
    pub tokens: usize,
    /// Bytes of the KV cache after the text.
    pub kv_bytes: usize,
    /// The same as a share, from 0 to 1, of a full cache in f16.
    pub kv_share: f64,
    /// From 0 to 1; 0 where the task has no score.
    pub score: f64,
    /// What the model has answered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub answer: String,
    /// What it has predicted, where that was the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
    /// How far it agrees with a full cache, where that was the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Agreement>,
    /// The share of rows that are kept of each part of the text, where that was the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Vec<f64>>,
    /// The attention that is lost, where that was the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_loss: Option<AttentionLoss>,
    /// Which sentences the answer seems to come from, where that was the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<SourceRanks>,
}

/// The results in a folder.
pub struct Records {
    folder: PathBuf,
    path: PathBuf,
    file: LockFile,
    records: Vec<Record>,
    /// The checksums of the prompts that were answered.
    known: HashMap<Key, String>,
}

impl Records {
    /// Opens the results in a folder, which is made if there is none. `shard`: the part whose answers are added.
    ///
    /// # Errors
    /// Where the folder cannot be written, a line is none of a result, or another program adds to the same file.
    pub fn open(folder: &Path, shard: Option<Shard>) -> Result<Records, Failure> {
        let name = match shard {
            None => "results.jsonl".to_owned(),
            Some(Shard { number, of }) => format!("results-{number}-of-{of}.jsonl"),
        };
        let path = folder.join(name);
        fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))?;
        outputs::check_no_link(&path)?;
        let mut options = OpenOptions::new();
        let file = regular_file::open_own(&path, options.read(true).write(true).create(true).truncate(false));
        let file = LockFile::new(file.map_err(|error| cannot(&path, &error))?);
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::new(
                    format!("{}: another program writes results there", path.display()),
                    "wait for it, or give another folder with -o",
                ));
            }
            // Not every file system knows locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let mut records =
            Records { folder: folder.to_owned(), path, file, records: Vec::new(), known: HashMap::new() };
        let whole = records.read_all()?;
        let cut = records.file.set_len(whole).and_then(|()| records.file.seek(SeekFrom::End(0)));
        cut.map_err(|error| cannot(&records.path, &error))?;
        Ok(records)
    }

    /// Reads what other programs have added to the folder, too.
    ///
    /// # Errors
    /// As for [`Records::open`].
    pub fn reload(&mut self) -> Result<(), Failure> {
        (self.records, self.known) = (Vec::new(), HashMap::new());
        self.read_all().map(|_| ())
    }

    /// Reads all files. Returns the bytes of the whole lines of its own.
    fn read_all(&mut self) -> Result<u64, Failure> {
        let mut own = 0;
        for path in files(&self.folder).map_err(|error| cannot(&self.folder, &error))? {
            let whole = self.read(&path)?;
            if path == self.path {
                own = whole;
            }
        }
        Ok(own)
    }

    /// Reads a file. Returns the bytes of its whole lines: a program that was killed, or that writes now, may have left
    /// a part of one behind them.
    fn read(&mut self, path: &Path) -> Result<u64, Failure> {
        let mut file = BufReader::new(regular_file::open(path).map_err(|error| cannot(path, &error))?);
        let (mut whole, mut number) = (0, 0);
        let mut line = Vec::new();
        loop {
            line.clear();
            number += 1;
            let mut limited = file.by_ref().take(MAX_LINE as u64);
            let count = limited.read_until(b'\n', &mut line).map_err(|error| cannot(path, &error))?;
            // A few letters alone may be of anything.
            let is_ours = whole > 0 || line.starts_with(BEGIN.as_bytes());
            if count == 0 || is_ours && is_unfinished(&line) {
                return Ok(whole);
            }
            let record: Record = serde_json::from_slice(&line).map_err(|error| {
                Failure::new(
                    format!("{}, line {number} is no result: {error}", path.display()),
                    "remove the line or the file, or give another folder with -o",
                )
            })?;
            whole += count as u64;
            if self.known.insert(record.key.clone(), record.text.clone()).is_none() {
                self.records.push(record);
            }
        }
    }

    /// Whether there is an answer to this prompt.
    ///
    /// # Errors
    /// Where there is one to another prompt: the texts have changed.
    pub fn contains(&self, key: &Key, text: &str) -> Result<bool, Failure> {
        match self.known.get(key) {
            Some(known) if known != text => Err(Failure::new(
                format!(
                    "{} has results of other texts for {}: the data or the number of samples was another one",
                    self.folder.display(),
                    key.task
                ),
                "give another folder with -o",
            )),
            known => Ok(known.is_some()),
        }
    }

    /// Appends an answer, as a whole line or not at all.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn add(&mut self, record: Record) -> Result<(), Failure> {
        let failed = |error: io::Error| cannot(&self.path, &error);
        let mut line = serde_json::to_vec(&record).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        let before = self.file.stream_position().map_err(failed)?;
        if let Err(error) = self.file.write_all(&line) {
            let _ = self.file.set_len(before);
            return Err(failed(error));
        }
        self.known.insert(record.key.clone(), record.text.clone());
        self.records.push(record);
        Ok(())
    }

    /// All results, in the order of the files' lines.
    pub fn all(&self) -> &[Record] {
        &self.records
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Whether these are the first bytes of a line, and not all of them.
fn is_unfinished(line: &[u8]) -> bool {
    let begin = BEGIN.as_bytes();
    line.len() < MAX_LINE && !line.ends_with(b"\n") && (line.starts_with(begin) || begin.starts_with(line))
}

/// The files with results in a folder, sorted.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("results") && name.ends_with(".jsonl") && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()), "give another folder with -o")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(sample: usize) -> Record {
        let key = Key {
            task: "vt".to_owned(),
            model: "a \"model\"\n".to_owned(),
            fingerprint: "f".to_owned(),
            cache: "full".to_owned(),
            heads: String::new(),
            budget: String::new(),
            type_k: "f16".to_owned(),
            type_v: "f16".to_owned(),
            prefill: Reading::Exact.name().to_owned(),
            context: 100,
            seed: 42,
            sample,
            query_aware: false,
        };
        let (kv_bytes, kv_share, score) = (10, 0.1, 0.2);
        let (policy, text) = ("full".to_owned(), "checksum".to_owned());
        Record {
            key,
            text,
            version: "1.2.3".to_owned(),
            depth: Some(0.5),
            policy,
            tokens: 7,
            kv_bytes,
            kv_share,
            score,
            answer: "é\u{1b}".to_owned(),
            prediction: None,
            agreement: None,
            retention: None,
            attention_loss: None,
            sources: None,
        }
    }

    #[test]
    fn results_are_read_again_and_a_broken_last_line_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = |shard| Records::open(folder.path(), shard);
        let mut records = open(None).expect("a new file");
        [record(0), record(1)].into_iter().for_each(|record| records.add(record).expect("written"));
        drop(records);
        let path = folder.path().join("results.jsonl");
        let whole = fs::read(&path).expect("the file");
        for broken in [&b"{"[..], b"{\"task\":\"vt\",\"mo", &whole[..whole.len() / 2 - 1]] {
            fs::write(&path, [&whole, broken].concat()).expect("written");
            let mut records = open(None).expect("the file");
            assert_eq!(records.all(), [record(0), record(1)]);
            assert!(records.contains(&record(1).key, "checksum").is_ok_and(|known| known));
            assert!(records.contains(&record(2).key, "checksum").is_ok_and(|known| !known));
            assert!(records.contains(&record(1).key, "of another text").is_err());
            records.add(record(2)).expect("written");
            drop(records);
            assert_eq!(open(None).expect("the file").all().len(), 3);
            fs::write(&path, &whole).expect("written");
        }
        // The parts of an evaluation have files of their own, and know each other's answers.
        let mut part = open(Some(Shard { number: 2, of: 3 })).expect("a new file");
        part.add(record(5)).expect("written");
        assert!(open(Some(Shard { number: 2, of: 3 })).is_err(), "two programs");
        let mut other = open(Some(Shard { number: 1, of: 3 })).expect("a new file");
        assert_eq!(other.all().len(), 3);
        part.add(record(6)).expect("written");
        other.reload().expect("the files");
        assert_eq!(other.all().len(), 4);
    }

    #[test]
    fn a_file_of_something_else_stays_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results.jsonl");
        for foreign in ["no line break", "{", "{\"a\": 1}\n", "\n\n", "{\"task\":1}\n"] {
            fs::write(&path, foreign).expect("written");
            let error = Records::open(folder.path(), None).err().expect("an error").to_string();
            assert!(error.contains("line 1 is no result"), "{error}");
            assert_eq!(fs::read_to_string(&path).expect("the file"), foreign);
        }
    }
}
