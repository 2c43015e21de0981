//! The ways of keeping the cache that are compared: policies with a budget, and full caches, of each type.

use std::collections::HashSet;
use std::sync::Arc;

use clap::ValueEnum;
use longhand::gguf::ModelSpec;
use longhand::heads::HeadProfile;
use longhand::policy::{KvBudget, PolicyChoice};
use longhand::reading::Prefill;
use longhand::{Engine, EngineError, SessionOptions, SetupOptions, Type};
use terminal::failure::Failure;
use terminal::prefill::PrefillArg;
use terminal::{format, reporter, values};
use twox_hash::XxHash3_64;

use crate::Lab;
use crate::eval::EvalArgs;
use crate::examine::find_profile;

/// The types with whose full cache memory is compared.
pub const F16: (Type, Type) = (Type::F16, Type::F16);

/// Full caches in every table, where the model can have them.
const FULL_TYPES: [(Type, Type); 3] = [F16, (Type::Q8_0, Type::Q8_0), (Type::Q4_0, Type::Q4_0)];

/// The policy's own sizes.
const OWN: &str = "own";

/// The memory of a policy.
#[derive(Clone, Copy, Debug)]
pub enum Budget {
    /// What its parameters ask for, as they are given.
    Own,
    /// At most so much: the budget sets its sizes.
    Of(KvBudget),
}

/// How a text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Reading {
    /// Every head sees the whole text, in f32
    Exact,
    /// The same as other commands do it where the processor has VNNI, AVX2 or ARM's dot products: attention multiplies old rows
    /// in integers of 8 bits, or of 7 and 11 bits with AVX2 alone
    Int8,
    /// As int8, but old rows are read in groups of 16, and one by one only where a token looks there
    Sparse,
    /// As int8, but chunk by chunk; a head sees only the rows it has kept
    Streaming,
}

impl Reading {
    /// The name in arguments and results.
    pub fn name(self) -> &'static str {
        match self {
            Reading::Int8 => "int8",
            other => PrefillArg::from(other.prefill()).name(),
        }
    }

    /// What the library calls it, beside the arithmetic.
    pub fn prefill(self) -> Prefill {
        match self {
            Reading::Exact | Reading::Int8 => Prefill::Exact,
            Reading::Sparse => Prefill::Sparse,
            Reading::Streaming => Prefill::Streaming,
        }
    }
}

/// A way of keeping the cache.
#[derive(Clone)]
pub struct Cache {
    /// The policy as given.
    pub name: String,
    /// Memory; `None` for a policy that keeps everything.
    pub budget: Option<Budget>,
    /// Types of keys and values.
    pub types: (Type, Type),
    /// How a text is read. Streaming only where rows are evicted, because it changes no answers otherwise.
    pub reading: Reading,
    policy: PolicyChoice,
    profile: Option<HeadProfile>,
}

impl Cache {
    /// A cache of this name that keeps everything.
    pub fn full(name: &str, types: (Type, Type)) -> Cache {
        Cache {
            name: name.to_owned(),
            budget: None,
            types,
            reading: Reading::Exact,
            policy: PolicyChoice::default(),
            profile: None,
        }
    }

    /// The options of a session of `context` tokens.
    ///
    /// # Errors
    /// Where the budget is too small for the policy.
    pub fn options(&self, context: usize, spec: &ModelSpec) -> Result<SessionOptions, EngineError> {
        let options = SessionOptions {
            context,
            policy: self.policy.clone(),
            profile: self.profile.clone(),
            types: self.types,
            prefill: self.reading.prefill(),
            int8: self.reading != Reading::Exact,
            ..SessionOptions::default()
        };
        match self.budget {
            None | Some(Budget::Own) => Ok(options),
            Some(Budget::Of(KvBudget::Share(share))) => {
                let states = state_bytes(spec);
                let rows = (full_bytes(spec, context, F16) - states) as f64 * share;
                options.within(KvBudget::Bytes(rows as usize + states), spec)
            }
            Some(Budget::Of(budget)) => options.within(budget, spec),
        }
    }

    /// The budget as given; empty where there is none.
    pub fn budget_text(&self) -> String {
        match self.budget {
            None => String::new(),
            Some(Budget::Own) => OWN.to_owned(),
            Some(Budget::Of(KvBudget::Rows(rows))) => format!("{rows} rows"),
            Some(Budget::Of(KvBudget::Bytes(bytes))) => format::bytes_flag(bytes),
            Some(Budget::Of(KvBudget::Share(share))) => format!("{}%", (share * 1e8).round() / 1e6),
        }
    }

    /// How many KV heads keep everything, and a checksum of which: `16/48-9f3c21aa`. `shares-` and a checksum where
    /// each head keeps its own share. Empty where the policy uses no head profile.
    pub fn heads(&self) -> String {
        let Some(profile) = &self.profile else { return String::new() };
        let layers = 0..profile.shape().layers();
        let scopes = layers.flat_map(|layer| profile.scopes(layer).unwrap_or_default());
        let bytes = profile.retrieval().iter().map(|is_kept| u8::from(*is_kept));
        let bytes: Vec<u8> = bytes.chain(scopes.flat_map(|scope| scope.to_le_bytes())).collect();
        if self.policy.uses_shares() {
            let shares = (0..=20).filter_map(|part| profile.row_shares(f64::from(part) / 20.0)).flatten();
            let bytes: Vec<u8> = shares.flat_map(f64::to_le_bytes).collect();
            return format!("shares-{:08x}", XxHash3_64::oneshot(&bytes) >> 32);
        }
        let (kept, all) = (profile.retrieval_count(), profile.shape().all_kv_heads());
        format!("{kept}/{all}-{:08x}", XxHash3_64::oneshot(&bytes) >> 32)
    }
}

/// Bytes of a cache that keeps all that is ever seen of `tokens` tokens: in layers with a sliding window, the window;
/// in recurrent layers, the state. Layers that attend to the rows of others have none.
pub fn full_bytes(spec: &ModelSpec, tokens: usize, types: (Type, Type)) -> usize {
    let of_types = || [types.0, types.1].into_iter().take(spec.rows_of_token());
    let of_layer = |layer| {
        let rows = spec.window(layer).map_or(tokens, |window| tokens.min(window));
        let heads = spec.kv_heads(layer);
        rows * heads.count * of_types().map(|ty| ty.row_bytes(heads.dim)).sum::<usize>()
    };
    (0..spec.n_layers).filter(|layer| spec.has_rows(*layer)).map(of_layer).sum::<usize>() + state_bytes(spec)
}

/// Bytes of the states, which no budget makes smaller.
fn state_bytes(spec: &ModelSpec) -> usize {
    let layers = (0..spec.n_layers).filter_map(|layer| spec.recurrent_layer(layer));
    layers.map(|layers| layers.state().bytes()).sum()
}

/// Whether the rows of a model's heads consist of whole blocks of these types.
fn can_have(spec: &ModelSpec, (k, v): (Type, Type)) -> bool {
    let whole = |dim: usize| dim.is_multiple_of(k.block_elements()) && dim.is_multiple_of(v.block_elements());
    (0..spec.n_layers).filter(|layer| spec.has_rows(*layer)).all(|layer| whole(spec.kv_heads(layer).dim))
}

/// Parses a budget: `own`, `2GiB` or `25%`.
pub fn parse_budget(text: &str) -> Result<Budget, Failure> {
    if text == OWN { Ok(Budget::Own) } else { values::budget(text).map(Budget::Of) }
}

/// Parses the types of keys and values: `q8_0`, or `q8_0/q4_0`.
pub fn parse_types(text: &str) -> Result<(Type, Type), Failure> {
    let (k, v) = text.split_once('/').unwrap_or((text, text));
    Ok((values::cache_type(k)?, values::cache_type(v)?))
}

/// The caches that are asked for, each once: full ones of all types, then each policy with each type and budget.
pub fn of_args(args: &EvalArgs, policies: &[(String, PolicyChoice)], spec: &ModelSpec) -> Vec<Cache> {
    let full_types = match &args.full_types {
        Some(types) => types.clone(),
        None => FULL_TYPES.into_iter().filter(|types| can_have(spec, *types)).collect(),
    };
    let full_types = full_types.iter().chain(&args.cache_types);
    let full = |types: &(Type, Type)| Cache::full(PolicyChoice::default().name(), *types);
    let mut caches: Vec<Cache> = full_types.map(full).collect();
    // With streaming prefill a full cache is as with exact prefill.
    for reading in [Reading::Int8, Reading::Sparse] {
        if args.prefill.contains(&reading) {
            caches.extend(args.cache_types.iter().map(|types| Cache { reading, ..full(types) }));
        }
    }
    for types in &args.cache_types {
        for (name, policy) in policies {
            for reading in &args.prefill {
                let cache = Cache { policy: policy.clone(), reading: *reading, ..Cache::full(name, *types) };
                let budgets = args.kv_budget.iter();
                caches.extend(budgets.map(|budget| Cache { budget: Some(*budget), ..cache.clone() }));
            }
        }
    }
    let mut known = HashSet::new();
    caches.retain(|cache| {
        let types = (cache.types.0.name(), cache.types.1.name());
        known.insert((cache.name.clone(), cache.budget_text(), types, cache.reading.name()))
    });
    caches
}

/// The same with the head profiles that their policies need, which are calibrated where there are none.
pub fn with_profiles(
    lab: &Lab,
    args: &EvalArgs,
    engine: &Arc<Engine>,
    options: &SetupOptions,
    caches: &[Cache],
) -> Result<Vec<Cache>, EngineError> {
    reporter::note_prefill(&lab.console, caches.iter().map(|cache| (cache.reading.prefill(), &cache.policy)));
    let mut caches = caches.to_vec();
    let mut found: Vec<(PolicyChoice, Option<HeadProfile>)> = Vec::new();
    for cache in &mut caches {
        let known = found.iter().find(|(policy, _)| *policy == cache.policy);
        let profile = match known {
            Some((_, profile)) => profile.clone(),
            None => find_profile(lab, engine, options, args.heads.as_deref(), &cache.policy)?,
        };
        if known.is_none() {
            found.push((cache.policy.clone(), profile.clone()));
        }
        cache.profile = profile;
    }
    Ok(caches)
}
