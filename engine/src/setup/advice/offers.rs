//! What fits instead, where a text does not fit the context, or a session the memory. Everything is planned as it would
//! be run, so that an offer holds. If a change makes weights and cache fit the memory, and with a GPU leaves all layers
//! there, nothing else is offered.

use std::sync::Arc;

use longhand::policy::{KvBudget, PolicyChoice};
use longhand::{Context, EngineError, Model, Prefill, Setup, SetupOptions, Type};

use crate::session::recipes::{EXACT_TYPES, FULL, KVZIP, OTHER_TYPES, RAZOR, Recipe, TYPES, budget, recipes};

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
    /// Memory besides the weights in bytes, as [`Setup::needed`], in the place of [`Offers::on_gpu`].
    pub bytes: usize,
}

/// Offers for a session of `context` tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offers {
    /// Tokens of the session.
    pub context: usize,
    /// Whether the memory is the GPU's.
    pub on_gpu: bool,
    /// Free memory in bytes, if it is known.
    pub free: Option<usize>,
    /// What fits, the closest to what was asked for first. Only one if nothing else has to change.
    pub offers: Vec<Offer>,
}

/// Finds what fits for a first text of `prompt` tokens in a session of `context` tokens.
///
/// # Errors
/// If the interrupt flag is set.
pub fn find(
    model: &Arc<Model>,
    options: &SetupOptions,
    prompt: usize,
    context: usize,
) -> Result<Offers, EngineError> {
    let options = SetupOptions { context: Context::Tokens(context), ..options.clone() };
    if let (None, Some(given)) = (&options.policy, options.budget) {
        let Budgeted { offer, setup, .. } = match for_budget(model, &options, given, prompt) {
            Err(error) if error.is_interrupt() => return Err(error),
            Err(_) => return Ok(Offers { context, ..Offers::default() }),
            Ok(found) => found,
        };
        let Place { on_gpu, free, .. } = Place::of(&setup);
        return Ok(Offers { context, on_gpu, free, offers: vec![offer] });
    }
    let planned = |change: Offer| -> Result<Option<(Offer, Setup)>, EngineError> {
        let Some(changed) = change.apply(&options) else { return Ok(None) };
        match Setup::resolve(model, &changed, prompt, &mut ()) {
            Ok(setup) if setup.is_expected_to_fit() => {
                Ok(Some((Offer { bytes: setup.needed(), ..change }, setup)))
            }
            Err(error) if error.is_interrupt() => Err(error),
            _ => Ok(None),
        }
    };
    let unchanged = planned(Offer::default())?;
    let mut found =
        Vec::from_iter(unchanged.iter().map(|(offer, setup)| (Place::of(setup), vec![offer.clone()])));
    // What need not be refused needs no change, unless a smaller cache may fit beside the weights, and may be used.
    let is_enough =
        unchanged.is_some_and(|(_, setup)| setup.fits() || !setup.weights_fit() || options.policy.is_some());
    for change in changes(model).into_iter().filter(|_| !is_enough) {
        let Some((offer, setup)) = planned(change)? else { continue };
        let place = Place::of(&setup);
        let number = found.iter().position(|(other, _)| other.is_same(&place)).unwrap_or(found.len());
        if number == found.len() {
            found.push((place, Vec::new()));
        }
        let offers = &mut found[number].1;
        // What changes more must need less.
        if offers.len() < MAX_OFFERS && offers.iter().all(|other| offer.bytes < other.bytes) {
            offers.push(offer);
        }
        if place.fits && offers.len() == MAX_OFFERS {
            break;
        }
    }
    let best = found.iter().position(|(place, _)| place.fits).unwrap_or(0);
    let (place, offers) = found.into_iter().nth(best).unwrap_or_default();
    Ok(Offers { context, on_gpu: place.on_gpu, free: place.free, offers })
}

/// What a budget is used for.
pub struct Budgeted {
    /// The policy and the types.
    pub offer: Offer,
    /// The session.
    pub setup: Setup,
    /// Whether the budget is enough for a recipe. Otherwise less is kept than was ever advised.
    pub is_advised: bool,
}

/// The policy and the types for a budget that was given without a policy: the first of the recipes for which it is enough.
/// If it is enough for none of them, `kvzip` keeps what the budget allows.
///
/// # Errors
/// No policy can keep so little, the session does not fit the memory, or the interrupt flag is set.
pub fn for_budget(
    model: &Arc<Model>,
    options: &SetupOptions,
    given: KvBudget,
    prompt: usize,
) -> Result<Budgeted, EngineError> {
    let planned = |recipe: Recipe, budget: Option<KvBudget>| -> Result<Option<(Offer, Setup)>, EngineError> {
        let change = Offer { percent: None, ..Offer::of(recipe) };
        let Some(changed) = change.apply(options) else { return Ok(None) };
        let setup = Setup::resolve(model, &SetupOptions { budget, ..changed }, prompt, &mut ())?;
        Ok(Some((Offer { bytes: setup.needed(), ..change }, setup)))
    };
    // What is impossible, or does not fit the memory, is passed over.
    let possible = |recipe, budget| match planned(recipe, budget) {
        Err(error) if error.is_interrupt() => Err(error),
        Ok(found) => Ok(found.filter(|(_, setup)| setup.is_expected_to_fit())),
        Err(_) => Ok(None),
    };
    let context = options.context.tokens(prompt, model.spec().n_ctx_train);
    for recipe in recipes() {
        let own = match (recipe.policy, recipe.percent) {
            (FULL, _) => None,
            (_, Some(percent)) => Some(budget(percent)),
            // How much that is depends on the model.
            (_, None) => continue,
        };
        let needed = recipe.percent.map_or(1.0, |percent| f64::from(percent) / 100.0);
        let is_enough = match given {
            KvBudget::Share(share) => share >= needed,
            KvBudget::Rows(rows) => rows as f64 >= needed * context as f64,
            KvBudget::Bytes(bytes) => possible(recipe, own)?.is_some_and(|(_, setup)| {
                let plan = setup.plan();
                plan.host.store + plan.device.store <= bytes
            }),
        };
        // A policy that keeps everything takes no budget.
        if is_enough && let Some((offer, setup)) = possible(recipe, own.map(|_| given))? {
            return Ok(Budgeted { offer, setup, is_advised: true });
        }
    }
    // Of so many bytes, smaller types make more rows.
    let mut types = TYPES;
    if matches!(given, KvBudget::Bytes(_)) {
        types.reverse();
    }
    let kvzip = |types| Recipe { policy: KVZIP, percent: None, types };
    for types in types {
        if let Some((offer, setup)) = possible(kvzip(types), Some(given))? {
            return Ok(Budgeted { offer, setup, is_advised: false });
        }
    }
    // The error says why not.
    let changed = SetupOptions { policy: KVZIP.parse().ok(), ..options.clone() };
    let setup = Setup::resolve(model, &changed, prompt, &mut ())?;
    let offer = Offer { policy: Some(KVZIP), bytes: setup.needed(), ..Offer::default() };
    Ok(Budgeted { offer, setup, is_advised: false })
}

/// Where a session has its memory. The bytes of offers can be compared in the same place.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// See [`Setup::fits`].
    fits: bool,
    on_gpu: bool,
    /// Free memory in bytes, if it is known.
    free: Option<usize>,
}

impl Place {
    fn of(setup: &Setup) -> Place {
        Place { fits: setup.fits(), on_gpu: setup.engine_options().device.is_some(), free: setup.free() }
    }

    fn is_same(&self, other: &Place) -> bool {
        (self.fits, self.on_gpu) == (other.fits, other.on_gpu)
    }
}

/// What can be changed, from little to much: the recipes, and what is smaller still. Where everything is kept, reading
/// chunk by chunk changes no answers. So it comes before types and policies that may.
fn changes(model: &Model) -> Vec<Offer> {
    let with_types = |policy: &'static str, streaming: bool, types: &[(Type, Type)]| -> Vec<Offer> {
        let recipe = |types| Recipe { policy, percent: None, types };
        types.iter().map(|types| Offer { streaming, ..Offer::of(recipe(*types)) }).collect()
    };
    let mut offers = Vec::new();
    for types in [EXACT_TYPES, OTHER_TYPES] {
        offers.extend([false, true].into_iter().flat_map(|streaming| with_types(FULL, streaming, types)));
    }
    // With ALiBi, computing the windows takes too long for an offer.
    if !model.spec().position_encoding.is_alibi() {
        offers.extend(recipes().filter(|recipe| recipe.policy != FULL).map(Offer::of));
        // With fewer induction heads, harder needles are lost (2026-11-23-razor-heads.md).
        for policy in [RAZOR, "razor:induction=0.07"] {
            offers.extend(with_types(policy, true, &TYPES));
        }
    }
    offers.retain(|offer| *offer != Offer::default());
    offers
}

impl Offer {
    /// The change that makes a session one of a recipe.
    fn of(recipe: Recipe) -> Offer {
        Offer {
            policy: Some(recipe.policy).filter(|policy| *policy != FULL),
            percent: recipe.percent,
            types: Some(recipe.types).filter(|types| *types != TYPES[0]),
            ..Offer::default()
        }
    }

    /// Whether nothing is changed: what did not fit a moment ago does now.
    pub fn is_none(&self) -> bool {
        *self == Offer { bytes: self.bytes, ..Offer::default() }
    }

    /// What is known of the answers that it costs, from small models (see [`crate::session::recipes`]).
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
                "on a small model this has cost few answers; rows are evicted while the text is read, and heads are \
                 calibrated first if they are not known"
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

#[cfg(test)]
mod tests {
    use longhand::plan::DRIVER_BYTES;
    use longhand::setup::DeviceRequest;
    use longhand::{DeviceKind, ModelSource};

    use super::*;

    /// Weights are read from the file again and again where they do not fit beside the cache.
    #[test]
    fn a_cache_leaves_main_memory_for_the_weights() {
        let model = Model::open(ModelSource::Embedded).expect("the embedded model");
        let (prompt, context) = (100, 8000);
        let options = |memory: Option<usize>| SetupOptions {
            context: Context::Tokens(context),
            device: DeviceRequest::Cpu,
            gpu_memory: memory,
            ..SetupOptions::default()
        };
        let needed = |types: (Type, Type)| {
            let options = SetupOptions { k_type: Some(types.0), v_type: Some(types.1), ..options(None) };
            let setup = Setup::resolve(&model, &options, context, &mut ()).expect("a setup");
            (setup.plan().total(), setup.plan().weights.on_host())
        };
        let first_of = |options: &SetupOptions| {
            find(&model, options, prompt, context).expect("offers").offers[0].clone()
        };
        let first = |memory| first_of(&options(Some(memory)));
        let ((full, weights), (eight_bits, _)) = (needed(TYPES[0]), needed(TYPES[1]));
        assert!(first(full).is_none());
        assert_eq!(first(full - 1).types, Some(TYPES[1]), "a text that fills the context may follow");
        assert!(first_of(&SetupOptions { only_text: true, ..options(Some(full - 1)) }).is_none());
        assert_eq!(first(eight_bits - 1).types, Some(TYPES[2]));
        assert!(first(weights - 1).is_none(), "nothing is gained");
    }

    /// With a GPU the first offer leaves all layers there, if any does.
    #[test]
    fn a_smaller_cache_comes_before_fewer_layers_on_the_gpu() {
        let model = Model::open(ModelSource::Embedded).expect("the embedded model");
        let (prompt, context) = (3900, 4000);
        let options = |free: usize, types: Option<(Type, Type)>| SetupOptions {
            context: Context::Tokens(context),
            device: DeviceRequest::Device(DeviceKind::Emulated),
            gpu_memory: Some(DRIVER_BYTES + free),
            k_type: types.map(|types| types.0),
            v_type: types.map(|types| types.1),
            ..SetupOptions::default()
        };
        let setup =
            |free, types| Setup::resolve(&model, &options(free, types), prompt, &mut ()).expect("a setup");
        let needed = |setup: &Setup| setup.plan().device_allocated() + setup.plan().device_overhead;
        let eight_bits = needed(&setup(1 << 30, Some(TYPES[1])));
        // The residual stream leaves the GPU before layers do.
        let smallest = needed(&setup(eight_bits - 1, Some(TYPES[1])));
        assert!(smallest < eight_bits && eight_bits < needed(&setup(1 << 30, None)));

        let first = |free, types| {
            let offers = find(&model, &options(free, types), prompt, context).expect("offers");
            assert!(offers.free.is_some_and(|free| offers.offers.iter().all(|offer| offer.bytes <= free)));
            offers.offers[0].clone()
        };
        assert!(first(1 << 30, None).is_none(), "nothing has to change");
        let unchanged = setup(smallest, None);
        assert!(!unchanged.fits() && unchanged.engine_options().device.is_some_and(|gpu| gpu.layers < 4));
        let offer = first(smallest, None);
        assert_eq!((offer.policy, offer.types), (None, Some(TYPES[1])));
        let offer = first(smallest - 1, None);
        assert_eq!((offer.policy, offer.types), (None, Some(TYPES[2])));
        // Types that were asked for stay. Another policy may still leave all layers on the GPU.
        assert!(first(smallest, Some(TYPES[0])).is_none());
        let full = needed(&setup(1 << 30, None));
        let mut between = (1..8).map(|n| first(smallest + (full - smallest) * n / 8, Some(TYPES[0])));
        assert!(between.any(|offer| offer.policy.is_some() && offer.types.is_none()));
        // Without room for the weights nothing is gained.
        assert!(first(setup(1 << 30, None).plan().weights.device, None).is_none());
    }
}
