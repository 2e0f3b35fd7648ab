//! The pieces of a recording of kills, live or saved.

use serde::{Deserialize, Serialize};

use super::event::Event;
use crate::recording::Missing;

/// Description of a recording, known when it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// Version of pagewise that recorded.
    pub pagewise: String,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub machine: String,
    /// Source of the events: `tracepoints`, `btf` or `function`.
    pub backend: String,
    /// Fields that this kernel cannot provide, and why.
    pub absent: Vec<Missing>,
    /// Format files of the events, without their print format.
    pub formats: Vec<String>,
    /// The format file of the pages.
    pub page_format: String,
    /// If set, only the kill of this process counts.
    pub process: Option<u32>,
    /// If set, only kills of processes in this memory cgroup count.
    pub cgroup: Option<String>,
    /// Recorded functions of the kernel: address, in hexadecimal, and name.
    pub functions: Vec<(String, String)>,
}

/// A thread with its process and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Thread id.
    pub thread: u32,
    /// Process that the thread belongs to.
    pub process: u32,
    /// Name of the thread, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the process is a member, if only members count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_member: bool,
}

/// Summary of a recording, known when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ending {
    /// End of the recording, by CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Events dropped because the buffer was full.
    pub lost: u64,
}

/// A block of a recording, live or saved.
#[derive(Clone, Debug, PartialEq)]
pub enum KillsBlock {
    /// Description of the recording; always the first block.
    About(Box<About>),
    /// Threads with their process and name.
    Tasks(Vec<Task>),
    /// A page of events of a CPU.
    Page(Vec<u8>),
    /// Events of the backend `btf`.
    Events(Vec<Event>),
    /// All events up to this time have arrived.
    Until(u64),
    /// Summary of the recording; the last block, unless the recorder was killed.
    Ending(Ending),
    /// A kind of block that this version does not know.
    Unknown(u32),
}
