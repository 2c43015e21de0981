//! A small safe wrapper around the part of ggml that an inference engine needs. The bindings are the crate
//! `ggml-sys`; no other crate calls ggml.
//!
//! *What it promises.* Safe code gets errors: no abort, no access outside a tensor's memory, none to memory that is gone.
//! ggml aborts the process when it is given shapes, types or numbers that do not fit, so each is checked before ggml
//! sees it: shapes when an operation is recorded, memory and backends when a graph gets its memory or is computed,
//! numbers of rows where they are written. What is allocated on a device is charged to its limit first. Where ggml
//! still gives up, or a device is lost, [`on_fatal`] is the last chance.
//!
//! *What it never does.* It knows nothing of models, chooses no device, repairs no wrong call, and changes no number that
//! ggml computes. It prints nothing ([`log`] keeps what ggml says) and reads no environment variables.
//!
//! - A [`Context`] owns tensor descriptors and records operations. It allocates memory for tensors, or a
//!   [`Buffer`] places them in read-only memory such as a mapped file.
//! - A [`Graph`] is a list of operations in execution order. A [`GraphAllocator`] gives memory to its
//!   intermediates.
//! - A [`Backend`] computes graphs.
//!
//! Everything is reference counted: a tensor can be used as long as a handle of it exists.
//!
//! All types are `Send` and `Sync`. Each context has a lock, which guards its descriptors and the data of its
//! tensors, and a computation holds the locks of all contexts that its graph uses: shared where it only
//! reads, such as weights. So threads can share weights and compute over data of their own at the same time,
//! on backends of their own; on one backend they compute one after the other.
//!
//! A context stores the first mistake that is recorded and returns it when the graph is built, so that model code
//! needs no error handling for each operation.
//!
//! Shapes are in ggml's order: the first dimension is the one whose elements are neighbours in memory.

mod allocator;
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
mod faults;
mod graph;
pub mod hip;
mod interrupt;
pub mod log;
pub mod metal;
mod ops;
mod portable_gpu;
mod recording;
#[cfg(feature = "rpc")]
pub mod rpc;
mod running;
mod selection;
mod tensor;
mod threads;
mod traffic;
mod types;
pub mod vulkan;

pub use allocator::FatalAllocator;
pub use backend::Backend;
pub use buffer::{Buffer, BufferType, HostMemory};
pub use context::{Context, Operand};
pub use custom::{CustomTask, DeviceTask, RawTensor};
pub use devices::{Capability, CudaVersion, Gpu, NoCuda, devices, free_memory};
pub use error::Error;
pub use fatal::{Hook, on_fatal};
pub use graph::{Graph, GraphAllocator, ReadyGraph};
pub use hip::NoHip;
pub use interrupt::InterruptFlag;
pub use metal::NoMetal;
pub use ops::{Logits, RopeMode, RopeParameters};
pub use portable_gpu::PortableGpu;
pub use tensor::{Element, Shape, Tensor};
pub use traffic::Traffic;
pub use types::Type;
pub use vulkan::NoVulkan;

/// Installs what listens to ggml; called by everything that uses ggml first.
fn listen() {
    fatal::install();
    log::install();
}

/// Version of the ggml sources this crate is built from.
pub fn version() -> String {
    // SAFETY: returns a pointer to a static NUL-terminated string.
    unsafe { std::ffi::CStr::from_ptr(ggml_sys::ggml_version()) }.to_string_lossy().into_owned()
}

/// The crate and version that carry ggml's sources.
pub fn provider() -> String {
    // SAFETY: returns a pointer to a static NUL-terminated string.
    unsafe { std::ffi::CStr::from_ptr(ggml_sys::ggml_commit()) }.to_string_lossy().into_owned()
}

/// The system that ggml is compiled for, by Rust's name, such as `x86_64-unknown-linux-gnu`.
pub const TARGET: &str = ggml_sys::TARGET;

/// For which CPUs ggml's code is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuLevel {
    /// For one kind only: that of the build machine, or an older one.
    Fixed,
    /// For several levels of CPUs; this one is used, the highest that this CPU has. Such as `x86-64-v3`.
    Chosen(&'static str),
    /// For several levels, and this CPU lacks instructions of the lowest, which is named.
    TooOld(&'static str),
}

/// For which CPUs ggml's code is compiled, and what of it is used.
pub fn cpu_level() -> CpuLevel {
    match (ggml_sys::CPU_LEVELS, ggml_sys::cpu_level()) {
        ([], _) => CpuLevel::Fixed,
        (levels, Some(level)) => CpuLevel::Chosen(levels[level]),
        ([lowest, ..], None) => CpuLevel::TooOld(lowest),
    }
}

/// A feature of CPUs: ggml's name, whether ggml is compiled for it, and whether this CPU has it.
type CpuFeature = (&'static str, unsafe extern "C" fn() -> std::ffi::c_int, fn() -> bool);

/// Whether this CPU has all features of these names. The detection needs literals.
macro_rules! detected {
    ($macro:ident $($name:tt)+) => {
        || true $(&& std::arch::$macro!($name))+
    };
}

#[cfg(target_arch = "x86_64")]
const CPU_FEATURES: &[CpuFeature] = &[
    ("AVX", ggml_sys::ggml_cpu_has_avx, detected!(is_x86_feature_detected "avx")),
    ("AVX2", ggml_sys::ggml_cpu_has_avx2, detected!(is_x86_feature_detected "avx2")),
    ("F16C", ggml_sys::ggml_cpu_has_f16c, detected!(is_x86_feature_detected "f16c")),
    ("FMA", ggml_sys::ggml_cpu_has_fma, detected!(is_x86_feature_detected "fma")),
    ("BMI2", ggml_sys::ggml_cpu_has_bmi2, detected!(is_x86_feature_detected "bmi1" "bmi2")),
    ("AVX_VNNI", ggml_sys::ggml_cpu_has_avx_vnni, detected!(is_x86_feature_detected "avxvnni")),
    (
        "AVX512",
        ggml_sys::ggml_cpu_has_avx512,
        detected!(is_x86_feature_detected "avx512f" "avx512cd" "avx512bw" "avx512dq" "avx512vl"),
    ),
    ("AVX512_VBMI", ggml_sys::ggml_cpu_has_avx512_vbmi, detected!(is_x86_feature_detected "avx512vbmi")),
    ("AVX512_VNNI", ggml_sys::ggml_cpu_has_avx512_vnni, detected!(is_x86_feature_detected "avx512vnni")),
    ("AVX512_BF16", ggml_sys::ggml_cpu_has_avx512_bf16, detected!(is_x86_feature_detected "avx512bf16")),
];
#[cfg(target_arch = "aarch64")]
const CPU_FEATURES: &[CpuFeature] = &[
    ("NEON", ggml_sys::ggml_cpu_has_neon, detected!(is_aarch64_feature_detected "neon")),
    ("DOTPROD", ggml_sys::ggml_cpu_has_dotprod, detected!(is_aarch64_feature_detected "dotprod")),
    ("MATMUL_INT8", ggml_sys::ggml_cpu_has_matmul_int8, detected!(is_aarch64_feature_detected "i8mm")),
    ("SVE", ggml_sys::ggml_cpu_has_sve, detected!(is_aarch64_feature_detected "sve")),
];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const CPU_FEATURES: &[CpuFeature] = &[];

/// The features of this CPU that ggml knows, by ggml's names.
pub fn cpu_features() -> Vec<&'static str> {
    CPU_FEATURES.iter().filter(|(.., has)| has()).map(|(name, ..)| *name).collect()
}

/// The features that ggml's code uses, by ggml's names.
pub fn compiled_cpu_features() -> Vec<&'static str> {
    // SAFETY: these functions take nothing, and return a number that was known at compile time.
    let is_compiled = |(_, compiled, _): &&CpuFeature| unsafe { compiled() } != 0;
    CPU_FEATURES.iter().filter(is_compiled).map(|(name, ..)| *name).collect()
}

/// The features that ggml is compiled for and this CPU lacks; where ggml has several levels, the lowest. Where there are any, nothing can be computed: the system
/// would end the process at the first instruction that the CPU does not know.
pub fn missing_cpu_features() -> Vec<&'static str> {
    if let CpuLevel::TooOld(lowest) = cpu_level() {
        return vec![lowest];
    }
    let found = cpu_features();
    compiled_cpu_features().into_iter().filter(|name| !found.contains(name)).collect()
}
