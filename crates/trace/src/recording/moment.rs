//! Memory and processes at one instant, as a low-memory killer sees them.

use serde::{Deserialize, Serialize};

/// Memory and processes at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub time_ns: u64,
    /// Memory of the recorded cgroup, or of the machine.
    pub memory: MemoryState,
    /// Every process of the cgroup or machine with memory of its own, by pid.
    pub processes: Vec<ProcessState>,
    /// The process that gets SIGKILL at this instant, if the moment was taken for it. It still has all of
    /// its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim: Option<u32>,
}

/// Memory of a cgroup or of a machine, in bytes. Values that the kernel does not report are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryState {
    /// The limit of the cgroup, or all memory.
    pub total: u64,
    /// Free memory.
    pub free: u64,
    /// Memory available without swapping (`MemAvailable`).
    pub available: u64,
    /// File pages, without shared memory.
    pub files: u64,
    /// Size of all swap areas.
    pub swap_total: u64,
    /// Free part of all swap areas.
    pub swap_free: u64,
    /// Size of the swap areas outside compressed memory.
    pub disk_swap_total: u64,
    /// Free part of the swap areas outside compressed memory.
    pub disk_swap_free: u64,
    /// Shared memory and files in memory; absent if not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<u64>,
    /// Free memory that the kernel reserves for itself; unknown if `watermarks` are absent.
    pub reserved: u64,
    /// The watermarks min, low and high: free memory below which only the kernel allocates, below which
    /// `kswapd` wakes, and above which it sleeps. A cgroup has none; it gets those of a machine of its
    /// size. Absent if not recorded.
    pub watermarks: Option<[u64; 3]>,
    /// Microseconds in which some task stalled for memory, so far.
    pub some_us: Option<u64>,
    /// Microseconds in which every task stalled for memory, so far.
    pub full_us: Option<u64>,
    /// Pages scanned by direct reclaim, so far.
    pub scanned_directly: Option<u64>,
    /// Pages scanned by `kswapd`, so far.
    pub scanned_by_kswapd: Option<u64>,
    /// Refaults of file pages, so far.
    pub file_refaults: Option<u64>,
}

/// A process at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessState {
    /// Pid of the process.
    pub process: u32,
    /// Name of the process, at most 15 bytes.
    pub name: String,
    /// Start of the process in clock ticks since boot. A later process may have the same pid, but not the
    /// same start.
    pub start: u64,
    /// `oom_score_adj` of the process.
    pub adj: i16,
    /// Resident bytes.
    pub resident: u64,
    /// Bytes in swap.
    pub swapped: u64,
    /// CPU time so far, in clock ticks.
    pub ticks: u64,
    /// The part of its CPU time in user mode, in clock ticks; absent if not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_ticks: Option<u64>,
    /// Resident anonymous bytes, without shared memory; absent if not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<u64>,
    /// Major faults so far.
    #[serde(default, skip_serializing_if = "is_default")]
    pub major_faults: u64,
    /// Number of its memory cgroup in this recording, from 1; 0 if not recorded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group: u32,
    /// Whether the process got SIGKILL.
    #[serde(default, skip_serializing_if = "is_default")]
    pub life: Liveness,
    /// What the end of the process frees; `None` if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<Weight>,
    /// Pid of its parent; 0 if not recorded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parent: u32,
    /// Id of its process group; 0 if not recorded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub process_group: u32,
}

/// The bytes that the end of a process frees while all other processes live: memory and swap that it does
/// not share. Older recordings do not have what it shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weight {
    /// Freed memory.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory: u64,
    /// Freed swap.
    #[serde(default, skip_serializing_if = "is_default")]
    pub swapped: u64,
    /// Proportional share of memory that comes back with the last process that uses it; absent if the
    /// process shares none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<u64>,
    /// The part of its proportional share that is shared memory without a name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shared: u64,
    /// Whether the process uses its parent's memory: it is between vfork and exec.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_borrowed: bool,
    /// CLOCK_MONOTONIC in nanoseconds when it was measured; 0 if not recorded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub time_ns: u64,
}

impl ProcessState {
    /// What the end of the process frees. Without a weight, all its anonymous memory and swap, which
    /// is an upper bound.
    pub fn freed(&self) -> Weight {
        let memory = self.own.unwrap_or(self.resident);
        let most = Weight { memory, swapped: self.swapped, ..Weight::default() };
        self.weight.unwrap_or(most)
    }
}

/// Whether a process got SIGKILL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Liveness {
    /// The process did not get SIGKILL.
    #[default]
    Living,
    /// The process got SIGKILL and frees its memory.
    Dying,
    /// The process got SIGKILL and freed no memory for [`STUCK_AFTER_NS`].
    Stuck,
}

/// Time without freed memory after which a dying process is stuck. By default, `killd` waits as long
/// before it chooses another victim (`kill_timeout_ms`).
pub const STUCK_AFTER_NS: u64 = 100_000_000;

fn is_default<Part: Default + PartialEq>(part: &Part) -> bool {
    *part == Part::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_older_recordings_have_no_weight() {
        let text =
            r#"{"process":7,"name":"x","start":1,"adj":0,"resident":90,"swapped":5,"ticks":0"#;
        let old: ProcessState = serde_json::from_str(&format!("{text}}}")).unwrap();
        assert_eq!(old.weight, None);
        let freed = |memory| Weight { memory, swapped: 5, ..Weight::default() };
        assert_eq!(old.freed(), freed(90));
        let with_own: ProcessState = serde_json::from_str(&format!("{text},\"own\":80}}")).unwrap();
        assert_eq!(with_own.freed(), freed(80));
        assert_eq!(serde_json::to_string(&old).unwrap(), format!("{text}}}"));
    }

    #[test]
    fn a_weight_is_read_as_written_and_replaces_other_figures() {
        let nothing = Weight::default();
        let shared = Weight { share: Some(0), shared: 2, is_borrowed: true, ..nothing };
        for weight in [nothing, Weight { memory: 3, swapped: 4, ..nothing }, shared] {
            let state = ProcessState { own: Some(80), weight: Some(weight), ..Default::default() };
            let text = serde_json::to_string(&state).unwrap();
            assert_eq!(serde_json::from_str::<ProcessState>(&text).unwrap(), state, "{text}");
            assert_eq!(state.freed(), weight);
        }
    }
}
