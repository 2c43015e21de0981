//! Folders and patterns.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::{fs, io};

use documents::{DocumentError, Limits, Problem, Source};

fn read(path: &Path, limits: &Limits) -> Result<Source, DocumentError> {
    documents::read(path, limits, &AtomicBool::new(false))
}

/// A folder for a test, with these files.
fn folder(name: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documents").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    for (path, content) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("a file");
    }
    folder
}

fn names(source: &Source, folder: &Path) -> Vec<String> {
    let prefix = format!("{}/", folder.display());
    source.documents.iter().map(|document| document.name.replace(&prefix, "")).collect()
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

#[test]
fn a_folder_gives_its_documents_sorted_by_path() {
    let folder = folder(
        "sorted",
        &[
            ("b.txt", b"second\n"),
            ("a/z.md", b"first"),
            ("a/.hidden", b"hidden"),
            (".git/config", b"hidden"),
            ("target/out.txt", b"ignored"),
            ("a/empty.txt", b"\n"),
            ("image.png", PNG),
            ("page.html", b"<p>third</p>"),
            (".gitignore", b"target/\n"),
            ("broken.docx", b"PK\x03\x04"),
        ],
    );
    let source = read(&folder, &Limits::default()).expect("documents");
    assert_eq!(names(&source, &folder), ["a/z.md", "b.txt", "page.html"]);
    let skipped = &source.skipped;
    assert_eq!((skipped.binary, skipped.empty, skipped.unreadable.len()), (1, 1, 1));
    assert!(skipped.unreadable[0].to_string().contains("broken.docx: it is damaged"));
    let path = folder.display().to_string();
    let text = source.into_text().replace(&path, "F");
    assert_eq!(text, "==> F/a/z.md <==\nfirst\n\n==> F/b.txt <==\nsecond\n\n==> F/page.html <==\nthird");
}

#[test]
fn a_pattern_gives_the_files_that_match() {
    let folder = folder(
        "pattern",
        &[
            ("a.rs", b"a"),
            ("src/b.rs", b"b"),
            ("src/deep/c.rs", b"c"),
            ("src/d.txt", b"d"),
            ("[e].txt", b"e"),
        ],
    );
    let matches = |pattern: &str| {
        let source =
            read(&folder.join(pattern), &Limits::default()).unwrap_or_else(|error| panic!("{error}"));
        (names(&source, &folder), source.is_collection)
    };
    assert_eq!(matches("*.rs").0, ["a.rs"]);
    assert_eq!(matches("src/**/*.rs").0, ["src/b.rs", "src/deep/c.rs"]);
    assert_eq!(matches("src/*.{rs,txt}").0, ["src/b.rs", "src/d.txt"]);
    assert!(!matches("[e].txt").1, "a file of this name is no pattern");
    for (pattern, problem) in
        [("*.py", "no document matches"), ("[", "not a pattern for files"), ("x/*", "No such file")]
    {
        let error = read(&folder.join(pattern), &Limits::default()).expect_err(pattern);
        assert!(error.to_string().contains(problem) && !error.hint().is_empty(), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn links_are_read_and_loops_end() {
    let folder = folder("links", &[("a/file.txt", b"text")]);
    std::os::unix::fs::symlink(&folder, folder.join("a/loop")).expect("a link");
    std::os::unix::fs::symlink("file.txt", folder.join("a/link.txt")).expect("a link");
    std::os::unix::fs::symlink("nowhere", folder.join("a/broken.txt")).expect("a link");
    let source = read(&folder, &Limits::default()).expect("documents");
    assert_eq!(names(&source, &folder), ["a/file.txt", "a/link.txt"]);
}

#[test]
fn limits_hold_for_all_files_together() {
    let folder = folder("limits", &[("a.txt", b"12345678"), ("b.txt", b"12345678"), ("c.txt", b"1")]);
    let refused = |limits: Limits| read(&folder, &limits).expect_err("a limit").problem;
    let limits = Limits::default();
    // A binary file counts neither as text nor is it read to its end.
    fs::write(folder.join("d.bin"), [0; 100]).expect("a file");
    assert!(matches!(refused(Limits { files: 2, ..limits }), Problem::TooManyFiles { limit: 2 }));
    assert!(matches!(refused(Limits { bytes: 15, ..limits }), Problem::TooLong { limit: 15 }));
    // Nor is an archive that is too large. A file may be larger than the text that is left.
    fs::write(folder.join("e.zip"), [b"PK\x03\x04", &[0; 100][..]].concat()).expect("a file");
    fs::write(folder.join("f.docx"), b"PK\x03\x04").expect("a file");
    let limits = Limits { bytes: 17, ..limits };
    let source = read(&folder, &limits).expect("documents");
    let skipped = &source.skipped;
    assert_eq!((source.documents.len(), skipped.binary, skipped.unreadable.len()), (3, 2, 1));
    // One whose name says that it is a document is not left out unseen.
    fs::write(folder.join("f.docx"), [b"PK\x03\x04", &[0; 100][..]].concat()).expect("a file");
    assert!(matches!(refused(limits), Problem::TooLong { limit: 17 }));
    let stopped = documents::read(&folder, &limits, &AtomicBool::new(true)).expect_err("it is stopped");
    assert!(matches!(stopped.problem, Problem::Read(error) if error.kind() == io::ErrorKind::Interrupted));
}

#[test]
fn a_folder_without_documents_is_an_error() {
    let empty = folder("empty", &[(".hidden", b"x"), ("image.png", PNG)]);
    let error = read(&empty, &Limits::default()).expect_err("nothing");
    assert!(matches!(error.problem, Problem::NoDocuments), "{error}");
    let broken = folder("broken", &[("a.docx", b"PK\x03\x04")]);
    let error = read(&broken, &Limits::default()).expect_err("nothing readable");
    assert!(matches!(error.problem, Problem::Damaged { .. }), "{error}");
}
