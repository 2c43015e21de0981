//! The line that the user types. It is drawn at the prompt, and also while the model works: what is printed goes above
//! it, and messages that are sent meanwhile wait in a queue, which is shown.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use terminal::console::{Below, Console, Stream};
use terminal::interrupt::Interrupt;
use terminal::line::draft::DraftMessage;
use terminal::line::keys::Key;
use terminal::line::screen::{Screen, View, columns};
use terminal::tty;

use crate::commands::chat::commands::Message;
use crate::commands::chat::inbox::Inbox;
use crate::commands::chat::line::editor::{Action, Editor, PROMPT};
use crate::commands::chat::line::history::not_kept;

/// What the line above the prompt says while the model works.
const WORKING: &str = "working · Esc stops it";
/// Messages that are shown while they wait.
const SHOWN: usize = 3;

/// A message that was sent while the model worked, or the end of the chat.
pub enum Waiting {
    Message {
        draft: DraftMessage,
        /// Whether it replaces the last question.
        is_revision: bool,
    },
    Exit,
}

impl Waiting {
    fn text(&self) -> String {
        match self {
            Waiting::Message { draft, .. } => draft.shown(),
            Waiting::Exit => "/exit".to_owned(),
        }
    }
}

/// The text that is edited, with what is shown around it.
pub struct Typed {
    pub editor: Editor,
    pub screen: Screen,
    /// Whether the text is to replace the last question.
    pub is_revision: bool,
    waiting: VecDeque<Waiting>,
}

impl Typed {
    /// The message that waits for longest.
    pub fn next_waiting(&mut self) -> Option<Waiting> {
        self.waiting.pop_front()
    }

    /// Takes back the message that was sent last, to be changed. False where none waits.
    fn take_back(&mut self) -> bool {
        match self.waiting.pop_back() {
            Some(Waiting::Message { draft, is_revision }) => {
                self.editor.set_draft(draft);
                self.is_revision = is_revision;
                true
            }
            Some(Waiting::Exit) => true,
            None => false,
        }
    }

    /// Draws the line with `status` above it.
    pub fn draw(&mut self, status: Option<String>) -> io::Result<()> {
        let lines = self.lines(status);
        let (prompt, draft) = self.editor.view();
        self.screen.draw(&View { above: &lines, prompt: &prompt, draft }, tty::size())
    }

    fn print_above(&mut self, stream: Stream, text: &str, status: Option<String>) -> io::Result<()> {
        let lines = self.lines(status);
        let (prompt, draft) = self.editor.view();
        let view = View { above: &lines, prompt: &prompt, draft };
        self.screen.print_above(stream, text, &view, tty::size())
    }

    /// The lines above the prompt.
    fn lines(&self, status: Option<String>) -> Vec<String> {
        let hidden = self.waiting.len().saturating_sub(SHOWN);
        let mut lines: Vec<String> =
            self.waiting.iter().skip(hidden).map(|waiting| format!("next: {}", waiting.text())).collect();
        if hidden > 0 {
            lines.insert(0, format!("{hidden} more"));
        }
        let take_back = (!self.waiting.is_empty()).then_some("Up takes the last one back");
        let status = [status.as_deref(), take_back].into_iter().flatten().collect::<Vec<_>>().join(" · ");
        lines.extend((!status.is_empty()).then_some(status));
        lines
    }
}

/// The line, as the threads share it that read keys, draw and print.
pub struct InputLine {
    typed: Mutex<Typed>,
    interrupt: Interrupt,
    /// Whether a line above the prompt says that the model works.
    shows_status: bool,
}

impl InputLine {
    /// An empty line.
    pub fn new(editor: Editor, screen: Screen, interrupt: &Interrupt, console: Console) -> InputLine {
        let typed = Typed { editor, screen, is_revision: false, waiting: VecDeque::new() };
        let shows_status = console.formats_answers() && !console.quiet();
        InputLine { typed: Mutex::new(typed), interrupt: interrupt.clone(), shows_status }
    }

    /// The text, for this thread alone.
    pub fn lock(&self) -> MutexGuard<'_, Typed> {
        self.typed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws the line while the model works.
    pub fn draw_in_work(&self) {
        // A terminal that is gone is found out by whoever reads it.
        let _ = self.lock().draw(self.status());
    }

    fn status(&self) -> Option<String> {
        self.shows_status.then(|| WORKING.to_owned())
    }

    /// Does what the keys of an inbox do while the model works, until the chat is at its prompt again.
    pub fn take_keys(&self, inbox: &Inbox<Key>, console: Console) {
        while inbox.wait_in_work() {
            let mut notes = Vec::new();
            let mut typed = self.lock();
            let mut has_keys = false;
            while let Some(key) = inbox.take_in_work() {
                notes.extend(self.press(&mut typed, key));
                has_keys = true;
            }
            // The work may have ended since.
            let _ = if has_keys { typed.draw(self.status()) } else { Ok(()) };
            drop(typed);
            notes.iter().for_each(|note| console.note(note));
        }
    }

    /// Does what a key does while the model works. Returns what must be said of that.
    fn press(&self, typed: &mut Typed, key: Key) -> Option<String> {
        match key {
            Key::Redraw => return None,
            Key::Esc if !typed.editor.is_searching() => {
                self.interrupt.stop();
                return None;
            }
            Key::Up
                if typed.editor.draft().is_empty() && !typed.editor.is_searching() && typed.take_back() =>
            {
                return None;
            }
            _ => {}
        }
        match typed.editor.press(key) {
            Action::Send => {
                let (draft, kept) = typed.editor.take();
                let is_revision = std::mem::take(&mut typed.is_revision);
                if Message::from_draft(&draft).is_some() {
                    typed.waiting.push_back(Waiting::Message { draft, is_revision });
                }
                return kept.err().map(|error| not_kept(&error));
            }
            Action::EndOfInput => typed.waiting.push_back(Waiting::Exit),
            Action::ClearScreen => _ = typed.screen.clear_all(),
            Action::List(texts) => {
                _ = typed.print_above(Stream::Stdout, &columns(&texts, tty::size().0), self.status());
            }
            // Ctrl-C and Ctrl-Z have acted already. Another program cannot have the terminal now.
            Action::Nothing | Action::Interrupt | Action::Suspend | Action::EditElsewhere => {}
        }
        None
    }

    /// Runs `suspend`, which stops the program while the model works. The line is drawn again behind it.
    pub fn suspended(&self, suspend: impl FnOnce()) {
        let mut typed = self.lock();
        let _ = typed.screen.clear(tty::size());
        suspend();
        typed.screen.forget();
        let _ = typed.draw(self.status());
    }

    /// Leaves the line as it is, and begins a new one.
    pub fn finish(&self) -> io::Result<()> {
        let mut typed = self.lock();
        let Typed { editor, screen, .. } = &mut *typed;
        let (prompt, draft) = editor.view();
        screen.finish(&prompt, draft, tty::size())
    }

    /// Leaves a message that is sent on the screen.
    pub fn finish_message(&self, draft: &DraftMessage) -> io::Result<()> {
        self.lock().screen.finish(PROMPT, draft, tty::size())
    }
}

impl Below for InputLine {
    fn print(&self, stream: Stream, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.lock().print_above(stream, text, self.status())
    }

    fn remove(&self) {
        let typed = match self.typed.try_lock() {
            Ok(typed) => Some(typed),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(mut typed) = typed {
            let _ = typed.screen.clear(tty::size());
        }
    }
}
