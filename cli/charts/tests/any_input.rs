//! Whatever numbers and names a chart gets: its SVG is well-formed, no text is on another, and its PNG can be
//! decoded.

mod common;

use charts::{Axis, BarChart, BarSeries, Chart, HeatMap, LineChart, Numbers, Reference, Scale, Series};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use common::{Pixels, assert_texts_have_room, elements};

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

fn numbers() -> impl Strategy<Value = Numbers> {
    prop::sample::select(vec![Numbers::Plain, Numbers::Percent, Numbers::Binary])
}

fn axis() -> impl Strategy<Value = Axis> {
    let scale = prop::sample::select(vec![Scale::Linear, Scale::Log]);
    (name(), scale, numbers(), option::of((value(), value())))
        .prop_map(|(label, scale, numbers, range)| Axis { label, scale, numbers, range })
}

fn references() -> impl Strategy<Value = Vec<Reference>> {
    vec((name(), value()).prop_map(|(name, value)| Reference { name, value }), 0..6)
}

fn line_chart() -> impl Strategy<Value = LineChart> {
    let series = (name(), vec((value(), value()), 0..9), vec(value(), 0..9));
    let series = series.prop_map(|(name, points, errors)| Series { name, points, errors });
    (name(), axis(), axis(), vec(series, 0..14), references())
        .prop_map(|(title, x, y, series, references)| LineChart { title, x, y, series, references })
}

fn bar_chart() -> impl Strategy<Value = BarChart> {
    let series = (name(), vec(option::of(value()), 0..9), vec(value(), 0..9));
    let series = series.prop_map(|(name, values, errors)| BarSeries { name, values, errors });
    (name(), axis(), vec(name(), 0..30), vec(series, 0..10), references())
        .prop_map(|(title, y, groups, series, references)| BarChart { title, y, groups, series, references })
}

fn heat_map() -> impl Strategy<Value = HeatMap> {
    let labels = (name(), name(), name());
    let cells = vec(vec(option::of(value()), 0..9), 0..9);
    let looks = (numbers(), any::<bool>());
    (labels, vec(name(), 0..12), vec(name(), 0..12), cells, option::of((value(), value())), looks).prop_map(
        |((title, x_label, y_label), columns, rows, cells, range, (numbers, is_plain))| HeatMap {
            title,
            x_label,
            y_label,
            columns,
            rows,
            cells,
            range,
            numbers,
            is_plain,
        },
    )
}

fn check(chart: &dyn Chart) {
    let svg = chart.svg();
    // Numbers are in tags, names between them.
    let mut tags = svg.split('<').filter_map(|part| part.split('>').next());
    assert!(tags.all(|tag| !tag.contains("NaN") && !tag.contains("inf")), "{svg}");
    assert_texts_have_room(&elements(&svg));
    Pixels::decode(&chart.png(0.5).expect("a PNG"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_line_chart_is_drawn(chart in line_chart()) {
        check(&chart);
    }

    #[test]
    fn any_bar_chart_is_drawn(chart in bar_chart()) {
        check(&chart);
    }

    #[test]
    fn any_heat_map_is_drawn(chart in heat_map()) {
        check(&chart);
    }
}
