//! `longhand heads`: which heads keep everything. Finds them, shows them, imports published maps.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::{Args, Subcommand};
use longhand::heads::{CalibrationOptions, calibrate};
use longhand::heads::{
    HeadProfile, HeadShape, HeadThreshold, ImportOptions, Palette, ScoreMap, SelectionRule, import,
};
use longhand::setup::Profiles;
use longhand::text::sanitize_for_terminal;
use longhand::{Model, Observer, SetupOptions};
use models::shapes::ModelShape;

use crate::app::App;
use crate::args::model::{ModelArg, ModelArgs};
use crate::args::values;
use crate::console::Console;
use crate::failure::Failure;

/// Find, show and import retrieval heads: the heads that keep everything.
#[derive(Debug, Args)]
pub struct HeadsArgs {
    #[command(subcommand)]
    command: HeadsCommand,
}

#[derive(Debug, Subcommand)]
enum HeadsCommand {
    /// Find a model's retrieval heads: the model reads the same random tokens four times, and heads that attend to the earlier copies score
    Calibrate(CalibrateArgs),
    /// Draw the heads and their scores
    Show(ShowArgs),
    /// Make a profile from a published head map: DuoAttention (TSV file or folder) or Retrieval_Head (JSON)
    Import(ImportArgs),
}

#[derive(Debug, Args)]
struct CalibrateArgs {
    #[command(flatten)]
    model_arg: ModelArg,
    /// Also write the profile to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Number of random tokens, which are read four times (2500 in the paper; fewer if they do not fit the model's context)
    #[arg(long, value_name = "TOKENS", default_value = "2500", value_parser = values::positive)]
    period: usize,
    /// Share of the query heads selected by induction score
    #[arg(long, default_value = "0.14", value_parser = values::share)]
    induction: f64,
    /// Share of the query heads selected by echo score
    #[arg(long, default_value = "0.01", value_parser = values::share)]
    echo: f64,
    /// Random seed
    #[arg(short = 's', long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    model: ModelArgs,
}

#[derive(Debug, Args)]
struct ShowArgs {
    #[command(flatten)]
    model_arg: ModelArg,
    /// Show this profile; needs no model
    #[arg(long, value_name = "FILE")]
    heads: Option<PathBuf>,
    #[command(flatten)]
    model: ModelArgs,
}

#[derive(Debug, Args)]
struct ImportArgs {
    /// The head map
    map: PathBuf,
    /// A well-known model instead of a model file, for example llama-3.1-8b
    #[arg(long, value_name = "NAME", conflicts_with = "model")]
    shape: Option<String>,
    /// Write the profile to this file [default: cache it for the model]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Heads with at least this score keep everything [default: the threshold of the map's authors]
    #[arg(long, value_parser = values::share)]
    threshold: Option<f64>,
    /// This share of the heads, those with the highest scores, keeps everything
    #[arg(long, value_parser = values::share, conflicts_with = "threshold")]
    share: Option<f64>,
    #[command(flatten)]
    model: ModelArgs,
}

/// Runs the command.
pub fn run(app: &App, args: &HeadsArgs) -> Result<()> {
    match &args.command {
        HeadsCommand::Calibrate(args) => find_heads(app, args),
        HeadsCommand::Show(args) => show(app, args),
        HeadsCommand::Import(args) => import_map(app, args),
    }
}

fn find_heads(app: &App, args: &CalibrateArgs) -> Result<()> {
    let model = Model::open(args.model.source(args.model_arg.path.as_deref())?)?;
    let asked = args.model.setup_options(app);
    let engine = app.load(&app.resolve(&model, &asked, 0)?)?;
    let options =
        CalibrationOptions { period: args.period, seed: args.seed, ..CalibrationOptions::default() };
    let rule = SelectionRule { induction: args.induction, echo: args.echo, ..SelectionRule::default() };
    let mut reporter = app.reporter();
    let profile = app
        .interrupt
        .computing(|| calibrate(&engine, &options, &rule, &mut |progress| reporter.progress(progress)))?;
    drop(reporter);
    app.console.print_foreign(&format!("{}: {}\n", model.name(), summary(&profile)))?;
    keep(app, &model, &asked, &profile);
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
            let model = Model::open(args.model.source(args.model_arg.path.as_deref())?)?;
            let asked = SetupOptions { policy: Some("razor".parse()?), ..args.model.setup_options(app) };
            let session = app.resolve(&model, &asked, 0)?;
            let session = app.interrupt.computing(|| session.start(&mut app.reporter()))?;
            let profile = session.options().profile.clone();
            profile.ok_or_else(|| {
                Failure::new("the policy razor uses no profile", "this is a bug; please report it")
            })?
        }
    };
    app.console.print(&harmless(&profile)?.heatmaps(palette(&app.console)))?;
    app.console.print_foreign(&format!("\n{}\n", summary(&profile)))?;
    Ok(())
}

fn import_map(app: &App, args: &ImportArgs) -> Result<()> {
    let model = match &args.shape {
        Some(_) => None,
        None => Some(Model::open(args.model.source(None)?)?),
    };
    let shape = match (&args.shape, &model) {
        (_, Some(model)) => {
            app.console.note(&format!("for {}", model.name()));
            model.head_shape()?
        }
        (name, None) => {
            let (shape, _) = ModelShape::parse(name.as_deref().unwrap_or_default()).map_err(Failure::from)?;
            HeadShape::new(shape.n_layers, shape.n_heads, shape.n_kv_heads)?
        }
    };
    let fingerprint = model.as_ref().map(|model| model.fingerprint().to_owned());
    let threshold = args.threshold.map(HeadThreshold::MinScore).or(args.share.map(HeadThreshold::TopShare));
    let profile = import::import(&args.map, &ImportOptions { shape, fingerprint, threshold })?;
    match (&args.out, &model) {
        (Some(out), _) => {
            profile.save(out)?;
            app.console.note(&format!("written to {}", out.display()));
        }
        (None, Some(model)) => {
            if !keep(app, model, &args.model.setup_options(app), &profile) {
                return Err(Failure::new(
                    "there is no cache folder for the profile",
                    "write it with --out FILE",
                )
                .into());
            }
        }
        (None, None) => {
            return Err(Failure::usage("--shape needs --out", "add --out heads.json").into());
        }
    }
    app.console.print_foreign(&format!("{}\n", summary(&profile)))?;
    Ok(())
}

/// Caches the profile for its model and says where; false where there is no place for it.
fn keep(app: &App, model: &Arc<Model>, asked: &SetupOptions, profile: &HeadProfile) -> bool {
    match Profiles::new(model, asked).cache(profile) {
        Ok(Some(path)) => app.console.note(&format!("kept for this model as {}", path.display())),
        Ok(None) => return false,
        Err(error) => {
            app.console.note(&format!("note: the head profile is not kept: {error}"));
            return false;
        }
    }
    true
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
