//! Reads numbers and strings from a file's bytes in sequence. Never reads past the end, and returns no count
//! that the remaining bytes cannot hold, so that callers can allocate by it.

use crate::error::LoadError;

/// A read position in the bytes of a file.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    /// Bytes from the start of the file.
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Cursor<'a> {
        Cursor { bytes, at: at.min(bytes.len()) }
    }

    /// The position in bytes from the start of the file.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// Number of bytes from the position to the end of the file.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `n` bytes; `what` names them in the error.
    pub(crate) fn take(&mut self, n: u64, what: &dyn Fn() -> String) -> Result<&'a [u8], LoadError> {
        if n > self.left() as u64 {
            return Err(LoadError::Truncated {
                what: what(),
                offset: self.at as u64,
                needs: n,
                left: self.left() as u64,
            });
        }
        let start = self.at;
        self.at += n as usize; // fits in usize: n <= left
        Ok(&self.bytes[start..self.at])
    }

    pub(crate) fn u32(&mut self, what: &dyn Fn() -> String) -> Result<u32, LoadError> {
        let b = self.take(4, what)?;
        Ok(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    pub(crate) fn u64(&mut self, what: &dyn Fn() -> String) -> Result<u64, LoadError> {
        let b = self.take(8, what)?;
        Ok(u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
    }

    /// A string: its length as u64, then that many bytes.
    pub(crate) fn string(&mut self, what: &dyn Fn() -> String) -> Result<&'a [u8], LoadError> {
        let len = self.u64(&|| format!("the length of {}", what()))?;
        self.take(len, what)
    }

    /// A count of items of at least `min_bytes` bytes each. An error if the rest of the file cannot hold so
    /// many.
    pub(crate) fn count(&mut self, min_bytes: u64, what: &dyn Fn() -> String) -> Result<usize, LoadError> {
        let offset = self.at as u64;
        let n = self.u64(&|| format!("the number of {}", what()))?;
        let fit = self.left() as u64 / min_bytes;
        if n > fit {
            return Err(LoadError::Implausible {
                what: format!("the number of {}", what()),
                offset,
                found: n,
                expected: format!("the rest of the file has room for {fit} at most"),
            });
        }
        Ok(n as usize)
    }
}
