//! A file that is being downloaded: what is on the disk of it, and its checksum so far.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use models::regular_file;
use ring::digest::{Context, SHA256};

/// The beginning of a file.
pub struct Part {
    file: File,
    hash: Context,
    length: u64,
}

impl Part {
    /// Opens or creates the file, which is to have `size` bytes, and reads what is there. A file that is too long is
    /// emptied. `read` is told how many bytes were read.
    pub fn open(path: &Path, size: u64, mut read: impl FnMut(u64)) -> io::Result<Part> {
        let mut options = OpenOptions::new();
        let file = regular_file::open_own(path, options.read(true).write(true).create(true).truncate(false))?;
        let mut part = Part { file, hash: Context::new(&SHA256), length: 0 };
        if part.file.metadata()?.len() > size {
            part.empty()?;
        }
        let mut bytes = vec![0; 1 << 20];
        loop {
            match part.file.read(&mut bytes)? {
                0 => return Ok(part),
                count => {
                    part.hash.update(&bytes[..count]);
                    part.length += count as u64;
                    read(part.length);
                }
            }
        }
    }

    /// Bytes that are there.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Adds bytes at the end.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Begins anew.
    pub fn empty(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        (self.hash, self.length) = (Context::new(&SHA256), 0);
        Ok(())
    }

    /// Waits until the file is on the disk. Returns its SHA-256 in hexadecimal digits.
    pub fn finish(self) -> io::Result<String> {
        self.file.sync_all()?;
        Ok(self.hash.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_goes_on_where_it_stopped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("part");
        let open = |size| Part::open(&path, size, |_| ()).expect("a file");
        open(3).append(b"ab").expect("written");
        let mut part = open(3);
        assert_eq!(part.length(), 2);
        part.append(b"c").expect("written");
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(part.finish().expect("on the disk"), abc);
        assert_eq!(open(3).finish().expect("on the disk"), abc);
        assert_eq!(open(2).length(), 0, "a part that is too long is emptied");
        assert_eq!(std::fs::read(&path).expect("a file"), b"");
    }
}
