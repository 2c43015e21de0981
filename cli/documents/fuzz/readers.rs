//! Converts arbitrary documents. Whatever they are, there is a text or an error. The fuzz targets and
//! `tests/tests/engine/mutations.rs` use these functions.

use std::io::{Cursor, Write};
use std::time::Duration;

use documents::{Kind, Limits, convert_in_process, read_bytes};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Bytes as text: valid UTF-8 is not changed, whatever it is.
pub fn text(bytes: &[u8]) {
    let converted = convert_in_process(Kind::Text, bytes, &Limits::default());
    if let (Ok(text), Ok(converted)) = (std::str::from_utf8(bytes), converted) {
        let unchanged = converted.text == text.strip_prefix('\u{feff}').unwrap_or(text);
        assert!(unchanged || !converted.notes.is_empty());
    }
}

/// A page, as HTML and as XML.
pub fn html(page: &[u8]) {
    let limits = Limits { bytes: 1 << 20, ..Limits::default() };
    for page in [page, &[b"<?xml version='1.0'?>", page].concat()] {
        if let Ok(converted) = convert_in_process(Kind::Html, page, &limits) {
            // Nothing is written that is not in the page, besides marks and gaps.
            assert!(converted.text.len() <= 64 + 32 * page.len());
        }
    }
}

/// A PDF, in the child process. The interpreter is not ours: panics and endless loops in it are expected, and end
/// as errors.
pub fn pdf(pdf: &[u8]) {
    let head: &[u8] = if pdf.starts_with(b"%PDF") { b"" } else { b"%PDF-1.7\n" };
    let limits = Limits { time: Duration::from_secs(2), memory_bytes: 256 << 20, ..Limits::default() };
    if let Err(error) = read_bytes("fuzz.pdf", &[head, pdf].concat(), &limits) {
        assert!(!error.to_string().is_empty() && !error.hint().is_empty());
    }
}

/// A document of Word: the input is its text, its styles and its footnotes, separated by zero bytes. What comes
/// after a third zero byte is an archive.
pub fn docx(input: &[u8]) {
    let mut parts = input.splitn(4, |&byte| byte == 0);
    let names = ["word/document.xml", "word/styles.xml", "word/footnotes.xml"];
    let document = archive(names.map(|name| (name, parts.next().unwrap_or_default())));
    let _ = convert_in_process(Kind::Docx, &document, &Limits::default());
    let _ = convert_in_process(Kind::Docx, parts.next().unwrap_or_default(), &Limits::default());
}

/// A book: the input is its chapter, its description and where that is, separated by zero bytes. What is missing
/// is taken from a valid book.
pub fn epub(input: &[u8]) {
    let mut parts = input.splitn(3, |&byte| byte == 0);
    let mut part = |valid: &'static str| {
        let part = parts.next().unwrap_or_default();
        if part.is_empty() { valid.as_bytes() } else { part }
    };
    let book = archive([
        ("c.xhtml", part("<p>text")),
        (
            "a/p.opf",
            part(
                "<package><item id='1' href='../c.xhtml' media-type='application/xhtml+xml'/><itemref idref='1'/></package>",
            ),
        ),
        ("META-INF/container.xml", part("<container><rootfile full-path='a/p.opf'/></container>")),
    ]);
    let _ = convert_in_process(Kind::Epub, &book, &Limits::default());
}

/// An archive of these entries.
fn archive(entries: [(&str, &[u8]); 3]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, content) in entries {
        zip.start_file(name, stored).expect("an entry");
        zip.write_all(content).expect("memory");
    }
    zip.finish().expect("an archive").into_inner()
}
