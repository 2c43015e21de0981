//! Prints a plan as a table with advice, or as JSON.

use ggml::Type;
use longhand::plan::KERNEL_CODE_BYTES;
use longhand::setup::Target;
use serde_json::{Value, json};

use super::{PlanArgs, PlannedSession, Row, Subject};
use crate::format;
use crate::table::Table;

/// The types of keys and values; one name if they are equal.
fn types_name((k, v): (Type, Type)) -> String {
    if k == v { k.name().to_owned() } else { format!("{}/{}", k.name(), v.name()) }
}

/// The table, with notes before it and advice after it.
pub fn text(args: &PlanArgs, subject: &Subject, context: usize, target: &Target, rows: &[Row]) -> String {
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
        subject.heads.profile.retrieval_count(),
        subject.heads.profile.shape().all_kv_heads(),
        subject.heads.source
    );
    if subject.heads.assumed_max {
        out += "note: this is the maximum, with each retrieval head in a KV head of its own; `longhand heads \
                calibrate` often finds fewer KV heads: give its profile with --heads FILE\n";
    }
    if let Some(limit) = limit {
        let source =
            if args.model.device.memory.is_some() { "from --memory" } else { "free on this machine" };
        let what = if target.device.is_some() { "GPU memory" } else { "memory" };
        out += &format!("{what}: {} ({source})\n", format::bytes(limit));
    }
    if context > spec.n_ctx_train {
        out += &format!(
            "note: the model was trained for {} tokens; answers about longer texts may be wrong\n",
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
            Ok(PlannedSession { planned, max_context }) => {
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
                    if limit.is_some() { format::count(*max_context) } else { "?".into() },
                ])
            }
            Err(why) => {
                table.row([row.policy.to_string(), types_name(row.types)]);
                impossible += &format!("{} with {}: {why}\n", row.policy, types_name(row.types));
            }
        }
    }
    if target.device.is_some() {
        let (what, note) = match target.driver {
            0 => ("the kernels' code", "; the driver's memory is not counted as free"),
            _ => ("the driver and the kernels' code", ""),
        };
        out += &format!(
            "the total includes an estimate of {} for {what}{note}\n",
            format::bytes(target.driver + KERNEL_CODE_BYTES)
        );
    }
    out + "\n" + &table.plain() + &impossible + &advice(context, target, spec.n_layers, rows)
}

/// Flags with which something fits; empty if everything fits.
fn advice(context: usize, target: &Target, layers: usize, rows: &[Row]) -> String {
    if target.limit.is_none() {
        return String::new();
    }
    let plans = || rows.iter().filter_map(|row| row.plan.as_ref().ok().map(|plan| (row, plan)));
    let fits = |plan: &PlannedSession| target.fits(&plan.planned, layers) == Some(true);
    if plans().all(|(_, plan)| fits(plan)) {
        return String::new();
    }
    let flags = |row: &Row| {
        format!("--policy {} -ctk {} -ctv {}", row.policy, row.types.0.name(), row.types.1.name())
    };
    let mut out = String::from("\nNot everything fits.\n");
    let tokens = format::count(context);
    out += &match plans().find(|(_, plan)| fits(plan)) {
        Some((row, plan)) => {
            let total = format::bytes(target.total(&plan.planned.bytes));
            format!("- {tokens} tokens fit with {} ({total})\n", flags(row))
        }
        None => format!("- {tokens} tokens fit with none of these policies and types\n"),
    };
    if let Some((row, plan)) = plans().max_by_key(|(_, plan)| plan.max_context) {
        match plan.max_context {
            0 if target.device.is_some() => {
                out += "- the weights do not all fit on the GPU: use a smaller file type, or fewer layers on the \
                        GPU (-ngl)\n";
            }
            0 => out += "- the weights alone do not fit: use a smaller model or a smaller file type\n",
            max if max < context => {
                out += &format!("- the longest context fits with -c {max} {}\n", flags(row))
            }
            _ => {}
        }
    }
    out
}

/// The plans as JSON.
pub fn object(subject: &Subject, context: usize, target: &Target, rows: &[Row]) -> Value {
    let limit = target.limit;
    let row = |row: &Row| {
        let mut object = json!({
            "policy": row.plan.as_ref().map_or(&row.policy, |plan| &plan.planned.session.policy).to_string(),
            "type_k": row.types.0.name(),
            "type_v": row.types.1.name(),
        });
        match &row.plan {
            Ok(PlannedSession { planned, max_context }) => {
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
                object["undo"] = plan.undo.into();
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
                object["longest_context"] = limit.map(|_| *max_context).into();
            }
            Err(why) => object["error"] = why.clone().into(),
        }
        object
    };
    json!({
        "model": subject.name,
        "context": context,
        "memory": limit,
        "retrieval_heads": subject.heads.profile.retrieval_count(),
        "kv_heads": subject.heads.profile.shape().all_kv_heads(),
        "heads_from": subject.heads.source,
        "plans": rows.iter().map(row).collect::<Vec<_>>(),
    })
}
