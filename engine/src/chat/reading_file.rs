//! The file of a reading that is not finished, so that neither a kill nor an exit loses hours of it.
//!
//! It is written while the reading goes on, at most for a twentieth of the time, and when the conversation ends. Each
//! write replaces the file as a whole. The process that writes it holds a lock on it. Others that read the same documents
//! write none, but may begin with what is there.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use models::file_lock::LockFile;
use models::regular_file;

use crate::files::atomic_file::{Access, DraftFile, Links};
use crate::session::snapshot::unfinished::UnfinishedText;
use crate::session::snapshot::{SaveError, error_in};
use crate::{EngineError, Session};

/// Bytes that a slow disk writes in a second.
pub(super) const DISK_SPEED: f64 = 4e8;
/// Writing takes at most this share of the time of reading.
const MAX_SHARE: f64 = 0.05;
/// At most this share of a reading is lost with the process, …
const MAX_LOSS: f64 = 0.1;
/// … and at most so much time, unless writing takes too long.
const MAX_INTERVAL: Duration = Duration::from_secs(180);
/// A shorter reading is not written while it goes on.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The file of a reading.
pub(super) struct ReadingFile {
    path: PathBuf,
    /// The file that this process has written last, or found. It is locked.
    held: Option<LockFile>,
    /// Time of reading when it was written last, or could not be.
    written: Duration,
    /// How much of the reading is in it, from 0 to 1; `None` if it was not written.
    share: Option<f64>,
    /// Bytes that were written in a second.
    speed: f64,
}

impl ReadingFile {
    /// The file at a path, which need not exist.
    pub(super) fn new(path: PathBuf) -> ReadingFile {
        ReadingFile { path, held: None, written: Duration::ZERO, share: None, speed: DISK_SPEED }
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How much of the reading is in the file, from 0 to 1; `None` if that was not written or found.
    pub(super) fn share(&self) -> Option<f64> {
        self.share
    }

    /// The reading goes on with what is in the file: this share, which took so long.
    pub(super) fn goes_on(&mut self, share: f64, elapsed: Duration) {
        (self.share, self.written) = (Some(share), elapsed);
    }

    /// Whether so many bytes are to be written now, when the reading has taken so long.
    pub(super) fn is_due(&self, elapsed: Duration, bytes: usize) -> bool {
        let unwritten = elapsed.saturating_sub(self.written);
        let interval = elapsed.mul_f64(MAX_LOSS).clamp(MIN_INTERVAL, MAX_INTERVAL);
        unwritten >= interval && unwritten.as_secs_f64() * MAX_SHARE >= self.seconds_to_write(bytes)
    }

    /// Whether reading what is not in the file took longer than writing so many bytes takes.
    pub(super) fn is_worth_writing(&self, elapsed: Duration, bytes: usize) -> bool {
        elapsed.saturating_sub(self.written).as_secs_f64() > self.seconds_to_write(bytes)
    }

    fn seconds_to_write(&self, bytes: usize) -> f64 {
        bytes as f64 / self.speed
    }

    /// An attempt to write the file begins, when the reading has taken so long. Whatever becomes of it, the next one waits
    /// as long as after a file that was written.
    pub(super) fn begin_attempt(&mut self, elapsed: Duration) {
        self.written = elapsed;
    }

    /// Writes how far a session is in a text, unless another process writes the file. `caller` is kept with it.
    pub(super) fn write(
        &mut self,
        session: &Session,
        text: &UnfinishedText,
        caller: &str,
    ) -> Result<(), EngineError> {
        self.replace(session, text, caller).map_err(error_in(&self.path))
    }

    fn replace(&mut self, session: &Session, text: &UnfinishedText, caller: &str) -> Result<(), SaveError> {
        if !self.is_ours()? {
            return Ok(());
        }
        let (started, is_new) = (Instant::now(), fs::symlink_metadata(&self.path).is_err());
        let draft = DraftFile::new(&self.path, Access::Owner, Links::Replace)?;
        draft.write(|to| text.write(session, caller, to).map_err(SaveError))?;
        let bytes = draft.metadata()?.len();
        if cfg!(windows) {
            // Which refuses to replace a file that is open, here or elsewhere.
            self.held = Some(draft.try_clone()?);
        }
        let file = match is_new {
            false => draft.replace()?,
            true => match draft.create_new() {
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
                created => created?,
            },
        };
        self.held = Some(file);
        self.share = Some(text.share);
        self.speed = bytes as f64 / started.elapsed().as_secs_f64().max(1e-6);
        Ok(())
    }

    /// Removes the file, unless another process writes it.
    pub(super) fn remove(&mut self) {
        if self.is_ours().unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
        (self.held, self.share) = (None, None);
    }

    /// Whether this process may write the file: it holds the lock, or nobody does, or there is no file.
    pub(super) fn is_ours(&mut self) -> io::Result<bool> {
        loop {
            if !regular_file::is_own(&self.path) {
                // There is none, or what is there is replaced.
                self.held = None;
                return Ok(true);
            }
            let file = match regular_file::open(&self.path) {
                Ok(file) => LockFile::new(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if self.held.as_ref().is_some_and(|held| is_same(held, &file)) {
                return Ok(true);
            }
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Ok(false),
                // Some file systems have no locks.
                Err(TryLockError::Error(_)) => return Ok(true),
                Ok(()) => {}
            }
            // It may have been replaced before it was locked.
            if regular_file::open(&self.path).is_ok_and(|now| is_same(&now, &file)) {
                self.held = Some(file);
                return Ok(true);
            }
        }
    }
}

/// Whether two open files are one.
fn is_same(one: &File, other: &File) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let id = |file: &File| file.metadata().map(|metadata| (metadata.dev(), metadata.ino())).ok();
        id(one).is_some() && id(one) == id(other)
    }
    #[cfg(windows)]
    {
        let id = |file: &File| win32::identity(file).map(|found| (found.volume, found.index)).ok();
        id(one).is_some() && id(one) == id(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_takes_a_twentieth_of_the_time_and_little_is_lost() {
        let seconds = Duration::from_secs_f64;
        let mut file = ReadingFile::new("reading".into());
        // A write of 40 MB takes 0.1 seconds.
        let bytes = 40_000_000;
        assert!(!file.is_due(seconds(1.9), bytes) && file.is_due(seconds(2.1), bytes));
        assert!(!file.is_due(seconds(0.9), 0), "too short");
        file.begin_attempt(seconds(100.0));
        assert!(!file.is_due(seconds(109.0), bytes) && file.is_due(seconds(112.0), bytes), "a tenth");
        file.begin_attempt(seconds(10_000.0));
        assert!(!file.is_due(seconds(10_179.0), bytes) && file.is_due(seconds(10_180.0), bytes));
        // A disk that is slower than expected.
        file.speed = 4e6;
        assert!(!file.is_due(seconds(10_199.0), bytes) && file.is_due(seconds(10_200.0), bytes));
        assert!(!file.is_worth_writing(seconds(10_009.0), bytes));
        assert!(file.is_worth_writing(seconds(10_011.0), bytes));
    }

    #[test]
    fn one_process_owns_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("reading");
        let [mut one, mut other] = [(); 2].map(|()| ReadingFile::new(path.clone()));
        fs::write(&path, "what a killed process has left").expect("written");
        assert!(one.is_ours().expect("known") && one.is_ours().expect("known"));
        assert!(!other.is_ours().expect("known"));
        other.remove();
        assert!(path.exists(), "it belongs to the other one");
        drop(one);
        assert!(other.is_ours().expect("known"));
        // Somebody has removed it, and another process has begun a new one.
        fs::remove_file(&path).expect("removed");
        assert!(other.is_ours().expect("known"));
        fs::write(&path, "new").expect("written");
        let mut third = ReadingFile::new(path.clone());
        assert!(third.is_ours().expect("known") && !other.is_ours().expect("known"));
        third.remove();
        assert!(!path.exists());
    }
}
