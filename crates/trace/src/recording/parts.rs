//! The parts of a recording that are not events, stored as JSON.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::System;

/// Kernel counters by the kernel's own names.
pub type Counters = BTreeMap<String, u64>;

/// What is known when a recording begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct About {
    /// Version of pagewise that records.
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
    /// How the kernel was heard: `bpf`, by owner and address, or `tracefs`, by swap slot.
    #[serde(default = "by_owner")]
    pub backend: String,
    /// What is recorded, by the names of the recorder's catalog.
    pub sources: Vec<String>,
    /// What was asked for, or belongs to a source, and cannot be had here.
    pub absent: Vec<Missing>,
    /// Whether page-outs of pages of zeros are marked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub knows_zeros: bool,
    /// The memory cgroup that events are limited to.
    pub cgroup: Option<String>,
    /// The process that events are limited to.
    pub process: Option<u32>,
    /// The command that was run, where there is one.
    pub command: Vec<String>,
    /// Swap areas, disks and kernel features of the machine; earlier recordings do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<System>,
}

/// Recordings that do not say are of BPF programs.
fn by_owner() -> String {
    "bpf".to_owned()
}

/// The name of a file of which the recording has pages; it stands ahead of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileName {
    /// The kernel's number of the file system's device.
    pub device: u32,
    /// Number of the inode.
    pub inode: u64,
    /// Where it lies.
    pub path: String,
}

/// Something that a recording does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// What it is.
    pub what: String,
    /// Why, and what that costs.
    pub why: String,
}

/// One area of swap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Area {
    /// The file or device.
    pub path: String,
    /// `file` or `partition`.
    pub kind: String,
    /// Bytes it holds.
    pub bytes: u64,
    /// Bytes in use.
    pub bytes_used: u64,
    /// Higher is used first.
    pub priority: i32,
}

/// Stall of one resource, from `/proc/pressure`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    /// Microseconds in which some task stalled, since boot.
    pub some_us: u64,
    /// Microseconds in which every task stalled, since boot.
    pub full_us: u64,
}

/// The kernel's counters at one instant. What could not be read is absent, not zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub time_ns: u64,
    /// From `/proc/vmstat`, the counters of swap, paging and reclaim.
    pub vmstat: Counters,
    /// `memory.stat` of the recorded cgroup.
    pub cgroup: Option<Counters>,
    /// Pressure of memory and I/O by resource.
    pub pressure: BTreeMap<String, Pressure>,
    /// The areas of swap.
    pub areas: Vec<Area>,
    /// `mm_stat` of each zram device by its name.
    pub zram: BTreeMap<String, Counters>,
}

/// What is known when a recording ends in good order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub time_ns: u64,
    /// Records written.
    pub recorded: u64,
    /// Records that found the buffer full.
    pub lost: u64,
    /// How the command ended, where there was one.
    pub exit_status: Option<i32>,
}
