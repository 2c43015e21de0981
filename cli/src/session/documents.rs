//! Documents of the command line: files, folders, patterns, addresses of the web and standard input.

use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use documents::{
    Document, DocumentError, Limits, Note, Options, Problem, Selection, Source, natural_path_order,
};
use hub::web;
use longhand::outline::Outline;
use longhand::{ChatFormat, Preamble};
use terminal::{format, stdin};

use crate::app::App;
use crate::failure::Failure;

/// How often a password is asked for.
const MAX_PASSWORDS: usize = 3;
/// Files such as `.gitignore` that are named in a note because their rules were not used.
const MAX_IGNORE_FILES: usize = 2;

/// The documents of a command, as one text.
#[derive(Default)]
pub struct Documents {
    text: String,
    outline: Outline,
    attachments: Vec<Attachment>,
}

/// What one path, folder or pattern has given.
pub struct Attachment {
    /// As it was given.
    pub name: String,
    /// Whether it is a folder or a pattern.
    is_collection: bool,
    /// `38 pages`, `212 files`; empty where there is nothing to count.
    pub count: String,
    /// What to know about it, such as what was left out.
    pub notes: Vec<String>,
    /// Its place in the text.
    range: Range<usize>,
}

impl Documents {
    /// Reads these files, folders and patterns. `-` is stdin. Empty lines separate them in the text.
    pub fn read(paths: &[PathBuf], options: &Options) -> Result<Documents> {
        Documents::read_until(paths, options, &AtomicBool::new(false))
    }

    /// The same. Ends with an error before the next file of a folder when `stop` is set.
    pub fn read_until(paths: &[PathBuf], options: &Options, stop: &AtomicBool) -> Result<Documents> {
        if paths.iter().filter(|path| is_stdin(path)).count() > 1 {
            return Err(Failure::usage("-f -: stdin is given twice", "give -f - only once").into());
        }
        let mut documents = Documents::default();
        for path in paths {
            let limits = Limits { bytes: documents.bytes_left(), ..options.limits };
            documents.push(read_source(path, &Options { limits, ..options.clone() }, stop)?);
        }
        Ok(documents)
    }

    /// The files of a path, of a folder or of a pattern, each on its own with its name, and which files of a folder were
    /// left out. A path that cannot be read is one file with its error.
    pub fn each(path: &Path, options: &Options) -> (Vec<(String, Result<Documents>)>, Option<String>) {
        let mut source = match read_source(path, options, &AtomicBool::new(false)) {
            Ok(source) => source,
            Err(error) => {
                let name = error.downcast_ref().map(|error: &DocumentError| error.name.clone());
                let given = path.display().to_string();
                let name = name.unwrap_or_else(|| web::without_login(&given).into_owned());
                return (vec![(name, Err(error))], None);
            }
        };
        let unreadable = std::mem::take(&mut source.skipped.unreadable);
        let left_out = if source.is_collection { skipped(&source) } else { Vec::new() };
        let one = |document: Document| {
            let mut documents = Documents::default();
            documents.push(document.into());
            documents
        };
        let mut each: Vec<_> = source
            .documents
            .into_iter()
            .map(|document| (document.name.clone(), Ok(one(document))))
            .chain(unreadable.into_iter().map(|error| (error.name.clone(), Err(error.into()))))
            .collect();
        each.sort_by(|(a, _), (b, _)| natural_path_order(Path::new(a), Path::new(b)));
        (each, Some(left_out.join("; ")).filter(|text| !text.is_empty()))
    }

    /// The documents of a chat. If stdin was one of them, the terminal becomes stdin, for the questions.
    pub fn for_chat(paths: &[PathBuf], options: &Options) -> Result<Documents> {
        let documents = Documents::read(paths, options)?;
        if paths.iter().any(|path| is_stdin(path)) {
            stdin::open_terminal()?;
        }
        Ok(documents)
    }

    /// The document that is piped into the program, if any: see [`stdin::is_piped`].
    pub fn piped(app: &App) -> Result<Documents> {
        let mut documents = Documents::default();
        if stdin::is_piped(&app.console) {
            match read_stdin(&Limits::default()) {
                Ok(document) => documents.push(document.into()),
                Err(error) if matches!(error.problem, Problem::Empty) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(documents)
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What begins where in the whole text.
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// The names of the files, without their folders; folders and patterns as they were given.
    pub fn names(&self) -> Vec<String> {
        let name = |attachment: &Attachment| match Path::new(&attachment.name).file_name() {
            Some(name) if !attachment.is_collection && !web::is_address(&attachment.name) => {
                name.to_string_lossy().into_owned()
            }
            _ => attachment.name.clone(),
        };
        self.attachments.iter().map(name).collect()
    }

    /// What each path, folder or pattern has given, with its text.
    pub fn attachments(&self) -> impl Iterator<Item = (&Attachment, &str)> {
        self.attachments.iter().map(|attachment| (attachment, self.text[attachment.range.clone()].trim_end()))
    }

    fn bytes_left(&self) -> u64 {
        Limits::default().bytes.saturating_sub(self.text.len() as u64)
    }

    fn push(&mut self, source: Source) {
        if !self.attachments.is_empty() {
            self.text.push_str("\n\n");
        }
        let (name, count, notes) = (source.name.clone(), count(&source), notes(&source));
        let is_collection = source.is_collection;
        let start = self.text.len();
        let (text, outline) = source.into_text();
        self.outline.append(start, outline);
        match self.text.is_empty() {
            true => self.text = text,
            false => self.text.push_str(&text),
        }
        self.attachments.push(Attachment {
            name,
            is_collection,
            count,
            notes,
            range: start..self.text.len(),
        });
    }

    /// What a chat about them begins with. Says how large they are.
    pub fn preamble(&self, app: &App, format: &ChatFormat, system: Option<&str>) -> Result<Preamble> {
        let preamble = Preamble::new(format, system, &self.text)?;
        self.announce(app, format, preamble.document_tokens())?;
        Ok(preamble.with_names(self.names()).with_outline(self.outline.clone()))
    }

    /// Says on stderr what was read: a line for each file, folder or pattern with its tokens. `tokens` are those
    /// of the whole text.
    pub fn announce(&self, app: &App, format: &ChatFormat, tokens: usize) -> Result<()> {
        for attachment in &self.attachments {
            let tokens = match self.attachments.len() {
                1 => tokens,
                _ => format.count(self.text[attachment.range.clone()].trim_end())?,
            };
            app.console.note(&attachment.line(tokens));
        }
        Ok(())
    }
}

impl Attachment {
    /// Where it begins in the whole text.
    pub fn start(&self) -> usize {
        self.range.start
    }

    /// `paper.pdf: 38 pages (3 pages without text)`; `None` where there is nothing to say.
    pub fn about(&self) -> Option<String> {
        let notes = self.notes.join("; ");
        match (self.count.is_empty(), notes.is_empty()) {
            (true, true) => None,
            (true, false) => Some(format!("{}: {notes}", self.name)),
            (false, true) => Some(format!("{}: {}", self.name, self.count)),
            (false, false) => Some(format!("{}: {} ({notes})", self.name, self.count)),
        }
    }

    /// `paper.pdf: 38 pages, 13,204 tokens (3 pages without text)`
    fn line(&self, tokens: usize) -> String {
        let count = if self.count.is_empty() { String::new() } else { format!("{}, ", self.count) };
        let notes = match self.notes.is_empty() {
            true => String::new(),
            false => format!(" ({})", self.notes.join("; ")),
        };
        format!("{}: {count}{}{notes}", self.name, plural(tokens, "token"))
    }
}

/// The whole text of a UTF-8 file, or of stdin for `-`, unchanged.
pub fn read_utf8(path: &Path) -> Result<String> {
    let name = if is_stdin(path) { "stdin".to_owned() } else { path.display().to_string() };
    let source: Result<Box<dyn Read>, _> = match is_stdin(path) {
        true => Ok(Box::new(io::stdin())),
        false => fs::File::open(path).map(|file| Box::new(file) as Box<dyn Read>).map_err(Problem::Read),
    };
    let bytes = source.and_then(|source| documents::read_stream(source, &Limits::default()));
    let bytes = bytes.map_err(|problem| DocumentError { name: name.clone(), problem })?;
    String::from_utf8(bytes).map_err(|error| {
        let utf16 = [[0xff, 0xfe], [0xfe, 0xff]].iter().any(|mark| error.as_bytes().starts_with(mark));
        let encoding = if utf16 { "utf-16" } else { "latin1" };
        let message = format!("{name}: not UTF-8 text: byte {} is invalid", error.utf8_error().valid_up_to());
        let hint = format!("convert it, for example with: iconv -f {encoding} -t utf-8");
        Failure::new(message, hint).into()
    })
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// What a path, a folder, a pattern, an address of the web or `-` names.
fn read_source(path: &Path, options: &Options, stop: &AtomicBool) -> Result<Source> {
    match path.to_str() {
        Some("-") => Ok(read_stdin(&options.limits)?.into()),
        Some(address) if web::is_address(address) => read_address(address, options),
        _ => with_password(&path.display().to_string(), options, |options| {
            documents::read(path, options, stop)
        }),
    }
}

/// Reads what may need a password, which a terminal is asked for. A wrong one is asked for again.
fn with_password(
    name: &str,
    options: &Options,
    read: impl Fn(&Options) -> Result<Source, DocumentError>,
) -> Result<Source> {
    let mut read_with = read(options);
    let mut attempts = 0;
    while let Err(DocumentError { problem: Problem::Encrypted | Problem::WrongPassword, .. }) = &read_with
        && options.password.is_none()
        && attempts < MAX_PASSWORDS
        && let Some(password) = terminal::password::ask(&match attempts {
            0 => format!("password of {name}: "),
            _ => format!("wrong; password of {name}: "),
        })?
    {
        attempts += 1;
        read_with = read(&Options { password: Some(password), ..options.clone() });
    }
    Ok(read_with?)
}

/// The document at an address, perhaps with the numbers of pages behind it.
fn read_address(named: &str, options: &Options) -> Result<Source> {
    let split = documents::split_numbers(Path::new(named));
    let (address, selection) = match &split {
        Some((path, numbers)) => {
            let failed = |problem| DocumentError { name: web::without_login(named).into_owned(), problem };
            (path.to_str().unwrap_or(named), Some(Selection::parse(numbers).map_err(failed)?))
        }
        None => (named, None),
    };
    let document = web::fetch(address)?;
    // Passwords are for the server alone.
    let (named, address) = (&*web::without_login(named), &*web::without_login(address));
    let media_type = Some(document.media_type.unwrap_or_default());
    let options = Options { selection, media_type, ..options.clone() };
    with_password(named, &options, |options| {
        let read = documents::read_bytes_with(address, &document.bytes, options);
        let mut document = read.map_err(|error| DocumentError { name: named.to_owned(), ..error })?;
        document.name = named.to_owned();
        Ok(document.into())
    })
}

fn read_stdin(limits: &Limits) -> Result<Document, DocumentError> {
    let name = "stdin";
    match documents::read_stream(io::stdin().lock(), limits) {
        Ok(bytes) => documents::read_bytes(name, &bytes, limits),
        Err(problem) => Err(DocumentError { name: name.to_owned(), problem }),
    }
}

fn count(source: &Source) -> String {
    match (source.is_collection, source.documents.first().and_then(|document| document.pages)) {
        (true, _) => plural(source.documents.len(), "file"),
        (false, Some(pages)) => plural(pages, "page"),
        (false, None) => String::new(),
    }
}

/// What to know about the documents, and which files of a folder were left out.
fn notes(source: &Source) -> Vec<String> {
    let all = || source.documents.iter().flat_map(|document| &document.notes);
    if !source.is_collection {
        return all().map(ToString::to_string).collect();
    }
    let mut notes = Vec::new();
    let mut add = |count: usize, what: &str| {
        if count > 0 {
            notes.push(format!("{} {what}", format::count(count)));
        }
    };
    let other = all().filter(|note| matches!(note, Note::Decoded { .. })).count();
    add(other, "in another encoding than UTF-8");
    let guessed = all().filter(|note| matches!(note, Note::Decoded { is_guess: true, .. })).count();
    add(guessed, "whose encoding is a guess");
    add(all().filter(|note| matches!(note, Note::CutOff)).count(), "cut within a character");
    let unconfined = all().filter(|note| matches!(note, Note::Unconfined)).count();
    add(unconfined, "read without limits on memory and time");
    let empty_pages = all().map(|note| if let Note::PagesWithoutText { pages } = note { *pages } else { 0 });
    add(empty_pages.sum(), "pages without text");
    notes.extend(documents::total(all()).iter().map(ToString::to_string));
    notes.extend(skipped(source));
    notes
}

/// Which files of a folder or a pattern were left out.
fn skipped(source: &Source) -> Vec<String> {
    let skipped = &source.skipped;
    let counts =
        [(skipped.binary, "binary"), (skipped.empty, "empty"), (skipped.links_out, "outside of the folder")];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> =
        counts.map(|(count, what)| format!("{} {what}", format::count(count))).collect();
    let waste: Vec<String> = skipped.left_out.reasons().map(|(why, count)| why.count(count)).collect();
    let mut notes = Vec::new();
    if !counts.is_empty() {
        notes.push(format!("{} left out", counts.join(", ")));
    }
    if !waste.is_empty() {
        notes.push(format!("{} left out (--all-files reads them)", waste.join(", ")));
    }
    if let Some(first) = skipped.unreadable.first() {
        notes.push(format!("{} not readable: {first}", format::count(skipped.unreadable.len())));
    }
    notes.extend(skipped.ignore_files.iter().take(MAX_IGNORE_FILES).map(ToString::to_string));
    if let Some(more @ 1..) = skipped.ignore_files.len().checked_sub(MAX_IGNORE_FILES) {
        notes.push(format!("the rules of {} other ignore files were not used", format::count(more)));
    }
    notes
}

pub fn plural(count: usize, what: &str) -> String {
    format!("{} {what}{}", format::count(count), if count == 1 { "" } else { "s" })
}

/// `book.txt`, `book.txt and 2 more`
pub fn names(names: &[String]) -> String {
    match names {
        [] => "the documents".to_owned(),
        [name] => name.clone(),
        [name, rest @ ..] => format!("{name} and {} more", rest.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_was_read() {
        let attachment = |count: &str, notes: &[&str]| {
            let notes = notes.iter().map(|note| (*note).to_owned()).collect();
            Attachment {
                name: "paper.pdf".into(),
                is_collection: false,
                count: count.into(),
                notes,
                range: 0..0,
            }
        };
        assert_eq!(attachment("38 pages", &[]).line(13204), "paper.pdf: 38 pages, 13,204 tokens");
        assert_eq!(attachment("", &["decoded as x", "y"]).line(1), "paper.pdf: 1 token (decoded as x; y)");
    }
}
