//! Documents with facts, as the tokens that a model reads: a chat prompt up to the end of the document, and for each fact what
//! follows with its question.

use anyhow::Result;
use longhand::ChatFormat;
use models::chat::Message;

use crate::facts::{DEMO_KINDS, DocumentOptions, Fact, FactDocument, FactKind};
use crate::failure::Failure;

/// Facts in a document.
const FACTS: usize = 10;
/// Tokens at the end of a document that may be others once a question follows it.
const BORDER: usize = 8;

/// A document with questions.
pub struct Text {
    /// The prompt up to the end of the document: the beginning of every question's prompt.
    pub document: Vec<u32>,
    /// One a fact.
    pub questions: Vec<Question>,
}

/// A question.
pub struct Question {
    /// What answers it.
    pub fact: Fact,
    /// The prompt after the document.
    pub tokens: Vec<u32>,
}

impl Text {
    /// Tokens of the longest prompt.
    pub fn longest(&self) -> usize {
        let questions = self.questions.iter().map(|question| question.tokens.len());
        self.document.len() + questions.max().unwrap_or(0)
    }
}

/// As many documents of `tokens` tokens as it takes for so many questions; each has a seed of its own.
pub fn make(format: &ChatFormat, tokens: usize, questions: usize, seed: u64) -> Result<Vec<Text>> {
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

fn text(format: &ChatFormat, options: &DocumentOptions) -> Result<Text> {
    let count = |text: &str| format.count(text).unwrap_or(0);
    let FactDocument { text, facts } = FactDocument::generate(options, &count);
    let text = text.trim_end();
    let prompt =
        |user: &str| -> Result<Vec<u32>> { Ok(format.encode(&format.prompt(&[Message::user(user)])?)?) };
    // What the prompts have in common with that of the document alone says nothing of a question.
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
            "use a model file with another template",
        )
        .into());
    }
    let after = |(fact, whole): (Fact, Vec<u32>)| Question { fact, tokens: whole[document.len()..].to_vec() };
    let questions = prompts.into_iter().map(after).collect();
    Ok(Text { document, questions })
}
