//! Documents as people have them, as text: plain text, source code, pages, books, PDFs, and files of office programs,
//! single, in folders or in archives. Knows nothing of terminals and models.
//!
//! Files are untrusted. What is more than text is looked into and converted in a child process with limits on time,
//! memory and stack (`convert/mod.rs`). So a hostile file cannot end or block the program.
//!
//! ```
//! use documents::{Kind, Limits};
//!
//! let page = b"<!doctype html><h1>Boats</h1><p>The old boat crossed the&nbsp;river.";
//! let document = documents::read_bytes("page.html", page, &Limits::default())?;
//! // The page is Markdown now.
//! assert_eq!(document.kind, Kind::Html);
//! assert_eq!(document.text, "# Boats\n\nThe old boat crossed the river.\n");
//! # Ok::<(), documents::DocumentError>(())
//! ```

#![forbid(unsafe_code)]

mod color;
mod convert;
mod counts;
mod error;
mod kind;
mod marks;
mod office;
mod package;
mod pdf;
mod plain;
mod selection;
mod sources;
mod web;
mod writer;

use std::fmt;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;
use std::time::Duration;

use outline::Outline;
use serde::{Deserialize, Serialize};

use self::web::media_type;

pub use self::convert::{DOCUMENT, convert_in_process, serve};
pub use self::counts::total;
pub use self::error::{DocumentError, Problem};
pub use self::package::natural_path_order;
pub use self::selection::{Selection, Unit, split_numbers, without_numbers};
pub use self::sources::{LeftOut, Skipped, Source, Waste, read};

/// What a document may take.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum size in bytes of a file, and of the text of all files of a folder.
    pub bytes: u64,
    /// Maximum number of files in a folder.
    pub files: usize,
    /// Maximum time to convert a file, without the time for its size.
    pub time: Duration,
    /// Maximum memory to convert a file in bytes, without the memory for its size. Only Linux and Windows have this limit.
    pub memory_bytes: u64,
}

impl Default for Limits {
    /// 1 GiB, which is about 200 million tokens; 20,000 files; a minute and 1 GiB for a file.
    fn default() -> Limits {
        Limits { bytes: 1 << 30, files: 20_000, time: Duration::from_secs(60), memory_bytes: 1 << 30 }
    }
}

/// What is read, and how.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Options {
    /// What a document may take.
    pub limits: Limits,
    /// Whether files of folders are read that are left out otherwise.
    pub all_files: bool,
    /// Which pages, chapters, slides or sheets are read; `None` for all.
    pub selection: Option<Selection>,
    /// The password of documents that are encrypted.
    pub password: Option<String>,
    /// What a server says that the document is, if it came from one: `text/html; charset=utf-8`. Its name is its address.
    pub media_type: Option<String>,
}

impl From<Limits> for Options {
    fn from(limits: Limits) -> Options {
        Options { limits, ..Options::default() }
    }
}

/// A document as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its path, or what the caller calls it.
    pub name: String,
    /// What it was.
    pub kind: Kind,
    /// Its text, never empty. Text files are unchanged except for a byte order mark, and for dots, empty lines and spaces
    /// that say nothing; source code is not changed.
    pub text: String,
    /// Pages of a PDF that were read.
    pub pages: Option<usize>,
    /// Where its pages and sections begin, and documents within it.
    pub outline: Outline,
    /// What a reader should know about the text.
    pub notes: Vec<Note>,
}

/// A kind of document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Plain text or source code.
    Text,
    /// Markdown, which is used as it is.
    Markdown,
    /// A page of the web.
    Html,
    /// Portable Document Format.
    Pdf,
    /// A document of Word and other office programs.
    Docx,
    /// An electronic book.
    Epub,
    /// A text, spreadsheet or presentation of LibreOffice and other office programs.
    OpenDocument,
    /// Rich Text Format.
    Rtf,
    /// A presentation of PowerPoint and other office programs.
    Pptx,
    /// A workbook of Excel and other office programs.
    Xlsx,
    /// A table with separators.
    Csv,
    /// A notebook of Jupyter.
    Notebook,
    /// Subtitles of a video.
    Subtitles,
    /// A message, or a page that is saved as one.
    Mail,
    /// An archive with documents.
    Archive,
}

/// What a reader should know about a document's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Note {
    /// It was converted in the program's own process, without limits on memory and time.
    Unconfined,
    /// It was not UTF-8.
    Decoded {
        /// The encoding.
        encoding: String,
        /// Whether nothing but the text itself tells it.
        is_guess: bool,
    },
    /// It begins or ends within a character.
    CutOff,
    /// It ends before its end.
    Incomplete,
    /// Only some of its pages, chapters, slides or sheets were read.
    Chosen {
        /// Their numbers: `3,10-12`.
        numbers: String,
        /// What it is divided into.
        unit: Unit,
        /// How many it has.
        count: usize,
    },
    /// These bytes were no text of its encoding and were replaced.
    Replaced {
        /// Number of replaced places.
        places: usize,
    },
    /// A quotation mark of a table is not closed, so that all of them were read as characters.
    OpenQuote,
    /// Rows that a spreadsheet repeats were left out.
    RepeatedRows {
        /// Their number.
        rows: usize,
    },
    /// Pages that have no text.
    PagesWithoutText {
        /// Their number.
        pages: usize,
    },
    /// Pages that have little text beside pictures that cover most of them, such as a stamp on a scan.
    PicturePages {
        /// Their number.
        pages: usize,
    },
    /// Pages that a PDF names and does not have, or of whose content a part is missing or damaged.
    DamagedPages {
        /// Their number.
        pages: usize,
    },
    /// Forms (XFA) that Adobe's programs make when they show them: the pages of the file only say so.
    DynamicForms {
        /// Their number.
        forms: usize,
    },
    /// Glyphs of which the file does not say which characters they are.
    UnknownGlyphs {
        /// Their number.
        glyphs: usize,
    },
    /// Characters that the file does not tell. The program of their font does, with a table that is meant for something else.
    CharactersOfPrograms {
        /// Their number.
        characters: usize,
    },
    /// Text that a reader of the document does not see was left out.
    HiddenText {
        /// The number of places that had it.
        places: usize,
    },
    /// White text that was read: what is behind it is not known.
    WhiteText {
        /// The number of places that have it.
        places: usize,
    },
    /// Text that is deleted in a document whose changes are tracked was left out.
    Deletions {
        /// The number of deletions.
        places: usize,
    },
    /// Slides and sheets that are hidden were left out.
    HiddenParts {
        /// Their number.
        parts: usize,
    },
    /// Pictures, charts and drawings without a description.
    Pictures {
        /// Their number.
        pictures: usize,
    },
    /// Small boxes beside text that are drawn, as for ticks in forms. Whether one is ticked was not read.
    DrawnBoxes {
        /// Their number.
        boxes: usize,
    },
    /// Formulas that only another program can read.
    UnreadFormulas {
        /// Their number.
        formulas: usize,
    },
    /// Rows of tables whose cells may be in other columns than in the document.
    LostColumns {
        /// Their number.
        rows: usize,
    },
    /// Cells of a spreadsheet whose formulas have no result in the file.
    NoResults {
        /// Their number.
        cells: usize,
    },
    /// Chapters that a book names and that cannot be read.
    MissingChapters {
        /// Their number.
        count: usize,
        /// The names of the first of them.
        names: Vec<String>,
    },
    /// Headings of a book's table of contents that lead to places which the book does not have.
    LostHeadings {
        /// Their number.
        count: usize,
        /// The first of them.
        names: Vec<String>,
    },
    /// Pages of a book that are not in its order of reading.
    UnorderedChapters {
        /// Their number.
        chapters: usize,
    },
    /// Files in an archive, or attachments of a message or of a PDF, that are no documents or are not read.
    SkippedFiles {
        /// Their number.
        count: usize,
        /// The names of the first of them.
        names: Vec<String>,
    },
    /// Text of a page that a reader does not see: outside of it, covered, or in the colour of what is behind it.
    HiddenCharacters {
        /// Its characters without spaces.
        characters: usize,
    },
    /// The text that a PDF gives in place of what is drawn has other numbers. Those that are drawn were read.
    OtherNumbers {
        /// The number of places.
        places: usize,
    },
    /// Numbers of headings, clauses and items that the document makes in a way that is not known. They are not in the text.
    UnknownNumbers {
        /// The number of places, or of rules where the places are not known.
        places: usize,
    },
    /// Numbers of headings, clauses and items that are in digits, because the numerals of the document are not known.
    UnknownNumerals {
        /// The number of places.
        places: usize,
    },
    /// Text of a page that a rule of style may hide: for which elements it is, is not known. The text was read.
    UnreadStyles {
        /// The number of places.
        places: usize,
    },
    /// Drawings of a PDF that repeat others too often were left out.
    RepeatedDrawings {
        /// Their number.
        drawings: usize,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let s = |count: usize| if count == 1 { "" } else { "s" };
        match self {
            Note::Unconfined => f.write_str("it was read without limits on memory and time"),
            Note::Decoded { encoding, is_guess: false } => write!(f, "decoded as {encoding}"),
            Note::Decoded { encoding, is_guess: true } => {
                write!(f, "decoded as {encoding}, which is a guess")
            }
            Note::CutOff => {
                f.write_str("the file begins or ends within a character: a part of it may be missing")
            }
            Note::Incomplete => f.write_str("the file ends too early: a part of it is missing"),
            Note::Chosen { numbers, unit, count } => {
                let is_one = numbers.bytes().all(|byte| byte.is_ascii_digit());
                write!(f, "{} {numbers} of {count}", unit.name(if is_one { 1 } else { 2 }))
            }
            Note::Replaced { places } => write!(f, "invalid characters in {places} place{}", s(*places)),
            Note::OpenQuote => f.write_str(
                "a quotation mark is not closed: marks were read as characters, and rows may be divided wrongly",
            ),
            Note::RepeatedRows { rows } => {
                write!(f, "{rows} row{} left out, which {} the one above", s(*rows), if *rows == 1 { "repeats" } else { "repeat" })
            }
            Note::PagesWithoutText { pages } => write!(f, "{pages} page{} without text", s(*pages)),
            Note::PicturePages { pages: 1 } => f.write_str("1 page is mostly a picture: OCR may find text in it"),
            Note::PicturePages { pages } => write!(f, "{pages} pages are mostly pictures: OCR may find text in them"),
            Note::DamagedPages { pages } => {
                write!(f, "{pages} page{} missing or damaged", s(*pages))
            }
            Note::DynamicForms { forms } => write!(
                f,
                "{forms} form{} (XFA) not read: Adobe Acrobat can print {} to a PDF",
                s(*forms),
                if *forms == 1 { "it" } else { "them" }
            ),
            Note::UnknownGlyphs { glyphs } => write!(f, "{glyphs} unknown character{}", s(*glyphs)),
            Note::CharactersOfPrograms { characters } => {
                write!(f, "{characters} character{} known only from the tables of fonts", s(*characters))
            }
            Note::HiddenText { places } => {
                write!(f, "text that a reader does not see was left out in {places} place{}", s(*places))
            }
            Note::WhiteText { places } => {
                write!(f, "white text in {places} place{} was read: a reader may not see it", s(*places))
            }
            Note::Deletions { places } => {
                write!(f, "text that is marked as deleted was left out in {places} place{}", s(*places))
            }
            Note::HiddenParts { parts } => {
                write!(f, "{parts} hidden slide{0} or sheet{0} left out", s(*parts))
            }
            Note::Pictures { pictures } => write!(f, "{pictures} picture{} without text", s(*pictures)),
            Note::DrawnBoxes { boxes } => {
                write!(f, "{boxes} small box{} drawn beside text: if they are for ticks, these were not read", if *boxes == 1 { " is" } else { "es are" })
            }
            Note::UnreadFormulas { formulas } => {
                write!(f, "{formulas} formula{} could not be read", s(*formulas))
            }
            Note::LostColumns { rows } => {
                write!(f, "cells may be in other columns in {rows} row{} of tables", s(*rows))
            }
            Note::NoResults { cells } => {
                write!(f, "the file has no result for the formulas of {cells} cell{}", s(*cells))
            }
            Note::MissingChapters { count, names } => {
                write!(
                    f,
                    "{count} chapter{} missing: {}",
                    if *count == 1 { " is" } else { "s are" },
                    list(names, *count)
                )
            }
            Note::LostHeadings { count, names } => write!(
                f,
                "{count} heading{} of the table of contents lead{} nowhere: {}",
                s(*count),
                if *count == 1 { "s" } else { "" },
                list(names, *count)
            ),
            Note::UnorderedChapters { chapters } => write!(
                f,
                "{chapters} page{} not in the book's order of reading, and left out",
                if *chapters == 1 { " is" } else { "s are" }
            ),
            Note::SkippedFiles { count, names } => {
                write!(f, "{count} file{} in it left out: {}", s(*count), list(names, *count))
            }
            Note::HiddenCharacters { characters } => {
                write!(f, "{characters} hidden character{} left out", s(*characters))
            }
            Note::OtherNumbers { places } => write!(
                f,
                "in {places} place{} the text for copying has other numbers than are drawn; those that are drawn were read",
                s(*places)
            ),
            Note::UnknownNumbers { places } => write!(
                f,
                "numbers of headings, clauses or items could not be read in {places} place{}",
                s(*places)
            ),
            Note::UnknownNumerals { places } => write!(
                f,
                "numbers of headings, clauses or items are in digits in {places} place{}; the document has other numerals",
                s(*places)
            ),
            Note::UnreadStyles { places } => write!(
                f,
                "rules of style that could not be read may hide text in {places} place{}; it was read",
                s(*places)
            ),
            Note::RepeatedDrawings { drawings } => {
                write!(f, "{drawings} drawing{} that repeat others too often left out", s(*drawings))
            }
        }
    }
}

/// The first of several names.
fn list(names: &[String], count: usize) -> String {
    let more = if count > names.len() { ", …" } else { "" };
    names.join(", ") + more
}

/// The kind of a file is looked for in this many bytes before the whole file is read.
const HEAD_BYTES: u64 = 64 << 10;

/// Reads a file.
///
/// # Errors
/// It cannot be read, is no document, is too large, or has no text.
pub fn read_file(path: &Path, options: &Options) -> Result<Document, DocumentError> {
    let limits = &options.limits;
    let name = path.display().to_string();
    let bytes = || {
        let mut file = File::open(path).map_err(Problem::Read)?;
        // A large video or model need not be read to know that it is no document.
        let head = read_stream(file.by_ref().take(HEAD_BYTES), &Limits::default())?;
        let kind = kind::detect(&name, &head)?;
        // An archive must be read whole to know what it is, unless its name says so.
        if kind.is_none() && file.metadata().map_err(Problem::Read)?.len() > limits.bytes {
            return Err(match kind::is_named_as_document(path) {
                true => Problem::TooLong { limit: limits.bytes },
                false => kind::binary("a large archive (ZIP)"),
            });
        }
        read_stream(Cursor::new(head).chain(file), limits)
    };
    match bytes() {
        Ok(bytes) => read_bytes_with(&name, &bytes, options),
        Err(problem) => Err(DocumentError { name, problem }),
    }
}

/// The bytes of a stream to its end.
///
/// # Errors
/// It cannot be read, or has more bytes than [`Limits::bytes`].
pub fn read_stream(stream: impl Read, limits: &Limits) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    stream.take(limits.bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(Problem::Read)?;
    if bytes.len() as u64 > limits.bytes { Err(Problem::TooLong { limit: limits.bytes }) } else { Ok(bytes) }
}

/// Reads a document that is in memory. Its kind follows from its content; `name` decides between kinds of text, and
/// is the name in errors.
///
/// # Errors
/// It is no document, too large, or has no text.
pub fn read_bytes(name: &str, bytes: &[u8], limits: &Limits) -> Result<Document, DocumentError> {
    read_bytes_with(name, bytes, &Options::from(*limits))
}

/// The same, of what `options` choose.
///
/// # Errors
/// Also, there is no such part.
pub fn read_bytes_with(name: &str, bytes: &[u8], options: &Options) -> Result<Document, DocumentError> {
    let media_type = options.media_type.as_deref();
    let named = media_type.map_or(name, |media_type| media_type::file_name(name, media_type));
    let decoded = media_type.map(|media_type| media_type::decode(bytes, media_type));
    let bytes = decoded.as_deref().unwrap_or(bytes);
    let read = || {
        let (kind, converted) = match kind::detect(named, bytes)? {
            Some(Kind::Html) if media_type.is_some() && media_type::names_a_document(name) => {
                return Err(Problem::PageInstead);
            }
            Some(kind @ (Kind::Text | Kind::Markdown)) => {
                (kind, convert::text_file(named, kind, bytes, options.selection.as_ref())?)
            }
            kind => convert::convert(kind, bytes, options)?,
        };
        if kind == Kind::Html && media_type.is_some() && media_type::needs_browser(bytes, &converted.text) {
            return Err(Problem::NeedsBrowser);
        }
        match converted.text.trim().is_empty() {
            true => Err(without_text(&converted.notes)),
            false => Ok((kind, converted)),
        }
    };
    match read() {
        Ok((kind, Converted { text, pages, notes, outline })) => {
            Ok(Document { name: name.to_owned(), kind, text, pages, outline, notes })
        }
        Err(problem) => Err(DocumentError { name: name.to_owned(), problem }),
    }
}

/// Why a document has no text.
fn without_text(notes: &[Note]) -> Problem {
    // Which pages were chosen, and how it was decoded, are no reasons.
    let left_out: Vec<String> = total(notes).iter().map(Note::to_string).collect();
    match left_out.is_empty() {
        true => Problem::Empty,
        false => Problem::NothingRead { left_out: left_out.join("; ") },
    }
}

/// What a conversion gives.
#[doc(hidden)]
#[derive(Debug, Default, PartialEq)]
pub struct Converted {
    /// As of [`Document`].
    pub text: String,
    /// As of [`Document`].
    pub pages: Option<usize>,
    /// As of [`Document`].
    pub notes: Vec<Note>,
    /// As of [`Document`].
    pub outline: Outline,
}
