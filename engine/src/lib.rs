//! The engine: a loaded model ([`Engine`]), what running it will cost ([`plan`]), and conversations with it ([`Session`]).
//!
//! An engine and its sessions live on one thread (ggml's workers excepted). Nothing here prints or exits; long work reports
//! progress through a callback and stops when the engine's interrupt flag is set.

pub mod alibi;
pub mod calibrate;
pub mod devices;
mod engine;
mod error;
pub mod forward;
pub mod generate;
pub mod heads;
pub mod kv;
pub mod outline;
mod pass;
pub mod plan;
mod random;
pub mod sampler;
mod scratch;
mod session;
pub mod snapshot;
pub mod text;
mod weights;

pub use engine::{DeviceKind, DeviceOptions, Engine, EngineOptions, ModelSource, open_file};
pub use error::EngineError;
pub use session::{Prefill, Progress, Session, SessionOptions, sync_all};
pub use weights::{Loading, WeightBytes, Weights};
