//! The documents that clients have sent. Each is named by its text, so that the same document has the same name in every
//! process, and what was read of it is found again. Only their texts are here; what a model has read of them is in sessions
//! and on the disk.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhand::EngineError;
use longhand::outline::Outline;
use sha2::{Digest as _, Sha256};

/// Documents, as one text.
#[derive(Clone, Default)]
pub struct Documents {
    /// What they are called by: it follows from the text. Empty where there are none.
    id: String,
    text: String,
    names: Vec<String>,
    outline: Outline,
}

impl Documents {
    /// Documents of these names, as one text. `outline` says what begins where in it.
    pub fn new(names: Vec<String>, text: &str, outline: Outline) -> Documents {
        let text = text.trim_end().to_owned();
        if text.is_empty() {
            return Documents::default();
        }
        let hash = Sha256::digest(text.as_bytes());
        let hash: String = hash.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        Documents { id: format!("doc_{hash}"), outline, names, text }
    }

    /// All of these, one behind the other.
    fn joined(parts: &[Arc<Stored>]) -> Documents {
        if let [one] = parts {
            return one.documents.clone();
        }
        let (mut text, mut names, mut outline) = (String::new(), Vec::new(), Outline::default());
        for Stored { documents, .. } in parts.iter().map(|part| &**part) {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            outline.append(text.len(), documents.outline.clone());
            text.push_str(&documents.text);
            names.extend(documents.names.iter().cloned());
        }
        Documents::new(names, &text, outline)
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

/// A document that a client has sent.
pub(crate) struct Stored {
    pub documents: Documents,
    /// What its reader should know about the text.
    pub notes: Vec<String>,
    /// Tokens of the document and of what the chat template writes before it.
    pub tokens: usize,
    /// When it came: seconds since 1970.
    pub created: u64,
    state: Mutex<State>,
}

/// How far the model has read a document.
#[derive(Clone, Debug, Default)]
pub(crate) enum State {
    /// It is read with the first question about it, or its turn has not come.
    #[default]
    Waiting,
    /// So many of its tokens are read.
    Reading(usize),
    Read,
    /// It cannot be read.
    Failed(String),
}

impl Stored {
    pub(crate) fn new(documents: Documents, notes: Vec<String>, tokens: usize, created: u64) -> Arc<Stored> {
        Arc::new(Stored { documents, notes, tokens, created, state: Mutex::default() })
    }

    pub(crate) fn state(&self) -> State {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_state(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    pub(crate) fn fail(&self, error: &EngineError) {
        self.set_state(if error.is_interrupt() { State::Waiting } else { State::Failed(error.to_string()) });
    }
}

/// All documents that clients have sent, in the order in which they came.
#[derive(Default)]
pub(crate) struct Library(Mutex<Vec<Arc<Stored>>>);

/// Most bytes of all texts.
pub(crate) const MAX_LIBRARY: usize = 1 << 30;

impl Library {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Stored>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a document. One that is there already is given back. `None` where there is no room.
    pub(crate) fn add(&self, document: Arc<Stored>) -> Option<Arc<Stored>> {
        let mut all = self.lock();
        if let Some(known) = all.iter().find(|other| other.documents.id == document.documents.id) {
            return Some(known.clone());
        }
        let bytes: usize = all.iter().map(|other| other.documents.text.len()).sum();
        if bytes + document.documents.text.len() > MAX_LIBRARY {
            return None;
        }
        all.push(document.clone());
        Some(document)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Stored>> {
        self.lock().clone()
    }

    pub(crate) fn find(&self, id: &str) -> Option<Arc<Stored>> {
        self.lock().iter().find(|document| document.documents.id == id).cloned()
    }

    /// Removes a document. False where there is none of this name.
    pub(crate) fn remove(&self, id: &str) -> bool {
        let mut all = self.lock();
        let before = all.len();
        all.retain(|document| document.documents.id != id);
        all.len() < before
    }

    /// Several documents as one text, or the first name that is none.
    pub(crate) fn joined(&self, ids: &[String]) -> Result<Documents, String> {
        let found = ids.iter().map(|id| self.find(id).ok_or_else(|| id.clone()));
        Ok(Documents::joined(&found.collect::<Result<Vec<_>, String>>()?))
    }
}
