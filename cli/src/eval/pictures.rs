//! The pictures of an evaluation: scores over memory, scores of the tasks, and where needles are found.

use std::collections::BTreeSet;

use charts::{Axis, BarChart, BarSeries, Chart, HeatMap, LineChart, Numbers, Reference, Scale, Series};
use twox_hash::XxHash3_64;

use super::records::Record;
use super::report::{FINGERPRINT, Summary, mean};
use crate::format;

/// The task whose texts differ in the needle's depth.
const NEEDLE: &str = "needle";
/// Longest name of a file without its extension.
const MAX_NAME: usize = 100;

/// A picture, and the name of its file without an extension.
pub struct Picture {
    /// Letters, digits and hyphens.
    pub name: String,
    /// What it shows.
    pub chart: Box<dyn Chart>,
}

impl Picture {
    fn new(parts: &[&str], chart: impl Chart + 'static) -> Picture {
        let whole = parts.join("-");
        let safe = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
        let name: String = whole.chars().map(safe).collect();
        let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
        let mut name: String = words.join("-").chars().take(MAX_NAME).collect();
        if !name.eq_ignore_ascii_case(&whole) {
            // Two names that differ in what is left out must not be one.
            name += &format!("-{:04x}", XxHash3_64::oneshot(whole.as_bytes()) >> 48);
        }
        Picture { name, chart: Box::new(chart) }
    }
}

/// The pictures of one table.
pub fn of_scores(summaries: &[&Summary]) -> Vec<Picture> {
    let Some(first) = summaries.first() else { return Vec::new() };
    let (model, context) = (&first.model, first.context.to_string());
    let fingerprint: String = first.fingerprint.chars().take(FINGERPRINT).collect();
    let seed = format!("seed{}", first.seed);
    let known = if first.query_aware { ["query-aware"].as_slice() } else { &[] };
    let name = |what| [&[what, model.as_str(), &fingerprint, &context, &seed], known].concat();
    let title = |what: &str| format!("{what}: {model}, {} tokens", format::count(first.context));
    let mut pictures = vec![Picture::new(&name("scores"), by_memory(title("Score by memory"), summaries))];
    if summaries.iter().any(|summary| summary.task != first.task) {
        pictures.push(Picture::new(&name("tasks"), by_task(title("Score by task"), summaries)));
    }
    pictures
}

/// Mean scores over the memory of the cache: a line for each policy and type. A full cache in f16 is the reference. Caches
/// that have not done all tasks are left out.
fn by_memory(title: String, summaries: &[&Summary]) -> LineChart {
    let mut chart = LineChart {
        title,
        x: Axis {
            label: "KV cache after the text, share of a full cache in f16".to_owned(),
            scale: Scale::Log,
            numbers: Numbers::Percent,
            range: None,
        },
        y: Axis { label: "mean score".to_owned(), range: Some((0.0, 100.0)), ..Axis::default() },
        ..LineChart::default()
    };
    let tasks = summaries.iter().map(|summary| &summary.task).collect::<BTreeSet<_>>().len();
    for group in summaries.chunk_by(|a, b| a.row() == b.row()).filter(|group| group.len() == tasks) {
        let (share, score) = (mean(group, |summary| summary.kv_share), mean(group, |summary| summary.score));
        let row = group[0].row();
        let name = row.name_without_budget();
        if name == "full" {
            chart.references.push(Reference { name: "full, f16".to_owned(), value: score });
            continue;
        }
        match chart.series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push((share, score)),
            None => chart.series.push(Series { name, points: vec![(share, score)] }),
        }
    }
    for series in &mut chart.series {
        series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    chart
}

/// A group of bars for each task.
fn by_task(title: String, summaries: &[&Summary]) -> BarChart {
    let mut chart = BarChart {
        title,
        y: Axis { label: "mean score".to_owned(), range: Some((0.0, 100.0)), ..Axis::default() },
        ..BarChart::default()
    };
    for summary in summaries {
        if !chart.groups.contains(&summary.task) {
            chart.groups.push(summary.task.clone());
        }
    }
    for group in summaries.chunk_by(|a, b| a.row() == b.row()) {
        let score =
            |task: &String| group.iter().find(|summary| summary.task == *task).map(|found| found.score);
        let values = chart.groups.iter().map(score).collect();
        chart.series.push(BarSeries { name: group[0].row().name(), values });
    }
    for name in &mut chart.groups {
        if let Some(short) = name.strip_prefix("niah_") {
            *name = short.to_owned();
        }
    }
    chart
}

/// For each model and cache a map of the needle's depth and the length of the text.
pub fn of_needles(records: &[Record]) -> Vec<Picture> {
    let mut maps: Vec<(Vec<&Record>, String)> = Vec::new();
    for record in records.iter().filter(|record| record.key.task == NEEDLE) {
        let key = &record.key;
        let fingerprint: String = key.fingerprint.chars().take(FINGERPRINT).collect();
        let mut name =
            format!("{} ({fingerprint}) {} {}", key.model, key.cache, key.budget).trim_end().to_owned();
        if (key.type_k.as_str(), key.type_v.as_str()) != ("f16", "f16") {
            name += &format!(" {} {}", key.type_k, key.type_v);
        }
        name += &format!(" seed {}", key.seed);
        if !key.heads.is_empty() {
            name += &format!(" heads {}", key.heads);
        }
        if key.query_aware {
            name += " query-aware";
        }
        match maps.iter_mut().find(|(_, known)| *known == name) {
            Some((records, _)) => records.push(record),
            None => maps.push((vec![record], name)),
        }
    }
    let picture =
        |(records, name): &(Vec<&Record>, String)| Picture::new(&[NEEDLE, name], heat_map(name, records));
    maps.iter().map(picture).collect()
}

fn heat_map(name: &str, records: &[&Record]) -> HeatMap {
    let lengths: BTreeSet<usize> = records.iter().map(|record| record.key.context).collect();
    let permille = |record: &Record| record.depth.map(|depth| (1000.0 * depth).round() as u32);
    let depths: BTreeSet<u32> = records.iter().filter_map(|record| permille(record)).collect();
    let score = |length: usize, depth: u32| {
        let here = |record: &&&Record| record.key.context == length && permille(record) == Some(depth);
        let scores: Vec<f64> = records.iter().filter(here).map(|record| record.score).collect();
        (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64)
    };
    let cells = |depth: &u32| lengths.iter().map(|length| score(*length, *depth)).collect();
    HeatMap {
        title: format!("Needles found: {name}"),
        x_label: "tokens".to_owned(),
        y_label: "depth of the needle".to_owned(),
        columns: lengths.iter().map(|length| format::count(*length)).collect(),
        rows: depths.iter().map(|depth| format!("{:.0}%", f64::from(*depth) / 10.0)).collect(),
        cells: depths.iter().map(cells).collect(),
        range: Some((0.0, 1.0)),
        numbers: Numbers::Percent,
    }
}
