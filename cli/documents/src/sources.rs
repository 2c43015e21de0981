//! Paths, folders and patterns: from what a user names to documents.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;

use crate::{Document, DocumentError, Limits, Problem, read_file};

/// What one path, folder or pattern gives.
#[derive(Debug)]
pub struct Source {
    /// As it was asked for.
    pub name: String,
    /// Its documents: exactly one for a file, at least one for a folder or a pattern, sorted by path.
    pub documents: Vec<Document>,
    /// Whether it is a folder or a pattern.
    pub is_collection: bool,
    /// Files of a folder that were left out.
    pub skipped: Skipped,
}

/// Files of a folder or a pattern that were left out.
#[derive(Debug, Default)]
pub struct Skipped {
    /// Files that are no documents.
    pub binary: usize,
    /// Files without text.
    pub empty: usize,
    /// Files that could not be read.
    pub unreadable: Vec<DocumentError>,
}

impl From<Document> for Source {
    fn from(document: Document) -> Source {
        let name = document.name.clone();
        Source { name, documents: vec![document], is_collection: false, skipped: Skipped::default() }
    }
}

impl Source {
    /// The whole text. The documents of a folder or a pattern each follow a line with their path.
    pub fn into_text(self) -> String {
        if !self.is_collection {
            return self.documents.into_iter().map(|document| document.text).collect();
        }
        let mut whole = String::new();
        for Document { name, text, .. } in self.documents {
            let name: String = name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
            let gap = if whole.is_empty() { "" } else { "\n\n" };
            whole.extend([gap, "==> ", &name, " <==\n", text.trim_end()]);
        }
        whole
    }
}

/// Reads a file, all documents of a folder, or all documents that match a pattern such as `src/**/*.rs`.
///
/// In folders and for patterns, hidden files and those that `.gitignore` names are left out, and files that are no
/// documents are skipped. Links to folders are not followed. When `stop` is set, no other file is read.
///
/// # Errors
/// The file cannot be read, there are no documents or too many, or `stop` was set before the last one.
pub fn read(path: &Path, limits: &Limits, stop: &AtomicBool) -> Result<Source, DocumentError> {
    let name = path.display().to_string();
    if path.is_dir() {
        return collect(&name, files(path, None, limits), Problem::NoDocuments, limits, stop);
    }
    match split_pattern(path).filter(|_| !path.exists()) {
        Some((folder, pattern)) => {
            let files = matcher(&pattern).and_then(|matcher| files(&folder, Some(&matcher), limits));
            collect(&name, files, Problem::NoMatch, limits, stop)
        }
        None => read_file(path, limits).map(Source::from),
    }
}

/// Reads the files of a folder or a pattern.
fn collect(
    name: &str,
    files: Result<Vec<PathBuf>, Problem>,
    if_none: Problem,
    limits: &Limits,
    stop: &AtomicBool,
) -> Result<Source, DocumentError> {
    let failed = |problem| DocumentError { name: name.to_owned(), problem };
    let mut source = Source {
        name: name.to_owned(),
        documents: Vec::new(),
        is_collection: true,
        skipped: Skipped::default(),
    };
    let too_long = || failed(Problem::TooLong { limit: limits.bytes });
    let mut left = limits.bytes;
    for path in files.map_err(failed)? {
        if stop.load(Ordering::Relaxed) {
            return Err(failed(Problem::Read(io::ErrorKind::Interrupted.into())));
        }
        match read_file(&path, limits) {
            Ok(document) => {
                left = left.checked_sub(document.text.len() as u64).ok_or_else(too_long)?;
                source.documents.push(document);
            }
            Err(error) => match error.problem {
                Problem::TooLong { .. } => return Err(too_long()),
                Problem::Binary { .. } => source.skipped.binary += 1,
                Problem::Empty => source.skipped.empty += 1,
                _ => source.skipped.unreadable.push(error),
            },
        }
    }
    if source.documents.is_empty() {
        // The reason why the only file of a folder cannot be read says more than that there is none.
        return Err(source.skipped.unreadable.pop().unwrap_or_else(|| failed(if_none)));
    }
    Ok(source)
}

/// The files below a folder that match, sorted by path.
fn files(folder: &Path, matcher: Option<&GlobMatcher>, limits: &Limits) -> Result<Vec<PathBuf>, Problem> {
    let mut walk = WalkBuilder::new(folder);
    // Only the files of the folder itself and of those above it decide, not the user's settings.
    walk.require_git(false).git_global(false).git_exclude(false);
    walk.sort_by_file_path(Path::cmp);
    let mut files = Vec::new();
    for entry in walk.build() {
        let entry = match entry {
            Ok(entry) => entry,
            // A folder that may not be read is left out, as a hidden one is; the named folder is not.
            Err(error) if files.is_empty() && error.depth() == Some(0) => {
                return Err(Problem::Read(
                    error.into_io_error().unwrap_or_else(|| io::ErrorKind::Other.into()),
                ));
            }
            Err(_) => continue,
        };
        let path = entry.path().strip_prefix("./").unwrap_or(entry.path());
        // A link counts as the file it leads to. Devices and pipes are no files.
        if !path.is_file() || !matcher.is_none_or(|matcher| matcher.is_match(path)) {
            continue;
        }
        if files.len() == limits.files {
            return Err(Problem::TooManyFiles { limit: limits.files });
        }
        files.push(path.to_owned());
    }
    Ok(files)
}

/// A pattern, and the folder that all matching files are in. `None` if the path has none of the characters of
/// patterns.
fn split_pattern(path: &Path) -> Option<(PathBuf, String)> {
    let text = path.to_str()?;
    let special = text.find(['*', '?', '[', '{'])?;
    let folder = text[..special].rsplit_once('/').map_or("", |(folder, _)| folder);
    let folder = match (folder, text.starts_with('/')) {
        ("", true) => "/",
        ("", false) => ".",
        (folder, _) => folder,
    };
    Some((folder.into(), text.strip_prefix("./").unwrap_or(text).to_owned()))
}

fn matcher(pattern: &str) -> Result<GlobMatcher, Problem> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher())
        .map_err(|error| Problem::Pattern { why: error.kind().to_string() })
}
