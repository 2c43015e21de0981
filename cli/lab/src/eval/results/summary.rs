//! The results of each task with each cache: means, and what is compared with what.

use std::cmp::Ordering;
use std::collections::HashMap;

use serde::Serialize;

use crate::eval::compare::agreement::Agreement;
use crate::eval::compare::attention_loss::AttentionLoss;
use crate::eval::compare::prediction::Prediction;
use crate::eval::compare::retention;
use crate::eval::compare::sources::SourceShares;
use crate::eval::results::records::{Key, Record, inexact};

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
    prefill: String,
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
    pub standard_error: Option<f64>,
    pub samples: usize,
    /// Means of what was predicted, where that was the task. The score is 0 then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
    /// Means of how far the answers agree with those of a full cache, where that was the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Agreement>,
    /// Means of the share of rows that are kept of each part of the text, where that was the task. The score is 0 then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Vec<f64>>,
    /// Means of the attention that is lost, where that was the task. The score is 0 then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention_loss: Option<AttentionLoss>,
    /// How often the sources of answers are right, where that was the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<SourceShares>,
}

/// What a task measures. Each has tables of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    Score,
    Prediction,
    Agreement,
    Retention,
    AttentionLoss,
    Sources,
}

/// Settings of a cache: what the rows of tables differ in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CacheSettings {
    policy: String,
    heads: String,
    budget: String,
    types: [String; 2],
    prefill: String,
}

impl CacheSettings {
    fn types(&self) -> String {
        match &self.types {
            [k, v] if k == v => k.clone(),
            [k, v] => format!("{k}/{v}"),
        }
    }

    /// Policy, heads, budget and type.
    pub fn cells(&self) -> [String; 4] {
        [self.policy.clone(), self.heads.clone(), self.budget.clone(), self.types()]
    }

    /// How a text is read, if not exactly.
    pub fn inexact_prefill(&self) -> Option<&str> {
        inexact(&self.prefill)
    }

    /// The policy, and what is not the default of types and prefill: `razor q8_0`.
    pub fn name_without_budget(&self) -> String {
        self.name_with("")
    }

    /// The same with the budget: `razor q8_0 25%`.
    pub fn name(&self) -> String {
        self.name_with(&self.budget)
    }

    fn name_with(&self, budget: &str) -> String {
        let types = Some(self.types()).filter(|types| types != "f16").unwrap_or_default();
        let words = [self.policy.as_str(), &types, budget].into_iter().filter(|word| !word.is_empty());
        let name = words.collect::<Vec<_>>().join(" ");
        match self.inexact_prefill() {
            Some(prefill) => format!("{name}, {prefill} prefill"),
            None => name,
        }
    }

    /// Whether the cache evicts rows.
    pub fn evicts(&self) -> bool {
        !self.budget.is_empty()
    }

    /// Full caches first, then by type and policy, then by memory.
    fn order(&self, other: &CacheSettings) -> Ordering {
        let words = |row: &CacheSettings| {
            (
                !row.budget.is_empty(),
                row.types.clone(),
                row.policy.clone(),
                row.heads.clone(),
                row.prefill.clone(),
            )
        };
        let digits =
            |row: &CacheSettings| row.budget.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(0);
        let size = |row: &CacheSettings| row.budget[..digits(row)].parse::<f64>().unwrap_or(0.0);
        words(self)
            .cmp(&words(other))
            .then(size(self).total_cmp(&size(other)))
            .then(self.budget.cmp(&other.budget))
    }
}

/// Means of all results, sorted by model, seed, length and cache; the tasks in the order of the results.
pub fn summaries(records: &[Record]) -> Vec<Summary> {
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
        a.picture()
            .cmp(&b.picture())
            .then_with(|| a.cache().order(&b.cache()))
            .then_with(|| task(a).cmp(&task(b)))
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
            prefill: key.prefill,
            context: key.context,
            seed: key.seed,
            query_aware: key.query_aware,
            kv_bytes: mean(|record| record.kv_bytes as f64) as usize,
            kv_share: mean(|record| record.kv_share),
            score: 100.0 * score,
            standard_error: variance.map(|variance| 100.0 * (variance / samples as f64).sqrt()),
            samples,
            prediction: Prediction::mean(records.iter().filter_map(|record| record.prediction.as_ref())),
            agreement: Agreement::mean(records.iter().filter_map(|record| record.agreement.as_ref())),
            retention: retention::mean(records.iter().filter_map(|record| record.retention.as_ref())),
            attention_loss: AttentionLoss::mean(
                records.iter().filter_map(|record| record.attention_loss.as_ref()),
            ),
            sources: SourceShares::of(
                records.iter().filter_map(|record| Some((record.score, record.sources.as_ref()?))),
            ),
        }
    }

    /// What the task measures.
    pub fn measure(&self) -> Measure {
        match self {
            Summary { prediction: Some(_), .. } => Measure::Prediction,
            Summary { agreement: Some(_), .. } => Measure::Agreement,
            Summary { retention: Some(_), .. } => Measure::Retention,
            Summary { attention_loss: Some(_), .. } => Measure::AttentionLoss,
            Summary { sources: Some(_), .. } => Measure::Sources,
            _ => Measure::Score,
        }
    }

    /// The cache.
    pub fn cache(&self) -> CacheSettings {
        CacheSettings {
            policy: self.policy.clone(),
            heads: self.heads.clone(),
            budget: self.budget.clone(),
            types: [self.type_k.clone(), self.type_v.clone()],
            prefill: self.prefill.clone(),
        }
    }

    /// The model's name and fingerprint.
    pub fn model(&self) -> (&str, &str) {
        (&self.model, &self.fingerprint)
    }

    /// What all results in a picture have in common.
    fn picture(&self) -> (&str, &str, u32, usize, bool) {
        (&self.model, &self.fingerprint, self.seed, self.context, self.query_aware)
    }
}

/// The mean over tasks.
pub fn mean(summaries: &[&Summary], value: fn(&Summary) -> f64) -> f64 {
    summaries.iter().map(|summary| value(summary)).sum::<f64>() / summaries.len() as f64
}

/// The standard error of the mean over tasks; `None` where one of them has none.
pub fn error_of_mean(summaries: &[&Summary]) -> Option<f64> {
    let errors: Option<Vec<f64>> = summaries.iter().map(|summary| summary.standard_error).collect();
    let squares: f64 = errors?.iter().map(|error| error * error).sum();
    Some(squares.sqrt() / summaries.len() as f64)
}

/// Summaries of one model, length and way of asking after the other.
pub fn pictures_of(summaries: &[Summary]) -> impl Iterator<Item = &[Summary]> {
    summaries.chunk_by(|a, b| a.picture() == b.picture())
}
