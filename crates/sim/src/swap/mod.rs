//! Swap architectures: the costs of a trace of page-outs and page-ins on two tiers.
//!
//! `policy::tiers` has the architectures that can be built and decides what moves; `driver` counts the moves.
//! `clairvoyant`, a bound, is here. `readahead` rewrites a trace as if the kernel had read ahead, and `queue` lets
//! operations wait for the slow device. `as_recorded` decides a swap server's recording again.

mod as_recorded;
mod clairvoyant;
mod driver;
mod limited;
mod live;
mod outcome;
pub(crate) mod owners;
mod queue;
mod readahead;
mod request;
mod sample_error;
mod sampled;
mod slices;
mod tally;

pub use as_recorded::{AsRecorded, as_recorded};
pub use limited::{bytes_per_page, simulate_within};
pub(crate) use live::LiveCell;
pub use outcome::{Outcome, ProcessCounts, Ranges, ReadaheadPages, TierCounts, TimeRange, Wear};
pub use policy::tiers::{Architecture, OptionSpec, Profile, Role, Settings, Values};
pub use request::{CleanEvictions, Readahead, SimulateRequest};
pub use sample_error::{SimulateError, SimulateSample, TierError};
pub use sampled::{refuse_unscalable, simulate_sampled};
pub use slices::Marks;
pub use tally::{Counts, ZeroPages};

use slices::{Cutter, Sliced};
use tally::Tally;

use crate::devices::Latency;
use crate::error::Error;
use clairvoyant::Clairvoyant;
use driver::{Cell, Driver, ReplayRules};
use outcome::TraceFacts;
use policy::placement::{Latencies, Placement};
use policy::tiers::{self, Build, Effective, Rules, Setup};
use queue::{Queue, Times};
use rayon::prelude::*;
use readahead::KernelReadahead;
use std::collections::BTreeMap;
use types::{Cancelled, Events, Nanos, Progress};

/// Every architecture: those that can be built, and the bound.
pub const CATALOG: &[Architecture] = &{
    let systems = tiers::CATALOG;
    let mut all = [clairvoyant::ARCHITECTURE; tiers::CATALOG.len() + 1];
    let mut row = 0;
    while row < systems.len() {
        all[row] = systems[row];
        row += 1;
    }
    all
};

/// The row of this name.
///
/// # Errors
/// `Usage`, with the names of all architectures.
pub fn find(name: &str) -> Result<&'static Architecture, Error> {
    CATALOG.iter().find(|architecture| architecture.name == name).ok_or_else(|| {
        let names: Vec<&str> = CATALOG.iter().map(|architecture| architecture.name).collect();
        Error::usage(format!("no architecture '{name}'; known are {}", names.join(", ")))
    })
}

/// Frames of the fast tier.
fn capacity(request: &SimulateRequest) -> u64 {
    request.fast_bytes / request.page_bytes
}

/// Time of each operation on a page, by this figure of each latency's range.
fn latencies(request: &SimulateRequest, figure: fn(&Latency) -> u64) -> Latencies {
    let (fast, slow) = (&request.fast, &request.slow);
    Latencies {
        slow_read: figure(&slow.read) as f64,
        slow_write: figure(&slow.write) as f64,
        fast_read: figure(&fast.read) as f64,
        fast_write: figure(&fast.write) as f64,
    }
}

/// A cell with the latencies of this figure.
fn cell(
    request: &SimulateRequest,
    options: &Effective,
    figure: fn(&Latency) -> u64,
) -> Box<dyn Cell> {
    let (capacity, latencies) = (capacity(request), latencies(request, figure));
    let rules = ReplayRules {
        counts_readahead: request.readahead != Readahead::Off,
        infers_clean: request.clean_evictions == CleanEvictions::Inferred,
    };
    let setup = Setup { capacity, latencies, options, is_live: false };
    let queue = request.queueing.then(|| queue(request, figure));
    let built = tiers::build(&request.architecture, &setup, Replayed { rules, queue });
    built.unwrap_or_else(|| Box::new(Clairvoyant::new(&setup, rules.infers_clean)))
}

/// The queue of the slow device, with the latencies of this figure.
fn queue(request: &SimulateRequest, figure: fn(&Latency) -> u64) -> Queue {
    let (fast, slow) = (&request.fast, &request.slow);
    let times = Times {
        fast_read: figure(&fast.read),
        fast_write: figure(&fast.write),
        slow_read: figure(&slow.read),
        slow_write: figure(&slow.write),
        readahead: outcome::read_along_ns(slow, request.page_bytes, figure),
    };
    Queue::new(times, slow.units())
}

/// Makes a cell of a placement.
struct Replayed {
    rules: ReplayRules,
    queue: Option<Queue>,
}

impl Build for Replayed {
    type Made = Box<dyn Cell>;

    fn build<P: Placement + Send + 'static>(self, placement: P, rules: Rules) -> Box<dyn Cell> {
        Box::new(Driver::new(placement, rules, self.rules, self.queue))
    }
}

/// Replays the whole trace against one architecture.
///
/// # Errors
/// `Usage` for an unknown architecture, option, value or profile; errors of reading the trace;
/// `Cancelled` if `progress` cancels.
pub fn simulate(
    source: &mut dyn trace::Source,
    request: &SimulateRequest,
    progress: &dyn Progress,
) -> Result<Outcome, Error> {
    let requests = std::slice::from_ref(request);
    let mut outcomes = simulate_many(source, requests, &Marks::default(), progress);
    outcomes.pop().expect("one request has one result")
}

/// Replays the trace once against many architectures, on all cores. Results are in the order of the
/// requests and do not depend on the number of cores. An invalid request fails by itself; a
/// trace that cannot be read fails all. With `marks` the outcomes also have the counts of each
/// slice of the trace.
pub fn simulate_many(
    source: &mut dyn trace::Source,
    requests: &[SimulateRequest],
    marks: &Marks,
    progress: &dyn Progress,
) -> Vec<Result<Outcome, Error>> {
    let start = |request: &SimulateRequest| {
        refuse_other_traces(request, source.header())?;
        RequestCells::start(request)
    };
    let mut started: Vec<Result<RequestCells, Error>> = requests.iter().map(start).collect();
    let mut cells: Vec<&mut Sliced> =
        started.iter_mut().flatten().flat_map(|request| &mut request.cells).collect();
    let timeline = match replay(source, &mut cells, marks, progress) {
        Ok(timeline) => timeline,
        Err(error) => return share_failure(error, started),
    };
    let active = timeline.active_ns().map(Nanos);
    let facts = TraceFacts { header: source.header(), active };
    let at_end = AtEnd { progress, events: source.header().events };
    let finish = |(started, request): (Result<RequestCells, Error>, &SimulateRequest)| {
        let RequestCells { options, cells, has_range } = started?;
        let finished = cells.into_par_iter().map(|cell| cell.finish(marks, &at_end));
        let finished: Vec<_> = finished.collect::<Result<_, Error>>()?;
        let (tallies, mut slices): (Vec<Tally>, Vec<_>) = finished.into_iter().unzip();
        let outcome = Outcome::new(request, options, &tallies, has_range, &facts);
        Ok(Outcome { slices: slices.swap_remove(0), ..outcome })
    };
    started.into_par_iter().zip(requests.par_iter()).map(finish).collect()
}

/// Refuses a request that needs what the trace lacks.
fn refuse_other_traces(request: &SimulateRequest, header: &trace::Header) -> Result<(), Error> {
    let (found, wanted) = (header.page_bytes, request.page_bytes);
    if found != wanted {
        let why = format!("the trace has pages of {found} bytes, the request of {wanted}");
        return Err(Error::usage(why));
    }
    if request.readahead != Readahead::Off && !header.is_of_swap() {
        let name = request.readahead.name();
        return Err(Error::usage(format!(
            "readahead={name} needs a recording of swap: this trace has no page faults"
        )));
    }
    let has_slots = header.recorders().any(trace::recording::About::has_slots);
    if request.readahead == Readahead::Recorded && has_slots && header.recorders().count() > 1 {
        return Err(Error::usage(
            "readahead=recorded needs recordings that all show which faults read the device: of those \
             that this trace joins, at least one was made without BPF; import only those made with BPF, \
             or take readahead=kernel, which assumes the kernel's rules",
        ));
    }
    if request.readahead == Readahead::Recorded && (has_slots || !header.has_durations) {
        return Err(Error::usage(
            "readahead=recorded needs a recording that shows which faults read the device, as \
             `pagewise-agent record` makes with BPF: this trace does not; readahead=kernel assumes \
             the kernel's rules",
        ));
    }
    if request.queueing && request.slow.compression.is_some() {
        return Err(Error::usage(format!(
            "queueing=yes needs a slow device that is no memory: programs copy pages to and from {} \
             themselves, so nothing waits for it",
            request.slow.name
        )));
    }
    if request.queueing && !header.has_clock {
        return Err(Error::usage("queueing=yes needs a trace with a clock: this one has no times"));
    }
    Ok(())
}

/// Every option of the request's architecture with its value in effect.
///
/// # Errors
/// `Usage` for an unknown architecture, option, value or profile.
pub fn effective_options(
    request: &SimulateRequest,
) -> Result<BTreeMap<&'static str, String>, Error> {
    RequestCells::start(request).map(|cells| cells.options)
}

/// Forwards the check for cancellation once every event was replayed.
struct AtEnd<'a> {
    progress: &'a dyn Progress,
    events: u64,
}

impl Progress for AtEnd<'_> {
    fn advance(&self, _done: u64, _total: u64) -> Result<(), Cancelled> {
        self.progress.advance(self.events, self.events)
    }
}

/// The cells of one request, which differ in their latencies.
struct RequestCells {
    options: BTreeMap<&'static str, String>,
    /// One cell with typical latencies; then, if that makes a difference and was asked for, one with low and
    /// one with high latencies.
    cells: Vec<Sliced>,
    /// Whether the counts are known over the whole range of latencies.
    has_range: bool,
}

impl RequestCells {
    fn start(request: &SimulateRequest) -> Result<RequestCells, Error> {
        let architecture = find(&request.architecture)?;
        if architecture.role == Role::Bound
            && (request.queueing || request.readahead != Readahead::Off)
        {
            return Err(Error::usage(format!(
                "{} bounds the I/O time of demand reads on an idle device: it has neither readahead nor \
                 queueing",
                architecture.name
            )));
        }
        let options = Effective::resolve(
            architecture.name,
            architecture.options,
            architecture.profiles,
            request.profile.as_deref(),
            &request.options,
        )
        .map_err(Error::usage)?;
        let mut cells = vec![cell(request, &options, |latency| latency.typical_ns)];
        let depends = (architecture.decides_by_latency || request.queueing)
            && (request.fast.has_range() || request.slow.has_range());
        if depends && request.replays_range {
            cells.push(cell(request, &options, |latency| latency.low_ns));
            cells.push(cell(request, &options, |latency| latency.high_ns));
        }
        let is_rewritten = request.readahead == Readahead::Kernel;
        let cells = cells.into_iter().map(|cell| Sliced::new(cell, is_rewritten)).collect();
        let has_range = !depends || request.replays_range;
        Ok(RequestCells { options: options.into_values(), cells, has_range })
    }
}

/// Feeds every batch to every cell. Returns the times of the events.
fn replay(
    source: &mut dyn trace::Source,
    cells: &mut [&mut Sliced],
    marks: &Marks,
    progress: &dyn Progress,
) -> Result<trace::Timeline, Error> {
    let total = source.header().events;
    let mut events = Events::default();
    let mut done = 0;
    let mut timeline = trace::Timeline::default();
    let mut cutter = Cutter::new(marks);
    let needs_rewritten = cells.iter().any(|cell| cell.is_rewritten);
    let mut readahead = needs_rewritten.then(KernelReadahead::new);
    while source.next_batch(&mut events)? {
        let parts = cutter.parts(&events);
        let rewritten = readahead.as_mut().map(|readahead| match parts.is_empty() {
            true => vec![readahead.rewrite(&events)],
            false => parts.iter().map(|part| readahead.rewrite(part)).collect(),
        });
        let recorded = if parts.is_empty() { std::slice::from_ref(&events) } else { &parts };
        let replay = |cell: &mut &mut Sliced| match &rewritten {
            Some(rewritten) if cell.is_rewritten => cell.replay(rewritten),
            _ => cell.replay(recorded),
        };
        if let [only] = cells {
            replay(only);
        } else {
            cells.par_iter_mut().for_each(replay);
        }
        timeline.add(&events.time_ns);
        done += events.len() as u64;
        progress.advance(done, total)?;
    }
    Ok(timeline)
}

/// Gives the error to the first valid request, and its text to the others; requests that failed
/// by themselves keep their reason.
fn share_failure(
    error: Error,
    started: Vec<Result<RequestCells, Error>>,
) -> Vec<Result<Outcome, Error>> {
    let (kind, text) = (error.kind(), error.to_string());
    let mut original = Some(error);
    started
        .into_iter()
        .map(|request| match request {
            Err(own) => Err(own),
            Ok(_) => Err(original.take().unwrap_or_else(|| Error::new(kind, text.clone()))),
        })
        .collect()
}
