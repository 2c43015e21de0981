//! The wrapper around ggml: graphs, devices, threads, and what is refused.

mod device;
mod fatal;
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_os = "linux"))]
mod levels;
mod misuse;
mod rows;
#[cfg(feature = "rpc")]
mod rpc;
mod threads;
#[cfg(feature = "vulkan")]
mod vulkan;
mod waiting;
mod wrapper;
