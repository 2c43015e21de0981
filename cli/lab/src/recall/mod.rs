//! `longhand recall`: how many facts of a long document each policy still answers, at equal memory. Each
//! session, one for every policy and budget, reads the document once without a question, so rows are evicted
//! before the questions are known. Then every question is asked from that state.

mod report;
mod texts;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use longhand::heads::HeadProfile;
use longhand::policy::{KvBudget, PolicyChoice};
use longhand::setup::{Context, available_memory};
use longhand::{Engine, EngineError, Model, SessionOptions, Setup, SetupOptions, Type};
use terminal::progress::ProgressBar;
use terminal::{format, values};

use self::texts::FactText;
use crate::Lab;
use crate::examine::{examine, find_profile, groups};

/// What is asked, and of which caches. The model and the types of keys and values are others' flags.
#[derive(Debug, Args)]
pub struct RecallArgs {
    /// Lengths of the documents in tokens, comma-separated
    #[arg(short = 'c', long = "ctx-size", value_name = "TOKENS", value_delimiter = ',', default_value = "4k,8k,16k", value_parser = values::positive)]
    lengths: Vec<usize>,
    /// Memory for the KV cache, comma-separated: shares of what `full` needs (30%) or sizes (2GiB)
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "15%,25%,33%,50%", value_parser = values::budget)]
    kv_budget: Vec<KvBudget>,
    /// Policies, separated by semicolons, or `all`
    #[arg(long, value_name = "POLICY", value_delimiter = ';', default_value = "all")]
    pub policy: Vec<String>,
    /// Questions for each policy, budget and length; there are ten about each document
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    questions: u32,
    /// Random seed of the documents
    #[arg(short = 's', long, default_value_t = 1)]
    seed: u64,
    /// Head profile, for razor, kvzip, kvzip-plus, kvzap and policies with heads=on [default: the saved profile of the model, else a new
    /// calibration]
    #[arg(long, value_name = "FILE")]
    pub heads: Option<PathBuf>,
    /// Print a JSON array with one object for each policy and budget
    #[arg(long)]
    json: bool,
}

/// A policy with bounded heads: a row of every table.
struct RecallRow {
    /// As given. A budget sets other parameters.
    name: String,
    policy: PolicyChoice,
    profile: Option<HeadProfile>,
}

/// The documents of one length, and the results.
struct Trial {
    /// Tokens of a document.
    tokens: usize,
    texts: Vec<FactText>,
    /// Tokens of a session: a document, a question and its answer.
    context: usize,
    /// The reference, then every policy with every budget, row by row.
    cells: Vec<Cell>,
}

/// A policy with a budget, and its results.
struct Cell {
    name: String,
    /// `None` for the reference.
    budget: Option<KvBudget>,
    /// The policy with the parameters that the budget allows, or why the budget is impossible.
    options: Result<SessionOptions, String>,
    /// Questions with a correct answer.
    answered: usize,
    /// Bytes of the KV cache after reading, summed over the documents.
    kv_bytes: usize,
    /// The same for a cache that keeps everything.
    kv_full: usize,
}

/// Measures, and prints the results. `policies`: those of [`RecallArgs::policy`] that have bounded heads, with their names
/// as given. `setup_options` has the types of keys and values.
///
/// # Errors
/// Where the model has no usable chat template, a computation fails, or Ctrl-C was pressed.
pub fn run(
    lab: &Lab,
    args: &RecallArgs,
    model: &Arc<Model>,
    policies: Vec<(String, PolicyChoice)>,
    setup_options: &SetupOptions,
) -> Result<()> {
    let default = SessionOptions::default().types;
    let types = (setup_options.k_type.unwrap_or(default.0), setup_options.v_type.unwrap_or(default.1));
    // Every length is resolved before the first document is read. The layers on the GPU are chosen for the
    // longest.
    let options = |tokens| SetupOptions { context: Context::Tokens(tokens), ..setup_options.clone() };
    let Some(longest) = args.lengths.iter().copied().max() else { return Ok(()) };
    for tokens in args.lengths.iter().copied().filter(|tokens| *tokens < longest) {
        // Only the notices of the longest are shown.
        lab.interrupt.computing(|| Setup::resolve(model, &options(tokens), tokens, &mut ()))?;
    }
    let engine = lab.load(model, &options(longest), longest)?;
    let rows = rows(lab, args, &engine, setup_options, policies)?;
    let mut trials = Vec::new();
    for tokens in &args.lengths {
        trials.push(Trial::new(lab, args, types, &engine, &rows, *tokens)?);
    }
    measure(lab, &engine, &mut trials)?;
    report::print(lab, args, types, model, &trials)
}

/// Finds the head profile of each policy.
fn rows(
    lab: &Lab,
    args: &RecallArgs,
    engine: &Arc<Engine>,
    setup_options: &SetupOptions,
    policies: Vec<(String, PolicyChoice)>,
) -> Result<Vec<RecallRow>> {
    let row = |(name, policy): (String, PolicyChoice)| {
        let profile = find_profile(lab, engine, setup_options, args.heads.as_deref(), &policy)?;
        Ok(RecallRow { name, policy, profile })
    };
    policies.into_iter().map(row).collect()
}

fn session_options(
    types: (Type, Type),
    policy: &PolicyChoice,
    profile: Option<HeadProfile>,
    context: usize,
) -> SessionOptions {
    SessionOptions {
        context,
        policy: policy.clone(),
        profile,
        types,
        // So that results do not depend on the processor.
        int8: false,
        chunk: SessionOptions::default().chunk,
        ..SessionOptions::default()
    }
}

impl Trial {
    fn new(
        lab: &Lab,
        args: &RecallArgs,
        types: (Type, Type),
        engine: &Engine,
        rows: &[RecallRow],
        tokens: usize,
    ) -> Result<Trial> {
        let texts =
            texts::generate(engine.model().chat_format()?, tokens, args.questions as usize, args.seed)?;
        let context = texts.iter().map(|text| text.text.context()).max().unwrap_or(0);
        let cell = |name: &str, budget, options| Cell {
            name: name.to_owned(),
            budget,
            options,
            answered: 0,
            kv_bytes: 0,
            kv_full: 0,
        };
        let full = PolicyChoice::default();
        let mut cells = vec![cell(full.name(), None, Ok(session_options(types, &full, None, context)))];
        for RecallRow { name, policy, profile } in rows {
            for budget in &args.kv_budget {
                let unlimited = session_options(types, policy, profile.clone(), context);
                let options = match unlimited.within(*budget, engine.spec()) {
                    Ok(options) => Ok(options),
                    Err(EngineError::Policy { reason, .. }) => {
                        lab.console.note(&format!("note: {name}: {reason}"));
                        Err(reason)
                    }
                    Err(error) => return Err(error.into()),
                };
                cells.push(cell(name, Some(*budget), options));
            }
        }
        Ok(Trial { tokens, texts, context, cells })
    }

    fn questions(&self) -> usize {
        self.texts.iter().map(|text| text.facts.len()).sum()
    }
}

impl Cell {
    fn kv_share(&self) -> f64 {
        format::share(self.kv_bytes, self.kv_full)
    }
}

/// Reads all documents and asks all questions.
fn measure(lab: &Lab, engine: &Arc<Engine>, trials: &mut [Trial]) -> Result<()> {
    let format = engine.model().chat_format()?;
    let possible = |trial: &Trial| trial.cells.iter().filter(|cell| cell.options.is_ok()).count();
    let all: usize = trials.iter().map(|trial| trial.tokens * trial.texts.len() * possible(trial)).sum();
    let mut done = 0;
    let mut bar = ProgressBar::new(&lab.console, "recall");
    for Trial { tokens, texts, context, cells } in trials {
        let free = available_memory().unwrap_or(usize::MAX);
        let options = |(index, cell): (usize, &Cell)| Some((index, cell.options.as_ref().ok()?.clone()));
        let possible: Vec<_> = cells.iter().enumerate().filter_map(options).collect();
        for group in groups(engine, possible, *context, free)? {
            let new =
                |(_, options): &(usize, SessionOptions)| lab.interrupt.new_session(engine, options.clone());
            let mut sessions = group.iter().map(new).collect::<Result<Vec<_>, _>>()?;
            for (number, text) in texts.iter().enumerate() {
                let detail = format!("document {} of {}", number + 1, format::count(*tokens));
                let weight = *tokens * group.len();
                let mut progress = |share: f64| {
                    bar.show_share((done as f64 + weight as f64 * share) / all as f64, &detail);
                };
                examine(lab, format, &mut sessions, &text.text, &mut progress, &mut |answer| {
                    let cell = &mut cells[group[answer.session].0];
                    if answer.question == 0 {
                        cell.kv_bytes += answer.usage.bytes;
                        cell.kv_full += answer.usage.full_bytes;
                    }
                    cell.answered += usize::from(text.facts[answer.question].is_answered_by(answer.text));
                    Ok(())
                })?;
                done += weight;
            }
        }
    }
    Ok(())
}
