//! OpenDocument as LibreOffice shows it: numbers of lists, fonts of symbols, forms, notes and charts.

use crate::formats::{check, odf};
use crate::parts::archive;

/// The style `L` of lists, with these attributes of its levels.
fn list_style(levels: &[&str]) -> String {
    let level = |(i, attributes): (usize, &&str)| {
        format!("<text:list-level-style-number text:level='{}' {attributes}/>", i + 1)
    };
    let levels: String = levels.iter().enumerate().map(level).collect();
    format!("<text:list-style style:name='L'>{levels}</text:list-style>")
}

/// A list of style `L` with these attributes and items.
fn list(attributes: &str, items: &[String]) -> String {
    format!("<text:list text:style-name='L' {attributes}>{}</text:list>", items.concat())
}

fn item(inner: &str) -> String {
    format!("<text:list-item>{inner}</text:list-item>")
}

fn p(text: &str) -> String {
    format!("<text:p>{text}</text:p>")
}

const LEGAL: [&str; 3] = [
    "style:num-format='1' style:num-suffix='.'",
    "style:num-format='1' text:display-levels='2'",
    "style:num-format='a' style:num-prefix='(' style:num-suffix=')'",
];

#[track_caller]
fn check_lists(levels: &[&str], body: &[String], wanted: &str) {
    check("a.odt", &odf("text", &list_style(levels), &body.concat()), wanted, "");
}

/// Programs write a list that another one interrupts as several, each of which continues one before it.
#[test]
fn lists_continue_at_every_level() {
    let within = |inner: &str| item(&list("", &[item(inner)]));
    check_lists(
        &LEGAL,
        &[
            list("xml:id='a'", &[item(&p("a")), item(&(p("b") + &list("", &[item(&p("c"))])))]),
            list("xml:id='x'", &[item(&p("x"))]),
            list("xml:id='b' text:continue-list='a'", &[within(&(p("d") + &list("", &[item(&p("e"))])))]),
            list("text:continue-list='x'", &[item(&p("y"))]),
            list("text:continue-list='b'", &[within(&list("", &[item(&p("f"))]))]),
            p("between"),
            list(
                "text:continue-numbering='true'",
                &[within(&p("g")), item(&(p("h") + &list("", &[item(&p("i"))])))],
            ),
        ],
        "1. a\n2. b\n  2.1 c\n\n1. x\n\n  2.2 d\n    (a) e\n\n2. y\n\n    (b) f\n\nbetween\n\n  2.3 g\n3. h\n  3.1 i\n",
    );
    // Only lists of the same style go on. Without a word of it, a list has numbers of its own.
    check_lists(
        &LEGAL,
        &[
            list("xml:id='a'", &[item(&p("a"))]),
            list("", &[item(&p("b"))]),
            "<text:list text:style-name='M'><text:list-item><text:p>c</text:p></text:list-item></text:list>"
                .to_owned(),
            list("text:continue-numbering='true'", &[item(&p("d"))]),
            list("text:continue-list='none'", &[item(&p("e"))]),
            list("text:continue-list='a'", &[item(&p("f"))]),
        ],
        "1. a\n\n1. b\n\n- c\n\n1. d\n\n1. e\n\n2. f\n",
    );
}

#[test]
fn items_without_text_count_above_others() {
    let first = item(&list("", &[item(&p("a"))]));
    check_lists(&LEGAL, &[list("", &[first, item(&p("b"))])], "  1.1 a\n2. b\n");
    let headings =
        ["2", "1", "3", "2"].map(|level| format!("<text:h text:outline-level='{level}'>x</text:h>"));
    let levels: String = (1..=3)
        .map(|level| {
            format!(
                "<text:outline-level-style text:level='{level}' style:num-format='1' text:display-levels='{level}'/>"
            )
        })
        .collect();
    check(
        "a.odt",
        &odf("text", &format!("<text:outline-style>{levels}</text:outline-style>"), &headings.concat()),
        "## 1.1 x\n\n# 2 x\n\n### 2.1.1 x\n\n## 2.2 x\n",
        "",
    );
}

#[test]
fn headers_second_lists_and_other_styles_within_lists() {
    let header = "<text:list-header><text:p>head</text:p></text:list-header>".to_owned();
    let inner = list("", &[item(&p("b"))]);
    check_lists(
        &LEGAL,
        &[list(
            "",
            &[header, item(&(p("a") + &inner + &p("go on") + &inner)), item(&(inner.clone() + &p("c")))],
        )],
        "head\n1. a\n  1.1 b\ngo on\n  1.1 b\n  1.2 b\nc\n",
    );
    // The numbers are those of the list; the style is that of the item.
    let other = "<text:list-style style:name='M'><text:list-level-style-number text:level='1' style:num-format='A'/></text:list-style>";
    let overridden = "<text:list-item text:style-override='M'><text:p>b</text:p></text:list-item>".to_owned();
    check(
        "a.odt",
        &odf("text", &(list_style(&LEGAL) + other), &list("", &[item(&p("a")), overridden, item(&p("c"))])),
        "1. a\nB b\n3. c\n",
        "",
    );
}

/// The lists of notes and text boxes are none of the list around them, whose item keeps its number.
#[test]
fn lists_within_notes_and_boxes_have_their_own_numbers() {
    let inner = list("", &[item(&p("x")), item(&p("y"))]);
    let note = format!("<text:note><text:note-body>{inner}</text:note-body></text:note>");
    let frame = format!("<draw:frame><draw:text-box>{}{inner}</draw:text-box></draw:frame>", p("box"));
    check_lists(
        &LEGAL,
        &[list("", &[item(&p(&format!("a{note}"))), item(&p(&format!("{frame}b")))])],
        "1. a[^1]\n\nbox\n\n1. x\n2. y\n\n2. b\n\n[^1]: 1. x\n2. y\n",
    );
    let heading = format!("<text:h>{frame}Head</text:h>");
    check_lists(&LEGAL, &[heading], "box\n\n1. x\n2. y\n\n# Head\n");
}

/// LibreOffice 7 and newer write the whole label of a level, in which the numbers may stand anywhere.
#[test]
fn labels_of_lists_are_written_as_the_file_has_them() {
    let nested = |texts: [&str; 3]| {
        let third = list("", &[item(&p(texts[2]))]);
        item(&(p(texts[0]) + &list("", &[item(&(p(texts[1]) + &third))])))
    };
    let body = [list("", &[nested(["a", "b", "c"]), nested(["d", "e", "f"])])];
    let labels = |labels: [&str; 3], formats: [&str; 3]| {
        let level = |i: usize| {
            let (label, format) = (labels[i], formats[i]);
            format!("loext:num-list-format='{label}' style:num-suffix='x' style:num-format='{format}'")
        };
        [level(0), level(1), level(2)]
    };
    for (of_levels, formats, wanted) in [
        (
            ["Part %1%", "%2%/%1%", "§%1%-%2%(%3%):"],
            ["I", "1", "a"],
            "Part I a\n  1/I b\n    §I-1(a): c\nPart II d\n  1/II e\n    §II-1(a): f\n",
        ),
        // A number that is not shown takes the text behind it along.
        (["x%1%y", "%1%.%2%", "100%"], ["", "1", "a"], "xy a\n  1 b\n    100% c\nxy d\n  1 e\n    100% f\n"),
    ] {
        let levels = labels(of_levels, formats);
        check_lists(&levels.each_ref().map(String::as_str), &body, wanted);
    }
}

/// Slides show numbers as LibreOffice Impress counts them.
#[test]
fn lists_of_slides_count_in_their_box() {
    let text = [
        list("", &[item(&list("", &[item(&p("a"))])), item(&p("b"))]),
        p("between"),
        list("", &[item(&p("c"))]),
    ]
    .concat();
    let frame = format!("<draw:frame><draw:text-box>{text}</draw:text-box></draw:frame>");
    let page = format!("<draw:page>{frame}{frame}</draw:page>");
    let of_box = "  1) a\n1) b\n\nbetween\n\n2) c\n";
    check(
        "a.odp",
        &odf("presentation", &list_style(&["style:num-format='1' style:num-suffix=')'"; 2]), &page),
        &format!("# Slide 1\n{of_box}\n{of_box}"),
        "",
    );
}

/// Styles name fonts by names of their own. Ticks and letters in fonts of symbols are other signs.
#[test]
fn symbols_of_open_documents_are_signs_of_their_font() {
    let styles = "<style:font-face style:name='Wingdings1' svg:font-family=\"'Wingdings'\"/>\
        <style:style style:name='W'><style:text-properties style:font-name='Wingdings1'/></style:style>\
        <style:style style:name='S'><style:text-properties style:font-name='Symbol'/></style:style>\
        <text:list-style style:name='L'><text:list-level-style-bullet text:level='1' text:bullet-char='&#xfe;'>\
        <style:text-properties fo:font-family='Wingdings'/></text:list-level-style-bullet></text:list-style>";
    let span = |style: &str, text: &str| format!("<text:span text:style-name='{style}'>{text}</text:span>");
    let text = p(&format!("{} 5 {}m {}", span("W", "ü"), span("S", "m"), span("W", "&#xf0fb;")));
    check(
        "a.odt",
        &odf("text", styles, &(text + &list("", &[item(&p("done"))]))),
        "✓ 5 μm ✗\n\n☒ done\n",
        "",
    );
    let cell = |text: &str| format!("<table:table-cell table:style-name='W'>{}</table:table-cell>", p(text));
    let row = |cells: &str| format!("<table:table><table:table-row>{cells}</table:table-row></table:table>");
    check("a.ods", &odf("spreadsheet", styles, &row(&(cell("ü") + &cell("û")))), "✓ | ✗\n", "");
    check("a.odt", &odf("text", "", &p("an icon \u{e012}")), "an icon \u{e012}\n", "1 unknown character");
}

/// Labels are controls, too; dates and times are those that the file has.
#[test]
fn forms_show_labels_dates_and_choices() {
    let controls = [
        "<form:fixed-text xml:id='c1' form:label='Start:'/>",
        "<form:date xml:id='c2' form:current-value='2024-03-05'/>",
        "<form:time xml:id='c3' form:current-value='PT9H30M'/>",
        "<form:radio xml:id='c4' form:label='Express'/>",
        "<form:radio xml:id='c5' form:label='Standard' form:current-selected='true'/>",
        "<form:listbox xml:id='c6'><form:option form:label='x'/><form:option form:label='y' form:selected='true'/></form:listbox>",
        "<form:frame xml:id='c7' form:label='Delivery'/>",
        "<form:textarea xml:id='c8'><text:p>Ring <text:span>twice</text:span></text:p></form:textarea>",
    ];
    let forms = format!("<office:forms><form:form>{}</form:form></office:forms>", controls.concat());
    let shown: String = (1..=8).map(|i| format!("<draw:control draw:control='c{i}'/>")).collect();
    let wanted = "Start: 2024-03-05 09:30 ○ Express ◉ Standard y Delivery Ring twice\n";
    check("a.odt", &odf("text", "", &(forms.clone() + &p(&shown))), wanted, "");
    let sheet =
        format!("<table:table table:name='T'>{forms}<table:shapes>{shown}</table:shapes></table:table>");
    check("a.ods", &odf("spreadsheet", "", &sheet), &format!("## T\n\n{wanted}"), "");
}

#[test]
fn notes_have_the_marks_that_a_reader_sees() {
    let note = |mark: &str, text: &str| {
        format!(
            "x<text:note><text:note-citation>{mark}</text:note-citation><text:note-body>{}</text:note-body></text:note>",
            p(text)
        )
    };
    let body = [note("12", "a"), note("13", "b"), note("*", "c"), note("12", "d"), note("", "e")];
    check(
        "a.odt",
        &odf("text", "", &p(&body.concat())),
        "x[^12]x[^13]x[^*]x[^12-2]x[^5]\n\n[^12]: a\n\n[^13]: b\n\n[^*]: c\n\n[^12-2]: d\n\n[^5]: e\n",
        "",
    );
}

/// A chart with this style of its series, and of its axes `(x, y)`. Style `p` is one of shares, `d` of dates.
fn chart(series: &str, axes: (&str, &str), plot: &str) -> Vec<u8> {
    let number = |value: &str| {
        format!(
            "<table:table-cell office:value-type='float' office:value='{value}'>{}</table:table-cell>",
            p(value)
        )
    };
    let row = |cells: &[String]| format!("<table:table-row>{}</table:table-row>", cells.concat());
    let text = |text: &str| format!("<table:table-cell office:value-type='string'>{text}</table:table-cell>");
    let styles = "<number:percentage-style style:name='N1'/><number:date-style style:name='N2'/>\
        <style:style style:name='p' style:data-style-name='N1'/><style:style style:name='d' style:data-style-name='N2'/>\
        <style:style style:name='s'><style:chart-properties chart:percentage='true'/></style:style>";
    let axis = |name: &str, style: &str, title: &str| {
        format!(
            "<chart:axis chart:name='primary-{name}' chart:style-name='{style}'><chart:title>{}</chart:title></chart:axis>",
            p(title)
        )
    };
    let axes = axis("x", axes.0, "Month") + &axis("y", axes.1, "Share");
    // The groups of a label stand in a list behind it.
    let label =
        p("2024 Q1") + "<text:list><text:list-item><text:p>2024</text:p></text:list-item></text:list>";
    let rows = [
        row(&[text(""), text(&p("A"))]),
        row(&[number("45292"), number("0.1")]),
        row(&[text(&label), number("0.256")]),
    ];
    let chart = format!(
        "<office:document-content>{styles}<chart:chart><chart:title>{}</chart:title><chart:plot-area chart:style-name='{plot}'>\
         {axes}<chart:series chart:style-name='{series}'/></chart:plot-area><table:table>{}</table:table></chart:chart></office:document-content>",
        p("Sold"),
        rows.concat()
    );
    let content = "<office:document-content><office:body><office:text><text:p><draw:frame><draw:object xlink:href='./O'/></draw:frame></text:p></office:text></office:body></office:document-content>";
    archive(&[
        ("mimetype", "application/vnd.oasis.opendocument.text"),
        ("content.xml", content),
        ("O/content.xml", &chart),
    ])
}

#[test]
fn charts_show_dates_shares_and_the_titles_of_their_axes() {
    for (series, axes, plot, first, numbers) in [
        ("", ("", ""), "", "45292", ["0.1", "0.256"]),
        ("p", ("d", ""), "", "2024-01-01", ["10%", "25.6%"]),
        ("", ("d", "p"), "", "2024-01-01", ["10%", "25.6%"]),
        // The axis has shares of a sum, the series has none.
        ("", ("", "p"), "s", "45292", ["0.1", "0.256"]),
    ] {
        let wanted = format!(
            "[chart: Sold; Month; Share]\n\n| A\n{first} | {}\n2024 Q1 | {}\n",
            numbers[0], numbers[1]
        );
        check("a.odt", &chart(series, axes, plot), &wanted, "");
    }
}

/// The numbers of pages and slides, and dates of printing, are none of the text.
#[test]
fn placeholders_of_headers_and_notes_are_left_out() {
    let styles = "<office:document-styles><style:master-page style:name='Default'><style:header>\
        <text:p>Budget <text:sheet-name>???</text:sheet-name>, page <text:page-number>1</text:page-number> of <text:page-count>99</text:page-count> \
        <text:date>00/00/0000</text:date></text:p></style:header></style:master-page></office:document-styles>";
    let table = "<table:table table:name='T'><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell></table:table-row></table:table>";
    let content = format!(
        "<office:document-content><office:body><office:spreadsheet>{table}</office:spreadsheet></office:body></office:document-content>"
    );
    let entries = [
        ("mimetype", "application/vnd.oasis.opendocument.spreadsheet"),
        ("content.xml", content.as_str()),
        ("styles.xml", styles),
    ];
    check("a.ods", &archive(&entries), "[page header]\nBudget , page of\n\n## T\n\na\n", "");
    let frame = |text: &str| format!("<draw:frame><draw:text-box>{}</draw:text-box></draw:frame>", p(text));
    let number = "<text:page-number>&lt;number&gt;</text:page-number>";
    let page = |notes: &str| {
        format!(
            "<draw:page>{}<presentation:notes>{}{}</presentation:notes></draw:page>",
            frame("a"),
            frame(notes),
            frame(number)
        )
    };
    check(
        "a.odp",
        &odf("presentation", "", &(page("") + &page("Say hello."))),
        "# Slide 1\n\na\n\n# Slide 2\n\na\n\n[Notes] Say hello.\n",
        "",
    );
}
