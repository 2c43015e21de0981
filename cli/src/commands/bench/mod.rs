//! `longhand bench`: speed with llama-bench's test names (`pp512`, `tg128`, `@ d32768`), KV bytes, and memory
//! bandwidth.
//!
//! Each test runs once as a warm-up and then `-r` times. Before each run the cache is filled to the test's
//! depth again.
//!
//! `lab` has the commands that measure answers.

#[cfg(feature = "lab")]
pub mod lab;
mod measure;
mod report;
mod synthetic;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use longhand::policy::PolicyChoice;
use longhand::setup::{Context, HeadSource, Profiles};
use longhand::{ModelSource, Observer, Setup, SetupOptions};
use measure::{Bench, Test};
use report::Report;
use terminal::prefill::PrefillArg;
use terminal::values;

use crate::app::App;
use crate::args::session::{self, BudgetArgs, ChunkArgs, TypeArgs};
use crate::failure::Failure;
use crate::models::args::{ModelArg, ModelArgs, shape_help};

/// Size of the memory that the bandwidth is measured with. It is larger than most machines' caches.
const BANDWIDTH_BYTES: usize = 256 << 20;
/// For how long each kind of arithmetic is measured.
const ARITHMETIC_SECONDS: f64 = 0.2;

/// Measure speed, KV cache size, and the shares of the machine's memory bandwidth and arithmetic that are used.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(flatten)]
    model_arg: ModelArg,
    /// A well-known model with synthetic weights instead of a file, for example llama-3.2-1b:q4_k_m
    #[arg(long, long_help = shape_help("A well-known model with synthetic weights instead of a file"), value_name = "NAME[@LAYERS][:TYPE]", conflicts_with_all = ["model_arg", "model", "hf_repo"])]
    shape: Option<String>,
    /// Prompt length in tokens; comma-separated for several tests; 0 for none [default: 512]
    #[arg(short = 'p', long = "n-prompt", value_name = "TOKENS", value_delimiter = ',', value_parser = values::tokens)]
    n_prompt: Vec<usize>,
    /// Tokens to generate; comma-separated for several tests; 0 for none [default: 128]
    #[arg(short = 'n', long = "n-gen", value_name = "TOKENS", value_delimiter = ',', value_parser = values::tokens)]
    n_gen: Vec<usize>,
    /// Tokens in the cache before each test; comma-separated for several tests [default: 0]
    #[arg(short = 'd', long = "n-depth", value_name = "TOKENS", value_delimiter = ',', value_parser = values::tokens)]
    n_depth: Vec<usize>,
    /// Measured runs of each test
    #[arg(short = 'r', long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,
    /// Policies, separated by semicolons, or `all`
    #[arg(long, value_name = "POLICY", value_delimiter = ';', default_value = "full")]
    policy: Vec<String>,
    /// How the cache is filled before a test
    #[arg(long, value_enum, default_value_t = Fill::Prefill)]
    fill: Fill,
    /// How texts are read into the cache
    #[arg(long, value_enum, default_value_t = PrefillArg::Exact, help_heading = "Prefill")]
    prefill: PrefillArg,
    /// Head profile, for razor, kvzip, kvzip-plus, kvzap and policies with heads=on [default: the saved profile of the model, else a new
    /// calibration]
    #[arg(long, value_name = "FILE")]
    heads: Option<PathBuf>,
    /// Share of the KV heads that are assumed to be retrieval heads, instead of a profile. They are spread evenly over the layers
    /// [default with --shape: 0.15 without grouped queries, 0.30 for groups of 2, 0.36 for larger groups]
    #[arg(long, value_name = "SHARE", value_parser = values::share, conflicts_with = "heads")]
    heads_share: Option<f64>,
    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t = Output::Md)]
    output: Output,
    /// Print a JSON array, the same as -o json
    #[arg(long, conflicts_with = "output")]
    json: bool,
    #[command(flatten)]
    budget: BudgetArgs,
    #[command(flatten)]
    chunk: ChunkArgs,
    #[command(flatten)]
    types: TypeArgs,
    #[command(flatten)]
    model: ModelArgs,
}

/// How the cache is filled to a depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Fill {
    /// By reading a text
    Prefill,
    /// With random rows, without computing anything
    Random,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A Markdown table
    Md,
    /// An array of objects
    Json,
    /// Comma-separated values
    Csv,
}

impl BenchArgs {
    fn output(&self) -> Output {
        if self.json { Output::Json } else { self.output }
    }
}

/// Runs the command.
pub fn run(app: &App, args: &BenchArgs) -> Result<()> {
    let policies =
        session::expand_policies(&args.policy).map(session::policy).collect::<Result<Vec<_>, Failure>>()?;
    if args.heads.is_some() && !policies.iter().any(|policy| policy.uses_profile()) {
        return Err(Failure::usage(
            "--heads is given, but no policy uses a head profile",
            "add --policy razor, or leave out --heads",
        )
        .into());
    }
    let tests = tests(args)?;
    let source = match &args.shape {
        Some(text) => ModelSource::File(synthetic::model_file(app, text)?),
        None => args.model.source(app, args.model_arg.path.as_deref())?,
    };
    let model = app.open(source.clone())?;
    let longest = tests.iter().map(Test::tokens).max().unwrap_or(0);
    let (k_type, v_type) = args.types.types();
    let options = SetupOptions {
        heads: match (&args.heads, args.heads_share, &args.shape) {
            (Some(path), _, _) => HeadSource::File(path.clone()),
            (None, Some(share), _) => HeadSource::Assumed(Some(share)),
            (None, None, Some(_)) => HeadSource::Assumed(None),
            (None, None, None) => HeadSource::Auto,
        },
        k_type: Some(k_type),
        v_type: Some(v_type),
        prefill: Some(args.prefill.prefill()),
        chunk: Some(args.chunk.tokens()),
        ..args.model.setup_options(app)?
    };
    let options_with = |policy: &PolicyChoice| SetupOptions {
        policy: Some(policy.clone()),
        // The policy that keeps everything takes no budget.
        budget: args.budget.budget().filter(|_| policy.policy().is_some()),
        heads: if policy.uses_profile() { options.heads.clone() } else { HeadSource::Auto },
        ..options.clone()
    };
    // The layers on the GPU are chosen for the largest test: with several policies, for the one that keeps
    // everything.
    let largest = SetupOptions {
        context: Context::Tokens(longest.max(1)),
        ..match &policies[..] {
            [policy] => options_with(policy),
            _ => SetupOptions {
                policy: Some(PolicyChoice::default()),
                heads: HeadSource::Auto,
                ..options.clone()
            },
        }
    };
    // Every test is resolved before the first one runs, so that a test that does not fit is an error at once.
    for policy in &policies {
        for test in &tests {
            let options =
                SetupOptions { context: Context::Tokens(test.tokens() + 1), ..options_with(policy) };
            let mut reporter = app.reporter();
            let mut progress = |progress| reporter.progress(progress);
            app.interrupt.computing(|| Setup::resolve(&model, &options, test.tokens(), &mut progress))?;
        }
    }
    // Its memory is not promised to it any longer than this: each test makes a session of its own.
    let engine = app.load(&app.resolve(&model, &largest, longest)?)?;
    for policy in &policies {
        for test in &tests {
            measure::refuse_early(&engine, &options_with(policy), *test)?;
        }
    }
    app.console.note("measuring memory and arithmetic");
    let bandwidth = app.interrupt.computing(|| engine.memory_bandwidth(BANDWIDTH_BYTES, 5))?;
    let arithmetic = app.interrupt.computing(|| engine.arithmetic(ARITHMETIC_SECONDS));

    let mut measurements = Vec::new();
    for policy in &policies {
        let options = options_with(policy);
        let profiles = Profiles::new(&model, &options);
        let find = || profiles.find_or_calibrate(&engine, policy, &mut app.reporter());
        let profile = app.interrupt.computing(find)?;
        let bench =
            Bench { engine: &engine, options: &options, profile, random_fill: args.fill == Fill::Random };
        for test in &tests {
            app.console.note(&format!("{policy}: {test}"));
            measurements.push(bench.measure(app, *test, args.repetitions)?);
        }
    }
    let file = match &source {
        ModelSource::File(path) => path.display().to_string(),
        _ => model.name().to_owned(),
    };
    let report = Report { engine: &engine, name: model.name().to_owned(), file, bandwidth, arithmetic, args };
    report.print(app, &measurements)
}

/// For each depth the prompt tests, then the generation tests, in llama-bench's order.
fn tests(args: &BenchArgs) -> Result<Vec<Test>, Failure> {
    let or = |list: &[usize], default: usize| if list.is_empty() { vec![default] } else { list.to_vec() };
    let (prompts, gens) = (or(&args.n_prompt, 512), or(&args.n_gen, 128));
    let mut tests = Vec::new();
    for depth in or(&args.n_depth, 0) {
        tests.extend(prompts.iter().filter(|n| **n > 0).map(|n| Test { prompt: *n, generate: 0, depth }));
        tests.extend(gens.iter().filter(|n| **n > 0).map(|n| Test { prompt: 0, generate: *n, depth }));
    }
    match tests.is_empty() {
        true => Err(Failure::usage("there is nothing to measure", "give -p or -n something other than 0")),
        false => Ok(tests),
    }
}
