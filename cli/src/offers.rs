//! What fits instead, where a text does not fit the context or the memory. Everything is planned as it would be run,
//! so that an offer holds.

use std::sync::Arc;

use longhand::policy::PolicyChoice;
use longhand::setup::available_memory;
use longhand::{Context, Model, Prefill, Setup, SetupOptions, Type};

use crate::recipes::{EXACT_TYPES, FULL, OTHER_TYPES, RAZOR, RECIPES, Recipe, TYPES, budget};

/// Offers that are shown.
const MAX_OFFERS: usize = 3;

/// A session that fits, as a change of the one that was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offer {
    /// Another policy.
    pub policy: Option<&'static str>,
    /// Its rows, in % of a full cache's.
    pub percent: Option<u8>,
    /// Other types of keys and values.
    pub types: Option<(Type, Type)>,
    /// The text is read chunk by chunk.
    pub streaming: bool,
    /// Memory besides the weights, in bytes.
    pub bytes: usize,
}

/// Offers for a session of `context` tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offers {
    /// Tokens of the session.
    pub context: usize,
    /// Free memory in bytes, if it is known.
    pub free: Option<usize>,
    /// What fits, the closest to what was asked for first. Only one if nothing else has to change.
    pub offers: Vec<Offer>,
}

/// Finds what fits for a first text of `prompt` tokens in a session of `context` tokens.
pub fn find(model: &Arc<Model>, options: &SetupOptions, prompt: usize, context: usize) -> Offers {
    let options = SetupOptions { context: Context::Tokens(context), ..options.clone() };
    let fits = |change: Offer| {
        let changed = change.apply(&options)?;
        let setup =
            Setup::resolve(model, &changed, prompt, &mut ()).ok().filter(Setup::is_expected_to_fit)?;
        let plan = setup.plan();
        Some(Offer { bytes: plan.total() - plan.weights.on_host(), ..change })
    };
    let mut offers = Vec::from_iter(fits(Offer::default()));
    if offers.is_empty() {
        for offer in changes(model).into_iter().filter_map(fits) {
            // What changes more must need less.
            if offers.len() < MAX_OFFERS && offers.iter().all(|other: &Offer| offer.bytes < other.bytes) {
                offers.push(offer);
            }
        }
    }
    Offers { context, free: available_memory(), offers }
}

/// What can be changed, from little to much: the recipes, and what is smaller still. Where everything is kept, reading
/// chunk by chunk changes no answers. So it comes before types and policies that may.
fn changes(model: &Model) -> Vec<Offer> {
    let offer = |recipe: &Recipe| Offer {
        policy: Some(recipe.policy).filter(|policy| *policy != FULL),
        percent: recipe.percent,
        types: Some(recipe.types).filter(|types| *types != TYPES[0]),
        ..Offer::default()
    };
    let with_types = |policy: &'static str, streaming: bool, types: &[(Type, Type)]| -> Vec<Offer> {
        let recipe = |types| Recipe { policy, percent: None, types };
        types.iter().map(|types| Offer { streaming, ..offer(&recipe(*types)) }).collect()
    };
    let mut offers = Vec::new();
    for types in [EXACT_TYPES, OTHER_TYPES] {
        offers.extend([false, true].into_iter().flat_map(|streaming| with_types(FULL, streaming, types)));
    }
    // With ALiBi, computing the windows takes too long for an offer.
    if !model.spec().position_encoding.is_alibi() {
        offers.extend(RECIPES.iter().filter(|recipe| recipe.policy != FULL).map(offer));
        for policy in [RAZOR, "razor:induction=0.07"] {
            offers.extend(with_types(policy, true, &TYPES));
        }
    }
    offers.retain(|offer| *offer != Offer::default());
    offers
}

impl Offer {
    /// Whether nothing is changed: what did not fit a moment ago does now.
    pub fn is_none(&self) -> bool {
        *self == Offer { bytes: self.bytes, ..Offer::default() }
    }

    /// What is known of the answers that it costs, from small models (see [`crate::recipes`]).
    pub fn known_cost(&self) -> &'static str {
        let is_exact = self.types.is_none_or(|types| EXACT_TYPES.contains(&types));
        match (self.policy, self.streaming) {
            (None, _) if is_exact => "on small models this has cost no answers",
            (None, _) => "on small models this has cost few answers",
            (Some(RAZOR), false) => {
                "on small models this has cost few answers; heads are calibrated first if they are not known"
            }
            (Some(_), false) => {
                "on small models this has cost few answers; the text is read twice, and heads are calibrated first if \
                 they are not known"
            }
            (Some(_), true) => {
                "on small models this has cost some answers; heads are calibrated first if they are not known"
            }
        }
    }

    /// The options with this change. `None` if it changes nothing, or something that was given.
    pub fn apply(&self, options: &SetupOptions) -> Option<SetupOptions> {
        let mut changed = options.clone();
        if let Some(policy) = self.policy {
            if options.policy.is_some() {
                return None;
            }
            changed.policy = policy.parse::<PolicyChoice>().ok();
        }
        if let Some(percent) = self.percent {
            if options.budget.is_some() {
                return None;
            }
            changed.budget = Some(budget(percent));
        }
        if let Some((k, v)) = self.types {
            if options.k_type.or(options.v_type).is_some() {
                return None;
            }
            (changed.k_type, changed.v_type) = (Some(k), Some(v));
        }
        if self.streaming {
            if options.prefill.is_some() {
                return None;
            }
            changed.prefill = Some(Prefill::Streaming);
        }
        Some(changed)
    }
}
