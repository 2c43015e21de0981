//! Our C functions around ggml's Metal backend (`metal.cpp`, `metal.m`, `device.m`). The crate `ggml` is the safe wrapper;
//! nothing else calls these functions. Empty without the feature `metal`.

#![cfg(feature = "metal")]
#![allow(non_camel_case_types)]

use std::ffi::c_char;

use ggml_sys::{ggml_backend_t, longhand_portable_gpu};

// Functions that fail write a NUL-terminated reason of at most `size` bytes to `why`.
unsafe extern "C" {
    /// Describes the GPU. Returns false where there is none.
    pub fn longhand_metal_describe(device: *mut longhand_portable_gpu) -> bool;
    /// A new backend of the GPU; null where it cannot be used. The first call compiles ggml's kernels.
    pub fn longhand_metal_backend(why: *mut c_char, size: usize) -> ggml_backend_t;
    /// Whether this backend computes nothing any more, because a computation failed; then also its name, and why.
    pub fn longhand_metal_problem(backend: ggml_backend_t, why: *mut c_char, size: usize) -> bool;
    /// Makes the backend fail, for tests.
    pub fn longhand_metal_lose(backend: ggml_backend_t);
}
