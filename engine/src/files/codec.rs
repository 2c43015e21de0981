//! The bytes of saved sessions: numbers in little-endian order, and a checksum of all bytes (XXH3).

use std::hash::Hasher as _;
use std::io::{self, Write};
use std::path::PathBuf;

use twox_hash::XxHash3_64;

use crate::{EngineError, Hint};

/// Bytes of a checksum.
pub(crate) const CHECKSUM_BYTES: usize = 8;

/// What is wrong with a session file, and what to do about it. It becomes an [`EngineError::Snapshot`] with
/// the file's path.
#[derive(Debug)]
pub(crate) struct SnapshotError {
    pub(crate) what: String,
    pub(crate) hint: Hint,
}

impl SnapshotError {
    /// The file is damaged, or another version of the program wrote it.
    pub(crate) fn new(what: impl Into<String>) -> SnapshotError {
        SnapshotError {
            what: what.into(),
            hint: Hint::advice(
                "the file is damaged or was written by another version of the program; read the text again",
            ),
        }
    }

    pub(crate) fn too_short() -> SnapshotError {
        SnapshotError::new("the file ends too early")
    }
}

impl From<SnapshotError> for EngineError {
    fn from(SnapshotError { what, hint }: SnapshotError) -> EngineError {
        EngineError::Snapshot { path: PathBuf::new(), what, hint }
    }
}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> SnapshotError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => SnapshotError::too_short(),
            _ => SnapshotError { what: error.to_string(), hint: Hint::for_io(&error) },
        }
    }
}

/// Bytes on their way into a file, with their checksum.
pub(crate) struct Output<'a> {
    to: &'a mut dyn Write,
    sum: XxHash3_64,
}

/// The rest of a file's bytes, and the checksum of those before.
pub(crate) struct Input<'a> {
    rest: &'a [u8],
    sum: XxHash3_64,
}

impl<'a> Output<'a> {
    pub(crate) fn new(to: &'a mut dyn Write) -> Output<'a> {
        Output { to, sum: XxHash3_64::new() }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        self.sum.write(bytes);
        Ok(self.to.write_all(bytes)?)
    }

    pub(crate) fn numbers(&mut self, numbers: impl Iterator<Item = u32>) -> Result<(), SnapshotError> {
        let bytes: Vec<u8> = numbers.flat_map(u32::to_le_bytes).collect();
        self.bytes(&bytes)
    }

    /// Writes the checksum.
    pub(crate) fn end(mut self) -> Result<(), SnapshotError> {
        let sum = self.sum.finish();
        self.bytes(&sum.to_le_bytes())
    }
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes, sum: XxHash3_64::new() }
    }

    /// How many bytes are left.
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    /// The next `count` bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], SnapshotError> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or_else(SnapshotError::too_short)?;
        self.sum.write(bytes);
        self.rest = rest;
        Ok(bytes)
    }

    /// The next `count` numbers.
    pub(crate) fn numbers(&mut self, count: usize) -> Result<Vec<u32>, SnapshotError> {
        let bytes = self.bytes(count.checked_mul(4).ok_or_else(SnapshotError::too_short)?)?;
        Ok(bytes.as_chunks().0.iter().map(|number| u32::from_le_bytes(*number)).collect())
    }

    /// Reads the checksum. An error if it is wrong, or if more follows.
    pub(crate) fn end(mut self) -> Result<(), SnapshotError> {
        let sum = self.sum.finish();
        if *self.bytes(CHECKSUM_BYTES)? != sum.to_le_bytes() {
            return Err(SnapshotError::new("its checksum is wrong"));
        }
        if !self.rest.is_empty() {
            return Err(SnapshotError::new("it has more bytes than it should"));
        }
        Ok(())
    }
}
