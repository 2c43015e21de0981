//! The choice: the first way of keeping a cache that fits. Bytes by arithmetic say which that is. It is planned with its
//! graphs, and these are known from then on. Where it does not fit after all, something that needs clearly less is planned.

use super::offers::{Offer, changes};
use super::{Advice, Reason};
use crate::EngineError;
use crate::setup::decision::{Decider, Decision};
use crate::setup::planner::Precision;
use crate::setup::{Context, SetupOptions, advice};

/// Sessions that are planned with graphs for one choice, at most.
pub(super) const MAX_PLANNINGS: usize = 3;
/// Offers that are shown.
const MAX_OFFERS: usize = 3;

/// A way of keeping the cache that fits.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) offer: Offer,
    /// What is asked for with the offer.
    options: SetupOptions,
    pub(super) decision: Decision,
    /// Whether it was planned with its graphs.
    is_planned: bool,
}

/// What auto has chosen, and what it says of it.
pub(in crate::setup) struct Chosen {
    pub(super) candidate: Candidate,
    pub(super) advice: Option<Advice>,
}

impl Chosen {
    /// What is asked for with the change, how it runs, and what is said of it.
    pub(in crate::setup) fn parts(self) -> (SetupOptions, Decision, Option<Advice>) {
        (self.candidate.options, self.candidate.decision, self.advice)
    }
}

/// The search for one session.
pub(super) struct Search<'a> {
    pub(super) decider: &'a Decider<'a>,
    /// What was asked for.
    pub(super) options: SetupOptions,
    /// Tokens of the first text.
    pub(super) prompt: usize,
}

/// What a search has found.
pub(super) struct SearchResult {
    /// What was asked for, or why it is impossible.
    pub(super) unchanged: Result<Candidate, EngineError>,
    /// What fits, the closest to what was asked for first. Only one if nothing has to change.
    pub(super) fitting: Vec<Candidate>,
}

/// How the session that was asked for runs, with a cache that fits the memory beside the weights, and with a GPU leaves
/// all layers there. If the default one does not, it is the closest one that does. If arithmetic was wrong about that one, it is one
/// that needs clearly less.
///
/// # Errors
/// Those of the session that was asked for, where nothing else fits. If the interrupt flag is set.
pub(in crate::setup) fn choose(
    decider: &Decider,
    options: &SetupOptions,
    prompt: usize,
) -> Result<Chosen, EngineError> {
    let search = Search { decider, options: options.clone(), prompt };
    let SearchResult { unchanged, fitting } = search.find(1)?;
    let best = fitting.into_iter().next();
    let reason = match &unchanged {
        Ok(asked) if asked.decision.fits => return Ok(Chosen { candidate: asked.clone(), advice: None }),
        Ok(asked) => asked.reason(),
        Err(error) => advice::Reason::of_error(error),
    };
    match (best, reason) {
        (Some(best), Some(reason)) if !best.offer.is_none() => {
            let advice = Some(Advice { reason, offer: best.offer.clone() });
            Ok(Chosen { candidate: best, advice })
        }
        _ => Ok(Chosen { candidate: unchanged?, advice: None }),
    }
}

impl Search<'_> {
    /// Finds what fits. The first `planned` of it are planned with their graphs, as far as [`MAX_PLANNINGS`] allow.
    ///
    /// # Errors
    /// If the interrupt flag is set.
    pub(super) fn find(&self, planned: usize) -> Result<SearchResult, EngineError> {
        let unchanged = match self.candidate(Offer::default(), Precision::Graphs) {
            Err(error) if error.is_interrupt() => return Err(error),
            result => result.map(|found| found.expect("what changes nothing is allowed")),
        };
        if !matches!(unchanged, Ok(_) | Err(EngineError::Memory { .. })) {
            return Ok(SearchResult { unchanged, fitting: Vec::new() });
        }
        if let Ok(asked) = &unchanged
            && asked.decision.is_expected_to_fit()
        {
            // What need not be refused needs no change, unless a smaller cache may fit beside the weights, and may be
            // used.
            let Decision { fits, weights_fit, .. } = asked.decision;
            if fits || !weights_fit || self.options.policy.is_some() {
                return Ok(SearchResult { fitting: vec![asked.clone()], unchanged });
            }
        }
        let fitting = self.planned(unchanged.as_ref().ok(), Vec::new(), planned)?;
        Ok(SearchResult { unchanged, fitting })
    }

    /// What fits, the closest to what was asked for first, by the graphs of the first `planned` of it. `known` was planned
    /// with graphs already; `None` for what does not fit.
    ///
    /// # Errors
    /// If the interrupt flag is set.
    pub(super) fn planned(
        &self,
        unchanged: Option<&Candidate>,
        mut known: Vec<(Offer, Option<Candidate>)>,
        planned: usize,
    ) -> Result<Vec<Candidate>, EngineError> {
        loop {
            let mut fitting = self.by_arithmetic(unchanged, &known)?;
            let first_planned = fitting.iter().position(|candidate| candidate.is_planned);
            let next = fitting.iter().take(planned).position(|candidate| !candidate.is_planned);
            // One was what was asked for.
            let left = MAX_PLANNINGS - 1 - known.len();
            match (next, first_planned) {
                (Some(_), None) if left == 1 && !known.is_empty() => {
                    let last = self.last(fitting, &known)?;
                    // Where what was asked for runs, only what leaves all layers on the GPU replaces it.
                    let runs = unchanged.is_some_and(|asked| asked.decision.is_expected_to_fit());
                    return Ok(Vec::from_iter(last.filter(|last| last.decision.fits || !runs)));
                }
                (Some(next), _) if left > 0 => {
                    let change = fitting.swap_remove(next).offer;
                    known.push((change.clone(), self.fitting(change, Precision::Graphs)?));
                }
                // Without graphs nothing is promised but what needs less than something that was planned.
                _ => return Ok(first_planned.map_or(Vec::new(), |first| fitting.split_off(first))),
            }
        }
    }

    /// What is tried last, where arithmetic was wrong about what is `known`: the closest of what is `fitting` that needs a tenth
    /// less. If there is none, the smallest change.
    fn last(
        &self,
        fitting: Vec<Candidate>,
        known: &[(Offer, Option<Candidate>)],
    ) -> Result<Option<Candidate>, EngineError> {
        let bytes = known.last().map_or(0, |(offer, _)| offer.bytes);
        let change = match fitting.into_iter().find(|candidate| candidate.offer.bytes <= bytes / 10 * 9) {
            Some(less) => Some(less.offer),
            None => self.smallest(known)?,
        };
        change.map_or(Ok(None), |change| self.fitting(change, Precision::Graphs))
    }

    /// The smallest change that fits by arithmetic.
    fn smallest(&self, known: &[(Offer, Option<Candidate>)]) -> Result<Option<Offer>, EngineError> {
        let mut smallest: Option<Candidate> = None;
        let key = |candidate: &Candidate| (!candidate.decision.fits, candidate.offer.bytes);
        for change in changes(self.decider.model) {
            if known.iter().any(|(offer, _)| offer.is_same(&change)) {
                continue;
            }
            let Some(candidate) = self.fitting(change, Precision::Arithmetic)? else { continue };
            if smallest.as_ref().is_none_or(|smallest| key(&candidate) < key(smallest)) {
                smallest = Some(candidate);
            }
        }
        Ok(smallest.map(|smallest| smallest.offer))
    }

    /// What fits by arithmetic, the closest to what was asked for first. What is `known` is known from graphs.
    pub(super) fn by_arithmetic(
        &self,
        unchanged: Option<&Candidate>,
        known: &[(Offer, Option<Candidate>)],
    ) -> Result<Vec<Candidate>, EngineError> {
        // The bytes of offers can be compared in the same place.
        let place = |candidate: &Candidate| (candidate.decision.fits, candidate.decision.is_on_gpu());
        let unchanged = unchanged.filter(|asked| asked.decision.is_expected_to_fit());
        let mut found = Vec::from_iter(unchanged.map(|asked| (place(asked), vec![asked.clone()])));
        for change in changes(self.decider.model) {
            let candidate = match known.iter().find(|(offer, _)| offer.is_same(&change)) {
                Some((_, candidate)) => candidate.clone(),
                None => self.fitting(change, Precision::Arithmetic)?,
            };
            let Some(candidate) = candidate else { continue };
            let place = place(&candidate);
            let number = found.iter().position(|(other, _)| *other == place).unwrap_or(found.len());
            if number == found.len() {
                found.push((place, Vec::new()));
            }
            let offers = &mut found[number].1;
            // What changes more must need less.
            if offers.len() < MAX_OFFERS
                && offers.iter().all(|other| candidate.offer.bytes < other.offer.bytes)
            {
                offers.push(candidate);
            }
            let (fits, _) = place;
            if fits && offers.len() == MAX_OFFERS {
                break;
            }
        }
        let best = found.iter().position(|((fits, _), _)| *fits).unwrap_or(0);
        Ok(found.into_iter().nth(best).map_or(Vec::new(), |(_, offers)| offers))
    }

    /// A change that is possible and fits the host's memory.
    ///
    /// # Errors
    /// If the interrupt flag is set.
    pub(super) fn fitting(
        &self,
        change: Offer,
        precision: Precision,
    ) -> Result<Option<Candidate>, EngineError> {
        match self.candidate(change, precision) {
            Err(error) if error.is_interrupt() => Err(error),
            Err(_) => Ok(None),
            Ok(found) => Ok(found.filter(|candidate| candidate.decision.is_expected_to_fit())),
        }
    }

    /// What was asked for with a change; `None` if it changes something that was given.
    fn candidate(&self, change: Offer, precision: Precision) -> Result<Option<Candidate>, EngineError> {
        let Some(options) = change.apply(&self.options) else { return Ok(None) };
        self.decide(change, options, precision).map(Some)
    }

    /// Decides about `options`, which have the change in them.
    pub(super) fn decide(
        &self,
        change: Offer,
        options: SetupOptions,
        precision: Precision,
    ) -> Result<Candidate, EngineError> {
        let proposal = self.decider.proposal(&options, self.prompt, &mut ())?;
        let decision = self.decider.decide(&proposal, precision)?;
        let offer = Offer { bytes: decision.needed(), ..change };
        Ok(Candidate { offer, options, decision, is_planned: precision == Precision::Graphs })
    }

    /// Tokens of the session.
    pub(super) fn context(&self) -> usize {
        self.options.context.tokens(self.prompt, self.decider.model.spec().n_ctx_train)
    }
}

impl<'a> Search<'a> {
    /// The search for a session of `context` tokens.
    pub(super) fn with_context(
        decider: &'a Decider<'a>,
        options: &SetupOptions,
        prompt: usize,
        context: usize,
    ) -> Search<'a> {
        let options = SetupOptions { context: Context::Tokens(context), ..options.clone() };
        Search { decider, options, prompt }
    }
}

impl Candidate {
    /// Why a session that need not be refused may be changed; `None` where it fits.
    fn reason(&self) -> Option<Reason> {
        let types = self.decision.session.types;
        match self.decision.is_for_gpu() {
            _ if self.decision.fits => None,
            true => Some(Reason::Layers { types }),
            false => Some(Reason::Weights { types, bound: self.decision.left.map(|left| left.free.bound) }),
        }
    }
}
