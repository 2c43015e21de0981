//! `longhand eval` and `longhand recall`: the laboratory's commands, with the flags of models.

use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use lab::Lab;
use lab::eval::{self, EvalArgs};
use lab::recall::{self, RecallArgs};
use longhand::policy::PolicyChoice;
use longhand::{Model, SetupOptions};

use crate::app::App;
use crate::args::session::{self, TypeArgs};
use crate::failure::Failure;
use crate::models::args::{ModelArg, ModelArgs};

/// Measure what a model finds in long texts, for many ways of keeping its cache.
///
/// A text is read, and rows are evicted, before the question is known; with --query-aware they are read together. Full
/// caches, one for each type, are the reference. Memory is compared with a full cache in f16.
///
/// Results are appended to a file in the output folder, one line for each answer. To resume a run that was stopped,
/// repeat the command. The folder gets a table, a summary in JSON and pictures at the end. With several -m, all models
/// are in the same table.
#[derive(Debug, Args)]
pub struct EvalCommand {
    #[command(flatten)]
    eval: EvalArgs,
    #[command(flatten)]
    model: ModelArgs,
}

/// Measure how many facts of a long document are still found under each policy, at equal memory.
///
/// Each document is generated with facts at evenly spaced depths and read without a question. Then every fact
/// is asked about, each time from the state of the cache after reading. The policy `full`, which keeps
/// everything, is the reference.
#[derive(Debug, Args)]
pub struct RecallCommand {
    #[command(flatten)]
    model_arg: ModelArg,
    #[command(flatten)]
    recall: RecallArgs,
    #[command(flatten)]
    types: TypeArgs,
    #[command(flatten)]
    model: ModelArgs,
}

/// Runs `eval`.
pub fn run_eval(app: &App, args: &EvalCommand) -> Result<()> {
    let sources = args.model.sources(app)?;
    args.eval.check_models(sources.len())?;
    // What is wrong with a file is said before hours of work on another one.
    let models: Vec<Arc<Model>> =
        sources.into_iter().map(|source| app.open(source)).collect::<Result<_, _>>()?;
    let policies = bounded_policies(&args.eval.policy, args.eval.heads.is_some())?;
    eval::run(&lab(app), &args.eval, &models, &policies, || full_cache(app, &args.model))
}

/// Runs `recall`.
pub fn run_recall(app: &App, args: &RecallCommand) -> Result<()> {
    let policies = bounded_policies(&args.recall.policy, args.recall.heads.is_some())?;
    let model = app.open(args.model.source(app, args.model_arg.path.as_deref())?)?;
    let (k_type, v_type) = args.types.types();
    let options =
        SetupOptions { k_type: Some(k_type), v_type: Some(v_type), ..full_cache(app, &args.model)? };
    recall::run(&lab(app), &args.recall, &model, policies, &options)
}

/// How models are loaded: for a full cache, whatever else is measured.
fn full_cache(app: &App, args: &ModelArgs) -> Result<SetupOptions> {
    Ok(SetupOptions { policy: Some(PolicyChoice::default()), ..args.setup_options(app)? })
}

fn lab(app: &App) -> Lab {
    Lab { console: app.console, interrupt: app.interrupt.clone() }
}

/// The policies of a list that have bounded heads, with their names as given. `profile_is_given`: one of them must
/// use it.
///
/// # Errors
/// Where there is no such policy, or none uses the profile.
fn bounded_policies(
    texts: &[String],
    profile_is_given: bool,
) -> Result<Vec<(String, PolicyChoice)>, Failure> {
    let mut policies = Vec::new();
    for name in session::expand_policies(texts) {
        let policy = session::policy(name)?;
        if policy.policy().is_some() {
            policies.push((name.to_owned(), policy));
        }
    }
    if profile_is_given && !policies.iter().any(|(_, policy)| policy.uses_profile()) {
        return Err(Failure::usage(
            "--heads is given, but no policy uses a head profile",
            "add --policy razor, or leave out --heads",
        ));
    }
    Ok(policies)
}
