//! Converts books with arbitrary descriptions and chapters.
#![no_main]

use std::io::{Cursor, Write};

use documents::{Kind, Limits, convert_in_process};
use libfuzzer_sys::fuzz_target;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

fuzz_target!(|input: (&str, &str, &str)| {
    let (container, package, chapter) = input;
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let good = "<container><rootfile full-path='a/p.opf'/></container>";
    let container = if container.len() % 2 == 0 { good } else { container };
    let good = "<package><item id='1' href='../c.xhtml' media-type='application/xhtml+xml'/><itemref idref='1'/></package>";
    let package = if package.len() % 2 == 0 { good } else { package };
    for (name, part) in [("META-INF/container.xml", container), ("a/p.opf", package), ("c.xhtml", chapter)] {
        zip.start_file(name, stored).expect("an entry");
        zip.write_all(part.as_bytes()).expect("memory");
    }
    let book = zip.finish().expect("an archive").into_inner();
    let _ = convert_in_process(Kind::Epub, &book, &Limits::default());
});
