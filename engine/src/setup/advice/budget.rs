//! The policy and the types for a budget that was given without a policy: the first of the recipes for which it is enough.

use super::choice::{Candidate, Chosen, MAX_PLANNINGS, Search};
use super::offers::Offer;
use super::recipes::{FULL, KVZIP, Recipe, TYPES, recipes, share};
use super::{Advice, Reason};
use crate::kv::KvBudget;
use crate::setup::SetupOptions;
use crate::setup::decision::Decider;
use crate::setup::planner::Precision;
use crate::{EngineError, Hint};

/// How a session runs that keeps as much as `given` allows. If that is enough for no recipe, `kvzip` keeps it.
///
/// # Errors
/// No policy can keep so little, none is known for the model, the session does not fit the memory, or the interrupt flag is
/// set.
pub(in crate::setup) fn for_budget(
    decider: &Decider,
    options: &SetupOptions,
    given: KvBudget,
    prompt: usize,
) -> Result<Chosen, EngineError> {
    let search = Search { decider, options: SetupOptions { budget: None, ..options.clone() }, prompt };
    search.for_budget(given).map(|(candidate, is_advised)| {
        let advice = Some(Advice { reason: Reason::Budget { is_advised }, offer: candidate.offer.clone() });
        Chosen { candidate, advice }
    })
}

impl Search<'_> {
    /// The session, and whether the budget is enough for a recipe.
    pub(super) fn for_budget(&self, given: KvBudget) -> Result<(Candidate, bool), EngineError> {
        let advised = recipes().filter(|recipe| recipe.policy == FULL || recipe.percent.is_some());
        // Of so many bytes, smaller types make more rows.
        let mut types = TYPES;
        if matches!(given, KvBudget::Bytes(_)) {
            types.reverse();
        }
        let less = types.map(|types| (Recipe { policy: KVZIP, percent: None, types }, false));
        let mut plannings = 0;
        for (recipe, is_advised) in advised.map(|recipe| (recipe, true)).chain(less) {
            if is_advised && !self.is_enough(recipe, given)? {
                continue;
            }
            // A policy that keeps everything takes no budget.
            let given = Some(given).filter(|_| recipe.policy != FULL);
            // What is impossible, or does not fit the memory, is passed over.
            if self.within(recipe, given, Precision::Arithmetic)?.is_none() {
                continue;
            }
            plannings += 1;
            if let Some(candidate) = self.within(recipe, given, Precision::Graphs)? {
                return Ok((candidate, is_advised));
            }
            if plannings == MAX_PLANNINGS - 1 {
                break;
            }
        }
        if self.decider.model.spec().position_encoding.rope().is_none() {
            return Err(EngineError::Setting {
                what: "a KV budget without a policy".into(),
                reason: "for a model without RoPE none is known that keeps less than everything".into(),
                hint: Hint::advice("choose a policy too, or give no budget"),
            });
        }
        // The error says why not.
        let change = Offer { policy: Some(KVZIP), ..Offer::default() };
        let options =
            SetupOptions { policy: KVZIP.parse().ok(), budget: Some(given), ..self.options.clone() };
        Ok((self.decide(change, options, Precision::Graphs)?, false))
    }

    /// Whether a budget is enough for what a recipe keeps.
    fn is_enough(&self, recipe: Recipe, given: KvBudget) -> Result<bool, EngineError> {
        let needed = recipe.percent.map_or(1.0, |percent| f64::from(percent) / 100.0);
        Ok(match given {
            KvBudget::Share(share) => share >= needed,
            KvBudget::Rows(rows) => rows as f64 >= needed * self.context() as f64,
            KvBudget::Bytes(bytes) => {
                let own = recipe.percent.map(share);
                self.within(recipe, own, Precision::Arithmetic)?.is_some_and(|candidate| {
                    let plan = candidate.decision.plan;
                    plan.places().map(|place| place.store).sum::<usize>() <= bytes
                })
            }
        })
    }

    /// A recipe with this budget instead of its own, if it fits.
    fn within(
        &self,
        recipe: Recipe,
        budget: Option<KvBudget>,
        precision: Precision,
    ) -> Result<Option<Candidate>, EngineError> {
        let change = Offer { percent: None, ..Offer::of(recipe) };
        let Some(options) = change.apply(&self.options) else { return Ok(None) };
        match self.decide(change, SetupOptions { budget, ..options }, precision) {
            Err(error) if error.is_interrupt() => Err(error),
            Err(_) => Ok(None),
            Ok(candidate) => Ok(Some(candidate).filter(|found| found.decision.is_expected_to_fit())),
        }
    }
}
