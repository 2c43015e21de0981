//! LongBench's files: a question in JSON on each line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserialize;

use super::{LongBenchTask, Metric, TASKS, score};
use crate::TaskError;

/// Longest line in bytes. The longest known one has 1.2 MB.
const MAX_LINE: u64 = 64 << 20;
/// Longest right answer in bytes. Comparing it with an answer takes memory.
const MAX_ANSWER: usize = 100_000;

/// A question.
#[derive(Deserialize)]
pub(super) struct Line {
    pub input: String,
    pub context: String,
    pub answers: Vec<String>,
    pub all_classes: Option<Vec<String>>,
}

/// The first questions of a file, at most `count`.
pub(super) fn read(path: &Path, count: usize, task: LongBenchTask) -> Result<Vec<Line>, TaskError> {
    let failed = |source: io::Error| TaskError::Read { path: path.to_owned(), source };
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    let mut lines = Vec::new();
    let mut number = 0;
    while lines.len() < count {
        let mut bytes = Vec::new();
        number += 1;
        if file.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes).map_err(failed)? == 0 {
            break;
        }
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        let line = parse(&bytes, task).map_err(|problem| TaskError::Data {
            path: path.to_owned(),
            problem: format!("line {number}: {problem}"),
        })?;
        lines.push(line);
    }
    Ok(lines)
}

fn parse(bytes: &[u8], task: LongBenchTask) -> Result<Line, String> {
    let line: Line =
        serde_json::from_slice(bytes).map_err(|error| format!("not the expected JSON: {error}"))?;
    if line.answers.is_empty() {
        return Err("it has no answer".to_owned());
    }
    if line.answers.iter().any(|answer| answer.len() > MAX_ANSWER) {
        return Err(format!("an answer has more than {MAX_ANSWER} bytes"));
    }
    match TASKS[task.0].3 {
        Metric::Class if line.all_classes.as_ref().is_none_or(Vec::is_empty) => {
            Err("it has no \"all_classes\"".to_owned())
        }
        Metric::Paragraph if line.answers.iter().any(|answer| score::paragraph_number(answer).is_none()) => {
            Err("an answer is not like \"Paragraph 1\"".to_owned())
        }
        _ => Ok(line),
    }
}
