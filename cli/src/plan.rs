//! `longhand plan`: the memory of a session under each policy and cache type, and what fits. Nothing is
//! allocated.

mod report;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use ggml::Type;
use kernels::RowType;
use kernels::graph::tensor_type;
use longhand::heads::HeadProfile;
use longhand::plan::ASSUMED_DEVICE_BLOCKS;
use longhand::policy::{PolicyChoice, policies};
use longhand::setup::{
    ASSUMED_SHARE, Found, ModelOutline, Planned, Planner, Profiles, Target, policy_rule, spread,
};
use longhand::{HeadSource, Model, SessionOptions, SetupOptions};
use models::shapes::ModelShape;
use models::spec::PositionEncoding;

use crate::app::App;
use crate::args::model::{ModelArg, ModelArgs};
use crate::args::session::{self, BudgetArgs, ChunkArgs, PrefillArg};
use crate::args::values;
use crate::failure::Failure;
use crate::format;

/// Show the memory that a session needs for each policy and cache type, and what fits.
#[derive(Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    model_arg: ModelArg,
    /// Plan for a well-known model and file type without a file, for example llama-3.1-8b:q4_k_m
    #[arg(long, value_name = "NAME[:TYPE]", conflicts_with_all = ["model_arg", "model"])]
    shape: Option<String>,
    /// Tokens of the text and of the session, for example 100k [default: the model's training context]
    #[arg(short = 'c', long = "ctx-size", value_name = "TOKENS", value_parser = values::tokens)]
    context: Option<usize>,
    /// A policy; repeat for several [default: all, with their default parameters]
    #[arg(long, value_name = "POLICY", long_help = format!("A policy; repeat for several [default: all, with their default parameters]\n\n{}", session::policy_help()))]
    policy: Vec<String>,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Type of keys (-ctk) [default: f16, q8_0 and q4_0 are all shown]
    #[arg(long, value_name = "TYPE", value_parser = values::cache_type)]
    cache_type_k: Option<Type>,
    /// Type of values (-ctv) [default: the type of keys]
    #[arg(long, value_name = "TYPE", value_parser = values::cache_type, requires = "cache_type_k")]
    cache_type_v: Option<Type>,
    /// Head profile [default: the cached profile of the model, else --heads-share]
    #[arg(long, value_name = "FILE")]
    heads: Option<PathBuf>,
    /// Without a profile, assume this share of retrieval heads, spread evenly [default: 0.15]
    #[arg(long, value_name = "SHARE", value_parser = values::share, conflicts_with = "heads")]
    heads_share: Option<f64>,
    /// How the text is read
    #[arg(long, value_enum, default_value_t = PrefillArg::Exact)]
    prefill: PrefillArg,
    #[command(flatten)]
    chunk: ChunkArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    model: ModelArgs,
}

/// The model that is planned for.
struct Subject {
    name: String,
    outline: ModelOutline,
    /// `None` for a shape.
    model: Option<Arc<Model>>,
    options: SetupOptions,
    heads: Heads,
}

/// The head profile for policies that use one, and where it is from.
struct Heads {
    profile: HeadProfile,
    /// Where the profile is from, in words.
    source: String,
    /// Whether the profile is assumed, with its retrieval heads in as many KV heads as possible.
    assumed_max: bool,
}

/// One row of the table.
struct Row {
    /// As given. The plan has it with the parameters that the budget allows.
    policy: PolicyChoice,
    /// Types of keys and values.
    types: (Type, Type),
    /// The plan, or why there is none.
    plan: Result<PlannedSession, String>,
}

/// The plan of one row.
struct PlannedSession {
    planned: Planned,
    /// Longest context in tokens that fits.
    max_context: usize,
}

/// Runs the command.
pub fn run(app: &App, args: &PlanArgs) -> Result<()> {
    let texts: Vec<String> = match args.policy.is_empty() {
        true => {
            // The policy that keeps everything takes no budget.
            let all = policies().filter(|entry| entry.factory.is_some() || args.budget.budget().is_none());
            all.map(|entry| entry.name.to_owned()).collect()
        }
        false => args.policy.clone(),
    };
    let policies: Vec<PolicyChoice> =
        texts.iter().map(|text| session::policy(text)).collect::<Result<_, _>>()?;
    let types: Vec<(Type, Type)> = match args.cache_type_k {
        Some(k) => vec![(k, args.cache_type_v.unwrap_or(k))],
        None => {
            let shown = RowType::ALL.into_iter().filter(|ty| *ty != RowType::F32);
            shown.map(tensor_type).map(|ty| (ty, ty)).collect()
        }
    };
    let subject = subject(app, args)?;
    let spec = &subject.outline.spec;
    let policies: Vec<(PolicyChoice, HeadProfile)> = policies
        .into_iter()
        .map(|policy| Ok((policy.clone(), profile_of(app, &subject, &policy)?)))
        .collect::<Result<_>>()?;
    let context = match args.context {
        None | Some(0) => spec.n_ctx_train.max(1),
        Some(context) => context,
    };
    let target = Target::assume(&subject.options);
    let planner = Planner {
        outline: &subject.outline,
        repack: subject.options.repack,
        threads: subject.options.engine().threads(),
        budget: subject.options.budget,
        blocks: ASSUMED_DEVICE_BLOCKS,
    };
    let mut rows = Vec::new();
    for (policy, profile) in &policies {
        for types in &types {
            let plan = |on_device, context| {
                let session = SessionOptions {
                    policy: policy.clone(),
                    profile: Some(profile.clone()),
                    types: *types,
                    ..subject.options.session(context)
                };
                planner.plan(&session, context, on_device)
            };
            let wanted = target.wanted_layers(spec.n_layers);
            let on_device = target.choose_layers(spec.n_layers, |on_device| plan(on_device, context));
            let plan = plan(on_device, context).map_err(|error| error.to_string()).map(|planned| {
                let fits = |context| plan(wanted, context).is_ok_and(|planned| target.holds(&planned.bytes));
                PlannedSession { planned, max_context: max_context(fits) }
            });
            rows.push(Row { policy: policy.clone(), types: *types, plan });
        }
    }
    match args.json {
        true => app.console.print_json(&report::object(&subject, context, &target, &rows)),
        false => Ok(app.console.print_report(&report::text(args, &subject, context, &target, &rows))?),
    }
}

fn subject(app: &App, args: &PlanArgs) -> Result<Subject> {
    let options = SetupOptions {
        budget: args.budget.budget(),
        heads: args.heads.clone().map_or(HeadSource::Auto, HeadSource::File),
        prefill: Some(args.prefill.prefill()),
        chunk: Some(args.chunk.tokens()),
        ..args.model.setup_options(app)
    };
    let (name, model, outline) = match &args.shape {
        Some(text) => {
            let (shape, file_type) = ModelShape::parse(text).map_err(Failure::from)?;
            (format!("{shape}:{}", file_type.name()), None, ModelOutline::of_shape(shape, file_type))
        }
        None => {
            let model = Model::open(args.model.source(args.model_arg.path.as_deref())?)?;
            Planner::check_tensors(&model)?;
            (model.name().to_owned(), Some(model.clone()), ModelOutline::of_model(&model))
        }
    };
    let heads = heads(args, &outline, model.as_ref(), &options)?;
    Ok(Subject { name, outline, model, options, heads })
}

fn heads(
    args: &PlanArgs,
    outline: &ModelOutline,
    model: Option<&Arc<Model>>,
    options: &SetupOptions,
) -> Result<Heads> {
    let shape = outline.head_shape()?;
    let known = |profile, source: &str| Heads { profile, source: source.to_owned(), assumed_max: false };
    if let Some(path) = &args.heads {
        let fingerprint = model.map(|model| model.fingerprint());
        return Ok(known(HeadProfile::load_for(path, shape, fingerprint)?, "from --heads"));
    }
    if let (Some(model), None) = (model, args.heads_share) {
        if let Some(profile) = Profiles::new(model, options).cached().ok().flatten() {
            return Ok(known(profile, "from the model's cached profile"));
        }
        if outline.spec.position_encoding == PositionEncoding::Alibi {
            return Ok(known(HeadProfile::uniform(shape, false), "ALiBi: windows follow from the weights"));
        }
    }
    let share = args.heads_share.unwrap_or(ASSUMED_SHARE);
    Ok(Heads {
        profile: spread(shape, share)?,
        source: format!("assumed: {} of the query heads, evenly spread", format::percent(share)),
        assumed_max: shape.group() > 1,
    })
}

/// The profile for one policy: the windows of the model's heads, or the subject's profile with the heads that
/// the policy selects from its scores.
fn profile_of(app: &App, subject: &Subject, policy: &PolicyChoice) -> Result<HeadProfile> {
    // With a budget, planning such a policy is an error whatever the windows are.
    if let (Some(model), Some(_), None) =
        (&subject.model, policy.scope_options(&subject.outline.spec), subject.options.budget)
    {
        let profiles = Profiles::new(model, &subject.options);
        if let Found::Profile(profile) =
            app.interrupt.computing(|| profiles.find(policy, &mut app.reporter()))?
        {
            return Ok(profile);
        }
    }
    let selected = match policy.uses_profile() {
        true => subject.heads.profile.reselect(&policy_rule(policy))?,
        false => None,
    };
    Ok(selected.unwrap_or_else(|| subject.heads.profile.clone()))
}

/// The longest context that fits, with an error below 0.1 %; 0 if none fits.
fn max_context(fits: impl Fn(usize) -> bool) -> usize {
    const LIMIT: usize = 100_000_000;
    // Some policies cannot be used in very short sessions.
    let Some(shortest) = [1, 1 << 10, 1 << 14].into_iter().find(|context| fits(*context)) else { return 0 };
    let (mut good, mut bad) = (shortest, 2 * shortest);
    while bad < LIMIT && fits(bad) {
        (good, bad) = (bad, bad * 2);
    }
    while bad - good > good / 1000 + 1 {
        let middle = good + (bad - good) / 2;
        if fits(middle) { good = middle } else { bad = middle }
    }
    good.min(LIMIT)
}
