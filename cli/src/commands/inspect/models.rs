//! `longhand models`: the models on this machine, and whether longhand runs them.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use longhand::SetupOptions;
use models::LoadError;
use models::gguf::GgufFile;
use models::invisible::escape_name;
use serde_json::{Value, json};
use terminal::format;
use terminal::table::Table;

use crate::app::App;
use crate::commands::inspect::model;
use crate::models::local_models::places::Found;
use crate::models::local_models::suggestions::{CONTEXT, FILE_TYPE, Suggestion, suggestions};
use crate::models::local_models::{LocalModel, SHOWN, list};

/// List the models on this machine that can be given by name.
///
/// These are the GGUF files in the caches of Hugging Face, Ollama and LM Studio, and in the `model-folders`
/// of the settings. -m takes a name from this list, or a part of one that no other has.
#[derive(Debug, Args)]
pub struct ModelsArgs {
    /// Look in this folder too; repeat for several
    #[arg(long, value_name = "FOLDER")]
    model_folders: Vec<PathBuf>,
    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

/// What is known of a model file.
struct Details {
    bytes: usize,
    file_type: String,
    architecture: String,
    /// Why longhand cannot run it.
    problem: Option<String>,
}

/// Runs the command.
pub fn run(app: &App, args: &ModelsArgs) -> Result<()> {
    let Found { models, omitted } = list(&args.model_folders);
    for omitted in omitted.iter().take(SHOWN) {
        app.console.note(&format!("note: {omitted}"));
    }
    if omitted.len() > SHOWN {
        app.console.note(&format!("note: {} more folders cannot be read", omitted.len() - SHOWN));
    }
    let details: Vec<Result<Details, String>> = models.iter().map(details).collect();
    let rows = models.iter().zip(&details);
    if args.json {
        let objects: Vec<Value> = rows.map(|(model, details)| object(model, details)).collect();
        return app.console.print_json(&objects);
    }
    if models.is_empty() {
        return Ok(app.console.print_report(&text_without_models(app)?)?);
    }
    let mut table = Table::new(["name", ">size", "type", "architecture", "runs", "from"]);
    let mut problems = String::new();
    for (model, details) in rows {
        let name = escape_name(&model.name);
        let problem = match details {
            Ok(details) => details.problem.as_ref(),
            Err(problem) => Some(problem),
        };
        if let Some(problem) = problem {
            problems += &format::wrapped(&format!("{name}: {problem}\n"), app.console.width());
        }
        let runs = if problem.is_none() { "yes" } else { "no" };
        let [size, file_type, architecture] = match details {
            Ok(of) => [format::bytes(of.bytes), of.file_type.clone(), escape_name(&of.architecture)],
            Err(_) => Default::default(),
        };
        table.row([name, size, file_type, architecture, runs.to_owned(), model.place.to_owned()]);
    }
    if !problems.is_empty() {
        problems = format!("\nNot run by longhand:\n{problems}");
    }
    Ok(app.console.print_report(&(table.fitted(app.console.width()) + &problems))?)
}

/// What is printed where there are no models: some to begin with.
fn text_without_models(app: &App) -> Result<String> {
    let options = SetupOptions { interrupt: app.interrupt.flag(), ..SetupOptions::default() };
    let found = app.interrupt.computing(|| suggestions(&options, &mut ()))?;
    let mut table = Table::new(["command", ">weights", ">with context", "fits"]);
    for Suggestion { repository, weights, needed, fits } in &found {
        table.row([
            format!("longhand chat -hf {repository}:{FILE_TYPE}"),
            format::bytes(*weights),
            format::bytes(*needed),
            fits.map_or("?", |fits| if fits { "yes" } else { "no" }).to_owned(),
        ]);
    }
    // The commands stay whole, to be copied.
    let paragraph = |text: &str| format::wrapped(text, app.console.width()) + "\n";
    Ok([
        paragraph(
            "no models in the caches of Hugging Face, Ollama and LM Studio, and no model-folders in the settings",
        ),
        "\n".to_owned(),
        paragraph(
            "Models to begin with. Each command downloads one from Hugging Face, once; larger ones answer better, \
             smaller ones read faster:",
        ),
        "\n".to_owned(),
        table.plain(),
        "\n".to_owned(),
        paragraph(&format!(
            "The sizes are computed for a context of {} tokens in this machine's free memory. Nothing was downloaded or \
             checked.",
            format::count(CONTEXT)
        )),
        paragraph("Or give the path of a GGUF file: longhand chat MODEL.gguf"),
    ]
    .concat())
}

/// Reads the header of a model file.
fn details(model: &LocalModel) -> Result<Details, String> {
    let problem = |error: LoadError| {
        let again = hub::name_of(&model.path).filter(|_| error.is_damage());
        let again = again.map(|name| format!(" (compare and fetch it again: -hf {name} --redownload)"));
        format!("{}{}", error.kind(), again.unwrap_or_default())
    };
    let file = GgufFile::open(&model.path).map_err(problem)?;
    let details = Details {
        bytes: model::file_bytes(&file),
        file_type: file.file_type(),
        architecture: file.str("general.architecture").ok().flatten().unwrap_or("?").to_owned(),
        problem: model::spec(&file).err(),
    };
    file.check_complete().map_err(problem)?;
    Ok(details)
}

fn object(model: &LocalModel, details: &Result<Details, String>) -> Value {
    let mut object = json!({ "name": model.name, "path": model.path.to_string_lossy(), "from": model.place });
    match details {
        Ok(details) => {
            object["bytes"] = details.bytes.into();
            object["type"] = details.file_type.clone().into();
            object["architecture"] = details.architecture.clone().into();
            object["runs"] = details.problem.is_none().into();
            object["problem"] = details.problem.clone().into();
        }
        Err(problem) => {
            object["runs"] = false.into();
            object["problem"] = problem.clone().into();
        }
    }
    object
}
