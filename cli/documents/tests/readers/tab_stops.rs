//! Tables that are made with tabs: each value stands under its header, and elsewhere a tab is a space.

use crate::formats::{check, odf, pptx};
use crate::parts::archive;

/// The tab stops of a paragraph of Word, as `align place`.
fn stops(stops: &[(&str, u32)]) -> String {
    let stops: String =
        stops.iter().map(|(align, place)| format!("<w:tab w:val='{align}' w:pos='{place}'/>")).collect();
    format!("<w:tabs>{stops}</w:tabs>")
}

/// Paragraphs of Word with tabs, each with its properties.
fn docx(paragraphs: &[(&str, &str)]) -> Vec<u8> {
    let paragraph = |(properties, text): &(&str, &str)| {
        let text = text.replace('\t', "</w:t><w:tab/><w:t>").replace('\n', "</w:t><w:br/><w:t>");
        format!("<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>")
    };
    let body: String = paragraphs.iter().map(paragraph).collect();
    let styles = "<w:styles><w:style w:styleId='far'><w:name w:val='Far'/><w:pPr><w:tabs><w:tab w:val='left' w:pos='9000'/></w:tabs></w:pPr></w:style></w:styles>";
    archive(&[
        ("word/document.xml", &format!("<w:document><w:body>{body}</w:body></w:document>")),
        ("word/styles.xml", styles),
    ])
}

#[track_caller]
fn check_docx(paragraphs: &[(&str, &str)], wanted: &str) {
    check("a.docx", &docx(paragraphs), wanted, "");
}

#[test]
fn values_between_tabs_stand_under_their_header() {
    let three = stops(&[("left", 2000), ("right", 4000), ("decimal", 6000)]);
    check_docx(
        &[
            ("", "Costs"),
            (&three, "Item\tJan\tFeb\tMar"),
            (&three, "Rent\t\t\t900"),
            (&three, "Heating\t70\t\t80"),
            (&three, "\t5\t"),
            (&three, "a|b\t\t6"),
            ("", "End"),
        ],
        "Costs\n\nItem | Jan | Feb | Mar\nRent | | | 900\nHeating | 70 | | 80\n| 5\na\\|b | | 6\n\nEnd\n",
    );
    // Lines of one paragraph.
    check_docx(&[(&three, "A\tB\tC\n1\t\t3")], "A | B | C\n1 | | 3\n");
}

#[test]
fn where_a_tab_leads_to_tells_the_column() {
    let three = stops(&[("left", 2000), ("left", 4000), ("left", 6000)]);
    let last = stops(&[("left", 6000)]);
    check_docx(
        &[(&three, "Name\tQ1\tQ2\tQ3"), (&last, "Bob\t7"), (&three, "Ann\t\t8")],
        "Name | Q1 | Q2 | Q3\nBob | | | 7\nAnn | | 8\n",
    );
    // A long text reaches over the first stop, as the author sees.
    check_docx(
        &[(&three, "Name\t\tQ1\tQ2"), (&three, "Somebody with a long name\t7\t8")],
        "Name | Q1 | Q2\nSomebody with a long name | 7 | 8\n",
    );
    // Stops of values may be beside those of their names.
    let centered = stops(&[("center", 2100), ("center", 4100), ("center", 6100)]);
    check_docx(&[(&centered, "Name\tQ1\tQ2\tQ3"), (&three, "Bob\t\t7")], "Name | Q1 | Q2 | Q3\nBob | | 7\n");
    // Those of the style count, unless the paragraph takes them away.
    let far = "<w:pStyle w:val='far'/>";
    let cleared = format!("{far}{}", stops(&[("clear", 9000), ("left", 4000)]));
    check_docx(
        &[(&three, "Name\tQ1\tQ2\tQ3"), (far, "Bob\t7"), (&cleared, "Eve\t8")],
        "Name | Q1 | Q2 | Q3\nBob | | | | 7\nEve | | 8\n",
    );
    // Without stops of their own they are half an inch apart.
    check_docx(&[("", "A\tB\tC\tD"), ("", "1\t\t\t4"), ("", "\t2")], "A | B | C | D\n1 | | | 4\n| 2\n");
}

#[test]
fn elsewhere_a_tab_is_a_space() {
    check_docx(
        &[("", "To:\tAnn"), ("", "From:\tBob"), ("", ""), ("", "\tIndented."), ("", "\tToo.")],
        "To: Ann\n\nFrom: Bob\n\nIndented.\n\nToo.\n",
    );
    check_docx(&[("", "one\tline\tof\tthem")], "one line of them\n");
    // Dots lead to the number of a page.
    let contents = "<w:tabs><w:tab w:val='left' w:pos='440'/><w:tab w:val='right' w:leader='dot' w:pos='9000'/></w:tabs>";
    check_docx(&[(contents, "1\tScope\t2"), (contents, "2\tTerms\t14")], "1 Scope 2\n\n2 Terms 14\n");
    let heading = "<w:outlineLvl w:val='0'/>";
    check_docx(
        &[(heading, "1\tScope\tnow"), (heading, "2\tTerms\tlater")],
        "# 1 Scope now\n\n# 2 Terms later\n",
    );
}

#[test]
fn other_formats_have_tab_stops_too() {
    let wanted = "Item | Jan | Feb\nRent | | 900\nWater | | 12\n";
    check(
        "a.rtf",
        br"{\rtf1\ansi\pard\tx2000\tqr\tx4000 Item\tab Jan\tab Feb\par Rent\tab\tab 900\par\pard\tqdec\tx4000 Water\tab 12\par}",
        wanted,
        "",
    );
    let style = |name: &str, stops: &[&str]| {
        let stops: String =
            stops.iter().map(|stop| format!("<style:tab-stop style:position='{stop}'/>")).collect();
        format!(
            "<style:style style:name='{name}'><style:paragraph-properties><style:tab-stops>{stops}</style:tab-stops></style:paragraph-properties></style:style>"
        )
    };
    let styles = style("two", &["1in", "50.8mm"]) + &style("last", &["144pt"]);
    let paragraph = |style: &str, text: &str| {
        format!("<text:p text:style-name='{style}'>{}</text:p>", text.replace('\t', "<text:tab/>"))
    };
    let body = paragraph("two", "Item\tJan\tFeb")
        + &paragraph("two", "Rent\t\t900")
        + &paragraph("last", "Water\t12");
    check("a.odt", &odf("text", &styles, &body), wanted, "");
    let stops = |places: &[u32]| {
        let stops: String = places.iter().map(|place| format!("<a:tab pos='{place}' algn='l'/>")).collect();
        format!("<a:pPr><a:tabLst>{stops}</a:tabLst></a:pPr>")
    };
    let line =
        |places: &[u32], text: &str| format!("<a:p>{}<a:r><a:t>{text}</a:t></a:r></a:p>", stops(places));
    let two = [1_270_000, 2_540_000];
    let text = line(&two, "Item\tJan\tFeb") + &line(&two, "Rent\t\t900") + &line(&two[1..], "Water\t12");
    let slide = format!("<p:sld><p:sp><p:txBody>{text}</p:txBody></p:sp></p:sld>");
    check("a.pptx", &pptx(&[&slide], &[]), &format!("# Slide 1\n\n{wanted}"), "");
}

#[test]
fn many_tabs_end() {
    let row = format!("<w:p>{}<w:t>x</w:t></w:p>", "<w:tab/>".repeat(1000));
    let row = row + &format!("<w:p>{}</w:p>", "<w:t>x</w:t><w:tab/>".repeat(1000));
    let document = format!("<w:document><w:body>{}</w:body></w:document>", row.repeat(50));
    let text = crate::parts::read("a.docx", &archive(&[("word/document.xml", &document)])).text;
    assert!(text.len() < 1 << 20, "{}", text.len());
    // Dots lead to the end of the text, wherever it is.
    let leader = "<w:tabs><w:tab w:val='right' w:leader='dot' w:pos='4294967295'/></w:tabs>";
    let text = crate::parts::read("a.docx", &docx(&[(leader, &"x\t".repeat(300_000))])).text;
    assert!(text.starts_with("x x x"));
    // Each line leads to another place.
    let row = |i: u32| (stops(&[("left", 500 * i)]), "x\ty".to_owned());
    let rows: Vec<_> = (1..2000).map(row).collect();
    let rows: Vec<_> = rows.iter().map(|(stops, text)| (stops.as_str(), text.as_str())).collect();
    let text = crate::parts::read("a.docx", &docx(&rows)).text;
    assert!(text.len() < 100_000, "{}", text.len());
}
