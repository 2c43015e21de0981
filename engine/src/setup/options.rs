//! What is asked for: how a model should be run.

use std::path::PathBuf;

use ggml::{InterruptFlag, Type};

use super::{DeviceRequest, GpuLayers, HostExperts};
use crate::devices::ledger::Ledger;
use crate::files::folders;
use crate::heads::HeadProfile;
use crate::kv::{KvBudget, PolicyChoice};
use crate::session::Prefill;
use crate::{EngineOptions, SessionOptions};

/// Tokens of a session beyond its first text, if no context is asked for.
pub(super) const CONVERSATION_TOKENS: usize = 8192;
/// The same at least, if the first text alone exceeds what the model was trained for.
const ANSWER_TOKENS: usize = 1024;

/// How many tokens a session can hold.
///
/// ```
/// use longhand::setup::Context;
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
/// use longhand::SetupOptions;
/// use longhand::setup::HeadSource;
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
    /// A made-up profile, for benchmarks of models without one: this share of the KV heads, from 0 to 1, evenly
    /// spread; `None` for the share that is usual for models with such groups of heads.
    Assumed(Option<f64>),
}

/// How a model should be run. [`Setup::resolve`](super::Setup::resolve) decides what is left at its default.
///
/// ```
/// use longhand::SetupOptions;
/// use longhand::policy::KvBudget;
/// use longhand::setup::Context;
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
    /// How many of the last layers GPUs compute. Those that share rows are on one GPU, or all on the CPU.
    pub gpu_layers: GpuLayers,
    /// Of how many of the first layers the experts stay on the host although GPUs compute the rest.
    pub host_experts: HostExperts,
    /// How the layers on several GPUs are shared, as numbers in any proportion: 3 and 1 are three quarters and one. A GPU
    /// without a number has none. Layers that share rows are on one GPU nevertheless. Empty is by their memory.
    pub gpu_shares: Vec<f64>,
    /// Limit on the memory of each GPU in bytes, the driver's part included: one for all of them, or one for each. Empty is
    /// what is free.
    pub gpu_memory: Vec<usize>,
    /// How many tokens a session can hold.
    pub context: Context,
    /// What bounded heads keep. `None` is *auto*: everything if that fits the memory, else as much as fits, in the way
    /// that costs the fewest answers; [`Setup::advice`](super::Setup::advice) says what was chosen, and why.
    /// [`PolicyChoice::default`] keeps everything, whatever the memory is.
    pub policy: Option<PolicyChoice>,
    /// How much they keep, instead of the policy's own parameters. Without a policy, auto chooses one for it.
    pub budget: Option<KvBudget>,
    /// Which heads keep everything.
    pub heads: HeadSource,
    /// Element type of keys; `None` is f16.
    pub k_type: Option<Type>,
    /// Element type of values; `None` is f16.
    pub v_type: Option<Type>,
    /// How the first text is read; `None` is [`Prefill::Exact`].
    pub prefill: Option<Prefill>,
    /// Whether attention may multiply in integers of 8 bits: see [`SessionOptions::int8`].
    pub int8: bool,
    /// How many sessions like this one are to have room in main memory: 1, unless others are made of it by
    /// [`another_session`](super::another_session).
    pub sessions: usize,
    /// Whether the first text will not become longer. Otherwise memory is planned for one that fills the context: a
    /// document may be added before the first question.
    pub only_text: bool,
    /// Tokens computed at a time while a text is read; `None` is 512.
    pub chunk: Option<usize>,
    /// Whether sessions record what answers attend to: see [`Chat::sources`](crate::Chat::sources). The memory for it is
    /// planned.
    pub record_attention: bool,
    /// How many tokens of an answer may be drafted from the text so far and computed at once; 0 for none.
    pub draft: usize,
    /// Where head profiles are cached: by default the folder `heads` of [`folders::cache`]. `None` caches none,
    /// so that every [`Setup`](super::Setup) computes them again.
    pub profile_folder: Option<PathBuf>,
    /// Stops deciding, identifying, loading and calibrating. Sessions of this setup have it too, until they are given
    /// another one ([`Session::set_interrupt`](crate::Session::set_interrupt)).
    pub interrupt: InterruptFlag,
    /// What main memory sessions are promised: no two are promised the same. Sessions share a ledger that is cloned; the
    /// default is one for all sessions of the process.
    pub ledger: Ledger,
}

impl Default for SetupOptions {
    fn default() -> Self {
        SetupOptions {
            threads: None,
            repack: true,
            device: DeviceRequest::default(),
            gpu_layers: GpuLayers::default(),
            host_experts: HostExperts::default(),
            gpu_shares: Vec::new(),
            gpu_memory: Vec::new(),
            context: Context::default(),
            policy: None,
            budget: None,
            heads: HeadSource::default(),
            k_type: None,
            v_type: None,
            prefill: None,
            int8: true,
            sessions: 1,
            only_text: false,
            chunk: None,
            record_attention: false,
            draft: SessionOptions::DRAFT,
            profile_folder: folders::cache().map(|folder| folder.join("heads")),
            interrupt: InterruptFlag::new(),
            ledger: Ledger::default(),
        }
    }
}

impl SetupOptions {
    /// The options of a session of `context` tokens, without a head profile yet. Auto is not applied: without a policy,
    /// everything is kept.
    pub fn session(&self, context: usize) -> SessionOptions {
        let default = SessionOptions::default();
        SessionOptions {
            context,
            policy: self.policy.clone().unwrap_or(default.policy),
            profile: None,
            types: (self.k_type.unwrap_or(default.types.0), self.v_type.unwrap_or(default.types.1)),
            prefill: self.prefill.unwrap_or(default.prefill),
            int8: self.int8,
            chunk: self.chunk.unwrap_or(default.chunk).min(context.max(1)),
            record_attention: self.record_attention,
            draft: self.draft,
            sessions: self.sessions,
        }
    }

    /// The options of an engine on the host.
    pub fn engine(&self) -> EngineOptions {
        EngineOptions {
            threads: self.threads,
            repack: self.repack,
            trace: false,
            interrupt: self.interrupt.clone(),
            ledger: self.ledger.clone(),
            ..EngineOptions::default()
        }
    }
}
