//! The machine and its clocks.

use std::time::Duration;

use crate::{Error, Root, counters, kernel_file};

/// What kind of machine this is.
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
    /// The machine that this runs on.
    ///
    /// # Errors
    /// What the operating system refuses.
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

/// The kernel's own number of a device, of which the low 20 bits are the minor; `stat` packs them
/// otherwise.
pub fn device_number(major: u32, minor: u32) -> u32 {
    major << 20 | minor
}

/// CLOCK_MONOTONIC in nanoseconds: the clock of BPF records.
pub fn monotonic_ns() -> u64 {
    clock_ns(rustix::time::ClockId::Monotonic) as u64
}

/// CLOCK_REALTIME less CLOCK_MONOTONIC in nanoseconds.
pub fn realtime_offset_ns() -> i64 {
    clock_ns(rustix::time::ClockId::Realtime) - clock_ns(rustix::time::ClockId::Monotonic)
}

/// CPU time of this process so far, that of the kernel on its behalf included.
pub fn processor_time() -> Duration {
    Duration::from_nanos(clock_ns(rustix::time::ClockId::ProcessCPUTime) as u64)
}

/// How many nodes of memory the machine has; one where the kernel does not say, or where their numbers
/// have gaps.
pub fn memory_nodes(root: &Root) -> u32 {
    let text = root.read("/sys/devices/system/node/online").ok().flatten().unwrap_or_default();
    text.trim()
        .strip_prefix("0-")
        .and_then(|last| last.parse::<u32>().ok())
        .map_or(1, |last| last + 1)
}

/// The length of the ticks in which the kernel tells times in `/proc/PID/stat` (USER_HZ).
pub fn tick() -> Duration {
    Duration::from_secs(1) / rustix::param::clock_ticks_per_second().clamp(1, 1_000_000) as u32
}

/// The most memory that this process ever had resident, in bytes; none where the kernel does not say.
pub fn peak_bytes(root: &Root) -> Option<u64> {
    kernel_file::bytes(root.read("/proc/self/status").ok()??.as_bytes(), b"VmHWM")
}

/// Whether each task counts its pages by itself and tells its memory once in 64 faults, as on
/// kernels before 6.2: tracepoint `rss_stat` comes no more often (`sync_mm_rss` in mm/memory.c).
///
/// # Errors
/// What the operating system refuses.
pub fn counts_pages_by_task(root: &Root) -> Result<bool, Error> {
    Ok(Symbols::read(root)?.has("sync_mm_rss"))
}

/// The names of the kernel's functions and their places, `/proc/kallsyms`.
#[derive(Debug)]
pub struct Symbols(String);

impl Symbols {
    /// Those now; none where the kernel tells none.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn read(root: &Root) -> Result<Symbols, Error> {
        Ok(Symbols(root.read("/proc/kallsyms")?.unwrap_or_default()))
    }

    /// Whether the kernel has a function `name`.
    pub fn has(&self, name: &str) -> bool {
        self.iter().any(|(_, own)| own == name)
    }

    /// Address and name of each. The address is hexadecimal, and 0 for whoever may not know.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            Some((words.next()?, words.nth(1)?))
        })
    }
}

/// The numbers of the calls that send a signal to a process or thread, and of the one that takes a dying
/// process's memory: kill, tkill, tgkill, rt_sigqueueinfo, pidfd_send_signal, process_mrelease.
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
    fn nodes_of_memory_are_counted_if_their_numbers_have_no_gaps() {
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
    fn who_counts_pages_is_told_by_the_kernels_functions() {
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
