//! ZIP archives, which DOCX and EPUB are.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{Cursor, Read};

use flate2::read::DeflateDecoder;
use zip::ZipArchive;
use zip::read::ZipReadOptions;
use zip::result::ZipError;

use super::moved;
use crate::kind::binary;
use crate::plain::decode;
use crate::{Kind, Problem};

/// An archive may unpack to this many bytes, however small it is.
const MIN_UNPACKED: u64 = 64 << 20;
/// An archive may unpack to this many times its size.
const MAX_RATIO: u64 = 100;

/// An archive in memory.
pub(crate) struct Archive<'a> {
    zip: ZipArchive<Cursor<Cow<'a, [u8]>>>,
    /// The entries by their names.
    places: HashMap<String, usize>,
    /// Entries that have the name of another.
    of_same_name: usize,
    /// Bytes it may unpack to in all, and how many are left.
    limit: u64,
    left: u64,
    /// Of entries that are encrypted.
    password: Option<&'a str>,
}

impl<'a> Archive<'a> {
    /// Reads the list of entries.
    ///
    /// # Errors
    /// It is damaged.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Archive<'a>, Problem> {
        let limit = MIN_UNPACKED.max(bytes.len() as u64 * MAX_RATIO);
        let right = moved::put_right(bytes).map_or(Cow::Borrowed(bytes), Cow::Owned);
        let count = entries(&right);
        let mut zip = ZipArchive::new(Cursor::new(right)).map_err(damaged)?;
        let mut of_same_name = count.saturating_sub(zip.len());
        // A name that is not UTF-8 would not be found by its text.
        let names: Vec<String> = zip.file_names().map(str::to_owned).collect();
        let mut places = HashMap::new();
        for (place, name) in names.into_iter().enumerate() {
            // Some programs do not say that their names are UTF-8.
            let raw = (!name.is_ascii()).then(|| zip.by_index_raw(place).ok()).flatten();
            let utf8 = raw.and_then(|entry| String::from_utf8(entry.name_raw().to_vec()).ok());
            // Some programs of Windows write its separator.
            let before = places.insert(utf8.unwrap_or(name).replace('\\', "/"), place);
            of_same_name += usize::from(before.is_some());
        }
        Ok(Archive { zip, places, of_same_name, limit, left: limit, password: None })
    }

    /// The same with a password for entries that are encrypted.
    pub(crate) fn with_password(self, password: Option<&'a str>) -> Archive<'a> {
        Archive { password, ..self }
    }

    /// Whether there is an entry of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// The names of all entries, in no order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// How many entries have the name of another, so that they cannot be read.
    pub(crate) fn of_same_name(&self) -> usize {
        self.of_same_name
    }

    /// The bytes of an entry.
    ///
    /// # Errors
    /// It is missing, damaged or encrypted, or the archive unpacks to too much.
    pub(crate) fn bytes(&mut self, name: &str) -> Result<Vec<u8>, Problem> {
        let in_entry = |error: ZipError| match error {
            ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED) => Problem::Encrypted,
            ZipError::InvalidPassword => Problem::WrongPassword,
            error => Problem::Damaged { what: format!("{name}: {error}") },
        };
        let place = self.places.get(name).copied().ok_or(ZipError::FileNotFound).map_err(in_entry)?;
        let options = ZipReadOptions::new().password(self.password.map(str::as_bytes));
        let entry = self.zip.by_index_with_options(place, options).map_err(in_entry)?;
        let mut bytes = Vec::new();
        entry.take(self.left + 1).read_to_end(&mut bytes).map_err(|error| in_entry(error.into()))?;
        self.count(bytes)
    }

    /// The text of packed bytes of an entry, which was encrypted.
    ///
    /// # Errors
    /// It is damaged, or the archive unpacks to too much.
    pub(crate) fn unpacked_text(&mut self, name: &str, packed: &[u8]) -> Result<String, Problem> {
        let mut bytes = Vec::new();
        let unpacked = DeflateDecoder::new(packed).take(self.left + 1).read_to_end(&mut bytes);
        unpacked.map_err(|error| Problem::Damaged { what: format!("{name}: {error}") })?;
        text(name, &self.count(bytes)?)
    }

    /// Counts bytes that are unpacked.
    fn count(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, Problem> {
        match self.left.checked_sub(bytes.len() as u64) {
            Some(left) => self.left = left,
            None => return Err(Problem::Unpacked { limit: self.limit }),
        }
        Ok(bytes)
    }

    /// An entry as text.
    ///
    /// # Errors
    /// As for [`Archive::bytes`], or it is not text.
    pub(crate) fn text(&mut self, name: &str) -> Result<String, Problem> {
        text(name, &self.bytes(name)?)
    }

    /// The text of an entry; `None` if it is missing or damaged.
    ///
    /// # Errors
    /// The archive unpacks to too much.
    pub(crate) fn text_if_whole(&mut self, name: &str) -> Result<Option<String>, Problem> {
        match self.text(name) {
            Err(problem @ Problem::Unpacked { .. }) => Err(problem),
            text => Ok(text.ok()),
        }
    }
}

/// The text of an entry with these bytes.
///
/// # Errors
/// It is not text.
pub(crate) fn text(name: &str, bytes: &[u8]) -> Result<String, Problem> {
    let not_text = |_| Problem::Damaged { what: format!("{name} is not text") };
    Ok(decode::text(bytes).map_err(not_text)?.text)
}

/// How many entries an archive says that it has; 0 where it needs more than 16 bits to say it.
fn entries(bytes: &[u8]) -> usize {
    // The record stands at the end, before a comment of up to 64 KiB.
    let tail = &bytes[bytes.len().saturating_sub(22 + 0xffff)..];
    let record = memchr::memmem::rfind(tail, b"PK\x05\x06").and_then(|at| tail.get(at + 10..at + 12));
    match record {
        Some(&[low, high]) if [low, high] != [0xff; 2] => usize::from(u16::from_le_bytes([low, high])),
        _ => 0,
    }
}

fn damaged(error: ZipError) -> Problem {
    Problem::Damaged { what: error.to_string() }
}

/// What an archive is.
///
/// # Errors
/// It is damaged, or no document.
pub(crate) fn kind(bytes: &[u8]) -> Result<Kind, Problem> {
    let mut archive = Archive::new(bytes)?;
    let has = |name: &str| archive.has(name);
    let known = [
        ("META-INF/container.xml", Kind::Epub),
        ("word/document.xml", Kind::Docx),
        ("xl/workbook.xml", Kind::Xlsx),
        ("ppt/presentation.xml", Kind::Pptx),
    ];
    if let Some((_, kind)) = known.iter().find(|(name, _)| has(name)) {
        return Ok(*kind);
    }
    for (name, looks_like) in [
        ("xl/workbook.bin", "an Excel workbook of the binary kind (.xlsb)"),
        ("Index/Document.iwa", "an iWork document"),
        ("AndroidManifest.xml", "an app of Android"),
        ("META-INF/MANIFEST.MF", "a program of Java"),
    ] {
        if has(name) {
            return Err(binary(looks_like));
        }
    }
    let is_open_document = has("content.xml") && (has("META-INF/manifest.xml") || has("mimetype"));
    let mimetype = archive.bytes("mimetype").unwrap_or_default();
    if mimetype.starts_with(b"application/epub") {
        return Ok(Kind::Epub);
    }
    if is_open_document || mimetype.starts_with(b"application/vnd.oasis.opendocument") {
        return Ok(Kind::OpenDocument);
    }
    // The parts have other names; their types say what they are.
    let types = archive.text("[Content_Types].xml").unwrap_or_default();
    let kinds =
        [("wordprocessingml", Kind::Docx), ("spreadsheetml", Kind::Xlsx), ("presentationml", Kind::Pptx)];
    let office = kinds.iter().find(|(name, _)| types.contains(name)).map(|(_, kind)| *kind);
    match (office, types.is_empty()) {
        (Some(kind), _) => Ok(kind),
        (None, true) => Ok(Kind::Archive),
        (None, false) => Ok(Kind::Docx),
    }
}
