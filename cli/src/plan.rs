//! `longhand plan`: the memory of a session under each policy and cache type, and what fits. Nothing is
//! allocated.

mod report;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use ggml::Type;
use kernels::RowType;
use kernels::graph::tensor_type;
use longhand::policy::{PolicyChoice, policies};
use longhand::setup::{Forecast, SessionForecast};
use longhand::{Context, EngineError, HeadSource, Model, SetupOptions};
use models::shapes::ModelShape;

use crate::app::App;
use crate::args::model::{ModelArg, ModelArgs, shape_help};
use crate::args::session::{self, BudgetArgs, ChunkArgs, PrefillArg};
use crate::args::values;
use crate::failure::Failure;

/// Show the memory that a session needs for each policy and cache type, and what fits.
#[derive(Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    model_arg: ModelArg,
    /// Plan for a well-known model without a file, for example llama-3.1-8b:q4_k_m
    #[arg(long, long_help = shape_help("Plan for a well-known model without a file"), value_name = "NAME[:TYPE]", conflicts_with_all = ["model_arg", "model"])]
    shape: Option<String>,
    /// Tokens of the session, planned as one text that is read at once, for example 100k [default: the model's training context]
    #[arg(short = 'c', long = "ctx-size", value_name = "TOKENS", value_parser = values::tokens)]
    context: Option<usize>,
    /// A policy; repeat for several; `longhand policies` lists them [default: all, with their default
    /// parameters]
    #[arg(long, value_name = "POLICY")]
    policy: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Type of keys, also -ctk [default: f16, q8_0 and q4_0 are all shown]
    #[arg(long, value_name = "TYPE", value_parser = values::cache_type)]
    cache_type_k: Option<Type>,
    /// Type of values, also -ctv [default: the type of keys]
    #[arg(long, value_name = "TYPE", value_parser = values::cache_type, requires = "cache_type_k")]
    cache_type_v: Option<Type>,
    /// Head profile [default: the saved profile of the model, else --heads-share]
    #[arg(long, value_name = "FILE")]
    heads: Option<PathBuf>,
    /// Assume that this share of the query heads retrieves, evenly spread over the layers, instead of a
    /// profile [default: 0.15]
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

/// One row of the table.
struct Row {
    /// As given. The plan has it with the parameters that the budget allows.
    policy: PolicyChoice,
    /// Types of keys and values.
    types: (Type, Type),
    /// The plan, or why there is none.
    plan: Result<SessionForecast, EngineError>,
}

/// Runs the command.
pub fn run(app: &App, args: &PlanArgs) -> Result<()> {
    let (name, forecast) = forecast(app, args)?;
    let types = types(args);
    let mut rows = Vec::new();
    for policy in policies_to_plan(args)? {
        let plans = app.interrupt.computing(|| forecast.sessions(&policy, &types, &mut app.reporter()))?;
        let row = |(types, plan): (&(Type, Type), _)| Row { policy: policy.clone(), types: *types, plan };
        rows.extend(types.iter().zip(plans).map(row));
    }
    match args.json {
        true => app.console.print_json(&report::object(&name, &forecast, &rows)),
        false => Ok(app.console.print_report(&report::text(args, &name, &forecast, &rows))?),
    }
}

/// The name of the model, and the forecast for it.
fn forecast(app: &App, args: &PlanArgs) -> Result<(String, Forecast)> {
    let heads = match (&args.heads, args.heads_share) {
        (Some(path), _) => HeadSource::File(path.clone()),
        (None, Some(share)) => HeadSource::Assumed(share),
        (None, None) => HeadSource::Auto,
    };
    let options = SetupOptions {
        context: args.context.filter(|tokens| *tokens > 0).map_or(Context::Trained, Context::Tokens),
        budget: args.budget.budget(),
        heads,
        prefill: Some(args.prefill.prefill()),
        chunk: Some(args.chunk.tokens()),
        ..args.model.setup_options(app)
    };
    match &args.shape {
        Some(text) => {
            let (shape, file_type) = ModelShape::parse(text).map_err(Failure::from)?;
            let name = format!("{shape}:{}", file_type.name());
            Ok((name, Forecast::of_shape(shape, file_type, &options)?))
        }
        None => {
            let model = Model::open(args.model.source(args.model_arg.path.as_deref())?)?;
            Ok((model.name().to_owned(), Forecast::of_model(&model, &options)?))
        }
    }
}

/// The policies that are asked for, else all.
fn policies_to_plan(args: &PlanArgs) -> Result<Vec<PolicyChoice>> {
    let texts: Vec<String> = match args.policy.is_empty() {
        true => {
            // The policy that keeps everything takes no budget.
            let all = policies().filter(|entry| entry.factory.is_some() || args.budget.budget().is_none());
            all.map(|entry| entry.name.to_owned()).collect()
        }
        false => args.policy.clone(),
    };
    texts.iter().map(|text| Ok(session::policy(text)?)).collect()
}

/// The pairs of types of keys and values that are asked for, else those people use.
fn types(args: &PlanArgs) -> Vec<(Type, Type)> {
    match args.cache_type_k {
        Some(k) => vec![(k, args.cache_type_v.unwrap_or(k))],
        None => {
            let shown = RowType::ALL.into_iter().filter(|ty| *ty != RowType::F32);
            shown.map(tensor_type).map(|ty| (ty, ty)).collect()
        }
    }
}
