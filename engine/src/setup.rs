//! From what is asked for to what runs. [`Setup::resolve`] decides device, layers, context, policy, types and memory once, from the
//! model file alone; [`Setup::start`] loads the weights and makes the session that was planned.

mod memory;
mod planner;
mod profiles;
mod target;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ggml::Type;

use crate::heads::HeadProfile;
use crate::kv::{KvBudget, PolicyChoice};
use crate::placement::Place;
use crate::plan::{ASSUMED_DEVICE_BLOCKS, Plan, device_overhead};
use crate::progress::{Notice, Observer};
use crate::{DeviceOptions, Engine, EngineError, EngineOptions, Model, Prefill, Session, SessionOptions};

pub use memory::available as available_memory;
pub use planner::{ModelOutline, Planned, Planner};
pub use profiles::{ASSUMED_SHARE, Found, Profiles, cache_folder, policy_rule, smallest, spread};
pub use target::{DeviceRequest, GpuLayers, Target};

/// Tokens there is room for beyond the first text where no context is asked for.
const ROOM_FOR_TALK: usize = 8192;
/// Tokens there is room for at least, beyond a first text that is longer than the model's training.
const ROOM_FOR_ANSWER: usize = 1024;

/// Tokens of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Context {
    /// The first text and room to talk about it.
    #[default]
    AsNeeded,
    /// As many as the model was trained for.
    Trained,
    /// This many.
    Tokens(usize),
}

impl Context {
    /// The context of a session whose first text has `prompt` tokens, with a model trained for `trained` tokens.
    pub fn tokens(self, prompt: usize, trained: usize) -> usize {
        match self {
            Context::AsNeeded => (prompt + ROOM_FOR_TALK).min(trained.max(prompt + ROOM_FOR_ANSWER)),
            Context::Trained => trained,
            Context::Tokens(tokens) => tokens,
        }
    }
}

/// Which heads keep everything, for policies that make a difference between heads.
#[derive(Clone, Debug, Default)]
pub enum HeadSource {
    /// The cached profile of the model; calibrated and cached if there is none.
    #[default]
    Auto,
    /// A profile file.
    File(PathBuf),
    /// This profile.
    Profile(HeadProfile),
    /// No measurement: this share of the query heads, evenly spread. For benchmarks of models without a profile.
    Assumed(f64),
}

/// What is asked of a setup. Whatever is `None` or at its default is decided by [`Setup::resolve`].
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
    /// Threads that compute; `None` for every processor this process may use.
    pub threads: Option<usize>,
    /// See [`EngineOptions::repack`].
    pub repack: bool,
    /// What computes.
    pub device: DeviceRequest,
    /// How many of the last layers a GPU computes.
    pub gpu_layers: GpuLayers,
    /// Bytes of the GPU's memory that may be used, the driver's part included; `None` for what is free.
    pub gpu_memory: Option<usize>,
    /// Tokens of a session.
    pub context: Context,
    /// What bounded heads keep; [`PolicyChoice::default`] keeps everything.
    pub policy: Option<PolicyChoice>,
    /// How much they keep, instead of the policy's own parameters.
    pub budget: Option<KvBudget>,
    /// Which heads keep everything.
    pub heads: HeadSource,
    /// Element type of keys.
    pub k_type: Option<Type>,
    /// Element type of values.
    pub v_type: Option<Type>,
    /// How the first text is read.
    pub prefill: Option<Prefill>,
    /// Tokens computed at a time while a text is read.
    pub chunk: Option<usize>,
    /// Where head profiles are cached; `None` caches none.
    pub profile_folder: Option<PathBuf>,
    /// See [`EngineOptions::interrupt`].
    pub interrupt: Arc<AtomicBool>,
}

impl Default for SetupOptions {
    fn default() -> Self {
        SetupOptions {
            threads: None,
            repack: true,
            device: DeviceRequest::default(),
            gpu_layers: GpuLayers::default(),
            gpu_memory: None,
            context: Context::default(),
            policy: None,
            budget: None,
            heads: HeadSource::default(),
            k_type: None,
            v_type: None,
            prefill: None,
            chunk: None,
            profile_folder: cache_folder().map(|folder| folder.join("heads")),
            interrupt: Arc::default(),
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

/// A session that was decided on and fits the memory, but is not loaded yet.
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
    /// Whether the head profile is known, as far as one is needed.
    known: bool,
    plan: Plan,
    prompt: usize,
}

impl Setup {
    /// Decides how `model` is run for a session whose first text has `prompt` tokens. Nothing is loaded.
    ///
    /// Where a policy needs a head profile that is not there yet, the plan assumes one that is as small as any;
    /// [`Setup::start`] plans again with the profile that it makes.
    ///
    /// # Errors
    /// Where options contradict each other, the device cannot be used, or the session does not fit the memory that is free.
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
        let session = options.session(context);
        let shape = model.head_shape()?;
        let heads = match Profiles::new(model, options).find(&session.policy, observer)? {
            Found::NotNeeded => Heads { known: true, expected: None, smallest: None },
            Found::Profile(profile) => {
                Heads { known: true, expected: Some(profile.clone()), smallest: Some(profile) }
            }
            Found::Missing { .. } => Heads {
                known: false,
                expected: Some(spread(shape, ASSUMED_SHARE)?),
                smallest: Some(smallest(shape)?),
            },
        };
        Setup::decide(model, options, session, heads, prompt, observer)
    }

    /// Decides how `model` is run for a session that was saved: `session` are the options it was made with. Of `options` those
    /// count that are about the engine.
    ///
    /// # Errors
    /// As for [`Setup::resolve`].
    pub fn resume(
        model: &Arc<Model>,
        options: &SetupOptions,
        session: SessionOptions,
        observer: &mut dyn Observer,
    ) -> Result<Setup, EngineError> {
        let heads =
            Heads { known: true, expected: session.profile.clone(), smallest: session.profile.clone() };
        let options = SetupOptions { budget: None, ..options.clone() };
        Setup::decide(model, &options, session, heads, 0, observer)
    }

    fn decide(
        model: &Arc<Model>,
        options: &SetupOptions,
        session: SessionOptions,
        heads: Heads,
        prompt: usize,
        observer: &mut dyn Observer,
    ) -> Result<Setup, EngineError> {
        let spec = model.spec();
        if let Some(window) = spec.ignored_sliding_window {
            observer.notice(Notice::IgnoredWindow { window });
        }
        let outline = ModelOutline::of_model(model);
        let planner = Planner {
            outline: &outline,
            repack: options.repack,
            threads: options.engine().threads(),
            budget: options.budget,
            blocks: ASSUMED_DEVICE_BLOCKS,
        };
        let plan = |profile: &Option<HeadProfile>, on_device: usize| {
            let session = SessionOptions { profile: profile.clone(), ..session.clone() };
            planner.plan(&session, prompt, on_device)
        };

        let target = Target::find(options, observer)?;
        let on_device = target.choose_layers(spec.n_layers, |layers| plan(&heads.expected, layers));
        let smallest = plan(&heads.smallest, on_device)?;
        let copies = smallest.bytes.weights.repacked + smallest.bytes.weights.copied;
        let free = available_memory().map(|free| free.saturating_sub(copies));
        check_host(&smallest.bytes, session.context, free)?;
        let planned = plan(&heads.expected, on_device).unwrap_or(smallest);

        let mut engine = options.engine();
        if let Some(kind) = target.device {
            let overhead = device_overhead(spec, session.chunk);
            let memory = target.limit.map(|limit| limit.saturating_sub(overhead));
            match on_device {
                0 if options.gpu_layers == GpuLayers::Auto => {
                    observer.notice(Notice::NothingFitsGpu { free: target.limit.unwrap_or(0) });
                }
                0 => {}
                on_gpu => {
                    if on_gpu < spec.n_layers {
                        observer.notice(Notice::LayersOnGpu { on_gpu, layers: spec.n_layers });
                    }
                    engine.device = Some(DeviceOptions { kind, layers: on_gpu, memory });
                }
            }
        }
        let Heads { known, .. } = heads;
        let profile = planned.session.profile.filter(|_| known);
        Ok(Setup {
            model: model.clone(),
            options: options.clone(),
            known,
            engine,
            session: SessionOptions { profile, ..planned.session },
            plan: planned.bytes,
            prompt,
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

    /// How the session will be made. The head profile is missing where it must be calibrated first.
    pub fn session_options(&self) -> &SessionOptions {
        &self.session
    }

    /// The memory that it takes.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Loads the weights.
    pub fn load(&self, observer: &mut dyn Observer) -> Result<Arc<Engine>, EngineError> {
        Engine::load(&self.model, &self.engine, &mut |progress| observer.progress(progress))
    }

    /// Makes the session on a loaded engine.
    pub fn session(&self, engine: &Arc<Engine>, observer: &mut dyn Observer) -> Result<Session, EngineError> {
        let (options, _) = match self.known {
            true => fit(engine, self.session.clone(), None, self.prompt)?,
            false => prepare(engine, &self.options, self.session.context, self.prompt, observer)?,
        };
        Session::new(engine, options)
    }

    /// Loads the weights and makes the session.
    pub fn start(&self, observer: &mut dyn Observer) -> Result<Session, EngineError> {
        let engine = self.load(observer)?;
        self.session(&engine, observer)
    }
}

/// What is known of a session's heads before the model is loaded.
struct Heads {
    /// Whether there is a profile, or none is needed.
    known: bool,
    /// The profile, or one as large as to be expected.
    expected: Option<HeadProfile>,
    /// The profile, or one with which nothing takes more than with the real one.
    smallest: Option<HeadProfile>,
}

/// The options of a session of `context` tokens on an engine that is loaded: with its head profile, which is calibrated where there is
/// none, and with the policy's parameters as the budget allows. Refuses what does not fit the memory that is free.
pub fn prepare(
    engine: &Engine,
    options: &SetupOptions,
    context: usize,
    prompt: usize,
    observer: &mut dyn Observer,
) -> Result<(SessionOptions, Plan), EngineError> {
    let session = options.session(context);
    let profile =
        Profiles::new(engine.model(), options).find_or_calibrate(engine, &session.policy, observer)?;
    fit(engine, SessionOptions { profile, ..session }, options.budget, prompt)
}

/// The same for options whose head profile is known.
pub fn fit(
    engine: &Engine,
    session: SessionOptions,
    budget: Option<KvBudget>,
    prompt: usize,
) -> Result<(SessionOptions, Plan), EngineError> {
    let (session, plan) = plan_on(engine, session, budget, prompt)?;
    check_host(&plan, session.context, available_memory())?;
    let on_device = plan.device_allocated() - plan.weights.device;
    match engine.backends.at(Place::Device).memory_left() {
        Some(free) if on_device > free => {
            Err(EngineError::Memory { context: session.context, needed: on_device, free, on_device: true })
        }
        _ => Ok((session, plan)),
    }
}

/// What a session takes on an engine, whether it fits or not. The weights' own layout counts as there already.
pub fn plan_on(
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
    let planned = planner.plan(&session, prompt, backends.placement().on_device())?;
    Ok((planned.session, planned.bytes))
}

/// Refuses a session that takes more of the host's memory beside the weights than is free.
fn check_host(plan: &Plan, context: usize, free: Option<usize>) -> Result<(), EngineError> {
    let needed = plan.total() - plan.weights.on_host();
    match free {
        Some(free) if needed > free => Err(EngineError::Memory { context, needed, free, on_device: false }),
        _ => Ok(()),
    }
}
