//! What the results in a folder add up to: a table, a summary in JSON, and pictures.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use anyhow::Result;
use longhand::atomic_file::{self, Access};
use serde::Serialize;

use super::EvalArgs;
use super::pictures::{self, Picture};
use super::prediction::Prediction;
use super::records::{Record, Records};
use crate::app::App;
use crate::failure::Failure;
use crate::format;
use crate::table::Table;

/// Pixels of a PNG for each of the SVG.
const PNG_SCALE: f64 = 2.0;

/// The results of a task with a cache.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub task: String,
    pub model: String,
    policy: String,
    budget: String,
    type_k: String,
    type_v: String,
    pub context: usize,
    pub query_aware: bool,
    /// Mean bytes of the KV cache after the text.
    kv_bytes: usize,
    /// The same as a share, from 0 to 1, of a full cache in f16.
    pub kv_share: f64,
    /// Mean score, from 0 to 100.
    pub score: f64,
    /// Standard error of the mean score; 0 of one sample.
    standard_error: f64,
    samples: usize,
    /// Means of what was predicted, where that was the task. The score is 0 then.
    #[serde(skip_serializing_if = "Option::is_none")]
    prediction: Option<Prediction>,
}

/// A row of a table: a cache.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    is_bounded: bool,
    types: [String; 2],
    policy: String,
    budget: String,
}

impl Row {
    fn new(policy: &str, budget: &str, types: [&str; 2]) -> Row {
        let (policy, budget, types) = (policy.to_owned(), budget.to_owned(), types.map(str::to_owned));
        Row { is_bounded: !budget.is_empty(), types, policy, budget }
    }

    fn types(&self) -> String {
        match &self.types {
            [k, v] if k == v => k.clone(),
            [k, v] => format!("{k}/{v}"),
        }
    }

    fn cells(&self) -> [String; 3] {
        [self.policy.clone(), self.budget.clone(), self.types()]
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
}

/// Writes the files of the folder, and prints the table or the summary.
pub fn finish(app: &App, args: &EvalArgs, records: &Records) -> Result<()> {
    let summaries = summaries(records.all());
    if summaries.is_empty() {
        return Err(Failure::new("every task was left out", "see the notes above for what is missing").into());
    }
    let text = tables(&summaries);
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
    app.console.print_report(&text)?;
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

/// Means of all results, sorted by model, length and cache; the tasks in the order of the results.
fn summaries(records: &[Record]) -> Vec<Summary> {
    let mut order: Vec<&str> = Vec::new();
    let mut groups: BTreeMap<_, Vec<&Record>> = BTreeMap::new();
    for record in records {
        let key = &record.key;
        if !order.contains(&key.task.as_str()) {
            order.push(&key.task);
        }
        let task = order.iter().position(|task| *task == key.task);
        let row = Row::new(&key.cache, &key.budget, [&key.type_k, &key.type_v]);
        let place = (&key.model, key.context, key.query_aware, row, task);
        groups.entry(place).or_default().push(record);
    }
    let summary = |records: &Vec<&Record>| {
        let key = &records[0].key;
        let mean = |value: fn(&Record) -> f64| {
            records.iter().map(|record| value(record)).sum::<f64>() / records.len() as f64
        };
        let (score, samples) = (mean(|record| record.score), records.len());
        let squares = records.iter().map(|record| (record.score - score).powi(2)).sum::<f64>();
        let variance = squares / (samples - 1).max(1) as f64;
        Summary {
            task: key.task.clone(),
            model: key.model.clone(),
            policy: key.cache.clone(),
            budget: key.budget.clone(),
            type_k: key.type_k.clone(),
            type_v: key.type_v.clone(),
            context: key.context,
            query_aware: key.query_aware,
            kv_bytes: mean(|record| record.kv_bytes as f64) as usize,
            kv_share: mean(|record| record.kv_share),
            score: 100.0 * score,
            standard_error: 100.0 * (variance / samples as f64).sqrt(),
            samples,
            prediction: Prediction::mean(records.iter().filter_map(|record| record.prediction.as_ref())),
        }
    };
    groups.values().map(summary).collect()
}

impl Summary {
    /// The cache.
    pub fn row(&self) -> Row {
        Row::new(&self.policy, &self.budget, [&self.type_k, &self.type_v])
    }
}

/// The mean over tasks.
pub fn mean(summaries: &[&Summary], value: fn(&Summary) -> f64) -> f64 {
    summaries.iter().map(|summary| value(summary)).sum::<f64>() / summaries.len() as f64
}

/// Summaries of one model, length and way of asking after the other.
fn tables_of(summaries: &[Summary]) -> impl Iterator<Item = &[Summary]> {
    let of_table = |summary: &Summary| (summary.model.clone(), summary.context, summary.query_aware);
    summaries.chunk_by(move |a, b| of_table(a) == of_table(b))
}

/// Markdown tables for each model, length and way of asking: of scores, and of predictions.
fn tables(summaries: &[Summary]) -> String {
    let mut text = String::from(
        "KV: bytes after the text, in % of a full cache in f16. Scores: means from 0 to 100; ± is the standard error of \
         the average.\n",
    );
    for group in tables_of(summaries) {
        let Summary { model, context, query_aware, .. } = &group[0];
        let context = format::count(*context);
        let (predicted, asked): (Vec<_>, Vec<_>) =
            group.iter().partition(|summary| summary.prediction.is_some());
        if !asked.is_empty() {
            let known = if *query_aware { "known" } else { "unknown" };
            let samples = samples(&asked);
            text += &format!(
                "\n{model}, {context} tokens, texts for each task: {samples}, the question is {known} while a text is \
                 read\n\n{}",
                scores(&asked).markdown()
            );
        }
        if !predicted.is_empty() {
            let samples = samples(&predicted);
            text += &format!(
                "\n{model}, {context} tokens of books, texts: {samples}. KL: divergence from the predictions of a full \
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
    let columns = ["policy", "budget", "type", ">KV", ">average"].map(str::to_owned);
    let headers: Vec<String> = columns.into_iter().chain(names).collect();
    let mut table = Table::new(headers.iter().map(String::as_str));
    for group in summaries.chunk_by(|a, b| a.row() == b.row()) {
        let average = match group.len() == tasks.len() {
            true => {
                let error = mean(group, |summary| summary.standard_error.powi(2)) / group.len() as f64;
                format!("{:.1} ±{:.1}", mean(group, |summary| summary.score), error.sqrt())
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
    let mut table = Table::new(["policy", "budget", "type", ">KV", ">perplexity", ">KL", ">same"]);
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
