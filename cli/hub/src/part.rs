//! A file that is being downloaded: what is on the disk of it. Its checksum is that of the whole file, read from the
//! disk at the end: what stood there before, or was written by another program, counts too.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use models::regular_file;
use ring::digest::{Context, SHA256};

/// The beginning of a file.
pub struct PartialFile {
    file: File,
    length: u64,
}

impl PartialFile {
    /// Opens or creates the file, which is to have `size` bytes. A file that is too long is emptied.
    ///
    /// # Errors
    /// It is no regular file; the system's errors.
    pub fn open(path: &Path, size: u64) -> io::Result<PartialFile> {
        let mut options = OpenOptions::new();
        let file = regular_file::open_own(path, options.read(true).write(true).create(true).truncate(false))?;
        let mut part = PartialFile { length: file.metadata()?.len(), file };
        if part.length > size {
            part.empty()?;
        }
        part.file.seek(SeekFrom::Start(part.length))?;
        Ok(part)
    }

    /// Bytes that are there.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Adds bytes at the end.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Begins anew.
    pub fn empty(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.length = 0;
        Ok(())
    }

    /// Waits until the file is on the disk. Returns its SHA-256 in hexadecimal digits. `read` is told how many bytes
    /// were read, and ends the work with an error.
    pub fn finish(mut self, read: impl FnMut(u64) -> io::Result<()>) -> io::Result<String> {
        self.file.sync_all()?;
        self.file.seek(SeekFrom::Start(0))?;
        checksum(&mut self.file, read)
    }
}

/// SHA-256 of what is left of a file, in hexadecimal digits. `read` is told how many bytes were read, and ends the work
/// with an error.
pub fn checksum(file: &mut File, mut read: impl FnMut(u64) -> io::Result<()>) -> io::Result<String> {
    let (mut hash, mut bytes, mut length) = (Context::new(&SHA256), vec![0; 1 << 20], 0);
    loop {
        match file.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => {
                hash.update(&bytes[..count]);
                length += count as u64;
                read(length)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hash.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_part_goes_on_where_it_stopped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("part");
        let open = |size| PartialFile::open(&path, size).expect("a file");
        open(3).append(b"ab").expect("written");
        let mut part = open(3);
        assert_eq!(part.length(), 2);
        part.append(b"c").expect("written");
        assert_eq!(part.finish(|_| Ok(())).expect("on the disk"), ABC);
        assert_eq!(open(3).finish(|_| Ok(())).expect("on the disk"), ABC);
        assert_eq!(open(2).length(), 0, "a part that is too long is emptied");
        assert_eq!(std::fs::read(&path).expect("a file"), b"");
    }

    #[test]
    fn the_checksum_is_that_of_the_file_on_the_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("part");
        let mut part = PartialFile::open(&path, 3).expect("a file");
        part.append(b"abc").expect("written");
        std::fs::write(&path, b"abd").expect("another program");
        assert_ne!(part.finish(|_| Ok(())).expect("on the disk"), ABC);
    }

    #[test]
    fn a_checksum_that_nobody_wants_is_not_computed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("part");
        std::fs::write(&path, vec![0; 5 << 20]).expect("a file");
        let mut calls = 0;
        let stopped = PartialFile::open(&path, 5 << 20).expect("a file").finish(|_| {
            calls += 1;
            Err(io::Error::other("stop"))
        });
        assert_eq!((stopped.expect_err("stopped").to_string(), calls), ("stop".to_owned(), 1));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("part"), folder.path().join("other"));
        std::fs::write(&other, b"precious").expect("a file");
        std::os::unix::fs::symlink(&other, &path).expect("a link");
        assert_eq!(PartialFile::open(&path, 3).expect("a file in place of the link").length(), 0);
        assert!(regular_file::is_own(&path));
        assert_eq!(std::fs::read(&other).expect("a file"), b"precious");
    }
}
