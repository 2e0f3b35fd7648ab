//! The pieces of a recording of kills, live or saved.

use serde::{Deserialize, Serialize};

use super::event::Event;
use crate::recording::Missing;

/// What is known when a recording begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// Version of pagewise that recorded.
    pub pagewise: String,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub machine: String,
    /// How the kernel was heard: `tracepoints`, `btf` or `function`.
    pub backend: String,
    /// What cannot be told here, and why.
    pub absent: Vec<Missing>,
    /// Format files of the events, without how to print them.
    pub formats: Vec<String>,
    /// The format file of the pages.
    pub page_format: String,
    /// The process whose kill alone counts.
    pub process: Option<u32>,
    /// The memory cgroup whose processes alone count.
    pub cgroup: Option<String>,
    /// Functions of the kernel that are recorded: where each begins, in hexadecimal, and its name.
    pub functions: Vec<(String, String)>,
}

/// A thread, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its number.
    pub thread: u32,
    /// The process that it belongs to.
    pub process: u32,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether its process is one of those that count, where only some do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_member: bool,
}

/// What is known when a recording ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ending {
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Events that found the buffer full.
    pub lost: u64,
}

/// One piece of a recording, live or saved.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// What is known at the start; always the first.
    About(Box<About>),
    /// Threads.
    Tasks(Vec<Task>),
    /// A page of events of one processor.
    Page(Vec<u8>),
    /// Events of the backend `btf`.
    Events(Vec<Event>),
    /// Events up to this time have come.
    Until(u64),
    /// What is known at the end; the last, where the recorder came to it.
    Ending(Ending),
    /// A kind of block that this version does not know.
    Unknown(u32),
}
