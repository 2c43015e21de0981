//! What fits instead, where a text does not fit the context, or a session the memory. If a change makes weights and
//! cache fit the memory, and with a GPU leaves all layers there, nothing else is offered.

use std::sync::Arc;

use ggml::Type;

use super::choice::{Search, SearchResult};
use super::recipes::{EXACT_TYPES, FULL, OTHER_TYPES, RAZOR, Recipe, TYPES, recipes, share};
use crate::kv::PolicyChoice;
use crate::session::Prefill;
use crate::setup::SetupOptions;
use crate::setup::decision::Decider;
use crate::{EngineError, Model};

/// A session that fits, as a change of the one that was asked for.
///
/// ```
/// use longhand::SetupOptions;
/// use longhand::setup::Offer;
///
/// let offer = Offer { policy: Some("kvzip:heads=on"), percent: Some(65), ..Offer::default() };
/// let options = offer.apply(&SetupOptions::default()).expect("no policy was given");
/// assert!(options.policy.is_some() && offer.apply(&options).is_none());
/// ```
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
    /// Memory besides the weights in bytes, as [`Setup::needed`](crate::Setup::needed), in the place of
    /// [`Offers::on_gpu`].
    pub bytes: usize,
}

/// Offers for a session of `context` tokens.
///
/// ```
/// use longhand::setup::Offers;
/// use longhand::{Model, ModelSource, SetupOptions};
///
/// // A text of 1000 tokens does not fit a context of 500. Does it fit one of 2000?
/// let model = Model::open(ModelSource::Embedded)?;
/// let offers = Offers::find(&model, &SetupOptions::default(), 1000, 2000)?;
/// assert!(offers.offers[0].is_none(), "nothing else has to change");
/// # Ok::<(), longhand::EngineError>(())
/// ```
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

impl Offers {
    /// Finds what fits for a first text of `prompt` tokens in a session of `context` tokens.
    ///
    /// # Errors
    /// If the device cannot be used, or the interrupt flag is set.
    pub fn find(
        model: &Arc<Model>,
        options: &SetupOptions,
        prompt: usize,
        context: usize,
    ) -> Result<Offers, EngineError> {
        let none = Offers { context, ..Offers::default() };
        let decider = match Decider::new(model, options, &mut ()) {
            Err(error) if error.is_interrupt() => return Err(error),
            Err(_) => return Ok(none),
            Ok(decider) => decider,
        };
        let search = Search::with_context(&decider, options, prompt, context);
        let fitting = match (&options.policy, options.budget) {
            (None, Some(given)) => match search.for_budget(given) {
                Err(error) if error.is_interrupt() => return Err(error),
                Err(_) => Vec::new(),
                Ok((candidate, _)) => vec![candidate],
            },
            _ => {
                let SearchResult { fitting, .. } = search.find(usize::MAX)?;
                fitting
            }
        };
        let Some(first) = fitting.first() else { return Ok(none) };
        let (on_gpu, free) = (first.decision.is_on_gpu(), first.decision.free());
        let offers = fitting.into_iter().map(|candidate| candidate.offer).collect();
        Ok(Offers { context, on_gpu, free, offers })
    }
}

/// What can be changed, from little to much: the recipes, and what is smaller still. Where everything is kept, reading
/// chunk by chunk changes no answers. So it comes before types and policies that may.
pub(super) fn changes(model: &Model) -> Vec<Offer> {
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
    pub(super) fn of(recipe: Recipe) -> Offer {
        Offer {
            policy: Some(recipe.policy).filter(|policy| *policy != FULL),
            percent: recipe.percent,
            types: Some(recipe.types).filter(|types| *types != TYPES[0]),
            ..Offer::default()
        }
    }

    /// Whether nothing is changed.
    pub fn is_none(&self) -> bool {
        self.is_same(&Offer::default())
    }

    /// Whether it is the same change.
    pub(super) fn is_same(&self, other: &Offer) -> bool {
        *self == Offer { bytes: self.bytes, ..other.clone() }
    }

    /// What is known of the answers that it costs, from small models.
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
            changed.budget = Some(share(percent));
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
