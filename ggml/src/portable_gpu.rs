//! A GPU on which ggml's operations alone are computed, by HIP, Metal or Vulkan, and what our C functions for them say.

#[cfg(any(feature = "hip", feature = "metal", feature = "vulkan"))]
use std::ffi::{CStr, c_char};
#[cfg(any(feature = "hip", feature = "metal", feature = "vulkan"))]
use std::ptr::NonNull;

#[cfg(any(feature = "hip", feature = "metal", feature = "vulkan"))]
use ggml_sys::longhand_portable_gpu;

/// A GPU on which ggml's operations alone are computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortableGpu {
    /// Its number among those that ggml takes.
    pub index: usize,
    /// The driver's name for it.
    pub name: String,
    /// Bytes of its memory; by Metal those that macOS recommends to use at most.
    pub total: u64,
    /// Bytes that are free; all where the driver does not say. By Metal all that this process does not use.
    pub free: u64,
    /// Whether it is part of the processor, and shares main memory with it.
    pub is_integrated: bool,
    /// Why the program cannot use it; `None` if it can.
    pub problem: Option<String>,
}

impl PortableGpu {
    /// GPU number `index` by a function that describes it; otherwise the reason that the function gives.
    #[cfg(any(feature = "hip", feature = "metal", feature = "vulkan"))]
    pub(crate) fn described<E>(
        index: usize,
        describe: impl FnOnce(&mut longhand_portable_gpu) -> Result<(), E>,
    ) -> Result<PortableGpu, E> {
        let mut gpu = longhand_portable_gpu { name: [0; 256], total: 0, free: 0, is_integrated: false };
        describe(&mut gpu)?;
        let longhand_portable_gpu { name, total, free, is_integrated } = gpu;
        Ok(PortableGpu { index, name: text(&name), total, free, is_integrated, problem: None })
    }

    /// Whether it is no GPU but Mesa's driver that computes on the CPU, which `GGML_VK_VISIBLE_DEVICES` may have named.
    pub fn is_lavapipe(&self) -> bool {
        self.name.contains("llvmpipe")
    }
}

/// Calls a function that writes a reason where it fails; the reason is returned.
#[cfg(any(feature = "hip", feature = "metal", feature = "vulkan"))]
pub(crate) fn reason(call: impl FnOnce(*mut c_char, usize) -> bool) -> Result<(), String> {
    let mut why = [0 as c_char; 512];
    match call(why.as_mut_ptr(), why.len()) {
        true => Ok(()),
        false => Err(text(&why)),
    }
}

/// The same of a function whose pointer is null where it fails.
#[cfg(any(feature = "hip", feature = "metal", feature = "vulkan"))]
pub(crate) fn pointer<T>(call: impl FnOnce(*mut c_char, usize) -> *mut T) -> Result<NonNull<T>, String> {
    let mut why = [0 as c_char; 512];
    NonNull::new(call(why.as_mut_ptr(), why.len())).ok_or_else(|| text(&why))
}

/// A string that C wrote.
#[cfg(any(feature = "hip", feature = "metal", feature = "vulkan"))]
pub(crate) fn text(characters: &[c_char]) -> String {
    let bytes: Vec<u8> = characters.iter().map(|character| *character as u8).collect();
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}
