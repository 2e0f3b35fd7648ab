//! The header of a trace: everything about it except its events.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use types::PAGE_BYTES;

use crate::recording::About;
use crate::store::SCHEMA;
use crate::system::Contents;
use crate::{File, Processes, Shortage, Zeros};

/// What the pages of a trace are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TraceKind {
    /// Pages of processes and files that leave and enter memory.
    Swap,
    /// 4 KiB blocks of a storage device.
    Block,
    /// Objects of a cache, one access per record.
    Objects,
}

/// A kind of data that the recording or its import lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    /// Description of what was lost.
    pub what: String,
    /// Number of lost items.
    pub count: u64,
}

/// A line of a text recording that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reject {
    /// Name of the file.
    pub file: String,
    /// Number of the line, counted from 1.
    pub line: u64,
    /// What the reader expected there.
    pub expected: String,
    /// Beginning of the line; empty in files of an earlier pagewise.
    #[serde(default)]
    pub found: String,
}

/// Everything known about a trace apart from its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// Version of the file's layout.
    pub schema: u32,
    /// The version of pagewise that wrote the file.
    pub pagewise: String,
    /// What the pages of the trace are.
    pub kind: TraceKind,
    /// Catalog name of the recording's format.
    pub format: String,
    /// Whether events carry a time.
    pub has_clock: bool,
    /// Whether accesses are marked as reads or writes.
    pub has_operations: bool,
    /// Whether events carry the bytes they moved.
    pub has_sizes: bool,
    /// Whether events carry their duration.
    pub has_durations: bool,
    /// Time of the first event on the recording's own clock, in nanoseconds; 0 without a clock.
    pub start_ns: i64,
    /// Bytes per page.
    pub page_bytes: u64,
    /// Whether the trace has addresses, so that neighbouring pages are known; false in a copy with page
    /// numbers instead.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub has_addresses: bool,
    /// Number of events.
    pub events: u64,
    /// Distinct pages, if the pages are densely numbered; `None` if only (space, address) is stored
    /// because the numbering table was full during import.
    pub pages: Option<u32>,
    /// Processes by `ProcessId`.
    pub processes: Processes,
    /// Devices, as the recording names them.
    pub devices: Vec<String>,
    /// Files with pages in the trace, by number: see `FILE_PAGE_BITS`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<File>,
    /// The recorder's description of its machine and settings, in recordings of `pagewise-agent`; the first
    /// recording's if the trace joins several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorder: Option<About>,
    /// The descriptions of the other recordings, if the trace joins several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_recorders: Vec<About>,
    /// Nanoseconds that the recorder ran; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_ns: Option<u64>,
    /// Counts of pages of zeros; `None` if their events are not marked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zeros: Option<Zeros>,
    /// Stalls and kills; `None` if the recording has neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<Shortage>,
    /// What a system trace, such as one of Perfetto, has beside its events; `None` for other recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<Contents>,
    /// What was lost or skipped.
    pub losses: Vec<Loss>,
    /// The first lines that could not be read; `losses` counts them all.
    #[serde(default)]
    pub rejects: Vec<Reject>,
    /// Events that are earlier than the event before them; kept in the order of the recording.
    #[serde(default)]
    pub disordered: u64,
    /// Counts of all events of the recording, used or not, by the recording's own names.
    pub seen: Vec<(String, u64)>,
    /// sha256 of each source file, in hexadecimal, with its name.
    pub sources: Vec<(String, String)>,
    /// The part of the original trace that this trace holds; `None` if it is no slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
}

fn yes() -> bool {
    true
}

fn is_yes(flag: &bool) -> bool {
    *flag
}

/// A part of a trace by time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// sha256 of the original trace, also for a slice of a slice.
    pub of: String,
    /// Time ranges whose events the part holds, each with an exclusive end, in nanoseconds on the
    /// recording's own clock; in order and disjoint.
    pub times_ns: Vec<(i64, i64)>,
}

impl Part {
    /// The part of a trace with this header and sha256 that `times`, counted from its first event,
    /// select.
    pub(crate) fn cut(header: &Header, sha256: &str, times: &Range<i64>) -> Part {
        let on_clock = |time: i64| header.start_ns.saturating_add(time);
        let (from, to) = (on_clock(times.start), on_clock(times.end));
        match &header.part {
            None => Part { of: sha256.to_owned(), times_ns: vec![(from, to)] },
            Some(part) => {
                let within = |&(start, end): &(i64, i64)| (start.max(from), end.min(to));
                let times = part.times_ns.iter().map(within).filter(|(start, end)| start < end);
                Part { of: part.of.clone(), times_ns: times.collect() }
            }
        }
    }
}

/// Formats whose events are page-outs and page-ins, not requests to a disk.
const SWAP_FORMATS: [&str; 4] = ["events", "recording", "pgw", "scenario"];

impl Header {
    /// Whether the pages are those of swap areas. Requests to a disk are not, even as swap pages: they mix the I/O
    /// of files and of swap.
    pub fn is_of_swap(&self) -> bool {
        self.kind == TraceKind::Swap && SWAP_FORMATS.contains(&self.format.as_str())
    }

    /// The recorder's description of each recording that the trace joins.
    pub fn recorders(&self) -> impl Iterator<Item = &About> {
        self.recorder.iter().chain(&self.further_recorders)
    }

    /// The header of an empty trace with numbered pages, without optional columns.
    pub fn new(kind: TraceKind, format: &str) -> Header {
        Header {
            schema: SCHEMA,
            pagewise: env!("CARGO_PKG_VERSION").to_owned(),
            kind,
            format: format.to_owned(),
            has_clock: false,
            has_operations: false,
            has_sizes: false,
            has_durations: false,
            start_ns: 0,
            page_bytes: PAGE_BYTES,
            has_addresses: true,
            events: 0,
            pages: Some(0),
            processes: Processes::default(),
            devices: Vec::new(),
            files: Vec::new(),
            recorder: None,
            further_recorders: Vec::new(),
            recorded_ns: None,
            zeros: None,
            shortage: None,
            system: None,
            losses: Vec::new(),
            rejects: Vec::new(),
            disordered: 0,
            seen: Vec::new(),
            sources: Vec::new(),
            part: None,
        }
    }
}
