//! `longhand plan`: whether a session fits, and with which policy and cache types. Nothing is allocated.

mod answer;
mod gpus;
mod report;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use ggml::Type;
use longhand::policy::{KvBudget, PolicyChoice, policies};
use longhand::setup::recipes::{FULL, Recipe, TYPES, recipes, share};
use longhand::setup::{Context, DeviceRequest, Forecast, GpuLayers, HeadSource, SessionForecast};
use longhand::{DeviceKind, EngineError, SetupOptions};
use models::shapes::ModelShape;
use models::spec::ModelSpec;

use self::answer::{Answer, Verdict};
use self::gpus::KnownGpu;
pub use self::gpus::names as gpu_names;
use crate::app::App;
use crate::args::session::{self, BudgetArgs, ChunkArgs};
use crate::failure::{Failure, Hinted};
use crate::models::args::{ModelArg, ModelArgs, shape_help};
use terminal::prefill::PrefillArg;
use terminal::{format, values};

/// Say whether a model and a context fit the memory, and with which policy and cache types.
///
/// The first line is the answer: yes, no, or partly, where a GPU holds some of the layers. Then comes the command to run.
/// The table has the best choices: those that lose the fewest answers in our tests, the most exact one first. Unless the
/// answer is yes or not known, the exit code is 3 (0 with --json).
#[derive(Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    model_arg: ModelArg,
    /// Plan for a well-known model without a file, for example llama-3.1-8b:q4_k_m
    #[arg(long, long_help = shape_help("Plan for a well-known model without a file"), value_name = "NAME[@LAYERS][:TYPE]", conflicts_with_all = ["model_arg", "model", "hf_repo"])]
    shape: Option<String>,
    /// Size of the context in tokens: documents, questions and answers. It is planned as one document that is read at
    /// once. 100k is 100,000 [default: the model's training context]
    #[arg(short = 'c', long = "ctx-size", value_name = "TOKENS", value_parser = values::tokens)]
    context: Option<usize>,
    /// Policies, separated by semicolons; `longhand policies` lists them [default: those that `--policy auto` chooses
    /// from; with --all or --json also the others, with their default parameters]
    #[arg(long, value_name = "POLICY", value_delimiter = ';')]
    policy: Vec<String>,
    /// Plan for a well-known GPU, which need not be there, or several with commas: 4090,3060. 4090 is the same as --device
    /// cuda --memory 24GiB
    #[arg(long, value_name = "NAME", value_parser = gpus::parse, value_delimiter = ',', conflicts_with_all = ["device", "memory"])]
    gpu: Vec<KnownGpu>,
    /// Show every policy and type with all parts of the memory
    #[arg(long)]
    all: bool,
    /// Print one JSON object with every policy and type
    #[arg(long, conflicts_with = "all")]
    json: bool,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Type of keys, also -ctk [default: f16, q8_0, q8_0 with values in iq4_nl, and iq4_nl are shown]
    #[arg(long, value_name = "TYPE", value_parser = values::cache_type)]
    cache_type_k: Option<Type>,
    /// Type of values, also -ctv [default: the type of keys]
    #[arg(long, value_name = "TYPE", value_parser = values::cache_type, requires = "cache_type_k")]
    cache_type_v: Option<Type>,
    /// Head profile [default: the saved profile of the model, else --heads-share]
    #[arg(long, value_name = "FILE")]
    heads: Option<PathBuf>,
    /// Share of the KV heads that are assumed to be retrieval heads, instead of a profile. They are spread evenly over the layers
    /// [default: 0.15 without grouped queries, 0.30 for groups of 2, 0.36 for larger groups]
    #[arg(long, value_name = "SHARE", value_parser = values::share, conflicts_with = "heads")]
    heads_share: Option<f64>,
    /// How the text is read
    #[arg(long, value_enum, default_value_t = PrefillArg::Exact, help_heading = "Prefill")]
    prefill: PrefillArg,
    #[command(flatten)]
    chunk: ChunkArgs,
    #[command(flatten)]
    model: ModelArgs,
}

impl PlanArgs {
    /// The value of --kv-budget for a policy: what was given, else what is advised.
    fn kv_budget(&self, wanted: &Wanted) -> Option<String> {
        let given = self.budget.kv_budget.and_then(|_| self.budget.words().pop());
        given.or_else(|| wanted.kv_budget())
    }
}

/// A policy that is planned.
#[derive(Clone)]
struct Wanted {
    /// As the user wrote it.
    given: String,
    /// As given. The plan has it with the parameters that the budget allows.
    policy: PolicyChoice,
    /// How much it keeps, in % of a full cache, where no budget was given and its parameters are not what is advised.
    percent: Option<u8>,
}

impl Wanted {
    fn given(text: &str) -> Result<Wanted, Failure> {
        Ok(Wanted { given: text.to_owned(), policy: session::policy(text)?, percent: None })
    }

    /// `razor`, or `kvzip 30%`.
    fn name(&self) -> String {
        self.percent.map_or_else(|| self.given.clone(), |percent| format!("{} {percent}%", self.given))
    }

    fn budget(&self) -> Option<KvBudget> {
        self.percent.map(share)
    }

    /// The value of --kv-budget, where the user gave none.
    fn kv_budget(&self) -> Option<String> {
        self.percent.map(|percent| format!("{percent}%"))
    }
}

/// A policy with types, and what it needs.
struct PlanRow {
    /// The policy.
    wanted: Wanted,
    /// Types of keys and values.
    types: (Type, Type),
    /// The plan, or why there is none.
    plan: Result<SessionForecast, EngineError>,
}

/// Runs the command.
pub fn run(app: &App, args: &PlanArgs) -> Result<()> {
    let (name, forecast) = forecast(app, args)?;
    let types = types(args);
    let wanted = policies_to_plan(args, forecast.spec())?;
    let rows = app.interrupt.computing(|| rows(app, &forecast, &wanted, &types))?;
    let answer = Answer::choose(args, &forecast, &rows);
    if args.json {
        return app.console.print_json(&report::object(args, &name, &forecast, &rows, answer.as_ref()));
    }
    let mut text = match &answer {
        Some(answer) => answer.text() + "\n",
        None => "No: none of these policies and types is possible\n\n".to_owned(),
    };
    match &answer {
        _ if args.all => text += &report::full_table(&forecast, &rows, app.console.width()),
        Some(answer) => text += &answer.table(app.console.width()),
        None => {}
    }
    let about = report::about(args, &name, &forecast, answer.as_ref());
    // If a policy that nobody asked for is impossible, another one is the answer.
    let are_asked_for = args.all || !args.policy.is_empty() || args.budget.budget().is_some();
    if are_asked_for || answer.is_none() {
        text += &report::impossible(&rows);
    }
    text += &format!("\n{}", format::fitted(&about, app.console.width()));
    if !args.all && args.policy.is_empty() {
        text += "every policy and type: add --all\n";
    }
    app.console.print_report(&text)?;
    match answer.map_or(Verdict::No, |answer| answer.verdict()) {
        Verdict::Yes | Verdict::Unknown => Ok(()),
        Verdict::Partly | Verdict::No => Err(Failure::answered_no().into()),
    }
}

/// The plans of all policies with all types.
fn rows(
    app: &App,
    forecast: &Forecast,
    policies: &[Wanted],
    types: &[(Type, Type)],
) -> Result<Vec<PlanRow>, EngineError> {
    let mut rows = Vec::new();
    for wanted in policies {
        let plans = forecast.sessions(&wanted.policy, wanted.budget(), types, &mut app.reporter())?;
        let row = |(types, plan): (&(Type, Type), _)| PlanRow { wanted: wanted.clone(), types: *types, plan };
        rows.extend(types.iter().zip(plans).map(row));
    }
    Ok(rows)
}

/// The name of the model, and the forecast for it.
fn forecast(app: &App, args: &PlanArgs) -> Result<(String, Forecast)> {
    let heads = match (&args.heads, args.heads_share) {
        (Some(path), _) => HeadSource::File(path.clone()),
        (None, Some(share)) => HeadSource::Assumed(Some(share)),
        (None, None) => HeadSource::Auto,
    };
    let options = SetupOptions {
        context: args.context.filter(|tokens| *tokens > 0).map_or(Context::Trained, Context::Tokens),
        budget: args.budget.budget(),
        heads,
        prefill: Some(args.prefill.prefill()),
        chunk: Some(args.chunk.tokens()),
        ..args.model.setup_options(app)?
    };
    if !args.gpu.is_empty() && options.gpu_layers == GpuLayers::Count(0) {
        return Err(Failure::usage("--gpu is given, but no layers on it", "leave out --gpu or -ngl 0").into());
    }
    let options = match args.gpu.is_empty() {
        true => options,
        false => SetupOptions {
            device: DeviceRequest::Devices((0..args.gpu.len()).map(DeviceKind::Cuda).collect()),
            gpu_memory: args.gpu.iter().map(|gpu| gpu.memory).collect(),
            ..options
        },
    };
    match &args.shape {
        Some(text) => {
            let (shape, file_type) = ModelShape::parse(text).map_err(Hinted::into_failure)?;
            let name = format!("{shape}:{}", file_type.name());
            Ok((name, Forecast::of_shape(&shape, file_type, &options)?))
        }
        None => {
            let model = app.open(args.model.source(app, args.model_arg.path.as_deref())?)?;
            Ok((model.name().to_owned(), Forecast::of_model(&model, &options)?))
        }
    }
}

/// The policies that are asked for, as they were written; else all, or those that may be advised.
fn policies_to_plan(args: &PlanArgs, spec: &ModelSpec) -> Result<Vec<Wanted>, Failure> {
    if !args.policy.is_empty() {
        return session::expand_policies(&args.policy).map(Wanted::given).collect();
    }
    let has_budget = args.budget.budget().is_some();
    let mut shown: Vec<Wanted> = Vec::new();
    // With ALiBi, heads have windows of their own, which no budget changes, and kvzip is impossible.
    let is_possible = |recipe: &Recipe| !spec.position_encoding.is_alibi() || recipe.percent.is_none();
    for recipe in recipes().filter(is_possible) {
        let percent = recipe.percent.filter(|_| !has_budget);
        let is_new = shown.iter().all(|wanted| (&*wanted.given, wanted.percent) != (recipe.policy, percent));
        // The policy that keeps everything takes no budget.
        if is_new && !(has_budget && recipe.policy == FULL) {
            shown.push(Wanted { percent, ..Wanted::given(recipe.policy)? });
        }
    }
    if args.all || args.json {
        for entry in policies().filter(|entry| recipes().all(|recipe| recipe.policy != entry.name)) {
            shown.push(Wanted::given(entry.name)?);
        }
    }
    Ok(shown)
}

/// The pairs of types of keys and values that are asked for, else those people use.
fn types(args: &PlanArgs) -> Vec<(Type, Type)> {
    match args.cache_type_k {
        Some(k) => vec![(k, args.cache_type_v.unwrap_or(k))],
        None => TYPES.to_vec(),
    }
}
