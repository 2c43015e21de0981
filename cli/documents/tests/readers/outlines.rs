//! Where pages, sections and documents within a document begin, in every kind of document.

use std::sync::atomic::AtomicBool;

use documents::Options;
use outline::Outline;

use crate::common;
use crate::parts::{archive, archive_of_bytes, notes, read};

/// `location: text` for each part, on one line.
fn parts(text: &str, outline: &Outline) -> Vec<String> {
    assert!(outline.is_of(text));
    let parts = outline.parts(text);
    assert_eq!(parts.iter().map(|part| &text[part.range.clone()]).collect::<String>(), text);
    let line = |part: outline::OutlinePart| {
        let text = text[part.range].split_whitespace().collect::<Vec<_>>().join(" ");
        let section = part.location.section.unwrap_or_default();
        let page = part.location.page.map_or_else(String::new, |page| format!("{page} "));
        format!("{page}{section}: {text}")
    };
    parts.into_iter().map(line).collect()
}

#[track_caller]
fn check(name: &str, bytes: &[u8], expected: &[&str]) {
    let document = read(name, bytes);
    assert_eq!(parts(&document.text, &document.outline), expected, "{name}");
    // The signs of the readers are not in the text.
    assert!(!document.text.contains('\u{fdd0}'), "{name}");
}

fn pages(texts: &[&str]) -> Vec<u8> {
    let content = |text: &&str| format!("BT /F 12 Tf 20 200 Td ({text}) Tj ET");
    common::pages(&texts.iter().map(content).collect::<Vec<_>>())
}

#[test]
fn pages_of_a_pdf_have_their_numbers() {
    let expected = ["1 : The first page.", "3 : The third page.", "4 : # no heading"];
    check("a.pdf", &pages(&["The first page.", "", "The third page.", "# no heading"]), &expected);
}

#[test]
fn texts_with_headings_have_sections() {
    let html =
        "<!doctype html><title>Boats</title><p>intro<h2>Small <b>boats</b></h2><pre># no heading\n</pre><p>x";
    check("a.html", html.as_bytes(), &["Boats: # Boats intro", "Small boats: ## Small boats # no heading x"]);
    check(
        "a.md",
        b"before\n# One\na\n```\n# code\n```\nTwo\n---\nb\n",
        &[": before", "One: # One a ``` # code ```", "Two: Two --- b"],
    );
    // A comment is no heading, and form feeds are pages.
    check("a.py", b"# comment\nx = 1\n", &[": # comment x = 1"]);
    check("a.txt", b"one\n\x0ctwo\n", &["1 : one", "2 : two"]);
    let notebook = r##"{"cells": [{"cell_type": "markdown", "source": "# Data\nx"}, {"cell_type": "code", "source": "# no"}],
        "nbformat": 4, "metadata": {}}"##;
    check("a.ipynb", notebook.as_bytes(), &["Data: # Data x ``` # no ```"]);
    let rtf = br"{\rtf1 {\stylesheet{\s1\outlinelevel0 heading 1;}}\pard\s1\outlinelevel0 Rent\par\pard It is 450.\par}";
    check("a.rtf", rtf, &["Rent: # Rent It is 450."]);
}

#[test]
fn slides_and_sheets_have_names() {
    let slide = |text: &str| {
        format!(
            "<p:sld><p:sp><p:nvSpPr><p:nvPr><p:ph type='title'/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>{text}</a:t></a:r>\
             </a:p></p:txBody></p:sp></p:sld>"
        )
    };
    let presentation = archive(&[
        ("[Content_Types].xml", "<Types/>"),
        (
            "ppt/presentation.xml",
            "<p:presentation><p:sldIdLst><p:sldId id='256' r:id='a'/><p:sldId id='257' r:id='b'/></p:sldIdLst></p:presentation>",
        ),
        (
            "ppt/_rels/presentation.xml.rels",
            "<Relationships><Relationship Id='a' Type='x/slide' Target='slides/slide1.xml'/><Relationship Id='b' Type='x/slide' Target='slides/slide2.xml'/></Relationships>",
        ),
        ("ppt/slides/slide1.xml", &slide("Plan")),
        ("ppt/slides/slide2.xml", &slide("Cost")),
    ]);
    check("a.pptx", &presentation, &["1 Slide 1: Plan: # Slide 1: Plan", "2 Slide 2: Cost: # Slide 2: Cost"]);
}

/// A chapter without a heading was said to be in the section of the chapter before.
#[test]
fn chapters_of_a_book_are_sections_by_their_names_in_its_contents() {
    let files = [
        ("1", "<h1>The Beginning</h1><p>It begins.</p>"),
        ("2", "<p class='chap'>The  middle</p><p>The code of Oslo is 4711.</p>"),
        ("3", "<p>It ends.</p>"),
        ("4", "<p>Of boats.</p><h2>Notes</h2><p>Some.</p>"),
        ("5", "<p>Nothing names it.</p>"),
        ("6", "<h3>Last</h3>"),
    ];
    let manifest: String = files
        .iter()
        .map(|(id, _)| format!("<item id='{id}' href='{id}.xhtml' media-type='application/xhtml+xml'/><itemref idref='{id}'/>"))
        .collect();
    let names =
        [("1.xhtml", "Start"), ("2.xhtml", "The Middle"), ("3.xhtml#top", "The End"), ("4.xhtml", "Notes")];
    let points: String = names
        .iter()
        .map(|(href, name)| {
            format!("<navPoint><navLabel><text>{name}</text></navLabel><content src='{href}'/></navPoint>")
        })
        .collect();
    let links: String =
        names.iter().map(|(href, name)| format!("<li><a href='{href}'>{name}</a></li>")).collect();
    let ncx = (
        "toc.ncx",
        "<item id='c' href='toc.ncx' media-type='application/x-dtbncx+xml'/>",
        format!("<ncx><navMap>{points}</navMap></ncx>"),
    );
    let nav = (
        "nav.xhtml",
        "<item id='c' href='nav.xhtml' properties='nav' media-type='application/xhtml+xml'/>",
        format!(
            "<html><nav epub:type='landmarks'><a href='3.xhtml'>no</a></nav><nav epub:type='toc'><ol>{links}</ol></nav></html>"
        ),
    );
    for (name, item, contents) in [ncx, nav] {
        let package = format!("<package>{item}{manifest}</package>");
        let pages =
            files.map(|(id, page)| (format!("{id}.xhtml"), format!("<html><body>{page}</body></html>")));
        let mut entries = vec![
            ("META-INF/container.xml", "<container><rootfile full-path='book.opf'/></container>"),
            ("book.opf", package.as_str()),
            (name, contents.as_str()),
        ];
        entries.extend(pages.iter().map(|(name, page)| (name.as_str(), page.as_str())));
        check(
            "book.epub",
            &archive(&entries),
            &[
                "The Beginning: # The Beginning It begins.",
                "The middle: The middle The code of Oslo is 4711.",
                "The End: # The End It ends.",
                ": Of boats.",
                "Notes: ## Notes Some.",
                ": Nothing names it.",
                "Last: ### Last",
            ],
        );
    }
}

/// A file may have several chapters without headings. The contents name the elements where they begin.
#[test]
fn chapters_of_one_file_are_sections() {
    let page = "<html><body><p>By a lady.</p><div id='one'><p>Chapter I</p><p>It begins.</p></div>
        <p>It goes <a name='two'/>on.</p><p><a id='3 é'/><b>The end</b></p><p>It ends.</p>
        <h2><a id='four'/>Notes</h2><p id='four'>Some.</p><table><tr><td id='six'>a</td><td>b</td></tr></table>
        <p>last<span id='seven'/></p><table id='eight'><tr><td>c</td><td>d</td></tr></table></body></html>";
    let names = [
        ("one", "Chapter I"),
        ("one", "no"),
        ("two", "The Middle"),
        ("3%20%C3%A9", "The end"),
        ("four", "Four"),
        ("five", "Five"),
        ("six", "Six"),
        ("seven", "Seven"),
        ("eight", "Eight"),
    ];
    let points = |names: &[(&str, &str)]| -> String {
        names
            .iter()
            .map(|(id, name)| {
                format!("<navPoint><navLabel><text>{name}</text></navLabel><content src='a.xhtml{id}'/></navPoint>")
            })
            .collect()
    };
    let package = "<package><item id='c' href='toc.ncx' media-type='application/x-dtbncx+xml'/>\
        <item id='a' href='a.xhtml' media-type='application/xhtml+xml'/><itemref idref='a'/></package>";
    let check = |page: &str, points: &str, expected: &[&str]| {
        let contents = format!("<ncx><navMap>{points}</navMap></ncx>");
        let book = [
            ("META-INF/container.xml", "<container><rootfile full-path='book.opf'/></container>"),
            ("book.opf", package),
            ("toc.ncx", contents.as_str()),
            ("a.xhtml", page),
        ];
        check("book.epub", &archive(&book), expected);
    };
    let ids = names.map(|(id, name)| (format!("#{id}"), name));
    let ids: Vec<(&str, &str)> = ids.iter().map(|(id, name)| (id.as_str(), *name)).collect();
    check(
        page,
        &points(&ids),
        &[
            ": By a lady.",
            "Chapter I: Chapter I It begins.",
            "The Middle: # The Middle It goes on.",
            "The end: The end It ends.",
            "Notes: ## Notes Some. a | b last",
            "Eight: # Eight c | d",
        ],
    );
    // The file has a name of its own, and a part begins where its first chapter does.
    let page = "<div id='p'><div id='x'><p>Text.</p></div><p id='y'>Two</p></div>";
    check(
        page,
        &points(&[("", "Book"), ("#p", "Part"), ("#x", "One"), ("#y", "Two")]),
        &["One: # One Text.", "Two: Two"],
    );
    // Names whose elements are not there: the first one is that of the file, or the one that it begins with.
    for (names, expected) in [
        (&[("#a", "One"), ("#b", "Two")], "One: # One Text."),
        (&[("#a", "One"), ("#b", "text.")], "Text.: Text."),
    ] {
        check("<p>Text.</p>", &points(names), &[expected]);
    }
    check(
        "<p>Text.</p><p id='x'>b</p>",
        &points(&[("#a", "Text."), ("#x", "X")]),
        &["Text.: Text.", "X: # X b"],
    );
    // Many elements of one name begin one section.
    let page = format!("<p>a</p>{}", "<p id='x'>b</p>".repeat(100_000));
    let text = format!("X: # X {}", vec!["b"; 100_000].join(" "));
    check(&page, &points(&[("#x", "X")]), &[": a", &text]);
}

/// Names in the table of contents whose elements are not there.
#[test]
fn headings_that_lead_nowhere_are_named() {
    let names = [
        ("#a", "Start"),
        ("#b", "Five"),
        ("#c", "the  next"),
        ("#d", "Six"),
        ("#e", "Written"),
        ("", "Book"),
        ("#f", "Found"),
        // Places without a line of their own, and a heading of two lines.
        ("#t", "In a table"),
        ("#g", "The title of all"),
        ("#m", "Map"),
    ];
    let read = |names: &[(&str, &str)]| {
        let points: String = names
            .iter()
            .map(|(id, name)| {
                format!("<navPoint><navLabel><text>{name}</text></navLabel><content src='a.xhtml{id}'/></navPoint>")
            })
            .collect();
        let package = "<package><item id='c' href='toc.ncx' media-type='application/x-dtbncx+xml'/>            <item id='a' href='a.xhtml' media-type='application/xhtml+xml'/><itemref idref='a'/></package>";
        let page = "<p>Start</p><h2>The next</h2><p>Some.</p><p>Written</p><table><tr><td id='t'>x</td></tr></table>\
            <h2>The title<br/>of all</h2><p id='f'>All.</p><div id='m'><img/></div>";
        let book = archive(&[
            ("META-INF/container.xml", "<container><rootfile full-path='book.opf'/></container>"),
            ("book.opf", package),
            ("toc.ncx", &format!("<ncx><navMap>{points}</navMap></ncx>")),
            ("a.xhtml", page),
        ]);
        notes(&crate::parts::read("book.epub", &book))
    };
    assert_eq!(read(&names), "2 headings of the table of contents lead nowhere: Five, Six");
    assert_eq!(read(&names[..2]), "1 heading of the table of contents leads nowhere: Five");
    assert_eq!(read(&[names[0], names[2], names[4], names[6]]), "");
    let ids = ["#g", "#h", "#i", "#j", "#k", "#l", "#n"];
    let many: Vec<(&str, &str)> = ids.into_iter().zip(["A", "B", "C", "D", "E", "F", "G"]).collect();
    assert_eq!(read(&many), "6 headings of the table of contents lead nowhere: B, C, D, E, F, …");
}

#[test]
fn documents_within_a_document_have_names() {
    let inner = archive(&[("deep.md", "# Deep\nz")]);
    let zip = archive_of_bytes(&[
        ("a.md", b"# One\nx"),
        ("b.pdf", &pages(&["first", "second"])),
        ("c.zip", &inner),
        // Signs of the readers in a document are not taken for their own.
        ("d.txt", "a\u{fdd0}9\u{fdd0}b".as_bytes()),
    ]);
    let document = read("a.zip", &zip);
    let locations: Vec<String> =
        document.outline.parts(&document.text).iter().map(|part| part.location.to_string()).collect();
    assert_eq!(
        locations,
        [
            "a.md",
            "a.md, One",
            "b.pdf",
            "b.pdf p. 1",
            "b.pdf p. 2",
            "c.zip",
            "deep.md",
            "deep.md, Deep",
            "d.txt"
        ]
    );
    assert!(document.text.contains("a\u{fffd}9\u{fffd}b"), "{}", document.text);
}

#[test]
fn folders_and_files_have_names() {
    let folder = std::env::temp_dir().join(format!("longhand-outlines-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("a.md"), "# One\nx\n").expect("a file");
    std::fs::write(folder.join("b.zip.txt"), "plain").expect("a file");
    let read = |path: &std::path::Path| documents::read(path, &Options::default(), &AtomicBool::new(false));
    let (text, outline) = read(&folder).expect("documents").into_text();
    let name = folder.display().to_string();
    let locations: Vec<String> =
        outline.parts(&text).iter().map(|part| part.location.to_string().replace(&name, "F")).collect();
    assert_eq!(locations, ["F/a.md", "F/a.md, One", "F/b.zip.txt"]);
    let (text, outline) = read(&folder.join("a.md")).expect("a document").into_text();
    assert_eq!(outline.location(&text, 0).to_string(), "a.md, One");
    std::fs::remove_dir_all(&folder).expect("gone");
}

/// A hostile document has as many headings as it likes.
#[test]
fn outlines_are_bounded() {
    let text = "# a\n## b\n".repeat(200_000);
    let document = read("a.md", text.as_bytes());
    assert_eq!(document.text, text);
    assert!(document.outline.marks().len() <= 100_000);
    let html = "<h1>a</h1>".repeat(200_000);
    assert!(read("a.html", html.as_bytes()).outline.is_empty());
}
