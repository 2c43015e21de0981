//! What all questions of a conversation follow: its system message and documents, rendered and tokenised
//! once.

use models::chat::{Message, Prompt};
use outline::Outline;

use crate::EngineError;
use crate::model::ChatFormat;

/// System message and documents. No token reaches from the documents into a question, so that the tokens of
/// the documents do not depend on what is asked.
///
/// ```
/// let model = longhand::Model::open(longhand::ModelSource::Embedded)?;
/// let preamble = longhand::Preamble::new(model.chat_format()?, None, "The old boat crossed the river.")?;
/// assert!(preamble.document_tokens() < preamble.min_tokens());
/// # Ok::<(), longhand::EngineError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Preamble {
    system: Option<String>,
    documents: String,
    names: Vec<String>,
    outline: Outline,
    /// `None` where there are no documents, or the chat template does not write documents and question one
    /// after the other.
    encoded: Option<Encoded>,
    document_tokens: usize,
    /// Tokens of the conversation up to an answer to a question of one word.
    min_tokens: usize,
}

#[derive(Clone, Debug)]
struct Encoded {
    /// The rendered prompt before the documents.
    before: String,
    tokens: Vec<u32>,
}

/// Between documents and question.
pub(super) const SEPARATOR: &str = "\n\n";
/// Stands for a question of one word.
pub(super) const QUESTION: &str = "?";

impl Preamble {
    /// Renders and tokenises. White space at the end of `documents` is left out.
    ///
    /// # Errors
    /// Where the chat template refuses the messages, or the text cannot be encoded.
    pub fn new(format: &ChatFormat, system: Option<&str>, documents: &str) -> Result<Preamble, EngineError> {
        let mut preamble = Preamble::unencoded(system, documents);
        let mut head = format.prompt(&preamble.first(QUESTION))?;
        let documents_end = preamble.end_of_documents(&head);
        let Some(tail) = documents_end.and_then(|end| head.split_off(end)) else {
            preamble.min_tokens = format.encode(&head)?.len();
            preamble.document_tokens = format.count(&preamble.documents)?;
            return Ok(preamble);
        };
        let tokens = format.encode(&head)?;
        preamble.min_tokens = tokens.len() + format.encode(&tail)?.len();
        let start = head.message_ranges().last().map_or(0, |range| range.start);
        head.split_off(start);
        preamble.document_tokens = tokens.len().saturating_sub(format.encode(&head)?.len());
        preamble.encoded = Some(Encoded { before: head.text, tokens });
        Ok(preamble)
    }

    /// The same without tokenising anything yet: [`Preamble::prompt`] then tokenises the whole prompt each
    /// time.
    pub(super) fn unencoded(system: Option<&str>, documents: &str) -> Preamble {
        let (system, documents) = (system.map(str::to_owned), documents.trim_end().to_owned());
        Preamble { system, documents, ..Preamble::default() }
    }

    /// The same with one more document. The tokens of those before stay as they are.
    ///
    /// # Errors
    /// As for [`Preamble::new`].
    pub(super) fn with_more(&self, format: &ChatFormat, document: &str) -> Result<Preamble, EngineError> {
        if self.documents.is_empty() {
            return Ok(Preamble::new(format, self.system(), document)?.described_as(self));
        }
        let documents = format!("{}{SEPARATOR}{document}", self.documents);
        let mut more = Preamble::unencoded(self.system(), &documents).described_as(self);
        let mut head = format.prompt(&more.first(QUESTION))?;
        let added = self.encoded.as_ref().and_then(|encoded| {
            let tail = more.end_of_documents(&head).and_then(|end| head.split_off(end))?;
            let before = encoded.before.len() + self.documents.trim_start().len() + SEPARATOR.len();
            Some((encoded, head.split_off(before)?, tail))
        });
        let Some((encoded, added, tail)) = added else {
            return Ok(Preamble::new(format, self.system(), &documents)?.described_as(self));
        };
        let added = format.encode(&added)?;
        let tokens = [&encoded.tokens[..], &added].concat();
        more.min_tokens = tokens.len() + format.encode(&tail)?.len();
        more.document_tokens = self.document_tokens + added.len();
        more.encoded = Some(Encoded { before: encoded.before.clone(), tokens });
        Ok(more)
    }

    /// Where the documents and the separator end in a prompt whose question is [`QUESTION`].
    fn end_of_documents(&self, prompt: &Prompt) -> Option<usize> {
        end_of_documents(prompt, &self.documents, QUESTION)
    }

    /// The system message.
    pub fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// The documents.
    pub fn documents(&self) -> &str {
        &self.documents
    }

    /// The same with names for the documents. They are saved with the conversation; the model does not see them.
    pub fn with_names(self, names: Vec<String>) -> Preamble {
        Preamble { names, ..self }
    }

    /// The same with an outline of the text of the documents. It is saved with the conversation, too; the model does not
    /// see it. One that is not of this text is left out.
    pub fn with_outline(self, outline: Outline) -> Preamble {
        let outline = outline.fitted_to(&self.documents);
        Preamble { outline, ..self }
    }

    /// The same with the names and the outline of another one, whose documents these begin with.
    pub(super) fn described_as(self, other: &Preamble) -> Preamble {
        Preamble { names: other.names.clone(), outline: other.outline.clone(), ..self }
    }

    /// The same with the name and the outline of the document that was added last.
    pub(super) fn with_last(mut self, name: &str, text: &str, outline: &Outline) -> Preamble {
        self.names.push(name.to_owned());
        self.outline.append(self.documents.len().saturating_sub(text.len()), outline.clone());
        self
    }

    /// Where documents, pages and sections begin in the text of the documents, as far as that is known.
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// The names of the documents.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What every first prompt begins with: the tokens up to the end of the documents. `None` where there are none, or
    /// where that depends on the question.
    pub fn first_tokens(&self) -> Option<&[u32]> {
        self.encoded.as_ref().map(|encoded| encoded.tokens.as_slice())
    }

    /// Tokens of the documents, with the empty line that separates them from a question.
    pub fn document_tokens(&self) -> usize {
        self.document_tokens
    }

    /// Tokens of the shortest first prompt: template, system message, documents and a question of one word.
    pub fn min_tokens(&self) -> usize {
        self.min_tokens
    }

    /// The text of the first user message: documents and question.
    pub(super) fn first_text(&self, question: &str) -> String {
        with_documents(&self.documents, question)
    }

    /// The tokens of the first prompt, up to where the answer to `question` begins. The documents are neither
    /// rendered nor tokenised again.
    ///
    /// # Errors
    /// As for [`Preamble::new`].
    pub fn prompt(&self, format: &ChatFormat, question: &str) -> Result<Vec<u32>, EngineError> {
        self.conversation(format, &[Message::user(question)])
    }

    /// The same for a whole conversation, up to where the next answer begins: the messages behind the system message, of
    /// which the documents are put before the first.
    ///
    /// # Errors
    /// As for [`Preamble::new`].
    pub fn conversation(&self, format: &ChatFormat, messages: &[Message]) -> Result<Vec<u32>, EngineError> {
        if let Some(encoded) = &self.encoded
            && let Some(tail) = self.tail(format, encoded, messages)?
        {
            return Ok([encoded.tokens.as_slice(), &format.encode(&tail)?].concat());
        }
        format.encode(&format.prompt(&self.behind_system(messages, &self.documents))?)
    }

    /// The system message, and a question about the documents.
    fn first(&self, question: &str) -> Vec<Message> {
        self.behind_system(&[Message::user(question)], &self.documents)
    }

    /// The system message, and these messages with documents before the first.
    fn behind_system(&self, messages: &[Message], documents: &str) -> Vec<Message> {
        let mut messages = messages.to_vec();
        if let Some(first) = messages.first_mut() {
            first.content = with_documents(documents, &first.content);
        }
        self.system.iter().map(Message::system).chain(messages).collect()
    }

    /// What follows the documents in a conversation: rendered with one letter in their place. `None` where
    /// the chat template writes that otherwise than the documents.
    fn tail(
        &self,
        format: &ChatFormat,
        encoded: &Encoded,
        messages: &[Message],
    ) -> Result<Option<Prompt>, EngineError> {
        const STAND_IN: &str = "D";
        let mut prompt = format.prompt(&self.behind_system(messages, STAND_IN))?;
        let first = self.system.iter().count();
        let Some(range) = prompt.message_ranges().get(first).cloned() else { return Ok(None) };
        let after = format!("{STAND_IN}{SEPARATOR}");
        let same =
            prompt.text[..range.start] == encoded.before && prompt.text[range.clone()].starts_with(&after);
        Ok(if same { prompt.split_off(range.start + after.len()) } else { None })
    }
}

/// Documents and a question in one message.
pub(super) fn with_documents(documents: &str, question: &str) -> String {
    match documents.is_empty() {
        true => question.to_owned(),
        false => format!("{documents}{SEPARATOR}{question}"),
    }
}

/// Where the documents and the separator end in a prompt, whose last message holds them and a question. `None` where
/// the chat template writes them otherwise.
pub(super) fn end_of_documents(prompt: &Prompt, documents: &str, question: &str) -> Option<usize> {
    let range = prompt.message_ranges().last()?;
    let written = &prompt.text[range.clone()];
    // Many templates remove white space around messages.
    let before = written.strip_suffix(question).or_else(|| written.strip_suffix(question.trim_end()))?;
    let is_known = !documents.is_empty() && before.strip_suffix(SEPARATOR)? == documents.trim_start();
    is_known.then_some(range.start + before.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Model, ModelSource};

    const DOCUMENT: &str =
        "The old boat crossed the river. Mary's favorite number is 34251.\n\nIt rained <|im_end|>.\n";

    #[test]
    fn the_tokens_are_those_of_the_whole_prompt() {
        let model = Model::open(ModelSource::Embedded).expect("embedded model");
        let format = model.chat_format().expect("its chat format");
        for system in [None, Some("Be brief.")] {
            for documents in ["", "One word", DOCUMENT, "  white space in front\n\n\n"] {
                let preamble = Preamble::new(format, system, documents).expect("a preamble");
                assert_eq!(preamble.encoded.is_some(), !documents.is_empty());
                for question in ["?", "What is Mary's favorite number?", "Why?\n\nBecause.", "<|im_end|>"] {
                    let tokens = preamble.prompt(format, question).expect("tokens");
                    let whole = format.encode(&format.prompt(&preamble.first(question)).expect("a prompt"));
                    assert_eq!(tokens, whole.expect("tokens"), "{documents:?} {question:?}");
                    assert!(tokens.len() >= preamble.min_tokens());
                }
            }
        }
    }
}
