//! `longhand heads`: finds, shows and imports retrieval heads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use clap::{Args, Subcommand};
use longhand::heads::{HeadProfile, HeadShape, HeadThreshold, ImportOptions, Palette, SelectionRule, import};
use longhand::setup::{CalibrationOptions, Found, Profiles, calibrate, calibration_options};
use longhand::{Engine, EngineError, Model, Observer, Session, SessionOptions, Setup, SetupOptions};
use models::shapes::ModelShape;
use terminal::console::{Console, one_line, visible};
use terminal::values;

use crate::app::App;
use crate::failure::{Failure, Hinted};
use crate::models::args::{ModelArg, ModelArgs};

/// Find, show and import retrieval heads: those that look things up far back in the text.
#[derive(Debug, Args)]
pub struct HeadsArgs {
    #[command(subcommand)]
    command: HeadsCommand,
}

#[derive(Debug, Subcommand)]
enum HeadsCommand {
    /// Find a model's retrieval heads. The model reads the same random tokens four times; the heads that look back
    /// most at the earlier copies are selected
    Calibrate(CalibrateArgs),
    /// Draw the heads and their scores
    Show(ShowArgs),
    /// Make a profile from a published head map: DuoAttention (TSV file, folder or name) or Retrieval_Head (JSON)
    Import(ImportArgs),
    /// Make a profile in which as many heads keep everything as in another one, chosen at random. It shows what the
    /// choice of heads is worth
    Random(RandomArgs),
}

#[derive(Debug, Args)]
struct CalibrateArgs {
    #[command(flatten)]
    model_arg: ModelArg,
    /// Write a copy of the profile to this file; it is saved for the model anyway
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Length of the random text, which is read four times in a row (2500 tokens in the paper; fewer if the
    /// model's context is too small)
    #[arg(long, value_name = "TOKENS", default_value = "512", value_parser = values::positive)]
    period: usize,
    /// Share of query heads selected because they look at the token that followed the current token earlier
    /// (induction)
    #[arg(long, default_value = "0.14", value_parser = values::share)]
    induction: f64,
    /// Share of query heads selected because they look at the earlier occurrence of the current token (echo)
    #[arg(long, default_value = "0.01", value_parser = values::share)]
    echo: f64,
    /// Random seed
    #[arg(short = 's', long, default_value_t = 1)]
    seed: u64,
    /// Also find what predicts the scores of rows, for the policy kvzap; reads ten texts twice, not one
    #[arg(long)]
    row_predictors: bool,
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
    /// The head map: a file or folder, or duo-attention: and one of llama-2-7b-32k-instruct,
    /// llama-3-8b-instruct-gradient-1048k, llama-3.1-8b-instruct and mistral-7b-instruct-v0.2
    map: PathBuf,
    /// A well-known model instead of a model file, for example llama-3.1-8b; `plan --help` lists them
    #[arg(long, value_name = "NAME", conflicts_with_all = ["model", "hf_repo"])]
    shape: Option<String>,
    /// Write the profile to this file; needed with --shape [default: save it for the model]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Heads with at least this score keep everything [default for Retrieval_Head: 0.1]
    #[arg(long, value_parser = values::share)]
    threshold: Option<f64>,
    /// Let this share of the heads keep everything, those with the highest scores [default for DuoAttention: 0.5, or 0.25
    /// for models without grouped heads]
    #[arg(long, value_parser = values::share, conflicts_with = "threshold")]
    share: Option<f64>,
    #[command(flatten)]
    model: ModelArgs,
}

#[derive(Debug, Args)]
struct RandomArgs {
    /// The other head profile
    profile: PathBuf,
    /// Write the profile to this file
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Random seed
    #[arg(short = 's', long, default_value_t = 1)]
    seed: u64,
}

/// Runs the command.
pub fn run(app: &App, args: &HeadsArgs) -> Result<()> {
    match &args.command {
        HeadsCommand::Calibrate(args) => run_calibrate(app, args),
        HeadsCommand::Show(args) => run_show(app, args),
        HeadsCommand::Import(args) => run_import(app, args),
        HeadsCommand::Random(args) => run_random(app, args),
    }
}

fn run_calibrate(app: &App, args: &CalibrateArgs) -> Result<()> {
    let model = app.open(args.model.source(app, args.model_arg.path.as_deref())?)?;
    let setup_options = args.model.setup_options(app)?;
    let engine = load(app, &model, &setup_options)?;
    let asked = CalibrationOptions {
        period: args.period,
        seed: args.seed,
        row_predictors: args.row_predictors,
        ..CalibrationOptions::default()
    };
    let options = calibration_options(&engine, asked)?;
    let rule = SelectionRule { induction: args.induction, echo: args.echo, ..SelectionRule::default() };
    let (mut reporter, flag) = (app.reporter(), app.interrupt.flag());
    let profile = app.interrupt.computing(|| {
        calibrate(&engine, &options, &rule, &flag, &mut |progress| reporter.progress(progress))
    })?;
    drop(reporter);
    app.console.print_report(&format!("{}: {}\n", model.name(), summary(&profile)))?;
    cache(app, &model, &setup_options, &profile);
    match &args.out {
        Some(out) => save(app, &profile, out),
        None => Ok(()),
    }
}

/// Loads a model for a calibration, which needs no session.
fn load(app: &App, model: &Arc<Model>, options: &SetupOptions) -> Result<Arc<Engine>, EngineError> {
    let setup = app.interrupt.computing(|| Setup::without_session(model, options, &mut app.reporter()))?;
    app.load(&setup)
}

fn run_show(app: &App, args: &ShowArgs) -> Result<()> {
    let profile = match &args.heads {
        Some(path) => HeadProfile::load(path)?,
        None => {
            let model = app.open(args.model.source(app, args.model_arg.path.as_deref())?)?;
            let (setup_options, razor) = (args.model.setup_options(app)?, "razor".parse()?);
            let profiles = Profiles::new(&model, &setup_options);
            let profile = match app.interrupt.computing(|| profiles.find(&razor, &mut app.reporter()))? {
                Found::Profile(profile) => Some(profile),
                _ => {
                    let engine = load(app, &model, &setup_options)?;
                    let find = || profiles.find_or_calibrate(&engine, &razor, &mut app.reporter());
                    app.interrupt.computing(find)?
                }
            };
            profile.ok_or_else(|| {
                Failure::new("the policy razor uses no profile", "this is a bug; please report it")
            })?
        }
    };
    Ok(app.console.print(&picture(&app.console, &profile))?)
}

/// The heat maps of a profile, and its summary.
fn picture(console: &Console, profile: &HeadProfile) -> String {
    let maps = with_safe_names(profile).heatmaps(palette(console));
    format!("{maps}\n{}\n", visible(&summary(profile)))
}

/// The retrieval heads of a session, with their number in each layer.
pub fn of_session(console: Console, session: &Session) -> Result<String> {
    let SessionOptions { policy, profile, .. } = session.options();
    let Some(profile) = profile.as_ref().filter(|_| policy.uses_retrieval_heads()) else {
        let why = match policy.policy() {
            None => "every head keeps every row",
            Some(_) if policy.uses_shares() => "each head keeps its own share of rows",
            Some(_) => "it treats all heads alike",
        };
        return Ok(format!("the policy {policy} uses no retrieval heads: {why}\n"));
    };
    let number = |layer: usize| profile.layer(layer).iter().filter(|&&keeps| keeps).count();
    let layers: Vec<String> = (0..profile.shape().layers()).map(|layer| number(layer).to_string()).collect();
    Ok(format!("{}by layer, from 0: {}\n", picture(&console, profile), layers.join(" ")))
}

fn run_import(app: &App, args: &ImportArgs) -> Result<()> {
    let model = match &args.shape {
        Some(_) => None,
        None => Some(app.open(args.model.source(app, None)?)?),
    };
    let shape = match (&args.shape, &model) {
        (_, Some(model)) => {
            app.console.note(&format!("for {}", model.name()));
            model.head_shape()?
        }
        (name, None) => {
            let (shape, _) =
                ModelShape::parse(name.as_deref().unwrap_or_default()).map_err(Hinted::into_failure)?;
            HeadShape::new(shape.n_layers, shape.n_heads, shape.n_kv_heads)?
        }
    };
    let setup_options = args.model.setup_options(app)?;
    let fingerprint = model.as_ref().map(|model| app.identify(model, &setup_options)).transpose()?;
    let threshold = args.threshold.map(HeadThreshold::MinScore).or(args.share.map(HeadThreshold::TopShare));
    let profile = import::import(&args.map, &ImportOptions { shape, fingerprint, threshold })?;
    match (&args.out, &model) {
        (Some(out), _) => save(app, &profile, out)?,
        (None, Some(model)) => {
            if !cache(app, model, &setup_options, &profile) {
                return Err(Failure::new(
                    "the head profile could not be cached",
                    "write it to a file with --out FILE",
                )
                .into());
            }
        }
        (None, None) => {
            return Err(Failure::usage("--shape needs --out", "add --out heads.json").into());
        }
    }
    app.console.print_report(&format!("{}\n", summary(&profile)))?;
    Ok(())
}

fn run_random(app: &App, args: &RandomArgs) -> Result<()> {
    let profile = HeadProfile::load(&args.profile)?;
    if profile.retrieval_count() == 0 {
        return Err(Failure::new(
            format!("{}: no head of this profile keeps everything", args.profile.display()),
            "give the profile of a model without ALiBi, as `longhand heads calibrate --out` writes it",
        )
        .into());
    }
    let random = profile.with_random_heads(args.seed);
    save(app, &random, &args.out)?;
    Ok(app.console.print_report(&format!("{}\n", summary(&random)))?)
}

/// Writes a profile to a file and prints its path.
fn save(app: &App, profile: &HeadProfile, path: &Path) -> Result<()> {
    profile.save(path)?;
    app.console.note(&format!("saved the head profile to {}", path.display()));
    Ok(())
}

/// Caches a profile for its model and prints its path. Returns false if that fails.
fn cache(app: &App, model: &Arc<Model>, setup_options: &SetupOptions, profile: &HeadProfile) -> bool {
    match Profiles::new(model, setup_options).cache(profile, &mut app.reporter()) {
        Ok(Some(path)) => {
            app.console.note(&format!("cached the head profile for this model in {}", path.display()));
            true
        }
        Ok(None) => false,
        Err(error) => {
            app.console.note(&format!("note: the head profile could not be cached: {error}"));
            false
        }
    }
}

/// The profile with sanitized score names. The heat maps as a whole cannot be sanitized, because they contain
/// escape sequences.
fn with_safe_names(profile: &HeadProfile) -> HeadProfile {
    profile.clone().with_score_names(one_line)
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
