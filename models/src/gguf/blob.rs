//! The bytes of one model file: mapped, part of the program, or in memory.

use std::fmt;
use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use crate::MappedFile;
use crate::error::LoadError;

/// Shared, read-only bytes at an address that never changes. Cloning shares the memory.
///
/// Made from a `&'static [u8]`, a `Vec<u8>`, an `Arc<Vec<u8>>` or an `Arc<[u8]>`, none of which copies the
/// bytes to a second allocation. A computation uses weights in place if they start at a multiple of 32 bytes,
/// and otherwise copies them when the model is loaded. A `Vec<u8>` is therefore shifted to such an address if
/// it is not at one; an `Arc` stays as it is.
#[derive(Clone)]
pub enum Blob {
    /// A mapped file.
    Mapped(Arc<MappedFile>),
    /// Part of the program.
    Static(&'static [u8]),
    /// In memory.
    Owned(Arc<dyn AsRef<[u8]> + Send + Sync>),
}

impl Blob {
    pub(crate) fn map(path: &Path) -> Result<Blob, LoadError> {
        let io = |source| LoadError::Io { path: path.to_owned(), source };
        // Checked before opening, because opening a named pipe waits for a writer.
        let meta = fs::metadata(path).map_err(io)?;
        if meta.is_dir() {
            return Err(LoadError::Folder { path: path.to_owned() });
        }
        if !meta.is_file() {
            return Err(LoadError::NotAFile { path: path.to_owned() });
        }
        if meta.len() == 0 {
            return Ok(Blob::Static(&[])); // an empty file cannot be mapped
        }
        Ok(Blob::Mapped(Arc::new(MappedFile::open(path).map_err(io)?)))
    }

    /// An error if the bytes are those of a mapped file that is no longer complete: what was read from them
    /// may be zeros.
    pub(crate) fn check_complete(&self) -> Result<(), LoadError> {
        match self {
            Blob::Mapped(file) => file.check_complete(),
            Blob::Static(_) | Blob::Owned(_) => Ok(()),
        }
    }

    /// Tells the operating system that it may drop the memory pages of a range from `offset`. Reading the
    /// range still works: the pages are then read from the file again. Does nothing for a range that is not
    /// inside the file, or if no file is mapped.
    pub(crate) fn release_pages(&self, offset: usize, bytes: usize) {
        if let Blob::Mapped(file) = self {
            file.release_pages(offset, bytes);
        }
    }
}

impl Deref for Blob {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Blob::Mapped(file) => file.bytes(),
            Blob::Static(bytes) => bytes,
            Blob::Owned(bytes) => (**bytes).as_ref(),
        }
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Blob::Mapped(_) => "Mapped",
            Blob::Static(_) => "Static",
            Blob::Owned(_) => "Owned",
        };
        write!(f, "{kind}({} bytes)", self.len())
    }
}

impl From<&'static [u8]> for Blob {
    fn from(bytes: &'static [u8]) -> Blob {
        Blob::Static(bytes)
    }
}

impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Blob {
        Blob::Owned(Arc::new(AlignedBytes::new(bytes)))
    }
}

impl From<Arc<Vec<u8>>> for Blob {
    fn from(bytes: Arc<Vec<u8>>) -> Blob {
        Blob::Owned(bytes)
    }
}

impl From<Arc<[u8]>> for Blob {
    fn from(bytes: Arc<[u8]>) -> Blob {
        Blob::Owned(Arc::new(bytes))
    }
}

/// A vector whose bytes from `start` on begin at a multiple of [`AlignedBytes::ALIGNMENT`].
struct AlignedBytes {
    bytes: Vec<u8>,
    start: usize,
}

impl AlignedBytes {
    /// The alignment in bytes that ggml asks of tensor data. Large vectors rarely have it: allocators put
    /// their own record in front.
    const ALIGNMENT: usize = 32;

    fn new(mut bytes: Vec<u8>) -> AlignedBytes {
        let padding = |bytes: &Vec<u8>| (bytes.as_ptr() as usize).wrapping_neg() % Self::ALIGNMENT;
        let len = bytes.len();
        if padding(&bytes) > 0 {
            bytes.reserve_exact(Self::ALIGNMENT - 1);
        }
        // Within the capacity, so that the vector does not move after its address was read.
        let start = padding(&bytes);
        bytes.resize(len + start, 0);
        bytes.copy_within(..len, start);
        AlignedBytes { bytes, start }
    }
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_becomes_aligned_and_keeps_its_content() {
        let content: Vec<u8> = (0..1000u32).map(|i| i as u8).collect();
        for spare in 0..64 {
            let mut vector = Vec::with_capacity(content.len() + spare);
            vector.extend_from_slice(&content);
            let blob = Blob::from(vector);
            assert_eq!(*blob, *content);
            assert_eq!(blob.as_ptr() as usize % AlignedBytes::ALIGNMENT, 0);
        }
        assert!(Blob::from(Vec::new()).is_empty());
    }

    #[test]
    fn shared_bytes_stay_where_they_are() {
        let slice: Arc<[u8]> = vec![7; 100].into();
        let vector = Arc::new(vec![7; 100]);
        assert_eq!(Blob::from(slice.clone()).as_ptr(), slice.as_ptr());
        assert_eq!(Blob::from(vector.clone()).as_ptr(), vector.as_ptr());
        let blob = Blob::from(vec![7; 100]);
        assert_eq!(blob.clone().as_ptr(), blob.as_ptr());
    }
}
