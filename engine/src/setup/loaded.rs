//! Sessions on a model that is loaded already: another conversation, or one that is resumed.

use std::sync::Arc;

use ggml::InterruptFlag;

use super::SetupOptions;
use super::calibrate::{self, CalibrationOptions};
use super::decision::needed_on_host;
use super::planner::{ModelOutline, Planner, Precision};
use super::profiles::{Profiles, smallest};
use crate::devices::attention::DeviceAttention;
use crate::devices::ledger::{Left, Reservation};
use crate::devices::placement::Place;
use crate::error::Shortage;
use crate::kv::KvBudget;
use crate::progress::Observer;
use crate::setup::plan::{Measurements, Plan};
use crate::{Engine, EngineError, Session, SessionOptions};

/// A session that was promised its memory.
pub(super) struct Promised {
    pub(super) session: SessionOptions,
    plan: Plan,
    /// Of the host's memory, and of that of each device.
    pub(super) reservations: Vec<Reservation>,
}

impl Promised {
    /// Makes the session, which keeps what it was promised.
    pub(super) fn start(
        self,
        engine: &Arc<Engine>,
        interrupt: &InterruptFlag,
    ) -> Result<Session, EngineError> {
        let mut session = Session::new(engine, self.session)?.with_interrupt(interrupt);
        session.reservations = self.reservations;
        Ok(session)
    }
}

/// The options and the memory of a session of `context` tokens, whose first text has `prompt` tokens, on a
/// loaded engine. Calibrates the head profile if one is missing, and sets the policy's parameters to what the
/// budget allows. Nothing is promised.
///
/// # Errors
/// If options contradict each other, or the session does not fit the free memory of the host or the device.
pub fn prepare_session(
    engine: &Arc<Engine>,
    options: &SetupOptions,
    context: usize,
    prompt: usize,
    observer: &mut dyn Observer,
) -> Result<(SessionOptions, Plan), EngineError> {
    let Promised { session, plan, .. } = promise_new(engine, options, context, prompt, None, observer)?;
    Ok((session, plan))
}

/// As [`prepare_session`], but its memory is promised, where it was promised `own` before.
pub(super) fn promise_new(
    engine: &Arc<Engine>,
    options: &SetupOptions,
    context: usize,
    prompt: usize,
    mut own: Option<Reservation>,
    observer: &mut dyn Observer,
) -> Result<Promised, EngineError> {
    let session = options.session(context);
    if let Some(smallest) = with_smallest_heads(engine, &session)? {
        own = promise(engine, smallest, options.budget, prompt, own)?.reservations.into_iter().next();
    }
    let profiles = Profiles::new(engine.model(), options);
    let left = engine.ledgers.0.left_for(own.as_ref());
    let beside = own.as_ref().map_or(0, Reservation::bytes);
    let profile = profiles.find_or_calibrate_within(engine, &session.policy, left, beside, observer)?;
    promise(engine, SessionOptions { profile, ..session }, options.budget, prompt, own)
}

/// As [`prepare_session`], for a session of the same context on the engine of `old`, whose place it takes later: what that
/// one was promised and has not taken is free.
///
/// # Errors
/// As for [`prepare_session`].
pub fn prepare_instead_of(
    old: &Session,
    options: &SetupOptions,
    prompt: usize,
    observer: &mut dyn Observer,
) -> Result<(SessionOptions, Plan), EngineError> {
    let (engine, session) = (old.engine(), options.session(old.options().context));
    let mut beside = 0;
    if let Some(smallest) = with_smallest_heads(engine, &session)? {
        beside = needed_on_host(&fit_instead_of(old, smallest, options.budget, prompt)?.1);
    }
    let profiles = Profiles::new(engine.model(), options);
    let left = engine.ledgers.0.left_instead_of(old.reservations.first());
    let profile = profiles.find_or_calibrate_within(engine, &session.policy, left, beside, observer)?;
    fit_instead_of(old, SessionOptions { profile, ..session }, options.budget, prompt)
}

/// The session with heads that take no more memory than any others, where it has some that may have to be calibrated: what
/// does not fit whatever the heads do is refused before that.
fn with_smallest_heads(
    engine: &Engine,
    session: &SessionOptions,
) -> Result<Option<SessionOptions>, EngineError> {
    session.policy.check(engine.spec())?;
    if !session.policy.uses_retrieval_heads() {
        return Ok(None);
    }
    Ok(Some(SessionOptions { profile: Some(smallest(engine.head_shape()?)?), ..session.clone() }))
}

/// Refuses a session that does not fit whatever its heads do, before they are calibrated.
///
/// # Errors
/// As for [`prepare_session`].
pub fn check_session(
    engine: &Engine,
    options: &SetupOptions,
    context: usize,
    prompt: usize,
) -> Result<(), EngineError> {
    let profile = Some(smallest(engine.head_shape()?)?);
    let session = SessionOptions { profile, ..options.session(context) };
    fit_session(engine, session, options.budget, prompt).map(|_| ())
}

/// An empty session with the options of another one, on its engine. It is promised its memory, for a first text of `prompt`
/// tokens.
///
/// # Errors
/// If it does not fit the free memory of the host or the device.
pub fn another_session(like: &Session, prompt: usize) -> Result<Session, EngineError> {
    let engine = like.engine();
    promise(engine, like.options().clone(), None, prompt, None)?.start(engine, like.interrupt())
}

/// As [`prepare_session`], for a session whose head profile is known.
pub fn fit_session(
    engine: &Engine,
    session: SessionOptions,
    budget: Option<KvBudget>,
    prompt: usize,
) -> Result<(SessionOptions, Plan), EngineError> {
    let Promised { session, plan, .. } = promise(engine, session, budget, prompt, None)?;
    Ok((session, plan))
}

/// As [`fit_session`] on the engine of a session that makes room for it later: what that one was promised and has not
/// taken is free.
pub(crate) fn fit_instead_of(
    old: &Session,
    options: SessionOptions,
    budget: Option<KvBudget>,
    prompt: usize,
) -> Result<(SessionOptions, Plan), EngineError> {
    let engine = old.engine();
    let (session, plan) = plan_session(engine, options, budget, prompt)?;
    let (context, needed) = (session.context, needed_on_host(&plan));
    let left = engine.ledgers.0.left_instead_of(old.reservations.first());
    if let Some(left) = left.filter(|left| needed > left.free.bytes) {
        return Err(left.error(context, needed));
    }
    for device in 0..plan.devices.len() {
        let needed = plan.device_session(device);
        let left = engine.backends.at(Place::Device(device)).memory_left();
        if let Some(free) = left.filter(|free| needed > *free) {
            return Err(EngineError::Memory(Shortage {
                context,
                needed,
                free,
                on_device: true,
                bound: None,
                reserved: 0,
            }));
        }
    }
    Ok((session, plan))
}

/// As [`fit_session`], but its memory is promised, where it was promised `own` before.
pub(super) fn promise(
    engine: &Engine,
    session: SessionOptions,
    budget: Option<KvBudget>,
    prompt: usize,
    own: Option<Reservation>,
) -> Result<Promised, EngineError> {
    let (session, plan) = plan_session(engine, session, budget, prompt)?;
    let (context, needed) = (session.context, needed_on_host(&plan));
    let (host, devices) = &engine.ledgers;
    let on_host = host.reserve(needed, own).map_err(|left| left.error(context, needed))?;
    let mut reservations = vec![on_host.with_lasting(plan.lasting())];
    for (device, (ledger, bytes)) in devices.iter().zip(&plan.devices).enumerate() {
        let backend = engine.backends.at(Place::Device(device));
        let (Some(left), Some((used, _))) = (backend.memory_left(), backend.memory_used()) else { continue };
        let needed = plan.device_session(device);
        let promised = ledger.reserve(needed, used, left).map_err(|Left { free, reserved }| {
            let free = free.bytes;
            EngineError::Memory(Shortage { context, needed, free, on_device: true, bound: None, reserved })
        })?;
        reservations.push(promised.with_lasting(bytes.lasting()));
    }
    Ok(Promised { session, plan, reservations })
}

/// As [`fit_session`], but accepts what does not fit. Weights that are repacked are part of the engine and
/// not counted again.
pub fn plan_session(
    engine: &Engine,
    session: SessionOptions,
    budget: Option<KvBudget>,
    prompt: usize,
) -> Result<(SessionOptions, Plan), EngineError> {
    let (outline, measurements) = (ModelOutline::of_model(engine.model()), Measurements::default());
    let planner = planner(engine, &outline, budget, &measurements);
    let prepared = planner.prepare(&session)?;
    let planned = planner.plan(&prepared, prompt, engine.backends.placement(), Precision::Graphs)?;
    Ok((prepared.session, planned.bytes))
}

/// How the heads of a loaded model are calibrated, as `asked`, in what is `left` of main memory, of which `beside` bytes
/// stay free if that is possible.
pub(super) fn calibration_within(
    engine: &Engine,
    left: Option<Left>,
    beside: usize,
    asked: CalibrationOptions,
) -> Result<CalibrationOptions, EngineError> {
    let (outline, measurements) = (ModelOutline::of_model(engine.model()), Measurements::default());
    calibrate::fitting(
        &planner(engine, &outline, None, &measurements),
        engine.backends.placement(),
        left.map(|left| left.free.bytes),
        beside,
        asked,
    )
}

/// How the heads of a loaded model are calibrated, as `asked`, in the main memory that is free: with the largest parts of
/// the text and of the attention at a time for which that is enough.
///
/// # Errors
/// If it is enough for none.
pub fn calibration_options(
    engine: &Engine,
    asked: CalibrationOptions,
) -> Result<CalibrationOptions, EngineError> {
    calibration_within(engine, engine.ledgers.0.left(0), 0, asked)
}

/// The planner for a model that is loaded.
fn planner<'a>(
    engine: &Engine,
    outline: &'a ModelOutline,
    budget: Option<KvBudget>,
    measurements: &'a Measurements,
) -> Planner<'a> {
    let attention = engine.devices().iter().filter_map(|device| DeviceAttention::of(*device)).collect();
    let kernels = engine.backends.kernels().clone();
    Planner { outline, repack: false, budget, kernels, attention, measurements }
}
