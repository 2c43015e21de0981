//! Documents that other programs have written: see fixtures/README.md.

use std::path::{Path, PathBuf};

use documents::{Document, DocumentError, Kind, Limits, Note, Options, Problem, read_file};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn read(name: &str) -> Result<Document, DocumentError> {
    read_file(&fixture(name), &Options::default())
}

#[track_caller]
fn assert_in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part:?} is not where it should be in {text}"));
        rest = &rest[at + part.len()..];
    }
}

const BRIDGE: &str = "The pass key is 9078648. In the winter the famous teacher described the narrow bridge.";

#[test]
fn pages_documents_and_books_of_pandoc() {
    for (name, kind, note) in [
        ("boat.html", Kind::Html, "1. The bridge was built"),
        ("boat.docx", Kind::Docx, "]: The bridge was built"),
        ("boat.epub", Kind::Epub, "1. The bridge was built"),
    ] {
        let document = read(name).expect("a document");
        assert_eq!((document.kind, document.pages, &document.notes[..]), (kind, None, &[][..]), "{name}");
        assert_in_order(&document.text, &["# The quiet river\n\n", "# The old boat\n\n", BRIDGE]);
        assert_in_order(
            &document.text,
            &[
                "## What was on board\n",
                "- a basket of apples\n- two letters\n  - one from the café “Zur Brücke”\n  - one without a sender\n- a lamp\n\n",
                "Passenger | Luggage\nthe bird | none\nMary | a green bag\n\n",
            ],
        );
        assert_in_order(&document.text, &["# The way back\n\nIn the evening the boat came back."]);
        assert!(document.text.contains(note), "{}", document.text);
    }
}

#[test]
fn a_document_of_python_docx() {
    let text = read("lighthouse.docx").expect("a document").text;
    assert_eq!(
        text,
        "# The lighthouse\n\n# Its keeper\n\nThe keeper lit the lamp at dusk.\n- first\n1. second\n\n\
         Hour | Ships\nnine | three\n\nA line\nand another with a tab.\n"
    );
}

#[test]
fn a_pdf_with_embedded_fonts() {
    let document = read("boat.pdf").expect("a document");
    assert_eq!((document.kind, document.pages), (Kind::Pdf, Some(3)));
    assert_in_order(
        &document.text,
        &[
            "The quiet river\n\n",
            "The old boat\nThe old boat crossed the quiet river. Mary’s favorite number is 34251.",
            BRIDGE,
            "• one from the café “Zur Brücke”\n",
            "the bird\tnone\nMary\ta green bag\n",
            "The way back\nIn the evening the boat came back.",
        ],
    );
}

#[test]
fn a_pdf_with_columns_and_without_embedded_fonts() {
    let text = "Two columns\n\nThe left column is read first. It has\na word that is divided at its end: example. The left \
        column ends here.\n\nThe right column is read second.\nIts last sentence names the number\n34251.\n\n\
        Name\tNumber\nMary\t34251\nPaul\t9078648\n";
    assert_eq!(read("columns.pdf").expect("a document").text, text);
    assert_eq!(read("protected.pdf").expect("a document").text, text, "only printing needs its password");
}

#[test]
fn pdfs_without_readable_text_say_what_helps() {
    let scanned = read("scanned.pdf").expect_err("pictures");
    assert!(matches!(scanned.problem, Problem::OnlyPictures { pages: 3 }), "{scanned}");
    assert!(scanned.hint().contains("ocrmypdf"));
    let encrypted = read("encrypted.pdf").expect_err("a password");
    assert!(matches!(encrypted.problem, Problem::Encrypted), "{encrypted}");
}

#[test]
fn a_document_needs_no_extension() {
    for (name, kind) in [("boat.pdf", Kind::Pdf), ("boat.docx", Kind::Docx), ("boat.epub", Kind::Epub)] {
        let bytes = std::fs::read(fixture(name)).expect("a file");
        for other in ["document", "notes.txt", "stdin"] {
            let document = documents::read_bytes(other, &bytes, &Limits::default()).expect("a document");
            assert_eq!((document.kind, document.name.as_str()), (kind, other));
        }
    }
}

#[test]
fn text_files_are_not_changed() {
    let text = " # A\r\n\tcaf\u{e9}\u{a0}\n\n\n<b>x</b> &amp;\n\n";
    for (name, kind) in
        [("a.md", Kind::Markdown), ("a.txt", Kind::Text), ("a.rs", Kind::Text), ("a", Kind::Text)]
    {
        let document = documents::read_bytes(name, text.as_bytes(), &Limits::default()).expect("a text");
        assert_eq!((document.kind, document.text.as_str()), (kind, text), "{name}");
    }
}

/// The sign that marks what begins where is no character of a text.
#[test]
fn what_is_no_character_is_replaced_with_a_note() {
    let document = crate::parts::read("a.txt", "ab\u{fdd0}3\u{fdd0} and more".as_bytes());
    assert_eq!(document.text, "ab\u{fffd}3\u{fffd} and more");
    assert_eq!(document.notes, [Note::Replaced { places: 2 }]);
    // Beside characters that cannot be decoded.
    let bytes = ["äöü ".repeat(20).as_bytes(), b"\xff", "\u{fdd0}".as_bytes()].concat();
    let document = crate::parts::read("a.txt", &bytes);
    assert_eq!(document.notes, [Note::Replaced { places: 2 }]);
}

#[test]
fn latin_1_is_decoded_with_a_note() {
    let document = documents::read_bytes("a.txt", b"caf\xe9", &Limits::default()).expect("a text");
    assert_eq!(document.text, "café");
    assert_eq!(document.notes, [Note::Decoded { encoding: "windows-1252".into(), is_guess: true }]);
}

#[test]
fn empty_documents_are_errors() {
    for (name, bytes) in [("a.txt", &b" \n"[..]), ("a.html", b"<p> </p>"), ("bom.txt", b"\xef\xbb\xbf")] {
        let error = documents::read_bytes(name, bytes, &Limits::default()).expect_err("nothing");
        assert_eq!(error.to_string(), format!("{name}: the document is empty"));
    }
}
