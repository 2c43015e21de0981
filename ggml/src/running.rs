//! Graphs that GPUs compute while the host goes on ([`Backend::start`](crate::Backend::start)). What the host writes to their
//! GPU's memory meanwhile is copied on their stream, behind them. Whoever reads that memory, or gives it back, waits for
//! them first. Without the feature `cuda` there are none.

#[cfg(feature = "cuda")]
pub(crate) use crate::cuda::running::{uses, wait_for, write};
#[cfg(not(feature = "cuda"))]
pub(crate) use without_cuda::{uses, wait_for, write};

#[cfg(not(feature = "cuda"))]
mod without_cuda {
    use std::ffi::c_void;

    use crate::{BufferType, Error};

    pub(crate) fn uses(_: &BufferType) -> bool {
        false
    }

    pub(crate) fn wait_for(_: &BufferType) -> Result<(), Error> {
        Ok(())
    }

    pub(crate) unsafe fn write(_: &BufferType, _: *mut c_void, _: &[u8]) -> Result<bool, Error> {
        Ok(false)
    }
}
