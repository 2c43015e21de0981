//! The console of Windows. It marks no pastes, has no Ctrl-Z that stops a program, and nothing that was typed before the
//! program reads it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crossterm::terminal;

use super::restore_after_panics;

/// Whether keys arrive one by one.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);
/// Whether the program ends, so that another thread must not change the modes again.
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// Held while the modes are changed.
static CHANGING: Mutex<()> = Mutex::new(());

/// Hands over each key as it is pressed, without an echo. A panic restores the console from now on.
///
/// # Errors
/// Stdin is no console.
pub fn enter(_mark_pastes: bool) -> io::Result<()> {
    restore_after_panics();
    let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    if IS_OVER.load(Ordering::SeqCst) {
        return Ok(());
    }
    // Without lines, echo and Ctrl-C of the system.
    terminal::enable_raw_mode()?;
    IS_ENTERED.store(true, Ordering::SeqCst);
    Ok(())
}

/// Gives the console back as it was. Does nothing if it was not changed.
pub fn restore() {
    // A thread that changes the modes now may be the one that has failed.
    let _changing = CHANGING.try_lock();
    if IS_ENTERED.swap(false, Ordering::SeqCst) {
        let _ = terminal::disable_raw_mode();
    }
}

/// Gives the console back before the program ends, whatever other threads do.
pub fn restore_for_good() {
    IS_OVER.store(true, Ordering::SeqCst);
    restore();
}

/// Does nothing: there is no key that stops a program.
pub fn suspend() {}

/// Whether this process has the console, since [`enter`] and until [`restore`].
pub fn is_entered() -> bool {
    IS_ENTERED.load(Ordering::SeqCst)
}

/// Whether the console was closed.
pub fn is_gone() -> bool {
    is_entered() && !has_keys()
}

/// Whether stdin can hand over each key: it is a console. Git's terminal, for example, is none, and gives lines.
pub fn has_keys() -> bool {
    win32::input_kind() == win32::InputKind::Console
}

/// Columns and rows of the console; 80 and 24 if it does not say.
pub fn size() -> (usize, usize) {
    match terminal::size() {
        Ok((columns @ 1.., rows @ 1..)) => (columns.into(), rows.into()),
        _ => (80, 24),
    }
}

/// Columns of the console that stderr is.
pub fn columns_of_stderr() -> usize {
    size().0
}
