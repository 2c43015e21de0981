//! The user's folders of longhand, and how to keep what is in them below a size.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The name of the folders.
const NAME: &str = "longhand";

/// What can be made again: `$XDG_CACHE_HOME/longhand`, or the same in `~/.cache`; on Windows `%LOCALAPPDATA%\longhand\cache`.
/// `None` if the system names none.
pub fn cache() -> Option<PathBuf> {
    folder("XDG_CACHE_HOME", ".cache", "LOCALAPPDATA", "cache")
}

/// What was said and typed: `$XDG_STATE_HOME/longhand`, or the same in `~/.local/state`; on Windows
/// `%LOCALAPPDATA%\longhand\state`.
pub fn state() -> Option<PathBuf> {
    folder("XDG_STATE_HOME", ".local/state", "LOCALAPPDATA", "state")
}

/// Settings: `$XDG_CONFIG_HOME/longhand`, or the same in `~/.config`; on Windows `%APPDATA%\longhand`.
pub fn config() -> Option<PathBuf> {
    folder("XDG_CONFIG_HOME", ".config", "APPDATA", "")
}

/// The folder that `variable` names, or else that of the system: below the home folder, or on Windows below `of_windows`.
fn folder(variable: &str, in_home: &str, of_windows: &str, below: &str) -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.has_root());
    if let Some(given) = absolute(variable) {
        return Some(given.join(NAME));
    }
    match cfg!(windows) {
        // HOME is set in some shells only.
        true => Some(absolute(of_windows)?.join(NAME).join(below)),
        false => Some(absolute("HOME")?.join(in_home).join(NAME)),
    }
}

/// Bytes that this user may still write on the disk of a folder; `None` where that is not known.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    #[cfg(unix)]
    return {
        let system = rustix::fs::statvfs(folder).ok()?;
        Some(system.f_bavail.saturating_mul(system.f_frsize))
    };
    #[cfg(windows)]
    win32::free_bytes(folder)
}

/// Makes a folder, and those around it that are missing. Only the user may enter them, whatever the umask is.
///
/// # Errors
/// Where it cannot be made, or those of [`check_trusted`].
pub fn make_private(folder: &Path) -> io::Result<()> {
    make(folder)?;
    check_trusted(folder)
}

fn make(folder: &Path) -> io::Result<()> {
    match make_one(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make(folder.parent().filter(|parent| !parent.as_os_str().is_empty()).ok_or(error)?)?;
            // Another process may be faster.
            make_one(folder).or_else(|error| if folder.is_dir() { Ok(()) } else { Err(error) })?;
        }
        Err(_) if folder.is_dir() => return Ok(()),
        made => made?,
    }
    // The umask may have taken rights of the user, too.
    #[cfg(unix)]
    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    Ok(())
}

/// Makes a folder whose parent exists. On Windows it has the rights of its parent.
fn make_one(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::DirBuilderExt::mode(&mut fs::DirBuilder::new(), 0o700).create(folder);
    #[cfg(not(unix))]
    fs::create_dir(folder)
}

/// Refuses a folder in which others may have put files: one that belongs to another user, other than root, or that others
/// may write to. The same holds for the folder of longhand around it. What does not exist is trusted.
///
/// # Errors
/// Which folder is not trusted, and why.
pub fn check_trusted(folder: &Path) -> io::Result<()> {
    // On Windows they follow from the rights of the user's profile.
    #[cfg(not(unix))]
    let _ = folder;
    #[cfg(unix)]
    for folder in
        [Some(folder), folder.parent().filter(|parent| parent.ends_with(NAME))].into_iter().flatten()
    {
        use std::os::unix::fs::MetadataExt as _;
        let found = match fs::metadata(folder) {
            Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => {
                continue;
            }
            found => found?,
        };
        let refused = |what: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        let folder = folder.display();
        if ![rustix::process::geteuid().as_raw(), 0].contains(&found.uid()) {
            return refused(format!("the folder {folder} belongs to another user, so it is not used"));
        }
        if found.mode() & 0o022 != 0 {
            return refused(format!(
                "other users may write to the folder {folder}, so it is not used (chmod 700 makes it private)"
            ));
        }
    }
    Ok(())
}

/// A file that takes space.
#[derive(Clone, Debug)]
pub struct Occupant {
    /// The file.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// When it was used last.
    pub used: SystemTime,
}

/// Frees space until `bytes` more fit into `limit`: what was not used for longest goes first. `free` gets a file and
/// returns how many bytes it has freed. False if there is no room; where `bytes` alone are too many, nothing is freed.
pub fn make_room(
    mut occupants: Vec<Occupant>,
    bytes: u64,
    limit: u64,
    mut free: impl FnMut(&Path) -> u64,
) -> bool {
    let Some(left) = limit.checked_sub(bytes) else { return false };
    occupants.sort_by_key(|occupant| occupant.used);
    let mut total: u64 = occupants.iter().map(|occupant| occupant.bytes).sum();
    for occupant in occupants {
        if total <= left {
            break;
        }
        total = total.saturating_sub(free(&occupant.path));
    }
    total <= left
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
    }

    #[test]
    fn folders_are_made_private() {
        let base = tempfile::tempdir().expect("a folder");
        let folder = base.path().join("cache/longhand/documents");
        make_private(&folder).expect("made");
        for folder in folder.ancestors().take(3) {
            assert_eq!(fs::metadata(folder).expect("a folder").permissions().mode() & 0o777, 0o700);
        }
        make_private(&folder).expect("it is there");
        fs::write(folder.join("file"), "").expect("a file");
        assert!(
            make_private(&folder.join("file")).is_err() && make_private(&folder.join("file/in")).is_err()
        );
    }

    #[test]
    fn folders_that_others_may_write_to_are_not_trusted() {
        let base = tempfile::tempdir().expect("a folder");
        let folder = base.path().join("longhand/documents");
        check_trusted(&folder).expect("it does not exist");
        make_private(&folder).expect("made");
        for (inner, outer, is_trusted) in [
            (0o700, 0o700, true),
            (0o755, 0o755, true),
            (0o777, 0o700, false),
            (0o770, 0o700, false),
            (0o700, 0o777, false),
        ] {
            set_mode(&folder, inner);
            set_mode(folder.parent().expect("a folder"), outer);
            assert_eq!(check_trusted(&folder).is_ok(), is_trusted, "{inner:o} {outer:o}");
            assert_eq!(make_private(&folder).is_ok(), is_trusted, "{inner:o} {outer:o}");
        }
    }
}
