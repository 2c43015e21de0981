//! Conversations with local models about long documents, with a KV cache that keeps only what each attention
//! head needs.
//!
//! - [`Model`] is a model file, opened and checked; no weights are read yet.
//! - [`Setup`] decides how it is run, from [`SetupOptions`]: device, layers, context, policy, head profile
//!   and memory ([`setup::plan`]).
//! - [`Session`] is one timeline of tokens with the model, and its KV store. Sessions share a loaded model,
//!   the [`Engine`].
//! - [`Chat`] is a conversation over a session: documents, questions, answers, undo, saving and resuming.
//! - [`reading`] is how texts are read, and [`generation`] how answers are made: one by one, or those of several sessions at once.
//! - [`policy`] has the policies that decide which rows the store keeps, and the way to add one; [`heads`]
//!   has head profiles.
//!
//! Read them in this order. The other modules are for single purposes:
//!
//! - [`saved`]: conversations and documents on the disk; [`files`]: how files are written;
//! - [`sources`]: where an answer comes from; [`text`] and [`outline`]: texts, and where their parts begin;
//! - [`tools`]: functions that a model calls; [`gguf`]: what a model file says; [`store`]: what is kept;
//! - `rpc`, a feature: devices of other machines; [`progress`] and [`mod@error`]: what callers are told.
//!
//! docs/library.md has a longer example, ARCHITECTURE.md the inside.
//!
//! Long work reports [`Progress`] and stops when its [`InterruptFlag`] is set, a call's or a session's own. An [`EngineError`] says
//! what was wrong and where, and its [`Hint`] what to do. The library never prints, downloads, exits or panics on input.
//!
//! ```
//! use longhand::{Chat, ChatOptions, Model, ModelSource, Setup, SetupOptions};
//!
//! // A model file: ModelSource::File("model.gguf".into())
//! let model = Model::open(ModelSource::Embedded)?;
//! let session = Setup::resolve(&model, &SetupOptions::default(), 0, &mut ())?.start(&mut ())?;
//! let mut chat = Chat::new(session, ChatOptions::default())?;
//! let answer = chat.ask("Mary's favorite number is 34251. What is Mary's favorite number?", &mut |_| ())?;
//! assert_eq!(answer.text.trim(), "Mary's favorite number is 34251.");
//! # Ok::<(), longhand::EngineError>(())
//! ```

#![forbid(unsafe_code)]

mod chat;
mod compute;
mod devices;
pub mod error;
pub mod files;
pub mod heads;
mod kv;
mod model;
pub mod progress;
mod session;
pub mod setup;

pub use chat::{Chat, ChatOptions, Preamble};
pub use compute::engine::{DeviceOptions, Engine, EngineOptions};
pub use devices::kind::DeviceKind;
pub use error::{EngineError, Hint};
pub use ggml::{InterruptFlag, Type};
pub use kv::policy;
pub use model::{ChatFormat, Model, ModelSource};
pub use models::chat::Message;
pub use outline;
pub use progress::{Observer, Progress};
pub use session::text;
pub use session::{Session, SessionOptions};
pub use setup::{Setup, SetupOptions};

/// How a session answers: sampling, the shape of an answer, why it ends; and several sessions that answer at once.
pub mod generation {
    pub use crate::session::generate::batch::{Batch, Gate};
    pub use crate::session::generate::constraint::Constraint;
    pub use crate::session::generate::logprobs::{LogProb, TokenLogProbs};
    pub use crate::session::generate::sampler::{Sampler, SamplerOptions};
    pub use crate::session::generate::{
        DraftCounts, GenerateOptions, Generated, Piece, Stop, generate, generate_with,
    };
}

/// Devices of other machines: [`rpc::add_servers`] names the servers.
#[cfg(feature = "rpc")]
pub mod rpc {
    pub use ggml::rpc::{
        ClientEvent, DEFAULT_PORT, RpcDevice, RpcProblem, Server, StartDevices, StopServer, add_servers,
        devices, memory,
    };
}

/// What is kept on disk: conversations, and documents that were read.
pub mod saved {
    pub use crate::chat::{
        CachedContents, CachedDocuments, ChatFile, DocumentCache, DocumentReading, SavedChat,
    };
}

/// Where in the documents an answer comes from.
pub mod sources {
    pub use crate::chat::sources::{
        Evidence, NoSources, PaidAttention, Passage, PromptBytes, Ranked, Ranking, Source, Sources,
        Statement, TextPlace, rank, sentences,
    };
}

/// Functions that a model may call, and their calls in answers.
///
/// [`ChatFormat::with_tools`] writes functions into prompts. [`ChatFormat::tool_format`] knows how the model calls them, and a
/// [`ToolStream`](tools::ToolStream) tells the calls from an answer's text.
pub mod tools {
    pub use models::chat::{ForcedCall, ToolCall, ToolFormat, ToolPiece, ToolStream, Tools, ToolsError};
}

/// How a session reads a text: all at once or piece by piece, by which attention, and how much work that is.
pub mod reading {
    pub use crate::chat::Reading;
    pub use crate::compute::pace::Pace;
    pub use crate::compute::reading_work::Work;
    pub use crate::session::{Prefill, TextReading, sync_all};
}

/// What a session's store holds, and what attention paid to it.
pub mod store {
    pub use crate::session::{KvHeadRows, KvMap, KvUsage};
    pub use crate::setup::last_attention::last_attention;
}

/// What a model file says: types of the crate `models` that this library takes and returns.
pub mod gguf {
    pub use models::chat::{ChatTemplate, TemplateOrigin};
    pub use models::gguf::GgufFile;
    pub use models::shapes::{FileType, ModelShape};
    pub use models::spec::ModelSpec;
    pub use models::tokenizer::Tokenizer;
}

/// The inside of the rooms, for tests that check it part by part.
#[doc(hidden)]
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
