//! Flags for the KV cache: policy, types, context, and prefill.

use std::path::PathBuf;

use clap::Args;
use ggml::Type;
use longhand::policy::{KvBudget, PolicyChoice, policies};
use longhand::setup::{Context, HeadSource};
use longhand::{EngineError, SessionOptions, SetupOptions};
use terminal::prefill::PrefillArg;
use terminal::suggest::did_you_mean;
use terminal::{format, values};

use crate::failure::{Failure, Hinted as _};

/// Flags of commands that make a session.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cache")]
pub struct SessionArgs {
    /// Size of the context in tokens: documents, questions and answers, for example 32768 or 100k (100,000); 0 is the
    /// model's training context [default: the documents and 8192 tokens for the conversation; in `ask`, what the
    /// questions need]
    #[arg(short = 'c', long = "ctx-size", value_name = "TOKENS", value_parser = values::tokens)]
    pub context: Option<usize>,
    /// Cache policy: what each head keeps, for example razor:buffer=4000,ratio=5; `longhand policies` lists
    /// all. auto: full if it fits the memory (with a GPU, the GPU's), otherwise the closest cache that fits, with a note
    /// [default: auto]
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    /// Head profile, for razor, kvzip, kvzip-plus, kvzap and policies with heads=on [default: the saved profile of the model, else a new
    /// calibration]
    #[arg(long, value_name = "FILE")]
    pub heads: Option<PathBuf>,
    #[command(flatten)]
    pub budget: BudgetArgs,
    #[command(flatten)]
    pub types: TypeArgs,
    /// How the first text is read [default: exact]
    #[arg(long, value_enum, help_heading = "Prefill")]
    pub prefill: Option<PrefillArg>,
    #[command(flatten)]
    pub chunk: ChunkArgs,
}

/// The policy that depends on the memory.
const AUTO: &str = "auto";

/// How many tokens are computed at once during prefill.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Prefill")]
pub struct ChunkArgs {
    /// Tokens computed at once while a text is read, also -ub [default: 512]
    #[arg(long, value_name = "N", value_parser = values::positive)]
    ubatch_size: Option<usize>,
    /// Upper limit for -ub; for compatibility with llama.cpp
    #[arg(short = 'b', long, value_name = "N", value_parser = values::positive)]
    batch_size: Option<usize>,
}

impl ChunkArgs {
    /// Tokens computed at once.
    pub fn tokens(&self) -> usize {
        let size = self.ubatch_size.unwrap_or(SessionOptions::default().chunk);
        self.batch_size.map_or(size, |limit| limit.min(size))
    }

    /// The flags that were given, as words of a command line.
    pub fn words(&self) -> Vec<String> {
        self.given().map_or(Vec::new(), |tokens| vec!["-ub".to_owned(), tokens.to_string()])
    }

    /// Tokens computed at once, if a flag was given.
    fn given(&self) -> Option<usize> {
        self.ubatch_size.or(self.batch_size).map(|_| self.tokens())
    }
}

/// A KV budget, which sets the parameters of a policy.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cache")]
pub struct BudgetArgs {
    /// Memory for the KV cache, for example 2GiB, or 30% of what `full` needs; sets the policy's sizes. `full` takes
    /// none; --policy auto chooses a policy for it
    #[arg(long, value_name = "SIZE", value_parser = values::budget, allow_hyphen_values = true, conflicts_with = "keep")]
    pub kv_budget: Option<KvBudget>,
    /// Rows that each head keeps, except heads that keep everything; sets the policy's sizes, instead of
    /// --kv-budget
    #[arg(long, value_name = "ROWS", value_parser = values::positive)]
    pub keep: Option<usize>,
}

impl BudgetArgs {
    /// The budget, if a flag was given.
    pub fn budget(&self) -> Option<KvBudget> {
        self.kv_budget.or(self.keep.map(KvBudget::Rows))
    }

    /// The flag that was given, as words of a command line.
    pub fn words(&self) -> Vec<String> {
        let (name, value) = match self.budget() {
            None => return Vec::new(),
            Some(KvBudget::Rows(rows)) => ("--keep", rows.to_string()),
            Some(KvBudget::Bytes(bytes)) => ("--kv-budget", format::bytes_flag(bytes)),
            Some(KvBudget::Share(share)) => ("--kv-budget", format!("{}%", (share * 1e4).round() / 1e2)),
        };
        vec![name.to_owned(), value]
    }
}

fn cache_type_help(what: &str) -> String {
    format!("Type of {what}: {} [default: f16]", kernels::RowType::names())
}

/// Types of keys and values.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cache")]
pub struct TypeArgs {
    #[arg(long, value_name = "TYPE", value_parser = values::cache_type, help = cache_type_help("keys, also -ctk"))]
    cache_type_k: Option<Type>,
    #[arg(long, value_name = "TYPE", value_parser = values::cache_type, help = cache_type_help("values, also -ctv"))]
    cache_type_v: Option<Type>,
}

impl TypeArgs {
    /// The types of keys and values.
    pub fn types(&self) -> (Type, Type) {
        let (k, v) = SessionOptions::default().types;
        (self.cache_type_k.unwrap_or(k), self.cache_type_v.unwrap_or(v))
    }
}

impl SessionArgs {
    /// Adds these flags to `options`.
    ///
    /// # Errors
    /// Where the policy is invalid.
    pub fn apply(&self, options: SetupOptions) -> Result<SetupOptions, Failure> {
        Ok(SetupOptions {
            context: match self.context {
                None => Context::AsNeeded,
                Some(0) => Context::Trained,
                Some(tokens) => Context::Tokens(tokens),
            },
            policy: self.policy.as_deref().map(policy_or_auto).transpose()?.flatten(),
            budget: self.budget.budget(),
            heads: self.heads.clone().map_or(HeadSource::Auto, HeadSource::File),
            k_type: self.types.cache_type_k,
            v_type: self.types.cache_type_v,
            prefill: self.prefill.map(PrefillArg::prefill),
            chunk: self.chunk.given(),
            ..options
        })
    }
}

/// Parses a policy with its parameters; `None` for `auto`.
pub fn policy_or_auto(text: &str) -> Result<Option<PolicyChoice>, Failure> {
    if text == AUTO { Ok(None) } else { policy(text).map(Some) }
}

/// Parses a policy with its parameters. The error suggests a similar name.
pub fn policy(text: &str) -> Result<PolicyChoice, Failure> {
    if text == AUTO {
        return Err(Failure::usage(
            "auto chooses a policy by the memory, in `ask`, `chat`, `read` and `serve` only",
            "give a policy, for example full or razor",
        ));
    }
    let suggest = |error: EngineError| error.into_failure().with_suggestion(&similar_name(text));
    text.parse().map_err(suggest)
}

/// "Did you mean" for the first name in a policy that does not exist.
fn similar_name(text: &str) -> String {
    let (name, settings) = text.split_once(':').unwrap_or((text, ""));
    let Some(entry) = policies().find(|entry| entry.name == name) else {
        return did_you_mean(name, policies().map(|entry| entry.name));
    };
    let keys = settings.split(',').filter_map(|setting| Some(setting.split_once('=')?.0.trim()));
    let unknown = |key: &&str| entry.parameters().all(|parameter| parameter.name != *key);
    let names = entry.parameters().map(|parameter| parameter.name);
    keys.into_iter().find(unknown).map_or(String::new(), |key| did_you_mean(key, names))
}

/// The policies of a list. `all` becomes the names of all policies.
pub fn expand_policies(texts: &[String]) -> impl Iterator<Item = &str> {
    texts.iter().flat_map(|text| match text.trim() {
        "all" => policies().map(|entry| entry.name).collect(),
        name => vec![name],
    })
}
