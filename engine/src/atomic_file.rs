//! Writes files that appear complete or not at all.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write as _};
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// The extension of temporary files. A killed process leaves one behind: see [`remove_leftovers`].
const TEMPORARY_EXTENSION: &str = "tmp";

/// Who may read a new file. A file that exists keeps its permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Its owner: for what people have written and read.
    Owner,
    /// Everyone whom the process's umask allows.
    Everyone,
}

/// Writes `content` to a temporary file in the folder of `path`, with a name that cannot be foreseen, and
/// then gives it its name. A link is followed: the file behind it is replaced.
///
/// # Errors
/// Where `path` exists and is not a regular file, or writing fails. What was there before stays as it is, and
/// nothing else is left behind.
///
/// ```
/// use std::io::Write;
///
/// use longhand::atomic_file::{self, Access};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("notes.txt");
/// atomic_file::write(&path, Access::Owner, |file| file.write_all(b"complete"))?;
/// assert_eq!(std::fs::read(&path)?, b"complete");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write<E: From<io::Error>>(
    path: &Path,
    access: Access,
    content: impl FnOnce(&mut BufWriter<&File>) -> Result<(), E>,
) -> Result<(), E> {
    Draft::written(path, access, content)?.replace()?;
    Ok(())
}

/// As [`write()`], for a file that must not exist.
///
/// # Errors
/// Those of [`write()`], and where `path` exists.
pub fn write_new<E: From<io::Error>>(
    path: &Path,
    access: Access,
    content: impl FnOnce(&mut BufWriter<&File>) -> Result<(), E>,
) -> Result<(), E> {
    Draft::written(path, access, content)?.create_new()?;
    Ok(())
}

/// A temporary file that will replace a file or become a new one. It is locked, and removed if it is dropped
/// before that.
pub(crate) struct Draft {
    temporary: NamedTempFile,
    /// The file, behind all links.
    path: PathBuf,
}

impl Draft {
    /// An empty temporary file beside `path`.
    pub(crate) fn new(path: &Path, access: Access) -> io::Result<Draft> {
        let path = if_found(fs::canonicalize(path))?.unwrap_or_else(|| path.to_owned());
        let existing = if_found(fs::metadata(&path))?;
        if existing.as_ref().is_some_and(|metadata| !metadata.is_file()) {
            return Err(io::Error::other("it exists and is not a regular file"));
        }
        let name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?;
        let prefix = temporary_prefix(name);
        let suffix = format!(".{TEMPORARY_EXTENSION}");
        let mut builder = Builder::new();
        builder.prefix(&prefix).suffix(&suffix);
        let temporary = loop {
            let temporary = builder.make_in(folder(&path), |path| new_file(access).open(path))?;
            // Where files cannot be locked, nobody takes this one for a leftover either.
            let _ = temporary.as_file().lock();
            if has_name(temporary.as_file())? {
                break temporary;
            }
            // Another process took it for a leftover before it was locked.
        };
        if let Some(existing) = existing {
            temporary.as_file().set_permissions(existing.permissions())?;
        }
        Ok(Draft { temporary, path })
    }

    /// A temporary file beside `path` with this content.
    fn written<E: From<io::Error>>(
        path: &Path,
        access: Access,
        content: impl FnOnce(&mut BufWriter<&File>) -> Result<(), E>,
    ) -> Result<Draft, E> {
        let draft = Draft::new(path, access)?;
        draft.write(content)?;
        Ok(draft)
    }

    /// Writes the content, and waits until it is on the disk.
    pub(crate) fn write<E: From<io::Error>>(
        &self,
        content: impl FnOnce(&mut BufWriter<&File>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut out = BufWriter::with_capacity(1 << 20, self.temporary.as_file());
        content(&mut out)?;
        out.flush()?;
        drop(out);
        Ok(self.temporary.as_file().sync_all()?)
    }

    /// The metadata of the temporary file; size, time and identity stay when it gets its name.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.temporary.as_file().metadata()
    }

    /// Gives the file its name. What had it is gone. Returns the file, which is still locked.
    pub(crate) fn replace(self) -> io::Result<File> {
        let file = self.temporary.persist(&self.path)?;
        sync_folder(folder(&self.path));
        Ok(file)
    }

    /// As [`Draft::replace`]; an error if a file has the name already.
    pub(crate) fn create_new(self) -> io::Result<File> {
        let file = self.temporary.persist_noclobber(&self.path)?;
        sync_folder(folder(&self.path));
        Ok(file)
    }
}

/// Whether `path` could be written now.
///
/// # Errors
/// Those of [`write()`].
pub fn check_writable(path: &Path) -> io::Result<()> {
    Draft::new(path, Access::Owner).map(drop)
}

/// Removes the temporary files of killed processes from a folder: all of them, or those of the file `name`.
/// Errors are ignored.
pub fn remove_leftovers(folder: &Path, name: Option<&OsStr>) {
    let prefix = name.map(temporary_prefix).unwrap_or_default();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (name, found) = (entry.file_name(), entry.path());
        let is_temporary = name.as_encoded_bytes().starts_with(prefix.as_encoded_bytes())
            && found.extension().is_some_and(|extension| extension == TEMPORARY_EXTENSION)
            && entry.file_type().is_ok_and(|kind| kind.is_file());
        // A file that is still written to is locked.
        if is_temporary && File::open(&found).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(&found);
        }
    }
}

/// How the names of temporary files of the file `name` begin.
fn temporary_prefix(name: &OsStr) -> OsString {
    let mut prefix = name.to_owned();
    prefix.push(".");
    prefix
}

/// The folder that a file is in.
pub(crate) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether an open file still has a name.
fn has_name(file: &File) -> io::Result<bool> {
    #[cfg(unix)]
    return Ok(std::os::unix::fs::MetadataExt::nlink(&file.metadata()?) > 0);
    #[cfg(not(unix))]
    return file.metadata().map(|_| true);
}

/// `None` where there is no such file.
fn if_found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a file that must not exist yet.
fn new_file(access: Access) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    options.mode(if access == Access::Owner { 0o600 } else { 0o666 });
    #[cfg(not(unix))]
    let _ = access;
    options
}

/// Makes the new name last through a loss of power. The file is complete either way, and not every file
/// system can do this, so an error is none.
fn sync_folder(folder: &Path) {
    #[cfg(unix)]
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    #[cfg(not(unix))]
    let _ = folder;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_text(path: &Path, access: Access, text: &str) -> io::Result<()> {
        write(path, access, |file| file.write_all(text.as_bytes()))
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect()
    }

    #[test]
    fn an_error_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        write_text(&path, Access::Everyone, "old").expect("written");
        let failed = write(&path, Access::Everyone, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("stop"))
        });
        assert_eq!(failed.expect_err("an error").to_string(), "stop");
        assert_eq!(fs::read(&path).expect("a file"), b"old");
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn a_new_file_replaces_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let write_new = |text: &str| write_new(&path, Access::Owner, |file| file.write_all(text.as_bytes()));
        write_new("one").expect("written");
        assert_eq!(write_new("two").expect_err("an error").kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).expect("a file"), b"one");
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn only_regular_files_in_existing_folders_are_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = |path: &Path| write_text(path, Access::Owner, "new").expect_err("an error").to_string();
        assert_eq!(error(folder.path()), "it exists and is not a regular file");
        assert_eq!(error(Path::new("/")), "it exists and is not a regular file");
        let missing = error(&folder.path().join("missing/file"));
        assert!(missing.starts_with("No such file or directory"), "{missing}");
        assert!(names(folder.path()).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn new_files_of_the_owner_are_private_and_old_files_keep_their_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let mode = || fs::metadata(&path).expect("a file").permissions().mode() & 0o777;
        write_text(&path, Access::Owner, "one").expect("written");
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("changed");
        write_text(&path, Access::Owner, "two").expect("written");
        assert_eq!(mode(), 0o640);
        fs::remove_file(&path).expect("removed");
        write_text(&path, Access::Everyone, "three").expect("written");
        assert_eq!(mode() & 0o700, 0o600);
    }

    #[cfg(unix)]
    #[test]
    fn the_file_behind_a_link_is_replaced_and_the_link_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        write_text(&path, Access::Owner, "old").expect("written");
        std::os::unix::fs::symlink("file", &link).expect("a link");
        write_text(&link, Access::Owner, "new").expect("written");
        assert_eq!(fs::read(&path).expect("a file"), b"new");
        assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
    }
}
