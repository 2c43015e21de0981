//! The rules of `.gitignore` and `.ignore`: which files of a folder are left out. These files come with the folder, from
//! whoever made it, and those above it may be another user's. So only regular files are read, and only up to a length:
//! a device never ends, a pipe never begins, and the rules of a large file take all memory.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::pattern::check_depth;
use crate::{DocumentError, Problem};

/// Bytes of all rules that apply to a folder. Each byte may take some hundred bytes of memory.
const MAX_BYTES: u64 = 128 << 10;

/// The rules of a folder and of those above it.
pub(super) struct Rules {
    ignore: Option<Gitignore>,
    gitignore: Option<Gitignore>,
    /// Whether the folder is a git repository: `.gitignore` of folders above it does not apply.
    is_repository: bool,
    /// Bytes of these rules and those above.
    bytes: u64,
    above: Option<Rc<Rules>>,
}

impl Rules {
    /// The rules for a folder, by its absolute path. What is not used is added to `unused`.
    pub(super) fn of_folder(folder: &Path, unused: &mut Vec<DocumentError>) -> Rc<Rules> {
        let mut above = None;
        for folder in folder.ancestors().collect::<Vec<_>>().into_iter().rev() {
            above = Some(Rules::within(folder, above, unused));
        }
        above.unwrap_or_else(|| Rules::within(folder, None, unused))
    }

    /// The rules for a folder whose parent has the rules `above`.
    pub(super) fn within(
        folder: &Path,
        above: Option<Rc<Rules>>,
        unused: &mut Vec<DocumentError>,
    ) -> Rc<Rules> {
        let mut bytes = above.as_ref().map_or(0, |above| above.bytes);
        let mut read = |name: &str| {
            let path = folder.join(name);
            let rules = text(&path, MAX_BYTES - bytes).and_then(|found| {
                let Some((text, length)) = found else { return Ok(None) };
                bytes += length;
                rules(folder, &text).map(Some)
            });
            rules.unwrap_or_else(|why| {
                let problem = Problem::IgnoreFile { why };
                unused.push(DocumentError { name: path.display().to_string(), problem });
                None
            })
        };
        let (ignore, gitignore) = (read(".ignore"), read(".gitignore"));
        let is_repository = folder.join(".git").symlink_metadata().is_ok();
        Rc::new(Rules { ignore, gitignore, is_repository, bytes, above })
    }

    /// What the rules say about a file or a folder, by its absolute path. `.ignore` counts before `.gitignore`, and a
    /// folder before those above it.
    pub(super) fn matched(&self, path: &Path, is_folder: bool) -> Match<()> {
        let of = |rules: &Option<Gitignore>| {
            rules.as_ref().map_or(Match::None, |rules| rules.matched(path, is_folder).map(|_| ()))
        };
        let (mut ignore, mut gitignore, mut in_repository) = (Match::None, Match::None, false);
        let mut level = Some(self);
        while let Some(rules) = level {
            ignore = ignore.or(of(&rules.ignore));
            if !in_repository {
                gitignore = gitignore.or(of(&rules.gitignore));
            }
            in_repository |= rules.is_repository;
            level = rules.above.as_deref();
        }
        ignore.or(gitignore)
    }
}

/// The compiled rules of a text. Lines that are no rules have no effect.
///
/// # Errors
/// Why they are not used.
fn rules(folder: &Path, text: &str) -> Result<Gitignore, String> {
    let mut builder = GitignoreBuilder::new(folder);
    for line in text.lines().filter(|line| check_depth(line).is_ok()) {
        let _ = builder.add_line(None, line);
    }
    builder.build().map_err(|_| "there are too many of them".to_owned())
}

/// The text of a file with rules, and the bytes that the file has; `None` if there is none.
///
/// # Errors
/// Why it is not used.
fn text(path: &Path, limit: u64) -> Result<Option<(String, u64)>, String> {
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let no_file = || "it is not a regular file".to_owned();
    let failed = |error: std::io::Error| error.to_string();
    // Opening a device may have effects, and the file may be another one by then.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(no_file());
    }
    let file = open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(no_file());
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limit {
        return Err(format!("with those of the folders above it has more than {} KiB", MAX_BYTES >> 10));
    }
    let length = bytes.len() as u64;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    Ok(Some((String::from_utf8_lossy(bytes).into_owned(), length)))
}

/// Opens a file. Does not wait for the other end of a pipe.
fn open(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    }
    options.read(true).open(path)
}
