//! Locks of files, which the system ends with the handle. Who has no lock can read the file all the same: on Windows this takes
//! another lock than the standard library's, which refuses that even to the process that holds it.

use std::fs::{File, TryLockError};
use std::io;
use std::ops::{Deref, DerefMut};

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
fn try_lock(file: &File) -> Result<(), TryLockError> {
    #[cfg(windows)]
    return win32::try_lock(file);
    #[cfg(not(windows))]
    file.try_lock()
}

/// A file that may be locked. Dropping it ends the lock at once. A lock of a [`File`] lasts for as long as any process has the
/// handle, also a child that was forked meanwhile.
#[derive(Debug)]
pub struct LockFile(File);

impl LockFile {
    /// A file that is locked already, or not yet.
    pub fn new(file: File) -> LockFile {
        LockFile(file)
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// Those of [`lock`].
    pub fn lock(&self) -> io::Result<()> {
        lock(&self.0)
    }

    /// Locks the file.
    ///
    /// # Errors
    /// Another handle has the lock, or the file system has no locks.
    pub fn try_lock(&self) -> Result<(), TryLockError> {
        try_lock(&self.0)
    }
}

impl Deref for LockFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl DerefMut for LockFile {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // On Windows no child process has the handle.
        if !cfg!(windows) {
            let _ = self.0.unlock();
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// A copy of the handle, as a forked child has it, does not keep the lock.
    #[test]
    fn the_lock_ends_with_its_owner() {
        let path = std::env::temp_dir().join(format!("longhand-lock-{}", std::process::id()));
        let open = || LockFile::new(File::create(&path).expect("a file"));
        let owner = open();
        owner.lock().expect("locked");
        assert!(matches!(open().try_lock(), Err(TryLockError::WouldBlock)));
        let _of_child = owner.try_clone().expect("a handle");
        drop(owner);
        open().try_lock().expect("it is free");
        std::fs::remove_file(&path).expect("removed");
    }
}
