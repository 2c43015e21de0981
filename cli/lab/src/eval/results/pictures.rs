//! The pictures of an evaluation: scores over memory, scores of the tasks, predictions by position, and where needles are
//! found.

use std::collections::BTreeSet;

use terminal::format;
use twox_hash::XxHash3_64;

use crate::charts::{Axis, HeatMap, Numbers, Plot, Series, X};
use crate::eval::compare::prediction::{PART, Prediction};
use crate::eval::results::records::{Record, inexact};
use crate::eval::results::summary::{FINGERPRINT, Summary, error_of_mean, mean};

/// The task whose texts differ in the needle's depth.
const NEEDLE: &str = "needle";
/// Longest name of a file without its extension.
const MAX_NAME: usize = 100;

/// A picture, and the name of its file without an extension.
pub struct Picture {
    /// Letters, digits and hyphens.
    pub name: String,
    /// What is in the file.
    pub svg: String,
}

impl Picture {
    fn new(parts: &[String], svg: String) -> Picture {
        let whole = parts.join("-");
        let safe = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
        let name: String = whole.chars().map(safe).collect();
        let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
        let mut name: String = words.join("-").chars().take(MAX_NAME).collect();
        if !name.eq_ignore_ascii_case(&whole) {
            // Two names that differ in what is left out must not be one.
            name += &format!("-{:04x}", XxHash3_64::oneshot(whole.as_bytes()) >> 48);
        }
        Picture { name, svg }
    }
}

/// The pictures of one table.
pub fn of_scores(summaries: &[&Summary]) -> Vec<Picture> {
    let Some(first) = summaries.first() else { return Vec::new() };
    let scores = by_memory(title("Score by memory", first), scores("mean score"), summaries).svg();
    let mut pictures = vec![Picture::new(&words("scores", first), scores)];
    if summaries.iter().any(|summary| summary.task != first.task) {
        let tasks = by_task(title("Score by task", first), summaries).svg();
        pictures.push(Picture::new(&words("tasks", first), tasks));
    }
    pictures
}

/// How far the answers of the caches of one table agree with those of a full cache.
pub fn of_agreement(summaries: &[&Summary]) -> Vec<Picture> {
    let Some(first) = summaries.first() else { return Vec::new() };
    let axis = scores("tokens of the full cache's answer that are chosen, in %");
    let chart = by_memory(title("Agreement by memory", first), axis, summaries);
    vec![Picture::new(&words("agreement", first), chart.svg())]
}

/// How well the caches of one table predict what follows the text, by position, and how far they are from a full cache.
pub fn of_predictions(summaries: &[&Summary]) -> Vec<Picture> {
    let Some(first) = summaries.first() else { return Vec::new() };
    let perplexity =
        by_position(title("Perplexity by position", first), "perplexity", summaries, |prediction| {
            prediction.nll_by_position.iter().map(|nll| nll.exp()).collect()
        });
    let label = "KL divergence from a full cache in f16";
    let divergence = by_position(title("KL divergence by position", first), label, summaries, |prediction| {
        prediction.kl_by_position.clone()
    });
    let mut pictures = vec![Picture::new(&words("perplexity", first), perplexity.svg())];
    if !divergence.series.is_empty() {
        pictures.push(Picture::new(&words("kl-divergence", first), divergence.svg()));
    }
    pictures
}

/// Which positions the caches of one table keep.
pub fn of_retention(summaries: &[&Summary]) -> Vec<Picture> {
    let Some(first) = summaries.first() else { return Vec::new() };
    let shares: Vec<&Vec<f64>> = summaries.iter().filter_map(|summary| summary.retention.as_ref()).collect();
    let parts = shares.iter().map(|shares| shares.len()).max().unwrap_or(0);
    // Every fourth begins with its place.
    let column = |part: usize| match 8 * part % parts {
        0 => format!("{:.0}%", 100.0 * part as f64 / parts as f64),
        _ => String::new(),
    };
    let map = HeatMap {
        title: title("Rows kept", first),
        x_label: "position in the text".to_owned(),
        y_label: "share of the rows, mean of all KV heads".to_owned(),
        columns: (0..parts).map(column).collect(),
        rows: summaries.iter().map(|summary| summary.cache().name()).collect(),
        cells: shares.iter().map(|shares| shares.iter().copied().map(Some).collect()).collect(),
        range: Some((0.0, 1.0)),
        numbers: Numbers::Percent,
        is_plain: true,
    };
    vec![Picture::new(&words("retention", first), map.svg())]
}

/// Where the caches of one table lose attention: a map of layers and query heads for each cache that evicts rows.
pub fn of_attention_loss(summaries: &[&Summary]) -> Vec<Picture> {
    let picture = |summary: &&Summary| {
        let by_head = &summary.attention_loss.as_ref()?.by_head;
        let heads = by_head.iter().map(Vec::len).max().unwrap_or(0);
        // Layers with a sliding window have no heads.
        let cells = |losses: &Vec<f32>| {
            (0..heads).map(|head| losses.get(head).map(|loss| f64::from(*loss))).collect()
        };
        let cache = summary.cache().name();
        let map = HeatMap {
            title: title(&format!("Attention lost beyond the least possible, {cache}"), summary),
            x_label: "query head".to_owned(),
            y_label: "layer".to_owned(),
            columns: (0..heads).map(|head| head.to_string()).collect(),
            rows: (0..by_head.len()).map(|layer| layer.to_string()).collect(),
            cells: by_head.iter().map(cells).collect(),
            range: Some((0.0, 0.1)),
            numbers: Numbers::Percent,
            is_plain: true,
        };
        let words = [words("attention-loss", summary), vec![cache]].concat();
        summary.cache().evicts().then(|| Picture::new(&words, map.svg()))
    };
    summaries.iter().filter_map(picture).collect()
}

/// The words of a picture's name.
fn words(what: &str, summary: &Summary) -> Vec<String> {
    let fingerprint = summary.fingerprint.chars().take(FINGERPRINT).collect();
    let (context, seed) = (summary.context.to_string(), format!("seed{}", summary.seed));
    let known = summary.query_aware.then(|| "query-aware".to_owned());
    let words = [what.to_owned(), summary.model.clone(), fingerprint, context, seed];
    words.into_iter().chain(known).collect()
}

fn title(what: &str, summary: &Summary) -> String {
    let known = if summary.query_aware { ", query-aware" } else { "" };
    format!("{what}: {}, {} tokens{known}", summary.model, format::count(summary.context))
}

/// What is predicted after the text, by position: a line for each cache that has a value above 0, because a logarithmic
/// axis shows no others.
fn by_position(
    title: String,
    label: &str,
    summaries: &[&Summary],
    values: fn(&Prediction) -> Vec<f64>,
) -> Plot {
    let series = |summary: &&Summary| {
        let values = values(summary.prediction.as_ref()?);
        let middle = |part: usize| (PART * part + PART / 2) as f64;
        let has_line = values.iter().any(|value| *value > 0.0);
        let points = values.into_iter().enumerate().map(|(part, value)| (middle(part), value)).collect();
        has_line.then(|| Series { name: summary.cache().name(), points, ..Series::default() })
    };
    Plot {
        title,
        x: X::Numbers(Axis { label: "tokens after the text".to_owned(), ..Axis::default() }),
        y: Axis { label: label.to_owned(), is_log: true, ..Axis::default() },
        series: summaries.iter().filter_map(series).collect(),
        reference: None,
    }
}

/// Mean scores over the memory of the cache: a line for each policy and type. A full cache in f16 is the reference.
/// Caches that have not done all tasks are left out.
fn by_memory(title: String, y: Axis, summaries: &[&Summary]) -> Plot {
    let x = Axis {
        label: "KV cache after the text, share of a full cache in f16".to_owned(),
        is_log: true,
        numbers: Numbers::Percent,
        range: None,
    };
    let mut chart = Plot { title, x: X::Numbers(x), y, series: Vec::new(), reference: None };
    // Memory, score and error of each line, by its name.
    let mut lines: Vec<(String, Vec<[f64; 3]>)> = Vec::new();
    let tasks = summaries.iter().map(|summary| &summary.task).collect::<BTreeSet<_>>().len();
    for group in summaries.chunk_by(|a, b| a.cache() == b.cache()).filter(|group| group.len() == tasks) {
        let (share, score) = (mean(group, |summary| summary.kv_share), mean(group, |summary| summary.score));
        let row = group[0].cache();
        let name = row.name_without_budget();
        if name == "full" {
            chart.reference = Some(("full, f16".to_owned(), score));
            continue;
        }
        let point = [share, score, error_of_mean(group).unwrap_or(0.0)];
        match lines.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push(point),
            None => lines.push((name, vec![point])),
        }
    }
    for (name, mut points) in lines {
        points.sort_by(|a, b| a[0].total_cmp(&b[0]));
        let errors = points.iter().map(|[_, _, error]| *error).collect();
        let points = points.iter().map(|[share, score, _]| (*share, *score)).collect();
        chart.series.push(Series { name, points, errors });
    }
    chart
}

/// From 0 to 100.
fn scores(what: &str) -> Axis {
    Axis { label: format!("{what}, with its standard error"), range: Some((0.0, 100.0)), ..Axis::default() }
}

/// A group of bars for each task.
fn by_task(title: String, summaries: &[&Summary]) -> Plot {
    let mut tasks: Vec<&str> = Vec::new();
    for summary in summaries {
        if !tasks.contains(&summary.task.as_str()) {
            tasks.push(&summary.task);
        }
    }
    let series = |group: &[&Summary]| {
        let of_task = |(number, task): (usize, &&str)| {
            let summary = group.iter().find(|summary| summary.task == **task)?;
            Some(((number as f64, summary.score), summary.standard_error.unwrap_or(0.0)))
        };
        let (points, errors) = tasks.iter().enumerate().filter_map(of_task).unzip();
        Series { name: group[0].cache().name(), points, errors }
    };
    Plot {
        title,
        y: scores("mean score"),
        series: summaries.chunk_by(|a, b| a.cache() == b.cache()).map(series).collect(),
        x: X::Groups(
            tasks.iter().map(|task| task.strip_prefix("niah_").unwrap_or(task).to_owned()).collect(),
        ),
        reference: None,
    }
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
        if let Some(prefill) = inexact(&key.prefill) {
            name += &format!(" {prefill} prefill");
        }
        if key.query_aware {
            name += " query-aware";
        }
        match maps.iter_mut().find(|(_, known)| *known == name) {
            Some((records, _)) => records.push(record),
            None => maps.push((vec![record], name)),
        }
    }
    let picture = |(records, name): &(Vec<&Record>, String)| {
        Picture::new(&[NEEDLE.to_owned(), name.clone()], heat_map(name, records).svg())
    };
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
        is_plain: false,
    }
}
