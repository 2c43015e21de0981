//! Where in its documents an answer comes from, and what of it stands in none of them.

use std::sync::Arc;

use longhand::gguf::Tokenizer;
use longhand::sources::Passage;
use longhand::{EngineError, Message, Session};
use lookup::absent::{Absent, Known};

use super::library::Documents;

/// Sources of an answer that are told.
const LIMIT: usize = 5;

/// What sources are looked for in: the documents of a request, and what stands in them and in its messages.
pub(crate) struct SourceSearch {
    documents: Arc<Documents>,
    /// The last of the messages that ask.
    question: String,
    known: Known,
}

/// Where an answer comes from.
#[derive(Clone, Debug)]
pub(crate) struct AnswerSources {
    /// The best first.
    pub found: Vec<Passage>,
    /// Why there are none.
    pub missing: Option<String>,
    /// Parts of its text that stand in no document and no message; `None` where there are no documents.
    pub absent: Option<Vec<(Absent, String)>>,
}

impl SourceSearch {
    pub(crate) fn new(documents: Arc<Documents>, messages: &[Message]) -> SourceSearch {
        let mut known = Known::new();
        known.add_document(documents.text());
        documents.names().iter().for_each(|name| known.add(name));
        let mut question = "";
        for message in messages {
            match message.role.as_str() {
                "user" => {
                    known.add_question(&message.content);
                    question = &message.content;
                }
                // What it has said before proves nothing.
                "assistant" => {}
                _ => known.add(&message.content),
            }
        }
        SourceSearch { documents, question: question.to_owned(), known }
    }

    /// An answer follows, behind so many tokens. What earlier ones have looked at is forgotten, so that all of it has room.
    pub(super) fn begin(&self, session: &mut Session, tokens: usize) -> Result<(), EngineError> {
        let last = tokens.saturating_sub(1);
        session.attention_paid(&[last, last], 0..0, &[]).map(drop)
    }

    /// The sources of an answer with this text, which the session has behind so many tokens.
    ///
    /// # Errors
    /// An interrupt. Where they cannot be found for another reason, the answer is there all the same.
    pub(super) fn find(
        &self,
        session: &mut Session,
        tokenizer: &Tokenizer,
        tokens: usize,
        text: &str,
    ) -> Result<AnswerSources, EngineError> {
        let (document, outline) = (self.documents.text(), self.documents.outline());
        let answer = tokens..session.tokens().len();
        let sources = session.sources(tokenizer, &[document], &self.question, text, answer, LIMIT);
        let (found, missing) = match sources {
            Ok(sources) => (sources.found, sources.missing.map(|why| why.to_string())),
            Err(error) if error.is_interrupt() => return Err(error),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let found = found.iter().map(|source| Passage::new(source, &[document], &[outline], text)).collect();
        let with_text = |absent: Absent| (absent.clone(), text[absent.range].to_owned());
        let absent = || self.known.absent_from(text).into_iter().map(with_text).collect();
        let absent = (!document.is_empty()).then(absent);
        Ok(AnswerSources { found, missing, absent })
    }
}
