//! Reads the state of memory of the machine or of a group, from files that stay open. Figures that the kernel
//! does not report are absent.

use crate::cgroup::{MemoryGroup, Version};
use crate::kernel_file::{KernelFile, bytes, field};
use crate::pressure::{self, Pressure};
use crate::zones::{self, Zones};
use crate::{Error, Root};

/// The size of the buffer for the longest file, `/proc/vmstat`; the counters that are read come early in it.
const ROOM: usize = 16 << 10;
const SHORT: usize = 256;

/// The state of memory of a machine or of a group, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryState {
    /// The memory of the machine, or the limit of the group.
    pub total: u64,
    /// Unused memory.
    pub free: u64,
    /// Memory that can be allocated without swapping: `free <= available <= total`.
    pub available: u64,
    /// Pages of files, without shared memory.
    pub files: u64,
    /// The size of all swap areas.
    pub swap_total: u64,
    /// Free bytes of all swap areas.
    pub swap_free: u64,
    /// The size of swap areas on disks, without zram.
    pub disk_swap_total: u64,
    /// Free bytes of swap areas on disks.
    pub disk_swap_free: u64,
    /// The watermarks; a group has none, so it gets those of a machine of its size.
    pub zones: Option<Zones>,
    /// The stall times of tasks.
    pub pressure: Option<Pressure>,
    /// Pages scanned by direct reclaim so far.
    pub scanned_directly: Option<u64>,
    /// Pages scanned by `kswapd` so far.
    pub scanned_by_kswapd: Option<u64>,
    /// Refaults of file pages so far.
    pub file_refaults: Option<u64>,
}

/// The open files about the memory of a machine or of a group.
#[derive(Debug)]
pub struct Gauge {
    machine: Machine,
    group: Option<Group>,
    pressure: Option<KernelFile>,
}

#[derive(Debug)]
struct Machine {
    meminfo: KernelFile,
    vmstat: Option<KernelFile>,
    swaps: Option<KernelFile>,
    zones: Option<Zones>,
}

#[derive(Debug)]
struct Group {
    version: Version,
    usage: KernelFile,
    limit: Option<KernelFile>,
    /// Version 2: swap; version 1: memory and swap together.
    swap_usage: Option<KernelFile>,
    swap_limit: Option<KernelFile>,
    statistics: Option<KernelFile>,
    /// The smallest limit of the groups above.
    limit_above: u64,
}

impl Gauge {
    /// Opens the files about the memory of `group`, or of the machine.
    ///
    /// # Errors
    /// The operating system refuses, or does not report memory.
    pub fn open(root: &Root, group: Option<&MemoryGroup>) -> Result<Gauge, Error> {
        let meminfo = KernelFile::open(root, "/proc/meminfo", ROOM)?
            .ok_or_else(|| Error::unexpected("/proc/meminfo", "there is no such file"))?;
        let machine = Machine {
            meminfo,
            vmstat: KernelFile::open(root, "/proc/vmstat", ROOM)?,
            swaps: KernelFile::open(root, "/proc/swaps", ROOM / 4)?,
            zones: zones::zones(root)?,
        };
        let pressure = match group {
            None => KernelFile::open(root, "/proc/pressure/memory", SHORT),
            Some(group) => KernelFile::open(root, group.folder.join("memory.pressure"), SHORT),
        };
        // The kernel refuses this file if PSI is compiled in but off.
        let pressure = pressure.ok().flatten();
        let group = group.map(|group| Group::open(root, group)).transpose()?;
        Ok(Gauge { machine, group, pressure })
    }

    /// Whether the kernel reports stall times here.
    pub fn tells_pressure(&self) -> bool {
        self.pressure.is_some()
    }

    /// Bytes of shared memory and tmpfs files; None if the kernel does not report them.
    pub fn shared(&mut self) -> Option<u64> {
        match &mut self.group {
            None => bytes(self.machine.meminfo.text()?, b"Shmem"),
            Some(group) => {
                let name: &[u8] = match group.version {
                    Version::V2 => b"shmem",
                    Version::V1 => b"total_shmem",
                };
                field(group.statistics.as_mut()?.text()?, name)
            }
        }
    }

    /// Reads the state of memory; with `is_near` also the figures that explain why memory is short. None once
    /// the group is removed.
    pub fn read(&mut self, is_near: bool) -> Option<MemoryState> {
        let mut memory = self.machine.read()?;
        if let Some(group) = &mut self.group {
            memory = group.read(&memory, is_near)?;
        } else if is_near {
            self.machine.count(&mut memory);
        }
        if is_near {
            let text = self.pressure.as_mut().and_then(KernelFile::text);
            memory.pressure =
                text.and_then(|text| pressure::parse(std::str::from_utf8(text).ok()?));
        }
        Some(memory)
    }
}

impl Machine {
    fn read(&mut self) -> Option<MemoryState> {
        let text = self.meminfo.text()?;
        let bytes = |name: &[u8]| bytes(text, name);
        let (total, free) = (bytes(b"MemTotal")?, bytes(b"MemFree")?);
        let swap_total = bytes(b"SwapTotal").unwrap_or(0);
        let swap_free = bytes(b"SwapFree").unwrap_or(0);
        let cached = bytes(b"Cached").unwrap_or(0) + bytes(b"Buffers").unwrap_or(0);
        let available = bytes(b"MemAvailable").unwrap_or(free + cached);
        let files = cached.saturating_sub(bytes(b"Shmem").unwrap_or(0));
        let disk = match swap_total {
            0 => (0, 0),
            _ => self.swaps.as_mut().and_then(|file| disk_swap(file.text()?)).unwrap_or((0, 0)),
        };
        Some(MemoryState {
            total,
            free: free.min(total),
            available: available.clamp(free.min(total), total),
            files,
            swap_total,
            swap_free,
            disk_swap_total: disk.0,
            disk_swap_free: disk.1,
            zones: self.zones,
            ..MemoryState::default()
        })
    }

    fn count(&mut self, memory: &mut MemoryState) {
        let Some(text) = self.vmstat.as_mut().and_then(KernelFile::text) else { return };
        memory.scanned_directly = field(text, b"pgscan_direct");
        memory.scanned_by_kswapd = field(text, b"pgscan_kswapd");
        // Before Linux 5.9 one counter has the refaults of all pages.
        memory.file_refaults =
            field(text, b"workingset_refault_file").or_else(|| field(text, b"workingset_refault"));
    }
}

impl Group {
    fn open(root: &Root, group: &MemoryGroup) -> Result<Group, Error> {
        let [usage, limit, swap_usage, swap_limit] = match group.version {
            Version::V2 => {
                ["memory.current", "memory.max", "memory.swap.current", "memory.swap.max"]
            }
            Version::V1 => [
                "memory.usage_in_bytes",
                "memory.limit_in_bytes",
                "memory.memsw.usage_in_bytes",
                "memory.memsw.limit_in_bytes",
            ],
        };
        let open = |name: &str, room| KernelFile::open(root, group.folder.join(name), room);
        let required = open(usage, SHORT)?.ok_or_else(|| {
            let what = "has no memory files: the memory controller is not enabled here";
            Error::unexpected(&group.folder, what)
        })?;
        Ok(Group {
            version: group.version,
            usage: required,
            limit: open(limit, SHORT)?,
            swap_usage: open(swap_usage, SHORT)?,
            swap_limit: open(swap_limit, SHORT)?,
            statistics: open("memory.stat", ROOM)?,
            limit_above: limit_above(root, group, limit),
        })
    }

    /// Reads the state of the group, which is bounded by that of `machine`.
    fn read(&mut self, machine: &MemoryState, is_near: bool) -> Option<MemoryState> {
        let used = self.usage.number()?;
        let own = self.limit.as_mut().and_then(KernelFile::number).unwrap_or(u64::MAX);
        let total = own.min(self.limit_above).min(machine.total);
        let free = total.saturating_sub(used).min(machine.free.max(machine.available));
        let mut memory = MemoryState { total, free, ..MemoryState::default() };
        self.read_files(&mut memory, is_near);
        self.read_swap(machine, used, &mut memory);
        // A group has no watermarks; these are the kernel's for a machine of its size.
        let min = total / 256;
        let (low, high) = (min * 5 / 4, min * 3 / 2);
        memory.zones =
            Some(Zones { min_bytes: min, low_bytes: low, high_bytes: high, reserved_bytes: 0 });
        Some(memory)
    }

    /// Reads the file pages of the group; the inactive ones and half of the active ones count as available.
    fn read_files(&mut self, memory: &mut MemoryState, is_near: bool) {
        memory.available = memory.free;
        let Some(text) = self.statistics.as_mut().and_then(KernelFile::text) else { return };
        let (active, inactive): (&[u8], &[u8]) = match self.version {
            Version::V2 => (b"active_file", b"inactive_file"),
            Version::V1 => (b"total_active_file", b"total_inactive_file"),
        };
        let active = field(text, active).unwrap_or(0);
        let inactive = field(text, inactive).unwrap_or(0);
        memory.files = active + inactive;
        // The kernel's estimate for the machine (si_mem_available in mm/show_mem.c of Linux 6.12), which it
        // does not make for groups: inactive file pages go, half of the active ones stay.
        let available = memory.free + inactive + active / 2;
        memory.available = available.min(memory.total);
        if is_near {
            memory.scanned_directly = field(text, b"pgscan_direct");
            memory.scanned_by_kswapd = field(text, b"pgscan_kswapd");
            memory.file_refaults = field(text, b"workingset_refault_file");
        }
    }

    /// Reads the swap that the group may use: bounded by its limit and by the machine's swap.
    fn read_swap(&mut self, machine: &MemoryState, memory_used: u64, memory: &mut MemoryState) {
        if machine.swap_total == 0 {
            return;
        }
        let number = |file: &mut Option<KernelFile>| file.as_mut().and_then(KernelFile::number);
        let (usage, limit) = (number(&mut self.swap_usage), number(&mut self.swap_limit));
        let (used, total) = match self.version {
            Version::V2 => (usage, limit.unwrap_or(u64::MAX)),
            // Version 1 limits memory and swap together; a group at its limit of memory may swap the rest.
            Version::V1 => (
                usage.map(|both| both.saturating_sub(memory_used)),
                limit.map_or(u64::MAX, |both| both.saturating_sub(memory.total)),
            ),
        };
        let used = used.unwrap_or(0);
        let total = total.min(machine.swap_total);
        let free = total.saturating_sub(used);
        memory.swap_total = total;
        memory.swap_free = free.min(machine.swap_free);
        memory.disk_swap_total = total.min(machine.disk_swap_total);
        memory.disk_swap_free = free.min(machine.disk_swap_free);
    }
}

/// The smallest limit of the groups above `group`; `u64::MAX` for no limit.
fn limit_above(root: &Root, group: &MemoryGroup, limit: &str) -> u64 {
    let above = group.folder.ancestors().skip(1).take(group.level as usize);
    let limits = above.filter_map(|folder| {
        let text = root.read(folder.join(limit)).ok()??;
        text.trim().parse::<u64>().ok()
    });
    limits.min().unwrap_or(u64::MAX)
}

/// The size of the swap areas on disks, and their free bytes.
fn disk_swap(text: &[u8]) -> Option<(u64, u64)> {
    let (mut total, mut free) = (0, 0);
    // The first line names the columns: path, kind, size and used in KiB, priority.
    for line in text.split(|&byte| byte == b'\n').skip(1) {
        let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        let Some(path) = fields.next() else { continue };
        if path.windows(5).any(|part| part == b"/zram") {
            continue;
        }
        let mut number = |skip| {
            let field = fields.nth(skip)?;
            std::str::from_utf8(field).ok()?.parse::<u64>().ok()
        };
        let (size, used) = (number(1)?, number(0)?);
        total += size << 10;
        free += size.saturating_sub(used) << 10;
    }
    Some((total, free))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const MIB: u64 = 1 << 20;

    /// A machine of 1000 MiB with 100 MiB of swap on a disk and 100 MiB on zram.
    fn machine() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let meminfo = "MemTotal: 1024000 kB\nMemFree: 102400 kB\nMemAvailable: 204800 kB\n\
                       Buffers: 1024 kB\nCached: 103424 kB\nSwapTotal: 204800 kB\n\
                       SwapFree: 153600 kB\nShmem: 2048 kB\n";
        let swaps = "Filename\tType\tSize\tUsed\tPriority\n\
                     /dev/zram0 partition\t102400\t51200\t100\n/dev/sda2 partition\t102400\t0\t-2\n";
        let vmstat = "pgscan_kswapd 7\npgscan_direct 8\nworkingset_refault_file 9\n";
        let pressure = "some avg10=12.34 avg60=0.00 avg300=0.00 total=9\n\
                        full avg10=5.00 avg60=0.00 avg300=0.00 total=1\n";
        write(&root, "/proc/meminfo", meminfo);
        write(&root, "/proc/swaps", swaps);
        write(&root, "/proc/vmstat", vmstat);
        let zoneinfo = "Node 0, zone DMA\n  pages free 3\n        min 5\n        low 6\n        high 7\n\
                        managed 100\n        protection: (0, 30)\n";
        write(&root, "/proc/pressure/memory", pressure);
        write(&root, "/proc/zoneinfo", zoneinfo);
        (folder, root)
    }

    fn write(root: &Root, path: &str, text: &str) {
        let path = root.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn a_machine_is_read() {
        let (_folder, root) = machine();
        let mut gauge = Gauge::open(&root, None).unwrap();
        let far = gauge.read(false).unwrap();
        assert_eq!((far.total, far.free), (1000 * MIB, 100 * MIB));
        assert_eq!((far.available, far.files), (200 * MIB, 100 * MIB));
        assert_eq!((far.swap_total, far.swap_free), (200 * MIB, 150 * MIB));
        assert_eq!((far.disk_swap_total, far.disk_swap_free), (100 * MIB, 100 * MIB));
        assert_eq!((far.pressure, far.file_refaults), (None, None));
        let page = rustix::param::page_size() as u64;
        let zones = Zones {
            min_bytes: 5 * page,
            low_bytes: 6 * page,
            high_bytes: 7 * page,
            reserved_bytes: 37 * page,
        };
        assert_eq!(far.zones, Some(zones));
        let near = gauge.read(true).unwrap();
        let pressure = near.pressure.unwrap();
        assert_eq!((pressure.some_basis_points, pressure.full_basis_points), (1234, 500));
        assert_eq!((pressure.some_us, pressure.full_us), (9, 1));
        assert_eq!(near.scanned_by_kswapd, Some(7));
        assert_eq!((near.scanned_directly, near.file_refaults), (Some(8), Some(9)));
    }

    fn group(version: Version, folder: &str) -> MemoryGroup {
        MemoryGroup { folder: Path::new(folder).to_owned(), version, id: 1, level: 1 }
    }

    #[test]
    fn a_group_of_version_2_has_its_own_memory_and_swap() {
        let (_folder, root) = machine();
        for (name, text) in [
            ("memory.current", "94371840\n"),
            ("memory.max", "104857600\n"),
            ("memory.swap.current", "10485760\n"),
            ("memory.swap.max", "20971520\n"),
            (
                "memory.stat",
                "anon 1\nactive_file 2097152\ninactive_file 1048576\npgscan_direct 3\n",
            ),
            ("memory.pressure", "some avg10=1.00 total=8\nfull avg10=0.50 total=4\n"),
        ] {
            write(&root, &format!("/group/{name}"), text);
        }
        let mut gauge = Gauge::open(&root, Some(&group(Version::V2, "/group"))).unwrap();
        let memory = gauge.read(true).unwrap();
        assert_eq!((memory.total, memory.free), (100 * MIB, 10 * MIB));
        assert_eq!((memory.available, memory.files), (12 * MIB, 3 * MIB));
        assert_eq!((memory.swap_total, memory.swap_free), (20 * MIB, 10 * MIB));
        assert_eq!(memory.scanned_directly, Some(3));
        assert_eq!(memory.pressure.unwrap().full_basis_points, 50);
        // The group does not report it: it is absent, not the machine's.
        assert_eq!(memory.file_refaults, None);
        // The watermarks of a machine of 100 MiB.
        let zones = memory.zones.unwrap();
        assert_eq!((zones.min_bytes, zones.high_bytes), (409_600, 614_400));
        assert_eq!(zones.reserved_bytes, 0);
        // A group without a limit, below a group with a limit.
        write(&root, "/group/inner/memory.current", "0\n");
        write(&root, "/group/inner/memory.max", "max\n");
        let mut inner = group(Version::V2, "/group/inner");
        inner.level = 2;
        let memory = Gauge::open(&root, Some(&inner)).unwrap().read(true).unwrap();
        assert_eq!((memory.total, memory.pressure), (100 * MIB, None));
    }

    #[test]
    fn a_group_of_version_1_counts_memory_and_swap_together() {
        let (_folder, root) = machine();
        for (name, text) in [
            ("memory.usage_in_bytes", "94371840\n"),
            ("memory.limit_in_bytes", "104857600\n"),
            ("memory.memsw.usage_in_bytes", "104857600\n"),
            ("memory.memsw.limit_in_bytes", "125829120\n"),
            ("memory.stat", "total_inactive_file 0\ntotal_active_file 0\n"),
        ] {
            write(&root, &format!("/group/{name}"), text);
        }
        let mut gauge = Gauge::open(&root, Some(&group(Version::V1, "/group"))).unwrap();
        let memory = gauge.read(true).unwrap();
        assert_eq!((memory.total, memory.available), (100 * MIB, 10 * MIB));
        assert_eq!((memory.swap_total, memory.swap_free), (20 * MIB, 10 * MIB));
        // A group without the files of the memory controller.
        let error = Gauge::open(&root, Some(&group(Version::V1, "/none"))).unwrap_err();
        assert!(error.to_string().contains("the memory controller is not enabled here"), "{error}");
    }
}
