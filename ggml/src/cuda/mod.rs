//! CUDA beside ggml's API: the list of GPUs, whether cuBLAS can be opened, error texts, [`stream`]s, and
//! what is [`running`] on them. The
//! C side is `ggml/sys/cuda`.

pub(crate) mod running;
pub(crate) mod stream;

use std::ffi::{CStr, c_char, c_int};

use ggml_sys as sys;

use crate::devices::{Capability, CompiledArch, CudaVersion, FoundGpu, NoCuda, Probe};
use crate::{Error, Type};

/// Opens libcublas, which ggml needs for large products with F32, F16 and BF16 matrices. The error is the
/// loader's message. Call this before any such work: without libcublas ggml would abort the process.
pub fn cublas() -> Result<(), String> {
    // SAFETY: no arguments; the result is null or a string that is never freed.
    let message = unsafe { sys::longhand_cublas_open() };
    // SAFETY: as above.
    if message.is_null() { Ok(()) } else { Err(unsafe { text(message) }) }
}

/// An error for matrix types that ggml has no kernels for on GPUs, and for types whose large products ggml
/// leaves to cuBLAS where cuBLAS cannot be opened.
pub(crate) fn check_products(ty: Type) -> Result<(), Error> {
    const WITH_KERNELS: [&str; 22] = [
        "q1_0", "q2_0", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "mxfp4", "nvfp4", "q2_K", "q3_K", "q4_K",
        "q5_K", "q6_K", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq1_s", "iq4_xs", "iq4_nl",
    ];
    match ty.name() {
        name if WITH_KERNELS.contains(&name) => Ok(()),
        "f32" | "f16" | "bf16" | "iq1_m" => cublas().map_err(Error::NoCublas),
        name => Err(Error::NoProducts(name)),
    }
}

/// CUDA's text for an error number, such as that of a device implementation.
pub fn error_text(code: i32) -> String {
    // SAFETY: any number is fine, the result is a static string.
    unsafe { text(sys::longhand_cuda_error_text(code)) }
}

/// Asks CUDA for its versions and GPUs. Creates no context on any GPU.
pub(crate) fn probe() -> Probe {
    let (mut runtime, mut driver, mut count) = (0, 0, 0);
    // SAFETY: both point to a number.
    let versions = unsafe { sys::longhand_cuda_versions(&mut runtime, &mut driver) };
    let gpus = check_cuda(versions)
        // SAFETY: as above.
        .and_then(|()| check_cuda(unsafe { sys::longhand_cuda_count(&mut count) }))
        .and_then(|()| (0..count).map(describe_gpu).collect());
    let compiled = sys::CUDA_ARCHITECTURES.split(',').filter_map(CompiledArch::parse).collect();
    Probe { runtime: CudaVersion(runtime), driver: CudaVersion(driver), gpus, compiled }
}

fn describe_gpu(index: c_int) -> Result<FoundGpu, NoCuda> {
    let mut gpu = sys::longhand_gpu { name: [0; 256], major: 0, minor: 0, total: 0 };
    // SAFETY: points to a description.
    check_cuda(unsafe { sys::longhand_cuda_gpu(index, &mut gpu) })?;
    Ok(FoundGpu {
        // SAFETY: NUL-terminated by the callee.
        name: unsafe { text(gpu.name.as_ptr()) },
        capability: Capability(gpu.major as u32, gpu.minor as u32),
        total: gpu.total,
    })
}

/// Bytes free on GPU `index`. Creates a CUDA context on it.
pub(crate) fn free_memory(index: usize) -> Result<u64, NoCuda> {
    let mut free = 0;
    // SAFETY: points to a number.
    check_cuda(unsafe {
        sys::longhand_cuda_free_memory(c_int::try_from(index).unwrap_or(c_int::MAX), &mut free)
    })?;
    Ok(free)
}

fn check_cuda(code: c_int) -> Result<(), NoCuda> {
    if code == 0 { Ok(()) } else { Err(NoCuda::Failed { code, text: error_text(code) }) }
}

fn check(code: c_int) -> Result<(), Error> {
    if code == 0 { Ok(()) } else { Err(Error::Device(format!("{} (CUDA error {code})", error_text(code)))) }
}

/// # Safety
/// `string` is a NUL-terminated string.
unsafe fn text(string: *const c_char) -> String {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}
