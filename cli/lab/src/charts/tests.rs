//! Charts of known numbers, and of any: the SVG is well-formed, and everything is in the picture.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::axis::{Ruler, number};
use super::svg::{NAME, clean, shortened, width};
use super::*;

/// An element of an SVG file.
#[derive(Debug)]
struct Element {
    name: String,
    attributes: HashMap<String, String>,
    text: String,
}

impl Element {
    fn number(&self, attribute: &str) -> f64 {
        self.attributes[attribute].parse().unwrap_or_else(|_| panic!("{attribute} of {self:?}"))
    }

    fn points(&self) -> Vec<(f64, f64)> {
        let number = |text: &str| text.parse::<f64>().expect("a number");
        let point = |text: &str| text.split_once(',').map(|(x, y)| (number(x), number(y))).expect("a point");
        self.attributes["points"].split_whitespace().map(point).collect()
    }
}

/// The elements of a well-formed SVG file, in the order of their ends.
fn elements(svg: &str) -> Vec<Element> {
    let is_allowed = |c: char| c == '\n' || (c >= ' ' && !('\u{fffe}'..='\u{ffff}').contains(&c));
    assert!(svg.chars().all(is_allowed), "a character that XML forbids");
    let element = |start: &BytesStart| {
        let attributes = start.attributes().map(|attribute| {
            let attribute = attribute.expect("a well-formed attribute");
            (attribute.key.as_ref().to_owned(), attribute.value.into_owned())
        });
        let name = start.name().as_ref().to_owned();
        Element { name, attributes: attributes.collect(), text: String::new() }
    };
    let mut reader = Reader::from_str(svg);
    let (mut open, mut done) = (Vec::<Element>::new(), Vec::new());
    loop {
        match reader.read_event().expect("well-formed XML") {
            Event::Start(start) => open.push(element(&start)),
            Event::Empty(start) => done.push(element(&start)),
            Event::End(_) => done.push(open.pop().expect("an open element")),
            Event::Text(text) => {
                if let Some(element) = open.last_mut() {
                    element.text += &text;
                }
            }
            Event::GeneralRef(name) => {
                let text = match &*name {
                    "amp" => '&',
                    "lt" => '<',
                    "gt" => '>',
                    "quot" => '"',
                    other => panic!("the entity {other}"),
                };
                open.last_mut().expect("an open element").text.push(text);
            }
            Event::Eof => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(open.is_empty());
    done
}

fn named<'a>(elements: &'a [Element], name: &str) -> Vec<&'a Element> {
    elements.iter().filter(|element| element.name == name).collect()
}

fn series(name: &str, points: &[(f64, f64)]) -> Series {
    Series { name: name.to_owned(), points: points.to_vec(), errors: Vec::new() }
}

fn lines() -> Plot {
    let x =
        Axis { label: "KV cache kept".into(), is_log: true, numbers: Numbers::Percent, ..Axis::default() };
    Plot {
        title: "Recall by share of the KV cache".into(),
        x: X::Numbers(x),
        y: Axis { label: "correct answers".into(), range: Some((0.0, 1.0)), ..Axis::default() },
        series: vec![
            series("razor", &[(0.05, 0.62), (0.2, 0.93), (1.0, 0.96)]),
            series("h2o", &[(0.05, 0.31), (0.2, 0.61), (1.0, 0.9)]),
        ],
        reference: Some(("full cache".into(), 0.96)),
    }
}

fn bars() -> Plot {
    Plot {
        title: "Score by task".into(),
        x: X::Groups(vec!["one needle".into(), "several needles".into()]),
        series: vec![series("razor", &[(0.0, 0.98), (1.0, 0.91)]), series("h2o", &[(0.0, 0.71)])],
        ..lines()
    }
}

fn map() -> HeatMap {
    HeatMap {
        title: "Needles found".into(),
        x_label: "tokens".into(),
        y_label: "policy".into(),
        columns: ["4k", "32k", "128k"].map(str::to_owned).to_vec(),
        rows: ["razor", "h2o"].map(str::to_owned).to_vec(),
        cells: vec![vec![Some(1.0), Some(0.97), Some(0.91)], vec![Some(0.62), Some(0.07), None]],
        range: Some((0.0, 1.0)),
        numbers: Numbers::Percent,
        is_plain: false,
    }
}

#[test]
fn pictures_name_themselves_and_show_their_numbers() {
    for (svg, title, texts) in [
        (lines().svg(), "Recall by share of the KV cache", ["20%", "razor", "full cache"]),
        (bars().svg(), "Score by task", ["0.98", "several needles", "h2o"]),
        (map().svg(), "Needles found", ["97%", "128k", "–"]),
    ] {
        let svg = elements(&svg);
        assert_eq!(named(&svg, "svg")[0].attributes["role"], "img");
        assert_eq!(named(&svg, "title")[0].text, title);
        let background = named(&svg, "rect")[0];
        assert_eq!(background.attributes["width"], named(&svg, "svg")[0].attributes["width"]);
        for text in texts {
            assert!(named(&svg, "text").iter().any(|element| element.text == text), "{title}: {text}");
        }
    }
}

#[test]
fn foreign_text_is_escaped() {
    let name = "<script>alert(\"1\")</script> & 'x' ]]>";
    let mut chart = lines();
    chart.title = name.to_owned();
    chart.series[0].name = "</text><a href=\"x\">".to_owned();
    let svg = elements(&chart.svg());
    assert!(named(&svg, "script").is_empty() && named(&svg, "a").is_empty());
    assert_eq!(named(&svg, "title")[0].text, name);
    assert!(named(&svg, "text").iter().any(|text| text.text == "</text><a href=\"x\">"));
    assert_eq!(clean("  a\0b\x1b[31m\n\tc\u{202e}d\u{200b}e\u{ffff}\u{9b}  "), "ab[31m cde");
    assert_eq!(clean(&"x".repeat(201)), "x".repeat(199) + "…");
}

#[test]
fn points_and_error_bars_are_where_their_numbers_are() {
    let mut chart = lines();
    chart.series[0].errors = vec![0.1, 0.0, 0.2];
    chart.series[1].errors = vec![f64::NAN];
    let svg = elements(&chart.svg());
    let find = |text: &str| {
        let found = named(&svg, "text").into_iter().find(|element| element.text == text);
        found.unwrap_or_else(|| panic!("no {text}"))
    };
    let razor = named(&svg, "polyline").into_iter().find(|line| line.points().len() == 3).expect("razor");
    let (x, y) = razor.points()[1];
    assert!((x - find("20%").number("x")).abs() < 0.02);
    let height = |text: &str| find(text).number("y") - 4.3;
    assert!((y - (height("0.8") + 0.65 * (height("1.0") - height("0.8")))).abs() < 0.05, "0.93");
    let unit = height("1.0") - height("0.8");
    let errors: Vec<_> = named(&svg, "polyline")
        .into_iter()
        .filter(|line| line.attributes["stroke"] == "#ffffff" && line.points().len() == 6)
        .map(|line| {
            line.points().iter().map(|(_, y)| *y).fold((f64::MAX, 0.0f64), |(a, b), y| (a.min(y), b.max(y)))
        })
        .collect();
    // Of the first and the third point, which is not above 1.
    assert_eq!(errors.len(), 2);
    let lengths = errors.iter().map(|(high, low)| 0.2 * (high - low) / unit).collect::<Vec<_>>();
    assert!((lengths[0] - 0.2).abs() < 0.001 && (lengths[1] - 0.24).abs() < 0.001, "{lengths:?}");
}

#[test]
fn what_is_too_much_is_left_out_and_said() {
    let many = |count| (0..count).map(|_| series("x", &[(1.0, 0.5)])).collect();
    assert!(Plot { series: many(14), ..lines() }.svg().contains("not shown: 2 of 14 series"));
    assert!(Plot { series: many(9), ..bars() }.svg().contains("not shown: 1 of 9 series"));
    let rows = (0..70).map(|row| row.to_string()).collect();
    assert!(HeatMap { rows, ..map() }.svg().contains("not shown: 6 of 70 rows"));
    assert!(Plot { series: Vec::new(), ..lines() }.svg().contains("no data"));
    let columns = (0..32).map(|part| format!("{part} of 32")).collect();
    let svg = elements(&HeatMap { columns, is_plain: true, ..map() }.svg());
    let names = named(&svg, "text").iter().filter(|text| text.text.ends_with("of 32")).count();
    assert!((8..32).contains(&names), "{names}");
}

#[test]
fn ticks_are_round_and_enclose_the_values() {
    let labels = |is_log, numbers, values: &[f64], count| -> Vec<String> {
        let axis = Axis { is_log, numbers, ..Axis::default() };
        let ruler = Ruler::new(&axis, values.iter().copied(), count);
        ruler.ticks.into_iter().map(|(_, text)| text).collect()
    };
    let plain = |values: &[f64], count| labels(false, Numbers::Plain, values, count);
    assert_eq!(plain(&[0.13, 0.87], 5), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    assert_eq!(plain(&[-3.0, 12.0], 5), ["−5", "0", "5", "10", "15"]);
    assert_eq!(plain(&[0.0, 3e9], 3), ["0", "1e9", "2e9", "3e9"]);
    assert_eq!(plain(&[f64::NAN, f64::INFINITY, -1e300], 2), ["0.0", "0.5", "1.0"]);
    assert_eq!(labels(false, Numbers::Percent, &[0.0, 1.0], 4), ["0%", "50%", "100%"]);
    let log = |values: &[f64], count| labels(true, Numbers::Plain, values, count);
    assert_eq!(log(&[3.0, 70.0], 7), ["2", "5", "10", "20", "50", "100"]);
    assert_eq!(log(&[0.002, 3000.0], 7), ["0.001", "0.01", "0.1", "1", "10", "100", "1000", "10000"]);
    assert_eq!(log(&[1.0], 5), ["0.5", "1", "2"]);
    assert_eq!(log(&[-5.0, 0.0], 5), ["1", "2", "5", "10"]);
    assert_eq!([number(0.934, 0.01, Numbers::Plain), number(-0.001, 0.01, Numbers::Plain)], ["0.93", "0.00"]);
}

#[test]
fn a_shortened_name_keeps_both_ends() {
    let name = "razor:sinks=4,window=1024,heads=7";
    assert_eq!(shortened(name, NAME, 500.0), name);
    let cut = shortened(name, NAME, 120.0);
    assert!(cut.starts_with("razor:s") && cut.contains('…') && cut.ends_with("s=7"), "{cut}");
    assert!(width(&cut, NAME) <= 120.0);
    assert_eq!(shortened(name, NAME, 1.0), "");
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        3 => -2.0..2.0,
        2 => -1e6..1e6,
        2 => proptest::num::f64::ANY,
        1 => prop::sample::select(vec![0.0, -0.0, 1.0, 1e100, -1e100, 1e-100, 1e16, 1e16 + 2.0, f64::MAX]),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z]{0,12}",
        2 => any::<String>(),
        1 => "[a-zA-Z0-9 _<>&'\"\u{1}\u{202e}船é-]{0,400}",
    ]
}

fn axis() -> impl Strategy<Value = Axis> {
    let numbers = prop::sample::select(vec![Numbers::Plain, Numbers::Percent]);
    (name(), any::<bool>(), numbers, option::of((value(), value())))
        .prop_map(|(label, is_log, numbers, range)| Axis { label, is_log, numbers, range })
}

fn any_plot() -> impl Strategy<Value = Plot> {
    let x = prop_oneof![axis().prop_map(X::Numbers), vec(name(), 0..30).prop_map(X::Groups)];
    let series = (name(), vec((prop_oneof![value(), 0.0..30.0], value()), 0..9), vec(value(), 0..9));
    let series = series.prop_map(|(name, points, errors)| Series { name, points, errors });
    (name(), x, axis(), vec(series, 0..14), option::of((name(), value())))
        .prop_map(|(title, x, y, series, reference)| Plot { title, x, y, series, reference })
}

fn any_map() -> impl Strategy<Value = HeatMap> {
    let cells = vec(vec(option::of(value()), 0..9), 0..9);
    let range = option::of((value(), value()));
    ((name(), name(), name()), vec(name(), 0..12), vec(name(), 0..12), cells, range, any::<bool>()).prop_map(
        |((title, x_label, y_label), columns, rows, cells, range, is_plain)| {
            let numbers = if is_plain { Numbers::Percent } else { Numbers::Plain };
            HeatMap { title, x_label, y_label, columns, rows, cells, range, numbers, is_plain }
        },
    )
}

fn check(svg: &str) {
    // Numbers are in tags, names between them.
    let mut tags = svg.split('<').filter_map(|part| part.split('>').next());
    assert!(tags.all(|tag| !tag.contains("NaN") && !tag.contains("inf")), "{svg}");
    let elements = elements(svg);
    let size = ["width", "height"].map(|side| named(&elements, "svg")[0].number(side));
    for text in named(&elements, "text") {
        let at = [text.number("x"), text.number("y")];
        assert!(at[0] >= 0.0 && at[1] >= 0.0 && at[0] <= size[0] && at[1] <= size[1], "{text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_plot_is_drawn(chart in any_plot()) {
        check(&chart.svg());
    }

    #[test]
    fn any_heat_map_is_drawn(chart in any_map()) {
        check(&chart.svg());
    }
}
