//! What the results in a folder add up to: a table, a summary in JSON, and pictures.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use anyhow::Result;
use longhand::atomic_file::{self, Access};
use serde::Serialize;

use super::EvalArgs;
use super::pictures::{self, Picture};
use super::prediction::Prediction;
use super::records::{Key, Record, Records};
use crate::app::App;
use crate::console::visible;
use crate::failure::Failure;
use crate::format;
use crate::table::Table;

/// Pixels of a PNG for each of the SVG.
const PNG_SCALE: f64 = 2.0;
/// Digits of a fingerprint that are shown.
pub const FINGERPRINT: usize = 6;

/// The results of a task with a cache.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub task: String,
    pub model: String,
    /// What identifies the model's file.
    pub fingerprint: String,
    policy: String,
    /// How many KV heads keep everything, and a checksum of which; empty for policies without a head profile.
    heads: String,
    budget: String,
    type_k: String,
    type_v: String,
    pub context: usize,
    pub seed: u32,
    pub query_aware: bool,
    /// Mean bytes of the KV cache after the text.
    kv_bytes: usize,
    /// The same as a share, from 0 to 1, of a full cache in f16.
    pub kv_share: f64,
    /// Mean score, from 0 to 100.
    pub score: f64,
    /// Standard error of the mean score; `None` of one sample.
    standard_error: Option<f64>,
    samples: usize,
    /// Means of what was predicted, where that was the task. The score is 0 then.
    #[serde(skip_serializing_if = "Option::is_none")]
    prediction: Option<Prediction>,
}

/// A row of a table: a cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    policy: String,
    heads: String,
    budget: String,
    types: [String; 2],
}

impl Row {
    fn types(&self) -> String {
        match &self.types {
            [k, v] if k == v => k.clone(),
            [k, v] => format!("{k}/{v}"),
        }
    }

    fn cells(&self) -> [String; 4] {
        [self.policy.clone(), self.heads.clone(), self.budget.clone(), self.types()]
    }

    /// The policy, and the types unless they are f16: `razor q8_0`.
    pub fn name_without_budget(&self) -> String {
        match self.types().as_str() {
            "f16" => self.policy.clone(),
            types => format!("{} {types}", self.policy),
        }
    }

    /// The same with the budget: `razor q8_0 25%`.
    pub fn name(&self) -> String {
        format!("{} {}", self.name_without_budget(), self.budget).trim_end().to_owned()
    }

    /// Full caches first, then by type and policy, then by memory.
    fn order(&self, other: &Row) -> Ordering {
        let words =
            |row: &Row| (!row.budget.is_empty(), row.types.clone(), row.policy.clone(), row.heads.clone());
        let digits = |row: &Row| row.budget.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(0);
        let size = |row: &Row| row.budget[..digits(row)].parse::<f64>().unwrap_or(0.0);
        words(self)
            .cmp(&words(other))
            .then(size(self).total_cmp(&size(other)))
            .then(self.budget.cmp(&other.budget))
    }
}

/// Writes the files of the folder, and prints the table or the summary.
pub fn finish(app: &App, args: &EvalArgs, records: &mut Records) -> Result<()> {
    // Other parts of the work may have ended meanwhile.
    records.reload()?;
    let summaries = summaries(records.all());
    if summaries.is_empty() && args.shard.is_none() {
        return Err(Failure::new("every task was left out", "see the notes above for what is missing").into());
    }
    // Names come from files.
    let text = visible(&tables(&summaries));
    write(records.folder(), "table.md", text.as_bytes())?;
    write(records.folder(), "summary.json", (serde_json::to_string_pretty(&summaries)? + "\n").as_bytes())?;
    for group in tables_of(&summaries) {
        let asked: Vec<&Summary> = group.iter().filter(|summary| summary.prediction.is_none()).collect();
        draw(records.folder(), pictures::of_scores(&asked))?;
    }
    draw(records.folder(), pictures::of_needles(records.all()))?;
    if args.json {
        return app.console.print_json(&summaries);
    }
    app.console.print(&text)?;
    app.console.note(&format!("results, table and pictures: {}", records.folder().display()));
    Ok(())
}

/// Writes each picture as SVG and as PNG.
fn draw(folder: &Path, pictures: Vec<Picture>) -> Result<()> {
    for Picture { name, chart } in pictures {
        write(folder, &format!("{name}.svg"), chart.svg().as_bytes())?;
        write(folder, &format!("{name}.png"), &chart.png(PNG_SCALE)?)?;
    }
    Ok(())
}

fn write(folder: &Path, name: &str, content: &[u8]) -> Result<()> {
    let path = folder.join(name);
    atomic_file::write(&path, Access::Everyone, |file| file.write_all(content)).map_err(|error| {
        Failure::new(format!("{}: {error}", path.display()), "give another folder with -o").into()
    })
}

/// Means of all results, sorted by model, seed, length and cache; the tasks in the order of the results.
fn summaries(records: &[Record]) -> Vec<Summary> {
    let mut order: Vec<&str> = Vec::new();
    let mut groups: Vec<Vec<&Record>> = Vec::new();
    let mut places = HashMap::new();
    for record in records {
        let key = &record.key;
        if !order.contains(&key.task.as_str()) {
            order.push(&key.task);
        }
        let place = *places.entry(Key { sample: 0, ..key.clone() }).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[place].push(record);
    }
    let mut summaries: Vec<Summary> = groups.iter().map(|records| Summary::new(records)).collect();
    let task = |summary: &Summary| order.iter().position(|task| *task == summary.task);
    summaries.sort_by(|a, b| {
        a.table().cmp(&b.table()).then_with(|| a.row().order(&b.row())).then_with(|| task(a).cmp(&task(b)))
    });
    summaries
}

impl Summary {
    fn new(records: &[&Record]) -> Summary {
        let key = records[0].key.clone();
        let mean = |value: fn(&Record) -> f64| {
            records.iter().map(|record| value(record)).sum::<f64>() / records.len() as f64
        };
        let (score, samples) = (mean(|record| record.score), records.len());
        let squares = records.iter().map(|record| (record.score - score).powi(2)).sum::<f64>();
        let variance = (samples > 1).then(|| squares / (samples - 1) as f64);
        Summary {
            task: key.task,
            model: key.model,
            fingerprint: key.fingerprint,
            policy: key.cache,
            heads: key.heads,
            budget: key.budget,
            type_k: key.type_k,
            type_v: key.type_v,
            context: key.context,
            seed: key.seed,
            query_aware: key.query_aware,
            kv_bytes: mean(|record| record.kv_bytes as f64) as usize,
            kv_share: mean(|record| record.kv_share),
            score: 100.0 * score,
            standard_error: variance.map(|variance| 100.0 * (variance / samples as f64).sqrt()),
            samples,
            prediction: Prediction::mean(records.iter().filter_map(|record| record.prediction.as_ref())),
        }
    }

    /// The cache.
    pub fn row(&self) -> Row {
        Row {
            policy: self.policy.clone(),
            heads: self.heads.clone(),
            budget: self.budget.clone(),
            types: [self.type_k.clone(), self.type_v.clone()],
        }
    }

    /// What all rows of a table have in common.
    fn table(&self) -> (&str, &str, u32, usize, bool) {
        (&self.model, &self.fingerprint, self.seed, self.context, self.query_aware)
    }
}

/// The mean over tasks.
pub fn mean(summaries: &[&Summary], value: fn(&Summary) -> f64) -> f64 {
    summaries.iter().map(|summary| value(summary)).sum::<f64>() / summaries.len() as f64
}

/// Summaries of one model, length and way of asking after the other.
fn tables_of(summaries: &[Summary]) -> impl Iterator<Item = &[Summary]> {
    summaries.chunk_by(|a, b| a.table() == b.table())
}

/// Markdown tables for each model, length and way of asking: of scores, and of predictions.
fn tables(summaries: &[Summary]) -> String {
    let mut text = String::from(
        "KV: bytes after the text, in % of a full cache in f16; heads: KV heads that keep everything, and a checksum of \
         which. Scores: means from 0 to 100; ± is the standard error of the average.\n",
    );
    for group in tables_of(summaries) {
        let Summary { model, fingerprint, context, seed, query_aware, .. } = &group[0];
        let model = format!("{model} ({})", fingerprint.chars().take(FINGERPRINT).collect::<String>());
        let context = format::count(*context);
        let (predicted, asked): (Vec<_>, Vec<_>) =
            group.iter().partition(|summary| summary.prediction.is_some());
        if !asked.is_empty() {
            let known = if *query_aware { "known" } else { "unknown" };
            let samples = samples(&asked);
            text += &format!(
                "\n{model}, {context} tokens, seed {seed}, texts for each task: {samples}, the question is {known} while \
                 a text is read\n\n{}",
                scores(&asked).markdown()
            );
        }
        if !predicted.is_empty() {
            let samples = samples(&predicted);
            text += &format!(
                "\n{model}, {context} tokens of books, seed {seed}, texts: {samples}. KL: divergence from the predictions of a full \
                 cache in f16; same: most likely tokens that are equal, in %\n\n{}",
                predictions(&predicted).markdown()
            );
        }
    }
    text
}

/// `10`, or `8 to 10`.
fn samples(summaries: &[&Summary]) -> String {
    let counts = || summaries.iter().map(|summary| summary.samples);
    match (counts().min().unwrap_or(0), counts().max().unwrap_or(0)) {
        (least, most) if least == most => most.to_string(),
        (least, most) => format!("{least} to {most}"),
    }
}

/// The caches down, the tasks across.
fn scores(summaries: &[&Summary]) -> Table {
    let mut tasks: Vec<&str> = Vec::new();
    for summary in summaries {
        if !tasks.contains(&summary.task.as_str()) {
            tasks.push(&summary.task);
        }
    }
    let names = tasks.iter().map(|task| format!(">{}", task.strip_prefix("niah_").unwrap_or(task)));
    let columns = ["policy", "heads", "budget", "type", ">KV", ">average"].map(str::to_owned);
    let headers: Vec<String> = columns.into_iter().chain(names).collect();
    let mut table = Table::new(headers.iter().map(String::as_str));
    for group in summaries.chunk_by(|a, b| a.row() == b.row()) {
        let average = match group.len() == tasks.len() {
            true => {
                let errors: Option<Vec<f64>> = group.iter().map(|summary| summary.standard_error).collect();
                let squares = errors.map(|errors| errors.iter().map(|error| error * error).sum::<f64>());
                let error = squares.map(|sum| format!(" ±{:.1}", sum.sqrt() / group.len() as f64));
                format!("{:.1}{}", mean(group, |summary| summary.score), error.unwrap_or_default())
            }
            // Not all tasks are done.
            false => "-".to_owned(),
        };
        let scores = tasks.iter().map(|task| {
            let summary = group.iter().find(|summary| summary.task == **task);
            summary.map_or("-".to_owned(), |summary| format!("{:.1}", summary.score))
        });
        let share = format!("{:.1}", 100.0 * mean(group, |summary| summary.kv_share));
        table.row(group[0].row().cells().into_iter().chain([share, average]).chain(scores));
    }
    table
}

fn predictions(summaries: &[&Summary]) -> Table {
    let mut table = Table::new(["policy", "heads", "budget", "type", ">KV", ">perplexity", ">KL", ">same"]);
    for summary in summaries {
        let Some(prediction) = &summary.prediction else { continue };
        let numbers = [
            format!("{:.1}", 100.0 * summary.kv_share),
            format!("{:.3}", prediction.nll.exp()),
            format!("{:.4}", prediction.kl),
            format!("{:.1}", 100.0 * prediction.agreement),
        ];
        table.row(summary.row().cells().into_iter().chain(numbers));
    }
    table
}
