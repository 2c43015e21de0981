//! From what is asked for to what runs. [`Setup::resolve`] decides device, layers, context, policy, types and
//! memory once, from the model file alone; [`Setup::start`] loads the weights and makes the session that was
//! planned.

pub(crate) mod calibrate;
mod forecast;
pub(crate) mod last_attention;
mod memory;
pub mod plan;
mod planner;
mod profiles;
mod target;

use std::path::PathBuf;
use std::sync::Arc;

pub use forecast::{Forecast, ForecastHeads, ProfileOrigin, SessionForecast};
use ggml::{InterruptFlag, Type};
pub use memory::{FreeMemory, MemoryBound, available_memory, free_memory};
pub use planner::Planned;
use planner::{ModelOutline, Planner};
pub use profiles::{Found, Profiles, assumed_share, smallest, spread};
pub use target::{DeviceRequest, GpuLayers, HostExperts, Target};

use crate::devices::placement::Place;
use crate::files::folders;
use crate::heads::HeadProfile;
use crate::kv::{KvBudget, PolicyChoice};
use crate::progress::{Notice, Observer};
use crate::setup::plan::{ASSUMED_DEVICE_BLOCKS, Placement, Plan};
use crate::{DeviceOptions, Engine, EngineError, EngineOptions, Model, Prefill, Session, SessionOptions};

/// Tokens of a session beyond its first text, if no context is asked for.
const CONVERSATION_TOKENS: usize = 8192;
/// The same at least, if the first text alone exceeds what the model was trained for.
const ANSWER_TOKENS: usize = 1024;

/// How many tokens a session can hold.
///
/// ```
/// use longhand::Context;
///
/// // A first text of 1000 tokens, a model trained for 32,768.
/// assert_eq!(Context::AsNeeded.tokens(1000, 32_768), 1000 + 8192);
/// assert_eq!(Context::Tokens(5000).tokens(1000, 32_768), 5000);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Context {
    /// The first text and 8192 tokens more. Not more than the model was trained for, but at least 1024 beyond
    /// the first text.
    #[default]
    AsNeeded,
    /// As many as the model was trained for.
    Trained,
    /// This many.
    Tokens(usize),
}

impl Context {
    /// The context of a session whose first text has `prompt` tokens, with a model trained for `trained`
    /// tokens.
    pub fn tokens(self, prompt: usize, trained: usize) -> usize {
        match self {
            Context::AsNeeded => (prompt + CONVERSATION_TOKENS).min(trained.max(prompt + ANSWER_TOKENS)),
            Context::Trained => trained,
            Context::Tokens(tokens) => tokens,
        }
    }
}

/// Which heads keep everything, for policies that use a head profile.
///
/// ```
/// use longhand::{HeadSource, SetupOptions};
///
/// let options = SetupOptions { heads: HeadSource::File("heads.json".into()), ..SetupOptions::default() };
/// assert!(matches!(options.heads, HeadSource::File(_)));
/// ```
#[derive(Clone, Debug, Default)]
pub enum HeadSource {
    /// The cached profile of the model; calibrated and cached if there is none.
    #[default]
    Auto,
    /// A profile file.
    File(PathBuf),
    /// This profile.
    Profile(HeadProfile),
    /// A made-up profile: this share of the KV heads, from 0 to 1, evenly spread. For benchmarks of models
    /// without a profile.
    Assumed(f64),
}

/// How a model should be run. [`Setup::resolve`] decides what is left at its default.
///
/// ```
/// use longhand::{Context, SetupOptions};
/// use longhand::policy::KvBudget;
///
/// let options = SetupOptions {
///     context: Context::Tokens(32_768),
///     policy: Some("h2o".parse()?),
///     budget: Some(KvBudget::Share(0.25)),
///     ..SetupOptions::default()
/// };
/// # drop(options);
/// # Ok::<(), longhand::EngineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SetupOptions {
    /// See [`EngineOptions::threads`].
    pub threads: Option<usize>,
    /// See [`EngineOptions::repack`].
    pub repack: bool,
    /// What computes.
    pub device: DeviceRequest,
    /// How many of the last layers a GPU computes.
    pub gpu_layers: GpuLayers,
    /// Of how many of the first layers the experts stay on the host although a GPU computes the rest.
    pub host_experts: HostExperts,
    /// Limit on the GPU's memory in bytes, the driver's part included; `None` for what is free.
    pub gpu_memory: Option<usize>,
    /// How many tokens a session can hold.
    pub context: Context,
    /// What bounded heads keep; `None` is [`PolicyChoice::default`], which keeps everything.
    pub policy: Option<PolicyChoice>,
    /// How much they keep, instead of the policy's own parameters.
    pub budget: Option<KvBudget>,
    /// Which heads keep everything.
    pub heads: HeadSource,
    /// Element type of keys; `None` is f16.
    pub k_type: Option<Type>,
    /// Element type of values; `None` is f16.
    pub v_type: Option<Type>,
    /// How the first text is read; `None` is [`Prefill::Exact`].
    pub prefill: Option<Prefill>,
    /// Whether the first text will not become longer. Otherwise memory is planned for one that fills the context: a
    /// document may be added before the first question.
    pub only_text: bool,
    /// Tokens computed at a time while a text is read; `None` is 512.
    pub chunk: Option<usize>,
    /// Where head profiles are cached: by default the folder `heads` of [`folders::cache`]. `None` caches none,
    /// so that every [`Setup`] computes them again.
    pub profile_folder: Option<PathBuf>,
    /// Stops deciding, identifying, loading and calibrating. Sessions of this setup have it too, until they are given
    /// another one ([`Session::set_interrupt`]).
    pub interrupt: InterruptFlag,
}

impl Default for SetupOptions {
    fn default() -> Self {
        SetupOptions {
            threads: None,
            repack: true,
            device: DeviceRequest::default(),
            gpu_layers: GpuLayers::default(),
            host_experts: HostExperts::default(),
            gpu_memory: None,
            context: Context::default(),
            policy: None,
            budget: None,
            heads: HeadSource::default(),
            k_type: None,
            v_type: None,
            prefill: None,
            only_text: false,
            chunk: None,
            profile_folder: folders::cache().map(|folder| folder.join("heads")),
            interrupt: InterruptFlag::new(),
        }
    }
}

impl SetupOptions {
    /// The options of a session of `context` tokens, without a head profile yet.
    pub fn session(&self, context: usize) -> SessionOptions {
        let default = SessionOptions::default();
        SessionOptions {
            context,
            policy: self.policy.clone().unwrap_or(default.policy),
            profile: None,
            types: (self.k_type.unwrap_or(default.types.0), self.v_type.unwrap_or(default.types.1)),
            prefill: self.prefill.unwrap_or(default.prefill),
            chunk: self.chunk.unwrap_or(default.chunk).min(context.max(1)),
        }
    }

    /// The options of an engine on the host.
    pub fn engine(&self) -> EngineOptions {
        EngineOptions {
            threads: self.threads,
            repack: self.repack,
            device: None,
            trace: false,
            interrupt: self.interrupt.clone(),
        }
    }
}

/// How a model will be run: device, layers, session options and memory are decided, but nothing is loaded
/// yet.
///
/// ```
/// use longhand::{Context, Model, ModelSource, Setup, SetupOptions};
///
/// let model = Model::open(ModelSource::Embedded)?;
/// let options = SetupOptions { policy: Some("snapkv".parse()?), context: Context::Tokens(8192), ..SetupOptions::default() };
/// let setup = Setup::resolve(&model, &options, 0, &mut ())?;
/// println!("{} bytes for the KV store", setup.plan().host.store);
/// let session = setup.start(&mut ())?;
/// # Ok::<(), longhand::EngineError>(())
/// ```
pub struct Setup {
    model: Arc<Model>,
    options: SetupOptions,
    engine: EngineOptions,
    session: SessionOptions,
    /// Whether the head profile is known, or none is needed.
    known: bool,
    plan: Plan,
    prompt: usize,
    /// See [`Setup::is_for_gpu`].
    is_for_gpu: bool,
    /// See [`Setup::fits`].
    fits: bool,
    /// See [`Setup::weights_fit`].
    weights_fit: bool,
}

impl Setup {
    /// Decides how `model` is run for a session whose first text has `prompt` tokens. Nothing is loaded.
    ///
    /// If the policy needs a head profile that must be calibrated first, [`Setup::plan`] assumes one. Only
    /// what does not fit with any profile is refused. [`Setup::start`] calibrates and plans again with the
    /// real one.
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
        let (spec, shape) = (model.spec(), model.head_shape()?);
        let session = options.session(context);
        session.policy.check(spec)?;
        model.check_tensors()?;
        let target = Target::find(model, options, observer)?;
        if session.policy.scope_options(spec).is_some() {
            // Windows take a while to compute: what does not fit whatever they are is refused before.
            let session = SessionOptions { profile: Some(smallest(shape)?), ..session.clone() };
            let outline = ModelOutline::of_model(model);
            let wanted = target.wanted(spec.n_layers);
            check_unloaded(&planner(&outline, options).plan(&session, prompt, wanted)?.bytes, context)?;
        }
        let heads = Heads::find(model, options, &session.policy, observer)?;
        let case = Case { target, session, heads, prompt, check_memory: true };
        Setup::decide(model, options, case, observer)
    }

    /// Decides how `model` is run for a session that was saved: `session` are the options it was made with.
    /// Of `options`, those of the engine are used, and those of the head profile where the session has lost its own.
    ///
    /// # Errors
    /// As for [`Setup::resolve`].
    pub fn resume(
        model: &Arc<Model>,
        options: &SetupOptions,
        session: SessionOptions,
        observer: &mut dyn Observer,
    ) -> Result<Setup, EngineError> {
        let heads = match &session.profile {
            Some(profile) => Heads::known(Some(profile.clone())),
            None => Heads::find(model, options, &session.policy, observer)?,
        };
        let options = SetupOptions { budget: None, ..options.clone() };
        model.check_tensors()?;
        let target = Target::find(model, &options, observer)?;
        let case = Case { target, session, heads, prompt: 0, check_memory: true };
        Setup::decide(model, &options, case, observer)
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
        let options = SetupOptions { budget: None, ..options.clone() };
        let session = SessionOptions { context, ..SessionOptions::default() };
        model.check_tensors()?;
        let heads = Heads::known(None);
        let target = Target::find(model, &options, observer)?;
        let case = Case { target, session, heads, prompt: context, check_memory: false };
        Setup::decide(model, &options, case, observer)
    }

    fn decide(
        model: &Arc<Model>,
        options: &SetupOptions,
        case: Case,
        observer: &mut dyn Observer,
    ) -> Result<Setup, EngineError> {
        let Case { target, session, heads, prompt, check_memory } = case;
        let spec = model.spec();
        if let Some(window) = spec.ignored_sliding_window {
            observer.notice(Notice::IgnoredWindow { window });
        }
        let outline = ModelOutline::of_model(model);
        let planner = planner(&outline, options);
        let plan = |profile: &Option<HeadProfile>, prompt: usize, placement: Placement| {
            let session = SessionOptions { profile: profile.clone(), ..session.clone() };
            planner.plan(&session, prompt, placement)
        };
        // A budget may be too small for the expected profile and large enough for the real one.
        let expected = |prompt, placement| {
            plan(&heads.expected, prompt, placement).or_else(|_| plan(&heads.smallest, prompt, placement))
        };

        let longest = if options.only_text { prompt } else { session.context };
        let placement = target.choose(spec.n_layers, |placement| expected(longest, placement));
        let smallest = plan(&heads.smallest, prompt, placement)?;
        if check_memory {
            check_unloaded(&smallest.bytes, session.context)?;
        }
        let planned = if heads.known { smallest } else { expected(prompt, placement)? };

        let mut engine = options.engine();
        if let Some(kind) = target.device {
            match placement.on_device() {
                0 if options.gpu_layers == GpuLayers::Auto => {
                    observer.notice(Notice::NothingFitsGpu { free: target.limit.unwrap_or(0) });
                }
                0 => {}
                on_gpu => {
                    if on_gpu < spec.n_layers {
                        observer.notice(Notice::LayersOnGpu { on_gpu, layers: spec.n_layers });
                    }
                    let split = placement.split_layers(spec);
                    if split > 0 {
                        observer.notice(Notice::ExpertsOnCpu { split, on_gpu });
                    }
                    if placement.has_host_residual() && planned.session.prefill == Prefill::Exact {
                        observer.notice(Notice::ResidualOnHost);
                    }
                    let overhead = planned.bytes.device_overhead;
                    let memory = target.limit.map(|limit| limit.saturating_sub(overhead));
                    engine.device = Some(DeviceOptions {
                        kind,
                        layers: on_gpu,
                        host_experts: placement.host_experts(),
                        host_residual: placement.has_host_residual(),
                        memory,
                    });
                }
            }
        }
        // The steps of a setup are too short to look at the flag, and none of them resets it.
        options.interrupt.check()?;
        let fits = |planned: &Planned| target.fits(planned, spec.n_layers) != Some(false);
        let fits = expected(longest, placement).is_ok_and(|planned| fits(&planned));
        let has_room_for_weights = |planned: Planned| {
            let weights = planned.bytes.weights;
            let bytes = match target.device {
                Some(_) => weights.device + planned.bytes.device_overhead,
                None => weights.on_host(),
            };
            target.limit.is_none_or(|limit| bytes <= limit)
        };
        let weights_fit =
            fits || expected(longest, target.smallest(spec.n_layers)).is_ok_and(has_room_for_weights);
        let profile = planned.session.profile.filter(|_| heads.known);
        Ok(Setup {
            model: model.clone(),
            options: options.clone(),
            known: heads.known,
            engine,
            session: SessionOptions { profile, ..planned.session },
            plan: planned.bytes,
            prompt,
            is_for_gpu: target.device.is_some(),
            fits,
            weights_fit,
        })
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// How the model will be loaded.
    pub fn engine_options(&self) -> &EngineOptions {
        &self.engine
    }

    /// The options of the session. The head profile is missing if it must be calibrated first.
    pub fn session_options(&self) -> &SessionOptions {
        &self.session
    }

    /// The memory that the session takes, in bytes.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether the session fits the free memory of the host with the heads of [`Setup::plan`]. Where these are assumed,
    /// [`Setup::resolve`] refuses only what does not fit whatever they are.
    pub fn is_expected_to_fit(&self) -> bool {
        check_unloaded(&self.plan, self.session.context).is_ok()
    }

    /// Whether a GPU was to compute, even if nothing fits it.
    pub fn is_for_gpu(&self) -> bool {
        self.is_for_gpu
    }

    /// Whether weights and session fit the memory with the longest first text, as far as that is known: that of the GPU
    /// with all layers it was to compute, or main memory. [`Setup::resolve`] does not refuse what makes this false:
    /// layers are then on the host, or weights are read from the file again and again.
    pub fn fits(&self) -> bool {
        self.fits
    }

    /// Whether that memory could hold the weights. If so, a smaller cache may fit.
    pub fn weights_fit(&self) -> bool {
        self.weights_fit
    }

    /// Bytes that the session takes besides the weights: on the GPU that computes layers, else on the host.
    pub fn needed(&self) -> usize {
        match self.engine.device {
            Some(_) => self.plan.device_allocated() - self.plan.weights.device,
            None => self.plan.total() - self.plan.weights.on_host(),
        }
    }

    /// Bytes that are free there for a session, if that is known.
    pub fn free(&self) -> Option<usize> {
        match self.engine.device {
            Some(device) => device.memory.map(|memory| memory.saturating_sub(self.plan.weights.device)),
            None => available_memory(),
        }
    }

    /// Loads the weights.
    ///
    /// # Errors
    /// As for [`Engine::load`].
    pub fn load(&self, observer: &mut dyn Observer) -> Result<Arc<Engine>, EngineError> {
        Engine::load(&self.model, &self.engine, &mut |progress| observer.progress(progress))
    }

    /// Makes the session on a loaded engine; calibrates the head profile first if one is missing.
    ///
    /// # Errors
    /// If the session does not fit the free memory of the host or the device, or the interrupt flag is set.
    pub fn session(&self, engine: &Arc<Engine>, observer: &mut dyn Observer) -> Result<Session, EngineError> {
        let (options, _) = match self.known {
            true => fit_session(engine, self.session.clone(), None, self.prompt)?,
            false => prepare_session(engine, &self.options, self.session.context, self.prompt, observer)?,
        };
        let session = Session::new(engine, options)?.with_interrupt(&self.options.interrupt);
        self.options.interrupt.check()?;
        Ok(session)
    }

    /// Loads the weights and makes the session.
    ///
    /// # Errors
    /// As for [`Setup::load`] and [`Setup::session`].
    pub fn start(&self, observer: &mut dyn Observer) -> Result<Session, EngineError> {
        let engine = self.load(observer)?;
        self.session(&engine, observer)
    }
}

/// A session to decide about.
struct Case {
    target: Target,
    /// Without its head profile, which is in `heads`.
    session: SessionOptions,
    heads: Heads,
    /// Tokens of the first text.
    prompt: usize,
    /// Whether a session that does not fit the host's memory is refused.
    check_memory: bool,
}

/// What is known of a session's heads before the model is loaded.
struct Heads {
    /// Whether there is a profile, or none is needed.
    known: bool,
    /// The profile, or an assumed one of the usual size.
    expected: Option<HeadProfile>,
    /// The profile, or one that takes no more memory than any other.
    smallest: Option<HeadProfile>,
}

impl Heads {
    fn known(profile: Option<HeadProfile>) -> Heads {
        Heads { known: true, expected: profile.clone(), smallest: profile }
    }

    fn find(
        model: &Arc<Model>,
        options: &SetupOptions,
        policy: &PolicyChoice,
        observer: &mut dyn Observer,
    ) -> Result<Heads, EngineError> {
        let shape = model.head_shape()?;
        Ok(match Profiles::new(model, options).find(policy, observer)? {
            Found::NotNeeded => Heads::known(None),
            Found::Profile(profile) => Heads::known(Some(profile)),
            Found::Missing { .. } => Heads {
                known: false,
                expected: Some(spread(shape, assumed_share(shape))?),
                smallest: Some(smallest(shape)?),
            },
        })
    }
}

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
        // What does not fit whatever the heads do is refused before they are calibrated.
        let session = SessionOptions { profile: Some(smallest(engine.head_shape()?)?), ..session.clone() };
        fit_session(engine, session, options.budget, prompt)?;
    }
    let profile =
        Profiles::new(engine.model(), options).find_or_calibrate(engine, &session.policy, observer)?;
    fit_session(engine, SessionOptions { profile, ..session }, options.budget, prompt)
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
    };
    let planned = planner.plan(&session, prompt, backends.placement())?;
    Ok((planned.session, planned.bytes))
}

/// The planner for a model that is not loaded yet.
fn planner<'a>(outline: &'a ModelOutline, options: &SetupOptions) -> Planner<'a> {
    Planner {
        outline,
        repack: options.repack,
        threads: options.engine().threads(),
        budget: options.budget,
        blocks: ASSUMED_DEVICE_BLOCKS,
    }
}

/// Refuses a session that will not fit the host's memory once the weights are loaded.
fn check_unloaded(plan: &Plan, context: usize) -> Result<(), EngineError> {
    let copies = plan.weights.repacked + plan.weights.copied;
    let free = free_memory().map(|free| FreeMemory { bytes: free.bytes.saturating_sub(copies), ..free });
    check_host(plan, context, free)
}

/// Refuses a session that needs more of the host's memory besides the weights than is free.
fn check_host(plan: &Plan, context: usize, free: Option<FreeMemory>) -> Result<(), EngineError> {
    let needed = plan.total() - plan.weights.on_host();
    match free {
        Some(FreeMemory { bytes: free, bound }) if needed > free => {
            Err(EngineError::Memory { context, needed, free, on_device: false, bound: Some(bound) })
        }
        _ => Ok(()),
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
