//! How much may be prefetched: what the machine has available, and what the limits of the application's memory cgroup
//! and of the groups above it leave.
//!
//! File pages are available, since the kernel drops them first. While swap is free, so is inactive anonymous memory if
//! the settings let prefetches displace it: mostly frozen applications, whose pages relaunchd has made inactive. A group
//! that is full most of the time has no other memory to give.

use std::path::{Path, PathBuf};

use linux::cgroup::{Hierarchy, Version};
use linux::counters::{self, Counters};
use linux::{Root, process};

/// What is available, and what limits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub bytes: u64,
    /// The group whose limit leaves least; None for the machine.
    pub group: Option<PathBuf>,
}

/// The room for an application with this process; `is_displacing` counts inactive anonymous memory. A figure that the
/// kernel does not report does not limit.
pub(crate) fn room(root: &Root, process: Option<u32>, is_displacing: bool) -> Room {
    let machine = counters::meminfo(root).unwrap_or_default();
    let value = |name: &str| machine.get(name).copied();
    let swap_free = if is_displacing { value("SwapFree").unwrap_or(0) } else { 0 };
    let inactive = value("Inactive(anon)").unwrap_or(0).min(swap_free);
    let available = value("MemAvailable").unwrap_or(u64::MAX);
    let mut room = Room { bytes: available.saturating_add(inactive), group: None };
    let group = process.and_then(|process| process::memory_group(root, process));
    let hierarchy = Hierarchy::of(root, "memory").ok().flatten();
    let Some((hierarchy, group)) = hierarchy.zip(group) else { return room };
    let folder = hierarchy.mount.join(group.trim_start_matches('/'));
    for folder in folder.ancestors().take_while(|folder| folder.starts_with(&hierarchy.mount)) {
        let left = left_of(root, folder, hierarchy.version, swap_free);
        if let Some(left) = left.filter(|left| *left < room.bytes) {
            room = Room { bytes: left, group: Some(folder.to_owned()) };
        }
    }
    room
}

/// What the limit of a group leaves; None without a limit.
fn left_of(root: &Root, folder: &Path, version: Version, swap_free: u64) -> Option<u64> {
    let text = |name: &str| root.read(folder.join(name)).ok().flatten();
    let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
    let (limits, usage, prefix): (&[&str], _, _) = match version {
        Version::V1 => (&["memory.limit_in_bytes"], "memory.usage_in_bytes", "total_"),
        Version::V2 => (&["memory.max", "memory.high"], "memory.current", ""),
    };
    let limit = limits.iter().filter_map(|name| number(name)).min()?;
    let used = number(usage)?;
    let statistics: Counters = text("memory.stat").map(|text| counters::parse(&text))?;
    let value = |name: &str| statistics.get(&format!("{prefix}{name}")).copied().unwrap_or(0);
    let files = value("inactive_file") + value("active_file");
    let inactive = value("inactive_anon").min(swap_free);
    let kept = used.saturating_sub(files + inactive);
    Some(limit.saturating_sub(kept))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const MIB: u64 = 1 << 20;

    /// A machine with 100 MiB available, 40 MiB of inactive anonymous memory, and 30 MiB of free swap.
    fn machine(mounts: &str, cgroup: &str) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let meminfo = "MemAvailable: 102400 kB\nInactive(anon): 40960 kB\nSwapFree: 30720 kB\n";
        write(&root, "/proc/meminfo", meminfo);
        write(&root, "/proc/self/mounts", mounts);
        write(&root, "/proc/7/cgroup", cgroup);
        let stat = "7 (x) S 1 7 7 0 -1 64 5 0 6 0 11 12 0 0 20 0 1 0 9 0";
        write(&root, "/proc/7/stat", stat);
        (folder, root)
    }

    fn write(root: &Root, path: &str, text: &str) {
        fs::create_dir_all(root.path(path).parent().unwrap()).unwrap();
        fs::write(root.path(path), text).unwrap();
    }

    #[test]
    fn the_smallest_of_all_limits_counts() {
        let (_folder, root) = machine("m /m cgroup rw,memory 0 0\n", "4:memory:/phone/notes\n");
        assert_eq!(room(&root, None, true).bytes, 130 * MIB);
        assert_eq!(room(&root, Some(7), false), Room { bytes: 100 * MIB, group: None });
        let group = |path: &str, limit: u64, usage: u64, statistics: &str| {
            write(&root, &format!("{path}/memory.limit_in_bytes"), &format!("{limit}\n"));
            write(&root, &format!("{path}/memory.usage_in_bytes"), &format!("{usage}\n"));
            write(&root, &format!("{path}/memory.stat"), statistics);
        };
        group("/m/phone/notes", 9_223_372_036_854_771_712, 5 * MIB, "");
        let files = "total_inactive_file 5242880\ntotal_active_file 5242880\n\
                     total_inactive_anon 20971520\n";
        group("/m/phone", 50 * MIB, 50 * MIB, files);
        let expected = |bytes| Room { bytes, group: Some(PathBuf::from("/m/phone")) };
        assert_eq!(room(&root, Some(7), true), expected(30 * MIB));
        assert_eq!(room(&root, Some(7), false), expected(10 * MIB));
        // A group over its limit.
        group("/m/phone", 50 * MIB, 90 * MIB, "");
        assert_eq!(room(&root, Some(7), true), expected(0));
        // A process that has ended.
        assert_eq!(room(&root, Some(8), true).group, None);
    }

    #[test]
    fn version_2_has_two_limits() {
        let (_folder, root) = machine("c /c cgroup2 rw 0 0\n", "0::/notes\n");
        write(&root, "/c/cgroup.controllers", "memory\n");
        for (name, text) in [
            ("max", "max\n"),
            ("high", "10485760\n"),
            ("current", "8388608\n"),
            ("stat", "inactive_file 1048576\nactive_file 0\ninactive_anon 0\n"),
        ] {
            write(&root, &format!("/c/notes/memory.{name}"), text);
        }
        assert_eq!(room(&root, Some(7), true).bytes, 3 * MIB);
    }
}
