//! What ggml does not say of CUDA: the GPUs, whether cuBLAS is there, errors in words, and [`stream`]s. The foreign half is in
//! `ggml/cuda`.

pub(crate) mod stream;

use std::ffi::{CStr, c_char, c_int};

use ggml_sys as sys;

use crate::devices::{Capability, Code, CudaVersion, Found, NoCuda, Probe};
use crate::{Error, Type};

/// Opens libcublas, which ggml needs for large products with F32, F16 and BF16 weights; the error says how to get it. To be
/// asked before any such work: without libcublas ggml would end the process.
pub fn cublas() -> Result<(), String> {
    // SAFETY: no arguments; the result is null or a string that is never freed.
    let said = unsafe { sys::longhand_cublas_open() };
    if said.is_null() {
        return Ok(());
    }
    Err(format!(
        "libcublas, which products with F32, F16 and BF16 weights need on the GPU, was not found: {}\n\
         hint: install NVIDIA's package libcublas-13-0, or `pip install nvidia-cublas` and let LD_LIBRARY_PATH name its lib \
         folder; or use a quantised model, or --device cpu",
        // SAFETY: as above.
        unsafe { text(said) }
    ))
}

/// Refuses matrices that cannot be multiplied here: of a type that ggml has no kernels for on GPUs, or that it leaves to cuBLAS where
/// the vectors are many and there is none.
pub(crate) fn check_products(ty: Type) -> Result<(), Error> {
    const OWN: [&str; 22] = [
        "q1_0", "q2_0", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "mxfp4", "nvfp4", "q2_K", "q3_K", "q4_K",
        "q5_K", "q6_K", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq1_s", "iq4_xs", "iq4_nl",
    ];
    match ty.name() {
        name if OWN.contains(&name) => Ok(()),
        "f32" | "f16" | "bf16" | "iq1_m" => cublas().map_err(Error::NoCublas),
        name => Err(Error::NoProducts(name)),
    }
}

/// What an error number of CUDA, such as that of a device twin, means.
pub fn error_text(code: i32) -> String {
    // SAFETY: any number is fine, the result is a static string.
    unsafe { text(sys::longhand_cuda_error_text(code)) }
}

/// Asks CUDA for its versions and GPUs; touches no GPU.
pub(crate) fn probe() -> Probe {
    let (mut runtime, mut driver, mut count) = (0, 0, 0);
    // SAFETY: places for one number each.
    let known = unsafe { sys::longhand_cuda_versions(&mut runtime, &mut driver) };
    let gpus = answer(known)
        // SAFETY: as above.
        .and_then(|()| answer(unsafe { sys::longhand_cuda_count(&mut count) }))
        .and_then(|()| (0..count).map(found).collect());
    let compiled = sys::CUDA_ARCHITECTURES.split(',').filter_map(Code::parse).collect();
    Probe { runtime: CudaVersion(runtime), driver: CudaVersion(driver), gpus, compiled }
}

fn found(index: c_int) -> Result<Found, NoCuda> {
    let mut gpu = sys::longhand_gpu { name: [0; 256], major: 0, minor: 0, total: 0 };
    // SAFETY: a place for one description.
    answer(unsafe { sys::longhand_cuda_gpu(index, &mut gpu) })?;
    Ok(Found {
        // SAFETY: NUL-terminated by the callee.
        name: unsafe { text(gpu.name.as_ptr()) },
        capability: Capability(gpu.major as u32, gpu.minor as u32),
        total: gpu.total,
    })
}

/// Bytes free on GPU `index`; starts to use it.
pub(crate) fn free_memory(index: usize) -> Result<u64, NoCuda> {
    let mut free = 0;
    // SAFETY: a place for one number.
    answer(unsafe { sys::longhand_cuda_free_memory(index as c_int, &mut free) })?;
    Ok(free)
}

fn answer(code: c_int) -> Result<(), NoCuda> {
    if code == 0 { Ok(()) } else { Err(NoCuda::Failed { code, text: error_text(code) }) }
}

fn check(code: c_int) -> Result<(), Error> {
    if code == 0 { Ok(()) } else { Err(Error::Device(format!("{} (CUDA error {code})", error_text(code)))) }
}

/// # Safety
/// `said` is a NUL-terminated string.
unsafe fn text(said: *const c_char) -> String {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned()
}
