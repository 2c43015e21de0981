//! GPUs by Vulkan: those that there are, and why there are none. ggml's operations alone are computed there.
//!
//! libvulkan is opened when it is first asked for, so the program starts without it. The functions of ggml's backend throw C++
//! exceptions; `ggml/sys/vulkan/vulkan.cpp` catches them. A device that failed is an error for all that use it from then on.
//!
//! ggml takes dedicated and integrated GPUs, and leaves out drivers that compute on the CPU. The environment variable
//! `GGML_VK_VISIBLE_DEVICES` names others by the driver's numbers, such as `0,2`.

use crate::PortableGpu;
#[cfg(feature = "vulkan")]
pub(crate) use found::{check_memory, start};

/// What to do where libvulkan is missing.
const REMEDY: &str = if cfg!(windows) {
    "install the driver of your GPU from its maker, which brings it"
} else {
    "install it (Debian: libvulkan1) and a driver (mesa-vulkan-drivers)"
};

/// Why Vulkan cannot be used. Its text is one line that also says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoVulkan {
    /// The program was built without the feature `vulkan`.
    #[error("this program was built without Vulkan; for GPUs of any maker build it with `--features vulkan`")]
    NotBuilt,
    /// libvulkan could not be opened. Holds the loader's message.
    #[error("Vulkan's library was not found ({0}); {REMEDY}")]
    NoLibrary(String),
    /// There is no driver, or it failed. Holds its message.
    #[error(
        "Vulkan cannot be used: {0}; see whether `vulkaninfo --summary` lists a GPU, and install the driver of yours"
    )]
    Failed(String),
    /// No driver has a GPU.
    #[error(
        "Vulkan shows no GPU; see whether `vulkaninfo --summary` lists one, and whether GGML_VK_VISIBLE_DEVICES hides it"
    )]
    NoGpu,
    /// A GPU cannot be used. Holds the reason.
    #[error("Vulkan cannot use the GPU: {0}")]
    Device(String),
}

/// All GPUs, at least one; otherwise the reason. Opens no GPU.
///
/// # Errors
/// Where Vulkan cannot be used, or shows no GPU.
pub fn devices() -> Result<Vec<PortableGpu>, NoVulkan> {
    #[cfg(not(feature = "vulkan"))]
    return Err(NoVulkan::NotBuilt);
    #[cfg(feature = "vulkan")]
    found::devices()
}

/// What is only there with the feature.
#[cfg(feature = "vulkan")]
mod found {
    use std::ffi::CStr;
    use std::ptr::NonNull;

    use ggml_vulkan_sys as vulkan;

    use super::NoVulkan;
    use crate::portable_gpu::{pointer, reason};
    use crate::{Error, PortableGpu};

    pub(super) fn devices() -> Result<Vec<PortableGpu>, NoVulkan> {
        crate::listen();
        // SAFETY: takes nothing.
        let message = unsafe { vulkan::longhand_vulkan_open() };
        if !message.is_null() {
            // SAFETY: a string of the loader, which this thread asked last.
            let message = unsafe { CStr::from_ptr(message) };
            return Err(NoVulkan::NoLibrary(message.to_string_lossy().into_owned()));
        }
        let mut count = 0;
        // SAFETY: the number is written, and the text has its size.
        reason(|why, size| unsafe { vulkan::longhand_vulkan_count(&mut count, why, size) })
            .map_err(NoVulkan::Failed)?;
        if count == 0 {
            return Err(NoVulkan::NoGpu);
        }
        (0..count).map(describe).collect()
    }

    fn describe(index: usize) -> Result<PortableGpu, NoVulkan> {
        PortableGpu::described(index, |gpu| {
            // SAFETY: a number below the count; the description is written, and the text has its size.
            reason(|why, size| unsafe { vulkan::longhand_vulkan_describe(index, gpu, why, size) })
                .map_err(NoVulkan::Failed)
        })
    }

    /// ggml's backend of a device.
    pub(crate) fn start(index: usize) -> Result<NonNull<ggml_sys::ggml_backend>, Error> {
        let devices = devices()?;
        if index >= devices.len() {
            return Err(Error::NoSuchGpu { index, gpus: devices.len() });
        }
        if !vulkan::unpack_shaders() {
            return Err(Error::Backend("Vulkan"));
        }
        // SAFETY: a number below the count, and the shaders are there; the text has its size.
        let backend = pointer(|why, size| unsafe { vulkan::longhand_vulkan_backend(index, why, size) });
        Ok(backend.map_err(NoVulkan::Device)?)
    }

    /// An error if this is memory of a device that has failed.
    pub(crate) fn check_memory(ty: ggml_sys::ggml_backend_buffer_type_t) -> Result<(), Error> {
        // SAFETY: memory types are never freed; the text has its size.
        reason(|why, size| unsafe { !vulkan::longhand_vulkan_problem(ty, why, size) }).map_err(Error::Device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line_and_say_what_to_do() {
        for (problem, part) in [
            (NoVulkan::NotBuilt, "--features vulkan"),
            (NoVulkan::NoLibrary("libvulkan.so: not found".into()), "install it"),
            (NoVulkan::Failed("ErrorIncompatibleDriver".into()), "install the driver"),
            (NoVulkan::NoGpu, "GGML_VK_VISIBLE_DEVICES"),
            (NoVulkan::Device("no 16-bit storage".into()), "no 16-bit storage"),
        ] {
            let message = problem.to_string();
            assert!(message.contains(part) && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    #[cfg(not(feature = "vulkan"))]
    fn without_the_feature_the_error_names_it() {
        assert_eq!(devices(), Err(NoVulkan::NotBuilt));
    }
}
