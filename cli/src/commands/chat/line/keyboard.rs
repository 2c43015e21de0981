//! Reads the terminal in a thread of its own, also while the model works: what is typed goes to the inbox, but Ctrl-C and
//! Ctrl-Z act at once then.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::stdin;
use signal_hook::consts::SIGQUIT;
use signal_hook::low_level;
use terminal::interrupt::{HANG_UP, Interrupt};
use terminal::tty;

use crate::commands::chat::inbox::Inbox;
use crate::commands::chat::line::keys::{Decoder, Key};

/// Time in which the rest of a key's bytes arrives; without them, Esc was pressed. Over a slow line they may be late.
const ESC_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Bytes read at once.
const PIECE: usize = 64 << 10;

/// The keys of the terminal on stdin.
pub struct Keyboard {
    pub inbox: Arc<Inbox<Key>>,
    urgent: Arc<Urgent>,
    pause: Arc<Pause>,
    /// Wakes the thread from waiting for a key; ends it when it is dropped.
    wake: UnixStream,
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
        let (woken, wake) = UnixStream::pair()?;
        let urgent =
            Urgent { interrupt: interrupt.clone(), has_esc: esc_is_urgent, suspend: Box::new(suspend) };
        let keyboard =
            Keyboard { inbox: Arc::new(Inbox::new()), urgent: Arc::new(urgent), pause: Arc::default(), wake };
        let (inbox, urgent) = (keyboard.inbox.clone(), keyboard.urgent.clone());
        let pause = keyboard.pause.clone();
        thread::Builder::new()
            .name("keyboard".to_owned())
            .spawn(move || read_keys(&inbox, &urgent, &pause, &woken))?;
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
        let _ = (&self.wake).write(&[0]);
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
fn read_keys(inbox: &Inbox<Key>, urgent: &Urgent, pause: &Pause, woken: &UnixStream) {
    let mut decoder = Decoder::default();
    let mut bytes = vec![0; PIECE];
    loop {
        pause.wait();
        let keys = match wait_for_input(woken, decoder.is_ambiguous().then_some(&ESC_TIME)) {
            Input::None => continue,
            Input::Unwanted => return,
            Input::TimedOut => decoder.finish(),
            Input::Bytes => match rustix::io::read(stdin(), &mut bytes) {
                Err(Errno::INTR | Errno::AGAIN) => continue,
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    let before = tty::take_typed_before(count);
                    bytes[..before].iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'\r');
                    decoder.feed(&bytes[..count])
                }
            },
        };
        for key in keys {
            if key == Key::Ctrl('\\') {
                // Ends the program as it always does.
                let _ = low_level::raise(SIGQUIT);
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

enum Input {
    Bytes,
    TimedOut,
    /// A signal came, or [`Keyboard::paused`] wants to go on.
    None,
    /// The keyboard was dropped.
    Unwanted,
}

fn wait_for_input(woken: &UnixStream, time: Option<&Timespec>) -> Input {
    let mut wait = [PollFd::from_borrowed_fd(stdin(), PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
    match poll(&mut wait, time) {
        Ok(0) => return Input::TimedOut,
        Err(Errno::INTR) => return Input::None,
        // Other errors are met again by whoever reads.
        Ok(_) | Err(_) => {}
    }
    if wait[1].revents().is_empty() {
        return Input::Bytes;
    }
    match (&*woken).read(&mut [0; 16]) {
        Ok(0) => Input::Unwanted,
        _ => Input::None,
    }
}
