//! `niah`: sentences with keys and values in a haystack, and a question about some keys.

use std::ops::ControlFlow;

use super::growing::{self, Budget, DraftSample, Growing};
use crate::data::Words;
use crate::haystack::{FILLER, WordText};
use crate::python::strip;
use crate::random::PythonRandom;
use crate::sentences::sentences;
use crate::{Data, Sample, SampleOptions, TaskError};

pub(super) const ANSWER_TOKENS: usize = 128;

/// What is around the needles.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Haystack {
    /// The same sentences again and again.
    Filler,
    Essay,
    /// Sentences like the needles.
    Needles,
}

/// What a key or a value is.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Word,
    Number,
    Uuid,
}

impl Value {
    fn plural(self) -> &'static str {
        match self {
            Value::Word => "words",
            Value::Number => "numbers",
            Value::Uuid => "uuids",
        }
    }
}

/// A task with needles.
#[derive(Clone, Copy)]
pub(super) struct NeedleTask {
    pub(super) haystack: Haystack,
    pub(super) key: Value,
    pub(super) value: Value,
    /// Keys in the text.
    pub(super) keys: usize,
    /// Values of each key.
    pub(super) values: usize,
    /// Keys that are asked for.
    pub(super) queries: usize,
}

/// Depths in percent where needles may be in essays: 40 from 0 to 100, at equal distances.
const DEPTHS: usize = 40;

pub(super) fn samples(
    task: NeedleTask,
    options: &SampleOptions,
    data: &Data,
    count: &dyn Fn(&str) -> usize,
) -> Result<Vec<Sample>, TaskError> {
    let essays = match task.haystack {
        Haystack::Essay => Some(data.essays()?),
        _ => None,
    };
    let increment = match task.haystack {
        Haystack::Essay => 500,
        _ if options.tokens < 4096 => 5,
        _ => 25,
    };
    let random = PythonRandom::new(options.seed);
    let mut needles = Needles { task, increment, seed: options.seed, random, words: data.words()?, essays };
    let budget = Budget { tokens: options.tokens, reserved: ANSWER_TOKENS };
    growing::samples(&mut needles, options.samples, budget, count)
}

struct Needles<'a> {
    task: NeedleTask,
    increment: usize,
    seed: u64,
    random: PythonRandom,
    words: &'a Words,
    essays: Option<&'a WordText>,
}

impl Growing for Needles<'_> {
    fn increment(&self) -> usize {
        self.increment
    }

    fn grow(&self, size: usize) -> ControlFlow<usize, usize> {
        match self.essays.map(WordText::len) {
            Some(words) if size > words => ControlFlow::Break(words),
            _ => ControlFlow::Continue(size + self.increment),
        }
    }

    fn draft(&mut self, _: usize, size: usize) -> Option<DraftSample> {
        let mut keys = Vec::new();
        let mut values = Vec::new();
        let mut needles = Vec::new();
        for _ in 0..self.task.keys {
            let key = self.value(self.task.key);
            let of_key: Vec<String> = (0..self.task.values).map(|_| self.value(self.task.value)).collect();
            needles.extend(of_key.iter().map(|value| self.needle(&key, value)));
            keys.push(key);
            values.push(of_key);
        }
        PythonRandom::new(self.seed).shuffle(&mut needles);
        let haystack = match self.essays {
            Some(essays) => self.hide_in_essays(needles, strip(essays.first(size))),
            None => self.hide_in_lines(needles, size)?,
        };
        let queries = self.random.sample(self.task.keys, self.task.queries);
        let references = queries.iter().flat_map(|&query| values[query].clone()).collect();
        let queried: Vec<&str> = queries.iter().map(|&query| keys[query].as_str()).collect();
        let draft = self.prompt(&haystack, &queried, references);
        let context = 0..draft.question_start;
        Some(draft.with_answers_in([context]))
    }

    fn answer(&self, references: &[String]) -> String {
        references.join(" ")
    }
}

impl Needles<'_> {
    fn value(&mut self, value: Value) -> String {
        match value {
            Value::Word => {
                let pairs = self.words.pairs();
                pairs.get(self.random.below(pairs.len()))
            }
            Value::Number => self.random.between(1_000_000, 9_999_999).to_string(),
            Value::Uuid => uuid(self.random.bits(128)),
        }
    }

    fn needle(&self, key: &str, value: &str) -> String {
        format!("One of the special magic {} for {key} is: {value}.", self.task.value.plural())
    }

    /// Puts the needles between sentences, at random depths.
    fn hide_in_essays(&mut self, needles: Vec<String>, essays: &str) -> String {
        let sentences = sentences(essays);
        let position = |index: usize| {
            let percent = (index as f64 * 100.0 / (DEPTHS - 1) as f64).round();
            (sentences.len() as f64 * (percent / 100.0)) as usize
        };
        let mut positions: Vec<usize> =
            self.random.sample(DEPTHS, needles.len()).into_iter().map(position).collect();
        positions.sort_unstable();
        let mut parts = Vec::new();
        let mut last = 0;
        for (position, needle) in positions.into_iter().zip(needles) {
            parts.extend([sentences[last..position].join(" "), needle]);
            last = position;
        }
        parts.push(sentences[last..].join(" "));
        parts.join(" ")
    }

    /// Puts the needles between lines, each at a random place.
    fn hide_in_lines(&mut self, needles: Vec<String>, lines: usize) -> Option<String> {
        let mut lines: Vec<String> = match self.task.haystack {
            Haystack::Needles => (0..lines)
                .map(|_| {
                    let key = self.value(self.task.key);
                    let value = self.value(self.task.value);
                    self.needle(&key, &value)
                })
                .collect(),
            _ => vec![FILLER.to_owned(); lines],
        };
        if lines.len() < needles.len() {
            return None;
        }
        let mut places = self.random.sample(lines.len(), needles.len());
        places.sort_unstable_by(|a, b| b.cmp(a));
        for (place, needle) in places.into_iter().zip(needles) {
            lines.insert(place, needle);
        }
        Some(lines.join("\n"))
    }

    fn prompt(&self, haystack: &str, queries: &[&str], references: Vec<String>) -> DraftSample {
        let values = self.task.value.plural();
        let query = match queries {
            [others @ .., last] if !others.is_empty() => format!("{}, and {last}", others.join(", ")),
            _ => queries.concat(),
        };
        if references.len() == 1 {
            let value = &values[..values.len() - 1];
            let context = format!(
                "A special magic {value} is hidden within the following text. Make sure to memorize it. I will \
                 quiz you about the {value} afterwards.\n{haystack}"
            );
            let subject = format!("the special magic {value} for {query} mentioned in the provided text");
            return DraftSample::new(
                context,
                &format!("\nWhat is {subject}?"),
                &format!(" T{} is", &subject[1..]),
                references,
            );
        }
        let context = format!(
            "Some special magic {values} are hidden within the following text. Make sure to memorize it. I will quiz \
             you about the {values} afterwards.\n{haystack}"
        );
        let subject = format!("the special magic {values} for {query} mentioned in the provided text");
        DraftSample::new(
            context,
            &format!("\nWhat are all {subject}?"),
            &format!(" T{} are", &subject[1..]),
            references,
        )
    }
}

/// Python's `str(uuid.UUID(int=bits, version=4))`.
fn uuid(bits: u128) -> String {
    let bits = bits & !(0xf000 << 64 | 0xc000 << 48) | 4 << 76 | 0x8000 << 48;
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed by Python 3.11.
    #[test]
    fn uuids_are_those_of_python() {
        assert_eq!(uuid(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid(34877300042928551415723065784521742046), "1a3d1fa7-bc89-40a9-a3b8-c1e9392456de");
    }
}
