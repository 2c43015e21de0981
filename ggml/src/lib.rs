//! ggml for Rust: bindings made by bindgen (`sys`) and a small safe wrapper around the part of ggml
//! that an inference engine needs.
//!
//! The pieces: a [`Context`] owns tensor descriptors (no data) and records operations, a [`Buffer`]
//! holds tensor data on a device or over memory that somebody else owns (a mapped file), a
//! [`Graph`] is a list of operations in execution order, and a [`Backend`] executes it. Everything
//! is reference counted, so a tensor can be used for as long as somebody holds it; nothing here is
//! `Send`, an engine lives on one thread (ggml's own worker threads excepted).
//!
//! ggml aborts the process when it is given shapes that do not fit. Every operation here checks its
//! shapes first; the first mistake is remembered by the context and returned as an error when the
//! graph is built, so that model code reads as a formula and still cannot abort.
//!
//! All foreign calls of the project are in this crate. Shapes are in ggml's order: the first
//! dimension is the one whose elements are neighbours in memory.

mod backend;
mod budget;
mod buffer;
mod context;
#[cfg(feature = "cuda")]
pub mod cuda;
mod custom;
mod devices;
mod error;
mod fatal;
mod graph;
pub mod log;
mod ops;
mod tensor;
mod types;

pub use backend::Backend;
pub use buffer::{Buffer, BufferType, HostMemory};
pub use context::Context;
pub use custom::{CustomTask, DeviceTask, RawTensor};
pub use devices::{Capability, CudaVersion, Gpu, NoCuda, devices, free_memory};
pub use error::Error;
pub use fatal::{Hook, on_fatal};
pub use graph::{Graph, GraphAllocator, ReadyGraph};
pub use ops::{RopeMode, RopeParameters};
pub use tensor::{Element, Shape, Tensor};
pub use types::Type;

/// Version of the ggml sources this crate is built from.
pub fn version() -> String {
    // SAFETY: returns a pointer to a static NUL-terminated string.
    unsafe { std::ffi::CStr::from_ptr(ggml_sys::ggml_version()) }.to_string_lossy().into_owned()
}
