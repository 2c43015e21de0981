//! Memory of the machine and of this process.

use std::mem;

use windows_sys::Win32::System::ProcessStatus::{
    GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS, PROCESS_MEMORY_COUNTERS_EX,
};
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

/// Bytes that can be allocated without swapping: free memory of the machine, and no more than Windows may still promise to
/// programs. `None` where that is not known.
pub fn available_bytes() -> Option<u64> {
    let mut status = MEMORYSTATUSEX { dwLength: size_of::<MEMORYSTATUSEX>() as u32, ..Default::default() };
    // SAFETY: the structure has the length that it says.
    let is_known = unsafe { GlobalMemoryStatusEx(&mut status) } != 0;
    is_known.then(|| status.ullAvailPhys.min(status.ullAvailPageFile))
}

/// Bytes of memory that belong to this process alone. `None` where that is not known.
pub fn private_bytes() -> Option<u64> {
    // SAFETY: zeros are a value of this structure, which has numbers only.
    let mut counters: PROCESS_MEMORY_COUNTERS_EX = unsafe { mem::zeroed() };
    let length = size_of::<PROCESS_MEMORY_COUNTERS_EX>() as u32;
    let pointer = (&raw mut counters).cast::<PROCESS_MEMORY_COUNTERS>();
    // SAFETY: the structure has this length; the longer one begins as the shorter one does.
    let is_known = unsafe { GetProcessMemoryInfo(GetCurrentProcess(), pointer, length) } != 0;
    is_known.then_some(counters.PrivateUsage as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted() {
        let available = available_bytes().expect("known");
        assert!(available > 1 << 20);
        // How exactly a process is counted differs: Wine does not count what is allocated at once.
        assert!((1..1 << 40).contains(&private_bytes().expect("known")));
    }
}
