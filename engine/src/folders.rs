//! The user's folders of longhand, and how to keep what is in them below a size.

use std::fs::DirBuilder;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What can be made again: `$XDG_CACHE_HOME/longhand`, or the same in `~/.cache`. `None` if the system names none.
pub fn cache() -> Option<PathBuf> {
    folder("XDG_CACHE_HOME", ".cache")
}

/// What was said and typed: `$XDG_STATE_HOME/longhand`, or the same in `~/.local/state`.
pub fn state() -> Option<PathBuf> {
    folder("XDG_STATE_HOME", ".local/state")
}

/// Settings: `$XDG_CONFIG_HOME/longhand`, or the same in `~/.config`.
pub fn config() -> Option<PathBuf> {
    folder("XDG_CONFIG_HOME", ".config")
}

fn folder(variable: &str, in_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(variable)
        .or_else(|| absolute("HOME").map(|home| home.join(in_home)))
        .or_else(|| absolute("LOCALAPPDATA"))?;
    Some(base.join("longhand"))
}

/// Makes a folder, and those around it, that only its owner may enter.
pub fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
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
