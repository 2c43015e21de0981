//! Locks and identities of files, and what standard input is.

use std::fs::{File, TryLockError};
use std::io::{self, IsTerminal as _};
use std::os::windows::io::{AsRawHandle as _, IntoRawHandle as _};
use std::ptr;

use windows_sys::Win32::Foundation::{ERROR_IO_PENDING, ERROR_LOCK_VIOLATION, HANDLE};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_BASIC_INFO, FILE_TYPE_CHAR, FILE_TYPE_DISK, FILE_TYPE_PIPE,
    FileBasicInfo, GetFileInformationByHandle, GetFileInformationByHandleEx, GetFileType, LOCK_FILE_FLAGS,
    LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY, LockFileEx,
};
use windows_sys::Win32::System::Console::{GetConsoleMode, STD_INPUT_HANDLE, SetStdHandle};
use windows_sys::Win32::System::IO::OVERLAPPED;
use windows_sys::Win32::System::Pipes::PeekNamedPipe;

/// The byte that stands for the file when it is locked. It is behind every content: Windows refuses to read locked bytes,
/// also to the process that has locked them, by another handle.
const LOCKED_BYTE: u64 = 1 << 62;

/// Locks a file for its handle, as [`File::lock`] does, but leaves its content readable.
///
/// # Errors
/// The file system has no locks.
pub fn lock(file: &File) -> io::Result<()> {
    lock_with(file, LOCKFILE_EXCLUSIVE_LOCK)
}

/// Locks a file for its handle, as [`File::try_lock`] does, but leaves its content readable.
///
/// # Errors
/// Another handle has the lock, or the file system has no locks.
pub fn try_lock(file: &File) -> Result<(), TryLockError> {
    lock_with(file, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY).map_err(|error| {
        let codes = [ERROR_IO_PENDING, ERROR_LOCK_VIOLATION];
        match error.raw_os_error().is_some_and(|code| codes.contains(&code.cast_unsigned())) {
            true => TryLockError::WouldBlock,
            false => TryLockError::Error(error),
        }
    })
}

fn lock_with(file: &File, flags: LOCK_FILE_FLAGS) -> io::Result<()> {
    let mut at = OVERLAPPED::default();
    at.Anonymous.Anonymous.Offset = LOCKED_BYTE as u32;
    at.Anonymous.Anonymous.OffsetHigh = (LOCKED_BYTE >> 32) as u32;
    // SAFETY: the handle is open. It is not one for asynchronous calls, so `at` is not used after the call.
    crate::checked(unsafe { LockFileEx(file.as_raw_handle(), flags, 0, 1, 0, &mut at) })
}

/// What tells a file from others, and whether it was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// Number of the volume.
    pub volume: u64,
    /// Number of the file on the volume.
    pub index: u64,
    /// When its content, its name or its attributes were changed last, in units of 100 ns since 1601.
    pub changed: i64,
}

/// The identity of an open file.
///
/// # Errors
/// The file system does not know it.
pub fn identity(file: &File) -> io::Result<FileIdentity> {
    let handle = file.as_raw_handle();
    let mut by_handle = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open, and the structure is the one that the call fills.
    crate::checked(unsafe { GetFileInformationByHandle(handle, &mut by_handle) })?;
    let mut basic = FILE_BASIC_INFO::default();
    let length = size_of::<FILE_BASIC_INFO>() as u32;
    // SAFETY: the same; it has this length.
    crate::checked(unsafe {
        GetFileInformationByHandleEx(handle, FileBasicInfo, (&raw mut basic).cast(), length)
    })?;
    Ok(FileIdentity {
        volume: by_handle.dwVolumeSerialNumber.into(),
        index: u64::from(by_handle.nFileIndexHigh) << 32 | u64::from(by_handle.nFileIndexLow),
        changed: basic.ChangeTime,
    })
}

/// What standard input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// A file.
    File,
    /// A pipe.
    Pipe,
    /// A console.
    Console,
    /// A device, nothing, or a terminal of programs made for Unix, as Git's is. Such a terminal is a pipe that gives lines.
    Other,
}

fn stdin() -> HANDLE {
    io::stdin().as_raw_handle()
}

/// What standard input is.
pub fn input_kind() -> InputKind {
    // SAFETY: any value is allowed; an invalid one gives an error.
    match unsafe { GetFileType(stdin()) } {
        FILE_TYPE_DISK => InputKind::File,
        FILE_TYPE_PIPE if !io::stdin().is_terminal() => InputKind::Pipe,
        FILE_TYPE_CHAR if is_console() => InputKind::Console,
        _ => InputKind::Other,
    }
}

/// Whether standard input is a console.
fn is_console() -> bool {
    let mut mode = 0;
    // SAFETY: any handle is allowed; one that is no console gives an error.
    unsafe { GetConsoleMode(stdin(), &mut mode) != 0 }
}

/// Makes a file standard input.
///
/// # Errors
/// The system refuses it.
pub fn use_as_stdin(file: File) -> io::Result<()> {
    // SAFETY: the handle is open and stays so: it has no owner from here on.
    crate::checked(unsafe { SetStdHandle(STD_INPUT_HANDLE, file.into_raw_handle()) })
}

/// Bytes that the pipe on standard input has now.
///
/// # Errors
/// It is no pipe, or its other end is closed and it is empty.
pub fn pipe_has_input() -> io::Result<u32> {
    let mut bytes = 0;
    // SAFETY: nothing is read: there is no buffer, and the numbers that are not wanted are null.
    crate::checked(unsafe {
        PeekNamedPipe(stdin(), ptr::null_mut(), 0, ptr::null_mut(), &mut bytes, ptr::null_mut())
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::windows::io::{FromRawHandle as _, OwnedHandle};
    use std::process::Command;
    use std::{env, fs};

    use windows_sys::Win32::Storage::FileSystem::PIPE_ACCESS_DUPLEX;
    use windows_sys::Win32::System::Pipes::{CreateNamedPipeW, PIPE_TYPE_BYTE};

    use super::*;

    /// The test runs itself, with a pipe as standard input that has the name by which such terminals are known.
    #[test]
    fn the_terminal_of_git_is_no_pipe() {
        const INSIDE: &str = "LONGHAND_TEST_IN_TERMINAL";
        if env::var_os(INSIDE).is_some() {
            assert_eq!(input_kind(), InputKind::Other);
            return;
        }
        for (name, is_terminal) in
            [("msys-0123456789abcdef-pty0-from-master", true), ("longhand-test", false)]
        {
            let path = format!(r"\\.\pipe\{name}");
            let wide: Vec<u16> = path.encode_utf16().chain([0]).collect();
            // SAFETY: the name ends with 0. The handle has one owner, and one that is invalid is never used.
            let _pipe = unsafe {
                let (name, kind) = (wide.as_ptr(), PIPE_TYPE_BYTE);
                let pipe = CreateNamedPipeW(name, PIPE_ACCESS_DUPLEX, kind, 1, 64, 64, 0, ptr::null());
                OwnedHandle::from_raw_handle(pipe)
            };
            let stdin = File::options().read(true).write(true).open(&path).expect("a pipe");
            let test = "files::tests::the_terminal_of_git_is_no_pipe";
            let mut inside = Command::new(env::current_exe().expect("this program"));
            let run = inside.args([test, "--exact"]).env(INSIDE, "1").stdin(stdin).output().expect("it runs");
            assert_eq!(run.status.success(), is_terminal, "{name}: {run:?}");
        }
    }

    #[test]
    fn a_locked_file_is_readable_and_has_one_owner() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, "content").expect("written");
        let open = || File::options().read(true).write(true).open(&path).expect("a file");
        let (one, other) = (open(), open());
        try_lock(&one).expect("free");
        assert!(matches!(try_lock(&other), Err(TryLockError::WouldBlock)));
        assert_eq!(fs::read(&path).expect("readable"), b"content");
        drop(one);
        try_lock(&other).expect("free again");
    }

    #[test]
    fn files_have_identities() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| File::create(folder.path().join(name)).expect("a file");
        let (one, two) = (file("one"), file("two"));
        let again = File::open(folder.path().join("one")).expect("a file");
        let of = |file: &File| identity(file).map(|found| (found.volume, found.index)).expect("known");
        assert_eq!(of(&one), of(&again));
        assert_ne!(of(&one), of(&two));
    }
}
