//! OpenDocument as LibreOffice shows it: numbers of lists, fonts of symbols, forms, notes and charts.

use super::formats::{check, odf};

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
