//! Documents with facts as tokens: the prompt up to the end of the document, which all questions share, and
//! the rest of the prompt for each question.

use anyhow::Result;
use facts::{DEMO_KINDS, DocumentOptions, Fact, FactDocument, FactKind};
use longhand::{ChatFormat, Message};
use terminal::failure::Failure;

use crate::examine::Text;

/// Facts in a document.
const FACTS: usize = 10;
/// Maximum number of tokens at the end of a document that may change when a question follows.
const BORDER: usize = 8;
/// Maximum tokens of an answer. Facts have about ten.
const ANSWER_LIMIT: usize = 32;

/// A document with facts.
pub struct FactText {
    /// The document, with a question for each fact.
    pub text: Text,
    /// The facts.
    pub facts: Vec<Fact>,
}

/// Generates documents of `tokens` tokens with `questions` facts in all. Each document has a seed of its own.
pub fn generate(format: &ChatFormat, tokens: usize, questions: usize, seed: u64) -> Result<Vec<FactText>> {
    let starts = (0..questions).step_by(FACTS);
    (starts.zip(0..))
        .map(|(start, number)| {
            let options = DocumentOptions {
                tokens,
                facts: FACTS.min(questions - start),
                seed: seed.wrapping_add(number),
                kinds: [&[FactKind::Number], DEMO_KINDS.as_slice()].concat(),
                paper_pair: false,
            };
            text(format, &options)
        })
        .collect()
}

fn text(format: &ChatFormat, options: &DocumentOptions) -> Result<FactText> {
    let count = |text: &str| format.count(text).unwrap_or(0);
    let FactDocument { text, facts } = FactDocument::generate(options, &count);
    let text = text.trim_end();
    let prompt =
        |user: &str| -> Result<Vec<u32>> { Ok(format.encode(&format.prompt(&[Message::user(user)])?)?) };
    // The tokens that all prompts share, with or without a question.
    let mut document = prompt(text)?;
    let mut prompts = Vec::new();
    for fact in facts {
        let whole = prompt(&format!("{text}\n\n{}", fact.question))?;
        let common = document.iter().zip(&whole).take_while(|(a, b)| a == b).count();
        document.truncate(common);
        prompts.push((fact, whole));
    }
    if document.len() + BORDER < count(text) {
        return Err(Failure::new(
            "the model's chat template does not put the question after the documents",
            "use a model file with another chat template",
        )
        .into());
    }
    let after = |(fact, whole): (Fact, Vec<u32>)| (fact, whole[document.len()..].to_vec());
    let (facts, questions) = prompts.into_iter().map(after).unzip();
    Ok(FactText { text: Text { document, questions, answer_limit: ANSWER_LIMIT }, facts })
}
