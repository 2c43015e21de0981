//! `longhand plan`: what a session takes under each policy and type of cache, before anything is allocated, and what fits.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use ggml::Type;
use kernels::RowType;
use kernels::graph::tensor_type;
use longhand::heads::HeadProfile;
use longhand::plan::{ASSUMED_DEVICE_BLOCKS, KERNEL_CODE_BYTES};
use longhand::policy::{PolicyChoice, policies};
use longhand::setup::{
    ASSUMED_SHARE, Found, ModelOutline, Planned, Planner, Profiles, Target, policy_rule, spread,
};
use longhand::{HeadSource, Model, SessionOptions, SetupOptions};
use models::shapes::ModelShape;
use models::spec::PositionEncoding;
use serde_json::{Value, json};

use crate::app::App;
use crate::args::model::{ModelArg, ModelArgs};
use crate::args::session::{self, BudgetArgs, ChunkArgs, PrefillArg};
use crate::args::values;
use crate::failure::Failure;
use crate::format;
use crate::table::Table;

/// Show the memory that a session needs for each policy and cache type, and what fits.
#[derive(Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    model_arg: ModelArg,
    /// Plan for a well-known model and file type without a file, for example llama-3.1-8b:q4_k_m
    #[arg(long, value_name = "NAME[:TYPE]", conflicts_with_all = ["model_arg", "model"])]
    shape: Option<String>,
    /// Context in tokens, all of it read at once, for example 100k [default: the model's training context]
    #[arg(short = 'c', long = "ctx-size", value_name = "TOKENS", value_parser = values::tokens)]
    context: Option<usize>,
    /// A policy; repeat for several [default: all, with their default parameters]
    #[arg(long, value_name = "POLICY", long_help = session::policy_help())]
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
    /// Without a profile: assume that this share of the query heads are retrieval heads, spread evenly [default: 0.15]
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

/// What is planned for.
struct Subject {
    name: String,
    outline: ModelOutline,
    /// `None` for a shape.
    model: Option<Arc<Model>>,
    asked: SetupOptions,
    /// The profile for policies that have no other.
    profile: HeadProfile,
    /// Where that profile comes from, in words.
    profile_is: String,
    /// Whether that profile is made up such that its heads share KV heads as little as can be.
    assumed_max: bool,
}

/// One line of the table.
struct Row {
    /// As asked for; in what is planned, with the parameters that the budget allows.
    policy: PolicyChoice,
    types: (Type, Type),
    /// The plan and the longest context that fits; or why it cannot be.
    plan: Result<(Planned, usize), String>,
}

/// Runs the command.
pub fn run(app: &App, args: &PlanArgs) -> Result<()> {
    let texts: Vec<String> = match args.policy.is_empty() {
        true => {
            // A budget means nothing to a policy that keeps everything.
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
    let target = Target::assume(&subject.asked);
    let planner = Planner {
        outline: &subject.outline,
        repack: subject.asked.repack,
        threads: subject.asked.engine().threads(),
        budget: subject.asked.budget,
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
                    ..subject.asked.session(context)
                };
                planner.plan(&session, context, on_device)
            };
            let wanted = target.wanted_layers(spec.n_layers);
            let on_device = target.choose_layers(spec.n_layers, |on_device| plan(on_device, context));
            let planned = plan(on_device, context).map_err(|error| error.to_string()).map(|planned| {
                let fits = |context| plan(wanted, context).is_ok_and(|planned| target.holds(&planned.bytes));
                (planned, longest(fits))
            });
            rows.push(Row { policy: policy.clone(), types: *types, plan: planned });
        }
    }
    match args.json {
        true => app.console.print_json(&object(&subject, context, &target, &rows)),
        false => Ok(app.console.print_foreign(&text(args, &subject, context, &target, &rows))?),
    }
}

fn subject(app: &App, args: &PlanArgs) -> Result<Subject> {
    let asked = SetupOptions {
        budget: args.budget.budget(),
        heads: args.heads.clone().map_or(HeadSource::Auto, HeadSource::File),
        prefill: Some(args.prefill.prefill()),
        chunk: Some(args.chunk.tokens()),
        ..args.model.setup(app)
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
    let shape = outline.head_shape()?;
    let cached = |model| Profiles::new(model, &asked).cached().ok().flatten();
    let alibi = outline.spec.position_encoding == PositionEncoding::Alibi;
    let (profile, profile_is, assumed_max) = match (&args.heads, args.heads_share, &model) {
        (Some(path), _, _) => {
            let fingerprint = model.as_ref().map(|model| model.fingerprint());
            (HeadProfile::load_for(path, shape, fingerprint)?, "the given profile".to_owned(), false)
        }
        (None, None, Some(model)) if let Some(profile) = cached(model) => {
            (profile, "the profile kept for this model".to_owned(), false)
        }
        (None, None, Some(_)) if alibi => {
            (HeadProfile::uniform(shape, false), "ALiBi: windows follow from the weights".to_owned(), false)
        }
        (None, share, _) => {
            let share = share.unwrap_or(ASSUMED_SHARE);
            let profile_is = format!("{} of the query heads, evenly spread", format::percent(share));
            (spread(shape, share)?, profile_is, shape.group() > 1)
        }
    };
    Ok(Subject { name, outline, model, asked, profile, profile_is, assumed_max })
}

/// The profile for one policy: the windows of the model's heads, or the subject's profile with heads selected again by the policy's
/// own shares where it can.
fn profile_of(app: &App, subject: &Subject, policy: &PolicyChoice) -> Result<HeadProfile> {
    // With a budget such a policy is refused, whatever the windows.
    if let (Some(model), Some(_), None) =
        (&subject.model, policy.scope_options(&subject.outline.spec), subject.asked.budget)
    {
        let profiles = Profiles::new(model, &subject.asked);
        if let Found::Profile(profile) =
            app.interrupt.reading(|| profiles.find(policy, &mut app.reporter()))?
        {
            return Ok(profile);
        }
    }
    let selected = match policy.uses_profile() {
        true => subject.profile.reselect(&policy_rule(policy))?,
        false => None,
    };
    Ok(selected.unwrap_or_else(|| subject.profile.clone()))
}

/// The longest context that fits, to a thousandth; 0 where none does.
fn longest(fits: impl Fn(usize) -> bool) -> usize {
    const MOST: usize = 100_000_000;
    // Some policies make no sense in the shortest sessions.
    let Some(shortest) = [1, 1 << 10, 1 << 14].into_iter().find(|context| fits(*context)) else { return 0 };
    let (mut good, mut bad) = (shortest, 2 * shortest);
    while bad < MOST && fits(bad) {
        (good, bad) = (bad, bad * 2);
    }
    while bad - good > good / 1000 + 1 {
        let middle = good + (bad - good) / 2;
        if fits(middle) { good = middle } else { bad = middle }
    }
    good.min(MOST)
}

fn types_name((k, v): (Type, Type)) -> String {
    if k == v { k.name().to_owned() } else { format!("{}/{}", k.name(), v.name()) }
}

fn text(args: &PlanArgs, subject: &Subject, context: usize, target: &Target, rows: &[Row]) -> String {
    let limit = target.limit;
    let spec = &subject.outline.spec;
    let mut out = format!(
        "{}: {} parameters, {} layers of {} query and {} KV heads; {} tokens, {} prefill\n",
        subject.name,
        format::count(spec.parameters() as usize),
        spec.n_layers,
        spec.n_heads,
        spec.n_kv_heads,
        format::count(context),
        args.prefill.name(),
    );
    out += &format!(
        "retrieval heads: {} of {} KV heads ({})\n",
        subject.profile.retrieval_count(),
        subject.profile.shape().all_kv_heads(),
        subject.profile_is
    );
    if subject.assumed_max {
        out += "note: so they are in as many KV heads as they can be; those that `longhand heads calibrate` finds often share some and \
                take less: plan with them by --heads FILE\n";
    }
    if let Some(limit) = limit {
        let whose = if args.model.device.memory.is_some() { "given" } else { "free here" };
        let place = if target.device.is_some() { " of the GPU" } else { "" };
        out += &format!("memory{place}: {} {whose}\n", format::bytes(limit));
    }
    if context > spec.n_ctx_train {
        out += &format!(
            "note: the model was trained for {} tokens; longer texts may not be understood\n",
            format::count(spec.n_ctx_train)
        );
    }
    let mut table = Table::new([
        "policy",
        "KV type",
        ">weights",
        if target.device.is_some() { ">on the host" } else { ">file pages" },
        ">rows a head",
        ">KV store",
        ">scratch",
        ">residual",
        ">compute",
        ">total",
        "fits",
        ">longest -c",
    ]);
    let mut impossible = String::new();
    for row in rows {
        match &row.plan {
            Ok((planned, longest)) => {
                let plan = &planned.bytes;
                let (weights, other, place) = match target.device.is_some() {
                    true => (plan.weights.device, plan.total(), plan.device),
                    false => (plan.weights.total(), plan.file_pages, plan.host),
                };
                table.row([
                    planned.session.policy.to_string(),
                    types_name(row.types),
                    format::bytes(weights),
                    format::bytes(other),
                    planned.bounded_rows().map_or("all".into(), format::count),
                    format::bytes(place.store),
                    format::bytes(place.scratch),
                    format::bytes(place.residual),
                    format::bytes(place.compute),
                    format::bytes(target.total(plan)),
                    match target.fits(planned, spec.n_layers) {
                        Some(true) => "yes".into(),
                        Some(false) if target.holds(plan) => {
                            format!("{} layers", planned.on_device)
                        }
                        Some(false) => "no".into(),
                        None => "?".into(),
                    },
                    if limit.is_some() { format::count(*longest) } else { "?".into() },
                ])
            }
            Err(why) => {
                table.row([row.policy.to_string(), types_name(row.types)]);
                impossible += &format!("{} with {}: {why}\n", row.policy, types_name(row.types));
            }
        }
    }
    if target.device.is_some() {
        let (whose, other) = match target.driver {
            0 => ("", "; the driver has taken its part already"),
            _ => ("the driver and ", ""),
        };
        out += &format!(
            "the total includes {} for {whose}the code of the kernels (an estimate){other}\n",
            format::bytes(target.driver + KERNEL_CODE_BYTES)
        );
    }
    out + "\n" + &table.plain() + &impossible + &advice(context, (target, spec.n_layers), rows)
}

/// What to change where something does not fit.
fn advice(context: usize, (target, layers): (&Target, usize), rows: &[Row]) -> String {
    if target.limit.is_none() {
        return String::new();
    }
    let plans =
        || rows.iter().filter_map(|row| row.plan.as_ref().ok().map(|(plan, longest)| (row, plan, *longest)));
    let fits = |plan: &Planned| target.fits(plan, layers) == Some(true);
    if plans().all(|(_, plan, _)| fits(plan)) {
        return String::new();
    }
    let flags = |row: &Row| {
        format!("--policy {} -ctk {} -ctv {}", row.policy, row.types.0.name(), row.types.1.name())
    };
    let mut out = String::from("\nWhat does not fit, fits with:\n");
    match plans().find(|(_, plan, _)| fits(plan)) {
        Some((row, plan, _)) => {
            out += &format!(
                "- {} at these {} tokens ({})\n",
                flags(row),
                format::count(context),
                format::bytes(target.total(&plan.bytes))
            );
        }
        None => out += &format!("- none of these at {} tokens\n", format::count(context)),
    }
    if let Some((row, _, longest)) = plans().max_by_key(|(_, _, longest)| *longest) {
        match longest {
            0 if target.device.is_some() => {
                out += "- a smaller file type, or fewer layers on the GPU (-ngl): all weights together do not fit\n";
            }
            0 => out += "- a smaller model or a smaller file type: the weights alone do not fit\n",
            _ if longest < context => out += &format!("- -c {longest} {}\n", flags(row)),
            _ => {}
        }
    }
    out
}

fn object(subject: &Subject, context: usize, target: &Target, rows: &[Row]) -> Value {
    let limit = target.limit;
    let row = |row: &Row| {
        let mut object = json!({
            "policy": row.plan.as_ref().map_or(&row.policy, |(planned, _)| &planned.session.policy).to_string(),
            "type_k": row.types.0.name(),
            "type_v": row.types.1.name(),
        });
        match &row.plan {
            Ok((planned, longest)) => {
                let plan = planned.bytes;
                object["rows"] = planned.rows().into();
                object["weights"] = json!({
                    "mapped": plan.weights.mapped,
                    "repacked": plan.weights.repacked,
                    "copied": plan.weights.copied,
                    "device": plan.weights.device,
                    "total": plan.weights.total(),
                });
                object["file_pages"] = plan.file_pages.into();
                object["store"] = plan.host.store.into();
                object["scratch"] = plan.host.scratch.into();
                object["residual"] = plan.host.residual.into();
                object["compute"] = plan.host.compute.into();
                object["aside"] = plan.undo.into();
                object["total"] = plan.total().into();
                if target.device.is_some() {
                    object["device"] = json!({
                        "layers": planned.on_device,
                        "weights": plan.weights.device,
                        "store": plan.device.store,
                        "scratch": plan.device.scratch,
                        "residual": plan.device.residual,
                        "compute": plan.device.compute,
                        "overhead": target.total(&plan) - plan.device_allocated(),
                        "total": target.total(&plan),
                    });
                }
                object["fits"] = target.fits(planned, subject.outline.spec.n_layers).into();
                object["longest_context"] = limit.map(|_| *longest).into();
            }
            Err(why) => object["error"] = why.clone().into(),
        }
        object
    };
    json!({
        "model": subject.name,
        "context": context,
        "memory": limit,
        "retrieval_heads": subject.profile.retrieval_count(),
        "kv_heads": subject.profile.shape().all_kv_heads(),
        "heads_from": subject.profile_is,
        "plans": rows.iter().map(row).collect::<Vec<_>>(),
    })
}
