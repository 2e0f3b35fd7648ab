//! The result of a simulated life: a row per visit, a row per kill, and the traffic of storage.

use super::seen::Seen;
use crate::analysis::Skew;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of the JSON object.
pub(super) const SCHEMA: &str = "pagewise.lifecycle/1";

/// State of an app at its launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchKind {
    /// The application did not run.
    Cold,
    /// The application ran, and some of the pages it used were not in memory.
    Warm,
    /// The application ran with all pages it used in memory.
    Hot,
}

/// Parts of a launch's time, in nanoseconds.
///
/// Invariant: the parts add up to the launch time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Parts {
    /// Time of the launch with ample memory and all files in memory.
    pub own_ns: u64,
    /// Reads of swapped pages, and the writes that these forced.
    pub swap_in_ns: u64,
    /// First reads of file pages.
    pub file_first_ns: u64,
    /// Reads of file pages that had been evicted.
    pub file_refault_ns: u64,
    /// Reclaim by the launching app itself.
    pub direct_reclaim_ns: u64,
    /// Waiting until a victim's memory was back, and delivering its kill.
    pub kill_wait_ns: u64,
    /// Processor time lost to the background reclaimer and to dying processes.
    pub contention_ns: u64,
}

impl Parts {
    /// Sum of the parts.
    pub fn total_ns(&self) -> u64 {
        self.own_ns
            + self.swap_in_ns
            + self.file_first_ns
            + self.file_refault_ns
            + self.direct_reclaim_ns
            + self.kill_wait_ns
            + self.contention_ns
    }
}

/// One visit: a launch, and the use after it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Visit {
    /// Index of the app.
    pub app: u32,
    /// State of the app at its launch.
    pub kind: LaunchKind,
    /// From the request to the last page that the launch touches; absent if the kernel had to kill
    /// the app itself.
    pub launch_ns: Option<u64>,
    /// Parts of the launch time.
    #[serde(flatten)]
    pub parts: Parts,
    /// Apps that the killer ended during the visit.
    pub kills: u64,
    /// Apps that the kernel killed because nothing was left to reclaim.
    pub oom_kills: u64,
    /// Pages that came back from the swap area.
    pub swap_ins: u64,
    /// File pages read.
    pub file_reads: u64,
    /// Pages among `file_reads` that had been evicted.
    pub file_refaults: u64,
    /// Pages read from the fast tier.
    pub fast_reads: u64,
    /// Pages written to the fast tier.
    pub fast_writes: u64,
    /// Pages read from the slow tier, files included.
    pub slow_reads: u64,
    /// Pages written to the slow tier.
    pub slow_writes: u64,
    /// Processor time of the background reclaimer.
    pub background_ns: u64,
    /// Free frames at the visit's end.
    pub free_pages: u64,
    /// Anonymous pages in memory at the visit's end.
    pub anonymous_pages: u64,
}

/// What started the choice of a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// The killer's clock.
    Poll,
    /// The background reclaimer.
    Background,
    /// The launching app's own reclaim.
    Direct,
    /// The kernel, which found nothing to reclaim.
    OutOfMemory,
}

/// One kill.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SimulatedKill {
    /// Index of the visit during which it happened.
    pub visit: u64,
    /// Index of the app.
    pub app: u32,
    /// What started the choice of the victim.
    pub trigger: Trigger,
    /// The rule that named it.
    pub why: &'static str,
    /// Importance of the app on the scale of `oom_score_adj`.
    pub adj: i16,
    /// State of memory at the kill, before any of the victim's was freed.
    pub seen: Seen,
    /// Time since the beginning of the life.
    pub at_ns: u64,
    /// Pages of the app in memory.
    pub resident_pages: u64,
    /// Threads of the app.
    pub threads: u32,
    /// Time to deliver the signal.
    pub signal_ns: u64,
    /// Time from delivery to the last thread's exit; 0 if the killer frees at once.
    pub exit_ns: u64,
    /// Time from the exit until the last page was free; absent if the life ended before.
    pub reclaim_ns: Option<u64>,
    /// Earlier victims that were still dying.
    pub others_dying: u64,
}

/// The result of a simulated life.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Lifecycle")]
pub struct LifeOutcome {
    /// Version of this object.
    pub schema: &'static str,
    /// The architecture's name in the catalog.
    pub architecture: String,
    /// Every option with the value in effect.
    pub options: BTreeMap<&'static str, String>,
    /// Size of the fast tier in bytes.
    pub fast_bytes: u64,
    /// Name of the fast device.
    pub fast_device: String,
    /// Name of the slow device.
    pub slow_device: String,
    /// Frames left to the phone, without those of a fast tier in memory.
    pub frames: u64,
    /// Slots of the swap area.
    pub slots: u64,
    /// Free frames at which apps reclaim directly, the background reclaimer wakes, and sleeps.
    pub watermarks: [u64; 3],
    /// Every visit in order.
    pub visits: Vec<Visit>,
    /// Every kill in order.
    pub kills: Vec<SimulatedKill>,
    /// Pages of files and of the swap area with storage accesses.
    pub storage_pages: u64,
    /// Number of those accesses, reads and writes.
    pub storage_accesses: u64,
    /// How unevenly the accesses fall on the pages.
    pub skew: Skew,
}
