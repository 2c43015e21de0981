//! Documents within a document: files of an archive, attachments of a message.

use super::{convert_within, marked_text, open};
use crate::counts::Counts;
use crate::kind::{self, binary};
use crate::marks;
use crate::package::{Archive, natural_order};
use crate::{Converted, Kind, Limits, Note, Options, Problem};

/// Archives and messages within each other.
const MAX_DEPTH: usize = 3;
/// Files of an archive, and notes about them besides those that are counted.
const MAX_FILES: usize = 20_000;
const MAX_NOTES: usize = 20;
/// Folders whose files are read only if all are.
const LEFT_OUT: &[&str] = &["node_modules", "__pycache__"];

/// Documents within one, one behind the other.
pub(crate) struct Parts<'a> {
    options: &'a Options,
    depth: usize,
    text: String,
    notes: Vec<Note>,
    pub(crate) counts: Counts,
}

impl<'a> Parts<'a> {
    pub(super) fn new(options: &'a Options, depth: usize) -> Parts<'a> {
        Parts { options, depth, text: String::new(), notes: Vec::new(), counts: Counts::default() }
    }

    /// Appends text of the document around them.
    ///
    /// # Errors
    /// There is too much text.
    pub(crate) fn push_text(&mut self, text: &str) -> Result<(), Problem> {
        let gap = if self.text.is_empty() || text.is_empty() { "" } else { "\n" };
        self.text.extend([gap, text]);
        match self.text.len() as u64 > self.options.limits.bytes {
            true => Err(Problem::TooLong { limit: self.options.limits.bytes }),
            false => Ok(()),
        }
    }

    /// Appends a document with its name. What is no document is counted.
    ///
    /// # Errors
    /// There is too much text, or the document unpacks to too much.
    pub(crate) fn push(&mut self, name: &str, bytes: &[u8]) -> Result<(), Problem> {
        let Some(text) = self.text_of(name, bytes)? else { return Ok(()) };
        self.push_text(&format!("{}{}\n", marks::document(name), text.trim_end()))
    }

    /// The text of a document that is a part of this one. What is no document is counted.
    ///
    /// # Errors
    /// As of [`Parts::push`].
    pub(crate) fn within(&mut self, name: &str, bytes: &[u8]) -> Result<Option<String>, Problem> {
        if self.depth < MAX_DEPTH {
            return self.text_of(name, bytes);
        }
        self.counts.skipped_files.push(name);
        Ok(None)
    }

    /// Its text, if it has one.
    fn text_of(&mut self, name: &str, bytes: &[u8]) -> Result<Option<String>, Problem> {
        match self.convert(name, bytes) {
            Ok(converted) => {
                self.add_notes(converted.notes);
                Ok(Some(converted.text).filter(|text| !text.trim().is_empty()))
            }
            Err(problem @ (Problem::TooLong { .. } | Problem::Unpacked { .. })) => Err(problem),
            Err(_) => {
                self.counts.skipped_files.push(name);
                Ok(None)
            }
        }
    }

    /// What a reader should know about a part. The same is said once.
    pub(crate) fn add_notes(&mut self, notes: Vec<Note>) {
        for note in notes {
            if !self.counts.add_note(&note) && self.notes.len() < MAX_NOTES && !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// Most bytes of text.
    pub(crate) fn max_bytes(&self) -> u64 {
        self.options.limits.bytes
    }

    fn convert(&self, name: &str, bytes: &[u8]) -> Result<Converted, Problem> {
        let (kind, bytes) = match kind::detect(name, bytes)? {
            Some(kind @ (Kind::Text | Kind::Markdown)) => return marked_text(name, kind, bytes),
            kind => open(kind, bytes, self.options)?,
        };
        let is_bundle = matches!(kind, Kind::Archive | Kind::Mail);
        if is_bundle && self.depth >= MAX_DEPTH {
            return Err(Problem::TooDeep);
        }
        let left = self.options.limits.bytes.saturating_sub(self.text.len() as u64);
        let limits = Limits { bytes: left, ..self.options.limits };
        convert_within(kind, &bytes, &Options { limits, ..self.options.clone() }, self.depth + 1)
    }

    /// All of them.
    pub(crate) fn finish(mut self) -> Converted {
        self.notes.extend(self.counts.notes());
        Converted { text: self.text, notes: self.notes, ..Converted::default() }
    }
}

/// Converts an archive.
///
/// # Errors
/// It is damaged or encrypted, has no documents, or has too much text.
pub(super) fn convert(bytes: &[u8], mut parts: Parts) -> Result<Converted, Problem> {
    let mut archive = Archive::new(bytes)?.with_password(parts.options.password.as_deref());
    // Nothing is written, so a name may lead anywhere.
    let is_hidden =
        |part: &str| (part.starts_with('.') && !matches!(part, "." | "..")) || LEFT_OUT.contains(&part);
    let is_read = |name: &String| parts.options.all_files || !name.split('/').any(is_hidden);
    // What a Mac knows of files beside them.
    let is_file = |name: &&str| !name.ends_with('/') && !name.starts_with("__MACOSX/");
    let mut files: Vec<String> = archive.names().filter(is_file).map(str::to_owned).collect();
    files.sort_by(|a, b| natural_order(a, b));
    let (names, left_out): (Vec<String>, Vec<String>) = files.into_iter().partition(is_read);
    if names.len() > MAX_FILES {
        return Err(Problem::TooManyFiles { limit: MAX_FILES });
    }
    let mut encrypted = 0;
    for name in &names {
        match archive.bytes(name) {
            Ok(bytes) => parts.push(name, &bytes)?,
            Err(problem @ Problem::Unpacked { .. }) => return Err(problem),
            Err(problem) => {
                if matches!(problem, Problem::WrongPassword) {
                    return Err(problem);
                }
                encrypted += usize::from(matches!(problem, Problem::Encrypted));
                parts.counts.skipped_files.push(name);
            }
        }
    }
    left_out.iter().for_each(|name| parts.counts.skipped_files.push(name));
    for _ in 0..archive.of_same_name() {
        parts.counts.skipped_files.push("another file of the same name");
    }
    match parts.text.is_empty() {
        true if encrypted > 0 => Err(Problem::Encrypted),
        true => Err(binary("an archive (ZIP) without documents")),
        false => Ok(parts.finish()),
    }
}
