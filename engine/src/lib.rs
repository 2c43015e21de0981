//! The engine: a model file ([`Model`]), a loaded model ([`Engine`]), what running it will cost ([`plan`]), and conversations with it
//! ([`Session`]).
//!
//! Nothing here prints or exits; long work reports progress through a callback and stops when the engine's interrupt flag is set.

pub mod alibi;
pub mod backends;
pub mod calibrate;
mod chat;
mod engine;
mod error;
pub mod forward;
pub mod generate;
pub mod heads;
pub mod kv;
mod model;
pub mod outline;
mod pass;
pub mod placement;
pub mod plan;
mod progress;
mod random;
pub mod sampler;
mod scratch;
mod session;
pub mod setup;
pub mod snapshot;
pub mod text;
mod weights;
pub mod workspace;

pub use chat::{Chat, ChatOptions, Preamble, Reading, SavedChat, needed_context};
pub use engine::{DeviceKind, DeviceOptions, Engine, EngineOptions};
pub use error::{EngineError, Hint};
pub use model::{ChatFormat, Model, ModelSource, open_gguf};
pub use progress::{Notice, Observer, Progress, Task};
pub use session::{KvUsage, Prefill, Session, SessionOptions, sync_all};
pub use setup::{Context, HeadSource, Setup, SetupOptions};
pub use weights::{WeightBytes, Weights};
