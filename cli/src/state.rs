//! The folder for what the program keeps of its user: conversations and what was typed.

use std::fs::DirBuilder;
use std::io;
use std::path::{Path, PathBuf};

/// `$XDG_STATE_HOME/longhand`, or the same in `~/.local/state`; `None` if the system names none.
pub fn folder() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = folder("XDG_STATE_HOME")
        .or_else(|| folder("HOME").map(|home| home.join(".local/state")))
        .or_else(|| folder("LOCALAPPDATA"))?;
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
