//! Locks of files, which the system ends with the handle. Who has no lock can read the file all the same: on Windows this takes
//! another lock than the standard library's, which refuses that even to the process that holds it.

use std::fs::{File, TryLockError};
use std::io;

/// Waits for a file's lock.
///
/// # Errors
/// The file system has no locks.
pub fn lock(file: &File) -> io::Result<()> {
    #[cfg(windows)]
    return win32::lock(file);
    #[cfg(not(windows))]
    file.lock()
}

/// Locks a file.
///
/// # Errors
/// Another handle has the lock, or the file system has no locks.
pub fn try_lock(file: &File) -> Result<(), TryLockError> {
    #[cfg(windows)]
    return win32::try_lock(file);
    #[cfg(not(windows))]
    file.try_lock()
}

/// Ends a file's lock. Dropping the file does that too, but only when no child process has its handle any more: one that was
/// forked meanwhile has it until it ends or starts another program.
pub fn unlock(file: &File) {
    // On Windows no child process has the handle.
    #[cfg(not(windows))]
    let _ = file.unlock();
    #[cfg(windows)]
    let _ = file;
}
