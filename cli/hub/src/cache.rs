//! A repository in the cache of Hugging Face's programs:
//! `models--OWNER--NAME/blobs/CHECKSUM` are the files, `snapshots/COMMIT/PATH` are links to them, and `refs/main` names
//! the latest commit.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use longhand::files::atomic_file::{self, Access};
use models::file_lock::LockFile;
use models::regular_file;

/// A repository's folder.
pub struct Repository {
    folder: PathBuf,
    locks: PathBuf,
}

impl Repository {
    /// The folder in the cache `hub`, which need not exist.
    pub fn new(hub: &Path, folder_name: &str) -> Repository {
        Repository { folder: hub.join(folder_name), locks: hub.join(".locks").join(folder_name) }
    }

    /// Makes the folders.
    pub fn prepare(&self) -> io::Result<()> {
        fs::create_dir_all(self.blobs())?;
        fs::create_dir_all(&self.locks)
    }

    /// The folder of files.
    pub fn blobs(&self) -> PathBuf {
        self.folder.join("blobs")
    }

    /// The file of this checksum.
    pub fn blob(&self, checksum: &str) -> PathBuf {
        self.blobs().join(checksum)
    }

    /// Whether the file of this checksum is there, with all of its bytes.
    pub fn has(&self, checksum: &str, size: u64) -> bool {
        fs::metadata(self.blob(checksum)).is_ok_and(|found| found.is_file() && found.len() == size)
    }

    /// What there is of a file until it is whole. No other program has such names: their parts may have holes.
    pub fn part(&self, checksum: &str) -> PathBuf {
        self.blobs().join(format!("{checksum}.longhand.incomplete"))
    }

    /// The lock of a file, where Hugging Face's programs have it too.
    pub fn lock_file(&self, checksum: &str) -> io::Result<LockFile> {
        let path = self.locks.join(format!("{checksum}.lock"));
        regular_file::open_own(&path, OpenOptions::new().create(true).truncate(false).write(true))
            .map(LockFile::new)
    }

    /// Gives a whole file its name in a commit. Returns the path.
    pub fn publish(&self, commit: &str, path: &str, checksum: &str) -> io::Result<PathBuf> {
        let named = self.folder.join("snapshots").join(commit).join(path);
        named.parent().map_or(Ok(()), fs::create_dir_all)?;
        let blob = self.blob(checksum);
        if fs::canonicalize(&named).ok() != Some(fs::canonicalize(&blob)?) {
            // A link to what is gone, or a damaged copy.
            match fs::remove_file(&named) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let up = "../".repeat(path.split('/').count() + 1);
            match link(&format!("{up}blobs/{checksum}"), &blob, &named) {
                // Another program was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // Not every file system knows links.
                Err(_) => fs::rename(&blob, &named)?,
                Ok(()) => {}
            }
        }
        Ok(named)
    }

    /// Makes a commit the latest one.
    pub fn set_main(&self, commit: &str) -> io::Result<()> {
        let refs = self.folder.join("refs");
        fs::create_dir_all(&refs)?;
        atomic_file::write_own(&refs.join("main"), Access::Everyone, |file| {
            io::Write::write_all(file, commit.as_bytes())
        })
    }
}

#[cfg(unix)]
fn link(target: &str, _: &Path, named: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, named)
}

/// Links need rights that users of other systems lack.
#[cfg(not(unix))]
fn link(_: &str, blob: &Path, named: &Path) -> io::Result<()> {
    fs::hard_link(blob, named)
}
