//! Draws speed over depth from the JSON of `longhand bench -o json` and `llama-bench -o json`:
//!
//!     cargo run --release -p charts --example speed -- OUT TITLE NAME=FILE NAME=FILE ...
//!
//! Writes `OUT-prefill.svg` and `OUT-decode.svg`. Files with the same name are one line: the fastest run of each test,
//! such as llama.cpp with and without flash attention.

use std::collections::BTreeMap;
use std::error::Error;

use charts::{Axis, Chart, LineChart, Numbers, Series};
use serde_json::Value;

/// The lines of both charts in the order of the arguments: tokens per second by depth.
#[derive(Default)]
struct Lines(Vec<(String, BTreeMap<u64, f64>)>);

impl Lines {
    /// Adds a measurement.
    fn add(&mut self, name: &str, depth: u64, speed: f64) {
        let known = self.0.iter().position(|(other, _)| other == name);
        let index = known.unwrap_or_else(|| {
            self.0.push((name.to_owned(), BTreeMap::new()));
            self.0.len() - 1
        });
        let fastest = self.0[index].1.entry(depth).or_default();
        *fastest = fastest.max(speed);
    }

    fn chart(self, title: String) -> LineChart {
        let series = self.0.into_iter().map(|(name, speeds)| Series {
            name,
            points: speeds.into_iter().map(|(depth, speed)| (depth as f64, speed)).collect(),
            ..Series::default()
        });
        LineChart {
            title,
            x: Axis { label: "tokens in the cache".to_owned(), numbers: Numbers::Binary, ..Axis::default() },
            y: Axis { label: "tokens/s".to_owned(), range: Some((0.0, 1.0)), ..Axis::default() },
            series: series.collect(),
            references: Vec::new(),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [out, title, files @ ..] = &arguments[..] else {
        return Err("usage: speed OUT TITLE NAME=FILE ...".into());
    };
    let (mut prefill, mut decode) = (Lines::default(), Lines::default());
    for argument in files {
        let (name, path) = argument.split_once('=').ok_or_else(|| format!("{argument}: not NAME=FILE"))?;
        let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        let tests: Vec<Value> = serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
        for test in &tests {
            let number = |key: &str| test[key].as_u64().ok_or_else(|| format!("{path}: no {key}"));
            let speed = test["avg_ts"].as_f64().ok_or_else(|| format!("{path}: no avg_ts"))?;
            let lines = if number("n_gen")? > 0 { &mut decode } else { &mut prefill };
            lines.add(name, number("n_depth")?, speed);
        }
    }
    for (what, file, lines) in [("reading", "prefill", prefill), ("answering", "decode", decode)] {
        std::fs::write(format!("{out}-{file}.svg"), lines.chart(format!("{title}, {what}")).svg())?;
    }
    Ok(())
}
