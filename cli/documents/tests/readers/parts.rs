//! What the tests of documents share: archives that are made in memory, and what a document says.
#![allow(dead_code, reason = "each test uses some of it")]

use std::io::{Cursor, Write};

use documents::{Document, Limits, read_bytes};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// An archive of these entries.
pub fn archive(entries: &[(&str, &str)]) -> Vec<u8> {
    let bytes: Vec<_> = entries.iter().map(|(name, text)| (*name, text.as_bytes())).collect();
    archive_of_bytes(&bytes)
}

/// The same, of entries that are no text.
pub fn archive_of_bytes(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in entries {
        zip.start_file(*name, SimpleFileOptions::default()).expect("an entry");
        zip.write_all(content).expect("memory");
    }
    zip.finish().expect("an archive").into_inner()
}

/// The document that these bytes are.
#[track_caller]
pub fn read(name: &str, bytes: &[u8]) -> Document {
    read_bytes(name, bytes, &Limits::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// The notes of a document.
pub fn notes(document: &Document) -> String {
    document.notes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
