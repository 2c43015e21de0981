//! How much memory the machine has free, where the system says so.

use std::fs;

/// Bytes that can be allocated without swapping; `None` where that is not known.
pub fn available() -> Option<usize> {
    parse(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    #[test]
    fn reads_the_systems_table() {
        let text = "MemTotal:       16 kB\nMemAvailable:   14 kB\n";
        assert_eq!(super::parse(text), Some(14 * 1024));
        assert_eq!(super::parse("MemTotal: 1 kB"), None);
    }
}
