//! Analyses of a trace without simulation: skew, single accesses, reuse, swap traffic.
//!
//! One pass reads the trace; each analysis has its file. A figure that a recording cannot give is null, and
//! `not_recorded` says so in words.

mod access_map;
mod classes;
mod estimates;
mod fault_time;
mod histogram;
mod kernel_workers;
mod occupancy;
mod processes;
mod reuse;
mod sampled;
mod skew;
mod swap_traffic;
mod traffic;

pub use classes::{ClassShare, Classes};
pub use estimates::{AnalysisError, AnalysisSample};
pub use fault_time::{Durations, FaultTime};
pub use histogram::Histogram;
pub use processes::{ProcessAnalysis, ProcessRow};
pub use sampled::analyze_sampled;
pub use skew::{SingleAccess, Skew, TOP_PERCENT};
pub use swap_traffic::{DeviceReads, NeverReturned, SingleOut, SwapTraffic};
pub use traffic::{Traffic, TrafficSeries};

use crate::Error;
use crate::heat::AccessHeat;
use crate::shares::Share;
use crate::stack::Stack;
use crate::swap::ZeroPages;
use access_map::AccessMap;
use classes::PageClasses;
use processes::{BYTES_PER_PAIR, ProcessPages};
use reuse::Intervals;
use schemars::JsonSchema;
use serde::Serialize;
pub(crate) use skew::Spectrum;
use swap_traffic::SwapPages;
use trace::{Elapsed, Header, Rows, Source, TraceKind};
use traffic::TrafficCounts;
use types::{PageId, Progress};

/// The results. Shares are fractions from 0 to 1, distributions lists of [largest value, count].
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Analysis {
    /// Name and version of this layout.
    pub schema: &'static str,
    /// Kind of the trace: what its pages are.
    pub kind: TraceKind,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Accesses: page-outs and page-ins of a swap trace, reads and writes of other traces.
    pub accesses: u64,
    /// Distinct pages accessed.
    pub pages: u64,
    /// Writes among the accesses; 0 if the recording does not distinguish reads and writes.
    pub writes: u64,
    /// How unevenly accesses fall on pages.
    #[serde(flatten)]
    pub skew: Skew,
    /// Pages that went out exactly once; swap traces only.
    pub single_out: Option<SingleOut>,
    /// (share of pages, share of accesses), busiest pages first.
    #[schemars(with = "Vec<(Share, Share)>")]
    pub skew_curve: Vec<(f64, f64)>,
    /// Bytes moved by the busiest 10 % of pages and by the rest (S0 Fig. 1).
    pub volume: Volume,
    /// Classes of the busiest 10 % of pages; none if the recording does not have them.
    pub top_10_percent_classes: Option<Classes>,
    /// (frames, misses per access) of LRU.
    #[schemars(with = "Vec<(u64, Share)>")]
    pub miss_ratio_curve: Vec<(u64, f64)>,
    /// Share of accesses to pages that were accessed before: the most that any memory can serve.
    #[schemars(with = "Share")]
    pub reaccess_share: f64,
    /// Distinct other pages between two accesses to the same page.
    pub reuse_distance: Histogram,
    /// Time between two accesses to the same page; none without a clock.
    pub reaccess_interval_ns: Option<Histogram>,
    /// Pages out and in; swap traces only.
    pub swap: Option<SwapTraffic>,
    /// Page-outs and page-ins of pages of zeros, which no device writes or reads; absent if the recording
    /// does not distinguish them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_pages: Option<ZeroPages>,
    /// How long swap-in faults took; none without durations.
    pub fault_time: Option<FaultTime>,
    /// Figures per process, if asked for.
    pub processes: Option<Vec<ProcessAnalysis>>,
    /// Rows of the busiest processes: all kernel threads in one row, and the others in another.
    pub top_processes: Option<Vec<ProcessRow>>,
    /// Accesses over time by process name, if asked for; none without a clock.
    pub traffic: Option<Traffic>,
    /// Accesses by time and address, if figures per process were asked for; none of a sample, of objects, and
    /// without addresses.
    pub heat: Option<AccessHeat>,
    /// Facts that the recording lacks, and the figures that this rules out.
    pub not_recorded: Vec<&'static str>,
    /// The sample, if only some of the pages were looked at: all figures but `accesses` are then estimates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<AnalysisSample>,
}

/// Volume over swap accesses and over all block I/O, of which a trace records one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Volume {
    /// Over the accesses of a swap trace.
    pub swap: Option<VolumeSplit>,
    /// Over all reads and writes of a device.
    pub block: Option<VolumeSplit>,
}

/// Bytes by the pages they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VolumeSplit {
    /// Of the busiest 10 % of pages.
    pub top_10_percent_bytes: u64,
    /// Of all other pages.
    pub rest_bytes: u64,
}

/// A bound on the memory of [`analyze`] for each page of a trace, in bytes. With `has_processes`, it has room for
/// one process of each page; only [`analyze_within`] bounds the memory for more.
pub fn bytes_per_page(header: &Header, has_processes: bool) -> u64 {
    let of_swap = if header.kind == TraceKind::Swap { 24 } else { 0 };
    28 + of_swap + if has_processes { BYTES_PER_PAIR } else { 0 }
}

/// Analyses a trace in one pass; `top_processes` adds the figures of each process, and that many rows.
/// Memory: up to 52 bytes per page; with `top_processes` up to 48 more for each pair of a page and a process
/// that accessed it, 160 for each process and step of the traffic, and 2 KiB for each process.
///
/// # Errors
/// A trace that cannot be read, or a caller that stops.
pub fn analyze(
    source: &mut dyn Source,
    top_processes: Option<usize>,
    progress: &dyn Progress,
) -> Result<Analysis, Error> {
    analyze_within(source, top_processes, u64::MAX, progress)
}

/// Analyses a trace as [`analyze`] does. Processes may take `spare_bytes` of memory in addition to
/// [`bytes_per_page`] for each page of the source, which has numbered its pages.
///
/// # Errors
/// Errors of [`analyze`]; `Usage` if processes take more memory.
pub fn analyze_within(
    source: &mut dyn Source,
    top_processes: Option<usize>,
    spare_bytes: u64,
    progress: &dyn Progress,
) -> Result<Analysis, Error> {
    let pages = u64::from(source.header().pages.unwrap_or(0));
    let process_bytes_max = spare_bytes.saturating_add(pages * BYTES_PER_PAIR);
    let mut observer = Observer::new(source.header(), top_processes.is_some());
    let mut rows = Rows::default();
    let mut events_done = 0;
    while source.next_rows(&mut rows)? {
        events_done += rows.len() as u64;
        progress.advance(events_done, source.header().events.max(events_done))?;
        observer.add(&rows);
        observer.check_process_bytes(process_bytes_max)?;
    }
    Ok(observer.finish(source.header(), top_processes.unwrap_or(0)))
}

/// State of all analyses while the trace is read.
struct Observer {
    /// Accesses of each page.
    accesses: Vec<u32>,
    writes: u64,
    zero_pages: ZeroPages,
    stack: Stack,
    intervals: Option<Intervals>,
    swap: Option<(SwapPages, PageClasses)>,
    fault_time: Option<FaultTime>,
    processes: Option<ProcessPages>,
    traffic: Option<TrafficCounts>,
    heat: Option<AccessMap>,
    /// The accesses of the current rows, and with a clock the time of each.
    batch: Vec<PageId>,
    times_ns: Vec<i64>,
    clock: Elapsed,
}

impl Observer {
    fn new(header: &Header, by_process: bool) -> Observer {
        let is_swap = header.kind == TraceKind::Swap;
        Observer {
            accesses: Vec::new(),
            writes: 0,
            zero_pages: ZeroPages::default(),
            stack: Stack::default(),
            intervals: header.has_clock.then(Intervals::default),
            swap: is_swap.then(Default::default),
            fault_time: (is_swap && header.has_durations).then(FaultTime::default),
            processes: by_process.then(ProcessPages::default),
            traffic: (by_process && header.has_clock).then(TrafficCounts::default),
            heat: by_process.then(|| AccessMap::new(header)).flatten(),
            batch: Vec::new(),
            times_ns: Vec::new(),
            clock: Elapsed::default(),
        }
    }

    fn add(&mut self, rows: &Rows) {
        let events = &rows.events;
        self.batch.clear();
        self.times_ns.clear();
        for index in 0..events.len() {
            let event = events.get(index);
            let time_ns = events.time_ns.get(index).map(|&time_ns| self.clock.at(time_ns));
            if let Some((pages, classes)) = &mut self.swap {
                pages.add(event);
                if event.kind.is_access() {
                    classes.add(event);
                }
            }
            if !event.kind.is_access() {
                continue;
            }
            if event.is_of_zeros() {
                self.zero_pages.count(event.kind);
            }
            self.batch.push(event.page);
            self.writes += u64::from(event.kind.is_write(event.flags));
            self.times_ns.extend(time_ns);
            if let Some(processes) = &mut self.processes {
                processes.add(event);
            }
            if let (Some(traffic), Some(time_ns)) = (&mut self.traffic, time_ns) {
                traffic.add(event, time_ns);
            }
            // A source in memory has no addresses.
            if let (Some(heat), Some(&space), Some(&address)) =
                (&mut self.heat, rows.space.get(index), rows.address.get(index))
            {
                heat.add(space, address, time_ns);
            }
        }
        let bound = self.batch.iter().fold(0, |bound, page| bound.max(page.index() + 1));
        self.accesses.resize(self.accesses.len().max(bound), 0);
        for page in &self.batch {
            let accesses = &mut self.accesses[page.index()];
            *accesses = accesses.saturating_add(1);
        }
        self.stack.push(&self.batch, bound);
        if let Some(intervals) = &mut self.intervals {
            intervals.add(&self.batch, &self.times_ns, bound);
        }
        if let Some(fault_time) = &mut self.fault_time {
            fault_time.add(rows);
        }
    }

    /// Checks that the figures of processes take at most `bytes_max`.
    fn check_process_bytes(&self, bytes_max: u64) -> Result<(), Error> {
        let Some(processes) = &self.processes else { return Ok(()) };
        let of_traffic = self.traffic.as_ref().map_or(0, TrafficCounts::bytes);
        if processes.bytes() + of_traffic <= bytes_max {
            return Ok(());
        }
        Err(Error::usage(format!(
            "the memory limit leaves {} MiB for --by process, and the first part of the recording needs more: \
             {} pairs of a page and a process; give a larger --memory-limit, use --sample instead, or leave \
             out --by process",
            bytes_max >> 20,
            processes.pairs(),
        )))
    }

    fn finish(self, header: &Header, rows_max: usize) -> Analysis {
        let spectrum = Spectrum::new(self.accesses.iter().copied());
        let top_pages = spectrum.top_pages(10);
        let classes =
            |(_, classes): &(_, PageClasses)| classes.of_busiest(&self.accesses, top_pages);
        let by_process =
            self.processes.map(|processes| processes.analyses(&header.processes, rows_max));
        let (processes, top_processes) = by_process.unzip();
        Analysis {
            schema: "pagewise.analyze/1",
            kind: header.kind,
            page_bytes: header.page_bytes,
            accesses: self.stack.accesses(),
            pages: spectrum.pages,
            writes: self.writes,
            skew: spectrum.skew(),
            single_out: self.swap.as_ref().map(|(pages, _)| pages.single_out()),
            skew_curve: spectrum.curve(),
            volume: volume(&spectrum, header),
            top_10_percent_classes: self.swap.as_ref().map(classes),
            miss_ratio_curve: reuse::miss_ratio_curve(&self.stack),
            reaccess_share: reuse::reaccess_share(&self.stack),
            reuse_distance: reuse::reuse_distance(&self.stack),
            reaccess_interval_ns: self.intervals.map(|intervals| intervals.histogram),
            swap: self.swap.as_ref().map(|(pages, _)| pages.traffic()),
            zero_pages: header.zeros.map(|_| self.zero_pages),
            fault_time: self.fault_time,
            processes,
            top_processes,
            traffic: self.traffic.map(|traffic| traffic.finish(&header.processes)),
            heat: self.heat.map(|heat| heat.finish(header)),
            not_recorded: not_recorded(header),
            sample: None,
        }
    }
}

fn volume(spectrum: &Spectrum, header: &Header) -> Volume {
    let top = spectrum.top_accesses(spectrum.top_pages(10));
    let split = VolumeSplit {
        top_10_percent_bytes: top * header.page_bytes,
        rest_bytes: (spectrum.accesses - top) * header.page_bytes,
    };
    let of = |kind| (header.kind == kind).then_some(split);
    Volume { swap: of(TraceKind::Swap), block: of(TraceKind::Block) }
}

fn not_recorded(header: &Header) -> Vec<&'static str> {
    let is_swap = header.kind == TraceKind::Swap;
    let absences = [
        (!header.has_clock, "a clock: no re-access intervals"),
        (!header.has_operations, "whether an access reads or writes: writes are given as 0"),
        (is_swap && !header.has_durations, "durations: no fault-time distribution"),
        (!is_swap, "owners of pages: no classes of the busiest pages, no swap traffic"),
        (
            is_swap && header.files.is_empty(),
            "libraries and services: pages are only known as anonymous or file, shared or not",
        ),
        (header.hides_zeros(), trace::ZEROS_UNMARKED),
        (is_swap, "the rest of the block I/O: volume covers only swap accesses"),
    ];
    absences.into_iter().filter(|&(is_absent, _)| is_absent).map(|(_, what)| what).collect()
}
