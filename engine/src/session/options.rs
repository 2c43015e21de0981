//! What a session is made with.

use ggml::Type;
use models::spec::{ModelSpec, PositionEncoding};

use crate::heads::HeadProfile;
use crate::kv::{KvBudget, PolicyChoice, StoreOptions};
use crate::{EngineError, Hint};

/// How the first text of a session is read.
///
/// ```
/// assert_eq!(longhand::reading::Prefill::default(), longhand::reading::Prefill::Exact);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefill {
    /// Layer by layer with full attention; rows are evicted after each layer.
    #[default]
    Exact,
    /// The same, but old rows are read in groups, row by row only where a query looks there. On the CPU only, in layers
    /// without windows. Cheaper for long texts, and less exact.
    Sparse,
    /// Chunk by chunk; bounded heads see only what they keep, from the beginning. Cheaper for long texts.
    Streaming,
}

impl Prefill {
    /// Whether each layer reads the whole text before its rows are evicted.
    pub fn is_by_layer(self) -> bool {
        self != Prefill::Streaming
    }
}

/// What a session is made with.
///
/// ```
/// use longhand::policy::KvBudget;
/// use longhand::{Model, ModelSource, SessionOptions};
///
/// let options = SessionOptions { context: 10_000, policy: "snapkv".parse()?, ..SessionOptions::default() };
/// let options = options.within(KvBudget::Rows(500), Model::open(ModelSource::Embedded)?.spec())?;
/// assert_eq!(options.policy.value("capacity"), Some(500.0));
/// # Ok::<(), longhand::EngineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Tokens it has room for.
    pub context: usize,
    /// What bounded heads keep.
    pub policy: PolicyChoice,
    /// Which heads keep everything or which share of the rows, and what predicts scores, for policies that use a profile.
    pub profile: Option<HeadProfile>,
    /// Element types of keys and values.
    pub types: (Type, Type),
    /// How the first text is read.
    pub prefill: Prefill,
    /// Whether attention may multiply old rows in integers where a text is read: of 8 bits, or of 7 and 11 bits with AVX2 and no
    /// VNNI. Faster for long texts, and a little less exact. On the CPU only, if it has VNNI, AVX2, or ARM's dot products, where no
    /// time was measured. Not in layers with ALiBi or a soft cap, nor in those that are read in groups; with a window only while a first
    /// text is read layer by layer.
    pub int8: bool,
    /// Tokens computed at once while a text is read.
    pub chunk: usize,
    /// Whether it is recorded what answers attend to: see [`Session::record_attention`](crate::Session::record_attention). It is
    /// not saved with a session.
    pub record_attention: bool,
    /// How many tokens of an answer may be drafted from the text so far and computed at once; 0 for none. Not saved with a
    /// session.
    pub draft: usize,
    /// How many sessions like this one compute their answers together ([`Batch`](crate::generation::Batch)): a share of the memory for that
    /// is planned with each. Not saved with a session.
    pub sessions: usize,
}

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions {
            context: 4096,
            policy: PolicyChoice::default(),
            profile: None,
            types: (Type::F16, Type::F16),
            prefill: Prefill::Exact,
            int8: true,
            chunk: 512,
            record_attention: false,
            draft: SessionOptions::DRAFT,
            sessions: 1,
        }
    }
}

impl SessionOptions {
    /// [`SessionOptions::draft`] where nothing else is said: with the token before it, a draft is computed as 16 tokens.
    pub const DRAFT: usize = 15;

    /// Refuses a context that no session can have, before anything is computed from it.
    pub(crate) fn check_context(&self, spec: &ModelSpec) -> Result<(), EngineError> {
        let (most, why) = match spec.position_encoding {
            PositionEncoding::Learned => (spec.n_ctx_train, ": the model has no more positions"),
            _ => (i32::MAX as usize, ""),
        };
        if (1..=most).contains(&self.context) {
            return Ok(());
        }
        Err(EngineError::Setting {
            what: format!("context of {} tokens", self.context),
            reason: format!("a session holds 1 to {most} tokens{why}"),
            hint: Hint::advice(format!("the model was trained for {} tokens", spec.n_ctx_train)),
        })
    }

    /// The same options, with the policy's parameters set to the largest that `budget` allows. Policies that
    /// use a head profile need it in `self`.
    ///
    /// # Errors
    /// Where the policy keeps everything, its windows follow from the weights (ALiBi), or the budget is too
    /// small.
    pub fn within(&self, budget: KvBudget, spec: &ModelSpec) -> Result<SessionOptions, EngineError> {
        let store = StoreOptions { context: self.context, types: self.types, reserve: None };
        let policy = budget.apply(&self.policy, spec, self.profile.as_ref(), store)?;
        Ok(SessionOptions { policy, ..self.clone() })
    }
}
