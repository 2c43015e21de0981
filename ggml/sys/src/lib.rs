//! ggml's C API as bindgen sees it, and our own C functions beside it (`longhand_*`). The crate `ggml` is the
//! safe wrapper; nothing else calls these functions.

#![allow(missing_docs, non_camel_case_types, non_upper_case_globals, non_snake_case, clippy::all)]

use std::ffi::c_int;

include!("bindings.rs");

unsafe extern "C" {
    /// Starts the computation of the graph's nodes `first..end`. Returns ggml's status. `uid` is 0, or the number of the
    /// graph where it may be computed again. Defined in device/segment.cpp.
    pub fn longhand_compute_segment(
        backend: ggml_backend_t,
        graph: *mut ggml_cgraph,
        first: c_int,
        end: c_int,
        uid: u64,
    ) -> ggml_status;
}

// The registry, in which ggml looks for the name of the CPU.
#[cfg(windows)]
#[link(name = "advapi32")]
unsafe extern "C" {}

/// The system that this is compiled for, by Rust's name, such as `x86_64-unknown-linux-gnu`.
pub const TARGET: &str = env!("GGML_TARGET");

/// ggml's code for CPUs by level, in portable builds.
#[cfg(cpu_levels)]
mod levels {
    #[cfg(target_arch = "aarch64")]
    use std::arch::is_aarch64_feature_detected as is_detected;
    #[cfg(target_arch = "x86_64")]
    use std::arch::is_x86_feature_detected as is_detected;
    use std::ffi::c_int;

    macro_rules! cpu_levels {
        ($($arch:tt { $($name:ident $title:literal [$($flag:literal)*] [$($feature:tt)*];)* })*) => {$(
            /// The levels for which ggml is compiled, lowest first. Empty where it is compiled for one kind of CPU.
            #[cfg(target_arch = $arch)]
            pub const CPU_LEVELS: &[&str] = &[$($title),*];

            /// The number of this CPU's level in [`CPU_LEVELS`]: its code is used. `None` below the lowest. The standard
            /// library remembers what the CPU has.
            #[cfg(target_arch = $arch)]
            pub fn cpu_level() -> Option<usize> {
                let present = [$(true $(&& is_detected!($feature))*),*];
                present.iter().take_while(|&&present| present).count().checked_sub(1)
            }
        )*};
    }
    include!("../cpu/levels.rs");

    /// For cpu/levels.c.
    #[unsafe(no_mangle)]
    extern "C" fn longhand_cpu_level() -> c_int {
        cpu_level().unwrap_or(0) as c_int
    }
}

#[cfg(not(cpu_levels))]
mod levels {
    pub const CPU_LEVELS: &[&str] = &[];

    pub fn cpu_level() -> Option<usize> {
        None
    }
}

pub use levels::*;

/// A GPU as our functions of HIP, Metal and Vulkan describe it. device/gpu.h has the same struct.
#[repr(C)]
pub struct longhand_portable_gpu {
    /// NUL-terminated.
    pub name: [std::ffi::c_char; 256],
    /// Bytes of its memory; by Metal those that macOS recommends to use at most.
    pub total: u64,
    /// Bytes that are free; all where the driver does not say. By Metal all that this process does not use.
    pub free: u64,
    /// Whether it is part of the processor, with whose memory it computes.
    pub is_integrated: bool,
}

/// Our CUDA functions, defined in cuda/. Each `c_int` result is a `cudaError_t`; 0 is success.
#[cfg(feature = "cuda")]
mod cuda {
    use std::ffi::{c_char, c_int, c_void};

    use super::ggml_backend_t;

    /// Architectures that CUDA code was compiled for, as nvcc names them, separated by commas.
    pub const CUDA_ARCHITECTURES: &str = env!("GGML_CUDA_ARCHITECTURES");

    /// A GPU. cuda/devices.cpp has the same struct.
    #[repr(C)]
    pub struct longhand_gpu {
        /// NUL-terminated.
        pub name: [c_char; 256],
        pub major: i32,
        pub minor: i32,
        /// Bytes of memory.
        pub total: u64,
    }

    unsafe extern "C" {
        /// Opens libcublas. Returns null, or the loader's error as a string that is never freed.
        pub fn longhand_cublas_open() -> *const c_char;

        pub fn longhand_cuda_versions(runtime: *mut c_int, driver: *mut c_int) -> c_int;
        pub fn longhand_cuda_count(count: *mut c_int) -> c_int;
        pub fn longhand_cuda_gpu(index: c_int, gpu: *mut longhand_gpu) -> c_int;
        pub fn longhand_cuda_free_memory(index: c_int, free: *mut u64) -> c_int;

        pub fn longhand_cuda_stream(backend: ggml_backend_t) -> *mut c_void;
        pub fn longhand_cuda_use(backend: ggml_backend_t) -> c_int;
        pub fn longhand_cuda_multiprocessors(backend: ggml_backend_t) -> c_int;
        pub fn longhand_cuda_capture_begin(stream: *mut c_void) -> c_int;
        pub fn longhand_cuda_capture_end(stream: *mut c_void, executable: *mut *mut c_void) -> c_int;
        pub fn longhand_cuda_capture_launch(executable: *mut c_void, stream: *mut c_void) -> c_int;
        pub fn longhand_cuda_capture_free(executable: *mut c_void) -> c_int;
        pub fn longhand_cuda_wait(stream: *mut c_void) -> c_int;
        pub fn longhand_cuda_write(
            stream: *mut c_void,
            to: *mut c_void,
            from: *const c_void,
            bytes: usize,
        ) -> c_int;
        pub fn longhand_cuda_event_create(event: *mut *mut c_void) -> c_int;
        pub fn longhand_cuda_event_record(event: *mut c_void, stream: *mut c_void) -> c_int;
        pub fn longhand_cuda_event_wait(event: *mut c_void) -> c_int;
        pub fn longhand_cuda_event_free(event: *mut c_void) -> c_int;
        pub fn longhand_cuda_error_text(error: c_int) -> *const c_char;
    }
}
#[cfg(feature = "cuda")]
pub use cuda::*;

/// Our functions beside ggml's RPC backend, defined in rpc/rpc.cpp.
#[cfg(feature = "rpc")]
mod rpc {
    use std::ffi::{c_char, c_void};

    use super::{ggml_backend_buffer_type_t, ggml_backend_t};

    /// What sends and receives for ggml. Each function is given the number of a connection.
    #[repr(C)]
    pub struct longhand_rpc_sockets {
        pub open: unsafe extern "C" fn(u64),
        pub send: unsafe extern "C" fn(u64, *const c_void, usize) -> bool,
        pub flush: unsafe extern "C" fn(u64) -> bool,
        pub receive: unsafe extern "C" fn(u64, *mut c_void, usize) -> bool,
        pub close: unsafe extern "C" fn(u64),
    }

    unsafe extern "C" {
        /// Once, before all other functions.
        pub fn longhand_rpc_use(functions: *const longhand_rpc_sockets);
        /// The backend of a device behind the endpoint of a connection, which begins with `NUMBER:0`; null where C++ refuses.
        pub fn longhand_rpc_backend(endpoint: *const c_char, device: u32) -> ggml_backend_t;
        /// The number of the connection that memory is reached by; 0 for other memory.
        pub fn longhand_rpc_connection(ty: ggml_backend_buffer_type_t) -> u64;
        /// Waits until the server has computed all that it was sent; false where C++ refuses.
        pub fn longhand_rpc_wait(backend: ggml_backend_t) -> bool;
        /// Serves one client until the connection ends, or ggml refuses what it asks for. Of the memory of a device at most
        /// `memory` bytes are reported. Returns false, with a NUL-terminated reason of at most `size` bytes, where C++ throws.
        pub fn longhand_rpc_serve(
            number: u64,
            backends: *const ggml_backend_t,
            count: usize,
            memory: usize,
            why: *mut c_char,
            size: usize,
        ) -> bool;
    }
}
#[cfg(feature = "rpc")]
pub use rpc::*;
