//! The documents that clients have sent. Each is named by its text, so that the same document has the same name in every
//! process, and what was read of it is found again. Only their texts are here; what a model has read of them is in sessions
//! and on the disk.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhand::outline::Outline;
use longhand::{EngineError, InterruptFlag};
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
    /// Documents of these names, as one text. The outline says where documents, pages and sections begin in it; one of another
    /// text is left out.
    pub fn new(names: Vec<String>, text: &str, outline: Outline) -> Documents {
        let text = text.trim_end().to_owned();
        if text.is_empty() {
            return Documents::default();
        }
        let hash = Sha256::digest(text.as_bytes());
        let hash: String = hash.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        Documents { id: format!("doc_{hash}"), names, outline: outline.fitted_to(&text), text }
    }

    /// All of these, one behind the other.
    pub(crate) fn joined(parts: &[Arc<Stored>]) -> Arc<Documents> {
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
        Arc::new(Documents::new(names, &text, outline))
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

    pub(crate) fn outline(&self) -> &Outline {
        &self.outline
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

/// A document that a client has sent.
pub(crate) struct Stored {
    pub documents: Arc<Documents>,
    /// What its reader should know about the text.
    pub notes: Vec<String>,
    /// Tokens of a conversation about it with a question of one word.
    pub tokens: usize,
    /// When it came: seconds since 1970.
    pub created: u64,
    state: Mutex<ReadingState>,
    /// Stops its reading.
    stop: Mutex<Option<InterruptFlag>>,
}

/// How far the model has read a document.
#[derive(Clone, Debug, Default)]
pub(crate) enum ReadingState {
    /// It is read with the first question about it.
    #[default]
    Waiting,
    /// It is read when its turn comes.
    Queued,
    /// So many of its tokens are read.
    Reading(usize),
    Read,
    /// It cannot be read.
    Failed(String),
}

impl Stored {
    pub(crate) fn new(
        documents: Arc<Documents>,
        notes: Vec<String>,
        tokens: usize,
        created: u64,
    ) -> Arc<Stored> {
        let (state, stop) = Default::default();
        Arc::new(Stored { documents, notes, tokens, created, state, stop })
    }

    pub(crate) fn state(&self) -> ReadingState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_state(&self, state: ReadingState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Says that it is about to be read. False if it is already.
    pub(crate) fn claim(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = matches!(*state, ReadingState::Waiting);
        if is_free {
            *state = ReadingState::Queued;
        }
        is_free
    }

    /// Remembers what stops its reading.
    pub(crate) fn stopped_by(&self, stop: &InterruptFlag) {
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = Some(stop.clone());
    }

    fn stop(&self) {
        if let Some(stop) = &*self.stop.lock().unwrap_or_else(PoisonError::into_inner) {
            stop.set();
        }
    }

    pub(crate) fn fail(&self, error: &EngineError) {
        self.set_state(if error.is_interrupt() {
            ReadingState::Waiting
        } else {
            ReadingState::Failed(error.to_string())
        });
    }
}

/// All documents that clients have sent, in the order in which they came.
#[derive(Default)]
pub(crate) struct Library(Mutex<Vec<Arc<Stored>>>);

/// Most bytes of all texts.
const MAX_LIBRARY: usize = 1 << 30;

impl Library {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Stored>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a document. One that is there already is given back, with false. `None` where there is no room.
    pub(crate) fn add(&self, document: Arc<Stored>) -> Option<(Arc<Stored>, bool)> {
        let mut all = self.lock();
        if let Some(known) = all.iter().find(|other| other.documents.id == document.documents.id) {
            return Some((known.clone(), false));
        }
        let bytes: usize = all.iter().map(|other| other.documents.text.len()).sum();
        if bytes + document.documents.text.len() > MAX_LIBRARY {
            return None;
        }
        all.push(document.clone());
        Some((document, true))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Stored>> {
        self.lock().clone()
    }

    pub(crate) fn find(&self, id: &str) -> Option<Arc<Stored>> {
        self.lock().iter().find(|document| document.documents.id == id).cloned()
    }

    /// Removes a document, and stops its reading. False where there is none of this name.
    pub(crate) fn remove(&self, id: &str) -> bool {
        let mut all = self.lock();
        let place = all.iter().position(|document| document.documents.id == id);
        place.map(|place| all.remove(place).stop()).is_some()
    }
}
