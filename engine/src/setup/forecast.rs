//! What sessions would take under several policies and cache types. There may be only a well-known shape
//! instead of a model file, and the GPU need not be there. It decides as [`Setup`](super::Setup) does, but
//! refuses nothing.

use std::sync::Arc;

use ggml::Type;
use models::shapes::{FileType, ModelShape};
use models::spec::ModelSpec;

use super::planner::{ModelOutline, Planned, Planner, Precision, Prepared, place};
use super::profiles::{Found, Profiles, assumed_share, policy_rule, spread};
use super::{HeadSource, SetupOptions, Target};
use crate::compute::row_groups::layers_without_groups;
use crate::heads::{HeadProfile, HeadShape};
use crate::kv::{KvBudget, PolicyChoice};
use crate::progress::Observer;
use crate::session::Prefill;
use crate::setup::plan::{Measurements, Placement, Plan};
use crate::{EngineError, Model, SessionOptions};

/// What sessions of one model would take.
///
/// ```
/// use longhand::setup::{Context, DeviceRequest, Forecast};
/// use longhand::{Model, ModelSource, SetupOptions, Type};
///
/// let model = Model::open(ModelSource::Embedded)?;
/// let options = SetupOptions { device: DeviceRequest::Cpu, context: Context::Tokens(8192), ..SetupOptions::default() };
/// let forecast = Forecast::of_model(&model, &options)?;
/// let types = [(Type::F16, Type::F16), (Type::Q8_0, Type::Q8_0)];
/// let sessions = forecast.sessions(&"snapkv".parse()?, None, &types, &mut ())?;
/// let store = |number: usize| sessions[number].as_ref().map(|session| session.plan().host.store);
/// assert!(store(1).ok() < store(0).ok());
/// # Ok::<(), longhand::EngineError>(())
/// ```
pub struct Forecast {
    outline: ModelOutline,
    /// `None` for a shape.
    model: Option<Arc<Model>>,
    options: SetupOptions,
    context: usize,
    target: Target,
    /// Why a GPU that is there is not planned for.
    unused_gpu: Option<String>,
    heads: ForecastHeads,
    measurements: Measurements,
}

/// The head profile of a forecast.
#[derive(Clone, Debug)]
pub struct ForecastHeads {
    /// The profile.
    pub profile: HeadProfile,
    /// Where it is from.
    pub origin: ProfileOrigin,
}

/// Where the head profile of a forecast is from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProfileOrigin {
    /// It was given.
    Given,
    /// The model's cached profile.
    Cached,
    /// There is none: the model has ALiBi, and the windows of its heads follow from the weights.
    Alibi,
    /// Assumed: this share of the KV heads keeps everything, evenly spread.
    Assumed {
        /// The share, from 0 to 1.
        share: f64,
    },
}

impl ForecastHeads {
    /// Whether the number of KV heads that keep everything is a guess: without groups it follows from the policy.
    pub fn is_guess(&self) -> bool {
        matches!(self.origin, ProfileOrigin::Assumed { .. }) && self.profile.shape().group() > 1
    }
}

/// What one session would take.
#[derive(Clone, Debug)]
pub struct SessionForecast {
    prepared: Prepared,
    planned: Planned,
    /// The longest context in tokens that fits, with an error below 0.1 %; 0 if none fits. Experts may leave the GPU
    /// for it where that was not forbidden, but no layers.
    pub longest_context: usize,
}

impl SessionForecast {
    /// The session, its policy with the parameters that the budget allows.
    pub fn session(&self) -> &SessionOptions {
        &self.prepared.session
    }

    /// Its memory, with as many layers on GPUs as fit.
    pub fn plan(&self) -> &Plan {
        &self.planned.bytes
    }

    /// Which layers are on which GPU.
    pub fn placement(&self) -> Placement {
        self.planned.placement
    }

    /// Layers of the model in which sparse prefill has no effect, where the session reads so.
    pub fn exact_layers(&self, spec: &ModelSpec) -> Option<usize> {
        let is_sparse = self.session().prefill == Prefill::Sparse;
        is_sparse.then(|| layers_without_groups(spec, self.placement())).filter(|exact| *exact > 0)
    }

    /// Rows that every KV head has room for, `[layers][KV heads]`.
    pub fn rows(&self) -> Vec<Vec<usize>> {
        self.prepared.rows()
    }

    /// Most rows that a bounded head has room for; `None` where no head is bounded.
    pub fn bounded_rows(&self) -> Option<usize> {
        self.prepared.bounded_rows()
    }
}

impl Forecast {
    /// For a model file. The first text of each session has as many tokens as the context.
    ///
    /// # Errors
    /// If the model's tensors do not fit its metadata, a given head profile cannot be used, or the GPU that is asked for
    /// cannot compute the model.
    pub fn of_model(model: &Arc<Model>, options: &SetupOptions) -> Result<Forecast, EngineError> {
        model.check_tensors()?;
        Forecast::new(ModelOutline::of_model(model), Some(model.clone()), options)
    }

    /// For a well-known shape.
    ///
    /// # Errors
    /// If a given head profile cannot be used, or the GPU that is asked for cannot compute the model.
    pub fn of_shape(
        shape: &ModelShape,
        file_type: FileType,
        options: &SetupOptions,
    ) -> Result<Forecast, EngineError> {
        Forecast::new(ModelOutline::of_shape(shape, file_type), None, options)
    }

    fn new(
        outline: ModelOutline,
        model: Option<Arc<Model>>,
        options: &SetupOptions,
    ) -> Result<Forecast, EngineError> {
        let heads = heads(&outline, model.as_ref(), options)?;
        let trained = outline.spec.n_ctx_train.max(1);
        let (target, unused_gpu) = Target::assume(&outline.spec, model.as_deref(), options)?;
        Ok(Forecast {
            context: options.context.tokens(0, trained),
            target,
            unused_gpu,
            options: options.clone(),
            outline,
            model,
            heads,
            measurements: Measurements::default(),
        })
    }

    /// The model's sizes and settings.
    pub fn spec(&self) -> &ModelSpec {
        &self.outline.spec
    }

    /// Tokens of each session and of its first text.
    pub fn context(&self) -> usize {
        self.context
    }

    /// What it is planned for.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Why a GPU that is there is not planned for, where the model cannot be computed on it and none was asked for.
    pub fn unused_gpu(&self) -> Option<&str> {
        self.unused_gpu.as_deref()
    }

    /// The head profile, for policies that use one.
    pub fn heads(&self) -> &ForecastHeads {
        &self.heads
    }

    /// What sessions with `policy` would take, for each pair of types of keys and values; or why there can be
    /// no such session. `budget` says how much bounded heads keep, where the options of the forecast do not.
    ///
    /// # Errors
    /// If the head profile cannot be used with the policy, or the interrupt flag is set.
    pub fn sessions(
        &self,
        policy: &PolicyChoice,
        budget: Option<KvBudget>,
        types: &[(Type, Type)],
        observer: &mut dyn Observer,
    ) -> Result<Vec<Result<SessionForecast, EngineError>>, EngineError> {
        let profile = self.profile(policy, observer)?;
        let session = |types: &(Type, Type)| SessionOptions {
            policy: policy.clone(),
            profile: Some(profile.clone()),
            types: *types,
            ..self.options.session(self.context)
        };
        let forecast = |types| {
            self.options.interrupt.check()?;
            Ok(self.session(&session(types), budget))
        };
        types.iter().map(forecast).collect()
    }

    fn session(
        &self,
        session: &SessionOptions,
        budget: Option<KvBudget>,
    ) -> Result<SessionForecast, EngineError> {
        let budget = self.options.budget.or(budget);
        let planner =
            Planner::unloaded(&self.outline, &self.target, &self.options, budget, &self.measurements);
        let (target, layers) = (&self.target, self.outline.spec.n_layers);
        let prepare = |context| {
            let chunk = self.options.session(context).chunk;
            planner.prepare(&SessionOptions { context, chunk, ..session.clone() })
        };
        let prepared = prepare(self.context)?;
        let plan = |placement, precision| planner.plan(&prepared, self.context, placement, precision);
        let placement = place(target, layers, Precision::Graphs, &plan);
        let planned = plan(placement, Precision::Graphs)?;
        // The graphs that longer contexts are estimated by.
        plan(target.smallest(layers), Precision::Graphs)?;
        let fits = |context| {
            let Ok(prepared) = prepare(context) else { return false };
            let plan = |placement, precision| planner.plan(&prepared, context, placement, precision);
            let Ok(smallest) = plan(target.smallest(layers), Precision::Arithmetic) else { return false };
            let is_held = target.holds(&smallest.bytes);
            if is_held && target.host_holds(&smallest.bytes) || !is_held && target.devices.len() < 2 {
                return is_held;
            }
            // What takes the least of the GPU's memory takes the most of the host's. Several GPUs may hold it where the
            // layers are shared in another way.
            let placement = place(target, layers, Precision::Arithmetic, &plan);
            plan(placement, Precision::Arithmetic)
                .is_ok_and(|planned| target.fits(&planned.bytes, placement, layers) == Some(true))
        };
        let longest_context = longest_context(self.context, fits);
        Ok(SessionForecast { prepared, planned, longest_context })
    }

    /// The profile for one policy. With ALiBi it has the model's windows. Otherwise it is the forecast's
    /// profile, with the heads that the policy selects from its scores.
    fn profile(
        &self,
        policy: &PolicyChoice,
        observer: &mut dyn Observer,
    ) -> Result<HeadProfile, EngineError> {
        // With a budget, planning such a policy is an error whatever the windows are.
        if let (Some(model), Some(_), None) =
            (&self.model, policy.scope_options(self.spec()), self.options.budget)
            && let Found::Profile(profile) = Profiles::new(model, &self.options).find(policy, observer)?
        {
            return Ok(profile);
        }
        let selected = match policy.uses_profile() {
            true => self.heads.profile.reselect(&policy_rule(policy))?,
            false => None,
        };
        Ok(selected.unwrap_or_else(|| self.heads.profile.clone()))
    }
}

/// The profile that is asked for, else the model's cached one, else an assumed one.
fn heads(
    outline: &ModelOutline,
    model: Option<&Arc<Model>>,
    options: &SetupOptions,
) -> Result<ForecastHeads, EngineError> {
    let shape = outline.head_shape()?;
    let profiles = model.map(|model| Profiles::new(model, options));
    let (profile, origin) = match (&options.heads, &profiles) {
        (HeadSource::File(path), Some(profiles)) => (profiles.load(path, &mut ())?, ProfileOrigin::Given),
        (HeadSource::File(path), None) => (HeadProfile::load_for(path, shape, None)?, ProfileOrigin::Given),
        (HeadSource::Profile(profile), profiles) => {
            profiles.as_ref().map_or(Ok(()), |profiles| profiles.check(profile, &mut ()))?;
            profile.check(shape, None)?;
            (profile.clone(), ProfileOrigin::Given)
        }
        // A program that caches a profile knows the fingerprint. So the file need not be read for a plan.
        (HeadSource::Auto, Some(profiles)) => match profiles.cached_if_known().ok().flatten() {
            Some(profile) => (profile, ProfileOrigin::Cached),
            None if outline.spec.position_encoding.is_alibi() => {
                (HeadProfile::uniform(shape, false), ProfileOrigin::Alibi)
            }
            None => assumed(shape, assumed_share(shape))?,
        },
        (HeadSource::Auto, None) => assumed(shape, assumed_share(shape))?,
        (HeadSource::Assumed(share), _) => assumed(shape, share.unwrap_or_else(|| assumed_share(shape)))?,
    };
    Ok(ForecastHeads { profile, origin })
}

fn assumed(shape: HeadShape, share: f64) -> Result<(HeadProfile, ProfileOrigin), EngineError> {
    Ok((spread(shape, share)?, ProfileOrigin::Assumed { share }))
}

/// The longest context that fits, with an error below 0.1 %; 0 if none is found. The search begins at `guess`.
fn longest_context(guess: usize, fits: impl Fn(usize) -> bool) -> usize {
    const LIMIT: usize = 100_000_000;
    let (mut good, mut bad) = (0, guess.clamp(1 << 14, LIMIT));
    while bad <= LIMIT && fits(bad) {
        (good, bad) = (bad, bad * 2);
    }
    // Some policies cannot be used in very short sessions.
    while good == 0 && bad > 1 {
        let half = bad / 2;
        if fits(half) { good = half } else { bad = half }
    }
    while good > 0 && bad - good > good / 1000 + 1 {
        let middle = good + (bad - good) / 2;
        if fits(middle) { good = middle } else { bad = middle }
    }
    good.min(LIMIT)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::ModelSource;

    #[test]
    fn an_interrupt_stops_a_forecast() {
        let model = Model::open(ModelSource::Embedded).expect("the embedded model");
        let options = SetupOptions::default();
        let forecast = Forecast::of_model(&model, &options).expect("a forecast");
        options.interrupt.set();
        let policy = "full".parse().expect("a policy");
        let error = forecast.sessions(&policy, None, &[(Type::F16, Type::F16)], &mut ()).err();
        assert!(error.is_some_and(|error| error.is_interrupt()));
    }

    #[test]
    fn the_longest_context_is_found_from_every_guess() {
        for guess in [0, 1, 1000, 70_000, 100_000_000] {
            for limit in [1, 2, 999, 1000, 139_000, 99_000_000] {
                let found = longest_context(guess, |context| context <= limit);
                assert!(found <= limit && limit - found <= limit / 1000 + 1, "{guess} {limit}: {found}");
                // Too short for a policy.
                let found = longest_context(guess, |context| context <= limit && context >= 300);
                assert!(found == 0 || (limit >= 300 && limit - found <= limit / 1000 + 1), "{guess} {limit}");
                assert!(found > 0 || limit < 999, "{guess} {limit}");
            }
            assert_eq!(longest_context(guess, |_| false), 0);
            assert_eq!(longest_context(guess, |_| true), 100_000_000);
        }
    }
}
