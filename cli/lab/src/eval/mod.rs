//! `longhand eval`: what models find in long texts, for many ways of keeping the cache: tasks, lengths, policies,
//! memory and cache types. With exact prefill every text is read once for each pair of types. Results are appended to a
//! file, so that an evaluation that was stopped resumes.

mod caches;
mod compare;
mod full_cache;
mod measure;
mod peer;
mod results;
mod texts;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use longhand::policy::PolicyChoice;
use longhand::setup::Context;
use longhand::{Model, SetupOptions, Type};
use terminal::failure::{Failure, is_interrupt};
use terminal::values;

use self::caches::{Budget, Cache, Reading};
use self::measure::Evaluation;
use self::results::records::{self, Records, Shard};
use self::results::report;
use self::texts::exercise::{self, Task};
use crate::Lab;

/// What is evaluated. The models are others' flags.
#[derive(Debug, Args)]
pub struct EvalArgs {
    /// Tasks: ruler (all thirteen of RULER) or one of them by its name, such as niah_single_1 or vt. Also needle,
    /// passkey, and longbench (the sixteen that are not in Chinese) or one of them. Of books: perplexity, agreement
    /// (with a full cache's summary), retention (positions that are kept), attention-loss (attention that evicted rows
    /// would receive, at the number of rows that a policy keeps; the L2 paper's ALR is the sum over all numbers). Where
    /// answers come from: sources, or one such as sources_needle, in all tasks above whose texts tell where the answer
    /// stands; sources_facts for what the embedded model knows
    #[arg(value_name = "TASK", required = true, value_parser = exercise::parse, help_heading = "Tasks")]
    tasks: Vec<Vec<Task>>,
    /// Lengths of the texts in tokens, with the question and the answer but without the chat template, comma-separated.
    /// RULER itself uses 4096 and more
    #[arg(short = 'c', long = "ctx-size", value_name = "TOKENS", value_delimiter = ',', default_value = "4096", value_parser = values::positive, help_heading = "Tasks")]
    lengths: Vec<usize>,
    /// Texts for each task and length
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Tasks")]
    samples: u32,
    /// Random seed of the texts. RULER's own is 42. Its question sets (qa_1, qa_2) and LongBench's are the same for
    /// every seed
    #[arg(short = 's', long, default_value_t = 42, value_name = "N", value_parser = clap::value_parser!(u32), help_heading = "Tasks")]
    seed: u32,
    /// Folder with texts: RULER's essays and question sets, LongBench's .jsonl files, wherever they lie in it, and
    /// books as .txt. Tasks whose texts are missing are left out, with a note
    #[arg(long, value_name = "FOLDER", help_heading = "Tasks")]
    data: Option<PathBuf>,
    /// Maximum tokens of an answer in the task agreement
    #[arg(long, value_name = "TOKENS", default_value_t = 256, value_parser = values::positive, help_heading = "Tasks")]
    answer_tokens: usize,
    /// Read the text together with its question, so that policies know it when they evict. With exact prefill the first
    /// token of an answer is then that of a full cache. Without effect where there is no question: perplexity, retention,
    /// attention-loss
    #[arg(long, help_heading = "Tasks")]
    query_aware: bool,
    /// Policies, separated by semicolons, or `all`. The full cache is always there
    #[arg(long, value_name = "POLICY", value_delimiter = ';', default_value = "all", help_heading = "Cache")]
    pub policy: Vec<String>,
    /// Memory for the KV cache with text, question and answer, comma-separated: sizes (2GiB) or shares of a full cache
    /// in f16 (25%), or own. With own, the sizes are those in the policies' parameters. Less is left after the text:
    /// some policies hold more rows for a moment
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "25%", value_parser = caches::parse_budget, help_heading = "Cache")]
    kv_budget: Vec<Budget>,
    /// Types of keys and values of the policies, comma-separated; q8_0/q4_0 are keys in q8_0 and values in q4_0
    #[arg(long, value_name = "TYPE", value_delimiter = ',', default_value = "f16", value_parser = caches::parse_types, help_heading = "Cache")]
    cache_types: Vec<(Type, Type)>,
    /// Types of the full caches to compare with, besides those of the policies. A text is read once for each type
    /// [default: f16,q8_0,q4_0, as far as the model's heads are as wide as the types need]
    #[arg(long, value_name = "TYPE", value_delimiter = ',', value_parser = caches::parse_types, help_heading = "Cache")]
    full_types: Option<Vec<(Type, Type)>>,
    /// How texts are read with policies that evict rows, and with full caches where it is int8 or sparse, comma-separated.
    /// With streaming, each cache reads a text on its own, which takes longer
    #[arg(long, value_enum, value_delimiter = ',', default_value = "exact", help_heading = "Cache")]
    prefill: Vec<Reading>,
    /// Head profile, for razor, kvzip, kvzip-plus, kvzap and policies with heads=on [default: the saved profile of the model, else a new
    /// calibration]
    #[arg(long, value_name = "FILE", help_heading = "Cache")]
    pub heads: Option<PathBuf>,
    /// Another program that answers the same questions with full caches, to compare with: NAME=COMMAND. {context},
    /// {type_k} and {type_v} in it are replaced. It gets a prompt as a line of numbers: the most tokens of the answer,
    /// then the token ids. It writes the ids of the answer as a line. tests/peer/answers.cpp is one for llama.cpp
    #[arg(long, value_name = "NAME=COMMAND", value_parser = str::parse::<peer::PeerCommand>, help_heading = "Results")]
    peer: Option<peer::PeerCommand>,
    /// Folder for the results
    #[arg(short = 'o', long, value_name = "FOLDER", default_value = "eval", help_heading = "Results")]
    output: PathBuf,
    /// Do only this part of the work, such as 2/8: the second of eight. Each part has a file of its own in the folder
    #[arg(long, value_name = "I/N", value_parser = records::parse_shard, help_heading = "Results")]
    shard: Option<Shard>,
    /// Print a JSON array with one object for each task and cache that the folder has results of
    #[arg(long, help_heading = "Results")]
    json: bool,
}

impl EvalArgs {
    /// Refuses a head profile for several models.
    ///
    /// # Errors
    /// Where a head profile is given, and more than one model.
    pub fn check_models(&self, models: usize) -> Result<(), Failure> {
        if models > 1 && self.heads.is_some() {
            return Err(Failure::usage(
                "--heads is for one model, and several are given",
                "calibrate each model first with `longhand heads calibrate`, or evaluate one after the other with the same -o",
            ));
        }
        Ok(())
    }
}

/// Evaluates the models. `policies`: those of [`EvalArgs::policy`] that have bounded heads, with their names as given.
/// `options` says how models are run; it is called when nothing is wrong with the folder.
///
/// # Errors
/// Where nothing can be measured, a computation fails, results cannot be written, or Ctrl-C was pressed.
pub fn run(
    lab: &Lab,
    args: &EvalArgs,
    models: &[Arc<Model>],
    policies: &[(String, PolicyChoice)],
    options: impl FnOnce() -> Result<SetupOptions>,
) -> Result<()> {
    let caches: Vec<Vec<Cache>> =
        models.iter().map(|model| caches::of_args(args, policies, model.spec())).collect();
    results::check(&args.output)?;
    let mut records = Records::open(&args.output, args.shard)?;
    let options = options()?;
    // One work, so that Ctrl-C between two computations stops it with the hint.
    let evaluated = lab.interrupt.in_steps(|| {
        let mut models = models.iter().zip(&caches);
        models.try_for_each(|(model, caches)| evaluate(lab, args, model, &options, caches, &mut records))
    });
    evaluated.map_err(|error| or_resume(error, &args.output))?;
    report::finish(lab, args, &mut records)
}

/// Ctrl-C loses no results: its hint says so.
fn or_resume(error: anyhow::Error, output: &Path) -> anyhow::Error {
    if !is_interrupt(&error) {
        return error;
    }
    let hint = format!("the results so far are kept in {}: repeat the command to resume", output.display());
    Failure::interrupted().with_hint(&hint).into()
}

/// Evaluates a model.
fn evaluate(
    lab: &Lab,
    args: &EvalArgs,
    model: &Arc<Model>,
    options: &SetupOptions,
    caches: &[Cache],
    records: &mut Records,
) -> Result<()> {
    let longest = args.lengths.iter().copied().max().unwrap_or(0);
    let longest = longest.max((longest + measure::TEMPLATE_TOKENS).min(model.spec().n_ctx_train));
    // The largest cache decides which layers are on the GPU.
    let bytes = |(k, v): &(Type, Type)| k.row_bytes(1024) + v.row_bytes(1024);
    let largest = caches.iter().map(|cache| cache.types).max_by_key(bytes);
    let (k_type, v_type) = largest.unwrap_or((Type::F16, Type::F16));
    let options = SetupOptions {
        context: Context::Tokens(longest),
        policy: Some(PolicyChoice::default()),
        k_type: Some(k_type),
        v_type: Some(v_type),
        ..options.clone()
    };
    let engine = lab.load(model, &options, longest)?;
    let caches = caches::with_profiles(lab, args, &engine, &options, caches)?;
    Evaluation::new(lab, args, &engine, &caches)?.run(records)
}
