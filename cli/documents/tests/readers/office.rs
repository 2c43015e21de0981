//! Documents of office programs: what a reader sees, and where it stands.

use crate::parts::{archive, notes, read};

const DOCUMENT: &str = "word/document.xml";

/// A document of Word with this body and other parts.
fn docx(body: &str, entries: &[(&str, &str)]) -> documents::Document {
    let document = format!("<w:document xmlns:w='x'><w:body>{body}</w:body></w:document>");
    read("a.docx", &archive(&[&[(DOCUMENT, document.as_str())], entries].concat()))
}

#[track_caller]
fn check(body: &str, wanted: &str) {
    let document = docx(body, &[]);
    assert_eq!((document.text.as_str(), notes(&document).as_str()), (wanted, ""), "{body}");
}

#[track_caller]
fn check_note(body: &str, wanted: &str, note: &str) {
    let document = docx(body, &[]);
    assert_eq!((document.text.as_str(), notes(&document).as_str()), (wanted, note), "{body}");
}

/// A run of text with properties.
fn run(properties: &str, text: &str) -> String {
    format!("<w:r><w:rPr>{properties}</w:rPr><w:t>{text}</w:t></w:r>")
}

fn paragraph(properties: &str, text: &str) -> String {
    format!("<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>")
}

#[test]
fn paragraphs_become_readable_text() {
    check(
        "<w:p><w:r><w:t>One &amp; </w:t></w:r><w:r><w:t>two</w:t></w:r></w:p> <w:p><w:t>three</w:t></w:p>",
        "One & two\n\nthree\n",
    );
    check("<w:p><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c&#228;</w:t></w:p>", "a b\ncä\n");
    check(
        "<w:p><w:ruby><w:rt><w:r><w:t>ji</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>字</w:t></w:r></w:rubyBase></w:ruby></w:p>",
        "字(ji)\n",
    );
}

#[test]
fn headings_follow_from_the_names_of_styles() {
    let styles = "<w:styles><w:style w:styleId='berschrift2'><w:name w:val='heading 2'/></w:style>\
        <w:style w:styleId='own'><w:basedOn w:val='berschrift2'/></w:style>\
        <w:style w:styleId='ring'><w:basedOn w:val='ring2'/></w:style><w:style w:styleId='ring2'><w:basedOn w:val='ring'/></w:style></w:styles>";
    let body = ["berschrift2", "own", "ring"]
        .map(|style| paragraph(&format!("<w:pStyle w:val='{style}'/>"), style))
        .concat();
    assert_eq!(docx(&body, &[("word/styles.xml", styles)]).text, "## berschrift2\n\n## own\n\nring\n");
}

#[test]
fn entities_are_not_expanded() {
    let bomb =
        "<!DOCTYPE d [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;'>]><d><w:p><w:t>x&b;y</w:t></w:p></d>";
    assert_eq!(read("a.docx", &archive(&[(DOCUMENT, bomb)])).text, "xy\n");
}

fn cell(properties: &str, text: &str) -> String {
    format!("<w:tc><w:tcPr>{properties}</w:tcPr><w:p><w:r><w:t>{text}</w:t></w:r></w:p><w:p/></w:tc>")
}

#[test]
fn merged_cells_stay_in_their_column() {
    let rows = |rows: &[&[String]]| {
        let rows: String = rows.iter().map(|cells| format!("<w:tr>{}</w:tr>", cells.concat())).collect();
        format!("<w:tbl>{rows}</w:tbl><w:p><w:t>x</w:t></w:p>")
    };
    let one = |text: &str| cell("", text);
    let (begin, below) = (|text: &str| cell("<w:vMerge w:val='restart'/>", text), || cell("<w:vMerge/>", ""));
    check(&rows(&[&[one("a"), one("b")], &[one("c"), one("d")]]), "a | b\nc | d\n\nx\n");
    check(
        &rows(&[
            &[begin("North"), one("Cable"), one("12")],
            &[below(), one("Hub"), one("7")],
            &[cell("<w:gridSpan w:val='2'/>", "South total"), one("55")],
            &[one("e"), one(""), one("f")],
        ]),
        "North | Cable | 12\nNorth | Hub | 7\nSouth total | | 55\ne | | f\n\nx\n",
    );
    // Two merged cells one below the other, and a wide one.
    check(
        &rows(&[
            &[begin("A"), one("1")],
            &[below(), one("2")],
            &[begin("B"), one("3")],
            &[below(), one("4")],
            &[cell("<w:gridSpan w:val='2'/><w:vMerge w:val='restart'/>", "wide"), one("5")],
            &[cell("<w:gridSpan w:val='2'/><w:vMerge/>", ""), one("6")],
        ]),
        "A | 1\nA | 2\nB | 3\nB | 4\nwide | | 5\nwide | | 6\n\nx\n",
    );
    check(
        "<w:tbl><w:tr><w:trPr><w:gridBefore w:val='2'/></w:trPr><w:tc><w:p><w:t>a</w:t></w:p></w:tc></w:tr></w:tbl>",
        "| | a\n",
    );
    // A merged cell ends where a row begins behind it or ends before it.
    let gap = |before: usize, cells: &[String]| {
        format!("<w:tr><w:trPr><w:gridBefore w:val='{before}'/></w:trPr>{}</w:tr>", cells.concat())
    };
    check(
        &format!(
            "<w:tbl>{}{}{}{}{}</w:tbl>",
            gap(0, &[one("Region"), one("Product"), one("Sold")]),
            gap(0, &[begin("North"), begin("Pin"), begin("9")]),
            gap(0, &[below(), below(), below()]),
            gap(1, &[below(), one("7")]),
            gap(2, &[one("66")]),
        ),
        "Region | Product | Sold\nNorth | Pin | 9\n| Pin | 7\n| | 66\n",
    );
    let document = docx(&rows(&[&[cell("<w:gridSpan w:val='99999999999'/>", "a"), one("b")]]), &[]);
    assert!(document.text.len() < 100_000);
}

/// Word stores no results of the fields that make numbers.
#[test]
fn numbers_that_fields_make_are_counted() {
    let field = |instruction: &str, result: &str| {
        format!(
            "<w:r><w:fldChar w:fldCharType='begin'/></w:r><w:r><w:instrText> {instruction} </w:instrText></w:r><w:r><w:fldChar w:fldCharType='separate'/></w:r>\
             <w:r><w:t>{result}</w:t></w:r><w:r><w:fldChar w:fldCharType='end'/></w:r>"
        )
    };
    let clause = |properties: &str, instruction: &str, result: &str, text: &str| {
        format!("<w:p><w:pPr>{properties}</w:pPr>{}{}</w:p>", field(instruction, result), run("", text))
    };
    let simple = format!("<w:p><w:fldSimple w:instr=' AUTONUM '/>{}</w:p>", run("", " Rent"));
    check(
        &format!("{simple}{}{}", clause("", "AUTONUM", "", " Term"), clause("", "AUTONUM", "9.", " Law")),
        "1. Rent\n\n2. Term\n\n9. Law\n",
    );
    let level = |level: usize| format!("<w:outlineLvl w:val='{level}'/>");
    check(
        &format!(
            "{}{}{}",
            clause(&level(0), "AUTONUMLGL", "", " One"),
            clause(&level(1), "AUTONUMLGL", "", " Two"),
            clause(&level(1), r"AUTONUMLGL \e", "", " Three")
        ),
        "# 1. One\n\n## 1.1. Two\n\n## 1.2 Three\n",
    );
    let both = format!("{}{}{}", field("LISTNUM", ""), run("", " first, "), field(r"LISTNUM \l 2", ""));
    check(&format!("<w:p>{both}{}</w:p>", run("", " below")), "1) first, a) below\n");
    check_note(
        &format!("{}{simple}", clause("", "AUTONUMOUT", "", "Out") + &paragraph(&level(0), "Head")),
        "Out\n\n# Head\n\nRent\n",
        "numbers of headings, clauses or items could not be read in 2 places",
    );
}

#[test]
fn formats_of_numbers_that_are_not_known_are_counted() {
    let lists = numbering(&[("unheard", "%1."), ("decimal", "%1.%2"), ("koreanLegal", "(%3)")], "");
    let body: String = [0, 1, 2].map(|level| item(1, level, "x")).concat();
    let document = docx(&body, &[(NUMBERING, &lists)]);
    assert_eq!(document.text, "1. x\n  1.1 x\n    (하나) x\n");
    let note =
        "numbers of headings, clauses or items are in digits in 2 places; the document has other numerals";
    assert_eq!(notes(&document), note);
}

/// A row that is hidden may begin a cell of several rows, or be within it.
#[test]
fn merged_cells_reach_over_hidden_rows() {
    for hidden in 0..3 {
        let row = |number: usize| {
            let properties = if number == hidden { "<w:trPr><w:hidden/></w:trPr>" } else { "" };
            let merged = match number {
                0 => cell("<w:vMerge w:val='restart'/>", "North"),
                _ => cell("<w:vMerge/>", ""),
            };
            format!("<w:tr>{properties}{merged}{}</w:tr>", cell("", &number.to_string()))
        };
        let table = format!("<w:tbl>{}{}{}</w:tbl>", row(0), row(1), row(2));
        let text = docx(&table, &[]).text;
        for shown in (0..3).filter(|number| *number != hidden) {
            let line = format!("North | {shown}");
            assert!(text.lines().any(|found| found == line), "{hidden}: {text}");
        }
    }
}

#[test]
fn raised_text_and_formulas_are_not_joined() {
    let raised = |text: &str| run("<w:vertAlign w:val='superscript'/>", text);
    let lowered = |text: &str| run("<w:vertAlign w:val='subscript'/>", text);
    check(
        &format!("<w:p>{}{}{}{}</w:p>", run("", "3 x 10"), raised("-"), raised("6"), run("", " cells")),
        "3 x 10^-6 cells\n",
    );
    check(&format!("<w:p>{}{}{}{}</w:p>", run("", "a "), raised("1"), run("", "/"), lowered("2")), "a 1/2\n");
    check(&format!("<w:p>{}{}</w:p>", run("", "10"), run("<w:position w:val='8'/>", "6")), "10^6\n");
    let styles = "<w:styles><w:style w:styleId='up'><w:rPr><w:vertAlign w:val='superscript'/></w:rPr></w:style></w:styles>";
    let body = format!("<w:p>{}{}</w:p>", run("", "10"), run("<w:rStyle w:val='up'/>", "6"));
    assert_eq!(docx(&body, &[("word/styles.xml", styles)]).text, "10^6\n");
    let math = |inner: &str| {
        format!("<w:p><w:r><w:t>is </w:t></w:r><m:oMath>{inner}</m:oMath><w:r><w:t>.</w:t></w:r></w:p>")
    };
    let t = |text: &str| format!("<m:r><m:rPr/><m:t>{text}</m:t></m:r>");
    let of = |name: &str, text: &str| format!("<m:{name}>{}</m:{name}>", t(text));
    check(&math(&format!("<m:f>{}{}</m:f>", of("num", "1"), of("den", "2"))), "is 1/2.\n");
    check(
        &math(&format!(
            "<m:sSup><m:sSupPr><m:ctrlPr/></m:sSupPr>{}{}</m:sSup>",
            of("e", "10"),
            of("sup", "4")
        )),
        "is 10^4.\n",
    );
    check(
        &math(&format!("<m:rad><m:radPr><m:degHide m:val='1'/></m:radPr><m:deg/>{}</m:rad>", of("e", "9"))),
        "is √(9).\n",
    );
    check(&math(&format!("<m:rad>{}{}</m:rad>", of("deg", "3"), of("e", "27"))), "is ∛(27).\n");
    check(
        &math(&format!(
            "<m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr>{}{}{}</m:nary>",
            of("sub", "i=1"),
            of("sup", "n"),
            of("e", "i")
        )),
        "is ∑_(i=1)^n i.\n",
    );
    for (show, shown) in [("<m:show m:val='0'/>", "is y.\n"), ("", "is xy.\n")] {
        let phantom = format!("<m:phant><m:phantPr>{show}</m:phantPr>{}</m:phant>{}", of("e", "x"), t("y"));
        check(&math(&phantom), shown);
    }
    check(
        &math(&format!(
            "<m:func><m:fName><m:sSub>{}{}</m:sSub></m:fName>{}</m:func>",
            of("e", "log"),
            of("sub", "10"),
            of("e", "5")
        )),
        "is log_10 5.\n",
    );
    check(
        &math(&format!(
            "<m:d><m:dPr><m:begChr m:val='['/><m:endChr m:val=')'/></m:dPr>{}</m:d>",
            of("e", "a")
        )),
        "is [a).\n",
    );
    let fenced = |properties: &str| {
        math(&format!("<m:d><m:dPr>{properties}</m:dPr>{}{}</m:d>", of("e", "a"), of("e", "b")))
    };
    for (properties, shown) in [
        ("", "is (a | b).\n"),
        ("<m:sepChr m:val=','/>", "is (a, b).\n"),
        ("<m:begChr m:val='{'/><m:sepChr m:val=';'/><m:endChr m:val=''/>", "is {a; b.\n"),
        ("<m:begChr m:val=''/><m:endChr m:val='|'/><m:sepChr m:val=''/>", "is ab|.\n"),
        // No sign is the same as an empty one.
        ("<m:begChr/><m:endChr m:val=']'/><m:sepChr m:val='∣'/>", "is a ∣ b].\n"),
        (
            "<m:begChr m:val='⟨'/><m:endChr m:val='⟩'/><m:grow/><m:shp/><m:ctrlPr><w:rPr/></m:ctrlPr>",
            "is ⟨a | b⟩.\n",
        ),
    ] {
        check(&fenced(properties), shown);
    }
    // Brackets around rows replace those that rows have of their own.
    let rows = format!("<m:e><m:m><m:mr>{0}{0}</m:mr><m:mr>{0}{0}</m:mr></m:m></m:e>", of("e", "a"));
    check(&math(&format!("<m:d>{rows}</m:d>")), "is (a, a; a, a).\n");
    check(&math(&rows), "is [a, a; a, a].\n");
    let cases = format!("<m:e><m:eqArr>{}{}</m:eqArr></m:e>", of("e", "a"), of("e", "b"));
    check(
        &math(&format!("<m:d><m:dPr><m:begChr m:val='{{'/><m:endChr m:val=''/></m:dPr>{cases}</m:d>")),
        "is {a; b.\n",
    );
    check(
        &math(&format!("<m:sSup><m:e><m:d>{}</m:d></m:e>{}</m:sSup>", of("e", "a+b"), of("sup", "2"))),
        "is (a+b)^2.\n",
    );
}

/// Indentation says what belongs to what.
#[test]
fn listings_keep_their_spaces() {
    let styles = "<w:styles><w:style w:type='paragraph' w:styleId='SC'><w:name w:val='Source Code'/></w:style>\
        <w:style w:type='paragraph' w:styleId='own'><w:basedOn w:val='SC'/></w:style>\
        <w:style w:type='character' w:styleId='VC'><w:name w:val='Verbatim Char'/></w:style></w:styles>";
    let lines = |style: &str, lines: &[&str]| {
        let lines = lines.join("</w:t><w:br/><w:t xml:space='preserve'>");
        paragraph(&format!("<w:pStyle w:val='{style}'/>"), &lines)
    };
    let body = [
        paragraph("", "Settings:"),
        lines("SC", &["a:", "  b:", "    - c:   1", "      d: 2"]),
        lines("own", &["e:"]),
        lines("own", &["  f:  3"]),
        format!(
            "<w:p>{}{}{}</w:p>",
            run("", "see  "),
            run("<w:rStyle w:val='VC'/>", "x  y"),
            run("", "  here")
        ),
        format!(
            "<w:p>{}<w:r><w:rPr><w:rFonts w:ascii='Courier New'/></w:rPr><w:tab/><w:t>z</w:t></w:r></w:p>",
            run("<w:rFonts w:ascii='Consolas'/>", "if:")
        ),
    ];
    assert_eq!(
        docx(&body.concat(), &[("word/styles.xml", styles)]).text,
        "Settings:\n\na:\n  b:\n    - c:   1\n      d: 2\ne:\n  f:  3\n\nsee x  y here\n\nif:\tz\n"
    );
}

const NUMBERING: &str = "word/numbering.xml";

/// Lists: each a pattern of levels `(format, text)` from its number on.
fn numbering(levels: &[(&str, &str)], more: &str) -> String {
    let levels: String = levels
        .iter()
        .enumerate()
        .map(|(i, (format, text))| {
            format!("<w:lvl w:ilvl='{i}'><w:start w:val='1'/><w:numFmt w:val='{format}'/><w:lvlText w:val='{text}'/></w:lvl>")
        })
        .collect();
    format!(
        "<w:numbering><w:abstractNum w:abstractNumId='7'>{levels}</w:abstractNum><w:num w:numId='1'><w:abstractNumId w:val='7'/></w:num>{more}</w:numbering>"
    )
}

fn item(list: usize, level: usize, text: &str) -> String {
    paragraph(&format!("<w:numPr><w:ilvl w:val='{level}'/><w:numId w:val='{list}'/></w:numPr>"), text)
}

#[track_caller]
fn check_numbers(numbering: &str, items: &[(usize, usize)], wanted: &str) {
    let body: String = items.iter().map(|(list, level)| item(*list, *level, "x")).collect();
    let written = docx(&body, &[(NUMBERING, numbering)]).text;
    let marks: Vec<_> = written.lines().map(|line| line.trim().trim_end_matches('x').trim()).collect();
    assert_eq!(marks.join(" "), wanted, "{numbering}");
}

#[test]
fn numbers_of_lists_are_counted() {
    let legal = [("decimal", "%1."), ("decimal", "%1.%2"), ("lowerLetter", "(%3)")];
    let plain = numbering(&legal, "");
    check_numbers(
        &plain,
        &[(1, 0), (1, 1), (1, 1), (1, 0), (1, 1), (1, 2), (1, 2), (1, 1)],
        "1. 1.1 1.2 2. 2.1 (a) (b) 2.2",
    );
    check_numbers(&plain, &[(1, 1), (1, 1)], "1.1 1.2");
    for (format, wanted) in [
        ("upperRoman", "I. II."),
        ("decimalZero", "01. 02."),
        ("ordinal", "1st. 2nd."),
        ("bullet", "- -"),
        ("unheard", "1. 2."),
    ] {
        check_numbers(&numbering(&[(format, "%1.")], ""), &[(1, 0), (1, 0)], wanted);
    }
    // Lists of one pattern count on; one with a start of its own begins anew, once.
    let two = "<w:num w:numId='2'><w:abstractNumId w:val='7'/></w:num>\
        <w:num w:numId='3'><w:abstractNumId w:val='7'/><w:lvlOverride w:ilvl='0'><w:startOverride w:val='5'/></w:lvlOverride></w:num>";
    check_numbers(&numbering(&legal, two), &[(1, 0), (2, 0), (3, 0), (3, 0), (1, 0)], "1. 2. 5. 6. 7.");
    let other = "<w:num w:numId='2'><w:abstractNumId w:val='7'/><w:lvlOverride w:ilvl='0'><w:lvl w:ilvl='0'><w:start w:val='3'/><w:numFmt w:val='upperLetter'/><w:lvlText w:val='%1)'/></w:lvl></w:lvlOverride></w:num>";
    check_numbers(&numbering(&legal, other), &[(2, 0), (2, 0)], "C) D)");
    // All numbers in digits, a level that never begins anew, one that begins anew after the first level only.
    let level = |i: usize, format: &str, text: &str, more: &str| {
        format!(
            "<w:lvl w:ilvl='{i}'><w:start w:val='1'/><w:numFmt w:val='{format}'/>{more}<w:lvlText w:val='{text}'/></w:lvl>"
        )
    };
    let own = |levels: &[String]| {
        format!(
            "<w:numbering><w:abstractNum w:abstractNumId='0'>{}</w:abstractNum><w:num w:numId='1'><w:abstractNumId w:val='0'/></w:num></w:numbering>",
            levels.concat()
        )
    };
    check_numbers(
        &own(&[level(0, "upperRoman", "%1", ""), level(1, "decimal", "%1.%2", "<w:isLgl/>")]),
        &[(1, 0), (1, 1)],
        "I 1.1",
    );
    check_numbers(
        &own(&[level(0, "decimal", "%1", ""), level(1, "decimal", "Q%2", "<w:lvlRestart w:val='0'/>")]),
        &[(1, 0), (1, 1), (1, 0), (1, 1)],
        "1 Q1 2 Q2",
    );
    check_numbers(
        &own(&[
            level(0, "decimal", "%1", ""),
            level(1, "decimal", "%2", ""),
            level(2, "lowerLetter", "%3", "<w:lvlRestart w:val='1'/>"),
        ]),
        &[(1, 0), (1, 1), (1, 2), (1, 1), (1, 2), (1, 0), (1, 2)],
        "1 1 a 2 b 2 a",
    );
}

#[test]
fn numbers_follow_from_styles() {
    let styles = "<w:styles>\
        <w:style w:styleId='H1'><w:name w:val='heading 1'/><w:pPr><w:numPr><w:numId w:val='1'/></w:numPr></w:pPr></w:style>\
        <w:style w:styleId='H2'><w:name w:val='heading 2'/><w:pPr><w:numPr><w:ilvl w:val='1'/><w:numId w:val='1'/></w:numPr></w:pPr></w:style>\
        <w:style w:styleId='Clause'><w:pPr><w:numPr><w:numId w:val='1'/></w:numPr></w:pPr></w:style>\
        <w:style w:type='numbering' w:styleId='Linked'><w:pPr><w:numPr><w:numId w:val='1'/></w:numPr></w:pPr></w:style></w:styles>";
    let levels = "<w:lvl w:ilvl='0'><w:start w:val='1'/><w:numFmt w:val='decimal'/><w:lvlText w:val='Article %1.'/></w:lvl>\
        <w:lvl w:ilvl='1'><w:start w:val='1'/><w:numFmt w:val='decimal'/><w:lvlText w:val='%1.%2'/></w:lvl>\
        <w:lvl w:ilvl='2'><w:start w:val='1'/><w:numFmt w:val='lowerLetter'/><w:pStyle w:val='Clause'/><w:lvlText w:val='%3)'/></w:lvl>";
    let numbering = format!(
        "<w:numbering><w:abstractNum w:abstractNumId='0'>{levels}</w:abstractNum><w:abstractNum w:abstractNumId='1'><w:numStyleLink w:val='Linked'/></w:abstractNum>\
         <w:num w:numId='1'><w:abstractNumId w:val='0'/></w:num><w:num w:numId='2'><w:abstractNumId w:val='1'/></w:num></w:numbering>"
    );
    let of =
        |style: &str, more: &str, text: &str| paragraph(&format!("<w:pStyle w:val='{style}'/>{more}"), text);
    let body = of("H1", "", "Rent")
        + &of("H2", "", "Late payment")
        + &of("Clause", "", "costs 40 euros")
        + &of("H2", "<w:numPr><w:numId w:val='0'/></w:numPr>", "Not counted")
        + &of("H2", "", "Interest")
        + &item(2, 0, "linked");
    assert_eq!(
        docx(&body, &[("word/styles.xml", styles), (NUMBERING, &numbering)]).text,
        "# Article 1. Rent\n\n## 1.1 Late payment\n    a) costs 40 euros\n\n## Not counted\n\n## 1.2 Interest\nArticle 2. linked\n"
    );
    // What a paragraph was before a tracked change does not count.
    let changed = paragraph(
        "<w:pPrChange><w:pPr><w:numPr><w:ilvl w:val='0'/><w:numId w:val='1'/></w:numPr></w:pPr></w:pPrChange>",
        "plain",
    );
    assert_eq!(docx(&changed, &[(NUMBERING, &numbering)]).text, "plain\n");
}

#[test]
fn symbols_and_boxes_are_what_they_show() {
    let sym = |font: &str, number: &str| format!("<w:r><w:sym w:font='{font}' w:char='{number}'/></w:r>");
    let text = |text: &str| run("", text);
    check(
        &format!(
            "<w:p>{}{}</w:p><w:p>{}{}</w:p>",
            sym("Wingdings", "F0FE"),
            text(" Alarm"),
            sym("Wingdings", "F0A8"),
            text(" Lift")
        ),
        "☒ Alarm\n\n☐ Lift\n",
    );
    check(
        &format!("<w:p>{}{}{}</w:p>", sym("Symbol", "F061"), text(" x "), sym("Symbol", "F0A3")),
        "α x ≤\n",
    );
    check(&format!("<w:p>{}</w:p>", run("<w:rFonts w:ascii='Symbol'/>", "b &#xF0B3; 5")), "β ≥ 5\n");
    check_note(&format!("<w:p>{}</w:p>", sym("Unheard", "F012")), "\u{fffd}\n", "1 unknown character");
    let sdt = |checked: &str| {
        format!(
            "<w:sdt><w:sdtPr><w14:checkbox><w14:checked w14:val='{checked}'/></w14:checkbox></w:sdtPr><w:sdtContent><w:r><w:t>?</w:t></w:r></w:sdtContent></w:sdt>"
        )
    };
    check(
        &format!("<w:p>{}{}</w:p><w:p>{}{}</w:p>", sdt("1"), text(" yes"), sdt("0"), text(" no")),
        "☒ yes\n\n☐ no\n",
    );
    // A control around paragraphs, cells or rows.
    let around = |checked: &str, content: &str| sdt(checked).replace("<w:r><w:t>?</w:t></w:r>", content);
    check(&around("1", &paragraph("", "?")), "☒\n");
    check(
        &around("0", &format!("{}{}", paragraph("", "☐ Lift"), paragraph("", "and more"))),
        "☐ Lift\n\nand more\n",
    );
    check(&format!("{}{}", around("1", &paragraph("", "☐")), paragraph("", "Alarm")), "☒\n\nAlarm\n");
    check(
        &format!(
            "<w:tbl><w:tr>{}{}</w:tr><w:tr>{}{}</w:tr></w:tbl>",
            around("1", &cell("", "?")),
            cell("", "Alarm"),
            around("0", &cell("", "?")),
            cell("", "Lift")
        ),
        "☒ | Alarm\n☐ | Lift\n",
    );
    check(&around("1", &paragraph("", "")), "☒\n");
    let field = |data: &str, instruction: &str| {
        format!(
            "<w:r><w:fldChar w:fldCharType='begin'>{data}</w:fldChar></w:r><w:r><w:instrText>{instruction}</w:instrText></w:r><w:r><w:fldChar w:fldCharType='end'/></w:r>"
        )
    };
    let check_box = |inner: &str| {
        field(&format!("<w:ffData><w:checkBox><w:sizeAuto/>{inner}</w:checkBox></w:ffData>"), "FORMCHECKBOX")
    };
    check(
        &format!(
            "<w:p>{}{}{}</w:p>",
            check_box("<w:default w:val='1'/>"),
            check_box("<w:default w:val='1'/><w:checked w:val='0'/>"),
            check_box("<w:default w:val='0'/><w:checked/>")
        ),
        "☒☐☒\n",
    );
    let list = "<w:ffData><w:ddList><w:result w:val='1'/><w:listEntry w:val='red'/><w:listEntry w:val='blue'/></w:ddList></w:ffData>";
    check(&format!("<w:p>{}</w:p>", field(list, "FORMDROPDOWN")), "blue\n");
    check(&format!("<w:p>{}</w:p>", field("", r"SYMBOL 254 \f Wingdings")), "☒\n");
    check(&format!("<w:p>{}{}</w:p>", text("half is "), field("", r"EQ \f(1,2)")), "half is 1/2\n");
    // The result of an equation may be empty.
    let result = |text: &str| {
        field("", r"EQ \f(1,2)").replace(
            "<w:r><w:fldChar w:fldCharType='end'/>",
            &format!("<w:r><w:fldChar w:fldCharType='separate'/></w:r><w:r><w:t>{text}</w:t></w:r><w:r><w:fldChar w:fldCharType='end'/>"),
        )
    };
    check(&format!("<w:p>{}{}{}</w:p>", text("half is "), result(""), result("½")), "half is 1/2½\n");
    let simple = |instruction: &str, result: &str| {
        format!("<w:fldSimple w:instr='{instruction}'>{result}</w:fldSimple>")
    };
    check(
        &format!(
            "<w:p>{}{}{}</w:p>",
            simple(r"EQ \f(1,2)", ""),
            simple(" DATE ", &text(" today ")),
            simple(r"SYMBOL 254 \f Wingdings", "")
        ),
        "1/2 today ☒\n",
    );
    // An instruction may have fields of its own; only the result is shown.
    check(
        "<w:p><w:fldChar w:fldCharType='begin'/><w:instrText>IF </w:instrText><w:fldChar w:fldCharType='begin'/><w:instrText>X</w:instrText>\
         <w:fldChar w:fldCharType='separate'/><w:t>no</w:t><w:fldChar w:fldCharType='end'/><w:fldChar w:fldCharType='separate'/><w:t>yes</w:t><w:fldChar w:fldCharType='end'/></w:p>",
        "yes\n",
    );
    let numbering = numbering(&[("bullet", "&#xF0A8;")], "")
        .replace("<w:lvlText", "<w:rPr><w:rFonts w:ascii='Wingdings'/></w:rPr><w:lvlText");
    assert_eq!(docx(&item(1, 0, "Lift"), &[(NUMBERING, &numbering)]).text, "☐ Lift\n");
}

#[test]
fn deleted_and_hidden_text_is_left_out_and_counted() {
    check_note(
        "<w:p><w:t>kept</w:t><w:del><w:r><w:delText>x</w:delText></w:r></w:del><w:ins><w:t>!</w:t></w:ins></w:p>",
        "kept!\n",
        "text that is marked as deleted was left out in 1 place",
    );
    let hidden = "text that a reader does not see was left out in 1 place";
    for properties in ["<w:vanish/>", "<w:color w:val='FFFFFF'/>", "<w:sz w:val='2'/>"] {
        check_note(
            &format!("<w:p>{}{}{}</w:p>", run("", "a "), run(properties, "no"), run("", "b")),
            "a b\n",
            hidden,
        );
    }
    check(&format!("<w:p>{}</w:p>", run("<w:vanish w:val='0'/>", "a")), "a\n");
    check(&format!("<w:p>{}</w:p>", run("<w:color w:val='FFFFFF'/><w:shd w:fill='000080'/>", "a")), "a\n");
    check(
        &format!(
            "<w:p>{}{}{}</w:p>",
            run("<w:strike/>", "80 "),
            run("<w:dstrike/>", "euros"),
            run("", " 90")
        ),
        "~~80 euros~~ 90\n",
    );
}

#[test]
fn notes_comments_headers_and_pictures_are_told() {
    let relations = "<Relationships>\
        <Relationship Id='h1' Type='x/header' Target='header1.xml'/><Relationship Id='h2' Type='x/header' Target='header2.xml'/>\
        <Relationship Id='f1' Type='x/footer' Target='footer1.xml'/></Relationships>";
    let header = "<w:hdr><w:p><w:r><w:t>ACME Ltd, secret</w:t></w:r></w:p></w:hdr>";
    let footer = "<w:ftr><w:p><w:r><w:t>Page </w:t></w:r><w:fldSimple w:instr=' PAGE '><w:r><w:t>1</w:t></w:r></w:fldSimple></w:p></w:ftr>";
    let notes_part = "<w:footnotes><w:footnote w:type='separator' w:id='-1'><w:p><w:t>no</w:t></w:p></w:footnote>\
        <w:footnote w:id='20'><w:p><w:r><w:t>second</w:t></w:r></w:p></w:footnote><w:footnote w:id='31'><w:p><w:r><w:t>first</w:t></w:r></w:p></w:footnote></w:footnotes>";
    let comments = "<w:comments><w:comment w:id='5' w:author='Ann'><w:p><w:r><w:t>Really?</w:t></w:r></w:p></w:comment></w:comments>";
    let body = "<w:p><w:r><w:t>One</w:t></w:r><w:r><w:footnoteReference w:id='31'/></w:r><w:r><w:t> two</w:t></w:r><w:r><w:footnoteReference w:id='20'/></w:r>\
        <w:r><w:commentReference w:id='5'/></w:r></w:p><w:p><w:drawing><wp:docPr descr='A boat'/><a:blip/></w:drawing><w:drawing><wp:docPr name='x'/><a:blip/></w:drawing></w:p>\
        <w:sectPr><w:headerReference w:type='first' r:id='h1'/><w:headerReference w:type='default' r:id='h2'/><w:footerReference r:id='f1'/></w:sectPr>";
    let document = docx(
        body,
        &[
            ("word/_rels/document.xml.rels", relations),
            ("word/header1.xml", header),
            ("word/header2.xml", header),
            ("word/footer1.xml", footer),
            ("word/footnotes.xml", notes_part),
            ("word/comments.xml", comments),
        ],
    );
    assert_eq!(
        document.text,
        "[page header]\nACME Ltd, secret\n\nOne[^1] two[^2][^c1]\n\n[image: A boat]\n\n[^1]: first\n\n[^2]: second\n\n[^c1]: Ann comments: Really?\n"
    );
    assert_eq!(notes(&document), "1 picture without text");
}

#[test]
fn headers_of_pages_that_are_not_there_are_left_out() {
    let relations: String = ["first", "even", "default"]
        .map(|kind| format!("<Relationship Id='{kind}' Type='x/header' Target='{kind}.xml'/>"))
        .concat();
    let relations = format!("<Relationships>{relations}</Relationships>");
    let header = |text: &str| format!("<w:hdr><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:hdr>");
    let read = |section: &str, settings: &str| {
        let references = ["first", "even", "default"]
            .map(|kind| format!("<w:headerReference w:type='{kind}' r:id='{kind}'/>"))
            .concat();
        let body = format!("<w:p><w:r><w:t>Text</w:t></w:r></w:p><w:sectPr>{references}{section}</w:sectPr>");
        docx(
            &body,
            &[
                ("word/_rels/document.xml.rels", &relations),
                ("word/settings.xml", &format!("<w:settings>{settings}</w:settings>")),
                ("word/first.xml", &header("old draft")),
                ("word/even.xml", &header("old offer")),
                ("word/default.xml", &header("Offer 2024-17")),
            ],
        )
        .text
    };
    assert_eq!(read("", ""), "[page header]\nOffer 2024-17\n\nText\n");
    assert_eq!(
        read("<w:titlePg/>", ""),
        "[page header]\nold draft\n\n[page header]\nOffer 2024-17\n\nText\n"
    );
    let middle = "<w:pgSz/></w:sectPr><w:p><w:pPr><w:sectPr><w:titlePg/></w:sectPr></w:pPr></w:p><w:sectPr>";
    assert_eq!(read(middle, ""), "[page header]\nold draft\n\n[page header]\nOffer 2024-17\n\nText\n");
    assert_eq!(
        read("<w:titlePg w:val='0'/>", "<w:evenAndOddHeaders/>"),
        "[page header]\nold offer\n\n[page header]\nOffer 2024-17\n\nText\n"
    );
}

#[test]
fn a_paragraph_whose_end_is_deleted_goes_on() {
    let list = "<w:numPr><w:ilvl w:val='0'/><w:numId w:val='1'/></w:numPr>";
    let paragraph = |deleted: &str, text: &str| {
        format!("<w:p><w:pPr>{list}<w:rPr>{deleted}</w:rPr></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>")
    };
    let numbering = "<w:numbering><w:abstractNum w:abstractNumId='0'><w:lvl w:ilvl='0'><w:start w:val='1'/>\
        <w:numFmt w:val='decimal'/><w:lvlText w:val='%1.'/></w:lvl></w:abstractNum><w:num w:numId='1'><w:abstractNumId w:val='0'/></w:num></w:numbering>";
    let read = |body: &[String]| docx(&body.concat(), &[("word/numbering.xml", numbering)]).text;
    let gone = "<w:del w:id='1'/>";
    let empty = || "<w:p></w:p>".to_owned();
    let last = || paragraph("", "all");
    assert_eq!(
        read(&[paragraph(gone, "Total is 10"), paragraph("", "0 EUR"), last()]),
        "1. Total is 100 EUR\n2. all\n"
    );
    assert_eq!(read(&[paragraph(gone, "a"), paragraph(gone, "b"), empty(), last()]), "1. ab\n2. all\n");
    let cell =
        format!("<w:tbl><w:tr><w:tc>{}</w:tc><w:tc>{}</w:tc></w:tr></w:tbl>", paragraph(gone, "a"), empty());
    assert_eq!(read(&[paragraph(gone, "x"), cell]), "1. x\n\n2. a\n");
}

#[test]
fn fields_that_only_keep_a_text_show_nothing() {
    let field = |instruction: &str| {
        format!(
            "<w:r><w:fldChar w:fldCharType='begin'/></w:r><w:r><w:instrText>{instruction}</w:instrText></w:r>\
             <w:r><w:fldChar w:fldCharType='separate'/></w:r><w:r><w:t>250</w:t></w:r><w:r><w:fldChar w:fldCharType='end'/></w:r>"
        )
    };
    let body =
        format!("<w:p>{}{}<w:r><w:t> EUR</w:t></w:r></w:p>", field(" SET rent \"250\" "), field(" rent "));
    assert_eq!(docx(&body, &[]).text, "250 EUR\n");
    let rtf =
        r"{\rtf1 {\field{\*\fldinst set rent 250}{\fldrslt 250}}{\field{\*\fldinst rent}{\fldrslt 250}} EUR}";
    assert_eq!(crate::parts::read("a.rtf", rtf.as_bytes()).text, "250 EUR\n");
}

#[test]
fn headers_without_words_are_kept_unless_they_are_numbers_of_pages() {
    let field = |name: &str| format!("<w:fldSimple w:instr=' {name} '><w:r><w:t>3</w:t></w:r></w:fldSimple>");
    for (header, kept) in [
        ("<w:r><w:t>4711-0815-22</w:t></w:r>".to_owned(), Some("4711-0815-22")),
        ("<w:r><w:t>12.03.2024</w:t></w:r>".to_owned(), Some("12.03.2024")),
        (format!("<w:r><w:t>ACME </w:t></w:r>{}", field("PAGE")), Some("ACME 3")),
        (field("PAGE"), None),
        (format!("<w:r><w:t>Page </w:t></w:r>{}/{}", field("PAGE"), field("NUMPAGES")), None),
    ] {
        let header = format!("<w:hdr><w:p>{header}</w:p></w:hdr>");
        let document = docx(
            "<w:p><w:r><w:t>text</w:t></w:r></w:p><w:sectPr><w:headerReference r:id='h'/></w:sectPr>",
            &[
                (
                    "word/_rels/document.xml.rels",
                    "<Relationships><Relationship Id='h' Type='x/header' Target='h.xml'/></Relationships>",
                ),
                ("word/h.xml", &header),
            ],
        );
        let wanted = kept.map_or(String::new(), |kept| format!("[page header]\n{kept}\n\n"));
        assert_eq!(document.text, format!("{wanted}text\n"), "{header}");
    }
}

#[test]
fn hostile_documents_end() {
    let ring = "<w:numbering><w:abstractNum w:abstractNumId='0'><w:numStyleLink w:val='S'/></w:abstractNum><w:num w:numId='1'><w:abstractNumId w:val='0'/></w:num></w:numbering>";
    let styles = "<w:styles><w:style w:styleId='S'><w:basedOn w:val='S'/><w:pPr><w:numPr><w:numId w:val='1'/></w:numPr></w:pPr></w:style></w:styles>";
    assert_eq!(docx(&item(1, 0, "x"), &[(NUMBERING, ring), ("word/styles.xml", styles)]).text, "x\n");
    let deep = "<w:tbl><w:tr><w:tc><w:p><w:sdt><w:sdtContent><w:r><m:oMath><m:f>".repeat(20_000);
    let document = format!("{deep}<m:t>x</m:t>");
    let _ =
        documents::read_bytes("deep.docx", &archive(&[(DOCUMENT, &document)]), &documents::Limits::default());
}

#[test]
fn documents_in_a_document_are_read_where_they_stand() {
    let body = format!(
        "{}<w:altChunk r:id='c'/><w:altChunk r:id='d'><w:altChunkPr/></w:altChunk>{}",
        paragraph("", "before"),
        paragraph("", "after")
    );
    let relations = "<Relationships><Relationship Id='c' Type='x/aFChunk' Target='/word/chunk.html'/>\
        <Relationship Id='d' Type='x/aFChunk' Target='more.docx'/></Relationships>";
    let inner =
        archive(&[(DOCUMENT, "<w:document><w:p><w:t>inner</w:t></w:p><w:del><w:p/></w:del></w:document>")]);
    let document = format!("<w:document>{body}</w:document>");
    let with = |chunk: &[u8]| {
        crate::parts::archive_of_bytes(&[
            (DOCUMENT, document.as_bytes()),
            ("word/_rels/document.xml.rels", relations.as_bytes()),
            ("word/chunk.html", b"<html><h1>Rent</h1><p>900 <s>80</s><p hidden>no</p>"),
            ("word/more.docx", chunk),
        ])
    };
    let document = read("a.docx", &with(&inner));
    assert_eq!(document.text, "before\n\n# Rent\n\n900 ~~80~~\n\ninner\n\nafter\n");
    assert_eq!(
        notes(&document),
        "text that a reader does not see was left out in 1 place; text that is marked as deleted was left out in 1 place"
    );
    assert_eq!(document.outline.parts(&document.text).iter().filter(|part| part.level.is_some()).count(), 1);
    // What cannot be read is said, and what contains itself ends.
    let document = read("a.docx", &with(b"\x7fELF\0\0\0\0"));
    assert_eq!(document.text, "before\n\n# Rent\n\n900 ~~80~~\n\nafter\n");
    assert!(notes(&document).contains("1 file in it left out: word/more.docx"), "{}", notes(&document));
    let mut nested = inner;
    for _ in 0..8 {
        nested = with(&nested);
    }
    let document = read("a.docx", &nested);
    let said = notes(&document);
    assert!(document.text.matches("before").count() > 1, "{}", document.text);
    assert!(said.ends_with("2 files in it left out: word/chunk.html, word/more.docx"), "{said}");
}

/// The text of a diagram is a list, as deep as its parts are within each other.
#[test]
fn diagrams_are_lists() {
    let data = "<dgm:dataModel><dgm:ptLst><dgm:pt modelId='0' type='doc'/>\
        <dgm:pt modelId='3'><dgm:t><a:p><a:r><a:t>Sell</a:t></a:r></a:p></dgm:t></dgm:pt>\
        <dgm:pt modelId='1'><dgm:t><a:p><a:r><a:t>Plan </a:t></a:r><a:r><a:t>it</a:t></a:r></a:p></dgm:t></dgm:pt>\
        <dgm:pt modelId='2'><dgm:t><a:p><a:r><a:t>Ask</a:t></a:r></a:p><a:p><a:r><a:t>twice</a:t></a:r></a:p></dgm:t></dgm:pt>\
        <dgm:pt modelId='9' type='pres'/></dgm:ptLst>\
        <dgm:cxnLst><dgm:cxn modelId='7' srcId='0' destId='3' srcOrd='1'/><dgm:cxn modelId='6' srcId='0' destId='1' srcOrd='0'/>\
        <dgm:cxn modelId='8' srcId='1' destId='2' srcOrd='0'/><dgm:cxn type='presOf' srcId='3' destId='9'/><dgm:cxn srcId='2' destId='1'/></dgm:cxnLst></dgm:dataModel>";
    let relation =
        "<Relationships><Relationship Id='d' Type='x/diagramData' Target='data1.xml'/></Relationships>";
    let frame = "<a:graphicData><dgm:relIds r:dm='d' r:lo='l'/></a:graphicData>";
    let list = "- Plan it\n  - Ask twice\n- Sell\n";
    let text = docx(
        &format!(
            "<w:p><w:r><w:t>Steps:</w:t></w:r><w:r><w:drawing>{frame}</w:drawing></w:r></w:p>{}",
            paragraph("", "after")
        ),
        &[("word/_rels/document.xml.rels", relation), ("word/data1.xml", data)],
    );
    assert_eq!(
        (text.text.as_str(), notes(&text).as_str()),
        (format!("Steps:\n\n{list}\nafter\n").as_str(), "")
    );
    // One that is missing is a picture.
    let text = docx(&format!("<w:p><w:r><w:t>x</w:t><w:drawing>{frame}</w:drawing></w:r></w:p>"), &[]);
    assert_eq!((text.text.as_str(), notes(&text).as_str()), ("x\n", "1 picture without text"));
    let slide = format!(
        "<p:sld><p:sp><a:p><a:r><a:t>Steps:</a:t></a:r></a:p></p:sp><p:graphicFrame>{frame}</p:graphicFrame></p:sld>"
    );
    let slides = archive(&[
        ("ppt/presentation.xml", "<p:presentation><p:sldId r:id='r'/></p:presentation>"),
        (
            "ppt/_rels/presentation.xml.rels",
            "<Relationships><Relationship Id='r' Type='x/slide' Target='a.xml'/></Relationships>",
        ),
        ("ppt/a.xml", &slide),
        ("ppt/_rels/a.xml.rels", relation),
        ("ppt/data1.xml", data),
    ]);
    assert_eq!(read("a.pptx", &slides).text, format!("# Slide 1\n\nSteps:\n\n{list}"));
    let sheet = archive(&[
        ("xl/workbook.xml", "<workbook><sheet name='a' r:id='r'/></workbook>"),
        (
            "xl/_rels/workbook.xml.rels",
            "<Relationships><Relationship Id='r' Type='x/worksheet' Target='a.xml'/></Relationships>",
        ),
        (
            "xl/a.xml",
            "<worksheet><sheetData><row><c t='str'><v>x</v></c></row></sheetData><drawing r:id='d'/></worksheet>",
        ),
        (
            "xl/_rels/a.xml.rels",
            "<Relationships><Relationship Id='d' Type='x/drawing' Target='b.xml'/></Relationships>",
        ),
        ("xl/b.xml", &format!("<xdr:wsDr>{frame}</xdr:wsDr>")),
        ("xl/_rels/b.xml.rels", relation),
        ("xl/data1.xml", data),
    ]);
    let text = read("a.xlsx", &sheet).text;
    assert!(text.ends_with(&format!("x\n\n{list}")), "{text}");
}
