//! The memory that the control groups of this process leave free, of version 1 and 2. The limit of a group is one for all
//! groups below it, so all groups up to the root count.
//!
//! Pages of files are part of what a group uses, but go back to the system when memory is short: also those of a model
//! that is mapped. So they are no use here.

use std::fs;
use std::path::{Path, PathBuf};

/// A version of control groups: which files say what.
struct Version {
    /// Type of its file systems.
    file_system: &'static str,
    /// Limits, of which the smallest counts. Above `memory.high` the system slows a group down so far that it stands still.
    limits: &'static [&'static str],
    usage: &'static str,
    /// Pages of files in `memory.stat`.
    file_pages: &'static [&'static str],
}

const VERSIONS: [Version; 2] = [
    Version {
        file_system: "cgroup2",
        limits: &["memory.max", "memory.high"],
        usage: "memory.current",
        file_pages: &["inactive_file", "active_file"],
    },
    Version {
        file_system: "cgroup",
        limits: &["memory.limit_in_bytes"],
        usage: "memory.usage_in_bytes",
        file_pages: &["total_inactive_file", "total_active_file"],
    },
];

/// Bytes that are free in all groups of this process; `None` without a limit. The system's files are below `root`.
pub(super) fn free(root: &Path) -> Option<usize> {
    let read = |name: &str| fs::read_to_string(root.join("proc/self").join(name)).unwrap_or_default();
    let (groups, mounts) = (read("cgroup"), read("mountinfo"));
    VERSIONS.iter().filter_map(|version| version.free(root, &groups, &mounts)).min()
}

impl Version {
    fn free(&self, root: &Path, groups: &str, mounts: &str) -> Option<usize> {
        let group = self.group(groups)?;
        let mount = mounts.lines().find_map(|line| self.mount(line))?;
        let top = root.join(mount.at.trim_start_matches('/'));
        let folder = top.join(mount.path_below(group));
        let levels = folder.ancestors().take_while(|level| level.starts_with(&top));
        let counted = levels.enumerate().filter(|(above, level)| *above == 0 || is_hierarchical(level));
        counted.filter_map(|(_, level)| self.free_in_group(level)).min()
    }

    /// The path of this process' group, from lines such as `0::/path` and `4:cpu,memory:/path`.
    fn group<'a>(&self, groups: &'a str) -> Option<&'a str> {
        groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            let is_own = match self.file_system {
                "cgroup2" => controllers.is_empty(),
                _ => controllers.split(',').any(|controller| controller == "memory"),
            };
            is_own.then_some(path)
        })
    }

    /// A line such as `35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory`.
    fn mount(&self, line: &str) -> Option<Mount> {
        let (before, after) = line.split_once(" - ")?;
        let mut paths = before.split(' ').skip(3).map(unescaped);
        let (of, at) = (paths.next()?, paths.next()?);
        let mut about = after.split(' ');
        let is_own = about.next() == Some(self.file_system)
            && (self.file_system == "cgroup2" || about.nth(1)?.split(',').any(|option| option == "memory"));
        is_own.then_some(Mount { of, at })
    }

    /// Bytes that are free in one group and what is below it.
    fn free_in_group(&self, folder: &Path) -> Option<usize> {
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        // "max" is no number.
        let limit = self.limits.iter().filter_map(|name| read(name).trim().parse::<usize>().ok()).min()?;
        let usage: usize = read(self.usage).trim().parse().unwrap_or(0);
        let stat = read("memory.stat");
        let of_files = |name: &&str| {
            let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|number| number.trim().parse::<usize>().ok())
        };
        let file_pages: usize = self.file_pages.iter().filter_map(of_files).sum();
        Some(limit.saturating_sub(usage.saturating_sub(file_pages)))
    }
}

/// Whether a group counts what the groups below it use. Version 1 could be told not to.
fn is_hierarchical(folder: &Path) -> bool {
    let setting = fs::read_to_string(folder.join("memory.use_hierarchy"));
    setting.map_or(true, |setting| setting.trim() != "0")
}

/// A file system of control groups.
struct Mount {
    /// The group that is seen as its root.
    of: String,
    /// Where it is.
    at: String,
}

impl Mount {
    /// The folder of a group below the mount. In a container the group may have a path that cannot be seen from there; the
    /// root of the mount is then its own group, or one above.
    fn path_below(&self, group: &str) -> PathBuf {
        let group = Path::new(group);
        let below = group.strip_prefix(&self.of).ok();
        let is_seen = |path: &&Path| path.components().all(|part| part != std::path::Component::ParentDir);
        below.filter(is_seen).unwrap_or(Path::new("")).to_owned()
    }
}

/// A path of mountinfo, in which white space is written as `\040`.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escape, character)| text.replace(escape, character))
}

#[cfg(test)]
mod tests {
    use super::super::tests::system;
    use super::*;

    const V1: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const UNLIMITED: &str = "9223372036854771712\n";

    fn check(groups: &str, mounts: &str, files: &[(&str, &str)], want: Option<usize>) {
        let root = system(&[("proc/self/cgroup", groups), ("proc/self/mountinfo", mounts)]);
        for (path, content) in files {
            let path = root.path().join("sys/fs/cgroup").join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, content).expect("a file");
        }
        assert_eq!(free(root.path()), want, "{groups} {files:?}");
    }

    #[test]
    fn version_2_counts_all_groups_up_to_the_root() {
        let own = "system.slice/a b.service/inner/";
        let at = |name: &str| format!("{own}{name}");
        let [max, current, stat, high] =
            ["memory.max", "memory.current", "memory.stat", "memory.high"].map(at);
        let group = format!("0::/{}\n", own.trim_end_matches('/'));
        let check = |files: &[(&str, &str)], want| check(&group, V2, files, want);
        check(&[], None);
        check(&[(&max, "max\n"), (&current, "5000\n")], None);
        check(&[(&max, "9000\n"), (&current, "5000\n")], Some(4000));
        // Pages of files go back to the system.
        let pages = "anon 1\nfile 3500\ninactive_file 2000\nactive_file 1000\nslab 1\n";
        check(&[(&max, "9000\n"), (&current, "5000\n"), (&stat, pages)], Some(7000));
        check(&[(&max, "9000\n"), (&high, "6000\n"), (&current, "5000\n")], Some(1000));
        check(&[(&max, "max\n"), (&high, "6000\n"), (&current, "7000\n")], Some(0));
        // A group above has less, also for what others use there.
        let above = [("system.slice/memory.max", "20000\n"), ("system.slice/memory.current", "19000\n")];
        check(&[(&max, "9000\n"), (&current, "5000\n"), above[0], above[1]], Some(1000));
        check(&[above[0], above[1], ("system.slice/memory.stat", "inactive_file 500\n")], Some(1500));
    }

    #[test]
    fn version_1_counts_all_groups_up_to_the_root() {
        let groups = "9:name=systemd:/\n4:cpu,memory:/a/b\n0::/\n";
        let own = [
            ("memory/a/b/memory.limit_in_bytes", "9000\n"),
            ("memory/a/b/memory.usage_in_bytes", "5000\n"),
            ("memory/a/b/memory.stat", "inactive_file 1\ntotal_inactive_file 700\ntotal_active_file 300\n"),
        ];
        check(groups, V1, &own, Some(5000));
        let above =
            [("memory/a/memory.limit_in_bytes", "6000\n"), ("memory/a/memory.usage_in_bytes", "5500\n")];
        check(groups, V1, &[&own[..], &above].concat(), Some(500));
        let apart = ("memory/a/memory.use_hierarchy", "0\n");
        check(groups, V1, &[&own[..], &above, &[apart]].concat(), Some(5000));
        let unlimited = [("memory/a/b/memory.limit_in_bytes", UNLIMITED), own[1]];
        check(groups, V1, &unlimited, Some(9223372036854771712 - 5000));
        check("4:cpu:/a\n", V1, &own, None);
        check(groups, "", &own, None);
    }

    /// A container sees its own group at the root of the mount, under another path or none.
    #[test]
    fn the_group_of_a_container_is_found() {
        let files = [("memory.max", "9000\n"), ("memory.current", "5000\n")];
        for (group, of) in [("/", "/"), ("/docker/x", "/docker/x"), ("/../y", "/"), ("/docker/x", "/z")] {
            let mounts = format!("30 23 0:26 {of} /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
            check(&format!("0::{group}\n"), &mounts, &files, Some(4000));
        }
        let below = [("in/memory.max", "8000\n"), ("in/memory.current", "5000\n")];
        let mounts = "30 23 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        check("0::/docker/x/in\n", mounts, &[&files[..], &below].concat(), Some(3000));
        assert_eq!(unescaped("/a\\040b\\134"), "/a b\\");
    }
}
