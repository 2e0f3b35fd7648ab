//! Memory and processes at one instant, as a low-memory killer sees them.

use serde::{Deserialize, Serialize};

/// Memory and processes at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub time_ns: u64,
    /// Of the recorded cgroup, or else of the machine.
    pub memory: MemoryState,
    /// Every process of it that has memory of its own, by number.
    pub processes: Vec<ProcessState>,
    /// The process that is told to die at this instant, if the moment was taken for it: it still has all
    /// of its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim: Option<u32>,
}

/// Memory of a cgroup or of a machine, in bytes. What the kernel does not tell is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// What the kernel keeps of the free memory for itself; not known where `watermarks` are not.
    pub reserved: u64,
    /// Free memory below which only the kernel allocates, below which `kswapd` is woken, and above
    /// which it sleeps. Of a cgroup, which has none, where they would lie on a machine of its size.
    /// Absent where it was not recorded.
    pub watermarks: Option<[u64; 3]>,
    /// Microseconds in which some task stalled for memory, so far.
    pub some_us: Option<u64>,
    /// Microseconds in which every task stalled for memory, so far.
    pub full_us: Option<u64>,
    /// Pages looked at by whoever needed memory at once, so far.
    pub scanned_directly: Option<u64>,
    /// Pages looked at by `kswapd`, so far.
    pub scanned_by_kswapd: Option<u64>,
    /// Pages of files that were read again soon after they had been evicted, so far.
    pub file_refaults: Option<u64>,
}

/// A process at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessState {
    /// Its number.
    pub process: u32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// When it began, in clock ticks since boot: a number may come again, not with the same start.
    pub start: u64,
    /// `oom_score_adj`.
    pub adj: i16,
    /// Bytes in memory.
    pub resident: u64,
    /// Bytes in swap.
    pub swapped: u64,
    /// Clock ticks of processors used so far.
    pub ticks: u64,
    /// Bytes in memory that are no file's and no shared memory's; absent where it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<u64>,
    /// Pages read from storage so far.
    #[serde(default, skip_serializing_if = "is_default")]
    pub major_faults: u64,
    /// The number that all processes of its memory cgroup have in this recording, from 1; 0 where it was
    /// not recorded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group: u32,
    /// Whether it was told to die.
    #[serde(default, skip_serializing_if = "is_default")]
    pub life: Life,
    /// What its end frees; None if it was not weighed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<Weight>,
}

/// What the end of a process frees while all other processes live, in bytes: without the memory and swap that it
/// shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weight {
    /// Memory.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory: u64,
    /// Swap.
    #[serde(default, skip_serializing_if = "is_default")]
    pub swapped: u64,
}

impl ProcessState {
    /// What its end frees. Without a weight, all of its anonymous memory and swap, which is the maximum.
    pub fn freed(&self) -> Weight {
        let most = Weight { memory: self.own.unwrap_or(self.resident), swapped: self.swapped };
        self.weight.unwrap_or(most)
    }
}

/// Whether a process was told to die.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Life {
    /// No.
    #[default]
    Living,
    /// Yes, and it gives its memory back.
    Dying,
    /// Yes, and it has given nothing back for a while ([`STUCK_AFTER_NS`]).
    Stuck,
}

/// A process that was told to die is stuck when it has given nothing back for so long: as long as
/// `killd` waits by default before it chooses another victim (`kill_timeout_ms`).
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
        assert_eq!(old.freed(), Weight { memory: 90, swapped: 5 });
        let with_own: ProcessState = serde_json::from_str(&format!("{text},\"own\":80}}")).unwrap();
        assert_eq!(with_own.freed(), Weight { memory: 80, swapped: 5 });
        assert_eq!(serde_json::to_string(&old).unwrap(), format!("{text}}}"));
    }

    #[test]
    fn a_weight_is_read_as_written_and_replaces_other_figures() {
        let nothing = Weight::default();
        for weight in [nothing, Weight { memory: 3, swapped: 4 }] {
            let state = ProcessState { own: Some(80), weight: Some(weight), ..Default::default() };
            let text = serde_json::to_string(&state).unwrap();
            assert_eq!(serde_json::from_str::<ProcessState>(&text).unwrap(), state, "{text}");
            assert_eq!(state.freed(), weight);
        }
    }
}
