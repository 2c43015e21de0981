//! A device that the host stands in for, for tests without a GPU: the device kernels of `kernels/cuda`, compiled for the host.
//! Only tests may use it. emulator.h says what a test on it proves, and what it does not.

use std::ffi::{c_int, c_void};

use ggml::{Backend, Error};
use kernels::device::{self, Launchers};

macro_rules! emulated {
    ($($(#[$doc:meta])* $name:ident($call:ident): $cuda:ident, $emulated:ident;)*) => {
        unsafe extern "C" {
            $(fn $emulated(call: *const device::$call, stream: *mut c_void) -> c_int;)*
        }
        static LAUNCHERS: Launchers = Launchers { $($name: $emulated),* };
    };
}
kernels::launchers!(emulated);

/// Lets emulated devices of this process launch the kernels.
pub fn install() {
    device::emulate(&LAUNCHERS);
}

/// An emulated device, on which at most `memory` bytes are allocated.
///
/// # Errors
/// Where no thread can be started.
pub fn backend(memory: Option<usize>) -> Result<Backend, Error> {
    install();
    Backend::emulated(memory)
}
