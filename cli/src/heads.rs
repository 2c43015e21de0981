//! `longhand heads`: which heads keep everything. Finds them, shows them, imports published maps.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use engine::calibrate::CalibrationOptions;
use engine::heads::{
    HeadProfile, HeadShape, HeadThreshold, ImportOptions, Palette, ScoreMap, SelectionRule, import,
};
use engine::text::sanitize_for_terminal;
use models::shapes::Shape;

use crate::args::App;
use crate::args::model::{ModelArgs, ModelPlace};
use crate::args::values;
use crate::console::Console;
use crate::failure::Failure;
use crate::model::{name, open_engine};
use crate::{device, profiles};

/// Finds, shows and imports the heads that keep everything.
#[derive(Debug, Args)]
pub struct HeadsArgs {
    #[command(subcommand)]
    command: HeadsCommand,
}

#[derive(Debug, Subcommand)]
enum HeadsCommand {
    /// Finds a model's retrieval heads: it reads random tokens four times over, and heads that look back at the earlier times count
    Calibrate(CalibrateArgs),
    /// Draws the heads and their scores
    Show(ShowArgs),
    /// Makes a profile of a published map: DuoAttention's TSV (or its folder), or Retrieval_Head's JSON
    Import(ImportArgs),
}

#[derive(Debug, Args)]
struct CalibrateArgs {
    #[command(flatten)]
    place: ModelPlace,
    /// Also write the profile here
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Random tokens that are read four times (2500 in the paper; fewer where they do not fit the model's context)
    #[arg(long, value_name = "TOKENS", default_value = "2500", value_parser = values::positive)]
    period: usize,
    /// Share of the query heads chosen by induction score
    #[arg(long, default_value = "0.14", value_parser = values::share)]
    induction: f64,
    /// Share of the query heads chosen by echo score
    #[arg(long, default_value = "0.01", value_parser = values::share)]
    echo: f64,
    /// Seed of the random tokens
    #[arg(short = 's', long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    model: ModelArgs,
}

#[derive(Debug, Args)]
struct ShowArgs {
    #[command(flatten)]
    place: ModelPlace,
    /// Show this profile; no model is needed then
    #[arg(long, value_name = "FILE")]
    heads: Option<PathBuf>,
    #[command(flatten)]
    model: ModelArgs,
}

#[derive(Debug, Args)]
struct ImportArgs {
    /// The map
    map: PathBuf,
    /// A known shape instead of a model file, such as llama-3.1-8b
    #[arg(long, value_name = "NAME", conflicts_with = "model")]
    shape: Option<String>,
    /// Write the profile here; without it the profile is kept for the model
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Heads with at least this value keep everything (the map's own threshold unless given)
    #[arg(long, value_parser = values::share)]
    threshold: Option<f64>,
    /// This share of the heads, those with the highest values, keeps everything
    #[arg(long, value_parser = values::share, conflicts_with = "threshold")]
    share: Option<f64>,
    #[command(flatten)]
    model: ModelArgs,
}

/// Runs the command.
pub fn run(app: &App, args: &HeadsArgs) -> Result<()> {
    match &args.command {
        HeadsCommand::Calibrate(args) => calibrate(app, args),
        HeadsCommand::Show(args) => show(app, args),
        HeadsCommand::Import(args) => import_map(app, args),
    }
}

fn calibrate(app: &App, args: &CalibrateArgs) -> Result<()> {
    let source = args.model.source(args.place.place.as_deref())?;
    let engine = open_engine(app, &source, &device::engine_options(app, &args.model, &source, None)?)?;
    let options =
        CalibrationOptions { period: args.period, seed: args.seed, ..CalibrationOptions::default() };
    let rule = SelectionRule { induction: args.induction, echo: args.echo, ..SelectionRule::default() };
    let profile = profiles::calibrated(app, &engine, &options, &rule)?;
    app.console.print_foreign(&format!("{}: {}\n", name(&source, &engine.spec().name), summary(&profile)))?;
    if let Some(path) = profiles::keep(app, &profile, &engine.file().fingerprint()) {
        app.console.note(&format!("kept as {}", path.display()));
    }
    if let Some(out) = &args.out {
        profile.save(out)?;
        app.console.note(&format!("written to {}", out.display()));
    }
    Ok(())
}

fn show(app: &App, args: &ShowArgs) -> Result<()> {
    let profile = match &args.heads {
        Some(path) => HeadProfile::load(path)?,
        None => {
            let source = args.model.source(args.place.place.as_deref())?;
            let engine =
                open_engine(app, &source, &device::engine_options(app, &args.model, &source, None)?)?;
            let razor = "razor".parse()?;
            profiles::for_policy(app, &engine, &razor, None)?
                .ok_or_else(|| Failure::new("the policy razor uses no profile", "report this"))?
        }
    };
    app.console.print(&harmless(&profile)?.heatmaps(palette(&app.console)))?;
    app.console.print_foreign(&format!("\n{}\n", summary(&profile)))?;
    Ok(())
}

fn import_map(app: &App, args: &ImportArgs) -> Result<()> {
    let (shape, fingerprint) = match &args.shape {
        Some(name) => {
            let (shape, _) = Shape::parse(name).map_err(|error| Failure::typed(&error))?;
            (HeadShape::new(shape.n_layers, shape.n_heads, shape.n_kv_heads)?, None)
        }
        None => {
            let source = args.model.source(None)?;
            let file = open_file(args.model.model.as_deref())?;
            let spec = models::spec::ModelSpec::from_gguf(&file)?;
            app.console.note(&format!("for {}", name(&source, &spec.name)));
            (HeadShape::new(spec.n_layers, spec.n_heads, spec.n_kv_heads)?, Some(file.fingerprint()))
        }
    };
    let threshold = args.threshold.map(HeadThreshold::MinScore).or(args.share.map(HeadThreshold::TopShare));
    let profile =
        import::import(&args.map, &ImportOptions { shape, fingerprint: fingerprint.clone(), threshold })?;
    match (&args.out, fingerprint) {
        (Some(out), _) => {
            profile.save(out)?;
            app.console.note(&format!("written to {}", out.display()));
        }
        (None, Some(fingerprint)) => match profiles::keep(app, &profile, &fingerprint) {
            Some(path) => app.console.note(&format!("kept for this model as {}", path.display())),
            None => {
                return Err(Failure::new(
                    "there is no place to keep the profile",
                    "write it with --out FILE",
                )
                .into());
            }
        },
        (None, None) => {
            return Err(Failure::usage("--shape needs --out", "add --out heads.json").into());
        }
    }
    app.console.print_foreign(&format!("{}\n", summary(&profile)))?;
    Ok(())
}

/// Opens a model file without its weights; the embedded one where none is named.
pub fn open_file(path: Option<&Path>) -> Result<models::gguf::GgufFile> {
    Ok(match path {
        Some(path) => models::gguf::GgufFile::open(path)?,
        None => models::gguf::GgufFile::from_static(models::embedded::needle())?,
    })
}

/// The profile with names that cannot steer a terminal: the maps themselves are drawn with escape sequences.
fn harmless(profile: &HeadProfile) -> Result<HeadProfile> {
    let scores = profile
        .scores()
        .iter()
        .cloned()
        .map(|map| ScoreMap { name: sanitize_for_terminal(&map.name).replace(['\n', '\t'], " "), ..map });
    let flags = profile.retrieval().to_vec();
    Ok(HeadProfile::new(profile.shape(), flags, scores.collect(), profile.provenance().clone())?)
}

/// One line about a profile.
fn summary(profile: &HeadProfile) -> String {
    let shape = profile.shape();
    let parameters = &profile.provenance().parameters;
    let list: Vec<String> = parameters.iter().map(|(name, value)| format!("{name} {value}")).collect();
    format!(
        "{} of {} KV heads keep everything ({}); from {}{}{}",
        profile.retrieval_count(),
        shape.all_kv_heads(),
        shape,
        profile.provenance().source,
        if list.is_empty() { "" } else { ": " },
        list.join(", ")
    )
}

fn palette(console: &Console) -> Palette {
    match (console.color(), console.stdout_terminal()) {
        (true, _) => Palette::Colors,
        (false, true) => Palette::Shades,
        (false, false) => Palette::Ascii,
    }
}
