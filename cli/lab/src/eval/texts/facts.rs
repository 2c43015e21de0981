//! Questions about documents with facts, of the kinds that the embedded model was trained on. Each text is asked about one
//! of its facts.

use std::iter;

use ::facts::{DEMO_KINDS, DocumentOptions, Fact, FactDocument, FactKind};
use tasks::{Sample, SampleOptions};

/// Tokens that a model may answer with.
pub const ANSWER_TOKENS: usize = 32;
/// Facts in a text.
const FACTS: usize = 10;
/// Tokens of the sentences that have the value of a fact, too.
const ALIKE_TOKENS: usize = 128;
/// Others who have the same.
const OTHERS: usize = 3;
/// Between text and question.
const SEPARATOR: &str = "\n\n";

/// Texts that are asked about their facts one after the other, from the first to the last. `count` returns the number of
/// tokens of a text.
pub fn samples(options: &SampleOptions, count: &dyn Fn(&str) -> usize) -> Vec<Sample> {
    let sample = |number: usize| {
        let (text, fact) = document(options, number, options.tokens.saturating_sub(ANSWER_TOKENS), count)?;
        ask(text, &fact, count)
    };
    (0..options.samples).filter_map(sample).collect()
}

/// The same with sentences before and behind the fact that have its value, but say it of others, or only ask.
pub fn samples_alike(options: &SampleOptions, count: &dyn Fn(&str) -> usize) -> Vec<Sample> {
    let sample = |number: usize| {
        let tokens = options.tokens.saturating_sub(ANSWER_TOKENS + ALIKE_TOKENS);
        let (mut text, fact) = document(options, number, tokens, count)?;
        let asks = format!("{}, {} or not?", fact.question.trim_end_matches('?'), fact.key);
        let others = fact.of_others(OTHERS, options.seed.wrapping_add(number as u64));
        let alike: Vec<String> = others.into_iter().map(|other| other.text).chain([asks]).collect();
        // From the end on, so that places before stay where they are. Which of them comes first differs.
        for place in (1..=alike.len()).rev() {
            let from = text.len() * place / (alike.len() + 1);
            let from = (0..=from).rev().find(|at| text.is_char_boundary(*at))?;
            let at = from + text[from..].find(". ")? + 2;
            text.insert_str(at, &format!("{} ", alike[(place + number) % alike.len()]));
        }
        ask(text, &fact, count)
    };
    (0..options.samples).filter_map(sample).collect()
}

/// A document of so many tokens, and the fact that it is asked about.
fn document(
    options: &SampleOptions,
    number: usize,
    tokens: usize,
    count: &dyn Fn(&str) -> usize,
) -> Option<(String, Fact)> {
    let document = DocumentOptions {
        tokens,
        facts: FACTS,
        seed: options.seed.wrapping_add(number as u64),
        kinds: [&[FactKind::Number], DEMO_KINDS.as_slice()].concat(),
        paper_pair: false,
    };
    let FactDocument { text, facts } = FactDocument::generate(&document, count);
    let fact = facts.get(number % facts.len().max(1))?.clone();
    Some((text.trim_end().to_owned(), fact))
}

/// The question about a fact, which stands in the text once.
fn ask(text: String, fact: &Fact, count: &dyn Fn(&str) -> usize) -> Option<Sample> {
    let at = text.find(&fact.text)? + fact.text.find(&fact.key)?;
    Some(Sample {
        question: format!("{SEPARATOR}{}", fact.question),
        answer_prefix: String::new(),
        references: vec![fact.key.clone()],
        needles: iter::once(at..at + fact.key.len()).collect(),
        tokens: count(&text) + ANSWER_TOKENS,
        context: text,
    })
}

/// 1 if the answer has the key of the fact as a whole word, otherwise 0.
pub fn score(answer: &str, references: &[String]) -> f64 {
    let mut words = answer.split(|sign: char| !sign.is_alphanumeric());
    f64::from(words.any(|word| references.iter().any(|right| right == word)))
}
