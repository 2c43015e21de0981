//! Our C functions around ggml's Metal backend (`metal.cpp`, `metal.m`, `device.m`). The crate `ggml` is the safe wrapper;
//! nothing else calls these functions. Empty without the feature `metal`.

#![cfg(feature = "metal")]
#![allow(non_camel_case_types)]

use std::ffi::c_char;

use ggml_sys::ggml_backend_t;

/// The GPU. metal.h has the same struct.
#[repr(C)]
pub struct longhand_metal_device {
    /// NUL-terminated.
    pub name: [c_char; 256],
    /// Bytes that macOS recommends to allocate on it at most.
    pub total: u64,
    /// Of these, bytes that this process has not allocated.
    pub free: u64,
    /// Whether it computes with the processor's memory.
    pub is_integrated: bool,
}

// Functions that fail write a NUL-terminated reason of at most `size` bytes to `why`.
unsafe extern "C" {
    /// Describes the GPU. Returns false where there is none.
    pub fn longhand_metal_describe(device: *mut longhand_metal_device) -> bool;
    /// A new backend of the GPU; null where it cannot be used. The first call compiles ggml's kernels.
    pub fn longhand_metal_backend(why: *mut c_char, size: usize) -> ggml_backend_t;
    /// Whether this backend computes nothing any more, because a computation failed; then also its name, and why.
    pub fn longhand_metal_problem(backend: ggml_backend_t, why: *mut c_char, size: usize) -> bool;
    /// Makes the backend fail, for tests.
    pub fn longhand_metal_lose(backend: ggml_backend_t);
}
