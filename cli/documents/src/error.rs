//! Errors, and what can be done about them.

use std::io;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Unit;

/// A document cannot be read.
#[derive(Debug, Error)]
#[error("{}", match problem { Problem::Read(_) => format!("cannot read {name}: {problem}"), _ => format!("{name}: {problem}") })]
pub struct DocumentError {
    /// The document's name, or the path or pattern that was asked for.
    pub name: String,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a document.
#[derive(Debug, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Problem {
    /// The system refuses to read it.
    #[error("{0}")]
    #[serde(skip)]
    Read(io::Error),
    /// It has no text.
    #[error("the document is empty")]
    Empty,
    /// All of its text is left out.
    #[error("none of its text is read: {left_out}")]
    NothingRead {
        /// What is left out.
        left_out: String,
    },
    /// It is neither text nor a known kind of document.
    #[error("not a text document but {looks_like}")]
    Binary {
        /// What it seems to be: `a PNG image`.
        looks_like: String,
    },
    /// It has pages, but no text.
    #[error("it has {pages} page{} with pictures only, and no text", if *pages == 1 { "" } else { "s" })]
    OnlyPictures {
        /// Number of pages.
        pages: usize,
    },
    /// It is a form (XFA) that Adobe's programs make when they show it: its page only says so.
    #[error("it is a form (XFA) that only Adobe's programs show")]
    DynamicForm,
    /// Its fonts do not say which characters their glyphs are.
    #[error("its text cannot be read: its fonts do not say which characters they show")]
    UnknownGlyphs,
    /// It needs a password, or its text cannot be read although it needs none.
    #[error("it is encrypted")]
    Encrypted,
    /// The password is not that of the document.
    #[error("it is encrypted, and the password is wrong")]
    WrongPassword,
    /// It is encrypted in a way that is not known.
    #[error("it is encrypted in a way that longhand does not know")]
    UnknownEncryption,
    /// Only the programs of the shop that it comes from can read it.
    #[error("it is copy-protected (DRM)")]
    CopyProtected,
    /// It is not what it should be.
    #[error("it is damaged: {what}")]
    Damaged {
        /// What is wrong, and where.
        what: String,
    },
    /// It has too much text.
    #[error("more than {} of text", size(*limit))]
    TooLong {
        /// The limit in bytes.
        limit: u64,
    },
    /// It grows too much when it is unpacked.
    #[error("it unpacks to more than {}", size(*limit))]
    Unpacked {
        /// The limit in bytes.
        limit: u64,
    },
    /// Converting it takes too long.
    #[error("converting it to text takes more than {seconds} s")]
    TooSlow {
        /// The limit in seconds.
        seconds: u64,
    },
    /// Converting it takes too much memory.
    #[error("converting it to text takes more than {} of memory", size(*limit))]
    OutOfMemory {
        /// The limit in bytes.
        limit: u64,
    },
    /// Its parts are nested too deeply.
    #[error("its parts are nested too deeply")]
    TooDeep,
    /// The converter failed.
    #[error("it cannot be converted to text: {why}")]
    Failed {
        /// Why.
        why: String,
    },
    /// The process that converts it cannot be started.
    #[error("the process that converts it to text cannot be started: {why}")]
    NoProcess {
        /// The system's error.
        why: String,
    },
    /// A folder has too many files.
    #[error("more than {limit} files")]
    TooManyFiles {
        /// The limit.
        limit: usize,
    },
    /// A folder has no documents.
    #[error("the folder has no documents")]
    NoDocuments,
    /// No file matches a pattern, and none has its name.
    #[error("no document matches, and no file has this name")]
    NoMatch,
    /// A name that looks like a pattern is neither that of a file nor a pattern.
    #[error("no file has this name, and it is not a pattern for files: {why}")]
    Pattern {
        /// Why.
        why: String,
    },
    /// A page of the web has no text without its scripts.
    #[error("its scripts make the page: there is hardly any text in it")]
    NeedsBrowser,
    /// The address has the name of another document.
    #[error("the server sends a web page instead, perhaps one that asks for a login")]
    PageInstead,
    /// It has no pages, chapters, slides or sheets.
    #[error("it has no pages, chapters, slides or sheets, of which some could be read")]
    NoParts,
    /// It has no part of these numbers.
    #[error("it has {count} {}: there is no {} {asked}", unit.name(*count), unit.name(1))]
    NoSuchPart {
        /// The numbers that were asked for.
        asked: String,
        /// What it is divided into.
        unit: Unit,
        /// How many it has.
        count: usize,
    },
    /// What stands behind the name of a document are no numbers of parts.
    #[error("{text} are no numbers of pages or other parts")]
    InvalidParts {
        /// What stands there.
        text: String,
    },
    /// The rules of a `.gitignore` or `.ignore` file are not used.
    #[error("its rules were not used: {why}")]
    IgnoreFile {
        /// Why.
        why: String,
    },
}

impl DocumentError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        self.problem.hint()
    }
}

impl Problem {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Problem::Read(error) if error.kind() == io::ErrorKind::NotFound => "check the path",
            Problem::Read(_) => "check that it is a file that you may read",
            Problem::Empty => "give a file with text in it",
            Problem::Binary { .. } => {
                "give text, HTML, PDF, EPUB, or a document of an office program such as DOCX, ODT, XLSX or PPTX; save others as one of these"
            }
            Problem::OnlyPictures { .. } | Problem::UnknownGlyphs => {
                "an OCR program adds the text, for example: ocrmypdf --force-ocr in.pdf out.pdf"
            }
            Problem::DynamicForm => "open it in Adobe Acrobat, print it to a PDF there, and give that file",
            Problem::NothingRead { .. } => "show the text with the program that made it, and save it again",
            Problem::Encrypted | Problem::UnknownEncryption => {
                "save a copy without password or copy protection"
            }
            Problem::CopyProtected => "no password opens it; give a copy without protection",
            Problem::WrongPassword => "check the password",
            Problem::Damaged { .. } | Problem::Failed { .. } | Problem::TooDeep => {
                "check that the file is complete, or save it as text with the program that made it"
            }
            Problem::NoProcess { .. } => {
                "allow this program more processes, memory and open files (`ulimit -u`, `-v` and `-n`)"
            }
            Problem::TooLong { .. } | Problem::Unpacked { .. } => {
                "check that it is the right file, or give a part of it"
            }
            Problem::TooSlow { .. } | Problem::OutOfMemory { .. } => {
                "give a part of the file, or save it as text with the program that made it"
            }
            Problem::TooManyFiles { .. } => "give a smaller folder, or a pattern that matches fewer files",
            Problem::NoDocuments | Problem::NoMatch => {
                "hidden files, those that .gitignore names and what programs made for programs are left out; name such a file itself to read it"
            }
            Problem::PageInstead => "open it in a browser, save the document there, and give that file",
            Problem::NeedsBrowser => {
                "open it in a browser, save the page or print it to a PDF there, and give that file"
            }
            Problem::NoParts => {
                "leave the numbers behind its name out, or save the part that you need as a file"
            }
            Problem::NoSuchPart { .. } => "give other numbers, or leave them out to read all of it",
            Problem::InvalidParts { .. } => {
                "give numbers from 1 on, for example book.pdf:10-40, :7, :3,10-12 or :10-"
            }
            Problem::Pattern { .. } => "check the name, or give a pattern such as src/**/*.rs",
            Problem::IgnoreFile { .. } => "check that it is a short text file that you may read",
        }
    }
}

fn size(bytes: u64) -> String {
    const GIB: u64 = 1 << 30;
    match bytes {
        GIB.. if bytes.is_multiple_of(GIB) => format!("{} GiB", bytes / GIB),
        _ => format!("{} MiB", bytes >> 20),
    }
}
