//! Pages and books: what a reader sees, and where it stands.

use documents::{Limits, Note, read_bytes};

use crate::parts::{archive, notes, read};

#[track_caller]
fn check(page: &str, wanted: &str) {
    assert_eq!(read("page.html", page.as_bytes()).text, wanted, "{page}");
}

/// What is hidden is left out with a note that counts it.
#[track_caller]
fn check_hidden(page: &str, wanted: &str, places: usize) {
    let document = read("page.html", page.as_bytes());
    assert_eq!(document.text, wanted, "{page}");
    let s = if places == 1 { "" } else { "s" };
    let note = format!("text that a reader does not see was left out in {places} place{s}");
    assert_eq!(notes(&document), if places == 0 { String::new() } else { note }, "{page}");
}

#[test]
fn numbers_of_style_sheets_are_read() {
    let read = |page: &str| {
        let page = format!("<!doctype html><meta charset=utf-8>{page}");
        read_bytes("page.html", page.as_bytes(), &Limits::default()).expect("a page")
    };
    for (page, expected) in [
        (
            "<style>ol.c{counter-reset:k;list-style:none}ol.c>li{counter-increment:k}ol.c>li::before{content:\"§\" \
             counter(k) \". \"}</style><ol class=c><li>one<li>two</ol>",
            "§1. one\n§2. two\n",
        ),
        // Headings, of which those within a section are counted anew.
        (
            "<style>body{counter-reset:a}h1{counter-increment:a;counter-reset:b}h2{counter-increment:b}h1:before{content:\
             counter(a) '. '}h2:before{content:counter(a) '.' counter(b)}</style><h1>First</h1><h2>One</h2><h2>Two</h2>\
             <h1>Second</h1><h2>Three</h2>",
            "# 1. First\n\n## 1.1 One\n\n## 1.2 Two\n\n# 2. Second\n\n## 2.1 Three\n",
        ),
        // Lists within lists.
        (
            "<style>ol{counter-reset:i;list-style:none}li:before{counter-increment:i;content:counters(i,'.') ' '}\
             li{counter-increment:none}</style><ol><li>a<ol><li>b</ol><li>c</ol>",
            "1 a\n  1.1 b\n2 c\n",
        ),
        // What is not there is not counted, and ornaments are left out.
        (
            "<style>p{counter-increment:k}p:before{content:counter(k) ') '}p.x{display:none}i:before{content:'★'}</style>\
             <div style='counter-reset:k 4'><p>a<p class=x>b<p>c <i>d</i></div>",
            "5) a\n\n6) c d\n",
        ),
    ] {
        let document = read(page);
        assert_eq!(document.text, expected, "{page}");
        assert!(!document.notes.iter().any(|note| matches!(note, Note::UnknownNumbers { .. })), "{page}");
    }
    for page in [
        "<style>p:before{content:counter(k, made-up)}</style><p>one",
        "<style>p:last-child::before{content:counter(k)}</style><p>one",
        "<style>@container (width > 1px) { p:before{content:counter(k)} }</style><p>one",
    ] {
        assert!(read(page).notes.contains(&Note::UnknownNumbers { places: 1 }), "{page}");
    }
}

/// Rules for the signs before elements, such as icons, leave the rules that hide text their room.
#[test]
fn rules_of_icons_push_out_no_others() {
    let icons: String =
        (0..40).map(|i| format!("[class^=icon-{i}]::before{{content:'\\f1{i:02}'}}")).collect();
    let page = format!("<style>{icons}[data-old]{{display:none}}</style><p data-old>a<p>b");
    check_hidden(&page, "b\n", 1);
}

#[test]
fn pages_become_readable_text() {
    check("<p>One &amp; two<p>Three<br>four <b>bold</b>er", "One & two\n\nThree\nfour bolder\n");
    check("<h2>Head</h2>text<div><div>deep</div></div>", "## Head\n\ntext\n\ndeep\n");
    check("see <a href='https://x.y/z'>the page</a>.", "see the page.\n");
    check("<pre>\n  a\n\n    b</pre>c", "  a\n\n    b\n\nc\n");
    check("<dl><dt>term<dd>meaning</dl>", "term\nmeaning\n");
    check("<q>yes</q>, 漢<ruby>字<rp>(</rp><rt>ji</rt><rp>)</rp></ruby>", "“yes”, 漢字(ji)\n");
    check("<ruby>字<rt>ji</rt></ruby>", "字(ji)\n");
}

#[test]
fn scripts_and_styles_are_left_out() {
    check("<style>p > a { }</style><script>if (a < b) '<p>'</script>x<!-- no -->", "x\n");
    check("<p>x<script>var a = '</p>'; <!-- </script> y", "x y\n");
    check("<template><p>no</p></template>yes", "yes\n");
    check("<svg><title>a</title><defs><text>b</text></defs><text>c</text></svg>d", "c\nd\n");
}

#[test]
fn pages_in_frames_are_read() {
    check(
        "<p>a<iframe srcdoc='<title>no</title><style>i{display:none}</style><h1>Rent</h1>9&amp;amp;50 <i>no</i>' src=x>no</iframe>b <i>c</i>",
        "a\n\n# Rent\n\n9&50\n\nb c\n",
    );
    check("<table><tr><td>a<td><iframe srcdoc='<p>1<p>2'></iframe><td>b</table>", "a | 1 2 | b\n");
    check("<iframe src=x>no</iframe>b", "b\n");
    // A frame has colours of its own.
    check("<div style='color:#fff'><iframe srcdoc='<p>a'></iframe></div>b", "a\n\nb\n");
    // Where it has no place, it is counted.
    for (page, wanted) in [
        (
            "<table><tr><td>a<td><iframe srcdoc='<table><tr><td>1<td>2</table>'></iframe><td>b<tr><td>c<td>d<td>e</table>",
            "a | | b\nc | d | e\n",
        ),
        ("<select><option>a<iframe srcdoc=q></iframe></select>", "◉ a\n"),
    ] {
        let document = read("page.html", page.as_bytes());
        assert_eq!(
            (document.text.as_str(), notes(&document).as_str()),
            (wanted, "1 file in it left out: iframe")
        );
    }
    for frame in [
        "<iframe hidden srcdoc='no'></iframe>",
        "<iframe width=1 height=1 srcdoc='no'></iframe>",
        "<div style='display:none'><iframe srcdoc='no'></iframe></div>",
        "<iframe style='visibility:hidden' srcdoc='no'></iframe>",
    ] {
        check_hidden(&format!("{frame}<p>yes"), "yes\n", 1);
    }
    let escaped = |page: &str| page.replace('&', "&amp;").replace('"', "&quot;");
    let page = (0..6)
        .rev()
        .fold("end".to_owned(), |page, i| format!("{i} <iframe srcdoc=\"{}\"></iframe>", escaped(&page)));
    let document = read("page.html", page.as_bytes());
    assert_eq!(document.text, "0\n\n1\n\n2\n\n3\n\n4\n");
    assert_eq!(notes(&document), "1 file in it left out: iframe");
}

#[test]
fn pieces_of_text_in_drawings_stand_where_they_say() {
    check(
        "<svg><text><tspan x=0 y=10>Net</tspan><tspan x=0 dy=12>income</tspan> in <tspan>k</tspan>€</text></svg>",
        "Net income in k€\n",
    );
    check(
        "<svg><text>10<tspan dy=-5>6</tspan> H<tspan dy=5>2</tspan><tspan dy=-5>O</tspan></text></svg>",
        "10 6 H2O\n",
    );
    check("<p>10<tspan x=0>6</tspan>", "106\n");
    // Each letter may be a piece with its place, on the same line as the one before.
    check(
        "<svg><text><tspan x='0' y='0'>R</tspan><tspan x='7.1' y='0'>evenue</tspan></text><text y=9>1<tspan x='5' y='9.0'>,</tspan>\
         <tspan x=8>250</tspan></text><text>20<tspan dy='0em'>24</tspan></text></svg>",
        "Revenue\n1,250\n2024\n",
    );
}

#[test]
fn drawings_and_texts_in_the_order_of_reading_are_read() {
    let package = "<package><manifest><item id='a' href='a.xhtml' media-type='application/xhtml+xml'/>\
        <item id='b' href='b.svg' media-type='image/svg+xml'/><item id='c' href='c.txt' media-type='text/plain'/>\
        <item id='d' href='d.svg' media-type='image/svg+xml'/><item id='e' href='e.svg' media-type='image/svg+xml'/>\
        <item id='f' href='f.txt' media-type='text/plain'/>\
        <item id='g' href='g.svg' media-type='image/svg+xml' fallback='h'/><item id='h' href='h.png' media-type='image/png'/></manifest>\
        <spine><itemref idref='a'/><itemref idref='b'/><itemref idref='c'/><itemref idref='d'/><itemref idref='g'/></spine></package>";
    let book = archive(&[
        ("mimetype", "application/epub+zip"),
        ("book.opf", package),
        ("a.xhtml", "<html><body><p>One.</p></body></html>"),
        (
            "b.svg",
            "<?xml version='1.0'?><svg xmlns='http://www.w3.org/2000/svg'><title>no</title><text>Two</text><text>and <tspan>more</tspan></text></svg>",
        ),
        ("c.txt", "Three < four\n  & five\n"),
        ("d.svg", "<svg xmlns='http://www.w3.org/2000/svg'><path d='M0 0'/></svg>"),
        ("e.svg", "<svg><text>no</text></svg>"),
        ("f.txt", "no"),
        ("g.svg", "<svg><text>Six</text></svg>"),
        ("h.png", "no"),
    ]);
    let document = read("book.epub", &book);
    assert_eq!(document.text, "One.\n\nTwo\nand more\n\nThree < four\n  & five\n\nSix\n");
    assert_eq!(notes(&document), "1 picture without text");
}

#[test]
fn a_title_is_the_heading_of_a_page_without_one() {
    check("<title>Boats</title><p>x", "# Boats\n\nx\n");
    check("<title>Boats</title><h1>Rivers</h1>x", "# Rivers\n\nx\n");
    check("<?xml version='1.0'?><html><title/><script src='x'/><body>x</body></html>", "x\n");
    check("<title>Boats</title><svg><title>no</title></svg><p>x", "# Boats\n\nx\n");
}

#[test]
fn declared_encodings_are_used() {
    let document = read("a.html", b"<meta charset=\"iso-8859-2\"><p>\xbf\xf3\xb3w");
    assert_eq!((document.text.as_str(), notes(&document).as_str()), ("żółw\n", "decoded as iso-8859-2"));
    let document = read("a.html", b"<meta charset=latin1><p>ok \xc3\xa4");
    assert_eq!(document.text, "ok ä\n", "valid UTF-8 is UTF-8, whatever is declared");
}

#[test]
fn merged_cells_stay_in_their_column() {
    check(
        "<table><tr><th>Region<th>Product<th>Sold<tr><td rowspan=2>North<td>Cable<td>12<tr><td>Hub<td>7\
         <tr><td colspan=2>South total<td>55</table>",
        "Region | Product | Sold\nNorth | Cable | 12\nNorth | Hub | 7\nSouth total | | 55\n",
    );
    check(
        "<table><tr><th>Name<th>Number<tr><td><p>Mary</p></td><td>34251</td></tr></table>end",
        "Name | Number\nMary | 34251\n\nend\n",
    );
    // Rows that end before the last column, cells without text, and a rowspan to the end.
    check(
        "<table><tr><td>a<td rowspan=0>b<td>c<tr><td><td>d<tr><td>e<tr></table>",
        "a | b | c\n| b | d\ne | b\n",
    );
    check(
        "<table><thead><tr><td colspan=2>2023<td colspan=2>2024<tbody><tr><td>Q1<td>Q2<td>Q1<td>Q2</table>",
        "2023 | | 2024\nQ1 | Q2 | Q1 | Q2\n",
    );
    // A cell ends with its group of rows.
    check("<table><thead><tr><th rowspan=3>a<th>b<tbody><tr><td>c<td>d</table>", "a | b\nc | d\n");
    check("<table><tr><td>a|b<td>c<ul><li>d<li>e</ul></table>", "a\\|b | c - d - e\n");
    check(
        "<table><tr><td>a<table><tr><td>b<td>c</table><td>d<tr><td>e<td>f</table>",
        "a\n\nb | c\n\nd\ne | f\n",
    );
    check("<table role=presentation><tr><td><h1>A</h1><p>b<td>c</table>", "# A\n\nb\n\nc\n");
}

#[test]
fn raised_and_lowered_text_is_not_joined() {
    check(
        "<p>The sample has 3 × 10<sup>6</sup> cells and H<sub>2</sub>O. Footnote mark<sup>12</sup> here. See 2<sup>10</sup>.",
        "The sample has 3 × 10^6 cells and H2O. Footnote mark[12] here. See 2^10.\n",
    );
    check("<sup>1</sup>/<sub>2</sub> tablet, log<sub>10</sub> 5", "1/2 tablet, log_10 5\n");
    check("it ended<sup><a href='#n1'>1</a></sup> so", "it ended[1] so\n");
    check(
        "m<a epub:type='noteref' href='#n1'>1</a> and x<a role=doc-noteref href='#a'>[2]</a>",
        "m[1] and x[2]\n",
    );
    check("<pre>x = 10<sup>6</sup>\n  y</pre>", "x = 10^6\n  y\n");
    check("the 1<sup>st</sup> of m<span style='vertical-align:super'>2</span>", "the 1st of m^2\n");
    // As common style sheets and LibreOffice write them.
    let moved = "<style>sub,sup{font-size:75%;position:relative;vertical-align:baseline}sub{bottom:-.25em}sup{top:-.5em}\
        .e{font-size:.58em;position:relative;top:-.33em}</style>";
    check(
        &format!("{moved}10<sup>6</sup> m<sup>2</sup>, x<sub>1</sub>, 3 × 10<i class=e>-5</i>"),
        "10^6 m^2, x_1, 3 × 10^-5\n",
    );
    for plain in [
        "position:relative;top:-1px",
        "top:-.5em",
        "position:absolute;top:-.5em",
        "position:relative;top:-5em",
    ] {
        check(&format!("<style>sup{{vertical-align:baseline;{plain}}}</style>1<sup>6</sup>"), "16\n");
    }
    // Text of full size is only nudged.
    check("<b style='position:relative;top:-3px'>6</b>", "6\n");
    check("10<b style='position:relative;top:-2px'>6</b> a<b style='vertical-align:.4em'>b</b>", "106 ab\n");
    check("10 <b style='vertical-align:.4em'>6</b>", "10 6\n");
    check("<style>.up{vertical-align:super}</style>10<span class=up>6</span>", "10^6\n");
}

/// Lengths raise text as well as words do.
#[test]
fn text_that_is_moved_by_lengths_is_raised_or_lowered() {
    let moved = |style: &str| format!("10<span style='{style}'>7</span>");
    for style in [
        "vertical-align:.4em;font-size:70%",
        "vertical-align:30%;font-size:smaller",
        "vertical-align:5px;font-size:8px",
        "vertical-align:4pt;font:8pt Arial",
        "vertical-align:text-top;font-size:x-small",
        "vertical-align:top;font-size:.6em",
        "vertical-align:.5em",
        "vertical-align:.4em;font-size:70%;display:inline-block",
        "font-size:8pt;position:relative;top:-3pt",
        "position:relative;top:-3.0pt;mso-text-raise:3.0pt",
        "vertical-align:baseline;font-variant-position:super",
    ] {
        check(&moved(style), "10^7\n");
    }
    check(&moved("vertical-align:-.3em;font-size:70%"), "10_7\n");
    check("10<font size=1 style='vertical-align:text-top'>7</font>", "10^7\n");
    check("<p style='font-size:8pt'>10<i style='font-size:5pt;position:relative;top:-3pt'>7</i>", "10^7\n");
    for style in [
        "vertical-align:1px;font-size:70%",
        "vertical-align:top",
        "vertical-align:middle;font-size:70%",
        "font-size:12px;position:relative;top:-1px",
        "font-size:100%;position:relative;top:-2px",
    ] {
        check(&moved(style), "107\n");
    }
    // The page is written in small letters, and a rule sets sizes that it counts from.
    check("<p style='font-size:8pt'>10<i style='font-size:8pt;position:relative;top:-2pt'>7</i>", "107\n");
    check(
        "<style>html{font-size:62.5%}body{font-size:1.6rem}i{font-size:1rem;vertical-align:.3em}</style><p>10<i>7</i>",
        "10^7\n",
    );
    // In tables and boxes, the same words are about something else.
    check("<table><tr><td>10<td style='vertical-align:top;font-size:8pt'>7</table>", "10 | 7\n");
    check(
        "10<small style='vertical-align:top'>7</small> <small style='vertical-align:top'>2020</small>",
        "10^7 2020\n",
    );
    check(
        "<style>sup{vertical-align:0;position:relative;top:-.5em}sub{vertical-align:-25%}</style>1<sup>6</sup> x<sub>1</sub>",
        "1^6 x_1\n",
    );
}

/// Wikipedia and books write fractions and charges so.
#[test]
fn small_boxes_of_two_lines_are_fractions_or_numbers_above_and_below() {
    let hidden = "<b style='position:absolute;clip:rect(0,0,0,0)'>/</b>";
    let stack = |above: &str, between: &str, below: &str| {
        format!(
            "<style>.t{{display:inline-block;vertical-align:-.4em;font-size:85%}}.t>i{{display:block}}</style>\
             2<span class=t><i>{above}</i>{between}<i>{below}</i></span> x"
        )
    };
    check_hidden(&stack("1", hidden, "8"), "2 1/8 x\n", 1);
    check_hidden(&stack("1+a", hidden, "8"), "2 (1+a)/8 x\n", 1);
    check(&stack("+0.6", "", "−0.4").replace("<style", "<meta charset=utf-8><style"), "2_−0.4^+0.6 x\n");
    check(&stack("2-", "", "4").replace(" 2<", "SO<").replace(">2<", ">SO<"), "SO4^2- x\n");
    check(
        "2<span style='display:inline-block'><i style='display:block;border-bottom:1px solid'>1</i>8</span> in",
        "2 1/8 in\n",
    );
    check(
        "125.3<span style='display:inline-block;font-size:80%'><sup style='vertical-align:baseline'>+0.6</sup><br>\
         <sub style='vertical-align:baseline'>-0.4</sub></span> GeV",
        "125.3_-0.4^+0.6 GeV\n",
    );
    check(
        "<style>.n,.d{display:inline-block;font-size:.6em;vertical-align:top}.d{vertical-align:bottom}</style>\
         3<i class=n>1</i>/<i class=d>2</i> cups",
        "3 1/2 cups\n",
    );
    // Other boxes stay lines.
    let tile = "<a style='display:inline-block'><b style='display:block'>12</b><b style='display:block'>Users</b></a>";
    check(&format!("<p>{tile}{}", tile.replace("block'>U", "block'><s>U</s>")), "12\nUsers\n12\n~~U~~sers\n");
    check(&stack("<q>a</q>", "", "b c"), "2\n“a”\nb c\nx\n");
}

/// Lists count their items by themselves, and a page may write the marks.
#[test]
fn marks_of_items_are_those_of_the_page() {
    for (style, list, wanted) in [
        (
            "li::marker{content:'(' counter(list-item,lower-alpha) ') '}",
            "<ol><li>a<li>b</ol>",
            "(a) a\n(b) b\n",
        ),
        (
            "li::marker{content:'Art. ' counter(list-item) ': '}",
            "<ol start=3><li>x<li>y</ol>",
            "Art. 3: x\nArt. 4: y\n",
        ),
        (
            "ol{list-style:none}li::before{content:counter(list-item) ') '}",
            "<ol><li>p<li value=7>q<ol reversed><li>r<li>s</ol></ol>",
            "1) p\n7) q\n  2) r\n  1) s\n",
        ),
        (
            "ol{list-style:none}li::before{content:counters(list-item,'.') ' '}",
            "<ol><li>a<ol><li>b<li>c</ol><li>d</ol>",
            "1 a\n  1.1 b\n  1.2 c\n2 d\n",
        ),
        ("li::marker{color:red}", "<ol><li>a</ol>", "1. a\n"),
        ("li::marker{content:'★ '}", "<ol><li>a</ol>", "- a\n"),
        (
            "li{display:block}li.x{display:none}li::marker{content:counter(list-item) ') '}",
            "<ol><li class=x>a<li>b</ol>",
            "1) b\n",
        ),
    ] {
        let document =
            read("page.html", format!("<meta charset=utf-8><style>{style}</style>{list}").as_bytes());
        assert_eq!(document.text, wanted, "{style}");
    }
}

#[test]
fn white_space_that_a_style_sheet_keeps_is_kept() {
    let page = |space: &str, text: &str| {
        format!("<style>.p{{white-space:{space}}}</style><div class=p>{text}</div>")
    };
    for space in ["pre", "pre-wrap", "break-spaces"] {
        check(&page(space, "Name   Qty\nFoo    5\n\nBar"), "Name   Qty\nFoo    5\n\nBar\n");
    }
    check(&page("pre-line", "line  one\n line two"), "line one\nline two\n");
    check(&page("nowrap", "line  one\n line two"), "line one line two\n");
    // Between elements it says nothing, and in a cell lines are words.
    check(&page("pre-wrap", "\n   <p>a</p>\n   <p>b <b>c</b></p>\n"), "a\n\nb c\n");
    check(&page("pre", "<p style='white-space:normal'>a\n  b</p>"), "a b\n");
    check("<style>td{white-space:pre}</style><table><tr><td>1\n2<td>3\n4</table>", "1 2 | 3 4\n");
    check(
        "<span style='white-space:pre-wrap'>10</span><sup style='white-space:pre-wrap'>6</sup> x",
        "10^6 x\n",
    );
}

#[test]
fn buttons_and_framed_numbers_are_apart() {
    check("<button>1</button><button>2</button>a<button>Save</button>", "1 2 a Save\n");
    let framed = "<span style='border:1px solid;padding:0'>7</span>";
    check(&format!("{framed}{framed} <code style='border:1px solid'>Vec</code>s"), "7 7 Vecs\n");
    check("<b style='border:0'>7</b><b style='border:none'>8</b>", "78\n");
    check("<select size=3><option>red<option>blue</select>", "○ red\n○ blue\n");
    check("<select size=1><option>red<option>blue</select>", "◉ red\n○ blue\n");
}

#[test]
fn the_large_first_letter_of_a_word_is_a_part_of_it() {
    let page = |letter: &str, rest: &str| {
        format!("<meta charset=utf-8><p><span style='float:left;font-size:3em'>{letter}</span>{rest}")
    };
    check(&page("O", "nce upon"), "Once upon\n");
    check(&page("“T", "<b>he</b> end"), "“The end\n");
    check(&page("O", "’Neill"), "O’Neill\n");
    check(&page("I", " was"), "I was\n");
    check(&page("1", "st"), "1 st\n");
    check(&page("Th", "e"), "Th e\n");
    // A letter of the usual size is a number.
    check("<p><span style='float:left'>A</span>Clause", "A Clause\n");
}

#[test]
fn icons_that_say_yes_or_no_are_read() {
    let cell = |icon: &str, wanted: &str, note: &str| {
        let page = format!("<meta charset=utf-8><table><tr><td>a<td>{icon}<td>b</table>");
        let document = read("page.html", page.as_bytes());
        assert_eq!(
            (document.text.clone(), notes(&document)),
            (format!("a | {wanted}b\n"), note.to_owned()),
            "{icon}"
        );
    };
    for (icon, sign) in [
        ("<i class='fa fa-check' aria-hidden=true></i>", "✓"),
        ("<i class='fas fa-times-circle'></i>", "✗"),
        ("<i class='bi bi-check-lg'></i>", "✓"),
        ("<i class='bi bi-x'></i>", "✗"),
        ("<span class='glyphicon glyphicon-ok'></span>", "✓"),
        ("<svg class=check><path/></svg>", "✓"),
        ("<svg><use href='#icon-close'/></svg>", "✗"),
        ("<i class='fa fa-check-square-o'></i>", "☒"),
        ("<div class='checkbox checkbox-on'></div>", "☒"),
        ("<div class='checkbox checkbox-off'></div>", "☐"),
        ("<span aria-label=Included></span>", "[image: Included]"),
        ("<span title=Yes></span>", "[image: Yes]"),
        ("<svg role=img aria-label=No><path/></svg>", "[image: No]"),
    ] {
        cell(icon, &format!("{sign} | "), "");
    }
    cell("<span aria-label=Price>9</span>", "9 | ", "");
    cell("<i class='fa fa-check'></i> 9", "✓ 9 | ", "");
    cell("<span id=p5 title=5></span>", "| ", "");
    for icon in ["<i class='fa fa-camera'></i>", "<i class='fa fa-user-check'></i>", "<svg><path/></svg>"] {
        cell(icon, "| ", "1 picture without text");
    }
    check("<p>x<i class='fa fa-camera'></i> <button><i class='fa fa-times'></i></button>", "x\n");
    check("<ul><li><div class='checkbox checkbox-on'></div> <span>Pay</span></ul>", "- ☒ Pay\n");
}

/// Browsers show such a tree in place of its element.
#[test]
fn shadow_trees_are_read() {
    let card = |tree: &str, parts: &str| {
        format!("a<x-card><template shadowrootmode=open>{tree}</template>{parts}</x-card>b")
    };
    let tree = "<p>price: <slot name=p></slot> per <slot>unit</slot>.</p>";
    check(&card(tree, "<b slot=p>45 <i>EUR</i></b>"), "a\n\nprice: 45 EUR per unit.\n\nb\n");
    check(&card(tree, "<b slot=p>4</b> <br>m<sup>2</sup>"), "a\n\nprice: 4 per\nm^2.\n\nb\n");
    let inner = card("[<slot name=q>no</slot>]", "<i slot=q>Q</i>");
    check(&card(&inner, ""), "aa[Q]bb\n");
    check_hidden(&card("x", "<p>no</p>"), "axb\n", 1);
    check("a<x-card><template shadowrootmode=open>x<b>y", "axy\n");
    let deep = (0..20).fold("x".to_owned(), |tree, _| card(&tree, ""));
    assert!(notes(&read("page.html", deep.as_bytes())).contains("1 file in it left out: template"));
}

/// What looks like a fraction, a script, an icon or an initial, and is none.
#[test]
fn what_only_looks_special_is_text() {
    for (page, wanted) in [
        ("<cite>Smith.</cite><span class=Z3988 title='ctx_ver=Z39.88-2004'></span> Book", "Smith. Book\n"),
        ("a <span class=spinner aria-label=Loading></span>b", "a b\n"),
        ("<label>One <input type=checkbox><span class=checkmark></span></label>", "One ☐\n"),
        ("<div class=checkbox-item>First</div><div class=checkbox-item>Second</div>", "First\n\nSecond\n"),
        ("<p>x<clipboard-copy><svg class='octicon octicon-check d-none'></svg></clipboard-copy>", "x\n"),
        ("<div><i class='fa fa-times'></i> Alert</div>", "Alert\n"),
        ("Inbox<span style='display:inline-block;font-size:11px;vertical-align:top'>12</span>", "Inbox12\n"),
        ("GitHub<code style='font-size:12px;position:relative;top:-2px'>npm</code>", "GitHubnpm\n"),
        ("1234<span style='position:relative;top:4px'> now</span>", "1234 now\n"),
        ("<span title=Sum><math><mi>x</mi></math></span>", "x\n"),
        ("<h2 style='white-space:pre-wrap'>Head  ing\ntwo</h2>", "## Head ing two\n"),
        ("<span style='font-family:ZapfDingbats'>hello</span>", "hello\n"),
        (
            "<style>.q{float:left;font-size:2em}</style><p><span class=q>Q</span>What is it?<p><span class=q>I</span>t was.",
            "Q What is it?\n\nIt was.\n",
        ),
        (
            "<style>.b{display:inline-block}.t{display:block;border-bottom:1px solid}</style>\
             <a class=b><span class=t>Our Team</span>Meet us</a>",
            "Our Team\nMeet us\n",
        ),
    ] {
        assert_eq!(read("page.html", page.as_bytes()).text, wanted, "{page}");
    }
    let deep = format!("<math>{}x</math>", "<mmultiscripts>".repeat(20_000));
    let _ = read("page.html", deep.as_bytes());
}

/// A variable may hide an element, or what may hide it is not known.
#[test]
fn values_that_are_variables_decide_what_is_seen() {
    let page = |rule: &str| format!("<style>:root{{--d:none}}{rule}</style><p>a <b class=v>b</b>");
    for rule in [".v{display:var(--d)}", ".v{display:var( --D ,block)!important}"] {
        check_hidden(&page(rule), "a\n", 1);
    }
    check_hidden("<style>b{--d:none}</style><p>a <b style='display:var(--d)'>b</b>", "a\n", 1);
    check(&page(".v{color:var(--c)}"), "a b\n");
    // One that is declared later, or for an element, may be anything.
    for rule in [
        ".v{display:var(--x)}",
        ".v{display:var(--x, none)} :root{--x:inline}",
        ".w{--d:block}.v{display:var(--d)}",
    ] {
        let document = read("page.html", page(rule).as_bytes());
        assert!(document.notes.contains(&Note::UnreadStyles { places: 1 }), "{rule}");
        assert_eq!(document.text, "a b\n");
    }
}

/// Word writes ticks, arrows and Greek letters so.
#[test]
fn letters_of_symbol_fonts_are_signs() {
    check(
        "<style>.w{font-family:Wingdings,serif}</style><meta charset=utf-8><p>þ <span class=w>þ ü</span> \
         <span style='font-family:\"Wingdings 2\"'>R</span> <font face=Wingdings>û</font> <i style='font:8pt Symbol'>m</i>m",
        "þ ☒ ✓ ☒ ✗ μm\n",
    );
    // Another font within it has letters again. Bytes of Windows are numbers of the font.
    check(
        "<meta charset=utf-8><span style='font-family:Symbol'>· a<span style='font:7pt \"Times New Roman\"'>b</span>…</span>",
        "• αb…\n",
    );
    check("<meta charset=utf-8><span style='font-family:Wingdings'>Ÿ</span>", "•\n");
    check("<span style='font-family:\"Segoe UI Symbol\", Symbol'>m</span>", "m\n");
    let document = read("page.html", b"<p>a <font face='Wingdings 2'>z</font>");
    assert_eq!((document.text.as_str(), notes(&document).as_str()), ("a \u{fffd}\n", "1 unknown character"));
}

#[test]
fn formulas_are_tex_or_a_line() {
    check("half <math><mfrac><mn>1</mn><mn>2</mn></mfrac></math> tablet", "half 1/2 tablet\n");
    check(
        "<math><semantics><mrow><msup><mi>x</mi><mn>2</mn></msup></mrow><annotation encoding='application/x-tex'>x^{2}</annotation></semantics></math>",
        "$x^{2}$\n",
    );
    check(
        "<math><munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><mi>i</mi></math>",
        "∑_(i = 1)^n i\n",
    );
    check(
        "<math><mroot><mn>27</mn><mn>3</mn></mroot><mo>=</mo><msqrt><mn>9</mn></msqrt></math>",
        "∛(27) = √(9)\n",
    );
    check(
        "<math><mover><mi>x</mi><mo>¯</mo></mover><mo>≠</mo><msup><mi>x</mi><mo>′</mo></msup></math>",
        "bar(x) ≠ x′\n",
    );
    let isotope = "<mi>C</mi><mprescripts/><mn>6</mn><mn>14</mn>";
    check(&format!("<math><mmultiscripts>{isotope}</mmultiscripts><mo>+</mo></math>"), "_6^14C+\n");
    check(
        "<math><mmultiscripts><mi>T</mi><mi>a</mi><none/><none/><mi>b</mi></mmultiscripts></math>",
        "(T_a)^b\n",
    );
    check(&format!("<math><mmultiscripts>{isotope}"), "_6^14C\n");
    check("<math alttext='\\alpha_1'><mi>α</mi></math>", "$\\alpha_1$\n");
    check(
        "<span class=katex><span class=katex-mathml><math><annotation encoding='application/x-tex'>a</annotation></math></span><span class=katex-html aria-hidden=true><span>a</span></span></span> end",
        "$a$ end\n",
    );
    check("<span class=MathJax>x2</span><script type='math/tex'>x^2</script> end", "$x^2$ end\n");
    check("<img class=mwe-math alt='{\\displaystyle E=mc^{2}}'>", "$E=mc^{2}$\n");
}

#[test]
fn lists_keep_their_numbers() {
    check("<ul><li>a<ul><li>b</ul><li>c</ul><ol><li><p>x</p><li>y</ol>", "- a\n  - b\n- c\n\n1. x\n\n2. y\n");
    check("<ol start=5><li>a<li value=9>b<li>c</ol>", "5. a\n9. b\n10. c\n");
    check("<ol reversed><li>a<ol><li>x</ol><li>b<li>c</ol>", "3. a\n  1. x\n2. b\n1. c\n");
    check("<ol reversed start=10><li>a<li>b</ol>", "10. a\n9. b\n");
    check("<ol type=a><li>a<li>b<li type=I>c</ol>", "a. a\nb. b\nIII. c\n");
    check("<ol style='list-style-type: upper-roman'><li>a<li>b</ol>", "I. a\nII. b\n");
    check("<style>ol.x{list-style:lower-alpha inside}</style><ol class=x start=27><li>a</ol>", "aa. a\n");
    check("<ol start=-1><li>a<li>b<li>c</ol>", "-1. a\n0. b\n1. c\n");
}

#[test]
fn hidden_text_is_left_out_and_counted() {
    check_hidden("a<p hidden>b</p><p>c", "a\n\nc\n", 1);
    check_hidden("a<p style='display:none'>b<div>c</div>", "a\n\nc\n", 1);
    check_hidden("<p hidden>a<p hidden>b<p>c", "c\n", 2);
    check_hidden("<div hidden>a<div>b</div>c</div><p hidden></p>d", "d\n", 1);
    check_hidden("a<div aria-hidden=true>decoration</div>", "a\n\ndecoration\n", 0);
    check_hidden("a <span style='visibility:hidden'>b<i style='visibility:visible'>c</i></span>", "a c\n", 1);
    check_hidden("a <span style='font-size:0'>b</span>", "a\n", 1);
    check_hidden("a <span style='color:#fff'>b</span>", "a\n", 1);
    check_hidden("<div style='background:navy'>a <span style='color:#fff'>b</span></div>", "a b\n", 0);
    check_hidden("<link rel=stylesheet href=x><b style='color:white'>a</b>", "a\n", 0);
    check_hidden("<table bgcolor=#000000><tr><td><font color=white>a</font></table>", "a\n", 0);
    check_hidden("<style>.gone,#x{display:none}</style><p class='b gone'>a</p><i id=x>b</i>c", "c\n", 2);
    check_hidden("<style>@media print{p{display:none}}</style><p>c", "c\n", 0);
    check_hidden("<noscript>no</noscript><dialog>no</dialog><details>yes</details>", "yes\n", 2);
    check_hidden("<p hidden=until-found>a", "a\n", 0);
    check_hidden("<ol><li>a<li hidden>b<li>c</ol>", "1. a\n2. c\n", 1);
    check_hidden("<table><tr><td>a<td style='display:none'>b<td>c</table>", "a | c\n", 1);
    check_hidden("<div style='position:absolute;left:-9999px'>a</div><p style='opacity:0'>b</p>c", "c\n", 2);
}

#[test]
fn fields_show_what_is_in_them() {
    check(
        "<input type=checkbox checked> Alarm<br><input type=checkbox> Lift<br><input type=radio checked>yes<input type=radio>no",
        "☒ Alarm\n☐ Lift\n◉ yes ○ no\n",
    );
    check(
        "Name: <input value='Olaf'><input type=hidden value=x><textarea>typed</textarea>",
        "Name: Olaf\n\ntyped\n",
    );
    check(
        "<a role=checkbox aria-checked=true>Alarm</a> <a role=radio aria-checked=false>x</a>",
        "☒ Alarm ○ x\n",
    );
    check("<select><option>red<option selected>blue</select>", "○ red\n◉ blue\n");
    check("<select multiple><option>red<option selected>blue</select>", "☐ red\n☒ blue\n");
    let many = "<option>x".repeat(199);
    check(&format!("<select>{many}<option selected>Wales</select>"), "◉ Wales\n(200 choices)\n");
    check("<input type=checkbox class=hidden id=menu>x", "x\n");
    check("a<img alt=b>c", "a [image: b] c\n");
    check("<img alt='A chart that shows 44 boats'> <img alt=''>", "[image: A chart that shows 44 boats]\n");
}

#[test]
fn struck_text_is_marked() {
    check("<p>Price <del>80</del> <ins>120</ins> <s>x <b>y</b></s>", "Price ~~80~~ 120 ~~x y~~\n");
    check("<b style='text-decoration: line-through'>a</b>b", "~~a~~b\n");
    check("<del><p>a</p><p>b</p></del>c", "~~a~~\n\n~~b~~\n\nc\n");
}

#[test]
fn deep_and_broken_pages_end() {
    let deep = "<div><ul><li><table><tr><td>".repeat(50_000) + "x";
    read("deep.html", deep.as_bytes());
    let ends = "<b>".repeat(100_000) + &"</i></td></p>".repeat(100_000) + "x";
    read("ends.html", ends.as_bytes());
    let math = "<math>".to_owned() + &"<mfrac>".repeat(100_000) + "x";
    read("math.html", math.as_bytes());
    let spans = "<table>".to_owned() + &"<tr><td colspan=1000000 rowspan=1000000>x<td>y".repeat(20_000);
    read("spans.html", spans.as_bytes());
    let rules = "<style>".to_owned()
        + &".a{color:red}".repeat(100_000)
        + "</style>"
        + &"<b class=a>".repeat(50_000)
        + "x";
    read("rules.html", rules.as_bytes());
    let scripts = "a<sup>1</sup>".repeat(200_000);
    read("scripts.html", scripts.as_bytes());
    for page in [
        "<",
        "<p",
        "</",
        "<!--",
        "<script>",
        "<title>",
        "&#x",
        "<pre>",
        "<![CDATA[",
        "</td></table></ul>",
        "<math>",
        "<select>",
        "<style>a{",
        "<sup>",
    ] {
        let _ = read_bytes("a.html", page.as_bytes(), &Limits::default());
    }
}

const CONTAINER: (&str, &str) =
    ("META-INF/container.xml", "<container><rootfile full-path='OEBPS/content.opf'/></container>");

#[track_caller]
fn check_book(package: &str, entries: &[(&str, &str)], wanted: &str, note: &str) {
    let all = [&[CONTAINER, ("OEBPS/content.opf", package)], entries].concat();
    let document = read("book.epub", &archive(&all));
    assert_eq!((document.text.as_str(), notes(&document).as_str()), (wanted, note), "{package}");
}

#[test]
fn chapters_are_found_however_they_are_named() {
    let package = |hrefs: &[&str], media_type: &str| {
        let items: String = hrefs
            .iter()
            .enumerate()
            .map(|(i, href)| {
                format!("<item id='{i}' href='{href}' media-type='{media_type}'/><itemref idref='{i}'/>")
            })
            .collect();
        format!("<package>{items}</package>")
    };
    let (one, two) = ("<p>One.</p>", "<p>Two.</p>");
    let xhtml = "application/xhtml+xml";
    let both = "One.\n\nTwo.\n";
    for (href, name) in [
        ("Caf%C3%A9.xhtml", "OEBPS/Cafe\u{301}.xhtml"),
        ("Cafe%CC%81.xhtml", "OEBPS/Café.xhtml"),
        ("Cafe\u{301}.xhtml", "OEBPS/Café.xhtml"),
        ("a%20b.xhtml", "OEBPS/a b.xhtml"),
        ("a%20b.xhtml", "OEBPS/a%20b.xhtml"),
        ("Two.xhtml", "OEBPS/two.XHTML"),
        ("../text/two.xhtml#begin", "text/two.xhtml"),
        ("/OEBPS/two.xhtml", "OEBPS/two.xhtml"),
        ("two.xhtml", "OEBPS/text/two.xhtml"),
    ] {
        check_book(&package(&["one.xhtml", href], xhtml), &[("OEBPS/one.xhtml", one), (name, two)], both, "");
    }
    for media_type in ["text/x-oeb1-document", "text/html", "application/octet-stream"] {
        check_book(
            &package(&["one.html", "two.htm"], media_type),
            &[("OEBPS/one.html", one), ("OEBPS/two.htm", two)],
            both,
            "",
        );
    }
    check_book(
        &package(&["one.xhtml", "gone.xhtml", "more.xhtml"], xhtml),
        &[("OEBPS/one.xhtml", one)],
        "One.\n",
        "2 chapters are missing: gone.xhtml, more.xhtml",
    );
}

/// No password opens a book of a shop.
#[test]
fn a_copy_protected_book_is_named() {
    let package = "<package><item id='1' href='1.xhtml' media-type='application/xhtml+xml'/><itemref idref='1'/></package>";
    let encryption = "<encryption><CipherReference URI='OEBPS/1.xhtml'/></encryption>";
    let book = archive(&[
        CONTAINER,
        ("OEBPS/content.opf", package),
        ("OEBPS/1.xhtml", "\u{1}"),
        ("META-INF/encryption.xml", encryption),
    ]);
    let error = read_bytes("book.epub", &book, &Limits::default()).expect_err("protected");
    assert_eq!(error.to_string(), "book.epub: it is copy-protected (DRM)");
    assert!(error.hint().contains("no password opens it"), "{}", error.hint());
}

#[test]
fn a_book_without_an_order_is_read_in_that_of_its_contents() {
    let item =
        |id: &str, href: &str| format!("<item id='{id}' href='{href}' media-type='application/xhtml+xml'/>");
    let pages: &[(&str, &str)] =
        &[("OEBPS/1.xhtml", "<p>One."), ("OEBPS/2.xhtml", "<p>Two."), ("OEBPS/10.xhtml", "<p>Ten.")];
    let items = item("a", "2.xhtml") + &item("b", "1.xhtml") + &item("c", "10.xhtml");
    check_book(&format!("<package>{items}</package>"), pages, "Two.\n\nOne.\n\nTen.\n", "");
    let ncx = "<ncx><navPoint><content src='1.xhtml#a'/></navPoint><navPoint><content src='2.xhtml'/></navPoint></ncx>";
    let with_ncx = [pages, &[("OEBPS/toc.ncx", ncx)]].concat();
    let ncx_item = "<item id='n' href='toc.ncx' media-type='application/x-dtbncx+xml'/>";
    check_book(&format!("<package>{items}{ncx_item}</package>"), &with_ncx, "One.\n\nTwo.\n\nTen.\n", "");
    // The spine comes first, then what only the contents lead to; the rest is counted.
    check_book(
        &format!("<package>{items}{ncx_item}<itemref idref='a'/></package>"),
        &with_ncx,
        "Two.\n\nOne.\n",
        "1 page is not in the book's order of reading, and left out",
    );
    let document =
        read("book.epub", &archive(&[("mimetype", "application/epub+zip"), pages[0], pages[2], pages[1]]));
    assert_eq!(document.text, "One.\n\nTwo.\n\nTen.\n", "no description: in the order of the names");
}

#[test]
fn a_book_without_any_chapter_names_them() {
    let package = "<package><item id='a' href='a.xhtml' media-type='application/xhtml+xml'/><itemref idref='a'/></package>";
    let book = archive(&[CONTAINER, ("OEBPS/content.opf", package)]);
    let error = read_bytes("book.epub", &book, &Limits::default()).expect_err("no chapter");
    assert_eq!(error.to_string(), "book.epub: it is damaged: 1 chapter is missing: a.xhtml");
}

/// A document all of whose text is hidden is not empty.
#[test]
fn a_document_without_visible_text_says_what_is_left_out() {
    let error = |page: &str| {
        read_bytes("a.html", page.as_bytes(), &Limits::default()).expect_err("no text").to_string()
    };
    assert_eq!(
        error("<p hidden>secret"),
        "a.html: none of its text is read: text that a reader does not see was left out in 1 place"
    );
    assert_eq!(error("<p>"), "a.html: the document is empty");
}

/// Texts in boxes of their own are no parts of one word.
#[test]
fn texts_in_boxes_are_apart() {
    let spans = |style: &str, texts: &[&str]| {
        texts.iter().map(|text| format!("<span style='{style}'>{text}</span>")).collect::<String>()
    };
    let div = |style: &str, inner: &str| format!("<div style='{style}'>{inner}</div>");
    let row = spans("", &["Rent", "2", "950"]);
    for display in ["flex", "grid", "inline-flex", "inline-grid"] {
        check(&div(&format!("display:{display}"), &row), "Rent 2 950\n");
        check(
            &format!("<p>a<b style='display:{display}'>{row}</b>b"),
            if display.starts_with("inline") { "a Rent 2 950 b\n" } else { "a\nRent 2 950\nb\n" },
        );
    }
    check(&div("display:flex", "2<b>950</b>7"), "2 950 7\n");
    check(&div("display:flex", &format!("<span>1<b>2</b></span>{row}")), "12 Rent 2 950\n");
    for style in [
        "display:table-cell",
        "float:left",
        "display:inline-block;width:5em",
        "display:inline-block;padding:0 1em",
        "padding-right:8px",
        "margin:0 .5em",
    ] {
        check(&format!("<p>{}", spans(style, &["R", "25", "4"]).replace(">25", "> 25")), "R 25 4\n");
    }
    check(&format!("<p>{}", spans("display:block", &["7", "8"])), "7\n8\n");
    check(
        &div("display:table", &div("display:table-row", &spans("display:table-cell", &["R", "25", "4"]))),
        "R 25 4\n",
    );
    check(&format!("<style>.fx{{display:flex}}</style><div class=fx>{row}</div>"), "Rent 2 950\n");
    // Parts of words stay, and so do numbers with a part that only looks otherwise.
    check(
        "<p><code style='padding:2px 4px'>Vec</code>s 20<b>24</b> <i style='display:inline-block'>19</i>50",
        "Vecs 2024 1950\n",
    );
}

/// The currency may be a word, and stand apart.
#[test]
fn raised_cents_are_no_powers() {
    check(
        "<p>only 12<sup>99</sup> &euro;, was $ 15<sup>50</sup>, price: 900<sup>00</sup><b> EUR</b>, 7<sup>12</sup> m",
        "only 12.99 €, was $ 15.50, price: 900.00 EUR, 7^12 m\n",
    );
    check("<table><tr><td>10<sup>12</sup><td>€ 5<sup>20</sup></table>", "10^12 | € 5.20\n");
}

#[test]
fn abbreviations_are_words() {
    let page = "<p>M<sup>me</sup> Curie et C<sup>ie</sup>, M<sup>lle</sup> B, x<sup>me</sup>";
    let text = read_bytes("a.html", page.as_bytes(), &Limits::default()).expect("a page").text;
    assert_eq!(text, "Mme Curie et Cie, Mlle B, x^me\n");
}

/// Most pages hide and strike out by rules that look at the elements around.
#[test]
fn rules_may_look_at_the_elements_around() {
    let page = |rules: &str, body: &str| format!("<style>{rules}</style>{body}");
    let hides = |rules: &str| {
        let body = "<div class=a id=i><section><p class='b c'>no</p></section><p class=d>yes</p></div>";
        check_hidden(&page(rules, body), "yes\n", 1);
    };
    for rules in [
        ".a .b{display:none}",
        "div.a section > p{display:none}",
        "#i > section p.b{display:none}",
        "body .c , .x > .b{display:none}",
        "section *{display:none}",
        ".a > section>.b { visibility: hidden }",
        ".a .b{display:none!important} .b.c{display:block}",
        ":root .b{display:none}",
        ".d{display:block} .a .b:not(.d){display:none}",
        "section p[class]{display:none}",
        "p[class~='b']{display:none}",
    ] {
        hides(rules);
    }
    for rules in [
        ".x .b{display:none}",
        ".a > .b{display:none}",
        ".d .b{display:none}",
        ".b .a{display:none}",
        ".a .b:hover{display:none}",
        ".a .b{display:none} .a section .b{display:block}",
        "p + .b{display:none}",
        ".a .b:not(.c){display:none}",
        "p[id]{display:none}",
    ] {
        check_hidden(&page(rules, "<div class=a><section><p class='b c'>no</p></section>"), "no\n", 0);
    }
    check(
        &page(
            ".old td s, .old .gone{text-decoration:line-through}",
            "<p class=old>was <b class=gone>80</b> now 70",
        ),
        "was ~~80~~ now 70\n",
    );
    check(
        &page(".old .gone{text-decoration:line-through}", "<p>was <b class=gone>80</b> now 70"),
        "was 80 now 70\n",
    );
    // What a control of the page opens can be read.
    let closed = ".pane:not(.show) , .tabs > .tab { display: none }";
    for body in [
        "<button data-bs-target='#a'>Price?</button><div id=a class=pane>90</div>",
        "<button aria-controls='b a'>Price?</button><div class=tabs><div id=a class=tab>90</div></div>",
        "<button>Price?</button><div class=tabs><div role=tabpanel class=tab>90</div></div>",
    ] {
        check_hidden(&page(closed, body), "Price?\n\n90\n", 0);
    }
    check_hidden(&page(closed, "<button>Price?</button><div id=a class=pane>90</div>"), "Price?\n", 1);
    check(&format!("<html class='no-js a'>{}", page(".no-js .b{display:none}", "<p class=b>yes")), "yes\n");
    // Of many elements within each other.
    let deep = page(".a .a .a > .b .c{display:none}", &"<div class=a><i class=b>".repeat(3000));
    assert!(
        documents::read_bytes("a.html", (deep + "<b class=c>x</b>y").as_bytes(), &Limits::default()).is_ok()
    );
}

/// Conditions hold as on a desktop.
#[test]
fn rules_may_be_in_blocks_and_look_at_neighbours() {
    let body = "<p class='a'>x</p><p class='b md:c'>no</p><p class=d>y</p>";
    let page = |rules: &str| format!("<style>{rules}</style>{body}");
    for rules in [
        "@layer base{.b{display:none}}",
        "@layer one,two; @layer two{.b{display:none}} @layer one{p.b{display:block}}",
        "@layer one{.b.b{display:block}} .b{display:none}",
        "@supports (display:grid){.b{display:none}}",
        "@media (min-width:600px){.b{display:none}}",
        "@media screen and (max-width:50px), (min-width:50em) { @supports (x:y) { .b{display:none} } }",
        "@import url('https://x/y?a;b'); .b{display:none}",
        "<!-- .b{display:none} -->",
        ".a + .b{display:none}",
        "p.a+p{display:none}",
        "p:nth-child(2){display:none}",
        "p:nth-child(even){display:none}",
        "p:not(.a, .d){display:none}",
        ":is(.b,.z){display:none}",
        ":where(p.b){display:none}",
        ".md\\:c{display:none}",
        ".b:not(:hover){display:none}",
        ".a{color:red; & + .b{display:none}}",
        "body{margin:0;.b{display:none}}",
        ".b{color:blue;@media (width > 300px){display:none}}",
        ".z{content:'}'} .b{display:none}",
        "p:not(:empty):not(.a, .d){display:none}",
        &format!("{}[class~=b]{{display:none}}", ".z p{color:red} ".repeat(100)),
    ] {
        check_hidden(&page(rules), "x\n\ny\n", 1);
    }
    for rules in [
        "@layer one,two; @layer two{.b{display:block}} @layer one{p.b{display:none}}",
        "@supports not (display:grid){.b{display:none}}",
        "@media (max-width:600px){.b{display:none}}",
        "@media (prefers-color-scheme:dark){.b{display:none}}",
        "@keyframes k{from{display:none}} @starting-style{.b{display:none}}",
        ".d + .b{display:none}",
        "p:nth-child(3n+4){display:none}",
        ".b:first-child{display:none}",
        ".b:is(.a,.z){display:none}",
        ".b:hover, .b:focus-within, .b::selection{display:none}",
        ".z ~ .y{display:none}",
        "p:empty{display:none}",
        "p:empty b, p:is(.z, :empty){display:none}",
        ".b{.a{display:none}}",
    ] {
        check_hidden(&page(rules), "x\n\nno\n\ny\n", 0);
    }
    // What is behind or in an element, the size of a box, and what one browser supports are not known.
    let many = format!(".b:not({}.b){{display:none}}", ".z,".repeat(40));
    let long = format!("{}.hidden{{color:red}}", ".z ".repeat(1_000));
    for rules in [
        ".a ~ .b{display:none}",
        "p.b:last-child{display:none}",
        ":empty + .b{display:none}",
        "@container (width > 9px){.b{opacity:0}}",
        "@supports (-ms-ime-align:auto){.b{display:none}}",
        "@supports (not (display:grid)){.b{display:none}}",
        "</style><style media='(min-aspect-ratio:1/1)'>.b{display:none}",
        "</style><style media='(min-aspect-ratio:1/1)'>.b{display:none}</style><style>.a{color:red}",
        &many,
    ] {
        let document = read("page.html", page(rules).as_bytes());
        assert_eq!(document.text, "x\n\nno\n\ny\n", "{rules}");
        assert_eq!(
            notes(&document),
            "rules of style that could not be read may hide text in 1 place; it was read",
            "{rules}"
        );
    }
    // A style sheet that is not read hides what is called so.
    for (body, places) in
        [("<p class='x sr-only'>a<p class=hidden>b<p class=y>c", 2), ("<p class=hidden-things>a", 0)]
    {
        let page = format!("<link rel=stylesheet href=x.css>{body}");
        let document = read("page.html", page.as_bytes());
        assert_eq!(document.notes.contains(&Note::UnreadStyles { places }), places > 0, "{page}");
        assert!(document.text.starts_with('a'));
    }
    check_hidden("<p class=hidden>a", "a\n", 0);
    let document = read("page.html", format!("<style>{long}</style><p class=hidden>a").as_bytes());
    assert_eq!(
        (document.text.as_str(), &document.notes[..]),
        ("a\n", &[Note::UnreadStyles { places: 1 }][..])
    );
    // Rules within each other, of which each names the one around it often.
    let mut nested = ".a{display:none}".to_owned();
    for _ in 0..40 {
        nested = format!(".a,.b{{&&&&&&&&&&,&{nested}}}");
    }
    read("nested.html", page(&nested).as_bytes());
    let rows = format!("<style>i + b{{display:none}}</style>{}", "<i>a</i>".repeat(200_000));
    read("rows.html", rows.as_bytes());
}

/// Those with an empty description are ornaments, unless they are figures.
#[test]
fn pictures_without_a_description_are_counted() {
    for (page, wanted, pictures) in [
        ("<p>a <img src=x.png> b<img src=y.png width=300>", "a b\n", 2),
        ("<p>a<img src=x.png alt=''>", "a\n", 0),
        ("<figure><img src=x.png alt=''><figcaption>a</figcaption></figure>", "a\n", 1),
        ("<p>a<img src=x.png title='A map'>", "a [image: A map]\n", 0),
        (
            "<p>a<img src=x.gif width=1 height=1><img src=x.gif style='width:100%;height:1px'><img src=i.png width=16 height=16>",
            "a\n",
            0,
        ),
        (
            "<p>a<img src=spacer.gif><img><img src=x.png role=presentation><img src=x.png style='display:none'>",
            "a\n",
            0,
        ),
        ("<p>a<p style='visibility:hidden'><img src=x.png>", "a\n", 0),
    ] {
        let document = read("page.html", page.as_bytes());
        let expected = match pictures {
            0 => String::new(),
            1 => "1 picture without text".to_owned(),
            _ => format!("{pictures} pictures without text"),
        };
        assert_eq!((document.text.as_str(), notes(&document)), (wanted, expected), "{page}");
    }
    let package = "<package><item id='1' href='1.xhtml' media-type='application/xhtml+xml'/><itemref idref='1'/></package>";
    let chapter =
        "<html><body><svg><image xlink:href='cover.png'/></svg><p>a<img src='x.png'/></p></body></html>";
    check_book(package, &[("OEBPS/1.xhtml", chapter)], "a\n", "2 pictures without text");
    // One that is attached stands in the text. Bytes of a picture that are text are left out, as damaged.
    let mail = "From: a@x\nMIME-Version: 1.0\nContent-Type: multipart/related; boundary=x\nTo: b@x\n\n--x\nContent-Type: text/html\n\n\
        <p>a<img src=cid:p>\n--x\nContent-Type: image/png\nContent-Disposition: inline\nContent-ID: <p>\n\nx\n--x--\n";
    let document = read("a.eml", mail.as_bytes());
    assert_eq!(document.text, "From: a@x\nTo: b@x\n\na\n");
    assert_eq!(notes(&document), "1 picture without text; 1 file in it left out: attachment");
}

#[test]
fn lists_have_the_styles_that_the_page_defines() {
    let list = |rules: &str, more: &str| {
        format!("<meta charset=utf-8><style>{rules}</style><ol {more}><li>a<li>b</ol>")
    };
    for (rules, more, wanted) in [
        ("@counter-style x{system:cyclic;symbols:'★' '☆';suffix:' '} ol{list-style:x}", "", "★ a\n☆ b\n"),
        (
            "@counter-style Clause{system:extends decimal;prefix:'Art. ';suffix:':'} ol{list-style-type:Clause}",
            "start=7",
            "Art. 7: a\nArt. 8: b\n",
        ),
        ("ol{list-style-type:later} @counter-style later{system:fixed;symbols:one}", "", "one. a\n2. b\n"),
        ("ol{list-style-type:'→ '}", "", "→ a\n→ b\n"),
        ("ol{list-style:hebrew}", "start=15", "טו. a\nטז. b\n"),
        ("ol{list-style:no-such-style}", "", "1. a\n2. b\n"),
        (
            "@counter-style x{system:additive;additive-symbols:10 X,1 I} li{list-style:none;counter-increment:k} \
             li::before{content:counter(k, x) ')'}",
            "",
            "I) a\nII) b\n",
        ),
    ] {
        check(&list(rules, more), wanted);
    }
    let bullets = read("page.html", b"<ul><li>a<li>b</ul>").text;
    check("<style>ul{list-style:none\\9}</style><ul><li>a<li>b</ul>", &bullets);
}

/// Signs of currencies and words change what is said; ornaments do not.
#[test]
fn texts_before_and_behind_elements_are_read() {
    for (page, wanted) in [
        ("<style>.p::before{content:'\\20ac'}</style><p>at <b class=p>5</b>", "at €5\n"),
        ("<style>.p::after{content:' USD'}</style><p>at <b class=p>5</b>, now", "at 5 USD, now\n"),
        ("<style>.n:before{content:'Note:'}</style><p class=n>read", "Note: read\n"),
        ("<style>.n:before{font-family:Lato;content:'Note: '}</style><p class=n>read", "Note: read\n"),
        (
            "<style>.p:after{content:attr(data-unit)}</style><p><b class=p data-unit=kg>5</b> <b class=p>6</b>",
            "5kg 6\n",
        ),
        (
            "<style>p{counter-reset:k}b:after{counter-increment:k;content:' ' counter(k)}</style><p><b>a</b>, <b>b</b>.",
            "a 1, b 2.\n",
        ),
        // Ornaments, icons, what is hidden, hints.
        (
            "<style>b:before{content:'»'}i:before{content:'search';font-family:Material Icons}u:after{content:'x';display:none}\
             s:after{content:attr(title);position:absolute}</style><p><b>1</b> <i>2</i> <u>3</u> <s title=hint>4</s>",
            "1 2 3 ~~4~~\n",
        ),
        ("<style>.p:after{content:' EUR'}</style><p>a<b class=p hidden>5</b>", "a\n"),
        ("<style>.i{font:14px/1 FontAwesome}.i:before{content:'a'}</style><p><b class=i></b> home", "home\n"),
    ] {
        check(&format!("<meta charset=utf-8>{page}"), wanted);
    }
}

#[test]
fn books_and_saved_pages_have_styles_of_their_own() {
    let package = "<package><item id='1' href='text/one.xhtml' media-type='application/xhtml+xml'/><itemref idref='1'/></package>";
    let chapter = "<html><head><link rel='stylesheet' href='../css/b%20c.css' type='text/css'/></head>\
        <body><p class='x'>no</p><p>was <span class='old'>80</span> now 70</p><p class='y'>no</p></body></html>";
    let sheets = [
        ("OEBPS/text/one.xhtml", chapter),
        ("OEBPS/css/b c.css", "@import url(\"more.css\"); body .x { display: none }"),
        (
            "OEBPS/css/more.css",
            "@import 'b c.css'; .old { text-decoration: line-through } .y { display: none }",
        ),
    ];
    let note = "text that a reader does not see was left out in 2 places";
    check_book(package, &sheets, "was ~~80~~ now 70\n", note);
    for (condition, wanted, places) in [
        ("layer(x) supports(display:grid) screen", "b\n", 1),
        ("layer screen and (max-width: 9px)", "a\n\nb\n", 0),
        ("print", "a\n\nb\n", 0),
        ("supports(not (display:grid))", "a\n\nb\n", 0),
    ] {
        let chapter = format!("<style>@import 'x.css' {condition};</style><p class='x'>a</p><p>b</p>");
        let note = if places > 0 { "text that a reader does not see was left out in 1 place" } else { "" };
        let entries = [("OEBPS/text/one.xhtml", chapter.as_str()), ("OEBPS/text/x.css", ".x{display:none}")];
        check_book(package, &entries, wanted, note);
    }
    // One that is missing hides nothing.
    check_book(package, &sheets[..1], "no\n\nwas 80 now 70\n\nno\n", "");

    let saved = |location: &str, link: &str| {
        format!(
            "From: <Saved by Blink>\r\nMIME-Version: 1.0\r\nContent-Type: multipart/related; type=\"text/html\"; boundary=x\r\n\r\n\
             --x\r\nContent-Type: text/html\r\nContent-Location: http://x/y/a.html\r\n\r\n<link rel=stylesheet href=\"{link}\"><p class=b>no</p><p>yes\r\n\
             --x\r\nContent-Type: text/css\r\n{location}\r\n\r\n.b {{ display: none }}\r\n--x--\r\n"
        )
    };
    for (location, link) in [
        ("Content-Location: http://x/y/a.css", "http://x/y/a.css"),
        ("Content-Location: cid:css-1@mhtml.blink", "cid:css-1@mhtml.blink"),
        ("Content-ID: <css-2@x>", "cid:css-2@x"),
    ] {
        let document = read("a.mht", saved(location, link).as_bytes());
        assert_eq!(document.text, "yes\n", "{location}");
        assert_eq!(notes(&document), "text that a reader does not see was left out in 1 place");
    }
}

/// A table with a header keeps its columns, whatever is in its cells.
#[test]
fn a_table_in_a_cell_does_not_break_the_row() {
    check(
        "<table><tr><th>Name<th>Sizes<th>Price<tr><td>Cup<td><table><tr><td>S<td>8<tr><td>L<td>9</table><td>70\
         <tr><td>Jug<td>one<td>90</table>",
        "Name | Sizes | Price\nCup | S, 8; L, 9 | 70\nJug | one | 90\n",
    );
    check(
        "<table><thead><tr><td>A<td>B<tbody><tr><td>see <table><caption>Parts</caption><tr><th>p<td>q</table> there<td>7</table>",
        "A | B\nsee Parts; p, q there | 7\n",
    );
    // Text that only a table arranges is not one cell.
    check("<table><tr><td>a<table><tr><td>b<td>c</table><td>d</table>", "a\n\nb | c\n\nd\n");
}

/// A page need not write its body, to which rules belong all the same.
#[test]
fn rules_know_a_body_that_is_not_written() {
    let rules = "body{counter-reset:s}h2{counter-reset:t}h2::before{counter-increment:s;content:counter(s) '. '}\
        h3::before{counter-increment:t;content:counter(s) '.' counter(t) ' '}body>i,html i.x{display:none}";
    let page = "<h2>A</h2><h3>In</h3><h3>Out</h3><h2>B</h2><h3>Last</h3><i>no</i><p>yes <i class=x>no</i>";
    let wanted = "## 1. A\n\n### 1.1 In\n\n### 1.2 Out\n\n## 2. B\n\n### 2.1 Last\n\nyes\n";
    check(&format!("<!doctype html><style>{rules}</style>{page}"), wanted);
    check(&format!("<!doctype html><html><head><style>{rules}</style></head><body>{page}"), wanted);
    check(&format!("<!doctype html><style>{rules}</style>text {page}"), &format!("text\n\n{wanted}"));
}

#[test]
fn raised_text_in_raised_text_keeps_its_place() {
    check(
        "<!doctype html><p>e<sup>x<sup>2</sup></sup>, a<sub>i<sub>j+1</sub></sub>y, 10<sup>n<sub>k</sub></sup>m, \
         <sup><span style='vertical-align:super'>2</span></sup>H",
        "e^(x^2), a_(i_(j+1)) y, 10^(n_k) m, ^2H\n",
    );
    // What ends with its line keeps its sign, and other marks beside it begin nothing.
    check("<!doctype html><p>a<sup>b<sub>c<br>d", "a^(b_c)\nd\n");
    let marks = "<!doctype html><style>sup a{vertical-align:super}</style><p>";
    for (text, wanted) in [
        ("word<sup><a href=x>3</a></sup><sup><a href=y>4</a></sup>", "word[34]\n"),
        ("text<sup>1</sup><sup><a href=x>2</a></sup>", "text[12]\n"),
        ("text<sup>1</sup><sup><sup>2</sup></sup>", "text[12]\n"),
        ("text<sup><a href=x>1</a></sup><sup>, </sup><sup><a href=y>2</a></sup>", "text[1, 2]\n"),
        ("x<sup>[<a href=x>1</a>]</sup>", "x[1]\n"),
    ] {
        check(&format!("{marks}{text}"), wanted);
    }
    // Very deep ones have no signs of their own, and cost no more than their length.
    check(
        &format!("<!doctype html><p>x{}", "<sup>a<sup>b".repeat(6)),
        "x^(a^(b^(a^(b^(a^(b^(a^(b^abab))))))))\n",
    );
    read("page.html", format!("<!doctype html><p>x{}", "<sup>a + <sup>b ".repeat(600_000)).as_bytes());
}

#[test]
fn signs_of_style_sheets_that_say_yes_or_no_are_read() {
    check(
        "<!doctype html><style>.y::before{content:'\\2714'}.n::before{content:'\\2718 '}p::before{content:'\\2022'}</style>\
         <ul><li class=y>Alarm<li class=n>Lift</ul><p>Note",
        "✔ Alarm\n✘ Lift\n\nNote\n",
    );
}

/// Tables and their cells grow with their text. What one rule hides, another shows only by the same property.
#[test]
fn small_boxes_hide_only_what_is_cut_off() {
    for style in [
        "td{width:5%;overflow:hidden}",
        "td.k{width:1%;white-space:nowrap;overflow:hidden}",
        "td{max-width:1px;overflow:hidden;text-overflow:ellipsis}",
        "td{max-width:0;overflow:hidden;text-overflow:ellipsis}",
        "tr{height:1px}td{height:1px;overflow:hidden}",
        "td{width:1px;height:1px;overflow:hidden}",
    ] {
        check(
            &format!("<!doctype html><style>{style}</style><table><tr><td class=k>Sum<td>13</table>"),
            "Sum | 13\n",
        );
    }
    for (rules, places) in [
        (".c{height:1%;overflow:hidden}", 0),
        (".a{width:0;flex:1}.b{overflow:hidden}", 0),
        (".a{width:0}.b{overflow:hidden}", 0),
        (".a{height:0;overflow:hidden}.b{height:auto}", 0),
        (".a{height:0;overflow:hidden}.b{width:auto}", 1),
        (".a{opacity:0;filter:alpha(opacity=0)}", 1),
        (".a{opacity:0}.b{transform:none}", 1),
        (".a{opacity:0}.b{opacity:1}", 0),
    ] {
        let page = format!("<!doctype html><style>{rules}</style><div class='a b c'>in the box</div><p>end");
        check_hidden(&page, if places > 0 { "end\n" } else { "in the box\n\nend\n" }, places);
    }
}

#[test]
fn letters_that_show_their_background_are_seen() {
    check_hidden(
        "<!doctype html><style>h1{color:transparent;background:linear-gradient(red,blue);-webkit-background-clip:text}</style>\
         <h1>Seen</h1><p style='color:transparent'>hidden</p><p>end",
        "# Seen\n\nend\n",
        1,
    );
}

/// The foot of a table may be written before the rows that it stands below.
#[test]
fn the_foot_of_a_table_stands_below_it() {
    let foot = "<tfoot><tr><td>Total<td>18</tfoot>";
    let (rows, wanted) =
        ("<tbody><tr><td>Jan<td>8<tr><td>Feb<td>10", "Month | Rent\nJan | 8\nFeb | 10\nTotal | 18\n");
    let head = "<!doctype html><table><thead><tr><th>Month<th>Rent</thead>";
    check(&format!("{head}{foot}{rows}</table>"), wanted);
    check(&format!("{head}{rows}{foot}</table>"), wanted);
    check(&format!("{head}{foot}{rows}"), wanted);
    check(&format!("{head}<tfoot><tr><td>Total<td>18{rows}</table>"), wanted);
    let inner = format!(
        "<table><tfoot><tr><td>a<td><table>{foot}<tr><td>b<td>c</table></tfoot><tr><td>d<td>e</table>"
    );
    check(&format!("<!doctype html>{inner}<p>end"), "d | e\na\n\nTotal | 18\nb | c\n\nend\n");
    // A table need not end itself, and its page may end.
    check(
        "<!doctype html><table><tfoot><tr><td>Sum<td>9</tfoot><tr><td>a<td>8</body></html>",
        "a | 8\nSum | 9\n",
    );
    // The foot of a hidden table is hidden, too.
    check_hidden(
        "<!doctype html><table><tr><td>a<td>b<table hidden><tfoot><tr><td>no</tfoot></table><tr><td>c<td>d</table>",
        "a | b\nc | d\n",
        1,
    );
    // One that is too large to wait is written where it stands.
    let large = format!("<tfoot><tr><td>Sum{}<td>9</tfoot>", "<i></i>".repeat(60_000));
    check(&format!("<!doctype html><table>{large}<tr><td>a<td>8</table>"), "Sum | 9\na | 8\n");
    let deep = "<table><tfoot><tr><td>".repeat(20_000);
    assert!(read("page.html", format!("<!doctype html>{deep}x").as_bytes()).text.contains('x'));
}

#[test]
fn roles_of_tables_make_tables() {
    let header = "<div role=row><span role=columnheader>Item</span><span role=columnheader>2023</span>\
        <span role=columnheader>2024</span></div>";
    let page = format!(
        "<p>Before<div role=table><div role=rowgroup><div>{header}</div></div><div role=rowgroup>\
         <div role=row><div role=rowheader>Sales</div><div role=cell></div><div role=cell><p>20</p></div></div>\
         <div><div role=row><div role=rowheader aria-colspan=2>Since</div><div role=cell>7</div></div></div>\
         </div></div><p>After<div role=row>no table</div>"
    );
    check(&page, "Before\n\nItem | 2023 | 2024\nSales | | 20\nSince | | 7\n\nAfter\n\nno table\n");
    // A table that scripts handle keeps its header.
    let grid = "<table role=grid><thead role=rowgroup><tr role=row><td role=columnheader>A<td>B<tbody>\
        <tr role=row><td><td role=gridcell>1</table>";
    check(grid, "A | B\n| 1\n");
    // A row by its role is none of a table around it.
    check("<table><tr><td>a<div role=row>b</div><td>c</table>", "a b | c\n");
}
