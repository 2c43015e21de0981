//! Writes files that appear complete or not at all.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Read as _, Write as _};
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use models::file_lock::{self, LockFile};
use models::regular_file;
use tempfile::{Builder, NamedTempFile};

/// What the names of temporary files have behind the name of the file, and their extension. Between them are the number
/// of the process and random letters. A killed process leaves one behind: see [`remove_leftovers`].
const TEMPORARY_MARK: &str = ".longhand-";
const TEMPORARY_EXTENSION: &str = ".tmp";
/// Random letters in the name of a temporary file.
const RANDOM_LETTERS: usize = 12;
/// How often a file is replaced anew that another program has open on Windows, and how long each attempt waits.
const ATTEMPTS: usize = 50;
const WAIT: Duration = Duration::from_millis(20);
/// Of longer names, temporary files have the beginning only.
const MAX_NAME_CHARS: usize = 50;

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
/// Where `path` exists and is not a regular file, is a link that leads nowhere, or writing fails. What was there before
/// stays as it is, and nothing else is left behind.
///
/// ```
/// use std::io::Write;
///
/// use longhand::files::atomic_file::{self, Access};
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
    DraftFile::written(path, access, Links::Follow, content)?.replace()?;
    Ok(())
}

/// As [`write()`], for a file in one of the program's own folders: a link in its place is replaced and not followed.
/// What it leads to stays as it is. The permissions are those of a new file.
///
/// # Errors
/// Where `path` exists and is neither a regular file nor a link, or writing fails.
pub fn write_own<E: From<io::Error>>(
    path: &Path,
    access: Access,
    content: impl FnOnce(&mut BufWriter<&File>) -> Result<(), E>,
) -> Result<(), E> {
    DraftFile::written(path, access, Links::Replace, content)?.replace()?;
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
    DraftFile::written(path, access, Links::Follow, content)?.create_new()?;
    Ok(())
}

/// What is done with a link in place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// The file behind it is replaced.
    Follow,
    /// It is replaced itself.
    Replace,
}

/// A temporary file that will replace a file or become a new one. It is locked, and removed if it is dropped
/// before that.
pub(crate) struct DraftFile {
    temporary: NamedTempFile,
    /// The file, behind all links.
    path: PathBuf,
}

impl DraftFile {
    /// An empty temporary file beside `path`.
    pub(crate) fn new(path: &Path, access: Access, links: Links) -> io::Result<DraftFile> {
        let (path, existing) = match links {
            Links::Follow => target(path)?,
            Links::Replace => (path.to_owned(), if_found(fs::symlink_metadata(path))?),
        };
        let is_file = |found: &Metadata| found.is_file() || found.is_symlink();
        if existing.as_ref().is_some_and(|found| !is_file(found)) {
            return Err(io::Error::other("it exists and is not a regular file"));
        }
        let name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?;
        let prefix = format!("{}{}-", temporary_prefix(name), std::process::id());
        let mut builder = Builder::new();
        builder.prefix(&prefix).suffix(TEMPORARY_EXTENSION).rand_bytes(RANDOM_LETTERS);
        let temporary = loop {
            let temporary = builder.make_in(folder(&path), |path| new_file(access).open(path))?;
            // Where files cannot be locked, their names tell whether they are leftovers. What is returned in the end ends the lock.
            let _ = file_lock::lock(temporary.as_file());
            if has_name(temporary.as_file())? {
                break temporary;
            }
            // Another process took it for a leftover before it was locked.
        };
        if let Some(existing) = existing.filter(|_| links == Links::Follow) {
            temporary.as_file().set_permissions(existing.permissions())?;
        }
        Ok(DraftFile { temporary, path })
    }

    /// A temporary file beside `path` with this content.
    fn written<E: From<io::Error>>(
        path: &Path,
        access: Access,
        links: Links,
        content: impl FnOnce(&mut BufWriter<&File>) -> Result<(), E>,
    ) -> Result<DraftFile, E> {
        let draft = DraftFile::new(path, access, links)?;
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

    /// Another handle of the temporary file.
    pub(crate) fn try_clone(&self) -> io::Result<LockFile> {
        self.temporary.as_file().try_clone().map(LockFile::new)
    }

    /// Gives the file its name. What had it is gone. Returns the file, which is still locked. Older Windows
    /// refuses this while the file of that name is open.
    pub(crate) fn replace(self) -> io::Result<LockFile> {
        let (file, temporary) = self.temporary.into_parts();
        let mut attempts = 0;
        // On newer Windows this replaces files that are open, as `persist` does not.
        while let Err(error) = fs::rename(&temporary, &self.path) {
            // Scanners of viruses and programs that make indexes open new files for a moment.
            if !(cfg!(windows) && attempts < ATTEMPTS && is_in_use(&error)) {
                return Err(error);
            }
            attempts += 1;
            thread::sleep(WAIT);
        }
        // An error says that there is no file of the old name.
        let _ = temporary.keep();
        sync_folder(folder(&self.path));
        Ok(LockFile::new(file))
    }

    /// As [`DraftFile::replace`]; an error if a file has the name already.
    pub(crate) fn create_new(self) -> io::Result<LockFile> {
        let file = self.temporary.persist_noclobber(&self.path)?;
        sync_folder(folder(&self.path));
        Ok(LockFile::new(file))
    }
}

/// Whether `path` could be written now.
///
/// # Errors
/// Those of [`write()`].
pub fn check_writable(path: &Path) -> io::Result<()> {
    DraftFile::new(path, Access::Owner, Links::Follow).map(drop)
}

/// Removes the temporary files of killed processes from a folder: all of them, or those of the file `name`. Only files
/// that this program made are removed: their names have the mark of temporary files, and they are empty or begin with
/// `begins`, as all files of this kind do. Errors are ignored.
pub fn remove_leftovers(folder: &Path, name: Option<&OsStr>, begins: &[u8]) {
    let prefix = name.map(temporary_prefix);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let process = name.to_str().and_then(|name| process_of(name, prefix.as_deref()));
        let Some(process) = process.filter(|_| regular_file::is_own(&path)) else { continue };
        if let Ok(file) = regular_file::open(&path).map(LockFile::new) {
            let is_free = match file.try_lock() {
                Ok(()) => true,
                // It is still written to.
                Err(TryLockError::WouldBlock) => false,
                // Not every file system knows locks.
                Err(TryLockError::Error(_)) => has_ended(process),
            };
            // It is removed while it is locked: another process may be about to write a file of this name.
            if is_free && is_beginning(&file, begins) {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

/// How the names of temporary files of the file `name` begin.
fn temporary_prefix(name: &OsStr) -> String {
    let name: String = name.to_string_lossy().chars().take(MAX_NAME_CHARS).collect();
    name + TEMPORARY_MARK
}

/// The process that made the temporary file of this name, if it is one: of a file whose temporary files begin with
/// `prefix`, where that is given.
fn process_of(name: &str, prefix: Option<&str>) -> Option<u32> {
    let rest = match prefix {
        Some(prefix) => name.strip_prefix(prefix)?,
        None => name.rsplit_once(TEMPORARY_MARK)?.1,
    };
    let (process, random) = rest.strip_suffix(TEMPORARY_EXTENSION)?.split_once('-')?;
    let is_random = random.len() == RANDOM_LETTERS && random.bytes().all(|byte| byte.is_ascii_alphanumeric());
    process.parse().ok().filter(|_| is_random)
}

/// Whether a process of this machine has ended; false where that is not known.
fn has_ended(process: u32) -> bool {
    let processes = Path::new("/proc");
    processes.join("self").exists() && !processes.join(process.to_string()).exists()
}

/// Whether a file has these bytes at its beginning, or was cut off before it had them. After a loss of power, blocks that
/// were not written yet are zeros.
pub(crate) fn is_beginning(file: &File, begins: &[u8]) -> bool {
    let mut found = Vec::new();
    let read = file.take(begins.len() as u64).read_to_end(&mut found);
    read.is_ok() && (begins.starts_with(&found) || found.iter().all(|byte| *byte == 0))
}

/// The folder that a file is in.
pub(crate) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a file could not be replaced because it is open.
fn is_in_use(error: &io::Error) -> bool {
    /// ERROR_SHARING_VIOLATION.
    const SHARED: i32 = 32;
    error.kind() == io::ErrorKind::PermissionDenied || error.raw_os_error() == Some(SHARED)
}

/// Whether an open file still has a name.
fn has_name(file: &File) -> io::Result<bool> {
    #[cfg(unix)]
    return Ok(std::os::unix::fs::MetadataExt::nlink(&file.metadata()?) > 0);
    #[cfg(not(unix))]
    return file.metadata().map(|_| true);
}

/// What a path leads to, and its metadata where it exists.
fn target(path: &Path) -> io::Result<(PathBuf, Option<Metadata>)> {
    match if_found(dunce::canonicalize(path))? {
        Some(target) => {
            let existing = if_found(fs::metadata(&target))?;
            Ok((target, existing))
        }
        // Neither the link nor a file that its owner does not expect.
        None if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is a link to a file that does not exist"))
        }
        None => Ok((path.to_owned(), None)),
    }
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
        assert!(missing.contains("(os error "), "{missing}");
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

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_nowhere_is_neither_followed_nor_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        let error = write_text(&link, Access::Owner, "new").expect_err("an error").to_string();
        assert_eq!(error, "it is a link to a file that does not exist");
        assert_eq!(fs::read_link(&link).expect("the link"), target);
        assert_eq!(names(folder.path()), ["link"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_a_folder_of_the_program_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let (link, elsewhere) = (folder.path().join("link"), folder.path().join("elsewhere"));
        for target in [elsewhere.clone(), folder.path().join("nowhere")] {
            fs::write(&elsewhere, "mine").expect("written");
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(target, &link).expect("a link");
            write_own(&link, Access::Owner, |file| file.write_all(b"new")).expect("written");
            assert_eq!(fs::read(&elsewhere).expect("a file"), b"mine");
            assert_eq!(fs::read(&link).expect("a file"), b"new");
            assert!(regular_file::is_own(&link));
        }
        let mut found = names(folder.path());
        found.sort();
        assert_eq!(found, ["elsewhere", "link"]);
        let error =
            write_own(folder.path(), Access::Owner, |_| Ok::<(), io::Error>(())).expect_err("a folder");
        assert_eq!(error.to_string(), "it exists and is not a regular file");
    }

    #[test]
    fn only_temporary_files_of_this_program_are_leftovers() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("talk");
        let temporary = |name: &str, process: u32| format!("{name}.longhand-{process}-abcdefABCDEF.tmp");
        // Nobody has this number.
        let ended = u32::MAX;
        let ours = [temporary("talk", ended), temporary("talk", 1), temporary("talk", std::process::id())];
        let not_ours = [
            "talk.tmp".to_owned(),
            "talk.Ab12cd.tmp".to_owned(),
            "talk.backup.tmp".to_owned(),
            "talk.longhand-1-short.tmp".to_owned(),
            "talk.longhand-one-abcdefABCDEF.tmp".to_owned(),
            temporary("other", ended),
        ];
        let write = |name: &String, text: &str| fs::write(folder.path().join(name), text).expect("written");
        for text in ["", "MA", "MAGIC and more", "\0\0\0\0\0\0"] {
            ours.iter().chain(&not_ours).for_each(|name| write(name, text));
            remove_leftovers(folder.path(), path.file_name(), b"MAGIC");
            let mut left = names(folder.path());
            left.sort();
            let mut expected = not_ours.to_vec();
            expected.sort();
            assert_eq!(left, expected, "{text:?}");
        }
        // Of another kind, or still written to.
        write(&ours[0], "a letter to my mother");
        remove_leftovers(folder.path(), path.file_name(), b"MAGIC");
        assert!(names(folder.path()).contains(&ours[0]));
        let draft = DraftFile::new(&path, Access::Owner, Links::Follow).expect("a draft");
        remove_leftovers(folder.path(), None, b"MAGIC");
        assert!(draft.temporary.path().exists());
        let left = names(folder.path()).len();
        assert_eq!(left, not_ours.len() + 1, "that of the other file is removed, too");
    }

    /// File systems allow names of 255 bytes. Temporary files have longer ones.
    #[test]
    fn long_names_have_temporary_files_too() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["n".repeat(255), "書".repeat(85)] {
            let path = folder.path().join(name);
            write_text(&path, Access::Owner, "one").expect("written");
            write_text(&path, Access::Owner, "two").expect("written");
            assert_eq!(fs::read(&path).expect("a file"), b"two");
        }
        assert_eq!(names(folder.path()).len(), 2);
    }
}
