//! `vt`: a chain of assignments among sentences that say nothing. The question is for all variables of the chain.
//! A short example with its answer comes first.

use std::collections::HashSet;

use super::growing::{self, Budget, DraftSample, Growing};
use crate::haystack::FILLER;
use crate::python::list;
use crate::random::{NumpyRandom, PythonRandom};
use crate::{Sample, SampleOptions, TaskError};

pub(super) const ANSWER_TOKENS: usize = 30;

const VARIABLES: usize = 5;
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const INSTRUCTION: &str =
    "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n";

/// Tokens of the example, with its answer.
const EXAMPLE_TOKENS: usize = 500;

pub(super) fn samples(
    options: &SampleOptions,
    seed: u32,
    count: &dyn Fn(&str) -> usize,
) -> Result<Vec<Sample>, TaskError> {
    let mut chains = Chains {
        random: PythonRandom::new(seed.into()),
        numbers: NumpyRandom::new(seed),
        letters: 3,
        increment: 5,
        example: None,
    };
    let example = |chains: &mut Chains, tokens| {
        growing::samples(chains, 1, Budget { tokens, reserved: ANSWER_TOKENS }, count)
    };
    let example = match example(&mut chains, EXAMPLE_TOKENS) {
        // A vocabulary with short tokens.
        Err(TaskError::TooShort { minimum, .. }) => example(&mut chains, minimum + EXAMPLE_TOKENS)?,
        example => example?,
    };
    let example = Example::new(&example[0]);
    let reserved = ANSWER_TOKENS + count(&example.text);
    let mut chains = Chains { letters: 5, increment: 10, example: Some(example), ..chains };
    growing::samples(&mut chains, options.samples, Budget { tokens: options.tokens, reserved }, count)
}

/// A prompt with its answer.
struct Example {
    text: String,
    variables: Vec<String>,
}

impl Example {
    fn new(sample: &Sample) -> Example {
        let Sample { context, question, answer_prefix, references, .. } = sample;
        let text = format!("{context}{question}{answer_prefix} {}\n\n", references.join(" "));
        Example { text, variables: references.clone() }
    }
}

struct Chains {
    random: PythonRandom,
    numbers: NumpyRandom,
    /// Letters of a variable.
    letters: usize,
    increment: usize,
    /// `None` while the example itself is made.
    example: Option<Example>,
}

impl Growing for Chains {
    fn increment(&self) -> usize {
        self.increment
    }

    /// The script never makes a sample smaller.
    fn attempts(&self) -> usize {
        20
    }

    fn draft(&mut self, _: usize, size: usize) -> Option<DraftSample> {
        let (variables, value) = self.variables()?;
        let mut chain = vec![format!("VAR {} = {value}", variables[0])];
        chain.extend(variables.windows(2).map(|pair| format!("VAR {} = VAR {} ", pair[1], pair[0])));
        let text = self.hide(&chain, size)?;
        let question =
            format!("\nQuestion: Find all variables that are assigned the value {value} in the text above.");
        // The spelling is RULER's.
        let answer_prefix = format!(
            " Answer: According to the chain(s) of variable assignment in the text above, {VARIABLES} variables are \
             assgined the value {value}, they are: "
        );
        Some(DraftSample::new(format!("{INSTRUCTION}{text}"), &question, &answer_prefix, variables))
    }

    fn answer(&self, references: &[String]) -> String {
        format!(" {}", list(references))
    }

    /// Adds the example, with new names.
    fn finish(&mut self, draft: DraftSample) -> DraftSample {
        let Some(example) = &self.example else { return draft };
        let mut text = example.text.clone();
        for variable in &example.variables {
            text = text.replace(variable.as_str(), &self.random.word(LETTERS, variable.len()));
        }
        let before = format!(" {text}\n\n");
        DraftSample {
            question_start: before.len() + draft.question_start,
            answer_start: before.len() + draft.answer_start,
            text: before + &draft.text,
            references: draft.references,
            needles: draft.needles,
        }
    }
}

impl Chains {
    /// Names, and the value of the first one. The script fails if a name comes twice.
    fn variables(&mut self) -> Option<(Vec<String>, u32)> {
        let mut names: Vec<String> =
            (0..VARIABLES).map(|_| self.random.word(LETTERS, self.letters)).collect();
        while names.iter().collect::<HashSet<_>>().len() < VARIABLES {
            names.push(self.random.word(LETTERS, self.letters));
        }
        let value = self.numbers.randint(10_000, 99_999);
        if names.len() > VARIABLES {
            // It draws a number for a second chain before it fails.
            self.numbers.randint(10_000, 99_999);
            return None;
        }
        Some((names, value))
    }

    /// Puts the assignments between sentences in their order, at random places.
    fn hide(&mut self, chain: &[String], fillers: usize) -> Option<String> {
        let filler = format!("{FILLER}\n");
        let mut sentences: Vec<String> = vec![filler; fillers];
        if sentences.len() <= chain.len() {
            let parts = sentences.iter().flat_map(|filler| filler.split('.'));
            let sentence =
                |part: &str| if part.trim().is_empty() { part.to_owned() } else { format!("{part}.") };
            sentences = parts.map(sentence).collect();
        }
        if sentences.len() < chain.len() {
            return None;
        }
        let mut places = self.random.sample(sentences.len(), chain.len());
        places.sort_unstable();
        for (before, (place, assignment)) in places.into_iter().zip(chain).enumerate() {
            sentences.insert(place + before, assignment.clone());
        }
        Some(sentences.join(" ").replace(". \n", ".\n"))
    }
}
