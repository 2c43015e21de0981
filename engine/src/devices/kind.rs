//! What a device is called, and what kind of backend computes on it.

use std::fmt;

/// A device. `Display` gives its name, such as `cuda:0`.
///
/// ```
/// assert_eq!(longhand::DeviceKind::Cuda(1).to_string(), "cuda:1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceKind {
    /// A device that the host emulates, for tests: see [`ggml::Backend::emulated`].
    #[doc(hidden)]
    Emulated(usize),
    /// A device without kernels of ours, for tests: see [`ggml::Backend::portable`].
    #[doc(hidden)]
    Portable(usize),
    /// An NVIDIA GPU, by CUDA's number.
    Cuda(usize),
    /// A GPU of AMD, by HIP's number.
    Hip(usize),
    /// The GPU of a Mac, by its number among those of [`ggml::metal::devices`]: 0.
    Metal(usize),
    /// A GPU by its number among those of [`ggml::vulkan::devices`].
    Vulkan(usize),
    /// A device of another machine, by its number among those of [`rpc::add_servers`](crate::rpc::add_servers).
    #[cfg(feature = "rpc")]
    Rpc(usize),
}

impl DeviceKind {
    /// Its name, with its machine where that is another one: `rpc:0 (192.168.1.7:50052)`.
    pub fn full_name(&self) -> String {
        #[cfg(feature = "rpc")]
        if let DeviceKind::Rpc(number) = self
            && let Some(device) = ggml::rpc::devices().get(*number)
        {
            return format!("{self} ({})", device.server);
        }
        self.to_string()
    }

    /// The name of ggml's backend for it.
    pub fn backend(&self) -> &'static str {
        match self {
            DeviceKind::Emulated(_) | DeviceKind::Portable(_) => "CPU",
            DeviceKind::Cuda(_) => "CUDA",
            DeviceKind::Hip(_) => "HIP",
            DeviceKind::Metal(_) => "Metal",
            DeviceKind::Vulkan(_) => "Vulkan",
            #[cfg(feature = "rpc")]
            DeviceKind::Rpc(_) => "RPC",
        }
    }

    /// Whether it has operations of our own. Elsewhere ggml's compute the same.
    pub fn has_own_operations(&self) -> bool {
        match self {
            DeviceKind::Cuda(_) | DeviceKind::Emulated(_) => true,
            DeviceKind::Portable(_) | DeviceKind::Hip(_) | DeviceKind::Metal(_) | DeviceKind::Vulkan(_) => {
                false
            }
            #[cfg(feature = "rpc")]
            DeviceKind::Rpc(_) => false,
        }
    }

    /// Whether it is a device of another machine.
    pub fn is_remote(&self) -> bool {
        #[cfg(feature = "rpc")]
        return matches!(self, DeviceKind::Rpc(_));
        #[cfg(not(feature = "rpc"))]
        false
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            DeviceKind::Emulated(number) => write!(f, "emulated:{number}"),
            DeviceKind::Portable(number) => write!(f, "portable:{number}"),
            DeviceKind::Cuda(number) => write!(f, "cuda:{number}"),
            DeviceKind::Hip(number) => write!(f, "hip:{number}"),
            DeviceKind::Metal(number) => write!(f, "metal:{number}"),
            DeviceKind::Vulkan(number) => write!(f, "vulkan:{number}"),
            #[cfg(feature = "rpc")]
            DeviceKind::Rpc(number) => write!(f, "rpc:{number}"),
        }
    }
}
