//! The tables of an evaluation.

use terminal::format;
use terminal::table::Table;

use crate::eval::compare::sources::{RANKINGS, RightStatements, Shares, SourceShares};
use crate::eval::results::summary::{FINGERPRINT, Measure, Summary, error_of_mean, mean};

/// Parts of a text in a table of what is kept.
const PARTS: usize = 8;

/// How all tables begin.
pub const BEGINS: &str = "KV: bytes after the text, in % of a full cache in f16";

/// Markdown tables for each length, seed and way of asking: of scores, and of what other tasks measure. A model that is
/// the only one is in the line above a table. Several have a column.
pub fn markdown(summaries: &[Summary]) -> String {
    let mut text = format!(
        "{BEGINS}; heads: KV heads that keep everything, and a checksum of which. Scores: means from 0 to 100; ± is the \
         standard error of the average.\n",
    );
    let is_one = summaries.iter().all(|summary| summary.model() == summaries[0].model());
    let key = |summary: &Summary| (summary.context, summary.seed, summary.query_aware);
    let mut sorted: Vec<&Summary> = summaries.iter().collect();
    sorted.sort_by_key(|summary| key(summary));
    for group in sorted.chunk_by(|a, b| key(a) == key(b)) {
        for measure in [
            Measure::Score,
            Measure::Prediction,
            Measure::Agreement,
            Measure::Retention,
            Measure::AttentionLoss,
            Measure::Sources,
        ] {
            let rows: Vec<&Summary> =
                group.iter().copied().filter(|summary| summary.measure() == measure).collect();
            if let Some(first) = rows.first() {
                let model = if is_one { format!("{}, ", name(first)) } else { String::new() };
                let table = TableRows { rows: &rows, has_models: !is_one };
                text += &format!("\n{model}{}\n\n{}", table.heading(first), table.table(measure).markdown());
            }
        }
    }
    text
}

/// `a-model (9f3c21)`
fn name(summary: &Summary) -> String {
    let (model, fingerprint) = summary.model();
    format!("{model} ({})", fingerprint.chars().take(FINGERPRINT).collect::<String>())
}

/// The results of one table.
struct TableRows<'a> {
    rows: &'a [&'a Summary],
    /// Whether there is a column for the model.
    has_models: bool,
}

impl TableRows<'_> {
    /// What all rows have in common.
    fn heading(&self, first: &Summary) -> String {
        let Summary { context, seed, query_aware, .. } = first;
        let (context, samples) = (format::count(*context), self.samples());
        let known = if *query_aware { "known" } else { "unknown" };
        let books = format!("{context} tokens of books, seed {seed}, texts: {samples}");
        let question = format!("the question is {known} while a text is read");
        let without = format!("{books}, without a question");
        match first.measure() {
            Measure::Score => {
                format!("{context} tokens, seed {seed}, texts for each task: {samples}, {question}")
            }
            Measure::Prediction => format!(
                "{without}. KL: divergence from the predictions of a full cache in f16; same: most likely tokens that are \
                 equal, in %"
            ),
            Measure::Agreement => format!(
                "{books}, {question}. Same: tokens of the summary that a full cache in f16 writes that are the most \
                 likely ones here, too, in %; before: tokens before the first that is not; length: tokens of the summary"
            ),
            Measure::AttentionLoss => format!(
                "{without}. Lost: attention of the next token that evicted rows would receive, in %, mean of all heads; least: \
                 what as many rows receive at least"
            ),
            Measure::Sources => format!(
                "{context} tokens, seed {seed}, texts for each task: {samples}, {question}. Of the right answers, in %, those \
                 whose first source has the answer / one of whose first three has it; wrong: the same by both of the other \
                 answers; statements: sentences of longer answers that say what is right, and how many have a source, and the right one"
            ),
            Measure::Retention => {
                format!(
                    "{without}. Share of the rows that are kept of each eighth of the text, in %, all KV heads"
                )
            }
        }
    }

    fn table(&self, measure: Measure) -> Table {
        match measure {
            Measure::Score => self.scores(),
            Measure::Prediction => self.measured([">perplexity", ">KL", ">same"], |summary| {
                let prediction = summary.prediction.as_ref()?;
                let numbers = [prediction.nll.exp(), prediction.kl, 100.0 * prediction.agreement];
                Some([
                    format!("{:.3}", numbers[0]),
                    format!("{:.4}", numbers[1]),
                    format!("{:.1}", numbers[2]),
                ])
            }),
            Measure::Agreement => self.measured([">same", ">before", ">length"], |summary| {
                let agreement = summary.agreement.as_ref()?;
                let error = summary.standard_error.map(|error| format!(" ±{error:.1}")).unwrap_or_default();
                let numbers = [agreement.tokens_before_difference, agreement.tokens];
                let [before, length] = numbers.map(|number| format!("{number:.1}"));
                Some([format!("{:.1}{error}", summary.score), before, length])
            }),
            Measure::AttentionLoss => self.measured([">lost", ">least", ">difference"], |summary| {
                let loss = summary.attention_loss.as_ref()?;
                let numbers = [loss.lost, loss.least, loss.lost - loss.least];
                Some(numbers.map(|share| format!("{:.1}", 100.0 * share)))
            }),
            Measure::Sources => self.sources(),
            Measure::Retention => {
                let headers: [String; PARTS] = std::array::from_fn(|part| format!(">{}/{PARTS}", part + 1));
                self.measured(headers.each_ref().map(String::as_str), |summary| {
                    let shares = summary.retention.as_ref()?;
                    let each = (shares.len() / PARTS).max(1);
                    let mean = |part: &[f64]| 100.0 * part.iter().sum::<f64>() / part.len() as f64;
                    let means: Vec<f64> = shares.chunks(each).map(mean).collect();
                    Some(std::array::from_fn(|part| {
                        means.get(part).map_or_else(String::new, |mean| format!("{mean:.1}"))
                    }))
                })
            }
        }
    }

    /// `10`, or `8 to 10`.
    fn samples(&self) -> String {
        let counts = || self.rows.iter().map(|summary| summary.samples);
        match (counts().min().unwrap_or(0), counts().max().unwrap_or(0)) {
            (least, most) if least == most => most.to_string(),
            (least, most) => format!("{least} to {most}"),
        }
    }

    /// An empty table with the columns of the cache, and these.
    fn empty<'a>(&self, columns: impl IntoIterator<Item = &'a str>) -> Table {
        let model = self.has_models.then_some("model");
        let cache = ["policy", "heads", "budget", "type"];
        let prefill = self.has_prefill().then_some("prefill");
        Table::new(model.into_iter().chain(cache).chain(prefill).chain([">KV"]).chain(columns))
    }

    /// The cells of the model and the cache, of results that have these in common.
    fn cells(&self, results: &[&Summary]) -> impl Iterator<Item = String> {
        let model = self.has_models.then(|| name(results[0]));
        let share = format!("{:.1}", 100.0 * mean(results, |summary| summary.kv_share));
        let row = results[0].cache();
        let prefill = self.has_prefill().then(|| row.inexact_prefill().unwrap_or_default().to_owned());
        model.into_iter().chain(row.cells()).chain(prefill).chain([share])
    }

    /// Whether there is a column for the prefill: not where all texts were read exactly.
    fn has_prefill(&self) -> bool {
        self.rows.iter().any(|summary| summary.cache().inexact_prefill().is_some())
    }

    /// A table with a line for each result that has numbers.
    fn measured<const N: usize>(
        &self,
        columns: [&str; N],
        numbers: impl Fn(&Summary) -> Option<[String; N]>,
    ) -> Table {
        let mut table = self.empty(columns);
        for summary in self.rows {
            if let Some(numbers) = numbers(summary) {
                table.row(self.cells(&[summary]).chain(numbers));
            }
        }
        table
    }

    /// A line for each cache and task.
    fn sources(&self) -> Table {
        let rankings = RANKINGS.map(|(name, _)| format!(">{name}"));
        let columns = ["task", ">right"].into_iter().chain(rankings.iter().map(String::as_str)).chain([
            ">wrong",
            ">statements",
            ">with source",
            ">right source",
        ]);
        let mut table = self.empty(columns);
        for summary in self.rows {
            let Some(SourceShares { right, wrong, of_right, of_wrong, statements }) = &summary.sources else {
                continue;
            };
            let shares = |count: usize, shares: &Shares| match count {
                0 => "-".to_owned(),
                _ => format!("{:.0} / {:.0}", 100.0 * shares.first, 100.0 * shares.first_three),
            };
            let task = summary.task.strip_prefix("sources_").unwrap_or(&summary.task);
            let counts = [task.to_owned(), format!("{right} of {}", right + wrong)];
            let of_right = of_right.iter().map(|of| shares(*right, of));
            let of_wrong = of_wrong.last().map(|of| shares(*wrong, of));
            let RightStatements { all, with_source, right } = statements;
            let statements = [all, with_source, right]
                .map(|count| if *all > 0 { count.to_string() } else { "-".to_owned() });
            table.row(self.cells(&[summary]).chain(counts).chain(of_right).chain(of_wrong).chain(statements));
        }
        table
    }

    /// The caches down, the tasks across.
    fn scores(&self) -> Table {
        let mut tasks: Vec<&str> = Vec::new();
        for summary in self.rows {
            if !tasks.contains(&summary.task.as_str()) {
                tasks.push(&summary.task);
            }
        }
        let names = tasks.iter().map(|task| format!(">{}", task.strip_prefix("niah_").unwrap_or(task)));
        let names: Vec<String> = [">average".to_owned()].into_iter().chain(names).collect();
        let mut table = self.empty(names.iter().map(String::as_str));
        for group in self.rows.chunk_by(|a, b| a.model() == b.model() && a.cache() == b.cache()) {
            let average = match group.len() == tasks.len() {
                true => {
                    let error = error_of_mean(group).map(|error| format!(" ±{error:.1}"));
                    format!("{:.1}{}", mean(group, |summary| summary.score), error.unwrap_or_default())
                }
                // Not all tasks are done.
                false => "-".to_owned(),
            };
            let scores = tasks.iter().map(|task| {
                let summary = group.iter().find(|summary| summary.task == **task);
                summary.map_or("-".to_owned(), |summary| format!("{:.1}", summary.score))
            });
            table.row(self.cells(group).chain([average]).chain(scores));
        }
        table
    }
}
