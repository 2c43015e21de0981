//! The GPU of a Mac, by Metal, and why there is none. ggml's operations alone are computed there.
//!
//! ggml takes the GPU that is macOS's default. It is described without ggml, which compiles its kernels as soon as it is asked for
//! devices. `ggml/sys/metal/metal.cpp` has what guards ggml's backend. A backend whose computation failed on the GPU computes
//! nothing any more; a new one does.

use crate::PortableGpu;
#[cfg(feature = "metal")]
pub(crate) use found::{check, start};

/// Why a program without Metal has none, and what to do.
const NOT_BUILT: &str = if cfg!(target_os = "macos") {
    "this program was built without Metal; for the GPU of a Mac build it with `--features metal`"
} else {
    "Metal is a part of macOS; for GPUs on other systems build the program with `--features cuda` or `--features vulkan`"
};

/// Why Metal cannot be used. Its text is one line that also says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoMetal {
    /// The program was built without the feature `metal`.
    #[error("{NOT_BUILT}")]
    NotBuilt,
    /// macOS has no GPU for this program.
    #[error(
        "macOS shows no GPU; see whether `system_profiler SPDisplaysDataType` lists one, a virtual machine may have none"
    )]
    NoGpu,
    /// The GPU cannot be used. Holds the reason.
    #[error("Metal cannot use the GPU: {0}")]
    Device(String),
}

/// The GPU, as a list of one; otherwise the reason. Starts nothing.
///
/// # Errors
/// Where Metal cannot be used, or macOS shows no GPU.
pub fn devices() -> Result<Vec<PortableGpu>, NoMetal> {
    #[cfg(not(feature = "metal"))]
    return Err(NoMetal::NotBuilt);
    #[cfg(feature = "metal")]
    found::devices()
}

/// What is only there with the feature.
#[cfg(feature = "metal")]
mod found {
    use std::ptr::NonNull;

    use ggml_metal_sys as metal;

    use super::NoMetal;
    use crate::portable_gpu::{pointer, reason};
    use crate::{Error, PortableGpu};

    pub(super) fn devices() -> Result<Vec<PortableGpu>, NoMetal> {
        let describe = |gpu: &mut _| {
            // SAFETY: the description is written.
            let is_there = unsafe { metal::longhand_metal_describe(gpu) };
            if is_there { Ok(()) } else { Err(NoMetal::NoGpu) }
        };
        Ok(vec![PortableGpu::described(0, describe)?])
    }

    /// A new backend of the GPU.
    pub(crate) fn start(index: usize) -> Result<NonNull<ggml_sys::ggml_backend>, Error> {
        crate::listen();
        let devices = devices()?;
        if index >= devices.len() {
            return Err(Error::NoSuchGpu { index, gpus: devices.len() });
        }
        // SAFETY: the text has its size.
        let backend = pointer(|why, size| unsafe { metal::longhand_metal_backend(why, size) });
        Ok(backend.map_err(NoMetal::Device)?)
    }

    /// An error if a computation of a Metal backend has failed.
    pub(crate) fn check(backend: NonNull<ggml_sys::ggml_backend>) -> Result<(), Error> {
        // SAFETY: a live Metal backend, says the caller; the text has its size.
        reason(|why, size| unsafe { !metal::longhand_metal_problem(backend.as_ptr(), why, size) })
            .map_err(Error::Device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line_and_say_what_to_do() {
        for (problem, part) in [
            (NoMetal::NotBuilt, "--features"),
            (NoMetal::NoGpu, "system_profiler"),
            (NoMetal::Device("macOS does not open it".into()), "does not open it"),
        ] {
            let message = problem.to_string();
            assert!(message.contains(part) && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    #[cfg(not(feature = "metal"))]
    fn without_the_feature_there_is_no_gpu() {
        assert_eq!(devices(), Err(NoMetal::NotBuilt));
    }
}
