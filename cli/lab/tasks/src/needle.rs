//! A number needle in a haystack, for a grid of lengths and depths.
//!
//! The test is that of Kamradt (2023, `gkamradt/LLMTest_NeedleInAHaystack`): a sentence is put between sentences of
//! essays at some depth, and the question is about it. The sentence and the prompt are ours. It has a number, so that
//! a program can score the answer. Without essays, the text around it is the sentences of Mohtashami and Jaggi (2023).

use crate::haystack::{background, fill};
use crate::random::PythonRandom;
use crate::sentences::sentences;
use crate::{Data, MAX_TOKENS, Sample, TaskError, places};

/// Tokens that a model may answer with.
pub const ANSWER_TOKENS: usize = 32;

const INSTRUCTION: &str = "One sentence of the following text tells a magic number. Remember it.\n\n";

/// Cities that have a magic number.
#[rustfmt::skip] // one name a line is too long
const CITIES: [&str; 24] = [
    "Amsterdam", "Athens", "Berlin", "Bogota", "Cairo", "Chicago", "Dublin", "Geneva", "Hanoi", "Helsinki",
    "Jakarta", "Lagos", "Lima", "Lisbon", "Madrid", "Manila", "Montreal", "Nairobi", "Oslo", "Prague",
    "Seattle", "Seoul", "Toronto", "Vienna",
];

/// Which samples are generated.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Maximum numbers of tokens of the prompt and the longest answer.
    pub lengths: Vec<usize>,
    /// Depths of the needle, from 0 (the beginning) to 1 (the end).
    pub depths: Vec<f64>,
    /// Random seed.
    pub seed: u64,
}

/// A sample of the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The length from [`Grid::lengths`].
    pub length: usize,
    /// The depth from [`Grid::depths`].
    pub depth: f64,
    /// The sample.
    pub sample: Sample,
}

/// Generates a sample for each length and depth, length by length. `count` returns the number of tokens of a text,
/// without special tokens.
///
/// A prompt with its answer is at most half a percent and one sentence shorter than asked for, and never longer.
///
/// # Errors
/// A length or a depth is out of range, a length is too small, or the essays are damaged.
pub fn samples(grid: &Grid, data: &Data, count: &dyn Fn(&str) -> usize) -> Result<Vec<Cell>, TaskError> {
    check(grid)?;
    let background = background(data)?;
    let mut random = PythonRandom::new(grid.seed);
    let mut cells = Vec::with_capacity(grid.lengths.len() * grid.depths.len());
    for &length in &grid.lengths {
        for &depth in &grid.depths {
            let city = *random.choice(&CITIES);
            let number = random.between(1_000_000, 9_999_999).to_string();
            let question = format!("\n\nWhat is the magic number of {city}?");
            let answer_prefix = format!(" The magic number of {city} is");
            let needle = format!("The magic number of {city} is {number}.");

            let build = |text: &str| INSTRUCTION.to_owned() + &hide(&needle, text, depth);
            let count = |context: &String| count(&[context.as_str(), &question, &answer_prefix].concat());
            let max_tokens = length.saturating_sub(ANSWER_TOKENS);
            let filled = fill(&background, max_tokens, &build, &count).map_err(|minimum| {
                TaskError::TooShort { tokens: length, minimum: minimum + ANSWER_TOKENS }
            })?;
            let (context, tokens) = (filled.text, filled.tokens + ANSWER_TOKENS);
            let references = vec![number];
            let needles = places(&context, 0..context.len(), &references);
            let sample = Sample { context, question, answer_prefix, references, needles, tokens };
            cells.push(Cell { length, depth, sample });
        }
    }
    Ok(cells)
}

fn check(grid: &Grid) -> Result<(), TaskError> {
    let bad = |option, value, range| Err(TaskError::Option { option, value, range });
    if let Some(length) = grid.lengths.iter().find(|&&length| length > MAX_TOKENS) {
        return bad("tokens", length.to_string(), format!("at most {MAX_TOKENS}"));
    }
    match grid.depths.iter().find(|depth| !(0.0..=1.0).contains(*depth)) {
        Some(depth) => bad("depth", depth.to_string(), "0 to 1".to_owned()),
        None => Ok(()),
    }
}

/// Puts the needle between sentences. The last sentence of the text, which may be cut off, is left out.
fn hide(needle: &str, text: &str, depth: f64) -> String {
    let mut sentences = sentences(text);
    sentences.pop();
    sentences.insert((sentences.len() as f64 * depth) as usize, needle);
    sentences.join(" ")
}

/// 1 if the number is in the answer and not a part of a longer one, otherwise 0. Commas do not count.
pub fn score(answer: &str, references: &[String]) -> f64 {
    let answer = answer.replace(',', "");
    let mut numbers = answer.split(|c: char| !c.is_ascii_digit());
    f64::from(numbers.any(|number| references.iter().any(|right| right == number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> usize {
        text.split_whitespace().count()
    }

    #[test]
    fn every_length_and_depth_has_a_sample() {
        let grid = Grid { lengths: vec![500, 2000], depths: vec![0.0, 0.3, 1.0], seed: 3 };
        let cells = samples(&grid, &Data::open(None).unwrap(), &words).unwrap();
        assert_eq!(cells.len(), 6);
        for (index, Cell { length, depth, sample }) in cells.iter().enumerate() {
            assert_eq!(*length, grid.lengths[index / 3]);
            assert_eq!(*depth, grid.depths[index % 3]);
            let text = sample.context.strip_prefix(INSTRUCTION).unwrap();
            let (before, after) = text.split_once("The magic number").unwrap();
            assert!(after.contains(&format!(" is {}.", sample.references[0])));
            assert!(before.is_empty() || before.ends_with(". "));
            let [place] = &sample.needles[..] else { panic!("{:?}", sample.needles) };
            assert_eq!(sample.context[place.clone()], sample.references[0]);
            assert!((words(before) as f64 / words(text) as f64 - depth).abs() < 0.03);
            assert!(
                sample.tokens <= *length && sample.tokens + length / 200 + 5 >= *length,
                "{}",
                sample.tokens
            );
        }
        let of_other_seed = samples(&Grid { seed: 4, ..grid }, &Data::open(None).unwrap(), &words).unwrap();
        assert_ne!(cells, of_other_seed);
    }

    #[test]
    fn only_the_whole_number_is_right() {
        let references = ["1234567".to_owned()];
        for (answer, expected) in
            [("1234567.", 1.0), ("no: 1,234,567!", 1.0), ("12345678", 0.0), ("1 234 567", 0.0)]
        {
            assert_eq!(score(answer, &references), expected, "{answer}");
        }
    }

    #[test]
    fn options_are_checked() {
        let error = |length, depth| {
            let grid = Grid { lengths: vec![length], depths: vec![depth], seed: 1 };
            samples(&grid, &Data::open(None).unwrap(), &words).unwrap_err().to_string()
        };
        assert_eq!(error(1000, 1.5), "depth is 1.5, but must be 0 to 1");
        assert_eq!(error(1000, f64::NAN), "depth is NaN, but must be 0 to 1");
        assert_eq!(error(20, 0.5), "20 tokens are too few: the text cannot be shorter than 64 tokens");
    }
}
