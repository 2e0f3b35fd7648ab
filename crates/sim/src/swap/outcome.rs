//! The result of one run, in its JSON form.

use super::request::{Readahead, SimulateRequest};
use super::sample_error::SimulateSample;
use super::tally::{Counts, Tally, ZeroPages};
use crate::devices::{Device, Latency};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use trace::TraceKind;
use types::{Nanos, PAGE_BYTES};

/// Version of the JSON object.
const SCHEMA: &str = "pagewise.simulate/1";

const NANOS_PER_DAY: f64 = 86_400e9;

/// Page operations of one tier.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TierCounts {
    /// Pages read.
    pub reads: u64,
    /// Pages written.
    pub writes: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

/// Share of the tier's rated life that a day of this trace uses; absent if the trace has no clock
/// or the device has no rating.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Wear {
    /// The fast tier; its capacity is the simulated size.
    #[schemars(range(min = 0))]
    pub fast: Option<f64>,
    /// The slow tier; its capacity is the device's.
    #[schemars(range(min = 0))]
    pub slow: Option<f64>,
}

/// A time with every latency at its low and at its high figure.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TimeRange {
    /// Seconds with low latencies.
    #[schemars(range(min = 0))]
    pub low: f64,
    /// Seconds with high latencies.
    #[schemars(range(min = 0))]
    pub high: f64,
}

/// Times over the range of the devices' latencies.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Ranges {
    /// `io_time_s` over the range.
    pub io_time_s: TimeRange,
    /// `stall_time_s` over the range.
    pub stall_time_s: TimeRange,
    /// `queue_time_s` over the range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_time_s: Option<TimeRange>,
}

/// Operations of one process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProcessCounts {
    /// Process id.
    pub pid: u32,
    /// Process name.
    pub name: String,
    /// The operations of the process.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Pages that were read ahead of their faults.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReadaheadPages {
    /// Pages read ahead; part of the reads of the tiers.
    pub read: u64,
    /// Pages read ahead that a swap-in used; the others were read for nothing.
    pub used: u64,
}

/// The result of one run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Outcome {
    /// Version of this object.
    pub schema: &'static str,
    /// Name of the architecture in the catalog.
    pub architecture: String,
    /// The profile, if one was asked for.
    pub profile: Option<String>,
    /// Every option with its value in effect.
    #[serde(serialize_with = "serialize_options")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub options: BTreeMap<&'static str, String>,
    /// Treatment of readahead.
    pub readahead: &'static str,
    /// Treatment of clean evictions, which leave no event.
    pub clean_evictions: &'static str,
    /// Size of the fast tier in bytes.
    pub fast_bytes: u64,
    /// Name of the fast device.
    pub fast_device: String,
    /// Name of the slow device.
    pub slow_device: String,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// What the pages of the trace are.
    pub kind: TraceKind,
    /// Whether the pages are those of swap areas, so that the outcome can size swap.
    pub is_of_swap: bool,
    /// Operations of the fast tier.
    pub fast: TierCounts,
    /// Operations of the slow tier.
    pub slow: TierCounts,
    /// Known pages that entered the fast tier.
    pub promotions: u64,
    /// Pages that lost their frame in the fast tier to another page.
    pub demotions: u64,
    /// Pages whose only copy is in the fast tier when the trace ends. Removing the tier would write
    /// each to the slow one; no count or time here includes those writes.
    pub fast_only_pages: u64,
    /// Page-outs and page-ins of pages of zeros, which cost nothing; absent if the trace does not
    /// distinguish them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_pages: Option<ZeroPages>,
    /// Pages read ahead; absent with `readahead=off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readahead_pages: Option<ReadaheadPages>,
    /// Counts times latencies over both devices. A page read ahead takes only the further time of a longer read.
    #[schemars(range(min = 0))]
    pub io_time_s: f64,
    /// The part of the I/O time between a swap-in and its completion: its read and the writes it forced.
    #[schemars(range(min = 0))]
    pub stall_time_s: f64,
    /// The time that swap-ins waited, beside `stall_time_s`, while the slow device served other operations; absent with
    /// `queueing=no`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub queue_time_s: Option<f64>,
    /// Wear of both devices.
    pub wear: Wear,
    /// Times over the range of the devices' latencies; absent if the counts depend on the latencies and
    /// were not replayed over the range.
    pub ranges: Option<Ranges>,
    /// Operations by process, for processes that did any.
    pub processes: Vec<ProcessCounts>,
    /// Operations by slice of the trace; absent if no slices were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<Counts>,
    /// Notes that the reader needs to interpret the numbers.
    pub notes: Vec<String>,
    /// The sample, if only some of the pages were replayed: counts, times and wear are then estimates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<SimulateSample>,
}

fn serialize_options<S: Serializer>(
    options: &BTreeMap<&'static str, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(options)
}

/// Facts about the trace beside its events.
pub struct TraceFacts<'a> {
    /// The trace's header.
    pub header: &'a trace::Header,
    /// From the first event to the last, without idle gaps; absent without a clock.
    pub active: Option<Nanos>,
}

/// Page operations that add up to a time.
#[derive(Clone, Copy)]
struct Operations {
    fast_reads: u64,
    fast_writes: u64,
    slow_reads: u64,
    slow_writes: u64,
    fast_readahead: u64,
    slow_readahead: u64,
}

impl Operations {
    fn time_ns(&self, request: &SimulateRequest, figure: fn(&Latency) -> u64) -> u128 {
        let (fast, slow) = (&request.fast, &request.slow);
        [
            (self.fast_reads, figure(&fast.read)),
            (self.fast_writes, figure(&fast.write)),
            (self.slow_reads, figure(&slow.read)),
            (self.slow_writes, figure(&slow.write)),
            (self.fast_readahead, read_along_ns(fast, request.page_bytes, figure)),
            (self.slow_readahead, read_along_ns(slow, request.page_bytes, figure)),
        ]
        .into_iter()
        .map(|(count, time_ns)| u128::from(count) * u128::from(time_ns))
        .sum()
    }

    /// All operations.
    fn all(tally: &Tally) -> Operations {
        Operations {
            fast_writes: tally.total().fast_writes,
            slow_writes: tally.total().slow_writes,
            fast_readahead: tally.readahead.fast,
            slow_readahead: tally.readahead.slow,
            ..Operations::stalling(tally)
        }
    }

    /// Operations that page faults waited for.
    fn stalling(tally: &Tally) -> Operations {
        let total = tally.total();
        Operations {
            fast_reads: total.fast_reads - tally.readahead.fast,
            fast_writes: tally.fast_writes_stalling,
            slow_reads: total.slow_reads - tally.readahead.slow,
            slow_writes: tally.slow_writes_stalling,
            fast_readahead: 0,
            slow_readahead: 0,
        }
    }
}

/// The time that a device takes to read one more page beside another one. If its bandwidth is unknown, that is the time of
/// a read, except for a page of 4 KiB of a device with a range ([`Device::with_pages_of`]).
pub(super) fn read_along_ns(device: &Device, page_bytes: u64, figure: fn(&Latency) -> u64) -> u64 {
    let is_small = page_bytes == PAGE_BYTES && !device.is_exact;
    if !is_small && device.transfer.is_none() {
        return figure(&device.read);
    }
    let two_pages = device.with_pages_of(PAGE_BYTES + page_bytes);
    figure(&two_pages.read).saturating_sub(figure(&device.read))
}

impl TimeRange {
    /// The times of `operations` in the runs with low and with high latencies.
    fn new(
        request: &SimulateRequest,
        [low, high]: [&Tally; 2],
        operations: fn(&Tally) -> Operations,
    ) -> TimeRange {
        TimeRange {
            low: seconds(operations(low).time_ns(request, |latency| latency.low_ns)),
            high: seconds(operations(high).time_ns(request, |latency| latency.high_ns)),
        }
    }
}

impl Outcome {
    /// Combines a run's counts with its inputs. `tallies` has the counts with typical latencies, then, if they
    /// differ, those with low and with high latencies.
    pub(super) fn new(
        request: &SimulateRequest,
        options: BTreeMap<&'static str, String>,
        tallies: &[Tally],
        has_range: bool,
        facts: &TraceFacts<'_>,
    ) -> Outcome {
        let tally = &tallies[0];
        let ends = [tallies.get(1).unwrap_or(tally), tallies.get(2).unwrap_or(tally)];
        let total = tally.total();
        let (all, stalling) = (Operations::all(tally), Operations::stalling(tally));
        Outcome {
            schema: SCHEMA,
            architecture: request.architecture.clone(),
            profile: request.profile.clone(),
            readahead: request.readahead.name(),
            clean_evictions: request.clean_evictions.name(),
            fast_bytes: request.fast_bytes,
            fast_device: request.fast.name.clone(),
            slow_device: request.slow.name.clone(),
            page_bytes: request.page_bytes,
            fast: tier_counts(request, total.fast_reads, total.fast_writes),
            slow: tier_counts(request, total.slow_reads, total.slow_writes),
            promotions: total.promotions,
            demotions: total.demotions,
            fast_only_pages: tally.fast_only_pages,
            kind: facts.header.kind,
            is_of_swap: facts.header.is_of_swap(),
            zero_pages: facts.header.zeros.map(|_| tally.zero_pages),
            readahead_pages: (request.readahead != Readahead::Off).then(|| ReadaheadPages {
                read: tally.readahead.fast + tally.readahead.slow,
                used: tally.readahead.used,
            }),
            io_time_s: seconds(all.time_ns(request, |latency| latency.typical_ns)),
            stall_time_s: seconds(stalling.time_ns(request, |latency| latency.typical_ns)),
            queue_time_s: tally.queue_ns.map(seconds),
            wear: Wear {
                fast: wear_per_day(
                    &request.fast,
                    Some(request.fast_bytes),
                    total.fast_writes * request.page_bytes,
                    facts,
                ),
                slow: wear_per_day(
                    &request.slow,
                    None,
                    total.slow_writes * request.page_bytes,
                    facts,
                ),
            },
            ranges: has_range.then(|| Ranges {
                io_time_s: TimeRange::new(request, ends, Operations::all),
                stall_time_s: TimeRange::new(request, ends, Operations::stalling),
                queue_time_s: ends[0]
                    .queue_ns
                    .zip(ends[1].queue_ns)
                    .map(|(low, high)| TimeRange { low: seconds(low), high: seconds(high) }),
            }),
            processes: process_counts(tally, facts.header),
            slices: Vec::new(),
            notes: notes(&options, tally, facts.header),
            sample: None,
            options,
        }
    }
}

fn tier_counts(request: &SimulateRequest, reads: u64, writes: u64) -> TierCounts {
    TierCounts { reads, writes, bytes_written: writes * request.page_bytes }
}

fn seconds(time_ns: u128) -> f64 {
    time_ns as f64 / 1e9
}

/// Wear per day. `capacity_bytes` replaces the device's own capacity if given.
fn wear_per_day(
    device: &Device,
    capacity_bytes: Option<u64>,
    bytes_written: u64,
    facts: &TraceFacts<'_>,
) -> Option<f64> {
    let cycles = device.rated_cycles.as_ref()?.typical;
    let capacity = capacity_bytes.or(device.capacity.as_ref().map(|capacity| capacity.bytes))?;
    let active = facts.active.filter(|active| active.0 > 0)?;
    if capacity == 0 {
        return None;
    }
    let lives = bytes_written as f64 / (capacity as f64 * cycles);
    Some(lives * NANOS_PER_DAY / active.0 as f64)
}

fn process_counts(tally: &Tally, header: &trace::Header) -> Vec<ProcessCounts> {
    let named =
        tally.processes.iter().enumerate().filter(|(_, counts)| **counts != Counts::default());
    named
        .map(|(index, counts)| {
            let process = header.processes.get(index);
            ProcessCounts {
                pid: process.map_or(0, |process| process.pid),
                name: process.map_or_else(String::new, |process| process.name.to_owned()),
                counts: *counts,
            }
        })
        .collect()
}

fn notes(
    options: &BTreeMap<&'static str, String>,
    tally: &Tally,
    header: &trace::Header,
) -> Vec<String> {
    let mut notes = Vec::new();
    if !header.is_of_swap() {
        notes.push(
            "not a swap trace, replayed by pagewise's mapping: a read is a swap-in, a write a \
             dirty swap-out; it sizes no swap"
                .to_owned(),
        );
    }
    if options.contains_key("admit_clean") && tally.clean_page_outs == 0 {
        notes.push(
            "admit_clean has no effect: the replay has no clean page-out (a dropped clean page \
             leaves no event; clean_evictions=inferred assumes them)"
                .to_owned(),
        );
    }
    if options.get("victims_in_memory").is_some_and(|value| value == "drop") {
        notes.push(
            "victims_in_memory=drop is for kernels: neither a block device nor swapd can do it"
                .to_owned(),
        );
    }
    let ZeroPages { outs, ins } = tally.zero_pages;
    if outs + ins > 0 {
        notes.push(format!(
            "{outs} page-outs and {ins} page-ins are of pages of zeros, which no device writes or \
             reads: they cost nothing"
        ));
    }
    if header.hides_zeros() {
        notes.push(trace::ZEROS_UNMARKED.to_owned());
    }
    notes.extend(tally.notes.iter().cloned());
    notes
}
