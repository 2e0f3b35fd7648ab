//! What a trace says about itself.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use types::PAGE_BYTES;

use crate::recording::About;
use crate::store::SCHEMA;
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

/// Something the recording or its import lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    /// What was lost, in words.
    pub what: String,
    /// How many.
    pub count: u64,
}

/// A line of a text recording that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reject {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: u64,
    /// What a good line has there.
    pub expected: String,
    /// How the line begins; empty in files of an earlier pagewise.
    #[serde(default)]
    pub found: String,
}

/// Everything known about a trace apart from its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// Version of the file's layout.
    pub schema: u32,
    /// The pagewise that wrote it.
    pub pagewise: String,
    /// What its pages are.
    pub kind: TraceKind,
    /// Catalog name of the format it was imported from.
    pub format: String,
    /// Whether events carry a time.
    pub has_clock: bool,
    /// Whether accesses tell reads from writes.
    pub has_operations: bool,
    /// Whether events carry the bytes they moved.
    pub has_sizes: bool,
    /// Whether events carry how long they took.
    pub has_durations: bool,
    /// Time of the first event on the recording's own clock, in nanoseconds; 0 without a clock.
    pub start_ns: i64,
    /// Bytes per page.
    pub page_bytes: u64,
    /// Whether addresses tell which pages are neighbours; not in a copy with numbers for addresses.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub has_addresses: bool,
    /// Number of events.
    pub events: u64,
    /// Distinct pages, where the pages are densely numbered; none where only (space, address) is
    /// stored, because the numbering table was full during import.
    pub pages: Option<u32>,
    /// Processes by `ProcessId`.
    pub processes: Processes,
    /// Devices seen, as the recording names them.
    pub devices: Vec<String>,
    /// Files of which it has pages, by number: see `FILE_PAGE_BITS`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<File>,
    /// What the recorder said when it began, where it was ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorder: Option<About>,
    /// How long the recorder ran, in nanoseconds; none where the recording does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_ns: Option<u64>,
    /// What is known of pages of zeros; none where their events are not marked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zeros: Option<Zeros>,
    /// Stalls and kills; none where the recording tells neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<Shortage>,
    /// What was lost or skipped.
    pub losses: Vec<Loss>,
    /// The first lines that could not be read; `losses` counts them all.
    #[serde(default)]
    pub rejects: Vec<Reject>,
    /// Events whose time lies before that of the event ahead of them; kept as they came.
    #[serde(default)]
    pub disordered: u64,
    /// What the recording holds by the names of its own events, used or not, with counts.
    pub seen: Vec<(String, u64)>,
    /// sha256 of each source file, in hexadecimal, with its name.
    pub sources: Vec<(String, String)>,
    /// Which part of another trace it is, where it was cut from one.
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
    /// sha256 of the whole trace, however many slices lie between.
    pub of: String,
    /// The times that the part has all events of, each from its start to before its end, in
    /// nanoseconds on the recording's own clock; in order and apart.
    pub times_ns: Vec<(i64, i64)>,
}

impl Part {
    /// The part that `times`, counted from the first event, are of a trace with this header and sha256.
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

impl Header {
    /// A trace of this pagewise without events, columns and facts; pages are numbered.
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
            recorded_ns: None,
            zeros: None,
            shortage: None,
            losses: Vec::new(),
            rejects: Vec::new(),
            disordered: 0,
            seen: Vec::new(),
            sources: Vec::new(),
            part: None,
        }
    }
}
