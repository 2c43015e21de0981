//! The wrapper around ggml: graphs, devices, threads, and what is refused.

mod device;
mod fatal;
#[cfg(any(feature = "hip", feature = "metal", feature = "vulkan"))]
mod gpu;
#[cfg(feature = "hip")]
mod hip;
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_os = "linux"))]
mod levels;
#[cfg(feature = "metal")]
mod metal;
mod misuse;
mod rows;
#[cfg(feature = "rpc")]
mod rpc;
mod threads;
#[cfg(feature = "vulkan")]
mod vulkan;
mod waiting;
mod wrapper;
