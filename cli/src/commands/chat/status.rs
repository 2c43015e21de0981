//! What is shown at the prompt of work that goes on behind it: a line above the prompt, and notes.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The state of the work. The thread that works changes it, and the one that draws the prompt shows it.
pub struct Status {
    state: Mutex<StatusState>,
    /// Called after each change.
    changed: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct StatusState {
    /// `None` while nothing is done.
    line: Option<String>,
    notes: Vec<String>,
}

impl Status {
    /// Nothing is done yet. `changed` is called after each change, and wakes the prompt.
    pub fn new(changed: impl Fn() + Send + Sync + 'static) -> Status {
        Status { state: Mutex::default(), changed: Box::new(changed) }
    }

    /// Work goes on, and this line says how far it is.
    pub fn show(&self, line: String) {
        let before = self.lock().line.replace(line.clone());
        if before.as_ref() != Some(&line) {
            (self.changed)();
        }
    }

    /// The work has ended. `notes` are printed above the prompt.
    pub fn end(&self, notes: Vec<String>) {
        let mut state = self.lock();
        state.line = None;
        state.notes.extend(notes);
        drop(state);
        (self.changed)();
    }

    /// The line above the prompt.
    pub fn line(&self) -> Option<String> {
        self.lock().line.clone()
    }

    /// Notes that are not printed yet.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().notes)
    }

    fn lock(&self) -> MutexGuard<'_, StatusState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
