//! Sessions on a model that is loaded already: another conversation, or one that is resumed.

use std::sync::Arc;

use super::decision::check_host;
use super::planner::{ModelOutline, Planner, Precision};
use super::profiles::{Profiles, smallest};
use super::{SetupOptions, free_memory};
use crate::devices::placement::Place;
use crate::kv::KvBudget;
use crate::progress::Observer;
use crate::setup::plan::{Measurements, Plan};
use crate::{Engine, EngineError, SessionOptions};

/// The options and the memory of a session of `context` tokens, whose first text has `prompt` tokens, on a
/// loaded engine. Calibrates the head profile if one is missing, and sets the policy's parameters to what the
/// budget allows.
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
    let session = options.session(context);
    session.policy.check(engine.spec())?;
    if session.policy.uses_profile() && !session.policy.uses_shares() {
        check_session(engine, options, context, prompt)?;
    }
    let profile =
        Profiles::new(engine.model(), options).find_or_calibrate(engine, &session.policy, observer)?;
    fit_session(engine, SessionOptions { profile, ..session }, options.budget, prompt)
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

/// As [`prepare_session`], for a session whose head profile is known.
pub fn fit_session(
    engine: &Engine,
    session: SessionOptions,
    budget: Option<KvBudget>,
    prompt: usize,
) -> Result<(SessionOptions, Plan), EngineError> {
    let (session, plan) = plan_session(engine, session, budget, prompt)?;
    check_host(&plan, session.context, free_memory())?;
    let on_device = plan.device_allocated() - plan.weights.device;
    match engine.backends.at(Place::Device).memory_left() {
        Some(free) if on_device > free => {
            let context = session.context;
            Err(EngineError::Memory { context, needed: on_device, free, on_device: true, bound: None })
        }
        _ => Ok((session, plan)),
    }
}

/// As [`fit_session`], but accepts what does not fit. Weights that are repacked are part of the engine and
/// not counted again.
pub fn plan_session(
    engine: &Engine,
    session: SessionOptions,
    budget: Option<KvBudget>,
    prompt: usize,
) -> Result<(SessionOptions, Plan), EngineError> {
    let backends = &engine.backends;
    let planner = Planner {
        outline: &ModelOutline::of_model(engine.model()),
        repack: false,
        threads: engine.threads(),
        budget,
        blocks: backends.at(Place::Device).blocks(),
        measurements: &Measurements::default(),
    };
    let prepared = planner.prepare(&session)?;
    let planned = planner.plan(&prepared, prompt, backends.placement(), Precision::Graphs)?;
    Ok((prepared.session, planned.bytes))
}
