//! Conversations with local models about long documents, with a KV cache that keeps only what each attention
//! head needs.
//!
//! - [`Model`] is a model file, opened and checked; no weights are read yet.
//! - [`Setup`] decides how it is run, from [`SetupOptions`]: device, layers, context, policy, head profile
//!   and memory ([`plan`]).
//! - [`Session`] is one timeline of tokens with the model, and its KV store. Sessions share a loaded model,
//!   the [`Engine`].
//! - [`Chat`] is a conversation over a session: documents, questions, answers, undo, saving and resuming.
//! - [`policy`] has the policies that decide which rows the store keeps, and the way to add one; [`heads`]
//!   has head profiles.
//!
//! Long work reports [`Progress`] and stops when its [`InterruptFlag`] is set, a call's or a session's own. An [`EngineError`] says
//! what was wrong and where, and its [`Hint`] what to do. The library never prints, exits or panics on input.
//!
//! ```
//! use longhand::{Chat, ChatOptions, Model, ModelSource, Setup, SetupOptions};
//!
//! let model = Model::open(ModelSource::Embedded)?;
//! let session = Setup::resolve(&model, &SetupOptions::default(), 0, &mut ())?.start(&mut ())?;
//! let mut chat = Chat::new(session, ChatOptions::default())?;
//! let answer = chat.ask("Mary's favorite number is 34251. What is Mary's favorite number?", &mut |_| ())?;
//! assert_eq!(answer.text.trim(), "Mary's favorite number is 34251.");
//! # Ok::<(), longhand::EngineError>(())
//! ```

mod chat;
mod compute;
mod devices;
mod error;
mod files;
pub mod heads;
mod kv;
mod model;
mod progress;
mod session;
pub mod setup;

pub use chat::{
    CachedContents, CachedDocuments, Chat, ChatFile, ChatOptions, DocumentCache, DocumentReading, Preamble,
    Reading, SavedChat, needed_context,
};
pub use compute::engine::{DeviceKind, DeviceOptions, Engine, EngineOptions};
pub use error::{EngineError, Hint, NotFiniteOrigin};
pub use files::{atomic_file, folders};

pub use ggml::{InterruptFlag, NoCuda, Type};
pub use kv::policy;
pub use model::{ChatFormat, Model, ModelSource, open_gguf};
pub use models::chat::Message;
pub use progress::{Notice, Observer, Progress, Task};
pub use session::generate::sampler::{Sampler, SamplerError, SamplerOptions};
pub use session::generate::{Generated, Stop, generate};
pub use session::snapshot::Outdated;
pub use session::text;
pub use session::{KvHeadRows, KvMap, KvUsage, Prefill, Session, SessionOptions, TextReading, sync_all};
pub use setup::calibrate::{CalibrationOptions, calibrate};
pub use setup::last_attention::last_attention;
pub use setup::plan;
pub use setup::{Context, HeadSource, Setup, SetupOptions};

/// The inside of the rooms, for tests that check it part by part.
#[cfg(feature = "testing")]
pub mod testing {
    pub use crate::compute::weights::Weights;
    pub use crate::compute::{forward, scratch};
    pub use crate::devices::{backends, placement, workspace};
    pub use crate::kv::alibi;
    pub use crate::model::outline;
    pub use crate::session::snapshot;

    /// Of `crate::kv`.
    pub mod kv {
        pub use crate::kv::*;
    }

    /// Of `crate::setup`.
    pub mod calibrate {
        pub use crate::setup::calibrate::*;
    }

    /// Of `crate::setup`.
    pub mod setup {
        pub use crate::setup::planner::plannings;
        pub use crate::setup::profiles::{assumed_share, smallest, spread};
    }
}

/// The example in docs/library.md is a doctest.
#[cfg(doctest)]
#[doc = include_str!("../../docs/library.md")]
struct LibraryExample;
