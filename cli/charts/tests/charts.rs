//! Charts of known numbers, in both formats.

mod common;

use std::path::Path;

use charts::{Axis, BarChart, BarSeries, Chart, HeatMap, LineChart, Numbers, Reference, Scale, Series};

use common::{Element, Pixels, assert_texts_have_room, elements, named};

fn line_chart() -> LineChart {
    let line = |name: &str, points: &[(f64, f64)]| Series {
        name: name.to_owned(),
        points: points.to_vec(),
        ..Series::default()
    };
    LineChart {
        title: "Recall by share of the KV cache".to_owned(),
        x: Axis {
            label: "KV cache kept".to_owned(),
            scale: Scale::Log,
            numbers: Numbers::Percent,
            range: None,
        },
        y: Axis { label: "correct answers".to_owned(), range: Some((0.0, 1.0)), ..Axis::default() },
        series: vec![
            line("razor", &[(0.05, 0.62), (0.2, 0.93), (1.0, 0.96)]),
            line("h2o", &[(0.05, 0.31), (0.2, 0.61), (1.0, 0.9)]),
        ],
        references: vec![Reference { name: "full cache".to_owned(), value: 0.96 }],
    }
}

fn bar_chart() -> BarChart {
    let bars = |name: &str, values: &[Option<f64>]| BarSeries {
        name: name.to_owned(),
        values: values.to_vec(),
        ..BarSeries::default()
    };
    BarChart {
        title: "Score by task".to_owned(),
        y: Axis { label: "score".to_owned(), range: Some((0.0, 1.0)), ..Axis::default() },
        groups: vec!["one needle".to_owned(), "several needles".to_owned()],
        series: vec![
            bars("razor", &[Some(0.98), Some(0.91)]),
            bars("snapkv", &[Some(0.8), None]),
            bars("h2o", &[Some(0.71), Some(0.48)]),
            bars("streaming", &[Some(0.2), Some(0.12)]),
        ],
        references: vec![Reference { name: "full cache".to_owned(), value: 0.95 }],
    }
}

fn heat_map() -> HeatMap {
    HeatMap {
        title: "Needles found".to_owned(),
        x_label: "tokens".to_owned(),
        y_label: "policy".to_owned(),
        columns: ["4k", "32k", "128k"].map(str::to_owned).to_vec(),
        rows: ["razor", "h2o"].map(str::to_owned).to_vec(),
        cells: vec![vec![Some(1.0), Some(0.97), Some(0.91)], vec![Some(0.62), Some(0.07), None]],
        range: Some((0.0, 1.0)),
        numbers: Numbers::Percent,
        is_plain: false,
    }
}

/// The file has this SVG. With `UPDATE_GOLDEN=1` it is written anew: look at it before it is committed.
fn assert_golden(name: &str, chart: &dyn Chart) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let svg = chart.svg();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &svg).expect("written");
    }
    let golden = std::fs::read_to_string(&path).expect("a golden file");
    assert!(svg == golden, "{name} differs; UPDATE_GOLDEN=1 writes it anew:\n{svg}");
}

#[test]
fn charts_are_as_they_were() {
    assert_golden("line.svg", &line_chart());
    assert_golden("bar.svg", &bar_chart());
    assert_golden("heat-map.svg", &heat_map());
}

#[test]
fn the_picture_names_itself() {
    let charts: [&dyn Chart; 3] = [&line_chart(), &bar_chart(), &heat_map()];
    let titles = ["Recall by share of the KV cache", "Score by task", "Needles found"];
    for (chart, title) in charts.into_iter().zip(titles) {
        let svg = elements(&chart.svg());
        assert_eq!(named(&svg, "svg")[0].attributes["role"], "img");
        assert_eq!(named(&svg, "title")[0].text, title);
        assert!(!named(&svg, "desc")[0].text.is_empty());
        let background = named(&svg, "rect")[0];
        assert_eq!(background.attributes["fill"], "#ffffff");
        assert_eq!(background.attributes["width"], named(&svg, "svg")[0].attributes["width"]);
    }
}

#[test]
fn foreign_text_is_escaped() {
    let name = "<script>alert(\"1\")</script> & 'x' ]]>";
    let mut chart = line_chart();
    chart.title = name.to_owned();
    chart.y.label = name.to_owned();
    chart.series[0].name = "</text><a href=\"x\">".to_owned();
    let svg = elements(&chart.svg());
    assert!(named(&svg, "script").is_empty() && named(&svg, "a").is_empty());
    assert_eq!(named(&svg, "title")[0].text, name);
    let texts: Vec<&str> = named(&svg, "text").into_iter().map(|text| text.text.as_str()).collect();
    assert!(texts.contains(&name) && texts.contains(&"</text><a href=\"x\">"), "{texts:?}");
}

#[test]
fn a_line_is_where_its_numbers_are() {
    let svg = elements(&line_chart().svg());
    let text = |content: &str| {
        let found = named(&svg, "text").into_iter().find(|text| text.text == content);
        found.unwrap_or_else(|| panic!("no {content}")).text_box()
    };
    let middle = |content: &str| {
        let [left, top, right, bottom] = text(content);
        // Digits have no descenders.
        ((left + right) / 2.0, (top + bottom - 0.21 * 12.0) / 2.0)
    };
    // 0.93 at 20%: between the ticks 0.8 and 1.0.
    let line = named(&svg, "polyline").into_iter().find(|line| line.points().len() == 3).expect("razor");
    let (x, y) = line.points()[1];
    assert!((x - middle("20%").0).abs() < 0.5, "{x}");
    let expected = middle("0.8").1 + (0.93 - 0.8) / 0.2 * (middle("1.0").1 - middle("0.8").1);
    assert!((y - expected).abs() < 0.5, "{y}, not {expected}");
}

/// The lines of error bars are the only ones with white around them.
fn error_bars(svg: &[Element]) -> Vec<[(f64, f64); 2]> {
    let lines = named(svg, "polyline")
        .into_iter()
        .filter(|line| line.attributes["stroke"] == "#ffffff" && line.attributes["stroke-width"] == "3.6");
    let ends = lines.map(|line| [line.points()[0], line.points()[1]]);
    // Without caps.
    ends.filter(|[a, b]| a.0 == b.0).collect()
}

#[test]
fn error_bars_are_where_their_numbers_are() {
    let mut chart = line_chart();
    chart.series[0].errors = vec![0.1, 0.0, 0.2];
    chart.series[1].errors = vec![f64::NAN];
    let svg = elements(&chart.svg());
    let points = named(&svg, "polyline").into_iter().find(|line| line.points().len() == 3).expect("razor");
    let points = points.points();
    let bars = error_bars(&svg);
    assert_eq!(bars.len(), 2, "of the first and the third point");
    // 0.62 and 0.93 give the scale.
    let unit = (points[1].1 - points[0].1) / (0.93 - 0.62);
    let at = |value: f64| points[0].1 + (value - 0.62) * unit;
    assert!((bars[0][0].0 - points[0].0).abs() < 0.02 && (bars[1][0].0 - points[2].0).abs() < 0.02);
    assert!((bars[0][0].1 - at(0.52)).abs() < 0.05 && (bars[0][1].1 - at(0.72)).abs() < 0.05, "{bars:?}");
    // A share is not above 1.
    assert!((bars[1][0].1 - at(0.76)).abs() < 0.05 && (bars[1][1].1 - at(1.0)).abs() < 0.05, "{bars:?}");

    let mut chart = bar_chart();
    chart.series[1].errors = vec![0.15, 0.5];
    let svg = elements(&chart.svg());
    let bars = error_bars(&svg);
    assert_eq!(bars.len(), 1, "the second group has no bar");
    let value = named(&svg, "text").into_iter().find(|text| text.text == "0.80").expect("a value");
    assert!(value.text_box()[3] < bars[0][1].1 + 2.0, "the value is above the error bar");
}

#[test]
fn an_axis_without_a_range_has_room_for_error_bars() {
    let series =
        vec![Series { points: vec![(1.0, 10.0), (2.0, 12.0)], errors: vec![9.0; 2], ..Series::default() }];
    let text = |scale| {
        let y = Axis { scale, ..Axis::default() };
        LineChart { series: series.clone(), y, ..LineChart::default() }.svg()
    };
    assert!(text(Scale::Linear).contains(">25</text>"), "{}", text(Scale::Linear));
    // A lower end below 0 is at the lower end of a logarithmic axis.
    let bars = error_bars(&elements(&text(Scale::Log)));
    assert!(bars.iter().all(|bar| bar[0].1.is_finite()) && bars.len() == 2, "{bars:?}");
}

#[test]
fn many_columns_have_no_numbers_and_the_names_that_fit() {
    let columns = (0..32).map(|part| format!("{part} of 32")).collect();
    let cells = vec![vec![Some(0.5); 32]; 2];
    let svg = elements(&HeatMap { columns, cells, is_plain: true, ..heat_map() }.svg());
    assert_texts_have_room(&svg);
    let texts: Vec<&str> = named(&svg, "text").iter().map(|text| text.text.as_str()).collect();
    let names = texts.iter().filter(|text| text.ends_with("of 32")).count();
    assert!((8..32).contains(&names), "{names}");
    assert_eq!(texts.iter().filter(|text| **text == "50%").count(), 1, "only at the scale");
    assert!(named(&svg, "svg")[0].number("width") < 800.0);
}

#[test]
fn both_formats_show_the_same_lines() {
    let chart = line_chart();
    let svg = elements(&chart.svg());
    for scale in [1.0, 2.0, 3.0] {
        let pixels = Pixels::decode(&chart.png(scale).expect("a PNG"));
        let picture = named(&svg, "svg")[0];
        let size = (scale * picture.number("width"), scale * picture.number("height"));
        assert_eq!((pixels.width as f64, pixels.height as f64), size);
        // Lines of data have three points. The first is solid: check it between its points too.
        let lines: Vec<_> =
            named(&svg, "polyline").into_iter().filter(|line| line.points().len() == 3).collect();
        assert_eq!(lines.len(), 2);
        let points = lines[0].points();
        for pair in points.windows(2) {
            let between = ((pair[0].0 + pair[1].0) / 2.0, (pair[0].1 + pair[1].1) / 2.0);
            assert!(brightness(&pixels.color(between, scale)) < 110, "{between:?}");
            let above = (between.0, between.1 - 5.0);
            assert!(brightness(&pixels.color(above, scale)) > 200, "{above:?}");
        }
        for circle in named(&svg, "circle") {
            let center = (circle.number("cx"), circle.number("cy"));
            assert_eq!(pixels.color(center, scale), circle.attributes["fill"], "{center:?}");
        }
    }
}

#[test]
fn both_formats_show_the_same_areas() {
    let charts: [&dyn Chart; 2] = [&bar_chart(), &heat_map()];
    for chart in charts {
        let svg = elements(&chart.svg());
        let pixels = Pixels::decode(&chart.png(2.0).expect("a PNG"));
        let mut checked = 0;
        for area in named(&svg, "polygon") {
            let (points, fill) = (area.points(), &area.attributes["fill"]);
            let (left, top) = points[0];
            let (right, bottom) = points[2];
            // Of bars and cells: near a corner is no text and no line of a reference.
            if fill == "none" || fill == "#ffffff" || right - left < 20.0 || bottom - top < 20.0 {
                continue;
            }
            assert_eq!(&pixels.color((left + 3.0, bottom - 3.0), 2.0), fill);
            checked += 1;
        }
        assert!(checked >= 5, "{checked}");
    }
}

#[test]
fn the_letters_of_a_png_are_where_the_svg_has_them() {
    let chart = line_chart();
    let svg = elements(&chart.svg());
    let pixels = Pixels::decode(&chart.png(2.0).expect("a PNG"));
    for text in named(&svg, "text") {
        let [left, top, right, bottom] = text.text_box();
        let darkest = |x0: f64, x1: f64| {
            let columns = (x0 * 2.0) as usize..(x1 * 2.0) as usize;
            let rows = || (top * 2.0) as usize..(bottom * 2.0) as usize;
            let places = columns.flat_map(|x| rows().map(move |y| (x as f64, y as f64)));
            places.map(|(x, y)| brightness(&pixels.color((x, y), 1.0))).min().expect("pixels")
        };
        // The first and the last letter are there, and nothing is behind them.
        let size = text.number("font-size");
        assert!(darkest(left, left + 0.5 * size) < 150, "{text:?}");
        assert!(darkest(right - 0.5 * size, right) < 150, "{text:?}");
        assert!(darkest(right + 0.5, right + 3.0) > 150, "{text:?}");
    }
}

fn brightness(color: &str) -> u32 {
    let value = |at: usize| u32::from_str_radix(&color[at..at + 2], 16).expect("two digits");
    (value(1) + value(3) + value(5)) / 3
}

#[test]
fn numbers_on_cells_are_read_well() {
    let cells: Vec<Option<f64>> = (0..=40).map(|step| Some(f64::from(step) / 40.0)).collect();
    let svg = elements(&HeatMap { cells: vec![cells], ..heat_map() }.svg());
    let mut background = String::new();
    let mut read = 0;
    for element in &svg {
        match element.name.as_str() {
            "polygon" => background.clone_from(&element.attributes["fill"]),
            "text" if element.text.ends_with('%') && element.attributes["fill"] != "#57606a" => {
                let contrast = contrast(&element.attributes["fill"], &background);
                assert!(contrast >= 4.5, "{element:?} on {background}: {contrast}");
                read += 1;
            }
            _ => {}
        }
    }
    assert_eq!(read, 41);
}

/// WCAG 2.
fn contrast(a: &str, b: &str) -> f64 {
    let luminance = |color: &str| {
        let linear = |at: usize| {
            let value = f64::from(u8::from_str_radix(&color[at..at + 2], 16).expect("two digits")) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(1) + 0.7152 * linear(3) + 0.0722 * linear(5)
    };
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn names_of_lines_that_end_together_do_not_overlap() {
    let series = (0..12).map(|index| Series {
        name: format!("policy {index}, with a name that is much too long for the legend of a chart"),
        points: vec![(0.0, 0.0), (1.0, 1.0 - f64::from(index) * 1e-3)],
        ..Series::default()
    });
    let references = (0..4).map(|index| Reference { name: format!("reference {index}"), value: 1.0 });
    let chart =
        LineChart { series: series.collect(), references: references.collect(), ..LineChart::default() };
    let svg = elements(&chart.svg());
    assert_texts_have_room(&svg);
    for name in ["policy 0", "policy 11", "reference 3"] {
        assert!(named(&svg, "text").iter().any(|text| text.text.starts_with(name)), "no {name}");
    }
}

#[test]
fn values_of_bars_that_point_down_have_room_above_the_names() {
    let series = vec![BarSeries {
        name: "change".to_owned(),
        values: vec![Some(-1.0), Some(1.0)],
        ..BarSeries::default()
    }];
    let groups = vec!["down".to_owned(), "up".to_owned()];
    let svg = elements(&BarChart { series, groups, ..BarChart::default() }.svg());
    assert!(named(&svg, "text").iter().any(|text| text.text == "−1.00"), "{svg:?}");
    assert_texts_have_room(&svg);
}

#[test]
fn what_is_left_out_is_mentioned() {
    let text = |chart: &dyn Chart| {
        let svg = elements(&chart.svg());
        assert_texts_have_room(&svg);
        svg.into_iter().map(|element| element.text).find(|text| text.starts_with("not shown"))
    };
    assert_eq!(text(&line_chart()), None);
    let lines = LineChart { series: vec![Series::default(); 15], ..LineChart::default() };
    assert_eq!(text(&lines).as_deref(), Some("not shown: 3 of 15 series"));
    let bars = BarChart {
        groups: vec!["x".to_owned(); 30],
        references: vec![Reference::default(); 5],
        ..bar_chart()
    };
    assert_eq!(text(&bars).as_deref(), Some("not shown: 6 of 30 groups, 1 of 5 references"));
    let cells = HeatMap { cells: vec![vec![Some(1.0); 65]; 70], ..HeatMap::default() };
    assert_eq!(text(&cells).as_deref(), Some("not shown: 6 of 70 rows, 1 of 65 columns"));
}

#[test]
fn values_that_are_no_number_are_left_out() {
    let mut chart = line_chart();
    let expected = chart.svg();
    chart.series[0].points.splice(1..1, [(f64::NAN, 0.5), (0.1, f64::INFINITY), (0.1, f64::NEG_INFINITY)]);
    // A logarithmic axis has no zero.
    chart.series[1].points.insert(0, (0.0, 0.5));
    chart.series[1].points.insert(0, (-1.0, 0.5));
    chart.references.push(Reference { name: "none".to_owned(), value: f64::NAN });
    assert_eq!(chart.svg(), expected);

    let mut map = heat_map();
    let expected = map.svg();
    map.cells[1][2] = Some(f64::NAN);
    assert_eq!(map.svg(), expected);

    let mut bars = bar_chart();
    let expected = bars.svg();
    bars.series[1].values[1] = Some(f64::NEG_INFINITY);
    assert_eq!(bars.svg(), expected);
}

#[test]
fn nothing_and_single_points_are_drawn() {
    let one = Series { name: "one".to_owned(), points: vec![(3.0, 7.0)], errors: vec![2.0] };
    let empty = Series { name: "none".to_owned(), ..Series::default() };
    let charts: [(&dyn Chart, bool); 5] = [
        (&LineChart::default(), false),
        (&BarChart::default(), false),
        (&HeatMap::default(), false),
        (&LineChart { series: vec![empty.clone()], ..LineChart::default() }, false),
        (&LineChart { series: vec![one, empty], ..LineChart::default() }, true),
    ];
    for (chart, has_data) in charts {
        let svg = elements(&chart.svg());
        assert_texts_have_room(&svg);
        assert_eq!(named(&svg, "text").iter().all(|text| text.text != "no data"), has_data);
        Pixels::decode(&chart.png(1.0).expect("a PNG"));
    }
}

#[test]
fn a_long_series_is_thinned_out() {
    let points: Vec<(f64, f64)> = (0..1_000_000).map(|x| (f64::from(x), f64::from(x % 7))).collect();
    let chart = LineChart { series: vec![Series { points, ..Series::default() }], ..LineChart::default() };
    let svg = chart.svg();
    assert!(svg.len() < 30_000, "{}", svg.len());
    let svg = elements(&svg);
    assert!(named(&svg, "text").iter().any(|text| text.text == "not shown: 999499 of 1000000 points"));
    let line = named(&svg, "polyline").into_iter().map(|line| line.points()).max_by_key(Vec::len);
    let line = line.expect("lines");
    assert!((500..=502).contains(&line.len()), "{}", line.len());
    // To the last point.
    assert!(line[line.len() - 1].0 > line[line.len() - 2].0);
}
