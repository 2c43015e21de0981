//! Prints a plan in full: as a table of all parts, or as JSON.

use std::ops::Range;
use std::slice;

use longhand::setup::plan::{KERNEL_CODE_BYTES, PlaceBytes};
use longhand::setup::{Forecast, ForecastHeads, ProfileOrigin, SessionForecast, free_memory};
use serde_json::{Value, json};
use terminal::format;
use terminal::table::Table;

use crate::commands::plan::answer::{Answer, fits_cell};
use crate::commands::plan::{PlanArgs, PlanRow};

/// Where the head profile is from.
fn source(heads: &ForecastHeads) -> String {
    match heads.origin {
        ProfileOrigin::Given => "from --heads".to_owned(),
        ProfileOrigin::Cached => "from the model's cached profile".to_owned(),
        ProfileOrigin::Alibi => "ALiBi: windows follow from the weights".to_owned(),
        ProfileOrigin::Assumed { share } => {
            format!("assumed: {}, evenly spread", format::percent(share))
        }
    }
}

/// What is planned, with notes.
pub fn about(args: &PlanArgs, name: &str, forecast: &Forecast, answer: Option<&Answer>) -> String {
    let (spec, context, target, heads) =
        (forecast.spec(), forecast.context(), forecast.target(), forecast.heads());
    let limit = target.limit();
    let mut out = format!(
        "{}: {} parameters, {} layers of {} query and {} KV heads; {} tokens, {} prefill\n",
        name,
        format::count(spec.parameters() as usize),
        spec.n_layers,
        spec.n_heads,
        spec.n_kv_heads,
        format::count(context),
        args.prefill.name(),
    );
    out += &format!(
        "retrieval heads: {} of {} KV heads ({})\n",
        heads.profile.retrieval_count(),
        heads.profile.shape().all_kv_heads(),
        source(heads)
    );
    if heads.is_guess() && (args.all || answer.is_none_or(Answer::uses_profile)) {
        out += "note: `longhand heads calibrate` has found 27 to 36 % on three real models; another model may have \
                more or fewer: give its profile with --heads FILE\n";
    }
    let on_gpu = !target.devices.is_empty();
    if let Some(limit) = limit {
        let names: Vec<String> = args.gpu.iter().map(|gpu| format!("a {}", gpu.name)).collect();
        let source = match &args.model.device.memory[..] {
            _ if !names.is_empty() => format!("of {}", names.join(" and ")),
            [_, ..] => "from --memory".to_owned(),
            [] => match free_memory() {
                Some(free) if target.devices.is_empty() && free.bound.name().is_some() => {
                    format!("free{}", free.bound)
                }
                _ => "free on this machine".to_owned(),
            },
        };
        let what = if on_gpu { "GPU memory" } else { "memory" };
        out += &format!("{what}: {} ({source})\n", format::bytes(limit));
    }
    if context > spec.n_ctx_train {
        out += &format!(
            "note: the model was trained for {} tokens; answers about longer texts may be wrong\n",
            format::count(spec.n_ctx_train)
        );
    }
    if args.model.device.n_cpu_moe.is_asked_for() {
        match (on_gpu, spec.experts.is_some()) {
            (_, false) => out += "note: --n-cpu-moe has no effect: the model has no experts\n",
            (false, true) => out += "note: --n-cpu-moe has no effect: no GPU is planned for\n",
            (true, true) => {}
        }
    }
    if let Some(reason) = forecast.unused_gpu() {
        out += &format!("note: no GPU is planned for: {reason}\n");
    }
    if on_gpu {
        let driver: usize = target.devices.iter().map(|device| device.driver).sum();
        let (what, note) = match driver {
            0 => ("the kernels' code", "; the driver's memory is not counted as free"),
            _ => ("the driver and the kernels' code", ""),
        };
        out += &format!(
            "the total includes an estimate of {} for {what}{note}\n",
            format::bytes(driver + target.devices.len() * KERNEL_CODE_BYTES)
        );
    }
    out
}

/// All rows with all parts of the memory, in lines of `width` columns where that is possible.
pub fn full_table(forecast: &Forecast, rows: &[PlanRow], width: usize) -> String {
    let target = forecast.target();
    let limit = target.limit();
    let on_gpu = !target.devices.is_empty();
    let mut table = Table::new([
        "policy",
        "KV type",
        ">weights",
        if on_gpu { ">on the host" } else { ">file pages" },
        ">rows a head",
        ">KV store",
        ">scratch",
        ">residual",
        ">compute",
        ">total",
        "fits",
        ">longest context",
    ]);
    for row in rows {
        match &row.plan {
            Ok(session) => {
                let plan = session.plan();
                let (weights, other, places) = match on_gpu {
                    true => (plan.weights.on_devices(), plan.total(), &plan.devices[..]),
                    false => (plan.weights.total(), plan.file_pages, slice::from_ref(&plan.host)),
                };
                let bytes = |part: fn(&PlaceBytes) -> usize| format::bytes(places.iter().map(part).sum());
                table.row([
                    session.session().policy.to_string(),
                    format::types(row.types),
                    format::bytes(weights),
                    format::bytes(other),
                    session.bounded_rows().map_or("all".into(), format::count),
                    bytes(|place| place.store),
                    bytes(|place| place.scratch),
                    bytes(|place| place.residual),
                    bytes(|place| place.compute),
                    format::bytes(target.total(plan)),
                    fits_cell(forecast, session),
                    if limit.is_some() { format::count(session.longest_context) } else { "?".into() },
                ])
            }
            Err(_) => table.row([row.wanted.name(), format::types(row.types)]),
        }
    }
    table.fitted(width)
}

/// Why policies and types are impossible, a line for each reason.
pub fn impossible(rows: &[PlanRow]) -> String {
    let failed = rows.iter().filter_map(|row| Some((row, row.plan.as_ref().err()?.to_string())));
    let mut reasons: Vec<(String, String, Vec<String>)> = Vec::new();
    for (row, why) in failed {
        let (name, types) = (row.wanted.name(), format::types(row.types));
        match reasons.last_mut().filter(|(last, reason, _)| *last == name && *reason == why) {
            Some((.., of_reason)) => of_reason.push(types),
            None => reasons.push((name, why, vec![types])),
        }
    }
    let lines = reasons.into_iter();
    lines.map(|(name, why, types)| format!("{name} with {}: {why}\n", types.join(", "))).collect()
}

/// The plans as JSON.
pub fn object(
    args: &PlanArgs,
    name: &str,
    forecast: &Forecast,
    rows: &[PlanRow],
    answer: Option<&Answer>,
) -> Value {
    let (target, heads) = (forecast.target(), forecast.heads());
    let limit = target.limit();
    let row = |row: &PlanRow| {
        let mut object = json!({
            "policy": row.plan.as_ref().map_or(&row.wanted.policy, |plan| &plan.session().policy).to_string(),
            "kv_budget": args.kv_budget(&row.wanted),
            "type_k": row.types.0.name(),
            "type_v": row.types.1.name(),
        });
        match &row.plan {
            Ok(session) => {
                let (plan, placement) = (session.plan(), session.placement());
                object["rows"] = session.rows().into();
                object["weights"] = json!({
                    "mapped": plan.weights.mapped,
                    "repacked": plan.weights.repacked,
                    "copied": plan.weights.copied,
                    "device": plan.weights.on_devices(),
                    "total": plan.weights.total(),
                });
                object["file_pages"] = plan.file_pages.into();
                object["store"] = plan.host.store.into();
                object["scratch"] = plan.host.scratch.into();
                object["residual"] = plan.host.residual.into();
                object["compute"] = plan.host.compute.into();
                object["undo"] = plan.undo.into();
                object["total"] = plan.total().into();
                if !target.devices.is_empty() {
                    object["device"] = devices_object(forecast, session, 0..target.devices.len());
                    object["device"]["n_cpu_moe"] = placement.host_experts_of(forecast.spec()).into();
                    let each = target.devices.iter().enumerate().map(|(number, device)| {
                        let mut object = devices_object(forecast, session, number..number + 1);
                        object["device"] = device.kind.to_string().into();
                        object["memory"] = device.limit.into();
                        object
                    });
                    object["devices"] = each.collect();
                }
                object["fits"] = target.fits(plan, placement, forecast.spec().n_layers).into();
                object["longest_context"] = limit.map(|_| session.longest_context).into();
            }
            Err(why) => object["error"] = why.to_string().into(),
        }
        object
    };
    json!({
        "model": name,
        "context": forecast.context(),
        "memory": limit,
        "main_memory": target.host_limit,
        "retrieval_heads": heads.profile.retrieval_count(),
        "kv_heads": heads.profile.shape().all_kv_heads(),
        "heads_from": source(heads),
        "answer": answer.map(Answer::object),
        "plans": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

/// What devices take together, by their numbers.
fn devices_object(forecast: &Forecast, session: &SessionForecast, devices: Range<usize>) -> Value {
    let (plan, counts) = (session.plan(), session.placement().counts());
    let sum = |of: &dyn Fn(usize) -> usize| devices.clone().map(of).sum::<usize>();
    let allocated = sum(&|device| plan.device_allocated(device));
    let total = sum(&|device| forecast.target().device_total(plan, device));
    json!({
        "layers": sum(&|device| counts[device]),
        "weights": sum(&|device| plan.weights.devices[device]),
        "store": sum(&|device| plan.devices[device].store),
        "scratch": sum(&|device| plan.devices[device].scratch),
        "residual": sum(&|device| plan.devices[device].residual),
        "compute": sum(&|device| plan.devices[device].compute),
        "overhead": total - allocated,
        "total": total,
    })
}
