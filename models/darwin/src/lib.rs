//! What this program needs of macOS and the standard library does not have, as safe functions: memory of the machine and of this
//! process. On other systems the crate is empty.
//! It calls the system and nothing else.
#![cfg(target_os = "macos")]

use std::mem;

unsafe extern "C" {
    /// The port by which the kernel is asked about the machine.
    safe fn mach_host_self() -> libc::mach_port_t;
}

/// Bytes that can be allocated without swapping: pages that are free or were not used lately. `None` where that is not known.
pub fn available_bytes() -> Option<u64> {
    // SAFETY: zeros are a value of this structure, which has numbers only.
    let mut pages: libc::vm_statistics64 = unsafe { mem::zeroed() };
    let mut count = libc::HOST_VM_INFO64_COUNT;
    // SAFETY: the structure has the length of `count` integers.
    let status = unsafe {
        libc::host_statistics64(
            mach_host_self(),
            libc::HOST_VM_INFO64,
            (&raw mut pages).cast::<libc::integer_t>(),
            &raw mut count,
        )
    };
    // SAFETY: a number that is set before the program starts, and not changed.
    let page_bytes = unsafe { libc::vm_page_size } as u64;
    let available = u64::from(pages.free_count) + u64::from(pages.inactive_count);
    (status == libc::KERN_SUCCESS).then_some(available * page_bytes)
}

/// Bytes of memory that belong to this process alone. `None` where that is not known.
pub fn private_bytes() -> Option<u64> {
    // SAFETY: zeros are a value of this structure, which has numbers only.
    let mut usage: libc::rusage_info_v4 = unsafe { mem::zeroed() };
    let process = std::process::id().cast_signed();
    // SAFETY: the structure is that of this version.
    let status = unsafe {
        libc::proc_pid_rusage(process, libc::RUSAGE_INFO_V4, (&raw mut usage).cast::<libc::rusage_info_t>())
    };
    (status == 0).then_some(usage.ri_phys_footprint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted() {
        assert!(available_bytes().expect("known") > 1 << 20);
        let before = private_bytes().expect("known");
        let pages = std::hint::black_box(vec![1u8; 64 << 20]);
        assert!(private_bytes().expect("known") > before + (pages.len() as u64) / 2);
    }
}
