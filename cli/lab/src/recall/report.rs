//! Prints the results of `recall` as a Markdown table for each document length, or as JSON with an object for
//! each cell.

use anyhow::Result;
use longhand::policy::KvBudget;
use longhand::{Model, Type};
use serde_json::{Value, json};
use terminal::format;
use terminal::table::Table;

use crate::Lab;
use crate::recall::{Cell, RecallArgs, Trial};

/// Prints all results.
pub fn print(
    lab: &Lab,
    args: &RecallArgs,
    types: (Type, Type),
    model: &Model,
    trials: &[Trial],
) -> Result<()> {
    if args.json {
        let objects = trials
            .iter()
            .flat_map(|trial| trial.cells.iter().map(move |cell| object(args, types, model, trial, cell)));
        return lab.console.print_json(&objects.collect::<Vec<_>>());
    }
    let mut text = format!(
        "{}, keys {}, values {}, seed {}. Cells: correct answers in %, and in brackets the KV cache after the \
         document in % of the full cache.\n",
        model.name(),
        types.0.name(),
        types.1.name(),
        args.seed
    );
    for trial in trials {
        text += &format!(
            "\n{} tokens (documents: {}, questions: {}):\n\n{}",
            format::count(trial.tokens),
            trial.texts.len(),
            trial.questions(),
            table(args, trial).markdown()
        );
    }
    Ok(lab.console.print_report(&text)?)
}

fn table(args: &RecallArgs, trial: &Trial) -> Table {
    let budgets = args.kv_budget.iter().map(|budget| format!(">{}", budget_text(*budget)));
    let headers: Vec<String> = std::iter::once("policy".to_owned()).chain(budgets).collect();
    let mut table = Table::new(headers.iter().map(String::as_str));
    let Some((reference, cells)) = trial.cells.split_first() else { return table };
    let text = |cell: &Cell| match &cell.options {
        Ok(_) => {
            let correct = 100.0 * format::share(cell.answered, trial.questions());
            format!("{correct:.1} ({:.1})", 100.0 * cell.kv_share())
        }
        Err(_) => "-".to_owned(),
    };
    // The reference does not depend on the budget.
    let repeated = std::iter::repeat_n(text(reference), args.kv_budget.len());
    table.row(std::iter::once(reference.name.clone()).chain(repeated));
    for row in cells.chunks(args.kv_budget.len()) {
        table.row(std::iter::once(row[0].name.clone()).chain(row.iter().map(text)));
    }
    table
}

fn object(args: &RecallArgs, (k, v): (Type, Type), model: &Model, trial: &Trial, cell: &Cell) -> Value {
    json!({
        "model": model.name(),
        "type_k": k.name(),
        "type_v": v.name(),
        "seed": args.seed,
        "tokens": trial.tokens,
        "context": trial.context,
        "documents": trial.texts.len(),
        "name": cell.name,
        "budget": cell.budget.map(budget_text),
        "policy": cell.options.as_ref().ok().map(|options| options.policy.to_string()),
        "impossible": cell.options.as_ref().err(),
        "answered": cell.options.as_ref().ok().map(|_| cell.answered),
        "asked": trial.questions(),
        "kv_bytes": cell.kv_bytes / trial.texts.len().max(1),
        "kv_share": cell.kv_share(),
    })
}

/// A budget as text.
fn budget_text(budget: KvBudget) -> String {
    match budget {
        KvBudget::Rows(rows) => format!("{rows} rows"),
        KvBudget::Bytes(bytes) => format::bytes(bytes),
        KvBudget::Share(share) => format::percent(share),
    }
}
