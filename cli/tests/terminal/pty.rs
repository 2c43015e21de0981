//! Runs the program in a pseudo-terminal, and looks at what its user sees.
#![allow(dead_code)] // each test file uses some of this

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pty_process::Size;
use pty_process::blocking::{Command as PtyCommand, Pty};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{InputModes, LocalModes, OptionalActions, tcgetattr, tcsetattr};

/// Time after which a test has failed.
const WATCHDOG: Duration = Duration::from_secs(600);
const USUAL: LocalModes = LocalModes::ICANON.union(LocalModes::ECHO).union(LocalModes::ISIG);
/// What is above the input line while the model works.
pub const WORKING: &str = "working · Esc stops it";
const COLUMNS: u16 = 80;
const ROWS: u16 = 24;

/// A program in a terminal of 80 columns and 24 rows.
pub struct Terminal {
    child: Child,
    pty: Option<Arc<Pty>>,
    reader: Option<JoinHandle<()>>,
    is_closing: Arc<AtomicBool>,
    shown: Arc<(Mutex<Shown>, Condvar)>,
}

struct Shown {
    parser: vt100::Parser,
    bytes: Vec<u8>,
    ended: bool,
}

impl Terminal {
    /// Starts `longhand chat` with a state folder of this name, which is emptied.
    pub fn chat(state: &str, args: &[&str]) -> Terminal {
        let folder = super::common::scratch(&format!("state-{state}"));
        std::fs::remove_dir_all(&folder).expect("an empty folder");
        Terminal::chat_again(state, args, |_| ())
    }

    /// Starts `longhand chat` with a state folder that another one has used.
    pub fn chat_again(state: &str, args: &[&str], change: impl FnOnce(&mut Command)) -> Terminal {
        let mut command = super::common::command(&[&["chat"], args].concat());
        command.env("XDG_STATE_HOME", super::common::scratch(&format!("state-{state}")));
        command.env("TERM", "xterm-256color");
        command.env_remove("VISUAL").env_remove("EDITOR");
        change(&mut command);
        Terminal::start(command)
    }

    /// Starts a command.
    pub fn start(command: Command) -> Terminal {
        Terminal::start_sized(command, ROWS, COLUMNS)
    }

    /// Starts a command in a terminal of this size.
    pub fn start_sized(command: Command, rows: u16, columns: u16) -> Terminal {
        let (pty, pts) = pty_process::blocking::open().expect("a pseudo-terminal");
        pty.resize(Size::new(rows, columns)).expect("a size");
        let mut inherited = PtyCommand::new(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            inherited = match value {
                Some(value) => inherited.env(name, value),
                None => inherited.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            inherited = inherited.current_dir(folder);
        }
        let child = inherited.spawn(pts).expect("the program starts");
        let parser = vt100::Parser::new(nonzero(rows), nonzero(columns), 1000);
        let shown = Shown { parser, bytes: Vec::new(), ended: false };
        let mut terminal = Terminal {
            child,
            pty: Some(Arc::new(pty)),
            reader: None,
            is_closing: Arc::default(),
            shown: Arc::new((Mutex::new(shown), Condvar::new())),
        };
        terminal.reader = Some(terminal.read());
        terminal
    }

    /// Shows in a thread what the program writes.
    fn read(&self) -> JoinHandle<()> {
        let (pty, shown) = (self.pty.clone().expect("open"), self.shown.clone());
        let is_closing = self.is_closing.clone();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while !is_closing.load(Ordering::SeqCst) {
                let time = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
                if poll(&mut [PollFd::new(&*pty, PollFlags::IN)], Some(&time)) == Ok(0) {
                    continue;
                }
                // EIO says that the program has ended.
                let count = (&*pty).read(&mut bytes).unwrap_or(0);
                let mut state = shown.0.lock().unwrap_or_else(PoisonError::into_inner);
                state.parser.process(&bytes[..count]);
                state.bytes.extend(&bytes[..count]);
                state.ended = count == 0;
                shown.1.notify_all();
                if count == 0 {
                    return;
                }
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Types keys.
    pub fn send(&self, keys: &str) {
        let mut pty = &**self.pty.as_ref().expect("open");
        pty.write_all(keys.as_bytes()).expect("the program reads");
    }

    /// Pastes a text as a terminal does: line ends become CR, and the paste is marked.
    pub fn paste(&self, text: &str) {
        self.send(&format!("\x1b[200~{}\x1b[201~", text.replace('\n', "\r")));
    }

    /// Waits until the screen is as expected.
    #[track_caller]
    pub fn wait_until(&self, expected: &str, is_shown: impl Fn(&vt100::Screen) -> bool) {
        let state = self.lock();
        let (state, time) = self
            .shown
            .1
            .wait_timeout_while(state, WATCHDOG, |state| !is_shown(state.parser.screen()) && !state.ended)
            .expect("the screen");
        let screen = state.parser.screen();
        let (row, column) = screen.cursor_position();
        assert!(
            is_shown(screen),
            "{expected} was not shown ({}); the cursor is at {row}, {column} of:\n{}",
            if time.timed_out() { "time is up" } else { "the program ended" },
            screen.contents()
        );
    }

    /// Waits until a text is on the screen. Its lines may be wrapped.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        self.wait_until(&format!("{text:?}"), |screen| {
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            screen.contents().contains(text) || words(&screen.contents()).contains(text)
        });
    }

    /// Waits until the row of the cursor is this text. `|` is the cursor.
    #[track_caller]
    pub fn wait_for_row(&self, row_with_cursor: &str) {
        let (before, behind) = row_with_cursor.split_once('|').expect("a cursor");
        self.wait_until(&format!("{row_with_cursor:?}"), |screen| {
            let (row, column) = screen.cursor_position();
            let text = screen.rows(0, screen.size().1.get()).nth(row.into()).unwrap_or_default();
            let before_cursor = screen.rows(0, column).nth(row.into()).unwrap_or_default();
            text.trim_end() == format!("{before}{behind}").trim_end()
                && before_cursor.trim_end() == before.trim_end()
                && (before_cursor.len() >= before.len() || usize::from(column) >= before.len())
        });
    }

    /// Waits for an empty prompt, at which the model does not work.
    #[track_caller]
    pub fn wait_for_prompt(&self) {
        self.wait_for_end_of_work();
        self.wait_for_row("> |");
        self.wait_for_end_of_work();
    }

    /// Waits until the model does not work.
    #[track_caller]
    pub fn wait_for_end_of_work(&self) {
        // While output is printed above it, its row is away for a moment.
        for _ in 0..100 {
            self.wait_until("the end of the work", |screen| !screen.contents().contains(WORKING));
            std::thread::sleep(std::time::Duration::from_millis(150));
            if !self.contents().contains(WORKING) {
                return;
            }
        }
    }

    /// What is on the screen.
    pub fn contents(&self) -> String {
        self.lock().parser.screen().contents()
    }

    /// Looks at the screen.
    pub fn look<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.lock().parser.screen())
    }

    /// All that the program wrote.
    pub fn bytes(&self) -> String {
        String::from_utf8_lossy(&self.lock().bytes).into_owned()
    }

    /// Changes the number of columns.
    pub fn resize(&self, columns: u16) {
        self.lock().parser.set_size(nonzero(ROWS), nonzero(columns));
        self.pty.as_ref().expect("open").resize(Size::new(ROWS, columns)).expect("a size");
    }

    /// Sends a signal: `TERM`.
    pub fn signal(&self, name: &str) {
        let kill = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(kill.is_ok_and(|status| status.success()));
    }

    /// Sets the modes that a shell sets.
    pub fn set_usual_modes(&self) {
        let pty = self.pty.as_ref().expect("open");
        let mut modes = tcgetattr(pty).expect("the modes");
        modes.local_modes |= USUAL;
        modes.input_modes |= InputModes::ICRNL;
        tcsetattr(pty, OptionalActions::Now, &modes).expect("set");
    }

    /// Shows what another program writes.
    pub fn show(&self, text: &str) {
        self.lock().parser.process(text.as_bytes());
    }

    /// Whether typed text is shown by the terminal itself, line by line, and pastes are not marked.
    pub fn is_as_before(&self) -> bool {
        let modes = tcgetattr(self.pty.as_ref().expect("open")).expect("the modes").local_modes;
        modes.contains(USUAL) && !self.lock().parser.screen().bracketed_paste()
    }

    /// Presses Ctrl-C until the program ends. A key that comes when the terminal is given back already would make the system
    /// drop what the terminal has not read yet.
    pub fn press_ctrl_c_until_the_end(&mut self) {
        loop {
            thread::sleep(Duration::from_millis(100));
            if self.child.try_wait().expect("a program").is_some() {
                return;
            }
            self.send("\x03");
        }
    }

    /// Waits until the program ends. Returns its exit code.
    #[track_caller]
    pub fn exit_code(&mut self) -> Option<i32> {
        let (ended, has_ended) = mpsc::channel::<()>();
        let id = self.child.id().to_string();
        let watchdog = thread::spawn(move || {
            let is_late = has_ended.recv_timeout(WATCHDOG) == Err(RecvTimeoutError::Timeout);
            is_late.then(|| Command::new("kill").args(["-KILL", &id]).status())
        });
        let status = self.child.wait().expect("the program ends");
        drop(ended);
        assert!(watchdog.join().expect("a watchdog").is_none(), "it does not end:\n{}", self.contents());
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the screen");
        }
        if status.code().is_none() {
            eprintln!("the program was ended by {status}");
        }
        status.code()
    }

    /// Closes the terminal, as its window does.
    pub fn close(&mut self) {
        self.is_closing.store(true, Ordering::SeqCst);
        self.reader.take().expect("open").join().expect("the screen");
        self.pty = None;
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // After a failed test the program may still run.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn nonzero(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).expect("not 0")
}
