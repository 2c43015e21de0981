//! Draws a chart of each kind into a folder: `cargo run --release -p charts --example samples -- FOLDER`

use std::error::Error;
use std::path::Path;

use charts::{Axis, BarChart, BarSeries, Chart, HeatMap, LineChart, Numbers, Reference, Scale, Series};

/// Made-up numbers.
fn charts() -> Vec<(&'static str, Box<dyn Chart>)> {
    vec![
        ("recall", Box::new(recall())),
        ("speed", Box::new(speed())),
        ("tasks", Box::new(tasks())),
        ("depths", Box::new(depths())),
        ("positions", Box::new(positions())),
    ]
}

fn recall() -> LineChart {
    let shares = [0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0];
    let policies: [(&str, [f64; 7]); 6] = [
        ("razor", [0.71, 0.86, 0.93, 0.95, 0.952, 0.955, 0.96]),
        ("snapkv", [0.58, 0.77, 0.88, 0.93, 0.945, 0.95, 0.96]),
        ("h2o", [0.31, 0.46, 0.61, 0.74, 0.83, 0.92, 0.96]),
        ("tova", [0.28, 0.41, 0.63, 0.72, 0.85, 0.93, 0.96]),
        ("keydiff", [0.44, 0.6, 0.72, 0.81, 0.88, 0.94, 0.96]),
        ("streaming", [0.06, 0.11, 0.2, 0.36, 0.49, 0.73, 0.96]),
    ];
    let series = policies.map(|(name, scores)| Series {
        name: name.to_owned(),
        points: shares.into_iter().zip(scores).collect(),
        errors: scores.map(error_of).to_vec(),
    });
    LineChart {
        title: "Recall by share of the KV cache, Qwen2.5 7B at 32k".to_owned(),
        x: Axis {
            label: "KV cache kept".to_owned(),
            scale: Scale::Log,
            numbers: Numbers::Percent,
            range: None,
        },
        y: Axis {
            label: "correct answers".to_owned(),
            numbers: Numbers::Percent,
            range: Some((0.0, 1.0)),
            ..Axis::default()
        },
        series: series.to_vec(),
        references: vec![Reference { name: "full cache".to_owned(), value: 0.96 }],
    }
}

/// The standard error of a share of 100 answers.
fn error_of(share: f64) -> f64 {
    (share * (1.0 - share) / 100.0).sqrt()
}

fn speed() -> LineChart {
    let depths = [512.0, 2048.0, 8192.0, 32_768.0, 131_072.0];
    let series = [
        ("full cache", [14.1, 13.2, 10.4, 5.6, 1.9]),
        ("razor, 20% of the cache", [14.0, 13.9, 13.1, 11.4, 7.7]),
        ("streaming, 4096 rows", [14.0, 13.6, 12.9, 12.9, 12.8]),
    ];
    let series = series.map(|(name, speeds)| Series {
        name: name.to_owned(),
        points: depths.into_iter().zip(speeds).collect(),
        ..Series::default()
    });
    LineChart {
        title: "Decoding speed over depth".to_owned(),
        x: Axis {
            label: "tokens in the cache".to_owned(),
            scale: Scale::Log,
            numbers: Numbers::Binary,
            range: None,
        },
        y: Axis { label: "tokens/s".to_owned(), range: Some((0.0, 15.0)), ..Axis::default() },
        series: series.to_vec(),
        references: Vec::new(),
    }
}

fn tasks() -> BarChart {
    let series = [
        ("razor", [0.98, 0.94, 0.91, 0.88]),
        ("snapkv", [0.97, 0.86, 0.83, 0.79]),
        ("h2o", [0.71, 0.55, 0.48, 0.66]),
        ("streaming", [0.2, 0.12, 0.18, 0.41]),
    ];
    BarChart {
        title: "Score by task with a fifth of the KV cache".to_owned(),
        y: Axis { label: "score".to_owned(), range: Some((0.0, 1.0)), ..Axis::default() },
        groups: ["single needle", "several needles", "variable tracking", "question answering"]
            .map(str::to_owned)
            .to_vec(),
        series: series
            .map(|(name, scores)| BarSeries {
                name: name.to_owned(),
                values: scores.map(Some).to_vec(),
                errors: scores.map(error_of).to_vec(),
            })
            .to_vec(),
        references: vec![Reference { name: "full cache, mean".to_owned(), value: 0.95 }],
    }
}

fn depths() -> HeatMap {
    let rows = ["full cache", "razor", "snapkv", "h2o", "streaming"];
    let cells = [
        [1.0, 1.0, 1.0, 0.98, 0.97, 0.95],
        [1.0, 1.0, 0.98, 0.97, 0.95, 0.91],
        [1.0, 0.97, 0.93, 0.9, 0.84, 0.8],
        [0.93, 0.82, 0.71, 0.6, 0.52, 0.4],
        [0.62, 0.36, 0.22, 0.12, 0.07, 0.03],
    ];
    let mut cells: Vec<Vec<Option<f64>>> =
        cells.iter().map(|row| row.iter().copied().map(Some).collect()).collect();
    cells[3][5] = None;
    HeatMap {
        title: "Needles found by length of the text".to_owned(),
        x_label: "tokens".to_owned(),
        y_label: "policy".to_owned(),
        columns: ["4k", "8k", "16k", "32k", "64k", "128k"].map(str::to_owned).to_vec(),
        rows: rows.map(str::to_owned).to_vec(),
        cells,
        range: Some((0.0, 1.0)),
        numbers: Numbers::Percent,
        is_plain: false,
    }
}

fn positions() -> HeatMap {
    let share = |row: f64, column: f64| if column > 26.0 { 1.0 } else { (0.1 * row + 0.01 * column) % 1.0 };
    HeatMap {
        title: "Rows kept, Qwen2.5 7B at 32k".to_owned(),
        x_label: "position in the text".to_owned(),
        y_label: "share of the rows".to_owned(),
        columns: (0..32)
            .map(|part| if part % 4 == 0 { format!("{}%", part * 100 / 32) } else { String::new() })
            .collect(),
        rows: ["full", "razor 25%", "snapkv 25%", "h2o 25%"].map(str::to_owned).to_vec(),
        cells: (0..4u8)
            .map(|row| (0..32u8).map(|column| Some(share(row.into(), column.into()))).collect())
            .collect(),
        is_plain: true,
        ..depths()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: samples FOLDER")?;
    for (name, chart) in charts() {
        std::fs::write(Path::new(&folder).join(name).with_extension("svg"), chart.svg())?;
        std::fs::write(Path::new(&folder).join(name).with_extension("png"), chart.png(2.0)?)?;
    }
    Ok(())
}
