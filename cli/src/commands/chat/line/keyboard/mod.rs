//! Reads the terminal in a thread of its own, also while the model works: what is typed goes to the inbox, but Ctrl-C and
//! Ctrl-Z act at once then.

#[cfg(unix)]
mod decoder;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use terminal::interrupt::{HANG_UP, Interrupt};
use terminal::line::keys::Key;

#[cfg(unix)]
use self::unix::{Keys, Wake, open, quit};
#[cfg(windows)]
use self::windows::{Keys, Wake, open, quit};
use crate::commands::chat::inbox::Inbox;

/// The keys of the terminal on stdin.
pub struct Keyboard {
    pub inbox: Arc<Inbox<Key>>,
    urgent: Arc<Urgent>,
    pause: Arc<Pause>,
    /// Wakes the thread from waiting for a key; ends it when it is dropped.
    wake: Wake,
}

/// Lets another program read the terminal.
#[derive(Default)]
struct Pause {
    state: Mutex<PauseState>,
    changed: Condvar,
}

#[derive(Default)]
struct PauseState {
    wanted: bool,
    /// The thread does not read.
    reached: bool,
}

/// What keys do that act at once while the model works.
struct Urgent {
    interrupt: Interrupt,
    /// Whether Esc is one of them.
    has_esc: bool,
    suspend: Box<dyn Fn() + Send + Sync>,
}

impl Urgent {
    fn is(&self, key: &Key) -> bool {
        matches!(key, Key::Ctrl('c' | 'z')) || self.has_esc && *key == Key::Esc
    }

    fn act(&self, key: &Key) {
        match key {
            Key::Ctrl('z') => (self.suspend)(),
            Key::Esc => self.interrupt.stop(),
            _ => self.interrupt.press(),
        }
    }
}

impl Keyboard {
    /// Starts to read. `esc_is_urgent`: whether Esc acts at once while the model works. `suspend`: what Ctrl-Z does then.
    pub fn start(
        interrupt: &Interrupt,
        esc_is_urgent: bool,
        suspend: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Keyboard> {
        let (keys, wake) = open()?;
        let urgent =
            Urgent { interrupt: interrupt.clone(), has_esc: esc_is_urgent, suspend: Box::new(suspend) };
        let keyboard =
            Keyboard { inbox: Arc::new(Inbox::new()), urgent: Arc::new(urgent), pause: Arc::default(), wake };
        let (inbox, urgent) = (keyboard.inbox.clone(), keyboard.urgent.clone());
        let pause = keyboard.pause.clone();
        thread::Builder::new()
            .name("keyboard".to_owned())
            .spawn(move || read_keys(&inbox, &urgent, &pause, keys))?;
        Ok(keyboard)
    }

    /// The model works from now on: Ctrl-C and Ctrl-Z, also those that wait in the inbox, act at once.
    pub fn begin_work(&self) {
        for key in self.inbox.end_prompt(|key| self.urgent.is(key)) {
            self.urgent.act(&key);
        }
    }

    /// The work is done: all keys go to the inbox.
    pub fn end_work(&self) {
        self.inbox.begin_prompt();
    }

    /// Runs `work` while another program may read the terminal.
    pub fn paused<T>(&self, work: impl FnOnce() -> T) -> T {
        self.pause.lock().wanted = true;
        self.wake.wake();
        let reached = self.pause.changed.wait_while(self.pause.lock(), |state| !state.reached);
        drop(reached.unwrap_or_else(PoisonError::into_inner));
        let result = work();
        self.pause.lock().wanted = false;
        self.pause.changed.notify_all();
        result
    }
}

impl Pause {
    /// Waits while the thread must not read.
    fn wait(&self) {
        let mut state = self.lock();
        while state.wanted {
            state.reached = true;
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.reached = false;
    }

    fn lock(&self) -> MutexGuard<'_, PauseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads keys until the terminal is gone, which ends the chat as SIGHUP does.
fn read_keys(inbox: &Inbox<Key>, urgent: &Urgent, pause: &Pause, mut keys: Keys) {
    loop {
        pause.wait();
        let pressed = match keys.next() {
            Input::Keys(pressed) => pressed,
            Input::Unwanted => return,
            Input::Gone => break,
        };
        for key in pressed {
            if key == Key::Ctrl('\\') {
                // Ends the program as it always does.
                quit();
            }
            if let Some(key) = inbox.offer(key, |key| urgent.is(key)) {
                urgent.act(&key);
            }
        }
    }
    urgent.interrupt.end(HANG_UP);
    // Nobody may wait for this thread.
    pause.lock().reached = true;
    pause.changed.notify_all();
}

/// What the terminal has for the thread.
enum Input {
    /// Keys; none where [`Keyboard::paused`] may want to go on.
    Keys(Vec<Key>),
    /// The keyboard was dropped.
    Unwanted,
    /// The terminal is gone.
    Gone,
}
