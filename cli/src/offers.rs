//! What fits instead, where a text does not fit the context or the memory. Everything is planned as it would be run,
//! so that an offer holds.

use std::sync::Arc;

use longhand::policy::{KvBudget, PolicyChoice};
use longhand::setup::available_memory;
use longhand::{Context, Model, Prefill, Setup, SetupOptions, Type};
use models::spec::PositionEncoding;

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
        let setup = Setup::resolve(model, &changed, prompt, &mut ()).ok()?;
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

/// The policy that keeps everything in retrieval heads.
const RAZOR: &str = "razor";
/// The policy that reads a text twice, and the rows with which it has cost no answers
/// (tests/results/2026-11-23-kvzip.md).
const KVZIP: (&str, u8) = ("kvzip", 30);

/// Types that have cost no answers, the largest first. Keys in 4 bits have cost many
/// (tests/results/2026-11-22-ruler.md).
const SMALLER_TYPES: [(Type, Type); 2] = [(Type::Q8_0, Type::Q8_0), (Type::Q8_0, Type::Q4_0)];

/// What can be changed, from little to much. Of the policies `razor` is offered, also with half of its retrieval
/// heads, and `kvzip` where a text is read layer by layer. The others lose answers
/// (tests/results/2026-11-21-recall.md and 2026-11-22-ruler.md).
fn changes(model: &Model) -> Vec<Offer> {
    let whole = |policy| Offer { policy: Some(policy), ..Offer::default() };
    let by_chunks = |offer: Offer| Offer { streaming: true, ..offer };
    // Without a policy, reading chunk by chunk changes no answers.
    let mut ways = vec![Offer::default(), by_chunks(Offer::default())];
    // With ALiBi, computing the windows takes too long for an offer. With learned positions there are none for a second
    // reading.
    let encoding = model.spec().position_encoding;
    if encoding != PositionEncoding::Alibi {
        ways.push(whole(RAZOR));
        if encoding != PositionEncoding::Learned {
            ways.push(Offer { percent: Some(KVZIP.1), ..whole(KVZIP.0) });
        }
        ways.extend([RAZOR, "razor:induction=0.07"].map(|policy| by_chunks(whole(policy))));
    }
    let types = [None].into_iter().chain(SMALLER_TYPES.map(Some));
    let changes =
        ways.into_iter().flat_map(|way| types.clone().map(move |types| Offer { types, ..way.clone() }));
    changes.filter(|change| *change != Offer::default()).collect()
}

impl Offer {
    /// Whether nothing is changed: what did not fit a moment ago does now.
    pub fn is_none(&self) -> bool {
        *self == Offer { bytes: self.bytes, ..Offer::default() }
    }

    /// What is known of the answers that it costs, from small models: tests/results/2026-11-21-recall.md,
    /// 2026-11-22-cache-types.md, 2026-11-22-ruler.md, 2026-11-22-ruler-1.5b.md and 2026-11-23-kvzip.md.
    pub fn known_cost(&self) -> &'static str {
        match (self.policy, self.streaming) {
            (None, _) => "on small models this has cost no answers",
            (Some(RAZOR), false) => {
                "on small models this has cost few answers; heads are calibrated first if they are not known"
            }
            (Some(_), false) => {
                "on a small model this has cost no answers; the text is read twice, and heads are calibrated first if \
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
            changed.budget = Some(KvBudget::Share(f64::from(percent) / 100.0));
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
