//! Converts arbitrary documents. Whatever they are, there is a text or an error. The fuzz targets and
//! `tests/tests/engine/mutations.rs` use these functions.

use std::io::{Cursor, Write};
use std::sync::Arc;
use std::time::Duration;

use documents::{Kind, Limits, Options, convert_in_process, read_bytes};
use lookup::absent::Known;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Bytes as text: valid UTF-8 is not changed, whatever it is.
pub fn text(bytes: &[u8]) {
    let converted = convert_in_process(Kind::Text, bytes, &Options::default());
    if let (Ok(text), Ok(converted)) = (std::str::from_utf8(bytes), converted) {
        let unchanged = converted.text == text.strip_prefix('\u{feff}').unwrap_or(text);
        assert!(unchanged || !converted.notes.is_empty());
    }
}

/// A page, as HTML and as XML.
pub fn html(page: &[u8]) {
    let options = within(1 << 20);
    for page in [page, &[b"<?xml version='1.0'?>", page].concat()] {
        if let Ok(converted) = convert_in_process(Kind::Html, page, &options) {
            // Nothing is written that is not in the page, besides marks, gaps and the empty cells of tables.
            assert!(converted.text.len() <= (2 << 20) + 64 * page.len());
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

/// What pages say in `layout`.
const TEXTS: [&str; 16] = [
    "Total",
    "1,234.50",
    "\\(5\\)",
    "The rent is paid on the first day",
    "wrapped text with-",
    "-",
    "2.1",
    "a",
    "6",
    "....................",
    "Name:",
    "x = y + 1",
    "I N V O I C E",
    "|",
    "\\225",
    "Q1",
];

/// A page of a PDF, in this process: each six bytes of the input are a text or a line at a place. The interpreter is given
/// nothing unusual, so that a panic is one of the layout.
pub fn layout(input: &[u8]) {
    let mut content = String::new();
    for record in input.chunks_exact(6).take(1000) {
        let [kind, x, y, size, a, b] = record else { continue };
        let (x, y, size) = (f64::from(*x) * 2.3, f64::from(*y) * 3.1, 3 + size % 20);
        let (text, width) = (TEXTS[usize::from(a % 16)], u16::from(*b) * 2);
        content += &match kind % 8 {
            0..=2 => format!("BT /F {size} Tf {x} {y} Td ({text}) Tj ET\n"),
            3 => format!("BT /F {size} Tf {x} {y} Td {} Ts ({text}) Tj ET\n", i16::from(*b) / 8 - 16),
            4 => format!("{x} {y} m {} {y} l S\n", x + f64::from(width)),
            5 => format!("{x} {y} m {x} {} l S\n", y + f64::from(width)),
            6 => {
                let (sin, cos) = [(0, 1), (1, 0), (0, -1), (-1, 0)][usize::from(b % 4)];
                format!("BT /F {size} Tf {cos} {sin} {} {cos} {x} {y} Tm ({text}) Tj ET\n", -sin)
            }
            _ => {
                let letters = format!("{:04x}{:04x}", 0x5d0 + u16::from(*b) % 27, 0x628 + u16::from(*a) % 32);
                format!(
                    "/Span << /ActualText <feff{letters}> >> BDC BT /F {size} Tf {x} {y} Td (ab) Tj ET EMC\n"
                )
            }
        };
    }
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R 3 0 R] /Count 2 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << /Font << /F << /Type /Font \
         /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >> >> >> >>"
            .to_owned(),
        format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()),
    ];
    let objects =
        objects.iter().enumerate().map(|(i, object)| format!("{} 0 obj\n{object}\nendobj\n", i + 1));
    let pdf = format!("%PDF-1.7\n{}trailer\n<< /Root 1 0 R /Size 5 >>\n%%EOF\n", objects.collect::<String>());
    let _ = convert_in_process(Kind::Pdf, pdf.as_bytes(), &within(16 << 20));
}

/// Lists 1 and 2 of a document of Word. The second one counts for itself.
const NUMBERING: &str = "<w:numbering><w:abstractNum w:abstractNumId='0'>\
    <w:lvl w:ilvl='0'><w:start w:val='1'/><w:numFmt w:val='upperRoman'/><w:lvlText w:val='%1.'/></w:lvl>\
    <w:lvl w:ilvl='1'><w:start w:val='3'/><w:numFmt w:val='decimal'/><w:lvlText w:val='%1.%2'/></w:lvl></w:abstractNum>\
    <w:num w:numId='1'><w:abstractNumId w:val='0'/></w:num><w:num w:numId='2'><w:abstractNumId w:val='0'/>\
    <w:lvlOverride w:ilvl='0'><w:startOverride w:val='7'/></w:lvlOverride></w:num></w:numbering>";

/// A document of Word: the input is its text, its styles and its footnotes, separated by zero bytes. What comes
/// after a third zero byte is an archive.
pub fn docx(input: &[u8]) {
    let mut parts = input.splitn(4, |&byte| byte == 0);
    let names = ["word/document.xml", "word/styles.xml", "word/footnotes.xml"];
    let mut entries = names.map(|name| (name, parts.next().unwrap_or_default())).to_vec();
    entries.push(("word/numbering.xml", NUMBERING.as_bytes()));
    let document = archive(&entries);
    let _ = convert_in_process(Kind::Docx, &document, &Options::default());
    let _ = convert_in_process(Kind::Docx, parts.next().unwrap_or_default(), &Options::default());
}

/// A book: the input is its chapter, its description and where that is, separated by zero bytes. What is missing
/// is taken from a valid book.
pub fn epub(input: &[u8]) {
    let mut parts = input.splitn(3, |&byte| byte == 0);
    let mut part = |valid: &'static str| {
        let part = parts.next().unwrap_or_default();
        if part.is_empty() { valid.as_bytes() } else { part }
    };
    let book = archive(&[
        ("c.xhtml", part("<p>text")),
        (
            "a/p.opf",
            part(
                "<package><item id='1' href='../c.xhtml' media-type='application/xhtml+xml'/><itemref idref='1'/></package>",
            ),
        ),
        ("META-INF/container.xml", part("<container><rootfile full-path='a/p.opf'/></container>")),
    ]);
    let _ = convert_in_process(Kind::Epub, &book, &Options::default());
}

/// A text, a sheet and a slide of office programs: the input is the content, and the styles or texts that it refers to,
/// separated by a zero byte.
pub fn office(input: &[u8]) {
    let mut parts = input.splitn(2, |&byte| byte == 0);
    let (content, more) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let options = within(16 << 20);
    let text = archive(&[("content.xml", content), ("styles.xml", more), ("Object 1/content.xml", more)]);
    let _ = convert_in_process(Kind::OpenDocument, &text, &options);
    let relations = |kind: &str, target: &str| {
        format!(
            "<Relationships><Relationship Id='r' Type='x/{kind}' Target='{target}'/><Relationship Id='s' Type='x/sharedStrings' \
             Target='more.xml'/><Relationship Id='t' Type='x/styles' Target='more.xml'/></Relationships>"
        )
    };
    let (sheets, slides) = (relations("worksheet", "a.xml"), relations("slide", "a.xml"));
    let workbook = archive(&[
        ("xl/workbook.xml", b"<workbook><sheet name='a' r:id='r'/></workbook>"),
        ("xl/_rels/workbook.xml.rels", sheets.as_bytes()),
        ("xl/a.xml", content),
        (
            "xl/_rels/a.xml.rels",
            b"<Relationships><Relationship Id='c' Type='x/comments' Target='more.xml'/></Relationships>",
        ),
        ("xl/more.xml", more),
    ]);
    let _ = convert_in_process(Kind::Xlsx, &workbook, &options);
    let presentation = archive(&[
        ("ppt/presentation.xml", b"<p:presentation><p:sldId r:id='r'/></p:presentation>"),
        ("ppt/_rels/presentation.xml.rels", slides.as_bytes()),
        ("ppt/a.xml", content),
        (
            "ppt/_rels/a.xml.rels",
            b"<Relationships><Relationship Id='n' Type='x/notesSlide' Target='more.xml'/></Relationships>",
        ),
        ("ppt/more.xml", more),
    ]);
    let _ = convert_in_process(Kind::Pptx, &presentation, &options);
}

/// Bytes as each of the formats that are no packages, and as an archive with them.
pub fn formats(input: &[u8]) {
    let options = within(16 << 20);
    for kind in [Kind::Rtf, Kind::Csv, Kind::Notebook, Kind::Subtitles, Kind::Mail, Kind::Archive] {
        let _ = convert_in_process(kind, input, &options);
    }
    let bundle = archive(&[("a.eml", input), ("b.rtf", input), ("c.zip", input)]);
    let _ = convert_in_process(Kind::Archive, &bundle, &options);
}

/// A document of an office program that is encrypted, with the password of the fixtures of the tests.
pub fn encrypted(container: &[u8]) {
    let options = Options { password: Some("secret".to_owned()), ..within(16 << 20) };
    let _ = convert_in_process(None, container, &options);
}

/// Answers to documents: the input is both, separated by a zero byte. What stands in no document is a part of the answer,
/// whether the answer comes whole or in pieces.
pub fn lookup(input: &[u8]) {
    let input = String::from_utf8_lossy(input);
    let (document, answer) = input.split_once('\0').unwrap_or((&input, &input));
    let mut known = Known::new();
    known.add_document(document);
    known.add_question(document.get(..document.len() / 2).unwrap_or_default());
    let known = Arc::new(known);
    for absent in known.absent_from(answer) {
        assert!(!answer[absent.range].is_empty());
    }
    let mut line = known.line();
    let pieces = answer.split_inclusive(' ').flat_map(|piece| line.push(piece, false)).collect::<Vec<_>>();
    let rest = line.push("", true);
    let written = pieces.iter().chain(&rest).map(|(text, _)| text.as_str()).collect::<String>();
    assert_eq!(written, answer);
    let words = answer.split_whitespace().next().unwrap_or_default();
    let (places, _) = lookup::find(document, words, 10);
    places.iter().for_each(|place| assert!(document.get(place.clone()).is_some()));
}

/// Documents of up to so many bytes of text.
fn within(bytes: u64) -> Options {
    Options::from(Limits { bytes, ..Limits::default() })
}

/// An archive of these entries.
fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, content) in entries {
        zip.start_file(*name, stored).expect("an entry");
        zip.write_all(content).expect("memory");
    }
    zip.finish().expect("an archive").into_inner()
}
