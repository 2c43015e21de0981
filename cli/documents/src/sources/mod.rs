//! Paths, folders and patterns: from what a user names to documents.

mod ignore_rules;
mod pattern;
mod walk;
mod waste;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use outline::{Begins, Outline};

use self::pattern::Pattern;
use self::walk::Walk;
pub use self::waste::Waste;
use crate::{Document, DocumentError, Kind, Options, Problem, Selection, read_file, split_numbers};

/// What one path, folder or pattern gives.
#[derive(Debug)]
pub struct Source {
    /// As it was asked for.
    pub name: String,
    /// Its documents: exactly one for a file, at least one for a folder or a pattern, in the
    /// natural order of their paths.
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
    /// Files and folders that could not be read.
    pub unreadable: Vec<DocumentError>,
    /// Files such as `.gitignore` whose rules were not used, so that more was read.
    pub ignore_files: Vec<DocumentError>,
    /// Files and folders that [`Options::all_files`] reads.
    pub left_out: LeftOut,
    /// Links to files and folders outside of the folder.
    pub links_out: usize,
}

/// Files and folders that are left out, counted by the reason.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LeftOut(BTreeMap<Waste, usize>);

impl LeftOut {
    fn add(&mut self, why: Waste) {
        *self.0.entry(why).or_default() += 1;
    }

    /// The reasons, each with its count.
    pub fn reasons(&self) -> impl Iterator<Item = (Waste, usize)> {
        self.0.iter().map(|(why, count)| (*why, *count))
    }
}

impl From<Document> for Source {
    fn from(document: Document) -> Source {
        let name = document.name.clone();
        Source { name, documents: vec![document], is_collection: false, skipped: Skipped::default() }
    }
}

impl Source {
    /// The whole text, and what begins where in it. The documents of a folder or a pattern each follow a line with their
    /// path. In the outline, single files have no folder.
    pub fn into_text(self) -> (String, Outline) {
        let (mut whole, mut outline) = (String::new(), Outline::default());
        for document in self.documents {
            let name: String =
                document.name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
            let start = whole.len();
            if !self.is_collection {
                let file = Path::new(&name).file_name().map(|file| file.to_string_lossy().into_owned());
                let name = file.unwrap_or(name);
                outline.push(start, Begins::Document(name.clone()));
                outline.append(start, document.outline.within(&name));
                whole.push_str(&document.text);
                continue;
            }
            let gap = if whole.is_empty() { "" } else { "\n\n" };
            whole.extend([gap, "==> ", &name, " <==\n"]);
            outline.push(start + gap.len(), Begins::Document(name.clone()));
            outline.append(whole.len(), document.outline.within(&name));
            whole.push_str(document.text.trim_end());
        }
        (whole, outline)
    }
}

/// Reads a file, all documents of a folder, or all documents that match a pattern such as `src/**/*.rs`. A file or a
/// folder whose name has the characters of patterns is not taken for a pattern. Numbers behind a name choose pages,
/// chapters, slides or sheets: `book.pdf:10-40`.
///
/// In folders and for patterns some files are left out, unless [`Options::all_files`] is set: hidden ones, what programs made
/// for programs, and those that `.gitignore` and `.ignore` name, also where these are in a folder above. Files that are no
/// documents are skipped. Links to folders and out of the folder are not followed. When `stop` is set, no other file is
/// read.
///
/// # Errors
/// The file cannot be read, there are no documents or too many, or `stop` was set before the last one.
pub fn read(path: &Path, options: &Options, stop: &AtomicBool) -> Result<Source, DocumentError> {
    let name = path.display().to_string();
    let failed = |problem| DocumentError { name: name.clone(), problem };
    if let Some((path, numbers)) = split_numbers(path) {
        let selection = Selection::parse(numbers).map_err(failed)?;
        let options = Options { selection: Some(selection), ..options.clone() };
        let named = |of: &str| format!("{of}:{numbers}");
        let read = read(&path, &options, stop);
        let mut source = read.map_err(|error| DocumentError { name: named(&error.name), ..error })?;
        source.name = named(&source.name);
        source.documents.iter_mut().for_each(|document| document.name = named(&document.name));
        return Ok(source);
    }
    let walk = Walk { options, stop };
    if path.is_dir() {
        return collect(&name, walk.files(path, None).map_err(failed)?, Problem::NoDocuments, &walk);
    }
    match Pattern::split(path).filter(|_| path.symlink_metadata().is_err()) {
        Some((folder, pattern)) => {
            let files = Pattern::new(&pattern).and_then(|pattern| walk.files(&folder, Some(&pattern)));
            collect(&name, files.map_err(failed)?, Problem::NoMatch, &walk)
        }
        None => read_file(path, options).map(Source::from),
    }
}

/// Reads the files that were found.
fn collect(
    name: &str,
    found: walk::Found,
    if_none: Problem,
    Walk { options, stop }: &Walk,
) -> Result<Source, DocumentError> {
    let failed = |problem| DocumentError { name: name.to_owned(), problem };
    let limits = &options.limits;
    let walk::Found { files, unreadable, ignore_files, left_out, links_out } = found;
    let mut source = Source {
        name: name.to_owned(),
        documents: Vec::new(),
        is_collection: true,
        skipped: Skipped { unreadable, ignore_files, left_out, links_out, ..Skipped::default() },
    };
    let too_long = || failed(Problem::TooLong { limit: limits.bytes });
    let mut left = limits.bytes;
    for path in files {
        if stop.load(Ordering::Relaxed) {
            return Err(failed(walk::stopped()));
        }
        match read_file(&path, options) {
            // Archives in folders are releases and test data more often than documents. One that is named is read.
            Ok(document) if document.kind == Kind::Archive => source.skipped.binary += 1,
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
