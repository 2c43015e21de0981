//! Folders and patterns.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::{fs, io};

use documents::{DocumentError, Limits, Options, Problem, Source, Waste};

fn read(path: &Path, limits: &Limits) -> Result<Source, DocumentError> {
    documents::read(path, &Options::from(*limits), &AtomicBool::new(false))
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
    let text = source.into_text().0.replace(&path, "F");
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

/// Names such as `report [final].txt` are common.
#[test]
fn a_name_of_a_file_or_folder_is_no_pattern() {
    let files: &[(&str, &[u8])] = &[
        ("report [fin", b"a"),
        ("a[1].txt", b"b"),
        ("a1.txt", b"no"),
        ("x{1}/b?.txt", b"c"),
        ("[y]/c1.txt", b"d"),
        ("y/c1.txt", b"no"),
    ];
    let folder = folder("literal", files);
    let found = |pattern: &str| {
        let source = read(&folder.join(pattern), &Limits::default());
        names(&source.unwrap_or_else(|error| panic!("{error}")), &folder)
    };
    for (path, _) in files {
        assert_eq!(found(path), [*path]);
    }
    assert_eq!(found("x{1}/*.txt"), ["x{1}/b?.txt"]);
    assert_eq!(found("[y]/*"), ["[y]/c1.txt"]);
    // There is no such file, and a class is not closed.
    let error = read(&folder.join("report [final.pdf"), &Limits::default()).expect_err("nothing");
    let text = error.to_string();
    assert!(text.contains("no file has this name") && text.contains("unclosed character class"), "{text}");
    // A pattern that no file matches.
    let error = read(&folder.join("b[1].txt"), &Limits::default()).expect_err("nothing").to_string();
    assert!(error.contains("no document matches, and no file has this name"), "{error}");
    let nested = format!("{}b{}", "{a,".repeat(150), "}".repeat(150));
    let error = read(&folder.join(nested), &Limits::default()).expect_err("too deep").to_string();
    assert!(error.contains("nested more than"), "{error}");
}

/// A file with rules that is too long stands for a trap: it is noted where it is looked at.
#[test]
fn a_pattern_walks_only_where_it_can_match() {
    let trap = "# long\n".repeat(100_000);
    let folder = folder(
        "pruned",
        &[
            ("a/src/1.rs", b"1"),
            ("a/src/deep/.gitignore", trap.as_bytes()),
            ("a/other/.gitignore", trap.as_bytes()),
            ("b/2.rs", b"2"),
            ("b/.gitignore", b""),
        ],
    );
    let read = |pattern: &str| {
        let source = read(&folder.join(pattern), &Limits::default()).expect(pattern);
        (names(&source, &folder), source.skipped.ignore_files.len())
    };
    assert_eq!(read("*/src/*.rs"), (vec!["a/src/1.rs".to_owned()], 0));
    assert_eq!(read("*/*.rs"), (vec!["b/2.rs".to_owned()], 0));
    assert_eq!(read("{b,a/src}/*.rs").0, ["a/src/1.rs", "b/2.rs"]);
    assert_eq!(read("**/src/*.rs"), (vec!["a/src/1.rs".to_owned()], 2));
}

#[test]
fn rules_of_all_folders_decide() {
    let folder = folder(
        "rules",
        &[
            (".gitignore", b"\xef\xbb\xbf*.log\n/top.txt\nout/\n{c,d}.txt\n"),
            ("a/.gitignore", b"!keep.log\n"),
            ("a/.ignore", b"secret.txt\n!.shown\n"),
            ("a/keep.log", b"1"),
            ("a/other.log", b"no"),
            ("a/secret.txt", b"no"),
            ("a/.shown", b"2"),
            ("a/.hidden", b"no"),
            ("a/top.txt", b"3"),
            ("a/out/x.txt", b"no"),
            ("a/d.txt", b"no"),
            ("top.txt", b"no"),
            // Another repository: only .ignore is for it, too.
            ("repository/.git/HEAD", b"no"),
            ("repository/1.log", b"4"),
            (".ignore", b"repository/2.log\n"),
            ("repository/2.log", b"no"),
        ],
    );
    let found = |path: &Path| names(&read(path, &Limits::default()).expect("documents"), &folder);
    assert_eq!(found(&folder), ["a/.shown", "a/keep.log", "a/top.txt", "repository/1.log"]);
    // Rules of folders above apply.
    assert_eq!(found(&folder.join("a")), ["a/.shown", "a/keep.log", "a/top.txt"]);
    assert_eq!(found(&folder.join("repository")), ["repository/1.log"]);
    assert_eq!(found(&folder.join("a/*.log")), ["a/keep.log"]);
}

/// Bytes that are no UTF-8 become longer as text. The limit is on the bytes.
#[test]
fn rules_that_are_no_text_do_not_lift_the_limit() {
    let comments = "#\n".repeat(20 << 10) + "x.txt\n";
    let folder = folder(
        "no-text",
        &[
            (".ignore", &[0xff; 100 << 10]),
            (".gitignore", comments.as_bytes()),
            ("x.txt", b"x"),
            ("y.txt", b"y"),
        ],
    );
    let source = read(&folder, &Limits::default()).expect("documents");
    assert_eq!(
        (names(&source, &folder), source.skipped.ignore_files.len()),
        (vec!["x.txt".into(), "y.txt".into()], 1)
    );
}

/// They come with a folder that somebody else has made.
#[cfg(unix)]
#[test]
fn files_with_rules_cannot_block_or_take_all_memory() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    let folder = folder(
        "traps",
        &[
            ("x.txt", b"x"),
            ("a/a.txt", b"a"),
            ("a/b/b.txt", b"b"),
            ("a/b/left-out.txt", b"no"),
            ("a/b/.ignore", b"left-out.txt"),
            ("c/c.txt", b"c"),
            ("d/d.txt", b"d"),
            ("e/e.txt", b"e"),
        ],
    );
    mknodat(CWD, folder.join(".gitignore"), FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
    std::os::unix::fs::symlink("/dev/zero", folder.join("a/.gitignore")).expect("a link");
    mknodat(CWD, folder.join("pipe"), FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
    std::os::unix::fs::symlink("../pipe", folder.join("c/.ignore")).expect("a link");
    std::os::unix::fs::symlink("nowhere", folder.join("d/.ignore")).expect("a link");
    fs::write(folder.join("d/.gitignore"), "*.log\n".repeat(10 << 18)).expect("a file");
    fs::write(folder.join("e/.gitignore"), "!*?\n".repeat(32_000)).expect("a file");
    let source = read(&folder, &Limits::default()).expect("documents");
    let all = ["a/a.txt", "a/b/b.txt", "c/c.txt", "d/d.txt", "e/e.txt", "x.txt"];
    assert_eq!(names(&source, &folder), all);
    let mut noted: Vec<String> = source.skipped.ignore_files.iter().map(ToString::to_string).collect();
    noted.sort();
    let prefix = fs::canonicalize(&folder).expect("a folder").display().to_string() + "/";
    let noted: Vec<String> = noted.iter().map(|note| note.replace(&prefix, "")).collect();
    assert_eq!(
        noted,
        [
            ".gitignore: its rules were not used: it is not a regular file",
            "a/.gitignore: its rules were not used: it is not a regular file",
            "c/.ignore: its rules were not used: it is not a regular file",
            "d/.gitignore: its rules were not used: with those of the folders above it has more than 128 KiB",
            "d/.ignore: its rules were not used: No such file or directory (os error 2)",
            "e/.gitignore: its rules were not used: there are too many of them",
        ]
    );
    // The pipe is above this folder.
    let source = read(&folder.join("a/b"), &Limits::default()).expect("documents");
    assert_eq!(names(&source, &folder), ["a/b/b.txt"]);
    assert_eq!(source.skipped.ignore_files.len(), 2);
}

/// A path has at most 4,096 bytes on Linux.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_is_too_deep_is_noted() {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

    let folder = folder("deep", &[("a.txt", b"a")]);
    let name = "d".repeat(255);
    let mut parent = openat(CWD, &folder, OFlags::DIRECTORY, Mode::empty()).expect("a folder");
    for _ in 0..20 {
        mkdirat(&parent, &name, Mode::RWXU).expect("a folder");
        parent = openat(&parent, &name, OFlags::DIRECTORY, Mode::empty()).expect("a folder");
    }
    let source = read(&folder, &Limits::default()).expect("documents");
    assert_eq!(names(&source, &folder), ["a.txt"]);
    let unreadable = &source.skipped.unreadable;
    assert!(
        unreadable.len() == 1 && unreadable[0].to_string().contains("File name too long"),
        "{unreadable:?}"
    );
    fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn a_walk_is_stopped_where_there_is_nothing_to_read() {
    let folder = folder("stopped", &[("a/.hidden", b"x")]);
    for path in [folder.clone(), folder.join("**/*.txt")] {
        let stopped =
            documents::read(&path, &Options::default(), &AtomicBool::new(true)).expect_err("stopped");
        assert!(
            matches!(&stopped.problem, Problem::Read(error) if error.kind() == io::ErrorKind::Interrupted),
            "{stopped}"
        );
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
    let unreadable = &source.skipped.unreadable;
    assert!(unreadable.len() == 1 && unreadable[0].name.ends_with("a/broken.txt"), "{unreadable:?}");
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
    let stopped =
        documents::read(&folder, &Options::from(limits), &AtomicBool::new(true)).expect_err("it is stopped");
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

/// What programs made for programs says nothing to a reader.
#[test]
fn waste_is_left_out_of_folders() {
    let long = format!("var a=1;{}\n", "f(a);".repeat(2_000));
    let waste: &[(&str, &[u8])] = &[
        // Its rules are the only ones.
        (".git/HEAD", b"no"),
        ("node_modules/left-pad/index.js", b"no"),
        ("sub/__pycache__/x.txt", b"no"),
        ("thing-1.0.dist-info/METADATA", b"no"),
        ("venv/pyvenv.cfg", b"home = /usr"),
        ("venv/lib/x.py", b"no"),
        ("target/CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55\n"),
        ("target/notes.txt", b"no"),
        ("crate/Cargo.toml", b"[package]"),
        ("crate/target/notes.txt", b"no"),
        ("Cargo.lock", b"no"),
        ("package-lock.json", b"{}"),
        ("yarn.lock", b"no"),
        ("logo.svg", b"<svg xmlns='http://www.w3.org/2000/svg'><text>no</text></svg>"),
        ("site.css", b"a { color: red }"),
        ("app.min.js", b"no"),
        ("bundle.js", long.as_bytes()),
        ("app.js.map", b"{}"),
        ("schema_pb2.py", b"no"),
        ("api.rs", b"// @generated by a tool\nfn a() {}\n"),
        ("api.go", b"// Code generated by protoc-gen-go. DO NOT EDIT.\npackage api\n"),
    ];
    let kept: &[(&str, &[u8])] = &[
        ("article.md", long.as_bytes()),
        ("data.json", long.as_bytes()),
        ("map.txt", b"yes"),
        ("notes about lock files.txt", b"the file is @generated"),
        ("other/target/notes.txt", b"a folder of this name that no tool made"),
        ("src/main.js", b"f(1)\n"),
    ];
    let folder = folder("waste", &[waste, kept].concat());
    let source = read(&folder, &Limits::default()).expect("documents");
    let mut expected: Vec<&str> = kept.iter().map(|(name, _)| *name).collect();
    expected.push("crate/Cargo.toml");
    expected.sort();
    assert_eq!(names(&source, &folder), expected);
    let counts: Vec<_> = source.skipped.left_out.reasons().collect();
    let (tools, locks, styles) = ((Waste::ToolFolder, 6), (Waste::LockFile, 3), (Waste::Style, 2));
    assert_eq!(counts, [tools, locks, styles, (Waste::Minified, 3), (Waste::Generated, 3)]);
    // A name that the pattern spells out is meant.
    let matches =
        |pattern: &str| read(&folder.join(pattern), &Limits::default()).map(|source| names(&source, &folder));
    assert_eq!(matches("*.css").expect("a style sheet"), ["site.css"]);
    assert_eq!(
        matches("*/left-pad/*.js").expect_err("left out").problem.to_string(),
        "no document matches, and no file has this name"
    );
    assert_eq!(matches("node_modules/*/*.js").expect("a package"), ["node_modules/left-pad/index.js"]);
    assert_eq!(matches("{Cargo,yarn}.lock").expect("lock files"), ["Cargo.lock", "yarn.lock"]);
    let all = Options { all_files: true, ..Options::default() };
    let source = documents::read(&folder, &all, &AtomicBool::new(false)).expect("documents");
    assert_eq!(
        (source.documents.len(), source.skipped.left_out.reasons().count()),
        (waste.len() - 1 + kept.len(), 0)
    );
}

#[test]
fn numbers_in_names_are_in_their_order() {
    let folder = folder(
        "natural",
        &[("file10.txt", b"c"), ("file2.txt", b"b"), ("ch 1/b.txt", b"a"), ("ch 10/a.txt", b"e")],
    );
    let source = read(&folder, &Limits::default()).expect("documents");
    assert_eq!(names(&source, &folder), ["ch 1/b.txt", "ch 10/a.txt", "file2.txt", "file10.txt"]);
}

/// A folder from somebody else may lead to the user's own files.
#[cfg(unix)]
#[test]
fn a_link_out_of_a_folder_is_not_followed() {
    let files: [(&str, &[u8]); 3] =
        [("in/a.txt", b"text"), ("secret.txt", b"secret"), ("other/d.txt", b"secret")];
    let folder = folder("link-out", &files);
    std::os::unix::fs::symlink("../other", folder.join("in/other.txt")).expect("a link to a folder");
    std::os::unix::fs::symlink("../secret.txt", folder.join("in/b.txt")).expect("a link");
    std::os::unix::fs::symlink("a.txt", folder.join("in/c.txt")).expect("a link");
    for path in [folder.join("in"), folder.join("in/*.txt")] {
        let source = read(&path, &Limits::default()).expect("documents");
        assert_eq!(names(&source, &folder), ["in/a.txt", "in/c.txt"]);
        assert_eq!(source.skipped.links_out, 2);
    }
    // One that is named is read.
    let source = read(&folder.join("in/b.txt"), &Limits::default()).expect("a document");
    assert_eq!(source.documents[0].text, "secret");
}
