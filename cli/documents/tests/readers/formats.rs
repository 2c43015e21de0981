//! The other formats: spreadsheets, presentations, OpenDocument, RTF, messages, notebooks, subtitles, archives.

use documents::{Kind, Limits, Problem, read_bytes};

use crate::parts::{archive, archive_of_bytes, notes, read};

/// A document of this name has this text and these notes.
#[track_caller]
pub fn check(name: &str, bytes: &[u8], wanted: &str, note: &str) {
    let document = read(name, bytes);
    assert_eq!((document.text.as_str(), notes(&document).as_str()), (wanted, note));
}

/// A workbook with these sheets `(attributes, content)` and other parts.
pub fn xlsx(sheets: &[(&str, &str)], more: &[(&str, &str)]) -> Vec<u8> {
    let names: String = sheets
        .iter()
        .enumerate()
        .map(|(i, (attributes, _))| format!("<sheet {attributes} r:id='r{i}'/>"))
        .collect();
    let relations: String = (0..sheets.len())
        .map(|i| format!("<Relationship Id='r{i}' Type='x/worksheet' Target='worksheets/sheet{i}.xml'/>"))
        .collect();
    let workbook = format!("<workbook><sheets>{names}</sheets></workbook>");
    let relations = format!(
        "<Relationships>{relations}<Relationship Id='s' Type='x/sharedStrings' Target='sharedStrings.xml'/>\
         <Relationship Id='t' Type='x/styles' Target='styles.xml'/><Relationship Id='c' Type='x/theme' Target='theme.xml'/>\
         <Relationship Id='p' Type='x/person' Target='persons/person.xml'/></Relationships>"
    );
    let names: Vec<String> = (0..sheets.len()).map(|i| format!("xl/worksheets/sheet{i}.xml")).collect();
    let mut entries =
        vec![("xl/workbook.xml", workbook.as_str()), ("xl/_rels/workbook.xml.rels", &relations)];
    entries.extend(names.iter().map(String::as_str).zip(sheets.iter().map(|(_, content)| *content)));
    entries.extend(more);
    archive(&entries)
}

#[test]
fn sheets_are_tables_with_what_they_show() {
    let strings = "<sst><si><t>Name</t></si><si><t>Born</t></si><si><r><t>Area m</t></r><r><rPr><vertAlign val='superscript'/></rPr><t>2</t></r></si></sst>";
    let styles = "<styleSheet><numFmts><numFmt numFmtId='164' formatCode='#,##0.00\\ &quot;€&quot;'/></numFmts>\
        <cellStyleXfs><xf numFmtId='9'/></cellStyleXfs><cellXfs><xf numFmtId='0'/><xf numFmtId='14'/><xf numFmtId='164'/><xf numFmtId='10'/></cellXfs></styleSheet>";
    let sheet = "<worksheet><sheetData>\
        <row r='2'><c r='B2' t='s'><v>0</v></c><c r='C2' t='s'><v>1</v></c><c r='E2' t='s'><v>2</v></c></row>\
        <row r='3'><c r='B3' t='inlineStr'><is><t>Olaf</t></is></c><c r='C3' s='1'><v>45356</v></c><c r='E3' s='2'><v>1234.5</v></c></row>\
        <row r='4'><c r='B4' t='str'><f>A1</f><v>Mary</v></c><c r='E4' s='3'><v>0.256</v></c></row>\
        <row r='5'><c r='B5' t='b'><v>1</v></c><c r='C5' t='e'><v>#DIV/0!</v></c><c r='E5'><f>SUM(E3:E4)</f></c></row>\
        <row r='8'><c r='B8'><v>4006381333931</v></c></row></sheetData></worksheet>";
    check(
        "a.xlsx",
        &xlsx(&[("name='One'", sheet)], &[("xl/sharedStrings.xml", strings), ("xl/styles.xml", styles)]),
        "Name | Born | Area m^2\nOlaf | 2024-03-05 | 1,234.50 €\nMary | | 25.60%\nTRUE | #DIV/0! | =SUM(E3:E4)\n\n4006381333931\n",
        "the file has no result for the formulas of 1 cell",
    );
}

/// The font of a cell is that of the parts of its text that name none.
#[test]
fn symbols_of_sheets_are_signs_of_their_font() {
    let styles = "<styleSheet><numFmts><numFmt numFmtId='164' formatCode='&quot;ü&quot;'/></numFmts><fonts>\
        <font><name val='Calibri'/></font><font><name val='Wingdings'/></font><font><name val='Symbol'/></font></fonts>\
        <cellXfs><xf/><xf fontId='1'/><xf fontId='2'/><xf fontId='1' numFmtId='164'/></cellXfs></styleSheet>";
    let run = |font: &str, text: &str| format!("<r><rPr><rFont val='{font}'/></rPr><t>{text}</t></r>");
    let strings = format!(
        "<sst><si><t>ü</t></si><si><r><t>ü</t></r>{}</si></sst>",
        run("Calibri", " b ") + &run("Symbol", "m")
    );
    let cell =
        |style: usize, kind: &str, value: &str| format!("<c s='{style}' t='{kind}'><v>{value}</v></c>");
    let cells = [
        cell(1, "s", "0"),
        cell(0, "s", "0"),
        cell(1, "s", "1"),
        cell(0, "s", "1"),
        cell(2, "str", "mW"),
        cell(3, "n", "1"),
        cell(2, "str", "\u{80}"),
    ];
    let sheet = format!("<worksheet><sheetData><row>{}</row></sheetData></worksheet>", cells.concat());
    check(
        "a.xlsx",
        &xlsx(&[("name='S'", &sheet)], &[("xl/sharedStrings.xml", &strings), ("xl/styles.xml", styles)]),
        "✓ | ü | ✓ b μ | ü b μ | μΩ | ✓ | \u{fffd}\n",
        "1 unknown character",
    );
    let rtf = br"{\rtf1{\fonttbl{\f0 Times;}{\f1\fcharset2 Wingdings;}}{\f1\u254 ?\u252 ?} {\f0\u252 ?}\par}";
    check("a.rtf", rtf, "☒✓ ü\n", "");
}

#[test]
fn merged_and_hidden_cells_of_sheets() {
    let text = |place: &str, text: &str| format!("<c r='{place}' t='str'><v>{text}</v></c>");
    let sheet = format!(
        "<worksheet><cols><col min='4' max='4' hidden='1'/></cols><sheetData><row r='1'>{}{}{}</row><row r='2'>{}{}</row><row r='3' hidden='1'>{}</row><row r='4'>{}{}</row></sheetData>\
         <mergeCells><mergeCell ref='A1:A2'/><mergeCell ref='A4:B4'/></mergeCells></worksheet>",
        text("A1", "North"),
        text("B1", "Cable"),
        text("C1", "12"),
        text("B2", "Hub"),
        text("D2", "secret"),
        text("A3", "hidden"),
        text("A4", "Total"),
        text("C4", "19"),
    );
    let plain = format!(
        "<worksheet><sheetData><row>{}</row></sheetData></worksheet>",
        "<c t='str'><v>x</v></c><c><v>2</v></c>"
    );
    check(
        "a.xlsx",
        &xlsx(
            &[("name='First'", &sheet), ("name='Gone' state='hidden'", &plain), ("name='Last'", &plain)],
            &[],
        ),
        // A hidden row divides no table.
        "## First\n\nNorth | Cable | 12\nNorth | Hub\nTotal | | 19\n\n## Last\n\nx | 2\n",
        "text that a reader does not see was left out in 2 places; 1 hidden slide or sheet left out",
    );
}

/// Excel writes characters that XML does not have by their numbers.
#[test]
fn escaped_characters_of_sheets_are_characters() {
    let sheet = "<worksheet><row><c t='s'><v>0</v></c><c t='inlineStr'><is><t>1_x000D_\n2</t></is></c><c t='str'><v>a_x0041_</v></c></row>\
        <row><c t='str'><v>_x005F_x000D_ _x00 _xZZZZ_ _x+041_ é_x00e9_</v></c></row></worksheet>";
    let strings = "<sst><si><t>one_x000D_two</t></si></sst>";
    let workbook = xlsx(&[("name='S'", sheet)], &[("xl/sharedStrings.xml", strings)]);
    check("a.xlsx", &workbook, "one two | 1 2 | aA\n_x000D_ _x00 _xZZZZ_ _x+041_ éé\n", "");
}

#[test]
fn headers_and_footers_of_sheets_are_read() {
    let sheet = "<worksheet><sheetData><row><c><v>1</v></c></row></sheetData><headerFooter differentFirst='1'>\
        <oddHeader>&amp;L&amp;\"Arial,Bold\"Confidential&amp;R&amp;D</oddHeader><oddFooter>&amp;CPage &amp;P</oddFooter>\
        <firstHeader>&amp;CConfidential</firstHeader><firstFooter>&amp;LACME &amp;&amp; Sons</firstFooter></headerFooter></worksheet>";
    check(
        "a.xlsx",
        &xlsx(&[("name='a'", sheet)], &[]),
        "[page header] Confidential\n\n1\n\n[page footer] ACME & Sons\n",
        "",
    );
    let sheet = sheet.replace(" differentFirst='1'", "").replace("firstFooter", "evenFooter");
    check("a.xlsx", &xlsx(&[("name='a'", &sheet)], &[]), "[page header] Confidential\n\n1\n", "");
}

#[test]
fn rows_and_columns_without_a_size_are_hidden() {
    let row = |more: &str, text: &str| {
        format!(
            "<row {more}><c t='str'><v>{text}</v></c><c t='str'><v>no</v></c><c t='str'><v>c</v></c></row>"
        )
    };
    let sheet = format!(
        "<worksheet><cols><col min='2' max='2' width='0' customWidth='1'/><col min='3' max='3' width='9'/></cols><sheetData>{}{}{}</sheetData></worksheet>",
        row("ht='15'", "a"),
        row("ht='0' customHeight='1'", "no"),
        row("", "b")
    );
    check(
        "a.xlsx",
        &xlsx(&[("name='a'", &sheet)], &[]),
        "a | c\nb | c\n",
        "text that a reader does not see was left out in 2 places",
    );
}

const CHART: &str = "<c:chart><c:title><a:t>Boats sold</a:t></c:title><c:ser><c:tx><c:strCache><c:pt idx='0'><c:v>2023</c:v></c:pt></c:strCache></c:tx>\
    <c:cat><c:pt idx='0'><c:v>North</c:v></c:pt><c:pt idx='1'><c:v>South</c:v></c:pt></c:cat><c:val><c:pt idx='0'><c:v>7</c:v></c:pt></c:val></c:ser>\
    <c:ser><c:tx><c:v>2024</c:v></c:tx><c:val><c:pt idx='0'><c:v>8</c:v></c:pt><c:pt idx='1'><c:v>9</c:v></c:pt></c:val></c:ser></c:chart>";
const CHART_TEXT: &str = "[chart: Boats sold]\n\n| 2023 | 2024\nNorth | 7 | 8\nSouth | | 9\n";

#[test]
fn charts_are_the_numbers_that_they_show() {
    let relations =
        "<Relationships><Relationship Id='k' Type='x/chart' Target='../charts/c.xml'/></Relationships>";
    let slide = "<p:sld><p:graphicFrame><c:chart r:id='k'/></p:graphicFrame></p:sld>";
    check(
        "a.pptx",
        &pptx(&[slide], &[("ppt/slides/_rels/slide1.xml.rels", relations), ("ppt/charts/c.xml", CHART)]),
        &format!("# Slide 1\n\n{CHART_TEXT}"),
        "",
    );
    let document = "<w:document><w:p><w:r><w:t>See:</w:t></w:r><w:r><w:drawing><wp:docPr/><c:chart r:id='k'/></w:drawing></w:r></w:p></w:document>";
    let parts = [
        ("word/document.xml", document),
        ("word/_rels/document.xml.rels", relations),
        ("charts/c.xml", CHART),
    ];
    check("a.docx", &archive(&parts), &format!("See:\n\n{CHART_TEXT}"), "");
    let sheet = "<worksheet><sheetData><row r='1'><c r='A1'><v>1</v></c></row></sheetData></worksheet>";
    let drawing = "<xdr:wsDr><xdr:graphicFrame><c:chart r:id='k'/></xdr:graphicFrame></xdr:wsDr>";
    let drawings =
        "<Relationships><Relationship Id='d' Type='x/drawing' Target='../drawings/d.xml'/></Relationships>";
    check(
        "a.xlsx",
        &xlsx(
            &[("name='a'", sheet)],
            &[
                ("xl/worksheets/_rels/sheet0.xml.rels", drawings),
                ("xl/drawings/d.xml", drawing),
                ("xl/drawings/_rels/d.xml.rels", relations),
                ("xl/charts/c.xml", CHART),
            ],
        ),
        &format!("1\n\n{CHART_TEXT}"),
        "",
    );
    // Numbers have the format of the chart.
    let points = |values: &[&str]| -> String {
        values
            .iter()
            .enumerate()
            .map(|(i, value)| format!("<c:pt idx='{i}'><c:v>{value}</c:v></c:pt>"))
            .collect()
    };
    let chart = format!(
        "<c:chart><c:title><a:p><a:t>Sales</a:t></a:p><a:p><a:t>of all</a:t></a:p></c:title><c:ser><c:tx><c:v>Sold</c:v></c:tx><c:cat><c:numCache><c:formatCode>yyyy</c:formatCode>{}</c:numCache></c:cat>\
         <c:val><c:numCache><c:formatCode>General</c:formatCode>{}</c:numCache></c:val></c:ser>\
         <c:ser><c:tx><c:v>Share</c:v></c:tx><c:cat><c:strCache>{}</c:strCache></c:cat>\
         <c:val><c:numCache><c:formatCode>0.0%</c:formatCode>{}</c:numCache></c:val></c:ser>\
         <c:catAx><c:title><a:p><a:t>Ye</a:t><a:t>ar</a:t></a:p></c:title></c:catAx></c:chart>",
        points(&["45356", "45800"]),
        points(&["2.2999999999999998", "7"]),
        points(&["007", "x"]),
        points(&["0.256", "0.5"]),
    );
    let parts = [parts[0], parts[1], ("charts/c.xml", &chart)];
    let text =
        "See:\n\n[chart: Sales of all; Year]\n\n| Sold | Share\n2024 | 2.3 | 25.6%\n2025 | 7 | 50.0%\n";
    check("a.docx", &archive(&parts), text, "");
    // Points of scatter charts have their own place, and groups of points a name.
    let series = |name: &str, x: &[&str], y: &[&str], more: &str| {
        format!(
            "<c:ser><c:tx><c:v>{name}</c:v></c:tx><c:xVal><c:numCache>{}</c:numCache></c:xVal><c:yVal><c:numCache>{}\
             </c:numCache></c:yVal>{more}</c:ser>",
            points(x),
            points(y)
        )
    };
    let sizes = format!("<c:bubbleSize><c:numCache>{}</c:numCache></c:bubbleSize>", points(&["3"]));
    for (second, rows) in [
        (
            series("B", &["5", "6"], &["50", "60"], &sizes),
            "| x | y\nA | 1 | 10\nA | 2 | 20\nB | 5 | 50 (size 3)\nB | 6 | 60\n",
        ),
        (series("B", &["1", "2"], &["50", "60"], ""), "| A | B\n1 | 10 | 50\n2 | 20 | 60\n"),
    ] {
        let chart = format!("<c:chart>{}{second}</c:chart>", series("A", &["1", "2"], &["10", "20"], ""));
        let parts = [parts[0], parts[1], ("charts/c.xml", &chart)];
        check("a.docx", &archive(&parts), &format!("See:\n\n[chart]\n\n{rows}"), "");
    }
    let chart = format!(
        "<c:chart><c:ser><c:cat><c:multiLvlStrRef><c:multiLvlStrCache><c:lvl>{}</c:lvl><c:lvl><c:pt idx='0'><c:v>2023</c:v></c:pt>\
         <c:pt idx='2'><c:v>2024</c:v></c:pt></c:lvl></c:multiLvlStrCache></c:multiLvlStrRef></c:cat><c:val>{}</c:val></c:ser></c:chart>",
        points(&["Q1", "Q2", "Q1"]),
        points(&["1", "2", "3"]),
    );
    let parts = [parts[0], parts[1], ("charts/c.xml", &chart)];
    check("a.docx", &archive(&parts), "See:\n\n[chart]\n\n2023 Q1 | 1\n2023 Q2 | 2\n2024 Q1 | 3\n", "");
}

#[test]
fn shapes_and_remarks_of_sheets_are_read() {
    let sheet = "<worksheet><sheetData><row r='1'><c r='A1'><v>1</v></c></row></sheetData></worksheet>";
    let relations = "<Relationships><Relationship Id='d' Type='x/drawing' Target='../drawings/d.xml'/>\
        <Relationship Id='c' Type='x/comments' Target='../comments1.xml'/></Relationships>";
    let drawing = "<xdr:wsDr><xdr:sp><xdr:txBody><a:p><a:r><a:t>Only an</a:t></a:r></a:p><a:p><a:r><a:t>estimate</a:t></a:r></a:p></xdr:txBody></xdr:sp><xdr:pic/></xdr:wsDr>";
    let comments = "<comments><authors><author>Ann</author></authors><commentList><comment ref='A1' authorId='0'><text><r><t>Why?</t></r></text></comment></commentList></comments>";
    check(
        "a.xlsx",
        &xlsx(
            &[("name='a'", sheet)],
            &[
                ("xl/worksheets/_rels/sheet0.xml.rels", relations),
                ("xl/drawings/d.xml", drawing),
                ("xl/comments1.xml", comments),
            ],
        ),
        "1\n\nOnly an estimate\n\n[A1] Ann comments: Why?\n",
        "1 picture without text",
    );
}

/// Newer programs write remarks twice, for older ones with the advice to get a newer one.
#[test]
fn threads_of_remarks_are_read() {
    let sheet = "<worksheet><sheetData><row r='1'><c r='A1'><v>1</v></c></row></sheetData></worksheet>";
    let relations = "<Relationships><Relationship Id='c' Type='x/comments' Target='../comments1.xml'/>\
        <Relationship Id='t' Type='x/threadedComment' Target='../threads1.xml'/></Relationships>";
    let comments = "<comments><authors><author>tc={1}</author><author>Bob</author></authors><commentList>\
        <comment ref='A1' authorId='0'><text><t>Your version of Excel is old. Comment: Why?</t></text></comment>\
        <comment ref='B1' authorId='1'><text><t>Old.</t></text></comment></commentList></comments>";
    let threads = "<ThreadedComments><threadedComment ref='A1' personId='{p}' id='{1}'><text>Why?</text></threadedComment>\
        <threadedComment ref='A1' personId='{q}' id='{2}' parentId='{1}'><text>So.</text></threadedComment></ThreadedComments>";
    let people =
        "<personList><person displayName='Ann' id='{p}'/><person displayName=' ' id='{q}'/></personList>";
    let parts = |threads| {
        let own = [("name='a'", sheet)];
        let more = [
            ("xl/worksheets/_rels/sheet0.xml.rels", relations),
            ("xl/comments1.xml", comments),
            ("xl/threads1.xml", threads),
            ("xl/persons/person.xml", people),
        ];
        xlsx(&own, &more)
    };
    check(
        "a.xlsx",
        &parts(threads),
        "1\n\n[A1] Ann comments: Why?\n\n[A1] So.\n\n[B1] Bob comments: Old.\n",
        "",
    );
    let copy =
        "1\n\n[A1] tc={1} comments: Your version of Excel is old. Comment: Why?\n\n[B1] Bob comments: Old.\n";
    check("a.xlsx", &parts("<ThreadedComments/>"), copy, "");
    // Where threads are damaged or of other cells, the copies count.
    for end in [threads.len() - 10, threads.len() - "</ThreadedComments>".len()] {
        check("a.xlsx", &parts(&threads[..end]), copy, "");
    }
    let other = "<ThreadedComments><threadedComment ref='C1' personId='{p}'><text>New.</text></threadedComment>\
        <threadedComment ref='A1' personId='{p}'><text/></threadedComment></ThreadedComments>";
    let text = copy.replacen("1\n", "1\n\n[C1] Ann comments: New.\n", 1);
    check("a.xlsx", &parts(other), &text, "");
}

#[test]
fn hostile_sheets_end() {
    let far =
        |row: usize| format!("<row r='{row}'><c r='A{row}'><v>1</v></c><c r='XFD{row}'><v>2</v></c></row>");
    let rows: String = (1..2000).map(far).collect();
    let middle: String = (1..16_000).map(|_| "<c><v>1</v></c>").collect();
    let sheet = format!(
        "<worksheet><sheetData>{rows}<row r='5000'>{middle}</row></sheetData><mergeCells><mergeCell ref='A1:XFD1048576'/><mergeCell ref='B9:A1'/></mergeCells></worksheet>"
    );
    let document = read("a.xlsx", &xlsx(&[("name='a'", &sheet)], &[]));
    assert!(document.text.len() < 8 << 20, "{}", document.text.len());
    let _ = read_bytes(
        "a.xlsx",
        &xlsx(&[("name='a'", "<c r='ZZZZZZZZ99999999999999999999'/>")], &[]),
        &Limits::default(),
    );
}

/// A presentation with these slides and other parts.
pub fn pptx(slides: &[&str], more: &[(&str, &str)]) -> Vec<u8> {
    let ids: String = (0..slides.len()).map(|i| format!("<p:sldId id='{}' r:id='r{i}'/>", 256 + i)).collect();
    let relations: String = (0..slides.len())
        .map(|i| {
            format!("<Relationship Id='r{i}' Type='x/slide' Target='slides/slide{}.xml'/>", slides.len() - i)
        })
        .collect();
    let presentation = format!("<p:presentation><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>");
    let relations = format!("<Relationships>{relations}</Relationships>");
    let names: Vec<String> =
        (0..slides.len()).map(|i| format!("ppt/slides/slide{}.xml", slides.len() - i)).collect();
    let mut entries = vec![
        ("ppt/presentation.xml", presentation.as_str()),
        ("ppt/_rels/presentation.xml.rels", &relations),
    ];
    entries.extend(names.iter().map(String::as_str).zip(slides.iter().copied()));
    entries.extend(more);
    archive(&entries)
}

#[test]
fn slides_are_in_their_order() {
    let shape = |kind: &str, paragraphs: &str| {
        format!(
            "<p:sp><p:nvSpPr><p:cNvPr/><p:nvPr><p:ph type='{kind}'/></p:nvPr></p:nvSpPr><p:txBody>{paragraphs}</p:txBody></p:sp>"
        )
    };
    let p = |properties: &str, text: &str| format!("<a:p>{properties}<a:r><a:t>{text}</a:t></a:r></a:p>");
    let auto = |start: &str| format!("<a:pPr><a:buAutoNum type='arabicParenR' {start}/></a:pPr>");
    let first = format!(
        "<p:sld>{}{}{}{}</p:sld>",
        shape(
            "body",
            &(p("", "one") + &p("<a:pPr lvl='1'/>", "below") + &p("<a:pPr><a:buNone/></a:pPr>", "plain"))
        ),
        shape("title", &p("", "The boat")),
        shape("sldNum", &p("", "1")),
        shape("body", &(p(&auto("startAt='3'"), "x") + &p(&auto("startAt='3'"), "y")))
    );
    let cell = |attributes: &str, text: &str| {
        format!("<a:tc {attributes}><a:txBody>{}</a:txBody></a:tc>", p("", text))
    };
    let table = format!(
        "<p:sld><p:graphicFrame><a:tbl><a:tr>{}{}</a:tr><a:tr>{}{}</a:tr><a:tr>{}{}</a:tr></a:tbl></p:graphicFrame>\
         <p:pic><p:cNvPr descr='A map'/><a:blip/></p:pic><p:pic><p:cNvPr/><a:blip/></p:pic>\
         <p:sp><p:txBody><a:p><a:r><a:t>10</a:t></a:r><a:r><a:rPr baseline='30000'/><a:t>6</a:t></a:r></a:p></p:txBody></p:sp></p:sld>",
        cell("rowSpan='2'", "a"),
        cell("", "b"),
        cell("vMerge='1'", ""),
        cell("", "c"),
        cell("gridSpan='2'", "d"),
        cell("hMerge='1'", ""),
    );
    let hidden = format!("<p:sld show='0'>{}</p:sld>", shape("body", &p("", "secret")));
    let relations = "<Relationships><Relationship Id='n' Type='x/notesSlide' Target='../notesSlides/n.xml'/></Relationships>";
    let notes_part = format!(
        "<p:notes>{}{}</p:notes>",
        shape("body", &p("<a:pPr><a:buNone/></a:pPr>", "Say hello.")),
        shape("sldNum", &p("", "1"))
    );
    check(
        "a.pptx",
        &pptx(
            &[&first, &hidden, &table],
            &[("ppt/slides/_rels/slide3.xml.rels", relations), ("ppt/notesSlides/n.xml", &notes_part)],
        ),
        "# Slide 1: The boat\n\n- one\n  - below\nplain\n\n3) x\n4) y\n\n[Notes] Say hello.\n\n# Slide 3\n\na | b\na | c\nd\n\n[image: A map]\n10^6\n",
        "1 hidden slide or sheet left out; 1 picture without text",
    );
}

/// A document of LibreOffice.
pub fn odf(kind: &str, styles: &str, body: &str) -> Vec<u8> {
    let content = format!(
        "<office:document-content><office:automatic-styles>{styles}</office:automatic-styles><office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    );
    archive(&[("mimetype", "application/vnd.oasis.opendocument.text"), ("content.xml", &content)])
}

#[test]
fn open_documents_are_read() {
    let styles = "<style:style style:name='up'><style:text-properties style:text-position='super 58%'/></style:style>\
        <style:style style:name='gone'><style:text-properties text:display='none'/></style:style>\
        <style:style style:name='old'><style:text-properties style:text-line-through-style='solid'/></style:style>\
        <text:list-style style:name='L'><text:list-level-style-number text:level='1' style:num-format='1' style:num-suffix='.' text:start-value='4'/>\
        <text:list-level-style-number text:level='2' style:num-format='a' style:num-suffix=')' text:display-levels='2'/></text:list-style>\
        <text:list-style style:name='B'><text:list-level-style-bullet text:level='1' text:bullet-char='•'/></text:list-style>";
    let item = |inner: &str| format!("<text:list-item>{inner}</text:list-item>");
    let p = |text: &str| format!("<text:p>{text}</text:p>");
    let list = format!(
        "<text:list text:style-name='L'>{}{}</text:list>",
        item(&(p("a") + "<text:list>" + &item(&p("b")) + &item(&p("c")) + "</text:list>")),
        item(&p("d"))
    );
    let body = format!(
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>deleted</text:p></text:deletion></text:changed-region></text:tracked-changes>\
         <text:h text:outline-level='2'>Head</text:h><text:p>10<text:span text:style-name='up'>6</text:span> cells<text:s text:c='3'/>and<text:tab/>more<text:line-break/>line\
         <text:span text:style-name='gone'>hidden</text:span> <text:span text:style-name='old'>80</text:span></text:p>{list}\
         <text:list text:continue-numbering='true' text:style-name='L'>{}</text:list><text:list text:style-name='B'>{}</text:list>\
         <text:p>note<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>Below.</text:p></text:note-body></text:note></text:p>\
         <text:p>x<office:annotation><dc:creator>Ann</dc:creator><dc:date>2024</dc:date><text:p>Why?</text:p></office:annotation>y</text:p>",
        item(&p("e")),
        item(&p("f"))
    );
    check(
        "a.odt",
        &odf("text", styles, &body),
        "## Head\n\n10^6 cells and more\nline ~~80~~\n\n4. a\n  4.a) b\n  4.b) c\n5. d\n\n6. e\n\n- f\n\nnote[^1]\n\nx[^c1]y\n\n[^1]: Below.\n\n[^c1]: Ann comments: Why?\n",
        "text that a reader does not see was left out in 1 place; text that is marked as deleted was left out in 1 place",
    );
}

#[test]
fn tables_of_open_documents_keep_their_columns() {
    let cell = |attributes: &str, text: &str| {
        format!("<table:table-cell {attributes}><text:p>{text}</text:p></table:table-cell>")
    };
    let row = |cells: &str| format!("<table:table-row>{cells}</table:table-row>");
    let covered = "<table:covered-table-cell/>";
    let table = format!(
        "<table:table table:name='T'>{}{}{}{}{}</table:table>",
        row(&(cell("table:number-rows-spanned='2'", "North") + &cell("", "Cable") + &cell("", "12"))),
        row(&(covered.to_owned() + &cell("", "Hub") + &cell("", "7"))),
        row(&(cell("table:number-columns-spanned='2'", "Total") + covered + &cell("", "19"))),
        row(&("<table:table-cell table:number-columns-repeated='2'/>".to_owned() + &cell("", "x"))),
        row("<table:table-cell table:number-columns-repeated='16384'/>"),
    );
    let wanted = "North | Cable | 12\nNorth | Hub | 7\nTotal | | 19\n| | x\n";
    check("a.odt", &odf("text", "", &table), wanted, "");
    check("a.ods", &odf("spreadsheet", "", &table), &format!("## T\n\n{wanted}"), "");
    let flat = format!(
        "<?xml version='1.0'?><office:document><office:styles/><office:body><office:text>{table}</office:text></office:body></office:document>"
    );
    check("a.fodt", flat.as_bytes(), wanted, "");
    let many = format!(
        "<table:table><table:table-row table:number-rows-repeated='1048576'>{}</table:table-row></table:table>",
        cell("table:number-columns-repeated='16384' table:number-columns-spanned='99999'", "x")
    );
    assert!(read("a.ods", &odf("spreadsheet", "", &many)).text.len() < 32 << 20);
}

#[test]
fn forms_formulas_headings_and_hidden_parts_of_open_documents() {
    let body = "<office:forms><form:form><form:checkbox xml:id='c1' form:label='Alarm' form:current-state='checked'/>\
        <form:checkbox xml:id='c2' form:label='Lift'/><form:text xml:id='c3' form:current-value='Olaf'/></form:form></office:forms>\
        <text:h text:outline-level='1'>One</text:h><text:h text:outline-level='2'>Two</text:h><text:h text:outline-level='2' text:is-list-header='true'>None</text:h>\
        <text:p><draw:control draw:control='c1'/><draw:control draw:control='c2'/> by <draw:control draw:control='c3'/></text:p>\
        <text:p>half is <draw:frame><draw:object xlink:href='./Object 1'/><draw:image xlink:href='x.png'/></draw:frame> of it</text:p>\
        <text:p><draw:frame><draw:image/><svg:desc>A map</svg:desc></draw:frame><draw:frame><draw:image/></draw:frame></text:p>";
    let styles = "<office:document-styles><text:outline-style><text:outline-level-style text:level='1' style:num-format='I' style:num-suffix='.'/>\
        <text:outline-level-style text:level='2' style:num-format='1' text:display-levels='2'/></text:outline-style></office:document-styles>";
    let content = format!(
        "<office:document-content><office:body><office:text>{body}</office:text></office:body></office:document-content>"
    );
    let formula = "<math xmlns='x'><semantics><mfrac><mn>1</mn><mn>2</mn></mfrac><annotation encoding='StarMath 5.0'>{1} over {2}</annotation></semantics></math>";
    check(
        "a.odt",
        &archive(&[
            ("mimetype", "application/vnd.oasis.opendocument.text"),
            ("content.xml", &content),
            ("styles.xml", styles),
            ("Object 1/content.xml", formula),
        ]),
        "# I. One\n\n## I.1 Two\n\n## None\n\n☒ Alarm ☐ Lift by Olaf\n\nhalf is 1/2 of it\n\n[image: A map]\n",
        "1 picture without text",
    );
    let cell = |text: &str| format!("<table:table-cell><text:p>{text}</text:p></table:table-cell>");
    let sheets = format!(
        "<table:table table:name='A'><table:table-column/><table:table-column table:visibility='collapse'/><table:table-column/>\
         <table:table-row>{0}{1}{2}</table:table-row><table:table-row table:visibility='filter'>{1}</table:table-row></table:table>\
         <table:table table:name='B' table:style-name='gone'><table:table-row>{1}</table:table-row></table:table>",
        cell("a"),
        cell("hidden"),
        cell("c")
    );
    check(
        "a.ods",
        &odf(
            "spreadsheet",
            "<style:style style:name='gone'><style:table-properties table:display='false'/></style:style>",
            &sheets,
        ),
        "## A\n\na | c\n",
        "text that a reader does not see was left out in 2 places; 1 hidden slide or sheet left out",
    );
}

#[test]
fn charts_of_open_documents_are_the_numbers_that_they_show() {
    let row = |cells: &[&str]| {
        let cells =
            cells.iter().map(|text| format!("<table:table-cell><text:p>{text}</text:p></table:table-cell>"));
        format!("<table:table-row>{}</table:table-row>", cells.collect::<String>())
    };
    let rows = [row(&["", "2023", "2024"]), row(&["North", "7", "8"]), row(&["South", "NaN", "9"])];
    // Which cells of a sheet a number is from stands beside it.
    let source = "</text:p><draw:g><svg:desc>Sheet1.$B$1:$B$1</svg:desc></draw:g>";
    let rows = rows.map(|row| row.replace("</text:p>", source));
    let chart = format!(
        "<office:document-content><chart:chart><chart:title><text:p>Boats sold</text:p></chart:title>\
         <table:table>{}</table:table></chart:chart></office:document-content>",
        rows.concat()
    );
    let frame =
        "<draw:frame><draw:object xlink:href='./Object 1'/><draw:image xlink:href='x.png'/></draw:frame>";
    let document = |kind: &str, body: &str| {
        let content = format!(
            "<office:document-content><office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
        );
        archive(&[
            ("mimetype", "application/vnd.oasis.opendocument.text"),
            ("content.xml", &content),
            ("Object 1/content.xml", &chart),
        ])
    };
    check(
        "a.odt",
        &document("text", &format!("<text:p>See:{frame}</text:p><text:p>after</text:p>")),
        &format!("See:\n\n{CHART_TEXT}\nafter\n"),
        "",
    );
    // The shapes of a sheet come before its cells, and stand below them.
    let shapes = format!(
        "<table:shapes>{frame}<draw:frame><draw:text-box><text:p>A remark</text:p></draw:text-box></draw:frame></table:shapes>"
    );
    let cells = format!(
        "<table:table-cell><text:p>a</text:p></table:table-cell><table:table-cell>{frame}</table:table-cell>"
    );
    let table = format!("<table:table>{shapes}<table:table-row>{cells}</table:table-row></table:table>");
    check(
        "a.ods",
        &document("spreadsheet", &table),
        &format!("a\n\n{CHART_TEXT}\nA remark\n\n{CHART_TEXT}"),
        "",
    );
}

#[test]
fn other_objects_of_open_documents_are_no_charts() {
    let table = "<table:table><table:table-row><table:table-cell><text:p>NaNoWriMo</text:p></table:table-cell>\
        <table:table-cell><text:p>7</text:p></table:table-cell></table:table-row></table:table>";
    let content = "<office:document-content><office:body><office:text><text:p>See:<draw:frame><draw:object xlink:href='./O'/></draw:frame></text:p></office:text></office:body></office:document-content>";
    let document = |kind: &str| {
        archive(&[
            ("mimetype", "application/vnd.oasis.opendocument.text"),
            ("content.xml", content),
            ("O/content.xml", &format!("<office:body><{kind}>{table}</{kind}></office:body>")),
        ])
    };
    check("a.odt", &document("office:spreadsheet"), "See:\n", "1 picture without text");
    check("a.odt", &document("chart:chart"), "See:\n\n[chart]\n\nNaNoWriMo | 7\n", "");
}

/// Headers and footers stand among the styles.
#[test]
fn headers_and_footers_of_open_documents_are_read() {
    let part = |kind: &str, text: &str| format!("<style:{kind}><text:p>{text}</text:p></style:{kind}>");
    let pages = format!(
        "<office:master-styles><style:master-page>{}{}{}{}<style:header-first style:display='false'><text:p>not shown</text:p></style:header-first></style:master-page>\
         <style:master-page>{}</style:master-page></office:master-styles>",
        part("header", "Report of ACME"),
        part("header-left", "Report <text:s/>of ACME"),
        part("footer", "Confidential"),
        part("footer-left", "Page <text:page-number>1</text:page-number>"),
        part("header", "Report of ACME"),
    );
    let body = "<office:body><office:text><text:p>It is 900.</text:p></office:text></office:body>";
    let wanted = "[page header]\nReport of ACME\n\nIt is 900.\n\n[page footer]\nConfidential\n";
    let document = archive(&[
        ("mimetype", "application/vnd.oasis.opendocument.text"),
        ("content.xml", &format!("<office:document-content>{body}</office:document-content>")),
        ("styles.xml", &format!("<office:document-styles>{pages}</office:document-styles>")),
    ]);
    check("a.odt", &document, wanted, "");
    let flat = format!("<?xml version='1.0'?><office:document>{pages}{body}</office:document>");
    check("a.fodt", flat.as_bytes(), wanted, "");
}

/// Programs store more kinds of pages than a document has.
#[test]
fn headers_of_pages_that_are_not_there_are_left_out() {
    let master = |name: &str, more: &str| {
        format!(
            "<style:master-page style:name='{name}' {more}><style:header><text:p>Of {name}</text:p></style:header></style:master-page>"
        )
    };
    let text = |masters: &str, used: &str| {
        let style = if used.is_empty() {
            "<style:style style:name='P1'/>".to_owned()
        } else {
            format!("<style:style style:name='P1' style:master-page-name='{used}'/>")
        };
        format!(
            "<?xml version='1.0'?><office:document><office:automatic-styles>{style}</office:automatic-styles><office:master-styles>{masters}\
             </office:master-styles><office:body><office:text><text:p text:style-name='P1'>It is 900.</text:p></office:text></office:body></office:document>"
        )
    };
    let all = [
        master("Default", ""),
        master("Report", ""),
        master("First", "style:next-style-name='Second'"),
        master("Second", "style:next-style-name='First'"),
    ]
    .concat();
    for (masters, used, headers) in [
        (&all, "", &["Default"][..]),
        (&all, "First", &["Default", "First", "Second"]),
        (&master("MP0", ""), "", &["MP0"]),
        (
            &[master("Page1", ""), master("Annex", ""), master("Old", "")].concat(),
            "Annex",
            &["Page1", "Annex"],
        ),
    ] {
        let headers: String = headers.iter().map(|name| format!("[page header]\nOf {name}\n\n")).collect();
        check("a.fodt", text(masters, used).as_bytes(), &format!("{headers}It is 900.\n"), "");
    }
}

#[test]
fn listings_of_open_documents_keep_their_spaces() {
    let styles = "<style:style style:name='Preformatted_20_Text' style:family='paragraph'/><style:style style:name='P1' style:parent-style-name='Preformatted_20_Text'/>\
        <style:style style:name='T1'><style:text-properties style:font-name='Liberation Mono'/></style:style>";
    let code = |inner: &str| format!("<text:p text:style-name='P1'>{inner}</text:p>");
    let body = [
        "<text:p>Settings:</text:p>".to_owned(),
        code(
            "a:<text:line-break/><text:s text:c='2'/>b:<text:line-break/><text:s text:c='4'/>- c: <text:s text:c='2'/>1",
        ),
        code("<text:tab/>d:\n    2"),
        "<text:p>see <text:s/> <text:span text:style-name='T1'>x <text:s/>y</text:span>  here</text:p>"
            .to_owned(),
    ];
    check(
        "a.odt",
        &odf("text", styles, &body.concat()),
        "Settings:\n\na:\n  b:\n    - c:   1\n\td: 2\n\nsee x  y here\n",
        "",
    );
}

/// A heading may begin the numbers of its level anew.
#[test]
fn numbers_of_headings_of_open_documents_restart() {
    let heading = |level: usize, attributes: &str| {
        format!("<text:h text:outline-level='{level}' {attributes}>x</text:h>")
    };
    let levels = "<text:outline-level-style text:level='1' style:num-format='1' style:num-suffix='.'/>\
        <text:outline-level-style text:level='2' style:num-format='1' text:display-levels='2' text:start-value='3'/>";
    let styles = format!("<text:outline-style>{levels}</text:outline-style>");
    let body = [
        heading(1, ""),
        heading(2, ""),
        heading(2, ""),
        heading(2, "text:restart-numbering='true'"),
        heading(1, "text:restart-numbering='true' text:start-value='7'"),
        heading(2, ""),
        heading(1, "text:restart-numbering='false' text:start-value='2'"),
    ];
    let text = read("a.odt", &odf("text", &styles, &body.concat())).text;
    let marks: Vec<_> =
        text.lines().map(|line| line.trim_matches(['#', ' ', 'x'])).filter(|line| !line.is_empty()).collect();
    assert_eq!(marks, ["1.", "1.3", "1.4", "1.3", "7.", "7.3", "8."]);
}

#[test]
fn numbers_of_open_documents_have_the_letters_of_their_example() {
    let list = |example: &str| {
        let style = format!(
            "<text:list-style style:name='L'><text:list-level-style-number text:level='1' style:num-format='{example}' style:num-suffix='.'/></text:list-style>"
        );
        let item = "<text:list-item><text:p>x</text:p></text:list-item>";
        odf("text", &style, &format!("<text:list text:style-name='L'>{item}{item}</text:list>"))
    };
    check("a.odt", &list("α, β, γ, ... (gr)"), "α. x\nβ. x\n", "");
    check("a.odt", &list("А, Б, .., Аа, Аб, ... (ru)"), "А. x\nБ. x\n", "");
    check(
        "a.odt",
        &list("?, !, ..."),
        "1. x\n2. x\n",
        "numbers of headings, clauses or items are in digits in 2 places; the document has other numerals",
    );
}

/// The state of a box stands in a part of its own, its label in the drawing.
#[test]
fn boxes_and_pictures_of_sheets_are_read() {
    let sheet = "<worksheet><sheetData><row r='1'><c r='A1' s='1' t='b'><v>1</v></c><c r='B1' s='1' t='b'><v>0</v></c><c r='C1' t='b'><v>0</v></c></row></sheetData>\
        <controls><mc:AlternateContent><mc:Choice><control shapeId='1025' r:id='c1' name='Check Box 1'/></mc:Choice><mc:Fallback><control shapeId='1025' r:id='c1' name='Check Box 1'/></mc:Fallback></mc:AlternateContent>\
        <control shapeId='1026' r:id='c2' name='Check Box 2'/><control shapeId='1027' r:id='c3' name='Button'/><control shapeId='1028' r:id='c1' name='No shape'/></controls></worksheet>";
    let relations = "<Relationships><Relationship Id='d' Type='x/drawing' Target='../drawings/d.xml'/>\
        <Relationship Id='c1' Type='x/ctrlProp' Target='../ctrlProps/1.xml'/><Relationship Id='c2' Type='x/ctrlProp' Target='../ctrlProps/2.xml'/>\
        <Relationship Id='c3' Type='x/ctrlProp' Target='../ctrlProps/3.xml'/></Relationships>";
    let shape = |id: usize, text: &str| {
        format!(
            "<xdr:twoCellAnchor><xdr:from><xdr:col>{0}</xdr:col><xdr:colOff>9</xdr:colOff><xdr:row>4</xdr:row></xdr:from><xdr:to><xdr:col>7</xdr:col><xdr:row>8</xdr:row></xdr:to>\
             <xdr:sp><xdr:nvSpPr><xdr:cNvPr id='{id}' hidden='1'/></xdr:nvSpPr><xdr:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></xdr:txBody></xdr:sp></xdr:twoCellAnchor>",
            id - 1000
        )
    };
    let drawing = format!(
        "<xdr:wsDr>{}{}{}<xdr:pic><xdr:nvPicPr><xdr:cNvPr id='3' descr='A boat'/></xdr:nvPicPr></xdr:pic><xdr:pic/></xdr:wsDr>",
        shape(1025, "Alarm"),
        shape(1026, ""),
        shape(1030, "hidden")
    );
    let styles = "<styleSheet><cellXfs><xf/><xf><extLst><ext><xfpb:xfComplement i='0'/></ext></extLst></xf></cellXfs></styleSheet>";
    check(
        "a.xlsx",
        &xlsx(
            &[("name='a'", sheet)],
            &[
                ("xl/styles.xml", styles),
                ("xl/worksheets/_rels/sheet0.xml.rels", relations),
                ("xl/drawings/d.xml", &drawing),
                ("xl/ctrlProps/1.xml", "<formControlPr objectType='CheckBox' checked='Checked'/>"),
                ("xl/ctrlProps/2.xml", "<formControlPr objectType='Radio'/>"),
                ("xl/ctrlProps/3.xml", "<formControlPr objectType='Button'/>"),
            ],
        ),
        "☒ | ☐ | FALSE\n\n[Z5] ☒ Alarm\n\n[AA5] ○ Check Box 2\n\n[image: A boat]\n\n☒ No shape\n",
        "text that a reader does not see was left out in 1 place; 1 picture without text",
    );
}

#[test]
fn hidden_sections_paragraphs_and_slides_of_open_documents() {
    let section = |attributes: &str, text: &str| {
        format!("<text:section {attributes}><text:h>{text}</text:h><text:p>{text}</text:p></text:section>")
    };
    let hidden =
        |is_hidden: bool| format!("<text:hidden-paragraph text:condition='x' text:is-hidden='{is_hidden}'/>");
    let body = format!(
        "<text:p>Visible.</text:p>{}{}{}{}<text:p>before {} behind</text:p><text:p>kept{}</text:p><text:p>End.</text:p>",
        section("text:display='none'", "SECRET"),
        section("text:display='condition' text:is-hidden='true'", "SECRET"),
        section("text:display='condition' text:condition='ooow:0'", "shown"),
        section("", &section("text:display='none'", "SECRET")),
        hidden(true),
        hidden(false),
    );
    let wanted = "Visible.\n\n# shown\n\nshown\n\nkept\n\nEnd.\n";
    check(
        "a.odt",
        &odf("text", "", &body),
        wanted,
        "text that a reader does not see was left out in 5 places",
    );
    let styles = "<style:style style:name='gone'><style:drawing-page-properties presentation:visibility='hidden'/></style:style>\
        <style:style style:name='there'><style:drawing-page-properties presentation:visibility='visible'/></style:style>";
    let slides = "<draw:page draw:style-name='there'><text:p>one</text:p></draw:page><draw:page draw:style-name='gone'><text:p>SECRET</text:p></draw:page>\
        <draw:page><text:p>three</text:p></draw:page>";
    check(
        "a.odp",
        &odf("presentation", styles, slides),
        "# Slide 1\n\none\n\n# Slide 3\n\nthree\n",
        "1 hidden slide or sheet left out",
    );
}

#[test]
fn rich_text_is_read() {
    check(
        "a.rtf",
        br"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Times;}{\f1\fcharset2 Symbol;}{\f2\fcharset204 Arial Cyr;}{\f3\fcharset2 Wingdings;}}{\stylesheet{\s1 heading 1;}}{\info{\title no}}
\pard\s1 Title\par\pard caf\'e9 \u8364 ? {\f1 a} {\f2 \'cf\'f0} {\f3 \'fe} 10{\super 6} {\strike 80} {\v hidden}{\deleted gone}x\line y\~z\par
{\listtext 1.\tab}\pard first\par{\listtext\f1 \'b7\tab}\pard\ilvl1 second\par
\pard a{\footnote \pard note}b{\*\unknown no}{\pict 00ff}\par
\trowd\cellx100\cellx200\pard\intbl a\cell b|c\cell\row\trowd\clvmgf\cellx100\cellx200\pard\intbl d\cell e\cell\row\trowd\clvmrg\cellx100\cellx200\pard\intbl\cell f\cell\row\pard end\par}",
        "# Title\n\ncaf\u{e9} € α Пр ☒ 10^6 ~~80~~ x\ny z\n1. first\n  - second\n\na[^1]b\n\na | b\\|c\nd | e\nd | f\n\nend\n\n[^1]: note\n",
        "text that a reader does not see was left out in 1 place; text that is marked as deleted was left out in 1 place; 1 picture without text",
    );
    check(
        "form.rtf",
        br"{\rtf1 {\field{\*\fldinst FORMCHECKBOX {\*\formfield{\fftype1\ffdefres1}}}{\fldrslt}} yes {\field{\*\fldinst HYPERLINK x}{\fldrslt link}}\u-10179 ?\u-8704 ?\par}",
        "☒ yes link\u{1f600}\n",
        "",
    );
    let form = r"{\*\formfield{\fftype2\ffres1{\*\ffl red}{\*\ffl blue}}}";
    for (field, wanted, wanted_note) in [
        (r"{\*\fldinst SYMBOL 254 \\f Wingdings}{\fldrslt }".to_owned(), "☒", ""),
        (r"{\*\fldinst symbol 0xfe \\f Wingdings}{\fldrslt }".to_owned(), "☒", ""),
        // What is shown already comes once.
        (r"{\*\fldinst SYMBOL 97 \\f Arial}{\fldrslt a}".to_owned(), "a", ""),
        (format!(r"{{\*\fldinst FORMDROPDOWN {form}}}{{\fldrslt }}"), "blue", ""),
        (format!(r"{{\*\fldinst FORMDROPDOWN {form}}}{{\fldrslt blue}}"), "blue", ""),
        (
            r"{\*\fldinst AUTONUM}{\fldrslt }".to_owned(),
            "",
            "numbers of headings, clauses or items could not be read in 1 place",
        ),
    ] {
        let text = format!(r"{{\rtf1 a{{\field{field}}}b\par}}");
        check("field.rtf", text.as_bytes(), &format!("a{wanted}b\n"), wanted_note);
    }
    let numbered = br"{\rtf1\ftnstart12 a{\super\chftn}{\footnote \chftn x}b{\footnote y}\ftnstart1\par}";
    check("notes.rtf", numbered, "a[^12]b[^13]\n\n[^12]: x\n\n[^13]: y\n", "");
    let deep = [b"{\\rtf1 ".to_vec(), b"{\\b ".repeat(200_000), b"x".to_vec(), b"{\\footnote ".repeat(1000)]
        .concat();
    assert!(read("deep.rtf", &deep).text.starts_with("x[^1]"));
    let _ = read_bytes("a.rtf", b"{\\rtf1\\bin999999999 x", &Limits::default());
}

#[test]
fn a_row_of_rich_text_begins_with_its_definition() {
    check(
        "a.rtf",
        br"{\rtf1 before\par\trowd\cellx100\cellx200 Item\cell Jan\cell\row\trowd\cellx100\cellx200 Rent\cell 900\cell\row\pard after\par}",
        "before\n\nItem | Jan\nRent | 900\n\nafter\n",
        "",
    );
}

/// Word divides the cells of a row by the places where they end.
#[test]
fn cells_of_rich_text_stand_where_they_begin() {
    let row = |left: i32, cells: &[(&str, i32, &str)]| {
        let defined: String = cells.iter().map(|(word, right, _)| format!("{word}\\cellx{right}")).collect();
        let texts: String = cells.iter().map(|(_, _, text)| format!("{text}\\cell ")).collect();
        format!("\\trowd\\trleft{left}{defined}\\pard\\intbl {texts}\\row\n")
    };
    let table = |rows: &[String]| format!("{{\\rtf1\\ansi before\\par {}\\pard end\\par}}", rows.concat());
    let header = row(-108, &[("", 1000, "Item"), ("", 2000, "Net"), ("", 3000, "Gross")]);
    let rows = table(&[
        header.clone(),
        row(-100, &[("", 2010, "Total of all"), ("", 2990, "4")]),
        row(1000, &[("", 2000, "5"), ("", 3000, "6")]),
        row(-108, &[("\\clvmgf", 1000, "North"), ("\\clmgf", 2000, "7"), ("\\clmrg", 3000, "")]),
        row(-108, &[("\\clvmrg", 1000, ""), ("", 1500, "8"), ("", 2000, "9"), ("", 3000, "10")]),
        row(1000, &[("", 3000, "11")]),
    ]);
    check(
        "a.rtf",
        rows.as_bytes(),
        "before\n\nItem | Net | | Gross\nTotal of all | | | 4\n| 5 | | 6\nNorth | 7\nNorth | 8 | 9 | 10\n| 11\n\nend\n",
        "",
    );
    // Cells that are not defined, and definitions that go back.
    check(
        "a.rtf",
        br"{\rtf1 \pard\intbl a\cell b\cell\row\pard\intbl c\cell d\cell\row}",
        "a | b\nc | d\n",
        "",
    );
    let back = table(&[header, row(-108, &[("", 3000, "a"), ("", 1000, "b"), ("", 1000, "c")])]);
    assert!(read("a.rtf", back.as_bytes()).text.contains("Item | Net | Gross\na | | | b | c\n"));
    // A row that does not end, and a note in a cell.
    check(
        "a.rtf",
        br"{\rtf1 \trowd\cellx900\cellx1800\pard\intbl a{\footnote \pard note}\cell b\par\pard end\par}",
        "a[^1] | b\n\nend\n\n[^1]: note\n",
        "",
    );
    // A table within a cell is a part of its text.
    check(
        "a.rtf",
        br"{\rtf1\trowd\cellx900\cellx1800\pard\intbl Cup\cell\pard\intbl\itap2 S\nestcell 8\nestcell{\*\nesttableprops\trowd\cellx300\cellx600\nestrow}{\nonesttables\par}\pard\intbl\itap2 L\nestcell 9\nestcell{\*\nesttableprops\nestrow}\pard\intbl\itap1 each\cell\row\pard end}",
        "Cup | S, 8; L, 9 each\n\nend\n",
        "",
    );
}

/// What a group says of its paragraphs ends with it.
#[test]
fn paragraphs_of_rich_text_are_those_of_their_group() {
    check(
        "a.rtf",
        br"{\rtf1\ansi{\stylesheet{\s1\outlinelevel0 heading 1;}}{\header Report of ACME}First par\par{\pard\s1 Title\par}second\par\pard\s1\plain Other\par}",
        "[page header]\nReport of ACME\n\nFirst par\n\n# Title\n\nsecond\n\n# Other\n",
        "",
    );
    check(
        "a.rtf",
        br"{\rtf1\ansi a {\upr{Cafe{\b x}}{\*\ud{Caf\u233 e}}} b{\footnote {\upr{no}{\*\ud{yes}}}}\par}",
        "a Caf\u{e9} b[^1]\n\n[^1]: yes\n",
        "",
    );
}

/// Word writes formulas as groups, with a picture beside them.
#[test]
fn formulas_of_rich_text_are_lines() {
    let formula = |parts: &str| format!("{{\\rtf1\\ansi so {{\\mmath{{\\*\\moMath{parts}}}}} holds\\par}}");
    let run = |text: &str| format!("{{\\mr\\mscr0\\msty2 {{\\rtlch\\fcs1 \\ltrch\\fcs0 \\f34 {text}}}}}");
    for (parts, wanted) in [
        (
            format!("{{\\mf{{\\mfPr{{\\mctrlPr\\f34}}}}{{\\mnum{}}}{{\\mden{}}}}}", run("a+1"), run("2")),
            "(a+1)/2",
        ),
        (
            format!(
                "{}{{\\msSup{{\\msSupPr}}{{\\me{}}}{{\\msup{}}}}}",
                run("A=\\u960\\'70"),
                run("r"),
                run("2")
            ),
            "A=πr^2",
        ),
        (
            format!(
                "{{\\mnary{{\\mnaryPr{{\\mchr \\u8721 ?}}{{\\mlimLoc undOvr}}}}{{\\msub{}}}{{\\msup{}}}{{\\me{}}}}}",
                run("i=1"),
                run("n"),
                run("i")
            ),
            "∑_(i=1)^n i",
        ),
        (format!("{{\\md{{\\mdPr{{\\mbegChr [}}{{\\mendChr }}}}{{\\me{}}}}}", run("x")), "[x"),
        (format!("{{\\mrad{{\\mradPr{{\\mdegHide on}}}}{{\\mdeg}}{{\\me{}}}}}", run("x")), "√(x)"),
    ] {
        check("a.rtf", formula(&parts).as_bytes(), &format!("so {wanted} holds\n"), "");
    }
    check(
        "a.rtf",
        br"{\rtf1 {\*\moMathPara{\*\moMathParaPr{\mjc centerGroup}}{\*\moMath{\mr x}{\mr {\v y}}}}{\mmathPict{\pict 00ff}}\par{\pict 00ff}}",
        "x\n",
        "text that a reader does not see was left out in 1 place; 1 picture without text",
    );
    // One that does not end, and one in a note.
    check(
        "a.rtf",
        br"{\rtf1 a {\*\moMath{\mf{\mnum{\mr 1}}{\mden{\mr 2",
        "a 1/2\n",
        "the file ends too early: a part of it is missing",
    );
    check("a.rtf", br"{\rtf1 a{\footnote {\*\moMath{\mr x}}}\par}", "a[^1]\n\n[^1]: x\n", "");
    // Those of other programs are counted; those of fields are read where they can be.
    check(
        "a.rtf",
        br"{\rtf1 a {\object\objemb{\*\objclass Equation.3}{\*\objdata 0105}{\result{\pict 00ff}}} {\field{\*\fldinst EQ \\f(1,2)}{\fldrslt }} {\field{\*\fldinst EQ \\o(a,b)}{\fldrslt }} {\field{\*\fldinst EQ \\f(1,3)}{\fldrslt 0.33}}\par}",
        "a 1/2 0.33\n",
        "2 formulas could not be read",
    );
    let deep = format!("{{\\rtf1 x {{\\*\\moMath{}", "{\\mf{\\mnum{\\mr 1}".repeat(100_000));
    assert!(read("deep.rtf", deep.as_bytes()).text.starts_with("x "));
}

#[test]
fn tables_with_separators_are_tables() {
    check(
        "a.csv",
        b"Name,Number\r\n\"Olaf, the old\",34251\r\nMary,\r\n,\"a|b\nc\"\r\n",
        "Name | Number\nOlaf, the old | 34251\nMary\n| a\\|b c\n",
        "",
    );
    check("a.csv", b"a;1,5;b\nc;2,5;d\n", "a | 1,5 | b\nc | 2,5 | d\n", "");
    // Commas within numbers, without names above them or with names that have commas, too.
    check("a.csv", b"1,50;2,50;3\n2,25;0,75;9\n", "1,50 | 2,50 | 3\n2,25 | 0,75 | 9\n", "");
    check("a.csv", b"Price, net;Number\n1,50;3\n2,75;4\n", "Price, net | Number\n1,50 | 3\n2,75 | 4\n", "");
    check("a.csv", b"1,5\t2\n3,5\t4\n", "1,5 | 2\n3,5 | 4\n", "");
    check("a.csv", b"a;b,c\nx;y,5\n", "a;b | c\nx;y | 5\n", "");
    // Several commas in a value divide it, and so do those before a sign that only ends lines.
    check("a.csv", b"1,2,3;\n4,5,6;\n", "1 | 2 | 3;\n4 | 5 | 6;\n", "");
    check("a.csv", b"1,2;\n4,5;\n", "1 | 2;\n4 | 5;\n", "");
    check("a.csv", b"1,5,10;20\n2,6,11;21\n", "1 | 5 | 10;20\n2 | 6 | 11;21\n", "");
    check("a.csv", b"2024-01-01,5|6\n2024-01-02,7|8\n", "2024-01-01 | 5\\|6\n2024-01-02 | 7\\|8\n", "");
    check("a.tsv", b"a\tb\nc\td\n", "a | b\nc | d\n", "");
    check("a.csv", b"sep=|\na|b\n", "a | b\n", "");
    check(
        "a.csv",
        b"one line\nand another, with a comma\nthird\n",
        "one line\nand another, with a comma\nthird\n",
        "",
    );
    check(
        "a.csv",
        b"caf\xe9,x\nb,c\n",
        "caf\u{e9} | x\nb | c\n",
        "decoded as windows-1252, which is a guess",
    );
}

/// Programs that export for Office write a page under the name of its old files.
#[test]
fn pages_under_names_of_old_office_files_are_read() {
    let table =
        "<table><tr><th>Day</th><th>In</th><th>Out</th></tr><tr><td>1</td><td></td><td>900</td></tr></table>";
    let wanted = "Day | In | Out\n1 | | 900\n";
    check("statement.xls", format!("<html><body>{table}").as_bytes(), wanted, "");
    check("statement.xls", table.as_bytes(), wanted, "");
    let letter = b"<html><style>.x{display:none}</style><p>Dear Ann<p class=x>secret";
    check("letter.doc", letter, "Dear Ann\n", "text that a reader does not see was left out in 1 place");
    let minutes = format!(
        "Subject: Export\nMIME-Version: 1.0\nContent-Type: multipart/related; boundary=b\n\n--b\nContent-Type: text/html\n\n\
         {table}\n--b--\n"
    );
    check("minutes.doc", minutes.as_bytes(), wanted, "");
    check("statement.xls", b"Day\tOut\n1\t900\n", "Day\tOut\n1\t900\n", "");
    let text = "Subject: is what it is about.\nMIME-Version: 1.0 is another header.\nBoth are at the top.\n";
    check("headers.doc", text.as_bytes(), text, "");
}

#[test]
fn notebooks_are_text_and_code() {
    let notebook = r#"{"metadata":{"kernelspec":{"language":"python"}},"cells":[
        {"cell_type":"markdown","source":["Boats\n","sink"]},
        {"cell_type":"code","source":"print(1)","outputs":[{"output_type":"stream","text":["1\n"]},
            {"data":{"image/png":"iVBOR","text/plain":"<Figure>"}},{"traceback":["\u001b[0;31mError\u001b[0m: no"]}]}]}"#;
    check(
        "a.ipynb",
        notebook.as_bytes(),
        "Boats\nsink\n\n```python\nprint(1)\n```\n\n```\n1\n```\n\n```\nError: no\n```\n",
        "1 picture without text",
    );
    // A bar of progress writes over its line.
    let outputs = r#"{"cells":[{"cell_type":"code","source":"x","outputs":[{"text":"epoch 1 loss 3\repoch 2 loss 4\r\nend\r"},{"data":{"application/json":{"rent":950}}}]}]}"#;
    check(
        "a.ipynb",
        outputs.as_bytes(),
        "```\nx\n```\n\n```\nepoch 2 loss 4\nend\n```\n\n```\n{\"rent\":950}\n```\n",
        "",
    );
    let error = read_bytes("a.ipynb", &b"[".repeat(100_000), &Limits::default()).expect_err("too deep");
    assert!(matches!(error.problem, Problem::Damaged { .. }), "{error}");
}

#[test]
fn subtitles_say_who_says_what_and_when() {
    check(
        "a.srt",
        b"1\r\n00:00:01,000 --> 00:00:02,000\r\n<i>Hello</i>\r\nthere {\\an8}\r\n\r\n2\r\n01:02:03,000 --> 01:02:05,000\r\nx < y\r\n",
        "[0:01] Hello there\n[1:02:03] x < y\n",
        "",
    );
    check(
        "a.vtt",
        b"WEBVTT\n\nNOTE no\n\nSTYLE\n::cue { color: red }\n\n00:01.000 --> 00:02.000 align:start\n<v Ann>one\n\n00:02.000 --> 00:03.000\nAnn: one\ntwo &amp; three\n",
        "[0:01] Ann: one\n[0:02] two & three\n",
        "",
    );
    check("a.srt", b"only text", "only text", "");
    // An empty line may stand within a subtitle.
    check(
        "a.srt",
        b"1\n00:00:05,000 --> 00:00:06,000\nLine\n\nafter blank\n\n2\n00:00:07,000 --> 00:00:08,000\n\nnext\n3\n00:00:09,000 --> 00:00:10,000\n42\n\n\nlast\n",
        "[0:05] Line after blank\n[0:07] next\n[0:09] 42 last\n",
        "",
    );
    check(
        "a.vtt",
        b"WEBVTT\n\nintro\n00:01.000 --> 00:02.000\none\n\nNOTE no\nno\n\nsecond\n00:02.000 --> 00:03.000\ntwo\n\nthree\nfour\n\nNOTE no\n",
        "[0:01] one\n[0:02] two three four\n",
        "",
    );
    let open = [b"00:01.000 --> 00:02.000\n".to_vec(), b"<".repeat(1 << 20)].concat();
    assert_eq!(read("a.srt", &open).text.len(), (1 << 20) + "[0:01] \n".len());
}

#[test]
fn messages_and_saved_pages_are_read() {
    let message = "From: Ann <ann@example.org>\r\nTo: =?utf-8?q?B=C3=B6b?= <bob@example.org>\r\nSubject: The boat\r\nDate: Tue, 5 Mar 2024 12:00:00 +0000\r\nMIME-Version: 1.0\r\n\
        Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: multipart/alternative; boundary=y\r\n\r\n--y\r\nContent-Type: text/plain\r\n\r\nplain\r\n--y\r\nContent-Type: text/html\r\n\r\n<p>It sank at 10<sup>6</sup> m.</p><p hidden>no</p>\r\n--y--\r\n\
        --x\r\nContent-Type: text/csv\r\nContent-Disposition: attachment; filename=a.csv\r\n\r\na,b\r\n1,2\r\n--x\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: attachment; filename=a.png\r\n\r\niVBORw0KGgoAAAA=\r\n--x--\r\n";
    check(
        "a.eml",
        message.as_bytes(),
        "From: Ann <ann@example.org>\nTo: B\u{f6}b <bob@example.org>\nDate: Tue, 5 Mar 2024 12:00:00 +0000\nSubject: The boat\n\nIt sank at 10^6 m.\n\n==> a.csv <==\na | b\n1 | 2\n",
        "text that a reader does not see was left out in 1 place; 1 file in it left out: a.png",
    );
    let many: Vec<String> = (0..100).map(|i| format!("person-{i}@example.org")).collect();
    let subject = "word ".repeat(500);
    let message = format!("To: {}\r\nSubject: {subject}\r\n\r\ntext\r\n", many.join(",\r\n "));
    let text = read("many.eml", message.as_bytes()).text;
    let (to, rest) = text.split_once('\n').expect("lines");
    assert!(to.ends_with("person-43@example.org, and 56 more"), "{to}");
    assert_eq!(rest, format!("Subject: {}\n\ntext\n", subject.trim()));
    let page = "From: <Saved by Blink>\r\nSubject: Page\r\nMIME-Version: 1.0\r\nContent-Type: multipart/related; type=\"text/html\"; boundary=x\r\n\r\n--x\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n<h1>Caf=C3=A9</h1>\r\n\
        --x\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: base64\r\nContent-Location: http://x/a.png\r\n\r\niVBORw0KGgo=\r\n--x\r\nContent-Type: text/css\r\nContent-Location: http://x/a.css\r\n\r\np { color: red }\r\n--x--\r\n";
    check("a.mht", page.as_bytes(), "# Caf\u{e9}\n", "");
}

#[test]
fn files_that_end_early_say_so() {
    let note = "the file ends too early: a part of it is missing";
    check("a.rtf", br"{\rtf1 The rent is {\b 950", "The rent is 950\n", note);
    check("a.rtf", br"{\rtf1 The rent is {\b 950}}", "The rent is 950\n", "");
    let message =
        "From: a@b\nContent-Type: multipart/mixed; boundary=X\n\n--X\nContent-Type: text/plain\n\nThe rent\n";
    check("a.eml", message.as_bytes(), "From: a@b\n\n==> attachment <==\nThe rent\n", note);
    check("a.eml", format!("{message}--X--\n").as_bytes(), "From: a@b\n\nThe rent\n", "");
}

/// What a message says is read whatever its parts are, and whatever they say of themselves.
#[test]
fn texts_of_messages_are_not_lost() {
    let alternative = |page: &str| {
        format!(
            "From: a@b\nContent-Type: multipart/alternative; boundary=X\n\n--X\nContent-Type: text/plain\n\nThe rent is 950.\n--X\nContent-Type: text/html\n\n{page}\n--X--\n"
        )
    };
    check("a.eml", alternative("<img src='cid:1'>").as_bytes(), "From: a@b\n\nThe rent is 950.\n", "");
    check(
        "a.eml",
        alternative("<p hidden>no").as_bytes(),
        "From: a@b\n\nThe rent is 950.\n",
        "text that a reader does not see was left out in 1 place",
    );
    check("a.eml", alternative("<p>950").as_bytes(), "From: a@b\n\n950\n", "");
    let guess = "decoded as windows-1252, which is a guess";
    let letter = |head: &[u8], text: &[u8]| [b"From: ", head, b"\n\n", text].concat();
    for (head, text, note) in [
        (&b"Ann\nContent-Type: text/plain; charset=unknown-8bit"[..], &b"Gr\xfc\xdfe\n"[..], guess),
        (b"Ann", b"Gr\xfc\xdfe\n", guess),
        (b"Ann\nContent-Type: text/plain; charset=us-ascii", "Gr\u{fc}\u{df}e\n".as_bytes(), ""),
        (
            b"Ann\nContent-Type: text/plain; charset=us-ascii\nContent-Transfer-Encoding: quoted-printable",
            b"Gr=FC=DFe\n",
            guess,
        ),
        (b"Ann\nContent-Type: text/plain\nContent-Transfer-Encoding: base64", b"R3L832U=\n", guess),
        (b"Ann\nContent-Type: text/plain; charset=iso-8859-2", b"Gr\xfc\xdfe\n", ""),
        (
            b"Ann\nContent-Type: text/html",
            b"<meta charset=iso-8859-1><p>Gr\xfc\xdfe\n",
            "decoded as windows-1252",
        ),
    ] {
        check("a.eml", &letter(head, text), "From: Ann\n\nGr\u{fc}\u{df}e\n", note);
    }
    check("a.eml", &letter(b"J\xfcrgen", b"x\n"), "From: J\u{fc}rgen\n\nx\n", guess);
    check("a.eml", &letter("J\u{fc}rgen".as_bytes(), b"x\n"), "From: J\u{fc}rgen\n\nx\n", "");
    // All of it in wide characters.
    let wide: Vec<u8> = "From: Ann\n\nRent: 950\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
    check("a.eml", &wide, "From: Ann\n\nRent: 950\n", "decoded as utf-16be, which is a guess");
    let marked = [b"\xfe\xff", &wide[..]].concat();
    check("a.eml", &marked, "From: Ann\n\nRent: 950\n", "decoded as utf-16be");
    // What the text says of its encoding was true before.
    for charset in ["iso-8859-1", "utf-16"] {
        let text = format!("From: Ann\nContent-Type: text/plain; charset={charset}\n\nM\u{fc}ller: 950\n");
        let wide: Vec<u8> = format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
        check("a.eml", &wide, "From: Ann\n\nM\u{fc}ller: 950\n", "decoded as utf-16le");
    }
    // A picture that is no picture, but nonsense that looks like text. Drawings and code may have types of pictures and films.
    let attached = |kind: &str, name: &str| {
        format!(
            "From: Ann\nContent-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: text/html\n\n<p>See:\n--x\nContent-Type: {kind}\n\
            Content-Disposition: attachment; filename={name}\nContent-ID: <i>\n\n/9j4AAQSkZJRg\n--x--\n"
        )
    };
    let left_out = "1 file in it left out: a.jpeg";
    check("a.eml", attached("image/jpeg", "a.jpeg").as_bytes(), "From: Ann\n\nSee:\n", left_out);
    for (kind, name) in [
        ("image/svg+xml", "a.svg"),
        ("video/mp2t", "main.ts"),
        ("audio/x-mpegurl", "a.m3u"),
        ("image/x-eps", "a.eps"),
    ] {
        let text = format!("From: Ann\n\nSee:\n\n==> {name} <==\n/9j4AAQSkZJRg\n");
        check("a.eml", attached(kind, name).as_bytes(), &text, "");
    }
    // Frames of a saved page.
    let page = "From: <Saved by Blink>\nContent-Type: multipart/related; type=\"text/html\"; boundary=x\n\n--x\nContent-Type: text/html\n\n<p>Before.<iframe src='http://x/frame.html'></iframe>\n\
        --x\nContent-Type: text/html\nContent-Location: http://x/frame.html\n\n<p>The rent is 950.\n--x\nContent-Type: text/html\nContent-Location: http://x/empty.html\n\n<script>x</script>\n--x--\n";
    check("a.mht", page.as_bytes(), "Before.\n\n==> http://x/frame.html <==\nThe rent is 950.\n", "");
}

/// A file as Outlook packs it, of these attributes.
fn tnef(attributes: &[(u32, &[u8])]) -> Vec<u8> {
    let mut file = b"\x78\x9f\x3e\x22\x01\0".to_vec();
    for (number, content) in attributes {
        let length = (content.len() as u32).to_le_bytes();
        file.extend([&[1], &number.to_le_bytes()[..], &length, content, &[0; 2]].concat());
    }
    file
}

#[test]
fn what_outlook_packs_is_read() {
    let message = |text: &str, packed: &[u8]| {
        let packed: String = packed.iter().map(|byte| format!("={byte:02X}")).collect();
        let lines: Vec<&str> =
            packed.as_bytes().chunks(72).map(|line| std::str::from_utf8(line).expect("ASCII")).collect();
        format!(
            "From: Ann\nContent-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: text/plain\n\n{text}\n--x\n\
             Content-Type: application/ms-tnef; name=winmail.dat\nContent-Transfer-Encoding: quoted-printable\n\
             Content-Disposition: attachment; filename=winmail.dat\n\n{}\n--x--\n",
            lines.join("=\n")
        )
    };
    let files: [(u32, &[u8]); 7] = [
        (0x2800c, b"The rent is 950.\r\n\0"),
        (0x69002, b"\x01\0"),
        (0x18010, b"a.csv\0"),
        (0x6800f, b"a,b\n1,2\n"),
        (0x69002, b"\x01\0"),
        (0x18010, b"Re: rent\0"),
        (0x69005, b"x"),
    ];
    let left_out = "1 file in it left out: Re: rent";
    let table = "==> a.csv <==\na | b\n1 | 2\n";
    let packed = tnef(&files);
    check(
        "a.eml",
        message("See there.", &packed).as_bytes(),
        &format!("From: Ann\n\nSee there.\n\n{table}"),
        left_out,
    );
    let read = format!("From: Ann\n\nThe rent is 950.\n\n{table}");
    check("a.eml", message("", &packed).as_bytes(), &read, left_out);
    // Text that is not read is named, unless the message has it.
    let other = tnef(&[(0x69003, b"\x01\0\0\0\x02\x01\x09\x10\x01\0\0\0")]);
    let note = "1 file in it left out: winmail.dat (the text of a message of Outlook: ask for it as HTML or plain text)";
    check("a.eml", message("", &other).as_bytes(), "From: Ann\n", note);
    check("a.eml", message("x", &other).as_bytes(), "From: Ann\n\nx\n", "");
    let note = "the file ends too early: a part of it is missing; 1 file in it left out: attachment";
    check("a.eml", message("x", &packed[..60]).as_bytes(), "From: Ann\n\nx\n", note);
    // Ends of lines behind it are no part of it.
    let ended = [&tnef(&[(0x2800c, b"y\0")]), &b"\r\n"[..]].concat();
    check("a.eml", message("x", &ended).as_bytes(), "From: Ann\n\nx\n", "");
    // It says the code page of its texts, or it is guessed, or no text.
    let body = |page: u32, text: &[u8]| {
        let page = [page.to_le_bytes(), [0; 4]].concat();
        message("", &tnef(&[(0x69007, &page), (0x2800c, text)]))
    };
    let nuoma = body(1257, b"mok\xebti\0");
    check("a.eml", nuoma.as_bytes(), "From: Ann\n\nmok\u{117}ti\n", "decoded as windows-1257");
    let guessed = "decoded as windows-1252, which is a guess";
    check("a.eml", body(0, b"J\xfcrgen zahlt.\0").as_bytes(), "From: Ann\n\nJ\u{fc}rgen zahlt.\n", guessed);
    let note = "1 file in it left out: winmail.dat (the text of a message of Outlook: ask for it as HTML or plain text)";
    check(
        "a.eml",
        body(0, &b"\xff\xfeA\xd8A\xd8A\xd8A\xd8A\xd8A\xd8A\xd8A\xd8"[..]).as_bytes(),
        "From: Ann\n",
        note,
    );
}

#[test]
fn archives_of_documents_are_read() {
    let inner = archive(&[("c.txt", "three")]);
    let outer = archive_of_bytes(&[
        ("b10.txt", b"ten"),
        ("b9.html", b"<p>nine<p hidden>x"),
        ("more/inner.zip", &inner),
        (".hidden", b"no"),
        ("__MACOSX/b", b"no"),
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        ("empty.txt", b" "),
    ]);
    let document = read("a.zip", &outer);
    assert_eq!(document.kind, Kind::Archive);
    assert_eq!(
        document.text,
        "==> b9.html <==\nnine\n\n==> b10.txt <==\nten\n\n==> more/inner.zip <==\n==> c.txt <==\nthree\n"
    );
    assert_eq!(
        notes(&document),
        "text that a reader does not see was left out in 1 place; 2 files in it left out: a.png, .hidden"
    );
    let mut nested = archive(&[("x.txt", "x")]);
    for _ in 0..8 {
        nested = archive_of_bytes(&[("n.zip", &nested), ("y.txt", b"y")]);
    }
    let document = read("nested.zip", &nested);
    assert!(
        document.text.matches("==> y.txt").count() == 4 && notes(&document).contains("n.zip"),
        "{}",
        document.text
    );
    let error = read_bytes(
        "a.zip",
        &archive_of_bytes(&[("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")]),
        &Limits::default(),
    );
    assert!(error.expect_err("pictures").to_string().contains("without documents"));
}

#[test]
fn encrypted_office_documents_are_named() {
    let name: Vec<u8> = "EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let file = [b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0".as_slice(), &[0; 500], &name].concat();
    for name in ["a.docx", "a.doc"] {
        let error = read_bytes(name, &file, &Limits::default()).expect_err("a password");
        assert!(matches!(error.problem, Problem::Encrypted), "{error}");
    }
    // Where the name of that part is not at the beginning, the name of the file says it.
    let error = read_bytes("a.xlsx", &file[..500], &Limits::default()).expect_err("a password");
    assert!(matches!(error.problem, Problem::Encrypted), "{error}");
    let error = read_bytes("a.xls", &file[..500], &Limits::default()).expect_err("an old one");
    assert!(error.to_string().contains("old kind"), "{error}");
}

/// What is read with a password.
#[track_caller]
fn with_password(name: &str, bytes: &[u8], password: &str) -> Result<String, Problem> {
    let options = documents::Options { password: Some(password.to_owned()), ..Default::default() };
    let read = documents::read_bytes_with(name, bytes, &options);
    read.map(|document| document.text).map_err(|error| error.problem)
}

#[test]
fn documents_with_a_password_are_read() {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let aes = zip::write::SimpleFileOptions::default().with_aes_encryption(zip::AesMode::Aes256, "secret");
    zip.start_file("a.txt", aes).expect("an entry");
    std::io::Write::write_all(&mut zip, b"The pass key is 9078648.").expect("memory");
    let zip = zip.finish().expect("an archive").into_inner();
    for (name, bytes, text) in [
        ("agile.docx", &include_bytes!("../fixtures/agile.docx")[..], "The pass key is 9078648.\n"),
        ("standard.docx", include_bytes!("../fixtures/standard.docx"), "The pass key is 9078648.\n"),
        ("encrypted.odt", include_bytes!("../fixtures/encrypted.odt"), "The pass key is 9078648.\n"),
        ("a.pdf", include_bytes!("../fixtures/encrypted.pdf"), ""),
        ("a.zip", &zip, "==> a.txt <==\nThe pass key is 9078648.\n"),
    ] {
        let found = with_password(name, bytes, "secret").unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(found == text || text.is_empty() && found.starts_with("Two columns\n"), "{name}: {found}");
        let wrong = with_password(name, bytes, "Secret").expect_err("a wrong one");
        assert!(matches!(wrong, Problem::WrongPassword), "{name}: {wrong}");
        let none = read_bytes(name, bytes, &Limits::default()).expect_err("none");
        assert!(matches!(none.problem, Problem::Encrypted), "{name}: {none}");
        // Damaged and cut files end.
        for at in (0..bytes.len()).step_by(bytes.len() / 20) {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 0xff;
            let _ = with_password(name, &damaged, "secret");
            let _ = with_password(name, &bytes[..at], "secret");
        }
    }
    // One that needs none is read with any.
    let open = with_password("a.pdf", include_bytes!("../fixtures/protected.pdf"), "anything");
    assert!(open.is_ok());
    assert_eq!(with_password("a.txt", b"text", "anything").expect("text"), "text");
    // A document of the old kind under a new name is not encrypted.
    let mut old = cfb::CompoundFile::create(std::io::Cursor::new(Vec::new())).expect("memory");
    old.create_stream("WordDocument").expect("a stream");
    let old = old.into_inner().into_inner();
    let error = with_password("a.docx", &old, "secret").expect_err("not encrypted");
    assert!(error.to_string().contains("old kind"), "{error}");
}

/// OpenDocument that is encrypted otherwise than it is read.
#[test]
fn other_ways_to_encrypt_open_documents_are_errors() {
    let entry = |name: &str, checksum: &str, cipher: &str, derivation: &str| {
        format!(
            "<manifest:file-entry manifest:full-path='{name}'><manifest:encryption-data manifest:checksum-type='{checksum}'>\
             <manifest:algorithm manifest:algorithm-name='{cipher}' manifest:initialisation-vector='AAAAAAAAAAAAAAAAAAAAAA=='/>\
             <manifest:start-key-generation manifest:start-key-generation-name='http://www.w3.org/2000/09/xmldsig#sha256'/>\
             <manifest:key-derivation manifest:key-derivation-name='{derivation}' manifest:key-size='32' manifest:iteration-count='1'/>\
             </manifest:encryption-data></manifest:file-entry>"
        )
    };
    let (checksum, cipher) = (
        "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0#sha256-1k",
        "http://www.w3.org/2001/04/xmlenc#aes256-cbc",
    );
    let open = |entries: &str, content: &[(&str, &str)]| {
        let manifest = format!("<manifest:manifest>{entries}</manifest:manifest>");
        let mut parts = vec![("mimetype", "application/vnd.oasis.opendocument.text")];
        parts.push(("META-INF/manifest.xml", &manifest));
        parts.extend_from_slice(content);
        let bytes = archive(&parts);
        (
            read_bytes("a.odt", &bytes, &Limits::default()).map(|document| document.text),
            with_password("a.odt", &bytes, "secret"),
        )
    };
    let content = [("content.xml", "no XML")];
    for entry in [
        entry("content.xml", "SHA1/1K", "Blowfish CFB", "PBKDF2"),
        entry("content.xml", checksum, "http://www.w3.org/2009/xmlenc11#aes256-gcm", "PBKDF2"),
        entry("content.xml", checksum, cipher, "argon2id"),
        // The whole package is encrypted as one entry.
        entry("encrypted-package", "", "http://www.w3.org/2009/xmlenc11#aes256-gcm", "argon2id"),
        entry("content.xml", checksum, cipher, "PBKDF2").replace("count='1'", "count='4000000000'"),
        entry("content.xml", checksum, cipher, "PBKDF2").replace("AAAAAAAA==", "=="),
    ] {
        let (without, with) = open(&entry, &content);
        let problems = [without.expect_err("encrypted").problem, with.expect_err("encrypted")];
        assert!(problems.iter().all(|problem| matches!(problem, Problem::UnknownEncryption)), "{problems:?}");
    }
    let (without, with) = open(&entry("content.xml", checksum, cipher, "PBKDF2"), &content);
    assert!(matches!(without.expect_err("encrypted").problem, Problem::Encrypted));
    assert!(matches!(with.expect_err("another password"), Problem::WrongPassword));
    // An entry that is not encrypted beside another one.
    let plain = "<office:document-content><office:body><office:text><text:p>a</text:p></office:text></office:body></office:document-content>";
    let (_, with) = open(&entry("x.xml", checksum, cipher, "PBKDF2"), &[("content.xml", plain)]);
    assert_eq!(with.expect("a document"), "a\n");
}

/// A mark that is not closed took all rows behind it into one cell.
#[test]
fn an_open_quotation_mark_does_not_swallow_a_table() {
    let rows = (1..200).map(|i| format!("{i},x\n")).collect::<String>();
    let document = read("a.csv", format!("size,name\n7\",pipe\n{rows}").as_bytes());
    assert!(document.text.starts_with("size | name\n7\" | pipe\n1 | x\n2 | x\n"), "{:.60}", document.text);
    assert!(document.text.ends_with("199 | x\n"));
    assert!(notes(&document).contains("a quotation mark is not closed"), "{}", notes(&document));
    check("a.csv", b"a,b\n\"1\n2\",3\n", "a | b\n1 2 | 3\n", "");
}

#[test]
fn entries_of_archives_may_have_any_path() {
    let zip = archive(&[("../up.txt", "one"), ("./a.txt", "two"), (".hidden/x.txt", "no")]);
    let note = "1 file in it left out: .hidden/x.txt";
    check("a.zip", &zip, "==> ../up.txt <==\none\n\n==> ./a.txt <==\ntwo\n", note);
}

/// They were left out in silence, whatever was asked for.
#[test]
fn hidden_files_and_packages_in_archives_are_counted() {
    let zip = archive(&[
        ("a.txt", "one"),
        ("node_modules/x.txt", "two"),
        ("b/.c.txt", "three"),
        ("__MACOSX/._a.txt", "\u{1}"),
    ]);
    check("a.zip", &zip, "==> a.txt <==\none\n", "2 files in it left out: b/.c.txt, node_modules/x.txt");
    let options = documents::Options { all_files: true, ..Default::default() };
    let all = documents::read_bytes_with("a.zip", &zip, &options).expect("an archive");
    assert_eq!(
        (all.text.as_str(), notes(&all).as_str()),
        ("==> a.txt <==\none\n\n==> b/.c.txt <==\nthree\n\n==> node_modules/x.txt <==\ntwo\n", "")
    );
    // Two files of one name, of which only one can be read.
    let mut zip = archive(&[("a.txt", "one"), ("b.txt", "two")]);
    let places: Vec<usize> = (0..zip.len() - 5).filter(|at| zip[*at..].starts_with(b"b.txt")).collect();
    places.iter().for_each(|at| zip[*at] = b'a');
    assert_eq!(notes(&read("a.zip", &zip)), "1 file in it left out: another file of the same name");
}

#[test]
fn repeated_rows_and_collapsed_columns_of_sheets() {
    let cell = |text: &str| format!("<table:table-cell><text:p>{text}</text:p></table:table-cell>");
    let table = format!(
        "<office:spreadsheet><table:table table:name='A'><table:table-column/>\
         <table:table-column table:visibility='collapse' table:number-columns-repeated='2'/><table:table-column \
         table:number-columns-repeated='2'/><table:table-row>{}{}{}{}{}</table:table-row><table:table-row><table:table-cell \
         table:number-columns-repeated='4'/>{}</table:table-row><table:table-row \
         table:number-rows-repeated='1000000'>{}</table:table-row></table:table></office:spreadsheet>",
        cell("a"),
        cell("no"),
        cell("no"),
        cell("d"),
        cell("e"),
        cell("under e"),
        cell("again")
    );
    let document = read("a.ods", &odf("spreadsheet", "", &table));
    assert!(document.text.starts_with("## A\n\na | d | e\n| | under e\nagain\n"), "{:.80}", document.text);
    assert!(
        notes(&document).contains("999000 rows left out, which repeat the one above"),
        "{}",
        notes(&document)
    );
}

/// The style of a cell strikes out all of its text.
#[test]
fn struck_cells_of_sheets_are_marked() {
    let styles = "<styleSheet><fonts><font/><font><strike/><sz val='11'/></font><font><strike val='0'/></font></fonts>\
        <cellStyleXfs><xf fontId='1'/></cellStyleXfs><cellXfs><xf/><xf fontId='1' numFmtId='2'/><xf fontId='2'/></cellXfs>\
        <dxfs><dxf><font><strike/></font></dxf></dxfs></styleSheet>";
    let strings = "<sst><si><t>old</t></si><si><r><rPr><strike/></rPr><t>80</t></r><r><rPr><b/></rPr><t> 70</t></r></si></sst>";
    let sheet = "<worksheet><sheetData><row><c t='s' s='1'><v>0</v></c><c s='1'><v>80</v></c><c s='2'><v>70</v></c></row>\
        <row><c t='s'><v>0</v></c><c t='s' s='1'><v>1</v></c><c t='s' s='2'><v>1</v></c></row></sheetData></worksheet>";
    check(
        "a.xlsx",
        &xlsx(&[("name='One'", sheet)], &[("xl/sharedStrings.xml", strings), ("xl/styles.xml", styles)]),
        "~~old~~ | ~~80.00~~ | 70\nold | ~~80~~ 70 | ~~80~~ 70\n",
        "",
    );
}

/// A program that took the file for text has left out a byte or put one in, and the list of its entries is beside them.
#[test]
fn an_archive_whose_entries_have_moved_is_read() {
    let content =
        "<office:body><office:text><text:p>The pass key is 9078648.</text:p></office:text></office:body>";
    let picture = "\r\n".repeat(50);
    let whole = archive(&[
        ("mimetype", "application/vnd.oasis.opendocument.text"),
        ("a.png", &picture),
        ("content.xml", content),
        ("styles.xml", "<s/>"),
    ]);
    let entry = |name: &str| {
        whole.windows(name.len()).position(|bytes| bytes == name.as_bytes()).expect("an entry")
            + name.len()
            + 1
    };
    for at in [entry("mimetype"), entry("a.png")] {
        for moved in
            [[&whole[..at], &whole[at + 1..]].concat(), [&whole[..at], b"\r\r\r", &whole[at..]].concat()]
        {
            check("a.odt", &moved, "The pass key is 9078648.\n", "");
        }
    }
    // Where the document itself is damaged or the end is missing, that is an error.
    let at = entry("content.xml");
    for damaged in [[&whole[..at + 9], &whole[at + 10..]].concat(), whole[..whole.len() - 40].to_vec()] {
        let error = read_bytes("a.odt", &damaged, &Limits::default()).expect_err("damaged");
        assert!(matches!(error.problem, Problem::Damaged { .. }), "{error}");
    }
}

#[test]
fn open_documents_with_a_password_are_named() {
    let manifest = "<manifest:manifest><manifest:file-entry manifest:full-path='content.xml'><manifest:encryption-data/></manifest:file-entry></manifest:manifest>";
    let document = archive(&[
        ("mimetype", "application/vnd.oasis.opendocument.text"),
        ("META-INF/manifest.xml", manifest),
        ("content.xml", "\u{1}"),
    ]);
    // All parts of newer documents are in one.
    let newer = archive(&[
        ("mimetype", "application/vnd.oasis.opendocument.text"),
        ("META-INF/manifest.xml", &manifest.replace("content.xml", "encrypted-package")),
        ("encrypted-package", "\u{1}"),
    ]);
    for document in [document, newer] {
        for password in [None, Some("secret".to_owned())] {
            let options = documents::Options { password, ..Default::default() };
            let error = documents::read_bytes_with("a.odt", &document, &options).expect_err("encrypted");
            // Nobody is asked for a password that is of no use.
            assert!(matches!(error.problem, Problem::UnknownEncryption), "{error}");
            assert!(error.hint().contains("without password"), "{}", error.hint());
        }
    }
}

/// Names in an archive need not be UTF-8, nor say so if they are.
#[test]
fn entries_with_other_names_are_read() {
    let plain = archive(&[("XXXX.txt", "The rent is 950."), ("b.txt", "two")]);
    let renamed = |name: &[u8]| {
        let mut bytes = plain.clone();
        while let Some(at) = bytes.windows(4).position(|part| part == b"XXXX") {
            bytes[at..at + 4].copy_from_slice(name);
        }
        bytes
    };
    let b = "==> b.txt <==\ntwo";
    check("a.zip", &renamed(b"\x81bel"), &format!("{b}\n\n==> \u{fc}bel.txt <==\nThe rent is 950.\n"), "");
    check(
        "a.zip",
        &renamed("\u{fc}be".as_bytes()),
        &format!("{b}\n\n==> \u{fc}be.txt <==\nThe rent is 950.\n"),
        "",
    );
}

/// A table is a page in a notebook, and its plain text cuts it or only names it.
#[test]
fn pages_in_notebooks_are_read() {
    let output = |data: &str| {
        format!(r#"{{"cells":[{{"cell_type":"code","source":"x","outputs":[{{"data":{{{data}}}}}]}}]}}"#)
    };
    let table = r#""text/html":["<table><tr><th></th><th>Rent</th><th>Power</th></tr>","<tr><th>Jan</th><td></td><td>80</td></tr></table>"]"#;
    for more in ["", r#","text/plain":"<pandas.io.formats.style.Styler at 0x7f>""#, r#","image/png":"iVBOR""#]
    {
        let wanted = "```\nx\n```\n\n| Rent | Power\nJan | | 80\n";
        check("a.ipynb", output(&format!("{table}{more}")).as_bytes(), wanted, "");
    }
    let empty = output(r#""text/html":"<div id='plot'></div>","text/plain":"5 rows""#);
    check("a.ipynb", empty.as_bytes(), "```\nx\n```\n\n```\n5 rows\n```\n", "");
    let titled = output(r#""text/html":"<title>Report</title><p>&nbsp;</p>","text/plain":"5 rows""#);
    check("a.ipynb", titled.as_bytes(), "```\nx\n```\n\n```\n5 rows\n```\n", "");
    let picture =
        output(r#""text/html":"<img src='data:x'>","text/plain":"<IPython.core.display.HTML object>""#);
    check("a.ipynb", picture.as_bytes(), "```\nx\n```\n", "1 picture without text");
}

/// Lines of a message that go on may be divided within a number.
#[test]
fn flowed_lines_of_messages_are_joined() {
    let message = |how: &str| {
        format!(
            "From: a@b\nContent-Type: text/plain; format=flowed{how}\n\nThe rent is 9 \n50 euros.\n> It \n> was\n>> more\n> > r \n> > s\n stuffed \nend\n-- \nAnn\n"
        )
    };
    let end = |gap: &str| format!("> It{gap}was\n>> more\n> > r{gap}s\nstuffed{gap}end\n-- \nAnn\n");
    let wanted = format!("From: a@b\n\nThe rent is 950 euros.\n{}", end(""));
    check("a.eml", message("; delsp=yes").as_bytes(), &wanted, "");
    let wanted = format!("From: a@b\n\nThe rent is 9 50 euros.\n{}", end(" "));
    check("a.eml", message("").as_bytes(), &wanted, "");
}

/// A short header may be the number of a contract.
#[test]
fn short_headers_are_read() {
    check(
        "a.rtf",
        br"{\rtf1\ansi{\header Nr. 4471\par}{\footer Page 1 of 2\par}It is 900.\par}",
        "[page header]\nNr. 4471\n\nIt is 900.\n",
        "",
    );
}
