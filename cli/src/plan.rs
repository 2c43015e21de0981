//! `longhand plan`: what a session takes under each policy and type of cache, before anything is allocated, and what fits.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use engine::heads::{HeadProfile, HeadShape};
use engine::kv::{LaneLayout, Layout, PolicyChoice, StoreOptions, policy::policies};
use engine::outline::{TensorOutline, tensor_outlines};
use engine::plan::{ASSUMED_DEVICE_BLOCKS, DRIVER_BYTES, KERNEL_CODE_BYTES, Plan, PlanOptions};
use engine::{DeviceKind, EngineOptions, Prefill};
use ggml::Type;
use models::shapes::Shape;
use models::spec::{ModelSpec, Positions};
use serde_json::{Value, json};

use crate::args::device::{Device, DeviceArgs, Layers};
use crate::args::model::{ModelArgs, ModelPlace};
use crate::args::session::{self, BudgetArgs, ChunkArgs, PrefillArg};
use crate::args::{App, values};
use crate::failure::Failure;
use crate::table::Table;
use crate::{device, format, heads, memory, model, profiles};

/// Says what memory a session takes, per policy and type of cache, and what fits.
#[derive(Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    place: ModelPlace,
    /// A known shape instead of a file, with a file type, such as llama-3.1-8b:q4_k_m
    #[arg(long, value_name = "NAME[:TYPE]", conflicts_with_all = ["place", "model"])]
    shape: Option<String>,
    /// Tokens of the session, all of them read at once, for example 100k; what the model was trained for unless given
    #[arg(short = 'c', long = "ctx-size", value_name = "TOKENS", value_parser = values::tokens)]
    context: Option<usize>,
    /// A policy; give it again for more; all of them with their defaults unless given
    #[arg(long, value_name = "POLICY", long_help = session::policy_help())]
    policy: Vec<String>,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Type of keys (-ctk); f16, q8_0 and q4_0 are shown unless given
    #[arg(long, value_name = "TYPE", value_parser = values::cache_type)]
    cache_type_k: Option<Type>,
    /// Type of values (-ctv); that of the keys unless given
    #[arg(long, value_name = "TYPE", value_parser = values::cache_type, requires = "cache_type_k")]
    cache_type_v: Option<Type>,
    /// Head profile; else that kept for the model, else --heads-share
    #[arg(long, value_name = "FILE")]
    heads: Option<PathBuf>,
    /// Without a profile: share of the query heads that keeps everything, evenly spread, which takes most [default: 0.15]
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
    spec: ModelSpec,
    tensors: Vec<TensorOutline>,
    options: EngineOptions,
    profile: HeadProfile,
    /// Where the profile comes from, in words.
    profile_is: String,
    /// Whether it is made up such that its heads share KV heads as little as can be.
    most: bool,
}

/// One line of the table.
struct Row {
    /// As asked for; in what is planned, with the parameters that the budget allows.
    policy: PolicyChoice,
    types: (Type, Type),
    /// The plan and the longest context that fits; or why it cannot be.
    plan: Result<(Planned, usize), String>,
}

/// What a session would take.
struct Planned {
    bytes: Plan,
    policy: PolicyChoice,
    layout: Layout,
    /// Layers on the GPU.
    on_device: usize,
}

/// What is planned for.
struct Target {
    /// A GPU, which need not be there, or the host.
    on_device: bool,
    layers: Layers,
    /// Bytes that it should fit.
    limit: Option<usize>,
    /// Bytes of the driver's that the limit has to hold too.
    driver: usize,
}

impl Target {
    /// The GPU that was asked for, or the one that is there; else the host.
    fn new(args: &DeviceArgs) -> Target {
        let found = match args.device {
            Device::Cpu => None,
            _ if args.n_gpu_layers == Layers::Count(0) => None,
            Device::Auto => device::found(None).ok(),
            // To plan for a GPU it need not be there.
            Device::Kind(kind) => Some(match kind {
                DeviceKind::Cuda(index) => device::found(Some(index)).unwrap_or((kind, None)),
                kind => (kind, None),
            }),
        };
        Target::of(found.map(|(_, free)| free), args)
    }

    /// A GPU, with the bytes that are free there if it is there; else the host.
    fn of(gpu: Option<Option<usize>>, args: &DeviceArgs) -> Target {
        let layers = args.n_gpu_layers;
        let Some(free) = gpu else {
            let limit = args.memory.or_else(memory::available);
            return Target { on_device: false, layers, limit, driver: 0 };
        };
        // What is free on a GPU is so beside the driver's part, which is taken already.
        let (limit, driver) = match (args.memory, free) {
            (None, Some(free)) => (Some(free), 0),
            (memory, _) => (memory, DRIVER_BYTES),
        };
        Target { on_device: true, layers, limit, driver }
    }

    /// The peak of a plan, of what the limit has to hold.
    fn total(&self, plan: &Plan) -> usize {
        match plan.device_total() {
            _ if !self.on_device => plan.total(),
            0 => 0, // not even the driver's part, where nothing is on the GPU
            bytes => bytes + self.driver,
        }
    }

    /// Whether the limit holds a plan, if there is one.
    fn holds(&self, plan: &Plan) -> bool {
        self.limit.is_some_and(|limit| self.total(plan) <= limit)
    }

    /// Whether a plan for a model of so many layers fits, with all the layers that were asked for on the GPU, if that is known.
    fn fits(&self, planned: &Planned, all: usize) -> Option<bool> {
        let whole = planned.on_device == self.layers(all);
        self.limit.map(|_| whole && self.holds(&planned.bytes))
    }

    /// Layers on the GPU, of so many, where memory is no question.
    fn layers(&self, all: usize) -> usize {
        match self.layers {
            _ if !self.on_device => 0,
            Layers::Count(count) => count.min(all),
            Layers::Auto => all,
        }
    }

    /// The plan with as many of `whole` layers on the GPU as fit, if it is for us to say.
    fn choose(&self, whole: usize, plan: impl Fn(usize) -> Result<Planned>) -> Result<Planned> {
        match (self.layers, self.limit) {
            (Layers::Auto, Some(_)) if self.on_device => {
                plan(device::most(whole, |layers| plan(layers).is_ok_and(|plan| self.holds(&plan.bytes))))
            }
            _ => plan(whole),
        }
    }
}

impl Planned {
    /// Rows that every KV head has room for, `[layers][KV heads]`.
    fn rows(&self) -> Vec<Vec<usize>> {
        let rows_of = |lanes: &Vec<LaneLayout>| {
            let mut rows = vec![0; self.layout.heads.n_kv_heads];
            for lane in lanes {
                lane.kv_heads.iter().for_each(|head| rows[*head as usize] = lane.capacity);
            }
            rows
        };
        self.layout.layers.iter().map(rows_of).collect()
    }

    /// Rows that bounded heads have room for, in words.
    fn bounded(&self) -> String {
        let lanes = self.layout.layers.iter().flatten().filter(|lane| lane.policy.is_some());
        lanes.map(|lane| lane.capacity).max().map_or("all".into(), format::count)
    }
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
        None => vec![(Type::F16, Type::F16), (Type::Q8_0, Type::Q8_0), (Type::Q4_0, Type::Q4_0)],
    };
    let subject = subject(app, args)?;
    let policies: Vec<(PolicyChoice, HeadProfile)> = policies
        .into_iter()
        .map(|policy| Ok((policy.clone(), profile_of(app, args, &subject, &policy)?)))
        .collect::<Result<_>>()?;
    let context = match args.context {
        None | Some(0) => subject.spec.n_ctx_train.max(1),
        Some(context) => context,
    };
    let target = Target::new(&args.model.device);
    let mut rows = Vec::new();
    for (policy, profile) in &policies {
        for types in &types {
            let of =
                |on_device, context| plan(args, &subject, (policy, profile), *types, (on_device, context));
            let whole = target.layers(subject.spec.n_layers);
            let plan = target
                .choose(whole, |on_device| of(on_device, context))
                .map(|plan| {
                    (plan, longest(|context| of(whole, context).is_ok_and(|plan| target.holds(&plan.bytes))))
                })
                // Errors carry a hint on a line of its own.
                .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned());
            rows.push(Row { policy: policy.clone(), types: *types, plan });
        }
    }
    match args.json {
        true => app.console.print_json(&object(&subject, context, &target, &rows)),
        false => Ok(app.console.print_foreign(&text(args, &subject, context, &target, &rows))?),
    }
}

fn subject(app: &App, args: &PlanArgs) -> Result<Subject> {
    let (name, spec, tensors, fingerprint) = match &args.shape {
        Some(text) => {
            let (shape, file_type) = Shape::parse(text).map_err(|error| Failure::typed(&error))?;
            let tensors = shape.tensors(file_type).into_iter();
            let tensors = tensors.map(|(name, dims, ty)| TensorOutline { name, dims, ty }).collect();
            (format!("{shape}:{}", file_type.name()), shape.spec(), tensors, None)
        }
        None => {
            let source = args.model.source(args.place.place.as_deref())?;
            let file = heads::open_file(match &source {
                engine::ModelSource::File(path) => Some(path),
                _ => None,
            })?;
            let spec = ModelSpec::from_gguf(&file)?;
            models::spec::ModelTensors::from_gguf(&file, &spec)?;
            (model::name(&source, &spec.name), spec, tensor_outlines(&file), Some(file.fingerprint()))
        }
    };
    let shape = HeadShape::new(spec.n_layers, spec.n_heads, spec.n_kv_heads)?;
    let (profile, profile_is, most) = match (&args.heads, args.heads_share, &fingerprint) {
        (Some(path), _, _) => {
            let profile = HeadProfile::load_for(path, shape, fingerprint.as_deref())?;
            (profile, "the given profile".to_owned(), false)
        }
        (None, None, Some(fingerprint)) if matches!(profiles::kept(shape, fingerprint), Ok(Some(_))) => {
            let kept = profiles::kept(shape, fingerprint).ok().flatten();
            let kept = kept.unwrap_or(HeadProfile::uniform(shape, true));
            (kept, "the profile kept for this model".to_owned(), false)
        }
        (None, None, Some(_)) if spec.positions == Positions::Alibi => {
            (HeadProfile::uniform(shape, false), "ALiBi: windows follow from the weights".to_owned(), false)
        }
        (None, share, _) => {
            let share = share.unwrap_or(profiles::MARKED);
            (
                profiles::spread(shape, share)?,
                format!("{} of the query heads, evenly spread", format::percent(share)),
                shape.group() > 1,
            )
        }
    };
    Ok(Subject { name, spec, tensors, options: args.model.options(app), profile, profile_is, most })
}

/// The profile for one policy: the windows of the model's heads, or the subject's profile with heads chosen again by the policy's own
/// shares where it can.
fn profile_of(app: &App, args: &PlanArgs, subject: &Subject, policy: &PolicyChoice) -> Result<HeadProfile> {
    // With a budget such a policy is refused, whatever the windows.
    if policy.scope_options(&subject.spec).is_some() && args.budget.budget().is_none() {
        let source = args.model.source(args.place.place.as_deref())?;
        let engine =
            model::open_engine(app, &source, &EngineOptions { repack: false, ..args.model.options(app) })?;
        if let Some(profile) = profiles::for_policy(app, &engine, policy, args.heads.as_deref())? {
            return Ok(profile);
        }
    }
    let selected = match policy.uses_profile() {
        true => subject.profile.reselect(&profiles::rule(policy))?,
        false => None,
    };
    Ok(selected.unwrap_or_else(|| subject.profile.clone()))
}

/// The plan for one policy.
fn plan(
    args: &PlanArgs,
    subject: &Subject,
    (policy, profile): (&PolicyChoice, &HeadProfile),
    types: (Type, Type),
    (on_device, context): (usize, usize),
) -> Result<Planned> {
    let room = StoreOptions { context, types, reserve: None };
    let policy = match args.budget.budget() {
        Some(budget) => budget.apply(policy, &subject.spec, Some(profile), room)?,
        None => policy.clone(),
    };
    let layout = Layout::new(&subject.spec, &policy, Some(profile), room)?;
    let options = PlanOptions {
        repack: subject.options.repack,
        prompt: context,
        chunk: args.chunk.tokens(),
        exact: args.prefill.prefill() == Prefill::Exact,
        threads: subject.options.threads(),
        on_device,
        blocks: ASSUMED_DEVICE_BLOCKS,
    };
    let bytes = Plan::new(&subject.spec, &subject.tensors, &layout, &options)?;
    Ok(Planned { bytes, policy, layout, on_device })
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
    let spec = &subject.spec;
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
    if subject.most {
        out += "note: so they are in as many KV heads as they can be; those that `longhand heads calibrate` finds often share some and \
                take less: plan with them by --heads FILE\n";
    }
    if let Some(limit) = limit {
        let whose = if args.model.device.memory.is_some() { "given" } else { "free here" };
        let place = if target.on_device { " of the GPU" } else { "" };
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
        if target.on_device { ">on the host" } else { ">file pages" },
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
                let (weights, other, place) = match target.on_device {
                    true => (plan.weights.device, plan.total(), plan.device),
                    false => (plan.weights.total(), plan.file_pages, plan.host),
                };
                table.row([
                    planned.policy.to_string(),
                    types_name(row.types),
                    format::bytes(weights),
                    format::bytes(other),
                    planned.bounded(),
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
    if target.on_device {
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
            0 if target.on_device => {
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
            "policy": row.plan.as_ref().map_or(&row.policy, |(planned, _)| &planned.policy).to_string(),
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
                if target.on_device {
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
                object["fits"] = target.fits(planned, subject.spec.n_layers).into();
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        device: DeviceArgs,
    }

    /// A bound holds the driver's part too; what is free on a GPU that is in use is so beside it.
    #[test]
    fn the_drivers_part_is_counted_once() {
        const GIB: usize = 1 << 30;
        let target = |gpu, flags: &[&str]| {
            let flags = Flags::parse_from(["plan"].iter().chain(flags));
            let target = Target::of(gpu, &flags.device);
            (target.limit, target.driver)
        };
        assert_eq!(target(Some(Some(20 * GIB)), &[]), (Some(20 * GIB), 0));
        for there in [Some(Some(20 * GIB)), Some(None)] {
            assert_eq!(target(there, &["--memory", "24GiB"]), (Some(24 * GIB), DRIVER_BYTES));
        }
        assert_eq!(target(None, &["--memory", "24GiB"]), (Some(24 * GIB), 0));
    }
}
