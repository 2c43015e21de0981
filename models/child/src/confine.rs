//! Refuses the child all system calls but those that its work needs: to use its socket and its memory, to ask for the
//! time, and to end. So a hostile document that has taken over a converter reads no files, opens no connections and
//! signals no processes. Where the kernel has no filters (seccomp), the limits of `forked` are all there is.

/// Has no effect where the kernel refuses it.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn confine() {}

/// Has no effect where the kernel refuses it. A refused call fails with EPERM.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) fn confine() {
    if let Ok(program) = linux::program() {
        let _ = seccompiler::apply_filter(&program);
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod linux {
    use std::collections::BTreeMap;
    use std::env::consts::ARCH;

    use seccompiler::{
        BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
        SeccompFilter, SeccompRule,
    };

    /// What the work needs, and the allocator, the clock, hash maps and panics below it.
    const ALLOWED: &[libc::c_long] = &[
        // The socket.
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_readv,
        libc::SYS_writev,
        libc::SYS_recvfrom,
        libc::SYS_sendto,
        libc::SYS_close,
        // Memory. There is no file that could be mapped.
        libc::SYS_brk,
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_mprotect,
        libc::SYS_madvise,
        // Locks and this thread.
        libc::SYS_futex,
        libc::SYS_sched_yield,
        libc::SYS_sched_getaffinity,
        libc::SYS_getpid,
        libc::SYS_gettid,
        // Time and random numbers.
        libc::SYS_clock_gettime,
        libc::SYS_gettimeofday,
        libc::SYS_setitimer,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_time,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_alarm,
        libc::SYS_getrandom,
        // Its own signals, and the end.
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_restart_syscall,
        libc::SYS_exit,
        libc::SYS_exit_group,
    ];

    /// The filter for this process.
    pub(super) fn program() -> Result<BpfProgram, BackendError> {
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
            ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
        // `abort` signals the process itself.
        let is = |argument, value| {
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
        };
        let abort = vec![is(0, std::process::id().into())?, is(2, libc::SIGABRT as u64)?];
        rules.insert(libc::SYS_tgkill, vec![SeccompRule::new(abort)?]);
        let refused = SeccompAction::Errno(libc::EPERM as u32);
        SeccompFilter::new(rules, refused, SeccompAction::Allow, ARCH.try_into()?)?.try_into()
    }
}
