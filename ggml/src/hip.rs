//! AMD's GPUs by HIP, and why there are none. ggml's operations alone are computed there.
//!
//! ROCm's libraries are opened when a GPU is first asked for, so the program starts without them. `ggml/sys/hip/hip.cu` has what
//! guards ggml's backend. A GPU that failed is an error for all that use it, until the program is started again.

use crate::PortableGpu;
#[cfg(feature = "hip")]
pub(crate) use found::{check_memory, start};

/// Why HIP cannot be used. Its text is one line that also says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoHip {
    /// The program was built without the feature `hip`.
    #[error(
        "this program was built without HIP; for AMD's GPUs build it with `--features vulkan`, or with `--features hip` instead of `cuda`"
    )]
    NotBuilt,
    /// ROCm's libraries could not be opened. Holds the loader's message.
    #[error(
        "ROCm's libraries cannot be opened ({0}); install the release of ROCm that this program was built with"
    )]
    NoLibrary(String),
    /// There is no driver, or it failed. Holds its message.
    #[error(
        "HIP cannot be used: {0}; see whether `rocminfo` lists a GPU, and whether you may open /dev/kfd (groups render and video)"
    )]
    Failed(String),
    /// HIP has no GPU.
    #[error("HIP shows no GPU; see whether `rocminfo` lists one, and whether HIP_VISIBLE_DEVICES hides it")]
    NoGpu,
    /// The program has no code for the GPU.
    #[error(
        "this program has no code for {name}, architecture {found}, only for {compiled}; build it with LONGHAND_HIP_ARCHS={found}"
    )]
    Architecture {
        /// Name of the GPU.
        name: String,
        /// Its architecture, such as `gfx1100`.
        found: String,
        /// Architectures that the program has code for, separated by commas.
        compiled: String,
    },
    /// A GPU cannot be used. Holds the reason.
    #[error("HIP cannot use the GPU: {0}")]
    Device(String),
}

/// All GPUs in HIP's order, at least one of them without a problem; otherwise the reason. Begins to use each of them, to ask for its
/// free memory.
///
/// # Errors
/// Where HIP cannot be used, or shows no GPU that the program has code for.
pub fn devices() -> Result<Vec<PortableGpu>, NoHip> {
    #[cfg(not(feature = "hip"))]
    return Err(NoHip::NotBuilt);
    #[cfg(feature = "hip")]
    usable(found::devices()?, ggml_hip_sys::HIP_ARCHITECTURES)
}

/// The GPUs with their architectures. Those that none of the `compiled` architectures is for have a problem.
#[cfg_attr(not(feature = "hip"), allow(dead_code, reason = "only called with HIP"))]
fn usable(found: Vec<(PortableGpu, String)>, compiled: &str) -> Result<Vec<PortableGpu>, NoHip> {
    let mut first_problem = None;
    let described = |(gpu, arch): (PortableGpu, String)| {
        // Behind a colon are settings of the GPU, which the code fits whatever they are.
        let arch = arch.split(':').next().unwrap_or_default();
        if let Some(problem) = &gpu.problem {
            first_problem.get_or_insert(NoHip::Failed(problem.clone()));
            return gpu;
        }
        if compiled.split(',').any(|name| name == arch) {
            return gpu;
        }
        let (name, found, compiled) = (gpu.name.clone(), arch.to_owned(), compiled.replace(',', ", "));
        let problem = NoHip::Architecture { name, found, compiled };
        let text = problem.to_string();
        first_problem.get_or_insert(problem);
        PortableGpu { problem: Some(text), ..gpu }
    };
    let gpus: Vec<PortableGpu> = found.into_iter().map(described).collect();
    match gpus.iter().any(|gpu| gpu.problem.is_none()) {
        true => Ok(gpus),
        false => Err(first_problem.unwrap_or(NoHip::NoGpu)),
    }
}

/// What is only there with the feature.
#[cfg(feature = "hip")]
mod found {
    use std::ffi::{CStr, c_char};
    use std::ptr::NonNull;

    use ggml_hip_sys as hip;

    use super::NoHip;
    use crate::portable_gpu::{pointer, reason, text};
    use crate::{Error, PortableGpu};

    /// All GPUs and their architectures.
    pub(super) fn devices() -> Result<Vec<(PortableGpu, String)>, NoHip> {
        crate::listen();
        // SAFETY: takes nothing.
        let message = unsafe { hip::longhand_hip_open() };
        if !message.is_null() {
            // SAFETY: a string that is never freed.
            let message = unsafe { CStr::from_ptr(message) };
            return Err(NoHip::NoLibrary(message.to_string_lossy().into_owned()));
        }
        let mut count = 0;
        // SAFETY: the libraries are open; the number is written, and the text has its size.
        reason(|why, size| unsafe { hip::longhand_hip_count(&mut count, why, size) })
            .map_err(NoHip::Failed)?;
        Ok((0..count).map(describe).collect())
    }

    /// A GPU and its architecture. Where HIP cannot say what it is, that is its problem.
    fn describe(index: usize) -> (PortableGpu, String) {
        let mut arch = [0 as c_char; 256];
        let described = PortableGpu::described(index, |gpu| {
            let (at, bytes) = (arch.as_mut_ptr(), arch.len());
            // SAFETY: a number below the count; the description is written, and the texts have their sizes.
            reason(|why, size| unsafe { hip::longhand_hip_describe(index, gpu, at, bytes, why, size) })
        });
        let unknown = |problem: String| PortableGpu {
            index,
            name: format!("GPU {index}"),
            total: 0,
            free: 0,
            is_integrated: false,
            problem: Some(problem),
        };
        (described.unwrap_or_else(unknown), text(&arch))
    }

    /// A new backend of a GPU.
    pub(crate) fn start(index: usize) -> Result<NonNull<ggml_sys::ggml_backend>, Error> {
        let devices = super::devices()?;
        let gpu = devices.get(index).ok_or(Error::NoSuchGpu { index, gpus: devices.len() })?;
        if let Some(problem) = &gpu.problem {
            return Err(NoHip::Device(problem.clone()).into());
        }
        // SAFETY: a number below the count; the text has its size.
        let backend = pointer(|why, size| unsafe { hip::longhand_hip_backend(index, why, size) });
        Ok(backend.map_err(NoHip::Device)?)
    }

    /// An error if this is memory of a GPU that has failed.
    pub(crate) fn check_memory(ty: ggml_sys::ggml_backend_buffer_type_t) -> Result<(), Error> {
        // SAFETY: memory types are never freed; the text has its size.
        reason(|why, size| unsafe { !hip::longhand_hip_problem(ty, why, size) }).map_err(Error::Device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(index: usize, name: &str) -> PortableGpu {
        PortableGpu { index, name: name.into(), total: 1, free: 1, is_integrated: false, problem: None }
    }

    #[test]
    fn messages_are_one_line_and_say_what_to_do() {
        for (problem, part) in [
            (NoHip::NotBuilt, "--features hip"),
            (NoHip::NoLibrary("libamdhip64.so.6: not found".into()), "install the release of ROCm"),
            (NoHip::Failed("no ROCm-capable device is detected".into()), "/dev/kfd"),
            (NoHip::NoGpu, "HIP_VISIBLE_DEVICES"),
            (NoHip::Device("it has failed".into()), "it has failed"),
        ] {
            let message = problem.to_string();
            assert!(message.contains(part) && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn a_gpu_needs_code_for_its_architecture() {
        let found = |arch: [&str; 2]| vec![(gpu(0, "One"), arch[0].into()), (gpu(1, "Two"), arch[1].into())];
        let state = |arch| {
            usable(found(arch), "gfx90a,gfx1100")
                .map(|gpus| gpus.iter().map(|gpu| gpu.problem.is_none()).collect::<Vec<_>>())
        };
        assert_eq!(state(["gfx1100", "gfx90a:sramecc+:xnack-"]), Ok(vec![true, true]));
        assert_eq!(state(["gfx1036", "gfx1100"]), Ok(vec![false, true]));
        let none = state(["gfx1036", "gfx1101"]).expect_err("no code").to_string();
        assert!(none.contains("no code for One, architecture gfx1036, only for gfx90a, gfx1100"), "{none}");
        assert_eq!(usable(Vec::new(), "gfx1100"), Err(NoHip::NoGpu));
    }

    #[test]
    #[cfg(not(feature = "hip"))]
    fn without_the_feature_the_error_names_it() {
        assert_eq!(devices(), Err(NoHip::NotBuilt));
    }
}
