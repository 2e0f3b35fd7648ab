//! The parts of a recording besides its events, stored as JSON.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::served::ServedTiers;
use super::system::System;

/// Description of a recording, known when it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct About {
    /// Version of pagewise that made the recording.
    pub pagewise: String,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub machine: String,
    /// Processors online.
    pub processors: u32,
    /// Memory of the machine in bytes.
    pub memory_bytes: u64,
    /// Bytes per page of the kernel.
    pub page_bytes: u64,
    /// CLOCK_REALTIME less CLOCK_MONOTONIC at the start, in nanoseconds.
    pub realtime_offset_ns: i64,
    /// Source of the events: `bpf`, with owner and address; `tracefs` or `swapd`, with swap slots.
    #[serde(default = "by_owner")]
    pub backend: String,
    /// Names of the recorded sources in the recorder's catalog.
    pub sources: Vec<String>,
    /// Data that was requested or belongs to a source, but is not available on this machine.
    pub absent: Vec<Missing>,
    /// Whether page-outs of zeros are marked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub knows_zeros: bool,
    /// The memory cgroup that events are limited to.
    pub cgroup: Option<String>,
    /// The process that events are limited to.
    pub process: Option<u32>,
    /// The recorded command, if any.
    pub command: Vec<String>,
    /// Swap areas, disks and kernel features of the machine; absent in earlier recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<System>,
    /// The tiers of the swap server that made the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiers: Option<Box<ServedTiers>>,
    /// Why `record --ring` kept the recording, and from when on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Box<KeptPart>>,
}

impl About {
    /// Whether events name swap slots, which have no owner and no address.
    pub fn has_slots(&self) -> bool {
        matches!(self.backend.as_str(), "tracefs" | "swapd")
    }
}

/// The backend of recordings without this field.
fn by_owner() -> String {
    "bpf".to_owned()
}

/// The last minutes of events, which `record --ring` kept because something happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptPart {
    /// CLOCK_MONOTONIC when the kept part begins, in nanoseconds.
    pub begins_ns: u64,
    /// CLOCK_MONOTONIC of what happened, in nanoseconds.
    pub trigger_ns: u64,
    /// What happened: `kill`, `oom-kill`, `psi` or `signal`.
    pub trigger: String,
    /// The killed process, if it was a kill.
    pub process: Option<u32>,
    /// The time that the ring holds, in nanoseconds. The kept part is shorter if the ring was not full, if it has more
    /// bytes than allowed, or if an earlier file has what came before.
    pub ring_ns: u64,
}

/// The name of a file with pages in the recording. It precedes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileName {
    /// The kernel's number of the file system's device.
    pub device: u32,
    /// Number of the inode.
    pub inode: u64,
    /// Path of the file.
    pub path: String,
}

/// Data that a recording lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// The missing data.
    pub what: String,
    /// The reason, and the consequence.
    pub why: String,
}

/// A swap area with its use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Area {
    /// The file or device.
    pub path: String,
    /// `file` or `partition`.
    pub kind: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes in use.
    pub bytes_used: u64,
    /// Priority; the kernel uses areas of higher priority first.
    pub priority: i32,
}

/// Stall time of a resource, from `/proc/pressure`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PressureTotals {
    /// Microseconds in which some task stalled, since boot.
    pub some_us: u64,
    /// Microseconds in which every task stalled, since boot.
    pub full_us: u64,
}

/// The kernel's counters at an instant. Counters that could not be read are absent, not zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub time_ns: u64,
    /// From `/proc/vmstat`, the counters of swap, paging and reclaim.
    pub vmstat: Counters,
    /// `memory.stat` of the recorded cgroup.
    pub cgroup: Option<Counters>,
    /// Pressure of memory and I/O by resource.
    pub pressure: BTreeMap<String, PressureTotals>,
    /// The swap areas.
    pub areas: Vec<Area>,
    /// `mm_stat` of each zram device, by name.
    pub zram: BTreeMap<String, Counters>,
}

/// Summary of a recording, known when it ends normally.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub time_ns: u64,
    /// Records written.
    pub recorded: u64,
    /// Records dropped because the buffer was full.
    pub lost: u64,
    /// Exit status of the command, if there was one.
    pub exit_status: Option<i32>,
}
