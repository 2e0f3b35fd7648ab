//! A summary of a trace, and the analyses that it does not allow.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use types::{EventFlags, EventKind, Events, Progress};

use crate::recording::moments;
use crate::system::{Question, questions};
use crate::timeline::{Gap, Timeline};
use crate::{Error, Header, Source, TraceKind, ZEROS_UNMARKED};

/// A summary of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Events")]
pub struct Info {
    /// Header of the trace, complete also for a foreign recording.
    pub header: Header,
    /// Whether the pages are those of swap areas, so that the recording can size swap.
    pub is_of_swap: bool,
    /// Counts of all events of the recording, used or not, by the recording's own names. Events that move
    /// pages count their pages.
    pub events: BTreeMap<String, u64>,
    /// Sum of `header.losses`.
    pub lost: u64,
    /// Names of the recorder's sources; `None` if the recording is not of `pagewise-agent`.
    pub sources: Option<Vec<String>>,
    /// Events of each kind that occurs, by name.
    pub kinds: Vec<(&'static str, u64)>,
    /// Events that the analyses count as accesses.
    pub accesses: u64,
    /// Accesses that write data to storage; `None` if the recording does not distinguish them.
    pub writes: Option<u64>,
    /// Pages of zeros; `None` if the recording does not mark them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_pages: Option<ZeroPages>,
    /// Seconds from the first event to the last; without events, seconds that the recorder ran; `None`
    /// without a clock.
    #[schemars(range(min = 0))]
    pub duration_s: Option<f64>,
    /// Active time: the duration without idle gaps, in seconds.
    #[schemars(range(min = 0))]
    pub active_s: Option<f64>,
    /// The least active time that holds nine tenths of the events, in seconds.
    #[schemars(range(min = 0))]
    pub traffic_s: Option<f64>,
    /// The first thousand idle gaps.
    pub gaps: Vec<Gap>,
    /// Number of recordings that the trace seems to join; 0 without a clock.
    pub recordings: u64,
    /// Processes with their number of events; of very many, those with most events.
    pub processes: Vec<ProcessInfo>,
    /// Number of all processes.
    pub processes_all: usize,
    /// Questions about the whole system, and what the trace lacks for them; absent for recordings that are no
    /// system traces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// Data that the recording lacks, in words.
    pub absent: Vec<String>,
    /// Analyses that are therefore impossible, in words.
    pub ruled_out: Vec<String>,
}

/// Largest number of processes that are listed, here and in the header.
pub(super) const PROCESSES_TOLD: usize = 1 << 16;

/// SwapOuts and SwapIns of pages of zeros, as recorded and as counted by the kernel. The kernel's counts
/// are `None` if its counters have another scope than the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ZeroPagesBesideKernel")]
pub struct ZeroPages {
    /// Recorded page-outs.
    pub outs: u64,
    /// Recorded page-ins.
    pub ins: u64,
    /// Page-outs counted by the kernel.
    pub kernel_outs: Option<u64>,
    /// Page-ins counted by the kernel.
    pub kernel_ins: Option<u64>,
}

/// A process of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ProcessEvents")]
pub struct ProcessInfo {
    /// Pid of the process; 0 if the recording has none.
    pub pid: u32,
    /// Command name of the process; empty if the recording has none.
    pub name: String,
    /// Events of its pages or requests.
    pub events: u64,
}

/// Reads `source` to its end and summarizes it.
///
/// # Errors
/// If the source cannot be read, or `progress` asks to stop.
pub fn info(source: &mut dyn Source, progress: &dyn Progress) -> Result<Info, Error> {
    let mut counts = Counts::default();
    let mut events = Events::default();
    source.omit_numbering();
    while source.next_batch(&mut events)? {
        counts.add(&events);
        let total = source.header().events.max(counts.events);
        progress.advance(counts.events, total).map_err(|_| Error::cancelled(""))?;
    }
    Ok(counts.describe(source.header()))
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

#[derive(Default)]
struct Counts {
    events: u64,
    kinds: [u64; EventKind::ALL.len()],
    writes: u64,
    zero_outs: u64,
    zero_ins: u64,
    processes: Vec<u64>,
    timeline: Timeline,
}

impl Counts {
    fn add(&mut self, events: &Events) {
        self.events += events.len() as u64;
        for (&kind, &flags) in events.kind.iter().zip(&events.flags) {
            self.kinds[kind as usize] += 1;
            self.writes += u64::from(kind.is_access() && kind.is_write(flags));
            let is_zero = flags.contains(EventFlags::ZERO);
            self.zero_outs += u64::from(is_zero && kind == EventKind::SwapOut);
            self.zero_ins += u64::from(is_zero && kind == EventKind::SwapIn);
        }
        for process in &events.process {
            if process.index() >= self.processes.len() {
                self.processes.resize(process.index() + 1, 0);
            }
            self.processes[process.index()] += 1;
        }
        self.timeline.add(&events.time_ns);
    }

    fn of(&self, is_counted: impl Fn(EventKind) -> bool) -> u64 {
        let counted = EventKind::ALL.iter().filter(|&&kind| is_counted(kind));
        counted.map(|&kind| self.kinds[kind as usize]).sum()
    }

    fn describe(self, header: &Header) -> Info {
        let accesses = self.of(EventKind::is_access);
        let kinds = EventKind::ALL
            .iter()
            .map(|&kind| (kind.name(), self.kinds[kind as usize]))
            .filter(|&(_, count)| count > 0)
            .collect();
        let (absent, ruled_out) = self.missing(header, accesses);
        Info {
            is_of_swap: header.is_of_swap(),
            events: header.seen.iter().cloned().collect(),
            lost: header.losses.iter().fold(0, |lost, loss| lost.saturating_add(loss.count)),
            sources: header.recorder.is_some().then(|| sources(header)),
            kinds,
            accesses,
            writes: header.has_operations.then_some(self.writes),
            duration_s: (self.timeline.duration_ns())
                .map(seconds)
                .or_else(|| header.recorded_ns.map(|time_ns| time_ns as f64 / 1e9)),
            active_s: self.timeline.active_ns().map(seconds),
            traffic_s: self.timeline.traffic_ns().map(seconds),
            gaps: self.timeline.gaps().to_vec(),
            recordings: self.timeline.recordings(),
            processes: self.busiest(header),
            processes_all: header.processes.len(),
            zero_pages: header.zeros.map(|zeros| ZeroPages {
                outs: self.zero_outs,
                ins: self.zero_ins,
                kernel_outs: zeros.kernel_outs,
                kernel_ins: zeros.kernel_ins,
            }),
            questions: header
                .system
                .as_ref()
                .map(|contents| questions(contents, &header.format))
                .unwrap_or_default(),
            absent,
            ruled_out,
            header: Header { processes: header.processes.first(PROCESSES_TOLD), ..header.clone() },
        }
    }

    /// The processes to list, by number.
    fn busiest(&self, header: &Header) -> Vec<ProcessInfo> {
        let events = |number: usize| self.processes.get(number).copied().unwrap_or(0);
        let mut numbers: Vec<usize> = (0..header.processes.len()).collect();
        if numbers.len() > PROCESSES_TOLD {
            numbers.select_nth_unstable_by_key(PROCESSES_TOLD, |&number| {
                (Reverse(events(number)), number)
            });
            numbers.truncate(PROCESSES_TOLD);
            numbers.sort_unstable();
        }
        let listed = numbers.into_iter().filter_map(|number| {
            let process = header.processes.get(number)?;
            let name = process.name.to_owned();
            Some(ProcessInfo { pid: process.pid, name, events: events(number) })
        });
        listed.collect()
    }

    /// The missing data, and the analyses that need it.
    fn missing(&self, header: &Header, accesses: u64) -> (Vec<String>, Vec<String>) {
        let (mut absent, mut ruled_out) = (Vec::new(), Vec::new());
        let mut gap = |is_missing: bool, what: &str, analyses: &str| {
            if is_missing {
                absent.push(what.to_owned());
                ruled_out.push(analyses.to_owned());
            }
        };
        let is_swap = header.kind == TraceKind::Swap;
        let has = |kind: EventKind| self.kinds[kind as usize] > 0;
        let uncounted = match has_source(header, moments::SOURCE) {
            true => "every analysis of pages; pagewise replay-kills reads the kills and moments",
            false => "every analysis: the trace has no accesses",
        };
        gap(accesses == 0, "accesses", uncounted);
        gap(!header.has_clock, "time", "re-access intervals, wear per day, slice");
        gap(
            !header.has_operations,
            "operations: reads and writes are not distinguished",
            "written pages, dirty copies, wear by writes",
        );
        gap(
            !is_swap,
            "swap-outs and swap-ins",
            "returns per swapped-out page, readahead; swap architectures see a mapping of reads \
             and writes instead",
        );
        gap(is_swap && !has(EventKind::Exit), "ends of processes", "pages that die in swap");
        gap(
            is_swap && !has(EventKind::DeviceRead),
            "device traffic",
            "readahead and block I/O beside swap",
        );
        gap(!header.has_durations, "durations", "fault and request times");
        let is_named = |process: crate::Process<'_>| process.pid != 0 || !process.name.is_empty();
        gap(!header.processes.iter().any(is_named), "processes", "counts by process");
        for missing in header.recorders().flat_map(|recorder| &recorder.absent) {
            let what = format!("{}: {}", missing.what, missing.why);
            if !absent.contains(&what) {
                absent.push(what);
            }
        }
        if header.hides_zeros() && !absent.iter().any(|what| what.starts_with("pages of zeros")) {
            absent.push(ZEROS_UNMARKED.to_owned());
        }
        (absent, ruled_out)
    }
}

/// Whether the recording is of `pagewise-agent` and has this source.
fn has_source(header: &Header, source: &str) -> bool {
    header.recorders().any(|recorder| recorder.sources.iter().any(|name| name == source))
}

/// The sources of all recordings that the trace joins, each once.
fn sources(header: &Header) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in header.recorders().flat_map(|recorder| &recorder.sources) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}
