//! From messages to tokens. Documents come before the first message of the user; what they begin with is tokenised once for
//! each system message.

use std::sync::{Arc, Mutex, PoisonError};

use longhand::tools::Tools;
use longhand::{ChatFormat, EngineError, Hint, Message, Preamble};

use super::library::Documents;

/// A conversation as tokens, up to where the next answer begins.
pub(crate) struct Rendered {
    pub tokens: Vec<u32>,
    /// How many of them are the same whatever is asked: those up to the end of the documents.
    pub documents: usize,
    /// The names of these documents.
    pub names: Vec<String>,
}

/// Documents and system messages that were tokenised, those that were used last at the end.
#[derive(Default)]
pub(super) struct Preambles(Mutex<Vec<Known>>);

struct Known {
    /// Of the documents.
    id: String,
    /// What the chat template writes before them, too.
    tools: Option<Tools>,
    preamble: Arc<Preamble>,
}

/// How many are kept.
const PREAMBLES: usize = 16;

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
        if documents.is_empty() {
            let tokens = format.encode(&format.prompt(messages)?)?;
            return Ok(Rendered { tokens, documents: 0, names: Vec::new() });
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
        let names = documents.names().to_vec();
        Ok(Rendered { documents: shared.map_or(0, <[u32]>::len), names, tokens })
    }

    /// What conversations about these documents begin with.
    pub(super) fn of(
        &self,
        format: &ChatFormat,
        documents: &Documents,
        system: Option<&str>,
    ) -> Result<Arc<Preamble>, EngineError> {
        let find = |all: &mut Vec<Known>| {
            let is_it = |known: &Known| {
                known.id == documents.id()
                    && known.preamble.system() == system
                    && known.tools.as_ref() == format.template().tools()
            };
            let known = all.iter().position(is_it).map(|place| all.remove(place))?;
            let preamble = known.preamble.clone();
            all.push(known);
            Some(preamble)
        };
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = find(&mut lock()) {
            return Ok(found);
        }
        // Without the lock: it takes a moment.
        let preamble = Arc::new(Preamble::new(format, system, documents.text())?);
        let mut all = lock();
        let (id, tools) = (documents.id().to_owned(), format.template().tools().cloned());
        all.push(Known { id, tools, preamble: preamble.clone() });
        if all.len() > PREAMBLES {
            all.remove(0);
        }
        Ok(preamble)
    }
}
