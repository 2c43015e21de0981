//! Terminals of Unix.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::BorrowedFd;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::stdio::{stdin, stdout};
use rustix::termios::{self, InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use signal_hook::consts::SIGTSTP;
use signal_hook::low_level;

use super::restore_after_panics;

const BRACKETED_PASTE_ON: &str = "\x1b[?2004h";
const BRACKETED_PASTE_OFF: &str = "\x1b[?2004l";

/// The modes before [`enter`] was called for the first time.
static ORIGINAL: OnceLock<Termios> = OnceLock::new();
/// The process that changed the modes, or 0. A fork of it must leave them alone.
static CHANGED_BY: AtomicU32 = AtomicU32::new(0);
/// Whether the program ends, so that another thread must not change the modes again.
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// Held while the modes are changed, so that whoever ends the program waits for that.
static CHANGING: Mutex<()> = Mutex::new(());
/// Whether the terminal was asked to mark what is pasted.
static MARKS_PASTES: AtomicBool = AtomicBool::new(false);
/// Bytes that were typed before the last [`enter`] and are not read yet.
static TYPED_BEFORE: AtomicUsize = AtomicUsize::new(0);
/// The terminal on which a password is typed, and its modes before.
static HIDING: Mutex<Option<(File, Termios)>> = Mutex::new(None);

/// Hands over each key as it is pressed, without an echo. `mark_pastes`: the terminal understands control sequences
/// and is asked to say where pasted text begins and ends. A panic restores the terminal from now on.
pub fn enter(mark_pastes: bool) -> io::Result<()> {
    let original = match ORIGINAL.get() {
        Some(original) => original,
        None => {
            restore_after_panics();
            let now = termios::tcgetattr(stdin())?;
            ORIGINAL.get_or_init(|| now)
        }
    };
    let mut modes = original.clone();
    // Enter is CR and Ctrl-J is LF. Ctrl-S and Ctrl-Q are keys like others.
    modes.input_modes -=
        InputModes::ICRNL | InputModes::INLCR | InputModes::IGNCR | InputModes::IXON | InputModes::ISTRIP;
    // Ctrl-C is a key, too: it must not overtake what was typed before it.
    modes.local_modes -=
        LocalModes::ICANON | LocalModes::ECHO | LocalModes::ECHONL | LocalModes::IEXTEN | LocalModes::ISIG;
    modes.special_codes[SpecialCodeIndex::VMIN] = 1;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    if IS_OVER.load(Ordering::SeqCst) {
        return Ok(());
    }
    MARKS_PASTES.store(mark_pastes, Ordering::SeqCst);
    let was_changed = CHANGED_BY.swap(process::id(), Ordering::SeqCst) == process::id();
    termios::tcsetattr(stdin(), OptionalActions::Now, &modes)?;
    if !was_changed {
        let waiting = rustix::io::ioctl_fionread(stdin()).unwrap_or(0);
        TYPED_BEFORE.store(usize::try_from(waiting).unwrap_or(0), Ordering::SeqCst);
    }
    if mark_pastes {
        write(BRACKETED_PASTE_ON);
    }
    Ok(())
}

/// How many of the next bytes, at most `bytes`, were typed before [`enter`]. In them Enter is LF. They count as read.
pub fn take_typed_before(bytes: usize) -> usize {
    let before = TYPED_BEFORE.load(Ordering::SeqCst).min(bytes);
    TYPED_BEFORE.fetch_sub(before, Ordering::SeqCst);
    before
}

/// Hides what is typed on a terminal, where Ctrl-C is a key like others. [`restore`] shows it again.
pub fn hide_typing(terminal: File) -> io::Result<()> {
    let before = termios::tcgetattr(&terminal)?;
    let mut modes = before.clone();
    modes.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
    let mut hiding = HIDING.lock().unwrap_or_else(PoisonError::into_inner);
    termios::tcsetattr(&terminal, OptionalActions::Flush, &modes)?;
    *hiding = Some((terminal, before));
    Ok(())
}

/// Whether what is typed is hidden.
pub(crate) fn is_hiding() -> bool {
    HIDING.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// Shows again what is typed, if it is hidden.
fn show_typing() {
    let hiding = HIDING.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((terminal, before)) = hiding {
        let _ = termios::tcsetattr(&terminal, OptionalActions::Now, &before);
    }
}

/// Gives the terminal back as it was. Does nothing if it was not changed. Another thread that changes the modes is waited
/// for, but not longer than a moment: it may be the one that has failed.
pub fn restore() {
    restore_within(Duration::from_millis(100));
}

/// Gives the terminal back before the program ends, whatever other threads do. A thread that changes the modes is waited for,
/// also on a machine that is busy.
pub fn restore_for_good() {
    IS_OVER.store(true, Ordering::SeqCst);
    restore_within(Duration::from_secs(10));
}

/// Gives the terminal back. Another thread that changes the modes is waited for so long.
fn restore_within(time: Duration) {
    show_typing();
    let until = Instant::now() + time;
    let mut changing = CHANGING.try_lock();
    while matches!(changing, Err(TryLockError::WouldBlock)) && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
        changing = CHANGING.try_lock();
    }
    if CHANGED_BY.load(Ordering::SeqCst) != process::id() {
        return;
    }
    if MARKS_PASTES.load(Ordering::SeqCst) {
        write(BRACKETED_PASTE_OFF);
    }
    if let Some(original) = ORIGINAL.get() {
        let _ = termios::tcsetattr(stdin(), OptionalActions::Now, original);
    }
    // Last: who did not get the lock sees what is still to be done.
    let _ = CHANGED_BY.compare_exchange(process::id(), 0, Ordering::SeqCst, Ordering::SeqCst);
}

/// Sets the modes again after another program may have changed them. Does nothing after [`restore`].
pub fn enter_again() {
    if CHANGED_BY.load(Ordering::SeqCst) == process::id() {
        let _ = enter(MARKS_PASTES.load(Ordering::SeqCst));
    }
}

/// Stops this process as Ctrl-Z does, and returns when it is continued. Without a shell that could continue it,
/// returns at once.
pub fn suspend() {
    let changed = CHANGED_BY.load(Ordering::SeqCst) == process::id();
    restore();
    // The signal is this thread's, so the process has stopped and continued when the call returns. In the background
    // the next call of `enter` stops it again.
    let _ = low_level::raise(SIGTSTP);
    if changed {
        let _ = enter(MARKS_PASTES.load(Ordering::SeqCst));
    }
}

/// Whether this process has the terminal, since [`enter`] and until [`restore`].
pub fn is_entered() -> bool {
    CHANGED_BY.load(Ordering::SeqCst) == process::id()
}

/// Whether stdin can hand over each key: it is a terminal.
pub fn has_keys() -> bool {
    io::stdin().is_terminal()
}

/// Whether the terminal was closed.
pub fn is_gone() -> bool {
    ORIGINAL.get().is_some() && termios::tcgetattr(stdin()).is_err()
}

/// Columns and rows of the terminal on stdout.
pub fn size() -> (usize, usize) {
    size_of(stdout())
}

/// Columns of the terminal that stderr is.
pub fn columns_of_stderr() -> usize {
    size_of(rustix::stdio::stderr()).0
}

/// Columns and rows of a terminal; 80 and 24 if it does not say.
fn size_of(terminal: BorrowedFd) -> (usize, usize) {
    match termios::tcgetwinsize(terminal) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

/// Writes to the terminal past the standard library, whose lock may be held by the thread that failed.
fn write(text: &str) {
    let _ = rustix::io::write(stdout(), text.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::io::Read;

    use pty_process::blocking::{Command, open};

    use super::*;

    const INSIDE: &str = "LONGHAND_TEST_IN_TERMINAL";

    /// Runs a test of this file by itself in a pseudo-terminal. Returns what it showed, its exit code, and the modes of the
    /// terminal before and after.
    fn run_inside(test: &str) -> (String, Option<i32>, [Termios; 2]) {
        let (mut pty, pts) = open().expect("a pseudo-terminal");
        let before = termios::tcgetattr(&pty).expect("its modes");
        let mut child = Command::new(env::current_exe().expect("this program"))
            .args([&format!("tty::unix::tests::{test}"), "--exact", "--nocapture"])
            .env(INSIDE, "1")
            .spawn(pts)
            .expect("a process");
        let mut shown = Vec::new();
        // EIO says that the process has ended.
        let _ = pty.read_to_end(&mut shown);
        let code = child.wait().expect("an end").code();
        let after = termios::tcgetattr(&pty).expect("its modes");
        (String::from_utf8_lossy(&shown).into_owned(), code, [before, after])
    }

    #[test]
    fn a_panic_restores_the_terminal() {
        if env::var_os(INSIDE).is_some() {
            enter(true).expect("a terminal");
            panic!("a defect");
        }
        let (shown, code, [before, after]) = run_inside("a_panic_restores_the_terminal");
        assert_eq!(code, Some(101), "{shown}");
        let (_, marked) = shown.split_once(BRACKETED_PASTE_ON).expect("entered");
        let (_, behind) = marked.split_once(BRACKETED_PASTE_OFF).expect("restored");
        assert!(behind.contains("a defect"), "{shown}");
        assert_eq!((after.local_modes, after.input_modes), (before.local_modes, before.input_modes));
    }

    #[test]
    fn an_end_restores_the_terminal_while_other_threads_change_it() {
        if env::var_os(INSIDE).is_some() {
            enter(true).expect("a terminal");
            for _ in 0..4 {
                thread::spawn(|| {
                    loop {
                        restore();
                        enter(true).expect("a terminal");
                    }
                });
            }
            thread::sleep(Duration::from_millis(5));
            restore_for_good();
            low_level::exit(7);
        }
        for run in 0..20 {
            let (shown, code, [before, after]) =
                run_inside("an_end_restores_the_terminal_while_other_threads_change_it");
            assert_eq!(code, Some(7), "{shown}");
            assert_eq!(after.local_modes, before.local_modes, "run {run}");
            assert!(shown.rfind(BRACKETED_PASTE_OFF) > shown.rfind(BRACKETED_PASTE_ON), "run {run}");
        }
    }

    /// As on a machine that is busy: a thread comes no further for a while.
    #[test]
    fn an_end_waits_for_a_thread_in_the_middle_of_a_change() {
        if env::var_os(INSIDE).is_some() {
            enter(true).expect("a terminal");
            let raw = termios::tcgetattr(stdin()).expect("its modes");
            let (locked, is_locked) = std::sync::mpsc::channel();
            let changing = thread::spawn(move || {
                let _changing = CHANGING.lock();
                locked.send(()).expect("heard");
                thread::sleep(Duration::from_millis(500));
                termios::tcsetattr(stdin(), OptionalActions::Now, &raw).expect("set");
            });
            is_locked.recv().expect("locked");
            restore_for_good();
            changing.join().expect("changed");
            low_level::exit(7);
        }
        let (shown, code, [before, after]) =
            run_inside("an_end_waits_for_a_thread_in_the_middle_of_a_change");
        assert_eq!(code, Some(7), "{shown}");
        assert_eq!(after.local_modes, before.local_modes, "{shown}");
    }
}
