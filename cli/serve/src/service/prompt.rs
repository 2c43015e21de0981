//! From messages to tokens. Documents come before the first message of the user; what they begin with is tokenised once for
//! each system message.

use std::sync::{Arc, Mutex, PoisonError};

use longhand::outline::Outline;
use longhand::{ChatFormat, EngineError, Hint, Message, Preamble};

/// Documents, as one text.
#[derive(Clone, Default)]
pub struct Documents {
    /// The text; empty where there are none.
    pub text: String,
    /// Their names.
    pub names: Vec<String>,
    /// What begins where in the text.
    pub outline: Outline,
}

/// A conversation as tokens, up to where the next answer begins.
pub(crate) struct Rendered {
    pub tokens: Vec<u32>,
    /// How many of them are the same whatever is asked: those up to the end of the documents.
    pub documents: usize,
}

/// The system messages of which the documents were tokenised, the last one last.
#[derive(Default)]
pub(super) struct Preambles(Mutex<Vec<Arc<Preamble>>>);

/// How many are kept.
const PREAMBLES: usize = 8;

impl Preambles {
    /// The tokens of a conversation about documents.
    pub(super) fn render(
        &self,
        format: &ChatFormat,
        documents: &Documents,
        messages: &[Message],
    ) -> Result<Rendered, EngineError> {
        let (system, rest) = match messages {
            [first, rest @ ..] if first.role == "system" => (Some(first.content.as_str()), rest),
            all => (None, all),
        };
        if documents.text.is_empty() {
            let tokens = format.encode(&format.prompt(messages)?)?;
            return Ok(Rendered { tokens, documents: 0 });
        }
        if rest.first().is_none_or(|first| first.role != "user") {
            return Err(EngineError::Setting {
                what: "the documents".to_owned(),
                reason: "they come before the first message, and that is not the user's".to_owned(),
                hint: Hint::advice("begin with a message of the user, or ask without documents"),
            });
        }
        let preamble = self.of(format, documents, system)?;
        let tokens = preamble.conversation(format, rest)?;
        let shared = preamble.first_tokens().filter(|first| tokens.starts_with(first));
        Ok(Rendered { documents: shared.map_or(0, <[u32]>::len), tokens })
    }

    fn of(
        &self,
        format: &ChatFormat,
        documents: &Documents,
        system: Option<&str>,
    ) -> Result<Arc<Preamble>, EngineError> {
        let find = |known: &mut Vec<Arc<Preamble>>| {
            let place = known.iter().position(|preamble| preamble.system() == system)?;
            let found = known.remove(place);
            known.push(found.clone());
            Some(found)
        };
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = find(&mut lock()) {
            return Ok(found);
        }
        // Without the lock: it takes a moment.
        let preamble = Arc::new(Preamble::new(format, system, &documents.text)?);
        let mut known = lock();
        known.push(preamble.clone());
        if known.len() > PREAMBLES {
            known.remove(0);
        }
        Ok(preamble)
    }
}
