//! The machine, its clocks and the kernel's symbols.

use std::time::Duration;

use crate::{Error, Root, counters, kernel_file};

/// The machine's kernel, processors and memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub architecture: String,
    /// Processors that this process may use.
    pub processors: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes per page.
    pub page_bytes: u64,
}

impl Machine {
    /// The machine on which this program runs.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn this(root: &Root) -> Result<Machine, Error> {
        let names = rustix::system::uname();
        let memory = counters::meminfo(root)?;
        Ok(Machine {
            kernel: names.release().to_string_lossy().into_owned(),
            architecture: names.machine().to_string_lossy().into_owned(),
            processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
            memory_bytes: memory.get("MemTotal").copied().unwrap_or(0),
            page_bytes: rustix::param::page_size() as u64,
        })
    }
}

/// Bytes of a base page.
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// The kernel's internal device number: the low 20 bits are the minor. `stat` encodes it differently.
pub fn device_number(major: u32, minor: u32) -> u32 {
    major << 20 | minor
}

/// CLOCK_MONOTONIC in nanoseconds: the clock of BPF records.
pub fn monotonic_ns() -> u64 {
    clock_ns(rustix::time::ClockId::Monotonic) as u64
}

/// CLOCK_REALTIME minus CLOCK_MONOTONIC in nanoseconds.
pub fn realtime_offset_ns() -> i64 {
    clock_ns(rustix::time::ClockId::Realtime) - clock_ns(rustix::time::ClockId::Monotonic)
}

/// CPU time of this process so far, in user and kernel mode.
pub fn processor_time() -> Duration {
    Duration::from_nanos(clock_ns(rustix::time::ClockId::ProcessCPUTime) as u64)
}

/// The number of NUMA nodes; 1 if the kernel does not report it, or if their numbers have gaps.
pub fn memory_nodes(root: &Root) -> u32 {
    let text = root.read("/sys/devices/system/node/online").ok().flatten().unwrap_or_default();
    text.trim()
        .strip_prefix("0-")
        .and_then(|last| last.parse::<u32>().ok())
        .map_or(1, |last| last + 1)
}

/// The length of a tick, the unit of times in `/proc/PID/stat` (USER_HZ).
pub fn tick() -> Duration {
    Duration::from_secs(1) / rustix::param::clock_ticks_per_second().clamp(1, 1_000_000) as u32
}

/// The peak resident memory of this process, in bytes; None if the kernel does not report it.
pub fn peak_bytes(root: &Root) -> Option<u64> {
    kernel_file::bytes(root.read("/proc/self/status").ok()??.as_bytes(), b"VmHWM")
}

/// Whether each task counts its own pages and adds them to its mm only every 64 faults, as before Linux 6.2.
/// The tracepoint `rss_stat` then comes only that often (`sync_mm_rss` in mm/memory.c).
///
/// # Errors
/// The operating system refuses.
pub fn counts_pages_by_task(root: &Root) -> Result<bool, Error> {
    Ok(Symbols::read(root)?.has("sync_mm_rss"))
}

/// The kernel's symbols and their addresses, `/proc/kallsyms`.
#[derive(Debug)]
pub struct Symbols(String);

impl Symbols {
    /// Reads the symbols; empty if the kernel does not show them.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn read(root: &Root) -> Result<Symbols, Error> {
        Ok(Symbols(root.read("/proc/kallsyms")?.unwrap_or_default()))
    }

    /// Whether the kernel has the symbol `name`.
    pub fn has(&self, name: &str) -> bool {
        self.iter().any(|(_, own)| own == name)
    }

    /// The address and the name of each symbol. The address is hexadecimal, and 0 without the privilege to see it.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            Some((words.next()?, words.nth(1)?))
        })
    }
}

/// The numbers of the system calls that send a signal, and of process_mrelease: kill, tkill, tgkill,
/// rt_sigqueueinfo, pidfd_send_signal, process_mrelease.
pub fn kill_calls() -> [u64; 6] {
    [
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_tgkill,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_pidfd_send_signal,
        libc::SYS_process_mrelease,
    ]
    .map(|number| number as u64)
}

fn clock_ns(clock: rustix::time::ClockId) -> i64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numa_nodes_are_counted_if_their_numbers_have_no_gaps() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let path = folder.path().join("sys/devices/system/node");
        std::fs::create_dir_all(&path).unwrap();
        assert_eq!(memory_nodes(&root), 1);
        for (text, count) in [("0\n", 1), ("0-3\n", 4), ("0,2\n", 1), ("0-1,3\n", 1)] {
            std::fs::write(path.join("online"), text).unwrap();
            assert_eq!(memory_nodes(&root), count, "{text}");
        }
    }

    #[test]
    fn kernels_with_sync_mm_rss_count_pages_by_task() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert!(!counts_pages_by_task(&root).unwrap());
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        for (symbols, is_by_task) in [
            ("0000000000000000 T sync_mm_rss\n", true),
            ("0000000000000000 t mm_trace_rss_stat\n0000000000000000 t not_sync_mm_rss\n", false),
        ] {
            std::fs::write(folder.path().join("proc/kallsyms"), symbols).unwrap();
            assert_eq!(counts_pages_by_task(&root).unwrap(), is_by_task);
        }
    }
}
