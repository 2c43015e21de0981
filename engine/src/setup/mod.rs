//! From what is asked for to what runs. [`Setup::resolve`] decides device, layers, context, policy, types and
//! memory once, from the model file alone; [`Setup::start`] loads the weights and makes the session that was
//! planned.
//!
//! `options` says what is asked for, `target` what computes, `profiles` which heads keep everything. `planner` plans one
//! session, by `plan`. `decision` says how it would run and whether it fits, and `advice` which of several is chosen.
//! `forecast` answers the same for many policies at once. `loaded` plans sessions on a model that is loaded.

mod advice;
pub(crate) mod calibrate;
mod decision;
mod forecast;
pub(crate) mod last_attention;
mod loaded;
mod options;
pub mod plan;
pub(crate) mod planner;
pub(crate) mod profiles;
mod target;

use std::sync::{Arc, Mutex, PoisonError};

pub use self::advice::{Advice, Offer, Offers, Reason, recipes};
pub use self::calibrate::{CalibrationOptions, calibrate};
use self::decision::{Decider, Decision, PlannedHeads, Proposal};
pub use self::forecast::{Forecast, ForecastHeads, ProfileOrigin, SessionForecast};
pub(crate) use self::loaded::fit_instead_of;
pub use self::loaded::{
    another_session, calibration_options, check_session, fit_session, plan_session, prepare_instead_of,
    prepare_session,
};
use self::loaded::{promise, promise_new};
use self::options::CONVERSATION_TOKENS;
pub use self::options::{Context, HeadSource, SetupOptions};
use self::planner::Precision;
pub use self::profiles::{Found, Profiles};
pub use self::target::{DeviceRequest, GpuLayers, HostExperts, Target};
pub use crate::devices::ledger::Ledger;
use crate::devices::ledger::Reservation;
pub use crate::devices::memory::{FreeMemory, MemoryBound, available_memory, free_memory};
use crate::progress::{Notice, Observer};
use crate::setup::plan::Plan;
use crate::{Engine, EngineError, EngineOptions, Model, Session, SessionOptions};

/// How a model will be run: device, layers, session options and memory are decided, but nothing is loaded
/// yet.
///
/// ```
/// use longhand::setup::Context;
/// use longhand::{Model, ModelSource, Setup, SetupOptions};
///
/// let model = Model::open(ModelSource::Embedded)?;
/// let options = SetupOptions { policy: Some("snapkv".parse()?), context: Context::Tokens(8192), ..SetupOptions::default() };
/// let setup = Setup::resolve(&model, &options, 0, &mut ())?;
/// println!("{} bytes for the KV store", setup.plan().host.store);
/// let session = setup.start(&mut ())?;
/// # Ok::<(), longhand::EngineError>(())
/// ```
///
/// Without a policy, as much is kept as the memory allows:
///
/// ```
/// use longhand::setup::{Context, DeviceRequest, Reason};
/// use longhand::{Model, ModelSource, Setup, SetupOptions, Type};
///
/// let model = Model::open(ModelSource::Embedded)?;
/// let asked = |memory| SetupOptions {
///     context: Context::Tokens(20_000),
///     device: DeviceRequest::Cpu,
///     gpu_memory: Vec::from_iter(memory), // without a GPU, of main memory
///     ..SetupOptions::default()
/// };
/// let full = Setup::resolve(&model, &asked(None), 10_000, &mut ())?;
/// assert!(full.advice().is_none(), "everything is kept");
///
/// // A document that does not fit: with a little less memory, keys and values are stored in 8 bits.
/// let setup = Setup::resolve(&model, &asked(Some(full.plan().total() - 1_000_000)), 10_000, &mut ())?;
/// let advice = setup.advice().expect("something was changed");
/// assert!(matches!(advice.reason, Reason::Weights { types: (Type::F16, Type::F16), .. }));
/// assert_eq!(advice.offer.types, Some((Type::Q8_0, Type::Q8_0)));
/// assert_eq!(advice.offer.known_cost(), "on small models this has cost no answers");
/// assert_eq!(setup.session_options().types, (Type::Q8_0, Type::Q8_0));
/// # Ok::<(), longhand::EngineError>(())
/// ```
pub struct Setup {
    model: Arc<Model>,
    /// What was asked for, with the changes of `advice`.
    options: SetupOptions,
    /// What was asked for.
    asked: SetupOptions,
    engine: EngineOptions,
    decision: Decision,
    advice: Option<Advice>,
    /// The main memory that the session was promised, until it is made.
    reservation: Mutex<Option<Reservation>>,
}

/// How often a session is decided about again because others were promised its memory meanwhile.
const MAX_DECISIONS: usize = 3;

impl Setup {
    /// Decides how `model` is run for a session whose first text has `prompt` tokens. Nothing is loaded.
    ///
    /// Without a policy it keeps as much as the memory allows, or the budget, and [`Setup::advice`] says what was chosen:
    /// of what fits the memory beside the weights, and with a GPU leaves all layers there, what costs the fewest answers.
    ///
    /// If the policy needs a head profile that must be calibrated first, [`Setup::plan`] assumes one. Only
    /// what does not fit with any profile is refused. [`Setup::start`] calibrates and plans again with the
    /// real one.
    ///
    /// The session is promised its main memory until the setup is dropped, and the session that it makes: see [`Ledger`].
    /// With assumed heads that do not fit it is promised the least that it may take.
    ///
    /// # Errors
    /// If options contradict each other, or the device cannot be used. If the session does not fit the free
    /// memory of the host, or the interrupt flag is set.
    pub fn resolve(
        model: &Arc<Model>,
        options: &SetupOptions,
        prompt: usize,
        observer: &mut dyn Observer,
    ) -> Result<Setup, EngineError> {
        let trained = model.spec().n_ctx_train;
        let context = options.context.tokens(prompt, trained);
        if context > trained {
            observer.notice(Notice::BeyondTraining { context, trained });
        }
        let mut decider = Decider::new(model, options, observer)?;
        let mut tries = 0;
        loop {
            let (changed, decision, advice) = match (&options.policy, options.budget) {
                (Some(_), _) => {
                    // What is to be told is told once.
                    let proposal = match tries {
                        0 => decider.proposal(options, prompt, observer)?,
                        _ => decider.proposal(options, prompt, &mut ())?,
                    };
                    (options.clone(), decider.decide(&proposal, Precision::Graphs)?, None)
                }
                (None, Some(budget)) => advice::for_budget(&decider, options, budget, prompt)?.parts(),
                (None, None) => advice::choose(&decider, options, prompt)?.parts(),
            };
            tries += 1;
            let reservation = match decision.reserve(&options.ledger) {
                Ok(reservation) => Some(reservation),
                Err(error) if tries == MAX_DECISIONS => return Err(error),
                // Others were promised the memory in this moment.
                Err(_) => {
                    decider = Decider::new(model, options, &mut ())?;
                    continue;
                }
            };
            if let Some(advice) = &advice {
                observer.notice(Notice::Advice(advice.clone()));
                // What is to be told of the head profile.
                Profiles::new(model, options).find(&decision.session.policy, observer)?;
            }
            let setup = Setup::new(model, &changed, decision, observer);
            return Ok(Setup {
                asked: options.clone(),
                advice,
                reservation: Mutex::new(reservation),
                ..setup
            });
        }
    }

    /// Decides how `model` is run for a session that was saved: `session` are the options it was made with.
    /// Of `options`, those of the engine are used, and those of the head profile where the session has lost its own. All
    /// else is the session's.
    /// The session is not promised its memory yet.
    ///
    /// # Errors
    /// As for [`Setup::resolve`].
    pub fn resume(
        model: &Arc<Model>,
        options: &SetupOptions,
        session: SessionOptions,
        observer: &mut dyn Observer,
    ) -> Result<Setup, EngineError> {
        let SetupOptions { record_attention, draft, .. } = *options;
        let session = SessionOptions { record_attention, draft, ..session };
        // Where heads are calibrated first, the session is made by these options.
        let options = SetupOptions {
            policy: Some(session.policy.clone()),
            budget: None,
            context: Context::Tokens(session.context),
            k_type: Some(session.types.0),
            v_type: Some(session.types.1),
            prefill: Some(session.prefill),
            int8: session.int8,
            chunk: Some(session.chunk),
            ..options.clone()
        };
        let decider = Decider::new(model, &options, observer)?;
        let heads = match &session.profile {
            Some(profile) => PlannedHeads::known(Some(profile.clone())),
            None => decider.heads(&session.policy, observer)?,
        };
        let longest = if options.only_text { 0 } else { session.context };
        let proposal = Proposal { session, heads, budget: None, prompt: 0, longest, check_memory: true };
        let decision = decider.decide(&proposal, Precision::Graphs)?;
        Ok(Setup::new(model, &options, decision, observer))
    }

    /// Decides how `model` is loaded for work that makes no session, such as a calibration. Layers are placed
    /// on a GPU so that a session of 8192 tokens would fit beside them; the host's memory is not checked.
    ///
    /// # Errors
    /// Where the device cannot be used.
    pub fn without_session(
        model: &Arc<Model>,
        options: &SetupOptions,
        observer: &mut dyn Observer,
    ) -> Result<Setup, EngineError> {
        let context = CONVERSATION_TOKENS.min(model.spec().n_ctx_train.max(1));
        let session = SessionOptions { context, ..SessionOptions::default() };
        let policy = Some(session.policy.clone());
        let options = SetupOptions { policy, budget: None, ..options.clone() };
        let heads = PlannedHeads::known(None);
        let proposal =
            Proposal { session, heads, budget: None, prompt: context, longest: context, check_memory: false };
        let decision = Decider::new(model, &options, observer)?.decide(&proposal, Precision::Graphs)?;
        Ok(Setup::new(model, &options, decision, observer))
    }

    fn new(
        model: &Arc<Model>,
        options: &SetupOptions,
        decision: Decision,
        observer: &mut dyn Observer,
    ) -> Setup {
        decision.announce(model, options, observer);
        Setup {
            model: model.clone(),
            options: options.clone(),
            asked: options.clone(),
            engine: decision.engine(options),
            decision,
            advice: None,
            reservation: Mutex::default(),
        }
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// What auto changed, and why; `None` where everything is kept as it was asked for, or a policy was given.
    pub fn advice(&self) -> Option<&Advice> {
        self.advice.as_ref()
    }

    /// How the model will be loaded.
    pub fn engine_options(&self) -> &EngineOptions {
        &self.engine
    }

    /// The options of the session. The head profile is missing if it must be calibrated first.
    pub fn session_options(&self) -> &SessionOptions {
        &self.decision.session
    }

    /// The memory that the session takes, in bytes.
    pub fn plan(&self) -> &Plan {
        &self.decision.plan
    }

    /// Whether the session fits the free memory of the host with the heads of [`Setup::plan`]. Where these are assumed,
    /// [`Setup::resolve`] refuses only what does not fit whatever they are.
    pub fn is_expected_to_fit(&self) -> bool {
        self.decision.is_expected_to_fit()
    }

    /// Whether weights and session fit the memory with the longest first text, as far as that is known: that of the GPU
    /// with all layers it was to compute, or main memory. [`Setup::resolve`] does not refuse what makes this false:
    /// layers are then on the host, or weights are read from the file again and again.
    pub fn fits(&self) -> bool {
        self.decision.fits
    }

    /// Bytes that the session takes besides the weights: on the GPU that computes layers, else on the host.
    pub fn needed(&self) -> usize {
        self.decision.needed()
    }

    /// Bytes that are free there for a session, if that is known.
    pub fn free(&self) -> Option<usize> {
        self.decision.free()
    }

    /// Loads the weights.
    ///
    /// # Errors
    /// As for [`Engine::load`].
    pub fn load(&self, observer: &mut dyn Observer) -> Result<Arc<Engine>, EngineError> {
        let engine = Engine::load(&self.model, &self.engine, &mut |progress| observer.progress(progress))?;
        // The copied weights are in use now.
        if let Some(promised) = &mut *self.reservation.lock().unwrap_or_else(PoisonError::into_inner) {
            promised.shrink_to(self.decision.promised);
        }
        Ok(engine)
    }

    /// Makes the session on a loaded engine; calibrates the head profile first if one is missing. The engine's ledger
    /// promises it its memory: what that of [`SetupOptions::ledger`] has promised is given back, if it is another one.
    ///
    /// # Errors
    /// If the session does not fit the free memory of the host or the device, or the interrupt flag is set.
    pub fn session(&self, engine: &Arc<Engine>, observer: &mut dyn Observer) -> Result<Session, EngineError> {
        let Decision { session, known, prompt, .. } = &self.decision;
        let own = self.reservation.lock().unwrap_or_else(PoisonError::into_inner).take();
        let promised = match known {
            true => promise(engine, session.clone(), None, *prompt, own)?,
            false => promise_new(engine, &self.options, session.context, *prompt, own, observer)?,
        };
        let session = promised.start(engine, &self.options.interrupt)?;
        self.options.interrupt.check()?;
        Ok(session)
    }

    /// Loads the weights and makes the session. Where auto has chosen it, it is chosen once more if it does not fit after
    /// all: another program may have taken the memory, or calibration has found more retrieval heads than were assumed.
    /// The observer gets what is chosen then as a [`Notice::Advice`].
    ///
    /// # Errors
    /// As for [`Setup::load`] and [`Setup::session`].
    pub fn start(&self, observer: &mut dyn Observer) -> Result<Session, EngineError> {
        match self.start_once(observer) {
            Err(EngineError::Memory { .. } | EngineError::Policy { .. }) if self.asked.policy.is_none() => {
                let again = Setup::resolve(&self.model, &self.asked, self.decision.prompt, observer)?;
                again.start_once(observer)
            }
            started => started,
        }
    }

    fn start_once(&self, observer: &mut dyn Observer) -> Result<Session, EngineError> {
        let engine = self.load(observer)?;
        self.session(&engine, observer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModelSource;

    #[test]
    fn an_interrupt_during_setup_is_not_lost() {
        let model = Model::open(ModelSource::Embedded).expect("embedded model");
        let options = SetupOptions { device: DeviceRequest::Cpu, ..SetupOptions::default() };
        let setup = Setup::resolve(&model, &options, 0, &mut ()).expect("a setup");
        let engine = setup.load(&mut ()).expect("an engine");
        options.interrupt.set();
        let resolved = Setup::resolve(&model, &options, 0, &mut ()).err().expect("an interrupt");
        let session = setup.session(&engine, &mut ()).err().expect("an interrupt");
        assert!(resolved.is_interrupt() && session.is_interrupt(), "{resolved} {session}");
    }
}
