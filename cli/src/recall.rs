//! `longhand recall`: how many facts of a long document each policy still answers, at equal memory. Each
//! session, one for every policy and budget, reads the document once without a question, so rows are evicted
//! before the questions are known. Then every question is asked from that state.

mod report;
mod texts;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use longhand::heads::HeadProfile;
use longhand::policy::{KvBudget, PolicyChoice};
use longhand::setup::{Profiles, available_memory, plan_session};
use longhand::{
    ChatFormat, Context, Engine, EngineError, HeadSource, Model, Sampler, SamplerOptions, Session,
    SessionOptions, Setup, SetupOptions, Stop, generate, sync_all,
};

use self::texts::{Question, Text};
use crate::app::App;
use crate::args::model::{ModelArg, ModelArgs};
use crate::args::session::{self, TypeArgs};
use crate::args::values;
use crate::failure::Failure;
use crate::format;
use crate::progress::ProgressBar;

/// Maximum tokens of an answer. Facts have about ten.
const ANSWER_LIMIT: usize = 32;

/// Measure how many facts of a long document are still found under each policy, at equal memory.
///
/// Each document is generated with facts at evenly spaced depths and read without a question. Then every fact
/// is asked about, each time from the state of the cache after reading. The policy `full`, which keeps
/// everything, is the reference.
#[derive(Debug, Args)]
pub struct RecallArgs {
    #[command(flatten)]
    model_arg: ModelArg,
    /// Lengths of the documents in tokens, comma-separated
    #[arg(short = 'c', long = "ctx-size", value_name = "TOKENS", value_delimiter = ',', default_value = "4k,8k,16k", value_parser = values::positive)]
    lengths: Vec<usize>,
    /// Memory for the KV cache, comma-separated: shares of what `full` needs (30%) or sizes (2GiB)
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "15%,25%,33%,50%", value_parser = values::budget)]
    kv_budget: Vec<KvBudget>,
    /// A policy, or `all`; repeat for several
    #[arg(long, value_name = "POLICY", value_delimiter = ';', default_value = "all")]
    policy: Vec<String>,
    /// Questions for each policy, budget and length; there are ten about each document
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    questions: u32,
    /// Random seed of the documents
    #[arg(short = 's', long, default_value_t = 1)]
    seed: u64,
    /// Head profile, for razor and policies with heads=on [default: the saved profile of the model, else a new
    /// calibration]
    #[arg(long, value_name = "FILE")]
    heads: Option<PathBuf>,
    /// Print a JSON array with one object for each policy and budget
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    types: TypeArgs,
    #[command(flatten)]
    model: ModelArgs,
}

/// A policy with bounded heads: a row of every table.
struct Row {
    /// As given. A budget sets other parameters.
    name: String,
    policy: PolicyChoice,
    profile: Option<HeadProfile>,
}

/// The documents of one length, and the results.
struct Trial {
    /// Tokens of a document.
    tokens: usize,
    texts: Vec<Text>,
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

/// Runs the command.
pub fn run(app: &App, args: &RecallArgs) -> Result<()> {
    let policies = policies(args)?;
    let model = Model::open(args.model.source(app, args.model_arg.path.as_deref())?)?;
    let (k_type, v_type) = args.types.types();
    let setup_options =
        SetupOptions { k_type: Some(k_type), v_type: Some(v_type), ..args.model.setup_options(app) };
    // Every length is resolved before the first document is read. The layers on the GPU are chosen for the
    // longest.
    let options = |tokens| SetupOptions { context: Context::Tokens(tokens), ..setup_options.clone() };
    let Some(longest) = args.lengths.iter().copied().max() else { return Ok(()) };
    for tokens in args.lengths.iter().copied().filter(|tokens| *tokens < longest) {
        // Only the notices of the longest are shown.
        app.interrupt.computing(|| Setup::resolve(&model, &options(tokens), tokens, &mut ()))?;
    }
    let engine = app.load(&app.resolve(&model, &options(longest), longest)?)?;
    let rows = rows(app, args, &engine, &setup_options, policies)?;
    let mut trials = Vec::new();
    for tokens in &args.lengths {
        trials.push(Trial::new(app, args, &engine, &rows, *tokens)?);
    }
    measure(app, &engine, &mut trials)?;
    report::print(app, args, &model, &trials)
}

/// The given policies with bounded heads, by name.
fn policies(args: &RecallArgs) -> Result<Vec<(String, PolicyChoice)>, Failure> {
    let mut policies = Vec::new();
    for name in session::expand_policies(&args.policy) {
        let policy = session::policy(name)?;
        if policy.policy().is_some() {
            policies.push((name.to_owned(), policy));
        }
    }
    if args.heads.is_some() && !policies.iter().any(|(_, policy)| policy.uses_profile()) {
        return Err(Failure::usage(
            "--heads is given, but no policy uses a head profile",
            "add --policy razor, or leave out --heads",
        ));
    }
    Ok(policies)
}

/// Finds the head profile of each policy.
fn rows(
    app: &App,
    args: &RecallArgs,
    engine: &Engine,
    setup_options: &SetupOptions,
    policies: Vec<(String, PolicyChoice)>,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, policy) in policies {
        let heads = match args.heads.clone().filter(|_| policy.uses_profile()) {
            Some(path) => HeadSource::File(path),
            None => HeadSource::Auto,
        };
        let setup_options = SetupOptions { heads, ..setup_options.clone() };
        let profiles = Profiles::new(engine.model(), &setup_options);
        let profile =
            app.interrupt.computing(|| profiles.find_or_calibrate(engine, &policy, &mut app.reporter()))?;
        rows.push(Row { name, policy, profile });
    }
    Ok(rows)
}

fn session_options(
    args: &RecallArgs,
    policy: &PolicyChoice,
    profile: Option<HeadProfile>,
    context: usize,
) -> SessionOptions {
    SessionOptions {
        context,
        policy: policy.clone(),
        profile,
        types: args.types.types(),
        chunk: SessionOptions::default().chunk,
        ..SessionOptions::default()
    }
}

impl Trial {
    fn new(app: &App, args: &RecallArgs, engine: &Engine, rows: &[Row], tokens: usize) -> Result<Trial> {
        let texts =
            texts::generate(engine.model().chat_format()?, tokens, args.questions as usize, args.seed)?;
        let context = texts.iter().map(Text::max_prompt).max().unwrap_or(0) + ANSWER_LIMIT;
        let cell = |name: &str, budget, options| Cell {
            name: name.to_owned(),
            budget,
            options,
            answered: 0,
            kv_bytes: 0,
            kv_full: 0,
        };
        let full = PolicyChoice::default();
        let mut cells = vec![cell(full.name(), None, Ok(session_options(args, &full, None, context)))];
        for Row { name, policy, profile } in rows {
            for budget in &args.kv_budget {
                let unlimited = session_options(args, policy, profile.clone(), context);
                let options = match unlimited.within(*budget, engine.spec()) {
                    Ok(options) => Ok(options),
                    Err(EngineError::Policy { reason, .. }) => {
                        app.console.note(&format!("note: {name}: {reason}"));
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
        self.texts.iter().map(|text| text.questions.len()).sum()
    }
}

impl Cell {
    fn kv_share(&self) -> f64 {
        format::share(self.kv_bytes, self.kv_full)
    }
}

/// Reads all documents and asks all questions.
fn measure(app: &App, engine: &Arc<Engine>, trials: &mut [Trial]) -> Result<()> {
    let format = engine.model().chat_format()?;
    let mut evaluator = Evaluator {
        app,
        format,
        sampler: Sampler::new(SamplerOptions::greedy())?,
        stops: format.template().stop_strings().iter().map(|stop| (*stop).to_owned()).collect(),
    };
    let possible = |trial: &Trial| trial.cells.iter().filter(|cell| cell.options.is_ok()).count();
    let all: usize = trials.iter().map(|trial| trial.tokens * trial.texts.len() * possible(trial)).sum();
    let mut done = 0;
    let mut bar = ProgressBar::new(&app.console, "recall");
    for Trial { tokens, texts, context, cells } in trials {
        let free = available_memory().unwrap_or(usize::MAX);
        for mut group in groups(engine, cells, *context, free)? {
            let new = |cell: &&mut Cell| match &cell.options {
                Ok(options) => Some(Session::new(engine, options.clone())),
                Err(_) => None,
            };
            let mut sessions = group.iter().filter_map(new).collect::<Result<Vec<_>, _>>()?;
            for (number, text) in texts.iter().enumerate() {
                let detail = format!("document {} of {}", number + 1, format::count(*tokens));
                let weight = *tokens * group.len();
                evaluator.evaluate(&mut sessions, &mut group, text, &mut |share| {
                    bar.show_share((done as f64 + weight as f64 * share) / all as f64, &detail);
                })?;
                done += weight;
            }
        }
    }
    Ok(())
}

/// Divides the possible cells into few groups that fit `available` bytes, because each group reads every
/// document. A cell that does not fit alone is a group of its own.
fn groups<'c>(
    engine: &Engine,
    cells: &'c mut [Cell],
    prompt: usize,
    available: usize,
) -> Result<Vec<Vec<&'c mut Cell>>> {
    let (mut groups, mut group, mut free) = (Vec::new(), Vec::new(), available);
    for cell in cells {
        let Ok(options) = &cell.options else { continue };
        let needed = bytes_beside_weights(engine, options, prompt)?;
        if needed > free && !group.is_empty() {
            groups.push(std::mem::take(&mut group));
            free = available;
        }
        free = free.saturating_sub(needed);
        group.push(cell);
    }
    groups.push(group);
    Ok(groups)
}

/// Bytes of host memory that a session needs besides the weights.
fn bytes_beside_weights(engine: &Engine, options: &SessionOptions, prompt: usize) -> Result<usize> {
    let (_, plan) = plan_session(engine, options.clone(), None, prompt)?;
    Ok(plan.total() - plan.weights.on_host())
}

/// Asks questions and checks the answers.
struct Evaluator<'a> {
    app: &'a App,
    format: &'a ChatFormat,
    sampler: Sampler,
    stops: Vec<String>,
}

impl Evaluator<'_> {
    /// Reads a document into all sessions, and asks each of them about all facts. `on_progress` receives the
    /// share that is done, from 0 to 1.
    fn evaluate(
        &mut self,
        sessions: &mut [Session],
        cells: &mut [&mut Cell],
        text: &Text,
        on_progress: &mut dyn FnMut(f64),
    ) -> Result<()> {
        let interrupt = &self.app.interrupt;
        interrupt.computing(|| {
            sync_all(sessions, &text.document, &mut |progress| on_progress(progress.share / 2.0))
        })?;
        let all = sessions.len() * text.questions.len();
        let mut asked = 0;
        for (session, cell) in sessions.iter_mut().zip(cells) {
            let usage = session.kv_usage();
            cell.kv_bytes += usage.bytes;
            cell.kv_full += usage.full_bytes;
            for question in &text.questions {
                cell.answered += usize::from(self.is_answered(session, text, question)?);
                asked += 1;
                on_progress(0.5 + format::share(asked, all) / 2.0);
            }
        }
        Ok(())
    }

    /// Asks a question from the state after reading the document. Returns whether the answer is correct.
    fn is_answered(&mut self, session: &mut Session, text: &Text, question: &Question) -> Result<bool> {
        let Evaluator { app, format, sampler, stops } = self;
        let prompt = [text.document.as_slice(), &question.tokens].concat();
        let on_text = &mut |_: &str| ControlFlow::Continue(());
        let answer = app.interrupt.computing(|| {
            // Return to the end of the document first. Syncing from one question directly to the next would
            // return to where the two differ, and move the session's undo point there. A later question may
            // differ earlier.
            session.sync(&text.document, &mut |_| ())?;
            session.sync(&prompt, &mut |_| ())?;
            generate(session, format.tokenizer(), sampler, stops, ANSWER_LIMIT, on_text)
        })?;
        match answer.stop {
            Stop::Interrupted => Err(Failure::interrupted().into()),
            _ => Ok(question.fact.is_answered_by(&answer.text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use longhand::{EngineOptions, ModelSource};

    use super::*;

    #[test]
    fn groups_fit_the_memory() {
        let engine = Engine::open(&ModelSource::Embedded, &EngineOptions::default()).expect("embedded model");
        let mut cells: Vec<Cell> = ["full", "streaming", "", "h2o", "full"]
            .map(|name| Cell {
                name: name.to_owned(),
                budget: None,
                options: name
                    .parse()
                    .map(|policy| SessionOptions { policy, ..SessionOptions::default() })
                    .map_err(|error: EngineError| error.to_string()),
                answered: 0,
                kv_bytes: 0,
                kv_full: 0,
            })
            .into();
        let needed = |cell: &Cell| bytes_beside_weights(&engine, cell.options.as_ref().ok()?, 4000).ok();
        let three: usize = [0, 1, 3].iter().filter_map(|index| needed(&cells[*index])).sum();
        for (available, expected) in
            [(usize::MAX, vec![4]), (three, vec![3, 1]), (three - 1, vec![2, 2]), (0, vec![1; 4])]
        {
            let groups = groups(&engine, &mut cells, 4000, available).expect("plans");
            assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), expected, "{available}");
        }
    }
}
