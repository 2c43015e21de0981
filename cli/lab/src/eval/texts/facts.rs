//! Questions about documents with facts, of the kinds that the embedded model was trained on. Each text is asked about one
//! of its facts.

use std::iter;

use ::facts::{DEMO_KINDS, DocumentOptions, FactDocument, FactKind};
use tasks::{Sample, SampleOptions};

/// Tokens that a model may answer with.
pub const ANSWER_TOKENS: usize = 32;
/// Facts in a text.
const FACTS: usize = 10;
/// Between text and question.
const SEPARATOR: &str = "\n\n";

/// Texts that are asked about their facts one after the other, from the first to the last. `count` returns the number of
/// tokens of a text.
pub fn samples(options: &SampleOptions, count: &dyn Fn(&str) -> usize) -> Vec<Sample> {
    let sample = |number: usize| {
        let document = DocumentOptions {
            tokens: options.tokens.saturating_sub(ANSWER_TOKENS),
            facts: FACTS,
            seed: options.seed.wrapping_add(number as u64),
            kinds: [&[FactKind::Number], DEMO_KINDS.as_slice()].concat(),
            paper_pair: false,
        };
        let FactDocument { text, facts } = FactDocument::generate(&document, count);
        let fact = facts.get(number % facts.len().max(1))?;
        // A fact about something stands there once.
        let at = text.find(&fact.text)? + fact.text.find(&fact.key)?;
        let needle = at..at + fact.key.len();
        Some(Sample {
            question: format!("{SEPARATOR}{}", fact.question),
            answer_prefix: String::new(),
            references: vec![fact.key.clone()],
            needles: iter::once(needle).collect(),
            tokens: count(&text) + ANSWER_TOKENS,
            context: text.trim_end().to_owned(),
        })
    };
    (0..options.samples).filter_map(sample).collect()
}

/// 1 if the answer has the key of the fact as a whole word, otherwise 0.
pub fn score(answer: &str, references: &[String]) -> f64 {
    let mut words = answer.split(|sign: char| !sign.is_alphanumeric());
    f64::from(words.any(|word| references.iter().any(|right| right == word)))
}
