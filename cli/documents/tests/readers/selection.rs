//! Pages, chapters, slides and sheets by their numbers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use documents::{Options, Source};

use crate::formats::{odf, pptx, xlsx};
use crate::parts::{archive, notes};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A file of a test.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documents-selection");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(name), bytes).expect("a file");
    folder.join(name)
}

/// What is read of a path with these numbers behind it; else the error and its hint.
fn read(path: &Path, numbers: &str) -> Result<Source, String> {
    let path = PathBuf::from(format!("{}:{numbers}", path.display()));
    let read = documents::read(&path, &Options::default(), &AtomicBool::new(false));
    read.map_err(|error| format!("{error}\n{}", error.hint()))
}

/// The text and the notes of a single document.
#[track_caller]
fn one(path: &Path, numbers: &str) -> (String, String) {
    let source = read(path, numbers).unwrap_or_else(|error| panic!("{error}"));
    let document = &source.documents[0];
    assert!(
        document.name.ends_with(&format!(":{numbers}")) && source.name == document.name,
        "{}",
        document.name
    );
    (document.text.clone(), notes(document))
}

#[test]
fn pages_of_a_pdf() {
    let pdf = fixture("boat.pdf");
    let (text, said) = one(&pdf, "2");
    assert!(text.starts_with("The old boat\n") && !text.contains("The way back"), "{text}");
    assert_eq!(said, "page 2 of 3");
    let (first, said) = one(&pdf, "-2");
    assert_eq!(said, "pages 1-2 of 3");
    let (rest, said) = one(&pdf, "3-");
    assert_eq!(said, "page 3 of 3");
    let (whole, said) = one(&pdf, "1,2-9");
    assert_eq!((format!("{first}\n{rest}"), said.as_str()), (whole, "pages 1,2-3 of 3"));
    assert_eq!(read(&pdf, "2").expect("a page").documents[0].pages, Some(1));
    let error = read(&pdf, "9-12").expect_err("no such page");
    assert!(error.contains("boat.pdf:9-12: it has 3 pages: there is no page 9-12"), "{error}");
    for numbers in ["0", "3-2", "1-2-3"] {
        let error = read(&pdf, numbers).expect_err("no numbers");
        assert!(error.contains("are no numbers of pages") && error.contains("book.pdf:10-40"), "{error}");
    }
}

#[test]
fn chapters_of_a_book() {
    let chapters = ["one", "two", "three"];
    let manifest: String = chapters
        .iter()
        .map(|id| format!("<item id='{id}' href='{id}.xhtml' media-type='application/xhtml+xml'/>"))
        .collect();
    let spine: String = chapters.iter().map(|id| format!("<itemref idref='{id}'/>")).collect();
    let package = format!("<package><manifest>{manifest}</manifest><spine>{spine}</spine></package>");
    let page = |text: &str| format!("<html><body><p>{text}</p></body></html>");
    let pages: Vec<_> = chapters.iter().map(|id| (format!("{id}.xhtml"), page(id))).collect();
    let mut entries = vec![
        ("mimetype", "application/epub+zip"),
        (
            "META-INF/container.xml",
            "<container><rootfiles><rootfile full-path='book.opf'/></rootfiles></container>",
        ),
        ("book.opf", package.as_str()),
    ];
    entries.extend(pages.iter().map(|(name, page)| (name.as_str(), page.as_str())));
    let book = file("book.epub", &archive(&entries));
    assert_eq!(one(&book, "2-3"), ("two\n\nthree\n".to_owned(), "chapters 2-3 of 3".to_owned()));
    assert!(read(&book, "4").expect_err("no chapter").contains("it has 3 chapters: there is no chapter 4"));
}

#[test]
fn slides_and_sheets() {
    let slide =
        |text: &str| format!("<p:sp><p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>");
    let slides = ["one", "two", "three"].map(slide);
    let slides = file("a.pptx", &pptx(&slides.each_ref().map(String::as_str), &[]));
    assert_eq!(one(&slides, "3"), ("# Slide 3\n\nthree\n".to_owned(), "slide 3 of 3".to_owned()));
    let hidden = file(
        "hidden.pptx",
        &pptx(&[&slide("one"), &format!("<p:sld show='0'>{}</p:sld>", slide("two"))], &[]),
    );
    let error = read(&hidden, "2").expect_err("a hidden slide");
    assert!(
        error.contains(
            "hidden.pptx:2: none of its text is read: 1 hidden slide or sheet left out\nshow the text"
        ),
        "{error}"
    );
    let row = |text: &str| format!("<sheetData><row><c t='str'><v>{text}</v></c></row></sheetData>");
    let (a, b) = (row("first"), row("second"));
    let book = file("a.xlsx", &xlsx(&[("name='A'", &a), ("name='B'", &b)], &[]));
    assert_eq!(one(&book, "2"), ("## B\n\nsecond\n".to_owned(), "sheet 2 of 2".to_owned()));
    let table = |text: &str| {
        format!(
            "<table:table table:name='{text}'><table:table-row><table:table-cell><text:p>{text}</text:p></table:table-cell></table:table-row></table:table>"
        )
    };
    let body = format!("<office:spreadsheet>{}{}</office:spreadsheet>", table("A"), table("B"));
    let sheets = file("a.ods", &odf("spreadsheet", "", &body));
    assert_eq!(one(&sheets, "2"), ("## B\n\nB\n".to_owned(), "sheet 2 of 2".to_owned()));
    let pages = "<office:presentation><draw:page><draw:frame><draw:text-box><text:p>x</text:p></draw:text-box></draw:frame></draw:page><draw:page><draw:frame><draw:text-box><text:p>y</text:p></draw:text-box></draw:frame></draw:page></office:presentation>";
    let slides = file("a.odp", &odf("presentation", "", pages));
    assert_eq!(one(&slides, "2"), ("# Slide 2\n\ny\n".to_owned(), "slide 2 of 2".to_owned()));
}

/// Form feeds divide a text into pages.
#[test]
fn pages_of_a_text() {
    let text = file("pages.txt", b"one\n\x0ctwo\n\x0cthree\n");
    assert_eq!(one(&text, "2"), ("two\n\x0c".to_owned(), "page 2 of 3".to_owned()));
    assert_eq!(one(&text, "2-").0, "two\n\x0cthree\n");
    let source = read(&text, "3").expect("a page");
    let (text, outline) = source.into_text();
    assert_eq!(outline.location(&text, 1).page, Some(3));
    assert!(
        read(&file("pages.txt", b"one\n\x0ctwo\n"), "3").expect_err("no page").contains("there is no page 3")
    );
}

#[test]
fn documents_without_parts_say_so() {
    let odt = odf("text", "", "<office:text><text:p>x</text:p></office:text>");
    for (name, bytes) in [
        ("a.txt", &b"text"[..]),
        ("a.csv", b"a,b\n1,2\n"),
        ("a.html", b"<p>x"),
        ("a.md", b"# x"),
        ("a.odt", &odt),
        ("a.zip", &archive(&[("a.txt", "x")])),
    ] {
        let error = read(&file(name, bytes), "1").expect_err(name);
        assert!(error.contains(&format!("{name}:1: it has no pages, chapters, slides or sheets")), "{error}");
    }
    let error = read(Path::new("missing.pdf"), "1").expect_err("missing");
    assert!(error.starts_with("cannot read missing.pdf:1: "), "{error}");
}

#[test]
fn a_file_whose_name_ends_so_wins() {
    let named = file("log:12", b"its name");
    let read = documents::read(&named, &Options::default(), &AtomicBool::new(false)).expect("a file");
    assert_eq!(read.documents[0].text, "its name");
}

#[test]
fn each_file_of_a_pattern() {
    file("each-a.pdf", &fs::read(fixture("boat.pdf")).expect("a file"));
    let other = file("each-b.pdf", &fs::read(fixture("boat.pdf")).expect("a file"));
    let source = read(&other.with_file_name("each-*.pdf"), "1").expect("documents");
    let names: Vec<_> =
        source.documents.iter().map(|document| &document.name[document.name.len() - 12..]).collect();
    assert_eq!(names, ["each-a.pdf:1", "each-b.pdf:1"]);
}
