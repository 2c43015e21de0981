//! The bytes of one model file: mapped, embedded in the binary, or owned. The only `unsafe` of this crate stands here: mapping a
//! file, and advice about the map.

use std::fs::{self, File};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

use crate::error::LoadError;

/// Shared, read-only bytes that never move; clones refer to the same memory.
#[derive(Clone)]
pub enum Blob {
    /// A mapped file.
    Mapped(Arc<Mmap>),
    /// Part of the program.
    Static(&'static [u8]),
    /// In memory.
    Owned(Arc<Vec<u8>>),
}

impl Blob {
    pub(crate) fn map(path: &Path) -> Result<Blob, LoadError> {
        let io = |source| LoadError::Io { path: path.to_owned(), source };
        // asked before opening, because opening a named pipe would wait for a writer
        let meta = fs::metadata(path).map_err(io)?;
        if !meta.is_file() {
            return Err(LoadError::NotAFile { path: path.to_owned() });
        }
        if meta.len() == 0 {
            return Ok(Blob::owned(Vec::new())); // an empty file cannot be mapped
        }
        let map = map(&File::open(path).map_err(io)?).map_err(io)?;
        Ok(Blob::Mapped(Arc::new(map)))
    }

    pub(crate) fn from_static(bytes: &'static [u8]) -> Blob {
        Blob::Static(bytes)
    }

    pub(crate) fn owned(bytes: Vec<u8>) -> Blob {
        Blob::Owned(Arc::new(bytes))
    }

    /// Lets the system take back the memory of a range that will hardly be read again; reading it still works. A range that is
    /// not inside is left alone.
    pub(crate) fn forget(&self, offset: usize, bytes: usize) {
        if offset.checked_add(bytes).is_none_or(|end| end > self.len()) {
            return;
        }
        #[cfg(unix)]
        if let Blob::Mapped(map) = self {
            // SAFETY: the range lies inside the map, as was just checked (the map's own function compares offset and length only
            // one by one). Pages dropped from a private, read-only map of a file are read from the file again.
            let _ = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, offset, bytes) };
        }
    }
}

impl Deref for Blob {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Blob::Mapped(map) => map,
            Blob::Static(bytes) => bytes,
            Blob::Owned(bytes) => bytes,
        }
    }
}

/// Maps a whole file for reading.
fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the map is private and read-only, and lives in `Blob`, which hands out slices no longer than itself. What remains
    // is that another process may change or truncate the file meanwhile; no program that maps weights can rule that out. All
    // numbers read here are bounded by the length at the time of mapping and used from copies, never read twice.
    unsafe { Mmap::map(file) }
}
