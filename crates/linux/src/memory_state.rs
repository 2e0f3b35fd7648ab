//! Memory of the machine or of a cgroup, and of processes, at an instant.

use crate::cgroup::{MemoryGroup, Version};
use crate::kernel_file::bytes;
use crate::stat::Stat;
use crate::{Error, Root, counters, swap};

/// Memory in bytes, as whoever needs some finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryState {
    /// The limit of the cgroup, or all memory.
    pub total: u64,
    /// What nobody has.
    pub free: u64,
    /// What could be had without swapping.
    pub available: u64,
    /// Pages of files, without shared memory.
    pub files: u64,
    /// Swap areas of every kind.
    pub swap_total: u64,
    /// What is free of them.
    pub swap_free: u64,
    /// Swap areas that are not compressed memory.
    pub disk_swap_total: u64,
    /// What is free of them.
    pub disk_swap_free: u64,
}

/// The memory of the machine.
///
/// # Errors
/// What the operating system refuses.
pub fn of_machine(root: &Root) -> Result<MemoryState, Error> {
    let told = counters::meminfo(root)?;
    let told = |name: &str| told.get(name).copied().unwrap_or(0);
    let mut state = MemoryState {
        total: told("MemTotal"),
        free: told("MemFree"),
        available: told("MemAvailable"),
        files: (told("Cached") + told("Buffers")).saturating_sub(told("Shmem")),
        swap_total: told("SwapTotal"),
        swap_free: told("SwapFree"),
        ..MemoryState::default()
    };
    for area in swap::areas(root)? {
        if !area.path.to_string_lossy().starts_with("/dev/zram") {
            state.disk_swap_total += area.bytes;
            state.disk_swap_free += area.bytes - area.bytes_used.min(area.bytes);
        }
    }
    Ok(state)
}

/// The memory of a cgroup with a limit, beside that of its machine: none where it was removed.
///
/// # Errors
/// What the operating system refuses.
pub fn of_group(
    root: &Root,
    group: &MemoryGroup,
    machine: MemoryState,
) -> Result<Option<MemoryState>, Error> {
    let Some(told) = group.statistics(root)? else { return Ok(None) };
    let number = |name: &str| -> Result<Option<u64>, Error> {
        Ok(root.read(group.folder.join(name))?.and_then(|text| text.trim().parse().ok()))
    };
    let (limit, usage, prefix) = match group.version {
        Version::V1 => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
        Version::V2 => ("memory.max", "memory.current", ""),
    };
    let limit = number(limit)?.unwrap_or(u64::MAX);
    if limit >= machine.total {
        return Ok(Some(machine));
    }
    let Some(used) = number(usage)? else { return Ok(None) };
    let free = limit.saturating_sub(used);
    let told = |name: &str| told.get(&format!("{prefix}{name}")).copied().unwrap_or(0);
    let (active, inactive) = (told("active_file"), told("inactive_file"));
    let (swap_total, swap_used) = match group.version {
        // Both together have a limit there, and what of it is not memory may be swap.
        Version::V1 => {
            let both = number("memory.memsw.limit_in_bytes")?.unwrap_or(u64::MAX);
            (both.saturating_sub(limit), told("swap"))
        }
        Version::V2 => (
            number("memory.swap.max")?.unwrap_or(u64::MAX),
            number("memory.swap.current")?.unwrap_or(0),
        ),
    };
    let rest = |of_machine: u64| swap_total.saturating_sub(swap_used).min(of_machine);
    Ok(Some(MemoryState {
        total: limit,
        free,
        // The kernel reckons so for the machine (si_mem_available in mm/show_mem.c of Linux 6.12), and
        // tells of no group: files that are not in use go, half of the others stays.
        available: free + inactive + active / 2,
        files: active + inactive,
        swap_total: swap_total.min(machine.swap_total),
        swap_free: rest(machine.swap_free),
        disk_swap_total: swap_total.min(machine.disk_swap_total),
        disk_swap_free: rest(machine.disk_swap_free),
    }))
}

/// A process at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessState {
    /// Its name, at most 15 bytes.
    pub name: String,
    /// When it began, in clock ticks since boot.
    pub start: u64,
    /// `oom_score_adj`.
    pub adj: i16,
    /// Bytes in memory.
    pub resident: u64,
    /// Bytes in swap.
    pub swapped: u64,
    /// Clock ticks of processors used so far, by all its threads.
    pub ticks: u64,
}

/// What a process has; none for one that ended meanwhile, or has no memory of its own, such as the
/// kernel's.
pub fn of_process(root: &Root, process: u32) -> Option<ProcessState> {
    let file = |name: &str| root.read(format!("/proc/{process}/{name}")).ok().flatten();
    let (status, stat) = (file("status")?, file("stat")?);
    let stat = Stat::parse(stat.as_bytes())?;
    Some(ProcessState {
        name: String::from_utf8_lossy(stat.name()).into_owned(),
        start: stat.start_ticks()?,
        adj: file("oom_score_adj")?.trim().parse().ok()?,
        resident: bytes(status.as_bytes(), b"VmRSS")?,
        swapped: bytes(status.as_bytes(), b"VmSwap").unwrap_or(0),
        ticks: stat.cpu_ticks()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn this_process_and_machine_are_told() {
        let root = Root::system();
        let machine = of_machine(&root).unwrap();
        assert!(machine.total > 1 << 28 && machine.available <= machine.total);
        assert!(machine.disk_swap_total <= machine.swap_total);
        let own = of_process(&root, std::process::id()).unwrap();
        assert!(own.resident > 1 << 18 && own.start > 0 && (-1000..=1000).contains(&own.adj));
        assert_eq!(of_process(&root, u32::MAX), None);
    }

    #[test]
    fn a_group_has_its_limit_and_its_share_of_swap() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let group = |version| MemoryGroup { folder: "/group".into(), version, id: 1, level: 1 };
        fs::create_dir(folder.path().join("group")).unwrap();
        let write = |name: &str, text: &str| {
            fs::write(folder.path().join("group").join(name), text).unwrap();
        };
        let machine = MemoryState {
            total: 1000,
            swap_total: 300,
            swap_free: 250,
            disk_swap_total: 100,
            disk_swap_free: 60,
            ..MemoryState::default()
        };
        write("memory.stat", "active_file 20\ninactive_file 30\ntotal_active_file 40\n");
        write("memory.max", "400\n");
        write("memory.current", "350\n");
        write("memory.swap.max", "200\n");
        write("memory.swap.current", "90\n");
        let state = of_group(&root, &group(Version::V2), machine).unwrap().unwrap();
        let expected = MemoryState {
            total: 400,
            free: 50,
            available: 90,
            files: 50,
            swap_total: 200,
            swap_free: 110,
            disk_swap_total: 100,
            disk_swap_free: 60,
        };
        assert_eq!(state, expected);

        write("memory.limit_in_bytes", "400\n");
        write("memory.usage_in_bytes", "400\n");
        write("memory.memsw.limit_in_bytes", "400\n");
        let state = of_group(&root, &group(Version::V1), machine).unwrap().unwrap();
        assert_eq!((state.free, state.files, state.available), (0, 40, 20));
        assert_eq!((state.swap_total, state.swap_free), (0, 0));

        // Without a limit of its own it is as well off as the machine.
        write("memory.max", "max\n");
        assert_eq!(of_group(&root, &group(Version::V2), machine).unwrap(), Some(machine));
    }
}
