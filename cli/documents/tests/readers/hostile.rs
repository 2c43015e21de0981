//! Hostile and damaged documents: each ends as an error or as text, within the limits, and this process goes on.

use std::io::{Cursor, Write};
use std::path::Path;
use std::time::Duration;

use documents::{Document, DocumentError, Limits, Note, Problem, read_bytes};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::common::{CATALOGUE, FONT, pdf, stream};
use crate::formats::{odf, pptx, xlsx};
use crate::parts::archive;

const FIXTURES: [&str; 6] =
    ["boat.html", "boat.docx", "boat.epub", "boat.pdf", "columns.pdf", "protected.pdf"];

const STYLE: &str = "<style:style style:name='P1' style:family='paragraph'/>";
const RTF: &str = r"{\rtf1\ansi{\fonttbl{\f0 Times;}}{\colortbl;\red255\green255\blue255;}\pard a \u8364 ?{\super 6}{\cf1 no}{\*\moMath{\mf{\mnum{\mr 1}}{\mden{\mr 2}}}}\par
    \trowd\cellx100\cellx200\pard\intbl a{\footnote b}\cell c\cell\row\pard{\field{\*\fldinst SYMBOL 97}{\fldrslt x}}\par}";
const MAIL: &str = "From: a@b\r\nSubject: =?utf-8?B?w6Q=?=\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n\
    --x\r\nContent-Type: text/plain; charset=latin1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nThe rent is =E4.\r\n\
    --x\r\nContent-Type: text/csv\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: attachment; filename=a.csv\r\n\r\nYSxiDQoxLDIN\r\n--x--\r\n";
const SAVED_PAGE: &str = "From: <Saved by Blink>\r\nMIME-Version: 1.0\r\nContent-Type: multipart/related; type=\"text/html\"; boundary=x\r\n\r\n\
    --x\r\nContent-Type: text/html\r\nContent-Location: http://x/a.html\r\n\r\n<link rel=stylesheet href=a.css><ol><li>a<li class=b>c</ol>\r\n\
    --x\r\nContent-Type: text/css\r\nContent-Location: http://x/a.css\r\n\r\n@counter-style z{system:cyclic;symbols:x} .b:after{content:'EUR'}\r\n--x--\r\n";
const NOTEBOOK: &str = r##"{"cells":[{"cell_type":"markdown","source":["# a\n","b"]},{"cell_type":"code","source":"x","outputs":[{"text":"y"}]}],"nbformat":4,"metadata":{}}"##;
const SUBTITLES: &str = "1\n00:00:01,000 --> 00:00:02,000\n<i>Hello</i> there\n\n2\n00:00:03,000 --> 00:00:04,000\n- Who?\n- I.\n";

/// A document of every kind.
fn fixtures() -> Vec<(&'static str, Vec<u8>)> {
    let file = |name: &'static str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        (name, std::fs::read(path).expect("a fixture"))
    };
    let cells = "<table:table table:name='One'><table:table-row><table:table-cell table:number-columns-repeated='2'><text:p>a</text:p>\
        </table:table-cell></table:table-row></table:table>";
    let sheet = "<worksheet><sheetData><row r='1'><c r='A1' t='str'><v>a</v></c><c r='C1'><v>45356</v></c></row></sheetData>\
        <mergeCells><mergeCell ref='A1:B1'/></mergeCells></worksheet>";
    let slide = "<p:sld><p:sp><p:txBody><a:p><a:r><a:t>a</a:t></a:r></a:p></p:txBody></p:sp></p:sld>";
    let text = "<text:h text:outline-level='1'>a</text:h><text:list><text:list-item><text:p>b<text:note><text:note-body>\
        <text:p>c</text:p></text:note-body></text:note></text:p></text:list-item></text:list>";
    FIXTURES
        .into_iter()
        .map(file)
        .chain([
            ("made.rtf", RTF.into()),
            ("made.odt", odf("text", STYLE, text)),
            ("made.ods", odf("spreadsheet", STYLE, cells)),
            ("made.xlsx", xlsx(&[("name='One'", sheet)], &[])),
            ("made.pptx", pptx(&[slide], &[])),
            ("made.csv", b"Name;Sum\n\"a;b\";1,5\n\xe4;2\n".into()),
            ("made.eml", MAIL.into()),
            ("made.mht", SAVED_PAGE.into()),
            ("made.ipynb", NOTEBOOK.into()),
            ("made.srt", SUBTITLES.into()),
            ("made.zip", archive(&[("a.md", "# One\nx"), ("b/c.csv", "a,b\n1,2\n"), ("d.html", "<p>e")])),
        ])
        .collect()
}

#[test]
fn a_document_of_every_kind_is_read() {
    for (name, bytes) in fixtures() {
        let document = read(name, &bytes).unwrap_or_else(|error| panic!("{error}"));
        assert!(
            !document.notes.iter().any(|note| matches!(note, Note::Incomplete | Note::Unconfined)),
            "{name}"
        );
    }
}

fn read(name: &str, bytes: &[u8]) -> Result<Document, DocumentError> {
    read_within(Duration::from_secs(100), name, bytes)
}

fn read_within(time: Duration, name: &str, bytes: &[u8]) -> Result<Document, DocumentError> {
    let limits = Limits { time, memory_bytes: 256 << 20, ..Limits::default() };
    let result = read_bytes(name, bytes, &limits);
    match &result {
        Ok(document) => assert!(!document.text.trim().is_empty()),
        Err(error) => assert!(!error.to_string().is_empty() && !error.hint().is_empty()),
    }
    result
}

/// A PDF whose drawings contain each other: drawing `i` draws those of `inner(i)`, and says its number.
fn drawings(count: usize, inner: impl Fn(usize) -> Vec<usize>) -> Vec<u8> {
    let number = |i: usize| 6 + i;
    let mut objects = vec![
        CATALOGUE.to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> /XObject << \
         /A0 6 0 R >> >> >>"
            .to_owned(),
        stream("", "BT /F 10 Tf 72 780 Td (page) Tj ET /A0 Do"),
        FONT.to_owned(),
    ];
    for i in 0..count {
        let names: String = inner(i).iter().map(|i| format!("/A{i} {} 0 R ", number(*i))).collect();
        let draw: String = inner(i).iter().map(|i| format!("/A{i} Do ")).collect();
        objects.push(stream(
            &format!(
                "/Type /XObject /Subtype /Form /BBox [0 0 600 800] /Resources << /Font << /F 5 0 R >> /XObject << {names} >> >>"
            ),
            &format!("{draw} BT /F 10 Tf 72 {} Td (drawing {i}) Tj ET", 760 - 12 * i),
        ));
    }
    pdf(&objects)
}

#[test]
fn drawings_that_contain_each_other_many_times_are_drawn_once() {
    // Each draws the next one twice.
    let double = drawings(40, |i| if i < 39 { vec![i + 1; 2] } else { vec![] });
    // Each draws both of the next level.
    let both = drawings(41, |i| (i + 1 + i % 2..41).take(2).collect());
    // One draws itself.
    let itself = drawings(1, |_| vec![0, 0]);
    for (name, file, count) in [("double", double, 40), ("both", both, 41), ("itself", itself, 1)] {
        let document = read("made.pdf", &file).expect(name);
        for i in 0..count {
            let line = format!("drawing {i}");
            assert_eq!(document.text.lines().filter(|found| **found == line).count(), 1, "{name} {i}");
        }
        assert!(
            matches!(document.notes[..], [Note::RepeatedDrawings { drawings: 1.. }]),
            "{name}: {:?}",
            document.notes
        );
    }
    // A few levels are as they are.
    let few = drawings(3, |i| if i < 2 { vec![i + 1; 2] } else { vec![] });
    assert_eq!(read("made.pdf", &few).expect("a document").notes, []);
}

#[test]
fn truncated_documents_end() {
    for (name, bytes) in fixtures() {
        for length in (0..bytes.len()).step_by(61) {
            let _ = read(name, &bytes[..length]);
        }
    }
}

#[test]
fn changed_documents_end() {
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for (name, bytes) in fixtures() {
        for _ in 0..60 {
            let mut changed = bytes.clone();
            for _ in 0..=random(8) {
                let at = random(changed.len());
                changed[at] = b"0<>/[]()%\0\xff9"[random(12)];
            }
            let _ = read(name, &changed);
        }
    }
}

/// An archive with one entry whose content is a byte many times.
fn archive_of_a_byte(name: &str, byte: u8, megabytes: usize) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file(name, SimpleFileOptions::default()).expect("an entry");
    let megabyte = vec![byte; 1 << 20];
    (0..megabytes).for_each(|_| zip.write_all(&megabyte).expect("memory"));
    zip.finish().expect("an archive").into_inner()
}

#[test]
fn an_archive_that_grows_too_much_is_refused() {
    let bomb = archive_of_a_byte("word/document.xml", b' ', 80);
    assert!(bomb.len() < 100_000);
    let error = read("bomb.docx", &bomb).expect_err("a bomb");
    assert!(matches!(error.problem, Problem::Unpacked { .. }), "{error}");
    for name in ["content.xml", "xl/workbook.xml", "ppt/presentation.xml", "a.txt"] {
        let error = read("bomb.zip", &archive_of_a_byte(name, b' ', 80));
        assert!(
            !matches!(error, Ok(_) | Err(DocumentError { problem: Problem::TooSlow { .. }, .. })),
            "{name}"
        );
    }
}

/// Little that asks for much: each ends soon, and within the memory.
#[test]
fn bombs_of_every_kind_end() {
    const MANY: usize = 1 << 20;
    let spaces = " ".repeat(80 * MANY);
    let grown = |open: &str| format!("{open}{spaces}");
    let mut nested = "From: a@b\r\nMIME-Version: 1.0\r\n".to_owned();
    for level in 0..3_000 {
        nested += &format!("Content-Type: multipart/mixed; boundary=b{level}\r\n\r\n--b{level}\r\n");
    }
    let coded = |kind: &str, name: &str| {
        format!(
            "From: a@b\r\nMIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=x\r\n\r\n--x\r\nContent-Type: {kind}\r\n\
             Content-Disposition: attachment; filename={name}\r\nContent-Transfer-Encoding: base64\r\n\r\n{}\r\n--x--\r\n",
            "ICAg".repeat(2 * MANY)
        )
    };
    let messages = "Content-Type: message/rfc822\r\n\r\n".repeat(3_000);
    let far = "<c r='XFD1048576'><v>1</v></c>".repeat(20_000);
    let cues: String = (0..50_000).map(|_| "1\n00:00:01,000 --> 00:00:02,000\nx\n\n").collect();
    let media = "@media all{color:red}".repeat(100_000);
    let classes: String = (0..33).map(|class| format!("c{class} ")).collect();
    let rule = |class: usize| {
        let list: String = (0..31).map(|other| format!(".c{other}.z,")).collect();
        format!("{}.c{class}:is({list}.c{class}){{color:red}}", format!("i:is({list}i) ").repeat(4))
            .repeat(32)
    };
    let rules: String = (0..33).map(rule).collect();
    let compared = format!("<i class='{classes}'>x").repeat(8_000);
    let bombs = [
        ("selectors.html", format!("<style>{}{{{media}}}</style><p>a", "a,".repeat(MANY / 2)).into_bytes()),
        ("selector.html", format!("<style>{}{{{media}}}</style><p>a", "a ".repeat(MANY / 2)).into_bytes()),
        ("compared.html", format!("<style>{rules}</style>{compared}").into_bytes()),
        ("bomb.pptx", pptx(&[&grown("<p:sld>")], &[])),
        ("bomb.odt", odf("text", STYLE, &grown("<text:p>"))),
        ("bomb.xlsx", xlsx(&[("name='One'", &grown("<worksheet>"))], &[])),
        ("far.xlsx", xlsx(&[("name='One'", &format!("<worksheet><sheetData><row r='1048576'>{far}</row></sheetData></worksheet>"))], &[])),
        (
            "wide.ods",
            odf(
                "spreadsheet",
                STYLE,
                &"<table:table><table:table-row table:number-rows-repeated='1048576'><table:table-cell \
                 table:number-columns-repeated='16384'><text:p>a</text:p></table:table-cell></table:table-row></table:table>"
                    .repeat(2),
            ),
        ),
        ("spaces.odt", odf("text", STYLE, &format!("<text:p>{}</text:p>", "<text:s text:c='999999999'/>x".repeat(5_000)))),
        ("nested.eml", (nested + "text\r\n").into_bytes()),
        ("messages.eml", format!("From: a@b\r\nMIME-Version: 1.0\r\n{messages}text\r\n").into_bytes()),
        ("text.eml", coded("text/plain", "a.txt").into_bytes()),
        ("page.mht", coded("text/html", "a.html").into_bytes()),
        ("binary.rtf", [&b"{\\rtf1 a\\bin2147483647 "[..], &vec![b'{'; 8 * MANY]].concat()),
        ("binaries.rtf", format!("{{\\rtf1 a{}}}", "\\bin0 \\bin-5 {\\pict 00}".repeat(100_000)).into_bytes()),
        ("colours.rtf", format!("{{\\rtf1{{\\colortbl{}}}\\cf2147483647 a}}", ";".repeat(4 * MANY)).into_bytes()),
        ("row.csv", "a,".repeat(MANY).into_bytes()),
        ("rows.csv", format!("{}\n{}", "a,".repeat(1_000), "b\n".repeat(MANY)).into_bytes()),
        ("quote.csv", format!("a,\"{}", "b\"\",\n".repeat(MANY)).into_bytes()),
        ("cues.vtt", format!("WEBVTT\n\n{cues}").into_bytes()),
        ("cues.srt", cues.into_bytes()),
        ("line.srt", format!("1\n00:00:01,000 --> 00:00:02,000\n{}", "<i>".repeat(2 * MANY)).into_bytes()),
        ("deep.ipynb", format!("{{\"cells\":{}", "[".repeat(2 * MANY)).into_bytes()),
        ("deep.html", format!("<style>{}</style><p>a", "@media all{".repeat(MANY)).into_bytes()),
    ];
    for (name, bytes) in bombs {
        match read_within(Duration::from_secs(10), name, &bytes) {
            Ok(_) => {}
            Err(DocumentError {
                problem: Problem::Failed { .. } | Problem::TooSlow { .. } | Problem::OutOfMemory { .. },
                ..
            }) => {
                panic!("{name}: {:?}", read(name, &bytes).map(|document| document.text.len()));
            }
            Err(error) => println!("{error}"),
        }
    }
}

#[test]
fn archives_that_are_no_documents_are_named() {
    let mut opendocument = ZipWriter::new(Cursor::new(Vec::new()));
    opendocument.start_file("mimetype", SimpleFileOptions::default()).expect("an entry");
    opendocument.write_all(b"application/vnd.oasis.opendocument.text").expect("memory");
    let opendocument = opendocument.finish().expect("an archive").into_inner();
    for (bytes, part) in [
        (archive_of_a_byte("blank.txt", b' ', 1), "an archive (ZIP) without documents"),
        (archive_of_a_byte("xl/workbook.bin", b' ', 1), "an Excel workbook of the binary kind (.xlsb)"),
        (archive_of_a_byte("META-INF/MANIFEST.MF", b' ', 1), "a program of Java"),
    ] {
        let error = read("a.docx", &bytes).expect_err(part);
        assert!(matches!(&error.problem, Problem::Binary { looks_like } if looks_like == part), "{error}");
    }
    let error = read("a.odt", &opendocument).expect_err("nothing in it");
    assert!(matches!(error.problem, Problem::Damaged { .. }), "{error}");
}

#[test]
fn deep_nesting_ends() {
    let deep = "<div><table><tr><td><ul><li>".repeat(50_000) + "x";
    assert!(read("deep.html", deep.as_bytes()).is_ok());
    let tables = "<table><tr><th>h<tr><td>".repeat(200_000) + "x";
    assert!(read("tables.html", tables.as_bytes()).is_ok());
    let rows = format!("<table>{}</table>", "<tr><td rowspan=99999>a".repeat(60_000));
    let document = read("rows.html", rows.as_bytes()).expect("a document");
    assert!(matches!(document.notes[..], [Note::LostColumns { .. }]), "{:?}", document.notes);
    let tables = "<table:table><table:table-row><table:table-cell><text:p>h</text:p></table:table-cell></table:table-row><table:table-row><table:table-cell>";
    let tables = format!("<office:text>{}", tables.repeat(100_000));
    let tables =
        archive(&[("mimetype", "application/vnd.oasis.opendocument.text"), ("content.xml", &tables)]);
    let error = read("tables.odt", &tables).expect_err("too deep");
    assert!(matches!(error.problem, Problem::TooDeep), "{error}");
    let counters = "<style>b:before{content:counters(a,'.')}div{counter-reset:a}</style>".to_owned()
        + &"<div>".repeat(10_000)
        + &"<b>x</b>".repeat(200_000);
    assert!(read("counters.html", counters.as_bytes()).is_ok());
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file("word/document.xml", SimpleFileOptions::default()).expect("an entry");
    zip.write_all("<w:tbl><w:tr><w:tc><w:p>".repeat(100_000).as_bytes()).expect("memory");
    zip.write_all(b"<w:t>x</w:t>").expect("memory");
    let _ = read("deep.docx", &zip.finish().expect("an archive").into_inner());
}

const PAGE: &str = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> /XObject << /X 6 0 R >> >> >>";
/// A form whose content may draw the form itself.
const FORM: &str = "/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 6 0 R >> >>";

#[test]
fn a_pdf_without_a_table_of_objects_is_read() {
    let content = stream("", "BT /F 12 Tf 20 100 Td (The pass key is 9078648.) Tj ET");
    let pages = "<< /Type /Pages /Kids [3 0 R] /Count 1 >>";
    let document = read("a.pdf", &pdf(&[CATALOGUE, pages, PAGE, &content, FONT])).expect("a document");
    assert_eq!(document.text, "The pass key is 9078648.\n");
}

#[test]
fn loops_in_a_pdf_end() {
    let text = stream("", "BT /F 12 Tf 20 100 Td (text) Tj ET /X Do");
    let form = stream(
        "/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 6 0 R >> >>",
        "/X Do /X Do",
    );
    let one_page = "<< /Type /Pages /Kids [3 0 R] /Count 1 >>";
    for (what, objects) in [
        ("pages in themselves", vec![CATALOGUE, "<< /Type /Pages /Kids [2 0 R] /Count 9 >>"]),
        (
            "a parent of itself",
            vec![CATALOGUE, one_page, "<< /Type /Page /Parent 3 0 R /Contents 4 0 R >>", &text],
        ),
        ("a form in itself", vec![CATALOGUE, one_page, PAGE, &text, FONT, &form]),
        ("a reference to itself", vec!["1 0 R"]),
        ("a huge count", vec![CATALOGUE, "<< /Type /Pages /Kids [] /Count 2147483647 >>"]),
        ("a huge length", vec![CATALOGUE, one_page, PAGE, "<< /Length 99999999999 >>\nstream\nBT ET", FONT]),
    ] {
        let ended = read_within(Duration::from_secs(1), "loop.pdf", &pdf(&objects));
        println!("{what}: {ended:?}");
    }
    let mut previous = b"%PDF-1.7\n".to_vec();
    previous
        .extend(b"xref\n0 1\n0000000000 65535 f \ntrailer\n<< /Root 1 0 R /Prev 9 >>\nstartxref\n9\n%%EOF\n");
    let _ = read_within(Duration::from_secs(1), "previous.pdf", &previous);
}

#[test]
fn pages_that_are_hard_to_lay_out_end() {
    let pages = "<< /Type /Pages /Kids [3 0 R] /Count 1 >>";
    let page = PAGE.replace("[0 0 200 200]", "[-9999999 -9999999 9999999 9999999]");
    let line = |text: &str| format!("BT /F 10 Tf 20 100 Td {} ET", text.repeat(100_000));
    for content in [
        line("(a) Tj "),
        line("(a) Tj -30 0 Td "),
        line("(ab) Tj 20 0 Td (c) Tj -31 0 Td "),
        line("0 0.01 Td (a) Tj "),
        line("/Span << /ActualText (x) >> BDC (a) Tj "),
        "1 g 0 0 200 200 re f ".repeat(30_000) + &line("(a) Tj "),
        line("(a) Tj ") + &"0.5 g 0 0 200 200 re f ".repeat(30_000),
        "q 0 0 9 9 re W n ".repeat(50_000) + &line("(a) Tj "),
    ] {
        let _ = read("layout.pdf", &pdf(&[CATALOGUE, pages, &page, &stream("", &content), FONT]));
    }
}

#[test]
fn fields_and_fonts_that_refer_to_themselves_end() {
    let pages = "<< /Type /Pages /Kids [3 0 R] /Count 1 >>";
    let page =
        "<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources 5 0 R /Annots [6 0 R 6 0 R 6 0 R 7 0 R] >>";
    let content = stream("", "BT /F 10 Tf 20 100 Td (text) Tj ET /X Do");
    let resources = "<< /Font << /F << /Type /Font /Subtype /Type3 /Encoding << /Differences [0 /a_b 300 /c -7 /d.e 255 /f /g] >> \
        /CharProcs 5 0 R /FontMatrix [0 0 0 0 0 0] >> /G 5 0 R >> /XObject << /X 8 0 R >> >>";
    let field = "<< /Type /Annot /Subtype /Widget /Rect [0 0 1e9 -1e9] /Parent 6 0 R /FT /Ch /V [6 0 R (a)] /Opt [[6 0 R] [(a)]] >>";
    let stamp = "<< /Type /Annot /Subtype /Stamp /Rect [0 0 0 0] /AP << /N 8 0 R >> >>";
    let form = stream("/Type /XObject /Subtype /Form /BBox [0 0 0 0] /Resources 5 0 R", "/X Do");
    let _ = read("loops.pdf", &pdf(&[CATALOGUE, pages, page, &content, resources, field, stamp, &form]));
}

#[test]
fn deep_nesting_in_a_pdf_ends() {
    let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
    let _ = read("deep.pdf", &pdf(&[CATALOGUE, &format!("<< /Type /Pages /Kids {deep} >>")]));
    let operators = stream("", &"q ".repeat(500_000));
    let pages = "<< /Type /Pages /Kids [3 0 R] /Count 1 >>";
    let _ = read("deep.pdf", &pdf(&[CATALOGUE, pages, PAGE, &operators, FONT]));
}

/// Only Linux limits memory.
#[cfg(target_os = "linux")]
#[test]
fn a_pdf_that_takes_too_much_memory_is_refused() {
    let archive = archive_of_a_byte("x", b' ', 400);
    let mut zip = zip::ZipArchive::new(Cursor::new(&archive[..])).expect("an archive");
    let entry = zip.by_index(0).expect("an entry");
    let start = entry.data_start().expect("its place") as usize;
    let deflated = &archive[start..start + entry.compressed_size() as usize];
    let mut bomb = b"%PDF-1.7\n".to_vec();
    for (i, object) in [CATALOGUE, "<< /Type /Pages /Kids [3 0 R] /Count 1 >>", PAGE].iter().enumerate() {
        bomb.extend(format!("{} 0 obj\n{object}\nendobj\n", i + 1).bytes());
    }
    bomb.extend(
        format!("4 0 obj\n<< /Filter /FlateDecode /Length {} >>\nstream\n", deflated.len() + 2).bytes(),
    );
    bomb.extend(
        [&b"\x78\x9c"[..], deflated, b"\nendstream\nendobj\ntrailer\n<< /Root 1 0 R >>\n%%EOF\n"].concat(),
    );
    let error = read("bomb.pdf", &bomb).expect_err("a bomb");
    assert!(matches!(error.problem, Problem::OutOfMemory { .. }), "{error}");
}

/// A page whose content is the same stream many times.
#[test]
fn content_that_repeats_a_stream_is_cut() {
    let text = "BT /F 12 Tf 20 100 Td (text) Tj ET ".to_owned() + &" ".repeat(1 << 20);
    let page = PAGE.replace("/Contents 4 0 R", &format!("/Contents [{}]", "4 0 R ".repeat(300)));
    let pages = "<< /Type /Pages /Kids [3 0 R] /Count 1 >>";
    let document =
        read("a.pdf", &pdf(&[CATALOGUE, pages, &page, &stream("", &text), FONT])).expect("a document");
    assert!(document.text.starts_with("text"), "{}", document.text);
    assert!(matches!(document.notes[..], [Note::DamagedPages { .. }]), "{:?}", document.notes);
}

#[test]
fn a_conversion_that_takes_too_long_is_ended() {
    // A long drawing is drawn many times.
    let (content, form) =
        (stream("", &"/X Do ".repeat(100_000)), stream(FORM, &"0 0 m 9 9 l S ".repeat(1_000)));
    let one_page = "<< /Type /Pages /Kids [3 0 R] /Count 1 >>";
    let slow = pdf(&[CATALOGUE, one_page, PAGE, &content, FONT, &form]);
    let limits = Limits { time: Duration::from_millis(500), ..Limits::default() };
    let error = read_bytes("slow.pdf", &slow, &limits).expect_err("too slow");
    assert!(matches!(error.problem, Problem::TooSlow { .. }), "{error}");
}

#[test]
fn text_beyond_the_limit_is_refused() {
    let limits = Limits { bytes: 100, ..Limits::default() };
    for (name, text) in [("a.html", "<p>long".repeat(100)), ("a.html", "<br>long".repeat(14))] {
        let error = read_bytes(name, text.as_bytes(), &limits);
        assert!(
            error.is_ok() || matches!(error, Err(DocumentError { problem: Problem::TooLong { .. }, .. }))
        );
    }
    assert!(matches!(
        documents::read_stream(&[b'x'; 101][..], &limits),
        Err(Problem::TooLong { limit: 100 })
    ));
}
