//! Small files of the program and of the user. Others may have put a pipe, a device, a link or 20 GB in their place:
//! opening one never waits, and reading one takes no more memory than its limit.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// Opens a regular file for reading. Links are followed.
///
/// # Errors
/// Where it cannot be opened, or is anything else.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(path, OpenOptions::new().read(true))
}

/// Opens a regular file with these options. Links are followed.
///
/// # Errors
/// Those of [`open`].
pub fn open_with(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Opening some devices does something. That they are none is checked again when the file is open.
    check(&fs::metadata(path)?)?;
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, libc::O_NONBLOCK | libc::O_NOCTTY);
    opened(options.open(path)?)
}

/// Reads a regular file of at most `max_bytes`.
///
/// # Errors
/// Those of [`open`], and where reading fails or the file is larger ([`io::ErrorKind::InvalidData`]).
pub fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > max_bytes {
        true => {
            let what = format!("it is larger than {max_bytes} bytes");
            Err(io::Error::new(io::ErrorKind::InvalidData, what))
        }
        false => Ok(bytes),
    }
}

/// Reads a regular file of at most `max_bytes` as text, without the byte order mark that editors of Windows write.
///
/// # Errors
/// Those of [`read`], and where the file is no UTF-8.
pub fn read_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    let mut text = String::from_utf8(read(path, max_bytes)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.remove(0);
    }
    Ok(text)
}

/// Opens a regular file that is the program's own, with these options. A link in its place is removed: what it leads to
/// stays as it is.
///
/// # Errors
/// Where it cannot be opened, or is anything else.
pub fn open_own(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => fs::remove_file(path)?,
        Ok(found) => check(&found)?,
        // Opening it says what is wrong.
        Err(_) => {}
    }
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        options,
        libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY,
    );
    opened(options.open(path)?)
}

/// Whether a path itself, and not what a link leads to, is a regular file.
pub fn is_own(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}

fn opened(file: File) -> io::Result<File> {
    check(&file.metadata()?)?;
    Ok(file)
}

fn check(found: &fs::Metadata) -> io::Result<()> {
    match found.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A folder of this test, empty.
    fn scratch(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("longhand-regular-file-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn files_have_a_limit() {
        let folder = scratch("limit");
        let path = folder.join("file");
        fs::write(&path, "four").expect("written");
        assert_eq!(read(&path, 4).expect("short enough"), b"four");
        assert_eq!(read(&path, 3).expect_err("too long").to_string(), "it is larger than 3 bytes");
        fs::write(&path, b"\xff").expect("written");
        assert_eq!(read_text(&path, 4).expect_err("no text").to_string(), "it is not UTF-8 text");
        // 20 GB that take no space.
        File::create(&path).and_then(|file| file.set_len(20 << 30)).expect("a sparse file");
        read(&path, 1 << 10).expect_err("too long");
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn text_begins_behind_its_byte_order_mark() {
        let folder = scratch("mark");
        let path = folder.join("file");
        for (content, text) in
            [("\u{feff}a\r\n", "a\r\n"), ("\u{feff}", ""), ("a\u{feff}", "a\u{feff}"), ("", "")]
        {
            fs::write(&path, content).expect("written");
            assert_eq!(read_text(&path, 100).expect("text"), text);
        }
        fs::remove_dir_all(folder).expect("removed");
    }

    /// A pipe would wait for its other end for ever.
    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_an_error_at_once() {
        let folder = scratch("kinds");
        let pipe = folder.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        if !made.is_ok_and(|status| status.success()) {
            return println!("skipped: no mkfifo");
        }
        let link = folder.join("link");
        std::os::unix::fs::symlink(&pipe, &link).expect("a link");
        for path in [&pipe, &link, &folder, Path::new("/dev/zero")] {
            let error = read(path, 10).expect_err("no file");
            assert_eq!(error.to_string(), "it is not a regular file", "{}", path.display());
        }
        for options in [OpenOptions::new().read(true), OpenOptions::new().append(true).create(true)] {
            let error = open_own(&pipe, options).expect_err("no file");
            assert_eq!(error.to_string(), "it is not a regular file");
        }
        fs::remove_dir_all(folder).expect("removed");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_place_of_an_own_file_is_replaced() {
        let folder = scratch("links");
        let (own, elsewhere) = (folder.join("own"), folder.join("elsewhere"));
        fs::write(&elsewhere, "mine").expect("written");
        std::os::unix::fs::symlink(&elsewhere, &own).expect("a link");
        assert!(!is_own(&own) && is_own(&elsewhere));
        let mut file = open_own(&own, OpenOptions::new().append(true).create(true)).expect("a file");
        io::Write::write_all(&mut file, b"new").expect("written");
        assert_eq!(fs::read(&elsewhere).expect("a file"), b"mine");
        assert_eq!(fs::read(&own).expect("a file"), b"new");
        assert!(is_own(&own));
        fs::remove_dir_all(folder).expect("removed");
    }
}
