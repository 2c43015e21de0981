//! Writes files that appear complete or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use tempfile::Builder;

/// The extension of temporary files. A killed process leaves one behind.
pub const TEMPORARY_EXTENSION: &str = "tmp";

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
    let behind_links = if_found(fs::canonicalize(path))?;
    let path = behind_links.as_deref().unwrap_or(path);
    let existing = if_found(fs::metadata(path))?;
    if existing.as_ref().is_some_and(|metadata| !metadata.is_file()) {
        return Err(io::Error::other("it exists and is not a regular file").into());
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?;
    let mut prefix = name.to_owned();
    prefix.push(".");
    let suffix = format!(".{TEMPORARY_EXTENSION}");
    // Removed if it is dropped before `persist`.
    let temporary =
        Builder::new().prefix(&prefix).suffix(&suffix).make_in(folder, |path| new_file(access).open(path))?;
    if let Some(existing) = existing {
        temporary.as_file().set_permissions(existing.permissions())?;
    }
    let mut out = BufWriter::with_capacity(1 << 20, temporary.as_file());
    content(&mut out)?;
    out.flush()?;
    drop(out);
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|error| error.error)?;
    sync_folder(folder);
    Ok(())
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
