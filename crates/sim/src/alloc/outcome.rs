//! The counts of a replay. Pages are 4 KiB.

use schemars::JsonSchema;
use serde::Serialize;

/// Work of the kernel and of the allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "AllocatorCounts")]
pub struct Counts {
    /// Touches of a page without a frame.
    pub faults: u64,
    /// Pages that the kernel filled ahead of their touch, without a fault.
    pub pages_populated: u64,
    /// Pages that the allocator, or the paper's kernel at reuse, cleared.
    pub pages_zeroed: u64,
    /// Touches of a page that was lazily freed and still had its frame.
    pub lazy_touches: u64,
    /// System calls that map, unmap, resize, advise or query mappings.
    pub calls: u64,
    /// Frames that the kernel took from lazily freed pages because memory was short.
    pub pages_reclaimed: u64,
    /// Processes killed because no frame was left to reclaim.
    pub kills: u64,
    /// Most frames that belonged to no block at the kill of a process.
    pub pages_pooled_at_kill: u64,
}

/// Memory at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "FramesInUse")]
pub struct InUse {
    /// Nanoseconds since the recording began.
    pub time_ns: u64,
    /// Frames in use.
    pub pages_resident: u64,
    /// Frames of blocks that the program had.
    pub pages_live: u64,
}

/// The result of one allocator for one history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AllocatorOutcome {
    /// Name in the catalog.
    pub allocator: String,
    /// Frames of the machine; none: no limit.
    pub budget_pages: Option<u64>,
    /// Counts of work.
    pub counts: Counts,
    /// Most frames in use.
    pub pages_resident_max: u64,
    /// Most frames of blocks that the program had.
    pub pages_live_max: u64,
    /// Frames in use five idle seconds after the last step before a process ended, summed over the
    /// processes that came so far.
    pub pages_resident_idle: u64,
    /// Frames of the program's blocks at these times, summed over the same processes.
    pub pages_live_idle: u64,
    /// The largest memory in use in each of about two hundred equal parts of the time.
    pub timeline: Vec<InUse>,
}
