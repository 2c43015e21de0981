//! Lines with tabs: an empty column stays one, or a note says that columns are not certain. Elsewhere a tab is a space.

use crate::formats::{check, odf, pptx};
use crate::parts::{archive, notes, read};

/// The tab stops of a paragraph of Word.
fn stops(stops: &[(&str, u32)]) -> String {
    let stops: String =
        stops.iter().map(|(align, place)| format!("<w:tab w:val='{align}' w:pos='{place}'/>")).collect();
    format!("<w:tabs>{stops}</w:tabs>")
}

/// Paragraphs of Word with tabs, each with its properties.
fn docx(paragraphs: &[(&str, &str)]) -> Vec<u8> {
    docx_with("", paragraphs)
}

/// The same, in a document with these settings.
fn docx_with(settings: &str, paragraphs: &[(&str, &str)]) -> Vec<u8> {
    let paragraph = |(properties, text): &(&str, &str)| {
        let text = text.replace('\t', "</w:t><w:tab/><w:t>").replace('\n', "</w:t><w:br/><w:t>");
        format!("<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>")
    };
    let body: String = paragraphs.iter().map(paragraph).collect();
    let styles = "<w:styles><w:style w:styleId='far'><w:pPr><w:tabs><w:tab w:val='left' w:pos='9000'/></w:tabs></w:pPr></w:style>\
        <w:style w:styleId='indented'><w:pPr><w:ind w:left='2000'/></w:pPr></w:style></w:styles>";
    archive(&[
        ("word/document.xml", &format!("<w:document><w:body>{body}</w:body></w:document>")),
        ("word/styles.xml", styles),
        ("word/settings.xml", &format!("<w:settings>{settings}</w:settings>")),
    ])
}

#[track_caller]
fn check_docx(paragraphs: &[(&str, &str)], wanted: &str) {
    check("a.docx", &docx(paragraphs), wanted, "");
}

#[track_caller]
fn check_uncertain(paragraphs: &[(&str, &str)], rows: &str) {
    let document = read("a.docx", &docx(paragraphs));
    assert_eq!(notes(&document), format!("cells may be in other columns in {rows} of tables"));
    assert!(!document.text.contains('|'), "{}", document.text);
}

#[test]
fn values_between_tabs_stand_under_their_header() {
    let three = stops(&[("left", 2000), ("right", 4000), ("decimal", 6000)]);
    check_docx(
        &[
            ("", "Costs"),
            (&three, "Item\tJan\tFeb\tMar"),
            (&three, "Rent\t\t\t900"),
            (&three, "Heating\t70"),
            (&three, "\t5\t6"),
            (&three, "a|b\t\t6\tand a remark that is as long as it likes"),
            ("", "End"),
        ],
        "Costs\n\nItem | Jan | Feb | Mar\nRent | | | 900\nHeating | 70\n| 5 | 6\na\\|b | | 6 | and a remark that is as long as it likes\n\nEnd\n",
    );
    // Lines of one paragraph.
    check_docx(&[(&three, "A\tB\tC\n1\t\t3")], "A | B | C\n1 | | 3\n");
    // The first name is missing.
    check_docx(&[(&three, "\tJan\tFeb"), (&three, "Rent\t900\t800")], "| Jan | Feb\nRent | 900 | 800\n");
    // Without stops, as programs write it: each line has as many tabs.
    check_docx(&[("", "Item\tJan\tFeb"), ("", "Heating\t\t80")], "Item | Jan | Feb\nHeating | | 80\n");
    // A hanging indent is a stop, too; those of a style may be taken away.
    let hanging = "<w:ind w:left='2000' w:hanging='2000'/>".to_owned() + &stops(&[("left", 4000)]);
    check_docx(
        &[(&hanging, "Item\tJan\tFeb"), (&hanging, "Heating\t\t80")],
        "Item | Jan | Feb\nHeating | | 80\n",
    );
    // A style says the indentation, and the paragraph how far its first line hangs.
    let merged =
        "<w:pStyle w:val='indented'/><w:ind w:hanging='2000'/>".to_owned() + &stops(&[("left", 4000)]);
    check_docx(
        &[(&merged, "Item\tJan\tFeb"), (&merged, "Heating\t70"), (&merged, "Rent\t\t80")],
        "Item | Jan | Feb\nHeating | 70\nRent | | 80\n",
    );
    let cleared =
        "<w:pStyle w:val='far'/>".to_owned() + &stops(&[("clear", 9000), ("left", 3000), ("left", 6000)]);
    check_docx(
        &[(&cleared, "Item\tJan\tFeb"), (&cleared, "Heating\t\t80")],
        "Item | Jan | Feb\nHeating | | 80\n",
    );
}

#[test]
fn documents_say_how_far_apart_their_stops_are() {
    let wide = "Costs | Jan | Feb\nHeating costs | 7\nRent | | 80\n";
    let lines = ["Costs\tJan\tFeb", "Heating costs\t7", "Rent\t\t80"];
    let close = "cells may be in other columns in 1 row of tables";
    // Two centimetres and more take long texts; half a centimetre does not take short ones.
    let plain = "Costs Jan Feb\n\nHeating costs 7\n\nRent 80\n";
    for (distance, wanted, note) in
        [("2000", wide, ""), ("300", plain, close), ("0", plain, close), ("9999999", plain, close)]
    {
        let setting = format!("<w:defaultTabStop w:val='{distance}'/>");
        check("a.docx", &docx_with(&setting, &lines.map(|line| ("", line))), wanted, note);
        let text = format!(r"\deftab{distance} ")
            + &lines.map(|line| format!(r"{line}\par ")).concat().replace('\t', "→");
        check("a.rtf", &rtf("", &text), wanted, note);
        // The last paragraph may have no end.
        check("a.rtf", &rtf("", text.trim_end_matches(r"\par ")), wanted, note);
    }
    // A style may say so, too.
    let body: String = lines
        .map(|line| format!("<text:p text:style-name='P'>{}</text:p>", line.replace('\t', "<text:tab/>")))
        .concat();
    let default = |family: &str, distance: &str| {
        format!(
            "<style:default-style style:family='{family}'><style:paragraph-properties style:tab-stop-distance='{distance}'/></style:default-style>"
        )
    };
    let own = |distance: &str| {
        format!(
            "<style:style style:name='base'><style:paragraph-properties style:tab-stop-distance='{distance}'/></style:style>\
             <style:style style:name='P' style:parent-style-name='base'/>"
        )
    };
    for (styles, wanted, note) in [
        (default("paragraph", "4cm"), wide, ""),
        (default("graphic", "4cm"), plain, close),
        (own("4cm"), wide, ""),
        (default("paragraph", "4cm") + &own("5mm"), plain, close),
    ] {
        check("a.odt", &odf("text", &styles, &body), wanted, note);
    }
}

#[test]
fn slides_say_how_far_apart_their_stops_are() {
    let wide = "# Slide 1\n\nCosts | Jan | Feb\nHeating costs | 7\nRent | | 80\n";
    let plain = "# Slide 1\n\nCosts Jan Feb\nHeating costs 7\nRent 80\n";
    let close = "cells may be in other columns in 1 row of tables";
    let distance = "defTabSz='2540000'";
    let list = format!("<a:lstStyle><a:lvl1pPr {distance}/></a:lstStyle>");
    let other_level = list.replace("lvl1pPr", "lvl2pPr");
    for (list, paragraph, place, layout, wanted, note) in [
        ("", "", "", "", plain, close),
        ("", distance, "", "", wide, ""),
        (list.as_str(), "", "", "", wide, ""),
        (&other_level, "", "", "", plain, close),
        ("", "", "<p:ph type='subTitle'/>", list.as_str(), wide, ""),
        ("", "", "", &list, plain, close),
    ] {
        let lines = ["Costs\tJan\tFeb", "Heating costs\t7", "Rent\t\t80"];
        let lines = lines.map(|line| format!("<a:p><a:pPr {paragraph}/><a:r><a:t>{line}</a:t></a:r></a:p>"));
        let slide = format!(
            "<p:sld><p:sp><p:nvPr>{place}</p:nvPr><p:txBody>{list}{}</p:txBody></p:sp></p:sld>",
            lines.concat()
        );
        let layout = format!(
            "<p:sldLayout><p:sp><p:nvPr><p:ph idx='1'/></p:nvPr><p:txBody>{layout}</p:txBody></p:sp></p:sldLayout>"
        );
        let relations =
            "<Relationships><Relationship Id='r' Type='x/slideLayout' Target='../l.xml'/></Relationships>";
        let parts = [("ppt/slides/_rels/slide1.xml.rels", relations), ("ppt/l.xml", layout.as_str())];
        let slide = slide.replace("<a:pPr /><a:r>", "<a:pPr><a:buNone/></a:pPr><a:r>");
        check("a.pptx", &pptx(&[&slide], &parts), wanted, note);
    }
}

#[test]
fn columns_that_are_not_certain_are_counted() {
    // Long texts reach over stops, of which nobody knows which.
    check_uncertain(
        &[("", "Costs\t\tJan\tFeb"), ("", "Rent\t\t9\t8"), ("", "Heating costs\t7\t5")],
        "2 rows",
    );
    let near = stops(&[("left", 700), ("left", 4000), ("left", 6000)]);
    check_uncertain(
        &[(&near, "Heating costs\tJan\tFeb"), (&near, "Rent\t\t9"), (&near, "Water\t8")],
        "1 row",
    );
    // Other stops lead elsewhere.
    let last = stops(&[("left", 6000)]);
    check_uncertain(&[(&near, "Name\tQ1\tQ2"), (&near, "Ann\t\t8"), (&last, "Bob\t7")], "1 row");
}

#[test]
fn elsewhere_a_tab_is_a_space() {
    check_docx(
        &[("", "To:\t\tAnn"), ("", "From me:\tBob"), ("", ""), ("", "\tIndented."), ("", "\tToo.")],
        "To: Ann\n\nFrom me: Bob\n\nIndented.\n\nToo.\n",
    );
    check_docx(&[("", "one\tline\t\tof\tthem")], "one line of them\n");
    // A column that no line has.
    let three = stops(&[("left", 2000), ("left", 4000), ("left", 6000)]);
    check_docx(&[(&three, "a\t\tb\tc"), (&three, "d\t\te\tf")], "a b c\n\nd e f\n");
    // Dots lead to the number of a page.
    let contents = "<w:tabs><w:tab w:val='left' w:pos='440'/><w:tab w:val='right' w:leader='dot' w:pos='9000'/></w:tabs>";
    check_docx(
        &[
            (contents, "1\tScope\t2"),
            (contents, "2\tTerms\t14"),
            (contents, "Annex\t20"),
            (contents, "X .....\t21"),
        ],
        "1 Scope 2\n\n2 Terms 14\n\nAnnex 20\n\nX ... 21\n",
    );
    let heading = "<w:outlineLvl w:val='0'/>";
    check_docx(
        &[(heading, "1\t\tScope\tnow"), (heading, "2\tTerms\tto\tlater")],
        "# 1 Scope now\n\n# 2 Terms to later\n",
    );
    // A paragraph of tabs is empty, and so are tabs at the end.
    check_docx(&[("", "a\t\t"), ("", "\t\t"), ("", "b\t")], "a\n\nb\n");
}

#[test]
fn other_formats_have_tab_stops_too() {
    let wanted = "Item | Jan | Feb\nHeating | | 900\n";
    let style = "<style:style style:name='base'><style:paragraph-properties><style:tab-stops><style:tab-stop style:position='9cm'/></style:tab-stops></style:paragraph-properties></style:style>\
        <style:style style:name='two' style:parent-style-name='base'><style:paragraph-properties><style:tab-stops><style:tab-stop style:position='1.5in'/>\
        <style:tab-stop style:type='right' style:position='76mm'/></style:tab-stops></style:paragraph-properties></style:style>";
    let paragraph =
        |text: &str| format!("<text:p text:style-name='two'>{}</text:p>", text.replace('\t', "<text:tab/>"));
    let body = paragraph("Item\tJan\tFeb") + &paragraph("Heating\t\t900");
    check("a.odt", &odf("text", style, &body), wanted, "");
    let cell = format!(
        "<table:table><table:table-row><table:table-cell>{body}</table:table-cell></table:table-row></table:table>"
    );
    check("a.odt", &odf("text", style, &cell), "Item Jan Feb Heating 900\n", "");
    let line = |text: &str| {
        format!(
            "<a:p><a:pPr><a:tabLst><a:tab pos='2540000' algn='l'/><a:tab pos='5080000' algn='r'/></a:tabLst></a:pPr><a:r><a:t>{text}</a:t></a:r></a:p>"
        )
    };
    let text = line("Item\tJan\tFeb") + &line("Heating\t\t900");
    let slide = format!("<p:sld><p:sp><p:txBody>{text}</p:txBody></p:sp></p:sld>");
    check("a.pptx", &pptx(&[&slide], &[]), &format!("# Slide 1\n\n{wanted}"), "");
}

/// A file of RTF with these styles and this text, where an arrow is a tab.
fn rtf(styles: &str, text: &str) -> Vec<u8> {
    let text = text.replace('→', "\\tab ");
    format!("{{\\rtf1\\ansi{{\\stylesheet{styles}}}{text}}}").into_bytes()
}

#[test]
fn values_between_tabs_of_rich_text_stand_under_their_header() {
    let check_styled =
        |styles: &str, text: &str, wanted: &str| check("a.rtf", &rtf(styles, text), wanted, "");
    let check = |text: &str, wanted: &str| check_styled("", text, wanted);
    let wanted = "Item | Jan | Feb\nHeating | | 900\n";
    check(
        r"Costs\par\pard\tx2000\tqr\tx4000\tqdec\tx6000 Item→Jan→Feb→Mar\par Rent→→→900\par →5→6\par a|b→→6→and more\par\pard End\par",
        "Costs\n\nItem | Jan | Feb | Mar\nRent | | | 900\n| 5 | 6\na\\|b | | 6 | and more\n\nEnd\n",
    );
    check(r"{\pard\tx2000\tx4000 {\b Item→}{\i Jan}→Feb\line Heating→→{\b 900}\par}", wanted);
    // Without stops: each line has as many tabs. Some programs write the sign.
    check(r"\pard Item→Jan→Feb\par Heating→→900\par", wanted);
    check("Item\\'09Jan\\'09Feb\\par\nHeating\\'09\\'09900\\par", wanted);
    // A hanging indent is a stop, too, as long as it is one.
    check(r"\pard\fi-2000\li2000\tx4000 Item→Jan→Feb\par Heating→→900\par", wanted);
    check(r"\pard\li400\fi-400\li2000\fi-2000\tx4000 Item→Jan→Feb\par Heating→→900\par", wanted);
    // Right and centred texts reach to the left, and a line that is drawn is no stop.
    for align in [r"\tqr", r"\tqdec", r"\tqc"] {
        check(
            &format!(r"\pard\tx2000{align}\tx4000\tx4500 Item→Jan→Feb\par Heating→→ab cd→9\par"),
            "Item | Jan | Feb\nHeating | | ab cd | 9\n",
        );
    }
    check(r"\pard\tx2000\tqc\tb2100\tx4000 Item→Jan→Feb\par Heating→→900\par", wanted);
    // Stops of a style count where the paragraph has none of its own.
    let styles = r"{\s0 Normal;}{\s3\tx2000\tx4000 Costs;}{\snext0\tx100 Others;}";
    check_styled(styles, r"\pard\s3 Item→Jan→Feb\par Heating→→900\par", wanted);
    // Notes have lines of their own.
    check(
        r"a{\footnote \pard\tx2000\tx4000 Item→Jan→Feb\par Heating→→900\par}\par",
        "a[^1]\n\n[^1]: Item | Jan | Feb\nHeating | | 900\n",
    );
}

#[test]
fn tabs_of_rich_text_elsewhere() {
    let check = |text: &str, wanted: &str| check("a.rtf", &rtf("", text), wanted, "");
    check(r"{\listtext 1.→}one\par {\listtext 2.→}two→ \par \par →\par", "1. one\n2. two\n");
    check(r"\pard To:→→Ann\par From me:→Bob\par →Indented.\par", "To: Ann\n\nFrom me: Bob\n\nIndented.\n");
    check(
        r"\trowd\cellx4000\cellx8000\pard\intbl →Item→Jan→Feb\par Heating→→900\cell b\cell\row\pard a→b\par",
        "Item Jan Feb Heating 900 | b\n\na b\n",
    );
    // Hidden tabs lead nowhere.
    check(r"Item{\v →}→Jan{\v →}→Feb\par Rent→→900\par", "Item | Jan | Feb\nRent | | 900\n");
}

#[test]
fn columns_of_rich_text_that_are_not_certain_are_counted() {
    for text in [
        r"\pard\tx700\tx4000\tx6000 Heating costs→Jan→Feb\par Rent→→9\par Water→8\par",
        r"a{\footnote \pard\tx700\tx4000\tx6000 Heating costs→Jan→Feb\par Rent→→9\par Water→8\par}\par",
        // Stops end with their paragraph, or with their group.
        r"{\pard\tx4000\tx6000 Heating costs→Jan→Feb\par}\pard Rent→→9\par Water→8\par",
    ] {
        let document = read("a.rtf", &rtf("", text));
        assert_eq!(notes(&document), "cells may be in other columns in 1 row of tables", "{text}");
        assert!(!document.text.contains('|'), "{}", document.text);
    }
}

#[test]
fn many_tabs_end() {
    let row = format!("<w:p>{}<w:t>x</w:t></w:p>", "<w:tab/>".repeat(1000));
    let row = row + &format!("<w:p>{}</w:p>", "<w:t>x</w:t><w:tab/>".repeat(1000));
    let document = format!("<w:document><w:body>{}</w:body></w:document>", row.repeat(50));
    let text = read("a.docx", &archive(&[("word/document.xml", &document)])).text;
    assert!(text.len() < 1 << 20, "{}", text.len());
    let far = stops(&[("right", u32::MAX), ("left", 99_999)]);
    let text =
        read("a.docx", &docx(&[(&far, &"x\t".repeat(300_000)), (&far, &"x\t\ty".repeat(100_000))])).text;
    assert!(text.starts_with("x"));
    for indented in ["w:left='4294967295'", "w:left='4294967295' w:firstLine='4294967295'"] {
        let indented = format!("<w:ind {indented}/>");
        let lines = [(indented.as_str(), "x\t\ty"), (&indented, "x\ty\tz")];
        let text = read("a.docx", &docx_with("<w:defaultTabStop w:val='1'/>", &lines)).text;
        assert_eq!(text, "x y\n\nx y z\n");
    }
    let stops: String = (1..64).map(|place| format!(r"\tx{place}00")).collect();
    let own = r"{\tx9999\tqr\tx-1\tx2147483647\li-2147483648\fi-2147483648 x→→y\line}".repeat(20_000);
    let text = read("a.rtf", &rtf(&own, &format!("{stops}{}x{own}", "→".repeat(100_000)))).text;
    assert!(text.starts_with("x"));
}
