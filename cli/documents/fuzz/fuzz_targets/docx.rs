//! Converts documents with arbitrary parts, and arbitrary archives.
#![no_main]

use std::io::{Cursor, Write};

use documents::{Kind, Limits, convert_in_process};
use libfuzzer_sys::fuzz_target;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

fuzz_target!(|input: (&str, &str, &str, &[u8])| {
    let (document, styles, notes, archive) = input;
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, part) in
        [("word/document.xml", document), ("word/styles.xml", styles), ("word/footnotes.xml", notes)]
    {
        zip.start_file(name, stored).expect("an entry");
        zip.write_all(part.as_bytes()).expect("memory");
    }
    let document = zip.finish().expect("an archive").into_inner();
    let _ = convert_in_process(Kind::Docx, &document, &Limits::default());
    let _ = convert_in_process(Kind::Docx, archive, &Limits::default());
});
