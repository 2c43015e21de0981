//! Our C functions around ggml-cuda, compiled as HIP (`hip.cu`, `loader.cpp`). The crate `ggml` is the safe wrapper; nothing else
//! calls these functions. Empty without the feature `hip`.

#![cfg(feature = "hip")]
#![allow(non_camel_case_types)]

use std::ffi::c_char;

use ggml_sys::{ggml_backend_buffer_type_t, ggml_backend_t, longhand_portable_gpu};

/// Architectures that the kernels were compiled for, as clang names them, separated by commas.
pub const HIP_ARCHITECTURES: &str = env!("GGML_HIP_ARCHITECTURES");

// Functions that fail write a NUL-terminated reason of at most `size` bytes to `why`. Before all others but longhand_hip_problem(),
// longhand_hip_open() has returned null.
unsafe extern "C" {
    /// Opens ROCm's libraries, once. Returns null, or why that is not possible as a string that is never freed.
    pub fn longhand_hip_open() -> *const c_char;
    /// Counts the GPUs.
    pub fn longhand_hip_count(count: *mut usize, why: *mut c_char, size: usize) -> bool;
    /// Describes a GPU with a number below the count, and writes its architecture in at most `arch_size` bytes.
    pub fn longhand_hip_describe(
        index: usize,
        gpu: *mut longhand_portable_gpu,
        arch: *mut c_char,
        arch_size: usize,
        why: *mut c_char,
        size: usize,
    ) -> bool;
    /// A new backend of a GPU with a number below the count; null where it cannot be used.
    pub fn longhand_hip_backend(index: usize, why: *mut c_char, size: usize) -> ggml_backend_t;
    /// Whether this is memory of a GPU that has failed; then also its name, and why.
    pub fn longhand_hip_problem(ty: ggml_backend_buffer_type_t, why: *mut c_char, size: usize) -> bool;
    /// Makes the GPU fail, for tests.
    pub fn longhand_hip_lose(backend: ggml_backend_t);
}
