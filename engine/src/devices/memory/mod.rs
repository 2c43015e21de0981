//! How much memory is free, where the system says so: on the machine, in the control group of a container or a service,
//! and below the limits of this process (`ulimit`). The smallest of them counts.

mod cgroups;

use std::fmt;
use std::fs;
use std::path::Path;

#[cfg(target_os = "macos")]
use darwin as system;
#[cfg(windows)]
use win32 as system;

/// Memory that is free.
///
/// ```
/// use longhand::setup::free_memory;
///
/// if let Some(free) = free_memory() {
///     println!("{} bytes are free{}", free.bytes, free.bound);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeMemory {
    /// Bytes that can be allocated without swapping.
    pub bytes: usize,
    /// Why there are not more.
    pub bound: MemoryBound,
}

/// What limits the memory. `Display` gives the end of a sentence about free memory; it is empty for the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryBound {
    /// The machine has no more.
    Machine,
    /// The limit of a container or a service: that of its control group, or of one above.
    ControlGroup,
    /// The limit on the address space of a process (RLIMIT_AS).
    AddressSpace,
    /// The limit on the data of a process (RLIMIT_DATA).
    Data,
    /// The limit of a [`Ledger`](super::ledger::Ledger).
    Ledger,
}

impl MemoryBound {
    /// A short name for programs; `None` for the machine.
    pub fn name(self) -> Option<&'static str> {
        match self {
            MemoryBound::Machine => None,
            MemoryBound::ControlGroup => Some("cgroup"),
            MemoryBound::AddressSpace => Some("ulimit -v"),
            MemoryBound::Data => Some("ulimit -d"),
            MemoryBound::Ledger => Some("ledger"),
        }
    }
}

impl fmt::Display for MemoryBound {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            MemoryBound::Machine => "",
            MemoryBound::ControlGroup => " within the memory limit of the container or service (cgroup)",
            MemoryBound::AddressSpace => " within the limit on address space (ulimit -v)",
            MemoryBound::Data => " within the limit on data (ulimit -d)",
            MemoryBound::Ledger => " within the limit for all sessions",
        })
    }
}

/// The memory that is free; `None` where that is not known.
pub fn free_memory() -> Option<FreeMemory> {
    free_in(Path::new("/"), 0, |_, _| 0)
}

/// Bytes that can be allocated without swapping; `None` where that is not known.
pub fn available_memory() -> Option<usize> {
    free_memory().map(|free| free.bytes)
}

/// What this process uses of each kind of memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Memory of its own that is not a file's.
    pub(crate) resident: usize,
    /// Address space.
    pub(crate) address_space: usize,
    /// Data, as RLIMIT_DATA counts it.
    pub(crate) data: usize,
}

impl Usage {
    /// What is used now; 0 where that is not known.
    pub(crate) fn now() -> Usage {
        #[cfg(any(windows, target_os = "macos"))]
        return Usage {
            resident: system::private_bytes().map_or(0, |bytes| bytes as usize),
            ..Usage::default()
        };
        #[cfg(not(any(windows, target_os = "macos")))]
        Usage::of(&fs::read_to_string("/proc/self/status").unwrap_or_default())
    }

    /// Changes each of the numbers.
    pub(crate) fn change(&mut self, change: impl Fn(usize) -> usize) {
        let Usage { resident, address_space, data } = self;
        [resident, address_space, data].into_iter().for_each(|used| *used = change(*used));
    }

    fn of(status: &str) -> Usage {
        let bytes = |name: &str| kibibytes(status, name).unwrap_or(0);
        Usage { resident: bytes("RssAnon:"), address_space: bytes("VmSize:"), data: bytes("VmData:") }
    }
}

/// The memory that is free for a session together with its weights, of which `mapped` bytes are mapped already: they are
/// part of the address space, but not of the memory that is in use. `promised` says how much of each kind is promised to
/// others.
pub(crate) fn free_beside_promised(
    mapped: usize,
    promised: impl Fn(MemoryBound, Usage) -> usize,
) -> Option<FreeMemory> {
    free_in(Path::new("/"), mapped, promised)
}

/// The same for a system whose files are below `root`.
fn free_in(root: &Path, mapped: usize, promised: impl Fn(MemoryBound, Usage) -> usize) -> Option<FreeMemory> {
    let read = |name: &str| fs::read_to_string(root.join("proc").join(name)).unwrap_or_default();
    let (limits, status) = (read("self/limits"), read("self/status"));
    let usage = if cfg!(any(windows, target_os = "macos")) { Usage::now() } else { Usage::of(&status) };
    let below = |limit: &str, used: &str| {
        let left = soft_limit(&limits, limit)?.saturating_sub(kibibytes(&status, used)?);
        Some(left.saturating_add(mapped))
    };
    [
        (MemoryBound::Machine, of_machine(&read("meminfo"))),
        (MemoryBound::ControlGroup, cgroups::free(root)),
        (MemoryBound::AddressSpace, below("Max address space", "VmSize:")),
        (MemoryBound::Data, below("Max data size", "VmData:")),
    ]
    .into_iter()
    .filter_map(|(bound, bytes)| {
        Some(FreeMemory { bytes: bytes?.saturating_sub(promised(bound, usage)), bound })
    })
    .min_by_key(|free| free.bytes)
}

/// What the machine has free, from /proc/meminfo where there is such a file.
fn of_machine(meminfo: &str) -> Option<usize> {
    #[cfg(any(windows, target_os = "macos"))]
    return {
        let _ = meminfo;
        system::available_bytes().map(|bytes| bytes as usize)
    };
    #[cfg(not(any(windows, target_os = "macos")))]
    kibibytes(meminfo, "MemAvailable:")
}

/// The bytes of a line such as `MemAvailable:   14 kB`.
fn kibibytes(table: &str, name: &str) -> Option<usize> {
    let line = table.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The first number of a line such as `Max data size   1024   unlimited   bytes`; `None` for no limit.
fn soft_limit(table: &str, name: &str) -> Option<usize> {
    let line = table.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system with these files.
    pub(super) fn system(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, content).expect("a file");
        }
        root
    }

    /// Elsewhere the system is asked, and not these files.
    #[cfg(not(any(target_os = "macos", windows)))]
    #[test]
    fn the_smallest_limit_counts() {
        let meminfo = ("proc/meminfo", "MemTotal:       90 kB\nMemAvailable:   80 kB\n");
        let status = ("proc/self/status", "Name:\tx\nVmSize:\t      30 kB\nVmData:\t      10 kB\n");
        let free = |files: &[(&str, &str)], mapped| {
            let root = system(files);
            free_in(root.path(), mapped, |_, _| 0).map(|free| (free.bytes, free.bound))
        };
        assert_eq!(free(&[meminfo, status], 0), Some((80 << 10, MemoryBound::Machine)));
        let limits = |space: &str, data: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max data size             {data}            unlimited            bytes     \n\
                 Max address space         {space}            unlimited            bytes     \n"
            )
        };
        let with = |space: &str, data: &str, mapped| {
            free(&[meminfo, status, ("proc/self/limits", &limits(space, data))], mapped)
        };
        assert_eq!(with("unlimited", "unlimited", 0), Some((80 << 10, MemoryBound::Machine)));
        assert_eq!(with("40960", "unlimited", 0), Some((10 << 10, MemoryBound::AddressSpace)));
        assert_eq!(with("40960", "15360", 0), Some((5 << 10, MemoryBound::Data)));
        assert_eq!(with("10240", "unlimited", 0), Some((0, MemoryBound::AddressSpace)));
        // Mapped weights are part of the address space, and of what is planned.
        assert_eq!(with("40960", "unlimited", 7 << 10), Some((17 << 10, MemoryBound::AddressSpace)));
        assert_eq!(free(&[], 0), None);
        assert_eq!(free(&[("proc/meminfo", "MemTotal: 1 kB")], 0), None);
    }
}
