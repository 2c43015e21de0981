//! Ctrl-C and other signals. While the program computes, the first Ctrl-C stops the computation and the second one
//! quits. At the prompt of a chat the first one prints how to quit, and the second one quits. Otherwise it quits
//! at once. All questions of `ask` are steps of one work, so that one press ends them.
//!
//! SIGXFSZ is no end: the write fails.
//!
//! A chat also ends in order on SIGTERM and SIGHUP, and gives the terminal back on every other signal that ends it. On Windows
//! the console's events are what signals are elsewhere.

use std::io;
use std::panic;
#[cfg(not(unix))]
use std::process;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use longhand::{Engine, EngineError, InterruptFlag, Session, SessionOptions};
#[cfg(unix)]
use signal_hook::consts as signals;
#[cfg(unix)]
use signal_hook::iterator::{Handle, Signals};
#[cfg(windows)]
use win32::ConsoleEvent;

use crate::console;
use crate::tty;

const IDLE: u8 = 0;
const PROMPT: u8 = 1;
const COMPUTING: u8 = 2;
const GENERATING: u8 = 3;
/// Another program has the terminal.
const CHILD: u8 = 4;

/// SIGHUP: the terminal is gone.
pub const HANG_UP: i32 = 1;
/// SIGTERM.
const TERMINATE: i32 = 15;

/// How often Ctrl-C is looked for while a thread works.
const POLL: Duration = Duration::from_millis(50);

/// Windows ends a program after five seconds whose window is closed.
#[cfg(windows)]
const TIME_TO_CLOSE: Duration = Duration::from_secs(10);

/// Exit code after an interrupt.
pub const EXIT_CODE: u8 = 130;

/// What a chat is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Ctrl-C at the prompt.
    Interrupt,
    /// The chat must end: SIGTERM or SIGHUP, with its number.
    End(i32),
    /// The process was stopped and goes on.
    Continued,
    /// The terminal has another size.
    Resized,
}

/// Receives events. Returns whether it has dealt with one.
type Listener = Box<dyn Fn(Event) -> bool + Send + Sync>;

/// Shared with the handler's thread.
#[derive(Default)]
struct InterruptState {
    phase: AtomicU8,
    pressed: AtomicBool,
    /// Whether another key than Ctrl-C has stopped the work.
    stopped: AtomicBool,
    /// What the library's calls are given: it stops a running computation.
    flag: InterruptFlag,
    /// The signal that ends the chat, or 0.
    ending: AtomicI32,
    /// The chat, while it can end in order.
    listener: OnceLock<Listener>,
    #[cfg(unix)]
    handle: OnceLock<Handle>,
}

/// The state of the handler that was installed.
#[cfg(unix)]
static INSTALLED: OnceLock<Arc<InterruptState>> = OnceLock::new();

/// Does what [`Interrupt::watch_signals`] does, where the handler is not at hand.
#[cfg(unix)]
pub(crate) fn watch_signals() {
    if let Some(state) = INSTALLED.get() {
        Interrupt(state.clone()).watch_signals();
    }
}

/// The program's handler of signals.
#[derive(Clone)]
pub struct Interrupt(Arc<InterruptState>);

impl Interrupt {
    /// Installs the handler of Ctrl-C. If that fails, Ctrl-C ends the program, which is the system's default.
    pub fn install() -> Interrupt {
        let state = Arc::new(InterruptState::default());
        #[cfg(unix)]
        {
            let _ = InterruptState::receive_signals(&state);
            let _ = INSTALLED.set(state.clone());
        }
        #[cfg(windows)]
        let _ = InterruptState::receive_console_events(&state);
        Interrupt(state)
    }

    /// Handles the other signals from now on: the terminal is restored before one of them ends the program.
    #[cfg(unix)]
    pub fn watch_signals(&self) {
        let Some(handle) = self.0.handle.get() else { return };
        for signal in [signals::SIGTERM, signals::SIGHUP, signals::SIGCONT, signals::SIGWINCH]
            .iter()
            .chain(signals_that_end_the_program())
        {
            let _ = handle.add_signal(*signal);
        }
    }

    /// From now on SIGTERM and SIGHUP stop the current work, and `listener` is told of them.
    pub fn listen(&self, listener: impl Fn(Event) -> bool + Send + Sync + 'static) {
        let _ = self.0.listener.set(Box::new(listener));
    }

    /// From now on SIGTERM and SIGHUP stop the current work as Ctrl-C does, and do not end the program at once. A signal
    /// that is ignored (`nohup`) stays so.
    pub fn end_in_order(&self) {
        self.listen(|_| false);
        #[cfg(unix)]
        if let Some(handle) = self.0.handle.get() {
            for signal in [signals::SIGTERM, signals::SIGHUP] {
                if !is_ignored(signal) {
                    let _ = handle.add_signal(signal);
                }
            }
        }
    }

    /// The signal that ends the chat.
    pub fn ending(&self) -> Option<i32> {
        Some(self.0.ending.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }

    /// Ends the chat as this signal does.
    pub fn end(&self, signal: i32) {
        self.0.end(signal);
    }

    /// Does what Ctrl-C does in the current phase.
    pub fn press(&self) {
        self.0.press();
    }

    /// Stops the current work as the first Ctrl-C does. It never ends the program, also not together with Ctrl-C.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// The flag for the library's calls and sessions.
    pub fn flag(&self) -> InterruptFlag {
        self.0.flag.clone()
    }

    /// A session of a loaded model that Ctrl-C stops.
    ///
    /// # Errors
    /// Those of [`Session::new`].
    pub fn new_session(&self, engine: &Arc<Engine>, options: SessionOptions) -> Result<Session, EngineError> {
        Ok(Session::new(engine, options)?.with_interrupt(&self.flag()))
    }

    /// Runs `work`, in which Ctrl-C sets [`Interrupt::flag`].
    pub fn computing<T>(&self, work: impl FnOnce() -> T) -> T {
        self.during(COMPUTING, work)
    }

    /// Runs `work`, which checks [`Interrupt::is_pressed`] after each token.
    pub fn generating<T>(&self, work: impl FnOnce() -> T) -> T {
        self.during(GENERATING, work)
    }

    /// Runs `work`, which waits for the user at the prompt.
    pub fn prompting<T>(&self, work: impl FnOnce() -> T) -> T {
        self.during(PROMPT, work)
    }

    /// Runs `work`, which waits for another program that has the terminal: Ctrl-C is meant for that one.
    pub fn waiting_for_child<T>(&self, work: impl FnOnce() -> T) -> T {
        self.during(CHILD, work)
    }

    /// Runs `work`, which consists of several steps that compute or generate. A press during one step is known
    /// until the last one ends: steps that compute do not begin after it.
    pub fn in_steps<T>(&self, work: impl FnOnce() -> T) -> T {
        self.during(GENERATING, work)
    }

    /// Runs `work`, which does not look for Ctrl-C, in a thread of its own. `None` if Ctrl-C was pressed before it
    /// ended. It goes on then as far as it does not look at the flag that it is given, and its result is dropped.
    ///
    /// # Errors
    /// Where the thread cannot be started.
    pub fn until_pressed<T: Send + 'static>(
        &self,
        work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
    ) -> io::Result<Option<T>> {
        let (ended, has_ended) = mpsc::channel::<()>();
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let worker = thread::Builder::new().name("work".to_owned()).spawn(move || {
            let _ended = ended;
            work(&seen)
        })?;
        self.generating(|| {
            while has_ended.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
                if self.is_pressed() {
                    stop.store(true, Ordering::SeqCst);
                    return Ok(None);
                }
            }
            Ok(Some(worker.join().unwrap_or_else(|panic| panic::resume_unwind(panic))))
        })
    }

    /// Whether Ctrl-C was pressed since the current work began, with all its steps, or the work was stopped otherwise.
    pub fn is_pressed(&self) -> bool {
        self.0.is_pressed()
    }

    fn during<T>(&self, phase: u8, work: impl FnOnce() -> T) -> T {
        let outer = self.0.begin(phase);
        let result = work();
        self.0.end_phase(outer);
        result
    }
}

/// Makes a write beyond the limit on the size of files (`ulimit -f`) an error. By default the signal that comes with it
/// ends the program, even if the file is one that it can do without. A handler is not inherited by other programs, as an
/// ignored signal is.
pub fn outlive_file_size_limit() {
    #[cfg(unix)]
    let _ = signal_hook::flag::register(signals::SIGXFSZ, Arc::default());
}

/// Signals that end a program that does not handle them, besides those that end a chat in order. Those of faults in
/// the program itself cannot be handled.
#[cfg(unix)]
fn signals_that_end_the_program() -> &'static [i32] {
    &[
        signals::SIGQUIT,
        signals::SIGALRM,
        signals::SIGUSR1,
        signals::SIGUSR2,
        signals::SIGXCPU,
        signals::SIGPROF,
    ]
}

/// Whether the process was started with a signal ignored, where the system tells.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & 1 << (signal - 1) != 0
}

impl InterruptState {
    /// Receives signals in a thread. They are registered when the thread is there: nothing else would deal with them.
    #[cfg(unix)]
    fn receive_signals(state: &Arc<InterruptState>) -> io::Result<()> {
        let (send, receive) = mpsc::channel::<Signals>();
        let shared = state.clone();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let Ok(mut signals) = receive.recv() else { return };
            signals.forever().for_each(|signal| shared.receive(signal));
        })?;
        // The system ignores a signal to process 1, as in a container, that it does not handle.
        let also = Some(signals::SIGTERM).filter(|_| std::process::id() == 1);
        let signals = Signals::new([signals::SIGINT].into_iter().chain(also))?;
        let _ = state.handle.set(signals.handle());
        send.send(signals).map_err(io::Error::other)
    }

    /// What Windows has in the place of signals. A window that is closed is what SIGHUP is elsewhere.
    #[cfg(windows)]
    fn receive_console_events(state: &Arc<InterruptState>) -> io::Result<()> {
        let state = state.clone();
        win32::on_console_event(move |event| match event {
            ConsoleEvent::Interrupt => state.press(),
            ConsoleEvent::Close => {
                state.end(HANG_UP);
                // The process is ended when this returns. The chat ends it before that, when it has saved the conversation.
                thread::sleep(TIME_TO_CLOSE);
            }
        })
    }

    #[cfg(unix)]
    fn receive(&self, signal: i32) {
        match signal {
            signals::SIGINT => self.press(),
            signals::SIGTERM | signals::SIGHUP => self.end(signal),
            signals::SIGWINCH => _ = self.tell(Event::Resized),
            signals::SIGCONT => {
                tty::enter_again();
                self.tell(Event::Continued);
            }
            _ => {
                tty::restore();
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        }
    }

    fn tell(&self, event: Event) -> bool {
        self.listener.get().is_some_and(|listener| listener(event))
    }

    /// Begins a phase. Returns the one that it is a step of, or [`IDLE`].
    fn begin(&self, phase: u8) -> u8 {
        let outer = self.phase.load(Ordering::SeqCst);
        if outer == IDLE {
            self.forget();
        }
        self.phase.store(phase, Ordering::SeqCst);
        if phase == COMPUTING && self.is_pressed() {
            self.flag.set();
        }
        outer
    }

    /// Goes back to the phase `outer`.
    fn end_phase(&self, outer: u8) {
        self.phase.store(outer, Ordering::SeqCst);
        self.flag.clear();
        if outer == IDLE {
            self.forget();
        }
    }

    /// A signal that ends the chat is not forgotten.
    fn forget(&self) {
        self.stopped.store(false, Ordering::SeqCst);
        self.pressed.store(self.ending.load(Ordering::SeqCst) != 0, Ordering::SeqCst);
        self.flag.clear();
    }

    fn is_pressed(&self) -> bool {
        self.pressed.load(Ordering::SeqCst) || self.stopped.load(Ordering::SeqCst)
    }

    fn stop(&self) {
        let phase = self.phase.load(Ordering::SeqCst);
        if phase == COMPUTING || phase == GENERATING {
            self.stopped.store(true, Ordering::SeqCst);
        }
        if phase == COMPUTING {
            self.flag.set();
        }
    }

    fn press(&self) {
        // Nothing can be lost while a password is asked for, and nobody looks whether it was pressed.
        #[cfg(unix)]
        if tty::is_hiding() {
            exit(EXIT_CODE.into());
        }
        let phase = self.phase.load(Ordering::SeqCst);
        if phase == CHILD || phase == PROMPT && self.tell(Event::Interrupt) {
            return;
        }
        let again = self.pressed.swap(true, Ordering::SeqCst);
        match phase {
            COMPUTING if !again => self.flag.set(),
            GENERATING if !again => {}
            PROMPT if !again => {
                let _ = std::io::Write::write_all(
                    &mut std::io::stderr(),
                    b"\n(to quit, press Ctrl-C again or Ctrl-D, or type /exit)\n> ",
                );
            }
            _ => exit(EXIT_CODE.into()),
        }
    }

    /// The first signal ends the chat in order. A second SIGTERM ends it at once, but no other: a closed terminal is
    /// told in several ways.
    fn end(&self, signal: i32) {
        #[cfg(unix)]
        if tty::is_hiding() {
            exit(128 + signal);
        }
        let before = self.ending.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
        if self.listener.get().is_none() || before == Err(TERMINATE) && signal == TERMINATE {
            exit(128 + signal);
        }
        self.pressed.store(true, Ordering::SeqCst);
        if self.phase.load(Ordering::SeqCst) == COMPUTING {
            self.flag.set();
        }
        self.tell(Event::End(signal));
    }
}

/// Ends the program at once, on a new line: the last one may contain a progress bar.
fn exit(code: i32) -> ! {
    tty::restore_for_good();
    console::remove_below();
    let _ = std::io::Write::write_all(&mut std::io::stderr(), b"\n");
    // Without the C library's exit handlers: other threads still compute with what these would free.
    #[cfg(unix)]
    signal_hook::low_level::exit(code);
    #[cfg(not(unix))]
    process::exit(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_press_sets_the_flag_or_is_pressed() {
        let interrupt = Interrupt(Arc::new(InterruptState::default()));
        let flag = interrupt.flag();
        interrupt.computing(|| {
            assert!(!flag.is_set());
            interrupt.0.press();
            assert!(flag.is_set());
        });
        assert!(!flag.is_set(), "the flag is cleared after the work");
        interrupt.generating(|| {
            interrupt.0.press();
            assert!(interrupt.is_pressed() && !flag.is_set());
        });
        assert!(!interrupt.is_pressed());
    }

    #[test]
    fn a_press_in_one_step_stops_the_following_steps() {
        let interrupt = Interrupt(Arc::new(InterruptState::default()));
        let flag = interrupt.flag();
        interrupt.in_steps(|| {
            interrupt.generating(|| interrupt.0.press());
            assert!(interrupt.is_pressed() && !flag.is_set());
            interrupt.computing(|| assert!(flag.is_set()));
        });
        assert!(!interrupt.is_pressed() && !flag.is_set());
        interrupt.in_steps(|| {
            interrupt.0.press(); // between two steps
            assert!(interrupt.is_pressed());
        });
    }

    #[test]
    fn a_stop_is_no_press_of_ctrl_c() {
        let interrupt = Interrupt(Arc::new(InterruptState::default()));
        let flag = interrupt.flag();
        interrupt.stop();
        assert!(!interrupt.is_pressed(), "nothing works");
        interrupt.in_steps(|| {
            interrupt.stop();
            interrupt.stop();
            assert!(interrupt.is_pressed());
            interrupt.computing(|| assert!(flag.is_set()));
            // The first press, which ends nothing.
            interrupt.press();
        });
        assert!(!interrupt.is_pressed() && !flag.is_set());
        interrupt.prompting(|| interrupt.stop());
        assert!(!interrupt.is_pressed());
    }

    #[test]
    fn a_press_ends_the_wait_for_a_thread() {
        let interrupt = Interrupt(Arc::new(InterruptState::default()));
        assert_eq!(interrupt.until_pressed(|_| 1).expect("a thread"), Some(1));
        let (end, ended) = mpsc::channel::<()>();
        let (seen, stopped) = mpsc::channel::<bool>();
        let work = move |stop: &AtomicBool| {
            let _ = ended.recv();
            let _ = seen.send(stop.load(Ordering::SeqCst));
        };
        interrupt.in_steps(|| {
            interrupt.press();
            assert_eq!(interrupt.until_pressed(work).expect("a thread"), None);
        });
        drop(end);
        assert_eq!(stopped.recv(), Ok(true), "the thread is told");
        assert!(!interrupt.is_pressed());
    }

    #[test]
    fn a_signal_that_ends_the_chat_stops_work_that_begins_later() {
        let interrupt = Interrupt(Arc::new(InterruptState::default()));
        let flag = interrupt.flag();
        interrupt.listen(|event| event == Event::End(15));
        interrupt.end(15);
        assert_eq!(interrupt.ending(), Some(15));
        interrupt.in_steps(|| interrupt.computing(|| assert!(flag.is_set())));
        interrupt.generating(|| assert!(interrupt.is_pressed()));
    }

    #[test]
    fn ctrl_c_belongs_to_the_program_that_has_the_terminal() {
        let interrupt = Interrupt(Arc::new(InterruptState::default()));
        interrupt.prompting(|| {
            interrupt.waiting_for_child(|| {
                interrupt.press();
                interrupt.press();
            });
            assert!(!interrupt.is_pressed());
        });
    }
}
