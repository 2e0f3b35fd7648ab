//! What a simulated life leaves: a row per visit, a row per kill, and what storage saw.

use super::seen::Seen;
use crate::analysis::Skew;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of the JSON object.
pub(super) const SCHEMA: &str = "pagewise.lifecycle/1";

/// How an app was found by a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchKind {
    /// It did not run.
    Cold,
    /// It ran, and some of what it used was not in memory.
    Warm,
    /// It ran with everything that it used in memory.
    Hot,
}

/// Where the time of a launch went, in nanoseconds.
///
/// Invariant: the parts add up to the launch time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Parts {
    /// What the launch takes with ample memory and all files in memory.
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
    /// Their sum.
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
    /// How the launch found it.
    pub kind: LaunchKind,
    /// From the request to the last page that the launch touches; absent where the kernel had to kill
    /// the app itself.
    pub launch_ns: Option<u64>,
    /// Where the launch time went.
    #[serde(flatten)]
    pub parts: Parts,
    /// Apps that the killer ended during the visit.
    pub kills: u64,
    /// Apps that the kernel ended because nothing was left to reclaim.
    pub oom_kills: u64,
    /// Pages that came back from the swap area.
    pub swap_ins: u64,
    /// File pages read.
    pub file_reads: u64,
    /// Of these, pages that had been evicted.
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
    /// Anonymous pages in memory at its end.
    pub anonymous_pages: u64,
}

/// What made somebody look for a victim.
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
#[schemars(rename = "SimulatedKill")]
pub struct Kill {
    /// Index of the visit during which it happened.
    pub visit: u64,
    /// Index of the app.
    pub app: u32,
    /// Who looked.
    pub trigger: Trigger,
    /// The rule that named it.
    pub why: &'static str,
    /// Its importance on the scale of `oom_score_adj`.
    pub adj: i16,
    /// Memory when it was killed, before any of its own came back.
    pub seen: Seen,
    /// Since the beginning of the life.
    pub at_ns: u64,
    /// Pages that it had in memory.
    pub resident_pages: u64,
    /// Its threads.
    pub threads: u32,
    /// Delivery of the signal.
    pub signal_ns: u64,
    /// From then to the last thread's exit; 0 where the killer frees at once.
    pub exit_ns: u64,
    /// From then until the last page was free; absent where the life ended before.
    pub reclaim_ns: Option<u64>,
    /// Victims that were still dying when it was killed.
    pub others_dying: u64,
}

/// The result of a simulated life.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Lifecycle")]
pub struct Outcome {
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
    /// Frames that were left to the phone, less what a fast tier in memory takes.
    pub frames: u64,
    /// Slots of the swap area.
    pub slots: u64,
    /// Free frames at which apps reclaim themselves, the background reclaimer wakes, and sleeps.
    pub watermarks: [u64; 3],
    /// Every visit in order.
    pub visits: Vec<Visit>,
    /// Every kill in order.
    pub kills: Vec<Kill>,
    /// Pages of files and of the swap area that storage was asked for, with how unevenly.
    pub storage_pages: u64,
    /// Their accesses, reads and writes.
    pub storage_accesses: u64,
    /// How unevenly the accesses fall on the pages.
    pub skew: Skew,
}
