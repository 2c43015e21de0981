//! Our C functions around ggml's Vulkan backend (`vulkan.cpp`, `loader.c`), and its shaders. The crate `ggml` is the safe wrapper;
//! nothing else calls these functions. Empty without the feature `vulkan`.

#![cfg(feature = "vulkan")]
#![allow(non_camel_case_types)]

use std::ffi::c_char;
use std::sync::OnceLock;

use ggml_sys::{ggml_backend_buffer_type_t, ggml_backend_t, longhand_portable_gpu};

// Functions that fail write a NUL-terminated reason of at most `size` bytes to `why`.
unsafe extern "C" {
    /// Opens libvulkan. Returns null, or the loader's error as a string that lives until the next error of the loader.
    pub fn longhand_vulkan_open() -> *const c_char;
    /// Counts the devices. The first call starts Vulkan.
    pub fn longhand_vulkan_count(count: *mut usize, why: *mut c_char, size: usize) -> bool;
    /// Describes a device with a number below the count.
    pub fn longhand_vulkan_describe(
        index: usize,
        device: *mut longhand_portable_gpu,
        why: *mut c_char,
        size: usize,
    ) -> bool;
    /// The backend of a device with a number below the count; null where it cannot be used. After [`unpack_shaders`] only.
    pub fn longhand_vulkan_backend(index: usize, why: *mut c_char, size: usize) -> ggml_backend_t;
    /// Whether this is memory of a device that has failed; then also which, and why.
    pub fn longhand_vulkan_problem(ty: ggml_backend_buffer_type_t, why: *mut c_char, size: usize) -> bool;
    /// Makes the device fail, for tests.
    pub fn longhand_vulkan_lose(backend: ggml_backend_t);

    fn longhand_vulkan_shaders_size() -> usize;
    static mut longhand_vulkan_shaders: u8;
}

/// All SPIR-V modules, compressed with Brotli.
const SHADERS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shaders.br"));

/// Unpacks the shaders to where ggml reads them, once. Returns whether they are there; they are not where this program was built
/// without them, as a check.
pub fn unpack_shaders() -> bool {
    static UNPACKED: OnceLock<bool> = OnceLock::new();
    *UNPACKED.get_or_init(|| {
        // SAFETY: this is all of the memory, which nobody reads before this returns.
        let mut place = unsafe {
            std::slice::from_raw_parts_mut(&raw mut longhand_vulkan_shaders, longhand_vulkan_shaders_size())
        };
        brotli_decompressor::BrotliDecompress(&mut &*SHADERS, &mut place).is_ok() && place.is_empty()
    })
}
